use std::collections::BTreeSet;

use proptest::prelude::*;
use sovm_object::{hlc::Hlc, id::DomainId};

use super::*;

const DAY_MS: u64 = 86_400_000;

fn domain(n: u8) -> Scope {
    Scope::Domain(DomainId::from_bytes([n; 32]))
}

fn shared(scope: Scope) -> SharedScope {
    SharedScope {
        scope,
        from_generation: 0,
    }
}

/// A record whose bytes say what it is, so that the receiving side of a test can file it.
fn put(set: &mut MemorySet, scope: Scope, generation: u64, millis: u64, n: u64) -> bool {
    let hlc = Hlc::new(millis, 0);
    let id = *blake3::hash(&[n.to_be_bytes(), generation.to_be_bytes()].concat()).as_bytes();
    let bytes = [hlc.as_u64().to_be_bytes().as_slice(), &id].concat();
    set.insert(scope, generation, Element { hlc, id }, Item { kind: 1, bytes })
}

fn admit(set: &mut MemorySet, scope: Scope, shard: Shard, items: Vec<Item>) {
    for item in items {
        let (hlc, id) = item.bytes.split_at(8);
        let hlc = Hlc::from_u64(u64::from_be_bytes(hlc.try_into().unwrap()));
        let element = Element {
            hlc,
            id: id.try_into().unwrap(),
        };
        assert_eq!(hlc.day(), shard.day);
        assert!(
            set.insert(scope, shard.generation, element, item),
            "an item travelled twice"
        );
    }
}

#[derive(Debug, Default)]
struct Cost {
    messages: usize,
    bytes: usize,
    item_bytes: usize,
}

/// Runs one session over encoded messages and admits what arrives at either side.
fn session(
    (a, of_a): (&mut MemorySet, Vec<SharedScope>),
    (b, of_b): (&mut MemorySet, Vec<SharedScope>),
    limits: Limits,
) -> (Outcome, Outcome, Cost) {
    let mut initiator = Initiator::new(of_a, limits);
    let mut responder = Responder::new(of_b, limits);
    let (mut done_a, mut done_b) = (None, None);
    let mut cost = Cost::default();
    let mut effects = initiator.start(a).unwrap();
    let mut to_b = true;
    while !effects.is_empty() {
        let mut sent = None;
        for effect in effects {
            match effect {
                Effect::Send(message) => {
                    let bytes = encode(&message);
                    cost.messages += 1;
                    cost.bytes += bytes.len();
                    if let Message::Give(give) = &message {
                        cost.item_bytes += give.items.iter().map(|item| item.bytes.len()).sum::<usize>();
                    }
                    assert!(sent.replace(decode(&bytes).unwrap()).is_none());
                }
                Effect::Received { scope, shard, items } => {
                    admit(if to_b { a } else { b }, scope, shard, items);
                }
                Effect::Done(outcome) => {
                    if to_b {
                        done_a = Some(outcome)
                    } else {
                        done_b = Some(outcome)
                    }
                }
            }
        }
        let Some(message) = sent else { break };
        effects = if to_b {
            responder.handle(b, message).unwrap()
        } else {
            initiator.handle(a, message).unwrap()
        };
        to_b = !to_b;
    }
    (done_a.unwrap(), done_b.unwrap(), cost)
}

fn both(scopes: &[Scope]) -> (Vec<SharedScope>, Vec<SharedScope>) {
    let shared: Vec<_> = scopes.iter().copied().map(shared).collect();
    (shared.clone(), shared)
}

/// DESIGN §13: equal sets cost at most 1 KiB, however much they hold.
#[test]
fn equal_sets_cost_little() {
    let mut a = MemorySet::default();
    for n in 0..20_000 {
        put(&mut a, domain((n % 5) as u8), 1 + n % 30, n * DAY_MS / 10, n);
    }
    let mut b = a.clone();
    let scopes: Vec<Scope> = [Scope::Public, Scope::Mesh]
        .into_iter()
        .chain((0..8).map(domain))
        .collect();
    let (of_a, of_b) = both(&scopes);
    let (done_a, done_b, cost) = session((&mut a, of_a), (&mut b, of_b), Limits::default());
    assert!(cost.bytes <= 1_024, "{cost:?}");
    assert!(done_a.complete && done_b.complete);
    assert_eq!(done_a.compared, scopes);
}

