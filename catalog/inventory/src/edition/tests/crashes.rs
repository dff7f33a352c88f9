//! Killed between any two store operations.

use std::sync::Arc;

use super::super::{Begin, Publisher, check::CheckOptions, seal::SealRequest, testing::*};
use crate::{
    doc::{EditionState, EntryStatus},
    store::testing::{Fault, FaultStore},
};

async fn seal_and_record(publisher: &Publisher) -> Result<(), Box<dyn std::error::Error>> {
    let sealed = publisher.resume().await?.seal(SealRequest::default()).await?;
    let report = publisher
        .check(&sealed.manifest.edition_id, &CheckOptions::default())
        .await?;
    publisher.record(&report.into_publishable()?, "a release").await?;
    Ok(())
}

async fn live(world: &World) -> bool {
    world.status(&edition_id(1)).await == Some(EntryStatus::State(EditionState::Live))
}

/// INV-268 to INV-271, INV-400, INV-410: a process that dies before or after any operation from resume to the version leaves
/// nothing visible early and nothing lost: the edition is resumed and sealed again, or the repair records it.
#[tokio::test]
async fn killed_between_any_two_operations_of_a_seal() {
    let counted = {
        let world = World::in_memory(false).await;
        drop(world.first().await);
        let store = Arc::new(FaultStore::counting(world.store.clone()));
        seal_and_record(&world.publisher_over(store.clone())).await.unwrap();
        assert!(live(&world).await);
        store.operations()
    };
    assert!(counted > 30, "{counted} operations");
    let (mut resumed, mut repaired) = (0, 0);
    for number in 0..counted {
        for fault in [Fault::Before(number), Fault::After(number)] {
            let world = World::in_memory(false).await;
            let list = world.first().await.list().clone();
            let before = world.names().await;
            let store = Arc::new(FaultStore::new(world.store.clone(), fault, true));
            let died = seal_and_record(&world.publisher_over(store)).await;
            let (sealed, visible) = (
                world.place().is_sealed(&edition_id(1)).await.unwrap(),
                live(&world).await,
            );
            assert!(sealed || !visible, "{fault:?}: live without a manifest");
            assert!(
                before.iter().all(|name| name == "CURRENT" || world.has(name)),
                "{fault:?}: something was lost"
            );
            if died.is_ok() || visible {
                assert!(sealed && visible, "{fault:?}");
            }
            if sealed {
                // INV-271: beginning the next edition repairs first, and builds on what the repair recorded.
                let next = world.try_begin(2).await.unwrap();
                assert_eq!(next.previous(), Some(edition_id(1)), "{fault:?}");
                repaired += usize::from(!visible);
            } else {
                let builder = world.publisher().resume().await.unwrap();
                assert_eq!(*builder.list(), list, "{fault:?}");
                seal_and_record(&world.publisher()).await.unwrap();
                resumed += 1;
            }
            assert!(live(&world).await, "{fault:?}");
            let report = world
                .publisher()
                .check(&edition_id(1), &CheckOptions::default())
                .await
                .unwrap();
            assert_eq!(report.findings, [], "{fault:?}");
            assert!(
                !world.names().await.iter().any(|name| name.contains("/journal/")),
                "{fault:?}"
            );
        }
    }
    assert!(resumed > 10 && repaired > 2, "{resumed} resumed, {repaired} repaired");
}

/// INV-21, INV-398: a begin that dies anywhere leaves nothing, or one unsealed edition that resumes complete.
#[tokio::test]
async fn killed_between_any_two_operations_of_a_begin() {
    let world = World::in_memory(false).await;
    world.publish(world.first().await).await;
    let begin = || Begin {
        edition_id: Some(edition_id(2)),
        ..Begin::default()
    };
    let mut at = 0;
    loop {
        let store = Arc::new(FaultStore::new(world.store.clone(), Fault::After(at), true));
        let begun = world.publisher_over(store.clone()).begin(begin()).await;
        let done = begun.is_ok() && store.operations() <= at;
        drop(begun);
        if world.place().unsealed().await.unwrap().is_some() {
            let builder = world.publisher().resume().await.unwrap();
            assert_eq!(builder.previous(), Some(edition_id(1)));
            let content = builder.content().await.unwrap();
            assert_eq!(content.structures.len(), 6, "operation {at}");
            world.publisher().discard(&edition_id(2)).await.unwrap();
        }
        assert_eq!(world.place().unsealed().await.unwrap(), None);
        if done {
            break;
        }
        at += 1;
    }
    assert!(at > 10, "{at} operations");
}

/// INV-60: a discard that dies anywhere is repeated; the sealed edition and `data/` are untouched.
#[tokio::test]
async fn killed_between_any_two_operations_of_a_discard() {
    for at in 0..12 {
        let world = World::in_memory(false).await;
        let builder = world.first().await;
        let data: Vec<String> = world
            .names()
            .await
            .into_iter()
            .filter(|name| name.contains("/data/"))
            .collect();
        drop(builder.begin_seal(SealRequest::default()).await.unwrap());
        let store = Arc::new(FaultStore::new(world.store.clone(), Fault::Before(at), true));
        let died = world.publisher_over(store).discard(&edition_id(1)).await.is_err();
        if died {
            world.publisher().discard(&edition_id(1)).await.unwrap();
        }
        let left: Vec<String> = world
            .names()
            .await
            .into_iter()
            .filter(|name| name.starts_with("products/"))
            .collect();
        assert_eq!(left, data, "operation {at}");
    }
}

/// INV-442: the repair brings nothing back that a publish check finds wrong, and says so by leaving it.
#[tokio::test]
async fn the_repair_leaves_a_damaged_edition() {
    let world = World::in_memory(false).await;
    let sealed = world.first().await.seal(SealRequest::default()).await.unwrap();
    let data = sealed.manifest.files[0].path.clone();
    world.plant_data(&data, numbers(0..19)).await;
    let repairs = world.publisher().repair().await.unwrap();
    assert_eq!(repairs, [crate::writer::Repair::Left(edition_id(1))]);
    assert_eq!(world.status(&edition_id(1)).await, None);
}

/// INV-195, INV-270: a seal that was told a release time and ended before its version is completed with that time, and does not become live
/// because the embargo is off meanwhile.
#[tokio::test]
async fn the_repair_keeps_a_release_time() {
    let world = World::in_memory(false).await;
    let release_at = Some("2027-07-30T08:30:00Z".parse().unwrap());
    let request = SealRequest {
        release_at,
        ..SealRequest::default()
    };
    world.first().await.seal(request).await.unwrap();
    let repairs = world.publisher().repair().await.unwrap();
    assert!(
        matches!(repairs[..], [crate::writer::Repair::Recorded { .. }]),
        "{repairs:?}"
    );
    let status = world.status(&edition_id(1)).await;
    assert_eq!(status, Some(EntryStatus::State(EditionState::Embargoed)));
}

impl World {
    fn has(&self, name: &str) -> bool {
        let path = crate::store::StorePath::parse(name).unwrap();
        // The memory store answers at once.
        let found = futures::FutureExt::now_or_never(self.store.get(&path));
        found.is_some_and(|found| found.unwrap().is_some())
    }
}
