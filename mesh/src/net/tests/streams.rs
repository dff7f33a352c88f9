//! Framed streams: limits, panics, bounds.

use std::{sync::atomic::Ordering, time::Duration};

use super::support::{Node, pair};
use crate::net::{Alpn, FrameLimits, Framed, WireError};

async fn open(from: &Node, to: &Node, alpn: Alpn) -> Framed {
    from.net
        .endpoint()
        .open(to.site(), alpn, FrameLimits::MEMBER)
        .await
        .unwrap()
}

/// Frames of any length inside the limit arrive whole and in order, and the end is seen as the end.
#[tokio::test]
async fn frames_arrive_whole_and_in_order() {
    let (node, member) = pair().await;
    let mut stream = open(&member, &node, Alpn::Sync).await;
    for length in [0, 1, 16_384, 1_000_000, FrameLimits::MEMBER.frame_bytes_max as usize] {
        let frame = vec![length as u8; length];
        stream.send(&frame).await.unwrap();
        assert_eq!(stream.recv().await.unwrap().unwrap(), frame);
    }
    // Both ends of one connection know the same 32 bytes, and nobody else does.
    assert_eq!(node.echo.binding.lock().unwrap().unwrap(), *stream.channel_binding());
    assert_eq!(stream.peer(), node.site());
    stream.finish().await.unwrap();
}

#[tokio::test]
async fn two_connections_have_two_bindings() {
    let ((node, member), other) = (pair().await, Node::new().await);
    other.befriend(&node);
    let (one, two) = (
        open(&member, &node, Alpn::Sync).await,
        open(&other, &node, Alpn::Sync).await,
    );
    assert_ne!(one.channel_binding(), two.channel_binding());
}

/// DESIGN §15: an oversized frame is refused by its header, before its bytes.
#[tokio::test]
async fn frames_over_the_limit_are_refused() {
    let (node, member) = pair().await;
    // The join protocol starts with the limits for strangers, for members too.
    let mut stream = open(&member, &node, Alpn::Join).await;
    stream.send(&[0; 16 * 1024]).await.unwrap();
    assert_eq!(stream.recv().await.unwrap().unwrap().len(), 16 * 1024);
    // The refusal may meet us while we still send.
    let sent = stream.send(&[0; 16 * 1024 + 1]).await;
    let answer = stream.recv().await;
    assert!(answer.is_err(), "{sent:?} {answer:?}");

    // And in the other direction: what we accept is our choice.
    let mut stream = open(&member, &node, Alpn::Sync).await;
    stream.set_limits(FrameLimits {
        frame_bytes_max: 10,
        ..FrameLimits::MEMBER
    });
    stream.send(&[0; 11]).await.unwrap();
    assert!(matches!(
        stream.recv().await,
        Err(WireError::FrameTooLong { bytes: 11, limit: 10 })
    ));
}

#[tokio::test]
async fn silence_is_timed_out() {
    let (node, member) = pair().await;
    let mut stream = open(&member, &node, Alpn::Sync).await;
    stream.set_limits(FrameLimits {
        timeout: Duration::from_millis(50),
        ..FrameLimits::MEMBER
    });
    assert!(matches!(stream.recv().await, Err(WireError::TimedOut(_))));
}

/// A panic in a handler ends its stream. The connection, the endpoint and every other handler go on.
#[tokio::test]
async fn a_panicking_handler_takes_nothing_down() {
    let (node, member) = pair().await;
    for alpn in [Alpn::Sync, Alpn::Join] {
        let mut broken = open(&member, &node, alpn).await;
        broken.send(b"panic").await.unwrap();
        assert!(broken.recv().await.is_err());
        drop(broken);
        let mut stream = open(&member, &node, alpn).await;
        stream.send(b"still there").await.unwrap();
        assert_eq!(stream.recv().await.unwrap().unwrap(), b"still there");
    }
}

#[tokio::test]
async fn a_refusing_handler_is_understood() {
    let (node, member) = pair().await;
    let mut stream = open(&member, &node, Alpn::Sync).await;
    stream.send(b"refuse").await.unwrap();
    assert!(matches!(stream.recv().await, Err(WireError::Refused)));
}

/// DESIGN §8: at most eight join handshakes at once; the ninth is told to come back, and the slots come free again.
#[tokio::test]
async fn join_is_bounded() {
    let node = Node::new().await;
    node.roster.invite_open.store(true, Ordering::SeqCst);
    let mut callers = Vec::new();
    for _ in 0..9 {
        let caller = Node::new().await;
        caller.roster.trusting.store(true, Ordering::SeqCst);
        caller.net.endpoint().learn(&node.net.endpoint().address());
        callers.push(caller);
    }
    let mut streams = Vec::new();
    for caller in &callers[..8] {
        let mut stream = caller
            .net
            .endpoint()
            .open(node.site(), Alpn::Join, FrameLimits::STRANGER)
            .await
            .unwrap();
        stream.send(b"hello").await.unwrap();
        assert_eq!(stream.recv().await.unwrap().unwrap(), b"hello");
        streams.push(stream);
    }
    assert!(matches!(hello(&callers[8], &node).await, Err(WireError::Busy)));
    streams.clear();
    callers.truncate(9);
    for caller in &callers[..8] {
        caller.net.endpoint().disconnect(&node.site());
    }
    for _ in 0..100 {
        if hello(&callers[8], &node).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no slot came free");
}

async fn hello(from: &Node, to: &Node) -> Result<(), WireError> {
    let opened = from
        .net
        .endpoint()
        .open(to.site(), Alpn::Join, FrameLimits::STRANGER)
        .await;
    let mut stream = match opened {
        Ok(stream) => stream,
        Err(crate::net::ConnectError::Busy) => return Err(WireError::Busy),
        Err(error) => panic!("{error:?}"),
    };
    stream.send(b"hello").await?;
    stream.recv().await.map(|_| ())
}
