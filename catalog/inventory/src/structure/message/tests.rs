use proptest::prelude::*;

use super::*;
use crate::structure::{
    canonical::{CanonicalForm, CanonicalText},
    model::{Artefact, Representation},
};

const JSON: &[u8] = include_bytes!("../../../tests/sdmx/structure_2.0.json");
const XML: &[u8] = include_bytes!("../../../tests/sdmx/structure_2.1.xml");

fn json(text: &str) -> Result<Message, MessageError> {
    read_json(text.as_bytes(), Limits::default())
}

fn xml(text: &str) -> Result<Message, MessageError> {
    read_xml(text.as_bytes(), Limits::default())
}

/// INV-76, INV-81: every artefact of the sample has the golden text, byte for byte, and its fingerprint.
#[test]
fn sample_matches_the_golden_texts() {
    let message = read_json(JSON, Limits::default()).unwrap();
    assert_eq!(message.structures.len(), 6);
    for artefact in message.structures.iter() {
        let (text, fingerprint) = crate::structure::canonical::golden(artefact.urn().as_str());
        let canonical = CanonicalText::of(artefact);
        assert_eq!(canonical.as_str(), text, "{}", artefact.urn());
        assert_eq!(canonical.fingerprint().to_string(), fingerprint);
        assert_eq!(canonical.form(), CanonicalForm::One, "{:?}", canonical.unproven());
    }
}

/// Both formats of one flow give the same artefacts.
#[test]
fn both_formats_give_the_same_artefacts() {
    let from_json = read_json(JSON, Limits::default()).unwrap();
    let from_xml = read_xml(XML, Limits::default()).unwrap();
    for (one, other) in from_json.structures.iter().zip(from_xml.structures.iter()) {
        assert_eq!(one, other);
    }
    assert_eq!(from_json, from_xml);
}
