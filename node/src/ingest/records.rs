//! Splitting CSV into records (RFC 4180), with the exact line of each and its bytes as they stood in the file.
//!
//! The `csv` crate is lenient about quotes, has no bound on a record and does not give its bytes back; this reader refuses
//! text after a closing quote, stops at a quote that never closes, and keeps the raw record so that it can be written
//! aside. The crate is its oracle in the tests.

use std::io::{self, BufRead, Read as _};

use super::MAX_ROW_BYTES;

/// Why the next record is not one.
#[derive(Debug)]
pub(super) enum RecordError {
    /// Reading failed.
    Io(io::Error),
    /// Bad UTF-8 on this line. The record is consumed.
    Utf8 { line: u64 },
    /// Text after the closing quote of this field, from 1. The line is consumed.
    StrayQuote { line: u64, field: usize },
    /// The input ends inside quotes.
    Unclosed { line: u64 },
    /// The record that starts here exceeds the limit.
    TooLong { line: u64 },
}

/// One field of the current record.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    end: usize,
    quoted: bool,
}

/// A reader of records over any buffered input.
pub(super) struct Records<R> {
    input: R,
    delimiter: u8,
    /// Line the next record starts on.
    next_line: u64,
    /// Line the current record starts on.
    line: u64,
    raw: Vec<u8>,
    text: String,
    spans: Vec<Span>,
    at_start: bool,
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(input: R, delimiter: u8) -> Self {
        Self {
            input,
            delimiter,
            next_line: 1,
            line: 1,
            raw: Vec::new(),
            text: String::new(),
            spans: Vec::new(),
            at_start: true,
        }
    }

    /// Reads on in the middle of a file, behind so many lines.
    pub(super) fn behind(lines: u64, input: R, delimiter: u8) -> Self {
        Self {
            next_line: lines + 1,
            at_start: false,
            ..Self::new(input, delimiter)
        }
    }

    /// Lines up to the end of the current record.
    pub(super) const fn lines_read(&self) -> u64 {
        self.next_line - 1
    }

    /// Moves whole lines that have no quotes from what is already read to `out`: each is a record, or blank. Gives whether
    /// there were any; after `false` the next record has to be looked at with [`advance`](Self::advance).
    pub(super) fn take_plain_lines(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        let buffered = self.input.fill_buf()?;
        let plain = &buffered[..memchr::memchr(b'"', buffered).unwrap_or(buffered.len())];
        let Some(last) = memchr::memrchr(b'\n', plain) else {
            return Ok(false);
        };
        let lines = &plain[..=last];
        out.extend_from_slice(lines);
        self.next_line += memchr::memchr_iter(b'\n', lines).count() as u64;
        self.input.consume(last + 1);
        Ok(true)
    }

    /// Goes to the next record, past blank lines. False at the end.
    pub(super) fn advance(&mut self) -> Result<bool, RecordError> {
        loop {
            self.raw.clear();
            self.line = self.next_line;
            if !self.read_line()? {
                return Ok(false);
            }
            if std::mem::take(&mut self.at_start) && self.raw.starts_with(b"\xef\xbb\xbf") {
                self.raw.drain(..3);
            }
            if !without_line_end(&self.raw).is_empty() {
                break;
            }
        }
        if self.raw.contains(&b'"') {
            self.split_quoted()?;
        } else {
            self.split_plain()?;
        }
        Ok(true)
    }

    /// Line on which the current record starts.
    pub(super) const fn line(&self) -> u64 {
        self.line
    }

    /// Number of fields of the current record.
    pub(super) const fn len(&self) -> usize {
        self.spans.len()
    }

    /// Fields of the current record with their quotedness.
    pub(super) fn fields(&self) -> impl ExactSizeIterator<Item = (&str, bool)> {
        self.spans
            .iter()
            .map(|span| (&self.text[span.start..span.end], span.quoted))
    }

    /// One field of the current record with its quotedness.
    pub(super) fn field(&self, index: usize) -> Option<(&str, bool)> {
        self.spans
            .get(index)
            .map(|span| (&self.text[span.start..span.end], span.quoted))
    }

    /// The current record as it stands in the file, line end included.
    pub(super) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Appends one physical line to `raw`. False when there is none.
    fn read_line(&mut self) -> Result<bool, RecordError> {
        let room = MAX_ROW_BYTES.saturating_sub(self.raw.len() as u64) + 1;
        let read = (&mut self.input)
            .take(room)
            .read_until(b'\n', &mut self.raw)
            .map_err(RecordError::Io)?;
        // A quoted field holds line ends, so the bound is on the whole row and not on its last line.
        if self.raw.len() as u64 > MAX_ROW_BYTES {
            return Err(RecordError::TooLong { line: self.line });
        }
        self.next_line += u64::from(read > 0);
        Ok(read > 0)
    }

