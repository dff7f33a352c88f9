//! SDMX-ML 2.1 structure messages.

use super::{
    Limits, Message, MessageError, bad, by_position, cascade, instant,
    xml_tree::{Element, Space},
};
use crate::structure::{
    language::{LanguageTag, LocalisedText},
    model::{
        AgencyScheme, Annotation, Artefact, Attachment, Attribute, Bound, Cascade, Codelist, Coding, Component,
        Concept, ConceptScheme, ConstraintRole, CubeRegion, DataConstraint, DataStructure, Dataflow, Descriptor, Facet,
        Group, Header, IsoConceptReference, Item, Measure, Representation, SelectedValue, Selection, TimeRange, Usage,
    },
    urn::{ArtefactUrn, Class, Urn},
};

type Result<T> = std::result::Result<T, MessageError>;

const EXPECTED: &str = "SDMX-ML 2.1 structure message";

#[derive(Default)]
struct Reader {
    contacts: usize,
}

/// Reads an SDMX-ML 2.1 structure message.
pub fn read_xml(bytes: &[u8], limits: Limits) -> Result<Message> {
    let mut root = Element::parse(bytes, limits)?;
    if (root.space, root.name.as_str()) != (Space::Message, "Structure") {
        let found = format!(
            "its root element is `{}` in the namespace class {:?}",
            root.name, root.space
        );
        return Err(MessageError::WrongMessage {
            expected: EXPECTED,
            found,
        });
    }
    let mut message = Message::default();
    let mut reader = Reader::default();
    let Some(structures) = root.child(Space::Message, "Structures")? else {
        return Ok(message);
    };
    for group in structures.into_children() {
        for mut artefact in group.into_children() {
            artefact.place = artefact.name.clone();
            match (artefact.space, artefact_reader(&artefact.name)) {
                (Space::Structure, Some(read)) => message.structures.insert(read(&mut reader, artefact)?)?,
                _ => *message.left_out.entry(artefact.name).or_default() += 1,
            }
        }
    }
    if reader.contacts > 0 {
        message.left_out.insert("contacts".to_owned(), reader.contacts);
    }
    Ok(message)
}

fn artefact_reader(name: &str) -> Option<fn(&mut Reader, Element) -> Result<Artefact>> {
    Some(match name {
        "AgencyScheme" => Reader::agency_scheme,
        "Codelist" => Reader::codelist,
        "ConceptScheme" => Reader::concept_scheme,
        "ContentConstraint" => Reader::content_constraint,
        "DataStructure" => Reader::data_structure,
        "Dataflow" => Reader::dataflow,
        _ => return None,
    })
}

/// The reference an element holds: a `Ref` by parts, or a `URN`. The class defaults to what the place takes, the version
/// to the schema's `1.0`.
fn reference(mut element: Element, class: Class) -> Result<Urn> {
    let at = |place: &str, source| MessageError::Urn {
        place: place.to_owned(),
        source,
    };
    let text = element.child(Space::None, "URN")?.map(Element::into_text).transpose()?;
    let parts = element.child(Space::None, "Ref")?;
    let place = element.place.clone();
    element.finish()?;
    let stated = text
        .map(|text| Urn::parse(text.trim()).map_err(|source| at(&place, source)))
        .transpose()?;
    let Some(mut parts) = parts else {
        return stated.ok_or(MessageError::Missing { place, what: "Ref" });
    };
    let name = parts.attribute("class").unwrap_or_else(|| class.name().to_owned());
    let package = parts.attribute("package").unwrap_or_else(|| class.package().to_owned());
    let agency = parts.needed("agencyID")?;
    let id = parts.needed("id")?;
    let text = match parts.attribute("maintainableParentID") {
        None => {
            let version = parts.attribute("version").unwrap_or_else(|| "1.0".to_owned());
            format!("urn:sdmx:org.sdmx.infomodel.{package}.{name}={agency}:{id}({version})")
        }
        Some(parent) => {
            let version = parts
                .attribute("maintainableParentVersion")
                .unwrap_or_else(|| "1.0".to_owned());
            let path = match parts.attribute("containerID") {
                None => id,
                Some(container) => format!("{container}.{id}"),
            };
            format!("urn:sdmx:org.sdmx.infomodel.{package}.{name}={agency}:{parent}({version}).{path}")
        }
    };
    parts.attribute("local"); // repeats what the class says
    parts.finish()?;
    let urn = Urn::parse(&text).map_err(|source| at(&place, source))?;
    match stated {
        Some(stated) if stated.target() != urn.target() || stated.version() != urn.version() => {
            Err(MessageError::Disagree {
                place,
                what: "the reference",
                first: urn.to_string(),
                second: stated.to_string(),
            })
        }
        _ => Ok(urn),
    }
}

