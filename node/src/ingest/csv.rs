//! CSV: header, inference over all rows, and rows as cells.

use std::{collections::HashSet, io::Cursor, sync::Arc};

use sovm_object::{
    parallel::{cores, in_parallel},
    types::{Column, ColumnType, tree},
};

use super::{
    cell::{self, Cell},
    error::{IngestError, Misfit, Place},
    feed::is_pause,
    format::NameSays,
    infer::Guess,
    input::{Meter, Slot, unreadable},
    pieces::{Piece, Pieces},
    records::{RecordError, Records},
    rows::{RowFile, RowReader, RowSettings},
    target::{Target, list_names},
};

/// What a file's header says.
struct CsvHeader {
    name: String,
    delimiter: u8,
    columns: Vec<String>,
    raw: Vec<u8>,
}

impl CsvHeader {
    /// Reads the header, and gives what stands behind it.
    fn read(slot: &mut Slot, meter: &Meter, settings: &RowSettings) -> Result<(Self, Pieces), IngestError> {
        let stream = slot.is_stream();
        let plain = slot.open(meter)?;
        let name = slot.name.clone();
        let default = if NameSays::of(&name).tabs { b'\t' } else { b',' };
        let delimiter = settings.delimiter.unwrap_or(default);
        // A byte of a longer character would cut text inside that character.
        if !delimiter.is_ascii() || matches!(delimiter, b'"' | b'\r' | b'\n') {
            return Err(IngestError::Delimiter { found: delimiter });
        }
        let mut records = Records::new(plain, delimiter);
        let first = loop {
            match records.advance() {
                // A feed may pause before its first line.
                Err(RecordError::Io(error)) if is_pause(&error) => {}
                first => break first,
            }
        };
        match first {
            Ok(true) => {}
            Ok(false) => return Err(IngestError::Empty { file: name }),
            // UTF-16 begins with a mark that is no UTF-8.
            Err(RecordError::Utf8 { .. }) if matches!(records.raw(), [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) => {
                return Err(IngestError::Utf16 { file: name });
            }
            Err(error) => return Err(of_record(&name, error)),
        }
        if records.raw().starts_with(b"PK\x03\x04") {
            return Err(IngestError::Zip { file: name });
        }
        let columns: Vec<String> = records.fields().map(|(field, _)| field.trim().to_owned()).collect();
        let mut seen = HashSet::new();
        for (index, column) in columns.iter().enumerate() {
            if column.is_empty() {
                return Err(IngestError::EmptyColumnName {
                    file: name,
                    position: index + 1,
                });
            }
            if !seen.insert(column.as_str()) {
                return Err(IngestError::DuplicateColumn {
                    file: name,
                    column: column.clone(),
                });
            }
        }
        let header = Self {
            name,
            delimiter,
            columns,
            raw: records.raw().to_vec(),
        };
        Ok((header, Pieces::of_csv(records, stream)))
    }

    fn rows_of(&self, piece: Piece) -> CsvRecords<'_> {
        CsvRecords {
            header: self,
            records: Records::behind(piece.lines_before, Cursor::new(piece.bytes), self.delimiter),
        }
    }
}

/// The records of one piece.
struct CsvRecords<'a> {
    header: &'a CsvHeader,
    records: Records<Cursor<Vec<u8>>>,
}

impl CsvRecords<'_> {
    /// The next record with as many fields as the header.
    fn advance(&mut self) -> Result<bool, IngestError> {
        let name = &self.header.name;
        if !self.records.advance().map_err(|error| of_record(name, error))? {
            return Ok(false);
        }
        if self.records.len() != self.header.columns.len() {
            return Err(IngestError::RaggedRow {
                file: name.clone(),
                line: self.records.line(),
                expected: self.header.columns.len(),
                found: self.records.len(),
            });
        }
        Ok(true)
    }
}

fn of_record(name: &str, error: RecordError) -> IngestError {
    let file = name.to_owned();
    match error {
        RecordError::Io(source) => unreadable(name, source),
        RecordError::Utf8 { line } => IngestError::NotUtf8 { file, line },
        RecordError::StrayQuote { line, field } => IngestError::StrayQuote { file, line, field },
        RecordError::Unclosed { line } => IngestError::UnclosedQuote { file, line },
        RecordError::TooLong { line } => IngestError::RowTooLong { file, line },
    }
}

/// Whether a field is no value in a column of type `ty`. An empty field never is one; a null word in quotes is a text
/// where the column holds text, and no value where it cannot be one.
fn is_null(text: &str, quoted: bool, ty: ColumnType, null_words: &[String]) -> bool {
    text.is_empty() || ((!quoted || ty != ColumnType::Text) && null_words.iter().any(|word| word == text))
}

/// Finds the columns over all rows of all files. With `skip_bad` rows that cannot be read do not count.
pub(super) fn infer(
    slots: &mut [Slot],
    settings: &RowSettings,
    skip_bad: bool,
    meter: &Meter,
) -> Result<Vec<Column>, IngestError> {
    let mut columns: Vec<(String, Guess)> = Vec::new();
    let mut rows = 0_u64;
    for (index, slot) in slots.iter_mut().enumerate() {
        let (header, mut pieces) = CsvHeader::read(slot, meter, settings)?;
        if index == 0 {
            let guessed = header.columns.iter().map(|name| (name.clone(), Guess::default()));
            columns = guessed.collect();
        }
        let positions = positions(&header, &columns)?;
        let survey = |piece| survey(header.rows_of(piece), &settings.null_words, skip_bad);
        loop {
            let (wave, end) = pieces.next_wave();
            let last = wave.is_empty();
            for surveyed in in_parallel(cores(), wave, survey) {
                let (guesses, found) = surveyed?;
                rows += found;
                for (guess, position) in guesses.iter().zip(&positions) {
                    columns[*position].1 = columns[*position].1.with(guess);
                }
            }
            end.map_err(|error| unreadable(&header.name, error))?;
            if last {
                break;
            }
        }
    }
    meter.finish();
    let file = || slots.first().map_or_else(String::new, |slot| slot.name.clone());
    if rows == 0 {
        return Err(IngestError::NoRows { file: file() });
    }
    let column = |(index, (name, guess)): (usize, (String, Guess))| {
        // More columns than a table may have are refused below.
        Column::new(index as i32 + 1, name, guess.finish(), true)
    };
    let columns: Vec<Column> = columns.into_iter().enumerate().map(column).collect();
    tree(&columns).map_err(|source| IngestError::Columns { file: file(), source })?;
    Ok(columns)
}

