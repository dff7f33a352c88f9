//! Cutting text into pieces of whole rows, so that several threads can read rows of one input.
//!
//! Only the cutting runs front to back. Each piece knows how many lines stand before it, so that a bad row is named by its line
//! whoever reads it, and pieces are handed on in their order, so that the first bad row is the one that is told.

use std::io::{self, BufRead as _, Read as _};

use sovm_object::parallel::cores;

use super::{
    MAX_ROW_BYTES,
    input::Plain,
    records::{RecordError, Records},
};

/// Bytes of a piece, about; a longer row is a piece of its own.
const PIECE_BYTES: usize = 512 * 1024;

/// Whole rows of one input.
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    /// Lines of the input before them.
    pub(super) lines_before: u64,
}

/// The rest of an input.
pub(super) struct Pieces {
    rows: Rows,
    /// A stream's rows are handed on as they come: the next ones may be hours away.
    stream: bool,
}

enum Rows {
    /// A row may go on over several lines.
    Csv(Records<Plain>),
    /// Each line is a row.
    Lines { input: Plain, read: u64 },
}

impl Pieces {
    pub(super) const fn of_csv(records: Records<Plain>, stream: bool) -> Self {
        Self {
            rows: Rows::Csv(records),
            stream,
        }
    }

    pub(super) const fn of_lines(input: Plain, stream: bool) -> Self {
        Self {
            rows: Rows::Lines { input, read: 0 },
            stream,
        }
    }

    /// A piece for each thread, none at the end, and how reading went behind them.
    pub(super) fn next_wave(&mut self) -> (Vec<Piece>, io::Result<()>) {
        let most = if self.stream { 1 } else { cores() };
        let mut wave = Vec::new();
        while wave.len() < most {
            match self.next_piece() {
                Ok(Some(piece)) => wave.push(piece),
                Ok(None) => break,
                Err(error) => return (wave, Err(error)),
            }
        }
        (wave, Ok(()))
    }

    /// The next piece; `None` at the end. What is wrong with a row is found by whoever reads the piece.
    fn next_piece(&mut self) -> io::Result<Option<Piece>> {
        let mut bytes = Vec::new();
        let enough = if self.stream { 1 } else { PIECE_BYTES };
        let lines_before = self.rows.lines_read();
        while bytes.len() < enough && self.rows.take_some(&mut bytes)? {}
        Ok((!bytes.is_empty()).then_some(Piece { bytes, lines_before }))
    }
}

impl Rows {
    const fn lines_read(&self) -> u64 {
        match self {
            Self::Csv(records) => records.lines_read(),
            Self::Lines { read, .. } => *read,
        }
    }

    /// Moves at least one row to `out`. False at the end.
    fn take_some(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        match self {
            Self::Csv(records) => Ok(records.take_plain_lines(out)? || take_record(records, out)?),
            Self::Lines { input, read } => take_lines(input, read, out),
        }
    }
}

fn take_record(records: &mut Records<Plain>, out: &mut Vec<u8>) -> io::Result<bool> {
    let before = records.lines_read();
    match records.advance() {
        Ok(false) => return Ok(false),
        Err(RecordError::Io(error)) => return Err(error),
        // Whoever reads these bytes again finds the same error.
        Ok(true) | Err(_) => {}
    }
    // Blank lines were passed over, and lines are counted.
    out.extend((before + 1..records.line()).map(|_| b'\n'));
    out.extend_from_slice(records.raw());
    Ok(true)
}

fn take_lines(input: &mut Plain, read: &mut u64, out: &mut Vec<u8>) -> io::Result<bool> {
    let buffered = input.fill_buf()?;
    if let Some(last) = memchr::memrchr(b'\n', buffered) {
        out.extend_from_slice(&buffered[..=last]);
        *read += memchr::memchr_iter(b'\n', &buffered[..=last]).count() as u64;
        input.consume(last + 1);
        return Ok(true);
    }
    // A line without an end within the bound is refused by whoever reads it.
    let taken = input.take(MAX_ROW_BYTES + 1).read_until(b'\n', out)?;
    *read += u64::from(taken > 0);
    Ok(taken > 0)
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use proptest::prelude::*;

    use super::*;

    /// Rows with their lines, read at once or piece by piece from a reader that gives so many bytes at a time.
    fn read(bytes: &[u8], at_once: Option<usize>) -> Vec<Result<(u64, Vec<u8>), String>> {
        let mut rows = Vec::new();
        let mut see = |mut records: Records<Cursor<Vec<u8>>>| {
            loop {
                match records.advance() {
                    Ok(true) => rows.push(Ok((records.line(), records.raw().to_vec()))),
                    Ok(false) => break,
                    Err(error) => rows.push(Err(format!("{error:?}"))),
                }
            }
        };
        match at_once {
            None => see(Records::new(Cursor::new(bytes.to_vec()), b',')),
            Some(buffer) => {
                let input: Plain = Box::new(BufReader::with_capacity(buffer, Cursor::new(bytes.to_vec())));
                let mut pieces = Pieces::of_csv(Records::new(input, b','), true);
                while let Some(piece) = pieces.next_piece().unwrap() {
                    see(Records::behind(piece.lines_before, Cursor::new(piece.bytes), b','));
                }
            }
        }
        rows
    }

    #[test]
    fn lines_are_counted_over_pieces() {
        let text = b"a,b\n\n\n1,\"x\ny\"\n2,\n\"bad\"x,\n\n3,4";
        for buffer in 1..text.len() + 2 {
            assert_eq!(read(text, Some(buffer)), read(text, None), "{buffer}");
        }
    }

    #[test]
    fn pieces_are_of_their_size_and_lose_nothing() {
        let line = b"0123456789,abcdef\n";
        let text = line.repeat(200_000);
        let input: Plain = Box::new(BufReader::with_capacity(128 * 1024, Cursor::new(text.clone())));
        let mut pieces = Pieces::of_lines(input, false);
        let mut all = Vec::new();
        while let Some(piece) = pieces.next_piece().unwrap() {
            assert!(piece.bytes.len() < 2 * PIECE_BYTES);
            assert_eq!(piece.lines_before as usize * line.len(), all.len());
            all.extend(piece.bytes);
        }
        assert!(all == text);
    }

    proptest! {
        /// Cut or whole, any bytes give the same rows and the same errors.
        #[test]
        fn cutting_changes_nothing(
            bytes in prop::collection::vec(prop_oneof![Just(b'"'), Just(b','), Just(b'\n'), Just(b'\r'), Just(b'a'), any::<u8>()], 0..60),
            buffer in 1_usize..20,
        ) {
            // A byte order mark counts at the start of an input only, which is behind a header here.
            prop_assume!(!bytes.starts_with(&[0xef]));
            prop_assert_eq!(read(&bytes, Some(buffer)), read(&bytes, None));
        }
    }
}
