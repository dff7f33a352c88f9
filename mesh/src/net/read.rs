//! The one way to object bytes: read the file ourselves, prove every 16 KiB group, hand out nothing else (SOP §11.10).
//!
//! iroh-blobs offers a verified read (`export_bao`) and three unverified ones under friendlier names; `clippy.toml`
//! forbids those. `export_bao` is right and about five times slower than the hash allows (`reference/iroh.md` 8): every
//! range walks the tree again, one small read and one message between runtimes a node. So an object's tree is proven
//! once when it is opened and kept, and a range then costs one read and the hash of the groups it touches. What makes
//! the bytes authentic is the same in both: [`ObjectTree`] compares each group with a hash proven from the object's id,
//! and only it can make [`VerifiedBytes`].
//!
//! How the files are laid out is known in this module and in `store` alone. Objects so small that they have no file
//! come through `export_bao`.

use std::{
    collections::HashMap,
    fs::File,
    io,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bao_tree::ChunkRanges;
use bytes::Bytes;
use iroh_blobs::api::{ExportBaoError, blobs::BlobStatus};
use sovm_object::{
    id::StorageId,
    verified::{GROUP_LEN, MemoryObject, ObjectTree, ObjectTreeIn, ReadError, VerifiedBytes, VerifiedRead},
};
use tokio::sync::Semaphore;

use super::{
    blob_hash,
    store::{INLINE_BYTES_MAX, ObjectStore, blocking, failed, outboard_bytes},
};

/// Ranges closer than this are read in one go.
const MERGE_GAP_BYTES: u64 = 64 * 1024;
/// Objects whose tree and file stay open.
const HANDLES_MAX: usize = 256;
/// Groups of all kept trees together: 32 bytes each, so 32 MiB, or 128 objects of 128 MiB.
const HANDLE_GROUPS_MAX: u64 = 1 << 20;
/// The store refuses more than 32 waiting requests for one object; half of that leaves room for transfers.
const EXPORTS_MAX: usize = 16;
/// How often a request is repeated that the store refused as busy, and the first pause between.
const BUSY_RETRIES: u32 = 8;
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Objects that are open for reading.
#[derive(Debug)]
pub(super) struct Handles {
    open: Mutex<OpenHandles>,
    exports: Semaphore,
}

#[derive(Debug, Default)]
struct OpenHandles {
    by_id: HashMap<StorageId, (u64, Arc<Handle>)>,
    clock: u64,
}

/// An object's proven tree, and where its groups are read.
#[derive(Debug)]
struct Handle {
    tree: ObjectTree,
    source: Source,
}

#[derive(Debug)]
enum Source {
    File(File),
    Memory(Bytes),
}

impl Default for Handles {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            exports: Semaphore::new(EXPORTS_MAX),
        }
    }
}

impl Handles {
    /// Must be called when an object's file is replaced.
    pub(super) fn forget(&self, id: StorageId) {
        self.lock().by_id.remove(&id);
    }

    pub(super) fn forget_all(&self) {
        self.lock().by_id.clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, OpenHandles> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, id: StorageId) -> Option<Arc<Handle>> {
        let mut open = self.lock();
        open.clock += 1;
        let now = open.clock;
        let (used, handle) = open.by_id.get_mut(&id)?;
        *used = now;
        Some(handle.clone())
    }

    fn keep(&self, id: StorageId, handle: Arc<Handle>) {
        let mut open = self.lock();
        open.clock += 1;
        let now = open.clock;
        open.by_id.insert(id, (now, handle));
        let groups = |open: &OpenHandles| open.by_id.values().map(|(_, handle)| handle.groups()).sum::<u64>();
        while open.by_id.len() > 1 && (open.by_id.len() > HANDLES_MAX || groups(&open) > HANDLE_GROUPS_MAX) {
            let Some(oldest) = open.by_id.iter().min_by_key(|(_, (used, _))| *used).map(|(id, _)| *id) else {
                return;
            };
            open.by_id.remove(&oldest);
        }
    }
}

impl Handle {
    fn groups(&self) -> u64 {
        self.tree.size().div_ceil(GROUP_LEN)
    }

