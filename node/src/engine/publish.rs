//! Publishing rows: objects first, made durable one by one, then one transaction that makes all of them visible (SOP §13.2).
//!
//! A command publishes all of its rows or none. Objects that were made before a later row turned out to be bad are let go again;
//! a crash leaves them as ciphertext that no entry names and a row of the catalogue does ([`super::orphans`]).

mod bulk;
mod commit;
mod complete;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use sovm_catalog::{TableView, Txn};
use sovm_mesh::net::{steps::reached, store::Durable};
use sovm_object::{
    entry::VerifiedEntry,
    id::{DomainId, SchemaFingerprint},
    record::{ObjectKind, ObjectManifest, TableGenesis, TableOp},
    schema::{OpGraph, TableSchema, columns_at},
    sign::Signed,
    types::Column,
};
use tokio::sync::mpsc;

pub(super) use self::{commit::Publication, complete::Ready};
use super::{
    core::Core,
    objects::{Finished, ObjectWriter},
    pipeline::write_objects,
    tables::{qualified_name, read_schema_file},
};
use crate::{
    api::{Exchange, IngestReport, IngestRequest, InputFormat, ProgressSink, Unit},
    error::{ApiError, ErrorKind},
    ingest::{Format, IngestError, Input, Misfit, Options, ParquetKey, RowRules, Source, SourceSpec},
};

/// Finished objects that may wait for the disk; with those being filled they bound the memory of an ingest.
const OBJECTS_IN_FLIGHT: usize = 1;

/// What the reading thread sends, in this order.
enum Made {
    /// The table, once; signed now when it did not exist.
    Table(Box<Target>),
    Object(Box<Finished>),
}

/// The table rows go to.
struct Target {
    genesis: TableGenesis,
    /// Its columns as rows are written now.
    schema: Arc<TableSchema>,
    /// What manifests call them.
    fingerprint: SchemaFingerprint,
    /// Makes one version of columns that were changed apart; normally nothing.
    joins: Vec<Signed<TableOp>>,
    /// Set when the table is made by this command.
    signed: Option<Signed<TableGenesis>>,
}

impl Target {
    fn new_table(signed: Signed<TableGenesis>) -> Self {
        let genesis = signed.body().clone();
        let schema = columns_at(&genesis, &OpGraph::default(), &BTreeSet::new());
        Self {
            genesis,
            fingerprint: schema.fingerprint(),
            schema: Arc::new(schema),
            joins: Vec::new(),
            signed: Some(signed),
        }
    }
}

/// What the reading thread found besides rows.
struct Read {
    bad_rows: u64,
}

/// What tells that a file is still the one that was opened. Text is read twice, so half of one file and half of another could
/// look like one whole.
struct Looks(Vec<Option<(u64, std::time::SystemTime)>>);

impl Looks {
    fn of(files: &[PathBuf]) -> Self {
        let look = |path: &PathBuf| {
            // Pipes are read once; what cannot be looked at fails when it is opened.
            let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
            Some((found.len(), found.modified().ok()?))
        };
        Self(files.iter().map(look).collect())
    }

    fn compare(&self, files: &[PathBuf]) -> Result<(), ApiError> {
        let now = Self::of(files);
        let changed = self.0.iter().zip(&now.0).position(|(before, now)| before != now);
        match changed.and_then(|index| files.get(index)) {
            None => Ok(()),
            Some(path) => Err(ApiError::new(
                ErrorKind::BadInput,
                format!("{} changed while it was read", path.display()),
            )
            .safe("nothing was published")
            .next("run the same command again once nothing writes to the file")),
        }
    }
}

impl Core {
    /// `ingest`.
    pub(super) async fn ingest(
        self: &Arc<Self>,
        request: IngestRequest,
        exchange: Exchange,
    ) -> Result<IngestReport, ApiError> {
        let begun = Instant::now();
        let existing = self.lookup_table(&request.table)?;
        let domain = match &existing {
            Some(table) => table.genesis.domain_id,
            None => self.domain(request.domain.as_deref())?,
        };
        // Whoever may not publish learns it before any work is done.
        self.check_may_publish(&self.read()?, &domain)?;

        let input_bytes = Arc::new(AtomicU64::new(0));
        let (made, mut objects) = mpsc::channel(OBJECTS_IN_FLIGHT);
        let reader = {
            let (core, request, input_bytes) = (self.clone(), request.clone(), input_bytes.clone());
            tokio::task::spawn_blocking(move || {
                core.read_input(&request, exchange, existing, &domain, &made, &input_bytes)
            })
        };
        let mut target = None;
        let mut ready = Vec::new();
        let mut outcome = Ok(());
        while let Some(made) = objects.recv().await {
            match (made, &target) {
                (Made::Table(table), _) => target = Some(table),
                (Made::Object(object), Some(table)) => match self.make_durable(table, *object).await {
                    Ok(object) => ready.push(object),
                    Err(error) => {
                        outcome = Err(error);
                        break;
                    }
                },
                (Made::Object(_), None) => {
                    outcome = Err(ApiError::bug("an object before its table"));
                    break;
                }
            }
        }
        // The reading thread stops at its next object when nobody receives.
        drop(objects);
        let read = reader.await.map_err(ApiError::bug)?;
        let result = match (outcome, read, target) {
            (Err(error), ..) | (Ok(()), Err(error), _) => Err(error),
            (Ok(()), Ok(read), Some(target)) => self.publish(domain, &target, &ready).await.map(|()| (read, target)),
            (Ok(()), Ok(_), None) => Err(ApiError::bug("input without a table")),
        };
        let (read, target) = match result {
            Ok(published) => published,
            Err(error) => {
                self.let_go(&ready).await;
                return Err(error);
            }
        };
        Ok(IngestReport {
            table: qualified_name(&target.genesis),
            created: target.signed.is_some(),
            rows: ready.iter().map(|object| object.manifest().body().row_count).sum(),
            bad_rows: read.bad_rows,
            input_bytes: input_bytes.load(Ordering::Relaxed),
            output_bytes: ready.iter().map(Ready::size).sum(),
            objects: ready.iter().map(|object| object.id().to_string()).collect(),
            elapsed_ms: begun.elapsed().as_millis() as u64,
        })
    }

