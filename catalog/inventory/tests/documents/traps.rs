//! Bytes that are no JSON, or JSON two readers could take differently.

use sovm_inventory::doc::{Current, Document, Leaf, Manifest, Root};

use super::support::{CURRENT, LEAF, MANIFEST, ROOT_42, edit};

fn current(text: impl AsRef<[u8]>) -> String {
    Current::decode(text.as_ref()).unwrap_err().to_string()
}

/// INV-166: a key that stands twice is refused at every depth, known or not, however it is escaped.
#[test]
fn a_key_stands_once() {
    let twice = edit(CURRENT, "\"seq\":42", "\"seq\":42,\"seq\":43");
    assert_eq!(current(twice), "CURRENT: key \"seq\" stands twice in one object");
    let escaped = edit(CURRENT, "\"seq\":42", "\"seq\":42,\"\\u0073eq\":43");
    assert_eq!(current(escaped), "CURRENT: key \"seq\" stands twice in one object");
    let unknown = edit(
        CURRENT,
        "\"seq\":42",
        "\"seq\":42,\"x\":{\"y\":[{\"a\":1,\"b\":2,\"a\":1}]}",
    );
    assert_eq!(
        current(unknown),
        "CURRENT at /x/y/0: key \"a\" stands twice in one object"
    );
    let product = edit(ROOT_42, "\"census-2021-cpt\"", "\"14100287\"");
    let error = Root::decode(product.as_bytes()).unwrap_err().to_string();
    assert_eq!(
        error,
        "Inventory root at /products: key \"14100287\" stands twice in one object"
    );
}

/// INV-150: a sequence number is written in digits.
#[test]
fn numbers_are_whole_and_written_so() {
    for (number, message) in [
        ("42.0", "expected a whole number written in digits, found 42.0"),
        ("4.2e1", "expected a whole number written in digits, found 4.2e1"),
        ("42e0", "expected a whole number written in digits, found 42e0"),
        ("-42", "-42 is outside 1 to 999999999999"),
        ("-0", "-0 is outside 1 to 999999999999"),
        ("1000000000000", "1000000000000 is outside 1 to 999999999999"),
        (
            "18446744073709551658",
            "18446744073709551658 is outside 1 to 999999999999",
        ),
        ("true", "expected a whole number, found a boolean"),
        ("null", "expected a whole number, found null"),
        ("[42]", "expected a whole number, found an array"),
    ] {
        let text = edit(CURRENT, ":42", &format!(":{number}"));
        assert_eq!(current(text), format!("CURRENT at /seq: {message} (INV-147)"));
    }
    let huge = edit(CURRENT, ":42", &format!(":{}", "9".repeat(100_000)));
    assert!(current(huge).len() < 500, "a message is for people");
}

/// INV-147: a byte order mark, bytes after the document, other encodings and an empty file are refused.
#[test]
fn one_document_in_utf8_and_nothing_else() {
    assert_eq!(
        current(format!("\u{feff}{CURRENT}")),
        "CURRENT: a byte order mark stands before the document"
    );
    let end = CURRENT.len();
    for rest in ["x", "{}", "\0", ",", "\u{a0}"] {
        let message = format!("CURRENT: the document ends at byte {end} and more bytes follow");
        assert_eq!(current(format!("{CURRENT}{rest}")), message);
    }
    assert!(Current::decode(format!("\r\n\t {CURRENT} \n").as_bytes()).is_ok());
    assert_eq!(
        current(""),
        "CURRENT: no JSON: the text ends where a value is expected at byte 0"
    );
    assert_eq!(current(b"\xff\xfe{\0"), "CURRENT: not UTF-8 from byte 0");
    let utf16: Vec<u8> = CURRENT.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(current(utf16), "CURRENT: no JSON: expected a key at byte 1");
    assert_eq!(current("[]"), "CURRENT: expected an object, found an array (INV-147)");
    assert_eq!(current("null"), "CURRENT: expected an object, found null (INV-147)");
}

