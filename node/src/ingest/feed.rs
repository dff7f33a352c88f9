//! Input without an end (SOP-274): whole records as they come, and a pause each time a limit has passed.
//!
//! ```text
//! pipe ─▶ a thread that may wait for ever ─▶ queue ─▶ Feed ─▶ reader of rows
//!                                                      │ whole records only, so whoever reads is never stuck inside one
//!                                                      └ limit passed: one error of kind `WouldBlock`, between two records
//! ```
//!
//! After a pause reading goes on where it was. The limit runs from the first record after the last pause: a feed that says
//! nothing makes no pauses, and one that falls silent after a row makes one in time.

use std::{
    collections::VecDeque,
    io::{self, Read},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::MAX_ROW_BYTES;

/// Pieces that wait for the reader; a feed that is faster waits in its pipe.
const PIECES_IN_FLIGHT: usize = 4;

const PIECE_BYTES: usize = 64 * 1024;

/// Whether an error is a pause and no failure.
pub(super) fn is_pause(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// The reading end.
pub(crate) struct Feed {
    queue: Arc<Queue>,
    ends: RecordEnds,
    limit: Limit,
    /// Whole records that were not handed out yet.
    whole: Vec<u8>,
    handed_out: usize,
    /// The beginning of a record.
    begun: Vec<u8>,
    ended: bool,
}

impl Feed {
    /// Reads lines without pauses: for whoever wants to end a feed from outside without ending it inside a line.
    pub(crate) fn of_lines(input: Box<dyn Read + Send>) -> (Self, Stopper) {
        Self::start(input, RecordEnds::Lines, None)
    }

    pub(super) fn start(mut input: Box<dyn Read + Send>, ends: RecordEnds, every: Option<Duration>) -> (Self, Stopper) {
        let queue = Arc::new(Queue::default());
        let filled = queue.clone();
        // Nobody waits for this thread: it may be stuck in a read that never returns.
        std::thread::spawn(move || filled.fill(&mut *input));
        let feed = Self {
            queue: queue.clone(),
            ends,
            limit: Limit { every, due: None },
            whole: Vec::new(),
            handed_out: 0,
            begun: Vec::new(),
            ended: false,
        };
        (feed, Stopper(queue))
    }

    fn take(&mut self, piece: &[u8]) {
        let (whole, begun) = piece.split_at(self.ends.last_in(piece).unwrap_or(0));
        if !whole.is_empty() {
            self.whole.clear();
            self.handed_out = 0;
            self.whole.append(&mut self.begun);
            self.whole.extend_from_slice(whole);
            self.limit.begin(Instant::now());
        }
        self.begun.extend_from_slice(begun);
        // Too long for a row. The reader of rows says so.
        if self.begun.len() as u64 > MAX_ROW_BYTES {
            self.whole.append(&mut self.begun);
        }
    }
}

impl Read for Feed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = &self.whole[self.handed_out..];
            if !left.is_empty() {
                let length = left.len().min(out.len());
                out[..length].copy_from_slice(&left[..length]);
                self.handed_out += length;
                return Ok(length);
            }
            if self.ended {
                return Ok(0);
            }
            if self.limit.has_passed(Instant::now()) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            match self.queue.next(self.limit.due) {
                Next::Piece(piece) => self.take(&piece),
                Next::NotYet => {}
                // What stands behind the last line end is a record if the feed ended, and half of one if it was cut off.
                Next::End => {
                    self.ended = true;
                    self.handed_out = 0;
                    self.whole = std::mem::take(&mut self.begun);
                }
                Next::Stopped => self.ended = true,
                Next::Failed(error) => return Err(error),
            }
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.queue.stop();
    }
}

/// Ends a feed from outside. Whole records that were read already are still handed out, half of one is not.
pub(crate) struct Stopper(Arc<Queue>);

impl Stopper {
    pub(crate) fn stop(&self) {
        self.0.stop();
    }
}

/// When the next pause is due.
struct Limit {
    every: Option<Duration>,
    due: Option<Instant>,
}

impl Limit {
    fn begin(&mut self, now: Instant) {
        if let (None, Some(every)) = (self.due, self.every) {
            self.due = now.checked_add(every);
        }
    }

    /// Says so once.
    fn has_passed(&mut self, now: Instant) -> bool {
        self.due.take_if(|due| *due <= now).is_some()
    }
}

/// Finds where records end.
pub(super) enum RecordEnds {
    /// Every line is one.
    Lines,
    /// RFC 4180, as [`Records`](super::records::Records) reads it: quoted fields hold line ends.
    Csv { delimiter: u8, place: Place },
}

