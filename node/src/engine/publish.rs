//! Publishing rows: objects first, made durable one by one, then one transaction that makes all of them visible (SOP §13.2).
//!
//! A command publishes all of its rows or none; a feed without an end does so each time a limit has passed ([`feed`]). Objects that
//! were made before a later row turned out to be bad are let go again; a crash leaves them as ciphertext that no entry names and a row of the catalogue does ([`super::orphans`]).

mod bulk;
mod commit;
mod complete;
mod feed;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
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

use self::feed::{Cut, Ingest, closing};
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
    ingest::{Format, IngestError, Input, Misfit, Options, ParquetKey, RowRules, Source, SourceSpec, Stopper},
};

/// Finished objects that may wait for the disk; with those being filled they bound the memory of an ingest.
const OBJECTS_IN_FLIGHT: usize = 1;

/// What the reading thread sends: first the table, then objects with cuts between them, and a cut at the end.
enum Made {
    /// The table; signed now when it did not exist. With what ends the feed, if the input is one.
    Table(Box<Target>, Option<Stopper>),
    Object(Box<Finished>),
    /// What was sent so far is whole, and may become visible.
    Cut(Cut),
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
    /// Set when the table is made by this command and was not published yet.
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

    /// What it brought of its own is visible; later publications rest on it.
    fn is_published(&mut self) {
        self.joins.clear();
        self.signed = None;
    }
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
        if request.every_ms.is_some() && existing.is_none() && request.schema.is_none() {
            return Err(ApiError::new(
                ErrorKind::Refused,
                format!(
                    "there is no table {}, and a feed has no end at which its columns were known",
                    request.table
                ),
            )
            .safe("nothing was published")
            .next(format!(
                "pass --schema FILE, or first: sovm table create {} --like FILE_WITH_SOME_ROWS",
                request.table
            )));
        }

        let input_bytes = Arc::new(AtomicU64::new(0));
        let (made, mut objects) = mpsc::channel(OBJECTS_IN_FLIGHT);
        let told = exchange.progress.clone();
        let reader = {
            let (core, request, input_bytes) = (self.clone(), request.clone(), input_bytes.clone());
            tokio::task::spawn_blocking(move || {
                core.read_input(&request, exchange, existing, &domain, &made, &input_bytes)
            })
        };
        let mut ingest = Ingest::default();
        let published = self.publish_made(domain, &mut objects, &mut ingest, &told).await;
        // The reading thread stops at its next object when nobody receives, and a feed at once.
        drop(objects);
        if let Some(feed) = &ingest.feed {
            feed.stop();
        }
        let read = reader.await.map_err(ApiError::bug)?;
        if let Err(error) = published.and(read) {
            self.let_go(&ingest.ready).await;
            return Err(ingest.done.told_with(error));
        }
        if ingest.closing {
            return Err(ingest.done.told_with(closing()));
        }
        let Some(target) = ingest.target else {
            return Err(ApiError::bug("input without a table"));
        };
        let done = ingest.done;
        Ok(IngestReport {
            table: qualified_name(&target.genesis),
            created: done.created,
            rows: done.rows,
            bad_rows: done.bad_rows,
            input_bytes: input_bytes.load(Ordering::Relaxed),
            output_bytes: done.bytes,
            objects: done.objects,
            publications: done.times,
            elapsed_ms: begun.elapsed().as_millis() as u64,
        })
    }

    /// Makes objects durable as they come, and publishes them at each cut.
    async fn publish_made(
        &self,
        domain: DomainId,
        objects: &mut mpsc::Receiver<Made>,
        ingest: &mut Ingest,
        told: &Arc<dyn ProgressSink>,
    ) -> Result<(), ApiError> {
        let mut closing = self.closing.subscribe();
        loop {
            let made = tokio::select! {
                made = objects.recv() => made,
                _ = closing.wait_for(|closing| *closing), if ingest.feed.is_some() && !ingest.closing => {
                    ingest.closing = true;
                    if let Some(feed) = &ingest.feed {
                        feed.stop();
                    }
                    continue;
                }
            };
            match (made, &mut ingest.target) {
                (None, _) => return Ok(()),
                (Some(Made::Table(table, feed)), _) => {
                    ingest.target = Some(table);
                    ingest.feed = feed;
                }
                (Some(Made::Object(object)), Some(table)) => {
                    ingest.ready.push(self.make_durable(table, *object).await?);
                }
                (Some(Made::Cut(cut)), Some(table)) => {
                    ingest.done.bad_rows = cut.bad_rows;
                    // A feed that brought nothing publishes nothing, but for the table when it ends.
                    if ingest.ready.is_empty() && (!cut.last || ingest.done.times > 0) {
                        continue;
                    }
                    self.publish(domain, table, &ingest.ready).await?;
                    ingest.done.add(table, &ingest.ready, &cut);
                    if ingest.feed.is_some() {
                        let text = ingest.done.sentence(&ingest.ready);
                        told.event(crate::api::Event::Notice { text });
                    }
                    table.is_published();
                    ingest.ready.clear();
                }
                (Some(_), None) => return Err(ApiError::bug("an object before its table")),
            }
        }
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
    ) -> Result<(), ApiError> {
        let before = Looks::of(&request.files);
        let every = request.every_ms.map(Duration::from_millis);
        let name = "standard input".to_owned();
        let inputs = match (request.files.is_empty(), exchange.input) {
            (true, Some(reader)) if every.is_some() => vec![Input::Feed { name, reader }],
            (true, Some(reader)) => vec![Input::Stream { name, reader }],
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
        let feed = every.map(|every| source.pause_every(every, &options)).transpose()?;
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
        let (table, schema) = (target.genesis.clone(), target.schema.clone());
        let new_writer = || ObjectWriter::new(&table, &schema);
        let mut writer = new_writer()?;
        let columns: Vec<Column> = writer.columns().to_vec();
        let options = Options {
            rules: RowRules {
                partition: table.partition.clone(),
                identity: table.identity.clone(),
            },
            ..options
        };
        // A receiver that is gone has failed and reports that itself.
        let send = |step| {
            made.blocking_send(step)
                .map_err(|_| ApiError::new(ErrorKind::Failed, "publishing stopped"))
        };
        send(Made::Table(Box::new(target), feed))?;
        let unknown = |error: IngestError| match exists {
            true => with_add_column(error, &request.table),
            false => error.into(),
        };
        let mut batches = source.batches(&columns, &options).map_err(unknown)?;
        loop {
            let mut rows = batches.by_ref().map(|batch| batch.map_err(unknown));
            write_objects(&mut rows, writer, &mut |object| send(Made::Object(Box::new(object))))?;
            let last = batches.is_done();
            if last {
                before.compare(&request.files)?;
            }
            send(Made::Cut(Cut {
                line: batches.line(),
                bad_rows: batches.skipped().rows,
                last,
            }))?;
            if last {
                return Ok(());
            }
            writer = new_writer()?;
        }
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
