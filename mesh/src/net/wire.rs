//! Frames on a QUIC stream: four bytes of length, big endian, then that many bytes.
//!
//! Every frame has a limit and every wait has a deadline. Nothing is reserved on the word of a length field: memory grows
//! with the bytes that really arrive.

use std::time::Duration;

use iroh::endpoint::{Connection, ReadError, ReadExactError, RecvStream, SendStream, VarInt, WriteError};
use sovm_object::id::SiteId;
use tokio::io::AsyncReadExt as _;

use super::{alpn::Alpn, endpoint::Lease, live::code};

/// A frame may take its timeout and one second more for every so many bytes, so that a link of 256 kbit/s is enough.
const SLOWEST_BYTES_PER_SECOND: u64 = 16 * 1024;

/// What may come in at once, and how long one frame may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FrameLimits {
    /// Longest frame that is accepted, in bytes.
    pub frame_bytes_max: u32,
    /// Longest wait for a frame, in either direction; long frames get more, by their length.
    pub timeout: Duration,
}

impl FrameLimits {
    /// Before a stranger has proven anything (DESIGN §8: 16 KiB, 10 s).
    pub const STRANGER: Self = Self {
        frame_bytes_max: 16 * 1024,
        timeout: Duration::from_secs(10),
    };
    /// Between sites that know each other.
    pub const MEMBER: Self = Self {
        frame_bytes_max: 4 * 1024 * 1024,
        timeout: Duration::from_secs(30),
    };
}

/// A frame could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The peer announced a longer frame than is accepted here.
    #[error("the peer sent a frame of {bytes} bytes, longer than the {limit} that are accepted here")]
    FrameTooLong {
        /// The announced length.
        bytes: u32,
        /// The limit in force.
        limit: u32,
    },
    /// The stream ended inside a frame.
    #[error("the stream ended in the middle of a frame")]
    Truncated,
    /// Nothing, or too little, arrived in time.
    #[error("no complete frame within {0:?}")]
    TimedOut(Duration),
    /// The peer refused: it is not our business there.
    #[error("the peer refused the stream")]
    Refused,
    /// The peer is at its limit; trying later may help.
    #[error("the peer is busy, try again later")]
    Busy,
    /// The connection broke.
    #[error("the connection was lost")]
    ConnectionLost,
    /// We tried to send more than a frame can hold.
    #[error("a frame of {0} bytes cannot be sent")]
    CannotSend(usize),
}

impl WireError {
    fn from_code(code: VarInt) -> Self {
        match code {
            code::NOT_ALLOWED => Self::Refused,
            code::BUSY => Self::Busy,
            _ => Self::ConnectionLost,
        }
    }

    pub(super) fn from_close(reason: &iroh::endpoint::ConnectionError) -> Self {
        match reason {
            iroh::endpoint::ConnectionError::ApplicationClosed(close) => Self::from_code(close.error_code),
            _ => Self::ConnectionLost,
        }
    }
}

impl From<ReadError> for WireError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Reset(code) => Self::from_code(code),
            ReadError::ConnectionLost(reason) => Self::from_close(&reason),
            _ => Self::ConnectionLost,
        }
    }
}

impl From<WriteError> for WireError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stopped(code) => Self::from_code(code),
            WriteError::ConnectionLost(reason) => Self::from_close(&reason),
            _ => Self::ConnectionLost,
        }
    }
}

/// One bidirectional stream with a site, cut into frames.
#[derive(Debug)]
pub struct Framed {
    send: SendStream,
    recv: RecvStream,
    limits: FrameLimits,
    peer: SiteId,
    channel_binding: [u8; 32],
    connection: KeptOpen,
}

/// What keeps the connection open while the stream is in use.
#[derive(Debug)]
enum KeptOpen {
    Accepted(Connection),
    Dialled(Lease),
}

impl Framed {
    pub(super) fn accepted(
        connection: Connection,
        (send, recv): (SendStream, RecvStream),
        alpn: Alpn,
        limits: FrameLimits,
    ) -> Result<Self, WireError> {
        let peer = super::site_id(connection.remote_id());
        let channel_binding = channel_binding(&connection, alpn)?;
        Ok(Self {
            send,
            recv,
            limits,
            peer,
            channel_binding,
            connection: KeptOpen::Accepted(connection),
        })
    }

    pub(super) async fn dialled(lease: Lease, alpn: Alpn, limits: FrameLimits) -> Result<Self, WireError> {
        let connection = lease.connection();
        let (send, recv) = connection
            .open_bi()
            .await
            .map_err(|reason| WireError::from_close(&reason))?;
        let channel_binding = channel_binding(connection, alpn)?;
        let peer = super::site_id(connection.remote_id());
        Ok(Self {
            send,
            recv,
            limits,
            peer,
            channel_binding,
            connection: KeptOpen::Dialled(lease),
        })
    }

    /// The site at the other end, proven by the TLS handshake.
    pub const fn peer(&self) -> SiteId {
        self.peer
    }

    /// 32 bytes that only the two ends of this very connection know; proofs cover them, so that nobody in between can
    /// pass a proof on (RFC 5705 exporter).
    pub const fn channel_binding(&self) -> &[u8; 32] {
        &self.channel_binding
    }

