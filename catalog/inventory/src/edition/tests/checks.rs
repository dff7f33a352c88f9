//! What each check profile finds and what it leaves alone, and the receive stamp.

use std::sync::Arc;

use super::super::{
    Stamps,
    check::{CheckOptions, EditionProblem, EngineReads, EngineVersion, Extension, ExtensionContent, check},
    check_on_open,
    seal::SealRequest,
    testing::*,
};
use crate::{
    doc::{Json, JsonObject, Manifest, Sha256, Stored, layout},
    fingerprint::CheckProfile,
    store::{InventoryStore, MemoryStore, StorePath},
};

const PROFILES: [CheckProfile; 3] = [CheckProfile::Publish, CheckProfile::Receive, CheckProfile::Open];

/// No finding at any profile.
fn clean() -> [Vec<u16>; 3] {
    Default::default()
}

async fn sealed() -> (World, Arc<Stored<Manifest>>) {
    let world = World::in_memory(false).await;
    let manifest = world.publish(world.first().await).await;
    (world, manifest)
}

/// The rules of the findings of a profile, without repeats.
async fn rules(world: &World, profile: CheckProfile, options: &CheckOptions<'_>) -> Vec<u16> {
    let report = check(&world.place(), &edition_id(1), profile, options).await.unwrap();
    let mut rules: Vec<u16> = report.findings.iter().map(|finding| finding.rule).collect();
    rules.dedup();
    rules
}

async fn all_rules(world: &World, options: &CheckOptions<'_>) -> [Vec<u16>; 3] {
    let [publish, receive, open] = PROFILES.map(|profile| rules(world, profile, options));
    [publish.await, receive.await, open.await]
}

/// INV-104: sizes are compared at every profile, digests and unlisted files at publish and receive.
#[tokio::test]
async fn edition_files_by_profile() {
    let (world, manifest) = sealed().await;
    let options = CheckOptions::default();
    world.plant(&edition_id(1), "stray.bin", b"x").await;
    assert_eq!(all_rules(&world, &options).await, [vec![104], vec![104], vec![]]);
    let (world, _) = sealed().await;
    let file = manifest
        .files
        .iter()
        .find(|file| file.path.as_str().starts_with("structures/"))
        .unwrap();
    let name = world.place().file(&edition_id(1), &file.path).unwrap();
    world.store.delete(&name).await.unwrap();
    for (profile, rules) in PROFILES.iter().zip(all_rules(&world, &options).await) {
        assert!(rules.contains(&104), "{profile:?}: {rules:?}");
    }
    // As many bytes, others: only a digest tells.
    let text = String::from_utf8(message().to_vec()).unwrap();
    let bytes = text.replace("ATTR_1 value 0", "ATTR_1 value 9");
    let _ = world.store.create(&name, bytes.into()).await.unwrap();
    let [publish, receive, open] = all_rules(&world, &options).await;
    assert!(publish.contains(&104) && publish.contains(&110), "{publish:?}");
    assert_eq!((receive, open), (vec![104], vec![]));
}

/// INV-93: an unlisted `.wal` is refused for its own reason, the missing checkpoint.
#[tokio::test]
async fn a_shipped_wal_is_named() {
    let (world, _) = sealed().await;
    world.plant(&edition_id(1), "metadata.duckdb.wal", b"rows").await;
    let report = check(
        &world.place(),
        &edition_id(1),
        CheckProfile::Receive,
        &CheckOptions::default(),
    )
    .await
    .unwrap();
    assert_eq!(report.findings[0].problem, EditionProblem::NotCheckpointed);
    let text = report.findings[0].to_string();
    assert!(
        text.contains("metadata.duckdb.wal") && text.contains("checkpointed") && text.contains("INV-93"),
        "{text}"
    );
}

/// INV-69: the reserved signature is no file of the edition.
#[tokio::test]
async fn the_signature_is_not_minded() {
    let (world, _) = sealed().await;
    world
        .plant(&edition_id(1), layout::MANIFEST_SIGNATURE, b"signature")
        .await;
    assert_eq!(all_rules(&world, &CheckOptions::default()).await, clean());
}

