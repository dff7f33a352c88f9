//! The change list of a root: what differs from its base version.

use std::fmt;

use super::{
    error::{Problem, Refused, ascending, disagree},
    fields::{Fields, list, nullable, string, text},
    id::{CleanText, EditionId, ProductId, Sha256},
    instant::Instant,
    json::{Json, JsonObject},
    leaf::{EditionState, Entry, check_release_at, read_state},
};

/// INV-177: one product whose leaf or tombstones differ from the base version's.
///
/// Keys: `product_id`, `leaf_sha256`, `entries`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeItem {
    /// The product.
    pub product_id: ProductId,
    /// Its leaf in the base version and in this one.
    pub leaf_sha256: LeafChange,
    /// One item for each edition whose entry or tombstone differs, sorted by `edition_id` (INV-178).
    pub entries: Vec<EntryChange>,
}

/// The hash of a product's leaf before and after. Keys: `from`, `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafChange {
    /// In the base version; none for a product new to the Inventory.
    pub from: Option<Sha256>,
    /// In this version; none for a product removed from it.
    pub to: Option<Sha256>,
}

/// INV-178: one edition whose entry or tombstone differs. Keys: `edition_id`, `from`, `to`, `entry`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryChange {
    /// The edition.
    pub edition_id: EditionId,
    /// What the base version held.
    pub from: Option<EntryStatus>,
    /// What this version holds; none when it drops the edition's tombstone, or, in a correction, its entry.
    pub to: Option<EntryStatus>,
    /// INV-179: the new entry, present exactly when `to` is a state.
    pub entry: Option<ListedEntry>,
}

/// INV-181: a state, or the mark that an edition stands in `retired`. Retirement is no fifth state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryStatus {
    /// The edition has an entry in this state.
    State(EditionState),
    /// The edition has a tombstone.
    Tombstone,
}

impl EntryStatus {
    /// The state, when it is one.
    pub fn state(self) -> Option<EditionState> {
        match self {
            Self::State(state) => Some(state),
            Self::Tombstone => None,
        }
    }
}

impl fmt::Display for EntryStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(state) => state.fmt(f),
            Self::Tombstone => f.write_str("tombstone"),
        }
    }
}

/// INV-179: the seven fields of an entry a change list repeats, and no other (INV-189).
///
/// Keys: `edition_id`, `previous`, `state`, `manifest_sha256`, `schema_version`, `state_changed_at`, `release_at`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEntry {
    /// The edition.
    pub edition_id: EditionId,
    /// The edition it was built from.
    pub previous: Option<EditionId>,
    /// Its state.
    pub state: EditionState,
    /// The SHA-256 of its manifest.
    pub manifest_sha256: Sha256,
    /// The store schema it was written at.
    pub schema_version: CleanText,
    /// When it took its state.
    pub state_changed_at: Instant,
    /// When it becomes releasable; only for an embargoed edition.
    pub release_at: Option<Instant>,
}

/// Fields an entry of a leaf may have and an entry of a change list must not (INV-189).
const LEAF_ONLY: [&str; 4] = ["structure_source", "artefacts", "dataflows", "pull_bytes"];

impl From<&Entry> for ListedEntry {
    fn from(entry: &Entry) -> Self {
        Self {
            edition_id: entry.edition_id,
            previous: entry.previous,
            state: entry.state,
            manifest_sha256: entry.manifest_sha256,
            schema_version: entry.schema_version.clone(),
            state_changed_at: entry.state_changed_at,
            release_at: entry.release_at,
        }
    }
}

impl ListedEntry {
    /// Takes the seven fields from an open object.
    pub(crate) fn take(fields: &mut Fields) -> Result<Self, Refused> {
        Ok(Self {
            edition_id: fields.required("edition_id", text)?,
            previous: fields.required("previous", nullable(text))?,
            state: fields.required_by("state", 193, read_state)?,
            manifest_sha256: fields.required("manifest_sha256", text)?,
            schema_version: fields.required("schema_version", text)?,
            state_changed_at: fields.required("state_changed_at", text)?,
            release_at: fields.required("release_at", nullable(text))?,
        })
    }

    fn read(json: Json, rule: u16) -> Result<Self, Refused> {
        let mut fields = Fields::of(json, rule)?;
        let entry = Self::take(&mut fields)?;
        for field in LEAF_ONLY {
            if fields.take(field).is_some() {
                let because = "a change list repeats seven fields of an entry only".to_owned();
                return Err(Refused::by(189, Problem::PresentBut { field, because }));
            }
        }
        Ok(entry)
    }

    /// Puts the seven fields into an object.
    pub(crate) fn put(&self, out: &mut JsonObject) {
        out.push("edition_id", self.edition_id);
        out.push("previous", self.previous);
        out.push("state", self.state.as_str());
        out.push("manifest_sha256", self.manifest_sha256);
        out.push("schema_version", &self.schema_version);
        out.push("state_changed_at", self.state_changed_at);
        out.push("release_at", self.release_at);
    }
}

fn read_status(json: Json, rule: u16) -> Result<EntryStatus, Refused> {
    let word = string(json, rule)?;
    if word == "tombstone" {
        return Ok(EntryStatus::Tombstone);
    }
    EditionState::from_word(&word).map(EntryStatus::State).ok_or_else(|| {
        let expected = "embargoed, live, superseded, withdrawn or tombstone";
        Refused::by(rule, Problem::BadText { expected, found: word })
    })
}

