//! What travels back from the daemon: JSON lines, some followed by raw bytes.
//!
//! ```text
//! {"event":"progress","stage":"encrypting","unit":"bytes","done":1048576,"total":4194304}
//! {"event":"notice","text":"…"}
//! {"event":"data","bytes":1312}            then exactly 1312 bytes of one Arrow IPC stream
//! {"event":"result","response":{…}}        or {"event":"error","error":{…}}; always the last line
//! ```

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef, ipc::writer::StreamWriter};
use async_trait::async_trait;
use bytes::{Buf as _, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use tokio::{runtime::Handle, sync::mpsc};

use crate::{
    api::{Event, ProgressSink, Response, RowSink},
    error::{ApiError, ErrorKind},
};

pub(crate) const CONTENT_TYPE: &str = "application/x-sovm-stream";

/// Longest line a reader accepts; a hexdump or an object list is the longest thing sent as one.
const MAX_LINE_BYTES: usize = 256 * 1024 * 1024;

/// Largest piece of rows a reader accepts.
const MAX_DATA_BYTES: u64 = 1 << 31;

/// Progress is sent at most this often; nobody reads faster.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// One piece of an answer.
#[derive(Debug, PartialEq)]
pub(crate) enum Frame {
    Event(Event),
    Data(Bytes),
    End(Box<Result<Response, ApiError>>),
}

#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum Line {
    Tail(Tail),
    Event(Event),
}

#[derive(Deserialize, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Tail {
    Data { bytes: u64 },
    Result { response: Box<Response> },
    Error { error: Box<ApiError> },
}

impl Frame {
    /// The bytes on the wire.
    pub(crate) fn encode(self) -> Bytes {
        let (line, data) = match self {
            Self::Event(event) => (Line::Event(event), Bytes::new()),
            Self::Data(data) => (
                Line::Tail(Tail::Data {
                    bytes: data.len() as u64,
                }),
                data,
            ),
            Self::End(result) => match *result {
                Ok(response) => (
                    Line::Tail(Tail::Result {
                        response: Box::new(response),
                    }),
                    Bytes::new(),
                ),
                Err(error) => (Line::Tail(Tail::Error { error: Box::new(error) }), Bytes::new()),
            },
        };
        let mut bytes = serde_json::to_vec(&line).unwrap_or_else(|error| {
            // Our own types always have a JSON form; if one had not, the caller must still get an end.
            let error = ApiError::bug(format_args!("an answer has no JSON form: {error}"));
            serde_json::json!({ "event": "error", "error": error })
                .to_string()
                .into_bytes()
        });
        bytes.push(b'\n');
        bytes.extend_from_slice(&data);
        bytes.into()
    }
}

/// Finds frames in bytes that arrive in any pieces.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    buffer: BytesMut,
    searched: usize,
    data: Option<usize>,
}

impl FrameReader {
    /// Takes more bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, ApiError> {
        if let Some(length) = self.data {
            if self.buffer.len() < length {
                return Ok(None);
            }
            self.data = None;
            return Ok(Some(Frame::Data(self.buffer.split_to(length).freeze())));
        }
        let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            if self.searched > MAX_LINE_BYTES {
                return Err(unreadable("a line is too long"));
            }
            return Ok(None);
        };
        let line = self.buffer.split_to(self.searched + end);
        self.buffer.advance(1);
        self.searched = 0;
        match serde_json::from_slice(&line).map_err(unreadable)? {
            Line::Event(event) => Ok(Some(Frame::Event(event))),
            Line::Tail(Tail::Result { response }) => Ok(Some(Frame::End(Box::new(Ok(*response))))),
            Line::Tail(Tail::Error { error }) => Ok(Some(Frame::End(Box::new(Err(*error))))),
            Line::Tail(Tail::Data { bytes }) if bytes > MAX_DATA_BYTES => {
                Err(unreadable("a piece of rows is too long"))
            }
            Line::Tail(Tail::Data { bytes }) => {
                self.data = Some(bytes as usize);
                self.next()
            }
        }
    }
}

