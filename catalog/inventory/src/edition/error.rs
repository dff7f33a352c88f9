//! Why something could not be done to an edition.

use crate::{
    doc::{DocError, EditionId, FilePath, IdError, Instant, ProductId, Sha256, Urn},
    fingerprint::{form::DifferentForms, parquet_table::ParquetTableError, structures::StructuresError},
    reader::ReadError,
    store::{PathError, StoreError},
    structure::{
        StructureError, closure::LookupError, message::MessageError, record::RecordError, reference::Unresolved,
    },
    transition::{Refusal, VersionError},
    writer::{CommitError, WriteError},
};

use super::{check::EditionFindings, table_list::TableListError};

/// Why something could not be done to an edition.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditionError {
    /// A sealed edition was to be changed.
    #[error("edition {edition_id} of product {product_id} is sealed: it is never changed (INV-2, INV-99)")]
    AlreadySealed {
        /// The product.
        product_id: ProductId,
        /// The edition.
        edition_id: EditionId,
    },
    /// A second unsealed edition.
    #[error(
        "product {product_id} has the unsealed edition {edition_id} already, begun at {begun_at}: resume or discard it (INV-397, INV-439)"
    )]
    UnsealedExists {
        /// The product.
        product_id: ProductId,
        /// The unsealed edition.
        edition_id: EditionId,
        /// When it was begun.
        begun_at: Instant,
    },
    /// More than one unsealed edition lies there.
    #[error(
        "product {product_id} has the unsealed editions {first} and {second}, and may have one: discard one (INV-21)"
    )]
    UnsealedTwice {
        /// The product.
        product_id: ProductId,
        /// One of them.
        first: EditionId,
        /// Another.
        second: EditionId,
    },
    /// Nothing to resume.
    #[error("product {product_id} has no unsealed edition to resume; begin one (INV-57)")]
    NothingToResume {
        /// The product.
        product_id: ProductId,
    },
    /// No such edition.
    #[error("product {product_id} has no edition {edition_id}")]
    NoEdition {
        /// The product.
        product_id: ProductId,
        /// The edition.
        edition_id: EditionId,
    },
    /// A sealed edition was to be discarded.
    #[error(
        "edition {edition_id} of product {product_id} is sealed, and discard takes unsealed ones only (INV-60, INV-439)"
    )]
    DiscardSealed {
        /// The product.
        product_id: ProductId,
        /// The edition.
        edition_id: EditionId,
    },
    /// A sealed edition that the catalogue's writer was not asked to record yet.
    #[error(
        "edition {edition_id} of product {product_id} is sealed and not registered yet: seal again, and it is (INV-403)"
    )]
    Unregistered {
        /// The product.
        product_id: ProductId,
        /// The edition.
        edition_id: EditionId,
    },
    /// A registration with another release time.
    #[error(
        "edition {edition_id} of product {product_id} is about to be registered with {release_at} release time: it can't be given another (INV-403)"
    )]
    RegisteredOtherwise {
        /// The product.
        product_id: ProductId,
        /// The edition.
        edition_id: EditionId,
        /// The release time it is registered with, or "no".
        release_at: String,
    },
    /// An edition was to be recorded in a catalogue that another site writes.
    #[error(
        "product {product_id} is in a catalogue that another site writes, so its editions are registered there (INV-409)"
    )]
    OnlyRegisters {
        /// The product.
        product_id: ProductId,
    },
    /// An edition that isn't sealed was to be read as one.
    #[error("edition {edition_id} of product {product_id} has no manifest.json, so it is not sealed (INV-58)")]
    NotSealed {
        /// The product.
        product_id: ProductId,
        /// The edition.
        edition_id: EditionId,
    },
    /// A directory of another layout.
    #[error("{found} is at the root here: this is another layout, and nothing was created (INV-30)")]
    OtherLayout {
        /// The file that shows it.
        found: String,
    },
    /// Files without a catalogue.
    #[error("there is no catalog.json here beside files such as {found}, and nothing was created (INV-30)")]
    NoCatalogAmong {
        /// One of them.
        found: String,
    },
    /// No catalogue at all.
    #[error("there is no catalog.json here; `sovm inventory init` makes a catalogue (INV-30)")]
    NoCatalog,
    /// A file's name is taken by other bytes.
    #[error("{path} is there with SHA-256 {found}, and {expected} was to be written: files are written once (INV-99)")]
    OtherBytes {
        /// The file.
        path: String,
        /// What lies there.
        found: Sha256,
        /// What was to be written.
        expected: Sha256,
    },
    /// A data file's name is taken.
    #[error("data file {path} exists already: a data file is written once, under a fresh name (INV-23)")]
    DataExists {
        /// The file.
        path: FilePath,
    },
    /// A data file that isn't there.
    #[error("data file {path} of {dataflow} is not in the product's data/ (INV-108)")]
    NoData {
        /// The file.
        path: FilePath,
        /// The table that is to have it.
        dataflow: Urn,
    },
    /// A data file of another size than listed.
    #[error(
        "data file {path} has {found} bytes, {listed} lists {expected}: data files are never modified (INV-99, INV-101)"
    )]
    DataSize {
        /// The file.
        path: FilePath,
        /// Its size.
        found: u64,
        /// Its listed size.
        expected: u64,
        /// What lists it.
        listed: String,
    },
    /// A carried data file whose digest isn't the carried one.
    #[error(
        "data file {path} has {algorithm} {found}, edition {carried_from} records {recorded}: nothing is carried forward (INV-101)"
    )]
    CarriedDigest {
        /// The file.
        path: FilePath,
        /// Which digest.
        algorithm: String,
        /// What the store keeps or the bytes come to.
        found: String,
        /// What the previous manifest records.
        recorded: String,
        /// The edition it was to be carried from.
        carried_from: EditionId,
    },
    /// A file of deletions.
    #[error(
        "{path} holds deleted rows: rewrite the table into new data files before the seal, no delete file ships (INV-95, INV-96)"
    )]
    DeleteFile {
        /// The file.
        path: FilePath,
    },
    /// A write-ahead log.
    #[error("{path} is there: its DuckDB file was not checkpointed, CHECKPOINT it before the seal (INV-92, INV-93)")]
    Wal {
        /// The log.
        path: String,
    },
    /// A file nobody declared.
    #[error("{path} is in the edition's directory and tables.json does not name it: declare it or delete it (INV-104)")]
    Undeclared {
        /// The file.
        path: String,
    },
    /// A declared file that isn't there.
    #[error("tables.json names {path}, and it is not in the edition's directory (INV-104)")]
    DeclaredMissing {
        /// The file.
        path: String,
    },
    /// A name that belongs to the edition itself.
    #[error("{path} is no name for a file of an edition: it is {owner} (INV-20)")]
    ReservedName {
        /// The name.
        path: FilePath,
        /// What it is.
        owner: &'static str,
    },
    /// The table list was rewritten by somebody else.
    #[error(
        "tables.json of edition {edition_id} was changed by another process: resume the edition to go on from what is there"
    )]
    ChangedMeanwhile {
        /// The edition.
        edition_id: EditionId,
    },
    /// A table without files, or one that isn't listed.
    #[error("the edition has no table {dataflow}")]
    NoTable {
        /// The table's dataflow.
        dataflow: Urn,
    },
    /// Files of one table with other columns.
    #[error("data files {first} and {second} of one table have different columns: {columns} (INV-72)")]
    DifferentColumns {
        /// One file.
        first: FilePath,
        /// Another.
        second: FilePath,
        /// Columns of the one, and of the other.
        columns: String,
    },
    /// A table of a product that may still change was to be merged.
    #[error(
        "product {product_id} is revisable: only a final product's tables are merged, make it final first (INV-97)"
    )]
    MergeRevisable {
        /// The product.
        product_id: ProductId,
    },
    /// Files of one table that declare different orders.
    #[error(
        "data files {first} and {second} of one table declare different orders of their rows: nothing is merged (INV-98)"
    )]
    DifferentOrder {
        /// One file.
        first: FilePath,
        /// Another.
        second: FilePath,
    },
    /// A merged file doesn't hold what its parts hold.
    #[error(
        "table {dataflow} has fingerprint {before}, merged it would have {after}: the table list is as it was, and {path} is left to the garbage collector (INV-97)"
    )]
    MergeDiffers {
        /// The table.
        dataflow: Urn,
        /// The merged file.
        path: FilePath,
        /// The fingerprint of the parts.
        before: String,
        /// The fingerprint of the whole.
        after: String,
    },
    /// More to pull than a reader may have to.
    #[error(
        "the edition's required files have {required} bytes and may have {budget}, the largest is {largest}: give it another tier (INV-16)"
    )]
    OverBudget {
        /// Their bytes.
        required: u64,
        /// The budget.
        budget: u64,
        /// The largest of them.
        largest: FilePath,
    },
    /// An edition that isn't sound was to be opened.
    #[error(transparent)]
    Unsound(Box<EditionFindings>),
    /// A file that holds another number of rows than was counted.
    #[error("data file {path} has {found} rows, tables.json counts {counted} (INV-109)")]
    Rows {
        /// The file.
        path: FilePath,
        /// Rows read.
        found: u64,
        /// Rows counted.
        counted: u64,
    },
    /// References that resolve nowhere they may.
    #[error("{} of the edition's references do not resolve; the first: {}", .0.len(), .0.first().map_or_else(String::new, ToString::to_string))]
    Unresolved(Vec<Unresolved>),
    /// A table whose dataflow the edition's structures don't hold.
    #[error("the edition's structures do not hold {urn}, which table {dataflow} needs (INV-87, INV-88)")]
    NoStructure {
        /// What is missing.
        urn: String,
        /// The table.
        dataflow: Urn,
    },
    /// A data file that can't be read as a table.
    #[error("data file {path}: {source}")]
    Table {
        /// The file.
        path: FilePath,
        /// Why.
        source: Box<ParquetTableError>,
    },
    /// A structure message that can't be read.
    #[error("structure message {path}: {source}")]
    Message {
        /// The file.
        path: FilePath,
        /// Why.
        source: Box<MessageError>,
    },
    /// A copy that isn't what the manifest lists.
    #[error("{path} was read as {found}, its manifest lists {expected}: the copy ended before its manifest (INV-417)")]
    CopyDiffers {
        /// The file.
        path: String,
        /// What was read.
        found: String,
        /// What the manifest lists.
        expected: String,
    },
    /// A table list that can't be read.
    #[error(transparent)]
    TableList(Box<TableListError>),
    /// Structures that don't go together.
    #[error(transparent)]
    Structure(Box<StructureError>),
    /// A dataflow whose data structure can't be told.
    #[error(transparent)]
    Lookup(Box<LookupError>),
    /// Artefact records that can't be made.
    #[error(transparent)]
    Records(Box<RecordError>),
    /// A fingerprint that can't be made.
    #[error(transparent)]
    Structures(Box<StructuresError>),
    /// Fingerprints of different forms.
    #[error(transparent)]
    Forms(#[from] DifferentForms),
    /// A document that is refused.
    #[error(transparent)]
    Document(Box<DocError>),
    /// A text that is no id, path or URN.
    #[error(transparent)]
    Text(#[from] IdError),
    /// A name no store can have.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The Inventory can't be read.
    #[error(transparent)]
    Read(Box<ReadError>),
    /// Its newest version doesn't hold together.
    #[error(transparent)]
    Version(Box<VersionError>),
    /// A transition refused.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// The writer failed.
    #[error(transparent)]
    Write(Box<WriteError>),
}

macro_rules! boxed {
    ($($variant:ident($error:ty)),* $(,)?) => {$(
        impl From<$error> for EditionError {
            fn from(error: $error) -> Self {
                Self::$variant(Box::new(error))
            }
        }
    )*};
}

// An error is passed up by value through every call, so the large ones are boxed.
boxed!(
    TableList(TableListError),
    Structure(StructureError),
    Lookup(LookupError),
    Records(RecordError),
    Structures(StructuresError),
    Document(DocError),
    Read(ReadError),
    Version(VersionError),
    Refused(Refusal),
    Write(WriteError),
    Unsound(EditionFindings),
);

impl From<CommitError<Refusal>> for EditionError {
    fn from(error: CommitError<Refusal>) -> Self {
        match error {
            CommitError::Refused(refusal) => refusal.into(),
            CommitError::Write(error) => error.into(),
        }
    }
}
