//! Opened footers, kept for the next query of the same table.
//!
//! A footer never changes, since its object's id stands for every byte of it. So only two things end its being kept: the table's KEKs
//! are others than when it was opened, or there is no room. Pages are still read, proved and decrypted by every query.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use sovm_object::{
    id::{KekId, StorageId, TableId},
    pme::Footer,
};

/// Memory that kept footers take at most, about. Beyond it all are dropped: what a scan of very many objects opens is not asked for
/// again soon.
const MAX_BYTES: usize = 16 << 20;

/// Footers by table, since a key comes from a table's own manifests and grants.
#[derive(Debug, Default)]
pub(super) struct FooterCache(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    bytes: usize,
    tables: HashMap<TableId, OfTable>,
}

#[derive(Debug, Default)]
struct OfTable {
    keks: Vec<KekId>,
    footers: HashMap<StorageId, Arc<Footer>>,
}

impl FooterCache {
    pub(super) fn get(&self, table: &TableId, keks: &[KekId], id: &StorageId) -> Option<Arc<Footer>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_table = kept.tables.get(table).filter(|known| known.keks == keks)?;
        of_table.footers.get(id).cloned()
    }

    pub(super) fn keep(&self, table: &TableId, keks: &[KekId], footer: &Arc<Footer>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &mut *kept;
        let bytes = footer.memory_size();
        if kept.bytes + bytes > MAX_BYTES {
            *kept = Kept::default();
        }
        let of_table = kept.tables.entry(*table).or_default();
        if of_table.keks != keks {
            kept.bytes -= of_table
                .footers
                .values()
                .map(|footer| footer.memory_size())
                .sum::<usize>();
            *of_table = OfTable {
                keks: keks.to_vec(),
                footers: HashMap::new(),
            };
        }
        if of_table.footers.insert(footer.storage_id(), footer.clone()).is_none() {
            kept.bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::World;

    /// Two opened footers.
    async fn footers() -> [Arc<Footer>; 2] {
        let world = World::new().await;
        world.ingest(0..3).await.unwrap();
        world.ingest(3..6).await.unwrap();
        world.counted().await;
        let kept = world.core().footers.0.lock().unwrap();
        let mut footers = kept
            .tables
            .values()
            .flat_map(|of_table| of_table.footers.values().cloned());
        std::array::from_fn(|_| footers.next().expect("two objects were read"))
    }

    fn bytes(cache: &FooterCache) -> usize {
        cache.0.lock().unwrap().bytes
    }

    #[tokio::test]
    async fn footers_are_kept_for_their_table_and_its_keys() {
        let cache = FooterCache::default();
        let (table, other) = (TableId::from_bytes([1; 16]), TableId::from_bytes([2; 16]));
        let [old, new] = [1, 2].map(|kek| [KekId::from_bytes([kek; 16])]);
        let [first, second] = footers().await;
        cache.keep(&table, &old, &first);
        assert!(cache.get(&table, &old, &first.storage_id()).is_some());
        assert!(cache.get(&table, &old, &second.storage_id()).is_none());
        assert!(cache.get(&other, &old, &first.storage_id()).is_none());
        assert!(cache.get(&table, &new, &first.storage_id()).is_none());
        // Other keys: what was opened under the old ones is gone, and no longer counted.
        for _ in 0..2 {
            cache.keep(&table, &new, &second);
            assert!(cache.get(&table, &old, &first.storage_id()).is_none());
            assert_eq!(bytes(&cache), second.memory_size());
        }
    }

    #[tokio::test]
    async fn memory_is_bounded() {
        let cache = FooterCache::default();
        let table = TableId::from_bytes([1; 16]);
        let [first, second] = footers().await;
        cache.keep(&table, &[], &first);
        cache.0.lock().unwrap().bytes = MAX_BYTES;
        cache.keep(&table, &[], &second);
        assert!(cache.get(&table, &[], &first.storage_id()).is_none());
        assert!(cache.get(&table, &[], &second.storage_id()).is_some());
        assert_eq!(bytes(&cache), second.memory_size());
    }

    /// A second query proves and decrypts pages again, and no footer.
    #[tokio::test]
    async fn a_second_query_opens_no_footer() {
        let world = World::new().await;
        world.ingest(0..1_000).await.unwrap();
        let (first, second) = (world.counted().await, world.counted().await);
        assert_eq!((first.objects_opened, second.objects_opened), (1, 1));
        assert_eq!((first.rows_decoded, second.rows_decoded), (1_000, 1_000));
        assert!(0 < second.bytes_decrypted && second.bytes_decrypted < first.bytes_decrypted);
        assert!(0 < second.bytes_verified && second.bytes_verified < first.bytes_verified);
    }
}
