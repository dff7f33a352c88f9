//! Sealing a content that is read as it is sealed, so that a file of any size takes the memory of one chunk.
//!
//! An object's id must be known before its bytes go into a store, and its layout follows from the content's length. So the
//! length is given beforehand and the content is read twice: [`Draft::measure`] seals into a hash, [`Draft::sealer`] seals
//! into the store. A content that changed in between has another id the second time, and the store refuses it: of the two
//! sealed forms only one ever leaves this module, so no nonce is seen twice.

use std::io::{self, Read};

use ring::aead::{Aad, LessSafeKey};
use zeroize::{Zeroize as _, Zeroizing};

use super::{CHUNK_BYTES, Layout, MAGIC, SealBlobError, TAG, chunk_key, chunk_nonce, seal::layout_for_writing};
use crate::{
    id::{KeyRef, StorageId},
    secret::Dek,
};

/// Bytes hashed at a time while a content is measured.
const MEASURE_BYTES: usize = 64 * 1024;

/// A blob that is about to be sealed: its key, its label, its layout. One draft is one object.
#[derive(Debug)]
pub struct Draft {
    dek: Dek,
    key_ref: KeyRef,
    content_len: u64,
    exact_byte_size: u64,
    layout: Layout,
}

impl Draft {
    /// A draft for `content_len` bytes, under a key that was drawn for it.
    pub fn new(content_len: u64, dek: Dek, key_ref: KeyRef) -> Result<Self, SealBlobError> {
        let (exact_byte_size, layout) = layout_for_writing(content_len)?;
        Ok(Self {
            dek,
            key_ref,
            content_len,
            exact_byte_size,
            layout,
        })
    }

    /// The bytes of the object, made as they are read. Fails when the content is shorter or longer than was said.
    pub fn sealer<R: Read>(&self, content: R) -> Sealer<R> {
        Sealer {
            content,
            key: chunk_key(&self.dek),
            key_ref: self.key_ref,
            layout: self.layout,
            content_len: self.content_len,
            content_left: self.content_len,
            inner_left: self.layout.inner_len(),
            next: Next::Chunk(0),
            // One spare byte: a full buffer would grow while reading, and leave plaintext behind where it was.
            ready: Zeroizing::new(Vec::with_capacity((CHUNK_BYTES + TAG) as usize + 1)),
            taken: 0,
        }
    }

    /// Seals the content into a hash: the id the object will have.
    pub fn measure(&self, content: impl Read) -> io::Result<StorageId> {
        let mut sealer = self.sealer(content);
        let mut hasher = blake3::Hasher::new();
        let mut piece = vec![0; MEASURE_BYTES];
        loop {
            match sealer.read(&mut piece)? {
                0 => return Ok(StorageId::from_bytes(*hasher.finalize().as_bytes())),
                read => hasher.update(&piece[..read]),
            };
        }
    }

    /// Length of the content.
    pub const fn content_len(&self) -> u64 {
        self.content_len
    }

    /// Length of the object.
    pub const fn total(&self) -> u64 {
        self.layout.total()
    }

    /// Length without padding, for the manifest only (SOP-76).
    pub const fn exact_byte_size(&self) -> u64 {
        self.exact_byte_size
    }

    /// The clear label in the trailer.
    pub const fn key_ref(&self) -> KeyRef {
        self.key_ref
    }

    /// The key, for wrapping. The draft is over with it.
    pub fn into_dek(self) -> Dek {
        self.dek
    }
}

/// What a sealer makes next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Next {
    Chunk(u64),
    Tail,
    Nothing,
    /// Something went wrong; what came out so far is no object.
    Failed,
}

/// A reader of sealed bytes over a reader of content.
pub struct Sealer<R> {
    content: R,
    key: LessSafeKey,
    key_ref: KeyRef,
    layout: Layout,
    content_len: u64,
    content_left: u64,
    inner_left: u64,
    next: Next,
    /// Sealed bytes nobody has taken yet, from `taken` on.
    ready: Zeroizing<Vec<u8>>,
    taken: usize,
}

impl<R: Read> Sealer<R> {
    fn make(&mut self) -> io::Result<()> {
        self.ready.clear();
        self.taken = 0;
        self.next = match std::mem::replace(&mut self.next, Next::Failed) {
            Next::Chunk(index) => {
                self.seal_chunk(index)?;
                if self.layout.is_last(index) {
                    Next::Tail
                } else {
                    Next::Chunk(index + 1)
                }
            }
            Next::Tail => {
                self.check_end()?;
                self.ready.resize(self.layout.filler() as usize, 0);
                self.ready.extend_from_slice(self.key_ref.as_bytes());
                self.ready.extend_from_slice(&MAGIC);
                Next::Nothing
            }
            Next::Nothing => Next::Nothing,
            Next::Failed => return Err(io::Error::other("sealing stopped before")),
        };
        Ok(())
    }

