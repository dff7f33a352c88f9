//! The verifier in another language, on the same catalogue and the same breaks.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use super::*;
use crate::store::LocalStore;

type Break = fn(&Path);

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("listed") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

fn root(top: &Path, seq: u64) -> PathBuf {
    top.join(layout::root(Seq::new(seq).expect("a number")))
}

fn edit(file: &Path, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(file).expect("read");
    let changed = change(text.clone());
    assert_ne!(text, changed, "{}", file.display());
    fs::write(file, changed).expect("written");
}

/// Changes the newest root and makes `CURRENT` name it, so that only its content gives it away.
fn edit_head(top: &Path, change: impl FnOnce(&mut Root)) {
    let file = root(top, 36);
    let bytes = edited(&fs::read(&file).expect("read"), change);
    fs::write(&file, &bytes).expect("written");
    let current = edited::<Current>(&fs::read(top.join("CURRENT")).expect("read"), |current| {
        current.root.root_sha256 = Sha256::of(&bytes);
    });
    fs::write(top.join("CURRENT"), current).expect("written");
}

fn a_leaf(top: &Path) -> PathBuf {
    let root: Root = Document::decode(&fs::read(root(top, 20)).expect("read")).expect("a root");
    top.join(root.products[&product("population")].path())
}

fn an_edition(top: &Path) -> PathBuf {
    let root: Root = Document::decode(&fs::read(root(top, 36)).expect("read")).expect("a root");
    let leaf: Leaf = Document::decode(&fs::read(top.join(root.products[&product("population")].path())).expect("read"))
        .expect("a leaf");
    top.join(layout::edition(&leaf.product_id, &leaf.editions[7].edition_id))
}

const BREAKS: [(&str, Break); 16] = [
    ("CURRENT is missing", |top| {
        fs::remove_file(top.join("CURRENT")).expect("removed")
    }),
    ("CURRENT is no JSON", |top| {
        edit(&top.join("CURRENT"), |text| text[1..].to_owned())
    }),
    ("CURRENT lags", |top| {
        let earlier = Sha256::of(&fs::read(root(top, 35)).expect("read"));
        let current = edited::<Current>(&fs::read(top.join("CURRENT")).expect("read"), |current| {
            current.root.seq = Seq::new(35).expect("a number");
            current.root.root_sha256 = earlier;
        });
        fs::write(top.join("CURRENT"), current).expect("written");
    }),
    ("a root is missing", |top| {
        fs::remove_file(root(top, 17)).expect("removed")
    }),
    ("the first root is missing", |top| {
        fs::remove_file(root(top, 1)).expect("removed")
    }),
    ("a root has another byte", |top| {
        edit(&root(top, 12), |text| text.replace("a test", "a jest"))
    }),
    ("a root is cut", |top| {
        edit(&root(top, 12), |text| text[..text.len() - 1].to_owned())
    }),
    ("a root names another one before it", |top| {
        edit_head(top, |root| {
            let history = root.history.as_mut().expect("history fields");
            history.previous_root_sha256 = Some(Sha256::of(b"another"));
        });
    }),
    ("a leaf is missing", |top| {
        fs::remove_file(a_leaf(top)).expect("removed")
    }),
    ("a leaf has another byte", |top| {
        edit(&a_leaf(top), |text| text.replace("revisable", "revisible"))
    }),
    ("a change list comes from another leaf", |top| {
        edit_head(top, |root| {
            let history = root.history.as_mut().expect("history fields");
            history.changes[0].leaf_sha256.from = Some(Sha256::of(b"another"));
        });
    }),
    ("a change list is empty", |top| {
        edit_head(top, |root| {
            root.history.as_mut().expect("history fields").changes.clear()
        });
    }),
    ("a change list tells another state", |top| {
        edit_head(top, |root| {
            let history = root.history.as_mut().expect("history fields");
            history.changes[0].entries[0].from = Some(EntryStatus::State(EditionState::Withdrawn));
        });
    }),
    ("a manifest has another byte", |top| {
        edit(&an_edition(top).join("manifest.json"), |text| {
            text.replace("sovm", "some")
        });
    }),
    ("an edition's file is missing", |top| {
        fs::remove_file(an_edition(top).join("structures.json")).expect("removed")
    }),
    ("a data file has another byte", |top| {
        edit(&top.join("products/population/data/part-0003.parquet"), |text| {
            text.replace("rows", "cows")
        });
    }),
];

/// Whether the verifier finds a break; none without Python.
fn python(top: &Path) -> Option<bool> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verify.py");
    match Command::new("python3").arg(script).arg(top).output() {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(errors.is_empty(), "the verifier fails on its own: {errors}");
            Some(!output.status.success())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => panic!("python3: {error}"),
    }
}

/// INV-395, INV-321: a verifier of sixty lines that shares nothing with this crate passes what the writer wrote, and both
/// find each of sixteen breaks.
#[tokio::test]
async fn both_verifiers_find_every_break() {
    let folder = tempfile::tempdir().expect("a folder");
    let sound = folder.path().join("sound");
    fs::create_dir(&sound).expect("a folder");
    let mut fixture = Fixture::new(Arc::new(LocalStore::open(&sound).expect("a store"))).await;
    fixture.population().await;
    assert_eq!(fixture.verify().await.findings, []);
    let there = python(&sound);
    assert_ne!(there, Some(true), "the verifier finds fault with a sound catalogue");
    for (number, (name, break_it)) in BREAKS.iter().enumerate() {
        let broken = folder.path().join(number.to_string());
        copy_folder(&sound, &broken);
        break_it(&broken);
        let report = verify_store(&LocalStore::open(&broken).expect("a store")).await;
        assert_ne!(report.findings, [], "{name}");
        assert_eq!(
            report.passed(),
            name.starts_with("CURRENT"),
            "{name}: {:?}",
            report.findings
        );
        assert_eq!(there.map(|_| true), python(&broken), "{name}");
    }
    if there.is_none() {
        println!("skipped the verifier in Python: there is no python3 on this machine");
    }
}
