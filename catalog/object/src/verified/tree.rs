//! The proven hash tree of one object: what makes a byte range authentic without reading the rest (SOP §11.10).
//!
//! BLAKE3 is a tree over 1 KiB chunks; iroh-blobs keeps its inner nodes for groups of 16 KiB, in pre-order, 64 bytes a
//! node (left hash, right hash). Checked once from the id downwards, they give one hash per group, and a group read by
//! any means is then authentic exactly when it hashes to its own.
//!
//! ```text
//! outboard:  root | left subtree ... | right subtree ...        a subtree of one group has no node
//! ```

use std::{
    io::{self, Read},
    ops::Range,
};

use blake3::{
    Hasher,
    hazmat::{ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root},
};
use bytes::Bytes;

use super::{ReadError, VerifiedBytes, check_range};
use crate::{id::StorageId, padme};

/// Bytes under one hash of the tree: 16 KiB, the group size of iroh-blobs.
pub const GROUP_LEN: u64 = 16 * 1024;
const NODE_LEN: usize = 64;

/// Inner hashes that fit the id, with a length that is still only claimed.
///
/// A wrong length can fit the inner hashes, as long as no leaf was looked at. [`prove_size`](Self::prove_size) looks at
/// the last one (SOP-88).
#[derive(Debug)]
pub struct ObjectTreeIn {
    tree: ObjectTree,
}

/// The group hashes of one object and its length, both proven from its id.
#[derive(Clone, Debug)]
pub struct ObjectTree {
    id: StorageId,
    size: u64,
    groups: Vec<ChainingValue>,
}

impl ObjectTreeIn {
    /// Checks a pre-order outboard (without length prefix) of an object of the claimed `size` from the id downwards.
    pub fn from_outboard(id: StorageId, size: u64, outboard: &[u8]) -> Result<Self, ReadError> {
        let count = group_count(id, size)?;
        if outboard.len() as u64 != (count - 1) * NODE_LEN as u64 {
            return Err(ReadError::HashMismatch { id, offset: 0 });
        }
        let mut walk = Walk {
            id,
            rest: outboard,
            groups: Vec::with_capacity(count as usize),
        };
        walk.subtree(count, *id.as_bytes(), true)?;
        Ok(Self {
            tree: ObjectTree {
                id,
                size,
                groups: walk.groups,
            },
        })
    }

    /// The claimed length's last group, which must be read and handed to [`prove_size`](Self::prove_size).
    pub fn last_group(&self) -> Range<u64> {
        (self.tree.groups.len() as u64 - 1) * GROUP_LEN..self.tree.size
    }

    /// Proves the length by the object's last group.
    pub fn prove_size(self, last_group: &[u8]) -> Result<ObjectTree, ReadError> {
        let range = self.last_group();
        self.tree.check_groups(range.start, last_group, range.end)?;
        Ok(self.tree)
    }
}

impl ObjectTree {
    /// Hashes a whole object and keeps its group hashes. Reads everything once, so it proves the length too.
    pub fn of_bytes(id: StorageId, bytes: &[u8]) -> Result<Self, ReadError> {
        let size = bytes.len() as u64;
        let count = group_count(id, size)?;
        let groups: Vec<_> = bytes
            .chunks(GROUP_LEN as usize)
            .enumerate()
            .map(|(index, group)| hash_group(index as u64, group, count == 1))
            .collect();
        if merge(&groups, true) != *id.as_bytes() {
            return Err(ReadError::HashMismatch { id, offset: 0 });
        }
        Ok(Self { id, size, groups })
    }

