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

/// A JSON message with one list of artefacts.
fn listed(key: &str, artefact: &str) -> Result<Message, MessageError> {
    json(&format!(r#"{{"data":{{"{key}":[{artefact}]}}}}"#))
}

/// An XML message with what stands inside `Structures`.
fn wrapped(inside: &str) -> Result<Message, MessageError> {
    let base = "http://www.sdmx.org/resources/sdmxml/schemas/v2_1";
    xml(&format!(
        r#"<m:Structure xmlns:m="{base}/message" xmlns:s="{base}/structure" xmlns:c="{base}/common"><m:Structures>{inside}</m:Structures></m:Structure>"#
    ))
}

const FLOW_URN: &str = "urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow=AG:DF(1.0)";

/// INV-76: the golden text of a hierarchy, read from SDMX-JSON.
#[test]
fn hierarchy_matches_its_golden_text() {
    let urn = "urn:sdmx:org.sdmx.infomodel.codelist.Hierarchy=SYNTHETIC:H_DIM_1_1(1.0)";
    let (text, fingerprint) = crate::structure::canonical::golden(urn);
    let message = json(&crate::structure::testing::hierarchy_message()).unwrap();
    let canonical = CanonicalText::of(message.structures.iter().next().unwrap());
    assert_eq!(canonical.as_str(), text);
    assert_eq!(canonical.fingerprint().to_string(), fingerprint);
    assert_eq!(canonical.form(), CanonicalForm::One);
}

/// A constraint says the same in both formats, cascading values and times included.
#[test]
fn constraints_are_read_from_both_formats() {
    let from_json = listed(
        "dataConstraints",
        &format!(
            r#"{{"id":"C","agencyID":"AG","names":{{"en":"c"}},"role":"Allowed",
            "constraintAttachment":{{"dataflows":["{FLOW_URN}"]}},
            "cubeRegions":[{{"include":true,
              "keyValues":[{{"id":"GEO","values":["A",{{"value":"B","cascadeValues":true}},{{"value":"C","cascadeValues":"excluderoot"}}]}},
                {{"id":"TIME_PERIOD","timeRange":{{"startPeriod":{{"period":"2000"}},"endPeriod":{{"period":"2001","isInclusive":false}}}}}}],
              "components":[{{"id":"ATTR","include":false,"values":["X"]}}]}}]}}"#
        ),
    )
    .unwrap();
    let from_xml = wrapped(
        r#"<s:Constraints><s:ContentConstraint id="C" agencyID="AG" type="Allowed"><c:Name xml:lang="en">c</c:Name>
          <s:ConstraintAttachment><s:Dataflow><Ref id="DF" agencyID="AG"/></s:Dataflow></s:ConstraintAttachment>
          <s:CubeRegion include="true">
            <c:KeyValue id="GEO"><c:Value>A</c:Value><c:Value cascadeValues="true">B</c:Value><c:Value cascadeValues="excluderoot">C</c:Value></c:KeyValue>
            <c:KeyValue id="TIME_PERIOD"><c:TimeRange><c:StartPeriod>2000</c:StartPeriod><c:EndPeriod isInclusive="false">2001</c:EndPeriod></c:TimeRange></c:KeyValue>
            <c:Attribute id="ATTR" include="false"><c:Value>X</c:Value></c:Attribute>
          </s:CubeRegion></s:ContentConstraint></s:Constraints>"#,
    )
    .unwrap();
    assert_eq!(from_json, from_xml);
    let constraint = from_json.structures.iter().next().unwrap();
    assert_eq!(CanonicalText::of(constraint).form(), CanonicalForm::Sovm1);
}

