//! CSV: header, inference over all rows, and rows as cells.

use std::{collections::HashSet, sync::Arc};

use sovm_object::types::{Column, ColumnType, tree};

use super::{
    cell::{self, Cell},
    error::{IngestError, Misfit, Place},
    feed::is_pause,
    format::NameSays,
    infer::Guess,
    input::{Meter, Plain, Slot, unreadable},
    records::{RecordError, Records},
    rows::{RowReader, RowSettings},
    target::{Target, list_names},
};

/// A file behind its header.
struct CsvFile {
    name: String,
    records: Records<Plain>,
    columns: Vec<String>,
    header: Vec<u8>,
}

impl CsvFile {
    fn open(name: String, plain: Plain, settings: &RowSettings) -> Result<Self, IngestError> {
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
        let header = records.raw().to_vec();
        Ok(Self {
            name,
            records,
            columns,
            header,
        })
    }

    /// The next record with as many fields as the header.
    fn advance(&mut self) -> Result<bool, IngestError> {
        if !self.records.advance().map_err(|error| of_record(&self.name, error))? {
            return Ok(false);
        }
        if self.records.len() != self.columns.len() {
            return Err(IngestError::RaggedRow {
                file: self.name.clone(),
                line: self.records.line(),
                expected: self.columns.len(),
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
    let mut columns: Vec<(String, Guess, bool)> = Vec::new();
    let mut rows = 0_u64;
    for (index, slot) in slots.iter_mut().enumerate() {
        let mut file = CsvFile::open(slot.name.clone(), slot.open(meter)?, settings)?;
        if index == 0 {
            columns = file
                .columns
                .iter()
                .map(|name| (name.clone(), Guess::default(), false))
                .collect();
        }
        let positions = positions(&file, &columns)?;
        loop {
            match file.advance() {
                Ok(true) => rows += 1,
                Ok(false) => break,
                Err(error) if skip_bad && error.is_of_one_row() => continue,
                Err(error) => return Err(error),
            }
            for ((text, quoted), position) in file.records.fields().zip(&positions) {
                let (_, guess, quoted_null) = &mut columns[*position];
                if is_null(text, quoted, ColumnType::Text, &settings.null_words) {
                    continue;
                }
                // A quoted null word decides nothing: the other values say whether it can be a text.
                if quoted && settings.null_words.iter().any(|word| word == text) {
                    *quoted_null = true;
                    continue;
                }
                guess.see(text);
            }
        }
    }
    meter.finish();
    let file = || slots.first().map_or_else(String::new, |slot| slot.name.clone());
    if rows == 0 {
        return Err(IngestError::NoRows { file: file() });
    }
    let column = |(index, (name, guess, _)): (usize, (String, Guess, bool))| {
        // More columns than a table may have are refused below.
        Column::new(index as i32 + 1, name, guess.finish(), true)
    };
    let columns: Vec<Column> = columns.into_iter().enumerate().map(column).collect();
    tree(&columns).map_err(|source| IngestError::Columns { file: file(), source })?;
    Ok(columns)
}

/// Where each field of `file` stands among the columns of the first file.
fn positions(file: &CsvFile, columns: &[(String, Guess, bool)]) -> Result<Vec<usize>, IngestError> {
    let position = |name: &String| {
        columns
            .iter()
            .position(|(column, ..)| column == name)
            .ok_or_else(|| IngestError::UnknownColumn {
                file: file.name.clone(),
                column: name.clone(),
                known: list_names(columns.iter().map(|(column, ..)| column.as_str())),
            })
    };
    let positions = file.columns.iter().map(position).collect::<Result<Vec<_>, _>>()?;
    match columns.iter().find(|(column, ..)| !file.columns.contains(column)) {
        Some((column, ..)) => Err(IngestError::MissingColumn {
            file: file.name.clone(),
            column: column.clone(),
        }),
        None => Ok(positions),
    }
}

/// Rows of one file for given columns.
pub(super) struct CsvRows {
    file: CsvFile,
    target: Arc<Target>,
    /// For each column of the target its field, where the file has it.
    fields: Vec<Option<usize>>,
    null_words: Vec<String>,
}

impl CsvRows {
    pub(super) fn open(
        name: String,
        plain: Plain,
        target: Arc<Target>,
        settings: &RowSettings,
    ) -> Result<Self, IngestError> {
        let file = CsvFile::open(name, plain, settings)?;
        if let Some(unknown) = file.columns.iter().find(|name| target.index_of(name).is_none()) {
            return Err(IngestError::UnknownColumn {
                file: file.name,
                column: unknown.clone(),
                known: target.names(),
            });
        }
        let mut fields = Vec::with_capacity(target.columns.len());
        for column in &target.columns {
            let field = file.columns.iter().position(|name| *name == column.name);
            if field.is_none() && !column.nullable {
                return Err(IngestError::MissingColumn {
                    file: file.name,
                    column: column.name.clone(),
                });
            }
            if field.is_some() && column.ty.is_nested() {
                return Err(IngestError::NestedInCsv {
                    file: file.name,
                    column: column.name.clone(),
                    ty: column.ty,
                });
            }
            fields.push(field);
        }
        Ok(Self {
            file,
            target,
            fields,
            null_words: settings.null_words.clone(),
        })
    }
}

impl RowReader for CsvRows {
    fn next_row(&mut self) -> Result<Option<Vec<Cell<'_>>>, IngestError> {
        if !self.file.advance()? {
            return Ok(None);
        }
        let record = &self.file.records;
        let texts: Vec<(&str, bool)> = record.fields().collect();
        let mut row = Vec::with_capacity(self.fields.len());
        for (column, field) in self.target.columns.iter().zip(&self.fields) {
            let value = field.map(|field| texts[field]);
            let value = value.filter(|(text, quoted)| !is_null(text, *quoted, column.ty, &self.null_words));
            let cell = match value {
                Some((text, _)) => cell::of_text(column.ty, text),
                None if column.nullable => Ok(Cell::Null),
                None => Err(Misfit::Missing),
            };
            row.push(cell.map_err(|misfit| IngestError::BadValue {
                file: self.file.name.clone(),
                place: Place::Line(record.line()),
                column: column.name.clone(),
                value: value.map_or_else(String::new, |(text, _)| text.to_owned()),
                misfit,
            })?);
        }
        Ok(Some(row))
    }

    fn file(&self) -> &str {
        &self.file.name
    }

    fn line(&self) -> u64 {
        self.file.records.line()
    }

    fn raw(&self) -> &[u8] {
        self.file.records.raw()
    }

    fn header(&self) -> &[u8] {
        &self.file.header
    }
}
