//! TableGenesis: what a table is, fixed at creation (SOP part 2.4).

use super::{body, check_name, check_ops_seen, membership::uint_enum};
use crate::{
    cbor::{DecodeError, Decoder, Encoder, Field, Nullable},
    hlc::Hlc,
    id::{DomainId, MeshId, RecordId, SchemaFingerprint, SiteId, TableId},
    payload,
};

/// Field ids from here on are the format's own (SOP part 2.4).
pub const FIRST_RESERVED_FIELD_ID: i32 = 2_147_483_000;

/// Most columns of a table, nested ones counted.
pub const MAX_COLUMNS: usize = 1_024;

/// How rows of a table may change (DESIGN §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableClass {
    /// Rows are only added.
    Append,
    /// Rows are added, and removed for ever by identity.
    AppendDelete,
    /// Rows change, column by column.
    Mutable,
}
uint_enum!(TableClass { Append = 1, AppendDelete = 2, Mutable = 3 });

/// One column as the table's creation fixed it. Nested columns are rows of their own that name their parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDef {
    /// Stable for ever, never given to another column (SOP-15).
    pub field_id: i32,
    /// Physical name; display names may change later.
    pub name: String,
    /// Type by name, as `crate::types` prints it (DESIGN §16.6).
    pub ty: String,
    /// Whether nulls are allowed.
    pub nullable: bool,
    /// The column this one is nested in.
    pub parent: Option<i32>,
}

impl Field for ColumnDef {
    fn encode(&self, e: &mut Encoder) {
        e.array(5)
            .field(&self.field_id)
            .text(&self.name)
            .text(&self.ty)
            .bool(self.nullable)
            .field(&Nullable(self.parent));
    }
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.array_of(5)?;
        Ok(Self {
            field_id: d.field()?,
            name: d.field()?,
            ty: d.field()?,
            nullable: d.bool()?,
            parent: d.field::<Nullable<i32>>()?.0,
        })
    }
}

payload! {
    /// The founding of a table.
    pub struct TableGenesis {
        /// The mesh.
        2 mesh_id: MeshId,
        /// Random, stable across renames.
        3 table_id: TableId,
        /// The domain whose members may read it.
        4 domain_id: DomainId,
        /// Schema name, `main` unless said otherwise.
        5 schema_name: String,
        /// Table name.
        6 table_name: String,
        /// How rows may change.
        7 class: TableClass,
        /// Columns in order, nested ones after their parent.
        8 columns: Vec<ColumnDef>,
        /// Field ids that make up a row's identity.
        9 identity: Vec<i32>,
        /// Field ids that partition the table.
        10 partition: Vec<i32>,
        /// Field id of the time column.
        11 time: Option<i32>,
        /// Field ids with min and max in every manifest.
        12 pruning: Vec<i32>,
        /// Makes filters and row digests of this table its own.
        13 filter_salt: [u8; 16],
        /// The creator's counter.
        15 seq: u64,
        /// Heads of the membership ops the creator had seen.
        16 ops_seen: Vec<RecordId>,
        /// Who created it.
        17 creator: SiteId,
        /// When.
        18 hlc: Hlc,
    }
    check check_table;
}
body!(TableGenesis, "sovm/table-genesis-v1", author: creator, domain: |b| Some(b.domain_id));

fn check_table(t: &TableGenesis) -> Result<(), DecodeError> {
    check_name(5, &t.schema_name)?;
    check_name(6, &t.table_name)?;
    check_ops_seen(16, &t.ops_seen)?;
    if t.columns.is_empty() || t.columns.len() > MAX_COLUMNS {
        return Err(DecodeError::OutOfRange(8));
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut names = std::collections::BTreeSet::new();
    for column in &t.columns {
        check_name(8, &column.name)?;
        let id_ok = (1..FIRST_RESERVED_FIELD_ID).contains(&column.field_id) && !seen.contains(&column.field_id);
        let parent_ok = column.parent.is_none_or(|parent| seen.contains(&parent));
        if !id_ok || !parent_ok || !names.insert((column.parent, column.name.to_lowercase())) {
            return Err(DecodeError::OutOfRange(8));
        }
        seen.insert(column.field_id);
    }
    for (field, ids) in [(9, &t.identity), (10, &t.partition), (12, &t.pruning)] {
        if ids.iter().any(|id| !seen.contains(id)) {
            return Err(DecodeError::OutOfRange(field));
        }
    }
    if t.time.is_some_and(|id| !seen.contains(&id)) {
        return Err(DecodeError::OutOfRange(11));
    }
    match (t.class, t.identity.is_empty()) {
        (TableClass::Append, _) | (_, false) => Ok(()),
        (_, true) => Err(DecodeError::OutOfRange(9)),
    }
}

impl TableGenesis {
    /// BLAKE3 of the deterministic CBOR of the columns with identity, partition and time ids.
    pub fn schema_fingerprint(&self) -> SchemaFingerprint {
        self.fingerprint_of(&self.columns)
    }

    /// The same for a later version of the columns.
    pub(crate) fn fingerprint_of(&self, columns: &Vec<ColumnDef>) -> SchemaFingerprint {
        let mut e = Encoder::new();
        e.array(4)
            .field(columns)
            .field(&self.identity)
            .field(&self.partition)
            .field(&Nullable(self.time));
        SchemaFingerprint::from_bytes(*blake3::hash(&e.into_vec()).as_bytes())
    }

    /// Whether rows are told apart, split or placed in time by the column.
    pub fn is_key(&self, field_id: i32) -> bool {
        self.identity.contains(&field_id) || self.partition.contains(&field_id) || self.time == Some(field_id)
    }

    /// Key of row digests of this table: `sovm row-digest v1` over table id and salt (SOP part 2.13).
    pub fn row_digest_key(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("sovm row-digest v1");
        hasher.update(self.table_id.as_bytes());
        hasher.update(&self.filter_salt);
        *hasher.finalize().as_bytes()
    }
}
