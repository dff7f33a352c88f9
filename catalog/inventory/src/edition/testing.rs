//! What the tests of this module share: a product, Parquet files, a catalogue.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema},
};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;

use super::{
    Begin, DataFiles, DirectoryData, EditionBuilder, EditionError, LazyFiles, MessageFormat, ProductEditions,
    Publisher, PublisherSettings, Recorded, StoreData, check::CheckOptions, seal::SealRequest,
};
use crate::{
    doc::{
        CatalogId, EditionId, EntryStatus, FilePath, Instant, JsonObject, Lifecycle, Manifest, Producer, ProductId,
        ProductKind, Stored, Tier, Urn,
    },
    reader::{FullInventory, find_head},
    store::{Creation, InventoryStore, LocalStore, MemoryStore, StorePath},
    transition::{EditionKey, ProductProfile, Retention, RetentionSettings},
    writer::{Clock, Identity, NewCatalog, Writer},
};

pub(crate) fn product() -> ProductId {
    "population".parse().unwrap()
}

/// The instant the tests' clock stands at, plus some seconds.
pub(crate) fn at(seconds: i64) -> Instant {
    Instant::from_unix_millis(1_790_000_000_000 + seconds * 1000)
}

pub(crate) fn edition_id(number: u8) -> EditionId {
    EditionId::at(at(i64::from(number)), [number; 10])
}

/// A Parquet file with one row for each number.
pub(crate) fn numbers(range: std::ops::Range<i64>) -> Bytes {
    table(
        &range
            .map(|number| (format!("D1_{:02}", number % 5), number))
            .collect::<Vec<_>>(),
    )
}

