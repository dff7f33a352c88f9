//! Making a group and looking at it.

use std::time::{Duration, SystemTime};

use openmls::prelude::{
    BasicCredential, Credential, CredentialWithKey, GroupId, KeyPackage, LeafNodeIndex, Lifetime, MlsGroup,
    MlsGroupCreateConfig, MlsGroupJoinConfig, OpenMlsProvider as _, PURE_CIPHERTEXT_WIRE_FORMAT_POLICY,
    PastEpochDeletion, SenderRatchetConfiguration, tls_codec::Serialize as _,
};
use sovm_object::id::{BranchId, SiteId};
use zeroize::Zeroizing;

use super::{Mls, MlsError, MlsKey, PAST_EPOCHS, SUITE};

/// Application messages are padded to multiples of this, so that their length tells little.
const PADDING: usize = 256;

/// Keys of skipped messages kept per sender, and how far ahead a sender may be.
const RATCHET: (u32, u32) = (128, 50_000);

const KEK_WRAP_LABEL: &str = "sovm kek-wrap v1";
const BRANCH_CONTEXT: &str = "sovm mls-branch v1";

/// One leaf of the group.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct MlsMember {
    /// The site its credential names.
    pub site: SiteId,
    /// Its signature key, which the site's NodeBinding must name.
    pub mls_key: [u8; 32],
}

/// The epoch that our own pending commit leads to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PendingView {
    /// Its number.
    pub epoch: u64,
    /// Its branch id.
    pub branch: BranchId,
}

/// State of a group as the engine sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GroupView {
    /// Number of the current epoch.
    pub epoch: u64,
    /// The current state, named so that forks differ even where their epoch numbers agree.
    pub branch: BranchId,
    /// All leaves, ordered by site.
    pub members: Vec<MlsMember>,
    /// Where our own pending commit would lead.
    pub pending: Option<PendingView>,
    /// False once a merged commit removed us.
    pub active: bool,
}

impl Mls<'_> {
    /// Makes a group of one. `group_id` is random and stands in the DomainGenesis.
    pub fn create_group(&self, group_id: &[u8; 32], me: SiteId, key: &MlsKey) -> Result<GroupView, MlsError> {
        if self.find(group_id)?.is_some() {
            return Err(MlsError::GroupExists);
        }
        let config = MlsGroupCreateConfig::builder()
            .ciphersuite(SUITE)
            .wire_format_policy(PURE_CIPHERTEXT_WIRE_FORMAT_POLICY)
            .padding_size(PADDING)
            .max_past_epochs(PAST_EPOCHS)
            .use_ratchet_tree_extension(true)
            .sender_ratchet_configuration(SenderRatchetConfiguration::new(RATCHET.0, RATCHET.1))
            .lifetime(eternal())
            .build();
        let group = MlsGroup::new_with_group_id(self, key, &config, GroupId::from_slice(group_id), credential(me, key))
            .map_err(MlsError::operation)?;
        view(&group)
    }

    /// Makes a key package for one later Welcome and keeps its private half. Each offer takes a fresh one: they are never
    /// marked last-resort.
    pub fn new_key_package(&self, me: SiteId, key: &MlsKey) -> Result<Vec<u8>, MlsError> {
        let bundle = KeyPackage::builder()
            .key_package_lifetime(eternal())
            .build(SUITE, self, key, credential(me, key))
            .map_err(MlsError::operation)?;
        bundle
            .key_package()
            .tls_serialize_detached()
            .map_err(MlsError::operation)
    }

    /// State of the group.
    pub fn view(&self, group_id: &[u8; 32]) -> Result<GroupView, MlsError> {
        view(&self.load(group_id)?)
    }

    /// Whether this node holds rows of that group.
    pub fn has_group(&self, group_id: &[u8; 32]) -> Result<bool, MlsError> {
        Ok(self.find(group_id)?.is_some())
    }

    /// Key under which KEK bundles of the current epoch are sealed. Only members of exactly this branch can compute it.
    pub fn kek_wrap_key(&self, group_id: &[u8; 32]) -> Result<Zeroizing<[u8; 32]>, MlsError> {
        let group = self.load(group_id)?;
        if !group.is_active() {
            return Err(MlsError::Evicted);
        }
        let branch = branch_of(group.epoch_authenticator().as_slice());
        let exported = group
            .export_secret(self.crypto(), KEK_WRAP_LABEL, branch.as_bytes(), 32)
            .map_err(MlsError::operation)?;
        fixed(exported)
    }

    /// The same key of the epoch our pending commit leads to, so that KEKs can be pushed together with the commit.
    pub fn pending_kek_wrap_key(&self, group_id: &[u8; 32]) -> Result<Zeroizing<[u8; 32]>, MlsError> {
        let group = self.load(group_id)?;
        let staged = group.pending_commit().ok_or(MlsError::NothingPending)?;
        let authenticator = staged.epoch_authenticator().ok_or(MlsError::Evicted)?;
        let branch = branch_of(authenticator.as_slice());
        let exported = staged
            .export_secret(self.crypto(), KEK_WRAP_LABEL, branch.as_bytes(), 32)
            .map_err(MlsError::operation)?;
        fixed(exported)
    }

    /// Forgets secrets of past epochs that ended more than 48 hours before `now_ms` (DESIGN §16.7).
    pub fn expire_past_epochs(&self, group_id: &[u8; 32], now_ms: u64) -> Result<(), MlsError> {
        const KEPT: Duration = Duration::from_secs(48 * 3600);
        let Some(limit) = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(now_ms).saturating_sub(KEPT)) else {
            return Ok(());
        };
        self.load(group_id)?
            .delete_past_epoch_secrets(self, PastEpochDeletion::before_timestamp(limit))
            .map_err(MlsError::operation)
    }

    /// Deletes all rows of the group (leaving a mesh, or before a Welcome replaces the group).
    pub fn delete_group(&self, group_id: &[u8; 32]) -> Result<(), MlsError> {
        self.load(group_id)?.delete(self.storage()).map_err(MlsError::Storage)
    }

    pub(super) fn find(&self, group_id: &[u8; 32]) -> Result<Option<MlsGroup>, MlsError> {
        MlsGroup::load(self.storage(), &GroupId::from_slice(group_id)).map_err(MlsError::Storage)
    }

    pub(super) fn load(&self, group_id: &[u8; 32]) -> Result<MlsGroup, MlsError> {
        self.find(group_id)?.ok_or(MlsError::NoGroup)
    }
}

