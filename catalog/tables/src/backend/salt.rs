//! The side file `catalog.salt`, and the keys drawn from it and the database key.
//!
//! ```text
//! byte   0        format, 1
//! bytes  1 .. 32  salt, random
//! bytes 33 .. 48  check: tells a wrong database key from a damaged catalogue
//! ```

use std::{fs, io, path::Path};

use rand::RngCore as _;
use sovm_object::secret::DatabaseKey;
use zeroize::Zeroizing;

const FORMAT: u8 = 1;
const SALT_LEN: usize = 32;
const CHECK_LEN: usize = 16;
const FILE_LEN: usize = 1 + SALT_LEN + CHECK_LEN;

/// The two keys of AES-256-XTS.
pub(crate) struct XtsKeys {
    pub(super) data: Zeroizing<[u8; 32]>,
    pub(super) tweak: Zeroizing<[u8; 32]>,
}

/// Key of the tags on rows that no signature covers.
#[allow(unreachable_pub, reason = "sealed: named by a method of the sealed `Rows`")]
pub struct RowKey(pub(crate) Zeroizing<[u8; 32]>);

/// Why the side file does not give keys.
#[derive(Debug, thiserror::Error)]
pub enum SaltError {
    /// It cannot be read or written.
    #[error("catalog.salt cannot be read or written")]
    Io(#[from] io::Error),
    /// It is shorter or longer than the format says.
    #[error("catalog.salt is damaged; restore it from a copy of this home, the catalogue is unreadable without it")]
    Damaged,
    /// It was written by a later release.
    #[error("catalog.salt has format {0}, which is newer than this sovm; use the newer release")]
    NewerFormat(u8),
    /// The database key is not the one this catalogue was made with.
    #[error("the key store's database key does not belong to this catalogue; use the key store of the same home")]
    WrongKey,
}

/// Everything derived from the database key and one salt.
pub(crate) struct CatalogKeys {
    pub(crate) xts: XtsKeys,
    pub(crate) rows: RowKey,
}

impl CatalogKeys {
    /// Keys for one salt.
    pub(crate) fn derive(key: &DatabaseKey, salt: &[u8]) -> Self {
        Self {
            xts: XtsKeys {
                data: key.derive("sovm catalog xts-data v1", salt),
                tweak: key.derive("sovm catalog xts-tweak v1", salt),
            },
            rows: RowKey(key.derive("sovm catalog row-tag v1", salt)),
        }
    }

    /// Reads the side file at `path`, or makes it when `may_create`.
    pub(crate) fn load(path: &Path, key: &DatabaseKey, may_create: bool) -> Result<Self, SaltError> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound && may_create => return Self::create(path, key),
            Err(error) => return Err(error.into()),
        };
        match bytes.first() {
            Some(&FORMAT) if bytes.len() == FILE_LEN => {}
            Some(&format) if format > FORMAT => return Err(SaltError::NewerFormat(format)),
            _ => return Err(SaltError::Damaged),
        }
        let (salt, check) = bytes[1..].split_at(SALT_LEN);
        if key_check(key, salt) != check {
            return Err(SaltError::WrongKey);
        }
        Ok(Self::derive(key, salt))
    }

    fn create(path: &Path, key: &DatabaseKey) -> Result<Self, SaltError> {
        let mut salt = [0; SALT_LEN];
        rand::rng().fill_bytes(&mut salt);
        let mut bytes = vec![FORMAT];
        bytes.extend(salt);
        bytes.extend(key_check(key, &salt));
        // A half-written salt would lose the catalogue, so the name appears only when its bytes are on disk.
        let temporary = path.with_extension("salt.new");
        let mut file = fs::File::create(&temporary)?;
        io::Write::write_all(&mut file, &bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        sync_directory(path)?;
        Ok(Self::derive(key, &salt))
    }
}

/// Makes a new name in `path`'s directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    // Other systems cannot open a directory as a file, and journal names by themselves.
    #[cfg(unix)]
    if let Some(parent) = path.parent() {
        fs::File::open(parent)?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Derived under a context of its own, so it says nothing about the other keys.
fn key_check(key: &DatabaseKey, salt: &[u8]) -> [u8; CHECK_LEN] {
    let derived = key.derive("sovm catalog key-check v1", salt);
    let mut check = [0; CHECK_LEN];
    check.copy_from_slice(&derived[..CHECK_LEN]);
    check
}
