//! What a person asks about a node: status, devices, domains.

use std::collections::BTreeMap;

use sovm_catalog::{Alarm, ByteState, ObjectState, ObjectView, Read, Scope, Snapshot};
use sovm_object::{
    id::{DomainId, SiteId, StorageId},
    kek::{self, KekRing},
    record::Role,
};

use super::{convert::mesh_info, core::Core, source::describe};
use crate::{
    api::{
        DomainInfo, DomainListReport, MemberInfo, MembersReport, ObjectCounts, RecoveryInfo, StatusReport,
        TransferInfo, WaitingObject,
    },
    error::{ApiError, ErrorKind},
};

/// Objects listed in `status` one by one; the counts cover all.
const MAX_WAITING_SHOWN: usize = 20;

/// Alarms told by `status` and `doctor`, the newest first.
const MAX_ALARMS_SHOWN: usize = 5;

impl Core {
    /// This node's role in the mesh. A removed device has none.
    pub(super) fn my_role(&self) -> Result<Option<Role>, ApiError> {
        Ok(self
            .read()?
            .roster(Scope::Mesh)?
            .and_then(|roster| roster.role(&self.me)))
    }

    /// Whether this node only keeps ciphertext for others.
    pub(super) fn is_blind(&self) -> Result<bool, ApiError> {
        Ok(self.my_role()? == Some(Role::Blind))
    }

    /// `status`.
    pub(super) async fn status(&self) -> Result<StatusReport, ApiError> {
        let snapshot = self.read()?;
        let blind = self.is_blind()?;
        let members = self.members()?.members;
        let devices = members
            .iter()
            .filter(|member| member.role != Role::Recovery.as_str())
            .count() as u64;
        let objects = self.all_objects(&snapshot)?;
        let mut warnings = self.warnings.clone();
        if self.my_role()?.is_none() {
            warnings.push(
                "this device was removed from its mesh: it keeps what it had and gets nothing new. To join again: sovm join TICKET"
                    .to_owned(),
            );
        }
        let own_absent = self.keep.own_absent.load(std::sync::atomic::Ordering::Relaxed);
        if own_absent > 0 {
            warnings.push(format!(
                "{own_absent} objects that this device published had lost their bytes when it started: sovm doctor"
            ));
        }
        warnings.extend(newest_alarms(&snapshot)?.into_iter().map(|(_, sentence)| sentence));
        let waiting = objects
            .iter()
            .filter(|object| object.state.blocks_queries())
            .take(MAX_WAITING_SHOWN);
        let waiting = waiting
            .map(|object| {
                let (state, reason, next_try_ms) = describe(&object.state);
                WaitingObject {
                    storage_id: object.storage_id.to_string(),
                    state,
                    reason,
                    next_try_ms,
                }
            })
            .collect();
        let (peers, transfer) = self.network_report(&snapshot)?;
        Ok(StatusReport {
            home: self.home.path().to_owned(),
            site: self.me.to_string(),
            name: self.node_name()?,
            mesh: mesh_info(&snapshot, self.mesh())?,
            blind,
            daemon_pid: self.is_online().then(std::process::id),
            key_file: self.config.key_file.is_some(),
            devices,
            devices_online: 1 + peers.iter().filter(|peer| peer.online).count() as u64,
            tables: snapshot.tables()?.len() as u64,
            objects: if blind {
                self.held_counts().await?
            } else {
                self.counts(&objects)
            },
            domains: self.domain_infos(&snapshot)?,
            peers,
            waiting,
            transfer,
            recovery: self.recovery_info(&snapshot)?,
            warnings,
        })
    }

    /// Every object of every table, every plain file and every edition's file this node knows.
    pub(super) fn all_objects(&self, snapshot: &Snapshot) -> Result<Vec<ObjectView>, ApiError> {
        let none = KekRing::default();
        let keys = self.keys();
        let mut objects = Vec::new();
        for table in snapshot.tables()? {
            let ring = keys.domain(&table.genesis.domain_id).map(|keys| &keys.ring);
            objects.extend(snapshot.objects(&table.genesis.table_id, ring.unwrap_or(&none))?);
        }
        // A released file stands in two domains and is one object; the ring that opens it says most of it.
        let mut editions: BTreeMap<StorageId, ObjectView> = BTreeMap::new();
        for domain in snapshot.domains()? {
            let domain = domain.genesis.domain_id;
            let ring = keys.domain(&domain).map_or(&none, |keys| &keys.ring);
            objects.extend(snapshot.files(&domain, ring)?);
            for file in snapshot.edition_files(&domain, ring)? {
                let known = editions.get(&file.storage_id);
                if known.is_none_or(|known| matches!(known.state, ObjectState::PendingAccess(_))) {
                    editions.insert(file.storage_id, file);
                }
            }
        }
        objects.extend(editions.into_values());
        Ok(objects)
    }

