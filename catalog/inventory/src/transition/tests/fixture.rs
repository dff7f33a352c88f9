//! A small catalogue to act on.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use chrono::TimeDelta;

use crate::{
    doc::{
        ArtefactRecord, Binding, CleanText, EditionId, EditionState, EngineVersions, Entry, EntryStatus, Epoch, Event,
        EventKind, FormatVersion, Instant, JsonObject, Leaf, LeafRef, Lifecycle, Manifest, Producer, ProductId,
        ProductKind, Root, RootHistory, Seq, Sha256, Stored, TableFingerprint, Tombstone, Urn,
    },
    transition::{
        Context, EditionKey, Manifests, Operation, ProductProfile, Refusal, ReleaseClock, Retention, RetentionSettings,
        SealedEdition, Transition, Version, apply,
    },
};

/// Days, for times relative to the fixture's clock.
pub(super) fn days(days: i64) -> TimeDelta {
    TimeDelta::days(days)
}

pub(super) fn clean(text: &str) -> CleanText {
    text.parse().expect("the test's text is clean")
}

pub(super) fn product(id: &str) -> ProductId {
    id.parse().expect("the test's product id is well formed")
}

pub(super) fn start() -> Instant {
    "2026-06-01T08:30:00Z"
        .parse()
        .expect("the test's instant is well formed")
}

/// The n-th edition id of the test; a higher number is a later edition. All are made in the week before [`start`].
pub(super) fn id(n: u8) -> EditionId {
    EditionId::at(start().plus(-days(7)).plus(TimeDelta::minutes(i64::from(n))), [n; 10])
}

pub(super) fn key(product_id: &str, n: u8) -> EditionKey {
    EditionKey::new(product(product_id), id(n))
}

pub(super) fn hash(text: &str) -> Sha256 {
    Sha256::of(text.as_bytes())
}

/// The URN of a codelist.
pub(super) fn codelist(name: &str) -> Urn {
    let text = format!("urn:sdmx:org.sdmx.infomodel.codelist.Codelist=STC:{name}(1.0)");
    text.parse().expect("the test's URN is well formed")
}

fn dataflow(product_id: &ProductId) -> Urn {
    let text = format!("urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow=STC:DF_{product_id}(1.0)");
    text.parse().expect("the test's URN is well formed")
}

/// An edition to make a manifest of.
#[derive(Clone)]
pub(super) struct Edition {
    pub(super) key: EditionKey,
    pub(super) previous: Option<EditionId>,
    pub(super) schema: &'static str,
    pub(super) form: &'static str,
    pub(super) content: Option<&'static str>,
    pub(super) kind: ProductKind,
    pub(super) lifecycle: Lifecycle,
    pub(super) full: Vec<(&'static str, &'static str)>,
    pub(super) partial: Vec<(&'static str, &'static str)>,
}

/// A data edition without structures, built from nothing.
pub(super) fn data(product_id: &str, n: u8) -> Edition {
    Edition {
        key: key(product_id, n),
        previous: None,
        schema: "2.52",
        form: "1",
        content: Some("content"),
        kind: ProductKind::Data,
        lifecycle: Lifecycle::Revisable,
        full: Vec::new(),
        partial: Vec::new(),
    }
}

/// A structure edition built from nothing.
pub(super) fn structure(product_id: &str, n: u8) -> Edition {
    Edition {
        kind: ProductKind::Structure,
        ..data(product_id, n)
    }
}

impl Edition {
    pub(super) fn on(self, previous: u8) -> Self {
        Self {
            previous: Some(id(previous)),
            ..self
        }
    }

    pub(super) fn schema(self, schema: &'static str) -> Self {
        Self { schema, ..self }
    }

    /// Adds a full artefact: a codelist's name and the text its fingerprint stands for.
    pub(super) fn full(mut self, name: &'static str, content: &'static str) -> Self {
        self.full.push((name, content));
        self
    }

    /// Adds a partial cut from the full artefact of that content.
    pub(super) fn partial(mut self, name: &'static str, cut_from: &'static str) -> Self {
        self.partial.push((name, cut_from));
        self
    }

