//! Refusals of edition manifests.

use sovm_inventory::doc::{
    Digests, Document, Entry, FileRoot, Leaf, Manifest, ReadableVersions, Sha256, Stability, Stored, TableFingerprint,
    Tier, Unverified, Urn,
};

use super::support::{
    E2, E3, LEAF, LEAF_STRUCTURE, MANIFEST, MANIFEST_STRUCTURE, P,
    Schema::{Refuses, Silent},
    accepted, edit, refused,
};

/// INV-10, INV-35: a reader of format 3 refuses 2.x and 4.x, naming both versions; INV-12: a minor only adds.
#[test]
fn manifest_majors() {
    let older =
        "edition manifest at /format_version: format 2.9 is older than the major version 3 this build reads (INV-10)";
    refused::<Manifest>(MANIFEST, "\"3.0\"", "\"2.9\"", Refuses, older);
    let newer =
        "edition manifest at /format_version: format 4.0 is newer than the major version 3 this build reads (INV-10)";
    refused::<Manifest>(MANIFEST, "\"3.0\"", "\"4.0\"", Refuses, newer);
    let text = "edition manifest at /format_version: expected a string, found a number (INV-35)";
    refused::<Manifest>(MANIFEST, "\"3.0\"", "3.0", Refuses, text);
    let minor: Manifest = accepted(MANIFEST, "\"3.0\"", "\"3.1\"");
    let message =
        "edition manifest at /format_version: format_version is 3.1, but the version a writer writes is 3.0 (INV-35)";
    assert_eq!(minor.check_as_written().unwrap_err().to_string(), message);
}

/// INV-36, INV-37, INV-38, INV-39, INV-40, INV-43, INV-45, INV-51, INV-56: required fields, each under its rule.
#[test]
fn manifest_fields() {
    for (field, rule) in [
        ("format_version", 35),
        ("product_id", 36),
        ("edition_id", 37),
        ("previous", 38),
        ("created_at", 39),
        ("producer", 39),
        ("schema_version", 56),
        ("data_path", 43),
        ("files", 56),
        ("bindings", 51),
        ("artefacts", 45),
        ("canonical_form", 40),
    ] {
        let message = format!("edition manifest at /{field}: required field is missing (INV-{rule})");
        refused::<Manifest>(MANIFEST_STRUCTURE, &format!("\"{field}\""), "\"x\"", Refuses, &message);
    }
}

/// INV-11: the old names `publication_token`, `previous_token` and `product` are no fields of this format.
#[test]
fn only_the_new_names_are_read() {
    let message = "edition manifest at /edition_id: required field is missing (INV-37)";
    refused::<Manifest>(MANIFEST, "\"edition_id\"", "\"publication_token\"", Refuses, message);
    let manifest: Manifest = accepted(MANIFEST, "\"producer_fields\"", "\"product\"");
    assert!(manifest.producer_fields.is_empty());
}

/// INV-36, INV-37: a manifest lies under its own product and edition.
#[test]
fn a_manifest_lies_under_its_own_name() {
    let manifest = Manifest::decode(MANIFEST.as_bytes()).unwrap();
    let (product, edition) = (P.parse().unwrap(), E3.parse().unwrap());
    assert!(manifest.check_path(&product, &edition).is_ok());
    let message =
        format!("edition manifest at /product_id: product_id is {P}, but the name it lies under is other (INV-36)");
    assert_eq!(
        manifest
            .check_path(&"other".parse().unwrap(), &edition)
            .unwrap_err()
            .to_string(),
        message
    );
    let message =
        format!("edition manifest at /edition_id: edition_id is {E3}, but the name it lies under is {E2} (INV-37)");
    assert_eq!(
        manifest
            .check_path(&product, &E2.parse().unwrap())
            .unwrap_err()
            .to_string(),
        message
    );
}

/// INV-38: an edition is not built from itself, and the first from nothing.
#[test]
fn previous() {
    let from = format!("\"edition_id\":\"{E3}\"");
    let message = format!(
        "edition manifest at /previous: previous is {E2}, but edition_id, from which it must differ, is {E2} (INV-38)"
    );
    refused::<Manifest>(MANIFEST, &from, &format!("\"edition_id\":\"{E2}\""), Silent, &message);
    assert_eq!(Manifest::decode(MANIFEST_STRUCTURE.as_bytes()).unwrap().previous, None);
}

