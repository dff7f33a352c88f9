//! Building an edition: what an unsealed one may be given.

use std::{collections::BTreeSet, io::Read, sync::Arc};

use bytes::Bytes;

use super::{
    EditionError, ProductEditions, Publisher, TableList,
    carry::{digest_bytes, recorded},
    content::parse,
    copy::{file_path, write_once},
    data::blocking,
    is_delete_file, is_wal,
    table_list::{ListedData, ListedTable, OtherFile, StructureFile},
};
use crate::{
    doc::{EditionId, FilePath, FileRoot, Manifest, Sha256, Stored, Tier, Urn, layout},
    store::{Creation, Replacement, Revision},
};

/// INV-398: which files outside the tables an edition takes over from the previous one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LazyFiles {
    /// All that the previous edition lists.
    #[default]
    All,
    /// Those named.
    Named(BTreeSet<FilePath>),
}

/// How an edition is begun.
#[derive(Debug, Clone, Default)]
pub struct Begin {
    /// Its id; none makes one of this moment.
    pub edition_id: Option<EditionId>,
    /// Which other files it takes over.
    pub lazy: LazyFiles,
}

/// The format of a structure message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageFormat {
    /// SDMX-JSON 2.0.
    Json,
    /// SDMX-ML 2.1.
    Xml,
}

impl MessageFormat {
    fn extension(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Xml => "xml",
        }
    }
}

/// An unsealed edition: the only thing in an edition's life that can be written to (INV-57).
///
/// Every change is durable when its method returns, so a builder may be dropped at any point and resumed.
#[derive(Debug)]
pub struct EditionBuilder {
    pub(super) publisher: Publisher,
    pub(super) list: TableList,
    pub(super) revision: Revision,
    pub(super) previous: Option<Arc<Stored<Manifest>>>,
}

impl EditionBuilder {
    /// Writes the first table list of a new edition, which is what begins it.
    pub(super) async fn create(
        publisher: Publisher,
        edition_id: EditionId,
        previous: Option<(Arc<Stored<Manifest>>, TableList)>,
        lazy: &LazyFiles,
    ) -> Result<Self, EditionError> {
        let place = publisher.place();
        let (previous, mut list) = match previous {
            Some((manifest, list)) => (Some(manifest), list.following(edition_id)),
            None => (None, TableList::empty(place.product_id.clone(), edition_id)),
        };
        if let LazyFiles::Named(named) = lazy {
            list.files.retain(|file| named.contains(&file.path));
        }
        let path = place.file(&edition_id, &TableList::NAME)?;
        let _ = write_once(place, &path, list.encode()?.into()).await?;
        Self::open(publisher, edition_id, previous).await
    }

    /// Opens the unsealed edition as it lies there.
    pub(super) async fn open(
        publisher: Publisher,
        edition_id: EditionId,
        previous: Option<Arc<Stored<Manifest>>>,
    ) -> Result<Self, EditionError> {
        let (list, revision) = read_list(publisher.place(), &edition_id).await?;
        Ok(Self {
            publisher,
            list,
            revision,
            previous,
        })
    }

    /// INV-398: copies the files the list takes over from the previous edition, as far as they aren't there yet.
    pub(super) async fn copy_carried(&self) -> Result<(), EditionError> {
        let (Some(previous), place) = (&self.previous, self.publisher.place()) else {
            return Ok(());
        };
        for (name, _) in self.list.edition_files() {
            let target = place.file(&self.list.edition_id, &name)?;
            if name == TableList::NAME || place.store.get(&target).await?.is_some() {
                continue;
            }
            let mut entries = previous.files.iter();
            let entry = entries.find(|entry| entry.root == FileRoot::Edition && entry.path.as_str() == name);
            // A file of this edition's own that is missing is found at the seal.
            let Some(entry) = entry else { continue };
            let Some(found) = place.store.get(&place.file(&previous.edition_id, &name)?).await? else {
                let path = format!("{name} of the previous edition");
                return Err(EditionError::DeclaredMissing { path });
            };
            if let Err(mismatch) = digest_bytes(&found.bytes).check_entry(&recorded(&entry.digests)) {
                return Err(EditionError::CopyDiffers {
                    path: name.to_owned(),
                    found: mismatch.to_string(),
                    expected: format!("{} bytes, sha256 {}", entry.size, entry.digests.sha256()),
                });
            }
            let _ = write_once(place, &target, found.bytes).await?;
        }
        Ok(())
    }

    /// The edition's id.
    pub fn edition_id(&self) -> EditionId {
        self.list.edition_id
    }

    /// The edition it was begun from.
    pub fn previous(&self) -> Option<EditionId> {
        self.list.previous
    }

    /// What it holds so far.
    pub fn list(&self) -> &TableList {
        &self.list
    }

