//! Making a node: its keys, a mesh of one and the domain `main` (DESIGN §16.1, §16.2).
//!
//! The key store comes first and makes a directory a node. The founding records follow in one transaction; a crash in between is
//! repaired at the next start, because every start founds what is missing.

use rand::RngCore as _;
use sovm_catalog::{Read as _, Txn};
use sovm_mesh::proto::mls::{GroupView, MlsKey, MlsWrites};
use sovm_object::{
    entry::mesh_id_of,
    id::{DomainId, KekId},
    record::{DomainGenesis, HeadClaim, KekRecord, MeshGenesis, NodeBinding},
    secret::{DatabaseKey, Kek, SiteKey},
    sign::Signed,
};
use sovm_recovery::keystore::{Contents, KeyStore, MlsKey as StoredMlsKey, Unlock};

use super::{
    convert::mesh_info,
    core::{Core, fresh_lock_of, lock_of},
    service::check_display_name,
};
use crate::{api::InitReport, cli::InitOptions, config::Home, error::ApiError};

/// Name of the domain every node founds.
pub(super) const FIRST_DOMAIN: &str = "main";

/// Metadata row with this device's own name.
pub(super) const META_NODE_NAME: &str = "node-name";

/// Makes a node in `home`, or reports the one that is there. The caller holds the home's lock.
pub(super) async fn init(home: &Home, options: InitOptions) -> Result<InitReport, ApiError> {
    let created = !home.is_initialised();
    let unlock = if created {
        home.create()?;
        let unlock = fresh_lock_of(options.unlock)?;
        create_keys(home, &unlock)?;
        unlock
    } else {
        lock_of(options.unlock)?
    };
    let name = options.name.unwrap_or_else(machine_name);
    check_display_name(&name)?;
    let core = Core::open(home, &unlock, Some(&name)).await?;
    let report = core.init_report(created);
    core.close().await;
    report
}

/// Draws all keys of a new node. From here on the directory is a node.
pub(super) fn create_keys(home: &Home, unlock: &Unlock) -> Result<(), ApiError> {
    let mls_key = MlsKey::generate();
    let mut contents = Contents::new(SiteKey::generate(), DatabaseKey::generate());
    contents.mls_keys.push(StoredMlsKey {
        public: mls_key.public(),
        private: mls_key.expose_for_sealing().to_vec().into(),
    });
    KeyStore::create(home.path(), unlock, contents)?;
    Ok(())
}

impl Core {
    fn init_report(&self, created: bool) -> Result<InitReport, ApiError> {
        Ok(InitReport {
            home: self.home.path().to_owned(),
            site: self.me.to_string(),
            name: self.node_name()?,
            mesh: mesh_info(&self.read()?, self.mesh())?,
            created,
            key_file: self.config.key_file.is_some(),
        })
    }

    /// This device's own name.
    pub(super) fn node_name(&self) -> Result<String, ApiError> {
        let stored = self.read()?.meta(META_NODE_NAME)?;
        Ok(stored
            .and_then(|name| String::from_utf8(name).ok())
            .unwrap_or_else(|| self.me.fmt_short()))
    }
}

/// A domain that was drawn but is not stored yet.
pub(super) struct DomainDraft {
    pub(super) domain: DomainId,
    genesis: Signed<DomainGenesis>,
    kek_record: Signed<KekRecord>,
    claim: Signed<HeadClaim>,
    mls: MlsWrites,
    kek: Option<Kek>,
}

impl Core {
    /// Founds a mesh of one when this node is in none.
    pub(super) fn ensure_founded(&self, name: Option<&str>) -> Result<(), ApiError> {
        if let Some(mesh) = self.read()?.mesh_id()? {
            self.set_mesh(mesh);
            return Ok(());
        }
        let stamp = self.stamp()?;
        let genesis = MeshGenesis {
            founder: self.me,
            nonce: random(),
            created: stamp.hlc,
        };
        let genesis = Signed::sign(genesis, self.keys().site_key(), &MeshGenesis::CONTEXT_MESH);
        let mesh = mesh_id_of(&genesis);
        self.set_mesh(mesh);
        let display_name = name.map_or_else(|| self.me.fmt_short(), str::to_owned);
        let binding = self.sign_binding(&display_name)?;
        let draft = self.draft_domain(FIRST_DOMAIN)?;
        // Keys of a mesh that never came to be, or was left, open nothing any more.
        self.keys().update(|contents| {
            contents.mesh = Some(mesh);
            contents.domains.clear();
        })?;
        let now_ms = self.now_ms();
        let mut txn = self.catalog.begin()?;
        txn.admit(genesis, None, now_ms)?;
        txn.admit(binding, None, now_ms)?;
        txn.put_meta(META_NODE_NAME, display_name.as_bytes())?;
        self.store_domain(&mut txn, draft, now_ms)?;
        self.save(txn)?;
        Ok(())
    }

