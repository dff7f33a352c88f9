//! When an object was last read whole and found right (SOP-105).
//!
//! Only a scrub over all bytes says so. The note stands in the row of the byte state and goes with it: whatever fault moves
//! the state, here or in a query, leaves no note behind. Reading ranges writes nothing (SOP-104).

use sovm_object::id::StorageId;

use super::{ByteRow, byte_status};
use crate::{
    state::ByteState,
    store::{StoreError, rows::encode, tables::BYTES, txn::Txn},
};

impl Txn {
    /// Notes that every byte of an object was read and compared just now. False when its bytes do not count as here, so that
    /// there is nothing the note could be about.
    pub fn note_verified_whole(&mut self, object: &StorageId, now_ms: u64) -> Result<bool, StoreError> {
        let Some(status) = byte_status(self, object)?.filter(|status| status.state == ByteState::Available) else {
            return Ok(false);
        };
        let row = ByteRow {
            code: status.state.code().into(),
            since_ms: status.since_ms,
            size: status.size,
            verified_ms: Some(now_ms),
        };
        self.put(&BYTES, object.as_bytes(), &encode(&row))?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        BadBytes, ByteEvent, Read as _,
        testing::{NOW, World, catalog},
    };

    /// SOP-105: only a scrub sets the note, every later fault clears it, and neither arriving again nor anything else brings
    /// it back.
    #[test]
    fn scrub_sets_and_fault_clears() {
        let (world, catalog) = (World::new(), catalog());
        let object = &world.storage_id;
        let verified = |catalog: &crate::Catalog| {
            let status = catalog.read().unwrap().byte_status(object).unwrap();
            status.and_then(|status| status.verified_ms)
        };
        let event = |event, at| {
            let mut txn = catalog.begin().unwrap();
            txn.byte_event(object, event, Some(8_192), at).unwrap();
            let _ = txn.commit().unwrap();
        };
        let scrub = |at| {
            let mut txn = catalog.begin().unwrap();
            let noted = txn.note_verified_whole(object, at).unwrap();
            let _ = txn.commit().unwrap();
            noted
        };
        assert!(!scrub(NOW), "bytes that are not here cannot be verified");
        event(ByteEvent::Arrived, NOW);
        assert_eq!(verified(&catalog), None, "arriving is not a scrub");
        assert!(scrub(NOW + 1));
        assert_eq!(verified(&catalog), Some(NOW + 1));
        event(ByteEvent::Arrived, NOW + 2);
        event(ByteEvent::NoHolder, NOW + 2);
        assert_eq!(
            verified(&catalog),
            Some(NOW + 1),
            "what changes no state changes no note"
        );
        assert!(scrub(NOW + 3));
        assert_eq!(verified(&catalog), Some(NOW + 3));
        let since = catalog.read().unwrap().byte_status(object).unwrap().unwrap().since_ms;
        assert_eq!(since, NOW, "the state is as old as before");
        for fault in [
            ByteEvent::Bad(BadBytes::HashMismatch),
            ByteEvent::Bad(BadBytes::NotAsDescribed),
            ByteEvent::Missing,
            ByteEvent::Evicted { other_holders: 1 },
        ] {
            event(ByteEvent::Arrived, NOW + 4);
            assert!(scrub(NOW + 5));
            event(fault, NOW + 6);
            assert_eq!(verified(&catalog), None, "{fault:?}");
            assert!(
                !scrub(NOW + 7),
                "{fault:?}: the state says that the bytes are not right"
            );
            event(ByteEvent::Arrived, NOW + 8);
            assert_eq!(verified(&catalog), None, "{fault:?}");
        }
    }
}
