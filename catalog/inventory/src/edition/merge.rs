//! Merging the data files of a final product's table.
//!
//! A table that grew edition by edition lies in many small files. Once its product is final nothing is appended any more, and each
//! table is written anew as one file, or one for each partition: each folder of `data/` its files lie in. Rows keep the order
//! their files declare (INV-98): every row group is a run that ascends, and the runs are merged, reading one batch of each at a
//! time. Files that declare no order are written one after the other. No order is set here, and which artefacts are final plays
//! no part.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    io::{self, Read, Write},
    sync::{Arc, Mutex, PoisonError},
};

use arrow::{
    array::RecordBatch,
    compute::{SortOptions, interleave_record_batch},
    datatypes::SchemaRef,
    row::{OwnedRow, RowConverter, Rows, SortField},
};
use parquet::{
    arrow::{ArrowWriter, arrow_writer::ArrowWriterOptions},
    basic::{Compression, ZstdLevel},
    file::{metadata::SortingColumn, properties::WriterProperties},
};

use super::{
    EditionBuilder, EditionError,
    content::fingerprint_table,
    data::{Batches, DataFile, SortedBy, blocking},
    table_list::{ListedData, ListedTable},
};
use crate::{
    doc::{FilePath, Lifecycle, Tier, Urn},
    fingerprint::parquet_table::ParquetTableError,
    store::Creation,
};

/// Rows of a row group, as everywhere in this project.
const ROW_GROUP_ROWS: usize = 122_880;
/// Rows merged at once.
const CHUNK_ROWS: usize = 4096;

/// What a merge did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Merged {
    /// Files the table had.
    pub before: usize,
    /// Files it has now.
    pub after: usize,
}

impl EditionBuilder {
    /// INV-97: writes a final product's table anew, one file for each folder and tier its files have; a folder with one file is
    /// left as it is. INV-98: rows keep their declared order. The old files stay for the editions that list them (INV-25).
    ///
    /// The merged files are read back: the table list names them only if their rows have the fingerprint of the old ones.
    pub async fn merge_table(&mut self, dataflow: &Urn) -> Result<Merged, EditionError> {
        if self.publisher.lifecycle() != Lifecycle::Final {
            let product_id = self.list.product_id.clone();
            return Err(EditionError::MergeRevisable { product_id });
        }
        let Some(table) = self.list.table(dataflow) else {
            let dataflow = dataflow.clone();
            return Err(EditionError::NoTable { dataflow });
        };
        let before = table.files.len();
        let mut partitions: BTreeMap<(String, Tier), Vec<ListedData>> = BTreeMap::new();
        for file in &table.files {
            let folder = file.path.as_str().rsplit_once('/').map_or("", |(folder, _)| folder);
            let partition = partitions.entry((folder.to_owned(), file.tier)).or_default();
            partition.push(file.clone());
        }
        let mut files = Vec::with_capacity(partitions.len());
        for ((folder, tier), partition) in partitions {
            if partition.len() == 1 {
                files.extend(partition);
                continue;
            }
            files.push(self.merge(dataflow, &folder, tier, partition).await?);
        }
        let after = files.len();
        if after < before {
            let mut list = self.list.clone();
            if let Some(table) = list.tables.iter_mut().find(|table| table.dataflow == *dataflow) {
                table.files = files;
            }
            self.rewrite(list).await?;
        }
        Ok(Merged { before, after })
    }

    /// Writes one partition's rows into a new file.
    async fn merge(
        &self,
        dataflow: &Urn,
        folder: &str,
        tier: Tier,
        parts: Vec<ListedData>,
    ) -> Result<ListedData, EditionError> {
        let (place, form) = (self.publisher.place(), self.content().await?.form());
        let of = |files| ListedTable {
            dataflow: dataflow.clone(),
            files,
        };
        let mut opened = Vec::with_capacity(parts.len());
        for part in &parts {
            let Some(file) = place.data.open(&part.path).await? else {
                let (path, dataflow) = (part.path.clone(), dataflow.clone());
                return Err(EditionError::NoData { path, dataflow });
            };
            opened.push((part.path.clone(), file));
        }
        let before = fingerprint_table(place, &form, &of(parts)).await?.to_string();
        let order = one_order(&opened).await?;
        let files: Vec<Arc<dyn DataFile>> = opened.into_iter().map(|(_, file)| file).collect();
        let shown = folder.to_owned();
        let merged = blocking("merging the files in", shown, move || {
            Ok(MergedFile::new(&files, &order))
        })
        .await?;
        let slash = if folder.is_empty() { "" } else { "/" };
        let path: FilePath = format!("{folder}{slash}{}.parquet", crate::doc::fresh_uuid()).parse()?;
        let merged = merged.map_err(|source| unmerged(&path, source))?;
        if place.data.create(&path, Box::new(merged)).await? == Creation::Exists {
            return Err(EditionError::DataExists { path });
        }
        let mut written = self.look_at(dataflow, std::slice::from_ref(&path), tier).await?;
        let after = fingerprint_table(place, &form, &of(written.clone())).await?.to_string();
        match written.pop() {
            Some(written) if before == after => Ok(written),
            _ => Err(EditionError::MergeDiffers {
                dataflow: dataflow.clone(),
                path,
                before,
                after,
            }),
        }
    }
}

