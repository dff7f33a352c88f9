//! Structures as an edition stores them: one canonical text a line, sorted by URN.
//!
//! The stored line is the very text the fingerprint hashes, so a reader needs no model to check a fingerprint, and what a
//! reader builds from a line has to write that line again: nothing can hide between the two.

use chrono::{DateTime, Utc};

use super::{
    canonical::CanonicalText,
    language::{LanguageTag, LocalisedText},
    message::{
        Limits, MessageError, bad, instant,
        json_tree::{Json, Node},
        occurs,
    },
    model::{
        AgencyScheme, Annotation, Artefact, Attachment, Attribute, Bound, Cascade, CodeSelection, Codelist,
        CodelistExtension, Coding, Component, Concept, ConceptScheme, ConstraintRole, CubeRegion, DataConstraint,
        DataStructure, Dataflow, Descriptor, Facet, Group, Header, HierarchicalCode, Hierarchy, HierarchyAssociation,
        IsoConceptReference, Item, Link, Measure, Representation, SelectedValue, Selection, SentinelValue, TimeRange,
        Usage,
    },
    set::{StructureError, Structures},
    urn::{ArtefactUrn, Class, shorten},
};

/// Why stored structures are refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoredError {
    /// A line that is no canonical text of a stored class.
    #[error("line {line} of the stored structures: {source}")]
    Line {
        /// The line's number, from 1.
        line: usize,
        /// Why.
        source: MessageError,
    },
    /// A line that says its artefact in another way than the canonical one.
    #[error("INV-71: line {line} of the stored structures is not the canonical text of `{urn}`")]
    NotCanonical {
        /// The line's number, from 1.
        line: usize,
        /// The artefact.
        urn: ArtefactUrn,
    },
    /// Lines out of order, or one artefact twice.
    #[error("INV-45: line {line} of the stored structures holds `{urn}`, which doesn't come after `{before}`")]
    OutOfOrder {
        /// The line's number, from 1.
        line: usize,
        /// The artefact.
        urn: ArtefactUrn,
        /// The artefact of the line before.
        before: ArtefactUrn,
    },
    /// The last line isn't ended.
    #[error("the stored structures don't end with a line feed, so they are cut short")]
    CutShort,
    /// An artefact that isn't valid by itself.
    #[error("line {line} of the stored structures: {source}")]
    Structure {
        /// The line's number, from 1.
        line: usize,
        /// Why.
        source: StructureError,
    },
}