/// DESIGN §13: at most 100 bytes for each difference plus 20 KiB, for differences as they arise: what is new on one side.
#[test]
fn new_entries_cost_in_proportion() {
    let mut all = MemorySet::default();
    for n in 0..100_000u64 {
        put(&mut all, domain(1), 1 + n / 50_000, n * 400 * DAY_MS / 100_000, n);
    }
    for d in [1u64, 10, 100, 1_000, 10_000] {
        let (mut a, mut b) = (all.clone(), all.clone());
        for n in 0..d {
            let set = if n % 2 == 0 { &mut a } else { &mut b };
            put(set, domain(1), 2, 400 * DAY_MS + n * 1_000, 1_000_000 + n);
        }
        let (of_a, of_b) = both(&[domain(1)]);
        let (done, _, cost) = session((&mut a, of_a), (&mut b, of_b), Limits::default());
        assert!(done.complete);
        assert_eq!(a.ids(domain(1)), b.ids(domain(1)));
        let overhead = cost.bytes - cost.item_bytes;
        assert!(overhead as u64 <= 100 * d + 20 * 1024, "{d} differences: {cost:?}");
    }
}

/// A newcomer gets everything in one session, and the other way round.
#[test]
fn empty_side_is_filled() {
    for swap in [false, true] {
        let (mut a, mut b) = (MemorySet::default(), MemorySet::default());
        for n in 0..5_000 {
            put(&mut a, domain(1), n % 3, n * DAY_MS / 100, n);
        }
        let want = a.ids(domain(1));
        let (of_a, of_b) = both(&[domain(1)]);
        let (done, ..) = if swap {
            session((&mut b, of_b), (&mut a, of_a), Limits::default())
        } else {
            session((&mut a, of_a), (&mut b, of_b), Limits::default())
        };
        assert!(done.complete);
        assert_eq!(b.ids(domain(1)), want);
    }
}

/// DESIGN §14: what one side is not entitled to does not travel, whatever the other side asks.
#[test]
fn only_shared_scopes_and_generations_travel() {
    let (mut a, mut b) = (MemorySet::default(), MemorySet::default());
    for n in 0..60 {
        put(&mut a, domain(1), n % 6, n * DAY_MS, n);
        put(&mut a, domain(2), 1, n * DAY_MS, n);
        put(&mut a, Scope::Mesh, 0, n * DAY_MS, n);
        put(&mut a, Scope::Public, 0, n * DAY_MS, n);
    }
    // The newcomer believes it is entitled to everything; the old member knows better.
    let of_b = vec![
        shared(Scope::Public),
        shared(Scope::Mesh),
        shared(domain(1)),
        shared(domain(2)),
    ];
    let of_a = vec![
        shared(Scope::Public),
        SharedScope {
            scope: domain(1),
            from_generation: 4,
        },
    ];
    for initiator_is_newcomer in [true, false] {
        let mut b = b.clone();
        let done = if initiator_is_newcomer {
            session((&mut b, of_b.clone()), (&mut a, of_a.clone()), Limits::default()).0
        } else {
            session((&mut a, of_a.clone()), (&mut b, of_b.clone()), Limits::default()).1
        };
        let generations: BTreeSet<u64> = b.items(domain(1)).map(|(shard, ..)| shard.generation).collect();
        assert_eq!(generations, BTreeSet::from([0, 4, 5]));
        assert!(b.ids(domain(2)).is_empty() && b.ids(Scope::Mesh).is_empty());
        assert_eq!(b.ids(Scope::Public).len(), 60);
        if initiator_is_newcomer {
            assert_eq!(done.declined, [Scope::Mesh, domain(2)]);
        }
    }
    b = MemorySet::default();
    let (done, ..) = session((&mut b, of_b), (&mut a, vec![]), Limits::default());
    assert_eq!((done.compared.len(), done.received), (0, 0));
}

