//! Every refusal of building and sealing, by name.

use std::sync::Arc;

use super::super::{EditionError, MessageFormat, ProductEditions, StoreData, copy, seal::SealRequest, testing::*};
use crate::{
    doc::{FilePath, Sha256, Tier, layout},
    store::{InventoryStore, LocalStore, MemoryStore, StorePath},
};

async fn seal_refusal(world: &World) -> EditionError {
    world
        .publisher()
        .resume()
        .await
        .unwrap()
        .seal(SealRequest::default())
        .await
        .unwrap_err()
}

fn reader(bytes: bytes::Bytes) -> Box<dyn std::io::Read + Send> {
    Box::new(std::io::Cursor::new(bytes))
}

/// INV-21, INV-397, INV-439: a second unsealed edition is refused, naming the first and when it was begun.
#[tokio::test]
async fn a_second_unsealed_edition_is_refused() {
    let world = World::in_memory(false).await;
    drop(world.first().await);
    let refusal = world.try_begin(2).await.unwrap_err();
    assert!(matches!(refusal, EditionError::UnsealedExists { .. }), "{refusal}");
    let text = refusal.to_string();
    for named in [
        edition_id(1).to_string(),
        edition_id(1).time().to_string(),
        "resume or discard".to_owned(),
    ] {
        assert!(text.contains(&named), "{text}");
    }
    // Two of them, however they came to be, are refused as well.
    world.plant(&edition_id(3), "tables.json", b"{}").await;
    let refusal = world.publisher().resume().await.unwrap_err();
    assert!(matches!(refusal, EditionError::UnsealedTwice { .. }), "{refusal}");
}

/// INV-60, INV-439: discard refuses a sealed edition and one that isn't there, and leaves `data/` alone.
#[tokio::test]
async fn discard_takes_unsealed_editions_only() {
    let world = World::in_memory(false).await;
    world.publish(world.first().await).await;
    let refusal = world.publisher().discard(&edition_id(1)).await.unwrap_err();
    assert!(matches!(refusal, EditionError::DiscardSealed { .. }), "{refusal}");
    let refusal = world.publisher().discard(&edition_id(9)).await.unwrap_err();
    assert!(matches!(refusal, EditionError::NoEdition { .. }), "{refusal}");
    world.begin(2).await;
    world.publisher().discard(&edition_id(2)).await.unwrap();
    let refusal = world.publisher().resume().await.unwrap_err();
    assert!(matches!(refusal, EditionError::NothingToResume { .. }), "{refusal}");
    assert!(world.names().await.iter().any(|name| name.contains("/data/")));
}

/// INV-2, INV-99: a builder that outlives its edition's seal changes nothing in it.
#[tokio::test]
async fn a_sealed_edition_is_not_built_on() {
    let world = World::in_memory(false).await;
    let mut stale = world.first().await;
    let sealed = world
        .publisher()
        .resume()
        .await
        .unwrap()
        .seal(SealRequest::default())
        .await
        .unwrap();
    let before = world.names().await;
    let refusals = [
        stale
            .put_file(&"x.txt".parse().unwrap(), "x".into(), Tier::Lazy)
            .await
            .unwrap_err(),
        stale.remove_table(&flow()).await.unwrap_err(),
        stale
            .remove_structures(&stale.list().structures[0].path.clone())
            .await
            .unwrap_err(),
        stale.seal(SealRequest::default()).await.unwrap_err(),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, EditionError::AlreadySealed { .. }), "{refusal}");
    }
    let after = world.names().await;
    // The last refusal repaired first (INV-271): a version more, and the journal gone.
    assert!(
        before
            .iter()
            .filter(|name| name.starts_with("products/") && !name.contains("/journal/"))
            .all(|name| after.contains(name))
    );
    assert_eq!(
        world.place().manifest_sha256(&edition_id(1)).await.unwrap(),
        Some(sealed.manifest.sha256())
    );
}

/// INV-26: two processes that build one edition don't overwrite each other.
#[tokio::test]
async fn a_list_changed_by_another_process_is_not_overwritten() {
    let world = World::in_memory(false).await;
    let mut one = world.first().await;
    let mut other = world.publisher().resume().await.unwrap();
    one.put_file(&"x.txt".parse().unwrap(), "x".into(), Tier::Lazy)
        .await
        .unwrap();
    let refusal = other.remove_table(&flow()).await.unwrap_err();
    assert!(matches!(refusal, EditionError::ChangedMeanwhile { .. }), "{refusal}");
    let listed = other
        .begin_seal(SealRequest::default())
        .await
        .unwrap()
        .flush()
        .await
        .unwrap_err();
    assert!(matches!(listed, EditionError::Undeclared { .. }), "{listed}");
}

