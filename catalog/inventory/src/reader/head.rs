//! Finding the newest version.

use std::{cmp::Ordering, sync::Arc};

use chrono::TimeDelta;

use super::{Fetch, Finding, Invalid, ReadError};
use crate::{
    doc::{Catalog, Current, Document as _, Epoch, History, Instant, Root, RootRef, Seq, Sha256, Stored, layout},
    store::StorePath,
};

/// A version that was found and verified to be the newest. Only [`find_head`] and a commit of this process make one.
///
/// ```compile_fail,E0451
/// # use sovm_inventory::{doc::{Root, Stored}, reader::Head};
/// // INV-147: a root by itself is no head.
/// fn wrong(root: Stored<Root>) -> Head { Head { root } }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    root: Arc<Stored<Root>>,
}

impl Head {
    /// Takes a root this process wrote itself.
    pub(crate) fn written(root: Stored<Root>) -> Self {
        Self { root: Arc::new(root) }
    }

    /// The version's root.
    pub fn root(&self) -> &Stored<Root> {
        &self.root
    }

    /// What to hold, and to pass to the next [`find_head`].
    pub fn reference(&self) -> RootRef {
        RootRef {
            restore_epoch: self.root.restore_epoch,
            seq: self.root.seq,
            root_sha256: self.root.sha256(),
        }
    }
}

/// How the head was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `CURRENT` named a root that verified.
    Current,
    /// `CURRENT` was missing or wrong (INV-262).
    Fallback,
}

/// How new what was found is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    /// When the head was written.
    pub written_at: Instant,
    /// The version `CURRENT` names; none if it couldn't be used.
    pub current: Option<Seq>,
    /// How many versions the head is ahead of `CURRENT`. More than a few means that `CURRENT` isn't being updated.
    pub ahead_of_current: u64,
}

impl Freshness {
    /// How long ago the head was written. An old head isn't a stale one: nothing may have happened since.
    pub fn age(&self, now: Instant) -> TimeDelta {
        now.since(self.written_at)
    }
}

/// What [`find_head`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refresh {
    /// The newest version.
    pub head: Head,
    /// How it was found.
    pub way: Way,
    /// How new it is.
    pub freshness: Freshness,
    /// What is wrong with the catalogue nevertheless.
    pub findings: Vec<Finding>,
}

impl Refresh {
    /// The head, for whoever deletes or publishes by it. Refused while a newer version is named or there that does not verify: what this
    /// one says may have been taken back (INV-258).
    pub fn certain(self) -> Result<Head, ReadError> {
        let head = self.head.reference();
        let lost = self.findings.iter().find_map(|finding| match finding {
            Finding::InvalidRoot { seq, .. } if *seq > head.seq => Some((*seq, finding)),
            Finding::CurrentNamesBadRoot { named, .. } if order(named) > order(&head) => Some((named.seq, finding)),
            _ => None,
        });
        match lost {
            Some((seq, finding)) => Err(ReadError::NewerLost {
                seq,
                head: head.seq,
                finding: finding.to_string(),
            }),
            None => Ok(self.head),
        }
    }
}

/// Finds the newest version, given the newest one its caller has seen so far.
///
/// On an error the caller keeps what it holds.
pub async fn find_head<F: Fetch + ?Sized>(fetch: &F, held: Option<RootRef>) -> Result<Refresh, ReadError> {
    find(fetch, held, Epochs::Catalog, None).await
}

async fn find<F: Fetch + ?Sized>(
    fetch: &F,
    held: Option<RootRef>,
    epochs: Epochs,
    seen: Option<&Head>,
) -> Result<Refresh, ReadError> {
    let mut search = Search {
        fetch,
        epochs,
        seen,
        claim: None,
        findings: Vec::new(),
    };
    let current = search.current().await?;
    let verified = match current {
        Some(current) => search.named(current.root).await?,
        None => None,
    };
    let (found, way, held) = match verified {
        Some(root) => (Some(search.probe(root).await?), Way::Current, held),
        None => search.fallback(current, held).await?,
    };
    let root = search.settle(found, held).await?;
    let named = current.map(|current| current.root.seq).filter(|_| way == Way::Current);
    let freshness = Freshness {
        written_at: root.created_at,
        current: named,
        ahead_of_current: named.map_or(0, |named| root.seq.get().saturating_sub(named.get())),
    };
    Ok(Refresh {
        head: Head { root },
        way,
        freshness,
        findings: search.findings,
    })
}

