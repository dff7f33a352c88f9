//! The catalogue's sets as reconciliation sees them, and which of them a peer shares.

use std::collections::BTreeMap;

use sovm_catalog::{Read as _, Scope as Place, Shard as PlaceShard, Snapshot};
use sovm_mesh::proto::sync::{Digest, Element, Item, MemorySet, Scope, SetError, Shard, SharedScope, SyncSet};
use sovm_object::{
    entry::{EntryKind, sealed},
    id::{DomainId, SiteId},
    record::{MembershipOp, MeshGenesis, Role},
};

use super::super::core::Core;
use crate::error::ApiError;

/// Tag of an item that travels as it was signed.
pub(super) const PLAIN: u8 = 0;
/// Tag of an item that travels sealed under its KEK.
pub(super) const SEALED: u8 = 1;

/// One snapshot of this node's sets.
pub(super) struct CatalogSet<'a> {
    core: &'a Core,
    snapshot: Snapshot,
    /// What blind replicas get; small, so it is built at once.
    public: MemorySet,
}

impl<'a> CatalogSet<'a> {
    pub(super) fn of(core: &'a Core) -> Result<Self, ApiError> {
        let snapshot = core.read()?;
        let mut public = MemorySet::default();
        let mut put = |id: &sovm_object::id::RecordId, hlc, bytes: &[u8]| {
            let element = Element {
                hlc,
                id: sealed::element_id(id, None),
            };
            public.insert(
                Scope::Public,
                0,
                element,
                Item {
                    kind: PLAIN,
                    bytes: bytes.to_vec(),
                },
            );
        };
        for genesis in snapshot.accepted::<MeshGenesis>(Place::Mesh, EntryKind::MeshGenesis)? {
            put(&genesis.id(), genesis.body().created, genesis.bytes());
        }
        for op in snapshot.accepted::<MembershipOp>(Place::Mesh, EntryKind::MembershipOp)? {
            put(&op.id(), op.body().hlc, op.bytes());
        }
        Ok(Self { core, snapshot, public })
    }
}

fn place(scope: Scope) -> Option<Place> {
    match scope {
        Scope::Public => None,
        Scope::Mesh => Some(Place::Mesh),
        Scope::Domain(domain) => Some(Place::Domain(domain)),
    }
}

impl SyncSet for CatalogSet<'_> {
    fn days(&self, scope: Scope) -> Result<BTreeMap<Shard, Digest>, SetError> {
        let Some(place) = place(scope) else {
            return self.public.days(scope);
        };
        let shards = self.snapshot.shards(place).map_err(SetError::new)?;
        Ok(shards
            .into_iter()
            .map(|(shard, digest)| {
                let sum = Digest {
                    count: digest.count,
                    sum: digest.sum,
                };
                (
                    Shard {
                        generation: shard.generation,
                        day: shard.day,
                    },
                    sum,
                )
            })
            .collect())
    }

    fn elements(&self, scope: Scope, shard: Shard) -> Result<Vec<Element>, SetError> {
        let Some(place) = place(scope) else {
            return self.public.elements(scope, shard);
        };
        let shard = PlaceShard {
            generation: shard.generation,
            day: shard.day,
        };
        let elements = self.snapshot.elements(place, shard).map_err(SetError::new)?;
        Ok(elements.into_iter().map(|(hlc, id)| Element { hlc, id }).collect())
    }

    fn item(&self, scope: Scope, shard: Shard, id: &[u8; 32]) -> Result<Option<Item>, SetError> {
        let Some(place) = place(scope) else {
            return self.public.item(scope, shard, id);
        };
        // Entitlement: only what stands in exactly the shard that the peer may see.
        let in_shard = PlaceShard {
            generation: shard.generation,
            day: shard.day,
        };
        let known = self.snapshot.elements(place, in_shard).map_err(SetError::new)?;
        if !known.iter().any(|(_, element)| element == id) {
            return Ok(None);
        }
        let Some(element) = self.snapshot.element(id).map_err(SetError::new)? else {
            return Ok(None);
        };
        Ok(match (element.kek_id, place) {
            (None, _) => Some(Item {
                kind: PLAIN,
                bytes: element.bytes,
            }),
            (Some(kek_id), Place::Domain(domain)) => {
                let keys = self.core.keys();
                let kek = keys.domain(&domain).and_then(|keys| keys.ring.get(&kek_id));
                kek.map(|kek| Item {
                    kind: SEALED,
                    bytes: sealed::seal(&element.bytes, kek, &kek_id, &self.core.mesh(), &domain),
                })
            }
            (Some(_), Place::Mesh) => None,
        })
    }
}

