//! The side that made the ticket.

use sovm_object::{
    id::{DomainId, InviteId, MeshId, SiteId},
    record::{NodeBinding, Role},
    sign::{Signed, SignedIn},
};

use super::{
    book::Invite,
    message::{Done, Grant, Hello, InviterMessage, JoinerMessage, Offer, Proof, Refusal},
    proof::{Ends, commitment},
    ticket::History,
    words::Words,
};
use crate::proto::mls;

/// What happened, for the inviter's side.
#[derive(Debug)]
pub enum InviterEvent {
    /// The joiner sent this.
    Message(JoinerMessage),
    /// Answer to [`InviterEffect::Lookup`]: the invite as stored now.
    Invite(Option<Invite>),
    /// A person compared the words.
    Confirmed(bool),
    /// The ops are stored, the invite is burnt, the groups are committed.
    Granted(Box<Grant>),
    /// Admission could not be carried out.
    NotGranted(Refusal),
}

/// What to do, on the inviter's side.
#[derive(Debug)]
pub enum InviterEffect {
    /// Send this.
    Send(InviterMessage),
    /// Load the invite and answer with [`InviterEvent::Invite`].
    Lookup(InviteId),
    /// Load the invite, [`Invite::count_bad_proof`], store it durably, then go on with the next effect.
    CountBadProof(InviteId),
    /// Show this to a person and answer with [`InviterEvent::Confirmed`].
    Show(Confirmation),
    /// In one transaction: [`Invite::use_by`] and the membership ops; then commit in each group; then answer with
    /// [`InviterEvent::Granted`].
    Admit(Box<JoinRequest>),
    /// The new member is in; these are its signed HeadClaims, unverified.
    Joined(Vec<Vec<u8>>),
    /// Finish the stream.
    Close,
}

/// What a person is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// The words that must be the same on the other device.
    pub words: Words,
    /// The new site.
    pub site: SiteId,
    /// What it calls itself.
    pub display_name: Option<String>,
    /// Role it will have.
    pub role: Role,
}

/// A joiner that proved its ticket and was confirmed.
#[derive(Debug)]
pub struct JoinRequest {
    /// The invite to burn.
    pub invite_id: InviteId,
    /// The new site.
    pub site: SiteId,
    /// Role to give.
    pub role: Role,
    /// How far back it may read.
    pub history: History,
    /// Its binding; none for a blind replica.
    pub binding: Option<Signed<NodeBinding>>,
    /// Its key packages, checked, one for each domain of the invite.
    pub offers: Vec<Offered>,
    /// The site began to join with this invite before and was interrupted: its ops may exist already.
    pub resumed: bool,
}

/// A checked key package.
#[derive(Clone, Debug)]
pub struct Offered {
    /// The domain.
    pub domain_id: DomainId,
    /// What to add to the domain's group.
    pub member: mls::AddMember,
}

enum State {
    Hello,
    Proof(Hello),
    Lookup(Hello, Proof),
    Confirm(Box<JoinRequest>),
    Grant,
    Done,
    Over,
}

/// Inviter's side of one join.
pub struct Inviter {
    mesh: MeshId,
    ends: Ends,
    nonce: [u8; 32],
    state: State,
}

impl Inviter {
    /// A join over a connection with `joiner`. `nonce` is fresh and random.
    pub const fn new(
        mesh: MeshId,
        inviter: SiteId,
        joiner: SiteId,
        channel_binding: [u8; 32],
        nonce: [u8; 32],
    ) -> Self {
        Self {
            mesh,
            ends: Ends {
                joiner,
                inviter,
                channel_binding,
            },
            nonce,
            state: State::Hello,
        }
    }

