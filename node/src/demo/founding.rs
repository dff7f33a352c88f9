//! Steps 1 to 4: nodes, ingest, invites, replication.

use std::{collections::BTreeSet, time::Duration};

use super::{
    Story,
    checks::{cells, compare_origins, digest, ids_here, is_magic, missing, short, thousands},
    cli::{Failure, Node, ask, hold},
    data::{self, words},
    process::{Look, Running, wait_for},
};
use crate::{
    api::{ApiError, IngestReport, InviteState, JoinReport, Response},
    config::format_bytes,
};

/// How long the other side of an invite may take.
const JOIN_LIMIT: Duration = Duration::from_secs(30);

/// How long small tables may take to reach every node.
const REPLICATE_LIMIT: Duration = Duration::from_secs(60);

/// What the joining device prints before its code.
const CODE_LINE: &str = "code on this device:";

/// The statement of the first thing a person asks.
pub(super) const BY_ORIGIN: &str =
    "select origin, count(*) as hours, avg(temp) as mean_temp from weather group by origin order by origin";

/// Statements whose answers are compared between nodes, byte for byte.
const SAME_ON_ALL: [&str; 3] = [
    BY_ORIGIN,
    "select a.name, count(*) as hours, max(w.wind_speed) as gale from weather w join airports a on a.faa = w.origin group by a.name order by a.name",
    "select * from airports order by faa",
];

/// Step 1.
pub(super) fn start_nodes(story: &mut Story, evidence: &mut Vec<String>) -> Result<(), Failure> {
    for node in [&mut story.alice, &mut story.bob, &mut story.carol, &mut story.vault] {
        let init = ask!(node, Init, "init", "--name", node.device, "--key-file", node.key_file())?;
        hold(init.created && init.name == node.device && init.key_file, || {
            format!(
                "{}: init did not make a node named {} with a key file",
                node.name, node.device
            )
        })?;
        node.configure(None)?;
        node.start()?;
        let pid = node.pid().unwrap_or_default();
        evidence.push(format!(
            "{:<5} process {pid}, site {}, on {}",
            node.name,
            short(&init.site),
            node.address()
        ));
    }
    let pids: BTreeSet<Option<u32>> = [&story.alice, &story.bob, &story.carol, &story.vault]
        .map(Node::pid)
        .into();
    hold(pids.len() == 4 && !pids.contains(&Some(std::process::id())), || {
        format!("the nodes are not four processes: {pids:?}")
    })?;
    let mesh = ask!(story.alice, MeshCreate, "mesh", "create", words::MESH)?;
    for domain in [words::DOMAIN, words::PUBLIC_DOMAIN] {
        ask!(story.alice, DomainCreate, "domain", "create", domain)?;
    }
    evidence.push(format!(
        "mesh {} ({}), founded by alice",
        words::MESH,
        short(&mesh.mesh_id)
    ));
    Ok(())
}

/// Step 2.
pub(super) fn ingest(story: &mut Story, evidence: &mut Vec<String>) -> Result<(), Failure> {
    let weather = data::weather()?;
    let expected = data::by_origin(&weather)?;
    for (table, bytes, rows) in [
        ("weather", weather, data::WEATHER_ROWS),
        ("airports", data::airports()?, data::AIRPORTS_ROWS),
    ] {
        let file = story.input(&format!("{table}.csv"));
        std::fs::write(&file, &bytes).map_err(|error| ApiError::io(format!("writing {}", file.display()), &error))?;
        let report = ask!(story.alice, Ingest, "ingest", table, &file, "--null", "NA")?;
        hold(report.rows == rows && report.bad_rows == 0, || {
            format!(
                "{table}: {} rows were published and {} left out, the file has {rows}",
                report.rows, report.bad_rows
            )
        })?;
        evidence.push(format!(
            "{table}: {} rows, {} of CSV became {} in {} encrypted objects",
            thousands(rows),
            format_bytes(bytes.len() as u64),
            format_bytes(report.output_bytes),
            report.objects.len()
        ));
        evidence.push(look_at_bytes(&story.alice, &report)?);
    }
    evidence.extend(compare_origins(&expected, &cells(&story.alice.rows(BY_ORIGIN)?)?)?);
    Ok(())
}

