//! `sovm recover`.

use std::{io::Read as _, path::PathBuf};

use clap::Args;
use zeroize::Zeroizing;

use super::{
    Context, RecoverOptions,
    status::{self, now_ms, when},
    unlock,
};
use crate::{
    api::{RecoverReport, Response},
    client::{self, PATIENCE, Reached},
    config::{Config, format_bytes},
    error::{ApiError, ErrorKind},
    output::Output,
};

/// Longest kit page that is read; the real one is about 2 KiB.
const MAX_KIT_BYTES: u64 = 64 * 1024;

/// Bring a domain back on this machine, from a recovery kit and one replica
///
/// Needs the words of the kit and one place that still has the objects: a blind replica, a member, or a bare directory of
/// blobs. This home must be empty.
#[derive(Args, Debug)]
pub(super) struct RecoverArgs {
    /// File with the kit page or its words, or - for standard input. Default: asked for on the terminal
    #[arg(long, value_name = "FILE")]
    kit: Option<PathBuf>,
    /// A replica's address or a directory of blobs; repeat for more. Default: the places named on the page
    #[arg(long, value_name = "ADDRESS|DIR")]
    from: Vec<String>,
    /// Name of this device, as the other devices show it. Default: the machine's name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Open the new node with this file instead of a passphrase; made with mode 0600 when it does not exist
    #[arg(long, value_name = "PATH")]
    key_file: Option<PathBuf>,
    /// When the newest checkpoint is missing or damaged, recover the older state before it
    #[arg(long)]
    accept_older: bool,
    /// Trust the newest root of this domain although the chain from the page's root to it has a gap
    #[arg(long)]
    trust_ring: bool,
}

impl RecoverArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        let taken = || {
            ApiError::new(
                ErrorKind::Exists,
                format!("there is a node in {} already", context.home.path().display()),
            )
            .safe("it was not changed")
            .next("recover into another home with --home DIR")
        };
        if context.home.is_initialised() {
            return Err(taken());
        }
        let Reached::Here(_lock) = client::reach(&context.home, PATIENCE).await? else {
            return Err(taken());
        };
        let kit = match &self.kit {
            Some(path) => read_kit(path)?,
            None => ask_kit(&context.output)?,
        };
        let (unlock, remember) = unlock::fresh(self.key_file.as_deref(), &context.output)?;
        if let Some(path) = remember {
            let mut config = Config::load(&context.home)?;
            config.key_file = Some(path);
            config.store(&context.home)?;
        }
        let options = RecoverOptions {
            unlock,
            kit,
            from: self.from,
            name: self.name,
            accept_older: self.accept_older,
            trust_ring: self.trust_ring,
        };
        let report = context
            .backend
            .recover(&context.home, options, context.output.clone())
            .await?;
        let shown = report.clone();
        context.show(&Response::Recover(report), |output| render(&shown, output))
    }
}

fn read_kit(path: &PathBuf) -> Result<Zeroizing<String>, ApiError> {
    let mut text = Zeroizing::new(String::new());
    let read = if path.as_os_str() == "-" {
        std::io::stdin().take(MAX_KIT_BYTES).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_KIT_BYTES).read_to_string(&mut text))
    };
    match read {
        Ok(_) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Err(ApiError::new(
            ErrorKind::BadInput,
            format!("{} is not text", path.display()),
        )
        .safe("nothing was changed")),
        Err(error) => Err(ApiError::io(format!("reading the kit {}", path.display()), &error)),
    }
}

/// Reads lines until an empty one.
fn ask_kit(output: &Output) -> Result<Zeroizing<String>, ApiError> {
    if !output.can_ask() {
        return Err(ApiError::new(ErrorKind::Usage, "the words of the kit are needed")
            .safe("nothing was changed")
            .next("sovm recover --kit FILE (or --kit - for standard input)"));
    }
    output.note("Type the words of the kit, line by line as they stand on the page; an empty line ends them.");
    let mut text = Zeroizing::new(String::new());
    loop {
        let line = Zeroizing::new(output.ask_line(">")?);
        if line.is_empty() {
            return Ok(text);
        }
        text.push_str(&line);
        text.push('\n');
    }
}

fn render(report: &RecoverReport, output: &Output) -> Result<(), ApiError> {
    output.line(&report.site)?;
    output.note(format!(
        "recovered domain {} into {}: {} entries, {} tables, {}",
        report.domain,
        report.home.display(),
        report.entries,
        report.tables,
        status::objects(&report.objects, false)
    ));
    output.note(format!(
        "as of the checkpoint made {}; digest {}",
        when(report.checkpoint_ms, now_ms()),
        report.digest
    ));
    if report.objects.pending_bytes > 0 {
        let missing = report.objects.want_bytes.saturating_sub(report.objects.have_bytes);
        output.note(format!(
            "{} objects ({}) are still to be fetched: sovm run goes on",
            report.objects.pending_bytes,
            format_bytes(missing)
        ));
    }
    Ok(())
}
