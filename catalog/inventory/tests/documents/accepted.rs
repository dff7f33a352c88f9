//! Documents that are read, and come out again as the same bytes.

use sovm_inventory::doc::{
    Catalog, Current, Document, EventKind, History, Instant, Journal, Leaf, Manifest, Pending, Root, Segment, Seq,
    Sha256, Stored, Unverified, layout,
};

use super::support::{
    CATALOG_1, CATALOG_2, CURRENT, E0, E3, HISTORY, HISTORY_OPT_IN, JOURNAL, LEAF, LEAF_STRUCTURE, MANIFEST,
    MANIFEST_STRUCTURE, P, PENDING, ROOT_1, ROOT_41, ROOT_42, ROOT_FOREIGN, ROOT_WITHOUT_HISTORY, SCHEMAS,
    SEGMENT_EXPIRY, SEGMENT_RESTORE, VECTORS, schema_accepts,
};

fn same_bytes<T: Document + std::fmt::Debug + PartialEq>(text: &str) {
    let value = T::decode(text.as_bytes()).unwrap();
    let encoded = value.encode().unwrap();
    assert_eq!(String::from_utf8(encoded.clone()).unwrap(), text);
    assert_eq!(T::decode(&encoded).unwrap(), value);
    assert!(schema_accepts(T::KIND, text), "schema of {}", T::KIND);
}

/// INV-18, INV-35, INV-130, INV-147, INV-149, INV-169, INV-268, INV-280, INV-286, INV-403: every document in its format.
#[test]
fn every_document_comes_out_as_the_bytes_it_was_read_from() {
    same_bytes::<Catalog>(CATALOG_1);
    same_bytes::<Catalog>(CATALOG_2);
    same_bytes::<Current>(CURRENT);
    same_bytes::<Root>(ROOT_1);
    same_bytes::<Root>(ROOT_41);
    same_bytes::<Root>(ROOT_42);
    same_bytes::<Root>(ROOT_WITHOUT_HISTORY);
    same_bytes::<Leaf>(LEAF);
    same_bytes::<Leaf>(LEAF_STRUCTURE);
    same_bytes::<Manifest>(MANIFEST);
    same_bytes::<Manifest>(MANIFEST_STRUCTURE);
    same_bytes::<History>(HISTORY);
    same_bytes::<History>(HISTORY_OPT_IN);
    same_bytes::<Segment>(SEGMENT_EXPIRY);
    same_bytes::<Segment>(SEGMENT_RESTORE);
    same_bytes::<Journal>(JOURNAL);
    same_bytes::<Pending>(PENDING);
}

/// INV-166: the hash is the one another implementation takes over the stored bytes, white space and all.
#[test]
fn hashes_are_over_stored_bytes() {
    let sums = include_str!("../vectors/SHA256SUMS");
    assert_eq!(sums.lines().count(), VECTORS.len());
    for (file, text) in VECTORS {
        let line = format!("{}  {file}", Sha256::of(text.as_bytes()));
        assert!(sums.lines().any(|sum| sum == line), "{line}");
    }
    let foreign = Stored::<Root, Unverified>::decode(ROOT_FOREIGN.as_bytes()).unwrap();
    assert_eq!(foreign.sha256(), Sha256::of(ROOT_FOREIGN.as_bytes()));
    assert_eq!(foreign.bytes().as_ref(), ROOT_FOREIGN.as_bytes());
    assert_ne!(foreign.value().encode().unwrap(), ROOT_FOREIGN.as_bytes());
}

/// INV-129: the schemas in the repository are schemas of draft 2020-12, one for each document, and say so.
#[test]
fn schemas_are_schemas() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let mut files = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        let schema: serde_json::Value = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
        assert!(jsonschema::draft202012::meta::is_valid(&schema), "{:?}", file.path());
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert!(
            SCHEMAS.contains_key(file.file_name().to_str().unwrap()),
            "{:?} is checked",
            file.path()
        );
        files += 1;
    }
    assert_eq!(files, SCHEMAS.len());
}

