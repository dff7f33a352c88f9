//! ManifestOutline: what every build can read of a manifest that a newer build wrote (SOP-4).
//!
//! The fields read here keep number, type and meaning in every version: version, mesh, kind, object, producer, stamp, and the profile
//! where there is one. That is enough to check the signature, to say which object it is about, and to pass the exact bytes on. Nothing
//! else in it is believed.

use super::{ObjectKind, ObjectManifest, Profile};
use crate::{
    cbor::{DecodeError, Decoder, Encoder, Field, Payload},
    hlc::Hlc,
    id::{DomainId, MeshId, SiteId, StorageId},
    sign::Body,
};

/// The part of a manifest that stays the same in every version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestOutline {
    /// Its version.
    pub version: u64,
    /// The mesh.
    pub mesh_id: MeshId,
    /// What the object is for, by number.
    pub kind: u64,
    /// The object.
    pub storage_id: StorageId,
    /// Who wrote it.
    pub producer: SiteId,
    /// When it was written.
    pub created_hlc: Hlc,
    /// The object's byte format, by number, if it says one.
    pub profile: Option<u64>,
    /// The whole payload.
    payload: Vec<u8>,
}

impl ManifestOutline {
    /// Whether a later build than this one wrote it: version, kind or profile is one this build has no name for.
    pub fn is_newer(&self) -> bool {
        self.version > 1
            || !knows::<ObjectKind>(self.kind)
            || self.profile.is_some_and(|profile| !knows::<Profile>(profile))
    }
}

fn knows<T: Field>(number: u64) -> bool {
    let mut e = Encoder::new();
    e.uint(number);
    T::decode(&mut Decoder::new(&e.into_vec())).is_ok()
}

impl Payload for ManifestOutline {
    fn encode(&self, e: &mut Encoder) {
        e.encoded(&self.payload);
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        // Encoding again proves nothing here, since what is unknown cannot be written anew: the form is checked instead.
        let payload = d.any()?;
        let mut d = Decoder::new(payload);
        let (mut version, mut mesh_id, mut kind, mut storage_id) = (None, None, None, None);
        let (mut producer, mut created_hlc, mut profile) = (None, None, None);
        for _ in 0..d.map()? {
            match d.uint()? {
                1 => version = Some(d.uint()?),
                2 => mesh_id = Some(d.field()?),
                3 => kind = Some(d.uint()?),
                4 => storage_id = Some(d.field()?),
                8 => producer = Some(d.field()?),
                10 => created_hlc = Some(d.field()?),
                26 => profile = Some(d.uint()?),
                _ => {
                    d.any()?;
                }
            }
        }
        Ok(Self {
            version: version.ok_or(DecodeError::Missing(1))?,
            mesh_id: mesh_id.ok_or(DecodeError::Missing(2))?,
            kind: kind.ok_or(DecodeError::Missing(3))?,
            storage_id: storage_id.ok_or(DecodeError::Missing(4))?,
            producer: producer.ok_or(DecodeError::Missing(8))?,
            created_hlc: created_hlc.ok_or(DecodeError::Missing(10))?,
            profile,
            payload: payload.to_vec(),
        })
    }
}

impl Body for ManifestOutline {
    const CONTENT_TYPE: &'static str = ObjectManifest::CONTENT_TYPE;
    const CONTEXT_TAIL_ITEMS: usize = ObjectManifest::CONTEXT_TAIL_ITEMS;

    fn author(&self) -> SiteId {
        self.producer
    }

    fn domain(&self) -> Option<DomainId> {
        None
    }

    fn context_tail(&self, e: &mut Encoder) {
        e.uint(self.kind).bytes(self.storage_id.as_bytes());
    }
}

#[cfg(test)]
mod tests;
