//! The leaves of a version, of which some are known by their hash only.
//!
//! Most of what a version does to a catalogue concerns one product, and most leaves are the ones the base version names. So
//! a leaf may stand here by its hash alone. Whoever asks for one that was not read gets the answer "none", which may be
//! wrong, and the question is written down. An answer that was found while such a question was asked counts for nothing:
//! the writer reads what was asked for and has everything judged again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use crate::doc::{Leaf, ProductId, Sha256, Stored};

/// One product's leaf.
#[derive(Clone, Debug)]
enum Held {
    /// Read and verified.
    Read(Arc<Stored<Leaf>>),
    /// Named by the root and not read.
    Named(Sha256),
}

impl Held {
    fn sha256(&self) -> Sha256 {
        match self {
            Self::Read(leaf) => leaf.sha256(),
            Self::Named(sha256) => *sha256,
        }
    }
}

/// Which leaves were asked for and had not been read.
#[derive(Debug, Default)]
struct Questions {
    products: BTreeSet<ProductId>,
    all: bool,
}

/// A version's leaves by product.
///
/// A clone shares the questions: what is asked of the version a transition makes is asked of the version it was made from.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaves {
    held: BTreeMap<ProductId, Held>,
    questions: Arc<Mutex<Questions>>,
}

impl Leaves {
    /// A product's leaf. None may also mean that it was not read, and then it is written down as asked for.
    pub(super) fn get(&self, product_id: &ProductId) -> Option<&Arc<Stored<Leaf>>> {
        match self.held.get(product_id)? {
            Held::Read(leaf) => Some(leaf),
            Held::Named(_) => {
                self.ask(|questions| {
                    questions.products.insert(product_id.clone());
                });
                None
            }
        }
    }

    /// The leaf, if it was read; nothing is written down.
    pub(super) fn peek(&self, product_id: &ProductId) -> Option<&Arc<Stored<Leaf>>> {
        match self.held.get(product_id)? {
            Held::Read(leaf) => Some(leaf),
            Held::Named(_) => None,
        }
    }

    /// Every leaf. When some were not read, all of them are written down as asked for.
    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<Stored<Leaf>>> {
        if self.held.values().any(|held| matches!(held, Held::Named(_))) {
            self.ask(|questions| questions.all = true);
        }
        self.held.values().filter_map(|held| match held {
            Held::Read(leaf) => Some(leaf),
            Held::Named(_) => None,
        })
    }

    /// Every product.
    pub(super) fn keys(&self) -> impl Iterator<Item = &ProductId> {
        self.held.keys()
    }

    pub(super) fn contains_key(&self, product_id: &ProductId) -> bool {
        self.held.contains_key(product_id)
    }

    /// Every product with its leaf's hash, for which no leaf is needed.
    pub(super) fn hashes(&self) -> impl Iterator<Item = (&ProductId, Sha256)> {
        self.held.iter().map(|(product_id, held)| (product_id, held.sha256()))
    }

    /// The hash of a product's leaf.
    pub(super) fn sha256(&self, product_id: &ProductId) -> Option<Sha256> {
        self.held.get(product_id).map(Held::sha256)
    }

    /// The products whose leaf differs from that of another version, those that are only in one of the two included.
    pub(super) fn differing<'a>(&'a self, other: &'a Self) -> Vec<&'a ProductId> {
        let (mut ours, mut theirs) = (self.held.iter().peekable(), other.held.iter().peekable());
        let mut products = Vec::new();
        // Both are sorted, so two products that stand side by side are compared once.
        loop {
            let order = match (ours.peek(), theirs.peek()) {
                (Some((our, _)), Some((their, _))) => our.cmp(their),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => return products,
            };
            let our = if order.is_le() { ours.next() } else { None };
            let their = if order.is_ge() { theirs.next() } else { None };
            if our.map(|(_, held)| held.sha256()) != their.map(|(_, held)| held.sha256()) {
                products.extend(our.or(their).map(|(product_id, _)| product_id));
            }
        }
    }

    pub(super) fn insert(&mut self, product_id: ProductId, leaf: Arc<Stored<Leaf>>) {
        self.held.insert(product_id, Held::Read(leaf));
    }

    pub(super) fn insert_named(&mut self, product_id: ProductId, leaf_sha256: Sha256) {
        self.held.insert(product_id, Held::Named(leaf_sha256));
    }

