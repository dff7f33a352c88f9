//! Where recovery reads from: a replica that is dialled with the kit's key, or a bare directory.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use sovm_mesh::{
    net::{
        address::SiteAddress,
        alpn::{Alpn, Direction, Gate},
        endpoint::{EndpointConfig, MeshEndpoint},
        fetch::{FetchError, FetchRequest, Fetcher},
        store::ObjectStore,
        wire::{FrameLimits, Framed},
    },
    proto::{
        blind::{Answer, Ask, ListFrom, MAX_IDS, ReplicaRequest, decode_receipt},
        peer::{self, Hello, PeerMessage},
        sync::{Effect, Initiator, Limits, MemorySet, Scope, SharedScope},
    },
};
use sovm_object::{
    cbor::Nullable,
    hlc::Hlc,
    id::{MeshId, SiteId, StorageId},
    secret::SiteKey,
    sign::Signed,
    verified::VerifiedRead as _,
};
use sovm_recovery::{BlobsError, DirBlobs, OpaqueBlobs};

use super::super::founding::random;
use crate::error::{ApiError, ErrorKind};

/// Longest blob recovery itself reads whole; checkpoints' parts are far below.
const MAX_BLOB_BYTES: u64 = 256 << 20;

/// An address as it stands on a kit page and behind `--from`: `SITE@ADDRESS,ADDRESS`.
pub(super) fn to_text(address: &SiteAddress) -> String {
    let places: Vec<_> = address
        .direct
        .iter()
        .map(ToString::to_string)
        .chain(address.relays.iter().cloned())
        .collect();
    format!("{}@{}", address.site, places.join(","))
}

/// Reads an address.
pub(super) fn from_text(text: &str) -> Result<SiteAddress, ApiError> {
    let bad = || {
        ApiError::new(
            ErrorKind::BadInput,
            format!("{text} is neither a directory nor the address of a replica"),
        )
        .safe("nothing was changed")
        .next("give SITE@IP:PORT as it stands on the kit page, or a directory with the blobs")
    };
    let (site, places) = text.split_once('@').ok_or_else(bad)?;
    let mut address = SiteAddress::unknown(site.parse().map_err(|_| bad())?);
    for place in places.split(',') {
        match place.parse() {
            Ok(socket) => address.direct.push(socket),
            Err(_) if place.starts_with("http") => address.relays.push(place.to_owned()),
            Err(_) => return Err(bad()),
        }
    }
    Ok(address)
}

/// Lets the recovering machine dial, and nobody in.
struct DialOnly;

impl Gate for DialOnly {
    fn allows(&self, _: SiteId, alpn: Alpn, direction: Direction) -> bool {
        direction == Direction::Outgoing && matches!(alpn, Alpn::Recover | Alpn::Blobs | Alpn::Sync)
    }
}

/// A source of opaque blobs.
pub(super) enum Source {
    /// A directory.
    Directory(DirBlobs),
    /// A replica.
    Replica(Box<ReplicaBlobs>),
}

/// A replica at the other end of a connection made with the kit's key.
pub(super) struct ReplicaBlobs {
    endpoint: MeshEndpoint,
    fetcher: Fetcher,
    store: ObjectStore,
    key: SiteKey,
    mesh: MeshId,
    pub(super) address: SiteAddress,
    clock: Mutex<sovm_object::hlc::HlcClock>,
}

impl Source {
    /// Opens a place the user or the page named.
    pub(super) async fn open(
        place: &str,
        kit_key: &SiteKey,
        mesh: Option<MeshId>,
        store: &ObjectStore,
    ) -> Result<Self, ApiError> {
        if Path::new(place).is_dir() {
            let dir = DirBlobs::open(Path::new(place))
                .map_err(|error| ApiError::new(ErrorKind::Failed, super::super::convert::chain(&error)))?;
            return Ok(Self::Directory(dir));
        }
        let address = from_text(place)?;
        let mesh = mesh.ok_or_else(|| {
            ApiError::new(
                ErrorKind::BadInput,
                "the words alone do not say which mesh a replica belongs to",
            )
            .safe("nothing was changed")
            .next("type in the line \"Mesh id\" of the page too, or recover from a directory of blobs")
        })?;
        let loopback = address.direct.iter().all(|address| address.ip().is_loopback()) && address.relays.is_empty();
        let config = if loopback {
            EndpointConfig::loopback()
        } else {
            EndpointConfig::default()
        };
        let endpoint = MeshEndpoint::bind(&config, kit_key, Arc::new(DialOnly))
            .await
            .map_err(|error| ApiError::new(ErrorKind::Network, super::super::convert::chain(&error)))?;
        endpoint.learn(&address);
        let replica = ReplicaBlobs {
            fetcher: Fetcher::new(endpoint.clone(), store.clone()),
            endpoint,
            store: store.clone(),
            key: SiteKey::from_seed(&kit_key.expose_for_sealing()),
            mesh,
            address,
            clock: Mutex::new(sovm_object::hlc::HlcClock::starting_at(Hlc::default())),
        };
        Ok(Self::Replica(Box::new(replica)))
    }

    /// Hangs up.
    pub(super) async fn close(self) {
        if let Self::Replica(replica) = self {
            replica.endpoint.close().await;
        }
    }
}