/// The id a reference inside one artefact holds.
fn local_reference(mut element: Element) -> Result<String> {
    let mut parts = element.needed_child(Space::None, "Ref")?;
    element.finish()?;
    let id = parts.needed("id")?;
    for repeated in ["class", "package", "local"] {
        parts.attribute(repeated);
    }
    parts.finish()?;
    Ok(id)
}

impl Reader {
    fn localised(&self, element: &mut Element, name: &str) -> Result<LocalisedText> {
        let mut text = LocalisedText::default();
        for mut child in element.children(Space::Common, name) {
            let at = |source| MessageError::Language {
                place: element.place.clone(),
                source,
            };
            // The schema's default.
            let tag = child
                .attribute_in(Space::Xml, "lang")
                .unwrap_or_else(|| "en".to_owned());
            let tag = LanguageTag::parse(&tag).map_err(at)?;
            text.insert(tag, child.into_text()?).map_err(at)?;
        }
        Ok(text)
    }

    fn annotations(&self, element: &mut Element) -> Result<Vec<Annotation>> {
        let Some(mut list) = element.child(Space::Common, "Annotations")? else {
            return Ok(Vec::new());
        };
        let mut annotations = Vec::new();
        for mut element in list.children(Space::Common, "Annotation") {
            let mut text = |name: &str| element.child(Space::Common, name)?.map(Element::into_text).transpose();
            let (title, kind, url) = (
                text("AnnotationTitle")?,
                text("AnnotationType")?,
                text("AnnotationURL")?,
            );
            annotations.push(Annotation {
                id: element.attribute("id"),
                title,
                kind,
                value: None,
                text: self.localised(&mut element, "AnnotationText")?,
                urls: url.into_iter().collect(),
            });
            element.finish()?;
        }
        list.finish()?;
        Ok(annotations)
    }

    fn header(&self, element: &mut Element, class: Class) -> Result<Header> {
        let agency = element.needed("agencyID")?;
        let id = element.needed("id")?;
        let version = element.attribute("version").unwrap_or_else(|| "1.0".to_owned());
        let at = |source| MessageError::Urn {
            place: element.place.clone(),
            source,
        };
        let urn = ArtefactUrn::new(class, &agency, &id, &version).map_err(at)?;
        element.place = urn.to_string();
        if let Some(text) = element.attribute("urn") {
            let stated = ArtefactUrn::parse(&text).map_err(|source| MessageError::Urn {
                place: element.place.clone(),
                source,
            })?;
            if stated != urn {
                return Err(MessageError::Disagree {
                    place: element.place.clone(),
                    what: "the artefact and its `urn`",
                    first: urn.to_string(),
                    second: text,
                });
            }
        }
        let mut header = Header::new(urn);
        header.annotations = self.annotations(element)?;
        header.name = self.localised(element, "Name")?;
        header.description = self.localised(element, "Description")?;
        header.uri = element.attribute("uri");
        header.structure_url = element.attribute("structureURL");
        header.service_url = element.attribute("serviceURL");
        header.is_external_reference = element.boolean("isExternalReference")?.unwrap_or(false);
        header.legacy_is_final = element.boolean("isFinal")?;
        let mut instant_of = |name: &str| {
            element
                .attribute(name)
                .map(|text| instant(&element.place, name, &text))
                .transpose()
        };
        header.valid_from = instant_of("validFrom")?;
        header.valid_to = instant_of("validTo")?;
        Ok(header)
    }

