//! Data files in a plain directory.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;

use super::{DataFile, DataFiles, PlainParquet, RandomBytes, blocking};
use crate::{
    doc::{FilePath, ProductId, layout},
    store::{Creation, StoreError},
    verify::{blocking as off_the_runtime, io_error, open_file},
};

/// The data files under `products/<product_id>/data/` of a catalogue's directory, read and written as streams.
#[derive(Debug, Clone)]
pub struct DirectoryData {
    root: PathBuf,
    folder: PathBuf,
}

impl DirectoryData {
    /// The data files of a product below a catalogue's directory. Nothing is created until something is written.
    pub fn new(root: &Path, product: &ProductId) -> Self {
        let folder = root.join(layout::data(product));
        let root = root.to_owned();
        Self { root, folder }
    }

    fn file(&self, path: &FilePath) -> PathBuf {
        self.folder.join(path.as_str())
    }
}

#[async_trait]
impl DataFiles for DirectoryData {
    async fn open(&self, path: &FilePath) -> Result<Option<Arc<dyn DataFile>>, StoreError> {
        let file = self.file(path);
        let opened = off_the_runtime(move || {
            let Some(opened) = open_file(&file)? else {
                return Ok(None);
            };
            let size = opened
                .metadata()
                .map_err(|error| io_error("reading", &file, error))?
                .len();
            Ok(Some(OpenFile { file: opened, size }))
        });
        let opened = opened.await?;
        Ok(opened.map(|file| Arc::new(PlainParquet::new(file)) as Arc<dyn DataFile>))
    }

    async fn create(&self, path: &FilePath, mut content: Box<dyn Read + Send>) -> Result<Creation, StoreError> {
        let (root, file) = (self.root.clone(), self.file(path));
        blocking("creating", file.display().to_string(), move || {
            create(&root, &file, &mut *content)
        })
        .await
    }
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    size: u64,
}

impl RandomBytes for OpenFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
}

/// A temporary file beside the target, `fsync`, a link that replaces nothing, `fsync` of the directory (INV-244).
fn create(root: &Path, target: &Path, content: &mut dyn Read) -> io::Result<Creation> {
    let folder = target.parent().unwrap_or(root);
    fs::create_dir_all(folder)?;
    if target.symlink_metadata().is_ok() {
        // Whoever created it may have died before its name was durable.
        File::open(folder)?.sync_all()?;
        return Ok(Creation::Exists);
    }
    // The dot keeps it out of every listing; what a killed writer leaves is no data file.
    let temporary = Temporary(folder.join(format!(".{}.tmp", crate::doc::fresh_uuid())));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary.0)?;
    io::copy(content, &mut file)?;
    file.sync_all()?;
    let creation = match fs::hard_link(&temporary.0, target) {
        Ok(()) => Creation::Created,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Creation::Exists,
        Err(error) => return Err(error),
    };
    // The folders above may be new as well.
    for folder in folder.ancestors().take_while(|folder| folder.starts_with(root)) {
        File::open(folder)?.sync_all()?;
    }
    Ok(creation)
}

struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // The target has the bytes by now, or nobody wants them.
        let _ = fs::remove_file(&self.0);
    }
}
