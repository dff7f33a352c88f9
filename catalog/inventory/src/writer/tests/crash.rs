//! Every call of the writer, interrupted before and after each of its store operations.

use std::sync::Arc;

use crate::{
    doc::{Catalog, Document as _, layout},
    reader::find_head,
    store::{
        InventoryStore, StorePath,
        testing::{Fault, FaultStore},
    },
    transition::{EditionKey, Operation, ReleaseWhen, Version},
    writer::{
        CommitError, Repair, WriteError, Writer,
        testing::{ManualClock, Place, World, bytes_at, catalogue, identity, new_catalog, newest, path, writer_over},
    },
};

/// Runs `call` with a fault at every place: `Ok` from it means that it reports success. After each, `check` is given what
/// a fresh process finds, and whether the call reported success; then `call` runs again without a fault and `done` looks.
struct Crashes<'a> {
    place: Place,
    prepare: &'a dyn Fn(Writer) -> futures::future::BoxFuture<'static, ()>,
    call: &'a dyn Fn(Writer) -> futures::future::BoxFuture<'static, Result<(), String>>,
    check: &'a dyn Fn(&Version, bool) -> bool,
    done: &'a dyn Fn(&Version) -> bool,
}

impl Crashes<'_> {
    async fn everywhere(self) -> usize {
        let mut at = 0;
        loop {
            let mut reached = false;
            for fault in [Fault::Before(at), Fault::After(at)] {
                for dies in [true, false] {
                    reached |= self.once(fault, dies).await;
                }
            }
            if !reached {
                return at;
            }
            at += 1;
        }
    }

    /// Answers whether the fault was reached.
    async fn once(&self, fault: Fault, dies: bool) -> bool {
        let opened = self.place.open();
        let (writer, clock) = catalogue(&opened.store(), true).await;
        (self.prepare)(writer).await;
        let before = newest(&opened.store()).await;
        let failing = Arc::new(FaultStore::new(opened.store(), fault, dies));
        let outcome = (self.call)(writer_over(failing.clone(), &clock)).await;
        let (Fault::Before(at) | Fault::After(at)) = fault;
        let reached = failing.operations() > at;
        drop(failing);

        let context = format!("{:?} {fault:?} dies: {dies} -> {outcome:?}", self.place);
        let store = opened.store();
        // Old head or new head, readable in full, and never behind.
        let after = newest(&store).await;
        let behind = after.head().root().seq < before.head().root().seq;
        assert!(!behind, "{context}: a version was lost");
        let version = after.to_version().expect("a version");
        assert!((self.check)(&version, outcome.is_ok()), "{context}: {version:?}");
        // No document is half there.
        for name in store.list(Some(&path(layout::INVENTORY))).await.expect("listed") {
            sound(&store, &name).await;
        }
        (self.call)(writer_over(store.clone(), &clock)).await.ok();
        let version = newest(&store).await.to_version().expect("a version");
        assert!(
            (self.done)(&version),
            "{context}: the repetition doesn't complete it: {version:?}"
        );
        let found = find_head(&*store, None).await.expect("a head");
        assert_eq!(found.findings, [], "{context}");
        reached
    }
}

async fn sound(store: &Arc<dyn InventoryStore>, name: &StorePath) {
    let bytes = bytes_at(store, name.as_str()).await.expect("listed, so there");
    if layout::root_seq(name.as_str()).is_some() {
        crate::doc::Root::decode(&bytes).expect("a whole root");
    }
    if let Some(leaf) = layout::leaf_sha256(name.as_str()) {
        assert_eq!(crate::doc::Sha256::of(&bytes), leaf, "a whole leaf");
    }
}

fn text<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<(), String> {
    result.map(drop).map_err(|error| error.to_string())
}

