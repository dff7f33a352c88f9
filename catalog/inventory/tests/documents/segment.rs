//! History segments: made from roots byte for byte, and refused.

use sovm_inventory::doc::{Document, Root, Segment, SegmentLine, SegmentPath, Sha256, Stored, Unverified};

use super::support::{
    ROOT_41, ROOT_42, ROOT_FOREIGN, ROOT_WITHOUT_HISTORY, SEGMENT_EXPIRY, SEGMENT_RESTORE,
    Schema::{Refuses, Silent},
    edit, refused, value_of,
};

fn root(text: &'static str) -> Stored<Root, Unverified> {
    Stored::decode(text.as_bytes()).unwrap()
}

/// INV-289: a line is the root without `products` and `retired`, in the root's own order, its hash last: the bytes another
/// implementation made.
#[test]
fn a_line_is_made_from_the_stored_root() {
    let lines: Vec<&str> = SEGMENT_EXPIRY.lines().collect();
    let segment = Segment::decode(SEGMENT_EXPIRY.as_bytes()).unwrap();
    for (index, text) in [ROOT_41, ROOT_42].into_iter().enumerate() {
        let line = SegmentLine::of(&root(text)).unwrap();
        assert_eq!(line.to_text(), lines[index + 1]);
        assert_eq!(line, segment.lines[index]);
        assert!(segment.lines[index].records(&root(text)));
    }
    assert!(!segment.lines[0].records(&root(ROOT_42)));
}

/// INV-289: unknown fields keep their place and numbers their text, even from an indented root.
#[test]
fn a_line_keeps_what_this_build_does_not_know() {
    let line = SegmentLine::of(&root(ROOT_FOREIGN)).unwrap();
    let text = line.to_text();
    let start = r#"{"format_version":"1.7","seq":43,"previous_inventory":42,"restore_epoch":0,"created_at":"2026-10-10T00:00:00Z","later":{"z":1.50,"a":[1e3,12345678901234567890123]},"producer""#;
    assert!(text.starts_with(start), "{text}");
    assert!(text.ends_with(&format!(
        ",\"changes\":[],\"root_sha256\":\"{}\"}}",
        Sha256::of(ROOT_FOREIGN.as_bytes())
    )));
    assert!(!text.contains("\"products\"") && !text.contains("\"retired\""));
}

/// INV-289, INV-311: a line with an edited field does not record the root, although its hash says so.
#[test]
fn an_edited_line_does_not_record_its_root() {
    let edited = edit(SEGMENT_EXPIRY, "08:30 release", "09:30 release");
    let segment = Segment::decode(edited.as_bytes()).unwrap();
    assert_eq!(segment.lines[1].root_sha256, root(ROOT_42).sha256());
    assert!(!segment.lines[1].records(&root(ROOT_42)));
}

/// INV-287: the header's fields, each required.
#[test]
fn header_fields() {
    for field in [
        "first",
        "last",
        "expired_at",
        "roots",
        "leaves",
        "unread",
        "previous_segment",
    ] {
        let message = format!("history segment at /0/{field}: required field is missing (INV-287)");
        refused::<Segment>(SEGMENT_EXPIRY, &format!("\"{field}\":"), "\"x\":", Refuses, &message);
    }
    let message = "history segment at /0/kind: required field is missing (INV-287)";
    refused::<Segment>(SEGMENT_EXPIRY, "\"kind\":\"expiry\"", "\"x\":0", Refuses, message);
    let message = "history segment at /0/kind: expected expiry or restore, found \"purge\" (INV-287)";
    refused::<Segment>(
        SEGMENT_EXPIRY,
        "\"kind\":\"expiry\"",
        "\"kind\":\"purge\"",
        Refuses,
        message,
    );
}

/// INV-192: a segment of a newer major is refused.
#[test]
fn segment_major() {
    let message =
        "history segment at /0/format_version: format 2.0 is newer than the major version 1 this build reads (INV-192)";
    refused::<Segment>(SEGMENT_EXPIRY, "\"1.0\"", "\"2.0\"", Refuses, message);
}