pub(crate) fn table(rows: &[(String, i64)]) -> Bytes {
    let schema = Arc::new(Schema::new(vec![
        Field::new("area", DataType::Utf8, false),
        Field::new("value", DataType::Int64, false),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            rows.iter()
                .map(|(area, _)| Some(area.as_str()))
                .collect::<StringArray>(),
        ),
        Arc::new(rows.iter().map(|(_, value)| *value).collect::<Int64Array>()),
    ];
    let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema, None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes.into()
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub(crate) struct StillClock(AtomicI64);

impl StillClock {
    pub(crate) fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for StillClock {
    fn now(&self) -> Instant {
        at(self.0.load(Ordering::SeqCst))
    }
}

pub(crate) const FLOW: &str = "urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow=SYNTHETIC:DF_SYNTHETIC(1.0)";

pub(crate) fn flow() -> Urn {
    FLOW.parse().unwrap()
}

/// The structures of one small flow, as a message.
pub(crate) fn message() -> Bytes {
    Bytes::from_static(include_bytes!("../../tests/sdmx/structure_2.0.json"))
}

pub(crate) const SECOND: &str = "urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow=SYNTHETIC:DF_SECOND(1.0)";

/// The structures of two flows that share a data structure and everything behind it.
pub(crate) fn message_of_two() -> Bytes {
    let mut message: serde_json::Value = serde_json::from_slice(&message()).unwrap();
    let flows = message["data"]["dataflows"].as_array_mut().unwrap();
    let mut second = flows[0].clone();
    second["id"] = "DF_SECOND".into();
    second.as_object_mut().unwrap().remove("links");
    flows.push(second);
    serde_json::to_vec(&message).unwrap().into()
}

/// A catalogue with one product, in memory or in a directory.
pub(crate) struct World {
    pub(crate) store: Arc<dyn InventoryStore>,
    pub(crate) data: Arc<dyn DataFiles>,
    pub(crate) clock: Arc<StillClock>,
    pub(crate) root: tempfile::TempDir,
    pub(crate) lifecycle: Lifecycle,
    in_memory: bool,
}

impl World {
    pub(crate) async fn in_memory(embargo: bool) -> Self {
        let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
        let data = Arc::new(StoreData::new(store.clone(), &product()));
        let world = Self::create(store, data, tempfile::tempdir().unwrap(), embargo).await;
        Self {
            in_memory: true,
            ..world
        }
    }

    pub(crate) async fn in_directory() -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = Arc::new(LocalStore::open(root.path()).unwrap());
        let data = Arc::new(DirectoryData::new(root.path(), &product()));
        Self::create(store, data, root, false).await
    }

    async fn create(
        store: Arc<dyn InventoryStore>,
        data: Arc<dyn DataFiles>,
        root: tempfile::TempDir,
        embargo: bool,
    ) -> Self {
        let clock = Arc::new(StillClock::default());
        let new = NewCatalog {
            catalog_id: CatalogId::at(at(0), [0; 10]),
            embargo,
            extensions: JsonObject::new(),
            reason: "a catalogue for tests".to_owned(),
        };
        Writer::create(store.clone(), identity(), clock.clone(), new)
            .await
            .unwrap();
        Self {
            store,
            data,
            clock,
            root,
            lifecycle: Lifecycle::Revisable,
            in_memory: false,
        }
    }

    pub(crate) fn place(&self) -> ProductEditions {
        self.place_over(self.store.clone())
    }

    fn place_over(&self, store: Arc<dyn InventoryStore>) -> ProductEditions {
        // In memory the data files are the store's too, so that they fail with it.
        let data: Arc<dyn DataFiles> = if self.in_memory {
            Arc::new(StoreData::new(store.clone(), &product()))
        } else {
            self.data.clone()
        };
        ProductEditions::unchecked(store, data, product())
    }

    pub(crate) fn publisher(&self) -> Publisher {
        self.publisher_over(self.store.clone())
    }

    /// A publisher whose operations go through `store`.
    pub(crate) fn publisher_over(&self, store: Arc<dyn InventoryStore>) -> Publisher {
        self.clock.advance(1);
        let writer = Writer::new(store.clone(), identity(), self.clock.clone());
        let settings = PublisherSettings {
            profile: ProductProfile {
                kind: ProductKind::Data,
                lifecycle: self.lifecycle,
            },
            canonical_forms: ["1", "sovm-1"].iter().map(|form| form.parse().unwrap()).collect(),
            retention: Retention::new(RetentionSettings::default()).unwrap(),
            producer: identity().producer,
            clock: self.clock.clone(),
        };
        Publisher::new(self.place_over(store), writer, settings)
    }

    pub(crate) async fn begin(&self, number: u8) -> EditionBuilder {
        self.try_begin(number).await.unwrap()
    }

    pub(crate) async fn try_begin(&self, number: u8) -> Result<EditionBuilder, EditionError> {
        let begin = Begin {
            edition_id: Some(edition_id(number)),
            lazy: LazyFiles::All,
        };
        self.publisher().begin(begin).await
    }

    /// Begins the first edition and gives it a table of 20 rows and the structures.
    pub(crate) async fn first(&self) -> EditionBuilder {
        let mut builder = self.begin(1).await;
        builder
            .add_structures(message(), MessageFormat::Json, &[])
            .await
            .unwrap();
        let path = builder
            .write_data(&flow(), Box::new(std::io::Cursor::new(numbers(0..20))))
            .await
            .unwrap();
        builder.append(&flow(), &[path], Tier::Remote).await.unwrap();
        builder
    }

    /// Writes rows and adds them to a table.
    pub(crate) async fn add(&self, builder: &mut EditionBuilder, dataflow: &Urn, rows: Bytes) -> FilePath {
        let path = builder
            .write_data(dataflow, Box::new(std::io::Cursor::new(rows)))
            .await
            .unwrap();
        let added = std::slice::from_ref(&path);
        builder.append(dataflow, added, Tier::Remote).await.unwrap();
        path
    }

    /// Every file of the store with its bytes.
    pub(crate) async fn contents(&self) -> std::collections::BTreeMap<String, Bytes> {
        let mut contents = std::collections::BTreeMap::new();
        for path in self.store.list(None).await.unwrap() {
            let bytes = self.store.get(&path).await.unwrap().unwrap().bytes;
            contents.insert(path.to_string(), bytes);
        }
        contents
    }

    /// Seals, checks and records.
    pub(crate) async fn publish(&self, builder: EditionBuilder) -> Arc<Stored<Manifest>> {
        let sealed = builder.seal(SealRequest::default()).await.unwrap();
        self.record(&sealed.manifest.edition_id).await;
        sealed.manifest
    }

    pub(crate) async fn record(&self, edition: &EditionId) {
        let publisher = self.publisher();
        let report = publisher.check(edition, &CheckOptions::default()).await.unwrap();
        let publishable = report.into_publishable().unwrap();
        let recorded = publisher.record(&publishable, "a release of the tests").await.unwrap();
        assert!(matches!(recorded, Recorded::Committed(_)), "{recorded:?}");
    }

    pub(crate) async fn status(&self, edition: &EditionId) -> Option<EntryStatus> {
        let refresh = find_head(&*self.store, None).await.unwrap();
        let version = FullInventory::load(&*self.store, refresh.head, None)
            .await
            .unwrap()
            .to_version()
            .unwrap();
        version.status(&EditionKey::new(product(), *edition))
    }

    pub(crate) async fn names(&self) -> Vec<String> {
        self.store
            .list(None)
            .await
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// Puts a file into an edition's directory behind everybody's back.
    pub(crate) async fn plant(&self, edition: &EditionId, name: &str, bytes: &'static [u8]) {
        let path = self.place().file(edition, &name).unwrap();
        self.store.delete(&path).await.unwrap();
        let created = self.store.create(&path, Bytes::from_static(bytes)).await.unwrap();
        assert_eq!(created, Creation::Created);
    }

    /// Puts bytes in place of a data file.
    pub(crate) async fn plant_data(&self, path: &FilePath, bytes: Bytes) {
        let name = StorePath::parse(&format!("{}/{path}", crate::doc::layout::data(&product()))).unwrap();
        self.store.delete(&name).await.unwrap();
        let created = self.store.create(&name, bytes).await.unwrap();
        assert_eq!(created, Creation::Created);
    }
}

fn identity() -> Identity {
    Identity {
        actor: "tester".parse().unwrap(),
        producer: Producer {
            name: "sovm-tests".parse().unwrap(),
            version: "1".parse().unwrap(),
        },
    }
}