fn write_status(status: Option<EntryStatus>) -> Json {
    status.map(|status| status.to_string()).into()
}

impl EntryChange {
    fn read(json: Json, _: u16) -> Result<Self, Refused> {
        let mut fields = Fields::of(json, 178)?;
        Ok(Self {
            edition_id: fields.required("edition_id", text)?,
            from: fields.required("from", nullable(read_status))?,
            to: fields.required("to", nullable(read_status))?,
            entry: fields.optional("entry", 179, ListedEntry::read)?,
        })
    }

    fn write(&self) -> JsonObject {
        let mut out = JsonObject::new();
        out.push("edition_id", self.edition_id);
        out.push("from", write_status(self.from));
        out.push("to", write_status(self.to));
        if let Some(entry) = &self.entry {
            let mut object = JsonObject::new();
            entry.put(&mut object);
            out.push("entry", object);
        }
        out
    }

    fn check(&self) -> Result<(), Refused> {
        let state = self.to.and_then(EntryStatus::state);
        match (state, &self.entry) {
            // A correction may leave out an edition its base version recorded, so a state may go to null as a tombstone may.
            (None, None) if self.from.is_none() && self.to.is_none() => {
                let because = "neither version has the edition".to_owned();
                return Err(Refused::by(
                    178,
                    Problem::PresentBut {
                        field: "the item",
                        because,
                    },
                ));
            }
            (None, None) => {}
            (Some(state), None) => {
                let because = format!("to is the state {state}");
                return Err(Refused::by(
                    179,
                    Problem::AbsentBut {
                        field: "entry",
                        because,
                    },
                ));
            }
            (None, Some(_)) => {
                let because = format!(
                    "to is {}",
                    self.to.map_or_else(|| "null".to_owned(), |to| to.to_string())
                );
                return Err(Refused::by(
                    179,
                    Problem::PresentBut {
                        field: "entry",
                        because,
                    },
                ));
            }
            (Some(state), Some(entry)) => {
                if entry.edition_id != self.edition_id {
                    let problem = disagree("edition_id", self.edition_id, "entry.edition_id", entry.edition_id);
                    return Err(Refused::by(179, problem));
                }
                if entry.state != state {
                    return Err(Refused::by(179, disagree("to", state, "entry.state", entry.state)));
                }
                check_release_at(entry.state, entry.release_at).map_err(|refused| refused.inside("entry"))?;
            }
        }
        Ok(())
    }
}

impl ChangeItem {
    fn read(json: Json, _: u16) -> Result<Self, Refused> {
        let mut fields = Fields::of(json, 177)?;
        Ok(Self {
            product_id: fields.required("product_id", text)?,
            leaf_sha256: fields.required("leaf_sha256", |json, rule| {
                let mut fields = Fields::of(json, rule)?;
                Ok(LeafChange {
                    from: fields.required("from", nullable(text))?,
                    to: fields.required("to", nullable(text))?,
                })
            })?,
            entries: fields.required_by("entries", 178, list(EntryChange::read))?,
        })
    }

    fn write(&self) -> JsonObject {
        let mut leaf = JsonObject::new();
        leaf.push("from", self.leaf_sha256.from);
        leaf.push("to", self.leaf_sha256.to);
        let mut out = JsonObject::new();
        out.push("product_id", &self.product_id);
        out.push("leaf_sha256", leaf);
        out.push(
            "entries",
            self.entries
                .iter()
                .map(|entry| entry.write().into())
                .collect::<Vec<Json>>(),
        );
        out
    }

    fn check(&self) -> Result<(), Refused> {
        ascending(&self.entries, 178, |entry| entry.edition_id).map_err(|refused| refused.inside("entries"))?;
        for (index, entry) in self.entries.iter().enumerate() {
            entry
                .check()
                .map_err(|refused| refused.inside(index).inside("entries"))?;
        }
        if self.leaf_sha256.from != self.leaf_sha256.to {
            return Ok(());
        }
        if self.entries.is_empty() {
            let because = "neither the leaf nor a tombstone of the product differs".to_owned();
            return Err(Refused::by(
                162,
                Problem::PresentBut {
                    field: "the item",
                    because,
                },
            ));
        }
        for (index, entry) in self.entries.iter().enumerate() {
            let side = |status: Option<EntryStatus>| status.and_then(EntryStatus::state);
            if let Some(state) = side(entry.from).or_else(|| side(entry.to)) {
                let because = format!(
                    "leaf_sha256 is unchanged, so edition {} cannot be {state}",
                    entry.edition_id
                );
                let problem = Problem::PresentBut {
                    field: "a state",
                    because,
                };
                return Err(Refused::by(177, problem).inside(index).inside("entries"));
            }
        }
        Ok(())
    }
}

/// Reads a change list.
pub(crate) fn read_changes(json: Json, rule: u16) -> Result<Vec<ChangeItem>, Refused> {
    list(ChangeItem::read)(json, rule)
}

/// Writes a change list.
pub(crate) fn write_changes(changes: &[ChangeItem]) -> Json {
    changes
        .iter()
        .map(|item| item.write().into())
        .collect::<Vec<Json>>()
        .into()
}

/// Checks a change list by itself.
pub(crate) fn check_changes(changes: &[ChangeItem]) -> Result<(), Refused> {
    ascending(changes, 162, |item| item.product_id.clone())?;
    for (index, item) in changes.iter().enumerate() {
        item.check().map_err(|refused| refused.inside(index))?;
    }
    Ok(())
}