    /// INV-23, INV-24: writes a new data file under a fresh name. It belongs to no table before [`append`](Self::append) or
    /// [`replace_table`](Self::replace_table) names it.
    pub async fn write_data(&self, dataflow: &Urn, content: Box<dyn Read + Send>) -> Result<FilePath, EditionError> {
        let path: FilePath = format!("{}/{}.parquet", dataflow.id(), crate::doc::fresh_uuid()).parse()?;
        match self.publisher.place().data.create(&path, content).await? {
            Creation::Created => Ok(path),
            Creation::Exists => Err(EditionError::DataExists { path }),
        }
    }

    /// Adds data files to a table, which is made if there is none: what a republish that only adds rows does.
    pub async fn append(&mut self, dataflow: &Urn, files: &[FilePath], tier: Tier) -> Result<(), EditionError> {
        let added = self.look_at(dataflow, files, tier).await?;
        let mut list = self.list.clone();
        match list.tables.binary_search_by(|table| table.dataflow.cmp(dataflow)) {
            Ok(index) => list.tables[index].files.extend(added),
            Err(index) => list.tables.insert(index, table(dataflow, added)),
        }
        self.rewrite(list).await
    }

    /// INV-95, INV-399: gives a table other data files: revised rows are in new ones, and files that are still right may be
    /// named again. Nothing of the old ones is deleted.
    pub async fn replace_table(&mut self, dataflow: &Urn, files: &[FilePath], tier: Tier) -> Result<(), EditionError> {
        let files = self.look_at(dataflow, files, tier).await?;
        let mut list = self.list.clone();
        match list.tables.binary_search_by(|table| table.dataflow.cmp(dataflow)) {
            Ok(index) => list.tables[index].files = files,
            Err(index) => list.tables.insert(index, table(dataflow, files)),
        }
        self.rewrite(list).await
    }

    /// Takes a table out of the edition; its data files stay where they are.
    pub async fn remove_table(&mut self, dataflow: &Urn) -> Result<(), EditionError> {
        let mut list = self.list.clone();
        let Ok(index) = list.tables.binary_search_by(|table| table.dataflow.cmp(dataflow)) else {
            let dataflow = dataflow.clone();
            return Err(EditionError::NoTable { dataflow });
        };
        list.tables.remove(index);
        self.rewrite(list).await
    }

    pub(super) async fn look_at(
        &self,
        dataflow: &Urn,
        files: &[FilePath],
        tier: Tier,
    ) -> Result<Vec<ListedData>, EditionError> {
        let mut listed = Vec::with_capacity(files.len());
        for path in files {
            if is_delete_file(path) {
                return Err(EditionError::DeleteFile { path: path.clone() });
            }
            let Some(file) = self.publisher.place().data.open(path).await? else {
                let (path, dataflow) = (path.clone(), dataflow.clone());
                return Err(EditionError::NoData { path, dataflow });
            };
            let size = file.size();
            let rows = blocking("counting the rows of", path.to_string(), move || Ok(file.rows())).await?;
            let rows = rows.map_err(|source| EditionError::Table {
                path: path.clone(),
                source: Box::new(source),
            })?;
            listed.push(ListedData {
                path: path.clone(),
                size,
                rows,
                tier,
            });
        }
        Ok(listed)
    }

    /// Adds the structures of a message, which is kept as it is. `partial_of` names, for each partial artefact in it, the
    /// fingerprint of the full one it was cut from (INV-54).
    ///
    /// INV-88: an artefact that the edition holds already under the same URN must be the same.
    pub async fn add_structures(
        &mut self,
        message: Bytes,
        format: MessageFormat,
        partial_of: &[(Urn, Sha256)],
    ) -> Result<FilePath, EditionError> {
        let name = format!(
            "{}{}.{}",
            TableList::STRUCTURES,
            Sha256::of(&message),
            format.extension()
        );
        let path = file_path(&name)?;
        let mut together = self.content().await?.structures;
        for artefact in parse(&path, &message)?.iter() {
            together.insert(artefact.clone())?;
        }
        self.put(&path, message).await?;
        let mut partial_of = partial_of.to_vec();
        partial_of.sort_unstable();
        partial_of.dedup();
        let mut list = self.list.clone();
        let file = StructureFile {
            path: path.clone(),
            partial_of,
        };
        match list.structures.binary_search_by(|held| held.path.cmp(&path)) {
            Ok(index) => list.structures[index] = file,
            Err(index) => list.structures.insert(index, file),
        }
        self.rewrite(list).await?;
        Ok(path)
    }

