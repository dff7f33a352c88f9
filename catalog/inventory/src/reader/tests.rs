//! The reader, on sound catalogues and on every kind of broken one.

mod fallback;
mod floor;
mod mutated;
mod views;

use std::sync::Arc;

use super::{Fetch, Finding, Refresh, find_head};
use crate::{
    doc::{Current, RootRef, layout},
    store::{InventoryStore, MemoryStore},
    transition::SealedEdition,
    writer::{
        Writer,
        testing::{World, catalogue, overwrite_doc, reference, root_at},
    },
};

/// A catalogue without embargo whose version `n + 1` seals edition `n` of product `a`.
struct Versions {
    store: Arc<dyn InventoryStore>,
    writer: Writer,
    world: World,
    chain: Vec<SealedEdition>,
}

impl Versions {
    /// With versions 1 to `newest`.
    async fn through(newest: u8) -> Self {
        let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
        let (writer, _) = catalogue(&store, false).await;
        let mut world = World::new();
        let chain = world.chain("a", 12);
        let mut versions = Self {
            store,
            writer,
            world,
            chain,
        };
        for _ in 1..newest {
            versions.seal_next().await;
        }
        versions
    }

    async fn seal_next(&mut self) {
        let sealed = self.chain.remove(0);
        self.world.seal(&self.writer, &sealed).await;
    }

    async fn reference(&self, number: u64) -> RootRef {
        reference(&root_at(&self.store, number).await)
    }

    async fn point_current_at(&self, root: RootRef) {
        overwrite_doc(&self.store, layout::CURRENT, &Current { root }).await;
    }

    async fn find(&self, held: Option<RootRef>) -> Result<Refresh, super::ReadError> {
        find_head(&*self.store, held).await
    }
}

fn number(found: &Refresh) -> u64 {
    found.head.root().seq.get()
}

/// INV-256, INV-257, INV-261, INV-392: with a `CURRENT` that verifies, a reader reads `CURRENT`, the root it names, and the names
/// after it until one is absent. It lists nothing and reads nothing else.
#[tokio::test]
async fn a_verified_current_needs_roots_only() {
    let versions = Versions::through(5).await;
    let third = versions.reference(3).await;
    versions.point_current_at(third).await;
    let counting = crate::store::testing::FaultStore::counting(versions.store.clone());
    let found = find_head(&counting, None).await.expect("found");
    assert_eq!(
        (number(&found), found.way, found.findings),
        (5, super::Way::Current, vec![])
    );
    let expected: Vec<_> = std::iter::once("reading CURRENT".to_owned())
        .chain((3..=6).map(|number| format!("reading inventory/{number:012}.json")))
        .collect();
    assert_eq!(counting.log(), expected);
}

/// INV-352: how far `CURRENT` is behind and how old the head is are told.
#[tokio::test]
async fn freshness_is_reported() {
    let versions = Versions::through(5).await;
    let fresh = versions.find(None).await.expect("found").freshness;
    assert_eq!(
        (fresh.current.map(crate::doc::Seq::get), fresh.ahead_of_current),
        (Some(5), 0)
    );
    versions.point_current_at(versions.reference(2).await).await;
    let found = versions.find(None).await.expect("found");
    assert_eq!(
        (
            found.freshness.current.map(crate::doc::Seq::get),
            found.freshness.ahead_of_current
        ),
        (Some(2), 3)
    );
    assert_eq!(found.freshness.written_at, found.head.root().created_at);
    let later = found.freshness.written_at.plus(chrono::TimeDelta::minutes(3));
    assert_eq!(found.freshness.age(later), chrono::TimeDelta::minutes(3));
    versions
        .store
        .delete(&crate::writer::testing::path(layout::CURRENT))
        .await
        .expect("deleted");
    let found = versions.find(None).await.expect("found");
    assert_eq!((found.freshness.current, found.way), (None, super::Way::Fallback));
    assert_eq!(found.findings, [Finding::CurrentMissing]);
}

/// INV-129: what is fetched may come from anywhere; a reader needs no store.
#[tokio::test]
async fn a_reader_needs_only_documents_by_name() {
    #[derive(Debug)]
    struct Peer(Arc<dyn InventoryStore>);
    #[async_trait::async_trait]
    impl Fetch for Peer {
        async fn fetch(
            &self,
            path: &crate::store::StorePath,
        ) -> Result<Option<bytes::Bytes>, crate::store::StoreError> {
            self.0.fetch(path).await
        }
    }
    let versions = Versions::through(2).await;
    let found = find_head(&Peer(versions.store.clone()), None).await.expect("found");
    assert_eq!(number(&found), 2);
}
