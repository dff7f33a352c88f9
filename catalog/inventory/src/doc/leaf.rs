//! An Inventory leaf: one product's entries.

use std::collections::BTreeMap;

use super::{
    change::ListedEntry,
    error::{DocKind, Problem, Refused, ascending, disagree},
    fields::{Fields, count, keep, list, map, nullable, object, string, text},
    id::{CleanText, EditionId, ProductId, Sha256},
    instant::Instant,
    json::{Json, JsonObject},
    stored::JsonDocument,
    urn::Urn,
    version::FormatVersion,
};

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$doc])* $variant),* }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word the documents use.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }

            /// The value a word stands for.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <String as serde::Deserialize>::deserialize(deserializer)?;
                Self::from_word(&word).ok_or_else(|| serde::de::Error::custom(format!("{word:?} is none of these words")))
            }
        }
    };
}
pub(crate) use words;

words! {
    /// INV-193: the state of an edition. Retirement is a tombstone and no state.
    EditionState {
        /// Sealed and recorded, not routable.
        Embargoed = "embargoed",
        /// The product's head at its schema version.
        Live = "live",
        /// Replaced by a later edition; a rollback may return to it.
        Superseded = "superseded",
        /// Taken back; never routed again by itself.
        Withdrawn = "withdrawn",
    }
}

words! {
    /// INV-169: what a product holds.
    ProductKind {
        /// Tables and the structures they need.
        Data = "data",
        /// Full structural artefacts, no tables.
        Structure = "structure",
    }
}

words! {
    /// INV-169: whether a product's content may still change.
    Lifecycle {
        /// A new edition must hold the same content.
        Final = "final",
        /// A new edition may hold other content.
        Revisable = "revisable",
    }
}

/// Reads one of a closed set of words.
pub(crate) fn word<T>(
    from_word: impl Fn(&str) -> Option<T>,
    expected: &'static str,
) -> impl Fn(Json, u16) -> Result<T, Refused> {
    move |json, rule| {
        let found = string(json, rule)?;
        from_word(&found).ok_or_else(|| Refused::by(rule, Problem::BadText { expected, found }))
    }
}

pub(crate) fn read_state(json: Json, rule: u16) -> Result<EditionState, Refused> {
    word(EditionState::from_word, "embargoed, live, superseded or withdrawn")(json, rule)
}

/// `inventory/leaves/<sha256>.json`: one product's entries for every edition that is not retired.
///
/// Keys are written in the order `format_version`, `product_id`, `kind`, `lifecycle`, `editions`, then the unknown ones,
/// which the product's next leaf keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// The Inventory format the writer writes.
    pub format_version: FormatVersion,
    /// The product.
    pub product_id: ProductId,
    /// What the product holds.
    pub kind: ProductKind,
    /// Whether its content may change.
    pub lifecycle: Lifecycle,
    /// Its editions, sorted by `edition_id`.
    pub editions: Vec<Entry>,
    /// Fields this build does not know.
    pub extra: JsonObject,
}

impl Leaf {
    /// The entry of an edition.
    pub fn entry(&self, edition_id: &EditionId) -> Option<&Entry> {
        self.editions.iter().find(|entry| entry.edition_id == *edition_id)
    }
}

/// One edition in a leaf.
///
/// Keys are written in the order `edition_id`, `previous`, `state`, `manifest_sha256`, `schema_version`,
/// `state_changed_at`, `release_at`, `structure_source`, `artefacts`, `dataflows`, `pull_bytes`, then the unknown ones:
/// a transition copies the fields it does not change (INV-186), those of a later minor version included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The edition.
    pub edition_id: EditionId,
    /// Its manifest's `previous`.
    pub previous: Option<EditionId>,
    /// Its state.
    pub state: EditionState,
    /// The SHA-256 of its manifest's bytes.
    pub manifest_sha256: Sha256,
    /// The store schema it was written at.
    pub schema_version: CleanText,
    /// When it took its state.
    pub state_changed_at: Instant,
    /// INV-171: when an embargoed edition becomes releasable; none for no schedule, and in every other state.
    pub release_at: Option<Instant>,
    /// INV-173: where the structures came from when a registry is authoritative.
    pub structure_source: Option<JsonObject>,
    /// INV-174: the artefact records of the manifest; none when the writer did not fill them.
    pub artefacts: Option<BTreeMap<Urn, ArtefactFingerprint>>,
    /// INV-184: the routing fields; none when the writer did not fill them.
    pub routing: Option<Routing>,
    /// Fields this build does not know.
    pub extra: JsonObject,
}

/// INV-184: what a router needs of an edition without opening its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routing {
    /// The dataflows of its bindings, sorted, each once.
    pub dataflows: Vec<Urn>,
    /// The size of its required tier.
    pub pull_bytes: u64,
}

/// INV-174: the fingerprint of one artefact in an edition. Keys: `fingerprint`, `partial_of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtefactFingerprint {
    /// Its own fingerprint.
    pub fingerprint: Sha256,
    /// For a partial, the fingerprint of the full artefact it was cut from.
    pub partial_of: Option<Sha256>,
}

impl ArtefactFingerprint {
    fn read(json: Json, rule: u16) -> Result<Self, Refused> {
        let mut fields = Fields::of(json, rule)?;
        Ok(Self {
            fingerprint: fields.required("fingerprint", text)?,
            // Absent or null: both say that the artefact is full.
            partial_of: fields.optional("partial_of", rule, nullable(text))?.flatten(),
        })
    }

