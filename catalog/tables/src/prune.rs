//! Which objects a query can leave unread (SOP §12.4). Pure: manifests in, a decision out.
//!
//! Statistics may skip work and never answer. Whatever is missing, unknown or of another type excludes nothing (SOP-183), and with
//! several manifests for one object all must exclude it, so that nobody hides another's rows with false bounds (SOP-160).

use sovm_object::{
    record::ObjectManifest,
    stats::{Comparison, Predicate, may_match, may_match_time},
};

use crate::view::ObjectView;

/// A condition on one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// A column against a constant in canonical key bytes of the column's type.
    Compare {
        /// The column.
        field_id: i32,
        /// How.
        comparison: Comparison,
        /// With what.
        value: Vec<u8>,
    },
    /// The column has no value.
    IsNull {
        /// The column.
        field_id: i32,
    },
    /// The column has a value.
    IsNotNull {
        /// The column.
        field_id: i32,
    },
    /// A partition column is exactly this, in Delta's string form; `None` is null.
    PartitionIs {
        /// Physical name of the column.
        column: String,
        /// The value.
        value: Option<String>,
    },
    /// A partition column has a value, and not this one.
    PartitionIsNot {
        /// Physical name of the column.
        column: String,
        /// The value.
        value: String,
    },
    /// The table's time column against an instant, microseconds UTC.
    Time {
        /// How.
        comparison: Comparison,
        /// With what.
        instant_us: i64,
    },
}

/// All of these must hold, and each holds when one of its tests does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter(pub Vec<Vec<Test>>);

impl Filter {
    /// Whether an object may hold a row that passes.
    pub fn may_match(&self, object: &ObjectView) -> bool {
        object.manifests.is_empty()
            || object
                .manifests
                .iter()
                .any(|(_, manifest)| self.may_match_manifest(manifest))
    }

    fn may_match_manifest(&self, manifest: &ObjectManifest) -> bool {
        // An empty alternative would be false for every row; nobody means that, so it decides nothing.
        self.0
            .iter()
            .all(|tests| tests.is_empty() || tests.iter().any(|test| test.may_match(manifest)))
    }

    /// Splits objects into those to read and the number of those left unread.
    pub fn select(&self, objects: Vec<ObjectView>) -> (Vec<ObjectView>, usize) {
        let before = objects.len();
        let kept: Vec<_> = objects.into_iter().filter(|object| self.may_match(object)).collect();
        let pruned = before - kept.len();
        (kept, pruned)
    }
}

impl Test {
    fn may_match(&self, manifest: &ObjectManifest) -> bool {
        let column = |field_id: &i32, predicate| {
            let stats = manifest
                .pruning_statistics
                .iter()
                .flatten()
                .find(|stats| stats.field_id == *field_id);
            may_match(stats, manifest.row_count, predicate)
        };
        let partition = |name: &String| manifest.partition_values.as_ref().and_then(|values| values.0.get(name));
        match self {
            Self::Compare {
                field_id,
                comparison,
                value,
            } => column(field_id, Predicate::Compare(*comparison, value)),
            Self::IsNull { field_id } => column(field_id, Predicate::IsNull),
            Self::IsNotNull { field_id } => column(field_id, Predicate::IsNotNull),
            Self::PartitionIs { column, value } => partition(column).is_none_or(|found| found == value),
            Self::PartitionIsNot { column, value } => {
                partition(column).is_none_or(|found| found.as_ref().is_some_and(|found| found != value))
            }
            Self::Time { comparison, instant_us } => {
                may_match_time(manifest.time_range.as_ref(), *comparison, *instant_us)
            }
        }
    }
}

#[cfg(test)]
mod tests;
