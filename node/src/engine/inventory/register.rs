//! Editions of members that don't write the catalogue (DESIGN §10).
//!
//! ```text
//! publisher   seals ─▶ one bundle of the edition's documents, a plain file of the release domain ┐ one
//!             Registration, signed by its site ──────────────────────────────────────────────────┘ transaction
//! authority   examines the documents ─▶ products/ and pending/ of its own store, one transaction for each edition
//!             folds them into its next version, as the Inventory's crate does for any store
//! ```
//!
//! A registration decides nothing. Until its edition is recorded, every member of the release domain sees it by name, with what it waits
//! for or why it is refused; it goes on with the next fold, however often one was interrupted.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use futures::FutureExt as _;
use sovm_catalog::{EntryState, Read as _, Txn};
use sovm_inventory::{
    doc::{EditionId, ProductId, Sha256, layout},
    edition::registration::{Claim, Registered, examine},
    reader::{FullInventory, find_head},
    transition::{EditionKey, Version},
};
use sovm_mesh::net::{steps::reached, store::Holding};
use sovm_object::{
    bundle::Bundle,
    id::{DomainId, SiteId, StorageId},
    record::Registration,
};

use super::{
    super::{core::Core, publish::Publication},
    chains::Chain,
    data::pointed_at,
    follow::Untaken,
    store::NodeStore,
};
use crate::{
    api::{EditionSealReport, InventoryChangeReport, RefusedEdition, RegistrationInfo, WaitingEdition},
    error::ApiError,
    inventory::errors,
};

/// An edition that a site asked to be recorded, and that no version records.
struct Asked {
    edition: EditionKey,
    publisher: SiteId,
    standing: Standing,
}

/// How far it is.
enum Standing {
    /// All of it is here, and its documents are those of one edition.
    Whole(Box<Registered>),
    /// Part of it is on its way.
    Waits(String),
    /// By a rule of the Inventory (`INV-n`).
    Refused(u16, String),
}

impl Standing {
    fn whole(&self) -> Option<&Registered> {
        match self {
            Self::Whole(registered) => Some(registered),
            Self::Waits(_) | Self::Refused(..) => None,
        }
    }
}

/// What became of registrations before the fold.
#[derive(Default)]
pub(super) struct Intake {
    refused: Vec<RefusedEdition>,
    waiting: Vec<WaitingEdition>,
}

impl Intake {
    /// Adds what the fold was not asked about to what it answered.
    pub(super) fn add_to(self, report: &mut InventoryChangeReport) {
        report.refused.extend(self.refused);
        report.waiting.extend(self.waiting);
    }
}

impl Core {
    /// The domain that a publisher of this catalogue asks in. Refuses when this site may not.
    pub(super) fn check_may_register(&self, chain: &Chain) -> Result<DomainId, ApiError> {
        let founding = chain.founding.as_ref().filter(|_| !chain.live_only);
        let Some(founding) = founding else {
            self.check_ours(chain)?;
            return Err(ApiError::bug("the authority of a catalogue without a release domain"));
        };
        self.check_may_publish(&self.read()?, &founding.release_domain)?;
        Ok(founding.release_domain)
    }

    /// Asks the catalogue's authority to record an edition that was sealed here. Entry, bundle and the end of the seal's journal are one
    /// step: a process that dies before it asks again, one that dies after it doesn't.
    pub(super) async fn register(
        self: &Arc<Self>,
        chain: &Chain,
        domain: DomainId,
        report: &EditionSealReport,
    ) -> Result<(), ApiError> {
        let product: ProductId = report.product_id.parse().map_err(ApiError::bug)?;
        let edition: EditionId = report.edition_id.parse().map_err(ApiError::bug)?;
        let manifest_sha256: Sha256 = report.manifest_sha256.parse().map_err(ApiError::bug)?;
        let store = self.node_store(chain.documents);
        let mut bundle = Bundle::default();
        let mut data = BTreeSet::new();
        store
            .edition(&product, &edition, manifest_sha256, &mut bundle, &mut data)
            .await?;
        let path = layout::pending(&product, &edition);
        let registration = store.needed(&path).await?;
        let registration_sha256 = Sha256::of(&registration);
        bundle.insert(path, registration);
        let object = self.make_bundle(&domain, &bundle).await?;
        let ask = || -> Result<Registration, ApiError> {
            let ops_seen = self.heads(Some(domain))?;
            let stamp = self.stamp()?;
            Ok(Registration {
                mesh_id: self.mesh(),
                domain_id: domain,
                catalog_id: *chain.catalog.as_bytes(),
                product: product.to_string(),
                edition_id: *edition.as_bytes(),
                bundle: object.id(),
                registration_sha256: *registration_sha256.as_bytes(),
                publisher: self.me,
                seq: stamp.seq,
                ops_seen,
                hlc: stamp.hlc,
            })
        };
        let (documents, journal) = (chain.documents, layout::journal(&product, &edition));
        let end_seal = |txn: &mut Txn| -> Result<(), ApiError> {
            txn.remove_document(&documents, &journal)?;
            Ok(())
        };
        reached("inventory.registering");
        let outcome = async {
            let publication = Publication {
                domain,
                first: vec![self.sign(ask()?).into()],
                objects: vec![&object],
                also: &end_seal,
            };
            self.publish_objects(&publication).boxed().await
        }
        .await;
        if let Err(error) = outcome {
            self.let_go([&object]).await;
            return Err(error);
        }
        reached("inventory.registered");
        Ok(())
    }