    /// Reads and proves the asked ranges. Blocks.
    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<VerifiedBytes>, ReadError> {
        let covers = ranges
            .iter()
            .map(|range| self.cover(range))
            .collect::<Result<Vec<_>, _>>()?;
        let runs = merge(covers);
        let proven = runs.iter().map(|run| self.prove(run)).collect::<Result<Vec<_>, _>>()?;
        let part = |range: &Range<u64>| {
            let run = runs.partition_point(|run| run.start <= range.start).checked_sub(1)?;
            proven.get(run)?.part(range.clone())
        };
        let gap = |range: &Range<u64>| ReadError::HashMismatch {
            id: self.tree.storage_id(),
            offset: range.start,
        };
        ranges
            .iter()
            .map(|range| part(range).ok_or_else(|| gap(range)))
            .collect()
    }

    /// The groups to read for a range. An empty one is proven by the group it stands in, so that it says where it is.
    fn cover(&self, range: &Range<u64>) -> Result<Range<u64>, ReadError> {
        let cover = self.tree.covering(range)?;
        if !cover.is_empty() {
            return Ok(cover);
        }
        let start = range.start.min(self.tree.size() - 1);
        self.tree.covering(&(start..start + 1))
    }

    fn prove(&self, run: &Range<u64>) -> Result<VerifiedBytes, ReadError> {
        let id = self.tree.storage_id();
        let bytes = match &self.source {
            Source::File(file) => read_at(file, id, run)?,
            Source::Memory(whole) => whole.slice(run.start as usize..run.end as usize),
        };
        self.tree.prove(run.start, bytes)
    }
}

/// Merges group-aligned ranges that touch or nearly touch.
fn merge(mut covers: Vec<Range<u64>>) -> Vec<Range<u64>> {
    covers.sort_unstable_by_key(|cover| cover.start);
    let mut runs: Vec<Range<u64>> = Vec::new();
    for cover in covers {
        match runs.last_mut() {
            Some(last) if cover.start <= last.end + MERGE_GAP_BYTES => last.end = last.end.max(cover.end),
            _ => runs.push(cover),
        }
    }
    runs
}

fn read_at(file: &File, id: StorageId, range: &Range<u64>) -> Result<Bytes, ReadError> {
    let mut buffer = vec![0; (range.end - range.start) as usize];
    read_exact_at(file, &mut buffer, range.start).map_err(|error| file_error(id, range.start, error))?;
    Ok(buffer.into())
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                buffer = &mut buffer[read..];
                offset += read as u64;
            }
        }
    }
    Ok(())
}

/// A file that ends early or is gone is damage to this object, not a failing store.
fn file_error(id: StorageId, offset: u64, error: io::Error) -> ReadError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ReadError::HashMismatch { id, offset },
        io::ErrorKind::NotFound => ReadError::Missing { id },
        _ => ReadError::Store {
            id,
            source: error.into(),
        },
    }
}

impl ObjectStore {
    /// Reads and proves a whole object from the disk, past every cache of ours: the scrubber's question.
    pub async fn scrub(&self, id: StorageId) -> Result<u64, ReadError> {
        self.handles().forget(id);
        let handle = self.handle(id).await?;
        let size = handle.tree.size();
        // In pieces, so that a scrub needs no memory worth speaking of.
        let piece = 64 * GROUP_LEN;
        for start in (0..size).step_by(piece as usize) {
            let (handle, end) = (handle.clone(), size.min(start + piece));
            blocking(move || handle.prove(&(start..end))).await?;
        }
        Ok(size)
    }

    async fn handle(&self, id: StorageId) -> Result<Arc<Handle>, ReadError> {
        if let Some(handle) = self.handles().get(id) {
            return Ok(handle);
        }
        // Only a claim; the tree proves it.
        let status = self
            .store()
            .status(blob_hash(id))
            .await
            .map_err(|error| store_error(id, error))?;
        let BlobStatus::Complete { size } = status else {
            return Err(ReadError::Missing { id });
        };
        let (data, outboard) = (self.data_path(id), self.outboard_path(id));
        let opened = blocking(move || open_files(id, size, &data, &outboard)).await?;
        let handle = match opened {
            Some(handle) => handle,
            None => {
                let whole = MemoryObject::verify(id, self.export(id).await?)?;
                let bytes = whole.whole().clone().into_bytes();
                Handle {
                    tree: ObjectTree::of_bytes(id, &bytes)?,
                    source: Source::Memory(bytes),
                }
            }
        };
        let handle = Arc::new(handle);
        self.handles().keep(id, handle.clone());
        Ok(handle)
    }

