//! The inputs of one command, and their two readings.

use std::{
    fmt,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use sovm_object::types::Column;

use super::{
    Options, Pass,
    columnar::{self, ColumnarBatches, Opener},
    csv,
    error::IngestError,
    feed::{RecordEnds, Stopper},
    format::{Format, NameSays},
    input::{Meter, Slot, unreadable},
    json,
    rejects::{Rejects, Skipped},
    rows::{RowBatches, RowSettings},
    rules::Checks,
    target::Target,
};

/// What to read.
#[derive(Debug)]
pub struct SourceSpec {
    /// The inputs, in order. All have the same columns.
    pub inputs: Vec<Input>,
    /// Their format, when the names do not say it.
    pub format: Option<Format>,
    /// Where the encrypted temporary file for pipes goes.
    pub spool_dir: PathBuf,
}

impl SourceSpec {
    /// Files by path, formats by name.
    pub fn files(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        let inputs = paths.into_iter().map(|path| Input::File(path.into())).collect();
        Self {
            inputs,
            format: None,
            spool_dir: std::env::temp_dir(),
        }
    }
}

/// One input.
pub enum Input {
    /// A file. Pipes and devices with a path are read once and spooled.
    File(PathBuf),
    /// Anything that can be read once.
    Stream {
        /// How errors name it.
        name: String,
        /// Where its bytes come from.
        reader: Box<dyn Read + Send>,
    },
    /// The same, without an end: its rows are read as they come.
    Feed {
        /// How errors name it.
        name: String,
        /// Where its bytes come from.
        reader: Box<dyn Read + Send>,
    },
}

impl Input {
    /// Standard input of this process.
    pub fn stdin() -> Self {
        Self::Stream {
            name: "standard input".to_owned(),
            reader: Box::new(io::stdin()),
        }
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Stream { name, .. } => write!(f, "Stream({name})"),
            Self::Feed { name, .. } => write!(f, "Feed({name})"),
        }
    }
}