/// A peer that asks for what is not shared is cut off; nothing is given.
#[test]
fn asking_outside_what_is_shared_is_refused() {
    let mut a = MemorySet::default();
    put(&mut a, domain(1), 2, DAY_MS, 1);
    let id = *a.ids(domain(1)).first().unwrap();
    let open = |responder: &mut Responder, a: &MemorySet| {
        let scopes = vec![OpenScope {
            scope: domain(1),
            from_generation: 0,
            root: [0; 32],
        }];
        responder
            .handle(
                a,
                Message::Open(Open {
                    version: 1,
                    scopes: scopes.into(),
                }),
            )
            .unwrap();
    };
    let want = |generation| {
        let wanted = Wanted {
            scope: 0,
            generation,
            day: 1,
            ids: vec![id].into(),
        };
        Message::Give(Give {
            want: vec![wanted].into(),
            ..Give::default()
        })
    };
    let mut responder = Responder::new(
        vec![SharedScope {
            scope: domain(1),
            from_generation: 3,
        }],
        Limits::default(),
    );
    assert!(matches!(responder.handle(&a, want(2)), Err(SyncError::OutOfTurn)));
    open(&mut responder, &a);
    assert!(matches!(responder.handle(&a, want(2)), Err(SyncError::NotShared)));
    // Naming another shard does not help: the set looks only where it is told.
    let effects = responder.handle(&a, want(3)).unwrap();
    assert!(matches!(&effects[..], [Effect::Send(Message::Give(give))] if give.items.is_empty() && give.missing == 1));

    let mut none = Responder::new(vec![], Limits::default());
    open(&mut none, &a);
    assert!(matches!(none.handle(&a, want(2)), Err(SyncError::NotShared)));
}

/// Tight bounds cut a session short, and a few more sessions finish the job.
#[test]
fn tight_bounds_only_take_more_sessions() {
    let tight = Limits {
        frame_bytes: 4_096,
        rounds: 2,
        ids: 300,
        batch_bytes: 1,
    };
    let (mut a, mut b) = (MemorySet::default(), MemorySet::default());
    for n in 0..3_000u64 {
        if n % 3 != 0 {
            put(&mut a, domain(1), 1, n * 100, n);
        }
        if n % 3 != 1 {
            put(&mut b, domain(1), 1, n * 100, n);
        }
    }
    let mut sessions = 0;
    while a.ids(domain(1)) != b.ids(domain(1)) {
        let (of_a, of_b) = both(&[domain(1)]);
        let (done, _, cost) = session((&mut a, of_a), (&mut b, of_b), tight);
        assert!(done.sent + done.received <= 300);
        assert!(cost.messages < 700, "{cost:?}");
        sessions += 1;
        assert!(sessions < 40);
    }
    assert_eq!(a.ids(domain(1)).len(), 3_000);
    assert!(sessions > 3);
}

/// What disappears between announcement and exchange is counted and does not stall the session.
#[test]
fn vanished_items_are_counted() {
    struct Hollow(MemorySet);
    impl SyncSet for Hollow {
        fn days(&self, scope: Scope) -> Result<std::collections::BTreeMap<Shard, Digest>, SetError> {
            self.0.days(scope)
        }
        fn elements(&self, scope: Scope, shard: Shard) -> Result<Vec<Element>, SetError> {
            self.0.elements(scope, shard)
        }
        fn item(&self, _: Scope, _: Shard, _: &[u8; 32]) -> Result<Option<Item>, SetError> {
            Ok(None)
        }
    }
    let mut full = MemorySet::default();
    for n in 0..50 {
        put(&mut full, domain(1), 1, n, n);
    }
    let (hollow, empty) = (Hollow(full), MemorySet::default());
    let mut initiator = Initiator::new(vec![shared(domain(1))], Limits::default());
    let mut responder = Responder::new(vec![shared(domain(1))], Limits::default());
    let mut effects = initiator.start(&empty).unwrap();
    let mut outcome = None;
    for turn in 0.. {
        let mut message = None;
        for effect in effects {
            match effect {
                Effect::Send(sent) => message = Some(sent),
                Effect::Done(done) => outcome = Some(done),
                Effect::Received { .. } => panic!("nothing was there"),
            }
        }
        if outcome.is_some() {
            break;
        }
        let message = message.unwrap();
        effects = if turn % 2 == 0 {
            responder.handle(&hollow, message).unwrap()
        } else {
            initiator.handle(&empty, message).unwrap()
        };
    }
    let outcome = outcome.unwrap();
    assert_eq!((outcome.missing, outcome.complete), (50, false));
}

#[test]
fn other_protocol_versions_are_refused() {
    let mut responder = Responder::new(vec![], Limits::default());
    let open = Message::Open(Open {
        version: 2,
        scopes: vec![].into(),
    });
    assert!(responder.handle(&MemorySet::default(), open).is_err());
}

fn any_set() -> impl Strategy<Value = Vec<(u8, u64, u64, u64)>> {
    // Scope, generation, time within 80 days, record number: few values, so that both sides collide often.
    prop::collection::vec((0..3u8, 0..3u64, 0..80u64, 0..400u64), 0..300)
}

