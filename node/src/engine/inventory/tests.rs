//! A node that is the authority of a catalogue: what its domains are told, and what they can open.

use std::{collections::BTreeSet, io::Cursor, sync::Arc};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use sovm_catalog::{DocumentStore, Read as _};
use sovm_inventory::{
    doc::{
        CatalogId, EditionId, EditionState, FileRoot, Lifecycle, Manifest, ProductId, ProductKind, Seq, Stored, Tier,
        Urn,
    },
    edition::DataFile as _,
    edition::{
        Begin, MessageFormat, PlainParquet, ProductEditions, Publisher, PublisherSettings, check::CheckOptions,
        seal::SealRequest,
    },
    fingerprint::CanonicalForm,
    reader::{FullInventory, find_head},
    store::{InventoryStore, StorePath},
    transition::{EditionKey, ProductProfile, Retention, RetentionSettings},
    writer::{SystemClock, Writer},
};
use sovm_object::{
    entry::EntryKind,
    id::{DomainId, StorageId},
    record::{ObjectKind, PrefetchList},
};

use super::super::testing::{World, at};
use super::{
    chains::Chain,
    data::{NodePlace, pointed_at, pointer_path},
};
use crate::{
    api::{Discard, EditionSealReport, Exchange, InventoryChangeReport, Request, Response, Service as _},
    inventory::{Author, DataPlace as _, NewProduct, Wish, identity},
};

const FLOW: &str = "urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow=SYNTHETIC:DF_SYNTHETIC(1.0)";

fn flow() -> Urn {
    FLOW.parse().unwrap()
}

fn product() -> ProductId {
    "population".parse().unwrap()
}

