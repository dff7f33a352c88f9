//! Steps 9 and 10: everything is lost but a page of paper and the blind replica; then a drill.

use std::{collections::BTreeSet, path::Path, time::Duration};

use super::{
    Story,
    checks::{digest, ids_here, missing, short, thousands},
    cli::{Failure, Node, ask, hold},
    data::words,
    founding::{BY_ORIGIN, table_objects},
    process::Look,
    trouble::{BALLAST_FACTS, clean, wait_for_copies},
};
use crate::{
    api::{ApiError, CheckpointInfo, Response},
    config::{format_bytes, format_duration_ms},
};

/// How long recovery, its transfers and a drill may take.
const RESCUE_LIMIT: Duration = Duration::from_secs(90);

/// What is asked before the disaster and after it: everything small in full, the large table by its sums.
const QUERIES: [&str; 5] = [
    BY_ORIGIN,
    "select * from weather order by origin, time_hour",
    "select * from airports order by faa",
    BALLAST_FACTS,
    "select * from nightfall_notes order by 1, 2",
];

/// What was known before the disaster.
#[derive(Debug)]
pub(super) struct Noted {
    checkpoint: CheckpointInfo,
    objects: BTreeSet<String>,
    answers: Vec<Vec<u8>>,
    tables: Vec<(String, u64)>,
}

/// Step 9.
pub(super) fn recover(story: &mut Story, evidence: &mut Vec<String>) -> Result<(), Failure> {
    let page = story.stage.join("kit-page.txt");
    let kit = ask!(story.alice, RecoveryKit, "recovery", "kit", "--domain", "main")?;
    write_private(&page, &kit.page).map_err(|error| ApiError::io(format!("writing {}", page.display()), &error))?;
    let made = ask!(
        story.alice,
        RecoveryCheckpoint,
        "recovery",
        "checkpoint",
        "--domain",
        "main"
    )?;
    let checkpoints = made.checkpoints;
    let Some(checkpoint) = checkpoints.into_iter().find(|checkpoint| checkpoint.domain == "main") else {
        return Err(Failure::claim("no checkpoint of `main` was written"));
    };
    evidence.push(format!(
        "kit {} on one page of {} lines",
        kit.fingerprint,
        kit.page.lines().count()
    ));
    evidence.push(format!(
        "checkpoint {} of {} entries, domain digest {}",
        short(&checkpoint.root_id),
        thousands(checkpoint.entries),
        short(&checkpoint.digest)
    ));
    let mut wanted = ids_here(&ask!(story.alice, ObjectList, "object", "list")?.objects);
    wanted.insert(checkpoint.root_id.clone());
    let held = wait_for_copies(&mut story.vault, &wanted)?;
    evidence.push(format!("the vault holds them all, root included: {} blobs", held.len()));
    let scan = story
        .needles
        .scan(story.vault.home())
        .map_err(|error| ApiError::io("scanning the vault's home", &error))?;
    evidence.push(clean(&scan, &story.needles, "the vault's home with them")?);
    let noted = Noted {
        checkpoint,
        objects: table_objects(&story.alice)?,
        answers: answers(&story.alice)?,
        tables: tables(&story.alice)?,
    };

    // Lost means lost: no orderly end, no last checkpoint.
    for node in [&mut story.alice, &mut story.bob, &mut story.carol] {
        node.kill9()?;
    }
    for path in [story.alice.home(), story.alice.key_file()] {
        let gone = if path.is_dir() {
            std::fs::remove_dir_all(path)
        } else {
            std::fs::remove_file(path)
        };
        gone.map_err(|error| ApiError::io(format!("removing {}", path.display()), &error))?;
    }
    evidence.push("alice, bob and carol killed; alice's home and key file deleted".to_owned());

    restore(story, &page, &noted, evidence)?;
    story.noted = Some(noted);
    Ok(())
}

