//! What may change between an object and its entry: the key, the right, the luck of a transaction.

use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use sovm_catalog::Read as _;
use sovm_object::{
    id::{KekId, ManifestHash, RecordId, StorageId},
    record::{AccessRecord, OpKind, Role, access::Grant},
    secret::{Dek, Kek, SiteKey},
    types::schema_of_columns,
};

use super::{
    super::testing::{Admin, World, at, change_key},
    complete::{Granted, Permit},
    *,
};

/// An object of one row for the table `t`, in memory.
fn finished(target: &Target, n: i64) -> Finished {
    let mut writer = ObjectWriter::new(&target.genesis, &target.schema).unwrap();
    let schema = Arc::new(schema_of_columns(writer.columns()).unwrap());
    let column: ArrayRef = Arc::new(Int64Array::from(vec![n]));
    let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
    let mut made = Vec::new();
    let mut keep = |object| {
        made.push(object);
        Ok(())
    };
    writer.write(&batch, &mut keep).unwrap();
    writer.finish(&mut keep).unwrap();
    made.pop().unwrap()
}

fn target(core: &Core) -> Target {
    core.target_of(core.lookup_table("t").unwrap().unwrap()).unwrap()
}

/// Hashes of an object's manifests, and its access records by generation of their key.
fn records(core: &Core, id: &StorageId) -> (Vec<ManifestHash>, Vec<u64>) {
    let snapshot = core.read().unwrap();
    let view = core.object_view(&snapshot, id).unwrap().unwrap();
    let grants = snapshot.access_records(id).unwrap();
    (
        view.manifests.iter().map(|(hash, _)| *hash).collect(),
        grants.iter().map(|grant| grant.kek_generation).collect(),
    )
}

fn unpublished(core: &Core) -> usize {
    core.read().unwrap().unpublished().unwrap().len()
}

/// SOP-239, SOP-243, SOP-244: the key of the domain changes after the manifest was signed, or even after the access record was. The
/// rows are published under the new key, by the manifest that was signed before the change.
#[tokio::test]
async fn a_key_that_changed_meanwhile() {
    for step in ["publish.signed", "publish.granted"] {
        let world = World::new().await;
        let (core, domain) = (world.core(), world.domain());
        world.ingest([1]).await.unwrap();
        let changing = core.clone();
        at(step, move || change_key(&changing, domain, true));
        let report = world.ingest([2, 3]).await.unwrap();
        assert_eq!(
            core.current_kek(&domain).unwrap().generation,
            2,
            "{step} was not reached"
        );

        let snapshot = core.read().unwrap();
        let id: StorageId = report.objects[0].parse().unwrap();
        let view = core.object_view(&snapshot, &id).unwrap().unwrap();
        let [(_, manifest)] = view.manifests.as_slice() else {
            panic!("{step}: {} manifests", view.manifests.len());
        };
        let grants = snapshot.access_records(&id).unwrap();
        let [grant] = grants.as_slice() else {
            panic!("{step}: {} access records", grants.len());
        };
        let keks = snapshot.kek_records(&domain).unwrap();
        let new = keks.iter().find(|record| record.body().generation == 2).unwrap().body();
        assert_eq!((grant.kek_generation, grant.kek_id), (2, new.kek_id), "{step}");
        // One counter numbers everything this node signs.
        assert!(manifest.seq < new.seq && new.seq < grant.seq, "{step}");
        assert_eq!(world.numbers().await, [1, 2, 3], "{step}");
        assert_eq!(unpublished(core), 0, "{step}");
    }
}

