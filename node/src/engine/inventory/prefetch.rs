//! Ciphertext ahead of its keys (DESIGN §10): so that a release is a matter of grants, not of gigabytes.
//!
//! Lists are sorted and as large as the format takes, whatever the objects belong to, and each object is listed once. Who fetches them
//! learns that something is coming, and how many bytes of it.

use std::{collections::BTreeSet, sync::Arc};

use sovm_catalog::{Read as _, Txn};
use sovm_inventory::{
    doc::{EditionState, FileRoot, Manifest, Stored, layout},
    reader::{FullInventory, find_head},
};
use sovm_object::{
    entry::VerifiedEntry,
    id::{DomainId, StorageId},
    record::PrefetchList,
};

use super::{
    super::{core::Core, publish::Publication},
    chains::Chain,
    data::{pointed_at, pointer_path},
    store::NodeStore,
};
use crate::{
    api::PrefetchReport,
    error::{ApiError, ErrorKind},
    inventory::errors,
};

/// Objects of one list.
const LIST_OBJECTS: usize = 64;

impl Core {
    /// `inventory prefetch`: lists every data file of an embargoed edition that was not listed yet.
    pub(super) async fn prefetch(self: &Arc<Self>, chain: &Chain) -> Result<PrefetchReport, ApiError> {
        let Some(public) = chain.founding.as_ref().and_then(|founding| founding.public) else {
            return Err(ApiError::new(
                ErrorKind::Refused,
                format!(
                    "catalogue {} has no public domain, so nobody has anything to fetch ahead",
                    chain.catalog
                ),
            )
            .safe("nothing was changed")
            .next("a public domain is named when a catalogue is made: sovm inventory init --public-domain NAME"));
        };
        let embargoed = self.embargoed_objects(chain).await?;
        let known = self.prefetched(&public.domain)?;
        let new: Vec<StorageId> = embargoed.into_iter().filter(|object| !known.contains(object)).collect();
        let mut lists = Vec::new();
        for objects in new.chunks(LIST_OBJECTS) {
            lists.push(self.sign_list(public.domain, objects.to_vec())?);
        }
        let report = PrefetchReport {
            catalog_id: chain.catalog.to_string(),
            objects: new.len() as u64,
            lists: lists.len() as u64,
        };
        if !lists.is_empty() {
            let nothing_else = |_: &mut Txn| Ok(());
            let publication = Publication {
                domain: public.domain,
                first: lists,
                objects: Vec::new(),
                also: &nothing_else,
            };
            self.publish_objects(&publication).await?;
        }
        Ok(report)
    }

    fn sign_list(&self, domain: DomainId, objects: Vec<StorageId>) -> Result<VerifiedEntry, ApiError> {
        let ops_seen = self.heads(Some(domain))?;
        let stamp = self.stamp()?;
        Ok(self
            .sign(PrefetchList {
                mesh_id: self.mesh(),
                domain_id: domain,
                objects,
                issuer: self.me,
                seq: stamp.seq,
                ops_seen,
                hlc: stamp.hlc,
            })
            .into())
    }

    /// Every object that members of a domain were told to fetch.
    fn prefetched(&self, domain: &DomainId) -> Result<BTreeSet<StorageId>, ApiError> {
        let lists = self
            .read()?
            .accepted::<PrefetchList>(Some(*domain).into(), sovm_object::entry::EntryKind::PrefetchList)?;
        Ok(lists
            .iter()
            .flat_map(|list| list.body().objects.iter().copied())
            .collect())
    }

    /// Data files of embargoed editions, sorted by id.
    async fn embargoed_objects(self: &Arc<Self>, chain: &Chain) -> Result<BTreeSet<StorageId>, ApiError> {
        let store = self.node_store(chain.documents);
        let unread = |error| errors::unread(&error, &NodeStore::SHOWN);
        let head = find_head(&store, None).await.map_err(unread)?.head;
        let full = FullInventory::load(&store, head, None).await.map_err(unread)?;
        let mut objects = BTreeSet::new();
        for (product, leaf) in full.leaves() {
            for entry in leaf
                .editions
                .iter()
                .filter(|entry| entry.state == EditionState::Embargoed)
            {
                let Some(bytes) = store.document(&layout::manifest(product, &entry.edition_id))? else {
                    continue;
                };
                let manifest = Stored::<Manifest>::verify(bytes, entry.manifest_sha256)
                    .map_err(|error| errors::undecoded(&error))?;
                for file in manifest.files.iter().filter(|file| file.root == FileRoot::Data) {
                    let pointer = store.document(&pointer_path(product, &file.path))?;
                    objects.extend(pointer.and_then(|bytes| pointed_at(&bytes)));
                }
            }
        }
        Ok(objects)
    }
}