    /// Takes one event. `now_ms` is the inviter's clock.
    pub fn handle(&mut self, event: InviterEvent, now_ms: u64) -> Vec<InviterEffect> {
        let state = std::mem::replace(&mut self.state, State::Over);
        match (state, event) {
            (State::Hello, InviterEvent::Message(JoinerMessage::Hello(hello))) => {
                if hello.version != 1 {
                    return self.refuse(Refusal::Version);
                }
                // Nothing is said about the invite until the secret is proven.
                self.state = State::Proof(hello);
                vec![InviterEffect::Send(InviterMessage::Challenge(self.nonce))]
            }
            (State::Proof(hello), InviterEvent::Message(JoinerMessage::Proof(proof))) => {
                let invite_id = hello.invite_id;
                self.state = State::Lookup(hello, proof);
                vec![InviterEffect::Lookup(invite_id)]
            }
            (State::Lookup(hello, proof), InviterEvent::Invite(invite)) => {
                self.proven(&hello, &proof, invite.as_ref(), now_ms)
            }
            (State::Confirm(request), InviterEvent::Confirmed(true)) => {
                self.state = State::Grant;
                vec![InviterEffect::Admit(request)]
            }
            (State::Confirm(_), InviterEvent::Confirmed(false)) => self.refuse(Refusal::Declined),
            (State::Grant, InviterEvent::Granted(grant)) => {
                self.state = State::Done;
                vec![InviterEffect::Send(InviterMessage::Grant(*grant))]
            }
            (State::Grant, InviterEvent::NotGranted(refusal)) => self.refuse(refusal),
            (State::Done, InviterEvent::Message(JoinerMessage::Done(Done { head_claims }))) => {
                let claims = head_claims.0.into_iter().map(|claim| claim.0).collect();
                vec![
                    InviterEffect::Joined(claims),
                    InviterEffect::Send(InviterMessage::Complete(true)),
                    InviterEffect::Close,
                ]
            }
            // A peer out of turn, or an answer that came too late: the stream ends without a word.
            _ => vec![InviterEffect::Close],
        }
    }

    fn proven(&mut self, hello: &Hello, proof: &Proof, invite: Option<&Invite>, now_ms: u64) -> Vec<InviterEffect> {
        let Some(invite) = invite.filter(|_| hello.mesh_id == self.mesh) else {
            return self.refuse(Refusal::Foreign);
        };
        let opens = commitment(&proof.nonce) == hello.commitment;
        if !opens || !self.ends.verify(invite.mac_key(), proof) {
            let mut effects = vec![InviterEffect::CountBadProof(invite.invite_id)];
            effects.extend(self.refuse(Refusal::Wrong));
            return effects;
        }
        let checked = invite
            .check(self.ends.joiner, now_ms)
            .and_then(|()| self.request(invite, proof));
        let request = match checked {
            Ok(request) => Box::new(request),
            Err(refusal) => return self.refuse(refusal),
        };
        if invite.skip_code {
            self.state = State::Grant;
            return vec![InviterEffect::Admit(request)];
        }
        let confirmation = Confirmation {
            words: self.ends.words(
                &invite.invite_id,
                &proof.binding,
                &proof.offers,
                &proof.nonce,
                &self.nonce,
            ),
            site: self.ends.joiner,
            display_name: request
                .binding
                .as_ref()
                .map(|binding| binding.body().display_name.clone()),
            role: invite.role,
        };
        self.state = State::Confirm(request);
        vec![
            InviterEffect::Send(InviterMessage::Waiting(true)),
            InviterEffect::Show(confirmation),
        ]
    }

    /// Checks what the joiner brings before a person is bothered with it.
    fn request(&self, invite: &Invite, proof: &Proof) -> Result<JoinRequest, Refusal> {
        let site = self.ends.joiner;
        let mut request = JoinRequest {
            invite_id: invite.invite_id,
            site,
            role: invite.role,
            history: invite.history,
            binding: None,
            offers: Vec::new(),
            resumed: matches!(invite.state, super::InviteState::Used(_)),
        };
        if invite.role == Role::Blind {
            // A blind replica has no name here and no keys anywhere.
            let bare = proof.binding.is_empty() && proof.offers.is_empty();
            return if bare { Ok(request) } else { Err(Refusal::BadOffer) };
        }
        let binding = SignedIn::<NodeBinding>::decode(&proof.binding)
            .ok()
            .filter(|binding| binding.claimed().site == site && binding.claimed().mesh_id == self.mesh)
            .and_then(|binding| binding.verify(&self.mesh).ok())
            .ok_or(Refusal::BadOffer)?;
        let offered: Vec<DomainId> = proof.offers.iter().map(|offer| offer.domain_id).collect();
        if offered != invite.domains {
            return Err(Refusal::BadOffer);
        }
        for Offer { domain_id, key_package } in proof.offers.iter() {
            let mls_key = binding.body().mls_key;
            let member = mls::AddMember {
                site,
                mls_key,
                key_package: key_package.to_vec(),
            };
            mls::check_offer(&member).map_err(|_| Refusal::BadOffer)?;
            request.offers.push(Offered {
                domain_id: *domain_id,
                member,
            });
        }
        request.binding = Some(binding);
        Ok(request)
    }

    fn refuse(&mut self, refusal: Refusal) -> Vec<InviterEffect> {
        self.state = State::Over;
        vec![
            InviterEffect::Send(InviterMessage::Refused(refusal)),
            InviterEffect::Close,
        ]
    }
}
