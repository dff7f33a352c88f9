//! The seam itself: a daemon on a real socket, a client at the other end, a service that does nothing else.

use std::{
    io::{self, Read},
    os::unix::fs::PermissionsExt as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arrow::{
    array::{Int64Array, RecordBatch},
    datatypes::SchemaRef,
};
use async_trait::async_trait;
use tokio::sync::oneshot;

use super::*;
use crate::{
    api::{
        Discard, DomainListReport, Event, IngestReport, IngestRequest, ProgressSink, Response, RowSink, SqlReport,
        SqlRequest, SyncReport, Unit,
    },
    client::{Client, Reached, reach},
};

/// Answers a few requests in ways that try the seam.
#[derive(Default)]
struct Probe {
    dropped: Arc<AtomicBool>,
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn numbers(from: i64) -> RecordBatch {
    RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(from..from + 10_000)) as _)]).unwrap()
}

#[async_trait]
impl Service for Probe {
    async fn call(&self, request: Request, exchange: Exchange) -> Result<Response, ApiError> {
        match request {
            Request::DomainList {} => Ok(Response::DomainList(DomainListReport { domains: vec![] })),
            Request::MeshMembers {} => panic!("on purpose"),
            Request::Ingest(request) => {
                let mut input = exchange.input.unwrap();
                let read = tokio::task::spawn_blocking(move || io::copy(&mut input, &mut io::sink()))
                    .await
                    .unwrap();
                let input_bytes = read.map_err(|error| ApiError::io("reading", &error))?;
                Ok(Response::Ingest(IngestReport {
                    table: request.table,
                    created: false,
                    rows: 0,
                    bad_rows: 0,
                    input_bytes,
                    output_bytes: 0,
                    objects: vec![],
                    publications: 1,
                    elapsed_ms: 0,
                }))
            }
            Request::Sql(request) => {
                exchange.rows.schema(numbers(0).schema()).await?;
                for from in 0..20 {
                    exchange.progress("working", Unit::Steps, from, Some(20));
                    exchange.rows.batch(numbers(from as i64)).await?;
                }
                if request.query == "fail" {
                    return Err(ApiError::new(ErrorKind::Incomplete, "half way"));
                }
                exchange.progress.event(Event::Notice { text: "done".into() });
                // The notice is sent by a task of its own.
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok(Response::Sql(SqlReport {
                    columns: vec![],
                    rows: 200_000,
                    elapsed_ms: 0,
                    explain: None,
                    coverage: None,
                }))
            }
            Request::Sync { .. } => {
                let _guard = SetOnDrop(self.dropped.clone());
                tokio::time::sleep(Duration::from_secs(600)).await;
                Ok(Response::Sync(SyncReport {
                    peers: 0,
                    received: 0,
                    sent: 0,
                    objects: Default::default(),
                    blind: false,
                }))
            }
            other => Err(ApiError::new(ErrorKind::Refused, other.name())),
        }
    }
}

struct Running {
    home: Home,
    _dir: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    served: tokio::task::JoinHandle<Result<(), ApiError>>,
    dropped: Arc<AtomicBool>,
}

impl Running {
    fn start(sub: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join(sub));
        let lock = home.lock().unwrap();
        let daemon = Daemon::bind(&home, &lock).unwrap();
        let probe = Probe::default();
        let dropped = probe.dropped.clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(async move {
            let served = daemon.serve(Arc::new(probe), async { drop(stopped.await) }).await;
            drop(lock);
            served
        });
        Self {
            home,
            _dir: dir,
            stop: Some(stop),
            served,
            dropped,
        }
    }

    async fn client(&self) -> Client {
        Client::connect(&self.home).await.unwrap().unwrap()
    }

    async fn stop(mut self) -> Home {
        self.stop.take().unwrap().send(()).unwrap();
        self.served.await.unwrap().unwrap();
        self.home
    }
}

#[derive(Default)]
struct Kept {
    rows: Mutex<Vec<RecordBatch>>,
    events: Mutex<Vec<Event>>,
}

#[async_trait]
impl RowSink for Kept {
    async fn schema(&self, _: SchemaRef) -> Result<(), ApiError> {
        Ok(())
    }

    async fn batch(&self, batch: RecordBatch) -> Result<(), ApiError> {
        self.rows.lock().unwrap().push(batch);
        Ok(())
    }
}

