//! Refusals of roots and their change lists.

use sovm_inventory::doc::{Document, EventKind, Root, Sha256};

use super::support::{
    E0, E1, E2, E3, LEAF, P, ROOT_1, ROOT_41, ROOT_42, ROOT_FOREIGN, ROOT_WITHOUT_HISTORY, SHA_OF_NOTHING,
    Schema::{Refuses, Silent},
    accepted, edit, refused, schema_accepts,
};

/// INV-149, INV-191, INV-192, INV-381: a root of another major is refused, naming both versions; a minor is not.
#[test]
fn root_majors() {
    let newer =
        "Inventory root at /format_version: format 2.0 is newer than the major version 1 this build reads (INV-191)";
    refused::<Root>(
        ROOT_42,
        "\"format_version\":\"1.2\"",
        "\"format_version\":\"2.0\"",
        Refuses,
        newer,
    );
    let older =
        "Inventory root at /format_version: format 0.2 is older than the major version 1 this build reads (INV-191)";
    refused::<Root>(
        ROOT_42,
        "\"format_version\":\"1.2\"",
        "\"format_version\":\"0.2\"",
        Refuses,
        older,
    );
    let missing = "Inventory root at /format_version: required field is missing (INV-149)";
    refused::<Root>(ROOT_WITHOUT_HISTORY, "format_version", "version", Refuses, missing);
    assert_eq!(
        accepted::<Root>(ROOT_42, "\"format_version\":\"1.2\"", "\"format_version\":\"1.10\"")
            .seq
            .get(),
        42
    );
}

/// INV-191: the major is refused before any field it may have changed.
#[test]
fn a_newer_major_is_refused_as_such() {
    let text = r#"{"seq":"new","format_version":"2.0"}"#;
    assert_eq!(
        Root::decode(text.as_bytes()).unwrap_err().to_string(),
        "Inventory root at /format_version: format 2.0 is newer than the major version 1 this build reads (INV-191)"
    );
}

/// INV-150: versions count from 1, and each is built from the one before, unless it is a correction.
#[test]
fn seq_and_previous_inventory() {
    let zero = "Inventory root at /seq: 0 is outside 1 to 999999999999 (INV-150)";
    refused::<Root>(ROOT_1, "\"seq\":1", "\"seq\":0", Refuses, zero);
    let gap = "Inventory root at /previous_inventory: previous_inventory is 40, but the version before is 41 (INV-150)";
    refused::<Root>(
        ROOT_42,
        "\"previous_inventory\":41",
        "\"previous_inventory\":40",
        Silent,
        gap,
    );
    let null =
        "Inventory root at /previous_inventory: previous_inventory is null, but the version before is 41 (INV-150)";
    refused::<Root>(
        ROOT_42,
        "\"previous_inventory\":41",
        "\"previous_inventory\":null",
        Refuses,
        null,
    );
    let first =
        "Inventory root at /previous_inventory: previous_inventory is 1, but the version before is null (INV-150)";
    refused::<Root>(
        ROOT_1,
        "\"previous_inventory\":null",
        "\"previous_inventory\":1",
        Refuses,
        first,
    );
    let later =
        "Inventory root at /previous_inventory: previous_inventory is 41, but the version before is 40 (INV-150)";
    refused::<Root>(
        ROOT_41,
        "\"previous_inventory\":39",
        "\"previous_inventory\":41",
        Silent,
        later,
    );
    let missing = "Inventory root at /previous_inventory: required field is missing (INV-150)";
    refused::<Root>(ROOT_42, "previous_inventory", "previous", Refuses, missing);
}

