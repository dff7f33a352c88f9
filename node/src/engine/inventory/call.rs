//! What commands do with a catalogue of this node: found one, open one, tell of what was changed, hand one over.

use std::sync::Arc;

use futures::FutureExt as _;
use sovm_catalog::{DocumentRole, Read as _, Scope};
use sovm_inventory::{
    authority::Authority,
    doc::{CatalogId, EventKind},
    reader::find_head,
    store::InventoryStore,
    transition::Refusal,
    writer::{CommitError, Identity, NewCatalog, Outcome, Planned, SystemClock, Writer},
};
use sovm_object::{
    id::{DomainId, SiteId},
    roster::Right,
};

use super::{
    super::core::Core,
    announce::not_handed_over,
    chains::{Chain, Founding, Public, new_store},
    data::NodePlace,
    follow::Progress,
    register::Intake,
    store::NodeStore,
};
use crate::{
    api::{
        AudienceReport, CatalogueInfo, CatalogueListReport, CatalogueRequest, InventoryChangeReport,
        InventoryInitReport, OnCatalogue, ProgressSink, ReaderInfo, Response,
    },
    cli::InventoryCommand,
    error::{ApiError, ErrorKind},
    inventory::{Address, Author, Catalogue, errors, identity, reported},
};

impl Core {
    /// `inventory init` without `--store`: a catalogue that this node is the authority of.
    pub(super) async fn found_catalogue(
        self: &Arc<Self>,
        author: Author,
        embargo: bool,
        release_domain: Option<&str>,
        public_domain: Option<&str>,
    ) -> Result<InventoryInitReport, ApiError> {
        let release_domain = self.domain(release_domain)?;
        let public_domain = public_domain.map(|name| self.domain(Some(name))).transpose()?;
        let rows = self.read()?;
        self.check_may_publish(&rows, &release_domain)?;
        if let Some(public) = &public_domain {
            self.check_may_publish(&rows, public)?;
            if *public == release_domain {
                return Err(ApiError::new(
                    ErrorKind::Refused,
                    "the public domain and the release domain are the same, so an embargo would hide nothing",
                )
                .safe("no catalogue was made")
                .next("sovm domain create public, then name it with --public-domain public"));
            }
        }
        let author = self.as_author(author)?;
        let founding = Founding {
            authority: self.as_authority(),
            release_domain,
            public: public_domain.map(|domain| Public {
                domain,
                catalog: CatalogId::generate(),
            }),
        };
        let catalog_id = CatalogId::generate();
        let store = self.node_store(new_store(DocumentRole::Full, &catalog_id));
        let new = NewCatalog {
            catalog_id,
            embargo,
            extensions: founding.extensions(),
            reason: author.reason.clone(),
        };
        let actor = author.actor.to_string();
        let identity = identity(author)?;
        let store: Arc<dyn InventoryStore> = Arc::new(store);
        let (_, committed) = Writer::create(store, identity.clone(), Arc::new(SystemClock), new)
            .await
            .map_err(|error| errors::unwritten(&error, &Address::Own))?;
        let chain = self.chosen_chain(Some(&catalog_id)).boxed().await?;
        self.spread(&chain, identity).boxed().await?;
        let root = committed.head.root();
        Ok(InventoryInitReport {
            store: Address::Own.to_string(),
            catalog_id: catalog_id.to_string(),
            seq: root.seq.get(),
            root_sha256: root.sha256().to_string(),
            created_at: root.created_at.to_string(),
            embargo: root.embargo,
            actor,
        })
    }

    /// INV-158: the actor of a version in this node's own store is the site that signs it, whatever a caller says.
    pub(super) fn as_author(&self, author: Author) -> Result<Author, ApiError> {
        let name = self
            .read()?
            .bindings()?
            .get(&self.me)
            .map(|binding| binding.body().display_name.clone());
        let actor = match name {
            Some(name) => format!("{name} {}", self.me),
            None => self.me.to_string(),
        };
        Ok(Author {
            actor: actor.parse().map_err(ApiError::bug)?,
            ..author
        })
    }

    /// A catalogue of this node as commands work on it, with every version taken over that is here.
    pub(super) async fn open_catalogue(
        self: &Arc<Self>,
        named: Option<&CatalogId>,
        progress: Arc<dyn ProgressSink>,
    ) -> Result<(Catalogue, Chain), ApiError> {
        self.follow_all().boxed().await?;
        let chain = self.chosen_chain(named).boxed().await?;
        let store = self.node_store(chain.documents);
        let full = chain.founding.as_ref().filter(|_| !chain.live_only);
        let place = NodePlace {
            store: store.clone(),
            domain: full.map(|founding| founding.release_domain),
        };
        let catalogue = Catalogue::over(Arc::new(store), Arc::new(place), Address::Own, progress);
        let catalogue = match chain.is_ours(self) {
            true => catalogue,
            false => catalogue.registering(),
        };
        Ok((catalogue, chain))
    }