impl ProgressSink for Kept {
    fn event(&self, event: Event) {
        self.events.lock().unwrap().push(event);
    }
}

/// A reader that has gone away.
struct Gone;

#[async_trait]
impl RowSink for Gone {
    async fn schema(&self, _: SchemaRef) -> Result<(), ApiError> {
        Ok(())
    }

    async fn batch(&self, _: RecordBatch) -> Result<(), ApiError> {
        Err(ApiError::broken_pipe())
    }
}

fn sql(query: &str) -> Request {
    Request::Sql(SqlRequest {
        query: query.into(),
        explain: false,
        allow_incomplete: false,
        memory: None,
    })
}

fn ingest() -> Request {
    Request::Ingest(IngestRequest {
        table: "t".into(),
        files: vec![],
        format: None,
        nulls: vec![],
        schema: None,
        domain: None,
        skip_bad_rows: None,
        parquet_key_file: None,
        every_ms: None,
    })
}

fn with_input(input: impl Read + Send + Sync + 'static) -> Exchange {
    Exchange {
        input: Some(Box::new(input)),
        ..Exchange::silent()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_rows_and_events_come_through() {
    let running = Running::start("home");
    let client = running.client().await;
    let answer = client.call(Request::DomainList {}, Exchange::silent()).await.unwrap();
    assert_eq!(answer, Response::DomainList(DomainListReport { domains: vec![] }));

    let kept = Arc::new(Kept::default());
    let exchange = Exchange {
        input: None,
        rows: kept.clone(),
        progress: kept.clone(),
    };
    client.call(sql("rows"), exchange).await.unwrap();
    assert_eq!(*kept.rows.lock().unwrap(), (0..20).map(numbers).collect::<Vec<_>>());
    let events = kept.events.lock().unwrap().clone();
    assert!(events.contains(&Event::Notice { text: "done".into() }), "{events:?}");

    let exchange = Exchange {
        input: None,
        rows: Arc::new(Kept::default()),
        progress: Arc::new(Discard),
    };
    assert_eq!(
        client.call(sql("fail"), exchange).await.unwrap_err(),
        ApiError::new(ErrorKind::Incomplete, "half way")
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_is_streamed() {
    let running = Running::start("home");
    let client = running.client().await;
    for length in [0, 1, 5_000_000] {
        let Response::Ingest(report) = client
            .call(ingest(), with_input(io::repeat(7).take(length)))
            .await
            .unwrap()
        else {
            panic!("another answer");
        };
        assert_eq!(report.input_bytes, length);
    }
    running.stop().await;
}

struct BreaksOff(u32);

impl Read for BreaksOff {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::other("the pipe burst"));
        }
        self.0 -= 1;
        Ok(out.len())
    }
}

/// Half an input is an error, never an end: otherwise half a file would be published as if it were whole.
#[tokio::test(flavor = "multi_thread")]
async fn input_that_breaks_off_is_an_error() {
    let running = Running::start("home");
    client_error_is_not_success(&running.client().await).await;
    running.stop().await;
}

async fn client_error_is_not_success(client: &Client) {
    assert!(client.call(ingest(), with_input(BreaksOff(3))).await.is_err());
}

/// A request that does not read its input gets its answer all the same, while the input never ends.
#[tokio::test(flavor = "multi_thread")]
async fn endless_input_does_not_hold_up_an_answer() {
    let running = Running::start("home");
    let client = running.client().await;
    let call = client.call(Request::DomainList {}, with_input(io::repeat(0)));
    tokio::time::timeout(Duration::from_secs(20), call)
        .await
        .unwrap()
        .unwrap();
    running.stop().await;
}

/// A panic in a handler costs its caller an error with code 255; the daemon lives on.
#[tokio::test(flavor = "multi_thread")]
async fn panic_is_an_error_and_the_daemon_lives() {
    let running = Running::start("home");
    let client = running.client().await;
    let error = client
        .call(Request::MeshMembers {}, Exchange::silent())
        .await
        .unwrap_err();
    assert_eq!(error.exit_code, 255);
    assert!(error.message.contains("on purpose"), "{error}");
    client.call(Request::DomainList {}, Exchange::silent()).await.unwrap();
    running.stop().await;
}

/// DESIGN §16.9: token file 0600, directory 0700; without the token nothing is done.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_gets_in() {
    let running = Running::start("home");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let run = running.home.run_dir();
    assert_eq!(
        (mode(&run), mode(&run.join("token")), mode(&run.join("sovm.sock"))),
        (0o700, 0o600, 0o600)
    );
    std::fs::write(run.join("token"), "00".repeat(32)).unwrap();
    let error = running
        .client()
        .await
        .call(Request::DomainList {}, Exchange::silent())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::WrongKey);
    running.stop().await;
}