/// INV-151, INV-153, INV-155, INV-156: the other required fields, each under its rule.
#[test]
fn root_fields() {
    let text = ROOT_WITHOUT_HISTORY;
    for (field, rule) in [
        ("restore_epoch", 151),
        ("producer", 153),
        ("embargo", 153),
        ("products", 154),
        ("retired", 155),
        ("event", 156),
    ] {
        let message = format!("Inventory root at /{field}: required field is missing (INV-{rule})");
        refused::<Root>(text, &format!("\"{field}\""), "\"x\"", Refuses, &message);
    }
    let word = "Inventory root at /embargo: expected a boolean, found a string (INV-153)";
    refused::<Root>(text, "\"embargo\":true", "\"embargo\":\"true\"", Refuses, word);
    let missing = "Inventory root at /producer/version: required field is missing (INV-153)";
    refused::<Root>(text, "\"version\"", "\"release\"", Refuses, missing);
    let missing = "Inventory root at /event/reason: required field is missing (INV-156)";
    refused::<Root>(text, "\"reason\"", "\"why\"", Refuses, missing);
    let empty = "Inventory root at /event/actor: expected a text that is not empty and has no control characters, found \" \" (INV-156)";
    refused::<Root>(text, "alice@host", " ", Refuses, empty);
    let list = "Inventory root at /extensions: expected an object, found an array (INV-191)";
    refused::<Root>(text, "\"event\"", "\"extensions\":[],\"event\"", Refuses, list);
}

/// INV-152: `created_at` is RFC 3339 and ends in Z.
#[test]
fn created_at_is_utc() {
    for bad in ["2025-01-01T00:00:00+00:00", "2025-01-01T00:00:00", "2025-01-01"] {
        let message = format!(
            "Inventory root at /created_at: expected an instant (RFC 3339, UTC, ending in Z), found \"{bad}\" (INV-152)"
        );
        refused::<Root>(ROOT_WITHOUT_HISTORY, "2025-01-01T00:00:00Z", bad, Refuses, &message);
    }
    // The calendar is beyond a schema.
    let message = "Inventory root at /created_at: expected an instant (RFC 3339, UTC, ending in Z), found \"2025-02-29T00:00:00Z\" (INV-152)";
    refused::<Root>(
        ROOT_WITHOUT_HISTORY,
        "2025-01-01T00:00:00Z",
        "2025-02-29T00:00:00Z",
        Silent,
        message,
    );
}

/// INV-152: `created_at` is the fifth field and ends within the first KiB, where expiry reads it.
#[test]
fn created_at_is_where_expiry_looks() {
    let moved = "Inventory root at /created_at: stands as field 6, but must stand as field 5 (INV-152)";
    refused::<Root>(ROOT_42, "\"created_at\"", "\"later\":0,\"created_at\"", Silent, moved);
    let spaced = edit(
        ROOT_42,
        "\"created_at\"",
        &format!("{}\"created_at\"", " ".repeat(1024)),
    );
    let end = 1024 + ROOT_42.find(",\"producer\"").unwrap();
    let message =
        format!("Inventory root at /created_at: stands up to byte {end}, but must stand in the first KiB (INV-152)");
    assert_eq!(Root::decode(spaced.as_bytes()).unwrap_err().to_string(), message);
    // Exactly 1,024 bytes are enough; the root before the history fields never expires and is read as it is.
    let padding = 1024 - ROOT_42.find(",\"producer\"").unwrap();
    accepted::<Root>(
        ROOT_42,
        "\"created_at\"",
        &format!("{}\"created_at\"", " ".repeat(padding)),
    );
    accepted::<Root>(ROOT_WITHOUT_HISTORY, "\"created_at\"", "\"later\":0,\"created_at\"");
}

/// INV-154: a leaf's path follows from its hash.
#[test]
fn a_leaf_lies_under_its_hash() {
    let hash = Sha256::of(LEAF.as_bytes());
    let message = format!(
        "Inventory root at /products/{P}: leaf is inventory/leaves/{SHA_OF_NOTHING}.json, but the path of leaf_sha256 is inventory/leaves/{hash}.json (INV-154)"
    );
    let from = format!("leaves/{hash}");
    refused::<Root>(ROOT_42, &from, &format!("leaves/{SHA_OF_NOTHING}"), Silent, &message);
    let message = format!(
        "Inventory root at /products/{P}: leaf is elsewhere/{hash}.json, but the path of leaf_sha256 is inventory/leaves/{hash}.json (INV-154)"
    );
    refused::<Root>(
        ROOT_42,
        &format!("inventory/leaves/{hash}"),
        &format!("elsewhere/{hash}"),
        Refuses,
        &message,
    );
}