/// INV-92, INV-93, INV-104: a `.wal`, an undeclared file and a declared one that is gone stop the seal before the manifest.
#[tokio::test]
async fn the_directory_must_be_flushed_and_declared() {
    let world = World::in_memory(false).await;
    let builder = world.first().await;
    let structures = builder.list().structures[0].path.clone();
    world.plant(&edition_id(1), "metadata.duckdb.wal", b"rows").await;
    let refusal = seal_refusal(&world).await;
    assert!(
        matches!(&refusal, EditionError::Wal { path } if path == "metadata.duckdb.wal"),
        "{refusal}"
    );
    assert!(refusal.to_string().contains("CHECKPOINT"));
    let file = |name: &str| world.place().file(&edition_id(1), &name).unwrap();
    world.store.delete(&file("metadata.duckdb.wal")).await.unwrap();
    world.plant(&edition_id(1), "stray.bin", b"x").await;
    let refusal = seal_refusal(&world).await;
    assert!(
        matches!(&refusal, EditionError::Undeclared { path } if path == "stray.bin"),
        "{refusal}"
    );
    world.store.delete(&file("stray.bin")).await.unwrap();
    world.store.delete(&file(structures.as_str())).await.unwrap();
    let refusal = seal_refusal(&world).await;
    assert!(matches!(&refusal, EditionError::DeclaredMissing { .. }), "{refusal}");
    assert!(!world.place().is_sealed(&edition_id(1)).await.unwrap());
}

/// INV-20, INV-104: a file that appears after the listing keeps the manifest from being written.
#[tokio::test]
async fn a_file_that_appears_late_stops_the_manifest() {
    let world = World::in_memory(false).await;
    let journalled = world.first().await.begin_seal(SealRequest::default()).await.unwrap();
    let listed = journalled
        .flush()
        .await
        .unwrap()
        .fingerprint()
        .await
        .unwrap()
        .list_files()
        .await
        .unwrap();
    world.plant(&edition_id(1), "late.bin", b"x").await;
    let refusal = listed.write_manifest().await.unwrap_err();
    assert!(
        matches!(&refusal, EditionError::Undeclared { path } if path == "late.bin"),
        "{refusal}"
    );
    assert!(!world.place().is_sealed(&edition_id(1)).await.unwrap());
}

/// INV-95, INV-96: no delete file gets into a table.
#[tokio::test]
async fn delete_files_are_refused() {
    let world = World::in_memory(false).await;
    let mut builder = world.first().await;
    for name in ["f/ducklake-1-delete.parquet", "f/x-deletes.parquet", "f/y.delete"] {
        let refusal = builder
            .append(&flow(), &[name.parse().unwrap()], Tier::Remote)
            .await
            .unwrap_err();
        assert!(
            matches!(&refusal, EditionError::DeleteFile { path } if path.as_str() == name),
            "{refusal}"
        );
    }
}

/// INV-20, INV-69, INV-92: names that belong to the edition itself are no producer's.
#[tokio::test]
async fn reserved_names_are_refused() {
    let world = World::in_memory(false).await;
    let mut builder = world.begin(1).await;
    for name in ["manifest.json", "manifest.json.sig", "tables.json"] {
        let refusal = builder
            .put_file(&name.parse().unwrap(), "x".into(), Tier::Lazy)
            .await
            .unwrap_err();
        assert!(matches!(refusal, EditionError::ReservedName { .. }), "{refusal}");
    }
    let refusal = builder
        .put_file(&"a.wal".parse().unwrap(), "x".into(), Tier::Lazy)
        .await
        .unwrap_err();
    assert!(matches!(refusal, EditionError::Wal { .. }), "{refusal}");
}

/// INV-23, INV-108: a data file that isn't there, or is no table, or belongs to a table already, is refused by name.
#[tokio::test]
async fn data_files_must_be_there_and_be_tables() {
    let world = World::in_memory(false).await;
    let mut builder = world.first().await;
    let missing: FilePath = "DF/none.parquet".parse().unwrap();
    let refusal = builder.append(&flow(), &[missing], Tier::Remote).await.unwrap_err();
    assert!(matches!(refusal, EditionError::NoData { .. }), "{refusal}");
    let path = builder.write_data(&flow(), reader("no parquet".into())).await.unwrap();
    let refusal = builder.append(&flow(), &[path], Tier::Remote).await.unwrap_err();
    assert!(matches!(refusal, EditionError::Table { .. }), "{refusal}");
    let twice = builder.list().tables[0].files[0].path.clone();
    let refusal = builder.append(&flow(), &[twice], Tier::Remote).await.unwrap_err();
    assert!(matches!(refusal, EditionError::TableList(_)), "{refusal}");
}

