//! An edition that another site's writer is to record: its registration, and the documents that travel with it (§11.2).
//!
//! ```text
//! publisher   seal ─▶ check ─▶ pending/<product>/<edition>.json ─▶ sent, with the edition's documents
//! authority   examine ─▶ stored below products/ and pending/ ─▶ check ─▶ fold, into the next version
//! ```
//!
//! A publisher of this kind writes no version: what is in its store is a copy of somebody else's chain.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;

use super::{
    EditionError, Publisher,
    check::{CheckOptions, Publishable},
};
use crate::{
    doc::{DocError, EditionId, FileRoot, Instant, JsonObject, Manifest, Pending, Sha256, Stored, Unverified, layout},
    store::{Creation, StorePath},
    transition::EditionKey,
    writer::Repair,
};

impl Publisher {
    /// INV-403: writes the registration of a sealed edition that the publish check found nothing wrong with. One that is there
    /// already stands, and only its own release time may be asked for again.
    pub async fn register(
        &self,
        edition: &Publishable,
        release_at: Option<Instant>,
    ) -> Result<Stored<Pending>, EditionError> {
        let (product_id, edition_id) = (self.place().product_id().clone(), edition.manifest().edition_id);
        let store = self.place().store();
        let path = StorePath::parse(&layout::pending(&product_id, &edition_id))?;
        let wished = Stored::encode(Pending {
            edition_id,
            release_at,
            extra: JsonObject::new(),
        })?;
        if store.create(&path, wished.bytes().clone()).await? == Creation::Created {
            return Ok(wished);
        }
        let Some(found) = store.get(&path).await? else {
            return Err(EditionError::Unregistered { product_id, edition_id });
        };
        // This site's own document, written before the one that was sent.
        let found = Stored::<Pending, Unverified>::decode(found.bytes)?.trusted();
        found.check_path(&edition_id)?;
        if release_at.is_some() && found.release_at != release_at {
            return Err(EditionError::RegisteredOtherwise {
                product_id,
                edition_id,
                release_at: found.release_at.map_or_else(|| "no".to_owned(), |at| at.to_string()),
            });
        }
        Ok(found)
    }

    /// An edition whose seal ended before it was registered, as its journal says; a registration takes the journal away. One that the
    /// publish check finds something wrong with is left where it is (INV-401).
    pub async fn unregistered(&self, options: &CheckOptions<'_>) -> Result<Option<Publishable>, EditionError> {
        for (edition_id, recorded) in self.journals().await? {
            if recorded || !self.place().is_sealed(&edition_id).await? {
                continue;
            }
            match self.check(&edition_id, options).await?.into_publishable() {
                Ok(edition) => return Ok(Some(edition)),
                Err(findings) => tracing::warn!(%edition_id, %findings, "sealed, unregistered and not recordable"),
            }
        }
        Ok(None)
    }

    /// What a repair is where nothing is recorded: journals of recorded editions go, and a seal that was not registered is refused
    /// until it is, since the next edition would compete with it (INV-405).
    pub(super) async fn settle(&self) -> Result<Vec<Repair>, EditionError> {
        if let Some(edition) = self.unregistered(&CheckOptions::default()).await? {
            return Err(EditionError::Unregistered {
                product_id: self.place().product_id().clone(),
                edition_id: edition.manifest().edition_id,
            });
        }
        let mut repairs = Vec::new();
        for (edition_id, recorded) in self.journals().await? {
            repairs.push(if recorded {
                self.writer().end_seal(self.place().product_id(), &edition_id).await?;
                Repair::AlreadyRecorded(edition_id)
            } else if self.place().is_sealed(&edition_id).await? {
                Repair::Left(edition_id)
            } else {
                Repair::Unsealed(edition_id)
            });
        }
        Ok(repairs)
    }

    /// The editions of this product that have a journal, and whether the newest version names them.
    async fn journals(&self) -> Result<Vec<(EditionId, bool)>, EditionError> {
        let journalled = self.journalled().await?;
        if journalled.is_empty() {
            return Ok(Vec::new());
        }
        let (version, _) = self.manifests().await?;
        let recorded = |edition_id: &EditionId| {
            let key = EditionKey::new(self.place().product_id().clone(), *edition_id);
            version.as_ref().is_some_and(|version| version.status(&key).is_some())
        };
        Ok(journalled
            .into_iter()
            .map(|edition_id| (edition_id, recorded(&edition_id)))
            .collect())
    }
}

