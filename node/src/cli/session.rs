//! From a command to an answer: find the daemon or open the home, call, show, choose the exit code.

use std::sync::Arc;

use super::{Backend, OpenOptions, unlock};
use crate::{
    api::{Exchange, Request, Response, RowSink, Service},
    client::{self, PATIENCE, Reached},
    config::{Config, Home, HomeLock},
    error::{ApiError, ErrorKind},
    output::Output,
};

/// What every command has at hand.
pub struct Context<'a> {
    /// The node's directory.
    pub home: Home,
    /// Where data and notes go.
    pub output: Arc<Output>,
    /// What makes and opens nodes.
    pub backend: &'a dyn Backend,
    /// Whether anything pending turns into exit code 20.
    pub strict: bool,
}

/// A node that answers, here or in the daemon.
pub struct Session {
    service: Arc<dyn Service>,
    /// Held while the node is open in this process; dropped after the node.
    lock: Option<HomeLock>,
}

impl Session {
    /// Whether a daemon answers, which goes on when this command ends.
    pub const fn is_daemon(&self) -> bool {
        self.lock.is_none()
    }

    /// The node.
    pub fn service(&self) -> &dyn Service {
        self.service.as_ref()
    }

    /// Lets the node finish what must not be lost. A daemon needs no such thing.
    pub async fn close(self) {
        if self.lock.is_some() {
            self.service.shutdown().await;
        }
    }
}

impl Context<'_> {
    /// Finds the daemon, or opens the home here.
    pub async fn open(&self, network: bool) -> Result<Session, ApiError> {
        self.open_with(OpenOptions {
            network,
            ..OpenOptions::default()
        })
        .await
    }

    /// Like [`open`](Self::open), with everything that can be chosen. A daemon keeps the choices it was started with.
    pub async fn open_with(&self, options: OpenOptions) -> Result<Session, ApiError> {
        self.home.require()?;
        match client::reach(&self.home, PATIENCE).await? {
            Reached::Daemon(client) => Ok(Session {
                service: Arc::new(client),
                lock: None,
            }),
            Reached::Here(lock) => {
                let config = Config::load(&self.home)?;
                let unlock = unlock::existing(&config, &self.output)?;
                let service = self.backend.open(&self.home, unlock, options).await?;
                Ok(Session {
                    service,
                    lock: Some(lock),
                })
            }
        }
    }

    /// Makes one call with progress shown, and closes the node again.
    pub async fn call(&self, request: Request) -> Result<Response, ApiError> {
        let session = self.open(request.needs_network()).await?;
        self.call_on(session, request).await
    }

    /// Makes one call of an open node with progress shown, and closes it again.
    pub async fn call_on(&self, session: Session, request: Request) -> Result<Response, ApiError> {
        let result = session
            .service()
            .call(request, self.exchange(None, Arc::new(crate::api::Discard)))
            .await;
        session.close().await;
        result
    }

    /// What flows beside a call of this command.
    pub fn exchange(&self, input: Option<Box<dyn std::io::Read + Send + Sync>>, rows: Arc<dyn RowSink>) -> Exchange {
        Exchange {
            input,
            rows,
            progress: self.output.clone(),
        }
    }

    /// Shows the answer, as JSON or by `render`, and gives the exit code it deserves.
    pub fn show(
        &self,
        response: &Response,
        render: impl FnOnce(&Output) -> Result<(), ApiError>,
    ) -> Result<u8, ApiError> {
        if self.output.is_json() {
            self.output.json_response(response)?;
        } else {
            render(&self.output)?;
        }
        self.judge(response)
    }

    /// The exit code an answer deserves; what it complains of is told on stderr unless it stands in the JSON already.
    pub fn judge(&self, response: &Response) -> Result<u8, ApiError> {
        self.output.flush()?;
        if let Some(error) = response.failure() {
            if !self.output.is_json() {
                self.output.error(&error);
            }
            return Ok(error.exit_code);
        }
        let attention = response.attention();
        if !self.strict || attention.is_empty() {
            return Ok(0);
        }
        if !self.output.is_json() {
            for sentence in attention {
                self.output.warn(sentence);
            }
        }
        Ok(ErrorKind::Pending.exit_code())
    }
}

/// The answer was of another kind than its request: ours to repair.
pub(super) fn unexpected(request: &str) -> ApiError {
    ApiError::bug(format_args!("`{request}` was answered with something else"))
}

/// Takes the expected kind out of an answer.
macro_rules! expect_answer {
    ($response:expr, $variant:ident) => {
        match $response {
            $crate::api::Response::$variant(report) => report,
            _ => return Err($crate::cli::session::unexpected(stringify!($variant))),
        }
    };
}
pub(super) use expect_answer as expect;
