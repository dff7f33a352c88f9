//! Entries: the one door for everything that is replicated.
//!
//! [`EntryIn::decode`] shapes bytes, [`EntryIn::verify`] consumes them, and a catalogue admits [`VerifiedEntry`] only. Records of
//! membership and entries of a domain's set share this door (DESIGN §2 tells them apart by what they are for).

pub mod sealed;

use crate::{
    cbor::{DecodeError, Payload},
    hlc::Hlc,
    id::{DomainId, MeshId, RecordId, SiteId},
    record::{
        AccessRecord, CommitRecord, DomainGenesis, HeadClaim, InventoryVersion, KekRecord, KitRecord, ManifestOutline,
        MembershipOp, MeshGenesis, MeshName, NodeBinding, ObjectManifest, PrefetchList, Registration, RejoinOffer,
        RootAnnouncement, TableGenesis, TableOp,
    },
    sign::{Body, Signed, SignedIn, VerifyError, decode_envelope},
};

macro_rules! entries {
    ($($(#[$meta:meta])* $kind:ident($body:ty) = $number:literal, hlc $hlc:ident, mesh $mesh:expr;)*) => {
        /// Which format an entry has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EntryKind { $($(#[$meta])* $kind,)* }

        impl EntryKind {
            /// Number under which stores index this kind.
            pub const fn as_u8(self) -> u8 {
                match self { $(Self::$kind => $number,)* }
            }

            /// The kind of a stored number.
            pub const fn from_u8(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$kind),)* _ => None }
            }
        }

        /// A decoded entry. Nothing in it is trusted yet.
        #[derive(Debug)]
        #[expect(clippy::large_enum_variant, reason = "entries are decoded one at a time")]
        pub enum EntryIn { $($(#[$meta])* $kind(SignedIn<$body>),)* }

        impl EntryIn {
            /// Decodes by the content type in the envelope; where two kinds share one, as the first of them.
            fn decode_known(bytes: &[u8]) -> Result<Self, DecodeError> {
                let longest = [$(<$body as Payload>::MAX_BYTES),*].into_iter().max().expect("there are formats");
                let (content_type, envelope) = decode_envelope(bytes, longest)?;
                $(if content_type == <$body as Body>::CONTENT_TYPE {
                    return SignedIn::from_envelope(envelope, bytes).map(Self::$kind);
                })*
                Err(DecodeError::UnknownContentType)
            }

            /// Its format.
            pub const fn kind(&self) -> EntryKind {
                match self { $(Self::$kind(_) => EntryKind::$kind,)* }
            }

            /// Proves author, mesh and context. The mesh is the one the verifier is in.
            pub fn verify(self, mesh: &MeshId) -> Result<VerifiedEntry, VerifyError> {
                match self {
                    $(Self::$kind(entry) => {
                        let claims_mesh: fn(&$body, &[u8], &MeshId) -> bool = $mesh;
                        if !claims_mesh(entry.claimed(), entry.bytes_in(), mesh) {
                            return Err(VerifyError::WrongMesh);
                        }
                        let context_mesh = match EntryKind::$kind {
                            EntryKind::MeshGenesis => &MeshGenesis::CONTEXT_MESH,
                            _ => mesh,
                        };
                        entry.verify(context_mesh).map(VerifiedEntry::$kind)
                    })*
                }
            }
        }

        /// An entry whose author, mesh and context are proved. Authority is judged at admission.
        #[derive(Clone, Debug)]
        pub enum VerifiedEntry { $($(#[$meta])* $kind(Signed<$body>),)* }

        impl VerifiedEntry {
            /// Its format.
            pub const fn kind(&self) -> EntryKind {
                match self { $(Self::$kind(_) => EntryKind::$kind,)* }
            }

            /// BLAKE3 of its exact signed bytes.
            pub fn id(&self) -> RecordId {
                match self { $(Self::$kind(entry) => entry.id(),)* }
            }

            /// Its exact signed bytes.
            pub fn bytes(&self) -> &[u8] {
                match self { $(Self::$kind(entry) => entry.bytes(),)* }
            }

            /// The stamp in it; shards sets and orders listings, never decides.
            pub fn hlc(&self) -> Hlc {
                match self { $(Self::$kind(entry) => entry.body().$hlc,)* }
            }

            /// Who signed it.
            pub fn author(&self) -> SiteId {
                match self { $(Self::$kind(entry) => entry.body().author(),)* }
            }

            /// The domain it names; manifests name none (SOP-126).
            pub fn domain(&self) -> Option<DomainId> {
                match self { $(Self::$kind(entry) => entry.body().domain(),)* }
            }
        }

        $(impl From<Signed<$body>> for VerifiedEntry {
            fn from(entry: Signed<$body>) -> Self {
                Self::$kind(entry)
            }
        })*
    };
}

entries! {
    /// The founding of the mesh.
    MeshGenesis(MeshGenesis) = 1, hlc created, mesh |_, bytes, mesh| blake3::hash(bytes).as_bytes() == mesh.as_bytes();
    /// The mesh's name.
    MeshName(MeshName) = 2, hlc hlc, mesh |b, _, mesh| b.mesh_id == *mesh;
    /// A site's key and name.
    NodeBinding(NodeBinding) = 3, hlc hlc, mesh |b, _, mesh| b.mesh_id == *mesh;
    /// A change of a roster.
    MembershipOp(MembershipOp) = 4, hlc hlc, mesh |b, _, mesh| b.mesh_id == *mesh;
    /// The founding of a domain.
    DomainGenesis(DomainGenesis) = 5, hlc created, mesh |b, _, mesh| b.mesh_id == *mesh;
    /// An MLS commit.
    CommitRecord(CommitRecord) = 6, hlc hlc, mesh |b, _, mesh| b.mesh_id == *mesh;
    /// Where a site's group state stands.
    HeadClaim(HeadClaim) = 7, hlc hlc, mesh |b, _, mesh| b.mesh_id == *mesh;
    /// A wish to be added again.
    RejoinOffer(RejoinOffer) = 8, hlc hlc, mesh |b, _, mesh| b.mesh_id == *mesh;
    /// A KEK's public part.
    KekRecord(KekRecord) = 9, hlc hlc, mesh |b, _, mesh| b.mesh_id == *mesh;
    /// A recovery kit's public halves.
    KitRecord(KitRecord) = 10, hlc hlc, mesh |b, _, mesh| b.mesh_id == *mesh;
    /// A new recovery root.
    RootAnnouncement(RootAnnouncement) = 11, hlc hlc, mesh |b, _, mesh| b.mesh_id == *mesh;
    /// The founding of a table.
    TableGenesis(TableGenesis) = 12, hlc hlc, mesh |b, _, mesh| b.mesh_id == *mesh;
    /// What an object is.
    Manifest(ObjectManifest) = 13, hlc created_hlc, mesh |b, _, mesh| b.mesh_id == *mesh;
    /// A grant of an object's key.
    Access(AccessRecord) = 14, hlc issued_hlc, mesh |b, _, mesh| b.mesh_id == *mesh;
    /// A change of a table's columns.
    TableOp(TableOp) = 15, hlc hlc, mesh |b, _, mesh| b.mesh_id == *mesh;
    /// What an object is, in a form this build cannot read in full.
    NewerManifest(ManifestOutline) = 16, hlc created_hlc, mesh |b, _, mesh| b.mesh_id == *mesh;
    /// A version of an Inventory's catalogue.
    InventoryVersion(InventoryVersion) = 17, hlc hlc, mesh |b, _, mesh| b.mesh_id == *mesh;
    /// Objects to fetch ahead of their manifests.
    PrefetchList(PrefetchList) = 18, hlc hlc, mesh |b, _, mesh| b.mesh_id == *mesh;
    /// An edition that a publisher asks to be recorded.
    Registration(Registration) = 19, hlc hlc, mesh |b, _, mesh| b.mesh_id == *mesh;
}

impl EntryIn {
    /// Decodes any entry by the content type in its envelope. A manifest of a later build is one of a kind of its own (SOP-4).
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_known(bytes).or_else(|error| match SignedIn::<ManifestOutline>::decode(bytes) {
            Ok(outline) if outline.claimed().is_newer() => Ok(Self::NewerManifest(outline)),
            _ => Err(error),
        })
    }
}

impl EntryKind {
    /// Whether entries of this kind travel and rest under a KEK. The others are needed before any KEK is held.
    pub const fn is_sealed(self) -> bool {
        matches!(
            self,
            Self::TableGenesis
                | Self::TableOp
                | Self::Manifest
                | Self::NewerManifest
                | Self::Access
                | Self::RootAnnouncement
                | Self::KitRecord
                | Self::InventoryVersion
                | Self::PrefetchList
                | Self::Registration
        )
    }

    /// Whether entries of this kind belong to the mesh as a whole. Membership ops are told apart by their domain.
    pub const fn is_mesh_level(self) -> bool {
        matches!(self, Self::MeshGenesis | Self::MeshName | Self::NodeBinding)
    }

    /// Whether blind replicas may hold entries of this kind: no names in them.
    pub const fn is_for_blind_replicas(self) -> bool {
        matches!(self, Self::MeshGenesis | Self::MembershipOp)
    }
}

/// The id a mesh gets from its founding record (DESIGN §16.2).
pub fn mesh_id_of(genesis: &Signed<MeshGenesis>) -> MeshId {
    MeshId::from_bytes(*genesis.id().as_bytes())
}

#[cfg(test)]
mod tests;
