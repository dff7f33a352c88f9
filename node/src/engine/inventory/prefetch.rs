//! Ciphertext ahead of its keys (DESIGN §10): so that a release is a matter of grants, not of gigabytes.
//!
//! Lists are sorted and as large as the format takes, whatever the objects belong to, and each object is listed once. Who fetches them
//! learns that something is coming, and how many bytes of it.
//!
//! A node that is told to makes lists at fixed times, one of a fixed size at each, so that the time of a list says little of when an
//! edition was built.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::FutureExt as _;
use sovm_catalog::{Read as _, Txn};
use sovm_inventory::{
    doc::{EditionState, FileRoot, Manifest, Stored, layout},
    reader::{FullInventory, find_head},
};
use sovm_object::{
    entry::VerifiedEntry,
    id::{DomainId, StorageId},
    record::PrefetchList,
};

use super::{
    super::{core::Core, publish::Publication},
    chains::Chain,
    data::{pointed_at, pointer_path},
    store::NodeStore,
};
use crate::{
    api::PrefetchReport,
    error::{ApiError, ErrorKind},
    inventory::errors,
};

/// Objects of one list.
const LIST_OBJECTS: usize = 64;

/// The longest pause between two looks at the clock, which may be put forward or have slept.
const LOOK: Duration = Duration::from_secs(30);

/// Fixed times: the multiples of a period since 1970 in UTC.
#[derive(Debug)]
struct Schedule {
    every_ms: u64,
    /// How many of them had passed at the last look.
    passed: u64,
}

impl Schedule {
    fn new(every_ms: u64, now_ms: u64) -> Self {
        let every_ms = every_ms.max(1);
        Self {
            every_ms,
            passed: now_ms / every_ms,
        }
    }

    /// Whether one of the times has come since the last look. Several that were slept through count once, and a clock that is put
    /// back makes nothing due.
    fn is_due(&mut self, now_ms: u64) -> bool {
        let passed = now_ms / self.every_ms;
        let due = passed > self.passed;
        self.passed = passed;
        due
    }

    /// How long until the next look.
    fn pause(&self, now_ms: u64) -> Duration {
        Duration::from_millis(self.every_ms - now_ms % self.every_ms).min(LOOK)
    }
}

/// Lists objects ahead at fixed times, for as long as the node is online.
pub(in super::super) async fn list_ahead(core: Weak<Core>, every_ms: u64) {
    let now_ms = || core.upgrade().map(|core| core.now_ms());
    let Some(begun_ms) = now_ms() else { return };
    let mut schedule = Schedule::new(every_ms, begun_ms);
    loop {
        let Some(before_ms) = now_ms() else { return };
        tokio::time::sleep(schedule.pause(before_ms)).await;
        let Some(core) = core.upgrade() else { return };
        if !schedule.is_due(core.now_ms()) {
            continue;
        }
        match core.prefetch_scheduled().boxed().await {
            Ok(0) => {}
            Ok(objects) => tracing::info!(objects, "data files were listed for the public domain to fetch ahead"),
            Err(error) => {
                tracing::warn!(kind = ?error.kind, "no data file was listed ahead; sovm inventory prefetch says why");
            }
        }
    }
}

impl Core {
    /// `inventory prefetch`: lists every data file of an embargoed edition that was not listed yet.
    pub(super) async fn prefetch(self: &Arc<Self>, chain: &Chain) -> Result<PrefetchReport, ApiError> {
        let Some(public) = chain.founding.as_ref().and_then(|founding| founding.public) else {
            return Err(ApiError::new(
                ErrorKind::Refused,
                format!(
                    "catalogue {} has no public domain, so nobody has anything to fetch ahead",
                    chain.catalog
                ),
            )
            .safe("nothing was changed")
            .next("a public domain is named when a catalogue is made: sovm inventory init --public-domain NAME"));
        };
        let (objects, lists) = self.list_new(chain, public.domain, usize::MAX).await?;
        Ok(PrefetchReport {
            catalog_id: chain.catalog.to_string(),
            objects,
            lists,
        })
    }

    /// One list for each catalogue written here that has something new under embargo. Gives how many objects are in them.
    pub(super) async fn prefetch_scheduled(self: &Arc<Self>) -> Result<u64, ApiError> {
        let mut listed = 0;
        for chain in self.chains().boxed().await? {
            let public = chain.founding.as_ref().and_then(|founding| founding.public);
            if let Some(public) = public.filter(|_| chain.is_ours(self)) {
                listed += self.list_new(&chain, public.domain, LIST_OBJECTS).boxed().await?.0;
            }
        }
        Ok(listed)
    }