/// INV-242, INV-410, INV-428: a registration killed between any two operations leaves the old head or the new one, and the
/// edition is visible in none of them before its release.
#[tokio::test]
async fn a_registration_interrupted_anywhere_completes_when_repeated() {
    for place in [Place::Memory, Place::Directory] {
        let mut world = World::new();
        let sealed = world.edition("a", 1, None);
        let key = sealed.edition();
        let operation = Operation::Register {
            sealed,
            release_at: None,
        };
        let operations = Crashes {
            place,
            prepare: &|_| Box::pin(async {}),
            call: &|writer| {
                let (world, operation) = (world.clone(), operation.clone());
                Box::pin(async move { text(world.run(&writer, &[operation]).await) })
            },
            check: &|version, ok| !ok || version.status(&key).is_some(),
            done: &|version| version.status(&key).is_some() && not_live(version, &key),
        }
        .everywhere()
        .await;
        assert!(operations >= 8, "only {operations} places were tried");
    }
}

fn not_live(version: &Version, key: &EditionKey) -> bool {
    version
        .entry(key)
        .is_some_and(|entry| entry.state == crate::doc::EditionState::Embargoed)
}

/// INV-4, INV-408, INV-410: a release of several products killed anywhere releases all of them or none, and repeating it completes
/// it.
#[tokio::test]
async fn a_release_interrupted_anywhere_is_whole_or_not_there() {
    for place in [Place::Memory, Place::Directory] {
        let mut world = World::new();
        let sealed: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .map(|name| world.edition(name, 1, None))
            .collect();
        let keys: Vec<_> = sealed.iter().map(crate::transition::SealedEdition::edition).collect();
        let register: Vec<_> = sealed
            .iter()
            .map(|sealed| Operation::Register {
                sealed: sealed.clone(),
                release_at: None,
            })
            .collect();
        let release: Vec<_> = keys
            .iter()
            .map(|key| Operation::Release {
                edition: key.clone(),
                when: ReleaseWhen::Explicit,
            })
            .collect();
        let live = |version: &Version| keys.iter().filter(|key| !not_live(version, key)).count();
        let operations = Crashes {
            place,
            prepare: &|writer| {
                let (world, register) = (world.clone(), register.clone());
                Box::pin(async move { drop(world.run(&writer, &register).await.expect("registered")) })
            },
            call: &|writer| {
                let (world, release) = (world.clone(), release.clone());
                Box::pin(async move { text(world.run(&writer, &release).await) })
            },
            check: &|version, ok| matches!((live(version), ok), (0, false) | (3, _)),
            done: &|version| live(version) == 3,
        }
        .everywhere()
        .await;
        assert!(operations >= 12, "only {operations} places were tried");
    }
}

/// INV-142, INV-259: opting in, bringing `CURRENT` up and counting a restore, killed anywhere, leave a catalogue that reads and
/// complete when repeated.
#[tokio::test]
async fn the_other_calls_interrupted_anywhere_complete_when_repeated() {
    for place in [Place::Memory, Place::Directory] {
        let everything = |_: &Version, _: bool| true;
        let there = |_: &Version| true;
        let opt_in = Crashes {
            place,
            prepare: &|_| Box::pin(async {}),
            call: &|writer| {
                Box::pin(async move {
                    let result = writer.opt_in().await;
                    let again = matches!(
                        &result,
                        Err(WriteError::OptIn(crate::writer::OptInRefusal::AlreadyIn(_)))
                    );
                    let catalog = writer.catalog().await.map(|read| read.catalog.is_opted_in());
                    assert!(result.is_err() || catalog.is_err() || matches!(catalog, Ok(true)));
                    if again { Ok(()) } else { text(result) }
                })
            },
            check: &everything,
            done: &there,
        };
        assert!(opt_in.everywhere().await >= 8);
        let advance = Crashes {
            place,
            prepare: &|writer| {
                Box::pin(async move { writer.store().delete(&path(layout::CURRENT)).await.expect("deleted") })
            },
            call: &|writer| Box::pin(async move { text(writer.advance_current_to_head().await) }),
            check: &|_, _| true,
            done: &there,
        };
        // Without `CURRENT` there is a finding until the repetition.
        assert!(advance.everywhere().await >= 5);
        let bump = Crashes {
            place,
            prepare: &|_| Box::pin(async {}),
            call: &|writer| Box::pin(async move { text(writer.bump_restore_epoch().await) }),
            check: &everything,
            done: &there,
        };
        assert!(bump.everywhere().await >= 3);
    }
}

