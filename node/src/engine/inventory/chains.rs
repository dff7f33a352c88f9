//! Which catalogues this node has, which of them it writes, and in which domains they are read (DESIGN §10).
//!
//! A catalogue that a node founds is two chains: the *full* one, for the members of the release domain, and, where there is a
//! public domain, the *live-only* one, whose versions show what the public may see. `catalog.json` says which domains those are:
//!
//! ```json
//! "extensions": {"sovm": {"authority": "…", "release_domain": "…", "public_domain": "…", "live_catalog": "…"}}
//! ```

use std::sync::Arc;

use futures::FutureExt as _;
use sovm_catalog::{DocumentRole, DocumentStore, Read as _};
use sovm_inventory::{
    authority::Authority,
    doc::{Catalog, CatalogId, Document as _, Json, JsonObject, Root, Seq, Sha256, Stored, layout},
    reader::{ReadError, find_head},
    section,
    verify::is_live_only,
};
use sovm_object::id::DomainId;

use super::{super::core::Core, store::NodeStore};
use crate::{
    error::{ApiError, ErrorKind},
    inventory::errors,
};

/// What a catalogue is founded with.
#[derive(Clone, Debug)]
pub(super) struct Founding {
    pub(super) authority: Authority,
    /// Whose members see everything.
    pub(super) release_domain: DomainId,
    /// Whose members see what is live; none for a catalogue without a public.
    pub(super) public: Option<Public>,
}

/// Where the public reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Public {
    pub(super) domain: DomainId,
    /// The id of the live-only chain.
    pub(super) catalog: CatalogId,
}

impl Founding {
    /// The extension sections of `catalog.json`.
    pub(super) fn extensions(&self) -> JsonObject {
        let mut extensions = JsonObject::new();
        section::change(&mut extensions, |section| {
            section.insert("release_domain", self.release_domain.to_string());
            if let Some(public) = &self.public {
                section.insert("public_domain", public.domain.to_string());
                section.insert("live_catalog", public.catalog.to_string());
            }
        });
        self.authority.name_in(&mut extensions);
        extensions
    }

    /// None for a live-only chain and for a catalogue that was made outside a node.
    fn of(catalog: &Catalog) -> Option<Self> {
        let section = section::of(&catalog.extensions)?;
        let text = |name: &str| match section.get(name) {
            Some(Json::String(text)) => Some(text.as_str()),
            _ => None,
        };
        let public = text("public_domain").zip(text("live_catalog"));
        Some(Self {
            authority: Authority::founding(catalog).ok().flatten()?,
            release_domain: text("release_domain")?.parse().ok()?,
            public: match public {
                Some((domain, catalog)) => Some(Public {
                    domain: domain.parse().ok()?,
                    catalog: catalog.parse().ok()?,
                }),
                None => None,
            },
        })
    }
}

/// A chain of versions that this node holds.
#[derive(Clone, Debug)]
pub(in super::super) struct Chain {
    pub(super) documents: DocumentStore,
    pub(super) catalog: CatalogId,
    pub(super) live_only: bool,
    /// Who signed the first version; none for a catalogue that was copied in from outside.
    pub(super) founder: Option<Authority>,
    /// Who writes the next version; none for a catalogue that was copied in from outside.
    pub(super) authority: Option<Authority>,
    /// In a full chain made by a node.
    pub(super) founding: Option<Founding>,
}

impl Chain {
    /// Whether this node writes the next version.
    pub(super) fn is_ours(&self, core: &Core) -> bool {
        self.authority == Some(core.as_authority())
    }
}

impl Core {
    /// This node as the authority of a catalogue.
    pub(super) fn as_authority(&self) -> Authority {
        Authority::from_bytes(*self.me.as_bytes())
    }

    pub(super) fn node_store(self: &Arc<Self>, documents: DocumentStore) -> NodeStore {
        NodeStore::new(self.clone(), documents)
    }

    /// Every chain this node holds documents of.
    pub(super) async fn chains(self: &Arc<Self>) -> Result<Vec<Chain>, ApiError> {
        let mut chains = Vec::new();
        for documents in self.read()?.document_stores()? {
            chains.extend(self.chain(documents).boxed().await?);
        }
        Ok(chains)
    }

