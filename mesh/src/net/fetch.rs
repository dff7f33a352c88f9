//! Getting an object from one holder: only what is missing, verified as it arrives, durable at the end.
//!
//! iroh-blobs' own downloader has no stall timeout, gives up the cause of an error and believes the length a holder
//! states. The last point matters: the length decides where the tree's inner hashes lie on disk, so a holder that lies
//! about it can leave a partial object behind that no honest holder can complete. Here a length must come from the
//! catalogue, from a verified part we have, or from the holder's last chunk, whose verification proves it; and every
//! answer must state exactly that.
//!
//! Which holders to ask, in which order and how often is decided elsewhere (the planner in `proto`); this is one attempt.

use std::{
    num::NonZeroU64,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bao_tree::{ChunkNum, ChunkRanges, io::BaoContentItem};
use bytes::Bytes;
use iroh::endpoint::{Connection, ConnectionError, ReadError, VarInt};
use iroh_blobs::{
    get::fsm::{self, AtBlobContent, BlobContentNext, ConnectedNext, DecodeError, EndBlobNext},
    protocol::{ChunkRangesExt as _, ERR_LIMIT, ERR_PERMISSION, GetRequest},
};
use n0_future::task::AbortOnDropHandle;
use sovm_object::{
    id::{SiteId, StorageId},
    verified,
};

use super::{
    alpn::Alpn,
    blob_hash,
    endpoint::{ConnectError, Lease, MeshEndpoint},
    live::code,
    store::{Durable, Holding, NoRoom, ObjectStore, PublishError, StoreError, failed},
};

/// Parts are rounded to this, so that parts from different holders share no group.
const PART_ALIGN: u64 = 1024 * 1024;
/// Largest object that exists (SOP-55); a holder that states more lies.
const OBJECT_BYTES_MAX: u64 = 1 << 40;
/// After this many bytes the store's books are committed once, so that a kill from then on costs no restart from zero.
/// More than the queue below holds, so that the store has begun to write by then.
const EARLY_COMMIT_BYTES: u64 = 1024 * 1024;
/// Largest object that a fetch replaces when it finds a damaged copy of it; objects are 16 to 64 MiB (DESIGN §7).
const HEAL_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Items in flight between the network and the store.
const IMPORT_QUEUE: usize = 32;

/// What to get.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FetchRequest {
    /// The object.
    pub id: StorageId,
    /// Its exact length, where a signed manifest states it; saves one round trip.
    pub size: Option<u64>,
    /// Only this part of it (widened to whole mebibytes), to share the work among holders. `None` is all that is missing.
    pub part: Option<Range<u64>>,
}

impl FetchRequest {
    /// All that is missing of an object of unknown length.
    pub const fn whole(id: StorageId) -> Self {
        Self {
            id,
            size: None,
            part: None,
        }
    }
}

/// How far a fetch has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FetchProgress {
    /// Bytes of the object that are here and verified.
    pub have_bytes: u64,
    /// Length of the object.
    pub size: u64,
}

/// How a fetch ended well.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FetchOutcome {
    /// Object bytes this attempt brought.
    pub fetched_bytes: u64,
    /// The receipt, once nothing is missing any more. A fetched part of an object has none.
    pub durable: Option<Durable>,
}

/// Why a fetch failed. What did arrive is kept, whatever the variant.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The holder could not be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The holder will not give us this object.
    #[error("the holder refused this object")]
    Refused,
    /// The holder is at its limit.
    #[error("the holder is busy, try again later")]
    Busy,
    /// The holder has not got what was asked for.
    #[error("the holder does not have the object, or not all of it")]
    NotHeld,
    /// The connection broke.
    #[error("the connection to the holder was lost")]
    ConnectionLost,
    /// Nothing came for too long.
    #[error("the holder sent nothing for {} seconds", .0.as_secs())]
    Stalled(Duration),
    /// The holder sent bytes that do not belong to the object. They were thrown away.
    #[error("the holder sent bytes that do not belong to the object")]
    BadBytes,
    /// The holder stated another length than the proven one.
    #[error("the holder states a length of {stated} bytes, the object has {proven}")]
    WrongSize {
        /// What the holder said.
        stated: u64,
        /// The length that is proven or signed.
        proven: u64,
    },
    /// The object has another length than the request says: whoever signed that length is wrong, not the holder.
    #[error("the object has {proven} bytes, not {requested} as its description says")]
    WrongDescription {
        /// What was asked for.
        requested: u64,
        /// The length the object's own hash proves.
        proven: u64,
    },
    /// The object is too large to be healed in memory.
    #[error("the object has {size} bytes; at most {limit} can be replaced at once")]
    TooLarge {
        /// Its length.
        size: u64,
        /// What is allowed.
        limit: u64,
    },
    /// Too little space here.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// Our store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Who is at fault when a fetch fails, and so what to do next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Blame {
    /// The holder lied; stay away from it.
    HolderLied,
    /// The holder cannot or will not now; ask another, come back later.
    HolderUnavailable,
    /// The request itself is wrong; asking others does not help, and the object's manifest is to be doubted.
    Description,
    /// We are; asking others does not help.
    Ours,
}

