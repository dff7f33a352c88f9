//! Looking at a catalogue: its log, and what a version holds.

use sovm_inventory::{
    doc::{EditionState, Entry, Instant, Leaf, ProductId, Root, Seq, Stored},
    reader::{Finding, LiveInventory, Refresh, Way, versions_back_from},
    transition::{Refusal, Version},
};

use super::{
    Catalogue,
    change::{changes_of, description_of},
    errors,
};
use crate::{
    api::{
        EditionInfo, InventoryLogReport, InventoryProduct, InventoryShowReport, InventoryVersionInfo, RetiredEdition,
    },
    engine::chain,
    error::{ApiError, ErrorKind},
};

/// Which part of a catalogue to show.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// One product; none for all.
    pub(crate) product: Option<ProductId>,
    /// An older version; none for the newest.
    pub(crate) seq: Option<Seq>,
    /// Live editions only.
    pub(crate) live: bool,
}

impl Catalogue {
    /// The versions, newest first, as far back as they are stored.
    pub(crate) async fn log(&self, limit: usize) -> Result<InventoryLogReport, ApiError> {
        let Refresh { head, findings, .. } = self.head().await?;
        let mut report = InventoryLogReport {
            store: self.shown.to_string(),
            versions: Vec::new(),
            older: false,
            missing_from: None,
            broken: None,
            findings: sentences(&findings),
        };
        let walked = versions_back_from(&*self.store, &head, Seq::FIRST, |root| {
            if report.versions.len() == limit {
                report.older = true;
                return false;
            }
            report.versions.push(version_info(root));
            true
        })
        .await;
        match walked {
            Ok(missing) => report.missing_from = missing.map(Seq::get),
            // What was read up to there was verified from the head down, so it is shown.
            Err(error) => report.broken = Some(chain(&error)),
        }
        Ok(report)
    }

    /// What a version holds.
    pub(crate) async fn show(&self, look: &Look) -> Result<InventoryShowReport, ApiError> {
        let Refresh {
            head,
            way,
            freshness,
            findings,
        } = self.head().await?;
        let newest = head.root().seq;
        let (root, products) = match look.seq {
            Some(seq) if seq != newest => {
                let (root, version) = self.older(&head, seq).await?;
                (root, products_of(&version, look))
            }
            _ if look.live => {
                let live = LiveInventory::load(&*self.store, &head, None)
                    .await
                    .map_err(|error| errors::unread(&error, &self.shown))?;
                (head.root().clone(), live_products(&live))
            }
            _ => {
                let version = self.full(head.clone()).await?.to_version();
                let version = version.map_err(|error| self.damaged(&error))?;
                (head.root().clone(), products_of(&version, look))
            }
        };
        let wanted = |product: &InventoryProduct| {
            let asked = look.product.as_ref().map(ProductId::as_str);
            asked.is_none_or(|asked| asked == product.product_id)
        };
        let products: Vec<InventoryProduct> = products.into_iter().filter(wanted).collect();
        if let (Some(product_id), true) = (&look.product, products.is_empty()) {
            return Err(self.nothing_of(product_id, &root, look.live));
        }
        Ok(InventoryShowReport {
            store: self.shown.to_string(),
            seq: root.seq.get(),
            newest: newest.get(),
            restore_epoch: root.restore_epoch.get(),
            root_sha256: root.sha256().to_string(),
            created_at: root.created_at.to_string(),
            embargo: root.embargo,
            found_by: match way {
                Way::Current => "current".to_owned(),
                Way::Fallback => "fallback".to_owned(),
            },
            ahead_of_current: freshness.ahead_of_current,
            description: description_of(&root.extensions),
            products,
            findings: sentences(&findings),
        })
    }