/// Finds the version a writer builds on: as [`find_head`], but of whichever epoch, since the first version of a new epoch is
/// built on the last one of the epoch before. None before the first version.
pub(crate) async fn find_base<F: Fetch + ?Sized>(fetch: &F) -> Result<Option<Refresh>, ReadError> {
    find_base_from(fetch, None).await
}

/// As [`find_base`]. A root whose bytes are those of `seen` isn't hashed and parsed once more.
pub(crate) async fn find_base_from<F: Fetch + ?Sized>(
    fetch: &F,
    seen: Option<&Head>,
) -> Result<Option<Refresh>, ReadError> {
    match find(fetch, None, Epochs::Any, seen).await {
        Err(ReadError::NoVersion { bound: 0, .. }) => Ok(None),
        found => found.map(Some),
    }
}

/// Which epochs' versions are an answer when `CURRENT` is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Epochs {
    Any,
    Catalog,
}

struct Search<'a, F: ?Sized> {
    fetch: &'a F,
    epochs: Epochs,
    /// A version that was verified before.
    seen: Option<&'a Head>,
    /// What `CURRENT` says of a root that doesn't verify.
    claim: Option<RootRef>,
    findings: Vec<Finding>,
}

/// Where a version stands among all versions: a later epoch is later whatever its numbers are.
fn order(reference: &RootRef) -> (Epoch, Seq) {
    (reference.restore_epoch, reference.seq)
}

