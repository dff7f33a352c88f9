//! Bytes are what their id says on every path, and an id says nothing but that (SOP §11.7, §11.10, §12.1, §12.5, §12.6).

use std::ops::Range;

use sovm_object::{
    id::StorageId,
    verified::{ReadError, VerifiedRead as _},
};

use super::{
    store::flip,
    support::{Home, Node, object, pair},
};
use crate::net::{FetchRequest, Holding, ObjectStore, store::PublishError};

/// Sizes whose tree is kept in the database, and in a file of its own.
const SIZES: [usize; 2] = [100_000, 6 << 20];

async fn whole(store: &ObjectStore, id: StorageId, size: usize) -> Result<Vec<u8>, ReadError> {
    let all: Range<u64> = 0..size as u64;
    Ok(store.read(id, &[all]).await?[0].to_vec())
}

/// One flipped byte in the middle, and no read that touches it gives anything, the second time neither.
async fn damage_is_seen(store: &ObjectStore, id: StorageId, size: usize) {
    flip(&store.data_path(id), size / 2);
    for _ in 0..2 {
        let read = whole(store, id, size).await;
        assert!(matches!(read, Err(ReadError::HashMismatch { .. })), "{size}: {read:?}");
    }
}

/// SOP-82: no path skips the check: published just now, open since an earlier read, fetched just now, opened anew.
#[tokio::test]
async fn no_path_skips_the_check() {
    let (holder, member) = pair().await;
    for (seed, size) in SIZES.into_iter().enumerate() {
        let (id, bytes) = object(size, seed as u8);
        let here = holder.net.store();
        here.publish(bytes.clone(), id).await.unwrap();
        damage_is_seen(here, id, size).await;

        here.publish(bytes.clone(), id).await.unwrap();
        assert_eq!(whole(here, id, size).await.unwrap(), bytes);
        damage_is_seen(here, id, size).await;

        here.publish(bytes.clone(), id).await.unwrap();
        let request = FetchRequest::whole(id);
        let fetched = member.net.fetcher().fetch(&request, holder.site(), |_| ()).await;
        assert!(fetched.unwrap().durable.is_some());
        damage_is_seen(member.net.store(), id, size).await;
    }
    // The member's copies are still damaged; a process that starts with them sees it too.
    let member = member.stop().await.start().await;
    for (seed, size) in SIZES.into_iter().enumerate() {
        let (id, _) = object(size, seed as u8);
        let read = whole(member.net.store(), id, size).await;
        assert!(matches!(read, Err(ReadError::HashMismatch { .. })), "{size}: {read:?}");
    }
}

/// SOP-53: a holder's flipped byte is refused, what was good is kept, and another holder gives the rest and no more.
#[tokio::test]
async fn a_bad_byte_at_the_sender_is_refused_and_the_rest_resumes() {
    let (bad, member) = pair().await;
    let good = Node::new().await;
    good.befriend(&member);
    let size = 6 << 20;
    let (id, bytes) = object(size, 1);
    for holder in [&bad, &good] {
        holder.net.store().publish(bytes.clone(), id).await.unwrap();
    }
    flip(&bad.net.store().data_path(id), 4 << 20);
    let request = FetchRequest {
        id,
        size: Some(size as u64),
        part: None,
    };
    let fetcher = member.net.fetcher();
    let refused = fetcher.fetch(&request, bad.site(), |_| ()).await;
    assert!(refused.is_err(), "{refused:?}");
    let Holding::Partial { bytes: kept } = member.net.store().holding(id).await.unwrap() else {
        panic!("what was verified is gone")
    };
    assert!(kept > 0 && kept <= 4 << 20, "{kept}");
    let outcome = fetcher.fetch(&request, good.site(), |_| ()).await.unwrap();
    assert!(outcome.durable.is_some());
    assert_eq!(outcome.fetched_bytes + kept, size as u64);
    assert_eq!(whole(member.net.store(), id, size).await.unwrap(), bytes);
}

