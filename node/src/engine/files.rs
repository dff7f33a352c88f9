//! Plain files: `object put` and `object get` (SOP part 2.6).
//!
//! ```text
//! file ──length──▶ draft ──seal into a hash──▶ id ──seal again──▶ object store ──▶ manifest, access record, one transaction
//! standard input ──▶ encrypted spool, then the same
//! ```
//!
//! What is in memory is one chunk and the pieces on their way into the store, however long the file is, and nothing of it lies
//! on a disk in plaintext. A file is an object like any other: the same grants, the same fetching, placing and recovery.

mod content;
mod verify;

use std::{ops::Range, path::PathBuf, sync::Arc, time::Instant};

use arrow::{
    array::{ArrayRef, BinaryArray, RecordBatch},
    datatypes::{DataType, Field, Schema},
};
use sovm_catalog::{Read as _, Txn};
use sovm_mesh::net::store::PublishError;
use sovm_object::{
    blob::{self, Blob, Draft, OpenBlobError},
    id::{DomainId, KeyRef, StorageId},
    record::ObjectKind,
    secret::Dek,
    verified::ReadError,
};

use self::content::{Content, Feed};
pub(super) use self::verify::verify_blob;
use super::{
    author::Tableless,
    core::Core,
    publish::{Publication, Ready},
    source::describe,
};
use crate::{
    api::{Exchange, GetReport, GetRequest, ProgressSink, PutFile, PutReport, PutRequest},
    error::{ApiError, ErrorKind},
    query::ObjectFault,
};

/// Chunks of a blob that are read and given on at once: 1 MiB.
pub(super) const CHUNKS_AT_ONCE: u64 = 16;

/// A file that is ready to be published.
struct ReadyFile {
    object: Ready,
    name: Option<String>,
    content_len: u64,
}

