//! `sovm status`: one screen in sentences.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;

use super::{Context, session::expect};
use crate::{
    api::{Exchange, ObjectCounts, ObjectState, RecoveryInfo, Request, Response, Service as _, StatusReport},
    client,
    config::{format_bytes, format_duration_ms, parse_duration},
    error::ApiError,
    output::Output,
};

/// Show this node on one screen: devices, objects, what is pending, recovery
#[derive(Args, Debug)]
pub(super) struct StatusArgs {
    /// Wait until sovm run answers here, at most this long, for scripts that have just started it
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    wait: Option<Duration>,
}

impl StatusArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        let answer = match self.wait {
            None => context.call(Request::Status {}).await?,
            Some(patience) => {
                context.home.require()?;
                let daemon = client::await_daemon(&context.home, patience).await?;
                daemon.call(Request::Status {}, Exchange::silent()).await?
            }
        };
        let report = expect!(answer, Status);
        let sentences = sentences(&report, now_ms());
        context.show(&Response::Status(report), |output| show(&sentences, output))
    }
}

fn show(sentences: &[String], output: &Output) -> Result<(), ApiError> {
    sentences.iter().try_for_each(|sentence| output.line(sentence))
}

/// The screen, line by line.
fn sentences(report: &StatusReport, now_ms: u64) -> Vec<String> {
    let short: String = report.site.chars().take(10).collect();
    let mesh = report
        .mesh
        .name
        .clone()
        .unwrap_or_else(|| report.mesh.mesh_id.chars().take(10).collect());
    let role = if report.blind { "blind replica" } else { "node" };
    let mut lines = vec![
        format!("{role} {} ({short}) in mesh {mesh}, {}", report.name, daemon(report)),
        format!(
            "{} devices, {} online, {}",
            report.devices,
            report.devices_online,
            objects(&report.objects, report.blind)
        ),
    ];
    if !report.blind {
        lines.push(format!("{} tables in {} domains", report.tables, report.domains.len()));
    }
    lines.extend(problems(report, now_ms));
    lines.push(recovery(&report.recovery, now_ms));
    if report.recovery.kits == 0 && !report.blind {
        lines.push("no recovery kit: sovm recovery kit makes one".to_owned());
    }
    if report.key_file {
        lines.push("a key file opens this node: it protects nothing when it lies beside the data".to_owned());
    }
    lines.extend(report.warnings.iter().map(|warning| format!("warning: {warning}")));
    lines
}

fn daemon(report: &StatusReport) -> String {
    match report.daemon_pid {
        Some(pid) => format!("running as process {pid}"),
        None => "not running (sovm run starts it)".to_owned(),
    }
}

/// "41 of 41 objects": complete only when the sets are equal.
pub(super) fn objects(counts: &ObjectCounts, blind: bool) -> String {
    let what = if blind { "objects held" } else { "objects" };
    let mut text = format!("{} of {} {what}", counts.available, counts.known);
    if counts.have_bytes < counts.want_bytes {
        text.push_str(&format!(
            " ({} of {})",
            format_bytes(counts.have_bytes),
            format_bytes(counts.want_bytes)
        ));
    }
    text
}

fn problems(report: &StatusReport, now_ms: u64) -> Vec<String> {
    const SHOWN: usize = 10;
    let counts = &report.objects;
    let mut lines = Vec::new();
    for (count, state) in [
        (counts.pending_bytes, ObjectState::PendingBytes),
        (counts.pending_access, ObjectState::PendingAccess),
        (counts.quarantined, ObjectState::Quarantined),
    ] {
        if count > 0 {
            lines.push(format!("{count} objects {}", state.word()));
        }
    }
    for object in report.waiting.iter().take(SHOWN) {
        let short: String = object.storage_id.chars().take(10).collect();
        let next = object
            .next_try_ms
            .map(|at| format!(", next try {}", when(at, now_ms)))
            .unwrap_or_default();
        lines.push(format!("  {short} {}: {}{next}", object.state.word(), object.reason));
    }
    // The report names only so many of them, and counts all.
    let waiting = counts.pending_bytes + counts.pending_access + counts.quarantined;
    let shown = report.waiting.len().min(SHOWN) as u64;
    if waiting > shown && shown > 0 {
        lines.push(format!("  and {} more (sovm object list)", waiting - shown));
    }
    for peer in report.peers.iter().filter(|peer| peer.online) {
        let name = peer
            .name
            .clone()
            .unwrap_or_else(|| peer.site.chars().take(10).collect());
        let path = match peer.relayed {
            Some(true) => " over a relay",
            Some(false) => " directly",
            None => "",
        };
        let rtt = peer
            .rtt_us
            .map(|us| format!(", round trip {:.1} ms", us as f64 / 1_000.0))
            .unwrap_or_default();
        lines.push(format!("connected to {name}{path}{rtt}"));
    }
    lines
}