/// INV-1, INV-154: a product is named by text that stays one directory.
#[test]
fn product_ids() {
    for bad in ["..", ".hidden", "a/b", "a\\\\b", "", "é", "a b", "-x", &"a".repeat(129)] {
        let shown = bad.replace("\\\\", "\\");
        let pointer = shown.replace('/', "~1");
        let message = format!(
            "Inventory root at /products/{pointer}: expected a product_id (1 to 128 of A-Z a-z 0-9 - . _ ~, the first a letter or digit), found {shown:?} (INV-154)"
        );
        refused::<Root>(ROOT_42, "\"census-2021-cpt\"", &format!("\"{bad}\""), Refuses, &message);
    }
    for good in ["a", "0", "A.b_c~d-e", &"a".repeat(128)] {
        accepted::<Root>(ROOT_42, "\"census-2021-cpt\"", &format!("\"{good}\""));
    }
}

/// INV-155: one tombstone for one edition, with its time.
#[test]
fn tombstones() {
    let tombstone = format!(r#"{{"product_id":"{P}","edition_id":"{E0}","retired_at":"2026-09-30T00:00:00Z"}}"#);
    let twice = format!("Inventory root at /retired/1: \"{E0} of {P}\" is listed twice (INV-155)");
    refused::<Root>(ROOT_42, &tombstone, &format!("{tombstone},{tombstone}"), Silent, &twice);
    let missing = "Inventory root at /retired/0/retired_at: required field is missing (INV-155)";
    refused::<Root>(ROOT_42, "\"retired_at\"", "\"at\"", Refuses, missing);
}

/// INV-156, INV-157: a reader accepts any kind; a writer records one of ten.
#[test]
fn event_kinds() {
    let words: Vec<String> = EventKind::WRITTEN.iter().map(ToString::to_string).collect();
    let ten = "seal release rollback withdraw retire reinstate embargo-change restore correct describe";
    assert_eq!(words.join(" "), ten);
    for word in &words {
        assert!(!matches!(EventKind::from_word(word), EventKind::Other(_)));
    }
    let root: Root = accepted(ROOT_42, "\"kind\":\"release\"", "\"kind\":\"Release\"");
    assert_eq!(root.event.kind, EventKind::Other("Release".to_owned()));
    let message =
        "Inventory root at /event/kind: expected one of the ten kinds a writer records, found \"Release\" (INV-156)";
    assert_eq!(root.check_as_written().unwrap_err().to_string(), message);
    assert!(
        !schema_accepts(Root::KIND, ROOT_FOREIGN),
        "the schema lists the kinds a writer records"
    );
}

/// INV-149, INV-163: a writer writes this format and both history fields, in every version.
#[test]
fn what_a_writer_writes() {
    assert!(Root::decode(ROOT_42.as_bytes()).unwrap().check_as_written().is_ok());
    let old = Root::decode(ROOT_WITHOUT_HISTORY.as_bytes()).unwrap();
    let message =
        "Inventory root at /format_version: format_version is 1.0, but the version a writer writes is 1.2 (INV-149)";
    assert_eq!(old.check_as_written().unwrap_err().to_string(), message);
    let newer: Root = accepted(ROOT_WITHOUT_HISTORY, "\"1.0\"", "\"1.2\"");
    let message =
        "Inventory root: changes is absent, but a writer writes both history fields in every version (INV-163)";
    assert_eq!(newer.check_as_written().unwrap_err().to_string(), message);
}

/// INV-163, INV-164: both history fields or neither, whatever the format version says.
#[test]
fn history_fields_come_together() {
    let absent = "Inventory root: changes is absent, but previous_root_sha256 is present (INV-163)";
    refused::<Root>(ROOT_42, "\"changes\"", "\"change\"", Refuses, absent);
    let absent = "Inventory root: previous_root_sha256 is absent, but changes is present (INV-163)";
    refused::<Root>(
        ROOT_42,
        "\"previous_root_sha256\"",
        "\"previous_root\"",
        Refuses,
        absent,
    );
    assert!(
        accepted::<Root>(ROOT_42, "\"format_version\":\"1.2\"", "\"format_version\":\"1.0\"")
            .history
            .is_some()
    );
}

/// INV-161: every version but the first links to its base by hash.
#[test]
fn previous_root_sha256() {
    let hash = Sha256::of(ROOT_41.as_bytes());
    let from = format!("\"previous_root_sha256\":\"{hash}\"");
    let absent = "Inventory root at /previous_root_sha256: previous_root_sha256 is absent, but seq is 42 (INV-161)";
    refused::<Root>(ROOT_42, &from, "\"previous_root_sha256\":null", Refuses, absent);
    let from = "\"previous_root_sha256\":null";
    let to = format!("\"previous_root_sha256\":\"{hash}\"");
    let present = "Inventory root at /previous_root_sha256: previous_root_sha256 is present, but seq is 1 (INV-161)";
    refused::<Root>(ROOT_1, from, &to, Refuses, present);
    let number = "Inventory root at /previous_root_sha256: expected a string, found a number (INV-161)";
    refused::<Root>(ROOT_1, from, "\"previous_root_sha256\":7", Refuses, number);
}

/// INV-162: the change list is sorted by product, each product once.
#[test]
fn changes_are_sorted() {
    let item = format!(
        r#"{{"product_id":"zz-removed","leaf_sha256":{{"from":null,"to":null}},"entries":[{{"edition_id":"{E1}","from":"tombstone","to":null}}]}}"#
    );
    let twice = "Inventory root at /changes/2: \"zz-removed\" is listed twice (INV-162)";
    refused::<Root>(ROOT_42, &item, &format!("{item},{item}"), Silent, twice);
    let early = item.replace("zz-removed", "00");
    let unsorted = "Inventory root at /changes/2: not sorted: \"00\" follows \"zz-removed\" (INV-162)";
    refused::<Root>(ROOT_42, &item, &format!("{item},{early}"), Silent, unsorted);
}

/// INV-162: the first version has no base version, so nothing in it changes from something.
#[test]
fn the_first_version_changes_from_nothing() {
    let message = format!(
        "Inventory root at /changes/0: from is present, but version 1 has no base version to change product {P} from (INV-162)"
    );
    refused::<Root>(
        ROOT_1,
        "\"from\":null,\"to\":\"live\"",
        "\"from\":\"embargoed\",\"to\":\"live\"",
        Silent,
        &message,
    );
}

/// INV-159, INV-443: a version that describes, or turns the embargo, changes no entry.
#[test]
fn describe_and_embargo_change_change_no_entry() {
    for kind in ["describe", "embargo-change"] {
        let message = format!(
            "Inventory root at /changes/0: a change is present, but a version of kind {kind} changes no entry (INV-443)"
        );
        refused::<Root>(
            ROOT_42,
            "\"kind\":\"release\"",
            &format!("\"kind\":\"{kind}\""),
            Refuses,
            &message,
        );
    }
}

/// INV-177: a change item says what the product's leaf is in this version.
#[test]
fn change_items_agree_with_products() {
    let hash = Sha256::of(LEAF.as_bytes());
    let from = format!("\"to\":\"{hash}\"");
    let message = format!(
        "Inventory root at /changes/0/leaf_sha256: leaf_sha256.to is {SHA_OF_NOTHING}, but the leaf in products is {hash} (INV-177)"
    );
    refused::<Root>(
        ROOT_42,
        &from,
        &format!("\"to\":\"{SHA_OF_NOTHING}\""),
        Silent,
        &message,
    );
    let message = format!(
        "Inventory root at /changes/0/leaf_sha256: leaf_sha256.to is null, but the leaf in products is {hash} (INV-177)"
    );
    refused::<Root>(ROOT_42, &from, "\"to\":null", Silent, &message);
    let missing = "Inventory root at /changes/0/leaf_sha256/to: required field is missing (INV-177)";
    refused::<Root>(ROOT_42, &from, &format!("\"new\":\"{hash}\""), Refuses, missing);
}

/// INV-177: where only tombstones changed the leaf is the same, so no state can have changed.
#[test]
fn an_unchanged_leaf_changes_no_state() {
    let base = Sha256::of(LEAF.as_bytes());
    let from = format!("{{\"from\":\"{}\",\"to\":\"{base}\"}}", Sha256::of(b"77ae"));
    let message = format!(
        "Inventory root at /changes/0/entries/0: a state is present, but leaf_sha256 is unchanged, so edition {E2} cannot be superseded (INV-177)"
    );
    let same = format!("{{\"from\":\"{base}\",\"to\":\"{base}\"}}");
    let message = message.replace("superseded", "live");
    refused::<Root>(ROOT_42, &from, &same, Silent, &message);
}

/// INV-162: an item in which nothing differs is no change.
#[test]
fn an_item_changes_something() {
    let entry = format!(r#"{{"edition_id":"{E0}","from":null,"to":"tombstone"}}"#);
    let message = "Inventory root at /changes/0: the item is present, but neither the leaf nor a tombstone of the product differs (INV-162)";
    refused::<Root>(ROOT_41, &entry, "", Silent, message);
}

/// INV-178: entry items are sorted by edition, each edition once.
#[test]
fn entry_items_are_sorted() {
    let entry = format!(r#"{{"edition_id":"{E0}","from":null,"to":"tombstone"}}"#);
    let twice = format!("Inventory root at /changes/0/entries/1: \"{E0}\" is listed twice (INV-178)");
    refused::<Root>(ROOT_41, &entry, &format!("{entry},{entry}"), Silent, &twice);
    let later = entry.replace(E0, E3);
    let unsorted = format!("Inventory root at /changes/0/entries/1: not sorted: \"{E0}\" follows \"{E3}\" (INV-178)");
    refused::<Root>(ROOT_41, &entry, &format!("{later},{entry}"), Silent, &unsorted);
}

/// INV-178, INV-181: `from` and `to` are a state, `tombstone` or null.
#[test]
fn statuses() {
    let entry = "\"from\":\"embargoed\",\"to\":\"live\"";
    for bad in ["retired", "Live", ""] {
        let message = format!(
            "Inventory root at /changes/0/entries/1/from: expected embargoed, live, superseded, withdrawn or tombstone, found \"{bad}\" (INV-178)"
        );
        refused::<Root>(
            ROOT_42,
            entry,
            &format!("\"from\":\"{bad}\",\"to\":\"live\""),
            Refuses,
            &message,
        );
    }
    let missing = "Inventory root at /changes/0/entries/1/from: required field is missing (INV-178)";
    refused::<Root>(ROOT_42, entry, "\"to\":\"live\"", Refuses, missing);
}

/// INV-178, INV-182: a dropped tombstone is gone from `retired`, and one that is written stands in it.
#[test]
fn tombstones_of_change_items_agree_with_retired() {
    let entry = "\"from\":\"tombstone\",\"to\":null";
    let base = "Inventory root at /changes/1/entries/0:";
    let message = format!("{base} the item is present, but neither version has the edition (INV-178)");
    refused::<Root>(ROOT_42, entry, "\"from\":null,\"to\":null", Refuses, &message);
    let message = format!("{base} a tombstone in retired is absent, but edition {E1} goes to tombstone (INV-178)");
    refused::<Root>(ROOT_42, entry, "\"from\":null,\"to\":\"tombstone\"", Silent, &message);
    let tombstone = format!(r#"{{"product_id":"{P}","edition_id":"{E0}","retired_at":"2026-09-30T00:00:00Z"}}"#);
    let kept = format!("{tombstone},{}", tombstone.replace(P, "zz-removed").replace(E0, E1));
    let message = format!("{base} a tombstone in retired is present, but edition {E1} loses its tombstone (INV-178)");
    refused::<Root>(ROOT_42, &tombstone, &kept, Silent, &message);
}

/// INV-179: `entry` is there exactly when `to` is a state.
#[test]
fn an_entry_is_listed_with_a_state_only() {
    let absent = "Inventory root at /changes/0/entries/0: entry is absent, but to is the state live (INV-179)";
    refused::<Root>(ROOT_1, "\"entry\":", "\"entree\":", Refuses, absent);
    let present = "Inventory root at /changes/0/entries/0: entry is present, but to is tombstone (INV-179)";
    refused::<Root>(ROOT_1, "\"to\":\"live\"", "\"to\":\"tombstone\"", Refuses, present);
}

/// INV-179: the entry is the item's edition in the item's state, with all seven fields.
#[test]
fn a_listed_entry_is_the_items() {
    let other =
        format!("Inventory root at /changes/0/entries/0: edition_id is {E1}, but entry.edition_id is {E2} (INV-179)");
    let from = format!("\"entry\":{{\"edition_id\":\"{E1}\"");
    refused::<Root>(
        ROOT_1,
        &from,
        &format!("\"entry\":{{\"edition_id\":\"{E2}\""),
        Silent,
        &other,
    );
    let state = "Inventory root at /changes/0/entries/0: to is live, but entry.state is withdrawn (INV-179)";
    refused::<Root>(ROOT_1, "\"state\":\"live\"", "\"state\":\"withdrawn\"", Silent, state);
    for field in [
        "previous",
        "manifest_sha256",
        "schema_version",
        "state_changed_at",
        "release_at",
    ] {
        let message =
            format!("Inventory root at /changes/0/entries/0/entry/{field}: required field is missing (INV-179)");
        refused::<Root>(ROOT_1, &format!("\"{field}\""), "\"x\"", Refuses, &message);
    }
    let missing = "Inventory root at /changes/0/entries/0/entry/state: required field is missing (INV-193)";
    refused::<Root>(ROOT_1, "\"state\"", "\"x\"", Refuses, missing);
}

/// INV-171, INV-179: a listed entry keeps the rule about release times.
#[test]
fn a_listed_entry_has_a_release_time_only_under_embargo() {
    let message = "Inventory root at /changes/0/entries/0/entry/release_at: release_at is present, but the state is live (INV-171)";
    refused::<Root>(
        ROOT_1,
        "\"release_at\":null",
        "\"release_at\":\"2026-01-01T00:00:00Z\"",
        Refuses,
        message,
    );
}

/// INV-189: routing fields, artefacts and the source of structures stay out of the change list; unknown fields are ignored.
#[test]
fn a_change_list_repeats_seven_fields_only() {
    for (field, value) in [
        ("dataflows", "[]"),
        ("pull_bytes", "0"),
        ("artefacts", "{}"),
        ("structure_source", "{}"),
    ] {
        let message = format!(
            "Inventory root at /changes/0/entries/0/entry: {field} is present, but a change list repeats seven fields of an entry only (INV-189)"
        );
        let to = format!("\"release_at\":null,\"{field}\":{value}");
        refused::<Root>(ROOT_1, "\"release_at\":null", &to, Refuses, &message);
    }
    accepted::<Root>(ROOT_1, "\"release_at\":null", "\"release_at\":null,\"later\":1");
}

/// INV-165, INV-178: a correction may leave out an edition its base version recorded.
#[test]
fn a_correction_may_drop_an_entry() {
    let entry = format!(r#"{{"edition_id":"{E1}","from":"withdrawn","to":"tombstone"}}"#);
    let root: Root = accepted(
        &edit(
            ROOT_41,
            &format!(
                ",{{\"product_id\":\"zz-removed\",\"edition_id\":\"{E1}\",\"retired_at\":\"2026-10-01T00:00:00Z\"}}"
            ),
            "",
        ),
        &entry,
        &entry.replace("\"tombstone\"", "null"),
    );
    assert_eq!(root.history.unwrap().changes[1].entries[0].to, None);
}

/// INV-180: an entry that changed and kept its state goes from a state to the same state.
#[test]
fn a_rescheduled_entry_keeps_its_state() {
    let root: Root = accepted(
        ROOT_42,
        "\"from\":\"embargoed\",\"to\":\"live\"",
        "\"from\":\"live\",\"to\":\"live\"",
    );
    let item = &root.history.unwrap().changes[0].entries[1];
    assert_eq!(item.from, item.to);
}
