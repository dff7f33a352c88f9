//! An Inventory root: one version of the catalogue.

use std::{collections::BTreeMap, fmt};

use super::{
    change::{ChangeItem, EntryStatus, check_changes, read_changes, write_changes},
    error::{DocError, DocKind, Problem, Refused, disagree},
    fields::{Fields, boolean, integer, keep, list, map, nullable, object, string, text},
    id::{CleanText, EditionId, Epoch, ProductId, Seq, Sha256},
    instant::Instant,
    json::{Json, JsonObject, end_of_members},
    layout,
    stored::JsonDocument,
    version::FormatVersion,
};

/// `inventory/<seq>.json`: one version of the Inventory.
///
/// Keys are written in the order `format_version`, `seq`, `previous_inventory`, `restore_epoch`, `created_at`, `producer`,
/// `embargo`, `products` (by id), `retired`, `event`, `extensions`, `previous_root_sha256`, `changes`, then the unknown
/// ones. `created_at` is the fifth and so lies in the first KiB, where expiry looks for it (INV-152).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// The Inventory format.
    pub format_version: FormatVersion,
    /// This version's number.
    pub seq: Seq,
    /// INV-150: the version it was built from; none for the first.
    pub previous_inventory: Option<Seq>,
    /// INV-151: the catalogue's epoch when it was written.
    pub restore_epoch: Epoch,
    /// When it was written.
    pub created_at: Instant,
    /// What wrote it.
    pub producer: Producer,
    /// Whether a sealed edition waits for a release.
    pub embargo: bool,
    /// INV-154: every product's leaf.
    pub products: BTreeMap<ProductId, LeafRef>,
    /// INV-155: the tombstones within the tombstone window.
    pub retired: Vec<Tombstone>,
    /// INV-156: who did what, and why.
    pub event: Event,
    /// Sections keyed by package.
    pub extensions: JsonObject,
    /// INV-163: the history fields; a root carries both or neither.
    pub history: Option<RootHistory>,
    /// Fields this build does not know.
    pub extra: JsonObject,
}

/// What wrote a document. Keys: `name`, `version`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Producer {
    /// The program or library.
    pub name: CleanText,
    /// Its version.
    pub version: CleanText,
}

/// A leaf by its hash. Keys: `leaf` (the path, which follows from the hash), `leaf_sha256`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafRef {
    /// The SHA-256 of the leaf's stored bytes.
    pub leaf_sha256: Sha256,
}

impl LeafRef {
    /// The leaf's path in the catalogue.
    pub fn path(&self) -> String {
        layout::leaf(&self.leaf_sha256)
    }
}

/// INV-155: a retired edition. Keys: `product_id`, `edition_id`, `retired_at`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// The product.
    pub product_id: ProductId,
    /// The edition.
    pub edition_id: EditionId,
    /// When it was retired.
    pub retired_at: Instant,
}

/// INV-156: who acted and why. Keys: `actor`, `reason`, `kind`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The writer's identity.
    pub actor: CleanText,
    /// Why; may be empty.
    pub reason: String,
    /// What was done.
    pub kind: EventKind,
}

/// What an Inventory version did.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// An edition was sealed and recorded, by a seal or by a fold of registrations (INV-160).
    Seal,
    /// Embargoed editions went live.
    Release,
    /// An earlier edition went live again.
    Rollback,
    /// An edition was taken back.
    Withdraw,
    /// An edition was retired to a tombstone.
    Retire,
    /// A retired edition came back as superseded.
    Reinstate,
    /// The embargo was turned on or off.
    EmbargoChange,
    /// The catalogue was restored as a whole.
    Restore,
    /// A version was built from an older, known-good one.
    Correct,
    /// The catalogue's description changed and nothing else.
    Describe,
    /// INV-157: a kind of a later minor version; read, never written, and treated as "other" by an audit.
    Other(String),
}

impl EventKind {
    /// The kinds a writer records.
    pub const WRITTEN: [Self; 10] = [
        Self::Seal,
        Self::Release,
        Self::Rollback,
        Self::Withdraw,
        Self::Retire,
        Self::Reinstate,
        Self::EmbargoChange,
        Self::Restore,
        Self::Correct,
        Self::Describe,
    ];

