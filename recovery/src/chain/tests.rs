use sovm_object::{hlc::Hlc, secret::SiteKey};

use super::*;
use crate::{
    checkpoint::{CheckpointBody, CheckpointObject},
    plan::tests::World,
    root::RootDraft,
};

struct Forge {
    world: World,
    object: CheckpointObject,
    issuer: SiteKey,
}

impl Forge {
    fn new() -> Self {
        let mut world = World::new();
        let issuer = SiteKey::from_seed(&[1; 32]);
        let body = CheckpointBody::divide(world.mesh, world.domain, world.records()).remove(0);
        let object = world.object(&body, &issuer);
        Self { world, object, issuer }
    }

    fn root(&mut self, previous: Option<(StorageId, u64)>, at: u64) -> Root {
        let draft = RootDraft {
            previous,
            issued_hlc: Hlc::new(at, 0),
            ..self.world.draft(&self.object, None)
        };
        let kek = self.world.newest();
        Root::seal(draft, &self.issuer, (kek.generation, kek.id, &kek.kek()))
    }

    fn chain(&mut self, from: Option<&Root>, links: usize) -> Vec<Root> {
        let mut chain: Vec<Root> = Vec::new();
        for n in 0..links {
            let previous = chain.last().or(from).map(link);
            chain.push(self.root(previous, 10_000 + n as u64));
        }
        chain
    }
}

fn link(root: &Root) -> (StorageId, u64) {
    (root.id(), root.body().recovery_generation)
}

fn set(roots: &[Root]) -> RootSet {
    let mut set = RootSet::default();
    roots.iter().cloned().for_each(|root| set.insert(root));
    set
}

/// SOP-206, SOP-216: from any head back to any ancestor.
#[test]
fn a_whole_chain_is_walked() {
    let chain = Forge::new().chain(None, 5);
    let roots = set(&chain);
    assert_eq!(roots.len(), 5);
    for head in 0..5 {
        for trusted in 0..=head {
            let lineage = roots.walk(&chain[head].id(), &chain[trusted].id()).unwrap();
            assert_eq!(lineage.links(), head - trusted);
            assert_eq!(lineage.head().root_id, chain[head].id());
            assert_eq!(lineage.descends_from(&chain[trusted].id()), head != trusted);
            assert!(!lineage.clock_went_back());
        }
        for newer in head + 1..5 {
            assert_eq!(
                roots.walk(&chain[head].id(), &chain[newer].id()),
                Err(ChainError::Foreign(chain[newer].id()))
            );
        }
    }
}

/// SOP-216: a missing link is a gap with its id and number; a foreign chain is foreign.
#[test]
fn gaps_and_foreign_chains_are_told_apart() {
    let mut forge = Forge::new();
    let chain = forge.chain(None, 4);
    let foreign = forge.chain(None, 3);
    let roots = set(&[chain[0].clone(), chain[1].clone(), chain[3].clone()]);
    assert_eq!(
        roots.walk(&chain[3].id(), &chain[0].id()),
        Err(ChainError::Gap {
            missing: chain[2].id(),
            number: 3
        })
    );
    assert!(roots.walk(&chain[1].id(), &chain[0].id()).is_ok());
    assert!(matches!(
        roots.walk(&chain[2].id(), &chain[0].id()),
        Err(ChainError::Gap { .. })
    ));
    let both: Vec<_> = chain.iter().chain(&foreign).cloned().collect();
    assert_eq!(
        set(&both).walk(&foreign[2].id(), &chain[0].id()),
        Err(ChainError::Foreign(chain[0].id()))
    );
}

/// SOP-219: a number that does not follow is refused, in the middle and at the start.
#[test]
fn numbers_must_follow() {
    let mut forge = Forge::new();
    let chain = forge.chain(None, 2);
    let skipping = forge.root(Some((chain[1].id(), 7)), 1);
    let roots = set(&[chain[0].clone(), chain[1].clone(), skipping.clone()]);
    assert_eq!(
        roots.walk(&skipping.id(), &chain[0].id()),
        Err(ChainError::WrongNumber {
            root: skipping.id(),
            expected: 3,
            found: 8
        })
    );
    let repeating = forge.root(Some((chain[1].id(), 1)), 1);
    let roots = set(&[chain[0].clone(), chain[1].clone(), repeating.clone()]);
    assert!(matches!(
        roots.walk(&repeating.id(), &chain[0].id()),
        Err(ChainError::WrongNumber { found: 2, .. })
    ));
}

/// SOP-217: the walk is bounded.
#[test]
fn the_walk_is_bounded() {
    let chain = Forge::new().chain(None, 6);
    let roots = set(&chain);
    let (head, first) = (chain[5].id(), chain[0].id());
    assert!(roots.walk_bounded(&head, &first, 5).is_ok());
    assert_eq!(roots.walk_bounded(&head, &first, 4), Err(ChainError::TooLong));
}

/// SOP-218: a fork has two heads; the next root follows the highest (number, id).
#[test]
fn a_fork_has_two_heads_and_one_successor() {
    let mut forge = Forge::new();
    let base = forge.chain(None, 2);
    let left = forge.chain(base.last(), 1);
    let right = forge.chain(base.last(), 2);
    let all: Vec<_> = base.iter().chain(&left).chain(&right).cloned().collect();
    let roots = set(&all);
    let heads: Vec<_> = roots.heads().into_iter().map(Root::id).collect();
    assert_eq!(heads, [right[1].id(), left[0].id()]);
    assert_eq!(roots.next_previous(), Some(link(&right[1])));
    for head in heads {
        assert!(roots.walk(&head, &base[0].id()).is_ok());
    }
    let even = set(&[base[0].clone(), base[1].clone(), left[0].clone(), right[0].clone()]);
    assert_eq!(even.next_previous().unwrap().0, left[0].id().max(right[0].id()));
    assert_eq!(RootSet::default().next_previous(), None);
}

/// SOP-230: a clock that stood behind is a warning and nothing more.
#[test]
fn a_clock_that_went_back_is_accepted() {
    let mut forge = Forge::new();
    let first = forge.root(None, 9_000);
    let second = forge.root(Some(link(&first)), 8_000);
    let lineage = set(&[first.clone(), second.clone()])
        .walk(&second.id(), &first.id())
        .unwrap();
    assert!(lineage.clock_went_back());
}