    /// Refuses a change of a catalogue that another site writes.
    pub(super) fn check_ours(&self, chain: &Chain) -> Result<(), ApiError> {
        if chain.is_ours(self) && !chain.live_only {
            return Ok(());
        }
        let writer = match &chain.authority {
            Some(authority) => {
                let bindings = self.read()?.bindings()?;
                let name = bindings
                    .get(&SiteId::from_bytes(*authority.as_bytes()))
                    .map_or("site", |binding| binding.body().display_name.as_str());
                format!("{name} {authority} writes it")
            }
            None => "it was made outside a node".to_owned(),
        };
        Err(ApiError::new(
            ErrorKind::Refused,
            format!("this node only reads catalogue {}: {writer}", chain.catalog),
        )
        .safe("no version was written; the catalogue is as it was")
        .next("run the command there, or hand the catalogue over there: sovm inventory hand-over SITE"))
    }

    /// Refuses a change also while the chain that the public reads is not here to go on with: the new authority of a catalogue
    /// takes both chains over as a reader before it writes.
    async fn check_can_go_on(self: &Arc<Self>, chain: &Chain) -> Result<(), ApiError> {
        self.check_ours(chain)?;
        let Some(public) = chain.founding.as_ref().and_then(|founding| founding.public) else {
            return Ok(());
        };
        match self.live_chain(&public).boxed().await? {
            Some(live) if live.is_ours(self) => Ok(()),
            // It begins with the first version that is told of.
            None if chain.founder == Some(self.as_authority()) => Ok(()),
            other => Err(not_handed_over(other.as_ref())),
        }
    }

    /// `inventory list`.
    pub(super) async fn list_catalogues(self: &Arc<Self>) -> Result<CatalogueListReport, ApiError> {
        let followed = self.follow_all().boxed().await?;
        let mut catalogues = Vec::new();
        for chain in self.chains().await? {
            let progress = followed
                .iter()
                .find(|(catalog, _)| *catalog == chain.catalog)
                .map(|(_, progress)| progress);
            catalogues.push(self.catalogue_info(&chain, progress).boxed().await?);
        }
        // Announced, and nothing of it is here yet.
        for (catalog, progress) in &followed {
            if catalogues
                .iter()
                .all(|known: &CatalogueInfo| known.catalog_id != catalog.to_string())
            {
                catalogues.push(CatalogueInfo {
                    catalog_id: catalog.to_string(),
                    releasing: releasing(Some(progress)),
                    alarm: progress.fork.as_ref().map(ToString::to_string),
                    ..CatalogueInfo::default()
                });
            }
        }
        Ok(CatalogueListReport { catalogues })
    }

    async fn catalogue_info(
        self: &Arc<Self>,
        chain: &Chain,
        progress: Option<&Progress>,
    ) -> Result<CatalogueInfo, ApiError> {
        let head = find_head(&self.node_store(chain.documents), None).await.ok();
        let registrations = self.registrations_of(chain).boxed().await?;
        let snapshot = self.read()?;
        let names = snapshot.domains()?;
        let name = |domain: &DomainId| {
            let known = names.iter().find(|known| known.genesis.domain_id == *domain);
            known.map_or_else(|| domain.to_string(), |known| known.genesis.name.clone())
        };
        Ok(CatalogueInfo {
            catalog_id: chain.catalog.to_string(),
            live_only: chain.live_only,
            authority: chain.authority.map(|authority| authority.to_string()),
            written_here: chain.is_ours(self),
            version: head.map(|refresh| refresh.head.root().seq.get()),
            release_domain: chain.founding.as_ref().map(|founding| name(&founding.release_domain)),
            public_domain: chain
                .founding
                .as_ref()
                .and_then(|founding| founding.public)
                .map(|public| name(&public.domain)),
            releasing: releasing(progress),
            alarm: progress
                .and_then(|progress| progress.fork.as_ref())
                .map(ToString::to_string),
            registrations,
        })
    }

    /// `inventory audience`: every site that can read an embargoed edition, and every site that reads what is live.
    pub(super) async fn audience(self: &Arc<Self>, named: Option<&CatalogId>) -> Result<AudienceReport, ApiError> {
        let chain = self.chosen_chain(named).boxed().await?;
        let Some(founding) = &chain.founding else {
            return Err(ApiError::new(
                ErrorKind::Refused,
                format!("catalogue {} does not say which domains read it", chain.catalog),
            )
            .safe("nothing was changed")
            .next("ask on the node that is its authority: sovm inventory list"));
        };
        Ok(AudienceReport {
            catalog_id: chain.catalog.to_string(),
            embargoed: self.readers_of(&founding.release_domain)?,
            live: match &founding.public {
                Some(public) => self.readers_of(&public.domain)?,
                None => Vec::new(),
            },
        })
    }