    /// Hashes a file that is nobody's object yet, group by group, and gives it its id. What is read of it later is then
    /// proven to be what was read now. Memory is 32 bytes for every 16 KiB.
    pub fn of_reader(mut reader: impl Read) -> io::Result<Self> {
        let read_group = |reader: &mut dyn Read| -> io::Result<Vec<u8>> {
            let mut group = Vec::with_capacity(GROUP_LEN as usize);
            reader.take(GROUP_LEN).read_to_end(&mut group)?;
            Ok(group)
        };
        let mut groups = Vec::new();
        let mut size = 0;
        let mut group = read_group(&mut reader)?;
        // The only group of a small file is its root, so each is hashed when it is known whether another follows.
        loop {
            size += group.len() as u64;
            let next = read_group(&mut reader)?;
            groups.push(hash_group(
                groups.len() as u64,
                &group,
                groups.is_empty() && next.is_empty(),
            ));
            if next.is_empty() {
                break;
            }
            group = next;
        }
        if size == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an empty file is no object"));
        }
        Ok(Self {
            id: StorageId::from_bytes(merge(&groups, true)),
            size,
            groups,
        })
    }

    /// The object's id.
    pub const fn storage_id(&self) -> StorageId {
        self.id
    }

    /// The object's proven length.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The whole groups that must be read to prove `range`.
    pub fn covering(&self, range: &Range<u64>) -> Result<Range<u64>, ReadError> {
        check_range(self.id, range, self.size)?;
        if range.is_empty() {
            return Ok(range.clone());
        }
        Ok(range.start / GROUP_LEN * GROUP_LEN..range.end.next_multiple_of(GROUP_LEN).min(self.size))
    }

    /// Proves `bytes`, which a store read at `offset`, a group border, and which end at a group border or the object's end.
    pub fn prove(&self, offset: u64, bytes: Bytes) -> Result<VerifiedBytes, ReadError> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(ReadError::BadSize {
            id: self.id,
            size: u64::MAX,
        })?;
        check_range(self.id, &(offset..end), self.size)?;
        self.check_groups(offset, &bytes, end)?;
        Ok(VerifiedBytes::proven(self.id, offset, bytes))
    }

    fn check_groups(&self, offset: u64, bytes: &[u8], end: u64) -> Result<(), ReadError> {
        let mismatch = |offset| ReadError::HashMismatch { id: self.id, offset };
        let aligned = offset.is_multiple_of(GROUP_LEN) && (end.is_multiple_of(GROUP_LEN) || end == self.size);
        if !aligned || bytes.len() as u64 != end - offset {
            return Err(mismatch(offset));
        }
        let first = offset / GROUP_LEN;
        for (index, group) in (first..).zip(bytes.chunks(GROUP_LEN as usize)) {
            let expected = usize::try_from(index).ok().and_then(|index| self.groups.get(index));
            if expected != Some(&hash_group(index, group, self.groups.len() == 1)) {
                return Err(mismatch(index * GROUP_LEN));
            }
        }
        Ok(())
    }
}

/// Walks the outboard in pre-order; depth is at most 27 for the largest object.
struct Walk<'a> {
    id: StorageId,
    rest: &'a [u8],
    groups: Vec<ChainingValue>,
}

impl Walk<'_> {
    fn subtree(&mut self, count: u64, expected: ChainingValue, is_root: bool) -> Result<(), ReadError> {
        if count == 1 {
            self.groups.push(expected);
            return Ok(());
        }
        let mismatch = ReadError::HashMismatch {
            id: self.id,
            offset: self.groups.len() as u64 * GROUP_LEN,
        };
        let Some((node, rest)) = self.rest.split_first_chunk::<NODE_LEN>() else {
            return Err(mismatch);
        };
        self.rest = rest;
        let (mut left, mut right) = ([0; 32], [0; 32]);
        left.copy_from_slice(&node[..32]);
        right.copy_from_slice(&node[32..]);
        if parent(&left, &right, is_root) != expected {
            return Err(mismatch);
        }
        let left_count = left_groups(count);
        self.subtree(left_count, left, false)?;
        self.subtree(count - left_count, right, false)
    }
}

fn group_count(id: StorageId, size: u64) -> Result<u64, ReadError> {
    if size == 0 || size > padme::MAX_LEN {
        return Err(ReadError::BadSize { id, size });
    }
    Ok(size.div_ceil(GROUP_LEN))
}

/// Groups in the left subtree: the largest power of two below `count`.
const fn left_groups(count: u64) -> u64 {
    1 << (63 - (count - 1).leading_zeros())
}

fn hash_group(index: u64, group: &[u8], is_root: bool) -> ChainingValue {
    if is_root {
        return *blake3::hash(group).as_bytes();
    }
    let mut hasher = Hasher::new();
    hasher.set_input_offset(index * GROUP_LEN).update(group);
    hasher.finalize_non_root()
}

fn parent(left: &ChainingValue, right: &ChainingValue, is_root: bool) -> ChainingValue {
    if is_root {
        *merge_subtrees_root(left, right, Mode::Hash).as_bytes()
    } else {
        merge_subtrees_non_root(left, right, Mode::Hash)
    }
}

fn merge(groups: &[ChainingValue], is_root: bool) -> ChainingValue {
    if let [only] = groups {
        return *only;
    }
    let (left, right) = groups.split_at(left_groups(groups.len() as u64) as usize);
    parent(&merge(left, false), &merge(right, false), is_root)
}

#[cfg(test)]
mod tests {
    use bao_tree::{BlockSize, io::outboard::PreOrderMemOutboard};

    use super::*;

    fn object(len: usize) -> (StorageId, Vec<u8>, Vec<u8>) {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
        let outboard = PreOrderMemOutboard::create(&bytes, BlockSize::from_chunk_log(4));
        (
            StorageId::from_bytes(*blake3::hash(&bytes).as_bytes()),
            bytes,
            outboard.data,
        )
    }