/// SOP-239, SOP-245: the right to publish goes after the manifest was signed, or even after the access record was, by removal or by
/// a lower role. Nothing is published, the user is told, and once the right is back the same command works.
#[tokio::test]
async fn a_right_that_was_lost_meanwhile() {
    for step in ["publish.signed", "publish.granted"] {
        for (kind, role, word) in [
            (OpKind::Remove, Role::Admin, "not a member"),
            (OpKind::Role, Role::Reader, "is a reader"),
        ] {
            let world = World::new().await;
            let (core, domain) = (world.core(), world.domain());
            world.ingest([1]).await.unwrap();
            let admin = Arc::new(Admin::of(core, domain));
            let (judged, judge) = (core.clone(), admin.clone());
            at(step, move || judge.decide(&judged, domain, kind, role));
            let error = world.ingest([2, 3]).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Refused, "{step}: {error}");
            assert!(error.message.contains(word), "{step}: {error}");
            assert_eq!(error.safe.as_deref(), Some("nothing was published"));
            assert!(error.next.unwrap().contains("ask an admin to invite it again"));
            let snapshot = core.read().unwrap();
            // What was made is left over, and accounted for.
            let left: Vec<_> = snapshot.unpublished().unwrap();
            assert_eq!(left.len(), 1, "{step}");
            assert!(left[0].1.orphan_since_ms.is_some(), "{step}");
            assert!(core.object_view(&snapshot, &left[0].0).unwrap().is_none(), "{step}");
            drop(snapshot);

            let back = if kind == OpKind::Remove { OpKind::Add } else { kind };
            admin.decide(core, domain, back, Role::Writer);
            world.ingest([2, 3]).await.unwrap();
            assert_eq!(world.numbers().await, [1, 2, 3], "{step}");
        }
    }
}

/// SOP-242, SOP-243: however often and why ever the transaction fails, the next try has the same manifest, byte for byte, and so has
/// a publication of what is published already.
#[tokio::test]
async fn a_retry_keeps_the_manifest() {
    let world = World::new().await;
    let (core, domain) = (world.core(), world.domain());
    world.ingest([1]).await.unwrap();
    let target = target(core);
    let ready = core.make_durable(&target, finished(&target, 2)).await.unwrap();
    let (id, signed) = (ready.id(), ready.manifest().bytes().to_vec());
    let hash = ready.manifest().manifest_hash();
    let publish = async |fails: bool| {
        let also = |_: &mut Txn| match fails {
            true => Err(ApiError::new(ErrorKind::DiskFull, "the disk is full")),
            false => Ok(()),
        };
        let publication = Publication {
            domain,
            first: Vec::new(),
            objects: vec![&ready],
            also: &also,
        };
        core.publish_objects(&publication).await
    };
    for _ in 0..3 {
        assert_eq!(publish(true).await.unwrap_err().kind, ErrorKind::DiskFull);
        assert!(core.object_view(&core.read().unwrap(), &id).unwrap().is_none());
        assert_eq!(unpublished(core), 1, "its row says whose bytes they are");
    }
    change_key(core, domain, true);
    for again in 1..=2 {
        publish(false).await.unwrap();
        let (manifests, grants) = records(core, &id);
        assert_eq!(manifests, [hash]);
        assert_eq!(grants, vec![2; again]);
        let entry = core.read().unwrap().entry(&RecordId::from(hash)).unwrap().unwrap();
        assert_eq!(entry.bytes, signed);
    }
    assert_eq!(world.numbers().await, [1, 2]);
}

/// A key that is on its way is waited for, with the same manifests; one that does not come is an error.
#[tokio::test]
async fn a_missing_key_is_waited_for() {
    let world = World::new().await;
    let (core, domain) = (world.core(), world.domain());
    change_key(core, domain, false);
    let short = Duration::from_millis(20);
    let error = core.await_permit(&domain, short).await.unwrap_err();
    assert!(error.message.contains("no key"), "{error}");
    let minting = core.clone();
    let minted = tokio::spawn(async move {
        tokio::time::sleep(short).await;
        minting.ensure_kek(&domain).unwrap()
    });
    let permit = core.await_permit(&domain, Duration::from_secs(60)).await.unwrap();
    assert_eq!(Some(permit.under().generation), minted.await.unwrap());
}

