//! Entry point for fuzzing: what a hostile producer can seal behind valid tags.

use ring::aead::Aad;

use super::{Blob, CHUNK_BYTES, LENGTH_FIELD, Layout, MAGIC, OpenBlobError, TAG, chunk_key, chunk_nonce, open};
use crate::{id::StorageId, secret::Dek, verified::MemoryObject};

/// The key the entry uses.
const KEY: [u8; 32] = [0x5a; 32];

/// Seals `inner` as an inner stream of any content, opens it whole and in ranges, and holds the two against each other.
pub fn inner(inner: &[u8]) {
    let Some(object) = seal(inner) else { return };
    let total = object.len() as u64;
    let id = StorageId::from_bytes(*blake3::hash(&object).as_bytes());
    let object = MemoryObject::verify(id, object).expect("the id is the hash of these bytes");
    let dek = Dek::from_bytes(KEY);
    let whole = open(object.whole(), &dek);
    let [first, tail] = Blob::head_ranges(total).expect("the layout was made from this length");
    let part = |range| object.whole().part(range).expect("the layout stays inside the object");
    let head = Blob::open_head(total, &part(first), &part(tail), &dek);
    match (&whole, &head) {
        (Ok(content), Ok(head)) => {
            assert_eq!(content[..], inner[LENGTH_FIELD as usize..][..content.len()]);
            assert_eq!(content.len() as u64, head.content_len());
        }
        // Padding is behind the content, where a reader of ranges does not look.
        (Err(OpenBlobError::Padding | OpenBlobError::ContentLength { .. }), _) => {}
        (whole, _) => panic!("sealed under this key, yet {:?}", whole.as_ref().err()),
    }
    let Ok(head) = head else { return };
    let len = head.content_len();
    for range in [
        0..len,
        len / 3..len / 2,
        len..len,
        len.saturating_sub(1)..len,
        0..len + 1,
    ] {
        let Ok(needed) = head.object_range(&range) else {
            assert!(range.end > len, "a range of the content can be read");
            continue;
        };
        let read = head
            .open_range(range.clone(), &part(needed))
            .expect("its own bytes were given");
        let from = (LENGTH_FIELD + range.start) as usize;
        assert_eq!(read[..], inner[from..][..read.len()]);
        assert_eq!(read.len() as u64, range.end - range.start);
    }
}

/// The object around an inner stream; `None` when none has this length.
fn seal(inner: &[u8]) -> Option<Vec<u8>> {
    let content = (inner.len() as u64).checked_sub(LENGTH_FIELD)?;
    let layout = Layout::of_total(super::unpadded_len(content)?)?;
    assert_eq!((layout.inner_len(), layout.filler()), (inner.len() as u64, 0));
    let key = chunk_key(&Dek::from_bytes(KEY));
    let mut object = Vec::with_capacity(layout.total() as usize);
    for (index, chunk) in (0..).zip(inner.chunks(CHUNK_BYTES as usize)) {
        let start = object.len();
        object.extend_from_slice(chunk);
        let nonce = chunk_nonce(index, layout.is_last(index));
        let tag = key
            .seal_in_place_separate_tag(nonce, Aad::empty(), &mut object[start..])
            .ok()?;
        assert_eq!(tag.as_ref().len() as u64, TAG);
        object.extend_from_slice(tag.as_ref());
    }
    object.extend_from_slice(&[0; 16]);
    object.extend_from_slice(&MAGIC);
    Some(object)
}
