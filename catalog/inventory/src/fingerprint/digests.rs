//! Digests of an edition's files, all of them in one pass over the bytes.
//!
//! INV-49: a file entry has `digests` by algorithm, in lower-case hex: `sha256`, `md5`, `crc32c`, and any other a store
//! adds; here `blake3`, which for a data object is its `storage_id` and comes from whoever made the object.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Read, Write},
};

use md5::Md5;
use sha2::{Digest, Sha256};

const BUFFER_BYTES: usize = 64 * 1024;

/// How a file's bytes are read for hashing: as a stream, keeping nothing.
///
/// A [`Write`] as well, so that a file can be hashed while it is copied.
pub struct FileHasher {
    sha256: Sha256,
    md5: Md5,
    crc32c: Crc32c,
    blake3: Option<Box<blake3::Hasher>>,
    size_bytes: u64,
}

impl FileHasher {
    /// Starts before the first byte.
    #[expect(clippy::new_without_default, reason = "a hasher is begun, not defaulted")]
    pub fn new() -> Self {
        Self {
            sha256: Sha256::new(),
            md5: Md5::new(),
            crc32c: Crc32c::new(),
            blake3: None,
            size_bytes: 0,
        }
    }

    /// Computes BLAKE3 beside the others, for a data file whose maker's isn't at hand. To be called before the first byte.
    #[must_use]
    pub fn and_blake3(self) -> Self {
        Self {
            blake3: Some(Box::default()),
            ..self
        }
    }

    /// Takes the next bytes of the file.
    pub fn update(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        self.md5.update(bytes);
        self.crc32c.update(bytes);
        if let Some(blake3) = &mut self.blake3 {
            blake3.update(bytes);
        }
        self.size_bytes += bytes.len() as u64;
    }

    /// What the bytes so far come to.
    pub fn finish(self) -> FileDigests {
        FileDigests {
            sha256: self.sha256.finalize().into(),
            md5: self.md5.finalize().into(),
            crc32c: self.crc32c.finish(),
            blake3: self.blake3.map(|blake3| *blake3.finalize().as_bytes()),
            size_bytes: self.size_bytes,
        }
    }
}

impl Write for FileHasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The digests of one file, and its size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FileDigests {
    /// SHA-256.
    pub sha256: [u8; 32],
    /// MD5: the `Content-MD5` that Azure keeps.
    pub md5: [u8; 16],
    /// CRC-32C: what S3 and GCS keep for a whole object.
    pub crc32c: u32,
    /// BLAKE3, when the file's maker gave it: the `storage_id` of a data object.
    pub blake3: Option<[u8; 32]>,
    /// How many bytes were hashed.
    pub size_bytes: u64,
}

impl FileDigests {
    /// Reads a stream to its end.
    pub fn of_reader(mut reader: impl Read) -> io::Result<Self> {
        let mut hasher = FileHasher::new();
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(hasher.finish()),
                Ok(length) => hasher.update(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Adds the BLAKE3 that the file's maker knows.
    pub fn with_blake3(self, blake3: [u8; 32]) -> Self {
        Self {
            blake3: Some(blake3),
            ..self
        }
    }

    /// INV-49: the entry a manifest holds, lower-case hex by algorithm.
    pub fn to_entry(&self) -> BTreeMap<String, String> {
        let mut entry = BTreeMap::from([
            ("sha256".to_owned(), hex::encode(self.sha256)),
            ("md5".to_owned(), hex::encode(self.md5)),
            ("crc32c".to_owned(), hex::encode(self.crc32c.to_be_bytes())),
        ]);
        if let Some(blake3) = self.blake3 {
            entry.insert("blake3".to_owned(), hex::encode(blake3));
        }
        entry
    }

    /// Holds these digests against a manifest's entry.
    ///
    /// INV-49, INV-105: every digest that both have must be equal; one the entry has and this code cannot compute is passed over
    /// and reported, since a store may add any; an entry with none that can be compared proves nothing and is refused.
    pub fn check_entry(&self, entry: &BTreeMap<String, String>) -> Result<CheckedDigests, DigestMismatch> {
        let found = self.to_entry();
        let mut checked = CheckedDigests::default();
        for (algorithm, recorded) in entry {
            match found.get(algorithm) {
                None => checked.unknown.push(algorithm.clone()),
                Some(found) if found == recorded => checked.equal.push(algorithm.clone()),
                Some(found) => {
                    return Err(DigestMismatch::Differs {
                        algorithm: algorithm.clone(),
                        recorded: recorded.chars().take(128).collect(),
                        found: found.clone(),
                    });
                }
            }
        }
        if checked.equal.is_empty() {
            return Err(DigestMismatch::NothingToCompare);
        }
        Ok(checked)
    }
}

impl fmt::Debug for FileDigests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = self.to_entry();
        f.debug_struct("FileDigests")
            .field("size_bytes", &self.size_bytes)
            .field("digests", &entry)
            .finish()
    }
}