    /// Reads the input to its end and sends the objects made of it. Blocks.
    fn read_input(
        &self,
        request: &IngestRequest,
        exchange: Exchange,
        existing: Option<TableView>,
        domain: &DomainId,
        made: &mpsc::Sender<Made>,
        input_bytes: &Arc<AtomicU64>,
    ) -> Result<Read, ApiError> {
        let before = Looks::of(&request.files);
        let inputs = match (request.files.is_empty(), exchange.input) {
            (true, Some(reader)) => vec![Input::Stream {
                name: "standard input".to_owned(),
                reader,
            }],
            _ => request.files.iter().cloned().map(Input::File).collect(),
        };
        // Spooled input lies under the home, encrypted, so that the disk reserve and the home's permissions hold for it too.
        let spool_dir = self.home.path().to_owned();
        let mut source = Source::open(SourceSpec {
            inputs,
            format: request.format.map(Format::from),
            spool_dir,
        })?;
        let options = Options {
            null_words: request.nulls.clone(),
            delimiter: (request.format == Some(InputFormat::Tsv)).then_some(b'\t'),
            skip_bad_rows: request.skip_bad_rows.clone(),
            parquet_key: request.parquet_key_file.as_deref().map(ParquetKey::read).transpose()?,
            progress: Some(progress(exchange.progress, input_bytes.clone())),
            ..Options::default()
        };
        let exists = existing.is_some();
        let target = match existing {
            Some(view) => self.target_of(view)?,
            None => {
                let columns = match &request.schema {
                    Some(path) => read_schema_file(path)?,
                    None => source.infer(&options)?,
                };
                Target::new_table(self.sign_table(&request.table, domain, &columns, None)?)
            }
        };
        let writer = ObjectWriter::new(&target.genesis, &target.schema)?;
        let columns: Vec<Column> = writer.columns().to_vec();
        let options = Options {
            rules: RowRules {
                partition: target.genesis.partition.clone(),
                identity: target.genesis.identity.clone(),
            },
            ..options
        };
        // A receiver that is gone has failed and reports that itself.
        let gone = |_| ApiError::new(ErrorKind::Failed, "publishing stopped");
        made.blocking_send(Made::Table(Box::new(target))).map_err(gone)?;
        let unknown = |error: IngestError| match exists {
            true => with_add_column(error, &request.table),
            false => error.into(),
        };
        let mut batches = source.batches(&columns, &options).map_err(unknown)?;
        let mut rows = batches.by_ref().map(|batch| batch.map_err(unknown));
        write_objects(&mut rows, writer, &mut |object| {
            made.blocking_send(Made::Object(Box::new(object))).map_err(gone)
        })?;
        before.compare(&request.files)?;
        Ok(Read {
            bad_rows: batches.skipped().rows,
        })
    }

    /// A table that is there, as rows are written to it now.
    fn target_of(&self, view: TableView) -> Result<Target, ApiError> {
        Ok(Target {
            joins: self.join_versions(&view)?,
            schema: view.columns.schema,
            fingerprint: view.columns.fingerprint,
            genesis: view.genesis,
            signed: None,
        })
    }

    /// Makes one object durable and signs what it is. Nobody sees it yet.
    async fn make_durable(&self, target: &Target, object: Finished) -> Result<Ready, ApiError> {
        let durable = self
            .make_unnamed(object.sealed.bytes.clone(), object.sealed.storage_id)
            .await?;
        let described = self.describe_object(target, object, durable);
        if described.is_err() {
            self.abandon(&[durable.id()]).await;
        }
        described
    }