    fn nothing_of(&self, product_id: &ProductId, root: &Stored<Root>, live: bool) -> ApiError {
        let known = root.products.contains_key(product_id);
        if live && known {
            return ApiError::new(
                ErrorKind::NotFound,
                format!(
                    "product {product_id} has no live edition in version {} (INV-204)",
                    root.seq
                ),
            )
            .safe("nothing was changed")
            .next(format!(
                "sovm inventory show {product_id}{} lists its other editions",
                self.shown.option()
            ));
        }
        let product_id = product_id.clone();
        errors::refused(&Refusal::UnknownProduct { product_id }, &self.shown).safe("nothing was changed")
    }
}

/// Findings of a reader, as sentences.
pub(super) fn sentences(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

fn version_info(root: &Stored<Root>) -> InventoryVersionInfo {
    InventoryVersionInfo {
        seq: root.seq.get(),
        restore_epoch: root.restore_epoch.get(),
        root_sha256: root.sha256().to_string(),
        previous_inventory: root.previous_inventory.map(Seq::get),
        created_at: root.created_at.to_string(),
        kind: root.event.kind.to_string(),
        actor: root.event.actor.to_string(),
        reason: root.event.reason.clone(),
        embargo: root.embargo,
        changes: changes_of(root),
    }
}

/// Every product of a version. Tombstones belong to the history of a product and are left out of the live view.
fn products_of(version: &Version, look: &Look) -> Vec<InventoryProduct> {
    let mut products: Vec<InventoryProduct> = version
        .leaves()
        .map(|leaf| product_of(leaf, look.live))
        .filter(|product| !look.live || !product.editions.is_empty())
        .collect();
    if look.live {
        return products;
    }
    for tombstone in version.retired() {
        let product_id = tombstone.product_id.to_string();
        let index = match products.iter().position(|product| product.product_id == product_id) {
            Some(index) => index,
            // INV-203: its last edition was retired, so it has no leaf any more.
            None => {
                products.push(InventoryProduct {
                    product_id,
                    ..InventoryProduct::default()
                });
                products.len() - 1
            }
        };
        products[index].retired.push(RetiredEdition {
            edition_id: tombstone.edition_id.to_string(),
            retired_at: tombstone.retired_at.to_string(),
        });
    }
    products.sort_by(|a, b| a.product_id.cmp(&b.product_id));
    products
}

fn product_of(leaf: &Leaf, live: bool) -> InventoryProduct {
    let shown = |entry: &&Entry| !live || entry.state == EditionState::Live;
    InventoryProduct {
        product_id: leaf.product_id.to_string(),
        kind: Some(leaf.kind.to_string()),
        lifecycle: Some(leaf.lifecycle.to_string()),
        editions: leaf.editions.iter().filter(shown).map(edition_of).collect(),
        retired: Vec::new(),
    }
}

fn edition_of(entry: &Entry) -> EditionInfo {
    EditionInfo {
        edition_id: entry.edition_id.to_string(),
        state: entry.state.to_string(),
        state_changed_at: entry.state_changed_at.to_string(),
        previous: entry.previous.map(|previous| previous.to_string()),
        release_at: entry.release_at.as_ref().map(Instant::to_string),
        schema_version: entry.schema_version.to_string(),
        manifest_sha256: entry.manifest_sha256.to_string(),
    }
}

/// INV-213: what a public reader can see, from a view that never held anything else.
fn live_products(live: &LiveInventory) -> Vec<InventoryProduct> {
    let product = |(product_id, product): (&ProductId, &sovm_inventory::reader::LiveProduct)| InventoryProduct {
        product_id: product_id.to_string(),
        kind: Some(product.kind.to_string()),
        lifecycle: Some(product.lifecycle.to_string()),
        editions: product
            .editions
            .iter()
            .map(|edition| EditionInfo {
                edition_id: edition.edition_id.to_string(),
                state: EditionState::Live.to_string(),
                state_changed_at: edition.live_since.to_string(),
                previous: edition.previous.map(|previous| previous.to_string()),
                release_at: None,
                schema_version: edition.schema_version.to_string(),
                manifest_sha256: edition.manifest_sha256.to_string(),
            })
            .collect(),
        retired: Vec::new(),
    };
    live.products().map(product).collect()
}
