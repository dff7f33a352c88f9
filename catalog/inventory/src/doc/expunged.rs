//! The record of an edition whose bytes were deleted at once.

use super::{
    error::{DocError, DocKind, Problem, Refused},
    fields::{Fields, count, keep, list, nullable, string, text},
    id::{CleanText, EditionId, ProductId, Sha256},
    instant::Instant,
    journal::named,
    json::{Json, JsonObject},
    stored::JsonDocument,
};

/// INV-412: `products/<product_id>/expunged/<edition_id>.json`, the audit entry of an expunge: written before the first byte goes,
/// and once more when the last one is gone.
///
/// Keys are written in the order `product_id`, `edition_id`, `manifest_sha256`, `begun_at`, `completed_at`, `actor`, `reason`,
/// `removed`, `stays`, then the unknown ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expunged {
    /// The product.
    pub product_id: ProductId,
    /// The edition.
    pub edition_id: EditionId,
    /// The manifest it was sealed with.
    pub manifest_sha256: Sha256,
    /// When it was decided.
    pub begun_at: Instant,
    /// When the last byte was gone; none while some may be there.
    pub completed_at: Option<Instant>,
    /// Who decided.
    pub actor: CleanText,
    /// Why.
    pub reason: String,
    /// What was deleted, by its path in the catalogue.
    pub removed: Vec<ExpungedFile>,
    /// Data files that stay, because other editions list them too.
    pub stays: Vec<SharedFile>,
    /// Fields this build does not know.
    pub extra: JsonObject,
}

/// A file that was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpungedFile {
    /// Its path relative to the catalogue's root.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256; none for a file that no manifest listed.
    pub sha256: Option<Sha256>,
    /// Its BLAKE3 in lower-case hex, where the manifest had it: the `storage_id` of a data object.
    pub blake3: Option<String>,
}

/// A data file that other editions list too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedFile {
    /// Its path relative to the catalogue's root.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// The other editions.
    pub listed_by: Vec<EditionId>,
}

impl Expunged {
    /// Refuses a record that lies under another name than its own.
    pub fn check_path(&self, product_id: &ProductId, edition_id: &EditionId) -> Result<(), DocError> {
        named(412, "product_id", &self.product_id, product_id)
            .and_then(|()| named(412, "edition_id", &self.edition_id, edition_id))
            .map_err(|refused| refused.of(DocKind::Expunged))
    }
}

fn read_removed(json: Json, rule: u16) -> Result<ExpungedFile, Refused> {
    let mut fields = Fields::of(json, rule)?;
    Ok(ExpungedFile {
        path: fields.required("path", string)?,
        size: fields.required("size", count)?,
        sha256: fields.required("sha256", nullable(text))?,
        blake3: fields.required("blake3", nullable(string))?,
    })
}

fn read_shared(json: Json, rule: u16) -> Result<SharedFile, Refused> {
    let mut fields = Fields::of(json, rule)?;
    Ok(SharedFile {
        path: fields.required("path", string)?,
        size: fields.required("size", count)?,
        listed_by: fields.required("listed_by", list(text))?,
    })
}

impl JsonDocument for Expunged {
    const KIND: DocKind = DocKind::Expunged;

    fn read(json: Json) -> Result<Self, Refused> {
        let mut fields = Fields::of(json, 412)?;
        Ok(Self {
            product_id: fields.required("product_id", text)?,
            edition_id: fields.required("edition_id", text)?,
            manifest_sha256: fields.required("manifest_sha256", text)?,
            begun_at: fields.required("begun_at", text)?,
            completed_at: fields.required("completed_at", nullable(text))?,
            actor: fields.required("actor", text)?,
            reason: fields.required("reason", string)?,
            removed: fields.required("removed", list(read_removed))?,
            stays: fields.required("stays", list(read_shared))?,
            extra: fields.rest(),
        })
    }

    fn write(&self) -> JsonObject {
        let removed = self.removed.iter().map(|file| {
            let mut out = JsonObject::new();
            out.push("path", file.path.as_str());
            out.push("size", file.size);
            out.push("sha256", file.sha256);
            out.push("blake3", file.blake3.clone());
            Json::Object(out)
        });
        let stays = self.stays.iter().map(|file| {
            let listed_by: Vec<Json> = file.listed_by.iter().map(Json::from).collect();
            let mut out = JsonObject::new();
            out.push("path", file.path.as_str());
            out.push("size", file.size);
            out.push("listed_by", listed_by);
            Json::Object(out)
        });
        let (removed, stays): (Vec<Json>, Vec<Json>) = (removed.collect(), stays.collect());
        let mut out = JsonObject::new();
        out.push("product_id", &self.product_id);
        out.push("edition_id", self.edition_id);
        out.push("manifest_sha256", self.manifest_sha256);
        out.push("begun_at", self.begun_at);
        out.push("completed_at", self.completed_at);
        out.push("actor", &self.actor);
        out.push("reason", self.reason.as_str());
        out.push("removed", removed);
        out.push("stays", stays);
        keep(&mut out, &self.extra);
        out
    }

    /// INV-412: an audit entry without a reason is none.
    fn check(&self) -> Result<(), Refused> {
        if self.reason.trim().is_empty() {
            return Err(Refused::by(412, Problem::Missing).inside("reason"));
        }
        Ok(())
    }
}