/// A Parquet file with one row for each number.
fn rows(range: std::ops::Range<i64>) -> Bytes {
    let area: ArrayRef = Arc::new(
        range
            .clone()
            .map(|n| Some(format!("D1_{:02}", n % 5)))
            .collect::<StringArray>(),
    );
    let value: ArrayRef = Arc::new(range.collect::<Int64Array>());
    let batch = RecordBatch::try_from_iter([("area", area), ("value", value)]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes.into()
}

fn author() -> Author {
    Author::new(None, Some("a test".to_owned())).unwrap()
}

/// A node with a catalogue under embargo, and a public domain.
struct Office {
    world: World,
    public: DomainId,
    catalog: CatalogId,
}

impl Office {
    async fn new() -> Self {
        let world = World::new().await;
        let request = Request::DomainCreate {
            name: "public".to_owned(),
        };
        let made = world.node.call(request, Exchange::silent()).await.unwrap();
        assert!(matches!(made, Response::DomainCreate(_)), "{made:?}");
        let core = world.core();
        let public = core.domain(Some("public")).unwrap();
        let report = core
            .found_catalogue(author(), true, None, Some("public"))
            .await
            .unwrap();
        let catalog = report.catalog_id.parse().unwrap();
        Self { world, public, catalog }
    }

    async fn chain(&self) -> Chain {
        self.world.core().chosen_chain(Some(&self.catalog)).await.unwrap()
    }

    async fn live_chain(&self) -> Chain {
        let chain = self.chain().await;
        let live = chain.founding.unwrap().public.unwrap().catalog;
        self.world.core().chosen_chain(Some(&live)).await.unwrap()
    }

    async fn publisher(&self) -> Publisher {
        let chain = self.chain().await;
        let store = self.world.core().node_store(chain.documents);
        let place = NodePlace {
            store: store.clone(),
            domain: Some(chain.founding.unwrap().release_domain),
        };
        let data = place.of(&product()).unwrap();
        let store: Arc<dyn InventoryStore> = Arc::new(store);
        let identity = identity(self.world.core().as_author(author()).unwrap()).unwrap();
        let settings = PublisherSettings {
            profile: ProductProfile {
                kind: ProductKind::Data,
                lifecycle: Lifecycle::Revisable,
            },
            canonical_forms: ["1", "sovm-1"].iter().map(|form| form.parse().unwrap()).collect(),
            retention: Retention::new(RetentionSettings::default()).unwrap(),
            producer: identity.producer.clone(),
            clock: Arc::new(SystemClock),
        };
        let editions = ProductEditions::open(store.clone(), data, product()).await.unwrap();
        Publisher::new(editions, Writer::new(store, identity, Arc::new(SystemClock)), settings)
    }

    /// Builds, seals and records an edition of these rows; it is embargoed.
    async fn edition(&self, numbers: std::ops::Range<i64>) -> Arc<Stored<Manifest>> {
        let publisher = self.publisher().await;
        let manifest = Self::sealed(&publisher, numbers).await;
        let report = publisher
            .check(&manifest.edition_id, &CheckOptions::default())
            .await
            .unwrap();
        publisher
            .record(&report.into_publishable().unwrap(), "a test")
            .await
            .unwrap();
        manifest
    }

    /// Builds and seals an edition of these rows.
    async fn sealed(publisher: &Publisher, numbers: std::ops::Range<i64>) -> Arc<Stored<Manifest>> {
        let mut builder = publisher.begin(Begin::default()).await.unwrap();
        if builder.previous().is_none() {
            let message = include_bytes!("../../../../catalog/inventory/tests/sdmx/structure_2.0.json");
            builder
                .add_structures(Bytes::from_static(message), MessageFormat::Json, &[])
                .await
                .unwrap();
        }
        let path = builder
            .write_data(&flow(), Box::new(Cursor::new(rows(numbers))))
            .await
            .unwrap();
        builder.replace_table(&flow(), &[path], Tier::Remote).await.unwrap();
        builder.seal(SealRequest::default()).await.unwrap().manifest
    }

    /// Takes in what was registered, and folds it.
    async fn fold(&self) -> InventoryChangeReport {
        let core = self.world.core();
        let opened = core.open_catalogue(Some(&self.catalog), Arc::new(Discard)).await;
        let (catalogue, chain) = opened.unwrap();
        let intake = core.take_in_registered(&chain).await.unwrap();
        let mut report = catalogue.fold(author()).await.unwrap();
        intake.add_to(&mut report);
        self.spread(&chain).await.unwrap();
        report
    }

    async fn change(&self, wish: Wish) -> Result<u64, crate::error::ApiError> {
        let (catalogue, chain) = self
            .world
            .core()
            .open_catalogue(Some(&self.catalog), Arc::new(Discard))
            .await?;
        let report = catalogue.change(author(), wish).await?;
        self.spread(&chain).await?;
        Ok(report.seq.unwrap_or_default())
    }

    async fn spread(&self, chain: &Chain) -> Result<(), crate::error::ApiError> {
        let core = self.world.core();
        core.spread(chain, identity(core.as_author(author())?)?).await
    }

    async fn release(&self, edition: EditionId) -> Result<u64, crate::error::ApiError> {
        self.change(Wish::Release(vec![EditionKey::new(product(), edition)]))
            .await
    }

    /// Domains in which an object's key is granted.
    fn granted(&self, object: &StorageId) -> BTreeSet<DomainId> {
        let records = self.world.core().read().unwrap().access_records(object).unwrap();
        records.iter().map(|record| record.domain_id).collect()
    }

    /// How many versions of a chain a domain was told of.
    fn told(&self, domain: &DomainId, chain: &Chain) -> u64 {
        let snapshot = self.world.core().read().unwrap();
        let versions = snapshot
            .inventory_versions(domain, chain.catalog.as_bytes(), (0, 0))
            .unwrap();
        assert!(versions.iter().all(|(_, _, state)| state.is_accepted()));
        versions.len() as u64
    }

    async fn states(&self, chain: &Chain) -> Vec<EditionState> {
        let store = self.world.core().node_store(chain.documents);
        let head = find_head(&store, None).await.unwrap().head;
        let full = FullInventory::load(&store, head, None).await.unwrap();
        full.leaves()
            .values()
            .flat_map(|leaf| leaf.editions.iter().map(|entry| entry.state))
            .collect()
    }

    async fn objects(&self, manifest: &Manifest) -> Vec<StorageId> {
        let store = self.world.core().node_store(self.chain().await.documents);
        let mut objects = Vec::new();
        for file in manifest.files.iter().filter(|file| file.root == FileRoot::Data) {
            let path = StorePath::parse(&pointer_path(&product(), &file.path)).unwrap();
            let pointer = store.get(&path).await.unwrap().unwrap();
            let object = pointed_at(&pointer.bytes).unwrap();
            // INV-102: the object's id is the digest that the manifest records.
            assert_eq!(file.digests.blake3(), Some(*object.as_bytes()));
            objects.push(object);
        }
        objects
    }
}

/// INV-102: a data file is an encrypted object whose rows have the fingerprint of the plain file they came from. Its key is granted to
/// the release domain alone until the release, and to the public domain in the step that tells of the version.
#[tokio::test(flavor = "multi_thread")]
async fn an_embargo_is_a_key() {
    let office = Office::new().await;
    let core = office.world.core();
    let release = core.domain(None).unwrap();
    let manifest = office.edition(0..20).await;
    let chain = office.chain().await;
    office.spread(&chain).await.unwrap();

    let objects = office.objects(&manifest).await;
    let [object] = objects.as_slice() else {
        panic!("{objects:?}")
    };
    assert_eq!(office.granted(object), BTreeSet::from([release]));
    let snapshot = core.read().unwrap();
    let view = core.object_view(&snapshot, object).unwrap().unwrap();
    assert_eq!((view.kind, view.row_count), (ObjectKind::EditionFile, 20));
    let plain = PlainParquet::new(rows(0..20))
        .table(CanonicalForm::ONE, std::num::NonZeroUsize::MIN)
        .unwrap();
    assert_eq!(
        manifest.bindings[0].fingerprint.to_string(),
        plain.fingerprint.to_string()
    );

    let live = office.live_chain().await;
    assert_eq!(office.states(&chain).await, [EditionState::Embargoed]);
    assert_eq!(office.states(&live).await, []);
    // What the public was told so far names neither the product nor the edition.
    let store = core.node_store(live.documents);
    for path in store.list(None).await.unwrap() {
        let bytes = store.get(&path).await.unwrap().unwrap().bytes;
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("population"), "{path}: {text}");
    }
    let before = office.told(&office.public, &live);

    office.release(manifest.edition_id).await.unwrap();
    assert_eq!(office.granted(object), BTreeSet::from([release, office.public]));
    assert_eq!(office.states(&office.live_chain().await).await, [EditionState::Live]);
    assert_eq!(office.told(&office.public, &live), before + 1);
    // Nothing is told twice.
    office.spread(&chain).await.unwrap();
    assert_eq!(office.told(&office.public, &live), before + 1);
    let head = find_head(&core.node_store(chain.documents), None).await.unwrap().head;
    assert_eq!(office.told(&release, &chain), head.root().seq.get());
    assert!(head.root().seq > Seq::FIRST);
}

