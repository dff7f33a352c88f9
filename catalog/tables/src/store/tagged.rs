//! Rows that no signature covers, sealed one by one (DESIGN §5).
//!
//! ```text
//! bytes 0 .. 11   nonce, random
//! rest            AES-256-GCM of the value; associated data: length of the table's name, the name, the row's key
//! ```
//!
//! XTS notices nothing when a sector is changed. The tag does, and a row moved to another key or table no longer opens.

use aes_gcm::{
    Aes256Gcm, KeyInit as _, Nonce,
    aead::{Aead as _, Payload},
};
use rand::RngCore as _;

use super::{
    StoreError,
    tables::{Row, Rows, Table, name},
};
use crate::backend::salt::RowKey;

const NONCE: usize = 12;

fn associated_data(table: &str, key: &[u8]) -> Vec<u8> {
    let mut aad = Vec::with_capacity(1 + table.len() + key.len());
    aad.push(table.len() as u8);
    aad.extend(table.as_bytes());
    aad.extend(key);
    aad
}

fn cipher(row_key: &RowKey) -> Aes256Gcm {
    Aes256Gcm::new((&*row_key.0).into())
}

/// The stored form of a value.
pub(crate) fn seal(row_key: &RowKey, table: &Table, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut nonce = [0; NONCE];
    rand::rng().fill_bytes(&mut nonce);
    let aad = associated_data(name(table), key);
    let sealed = cipher(row_key)
        .encrypt(&Nonce::from(nonce), Payload { msg: value, aad: &aad })
        .expect("rows are far below the GCM limit");
    [&nonce[..], &sealed].concat()
}

/// The value of a stored row.
pub(crate) fn open(row_key: &RowKey, table: &Table, key: &[u8], stored: &[u8]) -> Result<Vec<u8>, StoreError> {
    let changed = || StoreError::RowChanged(name(table));
    let (nonce, sealed) = stored.split_first_chunk::<NONCE>().ok_or_else(changed)?;
    let aad = associated_data(name(table), key);
    cipher(row_key)
        .decrypt(&Nonce::from(*nonce), Payload { msg: sealed, aad: &aad })
        .map_err(|_| changed())
}

/// Reads and opens one row.
pub(crate) fn get(rows: &(impl Rows + ?Sized), table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    match rows.get(table, key)? {
        Some(stored) => open(rows.row_key(), table, key, &stored).map(Some),
        None => Ok(None),
    }
}

/// Reads and opens all rows under a prefix.
pub(crate) fn list(rows: &(impl Rows + ?Sized), table: &Table, prefix: &[u8]) -> Result<Vec<Row>, StoreError> {
    let stored = rows.rows(table, prefix)?;
    stored
        .into_iter()
        .map(|(key, value)| open(rows.row_key(), table, &key, &value).map(|value| (key, value)))
        .collect()
}
