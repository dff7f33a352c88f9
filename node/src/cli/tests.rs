//! The command line by itself: its shape, its help, and what each exit code needs.

use std::{collections::BTreeMap, sync::Arc};

use clap::{CommandFactory as _, Parser as _};

use super::*;
use crate::{
    api::{Exchange, Request, Response},
    output::testing::{Captured, captured},
};

#[test]
fn command_line_is_consistent() {
    Cli::command().debug_assert();
}

/// Every help text in one snapshot: a change of the command line shows in review.
#[test]
fn help_of_every_command() {
    let mut texts = BTreeMap::new();
    let mut command = Cli::command().term_width(100);
    command.build();
    collect(&command, "", &mut texts);
    let all: String = texts
        .iter()
        .map(|(name, text)| format!("== {name}\n{text}\n"))
        .collect();
    insta::assert_snapshot!("help", all);
}

fn collect(command: &clap::Command, prefix: &str, texts: &mut BTreeMap<String, String>) {
    let name = format!("{prefix}{}", command.get_name());
    texts.insert(name.clone(), command.clone().render_help().to_string());
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        collect(sub, &format!("{name} "), texts);
    }
}

#[test]
fn commands_of_the_design_parse() {
    for line in [
        "init --name attic --key-file k",
        "run",
        "status --json --strict",
        "mesh create home",
        "mesh members",
        "mesh remove cellar",
        "invite",
        "invite --role blind --expires 15m --yes --domain a --domain b --history none",
        "invite list",
        "invite revoke ab",
        "join TICKET --yes",
        "domain list",
        "domain create d",
        "table create t --domain d --class append --id a,b --partition c --prune e --time f --like x.csv",
        "table create t --schema s",
        "table list",
        "table describe t",
        "table add-column t gust float64",
        "table drop-column t gust",
        "table rename-column t gust wind",
        "table widen-column t n int64",
        "ingest t a.csv b.csv --null NA --format csv",
        "ingest t -",
        "ingest t - --every",
        "ingest t - --every 10m --schema s",
        "sql select --format parquet --explain --allow-incomplete --memory 512MiB",
        "object put a.txt b.txt --domain d",
        "object put - --name n",
        "object get ab -o f --range 0-99",
        "object get n --range 5- --output -",
        "object show ab --raw dir",
        "recover --kit page.txt --accept-older --trust-ring",
        "object list --table t",
        "object show ab",
        "object verify",
        "object verify ab cd",
        "object hexdump ab --offset 4 --length 32",
        "object key ab --yes-show-secret",
        "recovery kit",
        "recovery checkpoint",
        "recover --kit page.txt --from dir --from addr",
        "drill --full",
        "doctor --repair --strict",
        "gc --dry-run",
        "gc --after 0s --allow-large",
        "demo --keep dir",
        "bench --rows 1000 --objects 10 --runs 3 --dir d --duckdb python3",
        "product create p --kind data --lifecycle revisable --title x --store d --reason r --actor a",
        "product list --store d --json",
        "edition build p --table AG:F(1.0)=a.csv --table AG:F(1.0)=b.csv --append --null NA --store d",
        "edition build p --replace --structures s.json --structures t.xml --replace-structures --file n.txt=m.txt",
        "edition build p --edition 01980000-0000-7000-8000-000000000001",
        "edition build p --resume",
        "edition seal p --release-at 2026-07-30T08:30:00Z --store d",
        "edition list --store d",
        "edition list p --store d",
        "edition discard p 01980000-0000-7000-8000-000000000001 --store d",
        "edition check p 01980000-0000-7000-8000-000000000001 --profile receive --fingerprints",
        "edition copy p 01980000-0000-7000-8000-000000000001 --to m --store d",
        "bench --inventory --products 100 --rows 1000 --runs 3 --dir d",
        "edition fingerprint a.parquet --json",
        "inventory init --store d --embargo --reason r --actor a",
        "inventory log --store d --limit 3",
        "inventory show --store d",
        "inventory show p --store d --seq 4 --live",
        "inventory release p 01980000-0000-7000-8000-000000000001 --store d",
        "inventory release p 01980000-0000-7000-8000-000000000001 q 01980000-0000-7000-8000-000000000001 --store d",
        "inventory release-due --store d --json",
        "inventory fold --store d --reason r",
        "inventory reschedule p 01980000-0000-7000-8000-000000000001 --at 2026-07-30T08:30:00Z --store d",
        "inventory reschedule p 01980000-0000-7000-8000-000000000001 --never",
        "inventory cancel p 01980000-0000-7000-8000-000000000001",
        "inventory supersede-pending p --by 01980000-0000-7000-8000-000000000001",
        "inventory rollback p",
        "inventory rollback p --to 01980000-0000-7000-8000-000000000001 --if-live 01980000-0000-7000-8000-000000000001",
        "inventory withdraw p --if-live 01980000-0000-7000-8000-000000000001",
        "inventory retire p 01980000-0000-7000-8000-000000000001 --window 30d",
        "inventory reinstate p 01980000-0000-7000-8000-000000000001",
        "inventory correct p q --to 3",
        "inventory describe d.json",
        "inventory describe --clear",
        "inventory embargo on",
        "inventory rebuild --nothing-ever-withheld",
        "inventory verify --store d",
        "inventory export --to e --store d",
        "inventory export --to e --live-only --actor a --store d",
        "inventory gc --dry-run --store d",
        "inventory gc --log l --store d",
        "completions bash",
        "--home /h -q -vv status",
    ] {
        let words = std::iter::once("sovm").chain(line.split(' '));
        Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    for line in [
        "",
        "table create t",
        "table create t --like a --schema b",
        "ingest t",
        "ingest t - --every x",
        "invite list --role admin",
        "object hexdump ab --length 9999999",
        "gc --after 7",
        "object put",
        "object get ab --range 9-8",
        "product create p --kind data",
        "product create p --kind table --lifecycle final",
        "product create a/b --kind data --lifecycle final",
        "edition build p --append --replace",
        "edition build p --resume --edition 01980000-0000-7000-8000-000000000001",
        "edition build p --table a.csv",
        "edition build p --file ../a=b",
        "edition seal p --release-at tomorrow",
        "edition check p",
        "edition copy p 01980000-0000-7000-8000-000000000001",
        "edition fingerprint",
        "inventory",
        "inventory export",
        "inventory gc",
        "inventory gc --dry-run --log l",
        "inventory log --limit 0",
        "inventory show --seq 0",
        "inventory show ../p",
        "inventory release p",
        "inventory reschedule p 01980000-0000-7000-8000-000000000001",
        "inventory reschedule p 01980000-0000-7000-8000-000000000001 --never --at 2026-07-30T08:30:00Z",
        "inventory reschedule p 01980000-0000-7000-8000-000000000001 --at 2026-07-30T08:30:00",
        "inventory cancel p 0198",
        "inventory supersede-pending p",
        "inventory correct --to 3",
        "inventory correct p",
        "inventory describe",
        "inventory embargo maybe",
        "inventory retire p 01980000-0000-7000-8000-000000000001 --window 30",
    ] {
        let words = std::iter::once("sovm").chain(line.split(' ').filter(|word| !word.is_empty()));
        assert!(Cli::try_parse_from(words).is_err(), "{line}");
    }
}

/// A node that knows one answer.
struct Canned(Result<Response, ApiError>);

#[async_trait]
impl Service for Canned {
    async fn call(&self, _: Request, _: Exchange) -> Result<Response, ApiError> {
        self.0.clone()
    }
}

struct CannedBackend(Result<Response, ApiError>);

#[async_trait]
impl Backend for CannedBackend {
    async fn init(&self, _: &Home, _: InitOptions) -> Result<InitReport, ApiError> {
        Err(ApiError::bug("not in this test"))
    }

    async fn open(&self, _: &Home, _: Unlock, _: OpenOptions) -> Result<Arc<dyn Service>, ApiError> {
        Ok(Arc::new(Canned(self.0.clone())))
    }

    async fn recover(&self, _: &Home, _: RecoverOptions, _: Arc<dyn ProgressSink>) -> Result<RecoverReport, ApiError> {
        Err(ApiError::bug("not in this test"))
    }

    async fn demo(&self, _: DemoOptions, _: OnStep<'_>) -> Result<DemoReport, ApiError> {
        Err(ApiError::bug("not in this test"))
    }
}

/// Runs a command on a home that looks like a node's and opens with a key file.
async fn run_with(line: &str, answer: Result<Response, ApiError>) -> (Result<u8, ApiError>, Captured, Captured) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path());
    std::fs::write(home.identity_path(), "").unwrap();
    std::fs::write(dir.path().join("key"), "").unwrap();
    std::fs::write(home.config_path(), format!("key_file = {:?}\n", dir.path().join("key"))).unwrap();
    let words = ["sovm", "--home", dir.path().to_str().unwrap()]
        .into_iter()
        .chain(line.split(' '));
    let cli = Cli::try_parse_from(words).unwrap();
    let (output, stdout, stderr) = captured(OutputOptions {
        json: cli.global.json,
        quiet: cli.global.quiet,
    });
    let result = super::run(cli, &CannedBackend(answer), Arc::new(output)).await;
    (result, stdout, stderr)
}

