//! `sovm invite`: make a ticket, wait for the device, compare the code.

use clap::{Args, Subcommand};

use super::{
    Context, Session,
    session::expect,
    status::{now_ms, when},
};
use crate::{
    api::{Discard, InviteHistory, InviteReport, InviteRequest, InviteRole, InviteState, Request, Response},
    config::parse_duration,
    error::{ApiError, ErrorKind},
    output::{Output, TextTable},
};

/// Longest life of a ticket that lets a device in without a confirmed code (DESIGN §8).
const MAX_UNCONFIRMED_SECS: u64 = 15 * 60;

/// One long poll; short enough that Ctrl-C and a stopping daemon are not kept waiting.
const POLL_SECS: u64 = 20;

/// Invite a device: print a one-use ticket, and let the device in when its code matches
///
/// Give the printed line (or the QR code) to the other device and run `sovm join TICKET` there. Both sides then show a
/// short code; confirm here only when they are the same.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct InviteArgs {
    #[command(subcommand)]
    command: Option<InviteCommand>,
    #[command(flatten)]
    create: CreateArgs,
}

#[derive(Args, Debug)]
struct CreateArgs {
    /// What the device may do
    #[arg(long, value_enum, default_value_t = InviteRole::Writer)]
    role: InviteRole,
    /// A domain it may read; repeat for more. Default: main
    #[arg(long = "domain", value_name = "DOMAIN")]
    domains: Vec<String>,
    /// How far back it may read
    #[arg(long, value_enum, default_value_t = InviteHistory::All)]
    history: InviteHistory,
    /// How long the ticket is good for
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_duration)]
    expires: std::time::Duration,
    /// Let the device in without comparing codes; for reader and blind tickets of at most 15 minutes
    #[arg(long)]
    yes: bool,
    /// Print the ticket and return at once; needs a running node (sovm run)
    #[arg(long)]
    no_wait: bool,
}

#[derive(Debug, Subcommand)]
enum InviteCommand {
    /// List the open invites
    List,
    /// Close an invite
    Revoke {
        /// Invite id or a unique beginning of it
        id: String,
    },
    /// Let the waiting device in, after comparing the code it shows
    Confirm {
        /// Invite id or a unique beginning of it
        id: String,
        /// The code that the other device shows
        #[arg(required = true, num_args = 1..)]
        code: Vec<String>,
    },
    /// Wait until a device has presented the ticket, and print the code that it must show too
    Wait {
        /// Invite id or a unique beginning of it
        id: String,
        /// How long to wait
        #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_duration)]
        timeout: std::time::Duration,
    },
}

impl InviteArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        match self.command {
            None => create(self.create, context).await,
            Some(InviteCommand::List) => list(context).await,
            Some(InviteCommand::Revoke { id }) => {
                let report = expect!(context.call(Request::InviteRevoke { id }).await?, InviteRevoke);
                let id = report.id.clone();
                context.show(&Response::InviteRevoke(report), |output| {
                    output.note("the invite is closed");
                    output.line(id)
                })
            }
            Some(InviteCommand::Confirm { id, code }) => {
                let request = Request::InviteConfirm {
                    id,
                    code: Some(code.join(" ")),
                    accept: true,
                };
                let report = expect!(context.call(request).await?, InviteConfirm);
                let site = report.site.clone();
                context.show(&Response::InviteConfirm(report), |output| {
                    output.note("the device is a member now");
                    output.line(site)
                })
            }
            Some(InviteCommand::Wait { id, timeout }) => {
                let request = Request::InviteWait {
                    id,
                    timeout_secs: timeout.as_secs(),
                };
                let report = expect!(context.call(request).await?, InviteWait);
                let state = report.state.clone();
                context.show(&Response::InviteWait(report), |output| waited(&state, output))
            }
        }
    }
}

async fn create(args: CreateArgs, context: &Context<'_>) -> Result<u8, ApiError> {
    let expires_secs = args.expires.as_secs();
    let may_skip = matches!(args.role, InviteRole::Reader | InviteRole::Blind) && expires_secs <= MAX_UNCONFIRMED_SECS;
    if args.yes && !may_skip {
        return Err(ApiError::new(
            ErrorKind::Usage,
            "--yes is for reader and blind tickets of at most 15 minutes",
        )
        .safe("no ticket was made")
        .next("leave out --yes and compare the code, or add --expires 15m with --role reader or blind"));
    }
    let session = context.open(true).await?;
    let result = invite_in(&session, &args, expires_secs, context).await;
    session.close().await;
    result
}

