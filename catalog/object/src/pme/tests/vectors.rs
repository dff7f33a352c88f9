//! Golden objects as files: `tests/vectors/pme`, for this reader and for any other.
//!
//! Two tests stand over them. One makes every vector anew from fixed keys, nonces and references and compares it with its file;
//! `SOVM_WRITE_VECTORS=1 cargo test -p sovm-object vectors` writes the files instead, after a change that was meant. The other
//! reads the files alone and asks the reader.

mod accepted;
mod rejected;

use std::{collections::BTreeMap, fmt::Debug, fs, path::PathBuf};

use arrow::util::display::array_value_to_string;
use serde_json::{Value as Json, json};

use super::*;

/// One vector before it becomes a file.
struct Case {
    name: &'static str,
    clause: &'static str,
    rule: &'static str,
    why: &'static str,
    object: Vec<u8>,
    /// Under which id the bytes are presented; their own when there is none.
    storage_id: Option<StorageId>,
    expect: Expect,
}

enum Expect {
    Accept {
        rows: RecordBatch,
        /// What the manifest says of the length before padding.
        exact_byte_size: Option<u64>,
        findings: &'static [&'static str],
    },
    Reject {
        step: &'static str,
        error: &'static str,
    },
}

/// Options whose bytes depend on no compressor's version.
fn plain() -> EncodeOptions {
    EncodeOptions {
        codec: Codec::None,
        ..Default::default()
    }
}

/// Two columns of equal widths, so that their modules have equal lengths.
fn twins(from: i64) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![
        field("a", DataType::Int64, 1),
        field("b", DataType::Int64, 2),
    ]));
    let column = |from: i64| Arc::new(Int64Array::from_iter_values((0..4).map(|i| from + i))) as ArrayRef;
    RecordBatch::try_new(schema, vec![column(from), column(from + 500)]).unwrap()
}

impl Case {
    fn to_json(&self) -> Json {
        let mut vector = json!({
            "clause": self.clause,
            "rule": self.rule,
            "why": self.why,
            "dek": hex::encode([0x42; 32]),
            "storage_id": self.storage_id.unwrap_or_else(|| id_of(&self.object)).to_string(),
            "object": hex::encode(&self.object),
        });
        let more = match &self.expect {
            Expect::Accept {
                rows,
                exact_byte_size,
                findings,
            } => json!({
                "expect": "accept",
                "columns": columns_of(rows),
                "rows": rows_of(rows),
                "exact_byte_size": exact_byte_size,
                "findings": findings,
            }),
            Expect::Reject { step, error } => json!({ "expect": "reject", "step": step, "error": error }),
        };
        let (Json::Object(vector_fields), Json::Object(more)) = (&mut vector, more) else {
            unreachable!("both are objects")
        };
        vector_fields.extend(more);
        vector
    }
}

fn columns_of(rows: &RecordBatch) -> Json {
    let schema = rows.schema();
    let column = |field: &Arc<Field>| {
        json!({
            "field_id": crate::types::field_id_of(field),
            "name": field.name(),
            "type": crate::types::ColumnType::of_field(field).unwrap().to_string(),
        })
    };
    schema.fields().iter().map(column).collect()
}

/// Values as text, nulls as null.
fn rows_of(rows: &RecordBatch) -> Json {
    let cell = |column: &ArrayRef, row| match column.is_null(row) {
        true => Json::Null,
        false => array_value_to_string(column, row).unwrap().into(),
    };
    let row = |row| rows.columns().iter().map(|column| cell(column, row)).collect::<Json>();
    (0..rows.num_rows()).map(row).collect()
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/pme")
}

fn files() -> BTreeMap<String, Json> {
    let names = fs::read_dir(directory()).unwrap().map(|file| file.unwrap().path());
    names
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = fs::read_to_string(&path).unwrap();
            (name, serde_json::from_str(&text).unwrap())
        })
        .collect()
}