/// SOP-239: without the bytes, the key, the right, the manifest or the access record under the required key there are no entries.
/// That none of them can be left out is in the types; here each is there and is another object's, or of another moment.
#[tokio::test]
async fn each_of_the_five_must_be_the_objects_own() {
    let world = World::new().await;
    let (core, domain) = (world.core(), world.domain());
    world.ingest([1]).await.unwrap();
    let target = target(core);
    let object = finished(&target, 2);
    let (bytes, id) = (object.sealed.bytes.clone(), object.sealed.storage_id);
    let ready = core.make_durable(&target, object).await.unwrap();
    let other = core.make_durable(&target, finished(&target, 3)).await.unwrap();

    // Bytes and key.
    let durable = core.make_unnamed(bytes, id).await.unwrap();
    let refused = |made: Result<Ready, ApiError>| made.err().unwrap().message;
    let manifest = || ready.manifest().clone();
    let foreign = Ready::new(durable, Dek::generate(), other.manifest().clone());
    assert!(refused(foreign).contains("not durable"));
    assert!(refused(Ready::new(durable, Dek::generate(), manifest())).contains("another key"));

    // The access record.
    let permit = core.check_may_publish(&core.read().unwrap(), &domain).unwrap();
    let under = permit.under();
    let grant = |object: &Ready| Grant {
        mesh_id: core.mesh(),
        domain_id: domain,
        storage_id: object.id(),
        object_manifest_hash: object.manifest().manifest_hash(),
        kek_generation: under.generation,
        kek_id: under.kek_id,
        issuer: core.me,
        seq: core.stamp().unwrap().seq,
        ops_seen: Vec::new(),
        issued_hlc: core.stamp().unwrap().hlc,
    };
    let attempt = |grant: Grant, dek: &Dek, signer: Option<&SiteKey>, wrapped_for: Option<&Kek>| {
        let keys = core.keys();
        let kek = keys.domain(&domain).unwrap().ring.get(&under.kek_id).unwrap();
        let record = AccessRecord::wrap(grant, dek, wrapped_for.unwrap_or(kek));
        let signed = Signed::sign(record, signer.unwrap_or_else(|| keys.site_key()), &core.mesh());
        Granted::new(&ready, signed, kek, permit)
            .err()
            .map_or_else(String::new, |error| error.message)
    };
    let changed = |change: &dyn Fn(&mut Grant)| {
        let mut changed = grant(&ready);
        change(&mut changed);
        attempt(changed, ready.dek(), None, None)
    };
    assert_eq!(changed(&|_| ()), "");
    let of_another = "an access record of another object";
    assert!(attempt(grant(&other), ready.dek(), None, None).contains(of_another));
    assert!(attempt(grant(&ready), other.dek(), None, None).contains(of_another));
    assert!(changed(&|grant| grant.object_manifest_hash = other.manifest().manifest_hash()).contains(of_another));
    let not_required = "under another key than the required one";
    assert!(changed(&|grant| grant.kek_generation += 1).contains(not_required));
    assert!(changed(&|grant| grant.kek_id = KekId::from_bytes([7; 16])).contains(not_required));
    assert!(attempt(grant(&ready), ready.dek(), None, Some(&Kek::generate())).contains("does not open"));
    let stranger = SiteKey::generate();
    let foreign = Grant {
        issuer: stranger.site_id(),
        ..grant(&ready)
    };
    assert!(attempt(foreign, ready.dek(), Some(&stranger), None).contains("did not sign"));

    // The right and the required key, as they are in the transaction.
    let complete = |permit: Permit| core.complete(&ready, permit).unwrap();
    assert!(complete(permit).into_entries(&permit).is_some());
    change_key(core, domain, true);
    let now = core.check_may_publish(&core.read().unwrap(), &domain).unwrap();
    assert!(complete(permit).into_entries(&now).is_none());
    assert!(complete(now).into_entries(&now).is_some());
}