async fn invite_in(
    session: &Session,
    args: &CreateArgs,
    expires_secs: u64,
    context: &Context<'_>,
) -> Result<u8, ApiError> {
    let can_ask = context.output.can_ask();
    // Without a daemon this process is the node: it must stay, and someone must be there to confirm.
    if !session.is_daemon() && (args.no_wait || !(can_ask || args.yes)) {
        return Err(ApiError::new(
            ErrorKind::Refused,
            "nobody would be there to answer the device that joins",
        )
        .safe("no ticket was made")
        .next("start sovm run first, or run sovm invite on a terminal"));
    }
    let request = InviteRequest {
        role: args.role,
        domains: args.domains.clone(),
        history: args.history,
        expires_secs,
        yes: args.yes,
    };
    let report = expect!(call(session, context, Request::Invite(request)).await?, Invite);
    let shown = report.clone();
    context.show(&Response::Invite(report), |output| render(&shown, output))?;
    if args.no_wait || (session.is_daemon() && !can_ask) {
        if !args.yes {
            context.output.note(format!(
                "when the device shows its code: sovm invite confirm {} CODE",
                short(&shown.id)
            ));
        }
        return Ok(0);
    }
    wait(session, &shown.id, context).await
}

/// What a script needs: the code alone is data.
fn waited(state: &InviteState, output: &Output) -> Result<(), ApiError> {
    match state {
        InviteState::Waiting => output.note("no device has come yet"),
        InviteState::Confirm { name, site, code } => {
            output.note(format!("device {name} ({}) wants to join", short(site)));
            return output.line(code);
        }
        InviteState::Joined { name, .. } => output.note(format!("{name} is a member now")),
        InviteState::Closed { reason } => output.note(format!("the invite is closed: {reason}")),
    }
    Ok(())
}

/// Waits for the device and asks; the ticket was printed already.
async fn wait(session: &Session, id: &str, context: &Context<'_>) -> Result<u8, ApiError> {
    context.output.note("waiting for the device; Ctrl-C stops waiting");
    loop {
        let request = Request::InviteWait {
            id: id.to_owned(),
            timeout_secs: POLL_SECS,
        };
        let report = expect!(call(session, context, request).await?, InviteWait);
        match report.state {
            InviteState::Waiting => {}
            InviteState::Confirm { name, site, code } => {
                context
                    .output
                    .note(format!("device {name} ({}) wants to join", short(&site)));
                let accept = context.output.ask(&format!("Does it show this code?  {code}"))?;
                let request = Request::InviteConfirm {
                    id: id.to_owned(),
                    code: Some(code),
                    accept,
                };
                let report = expect!(call(session, context, request).await?, InviteConfirm);
                if report.joined {
                    context.output.note(format!("{name} is a member now"));
                    return Ok(0);
                }
                return Err(
                    ApiError::new(ErrorKind::Refused, "the codes differed, so the device was sent away")
                        .safe("the ticket is burnt; nothing was given to the device")
                        .next("sovm invite, and give the new ticket over a safer way"),
                );
            }
            InviteState::Joined { name, .. } => {
                context.output.note(format!("{name} is a member now"));
                return Ok(0);
            }
            InviteState::Closed { reason } => {
                return Err(
                    ApiError::new(ErrorKind::Refused, format!("the invite is closed: {reason}"))
                        .safe("no device was let in")
                        .next("sovm invite makes a new ticket"),
                );
            }
        }
    }
}

async fn call(session: &Session, context: &Context<'_>, request: Request) -> Result<Response, ApiError> {
    session
        .service()
        .call(request, context.exchange(None, std::sync::Arc::new(Discard)))
        .await
}

fn render(report: &InviteReport, output: &Output) -> Result<(), ApiError> {
    output.line(&report.ticket)?;
    output.flush()?;
    if output.can_ask()
        && let Ok(code) = qrcode::QrCode::new(report.ticket.as_bytes())
    {
        output.note(
            code.render::<qrcode::render::unicode::Dense1x2>()
                .quiet_zone(true)
                .build(),
        );
    }
    let domains = if report.domains.is_empty() {
        "no domain".to_owned()
    } else {
        report.domains.join(", ")
    };
    output.note(format!(
        "{} ticket for {domains}, good for one device, expires {}",
        report.role,
        when(report.expires_ms, now_ms())
    ));
    output.note("on the other device: sovm init, then sovm join TICKET");
    Ok(())
}

async fn list(context: &Context<'_>) -> Result<u8, ApiError> {
    let report = expect!(context.call(Request::InviteList {}).await?, InviteList);
    let mut table = TextTable::new(&["id", "role", "domains", "expires", "state"]);
    for invite in &report.invites {
        let state = match (invite.waiting, invite.bad_proofs) {
            (true, _) => "a device waits".to_owned(),
            (false, 0) => "open".to_owned(),
            (false, bad) => format!("open, {bad} bad proofs"),
        };
        table.row([
            short(&invite.id),
            invite.role.clone(),
            invite.domains.join(", "),
            when(invite.expires_ms, now_ms()),
            state,
        ]);
    }
    context.show(&Response::InviteList(report), |output| {
        if table.is_empty() {
            output.note("no invite is open");
            return Ok(());
        }
        output.line(table.render())
    })
}

fn short(id: &str) -> String {
    id.chars().take(10).collect()
}
