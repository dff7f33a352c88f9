//! One consistent view of the catalogue.

use std::{fmt, sync::Arc};

use super::Inner;

/// What was committed when the snapshot was taken. Later commits don't change it; [`crate::Read`] has the questions.
pub struct Snapshot {
    txn: redb::ReadTransaction,
    inner: Arc<Inner>,
}

impl Snapshot {
    pub(super) const fn over(txn: redb::ReadTransaction, inner: Arc<Inner>) -> Self {
        Self { txn, inner }
    }

    pub(super) const fn raw(&self) -> &redb::ReadTransaction {
        &self.txn
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snapshot(..)")
    }
}
