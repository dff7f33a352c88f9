//! Entries, their envelopes and their sealed form.

use sovm_object::{
    cbor,
    entry::{EntryIn, sealed},
    seal0::SealedIn,
};

use super::{entries, storm};
use crate::vectors::{DOMAIN, KEK_ID, kek, mesh, ring};

#[test]
fn entries_and_envelopes() {
    let mesh = mesh();
    let samples = entries();
    for sample in &samples {
        EntryIn::decode(sample).unwrap().verify(&mesh).unwrap();
    }
    storm("entry", 6_000, &samples, |bytes| {
        cbor::fuzz_decode(bytes);
        if let Ok(entry) = EntryIn::decode(bytes) {
            // What decodes is written back the one way there is (SOP-130).
            let kind = entry.kind();
            if let Ok(entry) = entry.verify(&mesh) {
                assert_eq!((entry.kind(), entry.bytes()), (kind, bytes));
            }
        }
    });

    let (ring, kek) = (ring(), kek());
    let sealed: Vec<Vec<u8>> = samples
        .iter()
        .map(|entry| sealed::seal(entry, &kek, &KEK_ID, &mesh, &DOMAIN))
        .collect();
    let open = |bytes: &[u8]| sealed::open(bytes, &ring, &mesh, &DOMAIN);
    assert!(open(&sealed[0]).unwrap().is_some());
    storm("sealed entry", 3_000, &sealed, |bytes| {
        let _ = (sealed::kek_id_of(bytes), open(bytes), SealedIn::decode(bytes));
    });
    // A member can seal anything: what comes out is as hostile as before.
    storm("sealed by a member", 1_000, &samples, |bytes| {
        let sealed = sealed::seal(bytes, &kek, &KEK_ID, &mesh, &DOMAIN);
        let (_, inside) = open(&sealed).unwrap().expect("the key is held");
        assert_eq!(inside, bytes);
        let _ = EntryIn::decode(&inside);
    });
}
