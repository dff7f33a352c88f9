//! Sealing an edition, in the order of INV-400.
//!
//! Each step takes the one before it apart, so that no other order can be written:
//!
//! | step | type | does |
//! |---|---|---|
//! | [`EditionBuilder::begin_seal`] | [`Journalled`] | repairs what an earlier seal left, writes the journal |
//! | [`Journalled::flush`] | [`Flushed`] | nothing unflushed: no `.wal`, no delete file, no orphaned table, every declared file there |
//! | [`Flushed::fingerprint`] | [`Fingerprinted`] | reads every row and structure, checks the references |
//! | [`Fingerprinted::list_files`] | [`Listed`] | digests every file, or carries its digests forward |
//! | [`Listed::within`] | [`Listed`] | when asked: refuses more required bytes than readers can pull in time |
//! | [`Listed::write_manifest`] | [`Sealed`] | `manifest.json`, complete before it is visible |
//!
//! A seal that dies before the manifest leaves an unsealed edition, which is resumed and sealed again; one that dies after it
//! leaves a sealed edition with a journal, which the next begin or resume records (INV-269, INV-270).
//!
//! ```compile_fail,E0599
//! # use sovm_inventory::edition::{EditionBuilder, EditionError, seal::SealRequest};
//! // INV-400: nothing is fingerprinted before it is flushed.
//! async fn wrong(builder: EditionBuilder, request: SealRequest) -> Result<(), EditionError> {
//!     builder.begin_seal(request).await?.fingerprint().await?;
//!     Ok(())
//! }
//! ```
//!
//! ```compile_fail,E0599
//! # use sovm_inventory::edition::{EditionBuilder, EditionError, seal::SealRequest};
//! // INV-20, INV-400: no manifest before the files are listed.
//! async fn wrong(builder: EditionBuilder, request: SealRequest) -> Result<(), EditionError> {
//!     builder.begin_seal(request).await?.flush().await?.write_manifest().await?;
//!     Ok(())
//! }
//! ```
//!
//! ```compile_fail,E0382
//! # use sovm_inventory::edition::{EditionBuilder, EditionError, seal::SealRequest};
//! // INV-99: what is being sealed is no longer built.
//! async fn wrong(mut builder: EditionBuilder, request: SealRequest) -> Result<(), EditionError> {
//!     builder.begin_seal(request).await?;
//!     builder.remove_file(&"x".parse()?).await
//! }
//! ```

use std::{collections::BTreeSet, sync::Arc};

use super::{
    EditionBuilder, EditionError, SCHEMA_VERSION, TableList,
    carry::{data_entry, edition_entry},
    content::{Content, fingerprint_table, sha256_fingerprint},
    copy::{file_path, write_once},
    is_delete_file,
};
use crate::{
    doc::{
        ArtefactRecord, Binding, EditionId, EngineVersions, FileEntry, FormatVersion, Instant, Journal, JsonObject,
        Manifest, Sha256, Stored, Tier,
    },
    fingerprint::{CanonicalForm, EditionFingerprints},
    structure::{
        Structures,
        reference::{check_data_edition, check_structure_edition},
    },
};

/// What a seal is told besides what the edition holds.
#[derive(Debug, Clone, Default)]
pub struct SealRequest {
    /// INV-46: what the producer records for itself.
    pub producer_fields: JsonObject,
    /// Sections keyed by package, each with a `format_version` of its own (INV-55).
    pub extensions: JsonObject,
    /// INV-239: for a structure edition, the live and embargoed structure editions its references may resolve in, and what to
    /// call them.
    pub other_structures: Vec<(String, Structures)>,
    /// When it is to be released; kept in the journal, so that a seal that is interrupted is completed with it.
    pub release_at: Option<Instant>,
}

/// An edition whose journal is written.
#[derive(Debug)]
pub struct Journalled {
    builder: EditionBuilder,
    request: SealRequest,
}

/// An edition with nothing unflushed.
#[derive(Debug)]
pub struct Flushed(Journalled);

/// An edition whose fingerprints are computed.
#[derive(Debug)]
pub struct Fingerprinted {
    flushed: Flushed,
    form: CanonicalForm,
    bindings: Vec<Binding>,
    artefacts: Vec<ArtefactRecord>,
    content_fingerprint: Sha256,
}

/// An edition whose files are listed and digested.
#[derive(Debug)]
pub struct Listed {
    fingerprinted: Fingerprinted,
    files: Vec<FileEntry>,
}

/// A sealed edition, which no version names yet.
#[derive(Debug, Clone)]
pub struct Sealed {
    /// Its manifest, as it was written.
    pub manifest: Arc<Stored<Manifest>>,
}