fn recovery(recovery: &RecoveryInfo, now_ms: u64) -> String {
    let proven = match (recovery.proven_ms, recovery.proven_missing) {
        (Some(at), Some(missing)) if missing > 0 => format!("{}, with {missing} objects missing", when(at, now_ms)),
        (Some(at), _) => when(at, now_ms),
        (None, _) => "never (sovm drill proves it)".to_owned(),
    };
    let checkpoint = recovery
        .checkpoint_ms
        .map_or_else(|| "never".to_owned(), |at| when(at, now_ms));
    format!("last checkpoint: {checkpoint}; last proven recovery: {proven}")
}

/// How far ahead of real time the stamps of a node may run after quick starts, roughly.
const STAMPS_AHEAD_MS: u64 = 15_000;

/// The time of a stamp as people say it. Stamps start above what the run before may have used, so a fresh one can lie ahead.
pub(super) fn stamped(at_ms: u64, now_ms: u64) -> String {
    if at_ms > now_ms && at_ms - now_ms <= STAMPS_AHEAD_MS {
        return when(now_ms, now_ms);
    }
    when(at_ms, now_ms)
}

/// A time as people say it.
pub(super) fn when(at_ms: u64, now_ms: u64) -> String {
    if at_ms > now_ms {
        format!("in {}", format_duration_ms(at_ms - now_ms))
    } else if now_ms - at_ms < 2_000 {
        "just now".to_owned()
    } else {
        format!("{} ago", format_duration_ms(now_ms - at_ms))
    }
}

/// Milliseconds since 1970, for sentences only.
pub(super) fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{MeshInfo, PeerInfo, WaitingObject};

    fn report() -> StatusReport {
        StatusReport {
            home: "/h".into(),
            site: "ab".repeat(32),
            name: "attic".into(),
            mesh: MeshInfo {
                mesh_id: "cd".repeat(32),
                name: Some("home".into()),
            },
            blind: false,
            daemon_pid: Some(7),
            key_file: false,
            devices: 3,
            devices_online: 2,
            tables: 1,
            objects: ObjectCounts {
                known: 41,
                available: 41,
                have_bytes: 5,
                want_bytes: 5,
                ..ObjectCounts::default()
            },
            domains: vec![],
            peers: vec![],
            waiting: vec![],
            transfer: Default::default(),
            recovery: RecoveryInfo::default(),
            warnings: vec![],
        }
    }

    #[test]
    fn reads_as_sentences() {
        insta::assert_snapshot!(sentences(&report(), 0).join("\n"), @r"
        node attic (ababababab) in mesh home, running as process 7
        3 devices, 2 online, 41 of 41 objects
        1 tables in 0 domains
        last checkpoint: never; last proven recovery: never (sovm drill proves it)
        no recovery kit: sovm recovery kit makes one
        ");
    }

    #[test]
    fn tells_what_is_missing_and_why() {
        let mut report = report();
        report.objects = ObjectCounts {
            known: 41,
            available: 40,
            pending_bytes: 1,
            have_bytes: 1 << 20,
            want_bytes: 2 << 20,
            ..Default::default()
        };
        report.waiting.push(WaitingObject {
            storage_id: "ef".repeat(32),
            state: ObjectState::PendingBytes,
            reason: "asked cellar, timed out".into(),
            next_try_ms: Some(61_000),
        });
        report.peers.push(PeerInfo {
            site: "aa".repeat(32),
            name: Some("cellar".into()),
            online: true,
            rtt_us: Some(1_500),
            relayed: Some(false),
            last_seen_ms: None,
        });
        report.recovery = RecoveryInfo {
            kits: 1,
            checkpoint_ms: Some(0),
            proven_ms: Some(0),
            ..Default::default()
        };
        insta::assert_snapshot!(sentences(&report, 1_000).join("\n"), @r"
        node attic (ababababab) in mesh home, running as process 7
        3 devices, 2 online, 40 of 41 objects (1.0 MiB of 2.0 MiB)
        1 tables in 0 domains
        1 objects pending bytes
          efefefefef pending bytes: asked cellar, timed out, next try in 60.0 s
        connected to cellar directly, round trip 1.5 ms
        last checkpoint: just now; last proven recovery: just now
        ");
        assert_eq!(Response::Status(report).attention(), ["1 objects wait for their bytes"]);
    }
}