/// Attachments, groups, roles, formats and occurrences are read alike from both formats.
#[test]
fn rich_data_structure_is_read_from_both_formats() {
    let concept = |id: &str| format!("urn:sdmx:org.sdmx.infomodel.conceptscheme.Concept=AG:CS(1.0).{id}");
    let from_json = listed(
        "dataStructures",
        &format!(
            r#"{{"id":"D","agencyID":"AG","version":"1.0.0","isFinal":true,"names":{{"en":"d"}},"descriptions":{{"fr-CA":"é"}},
            "dataStructureComponents":{{
              "dimensionList":{{"dimensions":[
                {{"id":"B","position":2,"conceptIdentity":"{b}"}},
                {{"id":"A","position":1,"conceptIdentity":"{a}","conceptRoles":["{b}"],
                  "localRepresentation":{{"format":{{"dataType":"Integer","minValue":1.50,"maxLength":4,"pattern":"[0-9]+","isSequence":false}}}}}}]}},
              "groups":[{{"id":"G","groupDimensions":["A"]}}],
              "attributeList":{{"attributes":[
                {{"id":"X","usage":"mandatory","conceptIdentity":"{a}","attributeRelationship":{{"dimensions":["A","B"]}}}},
                {{"id":"Y","conceptIdentity":"{a}","attributeRelationship":{{"group":"G"}}}},
                {{"id":"Z","conceptIdentity":"{a}","attributeRelationship":{{"dataflow":{{}}}}}}]}}}}}}"#,
            a = concept("A"),
            b = concept("B"),
        ),
    )
    .unwrap();
    let identity = |id: &str| {
        format!(r#"<s:ConceptIdentity><Ref id="{id}" agencyID="AG" maintainableParentID="CS"/></s:ConceptIdentity>"#)
    };
    let (a, b) = (identity("A"), identity("B"));
    let from_xml = wrapped(&format!(
        r#"<s:DataStructures><s:DataStructure id="D" agencyID="AG" version="1.0.0" isFinal="true"><c:Name>d</c:Name><c:Description xml:lang="FR-ca">é</c:Description>
          <s:DataStructureComponents><s:DimensionList id="DimensionDescriptor">
            <s:Dimension id="B" position="2">{b}</s:Dimension>
            <s:Dimension id="A" position="1">{a}<s:LocalRepresentation><s:TextFormat textType="Integer" minValue="+1.5" maxLength="4" pattern="[0-9]+" isSequence="false"/></s:LocalRepresentation>
              <s:ConceptRole><URN>{role}</URN></s:ConceptRole></s:Dimension></s:DimensionList>
          <s:Group id="G"><s:GroupDimension><s:DimensionReference><Ref id="A"/></s:DimensionReference></s:GroupDimension></s:Group>
          <s:AttributeList>
            <s:Attribute id="X" assignmentStatus="Mandatory">{a}<s:AttributeRelationship><s:Dimension><Ref id="A"/></s:Dimension><s:Dimension><Ref id="B"/></s:Dimension></s:AttributeRelationship></s:Attribute>
            <s:Attribute id="Y" assignmentStatus="Conditional">{a}<s:AttributeRelationship><s:Group><Ref id="G"/></s:Group></s:AttributeRelationship></s:Attribute>
            <s:Attribute id="Z" assignmentStatus="Conditional">{a}<s:AttributeRelationship><s:None/></s:AttributeRelationship></s:Attribute>
          </s:AttributeList></s:DataStructureComponents></s:DataStructure></s:DataStructures>"#,
        role = concept("B"),
    ))
    .unwrap();
    assert_eq!(from_json, from_xml);
    let Some(Artefact::DataStructure(structure)) = from_json.structures.iter().next() else {
        panic!()
    };
    assert_eq!(structure.dimensions[0].id, "A");
    let Some(Representation::Facet(facet)) = &structure.dimensions[0].local.representation else {
        panic!()
    };
    assert_eq!(facet.min_value.as_ref().unwrap().as_str(), "1.5");
}

#[test]
fn namespaces_count_and_prefixes_do_not() {
    let text = std::str::from_utf8(XML).unwrap();
    let renamed = text.replace("str:", "q:").replace("xmlns:str", "xmlns:q");
    assert_eq!(xml(&renamed).unwrap(), xml(text).unwrap());
    let foreign = text.replace("v2_1/message\" ", "v3_0/message\" ");
    assert!(
        matches!(xml(&foreign), Err(MessageError::WrongMessage { .. })),
        "{foreign}"
    );
    let undeclared = text.replacen("<mes:Structures>", "<nix:Structures>", 1);
    assert!(matches!(xml(&undeclared), Err(MessageError::Xml(_))));
}