impl EditionBuilder {
    /// INV-268: repairs what an earlier seal of this product left unrecorded (INV-271), then writes the journal.
    pub async fn begin_seal(self, request: SealRequest) -> Result<Journalled, EditionError> {
        self.publisher.repair().await?;
        self.still_unsealed().await?;
        let journal = Journal {
            product_id: self.list.product_id.clone(),
            edition_id: self.list.edition_id,
            previous: self.list.previous,
            sealed_at: self.publisher.now(),
            release_at: request.release_at,
        };
        self.publisher.writer().begin_seal(&journal).await?;
        Ok(Journalled { builder: self, request })
    }

    /// The whole seal, from the journal to the manifest.
    pub async fn seal(self, request: SealRequest) -> Result<Sealed, EditionError> {
        let journalled = self.begin_seal(request).await?;
        let fingerprinted = journalled.flush().await?.fingerprint().await?;
        fingerprinted.list_files().await?.write_manifest().await
    }
}

impl Journalled {
    /// INV-92 to INV-96: refuses what isn't flushed, and drops what a search index or an interrupted change left over (INV-32).
    pub async fn flush(self) -> Result<Flushed, EditionError> {
        let (list, place) = (&self.builder.list, self.builder.publisher.place());
        let declared: BTreeSet<&str> = list.edition_files().map(|(path, _)| path).collect();
        let mut present = BTreeSet::new();
        for file in place.files_in(&list.edition_id).await? {
            let name = &file.relative;
            if file.is_manifest() {
                continue;
            }
            if file.is_wal() {
                let path = name.clone();
                return Err(EditionError::Wal { path });
            }
            if !declared.contains(name.as_str()) {
                if !is_leftover(name, &list.edition_id) {
                    let path = name.clone();
                    return Err(EditionError::Undeclared { path });
                }
                let _lock = place.store.lock().await?;
                self.builder.still_unsealed().await?;
                place.store.delete(&file.store_path).await?;
                continue;
            }
            present.insert(name.clone());
        }
        if let Some(path) = declared.iter().find(|path| !present.contains(**path)) {
            let path = (*path).to_owned();
            return Err(EditionError::DeclaredMissing { path });
        }
        for (dataflow, file) in list.data() {
            let path = file.path.clone();
            if is_delete_file(&path) {
                return Err(EditionError::DeleteFile { path });
            }
            if place.data.open(&path).await?.is_none() {
                let dataflow = dataflow.clone();
                return Err(EditionError::NoData { path, dataflow });
            }
        }
        Ok(Flushed(self))
    }
}

/// INV-32: a search table carries the id of the edition it was made for, so one of another edition is orphaned unless it is
/// declared; a structure message nobody declares is left of an interrupted change.
fn is_leftover(name: &str, edition_id: &EditionId) -> bool {
    let of_another_edition = || {
        let starts = name.char_indices().map(|(at, _)| at);
        let mut ids = starts.filter_map(|at| name.get(at..at + 36)?.parse::<EditionId>().ok());
        ids.any(|id| id != *edition_id)
    };
    name.starts_with(TableList::STRUCTURES) || (name.starts_with("search/") && of_another_edition())
}

impl Flushed {
    /// Computes every fingerprint from rows and texts; INV-87: refuses references that resolve nowhere.
    pub async fn fingerprint(self) -> Result<Fingerprinted, EditionError> {
        let builder = &self.0.builder;
        let content = builder.content().await?;
        let unresolved = check_references(&content, &builder.list, &self.0.request.other_structures);
        if !unresolved.is_empty() {
            return Err(EditionError::Unresolved(unresolved));
        }
        let form = content.form();
        let mut fingerprints = EditionFingerprints::new(form.clone());
        let mut artefacts = Vec::with_capacity(content.records.records.len());
        for record in &content.records.records {
            let fingerprint = Sha256::from_bytes(*record.fingerprint.as_bytes());
            fingerprints.artefact(record.urn.as_str(), sha256_fingerprint(&form, fingerprint)?)?;
            artefacts.push(ArtefactRecord {
                urn: record.urn.as_str().parse()?,
                fingerprint,
                partial_of: record.partial_of.map(|full| Sha256::from_bytes(*full.as_bytes())),
            });
        }
        artefacts.sort_by(|one, other| one.urn.cmp(&other.urn));
        let mut bindings = Vec::with_capacity(builder.list.tables.len());
        let closures = content.closures();
        for table in &builder.list.tables {
            let (structural_version, structure) = closures.of(&table.dataflow)?;
            let rows = fingerprint_table(builder.publisher.place(), &form, table).await?;
            bindings.push(Binding {
                dataflow: table.dataflow.clone(),
                observations: rows.rows(),
                structural_version,
                fingerprint: rows.to_string().parse()?,
                structure_fingerprint: structure.to_string().parse()?,
            });
            fingerprints.binding(table.dataflow.as_str(), rows, structure)?;
        }
        let content_fingerprint: Sha256 = fingerprints.product()?.to_string().parse()?;
        Ok(Fingerprinted {
            flushed: self,
            form,
            bindings,
            artefacts,
            content_fingerprint,
        })
    }
}