    fn item(&self, element: &mut Element) -> Result<Item> {
        element.attribute("urn"); // follows from the artefact and the id
        Ok(Item {
            id: element.needed("id")?,
            parent: element
                .child(Space::Structure, "Parent")?
                .map(local_reference)
                .transpose()?,
            name: self.localised(element, "Name")?,
            description: self.localised(element, "Description")?,
            annotations: self.annotations(element)?,
            links: Vec::new(),
            uri: element.attribute("uri"),
        })
    }

    fn agency_scheme(&mut self, mut element: Element) -> Result<Artefact> {
        let header = self.header(&mut element, Class::AgencyScheme)?;
        let is_partial = element.boolean("isPartial")?.unwrap_or(false);
        let mut agencies = Vec::new();
        for mut agency in element.children(Space::Structure, "Agency") {
            self.contacts += agency.children(Space::Structure, "Contact").len();
            agencies.push(self.item(&mut agency)?);
            agency.finish()?;
        }
        element.finish()?;
        Ok(Artefact::AgencyScheme(AgencyScheme {
            header,
            is_partial,
            agencies,
        }))
    }

    fn codelist(&mut self, mut element: Element) -> Result<Artefact> {
        let header = self.header(&mut element, Class::Codelist)?;
        let is_partial = element.boolean("isPartial")?.unwrap_or(false);
        let mut codes = Vec::new();
        for mut code in element.children(Space::Structure, "Code") {
            codes.push(self.item(&mut code)?);
            code.finish()?;
        }
        element.finish()?;
        Ok(Artefact::Codelist(Codelist {
            header,
            is_partial,
            codes,
            extensions: Vec::new(),
        }))
    }

    fn concept_scheme(&mut self, mut element: Element) -> Result<Artefact> {
        let header = self.header(&mut element, Class::ConceptScheme)?;
        let is_partial = element.boolean("isPartial")?.unwrap_or(false);
        let mut concepts = Vec::new();
        for mut element in element.children(Space::Structure, "Concept") {
            let item = self.item(&mut element)?;
            let core = self.coding(&mut element, "CoreRepresentation", "String", Class::Codelist)?;
            let iso_concept_reference = match element.child(Space::Structure, "ISOConceptReference")? {
                None => None,
                Some(mut iso) => {
                    let mut text = |name: &str| iso.child(Space::Structure, name)?.map(Element::into_text).transpose();
                    let reference = IsoConceptReference {
                        agency: text("ConceptAgency")?,
                        scheme: text("ConceptSchemeID")?,
                        concept: text("ConceptID")?,
                    };
                    iso.finish()?;
                    Some(reference)
                }
            };
            element.finish()?;
            concepts.push(Concept {
                item,
                core,
                iso_concept_reference,
            });
        }
        element.finish()?;
        Ok(Artefact::ConceptScheme(ConceptScheme {
            header,
            is_partial,
            concepts,
        }))
    }

    fn coding(&self, element: &mut Element, name: &str, default_type: &str, enumerated_by: Class) -> Result<Coding> {
        let mut coding = Coding::default();
        let Some(mut element) = element.child(Space::Structure, name)? else {
            return Ok(coding);
        };
        let format = self.facet(&mut element, "TextFormat", default_type)?;
        coding.enumeration_format = self.facet(&mut element, "EnumerationFormat", default_type)?;
        let codelist = element.child(Space::Structure, "Enumeration")?;
        let codelist = codelist
            .map(|codelist| reference(codelist, enumerated_by))
            .transpose()?;
        coding.representation = match (codelist, format) {
            (Some(_), Some(_)) => return Err(bad(&element.place, "TextFormat", "", "there is an enumeration too")),
            (Some(codelist), None) => Some(Representation::Enumeration(codelist)),
            (None, format) => format.map(Representation::Facet),
        };
        element.finish()?;
        Ok(coding)
    }

