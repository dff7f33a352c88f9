//! Opening a blob from verified bytes, whole or in ranges.

use std::ops::Range;

use ring::aead::Aad;
use zeroize::{Zeroize as _, Zeroizing};

use super::{CHUNK_BYTES, LENGTH_FIELD, Layout, MAGIC, TAG, chunk_key, chunk_nonce};
use crate::{
    id::{KeyRef, StorageId},
    secret::Dek,
    verified::{ReadError, VerifiedBytes, VerifiedRead},
};

/// Why verified bytes are not a blob of this key, or not the part that was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenBlobError {
    /// The store gave no verified bytes.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// No blob has this length.
    #[error("a blob cannot have {0} bytes")]
    Length(u64),
    /// The last four bytes are not the magic.
    #[error("the object is no blob: its last four bytes are not SVB1")]
    Magic,
    /// The filler must be zero, so that it can carry nothing.
    #[error("the blob's filler is not zero")]
    Filler,
    /// A tag failed although the bytes match the object's id (SOP-91).
    #[error("chunk {index} does not open: the key is another object's, or the producer wrote damage")]
    KeyMismatch {
        /// The chunk.
        index: u64,
    },
    /// The content claims more than the object holds.
    #[error("the blob claims {content_len} bytes of content and holds at most {capacity}")]
    ContentLength {
        /// Claimed length.
        content_len: u64,
        /// Room for content.
        capacity: u64,
    },
    /// What follows the content must be zero.
    #[error("the blob's padding is not zero")]
    Padding,
    /// The bytes given are not the part of the object that was needed.
    #[error("bytes {start}..{end} of the object were needed")]
    WrongPart {
        /// Start of the part.
        start: u64,
        /// End of the part.
        end: u64,
    },
    /// Outside the content.
    #[error("bytes {start}..{end} were asked of a content of {content_len}")]
    OutOfBounds {
        /// Start of the range.
        start: u64,
        /// End of the range.
        end: u64,
        /// Length of the content.
        content_len: u64,
    },
}

/// Opens a blob that is here whole, and checks all of it. The result is wiped when dropped.
pub fn open(object: &VerifiedBytes, dek: &Dek) -> Result<Zeroizing<Vec<u8>>, OpenBlobError> {
    let total = object.len() as u64;
    let layout = Layout::of_total(total).ok_or(OpenBlobError::Length(total))?;
    let tail = part(object, layout.tail())?;
    check_tail(tail)?;
    let key = chunk_key(dek);
    // Not more than the object itself, whose length is proven.
    let mut inner = Zeroizing::new(Vec::with_capacity(layout.inner_len() as usize));
    for index in 0..layout.chunks() {
        open_chunk(&key, &layout, index, part(object, layout.chunk(index))?, &mut inner)?;
    }
    let content_len = content_len(&layout, &inner)?;
    let end = (LENGTH_FIELD + content_len) as usize;
    if inner[end..].iter().any(|byte| *byte != 0) {
        return Err(OpenBlobError::Padding);
    }
    inner.truncate(end);
    inner.drain(..LENGTH_FIELD as usize);
    Ok(inner)
}

/// A blob of which only parts are read. Made from its first chunk and its tail, which prove layout and content length.
pub struct Blob {
    id: StorageId,
    layout: Layout,
    key: ring::aead::LessSafeKey,
    key_ref: KeyRef,
    content_len: u64,
}

impl Blob {
    /// What must be read first of an object with `total` bytes: its first chunk and its tail.
    pub fn head_ranges(total: u64) -> Result<[Range<u64>; 2], OpenBlobError> {
        let layout = Layout::of_total(total).ok_or(OpenBlobError::Length(total))?;
        Ok([layout.chunk(0), layout.tail()])
    }

    /// Checks what [`head_ranges`](Self::head_ranges) asked for. `total` is the proven length.
    pub fn open_head(
        total: u64,
        first: &VerifiedBytes,
        tail: &VerifiedBytes,
        dek: &Dek,
    ) -> Result<Self, OpenBlobError> {
        let layout = Layout::of_total(total).ok_or(OpenBlobError::Length(total))?;
        let wanted = layout.tail();
        if first.storage_id() != tail.storage_id() {
            return Err(OpenBlobError::WrongPart {
                start: wanted.start,
                end: wanted.end,
            });
        }
        let tail = part(tail, wanted)?;
        check_tail(tail)?;
        let key_ref = tail
            .last_chunk::<20>()
            .and_then(|trailer| KeyRef::from_slice(&trailer[..16]));
        let key_ref = key_ref.ok_or(OpenBlobError::Magic)?;
        let key = chunk_key(dek);
        let mut inner = Zeroizing::new(Vec::new());
        open_chunk(&key, &layout, 0, part(first, layout.chunk(0))?, &mut inner)?;
        let content_len = content_len(&layout, &inner)?;
        Ok(Self {
            id: first.storage_id(),
            layout,
            key,
            key_ref,
            content_len,
        })
    }