#[test]
fn document_types_and_entities_are_refused() {
    let text = std::str::from_utf8(XML).unwrap();
    let declared = text.replacen("<mes:Structure ", "<!DOCTYPE x [<!ENTITY e \"1\">]><mes:Structure ", 1);
    assert!(matches!(xml(&declared), Err(MessageError::DocumentType)));
    let bare = text.replacen(
        "<mes:Structure ",
        "<!DOCTYPE x SYSTEM \"file:///etc/passwd\"><mes:Structure ",
        1,
    );
    assert!(matches!(xml(&bare), Err(MessageError::DocumentType)));
    let used = text.replacen(">Synthetic dataflow<", ">&e;<", 1);
    assert!(matches!(xml(&used), Err(MessageError::Entity { name }) if name == "e"));
    let in_attribute = text.replacen("id=\"V0\"", "id=\"&e;\"", 1);
    assert!(matches!(xml(&in_attribute), Err(MessageError::Xml(_))));
    let predefined = text.replacen(">Synthetic dataflow<", ">a &amp; &#98;<![CDATA[ <c>]]><", 1);
    let message = xml(&predefined).unwrap();
    let names = message.structures.iter().map(|artefact| &artefact.header().name);
    assert!(
        names
            .into_iter()
            .any(|name| name.iter().any(|(_, text)| text == "a & b <c>"))
    );
}

#[test]
fn input_is_bounded() {
    let small = Limits {
        bytes: 100,
        ..Limits::default()
    };
    assert!(matches!(
        read_json(JSON, small),
        Err(MessageError::TooLarge { limit: 100, .. })
    ));
    assert!(matches!(
        read_xml(XML, small),
        Err(MessageError::TooLarge { limit: 100, .. })
    ));
    let few = Limits {
        parts: 50,
        ..Limits::default()
    };
    assert!(matches!(
        read_json(JSON, few),
        Err(MessageError::TooManyParts { limit: 50 })
    ));
    assert!(matches!(
        read_xml(XML, few),
        Err(MessageError::TooManyParts { limit: 50 })
    ));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(matches!(json(&deep), Err(MessageError::TooDeep { limit: 96 })));
    let deep = format!("{}{}", "<a>".repeat(100_000), "</a>".repeat(100_000));
    assert!(matches!(xml(&deep), Err(MessageError::TooDeep { limit: 96 })));
}

#[test]
fn keys_and_attributes_stand_once() {
    let twice = r#"{"data":{"dataflows":[{"id":"A","id":"B"}]}}"#;
    assert!(matches!(json(twice), Err(MessageError::DuplicateKey { key }) if key == "id"));
    let twice = r#"<s:Dataflows><s:Dataflow id="A" id="B" agencyID="AG"/></s:Dataflows>"#;
    assert!(matches!(wrapped(twice), Err(MessageError::Xml(_))));
}

#[test]
fn other_documents_are_refused() {
    assert!(matches!(json("[]"), Err(MessageError::BadValue { .. })));
    assert!(matches!(json("{}"), Err(MessageError::WrongMessage { .. })));
    assert!(matches!(json("{\"data\":{}} x"), Err(MessageError::Json(_))));
    let data = r#"{"meta":{"schema":"https://json.sdmx.org/2.0.0/sdmx-json-data-schema.json"},"data":{}}"#;
    assert!(matches!(json(data), Err(MessageError::WrongMessage { .. })));
    assert!(matches!(xml("<a/>"), Err(MessageError::WrongMessage { .. })));
    assert!(matches!(xml(""), Err(MessageError::Xml(_))));
    assert!(matches!(xml("<a/><b/>"), Err(MessageError::Xml(_))));
    assert!(matches!(xml("<a/>text"), Err(MessageError::Xml(_))));
    assert!(matches!(xml("<a>"), Err(MessageError::Xml(_))));
    assert!(matches!(
        xml("<?xml version='1.0' encoding='ISO-8859-1'?><a/>"),
        Err(MessageError::NotUtf8)
    ));
    assert!(matches!(
        read_xml(b"\xff", Limits::default()),
        Err(MessageError::NotUtf8)
    ));
    assert!(matches!(
        read_json(b"\xff", Limits::default()),
        Err(MessageError::NotUtf8)
    ));
}

