//! What the tests of the writer and the reader build on: a catalogue, a clock that stands still, editions, and stores that
//! let something happen at a chosen moment.

use std::{
    collections::BTreeSet,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::TimeDelta;
use object_store::memory::InMemory;

use super::{Base, Clock, CommitError, Committed, Identity, NewCatalog, Outcome, Planned, Writer};
use crate::{
    doc::{
        ArtefactRecord, CatalogId, Document, EditionId, FormatVersion, Instant, JsonObject, Lifecycle, Manifest,
        Producer, ProductId, ProductKind, Root, RootRef, Seq, Stored, layout,
    },
    reader::{FullInventory, find_head},
    store::{
        BucketStore, Creation, InventoryStore, LocalStore, MemoryStore, Replacement, Revision, StoreError, StoreLock,
        StorePath,
    },
    transition::{
        Context, Manifests, Operation, ProductProfile, Refusal, ReleaseClock, Retention, RetentionSettings,
        SealedEdition, apply,
    },
};

pub(crate) fn at(text: &str) -> Instant {
    text.parse().expect("the test's instant is well formed")
}

pub(crate) fn path(text: &str) -> StorePath {
    StorePath::parse(text).expect("a path")
}

pub(crate) fn product(name: &str) -> ProductId {
    name.parse().expect("a product id")
}

pub(crate) fn seq(number: u64) -> Seq {
    Seq::new(number).expect("a sequence number")
}

/// A clock that stands still until it is set.
#[derive(Debug)]
pub(crate) struct ManualClock(Mutex<Instant>);

impl ManualClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(at("2026-03-01T08:30:00Z"))))
    }

    pub(crate) fn set(&self, text: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at(text);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn identity() -> Identity {
    Identity {
        actor: "release-job@test".parse().expect("a name"),
        producer: Producer {
            name: "sovm-inventory".parse().expect("a name"),
            version: "0.1.0".parse().expect("a version"),
        },
    }
}

pub(crate) fn new_catalog(embargo: bool) -> NewCatalog {
    NewCatalog {
        catalog_id: "01a18e63-e292-7250-a332-b79d9b7a7efd"
            .parse::<CatalogId>()
            .expect("an id"),
        embargo,
        extensions: JsonObject::new(),
        reason: "founded".to_owned(),
    }
}

/// Editions and what judges them.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) manifests: Manifests,
    forms: BTreeSet<crate::doc::CleanText>,
    retention: Retention,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            manifests: Manifests::default(),
            forms: BTreeSet::from(["1".parse().expect("a form")]),
            retention: Retention::new(RetentionSettings::default()).expect("the defaults fit"),
        }
    }

    /// A sealed edition without files: the protocol looks at names and hashes only.
    pub(crate) fn edition(&mut self, name: &str, number: u8, previous: Option<EditionId>) -> SealedEdition {
        self.edition_with(name, number, previous, Vec::new())
    }

    /// The same with artefacts.
    pub(crate) fn edition_with(
        &mut self,
        name: &str,
        number: u8,
        previous: Option<EditionId>,
        artefacts: Vec<ArtefactRecord>,
    ) -> SealedEdition {
        let created_at = at("2026-03-01T08:00:00Z");
        let mut random = [number; 10];
        random[..name.len().min(9)].copy_from_slice(&name.as_bytes()[..name.len().min(9)]);
        let manifest = Manifest {
            format_version: FormatVersion::MANIFEST,
            product_id: product(name),
            edition_id: EditionId::at(created_at.plus(TimeDelta::seconds(i64::from(number))), random),
            previous,
            created_at,
            producer: identity().producer,
            schema_version: "2.52".parse().expect("a version"),
            engine: crate::doc::EngineVersions::default(),
            files: Vec::new(),
            bindings: Vec::new(),
            artefacts,
            canonical_form: "1".parse().expect("a form"),
            content_fingerprint: None,
            producer_fields: JsonObject::new(),
            extensions: JsonObject::new(),
            extra: JsonObject::new(),
        };
        let manifest = Arc::new(Stored::encode(manifest).expect("a manifest"));
        self.manifests.insert(Arc::clone(&manifest));
        let profile = ProductProfile {
            kind: ProductKind::Data,
            lifecycle: Lifecycle::Revisable,
        };
        SealedEdition {
            manifest,
            profile,
            structure_source: None,
        }
    }

    /// A chain of editions of one product.
    pub(crate) fn chain(&mut self, name: &str, length: u8) -> Vec<SealedEdition> {
        let mut chain: Vec<SealedEdition> = Vec::new();
        for number in 1..=length {
            let previous = chain.last().map(|sealed| sealed.manifest.edition_id);
            chain.push(self.edition(name, number, previous));
        }
        chain
    }

    pub(crate) fn decide(&self, base: Base<'_>, operations: &[Operation]) -> Result<Option<Planned>, Refusal> {
        let context = Context {
            clock: ReleaseClock::alone(base.now),
            manifests: &self.manifests,
            canonical_forms: &self.forms,
            retention: &self.retention,
        };
        apply(base.version, operations, &context).map(|transition| Some(Planned::of(transition, "a test")))
    }

    pub(crate) async fn run(
        &self,
        writer: &Writer,
        operations: &[Operation],
    ) -> Result<Committed, CommitError<Refusal>> {
        match writer.commit(|base| self.decide(base, operations)).await? {
            Outcome::Committed(committed) => Ok(committed),
            Outcome::Unchanged(_) => panic!("a transition answers with a version or a refusal"),
        }
    }

    pub(crate) async fn seal(&self, writer: &Writer, sealed: &SealedEdition) -> Committed {
        self.run(writer, &[Operation::Seal(sealed.clone())])
            .await
            .expect("sealed")
    }
}

