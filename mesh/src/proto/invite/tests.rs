use proptest::prelude::*;
use sovm_object::{
    hlc::Hlc,
    id::{DomainId, InviteId, MeshId, RecordId, SiteId},
    record::{MembershipOp, MeshGenesis, NodeBinding, OpKind, Role},
    secret::SiteKey,
    sign::Signed,
};

use super::*;
use crate::proto::mls::{self, MemoryRows, MlsError, MlsKey};

const NOW: u64 = 1_800_000_000_000;
const HOUR: u64 = 3_600_000;
const CHANNEL: [u8; 32] = [0xcc; 32];

fn domain(n: u8) -> DomainId {
    DomainId::from_bytes([n; 32])
}

/// A founded mesh, an invite of it, and a joiner with its binding and key packages.
struct World {
    inviter: SiteKey,
    joiner: SiteKey,
    genesis: Signed<MeshGenesis>,
    mesh: MeshId,
    stored: Invite,
    text: String,
    role: Role,
    binding: Signed<NodeBinding>,
    offers: Vec<(DomainId, Vec<u8>)>,
}

fn terms(role: Role) -> NewInvite {
    let domains = if role == Role::Blind {
        vec![]
    } else {
        vec![domain(2), domain(1)]
    };
    NewInvite {
        role,
        domains,
        history: History::All,
        expires_ms: NOW + HOUR,
        skip_code: false,
    }
}

fn world_with(terms: NewInvite) -> World {
    let (inviter, joiner) = (SiteKey::from_seed(&[1; 32]), SiteKey::from_seed(&[2; 32]));
    let genesis = MeshGenesis {
        founder: inviter.site_id(),
        nonce: [3; 32],
        created: Hlc::new(NOW, 0),
    };
    let genesis = Signed::sign(genesis, &inviter, &MeshGenesis::CONTEXT_MESH);
    let mesh = sovm_object::entry::mesh_id_of(&genesis);
    let role = terms.role;
    let secret = InviteSecret::from_bytes([4; 32]);
    let id = InviteId::from_bytes([5; 16]);
    let (stored, mut ticket) = Invite::new(terms, mesh, inviter.site_id(), id, secret, NOW).unwrap();
    ticket.addresses = vec!["192.0.2.7:4433".into(), "[2001:db8::1]:4433".into()];
    ticket.relay = Some("https://relay.example".into());
    let mls_key = MlsKey::from_seed(&[6; 32]);
    let binding = NodeBinding {
        mesh_id: mesh,
        site: joiner.site_id(),
        mls_key: mls_key.public(),
        display_name: "kitchen".into(),
        hlc: Hlc::new(NOW, 0),
        cose_key: None,
    };
    let binding = Signed::sign(binding, &joiner, &mesh);
    let mut offers = Vec::new();
    for id in &ticket.domains {
        let package = mls::step::<_, MlsError>(&MemoryRows::default(), |mls| {
            mls.new_key_package(joiner.site_id(), &mls_key)
        });
        offers.push((*id, package.unwrap().1));
    }
    let text = ticket.expose_as_text();
    World {
        inviter,
        joiner,
        genesis,
        mesh,
        stored,
        text,
        role,
        binding,
        offers,
    }
}

fn world(role: Role) -> World {
    world_with(terms(role))
}

impl World {
    fn ticket(&self) -> Ticket {
        Ticket::parse(&self.text).unwrap()
    }

    fn joiner_with(&self, ticket: Ticket, channel: [u8; 32]) -> Joiner {
        let blind = self.role == Role::Blind;
        let binding = (!blind).then_some(&self.binding);
        Joiner::new(
            ticket,
            self.joiner.site_id(),
            channel,
            [7; 32],
            binding,
            self.offers.clone(),
        )
    }

    fn joiner(&self) -> Joiner {
        self.joiner_with(self.ticket(), CHANNEL)
    }

