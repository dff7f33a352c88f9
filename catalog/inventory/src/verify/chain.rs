//! The chain of versions, from the newest one back.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use chrono::TimeDelta;

use super::{Check, Fault, Line, Lines, Loaded, changes, load, root_at};
use crate::{
    doc::{Catalog, Epoch, Instant, Leaf, Lifecycle, ProductId, Root, Seq, Sha256, Stored, Unverified, layout},
    transition::{EditionKey, Refusal},
};

/// What a version says of the one before it.
struct After {
    seq: Seq,
    epoch: Option<Epoch>,
    created_at: Option<Instant>,
    has_history: bool,
    names: Option<Sha256>,
}

impl After {
    fn root(root: &Root) -> Self {
        let history = root.history.as_ref();
        Self {
            seq: root.seq,
            epoch: Some(root.restore_epoch),
            created_at: Some(root.created_at),
            has_history: history.is_some(),
            names: history.and_then(|history| history.previous_root_sha256),
        }
    }

    fn line(seq: Seq, epoch: Epoch, line: Line) -> Self {
        Self {
            seq,
            epoch: Some(epoch),
            created_at: None,
            has_history: line.has_history,
            names: line.previous,
        }
    }

    /// Of a root that does not decode: nothing is known but its number.
    fn nothing(seq: Seq) -> Self {
        Self {
            seq,
            epoch: None,
            created_at: None,
            has_history: false,
            names: None,
        }
    }
}

