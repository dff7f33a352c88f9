//! The age files of this crate: keys from and to raw bytes, files of a chosen length, and faults by name.
//!
//! Everything here is ordinary age: a file written by this module opens with any age implementation that has the key.

use std::{
    cell::Cell,
    io::{Read as _, Write},
    iter,
};

use age::secrecy::{ExposeSecret as _, SecretString};
use bech32::{FromBase32 as _, ToBase32 as _, Variant};
use zeroize::Zeroizing;

const SECRET_PREFIX: &str = "age-secret-key-";
const PUBLIC_PREFIX: &str = "age";
/// scrypt work factor of what we write: 2^17 needs 128 MiB, which a small board still has.
const SCRYPT_LOG_N: u8 = 17;
/// Highest work factor we accept, so that a planted file cannot eat a gigabyte.
const SCRYPT_MAX_LOG_N: u8 = 19;
/// An age payload is cut into chunks of this many bytes.
const CHUNK: usize = 65_536;
/// Authentication tag of each chunk.
const TAG: usize = 16;

/// Why an age file did not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgeFault {
    /// The first bytes are not those of an age file.
    #[error("it is not an age file")]
    NotAge,
    /// The file ends too early.
    #[error("it is cut short")]
    Truncated,
    /// Bytes changed since it was written.
    #[error("it is damaged")]
    Damaged,
    /// The key or passphrase is another one.
    #[error("it is locked with another key")]
    WrongKey,
    /// The passphrase file demands more work than any file of ours.
    #[error("it asks for 2^{0} units of passphrase work, more than this build accepts")]
    TooMuchWork(u8),
}

/// The secret half of an age X25519 key, as raw bytes.
pub struct AgeSecret(Zeroizing<[u8; 32]>);

impl std::fmt::Debug for AgeSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AgeSecret(..)")
    }
}

impl AgeSecret {
    /// Draws a fresh key from the operating system.
    pub fn generate() -> Self {
        use rand::RngCore as _;
        let mut bytes = Zeroizing::new([0; 32]);
        rand::rng().fill_bytes(&mut *bytes);
        Self(bytes)
    }

    /// Takes raw bytes, as derived from a recovery kit.
    pub const fn from_bytes(bytes: Zeroizing<[u8; 32]>) -> Self {
        Self(bytes)
    }

    /// Reads age's text form, `AGE-SECRET-KEY-1…`; `None` when it is not one.
    pub fn from_text(text: &str) -> Option<Self> {
        let (prefix, data, variant) = bech32::decode(text.trim()).ok()?;
        if prefix != SECRET_PREFIX || variant != Variant::Bech32 {
            return None;
        }
        let bytes = Zeroizing::new(Vec::from_base32(&data).ok()?);
        Some(Self(Zeroizing::new(<[u8; 32]>::try_from(&bytes[..]).ok()?)))
    }

    /// Age's text form, for a key file.
    pub fn to_text(&self) -> Zeroizing<String> {
        let lower = Zeroizing::new(
            bech32::encode(SECRET_PREFIX, self.0.to_base32(), Variant::Bech32).expect("the prefix is valid"),
        );
        Zeroizing::new(lower.to_uppercase())
    }

    /// The public half.
    pub fn recipient(&self) -> AgeRecipient {
        let public = self.identity().to_public().to_string();
        AgeRecipient::from_text(&public).expect("age prints a valid recipient")
    }

    /// A key for one purpose of its own, independent of the encryption.
    pub(crate) fn derive(&self, context: &'static str) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(blake3::derive_key(context, &*self.0))
    }

    fn identity(&self) -> age::x25519::Identity {
        self.to_text()
            .parse()
            .expect("32 bytes in age's text form are an identity")
    }
}

/// The public half of an age X25519 key: 32 bytes, as a KitRecord carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgeRecipient([u8; 32]);

impl AgeRecipient {
    /// Takes the bytes of a KitRecord.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn from_text(text: &str) -> Option<Self> {
        let (prefix, data, variant) = bech32::decode(text).ok()?;
        if prefix != PUBLIC_PREFIX || variant != Variant::Bech32 {
            return None;
        }
        Vec::from_base32(&data).ok()?.try_into().ok().map(Self)
    }

    fn recipient(&self) -> age::x25519::Recipient {
        bech32::encode(PUBLIC_PREFIX, self.0.to_base32(), Variant::Bech32)
            .expect("the prefix is valid")
            .parse()
            .expect("32 bytes in age's text form are a recipient")
    }
}