    fn inviter(&self) -> Inviter {
        Inviter::new(
            self.mesh,
            self.inviter.site_id(),
            self.joiner.site_id(),
            CHANNEL,
            [8; 32],
        )
    }

    fn stored(&self) -> Invite {
        sovm_object::cbor::from_slice(&sovm_object::cbor::to_vec(&self.stored)).unwrap()
    }

    fn add_op(&self, scope: Option<DomainId>, role: Role) -> Vec<u8> {
        let op = MembershipOp {
            mesh_id: self.mesh,
            domain: scope,
            kind: OpKind::Add,
            site: self.joiner.site_id(),
            role,
            binding: (role != Role::Blind).then(|| self.binding.id()),
            history_from: 0,
            cut_seq: 0,
            issuer: self.inviter.site_id(),
            seq: 1,
            hlc: Hlc::new(NOW, 1),
            ops_seen: Vec::<RecordId>::new(),
        };
        Signed::sign(op, &self.inviter, &self.mesh).bytes().to_vec()
    }

    fn grant(&self) -> Grant {
        let domains: Vec<DomainId> = self.offers.iter().map(|(id, _)| *id).collect();
        let scopes = [None].into_iter().chain(domains.iter().copied().map(Some));
        let entries: Vec<_> = scopes.map(|scope| self.add_op(scope, self.role).into()).collect();
        let grant = |domain_id| DomainGrant {
            domain_id,
            welcome: vec![1].into(),
            kek_bundle: vec![2].into(),
        };
        Grant {
            genesis: self.genesis.bytes().to_vec().into(),
            entries: entries.into(),
            domains: domains.into_iter().map(grant).collect::<Vec<_>>().into(),
        }
    }
}

/// What people and engine saw during one join.
#[derive(Debug, Default)]
struct Seen {
    words_of_inviter: Option<Words>,
    words_of_joiner: Option<Words>,
    shown: Option<Confirmation>,
    request: Option<Box<JoinRequest>>,
    admission: Option<Box<Admission>>,
    bad_proofs: usize,
    joined: bool,
    done: bool,
    failure: Option<JoinFailure>,
}

/// Runs both sides over encoded messages.
fn run(
    mut joiner: Joiner,
    mut inviter: Inviter,
    stored: Option<Invite>,
    confirm: bool,
    grant: impl Fn() -> Result<Grant, Refusal>,
    now: u64,
) -> Seen {
    let mut seen = Seen::default();
    let mut stored = Some(stored);
    let mut to_inviter: Vec<InviterEvent> = Vec::new();
    let mut to_joiner: Vec<JoinerEvent> = Vec::new();
    let mut joiner_effects = joiner.start();
    for _ in 0..50 {
        for effect in std::mem::take(&mut joiner_effects) {
            match effect {
                JoinerEffect::Send(message) => {
                    let bytes = encode_from_joiner(&message);
                    assert!(bytes.len() <= MAX_FROM_JOINER);
                    to_inviter.push(InviterEvent::Message(decode_from_joiner(&bytes).unwrap()));
                }
                JoinerEffect::Show(words) => seen.words_of_joiner = Some(words),
                JoinerEffect::AwaitConfirmation => {}
                JoinerEffect::Enter(admission) => {
                    seen.admission = Some(admission);
                    to_joiner.push(JoinerEvent::Entered(vec![vec![9]]));
                }
                JoinerEffect::Joined => seen.done = true,
                JoinerEffect::Failed(failure) => seen.failure = Some(failure),
            }
        }
        let Some(event) = (!to_inviter.is_empty()).then(|| to_inviter.remove(0)) else {
            let Some(event) = (!to_joiner.is_empty()).then(|| to_joiner.remove(0)) else {
                break;
            };
            joiner_effects = joiner.handle(event);
            continue;
        };
        for effect in inviter.handle(event, now) {
            match effect {
                InviterEffect::Send(message) => {
                    let message = decode_from_inviter(&encode_from_inviter(&message)).unwrap();
                    to_joiner.push(JoinerEvent::Message(message));
                }
                InviterEffect::Lookup(_) => to_inviter.push(InviterEvent::Invite(stored.take().unwrap())),
                InviterEffect::CountBadProof(_) => seen.bad_proofs += 1,
                InviterEffect::Show(confirmation) => {
                    seen.words_of_inviter = Some(confirmation.words);
                    seen.shown = Some(confirmation);
                    to_inviter.push(InviterEvent::Confirmed(confirm));
                }
                InviterEffect::Admit(request) => {
                    seen.request = Some(request);
                    to_inviter.push(match grant() {
                        Ok(grant) => InviterEvent::Granted(Box::new(grant)),
                        Err(refusal) => InviterEvent::NotGranted(refusal),
                    });
                }
                InviterEffect::Joined(claims) => {
                    assert_eq!(claims, [[9]]);
                    seen.joined = true;
                }
                InviterEffect::Close => {}
            }
        }
    }
    seen
}

