//! Opening, unlocking and rewriting the key store.

use std::{
    fmt, io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use sovm_object::{
    hlc::Hlc,
    id::DomainId,
    secret::{DatabaseKey, SiteKey},
};

use super::{
    contents::{Contents, DomainKeys},
    error::{BodyFault, CreateError, OpenError, PreviousCopy, UnlockError, WriteError},
    fs::{DiskFs, Fs, read_if_there},
    identity::{Identities, Protection, Unlock},
    seal::{seal, unseal},
};
use crate::age_file::{self, AgeFault, AgeSecret};

const IDENTITY: &str = "identity.age";
const CURRENT: &str = "keystore.age";
const PREVIOUS: &str = "keystore.age.prev";
/// Suffix of a file that is being written; such a file never counts.
const NEW: &str = ".new";

/// `seq` numbers taken at a time (DESIGN §5).
pub const SEQ_BLOCK: u64 = 1_000;
/// How far ahead the HLC ceiling is stored (DESIGN §5).
pub const HLC_AHEAD_MS: u64 = 10_000;

/// One start of a node. Two live ones of one site mean a cloned home (DESIGN §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incarnation {
    /// Random.
    pub id: [u8; 16],
    /// Rises with every start.
    pub counter: u64,
}

/// What to do when the current copy is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// Say so and stop.
    Refuse,
    /// Go back to the previous copy and report it.
    UsePrevious,
}

/// How opening went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenReport {
    /// Set when the previous copy was used: what was wrong with the current one.
    pub fell_back: Option<BodyFault>,
    /// A change of passphrase or key file had been interrupted and was finished now.
    pub finished_lock_change: bool,
}

/// How the catalogue stands to the key store (DESIGN §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogueAge {
    /// As new as the key store, or newer.
    InStep,
    /// Older: it was restored from a copy.
    Restored {
        /// Commits the key store knows of.
        known: u64,
        /// Commits the catalogue has.
        found: u64,
    },
}

/// A key store that was found but not opened.
pub struct LockedKeyStore {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    identity: Vec<u8>,
    protection: Protection,
}

impl fmt::Debug for LockedKeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedKeyStore")
            .field("dir", &self.dir)
            .field("protection", &self.protection)
            .finish()
    }
}

/// The open key store of a node. Every change is on disk before the call returns.
pub struct KeyStore {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    identity: AgeSecret,
    contents: Contents,
    /// The file as last written or read: the next previous copy.
    sealed: Vec<u8>,
    /// Numbers reserved on disk and not handed out yet.
    seq: Range<u64>,
}

impl fmt::Debug for KeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyStore")
            .field("dir", &self.dir)
            .field("revision", &self.contents.revision)
            .finish()
    }
}

impl KeyStore {
    /// Makes the key store of a new node in `dir`, which must exist.
    pub fn create(dir: &Path, unlock: &Unlock, contents: Contents) -> Result<Self, CreateError> {
        Self::create_on(Arc::new(DiskFs), dir, unlock, contents)
    }

    /// Like [`create`](Self::create), on another file system.
    pub fn create_on(fs: Arc<dyn Fs>, dir: &Path, unlock: &Unlock, contents: Contents) -> Result<Self, CreateError> {
        if matches!(unlock, Unlock::Passphrase(passphrase) if age_file::is_empty(passphrase)) {
            return Err(CreateError::EmptyPassphrase);
        }
        let exists = |name: &str| {
            read_if_there(&*fs, &dir.join(name))
                .map(|bytes| bytes.is_some())
                .map_err(|source| WriteError::Io {
                    path: dir.join(name),
                    bytes: 0,
                    source,
                })
        };
        if exists(IDENTITY)? {
            return Err(CreateError::Exists(dir.into()));
        }
        // Keys without identity: an `init` that was interrupted leaves no previous copy, a node that ever ran has one.
        if exists(CURRENT)? && exists(PREVIOUS)? {
            return Err(CreateError::Orphaned(dir.into()));
        }
        let identity = AgeSecret::generate();
        let sealed = seal(&contents, &identity);
        let store = Self {
            fs,
            dir: dir.into(),
            identity,
            contents,
            sealed,
            seq: 0..0,
        };
        // The identity comes last: it is what makes a directory a node.
        store.put(CURRENT, &store.sealed)?;
        store.sync_dir()?;
        store.write_identity(unlock, None)?;
        Ok(store)
    }