impl FetchError {
    /// Who is at fault.
    pub const fn blame(&self) -> Blame {
        match self {
            Self::BadBytes | Self::WrongSize { .. } => Blame::HolderLied,
            Self::WrongDescription { .. } => Blame::Description,
            Self::Connect(ConnectError::Stopping | ConnectError::NotAllowed | ConnectError::Ourselves)
            | Self::NoRoom(_)
            | Self::Store(_)
            | Self::TooLarge { .. } => Blame::Ours,
            Self::Busy | Self::Connect(_) | Self::ConnectionLost | Self::NotHeld | Self::Refused | Self::Stalled(_) => {
                Blame::HolderUnavailable
            }
        }
    }
}

/// Fetches objects into one store. Clones share it.
#[derive(Clone)]
pub struct Fetcher {
    endpoint: MeshEndpoint,
    store: ObjectStore,
    stall_timeout: Duration,
}

impl Fetcher {
    /// How long a holder may send nothing.
    pub const STALL_TIMEOUT: Duration = Duration::from_secs(10);

    /// A fetcher into `store`.
    pub const fn new(endpoint: MeshEndpoint, store: ObjectStore) -> Self {
        Self {
            endpoint,
            store,
            stall_timeout: Self::STALL_TIMEOUT,
        }
    }

    /// Another stall timeout, for links that are known to be slow or tests that are not.
    #[must_use]
    pub const fn with_stall_timeout(mut self, timeout: Duration) -> Self {
        self.stall_timeout = timeout;
        self
    }

    /// Gets what is missing of an object from one holder.
    ///
    /// `progress` is called after every piece, from another task, and must not block. Dropping the future stops the
    /// transfer; what arrived is kept.
    pub async fn fetch(
        &self,
        request: &FetchRequest,
        holder: SiteId,
        progress: impl Fn(FetchProgress) + Send + Sync + 'static,
    ) -> Result<FetchOutcome, FetchError> {
        // No collection may take the partial object away under us.
        let _pin = self.store.pin(request.id).await?;
        if let Some(outcome) = self.without_transfer(request.id, holder).await? {
            return Ok(outcome);
        }
        let local = self.local(request.id).await?;
        let wanted = request.part.as_ref().map_or_else(ChunkRanges::all, aligned);
        let missing = &wanted - &local.ranges;
        if missing.is_empty() {
            return Ok(FetchOutcome {
                fetched_bytes: 0,
                durable: None,
            });
        }
        let lease = self.endpoint.connect(holder, Alpn::Blobs).await?;
        let transfer = self.transfer(&lease, request.id);
        let (fetched, requested) = (transfer.fetched.clone(), request.size);
        let moving = async move {
            let size = match local.size.or(requested) {
                Some(size) => size,
                None => transfer.prove_size().await?,
            };
            match transfer.run(missing, size, local.bytes, &progress).await {
                // One of two is wrong: the holder, or who told us the length. The holder can prove that it is not.
                Err(FetchError::WrongSize { .. }) if local.size.is_none() && requested.is_some() => {
                    let proven = transfer.prove_size().await?;
                    Err(FetchError::WrongDescription {
                        requested: size,
                        proven,
                    })
                }
                result => result,
            }
        };
        guarded(moving)
            .await
            .inspect_err(|error| distrust_stalled(&lease, error))?;
        drop(lease);
        let durable = self.store.make_durable(request.id).await?;
        if durable.is_none() && request.part.is_none() {
            return Err(FetchError::NotHeld);
        }
        Ok(FetchOutcome {
            fetched_bytes: fetched.load(Ordering::Relaxed),
            durable,
        })
    }