/// INV-283, INV-287: `first` and `last` are the ends of `roots`, which ascend.
#[test]
fn ends_of_roots() {
    let message = "history segment at /0/first: first is 40, but the end of roots is 41 (INV-287)";
    refused::<Segment>(SEGMENT_EXPIRY, "\"first\":41", "\"first\":40", Silent, message);
    let message = "history segment at /0/last: last is 43, but the end of roots is 42 (INV-287)";
    refused::<Segment>(SEGMENT_EXPIRY, "\"last\":42", "\"last\":43", Silent, message);
    let message = "history segment at /0/roots/1: not sorted: \"41\" follows \"42\" (INV-287)";
    refused::<Segment>(SEGMENT_EXPIRY, "[41,42]", "[42,41]", Silent, message);
    let message = "history segment at /0/roots/1: \"41\" is listed twice (INV-287)";
    refused::<Segment>(SEGMENT_EXPIRY, "[41,42]", "[41,41,42]", Refuses, message);
    let message = "history segment at /0/roots: a root is absent, but a segment records at least one root (INV-287)";
    refused::<Segment>(SEGMENT_EXPIRY, "[41,42]", "[]", Refuses, message);
}

/// INV-285, INV-287: the segment before is named by path and hash together.
#[test]
fn links_of_segments() {
    let path = value_of(SEGMENT_RESTORE, "previous_segment").to_owned();
    let hash = value_of(SEGMENT_RESTORE, "previous_segment_sha256");
    assert_eq!(hash, Sha256::of(SEGMENT_EXPIRY.as_bytes()).to_string());
    let message = format!(
        "history segment at /0/previous_segment_sha256: previous_segment_sha256 is absent, but previous_segment is {path} (INV-287)"
    );
    refused::<Segment>(SEGMENT_RESTORE, &format!("\"{hash}\""), "null", Refuses, &message);
    let message = format!(
        "history segment at /0/previous_segment: previous_segment is absent, but previous_segment_sha256 is {hash} (INV-287)"
    );
    refused::<Segment>(SEGMENT_RESTORE, &format!("\"{path}\""), "null", Refuses, &message);
}

/// INV-288: a restore deletes no leaf, and an expiry reads every root.
#[test]
fn what_a_kind_leaves_empty() {
    let leaf = Sha256::of(b"leaf");
    let message =
        "history segment at /0/leaves: an element is present, but it is empty in a segment of kind restore (INV-288)";
    refused::<Segment>(
        SEGMENT_RESTORE,
        "\"leaves\":[]",
        &format!("\"leaves\":[\"{leaf}\"]"),
        Refuses,
        message,
    );
    let message =
        "history segment at /0/unread: an element is present, but it is empty in a segment of kind expiry (INV-288)";
    refused::<Segment>(SEGMENT_EXPIRY, "\"unread\":[]", "\"unread\":[42]", Refuses, message);
}

/// INV-287, INV-289: unread roots are among the roots, and have no line.
#[test]
fn unread_roots() {
    let message = "history segment at /0/unread: the root in roots is absent, but unread names root 45 (INV-287)";
    refused::<Segment>(
        SEGMENT_RESTORE,
        "\"unread\":[43,44]",
        "\"unread\":[43,45]",
        Silent,
        message,
    );
    let message = "history segment at /1: the line's seq is 42, but the next of roots is none (INV-289)";
    refused::<Segment>(
        SEGMENT_RESTORE,
        "\"unread\":[43,44]",
        "\"unread\":[42,43,44]",
        Silent,
        message,
    );
}

