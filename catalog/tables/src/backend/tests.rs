use proptest::prelude::*;
use redb::{Database, ReadableDatabase as _, ReadableTableMetadata as _, StorageBackend as _, TableDefinition};
use sovm_object::secret::DatabaseKey;

use super::{
    SECTOR, XtsBackend,
    crash::CrashDisk,
    salt::{CatalogKeys, SaltError},
};

const ROWS: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("rows");

fn keys() -> CatalogKeys {
    CatalogKeys::derive(&DatabaseKey::from_bytes([7; 32]), &[9; 32])
}

fn over(disk: &CrashDisk) -> XtsBackend<CrashDisk> {
    XtsBackend::new(disk.clone(), &keys().xts)
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

/// DESIGN §5: new space reads as zeros before anything was written there.
#[test]
fn growth_reads_as_zeros() {
    let disk = CrashDisk::default();
    let backend = over(&disk);
    backend.set_len(4096).unwrap();
    backend.write(0, &[1; SECTOR]).unwrap();
    backend.set_len(8192).unwrap();
    let mut out = vec![9; 4096];
    backend.read(4096, &mut out).unwrap();
    assert_eq!(out, vec![0; 4096]);
    assert!(backend.set_len(100).is_err());
}

/// DESIGN §5: equal sectors at two places look different, so the file shows no pattern.
#[test]
fn equal_sectors_differ_on_disk() {
    let disk = CrashDisk::default();
    let backend = over(&disk);
    backend.set_len(2 * SECTOR as u64).unwrap();
    backend.write(0, &[5; 2 * SECTOR]).unwrap();
    let bytes = disk.bytes();
    assert_ne!(bytes[..SECTOR], bytes[SECTOR..]);
}

/// The bytes on disk are AES-256-XTS with the sector number as tweak, and nothing of our own.
#[test]
fn layout_is_plain_xts() {
    use aes::{Aes256, cipher::KeyInit as _};
    let disk = CrashDisk::default();
    let backend = over(&disk);
    backend.set_len(4 * SECTOR as u64).unwrap();
    backend.write(3 * SECTOR as u64, &[0xa5; SECTOR]).unwrap();
    let keys = keys();
    let xts = xts_mode::Xts128::new(
        Aes256::new((&*keys.xts.data).into()),
        Aes256::new((&*keys.xts.tweak).into()),
    );
    let mut expected = [0xa5; SECTOR];
    xts.encrypt_sector(&mut expected, 3u128.to_le_bytes().into());
    assert_eq!(disk.bytes()[3 * SECTOR..], expected);
}

#[test]
fn reads_past_the_end_fail() {
    let backend = over(&CrashDisk::default());
    backend.set_len(512).unwrap();
    assert!(backend.read(500, &mut [0; 20]).is_err());
    assert!(backend.write(500, &[0; 20]).is_err());
    assert!(backend.read(u64::MAX - 3, &mut [0; 20]).is_err());
}

proptest! {
    /// DESIGN §5: unaligned writes by read-modify-write give what a plain file gives.
    #[test]
    fn behaves_like_a_plain_file(writes in prop::collection::vec((0usize..8000, prop::collection::vec(any::<u8>(), 1..1500)), 1..30)) {
        let backend = over(&CrashDisk::default());
        let mut plain = vec![0; 10_240];
        backend.set_len(10_240).unwrap();
        for (offset, data) in writes {
            backend.write(offset as u64, &data).unwrap();
            plain[offset..offset + data.len()].copy_from_slice(&data);
            let mut out = vec![0; data.len() + 7];
            backend.read(offset as u64, &mut out).unwrap();
            prop_assert_eq!(&out[..], &plain[offset..offset + data.len() + 7]);
        }
        let mut all = vec![0; 10_240];
        backend.read(0, &mut all).unwrap();
        prop_assert_eq!(all, plain);
    }
}

fn commit(db: &Database, round: u64) -> Result<(), redb::Error> {
    let mut txn = db.begin_write()?;
    txn.set_two_phase_commit(true);
    txn.set_quick_repair(true);
    {
        let mut table = txn.open_table(ROWS)?;
        for row in 0..20 {
            table.insert(round * 20 + row, &[round as u8; 700][..])?;
        }
    }
    Ok(txn.commit()?)
}

fn rounds_found(disk: &CrashDisk) -> u64 {
    let db = Database::builder()
        .create_with_backend(over(disk))
        .expect("opens after a crash");
    let txn = db.begin_read().unwrap();
    let Ok(table) = txn.open_table(ROWS) else { return 0 };
    let rows = table.len().unwrap();
    assert_eq!(rows % 20, 0, "a commit is whole or absent");
    for row in 0..rows {
        let value = table.get(row).unwrap().expect("rows have no gaps");
        assert_eq!(value.value(), &[(row / 20) as u8; 700][..]);
    }
    rows / 20
}

/// A power cut at every single write and sync: the file opens, holds whole commits only, and every commit that returned.
#[test]
fn power_cut_at_every_step() {
    let probe = CrashDisk::default();
    let db = Database::builder().create_with_backend(over(&probe)).unwrap();
    let image = probe.bytes();
    let start = probe.steps();
    for round in 0..6 {
        commit(&db, round).unwrap();
    }
    let total = probe.steps() - start;
    drop(db);
    assert!(total > 30, "the test must see many steps, saw {total}");
    for at in 0..total {
        let disk = CrashDisk::with_image(image.clone());
        let db = Database::builder().create_with_backend(over(&disk)).unwrap();
        disk.die_at(disk.steps() + at);
        let done = (0..6).take_while(|round| commit(&db, *round).is_ok()).count() as u64;
        let crashed = disk.after_crash(at);
        drop(db);
        let found = rounds_found(&crashed);
        assert!(
            found == done || found == done + 1,
            "step {at}: {done} commits returned, {found} found"
        );
    }
}

/// DESIGN §5: planted words in keys, values and table names are nowhere in the file.
#[test]
fn planted_words_are_not_in_the_file() {
    const SECRETS: TableDefinition<'static, &'static str, &'static str> = TableDefinition::new("planted-table-name");
    let disk = CrashDisk::default();
    let db = Database::builder().create_with_backend(over(&disk)).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(SECRETS)
        .unwrap()
        .insert("planted-key-word", "planted-value-word")
        .unwrap();
    txn.commit().unwrap();
    drop(db);
    let bytes = disk.bytes();
    for word in ["planted", "redb"] {
        assert!(!contains(&bytes, word.as_bytes()), "{word} is readable");
    }
}

/// A wrong database key is named, before redb sees a byte.
#[test]
fn wrong_key_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.salt");
    CatalogKeys::load(&path, &DatabaseKey::from_bytes([1; 32]), true).unwrap();
    CatalogKeys::load(&path, &DatabaseKey::from_bytes([1; 32]), false).unwrap();
    let wrong = CatalogKeys::load(&path, &DatabaseKey::from_bytes([2; 32]), true).map(|_| ());
    assert!(matches!(wrong, Err(SaltError::WrongKey)));
    std::fs::write(&path, [2; 49]).unwrap();
    let newer = CatalogKeys::load(&path, &DatabaseKey::from_bytes([1; 32]), true).map(|_| ());
    assert!(matches!(newer, Err(SaltError::NewerFormat(2))));
    std::fs::write(&path, [1; 20]).unwrap();
    let short = CatalogKeys::load(&path, &DatabaseKey::from_bytes([1; 32]), true).map(|_| ());
    assert!(matches!(short, Err(SaltError::Damaged)));
}
