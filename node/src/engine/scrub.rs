//! Bytes that turn out wrong or gone: set aside at once, asked for again, replaced in place (SOP-261..263).
//!
//! An object that does not match its id is let go by the store first, so that nobody counts it as held or takes it for what a
//! fetch should bring. A running node then wants it like any object that is missing, and what arrives takes the place of the
//! bad file.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use sovm_catalog::{BadBytes, ByteEvent, ByteState, Read as _, Snapshot};
use sovm_object::{id::StorageId, kek::KekRing};

use super::core::Core;
use crate::error::ApiError;

impl Core {
    /// Records that bytes here are wrong or gone. Objects that nothing names have no state to change.
    pub(super) async fn set_aside(&self, id: StorageId, event: ByteEvent) -> Result<(), ApiError> {
        if matches!(event, ByteEvent::Missing | ByteEvent::Bad(BadBytes::HashMismatch)) {
            self.blobs.release(id).await?;
        }
        if self.read()?.byte_status(&id)?.is_some() {
            self.note_bytes(&id, event, None)?;
        }
        Ok(())
    }

    /// Bytes that were just read whole, and count as missing or damaged, are neither (SOP-263).
    pub(super) async fn take_back_whole(&self, id: StorageId) -> Result<(), ApiError> {
        let state = self.read()?.byte_status(&id)?.map(|status| status.state);
        if matches!(
            state,
            Some(ByteState::PendingBytes | ByteState::Quarantined(BadBytes::HashMismatch))
        ) {
            self.take_back(id).await?;
        }
        Ok(())
    }

    /// Every object whose bytes should be here or are.
    pub(super) async fn objects_to_verify(&self) -> Result<Vec<StorageId>, ApiError> {
        let snapshot = self.read()?;
        let mut ids: BTreeSet<StorageId> = snapshot.available_bytes()?.into_iter().collect();
        ids.extend(snapshot.damaged_bytes()?.iter().map(|object| object.storage_id));
        ids.extend(self.blobs.list().await?.iter().map(|object| object.id()));
        Ok(ids.into_iter().collect())
    }

    /// What will bring an intact copy, in words.
    pub(super) fn way_back(&self) -> Result<String, ApiError> {
        let others = self.talk_partners()?;
        let online = others.iter().filter(|site| self.seen(site).0).count();
        Ok(match (others.len(), online) {
            (0, _) => {
                "no other device is known that could hold an intact copy: publish the rows again from their source, \
                       or recover them from a kit"
                    .to_owned()
            }
            (_, 0) if self.is_online() => {
                "it is fetched again as soon as a device that holds it can be reached".to_owned()
            }
            (_, 0) => "sovm run fetches an intact copy from a device that holds one".to_owned(),
            (_, online) => format!("{online} devices are asked for an intact copy now"),
        })
    }

    /// Objects that are said to be here and are not held whole, by books and lengths of files.
    pub(super) async fn absent_objects(&self) -> Result<Vec<StorageId>, ApiError> {
        let available = self.read()?.available_bytes()?;
        let held: BTreeSet<StorageId> = self.blobs.list().await?.iter().map(|object| object.id()).collect();
        Ok(available.into_iter().filter(|id| !held.contains(id)).collect())
    }

    /// Whether one of this node's own entries describes the object.
    pub(super) fn is_own(&self, snapshot: &Snapshot, id: &StorageId) -> Result<bool, ApiError> {
        let views = snapshot.object(id, &KekRing::default())?;
        Ok(views
            .iter()
            .flat_map(|view| &view.manifests)
            .any(|(_, manifest)| manifest.producer == self.me))
    }

    /// SOP-254 at the start: entries whose bytes are gone become pending, and those of this node itself are counted, since
    /// their bytes were here when the entries were made.
    pub(super) async fn check_held(&self) -> Result<(), ApiError> {
        let absent = self.absent_objects().await?;
        let snapshot = self.read()?;
        let mut own = 0;
        for id in absent {
            own += u64::from(self.is_own(&snapshot, &id)?);
            self.set_aside(id, ByteEvent::Missing).await?;
        }
        self.keep.own_absent.store(own, Ordering::Relaxed);
        Ok(())
    }
}
