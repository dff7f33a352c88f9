//! An encrypted temporary file, for inputs that come only once but must be read twice or at random (DESIGN §7, SOP-233).
//!
//! The key is drawn for the file and never leaves this process, and the file has no name: when the process ends, however
//! it ends, what is left on the disk is noise. Chunks of 65,536 bytes are sealed with AES-256-GCM under their index.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write as _},
    os::unix::fs::FileExt as _,
    path::Path,
    sync::Arc,
};

use rand::RngCore as _;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroizing;

const CHUNK: usize = 65_536;
const TAG: usize = 16;

/// A filled spool.
pub(crate) struct Spool {
    file: File,
    key: LessSafeKey,
    len: u64,
}

impl Spool {
    /// Drains `input` into a fresh spool in `dir`. Errors of reading and of writing stay apart, since they are about
    /// different things for a person.
    pub(crate) fn fill(dir: &Path, input: &mut dyn Read) -> Result<Self, SpoolError> {
        let mut secret = Zeroizing::new([0; 32]);
        rand::rng().fill_bytes(&mut *secret);
        let key = UnboundKey::new(&AES_256_GCM, &*secret).expect("the key has the length of an AES-256 key");
        let key = LessSafeKey::new(key);
        let mut file = tempfile::tempfile_in(dir).map_err(SpoolError::Write)?;
        let mut len = 0;
        let mut chunk = Zeroizing::new(Vec::with_capacity(CHUNK));
        for index in 0.. {
            chunk.clear();
            input
                .take(CHUNK as u64)
                .read_to_end(&mut chunk)
                .map_err(SpoolError::Read)?;
            if chunk.is_empty() {
                break;
            }
            len += chunk.len() as u64;
            let full = chunk.len() == CHUNK;
            let sealed = key.seal_in_place_separate_tag(nonce(index), Aad::empty(), &mut chunk);
            let tag = sealed.map_err(|_| SpoolError::Write(io::Error::other("sealing failed")))?;
            file.write_all(&chunk)
                .and_then(|()| file.write_all(tag.as_ref()))
                .map_err(SpoolError::Write)?;
            if !full {
                break;
            }
        }
        Ok(Self { file, key, len })
    }

    /// Bytes that were spooled.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    fn open_chunk(&self, index: u64, chunk: &mut Vec<u8>) -> io::Result<()> {
        let start = index * CHUNK as u64;
        let len = (self.len.saturating_sub(start)).min(CHUNK as u64) as usize;
        chunk.resize(if len == 0 { 0 } else { len + TAG }, 0);
        if len == 0 {
            return Ok(());
        }
        self.file.read_exact_at(chunk, index * (CHUNK + TAG) as u64)?;
        let opened = self.key.open_in_place(nonce(index), Aad::empty(), chunk);
        if opened.is_err() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the temporary file was changed",
            ));
        }
        chunk.truncate(len);
        Ok(())
    }
}

/// Which side of the spool failed.
#[derive(Debug)]
pub(crate) enum SpoolError {
    Read(io::Error),
    Write(io::Error),
}

fn nonce(index: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&index.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// One reader of a spool; many may read at once.
pub(crate) struct SpoolReader {
    spool: Arc<Spool>,
    position: u64,
    chunk: Zeroizing<Vec<u8>>,
    chunk_index: Option<u64>,
}

impl SpoolReader {
    pub(crate) fn new(spool: Arc<Spool>) -> Self {
        Self {
            spool,
            position: 0,
            chunk: Zeroizing::new(Vec::new()),
            chunk_index: None,
        }
    }
}

impl Read for SpoolReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.position >= self.spool.len || out.is_empty() {
            return Ok(0);
        }
        let index = self.position / CHUNK as u64;
        if self.chunk_index != Some(index) {
            self.chunk_index = None;
            self.spool.open_chunk(index, &mut self.chunk)?;
            self.chunk_index = Some(index);
        }
        let from = (self.position % CHUNK as u64) as usize;
        let len = out.len().min(self.chunk.len() - from);
        out[..len].copy_from_slice(&self.chunk[from..from + len]);
        self.position += len as u64;
        Ok(len)
    }
}

impl Seek for SpoolReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => self.spool.len.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(len: usize) -> Vec<u8> {
        (0..len).map(|index| (index * 7 % 253) as u8).collect()
    }

    fn spool(bytes: &[u8]) -> Arc<Spool> {
        Arc::new(Spool::fill(&std::env::temp_dir(), &mut &bytes[..]).unwrap())
    }

    #[test]
    fn what_goes_in_comes_out_twice_and_at_random() {
        for len in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 200_000] {
            let bytes = content(len);
            let spool = spool(&bytes);
            assert_eq!(spool.len(), len as u64);
            for _ in 0..2 {
                let mut read = Vec::new();
                SpoolReader::new(spool.clone()).read_to_end(&mut read).unwrap();
                assert_eq!(read, bytes);
            }
            let mut reader = SpoolReader::new(spool);
            for at in [0, len / 2, len.saturating_sub(1), len] {
                reader.seek(SeekFrom::Start(at as u64)).unwrap();
                let mut rest = Vec::new();
                reader.read_to_end(&mut rest).unwrap();
                assert_eq!(rest, bytes[at..]);
            }
            assert!(reader.seek(SeekFrom::Current(-(len as i64) - 1)).is_err());
        }
    }

    /// SOP-232, SOP-233: the file holds nothing of what went in.
    #[test]
    fn the_file_holds_no_plaintext() {
        let bytes = b"planted-word,".repeat(20_000);
        let spool = spool(&bytes);
        let mut on_disk = Vec::new();
        let mut file = spool.file.try_clone().unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut on_disk).unwrap();
        assert_eq!(on_disk.len(), bytes.len() + TAG * bytes.len().div_ceil(CHUNK));
        assert!(!on_disk.windows(12).any(|window| window == b"planted-word"));
    }

    /// SOP-234: each spool has a key of its own that is nowhere but in its process, and a file without a name, so a crash
    /// leaves nothing that could be opened, and nothing that was acknowledged lies there.
    #[test]
    fn every_spool_has_its_own_key_and_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = content(1_000);
        let spools = [0, 1].map(|_| Spool::fill(dir.path(), &mut bytes.as_slice()).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let on_disk = spools.each_ref().map(|spool| {
            let mut bytes = vec![0; 1_000 + TAG];
            spool.file.read_exact_at(&mut bytes, 0).unwrap();
            bytes
        });
        assert_ne!(on_disk[0], on_disk[1]);
    }

    #[test]
    fn a_changed_file_is_noticed() {
        let spool = spool(&content(100_000));
        spool.file.write_all_at(&[0], 70_000).unwrap();
        let mut read = Vec::new();
        let error = SpoolReader::new(spool.clone()).read_to_end(&mut read).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(read.len(), CHUNK);
        spool.file.set_len(10).unwrap();
        assert!(SpoolReader::new(spool).read_to_end(&mut read).is_err());
    }

    #[test]
    fn a_failing_input_and_a_failing_directory_are_told_apart() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("gone"))
            }
        }
        assert!(matches!(
            Spool::fill(&std::env::temp_dir(), &mut Broken),
            Err(SpoolError::Read(_))
        ));
        assert!(matches!(
            Spool::fill(Path::new("/nowhere/at/all"), &mut io::empty()),
            Err(SpoolError::Write(_))
        ));
    }
}