/// What a registration says, its signature checked by whoever hands it in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The edition.
    pub edition: EditionKey,
    /// SHA-256 of the registration's exact bytes.
    pub registration_sha256: Sha256,
}

/// The documents of a registered edition, each named by another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// The registration.
    pub registration: Pending,
    /// The edition's manifest.
    pub manifest: Arc<Stored<Manifest>>,
    /// BLAKE3 of its data files: the objects they are.
    pub objects: BTreeSet<[u8; 32]>,
    /// Every document by its name: files first, the manifest after them, the registration last (INV-403).
    pub documents: Vec<(String, Bytes)>,
}

/// Why the documents that came with a registration are not an edition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A document that another one names.
    #[error("INV-403: {path} did not come with the registration")]
    Absent {
        /// The document.
        path: String,
    },
    /// A document that no other one names.
    #[error("INV-403: {path} came with the registration, and nothing names it")]
    Unnamed {
        /// The document.
        path: String,
    },
    /// A document other than the manifest's.
    #[error("INV-104: {path} is not what the manifest lists")]
    Differs {
        /// The document.
        path: String,
    },
    /// A document that is refused by itself.
    #[error("{path}: {problem}")]
    Document {
        /// The document.
        path: String,
        /// What is wrong with it.
        problem: Box<DocError>,
    },
}

impl Unfit {
    /// The number of the rule that refuses (`INV-n`).
    pub fn rule(&self) -> u16 {
        match self {
            Self::Absent { .. } | Self::Unnamed { .. } => 403,
            Self::Differs { .. } => 104,
            Self::Document { problem, .. } => problem.rule.unwrap_or(403),
        }
    }
}

/// INV-403: holds the documents that came with a registration against one another.
///
/// The registration is the one its sender signed, the manifest is the edition's, and every file is what the manifest lists; nothing
/// is missing, and nothing else came along. `object_of` reads which object the document in the place of a data file names.
pub fn examine(
    claim: &Claim,
    came: &BTreeMap<String, Bytes>,
    object_of: impl Fn(&[u8]) -> Option<[u8; 32]>,
) -> Result<Registered, Unfit> {
    let EditionKey { product_id, edition_id } = &claim.edition;
    let find = |path: &str| {
        let path = path.to_owned();
        came.get(&path).cloned().ok_or(Unfit::Absent { path })
    };
    let refused = |path: &str| {
        let path = path.to_owned();
        move |problem: DocError| Unfit::Document {
            path,
            problem: Box::new(problem),
        }
    };
    let pending_path = layout::pending(product_id, edition_id);
    let registration = Stored::<Pending>::verify(find(&pending_path)?, claim.registration_sha256)
        .and_then(|registration| registration.check_path(edition_id).map(|()| registration))
        .map_err(refused(&pending_path))?;
    let manifest_path = layout::manifest(product_id, edition_id);
    let manifest = Stored::<Manifest, Unverified>::decode(find(&manifest_path)?)
        .and_then(|manifest| manifest.check_path(product_id, edition_id).map(|()| manifest))
        .map_err(refused(&manifest_path))?
        // Its sender signed the name of the object it came in.
        .trusted();
    let mut objects = BTreeSet::new();
    let mut documents = Vec::with_capacity(came.len());
    for file in &manifest.files {
        let folder = match file.root {
            FileRoot::Data => layout::data(product_id),
            FileRoot::Edition => layout::edition(product_id, edition_id),
        };
        let path = format!("{folder}/{}", file.path);
        let bytes = find(&path)?;
        let fits = match file.root {
            FileRoot::Data => {
                let object = object_of(&bytes);
                objects.extend(object);
                object.is_some() && object == file.digests.blake3()
            }
            FileRoot::Edition => Sha256::of(&bytes) == file.digests.sha256(),
        };
        if !fits {
            return Err(Unfit::Differs { path });
        }
        documents.push((path, bytes));
    }
    documents.push((manifest_path, manifest.bytes().clone()));
    documents.push((pending_path, registration.bytes().clone()));
    let named: BTreeSet<&str> = documents.iter().map(|(path, _)| path.as_str()).collect();
    if let Some(path) = came.keys().find(|path| !named.contains(path.as_str())) {
        return Err(Unfit::Unnamed { path: path.clone() });
    }
    Ok(Registered {
        registration: registration.into_value(),
        manifest: Arc::new(manifest),
        objects,
        documents,
    })
}
