//! Changing a catalogue: one command, one version.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sovm_inventory::{
    doc::{
        ChangeItem, CleanText, EditionId, EditionState, EventKind, Instant, Json, JsonObject, ProductId, Root, Seq,
        Sha256, Stored,
    },
    fingerprint::CanonicalForm,
    transition::{
        BatchReport, Context, EditionKey, Operation, PendingEdition, Refusal, ReleaseClock, ReleaseWhen, Retention,
        RetentionSettings, RollbackRequest, Transition, Version, apply, fold, release_due, resolve_withdraw,
    },
    writer::{Base, Clock, CommitError, Committed, Outcome, Planned, SystemClock},
};

use super::{
    Address, Author, Catalogue, NewProduct, errors,
    manifests::Gathered,
    product::{declared, with_product},
    retention::{WindowsChange, WindowsRefused, retention, with_windows},
};
use crate::{
    api::{EditionChangeInfo, InventoryChangeReport, ProductChangeInfo, RefusedEdition},
    error::ApiError,
};

/// The extension section that holds a catalogue's description (INV-159).
pub(super) const DESCRIPTION: &str = "statcat";

/// What a command asks of a catalogue.
#[derive(Debug)]
pub(crate) enum Wish {
    /// Make a product.
    Create(NewProduct),
    /// Make one edition, or several in one version, live.
    Release(Vec<EditionKey>),
    /// Release whatever is due, as far as the rules allow.
    ReleaseDue,
    /// Record what publishers registered, as far as the rules allow.
    Fold(Folding),
    /// Give an embargoed edition another release time.
    Reschedule(EditionKey, Option<Instant>),
    /// Withdraw an embargoed edition.
    Cancel(EditionKey),
    /// Withdraw the embargoed editions that one replaces.
    SupersedePending(EditionKey),
    /// Return to a superseded edition.
    Rollback(RollbackRequest),
    /// Withdraw the live edition without a successor.
    Withdraw(ProductId, Option<EditionId>),
    /// Turn an edition into a tombstone.
    Retire(Retire),
    /// Bring a tombstone back as superseded.
    Reinstate(EditionKey),
    /// Return products to an older version's leaves.
    Correct(Seq, BTreeSet<ProductId>),
    /// Turn the embargo on or off.
    Embargo(bool),
    /// Replace the catalogue's description; none removes it.
    Describe(Option<serde_json::Value>),
    /// Keep things for other lengths of time.
    Retention(WindowsChange),
}

/// What publishers registered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folding {
    /// The editions that are whole.
    pub(super) pending: Vec<PendingEdition>,
    /// The others, and why; the version keeps it (INV-209).
    pub(super) unfit: Vec<RefusedEdition>,
}

/// A retirement.
#[derive(Debug)]
pub(crate) struct Retire {
    /// The edition.
    pub(crate) edition: EditionKey,
    /// How long this catalogue keeps superseded and withdrawn editions; none for the default.
    pub(crate) window: Option<Duration>,
}

impl Wish {
    /// The command that wishes it.
    fn word(&self) -> &'static str {
        match self {
            Self::Create(_) => "product-create",
            Self::Release(_) => "release",
            Self::ReleaseDue => "release-due",
            Self::Fold(_) => "fold",
            Self::Reschedule(..) => "reschedule",
            Self::Cancel(_) => "cancel",
            Self::SupersedePending(_) => "supersede-pending",
            Self::Rollback(_) => "rollback",
            Self::Withdraw(..) => "withdraw",
            Self::Retire(_) => "retire",
            Self::Reinstate(_) => "reinstate",
            Self::Correct(..) => "correct",
            Self::Embargo(_) => "embargo",
            Self::Describe(_) => "describe",
            Self::Retention(_) => "retention",
        }
    }
}

