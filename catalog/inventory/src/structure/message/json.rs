//! SDMX-JSON 2.0 structure messages.

use super::{
    Limits, Message, MessageError, bad, by_position, cascade, instant,
    json_tree::{Json, Node},
    occurs,
};
use crate::structure::{
    language::{LanguageTag, LocalisedText},
    model::{
        AgencyScheme, Annotation, Artefact, Attachment, Attribute, Bound, Cascade, CodeSelection, Codelist,
        CodelistExtension, Coding, Component, Concept, ConceptScheme, ConstraintRole, CubeRegion, DataConstraint,
        DataStructure, Dataflow, Descriptor, Facet, Group, Header, HierarchicalCode, Hierarchy, HierarchyAssociation,
        IsoConceptReference, Item, Link, Measure, Representation, SelectedValue, Selection, SentinelValue, TimeRange,
        Usage,
    },
    urn::{ArtefactUrn, Class},
};

const EXPECTED: &str = "SDMX-JSON 2.0 structure message";

/// What a reading needs to know everywhere.
#[derive(Default)]
struct Reader {
    /// The language of texts that don't say theirs, when the message has one language only.
    language: Option<String>,
    contacts: usize,
}

type Result<T> = std::result::Result<T, MessageError>;

/// Reads an SDMX-JSON 2.0 structure message.
pub fn read_json(bytes: &[u8], limits: Limits) -> Result<Message> {
    let mut root = Node::of("message", Json::parse(bytes, limits)?)?;
    let mut reader = Reader::default();
    if let Some(mut meta) = root.object("meta")? {
        if let Some(schema) = meta.text("schema")?
            && !(schema.contains("structure") && schema.contains("/2."))
        {
            return Err(MessageError::WrongMessage {
                expected: EXPECTED,
                found: format!("its schema is `{schema}`"),
            });
        }
        let mut languages = meta.texts("contentLanguages")?;
        if languages.len() == 1 {
            reader.language = languages.pop();
        }
    }
    let Some(data) = root.object("data")? else {
        return Err(MessageError::WrongMessage {
            expected: EXPECTED,
            found: "it has no `data`".to_owned(),
        });
    };
    let mut message = Message::default();
    for (key, value) in data.into_fields() {
        let place = format!("data.{key}");
        let members = match value {
            Json::Null => continue,
            Json::List(members) => members,
            _ => return Err(bad(&place, "value", &key, "it is a list of artefacts")),
        };
        let Some(read) = artefact_reader(&key) else {
            *message.left_out.entry(key).or_default() += members.len();
            continue;
        };
        for (index, member) in members.into_iter().enumerate() {
            let artefact = read(&mut reader, Node::of(format!("{place}[{index}]"), member)?)?;
            message.structures.insert(artefact)?;
        }
    }
    if reader.contacts > 0 {
        message.left_out.insert("contacts".to_owned(), reader.contacts);
    }
    Ok(message)
}

fn artefact_reader(key: &str) -> Option<fn(&mut Reader, Node) -> Result<Artefact>> {
    Some(match key {
        "agencySchemes" => Reader::agency_scheme,
        "codelists" => Reader::codelist,
        "conceptSchemes" => Reader::concept_scheme,
        "dataConstraints" => Reader::data_constraint,
        "dataStructures" => Reader::data_structure,
        "dataflows" => Reader::dataflow,
        "hierarchies" => Reader::hierarchy,
        "hierarchyAssociations" => Reader::hierarchy_association,
        _ => return None,
    })
}