fn unreadable(error: impl std::fmt::Display) -> ApiError {
    ApiError::new(
        ErrorKind::Failed,
        format!("the daemon's answer cannot be read: {error}"),
    )
    .safe("the node itself is not harmed")
    .next("check that daemon and command are the same version (sovm --version), restart sovm run")
}

/// Sends what a request produces, as frames.
pub(super) struct WireSink {
    frames: mpsc::Sender<Frame>,
    handle: Handle,
    last_progress: Mutex<Option<Instant>>,
    rows: Mutex<Option<StreamWriter<Vec<u8>>>>,
}

impl WireSink {
    /// A sink for one request. Must be made inside the runtime.
    pub(super) fn new(frames: mpsc::Sender<Frame>) -> Self {
        Self {
            frames,
            handle: Handle::current(),
            last_progress: Mutex::new(None),
            rows: Mutex::new(None),
        }
    }

    async fn send(&self, data: Vec<u8>) -> Result<(), ApiError> {
        self.frames
            .send(Frame::Data(data.into()))
            .await
            .map_err(|_| ApiError::broken_pipe())
    }
}

impl ProgressSink for WireSink {
    fn event(&self, event: Event) {
        if matches!(event, Event::Progress { .. }) {
            let mut last = self.last_progress.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_some_and(|last| last.elapsed() < PROGRESS_EVERY) {
                return;
            }
            *last = Some(Instant::now());
            // A full channel means that the reader is behind; a later figure will do.
            let _ = self.frames.try_send(Frame::Event(event));
            return;
        }
        // A notice must arrive, and this function must not wait.
        let frames = self.frames.clone();
        self.handle.spawn(async move {
            let _ = frames.send(Frame::Event(event)).await;
        });
    }
}

#[async_trait]
impl RowSink for WireSink {
    async fn schema(&self, schema: SchemaRef) -> Result<(), ApiError> {
        let data = {
            let mut writer = StreamWriter::try_new(Vec::new(), &schema).map_err(ApiError::bug)?;
            let data = std::mem::take(writer.get_mut());
            *self.rows.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
            data
        };
        self.send(data).await
    }

    async fn batch(&self, batch: RecordBatch) -> Result<(), ApiError> {
        let data = {
            let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            let writer = rows
                .as_mut()
                .ok_or_else(|| ApiError::bug("rows came before their columns"))?;
            writer.write(&batch).map_err(ApiError::bug)?;
            std::mem::take(writer.get_mut())
        };
        self.send(data).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{DomainListReport, Unit};

    #[test]
    fn frames_survive_any_cutting() {
        let frames = || {
            vec![
                Frame::Event(Event::Progress {
                    stage: "a".into(),
                    unit: Unit::Bytes,
                    done: 1,
                    total: None,
                }),
                Frame::Data(Bytes::from_static(b"raw\nbytes {")),
                Frame::Event(Event::Notice {
                    text: "line\nbreak".into(),
                }),
                Frame::Data(Bytes::new()),
                Frame::End(Box::new(Ok(Response::DomainList(DomainListReport { domains: vec![] })))),
            ]
        };
        let wire: Vec<u8> = frames().into_iter().flat_map(|frame| frame.encode()).collect();
        for cut in 1..wire.len() {
            let mut reader = FrameReader::default();
            let mut seen = Vec::new();
            for piece in wire.chunks(cut) {
                reader.push(piece);
                while let Some(frame) = reader.next().unwrap() {
                    seen.push(frame);
                }
            }
            assert_eq!(seen, frames(), "cut at {cut}");
        }
    }

    #[test]
    fn garbage_is_an_error() {
        for bad in [
            "nonsense\n",
            "{}\n",
            "{\"event\":\"data\",\"bytes\":99999999999}\n",
            "{\"event\":\"data\",\"bytes\":-1}\n",
        ] {
            let mut reader = FrameReader::default();
            reader.push(bad.as_bytes());
            assert!(reader.next().is_err(), "{bad}");
        }
    }
}
