//! The one transaction that makes the objects of a command visible, and how often it is tried (SOP §13.2).
//!
//! Peers' records are admitted beside a publication. So right and key are looked at when the access records are signed and again
//! inside the transaction; if the key changed in between, new records are signed and the manifests stay as they are (SOP-243,
//! SOP-244). A right that is gone ends the publication (SOP-245).

use std::time::{Duration, Instant};

use sovm_catalog::{ByteEvent, EntryState, Read as _, Txn};
use sovm_mesh::net::steps::reached;
use sovm_object::{
    entry::VerifiedEntry,
    id::{DomainId, StorageId},
    record::{AccessRecord, access::Grant},
    sign::Signed,
};

use super::{
    super::core::Core,
    complete::{Granted, Permit, Ready, Standing},
};
use crate::error::{ApiError, ErrorKind};

/// Times the key of a domain may change in the very moment between signing and storing.
const TRIES: u32 = 8;

/// How long a publication waits for the key that a change of membership has made necessary. Peers bring it within a round or two.
const KEY_PATIENCE: Duration = Duration::from_secs(30);

/// What becomes visible together.
pub(in super::super) struct Publication<'a> {
    pub(in super::super) domain: DomainId,
    /// Entries that the objects rest on: their table, one version of its columns.
    pub(in super::super) first: Vec<VerifiedEntry>,
    pub(in super::super) objects: Vec<&'a Ready>,
    /// What else belongs into the transaction. An error publishes nothing.
    pub(in super::super) also: &'a (dyn Fn(&mut Txn) -> Result<(), ApiError> + Sync),
}

impl Core {
    /// Makes everything visible, or nothing.
    pub(in super::super) async fn publish_objects(&self, publication: &Publication<'_>) -> Result<(), ApiError> {
        for _ in 0..TRIES {
            let patience = if self.is_online() { KEY_PATIENCE } else { Duration::ZERO };
            self.await_permit(&publication.domain, patience).await?;
            let _step = self.step.lock().await;
            if self.try_publish(publication)? {
                self.told();
                return Ok(());
            }
        }
        Err(
            ApiError::new(ErrorKind::Failed, "the key of the domain changed again and again")
                .safe("nothing was published")
                .next("run the same command again"),
        )
    }

    /// Returns once this node may publish into the domain, or says why it may not. Only a key that is on its way is waited for.
    pub(super) async fn await_permit(&self, domain: &DomainId, patience: Duration) -> Result<Permit, ApiError> {
        let deadline = Instant::now() + patience;
        let mut changes = self.watch();
        loop {
            changes.mark_unchanged();
            let why = match self.standing(&self.read()?, domain)? {
                Standing::Permitted(permit) => return Ok(permit),
                Standing::NoKey(why) => why,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if !matches!(tokio::time::timeout(left, changes.changed()).await, Ok(Ok(()))) {
                return Err(why);
            }
        }
    }

    /// False when the domain's key changed after the access records were signed.
    fn try_publish(&self, publication: &Publication<'_>) -> Result<bool, ApiError> {
        let domain = &publication.domain;
        let permit = self.check_may_publish(&self.read()?, domain)?;
        let mut granted = Vec::with_capacity(publication.objects.len());
        for object in &publication.objects {
            granted.push(self.complete(object, permit)?);
        }
        reached("publish.granted");
        let now_ms = self.now_ms();
        let mut txn = self.catalog.begin()?;
        // Without a key this try is over; whether to wait for one is decided outside.
        let Standing::Permitted(permit) = self.standing(&txn, domain)? else {
            return Ok(false);
        };
        (publication.also)(&mut txn)?;
        let mut entries = publication.first.clone();
        for granted in granted {
            let object = granted.object();
            let Some(both) = granted.into_entries(&permit) else {
                return Ok(false);
            };
            entries.extend(both);
            txn.byte_event(&object.id(), ByteEvent::Arrived, Some(object.size()), now_ms)
                .map_err(ApiError::bug)?;
            txn.forget_unpublished(&object.id())?;
        }
        for entry in &entries {
            txn.admit(entry.clone(), Some(permit.under()), now_ms)?;
        }
        txn.settle()?;
        for entry in &entries {
            let state = txn.entry_state(&entry.id())?;
            if !state.is_some_and(EntryState::is_accepted) {
                let state = state.map_or_else(|| "unknown".to_owned(), |state| state.to_string());
                return Err(ApiError::bug(format_args!(
                    "an entry of our own would not count: {state}"
                )));
            }
        }
        self.save(txn)?;
        reached("publish.committed");
        Ok(true)
    }

    /// Completes an object: wraps its DEK for the holders of the permitted key.
    pub(super) fn complete<'a>(&self, object: &'a Ready, permit: Permit) -> Result<Granted<'a>, ApiError> {
        let under = permit.under();
        let ops_seen = self.heads(Some(under.domain))?;
        let stamp = self.stamp()?;
        let grant = Grant {
            mesh_id: self.mesh(),
            domain_id: under.domain,
            storage_id: object.id(),
            object_manifest_hash: object.manifest().manifest_hash(),
            kek_generation: under.generation,
            kek_id: under.kek_id,
            issuer: self.me,
            seq: stamp.seq,
            ops_seen,
            issued_hlc: stamp.hlc,
        };
        let keys = self.keys();
        let ring = keys.domain(&under.domain).map(|keys| &keys.ring);
        let kek = ring
            .and_then(|ring| ring.get(&under.kek_id))
            .ok_or_else(|| ApiError::bug("a KEK that is gone"))?;
        let record = AccessRecord::wrap(grant, object.dek(), kek);
        let signed = Signed::sign(record, keys.site_key(), &self.mesh());
        Granted::new(object, signed, kek, permit)
    }

    /// Gives up objects that no entry will name.
    pub(in super::super) async fn let_go(&self, objects: impl IntoIterator<Item = &Ready>) {
        let ids: Vec<StorageId> = objects.into_iter().map(Ready::id).collect();
        self.abandon(&ids).await;
    }
}
