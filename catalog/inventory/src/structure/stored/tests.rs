use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::structure::{
    canonical::CanonicalForm,
    language::LanguageError,
    message::read_json,
    testing::{constraint, sample, sample_with_hierarchy},
};

const FLOW: &str = "datastructure.Dataflow=SYNTHETIC:DF_SYNTHETIC(1.0)";

/// A message in which every field of every class that SDMX-JSON has is filled, each text with a value of its own.
fn full_message() -> String {
    let mut next = 0;
    let mut t = || {
        next += 1;
        format!("text-{next}")
    };
    let mut annotation = || serde_json::json!({"id": t(), "title": t(), "type": t(), "value": t(), "texts": {"en": t()}, "links": [{"href": t()}]});
    let annotations: Vec<serde_json::Value> = (0..40).map(|_| annotation()).collect();
    let mut annotations = annotations.into_iter();
    let mut t = {
        let mut next = 1000;
        move || {
            next += 1;
            format!("text-{next}")
        }
    };
    let mut identity = move |mut value: serde_json::Value| {
        let object = value.as_object_mut().unwrap();
        object.insert("annotations".into(), serde_json::json!([annotations.next().unwrap()]));
        object.insert(
            "links".into(),
            serde_json::json!([
                {"rel": "alternate", "href": t(), "urn": t(), "uri": t(), "titles": {"en": t()}, "type": t(), "hreflang": t()},
                {"rel": "self", "uri": t()},
            ]),
        );
        object.insert("names".into(), serde_json::json!({"en": t(), "fr-CA": t()}));
        object.insert("descriptions".into(), serde_json::json!({"de": t()}));
        value
    };
    let component = |identity: &mut dyn FnMut(serde_json::Value) -> serde_json::Value, value: serde_json::Value| {
        let mut value = identity(value);
        let object = value.as_object_mut().unwrap();
        object.remove("names");
        object.remove("descriptions");
        let concept = |id: &str| format!("urn:sdmx:org.sdmx.infomodel.conceptscheme.Concept=AG:CS(1.0).{id}");
        object.insert("conceptIdentity".into(), concept("A").into());
        value
    };
    let roles = serde_json::json!(["urn:sdmx:org.sdmx.infomodel.conceptscheme.Concept=AG:CS(1.0).ROLE"]);
    let format = serde_json::json!({
        "dataType": "String", "isSequence": true, "isMultiLingual": true, "interval": 1.25, "startValue": 2, "endValue": 3,
        "timeInterval": "P1Y", "startTime": "2001", "endTime": "2002", "minLength": 4, "maxLength": 5, "minValue": -6.5,
        "maxValue": 7, "decimals": 8, "pattern": "[a-z]",
        "sentinelValues": [{"value": "sentinel", "names": {"en": "sentinel-name"}, "descriptions": {"en": "sentinel-text"}}],
    });
    let coded = serde_json::json!({
        "enumeration": "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=AG:CL(1.0)",
        "enumerationFormat": {"dataType": "Alpha"}, "minOccurs": 2, "maxOccurs": "unbounded",
    });
    let base = |id: &str| {
        serde_json::json!({"id": id, "agencyID": "AG", "version": "1.0", "isExternalReference": true,
            "isPartialLanguage": true, "isFinal": true, "validFrom": "2001-01-01T00:00:00Z", "validTo": "2002-01-01T00:00:00Z"})
    };
    let with = |mut value: serde_json::Value, more: serde_json::Value| {
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        value
    };
    let region = serde_json::json!({"include": true, "annotations": [{"title": "region"}],
        "keyValues": [{"id": "K", "include": false, "values": ["v1", {"value": "v2", "cascadeValues": true}]},
            {"id": "T1", "timeRange": {"beforePeriod": {"period": "1999"}}},
            {"id": "T2", "timeRange": {"afterPeriod": {"period": "1998", "isInclusive": false}}},
            {"id": "T3", "timeRange": {"startPeriod": {"period": "1996"}, "endPeriod": {"period": "1997"}}}],
        "components": [{"id": "X", "values": [{"value": "v3", "cascadeValues": "excluderoot"}]}]});
    let structure = serde_json::json!({
        "dimensionList": {"annotations": [{"title": "dimension-list"}], "links": [{"rel": "self", "uri": "dimension-list-uri"}],
            "dimensions": [component(&mut identity, serde_json::json!({"id": "D1", "conceptRoles": roles, "localRepresentation": {"format": format}}))],
            "timeDimension": component(&mut identity, serde_json::json!({"id": "TP", "localRepresentation": {"format": {"dataType": "GregorianYear"}}}))},
        "measureList": {"annotations": [{"title": "measure-list"}], "measures": [component(&mut identity,
            serde_json::json!({"id": "M1", "usage": "mandatory", "localRepresentation": coded, "conceptRoles": roles}))]},
        "attributeList": {"annotations": [{"title": "attribute-list"}], "attributes": [
            component(&mut identity, serde_json::json!({"id": "A1", "usage": "mandatory", "localRepresentation": coded,
                "measureRelationship": ["M1"], "attributeRelationship": {"dimensions": ["D1", "TP"], "areDimensionsOptional": [false, true]}})),
            component(&mut identity, serde_json::json!({"id": "A2", "attributeRelationship": {"group": "G1"}})),
            component(&mut identity, serde_json::json!({"id": "A3", "attributeRelationship": {"dataflow": {}}}))]},
        "groups": [{"id": "G1", "groupDimensions": ["D1"], "annotations": [{"title": "group"}], "links": [{"rel": "self", "uri": "group-uri"}]}],
    });
    let extension = serde_json::json!({"codelist": "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=AG:EXTENDED(1.0)", "prefix": "P_",
        "inclusiveCodeSelection": {"memberValues": [{"value": "m1", "cascadeValues": true}], "wildcardedMemberValues": ["w%"]}});
    let item = |identity: &mut dyn FnMut(serde_json::Value) -> serde_json::Value, id: &str, parent: Option<&str>| {
        identity(serde_json::json!({"id": id, "parent": parent}))
    };
    let mut named = |value: serde_json::Value| identity(value);
    let concept = with(
        item(&mut named, "C1", None),
        serde_json::json!({"coreRepresentation": coded,
            "isoConceptReference": {"conceptAgency": "iso-a", "conceptSchemeID": "iso-s", "conceptID": "iso-c"}}),
    );
    let placed = |id: &str, children: serde_json::Value| {
        serde_json::json!({"id": id, "code": format!("urn:sdmx:org.sdmx.infomodel.codelist.Code=AG:CL(1.0).{id}"), "level": "L2",
            "version": "placed-version", "validFrom": "2003-01-01T00:00:00Z", "hierarchicalCodes": children, "annotations": [{"title": "placed"}]})
    };
    let level = with(
        item(&mut named, "L1", None),
        serde_json::json!({"level": item(&mut named, "L2", None)}),
    );
    let data = serde_json::json!({
        "agencySchemes": [with(named(base("AGENCIES")), serde_json::json!({"isPartial": true, "agencies": [item(&mut named, "SUB", None)]}))],
        "codelists": [with(named(base("CL")), serde_json::json!({"isPartial": true,
            "codes": [item(&mut named, "ONE", None), item(&mut named, "TWO", Some("ONE"))], "codelistExtensions": [extension]}))],
        "conceptSchemes": [with(named(base("CS")), serde_json::json!({"isPartial": true, "concepts": [concept]}))],
        "dataConstraints": [with(named(base("DC")), serde_json::json!({"role": "Actual",
            "constraintAttachment": {"dataflows": ["urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow=AG:ATTACHED(1.0)"]}, "cubeRegions": [region]}))],
        "dataStructures": [with(named(base("DSD")), serde_json::json!({"dataStructureComponents": structure, "evolvingStructure": true}))],
        "dataflows": [with(named(base("DF")), serde_json::json!({
            "structure": "urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure=AG:DSD(1.0)", "dimensionConstraint": ["D1"]}))],
        "hierarchies": [with(named(base("H")), serde_json::json!({"hasFormalLevels": true, "level": level,
            "hierarchicalCodes": [placed("P1", serde_json::json!([placed("P2", serde_json::json!([]))]))]}))],
        "hierarchyAssociations": [with(named(base("HA")), serde_json::json!({
            "linkedHierarchy": "urn:sdmx:org.sdmx.infomodel.codelist.Hierarchy=AG:H(1.0)",
            "linkedObject": "urn:sdmx:org.sdmx.infomodel.codelist.Code=AG:CL(1.0).LINKED",
            "contextObject": "urn:sdmx:org.sdmx.infomodel.codelist.Code=AG:CL(1.0).CONTEXT"}))],
    });
    serde_json::json!({"data": data}).to_string()
}