    /// Reads and checks the head of a stored blob.
    pub async fn open(store: &impl VerifiedRead, id: StorageId, dek: &Dek) -> Result<Self, OpenBlobError> {
        let total = store.size(id).await?;
        let [first, tail] = Self::head_ranges(total)?;
        let parts = store.read(id, &[first.clone(), tail]).await?;
        let [first, tail] = parts.as_slice() else {
            return Err(OpenBlobError::WrongPart {
                start: first.start,
                end: first.end,
            });
        };
        Self::open_head(total, first, tail, dek)
    }

    /// Length of the content.
    pub const fn content_len(&self) -> u64 {
        self.content_len
    }

    /// The clear label in the trailer. It finds and proves nothing (SOP-39).
    pub const fn key_ref(&self) -> KeyRef {
        self.key_ref
    }

    /// Which bytes of the object hold a range of the content; they are whole chunks.
    pub fn object_range(&self, content: &Range<u64>) -> Result<Range<u64>, OpenBlobError> {
        if content.start > content.end || content.end > self.content_len {
            return Err(OpenBlobError::OutOfBounds {
                start: content.start,
                end: content.end,
                content_len: self.content_len,
            });
        }
        let chunks = Layout::chunks_of_content(content);
        if chunks.is_empty() {
            return Ok(0..0);
        }
        Ok(self.layout.chunk(chunks.start).start..self.layout.chunk(chunks.end - 1).end)
    }

    /// Opens a range of the content from the bytes that [`object_range`](Self::object_range) named.
    pub fn open_range(&self, content: Range<u64>, bytes: &VerifiedBytes) -> Result<Zeroizing<Vec<u8>>, OpenBlobError> {
        let object = self.object_range(&content)?;
        let wrong = OpenBlobError::WrongPart {
            start: object.start,
            end: object.end,
        };
        if object.is_empty() {
            return Ok(Zeroizing::new(Vec::new()));
        }
        if bytes.storage_id() != self.id {
            return Err(wrong);
        }
        let chunks = Layout::chunks_of_content(&content);
        let mut inner = Zeroizing::new(Vec::with_capacity((object.end - object.start) as usize));
        for index in chunks.clone() {
            open_chunk(
                &self.key,
                &self.layout,
                index,
                part(bytes, self.layout.chunk(index))?,
                &mut inner,
            )?;
        }
        let skip = (LENGTH_FIELD + content.start - chunks.start * CHUNK_BYTES) as usize;
        let len = (content.end - content.start) as usize;
        inner.drain(..skip);
        inner[len..].zeroize();
        inner.truncate(len);
        Ok(inner)
    }

    /// Number of chunks, at least one.
    pub const fn chunks(&self) -> u64 {
        self.layout.chunks()
    }

    /// Reads whole chunks from a store and gives what they hold of the content. What follows the content must be zero, so
    /// reading all chunks run by run is the same check as [`open`], in the memory of one run.
    pub async fn read_chunks(
        &self,
        store: &impl VerifiedRead,
        chunks: Range<u64>,
    ) -> Result<Zeroizing<Vec<u8>>, OpenBlobError> {
        if chunks.is_empty() || chunks.end > self.layout.chunks() {
            return Ok(Zeroizing::new(Vec::new()));
        }
        let object = self.layout.chunk(chunks.start).start..self.layout.chunk(chunks.end - 1).end;
        let parts = store.read(self.id, std::slice::from_ref(&object)).await?;
        let wrong = || OpenBlobError::WrongPart {
            start: object.start,
            end: object.end,
        };
        let bytes = parts.first().filter(|bytes| bytes.storage_id() == self.id);
        self.open_chunks(chunks, bytes.ok_or_else(wrong)?)
    }

