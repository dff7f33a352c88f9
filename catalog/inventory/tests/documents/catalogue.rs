//! Refusals of `catalog.json`, `CURRENT`, `HISTORY`, the journal and the registration.

use sovm_inventory::doc::{
    Catalog, CatalogId, Current, Document, Epoch, FormatVersion, History, Journal, Json, Pending, Seq, WriterSupport,
};

use super::support::{
    CATALOG_1, CATALOG_2, CURRENT, E2, E3, HISTORY, HISTORY_OPT_IN, JOURNAL, P, PENDING,
    Schema::{Refuses, Silent},
    accepted, refused, value_of,
};

/// INV-130: the id is a UUIDv7, the epoch a number from 0, and each is required.
#[test]
fn catalog_fields() {
    let id = value_of(CATALOG_1, "catalog_id");
    let bad = "catalog.json at /catalog_id: expected a catalog_id (a UUIDv7 in lower case), found \"x\" (INV-130)";
    refused::<Catalog>(CATALOG_1, id, "x", Refuses, bad);
    let missing = "catalog.json at /catalog_id: required field is missing (INV-130)";
    refused::<Catalog>(CATALOG_1, "\"catalog_id\"", "\"id\"", Refuses, missing);
    let missing = "catalog.json at /restore_epoch: required field is missing (INV-130)";
    refused::<Catalog>(CATALOG_1, "restore_epoch", "epoch", Refuses, missing);
    let negative = "catalog.json at /restore_epoch: -1 is outside 0 to 9007199254740991 (INV-130)";
    refused::<Catalog>(
        CATALOG_1,
        "\"restore_epoch\":0",
        "\"restore_epoch\":-1",
        Refuses,
        negative,
    );
    let text = "catalog.json at /restore_epoch: expected a whole number, found a string (INV-130)";
    refused::<Catalog>(
        CATALOG_1,
        "\"restore_epoch\":0",
        "\"restore_epoch\":\"0\"",
        Refuses,
        text,
    );
    let version = "catalog.json at /format_version: expected a format version (<major>.<minor>), found \"1\" (INV-130)";
    refused::<Catalog>(CATALOG_1, "\"1.0\"", "\"1\"", Refuses, version);
}

/// INV-130, INV-134: `history.since_seq` is required in format 2, absent in format 1, and a sequence number.
#[test]
fn since_seq_stands_in_format_2_only() {
    let present = "catalog.json: history.since_seq is present, but format_version is 1.0 (INV-130)";
    refused::<Catalog>(CATALOG_2, "\"2.0\"", "\"1.0\"", Refuses, present);
    let absent = "catalog.json: history.since_seq is absent, but format_version is 2.0 (INV-130)";
    refused::<Catalog>(CATALOG_1, "\"1.0\"", "\"2.0\"", Refuses, absent);
    let zero = "catalog.json at /history/since_seq: 0 is outside 1 to 999999999999 (INV-130)";
    refused::<Catalog>(CATALOG_2, "17", "0", Refuses, zero);
    let missing = "catalog.json at /history/since_seq: required field is missing (INV-130)";
    refused::<Catalog>(CATALOG_2, "since_seq", "since", Refuses, missing);
    let null = "catalog.json at /history: expected an object, found null (INV-130)";
    refused::<Catalog>(CATALOG_2, "{\"since_seq\":17}", "null", Refuses, null);
}

/// INV-135, INV-192, INV-381: a reader knows majors 1 and 2 and refuses every other one, naming both versions.
#[test]
fn catalog_majors() {
    assert!(!Catalog::decode(CATALOG_1.as_bytes()).unwrap().is_opted_in());
    assert_eq!(Catalog::decode(CATALOG_2.as_bytes()).unwrap().since_seq, Seq::new(17));
    assert_eq!(
        accepted::<Catalog>(CATALOG_2, "\"2.0\"", "\"2.9\"")
            .format_version
            .minor,
        9
    );
    let newer =
        "catalog.json at /format_version: format 3.0 is newer than the major version 2 this build reads (INV-192)";
    refused::<Catalog>(CATALOG_2, "\"2.0\"", "\"3.0\"", Refuses, newer);
    let older =
        "catalog.json at /format_version: format 0.9 is older than the major version 1 this build reads (INV-192)";
    refused::<Catalog>(CATALOG_1, "\"1.0\"", "\"0.9\"", Refuses, older);
}

