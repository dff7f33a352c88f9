//! The last look before a manifest is signed: does it say what is in the object? (SOP-185)
//!
//! The sealed bytes are opened with the key as any reader would, and what the footer says of them is held against the
//! statement. A writer's bug ends here, as an error, and not as rows that pruning hides from everybody.

use sovm_object::{
    pme::{Footer, Sealed},
    record::ColumnStats,
    secret::Dek,
    types::{Column, ColumnType},
    verified::MemoryObject,
};

use super::convert::chain;
use crate::{error::ApiError, query::row_group_statistics};

/// Footers cut long bounds their own way; from this length on they are not compared.
const COMPARED_BOUND_BYTES: usize = 32;

/// Compares rows, nulls and bounds.
pub(super) fn check(
    sealed: &Sealed,
    dek: &Dek,
    rows: u64,
    statistics: &[ColumnStats],
    columns: &[Column],
) -> Result<(), ApiError> {
    let bug = |what: String| ApiError::bug(format_args!("an object of our own is not what it should be: {what}"));
    let object = MemoryObject::verify(sealed.storage_id, sealed.bytes.clone()).map_err(|error| bug(chain(&error)))?;
    let footer = Footer::open_whole(&object, dek).map_err(|error| bug(chain(&error)))?;
    let written = (0..footer.row_groups())
        .map(|group| footer.claimed_rows(group))
        .fold(0, u64::saturating_add);
    if written != rows || sealed.row_count != rows {
        return Err(bug(format!("{written} rows were written and {rows} stated")));
    }
    for stated in statistics {
        let Some(column) = columns.iter().find(|column| column.field_id == stated.field_id) else {
            return Err(bug(format!("column {} is stated and not there", stated.field_id)));
        };
        // What the footer does not say cannot be compared.
        let groups: Option<Vec<ColumnStats>> =
            row_group_statistics(&footer, column).and_then(|groups| groups.into_iter().collect());
        let Some(groups) = groups else { continue };
        let nulls: u64 = groups.iter().map(|group| group.null_count).sum();
        let fits = nulls == stated.null_count
            && same_bound(
                column.ty,
                groups.iter().filter_map(|group| group.min.as_ref()).min(),
                &stated.min,
            )
            && same_bound(
                column.ty,
                groups.iter().filter_map(|group| group.max.as_ref()).max(),
                &stated.max,
            );
        if !fits {
            return Err(bug(format!("the statement about column {} is wrong", column.name)));
        }
    }
    Ok(())
}

/// Whether a bound of the footer and one of the statement are the same, where both are exact.
fn same_bound(ty: ColumnType, written: Option<&Vec<u8>>, stated: &Option<Vec<u8>>) -> bool {
    match (written, stated) {
        // Zeros and NaN have conventions of their own in both.
        _ if matches!(ty, ColumnType::Float32 | ColumnType::Float64) => true,
        (Some(written), Some(stated)) if written.len().max(stated.len()) > COMPARED_BOUND_BYTES => true,
        (Some(written), Some(stated)) => written == stated,
        // A footer may leave bounds out; a statement without one excludes nothing.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use sovm_object::{
        id::KeyRef,
        key::Value,
        pme::{EncodeOptions, Encoded, RandomNonces},
        stats::StatsBuilder,
        types::schema_of_columns,
    };

    use super::*;

    /// SOP-185: a statement that does not fit the rows written is caught before it is signed.
    #[test]
    fn a_wrong_statement_is_caught() {
        let columns = [
            Column::new(1, "n", ColumnType::Int64, true),
            Column::new(2, "s", ColumnType::Text, true),
        ];
        let schema = Arc::new(schema_of_columns(&columns).unwrap());
        let long = "x".repeat(100);
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(5), None, Some(9)])),
            Arc::new(StringArray::from(vec![Some("b"), Some("a"), Some(long.as_str())])),
        ];
        let batch = RecordBatch::try_new(schema.clone(), arrays).unwrap();
        let dek = Dek::from_bytes([7; 32]);
        let sealed = Encoded::new(schema, [&batch], EncodeOptions::default())
            .unwrap()
            .encrypt(&dek, &mut RandomNonces::default())
            .unwrap()
            .with_key_ref(KeyRef::from_bytes([1; 16]))
            .pad()
            .unwrap()
            .seal()
            .unwrap();
        let mut builder = StatsBuilder::new(&[&columns[0], &columns[1]]).unwrap();
        builder.update(&batch).unwrap();
        let right = builder.finish();
        check(&sealed, &dek, 3, &right, &columns).unwrap();

        assert!(check(&sealed, &dek, 2, &right, &columns).is_err());
        let wrong = |change: &dyn Fn(&mut ColumnStats)| {
            let mut wrong = right.clone();
            change(&mut wrong[0]);
            check(&sealed, &dek, 3, &wrong, &columns)
        };
        assert!(wrong(&|stats| stats.null_count = 0).is_err());
        assert!(wrong(&|stats| stats.max = Some(Value::Int(8).to_bytes())).is_err());
        assert!(wrong(&|stats| stats.min = Some(Value::Int(6).to_bytes())).is_err());
        assert!(wrong(&|stats| stats.field_id = 3).is_err());
        assert!(check(&sealed, &Dek::from_bytes([8; 32]), 3, &right, &columns).is_err());
    }
}