/// A wish in which everything a caller may leave out is filled in.
enum Resolved {
    Operations(Vec<Operation>),
    ReleaseDue,
    Fold(Folding),
    Create(NewProduct),
    Describe(Option<Json>),
    Retention(WindowsChange),
}

/// Why a decision is not a version.
#[derive(Debug, thiserror::Error)]
enum Undecided {
    /// Manifests must be read first; then it is decided anew.
    #[error("manifests have to be read first")]
    Needs(Vec<(EditionKey, Sha256)>),
    /// A rule refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The catalogue's windows are none to go by.
    #[error(transparent)]
    Windows(#[from] WindowsRefused),
}

/// The system's clock, which remembers the time it gave last. A commit asks it and then decides, and the decision must be
/// made on the very instant the version is dated with.
#[derive(Debug, Default)]
struct RememberingClock(Mutex<Option<Instant>>);

impl Clock for RememberingClock {
    fn now(&self) -> Instant {
        let now = SystemClock.now();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        now
    }
}

impl RememberingClock {
    fn last(&self) -> Instant {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.unwrap_or_else(|| self.now())
    }
}

/// What decisions are made with, beside the version.
struct Judgement {
    clock: Arc<RememberingClock>,
    forms: BTreeSet<CleanText>,
    /// How long superseded and withdrawn editions are kept, where the command says.
    window: Option<Duration>,
    gathered: Gathered,
}

impl Judgement {
    fn new(window: Option<Duration>) -> Result<Self, ApiError> {
        Ok(Self {
            clock: Arc::default(),
            forms: canonical_forms()?,
            window,
            gathered: Gathered::default(),
        })
    }

    fn context<'a>(&'a self, retention: &'a Retention) -> Context<'a> {
        Context {
            clock: ReleaseClock::alone(self.clock.last()),
            manifests: self.gathered.manifests(),
            canonical_forms: &self.forms,
            retention,
        }
    }

    /// Tells a refusal that a manifest not read yet would change from one that stands.
    fn undecided(&self, base: &Version, refusal: Refusal) -> Undecided {
        let missing = self.missing(base, [&refusal]);
        if missing.is_empty() {
            refusal.into()
        } else {
            Undecided::Needs(missing)
        }
    }

    /// The manifests that refusals miss and nobody has asked for. When one is missing, the other unfilled entries are next.
    fn missing<'a>(
        &self,
        base: &Version,
        refusals: impl IntoIterator<Item = &'a Refusal>,
    ) -> Vec<(EditionKey, Sha256)> {
        let asked = refusals.into_iter().filter_map(|refusal| match refusal {
            Refusal::RecordsMissing { edition } => Some(edition.clone()),
            _ => None,
        });
        let mut editions: BTreeSet<EditionKey> = asked.filter(|edition| !self.gathered.knows(edition)).collect();
        if !editions.is_empty() {
            editions.extend(self.gathered.manifests().missing(base));
        }
        let entry = |edition: EditionKey| {
            let recorded = base.entry(&edition)?.manifest_sha256;
            Some((edition, recorded))
        };
        editions
            .into_iter()
            .filter(|edition| !self.gathered.knows(edition))
            .filter_map(entry)
            .collect()
    }

