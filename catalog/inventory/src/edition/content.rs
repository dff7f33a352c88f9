//! What an edition's files say: its structures, and the fingerprints of its tables.

use std::{collections::BTreeMap, num::NonZeroUsize};

use futures::{StreamExt as _, TryStreamExt as _};

use super::{
    EditionError, ProductEditions, TableList,
    data::{DataFile, TablePart, blocking},
    table_list::ListedTable,
};
use crate::{
    doc::{EditionId, Sha256, TableFingerprint, Urn},
    fingerprint::{CanonicalForm, Fingerprint, StructuralFingerprint, Structure, Table},
    store::StoreError,
    structure::{
        ArtefactFingerprint, ArtefactUrn, Structures,
        closure::{Closures, LookupError},
        message::{Limits, read_json, read_xml},
        record::{ArtefactRecords, record},
    },
};

/// The structures of an edition, and what its manifest records of them.
#[derive(Debug, Clone)]
pub(super) struct Content {
    pub(super) structures: Structures,
    pub(super) records: ArtefactRecords,
}

impl Content {
    /// Reads every structure message an edition lists.
    pub(super) async fn load(
        place: &ProductEditions,
        edition: &EditionId,
        list: &TableList,
    ) -> Result<Self, EditionError> {
        let mut structures = Structures::default();
        let mut partial_of = BTreeMap::new();
        for file in &list.structures {
            let path = file.path.to_string();
            let Some(found) = place.store.get(&place.file(edition, &path)?).await? else {
                return Err(EditionError::DeclaredMissing { path });
            };
            for artefact in parse(&file.path, &found.bytes)?.iter() {
                structures.insert(artefact.clone())?;
            }
            for (urn, fingerprint) in &file.partial_of {
                let text = |what: &dyn std::fmt::Display| EditionError::NoStructure {
                    urn: what.to_string(),
                    dataflow: urn.clone(),
                };
                let artefact = ArtefactUrn::parse(urn.as_str()).map_err(|_| text(urn))?;
                let full: ArtefactFingerprint = fingerprint.to_string().parse().map_err(|_| text(fingerprint))?;
                partial_of.insert(artefact, full);
            }
        }
        let records = record(&structures, &partial_of)?;
        Ok(Self { structures, records })
    }

    /// INV-40: the form all of the edition's fingerprints have.
    pub(super) fn form(&self) -> CanonicalForm {
        use crate::structure::CanonicalForm as Model;
        match self.records.form {
            Model::One => CanonicalForm::ONE,
            Model::Sovm1 => CanonicalForm::SOVM_1,
        }
    }

    /// What stands behind the edition's dataflows.
    pub(super) fn closures(&self) -> EditionClosures<'_> {
        EditionClosures {
            content: self,
            closures: Closures::new(&self.structures),
        }
    }
}

/// The closures of an edition's dataflows, with the fingerprints that are recorded.
pub(super) struct EditionClosures<'a> {
    content: &'a Content,
    closures: Closures<'a>,
}

impl EditionClosures<'_> {
    /// INV-51: a dataflow's pinned data structure and its structural fingerprint.
    pub(super) fn of(&self, dataflow: &Urn) -> Result<(Urn, Fingerprint<Structure>), EditionError> {
        let missing = |urn: &dyn std::fmt::Display| EditionError::NoStructure {
            urn: urn.to_string(),
            dataflow: dataflow.clone(),
        };
        let urn = ArtefactUrn::parse(dataflow.as_str()).map_err(|_| missing(dataflow))?;
        let closure = self.closures.of(&urn).map_err(|error| match error {
            LookupError::NoDataflow { dataflow } => missing(&dataflow),
            LookupError::NoStructure { structure, .. } => missing(&structure),
            ambiguous @ LookupError::AmbiguousStructure { .. } => ambiguous.into(),
        })?;
        let form = self.content.form();
        let mut fingerprint = StructuralFingerprint::new(form.clone(), dataflow.as_str())?;
        let records = self.content.records.records.iter();
        for record in records.filter(|record| closure.artefacts.contains(&record.urn)) {
            let recorded = Fingerprint::parse(form.clone(), &record.fingerprint.to_string());
            let recorded = recorded.map_err(|_| missing(&record.fingerprint))?;
            fingerprint.add(record.urn.as_str(), &recorded)?;
        }
        Ok((closure.structural_version.as_str().parse()?, fingerprint.finish()?))
    }
}

