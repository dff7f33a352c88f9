//! A node in a directory of its own, opened in the test's process, and a hook at the named steps of publication.

use std::{
    cell::RefCell,
    io::Read,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow::{
    array::{AsArray as _, RecordBatch},
    datatypes::{Int64Type, SchemaRef},
};
use async_trait::async_trait;
use sovm_catalog::{Read as _, Scope};
use sovm_mesh::net::steps::watch_steps;
use sovm_object::{
    entry::VerifiedEntry,
    id::{DomainId, SiteId},
    record::{MembershipOp, OpKind, Role},
    secret::SiteKey,
    sign::Signed,
};

use super::{
    core::{Core, Node},
    founding,
    network::OpDraft,
};
use crate::{
    api::{
        Exchange, IngestReport, IngestRequest, InputFormat, Request, Response, RowSink, ScanCounts, Service as _,
        SqlReport, SqlRequest,
    },
    cli::{InitOptions, OpenOptions},
    config::{Home, Unlock},
    error::ApiError,
};

/// The node.
pub(super) struct World {
    dir: tempfile::TempDir,
    pub(super) node: Node,
}

impl World {
    pub(super) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = InitOptions {
            unlock: Self::unlock(&dir),
            name: Some("tester".to_owned()),
        };
        founding::init(&Self::home(&dir), options).await.unwrap();
        Self::open(dir).await
    }

    async fn open(dir: tempfile::TempDir) -> Self {
        let node = Node::open(&Self::home(&dir), Self::unlock(&dir), OpenOptions::default()).await;
        Self {
            node: node.unwrap(),
            dir,
        }
    }

    fn home(dir: &tempfile::TempDir) -> Home {
        Home::at(dir.path().join("home"))
    }

    fn unlock(dir: &tempfile::TempDir) -> Unlock {
        Unlock::KeyFile(dir.path().join("node.key"))
    }

    /// The same home, closed in order and opened again.
    pub(super) async fn reopened(self) -> Self {
        self.node.shutdown().await;
        let Self { dir, node } = self;
        drop(node);
        Self::open(dir).await
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.node.0
    }

    pub(super) fn domain(&self) -> DomainId {
        self.core().domain(None).unwrap()
    }

    pub(super) fn request() -> IngestRequest {
        IngestRequest {
            table: "t".to_owned(),
            files: Vec::new(),
            format: Some(InputFormat::Csv),
            nulls: Vec::new(),
            schema: None,
            domain: None,
            skip_bad_rows: None,
            parquet_key_file: None,
            every_ms: None,
        }
    }

    /// Publishes numbers into the table `t`, which has one column of them.
    pub(super) async fn ingest(&self, numbers: impl IntoIterator<Item = i64>) -> Result<IngestReport, ApiError> {
        let rows: String = numbers.into_iter().map(|n| format!("{n}\n")).collect();
        let input = std::io::Cursor::new(format!("n\n{rows}"));
        self.ingest_from(Self::request(), input, Exchange::silent()).await
    }

    pub(super) async fn ingest_from(
        &self,
        request: IngestRequest,
        input: impl Read + Send + Sync + 'static,
        exchange: Exchange,
    ) -> Result<IngestReport, ApiError> {
        let exchange = Exchange {
            input: Some(Box::new(input)),
            ..exchange
        };
        match self.node.call(Request::Ingest(request), exchange).await? {
            Response::Ingest(report) => Ok(report),
            other => panic!("{other:?}"),
        }
    }

    /// The numbers in `t`, in their order.
    pub(super) async fn numbers(&self) -> Vec<i64> {
        let rows = Arc::new(Numbers::default());
        let exchange = Exchange {
            rows: rows.clone(),
            ..Exchange::silent()
        };
        self.sql("select n from t order by n", false, exchange).await;
        rows.0.lock().unwrap().clone()
    }

    /// The one number a query answers with.
    pub(super) async fn number(&self, query: &str) -> i64 {
        let rows = Arc::new(Numbers::default());
        let exchange = Exchange {
            rows: rows.clone(),
            ..Exchange::silent()
        };
        self.sql(query, false, exchange).await;
        let numbers = rows.0.lock().unwrap();
        assert_eq!(numbers.len(), 1, "{query}");
        numbers[0]
    }

    /// What a query of all numbers reads.
    pub(super) async fn counted(&self) -> ScanCounts {
        let report = self.sql("select sum(n) from t", true, Exchange::silent()).await;
        report.explain.expect("asked for").scan
    }

    async fn sql(&self, query: &str, explain: bool, exchange: Exchange) -> SqlReport {
        let request = SqlRequest {
            query: query.to_owned(),
            explain,
            allow_incomplete: false,
            memory: None,
        };
        match self.node.call(Request::Sql(request), exchange).await.unwrap() {
            Response::Sql(report) => report,
            other => panic!("{other:?}"),
        }
    }
}