/// Every object begins and ends as an encrypted Parquet file, and is as long as was said.
fn look_at_bytes(node: &Node, report: &IngestReport) -> Result<String, Failure> {
    let mut total = 0;
    let mut last = String::new();
    for id in &report.objects {
        let head = ask!(node, ObjectHexdump, "object", "hexdump", id, "--length", "4")?;
        is_magic(&head)?;
        let shown = ask!(node, ObjectShow, "object", "show", id)?;
        hold(shown.summary.size_bytes == Some(head.size_bytes), || {
            format!(
                "object {}: show says {:?} bytes, hexdump {}",
                short(id),
                shown.summary.size_bytes,
                head.size_bytes
            )
        })?;
        let end = head.size_bytes.saturating_sub(4).to_string();
        is_magic(&ask!(
            node,
            ObjectHexdump,
            "object",
            "hexdump",
            id,
            "--offset",
            &end,
            "--length",
            "4"
        )?)?;
        total += head.size_bytes;
        last = format!(
            "object {} begins and ends with PARE, {} bytes",
            short(id),
            thousands(head.size_bytes)
        );
    }
    hold(total == report.output_bytes && total > 0, || {
        format!(
            "the objects are {total} bytes together, ingest reported {}",
            report.output_bytes
        )
    })?;
    Ok(last)
}

/// Step 3.
pub(super) fn join(story: &mut Story, evidence: &mut Vec<String>) -> Result<(), Failure> {
    let code = join_by_code(story)?;
    evidence.push(format!("bob joined as writer; the code on both sides: {code}"));
    for (node, role) in [(&story.carol, "reader"), (&story.vault, "blind")] {
        let invite = ask!(
            story.alice,
            Invite,
            "invite",
            "--role",
            role,
            "--expires",
            "15m",
            "--yes",
            "--no-wait"
        )?;
        hold(invite.auto_confirm, || {
            format!("the {role} invite would still ask for a code")
        })?;
        let joined = ask!(node, Join, "join", &invite.ticket, "--yes")?;
        check_join(node, &joined, role)?;
        evidence.push(format!(
            "{} joined as {role} by a one-use ticket of 15 minutes",
            node.name
        ));
    }
    let members = ask!(story.alice, MeshMembers, "mesh", "members")?;
    let roles: BTreeSet<(Option<&str>, &str)> = members
        .members
        .iter()
        .map(|member| (member.name.as_deref(), member.role.as_str()))
        .collect();
    for (name, role) in [
        (words::ALICE, "admin"),
        (words::BOB, "writer"),
        (words::CAROL, "reader"),
    ] {
        hold(roles.contains(&(Some(name), role)), || {
            format!("alice does not list {name} as {role}: {roles:?}")
        })?;
    }
    hold(
        members.members.iter().filter(|member| member.role == "blind").count() == 1,
        || format!("alice does not list one blind replica: {roles:?}"),
    )?;
    evidence.push("alice lists four devices: admin, writer, reader, blind".to_owned());
    Ok(())
}

/// Both sides show the code; alice confirms only when they are the same. Gives the code.
fn join_by_code(story: &mut Story) -> Result<String, Failure> {
    // The second domain is where alice will publish editions.
    let invite = ask!(
        story.alice,
        Invite,
        "invite",
        "--role",
        "writer",
        "--domain",
        "main",
        "--domain",
        words::PUBLIC_DOMAIN,
        "--no-wait"
    )?;
    hold(!invite.auto_confirm, || {
        "a writer's invite would not ask for a code".into()
    })?;
    let arguments = ["join", invite.ticket.as_str()].map(std::ffi::OsStr::new);
    let mut joining = story.bob.begin(&arguments, None)?;
    let theirs = match wait_for_code(story, &mut joining) {
        Ok(code) => code,
        // A join that ended without a code says itself why.
        Err(failure) if joining.has_ended() => return Err(story.bob.end(joining, JOIN_LIMIT).err().unwrap_or(failure)),
        Err(failure) => return Err(failure),
    };
    let ours = story
        .alice
        .wait("`invite wait` to show bob's code", JOIN_LIMIT, |alice| {
            let report = ask!(alice, InviteWait, "invite", "wait", &invite.id, "--timeout", "5s")?;
            match report.state {
                InviteState::Confirm { name, code, .. } => {
                    hold(name == words::BOB, || format!("the waiting device calls itself {name}"))?;
                    Ok(Look::Done(code))
                }
                InviteState::Waiting => Ok(Look::NotYet("no device has presented the ticket".into())),
                InviteState::Joined { .. } => {
                    Err(Failure::claim("the device was let in before the code was confirmed"))
                }
                InviteState::Closed { reason } => Err(Failure::claim(format!("the invite is closed: {reason}"))),
            }
        })?;
    hold(ours == theirs && !ours.is_empty(), || {
        format!("alice shows the code `{ours}`, bob shows `{theirs}`")
    })?;
    let confirmed = ask!(story.alice, InviteConfirm, "invite", "confirm", &invite.id, &theirs)?;
    hold(confirmed.joined, || {
        "the code was confirmed and the device is still not a member".into()
    })?;
    let Response::Join(joined) = story.bob.end(joining, JOIN_LIMIT)? else {
        return Err(story.bob.failed(ApiError::bug("another kind of answer than join")));
    };
    check_join(&story.bob, &joined, "writer")?;
    Ok(ours)
}

