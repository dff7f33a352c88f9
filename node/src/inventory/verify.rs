//! Checking a catalogue: every version from the newest down, its leaves, its links and its change list.
//!
//! This is the one place that decides what `sovm inventory verify` checks.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use sovm_inventory::{
    doc::{Catalog, Document as _, History, Leaf, Root, RootHistory, Seq, Sha256, Stored, Unverified, layout},
    reader::{ReadError, find_head},
    transition::{Version, change_list, stale_artefacts},
};

use super::{Catalogue, errors, manifests::Gathered};
use crate::{
    api::{InventoryFinding, InventoryVerifyReport},
    engine::chain,
    error::ApiError,
};

type Leaves = HashMap<Sha256, Arc<Stored<Leaf>>>;

impl Catalogue {
    /// Reads everything the newest version rests on and says what is wrong with it. An error means that it could not be
    /// looked at; whatever is wrong with the catalogue itself is a finding.
    pub(crate) async fn verify(&self) -> Result<InventoryVerifyReport, ApiError> {
        let mut findings = Findings::default();
        let mut report = InventoryVerifyReport {
            store: self.shown.to_string(),
            ..InventoryVerifyReport::default()
        };
        let head = match find_head(&*self.store, None).await {
            Ok(found) => {
                found.findings.iter().for_each(|finding| findings.add(None, finding));
                found.head
            }
            Err(error @ (ReadError::Fetch(_) | ReadError::NoCatalog)) => {
                return Err(errors::unread(&error, &self.shown));
            }
            Err(error) => {
                findings.add(None, &chain(&error));
                report.findings = findings.0;
                return Ok(report);
            }
        };
        report.newest = Some(head.root().seq.get());
        let expired_through = self.expired_through(&mut findings).await?;

        let mut root = head.root().clone();
        let (mut version, mut leaves) = self.version_of(&root, &Leaves::new(), &mut findings).await?;
        if let Some(version) = &version {
            self.stale(version, &mut report, &mut findings).await?;
        }
        loop {
            report.versions += 1;
            if let Some(version) = &version {
                version
                    .findings()
                    .iter()
                    .for_each(|finding| findings.add(Some(root.seq), finding));
            }
            let Some(seq) = root.seq.previous() else {
                check_first(&root, version.as_ref(), &mut findings);
                break;
            };
            if expired_through.is_some_and(|through| seq <= through) {
                break;
            }
            let Some(base) = self.base_of(&root, seq, &mut findings).await? else {
                break;
            };
            let (base_version, base_leaves) = self.version_of(&base, &leaves, &mut findings).await?;
            if root.created_at.since(base.created_at).num_milliseconds() < 1 {
                let text = format!(
                    "version {} is of {}, not later than {} of the version before it (INV-252)",
                    root.seq, root.created_at, base.created_at
                );
                findings.add(Some(root.seq), &text);
            }
            if let (Some(base), Some(version), Some(history)) = (&base_version, &version, &root.history) {
                check_changes(root.seq, base, version, history, &mut findings);
            }
            (root, version, leaves) = (base, base_version, base_leaves);
        }
        report.findings = findings.0;
        Ok(report)
    }

    /// How far versions expired; nothing on a catalogue that keeps all.
    async fn expired_through(&self, findings: &mut Findings) -> Result<Option<Seq>, ApiError> {
        let catalog = match self.fetch(layout::CATALOG).await? {
            Some(bytes) => Catalog::decode(&bytes),
            None => {
                findings.add(None, &"catalog.json is missing (INV-18)");
                return Ok(None);
            }
        };
        let opted_in = match catalog {
            Ok(catalog) => catalog.is_opted_in(),
            Err(error) => {
                findings.add(None, &error);
                return Ok(None);
            }
        };
        if !opted_in {
            return Ok(None);
        }
        match self.fetch(layout::HISTORY).await?.map(|bytes| History::decode(&bytes)) {
            Some(Ok(history)) => Ok(history.expired_through),
            Some(Err(error)) => {
                findings.add(None, &error);
                Ok(None)
            }
            None => {
                findings.add(
                    None,
                    &"catalog.json has format 2, but there is no inventory/HISTORY (INV-137)",
                );
                Ok(None)
            }
        }
    }

    /// The version before `root`. When it isn't the one `root` names, that is a finding, and what is there is looked at
    /// all the same; none when nothing is there that can be read.
    async fn base_of(
        &self,
        root: &Stored<Root>,
        seq: Seq,
        findings: &mut Findings,
    ) -> Result<Option<Stored<Root>>, ApiError> {
        let Some(bytes) = self.fetch(&layout::root(seq)).await? else {
            findings.add(Some(seq), &format!("version {seq} is missing (INV-277)"));
            return Ok(None);
        };
        let base = match Stored::<Root, Unverified>::decode(bytes) {
            Ok(base) => base,
            Err(error) => {
                findings.add(Some(seq), &format!("version {seq}: {error}"));
                return Ok(None);
            }
        };
        let named = root.history.as_ref().and_then(|history| history.previous_root_sha256);
        if let Some(named) = named.filter(|named| *named != base.sha256()) {
            let text = format!(
                "version {} names {named} as the version before it, which is {} (INV-161)",
                root.seq,
                base.sha256()
            );
            findings.add(Some(root.seq), &text);
        }
        if base.seq != seq {
            let text = format!("the root of version {seq} says it is version {} (INV-19)", base.seq);
            findings.add(Some(seq), &text);
            return Ok(None);
        }
        if root.history.is_none() && base.history.is_some() {
            let text = format!(
                "version {} has no history fields, but version {seq} before it has (INV-163)",
                root.seq
            );
            findings.add(Some(root.seq), &text);
        }
        if root.restore_epoch < base.restore_epoch {
            let text = format!(
                "version {} is of epoch {}, the version before it of epoch {} (INV-151)",
                root.seq, root.restore_epoch, base.restore_epoch
            );
            findings.add(Some(root.seq), &text);
        }
        // Whether its bytes are the ones named is a finding by now; either way it is only looked at.
        Ok(Some(base.trusted()))
    }