    /// The word the documents use.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Seal => "seal",
            Self::Release => "release",
            Self::Rollback => "rollback",
            Self::Withdraw => "withdraw",
            Self::Retire => "retire",
            Self::Reinstate => "reinstate",
            Self::EmbargoChange => "embargo-change",
            Self::Restore => "restore",
            Self::Correct => "correct",
            Self::Describe => "describe",
            Self::Other(word) => word,
        }
    }

    /// The kind a word stands for.
    pub fn from_word(word: &str) -> Self {
        Self::WRITTEN
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .unwrap_or_else(|| Self::Other(word.to_owned()))
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// INV-161, INV-162: the link to the base version and what differs from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootHistory {
    /// The SHA-256 of the stored bytes of root `seq - 1`; none for the first version.
    pub previous_root_sha256: Option<Sha256>,
    /// One item for each product whose leaf or tombstones differ, sorted by `product_id`.
    pub changes: Vec<ChangeItem>,
}

impl Root {
    /// Fields before `created_at`, and the bytes within which it must end (INV-152).
    const CREATED_AT_POSITION: usize = 4;
    const CREATED_AT_WITHIN: usize = 1024;

    /// What a writer of this format must also keep to, where a reader is lenient: the current format (INV-149), one of the
    /// ten kinds (INV-156), both history fields (INV-163).
    pub fn check_as_written(&self) -> Result<(), DocError> {
        self.check()
            .and_then(|()| self.written())
            .map_err(|refused| refused.of(DocKind::Root))
    }

    fn written(&self) -> Result<(), Refused> {
        if self.format_version != FormatVersion::INVENTORY {
            let problem = disagree(
                "format_version",
                self.format_version,
                "the version a writer writes",
                FormatVersion::INVENTORY,
            );
            return Err(Refused::by(149, problem).inside("format_version"));
        }
        if let EventKind::Other(kind) = &self.event.kind {
            let expected = "one of the ten kinds a writer records";
            let problem = Problem::BadText {
                expected,
                found: kind.clone(),
            };
            return Err(Refused::by(156, problem).inside("kind").inside("event"));
        }
        if self.history.is_none() {
            let because = "a writer writes both history fields in every version".to_owned();
            return Err(Refused::by(
                163,
                Problem::AbsentBut {
                    field: "changes",
                    because,
                },
            ));
        }
        Ok(())
    }

    /// Whether an edition has a tombstone in this version.
    pub fn is_retired(&self, product_id: &ProductId, edition_id: &EditionId) -> bool {
        self.retired
            .iter()
            .any(|tombstone| tombstone.edition_id == *edition_id && tombstone.product_id == *product_id)
    }
}

pub(crate) fn read_seq(json: Json, rule: u16) -> Result<Seq, Refused> {
    let number = integer(Seq::FIRST.get(), Seq::MAX.get())(json, rule)?;
    // `integer` has checked the range.
    Ok(Seq::new(number).unwrap_or(Seq::MAX))
}

pub(crate) fn read_epoch(json: Json, rule: u16) -> Result<Epoch, Refused> {
    let number = integer(0, Epoch::MAX.get())(json, rule)?;
    Ok(Epoch::new(number).unwrap_or(Epoch::MAX))
}

pub(crate) fn read_producer(json: Json, rule: u16) -> Result<Producer, Refused> {
    let mut fields = Fields::of(json, rule)?;
    Ok(Producer {
        name: fields.required("name", text)?,
        version: fields.required("version", text)?,
    })
}

pub(crate) fn write_producer(producer: &Producer) -> JsonObject {
    let mut out = JsonObject::new();
    out.push("name", &producer.name);
    out.push("version", &producer.version);
    out
}

pub(crate) fn read_event(json: Json, rule: u16) -> Result<Event, Refused> {
    let mut fields = Fields::of(json, rule)?;
    Ok(Event {
        actor: fields.required("actor", text)?,
        reason: fields.required("reason", string)?,
        kind: fields.required("kind", |json, rule| Ok(EventKind::from_word(&string(json, rule)?)))?,
    })
}

fn write_event(event: &Event) -> JsonObject {
    let mut out = JsonObject::new();
    out.push("actor", &event.actor);
    out.push("reason", event.reason.as_str());
    out.push("kind", event.kind.as_str());
    out
}

