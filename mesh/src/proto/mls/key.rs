//! The key that signs for a site inside its MLS groups.

use std::fmt;

use ed25519_dalek::{Signer as _, SigningKey};
use openmls::prelude::SignatureScheme;
use openmls_traits::signatures::{Signer, SignerError};
use rand::RngCore as _;
use zeroize::Zeroizing;

/// MLS signature key of one site. Not the site key: a signed NodeBinding ties the two (DESIGN §5), so that the key inside
/// MLS messages can be replaced without a new identity.
pub struct MlsKey(SigningKey);

impl MlsKey {
    /// Draws a fresh key from the operating system.
    pub fn generate() -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        rand::rng().fill_bytes(&mut *seed);
        Self::from_seed(&seed)
    }

    /// Restores a key from its 32-byte seed.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// The public half, as it stands in a NodeBinding and in the leaf.
    pub fn public(&self) -> [u8; 32] {
        self.0.verifying_key().to_bytes()
    }

    /// The seed, for the key store.
    pub fn expose_for_sealing(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }
}

impl fmt::Debug for MlsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MlsKey(..)")
    }
}

impl Signer for MlsKey {
    fn sign(&self, payload: &[u8]) -> Result<Vec<u8>, SignerError> {
        Ok(self.0.sign(payload).to_bytes().to_vec())
    }

    fn signature_scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}
