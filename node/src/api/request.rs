//! One variant a command. Ids and names are text as the user typed them; the engine resolves them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sovm_inventory::doc::CatalogId;

use super::Response;
use crate::{
    cli::{EditionCommand, InventoryCommand, ProductCommand},
    error::ApiError,
    inventory::{Author, Catalogue},
};

/// A command, as it crosses the seam between command line and node.
///
/// A command without arguments is written with braces: serde lets a plain variant pass with members it does not know.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// One screen about this node.
    Status {},
    /// Names the mesh this node founded.
    MeshCreate {
        /// The new name.
        name: String,
    },
    /// The devices of the mesh.
    MeshMembers {},
    /// Takes a device out of the mesh and rotates keys.
    MeshRemove {
        /// Site id, a unique beginning of it, or the device's name.
        site: String,
    },
    /// Makes a one-use ticket.
    Invite(InviteRequest),
    /// The invites that are open.
    InviteList {},
    /// Closes an invite.
    InviteRevoke {
        /// Invite id or a unique beginning of it.
        id: String,
    },
    /// Waits until a device has presented the ticket.
    InviteWait {
        /// Invite id or a unique beginning of it.
        id: String,
        /// How long to wait before answering `waiting`.
        timeout_secs: u64,
    },
    /// Lets the waiting device in, or sends it away.
    InviteConfirm {
        /// Invite id or a unique beginning of it.
        id: String,
        /// The short code the other device shows; refused when it differs from ours.
        code: Option<String>,
        /// False sends the device away and burns the ticket.
        accept: bool,
    },
    /// Makes this node a member of another mesh.
    Join {
        /// The line that `sovm invite` printed.
        ticket: String,
        /// Do not ask for the short code (reader and blind tickets of at most 15 minutes only).
        yes: bool,
    },
    /// The domains this node knows.
    DomainList {},
    /// Makes a domain with this node as its first admin.
    DomainCreate {
        /// Its name.
        name: String,
    },
    /// Makes a table.
    TableCreate(TableCreateRequest),
    /// The tables this node can read.
    TableList {},
    /// Columns, keys and sizes of one table.
    TableDescribe {
        /// Table name, optionally with its schema.
        table: String,
    },
    /// Changes a table's columns.
    TableAlter(TableAlterRequest),
    /// Publishes rows of files or of standard input.
    Ingest(IngestRequest),
    /// Runs one read-only statement; rows go to the exchange's row sink.
    Sql(SqlRequest),
    /// The objects this node knows.
    ObjectList {
        /// Only those of this table.
        table: Option<String>,
    },
    /// Everything known of one object.
    ObjectShow {
        /// Storage id or a unique beginning of it.
        id: String,
    },
    /// The signed records of one object, byte for byte.
    ObjectRaw {
        /// Storage id or a unique beginning of it.
        id: String,
    },
    /// Publishes plain files, or standard input as one.
    ObjectPut(PutRequest),
    /// The content of a plain file; it goes to the exchange's row sink as one binary column.
    ObjectGet(GetRequest),
    /// Reads objects in full and compares every byte, tag and figure.
    ObjectVerify {
        /// Storage ids or unique beginnings; empty means all that are here.
        ids: Vec<String>,
    },
    /// Removes bytes that no entry names and nobody is making.
    Gc(GcRequest),
    /// What is wrong with this node, and what to do about each.
    Doctor {
        /// Do what is safe without asking.
        repair: bool,
    },
    /// The encrypted bytes as they stand on disk.
    ObjectHexdump {
        /// Storage id or a unique beginning of it.
        id: String,
        /// First byte to show.
        offset: u64,
        /// How many bytes to show.
        length: u64,
    },
    /// The data key of one object, in clear.
    ObjectKey {
        /// Storage id or a unique beginning of it.
        id: String,
    },
    /// Makes a recovery kit.
    RecoveryKit {
        /// Domain name or id; `None` means `main`.
        domain: Option<String>,
    },
    /// Writes a checkpoint and a recovery root now.
    RecoveryCheckpoint {
        /// Domain name or id; `None` means every domain.
        domain: Option<String>,
    },
    /// Proves that recovery would work, in a temporary home.
    Drill {
        /// Domain name or id; `None` means every domain.
        domain: Option<String>,
        /// Read every object in full instead of a sample.
        full: bool,
    },
    /// A command on a catalogue of editions.
    Catalogue(Box<CatalogueRequest>),
    /// Reconciles and fetches now instead of at the next round.
    Sync {
        /// Wait until nothing is pending, at most this long; 0 returns after one round.
        wait_secs: u64,
    },
}

