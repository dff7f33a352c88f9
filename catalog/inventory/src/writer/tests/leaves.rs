//! How much of a large catalogue a commit reads and writes.

use std::{convert::Infallible, sync::Arc};

use crate::{
    doc::{ArtefactRecord, EditionId, EntryStatus, Sha256, layout},
    store::{InventoryStore, MemoryStore, testing::FaultStore},
    transition::{Operation, Refusal, ReleaseWhen, SealedEdition},
    writer::{
        CommitError, WriteError, Writer,
        testing::{ManualClock, World, catalogue, newest, overwrite, path, product, seq, writer_over},
    },
};

const PRODUCTS: usize = 60;

fn name(number: usize) -> String {
    format!("p{number:04}")
}

/// What a commit asked a store for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Traffic {
    leaves_read: usize,
    leaves_created: usize,
    roots_created: usize,
    operations: usize,
}

impl Traffic {
    fn of(log: &[String]) -> Self {
        let count = |what: String| log.iter().filter(|line| line.starts_with(&what)).count();
        let leaves_created = count(format!("creating {}", layout::LEAVES));
        Self {
            leaves_read: count(format!("reading {}", layout::LEAVES)),
            leaves_created,
            roots_created: count(format!("creating {}", layout::INVENTORY)) - leaves_created,
            operations: log.len(),
        }
    }

    fn leaves_and_roots(&self) -> (usize, usize, usize) {
        (self.leaves_read, self.leaves_created, self.roots_created)
    }
}

/// A catalogue of products with one edition each: live, or waiting for a release while the embargo is on.
struct Catalogue {
    world: World,
    clock: Arc<ManualClock>,
    store: Arc<dyn InventoryStore>,
    editions: Vec<SealedEdition>,
}

impl Catalogue {
    async fn of(products: usize, embargo: bool) -> Self {
        let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
        let (writer, clock) = catalogue(&store, embargo).await;
        let mut world = World::new();
        let editions: Vec<_> = (0..products)
            .map(|number| world.edition(&name(number), 1, None))
            .collect();
        let record = |sealed: SealedEdition| match embargo {
            false => Operation::Seal(sealed),
            true => Operation::Register {
                sealed,
                release_at: None,
            },
        };
        let operations: Vec<_> = editions.iter().cloned().map(record).collect();
        world.run(&writer, &operations).await.expect("recorded");
        Self {
            world,
            clock,
            store,
            editions,
        }
    }

    /// A writer of a process that has read nothing yet.
    fn cold(&self) -> (Arc<FaultStore>, Writer) {
        let counting = Arc::new(FaultStore::counting(Arc::clone(&self.store)));
        let writer = writer_over(counting.clone(), &self.clock);
        (counting, writer)
    }

    fn id(&self, number: usize) -> EditionId {
        self.editions[number].manifest.edition_id
    }

    /// The next edition of a product.
    fn next(&mut self, number: usize, artefacts: Vec<ArtefactRecord>) -> Operation {
        let edition = u8::try_from(self.store_editions(number)).expect("few editions") + 1;
        let sealed = self
            .world
            .edition_with(&name(number), edition, Some(self.id(number)), artefacts);
        self.editions[number] = sealed.clone();
        Operation::Seal(sealed)
    }

    /// How many editions of a product this test made, which each carry their number in the id's last byte.
    fn store_editions(&self, number: usize) -> usize {
        usize::from(self.id(number).as_uuid().as_bytes()[15])
    }
}

/// A codelist held in full.
fn codelist(content: &str) -> Vec<ArtefactRecord> {
    let urn = "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=STC:CL_GEO(1.0)";
    vec![ArtefactRecord {
        urn: urn.parse().expect("a URN"),
        fingerprint: Sha256::of(content.as_bytes()),
        partial_of: None,
    }]
}