/// INV-147: what JavaScript and other dialects allow is no JSON.
#[test]
fn dialects_are_refused() {
    for (from, to) in [
        (":42", ":042"),
        (":42", ":+42"),
        (":42", ":.5"),
        (":42", ":4."),
        (":42", ":4e"),
        (":42", ":0x2a"),
        (":42", ":NaN"),
        (":42", ":Infinity"),
        (":42", ":nul"),
        (":42", ":truE"),
        (":42", ":4 2"),
        (":42", ":-"),
        (":42,", ":42,,"),
        ("{\"seq\"", "{,\"seq\""),
        ("0}", "0,}"),
        ("0}", "0"),
        ("0}", "0]"),
        ("\"seq\"", "seq"),
        ("\"seq\"", "'seq'"),
        ("\"seq\":", "\"seq\" "),
        ("\"seq\"", "\"seq\\x\""),
        ("\"seq\"", "\"seq\\ud800\""),
        ("\"seq\"", "\"seq\\u12\""),
        ("\"seq\"", "\"seq\n\""),
        ("\"seq\"", "\"seq\\"),
        ("{", "/* */{"),
    ] {
        let error = current(edit(CURRENT, from, to));
        assert!(
            error.starts_with("CURRENT: no JSON: ") || error.starts_with("CURRENT at /seq: no JSON: "),
            "{to}: {error}"
        );
    }
}

/// INV-191: an unknown field is ignored up to 128 levels, and no depth exhausts the stack.
#[test]
fn depth_is_bounded() {
    let nested = |levels: usize| {
        let value = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        edit(CURRENT, "{", &format!("{{\"x\":{value},"))
    };
    assert!(Current::decode(nested(128).as_bytes()).is_ok());
    assert!(current(nested(129)).ends_with("nested deeper than 128 levels"));
    assert!(current(nested(1_000_000)).ends_with("nested deeper than 128 levels"));
    assert!(current("{\"a\":".repeat(1_000_000)).ends_with("nested deeper than 128 levels"));
    assert!(current("[".repeat(1_000_000)).ends_with("nested deeper than 128 levels"));
}

/// INV-166: a document with many keys or entries is read in a time that grows with its size, not its square.
#[test]
fn large_documents_are_read() {
    let mut products = String::new();
    for index in 0..7_000 {
        let hash = sovm_inventory::doc::Sha256::of(format!("{index}").as_bytes());
        products += &format!("\"p{index}\":{{\"leaf\":\"inventory/leaves/{hash}.json\",\"leaf_sha256\":\"{hash}\"}},");
    }
    let text = edit(ROOT_42, "\"products\":{", &format!("\"products\":{{{products}"));
    assert_eq!(Root::decode(text.as_bytes()).unwrap().products.len(), 7_002);
}

/// INV-191: text keeps every character, escaped or not.
#[test]
fn strings_survive() {
    let text = edit(LEAF, "\"kind\"", r#""x":"\"\\\/\b\f\n\r\t\u0000\ud83d\ude00 é","kind""#);
    let leaf = Leaf::decode(text.as_bytes()).unwrap();
    let written = leaf.extra.get("x").unwrap().to_text();
    assert_eq!(written, "\"\\\"\\\\/\\u0008\\u000c\\n\\r\\t\\u0000😀 é\"");
    let again = Leaf::decode(&leaf.encode().unwrap()).unwrap();
    assert_eq!(again, leaf);
}

/// INV-35: a name or version is a text that says something.
#[test]
fn texts_are_clean() {
    for bad in ["", "  ", "a\\nb", "\\u0000", "a\\u009bb"] {
        let text = edit(
            MANIFEST,
            "\"schema_version\":\"2.52\"",
            &format!("\"schema_version\":\"{bad}\""),
        );
        let error = Manifest::decode(text.as_bytes()).unwrap_err().to_string();
        assert!(
            error.contains("/schema_version: expected a text that is not empty"),
            "{error}"
        );
    }
}