/// INV-105, INV-107, INV-115: data files by digest at publish, by size at receive, not at open; kept digests are looked up when
/// asked, and a store that keeps none vouches for nothing. Files no manifest lists are nobody's business here.
#[tokio::test]
async fn data_files_by_profile() {
    let (world, manifest) = sealed().await;
    let (path, options) = (manifest.files[0].path.clone(), CheckOptions::default());
    world
        .plant_data(&"DF/orphan.parquet".parse().unwrap(), numbers(0..1))
        .await;
    assert_eq!(all_rules(&world, &options).await, clean());
    let kept = CheckOptions {
        kept_digests: true,
        ..CheckOptions::default()
    };
    assert_eq!(all_rules(&world, &kept).await, [vec![], vec![107], vec![]]);
    let mut bytes = numbers(0..20).to_vec();
    let at = bytes.windows(2).position(|pair| pair == b"D1").unwrap();
    bytes[at] = b'E';
    world.plant_data(&path, bytes.into()).await;
    assert_eq!(all_rules(&world, &options).await, [vec![105, 110], vec![], vec![]]);
    let asked = CheckOptions {
        fingerprints: true,
        ..CheckOptions::default()
    };
    assert_eq!(all_rules(&world, &asked).await, [vec![105, 110], vec![110], vec![]]);
    world.plant_data(&path, numbers(0..400)).await;
    let [publish, receive, open] = all_rules(&world, &options).await;
    assert!(publish.contains(&105) && publish.contains(&109), "{publish:?}");
    assert_eq!((receive, open), (vec![105, 109], vec![]));
}

/// Seals the first edition with a manifest changed by `change`, as a producer that errs would have.
async fn forged(change: impl FnOnce(&mut Manifest)) -> World {
    let (world, manifest) = sealed().await;
    let mut value = manifest.value().clone();
    change(&mut value);
    let bytes = Stored::encode(value).unwrap().bytes().clone();
    let path = world.place().manifest_path(&edition_id(1)).unwrap();
    world.store.delete(&path).await.unwrap();
    let _ = world.store.create(&path, bytes).await.unwrap();
    world
}

/// INV-45, INV-51, INV-108, INV-109, INV-110: what the manifest says and the files don't is found under the rule that asks it.
#[tokio::test]
async fn manifests_that_say_something_else_are_found() {
    type Change = fn(&mut Manifest);
    let cases: [(Change, &[u16], &[u16]); 7] = [
        (|manifest| manifest.bindings[0].observations = 21, &[109], &[109]),
        (|manifest| manifest.bindings.clear(), &[109, 110], &[109]),
        (|manifest| drop(manifest.artefacts.pop()), &[45, 110], &[45]),
        (
            |manifest| manifest.content_fingerprint = Some(Sha256::of(b"x")),
            &[110],
            &[],
        ),
        (
            |manifest| manifest.bindings[0].structure_fingerprint = Sha256::of(b"x"),
            &[110],
            &[],
        ),
        (|manifest| drop(manifest.files.remove(0)), &[108], &[108]),
        (|manifest| manifest.previous = Some(edition_id(9)), &[38], &[38]),
    ];
    for (number, (change, publish, receive)) in cases.into_iter().enumerate() {
        let world = forged(change).await;
        let found = all_rules(&world, &CheckOptions::default()).await;
        assert_eq!(found, [publish.to_vec(), receive.to_vec(), vec![]], "case {number}");
    }
    let world = forged(|manifest| {
        let structure = "urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure=SYNTHETIC:OTHER(1.0)";
        manifest.bindings[0].structural_version = structure.parse().unwrap();
    });
    assert_eq!(
        rules(&world.await, CheckProfile::Publish, &CheckOptions::default()).await,
        [51]
    );
}

/// INV-58, INV-103, INV-172: no manifest, a damaged one and another one than expected end the check at every profile.
#[tokio::test]
async fn the_manifest_comes_first() {
    let (world, _) = sealed().await;
    let expected = CheckOptions {
        manifest_sha256: Some(Sha256::of(b"other")),
        ..CheckOptions::default()
    };
    assert_eq!(all_rules(&world, &expected).await, [vec![172], vec![172], vec![172]]);
    world
        .plant(&edition_id(1), layout::MANIFEST, b"{\"format_version\":\"2.0\"}")
        .await;
    assert_eq!(
        all_rules(&world, &CheckOptions::default()).await,
        [vec![10], vec![10], vec![10]]
    );
    let path = world.place().manifest_path(&edition_id(1)).unwrap();
    world.store.delete(&path).await.unwrap();
    assert_eq!(
        all_rules(&world, &CheckOptions::default()).await,
        [vec![58], vec![58], vec![58]]
    );
}

