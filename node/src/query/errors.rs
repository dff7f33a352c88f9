//! What the SQL engine's errors mean for the person who wrote the statement.

use datafusion::{common::SchemaError, error::DataFusionError};

use super::statement::{close_names, quoted};
use crate::{
    config::format_bytes,
    error::{ApiError, ErrorKind},
};

/// Column names listed in an error.
const LISTED_COLUMNS: usize = 20;

/// One of our own errors comes out as it went in; the engine's are put into words.
pub(super) fn translate(error: &DataFusionError, memory_bytes: u64) -> ApiError {
    if let Some(ours) = find_ours(error) {
        return ours;
    }
    let root = error.find_root();
    let text = clean(&root.strip_backtrace());
    match root {
        DataFusionError::SchemaError(schema, _) => of_schema(schema, text),
        DataFusionError::ResourcesExhausted(_) => ApiError::new(
            ErrorKind::Failed,
            format!("the query needs more than {} of memory", format_bytes(memory_bytes)),
        )
        .safe("nothing was written to disk; the tables are unchanged")
        .next("give more with --memory SIZE, or select fewer rows or columns"),
        DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::NotImplemented(_)
        | DataFusionError::Configuration(_) => {
            ApiError::new(ErrorKind::BadInput, format!("the statement cannot be run: {text}")).safe("nothing was run")
        }
        DataFusionError::Internal(_) => ApiError::bug(text),
        // Overflow, division by zero, a text that is no number: in the data or in the statement.
        _ => ApiError::new(ErrorKind::Failed, format!("the query failed: {text}")).safe("the tables are unchanged"),
    }
}

/// Our own error anywhere inside.
fn find_ours(error: &DataFusionError) -> Option<ApiError> {
    let mut current: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = current {
        if let Some(ours) = error.downcast_ref::<ApiError>() {
            return Some(ours.clone());
        }
        current = match error.downcast_ref::<DataFusionError>() {
            Some(DataFusionError::External(inner)) => Some(inner.as_ref()),
            Some(DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner)) => Some(inner.as_ref()),
            Some(DataFusionError::Shared(inner)) => Some(inner.as_ref()),
            Some(DataFusionError::ArrowError(inner, _)) => match inner.as_ref() {
                arrow::error::ArrowError::ExternalError(inner) => Some(inner.as_ref()),
                _ => None,
            },
            _ => error.source(),
        };
    }
    None
}

fn of_schema(error: &SchemaError, text: String) -> ApiError {
    let SchemaError::FieldNotFound { field, valid_fields } = error else {
        return ApiError::new(ErrorKind::BadInput, format!("the statement cannot be run: {text}"))
            .safe("nothing was run");
    };
    let mut names: Vec<String> = valid_fields.iter().map(|column| quoted(&column.name)).collect();
    names.dedup();
    let error =
        ApiError::new(ErrorKind::NotFound, format!("there is no column {}", field.name())).safe("nothing was run");
    let close = close_names(field.name(), &names);
    if !close.is_empty() {
        return error.next(format!("did you mean {}?", close.join(" or ")));
    }
    if names.is_empty() {
        return error;
    }
    let more = if names.len() > LISTED_COLUMNS { ", …" } else { "" };
    names.truncate(LISTED_COLUMNS);
    error.next(format!("the columns are {}{more}", names.join(", ")))
}

/// The engine's own words, without its prefixes.
fn clean(text: &str) -> String {
    const PREFIXES: [&str; 8] = [
        "Error during planning: ",
        "Execution error: ",
        "SQL error: ",
        "Schema error: ",
        "Arrow error: ",
        "Optimizer rule ",
        "Invalid or Unsupported Configuration: ",
        "This feature is not implemented: ",
    ];
    let mut rest = text.trim();
    while let Some(shorter) = PREFIXES.iter().find_map(|prefix| rest.strip_prefix(prefix)) {
        rest = shorter;
    }
    rest.to_owned()
}