    /// Signs who this node is: its MLS key and name.
    pub(super) fn sign_binding(&self, display_name: &str) -> Result<Signed<NodeBinding>, ApiError> {
        let stamp = self.stamp()?;
        Ok(self.sign(NodeBinding {
            mesh_id: self.mesh(),
            site: self.me,
            mls_key: self.mls_key()?.public(),
            display_name: display_name.to_owned(),
            hlc: stamp.hlc,
            cose_key: None,
        }))
    }

    /// The key that signs for this node inside its groups.
    pub(super) fn mls_key(&self) -> Result<MlsKey, ApiError> {
        let keys = self.keys();
        let stored = keys
            .contents()
            .mls_keys
            .last()
            .ok_or_else(|| ApiError::bug("a key store without an MLS key"))?;
        let seed: &[u8; 32] = stored
            .private
            .as_slice()
            .try_into()
            .map_err(|_| ApiError::bug("an MLS key of another length"))?;
        Ok(MlsKey::from_seed(seed))
    }

    /// Draws a domain with this node as its only member: founding record, group of one, first KEK.
    pub(super) fn draft_domain(&self, name: &str) -> Result<DomainDraft, ApiError> {
        let (domain, group_id) = (DomainId::from_bytes(random()), random());
        let (kek, kek_id) = (Kek::generate(), KekId::from_bytes(random()));
        let mesh_id = self.mesh();
        let stamp = self.stamp()?;
        let genesis = self.sign(DomainGenesis {
            mesh_id,
            domain_id: domain,
            name: name.to_owned(),
            group_id,
            founder: self.me,
            seq: stamp.seq,
            created: stamp.hlc,
        });
        let key = self.mls_key()?;
        let (mls, view) = self.mls_step(|mls| mls.create_group(&group_id, self.me, &key))?;
        let kek_record = self.sign_kek(&domain, 1, kek_id, &kek, vec![self.me], Vec::new())?;
        let claim = self.sign_claim(&domain, &view)?;
        Ok(DomainDraft {
            domain,
            genesis,
            kek_record,
            claim,
            mls,
            kek: Some(kek),
        })
    }

    /// Puts a drafted domain into a step. Its key is durable before the step is: a KEK record without its key helps nobody.
    pub(super) fn store_domain(&self, txn: &mut Txn, mut draft: DomainDraft, now_ms: u64) -> Result<(), ApiError> {
        let kek_id = draft.kek_record.body().kek_id;
        let kek = draft
            .kek
            .take()
            .ok_or_else(|| ApiError::bug("a domain drafted twice"))?;
        self.keys().update(|contents| {
            let keys = contents.domain_mut(draft.domain);
            keys.ring.insert(1, kek_id, kek);
            keys.admins.insert(self.me);
        })?;
        txn.admit(draft.genesis, None, now_ms)?;
        txn.admit(draft.kek_record, None, now_ms)?;
        txn.admit(draft.claim, None, now_ms)?;
        self.put_mls(txn, &draft.mls)
    }

    /// Signs the public part of a KEK.
    pub(super) fn sign_kek(
        &self,
        domain: &DomainId,
        generation: u64,
        kek_id: KekId,
        kek: &Kek,
        mut audience: Vec<sovm_object::id::SiteId>,
        ops_seen: Vec<sovm_object::id::RecordId>,
    ) -> Result<Signed<KekRecord>, ApiError> {
        audience.sort_unstable();
        let stamp = self.stamp()?;
        Ok(self.sign(KekRecord {
            mesh_id: self.mesh(),
            domain_id: *domain,
            kek_id,
            generation,
            minter: self.me,
            audience,
            commitment: kek.commitment(),
            seq: stamp.seq,
            ops_seen,
            hlc: stamp.hlc,
        }))
    }

    /// Signs where this node stands in a domain's group.
    pub(super) fn sign_claim(&self, domain: &DomainId, view: &GroupView) -> Result<Signed<HeadClaim>, ApiError> {
        let stamp = self.stamp()?;
        Ok(self.sign(HeadClaim {
            mesh_id: self.mesh(),
            domain_id: *domain,
            site: self.me,
            counter: stamp.seq,
            epoch: view.epoch,
            branch: view.branch,
            hlc: stamp.hlc,
        }))
    }
}

/// Bytes of the operating system.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::rng().fill_bytes(&mut bytes);
    bytes
}

/// The machine's own name, for devices whose owner gave none.
pub(crate) fn machine_name() -> String {
    let name =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    let name = name.unwrap_or_default().trim().to_owned();
    if name.is_empty() { "device".to_owned() } else { name }
}
