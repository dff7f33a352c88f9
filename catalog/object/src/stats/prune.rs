//! The one pruning decision: may an object contain a row that fits?

use super::{ColumnStats, TimeRange};
use crate::key::{Value, tag};

/// How a column's value is compared with a constant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Comparison {
    /// `=`
    Eq,
    /// `<>`
    NotEq,
    /// `<`
    Lt,
    /// `<=`
    LtEq,
    /// `>`
    Gt,
    /// `>=`
    GtEq,
}

/// A condition on one column. `IN` is several `Eq` of which one may match.
#[derive(Clone, Copy, Debug)]
pub enum Predicate<'a> {
    /// Column against a constant in canonical key bytes of the column's type.
    Compare(Comparison, &'a [u8]),
    /// `IS NULL`
    IsNull,
    /// `IS NOT NULL`
    IsNotNull,
}

/// Whether an object of `row_count` rows may hold one that fits. Without statistics it may (SOP-183).
pub fn may_match(stats: Option<&ColumnStats>, row_count: u64, predicate: Predicate<'_>) -> bool {
    let Some(stats) = stats else { return true };
    let all_null = stats.null_count >= row_count;
    let (comparison, value) = match predicate {
        Predicate::IsNull => return stats.null_count > 0,
        Predicate::IsNotNull => return !all_null,
        Predicate::Compare(comparison, value) => (comparison, value),
    };
    // No comparison is true of null (SOP-179).
    if all_null {
        return false;
    }
    let tag = value.first().copied();
    let bounds = [&stats.min, &stats.max];
    // A constant of another type, or none at all, decides nothing.
    if tag.is_none_or(|tag| tag == tag::NULL) || bounds.into_iter().flatten().any(|bound| bound.first().copied() != tag)
    {
        return true;
    }
    let mut comparison = comparison;
    let positive_zero = Value::Float(0.0).to_bytes();
    let mut value = value;
    if tag == Some(tag::FLOAT) {
        match Value::decode_float(value) {
            // How NaN compares differs between engines; nothing is skipped on its account.
            None => return true,
            Some(float) if float.is_nan() => return true,
            // An engine may tell the zeros apart, the bounds do not: each zero stands for both.
            Some(0.0) => {
                value = &positive_zero;
                comparison = match comparison {
                    Comparison::Lt => Comparison::LtEq,
                    Comparison::Gt => Comparison::GtEq,
                    Comparison::NotEq => return true,
                    other => other,
                };
            }
            Some(_) => {}
        }
        // NaN sorts above, below or nowhere, depending on the engine (SOP-180).
        if stats.has_nan && comparison != Comparison::Eq {
            return true;
        }
    }
    let (min, max) = (stats.min.as_deref(), stats.max.as_deref());
    let reaches_down = min.is_none_or(|min| min <= value);
    let reaches_up = max.is_none_or(|max| max >= value);
    match comparison {
        Comparison::Eq => reaches_down && reaches_up,
        Comparison::NotEq => {
            let only_value = stats.min_exact && stats.max_exact && min == Some(value) && max == Some(value);
            !only_value
        }
        Comparison::Lt => min.is_none_or(|min| min < value),
        Comparison::LtEq => reaches_down,
        // A raised upper bound stands above every value, so it may only be compared as "up to".
        Comparison::Gt => max.is_none_or(|max| max > value),
        Comparison::GtEq => reaches_up,
    }
}

