//! The order of measurements, and a node in a temporary home to take them on.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use arrow::{
    array::RecordBatch,
    datatypes::SchemaRef,
    util::display::{ArrayFormatter, FormatOptions},
};
use async_trait::async_trait;
use datafusion::prelude::{SessionConfig, SessionContext};
use sovm_object::parallel::cores;
use tempfile::TempDir;

use super::{
    BenchOptions, data,
    duckdb::{self, DuckDb},
    files::{self, Files, failed},
    plain::PlainTable,
    timing::{Times, ratio},
};
use crate::{
    api::{
        BenchFigure, BenchMachine, BenchPoint, BenchReport, BenchVersions, Event, Exchange, IngestReport,
        IngestRequest, InputFormat, Request, Response, RowSink, ScanCounts, Service as _, SqlReport, SqlRequest, Unit,
    },
    cli::{Backend as _, InitOptions, OpenOptions},
    config::{Home, HomeLock, Unlock},
    engine::{Engine, Node},
    error::ApiError,
};

/// Times a scan may take of what plain Parquet takes (DESIGN §13).
const SCAN_TARGET: f64 = 1.15;
/// Milliseconds that planning may take for 10,000 manifests.
const PLANNING_TARGET_MS: f64 = 50.0;
/// Rows of a small object.
const SMALL_ROWS: u64 = 46;
/// Writing is measured at most so often: it takes long, and its times vary little.
const MAX_WRITES: u64 = 3;
const STEPS: u64 = 8;

/// Measures everything.
pub async fn run(options: BenchOptions) -> Result<BenchReport, ApiError> {
    let begun = Instant::now();
    let dir = temporary(&options)?;
    let mut bench = Bench::start(options, dir.path()).await?;
    let report = bench.measure(dir.path()).await;
    bench.close().await;
    let mut report = report?;
    report.elapsed_ms = begun.elapsed().as_millis() as u64;
    Ok(report)
}

/// A directory that is removed with everything in it.
pub(super) fn temporary(options: &BenchOptions) -> Result<TempDir, ApiError> {
    let made = match &options.dir {
        Some(dir) => tempfile::tempdir_in(dir),
        None => tempfile::tempdir(),
    };
    made.map_err(|error| ApiError::io("making a directory for the benchmark", &error))
}

struct Bench {
    options: BenchOptions,
    /// Open, but for a moment when it is opened anew.
    node: Option<Node>,
    home: PathBuf,
    step: u64,
    // Last, so that the home is free only when its node is gone.
    _lock: HomeLock,
}

impl Bench {
    async fn start(options: BenchOptions, dir: &Path) -> Result<Self, ApiError> {
        let home = Home::at(dir.join("home"));
        let lock = home.lock()?;
        let unlock = || Unlock::KeyFile(dir.join("key"));
        let init = InitOptions {
            unlock: unlock(),
            name: Some("bench".to_owned()),
        };
        Engine.init(&home, init).await?;
        let node = Node::open(&home, unlock(), OpenOptions::default()).await?;
        Ok(Self {
            options,
            node: Some(node),
            home: home.path().to_owned(),
            step: 0,
            _lock: lock,
        })
    }