/// INV-72: files of one table have the same columns.
#[tokio::test]
async fn files_of_one_table_have_one_schema() {
    let world = World::in_memory(false).await;
    let mut builder = world.first().await;
    let other = bytes::Bytes::from_static(include_bytes!("../../../tests/fingerprints/parquet/bigint.parquet"));
    let path = builder.write_data(&flow(), reader(other)).await.unwrap();
    builder.append(&flow(), &[path], Tier::Remote).await.unwrap();
    let refusal = seal_refusal(&world).await;
    assert!(matches!(refusal, EditionError::DifferentColumns { .. }), "{refusal}");
}

/// INV-87, INV-88: a table without its dataflow, and structures that refer outside, stop the seal.
#[tokio::test]
async fn references_resolve_inside_the_edition() {
    let world = World::in_memory(false).await;
    let mut builder = world.first().await;
    let path = builder.list().structures[0].path.clone();
    builder.remove_structures(&path).await.unwrap();
    let refusal = seal_refusal(&world).await;
    assert!(matches!(refusal, EditionError::NoStructure { .. }), "{refusal}");
    // The dataflow and all but one of what it needs.
    let whole: serde_json::Value = serde_json::from_slice(&message()).unwrap();
    let mut lacking = whole.clone();
    lacking["data"]["codelists"].as_array_mut().unwrap().remove(0);
    let mut builder = world.publisher().resume().await.unwrap();
    let bytes = serde_json::to_vec(&lacking).unwrap();
    builder
        .add_structures(bytes.into(), MessageFormat::Json, &[])
        .await
        .unwrap();
    let refusal = seal_refusal(&world).await;
    assert!(matches!(refusal, EditionError::Unresolved(_)), "{refusal}");
    assert!(
        refusal.to_string().contains("INV-87") && refusal.to_string().contains("CL_"),
        "{refusal}"
    );
}

/// INV-88, INV-89: one URN with two contents in one edition is refused.
#[tokio::test]
async fn one_urn_has_one_content() {
    let world = World::in_memory(false).await;
    let mut builder = world.first().await;
    let text = String::from_utf8(message().to_vec())
        .unwrap()
        .replace("ATTR_1 value 0", "another name");
    let refusal = builder
        .add_structures(text.into(), MessageFormat::Json, &[])
        .await
        .unwrap_err();
    assert!(matches!(refusal, EditionError::Structure(_)), "{refusal}");
    let refusal = builder
        .add_structures("{".into(), MessageFormat::Json, &[])
        .await
        .unwrap_err();
    assert!(matches!(refusal, EditionError::Message { .. }), "{refusal}");
}

/// INV-54: what a partial was cut from is said of partials only.
#[tokio::test]
async fn a_full_artefact_is_cut_from_nothing() {
    let world = World::in_memory(false).await;
    let mut builder = world.first().await;
    let urn = "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=SYNTHETIC:CL_ATTR_1(1.0)"
        .parse()
        .unwrap();
    builder
        .add_structures(message(), MessageFormat::Json, &[(urn, Sha256::of(b"full"))])
        .await
        .unwrap();
    let refusal = seal_refusal(&world).await;
    assert!(matches!(refusal, EditionError::Records(_)), "{refusal}");
}

/// INV-99, INV-101: a carried data file that changed its size or its bytes is refused, naming both.
#[tokio::test]
async fn changed_data_is_not_carried_forward() {
    let world = World::in_memory(false).await;
    let first = world.publish(world.first().await).await;
    let path = first.files[0].path.clone();
    drop(world.begin(2).await);
    // Other rows in as many bytes: only a digest tells.
    let mut bytes = numbers(0..20).to_vec();
    let at = bytes.windows(2).position(|pair| pair == b"D1").unwrap();
    bytes[at] = b'E';
    world.plant_data(&path, bytes.into()).await;
    let refusal = seal_refusal(&world).await;
    assert!(
        matches!(&refusal, EditionError::CarriedDigest { carried_from, .. } if *carried_from == edition_id(1)),
        "{refusal}"
    );
    world
        .plant_data(
            &path,
            table(&std::array::from_fn::<_, 20, _>(|_| ("D1_00".to_owned(), 7))),
        )
        .await;
    let refusal = seal_refusal(&world).await;
    assert!(matches!(refusal, EditionError::DataSize { .. }), "{refusal}");
    world.plant_data(&path, numbers(0..19)).await;
    let refusal = seal_refusal(&world).await;
    assert!(matches!(refusal, EditionError::Rows { .. }), "{refusal}");
    assert!(!world.place().is_sealed(&edition_id(2)).await.unwrap());
}