/// A node that stops between its own version and the announcement tells of it when it goes on (DESIGN §10).
#[tokio::test]
async fn an_interrupted_announcement_is_made_up_for() {
    let office = Office::new().await;
    let manifest = office.edition(0..5).await;
    let (chain, live) = (office.chain().await, office.live_chain().await);
    office.spread(&chain).await.unwrap();
    let before = office.told(&office.public, &live);
    // The right to publish goes at the step that would make the release visible, so it fails there.
    let (core, public) = (office.world.core().clone(), office.public);
    let admin = Arc::new(super::super::testing::Admin::of(&core, public));
    let (judged, judge) = (core.clone(), admin.clone());
    at("publish.granted", move || {
        judge.decide(
            &judged,
            public,
            sovm_object::record::OpKind::Role,
            sovm_object::record::Role::Reader,
        );
    });
    office.release(manifest.edition_id).await.unwrap_err();
    let object = office.objects(&manifest).await[0];
    let told = |office: &Office| (office.told(&office.public, &live), office.granted(&object).len());
    admin.decide(
        &core,
        public,
        sovm_object::record::OpKind::Role,
        sovm_object::record::Role::Admin,
    );
    office.spread(&chain).await.unwrap();
    assert_eq!(told(&office), (before + 1, 2));
    assert_eq!(office.states(&office.live_chain().await).await, [EditionState::Live]);
}