impl<F: Fetch + ?Sized> Search<'_, F> {
    async fn fetch(&self, path: &str) -> Result<Option<bytes::Bytes>, ReadError> {
        Ok(self.fetch.fetch(&StorePath::parse(path)?).await?)
    }

    /// Reads the hint.
    async fn current(&mut self) -> Result<Option<Current>, ReadError> {
        let Some(bytes) = self.fetch(layout::CURRENT).await? else {
            self.findings.push(Finding::CurrentMissing);
            return Ok(None);
        };
        match Current::decode(&bytes) {
            Ok(current) => Ok(Some(current)),
            Err(error) => {
                self.findings.push(Finding::CurrentUnreadable(error));
                Ok(None)
            }
        }
    }

    /// INV-147, INV-256: the root `CURRENT` names, if it is the one it names.
    async fn named(&mut self, named: RootRef) -> Result<Option<Arc<Stored<Root>>>, ReadError> {
        match self.verified(named).await? {
            Ok(root) => Ok(Some(root)),
            Err(why) => {
                self.claim = (why != Invalid::Absent).then_some(named);
                self.findings.push(Finding::CurrentNamesBadRoot { named, why });
                Ok(None)
            }
        }
    }

    /// Reads a root that is known by its hash.
    async fn verified(&self, named: RootRef) -> Result<Result<Arc<Stored<Root>>, Invalid>, ReadError> {
        let Some(bytes) = self.fetch(&layout::root(named.seq)).await? else {
            return Ok(Err(Invalid::Absent));
        };
        let seen = self.seen.map(|seen| &seen.root);
        let root = match seen.filter(|seen| seen.sha256() == named.root_sha256 && *seen.bytes() == bytes) {
            Some(seen) => Arc::clone(seen),
            None => match Stored::<Root>::verify(bytes, named.root_sha256) {
                Ok(root) => Arc::new(root),
                Err(error) => return Ok(Err(Invalid::Document(error))),
            },
        };
        if root.seq != named.seq {
            return Ok(Err(Invalid::Number { found: root.seq }));
        }
        if root.restore_epoch != named.restore_epoch {
            return Ok(Err(Invalid::Epoch {
                found: root.restore_epoch,
                expected: named.restore_epoch,
            }));
        }
        Ok(Ok(root))
    }

    /// INV-257: tries the numbers after a version one by one until there is nothing under the next name.
    async fn probe(&mut self, from: Arc<Stored<Root>>) -> Result<Arc<Stored<Root>>, ReadError> {
        let mut newest = from;
        let mut base = Some(newest.sha256());
        let mut next = newest.seq.next();
        let mut ahead = None;
        while let Some(seq) = next {
            next = seq.next();
            let Some(bytes) = (match ahead.take() {
                Some(bytes) => Some(bytes),
                None => self.fetch(&layout::root(seq)).await?,
            }) else {
                break;
            };
            let mut judged = follow(&newest, base, seq, bytes);
            if let Some(claim) = self.claim.filter(|claim| claim.seq == seq)
                && let Ok(root) = &judged
                && root.sha256() != claim.root_sha256
            {
                // `CURRENT` names other bytes. One of the two is wrong, and only the version after can tell which.
                ahead = match next {
                    Some(after) => self.fetch(&layout::root(after)).await?,
                    None => None,
                };
                let vouched = next
                    .zip(ahead.clone())
                    .and_then(|(after, bytes)| alone(after, bytes).ok());
                if vouched.and_then(|after| link(&after)) != Some(root.sha256()) {
                    judged = Stored::<Root>::verify(root.bytes().clone(), claim.root_sha256).map_err(Invalid::Document);
                }
            }
            match judged {
                Ok(root) => {
                    if newest.history.is_some() && root.history.is_none() {
                        self.findings.push(Finding::HistoryFieldsLost { seq });
                    }
                    base = Some(root.sha256());
                    newest = Arc::new(root);
                }
                // INV-260: skipped. A later version counts again only if it follows the version `CURRENT` named here; else
                // nothing vouches for what it follows, and it is looked at for the report alone.
                Err(why) => {
                    self.findings.push(Finding::InvalidRoot { seq, why });
                    base = self
                        .claim
                        .filter(|claim| claim.seq == seq)
                        .map(|claim| claim.root_sha256);
                }
            }
        }
        Ok(newest)
    }

    /// INV-262 to INV-265: the way without `CURRENT`.
    ///
    /// Gives the newest version of the catalogue's epoch above the lower bound, and what is still held.
    async fn fallback(
        &mut self,
        current: Option<Current>,
        held: Option<RootRef>,
    ) -> Result<(Option<Arc<Stored<Root>>>, Way, Option<RootRef>), ReadError> {
        let bytes = self.fetch(layout::CATALOG).await?.ok_or(ReadError::NoCatalog)?;
        let catalog = Catalog::decode(&bytes)?;
        let (epoch, expired_through) = if catalog.is_opted_in() {
            let bytes = self.fetch(layout::HISTORY).await?.ok_or(ReadError::HistoryMissing)?;
            let history = History::decode(&bytes)?;
            if history.catalog_id != catalog.catalog_id {
                return Err(ReadError::HistoryOfAnother {
                    history: history.catalog_id,
                    catalog: catalog.catalog_id,
                });
            }
            (history.restore_epoch, history.expired_through)
        } else {
            (catalog.restore_epoch, None)
        };
        let held = match (held, expired_through) {
            (Some(held), Some(expired_through)) if held.seq <= expired_through => {
                self.findings.push(Finding::HeldExpired { held, expired_through });
                None
            }
            (held, _) => held,
        };
        let held_seq = held
            .filter(|held| held.restore_epoch == epoch)
            .map_or(0, |held| held.seq.get());
        let bound = held_seq.max(expired_through.map_or(0, Seq::get));
        let found = self.newest_above(bound, epoch, current, held).await?;
        if found.is_none() && held.is_none() {
            return Err(ReadError::NoVersion { bound, epoch });
        }
        Ok((found, Way::Fallback, held))
    }

    async fn newest_above(
        &mut self,
        bound: u64,
        epoch: Epoch,
        current: Option<Current>,
        held: Option<RootRef>,
    ) -> Result<Option<Arc<Stored<Root>>>, ReadError> {
        // Back from the version before the one `CURRENT` named wrongly, which most often is a step or two.
        let mut back = current.and_then(|current| current.root.seq.previous());
        let mut start = None;
        while let Some(seq) = back.filter(|seq| seq.get() > bound) {
            if let Some(bytes) = self.fetch(&layout::root(seq)).await?
                && let Ok(root) = alone(seq, bytes)
                && (root.restore_epoch == epoch || self.epochs == Epochs::Any)
            {
                start = Some(Arc::new(root));
                break;
            }
            back = seq.previous();
        }
        let mut base = match start {
            Some(root) => Some(root),
            // What is held links the first version above the bound to what was verified before.
            None => match held.filter(|held| held.restore_epoch == epoch && held.seq.get() == bound) {
                Some(held) => self.verified(held).await?.ok(),
                None => None,
            },
        };
        // Forward from the bound. After a restore the versions up to the one restored are of older epochs: they lead to the
        // first one of this epoch and are no answer themselves (INV-319).
        if base.is_none() {
            let mut next = Seq::new(bound + 1);
            while let Some(seq) = next {
                let Some(bytes) = self.fetch(&layout::root(seq)).await? else {
                    break;
                };
                let claim = self
                    .claim
                    .filter(|claim| claim.seq == seq)
                    .map(|claim| claim.root_sha256);
                let judged = match claim {
                    Some(claim) => Stored::<Root>::verify(bytes, claim).map_err(Invalid::Document),
                    None => alone(seq, bytes),
                };
                match judged {
                    Ok(root) => {
                        base = Some(Arc::new(root));
                        break;
                    }
                    Err(why) => self.findings.push(Finding::InvalidRoot { seq, why }),
                }
                next = seq.next();
            }
        }
        let Some(base) = base else { return Ok(None) };
        let newest = self.probe(base).await?;
        match newest.restore_epoch.cmp(&epoch) {
            Ordering::Equal => Ok((newest.seq.get() > bound).then_some(newest)),
            Ordering::Less if self.epochs == Epochs::Any => Ok(Some(newest)),
            Ordering::Less => Ok(None),
            Ordering::Greater => {
                let why = Invalid::Epoch {
                    found: newest.restore_epoch,
                    expected: epoch,
                };
                self.findings.push(Finding::InvalidRoot { seq: newest.seq, why });
                Ok(None)
            }
        }
    }

    /// INV-258, INV-133: holds what was found against what is held. Within an epoch a reader goes forward only; another,
    /// later epoch starts anew.
    async fn settle(
        &mut self,
        found: Option<Arc<Stored<Root>>>,
        held: Option<RootRef>,
    ) -> Result<Arc<Stored<Root>>, ReadError> {
        let reference = found.as_ref().map(|root| RootRef {
            restore_epoch: root.restore_epoch,
            seq: root.seq,
            root_sha256: root.sha256(),
        });
        let (root, held, reference) = match (found, held, reference) {
            (Some(root), None, _) => return Ok(root),
            (Some(root), Some(held), Some(reference)) => (Some(root), held, reference),
            (_, Some(held), _) => {
                return self
                    .verified(held)
                    .await?
                    .map_err(|_| ReadError::Behind { held, found: reference });
            }
            // `fallback` has refused this one.
            (_, None, _) => {
                return Err(ReadError::NoVersion {
                    bound: 0,
                    epoch: Epoch::FIRST,
                });
            }
        };
        match (order(&reference).cmp(&order(&held)), root) {
            (Ordering::Greater, Some(root)) => Ok(root),
            (Ordering::Equal, Some(root)) if reference.root_sha256 == held.root_sha256 => Ok(root),
            (ordering, _) => {
                if ordering == Ordering::Equal {
                    self.findings.push(Finding::TwoRoots {
                        held,
                        found: reference.root_sha256,
                    });
                }
                self.verified(held).await?.map_err(|_| ReadError::Behind {
                    held,
                    found: Some(reference),
                })
            }
        }
    }
}