/// Writes structures as an edition stores them.
pub fn write(structures: &Structures) -> Vec<u8> {
    let mut bytes = Vec::new();
    for artefact in structures.iter() {
        bytes.extend_from_slice(CanonicalText::of(artefact).as_str().as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

/// Reads stored structures; refuses anything [`write`] wouldn't have written.
pub fn read(bytes: &[u8], limits: Limits) -> Result<Structures, StoredError> {
    if bytes.len() > limits.bytes {
        return Err(StoredError::Line {
            line: 1,
            source: MessageError::TooLarge {
                bytes: bytes.len(),
                limit: limits.bytes,
            },
        });
    }
    let mut structures = Structures::default();
    let Some(lines) = bytes.strip_suffix(b"\n") else {
        return if bytes.is_empty() {
            Ok(structures)
        } else {
            Err(StoredError::CutShort)
        };
    };
    let mut before: Option<ArtefactUrn> = None;
    for (index, bytes) in lines.split(|byte| *byte == b'\n').enumerate() {
        let line = index + 1;
        let artefact = artefact(bytes, limits).map_err(|source| StoredError::Line { line, source })?;
        let urn = artefact.urn().clone();
        if CanonicalText::of(&artefact).as_str().as_bytes() != bytes {
            return Err(StoredError::NotCanonical { line, urn });
        }
        if let Some(before) = before.filter(|before| *before >= urn) {
            return Err(StoredError::OutOfOrder { line, urn, before });
        }
        structures
            .insert(artefact)
            .map_err(|source| StoredError::Structure { line, source })?;
        before = Some(urn);
    }
    Ok(structures)
}

type Outcome<T> = Result<T, MessageError>;

fn artefact(bytes: &[u8], limits: Limits) -> Outcome<Artefact> {
    let mut node = Node::of("artefact", Json::parse(bytes, limits)?)?;
    let class = node.needed("$class")?;
    let artefact = match class.as_str() {
        "AgencyScheme" => Artefact::AgencyScheme(AgencyScheme {
            header: header(&mut node, Class::AgencyScheme)?,
            is_partial: truth(&mut node, "is_partial")?,
            agencies: items(&mut node, "agencies", "Agency")?,
        }),
        "Codelist" => Artefact::Codelist(Codelist {
            header: header(&mut node, Class::Codelist)?,
            is_partial: truth(&mut node, "is_partial")?,
            codes: items(&mut node, "codes", "Code")?,
            extensions: objects(&mut node, "extensions", "CodelistExtension", extension)?,
        }),
        "ConceptScheme" => Artefact::ConceptScheme(ConceptScheme {
            header: header(&mut node, Class::ConceptScheme)?,
            is_partial: truth(&mut node, "is_partial")?,
            concepts: objects(&mut node, "concepts", "Concept", concept)?,
        }),
        "DataConstraint" => Artefact::DataConstraint(DataConstraint {
            header: header(&mut node, Class::DataConstraint)?,
            role: one_of(
                &mut node,
                "role",
                &[("ALLOWED", ConstraintRole::Allowed), ("ACTUAL", ConstraintRole::Actual)],
            )?,
            attachment: node.urns("attachment")?,
            region: object(&mut node, "region", "CubeRegion", region)?,
        }),
        "DataStructure" => Artefact::DataStructure(data_structure(&mut node)?),
        "Dataflow" => Artefact::Dataflow(Dataflow {
            header: header(&mut node, Class::Dataflow)?,
            structure: node.urn("structure")?,
            dimension_constraint: node.texts("dimension_constraint")?,
        }),
        "Hierarchy" => Artefact::Hierarchy(Hierarchy {
            header: header(&mut node, Class::Hierarchy)?,
            has_formal_levels: truth(&mut node, "has_formal_levels")?,
            levels: items(&mut node, "levels", "Level")?,
            tree: objects(&mut node, "tree", "HierarchicalCode", hierarchical_code)?,
        }),
        "HierarchyAssociation" => Artefact::HierarchyAssociation(HierarchyAssociation {
            header: header(&mut node, Class::HierarchyAssociation)?,
            linked_hierarchy: node.urn("linked_hierarchy")?,
            linked_object: node.urn("linked_object")?,
            context_object: node.optional_urn("context_object")?,
        }),
        _ => {
            return Err(bad(
                "artefact",
                "$class",
                &class,
                "an edition stores no artefacts of this class",
            ));
        }
    };
    node.finish()?;
    Ok(artefact)
}

/// Reads an object of a class and refuses what is left of it.
fn whole<T>(mut node: Node, class: &str, read: fn(&mut Node) -> Outcome<T>) -> Outcome<T> {
    let found = node.needed("$class")?;
    if found != class {
        return Err(bad(&node.place, "$class", &found, format!("a {class} stands here")));
    }
    let value = read(&mut node)?;
    node.finish()?;
    Ok(value)
}

fn object<T>(node: &mut Node, key: &str, class: &str, read: fn(&mut Node) -> Outcome<T>) -> Outcome<Option<T>> {
    node.object(key)?.map(|node| whole(node, class, read)).transpose()
}

fn objects<T>(node: &mut Node, key: &str, class: &str, read: fn(&mut Node) -> Outcome<T>) -> Outcome<Vec<T>> {
    node.objects(key)?
        .into_iter()
        .map(|node| whole(node, class, read))
        .collect()
}

fn truth(node: &mut Node, key: &'static str) -> Outcome<bool> {
    node.boolean(key)?.ok_or_else(|| MessageError::Missing {
        place: node.place.clone(),
        what: key,
    })
}

fn one_of<T: Copy>(node: &mut Node, key: &'static str, names: &[(&str, T)]) -> Outcome<T> {
    let name = node.needed(key)?;
    let found = names.iter().find(|(known, _)| *known == name);
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| bad(&node.place, key, &name, "there is no such member"))
}

/// INV-112: stored language tags are in normalised form.
fn localised(node: &mut Node, key: &str) -> Outcome<LocalisedText> {
    let mut text = LocalisedText::default();
    let Some(texts) = node.object(key)? else {
        return Ok(text);
    };
    let place = texts.place.clone();
    for (tag, value) in texts.into_fields() {
        let Json::Text(value) = value else {
            return Err(bad(&place, &tag, "", "it is a text"));
        };
        let at = |source| MessageError::Language {
            place: place.clone(),
            source,
        };
        text.insert(LanguageTag::stored(&tag).map_err(at)?, value).map_err(at)?;
    }
    Ok(text)
}

fn optional_instant(node: &mut Node, key: &str) -> Outcome<Option<DateTime<Utc>>> {
    node.text(key)?.map(|text| instant(&node.place, key, &text)).transpose()
}

fn annotations(node: &mut Node, key: &str) -> Outcome<Vec<Annotation>> {
    objects(node, key, "Annotation", |node| {
        Ok(Annotation {
            id: node.text("id")?,
            title: node.text("title")?,
            kind: node.text("type")?,
            value: node.text("value")?,
            text: localised(node, "text")?,
            urls: node.texts("urls")?,
        })
    })
}

fn links(node: &mut Node, key: &str) -> Outcome<Vec<Link>> {
    objects(node, key, "Link", |node| {
        Ok(Link {
            rel: node.text("rel")?,
            href: node.text("href")?,
            urn: node.text("urn")?,
            uri: node.text("uri")?,
            title: node.text("title")?,
            media_type: node.text("type")?,
            language: node.text("hreflang")?,
        })
    })
}

fn header(node: &mut Node, class: Class) -> Outcome<Header> {
    let (agency, id, version) = (node.needed("maintainer")?, node.needed("id")?, node.needed("version")?);
    let urn = ArtefactUrn::new(class, &agency, &id, &version);
    let urn = urn.map_err(|source| MessageError::Urn {
        place: node.place.clone(),
        source,
    })?;
    node.place = shorten(urn.as_str());
    Ok(Header {
        urn,
        name: localised(node, "name")?,
        description: localised(node, "description")?,
        annotations: annotations(node, "annotations")?,
        links: links(node, "links")?,
        uri: node.text("uri")?,
        structure_url: node.text("structure_url")?,
        service_url: node.text("service_url")?,
        is_external_reference: truth(node, "is_external_reference")?,
        is_partial_language: truth(node, "is_partial_language")?,
        legacy_is_final: node.boolean("legacy_is_final")?,
        valid_from: optional_instant(node, "valid_from")?,
        valid_to: optional_instant(node, "valid_to")?,
    })
}

fn item(node: &mut Node) -> Outcome<Item> {
    Ok(Item {
        id: node.needed("id")?,
        parent: node.text("parent_id")?,
        name: localised(node, "name")?,
        description: localised(node, "description")?,
        annotations: annotations(node, "annotations")?,
        links: links(node, "links")?,
        uri: node.text("uri")?,
    })
}

fn items(node: &mut Node, key: &str, class: &str) -> Outcome<Vec<Item>> {
    objects(node, key, class, item)
}

fn selected(node: &mut Node) -> Outcome<SelectedValue> {
    let names = [
        ("NONE", Cascade::None),
        ("DESCENDANTS", Cascade::Descendants),
        ("EXCLUDE_ROOT", Cascade::ExcludeRoot),
    ];
    Ok(SelectedValue {
        cascade: one_of(node, "cascade", &names)?,
        value: node.needed("value")?,
    })
}

fn extension(node: &mut Node) -> Outcome<CodelistExtension> {
    let selection = object(node, "selection", "CodeSelection", |node| {
        let values = objects(node, "values", "SelectedValue", selected)?;
        Ok(CodeSelection {
            include: truth(node, "include")?,
            values,
        })
    })?;
    Ok(CodelistExtension {
        codelist: node.urn("codelist")?,
        prefix: node.text("prefix")?,
        selection,
    })
}

fn concept(node: &mut Node) -> Outcome<Concept> {
    let iso_concept_reference = object(node, "iso_concept_reference", "IsoConceptReference", |node| {
        Ok(IsoConceptReference {
            agency: node.text("agency")?,
            scheme: node.text("scheme")?,
            concept: node.text("concept")?,
        })
    })?;
    let mut core = coding(node, "core_representation")?;
    occurrences(node, &mut core)?;
    Ok(Concept {
        item: item(node)?,
        core,
        iso_concept_reference,
    })
}

/// A representation is a codelist's URN or a facet.
fn coding(node: &mut Node, key: &str) -> Outcome<Coding> {
    let representation = if node.is_object(key) {
        object(node, key, "Facet", facet)?.map(Representation::Facet)
    } else {
        node.optional_urn(key)?.map(Representation::Enumeration)
    };
    let enumeration_format = object(node, "enumeration_format", "Facet", facet)?;
    Ok(Coding {
        representation,
        enumeration_format,
        ..Coding::default()
    })
}

fn occurrences(node: &mut Node, coding: &mut Coding) -> Outcome<()> {
    let place = node.place.clone();
    let missing = |what| MessageError::Missing {
        place: place.clone(),
        what,
    };
    coding.min_occurs = node.number("min_occurs")?.ok_or_else(|| missing("min_occurs"))?;
    let most = node.scalar("max_occurs")?.ok_or_else(|| missing("max_occurs"))?;
    coding.max_occurs = occurs(&node.place, "max_occurs", &most)?;
    Ok(())
}

fn facet(node: &mut Node) -> Outcome<Facet> {
    let sentinel_values = objects(node, "sentinel_values", "SentinelValue", |node| {
        Ok(SentinelValue {
            value: node.needed("value")?,
            name: localised(node, "name")?,
            description: localised(node, "description")?,
        })
    })?;
    Ok(Facet {
        data_type: node.text("type")?,
        is_sequence: node.boolean("is_sequence")?,
        is_multilingual: truth(node, "is_multilingual")?,
        interval: node.decimal("interval")?,
        start_value: node.decimal("start_value")?,
        end_value: node.decimal("end_value")?,
        time_interval: node.text("time_interval")?,
        start_time: node.text("start_time")?,
        end_time: node.text("end_time")?,
        min_length: node.number("min_length")?,
        max_length: node.number("max_length")?,
        min_value: node.decimal("min_value")?,
        max_value: node.decimal("max_value")?,
        decimals: node.number("decimals")?,
        pattern: node.text("pattern")?,
        sentinel_values,
    })
}

fn component(node: &mut Node) -> Outcome<Component> {
    Ok(Component {
        id: node.needed("id")?,
        concept: node.urn("concept")?,
        concept_role: node.urns("concept_role")?,
        local: coding(node, "representation")?,
        annotations: annotations(node, "annotations")?,
        links: links(node, "links")?,
        uri: node.text("uri")?,
    })
}

fn usage(node: &mut Node) -> Outcome<Usage> {
    one_of(
        node,
        "usage",
        &[("MANDATORY", Usage::Mandatory), ("OPTIONAL", Usage::Optional)],
    )
}

fn measure(node: &mut Node) -> Outcome<Measure> {
    let mut component = component(node)?;
    occurrences(node, &mut component.local)?;
    Ok(Measure {
        component,
        usage: usage(node)?,
    })
}

fn attribute(node: &mut Node) -> Outcome<Attribute> {
    let mut component = component(node)?;
    occurrences(node, &mut component.local)?;
    let kind = node.needed("attachment")?;
    let related = node.texts("related_dimensions")?;
    let optional = node.texts("optional_dimensions")?;
    let group = node.text("related_group")?;
    let attachment = match (kind.as_str(), group) {
        ("OBSERVATION", None) => Attachment::Observation,
        ("DATAFLOW", None) => Attachment::Dataflow,
        ("DIMENSIONS", None) => Attachment::Dimensions { related, optional },
        ("GROUP", Some(group)) => Attachment::Group(group),
        _ => return Err(bad(&node.place, "attachment", &kind, "there is no such attachment")),
    };
    let has_measures = node.is_list("related_measures");
    let related_measures = node.texts("related_measures")?;
    Ok(Attribute {
        component,
        usage: usage(node)?,
        attachment,
        attachment_groups: node.texts("attachment_groups")?,
        related_measures: has_measures.then_some(related_measures),
    })
}

fn descriptor(node: &mut Node, prefix: &str) -> Outcome<Descriptor> {
    Ok(Descriptor {
        annotations: annotations(node, &format!("{prefix}_annotations"))?,
        links: links(node, &format!("{prefix}_links"))?,
        uri: node.text(&format!("{prefix}_uri"))?,
    })
}

fn data_structure(node: &mut Node) -> Outcome<DataStructure> {
    let header = header(node, Class::DataStructure)?;
    // Always empty in what is written; the comparison with the line refuses anything else.
    node.ignore("metadata");
    node.ignore("metadata_attributes");
    Ok(DataStructure {
        header,
        evolving_structure: truth(node, "evolving_structure")?,
        dimensions: objects(node, "dimensions", "Dimension", component)?,
        measure_dimension: object(node, "measure_dimension", "MeasureDimension", component)?,
        time_dimension: object(node, "time_dimension", "TimeDimension", component)?,
        measures: objects(node, "measures", "Measure", measure)?,
        attributes: objects(node, "attributes", "Attribute", attribute)?,
        groups: objects(node, "groups", "Group", |node| {
            Ok(Group {
                id: node.needed("id")?,
                dimensions: node.texts("dimensions")?,
                annotations: annotations(node, "annotations")?,
                links: links(node, "links")?,
                uri: node.text("uri")?,
            })
        })?,
        dimension_descriptor: descriptor(node, "dimension_descriptor")?,
        measure_descriptor: descriptor(node, "measure_descriptor")?,
        attribute_descriptor: descriptor(node, "attribute_descriptor")?,
    })
}

fn region(node: &mut Node) -> Outcome<CubeRegion> {
    Ok(CubeRegion {
        annotations: annotations(node, "annotations")?,
        keys: objects(node, "keys", "Selection", selection)?,
        components: objects(node, "components", "Selection", selection)?,
    })
}

fn bound(node: &mut Node) -> Outcome<Bound> {
    Ok(Bound {
        period: node.needed("period")?,
        is_inclusive: truth(node, "is_inclusive")?,
    })
}

fn selection(node: &mut Node) -> Outcome<Selection> {
    let (from, to) = (
        object(node, "from", "Bound", bound)?,
        object(node, "to", "Bound", bound)?,
    );
    let time_range = match (from, to) {
        (None, None) => None,
        (None, Some(before)) => Some(TimeRange::Before(before)),
        (Some(after), None) => Some(TimeRange::After(after)),
        (Some(start), Some(end)) => Some(TimeRange::Between(start, end)),
    };
    Ok(Selection {
        id: node.needed("id")?,
        include: truth(node, "include")?,
        values: objects(node, "values", "SelectedValue", selected)?,
        time_range,
    })
}

fn hierarchical_code(node: &mut Node) -> Outcome<HierarchicalCode> {
    Ok(HierarchicalCode {
        id: node.needed("id")?,
        code: node.urn("code")?,
        level: node.text("level")?,
        version: node.text("version")?,
        children: objects(node, "children", "HierarchicalCode", hierarchical_code)?,
        annotations: annotations(node, "annotations")?,
        links: links(node, "links")?,
        uri: node.text("uri")?,
        valid_from: optional_instant(node, "valid_from")?,
        valid_to: optional_instant(node, "valid_to")?,
    })
}

#[cfg(test)]
mod tests;