/// INV-39: the seal's time is UTC.
#[test]
fn sealed_at_utc() {
    let message = "edition manifest at /created_at: expected an instant (RFC 3339, UTC, ending in Z), found \"2026-10-30T12:30:00.000000\" (INV-39)";
    refused::<Manifest>(MANIFEST, "12:30:00.000000Z", "12:30:00.000000", Refuses, message);
}

/// INV-41, INV-46, INV-55: optional fields may be absent, or null where the format says so, and hold what it says.
#[test]
fn optional_fields() {
    let manifest: Manifest = accepted(MANIFEST, "\"content_fingerprint\"", "\"x\"");
    assert_eq!(manifest.content_fingerprint, None);
    let manifest = Manifest::decode(MANIFEST.as_bytes()).unwrap();
    assert_eq!(manifest.producer_fields.len(), 1);
    assert!(manifest.extensions.get("statcat").is_some());
    let message = "edition manifest at /producer_fields: expected an object, found an array (INV-46)";
    refused::<Manifest>(MANIFEST, "{\"job\":\"nightly\"}", "[]", Refuses, message);
    let message = "edition manifest at /extensions: expected an object, found a string (INV-55)";
    refused::<Manifest>(
        MANIFEST,
        "{\"statcat\":{\"format_version\":\"3\"}}",
        "\"statcat\"",
        Refuses,
        message,
    );
    let message =
        "edition manifest at /content_fingerprint: expected a SHA-256 (64 lower-case hex digits), found \"1\" (INV-41)";
    refused::<Manifest>(
        MANIFEST_STRUCTURE,
        "\"content_fingerprint\":null",
        "\"content_fingerprint\":\"1\"",
        Refuses,
        message,
    );
}

/// INV-42: the versions of DuckDB and DuckLake are there where the edition holds such a file, and absent where it holds none.
#[test]
fn engine_versions() {
    for (field, file) in [
        ("duckdb_version", "metadata.duckdb"),
        ("duckdb_storage_version", "metadata.duckdb"),
        ("ducklake_version", "tables.ducklake"),
        ("ducklake_spec_version", "tables.ducklake"),
    ] {
        let message = format!("edition manifest at /{field}: {field} is absent, but the edition holds {file} (INV-42)");
        refused::<Manifest>(MANIFEST, &format!("\"{field}\""), "\"x\"", Refuses, &message);
    }
    let manifest = Manifest::decode(MANIFEST_STRUCTURE.as_bytes()).unwrap();
    assert_eq!(manifest.engine.duckdb_version, None);
}

/// INV-43, INV-44: data lies beside the edition, never at an absolute place, and nowhere above the product.
#[test]
fn data_path_is_relative() {
    for bad in [
        "/data/",
        "s3://bucket/data/",
        "C:\\\\data\\\\",
        "../../other/data/",
        "../data",
        "",
    ] {
        let message = format!(
            "edition manifest at /data_path: expected ../data/, relative to the edition's directory, found {:?} (INV-43)",
            bad.replace("\\\\", "\\")
        );
        refused::<Manifest>(MANIFEST, "\"../data/\"", &format!("\"{bad}\""), Refuses, &message);
    }
}

/// INV-47: a path stays below its root.
#[test]
fn file_paths_stay_below_their_root() {
    for bad in [
        "/etc/passwd",
        "../tables.ducklake",
        "search/../../x",
        "search//x",
        "search/./x",
        "search/",
        ".",
        "",
        "a\\\\b",
        "C:/x",
        "file:x",
        "a\\u0000b",
    ] {
        let shown = bad.replace("\\\\", "\\").replace("\\u0000", "\0");
        let message = format!(
            "edition manifest at /files/2/path: expected a relative path below its root, found {shown:?} (INV-47)"
        );
        refused::<Manifest>(MANIFEST, "tables.ducklake", bad, Refuses, &message);
    }
    for good in ["x", "search/.hidden", "search/a..b", "..x", "z é/…"] {
        let text = edit(
            MANIFEST,
            "\"path\":\"codr/t14100287/ducklake-01930000.parquet\"",
            &format!("\"path\":\"{good}\""),
        );
        assert_eq!(Manifest::decode(text.as_bytes()).unwrap().files[0].path.as_str(), good);
    }
}

