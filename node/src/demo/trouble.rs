//! Steps 5 to 7: a kill in mid-transfer, a removal, a look at the blind replica's disk.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    time::{Duration, Instant},
};

use super::{
    Story,
    checks::{CutTransfer, ids_here, missing, short, thousands},
    cli::{Failure, Node, ask, hold},
    data::{self, words},
    founding::{table_objects, wait_for_objects},
    process::{Feed, Look},
    scan::{Needles, Scan},
};
use crate::{
    api::{ApiError, ObjectState, ObjectSummary, Response},
    config::format_bytes,
};

/// What alice may send a second while a transfer is to be cut: slow enough to hit, fast enough to end.
const SLOW_UPLOAD: u64 = 8 << 20;

/// The kill happens inside this share of the transfer, in percent.
const KILL_WINDOW: std::ops::RangeInclusive<u64> = 20..=80;

/// …and not before the transfer has run this long.
const KILL_AFTER: Duration = Duration::from_secs(1);

/// How long the generated table may take to be encrypted.
const BALLAST_LIMIT: Duration = Duration::from_secs(120);

/// How long one large transfer may take.
const TRANSFER_LIMIT: Duration = Duration::from_secs(90);

/// How long a key may take to arrive.
const KEY_LIMIT: Duration = Duration::from_secs(30);

/// How long a removed device is given to try for what it must not get.
const TEMPTATION: Duration = Duration::from_secs(2);

/// What the generated table says of itself; the same on both nodes only when every row is the same in number and length.
pub(super) const BALLAST_FACTS: &str = "select count(*) as crates, min(ballast_slot) as lowest, max(ballast_slot) as highest, sum(ballast_slot) as checksum, sum(length(ballast_cargo)) as chars from ballast_crates";

/// Step 5.
pub(super) fn kill_in_transfer(story: &mut Story, evidence: &mut Vec<String>) -> Result<(), Failure> {
    let base = story.bob.status()?.objects.have_bytes;
    // Carol and the vault would take their share of the slow line.
    for node in [&mut story.bob, &mut story.carol, &mut story.vault, &mut story.alice] {
        node.stop()?;
    }
    story.alice.configure(Some(SLOW_UPLOAD))?;
    story.alice.start()?;
    let feed: Feed = Box::new(|out| data::write_ballast(data::BALLAST_ROWS, out));
    let arguments = ["ingest", words::BALLAST, "-", "--format", "csv"].map(OsStr::new);
    let Response::Ingest(report) = story.alice.call_with(&arguments, Some(feed), BALLAST_LIMIT)? else {
        return Err(story.alice.failed(ApiError::bug("another kind of answer than ingest")));
    };
    hold(report.rows == data::BALLAST_ROWS, || {
        format!("{} of {} rows were published", report.rows, data::BALLAST_ROWS)
    })?;
    let total = report.output_bytes;
    evidence.push(format!(
        "alice made {}: {} rows from standard input, {} in {} objects, sent at {} a second",
        words::BALLAST,
        thousands(report.rows),
        format_bytes(total),
        report.objects.len(),
        format_bytes(SLOW_UPLOAD)
    ));

    story.bob.start()?;
    let before = wait_for_window(&mut story.bob, base, total)?;
    story.bob.kill9()?;
    evidence.push(format!(
        "bob killed with signal 9 at {} of {} bytes ({} %)",
        thousands(before),
        thousands(total),
        before * 100 / total
    ));
    let scan = story
        .needles
        .scan(story.bob.home())
        .map_err(|error| ApiError::io("scanning bob's home", &error))?;
    evidence.push(clean(&scan, &story.needles, "bob's home as signal 9 left it")?);

    story.bob.start()?;
    let wanted = table_objects(&story.alice)?;
    hold(report.objects.iter().all(|id| wanted.contains(id)), || {
        "alice does not list the objects it has just made".into()
    })?;
    wait_for_objects(&mut story.bob, &wanted, TRANSFER_LIMIT)?;
    let after = story.bob.status()?.transfer.fetched_bytes;
    evidence.extend(CutTransfer { total, before, after }.judge()?);
    let (ours, theirs) = (story.alice.rows(BALLAST_FACTS)?, story.bob.rows(BALLAST_FACTS)?);
    hold(ours == theirs, || {
        format!(
            "alice says {}, bob says {}",
            String::from_utf8_lossy(&ours).trim(),
            String::from_utf8_lossy(&theirs).trim()
        )
    })?;
    let facts = String::from_utf8_lossy(&ours)
        .lines()
        .nth(1)
        .unwrap_or_default()
        .to_owned();
    hold(
        facts.starts_with(&format!("{},0,{},", data::BALLAST_ROWS, data::BALLAST_ROWS - 1)),
        || format!("the table counts {facts}"),
    )?;
    evidence.push(format!("count, lowest, highest, sum, characters: {facts} on both"));

    story.alice.stop()?;
    story.alice.configure(None)?;
    for node in [&mut story.alice, &mut story.carol, &mut story.vault] {
        node.start()?;
    }
    Ok(())
}