    const SIZES: [usize; 12] = [
        1,
        1024,
        1025,
        16_383,
        16_384,
        16_385,
        32_768,
        49_153,
        65_536,
        65_537,
        200_000,
        1 << 20,
    ];

    #[test]
    fn an_empty_file_has_no_tree() {
        assert!(ObjectTree::of_reader(io::empty()).is_err());
    }

    /// SOP-50: the tree is the one iroh-blobs keeps; bao-tree's outboard is the oracle.
    #[test]
    fn accepts_what_bao_tree_wrote() {
        for size in SIZES {
            let (id, bytes, outboard) = object(size);
            let tree = ObjectTreeIn::from_outboard(id, size as u64, &outboard).unwrap();
            let last = tree.last_group();
            let tree = tree.prove_size(&bytes[last.start as usize..last.end as usize]).unwrap();
            assert_eq!(tree.groups, ObjectTree::of_bytes(id, &bytes).unwrap().groups);
            let read = ObjectTree::of_reader(bytes.as_slice()).unwrap();
            assert_eq!((read.id, read.size, &read.groups), (id, size as u64, &tree.groups));
            for range in [
                0..1,
                size as u64 / 2..size as u64,
                size as u64 - 1..size as u64,
                0..size as u64,
            ] {
                let cover = tree.covering(&range).unwrap();
                let read = Bytes::copy_from_slice(&bytes[cover.start as usize..cover.end as usize]);
                let part = tree.prove(cover.start, read).unwrap().part(range.clone()).unwrap();
                assert_eq!(&part[..], &bytes[range.start as usize..range.end as usize]);
            }
        }
    }

    /// SOP-81: no flipped byte of data or tree passes.
    #[test]
    fn flipped_bytes_fail() {
        for size in [16_385, 65_537, 200_000] {
            let (id, bytes, outboard) = object(size);
            for at in (0..outboard.len()).step_by(7) {
                let mut bad = outboard.clone();
                bad[at] ^= 1;
                assert!(ObjectTreeIn::from_outboard(id, size as u64, &bad).is_err());
            }
            let tree = ObjectTree::of_bytes(id, &bytes).unwrap();
            for at in (0..size).step_by(997).chain([size - 1]) {
                let mut bad = bytes.clone();
                bad[at] ^= 0x80;
                assert!(tree.prove(0, Bytes::from(bad.clone())).is_err(), "{at}");
                assert!(ObjectTree::of_bytes(id, &bad).is_err());
            }
        }
    }

    /// SOP-29: a group moved to another place of its own object fails.
    #[test]
    fn moved_groups_fail() {
        let (id, bytes, _) = object(200_000);
        let tree = ObjectTree::of_bytes(id, &bytes).unwrap();
        let first = Bytes::copy_from_slice(&bytes[..GROUP_LEN as usize]);
        assert!(tree.prove(0, first.clone()).is_ok());
        assert!(tree.prove(GROUP_LEN, first).is_err());
    }

    /// SOP-88: a wrong claimed length is found at the latest when it is proven.
    #[test]
    fn wrong_sizes_fail() {
        for size in SIZES {
            let (id, bytes, outboard) = object(size);
            for claimed in [
                size as u64 - 1,
                size as u64 + 1,
                size as u64 * 2,
                size as u64 + GROUP_LEN,
                0,
                u64::MAX,
            ] {
                let Ok(tree) = ObjectTreeIn::from_outboard(id, claimed, &outboard) else {
                    continue;
                };
                let last = tree.last_group();
                let mut longer = bytes.clone();
                longer.resize(claimed as usize, 0);
                assert!(
                    tree.prove_size(&longer[last.start as usize..]).is_err(),
                    "{size} {claimed}"
                );
            }
        }
    }

    #[test]
    fn ranges_outside_and_crooked_reads_fail() {
        let (id, bytes, _) = object(40_000);
        let tree = ObjectTree::of_bytes(id, &bytes).unwrap();
        assert!(tree.covering(&(39_999..40_001)).is_err());
        #[expect(clippy::reversed_empty_ranges, reason = "a reversed range is the input under test")]
        let reversed = 9..3;
        assert!(tree.covering(&reversed).is_err());
        assert!(tree.prove(5, Bytes::copy_from_slice(&bytes[5..20])).is_err());
        assert!(tree.prove(0, Bytes::copy_from_slice(&bytes[..20])).is_err());
        assert!(tree.prove(u64::MAX, Bytes::copy_from_slice(&bytes[..20])).is_err());
    }
}
