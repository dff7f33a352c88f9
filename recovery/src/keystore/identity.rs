//! `identity.age` and what opens it: a passphrase, or a key file for devices that must boot alone (DESIGN §5).

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use age::secrecy::SecretString;
use zeroize::Zeroizing;

use super::error::KeyFileError;
use crate::age_file::{self, AgeFault, AgeSecret, Key, Lock};

/// Length of `identity.age`: one for every node, so that it tells nothing, and long enough for two identities.
const IDENTITY_FILE_BYTES: usize = 1_024;

/// What locks or opens `identity.age`.
pub enum Unlock {
    /// Typed by a person.
    Passphrase(SecretString),
    /// A file with an age identity.
    KeyFile(KeyFile),
}

impl std::fmt::Debug for Unlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Passphrase(_) => f.write_str("Passphrase(..)"),
            Self::KeyFile(file) => f.debug_tuple("KeyFile").field(&file.path).finish(),
        }
    }
}

/// How a node is locked, seen without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// By a passphrase.
    Passphrase,
    /// By a key file.
    KeyFile,
}

/// An age X25519 identity in a file of mode 0600.
#[derive(Debug)]
pub struct KeyFile {
    path: PathBuf,
    secret: AgeSecret,
}

impl KeyFile {
    /// Makes a new key file. An existing file is never replaced.
    pub fn create(path: &Path) -> Result<Self, KeyFileError> {
        let secret = AgeSecret::generate();
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => KeyFileError::Exists(path.into()),
            _ => KeyFileError::Io {
                path: path.into(),
                source,
            },
        };
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(failed)?;
        let text = Zeroizing::new(format!(
            "# key of a sovm node; whoever has it opens the node\n{}\n",
            *secret.to_text()
        ));
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(failed)?;
        Ok(Self {
            path: path.into(),
            secret,
        })
    }

    /// Reads a key file. Comments and empty lines are allowed, a second key or other users' access are not.
    pub fn load(path: &Path) -> Result<Self, KeyFileError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => KeyFileError::Missing(path.into()),
            io::ErrorKind::InvalidData => KeyFileError::NotAKey(path.into()),
            _ => KeyFileError::Io {
                path: path.into(),
                source,
            },
        };
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
            if mode & 0o077 != 0 {
                return Err(KeyFileError::OpenToOthers {
                    path: path.into(),
                    mode,
                });
            }
        }
        let text = Zeroizing::new(fs::read_to_string(path).map_err(failed)?);
        let mut lines = text
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty() && !l.starts_with('#'));
        let secret = match (lines.next(), lines.next()) {
            (Some(line), None) => AgeSecret::from_text(line),
            _ => None,
        };
        Ok(Self {
            path: path.into(),
            secret: secret.ok_or_else(|| KeyFileError::NotAKey(path.into()))?,
        })
    }

    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it lies inside `dir`: a key beside what it locks protects nothing, and `status` says so.
    pub fn lies_in(&self, dir: &Path) -> bool {
        match (self.path.canonicalize(), dir.canonicalize()) {
            (Ok(path), Ok(dir)) => path.starts_with(dir),
            _ => self.path.starts_with(dir),
        }
    }
}

/// The one or two identities of a node; two only while the lock is being changed.
pub(crate) struct Identities {
    pub(crate) current: AgeSecret,
    pub(crate) outgoing: Option<AgeSecret>,
}

impl Identities {
    pub(crate) fn seal(current: &AgeSecret, outgoing: Option<&AgeSecret>, unlock: &Unlock) -> Vec<u8> {
        let mut text = Zeroizing::new(String::with_capacity(IDENTITY_FILE_BYTES));
        for secret in std::iter::once(current).chain(outgoing) {
            text.push_str(&secret.to_text());
            text.push('\n');
        }
        let fill = |room: usize| {
            // Empty lines as padding: the file stays what age calls an identity file.
            (room >= text.len()).then(|| {
                let mut plain = Zeroizing::new(Vec::with_capacity(room));
                plain.extend_from_slice(text.as_bytes());
                plain.resize(room, b'\n');
                plain
            })
        };
        let recipient;
        let lock = match unlock {
            Unlock::Passphrase(passphrase) => Lock::Passphrase(passphrase),
            Unlock::KeyFile(file) => {
                recipient = [file.secret.recipient()];
                Lock::Recipients(&recipient)
            }
        };
        age_file::seal_sized(lock, [IDENTITY_FILE_BYTES].into_iter(), fill)
            .expect("one recipient and two short lines fit")
    }

    pub(crate) fn open(file: &[u8], unlock: &Unlock) -> Result<Self, AgeFault> {
        let key = match unlock {
            Unlock::Passphrase(passphrase) => Key::Passphrase(passphrase),
            Unlock::KeyFile(file) => Key::Secret(&file.secret),
        };
        if file.len() < IDENTITY_FILE_BYTES && age_file::looks_like_age(file) {
            return Err(AgeFault::Truncated);
        }
        let plain = age_file::open(file, key)?;
        let text = std::str::from_utf8(&plain).map_err(|_| AgeFault::Damaged)?;
        let mut secrets = text.lines().filter(|l| !l.is_empty()).map(AgeSecret::from_text);
        let current = secrets.next().flatten().ok_or(AgeFault::Damaged)?;
        let outgoing = match secrets.next() {
            None => None,
            Some(second) => Some(second.ok_or(AgeFault::Damaged)?),
        };
        Ok(Self { current, outgoing })
    }
}
