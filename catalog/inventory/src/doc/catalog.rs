//! `catalog.json`: which catalogue this is, its epoch, and whether old versions expire.

use super::{
    error::{DocError, DocKind, Problem, Refused},
    fields::{Fields, integer, keep, object, text},
    id::{CatalogId, Epoch, Seq},
    json::{Json, JsonObject},
    root::{read_epoch, read_seq},
    stored::{Document as _, JsonDocument},
    version::FormatVersion,
};

/// `catalog.json`, formats 1 and 2.
///
/// Keys are written in the order `format_version`, `catalog_id`, `restore_epoch`, `history`, `extensions`, then the unknown
/// ones. It is rewritten only to bump the epoch or to opt in (INV-131), and what this build does not know survives that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    /// `1.x`, or `2.x` once opted in.
    pub format_version: FormatVersion,
    /// The catalogue's id.
    pub catalog_id: CatalogId,
    /// How often it was restored as a whole.
    pub restore_epoch: Epoch,
    /// INV-134: the lowest version from which every root carries both history fields; present exactly in format 2.
    pub since_seq: Option<Seq>,
    /// Sections keyed by package.
    pub extensions: JsonObject,
    /// Fields this build does not know.
    pub extra: JsonObject,
}

/// INV-136: what a writer can do, which decides the catalogues it may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterSupport {
    /// Takes no lock: catalogues of format 1 only.
    Unlocked,
    /// Takes the catalogue lock and checks `expired_through`: both formats.
    LockAndExpiry,
}

impl Catalog {
    /// A new catalogue that keeps every version.
    pub fn new(catalog_id: CatalogId) -> Self {
        Self {
            format_version: FormatVersion::CATALOG,
            catalog_id,
            restore_epoch: Epoch::FIRST,
            since_seq: None,
            extensions: JsonObject::new(),
            extra: JsonObject::new(),
        }
    }

    /// INV-136: reads the document for a writer, which refuses format 2 unless it supports what that asks for.
    pub fn decode_for_writer(bytes: &[u8], support: WriterSupport) -> Result<Self, DocError> {
        let catalog = Self::decode(bytes)?;
        if support == WriterSupport::Unlocked {
            catalog
                .format_version
                .supported(136, 1, 1)
                .map_err(|refused| refused.of(DocKind::Catalog))?;
        }
        Ok(catalog)
    }

    /// Whether old versions of this catalogue may expire.
    pub fn is_opted_in(&self) -> bool {
        self.since_seq.is_some()
    }

    /// INV-142: the same catalogue once it has opted in.
    pub fn opted_in(self, since_seq: Seq) -> Self {
        Self {
            format_version: FormatVersion::CATALOG_OPTED_IN,
            since_seq: Some(since_seq),
            ..self
        }
    }
}

impl JsonDocument for Catalog {
    const KIND: DocKind = DocKind::Catalog;

    fn read(json: Json) -> Result<Self, Refused> {
        let mut fields = Fields::of(json, 130)?;
        let format_version: FormatVersion = fields.required("format_version", text)?;
        // The major first: a newer document is refused as newer, not for the fields it changed.
        format_version.supported(192, 1, 2)?;
        let catalog_id = fields.required("catalog_id", text)?;
        let restore_epoch = fields.required("restore_epoch", read_epoch)?;
        let since_seq = fields.optional("history", 130, |json, rule| {
            let mut history = Fields::of(json, rule)?;
            history.required("since_seq", read_seq)
        })?;
        let extensions = fields.optional("extensions", 55, object)?.unwrap_or_default();
        Ok(Self {
            format_version,
            catalog_id,
            restore_epoch,
            since_seq,
            extensions,
            extra: fields.rest(),
        })
    }

    fn write(&self) -> JsonObject {
        let mut out = JsonObject::new();
        out.push("format_version", self.format_version);
        out.push("catalog_id", self.catalog_id);
        out.push("restore_epoch", self.restore_epoch);
        if let Some(since_seq) = self.since_seq {
            let mut history = JsonObject::new();
            history.push("since_seq", since_seq);
            out.push("history", history);
        }
        if !self.extensions.is_empty() {
            out.push("extensions", self.extensions.clone());
        }
        keep(&mut out, &self.extra);
        out
    }

    fn check(&self) -> Result<(), Refused> {
        self.format_version.supported(192, 1, 2)?;
        let because = format!("format_version is {}", self.format_version);
        let problem = match (self.format_version.major, self.since_seq) {
            (1, Some(_)) => Problem::PresentBut {
                field: "history.since_seq",
                because,
            },
            (2, None) => Problem::AbsentBut {
                field: "history.since_seq",
                because,
            },
            _ => return Ok(()),
        };
        Err(Refused::by(130, problem))
    }
}

/// `expired_through`: 0 for "nothing yet", so it is no sequence number.
pub(crate) fn read_through(json: Json, rule: u16) -> Result<Option<Seq>, Refused> {
    integer(0, Seq::MAX.get())(json, rule).map(Seq::new)
}