impl ReplicaBlobs {
    fn error(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> BlobsError {
        BlobsError {
            place: format!("replica {}", to_text(&self.address)),
            source: source.into(),
        }
    }

    async fn ask(&self, stream: &mut Framed, ask: Ask) -> Result<Answer, BlobsError> {
        let now_ms = now_ms();
        let hlc = self.clock.lock().unwrap_or_else(PoisonError::into_inner).tick(now_ms);
        let request = ReplicaRequest {
            mesh_id: self.mesh,
            requester: self.key.site_id(),
            replica: self.address.site,
            nonce: random(),
            hlc,
            ask,
        };
        let request = Signed::sign(request, &self.key, &self.mesh);
        stream.send(request.bytes()).await.map_err(|error| self.error(error))?;
        let frame = stream
            .recv()
            .await
            .map_err(|error| self.error(error))?
            .ok_or_else(|| self.error("it hung up"))?;
        let receipt = decode_receipt(&frame).map_err(|error| self.error(error))?;
        let receipt = receipt.verify(&self.mesh).map_err(|error| self.error(error))?;
        let body = receipt.body();
        if body.request != request.id() || body.replica != self.address.site {
            return Err(self.error("its answer is for another question"));
        }
        match &body.answer {
            Answer::Refused(refusal) => Err(self.error(*refusal)),
            answer => Ok(answer.clone()),
        }
    }

    /// Tells the replica who was added, so that it lets the recovered machine in.
    pub(super) async fn push(&self, public: &MemorySet) -> Result<(), ApiError> {
        let failed = |error: &dyn std::error::Error| {
            ApiError::new(
                ErrorKind::Network,
                format!("the replica was not told of this machine: {error}"),
            )
            .safe("the recovered domain is complete here")
        };
        let mut stream = self
            .endpoint
            .open(self.address.site, Alpn::Sync, FrameLimits::MEMBER)
            .await
            .map_err(|error| failed(&error))?;
        let hello = Hello {
            version: Hello::VERSION,
            mesh_id: self.mesh,
            incarnation: random(),
            counter: 1,
            your_counter: 0,
        };
        stream
            .send(&peer::encode(&PeerMessage::Hello(hello)))
            .await
            .map_err(|error| failed(&error))?;
        let shared = vec![SharedScope {
            scope: Scope::Public,
            from_generation: 0,
        }];
        let mut initiator = Initiator::new(shared, Limits::default());
        let mut effects = initiator.start(public).map_err(|error| failed(&error))?;
        loop {
            for effect in effects {
                match effect {
                    Effect::Send(message) => {
                        let message = peer::encode(&PeerMessage::Sync(message));
                        stream.send(&message).await.map_err(|error| failed(&error))?;
                    }
                    Effect::Received { .. } => {}
                    Effect::Done(_) => {
                        // Whether the other end of the stream is seen or not, what was sent is there.
                        let _ = stream.finish().await;
                        return Ok(());
                    }
                }
            }
            let message = loop {
                let frame = stream.recv().await.map_err(|error| failed(&error))?;
                let frame = frame.ok_or_else(|| failed(&std::io::Error::other("it hung up")))?;
                match peer::decode(&frame).map_err(|error| failed(&error))? {
                    PeerMessage::Sync(message) => break message,
                    PeerMessage::Hello(_) | PeerMessage::Whereabouts(_) => {}
                    _ => return Err(failed(&std::io::Error::other("it answered out of turn"))),
                }
            };
            effects = initiator.handle(public, message).map_err(|error| failed(&error))?;
        }
    }
}

impl OpaqueBlobs for Source {
    async fn list(&self) -> Result<Vec<(StorageId, u64)>, BlobsError> {
        match self {
            Self::Directory(dir) => dir.list().await,
            Self::Replica(replica) => replica.list().await,
        }
    }

    async fn get(&self, id: StorageId) -> Result<Option<Vec<u8>>, BlobsError> {
        match self {
            Self::Directory(dir) => dir.get(id).await,
            Self::Replica(replica) => replica.get(id).await,
        }
    }

    async fn head(&self, id: StorageId) -> Result<Option<Vec<u8>>, BlobsError> {
        match self {
            Self::Directory(dir) => dir.head(id).await,
            Self::Replica(replica) => replica.get(id).await,
        }
    }
}

impl OpaqueBlobs for ReplicaBlobs {
    async fn list(&self) -> Result<Vec<(StorageId, u64)>, BlobsError> {
        let mut stream = self
            .endpoint
            .open(self.address.site, Alpn::Recover, FrameLimits::MEMBER)
            .await
            .map_err(|error| self.error(error))?;
        let mut all: Vec<(StorageId, u64)> = Vec::new();
        loop {
            let after = Nullable(all.last().map(|(id, _)| *id));
            let answer = self
                .ask(
                    &mut stream,
                    Ask::List(ListFrom {
                        after,
                        limit: MAX_IDS as u64,
                    }),
                )
                .await?;
            let Answer::Listed(page) = answer else {
                return Err(self.error("its answer is for another question"));
            };
            let before = all.len();
            all.extend(page.ids.iter().copied().zip(page.sizes.iter().copied()));
            if !page.more || all.len() == before {
                // Hanging up at the end of a list loses nothing.
                let _ = stream.finish().await;
                return Ok(all);
            }
        }
    }

    async fn get(&self, id: StorageId) -> Result<Option<Vec<u8>>, BlobsError> {
        match self
            .fetcher
            .fetch(&FetchRequest::whole(id), self.address.site, |_| {})
            .await
        {
            Ok(_) => {}
            Err(FetchError::NotHeld | FetchError::Refused) => return Ok(None),
            Err(error) => return Err(self.error(error)),
        }
        let size = self.store.size(id).await.map_err(|error| self.error(error))?;
        if size > MAX_BLOB_BYTES {
            return Err(self.error(format!("blob {} is too large to be one of ours", id.fmt_short())));
        }
        let whole = self
            .store
            .read(id, &[0..size])
            .await
            .map_err(|error| self.error(error))?;
        Ok(whole.into_iter().next().map(|bytes| bytes.to_vec()))
    }
}

pub(super) fn now_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}