/// A new catalogue in a store.
pub(crate) async fn catalogue(store: &Arc<dyn InventoryStore>, embargo: bool) -> (Writer, Arc<ManualClock>) {
    let clock = ManualClock::new();
    let (writer, _) = Writer::create(Arc::clone(store), identity(), clock.clone(), new_catalog(embargo))
        .await
        .expect("created");
    (writer, clock)
}

/// The same catalogue through another store.
pub(crate) fn writer_over(store: Arc<dyn InventoryStore>, clock: &Arc<ManualClock>) -> Writer {
    Writer::new(store, identity(), clock.clone())
}

pub(crate) async fn newest(store: &Arc<dyn InventoryStore>) -> FullInventory {
    let found = find_head(&**store, None).await.expect("a head");
    FullInventory::load(&**store, found.head, None)
        .await
        .expect("its leaves")
}

pub(crate) async fn bytes_at(store: &Arc<dyn InventoryStore>, name: &str) -> Option<Bytes> {
    store.get(&path(name)).await.expect("read").map(|found| found.bytes)
}

/// Puts bytes under a name, whatever is there: what no writer does, and what a broken disk or a stranger may.
pub(crate) async fn overwrite(store: &Arc<dyn InventoryStore>, name: &str, bytes: impl Into<Bytes>) {
    store.delete(&path(name)).await.expect("deleted");
    assert_eq!(
        store.create(&path(name), bytes.into()).await.expect("created"),
        Creation::Created
    );
}

pub(crate) async fn overwrite_doc<T: Document>(store: &Arc<dyn InventoryStore>, name: &str, document: &T) {
    overwrite(store, name, document.encode().expect("encodes")).await;
}

pub(crate) async fn root_at(store: &Arc<dyn InventoryStore>, number: u64) -> Stored<Root> {
    let bytes = bytes_at(store, &layout::root(seq(number))).await.expect("a root");
    Stored::<Root, crate::doc::Unverified>::decode(bytes)
        .expect("decodes")
        .trusted()
}

pub(crate) fn reference(root: &Stored<Root>) -> RootRef {
    RootRef {
        restore_epoch: root.restore_epoch,
        seq: root.seq,
        root_sha256: root.sha256(),
    }
}

/// A kind of store the protocol's tests run on, and what keeps it alive.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    Memory,
    Directory,
    /// A bucket: several writers share no lock, so the exclusive creation alone decides.
    Bucket,
}

#[derive(Debug)]
pub(crate) struct Opened {
    folder: Option<tempfile::TempDir>,
    bucket: Arc<InMemory>,
    memory: MemoryStore,
    place: Place,
}

impl Place {
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Directory, Self::Bucket];

    pub(crate) fn open(self) -> Opened {
        Opened {
            folder: matches!(self, Self::Directory).then(|| tempfile::tempdir().expect("a folder")),
            bucket: Arc::new(InMemory::new()),
            memory: MemoryStore::new(),
            place: self,
        }
    }
}

impl Opened {
    /// A store as another process would open it.
    pub(crate) fn store(&self) -> Arc<dyn InventoryStore> {
        match (&self.place, &self.folder) {
            (Place::Directory, Some(folder)) => Arc::new(LocalStore::open(folder.path()).expect("a folder")),
            (Place::Bucket, _) => Arc::new(BucketStore::new(self.bucket.clone(), None)),
            _ => Arc::new(self.memory.clone()),
        }
    }
}

type Happening = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A store that lets something happen just before a document is created for the first time.
pub(crate) struct Interposed {
    inner: Arc<dyn InventoryStore>,
    before: StorePath,
    happening: Mutex<Option<Happening>>,
}

impl Interposed {
    pub(crate) fn new(
        inner: Arc<dyn InventoryStore>,
        before: &str,
        happening: impl Future<Output = ()> + Send + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            inner,
            before: path(before),
            happening: Mutex::new(Some(Box::pin(happening))),
        })
    }
}

impl std::fmt::Debug for Interposed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Interposed")
    }
}

impl Interposed {
    async fn interpose(&self, path: &StorePath) {
        let happening = if *path == self.before {
            self.happening.lock().unwrap_or_else(PoisonError::into_inner).take()
        } else {
            None
        };
        if let Some(happening) = happening {
            happening.await;
        }
    }
}

#[async_trait]
impl crate::store::Layer for Interposed {
    fn under(&self) -> &dyn InventoryStore {
        &*self.inner
    }

    async fn create(&self, path: &StorePath, bytes: Bytes) -> Result<Creation, StoreError> {
        self.interpose(path).await;
        self.inner.create(path, bytes).await
    }

    async fn replace(&self, path: &StorePath, expected: &Revision, bytes: Bytes) -> Result<Replacement, StoreError> {
        self.interpose(path).await;
        self.inner.replace(path, expected, bytes).await
    }

    /// None: the interposed writer would wait for this one for ever.
    async fn lock(&self) -> Result<StoreLock, StoreError> {
        Ok(StoreLock::new(()))
    }
}