/// INV-144: an opt-in that was interrupted left `catalog.json` in format 1 or format 2, and format 2 only with a `HISTORY`.
#[tokio::test]
async fn an_interrupted_opt_in_never_leaves_format_2_without_history() {
    for at in 0..12 {
        for fault in [Fault::Before(at), Fault::After(at)] {
            let opened = Place::Memory.open();
            let (_, clock) = catalogue(&opened.store(), false).await;
            let failing = Arc::new(FaultStore::new(opened.store(), fault, true));
            writer_over(failing, &clock).opt_in().await.ok();
            let store = opened.store();
            let catalog = Catalog::decode(&bytes_at(&store, layout::CATALOG).await.expect("there")).expect("decodes");
            let history = bytes_at(&store, layout::HISTORY).await;
            assert!(!catalog.is_opted_in() || history.is_some(), "{fault:?}");
        }
    }
}

/// INV-18, INV-131: making a catalogue, killed anywhere, is completed under the id it began with.
#[tokio::test]
async fn a_founding_interrupted_anywhere_completes_when_repeated() {
    for place in [Place::Memory, Place::Directory] {
        for at in 0..16 {
            for fault in [Fault::Before(at), Fault::After(at)] {
                let opened = place.open();
                let failing = Arc::new(FaultStore::new(opened.store(), fault, true));
                let first = Writer::create(failing, identity(), ManualClock::new(), new_catalog(true)).await;
                let store = opened.store();
                let again = Writer::create(store.clone(), identity(), ManualClock::new(), new_catalog(true)).await;
                match again {
                    Ok(_) | Err(WriteError::CatalogExists { .. }) => {}
                    Err(error) => panic!("{place:?} {fault:?} after {first:?}: {error}"),
                }
                assert_eq!(newest(&store).await.head().root().seq.get(), 1);
                assert!(newest(&store).await.head().root().embargo);
            }
        }
    }
}

/// INV-268, INV-270, INV-442: a seal and its repair, killed anywhere: the edition ends up recorded once, its journal removed.
#[tokio::test]
async fn a_repair_interrupted_anywhere_records_once() {
    for place in [Place::Memory, Place::Directory] {
        for at in 0..30 {
            for fault in [Fault::Before(at), Fault::After(at)] {
                let opened = place.open();
                let store = opened.store();
                let (writer, clock) = catalogue(&store, false).await;
                let mut world = World::new();
                let sealed = world.edition("a", 1, None);
                super::journal::seal_without_recording(&writer, &sealed).await;
                let repair = |writer: Writer| {
                    let (world, sealed) = (world.clone(), sealed.clone());
                    async move {
                        let operation = Operation::Seal(sealed.clone());
                        let product = sealed.manifest.product_id.clone();
                        writer
                            .repair(&product, |base, _| world.decide(base, std::slice::from_ref(&operation)))
                            .await
                    }
                };
                let failing = Arc::new(FaultStore::new(store.clone(), fault, true));
                let first: Result<_, CommitError<_>> = repair(writer_over(failing, &clock)).await;
                let second = repair(writer_over(store.clone(), &clock)).await.expect("repaired");
                let edition = sealed.manifest.edition_id;
                assert!(
                    second
                        .iter()
                        .all(|repair| matches!(repair, Repair::Recorded { .. } | Repair::AlreadyRecorded(_))),
                    "{first:?} {second:?}"
                );
                let newest = newest(&store).await;
                assert_eq!(
                    newest.head().root().seq.get(),
                    2,
                    "{place:?} {fault:?}: recorded in one version"
                );
                assert!(newest.entry(&sealed.manifest.product_id, &edition).is_some());
                let journal = layout::journal(&sealed.manifest.product_id, &edition);
                assert_eq!(bytes_at(&store, &journal).await, None, "INV-34");
            }
        }
    }
}
