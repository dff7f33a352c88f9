//! From SQL filters to "may this object, or this row group, hold a row that fits?".
//!
//! A [`Condition`] is a weakening of the filters: whatever cannot be translated may match. So statistics skip work and
//! never answer (SOP §12.4), and every filter is evaluated again over the rows (SOP-101).

use datafusion::{
    common::ScalarValue,
    logical_expr::{Between, BinaryExpr, Expr, Like, Operator, expr::InList},
};
use sovm_object::{
    key::{ColumnEncoder, Value, decode_bound},
    record::{ColumnStats, TimeRange},
    stats::{Comparison, Predicate, may_match, may_match_time},
    types::{Column, ColumnNode, ColumnType},
};

/// Longest `IN` list that is looked at; a longer one prunes nothing worth its cost.
const MAX_IN_LIST: usize = 1_000;

/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// What must be possible for a row to pass the filters.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    /// Every part.
    All(Vec<Self>),
    /// At least one part. None at all: no row passes.
    Any(Vec<Self>),
    /// A test on one column.
    Column { field_id: i32, test: Test },
    /// Not understood: any row may pass.
    Unknown,
}

/// A test on one column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    /// Against a constant: canonical key bytes, and the instant they mean where they mean one.
    Compare {
        comparison: Comparison,
        key: Vec<u8>,
        instant_us: Option<i64>,
    },
    IsNull,
    IsNotNull,
}

/// What is stated about the rows of one object or row group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stated<'a> {
    pub(super) rows: u64,
    /// Sorted by field id.
    pub(super) columns: &'a [ColumnStats],
    /// The time column and its range.
    pub(super) time: Option<(i32, &'a TimeRange)>,
}

impl Condition {
    /// The condition that all filters together make. `columns` are those of the table, by name.
    pub(super) fn of_filters(filters: &[Expr], columns: &[Column]) -> Self {
        Self::All(filters.iter().map(|filter| of_expr(filter, columns)).collect())
    }

    /// Adds the field ids of the columns it tests.
    pub(super) fn columns(&self, ids: &mut Vec<i32>) {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.columns(ids)),
            Self::Column { field_id, .. } => ids.push(*field_id),
            Self::Unknown => {}
        }
    }

    /// Whether a row that fits is possible.
    pub(super) fn may_match(&self, stated: Stated<'_>) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.may_match(stated)),
            Self::Any(parts) => parts.iter().any(|part| part.may_match(stated)),
            Self::Column { field_id, test } => test.may_match(*field_id, stated),
            Self::Unknown => true,
        }
    }
}

impl Test {
    fn may_match(&self, field_id: i32, stated: Stated<'_>) -> bool {
        let found = stated.columns.binary_search_by_key(&field_id, |stats| stats.field_id);
        let stats = found.ok().map(|index| &stated.columns[index]);
        match self {
            Self::IsNull => may_match(stats, stated.rows, Predicate::IsNull),
            Self::IsNotNull => may_match(stats, stated.rows, Predicate::IsNotNull),
            Self::Compare {
                comparison,
                key,
                instant_us,
            } => {
                let by_time = match (stated.time, instant_us) {
                    (Some((time, range)), Some(instant)) if time == field_id => {
                        may_match_time(Some(range), *comparison, *instant)
                    }
                    _ => true,
                };
                by_time && may_match(stats, stated.rows, Predicate::Compare(*comparison, key))
            }
        }
    }
}

fn of_expr(expr: &Expr, columns: &[Column]) -> Condition {
    match expr {
        Expr::Alias(alias) => of_expr(&alias.expr, columns),
        Expr::BinaryExpr(binary) => of_binary(binary, columns),
        Expr::IsNull(inner) => on_column(inner, columns, Test::IsNull),
        Expr::IsNotNull(inner) => on_column(inner, columns, Test::IsNotNull),
        Expr::Column(_) | Expr::IsTrue(_) | Expr::IsFalse(_) | Expr::Not(_) => of_bool(expr, columns),
        Expr::InList(list) => of_list(list, columns),
        Expr::Between(between) => of_between(between, columns),
        Expr::Like(like) => of_like(like, columns),
        Expr::Literal(ScalarValue::Boolean(Some(true)), _) => Condition::All(vec![]),
        Expr::Literal(ScalarValue::Boolean(_) | ScalarValue::Null, _) => Condition::Any(vec![]),
        _ => Condition::Unknown,
    }
}