/// What a file was held against.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedDigests {
    /// Algorithms that gave the recorded value.
    pub equal: Vec<String>,
    /// Recorded algorithms that were not computed.
    pub unknown: Vec<String>,
}

/// A file is not the one its entry describes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestMismatch {
    /// One digest differs.
    #[error("the file's {algorithm} is {found}, its entry says \"{}\" (INV-49)", .recorded.escape_debug())]
    Differs {
        /// The algorithm.
        algorithm: String,
        /// What the entry says.
        recorded: String,
        /// What the bytes come to.
        found: String,
    },
    /// The entry has no digest that can be computed here.
    #[error("the file's entry has no digest of an algorithm known here, so nothing vouches for its bytes (INV-49)")]
    NothingToCompare,
}

/// CRC-32C (Castagnoli), as storage services keep it.
///
/// Eight bytes a step from eight tables: several times faster than the two hashes beside it, without code for particular
/// processors.
struct Crc32c {
    state: u32,
}

/// The polynomial 0x1EDC6F41, bits reversed.
const CASTAGNOLI: u32 = 0x82F6_3B78;

static CRC32C_TABLES: [[u32; 256]; 8] = crc32c_tables();

const fn crc32c_tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            let carry = if remainder & 1 == 1 { CASTAGNOLI } else { 0 };
            remainder = (remainder >> 1) ^ carry;
            bit += 1;
        }
        tables[0][byte] = remainder;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            // One more byte of zeros behind the byte of the table before.
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

impl Crc32c {
    fn new() -> Self {
        Self { state: u32::MAX }
    }

    fn update(&mut self, bytes: &[u8]) {
        let tables = &CRC32C_TABLES;
        let (steps, rest) = bytes.as_chunks::<8>();
        let mut state = self.state;
        for step in steps {
            let word = u64::from_le_bytes(*step) ^ u64::from(state);
            state = 0;
            for (position, byte) in word.to_le_bytes().into_iter().enumerate() {
                state ^= tables[7 - position][usize::from(byte)];
            }
        }
        for byte in rest {
            state = (state >> 8) ^ tables[0][((state ^ u32::from(*byte)) & 0xFF) as usize];
        }
        self.state = state;
    }