    /// Every registered edition of a catalogue that no version records, by name.
    async fn asked(self: &Arc<Self>, chain: &Chain) -> Result<Vec<Asked>, ApiError> {
        let Some(founding) = chain.founding.as_ref().filter(|_| !chain.live_only) else {
            return Ok(Vec::new());
        };
        let domain = founding.release_domain;
        let mut registrations = self.read()?.registrations(&domain)?;
        registrations.retain(|(_, registration, _)| registration.catalog_id == *chain.catalog.as_bytes());
        if registrations.is_empty() {
            return Ok(Vec::new());
        }
        let version = self.version_of(chain).boxed().await?;
        let mut asked = Vec::new();
        for (_, registration, state) in registrations {
            // The entry's own format has the forms of both ids.
            let edition = registration.product.parse::<ProductId>().ok();
            let edition = edition.zip(EditionId::from_bytes(registration.edition_id));
            let Some((product_id, edition_id)) = edition else {
                continue;
            };
            let edition = EditionKey::new(product_id, edition_id);
            if version.status(&edition).is_none() {
                let standing = self
                    .standing_of(&domain, &edition, &registration, state)
                    .boxed()
                    .await?;
                asked.push(Asked {
                    edition,
                    publisher: registration.publisher,
                    standing,
                });
            }
        }
        asked.sort_by(|one, other| one.edition.cmp(&other.edition));
        Ok(settled(asked))
    }

    async fn version_of(self: &Arc<Self>, chain: &Chain) -> Result<Version, ApiError> {
        let store = self.node_store(chain.documents);
        let unread = |error| errors::unread(&error, &NodeStore::SHOWN);
        let head = find_head(&store, None).await.map_err(unread)?.head;
        let full = FullInventory::load(&store, head, None).await.map_err(unread)?;
        full.to_version().map_err(ApiError::bug)
    }

    async fn standing_of(
        self: &Arc<Self>,
        domain: &DomainId,
        edition: &EditionKey,
        registration: &Registration,
        state: EntryState,
    ) -> Result<Standing, ApiError> {
        match state {
            EntryState::Accepted => {}
            EntryState::Refused(why) => return Ok(Standing::Refused(403, format!("INV-403: {edition}: {why}"))),
            state => return Ok(Standing::Waits(state.to_string())),
        }
        let bundle = match self.read_bundle(registration.bundle).await {
            Ok(bundle) => bundle,
            Err(Untaken::Waits(why)) => return Ok(Standing::Waits(why)),
            Err(Untaken::Wrong(why)) => return Ok(Standing::Refused(403, format!("INV-403: {edition}: {why}"))),
            Err(Untaken::Failed(error)) => return Err(error),
        };
        let came: BTreeMap<String, Bytes> = bundle
            .iter()
            .map(|(path, bytes)| (path.to_owned(), bytes.clone()))
            .collect();
        let claim = Claim {
            edition: edition.clone(),
            registration_sha256: Sha256::from_bytes(registration.registration_sha256),
        };
        let object_of = |bytes: &[u8]| pointed_at(bytes).map(|object| *object.as_bytes());
        let registered = match examine(&claim, &came, object_of) {
            Ok(registered) => registered,
            Err(unfit) => return Ok(Standing::Refused(unfit.rule(), format!("{edition}: {unfit}"))),
        };
        for object in &registered.objects {
            let object = StorageId::from_bytes(*object);
            let missing = if !self.opens_in(domain, &object)? {
                "the key of data file"
            } else if !matches!(self.blobs.holding(object).await?, Holding::Durable(_)) {
                "data file"
            } else {
                continue;
            };
            return Ok(Standing::Waits(format!(
                "{missing} {} is on its way",
                object.fmt_short()
            )));
        }
        Ok(Standing::Whole(Box::new(registered)))
    }