    fn write(&self) -> JsonObject {
        let mut out = JsonObject::new();
        out.push("fingerprint", self.fingerprint);
        if let Some(partial_of) = self.partial_of {
            out.push("partial_of", partial_of);
        }
        out
    }
}

impl Entry {
    fn read(json: Json, _: u16) -> Result<Self, Refused> {
        let mut fields = Fields::of(json, 170)?;
        let listed = ListedEntry::take(&mut fields)?;
        let structure_source = fields.optional("structure_source", 173, object)?;
        let artefacts = fields.optional("artefacts", 174, map(ArtefactFingerprint::read))?;
        let dataflows = fields.optional("dataflows", 184, list(text))?;
        let pull_bytes = fields.optional("pull_bytes", 185, count)?;
        let absent = |field, other| {
            Refused::by(
                185,
                Problem::AbsentBut {
                    field,
                    because: format!("{other} is present"),
                },
            )
        };
        let routing = match (dataflows, pull_bytes) {
            (Some(dataflows), Some(pull_bytes)) => Some(Routing { dataflows, pull_bytes }),
            (None, None) => None,
            (Some(_), None) => return Err(absent("pull_bytes", "dataflows")),
            (None, Some(_)) => return Err(absent("dataflows", "pull_bytes")),
        };
        Ok(Self {
            edition_id: listed.edition_id,
            previous: listed.previous,
            state: listed.state,
            manifest_sha256: listed.manifest_sha256,
            schema_version: listed.schema_version,
            state_changed_at: listed.state_changed_at,
            release_at: listed.release_at,
            structure_source,
            artefacts,
            routing,
            extra: fields.rest(),
        })
    }

    fn write(&self) -> JsonObject {
        let mut out = JsonObject::new();
        ListedEntry::from(self).put(&mut out);
        if let Some(source) = &self.structure_source {
            out.push("structure_source", source.clone());
        }
        if let Some(artefacts) = &self.artefacts {
            let mut object = JsonObject::new();
            for (urn, record) in artefacts {
                object.push(urn.as_str(), record.write());
            }
            out.push("artefacts", object);
        }
        if let Some(routing) = &self.routing {
            out.push(
                "dataflows",
                routing.dataflows.iter().map(Json::from).collect::<Vec<Json>>(),
            );
            out.push("pull_bytes", routing.pull_bytes);
        }
        keep(&mut out, &self.extra);
        out
    }

    fn check(&self, kind: ProductKind) -> Result<(), Refused> {
        check_release_at(self.state, self.release_at)?;
        if self.previous == Some(self.edition_id) {
            let problem = disagree(
                "previous",
                self.edition_id,
                "edition_id, which it must differ from,",
                self.edition_id,
            );
            return Err(Refused::by(170, problem).inside("previous"));
        }
        if let Some(routing) = &self.routing {
            ascending(&routing.dataflows, 185, Clone::clone).map_err(|refused| refused.inside("dataflows"))?;
            if kind == ProductKind::Structure && !routing.dataflows.is_empty() {
                let because = "the product's kind is structure".to_owned();
                return Err(Refused::by(
                    184,
                    Problem::PresentBut {
                        field: "a dataflow",
                        because,
                    },
                )
                .inside("dataflows"));
            }
        }
        Ok(())
    }
}

/// INV-171: only an embargoed edition has a release time.
pub(crate) fn check_release_at(state: EditionState, release_at: Option<Instant>) -> Result<(), Refused> {
    match release_at {
        Some(_) if state != EditionState::Embargoed => {
            let because = format!("the state is {state}");
            Err(Refused::by(
                171,
                Problem::PresentBut {
                    field: "release_at",
                    because,
                },
            )
            .inside("release_at"))
        }
        _ => Ok(()),
    }
}

impl JsonDocument for Leaf {
    const KIND: DocKind = DocKind::Leaf;

    fn read(json: Json) -> Result<Self, Refused> {
        let mut fields = Fields::of(json, 169)?;
        let format_version: FormatVersion = fields.required("format_version", text)?;
        format_version.supported(191, 1, 1)?;
        Ok(Self {
            format_version,
            product_id: fields.required("product_id", text)?,
            kind: fields.required("kind", word(ProductKind::from_word, "data or structure"))?,
            lifecycle: fields.required("lifecycle", word(Lifecycle::from_word, "final or revisable"))?,
            editions: fields.required("editions", list(Entry::read))?,
            extra: fields.rest(),
        })
    }

    fn write(&self) -> JsonObject {
        let mut out = JsonObject::new();
        out.push("format_version", self.format_version);
        out.push("product_id", &self.product_id);
        out.push("kind", self.kind.as_str());
        out.push("lifecycle", self.lifecycle.as_str());
        out.push(
            "editions",
            self.editions
                .iter()
                .map(|entry| entry.write().into())
                .collect::<Vec<Json>>(),
        );
        keep(&mut out, &self.extra);
        out
    }

    fn check(&self) -> Result<(), Refused> {
        self.format_version.supported(191, 1, 1)?;
        ascending(&self.editions, 169, |entry| entry.edition_id).map_err(|refused| refused.inside("editions"))?;
        for (index, entry) in self.editions.iter().enumerate() {
            entry
                .check(self.kind)
                .map_err(|refused| refused.inside(index).inside("editions"))?;
        }
        Ok(())
    }
}