fn simple(world: &World, stored: Option<Invite>, now: u64) -> Seen {
    run(world.joiner(), world.inviter(), stored, true, || Ok(world.grant()), now)
}

#[test]
fn a_member_joins_with_equal_words() {
    for role in [Role::Admin, Role::Writer, Role::Reader] {
        let world = world(role);
        let seen = simple(&world, Some(world.stored()), NOW);
        assert!(seen.joined && seen.done, "{seen:?}");
        assert_eq!(seen.words_of_inviter, seen.words_of_joiner);
        let shown = seen.shown.unwrap();
        assert_eq!((shown.site, shown.role), (world.joiner.site_id(), role));
        assert_eq!(shown.display_name.as_deref(), Some("kitchen"));
        let request = seen.request.unwrap();
        assert_eq!(request.offers.len(), 2);
        assert!(!request.resumed);
        assert_eq!(seen.admission.unwrap().entries.len(), 3);
    }
}

/// DESIGN §8: a blind replica brings no name and no keys, and gets none.
#[test]
fn a_blind_replica_joins_without_keys() {
    let world = world(Role::Blind);
    let seen = simple(&world, Some(world.stored()), NOW);
    assert!(seen.joined && seen.done);
    let request = seen.request.unwrap();
    assert!(request.binding.is_none() && request.offers.is_empty());
    assert!(seen.admission.unwrap().domains.is_empty());

    let named = Joiner::new(
        world.ticket(),
        world.joiner.site_id(),
        CHANNEL,
        [7; 32],
        Some(&world.binding),
        vec![],
    );
    let seen = run(
        named,
        world.inviter(),
        Some(world.stored()),
        true,
        || Ok(world.grant()),
        NOW,
    );
    assert_eq!(seen.failure, Some(JoinFailure::Refused(Refusal::BadOffer)));
}

/// DESIGN §8: wrong, expired, used, revoked and foreign tickets are five different messages.
#[test]
fn every_unusable_ticket_has_its_own_message() {
    let world = world(Role::Reader);
    let with = |change: &dyn Fn(&mut Invite)| {
        let mut stored = world.stored();
        change(&mut stored);
        Some(stored)
    };
    let other = SiteId::from_bytes([99; 32]);
    let cases: [(Refusal, Option<Invite>, u64); 5] = [
        (Refusal::Expired, with(&|_| {}), NOW + HOUR + 1),
        (Refusal::Used, with(&|i| i.use_by(other, NOW).unwrap()), NOW),
        (Refusal::Revoked, with(&|i| assert!(i.revoke())), NOW),
        (Refusal::Burnt, with(&|i| (0..5).for_each(|_| i.count_bad_proof())), NOW),
        (Refusal::Foreign, None, NOW),
    ];
    let mut texts = std::collections::BTreeSet::new();
    for (expected, stored, now) in cases {
        let seen = simple(&world, stored, now);
        assert_eq!(seen.failure, Some(JoinFailure::Refused(expected)));
        assert!(seen.request.is_none() && seen.bad_proofs == 0);
        assert!(texts.insert(expected.to_string()));
    }

    let mut ticket = world.ticket();
    ticket.secret = InviteSecret::from_bytes([0; 32]);
    let wrong = world.joiner_with(ticket, CHANNEL);
    let seen = run(
        wrong,
        world.inviter(),
        Some(world.stored()),
        true,
        || Ok(world.grant()),
        NOW,
    );
    assert_eq!(seen.failure, Some(JoinFailure::Refused(Refusal::Wrong)));
    assert_eq!(seen.bad_proofs, 1);
    assert!(texts.insert(Refusal::Wrong.to_string()));

    let mut ticket = world.ticket();
    ticket.mesh_id = MeshId::from_bytes([0; 32]);
    let foreign = world.joiner_with(ticket, CHANNEL);
    let seen = run(
        foreign,
        world.inviter(),
        Some(world.stored()),
        true,
        || Ok(world.grant()),
        NOW,
    );
    assert_eq!(seen.failure, Some(JoinFailure::Refused(Refusal::Foreign)));
}

