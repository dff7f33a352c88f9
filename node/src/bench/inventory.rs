//! `sovm bench --inventory`: what a version of a large catalogue costs, and what sealing an update of a large table costs.
//!
//! Both run on a plain directory, through the same writer and the same seal that every command uses, fsync included.

mod catalogue;
mod counting;
mod table;

use std::{path::Path, time::Instant};

use super::{
    BenchOptions,
    files::failed,
    run::{machine, temporary},
    timing::{Times, ratio, rounded},
};
use crate::{
    api::{BenchInventoryReport, BenchSeal, BenchVersion, Event, Unit},
    error::ApiError,
};

/// A release of one product may take this part of the time that writing everything takes (DESIGN §13).
const ONE_PRODUCT_TARGET: f64 = 1.0 / 50.0;
/// Products released in one version.
const BATCH: u64 = 200;
const STEPS: u64 = 2;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What is measured of the Inventory.
#[derive(Clone, Debug)]
pub struct InventoryBench {
    /// Products of the catalogue.
    pub products: u64,
    /// Rows of the table that is sealed.
    pub rows: u64,
}

/// Measures it. Of `options` the runs, the directory and the progress count.
pub async fn run_inventory(options: &BenchOptions, what: &InventoryBench) -> Result<BenchInventoryReport, ApiError> {
    let begun = Instant::now();
    let runs = options.runs.max(1);
    let says = |done, stage: &str| {
        options.progress.event(Event::Progress {
            stage: stage.to_owned(),
            unit: Unit::Steps,
            done,
            total: Some(STEPS),
        });
    };
    says(0, "releasing products");
    let dir = temporary(options)?;
    let releases = catalogue::measure(dir.path(), what.products, BATCH, runs)
        .await
        .map_err(failed)?;
    drop(dir);
    says(1, "sealing a table");
    let dir = temporary(options)?;
    let seal = seal(dir.path(), what.rows).await?;
    let all = Times::of(&releases.all.times).median();
    let version = |name: &str, products, versions: &catalogue::Versions, target: Option<f64>| {
        let ms = Times::of(&versions.times).median();
        let catalogue::Versions { traffic, .. } = versions;
        let against = (name != "rewrite_all").then(|| ratio("rewrite_all", ms, all, target));
        BenchVersion {
            name: name.to_owned(),
            ms,
            products,
            leaves_read: traffic.leaves_read,
            leaves_written: traffic.leaves_written,
            roots_written: traffic.roots_written,
            bytes_written: traffic.bytes_written,
            against: against.into_iter().collect(),
        }
    };
    Ok(BenchInventoryReport {
        machine: machine(),
        sovm: env!("CARGO_PKG_VERSION").to_owned(),
        products: what.products,
        runs,
        root_bytes: releases.root_bytes,
        leaf_bytes: releases.leaf_bytes,
        versions: vec![
            version("one_product", 1, &releases.one_cold, Some(ONE_PRODUCT_TARGET)),
            version("one_product_again", 1, &releases.one_warm, Some(ONE_PRODUCT_TARGET)),
            version("batch", releases.batch_products, &releases.batch, None),
            version("rewrite_all", what.products, &releases.all, None),
        ],
        seal,
        elapsed_ms: begun.elapsed().as_millis() as u64,
    })
}

async fn seal(dir: &Path, rows: u64) -> Result<BenchSeal, ApiError> {
    let seal = table::measure(dir, rows).await.map_err(failed)?;
    let milliseconds = |time| Times::of(&[time]).median();
    let fingerprint = seal.fingerprint.as_secs_f64();
    let cores = sovm_object::parallel::cores() as f64;
    let per_second = |rows: f64, seconds: f64| if seconds > 0.0 { (rows / seconds).round() } else { 0.0 };
    Ok(BenchSeal {
        rows: seal.rows,
        new_rows: seal.new_rows,
        files: seal.files,
        bytes: seal.bytes,
        ms: milliseconds(seal.total),
        fingerprint_ms: milliseconds(seal.fingerprint),
        digests_ms: milliseconds(seal.digests),
        fingerprint_share: rounded(fingerprint / seal.total.as_secs_f64().max(f64::EPSILON)),
        rows_per_second: per_second(seal.rows as f64, fingerprint),
        rows_per_second_per_core: per_second(seal.rows as f64, fingerprint * cores),
        rows_per_second_alone: seal.rows_per_second_alone.round(),
    })
}
