//! Changing a group: our own commits in two steps, other members' commits under rule R1.

use std::collections::{BTreeMap, BTreeSet};

use openmls::prelude::{
    KeyPackage, KeyPackageIn, LeafNodeIndex, MlsGroup, MlsMessageBodyIn, MlsMessageIn, OpenMlsCrypto,
    OpenMlsProvider as _, ProcessMessageError, ProcessedMessageContent, Proposal, ProposalOrRefType, ProtocolMessage,
    ProtocolVersion, Sender, StagedCommit, tls_codec::Deserialize as _,
};
use sovm_object::id::{BranchId, SiteId};

use super::{
    MAX_MESSAGE, Mls, MlsError, MlsKey, SUITE,
    group::{GroupView, MlsMember, branch_of, member_at, member_of, view},
};

/// A site to add, with the key its NodeBinding names and a key package it offered.
#[derive(Clone, Debug)]
pub struct AddMember {
    /// The site.
    pub site: SiteId,
    /// The MLS key of its binding.
    pub mls_key: [u8; 32],
    /// Its fresh key package.
    pub key_package: Vec<u8>,
}

/// What one commit of ours does. A site in both lists is re-added (rule R4).
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Sites to add.
    pub add: Vec<AddMember>,
    /// Sites to remove.
    pub remove: Vec<SiteId>,
}

/// A commit of ours that is stored as pending. It takes effect with [`Mls::merge_pending`].
#[derive(Clone, Debug)]
pub struct StagedChange {
    /// The commit, for the other members.
    pub commit: Vec<u8>,
    /// The Welcome, for the added sites. Release it only after the merge.
    pub welcome: Option<Vec<u8>>,
    /// Epoch after the merge.
    pub epoch: u64,
    /// Branch after the merge.
    pub branch: BranchId,
}

/// What the signed records demand of the group, so that a commit can be judged (rule R1).
#[derive(Clone, Debug, Default)]
pub struct Justified {
    /// Sites that may be added or re-added, with the MLS key of their binding.
    pub adds: BTreeMap<SiteId, [u8; 32]>,
    /// Sites that may be removed; a re-add needs its site in both.
    pub removes: BTreeSet<SiteId>,
}

/// Another member's commit after it was merged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MergedCommit {
    /// The group afterwards.
    pub view: GroupView,
    /// Sites it added.
    pub added: Vec<SiteId>,
    /// Sites it removed.
    pub removed: Vec<SiteId>,
}

impl Mls<'_> {
    /// Stages a commit of our own; with an empty `change` it only renews our own keys.
    ///
    /// The caller stores the writes before it sends anything, so that a crash leaves either nothing or a pending commit
    /// that can be sent again.
    pub fn stage_change(&self, group_id: &[u8; 32], key: &MlsKey, change: &Change) -> Result<StagedChange, MlsError> {
        let mut group = self.load_active(group_id)?;
        if group.pending_commit().is_some() {
            return Err(MlsError::AlreadyPending);
        }
        let removals = change
            .remove
            .iter()
            .map(|site| leaf_of(&group, *site))
            .collect::<Result<Vec<_>, _>>()?;
        let adds = change
            .add
            .iter()
            .map(|add| check_key_package(self.crypto(), add))
            .collect::<Result<Vec<_>, _>>()?;

        let bundle = group
            .commit_builder()
            .consume_proposal_store(false)
            .force_self_update(true)
            .propose_removals(removals)
            .propose_adds(adds)
            .load_psks(self.storage())
            .map_err(MlsError::operation)?
            .create_group_info(false)
            .build(self.rand(), self.crypto(), key, |_| true)
            .map_err(MlsError::operation)?
            .stage_commit(self)
            .map_err(MlsError::operation)?;
        let (commit, welcome, _no_group_info) = bundle.into_messages();

        let staged = group.pending_commit().ok_or(MlsError::NothingPending)?;
        let authenticator = staged.epoch_authenticator().ok_or(MlsError::Evicted)?;
        Ok(StagedChange {
            commit: commit.to_bytes().map_err(MlsError::operation)?,
            welcome: welcome
                .map(|welcome| welcome.to_bytes().map_err(MlsError::operation))
                .transpose()?,
            epoch: staged.epoch().as_u64(),
            branch: branch_of(authenticator.as_slice()),
        })
    }

    /// Our own pending commit won: it becomes the state of the group.
    pub fn merge_pending(&self, group_id: &[u8; 32]) -> Result<GroupView, MlsError> {
        let mut group = self.load_active(group_id)?;
        if group.pending_commit().is_none() {
            return Err(MlsError::NothingPending);
        }
        group.merge_pending_commit(self).map_err(MlsError::operation)?;
        view(&group)
    }

    /// Our own pending commit lost, or what it was for is gone.
    pub fn clear_pending(&self, group_id: &[u8; 32]) -> Result<(), MlsError> {
        self.load_active(group_id)?
            .clear_pending_commit(self.storage())
            .map_err(MlsError::Storage)
    }

    /// Judges and merges another member's commit. A pending commit of our own is given up.
    ///
    /// `committer` is the signer of the CommitRecord that carried `commit`; it must also be the MLS sender.
    pub fn merge_commit(
        &self,
        group_id: &[u8; 32],
        commit: &[u8],
        committer: SiteId,
        justified: &Justified,
    ) -> Result<MergedCommit, MlsError> {
        let mut group = self.load_active(group_id)?;
        let message = parse_commit(commit)?;
        if message.group_id() != group.group_id() {
            return Err(MlsError::WrongGroup);
        }
        let processed = group.process_message(self, message).map_err(|error| match error {
            ProcessMessageError::StorageError(storage) => MlsError::Storage(storage),
            other => MlsError::CommitRejected(Box::new(other)),
        })?;
        let sender = match processed.sender() {
            Sender::Member(leaf) => member_at(&group, *leaf).ok_or(MlsError::WrongCommitter)??,
            _ => return Err(MlsError::External),
        };
        let staged = match processed.into_content() {
            ProcessedMessageContent::StagedCommitMessage(staged) => *staged,
            ProcessedMessageContent::OwnPendingCommit | ProcessedMessageContent::OwnPrivateMessage => {
                return Err(MlsError::OwnCommit);
            }
            _ => return Err(MlsError::Malformed),
        };
        if sender.site != committer {
            return Err(MlsError::WrongCommitter);
        }
        let (added, removed) = judge(&group, &staged, sender, justified)?;

        if group.pending_commit().is_some() {
            group.clear_pending_commit(self.storage()).map_err(MlsError::Storage)?;
        }
        group.merge_staged_commit(self, staged).map_err(MlsError::operation)?;
        Ok(MergedCommit {
            view: view(&group)?,
            added,
            removed,
        })
    }

    pub(super) fn load_active(&self, group_id: &[u8; 32]) -> Result<MlsGroup, MlsError> {
        let group = self.load(group_id)?;
        if group.is_active() {
            Ok(group)
        } else {
            Err(MlsError::Evicted)
        }
    }
}