/// INV-87, INV-239, INV-240: the references of an edition that resolve nowhere they may.
pub(super) fn check_references(
    content: &Content,
    list: &TableList,
    others: &[(String, Structures)],
) -> Vec<crate::structure::reference::Unresolved> {
    if list.tables.is_empty() {
        let others: Vec<(String, &Structures)> = others.iter().map(|(name, other)| (name.clone(), other)).collect();
        check_structure_edition(&content.structures, &others)
    } else {
        check_data_edition(&content.structures)
    }
}

impl Fingerprinted {
    /// INV-47 to INV-50, INV-56: the entry of every file, sorted by root, then path.
    pub async fn list_files(self) -> Result<Listed, EditionError> {
        let builder = &self.flushed.0.builder;
        let (list, place) = (&builder.list, builder.publisher.place());
        let mut files = Vec::new();
        for (dataflow, file) in list.data() {
            files.push(data_entry(place, dataflow, file, builder.previous.as_deref().map(Stored::value)).await?);
        }
        for (name, tier) in list.edition_files() {
            let path = name.to_owned();
            let Some(found) = place.store.get(&place.file(&list.edition_id, &name)?).await? else {
                return Err(EditionError::DeclaredMissing { path });
            };
            files.push(edition_entry(file_path(name)?, tier, &found.bytes)?);
        }
        files.sort_by(|one, other| (one.root, &one.path).cmp(&(other.root, &other.path)));
        let fingerprinted = self;
        Ok(Listed { fingerprinted, files })
    }
}

impl Listed {
    /// INV-16: how many bytes a reader pulls before it can open the edition.
    pub fn required_bytes(&self) -> u64 {
        let required = self.files.iter().filter(|file| file.tier == Tier::Required);
        required.map(|file| file.size).fold(0, u64::saturating_add)
    }

    /// INV-16: refuses an edition whose required files have more than `budget` bytes: it would not be attached in the time its
    /// readers have. Nothing was written yet; the edition is resumed, changed and sealed again.
    pub fn within(self, budget: u64) -> Result<Self, EditionError> {
        let required = self.required_bytes();
        let largest = self.files.iter().filter(|file| file.tier == Tier::Required);
        match largest.max_by_key(|file| file.size) {
            Some(largest) if required > budget => Err(EditionError::OverBudget {
                required,
                budget,
                largest: largest.path.clone(),
            }),
            _ => Ok(self),
        }
    }

    /// INV-20: writes the manifest, last, and complete before it is visible.
    ///
    /// Under the lock that every change of the directory takes it looks once more: what is listed is all that is there, and
    /// the table list is the one that was fingerprinted.
    pub async fn write_manifest(self) -> Result<Sealed, EditionError> {
        let Fingerprinted {
            flushed: Flushed(Journalled { builder, request }),
            form,
            bindings,
            artefacts,
            content_fingerprint,
        } = self.fingerprinted;
        let (list, place) = (&builder.list, builder.publisher.place());
        let edition_id = list.edition_id;
        let manifest = Manifest {
            format_version: FormatVersion::MANIFEST,
            product_id: list.product_id.clone(),
            edition_id,
            previous: list.previous,
            created_at: builder.publisher.now(),
            producer: builder.publisher.producer().clone(),
            schema_version: SCHEMA_VERSION.parse()?,
            engine: EngineVersions::default(),
            files: self.files,
            bindings,
            artefacts,
            canonical_form: form.as_str().parse()?,
            content_fingerprint: Some(content_fingerprint),
            producer_fields: request.producer_fields,
            extensions: request.extensions,
            extra: JsonObject::new(),
        };
        manifest.check_as_written()?;
        let _lock = place.store.lock().await?;
        builder.still_unsealed().await?;
        let (_, revision) = super::build::read_list(place, &edition_id).await?;
        if revision != builder.revision {
            return Err(EditionError::ChangedMeanwhile { edition_id });
        }
        let listed: BTreeSet<&str> = list.edition_files().map(|(path, _)| path).collect();
        let there = place.files_in(&edition_id).await?;
        let unlisted = there
            .iter()
            .find(|file| !file.is_manifest() && !listed.contains(file.relative.as_str()));
        if let Some(file) = unlisted {
            let path = file.relative.clone();
            return Err(EditionError::Undeclared { path });
        }
        let manifest = Stored::encode(manifest)?;
        let _ = write_once(place, &place.manifest_path(&edition_id)?, manifest.bytes().clone()).await?;
        let manifest = Arc::new(manifest);
        Ok(Sealed { manifest })
    }
}