/// SQL reads the live edition under the product's name: nothing before the release, the released rows after it, and what a rollback
/// returned to after that.
#[tokio::test(flavor = "multi_thread")]
async fn sql_reads_what_is_live() {
    let office = Office::new().await;
    let core = office.world.core();
    let first = office.edition(0..20).await;
    assert!(core.edition_tables().await.unwrap().is_empty());
    office.release(first.edition_id).await.unwrap();
    let tables = core.edition_tables().await.unwrap();
    assert_eq!(
        tables.keys().cloned().collect::<Vec<_>>(),
        [("population".to_owned(), "DF_SYNTHETIC".to_owned())]
    );
    let second = office.edition(0..7).await;
    office.release(second.edition_id).await.unwrap();
    assert_eq!(office.sum().await, (0..7).sum::<i64>());
    let request = sovm_inventory::transition::RollbackRequest {
        product_id: product(),
        if_live: None,
        to: None,
    };
    office.change(Wish::Rollback(request)).await.unwrap();
    assert_eq!(office.sum().await, (0..20).sum::<i64>());
}

/// A commit that has nothing to do with editions leaves the tables that were found; a release does not.
#[tokio::test(flavor = "multi_thread")]
async fn live_tables_are_looked_for_when_a_version_came() {
    let office = Office::new().await;
    let core = office.world.core();
    let first = office.edition(0..20).await;
    office.release(first.edition_id).await.unwrap();
    let found = core.edition_tables().await.unwrap();
    assert_eq!(found.len(), 1);
    let before = core.read().unwrap().commit_counter().unwrap();
    office.world.ingest(1..4).await.unwrap();
    assert!(core.read().unwrap().commit_counter().unwrap() > before);
    let again = core.edition_tables().await.unwrap();
    assert!(Arc::ptr_eq(&found, &again), "it was looked for anew");

    let second = office.edition(0..7).await;
    office.release(second.edition_id).await.unwrap();
    let newer = core.edition_tables().await.unwrap();
    assert!(!Arc::ptr_eq(&found, &newer));
    assert_eq!(office.sum().await, (0..7).sum::<i64>());
}

impl Office {
    async fn sum(&self) -> i64 {
        self.world
            .number("select sum(value) from population.\"DF_SYNTHETIC\"")
            .await
    }
}

/// At a fixed time the authority lists what is embargoed, once, and nothing of what is live.
#[tokio::test(flavor = "multi_thread")]
async fn embargoed_files_are_listed_on_schedule() {
    let office = Office::new().await;
    let core = office.world.core();
    assert_eq!(core.prefetch_scheduled().await.unwrap(), 0);
    let live = office.edition(0..20).await;
    office.release(live.edition_id).await.unwrap();
    assert_eq!(core.prefetch_scheduled().await.unwrap(), 0);
    let embargoed = office.edition(0..7).await;
    let object = office.objects(&embargoed).await[0];
    assert_eq!(core.prefetch_scheduled().await.unwrap(), 1);
    assert_eq!(core.prefetch_scheduled().await.unwrap(), 0);
    let lists: Vec<PrefetchList> = core
        .read()
        .unwrap()
        .accepted_naming(&object, EntryKind::PrefetchList)
        .unwrap();
    let [list] = lists.as_slice() else { panic!("{lists:?}") };
    assert_eq!(
        (list.domain_id, list.objects.as_slice()),
        (office.public, &[object][..])
    );
}

