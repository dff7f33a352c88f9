//! Rules that stand in a document, a manifest or a lint, and would be lost without anything failing.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Rust files below `dir` that are no tests, with their text up to the tests inside.
fn sources(dir: &str) -> Vec<(String, String)> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "tests" && name != "target" {
                walk(&path, found);
            } else if name.ends_with(".rs") && !["tests.rs", "testing.rs"].contains(&name.as_str()) {
                found.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    walk(&root().join(dir), &mut paths);
    assert!(!paths.is_empty(), "nothing is below {dir}");
    let text = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
        (path.display().to_string(), code)
    };
    paths.into_iter().map(text).collect()
}

const CRATES: [&str; 5] = [
    "catalog/object/src",
    "catalog/tables/src",
    "mesh/src",
    "recovery/src",
    "node/src",
];

/// A part of a document from one heading to the next.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, after) = page
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("{heading} is gone"));
    after.split("\n## ").next().unwrap_or_default()
}

/// SOP-85: each unverified read of the blob store is banned by clippy, CI runs clippy, and no code lifts the ban.
#[test]
fn unverified_reads_are_banned() {
    let bans = read("clippy.toml");
    for method in [
        "reader",
        "reader_with_opts",
        "export_ranges",
        "export_ranges_with_opts",
        "export",
        "export_with_opts",
    ] {
        let ban = format!("{{ path = \"iroh_blobs::api::blobs::Blobs::{method}\",");
        assert!(bans.contains(&ban), "{method} is not banned");
    }
    // Clippy's driver compiles the tests there, and what it warns of is an error.
    let run = read(".ci/run");
    let linted = |line: &str| {
        line.starts_with("RUSTC_WORKSPACE_WRAPPER=\"$driver\"")
            && line.contains("warnings")
            && line.contains("cargo test")
    };
    assert!(run.contains("bin/clippy-driver") && run.lines().any(linted));
    for dir in CRATES {
        for (path, code) in sources(dir) {
            assert!(!code.contains("disallowed_methods"), "{path} lifts a ban");
        }
    }
}

/// SOP-38: outside tests a key reference is drawn where it is written; no request, setting or option carries one in.
#[test]
fn key_references_are_drawn() {
    let mut drawn = 0;
    for (path, code) in ["node/src", "recovery/src"].into_iter().flat_map(sources) {
        for after in code.split(".with_key_ref(").skip(1) {
            assert!(
                after.starts_with("KeyRef::generate())"),
                "{path} chooses a key reference"
            );
            drawn += 1;
        }
    }
    assert!(drawn > 0);
    for page in ["node/src/api/request.rs", "node/src/config.rs"] {
        assert!(!read(page).contains("key_ref"), "{page}");
    }
}

/// SOP-39: the query engine never sees a key reference.
#[test]
fn queries_know_no_key_reference() {
    for (path, code) in sources("node/src/query") {
        assert!(!code.contains("key_ref") && !code.contains("KeyRef"), "{path}");
    }
}

/// SOP-51: there is one hash in the crates that name, seal and send objects, so there is nothing else an object could be
/// named by. The Inventory's documents have hashes of their own (INV-166), and nothing but that crate depends on them.
#[test]
fn one_hash_names_objects() {
    let manifest = read("Cargo.toml");
    let (_, dependencies) = manifest.split_once("[workspace.dependencies]").unwrap();
    let names: Vec<&str> = dependencies
        .lines()
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = ").map(|(name, _)| name))
        .collect();
    assert!(names.contains(&"blake3"));
    let others = [
        "sha1",
        "sha2",
        "sha3",
        "md5",
        "md-5",
        "blake2",
        "xxhash-rust",
        "twox-hash",
        "siphasher",
        "ahash",
    ];
    for hash in others {
        assert!(["sha2", "md-5"].contains(&hash) || !names.contains(&hash), "{hash}");
    }
    for member in ["catalog/object", "catalog/tables", "mesh", "recovery", "node"] {
        let own = read(&format!("{member}/Cargo.toml"));
        let (_, dependencies) = own.split_once("[dependencies]").unwrap();
        for line in dependencies.lines().take_while(|line| !line.starts_with('[')) {
            let shared = line.is_empty() || line.starts_with('#') || line.contains("workspace = true");
            assert!(shared, "{member} has a dependency of its own: {line}");
            let hash = others.iter().find(|hash| line.split(['.', ' ']).next() == Some(**hash));
            assert_eq!(hash, None, "{member} has a second hash");
        }
    }
}

/// SOP-36, SOP-120: the document for people says what a holder and the network see: lengths and counts of modules, sizes, the
/// clear reference, times, and who talks from where.
#[test]
fn what_stays_visible_is_written_down() {
    let page = read("docs/security.md");
    let seen = section(&page, "## What a blind replica sees");
    for part in [
        "padded size",
        "key reference",
        "lengths of encrypted modules",
        "number of row groups and column chunks",
        "Module lengths are not padded",
        "who connects from where",
        "site ids, roles, and times",
    ] {
        assert!(seen.contains(part), "{part} is not said");
    }
    let parties = section(&page, "## Who sees what");
    assert!(parties.contains("| relay, network | addresses, times, amounts"));
}

/// SOP-106, SOP-117: it says that whoever holds a key reads everything under it, and what to do about swap.
#[test]
fn what_is_not_protected_is_written_down() {
    let page = read("docs/security.md");
    assert!(
        section(&page, "## What is not protected").contains("Whoever holds an object's key sees every value in it")
    );
    assert!(section(&page, "## On disk").contains("encrypt swap"));
}
