//! Identifiers: one type per thing, so that no two 32-byte values can be swapped without a compile error.
//!
//! `Display` and `FromStr` use lower-case hex in full; [`fmt_short`](StorageId::fmt_short) gives ten digits for logs
//! and tables. Every id says what it identifies and the clause that defines it.
//!
//! ```compile_fail,E0308
//! # use sovm_object::id::{ManifestHash, StorageId};
//! // SOP-51, SOP-142: the hash of a manifest names no object.
//! fn wrong(hash: ManifestHash) -> StorageId { hash }
//! ```
//!
//! ```compile_fail,E0308
//! # use sovm_object::id::{ManifestHash, StorageId};
//! // SOP-142: the id of an object is no hash of a manifest.
//! fn wrong(id: StorageId) -> ManifestHash { id }
//! ```

use std::{fmt, str::FromStr};

/// Text was not the hex form of the id that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a {what}: expected {digits} hex digits")]
pub struct IdParseError {
    what: &'static str,
    digits: usize,
}

macro_rules! id_type {
    ($(#[$meta:meta])* $name:ident, $len:literal, $what:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $name([u8; $len]);

        impl $name {
            /// Length in bytes.
            pub const LEN: usize = $len;

            /// Takes the raw bytes as they stand in a decoded payload or key.
            pub const fn from_bytes(bytes: [u8; $len]) -> Self {
                Self(bytes)
            }

            /// Takes a slice; `None` when its length is wrong.
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self)
            }

            /// The raw bytes.
            pub const fn as_bytes(&self) -> &[u8; $len] {
                &self.0
            }

            /// First ten hex digits, for logs and tables.
            pub fn fmt_short(&self) -> String {
                hex::encode(&self.0[..5])
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex::encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.fmt_short())
            }
        }

        impl FromStr for $name {
            type Err = IdParseError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let mut bytes = [0; $len];
                hex::decode_to_slice(text.trim(), &mut bytes)
                    .map_err(|_| IdParseError { what: $what, digits: 2 * $len })?;
                Ok(Self(bytes))
            }
        }
    };
}

id_type!(
    /// The set of nodes that share one founding record: BLAKE3 of the signed MeshGenesis (DESIGN §16.2).
    MeshId, 32, "mesh id"
);
id_type!(
    /// Who may read: random 32 bytes drawn at DomainGenesis, never meaningful (SOP §7.5).
    DomainId, 32, "domain id"
);
id_type!(
    /// One node as an identity: its Ed25519 public key, equal to its endpoint id (DESIGN §2).
    SiteId, 32, "site id"
);
id_type!(
    /// Content address of an object: the iroh-blobs BLAKE3 root of its exact bytes (SOP §11.7).
    StorageId, 32, "storage id"
);
id_type!(
    /// Binds an access record to the exact signed manifest (SOP §12.3). Never a [`StorageId`].
    ManifestHash, 32, "manifest hash"
);
id_type!(
    /// Any signed entry or record: BLAKE3 of its exact signed bytes.
    RecordId, 32, "record id"
);
id_type!(
    /// One of possibly several KEKs of a generation: 16 random bytes.
    KekId, 16, "KEK id"
);
id_type!(
    /// A table across renames: 16 random bytes drawn at TableGenesis.
    TableId, 16, "table id"
);
id_type!(
    /// The opaque clear label of an object, never load-bearing (SOP §11.5).
    KeyRef, 16, "key reference"
);
id_type!(
    /// One invite; burnt together with the membership op that used it.
    InviteId, 16, "invite id"
);
id_type!(
    /// One recovery kit of a domain.
    KitId, 16, "kit id"
);
id_type!(
    /// A state of a domain's MLS group, derived from its epoch authenticator.
    BranchId, 32, "branch id"
);
id_type!(
    /// Commits a record to the exact DEK it wraps, since GCM alone commits to no key (SOP §7.5).
    DekCommitment, 32, "DEK commitment"
);
id_type!(
    /// Identity of a schema version: BLAKE3 of the deterministic CBOR of its columns (SOP §12.2).
    SchemaFingerprint, 32, "schema fingerprint"
);

/// Number of a domain's KEK, rising by one at each rotation.
pub type KekGeneration = u64;

impl From<ManifestHash> for RecordId {
    /// A manifest's hash is the record id of the manifest; the other direction needs a manifest in hand.
    fn from(hash: ManifestHash) -> Self {
        Self(hash.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_and_rejects() {
        let id = StorageId::from_bytes([0xab; 32]);
        assert_eq!(id.to_string().parse::<StorageId>().unwrap(), id);
        for bad in ["", "ab", &"zz".repeat(32), &"ab".repeat(33)] {
            assert!(bad.parse::<StorageId>().is_err(), "{bad}");
        }
        assert_eq!(format!("{id:?}"), "StorageId(ababababab)");
    }
}
