//! Objects that no entry names: those being made now, and those that nobody will ever name (SOP-241, SOP-268..270).
//!
//! A row is written before the object's bytes can become durable, and goes in the transaction that publishes it. So after
//! a crash there is a row for whatever lies in the store, and never bytes that nobody can account for.

use sovm_object::id::StorageId;

use crate::store::{
    StoreError,
    rows::{decode, encode, form},
    tables::{Rows, UNPUBLISHED},
    tagged,
    txn::Txn,
};

sovm_object::payload! {
    /// An object without an entry.
    pub struct Unpublished {
        /// When it was begun, or noticed.
        2 begun_ms: u64,
        /// Bytes on disk.
        3 size: u64,
        /// The start of the node whose command makes it.
        4 run: u64,
        /// Running time of the node at which nobody was making it any more; absent while its command runs (SOP-269).
        5 orphan_since_ms: Option<u64>,
    }
}

impl Unpublished {
    /// For how much running time nobody has been making it; `None` while somebody is.
    pub fn orphan_for_ms(&self, running_ms: u64) -> Option<u64> {
        self.orphan_since_ms.map(|since| running_ms.saturating_sub(since))
    }
}

impl Txn {
    /// Notes an object before its bytes are made durable, or one that was found without an entry.
    pub fn note_unpublished(&mut self, object: &StorageId, row: &Unpublished) -> Result<(), StoreError> {
        self.put_tagged(&UNPUBLISHED, object.as_bytes(), &encode(row))
    }

    /// Drops the note: the object is published in this very step, or its bytes are gone.
    pub fn forget_unpublished(&mut self, object: &StorageId) -> Result<(), StoreError> {
        self.remove(&UNPUBLISHED, object.as_bytes())?;
        Ok(())
    }
}

/// All notes, by id.
pub(crate) fn all(rows: &(impl Rows + ?Sized)) -> Result<Vec<(StorageId, Unpublished)>, StoreError> {
    tagged::list(rows, &UNPUBLISHED, &[])?
        .into_iter()
        .map(|(key, value)| {
            let id = StorageId::from_slice(&key).ok_or_else(|| form(&UNPUBLISHED))?;
            Ok((id, decode(&UNPUBLISHED, &value)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use sovm_object::id::StorageId;

    use super::*;
    use crate::{
        ByteEvent, Collection, Read as _,
        local::meta,
        testing::{NOW, World, catalog},
    };

    const fn object(byte: u8) -> StorageId {
        StorageId::from_bytes([byte; 32])
    }

    fn row(orphan_since_ms: Option<u64>) -> Unpublished {
        Unpublished {
            begun_ms: NOW,
            size: 7,
            run: 3,
            orphan_since_ms,
        }
    }

    /// SOP-269: an object is no orphan while its command runs, and its age is running time, not the clock.
    #[test]
    fn age_counts_from_the_end_of_its_command() {
        assert_eq!(row(None).orphan_for_ms(u64::MAX), None);
        assert_eq!(row(Some(1_000)).orphan_for_ms(1_500), Some(500));
        // Running time that was lost in a crash makes nothing older.
        assert_eq!(row(Some(1_000)).orphan_for_ms(900), Some(0));
    }

    /// SOP-241, SOP-270: a note stays until it is dropped, and what is in use is what entries or byte states name.
    #[test]
    fn notes_and_what_is_in_use() {
        let (world, catalog) = (World::new(), catalog());
        let mut txn = catalog.begin().unwrap();
        world.found(&mut txn);
        txn.note_unpublished(&object(1), &row(None)).unwrap();
        txn.note_unpublished(&object(2), &row(Some(5))).unwrap();
        txn.byte_event(&object(3), ByteEvent::Missing, None, NOW).unwrap();
        txn.put_meta(meta::RUNNING_MS, &77u64.to_be_bytes()).unwrap();
        let _ = txn.commit().unwrap();
        let snapshot = catalog.read().unwrap();
        assert_eq!(
            snapshot.unpublished().unwrap(),
            [(object(1), row(None)), (object(2), row(Some(5)))]
        );
        assert_eq!(snapshot.objects_in_use().unwrap(), [object(3)].into());
        assert_eq!(snapshot.running_ms().unwrap(), 77);

        let mut txn = catalog.begin().unwrap();
        world.admit(&mut txn, world.sign(world.kek_record(), &world.founder));
        world.admit(&mut txn, world.sign(world.table(), &world.founder));
        // An access record alone names the object, whatever it counts for so far.
        world.admit(&mut txn, world.sign(world.access(), &world.member));
        txn.forget_unpublished(&object(2)).unwrap();
        let _ = txn.commit().unwrap();
        let snapshot = catalog.read().unwrap();
        assert_eq!(snapshot.objects_in_use().unwrap(), [object(3), world.storage_id].into());
        assert_eq!(snapshot.unpublished().unwrap(), [(object(1), row(None))]);
    }

    /// Collections are remembered in order, and not without bound.
    #[test]
    fn audit_is_bounded() {
        let catalog = catalog();
        for count in 0..5 {
            let mut txn = catalog.begin().unwrap();
            let collection = Collection {
                at_ms: NOW,
                objects: vec![object(9)],
                count,
                bytes: 1,
                after_ms: 2,
                large: false,
            };
            txn.audit_collection(&collection).unwrap();
            let _ = txn.commit().unwrap();
        }
        let counts: Vec<_> = catalog
            .read()
            .unwrap()
            .collections()
            .unwrap()
            .iter()
            .map(|collection| collection.count)
            .collect();
        assert_eq!(counts, [2, 3, 4]);
    }
}
