//! Who may write a catalogue's next version, and what a reader does when two versions claim one number (DESIGN §10).
//!
//! A catalogue has one writer at a time, its *authority*: a site, named in `catalog.json` when the catalogue is founded and in a
//! root when it is handed over. Whoever takes part signs a [`Statement`] for each version. From the statements that came,
//! in whatever order, [`next`] says which version a reader takes next:
//!
//! ```text
//!            one statement by the authority, naming what is held            ─▶ Follow
//! held s ──▶ two roots for s + 1, and s + 2 names one of them               ─▶ Follow that one
//!            a second root for s itself, and s + 1 names the second         ─▶ Switch
//!            two roots for one number, and nothing names one of them        ─▶ Halted: the reader keeps what it holds
//! ```
//!
//! Two copies of an authority may each have written several versions. Then the newest number that has one root decides, by what that was
//! built on.
//!
//! It is a pure function of what is held and the set of statements, so every reader with the same statements decides the same.

use std::{collections::BTreeSet, fmt, str::FromStr};

use crate::{
    doc::{Catalog, Json, JsonObject, RootRef, Seq, Sha256},
    section,
};

/// The field of the section that names an authority.
const AUTHORITY: &str = "authority";

/// A site that may write a catalogue: its public key, written as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Authority([u8; 32]);

impl Authority {
    /// The authority with this key.
    pub const fn from_bytes(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// The key.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The authority that founded a catalogue; none in one that was made outside a node.
    pub fn founding(catalog: &Catalog) -> Result<Option<Self>, NotAnAuthority> {
        named(&catalog.extensions)
    }

    /// The authority a root hands the catalogue over to; none in a root that hands nothing over.
    pub fn handed_to(extensions: &JsonObject) -> Result<Option<Self>, NotAnAuthority> {
        named(extensions)
    }

    /// Names this authority in the extension sections of `catalog.json` or of a root, beside what stands there.
    pub fn name_in(&self, extensions: &mut JsonObject) {
        section::change(extensions, |section| section.insert(AUTHORITY, self.to_string()));
    }
}

fn named(extensions: &JsonObject) -> Result<Option<Authority>, NotAnAuthority> {
    match section::of(extensions).and_then(|section| section.get(AUTHORITY)) {
        None => Ok(None),
        Some(Json::String(text)) => text.parse().map(Some),
        Some(other) => Err(NotAnAuthority { found: other.to_text() }),
    }
}

impl FromStr for Authority {
    type Err = NotAnAuthority;

    fn from_str(text: &str) -> Result<Self, NotAnAuthority> {
        let mut key = [0; 32];
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) || hex::decode_to_slice(text, &mut key).is_err() {
            return Err(NotAnAuthority { found: text.to_owned() });
        }
        Ok(Self(key))
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({self})")
    }
}

/// A document names something else than a site as its authority.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} names no authority: 64 lower-case hex digits do")]
pub struct NotAnAuthority {
    /// What stands there.
    pub found: String,
}

/// What a site says of one version, its signature checked by whoever hands it in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement {
    /// Who signed it.
    pub by: Authority,
    /// The version.
    pub version: RootRef,
    /// The root it was built on; none for a first version.
    pub previous: Option<Sha256>,
}

/// What a reader holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The newest version.
    pub version: RootRef,
    /// Who signs the next one.
    pub authority: Authority,
}

