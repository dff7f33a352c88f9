//! What holds between editions: references, final products, and bytes nobody can foresee.

use std::collections::BTreeSet;

use async_trait::async_trait;
use proptest::prelude::*;

use super::*;
use crate::{
    store::StoreError,
    transition::{EditionKey, Operation, StoredReferences},
    verify::{EditionReferences, Options, verify},
};

/// What a test's editions refer to, by product.
struct Sets(Vec<(&'static str, Vec<&'static str>, Vec<&'static str>)>);

struct Set(Vec<&'static str>, Vec<&'static str>);

impl StoredReferences for Set {
    fn references(&self) -> BTreeSet<String> {
        self.0.iter().map(ToString::to_string).collect()
    }

    fn holds(&self, reference: &str) -> bool {
        self.1.contains(&reference)
    }

    fn holds_in_full(&self, reference: &str) -> bool {
        self.1.contains(&reference)
    }
}

#[async_trait]
impl EditionReferences for Sets {
    async fn references_of(
        &self,
        edition: &EditionKey,
        _: &Manifest,
    ) -> Result<Option<Box<dyn StoredReferences + Send + Sync>>, StoreError> {
        let found = self
            .0
            .iter()
            .find(|(product, ..)| edition.product_id.as_str() == *product);
        Ok(found.map(|(_, refers, holds)| {
            Box::new(Set(refers.clone(), holds.clone())) as Box<dyn StoredReferences + Send + Sync>
        }))
    }
}

/// INV-238, INV-239, INV-240: a data edition resolves its references in itself, a structure edition in others too; what is
/// found nowhere is an error that names it.
#[tokio::test(start_paused = true)]
async fn references_that_resolve_nowhere_are_errors() {
    let mut fixture = fixture().await;
    for product in ["structure-a", "structure-b", "population"] {
        fixture.released(product, None, &[]).await;
    }
    let check = async |sets: Sets| {
        let options = Options {
            files: None,
            references: Some(&sets),
            canonical_forms: &fixture.forms,
            findings_kept: 10,
        };
        verify(&*fixture.store, &options).await
    };
    let held = vec!["dsd"];
    let sound = Sets(vec![
        ("structure-a", vec!["code"], vec![]),
        ("structure-b", vec![], vec!["code"]),
        ("population", vec!["dsd"], held.clone()),
    ]);
    assert_eq!(check(sound).await.findings, []);
    let leaning = Sets(vec![
        ("structure-b", vec![], vec!["code"]),
        ("population", vec!["dsd", "code"], held),
    ]);
    let report = check(leaning).await;
    assert_eq!(rules(&report), [(238, Severity::Error)]);
    assert!(report.findings[0].to_string().contains("code"));
    let dangling = Sets(vec![
        ("structure-a", vec!["code"], vec![]),
        ("structure-b", vec![], vec!["scheme"]),
    ]);
    assert_eq!(rules(&check(dangling).await), [(239, Severity::Error)]);
}

/// INV-234: what a final product got later holds other content. The transitions refuse this, so the test makes the product
/// final in a version before, behind the writer's back.
#[tokio::test(start_paused = true)]
async fn a_final_product_with_other_content_is_an_error() {
    let mut fixture = fixture().await;
    let first = fixture.released("population", None, &[]).await;
    let lifecycle = Lifecycle::Final;
    fixture
        .commit(&[Operation::SetLifecycle {
            product_id: product("population"),
            lifecycle,
        }])
        .await
        .expect("final");
    let second = fixture.sealed("population", Some(&first), &[]).await;
    let mut sealed = Fixture::edition(&second);
    sealed.profile.lifecycle = lifecycle;
    let refused = fixture
        .commit(&[Operation::Seal(sealed)])
        .await
        .expect_err("other content");
    assert_eq!(refused.rule(), 234);
    let revisable = Lifecycle::Revisable;
    fixture
        .commit(&[Operation::SetLifecycle {
            product_id: product("population"),
            lifecycle: revisable,
        }])
        .await
        .expect("revisable");
    assert_eq!(fixture.verify().await.findings, []);
    fixture
        .commit(&[Operation::Seal(Fixture::edition(&second))])
        .await
        .expect("sealed");
    assert_eq!(fixture.verify().await.findings, [], "revisable at the time");
    // Final again, and an edition of the same content from a writer that does not look.
    fixture
        .commit(&[Operation::SetLifecycle {
            product_id: product("population"),
            lifecycle,
        }])
        .await
        .expect("final");
    let third = fixture.sealed("population", Some(&second), &[]).await;
    let head = fixture.head().await;
    let base = Stored::<Root, Unverified>::decode(fixture.get(&layout::root(head.seq)).await).expect("a root");
    let leaf_bytes = fixture.get(&base.products[&product("population")].path()).await;
    let leaf = edited::<Leaf>(&leaf_bytes, |leaf| {
        let mut entry = leaf.editions[1].clone();
        leaf.editions[1].state = EditionState::Superseded;
        entry.edition_id = third.edition_id;
        entry.previous = third.previous;
        entry.manifest_sha256 = third.sha256();
        entry.routing = Some(third.routing());
        leaf.editions.push(entry);
    });
    let (from, leaf_sha256) = (Sha256::of(&leaf_bytes), Sha256::of(&leaf));
    fixture.put(&layout::leaf(&leaf_sha256), &leaf).await;
    let leaf: Leaf = Document::decode(&leaf).expect("a leaf");
    let mut root = base.value().clone();
    root.seq = head.seq.next().expect("a number");
    root.previous_inventory = Some(head.seq);
    root.created_at = base.created_at.plus(chrono::TimeDelta::seconds(1));
    root.products.insert(product("population"), LeafRef { leaf_sha256 });
    let state = |state| Some(EntryStatus::State(state));
    let change = |index: usize, from| EntryChange {
        edition_id: leaf.editions[index].edition_id,
        from,
        to: state(leaf.editions[index].state),
        entry: Some((&leaf.editions[index]).into()),
    };
    root.history = Some(RootHistory {
        previous_root_sha256: Some(base.sha256()),
        changes: vec![ChangeItem {
            product_id: product("population"),
            leaf_sha256: LeafChange {
                from: Some(from),
                to: Some(leaf_sha256),
            },
            entries: vec![change(1, state(EditionState::Live)), change(2, None)],
        }],
    });
    fixture
        .put(&layout::root(root.seq), &root.encode().expect("encoded"))
        .await;
    let report = fixture.verify().await;
    assert_eq!(
        rules(&report),
        [(234, Severity::Error), (259, Severity::Warning)],
        "{:?}",
        report.findings
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// INV-395: whatever bytes a document is changed to, a check ends and does not pass for another catalogue than it is: the
    /// documents the chain vouches for are never changed unnoticed.
    #[test]
    fn no_changed_byte_is_overlooked_and_none_ends_in_a_panic(
        document in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        mask in 1_u8..,
        cut in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut fixture = fixture().await;
            let first = fixture.released("population", None, &[]).await;
            fixture.released("population", Some(&first), &[]).await;
            let names = fixture.store.list(None).await.expect("listed");
            let name = document.get(&names).as_str();
            let mut bytes = fixture.get(name).await;
            let place = at.index(bytes.len());
            match cut {
                true => bytes.truncate(place),
                false => bytes[place] ^= mask,
            }
            fixture.overwrite(name, &bytes).await;
            let report = fixture.verify().await;
            // Of catalog.json not every byte is vouched for: its id could be another one.
            if name != "catalog.json" {
                assert_ne!(report.findings, [], "{name} at {place}");
            }
        });
    }
}