    fn finish(self) -> u32 {
        !self.state
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn digests(bytes: &[u8]) -> FileDigests {
        FileDigests::of_reader(bytes).unwrap()
    }

    /// INV-49: published check values of each algorithm, in lower-case hex.
    #[test]
    fn published_check_values() {
        let entry = digests(b"123456789").to_entry();
        assert_eq!(entry["crc32c"], "e3069283");
        assert_eq!(entry["md5"], "25f9e794323b453885f5181f1b624d0b");
        assert_eq!(
            entry["sha256"],
            "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"
        );
        assert!(!entry.contains_key("blake3"));
        let empty = digests(b"").to_entry();
        assert_eq!(empty["crc32c"], "00000000");
        assert_eq!(empty["md5"], "d41d8cd98f00b204e9800998ecf8427e");
        // RFC 3720, B.4: CRC-32C of 32 bytes each.
        assert_eq!(digests(&[0; 32]).to_entry()["crc32c"], "8a9136aa");
        assert_eq!(digests(&[0xFF; 32]).to_entry()["crc32c"], "62a8ab43");
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(digests(&rising).to_entry()["crc32c"], "46dd794e");
    }

    /// INV-49: BLAKE3's published check value, computed beside the others when asked.
    #[test]
    fn blake3_is_computed_when_asked() {
        let empty = FileHasher::new().and_blake3().finish();
        let published = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(empty.to_entry()["blake3"], published);
        let mut hasher = FileHasher::new().and_blake3();
        hasher.update(b"123");
        hasher.update(b"456789");
        let all = hasher.finish();
        assert_eq!(all.blake3, Some(*blake3::hash(b"123456789").as_bytes()));
        assert_eq!(FileDigests { blake3: None, ..all }, digests(b"123456789"));
    }

    /// INV-49: the caller's BLAKE3 stands beside the others and is compared like them.
    #[test]
    fn blake3_comes_from_the_caller() {
        let object = digests(b"object").with_blake3([0xAB; 32]);
        assert_eq!(object.to_entry()["blake3"], "ab".repeat(32));
        let mut entry = object.to_entry();
        assert_eq!(object.check_entry(&entry).unwrap().equal.len(), 4);
        entry.insert("blake3".to_owned(), "ac".repeat(32));
        let refusal = object.check_entry(&entry).unwrap_err();
        assert!(refusal.to_string().contains("blake3"), "{refusal}");
    }

    /// INV-49, INV-105: any one recorded digest that differs refuses the file, naming both values.
    #[test]
    fn one_differing_digest_refuses_the_file() {
        let recorded = digests(b"as sealed");
        for changed in [&b"as sealer"[..], b"as seale", b"as sealedd", b""] {
            for algorithm in ["sha256", "md5", "crc32c"] {
                let (_, value) = recorded.to_entry().remove_entry(algorithm).unwrap();
                let entry = BTreeMap::from([(algorithm.to_owned(), value.clone())]);
                recorded.check_entry(&entry).unwrap();
                let refusal = digests(changed).check_entry(&entry).unwrap_err().to_string();
                assert!(refusal.contains(&value) && refusal.contains(algorithm), "{refusal}");
            }
        }
    }

    /// INV-49: hex is lower-case; another spelling of the same digest is another text.
    #[test]
    fn upper_case_hex_is_refused() {
        let file = digests(b"x");
        let entry = file
            .to_entry()
            .into_iter()
            .map(|(name, value)| (name, value.to_uppercase()))
            .collect();
        assert!(matches!(file.check_entry(&entry), Err(DigestMismatch::Differs { .. })));
    }

    /// INV-49: a store may add algorithms; they are passed over, but vouch for nothing by themselves.
    #[test]
    fn unknown_algorithms_are_reported_and_prove_nothing() {
        let file = digests(b"x");
        let mut entry = file.to_entry();
        entry.insert("crc64nvme".to_owned(), "0".repeat(16));
        assert_eq!(file.check_entry(&entry).unwrap().unknown, ["crc64nvme"]);
        entry.retain(|name, _| name == "crc64nvme");
        assert_eq!(file.check_entry(&entry), Err(DigestMismatch::NothingToCompare));
        assert_eq!(
            file.check_entry(&BTreeMap::new()),
            Err(DigestMismatch::NothingToCompare)
        );
    }

    #[test]
    fn a_failing_reader_gives_no_digests() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is gone"))
            }
        }
        assert!(FileDigests::of_reader(io::Read::chain(&b"some"[..], Broken)).is_err());
    }

    proptest! {
        /// How the bytes are cut into reads does not show.
        #[test]
        fn pieces_hash_as_the_whole(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in any::<prop::sample::Index>()) {
            let cut = cut.index(bytes.len() + 1);
            let mut hasher = FileHasher::new();
            hasher.update(&bytes[..cut]);
            hasher.write_all(&bytes[cut..]).unwrap();
            prop_assert_eq!(hasher.finish(), digests(&bytes));
        }

        /// Eight bytes a step give what one bit a step gives.
        #[test]
        fn crc32c_equals_its_definition(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut state = u32::MAX;
            for byte in &bytes {
                state ^= u32::from(*byte);
                for _ in 0..8 {
                    state = if state & 1 == 1 { (state >> 1) ^ CASTAGNOLI } else { state >> 1 };
                }
            }
            prop_assert_eq!(digests(&bytes).crc32c, !state);
        }
    }
}
