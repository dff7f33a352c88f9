//! Delivery of KEKs between members of one live MLS epoch (`mls.md` R5).
//!
//! ```text
//! COSE_Encrypt0 under MLS-Exporter("sovm kek-wrap v1", branch)
//!   COSE_Sign1 by the sender
//!     [generation, kek id, KEK]...   from the receiver's first entitled generation on
//! ```
//! Whoever is not a member of exactly this branch cannot open it, so each release of a KEK proves current membership. Any
//! holder may wrap for any other member, as often as asked: nothing is used up.

use std::fmt;

use sovm_object::{
    cbor::{DecodeError, Decoder, Encoder, Field, Payload},
    hlc::Hlc,
    id::{BranchId, DomainId, KekGeneration, KekId, MeshId, SiteId},
    kek::KekRing,
    seal0::{self, OpenError, SealedIn},
    secret::{Kek, SiteKey},
    sign::{Body, Signed, SignedIn, VerifyError},
};
use zeroize::Zeroizing;

const CONTENT_TYPE: &str = "sovm/kek-bundle-v1";

/// Keys in one bundle.
pub const MAX_KEKS: usize = 4_096;

/// Longest bundle.
pub const MAX_BUNDLE: usize = 512 * 1024;

/// Where and for whom a bundle is valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BundleContext {
    /// The mesh.
    pub mesh: MeshId,
    /// The domain.
    pub domain: DomainId,
    /// The branch both sides are on.
    pub branch: BranchId,
    /// The member it is for.
    pub receiver: SiteId,
}

