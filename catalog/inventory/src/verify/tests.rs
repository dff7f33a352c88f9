//! Each break by name, and what must not be taken for one.

use std::sync::Arc;

use super::{Fault, Report, Severity, testing::*};
use crate::{doc::*, reader::Way, store::MemoryStore};

mod between;
mod broken;
mod independent;
mod segments;
mod sound;

/// Rules and severities of a report, without repetition.
fn rules(report: &Report) -> Vec<(u16, Severity)> {
    let mut rules: Vec<_> = report
        .findings
        .iter()
        .map(|finding| (finding.rule(), finding.severity()))
        .collect();
    rules.sort();
    rules.dedup();
    rules
}

async fn fixture() -> Fixture {
    Fixture::new(Arc::new(MemoryStore::default())).await
}