/// What a reader does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next<'s> {
    /// Nothing newer is known.
    Nothing,
    /// Take this version.
    Follow(&'s Statement),
    /// Give up the version held for the other one of its number, which the authority went on from.
    Switch(&'s Statement),
    /// Keep what is held: a number stands for two versions, and no later one decides between them.
    Halted(Fork),
}

/// One number, two versions: an alarm on every node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("version {seq} stands for {} different roots, signed by the same authority", roots.len())]
pub struct Fork {
    /// The number.
    pub seq: Seq,
    /// The roots, sorted.
    pub roots: Vec<Sha256>,
}

/// Decides which version follows. Statements by others than the authority have no say.
///
/// With nothing held, the first version is followed once one site alone claims it; whether that site is the one its `catalog.json`
/// names is for the caller to compare, who has the document then.
pub fn next<'s>(held: Option<&Held>, statements: &'s [Statement]) -> Next<'s> {
    let Some(held) = held else {
        let first = |statement: &&Statement| statement.version.seq == Seq::FIRST && statement.previous.is_none();
        return choose(statements.iter().filter(first).collect(), statements);
    };
    let Some(following) = held.version.seq.next() else {
        return Next::Nothing;
    };
    let of = |seq: Seq| {
        statements.iter().filter(move |statement| {
            statement.by == held.authority
                && statement.version.seq == seq
                && statement.version.restore_epoch == held.version.restore_epoch
        })
    };
    // Somebody may say something else of the version held only now.
    let rivals: Vec<&Statement> = of(held.version.seq)
        .filter(|statement| statement.version != held.version)
        .collect();
    let candidates: Vec<&Statement> = of(following).collect();
    let on_held: Vec<&Statement> = candidates
        .iter()
        .filter(|statement| statement.previous == Some(held.version.root_sha256))
        .copied()
        .collect();
    if rivals.is_empty() {
        return choose(on_held, statements);
    }
    let mut roots: BTreeSet<Sha256> = rivals.iter().map(|rival| rival.version.root_sha256).collect();
    roots.insert(held.version.root_sha256);
    let settled = decided(held.version, held.authority, &roots, statements);
    let rival = rivals
        .iter()
        .find(|rival| settled == Some(rival.version.root_sha256))
        .copied();
    match (settled, rival) {
        (_, Some(rival)) => Next::Switch(rival),
        (Some(_), None) => choose(on_held, statements),
        (None, None) => Next::Halted(fork(held.version.seq, roots)),
    }
}

/// Of several statements about one number, the one root they agree on, or the one that the authority went on from.
fn choose<'s>(candidates: Vec<&'s Statement>, statements: &'s [Statement]) -> Next<'s> {
    let Some(one) = candidates.first().copied() else {
        return Next::Nothing;
    };
    let roots: BTreeSet<Sha256> = candidates.iter().map(|found| found.version.root_sha256).collect();
    let authors: BTreeSet<Authority> = candidates.iter().map(|found| found.by).collect();
    let seq = one.version.seq;
    if roots.len() == 1 && authors.len() == 1 {
        return Next::Follow(one);
    }
    // Two founders are two catalogues of one id, which no later version settles.
    let settled = match authors.len() {
        1 => decided(one.version, one.by, &roots, statements),
        _ => None,
    };
    let settled = candidates
        .into_iter()
        .find(|found| settled == Some(found.version.root_sha256));
    settled.map_or_else(|| Next::Halted(fork(seq, roots)), Next::Follow)
}

/// Which of the roots of one number the authority went on from: the one that all of its newest versions were built on. Each copy of an
/// authority may have written several versions before somebody noticed; the one that goes on alone says which of them count.
fn decided(of: RootRef, by: Authority, roots: &BTreeSet<Sha256>, statements: &[Statement]) -> Option<Sha256> {
    // Pairs of a root and the one of `roots` that it descends from, of one number after the other.
    let mut lines: BTreeSet<(Sha256, Sha256)> = roots.iter().map(|root| (*root, *root)).collect();
    let mut seq = of.seq;
    while let Some(after) = seq.next() {
        let following = statements.iter().filter(|statement| {
            statement.by == by && statement.version.restore_epoch == of.restore_epoch && statement.version.seq == after
        });
        let longer: BTreeSet<(Sha256, Sha256)> = following
            .flat_map(|statement| {
                let built_on = lines.iter().filter(move |(root, _)| statement.previous == Some(*root));
                built_on.map(move |(_, begun)| (statement.version.root_sha256, *begun))
            })
            .collect();
        if longer.is_empty() {
            break;
        }
        (lines, seq) = (longer, after);
    }
    let begun: BTreeSet<Sha256> = lines.into_iter().map(|(_, begun)| begun).collect();
    begun.first().copied().filter(|_| begun.len() == 1)
}

