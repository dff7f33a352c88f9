//! What both sides compute about one join.

use sovm_object::{
    cbor::{Encoder, Field as _},
    id::{InviteId, SiteId},
};

use super::{
    message::{Offer, Proof},
    words::Words,
};

/// The two ends of one join and the connection between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) joiner: SiteId,
    pub(super) inviter: SiteId,
    /// Exported from the connection, so that a proof is worth nothing on another one.
    pub(super) channel_binding: [u8; 32],
}

impl Ends {
    /// MAC over channel, ends, key packages and binding.
    pub(super) fn mac(&self, mac_key: &[u8; 32], binding: &[u8], offers: &[Offer]) -> [u8; 32] {
        *self.mac_hash(mac_key, binding, offers).as_bytes()
    }

    /// Compares in constant time.
    pub(super) fn verify(&self, mac_key: &[u8; 32], proof: &Proof) -> bool {
        self.mac_hash(mac_key, &proof.binding, &proof.offers) == proof.mac
    }

    fn mac_hash(&self, mac_key: &[u8; 32], binding: &[u8], offers: &[Offer]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(mac_key);
        hasher.update(b"sovm join v1").update(&self.channel_binding);
        hasher.update(self.joiner.as_bytes()).update(self.inviter.as_bytes());
        hasher
            .update(&hash_of_offers(offers))
            .update(blake3::hash(binding).as_bytes());
        hasher.finalize()
    }

    /// The words both people compare. Everything an attacker in the middle would have to change goes in.
    pub(super) fn words(
        &self,
        invite: &InviteId,
        binding: &[u8],
        offers: &[Offer],
        joiner_nonce: &[u8; 32],
        inviter_nonce: &[u8; 32],
    ) -> Words {
        let mut hasher = blake3::Hasher::new_derive_key("sovm join-words v1");
        hasher
            .update(invite.as_bytes())
            .update(self.joiner.as_bytes())
            .update(self.inviter.as_bytes());
        hasher
            .update(blake3::hash(binding).as_bytes())
            .update(&hash_of_offers(offers));
        hasher.update(joiner_nonce).update(inviter_nonce);
        let hash = hasher.finalize();
        Words::from_bytes(std::array::from_fn(|i| hash.as_bytes()[i]))
    }
}

pub(super) fn commitment(nonce: &[u8; 32]) -> [u8; 32] {
    blake3::derive_key("sovm join-commit v1", nonce)
}

fn hash_of_offers(offers: &[Offer]) -> [u8; 32] {
    let mut e = Encoder::new();
    e.array(offers.len());
    for offer in offers {
        offer.encode(&mut e);
    }
    *blake3::hash(&e.into_vec()).as_bytes()
}