/// A drill brings the data files of editions back, decodes their rows and compares their bytes with those here.
#[tokio::test(flavor = "multi_thread")]
async fn a_drill_restores_data_files() {
    let office = Office::new().await;
    let core = office.world.core();
    let manifest = office.edition(0..20).await;
    let size = manifest
        .files
        .iter()
        .find(|file| file.root == FileRoot::Data)
        .unwrap()
        .size;
    let release = core.domain(None).unwrap();
    let name = core.domain_info(&core.read().unwrap(), &release).unwrap().name;
    core.make_kit(Some(name.as_str())).await.unwrap();
    let report = core.drill(Some(name.as_str()), true, &Discard).await.unwrap();
    let [domain] = report.domains.as_slice() else {
        panic!("{report:?}")
    };
    assert!(domain.proven && domain.missing.is_empty(), "{domain:?}");
    assert_eq!(domain.edition_files, 1);
    assert!(domain.sampled_bytes >= size, "{domain:?}");
    assert_eq!(domain.objects, domain.files + domain.edition_files);
}

/// INV-403, INV-404: the documents of a registered edition are stored when all of them are what they say, and its edition is recorded as
/// embargoed, once. One whose bytes were changed is refused by name, and nothing of it is stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_registered_edition_is_taken_in_and_folded() {
    let office = Office::new().await;
    let (core, chain) = (office.world.core().clone(), office.chain().await);
    let domain = core.domain(None).unwrap();
    let store = core.node_store(chain.documents);
    let made = Wish::Create(NewProduct {
        product_id: product(),
        profile: ProductProfile {
            kind: ProductKind::Data,
            lifecycle: Lifecycle::Revisable,
        },
        title: None,
    });
    office.change(made).await.unwrap();

    // A publisher has a store of its own. This one's documents are put aside before the authority looks.
    let publisher = office.publisher().await.registering();
    let manifest = Office::sealed(&publisher, 0..9).await;
    let report = publisher.check(&manifest.edition_id, &CheckOptions::default()).await;
    let publishable = report.unwrap().into_publishable().unwrap();
    publisher.register(&publishable, None).await.unwrap();
    let asked = EditionSealReport {
        product_id: product().to_string(),
        edition_id: manifest.edition_id.to_string(),
        manifest_sha256: manifest.sha256().to_string(),
        ..EditionSealReport::default()
    };
    let below = || {
        let mut names = store.below("products/").unwrap();
        names.extend(store.below("pending/").unwrap());
        names
    };
    let travels: Vec<(String, Bytes)> = below()
        .into_iter()
        .filter(|name| !name.contains("/journal/"))
        .map(|name| (name.clone(), store.document(&name).unwrap().unwrap()))
        .collect();
    let put_aside = || store.put_all(&[], &below()).unwrap();

    let list = travels.iter().find(|(path, _)| path.ends_with("/tables.json"));
    let (list, bytes) = list.unwrap();
    let mut changed = bytes.to_vec();
    changed[0] ^= 1;
    store.put_all(&[(list.clone(), changed.into())], &[]).unwrap();
    let options = CheckOptions::default();
    core.register(&chain, domain, &asked).await.unwrap();
    // The journal went in the step that asked.
    assert_eq!(publisher.repair().await.unwrap(), []);
    assert!(publisher.unregistered(&options).await.unwrap().is_none());
    put_aside();
    let shown = core.registrations_of(&chain).await.unwrap();
    assert_eq!((shown.len(), shown[0].state.as_str()), (1, "refused"), "{shown:?}");
    assert!(shown[0].note.as_ref().unwrap().contains(list.as_str()), "{shown:?}");
    let folded = office.fold().await;
    assert_eq!((folded.seq, folded.refused.len()), (None, 1), "{folded:?}");
    assert_eq!(
        (folded.refused[0].rule, &folded.refused[0].edition_id),
        (104, &asked.edition_id)
    );
    assert_eq!(below(), Vec::<String>::new());

    // What was taken in while a registration counted is not folded once it doesn't.
    store.put_all(&travels, &[]).unwrap();
    let folded = office.fold().await;
    assert_eq!((folded.seq, folded.refused.len()), (None, 1), "{folded:?}");
    assert_eq!(store.below("pending/").unwrap(), Vec::<String>::new());
    put_aside();

    // Asked for twice with the right documents, it is one edition.
    store.put_all(&travels, &[]).unwrap();
    core.register(&chain, domain, &asked).await.unwrap();
    core.register(&chain, domain, &asked).await.unwrap();
    put_aside();
    let folded = office.fold().await;
    assert!(folded.seq.is_some(), "{folded:?}");
    assert_eq!(folded.refused.len(), 1, "the changed one, by name: {folded:?}");
    assert_eq!(office.states(&chain).await, [EditionState::Embargoed]);
    assert_eq!(below().len(), travels.len());
    let object = office.objects(&manifest).await[0];
    assert_eq!(office.granted(&object), BTreeSet::from([domain]));
    let again = office.fold().await;
    assert_eq!((again.seq, again.refused.len()), (None, 0), "{again:?}");
    assert_eq!(core.registrations_of(&chain).await.unwrap(), []);

    office.release(manifest.edition_id).await.unwrap();
    assert_eq!(office.granted(&object), BTreeSet::from([domain, office.public]));
    assert_eq!(office.sum().await, (0..9).sum::<i64>());
}

