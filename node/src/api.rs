//! What can be asked of a node, and what it answers: the same types in-process, over the socket and with `--json`.
//!
//! One [`Request`] a command, one [`Response`] a request. The engine implements [`Service`]; the daemon calls it for
//! remote callers and the command line calls it directly, so a command cannot behave differently with and without a
//! daemon (DESIGN §16.9).

mod request;
mod response;

use std::{io::Read, sync::Arc};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use self::{request::*, response::*};
pub use crate::error::{ApiError, ErrorKind};

/// Version of every JSON object this crate prints or sends.
pub const FORMAT_VERSION: u32 = 1;

/// A node that answers requests: the engine in this process, or a daemon at the other end of a socket.
#[async_trait]
pub trait Service: Send + Sync {
    /// Carries out one request.
    async fn call(&self, request: Request, exchange: Exchange) -> Result<Response, ApiError>;

    /// The node will close soon: requests that go on for as long as they are fed come to their end.
    fn closing(&self) {}

    /// Finishes what must not be lost before the process ends (a checkpoint, the MLS rows); called once.
    async fn shutdown(&self) {}
}

/// What flows beside a request and its response.
pub struct Exchange {
    /// Bytes of standard input, for requests that read it. Reading blocks, so read it on a blocking thread.
    pub input: Option<Box<dyn Read + Send + Sync>>,
    /// Where rows go.
    pub rows: Arc<dyn RowSink>,
    /// Where progress and notices go.
    pub progress: Arc<dyn ProgressSink>,
}

impl Exchange {
    /// For callers that want the response only.
    pub fn silent() -> Self {
        Self {
            input: None,
            rows: Arc::new(Discard),
            progress: Arc::new(Discard),
        }
    }

    /// Reports one step of progress.
    pub fn progress(&self, stage: &str, unit: Unit, done: u64, total: Option<u64>) {
        self.progress.event(Event::Progress {
            stage: stage.to_owned(),
            unit,
            done,
            total,
        });
    }
}

/// Takes progress and notices as they happen. Must not block.
pub trait ProgressSink: Send + Sync {
    /// Takes one event.
    fn event(&self, event: Event);
}

/// Takes the rows of an answer in order. Waits when the reader is slow; an error means that nobody reads any more.
#[async_trait]
pub trait RowSink: Send + Sync {
    /// The columns, once, before any row.
    async fn schema(&self, schema: SchemaRef) -> Result<(), ApiError>;

    /// Some rows.
    async fn batch(&self, batch: RecordBatch) -> Result<(), ApiError>;
}

/// Drops everything.
#[derive(Debug)]
pub struct Discard;

impl ProgressSink for Discard {
    fn event(&self, _event: Event) {}
}

#[async_trait]
impl RowSink for Discard {
    async fn schema(&self, _schema: SchemaRef) -> Result<(), ApiError> {
        Ok(())
    }

    async fn batch(&self, _batch: RecordBatch) -> Result<(), ApiError> {
        Ok(())
    }
}

/// Something worth telling while a request runs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// How far the request has come.
    Progress {
        /// What is being done, as a word for people: "encrypting", "fetching".
        stage: String,
        /// What `done` and `total` count.
        unit: Unit,
        /// How much is done.
        done: u64,
        /// How much there is, when known.
        total: Option<u64>,
    },
    /// A sentence for the person at the terminal.
    Notice {
        /// The sentence.
        text: String,
    },
    /// The short code that must be the same on both devices (DESIGN §8).
    JoinCode {
        /// The words.
        code: String,
    },
}

/// What a progress figure counts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Encrypted objects.
    Objects,
    /// Entries and records.
    Entries,
    /// Rows of a table.
    Rows,
    /// Steps of a longer story.
    Steps,
}
