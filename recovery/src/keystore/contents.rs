//! What the key store keeps, and its bytes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use sovm_object::{
    cbor::{DecodeError, Decoder, Encoder, Nullable},
    hlc::Hlc,
    id::{DomainId, KekId, MeshId, RecordId, SiteId, StorageId},
    kek::KekRing,
    secret::{DatabaseKey, Kek, SiteKey},
};
use zeroize::Zeroizing;

use crate::chain::Lineage;

const VERSION: u64 = 1;

/// An MLS leaf signature key; never the site key (DESIGN §5).
pub struct MlsKey {
    /// Public half, as the NodeBinding carries it.
    pub public: [u8; 32],
    /// Private half, in the form the MLS library stores.
    pub private: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for MlsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MlsKey(..)")
    }
}

/// The newest recovery root a node knows, with what opens it (SOP-208).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootRef {
    /// The root.
    pub root_id: StorageId,
    /// Its number in the chain.
    pub recovery_generation: u64,
    /// Generation of the KEK it is sealed under.
    pub kek_generation: u64,
    /// That KEK.
    pub kek_id: KekId,
}

/// The root offered does not descend from the one held (SOP-225).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "recovery root {} (number {}) does not follow from root {} (number {}), which this node holds; nothing was changed. \
     To go back to an older state on purpose, recover it into an empty home: sovm recover --accept-older",
    offered.0.fmt_short(), offered.1, held.0.fmt_short(), held.1
)]
pub struct RootBackwards {
    /// What the key store holds: root and number.
    pub held: (StorageId, u64),
    /// What was offered.
    pub offered: (StorageId, u64),
}

/// Keys and anchors of one domain.
#[derive(Debug, Default)]
pub struct DomainKeys {
    /// The KEKs held, old ones included.
    pub ring: KekRing,
    /// Sites whose recovery roots are believed before any membership op is known (SOP-224).
    pub admins: BTreeSet<SiteId>,
    /// Heads of the membership ops.
    pub op_heads: BTreeSet<RecordId>,
    root: Option<RootRef>,
}

impl DomainKeys {
    /// The newest recovery root known.
    pub const fn root(&self) -> Option<&RootRef> {
        self.root.as_ref()
    }

    /// Moves to a newer root, which must descend from the one held (SOP-225).
    pub fn advance_root(&mut self, lineage: &Lineage) -> Result<(), RootBackwards> {
        let offered = *lineage.head();
        match self.root {
            Some(held) if held != offered && !lineage.descends_from(&held.root_id) => {
                let name = |root: RootRef| (root.root_id, root.recovery_generation);
                Err(RootBackwards {
                    held: name(held),
                    offered: name(offered),
                })
            }
            _ => {
                self.root = Some(offered);
                Ok(())
            }
        }
    }

    /// Goes to any root, because the operator said so.
    pub const fn accept_older_root(&mut self, root: RootRef) {
        self.root = Some(root);
    }
}

/// Everything the key store holds. Changed only through [`KeyStore::update`](super::KeyStore::update).
#[derive(Debug)]
pub struct Contents {
    /// The mesh this node belongs to.
    pub mesh: Option<MeshId>,
    /// MLS signature keys, newest last.
    pub mls_keys: Vec<MlsKey>,
    /// Keys per domain.
    pub domains: BTreeMap<DomainId, DomainKeys>,
    pub(super) site_key: SiteKey,
    pub(super) database_key: DatabaseKey,
    pub(super) revision: u64,
    pub(super) seq_ceiling: u64,
    pub(super) hlc_ceiling: Hlc,
    pub(super) incarnation: u64,
    pub(super) catalogue_commits: u64,
}

impl Contents {
    /// A new node's key store.
    pub fn new(site_key: SiteKey, database_key: DatabaseKey) -> Self {
        Self {
            mesh: None,
            mls_keys: Vec::new(),
            domains: BTreeMap::new(),
            site_key,
            database_key,
            revision: 0,
            seq_ceiling: 0,
            hlc_ceiling: Hlc::default(),
            incarnation: 0,
            catalogue_commits: 0,
        }
    }

    /// The keys of a domain, made empty when it is new.
    pub fn domain_mut(&mut self, domain: DomainId) -> &mut DomainKeys {
        self.domains.entry(domain).or_default()
    }