impl Check<'_> {
    /// INV-277, INV-321: follows the chain over roots and segment lines down to version 1.
    ///
    /// It goes over the numbers there are, not over all numbers below the head's: a forged number would make that endless.
    pub(super) async fn chain(&mut self, head: Seq, listed: &BTreeSet<Seq>, catalog: Option<&Catalog>, lines: &Lines) {
        let mut numbers: BTreeSet<Seq> = listed.range(..=head).copied().collect();
        numbers.extend(lines.keys().map(|(_, seq)| *seq).filter(|seq| *seq <= head));
        let mut after: Option<After> = None;
        let mut newer: Option<Loaded> = None;
        for seq in numbers.into_iter().rev() {
            if let Some(gap) = after.as_ref().filter(|after| after.seq.previous() != Some(seq)) {
                let (first, last) = (seq.next(), gap.seq.previous());
                self.missing(first, last);
                after = None;
                newer = None;
            }
            let root = match listed.contains(&seq) {
                true => self.root(seq).await,
                false => {
                    after = self.over_line(seq, after, lines);
                    newer = None;
                    continue;
                }
            };
            let Some(root) = root else {
                after = Some(After::nothing(seq));
                newer = None;
                continue;
            };
            self.link(&root, after.as_ref(), catalog, lines);
            let (store, report) = (self.store, &mut self.report);
            let loaded = load(store, root, newer.as_ref(), &mut |path, fault| report.push(path, fault)).await;
            let loaded = match loaded {
                Ok(loaded) => loaded,
                Err(error) => {
                    self.fault(layout::root(seq), Fault::unreadable(&error));
                    after = Some(After::nothing(seq));
                    newer = None;
                    continue;
                }
            };
            self.report.counts.roots += 1;
            self.report.counts.leaves += loaded.fetched.len() as u64;
            match &newer {
                Some(newer) => self.between(&loaded, newer).await,
                None if seq == head => self.recorded(&loaded).await,
                None => {}
            }
            self.version(&loaded, newer.as_ref(), seq == head).await;
            after = Some(After::root(&loaded.root));
            newer = Some(loaded);
        }
        if let Some(first) = &newer
            && first.root.seq == Seq::FIRST
        {
            self.change_list(None, first);
        }
        if let Some(after) = after.filter(|after| after.seq != Seq::FIRST) {
            self.missing(Some(Seq::FIRST), after.seq.previous());
        }
    }

    fn missing(&mut self, first: Option<Seq>, last: Option<Seq>) {
        if let (Some(first), Some(last)) = (first, last) {
            self.fault(layout::root(last), Fault::RootsMissing { first, last });
        }
    }

    async fn root(&mut self, seq: Seq) -> Option<Stored<Root, Unverified>> {
        match root_at(self.store, seq).await {
            // Listed a moment ago; an expiry may have deleted it since, and then its line is there at the next run.
            Ok(None) => self.missing(Some(seq), Some(seq)),
            Ok(Some(Ok(root))) if root.seq == seq => return Some(root),
            Ok(Some(Ok(root))) => self.fault(layout::root(seq), Fault::RootNumber { found: root.seq }),
            Ok(Some(Err(error))) => self.fault(layout::root(seq), error),
            Err(error) => self.fault(layout::root(seq), Fault::unreadable(&error)),
        }
        None
    }

    /// Follows the chain over a removed root. After a restore a number has lines in two epochs; the one the version after
    /// names is on the chain.
    fn over_line(&mut self, seq: Seq, after: Option<After>, lines: &Lines) -> Option<After> {
        let mut candidates = lines
            .iter()
            .filter(|((_, number), _)| *number == seq)
            .map(|((epoch, _), line)| (*epoch, *line));
        let named = after.as_ref().and_then(|after| after.names);
        let on_chain = candidates.clone().find(|(_, line)| Some(line.root_sha256) == named);
        let (epoch, line) = on_chain.or_else(|| candidates.next_back())?;
        if let Some(after) = after.filter(|after| after.has_history)
            && named != Some(line.root_sha256)
        {
            self.fault(
                layout::root(after.seq),
                Fault::Link {
                    seq: after.seq,
                    names: named,
                    base: seq,
                    found: line.root_sha256,
                },
            );
        }
        Some(After::line(seq, epoch, line))
    }

    /// What holds between a version and the one after it, and between a root and the catalogue.
    fn link(
        &mut self,
        root: &Stored<Root, Unverified>,
        after: Option<&After>,
        catalog: Option<&Catalog>,
        lines: &Lines,
    ) {
        let (seq, path) = (root.seq, layout::root(root.seq));
        if let Some(line) = lines.get(&(root.restore_epoch, seq))
            && line.root_sha256 != root.sha256()
        {
            let (line, found) = (line.root_sha256, root.sha256());
            let other = "the root that is there";
            self.fault(
                path.clone(),
                Fault::Line {
                    seq,
                    line,
                    other,
                    found,
                },
            );
        }
        if let Some(catalog) = catalog {
            if root.restore_epoch > catalog.restore_epoch && after.is_none() {
                let (found, expected) = (root.restore_epoch, catalog.restore_epoch);
                let other = "catalog.json".to_owned();
                self.fault(
                    path.clone(),
                    Fault::Epoch {
                        seq,
                        found,
                        other,
                        expected,
                    },
                );
            }
            if let Some(since_seq) = catalog.since_seq.filter(|since| seq >= *since)
                && root.history.is_none()
            {
                self.fault(path.clone(), Fault::HistoryFieldsSince { seq, since_seq });
            }
        }
        let Some(after) = after else { return };
        if after.has_history && after.names != Some(root.sha256()) {
            self.fault(
                layout::root(after.seq),
                Fault::Link {
                    seq: after.seq,
                    names: after.names,
                    base: seq,
                    found: root.sha256(),
                },
            );
        }
        if let Some(epoch) = after.epoch.filter(|epoch| *epoch < root.restore_epoch) {
            let (found, expected) = (epoch, root.restore_epoch);
            let other = format!("version {seq}");
            let seq = after.seq;
            self.fault(
                layout::root(seq),
                Fault::Epoch {
                    seq,
                    found,
                    other,
                    expected,
                },
            );
        }
        if let Some(created_at) = after.created_at {
            if created_at < root.created_at.plus(TimeDelta::milliseconds(1)) && after.has_history {
                let (seq, base) = (after.seq, root.created_at);
                self.fault(layout::root(seq), Fault::CreatedTooEarly { seq, created_at, base });
            }
            if root.history.is_some() && !after.has_history {
                let (seq, base) = (after.seq, root.seq);
                self.fault(layout::root(seq), Fault::HistoryFieldsLost { seq, base });
            }
        }
    }

    fn change_list(&mut self, base: Option<&Loaded>, next: &Loaded) {
        let Some(history) = &next.root.history else { return };
        let path = layout::root(next.root.seq);
        self.report.counts.change_lists += 1;
        match changes::compare(base, next, history) {
            Ok(faults) => faults.into_iter().for_each(|fault| self.fault(path.clone(), fault)),
            Err(error) => self.fault(path, error),
        }
    }

    /// What holds between two neighbours.
    async fn between(&mut self, base: &Loaded, next: &Loaded) {
        self.change_list(Some(base), next);
        for product_id in &base.fetched {
            if let (Some(before), Some(leaf)) = (base.leaves.get(product_id), next.leaves.get(product_id)) {
                self.final_content(before, leaf, &base.root).await;
            }
        }
    }

    /// INV-234: what a final product gets holds what it held.
    async fn final_content(&mut self, before: &Leaf, leaf: &Leaf, base: &Root) {
        if before.lifecycle != Lifecycle::Final || leaf.lifecycle != Lifecycle::Final {
            return;
        }
        for entry in &leaf.editions {
            let came =
                before.entry(&entry.edition_id).is_none() && !base.is_retired(&leaf.product_id, &entry.edition_id);
            let Some(compared) = entry.previous.filter(|_| came) else {
                continue;
            };
            let Some(earlier) = before.entry(&compared) else {
                continue;
            };
            let edition = EditionKey::new(leaf.product_id.clone(), entry.edition_id);
            let other = EditionKey::new(leaf.product_id.clone(), compared);
            // Neither is reported here: every entry's manifest is checked on its own.
            let (Some(new), Some(old)) = (
                self.quiet_manifest(&edition, entry).await,
                self.quiet_manifest(&other, earlier).await,
            ) else {
                continue;
            };
            let same = new.content_fingerprint == old.content_fingerprint && new.canonical_form == old.canonical_form;
            if new.content_fingerprint.is_none() || !same {
                let shown = |manifest: &crate::doc::Manifest| {
                    let form = &manifest.canonical_form;
                    manifest
                        .content_fingerprint
                        .map(|value| format!("{value} of form {form}"))
                };
                let (found, expected) = (shown(&new), shown(&old));
                let path = layout::manifest(&edition.product_id, &edition.edition_id);
                self.fault(
                    path,
                    Refusal::FinalChanged {
                        edition,
                        found,
                        compared,
                        expected,
                    },
                );
            }
        }
    }

    /// What holds in one version, of the leaves that the version after does not have.
    async fn version(&mut self, loaded: &Loaded, newer: Option<&Loaded>, is_head: bool) {
        let fetched: BTreeSet<&ProductId> = loaded.fetched.iter().collect();
        let path = layout::root(loaded.root.seq);
        match loaded.part(|product_id| fetched.contains(product_id)) {
            Ok(version) => {
                for refusal in version.findings() {
                    if self.live_only && matches!(refusal, Refusal::PreviousUnknown { .. }) {
                        continue;
                    }
                    let leaf = match &refusal {
                        Refusal::PreviousUnknown { edition, .. } => loaded.leaves.get(&edition.product_id),
                        Refusal::TwoLive { product_id, .. } => loaded.leaves.get(product_id),
                        _ => None,
                    };
                    let path = leaf.map_or_else(|| path.clone(), |leaf| layout::leaf(&leaf.sha256()));
                    self.fault(path, refusal);
                }
            }
            Err(error) => self.fault(path, error),
        }
        // The entries of the newest version are checked as recorded ones.
        if is_head {
            return;
        }
        let leaves: BTreeMap<&ProductId, &Arc<Stored<Leaf>>> = loaded
            .leaves
            .iter()
            .filter(|(product_id, _)| fetched.contains(product_id))
            .collect();
        for (product_id, leaf) in leaves {
            let later = newer
                .and_then(|newer| newer.leaves.get(product_id))
                .map(|leaf| &***leaf);
            self.earlier_entries(leaf, later).await;
        }
    }
}