fn full() -> Structures {
    read_json(full_message().as_bytes(), Limits::default())
        .unwrap()
        .structures
}

/// INV-77, INV-81: every text of the message, whatever field it stands in, reaches the canonical text of its artefact.
#[test]
fn every_field_reaches_the_text() {
    let message: serde_json::Value = serde_json::from_str(&full_message()).unwrap();
    let structures = full();
    assert_eq!(structures.len(), 8);
    fn texts(value: &serde_json::Value, found: &mut BTreeSet<String>) {
        match value {
            serde_json::Value::String(text) => drop(found.insert(text.clone())),
            serde_json::Value::Array(members) => members.iter().for_each(|member| texts(member, found)),
            serde_json::Value::Object(fields) => fields.values().for_each(|field| texts(field, found)),
            serde_json::Value::Number(number) => drop(found.insert(number.to_string())),
            _ => {}
        }
    }
    // Words of the format that canonical text spells otherwise, or that repeat where they stand.
    let spelt_otherwise = ["self", "mandatory", "Actual", "excluderoot"];
    for (list, artefacts) in message["data"].as_object().unwrap() {
        let mut said = BTreeSet::new();
        texts(artefacts, &mut said);
        let id = artefacts[0]["id"].as_str().unwrap();
        let artefact = structures.iter().find(|artefact| artefact.urn().id() == id).unwrap();
        let text = CanonicalText::of(artefact);
        for said in said.iter().filter(|said| !spelt_otherwise.contains(&said.as_str())) {
            let said = said.strip_suffix("T00:00:00Z").unwrap_or(said);
            assert!(
                text.as_str().contains(said),
                "{list}: `{said}` is not in {}",
                text.as_str()
            );
        }
        assert_eq!(text.form(), CanonicalForm::Sovm1);
    }
}