    fn seal_chunk(&mut self, index: u64) -> io::Result<()> {
        let len = self.inner_left.min(CHUNK_BYTES) as usize;
        if index == 0 {
            self.ready.extend_from_slice(&self.content_len.to_le_bytes());
        }
        let wanted = self.content_left.min((len - self.ready.len()) as u64);
        let read = (&mut self.content).take(wanted).read_to_end(&mut self.ready)? as u64;
        if read < wanted {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the content became shorter while it was read",
            ));
        }
        self.content_left -= read;
        self.inner_left -= len as u64;
        self.ready.resize(len, 0);
        let nonce = chunk_nonce(index, self.layout.is_last(index));
        let sealed = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::empty(), &mut self.ready);
        // SOP-109: what cannot be sealed is not written in another way.
        let tag = sealed.map_err(|_| io::Error::other("sealing failed"))?;
        self.ready.extend_from_slice(tag.as_ref());
        Ok(())
    }

    /// A content that goes on after its length is another one than was announced.
    fn check_end(&mut self) -> io::Result<()> {
        let mut beyond = Vec::new();
        if (&mut self.content).take(1).read_to_end(&mut beyond)? > 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the content became longer while it was read",
            ));
        }
        Ok(())
    }
}

impl<R: Read> Read for Sealer<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        if self.taken == self.ready.len()
            && let Err(error) = self.make()
        {
            // What was read but not sealed must not come out with the next call.
            self.ready.zeroize();
            return Err(error);
        }
        let len = out.len().min(self.ready.len() - self.taken);
        out[..len].copy_from_slice(&self.ready[self.taken..self.taken + len]);
        self.taken += len;
        Ok(len)
    }
}

impl<R> std::fmt::Debug for Sealer<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer")
            .field("layout", &self.layout)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        blob::{MAX_WRITTEN_TOTAL, stated_content_len},
        verified::MemoryObject,
    };

    fn content(len: usize) -> Vec<u8> {
        (0..len).map(|index| (index % 251) as u8 + 1).collect()
    }

    fn draft(len: u64) -> Draft {
        Draft::new(len, Dek::from_bytes([7; 32]), KeyRef::from_bytes([9; 16])).unwrap()
    }

    /// Gives its bytes in pieces of one length.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let len = out.len().min(self.1);
            self.0.read(&mut out[..len])
        }
    }

    /// SOP-57: streamed and whole sealing give the same object, however the content and the object are cut.
    #[test]
    fn a_stream_is_the_same_object() {
        for len in [0, 1, 65_527, 65_528, 65_529, 65_544, 131_064, 131_065, 300_000] {
            let bytes = content(len);
            let whole = super::super::seal(&bytes, Dek::from_bytes([7; 32]), KeyRef::from_bytes([9; 16])).unwrap();
            let draft = draft(len as u64);
            assert_eq!(draft.measure(&bytes[..]).unwrap(), whole.storage_id, "{len}");
            assert_eq!(draft.total(), whole.bytes.len() as u64);
            assert_eq!(draft.exact_byte_size(), whole.exact_byte_size);
            assert_eq!(stated_content_len(draft.exact_byte_size()), Some(len as u64));
            for (input, output) in [(usize::MAX, 1 << 20), (1_000, 7_919), (65_536, 16)] {
                let mut sealer = draft.sealer(Drops(&bytes, input));
                let mut sealed = Vec::new();
                let mut piece = vec![0; output];
                loop {
                    match sealer.read(&mut piece).unwrap() {
                        0 => break,
                        read => sealed.extend_from_slice(&piece[..read]),
                    }
                }
                assert_eq!(sealed, whole.bytes, "{len} in pieces of {input} and {output}");
            }
            let object = MemoryObject::verify(whole.storage_id, whole.bytes).unwrap();
            assert_eq!(*super::super::open(object.whole(), &draft.into_dek()).unwrap(), bytes);
        }
    }

    /// A file that grows or shrinks between looking at it and reading it is no object, and no end of one either.
    #[test]
    fn a_content_of_another_length_is_refused() {
        let bytes = content(70_000);
        for said in [69_999, 70_001, 0, 200_000] {
            let mut sealed = Vec::new();
            let draft = draft(said);
            let mut sealer = draft.sealer(&bytes[..]);
            assert!(sealer.read_to_end(&mut sealed).is_err(), "{said}");
            assert!(sealer.read(&mut [0]).is_err(), "a failed sealer does not end in order");
            assert!(draft.measure(&bytes[..]).is_err());
        }
    }

    /// A content that changed between the two readings has another id, so the store does not take it.
    #[test]
    fn a_content_that_changed_has_another_id() {
        let (mut bytes, draft) = (content(70_000), draft(70_000));
        let id = draft.measure(&bytes[..]).unwrap();
        bytes[69_999] ^= 1;
        let mut sealed = Vec::new();
        draft.sealer(&bytes[..]).read_to_end(&mut sealed).unwrap();
        assert!(MemoryObject::verify(id, sealed).is_err());
    }

    /// SOP-275: an object of profile 2 has 4 GiB at most when it is written.
    #[test]
    fn the_cap_of_the_writer() {
        let largest = stated_content_len(MAX_WRITTEN_TOTAL).unwrap();
        let make = |len| Draft::new(len, Dek::from_bytes([7; 32]), KeyRef::from_bytes([9; 16]));
        assert_eq!(make(largest).unwrap().total(), MAX_WRITTEN_TOTAL);
        for len in [largest + 1, MAX_WRITTEN_TOTAL, u64::MAX] {
            assert_eq!(make(len).err(), Some(SealBlobError::TooLong(len)));
        }
        assert!(Layout::for_content(largest + 1).is_some(), "readers take longer ones");
    }
}