    async fn measure(&mut self, dir: &Path) -> Result<BenchReport, ApiError> {
        let (rows, runs) = (self.options.rows, self.options.runs.max(1));
        let writes = runs.min(MAX_WRITES);
        self.says("making rows");
        let files = {
            let dir = dir.to_owned();
            blocking(move || files::write(&dir, rows, writes)).await?
        };
        self.says("publishing Arrow batches");
        let (arrow, published) = self
            .publish("flights", &files.arrow, InputFormat::Arrow, writes)
            .await?;
        self.says("publishing CSV");
        let (csv, _) = self
            .publish("flights_csv", &files.csv, InputFormat::Csv, writes)
            .await?;
        let plain = SessionContext::new_with_config(SessionConfig::new());
        plain
            .register_table("flights", Arc::new(PlainTable::open(&files.parquet).map_err(failed)?))
            .map_err(failed)?;
        self.says("full scan");
        let full = self.scan(&plain, &data::full_scan("flights"), runs).await?;
        self.says("selective scan");
        let selective = self.scan(&plain, &data::selective_scan("flights", rows), runs).await?;
        self.says("small objects");
        let point = self.point(dir, runs).await?;
        self.says("DuckDB");
        let (duck, duckdb_missing) = match self.duckdb(&files, dir).await? {
            None => (None, None),
            Some(Ok(duck)) => (Some(duck), None),
            Some(Err(why)) => (None, Some(why)),
        };
        let plain_write = ratio(
            "parquet_plain_write",
            arrow.median(),
            files.parquet_times.median(),
            None,
        );
        let ms = duck.as_ref().map(|duck| duck.ms);
        let publish_of = |name: &str, times: &Times, encrypted: Option<f64>, plain: Option<f64>| BenchFigure {
            name: name.to_owned(),
            ms: times.median(),
            bytes_verified: 0,
            bytes_decrypted: 0,
            against: [
                encrypted.map(|other| ratio("duckdb_encrypted", times.median(), other, Some(1.0))),
                plain.map(|other| ratio("duckdb_plain", times.median(), other, None)),
            ]
            .into_iter()
            .flatten()
            .collect(),
        };
        let mut figures = vec![
            publish_of(
                "publish_arrow",
                &arrow,
                ms.map(|ms| ms.copy_encrypted),
                ms.map(|ms| ms.copy_plain),
            ),
            publish_of(
                "publish_csv",
                &csv,
                ms.map(|ms| ms.csv_copy_encrypted),
                ms.map(|ms| ms.csv_copy_plain),
            ),
            full.figure("full_scan", ms.map(|ms| ms.full_encrypted), ms.map(|ms| ms.full_plain)),
            selective.figure(
                "selective_scan",
                ms.map(|ms| ms.selective_encrypted),
                ms.map(|ms| ms.selective_plain),
            ),
        ];
        figures[0].against.push(plain_write);
        Ok(BenchReport {
            machine: machine(),
            versions: BenchVersions {
                sovm: env!("CARGO_PKG_VERSION").to_owned(),
                datafusion: datafusion::DATAFUSION_VERSION.to_owned(),
                duckdb: duck.map(|duck| duck.version),
            },
            rows,
            runs,
            cache: "warm".to_owned(),
            encrypted_bytes: published.output_bytes,
            plain_bytes: std::fs::metadata(&files.parquet).map_or(0, |meta| meta.len()),
            figures,
            point,
            duckdb_missing,
            elapsed_ms: 0,
        })
    }

    fn says(&mut self, stage: &str) {
        self.options.progress.event(Event::Progress {
            stage: stage.to_owned(),
            unit: Unit::Steps,
            done: self.step,
            total: Some(STEPS),
        });
        self.step += 1;
    }

    /// Publishes a file into tables of their own; the first one stays to be read.
    async fn publish(
        &self,
        table: &str,
        file: &Path,
        format: InputFormat,
        runs: u64,
    ) -> Result<(Times, IngestReport), ApiError> {
        let mut times = Times::default();
        let mut first = None;
        for run in 0..runs {
            let table = match run {
                0 => table.to_owned(),
                run => format!("{table}_{run}"),
            };
            let begun = Instant::now();
            let report = self.ingest(&table, file, format).await?;
            times.add(begun);
            first.get_or_insert(report);
        }
        let first = first.ok_or_else(|| ApiError::bug("nothing was published"))?;
        Ok((times, first))
    }