    pub(super) fn counts(&self, objects: &[ObjectView]) -> ObjectCounts {
        let mut counts = ObjectCounts::default();
        // Nobody waits for what was expunged.
        let expunged = |object: &&ObjectView| matches!(object.state, ObjectState::Expunged);
        for object in objects.iter().filter(|object| !expunged(object)) {
            counts.known += 1;
            match &object.state {
                ObjectState::Queryable => counts.available += 1,
                ObjectState::PendingBytes { .. } => counts.pending_bytes += 1,
                ObjectState::PendingAccess(_) => counts.pending_access += 1,
                _ => counts.quarantined += 1,
            }
            let here = object
                .bytes
                .filter(|bytes| bytes.state == ByteState::Available)
                .map_or(0, |bytes| bytes.size);
            let exact = object
                .manifests
                .first()
                .map_or(0, |(_, manifest)| manifest.exact_byte_size);
            let whole = if here > 0 {
                here
            } else {
                sovm_object::padme::padme(exact).unwrap_or(exact)
            };
            counts.want_bytes += whole;
            counts.have_bytes += if here > 0 {
                here
            } else {
                self.partly_fetched(&object.storage_id).min(whole)
            };
        }
        counts
    }

    /// What a blind replica holds: it knows nothing but sizes.
    pub(super) async fn held_counts(&self) -> Result<ObjectCounts, ApiError> {
        let held = self.blobs.list().await?;
        let bytes = held.iter().map(|object| object.size()).sum();
        let pending = self.placed_but_missing()?;
        Ok(ObjectCounts {
            known: held.len() as u64 + pending,
            available: held.len() as u64,
            pending_bytes: pending,
            have_bytes: bytes,
            want_bytes: bytes,
            ..ObjectCounts::default()
        })
    }

    /// `mesh members`.
    pub(super) fn members(&self) -> Result<MembersReport, ApiError> {
        let snapshot = self.read()?;
        let bindings = snapshot.bindings()?;
        let mut domains: BTreeMap<SiteId, Vec<String>> = BTreeMap::new();
        for domain in snapshot.domains()? {
            if let Some(roster) = snapshot.roster(Scope::Domain(domain.genesis.domain_id))? {
                for (site, _) in roster.readers() {
                    domains.entry(site).or_default().push(domain.genesis.name.clone());
                }
            }
        }
        let mut members = Vec::new();
        if let Some(roster) = snapshot.roster(Scope::Mesh)? {
            for (site, role, _) in roster.members() {
                let (online, last_seen_ms) = self.seen(&site);
                members.push(MemberInfo {
                    site: site.to_string(),
                    name: bindings.get(&site).map(|binding| binding.body().display_name.clone()),
                    role: role.as_str().to_owned(),
                    domains: domains.remove(&site).unwrap_or_default(),
                    this_node: site == self.me,
                    online: online || site == self.me,
                    last_seen_ms,
                });
            }
        }
        members.sort_by_key(|member| (!member.this_node, member.name.clone(), member.site.clone()));
        Ok(MembersReport {
            mesh: mesh_info(&snapshot, self.mesh())?,
            members,
        })
    }

    /// The one member that a name, id or beginning of an id means.
    pub(super) fn find_member(&self, text: &str) -> Result<(SiteId, Option<String>), ApiError> {
        let members = self.members()?.members;
        let named: Vec<_> = members
            .iter()
            .filter(|member| member.name.as_deref() == Some(text))
            .collect();
        let found = if named.is_empty() && text.len() >= 4 {
            members.iter().filter(|member| member.site.starts_with(text)).collect()
        } else {
            named
        };
        match found.as_slice() {
            [one] => {
                let site = one.site.parse().map_err(ApiError::bug)?;
                Ok((site, one.name.clone()))
            }
            [] => Err(
                ApiError::new(ErrorKind::NotFound, format!("no device of this mesh is called {text}"))
                    .safe("nothing was changed")
                    .next("sovm mesh members"),
            ),
            _ => Err(
                ApiError::new(ErrorKind::BadInput, format!("{text} means more than one device"))
                    .safe("nothing was changed")
                    .next("use the site id: sovm mesh members"),
            ),
        }
    }

    /// `domain list`.
    pub(super) fn list_domains(&self) -> Result<DomainListReport, ApiError> {
        Ok(DomainListReport {
            domains: self.domain_infos(&self.read()?)?,
        })
    }

    fn domain_infos(&self, snapshot: &Snapshot) -> Result<Vec<DomainInfo>, ApiError> {
        snapshot
            .domains()?
            .iter()
            .map(|domain| self.domain_info(snapshot, &domain.genesis.domain_id))
            .collect()
    }

