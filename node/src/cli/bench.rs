//! `sovm bench`.

use std::path::PathBuf;

use clap::{Args, value_parser};

use super::{Context, ingest::absolute};
use crate::{
    api::{BenchFigure, BenchInventoryReport, BenchRatio, BenchReport, Response},
    bench::{self, BenchOptions, InventoryBench},
    config::{format_bytes, format_duration_ms},
    error::ApiError,
    output::{Output, TextTable},
};

/// Rows of the table that is published and queried.
const ROWS: u64 = 1_000_000;
/// Rows of the table that is sealed.
const SEALED_ROWS: u64 = 5_500_000;

/// Measure how fast this node is here, as ratios to others in the same run
///
/// Makes up rows in a temporary directory, publishes and queries them there with a node of its own, and does the same with
/// DataFusion over plain Parquet, and with DuckDB when there is one. A ratio is this node's time over the other's. The node
/// in --home is not touched.
///
/// With --inventory: what a version of a catalogue of many products costs beside one that writes all of it anew, and what
/// sealing one month more of a large table costs.
#[derive(Args, Debug)]
pub(super) struct BenchArgs {
    /// Measure releases and a seal instead
    #[arg(long, conflicts_with = "objects")]
    inventory: bool,
    /// Products of the catalogue
    #[arg(long, value_name = "N", default_value_t = 7_000, requires = "inventory", value_parser = value_parser!(u64).range(1..=1_000_000))]
    products: u64,
    /// Rows of the table [default: 1000000, or 5500000 with --inventory]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    rows: Option<u64>,
    /// Objects of the table that a few rows are looked for in
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u64).range(1..=1_000_000))]
    objects: u64,
    /// Runs of which each time is the median
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u64).range(1..=100))]
    runs: u64,
    /// Put the temporary directory here
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Python with the module duckdb, to compare with DuckDB too
    #[arg(long, value_name = "PYTHON", env = "SOVM_BENCH_PYTHON", hide_env_values = true)]
    duckdb: Option<PathBuf>,
}

impl BenchArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        let options = BenchOptions {
            rows: self.rows.unwrap_or(ROWS),
            small_objects: self.objects,
            runs: self.runs,
            dir: self.dir.as_deref().map(absolute).transpose()?,
            duckdb: self.duckdb,
            progress: context.output.clone(),
        };
        if self.inventory {
            let what = InventoryBench {
                products: self.products,
                rows: self.rows.unwrap_or(SEALED_ROWS),
            };
            let report = bench::run_inventory(&options, &what).await?;
            return context.show(&Response::BenchInventory(Box::new(report.clone())), |output| {
                render_inventory(&report, output)
            });
        }
        let report = bench::run(options).await?;
        context.show(&Response::Bench(Box::new(report.clone())), |output| {
            render(&report, output)
        })
    }
}

fn render(report: &BenchReport, output: &Output) -> Result<(), ApiError> {
    let machine = &report.machine;
    output.line(format!(
        "{} rows, {} encrypted, {} as plain Parquet; {} cores, {}, AES by {}; median of {} runs, warm cache",
        report.rows,
        format_bytes(report.encrypted_bytes),
        format_bytes(report.plain_bytes),
        machine.cores,
        machine.arch,
        if machine.aes_instructions {
            "the processor"
        } else {
            "software, since this processor has no instructions for it"
        },
        report.runs
    ))?;
    let mut table = TextTable::new(&["what", ">sovm", "beside", ">its time", ">ratio", ">aim"]);
    for figure in &report.figures {
        rows_of(&mut table, figure);
    }
    let point = &report.point;
    let about = [
        ("point query", point.ms, None),
        ("planning", point.planning_ms, Some(point.planning_target_ms)),
        ("planning, cold", point.planning_cold_ms, Some(point.planning_target_ms)),
    ];
    for (what, ms, aim) in about {
        let aim = aim.map(|aim| format!("{aim:.0} ms")).unwrap_or_default();
        table.row([what, &milliseconds(ms), "", "", "", &aim]);
    }
    output.line(table.render())?;
    output.line(format!(
        "point query: {} objects, {} pruned by manifest, {} opened, {} with rows that fit",
        point.considered, point.pruned, point.opened, point.matching
    ))?;
    if report.versions.duckdb.is_some() {
        output.note("DuckDB encrypts with its built-in cipher here, which needs force_mbedtls_unsafe");
    }
    if let Some(why) = &report.duckdb_missing {
        output.warn(format!("DuckDB was not measured: {why}"));
    }
    if machine.unoptimised {
        output.warn("this build is not optimised: the figures mean nothing");
    }
    output.note(format!("took {}", format_duration_ms(report.elapsed_ms)));
    Ok(())
}