    /// A version with its leaves; none when one of them can't be had. Leaves of the version after it are not read again.
    async fn version_of(
        &self,
        root: &Stored<Root>,
        known: &Leaves,
        findings: &mut Findings,
    ) -> Result<(Option<Version>, Leaves), ApiError> {
        let mut leaves = Leaves::new();
        for (product_id, leaf) in &root.products {
            let sha256 = leaf.leaf_sha256;
            if let Some(leaf) = known.get(&sha256) {
                leaves.insert(sha256, leaf.clone());
                continue;
            }
            let path = leaf.path();
            let Some(bytes) = self.fetch(&path).await? else {
                let text = format!(
                    "version {}: {path} of product {product_id} is missing (INV-167)",
                    root.seq
                );
                findings.add(Some(root.seq), &text);
                continue;
            };
            match Stored::<Leaf>::verify(bytes, sha256) {
                Ok(leaf) => drop(leaves.insert(sha256, Arc::new(leaf))),
                Err(error) => {
                    let text = format!("version {}: the leaf of product {product_id}: {error}", root.seq);
                    findings.add(Some(root.seq), &text);
                }
            }
        }
        if root
            .products
            .values()
            .any(|leaf| !leaves.contains_key(&leaf.leaf_sha256))
        {
            return Ok((None, leaves));
        }
        match Version::of(root, |sha256| leaves.get(&sha256).cloned()) {
            Ok(version) => Ok((Some(version), leaves)),
            Err(error) => {
                findings.add(Some(root.seq), &error);
                Ok((None, leaves))
            }
        }
    }

    /// INV-232: stale editions. They are reported and are nothing wrong: they stay as they are until they are republished.
    async fn stale(
        &self,
        version: &Version,
        report: &mut InventoryVerifyReport,
        findings: &mut Findings,
    ) -> Result<(), ApiError> {
        let mut gathered = Gathered::default();
        let missing = gathered.manifests().missing(version);
        let wanted = missing.into_iter().filter_map(|edition| {
            let recorded = version.entry(&edition)?.manifest_sha256;
            Some((edition, recorded))
        });
        gathered.read(self, wanted.collect()).await?;
        match stale_artefacts(version, gathered.manifests()) {
            Ok(stale) => report.stale = stale.iter().map(ToString::to_string).collect(),
            Err(refusal) => {
                let cause = gathered.cause(&refusal).map(|failure| failure.message.clone());
                findings.add(version.seq(), &cause.unwrap_or_else(|| refusal.to_string()));
            }
        }
        Ok(())
    }
}

/// INV-162: a change list is what the two versions' leaves and tombstones differ in, and nothing else.
fn check_changes(seq: Seq, base: &Version, version: &Version, history: &RootHistory, findings: &mut Findings) {
    let expected = change_list(base, version);
    if expected == history.changes {
        return;
    }
    let by_product =
        |changes: &[sovm_inventory::doc::ChangeItem]| -> BTreeMap<String, sovm_inventory::doc::ChangeItem> {
            changes
                .iter()
                .map(|item| (item.product_id.to_string(), item.clone()))
                .collect()
        };
    let (expected, found) = (by_product(&expected), by_product(&history.changes));
    let differs = |product: &&String| expected.get(*product) != found.get(*product);
    let mut products: Vec<&String> = expected.keys().chain(found.keys()).filter(differs).collect();
    products.sort();
    products.dedup();
    for product in products {
        let text = format!(
            "version {seq}: the change list does not say what differs from the version before in product {product} (INV-162)"
        );
        findings.add(Some(seq), &text);
    }
}

/// The first version is compared with a catalogue that holds nothing.
fn check_first(root: &Stored<Root>, version: Option<&Version>, findings: &mut Findings) {
    if let (Some(version), Some(history)) = (version, &root.history) {
        let nothing = Version::before_the_first(root.embargo);
        check_changes(root.seq, &nothing, version, history, findings);
    }
}

#[derive(Debug, Default)]
struct Findings(Vec<InventoryFinding>);

impl Findings {
    fn add(&mut self, seq: Option<Seq>, what: &dyn std::fmt::Display) {
        let message = what.to_string();
        self.0.push(InventoryFinding {
            rules: errors::rules_in(&message),
            seq: seq.map(Seq::get),
            message,
        });
    }
}
