use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

fn site(n: u8) -> SiteId {
    SiteId::from_bytes([n; 32])
}

fn object(n: u16) -> StorageId {
    let mut bytes = [0; 32];
    bytes[..2].copy_from_slice(&n.to_be_bytes());
    StorageId::from_bytes(bytes)
}

fn want(n: u16, size: u64) -> Event {
    Event::Want {
        id: object(n),
        size: Some(size),
        priority: 0,
    }
}

fn fetches(effects: &[Effect]) -> Vec<(StorageId, SiteId)> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Fetch { id, holder, .. } => Some((*id, *holder)),
            _ => None,
        })
        .collect()
}

fn wake(effects: &[Effect]) -> Option<u64> {
    effects
        .iter()
        .find_map(|effect| if let Effect::Wake(at) = effect { Some(*at) } else { None })
}

/// SOP-258: wanted bytes wait for a holder, and are fetched once there is one.
#[test]
fn asks_a_claimed_holder_first_and_ends_with_done() {
    let mut planner = Planner::new(Config::default(), 1);
    assert!(fetches(&planner.handle(want(1, MIB), 0)).is_empty());
    assert_eq!(planner.status(&object(1)), Some(Status::NoHolder));
    planner.handle(Event::Holder(object(1), site(2)), 0);
    // Site 1 only might have it, site 2 says so; site 2 comes online in the same instant as far as choice is concerned.
    let mut fresh = Planner::new(Config::default(), 1);
    fresh.handle(Event::Online(site(1)), 0);
    fresh.handle(Event::Online(site(2)), 0);
    fresh.handle(Event::Holder(object(1), site(2)), 0);
    assert_eq!(
        fetches(&fresh.handle(want(1, MIB), 0)),
        [(object(1), site(1))],
        "no claim is known before it is wanted"
    );
    let started = planner.handle(Event::Online(site(2)), 0);
    assert_eq!(fetches(&started), [(object(1), site(2))]);
    assert_eq!(planner.status(&object(1)), Some(Status::Fetching(vec![site(2)])));
    let done = planner.handle(Event::Fetched(object(1), site(2), true), 5);
    assert!(done.contains(&Effect::Done(object(1))));
    assert_eq!((planner.missing(), planner.status(&object(1))), (0, None));
}

