use super::*;
use crate::structure::{
    language::{LanguageTag, LocalisedText},
    model::{Dataflow, Decimal, Header, HierarchyAssociation},
    urn::{ArtefactUrn, Urn},
};

const GOLDEN: &str = include_str!("../../../tests/sdmx/canonical_texts.json");

/// The golden text of an artefact and its fingerprint.
pub(crate) fn golden(urn: &str) -> (String, String) {
    let golden: serde_json::Value = serde_json::from_str(GOLDEN).unwrap();
    let entry = &golden["artefacts"][urn];
    (
        entry["canonical_text"].as_str().unwrap().to_owned(),
        entry["fingerprint"].as_str().unwrap().to_owned(),
    )
}

fn both(english: &str, french: &str) -> LocalisedText {
    let mut text = LocalisedText::default();
    text.insert(LanguageTag::parse("en").unwrap(), english.to_owned())
        .unwrap();
    text.insert(LanguageTag::parse("fr").unwrap(), french.to_owned())
        .unwrap();
    text
}

fn dataflow() -> Dataflow {
    let urn = "urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow=SYNTHETIC:DF_SYNTHETIC(1.0)";
    let mut header = Header::new(ArtefactUrn::parse(urn).unwrap());
    header.name = both("Synthetic dataflow", "Synthetic dataflow");
    let structure = "urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure=SYNTHETIC:DSD_SYNTHETIC(1.0)";
    Dataflow {
        header,
        structure: Urn::parse(structure).unwrap(),
        dimension_constraint: Vec::new(),
    }
}

/// INV-76, INV-77, INV-78: the golden text of a dataflow, byte for byte, and its fingerprint.
#[test]
fn dataflow_matches_its_golden_text() {
    let artefact = Artefact::Dataflow(dataflow());
    let (text, fingerprint) = golden(artefact.urn().as_str());
    let canonical = CanonicalText::of(&artefact);
    assert_eq!(canonical.as_str(), text);
    assert_eq!(canonical.fingerprint().to_string(), fingerprint);
    assert_eq!(canonical.form(), CanonicalForm::One);
}

/// INV-78: the golden text of a hierarchy association: references are URNs alone.
#[test]
fn hierarchy_association_matches_its_golden_text() {
    let urn = "urn:sdmx:org.sdmx.infomodel.codelist.HierarchyAssociation=SYNTHETIC:HA_DIM_1_1(1.0)";
    let mut header = Header::new(ArtefactUrn::parse(urn).unwrap());
    header.name = both(
        "Dimension 1 hierarchy 1 association (en)",
        "Dimension 1 hierarchy 1 association (fr)",
    );
    let artefact = Artefact::HierarchyAssociation(HierarchyAssociation {
        header,
        linked_hierarchy: Urn::parse("urn:sdmx:org.sdmx.infomodel.codelist.Hierarchy=SYNTHETIC:H_DIM_1_1(1.0)")
            .unwrap(),
        linked_object: Urn::parse(
            "urn:sdmx:org.sdmx.infomodel.datastructure.Dimension=SYNTHETIC:DSD_SYNTHETIC(1.0).DIM_1",
        )
        .unwrap(),
        context_object: None,
    });
    let (text, fingerprint) = golden(urn);
    let canonical = CanonicalText::of(&artefact);
    assert_eq!(canonical.as_str(), text);
    assert_eq!(canonical.fingerprint().to_string(), fingerprint);
}

/// INV-79: an instant is written in UTC with microseconds and `Z`.
#[test]
fn instants_are_utc_with_microseconds() {
    let mut flow = dataflow();
    flow.header.valid_from = Some(
        DateTime::parse_from_rfc3339("2024-01-02T03:04:05.6+02:00")
            .unwrap()
            .into(),
    );
    let text = CanonicalText::of(&Artefact::Dataflow(flow));
    assert!(
        text.as_str().contains(r#""valid_from":"2024-01-02T01:04:05.600000Z""#),
        "{}",
        text.as_str()
    );
}

/// INV-79: lists keep their order and sets are sorted by their members' texts.
#[test]
fn lists_keep_order_and_sets_are_sorted() {
    let members = || {
        vec![
            Canon::Text("b".into()),
            Canon::Number("1".into()),
            Canon::Text("a".into()),
        ]
    };
    assert_eq!(Canon::List(members()).text(), r#"["b",1,"a"]"#);
    assert_eq!(Canon::Set(members()).text(), r#"["a","b",1]"#);
}

/// INV-80: numbers that aren't finite have no text.
#[test]
fn numbers_that_are_not_finite_are_refused() {
    for text in ["INF", "-INF", "NaN", "inf", "1e5", "", ".", "-", "1.2.3", "0x1", "١"] {
        assert!(Decimal::parse(text).is_err(), "{text}");
    }
    for (text, normal) in [
        ("1.0", "1"),
        ("+01.50", "1.5"),
        ("-0.0", "0"),
        (".5", "0.5"),
        ("-3", "-3"),
    ] {
        assert_eq!(Decimal::parse(text).unwrap().as_str(), normal);
    }
}

/// INV-70, INV-71: a text whose form no golden text shows is not called form 1.
#[test]
fn unproven_text_is_of_the_own_form() {
    let mut flow = dataflow();
    flow.header.name = both("Population", "Population par région");
    let text = CanonicalText::of(&Artefact::Dataflow(flow));
    assert_eq!(text.form(), CanonicalForm::Sovm1);
    assert_eq!(text.unproven(), ["text beyond ASCII"]);
    assert_eq!(
        CanonicalForm::of_all([CanonicalForm::One, text.form()]),
        CanonicalForm::Sovm1
    );
    assert_eq!(CanonicalForm::of_all([CanonicalForm::One]).name(), "1");
}

/// INV-31: names are part of the artefact, so a corrected name is another fingerprint.
#[test]
fn names_are_part_of_the_text() {
    let mut flow = dataflow();
    let before = CanonicalText::of(&Artefact::Dataflow(flow.clone())).fingerprint();
    flow.header.name = both("Synthetic dataflow", "Flux");
    assert_ne!(CanonicalText::of(&Artefact::Dataflow(flow)).fingerprint(), before);
}

#[test]
fn texts_are_escaped_as_json_does() {
    let mut out = String::new();
    write_text("a\"\\\n\r\t\u{8}\u{c}\u{1}/\u{7f}", &mut out);
    assert_eq!(out, "\"a\\\"\\\\\\n\\r\\t\\b\\f\\u0001/\u{7f}\"");
    assert_eq!(
        serde_json::from_str::<String>(&out).unwrap(),
        "a\"\\\n\r\t\u{8}\u{c}\u{1}/\u{7f}"
    );
}

#[test]
fn malformed_fingerprints_are_refused() {
    for text in ["", "00", &"0".repeat(63), &"A".repeat(64), &"g".repeat(64)] {
        assert!(text.parse::<ArtefactFingerprint>().is_err(), "{text}");
    }
    assert_eq!(
        "ab".repeat(32).parse::<ArtefactFingerprint>().unwrap().to_string(),
        "ab".repeat(32)
    );
}