    pub(super) fn readers_of(&self, domain: &DomainId) -> Result<Vec<ReaderInfo>, ApiError> {
        let snapshot = self.read()?;
        let bindings = snapshot.bindings()?;
        let Some(roster) = snapshot.roster(Scope::Domain(*domain))? else {
            return Ok(Vec::new());
        };
        let reader = |site: SiteId| ReaderInfo {
            site: site.to_string(),
            name: bindings.get(&site).map(|binding| binding.body().display_name.clone()),
            this_node: site == self.me,
        };
        Ok(roster.readers().map(|(site, _)| reader(site)).collect())
    }

    /// `inventory hand-over`: one last version, in which this authority names the next.
    pub(super) async fn hand_over(
        self: &Arc<Self>,
        named: Option<&CatalogId>,
        author: Author,
        site: &str,
    ) -> Result<InventoryChangeReport, ApiError> {
        self.follow_all().boxed().await?;
        let chain = self.chosen_chain(named).boxed().await?;
        self.check_can_go_on(&chain).boxed().await?;
        let (site, name) = self.find_member(site)?;
        if let Some(domain) = self.closed_to(&chain, &site)? {
            let name = name.unwrap_or_else(|| site.to_string());
            return Err(ApiError::new(
                ErrorKind::Refused,
                format!("{name} may not publish in domain {domain}, so it could not go on with the catalogue"),
            )
            .safe("no version was written; the catalogue is as it was")
            .next("hand it over to a writer of the release domain and of the public domain: sovm invite --role writer --domain NAME"));
        }
        let to = Authority::from_bytes(*site.as_bytes());
        let author = self.as_author(author)?;
        let reason = author.reason.clone();
        let identity: Identity = identity(author)?;
        let store: Arc<dyn InventoryStore> = Arc::new(self.node_store(chain.documents));
        let writer = Writer::new(store, identity.clone(), Arc::new(SystemClock));
        let outcome = writer
            .commit(|base| {
                let mut extensions = base.root.map(|root| root.extensions.clone()).unwrap_or_default();
                to.name_in(&mut extensions);
                Ok::<_, Refusal>(Some(Planned {
                    extensions: Some(extensions),
                    ..Planned::new(base.version.clone(), EventKind::Describe, reason.clone())
                }))
            })
            .await;
        let committed = match outcome {
            Ok(Outcome::Committed(committed)) => committed,
            Ok(Outcome::Unchanged(_)) => return Err(ApiError::bug("a hand-over that changes nothing")),
            Err(CommitError::Refused(refusal)) => return Err(errors::refused(&refusal, &Address::Own)),
            Err(CommitError::Write(error)) => return Err(errors::unwritten(&error, &Address::Own)),
        };
        // The chain as it was: this is the last version that this node tells of.
        self.spread(&chain, identity).boxed().await?;
        Ok(reported("hand-over", &Address::Own, &committed))
    }

    /// The first domain of a catalogue that a site could not publish in, by name.
    fn closed_to(&self, chain: &Chain, site: &SiteId) -> Result<Option<String>, ApiError> {
        let Some(founding) = &chain.founding else {
            return Err(ApiError::bug("a catalogue of this node that names no domains"));
        };
        let snapshot = self.read()?;
        let domains = [
            Some(founding.release_domain),
            founding.public.map(|public| public.domain),
        ];
        for domain in domains.into_iter().flatten() {
            let role = snapshot
                .roster(Scope::Domain(domain))?
                .and_then(|roster| roster.role(site));
            if !role.is_some_and(|role| role.has(Right::Append)) {
                let known = snapshot.domains()?;
                let known = known.iter().find(|known| known.genesis.domain_id == domain);
                return Ok(Some(
                    known.map_or_else(|| domain.to_string(), |known| known.genesis.name.clone()),
                ));
            }
        }
        Ok(None)
    }
}

/// Carries a command out on a thread of its own. It goes on to its end when whoever asked goes away, and the compiler need not prove
/// of every step of every command that it could move between threads, which took it ten minutes.
async fn perform(command: OnCatalogue, catalogue: Catalogue, author: Author) -> Result<Response, ApiError> {
    let runtime = tokio::runtime::Handle::current();
    let performing = move || runtime.block_on(command.perform(&catalogue, author));
    tokio::task::spawn_blocking(performing).await.map_err(ApiError::bug)?
}