    fn bad_utf8(&self, valid_up_to: usize) -> RecordError {
        let before = self.raw[..valid_up_to].iter().filter(|byte| **byte == b'\n').count();
        RecordError::Utf8 {
            line: self.line + before as u64,
        }
    }

    fn split_plain(&mut self) -> Result<(), RecordError> {
        self.text.clear();
        self.spans.clear();
        match std::str::from_utf8(without_line_end(&self.raw)) {
            Ok(text) => self.text.push_str(text),
            Err(error) => return Err(self.bad_utf8(error.valid_up_to())),
        }
        let mut start = 0;
        for (end, byte) in self.text.bytes().enumerate() {
            if byte == self.delimiter {
                self.spans.push(Span {
                    start,
                    end,
                    quoted: false,
                });
                start = end + 1;
            }
        }
        self.spans.push(Span {
            start,
            end: self.text.len(),
            quoted: false,
        });
        Ok(())
    }

    fn split_quoted(&mut self) -> Result<(), RecordError> {
        self.spans.clear();
        let mut data = std::mem::take(&mut self.text).into_bytes();
        data.clear();
        let mut at = 0;
        loop {
            let start = data.len();
            let quoted = self.raw.get(at) == Some(&b'"');
            if quoted {
                at = self.quoted_field(at + 1, &mut data)?;
            } else {
                let line = without_line_end(&self.raw);
                let rest = &line[at.min(line.len())..];
                let len = rest
                    .iter()
                    .position(|byte| *byte == self.delimiter)
                    .unwrap_or(rest.len());
                data.extend_from_slice(&rest[..len]);
                at += len;
            }
            self.spans.push(Span {
                start,
                end: data.len(),
                quoted,
            });
            let line = without_line_end(&self.raw);
            if at >= line.len() {
                break;
            }
            if line[at] != self.delimiter {
                let before = self.raw[..at].iter().filter(|byte| **byte == b'\n').count();
                return Err(RecordError::StrayQuote {
                    line: self.line + before as u64,
                    field: self.spans.len(),
                });
            }
            at += 1;
        }
        if let Err(error) = std::str::from_utf8(&self.raw) {
            return Err(self.bad_utf8(error.valid_up_to()));
        }
        // The raw record is UTF-8, and only ASCII was left out of it.
        self.text = String::from_utf8(data).map_err(|_| RecordError::Utf8 { line: self.line })?;
        Ok(())
    }

    /// Copies a quoted field from `at`, just behind its opening quote, reading on over line ends. Gives the place behind
    /// its closing quote.
    fn quoted_field(&mut self, mut at: usize, data: &mut Vec<u8>) -> Result<usize, RecordError> {
        loop {
            match self.raw[at..].iter().position(|byte| *byte == b'"') {
                None => {
                    data.extend_from_slice(&self.raw[at..]);
                    at = self.raw.len();
                    if !self.read_line()? {
                        return Err(RecordError::Unclosed { line: self.line });
                    }
                }
                Some(len) => {
                    data.extend_from_slice(&self.raw[at..at + len]);
                    at += len + 1;
                    if self.raw.get(at) != Some(&b'"') {
                        return Ok(at);
                    }
                    data.push(b'"');
                    at += 1;
                }
            }
        }
    }
}

fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Row = (u64, Vec<String>);

    fn read(input: &[u8]) -> Result<Vec<Row>, RecordError> {
        let mut records = Records::new(input, b',');
        let mut rows = Vec::new();
        while records.advance()? {
            rows.push((
                records.line(),
                records.fields().map(|(field, _)| field.to_owned()).collect(),
            ));
        }
        Ok(rows)
    }

    fn rows(input: &str) -> Vec<Row> {
        read(input.as_bytes()).unwrap()
    }

    fn row(line: u64, fields: &[&str]) -> Row {
        (line, fields.iter().map(|field| (*field).to_owned()).collect())
    }

    #[test]
    fn lines_are_exact() {
        let expected = [row(1, &["a", "b"]), row(4, &["1", "x\ny"]), row(6, &["2", ""])];
        assert_eq!(rows("a,b\n\n\n1,\"x\ny\"\n2,\n"), expected);
        assert_eq!(rows("a,b\r\n\r\n\r\n1,\"x\ny\"\r\n2,\r\n"), expected);
        assert_eq!(rows("\u{feff}a,b\n\n\n1,\"x\ny\"\n2,"), expected);
    }

    #[test]
    fn quotes() {
        assert_eq!(
            rows("\"a,b\",\"say \"\"hi\"\"\",\"\",x\"y\"\n"),
            [row(1, &["a,b", "say \"hi\"", "", "x\"y\""])]
        );
        assert_eq!(rows("\"a\r\nb\"\r\n"), [row(1, &["a\r\nb"])]);
        assert_eq!(rows("\"\"\"\"\n"), [row(1, &["\""])]);
        assert_eq!(rows("a,\"b\""), [row(1, &["a", "b"])]);
        assert_eq!(rows("\"a\","), [row(1, &["a", ""])]);
        assert_eq!(rows(",\"a\"\n"), [row(1, &["", "a"])]);
        let mut records = Records::new(&b"a,\"a\",\"\"\n"[..], b',');
        assert!(records.advance().unwrap());
        assert_eq!(
            records.fields().map(|(_, quoted)| quoted).collect::<Vec<_>>(),
            [false, true, true]
        );
    }

    #[test]
    fn what_is_broken_is_named_by_line() {
        assert!(matches!(read(b"a\n\"b\nc\n"), Err(RecordError::Unclosed { line: 2 })));
        assert!(matches!(
            read(b"a\n\"b\"c\n"),
            Err(RecordError::StrayQuote { line: 2, field: 1 })
        ));
        assert!(matches!(
            read(b"a,b\n1,\"x\n\"y\n"),
            Err(RecordError::StrayQuote { line: 3, field: 2 })
        ));
        assert!(matches!(
            read(b"a,b\n\"b\" ,c\n"),
            Err(RecordError::StrayQuote { line: 2, field: 1 })
        ));
        assert!(matches!(read(b"a\n\xff\n"), Err(RecordError::Utf8 { line: 2 })));
        assert!(matches!(read(b"a\n\"x\n\xff\"\n"), Err(RecordError::Utf8 { line: 3 })));
    }

    #[test]
    fn reading_goes_on_after_a_bad_record() {
        let mut records = Records::new(&b"a\n\"b\"c\n\xff\nd\n"[..], b',');
        assert!(records.advance().unwrap());
        assert!(records.advance().is_err());
        assert_eq!(records.raw(), b"\"b\"c\n");
        assert!(records.advance().is_err());
        assert_eq!(records.raw(), b"\xff\n");
        assert!(records.advance().unwrap());
        assert_eq!(records.line(), 4);
    }

    /// DESIGN §15: a file that is one endless line, or one endless quote, stops at the bound.
    #[test]
    fn endless_rows_stop_at_the_bound() {
        let endless = || io::BufReader::new(io::repeat(b'x'));
        assert!(matches!(
            Records::new(endless(), b',').advance(),
            Err(RecordError::TooLong { line: 1 })
        ));
        let quote = io::Cursor::new(b"\"").chain(io::BufReader::new(io::repeat(b'\n')));
        assert!(matches!(
            Records::new(quote, b',').advance(),
            Err(RecordError::TooLong { line: 1 })
        ));
    }

    proptest! {
        /// What the csv crate writes is read back the same, and agrees with the crate's own reader.
        #[test]
        fn agrees_with_the_csv_crate(table in prop::collection::vec(prop::collection::vec("[a,\"\\n\\r ä]{0,4}", 2..4), 1..6)) {
            let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
            table.iter().for_each(|row| writer.write_record(row).unwrap());
            let bytes = writer.into_inner().unwrap();
            let ours: Vec<Vec<String>> = read(&bytes).unwrap().into_iter().map(|(_, row)| row).collect();
            let oracle: Vec<Vec<String>> = csv::ReaderBuilder::new().flexible(true).has_headers(false).from_reader(bytes.as_slice())
                .records().map(|record| record.unwrap().iter().map(str::to_owned).collect()).collect();
            prop_assert_eq!(&ours, &table);
            prop_assert_eq!(ours, oracle);
        }

        /// No input panics, and the raw records are the input.
        #[test]
        fn any_bytes_are_split_or_refused(bytes in prop::collection::vec(prop_oneof![Just(b'"'), Just(b','), Just(b'\n'), Just(b'\r'), Just(b'a'), any::<u8>()], 0..40)) {
            let mut records = Records::new(bytes.as_slice(), b',');
            for _ in 0..bytes.len() + 1 {
                match records.advance() {
                    Ok(true) => prop_assert!(bytes.windows(records.raw().len()).any(|window| window == records.raw())),
                    Ok(false) => break,
                    Err(_) => {}
                }
            }
        }
    }
}
