//! MLS rows at rest: sealed once more under a row key that rotates at every merge (DESIGN §5).
//!
//! openmls deletes secrets of past epochs, but the database copies pages on write and wipes none. So each row is sealed under a
//! row key, and when a commit is merged all rows are sealed anew and the old key is forgotten: what lies in freed pages then
//! opens with no key that still exists. Row keys have a file of their own that keeps no previous copy.
//!
//! ```text
//! mls.keys:  version (1) | nonce (12) | AES-256-GCM of one or two 32-byte keys, newest last
//! row:       nonce (12) | AES-256-GCM of the value, with the row's key as associated data
//! ```
//! During a rotation the file holds both keys, so that a crash on either side of the transaction leaves every row readable.

use std::path::{Path, PathBuf};

use aes_gcm::{
    Aes256Gcm, KeyInit as _, Nonce,
    aead::{Aead as _, Payload},
};
use rand::RngCore as _;
use sovm_object::secret::DatabaseKey;
use zeroize::Zeroizing;

use crate::{
    config::write_replacing,
    error::{ApiError, ErrorKind},
};

const VERSION: u8 = 1;
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;

/// The key of rows written now, and during a rotation also the one before.
pub(crate) struct RowKeys {
    path: PathBuf,
    sealing: Zeroizing<[u8; 32]>,
    current: Zeroizing<[u8; KEY_BYTES]>,
    outgoing: Option<Zeroizing<[u8; KEY_BYTES]>>,
}

impl RowKeys {
    /// Reads the file, or makes it with a fresh key.
    pub(crate) fn load(dir: &Path, database_key: &DatabaseKey) -> Result<Self, ApiError> {
        let path = dir.join("mls.keys");
        let sealing = database_key.derive("sovm mls row keys v1", &[]);
        let file = match std::fs::read(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let keys = Self {
                    path,
                    sealing,
                    current: fresh_key(),
                    outgoing: None,
                };
                keys.store()?;
                return Ok(keys);
            }
            Err(error) => return Err(ApiError::io(format!("reading {}", path.display()), &error)),
        };
        let damaged = || {
            ApiError::new(ErrorKind::Storage, format!("{} is damaged", path.display()))
                .safe("tables and their keys are elsewhere and were not touched")
                .next("restore this file from the same copy as the rest of the home, or recover the node from its kit")
        };
        let sealed = file.strip_prefix(&[VERSION]).ok_or_else(damaged)?;
        let plain = open(&sealing, &[], sealed).ok_or_else(damaged)?;
        let key = |bytes: &[u8]| bytes.try_into().ok().map(Zeroizing::new);
        let (outgoing, current) = match plain.len() {
            KEY_BYTES => (None, key(&plain)),
            len if len == 2 * KEY_BYTES => (key(&plain[..KEY_BYTES]), key(&plain[KEY_BYTES..])),
            _ => (None, None),
        };
        Ok(Self {
            current: current.ok_or_else(damaged)?,
            outgoing,
            path,
            sealing,
        })
    }

    /// Draws a new key for all rows and stores it beside the old one. Rows sealed from now on use it.
    pub(crate) fn begin_rotation(&mut self) -> Result<(), ApiError> {
        // An interrupted rotation left rows under either key: those under the older one must be sealed anew first, which
        // the caller does in any case, since it seals every row.
        if self.outgoing.is_none() {
            self.outgoing = Some(std::mem::replace(&mut self.current, fresh_key()));
        }
        self.store()
    }

    /// Forgets the old key. Call it after every row was sealed under the new one and that is durable.
    pub(crate) fn finish_rotation(&mut self) -> Result<(), ApiError> {
        self.outgoing = None;
        self.store()
    }

    /// Whether a rotation was interrupted and has to be finished.
    pub(crate) const fn is_rotating(&self) -> bool {
        self.outgoing.is_some()
    }

    /// Seals a row's value.
    pub(crate) fn seal(&self, row: &[u8], value: &[u8]) -> Vec<u8> {
        seal(&self.current, row, value)
    }

    /// Opens a row's value under either key.
    pub(crate) fn open(&self, row: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        open(&self.current, row, sealed).or_else(|| open(self.outgoing.as_ref()?, row, sealed))
    }

    fn store(&self) -> Result<(), ApiError> {
        let mut plain = Zeroizing::new(Vec::with_capacity(2 * KEY_BYTES));
        if let Some(outgoing) = &self.outgoing {
            plain.extend_from_slice(&**outgoing);
        }
        plain.extend_from_slice(&*self.current);
        let mut file = vec![VERSION];
        file.extend(seal(&self.sealing, &[], &plain));
        write_replacing(&self.path, &file)
            .map_err(|error| ApiError::io(format!("writing {}", self.path.display()), &error))
    }
}

fn fresh_key() -> Zeroizing<[u8; KEY_BYTES]> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    rand::rng().fill_bytes(&mut *key);
    key
}

fn seal(key: &[u8; 32], aad: &[u8], msg: &[u8]) -> Vec<u8> {
    let mut nonce = [0; NONCE_BYTES];
    rand::rng().fill_bytes(&mut nonce);
    let cipher = Aes256Gcm::new(key.into());
    let sealed = cipher
        .encrypt(&Nonce::from(nonce), Payload { msg, aad })
        .expect("rows are far below the GCM limit");
    [&nonce[..], &sealed].concat()
}

fn open(key: &[u8; 32], aad: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, msg) = sealed.split_first_chunk::<NONCE_BYTES>()?;
    let cipher = Aes256Gcm::new(key.into());
    cipher
        .decrypt(&Nonce::from(*nonce), Payload { msg, aad })
        .ok()
        .map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(dir: &Path) -> RowKeys {
        RowKeys::load(dir, &DatabaseKey::from_bytes([1; 32])).unwrap()
    }

    #[test]
    fn rotation_survives_a_crash_at_each_step_and_forgets_the_old_key() {
        let dir = tempfile::tempdir().unwrap();
        let mut keys = load(dir.path());
        let old = keys.seal(b"row", b"value");
        keys.begin_rotation().unwrap();
        let new = keys.seal(b"row", b"value");
        // Crash here: both kinds of row are readable.
        let keys = load(dir.path());
        assert!(keys.is_rotating());
        assert_eq!(**keys.open(b"row", &old).unwrap(), *b"value");
        assert_eq!(**keys.open(b"row", &new).unwrap(), *b"value");
        let mut keys = load(dir.path());
        keys.finish_rotation().unwrap();
        let keys = load(dir.path());
        assert!(keys.open(b"row", &old).is_none(), "the old key must be gone");
        assert_eq!(**keys.open(b"row", &new).unwrap(), *b"value");
        assert!(keys.open(b"other", &new).is_none(), "a row opens only in its place");
    }

    #[test]
    fn foreign_or_damaged_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        load(dir.path());
        assert!(RowKeys::load(dir.path(), &DatabaseKey::from_bytes([2; 32])).is_err());
        for bytes in [&b""[..], b"\x01", b"\x02aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"] {
            std::fs::write(dir.path().join("mls.keys"), bytes).unwrap();
            assert!(RowKeys::load(dir.path(), &DatabaseKey::from_bytes([1; 32])).is_err());
        }
    }
}