impl Reader {
    /// `names` says it by language; `name` is the best match of them, and the only one of some messages.
    fn localised(&self, node: &mut Node, one: &str, all: &str) -> Result<LocalisedText> {
        let mut text = LocalisedText::default();
        let best = node.text(one)?;
        match node.object(all)? {
            Some(texts) => {
                let place = texts.place.clone();
                for (tag, value) in texts.into_fields() {
                    let Json::Text(value) = value else {
                        return Err(bad(&place, &tag, "", "it is a text"));
                    };
                    let at = |source| MessageError::Language {
                        place: place.clone(),
                        source,
                    };
                    text.insert(LanguageTag::parse(&tag).map_err(at)?, value).map_err(at)?;
                }
                if let Some(best) = best
                    && !text.iter().any(|(_, value)| value == best)
                {
                    return Err(bad(&node.place, one, &best, format!("none of `{all}` says that")));
                }
            }
            None => {
                if let Some(best) = best {
                    let Some(language) = &self.language else {
                        let why = format!(
                            "`{all}` is missing, and the message doesn't name one language in `contentLanguages`"
                        );
                        return Err(bad(&node.place, one, &best, why));
                    };
                    let fail = |source| MessageError::Language {
                        place: node.place.clone(),
                        source,
                    };
                    let tag = LanguageTag::parse(language).map_err(fail)?;
                    text.insert(tag, best).map_err(fail)?;
                }
            }
        }
        Ok(text)
    }

    fn annotations(&self, node: &mut Node) -> Result<Vec<Annotation>> {
        let nodes = node.objects("annotations")?;
        nodes
            .into_iter()
            .map(|mut node| {
                let mut urls = Vec::new();
                for mut link in node.objects("links")? {
                    urls.push(link.needed("href")?);
                    for key in ["rel", "type", "title", "titles", "hreflang"] {
                        link.ignore(key);
                    }
                    link.finish()?;
                }
                let annotation = Annotation {
                    id: node.text("id")?,
                    title: node.text("title")?,
                    kind: node.text("type")?,
                    value: node.text("value")?,
                    text: self.localised(&mut node, "text", "texts")?,
                    urls,
                };
                node.finish()?;
                Ok(annotation)
            })
            .collect()
    }

    /// Links, and the URN and URI of the link to itself.
    fn links(&self, node: &mut Node) -> Result<(Vec<Link>, Option<Link>)> {
        let mut links = Vec::new();
        let mut own = None;
        for mut node in node.objects("links")? {
            let titles = self.localised(&mut node, "title", "titles")?;
            let link = Link {
                rel: node.text("rel")?,
                href: node.text("href")?,
                urn: node.text("urn")?,
                uri: node.text("uri")?,
                title: titles.iter().next().map(|(_, title)| title.to_owned()),
                media_type: node.text("type")?,
                language: node.text("hreflang")?,
            };
            node.finish()?;
            if link.rel.as_deref() == Some("self") {
                own = Some(link);
            } else {
                links.push(link);
            }
        }
        Ok((links, own))
    }

    fn header(&self, node: &mut Node, class: Class) -> Result<Header> {
        let id = match class {
            Class::AgencyScheme => node.text("id")?.unwrap_or_else(|| "AGENCIES".to_owned()),
            _ => node.needed("id")?,
        };
        let agency = node.needed("agencyID")?;
        let version = node.text("version")?.unwrap_or_else(|| "1.0".to_owned());
        let at = |source| MessageError::Urn {
            place: node.place.clone(),
            source,
        };
        let urn = ArtefactUrn::new(class, &agency, &id, &version).map_err(at)?;
        node.place = urn.to_string();
        let mut header = Header::new(urn);
        header.name = self.localised(node, "name", "names")?;
        header.description = self.localised(node, "description", "descriptions")?;
        header.annotations = self.annotations(node)?;
        let (links, own) = self.links(node)?;
        header.links = links;
        if let Some(own) = own {
            if let Some(text) = own.urn {
                let stated = ArtefactUrn::parse(&text).map_err(|source| MessageError::Urn {
                    place: node.place.clone(),
                    source,
                })?;
                if stated != header.urn {
                    return Err(MessageError::Disagree {
                        place: node.place.clone(),
                        what: "the artefact and its link to itself",
                        first: header.urn.to_string(),
                        second: text,
                    });
                }
            }
            header.uri = own.uri;
            header.structure_url = own.href;
        }
        header.is_external_reference = node.boolean("isExternalReference")?.unwrap_or(false);
        header.is_partial_language = node.boolean("isPartialLanguage")?.unwrap_or(false);
        header.legacy_is_final = node.boolean("isFinal")?;
        header.valid_from = self.instant(node, "validFrom")?;
        header.valid_to = self.instant(node, "validTo")?;
        Ok(header)
    }