    pub(super) fn manifest(&self) -> Arc<Stored<Manifest>> {
        let record = |name: &str, fingerprint, partial_of| ArtefactRecord {
            urn: codelist(name),
            fingerprint,
            partial_of,
        };
        let full = self
            .full
            .iter()
            .map(|(name, content)| record(name, hash(content), None));
        let partial = self.partial.iter().map(|(name, cut_from)| {
            let own = hash(&format!("{} of {cut_from}", self.key));
            record(name, own, Some(hash(cut_from)))
        });
        let mut artefacts: Vec<ArtefactRecord> = full.chain(partial).collect();
        artefacts.sort_by(|a, b| a.urn.cmp(&b.urn));
        let structural = "urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure=STC:DSD(1.0)";
        let binding = Binding {
            dataflow: dataflow(&self.key.product_id),
            observations: 1,
            structural_version: structural.parse().expect("the test's URN is well formed"),
            fingerprint: TableFingerprint { sum: 1, rows: 1 },
            structure_fingerprint: hash("structure"),
        };
        let manifest = Manifest {
            format_version: FormatVersion::MANIFEST,
            product_id: self.key.product_id.clone(),
            edition_id: self.key.edition_id,
            previous: self.previous,
            created_at: self.key.edition_id.time(),
            producer: producer(),
            schema_version: clean(self.schema),
            engine: EngineVersions::default(),
            files: Vec::new(),
            bindings: if self.kind == ProductKind::Data {
                vec![binding]
            } else {
                Vec::new()
            },
            artefacts,
            canonical_form: clean(self.form),
            content_fingerprint: self.content.map(hash),
            producer_fields: JsonObject::new(),
            extensions: JsonObject::new(),
            extra: JsonObject::new(),
        };
        Arc::new(Stored::encode(manifest).expect("the test's manifest is valid"))
    }

    pub(super) fn profile(&self) -> ProductProfile {
        ProductProfile {
            kind: self.kind,
            lifecycle: self.lifecycle,
        }
    }

    pub(super) fn sealed(&self) -> SealedEdition {
        SealedEdition {
            manifest: self.manifest(),
            profile: self.profile(),
            structure_source: None,
        }
    }

    /// The entry a leaf would hold.
    pub(super) fn entry(&self, state: EditionState, since: Instant, release_at: Option<Instant>) -> Entry {
        let manifest = self.manifest();
        Entry {
            edition_id: self.key.edition_id,
            previous: self.previous,
            state,
            manifest_sha256: manifest.sha256(),
            schema_version: clean(self.schema),
            state_changed_at: since,
            release_at,
            structure_source: None,
            artefacts: Some(manifest.artefact_fingerprints()),
            routing: Some(manifest.routing()),
            extra: JsonObject::new(),
        }
    }
}

fn producer() -> Producer {
    Producer {
        name: clean("sovm"),
        version: clean("0"),
    }
}

/// A version put together from entries and tombstones as documents, without any transition.
pub(super) fn version(seq: u64, embargo: bool, leaves: Vec<Leaf>, retired: Vec<Tombstone>) -> Version {
    let created_at = start().plus(-days(1));
    let leaves: Vec<Arc<Stored<Leaf>>> = leaves
        .into_iter()
        .map(|leaf| Arc::new(Stored::encode(leaf).expect("the test's leaf is valid")))
        .collect();
    let reference = |leaf: &Arc<Stored<Leaf>>| LeafRef {
        leaf_sha256: leaf.sha256(),
    };
    let root = Root {
        format_version: FormatVersion::INVENTORY,
        seq: Seq::new(seq).expect("the test's number is in range"),
        previous_inventory: Seq::new(seq - 1),
        restore_epoch: Epoch::FIRST,
        created_at,
        producer: producer(),
        embargo,
        products: leaves
            .iter()
            .map(|leaf| (leaf.product_id.clone(), reference(leaf)))
            .collect(),
        retired,
        event: Event {
            actor: clean("test"),
            reason: String::new(),
            kind: EventKind::Seal,
        },
        extensions: JsonObject::new(),
        history: Some(RootHistory {
            previous_root_sha256: None,
            changes: Vec::new(),
        }),
        extra: JsonObject::new(),
    };
    let by_hash: BTreeMap<Sha256, Arc<Stored<Leaf>>> =
        leaves.iter().map(|leaf| (leaf.sha256(), leaf.clone())).collect();
    Version::of(&root, |sha256| by_hash.get(&sha256).cloned()).expect("root and leaves belong together")
}

