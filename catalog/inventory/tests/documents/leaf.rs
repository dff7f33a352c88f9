//! Refusals of leaves.

use sovm_inventory::doc::{Document, EditionState, Leaf};

use super::support::{
    E1, E2, E3, LEAF, LEAF_STRUCTURE,
    Schema::{Refuses, Silent},
    accepted, edit, refused,
};

/// INV-169: a leaf's fields, each required, and its closed words.
#[test]
fn leaf_fields() {
    for field in ["format_version", "product_id", "kind", "lifecycle", "editions"] {
        let message = format!("Inventory leaf at /{field}: required field is missing (INV-169)");
        refused::<Leaf>(LEAF, &format!("\"{field}\""), "\"x\"", Refuses, &message);
    }
    let kind = "Inventory leaf at /kind: expected data or structure, found \"table\" (INV-169)";
    refused::<Leaf>(LEAF, "\"kind\":\"data\"", "\"kind\":\"table\"", Refuses, kind);
    let lifecycle = "Inventory leaf at /lifecycle: expected final or revisable, found \"draft\" (INV-169)";
    refused::<Leaf>(LEAF, "\"revisable\"", "\"draft\"", Refuses, lifecycle);
    let list = "Inventory leaf at /editions: expected an array, found an object (INV-169)";
    let text = edit(LEAF, "\"editions\":[", "\"editions\":{},\"x\":[");
    assert_eq!(Leaf::decode(text.as_bytes()).unwrap_err().to_string(), list);
}

/// INV-191: a leaf of a newer major is refused, naming both versions.
#[test]
fn leaf_major() {
    let newer =
        "Inventory leaf at /format_version: format 2.0 is newer than the major version 1 this build reads (INV-191)";
    refused::<Leaf>(LEAF, "\"1.2\"", "\"2.0\"", Refuses, newer);
    assert_eq!(accepted::<Leaf>(LEAF, "\"1.2\"", "\"1.0\"").editions.len(), 2);
}

/// INV-169: editions are sorted by id, each once.
#[test]
fn editions_are_sorted() {
    let start = format!("{{\"edition_id\":\"{E2}\"");
    let unsorted = format!(
        "Inventory leaf at /editions/1: not sorted: \"{E3}\" follows \"01a18fff-2bad-7480-abfe-2ba8a6889a45\" (INV-169)"
    );
    let to = "{\"edition_id\":\"01a18fff-2bad-7480-abfe-2ba8a6889a45\"";
    refused::<Leaf>(LEAF, &start, to, Silent, &unsorted);
    let twice = format!("Inventory leaf at /editions/1: \"{E3}\" is listed twice (INV-169)");
    refused::<Leaf>(LEAF, &start, &format!("{{\"edition_id\":\"{E3}\""), Silent, &twice);
}

/// INV-170: an entry's fields, each required.
#[test]
fn entry_fields() {
    let entry = format!("{{\"edition_id\":\"{E2}\",\"previous\":\"{E1}\",\"state\":\"superseded\"");
    let message = "Inventory leaf at /editions/0/previous: required field is missing (INV-170)";
    let to = format!("{{\"edition_id\":\"{E2}\",\"state\":\"superseded\"");
    refused::<Leaf>(LEAF, &entry, &to, Refuses, message);
    let itself = format!(
        "Inventory leaf at /editions/0/previous: previous is {E2}, but edition_id, which it must differ from, is {E2} (INV-170)"
    );
    refused::<Leaf>(LEAF, &entry, &entry.replace(E1, E2), Silent, &itself);
    let message = format!(
        "Inventory leaf at /editions/0/edition_id: expected an edition_id (a UUIDv7 in lower case), found \"{}\" (INV-170)",
        &E2[1..]
    );
    refused::<Leaf>(LEAF, &entry, &entry.replace(E2, &E2[1..]), Refuses, &message);
}

/// INV-193: four states and no fifth.
#[test]
fn states() {
    let words: Vec<&str> = EditionState::ALL.iter().map(|state| state.as_str()).collect();
    assert_eq!(words, ["embargoed", "live", "superseded", "withdrawn"]);
    for bad in ["tombstone", "retired", "LIVE", "draft"] {
        let message = format!(
            "Inventory leaf at /editions/0/state: expected embargoed, live, superseded or withdrawn, found \"{bad}\" (INV-193)"
        );
        refused::<Leaf>(LEAF, "\"superseded\"", &format!("\"{bad}\""), Refuses, &message);
    }
}

/// INV-171: only an embargoed entry has a release time, and it may have none.
#[test]
fn release_at_is_for_embargoed_entries() {
    for state in ["live", "superseded", "withdrawn"] {
        let message = format!(
            "Inventory leaf at /editions/1/release_at: release_at is present, but the state is {state} (INV-171)"
        );
        refused::<Leaf>(
            LEAF_STRUCTURE,
            "\"embargoed\"",
            &format!("\"{state}\""),
            Refuses,
            &message,
        );
    }
    let time = "\"release_at\":\"2026-10-09T12:30:00Z\"";
    let leaf: Leaf = accepted(LEAF_STRUCTURE, time, "\"release_at\":null");
    assert_eq!(leaf.editions[1].release_at, None);
    let missing = "Inventory leaf at /editions/1/release_at: required field is missing (INV-170)";
    refused::<Leaf>(LEAF_STRUCTURE, time, "\"at\":null", Refuses, missing);
}

