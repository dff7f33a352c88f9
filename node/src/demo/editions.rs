//! Step 8: a product with two editions. An embargo that a key holds, a release and a rollback that appear as one (DESIGN §10).
//!
//! Alice alone is in the domain of releases, bob in the domain that reads what is live. Numbers are compared with what is counted in
//! the very files the editions were built from.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use super::{
    Story,
    checks::{cells, compare_origins, digest, ids_here, short, thousands},
    cli::{Failure, Node, ask, hold},
    data::{self, Origin, words},
    process::Look,
    trouble::clean,
};
use crate::{
    api::{ApiError, EditionSealReport, ReaderInfo},
    config::{format_bytes, format_duration_ms},
};

/// How long a version, its keys and its bytes may take to reach bob.
const RELEASE_LIMIT: Duration = Duration::from_secs(60);

/// How objects that hold rows of an edition are listed.
const EDITION_FILE: &str = "edition-file";

/// The most that is dumped at once, and more than any of them has.
const WHOLE: &str = "1048576";

/// Why alice takes an edition back.
const REASON: &str = "February was published too early";

/// A state of the product: the file it is built from, and what that says by a calculation of our own.
struct Cut {
    file: PathBuf,
    expected: BTreeMap<String, Origin>,
}

impl Cut {
    /// The first months of the weather, written where the daemon can read it.
    fn of(story: &Story, weather: &[u8], months: u32) -> Result<Self, Failure> {
        let text = data::first_months(weather, months)?;
        let expected = data::by_origin(text.as_bytes())?;
        let file = story.input(&format!("first-{months}-months.csv"));
        std::fs::write(&file, text).map_err(|error| ApiError::io(format!("writing {}", file.display()), &error))?;
        Ok(Self { file, expected })
    }

    fn rows(&self) -> u64 {
        self.expected.values().map(|origin| origin.rows).sum()
    }

    /// Whether an answer is this state's, number by number.
    fn is_told_by(&self, answer: &[u8]) -> Result<Vec<String>, Failure> {
        compare_origins(&self.expected, &cells(answer)?)
    }
}

/// Step 8.
pub(super) fn publish(story: &mut Story, evidence: &mut Vec<String>) -> Result<(), Failure> {
    let weather = data::weather()?;
    let (first, second) = (Cut::of(story, &weather, 1)?, Cut::of(story, &weather, 2)?);
    let structures = story.input("structures.json");
    std::fs::write(&structures, data::structures())
        .map_err(|error| ApiError::io(format!("writing {}", structures.display()), &error))?;
    found(story, evidence)?;

    let alice = &story.alice;
    let table = format!("{}={}", data::FLOW, first.file.display());
    ask!(
        alice,
        EditionBuild,
        "edition",
        "build",
        words::PRODUCT,
        "--table",
        &table,
        "--null",
        "NA",
        "--structures",
        &structures
    )?;
    let one = seal(alice, &first)?;
    release(alice, &one.edition_id, "January as agreed")?;
    wait_for_rows(&mut story.bob, &first, None)?;
    evidence.push(format!(
        "edition {} released at once: bob reads its {} rows by SQL, number by number what the file says",
        one.edition_id,
        thousands(first.rows())
    ));

    let before = edition_files(&story.alice)?;
    let table = format!("{}={}", data::FLOW, second.file.display());
    ask!(
        story.alice,
        EditionBuild,
        "edition",
        "build",
        words::PRODUCT,
        "--table",
        &table,
        "--null",
        "NA",
        "--replace"
    )?;
    let two = seal(&story.alice, &second)?;
    let new: Vec<String> = edition_files(&story.alice)?
        .into_iter()
        .filter(|id| !before.contains(id))
        .collect();
    hold(!new.is_empty(), || {
        format!("edition {} was sealed and no object came with it", two.edition_id)
    })?;
    evidence.push(format!(
        "edition {} sealed under embargo: {} rows in {} more objects",
        two.edition_id,
        thousands(second.rows()),
        new.len()
    ));
    stays_closed(story, &two.edition_id, &new, &first, evidence)?;

    release(&story.alice, &two.edition_id, "08:30")?;
    let (took, lines) = wait_for_rows(&mut story.bob, &second, Some(&first))?;
    evidence.push(format!(
        "released: {} later bob reads edition {}, and saw nothing in between",
        format_duration_ms(took),
        two.edition_id
    ));
    evidence.extend(lines);
    for id in &new {
        ask!(story.bob, ObjectKey, "object", "key", id, "--yes-show-secret")?;
    }
    take_back(story, &one.edition_id, (&first, &second), evidence)
}