fn unmerged(path: &FilePath, source: ParquetTableError) -> EditionError {
    EditionError::Table {
        path: path.clone(),
        source: Box::new(source),
    }
}

/// INV-98: the order all files declare, which is none when they declare none.
async fn one_order(files: &[(FilePath, Arc<dyn DataFile>)]) -> Result<Vec<SortedBy>, EditionError> {
    let mut declared: Option<(&FilePath, Vec<SortedBy>)> = None;
    for (path, file) in files {
        let file = file.clone();
        let order = blocking("reading", path.to_string(), move || Ok(file.order())).await?;
        let order = order.map_err(|source| unmerged(path, source))?;
        match &declared {
            None => declared = Some((path, order)),
            Some((first, declared)) if *declared != order => {
                return Err(EditionError::DifferentOrder {
                    first: (*first).clone(),
                    second: path.clone(),
                });
            }
            Some(_) => {}
        }
    }
    Ok(declared.map(|(_, order)| order).unwrap_or_default())
}

/// Where the Parquet writer puts its bytes, and the reader takes them from.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<VecDeque<u8>>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A merged file, written as far as it is read: what is in memory is one row group, and one batch of each run.
struct MergedFile {
    rows: MergedRows,
    writer: Option<ArrowWriter<Pipe>>,
    bytes: Pipe,
}

impl MergedFile {
    fn new(files: &[Arc<dyn DataFile>], order: &[SortedBy]) -> Result<Self, ParquetTableError> {
        let mut runs = Vec::new();
        for file in files {
            runs.extend(file.parts()?);
        }
        let Some(schema) = runs.first().map(|run| run.schema()) else {
            return Err(ParquetTableError::Unreadable("no file has a row".to_owned()));
        };
        let sorting = order.iter().map(|sorted| -> Result<_, ParquetTableError> {
            let (column_idx, _) = leaf_column(&schema, &sorted.column)?;
            Ok(SortingColumn {
                column_idx,
                descending: sorted.descending,
                nulls_first: sorted.nulls_first,
            })
        });
        let sorting: Vec<SortingColumn> = sorting.collect::<Result<_, _>>()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .set_sorting_columns((!sorting.is_empty()).then_some(sorting))
            .build();
        let options = ArrowWriterOptions::new()
            .with_properties(properties)
            .with_skip_arrow_metadata(true);
        let bytes = Pipe::default();
        let writer = ArrowWriter::try_new_with_options(bytes.clone(), schema.clone(), options)?;
        let rows = match order {
            [] => MergedRows::OneAfterTheOther(runs.into()),
            order => MergedRows::Sorted(Box::new(Runs::new(runs, &schema, order)?)),
        };
        Ok(Self {
            rows,
            writer: Some(writer),
            bytes,
        })
    }
}

/// The number of the leaf column a sorted column is, and of the column.
fn leaf_column(schema: &SchemaRef, name: &str) -> Result<(i32, usize), ParquetTableError> {
    let mut leaf = 0;
    for (index, field) in schema.fields().iter().enumerate() {
        if field.name() == name {
            if field.data_type().is_nested() {
                break;
            }
            return Ok((leaf, index));
        }
        // One leaf for a plain column; what lies before a sorted one is counted by its fields.
        leaf += leaves(field.data_type());
    }
    Err(ParquetTableError::Unreadable(format!(
        "it declares an order by {name}, which is no plain column of it"
    )))
}

fn leaves(data_type: &arrow::datatypes::DataType) -> i32 {
    use arrow::datatypes::DataType;
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => leaves(field.data_type()),
        _ => 1,
    }
}

impl Read for MergedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let taken = {
                let mut bytes = self.bytes.0.lock().unwrap_or_else(PoisonError::into_inner);
                bytes.read(buffer)?
            };
            if taken > 0 || buffer.is_empty() {
                return Ok(taken);
            }
            let Some(writer) = &mut self.writer else {
                return Ok(0);
            };
            match self.rows.next().map_err(io::Error::other)? {
                Some(batch) => writer.write(&batch).map_err(io::Error::other)?,
                None => {
                    if let Some(writer) = self.writer.take() {
                        writer.close().map_err(io::Error::other)?;
                    }
                }
            }
        }
    }
}

