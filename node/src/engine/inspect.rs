//! Looking at single objects: list, show, verify, hexdump, key.

use std::collections::BTreeMap;

use sovm_catalog::{BadBytes, ByteEvent, ByteState, ObjectView, Read as _, Snapshot};
use sovm_mesh::net::store::Holding;
use sovm_object::{
    blob::stated_content_len,
    hlc::Hlc,
    id::StorageId,
    kek::KekRing,
    key::decode_bound,
    pme::{Claims, Footer, OpenOptions},
    record::{ObjectKind, Profile},
    verified::{ReadError, VerifiedRead},
};

use super::{core::Core, files::verify_blob, source::describe};
use crate::{
    api::{
        ColumnBounds, HexdumpReport, ObjectKeyReport, ObjectListReport, ObjectReport, ObjectState, ObjectSummary,
        VerifyReport, VerifyResult,
    },
    error::{ApiError, ErrorKind},
};

/// Bytes one hexdump shows at most.
const MAX_HEXDUMP_BYTES: u64 = 64 << 20;

/// The word for a kind.
const fn kind_word(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Data => "data",
        ObjectKind::Delete => "delete",
        ObjectKind::TombstoneSet => "tombstone-set",
        ObjectKind::Repack => "repack",
        ObjectKind::Companion => "companion",
        ObjectKind::Checkpoint => "checkpoint",
        ObjectKind::File => "file",
        ObjectKind::MutableFold => "mutable-fold",
        ObjectKind::EditionFile => "edition-file",
    }
}

impl Core {
    /// `object list`.
    pub(super) async fn list_objects(&self, table: Option<&str>) -> Result<ObjectListReport, ApiError> {
        let snapshot = self.read()?;
        let objects = match table {
            Some(name) => {
                let table = snapshot.find_table(None, name)?.genesis;
                let keys = self.keys();
                let none = KekRing::default();
                snapshot.objects(
                    &table.table_id,
                    keys.domain(&table.domain_id).map_or(&none, |keys| &keys.ring),
                )?
            }
            None => self.all_objects(&snapshot)?,
        };
        let mut known: std::collections::BTreeSet<StorageId> = objects.iter().map(|object| object.storage_id).collect();
        let labels: BTreeMap<StorageId, String> = snapshot.labels()?.into_iter().collect();
        let mut summaries: Vec<_> = objects
            .iter()
            .map(|object| summary(object, labels.get(&object.storage_id)))
            .collect();
        if table.is_none() {
            // Checkpoints, roots, and on a blind replica everything: bytes that no table here names.
            for held in self.blobs.list().await? {
                if known.insert(held.id()) {
                    summaries.push(self.held_summary(&snapshot, &held)?);
                }
            }
        }
        Ok(ObjectListReport { objects: summaries })
    }

    fn held_summary(
        &self,
        snapshot: &Snapshot,
        held: &sovm_mesh::net::store::Durable,
    ) -> Result<ObjectSummary, ApiError> {
        let kind = snapshot
            .object(&held.id(), &KekRing::default())?
            .first()
            .map(|view| kind_word(view.kind).to_owned());
        Ok(ObjectSummary {
            storage_id: held.id().to_string(),
            kind,
            table: None,
            name: None,
            state: ObjectState::Held,
            size_bytes: Some(held.size()),
            rows_stated: None,
            created_ms: None,
        })
    }

    /// The one object an id or a unique beginning of it means.
    pub(super) async fn resolve_object(&self, text: &str) -> Result<StorageId, ApiError> {
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        let all = self.list_objects(None).await?.objects;
        let found: Vec<_> = all
            .iter()
            .filter(|object| object.storage_id.starts_with(text))
            .collect();
        match (text.len() >= 4, found.as_slice()) {
            (true, [one]) => one.storage_id.parse().map_err(ApiError::bug),
            (true, []) | (false, _) => Err(ApiError::new(
                ErrorKind::NotFound,
                format!("no object here has an id that begins with {text}"),
            )
            .next("sovm object list; give at least four digits")),
            (true, _) => Err(
                ApiError::new(ErrorKind::BadInput, format!("{text} is the beginning of several ids"))
                    .next("give more digits: sovm object list"),
            ),
        }
    }