    pub(super) fn remove(&mut self, product_id: &ProductId) {
        self.held.remove(product_id);
    }

    /// The products whose leaves were asked for and are not read, which are forgotten as asked for.
    pub(super) fn take_asked(&self) -> BTreeSet<ProductId> {
        let Questions { products, all } =
            std::mem::take(&mut *self.questions.lock().unwrap_or_else(PoisonError::into_inner));
        let unread = |product_id: &ProductId| matches!(self.held.get(product_id), Some(Held::Named(_)));
        if all {
            return self.unread();
        }
        products.into_iter().filter(unread).collect()
    }

    /// The products whose leaves are not read.
    pub(super) fn unread(&self) -> BTreeSet<ProductId> {
        let unread = self.held.iter().filter(|(_, held)| matches!(held, Held::Named(_)));
        unread.map(|(product_id, _)| product_id.clone()).collect()
    }

    /// Makes these leaves ask for themselves alone from now on.
    pub(super) fn part_from_base(&mut self) {
        self.questions = Arc::default();
    }

    fn ask(&self, question: impl FnOnce(&mut Questions)) {
        question(&mut self.questions.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::{FormatVersion, JsonObject, Lifecycle, ProductKind};

    fn product(name: &str) -> ProductId {
        name.parse().expect("a product id")
    }

    fn leaf(name: &str) -> Arc<Stored<Leaf>> {
        let leaf = Leaf {
            format_version: FormatVersion::INVENTORY,
            product_id: product(name),
            kind: ProductKind::Data,
            lifecycle: Lifecycle::Revisable,
            editions: Vec::new(),
            extra: JsonObject::new(),
        };
        Arc::new(Stored::encode(leaf).expect("a leaf"))
    }

    fn leaves(read: &[&str], named: &[&str]) -> Leaves {
        let mut leaves = Leaves::default();
        for name in read {
            leaves.insert(product(name), leaf(name));
        }
        for name in named {
            leaves.insert_named(product(name), leaf(name).sha256());
        }
        leaves
    }

    fn asked(leaves: &Leaves) -> Vec<String> {
        leaves.take_asked().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_was_not_read_is_written_down_once_it_is_asked_for() {
        let mut leaves = leaves(&["a"], &["b", "c"]);
        assert!(leaves.get(&product("a")).is_some());
        assert!(leaves.get(&product("x")).is_none());
        assert!(leaves.peek(&product("b")).is_none());
        assert_eq!(leaves.hashes().count(), 3);
        assert_eq!(
            asked(&leaves),
            [""; 0],
            "what is there, and what is nowhere, needs no reading"
        );
        assert!(leaves.get(&product("b")).is_none());
        assert_eq!(asked(&leaves), ["b"]);
        assert_eq!(asked(&leaves), [""; 0]);
        assert_eq!(leaves.values().count(), 1);
        assert_eq!(asked(&leaves), ["b", "c"]);
        leaves.insert(product("b"), leaf("b"));
        leaves.insert(product("c"), leaf("c"));
        assert_eq!(leaves.values().count(), 3);
        assert_eq!(asked(&leaves), [""; 0]);
    }

    #[test]
    fn a_clone_asks_with_the_version_it_was_made_from() {
        let base = leaves(&["a"], &["b"]);
        let mut next = base.clone();
        next.remove(&product("a"));
        assert!(next.get(&product("b")).is_none());
        assert_eq!(asked(&base), ["b"]);
        next.part_from_base();
        assert!(next.get(&product("b")).is_none());
        assert_eq!(asked(&base), [""; 0]);
        assert_eq!(asked(&next), ["b"]);
    }

    #[test]
    fn what_differs_is_found_without_reading() {
        let (ours, mut theirs) = (leaves(&["a", "b"], &["d", "e"]), leaves(&["b", "d"], &["a", "c"]));
        let names = |products: Vec<&ProductId>| products.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(ours.differing(&theirs)), ["c", "e"]);
        assert_eq!(names(theirs.differing(&ours)), ["c", "e"]);
        theirs.insert(product("b"), leaf("other"));
        assert_eq!(names(ours.differing(&theirs)), ["b", "c", "e"]);
        assert_eq!(names(ours.differing(&ours.clone())), [""; 0]);
        assert_eq!(names(Leaves::default().differing(&ours)), ["a", "b", "d", "e"]);
        assert_eq!(asked(&ours), [""; 0]);
    }
}