fn build(entries: &[(u8, u64, u64, u64)]) -> MemorySet {
    let mut set = MemorySet::default();
    for &(scope, generation, day, n) in entries {
        // A record has one stamp: derive the day from its number too, or the same id would stand in two shards.
        put(
            &mut set,
            domain(scope),
            generation,
            (day / 40 * 40 + n % 40) * DAY_MS + n,
            n + 1_000 * (day / 40),
        );
    }
    set
}

fn any_limits() -> impl Strategy<Value = Limits> {
    (4_096..65_536usize, 1..100_000usize).prop_map(|(frame_bytes, batch_bytes)| Limits {
        frame_bytes,
        batch_bytes,
        ..Limits::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any two sets come to their union in one session, under any frame limit, in a bounded number of messages.
    #[test]
    fn random_pairs_converge(a in any_set(), b in any_set(), limits in any_limits()) {
        let (mut a, mut b) = (build(&a), build(&b));
        let scopes: Vec<Scope> = (0..3).map(domain).collect();
        let unions: Vec<BTreeSet<_>> = scopes.iter().map(|s| a.ids(*s).union(&b.ids(*s)).copied().collect()).collect();
        let (of_a, of_b) = both(&scopes);
        let (done_a, done_b, cost) = session((&mut a, of_a), (&mut b, of_b), limits);
        for (scope, union) in scopes.iter().zip(unions) {
            prop_assert_eq!(&a.ids(*scope), &union);
            prop_assert_eq!(&b.ids(*scope), &union);
        }
        prop_assert!(done_a.complete && done_b.complete);
        prop_assert_eq!((done_a.sent, done_a.received), (done_b.received, done_b.sent));
        // Opening and digests; eight days at a time; one item at a time at worst.
        prop_assert!(cost.messages <= 5 + 2 * (360 / 8 + 1) * 3 + 2 * (done_a.sent + done_a.received) as usize + 2);
    }

    /// Arbitrary bytes never panic in the decoder.
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        let _ = decode(&bytes);
    }

    /// A peer that changes its messages at will gets an error or a useless session, never a panic and never a foreign scope.
    #[test]
    fn hostile_messages_never_panic(
        entries in any_set(),
        flips in prop::collection::vec((0..30usize, any::<prop::sample::Index>(), any::<u8>()), 1..20),
        against_initiator: bool,
    ) {
        let a = build(&entries);
        let b = build(&entries[..entries.len() / 2]);
        let scopes: Vec<_> = (0..2).map(|n| SharedScope { scope: domain(n), from_generation: 1 }).collect();
        let mut initiator = Initiator::new(scopes.clone(), Limits::default());
        let mut responder = Responder::new(scopes, Limits::default());
        let mut effects = initiator.start(&a).unwrap();
        for turn in 0..30 {
            let mut message = None;
            for effect in effects {
                match effect {
                    Effect::Send(sent) => message = Some(encode(&sent)),
                    Effect::Received { scope, .. } => prop_assert!(scope != domain(2)),
                    Effect::Done(_) => return Ok(()),
                }
            }
            let Some(mut bytes) = message else { return Ok(()) };
            let to_responder = turn % 2 == 0;
            for (at, index, flip) in &flips {
                if *at == turn && to_responder != against_initiator {
                    let at = index.index(bytes.len());
                    bytes[at] ^= flip;
                }
            }
            let Ok(message) = decode(&bytes) else { return Ok(()) };
            let handled =
                if to_responder { responder.handle(&b, message) } else { initiator.handle(&a, message) };
            let Ok(next) = handled else { return Ok(()) };
            effects = next;
        }
    }

    /// Arbitrary frames inside well-formed messages.
    #[test]
    fn arbitrary_frames_never_panic(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..20)) {
        let mut set = MemorySet::default();
        for n in 0..200 {
            put(&mut set, domain(0), 1, n, n);
        }
        let mut responder = Responder::new(vec![shared(domain(0))], Limits::default());
        let scopes = vec![OpenScope { scope: domain(0), from_generation: 0, root: [0; 32] }];
        responder.handle(&set, Message::Open(Open { version: 1, scopes: scopes.into() })).unwrap();
        for bytes in frames {
            let bytes = [&[0x61], &bytes[..]].concat();
            let frame = Frame { scope: 0, generation: 1, day: 0, bytes: bytes.into() };
            let _ = responder.handle(&set, Message::Compare(vec![frame].into()));
        }
    }
}