    /// Finds the key store in `dir`.
    pub fn open(dir: &Path) -> Result<LockedKeyStore, OpenError> {
        Self::open_on(Arc::new(DiskFs), dir)
    }

    /// Like [`open`](Self::open), on another file system.
    pub fn open_on(fs: Arc<dyn Fs>, dir: &Path) -> Result<LockedKeyStore, OpenError> {
        let read = |name: &str| {
            let path = dir.join(name);
            read_if_there(&*fs, &path).map_err(|source| OpenError::Io { path, source })
        };
        let Some(identity) = read(IDENTITY)? else {
            let orphaned = read(CURRENT)?.is_some() || read(PREVIOUS)?.is_some();
            return Err(if orphaned {
                OpenError::IdentityMissing
            } else {
                OpenError::NoKeyStore
            }(dir.into()));
        };
        let protection = match age_file::wants_passphrase(&identity) {
            Ok(true) => Protection::Passphrase,
            Ok(false) => Protection::KeyFile,
            Err(fault) => return Err(OpenError::Identity { dir: dir.into(), fault }),
        };
        Ok(LockedKeyStore {
            fs,
            dir: dir.into(),
            identity,
            protection,
        })
    }

    #[cfg(test)]
    pub(super) const fn identity(&self) -> &AgeSecret {
        &self.identity
    }

    /// The site's signing key.
    pub const fn site_key(&self) -> &SiteKey {
        &self.contents.site_key
    }

    /// Root of the keys of the local database.
    pub const fn database_key(&self) -> &DatabaseKey {
        &self.contents.database_key
    }

    /// Everything in it.
    pub const fn contents(&self) -> &Contents {
        &self.contents
    }

    /// The keys of a domain.
    pub fn domain(&self, domain: &DomainId) -> Option<&DomainKeys> {
        self.contents.domains.get(domain)
    }

    /// Changes the contents and makes the change durable, or changes nothing at all.
    pub fn update<R>(&mut self, change: impl FnOnce(&mut Contents) -> R) -> Result<R, WriteError> {
        self.try_update(|contents| Ok::<_, WriteError>(change(contents)))
    }

    /// Like [`update`](Self::update), for a change that may refuse; a refusal writes nothing.
    pub fn try_update<R, E: From<WriteError>>(
        &mut self,
        change: impl FnOnce(&mut Contents) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut next = self.contents.copy();
        let result = change(&mut next)?;
        self.save(next)?;
        Ok(result)
    }

    /// Begins a new incarnation: a higher counter and a fresh block of `seq`, in one write.
    pub fn begin_incarnation(&mut self) -> Result<Incarnation, WriteError> {
        use rand::RngCore as _;
        let (counter, seq) = self.try_update(|contents| {
            contents.incarnation = contents.incarnation.checked_add(1).ok_or(WriteError::Exhausted)?;
            Ok::<_, WriteError>((contents.incarnation, reserve_seq(contents)?))
        })?;
        self.seq = seq;
        let mut id = [0; 16];
        rand::rng().fill_bytes(&mut id);
        Ok(Incarnation { id, counter })
    }

    /// The incarnation counter of the last start.
    pub const fn incarnation(&self) -> u64 {
        self.contents.incarnation
    }

    /// A number for the next signed record, above every number given before, in any run.
    ///
    /// One counter serves all domains: it rises strictly in each of them, which is all that SOP §2.1 asks.
    pub fn next_seq(&mut self) -> Result<u64, WriteError> {
        if self.seq.is_empty() {
            self.seq = self.try_update(reserve_seq)?;
        }
        self.seq.next().ok_or(WriteError::Exhausted)
    }

    /// Where the clock must start: above every stamp any earlier run can have used.
    pub const fn hlc_floor(&self) -> Hlc {
        self.contents.hlc_ceiling
    }