    fn decide(
        &self,
        base: &Base<'_>,
        wish: &Resolved,
        reason: &str,
    ) -> Result<(Option<Planned>, BatchReport), Undecided> {
        let planned = |transition: &Transition, reason: String| Planned {
            corrects_from: (transition.kind == EventKind::Correct)
                .then_some(transition.previous_inventory)
                .flatten(),
            ..Planned::new(transition.next.clone(), transition.kind.clone(), reason)
        };
        let fail = |refusal| self.undecided(base.version, refusal);
        let extensions = || base.root.map(|root| root.extensions.clone()).unwrap_or_default();
        // The windows of the version it is decided on, so that a change of them and a retirement can't miss each other. Windows
        // that contradict each other hold up everything but their own mending.
        let windows = match wish {
            Resolved::Retention(_) => Retention::new(RetentionSettings::default()).map_err(WindowsRefused::from)?,
            _ => retention(&extensions(), self.window)?,
        };
        let context = self.context(&windows);
        match wish {
            Resolved::Operations(operations) => {
                let transition = apply(base.version, operations, &context).map_err(fail)?;
                Ok((Some(planned(&transition, reason.to_owned())), BatchReport::default()))
            }
            Resolved::ReleaseDue => {
                let report = release_due(base.version, &context).map_err(fail)?;
                let missing = self.missing(base.version, report.refused.iter().map(|(_, refusal)| refusal));
                if !missing.is_empty() {
                    return Err(Undecided::Needs(missing));
                }
                let why = report.refused.iter().map(|(_, refusal)| self.words(refusal).1);
                let kept = keeping(reason, why);
                let next = report.transition.as_ref().map(|transition| planned(transition, kept));
                Ok((next, report))
            }
            Resolved::Fold(folding) => {
                let report = fold(base.version, folding.pending.clone(), &context).map_err(fail)?;
                let missing = self.missing(base.version, report.refused.iter().map(|(_, refusal)| refusal));
                if !missing.is_empty() {
                    return Err(Undecided::Needs(missing));
                }
                let why = report.refused.iter().map(|(_, refusal)| self.words(refusal).1);
                let kept = keeping(
                    reason,
                    why.chain(folding.unfit.iter().map(|unfit| unfit.message.clone())),
                );
                let next = report.transition.as_ref().map(|transition| planned(transition, kept));
                Ok((next, report))
            }
            Resolved::Describe(description) => {
                let mut extensions = extensions();
                if extensions.get(DESCRIPTION) == description.as_ref() {
                    let what = "the description is this one already".to_owned();
                    return Err(Refusal::NothingToDo { what }.into());
                }
                match description {
                    Some(description) => extensions.insert(DESCRIPTION, description.clone()),
                    None => drop(extensions.remove(DESCRIPTION)),
                }
                let transition = apply(base.version, &[Operation::Describe], &context).map_err(fail)?;
                let planned = Planned {
                    extensions: Some(extensions),
                    ..planned(&transition, reason.to_owned())
                };
                Ok((Some(planned), BatchReport::default()))
            }
            Resolved::Retention(change) => {
                let Some(extensions) = with_windows(extensions(), change)? else {
                    let what = "things are kept for as long as that already".to_owned();
                    return Err(Refusal::NothingToDo { what }.into());
                };
                let transition = apply(base.version, &[Operation::Describe], &context).map_err(fail)?;
                let planned = Planned {
                    extensions: Some(extensions),
                    ..planned(&transition, reason.to_owned())
                };
                Ok((Some(planned), BatchReport::default()))
            }
            Resolved::Create(product) => {
                let extensions = extensions();
                let id = &product.product_id;
                if base.version.leaf(id).is_some() || declared(&extensions).contains_key(id) {
                    let what = format!("there is a product {id} already");
                    return Err(Refusal::NothingToDo { what }.into());
                }
                let transition = apply(base.version, &[Operation::Describe], &context).map_err(fail)?;
                let planned = Planned {
                    extensions: Some(with_product(extensions, product)),
                    ..planned(&transition, reason.to_owned())
                };
                Ok((Some(planned), BatchReport::default()))
            }
        }
    }

    /// A refusal's rule and message; where a manifest was missing, what was wrong with it.
    fn words(&self, refusal: &Refusal) -> (u16, String) {
        match self.gathered.cause(refusal) {
            Some(failure) => (failure.rule.unwrap_or_else(|| refusal.rule()), failure.message.clone()),
            None => (refusal.rule(), refusal.to_string()),
        }
    }
}

/// How much of a refusal a version keeps.
const REFUSAL_CHARS: usize = 300;