    /// Replaces a damaged copy with fresh bytes from a holder.
    ///
    /// A fetch cannot do that: for the store a damaged object is complete, and writes to it are ignored. The new copy is
    /// held in memory until it is verified, so `size_max` bounds it.
    pub async fn heal(&self, id: StorageId, holder: SiteId, size_max: u64) -> Result<Durable, FetchError> {
        let lease = self.endpoint.connect(holder, Alpn::Blobs).await?;
        let transfer = self.transfer(&lease, id);
        let healing = async move {
            let size = transfer.prove_size().await?;
            if size > size_max {
                return Err(FetchError::TooLarge { size, limit: size_max });
            }
            transfer.whole(size).await
        };
        let bytes = guarded(healing)
            .await
            .inspect_err(|error| distrust_stalled(&lease, error))?;
        drop(lease);
        self.store.publish(bytes, id).await.map_err(|error| match error {
            PublishError::NoRoom(error) => FetchError::NoRoom(error),
            PublishError::Store(error) => FetchError::Store(error),
            // Cannot be, after every group was verified; then the holder is the one to suspect.
            PublishError::WrongId { .. } | PublishError::Empty | PublishError::Source(_) => FetchError::BadBytes,
        })
    }

    /// What to do about an object that is complete by the store's books; `None` when something is really missing.
    async fn without_transfer(&self, id: StorageId, holder: SiteId) -> Result<Option<FetchOutcome>, FetchError> {
        let fetched = |fetched_bytes, durable| {
            Some(FetchOutcome {
                fetched_bytes,
                durable: Some(durable),
            })
        };
        let complete = match self.store.holding(id).await? {
            Holding::Durable(durable) => return Ok(fetched(0, durable)),
            Holding::Damaged => true,
            Holding::Absent => false,
            // The books come first: what they call complete may be damaged so that it cannot even be observed.
            Holding::Partial { .. } => self.store.is_booked_whole(id).await? || self.local(id).await?.complete,
        };
        if !complete {
            return Ok(None);
        }
        // Complete without a receipt: we were stopped between the two, perhaps by a power cut, and the file may be empty.
        match self.store.confirm(id).await {
            Ok(Some(durable)) => return Ok(fetched(0, durable)),
            Err(verified::ReadError::Store { source, .. }) => return Err(StoreError::Failed(source).into()),
            Ok(None) | Err(_) => {}
        }
        let durable = self.heal(id, holder, HEAL_BYTES_MAX).await?;
        Ok(fetched(durable.size(), durable))
    }

    fn transfer(&self, lease: &Lease, id: StorageId) -> Transfer {
        Transfer {
            store: self.store.clone(),
            connection: lease.connection().clone(),
            id,
            stall_timeout: self.stall_timeout,
            fetched: Arc::default(),
        }
    }

    async fn local(&self, id: StorageId) -> Result<Local, StoreError> {
        let bitfield = self.store.store().observe(blob_hash(id)).await.map_err(failed)?;
        Ok(Local {
            complete: bitfield.is_complete(),
            size: bitfield.validated_size(),
            bytes: bitfield.total_bytes(),
            ranges: bitfield.ranges,
        })
    }
}

/// What the store has of an object, by its books.
struct Local {
    complete: bool,
    /// Known only when the last chunk is here, and then proven by it.
    size: Option<u64>,
    bytes: u64,
    ranges: ChunkRanges,
}

/// Runs a transfer in a task of its own. A decoder that a hostile holder made panic is a lie told, not our end; and
/// dropping the future stops the task.
async fn guarded<T: Send + 'static>(
    transfer: impl Future<Output = Result<T, FetchError>> + Send + 'static,
) -> Result<T, FetchError> {
    match AbortOnDropHandle::new(tokio::spawn(transfer)).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => Err(FetchError::BadBytes),
        Err(_) => Err(FetchError::ConnectionLost),
    }
}

fn distrust_stalled(lease: &Lease, error: &FetchError) {
    if matches!(error, FetchError::Stalled(_)) {
        lease.distrust();
    }
}

fn aligned(part: &Range<u64>) -> ChunkRanges {
    let start = part.start / PART_ALIGN * PART_ALIGN;
    let end = part.end.checked_next_multiple_of(PART_ALIGN).unwrap_or(u64::MAX);
    ChunkRanges::bytes(start..end)
}

