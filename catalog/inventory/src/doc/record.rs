//! What an edition holds: its tables and its structural artefacts.

use std::{fmt, str::FromStr};

use super::{
    error::{Problem, Refused, disagree},
    fields::{Fields, boolean, count, nullable, text},
    id::{IdError, Sha256, json_text},
    json::{Json, JsonObject},
    leaf::{word, words},
    urn::Urn,
};

words! {
    /// INV-53: what an artefact's version promises.
    Stability {
        /// What carries the version never changes.
        Semantic = "semantic",
        /// It may, so its fingerprint is compared at release.
        Legacy = "legacy",
    }
}

/// INV-73: a table fingerprint, `<sum>:<rows>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableFingerprint {
    /// The sum over the rows.
    pub sum: u128,
    /// How many rows.
    pub rows: u64,
}

impl FromStr for TableFingerprint {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parse = || {
            let (sum, rows) = text.split_once(':')?;
            let value = Self {
                sum: sum.parse().ok()?,
                rows: rows.parse().ok()?,
            };
            // The sum is a HUGEINT of terms below 2^62, so it is bounded by the rows; a text that comes out otherwise is a
            // second spelling.
            let bounded = u128::from(value.rows)
                .checked_mul((1 << 62) - 1)
                .is_some_and(|most| value.sum <= most);
            (bounded && value.to_string() == text).then_some(value)
        };
        parse().ok_or_else(|| IdError::new("a table fingerprint (<sum>:<rows>)", text))
    }
}

impl fmt::Display for TableFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.sum, self.rows)
    }
}

impl fmt::Debug for TableFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableFingerprint({self})")
    }
}

json_text!(TableFingerprint);

/// INV-51: one table. Keys: `dataflow`, `observations`, `structural_version`, `fingerprint`, `structure_fingerprint`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The dataflow it is published as.
    pub dataflow: Urn,
    /// How many observations it holds.
    pub observations: u64,
    /// The pinned data structure it was written against.
    pub structural_version: Urn,
    /// The table fingerprint.
    pub fingerprint: TableFingerprint,
    /// The structural fingerprint of the dataflow.
    pub structure_fingerprint: Sha256,
}

/// INV-52: one artefact. Keys: `urn`, `stability`, `partial`, `fingerprint`, `partial_of`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtefactRecord {
    /// Its pinned URN.
    pub urn: Urn,
    /// Its fingerprint.
    pub fingerprint: Sha256,
    /// INV-54: for a partial, the fingerprint of the full artefact it was cut from; none for a full artefact.
    pub partial_of: Option<Sha256>,
}

impl ArtefactRecord {
    /// Whether it is a subset of a full artefact.
    pub fn is_partial(&self) -> bool {
        self.partial_of.is_some()
    }

    /// INV-53: what its version promises.
    pub fn stability(&self) -> Stability {
        if self.urn.is_semantic() {
            Stability::Semantic
        } else {
            Stability::Legacy
        }
    }
}

pub(crate) fn read_binding(json: Json, rule: u16) -> Result<Binding, Refused> {
    let mut fields = Fields::of(json, rule)?;
    Ok(Binding {
        dataflow: fields.required("dataflow", text)?,
        observations: fields.required("observations", count)?,
        structural_version: fields.required("structural_version", text)?,
        fingerprint: fields.required_by("fingerprint", 73, text)?,
        structure_fingerprint: fields.required("structure_fingerprint", text)?,
    })
}

pub(crate) fn write_binding(binding: &Binding) -> Json {
    let mut out = JsonObject::new();
    out.push("dataflow", &binding.dataflow);
    out.push("observations", binding.observations);
    out.push("structural_version", &binding.structural_version);
    out.push("fingerprint", binding.fingerprint);
    out.push("structure_fingerprint", binding.structure_fingerprint);
    out.into()
}

pub(crate) fn read_artefact(json: Json, _: u16) -> Result<ArtefactRecord, Refused> {
    let mut fields = Fields::of(json, 52)?;
    let urn: Urn = fields.required("urn", text)?;
    let stability = fields.required_by("stability", 53, word(Stability::from_word, "semantic or legacy"))?;
    let partial = fields.required("partial", boolean)?;
    let fingerprint = fields.required("fingerprint", text)?;
    let partial_of = fields.optional("partial_of", 54, nullable(text))?.flatten();
    let problem = match (partial, partial_of) {
        (true, None) => Problem::AbsentBut {
            field: "partial_of",
            because: "partial is true".to_owned(),
        },
        (false, Some(_)) => Problem::PresentBut {
            field: "partial_of",
            because: "partial is false".to_owned(),
        },
        _ => {
            let record = ArtefactRecord {
                urn,
                fingerprint,
                partial_of,
            };
            if record.stability() == stability {
                return Ok(record);
            }
            let problem = disagree("stability", stability, "what the version says", record.stability());
            return Err(Refused::by(53, problem).inside("stability"));
        }
    };
    Err(Refused::by(52, problem).inside("partial_of"))
}

pub(crate) fn write_artefact(record: &ArtefactRecord) -> Json {
    let mut out = JsonObject::new();
    out.push("urn", &record.urn);
    out.push("stability", record.stability().as_str());
    out.push("partial", record.is_partial());
    out.push("fingerprint", record.fingerprint);
    if let Some(partial_of) = record.partial_of {
        out.push("partial_of", partial_of);
    }
    out.into()
}
