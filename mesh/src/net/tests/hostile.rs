//! Holders that lie, stall or send garbage. They speak the protocol byte by byte, not through iroh-blobs.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use iroh::endpoint::{RecvStream, SendStream};
use sovm_object::{
    id::{SiteId, StorageId},
    secret::SiteKey,
    verified::VerifiedRead as _,
};

use super::support::{Node, Roster, object};
use crate::net::{
    Alpn, BoxFuture, EndpointConfig, FetchError, FetchRequest, Holding, MeshEndpoint,
    fetch::Blame,
    router::{Handler, Router},
};

/// What a hostile holder answers to any request: bytes, and whether it then ends the stream or keeps it open.
struct Hostile {
    answer: Bytes,
    ends: bool,
}

impl Handler for Hostile {
    fn handle(&self, connection: iroh::endpoint::Connection) -> BoxFuture<'static, ()> {
        let (answer, ends) = (self.answer.clone(), self.ends);
        Box::pin(async move {
            let mut open = Vec::<(SendStream, RecvStream)>::new();
            while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                let _ = recv.read_to_end(1 << 20).await;
                // The fetcher may have hung up already.
                let _ = send.write_all(&answer).await;
                if !ends {
                    open.push((send, recv));
                }
            }
        })
    }
}

struct Holder {
    endpoint: MeshEndpoint,
    _router: Router,
}

async fn hostile(node: &Node, answer: impl Into<Bytes>, ends: bool) -> Holder {
    let roster = Arc::<Roster>::default();
    roster.trusting.store(true, std::sync::atomic::Ordering::SeqCst);
    let endpoint = MeshEndpoint::bind(&EndpointConfig::loopback(), &SiteKey::generate(), roster)
        .await
        .unwrap();
    let handler: Arc<dyn Handler> = Arc::new(Hostile {
        answer: answer.into(),
        ends,
    });
    let router = Router::spawn(endpoint.iroh(), [(Alpn::Blobs, handler)].into());
    node.roster.add(endpoint.site());
    node.net.endpoint().learn(&endpoint.address());
    Holder {
        endpoint,
        _router: router,
    }
}

impl Holder {
    fn site(&self) -> SiteId {
        self.endpoint.site()
    }
}

async fn fetch(node: &Node, id: StorageId, size: Option<u64>, holder: &Holder) -> FetchError {
    let fetcher = node.net.fetcher().with_stall_timeout(Duration::from_millis(500));
    fetcher
        .fetch(&FetchRequest { id, size, part: None }, holder.site(), |_| ())
        .await
        .unwrap_err()
}

/// SOP-81, SOP-93: garbage never reaches the store, whoever sends it, and the liar is named.
#[tokio::test]
async fn garbage_is_refused_and_blamed() {
    let node = Node::new().await;
    let (id, _) = object(100_000, 1);
    let mut answer = 100_000_u64.to_le_bytes().to_vec();
    answer.resize(120_000, 0x5a);
    let holder = hostile(&node, answer, true).await;
    for size in [None, Some(100_000)] {
        let error = fetch(&node, id, size, &holder).await;
        assert!(matches!(error, FetchError::BadBytes), "{error:?}");
        assert_eq!(error.blame(), Blame::HolderLied);
    }
    assert!(!node.net.store().has(id).await.unwrap());
}

/// A holder that states any other length than the true one gets nothing into the store, however absurd the length.
#[tokio::test]
async fn stated_lengths_are_not_believed() {
    let node = Node::new().await;
    let (id, bytes) = object(100_000, 1);
    for stated in [
        1,
        1024,
        99_999,
        100_001,
        131_072,
        1 << 40,
        (1 << 40) + 1,
        1 << 62,
        u64::MAX - 1,
        u64::MAX,
    ] {
        // With the true bytes behind the false length, as far as they go.
        let mut answer = stated.to_le_bytes().to_vec();
        answer.extend_from_slice(&bytes);
        let holder = hostile(&node, answer, true).await;
        let error = fetch(&node, id, Some(100_000), &holder).await;
        assert!(
            matches!(error, FetchError::WrongSize { .. } | FetchError::BadBytes),
            "{stated}: {error:?}"
        );
        let error = fetch(&node, id, None, &holder).await;
        assert_eq!(error.blame(), Blame::HolderLied, "{stated}: {error:?}");
    }
    assert_eq!(node.net.store().holding(id).await.unwrap(), Holding::Absent);
}

/// iroh#2951: a holder that keeps the connection alive and sends nothing is given up after the stall timeout.
#[tokio::test]
async fn stalls_are_noticed() {
    let node = Node::new().await;
    let (id, bytes) = object(100_000, 1);
    // At once, after the length, and in the middle of the first group.
    let mut partial = 100_000_u64.to_le_bytes().to_vec();
    partial.extend_from_slice(&[0; 40]);
    for answer in [Vec::new(), 100_000_u64.to_le_bytes().to_vec(), partial] {
        let holder = hostile(&node, answer, false).await;
        let error = fetch(&node, id, Some(100_000), &holder).await;
        assert!(matches!(error, FetchError::Stalled(_)), "{error:?}");
        assert_eq!(error.blame(), Blame::HolderUnavailable);
    }
    // An honest holder afterwards is all it takes.
    let honest = Node::new().await;
    honest.befriend(&node);
    honest.net.store().publish(bytes.clone(), id).await.unwrap();
    let outcome = node
        .net
        .fetcher()
        .fetch(&FetchRequest::whole(id), honest.site(), |_| ())
        .await
        .unwrap();
    assert!(outcome.durable.is_some());
    assert_eq!(
        node.net.store().read(id, &[0..100_000]).await.unwrap()[0][..],
        bytes[..]
    );
}

/// An answer that ends early is a holder without the object, not a liar.
#[tokio::test]
async fn answers_that_end_early_are_no_lie() {
    let node = Node::new().await;
    let (id, _) = object(100_000, 1);
    for answer in [
        Vec::new(),
        vec![1, 2, 3],
        100_000_u64.to_le_bytes().to_vec(),
        0_u64.to_le_bytes().to_vec(),
    ] {
        let holder = hostile(&node, answer.clone(), true).await;
        let error = fetch(&node, id, Some(100_000), &holder).await;
        assert_eq!(error.blame(), Blame::HolderUnavailable, "{answer:?}: {error:?}");
    }
}