#[derive(Clone, Copy, Default)]
pub(super) enum Place {
    #[default]
    FieldStart,
    Field,
    Quoted,
    /// Behind a quote inside quotes: the end of the field, or the first half of a quote.
    Quote,
    /// Behind text that follows a closing quote. The reader of rows refuses the row and takes its line to the end, whatever quotes
    /// are in it.
    Stray,
}

impl RecordEnds {
    pub(super) fn of_csv(delimiter: u8) -> Self {
        Self::Csv {
            delimiter,
            place: Place::default(),
        }
    }

    /// Goes on over a piece; gives the place behind the last record that ends in it.
    fn last_in(&mut self, piece: &[u8]) -> Option<usize> {
        let Self::Csv { delimiter, place } = self else {
            return piece.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        };
        let mut last = None;
        for (at, byte) in piece.iter().enumerate() {
            *place = match (*place, *byte) {
                (Place::FieldStart | Place::Quote, b'"') => Place::Quoted,
                (Place::Quoted, b'"') => Place::Quote,
                (Place::Quoted, _) => Place::Quoted,
                (_, b'\n') => {
                    last = Some(at + 1);
                    Place::FieldStart
                }
                (Place::Stray, _) => Place::Stray,
                (_, byte) if byte == *delimiter => Place::FieldStart,
                (Place::Quote, _) => Place::Stray,
                _ => Place::Field,
            };
        }
        last
    }
}

/// What was read and not taken yet. A channel of the standard library cannot be ended from a third side.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pieces: VecDeque<Vec<u8>>,
    end: Option<io::Result<()>>,
    stopped: bool,
}