    /// Makes sure that a restart begins above `stamp`. Call it before the stamp leaves the node; it rarely writes.
    ///
    /// Room is taken above the real time, not above the stamp: each start begins at the ceiling of the one before, and starts that
    /// follow each other quickly must not carry the clock away.
    pub fn cover_hlc(&mut self, stamp: Hlc, now_ms: u64) -> Result<(), WriteError> {
        if stamp < self.contents.hlc_ceiling {
            return Ok(());
        }
        let ceiling_ms = now_ms
            .saturating_add(HLC_AHEAD_MS)
            .max(stamp.millis().saturating_add(1));
        self.update(|contents| contents.hlc_ceiling = Hlc::new(ceiling_ms, 0))
    }

    /// Remembers how many commits the catalogue has; never goes back. How often to call it is the caller's trade of writes
    /// against how small a step back is noticed.
    pub fn note_catalogue_commits(&mut self, commits: u64) -> Result<(), WriteError> {
        if commits <= self.contents.catalogue_commits {
            return Ok(());
        }
        self.update(|contents| contents.catalogue_commits = commits)
    }

    /// Compares the catalogue's own count with what the key store remembers.
    pub const fn catalogue_age(&self, found: u64) -> CatalogueAge {
        let known = self.contents.catalogue_commits;
        if found < known {
            CatalogueAge::Restored { known, found }
        } else {
            CatalogueAge::InStep
        }
    }

    /// Changes the passphrase or key file. A new identity is made, and both copies are written for it, so that an old
    /// `identity.age` with its old passphrase opens nothing of the new files.
    ///
    /// After a crash at any point either the old lock opens everything or the new one does.
    pub fn change_lock(&mut self, unlock: &Unlock) -> Result<(), CreateError> {
        if matches!(unlock, Unlock::Passphrase(passphrase) if age_file::is_empty(passphrase)) {
            return Err(CreateError::EmptyPassphrase);
        }
        let outgoing = std::mem::replace(&mut self.identity, AgeSecret::generate());
        if let Err(error) = self.write_identity(unlock, Some(&outgoing)) {
            self.identity = outgoing;
            return Err(error.into());
        }
        self.finish_lock_change(unlock)?;
        Ok(())
    }

    /// Second half of a change: everything under the new identity, then the old one is forgotten.
    fn finish_lock_change(&mut self, unlock: &Unlock) -> Result<(), WriteError> {
        self.sealed = seal(&self.contents, &self.identity);
        self.save(self.contents.copy())?;
        self.write_identity(unlock, None)
    }

    fn save(&mut self, mut next: Contents) -> Result<(), WriteError> {
        next.revision = next.revision.checked_add(1).ok_or(WriteError::Exhausted)?;
        let sealed = seal(&next, &self.identity);
        // Both files whole on disk, then both names: whatever a crash keeps of it, one of the two is there and right.
        let previous = self.write_new(PREVIOUS, &self.sealed)?;
        let current = self.write_new(CURRENT, &sealed)?;
        self.rename(&previous, PREVIOUS)?;
        self.rename(&current, CURRENT)?;
        self.sync_dir()?;
        self.contents = next;
        self.sealed = sealed;
        Ok(())
    }

    fn write_identity(&self, unlock: &Unlock, outgoing: Option<&AgeSecret>) -> Result<(), WriteError> {
        let file = Identities::seal(&self.identity, outgoing, unlock);
        self.put(IDENTITY, &file)?;
        self.sync_dir()
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), WriteError> {
        let new = self.write_new(name, bytes)?;
        self.rename(&new, name)
    }

    fn write_new(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, WriteError> {
        let path = self.dir.join(format!("{name}{NEW}"));
        match self.fs.write_synced(&path, bytes) {
            Ok(()) => Ok(path),
            Err(source) => {
                // Half a file would only take space from the next attempt.
                let _ = self.fs.remove(&path);
                Err(WriteError::Io {
                    path,
                    bytes: bytes.len(),
                    source,
                })
            }
        }
    }

    fn rename(&self, from: &Path, name: &str) -> Result<(), WriteError> {
        let to = self.dir.join(name);
        self.fs.rename(from, &to).map_err(|source| WriteError::Io {
            path: to,
            bytes: 0,
            source,
        })
    }

    fn sync_dir(&self) -> Result<(), WriteError> {
        let failed = |source: io::Error| WriteError::Io {
            path: self.dir.clone(),
            bytes: 0,
            source,
        };
        self.fs.sync_dir(&self.dir).map_err(failed)
    }
}

impl LockedKeyStore {
    /// Whether a passphrase or a key file is needed.
    pub const fn protection(&self) -> Protection {
        self.protection
    }

