//! The key of encrypted Parquet files, from a file (`--parquet-key-file`).

use std::{fmt, fs::File, io::Read as _, path::Path, sync::Arc};

use sovm_object::secret::Dek;
use zeroize::Zeroizing;

use super::error::IngestError;

/// Longest key file that is looked at.
const MAX_LEN: u64 = 1_024;

/// A 256-bit key of encrypted Parquet inputs.
pub struct ParquetKey(Dek);

impl ParquetKey {
    /// Reads 32 raw bytes, or 64 hex digits with white space around them.
    pub fn read(path: &Path) -> Result<Arc<Self>, IngestError> {
        let name = path.display().to_string();
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_LEN as usize));
        File::open(path)
            .and_then(|file| file.take(MAX_LEN).read_to_end(&mut bytes))
            .map_err(|source| super::input::unreadable(&name, source))?;
        Self::parse(&bytes).ok_or(IngestError::KeyFile { file: name })
    }

    fn parse(bytes: &[u8]) -> Option<Arc<Self>> {
        let mut key = Zeroizing::new([0; 32]);
        if bytes.len() == key.len() {
            key.copy_from_slice(bytes);
        } else {
            hex::decode_to_slice(bytes.trim_ascii(), &mut *key).ok()?;
        }
        Some(Arc::new(Self(Dek::from_bytes(*key))))
    }

    pub(super) const fn dek(&self) -> &Dek {
        &self.0
    }
}

impl fmt::Debug for ParquetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ParquetKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_bytes_and_hex_digits_are_keys() {
        let key = |bytes: &[u8]| ParquetKey::parse(bytes).map(|key| *key.dek().expose_for_sealing());
        assert_eq!(key(&[7; 32]), Some([7; 32]));
        assert_eq!(key("07".repeat(32).as_bytes()), Some([7; 32]));
        assert_eq!(key(format!(" {}\n", "AB".repeat(32)).as_bytes()), Some([0xab; 32]));
        for bad in [
            &b""[..],
            &[7; 31],
            &[7; 33],
            "07".repeat(31).as_bytes(),
            "zz".repeat(32).as_bytes(),
        ] {
            assert_eq!(key(bad), None, "{bad:?}");
        }
    }
}