impl Request {
    /// The command as the user types it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Status {} => "status",
            Self::MeshCreate { .. } => "mesh create",
            Self::MeshMembers {} => "mesh members",
            Self::MeshRemove { .. } => "mesh remove",
            Self::Invite(_) => "invite",
            Self::InviteList {} => "invite list",
            Self::InviteRevoke { .. } => "invite revoke",
            Self::InviteWait { .. } => "invite wait",
            Self::InviteConfirm { .. } => "invite confirm",
            Self::Join { .. } => "join",
            Self::DomainList {} => "domain list",
            Self::DomainCreate { .. } => "domain create",
            Self::TableCreate(_) => "table create",
            Self::TableList {} => "table list",
            Self::TableDescribe { .. } => "table describe",
            Self::TableAlter(request) => request.change.name(),
            Self::Ingest(_) => "ingest",
            Self::Sql(_) => "sql",
            Self::ObjectList { .. } => "object list",
            Self::ObjectShow { .. } => "object show",
            Self::ObjectRaw { .. } => "object show --raw",
            Self::ObjectPut(_) => "object put",
            Self::ObjectGet(_) => "object get",
            Self::ObjectVerify { .. } => "object verify",
            Self::Gc(_) => "gc",
            Self::Doctor { .. } => "doctor",
            Self::ObjectHexdump { .. } => "object hexdump",
            Self::ObjectKey { .. } => "object key",
            Self::RecoveryKit { .. } => "recovery kit",
            Self::RecoveryCheckpoint { .. } => "recovery checkpoint",
            Self::Drill { .. } => "drill",
            Self::Catalogue(request) => request.ask.0.name(),
            Self::Sync { .. } => "sync",
        }
    }

    /// Whether the request talks to other devices, so that a node opened for it alone needs its network.
    pub const fn needs_network(&self) -> bool {
        matches!(
            self,
            Self::Invite(_)
                | Self::InviteWait { .. }
                | Self::InviteConfirm { .. }
                | Self::Join { .. }
                | Self::MeshRemove { .. }
                | Self::Sync { .. }
                | Self::Drill { .. }
        )
    }
}

/// What a new member may do (DESIGN §8).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum InviteRole {
    /// Everything, members and recovery included.
    Admin,
    /// Read and publish.
    Writer,
    /// Read.
    Reader,
    /// Keep ciphertext for others, read nothing.
    Blind,
}

/// How far back a new member may read.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum InviteHistory {
    /// Everything the domains hold.
    All,
    /// What is published from now on.
    None,
}

/// A ticket to be made.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InviteRequest {
    /// What the device may do.
    pub role: InviteRole,
    /// Domains it may read; empty means `main`.
    pub domains: Vec<String>,
    /// How far back it may read.
    pub history: InviteHistory,
    /// Seconds until the ticket is worthless.
    pub expires_secs: u64,
    /// Let the device in without a confirmed code (reader and blind tickets of at most 15 minutes only).
    pub yes: bool,
}

/// How rows of a table change.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum TableClass {
    /// Rows are only added.
    #[default]
    Append,
}

/// A table to be made.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TableCreateRequest {
    /// Table name, optionally with its schema.
    pub table: String,
    /// Domain that owns it; `None` means `main`.
    pub domain: Option<String>,
    /// How its rows change.
    pub class: TableClass,
    /// Columns that tell rows apart.
    pub id: Vec<String>,
    /// Columns by which objects are split.
    pub partition: Vec<String>,
    /// Columns whose bounds stand in every manifest.
    pub prune: Vec<String>,
    /// The column that carries time.
    pub time: Option<String>,
    /// Where its columns come from.
    pub columns: ColumnsFrom,
}

/// A change of a table's columns.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TableAlterRequest {
    /// Table name, optionally with its schema.
    pub table: String,
    /// What is to change.
    pub change: AskedChange,
}

/// What is to change about a table's columns.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum AskedChange {
    /// A new column; it may be null.
    AddColumn {
        /// Its name.
        name: String,
        /// Type by its sovm name.
        #[serde(rename = "type")]
        column_type: String,
    },
    /// The column is shown and written no more.
    DropColumn {
        /// Its name.
        name: String,
    },
    /// The column is shown under another name.
    RenameColumn {
        /// Its name.
        name: String,
        /// The new name.
        to: String,
    },
    /// The column takes a wider type.
    WidenColumn {
        /// Its name.
        name: String,
        /// Type by its sovm name.
        #[serde(rename = "type")]
        column_type: String,
    },
}

impl AskedChange {
    /// The command as the user types it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::AddColumn { .. } => "table add-column",
            Self::DropColumn { .. } => "table drop-column",
            Self::RenameColumn { .. } => "table rename-column",
            Self::WidenColumn { .. } => "table widen-column",
        }
    }
}

/// Where the columns of a new table come from.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnsFrom {
    /// Inferred over a whole data file.
    Like(PathBuf),
    /// A schema file: one column a line.
    Schema(PathBuf),
}