enum Next {
    Piece(Vec<u8>),
    NotYet,
    End,
    Stopped,
    Failed(io::Error),
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }

    fn fill(&self, input: &mut dyn Read) {
        loop {
            let mut piece = vec![0; PIECE_BYTES];
            let read = match input.read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read,
            };
            let full = |state: &mut State| state.pieces.len() >= PIECES_IN_FLIGHT && !state.stopped;
            let waited = self.changed.wait_while(self.state(), full);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            match read {
                Ok(0) => state.end = Some(Ok(())),
                Ok(length) => {
                    piece.truncate(length);
                    state.pieces.push_back(piece);
                }
                Err(error) => state.end = Some(Err(error)),
            }
            self.changed.notify_all();
            if state.end.is_some() || state.stopped {
                return;
            }
        }
    }

    /// Waits for the next piece or the end, no longer than until `due`.
    fn next(&self, due: Option<Instant>) -> Next {
        let empty = |state: &mut State| state.pieces.is_empty() && state.end.is_none() && !state.stopped;
        let mut state = match due {
            None => self
                .changed
                .wait_while(self.state(), empty)
                .unwrap_or_else(PoisonError::into_inner),
            Some(due) => {
                let left = due.saturating_duration_since(Instant::now());
                let waited = self.changed.wait_timeout_while(self.state(), left, empty);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        if let Some(piece) = state.pieces.pop_front() {
            self.changed.notify_all();
            return Next::Piece(piece);
        }
        match state.end.take() {
            Some(Ok(())) => Next::End,
            Some(Err(error)) => Next::Failed(error),
            None if state.stopped => Next::Stopped,
            None => Next::NotYet,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        sync::mpsc,
    };

    use proptest::prelude::*;

    use super::{super::records::Records, *};

    /// Gives one piece a read, and waits for the next as long as its sender lives.
    struct Pieces(mpsc::Receiver<Vec<u8>>, Vec<u8>);

    impl Read for Pieces {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            if self.1.is_empty() {
                self.1 = self.0.recv().unwrap_or_default();
            }
            let length = self.1.len().min(out.len());
            out[..length].copy_from_slice(&self.1[..length]);
            self.1.drain(..length);
            Ok(length)
        }
    }

    fn feed(ends: RecordEnds, every: Option<Duration>) -> (mpsc::Sender<Vec<u8>>, BufReader<Feed>, Stopper) {
        let (sender, receiver) = mpsc::channel();
        let (feed, stopper) = Feed::start(Box::new(Pieces(receiver, Vec::new())), ends, every);
        (sender, BufReader::new(feed), stopper)
    }

    fn line(reader: &mut BufReader<Feed>) -> Result<String, io::ErrorKind> {
        let mut line = String::new();
        let read = reader.read_line(&mut line);
        // A pause never comes inside a line.
        assert!(read.is_ok() || line.is_empty());
        read.map(|_| line).map_err(|error| error.kind())
    }

    /// SOP-274: the limit runs from the first record after the last pause, is said once, and runs no more until the next record.
    #[test]
    fn the_limit_runs_from_the_first_record() {
        let (start, every) = (Instant::now(), Duration::from_secs(60));
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut limit = Limit {
            every: Some(every),
            due: None,
        };
        assert!(!limit.has_passed(after(1_000_000)));
        limit.begin(start);
        limit.begin(after(59));
        assert!(!limit.has_passed(after(59)));
        assert!(limit.has_passed(after(60)));
        assert!(!limit.has_passed(after(200)));
        limit.begin(after(200));
        assert!(!limit.has_passed(after(259)));
        assert!(limit.has_passed(after(300)));
        let mut never = Limit { every: None, due: None };
        never.begin(start);
        assert!(!never.has_passed(after(1_000_000)));
    }

    /// SOP-274: a feed that falls silent, even inside a line, is paused in time; nothing is lost.
    #[test]
    fn a_silent_feed_is_paused() {
        let (sender, mut reader, _stopper) = feed(RecordEnds::Lines, Some(Duration::from_millis(40)));
        let begun = Instant::now();
        sender.send(b"one\ntw".to_vec()).unwrap();
        assert_eq!(line(&mut reader).unwrap(), "one\n");
        assert_eq!(line(&mut reader), Err(io::ErrorKind::WouldBlock));
        assert!(begun.elapsed() >= Duration::from_millis(40));
        sender.send(b"o\nthree".to_vec()).unwrap();
        assert_eq!(line(&mut reader).unwrap(), "two\n");
        assert_eq!(line(&mut reader), Err(io::ErrorKind::WouldBlock));
        drop(sender);
        assert_eq!(line(&mut reader).unwrap(), "three");
        assert_eq!(line(&mut reader).unwrap(), "");
    }

    /// SOP-274: one that is never silent is paused, too.
    #[test]
    fn a_busy_feed_is_paused() {
        let (sender, mut reader, _stopper) = feed(RecordEnds::Lines, Some(Duration::from_millis(20)));
        std::thread::spawn(move || while sender.send(vec![b'\n'; 1_000]).is_ok() {});
        let begun = Instant::now();
        for _ in 0..3 {
            while line(&mut reader).is_ok() {}
        }
        assert!(begun.elapsed() >= Duration::from_millis(60));
    }

    /// What was read before the stop is handed out, but for half a line; a reader that waits is woken.
    #[test]
    fn a_stopped_feed_ends_behind_a_line() {
        let (sender, mut reader, stopper) = feed(RecordEnds::Lines, None);
        sender.send(b"one\ntwo\nthr".to_vec()).unwrap();
        assert_eq!(line(&mut reader).unwrap(), "one\n");
        let waiting = std::thread::spawn(move || [line(&mut reader), line(&mut reader)]);
        std::thread::sleep(Duration::from_millis(20));
        stopper.stop();
        assert_eq!(waiting.join().unwrap(), [Ok("two\n".to_owned()), Ok(String::new())]);
        drop(sender);
    }

    #[test]
    fn a_failing_feed_fails() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        }
        let (mut feed, _stopper) = Feed::of_lines(Box::new(Broken));
        let error = feed.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    /// A line without an end goes on to the reader of rows, which has the bound.
    #[test]
    fn what_waits_for_its_end_is_bounded() {
        let (mut feed, _stopper) = Feed::of_lines(Box::new(io::repeat(b'x')));
        let mut out = vec![0; 1 << 20];
        assert!(feed.read(&mut out).unwrap() > 0);
        assert!(feed.whole.len() as u64 <= MAX_ROW_BYTES + PIECE_BYTES as u64);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// However a CSV is cut into pieces and whatever is in it, with a pause wherever one can be, its reader finds the same rows
        /// and the same faults.
        #[test]
        fn pauses_change_no_row(
            bytes in prop::collection::vec(prop_oneof![Just(b'"'), Just(b','), Just(b'\n'), Just(b'\r'), Just(b'a')], 0..40),
            size in 1..9_usize,
        ) {
            let read = |input: Box<dyn io::BufRead>, pauses: bool| {
                let mut records = Records::new(input, b',');
                let mut found = Vec::new();
                // Faults that end the input repeat; pauses do not.
                for _ in 0..4 * bytes.len() + 4 {
                    match records.advance() {
                        Ok(false) => break,
                        Ok(true) => found.push((records.line(), records.raw().to_vec(), records.len())),
                        Err(super::super::records::RecordError::Io(error)) if is_pause(&error) => assert!(pauses),
                        Err(_) => found.push((records.line(), records.raw().to_vec(), 0)),
                    }
                }
                found
            };
            let (sender, reader, _stopper) = feed(RecordEnds::of_csv(b','), Some(Duration::ZERO));
            for piece in bytes.chunks(size) {
                sender.send(piece.to_vec()).unwrap();
            }
            drop(sender);
            prop_assert_eq!(read(Box::new(reader), true), read(Box::new(io::Cursor::new(bytes.clone())), false));
        }
    }
}