fn fork(seq: Seq, roots: impl IntoIterator<Item = Sha256>) -> Fork {
    let roots: BTreeSet<Sha256> = roots.into_iter().collect();
    Fork {
        seq,
        roots: roots.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::{CatalogId, Epoch};

    const A: Authority = Authority::from_bytes([0xa; 32]);
    const B: Authority = Authority::from_bytes([0xb; 32]);

    fn root(name: &str) -> Sha256 {
        Sha256::of(name.as_bytes())
    }

    fn version(seq: u64, name: &str) -> RootRef {
        RootRef {
            restore_epoch: Epoch::FIRST,
            seq: Seq::new(seq).unwrap(),
            root_sha256: root(name),
        }
    }

    fn says(by: Authority, seq: u64, name: &str, previous: Option<&str>) -> Statement {
        Statement {
            by,
            version: version(seq, name),
            previous: previous.map(root),
        }
    }

    fn held(seq: u64, name: &str) -> Held {
        Held {
            version: version(seq, name),
            authority: A,
        }
    }

    /// The outcome in words, the same for every order the statements come in.
    fn outcome(held: Option<&Held>, statements: &[Statement]) -> String {
        let mut orders = vec![statements.to_vec()];
        for _ in 1..statements.len().max(1) {
            let mut next = orders.last().unwrap().clone();
            next.rotate_left(1);
            orders.push(next);
        }
        orders.push(statements.iter().rev().copied().collect());
        let mut words: Vec<String> = orders
            .iter()
            .map(|order| match next(held, order) {
                Next::Nothing => "nothing".to_owned(),
                Next::Follow(to) => format!("follow {} {}", to.version.seq, to.version.root_sha256),
                Next::Switch(to) => format!("switch {} {}", to.version.seq, to.version.root_sha256),
                Next::Halted(fork) => format!("halted {} {}", fork.seq, fork.roots.len()),
            })
            .collect();
        words.dedup();
        assert_eq!(words.len(), 1, "{words:?}");
        words.remove(0)
    }

    fn follow(seq: u64, name: &str) -> String {
        format!("follow {seq} {}", root(name))
    }

    /// INV-409: versions of one authority are followed one after the other, whatever order they came in.
    #[test]
    fn one_authority_is_followed() {
        let chain = [
            says(A, 1, "1", None),
            says(A, 2, "2", Some("1")),
            says(A, 3, "3", Some("2")),
        ];
        assert_eq!(outcome(None, &chain), follow(1, "1"));
        assert_eq!(outcome(Some(&held(1, "1")), &chain), follow(2, "2"));
        assert_eq!(outcome(Some(&held(2, "2")), &chain), follow(3, "3"));
        assert_eq!(outcome(Some(&held(3, "3")), &chain), "nothing");
        assert_eq!(outcome(None, &chain[1..]), "nothing", "the first version is missing");
        assert_eq!(
            outcome(Some(&held(1, "1")), &chain[2..]),
            "nothing",
            "a gap is waited for"
        );
    }

    /// INV-409: what another site says has no say, neither as a version nor as a rival of one.
    #[test]
    fn others_have_no_say() {
        let statements = [says(B, 2, "x", Some("1")), says(A, 2, "2", Some("1"))];
        assert_eq!(outcome(Some(&held(1, "1")), &statements), follow(2, "2"));
        assert_eq!(outcome(Some(&held(1, "1")), &statements[..1]), "nothing");
        let rival = [says(B, 1, "x", None), says(A, 2, "2", Some("1"))];
        assert_eq!(outcome(Some(&held(1, "1")), &rival), follow(2, "2"));
    }

    /// Two roots of one number stop every reader until the next version names one of them (DESIGN §10).
    #[test]
    fn a_fork_halts_until_the_next_version_names_one() {
        let fork = [says(A, 2, "left", Some("1")), says(A, 2, "right", Some("1"))];
        assert_eq!(outcome(Some(&held(1, "1")), &fork), "halted 2 2");
        let settled = [fork[0], fork[1], says(A, 3, "3", Some("right"))];
        assert_eq!(outcome(Some(&held(1, "1")), &settled), follow(2, "right"));
        let by_another = [fork[0], fork[1], says(B, 3, "3", Some("right"))];
        assert_eq!(outcome(Some(&held(1, "1")), &by_another), "halted 2 2");
        let of_neither = [fork[0], fork[1], says(A, 3, "3", Some("other"))];
        assert_eq!(outcome(Some(&held(1, "1")), &of_neither), "halted 2 2");
        let twice = [
            fork[0],
            fork[1],
            says(A, 3, "3", Some("right")),
            says(A, 3, "4", Some("left")),
        ];
        assert_eq!(outcome(Some(&held(1, "1")), &twice), "halted 2 2");
    }

    /// A reader that held one of the two goes over to the other when the next version was built on that.
    #[test]
    fn a_rival_of_what_is_held_is_gone_over_to_or_passed_by() {
        let left = held(2, "left");
        let fork = [says(A, 2, "left", Some("1")), says(A, 2, "right", Some("1"))];
        assert_eq!(outcome(Some(&left), &fork), "halted 2 2");
        let on_left = [fork[0], fork[1], says(A, 3, "3", Some("left"))];
        assert_eq!(outcome(Some(&left), &on_left), follow(3, "3"));
        let on_right = [fork[0], fork[1], says(A, 3, "3", Some("right"))];
        assert_eq!(outcome(Some(&left), &on_right), format!("switch 2 {}", root("right")));
        let on_both = [on_left[2], on_right[2], fork[0], fork[1]];
        assert_eq!(outcome(Some(&left), &on_both), "halted 2 2");
    }

    /// Two copies that wrote several versions each are settled by the first number that only one of them wrote, for those who hold
    /// what was before, one of the two, or nothing.
    #[test]
    fn the_newest_number_with_one_root_decides() {
        let both = [
            says(A, 1, "1", None),
            says(A, 2, "left 2", Some("1")),
            says(A, 3, "left 3", Some("left 2")),
            says(A, 2, "right 2", Some("1")),
            says(A, 3, "right 3", Some("right 2")),
        ];
        assert_eq!(outcome(None, &both), follow(1, "1"));
        assert_eq!(outcome(Some(&held(1, "1")), &both), "halted 2 2");
        assert_eq!(outcome(Some(&held(2, "left 2")), &both), "halted 2 2");
        assert_eq!(outcome(Some(&held(3, "left 3")), &both), "halted 3 2");
        let mut settled = both.to_vec();
        settled.push(says(A, 4, "4", Some("right 3")));
        assert_eq!(outcome(Some(&held(1, "1")), &settled), follow(2, "right 2"));
        assert_eq!(outcome(Some(&held(2, "right 2")), &settled), follow(3, "right 3"));
        assert_eq!(outcome(Some(&held(3, "right 3")), &settled), follow(4, "4"));
        assert_eq!(
            outcome(Some(&held(2, "left 2")), &settled),
            format!("switch 2 {}", root("right 2"))
        );
        assert_eq!(
            outcome(Some(&held(3, "left 3")), &settled),
            format!("switch 3 {}", root("right 3"))
        );
        // A version whose base nobody knows decides nothing, and a fork of the deciding number leaves all open.
        let mut loose = both.to_vec();
        loose.push(says(A, 4, "4", Some("lost")));
        assert_eq!(outcome(Some(&held(3, "left 3")), &loose), "halted 3 2");
        settled.push(says(A, 4, "also 4", Some("left 3")));
        assert_eq!(outcome(Some(&held(1, "1")), &settled), "halted 2 2");
        assert_eq!(outcome(Some(&held(3, "left 3")), &settled), "halted 3 2");
    }

    /// Two sites that found one catalogue are two catalogues, and nothing settles which one is meant.
    #[test]
    fn two_founders_halt() {
        let statements = [says(A, 1, "1", None), says(B, 1, "x", None), says(A, 2, "2", Some("1"))];
        assert_eq!(outcome(None, &statements), "halted 1 2");
        let same = [says(A, 1, "1", None), says(B, 1, "1", None)];
        assert_eq!(outcome(None, &same), "halted 1 1");
    }

    /// A version that names another base than the one held is none for this reader.
    #[test]
    fn an_unlinked_version_is_not_followed() {
        assert_eq!(
            outcome(Some(&held(1, "1")), &[says(A, 2, "2", Some("other"))]),
            "nothing"
        );
        let other_epoch = Statement {
            version: RootRef {
                restore_epoch: Epoch::FIRST.next().unwrap(),
                ..version(2, "2")
            },
            ..says(A, 2, "2", Some("1"))
        };
        assert_eq!(outcome(Some(&held(1, "1")), &[other_epoch]), "nothing");
    }

    #[test]
    fn an_authority_is_named_beside_what_stands_there() {
        let mut catalog = Catalog::new(CatalogId::generate());
        assert_eq!(Authority::founding(&catalog), Ok(None));
        section::change(&mut catalog.extensions, |section| section.insert("live_only", true));
        A.name_in(&mut catalog.extensions);
        assert_eq!(Authority::founding(&catalog), Ok(Some(A)));
        let section = section::of(&catalog.extensions).unwrap();
        assert_eq!(section.get("live_only"), Some(&Json::Bool(true)));
        for wrong in ["", "0a", &"0A".repeat(32), &"0g".repeat(32)] {
            assert!(wrong.parse::<Authority>().is_err(), "{wrong}");
            let mut extensions = JsonObject::new();
            section::change(&mut extensions, |section| section.insert(AUTHORITY, wrong));
            assert!(Authority::handed_to(&extensions).is_err());
        }
    }
}
