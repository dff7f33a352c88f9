//! The command's end of the seam: a running daemon when one answers, otherwise this process with the home locked.

use std::{
    io::Read,
    time::{Duration, Instant},
};

use arrow::{buffer::Buffer, ipc::reader::StreamDecoder};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{Request as HttpRequest, body::Frame as BodyFrame, header};
use hyper_util::rt::TokioIo;
use tokio::{net::UnixStream, sync::mpsc};

use crate::{
    api::{Exchange, Request, Response, RowSink, Service},
    config::{Home, HomeLock},
    daemon::{
        Endpoint,
        wire::{Frame, FrameReader},
    },
    error::{ApiError, ErrorKind},
};

/// How long a command waits for another short command, or for a daemon that is starting.
pub const PATIENCE: Duration = Duration::from_secs(3);

const RETRY_EVERY: Duration = Duration::from_millis(50);

/// Pieces of standard input that wait to be sent.
const PIECES_IN_FLIGHT: usize = 4;

const PIECE_BYTES: usize = 64 * 1024;

/// Who answers for a home.
#[derive(Debug)]
pub enum Reached {
    /// A daemon runs on it.
    Daemon(Client),
    /// Nobody did, and now it is ours until the lock is dropped.
    Here(HomeLock),
}

/// Finds who answers for a home, waiting a little for one that is just starting or finishing.
pub async fn reach(home: &Home, patience: Duration) -> Result<Reached, ApiError> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(client) = Client::connect(home).await? {
            return Ok(Reached::Daemon(client));
        }
        match home.lock() {
            Ok(lock) => return Ok(Reached::Here(lock)),
            Err(error) if error.kind == ErrorKind::HomeInUse && Instant::now() < deadline => {
                tokio::time::sleep(RETRY_EVERY).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Waits for a daemon that is being started. Never takes the home itself, so it cannot be in the daemon's way.
pub async fn await_daemon(home: &Home, patience: Duration) -> Result<Client, ApiError> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(client) = Client::connect(home).await? {
            return Ok(client);
        }
        if Instant::now() >= deadline {
            return Err(ApiError::new(
                ErrorKind::Failed,
                format!("no sovm run answered on {} in time", home.path().display()),
            )
            .safe("nothing was done")
            .next("sovm run, or this command without --wait"));
        }
        tokio::time::sleep(RETRY_EVERY).await;
    }
}

/// A daemon at the other end of a socket.
#[derive(Debug)]
pub struct Client {
    endpoint: Endpoint,
    token: String,
}

impl Client {
    /// The daemon of a home, or `None` when nobody answers there. A socket left by a killed daemon counts as nobody.
    pub async fn connect(home: &Home) -> Result<Option<Self>, ApiError> {
        let endpoint = Endpoint::of(home);
        match UnixStream::connect(&endpoint.socket).await {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                return Err(
                    ApiError::io(format!("reaching the daemon at {}", endpoint.socket.display()), &error)
                        .next("run the command as the user who started sovm run"),
                );
            }
            Err(_) => return Ok(None),
        }
        let token = std::fs::read_to_string(&endpoint.token)
            .map_err(|error| ApiError::io(format!("reading {}", endpoint.token.display()), &error))?;
        Ok(Some(Self { endpoint, token }))
    }

    async fn exchange(&self, request: &Request, exchange: Exchange) -> Result<Response, ApiError> {
        let gone = |error: &dyn std::fmt::Display| daemon_gone(error);
        let stream = UnixStream::connect(&self.endpoint.socket)
            .await
            .map_err(|error| gone(&error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| gone(&error))?;
        // Ends with the connection; its errors reach us through the answer.
        let _driver = AbortOnDrop(tokio::spawn(connection).abort_handle());

        // All that a request cannot say in JSON is a path that is no text.
        let mut line = serde_json::to_vec(request).map_err(|error| {
            ApiError::new(ErrorKind::BadInput, format!("the running node cannot be told: {error}"))
                .safe("nothing was done")
                .next("name a path that is UTF-8, or stop the node and run the command again")
        })?;
        line.push(b'\n');
        let http = HttpRequest::post("/v1/call")
            .header(header::HOST, "sovm")
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .body(StreamBody::new(body_of(line, exchange.input)))
            .map_err(ApiError::bug)?;
        let answer = sender.send_request(http).await.map_err(|error| gone(&error))?;
        let mut body = answer.into_body();
        let mut frames = FrameReader::default();
        let mut rows = Rows {
            sink: exchange.rows.as_ref(),
            decoder: StreamDecoder::new(),
            begun: false,
        };
        loop {
            match frames.next()? {
                Some(Frame::Event(event)) => exchange.progress.event(event),
                Some(Frame::Data(data)) => rows.take(data).await?,
                Some(Frame::End(result)) => return *result,
                None => match body.frame().await {
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            frames.push(&data);
                        }
                    }
                    Some(Err(error)) => return Err(gone(&error)),
                    None => return Err(gone(&"it closed the connection before the end")),
                },
            }
        }
    }
}

/// Closes the connection with the call, so that the daemon notices when a command is stopped.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[async_trait]
impl Service for Client {
    async fn call(&self, request: Request, exchange: Exchange) -> Result<Response, ApiError> {
        self.exchange(&request, exchange).await
    }
}

/// Rows that arrive as pieces of one Arrow IPC stream.
struct Rows<'a> {
    sink: &'a dyn RowSink,
    decoder: StreamDecoder,
    begun: bool,
}

impl Rows<'_> {
    async fn take(&mut self, data: Bytes) -> Result<(), ApiError> {
        let mut buffer = Buffer::from(data);
        loop {
            let batch = self.decoder.decode(&mut buffer).map_err(|error| daemon_gone(&error))?;
            if !self.begun
                && let Some(schema) = self.decoder.schema()
            {
                self.begun = true;
                self.sink.schema(schema).await?;
            }
            match batch {
                Some(batch) => self.sink.batch(batch).await?,
                None if buffer.is_empty() => return Ok(()),
                None => {}
            }
        }
    }
}

fn daemon_gone(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(ErrorKind::Failed, format!("the daemon stopped answering: {error}"))
        .safe("what it finished is kept, and nothing is published by halves")
        .next("sovm status shows what is there; then run the command again")
}

type Piece = std::io::Result<BodyFrame<Bytes>>;

/// The request line, then standard input as it is read. Reading happens on a thread of its own that nobody waits for: it
/// may be stuck in a read when the answer is already there.
fn body_of(line: Vec<u8>, input: Option<Box<dyn Read + Send + Sync>>) -> impl futures::Stream<Item = Piece> + Send {
    let first = futures::stream::iter([Ok(BodyFrame::data(Bytes::from(line)))]);
    let (sender, receiver) = mpsc::channel::<Piece>(PIECES_IN_FLIGHT);
    if let Some(mut input) = input {
        std::thread::spawn(move || {
            loop {
                let mut piece = vec![0; PIECE_BYTES];
                let piece = match input.read(&mut piece) {
                    Ok(0) => return,
                    Ok(length) => {
                        piece.truncate(length);
                        Ok(BodyFrame::data(Bytes::from(piece)))
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let failed = piece.is_err();
                if sender.blocking_send(piece).is_err() || failed {
                    return;
                }
            }
        });
    }
    let rest = futures::stream::unfold(receiver, async |mut receiver| {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    first.chain(rest)
}
