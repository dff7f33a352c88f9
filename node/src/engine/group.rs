//! Steps of the domains' MLS groups, over rows of the catalogue.

use std::sync::MutexGuard;

use sovm_catalog::{Committed, Read, Txn};
use sovm_mesh::proto::mls::{self, Mls, MlsError, MlsRows, MlsWrites, RowsError};

use super::{core::Core, mls_rows::RowKeys};
use crate::error::ApiError;

/// Catalogue rows as openmls reads them: opened with the row key.
struct SealedRows<'a, R: Read> {
    rows: &'a R,
    keys: MutexGuard<'a, RowKeys>,
}

/// A row of the group's state does not open with any key that still exists.
#[derive(Debug, thiserror::Error)]
#[error("a row of the group state does not open; this home's files are from different copies")]
struct RowUnreadable;

impl<R: Read> MlsRows for SealedRows<'_, R> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, RowsError> {
        let Some(sealed) = self.rows.mls(key).map_err(RowsError::new)? else {
            return Ok(None);
        };
        let opened = self
            .keys
            .open(key, &sealed)
            .ok_or_else(|| RowsError::new(RowUnreadable))?;
        Ok(Some(opened.to_vec()))
    }
}

impl Core {
    /// Runs one step on this node's groups. Nothing is stored: put the writes into the transaction of the same step.
    pub(super) fn mls_step<T>(
        &self,
        run: impl FnOnce(&Mls<'_>) -> Result<T, MlsError>,
    ) -> Result<(MlsWrites, T), ApiError> {
        let snapshot = self.read()?;
        let rows = SealedRows {
            rows: &snapshot,
            keys: self.row_keys(),
        };
        Ok(mls::step(&rows, run)?)
    }

    /// Writes a step's MLS rows, sealed.
    pub(super) fn put_mls(&self, txn: &mut Txn, writes: &MlsWrites) -> Result<(), ApiError> {
        let keys = self.row_keys();
        for (key, value) in writes.iter() {
            match value {
                Some(value) => txn.put_mls(key, &keys.seal(key, value))?,
                None => txn.remove_mls(key)?,
            }
        }
        Ok(())
    }

    /// Commits a step that merged a group commit: every row is sealed anew, and the old row key is forgotten (DESIGN §5).
    pub(super) fn commit_merge(&self, mut txn: Txn, writes: &MlsWrites) -> Result<(), ApiError> {
        self.put_mls(&mut txn, writes)?;
        self.row_keys().begin_rotation()?;
        self.reseal(&mut txn)?;
        self.save(txn)?;
        self.row_keys().finish_rotation()
    }

    /// Finishes a rotation that a crash interrupted.
    pub(super) fn finish_row_key_rotation(&self) -> Result<(), ApiError> {
        if !self.row_keys().is_rotating() {
            return Ok(());
        }
        let mut txn = self.catalog.begin()?;
        self.reseal(&mut txn)?;
        self.save(txn)?;
        self.row_keys().finish_rotation()
    }

    fn reseal(&self, txn: &mut Txn) -> Result<(), ApiError> {
        let keys = self.row_keys();
        for (key, sealed) in txn.mls_rows(&[])? {
            let opened = keys.open(&key, &sealed).ok_or_else(|| ApiError::bug(RowUnreadable))?;
            txn.put_mls(&key, &keys.seal(&key, &opened))?;
        }
        Ok(())
    }

    /// Commits a step from whose outcome nothing follows here.
    pub(super) fn save(&self, txn: Txn) -> Result<(), ApiError> {
        self.commit(txn).map(|_| ())
    }

    /// Commits a step and lets the key store know how far the catalogue is.
    pub(super) fn commit(&self, txn: Txn) -> Result<Committed, ApiError> {
        /// Commits between two notes: a note costs a rewrite of the key store.
        const NOTE_EVERY: u64 = 64;
        let committed = txn.commit()?;
        if committed.counter % NOTE_EVERY == 0 {
            self.keys().note_catalogue_commits(committed.counter)?;
        }
        Ok(committed)
    }
}
