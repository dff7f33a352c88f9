//! Join, recover and sync streams: the bounds around them. What is said on them is the host's business.

use std::{sync::Arc, time::Duration};

use iroh::endpoint::Connection;
use tokio::{sync::Semaphore, task::JoinSet};
use tracing::{debug, warn};

use super::{
    BoxFuture,
    alpn::Alpn,
    live::code,
    router::Handler,
    wire::{FrameLimits, Framed, WireError},
    work::Work,
};

/// Handles the streams other sites open on one protocol.
pub trait StreamHandler: Send + Sync + 'static {
    /// One stream, from its first frame to its end. [`Framed::peer`] is proven by the handshake and passed the gate.
    ///
    /// A stream of a stranger starts with [`FrameLimits::STRANGER`]; raise them once it has proven something. When this
    /// returns, our side of the stream is ended: in order, or with the kind of the error.
    fn handle<'a>(&'a self, stream: &'a mut Framed) -> BoxFuture<'a, Result<(), StreamEnd>>;
}

/// Why a handler gave up a stream. The peer learns the kind and nothing else.
#[derive(Debug, thiserror::Error)]
pub enum StreamEnd {
    /// The peer may not do what it asked for.
    #[error("the peer was refused")]
    Refused,
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Protocol(&'static str),
    /// We are at a limit.
    #[error("too busy for this stream")]
    Busy,
    /// We failed.
    #[error("this node failed")]
    Internal,
    /// The stream broke.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Bounds of one protocol.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamBounds {
    /// Connections at the same time, all peers together.
    pub(super) connections_max: usize,
    /// Streams at the same time on one connection.
    pub(super) streams_per_connection_max: u32,
    /// Limits a stream starts with.
    pub(super) limits: FrameLimits,
    /// A connection without a stream for this long is closed.
    pub(super) idle: Duration,
}

impl StreamBounds {
    /// DESIGN §8: the join handler is bounded by 8 handshakes, 16 KiB, 10 s. Recovery is open to strangers as well.
    pub(super) const STRANGER: Self = Self {
        connections_max: 8,
        streams_per_connection_max: 1,
        limits: FrameLimits::STRANGER,
        idle: Duration::from_secs(10),
    };
    pub(super) const MEMBER: Self = Self {
        connections_max: 256,
        streams_per_connection_max: 8,
        limits: FrameLimits::MEMBER,
        idle: Duration::from_secs(120),
    };

    pub(super) const fn of(alpn: Alpn) -> Self {
        if alpn.is_open_to_strangers() {
            Self::STRANGER
        } else {
            Self::MEMBER
        }
    }
}

/// Accepts streams of one protocol and hands them to the host.
pub(super) struct StreamProtocol {
    alpn: Alpn,
    bounds: StreamBounds,
    host: Arc<dyn StreamHandler>,
    connections: Arc<Semaphore>,
    work: Work,
}

impl StreamProtocol {
    pub(super) fn new(alpn: Alpn, host: Arc<dyn StreamHandler>, work: Work) -> Self {
        let bounds = StreamBounds::of(alpn);
        Self {
            alpn,
            bounds,
            host,
            connections: Arc::new(Semaphore::new(bounds.connections_max)),
            work,
        }
    }
}

impl Handler for StreamProtocol {
    fn handle(&self, connection: Connection) -> BoxFuture<'static, ()> {
        let Ok(permit) = self.connections.clone().try_acquire_owned() else {
            return Box::pin(async move { connection.close(code::BUSY, b"busy") });
        };
        let (alpn, bounds, host, work) = (self.alpn, self.bounds, self.host.clone(), self.work.clone());
        Box::pin(async move {
            connection.set_max_concurrent_bi_streams(bounds.streams_per_connection_max.into());
            connection.set_max_concurrent_uni_streams(0_u32.into());
            let mut streams = JoinSet::new();
            loop {
                tokio::select! {
                    Some(ended) = streams.join_next() => {
                        // The panic tears down this stream only; the peer sees it reset.
                        if ended.is_err_and(|error: tokio::task::JoinError| error.is_panic()) {
                            warn!(protocol = %alpn, "a stream's handler panicked; the stream is closed");
                        }
                    }
                    accepted = tokio::time::timeout(bounds.idle, connection.accept_bi()) => match accepted {
                        Ok(Ok(pair)) => {
                            let Ok(stream) = Framed::accepted(connection.clone(), pair, alpn, bounds.limits) else { break };
                            let (host, work) = (host.clone(), work.clone());
                            streams.spawn(async move {
                                match work.begin() {
                                    Some(_running) => serve(alpn, host.as_ref(), stream).await,
                                    None => stream.abort(code::STOPPING),
                                }
                            });
                        }
                        Ok(Err(_closed)) => break,
                        Err(_idle) if streams.is_empty() => {
                            connection.close(code::DONE, b"idle");
                            break;
                        }
                        Err(_idle) => {}
                    }
                }
            }
            // Streams that are still at work see the connection's end themselves; what they do with their last words is
            // theirs to finish.
            while streams.join_next().await.is_some() {}
            drop(permit);
        })
    }
}

async fn serve(alpn: Alpn, host: &dyn StreamHandler, mut stream: Framed) {
    match host.handle(&mut stream).await {
        Err(end) => {
            debug!(protocol = %alpn, outcome = end.kind(), "stream ended");
            stream.abort(end.code());
        }
        Ok(()) => {
            if stream.finish().await.is_err() {
                debug!(protocol = %alpn, "the peer left before the end of the stream");
            }
        }
    }
}

impl StreamEnd {
    const fn code(&self) -> iroh::endpoint::VarInt {
        match self {
            Self::Refused => code::NOT_ALLOWED,
            Self::Protocol(_) | Self::Wire(_) => code::PROTOCOL,
            Self::Busy => code::BUSY,
            Self::Internal => code::INTERNAL,
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Protocol(_) => "protocol violation",
            Self::Busy => "busy",
            Self::Internal => "internal failure",
            Self::Wire(_) => "stream broken",
        }
    }
}