    fn open_chunks(&self, chunks: Range<u64>, bytes: &VerifiedBytes) -> Result<Zeroizing<Vec<u8>>, OpenBlobError> {
        let mut inner = Zeroizing::new(Vec::with_capacity(bytes.len()));
        for index in chunks.clone() {
            let sealed = part(bytes, self.layout.chunk(index))?;
            open_chunk(&self.key, &self.layout, index, sealed, &mut inner)?;
        }
        // Where length field and content end, as places in `inner`.
        let begins = chunks.start * CHUNK_BYTES;
        let place = |at: u64| at.saturating_sub(begins).min(inner.len() as u64) as usize;
        let (from, to) = (place(LENGTH_FIELD), place(LENGTH_FIELD + self.content_len));
        if inner[to..].iter().any(|byte| *byte != 0) {
            return Err(OpenBlobError::Padding);
        }
        inner.truncate(to);
        inner.drain(..from.min(to));
        Ok(inner)
    }

    /// Reads a range of the content from a store.
    pub async fn read(
        &self,
        store: &impl VerifiedRead,
        content: Range<u64>,
    ) -> Result<Zeroizing<Vec<u8>>, OpenBlobError> {
        let object = self.object_range(&content)?;
        if object.is_empty() {
            return Ok(Zeroizing::new(Vec::new()));
        }
        let parts = store.read(self.id, std::slice::from_ref(&object)).await?;
        let [bytes] = parts.as_slice() else {
            return Err(OpenBlobError::WrongPart {
                start: object.start,
                end: object.end,
            });
        };
        self.open_range(content, bytes)
    }
}

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blob")
            .field("id", &self.id)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

/// The part of the object at `range`, out of bytes that must contain it.
fn part(bytes: &VerifiedBytes, range: Range<u64>) -> Result<&[u8], OpenBlobError> {
    let wrong = || OpenBlobError::WrongPart {
        start: range.start,
        end: range.end,
    };
    let offset = bytes.range().start;
    let start = range
        .start
        .checked_sub(offset)
        .and_then(|start| usize::try_from(start).ok())
        .ok_or_else(wrong)?;
    let end = range
        .end
        .checked_sub(offset)
        .and_then(|end| usize::try_from(end).ok())
        .ok_or_else(wrong)?;
    bytes.get(start..end).ok_or_else(wrong)
}

fn check_tail(tail: &[u8]) -> Result<(), OpenBlobError> {
    let (rest, magic) = tail.split_last_chunk::<4>().ok_or(OpenBlobError::Magic)?;
    if *magic != MAGIC {
        return Err(OpenBlobError::Magic);
    }
    let filler = &rest[..rest.len().saturating_sub(16)];
    if filler.iter().any(|byte| *byte != 0) {
        Err(OpenBlobError::Filler)
    } else {
        Ok(())
    }
}

fn open_chunk(
    key: &ring::aead::LessSafeKey,
    layout: &Layout,
    index: u64,
    sealed: &[u8],
    inner: &mut Vec<u8>,
) -> Result<(), OpenBlobError> {
    let mismatch = || OpenBlobError::KeyMismatch { index };
    let (text, tag) = sealed.split_last_chunk::<{ TAG as usize }>().ok_or_else(mismatch)?;
    let start = inner.len();
    inner.extend_from_slice(text);
    let nonce = chunk_nonce(index, layout.is_last(index));
    let opened = key.open_in_place_separate_tag(nonce, Aad::empty(), (*tag).into(), &mut inner[start..], 0..);
    if opened.is_err() {
        inner.truncate(start);
        return Err(mismatch());
    }
    Ok(())
}

