//! The command line (DESIGN §11): one file a command group; doc comments are the help.
//!
//! A command talks to the daemon of its home when one runs, otherwise it opens the home in this process. Both ways go
//! through the same [`Request`](crate::api::Request)s.

mod bench;
mod catalogue;
mod demo;
mod doctor;
mod domain;
mod drill;
mod edition;
mod gc;
mod ingest;
mod init;
mod inventory;
mod invite;
mod join;
mod mesh;
mod object;
mod product;
mod recover;
mod recovery;
mod run;
mod session;
mod sql;
mod status;
mod sync;
mod table;
mod unlock;

use std::{ffi::OsString, path::PathBuf, process::ExitCode, sync::Arc};

use async_trait::async_trait;
use clap::{Args, CommandFactory as _, Parser, Subcommand};

pub use self::session::{Context, Session};
pub(crate) use self::{edition::EditionCommand, inventory::InventoryCommand, product::ProductCommand};
use crate::{
    api::{DemoReport, DemoStep, InitReport, ProgressSink, RecoverReport, Service},
    config::{Home, Unlock, default_home},
    error::{ApiError, ErrorKind},
    output::{Output, OutputOptions},
};

/// A peer-to-peer mesh node: an encrypted lakehouse without a server.
///
/// Put tables into it, query them with SQL, share them with other devices by invite, and recover everything from one
/// printed page. Every object is encrypted everywhere; there is no server to trust.
#[derive(Debug, Parser)]
#[command(name = "sovm", version, max_term_width = 100, propagate_version = true)]
#[command(after_help = "\
Exit codes: 0 done, 1 refused or failed, 2 usage, 3 broken pipe, 10 no node here, 11 the home is in use,
12 wrong key or passphrase, 20 done but something is pending or quarantined (--strict), 255 a bug.

Start with:  sovm init, sovm ingest TABLE FILE, sovm sql \"select * from TABLE\"")]
pub struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

/// Options that every command takes.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Directory of the node. Default: sovm in the platform's data directory
    #[arg(long, global = true, env = "SOVM_HOME", hide_env_values = true, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Print one JSON object with format_version, errors too
    #[arg(long, global = true)]
    json: bool,
    /// Print data and errors only: no notes, no progress
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Exit with 20 when something is pending or quarantined
    #[arg(long, global = true)]
    strict: bool,
    /// Log more to stderr; SOVM_LOG chooses exactly what
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::InitArgs),
    Run(run::RunArgs),
    Status(status::StatusArgs),
    Sync(sync::SyncArgs),
    Mesh(mesh::MeshArgs),
    Invite(invite::InviteArgs),
    Join(join::JoinArgs),
    Domain(domain::DomainArgs),
    Table(table::TableArgs),
    Ingest(ingest::IngestArgs),
    Sql(sql::SqlArgs),
    Object(object::ObjectArgs),
    Product(product::ProductArgs),
    Edition(edition::EditionArgs),
    Inventory(inventory::InventoryArgs),
    Recovery(recovery::RecoveryArgs),
    Recover(recover::RecoverArgs),
    Drill(drill::DrillArgs),
    Doctor(doctor::DoctorArgs),
    Gc(gc::GcArgs),
    Demo(demo::DemoArgs),
    Bench(bench::BenchArgs),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// What the command line needs beside requests: making, opening and recovering a node, and the demo. Implemented by the
/// engine; a trait so that the command line can be tested by itself.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Makes a node, or reports the one that is there. The caller holds the home's lock.
    async fn init(&self, home: &Home, options: InitOptions) -> Result<InitReport, ApiError>;

    /// Opens a node. The caller holds the home's lock.
    async fn open(&self, home: &Home, unlock: Unlock, options: OpenOptions) -> Result<Arc<dyn Service>, ApiError>;

    /// Makes a node out of a recovery kit. The caller holds the home's lock.
    async fn recover(
        &self,
        home: &Home,
        options: RecoverOptions,
        progress: Arc<dyn ProgressSink>,
    ) -> Result<RecoverReport, ApiError>;

    /// Tells the whole story; `on_step` is called as each step ends.
    async fn demo(&self, options: DemoOptions, on_step: OnStep<'_>) -> Result<DemoReport, ApiError>;
}

/// Called as each step of the demo ends.
pub type OnStep<'a> = &'a (dyn Fn(&DemoStep) -> Result<(), ApiError> + Send + Sync);

/// How a node is made.
#[derive(Debug)]
pub struct InitOptions {
    /// What will open it. A key file that does not exist is made, with mode 0600.
    pub unlock: Unlock,
    /// Its name among the devices; `None` means the machine's.
    pub name: Option<String>,
}

/// How a node is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Whether to listen and dial.
    pub network: bool,
    /// Whether a damaged key store may be replaced by its previous copy, which loses its last change.
    pub fall_back: bool,
}

/// How a node is recovered.
#[derive(Debug)]
pub struct RecoverOptions {
    /// What will open the new node.
    pub unlock: Unlock,
    /// The words of the kit, as typed or as they stand on the page.
    pub kit: zeroize::Zeroizing<String>,
    /// Replicas to ask, as addresses or directories; empty means those the kit names.
    pub from: Vec<String>,
    /// The new node's name among the devices; `None` means the machine's.
    pub name: Option<String>,
    /// When the newest checkpoint does not open, go back to an older one.
    pub accept_older: bool,
    /// Trust the root the kit's keys name although the chain back to the page's root has a gap.
    pub trust_ring: bool,
}

/// How the demo is run.
#[derive(Clone, Debug, Default)]
pub struct DemoOptions {
    /// Keep the homes here; `None` means a temporary directory that is removed.
    pub keep: Option<PathBuf>,
}