    fn facet(&self, element: &mut Element, name: &str, default_type: &str) -> Result<Option<Facet>> {
        let Some(mut element) = element.child(Space::Structure, name)? else {
            return Ok(None);
        };
        let facet = Facet {
            data_type: Some(element.attribute("textType").unwrap_or_else(|| default_type.to_owned())),
            is_sequence: element.boolean("isSequence")?,
            is_multilingual: element.boolean("isMultiLingual")?.unwrap_or(false),
            interval: element.decimal("interval")?,
            start_value: element.decimal("startValue")?,
            end_value: element.decimal("endValue")?,
            time_interval: element.attribute("timeInterval"),
            start_time: element.attribute("startTime"),
            end_time: element.attribute("endTime"),
            min_length: element.number("minLength")?,
            max_length: element.number("maxLength")?,
            min_value: element.decimal("minValue")?,
            max_value: element.decimal("maxValue")?,
            decimals: element.number("decimals")?,
            pattern: element.attribute("pattern"),
            sentinel_values: Vec::new(),
        };
        element.finish()?;
        Ok(Some(facet))
    }

    fn component(&self, element: &mut Element, default_type: &str, enumerated_by: Class) -> Result<Component> {
        let concept = reference(
            element.needed_child(Space::Structure, "ConceptIdentity")?,
            Class::Concept,
        )?;
        let id = element
            .attribute("id")
            .or_else(|| concept.path().map(ToOwned::to_owned));
        element.attribute("urn"); // follows from the structure and the id
        let roles = element.children(Space::Structure, "ConceptRole");
        Ok(Component {
            id: id.ok_or_else(|| MessageError::Missing {
                place: element.place.clone(),
                what: "id",
            })?,
            concept,
            concept_role: roles
                .into_iter()
                .map(|role| reference(role, Class::Concept))
                .collect::<Result<_>>()?,
            local: self.coding(element, "LocalRepresentation", default_type, enumerated_by)?,
            annotations: self.annotations(element)?,
            links: Vec::new(),
            uri: element.attribute("uri"),
        })
    }

    fn descriptor(&self, element: &mut Element) -> Result<Descriptor> {
        for repeated in ["id", "urn"] {
            element.attribute(repeated); // fixed by the standard
        }
        let uri = element.attribute("uri");
        Ok(Descriptor {
            annotations: self.annotations(element)?,
            links: Vec::new(),
            uri,
        })
    }