/// INV-168, INV-425: a change of one product reads that product's leaf and no other, and writes one leaf and one root, whether
/// there are six products or sixty; the second change by the same writer too.
#[tokio::test]
async fn one_product_costs_one_leaf_however_many_there_are() {
    let mut seen = Vec::new();
    for products in [6, PRODUCTS] {
        let mut catalogue = Catalogue::of(products, false).await;
        let (counting, writer) = catalogue.cold();
        let operation = catalogue.next(3, Vec::new());
        catalogue.world.run(&writer, &[operation]).await.expect("sealed");
        let cold = counting.log();
        let operation = catalogue.next(3, Vec::new());
        catalogue.world.run(&writer, &[operation]).await.expect("sealed");
        let warm = counting.log().split_off(cold.len());
        seen.push([Traffic::of(&cold), Traffic::of(&warm)]);
    }
    for traffic in seen.concat() {
        assert_eq!(traffic.leaves_and_roots(), (1, 1, 1), "{seen:?}");
        // The lock, `catalog.json`, `CURRENT`, the root, the name after it, and the leaf; the new leaf and root; and
        // `CURRENT`, read and replaced.
        assert_eq!(traffic.operations, 10, "{seen:?}");
    }
}

/// INV-168, INV-197: so does the release of an embargoed edition.
#[tokio::test]
async fn a_release_of_one_product_costs_one_leaf() {
    let catalogue = Catalogue::of(PRODUCTS, true).await;
    let (counting, writer) = catalogue.cold();
    let edition = catalogue.editions[7].edition();
    let release = Operation::Release {
        edition: edition.clone(),
        when: ReleaseWhen::Explicit,
    };
    catalogue.world.run(&writer, &[release]).await.expect("released");
    assert_eq!(Traffic::of(&counting.log()).leaves_and_roots(), (1, 1, 1));
    let version = newest(&catalogue.store).await.to_version().expect("whole");
    let live = version.leaves().filter(|leaf| {
        let states = |key| version.status(&key).and_then(EntryStatus::state);
        let key = crate::transition::EditionKey::new(leaf.product_id.clone(), leaf.editions[0].edition_id);
        states(key) == Some(crate::doc::EditionState::Live)
    });
    let live: Vec<_> = live.map(|leaf| leaf.product_id.clone()).collect();
    assert_eq!(live, [edition.product_id]);
}

/// INV-212: several products in one version read and write a leaf each, and one root.
#[tokio::test]
async fn several_products_cost_a_leaf_each() {
    let mut catalogue = Catalogue::of(PRODUCTS, false).await;
    let (counting, writer) = catalogue.cold();
    let operations: Vec<_> = (0..7).map(|number| catalogue.next(number * 5, Vec::new())).collect();
    catalogue.world.run(&writer, &operations).await.expect("sealed");
    assert_eq!(Traffic::of(&counting.log()).leaves_and_roots(), (7, 7, 1));
}

/// INV-218, INV-224, INV-241: an edition that holds an artefact is compared with every other product's, so all leaves are read:
/// once, and by the same writer not again. A writer that knows none of them comes to the same refusal.
#[tokio::test]
async fn a_rule_between_products_reads_every_leaf_once() {
    let mut catalogue = Catalogue::of(PRODUCTS, false).await;
    let (counting, writer) = catalogue.cold();
    let operation = catalogue.next(0, codelist("a"));
    catalogue.world.run(&writer, &[operation]).await.expect("sealed");
    let first = counting.log();
    assert_eq!(Traffic::of(&first).leaves_and_roots(), (PRODUCTS, 1, 1));

    let operation = catalogue.next(1, codelist("b"));
    let run = |writer: Writer, operation: Operation| {
        let world = catalogue.world.clone();
        async move { world.run(&writer, &[operation]).await.expect_err("refused") }
    };
    let refused = run(writer.clone(), operation.clone()).await;
    assert!(
        matches!(&refused, CommitError::Refused(Refusal::CopiesDisagree { other, .. })
            if *other == catalogue.editions[0].edition()),
        "{refused:?}"
    );
    let second = counting.log().split_off(first.len());
    assert_eq!(Traffic::of(&second).leaves_read, 0, "all of them are known");
    let (_, cold) = catalogue.cold();
    assert_eq!(run(cold, operation).await.to_string(), refused.to_string());
}

