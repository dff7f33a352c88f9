//! The seal of an update: one month more of a table of millions of rows, in plain Parquet files.
//!
//! A seal reads every row of the table and every byte of its files anew, those of earlier months included, since a plain
//! directory keeps no digests that could vouch for them.

use std::{
    collections::BTreeSet,
    io::Cursor,
    path::Path,
    sync::Arc,
    time::{Duration, Instant as Started},
};

use arrow::{
    array::{ArrayRef, Date32Array, Float64Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
    error::ArrowError,
};
use bytes::Bytes;
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::WriterProperties,
};
use sovm_inventory::{
    doc::{CatalogId, JsonObject, Lifecycle, Producer, ProductId, ProductKind, Tier, Urn},
    edition::{
        Begin, DirectoryData, EditionBuilder, MessageFormat, ProductEditions, Publisher, PublisherSettings,
        check::CheckOptions, seal::SealRequest,
    },
    fingerprint::{CanonicalForm, fingerprint_parquet},
    store::{InventoryStore, LocalStore},
    transition::{ProductProfile, Retention, RetentionSettings},
    writer::{Identity, NewCatalog, SystemClock, Writer},
};

use super::Failure;

const BATCH_ROWS: u64 = 65_536;
/// Months of the table; the last of them is the update.
const MONTHS: u64 = 60;
const ZSTD_LEVEL: i32 = 3;
const DATAFLOW: &str = "urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow=BENCH:DF(1.0)";

/// What the seal cost.
#[derive(Debug)]
pub(super) struct Seal {
    /// Rows of the table after the update.
    pub(super) rows: u64,
    /// Rows of the update.
    pub(super) new_rows: u64,
    /// Data files of the table.
    pub(super) files: u64,
    /// Bytes of these files.
    pub(super) bytes: u64,
    /// From the journal to the manifest.
    pub(super) total: Duration,
    /// Reading every row and adding up the table fingerprint.
    pub(super) fingerprint: Duration,
    /// Digesting every file.
    pub(super) digests: Duration,
    /// Rows a second of one thread alone, over one file.
    pub(super) rows_per_second_alone: f64,
}

/// Publishes all months but the last, then seals the last.
pub(super) async fn measure(dir: &Path, rows: u64) -> Result<Seal, Failure> {
    let month = rows.div_ceil(MONTHS).max(1);
    let publisher = publisher(dir).await?;
    let dataflow: Urn = DATAFLOW.parse()?;
    let mut builder = publisher.begin(Begin::default()).await?;
    builder
        .add_structures(Bytes::from_static(STRUCTURES.as_bytes()), MessageFormat::Json, &[])
        .await?;
    let mut start = 0;
    while start + month < rows {
        append(&mut builder, &dataflow, start, month).await?;
        start += month;
    }
    let sealed = builder.seal(SealRequest::default()).await?;
    let edition_id = sealed.manifest.edition_id;
    let checked = publisher.check(&edition_id, &CheckOptions::default()).await?;
    publisher.record(&checked.into_publishable()?, "a benchmark").await?;

    let mut builder = publisher.begin(Begin::default()).await?;
    let last = append(&mut builder, &dataflow, start, rows - start).await?;
    let begun = Started::now();
    let flushed = builder.begin_seal(SealRequest::default()).await?.flush().await?;
    let step = Started::now();
    let fingerprinted = flushed.fingerprint().await?;
    let fingerprint = step.elapsed();
    let step = Started::now();
    let listed = fingerprinted.list_files().await?;
    let digests = step.elapsed();
    let sealed = listed.write_manifest().await?;
    let total = begun.elapsed();
    let data = || {
        sealed
            .manifest
            .files
            .iter()
            .filter(|file| file.path.as_str().ends_with(".parquet"))
    };
    Ok(Seal {
        rows: sealed
            .manifest
            .bindings
            .iter()
            .map(|binding| binding.observations)
            .sum(),
        new_rows: rows - start,
        files: data().count() as u64,
        bytes: data().map(|file| file.size).sum(),
        total,
        fingerprint,
        digests,
        rows_per_second_alone: one_thread(last)?,
    })
}

/// Writes the rows of one month as a data file of the table, and gives back its bytes.
async fn append(builder: &mut EditionBuilder, dataflow: &Urn, start: u64, rows: u64) -> Result<Bytes, Failure> {
    let file = tokio::task::spawn_blocking(move || parquet(start, rows)).await??;
    let path = builder
        .write_data(dataflow, Box::new(Cursor::new(file.clone())))
        .await?;
    builder.append(dataflow, &[path], Tier::Remote).await?;
    Ok(file)
}

/// How fast one thread reads and hashes rows; the best of a few runs, since what disturbs one only slows it.
fn one_thread(file: Bytes) -> Result<f64, Failure> {
    let mut best = Duration::MAX;
    let mut rows = 0;
    for _ in 0..5 {
        let begun = Started::now();
        rows = fingerprint_parquet(CanonicalForm::ONE, file.clone())?.rows();
        best = best.min(begun.elapsed());
    }
    Ok(rows as f64 / best.as_secs_f64())
}