    fn instant(&self, node: &mut Node, key: &str) -> Result<Option<chrono::DateTime<chrono::Utc>>> {
        node.text(key)?.map(|text| instant(&node.place, key, &text)).transpose()
    }

    fn item(&self, node: &mut Node) -> Result<Item> {
        let (links, own) = self.links(node)?;
        Ok(Item {
            id: node.needed("id")?,
            parent: node.text("parent")?,
            name: self.localised(node, "name", "names")?,
            description: self.localised(node, "description", "descriptions")?,
            annotations: self.annotations(node)?,
            links,
            uri: own.and_then(|own| own.uri),
        })
    }

    fn agency_scheme(&mut self, mut node: Node) -> Result<Artefact> {
        let header = self.header(&mut node, Class::AgencyScheme)?;
        let is_partial = node.boolean("isPartial")?.unwrap_or(false);
        let mut agencies = Vec::new();
        for mut agency in node.objects("agencies")? {
            self.contacts += agency.list("contacts")?.len();
            agencies.push(self.item(&mut agency)?);
            agency.finish()?;
        }
        node.finish()?;
        Ok(Artefact::AgencyScheme(AgencyScheme {
            header,
            is_partial,
            agencies,
        }))
    }

    fn codelist(&mut self, mut node: Node) -> Result<Artefact> {
        let header = self.header(&mut node, Class::Codelist)?;
        let is_partial = node.boolean("isPartial")?.unwrap_or(false);
        let mut codes = Vec::new();
        for mut code in node.objects("codes")? {
            codes.push(self.item(&mut code)?);
            code.finish()?;
        }
        let mut extensions = Vec::new();
        for mut extension in node.objects("codelistExtensions")? {
            let codelist = extension.urn("codelist")?;
            let prefix = extension.text("prefix")?;
            let include = self.code_selection(&mut extension, "inclusiveCodeSelection", true)?;
            let exclude = self.code_selection(&mut extension, "exclusiveCodeSelection", false)?;
            if include.is_some() && exclude.is_some() {
                return Err(bad(
                    &extension.place,
                    "exclusiveCodeSelection",
                    "",
                    "there is an inclusive one too",
                ));
            }
            extension.finish()?;
            extensions.push(CodelistExtension {
                codelist,
                prefix,
                selection: include.or(exclude),
            });
        }
        node.finish()?;
        Ok(Artefact::Codelist(Codelist {
            header,
            is_partial,
            codes,
            extensions,
        }))
    }

    fn code_selection(&self, node: &mut Node, key: &str, include: bool) -> Result<Option<CodeSelection>> {
        let Some(mut node) = node.object(key)? else {
            return Ok(None);
        };
        let mut values = self.selected(&mut node, "memberValues")?;
        let patterns = node.texts("wildcardedMemberValues")?;
        values.extend(patterns.into_iter().map(|value| SelectedValue {
            value,
            cascade: Cascade::None,
        }));
        node.finish()?;
        Ok(Some(CodeSelection { include, values }))
    }

    fn selected(&self, node: &mut Node, key: &str) -> Result<Vec<SelectedValue>> {
        let place = format!("{}.{key}", node.place);
        let members = node.list(key)?;
        members
            .into_iter()
            .map(|member| match member {
                Json::Text(value) => Ok(SelectedValue {
                    value,
                    cascade: Cascade::None,
                }),
                other => {
                    let mut node = Node::of(place.as_str(), other)?;
                    let value = node.needed("value")?;
                    let cascading = node.scalar("cascadeValues")?;
                    let cascade = cascading
                        .map(|text| cascade(&place, "cascadeValues", &text))
                        .transpose()?;
                    node.finish()?;
                    Ok(SelectedValue {
                        value,
                        cascade: cascade.unwrap_or(Cascade::None),
                    })
                }
            })
            .collect()
    }

