//! Reading a sealed edition.

use std::sync::Arc;

use arrow::array::{Array as _, Int64Array, StringArray};

use super::super::{EditionError, OpenEdition, Selection, Stamps, check::CheckOptions, testing::*};
use crate::{
    doc::{Sha256, Urn},
    store::MemoryStore,
};

async fn stamps() -> Stamps {
    Stamps::open(Arc::new(MemoryStore::new())).await.unwrap()
}

async fn rows(edition: &OpenEdition, selection: Selection) -> Vec<(String, i64)> {
    let mut rows = Vec::new();
    for batch in edition.query(&flow(), selection).await.unwrap() {
        let batch = batch.unwrap();
        let areas: &StringArray = batch.column(0).as_any().downcast_ref().unwrap();
        let values: &Int64Array = batch.column(1).as_any().downcast_ref().unwrap();
        rows.extend((0..batch.num_rows()).map(|row| (areas.value(row).to_owned(), values.value(row))));
    }
    rows
}

/// INV-58, INV-59, INV-62: a sealed edition is opened as often as anybody likes, gives structures by URN and observations by
/// dataflow and codes, and nothing of it changes. A code is a value, whatever text it is: there is nothing it could be spliced into.
#[tokio::test]
async fn an_open_edition_is_read_by_urn_and_code() {
    let world = World::in_memory(false).await;
    let manifest = world.publish(world.first().await).await;
    let mut builder = world.begin(2).await;
    world.add(&mut builder, &flow(), numbers(20..25)).await;
    let manifest = {
        assert_ne!(manifest.edition_id, edition_id(2));
        world.publish(builder).await
    };
    let before = world.contents().await;
    let (stamps, options, place) = (stamps().await, CheckOptions::default(), world.place());
    let open = async || {
        let (id, sha256) = (edition_id(2), manifest.sha256());
        OpenEdition::open(&place, &id, sha256, &stamps, &*world.clock, &options)
            .await
            .unwrap()
    };
    let (edition, other) = (open().await, open().await);
    assert_eq!(edition.manifest().sha256(), other.manifest().sha256());
    let browsed: Vec<&Urn> = edition.browse().map(|binding| &binding.dataflow).collect();
    assert_eq!(browsed, [&flow()]);
    assert_eq!(edition.binding_for(&flow()).unwrap().observations, 25);
    assert_eq!(edition.binding_for(&SECOND.parse().unwrap()), None);
    let dsd = edition.dsd(&flow()).unwrap();
    assert_eq!(dsd.urn().as_str(), manifest.bindings[0].structural_version.as_str());
    for record in &manifest.artefacts {
        assert_eq!(edition.get(&record.urn).unwrap().urn().as_str(), record.urn.as_str());
    }

    let all: usize = edition
        .obs(&flow())
        .await
        .unwrap()
        .map(|batch| batch.unwrap().num_rows())
        .sum();
    assert_eq!(all, 25);
    let of_area = Selection::default().with("area", "D1_03");
    let expected: Vec<_> = [3, 8, 13, 18, 23].map(|value| ("D1_03".to_owned(), value)).into();
    assert_eq!(rows(&edition, of_area.clone()).await, expected);
    assert_eq!(
        rows(&other, of_area.with("value", "13")).await,
        [("D1_03".to_owned(), 13)]
    );
    let hostile = Selection::default().with("area", "D1_03' OR '1'='1");
    assert_eq!(rows(&edition, hostile).await, []);
    let mut unknown = edition
        .query(&flow(), Selection::default().with("1=1; --", "x"))
        .await
        .unwrap();
    assert!(unknown.next().unwrap().is_err());
    let refusal = edition.obs(&SECOND.parse().unwrap()).await.unwrap_err();
    assert!(matches!(refusal, EditionError::NoTable { .. }), "{refusal}");
    assert_eq!(world.contents().await, before, "INV-63");
}

/// INV-58, INV-117, INV-172: without a manifest, with another one than recorded, or with a file that isn't what it lists, nothing is
/// opened.
#[tokio::test]
async fn an_unsound_edition_is_not_opened() {
    let world = World::in_memory(false).await;
    let manifest = world.publish(world.first().await).await;
    let (stamps, options, place) = (stamps().await, CheckOptions::default(), world.place());
    let refusal = async |number: u8, sha256: Sha256| {
        let id = edition_id(number);
        let opened = OpenEdition::open(&place, &id, sha256, &stamps, &*world.clock, &options).await;
        opened.unwrap_err().to_string()
    };
    let text = refusal(1, Sha256::of(b"another")).await;
    assert!(text.contains("INV-172"), "{text}");
    let text = refusal(2, manifest.sha256()).await;
    assert!(text.contains("INV-58"), "{text}");
    world.plant(&edition_id(1), "tables.json", b"{}").await;
    let text = refusal(1, manifest.sha256()).await;
    assert!(text.contains("INV-104"), "{text}");
}
