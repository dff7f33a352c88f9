//! Batches from formats that are read row by row.

use std::{collections::VecDeque, sync::Arc};

use arrow::array::RecordBatch;
use sovm_object::parallel::{cores, in_parallel};

use super::{
    BATCH_ROWS,
    builder::BatchBuilder,
    cell::Cell,
    csv::CsvFile,
    error::{IngestError, Place},
    feed::is_pause,
    format::Format,
    input::{Meter, Slot, unreadable},
    json::JsonFile,
    pieces::{Piece, Pieces},
    rejects::{Rejects, Skipped},
    rules::Checks,
    target::Target,
};

/// A text input whose rows can be read piece by piece.
pub(super) trait RowFile: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// What must stand above a row written aside; empty where rows speak for themselves.
    fn header(&self) -> &[u8];

    /// A reader of one piece.
    fn rows_of(&self, piece: Piece) -> Box<dyn RowReader + '_>;
}

/// The rows of one piece.
pub(super) trait RowReader {
    /// The next row, one cell for each column of the target; `None` at the end. After an error of one row the next call
    /// goes on behind it.
    fn next_row(&mut self) -> Result<Option<Vec<Cell<'_>>>, IngestError>;

    /// Line on which the row just read begins.
    fn line(&self) -> u64;

    /// The row just read, as it stands in the input.
    fn raw(&self) -> &[u8];
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
    current: Option<(Box<dyn RowFile>, Pieces)>,
    reading: Reading,
    meter: Meter,
    rejects: Option<Rejects>,
    /// Read, and not handed out yet.
    read: VecDeque<Step>,
    /// Line of the last row that was handed out or written aside.
    line: u64,
    pause: bool,
}

/// What all threads need to read rows.
struct Reading {
    settings: RowSettings,
    target: Arc<Target>,
    checks: Checks,
    skip_bad: bool,
}

/// What reading comes to, in the order of the input.
enum Step {
    Batch {
        rows: RecordBatch,
        /// Line of the last of them.
        line: u64,
    },
    /// A row to be written aside.
    Bad {
        raw: Vec<u8>,
        reason: IngestError,
        line: u64,
    },
    /// Nothing behind it is read.
    Stop(IngestError),
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
        Self {
            slots: slots.into(),
            current: None,
            reading: Reading {
                settings,
                target,
                checks,
                skip_bad: rejects.is_some(),
            },
            meter,
            rejects,
            read: VecDeque::new(),
            line: 0,
            pause: false,
        }
    }

    /// The next batch; `None` when all inputs are read, and at a [pause](Self::pauses).
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>, IngestError> {
        loop {
            match (self.read.pop_front(), &self.current) {
                (Some(Step::Batch { rows, line }), _) => {
                    self.line = self.line.max(line);
                    return Ok(Some(rows));
                }
                (Some(Step::Stop(error)), _) => return Err(error),
                (Some(Step::Bad { raw, reason, line }), Some((file, _))) => {
                    self.line = self.line.max(line);
                    if let Some(rejects) = &mut self.rejects {
                        rejects.write(file.header(), &raw, &reason)?;
                    }
                }
                (Some(Step::Bad { reason, .. }), None) => return Err(reason),
                (None, Some(_)) if self.pause => {
                    // Rows that were left out are on disk before those after them are published.
                    if let Some(rejects) = &mut self.rejects {
                        rejects.flush()?;
                    }
                    return Ok(None);
                }
                (None, Some(_)) => self.read_on(),
                (None, None) => match self.slots.pop_front() {
                    Some(slot) => self.current = Some(self.open(slot)?),
                    None => {
                        if let Some(rejects) = &mut self.rejects {
                            rejects.finish()?;
                        }
                        self.meter.finish();
                        return Ok(None);
                    }
                },
            }
        }
    }

    /// Reads some pieces of the current input side by side, or closes it at its end.
    fn read_on(&mut self) {
        let Some((file, pieces)) = &mut self.current else {
            return;
        };
        let (wave, end) = pieces.next_wave();
        let done = wave.is_empty() && end.is_ok();
        let (file, reading) = (file.as_ref(), &self.reading);
        let steps = in_parallel(cores(), wave, |piece| reading.read(file, piece));
        self.read.extend(steps.into_iter().flatten());
        match end {
            Ok(()) => {}
            Err(error) if is_pause(&error) => self.pause = true,
            Err(error) => self.read.push_back(Step::Stop(unreadable(file.name(), error))),
        }
        if done {
            self.current = None;
        }
    }

    /// Whether the rows ended for a moment only. They go on at the next call.
    pub(super) fn pauses(&mut self) -> bool {
        std::mem::take(&mut self.pause)
    }

    /// Line of the last row handed out or written aside.
    pub(super) const fn line(&self) -> u64 {
        self.line
    }

    pub(super) fn skipped(&self) -> Skipped {
        self.rejects
            .as_ref()
            .map(|rejects| rejects.skipped().clone())
            .unwrap_or_default()
    }

    fn open(&self, mut slot: Slot) -> Result<(Box<dyn RowFile>, Pieces), IngestError> {
        let Reading { settings, target, .. } = &self.reading;
        Ok(match settings.format {
            Format::Csv => {
                let (file, pieces) = CsvFile::open(&mut slot, &self.meter, target.clone(), settings)?;
                (Box::new(file), pieces)
            }
            _ => {
                let nulls = settings.null_words.clone();
                let (file, pieces) = JsonFile::open(&mut slot, &self.meter, target.clone(), nulls)?;
                (Box::new(file), pieces)
            }
        })
    }
}

impl Reading {
    /// Reads the rows of a piece.
    fn read(&self, file: &dyn RowFile, piece: Piece) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut builder = BatchBuilder::new(&self.target);
        let mut rows = file.rows_of(piece);
        let mut line = 0;
        loop {
            let reason = match rows.next_row() {
                Ok(None) => break,
                Ok(Some(row)) => match self.checks.of_cells(&row) {
                    None => {
                        builder.push(row);
                        line = rows.line();
                        if builder.rows() == BATCH_ROWS {
                            steps.push(self.close(&mut builder, line));
                        }
                        continue;
                    }
                    Some(broken) => {
                        drop(row);
                        broken.at(file.name().to_owned(), Place::Line(rows.line()))
                    }
                },
                Err(error) => error,
            };
            if self.skip_bad && reason.is_of_one_row() {
                steps.push(Step::Bad {
                    raw: rows.raw().to_vec(),
                    reason,
                    line: rows.line(),
                });
            } else {
                // Rows before it may be handed out: whoever sees the error publishes none of them.
                steps.push(Step::Stop(reason));
                return steps;
            }
        }
        if builder.rows() > 0 {
            steps.push(self.close(&mut builder, line));
        }
        steps
    }

    fn close(&self, builder: &mut BatchBuilder, line: u64) -> Step {
        match builder.finish(&self.target) {
            Ok(rows) => Step::Batch { rows, line },
            Err(error) => Step::Stop(IngestError::Columnar {
                file: "rows".to_owned(),
                format: self.settings.format,
                problem: error.to_string(),
            }),
        }
    }
}
