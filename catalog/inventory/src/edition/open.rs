//! A sealed edition, opened to be read.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use arrow::{
    array::{Array as _, BooleanArray, RecordBatch},
    compute::filter_record_batch,
    util::display::{ArrayFormatter, FormatOptions},
};

use super::{
    EditionError, ProductEditions, Stamps, TableList,
    check::{CheckOptions, EditionFindings},
    check_on_open,
    content::Content,
    data::{Batches, DataFile},
};
use crate::{
    doc::{Binding, EditionId, Manifest, Sha256, Stored, Urn},
    fingerprint::parquet_table::ParquetTableError,
    structure::{ArtefactUrn, model::Artefact},
    writer::Clock,
};

/// A sealed edition, opened: its structures and its observations, by dataflow.
///
/// It may be open in many processes at once (INV-62) and changes nothing (INV-58, INV-63). What it answers is found by URN and by
/// codes; there is no SQL, so no text of a request ever reaches an engine that other requests share:
///
/// ```compile_fail,E0599
/// # use sovm_inventory::edition::OpenEdition;
/// // INV-59: the read type has no raw SQL.
/// fn wrong(edition: &OpenEdition, request: &str) { edition.sql(request); }
/// ```
#[derive(Debug, Clone)]
pub struct OpenEdition {
    place: ProductEditions,
    manifest: Arc<Stored<Manifest>>,
    list: TableList,
    content: Content,
}

impl OpenEdition {
    /// INV-58, INV-117: opens a sealed edition by the hash its manifest is recorded with, once the check for opening finds nothing
    /// wrong. Structures are read; observations are read when they are asked for.
    pub async fn open(
        place: &ProductEditions,
        edition: &EditionId,
        manifest_sha256: Sha256,
        stamps: &Stamps,
        clock: &dyn Clock,
        options: &CheckOptions<'_>,
    ) -> Result<Self, EditionError> {
        let options = CheckOptions {
            manifest_sha256: Some(manifest_sha256),
            ..options.clone()
        };
        let report = check_on_open(place, edition, stamps, clock, &options).await?;
        let (profile, findings) = (report.profile, report.findings);
        let Some(manifest) = report.manifest.filter(|_| findings.is_empty()) else {
            return Err(EditionFindings { profile, findings }.into());
        };
        let manifest = Arc::new(manifest.verified_by(manifest_sha256)?);
        let (list, _) = super::build::read_list(place, edition).await?;
        let content = Content::load(place, edition, &list).await?;
        Ok(Self {
            place: place.clone(),
            manifest,
            list,
            content,
        })
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Stored<Manifest> {
        &self.manifest
    }

    /// Its dataflows, sorted, with what the manifest binds to each.
    pub fn browse(&self) -> impl Iterator<Item = &Binding> {
        self.manifest.bindings.iter()
    }

    /// What a dataflow is bound to: its data structure, its counts and its fingerprints.
    pub fn binding_for(&self, dataflow: &Urn) -> Option<&Binding> {
        self.manifest
            .bindings
            .iter()
            .find(|binding| binding.dataflow == *dataflow)
    }

    /// An artefact by its URN.
    pub fn get(&self, urn: &Urn) -> Option<&Artefact> {
        let urn = ArtefactUrn::parse(urn.as_str()).ok()?;
        self.content.structures.get(&urn)
    }

    /// A dataflow's data structure: the version its binding pins (INV-51).
    pub fn dsd(&self, dataflow: &Urn) -> Option<&Artefact> {
        self.get(&self.binding_for(dataflow)?.structural_version)
    }

    /// Every observation of a dataflow.
    pub async fn obs(&self, dataflow: &Urn) -> Result<Observations, EditionError> {
        self.query(dataflow, Selection::default()).await
    }

    /// The observations of a dataflow whose components have the codes selected.
    pub async fn query(&self, dataflow: &Urn, selection: Selection) -> Result<Observations, EditionError> {
        let no_table = || EditionError::NoTable {
            dataflow: dataflow.clone(),
        };
        let table = self.list.table(dataflow).ok_or_else(no_table)?;
        self.binding_for(dataflow).ok_or_else(no_table)?;
        let mut files = VecDeque::with_capacity(table.files.len());
        for listed in &table.files {
            let Some(file) = self.place.data().open(&listed.path).await? else {
                let (path, dataflow) = (listed.path.clone(), dataflow.clone());
                return Err(EditionError::NoData { path, dataflow });
            };
            files.push_back(file);
        }
        Ok(Observations {
            files,
            parts: VecDeque::new(),
            selection,
        })
    }
}

/// Codes by component: an observation is selected when each component named has one of its codes. An empty one selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection(BTreeMap<String, BTreeSet<String>>);

impl Selection {
    /// Adds a code that a component may have. It is a value to compare with and nothing else, whatever text it is.
    #[must_use]
    pub fn with(mut self, component: &str, code: &str) -> Self {
        self.0.entry(component.to_owned()).or_default().insert(code.to_owned());
        self
    }

    fn of(&self, batch: &RecordBatch) -> Result<RecordBatch, ParquetTableError> {
        let mut keep = vec![true; batch.num_rows()];
        for (component, codes) in &self.0 {
            let Some(column) = batch.column_by_name(component) else {
                return Err(ParquetTableError::Unreadable(format!(
                    "it has no component {component:?}"
                )));
            };
            let shown = ArrayFormatter::try_new(column, &FormatOptions::new())?;
            for (row, keep) in keep.iter_mut().enumerate() {
                *keep = *keep && column.is_valid(row) && codes.contains(shown.value(row).try_to_string()?.as_str());
            }
        }
        Ok(filter_record_batch(batch, &BooleanArray::from(keep))?)
    }
}

/// Observations, batch by batch, in the order of the table's files. Reading may block.
pub struct Observations {
    files: VecDeque<Arc<dyn DataFile>>,
    parts: VecDeque<Batches>,
    selection: Selection,
}

impl std::fmt::Debug for Observations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observations")
            .field("files", &self.files.len())
            .field("selection", &self.selection)
            .finish_non_exhaustive()
    }
}

impl Iterator for Observations {
    type Item = Result<RecordBatch, ParquetTableError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(part) = self.parts.front_mut() {
                match part.next() {
                    None => drop(self.parts.pop_front()),
                    Some(Err(error)) => return Some(Err(error.into())),
                    Some(Ok(batch)) => match self.selection.of(&batch) {
                        Ok(selected) if selected.num_rows() == 0 => {}
                        selected => return Some(selected),
                    },
                }
                continue;
            }
            match self.files.pop_front()?.parts() {
                Ok(parts) => self.parts = parts.into(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
