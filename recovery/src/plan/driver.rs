//! Drives the steps over a source of blobs.

use std::collections::BTreeSet;

use sovm_object::{
    entry::VerifiedEntry,
    hlc::Hlc,
    id::{DomainId, MeshId, StorageId},
    record::{ObjectKind, Role},
    roster::Roster,
};

use super::{HeadsFound, RecoverError, RecoverOptions, RingSearch, RootSearch, StepError};
use crate::{
    blobs::OpaqueBlobs,
    chain::{ChainError, Lineage},
    checkpoint::{RecoveredEntry, RecoveredSet},
    keystore::{DomainKeys, RootRef},
    kit::ParsedKit,
    ring::RingError,
    root::RootError,
};

/// Where recovery is, for a progress line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The source listed its blobs.
    Listed {
        /// How many.
        blobs: usize,
    },
    /// A ring blob opened.
    Ring(StorageId),
    /// The roots were walked.
    Roots {
        /// Verified roots at hand.
        found: usize,
    },
    /// An object of a checkpoint is being fetched.
    Fetching(StorageId),
    /// A checkpoint is verified.
    Checkpoint {
        /// Its root's number.
        number: u64,
        /// Entries in it.
        entries: usize,
    },
}

/// What was found along the way: everything a person should know about how good the recovered state is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoverReport {
    /// Blobs the source listed.
    pub blobs: usize,
    /// Ring blobs that opened.
    pub rings: Vec<StorageId>,
    /// Age files that are for this kit but wrong, or too damaged to tell.
    pub refused_rings: Vec<(StorageId, RingError)>,
    /// Verified roots at hand.
    pub roots: usize,
    /// Roots that were refused.
    pub refused_roots: Vec<(StorageId, RootError)>,
    /// Roots named somewhere that are not here. A newer state may exist elsewhere.
    pub missing_roots: Vec<StorageId>,
    /// Roots that do not lead back to a trusted one.
    pub cut_off: Vec<(StorageId, ChainError)>,
    /// Roots whose checkpoint failed, so that an older one was used.
    pub failed: Vec<(StorageId, String)>,
    /// The roots recovered from; more than one after a fork.
    pub heads: Vec<RootRef>,
    /// When the newest of them was issued, by its issuer's clock.
    pub issued: Hlc,
    /// A clock stood behind along the chain; a warning (SOP-230).
    pub clock_went_back: bool,
    /// Entries of formats newer than this build.
    pub unsupported: usize,
    /// Objects the recovered catalogue names.
    pub objects: usize,
    /// Those whose bytes this source does not have (SOP-227).
    pub missing_objects: Vec<StorageId>,
    /// Domain digest of the recovered set.
    pub digest: [u8; 32],
}

impl RecoverReport {
    /// Whether the source named a newer state than the one recovered.
    pub fn is_stale(&self) -> bool {
        !self.missing_roots.is_empty() || !self.failed.is_empty()
    }
}

/// A recovered domain, ready to be put into a fresh home.
#[derive(Debug)]
pub struct Recovered {
    /// The mesh.
    pub mesh_id: MeshId,
    /// The domain.
    pub domain_id: DomainId,
    /// KEK ring, admins, op heads and root, for the key store.
    pub keys: DomainKeys,
    /// The domain's roster in the recovered set.
    pub roster: Roster,
    /// Verified entries to admit, founding records first.
    pub entries: Vec<RecoveredEntry>,
    /// How it went.
    pub report: RecoverReport,
}

/// Recovers a domain from a kit and a source of blobs.
pub async fn recover<B: OpaqueBlobs>(
    kit: &ParsedKit,
    blobs: &B,
    options: &RecoverOptions,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Recovered, RecoverError> {
    let mut listed = blobs.list().await?;
    if listed.is_empty() {
        return Err(RecoverError::Empty);
    }
    progress(Progress::Listed { blobs: listed.len() });
    listed.sort_unstable();

    let mut rings = RingSearch::new(kit);
    for (id, _) in listed.iter().filter(|(_, len)| RingSearch::wants(*len)) {
        if !blobs.head(*id).await?.is_some_and(|head| RingSearch::wants_head(&head)) {
            continue;
        }
        if let Some(bytes) = blobs.get(*id).await?
            && rings.offer(*id, &bytes)
        {
            progress(Progress::Ring(*id));
        }
    }

    let heads = find_heads(rings.finish(options)?, blobs, &listed, options).await?;
    progress(Progress::Roots {
        found: heads.heads().len(),
    });

    let mut used: Vec<Lineage> = Vec::new();
    let mut failed: Vec<(StorageId, String)> = Vec::new();
    let mut united = RecoveredSet::default();
    for head in heads.heads() {
        let (lineage, set) = open_head(&heads, head, blobs, options, &mut failed, progress).await?;
        used.push(lineage);
        united.unite(set);
    }
    finish(heads, used, failed, united, &listed)
}

async fn find_heads<'a, B: OpaqueBlobs>(
    mut roots: RootSearch<'a>,
    blobs: &B,
    listed: &[(StorageId, u64)],
    options: &RecoverOptions,
) -> Result<HeadsFound<'a>, RecoverError> {
    for (id, _) in listed.iter().filter(|(_, len)| RootSearch::wants(*len)) {
        if !blobs.head(*id).await?.is_some_and(|head| RootSearch::wants_head(&head)) {
            continue;
        }
        if let Some(bytes) = blobs.get(*id).await? {
            roots.offer(*id, &bytes);
        }
    }
    loop {
        let wanted = roots.wanted(options);
        if wanted.is_empty() {
            return roots.finish(options);
        }
        for id in wanted {
            match blobs.get(id).await? {
                Some(bytes) => roots.offer_wanted(id, &bytes),
                None => roots.is_missing(id),
            }
        }
    }
}