pub(super) fn leaf(first: &Edition, mut editions: Vec<Entry>) -> Leaf {
    editions.sort_by_key(|entry| entry.edition_id);
    Leaf {
        format_version: FormatVersion::INVENTORY,
        product_id: first.key.product_id.clone(),
        kind: first.kind,
        lifecycle: first.lifecycle,
        editions,
        extra: JsonObject::new(),
    }
}

pub(super) fn tombstone(edition: &EditionKey) -> Tombstone {
    Tombstone {
        product_id: edition.product_id.clone(),
        edition_id: edition.edition_id,
        retired_at: start().plus(-days(2)),
    }
}

/// The message of a refusal cites the rule the refusal says it is of.
pub(super) fn cites(refusal: &Refusal) {
    let (rule, text) = (refusal.rule(), refusal.to_string());
    assert!(
        text.starts_with(&format!("INV-{rule}: ")),
        "rule {rule}, message {text}"
    );
}

/// A catalogue, its clock and everything a transition is judged by.
#[derive(Clone)]
pub(super) struct World {
    pub(super) version: Version,
    pub(super) manifests: Manifests,
    pub(super) now: Instant,
    pub(super) retention: Retention,
    pub(super) forms: BTreeSet<CleanText>,
}

impl World {
    pub(super) fn new(embargo: bool) -> Self {
        Self::at(Version::before_the_first(embargo))
    }

    pub(super) fn at(version: Version) -> Self {
        let settings = RetentionSettings {
            edition: Duration::from_secs(90 * 24 * 60 * 60),
            ..RetentionSettings::default()
        };
        Self {
            version,
            manifests: Manifests::default(),
            now: start(),
            retention: Retention::new(settings).expect("the default windows are in order"),
            forms: BTreeSet::from([clean("1")]),
        }
    }

    pub(super) fn context(&self) -> Context<'_> {
        Context {
            clock: ReleaseClock::alone(self.now),
            manifests: &self.manifests,
            canonical_forms: &self.forms,
            retention: &self.retention,
        }
    }

    /// Makes an edition's manifest known and answers what is needed to record it.
    pub(super) fn seal(&mut self, edition: &Edition) -> SealedEdition {
        let sealed = edition.sealed();
        self.manifests.insert(sealed.manifest.clone());
        sealed
    }

    pub(super) fn try_apply(&self, operations: &[Operation]) -> Result<Transition, Refusal> {
        apply(&self.version, operations, &self.context())
    }

    /// Applies and goes on from the next version, a minute later.
    pub(super) fn apply(&mut self, operations: &[Operation]) -> Transition {
        let transition = self
            .try_apply(operations)
            .unwrap_or_else(|refusal| panic!("refused: {refusal}"));
        self.version = transition.next.clone();
        self.now = self.now.plus(TimeDelta::minutes(1));
        transition
    }

    pub(super) fn refusal(&self, operations: &[Operation]) -> Refusal {
        let refusal = self
            .try_apply(operations)
            .map(|transition| transition.changes)
            .expect_err("the operation is refused");
        cites(&refusal);
        refusal
    }

    /// Records an edition as live, with the embargo off.
    pub(super) fn live(&mut self, edition: &Edition) {
        let sealed = self.seal(edition);
        self.apply(&[Operation::Seal(sealed)]);
    }

    /// Records an edition as embargoed.
    pub(super) fn embargoed(&mut self, edition: &Edition, release_at: Option<Instant>) {
        let sealed = self.seal(edition);
        self.apply(&[Operation::Register { sealed, release_at }]);
    }

    pub(super) fn status(&self, edition: &EditionKey) -> Option<EntryStatus> {
        self.version.status(edition)
    }

    pub(super) fn state(&self, product_id: &str, n: u8) -> Option<EditionState> {
        self.version.entry(&key(product_id, n)).map(|entry| entry.state)
    }
}