fn render_inventory(report: &BenchInventoryReport, output: &Output) -> Result<(), ApiError> {
    let BenchInventoryReport { machine, seal, .. } = report;
    output.line(format!(
        "{} products, a root of {}, a leaf of {}; {} cores, {}; one product: median of {} runs",
        report.products,
        format_bytes(report.root_bytes),
        format_bytes(report.leaf_bytes),
        machine.cores,
        machine.arch,
        report.runs
    ))?;
    let mut table = TextTable::new(&[
        "version",
        ">products",
        ">time",
        ">leaves read",
        ">leaves written",
        ">roots",
        ">written",
        ">of all",
        ">aim",
    ]);
    for version in &report.versions {
        let against = version.against.first();
        table.row([
            version.name.replace('_', " ").as_str(),
            &version.products.to_string(),
            &milliseconds(version.ms),
            &version.leaves_read.to_string(),
            &version.leaves_written.to_string(),
            &version.roots_written.to_string(),
            &format_bytes(version.bytes_written),
            &against.map(|all| format!("{:.3}", all.ratio)).unwrap_or_default(),
            &against
                .and_then(|all| all.target)
                .map(|aim| format!("{aim:.3}"))
                .unwrap_or_default(),
        ]);
    }
    output.line(table.render())?;
    output.line(format!(
        "sealing {} rows more of a table of {} rows in {} files, {}: {}; fingerprint {} ({:.0} %), digests {}",
        seal.new_rows,
        seal.rows,
        seal.files,
        format_bytes(seal.bytes),
        milliseconds(seal.ms),
        milliseconds(seal.fingerprint_ms),
        seal.fingerprint_share * 100.0,
        milliseconds(seal.digests_ms)
    ))?;
    output.line(format!(
        "rows hashed a second: {:.0}, {:.0} for each core; {:.0} by one thread alone",
        seal.rows_per_second, seal.rows_per_second_per_core, seal.rows_per_second_alone
    ))?;
    if machine.unoptimised {
        output.warn("this build is not optimised: the figures mean nothing");
    }
    output.note(format!("took {}", format_duration_ms(report.elapsed_ms)));
    Ok(())
}

fn rows_of(table: &mut TextTable, figure: &BenchFigure) {
    let what = figure.name.replace('_', " ");
    if figure.against.is_empty() {
        table.row([what.as_str(), &milliseconds(figure.ms)]);
    }
    for (index, other) in figure.against.iter().enumerate() {
        let BenchRatio {
            with,
            ms,
            ratio,
            target,
            ..
        } = other;
        let (what, ours) = match index {
            0 => (what.as_str(), milliseconds(figure.ms)),
            _ => ("", String::new()),
        };
        let aim = target.map(|aim| format!("{aim:.2}")).unwrap_or_default();
        table.row([
            what,
            &ours,
            &with.replace('_', " "),
            &milliseconds(*ms),
            &format!("{ratio:.2}"),
            &aim,
        ]);
    }
}

fn milliseconds(ms: f64) -> String {
    format!("{ms:.1} ms")
}
