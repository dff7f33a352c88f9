//! Feeds in this process: a pipe that the test holds open.

use std::{
    io::{self, Read},
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use sovm_object::record::{OpKind, Role};

use super::super::super::testing::{Admin, World, change_key};
use crate::{
    api::{Event, Exchange, IngestReport, IngestRequest, ProgressSink, Service as _},
    error::{ApiError, ErrorKind},
};

struct Pipe {
    pieces: Mutex<mpsc::Receiver<String>>,
    left: Vec<u8>,
}

impl Read for Pipe {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left.is_empty() {
            self.left = self.pieces.lock().unwrap().recv().unwrap_or_default().into_bytes();
        }
        let length = self.left.len().min(out.len());
        out[..length].copy_from_slice(&self.left[..length]);
        self.left.drain(..length);
        Ok(length)
    }
}

#[derive(Default)]
struct Notices(Mutex<Vec<String>>);

impl ProgressSink for Notices {
    fn event(&self, event: Event) {
        if let Event::Notice { text } = event {
            self.0.lock().unwrap().push(text);
        }
    }
}

fn request() -> IngestRequest {
    IngestRequest {
        every_ms: Some(50),
        ..World::request()
    }
}

/// Feeds `t`, which holds a 0 before, while `person` acts.
async fn feeding(
    world: &World,
    notices: Arc<Notices>,
    person: impl AsyncFnOnce(mpsc::Sender<String>),
) -> Result<IngestReport, ApiError> {
    world.ingest([0]).await.unwrap();
    let (sender, receiver) = mpsc::channel();
    let input = Pipe {
        pieces: Mutex::new(receiver),
        left: Vec::new(),
    };
    let exchange = Exchange {
        progress: notices,
        ..Exchange::silent()
    };
    sender.send("n\n".to_owned()).unwrap();
    let (result, ()) = tokio::join!(world.ingest_from(request(), input, exchange), person(sender));
    result
}

/// A feed of three rows ended as an error of this kind, which says what stands.
async fn ended(world: &World, outcome: Result<IngestReport, ApiError>, kind: ErrorKind) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    let safe = error.safe.unwrap();
    assert!(safe.contains("2 rows were published before, up to line 3"), "{safe}");
    assert_eq!(world.numbers().await, [0, 1, 2]);
}

/// Waits until the table holds these numbers.
async fn until(world: &World, numbers: &[i64]) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let found = world.numbers().await;
        if found == numbers {
            return;
        }
        assert!(Instant::now() < deadline, "{found:?} instead of {numbers:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// SOP-274: a slow feed becomes an object each time the limit has passed, also when it stalls, even inside a row; a feed that brings
/// nothing makes none. Its end publishes the rest.
#[tokio::test]
async fn a_slow_feed_becomes_objects() {
    let world = World::new().await;
    let notices = Arc::new(Notices::default());
    let report = feeding(&world, notices.clone(), async |feed| {
        feed.send("1\n2\n".to_owned()).unwrap();
        until(&world, &[0, 1, 2]).await;
        feed.send("3\n4".to_owned()).unwrap();
        until(&world, &[0, 1, 2, 3]).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        feed.send("0\n5".to_owned()).unwrap();
        until(&world, &[0, 1, 2, 3, 40]).await;
        drop(feed);
    });
    let report = report.await.unwrap();
    assert_eq!((report.publications, report.objects.len(), report.rows), (4, 4, 5));
    assert!(!report.created);
    assert_eq!(world.numbers().await, [0, 1, 2, 3, 5, 40]);
    let said = notices.0.lock().unwrap().clone();
    let expected =
        ["2 rows", "1 rows", "1 rows", "1 rows"].map(|rows| format!("published {rows} in 1 objects, up to line "));
    assert_eq!(said.len(), 4);
    for ((said, expected), line) in said.iter().zip(expected).zip([3, 4, 5, 6]) {
        assert_eq!(*said, format!("{expected}{line}"));
    }
}

/// SOP-274: each publication is all or nothing. A bad row ends the feed, says which line it is and what was published, and takes only
/// the rows since then with it.
#[tokio::test]
async fn a_bad_row_ends_a_feed() {
    let world = World::new().await;
    let error = feeding(&world, Arc::default(), async |feed| {
        feed.send("1\n".to_owned()).unwrap();
        until(&world, &[0, 1]).await;
        feed.send("2\nx\n".to_owned()).unwrap();
        // The pipe stays open; nobody waits for it.
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(feed);
    });
    let error = error.await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadInput);
    assert!(error.message.contains("standard input, line 4"), "{error}");
    let safe = error.safe.unwrap();
    assert!(safe.contains("1 rows were published before, up to line 2"), "{safe}");
    assert!(error.next.unwrap().contains("--skip-bad-rows"));
    assert_eq!(world.numbers().await, [0, 1]);
}

/// SOP-244, SOP-245, SOP-274: a key that changes in the middle of a feed changes nothing for it; a right that goes ends it at once,
/// although its pipe stays open and silent.
#[tokio::test]
async fn membership_changes_in_the_middle_of_a_feed() {
    let world = World::new().await;
    let (core, domain) = (world.core(), world.domain());
    let admin = Admin::of(core, domain);
    let (keep, kept) = mpsc::channel();
    let error = feeding(&world, Arc::default(), async |feed| {
        feed.send("1\n".to_owned()).unwrap();
        until(&world, &[0, 1]).await;
        change_key(core, domain, true);
        feed.send("2\n".to_owned()).unwrap();
        until(&world, &[0, 1, 2]).await;
        admin.decide(core, domain, OpKind::Role, Role::Reader);
        feed.send("3\n".to_owned()).unwrap();
        keep.send(feed).unwrap();
    });
    ended(&world, error.await, ErrorKind::Refused).await;
    drop(kept);
}

/// A node that closes publishes what a feed has brought, and says that the feed was not at its end.
#[tokio::test]
async fn a_closing_node_ends_its_feeds() {
    let world = World::new().await;
    let (keep, kept) = mpsc::channel();
    let error = feeding(&world, Arc::default(), async |feed| {
        feed.send("1\n".to_owned()).unwrap();
        until(&world, &[0, 1]).await;
        feed.send("2\n3".to_owned()).unwrap();
        keep.send(feed).unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        world.node.closing();
    });
    ended(&world, error.await, ErrorKind::Interrupted).await;
    drop(kept);
}

/// A feed has no end at which its columns could be known.
#[tokio::test]
async fn a_feed_needs_columns() {
    let world = World::new().await;
    let error = world
        .ingest_from(request(), io::empty(), Exchange::silent())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.next.unwrap().contains("--schema FILE"));

    world.ingest([0]).await.unwrap();
    for (start, word) in [
        (&b"PAR1PAR1PAR1"[..], "is parquet, and --every is for"),
        (&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0], "is compressed"),
    ] {
        let request = IngestRequest {
            format: None,
            ..request()
        };
        let error = world.ingest_from(request, start, Exchange::silent()).await.unwrap_err();
        assert!(error.message.contains(word), "{error}");
    }
}