/// INV-47, INV-48: the words for a file's root and tier.
#[test]
fn file_roots_and_tiers() {
    let message = "edition manifest at /files/0/root: expected edition or data, found \"bundle\" (INV-47)";
    refused::<Manifest>(MANIFEST, "\"root\":\"data\"", "\"root\":\"bundle\"", Refuses, message);
    let message = "edition manifest at /files/0/tier: expected required, lazy or remote, found \"hot\" (INV-48)";
    refused::<Manifest>(MANIFEST, "\"tier\":\"remote\"", "\"tier\":\"hot\"", Refuses, message);
    let message = "edition manifest at /files/0/tier: required field is missing (INV-48)";
    refused::<Manifest>(MANIFEST, "\"tier\":\"remote\"", "\"x\":0", Refuses, message);
    let file = &accepted::<Manifest>(MANIFEST, "\"tier\":\"remote\"", "\"tier\":\"lazy\"").files[0];
    assert_eq!((file.root, file.tier), (FileRoot::Data, Tier::Lazy));
}

/// INV-49: digests are lower-case hex of the right length, `sha256` among them.
#[test]
fn digests() {
    let crc = "\"crc32c\":\"0badcafe\"";
    for (bad, expected) in [
        (
            "\"crc32c\":\"0BADCAFE\"",
            "crc32c: expected 8 lower-case hex digits, found \"0BADCAFE\"",
        ),
        (
            "\"crc32c\":\"0badcaf\"",
            "crc32c: expected 8 lower-case hex digits, found \"0badcaf\"",
        ),
        (
            "\"md4\":\"abc\"",
            "md4: expected whole bytes in lower-case hex, found \"abc\"",
        ),
        (
            "\"md4\":\"\"",
            "md4: expected whole bytes in lower-case hex, found \"\"",
        ),
        (
            "\"MD4\":\"ab\"",
            "MD4: expected a digest algorithm (a-z 0-9 - _), found \"MD4\"",
        ),
        ("\"md4\":7", "md4: expected a string, found a number"),
    ] {
        let message = format!("edition manifest at /files/0/digests/{expected} (INV-49)");
        refused::<Manifest>(MANIFEST, crc, bad, Refuses, &message);
    }
    let sha = Sha256::of(b"d").to_string();
    let message = "edition manifest at /files/0/digests/sha256: required field is missing (INV-49)";
    refused::<Manifest>(
        MANIFEST,
        &format!("\"sha256\":\"{sha}\""),
        "\"sha512\":\"ab\"",
        Refuses,
        message,
    );
    let file = &accepted::<Manifest>(MANIFEST, crc, "\"xxh3-64\":\"00ff\"").files[0];
    assert_eq!(file.digests.get("xxh3-64"), Some("00ff"));
    assert_eq!(file.digests.sha256(), Sha256::of(b"d"));
}

/// INV-49: a writer records `md5` and `crc32c` beside `sha256`, and the `blake3` of a data object, which is its storage id.
#[test]
fn digests_a_writer_records() {
    let manifest = Manifest::decode(MANIFEST.as_bytes()).unwrap();
    assert!(manifest.check_as_written().is_ok());
    assert_eq!(
        manifest.files[0].digests.blake3().map(hex::encode).as_deref(),
        manifest.files[0].digests.get("blake3")
    );
    assert_eq!(manifest.files[1].digests.blake3(), None);
    for (algorithm, index) in [
        ("\"blake3\"", 0),
        ("\"crc32c\":\"0badcafe\"", 0),
        ("\"crc32c\":\"00000002\"", 2),
    ] {
        let other = algorithm.replace("blake3", "sha3").replace("crc32c", "adler");
        let manifest: Manifest = accepted(MANIFEST, algorithm, &other);
        let name = algorithm.split('"').nth(1).unwrap();
        let message = format!("edition manifest at /files/{index}/digests/{name}: required field is missing (INV-49)");
        assert_eq!(manifest.check_as_written().unwrap_err().to_string(), message);
    }
}

