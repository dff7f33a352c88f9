//! Batches from formats that are read row by row.

use std::{collections::VecDeque, sync::Arc};

use arrow::array::RecordBatch;

use super::{
    BATCH_BYTES, BATCH_ROWS,
    builder::BatchBuilder,
    cell::Cell,
    csv::CsvRows,
    error::{IngestError, Place},
    format::Format,
    input::{Meter, Slot},
    json::JsonRows,
    rejects::{Rejects, Skipped},
    rules::Checks,
    target::Target,
};

/// A text input, row by row.
pub(super) trait RowReader: Send {
    /// The next row, one cell for each column of the target; `None` at the end. After an error of one row the next call
    /// goes on behind it.
    fn next_row(&mut self) -> Result<Option<Vec<Cell<'_>>>, IngestError>;

    /// File of the row just read.
    fn file(&self) -> &str;

    /// Line on which the row just read begins.
    fn line(&self) -> u64;

    /// The row just read, as it stands in the input.
    fn raw(&self) -> &[u8];

    /// What must stand above a row written aside; empty where rows speak for themselves.
    fn header(&self) -> &[u8];
}

/// How rows are read, the same for all inputs of one command.
#[derive(Clone, Debug)]
pub(super) struct RowSettings {
    pub(super) format: Format,
    pub(super) null_words: Vec<String>,
    pub(super) delimiter: Option<u8>,
}

pub(super) struct RowBatches {
    slots: VecDeque<Slot>,
    settings: RowSettings,
    target: Arc<Target>,
    meter: Meter,
    current: Option<Box<dyn RowReader>>,
    builder: BatchBuilder,
    batch_bytes: usize,
    checks: Checks,
    rejects: Option<Rejects>,
    /// Line of the last row that was read.
    line: u64,
    pause: bool,
}

impl RowBatches {
    pub(super) fn new(
        slots: Vec<Slot>,
        settings: RowSettings,
        target: Arc<Target>,
        meter: Meter,
        checks: Checks,
        rejects: Option<Rejects>,
    ) -> Self {
        let builder = BatchBuilder::new(&target);
        Self {
            slots: slots.into(),
            settings,
            target,
            meter,
            current: None,
            builder,
            batch_bytes: 0,
            checks,
            rejects,
            line: 0,
            pause: false,
        }
    }

    /// The next batch; `None` when all inputs are read, and at a [pause](Self::pauses).
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>, IngestError> {
        loop {
            if self.pause {
                if self.builder.rows() > 0 {
                    return self.close_batch().map(Some);
                }
                // Rows that were left out are on disk before those after them are published.
                if let Some(rejects) = &mut self.rejects {
                    rejects.flush()?;
                }
                return Ok(None);
            }
            let Some(current) = &mut self.current else {
                if let Some(slot) = self.slots.pop_front() {
                    self.current = Some(self.open(slot)?);
                    continue;
                }
                if self.builder.rows() > 0 {
                    return self.close_batch().map(Some);
                }
                if let Some(rejects) = &mut self.rejects {
                    rejects.finish()?;
                }
                self.meter.finish();
                return Ok(None);
            };
            let error = match current.next_row() {
                Ok(Some(row)) => match self.checks.of_cells(&row) {
                    None => {
                        self.builder.push(row);
                        self.line = current.line();
                        self.batch_bytes += current.raw().len();
                        if self.builder.rows() == BATCH_ROWS || self.batch_bytes >= BATCH_BYTES {
                            return self.close_batch().map(Some);
                        }
                        continue;
                    }
                    Some(broken) => {
                        drop(row);
                        broken.at(current.file().to_owned(), Place::Line(current.line()))
                    }
                },
                Ok(None) => {
                    self.current = None;
                    continue;
                }
                Err(error) if error.is_pause() => {
                    self.pause = true;
                    continue;
                }
                Err(error) => error,
            };
            match &mut self.rejects {
                Some(rejects) if error.is_of_one_row() => {
                    self.line = current.line();
                    rejects.write(current.header(), current.raw(), &error)?;
                }
                _ => return Err(error),
            }
        }
    }

    /// Whether the rows ended for a moment only. They go on at the next call.
    pub(super) fn pauses(&mut self) -> bool {
        std::mem::take(&mut self.pause)
    }

    /// Line of the last row that was read, bad ones included.
    pub(super) const fn line(&self) -> u64 {
        self.line
    }

    pub(super) fn skipped(&self) -> Skipped {
        self.rejects
            .as_ref()
            .map(|rejects| rejects.skipped().clone())
            .unwrap_or_default()
    }

    fn open(&self, mut slot: Slot) -> Result<Box<dyn RowReader>, IngestError> {
        let plain = slot.open(&self.meter)?;
        let target = self.target.clone();
        Ok(match self.settings.format {
            Format::Csv => Box::new(CsvRows::open(slot.name, plain, target, &self.settings)?),
            _ => Box::new(JsonRows::new(
                slot.name,
                plain,
                target,
                self.settings.null_words.clone(),
            )),
        })
    }

    fn close_batch(&mut self) -> Result<RecordBatch, IngestError> {
        self.batch_bytes = 0;
        self.builder
            .finish(&self.target)
            .map_err(|error| IngestError::Columnar {
                file: "rows".to_owned(),
                format: self.settings.format,
                problem: error.to_string(),
            })
    }
}