/// INV-209: a version keeps why a batch refused the rest.
fn keeping(reason: &str, refused: impl Iterator<Item = String>) -> String {
    refused.fold(reason.to_owned(), |kept, why| {
        let between = if kept.is_empty() { "" } else { "; " };
        // It stays in the chain for good, and somebody else's edition may have hundreds of faults.
        let why: String = why.chars().take(REFUSAL_CHARS).collect();
        format!("{kept}{between}refused: {why}")
    })
}

/// INV-217: the canonical forms whose fingerprints this build can compare.
pub(super) fn canonical_forms() -> Result<BTreeSet<CleanText>, ApiError> {
    let forms = [CanonicalForm::ONE, CanonicalForm::SOVM_1].map(|form| form.as_str().parse::<CleanText>());
    forms.into_iter().collect::<Result<_, _>>().map_err(ApiError::bug)
}

impl Catalogue {
    /// Writes the version a wish asks for, or says why there is none.
    ///
    /// Everything is judged under the catalogue's lock on the newest version. When that shows a manifest to be needed, the
    /// lock is let go, the manifest is read, and everything is judged again.
    pub(crate) async fn change(&self, author: Author, wish: Wish) -> Result<InventoryChangeReport, ApiError> {
        let word = wish.word();
        let window = match &wish {
            Wish::Retire(retire) => retire.window,
            _ => None,
        };
        let mut judgement = Judgement::new(window)?;
        if let Wish::Fold(folding) = &wish {
            for pending in &folding.pending {
                judgement.gathered.insert(pending.manifest.clone());
            }
        }
        let reason = author.reason.clone();
        let writer = self.writer(author, judgement.clock.clone())?;
        let resolved = self.resolve(wish).await?;
        loop {
            let mut batch = BatchReport::default();
            let outcome = writer
                .commit(|base| {
                    let (planned, report) = judgement.decide(&base, &resolved, &reason)?;
                    batch = report;
                    Ok::<_, Undecided>(planned)
                })
                .await;
            let mut report = match outcome {
                // Each round asks for editions that no round before asked for, so this comes to an end.
                Err(CommitError::Refused(Undecided::Needs(editions))) => {
                    judgement.gathered.read(self, editions).await?;
                    continue;
                }
                Err(CommitError::Refused(Undecided::Windows(refused))) => {
                    return Err(errors::windows(&refused, &self.shown));
                }
                Err(CommitError::Refused(Undecided::Refused(refusal))) => {
                    let error = errors::refused(&refusal, &self.shown);
                    return Err(ApiError {
                        message: judgement.words(&refusal).1,
                        ..error
                    });
                }
                Err(CommitError::Write(error)) => return Err(errors::unwritten(&error, &self.shown)),
                Ok(Outcome::Committed(committed)) => reported(word, &self.shown, &committed),
                Ok(Outcome::Unchanged(_)) => InventoryChangeReport {
                    operation: word.to_owned(),
                    store: self.shown.to_string(),
                    ..InventoryChangeReport::default()
                },
            };
            report.refused = batch
                .refused
                .iter()
                .map(|(edition, refusal)| {
                    let (rule, message) = judgement.words(refusal);
                    RefusedEdition {
                        product_id: edition.product_id.to_string(),
                        edition_id: edition.edition_id.to_string(),
                        rule,
                        message,
                    }
                })
                .collect();
            return Ok(report);
        }
    }

