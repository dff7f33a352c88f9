//! Plain files and data files of editions in a drill, and objects that are too long to be held in memory while they are copied or compared.

use std::{collections::BTreeSet, ops::Range};

use sovm_catalog::{Read as _, Snapshot};
use sovm_mesh::net::store::ObjectStore;
use sovm_object::{
    blob::Blob,
    id::{DomainId, StorageId},
    kek::KekRing,
    verified::{ReadError, VerifiedRead},
};
use sovm_recovery::drill::{DrillReport as Proof, Sample};
use tokio::io::AsyncWriteExt as _;

use super::{
    super::{convert::chain, core::Core, files::verify_blob},
    drill::{Place, SAMPLED_OBJECTS, sample},
};
use crate::error::ApiError;

/// Bytes copied or compared at once.
const PIECE_BYTES: u64 = 1 << 20;

/// Files that are sampled even when tables took all samples.
const FILES_SAMPLED: usize = 4;

impl Core {
    /// Restores the files of a domain aside and opens them there: to the end when the drill is full, else their heads. Gives
    /// how many came back.
    pub(super) async fn drill_files(
        &self,
        domain: &DomainId,
        restored: &Snapshot,
        (store, places): (&ObjectStore, &[Place]),
        full: bool,
        proof: &mut Proof,
    ) -> Result<u64, ApiError> {
        let files = {
            let keys = self.keys();
            let none = KekRing::default();
            restored.files(domain, keys.domain(domain).map_or(&none, |keys| &keys.ring))?
        };
        let mut back = 0;
        for (number, file) in files.iter().enumerate() {
            let id = file.storage_id;
            proof.objects += 1;
            if !self.bring(store, places, id).await? {
                proof.missing.push(id);
                continue;
            }
            back += 1;
            if !full && number >= FILES_SAMPLED && proof.samples.len() >= SAMPLED_OBJECTS {
                continue;
            }
            let dek = self.find_dek(&id)?;
            let opened = match (full, file.manifests.first()) {
                (true, Some((_, manifest))) => verify_blob(store, id, &dek, manifest).await.map(drop),
                _ => Blob::open(store, id, &dek).await.map(drop),
            };
            proof.samples.push(match opened {
                Ok(()) => sample(&self.blobs, store, id, full).await,
                Err(error) => Sample::Unreadable {
                    object: id,
                    reason: chain(&error),
                },
            });
        }
        Ok(back)
    }

    /// The same for the data files of editions, whose rows are counted in what they decode to.
    pub(super) async fn drill_edition_files(
        &self,
        domain: &DomainId,
        restored: &Snapshot,
        (store, places): (&ObjectStore, &[Place]),
        full: bool,
        proof: &mut Proof,
    ) -> Result<u64, ApiError> {
        let files = {
            let keys = self.keys();
            let none = KekRing::default();
            restored.edition_files(domain, keys.domain(domain).map_or(&none, |keys| &keys.ring))?
        };
        // INV-412: what was expunged is gone on purpose, so nothing of it has to come back.
        let expunged: BTreeSet<StorageId> = self.read()?.expunged_bytes()?.into_iter().collect();
        let files = files.iter().filter(|file| !expunged.contains(&file.storage_id));
        let mut back = 0;
        for (number, file) in files.enumerate() {
            let id = file.storage_id;
            proof.objects += 1;
            if !self.bring(store, places, id).await? {
                proof.missing.push(id);
                continue;
            }
            back += 1;
            if !full && number >= FILES_SAMPLED && proof.samples.len() >= SAMPLED_OBJECTS {
                continue;
            }
            let unreadable = |reason| Sample::Unreadable { object: id, reason };
            proof.samples.push(match self.count_rows(store, id).await {
                Ok(rows) if rows == file.row_count => sample(&self.blobs, store, id, full).await,
                Ok(rows) => unreadable(format!(
                    "it holds {rows} rows and its manifest states {}",
                    file.row_count
                )),
                Err(error) => unreadable(error.message),
            });
        }
        Ok(back)
    }
}

/// Copies a verified object from one store into another, piece by piece; false when it does not arrive whole.
pub(super) async fn copy(from: &ObjectStore, to: &ObjectStore, id: StorageId) -> bool {
    let Ok(size) = VerifiedRead::size(from, id).await else {
        return false;
    };
    let (mut writer, reader) = tokio::io::duplex(PIECE_BYTES as usize);
    let from = from.clone();
    let reading = tokio::spawn(async move {
        for range in pieces(0..size) {
            // A source that stops makes a shorter object, which has another id and is refused.
            let Ok(parts) = VerifiedRead::read(&from, id, &[range]).await else {
                return;
            };
            for part in parts {
                if writer.write_all(&part).await.is_err() {
                    return;
                }
            }
        }
    });
    let imported = to.import_reader(reader, Some(size), id).await;
    reading.abort();
    imported.is_ok()
}

/// Whether two stores give the same verified bytes.
pub(super) async fn same_bytes(
    ours: &ObjectStore,
    theirs: &ObjectStore,
    id: StorageId,
    range: Range<u64>,
) -> Result<bool, Side> {
    for range in pieces(range) {
        let there = VerifiedRead::read(theirs, id, std::slice::from_ref(&range))
            .await
            .map_err(Side::Theirs)?;
        let here = VerifiedRead::read(ours, id, &[range]).await.map_err(Side::Ours)?;
        let equal = there.len() == here.len() && there.iter().zip(&here).all(|(there, here)| there[..] == here[..]);
        if !equal {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whose bytes could not be read.
pub(super) enum Side {
    Ours(ReadError),
    Theirs(ReadError),
}

fn pieces(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    range
        .step_by(PIECE_BYTES as usize)
        .map(move |start| start..end.min(start + PIECE_BYTES))
}