fn of_binary(binary: &BinaryExpr, columns: &[Column]) -> Condition {
    let parts = || vec![of_expr(&binary.left, columns), of_expr(&binary.right, columns)];
    let comparison = match binary.op {
        Operator::And => return Condition::All(parts()),
        Operator::Or => return Condition::Any(parts()),
        Operator::Eq => Comparison::Eq,
        Operator::NotEq => Comparison::NotEq,
        Operator::Lt => Comparison::Lt,
        Operator::LtEq => Comparison::LtEq,
        Operator::Gt => Comparison::Gt,
        Operator::GtEq => Comparison::GtEq,
        _ => return Condition::Unknown,
    };
    match (binary.left.as_ref(), binary.right.as_ref()) {
        (column, Expr::Literal(constant, _)) => compare(column, comparison, constant, columns),
        (Expr::Literal(constant, _), column) => compare(column, turned(comparison), constant, columns),
        _ => Condition::Unknown,
    }
}

/// The comparison with its sides exchanged.
const fn turned(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Lt => Comparison::Gt,
        Comparison::LtEq => Comparison::GtEq,
        Comparison::Gt => Comparison::Lt,
        Comparison::GtEq => Comparison::LtEq,
        same => same,
    }
}

fn compare(column: &Expr, comparison: Comparison, constant: &ScalarValue, columns: &[Column]) -> Condition {
    // No comparison with null is true.
    if constant.is_null() {
        return Condition::Any(vec![]);
    }
    find(column, columns)
        .and_then(|column| test(column, comparison, constant))
        .unwrap_or(Condition::Unknown)
}

/// `None` when the constant is of another type than the column: then nothing is decided by bytes.
fn test(column: &Column, comparison: Comparison, constant: &ScalarValue) -> Option<Condition> {
    let array = constant.to_array().ok()?;
    let node = ColumnNode {
        column,
        children: Vec::new(),
    };
    let mut key = Vec::new();
    ColumnEncoder::new(&node, array.as_ref()).ok()?.encode(0, &mut key);
    let instant_us = instant(column.ty, &key);
    Some(Condition::Column {
        field_id: column.field_id,
        test: Test::Compare {
            comparison,
            key,
            instant_us,
        },
    })
}

fn instant(ty: ColumnType, key: &[u8]) -> Option<i64> {
    match decode_bound(ty, key).ok()? {
        Value::Timestamp(micros) => Some(micros),
        Value::Date(days) => i64::from(days).checked_mul(DAY_US),
        _ => None,
    }
}

fn find<'a>(expr: &Expr, columns: &'a [Column]) -> Option<&'a Column> {
    let name = match expr {
        Expr::Column(column) => &column.name,
        Expr::Alias(alias) => return find(&alias.expr, columns),
        _ => return None,
    };
    columns
        .iter()
        .find(|column| column.parent.is_none() && column.name == *name)
}

fn on_column(expr: &Expr, columns: &[Column], test: Test) -> Condition {
    find(expr, columns).map_or(Condition::Unknown, |column| Condition::Column {
        field_id: column.field_id,
        test,
    })
}

/// A boolean column that stands for itself.
fn of_bool(expr: &Expr, columns: &[Column]) -> Condition {
    let (column, wanted) = match expr {
        Expr::IsTrue(inner) => (inner.as_ref(), true),
        Expr::Not(inner) | Expr::IsFalse(inner) => (inner.as_ref(), false),
        column => (column, true),
    };
    compare(column, Comparison::Eq, &ScalarValue::Boolean(Some(wanted)), columns)
}

fn of_list(list: &InList, columns: &[Column]) -> Condition {
    if list.list.len() > MAX_IN_LIST {
        return Condition::Unknown;
    }
    let comparison = if list.negated {
        Comparison::NotEq
    } else {
        Comparison::Eq
    };
    let parts = list.list.iter().map(|item| match item {
        Expr::Literal(constant, _) => compare(&list.expr, comparison, constant, columns),
        _ => Condition::Unknown,
    });
    if list.negated {
        Condition::All(parts.collect())
    } else {
        Condition::Any(parts.collect())
    }
}

fn of_between(between: &Between, columns: &[Column]) -> Condition {
    let (Expr::Literal(low, _), Expr::Literal(high, _)) = (between.low.as_ref(), between.high.as_ref()) else {
        return Condition::Unknown;
    };
    let test = |comparison, constant| compare(&between.expr, comparison, constant, columns);
    if between.negated {
        Condition::Any(vec![test(Comparison::Lt, low), test(Comparison::Gt, high)])
    } else {
        Condition::All(vec![test(Comparison::GtEq, low), test(Comparison::LtEq, high)])
    }
}