/// INV-81: what is stored comes back, every class and every field of it.
#[test]
fn stored_structures_come_back() {
    let mut with_constraint = sample_with_hierarchy();
    with_constraint
        .insert(constraint("C", &[FLOW], &[("DIM_1", &["D1_00+", "D1_15-"])]))
        .unwrap();
    for structures in [Structures::default(), sample(), with_constraint, full()] {
        let bytes = write(&structures);
        let back = read(&bytes, Limits::default()).unwrap();
        assert_eq!(write(&back), bytes);
        assert_eq!(back.len(), structures.len());
    }
    assert_eq!(read(&write(&sample()), Limits::default()).unwrap(), sample());
}

/// INV-112: a stored language tag in another form is refused, with the form it should have.
#[test]
fn stored_tag_in_another_form_is_refused() {
    let text = String::from_utf8(write(&sample()))
        .unwrap()
        .replace("\"fr\":", "\"FR\":");
    let error = read(text.as_bytes(), Limits::default()).unwrap_err();
    let StoredError::Line {
        line: 1,
        source: MessageError::Language { source, .. },
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(
        source,
        LanguageError::NotNormal {
            tag: "FR".into(),
            normal: "fr".into()
        }
    );
}

/// INV-71: a line that isn't the canonical text of what it says is refused.
#[test]
fn line_that_is_not_canonical_is_refused() {
    let text = String::from_utf8(write(&sample())).unwrap();
    for (from, to) in [
        ("{\"$class\":\"Codelist\",", "{\"$class\": \"Codelist\","),
        ("\"valid_from\":null,", ""),
        ("\"metadata\":null,", "\"metadata\":{},"),
        ("\"codes\":[", "\"codes\":[ "),
    ] {
        assert!(text.contains(from));
        let changed = text.replacen(from, to, 1);
        let error = read(changed.as_bytes(), Limits::default()).unwrap_err();
        assert!(matches!(error, StoredError::NotCanonical { .. }), "{from}: {error}");
    }
}

/// INV-45: lines are sorted by URN and each artefact stands once.
#[test]
fn lines_out_of_order_are_refused() {
    let text = String::from_utf8(write(&sample())).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.swap(0, 1);
    let swapped = format!("{}\n", lines.join("\n"));
    assert!(matches!(
        read(swapped.as_bytes(), Limits::default()),
        Err(StoredError::OutOfOrder { line: 2, .. })
    ));
    lines.swap(0, 1);
    lines.insert(0, lines[0]);
    let twice = format!("{}\n", lines.join("\n"));
    assert!(matches!(
        read(twice.as_bytes(), Limits::default()),
        Err(StoredError::OutOfOrder { line: 2, .. })
    ));
}

#[test]
fn damaged_lines_are_refused() {
    let text = String::from_utf8(write(&sample())).unwrap();
    let refuse = |text: &str| read(text.as_bytes(), Limits::default()).unwrap_err();
    assert!(matches!(refuse(text.trim_end()), StoredError::CutShort));
    assert!(matches!(refuse("\n"), StoredError::Line { line: 1, .. }));
    let surprise = text.replacen("\"codes\":", "\"surprise\":1,\"codes\":", 1);
    assert!(matches!(
        refuse(&surprise),
        StoredError::Line {
            source: MessageError::Unsupported { .. },
            ..
        }
    ));
    let class = text.replacen("\"$class\":\"Codelist\"", "\"$class\":\"Process\"", 1);
    assert!(matches!(
        refuse(&class),
        StoredError::Line {
            source: MessageError::BadValue { .. },
            ..
        }
    ));
    let inner = text.replacen("\"$class\":\"Code\"", "\"$class\":\"Concept\"", 1);
    assert!(matches!(
        refuse(&inner),
        StoredError::Line {
            source: MessageError::BadValue { .. },
            ..
        }
    ));
    let parent = text.replacen("\"parent_id\":\"D1_00\"", "\"parent_id\":\"NO\"", 1);
    assert!(matches!(
        refuse(&parent),
        StoredError::Structure {
            source: StructureError::NoParent { .. },
            ..
        }
    ));
    let small = Limits {
        bytes: 10,
        ..Limits::default()
    };
    assert!(matches!(
        read(text.as_bytes(), small),
        Err(StoredError::Line {
            source: MessageError::TooLarge { .. },
            ..
        })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// No bytes make the reader panic, and whatever it takes it would write again.
    #[test]
    fn mutated_bytes_are_read_or_refused(edits in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4)) {
        let mut bytes = write(&full());
        for (at, byte) in edits {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        if let Ok(structures) = read(&bytes, Limits::default()) {
            prop_assert_eq!(write(&structures), bytes);
        }
    }
}