    fn data_structure(&mut self, mut element: Element) -> Result<Artefact> {
        let header = self.header(&mut element, Class::DataStructure)?;
        let place = element.place.clone();
        let mut parts = element.needed_child(Space::Structure, "DataStructureComponents")?;
        element.finish()?;
        let mut structure = DataStructure {
            header,
            evolving_structure: false,
            dimensions: Vec::new(),
            measure_dimension: None,
            time_dimension: None,
            measures: Vec::new(),
            attributes: Vec::new(),
            groups: Vec::new(),
            dimension_descriptor: Descriptor::default(),
            measure_descriptor: Descriptor::default(),
            attribute_descriptor: Descriptor::default(),
        };
        if let Some(mut list) = parts.child(Space::Structure, "DimensionList")? {
            structure.dimension_descriptor = self.descriptor(&mut list)?;
            let mut dimensions = Vec::new();
            for mut element in list.children(Space::Structure, "Dimension") {
                let position = element.number("position")?;
                element.attribute("type"); // repeats the element's name
                dimensions.push((position, self.component(&mut element, "String", Class::Codelist)?));
                element.finish()?;
            }
            structure.dimensions = by_position(&place, dimensions)?;
            let mut single = |name, default_type, enumerated_by| match list.child(Space::Structure, name)? {
                None => Ok(None),
                Some(mut element) => {
                    element.attribute("position"); // after the other dimensions
                    element.attribute("type");
                    let component = self.component(&mut element, default_type, enumerated_by)?;
                    element.finish()?;
                    Ok::<_, MessageError>(Some(component))
                }
            };
            structure.measure_dimension = single("MeasureDimension", "String", Class::ConceptScheme)?;
            structure.time_dimension = single("TimeDimension", "ObservationalTimePeriod", Class::Codelist)?;
            list.finish()?;
        }
        for mut element in parts.children(Space::Structure, "Group") {
            element.attribute("urn");
            let id = element.needed("id")?;
            let mut dimensions = Vec::new();
            for mut element in element.children(Space::Structure, "GroupDimension") {
                dimensions.push(local_reference(
                    element.needed_child(Space::Structure, "DimensionReference")?,
                )?);
                element.finish()?;
            }
            let annotations = self.annotations(&mut element)?;
            structure.groups.push(Group {
                id,
                dimensions,
                annotations,
                links: Vec::new(),
                uri: element.attribute("uri"),
            });
            element.finish()?;
        }
        if let Some(mut list) = parts.child(Space::Structure, "AttributeList")? {
            structure.attribute_descriptor = self.descriptor(&mut list)?;
            for element in list.children(Space::Structure, "Attribute") {
                structure.attributes.push(self.attribute(element)?);
            }
            list.finish()?;
        }
        if let Some(mut list) = parts.child(Space::Structure, "MeasureList")? {
            structure.measure_descriptor = self.descriptor(&mut list)?;
            for mut element in list.children(Space::Structure, "PrimaryMeasure") {
                let component = self.component(&mut element, "String", Class::Codelist)?;
                element.finish()?;
                structure.measures.push(Measure {
                    component,
                    usage: Usage::Optional,
                });
            }
            list.finish()?;
        }
        parts.finish()?;
        Ok(Artefact::DataStructure(structure))
    }

    fn attribute(&self, mut element: Element) -> Result<Attribute> {
        let component = self.component(&mut element, "String", Class::Codelist)?;
        let usage = match element.attribute("assignmentStatus").as_deref() {
            Some("Mandatory") => Usage::Mandatory,
            Some("Conditional") | None => Usage::Optional,
            Some(other) => {
                return Err(bad(
                    &element.place,
                    "assignmentStatus",
                    other,
                    "it is `Mandatory` or `Conditional`",
                ));
            }
        };
        let mut relation = element.needed_child(Space::Structure, "AttributeRelationship")?;
        element.finish()?;
        let local = |elements: Vec<Element>| elements.into_iter().map(local_reference).collect::<Result<Vec<_>>>();
        let attachment_groups = local(relation.children(Space::Structure, "AttachmentGroup"))?;
        let dimensions = local(relation.children(Space::Structure, "Dimension"))?;
        let mut stated = Vec::new();
        if let Some(none) = relation.child(Space::Structure, "None")? {
            none.finish()?;
            stated.push(Attachment::Dataflow);
        }
        if let Some(group) = relation.child(Space::Structure, "Group")? {
            stated.push(Attachment::Group(local_reference(group)?));
        }
        if let Some(measure) = relation.child(Space::Structure, "PrimaryMeasure")? {
            local_reference(measure)?; // there is one measure, and the attribute is about its observations
            stated.push(Attachment::Observation);
        }
        if !dimensions.is_empty() {
            stated.push(Attachment::Dimensions {
                related: dimensions,
                optional: Vec::new(),
            });
        }
        let place = relation.place.clone();
        relation.finish()?;
        match (stated.pop(), stated.pop()) {
            (Some(attachment), None) => Ok(Attribute {
                component,
                usage,
                attachment,
                attachment_groups,
                related_measures: None,
            }),
            _ => Err(bad(
                &place,
                "AttributeRelationship",
                "",
                "it names one of None, Dimension, Group and PrimaryMeasure",
            )),
        }
    }

