//! The side that was given the ticket.

use sovm_object::{
    entry::{EntryIn, VerifiedEntry},
    id::{DomainId, SiteId},
    record::{MeshGenesis, NodeBinding, OpKind},
    sign::Signed,
};

use super::{
    message::{DomainGrant, Done, Grant, Hello, InviterMessage, JoinerMessage, Offer, Proof, Refusal},
    proof::{Ends, commitment},
    ticket::Ticket,
    words::Words,
};

/// What happened, for the joiner's side.
#[derive(Debug)]
pub enum JoinerEvent {
    /// The inviter sent this.
    Message(InviterMessage),
    /// Everything of the admission is stored and the groups are entered; these are our signed HeadClaims.
    Entered(Vec<Vec<u8>>),
}

/// What to do, on the joiner's side.
#[derive(Debug)]
pub enum JoinerEffect {
    /// Send this.
    Send(JoinerMessage),
    /// Show these words; the other side must show the same.
    Show(Words),
    /// The other side's person has to confirm now.
    AwaitConfirmation,
    /// In one transaction: store the records, join each group from its Welcome, open the KEK bundles. Then answer with
    /// [`JoinerEvent::Entered`].
    Enter(Box<Admission>),
    /// We are in.
    Joined,
    /// It did not work.
    Failed(JoinFailure),
}

/// What the inviter gave, with every signature proven.
#[derive(Debug)]
pub struct Admission {
    /// The founding of the mesh the ticket named.
    pub genesis: Signed<MeshGenesis>,
    /// Records of the mesh and of our domains. Their authority is judged at admission into the catalogue.
    pub entries: Vec<VerifiedEntry>,
    /// Welcomes and KEKs.
    pub domains: Vec<DomainGrant>,
}

/// Why a join ended without a new membership. Nothing was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinFailure {
    /// The inviter refused and said why.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The inviter broke the protocol.
    #[error("the other side answered out of turn; update sovm on both devices and try again")]
    OutOfTurn,
    /// The genesis is not that of the ticket's mesh.
    #[error("the other side belongs to another mesh than the invite says; nothing was changed here")]
    OtherMesh,
    /// A record does not verify, or our own admission is not among them.
    #[error("the other side sent records that do not prove the membership; nothing was changed here")]
    BadGrant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    Challenge,
    Grant,
    Entering,
    Complete,
    Over,
}

/// Joiner's side of one join.
pub struct Joiner {
    ticket: Ticket,
    ends: Ends,
    nonce: [u8; 32],
    binding: Vec<u8>,
    offers: Vec<Offer>,
    state: State,
}

impl Joiner {
    /// A join with `ticket` as site `me`. `nonce` is fresh and random; `binding` and `offers` (one fresh key package for
    /// each domain of the ticket) are empty for a blind replica.
    pub fn new(
        ticket: Ticket,
        me: SiteId,
        channel_binding: [u8; 32],
        nonce: [u8; 32],
        binding: Option<&Signed<NodeBinding>>,
        offers: Vec<(DomainId, Vec<u8>)>,
    ) -> Self {
        let ends = Ends {
            joiner: me,
            inviter: ticket.inviter,
            channel_binding,
        };
        let mut offers: Vec<Offer> = offers
            .into_iter()
            .map(|(domain_id, key_package)| Offer {
                domain_id,
                key_package: key_package.into(),
            })
            .collect();
        offers.sort_by_key(|offer| offer.domain_id);
        let binding = binding.map(|binding| binding.bytes().to_vec()).unwrap_or_default();
        Self {
            ticket,
            ends,
            nonce,
            binding,
            offers,
            state: State::Start,
        }
    }

    /// The first message.
    pub fn start(&mut self) -> Vec<JoinerEffect> {
        if self.state != State::Start {
            return self.fail(JoinFailure::OutOfTurn);
        }
        self.state = State::Challenge;
        let hello = Hello {
            version: 1,
            mesh_id: self.ticket.mesh_id,
            invite_id: self.ticket.invite_id,
            commitment: commitment(&self.nonce),
        };
        vec![JoinerEffect::Send(JoinerMessage::Hello(hello))]
    }

