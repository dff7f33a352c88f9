//! The roster: who belongs, as a pure function of the set of membership ops (`mls.md` §2.3, SOP part 2.1).
//!
//! Remove wins over every add that has not seen it; an add counts again only when its author had seen the remove. Neither clocks
//! nor the order of arrival are looked at, so every node with the same ops has the same roster.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    id::{RecordId, SiteId},
    record::{MembershipOp, OpKind, Role},
    sign::Signed,
};

/// What a record needs its author to be allowed (SOP part 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Add rows.
    Append,
    /// Delete rows.
    Delete,
    /// Write rows again.
    Compact,
    /// Grant keys.
    Grant,
    /// Issue recovery roots.
    Recover,
    /// Change membership.
    Admin,
    /// Merely belong.
    Belong,
}

impl Role {
    /// Whether this role carries the right.
    pub const fn has(self, right: Right) -> bool {
        match right {
            Right::Belong => self.reads(),
            Right::Append | Right::Delete | Right::Compact | Right::Grant => matches!(self, Self::Writer | Self::Admin),
            Right::Recover | Right::Admin => matches!(self, Self::Admin),
        }
    }
}

/// Outcome of judging a record's author.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The author had the right, and nothing known cut it off.
    Authorized,
    /// The author lacked the right, or the record lies past its cut-off.
    Refused,
    /// Ops the author had seen are not here yet.
    WaitingAuthority,
}

/// A membership set of one scope (the mesh or one domain), ready to be asked.
#[derive(Clone, Debug)]
pub struct Roster {
    founder: SiteId,
    ops: BTreeMap<RecordId, MembershipOp>,
    ancestors: BTreeMap<RecordId, BTreeSet<RecordId>>,
    valid: BTreeSet<RecordId>,
    members: BTreeMap<SiteId, Member>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    role: Role,
    history_from: u64,
}