/// INV-286, INV-289: every root of the plan has one line, in its order.
#[test]
fn every_root_has_a_line() {
    let message = "history segment: a line is absent, but roots names 44 (INV-289)";
    refused::<Segment>(
        SEGMENT_RESTORE,
        "\"unread\":[43,44]",
        "\"unread\":[43]",
        Silent,
        message,
    );
    let lines: Vec<&str> = SEGMENT_EXPIRY.split_inclusive('\n').collect();
    let swapped = [lines[0], lines[2], lines[1]].concat();
    let message = "history segment at /1: the line's seq is 42, but the next of roots is 41 (INV-289)";
    assert_eq!(Segment::decode(swapped.as_bytes()).unwrap_err().to_string(), message);
    let twice = [lines[0], lines[1], lines[1], lines[2]].concat();
    let message = "history segment at /2: the line's seq is 41, but the next of roots is 42 (INV-289)";
    assert_eq!(Segment::decode(twice.as_bytes()).unwrap_err().to_string(), message);
}

/// INV-289: a line has no `products` and no `retired`, and its hash comes last.
#[test]
fn what_a_line_leaves_out() {
    let header = SEGMENT_EXPIRY.lines().next().unwrap();
    for field in ["products", "retired"] {
        let message = format!("history segment at /1: {field} is present, but a line leaves it out (INV-289)");
        let text = format!("{header}\n{{\"{field}\":");
        refused::<Segment>(
            SEGMENT_EXPIRY,
            &format!("{header}\n{{"),
            &format!("{text}0,"),
            Refuses,
            &message,
        );
    }
    let hash = format!(",\"root_sha256\":\"{}\"", root(ROOT_42).sha256());
    let message = "history segment at /2/root_sha256: stands before other fields, but must stand last (INV-289)";
    refused::<Segment>(SEGMENT_EXPIRY, &hash, &format!("{hash},\"more\":0"), Silent, message);
    let message = "history segment at /2/root_sha256: required field is missing (INV-289)";
    refused::<Segment>(SEGMENT_EXPIRY, &hash, "", Refuses, message);
}

/// INV-284: a segment holds roots of its own epoch.
#[test]
fn a_segment_is_of_one_epoch() {
    let message = "history segment at /1: the line's restore_epoch is 0, but the header's is 1 (INV-284)";
    let from = "\"kind\":\"expiry\",\"restore_epoch\":0";
    refused::<Segment>(
        SEGMENT_EXPIRY,
        from,
        "\"kind\":\"expiry\",\"restore_epoch\":1",
        Silent,
        message,
    );
}

/// INV-284: no segment holds more than a thousand roots.
#[test]
fn a_segment_has_at_most_a_thousand_lines() {
    let segment = |count: u64| {
        let mut segment = Segment::decode(SEGMENT_RESTORE.as_bytes()).unwrap();
        segment.header.unread.clear();
        segment.header.roots.clear();
        segment.lines.clear();
        for seq in 100..100 + count {
            let text = ROOT_WITHOUT_HISTORY
                .replace("\"seq\":7", &format!("\"seq\":{seq}"))
                .replace(
                    "\"previous_inventory\":6",
                    &format!("\"previous_inventory\":{}", seq - 1),
                );
            let line = SegmentLine::of(&Stored::<Root, Unverified>::decode(text.into_bytes()).unwrap()).unwrap();
            segment.header.roots.push(line.seq);
            segment.lines.push(line);
        }
        segment.encode()
    };
    assert_eq!(Segment::decode(&segment(1000).unwrap()).unwrap().lines.len(), 1000);
    let message = "history segment: the number of lines is 1001, but the most a segment holds is 1000 (INV-284)";
    assert_eq!(segment(1001).unwrap_err().to_string(), message);
}

/// INV-290: a line of an expiry segment carries the history fields.
#[test]
fn an_expired_root_has_history_fields() {
    let old = SegmentLine::of(&root(ROOT_WITHOUT_HISTORY)).unwrap();
    let mut segment = Segment::decode(SEGMENT_EXPIRY.as_bytes()).unwrap();
    segment.header.roots = vec![old.seq];
    segment.lines = vec![old];
    let message = "history segment at /1: changes is absent, but the segment is of kind expiry (INV-290)";
    assert_eq!(segment.encode().unwrap_err().to_string(), message);
    segment.header.kind = sovm_inventory::doc::SegmentKind::Restore;
    segment.header.leaves.clear();
    assert!(segment.encode().is_ok());
}