/// INV-173: the source of structures is an object of its own.
#[test]
fn structure_source() {
    let leaf = Leaf::decode(LEAF_STRUCTURE.as_bytes()).unwrap();
    let source = leaf.editions[0].structure_source.as_ref().unwrap();
    let keys: Vec<&str> = source.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["registry", "query", "retrieved_at", "fingerprints"]);
    let text = "Inventory leaf at /editions/0/structure_source: expected an object, found a number (INV-173)";
    refused::<Leaf>(
        LEAF_STRUCTURE,
        "\"structure_source\":{",
        "\"structure_source\":1,\"was\":{",
        Refuses,
        text,
    );
}

/// INV-174: filled artefacts map pinned URNs to fingerprints.
#[test]
fn filled_artefacts() {
    let urn = "urn:sdmx:org.sdmx.infomodel.conceptscheme.ConceptScheme=STC:CS_MAIN(1.0)";
    for bad in [
        "CS_MAIN",
        "urn:sdmx:org.sdmx.infomodel.conceptscheme.ConceptScheme=STC:CS_MAIN",
        "urn:sdmx:org.sdmx.infomodel.conceptscheme.ConceptScheme=STC:CS_MAIN(latest)",
        "urn:sdmx:org.sdmx.infomodel.conceptscheme.ConceptScheme=STC:CS_MAIN(1.0+)",
        "urn:sdmx:org.sdmx.infomodel.conceptscheme.ConceptScheme=STC:CS_MAIN(1.0).ITEM",
        "urn:sdmx:org.sdmx.infomodel.ConceptScheme=STC:CS_MAIN(1.0)",
    ] {
        let message = format!(
            "Inventory leaf at /editions/1/artefacts/{bad}: expected the URN of a maintainable SDMX artefact with a pinned version, found \"{bad}\" (INV-174)"
        );
        refused::<Leaf>(LEAF_STRUCTURE, urn, bad, Refuses, &message);
    }
    let message =
        format!("Inventory leaf at /editions/1/artefacts/{urn}/fingerprint: required field is missing (INV-174)");
    let from = format!("\"{urn}\":{{\"fingerprint\"");
    refused::<Leaf>(
        LEAF_STRUCTURE,
        &from,
        &format!("\"{urn}\":{{\"print\""),
        Refuses,
        &message,
    );
}

/// INV-184, INV-185: both routing fields or neither.
#[test]
fn routing_fields_come_together() {
    let absent = "Inventory leaf at /editions/1: pull_bytes is absent, but dataflows is present (INV-185)";
    refused::<Leaf>(LEAF, "\"pull_bytes\"", "\"bytes\"", Refuses, absent);
    let absent = "Inventory leaf at /editions/1: dataflows is absent, but pull_bytes is present (INV-185)";
    refused::<Leaf>(LEAF, "\"dataflows\"", "\"flows\"", Refuses, absent);
    assert_eq!(Leaf::decode(LEAF.as_bytes()).unwrap().editions[0].routing, None);
}

/// INV-185: dataflows are sorted, each once, and no size is negative.
#[test]
fn routing_fields_are_well_formed() {
    let flow = "\"urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow=STC:DF_14100287(1.0)\"";
    let twice = format!("Inventory leaf at /editions/1/dataflows/1: {flow} is listed twice (INV-185)");
    refused::<Leaf>(LEAF, flow, &format!("{flow},{flow}"), Refuses, &twice);
    let later = flow.replace("DF_1", "DF_2");
    let unsorted = format!("Inventory leaf at /editions/1/dataflows/1: not sorted: {flow} follows {later} (INV-185)");
    refused::<Leaf>(LEAF, flow, &format!("{later},{flow}"), Silent, &unsorted);
    let negative = "Inventory leaf at /editions/1/pull_bytes: -1 is outside 0 to 9007199254740991 (INV-185)";
    refused::<Leaf>(LEAF, "13131776", "-1", Refuses, negative);
    // A schema counts 1.0 among the whole numbers; two readers would write it differently, so it is refused here.
    let float = "Inventory leaf at /editions/1/pull_bytes: expected a whole number written in digits, found 13131776.0 (INV-185)";
    refused::<Leaf>(LEAF, "13131776", "13131776.0", Silent, float);
}

/// INV-184: a structure edition has no dataflow.
#[test]
fn a_structure_edition_has_no_dataflows() {
    let flow = "\"urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow=STC:DF(1.0)\"";
    let message =
        "Inventory leaf at /editions/0/dataflows: a dataflow is present, but the product's kind is structure (INV-184)";
    refused::<Leaf>(
        LEAF_STRUCTURE,
        "\"dataflows\":[]",
        &format!("\"dataflows\":[{flow}]"),
        Refuses,
        message,
    );
}

/// INV-186, INV-191: an entry keeps fields of a later minor version when its product's next leaf is written.
#[test]
fn unknown_fields_of_an_entry_are_kept() {
    let from = "\"release_at\":null,\"dataflows\"";
    let leaf: Leaf = accepted(
        LEAF,
        from,
        "\"release_at\":null,\"pool\":{\"b\":1,\"a\":2.50},\"dataflows\"",
    );
    let encoded = String::from_utf8(leaf.encode().unwrap()).unwrap();
    assert!(
        encoded.ends_with("\"pull_bytes\":13131776,\"pool\":{\"b\":1,\"a\":2.50}}]}"),
        "{encoded}"
    );
}

/// INV-190: a leaf says nowhere where its editions lie.
#[test]
fn a_leaf_carries_no_location() {
    let encoded = String::from_utf8(Leaf::decode(LEAF.as_bytes()).unwrap().encode().unwrap()).unwrap();
    assert!(!encoded.contains("location") && !encoded.contains("products/"));
}
