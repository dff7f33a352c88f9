//! The recovery kit: 32 random bytes a person keeps on paper (DESIGN §9).
//!
//! Two keys come out of them, each under its own label: an age identity that opens ring blobs, and an Ed25519 *recovery
//! site*, whose only right is to add the recovered machine. A signed [`KitRecord`] puts both public halves into the domain.

mod page;
mod words;

use std::fmt;

pub use page::{Fingerprint, KitError, NotAFingerprint, PageFacts, ParsedKit, ReadFacts, Replica};
use rand::RngCore as _;
use sovm_object::{
    hlc::Hlc,
    id::{DomainId, KitId, MeshId, RecordId, SiteId},
    record::KitRecord,
    secret::SiteKey,
};
pub use words::{LineFault, WordFault, WordsError};
use zeroize::Zeroizing;

use crate::age_file::{AgeRecipient, AgeSecret};

/// The secret of one kit, and the keys derived from it.
pub struct Kit {
    seed: Zeroizing<[u8; 32]>,
    age: AgeSecret,
    site: SiteKey,
}

impl fmt::Debug for Kit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kit({})", self.fingerprint())
    }
}

impl Kit {
    /// Draws a fresh kit from the operating system.
    pub fn generate() -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        rand::rng().fill_bytes(&mut *seed);
        Self::from_seed(seed)
    }

    /// The kit of these 32 bytes.
    pub fn from_seed(seed: Zeroizing<[u8; 32]>) -> Self {
        let age = AgeSecret::from_bytes(Zeroizing::new(blake3::derive_key("sovm kit age-identity v1", &*seed)));
        let site = Zeroizing::new(blake3::derive_key("sovm kit recovery-site v1", &*seed));
        Self {
            age,
            site: SiteKey::from_seed(&site),
            seed,
        }
    }

    /// The kit's id. It follows from the public halves, so that a record cannot give one kit's id to another's keys.
    pub fn id(&self) -> KitId {
        kit_id(&self.age_recipient(), &self.recovery_site())
    }

    /// The id in the short form printed on the page.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_kit(&self.id())
    }

    /// To whom ring blobs are encrypted.
    pub fn age_recipient(&self) -> AgeRecipient {
        self.age.recipient()
    }

    /// What opens ring blobs.
    pub fn age_secret(&self) -> &AgeSecret {
        &self.age
    }

    /// The site that may add the recovered machine.
    pub fn recovery_site(&self) -> SiteId {
        self.site.site_id()
    }

    /// Its key: endpoint key towards the replica's recover ALPN, and signer of the one Add op.
    pub fn site_key(&self) -> &SiteKey {
        &self.site
    }

    /// The body of the record that puts this kit into a domain, for an admin to sign.
    pub fn record(
        &self,
        (mesh_id, domain_id): (MeshId, DomainId),
        issuer: SiteId,
        seq: u64,
        ops_seen: Vec<RecordId>,
        hlc: Hlc,
    ) -> KitRecord {
        KitRecord {
            mesh_id,
            domain_id,
            kit_id: self.id(),
            age_recipient: *self.age_recipient().as_bytes(),
            recovery_site: self.recovery_site(),
            retired: false,
            issuer,
            seq,
            ops_seen,
            hlc,
        }
    }

    pub(crate) fn expose_seed(&self) -> &[u8; 32] {
        &self.seed
    }
}

/// The id that belongs to a kit's public halves.
pub fn kit_id(recipient: &AgeRecipient, recovery_site: &SiteId) -> KitId {
    let mut hasher = blake3::Hasher::new_derive_key("sovm kit-id v1");
    hasher.update(recipient.as_bytes());
    hasher.update(recovery_site.as_bytes());
    let hash = hasher.finalize();
    KitId::from_bytes(std::array::from_fn(|i| hash.as_bytes()[i]))
}

/// The kits that count: for each kit id the newest record by (seq, record id) wins, and a retirement always wins
/// (SOP part 2.16). Records whose id does not belong to their keys count for nothing.
pub fn active_kits<'a>(records: impl IntoIterator<Item = (RecordId, &'a KitRecord)>) -> Vec<&'a KitRecord> {
    use std::collections::BTreeMap;
    let mut newest: BTreeMap<KitId, (bool, u64, RecordId, &KitRecord)> = BTreeMap::new();
    for (id, record) in records {
        if record.kit_id != kit_id(&AgeRecipient::from_bytes(record.age_recipient), &record.recovery_site) {
            continue;
        }
        let candidate = (record.retired, record.seq, id, record);
        let standing = newest.entry(record.kit_id).or_insert(candidate);
        if (candidate.0, candidate.1, candidate.2) > (standing.0, standing.1, standing.2) {
            *standing = candidate;
        }
    }
    newest
        .into_values()
        .filter(|(retired, ..)| !retired)
        .map(|(.., record)| record)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kit: &Kit, seq: u64, retired: bool) -> (RecordId, KitRecord) {
        let ids = (MeshId::from_bytes([1; 32]), DomainId::from_bytes([2; 32]));
        let body = kit.record(ids, SiteId::from_bytes([3; 32]), seq, vec![], Hlc::default());
        (RecordId::from_bytes([seq as u8; 32]), KitRecord { retired, ..body })
    }

    #[test]
    fn the_two_keys_and_the_id_follow_from_the_seed_alone() {
        let kit = Kit::from_seed(Zeroizing::new([1; 32]));
        let again = Kit::from_seed(Zeroizing::new([1; 32]));
        assert_eq!(kit.id(), again.id());
        assert_eq!(kit.recovery_site(), again.recovery_site());
        assert_eq!(kit.age_recipient(), again.age_recipient());
        assert_ne!(kit.age_recipient().as_bytes(), kit.recovery_site().as_bytes());
        assert_ne!(kit.id(), Kit::generate().id());
    }

    /// SOP-22 for kits: a kit cannot be printed by accident.
    #[test]
    fn debug_shows_the_fingerprint_only() {
        let kit = Kit::from_seed(Zeroizing::new([1; 32]));
        assert_eq!(format!("{kit:?}"), format!("Kit({})", kit.fingerprint()));
        assert_eq!(kit.fingerprint().to_string().parse(), Ok(kit.fingerprint()));
    }

    /// SOP part 2.16: a retirement wins whatever its number, and a record with foreign keys is void.
    #[test]
    fn retired_kits_and_false_ids_do_not_count() {
        let (a, b) = (Kit::generate(), Kit::generate());
        let records = [
            record(&a, 1, false),
            record(&a, 2, true),
            record(&a, 3, false),
            record(&b, 4, false),
        ];
        let active = active_kits(records.iter().map(|(id, r)| (*id, r)));
        assert_eq!(active.iter().map(|r| r.kit_id).collect::<Vec<_>>(), [b.id()]);

        let (id, mut forged) = record(&b, 9, false);
        forged.age_recipient = *Kit::generate().age_recipient().as_bytes();
        assert!(active_kits([(id, &forged)]).is_empty());
    }
}