impl Roster {
    /// Evaluates all ops of one scope. Ops whose ancestors are missing do not count yet.
    pub fn of<'a>(founder: SiteId, ops: impl IntoIterator<Item = &'a Signed<MembershipOp>>) -> Self {
        let ops: BTreeMap<_, _> = ops.into_iter().map(|op| (op.id(), op.body().clone())).collect();
        let mut roster = Self {
            founder,
            ancestors: ancestors(&ops),
            ops,
            valid: BTreeSet::new(),
            members: BTreeMap::new(),
        };
        roster.evaluate();
        roster
    }

    /// A member's role.
    pub fn role(&self, site: &SiteId) -> Option<Role> {
        self.members.get(site).map(|member| member.role)
    }

    /// First KEK generation a member is entitled to.
    pub fn history_from(&self, site: &SiteId) -> Option<u64> {
        self.members.get(site).map(|member| member.history_from)
    }

    /// All members with role and history, by site.
    pub fn members(&self) -> impl Iterator<Item = (SiteId, Role, u64)> {
        self.members
            .iter()
            .map(|(site, member)| (*site, member.role, member.history_from))
    }

    /// Members that hold keys, with their history.
    pub fn readers(&self) -> impl Iterator<Item = (SiteId, u64)> {
        self.members()
            .filter(|(_, role, _)| role.reads())
            .map(|(site, _, history_from)| (site, history_from))
    }

    /// Heads of the ops known here: what a new record's `ops_seen` must say.
    pub fn heads(&self) -> Vec<RecordId> {
        let mut heads: BTreeSet<_> = self.ancestors.keys().copied().collect();
        for seen in self.ancestors.values() {
            for id in seen {
                heads.remove(id);
            }
        }
        heads.into_iter().take(crate::record::MAX_OPS_SEEN).collect()
    }

    /// Whether this op was issued by somebody who could, and still counts.
    pub fn is_valid(&self, op: &RecordId) -> bool {
        self.valid.contains(op)
    }

    /// Whether an op's own authority can be judged here: all it had seen is known.
    pub fn knows_ancestors_of(&self, ops_seen: &[RecordId]) -> bool {
        ops_seen.iter().all(|id| self.ancestors.contains_key(id))
    }

    /// Whether a site was ever a member in any valid op.
    pub fn was_member(&self, site: &SiteId) -> bool {
        *site == self.founder || self.valid.iter().any(|id| self.ops[id].site == *site)
    }

    /// Readers added by ops not among `ops_seen` and their ancestors, whose history reaches `generation`.
    pub fn late_grants<'a>(&'a self, ops_seen: &[RecordId], generation: u64) -> impl Iterator<Item = SiteId> + 'a {
        let known = self.closure(ops_seen);
        self.valid
            .iter()
            .filter(move |id| !known.contains(id))
            .map(|id| &self.ops[id])
            .filter_map(move |op| {
                let grants = op.kind == OpKind::Add && op.role.reads() && op.history_from <= generation;
                grants.then_some(op.site)
            })
    }

    /// Whether `author` may have written a record (SOP part 2.1): it had the right among the ops it had seen, and no removal or
    /// demotion it had not seen cuts it off below `seq`.
    pub fn judge(&self, author: &SiteId, right: Right, seq: u64, ops_seen: &[RecordId]) -> Verdict {
        if !self.knows_ancestors_of(ops_seen) {
            return Verdict::WaitingAuthority;
        }
        let seen = self.closure(ops_seen);
        let then = self.members_among(&seen);
        match then.get(author) {
            Some(member) if member.role.has(right) => {}
            // A domain's members may be judged before the op that adds them has come.
            _ => return Verdict::Refused,
        }
        let cut = self
            .valid
            .iter()
            .filter(|id| !seen.contains(*id))
            .map(|id| &self.ops[id])
            .filter(|op| {
                op.site == *author && (op.kind == OpKind::Remove || (op.kind == OpKind::Role && !op.role.has(right)))
            });
        match cut.map(|op| op.cut_seq).max() {
            Some(cut) if seq > cut => Verdict::Refused,
            _ => Verdict::Authorized,
        }
    }

    /// An op together with everything it had seen.
    fn closure(&self, heads: &[RecordId]) -> BTreeSet<RecordId> {
        let mut closure = BTreeSet::new();
        for head in heads {
            if let Some(ancestors) = self.ancestors.get(head) {
                closure.insert(*head);
                closure.extend(ancestors.iter().copied());
            }
        }
        closure
    }

    fn evaluate(&mut self) {
        // Ancestors first: an op has strictly more ancestors than any op it had seen.
        let mut order: Vec<_> = self.ancestors.iter().map(|(id, seen)| (seen.len(), *id)).collect();
        order.sort_unstable();
        for (_, id) in order {
            let op = &self.ops[&id];
            let seen = self.ancestors[&id]
                .iter()
                .filter(|id| self.valid.contains(*id))
                .copied()
                .collect();
            let allowed = match self.members_among(&seen).get(&op.issuer).map(|member| member.role) {
                Some(Role::Admin) => true,
                Some(Role::Recovery) => op.kind == OpKind::Add,
                _ => op.kind == OpKind::Remove && op.issuer == op.site,
            };
            if allowed {
                self.valid.insert(id);
            }
        }
        // A removed admin's later ops are void, removals excepted: two admins who remove each other are both out.
        let void: Vec<_> = self
            .valid
            .iter()
            .filter(|id| self.ops[*id].kind != OpKind::Remove)
            .filter(|id| {
                let op = &self.ops[*id];
                let cut = self
                    .valid
                    .iter()
                    .filter(|other| !self.ancestors[*id].contains(*other))
                    .map(|id| &self.ops[id]);
                let cut = cut.filter(|other| {
                    other.site == op.issuer
                        && op.issuer != other.issuer
                        && (other.kind == OpKind::Remove || (other.kind == OpKind::Role && other.role != Role::Admin))
                });
                cut.map(|other| other.cut_seq).max().is_some_and(|cut| op.seq > cut)
            })
            .copied()
            .collect();
        for id in void {
            self.valid.remove(&id);
        }
        let all = self.valid.clone();
        self.members = self.members_among(&all);
    }

    /// The roster that exactly these valid ops give.
    fn members_among(&self, ids: &BTreeSet<RecordId>) -> BTreeMap<SiteId, Member> {
        let mut by_site: BTreeMap<SiteId, Vec<(RecordId, &MembershipOp)>> = BTreeMap::new();
        for id in ids.iter().filter(|id| self.valid.contains(*id)) {
            let op = &self.ops[id];
            by_site.entry(op.site).or_default().push((*id, op));
        }
        by_site.entry(self.founder).or_default();
        by_site
            .into_iter()
            .filter_map(|(site, ops)| Some((site, self.member(&site, &ops)?)))
            .collect()
    }

    fn member(&self, site: &SiteId, ops: &[(RecordId, &MembershipOp)]) -> Option<Member> {
        let removes: Vec<_> = ops
            .iter()
            .filter(|(_, op)| op.kind == OpKind::Remove)
            .map(|(id, _)| *id)
            .collect();
        let seen_all_removes = |id: &RecordId| removes.iter().all(|remove| self.ancestors[id].contains(remove));
        let standing: Vec<_> = ops
            .iter()
            .filter(|(id, op)| op.kind != OpKind::Remove && seen_all_removes(id))
            .copied()
            .collect();
        let adds: Vec<_> = standing.iter().filter(|(_, op)| op.kind == OpKind::Add).collect();
        let founds = *site == self.founder && removes.is_empty();
        if adds.is_empty() && !founds {
            return None;
        }
        let superseded = |id: &RecordId| standing.iter().any(|(other, _)| self.ancestors[other].contains(id));
        let heads: Vec<_> = standing.iter().filter(|(id, _)| !superseded(id)).collect();
        // Concurrent decisions: the lower privilege and the shorter history hold, whoever made them.
        let role = heads.iter().map(|(_, op)| op.role).min().unwrap_or(Role::Admin);
        let history_from = adds.iter().map(|(_, op)| op.history_from).max().unwrap_or(1);
        Some(Member {
            role,
            history_from: if founds { 1 } else { history_from },
        })
    }
}

/// Everything each op had seen, directly or not. Ops with a gap in their past are left out.
fn ancestors(ops: &BTreeMap<RecordId, MembershipOp>) -> BTreeMap<RecordId, BTreeSet<RecordId>> {
    let mut known: BTreeMap<RecordId, BTreeSet<RecordId>> = BTreeMap::new();
    // Ids are hashes of content, so the graph has no cycle and each round settles at least one op or none is left.
    loop {
        let ready: Vec<_> = ops
            .iter()
            .filter(|(id, op)| !known.contains_key(*id) && op.ops_seen.iter().all(|seen| known.contains_key(seen)))
            .map(|(id, op)| {
                let mut all: BTreeSet<_> = op.ops_seen.iter().copied().collect();
                for seen in &op.ops_seen {
                    all.extend(known[seen].iter().copied());
                }
                (*id, all)
            })
            .collect();
        if ready.is_empty() {
            return known;
        }
        known.extend(ready);
    }
}

#[cfg(test)]
mod tests;