/// INV-136: a writer without the lock refuses an opted-in catalogue; one with it writes both.
#[test]
fn a_writer_without_the_lock_refuses_format_2() {
    let error = Catalog::decode_for_writer(CATALOG_2.as_bytes(), WriterSupport::Unlocked).unwrap_err();
    let message =
        "catalog.json at /format_version: format 2.0 is newer than the major version 1 this build reads (INV-136)";
    assert_eq!(error.to_string(), message);
    assert!(Catalog::decode_for_writer(CATALOG_1.as_bytes(), WriterSupport::Unlocked).is_ok());
    assert!(Catalog::decode_for_writer(CATALOG_1.as_bytes(), WriterSupport::LockAndExpiry).is_ok());
    assert!(Catalog::decode_for_writer(CATALOG_2.as_bytes(), WriterSupport::LockAndExpiry).is_ok());
}

/// INV-131, INV-142, INV-191: a rewrite keeps what this build does not know and changes the rest.
#[test]
fn opting_in_keeps_unknown_fields() {
    let mut catalog: Catalog = accepted(
        CATALOG_1,
        "\"restore_epoch\":0",
        "\"restore_epoch\":0,\"later\":{\"b\":1.0}",
    );
    catalog.restore_epoch = catalog.restore_epoch.next().unwrap();
    let opted_in = catalog.opted_in(Seq::FIRST);
    let id = value_of(CATALOG_1, "catalog_id");
    let expected = format!(
        r#"{{"format_version":"2.0","catalog_id":"{id}","restore_epoch":1,"history":{{"since_seq":1}},"later":{{"b":1.0}}}}"#
    );
    assert_eq!(String::from_utf8(opted_in.encode().unwrap()).unwrap(), expected);
    let extension = Catalog::decode(CATALOG_2.as_bytes()).unwrap().extensions;
    assert_eq!(
        extension.get("sovm").map(Json::to_text).unwrap(),
        r#"{"authority":"5f"}"#
    );
}

/// INV-130: what a writer would put down wrongly is refused before it is written.
#[test]
fn encode_refuses_what_decode_refuses() {
    let new = Catalog::new(CatalogId::generate());
    assert_eq!(Catalog::decode(&new.encode().unwrap()).unwrap(), new);
    let wrong = Catalog {
        format_version: FormatVersion::CATALOG_OPTED_IN,
        ..new
    };
    let message = "catalog.json: history.since_seq is absent, but format_version is 2.0 (INV-130)";
    assert_eq!(wrong.encode().unwrap_err().to_string(), message);
}

/// INV-147: `CURRENT` names a root by number, hash and epoch.
#[test]
fn current_fields() {
    let hash = value_of(CURRENT, "root_sha256");
    let upper = hash.to_uppercase();
    let message =
        format!("CURRENT at /root_sha256: expected a SHA-256 (64 lower-case hex digits), found \"{upper}\" (INV-147)");
    refused::<Current>(CURRENT, hash, &upper, Refuses, &message);
    let message = format!(
        "CURRENT at /root_sha256: expected a SHA-256 (64 lower-case hex digits), found \"{}\" (INV-147)",
        &hash[2..]
    );
    refused::<Current>(CURRENT, hash, &hash[2..], Refuses, &message);
    refused::<Current>(
        CURRENT,
        ":42",
        ":0",
        Refuses,
        "CURRENT at /seq: 0 is outside 1 to 999999999999 (INV-147)",
    );
    let missing = "CURRENT at /restore_epoch: required field is missing (INV-147)";
    refused::<Current>(CURRENT, "restore_epoch", "epoch", Refuses, missing);
    refused::<Current>(
        CURRENT,
        "\"seq\":42,",
        "",
        Refuses,
        "CURRENT at /seq: required field is missing (INV-147)",
    );
    assert_eq!(
        accepted::<Current>(CURRENT, "\"seq\"", "\"new\":1,\"seq\"").root.seq,
        Seq::new(42).unwrap()
    );
}

/// INV-280: every field of `HISTORY` is required.
#[test]
fn history_fields() {
    for field in [
        "catalog_id",
        "restore_epoch",
        "newest_segment_sha256",
        "cleaned_through",
    ] {
        let message = format!("inventory/HISTORY at /{field}: required field is missing (INV-280)");
        refused::<History>(HISTORY, &format!("\"{field}\""), "\"x\"", Refuses, &message);
    }
    let missing = "inventory/HISTORY at /expired_through: required field is missing (INV-279)";
    refused::<History>(HISTORY, "expired_through", "expired", Refuses, missing);
    let negative = "inventory/HISTORY at /expired_through: -1 is outside 0 to 999999999999 (INV-279)";
    refused::<History>(
        HISTORY_OPT_IN,
        "\"expired_through\":0",
        "\"expired_through\":-1",
        Refuses,
        negative,
    );
}

/// INV-192: a newer `HISTORY` is refused.
#[test]
fn history_major() {
    let newer =
        "inventory/HISTORY at /format_version: format 2.0 is newer than the major version 1 this build reads (INV-192)";
    refused::<History>(HISTORY, "\"1.0\"", "\"2.0\"", Refuses, newer);
}