/// `LIKE 'begin%'` is a range of texts.
fn of_like(like: &Like, columns: &[Column]) -> Condition {
    let pattern = match like.pattern.as_ref() {
        Expr::Literal(constant, _) => constant.try_as_str().flatten(),
        _ => None,
    };
    let Some(pattern) = pattern.filter(|_| !like.negated && !like.case_insensitive && like.escape_char.is_none())
    else {
        return Condition::Unknown;
    };
    // A backslash may be an escape; what stands before it is certain.
    let certain = pattern.find(['%', '_', '\\']).map_or(pattern, |end| &pattern[..end]);
    if certain.is_empty() {
        return Condition::Unknown;
    }
    let test = |comparison, text: String| compare(&like.expr, comparison, &ScalarValue::Utf8(Some(text)), columns);
    let mut parts = vec![test(Comparison::GtEq, certain.to_owned())];
    parts.extend(successor(certain).map(|text| test(Comparison::Lt, text)));
    Condition::All(parts)
}

/// The first text above every text that begins so.
fn successor(prefix: &str) -> Option<String> {
    let mut begin = prefix.to_owned();
    while let Some(last) = begin.pop() {
        let next = match last {
            // The code points between are no characters.
            '\u{d7ff}' => Some('\u{e000}'),
            other => char::from_u32(u32::from(other) + 1),
        };
        if let Some(next) = next {
            begin.push(next);
            return Some(begin);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;

    fn columns() -> Vec<Column> {
        vec![
            Column::new(1, "n", ColumnType::Int64, true),
            Column::new(2, "s", ColumnType::Text, true),
            Column::new(3, "b", ColumnType::Bool, true),
            Column::new(4, "t", ColumnType::TimestampUs, true),
        ]
    }

    fn stats(field_id: i32, min: Value, max: Value) -> ColumnStats {
        ColumnStats {
            field_id,
            min: Some(min.to_bytes()),
            max: Some(max.to_bytes()),
            null_count: 0,
            min_exact: true,
            max_exact: true,
            has_nan: false,
        }
    }

    fn may(filter: Expr) -> bool {
        let stated = [
            stats(1, Value::Int(10), Value::Int(20)),
            stats(2, Value::Text("ba".into()), Value::Text("bz".into())),
            stats(3, Value::Bool(true), Value::Bool(true)),
        ];
        let time = TimeRange {
            min: 1_000_000,
            max: 2_000_000,
            has_null_time: false,
        };
        Condition::of_filters(&[filter], &columns()).may_match(Stated {
            rows: 5,
            columns: &stated,
            time: Some((4, &time)),
        })
    }

    fn at(micros: i64) -> Expr {
        Expr::Literal(
            ScalarValue::TimestampMicrosecond(Some(micros), Some("UTC".into())),
            None,
        )
    }

    #[test]
    fn filters_that_exclude() {
        for filter in [
            col("n").gt(lit(20_i64)),
            lit(20_i64).lt(col("n")),
            col("n").eq(lit(9_i64)).or(col("n").eq(lit(21_i64))),
            col("n").eq(lit(15_i64)).and(col("s").eq(lit("c"))),
            col("n").in_list(vec![lit(1_i64), lit(2_i64)], false),
            col("n").between(lit(21_i64), lit(30_i64)),
            col("n").not_between(lit(5_i64), lit(25_i64)),
            col("n").is_null(),
            col("n").eq(Expr::Literal(ScalarValue::Int64(None), None)),
            col("s").like(lit("a%")),
            col("s").like(lit("c_x")),
            Expr::Not(Box::new(col("b"))),
            Expr::IsFalse(Box::new(col("b"))),
            col("t").gt(at(2_000_000)),
            lit(false),
        ] {
            assert!(!may(filter.clone()), "{filter}");
        }
    }

    #[test]
    fn filters_that_do_not() {
        for filter in [
            col("n").gt(lit(19_i64)),
            col("n").gt(lit(20_i32)),
            col("n").eq(lit(9_i64)).or(col("s").eq(lit("bb"))),
            col("n").in_list(vec![lit(1_i64), lit(10_i64)], false),
            col("n").in_list(vec![lit(10_i64), lit(20_i64)], true),
            col("n").in_list(vec![lit(1_i64), col("n")], false),
            col("n").not_between(lit(5_i64), lit(15_i64)),
            col("s").like(lit("b%")),
            col("s").like(lit("%a")),
            col("s").ilike(lit("A%")),
            col("s").not_like(lit("b%")),
            col("b"),
            col("t").gt_eq(at(2_000_000)),
            col("unknown").eq(lit(1_i64)),
            (col("n") + lit(1_i64)).eq(lit(0_i64)),
            Expr::Not(Box::new(col("n").eq(lit(9_i64)))),
            lit(true),
        ] {
            assert!(may(filter.clone()), "{filter}");
        }
    }

    #[test]
    fn successors() {
        assert_eq!(successor("ab").as_deref(), Some("ac"));
        assert_eq!(successor("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(successor("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(successor("\u{10ffff}"), None);
    }
}
