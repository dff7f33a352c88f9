//! Groups follow the roster: commits of others are merged, keys that are missing are asked for (`mls.md` §2.3).

use std::collections::{BTreeMap, BTreeSet};

use sovm_catalog::{Read, Scope, Txn};
use sovm_mesh::proto::{
    follow,
    kek::{self as bundle, BundleContext},
    mls::{AddMember, Change, GroupView},
    peer::{KekReply, KekRequest, KekStatus},
};
use sovm_object::{
    entry::VerifiedEntry,
    id::{DomainId, KekId, RecordId, SiteId},
    kek,
    record::{CommitRecord, DomainGenesis},
    roster::Roster,
    secret::{Kek, SiteKey},
    sign::Signed,
};

use super::super::{core::Core, founding::random};
use crate::error::ApiError;

impl Core {
    fn genesis_of(&self, domain: &DomainId) -> Result<DomainGenesis, ApiError> {
        let domains = self.read()?.domains()?;
        let found = domains.into_iter().find(|view| view.genesis.domain_id == *domain);
        Ok(found
            .ok_or_else(|| ApiError::bug("a domain without its founding record"))?
            .genesis)
    }

    /// State of a domain's group; none when this node is in no group of it (after a recovery).
    pub(in super::super) fn group_view(&self, domain: &DomainId) -> Result<Option<GroupView>, ApiError> {
        let group_id = self.genesis_of(domain)?.group_id;
        let (_, view) = self.mls_step(|mls| {
            if mls.has_group(&group_id)? {
                mls.view(&group_id).map(Some)
            } else {
                Ok(None)
            }
        })?;
        Ok(view)
    }

    /// This node's epoch in a domain's group, for manifests; audit only (SOP-132).
    pub(in super::super) fn epoch(&self, domain: &DomainId) -> Result<u64, ApiError> {
        Ok(self.group_view(domain)?.map_or(0, |view| view.epoch))
    }

    /// Sites that read a domain, with the MLS key of their binding.
    pub(in super::super) fn readers_with_keys(
        &self,
        rows: &impl Read,
        domain: &DomainId,
    ) -> Result<BTreeMap<SiteId, [u8; 32]>, ApiError> {
        let bindings = rows.bindings()?;
        let Some(roster) = rows.roster(Scope::Domain(*domain))? else {
            return Ok(BTreeMap::new());
        };
        let readers = roster
            .readers()
            .filter_map(|(site, _)| Some((site, bindings.get(&site)?.body().mls_key)));
        Ok(readers.collect())
    }

    /// Merges commits of others that apply to where our groups stand.
    pub(in super::super) async fn follow_groups(&self) -> Result<(), ApiError> {
        let _step = self.step.lock().await;
        let domains = self.read()?.domains()?;
        for domain in domains {
            // A commit that cannot be applied waits for what is missing; it must not stop the other domains.
            if let Err(error) = self.follow_group(&domain.genesis) {
                tracing::warn!(kind = ?error.kind, "a group commit could not be applied");
            }
        }
        Ok(())
    }

    fn follow_group(&self, genesis: &DomainGenesis) -> Result<(), ApiError> {
        let domain = genesis.domain_id;
        loop {
            let Some(view) = self.group_view(&domain)? else {
                return Ok(());
            };
            if !view.active {
                return Ok(());
            }
            let commits = self.read()?.commit_records(&domain)?;
            let next: Vec<_> = commits
                .iter()
                .filter(|commit| commit.body().parent == view.branch)
                .collect();
            let Some(winner) = follow::winner(next.iter().map(|commit| commit.body().commit.as_slice())) else {
                return Ok(());
            };
            let Some(commit) = next.iter().find(|commit| commit.body().commit == winner) else {
                return Ok(());
            };
            self.merge(genesis, &view, commit)?;
        }
    }

    fn merge(&self, genesis: &DomainGenesis, view: &GroupView, commit: &Signed<CommitRecord>) -> Result<(), ApiError> {
        let snapshot = self.read()?;
        let record = commit.body();
        let group_id = genesis.group_id;
        let (writes, view) = if record.committer == self.me {
            // Our own commit, interrupted between storing and merging it.
            self.mls_step(|mls| mls.merge_pending(&group_id))?
        } else {
            let roster = self.readers_with_keys(&snapshot, &genesis.domain_id)?;
            let readds: BTreeSet<_> = record.readds.iter().copied().collect();
            let justified = follow::justified(&view.members, &roster, &readds);
            let (writes, merged) =
                self.mls_step(|mls| mls.merge_commit(&group_id, &record.commit, record.committer, &justified))?;
            (writes, merged.view)
        };
        let claim = self.sign_claim(&genesis.domain_id, &view)?;
        let mut txn = self.catalog.begin()?;
        txn.admit(claim, None, self.now_ms())?;
        self.commit_merge(txn, &writes)?;
        Ok(())
    }