    pub(super) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut e = Encoder::new();
        e.map(11)
            .uint(1)
            .uint(VERSION)
            .uint(2)
            .uint(self.revision)
            .uint(3)
            .bytes(&*self.site_key.expose_for_sealing())
            .uint(4)
            .bytes(self.database_key.expose_for_sealing())
            .uint(5)
            .array(self.mls_keys.len());
        for key in &self.mls_keys {
            e.array(2).bytes(&key.public).bytes(&key.private);
        }
        e.uint(6)
            .field(&Nullable(self.mesh))
            .uint(7)
            .uint(self.seq_ceiling)
            .uint(8)
            .field(&self.hlc_ceiling)
            .uint(9)
            .uint(self.incarnation)
            .uint(10)
            .uint(self.catalogue_commits)
            .uint(11)
            .array(self.domains.len());
        for (id, domain) in &self.domains {
            e.array(5).field(id);
            encode_ring(&domain.ring, &mut e);
            match &domain.root {
                None => e.null(),
                Some(root) => e
                    .array(4)
                    .field(&root.root_id)
                    .uint(root.recovery_generation)
                    .uint(root.kek_generation)
                    .field(&root.kek_id),
            };
            encode_set(&domain.admins, &mut e);
            encode_set(&domain.op_heads, &mut e);
        }
        Zeroizing::new(e.into_vec())
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        if d.map()? != 11 {
            return Err(DecodeError::Malformed);
        }
        let key = |d: &mut Decoder<'_>, expected: u64| match d.uint()? {
            found if found == expected => Ok(()),
            _ => Err(DecodeError::Missing(expected)),
        };
        key(&mut d, 1)?;
        match d.uint()? {
            VERSION => {}
            newer => return Err(DecodeError::NewerVersion(newer)),
        }
        key(&mut d, 2)?;
        let revision = d.uint()?;
        key(&mut d, 3)?;
        let site_key = SiteKey::from_seed(&*secret_bytes(&mut d)?);
        key(&mut d, 4)?;
        let database_key = DatabaseKey::from_bytes(*secret_bytes(&mut d)?);
        key(&mut d, 5)?;
        let mut mls_keys = Vec::new();
        for _ in 0..d.array()? {
            d.array_of(2)?;
            mls_keys.push(MlsKey {
                public: d.field()?,
                private: Zeroizing::new(d.bytes()?.to_vec()),
            });
        }
        key(&mut d, 6)?;
        let mesh = d.field::<Nullable<MeshId>>()?.0;
        key(&mut d, 7)?;
        let seq_ceiling = d.uint()?;
        key(&mut d, 8)?;
        let hlc_ceiling = d.field()?;
        key(&mut d, 9)?;
        let incarnation = d.uint()?;
        key(&mut d, 10)?;
        let catalogue_commits = d.uint()?;
        key(&mut d, 11)?;
        let mut domains = BTreeMap::new();
        for _ in 0..d.array()? {
            d.array_of(5)?;
            let id = d.field()?;
            let ring = decode_ring(&mut d)?;
            let root = if d.null()? {
                None
            } else {
                d.array_of(4)?;
                Some(RootRef {
                    root_id: d.field()?,
                    recovery_generation: d.uint()?,
                    kek_generation: d.uint()?,
                    kek_id: d.field()?,
                })
            };
            let keys = DomainKeys {
                ring,
                root,
                admins: decode_set(&mut d)?,
                op_heads: decode_set(&mut d)?,
            };
            domains.insert(id, keys);
        }
        if !d.is_at_end() {
            return Err(DecodeError::Malformed);
        }
        Ok(Self {
            mesh,
            mls_keys,
            domains,
            site_key,
            database_key,
            revision,
            seq_ceiling,
            hlc_ceiling,
            incarnation,
            catalogue_commits,
        })
    }

    /// A second copy to work on, so that a failed write leaves memory as it was. Secrets have no `Clone`, and need none
    /// elsewhere.
    pub(super) fn copy(&self) -> Self {
        Self::decode(&self.encode()).expect("what was encoded decodes")
    }
}

fn secret_bytes(d: &mut Decoder<'_>) -> Result<Zeroizing<[u8; 32]>, DecodeError> {
    d.field().map(Zeroizing::new)
}

/// `[[generation, kek_id, kek]…]`, oldest first: the form both the key store and the ring blob use.
pub(crate) fn encode_ring(ring: &KekRing, e: &mut Encoder) {
    e.array(ring.len());
    for (generation, id, kek) in ring.iter() {
        e.array(3).uint(generation).field(&id).bytes(kek.expose_for_sealing());
    }
}

pub(crate) fn decode_ring(d: &mut Decoder<'_>) -> Result<KekRing, DecodeError> {
    let mut ring = KekRing::default();
    for _ in 0..d.array()? {
        d.array_of(3)?;
        let (generation, id) = (d.uint()?, d.field()?);
        ring.insert(generation, id, Kek::from_bytes(*secret_bytes(d)?));
    }
    Ok(ring)
}

pub(crate) fn encode_set<T: sovm_object::cbor::Field>(set: &BTreeSet<T>, e: &mut Encoder) {
    e.array(set.len());
    for item in set {
        e.field(item);
    }
}

pub(crate) fn decode_set<T: sovm_object::cbor::Field + Ord>(d: &mut Decoder<'_>) -> Result<BTreeSet<T>, DecodeError> {
    (0..d.array()?).map(|_| d.field()).collect()
}
