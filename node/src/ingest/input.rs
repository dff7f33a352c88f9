//! From a named input to plain bytes: opening, counting, decompressing, spooling.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    Pass, Progress, ProgressFn,
    error::IngestError,
    feed::{Feed, RecordEnds, Stopper},
    format::Compression,
    spool::{Spool, SpoolError, SpoolReader},
};

/// How much is read between two calls of the progress function.
const PROGRESS_STEP: u64 = 256 * 1024;

/// Size of the read buffers.
const BUFFER: usize = 128 * 1024;

/// Counts the bytes of one pass over all inputs.
#[derive(Clone)]
pub(super) struct Meter {
    pass: Pass,
    bytes: Arc<AtomicU64>,
    total: Option<u64>,
    tell: Option<ProgressFn>,
}

impl Meter {
    pub(super) fn new(pass: Pass, total: Option<u64>, tell: Option<ProgressFn>) -> Self {
        Self {
            pass,
            bytes: Arc::new(AtomicU64::new(0)),
            total,
            tell,
        }
    }

    fn add(&self, read: u64) {
        let before = self.bytes.fetch_add(read, Ordering::Relaxed);
        if before / PROGRESS_STEP != (before + read) / PROGRESS_STEP {
            self.say(before + read);
        }
    }

    /// Tells the last state, which need not lie on a step.
    pub(super) fn finish(&self) {
        self.say(self.bytes.load(Ordering::Relaxed));
    }

    fn say(&self, bytes: u64) {
        if let Some(tell) = &self.tell {
            tell(Progress {
                pass: self.pass,
                bytes,
                total: self.total,
            });
        }
    }
}

/// A reader that tells a meter.
struct Counted<R> {
    inner: R,
    meter: Meter,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.meter.add(read as u64);
        Ok(read)
    }
}

/// One input, with what is known about its bytes.
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) compression: Option<Compression>,
    origin: Origin,
}

enum Origin {
    File(PathBuf),
    Stream(Option<Box<dyn Read + Send>>),
    Spooled(Arc<Spool>),
}

/// A plain reader of one input.
pub(super) type Plain = Box<dyn BufRead + Send>;

impl Slot {
    /// A regular file, which can be read as often as needed.
    pub(super) fn file(name: String, path: &Path) -> Result<Self, IngestError> {
        let mut start = Vec::with_capacity(8);
        let file = File::open(path).map_err(|source| unreadable(&name, source))?;
        file.take(8)
            .read_to_end(&mut start)
            .map_err(|source| unreadable(&name, source))?;
        let compression = Compression::of_content(&start);
        Ok(Self {
            name,
            compression,
            origin: Origin::File(path.to_owned()),
        })
    }

    /// Anything that comes only once.
    pub(super) fn stream(name: String, mut reader: Box<dyn Read + Send>) -> Result<Self, IngestError> {
        let start = first_bytes(&mut reader, 8).map_err(|source| unreadable(&name, source))?;
        let compression = Compression::of_content(&start);
        let reader = Box::new(Cursor::new(start).chain(reader));
        Ok(Self {
            name,
            compression,
            origin: Origin::Stream(Some(reader)),
        })
    }

    /// Whether its bytes come as somebody writes them.
    pub(super) const fn is_stream(&self) -> bool {
        matches!(self.origin, Origin::Stream(_))
    }

    /// Bytes as they lie on disk; `None` while a stream has not ended.
    pub(super) fn len(&self) -> Option<u64> {
        match &self.origin {
            Origin::File(path) => std::fs::metadata(path).ok().map(|metadata| metadata.len()),
            Origin::Stream(_) => None,
            Origin::Spooled(spool) => Some(spool.len()),
        }
    }

    /// The first decompressed bytes, leaving the input as it was.
    pub(super) fn peek(&mut self, most: usize) -> Result<Vec<u8>, IngestError> {
        let mut start = Vec::new();
        if let Origin::Stream(stream) = &mut self.origin {
            let Some(mut raw) = stream.take() else {
                return Err(self.already_read());
            };
            // Compressed streams are peeked through a copy of their beginning, so that nothing of them is lost. A
            // decompressor reads ahead; it may run out of the copy, which is no error here.
            let copy = if self.compression.is_some() {
                let mut copy = Vec::new();
                raw.by_ref().take(BUFFER as u64).read_to_end(&mut copy).map(|_| copy)
            } else {
                first_bytes(&mut raw, most)
            };
            let copy = copy.map_err(|source| unreadable(&self.name, source))?;
            let mut plain = self.decompressed(Cursor::new(copy.clone()))?;
            let _ = (&mut plain).take(most as u64).read_to_end(&mut start);
            self.origin = Origin::Stream(Some(Box::new(Cursor::new(copy).chain(raw))));
            return Ok(start);
        }
        let mut plain = self.open(&Meter::new(Pass::Infer, None, None))?;
        (&mut plain)
            .take(most as u64)
            .read_to_end(&mut start)
            .map_err(|source| unreadable(&self.name, source))?;
        Ok(start)
    }

    /// The decompressed bytes from the start. A stream that was not spooled is used up.
    pub(super) fn open(&mut self, meter: &Meter) -> Result<Plain, IngestError> {
        let raw: Box<dyn Read + Send> = match &mut self.origin {
            Origin::File(path) => Box::new(File::open(path).map_err(|source| unreadable(&self.name, source))?),
            Origin::Spooled(spool) => Box::new(SpoolReader::new(spool.clone())),
            Origin::Stream(stream) => match stream.take() {
                Some(stream) => stream,
                None => return Err(self.already_read()),
            },
        };
        self.decompressed(Counted {
            inner: raw,
            meter: meter.clone(),
        })
    }