/// INV-280: the newest segment's path and hash are null together, and nothing is cleaned before a segment exists.
#[test]
fn history_nulls() {
    let (path, hash) = (
        value_of(HISTORY, "newest_segment"),
        value_of(HISTORY, "newest_segment_sha256"),
    );
    let message = format!(
        "inventory/HISTORY at /newest_segment_sha256: newest_segment_sha256 is absent, but newest_segment is {path} (INV-280)"
    );
    refused::<History>(HISTORY, &format!("\"{hash}\""), "null", Refuses, &message);
    let message = format!(
        "inventory/HISTORY at /newest_segment: newest_segment is absent, but newest_segment_sha256 is {hash} (INV-280)"
    );
    let from = format!("\"newest_segment\":\"{path}\"");
    refused::<History>(HISTORY, &from, "\"newest_segment\":null", Refuses, &message);
    let message = format!(
        "inventory/HISTORY at /newest_segment: newest_segment is absent, but cleaned_through is {path} (INV-280)"
    );
    let to = format!("\"cleaned_through\":\"{path}\"");
    refused::<History>(HISTORY_OPT_IN, "\"cleaned_through\":null", &to, Refuses, &message);
}

/// INV-279: no version expires without a segment.
#[test]
fn nothing_expires_without_a_segment() {
    let message = "inventory/HISTORY at /newest_segment: newest_segment is absent, but expired_through is 9, and no version expires without a segment (INV-279)";
    refused::<History>(
        HISTORY_OPT_IN,
        "\"expired_through\":0",
        "\"expired_through\":9",
        Refuses,
        message,
    );
}

/// INV-142, INV-280: what opting in writes; `expired_through` 0 is no sequence number.
#[test]
fn history_at_opt_in() {
    let id = value_of(HISTORY_OPT_IN, "catalog_id").parse().unwrap();
    let history = History::at_opt_in(id, Epoch::FIRST);
    assert_eq!(history.encode().unwrap(), HISTORY_OPT_IN.as_bytes());
    assert_eq!(history.expired_through, None);
    assert!(Some(Seq::FIRST) > history.expired_through);
}

/// INV-268: the journal says product, edition, base and time, and lies under its own name.
#[test]
fn journal_fields() {
    for field in ["product_id", "edition_id", "previous", "sealed_at"] {
        let message = format!("seal journal at /{field}: required field is missing (INV-268)");
        refused::<Journal>(JOURNAL, &format!("\"{field}\""), "\"x\"", Refuses, &message);
    }
    let itself = format!(
        "seal journal at /previous: previous is {E3}, but edition_id, from which it must differ, is {E3} (INV-268)"
    );
    refused::<Journal>(JOURNAL, E2, E3, Silent, &itself);
    let journal = Journal::decode(JOURNAL.as_bytes()).unwrap();
    let (product, edition) = (P.parse().unwrap(), E3.parse().unwrap());
    assert!(journal.check_path(&product, &edition).is_ok());
    let error = journal.check_path(&"other".parse().unwrap(), &edition).unwrap_err();
    let message =
        format!("seal journal at /product_id: product_id is {P}, but the name it lies under is other (INV-268)");
    assert_eq!(error.to_string(), message);
    let error = journal.check_path(&product, &E2.parse().unwrap()).unwrap_err();
    let message =
        format!("seal journal at /edition_id: edition_id is {E3}, but the name it lies under is {E2} (INV-268)");
    assert_eq!(error.to_string(), message);
}

/// INV-403: a registration names its edition and when it may be released, and lies under its own name.
#[test]
fn pending_fields() {
    let missing = "pending registration at /release_at: required field is missing (INV-403)";
    refused::<Pending>(PENDING, "release_at", "at", Refuses, missing);
    let naive = "pending registration at /release_at: expected an instant (RFC 3339, UTC, ending in Z), found \"2026-11-06T13:30:00\" (INV-403)";
    refused::<Pending>(PENDING, "13:30:00Z", "13:30:00", Refuses, naive);
    let missing = "pending registration at /edition_id: required field is missing (INV-403)";
    refused::<Pending>(PENDING, "edition_id", "edition", Refuses, missing);
    assert_eq!(
        accepted::<Pending>(PENDING, "\"2026-11-06T13:30:00Z\"", "null").release_at,
        None
    );
    let pending = Pending::decode(PENDING.as_bytes()).unwrap();
    assert!(pending.check_path(&E3.parse().unwrap()).is_ok());
    let message = format!(
        "pending registration at /edition_id: edition_id is {E3}, but the name it lies under is {E2} (INV-403)"
    );
    assert_eq!(
        pending.check_path(&E2.parse().unwrap()).unwrap_err().to_string(),
        message
    );
}
