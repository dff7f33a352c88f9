//! The object store by itself: durable, verified, reopened.

use std::{
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

use bao_tree::ChunkRanges;
use iroh_blobs::protocol::ChunkRangesExt as _;
use sovm_object::verified::{ReadError, VerifiedRead as _};
use tokio::io::AsyncReadExt as _;

use super::support::{Home, NO_RESERVE, object};
use crate::net::{
    DiskReserve, Holding, ObjectStore, blob_hash,
    store::{OpenError, PublishError},
};

/// Sizes around every border: one chunk, one group, where outboards move from the database to a file (4 MiB).
const SIZES: [usize; 10] = [
    1,
    1024,
    16_384,
    16_385,
    70_000,
    1 << 20,
    (4 << 20) - 1,
    4 << 20,
    (4 << 20) + 16_385,
    (9 << 20) + 5,
];

/// SOP-86: what a read returns is what was published, wherever the object lies; iroh-blobs' verified read is the oracle.
#[tokio::test]
async fn reads_agree_with_export_bao() {
    let home = Home::new();
    let store = home.store().await;
    for (seed, size) in SIZES.into_iter().enumerate() {
        let (id, bytes) = object(size, seed as u8);
        let durable = store.publish(bytes.clone(), id).await.unwrap();
        assert_eq!((durable.id(), durable.size()), (id, size as u64));
        assert_eq!(store.size(id).await.unwrap(), size as u64);
        assert_eq!(store.scrub(id).await.unwrap(), size as u64);
        let last = size as u64;
        let ranges: Vec<Range<u64>> = vec![
            last - 1..last,
            0..1,
            last / 3..last,
            0..last,
            last / 2..last / 2,
            last..last,
            last / 5..last / 4,
        ];
        let read = store.read(id, &ranges).await.unwrap();
        for (range, part) in ranges.iter().zip(&read) {
            assert_eq!((part.storage_id(), part.range()), (id, range.clone()));
            assert_eq!(part[..], bytes[range.start as usize..range.end as usize]);
            if range.is_empty() {
                continue;
            }
            let exported = store
                .store()
                .export_bao(blob_hash(id), ChunkRanges::bytes(range.clone()));
            let exported = exported.data_to_vec().await.unwrap();
            let skip = (range.start % 1024) as usize;
            assert_eq!(part[..], exported[skip..skip + part.len()]);
        }
        assert!(matches!(
            store.read(id, &[0..last + 1]).await,
            Err(ReadError::OutOfBounds { .. })
        ));
    }
}

/// What is on a disk whose power went: the files that were flushed and whose directory was, and the store's database, which is as old
/// as its last flush.
fn after_the_cut(root: &Path, flushed: &[&PathBuf], old_database: &Path) -> Home {
    let after = Home::new();
    let database = root.join("blobs.db");
    fs::create_dir_all(after.root()).unwrap();
    let newest = if flushed.contains(&&database) {
        &database
    } else {
        old_database
    };
    fs::copy(newest, after.root().join("blobs.db")).unwrap();
    for file in flushed.iter().filter(|path| path.is_file() && ***path != database) {
        let named = flushed.iter().any(|path| Some(path.as_path()) == file.parent());
        if named {
            let copy = after.root().join(file.strip_prefix(root).unwrap());
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(file, copy).unwrap();
        }
    }
    after
}

/// SOP-240: power goes when an object is called durable. What was flushed is enough to read every byte, and without any one of the
/// flushes the object is not whole: a file's, its directory's, the database's. What a disk does that lies about a flush is not
/// modelled.
#[tokio::test]
async fn an_object_outlives_a_power_cut() {
    let empty = Home::new();
    empty.store().await.shutdown().await.unwrap();
    let old_database = empty.root().join("blobs.db");
    for (seed, size) in SIZES.into_iter().enumerate() {
        let home = Home::new();
        let store = home.store().await;
        let (id, bytes) = object(size, seed as u8);
        store.publish(bytes, id).await.unwrap();

        let flushed = store.flushed();
        let all: Vec<_> = flushed.iter().collect();
        let reopened = after_the_cut(store.root(), &all, &old_database);
        let reopened = reopened.store().await;
        assert!(reopened.has(id).await.unwrap(), "{size} bytes");
        assert_eq!(reopened.scrub(id).await.unwrap(), size as u64);

        let has_files = flushed.iter().filter(|path| path.is_file()).count() > 1;
        for left_out in &flushed {
            // A directory in which nothing of this object lies.
            if left_out.is_dir() && !has_files {
                continue;
            }
            let others: Vec<_> = flushed.iter().filter(|path| *path != left_out).collect();
            let reopened = after_the_cut(store.root(), &others, &old_database);
            let whole = reopened.store().await.scrub(id).await;
            assert!(whole.is_err(), "{size} bytes are whole without {}", left_out.display());
        }
    }
}

/// SOP-92: one flipped byte on the disk, in the data or in the inner hashes, and nothing is handed out.
#[tokio::test]
async fn damage_on_disk_fails_closed() {
    let home = Home::new();
    for (size, at, outboard) in [(100_000, 50_000, false), (9 << 20, 5 << 20, false), (9 << 20, 70, true)] {
        let store = home.store().await;
        let (id, bytes) = object(size, at as u8);
        store.publish(bytes.clone(), id).await.unwrap();
        let path = if outboard {
            store.outboard_path(id)
        } else {
            store.data_path(id)
        };
        flip(&path, at);

        assert!(matches!(store.scrub(id).await, Err(ReadError::HashMismatch { .. })));
        let touched = at as u64 - 10..at as u64 + 10;
        assert!(matches!(
            store.read(id, std::slice::from_ref(&touched)).await,
            Err(ReadError::HashMismatch { .. })
        ));
        if !outboard && size > 1 << 20 {
            // The rest of the object is as good as ever.
            assert_eq!(store.read(id, &[0..10]).await.unwrap()[0][..], bytes[..10]);
        }
        // Publishing again heals it.
        store.publish(bytes.clone(), id).await.unwrap();
        assert_eq!(store.scrub(id).await.unwrap(), size as u64);
        store.shutdown().await.unwrap();
        drop(store);
    }
}

/// SOP-92: a file that ends early, or is gone, is damage; it is never padded and never waited for.
#[tokio::test]
async fn short_and_missing_files_fail_closed() {
    let home = Home::new();
    let store = home.store().await;
    let (id, bytes) = object(5 << 20, 3);
    store.publish(bytes.clone(), id).await.unwrap();
    fs::File::options()
        .write(true)
        .open(store.data_path(id))
        .unwrap()
        .set_len(4 << 20)
        .unwrap();
    assert!(matches!(
        store.read(id, &[(4 << 20)..(5 << 20)]).await,
        Err(ReadError::HashMismatch { .. })
    ));
    fs::remove_file(store.data_path(id)).unwrap();
    assert!(matches!(store.read(id, &[0..1]).await, Err(ReadError::Missing { .. })));
    store.publish(bytes, id).await.unwrap();
    assert_eq!(store.scrub(id).await.unwrap(), 5 << 20);
}

/// SOP-54, SOP-84, SOP-155: bytes that are not the promised object are refused, before the import where they are in memory and by
/// the id the import gave where they are not. Nothing is listed, and the promised object is as absent as before.
#[tokio::test]
async fn wrong_bytes_are_not_published() {
    let home = Home::new();
    let store = home.store().await;
    let (id, _) = object(50_000, 1);
    let (other, bytes) = object(50_000, 2);
    let refused = store.publish(bytes.clone(), id).await;
    assert!(matches!(refused, Err(PublishError::WrongId { expected, found }) if expected == id && found == other));
    let refused = store.import_reader(io::Cursor::new(bytes), None, id).await;
    assert!(matches!(refused, Err(PublishError::WrongId { .. })));
    assert!(matches!(
        store.publish(Default::default(), id).await,
        Err(PublishError::Empty)
    ));
    assert_eq!(store.holding(id).await.unwrap(), Holding::Absent);
    assert_eq!(store.list().await.unwrap(), []);
    assert!(matches!(store.read(id, &[0..1]).await, Err(ReadError::Missing { .. })));
}

#[tokio::test]
async fn a_reader_is_imported_and_a_broken_one_is_not() {
    let home = Home::new();
    let store = home.store().await;
    let (id, bytes) = object((3 << 20) + 77, 1);
    let broken = io::Cursor::new(bytes.slice(..2 << 20)).chain(BrokenReader);
    assert!(matches!(
        store.import_reader(broken, None, id).await,
        Err(PublishError::Source(_))
    ));
    assert!(!store.has(id).await.unwrap());
    let durable = store
        .import_reader(io::Cursor::new(bytes.clone()), Some(bytes.len() as u64), id)
        .await
        .unwrap();
    assert_eq!(store.list().await.unwrap(), [durable]);
    assert_eq!(
        store.read(id, &[0..bytes.len() as u64]).await.unwrap()[0][..],
        bytes[..]
    );
}

struct BrokenReader;

impl tokio::io::AsyncRead for BrokenReader {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(Err(io::Error::other("broken")))
    }
}

