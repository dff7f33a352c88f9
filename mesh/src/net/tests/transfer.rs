//! Objects moving between two nodes.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sovm_object::verified::{ReadError, VerifiedRead as _};
use tokio::sync::Notify;

use super::{
    store::flip,
    support::{Home, Node, eventually, object, pair},
};
use crate::net::{Alpn, ConnectError, FetchError, FetchProgress, FetchRequest, Holding, UploadLimit, fetch::Blame};

/// DESIGN §8: a member gets an object, verified and durable, and the holder knows what it sent.
#[tokio::test]
async fn member_fetches_eight_mebibytes() {
    let (holder, member) = pair().await;
    let size = 8 << 20;
    let (id, bytes) = object(size, 1);
    holder.net.store().publish(bytes.clone(), id).await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::<FetchProgress>::new()));
    let progress = {
        let seen = seen.clone();
        move |step| seen.lock().unwrap().push(step)
    };
    let fetcher = member.net.fetcher();
    let outcome = fetcher
        .fetch(&FetchRequest::whole(id), holder.site(), progress)
        .await
        .unwrap();
    assert_eq!(outcome.fetched_bytes, size as u64);
    let durable = outcome.durable.unwrap();
    assert_eq!(member.net.store().holding(id).await.unwrap(), Holding::Durable(durable));
    assert_eq!(
        member.net.store().read(id, &[0..size as u64]).await.unwrap()[0][..],
        bytes[..]
    );
    let last = *seen.lock().unwrap().last().unwrap();
    assert_eq!(
        last,
        FetchProgress {
            have_bytes: size as u64,
            size: size as u64
        }
    );
    // The proof of the length takes one more group.
    eventually("the bytes are counted", || {
        holder.net.served().bytes_sent >= size as u64
    })
    .await;
    assert!(holder.net.served().bytes_sent <= size as u64 + 16 * 1024);

    // A second fetch has nothing to do.
    let again = fetcher
        .fetch(&FetchRequest::whole(id), holder.site(), |_| ())
        .await
        .unwrap();
    assert_eq!((again.fetched_bytes, again.durable), (0, Some(durable)));
}

#[tokio::test]
async fn small_objects_move_too() {
    let (holder, member) = pair().await;
    for (seed, size) in [1, 1024, 1025, 16_384, 16_385, 50_000].into_iter().enumerate() {
        let (id, bytes) = object(size, seed as u8);
        holder.net.store().publish(bytes.clone(), id).await.unwrap();
        let request = FetchRequest {
            id,
            size: (seed % 2 == 0).then_some(size as u64),
            part: None,
        };
        let outcome = member
            .net
            .fetcher()
            .fetch(&request, holder.site(), |_| ())
            .await
            .unwrap();
        assert_eq!(outcome.durable.unwrap().size(), size as u64);
        assert_eq!(
            member.net.store().read(id, &[0..size as u64]).await.unwrap()[0][..],
            bytes[..]
        );
    }
}