/// A node that is not the authority writes nothing, and a hand-over names the next one in a version that the old one signs.
#[tokio::test]
async fn only_the_authority_writes() {
    let office = Office::new().await;
    let core = office.world.core();
    let chain = office.chain().await;
    core.check_ours(&chain).unwrap();
    let stranger = Chain {
        authority: Some(sovm_inventory::authority::Authority::from_bytes([7; 32])),
        ..chain.clone()
    };
    let error = core.check_ours(&stranger).unwrap_err();
    assert!(error.message.contains(&"07".repeat(32)), "{error}");
    let error = core.check_ours(&office.live_chain().await).unwrap_err();
    assert!(error.message.contains("only reads"), "{error}");
    // Nobody else is in the release domain.
    let other = sovm_object::secret::SiteKey::generate().site_id().to_string();
    let error = core
        .hand_over(Some(&office.catalog), author(), &other)
        .await
        .unwrap_err();
    assert!(error.safe.is_some(), "{error}");
}

/// INV-412, SOP-354, SOP-356: an edition that was public is gone from both chains of the node with its objects, which are not asked
/// for again; the grants of their keys stay, and the report says so. Its readers go on with the next version.
#[tokio::test(flavor = "multi_thread")]
async fn an_expunged_edition_is_gone_from_every_chain() {
    let office = Office::new().await;
    let manifest = office.edition(0..10).await;
    office.release(manifest.edition_id).await.unwrap();
    let key = EditionKey::new(product(), manifest.edition_id);
    let core = office.world.core();
    let open = async || {
        let opened = core.open_catalogue(Some(&office.catalog), Arc::new(Discard)).await;
        opened.unwrap()
    };
    let (catalogue, _) = open().await;
    let refused = catalogue
        .expunge(author(), key.clone(), false, false)
        .await
        .unwrap_err();
    assert!(refused.message.contains("INV-412"), "{}", refused.message);
    office.change(Wish::Withdraw(product(), None)).await.unwrap();

    let (catalogue, chain) = open().await;
    let mut report = catalogue.expunge(author(), key.clone(), false, false).await.unwrap();
    core.say_who_holds(&chain, &mut report).await.unwrap();
    let objects: Vec<StorageId> = report
        .removed
        .iter()
        .filter_map(|file| file.object.as_deref()?.parse().ok())
        .collect();
    assert_eq!(objects.len(), 1, "{report:?}");
    let snapshot = core.read().unwrap();
    let folder = format!(
        "{}/",
        sovm_inventory::doc::layout::edition(&product(), &manifest.edition_id)
    );
    for store in snapshot.document_stores().unwrap() {
        assert_eq!(snapshot.documents(&store, &folder).unwrap(), Vec::<String>::new());
        for file in manifest.files.iter().filter(|file| file.root == FileRoot::Data) {
            let pointer = snapshot
                .document(&store, &pointer_path(&product(), &file.path))
                .unwrap();
            assert_eq!(pointer, None);
        }
    }
    assert!(!core.blobs.has(objects[0]).await.unwrap());
    let wanted = snapshot.pending_bytes().unwrap();
    assert!(wanted.iter().all(|pending| pending.storage_id != objects[0]));
    assert_eq!(snapshot.expunged_bytes().unwrap(), objects);
    assert!(!snapshot.objects_in_use().unwrap().contains(&objects[0]));
    let stages = &report.stages;
    assert_eq!((stages.applied, stages.bytes_left, stages.keys_destroyed), (true, 0, 0));
    assert_eq!(stages.keys_left, 2, "the release domain's grant and the public's");
    assert_eq!(
        (report.holders.len(), stages.acknowledged),
        (0, 0),
        "this node is alone"
    );

    let verified = catalogue.verify().await.unwrap();
    assert_eq!((verified.findings, verified.expunged.len()), (Vec::new(), 1));
    // Bytes that were on their way do not stay.
    core.note_bytes(&objects[0], sovm_catalog::ByteEvent::Arrived, Some(1))
        .unwrap();
    assert_eq!(core.read().unwrap().expunged_bytes().unwrap(), objects);
    office.spread(&chain).await.unwrap();
    let next = office.edition(10..20).await;
    office.release(next.edition_id).await.unwrap();
    assert_eq!(
        office.live_chain().await.catalog,
        chain.founding.unwrap().public.unwrap().catalog
    );
}