/// Five bad proofs burn a ticket, also for its rightful holder; a revoked one stays revoked.
#[test]
fn five_bad_proofs_burn_a_ticket() {
    let world = world(Role::Reader);
    let mut stored = world.stored();
    for n in 1..=MAX_BAD_PROOFS {
        assert_eq!(stored.state, InviteState::Open);
        stored.count_bad_proof();
        assert_eq!(stored.bad_proofs, n);
    }
    assert_eq!(stored.state, InviteState::Burnt);
    assert!(!stored.is_open(NOW));
    assert_eq!(stored.use_by(world.joiner.site_id(), NOW), Err(Refusal::Burnt));
    let mut revoked = world.stored();
    assert!(revoked.revoke());
    (0..9).for_each(|_| revoked.count_bad_proof());
    assert_eq!(revoked.state, InviteState::Revoked);
}

/// dolt#11533: an interrupted join can simply be run again by the same device, and by no other.
#[test]
fn an_interrupted_join_can_be_run_again() {
    let world = world(Role::Reader);
    let mut stored = world.stored();
    stored.use_by(world.joiner.site_id(), NOW).unwrap();
    assert!(!stored.revoke());
    let seen = simple(&world, Some(stored), NOW + 2 * HOUR);
    assert!(seen.joined && seen.request.unwrap().resumed);
}

/// A proof made for another connection, other key packages or another binding is worth nothing.
#[test]
fn proofs_are_bound_to_channel_and_offer() {
    let world = world(Role::Reader);
    let refused = |joiner: Joiner| {
        let seen = run(
            joiner,
            world.inviter(),
            Some(world.stored()),
            true,
            || Ok(world.grant()),
            NOW,
        );
        (seen.failure, seen.bad_proofs)
    };
    let wrong = (Some(JoinFailure::Refused(Refusal::Wrong)), 1);
    assert_eq!(refused(world.joiner_with(world.ticket(), [0; 32])), wrong);

    // Somebody in the middle exchanges parts of an honest proof.
    let mut joiner = world.joiner();
    joiner.start();
    let effects = joiner.handle(JoinerEvent::Message(InviterMessage::Challenge([8; 32])));
    let JoinerEffect::Send(JoinerMessage::Proof(honest)) = &effects[0] else {
        panic!()
    };
    let hello = Hello {
        version: 1,
        mesh_id: world.mesh,
        invite_id: world.stored.invite_id,
        commitment: proof::commitment(&[7; 32]),
    };
    let mut swapped = honest.offers.clone();
    swapped.0.swap(0, 1);
    let changed = [
        Proof {
            offers: swapped,
            ..honest.clone()
        },
        Proof {
            binding: vec![0].into(),
            ..honest.clone()
        },
        Proof {
            nonce: [0; 32],
            ..honest.clone()
        },
        Proof {
            mac: [0; 32],
            ..honest.clone()
        },
    ];
    for proof in changed {
        let mut inviter = world.inviter();
        inviter.handle(InviterEvent::Message(JoinerMessage::Hello(hello.clone())), NOW);
        inviter.handle(InviterEvent::Message(JoinerMessage::Proof(proof)), NOW);
        let effects = inviter.handle(InviterEvent::Invite(Some(world.stored())), NOW);
        assert!(matches!(
            &effects[..],
            [
                InviterEffect::CountBadProof(_),
                InviterEffect::Send(InviterMessage::Refused(Refusal::Wrong)),
                InviterEffect::Close
            ]
        ));
    }
}

