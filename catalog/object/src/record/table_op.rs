//! TableOp: one change of a table's columns (SOP part 2.4).
//!
//! An op says what is to change and which ops its author had seen; [`crate::schema`] says what a set of them comes to.

use super::{body, check_name, check_ops_seen, check_sorted, table::FIRST_RESERVED_FIELD_ID};
use crate::{
    cbor::{DecodeError, Decoder, Encoder, Field},
    hlc::Hlc,
    id::{DomainId, MeshId, RecordId, SiteId, TableId},
    payload,
    types::ColumnType,
};

/// Most ops an author names as the newest it had seen.
pub const MAX_PARENTS: usize = 16;

/// Ids below are left to founding records, which number their columns from 1.
pub const FIRST_ADDED_FIELD_ID: i32 = 1_025;

/// What an op changes. Only top-level columns change; nested ones stay as the founding record made them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnChange {
    /// A new column without children, nullable, behind all others. Its id follows from the op ([`TableOp::added_field_id`]).
    Add {
        /// Physical name, and the name shown until it is renamed.
        name: String,
        /// What it holds.
        ty: ColumnType,
    },
    /// The column is shown and written no more. Its id stays taken for ever (SOP-15).
    Drop {
        /// The column.
        field_id: i32,
    },
    /// The column is shown under another name.
    Rename {
        /// The column.
        field_id: i32,
        /// The name.
        name: String,
    },
    /// The column takes values of a wider type.
    Widen {
        /// The column.
        field_id: i32,
        /// The wider type.
        ty: ColumnType,
    },
    /// Changes nothing: makes one version of several that were made apart.
    Join,
}

impl Field for ColumnType {
    fn encode(&self, e: &mut Encoder) {
        e.text(&self.to_string());
    }
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        // Another spelling of the same type does not encode to the same bytes, and is refused for that.
        d.text()?.parse().map_err(|_| DecodeError::Malformed)
    }
}

impl Field for ColumnChange {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Add { name, ty } => e.array(3).uint(1).text(name).field(ty),
            Self::Drop { field_id } => e.array(2).uint(2).field(field_id),
            Self::Rename { field_id, name } => e.array(3).uint(3).field(field_id).text(name),
            Self::Widen { field_id, ty } => e.array(3).uint(4).field(field_id).field(ty),
            Self::Join => e.array(1).uint(5),
        };
    }
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let items = d.array()?;
        Ok(match (d.uint()?, items) {
            (1, 3) => Self::Add {
                name: d.field()?,
                ty: d.field()?,
            },
            (2, 2) => Self::Drop { field_id: d.field()? },
            (3, 3) => Self::Rename {
                field_id: d.field()?,
                name: d.field()?,
            },
            (4, 3) => Self::Widen {
                field_id: d.field()?,
                ty: d.field()?,
            },
            (5, 1) => Self::Join,
            _ => return Err(DecodeError::Malformed),
        })
    }
}

payload! {
    /// A change of a table's columns.
    pub struct TableOp {
        /// The mesh.
        2 mesh_id: MeshId,
        /// The table.
        3 table_id: TableId,
        /// The table's domain.
        4 domain_id: DomainId,
        /// What changes.
        5 change: ColumnChange,
        /// The newest ops of this table the issuer had seen.
        6 parents: Vec<RecordId>,
        /// Who changes it.
        7 issuer: SiteId,
        /// The issuer's counter.
        8 seq: u64,
        /// Heads of the membership ops the issuer had seen.
        9 ops_seen: Vec<RecordId>,
        /// When.
        10 hlc: Hlc,
    }
    check check_op;
}
body!(TableOp, "sovm/table-op-v1", author: issuer, domain: |b| Some(b.domain_id));

