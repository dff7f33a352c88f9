use super::*;
use crate::{hlc::Hlc, id::MeshId, secret::SiteKey};

struct World {
    keys: Vec<SiteKey>,
    ops: Vec<Signed<MembershipOp>>,
}

const FOUNDER: usize = 0;

impl World {
    fn new() -> Self {
        Self {
            keys: (0..6).map(|i| SiteKey::from_seed(&[i; 32])).collect(),
            ops: Vec::new(),
        }
    }

    fn site(&self, who: usize) -> SiteId {
        self.keys[who].site_id()
    }

    /// Signs an op as `issuer`, who has seen `seen` (indexes of earlier ops).
    #[expect(clippy::too_many_arguments, reason = "one for each field of an op")]
    fn op(
        &mut self,
        issuer: usize,
        kind: OpKind,
        site: usize,
        role: Role,
        seq: u64,
        cut_seq: u64,
        seen: &[usize],
    ) -> usize {
        let mut ops_seen: Vec<_> = seen.iter().map(|&i| self.ops[i].id()).collect();
        ops_seen.sort_unstable();
        let mesh = MeshId::from_bytes([1; 32]);
        let body = MembershipOp {
            mesh_id: mesh,
            domain: None,
            kind,
            site: self.site(site),
            role,
            binding: None,
            history_from: 1,
            cut_seq,
            issuer: self.site(issuer),
            seq,
            hlc: Hlc::default(),
            ops_seen,
        };
        self.ops.push(Signed::sign(body, &self.keys[issuer], &mesh));
        self.ops.len() - 1
    }

    fn roster(&self) -> Roster {
        Roster::of(self.site(FOUNDER), &self.ops)
    }

    fn role(&self, who: usize) -> Option<Role> {
        self.roster().role(&self.site(who))
    }
}

#[test]
fn founder_is_admin_and_outsiders_decide_nothing() {
    let mut w = World::new();
    assert_eq!(w.role(FOUNDER), Some(Role::Admin));
    w.op(3, OpKind::Add, 4, Role::Admin, 1, 0, &[]);
    w.op(3, OpKind::Remove, FOUNDER, Role::Admin, 2, 0, &[]);
    assert_eq!(w.role(4), None);
    assert_eq!(w.role(FOUNDER), Some(Role::Admin));
}

#[test]
fn remove_wins_until_an_add_has_seen_it() {
    let mut w = World::new();
    let add = w.op(0, OpKind::Add, 1, Role::Admin, 1, 0, &[]);
    let remove = w.op(0, OpKind::Remove, 1, Role::Admin, 2, 0, &[add]);
    w.op(0, OpKind::Add, 1, Role::Reader, 3, 0, &[add]);
    assert_eq!(w.role(1), None, "a concurrent add does not bring a removed site back");
    w.op(0, OpKind::Add, 1, Role::Reader, 4, 0, &[remove]);
    assert_eq!(w.role(1), Some(Role::Reader));
}

/// SOP-169, SOP-174: a removed producer keeps what was accepted before its cut-off and nothing after it.
#[test]
fn cut_off_separates_before_and_after() {
    let mut w = World::new();
    let add = w.op(0, OpKind::Add, 1, Role::Writer, 1, 0, &[]);
    let seen = [w.ops[add].id()];
    let site = w.site(1);
    assert_eq!(w.roster().judge(&site, Right::Append, 900, &seen), Verdict::Authorized);
    w.op(0, OpKind::Remove, 1, Role::Writer, 2, 10, &[add]);
    assert_eq!(w.roster().judge(&site, Right::Append, 10, &seen), Verdict::Authorized);
    assert_eq!(w.roster().judge(&site, Right::Append, 11, &seen), Verdict::Refused);
    assert_eq!(w.roster().judge(&site, Right::Admin, 1, &seen), Verdict::Refused);
    assert_eq!(w.roster().judge(&w.site(5), Right::Append, 1, &seen), Verdict::Refused);
}

#[test]
fn missing_ancestors_wait() {
    let mut w = World::new();
    let add = w.op(0, OpKind::Add, 1, Role::Writer, 1, 0, &[]);
    let role = w.op(0, OpKind::Role, 1, Role::Reader, 2, 5, &[add]);
    let missing = w.ops.remove(add);
    assert_eq!(w.role(1), None);
    assert_eq!(
        w.roster().judge(&w.site(1), Right::Append, 1, &[missing.id()]),
        Verdict::WaitingAuthority
    );
    w.ops.push(missing);
    assert_eq!(w.role(1), Some(Role::Reader));
    let _ = role;
}

#[test]
fn two_admins_who_remove_each_other_are_both_out() {
    let mut w = World::new();
    let add = w.op(0, OpKind::Add, 1, Role::Admin, 1, 0, &[]);
    w.op(0, OpKind::Remove, 1, Role::Admin, 2, 0, &[add]);
    w.op(1, OpKind::Remove, 0, Role::Admin, 1, 1, &[add]);
    assert_eq!((w.role(0), w.role(1)), (None, None));
}

#[test]
fn recovery_site_adds_and_does_nothing_else() {
    let mut w = World::new();
    let kit = w.op(0, OpKind::Add, 2, Role::Recovery, 1, 0, &[]);
    w.op(2, OpKind::Add, 3, Role::Admin, 1, 0, &[kit]);
    w.op(2, OpKind::Remove, FOUNDER, Role::Admin, 2, 0, &[kit]);
    assert_eq!(w.role(3), Some(Role::Admin));
    assert_eq!(w.role(FOUNDER), Some(Role::Admin));
    assert!(!w.roster().readers().any(|(site, _)| site == w.site(2)));
}

#[test]
fn a_member_may_leave_by_itself() {
    let mut w = World::new();
    let add = w.op(0, OpKind::Add, 1, Role::Reader, 1, 0, &[]);
    w.op(1, OpKind::Remove, 1, Role::Reader, 1, 0, &[add]);
    assert_eq!(w.role(1), None);
}

/// Any order of arrival gives the same roster.
#[test]
fn order_of_arrival_does_not_matter() {
    let mut w = World::new();
    let a = w.op(0, OpKind::Add, 1, Role::Admin, 1, 0, &[]);
    let b = w.op(1, OpKind::Add, 2, Role::Writer, 1, 0, &[a]);
    let c = w.op(0, OpKind::Remove, 1, Role::Admin, 2, 1, &[a]);
    w.op(2, OpKind::Remove, 2, Role::Writer, 1, 0, &[b]);
    w.op(0, OpKind::Add, 2, Role::Reader, 3, 0, &[b, c]);
    let expected: Vec<_> = w.roster().members().collect();
    let n = w.ops.len();
    for shift in 0..n {
        w.ops.rotate_left(shift);
        for i in 1..n {
            w.ops.swap(0, i);
            assert_eq!(w.roster().members().collect::<Vec<_>>(), expected);
        }
    }
}