/// The catalogue and its product, and who can read what of it.
fn found(story: &Story, evidence: &mut Vec<String>) -> Result<(), Failure> {
    let alice = &story.alice;
    let init = ask!(
        alice,
        InventoryInit,
        "inventory",
        "init",
        "--embargo",
        "--release-domain",
        words::DOMAIN,
        "--public-domain",
        words::PUBLIC_DOMAIN
    )?;
    hold(init.embargo, || "the catalogue was made without an embargo".into())?;
    ask!(
        alice,
        InventoryChange,
        "product",
        "create",
        words::PRODUCT,
        "--kind",
        "data",
        "--lifecycle",
        "revisable"
    )?;
    let audience = ask!(alice, Audience, "inventory", "audience")?;
    let named = |readers: &[ReaderInfo]| -> Vec<String> {
        let mut names: Vec<String> = readers.iter().filter_map(|reader| reader.name.clone()).collect();
        names.sort_unstable();
        names
    };
    let (embargoed, live) = (named(&audience.embargoed), named(&audience.live));
    hold(
        embargoed == [words::ALICE] && live == [words::ALICE, words::BOB] && audience.live.len() == 2,
        || format!("embargoed editions are read by {embargoed:?}, live ones by {live:?}"),
    )?;
    evidence.push(format!(
        "catalogue {}: embargoed editions are read by {}, live ones by {} and {}",
        init.catalog_id,
        words::ALICE,
        words::ALICE,
        words::BOB
    ));
    Ok(())
}

/// Seals what was built: all rows of the file, waiting for a release.
fn seal(alice: &Node, cut: &Cut) -> Result<Box<EditionSealReport>, Failure> {
    let sealed = ask!(alice, EditionSeal, "edition", "seal", words::PRODUCT)?;
    let rows: u64 = sealed.tables.iter().map(|table| table.rows).sum();
    hold(
        sealed.state.as_deref() == Some("embargoed") && rows == cut.rows(),
        || {
            format!(
                "edition {} is {:?} with {rows} rows, the file has {}",
                sealed.edition_id,
                sealed.state,
                cut.rows()
            )
        },
    )?;
    Ok(sealed)
}

fn release(alice: &Node, edition: &str, reason: &str) -> Result<(), Failure> {
    let released = ask!(
        alice,
        InventoryChange,
        "inventory",
        "release",
        words::PRODUCT,
        edition,
        "--reason",
        reason
    )?;
    hold(released.seq.is_some() && released.refused.is_empty(), || {
        format!("the release of {edition} wrote no version: {released:?}")
    })
}

/// Objects with rows of editions.
fn edition_files(node: &Node) -> Result<Vec<String>, Failure> {
    let mut list = ask!(node, ObjectList, "object", "list")?;
    list.objects
        .retain(|object| object.kind.as_deref() == Some(EDITION_FILE));
    Ok(ids_here(&list.objects).into_iter().collect())
}

fn query() -> String {
    format!(
        "select origin, count(*) as hours, avg(temp) as mean_temp from \"{}\".\"HOURLY\" group by origin order by origin",
        words::PRODUCT
    )
}

/// Waits until bob's SQL gives what one file says, and gives how long that took with the numbers. What it answers until then is what
/// the other file says, never a mixture.
fn wait_for_rows(bob: &mut Node, wanted: &Cut, until: Option<&Cut>) -> Result<(u64, Vec<String>), Failure> {
    let begun = Instant::now();
    let what = format!("the edition of {} rows", thousands(wanted.rows()));
    let lines = bob.wait(&what, RELEASE_LIMIT, |bob| {
        let answer = match bob.rows(&query()) {
            Ok(answer) => answer,
            // Nothing is known of it yet, or part of it is on its way.
            Err(failure) => return Ok(Look::NotYet(failure.error.message)),
        };
        match wanted.is_told_by(&answer) {
            Ok(lines) => Ok(Look::Done(lines)),
            Err(failure) => match until {
                Some(until) => until
                    .is_told_by(&answer)
                    .map(|_| Look::NotYet("the edition before it".to_owned())),
                None => Err(failure),
            },
        }
    })?;
    let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok((took, lines))
}