#[derive(Default)]
struct Numbers(Mutex<Vec<i64>>);

#[async_trait]
impl RowSink for Numbers {
    async fn schema(&self, _: SchemaRef) -> Result<(), ApiError> {
        Ok(())
    }

    async fn batch(&self, batch: RecordBatch) -> Result<(), ApiError> {
        let numbers = batch.column(0).as_primitive::<Int64Type>().values();
        self.0.lock().unwrap().extend_from_slice(numbers);
        Ok(())
    }
}

/// Another admin of the domain, who lives in the test.
pub(super) struct Admin {
    pub(super) key: SiteKey,
    seq: AtomicU64,
}

impl Admin {
    /// Made by this node, with all of the domain's history.
    pub(super) fn of(core: &Core, domain: DomainId) -> Self {
        let key = SiteKey::generate();
        add(core, domain, key.site_id(), Role::Admin, 1);
        Self {
            key,
            seq: AtomicU64::new(0),
        }
    }

    /// Decides about this node.
    pub(super) fn decide(&self, core: &Core, domain: DomainId, kind: OpKind, role: Role) {
        let seq = self.seq.fetch_add(1, Ordering::Relaxed) + 1;
        let rows = core.read().unwrap();
        let op = MembershipOp {
            mesh_id: core.mesh(),
            domain: Some(domain),
            kind,
            site: core.me,
            role,
            binding: None,
            history_from: 1,
            cut_seq: rows.highest_seq(Scope::Domain(domain), &core.me).unwrap(),
            issuer: self.key.site_id(),
            seq,
            hlc: core.stamp().unwrap().hlc,
            ops_seen: core.heads(Some(domain)).unwrap(),
        };
        admit(core, Signed::sign(op, &self.key, &core.mesh()));
    }
}

/// Adds a site to the domain, with history from one generation of its key on.
pub(super) fn add(core: &Core, domain: DomainId, site: SiteId, role: Role, history_from: u64) {
    let draft = OpDraft {
        domain: Some(domain),
        kind: OpKind::Add,
        site,
        role,
        binding: None,
        history_from,
        cut_seq: 0,
    };
    admit(core, core.sign_op(draft).unwrap());
}

/// A member who may read what comes from now on makes a new key necessary. It is minted only when `mint` says so.
pub(super) fn change_key(core: &Core, domain: DomainId, mint: bool) {
    let next = core.current_kek(&domain).unwrap().generation + 1;
    add(core, domain, SiteKey::generate().site_id(), Role::Reader, next);
    if mint {
        assert_eq!(core.ensure_kek(&domain).unwrap(), Some(next));
    }
}

fn admit(core: &Core, op: Signed<MembershipOp>) {
    let mut txn = core.catalog.begin().unwrap();
    core.admit_all(&mut txn, vec![VerifiedEntry::from(op)]).unwrap();
    let committed = core.commit(txn).unwrap();
    core.after_admission(&committed).unwrap();
}

type Act = Box<dyn FnOnce()>;

thread_local! {
    static HOOK: RefCell<Option<(&'static str, Act)>> = const { RefCell::new(None) };
}

/// Does something the next time this thread comes to a step. A test with a runtime of one thread comes to all steps of the
/// engine's own on that thread, so tests side by side do not meet.
pub(super) fn at(step: &'static str, act: impl FnOnce() + 'static) {
    HOOK.set(Some((step, Box::new(act))));
    // False when another test of this process was first with the same function.
    watch_steps(|step| {
        let due = HOOK.with_borrow_mut(|hook| hook.take_if(|(wanted, _)| *wanted == step));
        if let Some((_, act)) = due {
            act();
        }
    });
}
