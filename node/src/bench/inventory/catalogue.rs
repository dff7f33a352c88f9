//! What one more version of a large catalogue costs, beside a version that writes all of it anew.
//!
//! ```text
//! one structure product ─ four codelists in full
//! N data products       ─ each a dataflow and a data structure of its own, and a partial of every codelist
//! ```
//!
//! Every edition waits for its release, so that each release is judged as a real one is: the codelists must be live in their
//! home, and what an edition holds in full, no other may hold differently.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::Arc,
    time::{Duration, Instant as Started},
};

use sovm_inventory::{
    doc::{
        ArtefactRecord, Binding, CatalogId, CleanText, EditionId, EngineVersions, FormatVersion, Instant, JsonObject,
        Lifecycle, Manifest, Producer, ProductId, ProductKind, Root, Sha256, Stored, TableFingerprint, Urn,
    },
    store::{InventoryStore as _, LocalStore, StorePath},
    transition::{
        Context, EditionKey, Manifests, Operation, ProductProfile, Refusal, ReleaseClock, ReleaseWhen, Retention,
        RetentionSettings, SealedEdition, apply,
    },
    writer::{CommitError, Identity, NewCatalog, Planned, SystemClock, Writer},
};

use super::{
    Failure,
    counting::{Counting, Traffic},
};

const CODELISTS: [&str; 4] = ["FREQ", "GEO", "NAICS", "SEX"];
const FORM: &str = "1";

/// What was measured.
#[derive(Debug)]
pub(super) struct Releases {
    /// Bytes of the last root.
    pub(super) root_bytes: u64,
    /// Bytes of one product's leaf.
    pub(super) leaf_bytes: u64,
    /// A release of one product by a process that has read nothing.
    pub(super) one_cold: Versions,
    /// The same by a writer that wrote the version before.
    pub(super) one_warm: Versions,
    /// A release of many products in one version, by a process that has read nothing.
    pub(super) batch: Versions,
    /// How many these were.
    pub(super) batch_products: u64,
    /// A version in which every leaf is another one, by a writer that has read all of them.
    pub(super) all: Versions,
}

/// What versions of one kind cost.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// How long each took.
    pub(super) times: Vec<Duration>,
    /// What the last one asked the store for.
    pub(super) traffic: Traffic,
}

/// Builds the catalogue in an empty directory and measures on it.
pub(super) async fn measure(dir: &Path, products: u64, batch: u64, runs: u64) -> Result<Releases, Failure> {
    let catalogue = Catalogue::found(dir, products).await?;
    let mut next = 0..products;
    let mut one_cold = Versions::default();
    let mut one_warm = Versions::default();
    for _ in 0..runs {
        let writer = catalogue.cold()?;
        for versions in [&mut one_cold, &mut one_warm] {
            let number = next.next().ok_or("there are fewer products than releases to measure")?;
            catalogue.commit(&writer, vec![release(number)?], versions).await?;
        }
    }
    let releases: Vec<Operation> = next
        .take(usize::try_from(batch)?)
        .map(release)
        .collect::<Result<_, _>>()?;
    let batch_products = releases.len() as u64;
    let writer = catalogue.cold()?;
    let mut many = Versions::default();
    let root = catalogue.commit(&writer, releases, &mut many).await?;
    let leaf = root
        .products
        .get(&product(0)?)
        .ok_or("the catalogue lost a product")?
        .path();
    let leaf = catalogue.store.get(&StorePath::parse(&leaf)?).await?;
    let finals = (0..products).map(|number| {
        Ok(Operation::SetLifecycle {
            product_id: product(number)?,
            lifecycle: Lifecycle::Final,
        })
    });
    let finals: Vec<Operation> = finals.collect::<Result<_, Failure>>()?;
    let mut all = Versions::default();
    let root = catalogue.commit(&writer, finals, &mut all).await?;
    Ok(Releases {
        root_bytes: root.bytes().len() as u64,
        leaf_bytes: leaf.map_or(0, |leaf| leaf.bytes.len() as u64),
        one_cold,
        one_warm,
        batch: many,
        batch_products,
        all,
    })
}

struct Catalogue {
    store: Arc<Counting>,
    manifests: Manifests,
    forms: BTreeSet<CleanText>,
    retention: Retention,
}

impl Catalogue {
    /// Makes the catalogue, with every data edition waiting for its release and the structures live.
    async fn found(dir: &Path, products: u64) -> Result<Self, Failure> {
        let store = Arc::new(Counting::over(Arc::new(LocalStore::open(dir)?)));
        let new = NewCatalog {
            catalog_id: CatalogId::generate(),
            embargo: true,
            extensions: JsonObject::new(),
            reason: "a benchmark".to_owned(),
        };
        let (writer, _) = Writer::create(store.clone(), identity()?, Arc::new(SystemClock), new).await?;
        let mut manifests = Manifests::default();
        let mut editions = Vec::new();
        let mut register = |product_id: ProductId, kind, content: Content| -> Result<EditionKey, Failure> {
            let sealed = sealed(product_id, kind, content)?;
            let edition = sealed.edition();
            manifests.insert(Arc::clone(&sealed.manifest));
            let release_at = None;
            editions.push(Operation::Register { sealed, release_at });
            Ok(edition)
        };
        let home = register("structures".parse()?, ProductKind::Structure, structures()?)?;
        for number in 0..products {
            register(product(number)?, ProductKind::Data, table(number)?)?;
        }
        let catalogue = Self {
            store,
            manifests,
            forms: BTreeSet::from([FORM.parse()?]),
            retention: Retention::new(RetentionSettings::default())?,
        };
        let mut untimed = Versions::default();
        catalogue.commit(&writer, editions, &mut untimed).await?;
        catalogue.commit(&writer, vec![explicit(home)], &mut untimed).await?;
        Ok(catalogue)
    }

