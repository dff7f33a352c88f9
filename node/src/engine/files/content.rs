//! The content of a plain file: what is read twice, and how it goes into an object without lying in memory.

use std::{
    fs::File,
    io::{self, Read, Seek as _},
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Buf as _, Bytes};
use sovm_object::blob::MAX_WRITTEN_TOTAL;
use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::mpsc,
};

use crate::{
    api::{Event, ProgressSink, Unit},
    error::{ApiError, ErrorKind},
    ingest::{Spool, SpoolError, SpoolReader},
};

/// Sealed bytes handed over at once.
const PIECE_BYTES: usize = 256 * 1024;

/// Pieces between sealing and the store.
const PIECES_IN_FLIGHT: usize = 4;

/// A content of known length that can be read more than once.
pub(super) struct Content {
    name: String,
    held: Held,
    len: u64,
}

enum Held {
    File(File),
    /// What can be read only once rests encrypted meanwhile (SOP-233).
    Spool(Arc<Spool>),
}

impl Content {
    pub(super) fn of_file(path: &Path, spool_dir: &Path) -> Result<Self, ApiError> {
        let name = path.display().to_string();
        let failed = |error: &io::Error| ApiError::io(format!("reading {name}"), error);
        let mut file = File::open(path).map_err(|error| failed(&error).safe("nothing was published"))?;
        let found = file.metadata().map_err(|error| failed(&error))?;
        if found.is_dir() {
            return Err(ApiError::new(ErrorKind::BadInput, format!("{name} is a directory"))
                .safe("nothing was published")
                .next(format!("tar c {name} | sovm object put - --name NAME.tar")));
        }
        if !found.is_file() {
            return Self::of_stream(&name, &mut file, spool_dir);
        }
        Ok(Self {
            name,
            held: Held::File(file),
            len: found.len(),
        })
    }

    pub(super) fn of_stream(name: &str, reader: &mut dyn Read, spool_dir: &Path) -> Result<Self, ApiError> {
        // One object holds less than this, so more need not be read to refuse it.
        let spool = Spool::fill(spool_dir, &mut reader.take(MAX_WRITTEN_TOTAL)).map_err(|error| match error {
            SpoolError::Read(error) => ApiError::io(format!("reading {name}"), &error).safe("nothing was published"),
            SpoolError::Write(error) => ApiError::io("writing the encrypted temporary file", &error),
        })?;
        Ok(Self {
            name: name.to_owned(),
            len: spool.len(),
            held: Held::Spool(Arc::new(spool)),
        })
    }

    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Reads it from the beginning. One reader at a time: readers of a file share its position.
    pub(super) fn reader(&self, stage: &'static str, sink: Arc<dyn ProgressSink>) -> Result<Counted, ApiError> {
        let inner: Box<dyn Read + Send> = match &self.held {
            Held::Spool(spool) => Box::new(SpoolReader::new(spool.clone())),
            Held::File(file) => {
                let again = file.try_clone().and_then(|mut file| file.rewind().map(|()| file));
                Box::new(again.map_err(|error| self.failed(&error))?)
            }
        };
        Ok(Counted {
            inner,
            stage,
            sink,
            done: 0,
            told: 0,
            total: self.len,
        })
    }

    /// Why it could not be read to its end.
    pub(super) fn failed(&self, error: &io::Error) -> ApiError {
        match error.kind() {
            // The sealer's words for a content of another length.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => self.changed(),
            _ => ApiError::io(format!("reading {}", self.name), error).safe("nothing was published"),
        }
    }

    pub(super) fn changed(&self) -> ApiError {
        ApiError::new(ErrorKind::BadInput, format!("{} changed while it was read", self.name))
            .safe("nothing was published")
            .next("run the command again when nobody writes to it, or send what there is: sovm object put - < FILE")
    }
}

/// Tells how far reading is.
pub(super) struct Counted {
    inner: Box<dyn Read + Send>,
    stage: &'static str,
    sink: Arc<dyn ProgressSink>,
    done: u64,
    told: u64,
    total: u64,
}

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(out)?;
        self.done += read as u64;
        if self.done - self.told >= PIECE_BYTES as u64 {
            self.told = self.done;
            self.sink.event(Event::Progress {
                stage: self.stage.to_owned(),
                unit: Unit::Bytes,
                done: self.done,
                total: Some(self.total),
            });
        }
        Ok(read)
    }
}

/// A blocking reader that is read on a thread of its own, for whoever wants to await it.
pub(super) struct Feed {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

impl Feed {
    /// Must be called inside the runtime. The thread ends at its next piece when the feed is dropped.
    pub(super) fn start(mut reader: impl Read + Send + 'static) -> Self {
        let (sender, pieces) = mpsc::channel(PIECES_IN_FLIGHT);
        tokio::task::spawn_blocking(move || {
            loop {
                let mut piece = Vec::with_capacity(PIECE_BYTES);
                let read = (&mut reader).take(PIECE_BYTES as u64).read_to_end(&mut piece);
                let (piece, last) = match read {
                    Ok(0) => return,
                    Ok(_) => (Ok(Bytes::from(piece)), false),
                    Err(error) => (Err(error), true),
                };
                if sender.blocking_send(piece).is_err() || last {
                    return;
                }
            }
        });
        Self {
            pieces,
            current: Bytes::new(),
        }
    }
}

impl AsyncRead for Feed {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.current.is_empty() {
            match self.pieces.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(Some(Ok(piece))) => self.current = piece,
            }
        }
        let len = self.current.len().min(out.remaining());
        out.put_slice(&self.current[..len]);
        self.current.advance(len);
        Poll::Ready(Ok(()))
    }
}