    /// Lists the first of the embargoed objects that were not listed yet. Gives how many there were, and in how many lists.
    async fn list_new(self: &Arc<Self>, chain: &Chain, domain: DomainId, most: usize) -> Result<(u64, u64), ApiError> {
        let embargoed = self.embargoed_objects(chain).await?;
        let known = self.prefetched(&domain)?;
        let new = embargoed.into_iter().filter(|object| !known.contains(object));
        let new: Vec<StorageId> = new.take(most).collect();
        let mut lists = Vec::new();
        for objects in new.chunks(LIST_OBJECTS) {
            lists.push(self.sign_list(domain, objects.to_vec())?);
        }
        let counts = (new.len() as u64, lists.len() as u64);
        if !lists.is_empty() {
            let nothing_else = |_: &mut Txn| Ok(());
            let publication = Publication {
                domain,
                first: lists,
                objects: Vec::new(),
                also: &nothing_else,
            };
            self.publish_objects(&publication).await?;
        }
        Ok(counts)
    }

    fn sign_list(&self, domain: DomainId, objects: Vec<StorageId>) -> Result<VerifiedEntry, ApiError> {
        let ops_seen = self.heads(Some(domain))?;
        let stamp = self.stamp()?;
        Ok(self
            .sign(PrefetchList {
                mesh_id: self.mesh(),
                domain_id: domain,
                objects,
                issuer: self.me,
                seq: stamp.seq,
                ops_seen,
                hlc: stamp.hlc,
            })
            .into())
    }

    /// Every object that members of a domain were told to fetch.
    fn prefetched(&self, domain: &DomainId) -> Result<BTreeSet<StorageId>, ApiError> {
        let lists = self
            .read()?
            .accepted::<PrefetchList>(Some(*domain).into(), sovm_object::entry::EntryKind::PrefetchList)?;
        Ok(lists
            .iter()
            .flat_map(|list| list.body().objects.iter().copied())
            .collect())
    }

    /// Data files of embargoed editions, sorted by id.
    async fn embargoed_objects(self: &Arc<Self>, chain: &Chain) -> Result<BTreeSet<StorageId>, ApiError> {
        let store = self.node_store(chain.documents);
        let unread = |error| errors::unread(&error, &NodeStore::SHOWN);
        let head = find_head(&store, None).await.map_err(unread)?.head;
        let full = FullInventory::load(&store, head, None).await.map_err(unread)?;
        let mut objects = BTreeSet::new();
        for (product, leaf) in full.leaves() {
            for entry in leaf
                .editions
                .iter()
                .filter(|entry| entry.state == EditionState::Embargoed)
            {
                let Some(bytes) = store.document(&layout::manifest(product, &entry.edition_id))? else {
                    continue;
                };
                let manifest = Stored::<Manifest>::verify(bytes, entry.manifest_sha256)
                    .map_err(|error| errors::undecoded(&error))?;
                for file in manifest.files.iter().filter(|file| file.root == FileRoot::Data) {
                    let pointer = store.document(&pointer_path(product, &file.path))?;
                    objects.extend(pointer.and_then(|bytes| pointed_at(&bytes)));
                }
            }
        }
        Ok(objects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    #[test]
    fn lists_are_made_at_full_hours() {
        let start = 1_000 * HOUR + 17 * 60_000;
        let mut schedule = Schedule::new(HOUR, start);
        assert!(
            !schedule.is_due(start),
            "a node that starts has nothing to catch up with"
        );
        assert!(!schedule.is_due(1_001 * HOUR - 1));
        assert!(schedule.is_due(1_001 * HOUR));
        assert!(!schedule.is_due(1_001 * HOUR + 1));
        // Slept through three of them.
        assert!(schedule.is_due(1_004 * HOUR + 5));
        assert!(!schedule.is_due(1_004 * HOUR + 6));
        // Put back by a day, and an hour later.
        assert!(!schedule.is_due(980 * HOUR + 5));
        assert!(schedule.is_due(981 * HOUR));
    }

    #[test]
    fn the_clock_is_looked_at_again_soon_enough() {
        let schedule = Schedule::new(HOUR, 0);
        assert_eq!(schedule.pause(HOUR), LOOK);
        assert_eq!(schedule.pause(2 * HOUR - 1), Duration::from_millis(1));
        assert_eq!(schedule.pause(2 * HOUR - 40_000), LOOK);
    }
}