    fn dataflow(&mut self, mut element: Element) -> Result<Artefact> {
        let header = self.header(&mut element, Class::Dataflow)?;
        let structure = reference(
            element.needed_child(Space::Structure, "Structure")?,
            Class::DataStructure,
        )?;
        element.finish()?;
        Ok(Artefact::Dataflow(Dataflow {
            header,
            structure,
            dimension_constraint: Vec::new(),
        }))
    }

    fn content_constraint(&mut self, mut element: Element) -> Result<Artefact> {
        let header = self.header(&mut element, Class::DataConstraint)?;
        let role = match element.attribute("type").as_deref() {
            Some("Allowed") => ConstraintRole::Allowed,
            Some("Actual") | None => ConstraintRole::Actual,
            Some(other) => return Err(bad(&element.place, "type", other, "it is `Allowed` or `Actual`")),
        };
        let mut attachment = Vec::new();
        if let Some(mut element) = element.child(Space::Structure, "ConstraintAttachment")? {
            for (name, class) in [("Dataflow", Class::Dataflow), ("DataStructure", Class::DataStructure)] {
                for element in element.children(Space::Structure, name) {
                    attachment.push(reference(element, class)?);
                }
            }
            element.finish()?;
        }
        let region = match element.child(Space::Structure, "CubeRegion")? {
            None => None,
            Some(mut element) => {
                if element.boolean("include")? == Some(false) {
                    return Err(bad(
                        &element.place,
                        "include",
                        "false",
                        "only a region that is included is kept",
                    ));
                }
                let annotations = self.annotations(&mut element)?;
                let keys = self.selections(&mut element, "KeyValue")?;
                let components = self.selections(&mut element, "Attribute")?;
                element.finish()?;
                Some(CubeRegion {
                    annotations,
                    keys,
                    components,
                })
            }
        };
        element.finish()?;
        Ok(Artefact::DataConstraint(DataConstraint {
            header,
            role,
            attachment,
            region,
        }))
    }

    fn selections(&self, element: &mut Element, name: &str) -> Result<Vec<Selection>> {
        let mut selections = Vec::new();
        for mut element in element.children(Space::Common, name) {
            let mut values = Vec::new();
            for mut value in element.children(Space::Common, "Value") {
                let cascading = value.attribute("cascadeValues");
                let cascade = cascading.map(|text| match text.as_str() {
                    "1" => Ok(Cascade::Descendants),
                    "0" => Ok(Cascade::None),
                    text => cascade(&element.place, "cascadeValues", text),
                });
                let cascade = cascade.transpose()?.unwrap_or(Cascade::None);
                values.push(SelectedValue {
                    value: value.into_text()?,
                    cascade,
                });
            }
            let time_range = element
                .child(Space::Common, "TimeRange")?
                .map(|range| self.time_range(range))
                .transpose()?;
            let include = element.boolean("include")?.unwrap_or(true);
            selections.push(Selection {
                id: element.needed("id")?,
                include,
                values,
                time_range,
            });
            element.finish()?;
        }
        Ok(selections)
    }

    fn time_range(&self, mut element: Element) -> Result<TimeRange> {
        let mut bound = |name: &str| -> Result<Option<Bound>> {
            let Some(mut element) = element.child(Space::Common, name)? else {
                return Ok(None);
            };
            let is_inclusive = element.boolean("isInclusive")?.unwrap_or(true);
            Ok(Some(Bound {
                period: element.into_text()?,
                is_inclusive,
            }))
        };
        let bounds = (
            bound("BeforePeriod")?,
            bound("AfterPeriod")?,
            bound("StartPeriod")?,
            bound("EndPeriod")?,
        );
        let place = element.place.clone();
        element.finish()?;
        match bounds {
            (Some(before), None, None, None) => Ok(TimeRange::Before(before)),
            (None, Some(after), None, None) => Ok(TimeRange::After(after)),
            (None, None, Some(start), Some(end)) => Ok(TimeRange::Between(start, end)),
            _ => Err(bad(
                &place,
                "TimeRange",
                "",
                "it has a period before, one after, or a start and an end",
            )),
        }
    }
}