/// Inputs that are there, not empty, and of one known format.
pub struct Source {
    slots: Vec<Slot>,
    format: Format,
    spool_dir: PathBuf,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.slots.iter().map(|slot| slot.name.as_str()).collect();
        f.debug_struct("Source")
            .field("inputs", &names)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl Source {
    /// Opens every input, so that a missing one is noticed before anything is read.
    pub fn open(spec: SourceSpec) -> Result<Self, IngestError> {
        let mut slots = Vec::with_capacity(spec.inputs.len());
        let mut common: Option<(String, Format)> = None;
        for input in spec.inputs {
            let (mut slot, has_name) = open_slot(input)?;
            let says = if has_name {
                NameSays::of(&slot.name)
            } else {
                NameSays::default()
            };
            let start = slot.peek(8)?;
            if start.starts_with(b"PK\x03\x04") {
                return Err(IngestError::Zip { file: slot.name });
            }
            if let Some(expected) = says.compression.filter(|expected| slot.compression != Some(*expected)) {
                return Err(IngestError::NotCompressed {
                    file: slot.name,
                    expected: expected.name(),
                });
            }
            if start.is_empty() {
                return Err(IngestError::Empty { file: slot.name });
            }
            let format = match (spec.format.or(says.format), has_name) {
                (Some(format), _) => format,
                (None, false) => Format::of_content(&start),
                (None, true) => return Err(IngestError::UnknownFormat { file: slot.name }),
            };
            match &common {
                None => common = Some((slot.name.clone(), format)),
                Some((first, first_format)) if *first_format != format => {
                    return Err(IngestError::MixedFormats {
                        first: first.clone(),
                        first_format: *first_format,
                        other: slot.name,
                        other_format: format,
                    });
                }
                Some(_) => {}
            }
            slots.push(slot);
        }
        let (_, format) = common.ok_or(IngestError::NoInput)?;
        Ok(Self {
            slots,
            format,
            spool_dir: spec.spool_dir,
        })
    }

    /// The common format of the inputs.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Reads the one feed with a pause each time `every` has passed since the first row after the last pause.
    pub(crate) fn pause_every(&mut self, every: Duration, options: &Options) -> Result<Stopper, IngestError> {
        let [slot] = self.slots.as_mut_slice() else {
            return Err(IngestError::NoInput);
        };
        let ends = match self.format {
            Format::Csv => RecordEnds::of_csv(options.delimiter.unwrap_or(b',')),
            Format::NdJson => RecordEnds::Lines,
            format => {
                return Err(IngestError::FeedColumnar {
                    file: slot.name.clone(),
                    format,
                });
            }
        };
        slot.pause_every(every, ends)
    }

    /// Finds the columns over the whole input. Pipes are spooled here, since they are read again.
    pub fn infer(&mut self, options: &Options) -> Result<Vec<Column>, IngestError> {
        if self.format.is_text() {
            let dir = &self.spool_dir;
            self.slots.iter_mut().try_for_each(|slot| slot.spool(dir))?;
        }
        let meter = self.meter(Pass::Infer, options);
        let settings = self.settings(options);
        let skip_bad = options.skip_bad_rows.is_some();
        match self.format {
            Format::Csv => csv::infer(&mut self.slots, &settings, skip_bad, &meter),
            Format::NdJson => json::infer(&mut self.slots, &options.null_words, skip_bad, &meter),
            format => {
                let opener = self.opener(format, options)?;
                columnar::infer(&mut self.slots, &opener, &meter)
            }
        }
    }

    /// Reads the rows for the given columns: those of [`infer`](Self::infer), a schema file or an existing table. Inputs
    /// may lack columns that allow nulls, and may not have others.
    pub fn batches(self, columns: &[Column], options: &Options) -> Result<Batches, IngestError> {
        let target = Arc::new(Target::new(columns).map_err(IngestError::Target)?);
        let meter = self.meter(Pass::Load, options);
        let schema = target.schema.clone();
        let checks = Checks::new(&options.rules, columns);
        let reader = if self.format.is_text() {
            let settings = self.settings(options);
            let rejects = options.skip_bad_rows.as_deref().map(Rejects::create).transpose()?;
            Reader::Rows(Box::new(RowBatches::new(
                self.slots, settings, target, meter, checks, rejects,
            )))
        } else {
            let opener = self.opener(self.format, options)?;
            Reader::Columnar(Box::new(ColumnarBatches::new(
                self.slots, opener, target, meter, checks,
            )))
        };
        Ok(Batches {
            reader,
            schema,
            rows: 0,
            done: false,
        })
    }

    /// How columnar files are opened. Their bad rows cannot be written aside.
    fn opener(&self, format: Format, options: &Options) -> Result<Opener, IngestError> {
        if options.skip_bad_rows.is_some() {
            return Err(IngestError::SkipColumnar {
                file: self.slots.first().map_or_else(String::new, |slot| slot.name.clone()),
                format,
            });
        }
        Ok(Opener {
            format,
            spool_dir: self.spool_dir.clone(),
            key: options.parquet_key.clone(),
        })
    }

    fn settings(&self, options: &Options) -> RowSettings {
        RowSettings {
            format: self.format,
            null_words: options.null_words.clone(),
            delimiter: options.delimiter,
        }
    }

    fn meter(&self, pass: Pass, options: &Options) -> Meter {
        let total = self.slots.iter().map(Slot::len).sum();
        Meter::new(pass, total, options.progress.clone())
    }
}

/// The slot of an input, and whether it has a file name that may say something.
fn open_slot(input: Input) -> Result<(Slot, bool), IngestError> {
    match input {
        Input::Stream { name, reader } => Ok((Slot::stream(name, reader)?, false)),
        Input::Feed { name, reader } => {
            let slot = Slot::stream(name, reader)?;
            // A decompressor waits for whole blocks, and already a look at the format would.
            match slot.compression {
                None => Ok((slot, false)),
                Some(_) => Err(IngestError::FeedCompressed { file: slot.name }),
            }
        }
        Input::File(path) => {
            let name = path.display().to_string();
            let metadata = std::fs::metadata(&path).map_err(|source| unreadable(&name, source))?;
            if metadata.is_dir() {
                return Err(IngestError::Directory { file: name });
            }
            if metadata.is_file() {
                return Ok((Slot::file(name, Path::new(&path))?, true));
            }
            let pipe = std::fs::File::open(&path).map_err(|source| unreadable(&name, source))?;
            let has_name = NameSays::of(&name).format.is_some();
            Ok((Slot::stream(name, Box::new(pipe))?, has_name))
        }
    }
}

/// Batches of the inputs, all of one schema with field ids. After an error there are no more.
pub struct Batches {
    reader: Reader,
    schema: SchemaRef,
    rows: u64,
    done: bool,
}

enum Reader {
    Rows(Box<RowBatches>),
    Columnar(Box<ColumnarBatches>),
}

impl Batches {
    /// Schema of every batch.
    pub const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows handed out so far.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether all rows were handed out. When the iterator ended and this is false, it ended for a pause of the feed and goes on
    /// when it is asked again.
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// Line of the last row read of a text input, bad ones included.
    pub fn line(&self) -> Option<u64> {
        match &self.reader {
            Reader::Rows(rows) => Some(rows.line()),
            Reader::Columnar(_) => None,
        }
    }

    /// Rows written aside so far.
    pub fn skipped(&self) -> Skipped {
        match &self.reader {
            Reader::Rows(rows) => rows.skipped(),
            Reader::Columnar(_) => Skipped::default(),
        }
    }
}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches")
            .field("rows", &self.rows)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, IngestError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = match &mut self.reader {
            Reader::Rows(rows) => rows.next_batch(),
            Reader::Columnar(columnar) => columnar.next_batch(),
        };
        match &next {
            Ok(Some(batch)) => self.rows += batch.num_rows() as u64,
            Ok(None) => {
                self.done = match &mut self.reader {
                    Reader::Rows(rows) => !rows.pauses(),
                    Reader::Columnar(_) => true,
                }
            }
            Err(_) => self.done = true,
        }
        next.transpose()
    }
}