/// Reads the length field and holds it against the room there is.
fn content_len(layout: &Layout, inner: &[u8]) -> Result<u64, OpenBlobError> {
    let capacity = layout.capacity();
    let field = inner.first_chunk::<{ LENGTH_FIELD as usize }>();
    let content_len = field.map(|bytes| u64::from_le_bytes(*bytes)).unwrap_or(u64::MAX);
    if content_len > capacity {
        return Err(OpenBlobError::ContentLength { content_len, capacity });
    }
    Ok(content_len)
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use proptest::prelude::*;

    use super::{
        super::{SealedBlob, seal},
        *,
    };
    use crate::verified::MemoryObject;

    /// Memory answers at once, so the future is ready on its first poll.
    fn ready<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("memory never waits"),
        }
    }

    fn dek() -> Dek {
        Dek::from_bytes([7; 32])
    }

    fn content(len: usize) -> Vec<u8> {
        (0..len).map(|index| (index % 251) as u8 + 1).collect()
    }

    fn sealed(len: usize) -> SealedBlob {
        seal(&content(len), dek(), KeyRef::from_bytes([9; 16])).unwrap()
    }

    fn store(bytes: Vec<u8>) -> (StorageId, MemoryObject) {
        let id = StorageId::from_bytes(*blake3::hash(&bytes).as_bytes());
        (id, MemoryObject::verify(id, bytes).unwrap())
    }

    fn whole(bytes: Vec<u8>) -> VerifiedBytes {
        let (id, object) = store(bytes);
        let size = ready(object.size(id)).unwrap();
        ready(object.read(id, std::slice::from_ref(&(0..size))))
            .unwrap()
            .remove(0)
    }

    fn open_error(bytes: Vec<u8>) -> OpenBlobError {
        open(&whole(bytes), &dek()).unwrap_err()
    }

    /// Seals chunks of any inner stream in any layout, to forge what `seal` never writes.
    fn forge(total: u64, inner: &[u8], flag_last: bool) -> Vec<u8> {
        let layout = Layout::of_total(total).unwrap();
        assert_eq!(inner.len() as u64, layout.inner_len());
        let key = chunk_key(&dek());
        let mut bytes = Vec::new();
        for (index, chunk) in inner.chunks(CHUNK_BYTES as usize).enumerate() {
            let mut chunk = chunk.to_vec();
            let last = layout.is_last(index as u64) && flag_last;
            key.seal_in_place_append_tag(chunk_nonce(index as u64, last), Aad::empty(), &mut chunk)
                .unwrap();
            bytes.extend(chunk);
        }
        bytes.resize(bytes.len() + layout.filler() as usize, 0);
        bytes.extend([9; 16]);
        bytes.extend(MAGIC);
        bytes
    }

    /// SOP-57: each length opens to itself and has exactly its Padmé size, around every edge of the layout.
    #[test]
    fn lengths_around_the_edges_round_trip() {
        for len in [
            0, 1, 7, 8, 65_527, 65_528, 65_529, 65_544, 65_545, 131_063, 131_064, 131_065, 300_000,
        ] {
            let blob = sealed(len);
            assert_eq!(
                Some(blob.bytes.len() as u64),
                crate::padme::padme(blob.exact_byte_size),
                "{len}"
            );
            assert_eq!(blob.storage_id.as_bytes(), blake3::hash(&blob.bytes).as_bytes());
            assert_eq!(*open(&whole(blob.bytes), &dek()).unwrap(), content(len), "{len}");
        }
    }

    /// SOP §2.6: the smallest blob, byte by byte in its clear parts.
    #[test]
    fn smallest_blob() {
        let blob = sealed(0);
        assert_eq!(blob.bytes.len(), 44);
        assert_eq!(&blob.bytes[24..40], &[9; 16]);
        assert_eq!(&blob.bytes[40..], b"SVB1");
    }

    /// SOP §2.6: lengths by hand, and the first chunk as another implementation of the cipher makes it.
    #[test]
    fn the_format_is_pinned() {
        let blob = sealed(70_000);
        assert_eq!(blob.exact_byte_size, 70_060);
        assert_eq!(blob.bytes.len(), 71_680);
        let first_chunk = {
            let mut inner = 70_000_u64.to_le_bytes().to_vec();
            inner.extend(&content(70_000)[..65_528]);
            use aes_gcm::{Aes256Gcm, KeyInit as _, aead::Aead as _};
            Aes256Gcm::new(&[7; 32].into())
                .encrypt(&[0; 12].into(), inner.as_slice())
                .unwrap()
        };
        assert_eq!(
            &blob.bytes[..65_552],
            first_chunk,
            "another implementation of the cipher agrees"
        );
    }

    /// SOP-91: a wrong key is told from a damaged object.
    #[test]
    fn wrong_key_is_a_key_mismatch() {
        let blob = sealed(10);
        let error = open(&whole(blob.bytes), &Dek::from_bytes([8; 32])).unwrap_err();
        assert!(matches!(error, OpenBlobError::KeyMismatch { index: 0 }));
    }

    /// SOP-95: the tags alone catch reorder, truncation, transplant and every flipped bit of a chunk.
    #[test]
    fn moved_cut_and_foreign_chunks_fail_the_tag() {
        let blob = sealed(200_000).bytes;
        let layout = Layout::of_total(blob.len() as u64).unwrap();
        let chunk = |index| {
            let range = layout.chunk(index);
            range.start as usize..range.end as usize
        };
        let mut swapped = blob.clone();
        swapped[chunk(0)].copy_from_slice(&blob[chunk(1)]);
        swapped[chunk(1)].copy_from_slice(&blob[chunk(0)]);
        assert!(matches!(open_error(swapped), OpenBlobError::KeyMismatch { index: 0 }));

        let mut cut = blob[chunk(0)].to_vec();
        cut.extend_from_slice(&blob[chunk(1)]);
        cut.extend_from_slice(&blob[layout.tail().start as usize + layout.filler() as usize..]);
        assert!(matches!(open_error(cut), OpenBlobError::KeyMismatch { index: 1 }));

        let foreign = seal(&content(200_000), Dek::from_bytes([8; 32]), KeyRef::from_bytes([9; 16]))
            .unwrap()
            .bytes;
        let mut transplanted = blob.clone();
        transplanted[chunk(2)].copy_from_slice(&foreign[chunk(2)]);
        assert!(matches!(
            open_error(transplanted),
            OpenBlobError::KeyMismatch { index: 2 }
        ));

        for position in [0, 65_535, 65_536, 65_551, 65_552, layout.tail().start as usize - 1] {
            let mut flipped = blob.clone();
            flipped[position] ^= 1;
            assert!(
                matches!(open_error(flipped), OpenBlobError::KeyMismatch { .. }),
                "{position}"
            );
        }
        assert!(matches!(
            open_error(forge(blob.len() as u64, &vec![0; layout.inner_len() as usize], false)),
            OpenBlobError::KeyMismatch { index: 3 }
        ));
    }

    #[test]
    fn broken_trailer_filler_and_length_are_refused() {
        let mut magic = sealed(10).bytes;
        *magic.last_mut().unwrap() = b'2';
        assert!(matches!(open_error(magic), OpenBlobError::Magic));
        assert!(matches!(open_error(vec![0; 43]), OpenBlobError::Length(43)));

        // A total that leaves a short rest has filler; nothing may hide in it.
        let total = 65_552 + 20 + 9;
        let mut inner = vec![0; Layout::of_total(total).unwrap().inner_len() as usize];
        let good = forge(total, &inner, true);
        assert!(open(&whole(good.clone()), &dek()).unwrap().is_empty());
        for position in 65_552..65_561 {
            let mut filled = good.clone();
            filled[position] = 1;
            assert!(matches!(open_error(filled), OpenBlobError::Filler), "{position}");
        }

        inner[65_535] = 1;
        assert!(matches!(open_error(forge(total, &inner, true)), OpenBlobError::Padding));
        inner[..8].copy_from_slice(&65_528_u64.to_le_bytes());
        assert_eq!(open(&whole(forge(total, &inner, true)), &dek()).unwrap().len(), 65_528);
        for claimed in [65_529, u64::MAX] {
            inner[..8].copy_from_slice(&claimed.to_le_bytes());
            let error = open_error(forge(total, &inner, true));
            assert!(matches!(error, OpenBlobError::ContentLength { content_len, .. } if content_len == claimed));
        }
    }

    /// A run that lies wholly in the padding is checked like any other.
    #[test]
    fn runs_of_chunks_check_the_padding() {
        let total = 20 + 3 * 65_552;
        let mut inner = vec![0; Layout::of_total(total).unwrap().inner_len() as usize];
        inner[..8].copy_from_slice(&10_u64.to_le_bytes());
        inner[150_000] = 1;
        let (id, object) = store(forge(total, &inner, true));
        let opened = ready(Blob::open(&object, id, &dek())).unwrap();
        assert_eq!(*ready(opened.read_chunks(&object, 0..2)).unwrap(), [0; 10]);
        for chunks in [2..3, 1..3, 0..3] {
            let error = ready(opened.read_chunks(&object, chunks)).unwrap_err();
            assert!(matches!(error, OpenBlobError::Padding));
        }
        assert!(ready(opened.read_chunks(&object, 3..4)).unwrap().is_empty());
    }

    #[test]
    fn appended_and_missing_bytes_are_refused() {
        let blob = sealed(100).bytes;
        let mut longer = blob.clone();
        longer.push(0);
        assert!(matches!(open_error(longer), OpenBlobError::Magic));
        assert!(matches!(
            open_error(blob[..blob.len() - 1].to_vec()),
            OpenBlobError::Magic
        ));
        assert!(matches!(
            open_error(blob[1..].to_vec()),
            OpenBlobError::KeyMismatch { .. }
        ));
    }

    /// SOP-46: the label is covered by the object's id only.
    #[test]
    fn another_key_ref_is_another_object_that_still_opens() {
        let blob = sealed(100);
        let mut relabelled = blob.bytes;
        let at = relabelled.len() - 20;
        relabelled[at] ^= 1;
        assert!(MemoryObject::verify(blob.storage_id, relabelled.clone()).is_err());
        assert_eq!(*open(&whole(relabelled), &dek()).unwrap(), content(100));
    }

    #[test]
    fn ranges_read_only_their_chunks() {
        let blob = sealed(200_000);
        let expected = content(200_000);
        let (id, object) = store(blob.bytes);
        let opened = ready(Blob::open(&object, id, &dek())).unwrap();
        assert_eq!(opened.content_len(), 200_000);
        assert_eq!(opened.key_ref(), KeyRef::from_bytes([9; 16]));
        for range in [
            0..0,
            0..1,
            65_527..65_529,
            65_528..65_528,
            131_000..199_999,
            0..200_000,
            200_000..200_000,
        ] {
            let read = ready(opened.read(&object, range.clone())).unwrap();
            assert_eq!(*read, expected[range.start as usize..range.end as usize], "{range:?}");
        }
        assert_eq!(opened.object_range(&(65_528..65_529)).unwrap(), 65_552..131_104);
        #[expect(clippy::reversed_empty_ranges, reason = "the caller's mistake under test")]
        for range in [0..200_001, 200_001..200_001, 5..4, 0..u64::MAX] {
            let error = ready(opened.read(&object, range.clone())).unwrap_err();
            assert!(matches!(error, OpenBlobError::OutOfBounds { .. }), "{range:?}");
        }
    }

    #[test]
    fn parts_of_another_object_or_place_are_refused() {
        let (first, second) = (
            sealed(200_000),
            seal(&content(9), dek(), KeyRef::from_bytes([1; 16])).unwrap(),
        );
        let total = first.bytes.len() as u64;
        let (id, object) = store(first.bytes);
        let opened = ready(Blob::open(&object, id, &dek())).unwrap();
        let other = whole(second.bytes.clone());
        assert!(matches!(
            opened.open_range(0..5, &other),
            Err(OpenBlobError::WrongPart { .. })
        ));
        let elsewhere = ready(object.read(id, std::slice::from_ref(&(65_552..131_104))))
            .unwrap()
            .remove(0);
        assert!(matches!(
            opened.open_range(0..5, &elsewhere),
            Err(OpenBlobError::WrongPart { .. })
        ));
        let head = ready(object.read(id, std::slice::from_ref(&(0..65_552))))
            .unwrap()
            .remove(0);
        assert!(matches!(
            Blob::open_head(total, &head, &other, &dek()),
            Err(OpenBlobError::WrongPart { .. })
        ));
        assert!(matches!(
            Blob::open_head(total, &head, &head, &dek()),
            Err(OpenBlobError::WrongPart { .. })
        ));
        assert!(Blob::open_head(43, &head, &head, &dek()).is_err());
        let wrong_key = ready(Blob::open(&object, id, &Dek::from_bytes([8; 32])));
        assert!(matches!(wrong_key, Err(OpenBlobError::KeyMismatch { index: 0 })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Runs of chunks give the whole content, and find what stands in the padding.
        #[test]
        fn runs_of_chunks_are_the_whole(len in 0_usize..300_000, run in 1_u64..4) {
            let blob = sealed(len);
            let (id, object) = store(blob.bytes);
            let opened = ready(Blob::open(&object, id, &dek())).unwrap();
            let mut read = Vec::new();
            for start in (0..opened.chunks()).step_by(run as usize) {
                let chunks = start..opened.chunks().min(start + run);
                read.extend_from_slice(&ready(opened.read_chunks(&object, chunks)).unwrap());
            }
            prop_assert_eq!(read, content(len));
        }

        #[test]
        fn whole_and_range_reads_agree(len in 0_usize..200_000, a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>()) {
            let blob = sealed(len);
            let (id, object) = store(blob.bytes);
            let opened = ready(Blob::open(&object, id, &dek())).unwrap();
            let (a, b) = (a.index(len + 1), b.index(len + 1));
            let (start, end) = (a.min(b), a.max(b));
            let read = ready(opened.read(&object, start as u64..end as u64)).unwrap();
            prop_assert_eq!(&*read, &content(len)[start..end]);
        }

        /// No bytes make the opener panic or take more than there is.
        #[test]
        fn any_bytes_are_refused_in_order(bytes in prop::collection::vec(any::<u8>(), 1..200)) {
            prop_assert!(open(&whole(bytes), &dek()).is_err());
        }
    }
}