/// One request to one holder.
struct Transfer {
    store: ObjectStore,
    connection: Connection,
    id: StorageId,
    stall_timeout: Duration,
    fetched: Arc<AtomicU64>,
}

impl Transfer {
    /// Asks for the last chunk. Its place in the tree depends on the length, so when it verifies, the length is true.
    async fn prove_size(&self) -> Result<u64, FetchError> {
        let (content, stated) = self.begin(ChunkRanges::last_chunk()).await?;
        check_size(stated, None)?;
        self.no_stall(content.drain())
            .await?
            .map_err(|error| decode_error(&error))?;
        Ok(stated)
    }

    /// Moves the missing ranges into the store.
    async fn run(
        &self,
        missing: ChunkRanges,
        size: u64,
        have_bytes: u64,
        progress: &(impl Fn(FetchProgress) + Send + Sync),
    ) -> Result<(), FetchError> {
        let missing = bounded(missing, size);
        if missing.is_empty() {
            return Ok(());
        }
        self.store.check_room(size.saturating_sub(have_bytes))?;
        let (mut content, stated) = self.begin(missing).await?;
        let size = check_size(stated, Some(size))?;
        let import = self
            .store
            .store()
            .import_bao(blob_hash(self.id), size, IMPORT_QUEUE)
            .await
            .map_err(failed)?;
        let moved = async {
            let mut commit_at = EARLY_COMMIT_BYTES;
            loop {
                let (next, item) = match self.no_stall(content.next()).await? {
                    BlobContentNext::More(more) => more,
                    BlobContentNext::Done(end) => return Ok(Some(end)),
                };
                content = next;
                let item = item.map_err(|error| decode_error(&error))?;
                let arrived = match &item {
                    BaoContentItem::Leaf(leaf) => leaf.data.len() as u64,
                    BaoContentItem::Parent(_) => 0,
                };
                // Not under the stall timeout: a slow disk of ours is no fault of the holder.
                if import.tx.send(item).await.is_err() {
                    // The store has dropped the import and says why at its end.
                    return Ok(None);
                }
                let fetched = self.fetched.fetch_add(arrived, Ordering::Relaxed) + arrived;
                if arrived > 0 {
                    let have_bytes = have_bytes + fetched;
                    progress(FetchProgress {
                        have_bytes,
                        size: size.get(),
                    });
                }
                if fetched >= commit_at {
                    commit_at = u64::MAX;
                    // Only a convenience after a kill: if it fails, the end of this fetch will say so.
                    let store = self.store.store().clone();
                    tokio::spawn(async move { store.sync_db().await.is_ok() });
                }
            }
        }
        .await;
        drop(import.tx);
        let stored = import.rx.await.map_err(failed)?;
        stored.map_err(|iroh_blobs::api::Error::Io(error)| StoreError::Request(error))?;
        let end = match moved {
            Ok(Some(end)) => end,
            Ok(None) => return Err(StoreError::Failed("the store ended an import early".into()).into()),
            Err(error) => {
                // Keeps what arrived, whatever happens to us next. If it fails, less is kept, and the next fetch asks again.
                let _ = self.store.store().sync_db().await;
                return Err(error);
            }
        };
        // What comes after the last byte is only the end of the stream; the bytes are here whatever it says.
        if let EndBlobNext::Closing(closing) = end.next() {
            let _ = self.no_stall(closing.next()).await;
        }
        Ok(())
    }

    async fn whole(&self, size: u64) -> Result<Bytes, FetchError> {
        let (content, stated) = self.begin(ChunkRanges::all()).await?;
        check_size(stated, Some(size))?;
        let mut content = content;
        let mut bytes = Vec::new();
        loop {
            match self.no_stall(content.next()).await? {
                BlobContentNext::More((next, item)) => {
                    if let BaoContentItem::Leaf(leaf) = item.map_err(|error| decode_error(&error))? {
                        bytes.extend_from_slice(&leaf.data);
                    }
                    content = next;
                }
                BlobContentNext::Done(_) => return Ok(bytes.into()),
            }
        }
    }