    async fn ingest(&self, table: &str, file: &Path, format: InputFormat) -> Result<IngestReport, ApiError> {
        let request = IngestRequest {
            table: table.to_owned(),
            files: vec![file.to_owned()],
            format: Some(format),
            nulls: Vec::new(),
            schema: None,
            domain: None,
            skip_bad_rows: None,
            parquet_key_file: None,
            every_ms: None,
        };
        match self.node()?.call(Request::Ingest(request), Exchange::silent()).await? {
            Response::Ingest(report) => Ok(report),
            _ => Err(ApiError::bug("ingest was answered with something else")),
        }
    }

    /// One statement on both sides, by turns. Their answers must be the same.
    async fn scan(&self, plain: &SessionContext, sql: &str, runs: u64) -> Result<Scan, ApiError> {
        let (mut ours, mut theirs) = (Times::default(), Times::default());
        // Once without the clock, for what is made at first use.
        let counts = self.counts(sql).await?;
        for _ in 0..=runs {
            let begun = Instant::now();
            let (answer, _) = self.sql(sql, false).await?;
            ours.add(begun);
            let begun = Instant::now();
            let batches = plain.sql(sql).await.map_err(failed)?.collect().await.map_err(failed)?;
            theirs.add(begun);
            if answer != lines(&batches)? {
                return Err(failed("this node and DataFusion over plain Parquet answer differently"));
            }
        }
        Ok(Scan { ours, theirs, counts })
    }

    async fn sql(&self, sql: &str, explain: bool) -> Result<(Vec<String>, SqlReport), ApiError> {
        let rows = Arc::new(Answer::default());
        let request = SqlRequest {
            query: sql.to_owned(),
            explain,
            allow_incomplete: false,
            memory: None,
        };
        let exchange = Exchange {
            rows: rows.clone(),
            ..Exchange::silent()
        };
        match self.node()?.call(Request::Sql(request), exchange).await? {
            Response::Sql(report) => {
                let batches = rows.0.lock().unwrap_or_else(PoisonError::into_inner);
                Ok((lines(&batches)?, report))
            }
            _ => Err(ApiError::bug("sql was answered with something else")),
        }
    }

    /// What a statement reads.
    async fn counts(&self, sql: &str) -> Result<ScanCounts, ApiError> {
        let (_, report) = self.sql(sql, true).await?;
        Ok(report.explain.map(|explain| explain.scan).unwrap_or_default())
    }

    /// A query for the rows of one hour out of many objects of an hour each.
    async fn point(&mut self, dir: &Path, runs: u64) -> Result<BenchPoint, ApiError> {
        let objects = self.options.small_objects.max(1);
        let columns = [10, 15, 18];
        let batch = move |number: u64| {
            data::batch(number * SMALL_ROWS, SMALL_ROWS)
                .and_then(|batch| batch.project(&columns))
                .map_err(failed)
        };
        // The table is made by a first object like the others.
        let (first, parquet) = (dir.join("first.parquet"), dir.join("small.parquet"));
        {
            let (first, parquet) = (first.clone(), parquet.clone());
            blocking(move || {
                let batches = (0..objects).map(batch).collect::<Result<Vec<_>, _>>()?;
                files::write_parquet(&first, &batches[..1])?;
                files::write_parquet(&parquet, &batches)
            })
            .await?;
        }
        self.ingest("small", &first, InputFormat::Parquet).await?;
        self.node()?.publish_each("small", (1..objects).map(batch)).await?;

        let plain = SessionContext::new_with_config(SessionConfig::new());
        plain
            .register_table("small", Arc::new(PlainTable::open(&parquet).map_err(failed)?))
            .map_err(failed)?;
        // A node that was just opened, as a command finds it.
        self.reopen(dir).await?;
        let nothing = data::hour("small", objects + 1);
        let begun = Instant::now();
        self.sql(&nothing, false).await?;
        let mut cold = Times::default();
        cold.add(begun);
        let mut planning = Times::default();
        for _ in 0..runs {
            let begun = Instant::now();
            self.sql(&nothing, false).await?;
            planning.add(begun);
        }
        let scan = self.scan(&plain, &data::hour("small", objects / 2), runs).await?;
        Ok(BenchPoint {
            objects,
            considered: scan.counts.objects_considered,
            pruned: scan.counts.objects_pruned,
            opened: scan.counts.objects_opened,
            matching: 1,
            ms: scan.ours.median(),
            planning_ms: planning.median(),
            planning_cold_ms: cold.median(),
            planning_target_ms: PLANNING_TARGET_MS * (objects as f64 / 10_000.0).max(1.0),
            against: vec![ratio(
                "datafusion_plain",
                scan.ours.median(),
                scan.theirs.median(),
                None,
            )],
        })
    }