/// Waits until the transfer is well on its way, and gives the bytes that are here.
fn wait_for_window(bob: &mut Node, base: u64, total: u64) -> Result<u64, Failure> {
    let mut first_byte = None;
    let what = format!(
        "the transfer of {} to be between {} and {} %",
        format_bytes(total),
        KILL_WINDOW.start(),
        KILL_WINDOW.end()
    );
    bob.wait(&what, TRANSFER_LIMIT, |bob| {
        let status = bob.status()?;
        let here = status.objects.have_bytes.saturating_sub(base);
        let share = here * 100 / total.max(1);
        if here > 0 || status.transfer.fetched_bytes > 0 {
            first_byte.get_or_insert_with(Instant::now);
        }
        let long_enough = first_byte.is_some_and(|at| at.elapsed() >= KILL_AFTER);
        hold(share <= *KILL_WINDOW.end(), || {
            format!(
                "{share} % were here at this look already: is `limits.upload` ({} a second) kept?",
                format_bytes(SLOW_UPLOAD)
            )
        })?;
        if long_enough && KILL_WINDOW.contains(&share) {
            return Ok(Look::Done(here));
        }
        Ok(Look::NotYet(format!(
            "objects.have_bytes {} ({base} before it began), want_bytes {}, transfer.fetched_bytes {}, {} peers online",
            status.objects.have_bytes,
            status.objects.want_bytes,
            status.transfer.fetched_bytes,
            status.peers.iter().filter(|peer| peer.online).count()
        )))
    })
}

/// Step 6.
pub(super) fn remove(story: &mut Story, evidence: &mut Vec<String>) -> Result<(), Failure> {
    let before = table_objects(&story.alice)?;
    wait_for_objects(&mut story.carol, &before, TRANSFER_LIMIT)?;
    let old = generation(&story.alice)?;
    story.carol.wait("the newest key of main", KEY_LIMIT, |carol| {
        let here = generation(carol)?;
        Ok(if here == old {
            Look::Done(())
        } else {
            Look::NotYet(format!("generation {here:?}, alice is at {old:?}"))
        })
    })?;

    let removed = ask!(story.alice, MeshRemove, "mesh", "remove", words::CAROL, "--yes")?;
    let new = removed
        .rotated
        .iter()
        .find(|rotation| rotation.domain == "main")
        .map(|rotation| rotation.generation);
    hold(new > old && new == generation(&story.alice)?, || {
        format!(
            "the key of main did not move on: generation {old:?} before, {new:?} told, {:?} in the domain list",
            generation(&story.alice)
        )
    })?;
    evidence.push(format!(
        "carol removed; key generation of main {} -> {}",
        old.unwrap_or_default(),
        new.unwrap_or_default()
    ));

    let file = story.input("notes.csv");
    std::fs::write(&file, data::notes())
        .map_err(|error| ApiError::io(format!("writing {}", file.display()), &error))?;
    let report = ask!(story.alice, Ingest, "ingest", words::NOTES, &file)?;
    let after = table_objects(&story.alice)?;
    wait_for_objects(&mut story.bob, &after, TRANSFER_LIMIT)?;
    let query = format!("select * from {} order by 1, 2", words::NOTES);
    let (ours, theirs) = (story.alice.rows(&query)?, story.bob.rows(&query)?);
    hold(
        ours == theirs && String::from_utf8_lossy(&theirs).contains(words::NOTES_ROWS[0][1]),
        || "bob does not read the new table as alice does".into(),
    )?;
    evidence.push(format!(
        "alice made {} afterwards; bob reads its {} rows",
        words::NOTES,
        report.rows
    ));

    // A fresh start asks everybody again.
    story.carol.stop()?;
    story.carol.start()?;
    std::thread::sleep(TEMPTATION);
    story.interrupt.check()?;
    still_outside(story, &query, &report.objects, evidence)?;
    let carols = generation(&story.carol)?;
    hold(carols <= old, || {
        format!("carol has key generation {carols:?}, she was removed at {old:?}")
    })?;
    let kept = story.carol.rows("select count(*) as hours from weather")?;
    hold(kept == format!("hours\n{}\n", data::WEATHER_ROWS).into_bytes(), || {
        format!(
            "carol's node no longer answers for what it had: {}",
            String::from_utf8_lossy(&kept).trim()
        )
    })?;
    evidence.push(format!(
        "carol still reads what she had: {} rows of weather",
        thousands(data::WEATHER_ROWS)
    ));
    Ok(())
}