/// Who can open a file.
pub(crate) enum Lock<'a> {
    Recipients(&'a [AgeRecipient]),
    Passphrase(&'a SecretString),
}

/// What is tried on a file.
pub(crate) enum Key<'a> {
    Secret(&'a AgeSecret),
    Passphrase(&'a SecretString),
}

/// Why a file could not be written: only a recipient that is no curve point, or none at all, can do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no key to encrypt to")]
pub(crate) struct NoRecipient;

/// Writes an age file whose whole length is the first of `targets` that fits.
///
/// The header's length is known only after it was made (age adds a random stanza), so `fill` is asked for a plaintext of
/// an exact length afterwards, and answers `None` when it cannot make one.
pub(crate) fn seal_sized(
    lock: Lock<'_>,
    targets: impl Iterator<Item = usize>,
    mut fill: impl FnMut(usize) -> Option<Zeroizing<Vec<u8>>>,
) -> Result<Vec<u8>, NoRecipient> {
    let encryptor = match lock {
        Lock::Recipients(recipients) => {
            let recipients: Vec<_> = recipients.iter().map(AgeRecipient::recipient).collect();
            age::Encryptor::with_recipients(recipients.iter().map(|r| r as &dyn age::Recipient))
        }
        Lock::Passphrase(passphrase) => {
            let mut recipient = age::scrypt::Recipient::new(passphrase.clone());
            recipient.set_work_factor(SCRYPT_LOG_N);
            age::Encryptor::with_recipients(iter::once(&recipient as &dyn age::Recipient))
        }
    }
    .map_err(|_| NoRecipient)?;
    let written = Cell::new(0);
    let mut stream = encryptor
        .wrap_output(Counted {
            out: Vec::new(),
            written: &written,
        })
        .expect("writing to memory cannot fail");
    for target in targets {
        let Some(plaintext) = plaintext_room(target, written.get()).and_then(&mut fill) else {
            continue;
        };
        stream.write_all(&plaintext).expect("writing to memory cannot fail");
        let out = stream.finish().expect("writing to memory cannot fail").out;
        debug_assert_eq!(out.len(), target);
        return Ok(out);
    }
    Err(NoRecipient)
}

/// How long the plaintext of a file of `target` bytes is, if there is such a plaintext.
fn plaintext_room(target: usize, header: usize) -> Option<usize> {
    let body = target.checked_sub(header)?;
    let chunks = body.div_ceil(CHUNK + TAG);
    let plain = body.checked_sub(chunks * TAG)?;
    (plain > 0 && plain.div_ceil(CHUNK) == chunks).then_some(plain)
}

struct Counted<'a> {
    out: Vec<u8>,
    written: &'a Cell<usize>,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.out.extend_from_slice(bytes);
        self.written.set(self.out.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Whether a file is locked with a passphrase (else with a key).
pub(crate) fn wants_passphrase(file: &[u8]) -> Result<bool, AgeFault> {
    age::Decryptor::new_buffered(file)
        .map(|d| d.is_scrypt())
        .map_err(|e| fault(&e, file))
}

/// Opens a file whole.
pub(crate) fn open(file: &[u8], key: Key<'_>) -> Result<Zeroizing<Vec<u8>>, AgeFault> {
    let decryptor = age::Decryptor::new_buffered(file).map_err(|e| fault(&e, file))?;
    let opened = match key {
        Key::Secret(secret) => decryptor.decrypt(iter::once(&secret.identity() as &dyn age::Identity)),
        Key::Passphrase(passphrase) => {
            let mut identity = age::scrypt::Identity::new(passphrase.clone());
            identity.set_max_work_factor(SCRYPT_MAX_LOG_N);
            decryptor.decrypt(iter::once(&identity as &dyn age::Identity))
        }
    };
    let mut reader = opened.map_err(|e| fault(&e, file))?;
    // Room for everything at once, so that growing leaves no half copies behind.
    let mut plaintext = Zeroizing::new(Vec::with_capacity(file.len()));
    reader.read_to_end(&mut plaintext).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => AgeFault::Truncated,
        _ => AgeFault::Damaged,
    })?;
    Ok(plaintext)
}

/// Whether bytes begin like an age file. Blind storage is full of other things.
pub(crate) fn looks_like_age(bytes: &[u8]) -> bool {
    bytes.starts_with(b"age-encryption.org/v1\n")
}

fn fault(error: &age::DecryptError, file: &[u8]) -> AgeFault {
    use age::DecryptError as E;
    match error {
        E::NoMatchingKeys | E::DecryptionFailed | E::KeyDecryptionFailed => AgeFault::WrongKey,
        E::ExcessiveWork { required, .. } => AgeFault::TooMuchWork(*required),
        E::Io(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => AgeFault::Truncated,
        E::UnknownFormat => AgeFault::NotAge,
        _ if file.is_empty() => AgeFault::Truncated,
        _ if !looks_like_age(file) => AgeFault::NotAge,
        _ => AgeFault::Damaged,
    }
}

/// Exposes a passphrase's length, for a strength check before it is used.
pub(crate) fn is_empty(passphrase: &SecretString) -> bool {
    passphrase.expose_secret().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(n: usize) -> Option<Zeroizing<Vec<u8>>> {
        Some(Zeroizing::new(vec![7; n]))
    }

    #[test]
    fn a_secret_survives_its_text_form_and_no_other_text_is_one() {
        let secret = AgeSecret::from_bytes(Zeroizing::new([9; 32]));
        let text = secret.to_text();
        assert!(text.starts_with("AGE-SECRET-KEY-1"));
        assert_eq!(*AgeSecret::from_text(&text).unwrap().0, [9; 32]);
        // age itself reads the same key.
        let theirs: age::x25519::Identity = text.parse().unwrap();
        assert_eq!(
            AgeRecipient::from_text(&theirs.to_public().to_string()),
            Some(secret.recipient())
        );
        for bad in [
            "",
            "AGE-SECRET-KEY-1",
            "age1qqqq",
            &theirs.to_public().to_string(),
            &text[..text.len() - 1],
        ] {
            assert!(AgeSecret::from_text(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn files_have_exactly_the_length_asked_for() {
        let secret = AgeSecret::generate();
        let recipients = [secret.recipient(), AgeSecret::generate().recipient()];
        for target in [1_024, 4_096, 65_536, 66_000, 131_072 + 400, 200_000] {
            let targets = [16, target, 4 * target].into_iter();
            let file = seal_sized(Lock::Recipients(&recipients), targets, exact).unwrap();
            assert!(
                file.len() == target || file.len() == 4 * target,
                "{target} gave {}",
                file.len()
            );
            assert!(open(&file, Key::Secret(&secret)).unwrap().iter().all(|b| *b == 7));
        }
        assert_eq!(
            seal_sized(Lock::Recipients(&[]), [4_096].into_iter(), exact),
            Err(NoRecipient)
        );
    }

    #[test]
    fn each_fault_has_its_name() {
        let secret = AgeSecret::generate();
        let file = seal_sized(Lock::Recipients(&[secret.recipient()]), [1_024].into_iter(), exact).unwrap();
        let other = AgeSecret::generate();
        assert_eq!(open(&file, Key::Secret(&other)).unwrap_err(), AgeFault::WrongKey);
        assert_eq!(open(b"", Key::Secret(&secret)).unwrap_err(), AgeFault::Truncated);
        assert_eq!(open(b"PARE1234", Key::Secret(&secret)).unwrap_err(), AgeFault::NotAge);
        assert_eq!(
            open(&file[..60], Key::Secret(&secret)).unwrap_err(),
            AgeFault::Truncated
        );
        for at in (0..file.len()).step_by(7) {
            let mut bad = file.clone();
            bad[at] ^= 1;
            assert!(open(&bad, Key::Secret(&secret)).is_err(), "flip at {at}");
        }
        for cut in 0..file.len() {
            assert!(open(&file[..cut], Key::Secret(&secret)).is_err(), "cut at {cut}");
        }
    }
}