    fn concept_scheme(&mut self, mut node: Node) -> Result<Artefact> {
        let header = self.header(&mut node, Class::ConceptScheme)?;
        let is_partial = node.boolean("isPartial")?.unwrap_or(false);
        let mut concepts = Vec::new();
        for mut node in node.objects("concepts")? {
            let item = self.item(&mut node)?;
            let core = self.coding(&mut node, "coreRepresentation", "String")?;
            let iso_concept_reference = match node.object("isoConceptReference")? {
                None => None,
                Some(mut iso) => {
                    let reference = IsoConceptReference {
                        agency: iso.text("conceptAgency")?,
                        scheme: iso.text("conceptSchemeID")?,
                        concept: iso.text("conceptID")?,
                    };
                    iso.finish()?;
                    Some(reference)
                }
            };
            node.finish()?;
            concepts.push(Concept {
                item,
                core,
                iso_concept_reference,
            });
        }
        node.finish()?;
        Ok(Artefact::ConceptScheme(ConceptScheme {
            header,
            is_partial,
            concepts,
        }))
    }

    fn coding(&self, node: &mut Node, key: &str, default_type: &str) -> Result<Coding> {
        let mut coding = Coding::default();
        let Some(mut node) = node.object(key)? else {
            return Ok(coding);
        };
        let format = self.facet(&mut node, "format", default_type)?;
        coding.enumeration_format = self.facet(&mut node, "enumerationFormat", default_type)?;
        let codelist = node.optional_urn("enumeration")?;
        coding.representation = match (codelist, format) {
            (Some(_), Some(_)) => return Err(bad(&node.place, "format", "", "there is an enumeration too")),
            (Some(codelist), None) => Some(Representation::Enumeration(codelist)),
            (None, format) => format.map(Representation::Facet),
        };
        if let Some(least) = node.number("minOccurs")? {
            coding.min_occurs = least;
        }
        if let Some(most) = node.scalar("maxOccurs")? {
            coding.max_occurs = occurs(&node.place, "maxOccurs", &most)?;
        }
        node.finish()?;
        Ok(coding)
    }

    fn facet(&self, node: &mut Node, key: &str, default_type: &str) -> Result<Option<Facet>> {
        let Some(mut node) = node.object(key)? else {
            return Ok(None);
        };
        let mut sentinel_values = Vec::new();
        for mut node in node.objects("sentinelValues")? {
            let value = node.scalar("value")?;
            let value = value.ok_or_else(|| MessageError::Missing {
                place: node.place.clone(),
                what: "value",
            })?;
            let name = self.localised(&mut node, "name", "names")?;
            let description = self.localised(&mut node, "description", "descriptions")?;
            node.finish()?;
            sentinel_values.push(SentinelValue {
                value,
                name,
                description,
            });
        }
        let facet = Facet {
            data_type: Some(node.text("dataType")?.unwrap_or_else(|| default_type.to_owned())),
            is_sequence: node.boolean("isSequence")?,
            is_multilingual: node.boolean("isMultiLingual")?.unwrap_or(false),
            interval: node.decimal("interval")?,
            start_value: node.decimal("startValue")?,
            end_value: node.decimal("endValue")?,
            time_interval: node.text("timeInterval")?,
            start_time: node.text("startTime")?,
            end_time: node.text("endTime")?,
            min_length: node.number("minLength")?,
            max_length: node.number("maxLength")?,
            min_value: node.decimal("minValue")?,
            max_value: node.decimal("maxValue")?,
            decimals: node.number("decimals")?,
            pattern: node.text("pattern")?,
            sentinel_values,
        };
        node.finish()?;
        Ok(Some(facet))
    }