/// Carol finds neither table nor object nor key of what came after.
fn still_outside(story: &Story, query: &str, objects: &[String], evidence: &mut Vec<String>) -> Result<(), Failure> {
    let carol = &story.carol;
    let tables = ask!(carol, TableList, "table", "list")?;
    hold(tables.tables.iter().all(|table| table.name != words::NOTES), || {
        "carol lists the table that came after".into()
    })?;
    let known = ask!(carol, ObjectList, "object", "list")?;
    hold(
        known.objects.iter().all(|object| !objects.contains(&object.storage_id)),
        || "carol knows the object that came after".into(),
    )?;
    let refused = carol.must_fail(&["sql", query])?;
    evidence.push(format!("carol's `sql` on it: {}", refused.message));
    for id in objects {
        let refused = carol.must_fail(&["object", "show", id])?;
        carol.must_fail(&["object", "hexdump", id])?;
        carol.must_fail(&["object", "key", id, "--yes-show-secret"])?;
        evidence.push(format!(
            "carol's `object show`, `hexdump`, `key` on {}: {}",
            short(id),
            refused.message
        ));
    }
    let status = carol.status()?;
    evidence.push(format!(
        "carol was started again and asked everybody: {} of {} devices answer her",
        status.devices_online, status.devices
    ));
    Ok(())
}

/// Key generation of `main` as a node knows it.
fn generation(node: &Node) -> Result<Option<u64>, Failure> {
    let list = ask!(node, DomainList, "domain", "list")?;
    Ok(list
        .domains
        .iter()
        .find(|domain| domain.name == "main")
        .and_then(|domain| domain.generation))
}

/// Step 7.
pub(super) fn look_at_vault(story: &mut Story, evidence: &mut Vec<String>) -> Result<(), Failure> {
    let wanted = ids_here(&ask!(story.alice, ObjectList, "object", "list")?.objects);
    let held = wait_for_copies(&mut story.vault, &wanted)?;
    let told: Vec<&ObjectSummary> = held
        .iter()
        .filter(|object| {
            object.kind.is_some()
                || object.table.is_some()
                || object.rows_stated.is_some()
                || object.state == ObjectState::Queryable
        })
        .collect();
    hold(told.is_empty(), || {
        format!(
            "the vault knows more of {} objects than their bytes: {:?}",
            told.len(),
            told.first()
        )
    })?;
    let status = story.vault.status()?;
    hold(
        status.blind && status.mesh.name.is_none() && status.tables == 0 && status.domains.is_empty(),
        || {
            format!(
                "the vault knows too much: mesh {:?}, {} tables, domains {:?}",
                status.mesh.name, status.tables, status.domains
            )
        },
    )?;
    let refused = story.vault.must_fail(&["sql", "select count(*) from weather"])?;
    let mut sizes: Vec<u64> = held.iter().filter_map(|object| object.size_bytes).collect();
    sizes.sort_unstable();
    let shown: Vec<String> = sizes.iter().map(|size| format_bytes(*size)).collect();
    evidence.push(format!(
        "what it can see: {} blobs, {} together",
        held.len(),
        format_bytes(sizes.iter().sum())
    ));
    evidence.push(format!("their sizes, all padded: {}", shown.join(", ")));
    evidence.push(format!("its answer to SQL: {}", refused.message));

    story.vault.stop()?;
    let mut scan = story
        .needles
        .scan(story.vault.home())
        .map_err(|error| ApiError::io("scanning the vault's home", &error))?;
    // Its log may say its own name, and nothing else.
    let others = Needles::new(
        words::planted()
            .into_iter()
            .filter(|word| !words::VAULT.contains(word.as_str())),
    );
    others
        .scan_file(story.vault.log(), &mut scan)
        .map_err(|error| ApiError::io("scanning the vault's log", &error))?;
    evidence.push(clean(&scan, &story.needles, "the vault's home and log")?);
    for (node, what) in [
        (&story.alice, "alice's home while it runs"),
        (&story.bob, "bob's home while it runs"),
    ] {
        let scan = story
            .needles
            .scan(node.home())
            .map_err(|error| ApiError::io(format!("scanning {what}"), &error))?;
        evidence.push(clean(&scan, &story.needles, what)?);
    }
    story.vault.start()
}

/// Waits until the vault holds objects, and gives all that it lists.
pub(super) fn wait_for_copies(vault: &mut Node, wanted: &BTreeSet<String>) -> Result<Vec<ObjectSummary>, Failure> {
    vault.wait(
        &format!("copies of all {} objects", wanted.len()),
        TRANSFER_LIMIT,
        |vault| {
            let list = ask!(vault, ObjectList, "object", "list")?;
            Ok(missing(wanted, &list.objects).map_or(Look::Done(list.objects), Look::NotYet))
        },
    )
}

/// A scan without hits, as a line of evidence.
pub(super) fn clean(scan: &Scan, needles: &Needles, what: &str) -> Result<String, Failure> {
    hold(scan.files > 0 && scan.bytes > 0, || {
        format!("{what}: there was nothing to scan")
    })?;
    if let Some((word, path)) = scan.hits.first() {
        return Err(Failure::claim(format!(
            "{what}: {} hits, `{word}` stands in clear in {}",
            scan.hits.len(),
            path.display()
        )));
    }
    Ok(format!(
        "{what}: {} files, {}, none of {} planted words in UTF-8 or UTF-16",
        thousands(scan.files),
        format_bytes(scan.bytes),
        needles.count()
    ))
}
