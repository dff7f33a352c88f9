//! Two small documents around a seal: the journal that says who sealed, and the registration that asks for recording.

use super::{
    error::{DocError, DocKind, Refused, disagree},
    fields::{Fields, keep, nullable, text},
    id::{EditionId, ProductId},
    instant::Instant,
    json::{Json, JsonObject},
    stored::JsonDocument,
};

/// INV-268: `products/<product_id>/journal/<edition_id>.json`, written before the manifest and removed once the edition is
/// recorded (INV-34).
///
/// Keys are written in the order `product_id`, `edition_id`, `previous`, `sealed_at`, and `release_at` where there is one, a field of
/// this project: whoever completes an interrupted seal must not publish earlier than the one who began it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// The product.
    pub product_id: ProductId,
    /// The edition that is being sealed.
    pub edition_id: EditionId,
    /// The edition it was built from.
    pub previous: Option<EditionId>,
    /// When the seal began.
    pub sealed_at: Instant,
    /// When the edition is to be released, where the seal was told.
    pub release_at: Option<Instant>,
}

impl Journal {
    /// Refuses a journal that lies under another name than its own.
    pub fn check_path(&self, product_id: &ProductId, edition_id: &EditionId) -> Result<(), DocError> {
        named(268, "product_id", &self.product_id, product_id)
            .and_then(|()| named(268, "edition_id", &self.edition_id, edition_id))
            .map_err(|refused| refused.of(DocKind::Journal))
    }
}

/// A field that repeats what the file's name says.
pub(crate) fn named<T: PartialEq + std::fmt::Display>(
    rule: u16,
    field: &'static str,
    found: &T,
    name: &T,
) -> Result<(), Refused> {
    if found == name {
        return Ok(());
    }
    Err(Refused::by(rule, disagree(field, found, "the name it lies under", name)).inside(field))
}

impl JsonDocument for Journal {
    const KIND: DocKind = DocKind::Journal;

    fn read(json: Json) -> Result<Self, Refused> {
        let mut fields = Fields::of(json, 268)?;
        Ok(Self {
            product_id: fields.required("product_id", text)?,
            edition_id: fields.required("edition_id", text)?,
            previous: fields.required("previous", nullable(text))?,
            sealed_at: fields.required("sealed_at", text)?,
            release_at: fields.optional("release_at", 268, text)?,
        })
    }

    fn write(&self) -> JsonObject {
        let mut out = JsonObject::new();
        out.push("product_id", &self.product_id);
        out.push("edition_id", self.edition_id);
        out.push("previous", self.previous);
        out.push("sealed_at", self.sealed_at);
        if let Some(release_at) = self.release_at {
            out.push("release_at", release_at);
        }
        out
    }

    fn check(&self) -> Result<(), Refused> {
        check_previous(268, self.edition_id, self.previous)
    }
}

/// An edition is not built from itself.
pub(crate) fn check_previous(rule: u16, edition_id: EditionId, previous: Option<EditionId>) -> Result<(), Refused> {
    if previous != Some(edition_id) {
        return Ok(());
    }
    let problem = disagree(
        "previous",
        edition_id,
        "edition_id, from which it must differ,",
        edition_id,
    );
    Err(Refused::by(rule, problem).inside("previous"))
}

/// INV-403: `pending/<product_id>/<edition_id>.json`, the registration of an uploaded edition. The product is in its name.
///
/// Keys are written in the order `edition_id`, `release_at`, then the unknown ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The uploaded edition.
    pub edition_id: EditionId,
    /// When it becomes releasable; none for no schedule.
    pub release_at: Option<Instant>,
    /// Fields this build does not know.
    pub extra: JsonObject,
}

impl Pending {
    /// Refuses a registration that lies under another name than its own.
    pub fn check_path(&self, edition_id: &EditionId) -> Result<(), DocError> {
        named(403, "edition_id", &self.edition_id, edition_id).map_err(|refused| refused.of(DocKind::Pending))
    }
}

impl JsonDocument for Pending {
    const KIND: DocKind = DocKind::Pending;

    fn read(json: Json) -> Result<Self, Refused> {
        let mut fields = Fields::of(json, 403)?;
        Ok(Self {
            edition_id: fields.required("edition_id", text)?,
            release_at: fields.required("release_at", nullable(text))?,
            extra: fields.rest(),
        })
    }

    fn write(&self) -> JsonObject {
        let mut out = JsonObject::new();
        out.push("edition_id", self.edition_id);
        out.push("release_at", self.release_at);
        keep(&mut out, &self.extra);
        out
    }

    fn check(&self) -> Result<(), Refused> {
        Ok(())
    }
}