/// The words differ as soon as anything an attacker must change differs.
#[test]
fn words_depend_on_everything() {
    let world = world(Role::Admin);
    let honest = simple(&world, Some(world.stored()), NOW).words_of_joiner.unwrap();
    let ends = |joiner: [u8; 32], inviter: [u8; 32]| proof::Ends {
        joiner: SiteId::from_bytes(joiner),
        inviter: SiteId::from_bytes(inviter),
        channel_binding: CHANNEL,
    };
    let (j, i) = (*world.joiner.site_id().as_bytes(), *world.inviter.site_id().as_bytes());
    let id = world.stored.invite_id;
    let mut offers: Vec<Offer> = world
        .offers
        .iter()
        .map(|(d, k)| Offer {
            domain_id: *d,
            key_package: k.clone().into(),
        })
        .collect();
    let binding = world.binding.bytes();
    assert_eq!(ends(j, i).words(&id, binding, &offers, &[7; 32], &[8; 32]), honest);
    let all = [
        ends([0; 32], i).words(&id, binding, &offers, &[7; 32], &[8; 32]),
        ends(j, [0; 32]).words(&id, binding, &offers, &[7; 32], &[8; 32]),
        ends(j, i).words(&InviteId::from_bytes([0; 16]), binding, &offers, &[7; 32], &[8; 32]),
        ends(j, i).words(&id, b"", &offers, &[7; 32], &[8; 32]),
        ends(j, i).words(&id, binding, &offers[1..], &[7; 32], &[8; 32]),
        ends(j, i).words(&id, binding, &offers, &[0; 32], &[8; 32]),
        ends(j, i).words(&id, binding, &offers, &[7; 32], &[0; 32]),
        {
            offers.reverse();
            ends(j, i).words(&id, binding, &offers, &[7; 32], &[8; 32])
        },
    ];
    assert!(all.iter().all(|words| *words != honest));
}

#[test]
fn a_person_can_decline() {
    let world = world(Role::Admin);
    let seen = run(
        world.joiner(),
        world.inviter(),
        Some(world.stored()),
        false,
        || panic!("not confirmed"),
        NOW,
    );
    assert_eq!(seen.failure, Some(JoinFailure::Refused(Refusal::Declined)));
    assert!(seen.request.is_none() && seen.admission.is_none());
}

/// DESIGN §8: `--yes` skips the code for reader and blind tickets of at most 15 minutes, never for admin.
#[test]
fn the_code_is_skipped_only_where_it_may_be() {
    let make = |role, minutes: u64| {
        let terms = NewInvite {
            skip_code: true,
            expires_ms: NOW + minutes * 60_000,
            ..terms(role)
        };
        let (mesh, site) = (MeshId::from_bytes([0; 32]), SiteId::from_bytes([0; 32]));
        Invite::new(
            terms,
            mesh,
            site,
            InviteId::from_bytes([0; 16]),
            InviteSecret::generate(),
            NOW,
        )
        .map(|_| ())
    };
    assert_eq!(make(Role::Reader, 15), Ok(()));
    assert_eq!(make(Role::Blind, 15), Ok(()));
    assert_eq!(make(Role::Reader, 16), Err(InviteError::CodeNeededForLifetime));
    assert_eq!(make(Role::Writer, 5), Err(InviteError::CodeNeededForRole));
    assert_eq!(make(Role::Admin, 5), Err(InviteError::CodeNeededForRole));
    assert_eq!(make(Role::Reader, 0), Err(InviteError::Expired));

    let world = world_with(NewInvite {
        skip_code: true,
        expires_ms: NOW + 60_000,
        ..terms(Role::Reader)
    });
    let seen = simple(&world, Some(world.stored()), NOW);
    assert!(seen.done && seen.shown.is_none());
}