    /// Sends a request and reads the stated length.
    async fn begin(&self, ranges: ChunkRanges) -> Result<(AtBlobContent, u64), FetchError> {
        let request = GetRequest::blob_ranges(blob_hash(self.id), ranges);
        let start = fsm::start(self.connection.clone(), request, Default::default());
        let beginning = async {
            let connected = start.next().await.map_err(|_| self.lost())?;
            let ConnectedNext::StartRoot(root) = connected.next().await.map_err(|_| self.lost())? else {
                // Only an empty request has no root.
                return Err(FetchError::NotHeld);
            };
            root.next().next().await.map_err(|error| match error {
                fsm::AtBlobHeaderNextError::NotFound { .. } => FetchError::NotHeld,
                fsm::AtBlobHeaderNextError::Read { source, .. } => read_error(&source),
            })
        };
        self.no_stall(beginning).await?
    }

    async fn no_stall<T>(&self, future: impl Future<Output = T>) -> Result<T, FetchError> {
        let timeout = self.stall_timeout;
        tokio::time::timeout(timeout, future)
            .await
            .map_err(|_| FetchError::Stalled(timeout))
    }

    /// The peer's gate refuses after our handshake is complete, so its answer shows at the first use.
    fn lost(&self) -> FetchError {
        match self.connection.close_reason() {
            Some(ConnectionError::ApplicationClosed(close)) => from_code(close.error_code),
            _ => FetchError::ConnectionLost,
        }
    }
}

/// The ranges inside an object of this size. A request that reaches beyond the end asks for the last chunk again.
fn bounded(ranges: ChunkRanges, size: u64) -> ChunkRanges {
    &ranges & &ChunkRanges::from(..ChunkNum(size.div_ceil(1024)))
}

fn check_size(stated: u64, proven: Option<u64>) -> Result<NonZeroU64, FetchError> {
    // The store states zero for what it does not have; no object is empty.
    let size = NonZeroU64::new(stated).ok_or(FetchError::NotHeld)?;
    let limit = proven.unwrap_or(OBJECT_BYTES_MAX);
    if stated > limit || proven.is_some_and(|proven| proven != stated) {
        return Err(FetchError::WrongSize { stated, proven: limit });
    }
    Ok(size)
}

fn decode_error(error: &DecodeError) -> FetchError {
    match error {
        DecodeError::ParentHashMismatch { .. } | DecodeError::LeafHashMismatch { .. } => FetchError::BadBytes,
        DecodeError::ChunkNotFound { .. } | DecodeError::ParentNotFound { .. } | DecodeError::LeafNotFound { .. } => {
            FetchError::NotHeld
        }
        DecodeError::Read { source, .. } => read_error(source),
        _ => FetchError::ConnectionLost,
    }
}

fn read_error(error: &std::io::Error) -> FetchError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<ReadError>()) {
        Some(ReadError::Reset(code)) => from_code(*code),
        Some(ReadError::ConnectionLost(ConnectionError::ApplicationClosed(close))) => from_code(close.error_code),
        _ => FetchError::ConnectionLost,
    }
}

fn from_code(code: VarInt) -> FetchError {
    match code {
        ERR_PERMISSION => FetchError::Refused,
        ERR_LIMIT | code::BUSY => FetchError::Busy,
        // iroh-blobs resets a stream with this when a range is not there.
        iroh_blobs::protocol::ERR_INTERNAL => FetchError::NotHeld,
        code::NOT_ALLOWED => FetchError::Connect(ConnectError::Refused),
        _ => FetchError::ConnectionLost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_widened_to_mebibytes_and_ends_are_cut() {
        let part = aligned(&(1_500_000..1_500_001));
        assert_eq!(part, ChunkRanges::bytes(1_048_576..2_097_152));
        assert_eq!(
            bounded(part, 1_500_001),
            ChunkRanges::from(ChunkNum(1024)..ChunkNum(1465))
        );
        assert_eq!(bounded(ChunkRanges::all(), 1), ChunkRanges::from(..ChunkNum(1)));
        assert!(!aligned(&(0..u64::MAX)).is_empty());
    }

    #[test]
    fn sizes_nobody_can_have_are_lies() {
        assert!(matches!(
            check_size(7, Some(8)),
            Err(FetchError::WrongSize { stated: 7, proven: 8 })
        ));
        assert!(matches!(check_size(u64::MAX, None), Err(FetchError::WrongSize { .. })));
        assert!(matches!(check_size(0, Some(8)), Err(FetchError::NotHeld)));
        assert_eq!(check_size(9, Some(8)).unwrap_err().blame(), Blame::HolderLied);
    }
}