/// Bob has every byte of the edition, and neither its key nor its name; what he reads is the edition before it.
fn stays_closed(
    story: &mut Story,
    edition: &str,
    objects: &[String],
    first: &Cut,
    evidence: &mut Vec<String>,
) -> Result<(), Failure> {
    let listed = ask!(story.alice, Prefetch, "inventory", "prefetch")?;
    hold(listed.objects == objects.len() as u64, || {
        format!(
            "{} objects were listed for fetching, not {}",
            listed.objects,
            objects.len()
        )
    })?;
    let mut bytes = 0;
    for id in objects {
        let ours = ask!(story.alice, ObjectHexdump, "object", "hexdump", id, "--length", WHOLE)?;
        let what = format!("the encrypted bytes of {}", short(id));
        let theirs = story.bob.wait(&what, RELEASE_LIMIT, |bob| {
            let dump = ask!(bob, ObjectHexdump, "object", "hexdump", id, "--length", WHOLE);
            Ok(match dump {
                Ok(dump) => Look::Done(dump),
                Err(failure) => Look::NotYet(failure.error.message),
            })
        })?;
        let whole = ours.size_bytes > 0 && ours.hex.len() as u64 == 2 * ours.size_bytes;
        hold(whole && ours.hex == theirs.hex, || {
            format!(
                "object {}: alice has {} bytes (BLAKE3 of the dump {}), bob {} ({})",
                short(id),
                ours.size_bytes,
                digest(ours.hex.as_bytes()),
                theirs.size_bytes,
                digest(theirs.hex.as_bytes())
            )
        })?;
        bytes += ours.size_bytes;
    }
    evidence.push(format!(
        "bob fetched its ciphertext ahead: {}, the same bytes as alice's",
        format_bytes(bytes)
    ));
    for id in objects {
        let refused = story.bob.must_fail(&["object", "key", id, "--yes-show-secret"])?;
        evidence.push(format!("bob's `object key` on {}: {}", short(id), refused.message));
    }
    let shown = ask!(story.bob, InventoryShow, "inventory", "show")?;
    let editions = shown.products.iter().flat_map(|product| &product.editions);
    hold(editions.clone().all(|entry| entry.edition_id != edition), || {
        format!("bob is shown edition {edition}, which is under embargo")
    })?;
    let refused = story
        .bob
        .must_fail(&["inventory", "release", words::PRODUCT, edition])?;
    evidence.push(format!("bob's `inventory release`: {}", refused.message));
    first.is_told_by(&story.bob.rows(&query())?)?;
    evidence.push(format!(
        "bob is shown {} edition, and reads the {} rows of the first",
        editions.count(),
        thousands(first.rows())
    ));
    Ok(())
}

/// A rollback, and what the log says of it on both sides.
fn take_back(
    story: &mut Story,
    edition: &str,
    (first, second): (&Cut, &Cut),
    evidence: &mut Vec<String>,
) -> Result<(), Failure> {
    let back = ask!(
        story.alice,
        InventoryChange,
        "inventory",
        "rollback",
        words::PRODUCT,
        "--reason",
        REASON
    )?;
    let (took, _) = wait_for_rows(&mut story.bob, first, Some(second))?;
    evidence.push(format!(
        "rolled back: {} later bob reads edition {edition} again, {} rows",
        format_duration_ms(took),
        thousands(first.rows())
    ));
    for node in [&story.alice, &story.bob] {
        let log = ask!(node, InventoryLog, "inventory", "log", "--limit", "1")?;
        let Some(newest) = log.versions.first() else {
            return Err(Failure::claim(format!("{}: the log is empty", node.name)));
        };
        hold(newest.kind == "rollback", || {
            format!("{}: the newest version is a {}, no rollback", node.name, newest.kind)
        })?;
        // The public chain numbers its own versions, and says neither who nor why (INV-390).
        let said = match node.name == story.alice.name {
            true => {
                hold(Some(newest.seq) == back.seq && newest.reason == REASON, || {
                    format!(
                        "version {} says \"{}\", version {:?} was written because \"{REASON}\"",
                        newest.seq, newest.reason, back.seq
                    )
                })?;
                format!("because \"{}\"", newest.reason)
            }
            false => {
                hold(!newest.reason.contains(REASON), || {
                    "the public is told why alice rolled back".into()
                })?;
                "and no reason, which is not public".to_owned()
            }
        };
        evidence.push(format!(
            "{}'s log: version {}, {}, {said}",
            node.name, newest.seq, newest.kind
        ));
    }
    let scan = story
        .needles
        .scan(story.bob.home())
        .map_err(|error| ApiError::io("scanning bob's home", &error))?;
    evidence.push(clean(&scan, &story.needles, "bob's home while it runs")?);
    Ok(())
}