fn check_op(op: &TableOp) -> Result<(), DecodeError> {
    let out_of_range = Err(DecodeError::OutOfRange(5));
    match &op.change {
        ColumnChange::Add { name, .. } | ColumnChange::Rename { name, .. } => check_name(5, name)?,
        ColumnChange::Drop { .. } | ColumnChange::Widen { .. } | ColumnChange::Join => {}
    }
    match &op.change {
        ColumnChange::Add { ty, .. } | ColumnChange::Widen { ty, .. } if ty.is_nested() => return out_of_range,
        ColumnChange::Drop { field_id }
        | ColumnChange::Rename { field_id, .. }
        | ColumnChange::Widen { field_id, .. }
            if !(1..FIRST_RESERVED_FIELD_ID).contains(field_id) =>
        {
            return out_of_range;
        }
        _ => {}
    }
    check_sorted(6, &op.parents)?;
    let fewest = if op.change == ColumnChange::Join { 2 } else { 0 };
    if !(fewest..=MAX_PARENTS).contains(&op.parents.len()) {
        return Err(DecodeError::OutOfRange(6));
    }
    check_ops_seen(9, &op.ops_seen)
}

impl TableOp {
    /// The id of the column an op adds.
    pub fn added_field_id(&self) -> Option<i32> {
        matches!(self.change, ColumnChange::Add { .. }).then(|| field_id_of_add(&self.table_id, &self.issuer, self.seq))
    }
}

