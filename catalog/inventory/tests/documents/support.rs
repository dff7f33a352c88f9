//! Vectors, edits of them, and the schemas.

use std::{collections::HashMap, sync::LazyLock};

use jsonschema::Validator;
use sovm_inventory::doc::{DocKind, Document};

macro_rules! vectors {
    ($($name:ident = $file:literal),* $(,)?) => {
        $(pub(crate) const $name: &str = include_str!(concat!("../vectors/", $file));)*
        /// Every vector with its file name.
        pub(crate) const VECTORS: &[(&str, &str)] = &[$(($file, $name)),*];
    };
}

vectors! {
    CATALOG_1 = "catalog-1.json",
    CATALOG_2 = "catalog-2.json",
    CURRENT = "CURRENT",
    ROOT_1 = "root-1.json",
    ROOT_41 = "root-41.json",
    ROOT_42 = "root-42.json",
    ROOT_FOREIGN = "root-43-foreign.json",
    ROOT_WITHOUT_HISTORY = "root-without-history.json",
    LEAF = "leaf.json",
    LEAF_STRUCTURE = "leaf-structure.json",
    MANIFEST = "manifest.json",
    MANIFEST_STRUCTURE = "manifest-structure.json",
    HISTORY = "HISTORY",
    HISTORY_OPT_IN = "HISTORY-opt-in",
    SEGMENT_EXPIRY = "segment-expiry.jsonl",
    SEGMENT_RESTORE = "segment-restore.jsonl",
    JOURNAL = "journal.json",
    PENDING = "pending.json",
}

pub(crate) const P: &str = "14100287";
pub(crate) const E0: &str = "01a17b02-1111-7222-8333-444455556666";
pub(crate) const E1: &str = "01a17f00-0000-7abc-9def-000000000001";
pub(crate) const E2: &str = "01a18e63-e292-7250-a332-b79d9b7a7efd";
pub(crate) const E3: &str = "01a18e76-2bad-7480-abfe-2ba8a6889a45";
pub(crate) const SHA_OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Replaces the only occurrence of `from`; a test that edits nothing would show nothing.
pub(crate) fn edit(text: &str, from: &str, to: &str) -> String {
    assert_eq!(
        text.matches(from).count(),
        1,
        "{from:?} must stand exactly once in {text}"
    );
    text.replacen(from, to, 1)
}

/// The value of a key whose value is a string, in its first occurrence.
pub(crate) fn value_of<'a>(text: &'a str, key: &str) -> &'a str {
    let start = text.find(&format!("\"{key}\":\"")).unwrap() + key.len() + 4;
    &text[start..start + text[start..].find('"').unwrap()]
}

/// What the document's JSON Schema makes of a broken document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schema {
    /// It refuses it too.
    Refuses,
    /// It has no word for what is wrong, so it accepts.
    Silent,
}

/// Asserts that the edited vector is refused with exactly this message, and what its schema makes of it.
pub(crate) fn refused<T: Document + std::fmt::Debug>(
    vector: &str,
    from: &str,
    to: &str,
    schema: Schema,
    message: &str,
) {
    let text = edit(vector, from, to);
    assert_eq!(
        T::decode(text.as_bytes()).unwrap_err().to_string(),
        message,
        "after {from:?} became {to:?}"
    );
    let accepted = schema_accepts(T::KIND, &text);
    assert_eq!(
        accepted,
        schema == Schema::Silent,
        "schema of {} after {from:?} became {to:?}",
        T::KIND
    );
}

/// Asserts that the edited vector is still read, and gives it.
pub(crate) fn accepted<T: Document>(vector: &str, from: &str, to: &str) -> T {
    T::decode(edit(vector, from, to).as_bytes()).unwrap()
}

macro_rules! schemas {
    ($($file:literal),*) => {
        /// Every schema with its file name.
        pub(crate) static SCHEMAS: LazyLock<HashMap<&str, Validator>> = LazyLock::new(|| HashMap::from([$((
            $file,
            jsonschema::draft202012::new(&serde_json::from_str(include_str!(concat!("../../schemas/", $file))).unwrap())
                .unwrap(),
        )),*]));
    };
}

schemas!(
    "catalog.json",
    "current.json",
    "root.json",
    "leaf.json",
    "history.json",
    "segment-header.json",
    "segment-line.json",
    "manifest.json",
    "journal.json",
    "pending.json",
    "expunged.json"
);

/// Whether the schema of a document accepts a text.
pub(crate) fn schema_accepts(kind: DocKind, text: &str) -> bool {
    let file = match kind {
        DocKind::Catalog => "catalog.json",
        DocKind::Current => "current.json",
        DocKind::Root => "root.json",
        DocKind::Leaf => "leaf.json",
        DocKind::History => "history.json",
        DocKind::Manifest => "manifest.json",
        DocKind::Journal => "journal.json",
        DocKind::Pending => "pending.json",
        DocKind::Expunged => "expunged.json",
        DocKind::Segment => {
            let files = std::iter::once("segment-header.json").chain(std::iter::repeat("segment-line.json"));
            return text.lines().zip(files).all(|(line, file)| fits(file, line));
        }
    };
    fits(file, text)
}

fn fits(file: &str, text: &str) -> bool {
    serde_json::from_str(text).is_ok_and(|value: serde_json::Value| SCHEMAS[file].is_valid(&value))
}