/// SOP-259, SOP-265: without a holder that gives it, an object goes back to waiting, 30 seconds at first and six hours at most.
#[test]
fn failure_moves_on_and_backs_off_to_six_hours() {
    let mut planner = Planner::new(Config::default(), 7);
    planner.handle(Event::Online(site(1)), 0);
    planner.handle(Event::Online(site(2)), 0);
    let mut now = 0;
    let mut effects = planner.handle(want(1, MIB), now);
    let mut pauses = Vec::new();
    for _ in 0..16 {
        // Both are tried without waiting in between.
        for _ in 0..2 {
            let asked = fetches(&effects);
            assert_eq!(asked.len(), 1);
            effects = planner.handle(Event::Failed(object(1), asked[0].1, Failure::NotHeld), now);
        }
        assert!(fetches(&effects).is_empty());
        let at = wake(&effects).unwrap();
        assert!(matches!(planner.status(&object(1)), Some(Status::Waiting { .. })));
        pauses.push(at - now);
        // Not a moment earlier.
        assert!(fetches(&planner.handle(Event::Tick, at - 1)).is_empty());
        // The other site's pause ends a little later.
        now = at + 3_600_000 * 3;
        effects = planner.handle(Event::Tick, now);
    }
    assert!((22_000..=38_000).contains(&pauses[0]), "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= 6 * 3_600_000));
    assert!(*pauses.last().unwrap() >= 4 * 3_600_000, "{pauses:?}");
}

/// SOP-93, SOP-192: a claim that comes later makes the pause moot, but a liar stays out, and the next holder is asked.
#[test]
fn new_claims_wake_and_liars_stay_out() {
    let mut planner = Planner::new(Config::default(), 1);
    planner.handle(Event::Online(site(1)), 0);
    planner.handle(want(1, MIB), 0);
    planner.handle(Event::Failed(object(1), site(1), Failure::NotHeld), 0);
    assert_eq!(fetches(&planner.handle(Event::Holder(object(1), site(1)), 1)).len(), 1);
    planner.handle(Event::Failed(object(1), site(1), Failure::Lied), 2);
    assert!(fetches(&planner.handle(Event::Holder(object(1), site(1)), 3)).is_empty());
    assert!(fetches(&planner.handle(Event::Tick, u64::MAX / 2)).is_empty());
    assert_eq!(
        fetches(&planner.handle(Event::Online(site(2)), 4)),
        [(object(1), site(2))]
    );
}

/// SOP-259: a stall ends an attempt.
#[test]
fn stalled_attempts_are_given_up() {
    let config = Config::default();
    let mut planner = Planner::new(config, 1);
    planner.handle(Event::Online(site(1)), 0);
    let effects = planner.handle(want(1, MIB), 0);
    assert_eq!(wake(&effects), Some(config.stall_ms));
    planner.handle(Event::Progress(object(1), site(1)), 20_000);
    let effects = planner.handle(Event::Online(site(2)), config.stall_ms);
    assert!(effects.iter().all(|effect| !matches!(effect, Effect::Cancel { .. })));
    let effects = planner.handle(Event::Tick, 20_000 + config.stall_ms);
    assert!(effects.contains(&Effect::Cancel {
        id: object(1),
        holder: site(1)
    }));
    assert_eq!(fetches(&effects), [(object(1), site(2))]);
    // The late answer of the attempt that was given up means nothing.
    let late = planner.handle(Event::Failed(object(1), site(1), Failure::Lied), 60_000);
    assert!(fetches(&late).is_empty());
}

#[test]
fn concurrency_is_bounded() {
    let mut planner = Planner::new(Config::default(), 1);
    for n in 0..100 {
        planner.handle(want(n, MIB), 0);
    }
    assert_eq!(fetches(&planner.handle(Event::Online(site(1)), 0)).len(), 2);
    assert_eq!(fetches(&planner.handle(Event::Online(site(2)), 0)).len(), 2);
    let mut started = 0;
    for n in 3..10 {
        started += fetches(&planner.handle(Event::Online(site(n)), 0)).len();
    }
    assert_eq!(started, 4, "eight at once in all");
    let next = planner.handle(Event::Fetched(object(0), site(1), true), 0);
    assert_eq!(fetches(&next).len(), 1);
}

#[test]
fn urgent_objects_go_first() {
    let mut planner = Planner::new(
        Config {
            total: 1,
            ..Config::default()
        },
        1,
    );
    for n in 0..10 {
        planner.handle(want(n, MIB), 0);
    }
    planner.handle(
        Event::Want {
            id: object(7),
            size: None,
            priority: 5,
        },
        0,
    );
    assert_eq!(
        fetches(&planner.handle(Event::Online(site(1)), 0)),
        [(object(7), site(1))]
    );
}

#[test]
fn large_objects_come_in_parts_from_several_holders() {
    let mut planner = Planner::new(Config::default(), 1);
    for n in 1..=3 {
        planner.handle(Event::Online(site(n)), 0);
    }
    let size = 100 * MIB + 5;
    let mut effects = planner.handle(want(1, size), 0);
    for n in 1..=3 {
        effects.extend(planner.handle(Event::Holder(object(1), site(n)), 0));
    }
    let mut parts: BTreeMap<u64, u64> = BTreeMap::new();
    let mut note = |effects: &[Effect]| {
        for effect in effects {
            if let Effect::Fetch { part: Some(part), .. } = effect {
                parts.insert(part.start, part.end);
            }
        }
    };
    note(&effects);
    assert_eq!(fetches(&effects).len(), 3);
    // One part fails and goes to someone else.
    note(&planner.handle(Event::Failed(object(1), site(2), Failure::Unavailable), 1));
    note(&planner.handle(Event::Fetched(object(1), site(1), false), 2));
    note(&planner.handle(Event::Fetched(object(1), site(3), false), 3));
    note(&planner.handle(Event::Fetched(object(1), site(1), false), 4));
    let last = planner.handle(Event::Fetched(object(1), site(3), false), 5);
    let mut at = 0;
    for (start, end) in parts {
        assert_eq!(start, at);
        assert!(start % MIB == 0);
        at = end;
    }
    assert_eq!(at, size);
    // Everything was fetched in parts; one last look at the whole makes it durable.
    assert!(matches!(&last[0], Effect::Fetch { part: None, .. }), "{last:?}");
    let Effect::Fetch { holder, .. } = last[0] else {
        unreachable!()
    };
    assert!(
        planner
            .handle(Event::Fetched(object(1), holder, true), 6)
            .contains(&Effect::Done(object(1)))
    );
}

/// SOP-259, syncthing#5004: the disk reserve stops new fetches, and space that comes back starts them again.
#[test]
fn disk_reserve_stops_and_resumes() {
    let config = Config {
        reserve_bytes: 100 * MIB,
        ..Config::default()
    };
    let mut planner = Planner::new(config, 1);
    planner.handle(Event::Online(site(1)), 0);
    planner.handle(Event::Space(110 * MIB), 0);
    assert!(fetches(&planner.handle(want(1, 20 * MIB), 0)).is_empty());
    assert_eq!(planner.status(&object(1)), Some(Status::DiskFull));
    // A smaller one still fits.
    assert_eq!(fetches(&planner.handle(want(2, 5 * MIB), 0)), [(object(2), site(1))]);
    planner.handle(Event::Failed(object(2), site(1), Failure::NoRoom), 1);
    assert_eq!(planner.status(&object(2)), Some(Status::DiskFull));
    assert!(fetches(&planner.handle(Event::Tick, 1_000_000)).is_empty());
    let effects = planner.handle(Event::Space(500 * MIB), 1_000_001);
    assert_eq!(fetches(&effects).len(), 2);
}

/// SOP-259: what is not wanted any more is cancelled.
#[test]
fn unwanted_objects_are_cancelled() {
    let mut planner = Planner::new(Config::default(), 1);
    planner.handle(Event::Online(site(1)), 0);
    planner.handle(want(1, MIB), 0);
    let effects = planner.handle(Event::Unwant(object(1)), 1);
    assert!(effects.contains(&Effect::Cancel {
        id: object(1),
        holder: site(1)
    }));
    assert!(planner.handle(Event::Fetched(object(1), site(1), true), 2).is_empty());
}

/// any-sync#700: ten objects nobody holds among a thousand: 990 arrive, ten wait with back-off, idle traffic is bounded.
#[test]
fn objects_nobody_holds_do_not_hold_up_the_rest() {
    let mut planner = Planner::new(Config::default(), 3);
    let mut running = Vec::new();
    for n in 1..=3 {
        running.extend(fetches(&planner.handle(Event::Online(site(n)), 0)));
    }
    for n in 0..1_000 {
        running.extend(fetches(&planner.handle(want(n, MIB), 0)));
    }
    let is_held = |id: StorageId| !id.as_bytes()[1].is_multiple_of(100) || id.as_bytes()[0] > 3;
    let held = (0..1_000).filter(|n| is_held(object(*n))).count();
    let (mut now, mut arrived, mut asked) = (0, 0, 0);
    let day = 24 * 3_600_000;
    let mut late_asks = 0;
    loop {
        while let Some((id, holder)) = running.pop() {
            asked += 1;
            late_asks += usize::from(now > day);
            let event = if is_held(id) {
                arrived += 1;
                Event::Fetched(id, holder, true)
            } else {
                Event::Failed(id, holder, Failure::NotHeld)
            };
            running.extend(fetches(&planner.handle(event, now)));
        }
        let effects = planner.handle(Event::Tick, now);
        running.extend(fetches(&effects));
        let Some(at) = wake(&effects).filter(|at| *at < 2 * day) else {
            break;
        };
        now = at;
    }
    assert_eq!(arrived, held);
    assert_eq!(planner.missing(), 1_000 - held);
    let missing = 1_000 - held;
    assert!(
        late_asks <= missing * 3 * 6,
        "{late_asks} requests on the second day, {asked} in all"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever happens in whatever order: bounds hold, nothing is asked twice at once, everything held arrives.
    #[test]
    fn random_events_keep_the_invariants(
        script in prop::collection::vec((0..9u8, 0..12u16, 0..4u8, any::<bool>()), 0..200),
    ) {
        let config = Config { total: 4, ..Config::default() };
        let mut planner = Planner::new(config, 5);
        let mut running: Vec<(StorageId, SiteId)> = Vec::new();
        let mut now = 0;
        let check = |effects: Vec<Effect>, running: &mut Vec<(StorageId, SiteId)>| {
            for effect in effects {
                match effect {
                    Effect::Fetch { id, holder, .. } => {
                        assert!(!running.contains(&(id, holder)), "asked twice at once");
                        running.push((id, holder));
                        assert!(running.len() <= 4);
                        assert!(running.iter().filter(|(_, h)| *h == holder).count() <= 2);
                    }
                    Effect::Cancel { id, holder } => running.retain(|job| *job != (id, holder)),
                    Effect::Done(_) | Effect::Wake(_) => {}
                }
            }
        };
        for (what, n, s, flag) in script {
            now += 1_000;
            let (id, s) = (object(n), site(s));
            let job = running.get(usize::from(n) % running.len().max(1)).copied();
            let event = match (what, job) {
                (0 | 1, _) => want(n, if flag { 64 * MIB } else { MIB }),
                (2, _) => Event::Online(s),
                (3, _) => Event::Offline(s),
                (4, _) => Event::Holder(id, s),
                (5, Some((id, s))) => {
                    running.retain(|job| *job != (id, s));
                    Event::Fetched(id, s, flag)
                }
                (6, Some((id, s))) => {
                    running.retain(|job| *job != (id, s));
                    Event::Failed(id, s, if flag { Failure::NotHeld } else { Failure::Unavailable })
                }
                (7, _) => Event::Unwant(id),
                _ => Event::Tick,
            };
            check(planner.handle(event, now), &mut running);
        }
        // Everyone comes back and has everything.
        check(planner.handle(Event::Online(site(0)), now), &mut running);
        for _ in 0..2_000 {
            now += 60_000;
            check(planner.handle(Event::Tick, now), &mut running);
            let Some((id, s)) = running.pop() else {
                now += 6 * 3_600_000;
                continue;
            };
            check(planner.handle(Event::Fetched(id, s, true), now), &mut running);
            if planner.missing() == 0 {
                break;
            }
        }
        prop_assert_eq!(planner.missing(), 0);
    }
}
