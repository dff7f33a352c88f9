//! Who gets in, and what happens to those who are put out.

use std::sync::atomic::Ordering;

use super::support::{Node, eventually, object, pair};
use crate::net::{Alpn, ConnectError, FetchError, FetchRequest, FrameLimits, Route, WireError, fetch::Blame};

/// DESIGN §8, SOP-194: a stranger reaches the join protocol only, and only while an invite is open. No handler sees it elsewhere, so
/// asking for an id that is here is answered like asking for any other.
#[tokio::test]
async fn stranger_is_refused_before_any_handler() {
    let (node, stranger) = (Node::new().await, Node::new().await);
    let (id, bytes) = object(100_000, 1);
    node.net.store().publish(bytes, id).await.unwrap();
    stranger.roster.trusting.store(true, Ordering::SeqCst);
    stranger.net.endpoint().learn(&node.net.endpoint().address());

    let fetched = stranger
        .net
        .fetcher()
        .fetch(&FetchRequest::whole(id), node.site(), |_| ())
        .await;
    let error = fetched.unwrap_err();
    assert!(matches!(error, FetchError::Connect(ConnectError::Refused)), "{error:?}");
    assert_eq!(error.blame(), Blame::HolderUnavailable);
    assert!(refused(&stranger, &node, Alpn::Sync).await);
    assert!(refused(&stranger, &node, Alpn::Join).await);
    assert_eq!(node.policy.asked.load(Ordering::SeqCst), 0);
    assert_eq!(node.echo.streams.load(Ordering::SeqCst), 0);

    node.roster.invite_open.store(true, Ordering::SeqCst);
    assert!(!refused(&stranger, &node, Alpn::Join).await);
    assert!(refused(&stranger, &node, Alpn::Sync).await);
    assert_eq!(node.echo.streams.load(Ordering::SeqCst), 1);
}

async fn refused(from: &Node, to: &Node, alpn: Alpn) -> bool {
    let mut stream = match from.net.endpoint().open(to.site(), alpn, FrameLimits::STRANGER).await {
        Ok(stream) => stream,
        Err(ConnectError::Refused) => return true,
        Err(error) => panic!("{error:?}"),
    };
    let answer = match stream.send(b"hello").await {
        Ok(()) => stream.recv().await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(Some(frame)) if frame == b"hello" => false,
        Err(WireError::Refused) => true,
        other => panic!("{other:?}"),
    }
}

/// Our own gate forbids calling a site that is not a member, before a packet is sent.
#[tokio::test]
async fn we_call_no_strangers() {
    let (node, other) = (Node::new().await, Node::new().await);
    node.net.endpoint().learn(&other.net.endpoint().address());
    let opened = node
        .net
        .endpoint()
        .open(other.site(), Alpn::Sync, FrameLimits::MEMBER)
        .await;
    assert!(matches!(opened, Err(ConnectError::NotAllowed)));
    let ourselves = node.net.endpoint();
    node.roster.add(ourselves.site());
    assert!(matches!(
        ourselves.open(ourselves.site(), Alpn::Sync, FrameLimits::MEMBER).await,
        Err(ConnectError::Ourselves)
    ));
}

/// DESIGN §8: removal closes live connections, and the site does not get back in.
#[tokio::test]
async fn removal_closes_live_connections() {
    let (node, member) = pair().await;
    let mut stream = member
        .net
        .endpoint()
        .open(node.site(), Alpn::Sync, FrameLimits::MEMBER)
        .await
        .unwrap();
    stream.send(b"hello").await.unwrap();
    assert_eq!(stream.recv().await.unwrap().unwrap(), b"hello");
    let status = node.net.endpoint().peers();
    assert_eq!(
        (status[0].site, &status[0].alpns[..], status[0].route),
        (member.site(), &[Alpn::Sync][..], Route::Direct)
    );
    assert!(status[0].rtt.is_some());

    node.roster.remove(member.site());
    assert_eq!(node.net.endpoint().disconnect(&member.site()), 1);
    assert!(matches!(stream.recv().await, Err(WireError::Refused)));
    drop(stream);
    assert!(refused(&member, &node, Alpn::Sync).await);
    eventually("no connection is left", || node.net.endpoint().peers().is_empty()).await;
}

/// iroh#3602: a site that restarts on another port is found at once, since addresses are replaced and not collected.
#[tokio::test]
async fn a_restarted_site_is_found_at_its_new_port() {
    let (node, member) = pair().await;
    assert!(!refused(&node, &member, Alpn::Sync).await);
    let member = member.stop().await.start().await;
    node.befriend(&member);
    let known = node.net.endpoint().known_address(&member.site()).unwrap();
    assert_eq!(known, member.net.endpoint().address());
    assert!(!refused(&node, &member, Alpn::Sync).await);
}

/// A hundred calls share one connection.
#[tokio::test]
async fn connections_are_reused() {
    let (node, member) = pair().await;
    for _ in 0..100 {
        assert!(!refused(&node, &member, Alpn::Sync).await);
    }
    assert_eq!(member.net.endpoint().disconnect(&node.site()), 1);
}