/// SOP-121, SOP-122: a tag is made of the id and of nothing else, and a list has ids and lengths in the order of ids, whatever came
/// first.
#[tokio::test]
async fn names_and_lists_are_made_of_ids() {
    use n0_future::StreamExt as _;
    let home = Home::new();
    let store = home.store().await;
    let mut objects: Vec<_> = (0..6).map(|seed| object(1_000 + 100 * seed as usize, seed)).collect();
    objects.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
    for (id, bytes) in &objects {
        store.publish(bytes.clone(), *id).await.unwrap();
    }
    objects.reverse();
    let listed: Vec<_> = store
        .list()
        .await
        .unwrap()
        .iter()
        .map(|held| (held.id(), held.size()))
        .collect();
    let expected: Vec<_> = objects.iter().map(|(id, bytes)| (*id, bytes.len() as u64)).collect();
    assert_eq!(listed, expected);

    let mut tags = store.store().tags().list_prefix("").await.unwrap();
    let mut names = Vec::new();
    while let Some(tag) = tags.next().await {
        names.push(String::from_utf8(tag.unwrap().name.0.to_vec()).unwrap());
    }
    names.sort();
    let expected: Vec<_> = objects.iter().map(|(id, _)| format!("sovm/obj/{id}")).collect();
    assert_eq!(names, expected);
}

/// SOP-112, SOP-187, SOP-188: nothing that is offered under an id takes the place of its bytes, a holder's damaged copy least of
/// all; a correction is one more object.
#[tokio::test]
async fn bytes_under_an_id_never_change() {
    let (holder, member) = pair().await;
    let size = 6 << 20;
    let (id, bytes) = object(size, 1);
    let store = member.net.store();
    let durable = store.publish(bytes.clone(), id).await.unwrap();
    let mut corrected = bytes.to_vec();
    corrected[7] ^= 1;
    let corrected_id = StorageId::from_bytes(*blake3::hash(&corrected).as_bytes());
    let refused = store.publish(corrected.clone().into(), id).await;
    assert!(matches!(refused, Err(PublishError::WrongId { .. })));
    let refused = store
        .import_reader(std::io::Cursor::new(corrected.clone()), None, id)
        .await;
    assert!(matches!(refused, Err(PublishError::WrongId { .. })));
    assert_eq!(whole(store, id, size).await.unwrap(), bytes);

    let second = store.publish(corrected.clone().into(), corrected_id).await.unwrap();
    let mut both = [durable, second];
    both.sort_unstable_by_key(|held| held.id());
    assert_eq!(store.list().await.unwrap(), both);
    assert_eq!(whole(store, id, size).await.unwrap(), bytes);
    assert_eq!(whole(store, corrected_id, size).await.unwrap(), corrected);

    // Both copies of the first object are damaged: healing one from the other changes nothing and says so.
    holder.net.store().publish(bytes.clone(), id).await.unwrap();
    flip(&holder.net.store().data_path(id), 1 << 20);
    flip(&store.data_path(id), 3 << 20);
    let healed = member.net.fetcher().heal(id, holder.site(), 64 << 20).await;
    assert!(healed.is_err(), "{healed:?}");
    assert!(whole(store, id, size).await.is_err());
    assert_eq!(whole(store, corrected_id, size).await.unwrap(), corrected);
}

/// SOP-118, SOP-193: a node without any key takes in 64 MiB of ciphertext and serves them on, by id and length alone.
#[tokio::test]
async fn what_cannot_be_read_is_served_all_the_same() {
    let (writer, blind) = pair().await;
    let reader = Node::new().await;
    reader.befriend(&blind);
    let size = 64 << 20;
    let (id, bytes) = object(size, 1);
    writer.net.store().publish(bytes.clone(), id).await.unwrap();
    for (from, to) in [(&writer, &blind), (&blind, &reader)] {
        let outcome = to
            .net
            .fetcher()
            .fetch(&FetchRequest::whole(id), from.site(), |_| ())
            .await
            .unwrap();
        assert_eq!(outcome.fetched_bytes, size as u64);
    }
    assert_eq!(whole(reader.net.store(), id, size).await.unwrap(), bytes);
}