/// What was decided stands; only those who read it elsewhere do not know of it yet.
fn untold(error: ApiError) -> ApiError {
    let message = format!(
        "it is done here, and the domains were not told of it: {}",
        error.message
    );
    ApiError { message, ..error }
        .safe("the catalogue is sound; its readers go on with the version before")
        .next("sovm inventory announce")
}

/// What was sealed stays sealed; the same command asks again.
fn unasked(error: ApiError) -> ApiError {
    let message = format!(
        "it is sealed here, and its authority was not asked to record it: {}",
        error.message
    );
    ApiError { message, ..error }
        .safe("the edition is kept as it was sealed; nobody else sees it")
        .next("run the same command again")
}

fn releasing(progress: Option<&Progress>) -> Option<String> {
    let (seq, why) = progress?.releasing.as_ref()?;
    Some(format!("version {seq}: {why}"))
}

impl NodeStore {
    /// What messages call it.
    pub(super) const SHOWN: Address = Address::Own;
}

impl Core {
    /// A command on a catalogue of this node.
    pub(in super::super) async fn catalogue(
        self: &Arc<Self>,
        request: CatalogueRequest,
        progress: Arc<dyn ProgressSink>,
    ) -> Result<Response, ApiError> {
        let named = request.catalog.as_ref();
        let author = self.as_author(Author::new(None, request.reason)?)?;
        let command = match request.ask.0 {
            OnCatalogue::Inventory(InventoryCommand::Init {
                embargo,
                release_domain,
                public_domain,
                ..
            }) => {
                let (release, public) = (release_domain.as_deref(), public_domain.as_deref());
                let report = self.found_catalogue(author, embargo, release, public).boxed().await?;
                return Ok(Response::InventoryInit(report));
            }
            OnCatalogue::Inventory(InventoryCommand::List { .. }) => {
                return Ok(Response::CatalogueList(self.list_catalogues().boxed().await?));
            }
            OnCatalogue::Inventory(InventoryCommand::Audience { .. }) => {
                return Ok(Response::Audience(self.audience(named).boxed().await?));
            }
            OnCatalogue::Inventory(InventoryCommand::HandOver { site, .. }) => {
                let report = self.hand_over(named, author, &site).boxed().await?;
                return Ok(Response::InventoryChange(Box::new(report)));
            }
            command => command,
        };
        let (catalogue, chain) = self.open_catalogue(named, progress).boxed().await?;
        // Whoever doesn't write the catalogue builds and seals editions for its authority to record.
        let builds = matches!(&command, OnCatalogue::Edition(edition) if edition.writes());
        let asks_in = match builds && !chain.is_ours(self) {
            true => Some(self.check_may_register(&chain)?),
            false => None,
        };
        let writes = command.writes() && asks_in.is_none();
        // A site that handed the catalogue over may still have to tell of the version in which it did.
        let tells = matches!(command, OnCatalogue::Inventory(InventoryCommand::Announce { .. }));
        if writes && !(tells && self.wrote_newest(&chain).boxed().await?) {
            self.check_can_go_on(&chain).boxed().await?;
        }
        let identity = identity(author.clone())?;
        let mut answer = match command {
            OnCatalogue::Inventory(InventoryCommand::Announce { .. }) => None,
            OnCatalogue::Inventory(InventoryCommand::Prefetch { .. }) => {
                Some(Response::Prefetch(self.prefetch(&chain).boxed().await?))
            }
            command => {
                let folds = matches!(&command, OnCatalogue::Inventory(InventoryCommand::Fold { .. }));
                let intake = match folds {
                    true => self.take_in_registered(&chain).boxed().await?,
                    false => Intake::default(),
                };
                let mut answer = perform(command, catalogue, author).await?;
                match (&mut answer, asks_in) {
                    (Response::InventoryChange(report), _) => intake.add_to(report),
                    (Response::EditionSeal(report), Some(domain)) if report.findings.is_empty() => {
                        let asked = self.register(&chain, domain, report).boxed().await;
                        asked.map_err(unasked)?;
                        report.registered_with = chain.authority.map(|authority| authority.to_string());
                    }
                    _ => {}
                }
                Some(answer)
            }
        };
        if let Some(Response::InventoryExpunge(report)) = &mut answer {
            self.say_who_holds(&chain, report).boxed().await?;
        }
        if writes {
            self.spread(&chain, identity).boxed().await.map_err(untold)?;
        }
        match answer {
            Some(answer) => Ok(answer),
            None => Ok(Response::CatalogueList(self.list_catalogues().boxed().await?)),
        }
    }
}