/// INV-157, INV-191: a later minor version's unknown fields and event kind are read; an audit sees "other".
#[test]
fn a_later_minor_is_read() {
    let root = Root::decode(ROOT_FOREIGN.as_bytes()).unwrap();
    assert_eq!(root.event.kind, EventKind::Other("merge".to_owned()));
    assert_eq!(root.event.reason, "café \u{2028}");
    let later = root.extra.get("later").unwrap();
    assert_eq!(later.to_text(), r#"{"z":1.50,"a":[1e3,12345678901234567890123]}"#);
    assert!(root.check_as_written().is_err());
}

/// INV-161, INV-165, INV-167: the vectors link as the format says: by hash from the root to its base and to its leaf.
#[test]
fn the_vectors_form_a_chain() {
    let leaf = Stored::<Leaf, Unverified>::decode(LEAF.as_bytes()).unwrap();
    let base = Stored::<Root, Unverified>::decode(ROOT_41.as_bytes()).unwrap();
    let current = Current::decode(CURRENT.as_bytes()).unwrap();
    let root = Stored::<Root>::verify(ROOT_42.as_bytes(), current.root.root_sha256).unwrap();
    let history = root.history.as_ref().unwrap();
    assert_eq!(history.previous_root_sha256, Some(base.sha256()));
    assert_eq!(root.products[&P.parse().unwrap()].leaf_sha256, leaf.sha256());
    // A correction is built from an older version and still links, and differs from, the one before it.
    assert_eq!(base.event.kind, EventKind::Correct);
    assert_eq!(base.previous_inventory, Seq::new(39));
    assert!(base.is_retired(&P.parse().unwrap(), &E0.parse().unwrap()));
    assert!(!base.is_retired(&P.parse().unwrap(), &E3.parse().unwrap()));
}

/// INV-172: a manifest is hashed before it is parsed, and another hash refuses it, naming both.
#[test]
fn a_manifest_with_another_hash_is_refused_before_it_is_parsed() {
    let expected = Sha256::of(MANIFEST.as_bytes());
    assert_eq!(
        Stored::<Manifest>::verify(MANIFEST.as_bytes(), expected)
            .unwrap()
            .sha256(),
        expected
    );
    let found = Sha256::of(b"no JSON");
    let error = Stored::<Manifest>::verify(&b"no JSON"[..], expected).unwrap_err();
    let message = format!("edition manifest: stored bytes hash to {found}, but {expected} was expected (INV-172)");
    assert_eq!(error.to_string(), message);
}

/// INV-166: a root and a leaf are refused for another hash as well.
#[test]
fn another_hash_is_refused() {
    let (found, expected) = (Sha256::of(ROOT_42.as_bytes()), Sha256::of(b""));
    let error = Stored::<Root>::verify(ROOT_42.as_bytes(), expected).unwrap_err();
    let message = format!("Inventory root: stored bytes hash to {found}, but {expected} was expected (INV-166)");
    assert_eq!(error.to_string(), message);
    let unverified = Stored::<Root, Unverified>::decode(ROOT_42.as_bytes()).unwrap();
    assert_eq!(
        unverified.clone().verified_by(expected).unwrap_err().to_string(),
        message
    );
    assert_eq!(unverified.verified_by(found).unwrap().sha256(), found);
}

/// INV-184, INV-174, INV-240: what an entry repeats of its manifest is computed from the manifest.
#[test]
fn routing_fields_and_artefacts_come_from_the_manifest() {
    let manifest = Manifest::decode(MANIFEST.as_bytes()).unwrap();
    let leaf = Leaf::decode(LEAF.as_bytes()).unwrap();
    let entry = leaf.entry(&E3.parse().unwrap()).unwrap();
    assert_eq!(entry.routing, Some(manifest.routing()));
    assert_eq!(entry.manifest_sha256, Sha256::of(MANIFEST.as_bytes()));
    assert!(!manifest.is_structure());
    let structure = Manifest::decode(MANIFEST_STRUCTURE.as_bytes()).unwrap();
    assert!(structure.is_structure());
    let leaf = Leaf::decode(LEAF_STRUCTURE.as_bytes()).unwrap();
    assert_eq!(leaf.editions[0].artefacts, Some(structure.artefact_fingerprints()));
    assert_eq!(leaf.editions[0].routing, Some(structure.routing()));
}

/// INV-18, INV-19, INV-33, INV-69: the names.
#[test]
fn names_of_the_layout() {
    let (product, edition) = (P.parse().unwrap(), E3.parse().unwrap());
    let seq = Seq::new(42).unwrap();
    assert_eq!(layout::root(seq), "inventory/000000000042.json");
    assert_eq!(layout::root(Seq::MAX), "inventory/999999999999.json");
    assert_eq!(layout::root_seq("inventory/000000000042.json"), Some(seq));
    let hash = Sha256::of(b"");
    let leaf = format!("inventory/leaves/{hash}.json");
    assert_eq!(layout::leaf(&hash), leaf);
    assert_eq!(layout::leaf_sha256(&leaf), Some(hash));
    assert_eq!(layout::pending(&product, &edition), format!("pending/{P}/{E3}.json"));
    assert_eq!(
        layout::pending_ids(&format!("pending/{P}/{E3}.json")),
        Some((product, edition))
    );
    let product = P.parse().unwrap();
    assert_eq!(
        layout::journal(&product, &edition),
        format!("products/{P}/journal/{E3}.json")
    );
    assert_eq!(layout::edition(&product, &edition), format!("products/{P}/{E3}"));
    assert_eq!(
        layout::manifest(&product, &edition),
        format!("products/{P}/{E3}/manifest.json")
    );
    assert_eq!(layout::data(&product), format!("products/{P}/data"));
    assert_eq!(
        [layout::CATALOG, layout::CURRENT, layout::LOCK],
        ["catalog.json", "CURRENT", "LOCK"]
    );
    assert_eq!(layout::HISTORY, "inventory/HISTORY");
    assert_eq!(layout::MANIFEST_SIGNATURE, "manifest.json.sig");
}

/// INV-18, INV-19: a name of another form is no name of a root, leaf or registration.
#[test]
fn other_names_are_no_documents() {
    for path in [
        "inventory/42.json",
        "inventory/0000000000042.json",
        "inventory/000000000000.json",
        "inventory/+00000000042.json",
        "inventory/00000000004x.json",
        "inventory/000000000042.json.tmp",
        "/inventory/000000000042.json",
        "inventory000000000042.json",
        "inventory/HISTORY",
    ] {
        assert_eq!(layout::root_seq(path), None, "{path}");
    }
    let hash = Sha256::of(b"").to_string();
    for path in [
        format!("inventory/leaves/{}.json", hash.to_uppercase()),
        format!("leaves/{hash}.json"),
        hash,
    ] {
        assert_eq!(layout::leaf_sha256(&path), None, "{path}");
    }
    for path in [
        format!("pending/{E3}.json"),
        format!("pending/../{E3}.json"),
        format!("pending/{P}/{E3}"),
        format!("pending/{P}/x/{E3}.json"),
        format!("pending//{E3}.json"),
    ] {
        assert_eq!(layout::pending_ids(&path), None, "{path}");
    }
}

/// INV-9, INV-37, INV-130: an id is a UUIDv7 and carries its time.
#[test]
fn ids_are_uuid_version_7_in_one_spelling() {
    use sovm_inventory::doc::EditionId;
    let instant: Instant = "2026-10-09T12:30:00.412Z".parse().unwrap();
    let id = EditionId::at(instant, [7; 10]);
    assert_eq!(id, EditionId::at(instant, [7; 10]));
    assert_eq!(id.time(), instant);
    assert_eq!(id.to_string().parse::<EditionId>().unwrap(), id);
    assert!(EditionId::generate() < EditionId::at("2200-01-01T00:00:00Z".parse().unwrap(), [0; 10]));
    for text in [
        &E3.to_uppercase(),
        &E3.replace('-', ""),
        &format!("{{{E3}}}"),
        &format!("urn:uuid:{E3}"),
        // Versions 4 and 1, and a variant that is not RFC 4122's.
        "01a18e76-2bad-4480-abfe-2ba8a6889a45",
        "01a18e76-2bad-1480-abfe-2ba8a6889a45",
        "01a18e76-2bad-7480-cbfe-2ba8a6889a45",
        "",
        " 01a18e76-2bad-7480-abfe-2ba8a6889a45",
    ] {
        assert!(text.parse::<EditionId>().is_err(), "{text}");
    }
}

/// INV-152, INV-170: an instant is RFC 3339 in UTC, ends in Z, and is written back as it was read.
#[test]
fn instants() {
    for text in [
        "2026-10-09T12:30:00Z",
        "2026-10-09T12:30:00.4Z",
        "2026-10-09T12:30:00.412Z",
        "2026-10-09T12:30:00.412000Z",
        "2026-10-09T12:30:00.123456789Z",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999999Z",
        "2024-02-29T00:00:00Z",
    ] {
        assert_eq!(text.parse::<Instant>().unwrap().to_string(), text);
    }
    let (short, long): (Instant, Instant) = (
        "2026-10-09T12:30:00Z".parse().unwrap(),
        "2026-10-09T12:30:00.000Z".parse().unwrap(),
    );
    assert_eq!(short, long);
    assert!(short <= long && long <= short);
    for text in [
        "2026-10-09T12:30:00",
        "2026-10-09T12:30:00+00:00",
        "2026-10-09T12:30:00-00:00",
        "2026-10-09t12:30:00Z",
        "2026-10-09T12:30:00z",
        "2026-10-09 12:30:00Z",
        "2026-10-09T12:30:00.Z",
        "2026-10-09T12:30:00.1234567890Z",
        "2026-10-09T12:30Z",
        "2026-10-09T12:30:60Z",
        "2026-10-09T24:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "+026-10-09T12:30:00Z",
        "2026-10-09T12:30:00.4é2Z",
        "2026-10-09T12:30:0éZ",
        "Z",
        "",
    ] {
        assert!(text.parse::<Instant>().is_err(), "{text}");
    }
}

/// INV-252: one millisecond later than a base written in nanoseconds is later, and never a shorter text.
#[test]
fn a_millisecond_later() {
    let base: Instant = "2026-10-09T12:30:00.123456789Z".parse().unwrap();
    let later = base.plus(chrono::TimeDelta::milliseconds(1));
    assert_eq!(later.to_string(), "2026-10-09T12:30:00.124456789Z");
    assert_eq!(later.since(base), chrono::TimeDelta::milliseconds(1));
    let whole: Instant = "2026-10-09T12:30:00Z".parse().unwrap();
    assert_eq!(
        whole.plus(chrono::TimeDelta::milliseconds(1)).to_string(),
        "2026-10-09T12:30:00.001000Z"
    );
    let end: Instant = "9999-12-31T23:59:59.999999999Z".parse().unwrap();
    assert_eq!(end.plus(chrono::TimeDelta::MAX), end);
}