/// INV-49: digests are put together from bytes of the right length, each once.
#[test]
fn digests_from_bytes() {
    let digests = Digests::new(Sha256::of(b""))
        .with("crc32c", &[0; 4])
        .unwrap()
        .with("blake3", &[1; 32])
        .unwrap();
    assert_eq!(digests.get("crc32c"), Some("00000000"));
    assert_eq!(digests.blake3(), Some([1; 32]));
    let message = "edition manifest: expected 32 lower-case hex digits, found \"00\" (INV-49)";
    assert_eq!(digests.clone().with("md5", &[0]).unwrap_err().to_string(), message);
    let message = "edition manifest: \"sha256\" is listed twice (INV-49)";
    assert_eq!(
        digests.clone().with("sha256", &[0; 32]).unwrap_err().to_string(),
        message
    );
    let message = "edition manifest: expected a digest algorithm (a-z 0-9 - _), found \"SHA-1\" (INV-49)";
    assert_eq!(digests.with("SHA-1", &[0; 20]).unwrap_err().to_string(), message);
}

/// INV-50: digests may be carried from an edition, named by its id.
#[test]
fn carried_from() {
    let from = format!("\"carried_from\":\"{E2}\"");
    let message = "edition manifest at /files/0/carried_from: expected an edition_id (a UUIDv7 in lower case), found \"yesterday\" (INV-50)";
    refused::<Manifest>(MANIFEST, &from, "\"carried_from\":\"yesterday\"", Refuses, message);
    assert_eq!(
        accepted::<Manifest>(MANIFEST, &from, "\"carried_from\":null").files[0].carried_from,
        None
    );
}

/// INV-56: files are sorted by root, data first, then by path; each stands once.
#[test]
fn files_are_sorted() {
    let unsorted =
        "edition manifest at /files/2: not sorted: \"edition/tables.ducklake\" follows \"edition/z.duckdb\" (INV-56)";
    refused::<Manifest>(MANIFEST, "metadata.duckdb", "z.duckdb", Silent, unsorted);
    let twice = "edition manifest at /files/2: \"edition/tables.ducklake\" is listed twice (INV-56)";
    refused::<Manifest>(MANIFEST, "metadata.duckdb", "tables.ducklake", Silent, twice);
    let roots = "edition manifest at /files/2: not sorted: \"data/tables.ducklake\" follows \"edition/metadata.duckdb\" (INV-56)";
    let from = "\"size\":3944448,\"root\":\"edition\"";
    refused::<Manifest>(MANIFEST, from, "\"size\":3944448,\"root\":\"data\"", Silent, roots);
}

/// INV-56: a size is a whole number of bytes.
#[test]
fn file_sizes() {
    for (bad, schema, message) in [
        ("-1", Refuses, "-1 is outside 0 to 9007199254740991"),
        (
            "9007199254740992",
            Refuses,
            "9007199254740992 is outside 0 to 9007199254740991",
        ),
        (
            "1e400",
            Refuses,
            "expected a whole number written in digits, found 1e400",
        ),
        (
            "3944448.0",
            Silent,
            "expected a whole number written in digits, found 3944448.0",
        ),
        ("\"3944448\"", Refuses, "expected a whole number, found a string"),
    ] {
        let message = format!("edition manifest at /files/2/size: {message} (INV-56)");
        refused::<Manifest>(MANIFEST, "3944448", bad, schema, &message);
    }
}

/// INV-20, INV-69: the manifest and its signature are written after the list, so they cannot be in it.
#[test]
fn a_manifest_does_not_list_itself() {
    for file in ["manifest.json", "manifest.json.sig"] {
        let message =
            format!("edition manifest at /files/1: the file is present, but {file} is written after the list (INV-20)");
        refused::<Manifest>(MANIFEST, "metadata.duckdb", file, Refuses, &message);
    }
    // Below another root it is a file like any other.
    accepted::<Manifest>(MANIFEST, "codr/t14100287/ducklake-01930000.parquet", "manifest.json");
}

/// INV-51: a binding's five fields.
#[test]
fn binding_fields() {
    for field in [
        "dataflow",
        "observations",
        "structural_version",
        "structure_fingerprint",
    ] {
        let message = format!("edition manifest at /bindings/0/{field}: required field is missing (INV-51)");
        refused::<Manifest>(MANIFEST, &format!("\"{field}\""), "\"x\"", Refuses, &message);
    }
    let pinned = "DSD_14100287(1.0)";
    let message = "edition manifest at /bindings/0/structural_version: expected the URN of a maintainable SDMX artefact with a pinned version, found \"urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure=STC:DSD_14100287(~)\" (INV-51)";
    refused::<Manifest>(MANIFEST, pinned, "DSD_14100287(~)", Refuses, message);
}