    /// Takes a structure message out, such as the one a new one replaces.
    pub async fn remove_structures(&mut self, path: &FilePath) -> Result<(), EditionError> {
        let mut list = self.list.clone();
        list.structures.retain(|file| file.path != *path);
        if list.structures.len() == self.list.structures.len() {
            let path = path.to_string();
            return Err(EditionError::DeclaredMissing { path });
        }
        // What is left of the file when this is interrupted goes at the seal.
        self.rewrite(list).await?;
        self.delete(path).await
    }

    /// Writes another file of the edition, such as a search table.
    pub async fn put_file(&mut self, path: &FilePath, bytes: Bytes, tier: Tier) -> Result<(), EditionError> {
        self.put(path, bytes).await?;
        let mut list = self.list.clone();
        let file = OtherFile {
            path: path.clone(),
            tier,
        };
        match list.files.binary_search_by(|held| held.path.cmp(path)) {
            Ok(index) => list.files[index] = file,
            Err(index) => list.files.insert(index, file),
        }
        self.rewrite(list).await
    }

    /// Takes another file out.
    pub async fn remove_file(&mut self, path: &FilePath) -> Result<(), EditionError> {
        let mut list = self.list.clone();
        list.files.retain(|file| file.path != *path);
        if list.files.len() == self.list.files.len() {
            let path = path.to_string();
            return Err(EditionError::DeclaredMissing { path });
        }
        self.rewrite(list).await?;
        self.delete(path).await
    }

    /// The structures the edition holds so far.
    pub(super) async fn content(&self) -> Result<super::content::Content, EditionError> {
        super::content::Content::load(self.publisher.place(), &self.list.edition_id, &self.list).await
    }

    async fn put(&self, path: &FilePath, bytes: Bytes) -> Result<(), EditionError> {
        reserved(path)?;
        let place = self.publisher.place();
        let _lock = place.store.lock().await?;
        self.still_unsealed().await?;
        let _ = write_once(place, &place.file(&self.list.edition_id, path)?, bytes).await?;
        Ok(())
    }

    async fn delete(&self, path: &FilePath) -> Result<(), EditionError> {
        let place = self.publisher.place();
        let _lock = place.store.lock().await?;
        self.still_unsealed().await?;
        Ok(place.store.delete(&place.file(&self.list.edition_id, path)?).await?)
    }

    /// INV-99: whoever writes into the directory holds the lock and has looked for a manifest under it.
    pub(super) async fn still_unsealed(&self) -> Result<(), EditionError> {
        let place = self.publisher.place();
        if place.is_sealed(&self.list.edition_id).await? {
            return Err(EditionError::AlreadySealed {
                product_id: place.product_id.clone(),
                edition_id: self.list.edition_id,
            });
        }
        Ok(())
    }

    /// Replaces the table list, unless another process did meanwhile.
    pub(super) async fn rewrite(&mut self, list: TableList) -> Result<(), EditionError> {
        let bytes: Bytes = list.encode()?.into();
        let place = self.publisher.place().clone();
        let _lock = place.store.lock().await?;
        self.still_unsealed().await?;
        let path = place.file(&list.edition_id, &TableList::NAME)?;
        let edition_id = list.edition_id;
        if place.store.replace(&path, &self.revision, bytes.clone()).await? == Replacement::Changed {
            return Err(EditionError::ChangedMeanwhile { edition_id });
        }
        // Not every store's revision follows from the bytes.
        match place.store.get(&path).await? {
            Some(found) if found.bytes == bytes => self.revision = found.revision,
            _ => return Err(EditionError::ChangedMeanwhile { edition_id }),
        }
        self.list = list;
        Ok(())
    }
}

fn table(dataflow: &Urn, files: Vec<ListedData>) -> ListedTable {
    let dataflow = dataflow.clone();
    ListedTable { dataflow, files }
}

/// Reads the table list of an edition.
pub(super) async fn read_list(
    place: &ProductEditions,
    edition: &EditionId,
) -> Result<(TableList, Revision), EditionError> {
    let Some(found) = place.store.get(&place.file(edition, &TableList::NAME)?).await? else {
        let path = TableList::NAME.to_owned();
        return Err(EditionError::DeclaredMissing { path });
    };
    let list = TableList::decode(&found.bytes)?;
    list.check_place(&place.product_id, edition)?;
    Ok((list, found.revision))
}

fn reserved(path: &FilePath) -> Result<(), EditionError> {
    if is_wal(path.as_str()) {
        let path = path.to_string();
        return Err(EditionError::Wal { path });
    }
    let owner = match path.as_str() {
        layout::MANIFEST => "the manifest, which the seal writes",
        layout::MANIFEST_SIGNATURE => "reserved for the manifest's signature",
        TableList::NAME => "the table list",
        _ => return Ok(()),
    };
    let path = path.clone();
    Err(EditionError::ReservedName { path, owner })
}