    /// A small object through the store's own verified read.
    async fn export(&self, id: StorageId) -> Result<Bytes, ReadError> {
        let _permit = self
            .handles()
            .exports
            .acquire()
            .await
            .map_err(|error| store_error(id, error))?;
        let mut pause = BUSY_PAUSE;
        for _ in 0..BUSY_RETRIES {
            match self
                .store()
                .export_bao(blob_hash(id), ChunkRanges::all())
                .data_to_bytes()
                .await
            {
                Err(error) if is_busy(&error) => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Err(error) => return Err(export_error(id, error)),
                Ok(bytes) => return Ok(bytes),
            }
        }
        Err(ReadError::Store {
            id,
            source: io::Error::from(io::ErrorKind::ResourceBusy).into(),
        })
    }
}

/// Opens an object that has files of its own. `None` when it is so small that it lies in the store's database.
fn open_files(
    id: StorageId,
    size: u64,
    data: &std::path::Path,
    outboard: &std::path::Path,
) -> Result<Option<Handle>, ReadError> {
    if size <= GROUP_LEN {
        return Ok(None);
    }
    let file = File::open(data).map_err(|error| file_error(id, 0, error))?;
    let tree = if outboard_bytes(size) <= INLINE_BYTES_MAX {
        // A tree this small lies in the database; hashing the object again costs less than asking for it.
        ObjectTree::of_bytes(id, &read_at(&file, id, &(0..size))?)?
    } else {
        let read = std::fs::read(outboard).map_err(|error| file_error(id, 0, error))?;
        // A longer file is no damage; a shorter one does not prove the object.
        let outboard = read.get(..outboard_bytes(size) as usize).unwrap_or(&read);
        let tree = ObjectTreeIn::from_outboard(id, size, outboard)?;
        let last = read_at(&file, id, &tree.last_group())?;
        tree.prove_size(&last)?
    };
    Ok(Some(Handle {
        tree,
        source: Source::File(file),
    }))
}

impl VerifiedRead for ObjectStore {
    async fn size(&self, id: StorageId) -> Result<u64, ReadError> {
        Ok(self.handle(id).await?.tree.size())
    }

    async fn read(&self, id: StorageId, ranges: &[Range<u64>]) -> Result<Vec<VerifiedBytes>, ReadError> {
        let handle = self.handle(id).await?;
        let ranges = ranges.to_vec();
        let read = blocking(move || handle.read(&ranges)).await;
        if matches!(
            read,
            Err(ReadError::HashMismatch { .. } | ReadError::Missing { .. } | ReadError::Store { .. })
        ) {
            // The next reader opens the file anew, which may have been healed meanwhile.
            self.handles().forget(id);
        }
        read
    }
}

fn is_busy(error: &ExportBaoError) -> bool {
    let kind = match error {
        ExportBaoError::ExportBaoIo { source, .. } => source.kind(),
        ExportBaoError::ExportBaoInner {
            source: bao_tree::io::EncodeError::Io(source),
            ..
        } => source.kind(),
        _ => return false,
    };
    kind == io::ErrorKind::ResourceBusy
}

fn export_error(id: StorageId, error: ExportBaoError) -> ReadError {
    use bao_tree::io::EncodeError;
    match error {
        ExportBaoError::ExportBaoInner { source, .. } => match source {
            EncodeError::ParentHashMismatch(_) | EncodeError::LeafHashMismatch(_) | EncodeError::SizeMismatch => {
                ReadError::HashMismatch { id, offset: 0 }
            }
            EncodeError::Io(source) => file_error(id, 0, source),
            other => store_error(id, other),
        },
        other => store_error(id, other),
    }
}

fn store_error(id: StorageId, error: impl std::error::Error + Send + Sync + 'static) -> ReadError {
    ReadError::Store {
        id,
        source: failed(error).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "a list of one range is what is meant")]
    fn near_ranges_become_one_read() {
        let group = GROUP_LEN;
        assert_eq!(
            merge(vec![10 * group..11 * group, 0..group]),
            [0..group, 10 * group..11 * group]
        );
        assert_eq!(merge(vec![0..group, 4 * group..5 * group]), [0..5 * group]);
        assert_eq!(merge(vec![0..8 * group, group..2 * group]), [0..8 * group]);
    }
}
