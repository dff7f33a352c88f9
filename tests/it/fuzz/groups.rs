//! MLS messages, key bundles and hints: what only members of a group should be able to make.

use std::collections::BTreeMap;

use sovm_mesh::proto::{
    hint, kek as bundle,
    mls::{self, AddMember, Change, JoinCheck, MemoryRows, MlsError, MlsKey},
};
use sovm_object::id::{KekId, SiteId};

use super::storm;
use crate::{
    messages,
    vectors::{DOMAIN, kek, mesh},
};

#[test]
fn hints_and_key_bundles() {
    let (mesh, kek) = (mesh(), kek());
    let hints = [0, 1, 12].map(messages::hint);
    assert!(hint::open(&hints[0], &kek, &mesh, &DOMAIN).is_ok());
    storm("hint", 3_000, &hints, |bytes| {
        hint::fuzz_decode(bytes);
        let _ = hint::open(bytes, &kek, &mesh, &DOMAIN);
    });

    let (wrap_key, context) = messages::bundle_context();
    let sealed = messages::key_bundle();
    let record_of = |_: &KekId| Some((2, kek.commitment()));
    assert_eq!(
        bundle::open(&sealed, &wrap_key, &context, &record_of)
            .unwrap()
            .keks
            .len(),
        1
    );
    storm("key bundle", 3_000, &[sealed], |bytes| {
        bundle::fuzz_decode(bytes);
        let _ = bundle::open(bytes, &wrap_key, &context, &record_of);
    });
}

#[test]
fn group_messages() {
    let (group_id, founder, joiner) = ([4; 32], SiteId::from_bytes([1; 32]), SiteId::from_bytes([2; 32]));
    let (founder_key, joiner_key) = (MlsKey::from_seed(&[1; 32]), MlsKey::from_seed(&[2; 32]));
    let (mut founder_rows, mut joiner_rows) = (MemoryRows::default(), MemoryRows::default());
    let (writes, _) = mls::step(&founder_rows, |mls| mls.create_group(&group_id, founder, &founder_key)).unwrap();
    founder_rows.apply(&writes);
    let (writes, key_package) = mls::step(&joiner_rows, |mls| mls.new_key_package(joiner, &joiner_key)).unwrap();
    joiner_rows.apply(&writes);
    let offer = AddMember {
        site: joiner,
        mls_key: joiner_key.public(),
        key_package: key_package.clone(),
    };
    let change = Change {
        add: vec![offer.clone()],
        remove: vec![],
    };
    let (_, staged) = mls::step(&founder_rows, |mls| mls.stage_change(&group_id, &founder_key, &change)).unwrap();
    let welcome = staged.welcome.unwrap();
    let roster = BTreeMap::from([(founder, founder_key.public()), (joiner, joiner_key.public())]);
    let check = JoinCheck {
        group_id: &group_id,
        roster: &roster,
    };
    mls::step::<_, MlsError>(&joiner_rows, |mls| mls.join(&welcome, &check)).unwrap();

    let samples = [key_package, staged.commit, welcome];
    storm("MLS message", 3_000, &samples, mls::fuzz_message);
    storm("welcome", 600, &samples, |bytes| {
        let _ = mls::step::<_, MlsError>(&joiner_rows, |mls| mls.join(bytes, &check));
    });
    storm("key package", 600, &samples, |bytes| {
        let _ = mls::check_offer(&AddMember {
            key_package: bytes.to_vec(),
            ..offer.clone()
        });
    });
    storm("commit", 600, &samples, |bytes| {
        let justified = mls::Justified::default();
        let _ = mls::step::<_, MlsError>(&founder_rows, |mls| {
            mls.merge_commit(&group_id, bytes, joiner, &justified)
        });
    });
}