    fn component(&self, node: &mut Node, default_type: &str) -> Result<Component> {
        let concept = node.urn("conceptIdentity")?;
        let id = node.text("id")?.or_else(|| concept.path().map(ToOwned::to_owned));
        let (links, own) = self.links(node)?;
        Ok(Component {
            id: id.ok_or_else(|| MessageError::Missing {
                place: node.place.clone(),
                what: "id",
            })?,
            concept,
            concept_role: node.urns("conceptRoles")?,
            local: self.coding(node, "localRepresentation", default_type)?,
            annotations: self.annotations(node)?,
            links,
            uri: own.and_then(|own| own.uri),
        })
    }

    fn descriptor(&self, node: &mut Node) -> Result<Descriptor> {
        let (links, own) = self.links(node)?;
        let annotations = self.annotations(node)?;
        node.ignore("id"); // fixed by the standard
        Ok(Descriptor {
            annotations,
            links,
            uri: own.and_then(|own| own.uri),
        })
    }

    fn usage(&self, node: &mut Node) -> Result<Usage> {
        match node.text("usage")?.as_deref() {
            None | Some("optional") => Ok(Usage::Optional),
            Some("mandatory") => Ok(Usage::Mandatory),
            Some(other) => Err(bad(&node.place, "usage", other, "it is `mandatory` or `optional`")),
        }
    }

