use proptest::prelude::*;

use super::*;

const CODELIST: &str = "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=AG.SUB:CL_A(1.0)";

fn class_error(text: &str) -> UrnError {
    Urn::parse(text).unwrap_err()
}

/// INV-53: semantic only for three parts without extension and major at least 1.
#[test]
fn stability_follows_the_version() {
    for version in ["1.0.0", "2.13.7", "10.0.0"] {
        assert_eq!(
            Version::parse(version).unwrap().stability(),
            Stability::Semantic,
            "{version}"
        );
    }
    for version in [
        "1",
        "1.0",
        "0.1.0",
        "0.0.0",
        "1.0.0-draft",
        "1.0.0-1",
        "1.2.3.4",
        "01.0.0",
        "1.00.0",
    ] {
        assert_eq!(
            Version::parse(version).unwrap().stability(),
            Stability::Legacy,
            "{version}"
        );
    }
}

#[test]
fn malformed_versions_are_refused() {
    for version in [
        "",
        ".",
        "1.",
        ".1",
        "1..0",
        "a",
        "1.0-draft",
        "1.0.0-",
        "1.0.0-a..b",
        "1.0.0-é",
        "-1",
        "1 .0",
        "١.0",
    ] {
        assert!(Version::parse(version).is_err(), "{version}");
    }
    assert!(Version::parse(&"1".repeat(VERSION_BYTES_MAX + 1)).is_err());
}

#[test]
fn parts_of_a_urn() {
    let urn = Urn::parse("urn:sdmx:org.sdmx.infomodel.codelist.HierarchicalCode=AG:H(1.0.0).A.B").unwrap();
    assert_eq!(urn.class(), Some(Class::HierarchicalCode));
    assert_eq!((urn.agency(), urn.id(), urn.path()), ("AG", "H", Some("A.B")));
    assert_eq!(urn.version().map(Version::as_str), Some("1.0.0"));
    let urn = Urn::parse("urn:sdmx:org.sdmx.infomodel.codelist.Code=AG:CL.A").unwrap();
    assert_eq!((urn.id(), urn.path(), urn.version()), ("CL", Some("A"), None));
    // A class an edition doesn't store is a reference all the same.
    let urn = Urn::parse("urn:sdmx:org.sdmx.infomodel.registry.ProvisionAgreement=AG:PA(1.0)").unwrap();
    assert_eq!(urn.class(), None);
}

/// INV-121: the older spellings of component classes point at the same target, and stay as written.
#[test]
fn older_class_names_fold() {
    for (old, new) in [("Attribute", "DataAttribute"), ("PrimaryMeasure", "Measure")] {
        let urn = |class: &str| {
            Urn::parse(&format!(
                "urn:sdmx:org.sdmx.infomodel.datastructure.{class}=AG:DSD(1.0).X"
            ))
            .unwrap()
        };
        assert_eq!(urn(old).target(), urn(new).target());
        assert_ne!(urn(old), urn(new));
    }
    let constraint = "urn:sdmx:org.sdmx.infomodel.registry.ContentConstraint=AG:C(1.0)";
    assert_eq!(
        ArtefactUrn::parse(constraint).unwrap().as_str(),
        constraint.replace("Content", "Data")
    );
}

#[test]
fn malformed_urns_are_refused() {
    for text in [
        "",
        "urn:sdmx:",
        "urn:sdmx:org.sdmx.infomodel.codelist",
        "urn:sdmx:org.sdmx.infomodel.codelist.Codelist",
        "urn:sdmx:org.sdmx.infomodel.Codelist=AG:CL(1.0)",
        "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=CL(1.0)",
        "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=:CL(1.0)",
        "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=1AG:CL(1.0)",
        "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=AG:(1.0)",
        "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=AG:CL(1.0",
        "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=AG:CL()",
        "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=AG:CL(1.0)x",
        "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=AG:CL(1.0).",
        "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=AG:CL(1.0).A",
        "urn:sdmx:org.sdmx.infomodel.codelist.Code=AG:CL(1.0)",
        "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=AG:C L(1.0)",
        "URN:SDMX:org.sdmx.infomodel.codelist.Codelist=AG:CL(1.0)",
    ] {
        assert!(matches!(class_error(text), UrnError::Malformed { .. }), "{text}");
    }
    assert!(matches!(class_error(&CODELIST.repeat(40)), UrnError::Malformed { .. }));
}

#[test]
fn class_of_another_package_is_refused() {
    let error = class_error("urn:sdmx:org.sdmx.infomodel.datastructure.Codelist=AG:CL(1.0)");
    assert!(
        matches!(
            error,
            UrnError::WrongPackage {
                class: "Codelist",
                expected: "codelist",
                ..
            }
        ),
        "{error}"
    );
}

/// INV-88: a version that is a range or a word pins nothing.
#[test]
fn versions_that_pin_nothing_are_refused() {
    for version in ["1.0+", "1.+.0", "*", "+", "~", "latest", "1.*"] {
        let text = format!("urn:sdmx:org.sdmx.infomodel.codelist.Codelist=AG:CL({version})");
        assert!(matches!(class_error(&text), UrnError::NotPinned { .. }), "{version}");
    }
}

/// INV-88: an artefact is stored under a pinned URN, so neither a version-less one nor an item's will do.
#[test]
fn stored_urn_names_one_artefact() {
    let refuse = |text: &str| ArtefactUrn::parse(text).unwrap_err();
    let bare = "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=AG:CL";
    assert!(matches!(refuse(bare), UrnError::NoVersion { .. }));
    for other in ["codelist.Code=AG:CL(1.0).A", "registry.ProvisionAgreement=AG:PA(1.0)"] {
        let text = format!("urn:sdmx:org.sdmx.infomodel.{other}");
        assert!(matches!(refuse(&text), UrnError::NotAnArtefact { .. }), "{text}");
    }
    assert!(matches!(
        ArtefactUrn::new(Class::Codelist, "AG:X", "CL", "1.0"),
        Err(UrnError::Malformed { .. })
    ));
    assert_eq!(
        ArtefactUrn::new(Class::Codelist, "AG.SUB", "CL_A", "1.0")
            .unwrap()
            .as_str(),
        CODELIST
    );
}

proptest! {
    /// No text makes the reader panic, and what it takes it gives back as written.
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}", tail in "[A-Za-z:=().+*0-9_-]{0,40}") {
        for text in [text, format!("urn:sdmx:org.sdmx.infomodel.codelist.{tail}")] {
            if let Ok(urn) = Urn::parse(&text) {
                prop_assert_eq!(urn.as_str(), text);
            }
        }
    }
}