impl Core {
    /// `object put`. All files of one command become visible at once, or none.
    pub(super) async fn put_files(
        self: &Arc<Self>,
        request: PutRequest,
        exchange: Exchange,
    ) -> Result<PutReport, ApiError> {
        let begun = Instant::now();
        let domain = self.domain(request.domain.as_deref())?;
        // Whoever may not publish learns it before any work is done.
        self.check_may_publish(&self.read()?, &domain)?;
        if let Some(name) = &request.name {
            check_label(name)?;
            if request.files.len() > 1 {
                return Err(
                    ApiError::new(ErrorKind::Usage, "one name cannot be that of several files")
                        .safe("nothing was published")
                        .next("put the files one by one, or leave --name out"),
                );
            }
        }
        let Exchange { input, progress, .. } = exchange;
        let mut sources: Vec<(Option<String>, Source)> = Vec::new();
        for path in &request.files {
            let own = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let own = own.filter(|name| check_label(name).is_ok());
            sources.push((request.name.clone().or(own), Source::File(path.clone())));
        }
        if let (true, Some(input)) = (request.files.is_empty(), input) {
            sources.push((request.name.clone(), Source::Stream(input)));
        }
        let mut ready = Vec::new();
        let mut outcome = Ok(());
        for (name, source) in sources {
            match self.make_file(&domain, name, source, &progress).await {
                Ok(file) => ready.push(file),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        let published = match outcome {
            Ok(()) => self.publish_files(domain, &ready).await,
            Err(error) => Err(error),
        };
        if let Err(error) = published {
            self.let_go(ready.iter().map(|file| &file.object)).await;
            return Err(error);
        }
        Ok(PutReport {
            files: ready.iter().map(put_file).collect(),
            domain: self.domain_info(&self.read()?, &domain)?.name,
            elapsed_ms: begun.elapsed().as_millis() as u64,
        })
    }

    /// Seals one file into the store and signs what it is.
    async fn make_file(
        self: &Arc<Self>,
        domain: &DomainId,
        name: Option<String>,
        source: Source,
        progress: &Arc<dyn ProgressSink>,
    ) -> Result<ReadyFile, ApiError> {
        // Standard input is spooled under the home, encrypted, so that the home's permissions hold for it too.
        let spool_dir = self.home.path().to_owned();
        let sink = progress.clone();
        let drafting = move || -> Result<(Content, Draft, StorageId), ApiError> {
            let content = match source {
                Source::File(path) => Content::of_file(&path, &spool_dir)?,
                Source::Stream(mut reader) => Content::of_stream("standard input", &mut *reader, &spool_dir)?,
            };
            let draft =
                Draft::new(content.len(), Dek::generate(), KeyRef::generate()).map_err(|error| too_long(&error))?;
            let reader = content.reader("measuring", sink)?;
            let id = draft.measure(reader).map_err(|error| content.failed(&error))?;
            Ok((content, draft, id))
        };
        let (content, draft, id) = tokio::task::spawn_blocking(drafting).await.map_err(ApiError::bug)??;
        let feed = Feed::start(draft.sealer(content.reader("encrypting", progress.clone())?));
        let imported = self.blobs.import_reader(feed, Some(draft.total()), id).await;
        let durable = imported.map_err(|error| match error {
            PublishError::Source(error) => content.failed(&error),
            PublishError::WrongId { .. } => content.changed(),
            other => other.into(),
        })?;
        let (content_len, exact_byte_size, key_ref) = (draft.content_len(), draft.exact_byte_size(), draft.key_ref());
        let dek = draft.into_dek();
        let manifest = self.sign_tableless(domain, Tableless::file(id, exact_byte_size, key_ref, &dek))?;
        Ok(ReadyFile {
            object: Ready::new(durable, dek, manifest)?,
            name,
            content_len,
        })
    }

    /// Makes the files visible, with the names this node has for them.
    async fn publish_files(&self, domain: DomainId, files: &[ReadyFile]) -> Result<(), ApiError> {
        let label = |txn: &mut Txn| -> Result<(), ApiError> {
            for file in files {
                if let Some(name) = &file.name {
                    txn.put_label(&file.object.id(), name)?;
                }
            }
            Ok(())
        };
        let publication = Publication {
            domain,
            first: Vec::new(),
            objects: files.iter().map(|file| &file.object).collect(),
            also: &label,
        };
        self.publish_objects(&publication).await
    }

    /// `object get`: the content, or a range of it, as batches of one binary column.
    pub(super) async fn get_file(&self, request: GetRequest, exchange: Exchange) -> Result<GetReport, ApiError> {
        let begun = Instant::now();
        let id = self.resolve_file(&request.id).await?;
        let opened = self.open_file(id).await?;
        let content_len = opened.content_len();
        let range = match request.range {
            Some(range) => {
                let end = range
                    .last
                    .map_or(content_len, |last| last.saturating_add(1).min(content_len));
                if range.first >= end {
                    return Err(ApiError::new(
                        ErrorKind::BadInput,
                        format!(
                            "the file has {content_len} bytes; there is nothing from byte {} on",
                            range.first
                        ),
                    )
                    .safe("nothing was given out")
                    .next("bytes are counted from 0, and both ends of --range are included"));
                }
                Some(range.first..end)
            }
            None => None,
        };
        let schema = Arc::new(Schema::new(vec![Field::new("content", DataType::Binary, false)]));
        exchange.rows.schema(schema.clone()).await?;
        let (offset, wanted) = range
            .as_ref()
            .map_or((0, content_len), |range| (range.start, range.end - range.start));
        let mut done = 0;
        for step in steps(&opened, range) {
            let piece = match step {
                Step::Chunks(chunks) => opened.read_chunks(&self.blobs, chunks).await,
                Step::Range(range) => opened.read(&self.blobs, range).await,
            };
            let piece = piece.map_err(|error| self.file_fault(&id, error))?;
            if piece.is_empty() {
                continue;
            }
            done += piece.len() as u64;
            let column: ArrayRef = Arc::new(BinaryArray::from_vec(vec![piece.as_slice()]));
            let batch = RecordBatch::try_new(schema.clone(), vec![column]).map_err(ApiError::bug)?;
            exchange.rows.batch(batch).await?;
            exchange.progress("decrypting", crate::api::Unit::Bytes, done, Some(wanted));
        }
        if done != wanted {
            return Err(ApiError::bug("a file gave another number of bytes than it has"));
        }
        Ok(GetReport {
            storage_id: id.to_string(),
            name: self
                .read()?
                .labels()?
                .into_iter()
                .find(|label| label.0 == id)
                .map(|label| label.1),
            content_bytes: content_len,
            offset,
            bytes: done,
            elapsed_ms: begun.elapsed().as_millis() as u64,
        })
    }

    /// The one file that an id, the beginning of one, or this node's name for it means.
    async fn resolve_file(&self, text: &str) -> Result<StorageId, ApiError> {
        let labels = self.read()?.labels()?;
        let called: Vec<StorageId> = labels
            .into_iter()
            .filter(|label| label.1 == text)
            .map(|label| label.0)
            .collect();
        match called.as_slice() {
            [one] => Ok(*one),
            [] => self.resolve_object(text).await,
            several => Err(ApiError::new(
                ErrorKind::BadInput,
                format!("{} files are called {text} here", several.len()),
            )
            .safe("nothing was given out")
            .next("name one by its id: sovm object list")),
        }
    }

    pub(super) async fn open_file(&self, id: StorageId) -> Result<Blob, ApiError> {
        let short = id.fmt_short();
        let snapshot = self.read()?;
        let Some(view) = self.object_view(&snapshot, &id)? else {
            return Err(
                ApiError::new(ErrorKind::NotFound, format!("no file {short} is known here")).next("sovm object list"),
            );
        };
        if view.kind != ObjectKind::File {
            return Err(ApiError::new(ErrorKind::BadInput, format!("object {short} is no file"))
                .safe("nothing was given out")
                .next("sovm sql reads rows; sovm object list shows which objects are files"));
        }
        if view.state.blocks_queries() {
            let (state, reason, _) = describe(&view.state);
            return Err(ApiError::new(
                ErrorKind::Incomplete,
                format!("file {short} is {}: {reason}", state.word()),
            )
            .safe("nothing was given out")
            .next("sovm run fetches what is missing, sovm status shows how far it is"));
        }
        let dek = self.find_dek(&id)?;
        Blob::open(&self.blobs, id, &dek)
            .await
            .map_err(|error| self.file_fault(&id, error))
    }

    /// Sets a bad object aside and says why nothing, or nothing more, came out of it (SOP-92).
    pub(super) fn file_fault(&self, id: &StorageId, error: OpenBlobError) -> ApiError {
        let fault = fault_of(&error);
        if let Some(fault) = &fault {
            self.report_fault(id, fault);
        }
        let kind = match fault {
            Some(ObjectFault::BytesGone) => ErrorKind::Incomplete,
            Some(_) => ErrorKind::Integrity,
            None => ErrorKind::Storage,
        };
        ApiError::new(
            kind,
            format!(
                "file {} cannot be read: {}",
                id.fmt_short(),
                super::convert::chain(&error)
            ),
        )
        .safe("no byte that did not verify was given out")
        .next("sovm object verify checks it; sovm status shows where an intact copy may come from")
    }
}

/// Where a file comes from.
enum Source {
    File(PathBuf),
    Stream(Box<dyn std::io::Read + Send + Sync>),
}

/// What is read next of an opened blob.
enum Step {
    Chunks(Range<u64>),
    Range(Range<u64>),
}

/// The steps of a whole read, which checks the padding too, or of a range, which touches only the chunks it needs.
fn steps(blob: &Blob, range: Option<Range<u64>>) -> Vec<Step> {
    match range {
        None => runs(blob.chunks()).map(Step::Chunks).collect(),
        Some(range) => {
            let step = CHUNKS_AT_ONCE * blob::CHUNK_BYTES;
            (range.start..range.end)
                .step_by(step as usize)
                .map(|start| Step::Range(start..range.end.min(start + step)))
                .collect()
        }
    }
}

/// All chunks of a blob in runs.
pub(super) fn runs(chunks: u64) -> impl Iterator<Item = Range<u64>> {
    (0..chunks)
        .step_by(CHUNKS_AT_ONCE as usize)
        .map(move |start| start..chunks.min(start + CHUNKS_AT_ONCE))
}

/// What is wrong with an object that does not open; `None` when it is not the object's fault.
pub(super) const fn fault_of(error: &OpenBlobError) -> Option<ObjectFault> {
    Some(match error {
        OpenBlobError::Read(ReadError::Missing { .. }) => ObjectFault::BytesGone,
        OpenBlobError::Read(ReadError::Store { .. }) => return None,
        OpenBlobError::Read(_) => ObjectFault::HashMismatch,
        OpenBlobError::KeyMismatch { .. } => ObjectFault::KeyMismatch,
        _ => ObjectFault::Malformed,
    })
}

fn put_file(file: &ReadyFile) -> PutFile {
    PutFile {
        storage_id: file.object.id().to_string(),
        name: file.name.clone(),
        content_bytes: file.content_len,
        size_bytes: file.object.size(),
    }
}

/// A name that can be shown and typed.
fn check_label(name: &str) -> Result<(), ApiError> {
    super::service::check_display_name(name).map_err(|error| error.safe("nothing was published"))
}

fn too_long(error: &blob::SealBlobError) -> ApiError {
    ApiError::new(ErrorKind::BadInput, error.to_string())
        .safe("nothing was published")
        .next("cut it into parts: split -b 4000M FILE")
}