/// croc#946: a transfer that broke off at 40 % goes on with the open ranges only, also from a restarted holder, also
/// after our own store went down without a word.
#[tokio::test]
async fn interrupted_fetch_resumes_where_it_was() {
    let (size, rate) = (8 << 20, 16 << 20);
    let (holder, member) = (
        Home::new().start_with(UploadLimit::bytes_per_second(rate)).await,
        Node::new().await,
    );
    holder.befriend(&member);
    let (id, bytes) = object(size, 1);
    holder.net.store().publish(bytes.clone(), id).await.unwrap();

    let (reached, have) = (Arc::new(Notify::new()), Arc::new(AtomicU64::new(0)));
    let progress = {
        let (reached, have) = (reached.clone(), have.clone());
        move |step: FetchProgress| {
            have.store(step.have_bytes, Ordering::SeqCst);
            if step.have_bytes > 2 * step.size / 5 {
                reached.notify_one();
            }
        }
    };
    let fetcher = member.net.fetcher();
    let (site, request) = (
        holder.site(),
        FetchRequest {
            id,
            size: Some(size as u64),
            part: None,
        },
    );
    let fetching = tokio::spawn(async move { fetcher.fetch(&request, site, progress).await });
    reached.notified().await;
    // The holder goes away in the middle, without finishing what it sends.
    holder.roster.remove(member.site());
    holder.net.endpoint().disconnect(&member.site());
    let error = fetching.await.unwrap().unwrap_err();
    assert_eq!(error.blame(), Blame::HolderUnavailable, "{error:?}");
    let holder = holder.stop().await;

    // Our own node is killed: no shutdown of its store.
    let Node { net, home, .. } = member;
    net.endpoint().close().await;
    drop(net);
    let member = loop {
        match crate::net::ObjectStore::open(home.dir.path().join("blobs"), super::support::NO_RESERVE).await {
            Ok(store) => {
                break {
                    store.shutdown().await.unwrap();
                    drop(store);
                    home.start().await
                };
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let Holding::Partial { bytes: kept } = member.net.store().holding(id).await.unwrap() else {
        panic!("not partial: {:?}", member.net.store().holding(id).await)
    };
    let reported = have.load(Ordering::SeqCst);
    assert!(
        kept + (1 << 20) >= reported && kept >= 2 * size as u64 / 5 - (1 << 20),
        "kept {kept} of {reported}"
    );
    // What is there in part is not there for readers.
    assert!(matches!(
        member.net.store().read(id, &[0..1]).await,
        Err(ReadError::Missing { .. })
    ));

    let holder = holder.start().await;
    holder.befriend(&member);
    let outcome = member
        .net
        .fetcher()
        .fetch(&FetchRequest::whole(id), holder.site(), |_| ())
        .await
        .unwrap();
    assert_eq!(outcome.fetched_bytes + kept, size as u64);
    eventually("the bytes are counted", || {
        holder.net.served().bytes_sent >= size as u64 - kept
    })
    .await;
    assert!(holder.net.served().bytes_sent <= size as u64 - kept + 32 * 1024);
    assert_eq!(
        member.net.store().read(id, &[0..size as u64]).await.unwrap()[0][..],
        bytes[..]
    );
}

/// Two holders share one object by parts.
#[tokio::test]
async fn parts_come_from_two_holders() {
    let ((one, member), two) = (pair().await, Node::new().await);
    two.befriend(&member);
    let size = (5 << 20) + 12_345;
    let (id, bytes) = object(size, 1);
    for holder in [&one, &two] {
        holder.net.store().publish(bytes.clone(), id).await.unwrap();
    }
    let fetcher = member.net.fetcher();
    let part = |part| FetchRequest {
        id,
        size: Some(size as u64),
        part: Some(part),
    };
    let (first, second) = (part(0..2 << 20), part(2 << 20..size as u64));
    let (first, second) = tokio::join!(
        fetcher.fetch(&first, one.site(), |_| ()),
        fetcher.fetch(&second, two.site(), |_| ()),
    );
    assert_eq!(first.unwrap().fetched_bytes, 2 << 20);
    assert_eq!(second.unwrap().fetched_bytes, size as u64 - (2 << 20));
    assert!(
        fetcher
            .fetch(&FetchRequest::whole(id), one.site(), |_| ())
            .await
            .unwrap()
            .durable
            .is_some()
    );
    assert_eq!(member.net.store().scrub(id).await.unwrap(), size as u64);
}

/// DESIGN §8: serving asks for every object.
#[tokio::test]
async fn the_policy_decides_per_object() {
    let (holder, member) = pair().await;
    let ((secret, secret_bytes), (open, open_bytes)) = (object(30_000, 1), object(30_000, 2));
    holder.net.store().publish(secret_bytes, secret).await.unwrap();
    holder.net.store().publish(open_bytes, open).await.unwrap();
    holder.policy.forbidden.lock().unwrap().insert(secret);
    let fetcher = member.net.fetcher();
    let refused = fetcher.fetch(&FetchRequest::whole(secret), holder.site(), |_| ()).await;
    assert!(matches!(refused, Err(FetchError::Refused)), "{refused:?}");
    assert!(
        fetcher
            .fetch(&FetchRequest::whole(open), holder.site(), |_| ())
            .await
            .is_ok()
    );
    assert_eq!(holder.net.served().requests_refused, 1);
}

#[tokio::test]
async fn an_object_nobody_has_is_not_held() {
    let (holder, member) = pair().await;
    let (id, _) = object(30_000, 1);
    for size in [None, Some(30_000)] {
        let request = FetchRequest { id, size, part: None };
        let missing = member.net.fetcher().fetch(&request, holder.site(), |_| ()).await;
        assert!(matches!(missing, Err(FetchError::NotHeld)), "{missing:?}");
    }
    assert_eq!(member.net.store().holding(id).await.unwrap(), Holding::Absent);
}

/// `limits.upload`: all connections together stay under the limit.
#[tokio::test]
async fn the_upload_limit_slows() {
    let (size, rate) = (2 << 20, 2 << 20);
    let (holder, member) = (
        Home::new().start_with(UploadLimit::bytes_per_second(rate)).await,
        Node::new().await,
    );
    holder.befriend(&member);
    let objects = [object(size, 1), object(size, 2)];
    for (id, bytes) in &objects {
        holder.net.store().publish(bytes.clone(), *id).await.unwrap();
    }
    let (fetcher, start) = (member.net.fetcher(), Instant::now());
    let fetch = |at: usize| {
        let (fetcher, request, site) = (&fetcher, FetchRequest::whole(objects[at].0), holder.site());
        async move { fetcher.fetch(&request, site, |_| ()).await.unwrap() }
    };
    tokio::join!(fetch(0), fetch(1));
    // Four mebibytes at two a second, less the burst of a quarter of a second.
    let seconds = start.elapsed().as_secs_f64();
    assert!((1.6..6.0).contains(&seconds), "{seconds}");
}

/// A holder that holds a damaged copy serves nothing of the damaged part; a damaged copy of ours is healed from it.
#[tokio::test]
async fn damaged_copies_are_not_served_and_can_be_healed() {
    let (holder, member) = pair().await;
    let size = 6 << 20;
    let (id, bytes) = object(size, 1);
    for node in [&holder, &member] {
        node.net.store().publish(bytes.clone(), id).await.unwrap();
    }
    flip(&member.net.store().data_path(id), 3 << 20);
    assert!(member.net.store().scrub(id).await.is_err());
    // A fetch believes a receipt; to doubt one is the scrubber's business.
    let fetcher = member.net.fetcher();
    let believed = fetcher
        .fetch(&FetchRequest::whole(id), holder.site(), |_| ())
        .await
        .unwrap();
    assert_eq!(believed.fetched_bytes, 0);
    let third = Node::new().await;
    third.befriend(&member);
    let bad = third
        .net
        .fetcher()
        .fetch(&FetchRequest::whole(id), member.site(), |_| ())
        .await;
    assert!(matches!(bad, Err(FetchError::NotHeld)), "{bad:?}");

    let refused = fetcher.heal(id, holder.site(), 1 << 20).await;
    assert!(matches!(refused, Err(FetchError::TooLarge { .. })), "{refused:?}");
    fetcher.heal(id, holder.site(), 64 << 20).await.unwrap();
    assert_eq!(member.net.store().scrub(id).await.unwrap(), size as u64);
}

/// syncthing-android#175: files that are gone, and bytes without a receipt that are not what the books say, come back.
#[tokio::test]
async fn a_fetch_replaces_what_the_disk_has_lost() {
    let (holder, member) = pair().await;
    let size = 6 << 20;
    let (id, bytes) = object(size, 1);
    for node in [&holder, &member] {
        node.net.store().publish(bytes.clone(), id).await.unwrap();
    }
    let (fetcher, store) = (member.net.fetcher(), member.net.store());
    std::fs::remove_file(store.data_path(id)).unwrap();
    assert_eq!(store.holding(id).await.unwrap(), Holding::Damaged);
    assert_eq!(store.list().await.unwrap(), []);
    assert!(
        fetcher
            .fetch(&FetchRequest::whole(id), holder.site(), |_| ())
            .await
            .unwrap()
            .durable
            .is_some()
    );
    assert_eq!(store.scrub(id).await.unwrap(), size as u64);

    // As after a power cut between the last byte and the receipt.
    store.release(id).await.unwrap();
    flip(&store.data_path(id), 3 << 20);
    assert!(store.confirm(id).await.is_err());
    assert!(
        fetcher
            .fetch(&FetchRequest::whole(id), holder.site(), |_| ())
            .await
            .unwrap()
            .durable
            .is_some()
    );
    assert_eq!(store.scrub(id).await.unwrap(), size as u64);
    store.release(id).await.unwrap();
    assert_eq!(store.confirm(id).await.unwrap().unwrap().size(), size as u64);
}

/// A description with a wrong length is told apart from a holder with one: the object's own hash decides.
#[tokio::test]
async fn a_wrong_description_blames_no_holder() {
    let (holder, member) = pair().await;
    let (id, bytes) = object(100_000, 1);
    holder.net.store().publish(bytes, id).await.unwrap();
    let request = FetchRequest {
        id,
        size: Some(100_001),
        part: None,
    };
    let error = member
        .net
        .fetcher()
        .fetch(&request, holder.site(), |_| ())
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            FetchError::WrongDescription {
                requested: 100_001,
                proven: 100_000
            }
        ),
        "{error:?}"
    );
    assert_eq!(error.blame(), Blame::Description);
    assert!(
        member
            .net
            .fetcher()
            .fetch(&FetchRequest::whole(id), holder.site(), |_| ())
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn an_absent_holder_is_reported_in_time() {
    let (holder, member) = pair().await;
    let site = holder.site();
    holder.stop().await;
    let start = Instant::now();
    let error = member
        .net
        .fetcher()
        .fetch(&FetchRequest::whole(object(1, 1).0), site, |_| ())
        .await
        .unwrap_err();
    assert!(
        matches!(error, FetchError::Connect(ConnectError::Unreachable)),
        "{error:?}"
    );
    assert!(start.elapsed() < Duration::from_secs(15));
}

/// A stop refuses new work, lets running work end, and can be repeated.
#[tokio::test]
async fn shutdown_lets_a_running_transfer_end() {
    let (size, rate) = (2 << 20, 4 << 20);
    let (holder, member) = (
        Home::new().start_with(UploadLimit::bytes_per_second(rate)).await,
        Node::new().await,
    );
    holder.befriend(&member);
    let (id, bytes) = object(size, 1);
    holder.net.store().publish(bytes, id).await.unwrap();
    let (started, fetcher, site) = (Arc::new(Notify::new()), member.net.fetcher(), holder.site());
    let progress = {
        let started = started.clone();
        move |_| started.notify_one()
    };
    let fetching = tokio::spawn(async move { fetcher.fetch(&FetchRequest::whole(id), site, progress).await });
    started.notified().await;
    holder.net.shutdown().await.unwrap();
    holder.net.shutdown().await.unwrap();
    assert!(fetching.await.unwrap().unwrap().durable.is_some());
    let gone = member
        .net
        .endpoint()
        .open(site, Alpn::Sync, crate::net::FrameLimits::MEMBER)
        .await;
    assert!(gone.is_err());
}

/// SOP-187, SOP-262: once the store has let go of it, a fetch reads a damaged object in full and puts bytes of the same id in
/// place of the bad ones, whatever is wrong with the files.
#[tokio::test]
async fn what_was_set_aside_is_fetched_into_place() {
    let (holder, member) = pair().await;
    let size = 6 << 20;
    let (id, bytes) = object(size, 1);
    for node in [&holder, &member] {
        node.net.store().publish(bytes.clone(), id).await.unwrap();
    }
    let (fetcher, store) = (member.net.fetcher(), member.net.store());
    let (data, outboard) = (store.data_path(id), store.outboard_path(id));
    let shorten = || {
        std::fs::File::options()
            .write(true)
            .open(&data)
            .unwrap()
            .set_len(2 << 20)
            .unwrap()
    };
    let damages: [&dyn Fn(); 5] = [
        &|| flip(&data, 3 << 20),
        &|| flip(&outboard, 70),
        &shorten,
        &|| std::fs::remove_file(&data).unwrap(),
        &|| std::fs::remove_file(&outboard).unwrap(),
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        damage();
        assert!(store.scrub(id).await.is_err(), "damage {number}");
        store.release(id).await.unwrap();
        let outcome = fetcher.fetch(&FetchRequest::whole(id), holder.site(), |_| ()).await;
        let outcome = outcome.unwrap_or_else(|error| panic!("damage {number}: {error}"));
        assert!(outcome.durable.is_some(), "damage {number}");
        assert_eq!(store.scrub(id).await.unwrap(), size as u64, "damage {number}");
    }
}