enum MergedRows {
    OneAfterTheOther(VecDeque<Batches>),
    Sorted(Box<Runs>),
}

impl MergedRows {
    fn next(&mut self) -> Result<Option<RecordBatch>, ParquetTableError> {
        match self {
            Self::OneAfterTheOther(runs) => {
                while let Some(run) = runs.front_mut() {
                    match run.next() {
                        Some(batch) => return Ok(Some(batch?)),
                        None => drop(runs.pop_front()),
                    }
                }
                Ok(None)
            }
            Self::Sorted(runs) => runs.next(),
        }
    }
}

/// Runs that each ascend, merged.
struct Runs {
    runs: Vec<Run>,
    converter: RowConverter,
    columns: Vec<usize>,
    /// The next row of each run that has one, the smallest on top; runs that are equal there go in the order of their files.
    heads: BinaryHeap<Reverse<(OwnedRow, usize)>>,
}

struct Run {
    reader: Batches,
    batch: RecordBatch,
    keys: Rows,
    at: usize,
    last: Option<OwnedRow>,
}

impl Runs {
    fn new(readers: Vec<Batches>, schema: &SchemaRef, order: &[SortedBy]) -> Result<Self, ParquetTableError> {
        let mut columns = Vec::with_capacity(order.len());
        let mut fields = Vec::with_capacity(order.len());
        for sorted in order {
            let (_, column) = leaf_column(schema, &sorted.column)?;
            let options = SortOptions::new(sorted.descending, sorted.nulls_first);
            fields.push(SortField::new_with_options(
                schema.field(column).data_type().clone(),
                options,
            ));
            columns.push(column);
        }
        let converter = RowConverter::new(fields)?;
        let mut merged = Self {
            runs: Vec::with_capacity(readers.len()),
            converter,
            columns,
            heads: BinaryHeap::new(),
        };
        for reader in readers {
            let number = merged.runs.len();
            let batch = RecordBatch::new_empty(schema.clone());
            let keys = merged.converter.empty_rows(0, 0);
            merged.runs.push(Run {
                reader,
                batch,
                keys,
                at: 0,
                last: None,
            });
            merged.load(number)?;
        }
        Ok(merged)
    }

    /// Reads a run's next batch, once its last one is used up, and puts its first row among the heads.
    fn load(&mut self, number: usize) -> Result<(), ParquetTableError> {
        loop {
            let Some(batch) = self.runs[number].reader.next().transpose()? else {
                return Ok(());
            };
            if batch.num_rows() == 0 {
                continue;
            }
            let keys: Vec<_> = self
                .columns
                .iter()
                .map(|column| batch.column(*column).clone())
                .collect();
            let keys = self.converter.convert_columns(&keys)?;
            let run = &mut self.runs[number];
            (run.batch, run.keys, run.at) = (batch, keys, 0);
            return self.head(number);
        }
    }

    /// Puts a run's current row among the heads, unless it comes before the row it follows.
    fn head(&mut self, number: usize) -> Result<(), ParquetTableError> {
        let run = &mut self.runs[number];
        let head = run.keys.row(run.at).owned();
        if run.last.as_ref().is_some_and(|last| head < *last) {
            return Err(ParquetTableError::Unreadable(
                "its rows aren't in the order it declares (INV-98)".to_owned(),
            ));
        }
        run.last = Some(head.clone());
        self.heads.push(Reverse((head, number)));
        Ok(())
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, ParquetTableError> {
        // A batch that is used up goes on being referred to until the chunk is put together.
        let mut batches: Vec<RecordBatch> = self.runs.iter().map(|run| run.batch.clone()).collect();
        let mut place: Vec<usize> = (0..self.runs.len()).collect();
        let mut chosen = Vec::with_capacity(CHUNK_ROWS);
        while chosen.len() < CHUNK_ROWS {
            let Some(Reverse((_, number))) = self.heads.pop() else {
                break;
            };
            let run = &mut self.runs[number];
            chosen.push((place[number], run.at));
            run.at += 1;
            if run.at < run.batch.num_rows() {
                self.head(number)?;
            } else {
                self.load(number)?;
                place[number] = batches.len();
                batches.push(self.runs[number].batch.clone());
            }
        }
        if chosen.is_empty() {
            return Ok(None);
        }
        let batches: Vec<&RecordBatch> = batches.iter().collect();
        Ok(Some(interleave_record_batch(&batches, &chosen)?))
    }
}