/// INV-64 to INV-67: a newer storage or lake version, or another schema, is refused naming both, and no file is opened.
#[tokio::test]
async fn versions_are_compared_before_any_file_is_opened() {
    let reads = |storage: &str| EngineReads {
        duckdb_storage_version: EngineVersion::parse(storage),
        ducklake_spec_version: EngineVersion::parse("1.0"),
        ..EngineReads::default()
    };
    let world = forged(|manifest| {
        manifest.engine.duckdb_storage_version = Some("v1.5.0".parse().unwrap());
        manifest.engine.ducklake_spec_version = Some("1.0".parse().unwrap());
    })
    .await;
    world.plant(&edition_id(1), "stray.bin", b"x").await;
    for (engine, expected) in [
        (reads("v1.4.2"), vec![65]),
        (reads("v1.5"), vec![104]),
        (reads("v1.10.0+"), vec![104]),
        (EngineReads::default(), vec![65, 66]),
        (
            EngineReads {
                schema_version: Some("2.52".parse().unwrap()),
                ..reads("v2")
            },
            vec![67],
        ),
    ] {
        let options = CheckOptions {
            engine,
            ..CheckOptions::default()
        };
        assert_eq!(rules(&world, CheckProfile::Receive, &options).await, expected);
    }
    let options = CheckOptions {
        engine: reads("v1.4.2"),
        ..CheckOptions::default()
    };
    let report = check(&world.place(), &edition_id(1), CheckProfile::Open, &options)
        .await
        .unwrap();
    let text = report.findings[0].to_string();
    assert!(text.contains("v1.5.0") && text.contains("up to 1.4.2"), "{text}");
}

/// INV-106: the fingerprints are held against an earlier manifest's at every profile.
#[tokio::test]
async fn expected_fingerprints_are_compared() {
    let (world, manifest) = sealed().await;
    let same = CheckOptions {
        expect: Some(&manifest),
        ..CheckOptions::default()
    };
    assert_eq!(all_rules(&world, &same).await, clean());
    let mut other = manifest.value().clone();
    other.bindings[0].fingerprint = "1:20".parse().unwrap();
    let expect = CheckOptions {
        expect: Some(&other),
        ..CheckOptions::default()
    };
    assert_eq!(all_rules(&world, &expect).await, [vec![106], vec![106], vec![106]]);
    other.canonical_form = "2".parse().unwrap();
    let expect = CheckOptions {
        expect: Some(&other),
        ..CheckOptions::default()
    };
    assert_eq!(rules(&world, CheckProfile::Open, &expect).await, [106]);
}

#[derive(Debug)]
struct Statcat;

impl Extension for Statcat {
    fn name(&self) -> &str {
        "statcat"
    }

    fn check(&self, section: &Json, profile: CheckProfile, content: Option<ExtensionContent<'_>>) -> Vec<String> {
        let Json::Object(section) = section else {
            return vec!["is no object".to_owned()];
        };
        let mut found = Vec::new();
        if section.get("format_version").is_none() {
            found.push(format!("has no format_version at {profile:?}"));
        }
        if let Some(content) = content.filter(|content| content.structures.len() != content.manifest.artefacts.len()) {
            found.push(format!("describes {} artefacts", content.structures.len()));
        }
        assert_eq!(content.is_none(), profile == CheckProfile::Open);
        found
    }
}

/// INV-55, INV-114: an extension's check runs at every profile and is told which; at open it sees its section alone.
#[tokio::test]
async fn extensions_are_checked_with_their_profile() {
    let world = World::in_memory(false).await;
    let mut extensions = JsonObject::new();
    extensions.insert("statcat", JsonObject::new());
    let request = SealRequest {
        extensions,
        ..SealRequest::default()
    };
    world.first().await.seal(request).await.unwrap();
    let checks: [Arc<dyn Extension>; 1] = [Arc::new(Statcat)];
    let options = CheckOptions {
        extensions: &checks,
        ..CheckOptions::default()
    };
    assert_eq!(all_rules(&world, &options).await, [vec![114], vec![114], vec![114]]);
    let report = check(&world.place(), &edition_id(1), CheckProfile::Open, &options)
        .await
        .unwrap();
    assert!(
        report.findings[0]
            .to_string()
            .contains("statcat: has no format_version at Open")
    );
}

