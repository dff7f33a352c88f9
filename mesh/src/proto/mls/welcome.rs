//! Entering a group from a Welcome, the first time or again.

use std::collections::BTreeMap;

use openmls::prelude::{MlsMessageBodyIn, OpenMlsProvider as _, StagedWelcome};
use sovm_object::id::SiteId;

use super::{
    Mls, MlsError,
    commit::parse_message,
    group::{GroupView, join_config, member_of, view},
};

/// What a Welcome is measured against before we enter its group (rule R4).
#[derive(Clone, Debug)]
pub struct JoinCheck<'a> {
    /// Group id of the signed DomainGenesis.
    pub group_id: &'a [u8; 32],
    /// The roster of the domain, with the MLS key each site's binding names.
    pub roster: &'a BTreeMap<SiteId, [u8; 32]>,
}

impl Mls<'_> {
    /// Opens a Welcome for a key package of ours and enters the group, replacing what we held of it.
    ///
    /// Refuses a group that has another id or a member that the roster does not have. All of it is one step: a refused
    /// Welcome leaves the old group and the key package as they were.
    pub fn join(&self, welcome: &[u8], check: &JoinCheck<'_>) -> Result<GroupView, MlsError> {
        let MlsMessageBodyIn::Welcome(welcome) = parse_message(welcome)? else {
            return Err(MlsError::Malformed);
        };
        // openmls' own "replace" only skips the existence check and would leave key pairs of the old epoch behind.
        if let Some(mut old) = self.find(check.group_id)? {
            old.delete(self.storage()).map_err(MlsError::Storage)?;
        }
        let staged = StagedWelcome::build_from_welcome(self, &join_config(), welcome)
            .and_then(|builder| builder.skip_lifetime_validation().build())
            .map_err(|error| MlsError::WelcomeRejected(Box::new(error)))?;
        if staged.group_context().group_id().as_slice() != check.group_id {
            return Err(MlsError::WrongGroup);
        }
        for member in staged.members() {
            let member = member_of(&member.credential, &member.signature_key)?;
            match check.roster.get(&member.site) {
                None => return Err(MlsError::NotInRoster(member.site)),
                Some(key) if *key != member.mls_key => return Err(MlsError::WrongLeafKey(member.site)),
                Some(_) => {}
            }
        }
        let group = staged
            .into_group(self)
            .map_err(|error| MlsError::WelcomeRejected(Box::new(error)))?;
        view(&group)
    }
}