/// What the fields of one piece may be, and its rows.
fn survey(
    mut records: CsvRecords<'_>,
    null_words: &[String],
    skip_bad: bool,
) -> Result<(Vec<Guess>, u64), IngestError> {
    let mut guesses = vec![Guess::default(); records.header.columns.len()];
    let mut rows = 0;
    loop {
        match records.advance() {
            Ok(true) => rows += 1,
            Ok(false) => return Ok((guesses, rows)),
            Err(error) if skip_bad && error.is_of_one_row() => continue,
            Err(error) => return Err(error),
        }
        for ((text, _), guess) in records.records.fields().zip(&mut guesses) {
            // A null word decides nothing, in quotes neither: the other values say whether it can be a text.
            if !text.is_empty() && !null_words.iter().any(|word| word == text) {
                guess.see(text);
            }
        }
    }
}

/// Where each field of `file` stands among the columns of the first file.
fn positions(file: &CsvHeader, columns: &[(String, Guess)]) -> Result<Vec<usize>, IngestError> {
    let position = |name: &String| {
        columns
            .iter()
            .position(|(column, _)| column == name)
            .ok_or_else(|| IngestError::UnknownColumn {
                file: file.name.clone(),
                column: name.clone(),
                known: list_names(columns.iter().map(|(column, _)| column.as_str())),
            })
    };
    let positions = file.columns.iter().map(position).collect::<Result<Vec<_>, _>>()?;
    match columns.iter().find(|(column, _)| !file.columns.contains(column)) {
        Some((column, _)) => Err(IngestError::MissingColumn {
            file: file.name.clone(),
            column: column.clone(),
        }),
        None => Ok(positions),
    }
}

/// One file read for given columns.
pub(super) struct CsvFile {
    header: CsvHeader,
    target: Arc<Target>,
    /// For each column of the target its field, where the file has it.
    fields: Vec<Option<usize>>,
    null_words: Vec<String>,
}

impl CsvFile {
    pub(super) fn open(
        slot: &mut Slot,
        meter: &Meter,
        target: Arc<Target>,
        settings: &RowSettings,
    ) -> Result<(Self, Pieces), IngestError> {
        let (header, pieces) = CsvHeader::read(slot, meter, settings)?;
        if let Some(unknown) = header.columns.iter().find(|name| target.index_of(name).is_none()) {
            return Err(IngestError::UnknownColumn {
                file: header.name,
                column: unknown.clone(),
                known: target.names(),
            });
        }
        let mut fields = Vec::with_capacity(target.columns.len());
        for column in &target.columns {
            let field = header.columns.iter().position(|name| *name == column.name);
            if field.is_none() && !column.nullable {
                return Err(IngestError::MissingColumn {
                    file: header.name,
                    column: column.name.clone(),
                });
            }
            if field.is_some() && column.ty.is_nested() {
                return Err(IngestError::NestedInCsv {
                    file: header.name,
                    column: column.name.clone(),
                    ty: column.ty,
                });
            }
            fields.push(field);
        }
        let file = Self {
            header,
            target,
            fields,
            null_words: settings.null_words.clone(),
        };
        Ok((file, pieces))
    }
}

impl RowFile for CsvFile {
    fn name(&self) -> &str {
        &self.header.name
    }

    fn header(&self) -> &[u8] {
        &self.header.raw
    }

    fn rows_of(&self, piece: Piece) -> Box<dyn RowReader + '_> {
        Box::new(CsvRows {
            file: self,
            records: self.header.rows_of(piece),
        })
    }
}

/// Rows of one piece.
struct CsvRows<'a> {
    file: &'a CsvFile,
    records: CsvRecords<'a>,
}

impl RowReader for CsvRows<'_> {
    fn next_row(&mut self) -> Result<Option<Vec<Cell<'_>>>, IngestError> {
        if !self.records.advance()? {
            return Ok(None);
        }
        let (file, record) = (self.file, &self.records.records);
        let mut row = Vec::with_capacity(file.fields.len());
        for (column, field) in file.target.columns.iter().zip(&file.fields) {
            let value = field.and_then(|field| record.field(field));
            let value = value.filter(|(text, quoted)| !is_null(text, *quoted, column.ty, &file.null_words));
            let cell = match value {
                Some((text, _)) => cell::of_text(column.ty, text),
                None if column.nullable => Ok(Cell::Null),
                None => Err(Misfit::Missing),
            };
            row.push(cell.map_err(|misfit| IngestError::BadValue {
                file: file.header.name.clone(),
                place: Place::Line(record.line()),
                column: column.name.clone(),
                value: value.map_or_else(String::new, |(text, _)| text.to_owned()),
                misfit,
            })?);
        }
        Ok(Some(row))
    }

    fn line(&self) -> u64 {
        self.records.records.line()
    }

    fn raw(&self) -> &[u8] {
        self.records.records.raw()
    }
}