    /// Changes a domain's group by a commit of our own: stored as pending with its record, then merged (`mls.md` §2.5).
    pub(super) fn change_group(
        &self,
        domain: &DomainId,
        add: Vec<AddMember>,
        remove: Vec<SiteId>,
        ops: Vec<RecordId>,
    ) -> Result<Option<Vec<u8>>, ApiError> {
        let genesis = self.genesis_of(domain)?;
        let group_id = genesis.group_id;
        let Some(view) = self.group_view(domain)? else {
            return self.refound_group(&genesis, add, ops);
        };
        let key = self.mls_key()?;
        let members: BTreeSet<_> = view.members.iter().map(|member| member.site).collect();
        let change = Change {
            add,
            remove: remove.into_iter().filter(|site| members.contains(site)).collect(),
        };
        if change.add.is_empty() && change.remove.is_empty() {
            return Ok(None);
        }
        let (writes, staged) = self.mls_step(|mls| mls.stage_change(&group_id, &key, &change))?;
        let record = self.sign_commit(
            domain,
            &view,
            &staged.commit,
            staged.welcome.clone(),
            staged.branch,
            staged.epoch,
            ops,
        )?;
        let mut txn = self.catalog.begin()?;
        self.put_mls(&mut txn, &writes)?;
        txn.admit(record, None, self.now_ms())?;
        self.save(txn)?;

        let (writes, view) = self.mls_step(|mls| mls.merge_pending(&group_id))?;
        let claim = self.sign_claim(domain, &view)?;
        let mut txn = self.catalog.begin()?;
        txn.admit(claim, None, self.now_ms())?;
        self.commit_merge(txn, &writes)?;
        Ok(staged.welcome)
    }