/// Why a bundle gives no keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// Sealed on another branch, for another member or domain, or damaged.
    #[error("the key bundle does not open on this branch of the group")]
    Open(#[from] OpenError),
    /// What is inside is not of the format.
    #[error("the key bundle is malformed")]
    Malformed(#[from] DecodeError),
    /// The signature inside does not verify.
    #[error("the key bundle is not signed by its sender")]
    Signature(#[from] VerifyError),
    /// The sender says it is for another context than it was sealed in.
    #[error("the key bundle was made for another purpose")]
    WrongContext,
    /// A key is not the one its record commits to.
    #[error("KEK {0} in the bundle is not the key its record commits to")]
    WrongKey(KekId),
}

/// Keys out of a bundle.
#[derive(Debug)]
pub struct OpenedBundle {
    /// Who wrapped them. The caller checks that it is in the roster.
    pub sender: SiteId,
    /// Keys that their records prove.
    pub keks: Vec<(KekGeneration, KekId, Kek)>,
    /// Keys whose record is not here yet: ask again when it is.
    pub unknown: Vec<KekId>,
}

/// Wraps, for one receiver, the keys it is entitled to.
///
/// `entitled` decides on keys at or above `history_from`: the receiver must be in the key's audience, late grants included.
/// `None` when there is nothing to give.
pub fn seal(
    wrap_key: &[u8; 32],
    context: &BundleContext,
    history_from: KekGeneration,
    ring: &KekRing,
    entitled: &dyn Fn(KekGeneration, &KekId) -> bool,
    sender: &SiteKey,
    hlc: Hlc,
) -> Option<Vec<u8>> {
    let keks: Vec<Entry> = ring
        .iter()
        .filter(|(generation, id, _)| *generation >= history_from && entitled(*generation, id))
        .map(|(generation, id, kek)| Entry {
            generation,
            id,
            kek: Kek::from_bytes(*kek.expose_for_sealing()),
        })
        .take(MAX_KEKS)
        .collect();
    if keks.is_empty() {
        return None;
    }
    let body = Bundle {
        mesh: context.mesh,
        domain: context.domain,
        branch: context.branch,
        receiver: context.receiver,
        sender: sender.site_id(),
        keks,
        hlc,
    };
    let signed = Signed::sign(body, sender, &context.mesh);
    Some(seal0::seal(
        wrap_key,
        CONTENT_TYPE,
        None,
        &external_aad(context),
        signed.bytes(),
    ))
}

/// Finds generation and commitment that the KEK record of an id states.
pub type RecordOf<'a> = dyn Fn(&KekId) -> Option<(KekGeneration, [u8; 32])> + 'a;

/// Opens a bundle for us and proves its keys against the KEK records we hold.
pub fn open(
    bundle: &[u8],
    wrap_key: &[u8; 32],
    context: &BundleContext,
    record_of: &RecordOf<'_>,
) -> Result<OpenedBundle, BundleError> {
    if bundle.len() > MAX_BUNDLE {
        return Err(DecodeError::TooLong {
            len: bundle.len(),
            limit: MAX_BUNDLE,
        }
        .into());
    }
    let sealed = SealedIn::decode(bundle)?;
    let plaintext = Zeroizing::new(sealed.open(wrap_key, CONTENT_TYPE, &external_aad(context))?);
    let signed = SignedIn::<Bundle>::decode(&plaintext)?.verify(&context.mesh)?;
    let body = signed.body();
    let inside = BundleContext {
        mesh: body.mesh,
        domain: body.domain,
        branch: body.branch,
        receiver: body.receiver,
    };
    if inside != *context {
        return Err(BundleError::WrongContext);
    }
    let mut opened = OpenedBundle {
        sender: body.sender,
        keks: Vec::new(),
        unknown: Vec::new(),
    };
    for entry in &body.keks {
        match record_of(&entry.id) {
            None => opened.unknown.push(entry.id),
            Some(record) if record == (entry.generation, entry.kek.commitment()) => {
                let kek = Kek::from_bytes(*entry.kek.expose_for_sealing());
                opened.keks.push((entry.generation, entry.id, kek));
            }
            Some(_) => return Err(BundleError::WrongKey(entry.id)),
        }
    }
    Ok(opened)
}

/// Arbitrary bytes through the decoders; for fuzzing. Must never panic.
pub fn fuzz_decode(bytes: &[u8]) {
    let _ = SealedIn::decode(bytes);
    let _ = SignedIn::<Bundle>::decode(bytes);
}

fn external_aad(context: &BundleContext) -> Vec<u8> {
    let mut e = Encoder::new();
    e.array(7)
        .text("sovm/sop")
        .uint(1)
        .text(CONTENT_TYPE)
        .field(&context.mesh)
        .field(&context.domain);
    e.field(&context.branch).field(&context.receiver);
    e.into_vec()
}

struct Entry {
    generation: KekGeneration,
    id: KekId,
    kek: Kek,
}

impl Field for Entry {
    fn encode(&self, e: &mut Encoder) {
        e.array(3)
            .uint(self.generation)
            .field(&self.id)
            .bytes(self.kek.expose_for_sealing());
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.array_of(3)?;
        let (generation, id) = (d.uint()?, d.field()?);
        let kek = Zeroizing::new(d.field::<[u8; 32]>()?);
        Ok(Self {
            generation,
            id,
            kek: Kek::from_bytes(*kek),
        })
    }
}

/// What the sender signs. Written by hand: a payload with secrets must not be printable or comparable.
struct Bundle {
    mesh: MeshId,
    domain: DomainId,
    branch: BranchId,
    receiver: SiteId,
    sender: SiteId,
    keks: Vec<Entry>,
    hlc: Hlc,
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bundle({} keys)", self.keks.len())
    }
}

impl Payload for Bundle {
    const MAX_BYTES: usize = MAX_BUNDLE;

    fn encode(&self, e: &mut Encoder) {
        e.array(8)
            .uint(1)
            .field(&self.mesh)
            .field(&self.domain)
            .field(&self.branch)
            .field(&self.receiver);
        e.field(&self.sender).array(self.keks.len());
        for entry in &self.keks {
            e.field(entry);
        }
        e.field(&self.hlc);
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.array_of(8)?;
        match d.uint()? {
            1 => {}
            newer => return Err(DecodeError::NewerVersion(newer)),
        }
        let (mesh, domain, branch, receiver, sender) = (d.field()?, d.field()?, d.field()?, d.field()?, d.field()?);
        let n = d.array()?;
        if n > MAX_KEKS as u64 {
            return Err(DecodeError::OutOfRange(7));
        }
        let keks = (0..n).map(|_| d.field()).collect::<Result<_, _>>()?;
        Ok(Self {
            mesh,
            domain,
            branch,
            receiver,
            sender,
            keks,
            hlc: d.field()?,
        })
    }
}

impl Body for Bundle {
    const CONTENT_TYPE: &'static str = CONTENT_TYPE;

    fn author(&self) -> SiteId {
        self.sender
    }

    fn domain(&self) -> Option<DomainId> {
        Some(self.domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Setup {
        ring: KekRing,
        context: BundleContext,
        sender: SiteKey,
    }

    fn kek_id(n: u64) -> KekId {
        KekId::from_bytes([n as u8; 16])
    }

    fn setup() -> Setup {
        let mut ring = KekRing::default();
        for generation in 1..=5 {
            ring.insert(generation, kek_id(generation), Kek::from_bytes([generation as u8; 32]));
        }
        let context = BundleContext {
            mesh: MeshId::from_bytes([1; 32]),
            domain: DomainId::from_bytes([2; 32]),
            branch: BranchId::from_bytes([3; 32]),
            receiver: SiteId::from_bytes([4; 32]),
        };
        Setup {
            ring,
            context,
            sender: SiteKey::from_seed(&[5; 32]),
        }
    }

    impl Setup {
        fn seal(&self, history_from: u64) -> Option<Vec<u8>> {
            seal(
                &[9; 32],
                &self.context,
                history_from,
                &self.ring,
                &|_, _| true,
                &self.sender,
                Hlc::new(7, 0),
            )
        }

        fn open(&self, bundle: &[u8], context: &BundleContext) -> Result<OpenedBundle, BundleError> {
            open(bundle, &[9; 32], context, &|id| {
                self.ring
                    .get(id)
                    .map(|kek| (self.ring.generation(id).unwrap(), kek.commitment()))
            })
        }
    }

    /// R5: only generations the receiver is entitled to are inside.
    #[test]
    fn history_limit_holds() {
        let setup = setup();
        for from in 1..=5 {
            let opened = setup.open(&setup.seal(from).unwrap(), &setup.context).unwrap();
            let generations: Vec<u64> = opened.keks.iter().map(|(generation, ..)| *generation).collect();
            assert_eq!(generations, (from..=5).collect::<Vec<_>>());
            assert_eq!(opened.sender, setup.sender.site_id());
        }
        assert!(setup.seal(6).is_none());
        let only_two = seal(
            &[9; 32],
            &setup.context,
            1,
            &setup.ring,
            &|_, id| *id == kek_id(2),
            &setup.sender,
            Hlc::new(7, 0),
        );
        assert_eq!(setup.open(&only_two.unwrap(), &setup.context).unwrap().keks.len(), 1);
    }

    /// DESIGN §8: a KEK is released on the same branch only, to the member it was wrapped for.
    #[test]
    fn other_contexts_are_refused() {
        let setup = setup();
        let bundle = setup.seal(1).unwrap();
        let contexts = [
            BundleContext {
                branch: BranchId::from_bytes([0; 32]),
                ..setup.context
            },
            BundleContext {
                domain: DomainId::from_bytes([0; 32]),
                ..setup.context
            },
            BundleContext {
                mesh: MeshId::from_bytes([0; 32]),
                ..setup.context
            },
            BundleContext {
                receiver: SiteId::from_bytes([0; 32]),
                ..setup.context
            },
        ];
        for context in contexts {
            assert!(matches!(setup.open(&bundle, &context), Err(BundleError::Open(_))));
        }
        let other_epoch = open(&bundle, &[8; 32], &setup.context, &|_| None);
        assert!(matches!(other_epoch, Err(BundleError::Open(_))));
        for at in 0..bundle.len() {
            let mut bad = bundle.clone();
            bad[at] ^= 1;
            assert!(setup.open(&bad, &setup.context).is_err(), "byte {at}");
        }
    }

    #[test]
    fn keys_are_proven_by_their_records() {
        let setup = setup();
        let bundle = setup.seal(1).unwrap();
        let unknown = open(&bundle, &[9; 32], &setup.context, &|_| None).unwrap();
        assert_eq!((unknown.keks.len(), unknown.unknown.len()), (0, 5));
        let forged = open(&bundle, &[9; 32], &setup.context, &|id| {
            Some((setup.ring.generation(id)?, [0; 32]))
        });
        assert!(matches!(forged, Err(BundleError::WrongKey(_))));
        let other_generation = open(&bundle, &[9; 32], &setup.context, &|id| {
            Some((99, setup.ring.get(id)?.commitment()))
        });
        assert!(matches!(other_generation, Err(BundleError::WrongKey(_))));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            fuzz_decode(&bytes);
        }
    }
}