impl Core {
    /// Sets this node and a peer both may hold (DESIGN §8).
    pub(super) fn shared_scopes(&self, peer: &SiteId) -> Result<Vec<SharedScope>, ApiError> {
        let snapshot = self.read()?;
        let Some(roster) = snapshot.roster(Place::Mesh)? else {
            return Ok(Vec::new());
        };
        let (Some(mine), Some(theirs)) = (roster.role(&self.me), roster.role(peer)) else {
            return Ok(Vec::new());
        };
        if !mine.reads() || !theirs.reads() {
            return Ok(vec![SharedScope {
                scope: Scope::Public,
                from_generation: 0,
            }]);
        }
        let mut shared = vec![SharedScope {
            scope: Scope::Mesh,
            from_generation: 0,
        }];
        for domain in snapshot.domains()? {
            let id: DomainId = domain.genesis.domain_id;
            let Some(roster) = snapshot.roster(Place::Domain(id))? else {
                continue;
            };
            if !roster.role(&self.me).is_some_and(Role::reads) || !roster.role(peer).is_some_and(Role::reads) {
                continue;
            }
            let from = [&self.me, peer]
                .into_iter()
                .filter_map(|site| roster.history_from(site))
                .max()
                .unwrap_or(1);
            shared.push(SharedScope {
                scope: Scope::Domain(id),
                from_generation: from,
            });
        }
        Ok(shared)
    }
}

#[cfg(test)]
mod tests {
    use sovm_object::{
        cbor::{Encoder, from_slice},
        id::StorageId,
        record::ManifestOutline,
        sign::Signed,
    };

    use super::{
        super::super::testing::{Admin, World},
        *,
    };

    /// All that a peer of the domain can ask for, by element.
    fn items(core: &Core, domain: DomainId) -> BTreeMap<[u8; 32], Item> {
        let set = CatalogSet::of(core).unwrap();
        let scope = Scope::Domain(domain);
        let mut items = BTreeMap::new();
        for shard in set.days(scope).unwrap().into_keys() {
            for element in set.elements(scope, shard).unwrap() {
                let item = set.item(scope, shard, &element.id).unwrap().unwrap();
                items.insert(element.id, item);
            }
        }
        items
    }

    /// SOP-243: what a peer is sent is what was signed once. A second time, after a restart and after other publications, it gets the
    /// same bytes under the same ids.
    #[tokio::test]
    async fn a_peer_is_sent_the_stored_bytes() {
        let world = World::new().await;
        let domain = world.domain();
        world.ingest([1, 2]).await.unwrap();
        let first = items(world.core(), domain);
        let sealed = first.values().filter(|item| item.kind == SEALED).count();
        assert_eq!(sealed, 3, "table, manifest and access record");
        assert_eq!(items(world.core(), domain), first);
        let world = world.reopened().await;
        assert_eq!(items(world.core(), domain), first);
        world.ingest([3]).await.unwrap();
        let later = items(world.core(), domain);
        assert_eq!(later.len(), first.len() + 2);
        assert!(first.iter().all(|(id, item)| later.get(id) == Some(item)));
    }

    /// SOP-4: what a member wrote with a later build is passed on to the next peer byte for byte, sealed as it came.
    #[tokio::test]
    async fn newer_manifests_are_forwarded() {
        let world = World::new().await;
        let (core, domain) = (world.core(), world.domain());
        let member = Admin::of(core, domain);
        let mut e = Encoder::new();
        e.map(7).uint(1).uint(2).uint(2).field(&core.mesh()).uint(3).uint(1);
        e.uint(4).field(&StorageId::from_bytes([1; 32]));
        e.uint(8).field(&member.key.site_id());
        e.uint(10).field(&core.stamp().unwrap().hlc).uint(99).text("later");
        let outline: ManifestOutline = from_slice(&e.into_vec()).unwrap();
        let manifest = Signed::sign(outline, &member.key, &core.mesh());
        let kek_id = core.current_kek(&domain).unwrap().kek_id;
        let came = {
            let keys = core.keys();
            let kek = keys.domain(&domain).unwrap().ring.get(&kek_id).unwrap();
            Item {
                kind: SEALED,
                bytes: sealed::seal(manifest.bytes(), kek, &kek_id, &core.mesh(), &domain),
            }
        };
        let author = member.key.site_id();
        core.receive(&author, Scope::Domain(domain), std::slice::from_ref(&came))
            .unwrap();
        let id = sealed::element_id(&manifest.id(), Some(&kek_id));
        assert_eq!(items(core, domain).get(&id), Some(&came));
        let report = core.doctor(false).await.unwrap();
        assert!(report.findings.iter().any(|finding| finding.kind == "newer"));
    }
}
