//! The digests of a file, all in one pass.

use std::{collections::BTreeMap, io};

use sha2::Digest as _;

use super::Measured;

/// Takes a file's bytes and gives its size and every digest this project computes.
pub(crate) struct Digester {
    size: u64,
    sha256: sha2::Sha256,
    md5: md5::Md5,
    blake3: blake3::Hasher,
    crc32c: u32,
}

/// The remainders of CRC-32C (Castagnoli), bits reversed.
const CRC32C: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut remainder = index as u32;
        let mut bit = 0;
        while bit < 8 {
            remainder = (remainder >> 1) ^ if remainder & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        table[index] = remainder;
        index += 1;
    }
    table
};

impl Digester {
    pub(crate) fn new() -> Self {
        Self {
            size: 0,
            sha256: sha2::Sha256::new(),
            md5: md5::Md5::default(),
            blake3: blake3::Hasher::new(),
            crc32c: !0,
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.size += bytes.len() as u64;
        self.sha256.update(bytes);
        self.md5.update(bytes);
        self.blake3.update(bytes);
        self.crc32c = bytes.iter().fold(self.crc32c, |crc, byte| {
            CRC32C[usize::from(crc as u8 ^ byte)] ^ (crc >> 8)
        });
    }

    pub(crate) fn finish(self) -> Measured {
        let digests = [
            ("sha256", hex::encode(self.sha256.finalize())),
            ("md5", hex::encode(self.md5.finalize())),
            ("blake3", self.blake3.finalize().to_hex().to_string()),
            ("crc32c", format!("{:08x}", !self.crc32c)),
        ];
        Measured {
            size: self.size,
            digests: BTreeMap::from(digests.map(|(name, hex)| (name.to_owned(), hex))),
        }
    }

    /// Digests bytes at hand.
    pub(crate) fn of(bytes: &[u8]) -> Measured {
        let mut digester = Self::new();
        digester.update(bytes);
        digester.finish()
    }
}

impl io::Write for Digester {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// INV-49: the published check values of each algorithm.
    #[test]
    fn digests_are_the_published_ones() {
        let measured = Digester::of(b"123456789");
        assert_eq!(measured.size, 9);
        let digest = |name: &str| measured.digests.get(name).map(String::as_str);
        assert_eq!(digest("crc32c"), Some("e3069283"));
        assert_eq!(digest("md5"), Some("25f9e794323b453885f5181f1b624d0b"));
        assert_eq!(
            digest("sha256"),
            Some("15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225")
        );
        let empty = Digester::of(b"");
        assert_eq!(
            empty.digests.get("blake3").map(String::as_str),
            Some("af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262")
        );
    }
}