    /// Opens it.
    pub fn unlock(self, unlock: &Unlock, fallback: Fallback) -> Result<(KeyStore, OpenReport), UnlockError> {
        match (self.protection, unlock) {
            (Protection::Passphrase, Unlock::KeyFile(_)) => return Err(UnlockError::NeedsPassphrase),
            (Protection::KeyFile, Unlock::Passphrase(_)) => return Err(UnlockError::NeedsKeyFile),
            _ => {}
        }
        let identities = Identities::open(&self.identity, unlock).map_err(|fault| match (fault, unlock) {
            (AgeFault::WrongKey, Unlock::Passphrase(_)) => UnlockError::WrongPassphrase,
            (AgeFault::WrongKey, Unlock::KeyFile(file)) => UnlockError::WrongKeyFile(file.path().into()),
            (fault, _) => UnlockError::Identity(fault),
        })?;
        let (opened, fell_back) = match self.open_copy(CURRENT, &identities) {
            Ok(opened) => (opened, None),
            Err(fault) => match (self.open_copy(PREVIOUS, &identities), fallback) {
                (Ok((contents, sealed)), Fallback::UsePrevious) => {
                    ((skip_what_was_lost(contents), sealed), Some(fault))
                }
                (Ok((contents, _)), Fallback::Refuse) => {
                    let previous = PreviousCopy::Usable {
                        revision: contents.revision,
                    };
                    return Err(UnlockError::KeyStore { fault, previous });
                }
                (Err(useless), _) => {
                    return Err(UnlockError::KeyStore {
                        fault,
                        previous: PreviousCopy::Useless(useless),
                    });
                }
            },
        };
        for name in [IDENTITY, CURRENT, PREVIOUS] {
            // Left by a crash; whether or not it can be removed, it never counts.
            let _ = self.fs.remove(&self.dir.join(format!("{name}{NEW}")));
        }
        let (contents, sealed) = opened;
        let Identities { current, outgoing } = identities;
        let mut store = KeyStore {
            fs: self.fs,
            dir: self.dir,
            identity: current,
            contents,
            sealed,
            seq: 0..0,
        };
        let finished_lock_change = outgoing.is_some();
        if finished_lock_change {
            store.finish_lock_change(unlock).map_err(UnlockError::Write)?;
        }
        Ok((
            store,
            OpenReport {
                fell_back,
                finished_lock_change,
            },
        ))
    }

    fn open_copy(&self, name: &str, identities: &Identities) -> Result<(Contents, Vec<u8>), BodyFault> {
        let path = self.dir.join(name);
        let sealed = match read_if_there(&*self.fs, &path) {
            Ok(Some(sealed)) => sealed,
            Ok(None) => return Err(BodyFault::Missing),
            Err(e) => return Err(BodyFault::Unreadable(e.to_string())),
        };
        let contents = match (unseal(&sealed, &identities.current), &identities.outgoing) {
            (Err(BodyFault::Age(AgeFault::WrongKey)), Some(outgoing)) => unseal(&sealed, outgoing),
            (result, _) => result,
        }?;
        Ok((contents, sealed))
    }
}

fn reserve_seq(contents: &mut Contents) -> Result<Range<u64>, WriteError> {
    let first = contents.seq_ceiling.checked_add(1).ok_or(WriteError::Exhausted)?;
    contents.seq_ceiling = contents
        .seq_ceiling
        .checked_add(SEQ_BLOCK)
        .ok_or(WriteError::Exhausted)?;
    Ok(first..contents.seq_ceiling.saturating_add(1))
}

/// The lost write may have reserved one block and begun one incarnation; neither may be used twice.
fn skip_what_was_lost(mut contents: Contents) -> Contents {
    contents.seq_ceiling = contents.seq_ceiling.saturating_add(SEQ_BLOCK);
    contents.incarnation = contents.incarnation.saturating_add(1);
    contents
}