/// Decodes a root by itself.
pub(super) fn alone(seq: Seq, bytes: bytes::Bytes) -> Result<Stored<Root>, Invalid> {
    let root = Stored::<Root, crate::doc::Unverified>::decode(bytes).map_err(Invalid::Document)?;
    if root.seq != seq {
        return Err(Invalid::Number { found: root.seq });
    }
    // Nothing vouches for it but the name it lies under, which only the winner of an exclusive creation gives.
    Ok(root.trusted())
}

/// Decodes the root after `newest` and checks that it follows the version with the hash `base` (INV-161, INV-165).
fn follow(newest: &Root, base: Option<Sha256>, seq: Seq, bytes: bytes::Bytes) -> Result<Stored<Root>, Invalid> {
    let root = alone(seq, bytes)?;
    let Some(base) = base else {
        return Err(Invalid::Unlinked);
    };
    if root.history.is_some() && link(&root) != Some(base) {
        return Err(Invalid::Link {
            names: link(&root),
            base,
        });
    }
    if root.restore_epoch < newest.restore_epoch {
        return Err(Invalid::Epoch {
            found: root.restore_epoch,
            expected: newest.restore_epoch,
        });
    }
    Ok(root)
}

/// The hash a root names as the version before it; none without history fields.
pub(super) fn link(root: &Root) -> Option<Sha256> {
    root.history.as_ref().and_then(|history| history.previous_root_sha256)
}
