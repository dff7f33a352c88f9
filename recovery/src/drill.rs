//! The drill: what a restore into a temporary home must show before recovery counts as proven (DESIGN §9, §16.8).
//!
//! The node restores aside and collects the facts; this module says what they prove.

use std::{collections::BTreeMap, fmt};

use sovm_object::id::{StorageId, TableId};

/// One table as the live node and the restored one see it at the same checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableRows {
    /// Rows the live node counts.
    pub live: u64,
    /// Rows the restored node counts.
    pub restored: u64,
}

/// A verified range read from both, or the reason why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sample {
    /// The same proven bytes.
    Equal {
        /// The object.
        object: StorageId,
        /// Bytes compared.
        bytes: u64,
    },
    /// It could not be read on the restored side.
    Unreadable {
        /// The object.
        object: StorageId,
        /// Why.
        reason: String,
    },
}

/// What a drill found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrillReport {
    /// When it ended, milliseconds since 1970.
    pub at_ms: u64,
    /// The recovery root it started from.
    pub root: StorageId,
    /// That root's number.
    pub recovery_generation: u64,
    /// Domain digest of the live node at that checkpoint.
    pub live_digest: [u8; 32],
    /// Domain digest after the restore, before the restored machine's own op.
    pub restored_digest: [u8; 32],
    /// Row counts by table.
    pub tables: BTreeMap<TableId, TableRows>,
    /// Random verified ranges.
    pub samples: Vec<Sample>,
    /// Objects the recovered catalogue names.
    pub objects: u64,
    /// Objects whose bytes were nowhere (SOP-227).
    pub missing: Vec<StorageId>,
}

/// One thing a drill found wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// The restored set is another one.
    #[error("the restored domain differs from the live one at the same checkpoint (digests {live} and {restored})")]
    Digest {
        /// First digits of the live digest.
        live: String,
        /// First digits of the restored digest.
        restored: String,
    },
    /// A table has another number of rows.
    #[error("table {} has {} rows live and {} restored", table.fmt_short(), rows.live, rows.restored)]
    Rows {
        /// The table.
        table: TableId,
        /// Both counts.
        rows: TableRows,
    },
    /// A sample could not be read.
    #[error("object {} could not be read after the restore: {reason}", object.fmt_short())]
    Sample {
        /// The object.
        object: StorageId,
        /// Why.
        reason: String,
    },
    /// Bytes are nowhere: recovery works, but is not complete.
    #[error("{missing} of {objects} objects have their bytes on no replica that was reached")]
    Missing {
        /// How many.
        missing: usize,
        /// Of how many.
        objects: u64,
    },
    /// Nothing was compared, so nothing is proven.
    #[error("no range was sampled although there are {0} objects")]
    NothingSampled(u64),
}

impl DrillReport {
    /// Everything wrong, worst first. Empty means proven.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.live_digest != self.restored_digest {
            let (live, restored) = (short(&self.live_digest), short(&self.restored_digest));
            findings.push(Finding::Digest { live, restored });
        }
        let differ = self.tables.iter().filter(|(_, rows)| rows.live != rows.restored);
        findings.extend(differ.map(|(table, rows)| Finding::Rows {
            table: *table,
            rows: *rows,
        }));
        findings.extend(self.samples.iter().filter_map(|sample| match sample {
            Sample::Equal { .. } => None,
            Sample::Unreadable { object, reason } => Some(Finding::Sample {
                object: *object,
                reason: reason.clone(),
            }),
        }));
        if !self.missing.is_empty() {
            findings.push(Finding::Missing {
                missing: self.missing.len(),
                objects: self.objects,
            });
        }
        if self.samples.is_empty() && self.objects > self.missing.len() as u64 {
            findings.push(Finding::NothingSampled(self.objects));
        }
        findings
    }

    /// Whether recovery is proven: everything compared is equal and nothing is missing.
    pub fn is_proven(&self) -> bool {
        self.findings().is_empty()
    }

    /// Bytes that were compared.
    pub fn sampled_bytes(&self) -> u64 {
        self.samples
            .iter()
            .map(|s| if let Sample::Equal { bytes, .. } = s { *bytes } else { 0 })
            .sum()
    }
}

impl fmt::Display for DrillReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (objects, missing) = (self.objects, self.missing.len());
        let verdict = if self.is_proven() { "proven" } else { "NOT proven" };
        write!(
            f,
            "recovery {verdict} from root {} (number {}): {objects} objects, {missing} missing, {} tables, {} ranges sampled",
            self.root.fmt_short(),
            self.recovery_generation,
            self.tables.len(),
            self.samples.len()
        )
    }
}

fn short(digest: &[u8; 32]) -> String {
    StorageId::from_bytes(*digest).fmt_short()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> DrillReport {
        let object = StorageId::from_bytes([3; 32]);
        DrillReport {
            at_ms: 1,
            root: StorageId::from_bytes([1; 32]),
            recovery_generation: 4,
            live_digest: [2; 32],
            restored_digest: [2; 32],
            tables: [(TableId::from_bytes([5; 16]), TableRows { live: 10, restored: 10 })].into(),
            samples: vec![Sample::Equal { object, bytes: 100 }],
            objects: 1,
            missing: vec![],
        }
    }

    #[test]
    fn everything_equal_is_proven() {
        assert!(good().is_proven());
        assert_eq!(good().sampled_bytes(), 100);
        assert!(
            good()
                .to_string()
                .starts_with("recovery proven from root 0101010101 (number 4): 1 objects, 0 missing")
        );
    }

    /// lessons.md: whatever is called recovery passes the drill; each way to fail is its own finding.
    #[test]
    fn each_difference_is_a_finding() {
        let object = StorageId::from_bytes([3; 32]);
        let bad = [
            DrillReport {
                restored_digest: [9; 32],
                ..good()
            },
            DrillReport {
                tables: [(TableId::from_bytes([5; 16]), TableRows { live: 10, restored: 9 })].into(),
                ..good()
            },
            DrillReport {
                samples: vec![Sample::Unreadable {
                    object,
                    reason: "tag".into(),
                }],
                ..good()
            },
            DrillReport {
                missing: vec![object],
                objects: 2,
                ..good()
            },
            DrillReport {
                samples: vec![],
                ..good()
            },
        ];
        for report in bad {
            assert_eq!(report.findings().len(), 1, "{report}");
            assert!(report.to_string().contains("NOT proven"));
        }
        let empty = DrillReport {
            samples: vec![],
            objects: 0,
            tables: BTreeMap::new(),
            ..good()
        };
        assert!(empty.is_proven(), "an empty domain has nothing to sample");
    }
}