#[test]
fn impossible_terms_are_refused() {
    let make = |change: &dyn Fn(&mut NewInvite)| {
        let mut terms = terms(Role::Writer);
        change(&mut terms);
        let (mesh, site) = (MeshId::from_bytes([0; 32]), SiteId::from_bytes([0; 32]));
        Invite::new(
            terms,
            mesh,
            site,
            InviteId::from_bytes([0; 16]),
            InviteSecret::generate(),
            NOW,
        )
        .map(|_| ())
    };
    assert!(matches!(make(&|t| t.role = Role::Recovery), Err(InviteError::Terms(_))));
    assert!(matches!(make(&|t| t.role = Role::Blind), Err(InviteError::Terms(_))));
    assert!(matches!(
        make(&|t| t.domains = (0..33).map(domain).collect()),
        Err(InviteError::Terms(_))
    ));
    assert!(make(&|t| t.domains = vec![domain(3), domain(3)]).is_ok());
}

/// What the inviter grants is measured against the ticket before anything is stored.
#[test]
fn bad_grants_are_refused() {
    let world = world(Role::Writer);
    let attempt = |change: &dyn Fn(&mut Grant)| {
        let grant = || {
            let mut grant = world.grant();
            change(&mut grant);
            Ok(grant)
        };
        let seen = run(world.joiner(), world.inviter(), Some(world.stored()), true, grant, NOW);
        assert!(seen.admission.is_none());
        seen.failure
    };
    let other = MeshGenesis {
        founder: world.inviter.site_id(),
        nonce: [9; 32],
        created: Hlc::new(NOW, 0),
    };
    let other = Signed::sign(other, &world.inviter, &MeshGenesis::CONTEXT_MESH);
    assert_eq!(
        attempt(&|g| g.genesis = other.bytes().to_vec().into()),
        Some(JoinFailure::OtherMesh)
    );
    let bad = Some(JoinFailure::BadGrant);
    assert_eq!(attempt(&|g| g.genesis = vec![1].into()), bad);
    assert_eq!(attempt(&|g| g.genesis = world.binding.bytes().to_vec().into()), bad);
    assert_eq!(attempt(&|g| g.entries.0.truncate(2)), bad);
    assert_eq!(
        attempt(&|g| g.entries.0[0] = world.add_op(None, Role::Reader).into()),
        bad
    );
    assert_eq!(attempt(&|g| g.entries.0[0].0[90] ^= 1), bad);
    assert_eq!(attempt(&|g| g.domains.0.truncate(1)), bad);
    assert_eq!(attempt(&|g| g.domains.0[0].domain_id = domain(9)), bad);
    let seen = run(
        world.joiner(),
        world.inviter(),
        Some(world.stored()),
        true,
        || Err(Refusal::Failed),
        NOW,
    );
    assert_eq!(seen.failure, Some(JoinFailure::Refused(Refusal::Failed)));
}