pub(super) fn join_config() -> MlsGroupJoinConfig {
    // openmls keeps two configurations; the number of past epochs has to stand in both.
    MlsGroupJoinConfig::builder()
        .wire_format_policy(PURE_CIPHERTEXT_WIRE_FORMAT_POLICY)
        .padding_size(PADDING)
        .max_past_epochs(PAST_EPOCHS)
        .use_ratchet_tree_extension(true)
        .sender_ratchet_configuration(SenderRatchetConfiguration::new(RATCHET.0, RATCHET.1))
        .build()
}

/// A node that catches up late, or whose clock is wrong, could never apply an Add whose key package had expired. Offers
/// expire in our own signed records instead.
fn eternal() -> Lifetime {
    Lifetime::init(0, u64::MAX)
}

pub(super) fn credential(me: SiteId, key: &MlsKey) -> CredentialWithKey {
    CredentialWithKey {
        credential: BasicCredential::new(me.as_bytes().to_vec()).into(),
        signature_key: key.public().to_vec().into(),
    }
}

/// The site a credential names.
pub(super) fn site_of(credential: &Credential) -> Result<SiteId, MlsError> {
    BasicCredential::try_from(credential.clone())
        .ok()
        .and_then(|basic| SiteId::from_slice(basic.identity()))
        .ok_or(MlsError::ForeignCredential)
}

pub(super) fn member_of(credential: &Credential, signature_key: &[u8]) -> Result<MlsMember, MlsError> {
    let mls_key = signature_key.try_into().map_err(|_| MlsError::ForeignCredential)?;
    Ok(MlsMember {
        site: site_of(credential)?,
        mls_key,
    })
}

pub(super) fn member_at(group: &MlsGroup, leaf: LeafNodeIndex) -> Option<Result<MlsMember, MlsError>> {
    let member = group.member_at(leaf)?;
    Some(member_of(&member.credential, &member.signature_key))
}

pub(super) fn view(group: &MlsGroup) -> Result<GroupView, MlsError> {
    let mut members = group
        .members()
        .map(|member| member_of(&member.credential, &member.signature_key))
        .collect::<Result<Vec<_>, _>>()?;
    members.sort();
    let pending = group.pending_commit().and_then(|staged| {
        let branch = branch_of(staged.epoch_authenticator()?.as_slice());
        Some(PendingView {
            epoch: staged.epoch().as_u64(),
            branch,
        })
    });
    Ok(GroupView {
        epoch: group.epoch().as_u64(),
        branch: branch_of(group.epoch_authenticator().as_slice()),
        members,
        pending,
        active: group.is_active(),
    })
}

pub(super) fn branch_of(epoch_authenticator: &[u8]) -> BranchId {
    BranchId::from_bytes(blake3::derive_key(BRANCH_CONTEXT, epoch_authenticator))
}

fn fixed(exported: Vec<u8>) -> Result<Zeroizing<[u8; 32]>, MlsError> {
    let exported = Zeroizing::new(exported);
    let mut out = Zeroizing::new([0; 32]);
    if exported.len() != out.len() {
        return Err(MlsError::Malformed);
    }
    out.copy_from_slice(&exported);
    Ok(out)
}