    /// Where the peer's packets come from and whether they pass a relay, for what a person is shown.
    pub fn route(&self) -> (super::Route, Option<Duration>) {
        super::live::route_of(self.connection())
    }

    /// Puts other limits in force, for example once a proof was accepted.
    pub const fn set_limits(&mut self, limits: FrameLimits) {
        self.limits = limits;
    }

    /// Sends one frame.
    pub async fn send(&mut self, frame: &[u8]) -> Result<(), WireError> {
        let length = u32::try_from(frame.len()).map_err(|_| WireError::CannotSend(frame.len()))?;
        let timeout = self.limits.timeout + slowest(length);
        let sending = async {
            self.send.write_all(&length.to_be_bytes()).await?;
            self.send.write_all(frame).await
        };
        match tokio::time::timeout(timeout, sending).await {
            Ok(sent) => Ok(sent?),
            Err(_) => Err(self.timed_out(timeout)),
        }
    }

    /// Receives one frame; `None` when the peer has finished its side between two frames.
    pub async fn recv(&mut self) -> Result<Option<Vec<u8>>, WireError> {
        let (limit, timeout) = (self.limits.frame_bytes_max, self.limits.timeout);
        let header = tokio::time::timeout(timeout, receive_length(&mut self.recv, limit)).await;
        let length = match header {
            Ok(Ok(Some(length))) => length,
            Ok(Ok(None)) => return Ok(None),
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(self.timed_out(timeout)),
        };
        let timeout = timeout + slowest(length);
        match tokio::time::timeout(timeout, receive_body(&mut self.recv, length)).await {
            Ok(body) => body.map(Some),
            Err(_) => Err(self.timed_out(timeout)),
        }
    }

    /// Ends our side and waits until the peer has everything, so that dropping the connection loses nothing.
    pub async fn finish(mut self) -> Result<(), WireError> {
        // Fails only when the stream was reset, which the wait below reports.
        let _ = self.send.finish();
        let timeout = self.limits.timeout;
        match tokio::time::timeout(timeout, self.send.stopped()).await {
            Err(_) => Err(WireError::TimedOut(timeout)),
            Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(code::DONE))) => Ok(()),
            Ok(Ok(Some(code))) => Err(WireError::from_code(code)),
            Ok(Err(_)) => match self.connection().close_reason() {
                // An orderly close after it read our last frame is how a peer that needs nothing more ends.
                Some(iroh::endpoint::ConnectionError::ApplicationClosed(close)) if close.error_code == code::DONE => {
                    Ok(())
                }
                _ => Err(WireError::ConnectionLost),
            },
        }
    }

    /// Ends both sides at once with a reason.
    pub(super) fn abort(mut self, reason: VarInt) {
        // Either fails only when that side has already ended.
        let _ = self.send.reset(reason);
        let _ = self.recv.stop(reason);
    }

    fn timed_out(&self, timeout: Duration) -> WireError {
        if let KeptOpen::Dialled(lease) = &self.connection {
            lease.distrust();
        }
        WireError::TimedOut(timeout)
    }

    fn connection(&self) -> &Connection {
        match &self.connection {
            KeptOpen::Accepted(connection) => connection,
            KeptOpen::Dialled(lease) => lease.connection(),
        }
    }
}

impl Drop for Framed {
    fn drop(&mut self) {
        // A dropped stream ends in order, which after a panic of our handler would tell the peer that all is said.
        if std::thread::panicking() {
            let _ = self.send.reset(code::INTERNAL);
        }
    }
}

/// What a frame of this length may take on the slowest link that still works.
const fn slowest(length: u32) -> Duration {
    Duration::from_millis(length as u64 * 1000 / SLOWEST_BYTES_PER_SECOND)
}

async fn receive_length(stream: &mut RecvStream, limit: u32) -> Result<Option<u32>, WireError> {
    let mut header = [0; 4];
    match stream.read_exact(&mut header).await {
        Ok(()) => {}
        Err(ReadExactError::FinishedEarly(0)) => return Ok(None),
        Err(ReadExactError::FinishedEarly(_)) => return Err(WireError::Truncated),
        Err(ReadExactError::ReadError(error)) => return Err(error.into()),
    }
    let bytes = u32::from_be_bytes(header);
    if bytes > limit {
        Err(WireError::FrameTooLong { bytes, limit })
    } else {
        Ok(Some(bytes))
    }
}

async fn receive_body(stream: &mut RecvStream, length: u32) -> Result<Vec<u8>, WireError> {
    let mut body = Vec::new();
    match stream.take(u64::from(length)).read_to_end(&mut body).await {
        Ok(read) if read == length as usize => Ok(body),
        Ok(_) => Err(WireError::Truncated),
        Err(error) => Err(error
            .downcast::<ReadError>()
            .map_or(WireError::ConnectionLost, WireError::from)),
    }
}

fn channel_binding(connection: &Connection, alpn: Alpn) -> Result<[u8; 32], WireError> {
    let mut binding = [0; 32];
    connection
        .export_keying_material(&mut binding, b"EXPORTER-sovm-channel-binding", alpn.as_bytes())
        .map_err(|_| WireError::ConnectionLost)?;
    Ok(binding)
}