/// INV-73, INV-74: a table fingerprint is a sum and a number of rows, in one spelling.
#[test]
fn table_fingerprints() {
    for bad in [
        "7", "7:", ":7", "07:7", "7:07", "-7:7", "+7:7", "7:7:7", "0x7:7", " 7:7",
    ] {
        let message = format!(
            "edition manifest at /bindings/0/fingerprint: expected a table fingerprint (<sum>:<rows>), found \"{bad}\" (INV-73)"
        );
        refused::<Manifest>(MANIFEST, "12627234873912384512:5475519", bad, Refuses, &message);
    }
    let empty: TableFingerprint = "0:0".parse().unwrap();
    assert_eq!((empty.sum, empty.rows), (0, 0));
    // Each row adds less than 2^62, so a sum says at least how many rows there are.
    assert!("4611686018427387903:1".parse::<TableFingerprint>().is_ok());
    assert!("4611686018427387904:1".parse::<TableFingerprint>().is_err());
    assert!("1:0".parse::<TableFingerprint>().is_err());
}

/// INV-45: artefacts are sorted by URN, each once.
#[test]
fn artefacts_are_sorted() {
    let (list, scheme) = (
        "codelist.Codelist=STC:CL_GEO(1.0.0)",
        "conceptscheme.ConceptScheme=STC:CS_MAIN(1.0)",
    );
    let urn = |name: &str| format!("urn:sdmx:org.sdmx.infomodel.{name}");
    let message = format!(
        "edition manifest at /artefacts/1: not sorted: {:?} follows {:?} (INV-45)",
        urn("base.AgencyScheme=STC:CS_MAIN(1.0)"),
        urn(list)
    );
    refused::<Manifest>(MANIFEST, scheme, "base.AgencyScheme=STC:CS_MAIN(1.0)", Silent, &message);
    let message = "edition manifest at /artefacts/1/stability: stability is legacy, but what the version says is semantic (INV-53)";
    refused::<Manifest>(MANIFEST, scheme, list, Refuses, message);
}

/// INV-52: an artefact's fields; a partial says what it was cut from, and only a partial does.
#[test]
fn artefact_fields() {
    for field in ["urn", "partial", "fingerprint"] {
        let message = format!("edition manifest at /artefacts/0/{field}: required field is missing (INV-52)");
        refused::<Manifest>(MANIFEST_STRUCTURE, &format!("\"{field}\""), "\"x\"", Refuses, &message);
    }
    let absent = "edition manifest at /artefacts/0/partial_of: partial_of is absent, but partial is true (INV-52)";
    refused::<Manifest>(MANIFEST, "\"partial_of\"", "\"x\"", Refuses, absent);
    refused::<Manifest>(
        MANIFEST_STRUCTURE,
        "\"partial\":false",
        "\"partial\":true",
        Refuses,
        absent,
    );
    let present = "edition manifest at /artefacts/0/partial_of: partial_of is present, but partial is false (INV-52)";
    refused::<Manifest>(MANIFEST, "\"partial\":true", "\"partial\":false", Refuses, present);
}

/// INV-54: `partial_of` is the fingerprint of the full artefact.
#[test]
fn partial_of_is_a_fingerprint() {
    let full = Sha256::of(b"clf").to_string();
    let message = "edition manifest at /artefacts/0/partial_of: expected a SHA-256 (64 lower-case hex digits), found \"CL_GEO\" (INV-54)";
    refused::<Manifest>(MANIFEST, &full, "CL_GEO", Refuses, message);
    let manifest = Manifest::decode(MANIFEST.as_bytes()).unwrap();
    assert!(manifest.artefacts[0].is_partial() && !manifest.artefacts[1].is_partial());
}