/// Offers that are not the joiner's own, or not for the ticket's domains, do not reach a person.
#[test]
fn bad_offers_are_refused() {
    let world = world(Role::Writer);
    let me = world.joiner.site_id();
    let attempt = |binding: Option<&Signed<NodeBinding>>, offers: Vec<(DomainId, Vec<u8>)>| {
        let joiner = Joiner::new(world.ticket(), me, CHANNEL, [7; 32], binding, offers);
        let seen = run(
            joiner,
            world.inviter(),
            Some(world.stored()),
            true,
            || Ok(world.grant()),
            NOW,
        );
        assert!(seen.shown.is_none());
        assert_eq!(seen.failure, Some(JoinFailure::Refused(Refusal::BadOffer)));
    };
    attempt(None, world.offers.clone());
    attempt(Some(&world.binding), world.offers[..1].to_vec());
    attempt(Some(&world.binding), vec![]);
    attempt(Some(&world.binding), vec![(domain(1), vec![1]), (domain(2), vec![2])]);
    let stranger = SiteKey::from_seed(&[9; 32]);
    let foreign = NodeBinding {
        site: stranger.site_id(),
        ..world.binding.body().clone()
    };
    attempt(
        Some(&Signed::sign(foreign, &stranger, &world.mesh)),
        world.offers.clone(),
    );
    let other_key = NodeBinding {
        mls_key: [1; 32],
        ..world.binding.body().clone()
    };
    attempt(
        Some(&Signed::sign(other_key, &world.joiner, &world.mesh)),
        world.offers.clone(),
    );
    let other_mesh = MeshId::from_bytes([0; 32]);
    let elsewhere = NodeBinding {
        mesh_id: other_mesh,
        ..world.binding.body().clone()
    };
    attempt(
        Some(&Signed::sign(elsewhere, &world.joiner, &other_mesh)),
        world.offers.clone(),
    );
}

#[test]
fn messages_out_of_turn_end_the_join() {
    let world = world(Role::Reader);
    let mut joiner = world.joiner();
    assert!(matches!(
        joiner.handle(JoinerEvent::Message(InviterMessage::Challenge([0; 32])))[..],
        [JoinerEffect::Failed(JoinFailure::OutOfTurn)]
    ));
    let mut joiner = world.joiner();
    joiner.start();
    let early = joiner.handle(JoinerEvent::Message(InviterMessage::Grant(world.grant())));
    assert!(matches!(early[..], [JoinerEffect::Failed(JoinFailure::OutOfTurn)]));
    assert!(
        joiner
            .handle(JoinerEvent::Message(InviterMessage::Complete(true)))
            .is_empty()
    );

    let mut inviter = world.inviter();
    let effects = inviter.handle(InviterEvent::Confirmed(true), NOW);
    assert!(matches!(effects[..], [InviterEffect::Close]));
    let mut inviter = world.inviter();
    let hello = Hello {
        version: 2,
        mesh_id: world.mesh,
        invite_id: world.stored.invite_id,
        commitment: [0; 32],
    };
    let effects = inviter.handle(InviterEvent::Message(JoinerMessage::Hello(hello)), NOW);
    assert!(matches!(
        effects[0],
        InviterEffect::Send(InviterMessage::Refused(Refusal::Version))
    ));
}

#[test]
fn secrets_do_not_print() {
    let world = world(Role::Reader);
    let text = format!("{:?} {:?}", world.ticket(), world.stored);
    assert!(text.contains("InviteSecret(..)"), "{text}");
    assert!(!text.contains("4, 4, 4"), "{text}");
}

// Ticket vectors: one line is accepted in every way people paste it; everything else is refused with the right reason.

/// The text form is the format: it must not change.
#[test]
fn ticket_text_is_stable() {
    let world = world(Role::Writer);
    let hash = blake3::hash(world.text.as_bytes()).to_hex();
    assert!(
        world.text.starts_with("sovm1") && world.text.len() < 460,
        "{}",
        world.text.len()
    );
    assert!(
        world.text[5..]
            .bytes()
            .all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b))
    );
    assert_eq!(&hash[..16], TICKET_HASH, "{}", world.text);
}

const TICKET_HASH: &str = "3b92baad69b18618";