/// Opens the checkpoint of a head, or of the newest root before it that opens, if that is allowed.
async fn open_head<B: OpaqueBlobs>(
    heads: &HeadsFound<'_>,
    head: &Lineage,
    blobs: &B,
    options: &RecoverOptions,
    failed: &mut Vec<(StorageId, String)>,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<(Lineage, RecoveredSet), RecoverError> {
    let mut lineage = head.clone();
    let mut older_tried = Vec::new();
    loop {
        let RootRef {
            root_id,
            recovery_generation: number,
            ..
        } = *lineage.head();
        let cause = match open_checkpoint(heads, &root_id, blobs, progress).await? {
            Ok(set) => {
                progress(Progress::Checkpoint {
                    number,
                    entries: set.len(),
                });
                return Ok((lineage, set));
            }
            Err(cause) => cause,
        };
        let previous = heads.previous(&root_id);
        match previous.filter(|_| options.allow_older) {
            Some(previous) => {
                failed.push((root_id, cause.to_string()));
                older_tried.push(root_id);
                lineage = Lineage::of_own(previous);
            }
            None => {
                let previous = previous.map(crate::root::Root::id);
                return Err(RecoverError::Checkpoint {
                    root: root_id,
                    number,
                    cause: Box::new(cause),
                    previous,
                    older_tried,
                });
            }
        }
    }
}

async fn open_checkpoint<B: OpaqueBlobs>(
    heads: &HeadsFound<'_>,
    root: &StorageId,
    blobs: &B,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Result<RecoveredSet, StepError>, RecoverError> {
    let step = heads.checkpoint(root).expect("a head is among the roots");
    progress(Progress::Fetching(step.wanted()));
    let bytes = blobs.get(step.wanted()).await?;
    let mut parts = match step.open(bytes.as_deref()) {
        Ok(parts) => parts,
        Err(cause) => return Ok(Err(cause)),
    };
    while let Some(part) = parts.wanted() {
        progress(Progress::Fetching(part));
        let bytes = blobs.get(part).await?;
        if let Err(cause) = parts.offer(part, bytes.as_deref()) {
            return Ok(Err(cause));
        }
    }
    Ok(parts.finish())
}

fn finish(
    heads: HeadsFound<'_>,
    mut used: Vec<Lineage>,
    failed: Vec<(StorageId, String)>,
    set: RecoveredSet,
    listed: &[(StorageId, u64)],
) -> Result<Recovered, RecoverError> {
    used.sort_by_key(|lineage| std::cmp::Reverse((lineage.head().recovery_generation, lineage.head().root_id)));
    used.dedup_by_key(|lineage| lineage.head().root_id);
    let best = *used.first().expect("there is at least one head").head();
    let root = heads.root(&best.root_id).expect("a head is among the roots");
    let issued = root.body().issued_hlc;
    // In the united set an op of the other branch may speak against the issuer.
    let judged = set.authorize(root, heads.ring(), &heads.mesh(), heads.facts().genesis.as_ref());
    let roster = judged.map_err(|cause| RecoverError::Checkpoint {
        root: best.root_id,
        number: best.recovery_generation,
        cause: Box::new(cause.into()),
        previous: None,
        older_tried: vec![],
    })?;
    let (mesh_id, domain_id) = (heads.mesh(), heads.domain());
    let findings = heads.into_findings();

    let (unsupported, digest) = (set.unsupported(), set.digest());
    let entries = set.into_entries();
    let have: BTreeSet<_> = listed.iter().map(|(id, _)| *id).collect();
    let named: BTreeSet<_> = entries
        .iter()
        .filter_map(|recovered| object_of(&recovered.entry))
        .collect();
    let report = RecoverReport {
        blobs: listed.len(),
        rings: findings.rings,
        refused_rings: findings.refused_rings,
        roots: findings.roots,
        refused_roots: findings.refused_roots,
        missing_roots: findings.missing_roots,
        cut_off: findings.cut_off,
        failed,
        heads: used.iter().map(|lineage| *lineage.head()).collect(),
        issued,
        clock_went_back: used.iter().any(Lineage::clock_went_back),
        unsupported,
        objects: named.len(),
        missing_objects: named.difference(&have).copied().collect(),
        digest,
    };
    let mut keys = DomainKeys::default();
    keys.ring = findings.ring;
    keys.admins = roster
        .members()
        .filter(|(_, role, _)| *role == Role::Admin)
        .map(|(site, ..)| site)
        .collect();
    keys.op_heads = roster.heads().into_iter().collect();
    keys.accept_older_root(best);
    Ok(Recovered {
        mesh_id,
        domain_id,
        keys,
        roster,
        entries,
        report,
    })
}

/// The object whose bytes a query will need. Old checkpoints may be gone for good reason.
fn object_of(entry: &VerifiedEntry) -> Option<StorageId> {
    match entry {
        VerifiedEntry::Manifest(manifest) if manifest.body().kind != ObjectKind::Checkpoint => {
            Some(manifest.body().storage_id)
        }
        _ => None,
    }
}
