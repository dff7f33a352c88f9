//! The operations of a draft, one function each. Every one checks first and changes afterwards.

use std::collections::BTreeSet;

use chrono::TimeDelta;

use super::{Draft, Edited};
use crate::{
    doc::{EditionId, EditionState, Entry, EntryStatus, Instant, Leaf, Lifecycle, ProductId, ProductKind},
    transition::{
        EditionKey, Refusal, ReleaseWhen, Rollback, SealedEdition, Verb, VerifiedEdition, Version,
        fast_forward::Candidate, prune,
    },
};

impl Draft<'_> {
    /// INV-195: (sealed) to live, and the live edition it was built from to superseded.
    pub(super) fn seal(&mut self, sealed: &SealedEdition) -> Result<(), Refusal> {
        if self.embargo {
            return Err(Refusal::EmbargoOn {
                edition: sealed.edition(),
            });
        }
        let replaced = self.check_new(sealed)?;
        self.supersede(&sealed.edition().product_id, replaced)?;
        self.record(sealed, EditionState::Live, None)
    }

    /// INV-196: (sealed) to embargoed.
    pub(super) fn register(&mut self, sealed: &SealedEdition, release_at: Option<Instant>) -> Result<(), Refusal> {
        self.check_new(sealed)?;
        self.record(sealed, EditionState::Embargoed, release_at)
    }

    /// INV-197: embargoed to live, and the live edition it was built from to superseded (INV-200).
    pub(super) fn release(&mut self, edition: &EditionKey, when: ReleaseWhen) -> Result<(), Refusal> {
        let entry = self.entry_in(edition, Verb::Release, &[EditionState::Embargoed])?;
        let (release_at, now) = (entry.release_at, self.context.clock.now());
        if when == ReleaseWhen::Due && release_at.is_none_or(|release_at| release_at > now) {
            return Err(Refusal::NotDue {
                edition: edition.clone(),
                release_at,
                now,
            });
        }
        let (previous, schema_version) = (entry.previous, entry.schema_version.clone());
        let candidate = Candidate {
            edition: edition.clone(),
            previous,
            schema_version: &schema_version,
        };
        let replaced = self.fast_forward(&candidate)?;
        self.final_unchanged(edition, previous)?;
        self.unchanged(&[edition])?;
        self.supersede(&edition.product_id, replaced)?;
        self.set_state(edition, EditionState::Live);
        Ok(())
    }

    /// INV-198: embargoed to withdrawn.
    pub(super) fn cancel(&mut self, edition: &EditionKey) -> Result<(), Refusal> {
        self.entry_in(edition, Verb::Cancel, &[EditionState::Embargoed])?;
        self.unchanged(&[edition])?;
        self.set_state(edition, EditionState::Withdrawn);
        Ok(())
    }

    /// INV-199: embargoed to withdrawn, for every one that waits on the same live edition as `by`.
    pub(super) fn supersede_pending(&mut self, by: &EditionKey) -> Result<(), Refusal> {
        let entry = self.entry_in(by, Verb::SupersedePending, &[EditionState::Embargoed])?;
        let (base, schema_version) = (entry.previous, entry.schema_version.clone());
        // A new edition that could not be released itself must not take the place of one that can.
        let candidate = Candidate {
            edition: by.clone(),
            previous: base,
            schema_version: &schema_version,
        };
        self.fast_forward(&candidate)?;
        let waiting = |entry: &&Entry| {
            entry.state == EditionState::Embargoed
                && entry.previous == base
                && entry.schema_version == schema_version
                && entry.edition_id != by.edition_id
        };
        let editions = self
            .leaf(&by.product_id)
            .map(|leaf| leaf.editions.as_slice())
            .unwrap_or_default();
        let pending: Vec<EditionKey> = editions
            .iter()
            .filter(waiting)
            .map(|entry| EditionKey::new(by.product_id.clone(), entry.edition_id))
            .collect();
        if pending.is_empty() {
            let product_id = by.product_id.clone();
            return Err(Refusal::NothingToSupersede {
                product_id,
                by: by.edition_id,
                base,
            });
        }
        self.unchanged(&pending.iter().collect::<Vec<_>>())?;
        for edition in &pending {
            self.set_state(edition, EditionState::Withdrawn);
        }
        Ok(())
    }

    /// An embargoed edition keeps its state and takes another release time; its `state_changed_at` stays (INV-180).
    pub(super) fn reschedule(&mut self, edition: &EditionKey, release_at: Option<Instant>) -> Result<(), Refusal> {
        let entry = self.entry_in(edition, Verb::Reschedule, &[EditionState::Embargoed])?;
        if entry.release_at == release_at {
            let what = format!("{edition} has that release time already");
            return Err(Refusal::NothingToDo { what });
        }
        self.unchanged(&[edition])?;
        self.edit(edition, |entry| entry.release_at = release_at);
        Ok(())
    }

    /// INV-201: live X to withdrawn and superseded Y to live, if X is still the live edition (INV-206).
    pub(super) fn rollback(&mut self, rollback: &Rollback) -> Result<(), Refusal> {
        let to = EditionKey::new(rollback.product_id.clone(), rollback.to);
        let live = EditionKey::new(rollback.product_id.clone(), rollback.if_live);
        let schema_version = self.still_live(&live, Verb::RollBack)?;
        let target = self.entry_in(&to, Verb::RollBack, &[EditionState::Superseded])?;
        if target.schema_version != schema_version {
            let to_schema = target.schema_version.clone();
            return Err(Refusal::OtherSchema {
                live: live.edition_id,
                live_schema: schema_version,
                to,
                to_schema,
            });
        }
        self.unchanged(&[&live, &to])?;
        self.set_state(&live, EditionState::Withdrawn);
        self.set_state(&to, EditionState::Live);
        Ok(())
    }

    /// Live to withdrawn without a successor.
    pub(super) fn withdraw(&mut self, live: &EditionKey) -> Result<(), Refusal> {
        self.still_live(live, Verb::Withdraw)?;
        self.unchanged(&[live])?;
        self.set_state(live, EditionState::Withdrawn);
        Ok(())
    }

    /// INV-202: tombstone to superseded. The entry is made from the manifest anew, artefacts and routing fields included.
    pub(super) fn reinstate(&mut self, verified: &VerifiedEdition) -> Result<(), Refusal> {
        let sealed = verified.sealed();
        let edition = sealed.edition();
        let found = self.status(&edition);
        if found != Some(EntryStatus::Tombstone) {
            return Err(Refusal::WrongState {
                verb: Verb::Reinstate,
                edition,
                found,
            });
        }
        self.check_profile(sealed)?;
        self.unchanged(&[&edition])?;
        self.retired.remove(&edition);
        self.record(sealed, EditionState::Superseded, None)
    }

    /// INV-203: superseded or withdrawn to a tombstone, once the window has passed; the last edition takes its product along.
    pub(super) fn retire(&mut self, edition: &EditionKey) -> Result<(), Refusal> {
        let retirable = [EditionState::Superseded, EditionState::Withdrawn];
        let entry = self.entry_in(edition, Verb::Retire, &retirable)?;
        let now = self.context.clock.now();
        let window = TimeDelta::from_std(self.context.retention.edition()).unwrap_or(TimeDelta::MAX);
        if now.since(entry.state_changed_at) < window {
            let (state, since) = (entry.state, entry.state_changed_at);
            let until = since.plus(window);
            return Err(Refusal::InsideWindow {
                edition: edition.clone(),
                state,
                since,
                until,
                now,
            });
        }
        if self
            .leaf(&edition.product_id)
            .is_some_and(|leaf| leaf.kind == ProductKind::Structure)
        {
            let leaves: Vec<&Leaf> = self.leaves_now();
            prune::uncited(&leaves, edition, entry, self.context.manifests)?;
        }
        self.unchanged(&[edition])?;
        self.bury(edition);
        Ok(())
    }

    /// A product becomes final or revisable; no edition changes.
    pub(super) fn set_lifecycle(&mut self, product_id: &ProductId, lifecycle: Lifecycle) -> Result<(), Refusal> {
        let Some(leaf) = self.leaf(product_id) else {
            return Err(Refusal::UnknownProduct {
                product_id: product_id.clone(),
            });
        };
        if leaf.lifecycle == lifecycle {
            let what = format!("product {product_id} is {lifecycle} already");
            return Err(Refusal::NothingToDo { what });
        }
        if let Some(leaf) = self.leaf_mut(product_id) {
            leaf.lifecycle = lifecycle;
        }
        Ok(())
    }

    pub(super) fn set_embargo(&mut self, on: bool) -> Result<(), Refusal> {
        if self.embargo == on {
            let what = format!("the embargo is {} already", if on { "on" } else { "off" });
            return Err(Refusal::NothingToDo { what });
        }
        self.embargo = on;
        Ok(())
    }

    /// INV-150: products return to the leaves of an older version, as they were.
    ///
    /// A tombstone stays one (INV-181), and what is embargoed now is not released by the way. An edition recorded since the older
    /// version becomes a tombstone: forgetting it would let its registration be folded again and publish what was corrected.
    pub(super) fn correct(&mut self, to: &Version, products: &BTreeSet<ProductId>) -> Result<(), Refusal> {
        let (named, base) = (to.seq, self.base.seq);
        let Some(from) = named.filter(|named| base.is_some_and(|base| *named < base)) else {
            return Err(Refusal::CorrectNotOlder { named, base });
        };
        for product_id in products {
            if to.leaf(product_id).is_none() && self.leaf(product_id).is_none() {
                return Err(Refusal::UnknownProduct {
                    product_id: product_id.clone(),
                });
            }
            for entry in to.leaf(product_id).iter().flat_map(|leaf| &leaf.editions) {
                let edition = EditionKey::new(product_id.clone(), entry.edition_id);
                self.unchanged(&[&edition])?;
                match self.status(&edition) {
                    Some(EntryStatus::Tombstone) => return Err(Refusal::CorrectResurrects { edition, from }),
                    Some(EntryStatus::State(EditionState::Embargoed)) if entry.state == EditionState::Live => {
                        return Err(Refusal::CorrectReleases { edition, from });
                    }
                    _ => {}
                }
            }
        }
        for product_id in products {
            let older = to.leaf(product_id).cloned();
            let now = self
                .leaf(product_id)
                .map(|leaf| leaf.editions.as_slice())
                .unwrap_or_default();
            let kept = |entry: &&Entry| {
                older
                    .as_ref()
                    .is_some_and(|leaf| leaf.entry(&entry.edition_id).is_some())
            };
            let gone: Vec<EditionId> = now
                .iter()
                .filter(|entry| !kept(entry))
                .map(|entry| entry.edition_id)
                .collect();
            for edition_id in gone {
                let edition = EditionKey::new(product_id.clone(), edition_id);
                let tombstone = to
                    .retired
                    .get(&edition)
                    .cloned()
                    .unwrap_or_else(|| self.tombstone(&edition));
                self.retired.insert(edition, tombstone);
            }
            self.leaves
                .insert(product_id.clone(), older.map_or(Edited::Removed, Edited::Reused));
        }
        self.built_from = Some(from);
        Ok(())
    }
}
