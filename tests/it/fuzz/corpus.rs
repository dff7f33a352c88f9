//! The fuzzer's corpus, decoded again in the ordinary test run: its seeds and every input that once broke a decoder.

#[path = "../../../fuzz/src/decoders/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "some of it is for the programs of the fuzzer")]
mod decoders;

use std::{collections::BTreeSet, fs, path::Path};

// The shared decoders name the ingest code as their parent has it.
use sovm::ingest;

use super::Numbers;
use crate::sample::hex;

pub(super) const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus");

/// SOP-90, SOP-131: whatever stands in the corpus, and a few changes of it, keeps every decoder's promises.
#[test]
fn the_corpus_decodes_without_a_panic() {
    for target in decoders::TARGETS {
        let mut numbers = Numbers::new(target.max_len as u64);
        let files = files_of(target.name);
        assert!(!files.is_empty(), "{} has no seeds", target.name);
        let others: Vec<Vec<u8>> = files.iter().map(|(_, bytes)| bytes.clone()).collect();
        for (name, bytes) in &files {
            assert!(
                bytes.len() <= target.max_len,
                "{}/{name} is longer than the fuzzer tries",
                target.name
            );
            replay(target, name, bytes);
            for _ in 0..20 {
                let mut changed = bytes.clone();
                super::mutate(&mut changed, &others, &mut numbers);
                replay(target, name, &changed);
            }
        }
    }
}

fn replay(target: &decoders::Target, name: &str, bytes: &[u8]) {
    let decoded = std::panic::catch_unwind(|| (target.decode)(bytes));
    assert!(decoded.is_ok(), "{}, from {name}: {}", target.name, hex(bytes));
}

fn files_of(target: &str) -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(CORPUS).join(target);
    let mut files: Vec<_> = fs::read_dir(&dir)
        .unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
        .map(|file| {
            let file = file.unwrap();
            (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// A target without a program never runs in the fuzzer; a directory without a target is never read.
#[test]
fn every_target_has_a_program_and_seeds() {
    let targets: BTreeSet<String> = decoders::TARGETS.iter().map(|target| target.name.to_owned()).collect();
    let names = |dir: &Path| -> BTreeSet<String> {
        let files = fs::read_dir(dir).unwrap();
        files
            .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(Path::new(CORPUS)), targets);
    assert_eq!(names(&Path::new(CORPUS).join("../src/bin")), targets);
}
