use super::*;
use crate::{Catalog, Read as _, backend::crash::CrashDisk, store::tables::META, testing::catalog};

const LIVE: DocumentStore = DocumentStore {
    role: DocumentRole::Live,
    catalog: [7; 16],
};

fn step(catalog: &Catalog, run: impl FnOnce(&mut Txn)) {
    let mut txn = catalog.begin().unwrap();
    run(&mut txn);
    let _ = txn.commit().unwrap();
}

fn parts(catalog: &Catalog) -> u64 {
    catalog.read().unwrap().count(&DOCUMENT_PARTS).unwrap()
}

/// Bytes that tell when two parts change places.
fn text(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 251 + at) as u8).collect()
}

/// Documents of any size come back as they were written, in another run too, and leave nothing behind.
#[test]
fn documents_of_any_size_come_back() {
    let disk = CrashDisk::default();
    let catalog = Catalog::on_disk(&disk).unwrap();
    let lengths = [0, 1, PART - 1, PART, PART + 1, 9 << 20];
    let path = |length: usize| format!("leaves/{length:08}.json");
    step(&catalog, |txn| {
        for length in lengths {
            txn.put_document(&LIVE, &path(length), &text(length)).unwrap();
            // The step that writes one can read it.
            assert_eq!(txn.document(&LIVE, &path(length)).unwrap(), Some(text(length)));
        }
    });
    drop(catalog);
    let catalog = Catalog::on_disk(&disk).unwrap();
    let snapshot = catalog.read().unwrap();
    for length in lengths {
        assert!(snapshot.document(&LIVE, &path(length)).unwrap() == Some(text(length)));
    }
    let whole: u64 = lengths.iter().map(|length| length.div_ceil(PART) as u64).sum();
    assert_eq!(snapshot.count(&DOCUMENT_PARTS).unwrap(), whole);
    assert_eq!(snapshot.documents(&LIVE, "").unwrap(), lengths.map(path));
    drop(snapshot);
    step(&catalog, |txn| {
        for length in lengths {
            assert!(txn.remove_document(&LIVE, &path(length)).unwrap());
            assert!(!txn.remove_document(&LIVE, &path(length)).unwrap());
        }
    });
    let snapshot = catalog.read().unwrap();
    assert_eq!(snapshot.document(&LIVE, &path(1)).unwrap(), None);
    assert_eq!(
        (
            snapshot.count(&DOCUMENTS).unwrap(),
            snapshot.count(&DOCUMENT_PARTS).unwrap()
        ),
        (0, 0)
    );
    assert!(snapshot.document_stores().unwrap().is_empty());
}

/// A document in the place of a longer one is itself, with no part of the other; a snapshot keeps what it saw.
#[test]
fn a_document_takes_the_place_of_another() {
    let catalog = catalog();
    for length in [3 * PART, PART + 5, 5, 0, 2 * PART] {
        let before = catalog.read().unwrap();
        let was = before.document(&LIVE, "CURRENT").unwrap();
        step(&catalog, |txn| {
            txn.put_document(&LIVE, "CURRENT", &text(length)).unwrap()
        });
        assert_eq!(before.document(&LIVE, "CURRENT").unwrap(), was);
        drop(before);
        let now = catalog.read().unwrap().document(&LIVE, "CURRENT").unwrap();
        assert!(now == Some(text(length)), "{length}");
        assert_eq!(parts(&catalog), length.div_ceil(PART) as u64);
    }
    step(&catalog, |txn| txn.forget_mesh().unwrap());
    assert!(catalog.read().unwrap().document_stores().unwrap().is_empty());
    assert_eq!(parts(&catalog), 0);
}

/// Stores and paths are told apart, and listed in order: a path may begin with another, or have any text in it.
#[test]
fn stores_and_paths_stay_apart() {
    let catalog = catalog();
    let store = |role, catalog| DocumentStore { role, catalog };
    let stores = [
        store(DocumentRole::Full, [0xff; 16]),
        store(DocumentRole::Live, [0; 16]),
        store(DocumentRole::Live, [0xff; 16]),
        store(DocumentRole::Replica, [0xff; 16]),
    ];
    let paths = ["", "CURRENT", "a", "a/", "a/b", "a/b\0", "a/ß", "a/\u{10ffff}", "b"];
    let said = |store: &DocumentStore, path: &str| format!("{store:?} {path}").into_bytes();
    assert!(catalog.read().unwrap().document_stores().unwrap().is_empty());
    step(&catalog, |txn| {
        for store in stores.iter().rev() {
            for path in paths.iter().rev() {
                txn.put_document(store, path, &said(store, path)).unwrap();
            }
        }
    });
    let snapshot = catalog.read().unwrap();
    assert_eq!(snapshot.document_stores().unwrap(), stores);
    for store in &stores {
        assert_eq!(snapshot.documents(store, "").unwrap(), paths);
        assert_eq!(snapshot.documents(store, "a/").unwrap(), &paths[3..8]);
        assert!(snapshot.documents(store, "c").unwrap().is_empty());
        for path in paths {
            assert_eq!(snapshot.document(store, path).unwrap().unwrap(), said(store, path));
        }
        assert_eq!(snapshot.document(store, "current").unwrap(), None);
    }
    let other = store(DocumentRole::Replica, [0; 16]);
    assert!(snapshot.documents(&other, "").unwrap().is_empty());
    assert_eq!(snapshot.document(&other, "CURRENT").unwrap(), None);
}

/// A part that is changed, gone, doubled or from another document is noticed, and so is a row that was moved.
#[test]
fn changed_documents_are_noticed() {
    let catalog = catalog();
    let bytes = text(2 * PART + 9);
    let mut txn = catalog.begin().unwrap();
    txn.put_document(&LIVE, "a", &bytes).unwrap();
    txn.put_document(&LIVE, "b", &text(40)).unwrap();
    let good = [0, 1, 2].map(|number| txn.get(&DOCUMENT_PARTS, &LIVE.part("a", number)).unwrap().unwrap());
    let mut flipped = good[1].clone();
    flipped[100] ^= 1;
    for (number, part) in [(1, &flipped), (1, &good[0]), (0, &good[1]), (3, &good[2])] {
        txn.put(&DOCUMENT_PARTS, &LIVE.part("a", number), part).unwrap();
        let read = txn.document(&LIVE, "a");
        assert!(matches!(read, Err(StoreError::RowChanged("document-parts-1"))));
        txn.remove(&DOCUMENT_PARTS, &LIVE.part("a", number)).unwrap();
        if let Some(good) = good.get(number as usize) {
            assert!(txn.document(&LIVE, "a").is_err(), "part {number} is gone");
            txn.put(&DOCUMENT_PARTS, &LIVE.part("a", number), good).unwrap();
        }
        assert!(txn.document(&LIVE, "a").unwrap().as_ref() == Some(&bytes));
    }
    let row = txn.get(&DOCUMENTS, &LIVE.document("a")).unwrap().unwrap();
    txn.put(&DOCUMENTS, &LIVE.document("b"), &row).unwrap();
    let read = txn.document(&LIVE, "b");
    assert!(matches!(read, Err(StoreError::RowChanged("documents-1"))));
    txn.put(&META, b"x", &row).unwrap();
    assert!(txn.meta("x").is_err());
}