/// INV-116, INV-117, INV-118: a clean receive is stamped and then opens; another manifest is received again; a receive with a
/// finding leaves no stamp; and no fingerprint is computed however it is asked.
#[tokio::test]
async fn a_clean_receive_is_stamped() {
    let (world, manifest) = sealed().await;
    let stamps_store: Arc<dyn InventoryStore> = Arc::new(MemoryStore::new());
    let stamps = Stamps::open(stamps_store.clone()).await.unwrap();
    let (place, clock, id) = (world.place(), world.clock.clone(), edition_id(1));
    let options = CheckOptions {
        fingerprints: true,
        ..CheckOptions::default()
    };
    let open = || async { check_on_open(&place, &id, &stamps, &*clock, &options).await.unwrap() };
    world.plant(&edition_id(1), "stray.bin", b"x").await;
    let report = open().await;
    assert_eq!((report.profile, report.findings.len()), (CheckProfile::Receive, 1));
    assert_eq!(
        stamps.get(&product(), &edition_id(1)).await.unwrap(),
        None,
        "a finding leaves no stamp"
    );
    let stray = world.place().file(&edition_id(1), &"stray.bin").unwrap();
    world.store.delete(&stray).await.unwrap();
    let report = open().await;
    assert_eq!((report.profile, report.findings.len()), (CheckProfile::Receive, 0));
    assert!(!report.checks.contains(&"fingerprints"));
    assert_eq!(
        stamps.get(&product(), &edition_id(1)).await.unwrap(),
        Some(manifest.sha256())
    );
    let report = open().await;
    assert_eq!(report.profile, CheckProfile::Open);
    // Another manifest, and a stamp nobody can read: received anew.
    let mut other = manifest.value().clone();
    other.producer_fields.insert("note", "another");
    let path = world.place().manifest_path(&edition_id(1)).unwrap();
    world.store.delete(&path).await.unwrap();
    let other = Stored::encode(other).unwrap();
    let _ = world.store.create(&path, other.bytes().clone()).await.unwrap();
    let report = open().await;
    assert_eq!(report.profile, CheckProfile::Receive);
    assert_eq!(
        stamps.get(&product(), &edition_id(1)).await.unwrap(),
        Some(other.sha256())
    );
    let stamp = StorePath::parse(&format!("{}/{}", product(), edition_id(1))).unwrap();
    stamps_store.delete(&stamp).await.unwrap();
    let _ = stamps_store.create(&stamp, "{broken".into()).await.unwrap();
    assert_eq!(open().await.profile, CheckProfile::Receive);
}

/// INV-63, INV-116: stamps are a reader's own; in a catalogue they are refused.
#[tokio::test]
async fn stamps_do_not_lie_in_a_catalogue() {
    let world = World::in_directory().await;
    let refusal = Stamps::in_directory(world.root.path()).await.unwrap_err().to_string();
    assert!(
        refusal.contains("catalog.json") && refusal.contains("INV-116"),
        "{refusal}"
    );
}

/// INV-62, INV-99: any number of checks at once read a sealed edition, and none changes a file of it.
#[tokio::test]
async fn checks_change_nothing() {
    let (world, _) = sealed().await;
    let snapshot = || async {
        let mut all = Vec::new();
        for name in world.store.list(None).await.unwrap() {
            all.push((name.clone(), world.store.get(&name).await.unwrap().unwrap().bytes));
        }
        all
    };
    let before = snapshot().await;
    let (place, options) = (world.place(), CheckOptions::default());
    let id = edition_id(1);
    let all = PROFILES.map(|profile| check(&place, &id, profile, &options));
    for report in futures::future::join_all(all).await {
        assert_eq!(report.unwrap().findings, []);
    }
    assert_eq!(snapshot().await, before);
}