    /// One domain as reports show it.
    pub(super) fn domain_info(&self, snapshot: &Snapshot, id: &DomainId) -> Result<DomainInfo, ApiError> {
        let domain = snapshot
            .domains()?
            .into_iter()
            .find(|domain| domain.genesis.domain_id == *id);
        let roster = snapshot.roster(Scope::Domain(*id))?;
        let records = snapshot.kek_records(id)?;
        let current = roster.as_ref().and_then(|roster| kek::current(records.iter(), roster));
        let tables: Vec<_> = snapshot
            .tables()?
            .into_iter()
            .filter(|table| table.genesis.domain_id == *id)
            .collect();
        let none = KekRing::default();
        let keys = self.keys();
        let ring = keys.domain(id).map_or(&none, |keys| &keys.ring);
        let mut objects = 0;
        for table in &tables {
            objects += snapshot.objects(&table.genesis.table_id, ring)?.len() as u64;
        }
        Ok(DomainInfo {
            name: domain.map_or_else(|| id.fmt_short(), |domain| domain.genesis.name),
            domain_id: id.to_string(),
            members: roster.as_ref().map_or(0, |roster| roster.readers().count() as u64),
            generation: current
                .filter(|(_, kek_id)| ring.get(kek_id).is_some())
                .map(|(generation, _)| generation),
            role: roster
                .as_ref()
                .and_then(|roster| roster.role(&self.me))
                .map_or("removed", Role::as_str)
                .to_owned(),
            tables: tables.len() as u64,
            objects,
        })
    }

    /// Kits, roots and the last proof, over all domains.
    pub(super) fn recovery_info(&self, snapshot: &Snapshot) -> Result<RecoveryInfo, ApiError> {
        let mut info = RecoveryInfo::default();
        for domain in snapshot.domains()? {
            let id = domain.genesis.domain_id;
            info.kits += live_kits(snapshot, &id)?.len() as u64;
            if let Some(root) = snapshot.root_announcements(&id)?.last() {
                let made = root.body().hlc.millis();
                if info.checkpoint_ms.is_none_or(|newest| newest < made) {
                    info.root_id = Some(root.body().root_id.to_string());
                    info.checkpoint_ms = Some(made);
                }
            }
        }
        if let Some(drill) = super::recovery::last_drill(snapshot)? {
            info.proven_ms = Some(drill.proven_ms);
            info.proven_objects = Some(drill.objects);
            info.proven_missing = Some(drill.missing);
        }
        Ok(info)
    }
}

/// The newest alarms with their sentences, each sentence once: two copies of a home repeat themselves with every number they use,
/// and would leave no room for anything else.
pub(super) fn newest_alarms(rows: &impl Read) -> Result<Vec<(Alarm, String)>, ApiError> {
    let mut shown: Vec<(Alarm, String)> = Vec::new();
    for (alarm, _) in rows.alarms()?.into_iter().rev() {
        let sentence = alarm_sentence(&alarm);
        if shown.iter().all(|(_, known)| *known != sentence) {
            shown.push((alarm, sentence));
        }
        if shown.len() == MAX_ALARMS_SHOWN {
            break;
        }
    }
    Ok(shown)
}

/// An alarm as a sentence.
fn alarm_sentence(alarm: &Alarm) -> String {
    match alarm {
        Alarm::SeqReused { site, .. } => format!(
            "device {} used one number for two records: a copy of its home runs, or it was restored from an old copy",
            site.fmt_short()
        ),
        Alarm::TwoManifests { object, .. } => {
            format!(
                "object {} was described twice by its producer; both descriptions are kept",
                object.fmt_short()
            )
        }
        Alarm::TwoRoots { catalog, version, .. } => format!(
            "version {version} of catalogue {} was signed with two different roots; both are kept",
            hex::encode(catalog)
        ),
        other => format!("{other:?}"),
    }
}

/// Kits of a domain that were not retired. A retirement always wins.
pub(super) fn live_kits(rows: &impl Read, domain: &DomainId) -> Result<Vec<sovm_object::record::KitRecord>, ApiError> {
    let records = rows.kit_records(domain)?;
    let retired: std::collections::BTreeSet<_> = records
        .iter()
        .filter(|kit| kit.body().retired)
        .map(|kit| kit.body().kit_id)
        .collect();
    let mut live: BTreeMap<_, _> = BTreeMap::new();
    for kit in records.iter().filter(|kit| !retired.contains(&kit.body().kit_id)) {
        live.entry(kit.body().kit_id).or_insert_with(|| kit.body().clone());
    }
    Ok(live.into_values().collect())
}

/// Bytes moved, for nodes without network.
pub(super) const NOTHING_MOVED: TransferInfo = TransferInfo {
    fetched_bytes: 0,
    served_bytes: 0,
};
