//! What transitions need to know of editions beyond their entries: manifests, artefact records, verified files.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use super::{EditionKey, Refusal, Version};
use crate::doc::{
    ArtefactFingerprint, EditionState, Entry, FilePath, FileRoot, JsonObject, Lifecycle, Manifest, ProductKind, Sha256,
    Stored, Urn,
};

/// INV-241: manifests read for a transition: that of every incoming edition, and those of other editions whose entries do not
/// fill their artefact records.
#[derive(Clone, Debug, Default)]
pub struct Manifests(BTreeMap<EditionKey, Arc<Stored<Manifest>>>);

impl Manifests {
    /// Adds a manifest under the edition it names.
    pub fn insert(&mut self, manifest: Arc<Stored<Manifest>>) {
        self.0.insert(
            EditionKey::new(manifest.product_id.clone(), manifest.edition_id),
            manifest,
        );
    }

    /// The manifest of an edition.
    pub fn get(&self, edition: &EditionKey) -> Option<&Arc<Stored<Manifest>>> {
        self.0.get(edition)
    }

    /// The manifest an entry names, refused when it is not at hand or is another one (INV-216).
    pub(super) fn of_entry(&self, edition: &EditionKey, entry: &Entry) -> Result<&Arc<Stored<Manifest>>, Refusal> {
        let manifest = self.get(edition).ok_or_else(|| Refusal::RecordsMissing {
            edition: edition.clone(),
        })?;
        if manifest.sha256() != entry.manifest_sha256 {
            let (recorded, fetched) = (entry.manifest_sha256, manifest.sha256());
            return Err(Refusal::OtherManifest {
                edition: edition.clone(),
                recorded,
                fetched,
            });
        }
        Ok(manifest)
    }

    /// The artefact records of an edition: from its entry when they are filled, else from its manifest.
    pub(super) fn artefacts<'a>(
        &self,
        edition: &EditionKey,
        entry: &'a Entry,
    ) -> Result<Cow<'a, BTreeMap<Urn, ArtefactFingerprint>>, Refusal> {
        match &entry.artefacts {
            Some(artefacts) => Ok(Cow::Borrowed(artefacts)),
            None => Ok(Cow::Owned(self.of_entry(edition, entry)?.artefact_fingerprints())),
        }
    }

    /// The live and embargoed editions of a version whose manifests must be read before anything can be compared with them.
    pub fn missing(&self, version: &Version) -> Vec<EditionKey> {
        let current = |entry: &&Entry| matches!(entry.state, EditionState::Live | EditionState::Embargoed);
        version
            .leaves()
            .flat_map(|leaf| {
                let unfilled = leaf
                    .editions
                    .iter()
                    .filter(current)
                    .filter(|entry| entry.artefacts.is_none());
                unfilled
                    .map(|entry| EditionKey::new(leaf.product_id.clone(), entry.edition_id))
                    .collect::<Vec<_>>()
            })
            .filter(|edition| !self.0.contains_key(edition))
            .collect()
    }
}

/// What a manifest does not say of the product it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProductProfile {
    /// What the product holds.
    pub kind: ProductKind,
    /// Whether its content may change; asked of a product's first edition only.
    pub lifecycle: Lifecycle,
}

/// An edition that was sealed and is to be recorded.
#[derive(Clone, Debug)]
pub struct SealedEdition {
    /// Its manifest. Its hash is that of the bytes fetched, so what is recorded is what was read (INV-216).
    pub manifest: Arc<Stored<Manifest>>,
    /// Its product's kind and lifecycle.
    pub profile: ProductProfile,
    /// INV-173: where its structures came from, when a registry is authoritative.
    pub structure_source: Option<JsonObject>,
}

impl SealedEdition {
    /// The edition's name.
    pub fn edition(&self) -> EditionKey {
        EditionKey::new(self.manifest.product_id.clone(), self.manifest.edition_id)
    }
}

/// One file as it lies there, measured by reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredFile {
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256.
    pub sha256: Sha256,
}

/// A retired edition whose manifest and every listed file were compared with what lies there.
///
/// There is no other way to make one than [`VerifiedEdition::compare`], so a reinstatement without this check does not compile.
#[derive(Clone, Debug)]
pub struct VerifiedEdition(SealedEdition);

impl VerifiedEdition {
    /// INV-202: compares every file the manifest lists with its measurement; a file that was not found, has another size or
    /// another hash is refused, naming it.
    pub fn compare(
        sealed: SealedEdition,
        measured: &BTreeMap<(FileRoot, FilePath), MeasuredFile>,
    ) -> Result<Self, Refusal> {
        for file in &sealed.manifest.files {
            let refused = |expected: String, found: String| Refusal::FileUnverified {
                edition: sealed.edition(),
                file: format!("{}/{}", file.root, file.path),
                expected,
                found,
            };
            let Some(found) = measured.get(&(file.root, file.path.clone())) else {
                return Err(refused(format!("{} bytes", file.size), "no such file".to_owned()));
            };
            if found.size != file.size {
                return Err(refused(format!("{} bytes", file.size), format!("{} bytes", found.size)));
            }
            if found.sha256 != file.digests.sha256() {
                return Err(refused(
                    format!("SHA-256 {}", file.digests.sha256()),
                    found.sha256.to_string(),
                ));
            }
        }
        Ok(Self(sealed))
    }

    /// The edition.
    pub fn sealed(&self) -> &SealedEdition {
        &self.0
    }
}
