//! NDJSON: one object a line.

mod shape;
mod value;

use std::{
    io::{BufRead, Cursor, Read as _},
    sync::Arc,
};

use sovm_object::types::Column;

pub(super) use self::value::JsonValue;

use self::shape::Shape;
use super::{
    MAX_ROW_BYTES,
    cell::{self, Cell},
    error::{IngestError, Misfit, Place},
    input::{Meter, Slot, unreadable},
    pieces::{Piece, Pieces},
    rows::{RowFile, RowReader},
    target::Target,
};

/// Lines of one file as objects.
struct JsonLines<R> {
    name: String,
    input: R,
    line: u64,
    raw: Vec<u8>,
}

impl<R: BufRead> JsonLines<R> {
    /// Reads on behind so many lines.
    const fn behind(line: u64, name: String, input: R) -> Self {
        Self {
            name,
            input,
            line,
            raw: Vec::new(),
        }
    }

    /// The next object, past blank lines. `None` at the end.
    fn next_object(&mut self) -> Result<Option<Vec<(String, JsonValue)>>, IngestError> {
        loop {
            self.raw.clear();
            let room = MAX_ROW_BYTES + 1;
            let read = (&mut self.input).take(room).read_until(b'\n', &mut self.raw);
            let read = read.map_err(|source| unreadable(&self.name, source))? as u64;
            if read == 0 {
                return Ok(None);
            }
            self.line += 1;
            if read == room && self.raw.last() != Some(&b'\n') {
                return Err(IngestError::RowTooLong {
                    file: self.name.clone(),
                    line: self.line,
                });
            }
            if self.line == 1 && self.raw.starts_with(b"\xef\xbb\xbf") {
                self.raw.drain(..3);
            }
            if !self.raw.trim_ascii().is_empty() {
                break;
            }
        }
        self.parse().map(Some)
    }

    fn parse(&self) -> Result<Vec<(String, JsonValue)>, IngestError> {
        let file = || self.name.clone();
        if self.line == 1 && matches!(self.raw.as_slice(), [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
            return Err(IngestError::Utf16 { file: file() });
        }
        let text = std::str::from_utf8(&self.raw).map_err(|_| IngestError::NotUtf8 {
            file: file(),
            line: self.line,
        })?;
        let text = text.trim();
        if self.line == 1 && text.starts_with('[') {
            return Err(IngestError::JsonArray { file: file() });
        }
        let problem = |problem: String| IngestError::Json {
            file: file(),
            line: self.line,
            problem,
        };
        match serde_json::from_str::<JsonValue>(text) {
            Ok(JsonValue::Object(pairs)) => Ok(pairs),
            Ok(other) => Err(problem(format!("{} where an object must stand", other.kind()))),
            // The parser counts lines within this one; only its column says something.
            Err(error) => {
                let text = error.to_string();
                let reason = text
                    .rsplit_once(" at line ")
                    .map_or(text.as_str(), |(reason, _)| reason);
                Err(problem(format!(
                    "not a JSON object: {reason} (column {})",
                    error.column()
                )))
            }
        }
    }
}

/// Finds the columns over all lines of all files. With `skip_bad` lines that cannot be read do not count.
pub(super) fn infer(
    slots: &mut [Slot],
    nulls: &[String],
    skip_bad: bool,
    meter: &Meter,
) -> Result<Vec<Column>, IngestError> {
    let mut shape = Shape::default();
    let mut rows = 0_u64;
    for slot in slots.iter_mut() {
        let mut lines = JsonLines::behind(0, slot.name.clone(), slot.open(meter)?);
        loop {
            match lines.next_object() {
                Ok(Some(pairs)) => {
                    rows += 1;
                    shape
                        .see_object(&pairs, nulls)
                        .map_err(|conflict| conflict.at(&lines.name, lines.line))?;
                }
                Ok(None) => break,
                Err(error) if skip_bad && error.is_of_one_row() => {}
                Err(error) => return Err(error),
            }
        }
    }
    meter.finish();
    let file = || slots.first().map_or_else(String::new, |slot| slot.name.clone());
    if rows == 0 {
        return Err(IngestError::Empty { file: file() });
    }
    shape.into_columns(&file())
}

/// One file read for given columns.
pub(super) struct JsonFile {
    name: String,
    target: Arc<Target>,
    null_words: Vec<String>,
}

impl JsonFile {
    pub(super) fn open(
        slot: &mut Slot,
        meter: &Meter,
        target: Arc<Target>,
        null_words: Vec<String>,
    ) -> Result<(Self, Pieces), IngestError> {
        let stream = slot.is_stream();
        let pieces = Pieces::of_lines(slot.open(meter)?, stream);
        let file = Self {
            name: slot.name.clone(),
            target,
            null_words,
        };
        Ok((file, pieces))
    }
}

impl RowFile for JsonFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn header(&self) -> &[u8] {
        &[]
    }

    fn rows_of(&self, piece: Piece) -> Box<dyn RowReader + '_> {
        Box::new(JsonRows {
            file: self,
            lines: JsonLines::behind(piece.lines_before, self.name.clone(), Cursor::new(piece.bytes)),
            object: Vec::new(),
        })
    }
}

/// Rows of one piece.
struct JsonRows<'a> {
    file: &'a JsonFile,
    lines: JsonLines<Cursor<Vec<u8>>>,
    object: Vec<(String, JsonValue)>,
}

impl RowReader for JsonRows<'_> {
    fn next_row(&mut self) -> Result<Option<Vec<Cell<'_>>>, IngestError> {
        let Some(object) = self.lines.next_object()? else {
            return Ok(None);
        };
        self.object = object;
        let row = cell::of_object(&self.file.target.columns, &self.object, &self.file.null_words);
        let row = row.map_err(|error| {
            let column = match &error.misfit {
                Misfit::UnknownKey(key) if error.path.is_empty() => key.clone(),
                _ => error.path.trim_start_matches('.').to_owned(),
            };
            IngestError::BadValue {
                file: self.lines.name.clone(),
                place: Place::Line(self.lines.line),
                column,
                value: error.value,
                misfit: error.misfit,
            }
        })?;
        Ok(Some(row))
    }

    fn line(&self) -> u64 {
        self.lines.line
    }

    fn raw(&self) -> &[u8] {
        &self.lines.raw
    }
}