    /// Names every edition a wish means. What a caller left out is taken from the version the call starts with and is not
    /// chosen again after a lost race (INV-206).
    async fn resolve(&self, wish: Wish) -> Result<Resolved, ApiError> {
        let refused = |refusal: Refusal| errors::refused(&refusal, &self.shown);
        let operation = match wish {
            Wish::Release(editions) => {
                let when = ReleaseWhen::Explicit;
                let release = |edition| Operation::Release { edition, when };
                return Ok(Resolved::Operations(editions.into_iter().map(release).collect()));
            }
            Wish::ReleaseDue => return Ok(Resolved::ReleaseDue),
            Wish::Fold(folding) => return Ok(Resolved::Fold(folding)),
            Wish::Create(product) => return Ok(Resolved::Create(product)),
            Wish::Describe(description) => {
                return Ok(Resolved::Describe(description.as_ref().map(Json::from)));
            }
            Wish::Reschedule(edition, release_at) => Operation::Reschedule { edition, release_at },
            Wish::Retention(change) => return Ok(Resolved::Retention(change)),
            Wish::Cancel(edition) => Operation::Cancel { edition },
            Wish::SupersedePending(by) => Operation::SupersedePending { by },
            Wish::Rollback(request) => {
                let (_, version) = self.newest().await?;
                Operation::Rollback(request.resolve(&version).map_err(refused)?)
            }
            Wish::Withdraw(product_id, if_live) => {
                let (_, version) = self.newest().await?;
                resolve_withdraw(&version, &product_id, if_live).map_err(refused)?
            }
            Wish::Retire(Retire { edition, .. }) => Operation::Retire { edition },
            Wish::Reinstate(edition) => {
                self.check_not_expunged(&edition).await?;
                Operation::Reinstate(self.verified_edition(&edition).await?)
            }
            Wish::Correct(seq, products) => {
                let head = self.head().await?.head;
                let (_, to) = self.older(&head, seq).await?;
                for leaf in products.iter().filter_map(|product| to.leaf(product)) {
                    let comes_back = leaf
                        .editions
                        .iter()
                        .filter(|entry| entry.state != EditionState::Withdrawn);
                    for entry in comes_back {
                        let edition = EditionKey::new(leaf.product_id.clone(), entry.edition_id);
                        self.check_not_expunged(&edition).await?;
                    }
                }
                Operation::Correct { to, products }
            }
            Wish::Embargo(on) => Operation::SetEmbargo { on },
        };
        Ok(Resolved::Operations(vec![operation]))
    }
}

/// What a version that was written is reported as.
pub(crate) fn reported(operation: &str, store: &Address, committed: &Committed) -> InventoryChangeReport {
    let root = committed.head.root();
    InventoryChangeReport {
        operation: operation.to_owned(),
        store: store.to_string(),
        seq: Some(root.seq.get()),
        kind: Some(root.event.kind.to_string()),
        created_at: Some(root.created_at.to_string()),
        root_sha256: Some(root.sha256().to_string()),
        actor: Some(root.event.actor.to_string()),
        reason: Some(root.event.reason.clone()),
        embargo: Some(root.embargo),
        changes: changes_of(root).unwrap_or_default(),
        refused: Vec::new(),
        waiting: Vec::new(),
        current_failed: committed
            .current
            .as_ref()
            .err()
            .map(|error| crate::engine::chain(error)),
    }
}

/// A root's change list; none for a root from before the history fields.
pub(super) fn changes_of(root: &Stored<Root>) -> Option<Vec<ProductChangeInfo>> {
    Some(root.history.as_ref()?.changes.iter().map(change_of).collect())
}

fn change_of(item: &ChangeItem) -> ProductChangeInfo {
    let editions = item.entries.iter().map(|entry| EditionChangeInfo {
        edition_id: entry.edition_id.to_string(),
        from: entry.from.map(|status| status.to_string()),
        to: entry.to.map(|status| status.to_string()),
        release_at: entry
            .entry
            .as_ref()
            .and_then(|entry| entry.release_at)
            .map(|release_at| release_at.to_string()),
    });
    ProductChangeInfo {
        product_id: item.product_id.to_string(),
        editions: editions.collect(),
    }
}

/// The description a root carries.
pub(super) fn description_of(extensions: &JsonObject) -> Option<serde_json::Value> {
    serde_json::from_str(&extensions.get(DESCRIPTION)?.to_text()).ok()
}