    fn data_structure(&mut self, mut node: Node) -> Result<Artefact> {
        let header = self.header(&mut node, Class::DataStructure)?;
        let mut structure = DataStructure {
            header,
            evolving_structure: node.boolean("evolvingStructure")?.unwrap_or(false),
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
        let place = node.place.clone();
        let parts = node.object("dataStructureComponents")?;
        node.finish()?;
        let Some(mut parts) = parts else {
            return Err(MessageError::Missing {
                place,
                what: "dataStructureComponents",
            });
        };
        if let Some(mut list) = parts.object("dimensionList")? {
            structure.dimension_descriptor = self.descriptor(&mut list)?;
            let mut dimensions = Vec::new();
            for mut node in list.objects("dimensions")? {
                let position = node.number("position")?;
                node.ignore("type"); // repeats the list it stands in
                dimensions.push((position, self.component(&mut node, "String")?));
                node.finish()?;
            }
            structure.dimensions = by_position(&place, dimensions)?;
            if let Some(mut node) = list.object("timeDimension")? {
                node.ignore("position"); // time comes last
                node.ignore("type");
                structure.time_dimension = Some(self.component(&mut node, "ObservationalTimePeriod")?);
                node.finish()?;
            }
            list.finish()?;
        }
        if let Some(mut list) = parts.object("measureList")? {
            structure.measure_descriptor = self.descriptor(&mut list)?;
            for mut node in list.objects("measures")? {
                let measure = Measure {
                    usage: self.usage(&mut node)?,
                    component: self.component(&mut node, "String")?,
                };
                node.finish()?;
                structure.measures.push(measure);
            }
            list.finish()?;
        }
        if let Some(mut list) = parts.object("attributeList")? {
            structure.attribute_descriptor = self.descriptor(&mut list)?;
            for node in list.objects("attributes")? {
                structure.attributes.push(self.attribute(node)?);
            }
            list.finish()?;
        }
        for mut node in parts.objects("groups")? {
            let (links, own) = self.links(&mut node)?;
            structure.groups.push(Group {
                id: node.needed("id")?,
                dimensions: node.texts("groupDimensions")?,
                annotations: self.annotations(&mut node)?,
                links,
                uri: own.and_then(|own| own.uri),
            });
            node.finish()?;
        }
        parts.finish()?;
        Ok(Artefact::DataStructure(structure))
    }

    fn attribute(&self, mut node: Node) -> Result<Attribute> {
        let component = self.component(&mut node, "String")?;
        let usage = self.usage(&mut node)?;
        let related_measures = node.texts("measureRelationship")?;
        let Some(mut relation) = node.object("attributeRelationship")? else {
            return Err(MessageError::Missing {
                place: node.place,
                what: "attributeRelationship",
            });
        };
        let mut stated = Vec::new();
        for (key, attachment) in [
            ("observation", Attachment::Observation),
            ("dataflow", Attachment::Dataflow),
        ] {
            if let Some(empty) = relation.object(key)? {
                empty.finish()?;
                stated.push(attachment);
            }
        }
        if let Some(group) = relation.text("group")? {
            stated.push(Attachment::Group(group));
        }
        let related = relation.texts("dimensions")?;
        let optional = relation.list("areDimensionsOptional")?;
        if !related.is_empty() {
            if !optional.is_empty() && optional.len() != related.len() {
                let why = format!("`dimensions` has {} members", related.len());
                return Err(bad(
                    &relation.place,
                    "areDimensionsOptional",
                    &optional.len().to_string(),
                    why,
                ));
            }
            let mut left_out = Vec::new();
            for (dimension, optional) in related.iter().zip(optional) {
                match optional {
                    Json::Bool(true) => left_out.push(dimension.clone()),
                    Json::Bool(false) => {}
                    _ => {
                        return Err(bad(
                            &relation.place,
                            "areDimensionsOptional",
                            dimension,
                            "its members are truth values",
                        ));
                    }
                }
            }
            stated.push(Attachment::Dimensions {
                related,
                optional: left_out,
            });
        }
        let place = relation.place.clone();
        relation.finish()?;
        let (Some(attachment), None) = (stated.pop(), stated.pop()) else {
            return Err(bad(
                &place,
                "attributeRelationship",
                "",
                "it names one of observation, dataflow, group and dimensions",
            ));
        };
        node.finish()?;
        Ok(Attribute {
            component,
            usage,
            attachment,
            attachment_groups: Vec::new(),
            related_measures: (!related_measures.is_empty()).then_some(related_measures),
        })
    }

    fn dataflow(&mut self, mut node: Node) -> Result<Artefact> {
        let header = self.header(&mut node, Class::Dataflow)?;
        let structure = node.urn("structure")?;
        let dimension_constraint = node.texts("dimensionConstraint")?;
        node.finish()?;
        Ok(Artefact::Dataflow(Dataflow {
            header,
            structure,
            dimension_constraint,
        }))
    }

    fn data_constraint(&mut self, mut node: Node) -> Result<Artefact> {
        let header = self.header(&mut node, Class::DataConstraint)?;
        let role = match node.text("role")?.as_deref() {
            Some("Allowed") => ConstraintRole::Allowed,
            Some("Actual") => ConstraintRole::Actual,
            None => {
                return Err(MessageError::Missing {
                    place: node.place,
                    what: "role",
                });
            }
            Some(other) => return Err(bad(&node.place, "role", other, "it is `Allowed` or `Actual`")),
        };
        let mut attachment = Vec::new();
        if let Some(mut node) = node.object("constraintAttachment")? {
            attachment.extend(node.urns("dataflows")?);
            attachment.extend(node.urns("dataStructures")?);
            attachment.extend(node.urns("provisionAgreements")?);
            node.finish()?;
        }
        let mut regions = node.objects("cubeRegions")?;
        if regions.len() > 1 {
            return Err(bad(
                &node.place,
                "cubeRegions",
                &regions.len().to_string(),
                "one region at most is kept",
            ));
        }
        let region = match regions.pop() {
            None => None,
            Some(mut node) => {
                if node.boolean("include")? == Some(false) {
                    return Err(bad(
                        &node.place,
                        "include",
                        "false",
                        "only a region that is included is kept",
                    ));
                }
                let annotations = self.annotations(&mut node)?;
                let keys = self.selections(&mut node, "keyValues")?;
                let components = self.selections(&mut node, "components")?;
                node.finish()?;
                Some(CubeRegion {
                    annotations,
                    keys,
                    components,
                })
            }
        };
        node.finish()?;
        Ok(Artefact::DataConstraint(DataConstraint {
            header,
            role,
            attachment,
            region,
        }))
    }

    fn selections(&self, node: &mut Node, key: &str) -> Result<Vec<Selection>> {
        let nodes = node.objects(key)?;
        nodes
            .into_iter()
            .map(|mut node| {
                if node.boolean("removePrefix")? == Some(true) {
                    return Err(bad(
                        &node.place,
                        "removePrefix",
                        "true",
                        "prefixes are kept as they are",
                    ));
                }
                let time_range = match node.object("timeRange")? {
                    None => None,
                    Some(range) => Some(self.time_range(range)?),
                };
                let selection = Selection {
                    id: node.needed("id")?,
                    include: node.boolean("include")?.unwrap_or(true),
                    values: self.selected(&mut node, "values")?,
                    time_range,
                };
                node.finish()?;
                Ok(selection)
            })
            .collect()
    }

    fn time_range(&self, mut node: Node) -> Result<TimeRange> {
        let mut bound = |key: &str| -> Result<Option<Bound>> {
            let Some(mut node) = node.object(key)? else {
                return Ok(None);
            };
            let bound = Bound {
                period: node.needed("period")?,
                is_inclusive: node.boolean("isInclusive")?.unwrap_or(true),
            };
            node.finish()?;
            Ok(Some(bound))
        };
        let bounds = (
            bound("beforePeriod")?,
            bound("afterPeriod")?,
            bound("startPeriod")?,
            bound("endPeriod")?,
        );
        let place = node.place.clone();
        node.finish()?;
        match bounds {
            (Some(before), None, None, None) => Ok(TimeRange::Before(before)),
            (None, Some(after), None, None) => Ok(TimeRange::After(after)),
            (None, None, Some(start), Some(end)) => Ok(TimeRange::Between(start, end)),
            _ => Err(bad(
                &place,
                "timeRange",
                "",
                "it has a period before, one after, or a start and an end",
            )),
        }
    }

    fn hierarchy(&mut self, mut node: Node) -> Result<Artefact> {
        let header = self.header(&mut node, Class::Hierarchy)?;
        let has_formal_levels = node.boolean("hasFormalLevels")?.unwrap_or(false);
        let mut levels = Vec::new();
        let mut below = node.object("level")?;
        while let Some(mut level) = below {
            levels.push(self.item(&mut level)?);
            below = level.object("level")?;
            level.finish()?;
        }
        let mut tree = Vec::new();
        for code in node.objects("hierarchicalCodes")? {
            tree.push(self.hierarchical_code(code)?);
        }
        node.finish()?;
        Ok(Artefact::Hierarchy(Hierarchy {
            header,
            has_formal_levels,
            levels,
            tree,
        }))
    }

    fn hierarchical_code(&self, mut node: Node) -> Result<HierarchicalCode> {
        let (links, own) = self.links(&mut node)?;
        let mut children = Vec::new();
        for child in node.objects("hierarchicalCodes")? {
            children.push(self.hierarchical_code(child)?);
        }
        let code = HierarchicalCode {
            id: node.needed("id")?,
            code: node.urn("code")?,
            level: node.text("level")?,
            version: node.text("version")?,
            children,
            annotations: self.annotations(&mut node)?,
            links,
            uri: own.and_then(|own| own.uri),
            valid_from: self.instant(&mut node, "validFrom")?,
            valid_to: self.instant(&mut node, "validTo")?,
        };
        node.finish()?;
        Ok(code)
    }

    fn hierarchy_association(&mut self, mut node: Node) -> Result<Artefact> {
        let header = self.header(&mut node, Class::HierarchyAssociation)?;
        let linked_hierarchy = node.urn("linkedHierarchy")?;
        let linked_object = node.urn("linkedObject")?;
        let context_object = node.optional_urn("contextObject")?;
        node.finish()?;
        Ok(Artefact::HierarchyAssociation(HierarchyAssociation {
            header,
            linked_hierarchy,
            linked_object,
            context_object,
        }))
    }
}