/// The id a column gets when `issuer` adds it under its counter `seq`.
///
/// Nobody chooses it, so two devices that add columns without knowing of each other meet on one id once in two thousand million
/// times, and no op can use up the ids of others.
pub fn field_id_of_add(table_id: &TableId, issuer: &SiteId, seq: u64) -> i32 {
    let mut hasher = blake3::Hasher::new_derive_key("sovm field-id v1");
    hasher.update(table_id.as_bytes());
    hasher.update(issuer.as_bytes());
    hasher.update(&seq.to_be_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    let room = (FIRST_RESERVED_FIELD_ID - FIRST_ADDED_FIELD_ID) as u64;
    // Below `room`, so it fits.
    FIRST_ADDED_FIELD_ID + (u64::from_le_bytes(first) % room) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cbor::{from_slice, to_vec};

    fn op(change: ColumnChange) -> TableOp {
        TableOp {
            mesh_id: MeshId::from_bytes([1; 32]),
            table_id: TableId::from_bytes([2; 16]),
            domain_id: DomainId::from_bytes([3; 32]),
            change,
            parents: vec![RecordId::from_bytes([4; 32]), RecordId::from_bytes([5; 32])],
            issuer: SiteId::from_bytes([6; 32]),
            seq: 7,
            ops_seen: vec![RecordId::from_bytes([8; 32])],
            hlc: Hlc::new(9, 0),
        }
    }

    fn add(name: &str, ty: ColumnType) -> ColumnChange {
        ColumnChange::Add { name: name.into(), ty }
    }

    /// SOP-130: every kind of change has one encoding and comes back.
    #[test]
    fn changes_round_trip() {
        let decimal = ColumnType::decimal(12, 2).unwrap();
        for (change, bytes) in [
            (add("gust", ColumnType::Float64), "8301646775737467666c6f61743634"),
            (ColumnChange::Drop { field_id: 3 }, "820203"),
            (
                ColumnChange::Rename {
                    field_id: 3,
                    name: "b".into(),
                },
                "8303036162",
            ),
            (
                ColumnChange::Widen {
                    field_id: 3,
                    ty: decimal,
                },
                "8304036d646563696d616c2831322c3229",
            ),
            (ColumnChange::Join, "8105"),
        ] {
            let mut e = Encoder::new();
            e.field(&change);
            assert_eq!(hex::encode(e.into_vec()), bytes);
            let op = op(change);
            assert_eq!(from_slice::<TableOp>(&to_vec(&op)).unwrap(), op);
        }
    }

    /// SOP-130, SOP-135: what an op cannot say is refused, one case each.
    #[test]
    fn broken_ops_are_refused() {
        let rename = |field_id, name: &str| ColumnChange::Rename {
            field_id,
            name: name.into(),
        };
        let widen = |field_id, ty| ColumnChange::Widen { field_id, ty };
        let changes = [
            ("no name", add("", ColumnType::Text)),
            ("line feed in a name", add("a\nb", ColumnType::Text)),
            ("long name", add(&"n".repeat(129), ColumnType::Text)),
            ("nested column", add("a", ColumnType::List)),
            ("id 0", ColumnChange::Drop { field_id: 0 }),
            ("negative id", ColumnChange::Drop { field_id: -1 }),
            ("reserved id", rename(FIRST_RESERVED_FIELD_ID, "a")),
            ("no new name", rename(1, "")),
            ("to a struct", widen(1, ColumnType::Struct)),
            ("id 0 widened", widen(0, ColumnType::Int64)),
        ];
        for (case, change) in changes {
            let bytes = to_vec(&op(change));
            assert_eq!(from_slice::<TableOp>(&bytes), Err(DecodeError::OutOfRange(5)), "{case}");
        }
        let good = || op(ColumnChange::Join);
        let id = |byte| RecordId::from_bytes([byte; 32]);
        let parents = [
            ("unsorted", vec![id(2), id(1)]),
            ("twice", vec![id(1), id(1)]),
            ("join of one", vec![id(1)]),
            ("too many", (0..17).map(id).collect()),
        ];
        for (case, parents) in parents {
            let bytes = to_vec(&TableOp { parents, ..good() });
            assert_eq!(from_slice::<TableOp>(&bytes), Err(DecodeError::OutOfRange(6)), "{case}");
        }
        let many_heads = TableOp {
            ops_seen: (0..9).map(id).collect(),
            ..good()
        };
        assert_eq!(
            from_slice::<TableOp>(&to_vec(&many_heads)),
            Err(DecodeError::OutOfRange(9))
        );
    }

    /// SOP-130: field 5 in every other shape.
    #[test]
    fn other_shapes_of_a_change_are_refused() {
        let good = hex::encode(to_vec(&op(ColumnChange::Drop { field_id: 3 })));
        let field = "0582 0203".replace(' ', "");
        assert_eq!(good.matches(&field).count(), 1);
        for (case, other) in [
            ("an unknown kind", "0582 0603"),
            ("kind 0", "0582 0003"),
            ("drop with a name", "0583 0203 6161"),
            ("drop without an id", "0581 02"),
            ("rename without a name", "0582 0303"),
            ("join with an id", "0582 0503"),
            ("no array", "0502"),
            ("a map", "05a1 0203"),
            ("indefinite array", "059f 0203 ff"),
            ("long integer", "0582 02 1803"),
            ("text for an id", "0582 02 6133"),
            ("unknown type", "0583 01 6161 66696e74313238"),
            ("type in capitals", "0583 01 6161 65494e543634"),
            ("type with a space", "0583 01 6161 6e646563696d616c2831322c203229"),
        ] {
            let bytes = hex::decode(good.replace(&field, &other.replace(' ', ""))).unwrap();
            assert!(from_slice::<TableOp>(&bytes).is_err(), "{case}");
        }
    }

    /// SOP-15: an id follows from table, issuer and counter, and lies between those of founding records and the format's own.
    #[test]
    fn added_ids_are_derived() {
        let (table, site) = (TableId::from_bytes([2; 16]), SiteId::from_bytes([6; 32]));
        let ids: std::collections::BTreeSet<i32> = (0..10_000).map(|seq| field_id_of_add(&table, &site, seq)).collect();
        assert_eq!(ids.len(), 10_000);
        assert!(
            ids.iter()
                .all(|id| (FIRST_ADDED_FIELD_ID..FIRST_RESERVED_FIELD_ID).contains(id))
        );
        assert_eq!(
            op(add("a", ColumnType::Bool)).added_field_id(),
            Some(field_id_of_add(&table, &site, 7))
        );
        assert_ne!(
            field_id_of_add(&table, &site, 7),
            field_id_of_add(&TableId::from_bytes([3; 16]), &site, 7)
        );
        assert_eq!(op(ColumnChange::Drop { field_id: 3 }).added_field_id(), None);
    }
}