/// A store that was dropped without a word, as by a kill, opens again and has everything that was reported durable.
#[tokio::test]
async fn reopens_after_an_unclean_end() {
    let home = Home::new();
    let mut expected = Vec::new();
    for round in 0..3 {
        let store = reopen(&home).await;
        assert_eq!(store.list().await.unwrap(), expected);
        let (id, bytes) = object(2_000_000 + round, round as u8);
        expected.push(store.publish(bytes, id).await.unwrap());
        expected.sort_unstable_by_key(|durable| durable.id());
    }
    let store = reopen(&home).await;
    for durable in expected {
        assert_eq!(store.scrub(durable.id()).await.unwrap(), durable.size());
    }
}

/// A process that was killed is gone; a dropped store of this process takes a moment to be.
async fn reopen(home: &Home) -> ObjectStore {
    for _ in 0..250 {
        match ObjectStore::open(home.dir.path().join("blobs"), NO_RESERVE).await {
            Ok(store) => return store,
            Err(OpenError::InUse(_) | OpenError::Database { .. }) => {
                tokio::time::sleep(Duration::from_millis(20)).await
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("the store never became free");
}

#[tokio::test]
async fn one_owner_and_no_litter() {
    let home = Home::new();
    let store = home.store().await;
    let root = store.root().to_owned();
    assert!(matches!(
        ObjectStore::open(&root, NO_RESERVE).await,
        Err(OpenError::InUse(_))
    ));
    store.shutdown().await.unwrap();
    drop(store);
    let litter = root.join("temp/left-behind.temp");
    fs::write(&litter, b"x").unwrap();
    reopen(&home).await;
    assert!(!litter.exists());
}

/// syncthing#5004: a full disk is said before anything is written, with place and numbers.
#[tokio::test]
async fn a_full_disk_is_refused_beforehand() {
    let home = Home::new();
    let reserve = DiskReserve {
        bytes: u64::MAX / 2,
        percent: 0,
    };
    let store = ObjectStore::open(home.dir.path().join("blobs"), reserve).await.unwrap();
    let (id, bytes) = object(1000, 1);
    let error = store.publish(bytes, id).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, PublishError::NoRoom(room) if room.needed == 1000 && room.reserve == reserve.bytes));
    assert!(text.contains("blobs") && text.contains("1000 bytes"), "{text}");
    assert_eq!(store.list().await.unwrap(), []);
}

#[tokio::test]
async fn released_objects_are_not_listed() {
    let home = Home::new();
    let store = home.store().await;
    let (id, bytes) = object(20_000, 1);
    store.publish(bytes, id).await.unwrap();
    store.release(id).await.unwrap();
    assert_eq!(store.list().await.unwrap(), []);
    assert!(!store.has(id).await.unwrap());
}

/// Many readers of one object at once, small and large: no refusal as busy reaches them.
#[tokio::test]
async fn many_readers_of_one_object() {
    let home = Home::new();
    let store = home.store().await;
    for size in [9_000, 6 << 20] {
        let (id, bytes) = object(size, 1);
        store.publish(bytes.clone(), id).await.unwrap();
        store.handles().forget(id);
        let readers = (0..200_u64).map(|at| {
            let (store, range) = (store.clone(), at * 40..at * 40 + 39);
            tokio::spawn(async move { (range.clone(), store.read(id, &[range]).await.unwrap()) })
        });
        for reader in readers.collect::<Vec<_>>() {
            let (range, read) = reader.await.unwrap();
            assert_eq!(read[0][..], bytes[range.start as usize..range.end as usize]);
        }
    }
}

pub(super) fn flip(path: &std::path::Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    // Written in place: the store's open file must see it.
    let mut file = fs::File::options().write(true).open(path).unwrap();
    io::Write::write_all(&mut file, &bytes).unwrap();
}