    /// The view of an object that a table of this node names.
    pub(super) fn object_view(&self, snapshot: &Snapshot, id: &StorageId) -> Result<Option<ObjectView>, ApiError> {
        let keys = self.keys();
        let mut best = None;
        for domain in snapshot.domains()? {
            let Some(domain_keys) = keys.domain(&domain.genesis.domain_id) else {
                continue;
            };
            for view in snapshot.object(id, &domain_keys.ring)? {
                let readable = matches!(view.state, sovm_catalog::ObjectState::Queryable);
                if best.is_none() || readable {
                    best = Some(view);
                }
            }
        }
        Ok(best)
    }

    /// `object show`.
    pub(super) async fn show_object(&self, text: &str) -> Result<ObjectReport, ApiError> {
        let id = self.resolve_object(text).await?;
        let snapshot = self.read()?;
        let Some(view) = self.object_view(&snapshot, &id)? else {
            let Holding::Durable(durable) = self.blobs.holding(id).await? else {
                return Err(unknown(&id));
            };
            return Ok(ObjectReport {
                summary: self.held_summary(&snapshot, &durable)?,
                manifest: None,
                producer: None,
                domain: None,
                generation: None,
                key_ref: None,
                exact_bytes: None,
                content_bytes: None,
                partition: Default::default(),
                statistics: Vec::new(),
                access_records: 0,
                verified_whole_ms: snapshot.byte_status(&id)?.and_then(|status| status.verified_ms),
                reason: None,
            });
        };
        let (hash, manifest) = view.manifests.first().cloned().ok_or_else(|| unknown(&id))?;
        let grants = snapshot.access_records(&id)?;
        let first = grants.first();
        let domain = match first {
            Some(grant) => snapshot
                .domains()?
                .into_iter()
                .find(|domain| domain.genesis.domain_id == grant.domain_id),
            None => None,
        };
        let mut statistics = Vec::new();
        let table = snapshot
            .tables()?
            .into_iter()
            .find(|table| Some(table.genesis.table_id) == manifest.table_id);
        if let Some(table) = table {
            let columns = table.columns.schema.columns().map_err(ApiError::bug)?;
            for bounds in manifest.pruning_statistics.iter().flatten() {
                let Some(column) = columns.iter().find(|column| column.field_id == bounds.field_id) else {
                    continue;
                };
                let text = |bytes: &Option<Vec<u8>>| {
                    let value = decode_bound(column.ty, bytes.as_deref()?).ok()?;
                    Some(format!("{value:?}"))
                };
                statistics.push(ColumnBounds {
                    column: column.name.clone(),
                    min: text(&bounds.min),
                    max: text(&bounds.max),
                    nulls: Some(bounds.null_count),
                });
            }
        }
        let (_, reason, _) = describe(&view.state);
        let label = snapshot.labels()?.into_iter().find(|label| label.0 == id);
        Ok(ObjectReport {
            summary: summary(&view, label.as_ref().map(|label| &label.1)),
            manifest: Some(hash.to_string()),
            producer: Some(manifest.producer.to_string()),
            domain: domain.map(|domain| domain.genesis.name),
            generation: first.map(|grant| grant.kek_generation),
            key_ref: Some(manifest.key_ref.to_string()),
            exact_bytes: Some(manifest.exact_byte_size),
            content_bytes: match view.kind {
                ObjectKind::File => stated_content_len(manifest.exact_byte_size),
                _ => None,
            },
            partition: manifest.partition_values.clone().unwrap_or_default().0,
            statistics,
            access_records: grants.len() as u64,
            verified_whole_ms: view.bytes.and_then(|bytes| bytes.verified_ms),
            reason: (!reason.is_empty()).then_some(reason),
        })
    }

    /// `object hexdump`.
    pub(super) async fn hexdump(&self, text: &str, offset: u64, length: u64) -> Result<HexdumpReport, ApiError> {
        let id = self.resolve_object(text).await?;
        let size = self.proven_size(id).await?;
        let start = offset.min(size);
        let end = size.min(start.saturating_add(length.min(MAX_HEXDUMP_BYTES)));
        let mut hex = String::new();
        if start < end {
            for part in VerifiedRead::read(&self.blobs, id, &[start..end])
                .await
                .map_err(|error| read_error(&id, &error))?
            {
                hex.push_str(&hex::encode(&part[..]));
            }
        }
        Ok(HexdumpReport {
            storage_id: id.to_string(),
            offset: start,
            size_bytes: size,
            hex,
        })
    }

