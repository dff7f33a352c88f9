//! Products, as they were created and as their editions say.
//!
//! A version knows a product by its leaf, and a leaf by its editions, so a product without any has no place there. What
//! `sovm product create` is told is kept in the `sovm` section of the version's extensions: written like every other
//! change, as one version with who and why, and never part of a live-only export. Once an edition is recorded, kind and
//! lifecycle are what the leaf says, and of the section only the title counts.

use std::collections::{BTreeMap, BTreeSet};

use sovm_inventory::{
    doc::{CleanText, EditionState, Json, JsonObject, Lifecycle, ProductId, ProductKind, layout},
    reader::Head,
    store::StorePath,
    transition::{ProductProfile, Version},
};

use super::{Catalogue, errors};
use crate::{
    api::{ProductInfo, ProductListReport},
    error::{ApiError, ErrorKind},
};

/// The extension section of this program, shared with whatever else it keeps there.
pub(super) const SECTION: &str = "sovm";
const SECTION_FORMAT: &str = "1.0";
const PRODUCTS: &str = "products";

/// A product to create.
#[derive(Debug, Clone)]
pub(crate) struct NewProduct {
    /// Its id.
    pub(crate) product_id: ProductId,
    /// What it holds, and whether that may change.
    pub(crate) profile: ProductProfile,
    /// What people call it.
    pub(crate) title: Option<CleanText>,
}

/// What a product was created with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) profile: ProductProfile,
    pub(super) title: Option<String>,
}

/// The products a version's extensions declare. What can't be read as one was written by a newer build and is left
/// alone.
pub(super) fn declared(extensions: &JsonObject) -> BTreeMap<ProductId, Declared> {
    let products = section(extensions).remove(PRODUCTS);
    let Some(Json::Object(products)) = products else {
        return BTreeMap::new();
    };
    let read = |(id, product): (&str, &Json)| {
        let Json::Object(product) = product else { return None };
        let word = |key: &str| match product.get(key) {
            Some(Json::String(text)) => Some(text.as_str()),
            _ => None,
        };
        let profile = ProductProfile {
            kind: ProductKind::from_word(word("kind")?)?,
            lifecycle: Lifecycle::from_word(word("lifecycle")?)?,
        };
        let title = word("title").map(str::to_owned);
        Some((id.parse().ok()?, Declared { profile, title }))
    };
    products.iter().filter_map(read).collect()
}

/// The same extensions with one product more. Members nobody here knows are kept as they are.
pub(super) fn with_product(mut extensions: JsonObject, product: &NewProduct) -> JsonObject {
    let mut section = section(&extensions);
    if section.get("format_version").is_none() {
        section.insert("format_version", SECTION_FORMAT);
    }
    let mut products = match section.remove(PRODUCTS) {
        Some(Json::Object(products)) => products,
        _ => JsonObject::new(),
    };
    let mut declared = JsonObject::new();
    declared.insert("kind", product.profile.kind.as_str());
    declared.insert("lifecycle", product.profile.lifecycle.as_str());
    if let Some(title) = &product.title {
        declared.insert("title", title.as_str());
    }
    products.insert(product.product_id.as_str(), declared);
    section.insert(PRODUCTS, products);
    extensions.insert(SECTION, section);
    extensions
}

/// That section, or an empty one.
pub(super) fn section(extensions: &JsonObject) -> JsonObject {
    match extensions.get(SECTION) {
        Some(Json::Object(section)) => section.clone(),
        _ => JsonObject::new(),
    }
}

impl Catalogue {
    /// Kind and lifecycle of a product: as its leaf says, else as it was created.
    pub(super) fn profile(
        &self,
        head: &Head,
        version: &Version,
        product_id: &ProductId,
    ) -> Result<ProductProfile, ApiError> {
        if let Some(leaf) = version.leaf(product_id) {
            return Ok(ProductProfile {
                kind: leaf.kind,
                lifecycle: leaf.lifecycle,
            });
        }
        match declared(&head.root().extensions).remove(product_id) {
            Some(declared) => Ok(declared.profile),
            None => Err(
                ApiError::new(ErrorKind::NotFound, format!("there is no product {product_id} here"))
                    .safe("nothing was written; the catalogue is as it was")
                    .next(format!(
                        "sovm product create {product_id} --kind data --lifecycle revisable{}",
                        self.shown.option()
                    )),
            ),
        }
    }

