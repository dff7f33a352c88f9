//! Texts that are compared with UUIDs. The engine has no common type for sixteen bytes and a text and would refuse the
//! statement, so a text literal beside a UUID is read as one before types are looked at.

use datafusion::{
    arrow::datatypes::DataType,
    common::{
        DFSchema, Result, ScalarValue,
        tree_node::{Transformed, TreeNode as _},
    },
    logical_expr::{
        Expr, ExprSchemable as _, LogicalPlan,
        expr::{Between, InList},
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr},
        utils::merge_schema,
    },
};

use super::scan::external;
use crate::{
    error::{ApiError, ErrorKind},
    ingest::parse_uuid,
};

const UUID: DataType = DataType::FixedSizeBinary(16);

/// Reads the literal of a comparison.
#[derive(Debug)]
pub(super) struct UuidLiterals;

impl ExprPlanner for UuidLiterals {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if is_uuid(&expr.left, schema) {
            expr.right = read(expr.right)?;
        } else if is_uuid(&expr.right, schema) {
            expr.left = read(expr.left)?;
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// Reads the literals of `IN` lists and of `BETWEEN`, which the planner shows to nobody.
pub(super) fn read_in_lists(plan: LogicalPlan) -> Result<LogicalPlan> {
    let read_plan = |plan: LogicalPlan| {
        let schema = merge_schema(&plan.inputs());
        plan.map_expressions(|expr| expr.transform(|expr| read_list(expr, &schema)))
    };
    Ok(plan.transform_up_with_subqueries(read_plan)?.data)
}

fn read_list(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::InList(InList { expr, list, negated }) if is_uuid(&expr, schema) => {
            let list = list.into_iter().map(read).collect::<Result<_>>()?;
            Ok(Transformed::yes(Expr::InList(InList { expr, list, negated })))
        }
        Expr::Between(between) if is_uuid(&between.expr, schema) => Ok(Transformed::yes(Expr::Between(Between {
            low: Box::new(read(*between.low)?),
            high: Box::new(read(*between.high)?),
            ..between
        }))),
        other => Ok(Transformed::no(other)),
    }
}

fn is_uuid(expr: &Expr, schema: &DFSchema) -> bool {
    !matches!(expr, Expr::Literal(..)) && expr.get_type(schema).is_ok_and(|found| found == UUID)
}

fn read(expr: Expr) -> Result<Expr> {
    let Expr::Literal(value, metadata) = &expr else {
        return Ok(expr);
    };
    let Some(Some(text)) = value.try_as_str() else {
        return Ok(expr);
    };
    let Some(bytes) = parse_uuid(text) else {
        return Err(external(
            ApiError::new(
                ErrorKind::BadInput,
                format!("{text:?} is compared with a UUID and is none"),
            )
            .safe("nothing was run")
            .next("write it as '01234567-89ab-cdef-0123-456789abcdef'"),
        ));
    };
    Ok(Expr::Literal(
        ScalarValue::FixedSizeBinary(16, Some(bytes.to_vec())),
        metadata.clone(),
    ))
}
