//! What opens a home.

use std::path::PathBuf;

use zeroize::Zeroizing;

/// A passphrase or a key file (DESIGN §5). Not printable.
pub enum Unlock {
    /// A file with mode 0600 beside or away from the home, for devices that must boot alone.
    KeyFile(PathBuf),
    /// What a person typed.
    Passphrase(Zeroizing<String>),
}

impl Unlock {
    /// Whether it is a key file, which protects nothing when it lies beside the data.
    pub const fn is_key_file(&self) -> bool {
        matches!(self, Self::KeyFile(_))
    }
}

impl std::fmt::Debug for Unlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_key_file() {
            "Unlock::KeyFile(..)"
        } else {
            "Unlock::Passphrase(..)"
        })
    }
}
