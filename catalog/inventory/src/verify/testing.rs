//! Catalogues for the tests of checking, exporting and collecting: written by the writer, over any store.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use super::{Measured, Options, Report, StoreFiles, verify};
use crate::{
    doc::{
        ArtefactRecord, Binding, Catalog, CatalogId, CleanText, Digests, Document as _, EditionId, EngineVersions,
        Epoch, FileEntry, FilePath, FileRoot, FormatVersion, History, Instant, JsonObject, Lifecycle, Manifest,
        Producer, ProductId, ProductKind, Root, Segment, SegmentHeader, SegmentKind, SegmentLine, SegmentPath, Seq,
        Sha256, Stored, TableFingerprint, Tier, Unverified, layout,
    },
    store::{Creation, InventoryStore, StorePath},
    transition::{
        Context, EditionKey, Manifests, MeasuredFile, Operation, ProductProfile, Refusal, ReleaseClock, Retention,
        RetentionSettings, SealedEdition, VerifiedEdition, apply,
    },
    writer::{Clock, Committed, Identity, NewCatalog, Planned, Writer},
};

pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A clock that stands still until it is told to go on.
#[derive(Debug)]
pub(crate) struct SetClock(AtomicI64);

impl SetClock {
    pub(crate) fn at(text: &str) -> Arc<Self> {
        let start: Instant = text.parse().expect("an instant");
        Arc::new(Self(AtomicI64::new(start.unix_millis())))
    }