    /// Takes the documents of every whole edition into the store that the fold looks at, each edition in one transaction.
    pub(super) async fn take_in_registered(self: &Arc<Self>, chain: &Chain) -> Result<Intake, ApiError> {
        let mut intake = Intake::default();
        let store = self.node_store(chain.documents);
        let all = self.asked(chain).boxed().await?;
        // What was taken in earlier and no longer counts, because its publisher was put out or somebody else registered it differently,
        // must not be folded either.
        let stale = stale(&all);
        if !stale.is_empty() {
            let lock = self.stores.of(&chain.documents);
            let _held = lock.lock().await;
            store.put_all(&[], &stale)?;
        }
        for asked in all {
            let Asked { edition, standing, .. } = asked;
            let refusal = match standing {
                Standing::Whole(registered) => {
                    let lock = self.stores.of(&chain.documents);
                    let _held = lock.lock().await;
                    store.store_edition(&edition, &registered.documents)?
                }
                Standing::Refused(rule, why) => Some((rule, why)),
                Standing::Waits(message) => {
                    intake.waiting.push(WaitingEdition {
                        product_id: edition.product_id.to_string(),
                        edition_id: edition.edition_id.to_string(),
                        message,
                    });
                    None
                }
            };
            intake.refused.extend(refusal.map(|(rule, message)| RefusedEdition {
                product_id: edition.product_id.to_string(),
                edition_id: edition.edition_id.to_string(),
                rule,
                message,
            }));
        }
        reached("inventory.taken-in");
        Ok(intake)
    }

    /// The same for people: what waits for the authority, and what it will not record.
    pub(super) async fn registrations_of(self: &Arc<Self>, chain: &Chain) -> Result<Vec<RegistrationInfo>, ApiError> {
        let asked = self.asked(chain).boxed().await?;
        let info = |asked: Asked| {
            let (state, note) = match asked.standing {
                Standing::Whole(_) => ("whole", None),
                Standing::Waits(why) => ("waiting", Some(why)),
                Standing::Refused(_, why) => ("refused", Some(why)),
            };
            RegistrationInfo {
                product_id: asked.edition.product_id.to_string(),
                edition_id: asked.edition.edition_id.to_string(),
                publisher: asked.publisher.to_string(),
                state: state.to_owned(),
                note,
            }
        };
        Ok(asked.into_iter().map(info).collect())
    }
}

/// Registrations in the store's `pending/` of editions that nobody's accepted registration asks for.
fn stale(asked: &[Asked]) -> Vec<String> {
    let whole: BTreeSet<&EditionKey> = asked
        .iter()
        .filter(|one| one.standing.whole().is_some())
        .map(|one| &one.edition)
        .collect();
    asked
        .iter()
        .filter(|one| !whole.contains(&one.edition))
        .map(|one| layout::pending(&one.edition.product_id, &one.edition.edition_id))
        .collect()
}

/// One edition asked for twice with the same documents is one; with others, nobody knows which is meant, and all are refused.
/// `asked` is sorted by edition.
fn settled(asked: Vec<Asked>) -> Vec<Asked> {
    let disputed: BTreeSet<EditionKey> = asked
        .chunk_by(|one, other| one.edition == other.edition)
        .filter(|group| {
            let mut whole = group.iter().filter_map(|one| one.standing.whole());
            let first = whole.next();
            whole.any(|other| Some(other) != first)
        })
        .filter_map(|group| group.first().map(|one| one.edition.clone()))
        .collect();
    let mut kept: Vec<Asked> = Vec::with_capacity(asked.len());
    for mut next in asked {
        if next.standing.whole().is_some() {
            let mut same = kept.iter().rev().take_while(|known| known.edition == next.edition);
            if disputed.contains(&next.edition) {
                let why = format!(
                    "INV-405: {} is registered with other documents as well, by site {} among others",
                    next.edition,
                    next.publisher.fmt_short()
                );
                next.standing = Standing::Refused(405, why);
            } else if same.any(|known| known.standing.whole().is_some()) {
                continue;
            }
        }
        kept.push(next);
    }
    kept
}

impl NodeStore {
    /// Stores an edition's documents beside what is there, all of them or none; what lies there already stays as it is. Answers with the
    /// rule that refuses it and why, when something else lies in its place.
    fn store_edition(
        &self,
        edition: &EditionKey,
        documents: &[(String, Bytes)],
    ) -> Result<Option<(u16, String)>, ApiError> {
        let folder = format!("{}/", layout::edition(&edition.product_id, &edition.edition_id));
        for there in self.below(&folder)? {
            if documents.iter().all(|(path, _)| *path != there) {
                return Ok(Some((
                    99,
                    format!("INV-99: {edition}: {there} lies there already, and is not of it"),
                )));
            }
        }
        let mut put = Vec::new();
        for (path, bytes) in documents {
            match self.document(path)? {
                Some(there) if there == *bytes => {}
                Some(_) => {
                    return Ok(Some((
                        99,
                        format!("INV-99: {edition}: {path} is there with other bytes"),
                    )));
                }
                None => put.push((path.clone(), bytes.clone())),
            }
        }
        if !put.is_empty() {
            self.put_all(&put, &[])?;
        }
        Ok(None)
    }
}
