//! Gossip topics.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;

use super::support::{Node, pair};
use crate::net::{
    HintEvent, HintTopic,
    gossip::{HINT_BYTES_MAX, HintError},
};

async fn next_hint(topic: &mut HintTopic) -> (sovm_object::id::SiteId, Bytes) {
    let waiting = async {
        loop {
            if let HintEvent::Received { from, content } = topic.next().await.unwrap() {
                return (from, content);
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap()
}

async fn neighbour(topic: &mut HintTopic) {
    let waiting = async { while !matches!(topic.next().await.unwrap(), HintEvent::NeighbourUp(_)) {} };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap();
}

/// DESIGN §8: hints of at most 1 KiB reach the members of the topic.
#[tokio::test]
async fn hints_reach_members() {
    let (one, two) = pair().await;
    let topic = [7; 32];
    let mut at_one = one
        .net
        .hints()
        .subscribe(topic, &BTreeSet::from([two.site()]))
        .await
        .unwrap();
    let mut at_two = two
        .net
        .hints()
        .subscribe(topic, &BTreeSet::from([one.site()]))
        .await
        .unwrap();
    neighbour(&mut at_one).await;
    neighbour(&mut at_two).await;
    let hint = Bytes::from(vec![1; HINT_BYTES_MAX]);
    at_one.broadcast(hint.clone()).await.unwrap();
    assert_eq!(next_hint(&mut at_two).await, (one.site(), hint));
    let long = Bytes::from(vec![1; HINT_BYTES_MAX + 1]);
    assert!(matches!(at_one.broadcast(long).await, Err(HintError::TooLong(_))));
}

/// Sites that learn of each other after they subscribed still find each other: the roster changed, so they look again.
#[tokio::test]
async fn late_members_are_looked_for() {
    let (one, two) = pair().await;
    let topic = [8; 32];
    let mut at_one = one.net.hints().subscribe(topic, &BTreeSet::new()).await.unwrap();
    let mut at_two = two.net.hints().subscribe(topic, &BTreeSet::new()).await.unwrap();
    at_one.set_members(&BTreeSet::from([two.site()]));
    neighbour(&mut at_one).await;
    at_two.broadcast(Bytes::from_static(b"news")).await.unwrap();
    assert_eq!(next_hint(&mut at_one).await, (two.site(), Bytes::from_static(b"news")));
    neighbour(&mut at_two).await;
}

/// A site that is not in the roster gets no hint, even if it knows the topic.
#[tokio::test]
async fn strangers_hear_nothing() {
    let (one, two) = (Node::new().await, Node::new().await);
    two.roster.trusting.store(true, std::sync::atomic::Ordering::SeqCst);
    two.net.endpoint().learn(&one.net.endpoint().address());
    let topic = [9; 32];
    let at_one = one.net.hints().subscribe(topic, &BTreeSet::new()).await.unwrap();
    let mut at_two = two
        .net
        .hints()
        .subscribe(topic, &BTreeSet::from([one.site()]))
        .await
        .unwrap();
    at_one.broadcast(Bytes::from_static(b"private")).await.unwrap();
    let heard = async {
        loop {
            match at_two.next().await {
                Some(HintEvent::Received { content, .. }) => return content,
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(2), heard).await.is_err());
}