/// Whether an object may hold a row whose time fits, in microseconds. A missing range excludes nothing.
pub fn may_match_time(range: Option<&TimeRange>, comparison: Comparison, time: i64) -> bool {
    let Some(range) = range else { return true };
    match comparison {
        Comparison::Eq => (range.min..=range.max).contains(&time),
        Comparison::NotEq => range.min != time || range.max != time,
        Comparison::Lt => range.min < time,
        Comparison::LtEq => range.min <= time,
        Comparison::Gt => range.max > time,
        Comparison::GtEq => range.max >= time,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, StringArray};
    use proptest::prelude::*;

    use super::{super::tests::stats_of, *};
    use crate::types::ColumnType;

    const ALL: [Comparison; 6] = [
        Comparison::Eq,
        Comparison::NotEq,
        Comparison::Lt,
        Comparison::LtEq,
        Comparison::Gt,
        Comparison::GtEq,
    ];

    fn compare<T: PartialOrd>(comparison: Comparison, a: &T, b: &T) -> bool {
        match comparison {
            Comparison::Eq => a == b,
            Comparison::NotEq => a != b,
            Comparison::Lt => a < b,
            Comparison::LtEq => a <= b,
            Comparison::Gt => a > b,
            Comparison::GtEq => a >= b,
        }
    }

    #[test]
    fn objects_outside_are_skipped() {
        let stats = stats_of(
            ColumnType::Int64,
            Arc::new(Int64Array::from(vec![Some(10), Some(20), None])),
        );
        let may = |comparison, value| {
            may_match(
                Some(&stats),
                3,
                Predicate::Compare(comparison, &Value::Int(value).to_bytes()),
            )
        };
        for (comparison, no, yes) in [
            (Comparison::Eq, vec![9, 21], vec![10, 15, 20]),
            (Comparison::Lt, vec![9, 10], vec![11]),
            (Comparison::LtEq, vec![9], vec![10]),
            (Comparison::Gt, vec![20, 21], vec![19]),
            (Comparison::GtEq, vec![21], vec![20]),
            (Comparison::NotEq, vec![], vec![9, 10, 20]),
        ] {
            assert!(no.iter().all(|value| !may(comparison, *value)), "{comparison:?}");
            assert!(yes.iter().all(|value| may(comparison, *value)), "{comparison:?}");
        }
        assert!(may_match(Some(&stats), 3, Predicate::IsNull));
        assert!(may_match(Some(&stats), 3, Predicate::IsNotNull));
        let one = stats_of(ColumnType::Int64, Arc::new(Int64Array::from(vec![7, 7])));
        assert!(!may_match(
            Some(&one),
            2,
            Predicate::Compare(Comparison::NotEq, &Value::Int(7).to_bytes())
        ));
        assert!(!may_match(Some(&one), 2, Predicate::IsNull));
    }

    /// SOP-179: a column of nulls matches IS NULL only.
    #[test]
    fn all_null_matches_is_null_only() {
        let stats = stats_of(ColumnType::Int64, Arc::new(Int64Array::from(vec![None::<i64>, None])));
        for comparison in ALL {
            assert!(!may_match(
                Some(&stats),
                2,
                Predicate::Compare(comparison, &Value::Int(1).to_bytes())
            ));
        }
        assert!(may_match(Some(&stats), 2, Predicate::IsNull));
        assert!(!may_match(Some(&stats), 2, Predicate::IsNotNull));
    }

    /// SOP-183: what is not known excludes nothing.
    #[test]
    fn doubt_never_excludes() {
        let value = Value::Int(1).to_bytes();
        assert!(may_match(None, 1, Predicate::Compare(Comparison::Eq, &value)));
        assert!(may_match_time(None, Comparison::Eq, 1));
        let stats = stats_of(ColumnType::Int64, Arc::new(Int64Array::from(vec![10])));
        for other in [
            Value::UInt(1).to_bytes(),
            Value::Float(1.0).to_bytes(),
            Value::Null.to_bytes(),
            vec![],
        ] {
            assert!(
                may_match(Some(&stats), 1, Predicate::Compare(Comparison::Eq, &other)),
                "{other:?}"
            );
        }
        let boundless = ColumnStats {
            min: None,
            max: None,
            ..stats
        };
        for comparison in ALL {
            assert!(may_match(Some(&boundless), 1, Predicate::Compare(comparison, &value)));
        }
    }

    /// SOP-180: a NaN row is found by whatever an engine may think of NaN.
    #[test]
    fn nan_is_never_lost() {
        let stats = stats_of(ColumnType::Float64, Arc::new(Float64Array::from(vec![1.0, f64::NAN])));
        for comparison in ALL {
            let far = Value::Float(1e9).to_bytes();
            let found = may_match(Some(&stats), 2, Predicate::Compare(comparison, &far));
            assert_eq!(found, comparison != Comparison::Eq, "{comparison:?}");
            assert!(may_match(
                Some(&stats),
                2,
                Predicate::Compare(comparison, &Value::Float(f64::NAN).to_bytes())
            ));
        }
        let only = stats_of(ColumnType::Float64, Arc::new(Float64Array::from(vec![f64::NAN])));
        assert!(may_match(
            Some(&only),
            1,
            Predicate::Compare(Comparison::Gt, &Value::Float(0.5).to_bytes())
        ));
        assert!(may_match(Some(&only), 1, Predicate::IsNotNull));
    }

    /// An engine that tells -0.0 from 0.0 finds its rows too.
    #[test]
    fn zeros_stand_for_each_other() {
        for row in [0.0, -0.0] {
            let stats = stats_of(ColumnType::Float64, Arc::new(Float64Array::from(vec![row])));
            for constant in [0.0, -0.0] {
                for comparison in ALL {
                    let value = Value::Float(constant).to_bytes();
                    assert!(
                        may_match(Some(&stats), 1, Predicate::Compare(comparison, &value)),
                        "{row} {comparison:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn time_bounds_are_inclusive() {
        let range = TimeRange {
            min: 5,
            max: 8,
            has_null_time: true,
        };
        for (comparison, time, expected) in [
            (Comparison::Eq, 4, false),
            (Comparison::Eq, 5, true),
            (Comparison::Eq, 8, true),
            (Comparison::Eq, 9, false),
            (Comparison::Lt, 5, false),
            (Comparison::LtEq, 5, true),
            (Comparison::Gt, 8, false),
            (Comparison::GtEq, 8, true),
            (Comparison::NotEq, 5, true),
        ] {
            assert_eq!(
                may_match_time(Some(&range), comparison, time),
                expected,
                "{comparison:?} {time}"
            );
        }
        let instant = TimeRange {
            min: 5,
            max: 5,
            has_null_time: false,
        };
        assert!(!may_match_time(Some(&instant), Comparison::NotEq, 5));
    }

    proptest! {
        /// SOP-186: an object with a matching row is never skipped, whatever the rows and the constant.
        #[test]
        fn no_matching_row_is_skipped_among_texts(
            rows in prop::collection::vec(prop::option::of("(a{60,70}|b{0,3}|\\x00{0,2}|ä{30,40}|\u{10ffff}{15,18})[a-c]{0,2}"), 1..6),
            constant in "(a{60,70}|b{0,3}|ä{30,40}|\u{10ffff}{15,18})[a-c]{0,2}",
        ) {
            let stats = stats_of(ColumnType::Text, Arc::new(StringArray::from(rows.clone())));
            let bytes = Value::Text(constant.clone()).to_bytes();
            for comparison in ALL {
                if rows.iter().flatten().any(|row| compare(comparison, row, &constant)) {
                    prop_assert!(may_match(Some(&stats), rows.len() as u64, Predicate::Compare(comparison, &bytes)));
                }
            }
        }

        /// The same for floats, by IEEE order and by total order.
        #[test]
        fn no_matching_row_is_skipped_among_floats(
            rows in prop::collection::vec(prop_oneof![any::<f64>(), Just(0.0), Just(-0.0), Just(f64::NAN)], 1..6),
            constant in prop_oneof![any::<f64>(), Just(0.0), Just(-0.0)],
        ) {
            let stats = stats_of(ColumnType::Float64, Arc::new(Float64Array::from(rows.clone())));
            let bytes = Value::Float(constant).to_bytes();
            let total = |float: f64| {
                let bits = float.to_bits() as i64;
                bits ^ (((bits >> 63) as u64) >> 1) as i64
            };
            for comparison in ALL {
                let ieee = rows.iter().any(|row| compare(comparison, row, &constant));
                let total_order = rows.iter().any(|row| compare(comparison, &total(*row), &total(constant)));
                if ieee || total_order {
                    prop_assert!(may_match(Some(&stats), rows.len() as u64, Predicate::Compare(comparison, &bytes)));
                }
            }
        }
    }
}