/// What isn't kept is refused by name, since leaving it out would change the artefact unseen (INV-81).
#[test]
fn unknown_parts_are_refused() {
    let flow = |more: &str| {
        let structure = "urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure=AG:DSD(1.0)";
        listed(
            "dataflows",
            &format!(r#"{{"id":"DF","agencyID":"AG","structure":"{structure}"{more}}}"#),
        )
    };
    assert!(flow("").is_ok());
    let error = flow(r#","surprise":1"#).unwrap_err();
    assert!(
        matches!(&error, MessageError::Unsupported { place, what } if place == FLOW_URN && what == "surprise"),
        "{error}"
    );
    assert!(flow(r#","surprise":null"#).is_ok());
    let metadata = r#"{"id":"D","agencyID":"AG","metadata":"urn:x","dataStructureComponents":{}}"#;
    assert!(matches!(
        listed("dataStructures", metadata),
        Err(MessageError::Unsupported { .. })
    ));
    for inside in [
        r#"<s:Codelists><s:Codelist id="C" agencyID="AG" surprise="1"/></s:Codelists>"#,
        r#"<s:Codelists><s:Codelist id="C" agencyID="AG"><s:Surprise/></s:Codelist></s:Codelists>"#,
    ] {
        assert!(
            matches!(wrapped(inside), Err(MessageError::Unsupported { .. })),
            "{inside}"
        );
    }
    let text = r#"<s:Codelists><s:Codelist id="C" agencyID="AG">text</s:Codelist></s:Codelists>"#;
    assert!(matches!(wrapped(text), Err(MessageError::BadValue { .. })));
}

/// Artefacts of classes an edition doesn't store are counted, and so are contacts.
#[test]
fn what_is_left_out_is_said() {
    let message = json(
        r#"{"data":{"categorySchemes":[{},{}],"agencySchemes":[{"agencyID":"AG","agencies":[{"id":"X","contacts":[{}]}]}]}}"#,
    )
    .unwrap();
    assert_eq!(
        message.left_out,
        BTreeMap::from([("categorySchemes".to_owned(), 2), ("contacts".to_owned(), 1)])
    );
    let message = wrapped("<s:Categorisations><s:Categorisation/></s:Categorisations>").unwrap();
    assert_eq!(message.left_out, BTreeMap::from([("Categorisation".to_owned(), 1)]));
}

/// INV-88: an artefact or reference without a pinned version is refused at import.
#[test]
fn unpinned_versions_are_refused_at_import() {
    let error = listed("codelists", r#"{"id":"C","agencyID":"AG","version":"1.0+"}"#).unwrap_err();
    assert!(
        matches!(
            error,
            MessageError::Urn {
                source: UrnError::NotPinned { .. },
                ..
            }
        ),
        "{error}"
    );
    let flow = r#"{"id":"DF","agencyID":"AG","structure":"urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure=AG:D(1.0+)"}"#;
    assert!(matches!(
        listed("dataflows", flow),
        Err(MessageError::Urn {
            source: UrnError::NotPinned { .. },
            ..
        })
    ));
}

/// INV-88: what an artefact says of its own URN agrees with its parts.
#[test]
fn a_wrong_self_link_is_refused() {
    let other = "urn:sdmx:org.sdmx.infomodel.codelist.Codelist=AG:OTHER(1.0)";
    let codelist = format!(r#"{{"id":"C","agencyID":"AG","links":[{{"rel":"self","urn":"{other}"}}]}}"#);
    assert!(matches!(
        listed("codelists", &codelist),
        Err(MessageError::Disagree { .. })
    ));
    let inside = format!(r#"<s:Codelists><s:Codelist id="C" agencyID="AG" urn="{other}"/></s:Codelists>"#);
    assert!(matches!(wrapped(&inside), Err(MessageError::Disagree { .. })));
}

/// INV-88: one URN, one artefact; the same artefact again is fine.
#[test]
fn an_artefact_stands_once() {
    let one = r#"{"id":"C","agencyID":"AG","names":{"en":"one"}}"#;
    assert_eq!(
        listed("codelists", &format!("{one},{one}")).unwrap().structures.len(),
        1
    );
    let error = listed("codelists", &format!("{one},{}", one.replace("one", "two"))).unwrap_err();
    assert!(
        matches!(error, MessageError::Structure(StructureError::Twice { .. })),
        "{error}"
    );
}

/// INV-433: a list that lacks a parent is refused, and so are circles and ids twice.
#[test]
fn codelists_are_closed_under_parents() {
    let codes = |codes: &str| {
        let error = listed(
            "codelists",
            &format!(r#"{{"id":"C","agencyID":"AG","codes":[{codes}]}}"#),
        )
        .unwrap_err();
        let MessageError::Structure(error) = error else {
            panic!("{error}")
        };
        error
    };
    let error = codes(r#"{"id":"B","parent":"A"}"#);
    assert!(matches!(&error, StructureError::NoParent { id, parent, .. } if id == "B" && parent == "A"));
    assert!(error.to_string().starts_with("INV-433"));
    let error = codes(r#"{"id":"A","parent":"B"},{"id":"B","parent":"A"}"#);
    assert!(matches!(error, StructureError::ParentCycle { .. }));
    assert!(matches!(
        codes(r#"{"id":"A"},{"id":"A"}"#),
        StructureError::ItemTwice { .. }
    ));
    assert!(matches!(codes(r#"{"id":"A B"}"#), StructureError::BadId { .. }));
}

#[test]
fn data_structures_name_their_own_parts() {
    let structure = |parts: &str| {
        let parts = parts.replace(
            "CONCEPT",
            r#""conceptIdentity":"urn:sdmx:org.sdmx.infomodel.conceptscheme.Concept=AG:CS(1.0).A""#,
        );
        let artefact = format!(r#"{{"id":"D","agencyID":"AG","dataStructureComponents":{{{parts}}}}}"#);
        match listed("dataStructures", &artefact).unwrap_err() {
            MessageError::Structure(error) => error,
            error => panic!("{error}"),
        }
    };
    let error = structure(r#""groups":[{"id":"G","groupDimensions":["NO"]}]"#);
    assert!(
        matches!(error, StructureError::NoSuchPart { part: "dimension", .. }),
        "{error}"
    );
    for relation in [r#"{"dimensions":["NO"]}"#, r#"{"group":"NO"}"#] {
        let error = structure(&format!(
            r#""attributeList":{{"attributes":[{{CONCEPT,"attributeRelationship":{relation}}}]}}"#
        ));
        assert!(matches!(error, StructureError::NoSuchPart { .. }), "{error}");
    }
    let error = structure(
        r#""attributeList":{"attributes":[{CONCEPT,"measureRelationship":["NO"],"attributeRelationship":{"observation":{}}}]}"#,
    );
    assert!(
        matches!(error, StructureError::NoSuchPart { part: "measure", .. }),
        "{error}"
    );
    let error = structure(r#""dimensionList":{"dimensions":[{CONCEPT},{CONCEPT}]}"#);
    assert!(matches!(error, StructureError::ItemTwice { .. }), "{error}");
    let many = r#""localRepresentation":{"format":{},"maxOccurs":"unbounded"}"#;
    let error = structure(&format!(r#""dimensionList":{{"dimensions":[{{CONCEPT,{many}}}]}}"#));
    assert!(matches!(error, StructureError::NotInClass { .. }), "{error}");
    let coded = r#""localRepresentation":{"enumeration":"urn:sdmx:org.sdmx.infomodel.codelist.Codelist=AG:CL(1.0)"}"#;
    let error = structure(&format!(r#""dimensionList":{{"timeDimension":{{CONCEPT,{coded}}}}}"#));
    assert!(matches!(error, StructureError::NotInClass { .. }), "{error}");
    let error = structure(
        r#""dimensionList":{"dimensions":[{"id":"A","conceptIdentity":"urn:sdmx:org.sdmx.infomodel.codelist.Code=AG:CL(1.0).A"}]}"#,
    );
    assert!(
        matches!(
            error,
            StructureError::WrongTarget {
                expected: "Concept",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn ambiguous_values_are_refused() {
    let concept = "urn:sdmx:org.sdmx.infomodel.conceptscheme.Concept=AG:CS(1.0).A";
    let bad = |result: Result<Message, MessageError>| matches!(result, Err(MessageError::BadValue { .. }));
    let dimensions = |dimensions: &str| {
        let dimensions = dimensions.replace("CONCEPT", &format!(r#""conceptIdentity":"{concept}""#));
        let list = format!(r#"{{"dimensionList":{{"dimensions":[{dimensions}]}}}}"#);
        listed(
            "dataStructures",
            &format!(r#"{{"id":"D","agencyID":"AG","dataStructureComponents":{list}}}"#),
        )
    };
    assert!(bad(dimensions(
        r#"{"id":"A","position":1,CONCEPT},{"id":"B","position":1,CONCEPT}"#
    )));
    assert!(bad(dimensions(r#"{"id":"A","position":1,CONCEPT},{"id":"B",CONCEPT}"#)));
    assert!(bad(dimensions(
        r#"{"id":"A",CONCEPT,"localRepresentation":{"format":{"maxLength":-1}}}"#
    )));
    assert!(bad(dimensions(
        r#"{"id":"A",CONCEPT,"localRepresentation":{"format":{"maxValue":"INF"}}}"#
    )));
    assert!(bad(dimensions(
        r#"{"id":"A",CONCEPT,"localRepresentation":{"format":{},"enumeration":"urn:sdmx:org.sdmx.infomodel.codelist.Codelist=AG:CL(1.0)"}}"#
    )));
    // A name without a language, and one that no language has.
    assert!(bad(listed("codelists", r#"{"id":"C","agencyID":"AG","name":"x"}"#)));
    assert!(bad(listed(
        "codelists",
        r#"{"id":"C","agencyID":"AG","name":"x","names":{"en":"y"}}"#
    )));
    let one = r#"{"meta":{"contentLanguages":["FR"]},"data":{"codelists":[{"id":"C","agencyID":"AG","name":"x"}]}}"#;
    let message = json(one).unwrap();
    let header = message.structures.iter().next().unwrap().header();
    assert_eq!(header.name.iter().next().map(|(tag, _)| tag.as_str()), Some("fr"));
    // More than the one region that is kept, and one that leaves out.
    let constraint = |regions: &str| {
        listed(
            "dataConstraints",
            &format!(r#"{{"id":"C","agencyID":"AG","role":"Allowed","cubeRegions":[{regions}]}}"#),
        )
    };
    assert!(bad(constraint("{},{}")));
    assert!(bad(constraint(r#"{"include":false}"#)));
    assert!(bad(constraint(r#"{"keyValues":[{"id":"A","removePrefix":true}]}"#)));
    assert!(bad(constraint(r#"{"keyValues":[{"id":"A","timeRange":{}}]}"#)));
}

/// INV-112: language tags are normalised at import, whatever their case; two texts for one language are refused.
#[test]
fn language_tags_are_normalised_at_import() {
    let message = listed("codelists", r#"{"id":"C","agencyID":"AG","names":{"FR-ca":"x"}}"#).unwrap();
    let header = message.structures.iter().next().unwrap().header();
    assert_eq!(header.name.iter().next().map(|(tag, _)| tag.as_str()), Some("fr-CA"));
    let error = listed("codelists", r#"{"id":"C","agencyID":"AG","names":{"FR":"x","fr":"y"}}"#).unwrap_err();
    assert!(
        matches!(
            error,
            MessageError::Language {
                source: LanguageError::Twice { .. },
                ..
            }
        ),
        "{error}"
    );
    let error = listed("codelists", r#"{"id":"C","agencyID":"AG","names":{"fr_CA":"x"}}"#).unwrap_err();
    assert!(
        matches!(
            error,
            MessageError::Language {
                source: LanguageError::Malformed { .. },
                ..
            }
        ),
        "{error}"
    );
}

/// INV-80: an instant without an offset from UTC is refused.
#[test]
fn naive_instants_are_refused() {
    for text in ["2024-01-31T00:00:00", "2024-01-31", "2024", "yesterday"] {
        let codelist = format!(r#"{{"id":"C","agencyID":"AG","validFrom":"{text}"}}"#);
        let error = listed("codelists", &codelist).unwrap_err();
        assert!(
            matches!(error, MessageError::BadValue { .. }) && error.to_string().contains("INV-80"),
            "{error}"
        );
        let inside = format!(r#"<s:Codelists><s:Codelist id="C" agencyID="AG" validTo="{text}"/></s:Codelists>"#);
        assert!(matches!(wrapped(&inside), Err(MessageError::BadValue { .. })), "{text}");
    }
}

/// Replaces, inserts or removes bytes of a sample.
fn mutated(sample: &[u8], edits: &[(usize, u8, u8)]) -> Vec<u8> {
    let mut bytes = sample.to_vec();
    for &(at, kind, byte) in edits {
        let at = at % bytes.len();
        match kind % 4 {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            2 => drop(bytes.drain(at..(at + usize::from(byte)).min(bytes.len()))),
            _ => {
                let end = (at + usize::from(byte)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
        }
        if bytes.is_empty() {
            return bytes;
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// No bytes make a reader panic, and what it takes has a text that is JSON.
    #[test]
    fn mutated_messages_are_read_or_refused(edits in prop::collection::vec((any::<usize>(), any::<u8>(), any::<u8>()), 1..5)) {
        for result in [read_json(&mutated(JSON, &edits), Limits::default()), read_xml(&mutated(XML, &edits), Limits::default())] {
            for artefact in result.iter().flat_map(|message| message.structures.iter()) {
                let text = CanonicalText::of(artefact);
                prop_assert!(serde_json::from_str::<serde_json::Value>(text.as_str()).is_ok());
            }
        }
    }

    /// No bytes at all make a reader panic.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_json(&bytes, Limits::default());
        let _ = read_xml(&bytes, Limits::default());
    }
}