fn wait_for_code(story: &Story, joining: &mut Running) -> Result<String, Failure> {
    let what = format!("bob's `sovm join` to print `{CODE_LINE}`");
    wait_for(&story.interrupt, &what, JOIN_LIMIT, || {
        let notes = joining.notes();
        // A line counts once its end is there.
        let code = notes
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .find_map(|line| line.trim().strip_prefix(CODE_LINE));
        if let Some(code) = code {
            return Ok(Look::Done(code.trim().to_owned()));
        }
        hold(!joining.has_ended(), || {
            "`sovm join` ended without showing a code".into()
        })?;
        Ok(Look::NotYet(format!("{:?}", notes.trim())))
    })
}

fn check_join(node: &Node, joined: &JoinReport, role: &str) -> Result<(), Failure> {
    hold(joined.role == role, || {
        format!("{} joined as {}, the ticket said {role}", node.name, joined.role)
    })
}

/// Step 4.
pub(super) fn replicate(story: &mut Story, evidence: &mut Vec<String>) -> Result<(), Failure> {
    let wanted = table_objects(&story.alice)?;
    for node in [&mut story.bob, &mut story.carol] {
        wait_for_objects(node, &wanted, REPLICATE_LIMIT)?;
    }
    evidence.push(format!("bob and carol hold all {} objects", wanted.len()));
    for query in SAME_ON_ALL {
        let (ours, theirs) = (story.alice.rows(query)?, story.bob.rows(query)?);
        hold(ours == theirs, || {
            format!(
                "`{query}` gives {} bytes (BLAKE3 {}) on alice and {} bytes (BLAKE3 {}) on bob",
                ours.len(),
                digest(&ours),
                theirs.len(),
                digest(&theirs)
            )
        })?;
        let rows = cells(&ours)?.len() as u64;
        evidence.push(format!(
            "{} rows, {} bytes of CSV, BLAKE3 {} on both",
            thousands(rows),
            thousands(ours.len() as u64),
            short(&digest(&ours))
        ));
    }
    let scan = story
        .needles
        .scan(story.bob.home())
        .map_err(|error| ApiError::io("scanning bob's home", &error))?;
    evidence.push(super::trouble::clean(
        &scan,
        &story.needles,
        "bob's home while it runs",
    )?);
    Ok(())
}

/// Ids of the objects of all tables that a node can read.
pub(super) fn table_objects(node: &Node) -> Result<BTreeSet<String>, Failure> {
    let mut list = ask!(node, ObjectList, "object", "list")?;
    list.objects.retain(|object| object.table.is_some());
    Ok(ids_here(&list.objects))
}

/// Waits until a node has the bytes of objects, and can read them.
pub(super) fn wait_for_objects(node: &mut Node, wanted: &BTreeSet<String>, limit: Duration) -> Result<(), Failure> {
    hold(!wanted.is_empty(), || "there is no object to wait for".into())?;
    node.wait(&format!("all {} objects", wanted.len()), limit, |node| {
        let list = ask!(node, ObjectList, "object", "list")?;
        Ok(missing(wanted, &list.objects).map_or(Look::Done(()), Look::NotYet))
    })
}