    fn node(&self) -> Result<&Node, ApiError> {
        self.node.as_ref().ok_or_else(|| ApiError::bug("the node is not open"))
    }

    async fn close(&mut self) {
        if let Some(node) = self.node.take() {
            node.shutdown().await;
        }
    }

    async fn reopen(&mut self, dir: &Path) -> Result<(), ApiError> {
        self.close().await;
        let home = Home::at(&self.home);
        let unlock = Unlock::KeyFile(dir.join("key"));
        self.node = Some(Node::open(&home, unlock, OpenOptions::default()).await?);
        Ok(())
    }

    /// DuckDB's figures; `None` when nobody asked for them.
    async fn duckdb(&self, files: &Files, dir: &Path) -> Result<Option<Result<DuckDb, String>>, ApiError> {
        let Some(python) = self.options.duckdb.clone() else {
            return Ok(None);
        };
        let task = duckdb::Task::new(
            files,
            dir,
            cores() as u64,
            self.options.rows,
            self.options.runs.clamp(1, MAX_WRITES),
        );
        Ok(Some(blocking(move || Ok(duckdb::measure(&python, &task))).await?))
    }
}

/// One statement on both sides.
struct Scan {
    ours: Times,
    theirs: Times,
    counts: ScanCounts,
}

impl Scan {
    fn figure(&self, name: &str, encrypted: Option<f64>, plain: Option<f64>) -> BenchFigure {
        let ours = self.ours.median();
        let against = [
            Some(ratio("datafusion_plain", ours, self.theirs.median(), Some(SCAN_TARGET))),
            encrypted.map(|other| ratio("duckdb_encrypted", ours, other, Some(1.0))),
            plain.map(|other| ratio("duckdb_plain", ours, other, None)),
        ];
        BenchFigure {
            name: name.to_owned(),
            ms: ours,
            bytes_verified: self.counts.bytes_verified,
            bytes_decrypted: self.counts.bytes_decrypted,
            against: against.into_iter().flatten().collect(),
        }
    }
}

/// Keeps the rows of an answer.
#[derive(Default)]
struct Answer(Mutex<Vec<RecordBatch>>);

#[async_trait]
impl RowSink for Answer {
    async fn schema(&self, _: SchemaRef) -> Result<(), ApiError> {
        Ok(())
    }

    async fn batch(&self, batch: RecordBatch) -> Result<(), ApiError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
        Ok(())
    }
}

/// Rows as text, whatever layout of Arrow they came in.
fn lines(batches: &[RecordBatch]) -> Result<Vec<String>, ApiError> {
    let options = FormatOptions::default();
    let mut lines = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(failed)?;
        lines.extend((0..batch.num_rows()).map(|row| {
            let cells: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            cells.join("|")
        }));
    }
    Ok(lines)
}

pub(super) fn machine() -> BenchMachine {
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    let aes = std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    let aes = std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
    let aes = false;
    BenchMachine {
        cores: cores() as u64,
        arch: std::env::consts::ARCH.to_owned(),
        os: std::env::consts::OS.to_owned(),
        aes_instructions: aes,
        unoptimised: cfg!(debug_assertions),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(ApiError::bug)?
}
