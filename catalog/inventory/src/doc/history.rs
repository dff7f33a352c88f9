//! `inventory/HISTORY`: how far the versions of an opted-in catalogue have expired.

use super::{
    catalog::read_through,
    error::{DocKind, Problem, Refused},
    fields::{Fields, keep, nullable, text},
    id::{CatalogId, Epoch, Seq, Sha256},
    json::{Json, JsonObject},
    root::read_epoch,
    segment::SegmentPath,
    stored::JsonDocument,
    version::FormatVersion,
};

/// INV-280: `inventory/HISTORY`.
///
/// Keys are written in the order `format_version`, `catalog_id`, `restore_epoch`, `expired_through`, `newest_segment`,
/// `newest_segment_sha256`, `cleaned_through`, then the unknown ones, which a rewrite keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Its own format.
    pub format_version: FormatVersion,
    /// `catalog.json`'s id.
    pub catalog_id: CatalogId,
    /// The catalogue's epoch; a restore writes it here first (INV-282).
    pub restore_epoch: Epoch,
    /// INV-279: the highest version expiry has removed from the head chain; none (written as 0) before the first expiry.
    pub expired_through: Option<Seq>,
    /// The newest segment and the SHA-256 of its bytes.
    pub newest_segment: Option<(SegmentPath, Sha256)>,
    /// The newest segment whose roots and leaves are deleted.
    pub cleaned_through: Option<SegmentPath>,
    /// Fields this build does not know.
    pub extra: JsonObject,
}

impl History {
    /// INV-142: what opting in writes.
    pub fn at_opt_in(catalog_id: CatalogId, restore_epoch: Epoch) -> Self {
        Self {
            format_version: FormatVersion::HISTORY,
            catalog_id,
            restore_epoch,
            expired_through: None,
            newest_segment: None,
            cleaned_through: None,
            extra: JsonObject::new(),
        }
    }
}

/// Takes a segment's path and hash, which are null together.
pub(crate) fn take_segment(
    fields: &mut Fields,
    rule: u16,
    path_field: &'static str,
    hash_field: &'static str,
) -> Result<Option<(SegmentPath, Sha256)>, Refused> {
    let path: Option<SegmentPath> = fields.required_by(path_field, rule, nullable(text))?;
    let hash: Option<Sha256> = fields.required_by(hash_field, rule, nullable(text))?;
    match (path, hash) {
        (Some(path), Some(hash)) => Ok(Some((path, hash))),
        (None, None) => Ok(None),
        (Some(path), None) => {
            let because = format!("{path_field} is {path}");
            Err(Refused::by(
                rule,
                Problem::AbsentBut {
                    field: hash_field,
                    because,
                },
            )
            .inside(hash_field))
        }
        (None, Some(hash)) => {
            let because = format!("{hash_field} is {hash}");
            Err(Refused::by(
                rule,
                Problem::AbsentBut {
                    field: path_field,
                    because,
                },
            )
            .inside(path_field))
        }
    }
}

impl JsonDocument for History {
    const KIND: DocKind = DocKind::History;

    fn read(json: Json) -> Result<Self, Refused> {
        let mut fields = Fields::of(json, 280)?;
        let format_version: FormatVersion = fields.required("format_version", text)?;
        format_version.supported(192, 1, 1)?;
        Ok(Self {
            format_version,
            catalog_id: fields.required("catalog_id", text)?,
            restore_epoch: fields.required("restore_epoch", read_epoch)?,
            expired_through: fields.required_by("expired_through", 279, read_through)?,
            newest_segment: take_segment(&mut fields, 280, "newest_segment", "newest_segment_sha256")?,
            cleaned_through: fields.required("cleaned_through", nullable(text))?,
            extra: fields.rest(),
        })
    }

    fn write(&self) -> JsonObject {
        let (path, hash) = self
            .newest_segment
            .as_ref()
            .map_or((None, None), |(path, hash)| (Some(path), Some(hash)));
        let mut out = JsonObject::new();
        out.push("format_version", self.format_version);
        out.push("catalog_id", self.catalog_id);
        out.push("restore_epoch", self.restore_epoch);
        out.push("expired_through", self.expired_through.map_or(0, Seq::get));
        out.push("newest_segment", path);
        out.push("newest_segment_sha256", hash);
        out.push("cleaned_through", self.cleaned_through.as_ref());
        keep(&mut out, &self.extra);
        out
    }

    fn check(&self) -> Result<(), Refused> {
        self.format_version.supported(192, 1, 1)?;
        if self.newest_segment.is_some() {
            return Ok(());
        }
        let absent = |rule, because| {
            Err(Refused::by(
                rule,
                Problem::AbsentBut {
                    field: "newest_segment",
                    because,
                },
            )
            .inside("newest_segment"))
        };
        match (self.expired_through, &self.cleaned_through) {
            (Some(seq), _) => absent(
                279,
                format!("expired_through is {seq}, and no version expires without a segment"),
            ),
            (None, Some(path)) => absent(280, format!("cleaned_through is {path}")),
            (None, None) => Ok(()),
        }
    }
}