/// INV-53: only a version of three parts, without extension and from 1.0.0 on, is semantic.
#[test]
fn stability_follows_from_the_version() {
    for (version, semantic) in [
        ("1.0.0", true),
        ("12.3.45", true),
        ("0.1.0", false),
        ("1.0", false),
        ("1", false),
        ("1.0.0-draft", false),
        ("1.0.0.0", false),
        ("01.0.0", false),
    ] {
        let urn: Urn = format!("urn:sdmx:org.sdmx.infomodel.codelist.Codelist=STC:CL({version})")
            .parse()
            .unwrap();
        assert_eq!(urn.is_semantic(), semantic, "{version}");
        assert_eq!(
            (urn.class(), urn.agency(), urn.id(), urn.version()),
            ("Codelist", "STC", "CL", version)
        );
        let legacy = edit(MANIFEST_STRUCTURE, "(1.0.0)", &format!("({version})"));
        assert_eq!(Manifest::decode(legacy.as_bytes()).is_ok(), semantic, "{version}");
    }
    let message = "edition manifest at /artefacts/0/stability: stability is legacy, but what the version says is semantic (INV-53)";
    refused::<Manifest>(MANIFEST_STRUCTURE, "semantic", "legacy", Refuses, message);
    let message = "edition manifest at /artefacts/0/stability: expected semantic or legacy, found \"stable\" (INV-53)";
    refused::<Manifest>(MANIFEST_STRUCTURE, "semantic", "stable", Refuses, message);
    assert_eq!(
        Manifest::decode(MANIFEST.as_bytes()).unwrap().artefacts[1].stability(),
        Stability::Legacy
    );
}

/// INV-88: a URN is full and pinned.
#[test]
fn urns_are_pinned() {
    for bad in ["1.*", "1.0+", "latest", "~", "", "1..0", "1.0.0-", "1.0.0-draft)", "v1"] {
        let text = format!("urn:sdmx:org.sdmx.infomodel.codelist.Codelist=STC:CL({bad})");
        assert!(text.parse::<Urn>().is_err(), "{text}");
    }
}

fn build(schema: &str, forms: &[&str], storage: Option<&str>, spec: Option<&str>) -> ReadableVersions {
    ReadableVersions {
        schema_version: schema.parse().unwrap(),
        canonical_forms: forms.iter().map(|form| form.parse().unwrap()).collect(),
        duckdb_storage_version: storage.map(|text| text.parse().unwrap()),
        ducklake_spec_version: spec.map(|text| text.parse().unwrap()),
    }
}

/// INV-64, INV-65, INV-66: a newer storage version or lake spec is refused, naming both; the same and older ones open.
#[test]
fn newer_engine_files_are_refused() {
    let manifest = Manifest::decode(MANIFEST.as_bytes()).unwrap();
    let refusal = |storage, spec| {
        manifest
            .check_readable(&build("2.52", &["1"], storage, spec))
            .map_err(|error| error.to_string())
    };
    assert_eq!(refusal(Some("v1.5.0+"), Some("1.1")), Ok(()));
    assert_eq!(refusal(Some("v1.10.0+"), Some("1.1.0")), Ok(()));
    let storage = "edition manifest at /duckdb_storage_version: version v1.5.0+ is newer than v1.4.9+, the newest this build opens (INV-65)";
    assert_eq!(refusal(Some("v1.4.9+"), Some("1.1")), Err(storage.to_owned()));
    let spec = "edition manifest at /ducklake_spec_version: version 1.1 is newer than 1.0, the newest this build opens (INV-66)";
    assert_eq!(refusal(Some("v1.5.0+"), Some("1.0")), Err(spec.to_owned()));
    let none = "edition manifest at /ducklake_spec_version: ducklake_spec_version is present, but this build opens no such file (INV-64)";
    assert_eq!(refusal(Some("v1.5.0+"), None), Err(none.to_owned()));
    let none = "edition manifest at /duckdb_storage_version: duckdb_storage_version is present, but this build opens no such file (INV-64)";
    assert_eq!(refusal(None, Some("1.1")), Err(none.to_owned()));
    let manifest: Manifest = accepted(MANIFEST, "v1.5.0+", "next");
    let odd = "edition manifest at /duckdb_storage_version: expected a version that can be compared (numbers and points), found \"next\" (INV-64)";
    let error = manifest
        .check_readable(&build("2.52", &["1"], Some("v1.5.0+"), Some("1.1")))
        .unwrap_err();
    assert_eq!(error.to_string(), odd);
}