pub(super) fn check_key_package(crypto: &impl OpenMlsCrypto, add: &AddMember) -> Result<KeyPackage, MlsError> {
    let package = parse_key_package(&add.key_package)
        .and_then(|package| package.validate(crypto, ProtocolVersion::Mls10).ok())
        .filter(|package| package.ciphersuite() == SUITE && !package.last_resort())
        .ok_or(MlsError::BadKeyPackage(add.site))?;
    let leaf = package.leaf_node();
    let offered = member_of(leaf.credential(), leaf.signature_key().as_slice())?;
    if offered
        == (MlsMember {
            site: add.site,
            mls_key: add.mls_key,
        })
    {
        Ok(package)
    } else {
        Err(MlsError::ForeignKeyPackage(add.site))
    }
}

/// Rule R1: by value only, additions and removals only, each demanded by signed ops, and nobody changes who it is.
fn judge(
    group: &MlsGroup,
    staged: &StagedCommit,
    sender: MlsMember,
    justified: &Justified,
) -> Result<(Vec<SiteId>, Vec<SiteId>), MlsError> {
    let mut added = Vec::new();
    let mut removed = Vec::new();
    for queued in staged.queued_proposals() {
        if !matches!(queued.proposal_or_ref_type(), ProposalOrRefType::Proposal) {
            return Err(MlsError::ByReference);
        }
        match queued.proposal() {
            Proposal::Add(add) => {
                let package = add.key_package();
                let leaf = package.leaf_node();
                let member = member_of(leaf.credential(), leaf.signature_key().as_slice())?;
                if package.last_resort() || justified.adds.get(&member.site) != Some(&member.mls_key) {
                    return Err(MlsError::UnjustifiedAdd(member.site));
                }
                added.push(member.site);
            }
            Proposal::Remove(remove) => {
                let member = member_at(group, remove.removed()).ok_or(MlsError::UnexpectedProposal)??;
                if !justified.removes.contains(&member.site) {
                    return Err(MlsError::UnjustifiedRemove(member.site));
                }
                removed.push(member.site);
            }
            _ => return Err(MlsError::UnexpectedProposal),
        }
    }
    if let Some(leaf) = staged.update_path_leaf_node()
        && member_of(leaf.credential(), leaf.signature_key().as_slice())? != sender
    {
        return Err(MlsError::IdentityChanged);
    }
    Ok((added, removed))
}

fn leaf_of(group: &MlsGroup, site: SiteId) -> Result<LeafNodeIndex, MlsError> {
    for member in group.members() {
        if member_of(&member.credential, &member.signature_key)?.site == site {
            return Ok(member.index);
        }
    }
    Err(MlsError::NotAMember(site))
}

/// Decodes a commit as far as its frame. Public for fuzzing through [`super::fuzz_message`].
pub(super) fn parse_commit(bytes: &[u8]) -> Result<ProtocolMessage, MlsError> {
    match parse_message(bytes)? {
        MlsMessageBodyIn::PrivateMessage(message) => Ok(message.into()),
        // External commits come as public messages; members only ever send private ones.
        MlsMessageBodyIn::PublicMessage(_) => Err(MlsError::External),
        _ => Err(MlsError::Malformed),
    }
}

// `tls_deserialize_exact` and never its twin over slices: that one (tls_codec 0.5.0) asserts, in builds with assertions,
// that a length field tells the truth, so a peer could stop the node with one byte.
pub(super) fn parse_message(bytes: &[u8]) -> Result<MlsMessageBodyIn, MlsError> {
    if bytes.len() > MAX_MESSAGE {
        return Err(MlsError::Malformed);
    }
    MlsMessageIn::tls_deserialize_exact(bytes)
        .map(MlsMessageIn::extract)
        .map_err(|_| MlsError::Malformed)
}

pub(super) fn parse_key_package(bytes: &[u8]) -> Option<KeyPackageIn> {
    if bytes.len() > MAX_MESSAGE {
        return None;
    }
    KeyPackageIn::tls_deserialize_exact(bytes).ok()
}