/// Stack of a worker thread: a long SQL statement is a deep tree, and a full stack ends the process.
///
/// Frames of a development build, which is not optimised, are several times as large.
pub(crate) const STACK_BYTES: usize = if cfg!(debug_assertions) { 64 } else { 16 } * 1024 * 1024;

/// The whole program: parses the command line, runs it, gives the exit code.
pub fn main(backend: &dyn Backend) -> ExitCode {
    let code = std::thread::scope(|scope| {
        // A thread of our own, since the main thread's stack is the system's choice.
        let thread = std::thread::Builder::new()
            .name("sovm".to_owned())
            .stack_size(STACK_BYTES);
        match thread.spawn_scoped(scope, || execute(std::env::args_os(), backend)) {
            // The panic itself was printed by the default hook; what is left is the promised code.
            Ok(running) => running.join().unwrap_or_else(|_| ErrorKind::Bug.exit_code()),
            Err(_) => execute(std::env::args_os(), backend),
        }
    });
    ExitCode::from(code)
}

fn execute(arguments: impl IntoIterator<Item = OsString>, backend: &dyn Backend) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return report_usage(&error, &arguments),
    };
    let output = Arc::new(Output::stdio(OutputOptions {
        json: cli.global.json,
        quiet: cli.global.quiet,
    }));
    start_logging(cli.global.verbose);
    let result = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build()
    {
        Ok(runtime) => {
            let result = runtime.block_on(run(cli, backend, output.clone()));
            // A thread may be stuck reading a terminal; nothing that matters runs there.
            runtime.shutdown_background();
            result
        }
        Err(error) => Err(ApiError::io("starting the runtime", &error)),
    };
    match result.and_then(|code| output.flush().map(|()| code)) {
        Ok(code) => code,
        Err(error) => {
            output.error(&error);
            error.kind.exit_code()
        }
    }
}

/// Help and version are answers; everything else clap says is a usage error.
fn report_usage(error: &clap::Error, arguments: &[OsString]) -> u8 {
    let json = arguments.iter().any(|argument| argument == "--json");
    if !error.use_stderr() || !json {
        // Clap decides between stdout and stderr, and on colours.
        return match error.print() {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ErrorKind::BrokenPipe.exit_code(),
            _ if error.use_stderr() => ErrorKind::Usage.exit_code(),
            _ => 0,
        };
    }
    let text = error.to_string();
    let first = text
        .lines()
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ")
        .to_owned();
    let error = ApiError::new(ErrorKind::Usage, first)
        .safe("nothing was done")
        .next("sovm --help");
    Output::stdio(OutputOptions {
        json: true,
        quiet: false,
    })
    .error(&error);
    error.kind.exit_code()
}

/// Runs one parsed command; the number is its exit code.
pub async fn run(cli: Cli, backend: &dyn Backend, output: Arc<Output>) -> Result<u8, ApiError> {
    let home = match &cli.global.home {
        Some(path) => Home::at(path),
        None => Home::at(default_home()?),
    };
    let context = Context {
        home,
        output,
        backend,
        strict: cli.global.strict,
    };
    // The daemon and a feed stop in an orderly way of their own.
    match cli.command {
        Command::Run(args) => return args.run(&context).await,
        Command::Ingest(args) if args.is_feed() => return args.run(&context).await,
        _ => {}
    }
    tokio::select! {
        code = dispatch(cli.command, &context) => code,
        _ = tokio::signal::ctrl_c() => Err(ApiError::new(ErrorKind::Interrupted, "stopped before it was done")
            .safe("what was finished is kept, and nothing is published by halves")
            .next("run the same command again")),
    }
}

async fn dispatch(command: Command, context: &Context<'_>) -> Result<u8, ApiError> {
    match command {
        Command::Init(args) => args.run(context).await,
        Command::Run(args) => args.run(context).await,
        Command::Status(args) => args.run(context).await,
        Command::Sync(args) => args.run(context).await,
        Command::Mesh(args) => args.run(context).await,
        Command::Invite(args) => args.run(context).await,
        Command::Join(args) => args.run(context).await,
        Command::Domain(args) => args.run(context).await,
        Command::Table(args) => args.run(context).await,
        Command::Ingest(args) => args.run(context).await,
        Command::Sql(args) => args.run(context).await,
        Command::Object(args) => args.run(context).await,
        Command::Product(args) => args.run(context).await,
        Command::Edition(args) => args.run(context).await,
        Command::Inventory(args) => args.run(context).await,
        Command::Recovery(args) => args.run(context).await,
        Command::Recover(args) => args.run(context).await,
        Command::Drill(args) => args.run(context).await,
        Command::Doctor(args) => args.run(context).await,
        Command::Gc(args) => args.run(context).await,
        Command::Demo(args) => args.run(context).await,
        Command::Bench(args) => args.run(context).await,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "sovm", &mut script);
            context.output.bytes(&script).map(|()| 0)
        }
    }
}

/// Logs go to stderr. They name no table, domain, site or key: only our own crates log without being asked.
fn start_logging(verbose: u8) {
    let level = match verbose {
        0 => "off",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let default = [
        "sovm",
        "sovm_object",
        "sovm_catalog",
        "sovm_inventory",
        "sovm_mesh",
        "sovm_recovery",
    ]
    .map(|target| format!("{target}={level}"))
    .join(",");
    let filter = tracing_subscriber::EnvFilter::try_from_env("SOVM_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(format!("off,{default}")));
    // Fails only when a test has set one already.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .try_init();
}

#[cfg(test)]
mod tests;