    async fn proven_size(&self, id: StorageId) -> Result<u64, ApiError> {
        if !self.blobs.has(id).await? {
            return Err(ApiError::new(
                ErrorKind::NotFound,
                format!("the bytes of {} are not here", id.fmt_short()),
            )
            .next("sovm object list"));
        }
        VerifiedRead::size(&self.blobs, id)
            .await
            .map_err(|error| read_error(&id, &error))
    }

    /// `object key`.
    pub(super) async fn object_key(&self, text: &str) -> Result<ObjectKeyReport, ApiError> {
        let id = self.resolve_object(text).await?;
        let dek = self.find_dek(&id)?;
        Ok(ObjectKeyReport {
            storage_id: id.to_string(),
            dek_hex: hex::encode(dek.expose_for_sealing()),
        })
    }

    /// An object's DEK through any domain of this node.
    pub(super) fn find_dek(&self, id: &StorageId) -> Result<sovm_object::secret::Dek, ApiError> {
        let snapshot = self.read()?;
        let keys = self.keys();
        let mut last = None;
        for domain in snapshot.domains()? {
            if let Some(domain_keys) = keys.domain(&domain.genesis.domain_id) {
                match snapshot.dek(id, &domain_keys.ring) {
                    Ok(dek) => return Ok(dek),
                    Err(error) => last = Some(error),
                }
            }
        }
        Err(last.map_or_else(|| unknown(id), ApiError::from))
    }

    /// `object verify`: every byte against the id, every tag, and the figures of manifest and footer.
    pub(super) async fn verify_objects(&self, ids: &[String]) -> Result<VerifyReport, ApiError> {
        let mut wanted = Vec::new();
        for text in ids {
            wanted.push(self.resolve_object(text).await?);
        }
        if ids.is_empty() {
            wanted = self.objects_to_verify().await?;
        }
        let mut report = VerifyReport {
            objects: Vec::new(),
            bytes: 0,
        };
        let mut walked = Vec::new();
        for id in wanted {
            let result = self.verify_object(id).await?;
            if result.bytes > 0 {
                walked.push(id);
            }
            report.bytes += result.bytes;
            report.objects.push(result);
        }
        self.note_verified(&walked)?;
        Ok(report)
    }

    async fn verify_object(&self, id: StorageId) -> Result<VerifyResult, ApiError> {
        let mut result = VerifyResult {
            storage_id: id.to_string(),
            findings: Vec::new(),
            bytes: 0,
            healing: None,
        };
        match self.blobs.scrub(id).await {
            Ok(bytes) => {
                result.bytes = bytes;
                self.take_back_whole(id).await?;
            }
            Err(ReadError::Missing { .. }) => {
                result.findings.push("its bytes are not here".to_owned());
                result.healing = Some(self.way_back()?);
                self.set_aside(id, ByteEvent::Missing).await?;
                return Ok(result);
            }
            // The disk or the store failed, which says nothing about the object.
            Err(error @ ReadError::Store { .. }) => return Err(read_error(&id, &error)),
            Err(error) => {
                result.findings.push(format!("its bytes do not match its id: {error}"));
                result.healing = Some(self.way_back()?);
                self.set_aside(id, ByteEvent::Bad(BadBytes::HashMismatch)).await?;
                return Ok(result);
            }
        }
        let snapshot = self.read()?;
        let Some(view) = self.object_view(&snapshot, &id)? else {
            return Ok(result);
        };
        let Some((_, manifest)) = view.manifests.first() else {
            return Ok(result);
        };
        let dek = match self.find_dek(&id) {
            Ok(dek) => dek,
            Err(error) => {
                result
                    .findings
                    .push(format!("the ciphertext is whole; it was not decrypted: {error}"));
                return Ok(result);
            }
        };
        let opened = match manifest.profile {
            Profile::Pme1 => self.verify_rows(id, &dek, manifest).await,
            Profile::Blob1 => verify_blob(&self.blobs, id, &dek, manifest)
                .await
                .map_err(|error| super::convert::chain(&error)),
        };
        match opened {
            Ok(findings) => result.findings.extend(findings),
            Err(error) => {
                result.findings.push(error);
                self.note_bytes(&id, ByteEvent::Bad(BadBytes::NotAsDescribed), None)?;
            }
        }
        Ok(result)
    }