    fn describe_object(&self, target: &Target, object: Finished, durable: Durable) -> Result<Ready, ApiError> {
        let table = &target.genesis;
        let Finished {
            sealed,
            dek,
            partition,
            statistics,
            time_range,
            digest,
        } = object;
        let ops_seen = self.heads(Some(table.domain_id))?;
        let stamp = self.stamp()?;
        let manifest = self.sign(ObjectManifest {
            mesh_id: self.mesh(),
            kind: ObjectKind::Data,
            storage_id: sealed.storage_id,
            table_schema: Some(table.schema_name.clone()),
            table_name: Some(table.table_name.clone()),
            schema_fingerprint: Some(target.fingerprint),
            producer: self.me,
            producer_mls_epoch: self.epoch(&table.domain_id)?,
            created_hlc: stamp.hlc,
            row_count: sealed.row_count,
            exact_byte_size: sealed.exact_byte_size,
            partition_values: Some(partition),
            pruning_statistics: Some(statistics),
            key_ref: sealed.key_ref,
            supersedes: Vec::new(),
            row_id_filter: None,
            time_range,
            dek_commitment: dek.commitment(),
            seq: stamp.seq,
            ops_seen,
            delete_id_filter: None,
            delete_key_bounds: None,
            sources: None,
            tombstone_refs: None,
            profile: ObjectKind::Data.profile(),
            row_set_digest: Some(*digest.as_bytes()),
            table_id: Some(table.table_id),
            adopts: None,
        });
        reached("publish.signed");
        Ready::new(durable, dek, manifest)
    }

    /// Makes the objects visible, with their table when it is new.
    async fn publish(&self, domain: DomainId, target: &Target, ready: &[Ready]) -> Result<(), ApiError> {
        let joins = target.joins.iter().cloned().map(VerifiedEntry::from);
        let publication = Publication {
            domain,
            first: target
                .signed
                .iter()
                .cloned()
                .map(VerifiedEntry::from)
                .chain(joins)
                .collect(),
            objects: ready.iter().collect(),
            also: &|txn: &mut Txn| check_target(txn, target),
        };
        self.publish_objects(&publication).await
    }
}

/// Rows were made for the columns of some moments ago. Under others their values would be shown as nothing.
fn check_target(rows: &impl sovm_catalog::Read, target: &Target) -> Result<(), ApiError> {
    let same_name = |genesis: &TableGenesis| qualified_name(genesis) == qualified_name(&target.genesis);
    let mut tables = rows.tables()?.into_iter();
    let changed = match target.signed {
        Some(_) => tables.any(|view| same_name(&view.genesis)).then_some("was made"),
        None => tables
            .find(|view| view.genesis.table_id == target.genesis.table_id)
            .is_none_or(|view| view.columns.fingerprint != target.fingerprint)
            .then_some("got other columns"),
    };
    match changed {
        None => Ok(()),
        Some(what) => Err(ApiError::new(
            ErrorKind::Refused,
            format!(
                "table {} {what} while the rows were read",
                qualified_name(&target.genesis)
            ),
        )
        .safe("nothing was published")
        .next("run the same command again")),
    }
}

/// Turns the reader's progress into the command's. The number of bytes of the last pass goes into the report.
fn progress(sink: Arc<dyn ProgressSink>, input_bytes: Arc<AtomicU64>) -> crate::ingest::ProgressFn {
    Arc::new(move |progress| {
        let stage = match progress.pass {
            crate::ingest::Pass::Infer => "finding types",
            crate::ingest::Pass::Load => {
                input_bytes.store(progress.bytes, Ordering::Relaxed);
                "encrypting"
            }
        };
        sink.event(crate::api::Event::Progress {
            stage: stage.to_owned(),
            unit: Unit::Bytes,
            done: progress.bytes,
            total: progress.total,
        });
    })
}

impl From<InputFormat> for Format {
    fn from(format: InputFormat) -> Self {
        match format {
            InputFormat::Csv | InputFormat::Tsv => Self::Csv,
            InputFormat::Ndjson => Self::NdJson,
            InputFormat::Parquet => Self::Parquet,
            InputFormat::Arrow => Self::Arrow,
        }
    }
}

/// A column the table lacks can be added to it.
fn with_add_column(error: IngestError, table: &str) -> ApiError {
    let column = match &error {
        IngestError::UnknownColumn { column, .. } => column.clone(),
        IngestError::BadValue {
            column,
            misfit: Misfit::UnknownKey(key),
            ..
        } if column == key => column.clone(),
        _ => return error.into(),
    };
    ApiError::from(error).next(format!(
        "if the table should have it: sovm table add-column {table} {column} TYPE, then ingest again"
    ))
}

impl From<IngestError> for ApiError {
    fn from(error: IngestError) -> Self {
        let kind = match &error {
            _ if super::convert::is_full(&error) => ErrorKind::DiskFull,
            _ => ErrorKind::BadInput,
        };
        let api = Self::new(kind, super::convert::chain(&error)).safe("nothing was published");
        match error.hint() {
            Some(hint) => api.next(hint),
            None => api,
        }
    }
}