/// INV-67: the store schema is matched exactly, older or newer; INV-381: the canonical form is one the build knows.
#[test]
fn schema_and_canonical_form_are_known() {
    let manifest = Manifest::decode(MANIFEST_STRUCTURE.as_bytes()).unwrap();
    assert!(manifest.check_readable(&build("1", &["0", "1"], None, None)).is_ok());
    for schema in ["2", "0", "1.0"] {
        let message = format!(
            "edition manifest at /schema_version: schema_version is 1, but the one this build reads is {schema} (INV-67)"
        );
        let error = manifest.check_readable(&build(schema, &["1"], None, None)).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let error = manifest
        .check_readable(&build("1", &["2", "3"], None, None))
        .unwrap_err();
    let message =
        "edition manifest at /canonical_form: canonical_form is 1, but what this build knows is 2, 3 (INV-381)";
    assert_eq!(error.to_string(), message);
}

/// INV-170, INV-172, INV-174, INV-176, INV-188: what an entry says of its manifest is what the manifest says.
#[test]
fn an_entry_agrees_with_its_manifest() {
    let manifest = Stored::<Manifest, Unverified>::decode(MANIFEST.as_bytes()).unwrap();
    let hash = manifest.sha256();
    let flow = "urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow=STC:DF_14100287(1.0)";
    let check = |leaf: &str| {
        let leaf = Leaf::decode(leaf.as_bytes()).unwrap();
        Manifest::check_entry(&manifest, &leaf.editions[1]).map_err(|error| error.to_string())
    };
    assert_eq!(check(LEAF), Ok(()));
    for (from, to, message) in [
        (
            hash.to_string(),
            "0".repeat(64),
            format!(
                "manifest_sha256: manifest_sha256 is {}, but the manifest's is {hash} (INV-172)",
                "0".repeat(64)
            ),
        ),
        (
            format!("\"previous\":\"{E2}\""),
            "\"previous\":null".to_owned(),
            format!("previous: previous is null, but the manifest's is {E2} (INV-170)"),
        ),
        (
            "13131776".to_owned(),
            "1".to_owned(),
            "pull_bytes: pull_bytes is 1, but the manifest's is 13131776 (INV-188)".to_owned(),
        ),
        (
            format!("\"{flow}\""),
            String::new(),
            format!("dataflows: dataflows is , but the manifest's is {flow} (INV-188)"),
        ),
    ] {
        assert_eq!(
            check(&edit(LEAF, &from, &to)),
            Err(format!("Inventory leaf at /{message}"))
        );
    }
    let later = LEAF.replace("\"schema_version\":\"2.52\"", "\"schema_version\":\"2.53\"");
    let message = "Inventory leaf at /schema_version: schema_version is 2.53, but the manifest's is 2.52 (INV-170)";
    assert_eq!(check(&later), Err(message.to_owned()));
    // A field the writer did not fill says nothing, so nothing disagrees.
    let bare = edit(
        LEAF,
        &format!(",\"dataflows\":[\"{flow}\"],\"pull_bytes\":13131776"),
        "",
    );
    assert_eq!(check(&bare), Ok(()));
}

/// INV-174: filled artefacts are all of the manifest's records and no others.
#[test]
fn filled_artefacts_agree_with_the_manifest() {
    let manifest = Stored::<Manifest, Unverified>::decode(MANIFEST_STRUCTURE.as_bytes()).unwrap();
    let mut entry = Leaf::decode(LEAF_STRUCTURE.as_bytes()).unwrap().editions.remove(0);
    entry.schema_version = "1".parse().unwrap();
    assert!(Manifest::check_entry(&manifest, &entry).is_ok());
    let urn: Urn = "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=STC:CL_GEO(1.0.0)"
        .parse()
        .unwrap();
    let (own, other) = (Sha256::of(b"clf"), Sha256::of(b"other"));
    let refusal = |entry: &Entry| Manifest::check_entry(&manifest, entry).unwrap_err().to_string();
    let at = format!("Inventory leaf at /artefacts/{urn}: the filled record is");
    let artefacts = entry.artefacts.as_mut().unwrap();
    artefacts.get_mut(&urn).unwrap().partial_of = Some(other);
    assert_eq!(
        refusal(&entry),
        format!("{at} {own}, cut from {other}, but the manifest's is {own} (INV-174)")
    );
    entry.artefacts.as_mut().unwrap().clear();
    assert_eq!(
        refusal(&entry),
        format!("{at} absent, but the manifest's is {own} (INV-174)")
    );
}