fn waiting_list() -> Response {
    use crate::api::{ObjectListReport, ObjectState, ObjectSummary};
    Response::ObjectList(ObjectListReport {
        objects: vec![ObjectSummary {
            storage_id: "ab".repeat(32),
            kind: Some("data".into()),
            table: Some("weather".into()),
            name: None,
            state: ObjectState::PendingBytes,
            size_bytes: None,
            rows_stated: Some(7),
            created_ms: None,
        }],
    })
}

/// DESIGN §11: exit code 20 with `--strict` only.
#[tokio::test]
async fn strict_turns_pending_into_20() {
    let (code, stdout, _) = run_with("object list", Ok(waiting_list())).await;
    assert_eq!(code, Ok(0));
    insta::assert_snapshot!(stdout.text(), @r"
    object      kind  name     state          rows stated  size  made
    ----------  ----  -------  -------------  -----------  ----  ----
    ababababab  data  weather  pending bytes            7
    ");
    let (code, _, stderr) = run_with("object list --strict", Ok(waiting_list())).await;
    assert_eq!(code, Ok(20));
    assert!(stderr.text().contains("pending bytes"), "{}", stderr.text());
    let (code, stdout, stderr) = run_with("object list --strict --json", Ok(waiting_list())).await;
    let value: serde_json::Value = serde_json::from_str(&stdout.text()).unwrap();
    assert_eq!(
        (code, value["format_version"].as_u64(), stderr.text().as_str()),
        (Ok(20), Some(1), "")
    );
    assert_eq!(value["objects"][0]["state"], "pending_bytes");
    assert_eq!(value["attention"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn home_without_a_node_is_10() {
    let dir = tempfile::tempdir().unwrap();
    let cli = Cli::try_parse_from(["sovm", "--home", dir.path().to_str().unwrap(), "status"]).unwrap();
    let (output, _, _) = captured(OutputOptions::default());
    let error = super::run(cli, &CannedBackend(Err(ApiError::bug("unused"))), Arc::new(output))
        .await
        .unwrap_err();
    assert_eq!(error.exit_code, 10);
    assert!(error.next.unwrap().contains("sovm init"));
}

/// DESIGN §16.9: without a terminal the passphrase comes from a key file only, else exit 12 with the hint.
#[tokio::test]
async fn no_terminal_and_no_key_file_is_12() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(Home::at(dir.path()).identity_path(), "").unwrap();
    let cli = Cli::try_parse_from(["sovm", "--home", dir.path().to_str().unwrap(), "status"]).unwrap();
    let (output, _, _) = captured(OutputOptions::default());
    let error = super::run(cli, &CannedBackend(Err(ApiError::bug("unused"))), Arc::new(output))
        .await
        .unwrap_err();
    assert_eq!(error.exit_code, 12);
    assert!(error.next.unwrap().contains("SOVM_KEY_FILE"));
}

#[tokio::test]
async fn showing_a_key_needs_the_long_flag() {
    let (code, stdout, _) = run_with("object key ab", Err(ApiError::bug("must not be asked"))).await;
    assert_eq!(code.unwrap_err().kind, ErrorKind::Refused);
    assert_eq!(stdout.text(), "");
}

/// DESIGN §8: `--yes` never for admin or writer, never for more than 15 minutes.
#[tokio::test]
async fn unconfirmed_tickets_are_narrow() {
    for line in [
        "invite --yes",
        "invite --yes --role admin --expires 5m",
        "invite --yes --role reader",
        "invite --yes --role blind --expires 16m",
    ] {
        let (code, _, _) = run_with(line, Err(ApiError::bug("must not be asked"))).await;
        assert_eq!(code.unwrap_err().kind, ErrorKind::Usage, "{line}");
    }
}

/// Without a daemon and without a terminal nobody could answer the joining device.
#[tokio::test]
async fn invite_needs_someone_to_answer() {
    let (code, _, _) = run_with("invite", Err(ApiError::bug("must not be asked"))).await;
    assert!(code.unwrap_err().next.unwrap().contains("sovm run"));
}