/// INV-205, INV-249: of a version another writer wrote meanwhile, what differs is read and judged on.
#[tokio::test]
async fn what_another_writer_changed_is_read() {
    let mut catalogue = Catalogue::of(PRODUCTS, false).await;
    let (counting, writer) = catalogue.cold();
    // The first commit makes all leaves known.
    let operation = catalogue.next(0, codelist("a"));
    catalogue.world.run(&writer, &[operation]).await.expect("sealed");

    let stale = catalogue.world.edition(&name(4), 9, Some(catalogue.id(4)));
    let (_, other) = catalogue.cold();
    let operations = [catalogue.next(4, Vec::new()), catalogue.next(5, Vec::new())];
    catalogue
        .world
        .run(&other, &operations)
        .await
        .expect("sealed by another writer");
    let before = counting.log().len();
    let refused = catalogue.world.run(&writer, &[Operation::Seal(stale)]).await;
    assert!(
        matches!(refused, Err(CommitError::Refused(Refusal::NotFastForward { .. }))),
        "{refused:?}"
    );
    let operation = catalogue.next(5, codelist("a"));
    catalogue.world.run(&writer, &[operation]).await.expect("sealed");
    let traffic = Traffic::of(&counting.log()[before..]);
    assert_eq!(
        traffic.leaves_and_roots(),
        (2, 1, 1),
        "the two leaves that the other wrote"
    );
}

/// INV-167: a leaf this writer knows is read before a version replaces it; where it is changed or gone, there is no version.
#[tokio::test]
async fn a_known_leaf_that_is_gone_is_not_built_on() {
    let mut catalogue = Catalogue::of(6, false).await;
    let (_, writer) = catalogue.cold();
    let operation = catalogue.next(2, Vec::new());
    let committed = catalogue.world.run(&writer, &[operation]).await.expect("sealed");
    let leaf = committed.head.root().products[&product(&name(2))].path();
    let operation = [catalogue.next(2, Vec::new())];
    overwrite(&catalogue.store, &leaf, "{}").await;
    let changed = catalogue.world.run(&writer, &operation).await;
    assert!(
        matches!(changed, Err(CommitError::Write(WriteError::Read(_)))),
        "{changed:?}"
    );
    catalogue.store.delete(&path(&leaf)).await.expect("deleted");
    let gone = catalogue.world.run(&writer, &operation).await;
    assert!(matches!(gone, Err(CommitError::Write(WriteError::Read(_)))), "{gone:?}");
    let root = path(&layout::root(seq(4)));
    assert_eq!(catalogue.store.get(&root).await.expect("read"), None);
}

/// INV-181: an edition that is recorded and a tombstone at once is found when its product's leaf is read.
#[tokio::test]
async fn a_tombstone_of_a_recorded_edition_is_found_when_its_leaf_is_read() {
    let mut catalogue = Catalogue::of(6, false).await;
    let (_, writer) = catalogue.cold();
    let mut root = crate::writer::testing::root_at(&catalogue.store, 2).await.into_value();
    root.retired.push(crate::doc::Tombstone {
        product_id: product(&name(2)),
        edition_id: catalogue.id(2),
        retired_at: root.created_at,
    });
    overwrite(&catalogue.store, layout::CURRENT, "{}").await;
    crate::writer::testing::overwrite_doc(&catalogue.store, &layout::root(seq(2)), &root).await;
    let operation = catalogue.next(2, Vec::new());
    let refused = catalogue.world.run(&writer, &[operation]).await;
    assert!(
        matches!(refused, Err(CommitError::Write(WriteError::Version(_)))),
        "{refused:?}"
    );
}

/// INV-209: whoever looks at all leaves, as a scheduled release does, is given all of them.
#[tokio::test]
async fn a_decision_on_all_leaves_is_given_all_of_them() {
    let catalogue = Catalogue::of(PRODUCTS, false).await;
    let (counting, writer) = catalogue.cold();
    let mut calls = Vec::new();
    let outcome = writer.commit(|base| {
        calls.push(base.version.leaves().count());
        Ok::<_, Infallible>(None)
    });
    assert!(outcome.await.expect("decided").committed().is_none());
    assert_eq!(calls.last(), Some(&PRODUCTS));
    assert_eq!(Traffic::of(&counting.log()).leaves_and_roots(), (PRODUCTS, 0, 0));
}