/// INV-150, INV-161, INV-163: a line keeps the rules of the root it was.
#[test]
fn a_line_keeps_the_rules_of_a_root() {
    let message =
        "history segment at /2/previous_inventory: previous_inventory is 40, but the version before is 41 (INV-150)";
    refused::<Segment>(
        SEGMENT_EXPIRY,
        "\"previous_inventory\":41",
        "\"previous_inventory\":40",
        Silent,
        message,
    );
    let link = format!("\"previous_root_sha256\":\"{}\"", root(ROOT_41).sha256());
    let message = "history segment at /2: previous_root_sha256 is absent, but changes is present (INV-163)";
    refused::<Segment>(SEGMENT_EXPIRY, &link, "\"x\":0", Refuses, message);
}

/// INV-286: compact JSON, one line feed after each line, nothing else.
#[test]
fn segments_are_json_lines() {
    let error = |text: &str| Segment::decode(text.as_bytes()).unwrap_err().to_string();
    let end = "history segment: stands past the last line end, but must stand a line end last (INV-286)";
    assert_eq!(error(SEGMENT_EXPIRY.trim_end()), end);
    let blank = "history segment at /3: no JSON: the text ends where a value is expected at byte 0";
    assert_eq!(error(&format!("{SEGMENT_EXPIRY}\n")), blank);
    let space = "history segment at /0/format_version: white space at byte 18, where the format is compact JSON";
    assert_eq!(error(&SEGMENT_EXPIRY.replacen(':', ": ", 1)), space);
    assert_eq!(error(""), "history segment at /0: required field is missing (INV-286)");
    let crlf = SEGMENT_EXPIRY.replace('\n', "\r\n");
    let error = Segment::decode(crlf.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("white space at byte"), "{error}");
    assert!(Segment::decode(b"\n").is_err());
}

/// INV-283: a segment's name is its epoch, its ends and a UUIDv7, in one spelling.
#[test]
fn segment_names() {
    let path = value_of(SEGMENT_RESTORE, "previous_segment").to_owned();
    let parsed: SegmentPath = path.parse().unwrap();
    assert_eq!(parsed.to_string(), path);
    assert_eq!((parsed.epoch.get(), parsed.first.get(), parsed.last.get()), (0, 41, 42));
    let fresh = SegmentPath::generate(parsed.epoch, parsed.first, parsed.last);
    assert_ne!(fresh, SegmentPath::generate(parsed.epoch, parsed.first, parsed.last));
    assert_eq!(fresh.to_string().parse::<SegmentPath>().unwrap(), fresh);
    for (from, to) in [
        ("history/", "History/"),
        ("/0/", "/00/"),
        ("/0/", "/+0/"),
        ("/0/", "//"),
        ("000000000041-", "41-"),
        ("000000000041-", "000000000043-"),
        ("000000000041-", "+00000000041-"),
        ("000000000041-", "000000000000-"),
        ("-7000-", "-4000-"),
        (".jsonl", ".json"),
        ("history/", "../history/"),
    ] {
        assert!(edit(&path, from, to).parse::<SegmentPath>().is_err(), "{from} {to}");
    }
}

/// INV-283, INV-284: a segment lies under its own epoch and its own ends.
#[test]
fn a_segment_lies_under_its_own_name() {
    let segment = Segment::decode(SEGMENT_EXPIRY.as_bytes()).unwrap();
    let path: SegmentPath = value_of(SEGMENT_RESTORE, "previous_segment").parse().unwrap();
    assert!(segment.check_path(&path).is_ok());
    let other = edit(&path.to_string(), "history/0/", "history/1/");
    let message = format!("history segment: the header is epoch 0, roots 41 to 42, but the path is {other} (INV-283)");
    assert_eq!(
        segment.check_path(&other.parse().unwrap()).unwrap_err().to_string(),
        message
    );
    let other = edit(&path.to_string(), "000000000041-", "000000000040-");
    assert!(segment.check_path(&other.parse().unwrap()).is_err());
}