/// Reads a structure message by its name's ending.
pub(super) fn parse(path: &crate::doc::FilePath, bytes: &[u8]) -> Result<Structures, EditionError> {
    let read = if path.as_str().ends_with(".xml") {
        read_xml
    } else {
        read_json
    };
    match read(bytes, Limits::default()) {
        Ok(message) => Ok(message.structures),
        Err(source) => Err(EditionError::Message {
            path: path.clone(),
            source: Box::new(source),
        }),
    }
}

/// INV-73: reads every file of a table and adds their fingerprints up, on all cores.
pub(super) async fn fingerprint_table(
    place: &ProductEditions,
    form: &CanonicalForm,
    table: &ListedTable,
) -> Result<Fingerprint<Table>, EditionError> {
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    // Many files are read side by side, a thread for each; few files one by one, each by all threads.
    let (files, threads) = match table.files.len() >= threads.get() {
        true => (threads, NonZeroUsize::MIN),
        false => (NonZeroUsize::MIN, threads),
    };
    let parts = table.files.iter().map(|listed| async move {
        let Some(file) = place.data.open(&listed.path).await? else {
            let (path, dataflow) = (listed.path.clone(), table.dataflow.clone());
            return Err(EditionError::NoData { path, dataflow });
        };
        let part = read_part(file, form.clone(), threads, &listed.path).await?;
        Ok((listed, part))
    });
    // Collected first: the iterator borrows the table, and the stream must be able to move between threads.
    let parts: Vec<_> = parts.collect();
    let mut parts = futures::stream::iter(parts).buffered(files.get());
    let mut total = TableFingerprint { sum: 0, rows: 0 };
    let mut first: Option<(&crate::doc::FilePath, String)> = None;
    while let Some((listed, part)) = parts.try_next().await? {
        if part.fingerprint.rows() != listed.rows {
            return Err(EditionError::Rows {
                path: listed.path.clone(),
                found: part.fingerprint.rows(),
                counted: listed.rows,
            });
        }
        match &first {
            None => first = Some((&listed.path, part.columns)),
            Some((path, columns)) if *columns != part.columns => {
                return Err(EditionError::DifferentColumns {
                    first: (*path).clone(),
                    second: listed.path.clone(),
                    columns: format!("{columns}; and {}", part.columns),
                });
            }
            Some(_) => {}
        }
        let part: TableFingerprint = part.fingerprint.to_string().parse()?;
        // Sum and rows are bounded by rows that were read; see the bound in the document's type.
        total.sum = total.sum.saturating_add(part.sum);
        total.rows = total.rows.saturating_add(part.rows);
    }
    table_fingerprint(form, total)
}

/// A manifest's table fingerprint under its form.
pub(super) fn table_fingerprint(
    form: &CanonicalForm,
    value: TableFingerprint,
) -> Result<Fingerprint<Table>, EditionError> {
    Fingerprint::parse(form.clone(), &value.to_string()).map_err(|error| unreadable("a table fingerprint", error))
}

/// A manifest's SHA-256 fingerprint under its form.
pub(super) fn sha256_fingerprint<K: crate::fingerprint::value::Kind>(
    form: &CanonicalForm,
    value: Sha256,
) -> Result<Fingerprint<K>, EditionError> {
    Fingerprint::parse(form.clone(), &value.to_string()).map_err(|error| unreadable("a fingerprint", error))
}

fn unreadable(what: &'static str, error: impl std::error::Error + Send + Sync + 'static) -> EditionError {
    EditionError::Store(StoreError::Other {
        action: "reading",
        path: what.to_owned(),
        source: Box::new(error),
    })
}

async fn read_part(
    file: std::sync::Arc<dyn DataFile>,
    form: CanonicalForm,
    threads: NonZeroUsize,
    path: &crate::doc::FilePath,
) -> Result<TablePart, EditionError> {
    let read = move || Ok(file.table(form, threads));
    let part = blocking("reading the rows of", path.to_string(), read).await?;
    part.map_err(|source| EditionError::Table {
        path: path.clone(),
        source: Box::new(source),
    })
}
