//! Domains, tables, what went in and what came out.

use serde::{Deserialize, Serialize};

use super::WaitingObject;

/// The domains a node knows.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DomainListReport {
    /// The domains.
    pub domains: Vec<DomainInfo>,
}

/// One domain.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DomainInfo {
    /// Its name.
    pub name: String,
    /// Its id.
    pub domain_id: String,
    /// Members.
    pub members: u64,
    /// Generation of the current key; `None` while this node has none.
    pub generation: Option<u64>,
    /// What this node may do in it.
    pub role: String,
    /// Its tables.
    pub tables: u64,
    /// Its objects.
    pub objects: u64,
}

/// The tables a node can read.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct TableListReport {
    /// The tables.
    pub tables: Vec<TableInfo>,
}

/// One table.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct TableInfo {
    /// Schema name.
    pub schema: String,
    /// Table name.
    pub name: String,
    /// Its id.
    pub table_id: String,
    /// Domain that owns it.
    pub domain: String,
    /// `append`, later `append-delete` and `mutable`.
    pub class: String,
    /// Its columns in order.
    pub columns: Vec<ColumnInfo>,
    /// Columns that were dropped; their ids are never given again.
    pub dropped_columns: u64,
    /// Columns by which objects are split.
    pub partition: Vec<String>,
    /// Columns that tell rows apart.
    pub identity: Vec<String>,
    /// Columns whose bounds stand in every manifest.
    pub prune: Vec<String>,
    /// The column that carries time.
    pub time: Option<String>,
    /// Its objects.
    pub objects: u64,
    /// Objects that are not queryable here.
    pub objects_waiting: u64,
    /// Rows as the manifests state them; a query counts for itself.
    pub rows_stated: u64,
    /// Encrypted bytes.
    pub size_bytes: u64,
}

/// One column.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ColumnInfo {
    /// Stable id.
    pub field_id: i32,
    /// Name.
    pub name: String,
    /// Type by its sovm name.
    #[serde(rename = "type")]
    pub column_type: String,
    /// Whether it may be null.
    pub nullable: bool,
}

/// What was published.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct IngestReport {
    /// Schema and table name.
    pub table: String,
    /// Whether the table was made by this command.
    pub created: bool,
    /// Rows published.
    pub rows: u64,
    /// Bad rows left out (`--skip-bad-rows`).
    pub bad_rows: u64,
    /// Bytes read.
    pub input_bytes: u64,
    /// Encrypted bytes published.
    pub output_bytes: u64,
    /// Storage ids of the new objects.
    pub objects: Vec<String>,
    /// How often rows became visible: once, or each time that a feed was published (`--every`).
    pub publications: u64,
    /// How long it took.
    pub elapsed_ms: u64,
}

/// What a statement gave, beside its rows.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SqlReport {
    /// Columns of the answer.
    pub columns: Vec<SqlColumn>,
    /// Rows of the answer.
    pub rows: u64,
    /// How long it took.
    pub elapsed_ms: u64,
    /// Plan and counters, with `--explain`.
    pub explain: Option<SqlExplain>,
    /// What the answer covers, with `--allow-incomplete`.
    pub coverage: Option<Coverage>,
}

/// One column of an answer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SqlColumn {
    /// Name.
    pub name: String,
    /// Arrow type.
    #[serde(rename = "type")]
    pub column_type: String,
}

/// How a statement was run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SqlExplain {
    /// The physical plan.
    pub plan: String,
    /// What was read for it.
    pub scan: ScanCounts,
}

/// What the scans of one statement did.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ScanCounts {
    /// Objects of the tables in question.
    pub objects_considered: u64,
    /// Objects ruled out by their manifest.
    pub objects_pruned: u64,
    /// Objects whose footer was opened.
    pub objects_opened: u64,
    /// Row groups whose columns were read.
    pub row_groups_read: u64,
    /// Row groups ruled out by the footer.
    pub row_groups_skipped: u64,
    /// Bytes proven against their storage id.
    pub bytes_verified: u64,
    /// Plaintext bytes that came out of decryption.
    pub bytes_decrypted: u64,
    /// Rows decoded.
    pub rows_decoded: u64,
}

/// What an answer covers.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Coverage {
    /// Objects the statement needs.
    pub objects_needed: u64,
    /// Those that are not here.
    pub missing: Vec<WaitingObject>,
}