/// How input is encoded.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum InputFormat {
    /// Comma-separated text with a header line.
    Csv,
    /// Tab-separated text with a header line.
    Tsv,
    /// One JSON object a line.
    Ndjson,
    /// Parquet.
    Parquet,
    /// Arrow IPC, file or stream.
    Arrow,
}

/// Rows to be published.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct IngestRequest {
    /// Table name, optionally with its schema. Made as an append table when it does not exist.
    pub table: String,
    /// Absolute paths; empty means the exchange's input.
    pub files: Vec<PathBuf>,
    /// `None` means: by file name, then by content.
    pub format: Option<InputFormat>,
    /// Texts that stand for null beside the empty field.
    pub nulls: Vec<String>,
    /// Schema file; `None` means inferred.
    pub schema: Option<PathBuf>,
    /// Domain of the table if it is made now; `None` means `main`.
    pub domain: Option<String>,
    /// Write bad rows here and go on; `None` means that one bad row stops everything.
    pub skip_bad_rows: Option<PathBuf>,
    /// Absolute path of the key of encrypted Parquet files.
    pub parquet_key_file: Option<PathBuf>,
    /// The exchange's input is a feed: publish what it has brought each time so many milliseconds have passed. `None` publishes
    /// everything at its end.
    pub every_ms: Option<u64>,
}

/// A collection.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct GcRequest {
    /// Say what would be removed, and remove nothing.
    pub dry_run: bool,
    /// Running time that left-overs must be old; `None` means seven days.
    pub after_secs: Option<u64>,
    /// Remove even more than a quarter of all bytes here.
    pub allow_large: bool,
    /// The catalogue was restored from an older copy, and nothing it lacks is missed.
    pub allow_restored: bool,
}

/// Plain files to be published.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PutRequest {
    /// Absolute paths; empty means the exchange's input.
    pub files: Vec<PathBuf>,
    /// Domain whose members can read them; `None` means `main`.
    pub domain: Option<String>,
    /// What this node calls the one file; `None` means its own name.
    pub name: Option<String>,
}

/// A plain file to be given out.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GetRequest {
    /// Storage id, a unique beginning of it, or this node's name for it.
    pub id: String,
    /// Only these bytes; `None` means all.
    pub range: Option<ByteRange>,
}

/// Some bytes of a content.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ByteRange {
    /// The first byte, counted from 0.
    pub first: u64,
    /// The last byte, included; `None` means to the end.
    pub last: Option<u64>,
}

/// One statement to be run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SqlRequest {
    /// The statement.
    pub query: String,
    /// Run it, keep the rows back, and answer with the plan and what was read.
    pub explain: bool,
    /// Answer from what is here and say what is missing.
    pub allow_incomplete: bool,
    /// Bytes the query may use; `None` means the node's setting.
    pub memory: Option<u64>,
}

/// A command on a catalogue of this node.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueRequest {
    /// The catalogue; none for the only one.
    pub catalog: Option<CatalogId>,
    /// Why; kept in the version.
    pub reason: Option<String>,
    /// What is asked. Paths in it are absolute: the node has another working directory.
    pub ask: CatalogueCommand,
}

/// A command that works on a catalogue, as the command line reads it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(transparent)]
pub struct CatalogueCommand(pub(crate) OnCatalogue);

/// Which command.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OnCatalogue {
    /// `inventory`
    Inventory(InventoryCommand),
    /// `product`
    Product(ProductCommand),
    /// `edition`
    Edition(EditionCommand),
}

impl From<InventoryCommand> for CatalogueCommand {
    fn from(command: InventoryCommand) -> Self {
        Self(OnCatalogue::Inventory(command))
    }
}

impl From<ProductCommand> for CatalogueCommand {
    fn from(command: ProductCommand) -> Self {
        Self(OnCatalogue::Product(command))
    }
}

impl From<EditionCommand> for CatalogueCommand {
    fn from(command: EditionCommand) -> Self {
        Self(OnCatalogue::Edition(command))
    }
}

impl OnCatalogue {
    const fn name(&self) -> &'static str {
        match self {
            Self::Inventory(_) => "inventory",
            Self::Product(_) => "product",
            Self::Edition(_) => "edition",
        }
    }

    /// Whether it may change the catalogue.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::Inventory(command) => command.writes(),
            Self::Product(command) => command.writes(),
            Self::Edition(command) => command.writes(),
        }
    }

    /// Carries it out on a catalogue, wherever that lies.
    pub(crate) async fn perform(self, catalogue: &Catalogue, author: Author) -> Result<Response, ApiError> {
        match self {
            Self::Inventory(command) => command.perform(catalogue, author).await,
            Self::Product(command) => command.perform(catalogue, author).await,
            Self::Edition(command) => command.perform(catalogue, author).await,
        }
    }
}