/// INV-412: an expunge deletes neither what another document of the catalogue names nor what another catalogue has under the same name.
#[tokio::test(flavor = "multi_thread")]
async fn an_expunge_spares_what_others_name() {
    let office = Office::new().await;
    let manifest = office.edition(0..10).await;
    office.release(manifest.edition_id).await.unwrap();
    office.change(Wish::Withdraw(product(), None)).await.unwrap();
    let core = office.world.core();
    let object = office.objects(&manifest).await[0];
    let own = core.node_store(office.chain().await.documents);
    let file = manifest.files.iter().find(|file| file.root == FileRoot::Data).unwrap();
    let path = pointer_path(&product(), &file.path);
    let pointer = own.document(&path).unwrap().unwrap();
    let foreign = core.node_store(DocumentStore {
        catalog: [9; 16],
        ..office.chain().await.documents
    });
    foreign.put_all(&[(path.clone(), pointer.clone())], &[]).unwrap();
    let shared = "products/other/data/shared.parquet".to_owned();
    own.put_all(&[(shared, pointer.clone())], &[]).unwrap();

    let opened = core.open_catalogue(Some(&office.catalog), Arc::new(Discard)).await;
    let (catalogue, _) = opened.unwrap();
    let key = EditionKey::new(product(), manifest.edition_id);
    catalogue.expunge(author(), key, false, false).await.unwrap();
    assert_eq!(own.document(&path).unwrap(), None);
    assert_eq!(foreign.document(&path).unwrap(), Some(pointer));
    assert!(core.blobs.has(object).await.unwrap());
    assert_eq!(core.read().unwrap().expunged_bytes().unwrap(), []);
}

/// A live edition with a data file that nothing names here fails a query, which would else answer with fewer rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_not_whole_is_not_read() {
    let office = Office::new().await;
    let manifest = office.edition(0..10).await;
    office.release(manifest.edition_id).await.unwrap();
    let core = office.world.core();
    let file = manifest.files.iter().find(|file| file.root == FileRoot::Data).unwrap();
    let path = pointer_path(&product(), &file.path);
    for chain in core.chains().await.unwrap() {
        let store = core.node_store(chain.documents);
        store.put_all(&[], std::slice::from_ref(&path)).unwrap();
    }
    let tables = core.edition_tables().await.unwrap();
    let refused = core.edition_source(tables.values().next().unwrap()).await;
    let refused = refused.err().unwrap();
    assert!(refused.message.contains("is missing"), "{}", refused.message);
}