/// Takes both history fields or neither.
pub(crate) fn take_history(fields: &mut Fields) -> Result<Option<RootHistory>, Refused> {
    let previous = fields.optional("previous_root_sha256", 161, nullable(text))?;
    let changes = fields.optional("changes", 162, read_changes)?;
    let absent = |field, other| {
        Refused::by(
            163,
            Problem::AbsentBut {
                field,
                because: format!("{other} is present"),
            },
        )
    };
    match (previous, changes) {
        (Some(previous_root_sha256), Some(changes)) => Ok(Some(RootHistory {
            previous_root_sha256,
            changes,
        })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(absent("changes", "previous_root_sha256")),
        (None, Some(_)) => Err(absent("previous_root_sha256", "changes")),
    }
}

/// What holds between the number, the version built from, the kind and the link, in a root and in a segment's line.
pub(crate) fn check_links(
    seq: Seq,
    previous_inventory: Option<Seq>,
    event: &Event,
    history: Option<&RootHistory>,
) -> Result<(), Refused> {
    let shown = |number: Option<Seq>| number.map_or_else(|| "null".to_owned(), |number| number.to_string());
    let fits = match (previous_inventory, &event.kind) {
        // A correction names an older version; the first version has nothing to correct.
        (Some(built_from), EventKind::Correct) => built_from < seq,
        (built_from, _) => built_from == seq.previous(),
    };
    if !fits {
        let problem = disagree(
            "previous_inventory",
            shown(previous_inventory),
            "the version before",
            shown(seq.previous()),
        );
        return Err(Refused::by(150, problem).inside("previous_inventory"));
    }
    let Some(history) = history else { return Ok(()) };
    let because = format!("seq is {seq}");
    let problem = match history.previous_root_sha256 {
        Some(_) if seq == Seq::FIRST => Problem::PresentBut {
            field: "previous_root_sha256",
            because,
        },
        None if seq != Seq::FIRST => Problem::AbsentBut {
            field: "previous_root_sha256",
            because,
        },
        _ => return check_changed(seq, event, &history.changes).map_err(|refused| refused.inside("changes")),
    };
    Err(Refused::by(161, problem).inside("previous_root_sha256"))
}

fn check_changed(seq: Seq, event: &Event, changes: &[ChangeItem]) -> Result<(), Refused> {
    check_changes(changes)?;
    let Some(first) = changes.first() else { return Ok(()) };
    if matches!(event.kind, EventKind::Describe | EventKind::EmbargoChange) {
        let because = format!("a version of kind {} changes no entry", event.kind);
        return Err(Refused::by(
            443,
            Problem::PresentBut {
                field: "a change",
                because,
            },
        )
        .inside(0));
    }
    if seq == Seq::FIRST {
        let from = |item: &ChangeItem| item.leaf_sha256.from.is_some() || item.entries.iter().any(|e| e.from.is_some());
        if let Some(index) = changes.iter().position(from) {
            let because = format!(
                "version 1 has no base version to change product {} from",
                first.product_id
            );
            return Err(Refused::by(162, Problem::PresentBut { field: "from", because }).inside(index));
        }
    }
    Ok(())
}

impl JsonDocument for Root {
    const KIND: DocKind = DocKind::Root;

    fn read(json: Json) -> Result<Self, Refused> {
        let mut fields = Fields::of(json, 150)?;
        let format_version: FormatVersion = fields.required_by("format_version", 149, text)?;
        format_version.supported(191, 1, 1)?;
        let created_at_position = fields.position("created_at");
        let root = Self {
            format_version,
            seq: fields.required("seq", read_seq)?,
            previous_inventory: fields.required("previous_inventory", nullable(read_seq))?,
            restore_epoch: fields.required_by("restore_epoch", 151, read_epoch)?,
            created_at: fields.required_by("created_at", 152, text)?,
            producer: fields.required_by("producer", 153, read_producer)?,
            embargo: fields.required_by("embargo", 153, boolean)?,
            products: fields.required_by("products", 154, map(read_leaf_ref))?,
            retired: fields.required_by("retired", 155, list(read_tombstone))?,
            event: fields.required_by("event", 156, read_event)?,
            extensions: fields.optional("extensions", 191, object)?.unwrap_or_default(),
            history: take_history(&mut fields)?,
            extra: fields.rest(),
        };
        // Roots from before the history fields never expire, so nobody looks for their time in the first KiB.
        match created_at_position {
            Some(position) if root.history.is_some() && position != Self::CREATED_AT_POSITION => {
                let found = format!("as field {}", position + 1);
                let problem = Problem::Misplaced {
                    found,
                    expected: "as field 5",
                };
                Err(Refused::by(152, problem).inside("created_at"))
            }
            _ => Ok(root),
        }
    }

    fn write(&self) -> JsonObject {
        let mut products = JsonObject::new();
        for (product_id, leaf) in &self.products {
            let mut object = JsonObject::new();
            object.push("leaf", leaf.path());
            object.push("leaf_sha256", leaf.leaf_sha256);
            products.push(product_id.as_str(), object);
        }
        let retired = self.retired.iter().map(|tombstone| {
            let mut object = JsonObject::new();
            object.push("product_id", &tombstone.product_id);
            object.push("edition_id", tombstone.edition_id);
            object.push("retired_at", tombstone.retired_at);
            object.into()
        });
        let mut out = JsonObject::new();
        out.push("format_version", self.format_version);
        out.push("seq", self.seq);
        out.push("previous_inventory", self.previous_inventory);
        out.push("restore_epoch", self.restore_epoch);
        out.push("created_at", self.created_at);
        out.push("producer", write_producer(&self.producer));
        out.push("embargo", self.embargo);
        out.push("products", products);
        out.push("retired", retired.collect::<Vec<Json>>());
        out.push("event", write_event(&self.event));
        if !self.extensions.is_empty() {
            out.push("extensions", self.extensions.clone());
        }
        if let Some(history) = &self.history {
            out.push("previous_root_sha256", history.previous_root_sha256);
            out.push("changes", write_changes(&history.changes));
        }
        keep(&mut out, &self.extra);
        out
    }

    fn check(&self) -> Result<(), Refused> {
        self.format_version.supported(191, 1, 1)?;
        let mut retired = std::collections::BTreeSet::new();
        for (index, tombstone) in self.retired.iter().enumerate() {
            if !retired.insert((&tombstone.product_id, tombstone.edition_id)) {
                let twice = format!("{} of {}", tombstone.edition_id, tombstone.product_id);
                return Err(Refused::by(155, Problem::Twice(twice)).inside(index).inside("retired"));
            }
        }
        check_links(self.seq, self.previous_inventory, &self.event, self.history.as_ref())?;
        let changes = self.history.iter().flat_map(|history| &history.changes);
        for (index, item) in changes.enumerate() {
            self.check_item(item, |edition| retired.contains(&(&item.product_id, edition)))
                .map_err(|refused| refused.inside(index).inside("changes"))?;
        }
        Ok(())
    }

    fn check_text(&self, bytes: &[u8]) -> Result<(), Refused> {
        let end = end_of_members(bytes, Self::CREATED_AT_POSITION + 1);
        match end {
            Some(end) if self.history.is_some() && end > Self::CREATED_AT_WITHIN => {
                let problem = Problem::Misplaced {
                    found: format!("up to byte {end}"),
                    expected: "in the first KiB",
                };
                Err(Refused::by(152, problem).inside("created_at"))
            }
            _ => Ok(()),
        }
    }
}

impl Root {
    /// What a change item says of this version must be what this version holds.
    fn check_item(&self, item: &ChangeItem, is_retired: impl Fn(EditionId) -> bool) -> Result<(), Refused> {
        let held = self.products.get(&item.product_id).map(|leaf| leaf.leaf_sha256);
        if held != item.leaf_sha256.to {
            let shown = |hash: Option<Sha256>| hash.map_or_else(|| "null".to_owned(), |hash| hash.to_string());
            let problem = disagree(
                "leaf_sha256.to",
                shown(item.leaf_sha256.to),
                "the leaf in products",
                shown(held),
            );
            return Err(Refused::by(177, problem).inside("leaf_sha256"));
        }
        for (index, entry) in item.entries.iter().enumerate() {
            let because = |what: &str| format!("edition {} {what}", entry.edition_id);
            let problem = match (entry.to, is_retired(entry.edition_id)) {
                (Some(EntryStatus::Tombstone), false) => Problem::AbsentBut {
                    field: "a tombstone in retired",
                    because: because("goes to tombstone"),
                },
                (None, true) => Problem::PresentBut {
                    field: "a tombstone in retired",
                    because: because("loses its tombstone"),
                },
                (Some(EntryStatus::State(_)), _) if held.is_none() => Problem::AbsentBut {
                    field: "the product's leaf",
                    because: because("has an entry in it"),
                },
                _ => continue,
            };
            return Err(Refused::by(178, problem).inside(index).inside("entries"));
        }
        Ok(())
    }
}

fn read_leaf_ref(json: Json, rule: u16) -> Result<LeafRef, Refused> {
    let mut fields = Fields::of(json, rule)?;
    let path = fields.required("leaf", string)?;
    let leaf = LeafRef {
        leaf_sha256: fields.required("leaf_sha256", text)?,
    };
    if path != leaf.path() {
        return Err(Refused::by(
            rule,
            disagree("leaf", path, "the path of leaf_sha256", leaf.path()),
        ));
    }
    Ok(leaf)
}

fn read_tombstone(json: Json, rule: u16) -> Result<Tombstone, Refused> {
    let mut fields = Fields::of(json, rule)?;
    Ok(Tombstone {
        product_id: fields.required("product_id", text)?,
        edition_id: fields.required("edition_id", text)?,
        retired_at: fields.required("retired_at", text)?,
    })
}