    /// A recovered node is in no group any more: it makes one of its own under the old id, and others enter it from there.
    fn refound_group(
        &self,
        genesis: &DomainGenesis,
        add: Vec<AddMember>,
        ops: Vec<RecordId>,
    ) -> Result<Option<Vec<u8>>, ApiError> {
        let key = self.mls_key()?;
        let (writes, view) = self.mls_step(|mls| mls.create_group(&genesis.group_id, self.me, &key))?;
        let claim = self.sign_claim(&genesis.domain_id, &view)?;
        let mut txn = self.catalog.begin()?;
        self.put_mls(&mut txn, &writes)?;
        txn.admit(claim, None, self.now_ms())?;
        self.save(txn)?;
        if add.is_empty() {
            return Ok(None);
        }
        self.change_group(&genesis.domain_id, add, Vec::new(), ops)
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of one record")]
    fn sign_commit(
        &self,
        domain: &DomainId,
        parent: &GroupView,
        commit: &[u8],
        welcome: Option<Vec<u8>>,
        branch: sovm_object::id::BranchId,
        epoch: u64,
        mut ops: Vec<RecordId>,
    ) -> Result<Signed<CommitRecord>, ApiError> {
        ops.sort_unstable();
        let stamp = self.stamp()?;
        Ok(self.sign(CommitRecord {
            mesh_id: self.mesh(),
            domain_id: *domain,
            parent: parent.branch,
            branch,
            epoch,
            committer: self.me,
            ops,
            readds: Vec::new(),
            kek_id: None,
            commit: commit.to_vec(),
            welcome,
            hlc: stamp.hlc,
        }))
    }

    /// Mints a KEK when no existing one may be used for new wraps (R5). Gives the new generation.
    pub(in super::super) fn ensure_kek(&self, domain: &DomainId) -> Result<Option<u64>, ApiError> {
        let snapshot = self.read()?;
        let Some(roster) = snapshot.roster(Scope::Domain(*domain))? else {
            return Ok(None);
        };
        let records = snapshot.kek_records(domain)?;
        if kek::current(records.iter(), &roster).is_some() {
            return Ok(None);
        }
        let generation = kek::next_generation(records.iter());
        let audience: Vec<_> = roster.readers().map(|(site, _)| site).collect();
        let (fresh, kek_id) = (Kek::generate(), KekId::from_bytes(random()));
        let record = self.sign_kek(domain, generation, kek_id, &fresh, audience, roster.heads())?;
        // The key is durable before its record is.
        self.keys()
            .update(|contents| contents.domain_mut(*domain).ring.insert(generation, kek_id, fresh))?;
        let mut txn = self.catalog.begin()?;
        txn.admit(record, None, self.now_ms())?;
        self.save(txn)?;
        self.told();
        Ok(Some(generation))
    }

    /// What to ask a peer for: keys whose audience we are in and that we do not hold.
    pub(super) fn missing_keys(&self, peer: &SiteId) -> Result<Vec<KekRequest>, ApiError> {
        let snapshot = self.read()?;
        let mut requests = Vec::new();
        for domain in snapshot.domains()? {
            let id = domain.genesis.domain_id;
            let Some(roster) = snapshot.roster(Scope::Domain(id))? else {
                continue;
            };
            if roster.role(&self.me).is_none() || roster.role(peer).is_none() {
                continue;
            }
            let held: Vec<KekId> = self
                .keys()
                .domain(&id)
                .map(|keys| keys.ring.iter().map(|(_, kek_id, _)| kek_id).collect())
                .unwrap_or_default();
            let lacks = snapshot.kek_records(&id)?.iter().any(|record| {
                kek::audience(record.body(), &roster).contains(&self.me) && !held.contains(&record.body().kek_id)
            });
            if lacks && let Some(view) = self.group_view(&id)?.filter(|view| view.active) {
                requests.push(KekRequest {
                    domain_id: id,
                    branch: view.branch,
                    held: held.into(),
                });
            }
        }
        Ok(requests)
    }

    /// Answers a peer that lacks keys. Needs the same live branch on both sides, and gives nothing the peer is not entitled to.
    pub(super) fn give_keys(&self, peer: &SiteId, request: &KekRequest) -> Result<KekReply, ApiError> {
        let domain = request.domain_id;
        let reply = |status, bundle: Vec<u8>| KekReply {
            domain_id: domain,
            status,
            bundle: bundle.into(),
        };
        let snapshot = self.read()?;
        let roster = snapshot.roster(Scope::Domain(domain))?;
        let Some((roster, history_from)) =
            roster.and_then(|roster| roster.history_from(peer).map(|history| (roster, history)))
        else {
            return Ok(reply(KekStatus::NotInRoster, Vec::new()));
        };
        let Some(view) = self
            .group_view(&domain)?
            .filter(|view| view.active && view.branch == request.branch)
        else {
            return Ok(reply(KekStatus::OtherBranch, Vec::new()));
        };
        let bundle = self.seal_keys(&snapshot, &roster, &domain, &view, peer, history_from, &request.held)?;
        Ok(match bundle {
            Some(bundle) => reply(KekStatus::Granted, bundle),
            None => reply(KekStatus::NothingNew, Vec::new()),
        })
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one bundle")]
    pub(super) fn seal_keys(
        &self,
        rows: &impl Read,
        roster: &Roster,
        domain: &DomainId,
        view: &GroupView,
        receiver: &SiteId,
        history_from: u64,
        held: &[KekId],
    ) -> Result<Option<Vec<u8>>, ApiError> {
        let group_id = self.genesis_of(domain)?.group_id;
        let (_, wrap_key) = self.mls_step(|mls| mls.kek_wrap_key(&group_id))?;
        let records = rows.kek_records(domain)?;
        let entitled = |_: u64, kek_id: &KekId| {
            !held.contains(kek_id)
                && records.iter().any(|record| {
                    record.body().kek_id == *kek_id && kek::audience(record.body(), roster).contains(receiver)
                })
        };
        let context = BundleContext {
            mesh: self.mesh(),
            domain: *domain,
            branch: view.branch,
            receiver: *receiver,
        };
        let stamp = self.stamp()?;
        let keys = self.keys();
        let sender: &SiteKey = keys.site_key();
        let Some(domain_keys) = keys.domain(domain) else {
            return Ok(None);
        };
        Ok(bundle::seal(
            &wrap_key,
            &context,
            history_from,
            &domain_keys.ring,
            &entitled,
            sender,
            stamp.hlc,
        ))
    }

    /// Takes keys a peer gave, and opens what waited for them.
    pub(super) fn take_keys(&self, domain: &DomainId, reply: &KekReply) -> Result<(), ApiError> {
        if reply.status != KekStatus::Granted || reply.domain_id != *domain {
            return Ok(());
        }
        let Some(view) = self.group_view(domain)? else {
            return Ok(());
        };
        let group_id = self.genesis_of(domain)?.group_id;
        let (_, wrap_key) = self.mls_step(|mls| mls.kek_wrap_key(&group_id))?;
        self.open_keys(domain, &view, &wrap_key, &reply.bundle)
    }

    pub(super) fn open_keys(
        &self,
        domain: &DomainId,
        view: &GroupView,
        wrap_key: &[u8; 32],
        sealed: &[u8],
    ) -> Result<(), ApiError> {
        let snapshot = self.read()?;
        let records = snapshot.kek_records(domain)?;
        let context = BundleContext {
            mesh: self.mesh(),
            domain: *domain,
            branch: view.branch,
            receiver: self.me,
        };
        let record_of = |kek_id: &KekId| {
            let record = records
                .iter()
                .map(Signed::body)
                .find(|record| record.kek_id == *kek_id)?;
            Some((record.generation, record.commitment))
        };
        let Ok(opened) = bundle::open(sealed, wrap_key, &context, &record_of) else {
            tracing::warn!("a key bundle did not open");
            return Ok(());
        };
        let sender_reads = snapshot
            .roster(Scope::Domain(*domain))?
            .and_then(|roster| roster.role(&opened.sender))
            .is_some();
        if !sender_reads || opened.keks.is_empty() {
            return Ok(());
        }
        self.keys().update(|contents| {
            let ring = &mut contents.domain_mut(*domain).ring;
            for (generation, kek_id, kek) in opened.keks {
                ring.insert(generation, kek_id, kek);
            }
        })?;
        self.open_held(domain)?;
        self.told();
        Ok(())
    }

    /// Puts signed records into a step.
    pub(in super::super) fn admit_all(&self, txn: &mut Txn, entries: Vec<VerifiedEntry>) -> Result<(), ApiError> {
        let now_ms = self.now_ms();
        for entry in entries {
            txn.admit(entry, None, now_ms)?;
        }
        Ok(())
    }
}