async fn publisher(dir: &Path) -> Result<Publisher, Failure> {
    let store: Arc<dyn InventoryStore> = Arc::new(LocalStore::open(dir)?);
    let product: ProductId = "table".parse()?;
    let identity = Identity {
        actor: "bench".parse()?,
        producer: Producer {
            name: "sovm".parse()?,
            version: "0".parse()?,
        },
    };
    let new = NewCatalog {
        catalog_id: CatalogId::generate(),
        embargo: false,
        extensions: JsonObject::new(),
        reason: "a benchmark".to_owned(),
    };
    let producer = identity.producer.clone();
    let clock = Arc::new(SystemClock);
    let (writer, _) = Writer::create(store.clone(), identity, clock.clone(), new).await?;
    let data = Arc::new(DirectoryData::new(dir, &product));
    let place = ProductEditions::open(store, data, product).await?;
    let settings = PublisherSettings {
        profile: ProductProfile {
            kind: ProductKind::Data,
            lifecycle: Lifecycle::Revisable,
        },
        canonical_forms: BTreeSet::from([
            CanonicalForm::ONE.as_str().parse()?,
            CanonicalForm::SOVM_1.as_str().parse()?,
        ]),
        retention: Retention::new(RetentionSettings::default())?,
        producer,
        clock,
    };
    Ok(Publisher::new(place, writer, settings))
}

/// Rows as a statistical office has them: codes, a time, a value that is sometimes missing, a status.
fn parquet(start: u64, rows: u64) -> Result<Bytes, Failure> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .build();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, schema(), Some(properties))?;
    let end = start + rows;
    let mut at = start;
    while at < end {
        let rows = BATCH_ROWS.min(end - at);
        writer.write(&batch(at, rows)?)?;
        at += rows;
    }
    writer.close()?;
    Ok(file.into())
}

fn schema() -> SchemaRef {
    let code = |name: &str| Field::new(name, DataType::Utf8, false);
    Arc::new(Schema::new(vec![
        code("GEO"),
        code("SEX"),
        code("AGE"),
        code("NAICS"),
        Field::new("TIME_PERIOD", DataType::Date32, false),
        Field::new("OBS_VALUE", DataType::Float64, true),
        code("OBS_STATUS"),
    ]))
}

fn batch(start: u64, rows: u64) -> Result<RecordBatch, ArrowError> {
    let numbers = || start..start + rows;
    let codes = |prefix: &str, distinct: u64, stride: u64| -> ArrayRef {
        let codes = numbers().map(|row| format!("{prefix}{}", row / stride % distinct));
        Arc::new(StringArray::from_iter_values(codes))
    };
    let days = numbers().map(|row| (row % 20_000) as i32);
    // A number that follows from the row's and looks like none: multiplication by an odd number mixes the bits.
    let value =
        |row: u64| (!row.is_multiple_of(7)).then(|| (row.wrapping_mul(2_654_435_761) % 10_000_000) as f64 / 10.0);
    let columns: Vec<ArrayRef> = vec![
        codes("2021A0", 300, 50),
        codes("S", 3, 7),
        codes("Y", 101, 1),
        codes("N", 800, 3),
        Arc::new(Date32Array::from_iter_values(days)),
        Arc::new(Float64Array::from_iter(numbers().map(value))),
        codes("A", 2, 11),
    ];
    RecordBatch::try_new(schema(), columns)
}

/// The structures of the table: one dataflow and its data structure, with nothing coded.
const STRUCTURES: &str = r#"{"meta":{"schema":"https://json.sdmx.org/2.0.0/sdmx-json-structure-schema.json","id":"BENCH",
"prepared":"2026-01-01T00:00:00Z","sender":{"id":"BENCH"}},"data":{
"conceptSchemes":[{"id":"CS","agencyID":"BENCH","version":"1.0","names":{"en":"Concepts"},"concepts":[
{"id":"GEO","names":{"en":"Place"}},{"id":"TIME_PERIOD","names":{"en":"Time"}},{"id":"OBS_VALUE","names":{"en":"Value"}}]}],
"dataStructures":[{"id":"DSD","agencyID":"BENCH","version":"1.0","names":{"en":"Structure"},"dataStructureComponents":{
"dimensionList":{"dimensions":[{"id":"GEO","position":0,
"conceptIdentity":"urn:sdmx:org.sdmx.infomodel.conceptscheme.Concept=BENCH:CS(1.0).GEO",
"localRepresentation":{"format":{"dataType":"String"}}}],"timeDimension":{"id":"TIME_PERIOD",
"conceptIdentity":"urn:sdmx:org.sdmx.infomodel.conceptscheme.Concept=BENCH:CS(1.0).TIME_PERIOD",
"localRepresentation":{"format":{"dataType":"ObservationalTimePeriod"}}}},
"measureList":{"measures":[{"id":"OBS_VALUE",
"conceptIdentity":"urn:sdmx:org.sdmx.infomodel.conceptscheme.Concept=BENCH:CS(1.0).OBS_VALUE",
"localRepresentation":{"format":{"dataType":"Double"}}}]}}}],
"dataflows":[{"id":"DF","agencyID":"BENCH","version":"1.0","names":{"en":"Table"},
"structure":"urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure=BENCH:DSD(1.0)"}]}}"#;