    /// Takes one event.
    pub fn handle(&mut self, event: JoinerEvent) -> Vec<JoinerEffect> {
        match (self.state, event) {
            (State::Over, _) => Vec::new(),
            (_, JoinerEvent::Message(InviterMessage::Refused(refusal))) => self.fail(JoinFailure::Refused(refusal)),
            (State::Challenge, JoinerEvent::Message(InviterMessage::Challenge(inviter_nonce))) => {
                self.state = State::Grant;
                let mac_key = self.ticket.secret.mac_key();
                let proof = Proof {
                    nonce: self.nonce,
                    mac: self.ends.mac(&mac_key, &self.binding, &self.offers),
                    binding: self.binding.clone().into(),
                    offers: self.offers.clone().into(),
                };
                let invite = &self.ticket.invite_id;
                let words = self
                    .ends
                    .words(invite, &self.binding, &self.offers, &self.nonce, &inviter_nonce);
                vec![
                    JoinerEffect::Send(JoinerMessage::Proof(proof)),
                    JoinerEffect::Show(words),
                ]
            }
            (State::Grant, JoinerEvent::Message(InviterMessage::Waiting(_))) => vec![JoinerEffect::AwaitConfirmation],
            (State::Grant, JoinerEvent::Message(InviterMessage::Grant(grant))) => match self.admission(grant) {
                Ok(admission) => {
                    self.state = State::Entering;
                    vec![JoinerEffect::Enter(Box::new(admission))]
                }
                Err(failure) => self.fail(failure),
            },
            (State::Entering, JoinerEvent::Entered(claims)) => {
                self.state = State::Complete;
                let head_claims: Vec<_> = claims.into_iter().map(Into::into).collect();
                vec![JoinerEffect::Send(JoinerMessage::Done(Done {
                    head_claims: head_claims.into(),
                }))]
            }
            (State::Complete, JoinerEvent::Message(InviterMessage::Complete(_))) => {
                self.state = State::Over;
                vec![JoinerEffect::Joined]
            }
            _ => self.fail(JoinFailure::OutOfTurn),
        }
    }

    /// Proves all signatures, that it is the mesh of the ticket, and that we are in it with the role of the ticket.
    fn admission(&self, grant: Grant) -> Result<Admission, JoinFailure> {
        let mesh = &self.ticket.mesh_id;
        let genesis = EntryIn::decode(&grant.genesis).and_then(|entry| match entry {
            EntryIn::MeshGenesis(_) => Ok(entry),
            _ => Err(sovm_object::cbor::DecodeError::UnknownContentType),
        });
        let genesis = match genesis.map_err(|_| JoinFailure::BadGrant)?.verify(mesh) {
            Ok(VerifiedEntry::MeshGenesis(genesis)) => genesis,
            Ok(_) => return Err(JoinFailure::BadGrant),
            Err(_) => return Err(JoinFailure::OtherMesh),
        };
        let mut entries = Vec::with_capacity(grant.entries.len());
        for bytes in grant.entries.iter() {
            let entry = EntryIn::decode(bytes).map_err(|_| JoinFailure::BadGrant)?;
            entries.push(entry.verify(mesh).map_err(|_| JoinFailure::BadGrant)?);
        }
        let granted: Vec<DomainId> = grant.domains.iter().map(|domain| domain.domain_id).collect();
        let scopes = [None].into_iter().chain(self.ticket.domains.iter().copied().map(Some));
        let admitted = scopes
            .into_iter()
            .all(|scope| entries.iter().any(|entry| self.admits(entry, scope)));
        if granted != self.ticket.domains || !admitted {
            return Err(JoinFailure::BadGrant);
        }
        Ok(Admission {
            genesis,
            entries,
            domains: grant.domains.0,
        })
    }

    fn admits(&self, entry: &VerifiedEntry, scope: Option<DomainId>) -> bool {
        let VerifiedEntry::MembershipOp(op) = entry else {
            return false;
        };
        let op = op.body();
        op.kind == OpKind::Add && op.site == self.ends.joiner && op.domain == scope && op.role == self.ticket.role
    }

    fn fail(&mut self, failure: JoinFailure) -> Vec<JoinerEffect> {
        self.state = State::Over;
        vec![JoinerEffect::Failed(failure)]
    }
}