    pub(crate) fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).expect("a test's duration");
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for SetClock {
    fn now(&self) -> Instant {
        Instant::from_unix_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A catalogue and what writes it.
pub(crate) struct Fixture {
    pub(crate) store: Arc<dyn InventoryStore>,
    pub(crate) clock: Arc<SetClock>,
    pub(crate) retention: Retention,
    pub(crate) forms: BTreeSet<CleanText>,
    writer: Writer,
    manifests: Manifests,
    random: u8,
}

/// An artefact of a test's edition: its codelist id, the seed of its fingerprint, and the seed of what it was cut from.
pub(crate) type Artefact<'a> = (&'a str, &'a str, Option<&'a str>);

pub(crate) fn product(text: &str) -> ProductId {
    text.parse().expect("a product id")
}

pub(crate) fn path(text: &str) -> StorePath {
    StorePath::parse(text).expect("a path")
}

pub(crate) fn identity() -> Identity {
    Identity {
        actor: "tester@example".parse().expect("clean text"),
        producer: producer(),
    }
}

fn producer() -> Producer {
    Producer {
        name: "sovm".parse().expect("clean text"),
        version: "0.1.0".parse().expect("clean text"),
    }
}

pub(crate) fn codelist(id: &str) -> crate::doc::Urn {
    format!("urn:sdmx:org.sdmx.infomodel.codelist.Codelist=TEST:{id}(1.0)")
        .parse()
        .expect("a URN")
}

impl Fixture {
    pub(crate) async fn new(store: Arc<dyn InventoryStore>) -> Self {
        let clock = SetClock::at("2026-01-01T00:00:00Z");
        let new = NewCatalog {
            catalog_id: CatalogId::at(clock.now(), [7; 10]),
            embargo: false,
            extensions: JsonObject::new(),
            reason: "a test".to_owned(),
        };
        let (writer, _) = Writer::create(Arc::clone(&store), identity(), clock.clone(), new)
            .await
            .expect("a catalogue");
        Self {
            store,
            clock,
            retention: Retention::new(RetentionSettings::default()).expect("the default windows fit"),
            forms: BTreeSet::from(["1".parse().expect("clean text")]),
            writer,
            manifests: Manifests::default(),
            random: 0,
        }
    }

    /// Writes files and manifest of a new edition that goes on from `previous`: its data files and one more.
    pub(crate) async fn sealed(
        &mut self,
        product_id: &str,
        previous: Option<&Stored<Manifest>>,
        artefacts: &[Artefact<'_>],
    ) -> Arc<Stored<Manifest>> {
        self.clock.advance(Duration::from_secs(3600));
        self.random += 1;
        let product_id = product(product_id);
        let structure = product_id.as_str().starts_with("structure");
        let edition_id = EditionId::at(self.clock.now(), [self.random; 10]);
        let mut files: Vec<FileEntry> = previous
            .iter()
            .flat_map(|manifest| {
                manifest
                    .files
                    .iter()
                    .filter(|file| file.root == FileRoot::Data)
                    .cloned()
            })
            .map(|file| FileEntry {
                carried_from: previous.map(|manifest| manifest.edition_id),
                ..file
            })
            .collect();
        if !structure {
            let name = format!("part-{:04}.parquet", self.random);
            let bytes = format!("rows of {edition_id}").into_bytes();
            self.put(&format!("{}/{name}", layout::data(&product_id)), &bytes).await;
            files.push(file(&name, FileRoot::Data, &bytes));
        }
        let bytes = format!("structures of {edition_id}").into_bytes();
        let folder = layout::edition(&product_id, &edition_id);
        self.put(&format!("{folder}/structures.json"), &bytes).await;
        files.push(file("structures.json", FileRoot::Edition, &bytes));
        let mut artefacts: Vec<ArtefactRecord> = artefacts
            .iter()
            .map(|(id, seed, partial_of)| ArtefactRecord {
                urn: codelist(id),
                fingerprint: Sha256::of(format!("{seed} {}", partial_of.is_some()).as_bytes()),
                partial_of: partial_of.map(|seed| Sha256::of(format!("{seed} false").as_bytes())),
            })
            .collect();
        artefacts.sort_by(|a, b| a.urn.cmp(&b.urn));
        let binding = || Binding {
            dataflow: format!("urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow=TEST:{product_id}(1.0)")
                .parse()
                .expect("a URN"),
            observations: u64::from(self.random),
            structural_version: "urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure=TEST:DSD(1.0)"
                .parse()
                .expect("a URN"),
            fingerprint: TableFingerprint { sum: 5, rows: 1 },
            structure_fingerprint: Sha256::of(b"structure"),
        };
        let manifest = Manifest {
            format_version: FormatVersion::MANIFEST,
            edition_id,
            previous: previous.map(|manifest| manifest.edition_id),
            created_at: self.clock.now(),
            producer: producer(),
            schema_version: "2.52".parse().expect("clean text"),
            engine: EngineVersions::default(),
            files,
            bindings: if structure { Vec::new() } else { vec![binding()] },
            artefacts,
            canonical_form: "1".parse().expect("clean text"),
            content_fingerprint: Some(Sha256::of(&[self.random])),
            producer_fields: JsonObject::new(),
            extensions: JsonObject::new(),
            extra: JsonObject::new(),
            product_id,
        };
        let manifest = Stored::encode(manifest).expect("a manifest");
        self.put(&format!("{folder}/manifest.json"), manifest.bytes()).await;
        let manifest = Arc::new(manifest);
        self.manifests.insert(Arc::clone(&manifest));
        manifest
    }

    /// Seals an edition and releases it in the same version.
    pub(crate) async fn released(
        &mut self,
        product_id: &str,
        previous: Option<&Stored<Manifest>>,
        artefacts: &[Artefact<'_>],
    ) -> Arc<Stored<Manifest>> {
        let manifest = self.sealed(product_id, previous, artefacts).await;
        let sealed = Self::edition(&manifest);
        self.commit(&[Operation::Seal(sealed)]).await.expect("sealed");
        manifest
    }

    pub(crate) fn edition(manifest: &Arc<Stored<Manifest>>) -> SealedEdition {
        let kind = match manifest.is_structure() {
            true => ProductKind::Structure,
            false => ProductKind::Data,
        };
        SealedEdition {
            manifest: Arc::clone(manifest),
            profile: ProductProfile {
                kind,
                lifecycle: Lifecycle::Revisable,
            },
            structure_source: None,
        }
    }

    pub(crate) fn verified(manifest: &Arc<Stored<Manifest>>) -> VerifiedEdition {
        let measured: BTreeMap<_, _> = manifest
            .files
            .iter()
            .map(|file| {
                let measured = MeasuredFile {
                    size: file.size,
                    sha256: file.digests.sha256(),
                };
                ((file.root, file.path.clone()), measured)
            })
            .collect();
        VerifiedEdition::compare(Self::edition(manifest), &measured).expect("as measured")
    }

    /// Writes one version.
    pub(crate) async fn commit(&self, operations: &[Operation]) -> Result<Committed, Refusal> {
        self.clock.advance(Duration::from_secs(60));
        let context = Context {
            clock: ReleaseClock::alone(self.clock.now()),
            manifests: &self.manifests,
            canonical_forms: &self.forms,
            retention: &self.retention,
        };
        let decide = |base: crate::writer::Base<'_>| {
            let transition = apply(base.version, operations, &context)?;
            Ok(Some(Planned::new(transition.next, transition.kind, "a test")))
        };
        match self.writer.commit(decide).await {
            Ok(outcome) => Ok(outcome.committed().expect("a version")),
            Err(crate::writer::CommitError::Refused(refusal)) => Err(refusal),
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn put(&self, name: &str, bytes: &[u8]) {
        let created = self
            .store
            .create(&path(name), bytes.to_vec().into())
            .await
            .expect("stored");
        assert_eq!(created, Creation::Created, "{name}");
    }

    /// Puts other bytes where there are some.
    pub(crate) async fn overwrite(&self, name: &str, bytes: &[u8]) {
        self.store.delete(&path(name)).await.expect("deleted");
        self.put(name, bytes).await;
    }

    pub(crate) async fn get(&self, name: &str) -> Vec<u8> {
        self.store
            .get(&path(name))
            .await
            .expect("read")
            .unwrap_or_else(|| panic!("{name}"))
            .bytes
            .to_vec()
    }

    pub(crate) async fn verify(&self) -> Report {
        verify_store(&*self.store).await
    }

    /// Thirty-one editions of one product: the tenth rolled back, the twenty-fifth withdrawn, retired and reinstated.
    pub(crate) async fn population(&mut self) -> Vec<Arc<Stored<Manifest>>> {
        let mut editions: Vec<Arc<Stored<Manifest>>> = Vec::new();
        let mut live: Option<Arc<Stored<Manifest>>> = None;
        for number in 1..=31 {
            let manifest = self
                .released("population", live.as_deref(), &[("CL_AGE", "age", None)])
                .await;
            match number {
                10 => {
                    let rollback = crate::transition::Rollback {
                        product_id: product("population"),
                        if_live: manifest.edition_id,
                        to: editions[8].edition_id,
                    };
                    self.commit(&[Operation::Rollback(rollback)])
                        .await
                        .expect("rolled back");
                    live = Some(Arc::clone(&editions[8]));
                }
                25 => {
                    self.commit(&[Operation::Withdraw { live: key(&manifest) }])
                        .await
                        .expect("withdrawn");
                    live = None;
                }
                _ => live = Some(Arc::clone(&manifest)),
            }
            editions.push(manifest);
        }
        self.clock.advance(100 * DAY);
        let withdrawn = &editions[24];
        self.commit(&[Operation::Retire {
            edition: key(withdrawn),
        }])
        .await
        .expect("retired");
        self.clock.advance(DAY);
        self.commit(&[Operation::Reinstate(Self::verified(withdrawn))])
            .await
            .expect("reinstated");
        editions
    }
}

pub(crate) async fn verify_store(store: &dyn InventoryStore) -> Report {
    let forms = BTreeSet::from(["1".parse().expect("clean text")]);
    let options = Options {
        files: Some(&StoreFiles::new(store)),
        references: None,
        canonical_forms: &forms,
        findings_kept: 1000,
    };
    verify(store, &options).await
}

pub(crate) fn key(manifest: &Manifest) -> EditionKey {
    EditionKey::new(manifest.product_id.clone(), manifest.edition_id)
}

pub(crate) fn file(name: &str, root: FileRoot, bytes: &[u8]) -> FileEntry {
    let measured = Measured::of(bytes);
    let mut digests = Digests::new(Sha256::of(bytes));
    for algorithm in ["md5", "crc32c", "blake3"] {
        let digest = hex::decode(&measured.digests[algorithm]).expect("hex");
        digests = digests.with(algorithm, &digest).expect("a digest");
    }
    FileEntry {
        path: name.parse::<FilePath>().expect("a path"),
        size: bytes.len() as u64,
        root,
        tier: Tier::Required,
        digests,
        carried_from: None,
        extra: JsonObject::new(),
    }
}

/// Decodes, changes and encodes a document.
pub(crate) fn edited<T: crate::doc::Document>(bytes: &[u8], edit: impl FnOnce(&mut T)) -> Vec<u8> {
    let mut document = T::decode(bytes).expect("a document");
    edit(&mut document);
    document.encode().expect("encoded")
}

impl Fixture {
    /// The newest version's root.
    pub(crate) async fn head(&self) -> crate::doc::RootRef {
        let current: crate::doc::Current =
            crate::doc::Document::decode(&self.get(layout::CURRENT).await).expect("CURRENT");
        current.root
    }

    /// Changes the newest root and lets `CURRENT` name it as it is then: a writer that lies.
    pub(crate) async fn edit_head(&self, edit: impl FnOnce(&mut crate::doc::Root)) {
        let head = self.head().await;
        let name = layout::root(head.seq);
        let bytes = edited::<crate::doc::Root>(&self.get(&name).await, edit);
        self.put_head(&bytes).await;
    }

    pub(crate) async fn put_head(&self, bytes: &[u8]) {
        let mut head = self.head().await;
        self.overwrite(&layout::root(head.seq), bytes).await;
        head.root_sha256 = Sha256::of(bytes);
        let current = crate::doc::Current { root: head }.encode().expect("encoded");
        self.overwrite(layout::CURRENT, &current).await;
    }

    /// Gives a product another leaf in the newest root, with a change list that says so.
    pub(crate) async fn edit_leaf(&self, product_id: &str, edit: impl FnOnce(&mut crate::doc::Leaf)) {
        let product_id = product(product_id);
        let root: crate::doc::Root =
            crate::doc::Document::decode(&self.get(&layout::root(self.head().await.seq)).await).expect("a root");
        let leaf = self.get(&root.products[&product_id].path()).await;
        let bytes = edited(&leaf, edit);
        let leaf_sha256 = Sha256::of(&bytes);
        self.put(&layout::leaf(&leaf_sha256), &bytes).await;
        let leaf: crate::doc::Leaf = crate::doc::Document::decode(&bytes).expect("a leaf");
        self.edit_head(|root| {
            let old = root
                .products
                .insert(product_id.clone(), crate::doc::LeafRef { leaf_sha256 });
            let history = root.history.as_mut().expect("history fields");
            for item in history.changes.iter_mut().filter(|item| item.product_id == product_id) {
                item.leaf_sha256.to = Some(leaf_sha256);
                for change in &mut item.entries {
                    let entry = leaf.entry(&change.edition_id);
                    change.to = entry.map(|entry| crate::doc::EntryStatus::State(entry.state));
                    change.entry = entry.map(Into::into);
                }
            }
            assert_ne!(old, None);
        })
        .await;
    }
}

/// A catalogue of four versions that opted in to expiry.
pub(crate) async fn opted_in() -> Fixture {
    let mut fixture = Fixture::new(Arc::new(crate::store::MemoryStore::new())).await;
    let mut previous = None;
    for _ in 0..3 {
        previous = Some(fixture.released("population", previous.as_deref(), &[]).await);
    }
    fixture.writer.opt_in().await.expect("opted in");
    fixture
}

/// Expires version 2: its line into a segment, `HISTORY` after it, and the root last.
pub(crate) async fn expire_second(store: &dyn InventoryStore) -> SegmentPath {
    let get = async |name: &str| store.get(&path(name)).await.expect("read").expect("there").bytes;
    let catalog = Catalog::decode(&get(layout::CATALOG).await).expect("a catalogue");
    let two = Seq::new(2).expect("a number");
    let root = Stored::<Root, Unverified>::decode(get(&layout::root(two)).await).expect("a root");
    let expired_at: Instant = "2026-02-01T00:00:00Z".parse().expect("an instant");
    let name = SegmentPath::at(Epoch::FIRST, two, two, expired_at, [1; 10]);
    let segment = Segment {
        header: SegmentHeader {
            format_version: "1.0".parse().expect("a version"),
            catalog_id: catalog.catalog_id,
            kind: SegmentKind::Expiry,
            restore_epoch: Epoch::FIRST,
            previous_segment: None,
            expired_at,
            actor: "tester".parse().expect("clean text"),
            roots: vec![two],
            leaves: Vec::new(),
            unread: Vec::new(),
            extra: JsonObject::new(),
        },
        lines: vec![SegmentLine::of(&root).expect("a line")],
    };
    let bytes = segment.encode().expect("encoded");
    let history = History {
        expired_through: Some(two),
        newest_segment: Some((name.clone(), Sha256::of(&bytes))),
        ..History::at_opt_in(catalog.catalog_id, Epoch::FIRST)
    };
    let history = history.encode().expect("encoded");
    let put = async |name: &str, bytes: Vec<u8>| {
        let created = store.create(&path(name), bytes.into()).await.expect("stored");
        assert_eq!(created, Creation::Created, "{name}");
    };
    put(&name.to_string(), bytes).await;
    store.delete(&path(layout::HISTORY)).await.expect("deleted");
    put(layout::HISTORY, history).await;
    store.delete(&path(&layout::root(two))).await.expect("deleted");
    name
}