/// INV-401: only a clean publish check makes an edition recordable.
#[tokio::test]
async fn nothing_is_recorded_without_a_clean_publish_check() {
    let world = World::in_memory(false).await;
    world.first().await.seal(SealRequest::default()).await.unwrap();
    let options = super::super::check::CheckOptions::default();
    let (place, id) = (world.place(), edition_id(1));
    let receive = super::super::check::check(&place, &id, crate::fingerprint::CheckProfile::Receive, &options);
    assert!(receive.await.unwrap().into_publishable().is_err());
    world.plant(&edition_id(1), "stray.bin", b"x").await;
    let report = world.publisher().check(&edition_id(1), &options).await.unwrap();
    let refusal = report.into_publishable().unwrap_err().to_string();
    assert!(
        refusal.contains("stray.bin") && refusal.contains("INV-104"),
        "{refusal}"
    );
}

/// INV-30: another layout and files without a catalogue are refused, and nothing is created.
#[tokio::test]
async fn other_layouts_are_refused() {
    for (files, expected) in [
        (&["meta.duckdb"][..], "meta.duckdb"),
        (&["catalog.json", "bundle.manifest.json"], "bundle.manifest.json"),
        (&["something.txt"], "something.txt"),
        (&[], "sovm inventory init"),
    ] {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            std::fs::write(root.path().join(file), "{}").unwrap();
        }
        let store: Arc<dyn InventoryStore> = Arc::new(LocalStore::open(root.path()).unwrap());
        let data = Arc::new(StoreData::new(store.clone(), &product()));
        let refusal = ProductEditions::open(store, data, product())
            .await
            .unwrap_err()
            .to_string();
        assert!(refusal.contains(expected) && refusal.contains("INV-30"), "{refusal}");
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), files.len());
    }
    let world = World::in_memory(false).await;
    let data = world.data.clone();
    assert!(
        ProductEditions::open(world.store.clone(), data, product())
            .await
            .is_ok()
    );
}

/// INV-6, INV-417: a copy with a wrong manifest, or of a file that differs, ends before its manifest.
#[tokio::test]
async fn a_wrong_copy_ends_before_its_manifest() {
    let world = World::in_memory(false).await;
    let manifest = world.publish(world.first().await).await;
    let target = || {
        let store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
        let data = Arc::new(StoreData::new(store.clone(), &product()));
        ProductEditions::unchecked(store, data, product())
    };
    let all = [Tier::Required, Tier::Lazy, Tier::Remote].into();
    let there = target();
    let refusal = copy(&world.place(), &there, &edition_id(1), Sha256::of(b"other"), &all)
        .await
        .unwrap_err();
    assert!(matches!(refusal, EditionError::Document(_)), "{refusal}");
    // The target has other bytes under a name of the edition.
    let name = there.file(&edition_id(1), &"tables.json").unwrap();
    let _ = there.store().create(&name, "{}".into()).await.unwrap();
    let refusal = copy(&world.place(), &there, &edition_id(1), manifest.sha256(), &all)
        .await
        .unwrap_err();
    assert!(matches!(refusal, EditionError::OtherBytes { .. }), "{refusal}");
    assert!(!there.is_sealed(&edition_id(1)).await.unwrap());
    // The source lost a file, then has another one.
    let path = &manifest.files[0].path;
    let data = StorePath::parse(&format!("{}/{path}", layout::data(&product()))).unwrap();
    world.store.delete(&data).await.unwrap();
    for _ in 0..2 {
        let there = target();
        let refusal = copy(&world.place(), &there, &edition_id(1), manifest.sha256(), &all)
            .await
            .unwrap_err();
        assert!(matches!(refusal, EditionError::CopyDiffers { .. }), "{refusal}");
        assert!(!there.is_sealed(&edition_id(1)).await.unwrap());
        world.plant_data(path, numbers(3..9)).await;
    }
}
