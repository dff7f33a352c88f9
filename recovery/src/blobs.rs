//! Where recovery reads from: anything that lists and gives opaque blobs.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    future::Future,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use sovm_object::id::StorageId;

/// How much of a blob tells what it may be.
pub const HEAD_BYTES: usize = 64;

/// A source of blobs failed. What was fetched before is kept.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {source}")]
pub struct BlobsError {
    /// The replica or directory.
    pub place: String,
    /// What it said.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// A replica or directory: ids, lengths and bytes, no names and no keys (SOP-212, SOP-229).
///
/// Nothing it says is believed: every blob is hashed again before use.
pub trait OpaqueBlobs: Send + Sync {
    /// Every blob with its length.
    fn list(&self) -> impl Future<Output = Result<Vec<(StorageId, u64)>, BlobsError>> + Send;

    /// A whole blob, or `None` when it is not there.
    fn get(&self, id: StorageId) -> impl Future<Output = Result<Option<Vec<u8>>, BlobsError>> + Send;

    /// The first bytes of a blob, at least [`HEAD_BYTES`] of them when it has as many. Only used to skip what cannot be ours.
    fn head(&self, id: StorageId) -> impl Future<Output = Result<Option<Vec<u8>>, BlobsError>> + Send {
        async move { self.get(id).await }
    }
}

impl<T: OpaqueBlobs> OpaqueBlobs for &T {
    fn list(&self) -> impl Future<Output = Result<Vec<(StorageId, u64)>, BlobsError>> + Send {
        T::list(self)
    }

    fn get(&self, id: StorageId) -> impl Future<Output = Result<Option<Vec<u8>>, BlobsError>> + Send {
        T::get(self, id)
    }

    fn head(&self, id: StorageId) -> impl Future<Output = Result<Option<Vec<u8>>, BlobsError>> + Send {
        T::head(self, id)
    }
}

/// Directories this deep are searched, so that an export that sorts its blobs into folders can be pointed at.
const MAX_DEPTH: usize = 4;

/// A bare directory of blobs. Files named by their id (with any ending) are taken at their word until they are read; all
/// others are hashed once.
#[derive(Debug)]
pub struct DirBlobs {
    dir: PathBuf,
    files: BTreeMap<StorageId, (PathBuf, u64)>,
}

impl DirBlobs {
    /// Looks through a directory.
    pub fn open(dir: &Path) -> Result<Self, BlobsError> {
        let mut this = Self {
            dir: dir.into(),
            files: BTreeMap::new(),
        };
        this.scan(dir, 0).map_err(|e| this.error(e))?;
        Ok(this)
    }

    fn scan(&mut self, dir: &Path, depth: usize) -> io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() && depth < MAX_DEPTH {
                self.scan(&path, depth + 1)?;
            } else if kind.is_file() && !is_hash_tree(&path) {
                let id = match path.file_stem().and_then(|name| name.to_str()?.parse().ok()) {
                    Some(id) => id,
                    None => hash(&path)?,
                };
                self.files.insert(id, (path, entry.metadata()?.len()));
            }
        }
        Ok(())
    }

    /// Where a blob lies and how long it is, for those that do not fit into memory. Only reading it proves what it is.
    pub fn file(&self, id: &StorageId) -> Option<(&Path, u64)> {
        self.files.get(id).map(|(path, len)| (path.as_path(), *len))
    }

    fn read(&self, id: &StorageId, limit: Option<usize>) -> Result<Option<Vec<u8>>, BlobsError> {
        let Some((path, len)) = self.files.get(id) else {
            return Ok(None);
        };
        let limit = limit.map_or(*len, |limit| limit as u64);
        let mut bytes = Vec::new();
        match File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)) {
            Ok(_) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.error(e)),
        }
    }

    fn error(&self, source: io::Error) -> BlobsError {
        BlobsError {
            place: self.dir.display().to_string(),
            source: Box::new(source),
        }
    }
}

/// Files that an object store keeps beside an object, under the same name.
fn is_hash_tree(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    matches!(ending, Some("obao4" | "sizes4" | "bitfield"))
}

fn hash(path: &Path) -> io::Result<StorageId> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(StorageId::from_bytes(*hasher.finalize().as_bytes()))
}

impl OpaqueBlobs for DirBlobs {
    async fn list(&self) -> Result<Vec<(StorageId, u64)>, BlobsError> {
        Ok(self.files.iter().map(|(id, (_, len))| (*id, *len)).collect())
    }

    async fn get(&self, id: StorageId) -> Result<Option<Vec<u8>>, BlobsError> {
        self.read(&id, None)
    }

    async fn head(&self, id: StorageId) -> Result<Option<Vec<u8>>, BlobsError> {
        self.read(&id, Some(HEAD_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::ready;

    /// SOP-41, SOP-211, SOP-212: a blob is found by its content, whatever the file is called and wherever it lies.
    #[test]
    fn files_are_found_by_name_or_by_content() {
        let dir = tempfile::TempDir::new().unwrap();
        let id = |bytes: &[u8]| StorageId::from_bytes(*blake3::hash(bytes).as_bytes());
        let long = vec![7; 1_000];
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join(format!("a/b/{}.data", id(b"one"))), b"one").unwrap();
        fs::write(dir.path().join("some-name"), &long).unwrap();
        let blobs = DirBlobs::open(dir.path()).unwrap();
        let mut listed = ready(blobs.list()).unwrap();
        listed.sort_by_key(|(_, len)| *len);
        assert_eq!(listed, [(id(b"one"), 3), (id(&long), 1_000)]);
        assert_eq!(ready(blobs.get(id(b"one"))).unwrap().unwrap(), b"one");
        assert_eq!(ready(blobs.head(id(&long))).unwrap().unwrap().len(), HEAD_BYTES);
        assert_eq!(ready(blobs.get(id(b"nowhere"))).unwrap(), None);
        assert!(DirBlobs::open(&dir.path().join("missing")).is_err());
    }
}