    /// The chain in a store; none where nothing was founded yet.
    pub(super) async fn chain(self: &Arc<Self>, documents: DocumentStore) -> Result<Option<Chain>, ApiError> {
        let Some(bytes) = self.read()?.document(&documents, layout::CATALOG)? else {
            return Ok(None);
        };
        let catalog = Catalog::decode(&bytes).map_err(|error| errors::undecoded(&error))?;
        let founder = Authority::founding(&catalog).map_err(ApiError::bug)?;
        let authority = match find_head(&self.node_store(documents), None).await {
            // Every root keeps the sections of the one before, so the newest says who it was handed over to last.
            Ok(refresh) => Authority::handed_to(&refresh.head.root().extensions)
                .map_err(ApiError::bug)?
                .or(founder),
            Err(ReadError::NoVersion { .. }) => founder,
            Err(error) => return Err(errors::unread(&error, &NodeStore::SHOWN)),
        };
        Ok(Some(Chain {
            documents,
            catalog: catalog.catalog_id,
            live_only: is_live_only(&catalog),
            founder,
            authority,
            founding: Founding::of(&catalog),
        }))
    }

    /// Who signed a version: the one that the version before it names, which is the founder until somebody was handed the catalogue.
    pub(super) async fn signer_of(
        self: &Arc<Self>,
        chain: &Chain,
        root: &Stored<Root>,
    ) -> Result<Option<Authority>, ApiError> {
        let named = match before(root) {
            Some((seq, sha256)) => {
                let root = self.node_store(chain.documents).root(seq, sha256).await?;
                Authority::handed_to(&root.extensions).map_err(ApiError::bug)?
            }
            None => None,
        };
        Ok(named.or(chain.founder))
    }

    /// Whether this node signed the newest version here. It may have handed the catalogue over in it.
    pub(super) async fn wrote_newest(self: &Arc<Self>, chain: &Chain) -> Result<bool, ApiError> {
        let found = find_head(&self.node_store(chain.documents), None).await;
        let head = found.map_err(|error| errors::unread(&error, &NodeStore::SHOWN))?.head;
        Ok(self.signer_of(chain, head.root()).await? == Some(self.as_authority()))
    }

    /// The chain that the public of a catalogue reads, as far as it is here.
    pub(super) async fn live_chain(self: &Arc<Self>, public: &Public) -> Result<Option<Chain>, ApiError> {
        match self.documents_of(&public.catalog)? {
            Some(documents) => self.chain(documents).boxed().await,
            None => Ok(None),
        }
    }

    /// The chain a command means: the catalogue named, or the only one; what this node writes before what it follows, and
    /// everything before what is live only.
    pub(super) async fn chosen_chain(self: &Arc<Self>, named: Option<&CatalogId>) -> Result<Chain, ApiError> {
        let mut chains = self.chains().await?;
        if let Some(named) = named {
            chains.retain(|chain| chain.catalog == *named);
        }
        // The live-only chain of a catalogue written here is an output, and nobody means it without naming it.
        chains.sort_by_key(|chain| (chain.live_only, !chain.is_ours(self), chain.catalog));
        let rank = |chain: &Chain| (chain.live_only, !chain.is_ours(self));
        match chains.as_slice() {
            [] => Err(match named {
                Some(named) => ApiError::new(ErrorKind::NotFound, format!("this node has no catalogue {named}"))
                    .safe("nothing was changed")
                    .next("sovm inventory list"),
                None if !self.read()?.inventory_catalogs()?.is_empty() => {
                    ApiError::new(ErrorKind::Incomplete, "a catalogue was announced here, and is on its way")
                        .safe("nothing was changed")
                        .next("sovm sync, then the same command; sovm inventory list shows what it waits for")
                }
                None => ApiError::new(ErrorKind::NotFound, "this node has no catalogue yet")
                    .safe("nothing was changed")
                    .next("sovm inventory init makes one, and sovm sync brings those of your domains; --store DIR names one in a directory"),
            }),
            [first, second, ..] if rank(first) == rank(second) => Err(ApiError::new(
                ErrorKind::BadInput,
                "this node has several catalogues",
            )
            .safe("nothing was changed")
            .next("name one with --catalog ID; sovm inventory list shows them")),
            [first, ..] => Ok(first.clone()),
        }
    }

    /// The store that holds a catalogue's documents here, whatever it began as.
    pub(super) fn documents_of(&self, catalog: &CatalogId) -> Result<Option<DocumentStore>, ApiError> {
        let stores = self.read()?.document_stores()?;
        Ok(stores.into_iter().find(|store| store.catalog == *catalog.as_bytes()))
    }
}

/// The version that one was built on.
pub(super) fn before(root: &Root) -> Option<(Seq, Sha256)> {
    let previous = root.history.as_ref()?.previous_root_sha256?;
    Some((root.seq.previous()?, previous))
}

/// The store of a chain that begins here.
pub(super) fn new_store(role: DocumentRole, catalog: &CatalogId) -> DocumentStore {
    DocumentStore {
        role,
        catalog: *catalog.as_bytes(),
    }
}