    /// A writer of a process that has read nothing.
    fn cold(&self) -> Result<Writer, Failure> {
        Ok(Writer::new(self.store.clone(), identity()?, Arc::new(SystemClock)))
    }

    /// Writes one version, and adds what it took.
    async fn commit(
        &self,
        writer: &Writer,
        operations: Vec<Operation>,
        versions: &mut Versions,
    ) -> Result<Stored<Root>, Failure> {
        self.store.reset();
        let begun = Started::now();
        let outcome = writer.commit(|base| {
            let context = Context {
                clock: ReleaseClock::alone(base.now),
                manifests: &self.manifests,
                canonical_forms: &self.forms,
                retention: &self.retention,
            };
            let transition = apply(base.version, &operations, &context)?;
            Ok::<_, Refusal>(Some(Planned::of(transition, "a benchmark")))
        });
        let outcome = outcome.await.map_err(|error| match error {
            CommitError::Refused(refusal) => Failure::from(refusal),
            CommitError::Write(error) => Failure::from(error),
        })?;
        let committed = outcome.committed().ok_or("a version was not written")?;
        versions.times.push(begun.elapsed());
        versions.traffic = self.store.traffic();
        committed.current?;
        Ok(committed.head.root().clone())
    }
}

/// What an edition holds.
struct Content {
    artefacts: Vec<ArtefactRecord>,
    bindings: Vec<Binding>,
}

/// The codelists in full.
fn structures() -> Result<Content, Failure> {
    let artefacts = CODELISTS.iter().map(|name| {
        Ok(ArtefactRecord {
            urn: codelist(name)?,
            fingerprint: fingerprint(name),
            partial_of: None,
        })
    });
    Ok(Content {
        artefacts: artefacts.collect::<Result<_, Failure>>()?,
        bindings: Vec::new(),
    })
}

/// One table with its own dataflow and data structure, and a part of every codelist.
fn table(number: u64) -> Result<Content, Failure> {
    let urn = |class: &str| -> Result<Urn, Failure> {
        let text = format!("urn:sdmx:org.sdmx.infomodel.datastructure.{class}=BENCH:T{number:06}(1.0)");
        Ok(text.parse()?)
    };
    let (dataflow, structure) = (urn("Dataflow")?, urn("DataStructure")?);
    let mut artefacts = Vec::new();
    for urn in [&dataflow, &structure] {
        artefacts.push(ArtefactRecord {
            urn: urn.clone(),
            fingerprint: fingerprint(urn.as_str()),
            partial_of: None,
        });
    }
    for name in CODELISTS {
        artefacts.push(ArtefactRecord {
            urn: codelist(name)?,
            fingerprint: fingerprint(&format!("{name} of {number}")),
            partial_of: Some(fingerprint(name)),
        });
    }
    artefacts.sort_by(|a, b| a.urn.cmp(&b.urn));
    let binding = Binding {
        dataflow,
        observations: 1,
        structural_version: structure.clone(),
        fingerprint: TableFingerprint {
            sum: number.into(),
            rows: 1,
        },
        structure_fingerprint: fingerprint(structure.as_str()),
    };
    Ok(Content {
        artefacts,
        bindings: vec![binding],
    })
}

/// An edition as a seal leaves it, without its files: a version is of names and hashes.
fn sealed(product_id: ProductId, kind: ProductKind, content: Content) -> Result<SealedEdition, Failure> {
    let manifest = Manifest {
        format_version: FormatVersion::MANIFEST,
        edition_id: edition(&product_id),
        product_id,
        previous: None,
        created_at: founded(),
        producer: identity()?.producer,
        schema_version: "1".parse()?,
        engine: EngineVersions::default(),
        files: Vec::new(),
        bindings: content.bindings,
        artefacts: content.artefacts,
        canonical_form: FORM.parse()?,
        content_fingerprint: None,
        producer_fields: JsonObject::new(),
        extensions: JsonObject::new(),
        extra: JsonObject::new(),
    };
    Ok(SealedEdition {
        manifest: Arc::new(Stored::encode(manifest)?),
        profile: ProductProfile {
            kind,
            lifecycle: Lifecycle::Revisable,
        },
        structure_source: None,
    })
}

fn identity() -> Result<Identity, Failure> {
    Ok(Identity {
        actor: "bench".parse()?,
        producer: Producer {
            name: "sovm".parse()?,
            version: "0".parse()?,
        },
    })
}

fn founded() -> Instant {
    Instant::from_unix_millis(1_767_225_600_000)
}

fn product(number: u64) -> Result<ProductId, Failure> {
    Ok(format!("{number:08}").parse()?)
}

/// A product's one edition: its id follows from the product's.
fn edition(product_id: &ProductId) -> EditionId {
    let hash = Sha256::of(product_id.as_str().as_bytes()).to_string();
    let mut random = [0; 10];
    random.copy_from_slice(&hash.as_bytes()[..10]);
    EditionId::at(founded(), random)
}

fn explicit(edition: EditionKey) -> Operation {
    let when = ReleaseWhen::Explicit;
    Operation::Release { edition, when }
}

fn release(number: u64) -> Result<Operation, Failure> {
    let product_id = product(number)?;
    let edition_id = edition(&product_id);
    Ok(explicit(EditionKey::new(product_id, edition_id)))
}

fn codelist(name: &str) -> Result<Urn, Failure> {
    Ok(format!("urn:sdmx:org.sdmx.infomodel.codelist.Codelist=BENCH:CL_{name}(1.0)").parse()?)
}

fn fingerprint(of: &str) -> Sha256 {
    Sha256::of(of.as_bytes())
}