/// A reader that goes away stops the request.
#[tokio::test(flavor = "multi_thread")]
async fn request_stops_when_its_caller_goes() {
    let running = Running::start("home");
    let client = running.client().await;
    let exchange = Exchange {
        input: None,
        rows: Arc::new(Gone),
        progress: Arc::new(Discard),
    };
    assert_eq!(client.call(sql("rows"), exchange).await.unwrap_err().exit_code, 3);
    let call = client.call(Request::Sync { wait_secs: 0 }, Exchange::silent());
    assert!(tokio::time::timeout(Duration::from_millis(200), call).await.is_err());
    for _ in 0..100 {
        if running.dropped.load(Ordering::SeqCst) {
            running.stop().await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the request goes on without its caller");
}

/// A home with a path too long for a socket works too, and a daemon that was killed is no obstacle.
#[tokio::test(flavor = "multi_thread")]
async fn long_paths_and_stale_sockets() {
    for sub in ["home".to_owned(), format!("{}/{}", "a".repeat(80), "b".repeat(80))] {
        let running = Running::start(&sub);
        running
            .client()
            .await
            .call(Request::DomainList {}, Exchange::silent())
            .await
            .unwrap();
        let socket = Endpoint::of(&running.home).socket;
        assert!(socket.as_os_str().len() <= 104, "{}", socket.display());
        let home = running.home.clone();
        let (dir, served) = (running._dir, running.served);
        // As after kill -9: nothing is cleared away.
        served.abort();
        let _ = served.await;
        std::fs::create_dir_all(home.run_dir()).unwrap();
        let stale = std::os::unix::net::UnixListener::bind(home.run_dir().join("sovm.sock")).ok();
        drop(stale);
        assert!(Client::connect(&home).await.unwrap().is_none());
        let lock = match reach(&home, Duration::ZERO).await.unwrap() {
            Reached::Here(lock) => lock,
            Reached::Daemon(_) => panic!("nobody runs there"),
        };
        Daemon::bind(&home, &lock).unwrap();
        drop(dir);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_find_the_daemon_and_wait_for_a_short_one() {
    let running = Running::start("home");
    assert!(matches!(
        reach(&running.home, Duration::ZERO).await.unwrap(),
        Reached::Daemon(_)
    ));
    // Stopping removes the socket and gives the lock back.
    let dir = tempfile::tempdir().unwrap();
    running.stop().await;
    let home = Home::at(dir.path());
    let lock = home.lock().unwrap();
    assert_eq!(
        reach(&home, Duration::from_millis(120)).await.unwrap_err().exit_code,
        11
    );
    let waiting = tokio::spawn(async move { reach(&home, Duration::from_secs(10)).await });
    tokio::time::sleep(Duration::from_millis(150)).await;
    drop(lock);
    assert!(matches!(waiting.await.unwrap().unwrap(), Reached::Here(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_is_a_usage_error() {
    let running = Running::start("home");
    let endpoint = Endpoint::of(&running.home);
    let token = std::fs::read_to_string(&endpoint.token).unwrap();
    let bodies = [
        "",
        "{}",
        "{\"command\":\"destroy\"}",
        "{\"command\":\"status\",\"more\":1}",
        "{\"command\":\"sync\",\"wait_secs\":0,\"more\":1}",
        "\u{0}\u{1}\n",
    ];
    for body in bodies {
        let mut stream = std::os::unix::net::UnixStream::connect(&endpoint.socket).unwrap();
        let request = format!(
            "POST /v1/call HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = tokio::task::spawn_blocking(move || {
            let mut answer = String::new();
            io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
            stream.read_to_string(&mut answer).unwrap();
            answer
        })
        .await
        .unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{body}: {answer}");
        assert!(answer.contains("\"kind\":\"usage\""), "{body}: {answer}");
    }
    running.stop().await;
}
