//! Bytes that were refused for their form or signature, so that a peer cannot make us verify them for ever (SOP-173).

use crate::store::{
    StoreError,
    rows::{Key, decode, encode},
    tables::{REFUSALS, REFUSALS_BY_TIME, Rows},
    txn::Txn,
};

/// Refusals remembered; the oldest go first.
pub const MAX_REFUSALS: u64 = 1_000_000;
/// Days a refusal is remembered.
pub const REFUSAL_DAYS: u64 = 30;

const DAY_MS: u64 = 86_400_000;

sovm_object::payload! {
    /// Why and when bytes were refused.
    pub struct Refusal {
        /// When.
        2 refused_ms: u64,
        /// What was wrong, as the decoder or verifier put it; names fields, never values.
        3 reason: String,
    }
}

/// Whether exactly these bytes were refused before.
pub(crate) fn of_bytes(rows: &(impl Rows + ?Sized), bytes: &[u8]) -> Result<Option<Refusal>, StoreError> {
    let hash = blake3::hash(bytes);
    rows.get(&REFUSALS, hash.as_bytes())?
        .map(|value| decode(&REFUSALS, &value))
        .transpose()
}

impl Txn {
    /// Remembers that exactly these bytes are bad.
    pub fn remember_refusal(&mut self, bytes: &[u8], reason: &str, now_ms: u64) -> Result<(), StoreError> {
        let hash = blake3::hash(bytes);
        if self.get(&REFUSALS, hash.as_bytes())?.is_some() {
            return Ok(());
        }
        let refusal = Refusal {
            refused_ms: now_ms,
            reason: reason.to_owned(),
        };
        self.put(&REFUSALS, hash.as_bytes(), &encode(&refusal))?;
        self.put(&REFUSALS_BY_TIME, &Key::new().number(now_ms).id(hash.as_bytes()), &[])?;
        self.forget_refusals(now_ms)
    }

    /// Drops refusals that are too old or too many.
    pub fn forget_refusals(&mut self, now_ms: u64) -> Result<(), StoreError> {
        let bound = if cfg!(test) { 20 } else { MAX_REFUSALS };
        let horizon = now_ms.saturating_sub(REFUSAL_DAYS * DAY_MS);
        loop {
            let oldest = self.keys(&REFUSALS_BY_TIME, &[], 1)?;
            let Some(key) = oldest.first() else {
                return Ok(());
            };
            let too_old = key[..] < horizon.to_be_bytes()[..];
            if !too_old && self.count(&REFUSALS_BY_TIME)? <= bound {
                return Ok(());
            }
            self.remove(&REFUSALS, key.get(8..).unwrap_or_default())?;
            self.remove(&REFUSALS_BY_TIME, key)?;
        }
    }
}