    /// Nothing but a walk over all bytes says "verified whole" (SOP-104, SOP-105). One step for all: each step waits for the
    /// disk. What a walk found bad has its state moved by now, and gets no note.
    fn note_verified(&self, walked: &[StorageId]) -> Result<(), ApiError> {
        let now_ms = self.now_ms();
        let mut txn = self.catalog.begin()?;
        let mut noted = false;
        for id in walked {
            noted |= txn.note_verified_whole(id, now_ms)?;
        }
        if noted {
            self.save(txn)?;
        }
        Ok(())
    }

    /// Decrypts and decodes every row and compares what manifest and footer state.
    async fn verify_rows(
        &self,
        id: StorageId,
        dek: &sovm_object::secret::Dek,
        manifest: &sovm_object::record::ObjectManifest,
    ) -> Result<Vec<String>, String> {
        let footer = Footer::open(&self.blobs, id, dek, OpenOptions::default())
            .await
            .map_err(|error| error.to_string())?;
        footer.check_sources(manifest).map_err(|error| error.to_string())?;
        let claims = Claims {
            key_ref: Some(manifest.key_ref),
            exact_byte_size: Some(manifest.exact_byte_size),
        };
        let findings = footer
            .audit(&claims)
            .iter()
            .map(|finding| finding.to_string())
            .collect();
        let projection = footer.project_all();
        let mut rows = 0;
        for group in 0..footer.row_groups() {
            let plan = footer.plan(&[group], &projection).map_err(|error| error.to_string())?;
            let chunks = VerifiedRead::read(&self.blobs, id, plan.ranges())
                .await
                .map_err(|error| error.to_string())?;
            let batches = footer
                .decode(&plan, chunks, Default::default())
                .map_err(|error| error.to_string())?;
            for batch in batches {
                rows += batch.map_err(|error| error.to_string())?.num_rows() as u64;
            }
        }
        if rows != manifest.row_count {
            return Err(format!(
                "it holds {rows} rows and its manifest states {}",
                manifest.row_count
            ));
        }
        Ok(findings)
    }
}

fn summary(view: &ObjectView, label: Option<&String>) -> ObjectSummary {
    let (state, ..) = describe(&view.state);
    let manifest = view.manifests.first().map(|(_, manifest)| manifest);
    let table = manifest.and_then(|manifest| {
        let name = manifest.table_name.clone()?;
        Some(match manifest.table_schema.as_deref() {
            Some("main") | None => name,
            Some(schema) => format!("{schema}.{name}"),
        })
    });
    ObjectSummary {
        storage_id: view.storage_id.to_string(),
        kind: Some(kind_word(view.kind).to_owned()),
        table,
        name: label.cloned(),
        state,
        size_bytes: view
            .bytes
            .filter(|bytes| bytes.state == ByteState::Available)
            .map(|bytes| bytes.size),
        rows_stated: manifest
            .filter(|manifest| manifest.profile == Profile::Pme1)
            .map(|manifest| manifest.row_count),
        created_ms: manifest.map(|manifest| Hlc::millis(manifest.created_hlc)),
    }
}

fn unknown(id: &StorageId) -> ApiError {
    ApiError::new(
        ErrorKind::NotFound,
        format!("this node knows nothing of object {}", id.fmt_short()),
    )
    .next("sovm object list")
}

pub(super) fn read_error(id: &StorageId, error: &ReadError) -> ApiError {
    ApiError::new(
        ErrorKind::Integrity,
        format!("object {}: {}", id.fmt_short(), super::convert::chain(error)),
    )
    .safe("no byte that was not verified was given out")
    .next(format!("sovm object verify {}", id.fmt_short()))
}
