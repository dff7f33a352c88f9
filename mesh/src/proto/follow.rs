//! How a domain's MLS group follows its roster (`mls.md` R1, R2): what a commit has to do, who makes it, which of two rivals
//! wins, and what another member's commit may do.

use std::collections::{BTreeMap, BTreeSet};

use sovm_object::id::{BranchId, SiteId};

use super::mls::{Justified, MlsMember};

/// How long a group waits for rivals of the first commit it saw.
pub const SETTLE_MS: u64 = 2_000;

/// Time between two ranks of waiting committers, and the longest wait.
const RANK_MS: u64 = 3_000;
const RANK_MAX_MS: u64 = 60_000;

/// What separates the group from the roster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Roster sites without a leaf. Each needs a fresh key package: from a join or a rejoin offer.
    pub add: Vec<SiteId>,
    /// Leaves to remove: sites that left the roster, or whose leaf carries another key than their binding.
    pub remove: Vec<SiteId>,
}

impl Work {
    /// Whether the group matches the roster.
    pub fn is_done(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }
}

/// Compares the group with the roster. `roster` holds the sites that read, with the MLS key of their binding.
///
/// Level-triggered on purpose: whatever a lost branch had done shows up again as work on the winning one.
pub fn work(members: &[MlsMember], roster: &BTreeMap<SiteId, [u8; 32]>) -> Work {
    let right: BTreeSet<SiteId> = members
        .iter()
        .filter(|member| roster.get(&member.site) == Some(&member.mls_key))
        .map(|member| member.site)
        .collect();
    Work {
        add: roster.keys().filter(|site| !right.contains(site)).copied().collect(),
        remove: members
            .iter()
            .map(|member| member.site)
            .filter(|site| !right.contains(site))
            .collect(),
    }
}

/// What another member's commit may do, given the roster and the sites it re-adds by valid rejoin offers.
pub fn justified(members: &[MlsMember], roster: &BTreeMap<SiteId, [u8; 32]>, readds: &BTreeSet<SiteId>) -> Justified {
    let work = work(members, roster);
    let again = readds.iter().filter(|site| roster.contains_key(site));
    let adds: BTreeSet<SiteId> = work.add.iter().chain(again.clone()).copied().collect();
    Justified {
        adds: adds
            .into_iter()
            .filter_map(|site| Some((site, *roster.get(&site)?)))
            .collect(),
        removes: work.remove.iter().chain(again).copied().collect(),
    }
}

/// How long `me` waits before it commits pending work. Nobody waits who issued an op the commit carries: a join must take
/// seconds. Restart the wait whenever a new commit is seen.
pub fn commit_wait_ms(branch: &BranchId, me: SiteId, members: &[MlsMember], issued_by_me: bool) -> u64 {
    if issued_by_me {
        return 0;
    }
    let order = |site: SiteId| *blake3::hash(&[branch.as_bytes().as_slice(), site.as_bytes()].concat()).as_bytes();
    let mine = order(me);
    let before = members
        .iter()
        .filter(|member| member.site != me && order(member.site) < mine)
        .count() as u64;
    ((1 + before) * RANK_MS).min(RANK_MAX_MS)
}

/// Which of several valid commits on one branch is merged: the one with the lowest BLAKE3 of its bytes (rule R2).
pub fn winner<'a>(commits: impl IntoIterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    commits
        .into_iter()
        .min_by_key(|commit| *blake3::hash(commit).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(n: u8) -> SiteId {
        SiteId::from_bytes([n; 32])
    }

    fn member(n: u8, key: u8) -> MlsMember {
        MlsMember {
            site: site(n),
            mls_key: [key; 32],
        }
    }

    #[test]
    fn work_is_the_difference() {
        let roster: BTreeMap<_, _> = [(site(1), [1; 32]), (site(2), [2; 32]), (site(3), [9; 32])].into();
        let members = [member(1, 1), member(3, 3), member(4, 4)];
        let work = work(&members, &roster);
        assert_eq!(work.add, [site(2), site(3)]);
        assert_eq!(work.remove, [site(3), site(4)], "a leaf with an old key goes, too");
        assert!(super::work(&[member(1, 1)], &[(site(1), [1; 32])].into()).is_done());
    }

    #[test]
    fn only_what_records_demand_is_justified() {
        let roster: BTreeMap<_, _> = [(site(1), [1; 32]), (site(2), [2; 32])].into();
        let members = [member(1, 1), member(2, 2), member(5, 5)];
        let none = justified(&members, &roster, &BTreeSet::new());
        assert_eq!((none.adds.len(), none.removes), (0, [site(5)].into()));
        // A rejoin offer of somebody outside the roster counts for nothing.
        let readds = [site(2), site(7)].into();
        let again = justified(&members, &roster, &readds);
        assert_eq!(again.adds, [(site(2), [2; 32])].into());
        assert_eq!(again.removes, [site(2), site(5)].into());
    }

    #[test]
    fn waits_are_spread_and_bounded() {
        let members: Vec<MlsMember> = (0..100).map(|n| member(n, n)).collect();
        let branch = BranchId::from_bytes([7; 32]);
        let waits: Vec<u64> = members
            .iter()
            .map(|m| commit_wait_ms(&branch, m.site, &members, false))
            .collect();
        assert_eq!(waits.iter().filter(|wait| **wait == RANK_MS).count(), 1);
        assert!(waits.iter().all(|wait| (RANK_MS..=RANK_MAX_MS).contains(wait)));
        assert_eq!(commit_wait_ms(&branch, site(1), &members, true), 0);
    }

    #[test]
    fn everybody_picks_the_same_winner() {
        let commits: [&[u8]; 3] = [b"a", b"b", b"c"];
        let reversed: Vec<&[u8]> = commits.iter().rev().copied().collect();
        assert_eq!(winner(commits), winner(reversed));
        assert_eq!(winner([]), None);
    }
}