#[test]
fn tickets_survive_pasting() {
    let world = world(Role::Writer);
    let text = &world.text;
    let (head, tail) = text.split_at(77);
    for pasted in [
        text.clone(),
        format!("  {text}\r\n"),
        text.to_ascii_uppercase(),
        format!("{head}\n    {tail}"),
        format!("{head}\u{a0}{tail}\t"),
    ] {
        let ticket = Ticket::parse(&pasted).unwrap();
        assert_eq!(ticket.expose_as_text(), *text);
        assert_eq!((ticket.role, ticket.domains.len()), (Role::Writer, 2));
        assert!(!ticket.is_expired(NOW) && ticket.is_expired(NOW + HOUR + 1));
    }
}

#[test]
fn bad_tickets_are_refused_with_the_reason() {
    let world = world(Role::Writer);
    let text = world.text.clone();
    let rebuild = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut data = sovm_object::cbor::to_vec(&world.ticket());
        change(&mut data);
        let sum = blake3::hash(&data);
        data.extend_from_slice(&sum.as_bytes()[..4]);
        format!(
            "sovm1{}",
            data_encoding::BASE32_NOPAD.encode(&data).to_ascii_lowercase()
        )
    };
    let not_tickets = [
        String::new(),
        "sovm".into(),
        "sovm join".into(),
        "sovmx".into(),
        "endpointabc".into(),
        "https://example.com/sovm1abc".into(),
        text[1..].to_owned(),
        "s".repeat(9_000),
        "\u{1F600}".into(),
    ];
    for bad in not_tickets {
        assert_eq!(Ticket::parse(&bad).unwrap_err(), TicketError::NotATicket, "{bad}");
    }
    let typos = [
        "sovm1".into(),
        "sovm1a".into(),
        "sovm1aaaaaaaaaa".into(),
        text[..text.len() - 1].to_owned(),
        text[..text.len() - 8].to_owned(),
        text[..20].to_owned(),
        format!("{text}a"),
        format!("{text}{text}"),
        text.replacen('a', "1", 1),
        text.replacen('a', "\u{e4}", 1),
        format!("{}{}", &text[..40], &text[41..]),
    ];
    for bad in typos {
        assert_eq!(Ticket::parse(&bad).unwrap_err(), TicketError::Typo, "{bad}");
    }
    for newer in [
        "sovm2abcdef".into(),
        "sovm9".into(),
        "sovm0aaaa".into(),
        rebuild(&|d| d[2] = 2),
    ] {
        assert_eq!(Ticket::parse(&newer).unwrap_err(), TicketError::NewerVersion, "{newer}");
    }
    type Change = Box<dyn Fn(&mut Vec<u8>)>;
    let malformed: [Change; 6] = [
        Box::new(|d| d.push(0)),
        Box::new(|d| d.truncate(50)),
        Box::new(|d| d[0] ^= 1),
        Box::new(|d| d[3] = 3),
        Box::new(|d| d.clear()),
        Box::new(|d| d[4] = 0x59),
    ];
    for change in malformed {
        let bad = rebuild(&change);
        assert!(
            matches!(Ticket::parse(&bad).unwrap_err(), TicketError::Malformed(_)),
            "{bad}"
        );
    }
}

proptest! {
    /// No single changed character goes unnoticed.
    #[test]
    fn every_typo_is_noticed(at: prop::sample::Index, to in prop::char::any()) {
        thread_local!(static TEXT: String = world(Role::Writer).text);
        TEXT.with(|text| {
            let mut chars: Vec<char> = text.chars().collect();
            let at = at.index(chars.len());
            if chars[at] != to.to_ascii_lowercase() {
                chars[at] = to;
                assert!(Ticket::parse(&chars.into_iter().collect::<String>()).is_err());
            }
        });
    }

    #[test]
    fn arbitrary_input_never_panics(text: String, bytes: Vec<u8>) {
        let _ = Ticket::parse(&text);
        let _ = Ticket::parse(&format!("sovm1{text}"));
        let _ = decode_from_joiner(&bytes);
        let _ = decode_from_inviter(&bytes);
        let _ = sovm_object::cbor::from_slice::<Invite>(&bytes);
    }
}