/// SOP-113, SOP-372: fixed key, nonces, reference and rows give the vectors byte for byte; one that is missing, changed or left
/// over fails. The compressed ones pin the compressors of the lock file, too.
#[test]
fn vectors_are_what_the_writer_makes() {
    let made: BTreeMap<String, Json> = accepted::cases()
        .into_iter()
        .chain(rejected::cases())
        .map(|case| (case.name.to_owned(), case.to_json()))
        .collect();
    if std::env::var_os("SOVM_WRITE_VECTORS").is_some() {
        for name in files().keys().filter(|name| !made.contains_key(*name)) {
            fs::remove_file(directory().join(format!("{name}.json"))).unwrap();
        }
        for (name, vector) in &made {
            let text = serde_json::to_string_pretty(vector).unwrap() + "\n";
            fs::write(directory().join(format!("{name}.json")), text).unwrap();
        }
    }
    let found = files();
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        made.keys().collect::<Vec<_>>(),
        "a vector is missing or left over"
    );
    for (name, vector) in &made {
        assert_eq!(&found[name], vector, "{name}");
    }
    let rejections = made.values().filter(|vector| vector["expect"] == "reject").count();
    assert!(rejections * 2 > made.len(), "rejections outnumber acceptances");
}

/// The step that refused, and the name of its error.
struct Refusal(&'static str, String);

impl Refusal {
    fn new(step: &'static str, error: &impl Debug) -> Self {
        let text = format!("{error:?}");
        let name = text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap();
        Self(step, name.to_owned())
    }
}

fn judge(id: StorageId, bytes: &[u8], dek: &Dek) -> Result<(Footer, RecordBatch), Refusal> {
    let object = MemoryObject::verify(id, bytes.to_vec()).map_err(|error| Refusal::new("verify", &error))?;
    let footer = Footer::open_whole(&object, dek).map_err(|error| Refusal::new("open", &error))?;
    let rows = read_all(bytes, &footer).map_err(|error| Refusal::new("read", &error))?;
    Ok((footer, rows))
}

/// SOP-5, SOP-8, SOP-11, SOP-18, SOP-20, SOP-23, SOP-28 to SOP-30, SOP-32, SOP-60, SOP-71, SOP-72, SOP-90, SOP-374: the reader's answer to
/// every file is the one that the file names.
#[test]
fn vectors_are_judged_as_they_say() {
    let mut wrong = Vec::new();
    for (name, vector) in files() {
        let text = |key: &str| vector[key].as_str().unwrap_or_else(|| panic!("{name} has no {key}"));
        let bytes = |key: &str| hex::decode(text(key)).unwrap();
        let (object, dek) = (bytes("object"), Dek::from_bytes(bytes("dek").try_into().unwrap()));
        let id = StorageId::from_bytes(bytes("storage_id").try_into().unwrap());
        assert!(
            text("clause").starts_with("SOP §") && text("rule").starts_with("SOP-"),
            "{name}"
        );
        assert!(!text("why").is_empty(), "{name}");
        let judged = judge(id, &object, &dek);
        match (text("expect"), judged) {
            ("accept", Ok((footer, rows))) => {
                assert_eq!(rows_of(&rows), vector["rows"], "{name}");
                assert_eq!(columns_of(&rows), vector["columns"], "{name}");
                let claims = Claims {
                    key_ref: None,
                    exact_byte_size: vector["exact_byte_size"].as_u64(),
                };
                let findings = footer.audit(&claims).into_iter();
                let findings: Json = findings.map(|finding| Refusal::new("audit", &finding).1).collect();
                assert_eq!(findings, vector["findings"], "{name}");
            }
            ("reject", Err(Refusal(step, error))) => {
                if step != text("step") || !["any", error.as_str()].contains(&text("error")) {
                    wrong.push(format!("{name}: refused at {step} with {error}"));
                }
                // What only the content address catches: under the id they have, the bytes open and every tag verifies.
                if step == "verify" && judge(id_of(&object), &object, &dek).is_err() {
                    panic!("{name}: something else than the content address refuses it");
                }
            }
            (expected, Ok(_)) => panic!("{name}: accepted, expected {expected}"),
            (expected, Err(Refusal(step, error))) => panic!("{name}: {step} says {error}, expected {expected}"),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