    /// Every product: created ones, recorded ones, and those that only have files.
    pub(crate) async fn products(&self) -> Result<ProductListReport, ApiError> {
        let (head, version) = self.newest().await?;
        let declared = declared(&head.root().extensions);
        let mut report = ProductListReport {
            store: self.shown.to_string(),
            seq: head.root().seq.get(),
            products: Vec::new(),
        };
        for product_id in self.product_ids(&head, &version).await? {
            let leaf = version.leaf(&product_id);
            let created = declared.get(&product_id);
            let kind = leaf
                .map(|leaf| leaf.kind)
                .or_else(|| created.map(|created| created.profile.kind));
            let lifecycle = leaf
                .map(|leaf| leaf.lifecycle)
                .or_else(|| created.map(|created| created.profile.lifecycle));
            let entries = leaf.map(|leaf| leaf.editions.as_slice()).unwrap_or_default();
            let in_state = |state: EditionState| entries.iter().filter(move |entry| entry.state == state);
            report.products.push(ProductInfo {
                kind: kind.map(|kind| kind.to_string()),
                lifecycle: lifecycle.map(|lifecycle| lifecycle.to_string()),
                title: created.and_then(|created| created.title.clone()),
                editions: entries.len() as u64,
                live: in_state(EditionState::Live)
                    .map(|entry| entry.edition_id.to_string())
                    .collect(),
                embargoed: in_state(EditionState::Embargoed)
                    .map(|entry| entry.edition_id.to_string())
                    .collect(),
                unsealed: self
                    .editions_of(&product_id)
                    .await?
                    .unsealed()
                    .await
                    .map_err(|error| errors::edition(&error, &product_id, &self.shown))?
                    .map(|edition_id| edition_id.to_string()),
                product_id: product_id.to_string(),
            });
        }
        Ok(report)
    }

    /// The ids of all products that are created, recorded, retired, or have a directory.
    pub(super) async fn product_ids(&self, head: &Head, version: &Version) -> Result<BTreeSet<ProductId>, ApiError> {
        let folder = StorePath::parse(layout::PRODUCTS).map_err(ApiError::bug)?;
        let names = self.store.list(Some(&folder)).await;
        let names = names.map_err(|error| errors::storage(&error))?;
        let stored = names.iter().filter_map(|name| {
            let below = name.as_str().strip_prefix(layout::PRODUCTS)?.strip_prefix('/')?;
            below.split_once('/')?.0.parse().ok()
        });
        let mut products: BTreeSet<ProductId> = stored.collect();
        products.extend(declared(&head.root().extensions).into_keys());
        products.extend(version.leaves().map(|leaf| leaf.product_id.clone()));
        products.extend(version.retired().map(|tombstone| tombstone.product_id.clone()));
        Ok(products)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(id: &str, title: Option<&str>) -> NewProduct {
        NewProduct {
            product_id: id.parse().unwrap(),
            profile: ProductProfile {
                kind: ProductKind::Structure,
                lifecycle: Lifecycle::Final,
            },
            title: title.map(|title| title.parse().unwrap()),
        }
    }

    /// What is declared is read again, and what others keep in the section and beside it stays.
    #[test]
    fn declarations_are_read_again() {
        let mut extensions = JsonObject::new();
        extensions.insert("statcat", "theirs");
        let mut ours = JsonObject::new();
        ours.insert("authority", "somebody");
        extensions.insert(SECTION, ours);
        let extensions = with_product(extensions, &product("weather", Some("Weather by hour")));
        let extensions = with_product(extensions, &product("codes", None));
        let found = declared(&extensions);
        assert_eq!(found.len(), 2);
        let weather = &found[&"weather".parse().unwrap()];
        assert_eq!(weather.title.as_deref(), Some("Weather by hour"));
        assert_eq!(weather.profile.kind, ProductKind::Structure);
        assert_eq!(weather.profile.lifecycle, Lifecycle::Final);
        assert_eq!(extensions.get("statcat"), Some(&Json::from("theirs")));
        let Some(Json::Object(ours)) = extensions.get(SECTION) else {
            panic!("{extensions:?}")
        };
        assert_eq!(ours.get("authority"), Some(&Json::from("somebody")));
        assert_eq!(ours.get("format_version"), Some(&Json::from(SECTION_FORMAT)));
    }

    /// A declaration of a newer build must not keep this one from reading the others.
    #[test]
    fn what_is_not_understood_is_left_alone() {
        let extensions = with_product(JsonObject::new(), &product("weather", None));
        let Some(Json::Object(mut ours)) = extensions.get(SECTION).cloned() else {
            panic!("{extensions:?}")
        };
        let Some(Json::Object(mut products)) = ours.remove(PRODUCTS) else {
            panic!("{ours:?}")
        };
        products.insert("no id", "x");
        products.insert("later", JsonObject::new());
        ours.insert(PRODUCTS, products);
        let mut extensions = JsonObject::new();
        extensions.insert(SECTION, ours);
        assert_eq!(declared(&extensions).len(), 1);
        assert!(declared(&JsonObject::new()).is_empty());
    }
}
