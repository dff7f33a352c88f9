//! The daemon's end of the seam: the node's requests over HTTP on a Unix socket (DESIGN §16.9).
//!
//! `POST /v1/call` takes one JSON request on the first line of the body; what follows is the command's standard input. The
//! answer is a stream of JSON lines (see [`wire`]): progress, rows, and last the result or the error. A handler that
//! panics costs its caller an error, never the daemon.

mod input;
mod socket;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

use std::{future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response as HttpResponse},
    routing::{get, post},
};
use futures::FutureExt as _;
use tokio::{
    net::UnixListener,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::AbortHandle,
};

pub(crate) use self::socket::Endpoint;
use self::{
    socket::BoundSocket,
    wire::{Frame, WireSink},
};
use crate::{
    api::{Exchange, FORMAT_VERSION, Request, Service},
    config::{Home, HomeLock},
    error::{ApiError, ErrorKind},
};

/// Requests that run at the same time; more are told to come back.
const MAX_CALLS: usize = 64;

/// Frames between a request and its slow reader.
const FRAMES_IN_FLIGHT: usize = 16;

/// How long running requests may go on after the daemon was told to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// A bound socket, not yet answering.
#[derive(Debug)]
pub struct Daemon {
    listener: UnixListener,
    socket: BoundSocket,
}

impl Daemon {
    /// Binds the socket of a home. The lock proves that a socket left there belongs to nobody.
    pub fn bind(home: &Home, _lock: &HomeLock) -> Result<Self, ApiError> {
        let (listener, socket) = socket::bind(home)?;
        Ok(Self { listener, socket })
    }

    /// Answers until `stop` resolves, then lets running requests finish for a moment.
    pub async fn serve(
        self,
        service: Arc<dyn Service>,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ApiError> {
        let closing = service.clone();
        let state = Arc::new(Shared {
            service,
            token: blake3::hash(self.socket.token().as_bytes()),
            calls: Arc::new(Semaphore::new(MAX_CALLS)),
        });
        let router = Router::new()
            .route("/v1/call", post(call))
            .route("/v1/health", get(health))
            .fallback(async || {
                answer_error(&ApiError::new(
                    ErrorKind::NotFound,
                    "no such path; the calls are at POST /v1/call",
                ))
            })
            .with_state(state);
        let stop = stop.shared();
        let serve = axum::serve(self.listener, router)
            .with_graceful_shutdown(stop.clone())
            .into_future();
        let deadline = async {
            stop.await;
            closing.closing();
            tokio::time::sleep(STOP_GRACE).await;
        };
        tokio::select! {
            served = serve => served.map_err(|error| ApiError::io("serving the socket", &error)),
            () = deadline => Ok(()),
        }
    }
}

struct Shared {
    service: Arc<dyn Service>,
    token: blake3::Hash,
    calls: Arc<Semaphore>,
}

impl Shared {
    fn admit(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let given = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "))
            .unwrap_or_default();
        // Hashes compare in constant time, so the time taken tells nothing about the token.
        if blake3::hash(given.as_bytes()) == self.token {
            return Ok(());
        }
        Err(ApiError::new(ErrorKind::WrongKey, "the token is missing or wrong")
            .safe("nothing was done")
            .next("send `Authorization: Bearer` with the content of run/token in the home"))
    }
}

async fn health(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> HttpResponse {
    if let Err(error) = shared.admit(&headers) {
        return answer_error(&error);
    }
    let body = serde_json::json!({
        "format_version": FORMAT_VERSION,
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
    });
    axum::Json(body).into_response()
}

async fn call(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Body) -> HttpResponse {
    match begin(&shared, &headers, body).await {
        Ok(response) => response,
        Err(error) => answer_error(&error),
    }
}

async fn begin(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<HttpResponse, ApiError> {
    shared.admit(headers)?;
    let permit = shared.calls.clone().try_acquire_owned().map_err(|_| {
        ApiError::new(ErrorKind::Refused, format!("{MAX_CALLS} commands are running already"))
            .safe("nothing was done")
            .next("run the command again in a moment")
    })?;
    let (line, input) = input::split_first_line(body).await?;
    let request: Request = serde_json::from_slice(&line).map_err(|error| {
        ApiError::new(ErrorKind::Usage, format!("the request cannot be read: {error}")).safe("nothing was done")
    })?;
    tracing::debug!(command = request.name(), "call");

    let (frames, mut receiver) = mpsc::channel(FRAMES_IN_FLIGHT);
    let sink = Arc::new(WireSink::new(frames.clone()));
    let exchange = Exchange {
        input: Some(Box::new(input)),
        rows: sink.clone(),
        progress: sink,
    };
    let service = shared.service.clone();
    let task = tokio::spawn(async move {
        let called = AssertUnwindSafe(service.call(request, exchange)).catch_unwind().await;
        let result = called.unwrap_or_else(|panic| Err(ApiError::bug(panic_text(panic.as_ref()))));
        // The caller may be gone.
        let _ = frames.send(Frame::End(Box::new(result))).await;
    });
    let running = Running {
        task: task.abort_handle(),
        _permit: permit,
    };

    // An error that comes before anything else can still choose the status.
    let first = receiver
        .recv()
        .await
        .ok_or_else(|| ApiError::bug("a request ended without a result"))?;
    let status = match &first {
        Frame::End(result) => result.as_ref().as_ref().err().map_or(StatusCode::OK, status_of),
        Frame::Event(_) | Frame::Data(_) => StatusCode::OK,
    };
    let frames = futures::stream::unfold(
        (Some(first), receiver, running),
        async |(first, mut receiver, running)| {
            let frame = match first {
                Some(frame) => frame,
                None => receiver.recv().await?,
            };
            Some((
                Ok::<_, std::convert::Infallible>(frame.encode()),
                (None, receiver, running),
            ))
        },
    );
    Ok((
        status,
        [(header::CONTENT_TYPE, wire::CONTENT_TYPE)],
        Body::from_stream(frames),
    )
        .into_response())
}

/// Stops the request when its caller goes away: the answer's body owns this.
struct Running {
    task: AbortHandle,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn status_of(error: &ApiError) -> StatusCode {
    StatusCode::from_u16(error.kind.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn answer_error(error: &ApiError) -> HttpResponse {
    let frame = Frame::End(Box::new(Err(error.clone())));
    (
        status_of(error),
        [(header::CONTENT_TYPE, wire::CONTENT_TYPE)],
        frame.encode(),
    )
        .into_response()
}

/// What a panic said, as far as it can be known.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
