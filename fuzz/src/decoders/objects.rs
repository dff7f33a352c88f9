//! Encrypted Parquet, blobs, hash trees.

use sovm_object::{
    blob,
    id::StorageId,
    pme,
    secret::Dek,
    thrift::{Reader, Struct},
    verified::{GROUP_LEN, MemoryObject, ObjectTree, ObjectTreeIn},
};

fn id_of(bytes: &[u8]) -> StorageId {
    StorageId::from_bytes(*blake3::hash(bytes).as_bytes())
}

/// The walker and the tree see the same structure, and the tree survives being written and read.
pub(super) fn thrift(bytes: &[u8]) {
    let walked = Reader::new(bytes).whole_struct().map(<[u8]>::len);
    let tree = Struct::decode_prefix(bytes);
    assert_eq!(walked.as_ref().ok(), tree.as_ref().ok().map(|(_, len)| len));
    if let Ok((tree, len)) = tree {
        let written = tree.encode();
        assert_eq!(Struct::decode(&written).as_ref(), Ok(&tree));
        // The long form of a field's id and of a count is accepted and written short.
        assert!(written.len() <= len);
    }
}

/// Two bytes that make the object larger than its footer, then a decrypted footer.
pub(super) fn footer(bytes: &[u8]) {
    let Some((body, footer)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let size = footer.len() as u64 + u64::from(u16::from_le_bytes(*body));
    pme::fuzz::footer(footer, size);
    let _ = pme::fuzz::crypto_metadata(footer);
}

/// A page header or the clear structure in front of a footer.
pub(super) fn page_header(bytes: &[u8]) {
    let accepted = pme::fuzz::page_header(bytes).map(|(len, _)| len);
    for len in accepted.into_iter().chain(pme::fuzz::crypto_metadata(bytes)) {
        // The walker counts depth from the structure itself and may refuse what the readers take.
        if let Ok(walked) = Reader::new(bytes).whole_struct() {
            assert_eq!(walked.len(), len, "a header is one Thrift structure");
        }
    }
}

/// A whole object, opened with a key that is known. Only a producer's own bytes get past the first tag.
pub(super) fn object(bytes: &[u8]) {
    pme::fuzz::object(bytes);
}

/// Count of modules, their lengths (u16 each), length of the footer (u16), the footer, then the modules: page headers
/// and bodies by turns.
pub(super) fn pages(bytes: &[u8]) {
    let Some((&count, mut rest)) = bytes.split_first() else {
        return;
    };
    let mut lengths = Vec::new();
    for _ in 0..=count % 64 {
        let Some((length, after)) = rest.split_first_chunk::<2>() else {
            return;
        };
        lengths.push(usize::from(u16::from_le_bytes(*length)));
        rest = after;
    }
    let footer_len = lengths.pop().unwrap_or_default().min(rest.len());
    let (footer, modules) = rest.split_at(footer_len);
    pme::fuzz::pages(modules, &lengths, footer);
}

/// A plain Parquet file, sealed as a hostile producer could and read.
pub(super) fn parquet(bytes: &[u8]) {
    pme::fuzz::parquet(bytes);
}

/// First byte even: the rest is a stored blob. Odd: the rest is an inner stream, sealed here.
pub(super) fn blob(bytes: &[u8]) {
    let Some((&how, bytes)) = bytes.split_first() else {
        return;
    };
    if how % 2 == 1 {
        blob::fuzz::inner(bytes);
        return;
    }
    let total = bytes.len() as u64;
    if let Some(layout) = blob::Layout::of_total(total) {
        assert_eq!(layout.chunk(0).start, 0);
        assert_eq!(layout.chunk(layout.chunks() - 1).end, layout.tail().start);
        assert_eq!(layout.tail().end, total);
    }
    if let Ok(object) = MemoryObject::verify(id_of(bytes), bytes.to_vec()) {
        let _ = blob::open(object.whole(), &Dek::from_bytes([0x42; 32]));
    }
}

/// Eight bytes of claimed length, then an outboard. The id is what the outboard's root says, so that the walk goes on.
pub(super) fn hash_tree(bytes: &[u8]) {
    let Some((size, outboard)) = bytes.split_first_chunk::<8>() else {
        return;
    };
    let size = u64::from_le_bytes(*size);
    let root = outboard.get(..64).map_or_else(
        || id_of(outboard),
        |node| {
            let half = |at: usize| -> [u8; 32] { std::array::from_fn(|i| node[at + i]) };
            let mode = blake3::hazmat::Mode::Hash;
            let hash = blake3::hazmat::merge_subtrees_root(&half(0), &half(32), mode);
            StorageId::from_bytes(*hash.as_bytes())
        },
    );
    if let Ok(tree) = ObjectTreeIn::from_outboard(root, size, outboard) {
        let groups = size.div_ceil(GROUP_LEN).max(1);
        assert_eq!(
            outboard.len() as u64,
            (groups - 1) * 64,
            "a tree has a node less than groups"
        );
        assert!(tree.last_group().end == size);
        let _ = tree.prove_size(outboard);
    }
    // The bytes as an object of their own.
    let tree = ObjectTree::of_bytes(id_of(outboard), outboard);
    if let Ok(tree) = tree {
        assert_eq!(tree.size(), outboard.len() as u64);
        let whole = tree.prove(0, outboard.to_vec().into());
        assert_eq!(&whole.expect("these are the bytes")[..], outboard);
    }
}