/// Recovers into a new home and compares everything that was noted.
fn restore(story: &mut Story, page: &Path, noted: &Noted, evidence: &mut Vec<String>) -> Result<(), Failure> {
    let again = &mut story.again;
    again.configure(None)?;
    let arguments = [
        "recover".as_ref(),
        "--kit".as_ref(),
        page.as_os_str(),
        "--name".as_ref(),
        words::ALICE_AGAIN.as_ref(),
    ];
    let arguments = [
        arguments.as_slice(),
        &["--key-file".as_ref(), again.key_file().as_os_str()],
    ]
    .concat();
    let Response::Recover(report) = again.call_with(&arguments, None, RESCUE_LIMIT)? else {
        return Err(again.failed(ApiError::bug("another kind of answer than recover")));
    };
    let checkpoint = &noted.checkpoint;
    hold(
        report.digest == checkpoint.digest
            && report.root_id == checkpoint.root_id
            && report.entries == checkpoint.entries,
        || {
            format!(
                "recovered {} entries with digest {} from root {}, the checkpoint had {} with {} under {}",
                report.entries,
                report.digest,
                report.root_id,
                checkpoint.entries,
                checkpoint.digest,
                checkpoint.root_id
            )
        },
    )?;
    evidence.push(format!(
        "recovered from the page and the vault: {} entries, {} tables, digest {} as noted",
        thousands(report.entries),
        report.tables,
        short(&report.digest)
    ));
    again.start()?;
    let have = again.wait("every object to be readable again", RESCUE_LIMIT, |again| {
        let list = ask!(again, ObjectList, "object", "list")?.objects;
        let counts = again.status()?.objects;
        let open = counts.pending_bytes + counts.pending_access + counts.quarantined;
        Ok(match missing(&noted.objects, &list) {
            Some(missing) => Look::NotYet(missing),
            None if open > 0 => Look::NotYet(format!("{counts:?}")),
            None => Look::Done(counts),
        })
    })?;
    evidence.push(format!(
        "all {} objects of tables are back; {} here",
        noted.objects.len(),
        format_bytes(have.have_bytes)
    ));
    let (now, then) = (tables(again)?, &noted.tables);
    hold(now == *then, || format!("tables and rows now: {now:?}; then: {then:?}"))?;
    let answers = answers(again)?;
    for ((query, now), then) in QUERIES.iter().zip(&answers).zip(&noted.answers) {
        hold(now == then, || {
            format!("`{query}` gives BLAKE3 {} and gave {}", digest(now), digest(then))
        })?;
    }
    let all = answers.concat();
    evidence.push(format!(
        "{} queries give the same {} bytes as before, BLAKE3 {}",
        QUERIES.len(),
        thousands(all.len() as u64),
        short(&digest(&all))
    ));
    let rows: Vec<String> = now
        .iter()
        .map(|(table, rows)| format!("{table} {}", thousands(*rows)))
        .collect();
    evidence.push(format!("rows: {}", rows.join(", ")));
    Ok(())
}

/// The page as a person would keep it: for its owner only.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?
        .write_all(text.as_bytes())
}

fn answers(node: &Node) -> Result<Vec<Vec<u8>>, Failure> {
    QUERIES.iter().map(|query| node.rows(query)).collect()
}

/// Tables with their rows, counted by queries.
fn tables(node: &Node) -> Result<Vec<(String, u64)>, Failure> {
    let mut names: Vec<String> = ask!(node, TableList, "table", "list")?
        .tables
        .into_iter()
        .map(|table| table.name)
        .collect();
    names.sort_unstable();
    let mut counted = Vec::new();
    for name in names {
        let answer =
            String::from_utf8_lossy(&node.rows(&format!("select count(*) as counted from {name}"))?).into_owned();
        let Some(rows) = answer.lines().nth(1).and_then(|line| line.trim().parse().ok()) else {
            return Err(Failure::claim(format!(
                "{}: counting {name} gave {answer:?}",
                node.name
            )));
        };
        counted.push((name, rows));
    }
    Ok(counted)
}

/// Step 10.
pub(super) fn drill(story: &mut Story, evidence: &mut Vec<String>) -> Result<(), Failure> {
    let again = &story.again;
    let Response::Drill(report) = again.call_with(&["drill".as_ref()], None, RESCUE_LIMIT)? else {
        return Err(again.failed(ApiError::bug("another kind of answer than drill")));
    };
    hold(report.proven && report.missing == 0, || {
        format!("the drill says {report:?}")
    })?;
    let Some(domain) = report.domains.iter().find(|domain| domain.domain == "main") else {
        return Err(Failure::claim("the drill says nothing of `main`"));
    };
    hold(
        domain.digest_restored == domain.digest_here
            && domain.tables.iter().all(|table| table.rows_restored == table.rows_here),
        || format!("the drill calls unequal things proven: {domain:?}"),
    )?;
    if let Some(noted) = &story.noted {
        hold(domain.tables.len() == noted.tables.len(), || {
            format!(
                "the drill counted {} tables, there are {}",
                domain.tables.len(),
                noted.tables.len()
            )
        })?;
    }
    evidence.push(format!(
        "restored aside: {} objects, 0 missing, {} tables counted on both sides, {} read and compared",
        domain.objects,
        domain.tables.len(),
        format_bytes(domain.sampled_bytes)
    ));
    evidence.push(format!("digest {} on both sides", short(&domain.digest_restored)));
    let recovery = again.status()?.recovery;
    let Some(proven) = recovery.proven_ms else {
        return Err(Failure::claim(format!(
            "`sovm status` does not show the drill: {recovery:?}"
        )));
    };
    hold(recovery.proven_missing == Some(0), || {
        format!("`sovm status` shows missing objects: {recovery:?}")
    })?;
    let age = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
        .saturating_sub(proven);
    evidence.push(format!(
        "`sovm status` shows it: last proven {} ago, {} objects, 0 missing",
        format_duration_ms(age),
        recovery.proven_objects.unwrap_or_default()
    ));
    Ok(())
}
