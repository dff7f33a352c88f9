//! Secrets: no `Clone`, `Display`, `PartialEq` or `Serialize`; `Debug` prints the type's name; wiped on drop.
//!
//! Raw bytes leave a secret only through `expose_for_*`, whose name says to whom.

use std::fmt;

use rand::RngCore as _;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::id::{DekCommitment, SiteId};

macro_rules! secret_type {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Zeroize, ZeroizeOnDrop)]
        pub struct $name([u8; 32]);

        impl $name {
            /// Draws a fresh secret from the operating system.
            pub fn generate() -> Self {
                let mut bytes = [0; 32];
                rand::rng().fill_bytes(&mut bytes);
                Self(bytes)
            }

            /// Takes raw bytes, as they come out of a key store or an unwrapped record. The caller's copy is the caller's to wipe.
            pub const fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// A key for one purpose: BLAKE3 derive_key over `context` of this secret followed by `suffix`.
            pub fn derive(&self, context: &'static str, suffix: &[u8]) -> Zeroizing<[u8; 32]> {
                let mut hasher = blake3::Hasher::new_derive_key(context);
                hasher.update(&self.0);
                hasher.update(suffix);
                Zeroizing::new(*hasher.finalize().as_bytes())
            }

            /// The raw bytes, for writing into another sealed container (key store, ring blob, KEK bundle).
            pub const fn expose_for_sealing(&self) -> &[u8; 32] {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    };
}

secret_type!(
    /// An object's own random data key (SOP §11.2).
    Dek
);
secret_type!(
    /// A domain's key-encryption key (SOP §2.8).
    Kek
);
secret_type!(
    /// Root of the keys that protect this node's local database (DESIGN §5).
    DatabaseKey
);

impl Dek {
    /// What manifest and access record both carry, so that no record can open the object to another content.
    pub fn commitment(&self) -> DekCommitment {
        DekCommitment::from_bytes(*self.derive("sovm sop dek-commit v1", &[]))
    }
}

impl Kek {
    /// What a KekRecord carries; compared after a recovery root opened (DESIGN §16.4).
    pub fn commitment(&self) -> [u8; 32] {
        // Safe to publish: a derived key of its own context reveals nothing of the KEK.
        *self.derive("sovm kek-commit v1", &[])
    }
}

/// A site's signing key. The same key is the node's endpoint key (DESIGN §5).
pub struct SiteKey(ed25519_dalek::SigningKey);

impl SiteKey {
    /// Draws a fresh key from the operating system.
    pub fn generate() -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        rand::rng().fill_bytes(&mut *seed);
        Self::from_seed(&seed)
    }

    /// Restores a key from its 32-byte seed.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// The public half, which is the site's id.
    pub fn site_id(&self) -> SiteId {
        SiteId::from_bytes(self.0.verifying_key().to_bytes())
    }

    /// The seed, for the key store and for the transport endpoint, which must present the same key.
    pub fn expose_for_sealing(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        use ed25519_dalek::Signer as _;
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for SiteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SiteKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SOP-22: secrets cannot be printed.
    #[test]
    fn debug_prints_the_name_only() {
        assert_eq!(format!("{:?}", Dek::from_bytes([7; 32])), "Dek(..)");
        assert_eq!(format!("{:?}", SiteKey::from_seed(&[7; 32])), "SiteKey(..)");
    }

    #[test]
    fn derived_keys_differ_by_context_and_suffix() {
        let kek = Kek::from_bytes([1; 32]);
        let a = kek.derive("a", &[]);
        assert_ne!(*a, *kek.derive("b", &[]));
        assert_ne!(*a, *kek.derive("a", &[0]));
    }
}