    fn decompressed(&self, raw: impl Read + Send + 'static) -> Result<Plain, IngestError> {
        let raw = BufReader::with_capacity(BUFFER, raw);
        Ok(match self.compression {
            None => Box::new(raw),
            Some(Compression::Gzip) => Box::new(BufReader::with_capacity(
                BUFFER,
                flate2::bufread::MultiGzDecoder::new(raw),
            )),
            Some(Compression::Zstd) => {
                let decoder = zstd::stream::read::Decoder::with_buffer(raw);
                let decoder = decoder.map_err(|source| unreadable(&self.name, source))?;
                Box::new(BufReader::with_capacity(BUFFER, decoder))
            }
        })
    }

    /// Reads a stream with pauses. It cannot be compressed.
    pub(super) fn pause_every(&mut self, every: Duration, ends: RecordEnds) -> Result<Stopper, IngestError> {
        let Origin::Stream(stream) = &mut self.origin else {
            return Err(self.already_read());
        };
        let Some(stream) = stream.take() else {
            return Err(self.already_read());
        };
        let (feed, stopper) = Feed::start(stream, ends, Some(every));
        self.origin = Origin::Stream(Some(Box::new(feed)));
        Ok(stopper)
    }

    /// Makes a stream readable again, as it came.
    pub(super) fn spool(&mut self, dir: &Path) -> Result<(), IngestError> {
        if let Origin::Stream(stream) = &mut self.origin {
            let Some(mut stream) = stream.take() else {
                return Err(self.already_read());
            };
            let spool = Spool::fill(dir, &mut stream).map_err(|error| spool_error(&self.name, dir, error))?;
            self.origin = Origin::Spooled(Arc::new(spool));
        }
        Ok(())
    }

    /// The decompressed bytes for reading at random places; spooled when they cannot be had so from where they lie.
    pub(super) fn random_access(&mut self, dir: &Path, meter: &Meter) -> Result<RandomAccess, IngestError> {
        if self.compression.is_some() || matches!(self.origin, Origin::Stream(_)) {
            // Counted when it is read for decoding, not here.
            let mut plain = self.open(&Meter::new(Pass::Infer, None, None))?;
            let spool = Spool::fill(dir, &mut plain).map_err(|error| spool_error(&self.name, dir, error))?;
            self.compression = None;
            self.origin = Origin::Spooled(Arc::new(spool));
        }
        let (bytes, len) = match &self.origin {
            Origin::File(path) => {
                let file = File::open(path).map_err(|source| unreadable(&self.name, source))?;
                let len = file.metadata().map_err(|source| unreadable(&self.name, source))?.len();
                (RandomBytes::File(Arc::new(file)), len)
            }
            Origin::Spooled(spool) => (RandomBytes::Spool(spool.clone()), spool.len()),
            Origin::Stream(_) => return Err(self.already_read()),
        };
        Ok(RandomAccess {
            bytes,
            len,
            meter: meter.clone(),
        })
    }

    fn already_read(&self) -> IngestError {
        IngestError::AlreadyRead {
            file: self.name.clone(),
        }
    }
}

/// The first bytes of a stream, and no more than its first line: a feed may take its time for the next.
fn first_bytes(reader: &mut dyn Read, most: usize) -> io::Result<Vec<u8>> {
    let mut start = vec![0; most];
    let mut length = 0;
    while length < most && !start[..length].trim_ascii_start().contains(&b'\n') {
        match reader.read(&mut start[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    start.truncate(length);
    Ok(start)
}

pub(super) fn unreadable(name: &str, source: io::Error) -> IngestError {
    match source.kind() {
        io::ErrorKind::NotFound => IngestError::Missing { file: name.to_owned() },
        io::ErrorKind::IsADirectory => IngestError::Directory { file: name.to_owned() },
        _ => IngestError::Unreadable {
            file: name.to_owned(),
            source,
        },
    }
}

fn spool_error(name: &str, dir: &Path, error: SpoolError) -> IngestError {
    match error {
        SpoolError::Read(source) => unreadable(name, source),
        SpoolError::Write(source) => IngestError::Spool {
            dir: dir.to_owned(),
            source,
        },
    }
}

/// Bytes of one input at any place, for columnar formats.
#[derive(Clone)]
pub(super) struct RandomAccess {
    bytes: RandomBytes,
    len: u64,
    meter: Meter,
}

#[derive(Clone)]
enum RandomBytes {
    File(Arc<File>),
    Spool(Arc<Spool>),
}

/// Both kinds of random bytes can be read from a place on.
trait ReadSeek: Read + Seek + Send {}
impl<T: Read + Seek + Send> ReadSeek for T {}

/// A position in random bytes.
pub(super) struct RandomReader {
    inner: Box<dyn ReadSeek>,
    meter: Meter,
}

impl RandomAccess {
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// A reader whose bytes do not count as progress, for a look at a file before its rows are read.
    pub(super) fn uncounted(&self) -> RandomReader {
        RandomReader {
            meter: Meter::new(Pass::Infer, None, None),
            ..self.reader()
        }
    }

    pub(super) fn reader(&self) -> RandomReader {
        let inner: Box<dyn ReadSeek> = match &self.bytes {
            RandomBytes::File(file) => Box::new(FileReader {
                file: file.clone(),
                position: 0,
            }),
            RandomBytes::Spool(spool) => Box::new(SpoolReader::new(spool.clone())),
        };
        RandomReader {
            inner,
            meter: self.meter.clone(),
        }
    }
}

/// A position of its own in a file that others read too.
struct FileReader {
    file: Arc<File>,
    position: u64,
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for FileReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => self.file.metadata()?.len().checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.position)
    }
}

impl Read for RandomReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.meter.add(read as u64);
        Ok(read)
    }
}

impl Seek for RandomReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
