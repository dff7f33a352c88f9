//! How each class is written. Every function takes its value apart field by field, so that a field added to the model
//! doesn't compile until it reaches the text (INV-77, INV-81).

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, SecondsFormat, Utc};

use super::Canon;
use crate::structure::{
    language::LocalisedText,
    model::{
        AgencyScheme, Annotation, Artefact, Attachment, Attribute, Bound, Cascade, CodeSelection, Codelist,
        CodelistExtension, Coding, Component, Concept, ConceptScheme, ConstraintRole, CubeRegion, DataConstraint,
        DataStructure, Dataflow, Decimal, Descriptor, Facet, Group, Header, HierarchicalCode, Hierarchy,
        HierarchyAssociation, IsoConceptReference, Item, Link, Measure, Occurs, Representation, SelectedValue,
        Selection, SentinelValue, TimeRange, Usage,
    },
    urn::Urn,
};

/// Fields gathered for one object.
type Fields = BTreeMap<String, Canon>;

/// Writes values, and notes every class and field whose form no golden text shows.
#[derive(Default)]
pub(super) struct Shape {
    pub(super) unproven: BTreeSet<&'static str>,
}

fn object<const N: usize>(class: &str, fields: [(&str, Canon); N]) -> Fields {
    let mut object: Fields = fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    object.insert("$class".to_owned(), Canon::Text(class.to_owned()));
    object
}

fn text(value: &str) -> Canon {
    Canon::Text(value.to_owned())
}

fn optional(value: Option<&str>) -> Canon {
    value.map_or(Canon::Null, text)
}

fn texts(values: &[String]) -> Canon {
    Canon::List(values.iter().map(|value| text(value)).collect())
}

fn flag(value: Option<bool>) -> Canon {
    value.map_or(Canon::Null, Canon::Bool)
}

fn whole(value: Option<u64>) -> Canon {
    value.map_or(Canon::Null, |value| Canon::Number(value.to_string()))
}

/// A decimal is written as text: a JSON number would be cut to a double by most readers.
fn decimal(value: Option<&Decimal>) -> Canon {
    value.map_or(Canon::Null, |value| text(value.as_str()))
}

/// INV-78: a reference is its URN.
fn reference(urn: &Urn) -> Canon {
    text(urn.as_str())
}

fn languages(value: &LocalisedText) -> Canon {
    Canon::Object(
        value
            .iter()
            .map(|(tag, value)| (tag.as_str().to_owned(), text(value)))
            .collect(),
    )
}

impl Shape {
    pub(super) fn mark(&mut self, what: &'static str) {
        self.unproven.insert(what);
    }

    fn mark_if(&mut self, condition: bool, what: &'static str) {
        if condition {
            self.mark(what);
        }
    }

    pub(super) fn artefact(&mut self, artefact: &Artefact) -> Canon {
        Canon::Object(match artefact {
            Artefact::AgencyScheme(artefact) => self.agency_scheme(artefact),
            Artefact::Codelist(artefact) => self.codelist(artefact),
            Artefact::ConceptScheme(artefact) => self.concept_scheme(artefact),
            Artefact::DataConstraint(artefact) => self.data_constraint(artefact),
            Artefact::DataStructure(artefact) => self.data_structure(artefact),
            Artefact::Dataflow(artefact) => self.dataflow(artefact),
            Artefact::Hierarchy(artefact) => self.hierarchy(artefact),
            Artefact::HierarchyAssociation(artefact) => self.hierarchy_association(artefact),
        })
    }

    /// INV-79: an instant is UTC with microseconds and `Z`.
    fn instant(&mut self, value: Option<&DateTime<Utc>>) -> Canon {
        value.map_or(Canon::Null, |value| {
            Canon::Text(value.to_rfc3339_opts(SecondsFormat::Micros, true))
        })
    }

    fn annotations(&mut self, annotations: &[Annotation]) -> Canon {
        let annotations = annotations.iter().map(|annotation| {
            let Annotation {
                id,
                title,
                kind,
                value,
                text,
                urls,
            } = annotation;
            self.mark_if(!urls.is_empty(), "annotation links");
            Canon::Object(object(
                "Annotation",
                [
                    ("id", optional(id.as_deref())),
                    ("text", languages(text)),
                    ("title", optional(title.as_deref())),
                    ("type", optional(kind.as_deref())),
                    ("urls", texts(urls)),
                    ("value", optional(value.as_deref())),
                ],
            ))
        });
        Canon::List(annotations.collect())
    }

    fn links(&mut self, links: &[Link]) -> Canon {
        self.mark_if(!links.is_empty(), "links");
        let links = links.iter().map(|link| {
            let Link {
                rel,
                href,
                urn,
                uri,
                title,
                media_type,
                language,
            } = link;
            Canon::Object(object(
                "Link",
                [
                    ("href", optional(href.as_deref())),
                    ("hreflang", optional(language.as_deref())),
                    ("rel", optional(rel.as_deref())),
                    ("title", optional(title.as_deref())),
                    ("type", optional(media_type.as_deref())),
                    ("uri", optional(uri.as_deref())),
                    ("urn", optional(urn.as_deref())),
                ],
            ))
        });
        Canon::List(links.collect())
    }

    /// The fields of every artefact. INV-78: the maintainer is the agency's id.
    fn header(&mut self, class: &str, header: &Header) -> Fields {
        let Header {
            urn,
            name,
            description,
            annotations,
            links,
            uri,
            structure_url,
            service_url,
            is_external_reference,
            is_partial_language,
            legacy_is_final: _,
            valid_from,
            valid_to,
        } = header;
        object(
            class,
            [
                ("annotations", self.annotations(annotations)),
                ("description", languages(description)),
                ("id", text(urn.id())),
                ("is_external_reference", Canon::Bool(*is_external_reference)),
                ("is_partial_language", Canon::Bool(*is_partial_language)),
                ("links", self.links(links)),
                ("maintainer", text(urn.agency())),
                ("name", languages(name)),
                ("service_url", optional(service_url.as_deref())),
                ("structure_url", optional(structure_url.as_deref())),
                ("uri", optional(uri.as_deref())),
                ("valid_from", self.instant(valid_from.as_ref())),
                ("valid_to", self.instant(valid_to.as_ref())),
                ("version", text(urn.version().as_str())),
            ],
        )
    }

    /// The header of a class that SDMX 2.1 had too, with that version's finality.
    fn legacy_header(&mut self, class: &str, header: &Header) -> Fields {
        let mut fields = self.header(class, header);
        fields.insert("legacy_is_final".to_owned(), flag(header.legacy_is_final));
        fields
    }

    fn item(&mut self, class: &str, item: &Item) -> Fields {
        let Item {
            id,
            parent,
            name,
            description,
            annotations,
            links,
            uri,
        } = item;
        object(
            class,
            [
                ("annotations", self.annotations(annotations)),
                ("description", languages(description)),
                ("id", text(id)),
                ("links", self.links(links)),
                ("name", languages(name)),
                ("parent_id", optional(parent.as_deref())),
                ("uri", optional(uri.as_deref())),
            ],
        )
    }

    fn items(&mut self, class: &str, items: &[Item]) -> Canon {
        Canon::List(items.iter().map(|item| Canon::Object(self.item(class, item))).collect())
    }

    fn agency_scheme(&mut self, artefact: &AgencyScheme) -> Fields {
        let AgencyScheme {
            header,
            is_partial,
            agencies,
        } = artefact;
        self.mark("class AgencyScheme");
        let mut fields = self.legacy_header("AgencyScheme", header);
        fields.insert("is_partial".to_owned(), Canon::Bool(*is_partial));
        fields.insert("agencies".to_owned(), self.items("Agency", agencies));
        fields
    }

    fn codelist(&mut self, artefact: &Codelist) -> Fields {
        let Codelist {
            header,
            is_partial,
            codes,
            extensions,
        } = artefact;
        let mut fields = self.legacy_header("Codelist", header);
        fields.insert("is_partial".to_owned(), Canon::Bool(*is_partial));
        fields.insert("codes".to_owned(), self.items("Code", codes));
        let extensions = extensions.iter().map(|extension| self.extension(extension)).collect();
        fields.insert("extensions".to_owned(), Canon::List(extensions));
        fields
    }

    fn extension(&mut self, extension: &CodelistExtension) -> Canon {
        let CodelistExtension {
            codelist,
            prefix,
            selection,
        } = extension;
        self.mark("codelist extensions");
        let selection = selection.as_ref().map_or(Canon::Null, |selection| {
            let CodeSelection { include, values } = selection;
            let values = values.iter().map(|value| self.selected(value)).collect();
            Canon::Object(object(
                "CodeSelection",
                [("include", Canon::Bool(*include)), ("values", Canon::Set(values))],
            ))
        });
        Canon::Object(object(
            "CodelistExtension",
            [
                ("codelist", reference(codelist)),
                ("prefix", optional(prefix.as_deref())),
                ("selection", selection),
            ],
        ))
    }

    fn concept_scheme(&mut self, artefact: &ConceptScheme) -> Fields {
        let ConceptScheme {
            header,
            is_partial,
            concepts,
        } = artefact;
        let mut fields = self.legacy_header("ConceptScheme", header);
        fields.insert("is_partial".to_owned(), Canon::Bool(*is_partial));
        let concepts = concepts.iter().map(|concept| {
            let Concept {
                item,
                core,
                iso_concept_reference,
            } = concept;
            self.mark_if(core.representation.is_some(), "core representation of a concept");
            self.mark_if(iso_concept_reference.is_some(), "ISO concept reference");
            self.mark_if(item.parent.is_some(), "parent of a concept");
            let iso = iso_concept_reference.as_ref().map_or(Canon::Null, |iso| {
                let IsoConceptReference {
                    agency,
                    scheme,
                    concept,
                } = iso;
                Canon::Object(object(
                    "IsoConceptReference",
                    [
                        ("agency", optional(agency.as_deref())),
                        ("concept", optional(concept.as_deref())),
                        ("scheme", optional(scheme.as_deref())),
                    ],
                ))
            });
            let mut fields = self.item("Concept", item);
            self.coding("core_representation", core, &mut fields);
            self.occurs(core, &mut fields);
            fields.insert("iso_concept_reference".to_owned(), iso);
            Canon::Object(fields)
        });
        let concepts = concepts.collect();
        fields.insert("concepts".to_owned(), Canon::List(concepts));
        fields
    }

    fn coding(&mut self, key: &str, coding: &Coding, fields: &mut Fields) {
        let Coding {
            representation,
            enumeration_format,
            min_occurs: _,
            max_occurs: _,
        } = coding;
        let representation = match representation {
            None => Canon::Null,
            Some(Representation::Enumeration(codelist)) => reference(codelist),
            Some(Representation::Facet(facet)) => self.facet(facet),
        };
        fields.insert(key.to_owned(), representation);
        self.mark_if(enumeration_format.is_some(), "format of enumerated values");
        let format = enumeration_format
            .as_ref()
            .map_or(Canon::Null, |facet| self.facet(facet));
        fields.insert("enumeration_format".to_owned(), format);
    }

    fn occurs(&mut self, coding: &Coding, fields: &mut Fields) {
        let Coding {
            representation: _,
            enumeration_format: _,
            min_occurs,
            max_occurs,
        } = coding;
        self.mark_if(
            (*min_occurs, *max_occurs) != (1, Occurs::AtMost(1)),
            "number of values in a cell",
        );
        let most = match max_occurs {
            Occurs::AtMost(most) => Canon::Number(most.to_string()),
            Occurs::Unbounded => text("unbounded"),
        };
        fields.insert("max_occurs".to_owned(), most);
        fields.insert("min_occurs".to_owned(), Canon::Number(min_occurs.to_string()));
    }

    fn facet(&mut self, facet: &Facet) -> Canon {
        // Golden texts show the data type alone; the spelling of every other value is ours.
        self.mark_if(
            *facet
                != Facet {
                    data_type: facet.data_type.clone(),
                    ..Facet::default()
                },
            "limits of a format",
        );
        self.mark_if(facet.data_type.is_none(), "format without a data type");
        let Facet {
            data_type,
            is_sequence,
            is_multilingual,
            interval,
            start_value,
            end_value,
            time_interval,
            start_time,
            end_time,
            min_length,
            max_length,
            min_value,
            max_value,
            decimals,
            pattern,
            sentinel_values,
        } = facet;
        let sentinels = sentinel_values.iter().map(|sentinel| {
            let SentinelValue {
                value,
                name,
                description,
            } = sentinel;
            Canon::Object(object(
                "SentinelValue",
                [
                    ("description", languages(description)),
                    ("name", languages(name)),
                    ("value", text(value)),
                ],
            ))
        });
        Canon::Object(object(
            "Facet",
            [
                ("decimals", whole(*decimals)),
                ("end_time", optional(end_time.as_deref())),
                ("end_value", decimal(end_value.as_ref())),
                ("interval", decimal(interval.as_ref())),
                ("is_multilingual", Canon::Bool(*is_multilingual)),
                ("is_sequence", flag(*is_sequence)),
                ("max_length", whole(*max_length)),
                ("max_value", decimal(max_value.as_ref())),
                ("min_length", whole(*min_length)),
                ("min_value", decimal(min_value.as_ref())),
                ("pattern", optional(pattern.as_deref())),
                ("sentinel_values", Canon::List(sentinels.collect())),
                ("start_time", optional(start_time.as_deref())),
                ("start_value", decimal(start_value.as_ref())),
                ("time_interval", optional(time_interval.as_deref())),
                ("type", optional(data_type.as_deref())),
            ],
        ))
    }

    /// The fields every component has.
    fn bare_component(&mut self, class: &str, component: &Component) -> Fields {
        let Component {
            id,
            concept,
            concept_role: _,
            local: _,
            annotations,
            links,
            uri,
        } = component;
        object(
            class,
            [
                ("annotations", self.annotations(annotations)),
                ("concept", reference(concept)),
                ("id", text(id)),
                ("links", self.links(links)),
                ("uri", optional(uri.as_deref())),
            ],
        )
    }

    fn component(&mut self, class: &str, component: &Component) -> Fields {
        let mut fields = self.bare_component(class, component);
        self.mark_if(!component.concept_role.is_empty(), "concept roles");
        let roles = component.concept_role.iter().map(reference).collect();
        fields.insert("concept_role".to_owned(), Canon::List(roles));
        self.coding("representation", &component.local, &mut fields);
        fields
    }

    fn dimension(&mut self, class: &str, dimension: &Component) -> Canon {
        Canon::Object(self.component(class, dimension))
    }

    fn time_dimension(&mut self, dimension: &Component) -> Canon {
        let mut fields = self.bare_component("TimeDimension", dimension);
        self.coding("representation", &dimension.local, &mut fields);
        // The class has no format of enumerated values, since time is never enumerated: `Structures` refuses one.
        fields.remove("enumeration_format");
        Canon::Object(fields)
    }

    fn usage(&mut self, usage: Usage) -> Canon {
        self.mark_if(usage == Usage::Mandatory, "mandatory usage");
        text(match usage {
            Usage::Mandatory => "MANDATORY",
            Usage::Optional => "OPTIONAL",
        })
    }

    fn measure(&mut self, measure: &Measure) -> Canon {
        let Measure { component, usage } = measure;
        let mut fields = self.component("Measure", component);
        self.occurs(&component.local, &mut fields);
        fields.insert("usage".to_owned(), self.usage(*usage));
        Canon::Object(fields)
    }

    fn attribute(&mut self, attribute: &Attribute) -> Canon {
        let Attribute {
            component,
            usage,
            attachment,
            attachment_groups,
            related_measures,
        } = attribute;
        let mut fields = self.component("Attribute", component);
        self.occurs(&component.local, &mut fields);
        fields.insert("usage".to_owned(), self.usage(*usage));
        self.mark_if(*attachment != Attachment::Observation, "attachment of an attribute");
        self.mark_if(!attachment_groups.is_empty(), "groups of an attribute");
        self.mark_if(related_measures.is_some(), "measures of an attribute");
        let (kind, related, optional_dimensions, group) = match attachment {
            Attachment::Observation => ("OBSERVATION", Canon::Null, Vec::new(), None),
            Attachment::Dataflow => ("DATAFLOW", Canon::Null, Vec::new(), None),
            Attachment::Dimensions { related, optional } => ("DIMENSIONS", texts(related), optional.clone(), None),
            Attachment::Group(group) => ("GROUP", Canon::Null, Vec::new(), Some(group.as_str())),
        };
        let more = [
            ("attachment", text(kind)),
            ("attachment_groups", texts(attachment_groups)),
            ("optional_dimensions", texts(&optional_dimensions)),
            ("related_dimensions", related),
            ("related_group", optional(group)),
            (
                "related_measures",
                related_measures
                    .as_ref()
                    .map_or(Canon::Null, |measures| texts(measures)),
            ),
        ];
        fields.extend(more.map(|(key, value)| (key.to_owned(), value)));
        Canon::Object(fields)
    }

    fn descriptor(&mut self, prefix: &str, descriptor: &Descriptor, fields: &mut Fields) {
        let Descriptor {
            annotations,
            links,
            uri,
        } = descriptor;
        fields.insert(format!("{prefix}_annotations"), self.annotations(annotations));
        fields.insert(format!("{prefix}_links"), self.links(links));
        fields.insert(format!("{prefix}_uri"), optional(uri.as_deref()));
    }

    fn data_structure(&mut self, artefact: &DataStructure) -> Fields {
        let DataStructure {
            header,
            evolving_structure,
            dimensions,
            measure_dimension,
            time_dimension,
            measures,
            attributes,
            groups,
            dimension_descriptor,
            measure_descriptor,
            attribute_descriptor,
        } = artefact;
        let mut fields = self.legacy_header("DataStructure", header);
        self.descriptor("dimension_descriptor", dimension_descriptor, &mut fields);
        self.descriptor("measure_descriptor", measure_descriptor, &mut fields);
        self.descriptor("attribute_descriptor", attribute_descriptor, &mut fields);
        self.mark_if(measure_dimension.is_some(), "measure dimension");
        self.mark_if(time_dimension.is_none(), "data structure without time");
        self.mark_if(!groups.is_empty(), "groups of a data structure");
        let groups = if groups.is_empty() {
            Canon::Null
        } else {
            Canon::List(groups.iter().map(|group| self.group(group)).collect())
        };
        let dimensions = dimensions
            .iter()
            .map(|dimension| self.dimension("Dimension", dimension))
            .collect();
        let measures = measures.iter().map(|measure| self.measure(measure)).collect();
        let attributes = attributes.iter().map(|attribute| self.attribute(attribute)).collect();
        let measure_dimension = measure_dimension
            .as_ref()
            .map_or(Canon::Null, |dimension| self.dimension("MeasureDimension", dimension));
        let time = time_dimension
            .as_ref()
            .map_or(Canon::Null, |dimension| self.time_dimension(dimension));
        let more = [
            ("attributes", Canon::List(attributes)),
            ("dimensions", Canon::List(dimensions)),
            ("evolving_structure", Canon::Bool(*evolving_structure)),
            ("groups", groups),
            ("measure_dimension", measure_dimension),
            ("measures", Canon::List(measures)),
            // Metadata structures are none of the classes an edition stores; the readers refuse a reference to one.
            ("metadata", Canon::Null),
            ("metadata_attributes", Canon::List(Vec::new())),
            ("time_dimension", time),
        ];
        fields.extend(more.map(|(key, value)| (key.to_owned(), value)));
        fields
    }

    fn group(&mut self, group: &Group) -> Canon {
        let Group {
            id,
            dimensions,
            annotations,
            links,
            uri,
        } = group;
        Canon::Object(object(
            "Group",
            [
                ("annotations", self.annotations(annotations)),
                ("dimensions", texts(dimensions)),
                ("id", text(id)),
                ("links", self.links(links)),
                ("uri", optional(uri.as_deref())),
            ],
        ))
    }

    fn dataflow(&mut self, artefact: &Dataflow) -> Fields {
        let Dataflow {
            header,
            structure,
            dimension_constraint,
        } = artefact;
        let mut fields = self.legacy_header("Dataflow", header);
        self.mark_if(!dimension_constraint.is_empty(), "dimension constraint of a dataflow");
        fields.insert("dimension_constraint".to_owned(), texts(dimension_constraint));
        fields.insert("structure".to_owned(), reference(structure));
        fields
    }

    fn data_constraint(&mut self, artefact: &DataConstraint) -> Fields {
        let DataConstraint {
            header,
            role,
            attachment,
            region,
        } = artefact;
        self.mark("class DataConstraint");
        let mut fields = self.legacy_header("DataConstraint", header);
        let role = match role {
            ConstraintRole::Allowed => "ALLOWED",
            ConstraintRole::Actual => "ACTUAL",
        };
        let region = region.as_ref().map_or(Canon::Null, |region| {
            let CubeRegion {
                annotations,
                keys,
                components,
            } = region;
            Canon::Object(object(
                "CubeRegion",
                [
                    ("annotations", self.annotations(annotations)),
                    (
                        "components",
                        Canon::Set(components.iter().map(|selection| self.selection(selection)).collect()),
                    ),
                    (
                        "keys",
                        Canon::Set(keys.iter().map(|selection| self.selection(selection)).collect()),
                    ),
                ],
            ))
        });
        fields.insert(
            "attachment".to_owned(),
            Canon::Set(attachment.iter().map(reference).collect()),
        );
        fields.insert("region".to_owned(), region);
        fields.insert("role".to_owned(), text(role));
        fields
    }

    fn selection(&mut self, selection: &Selection) -> Canon {
        let Selection {
            id,
            include,
            values,
            time_range,
        } = selection;
        let bound = |bound: &Bound| {
            let Bound { period, is_inclusive } = bound;
            Canon::Object(object(
                "Bound",
                [("is_inclusive", Canon::Bool(*is_inclusive)), ("period", text(period))],
            ))
        };
        let (after, before) = match time_range {
            None => (Canon::Null, Canon::Null),
            Some(TimeRange::Before(end)) => (Canon::Null, bound(end)),
            Some(TimeRange::After(start)) => (bound(start), Canon::Null),
            Some(TimeRange::Between(start, end)) => (bound(start), bound(end)),
        };
        Canon::Object(object(
            "Selection",
            [
                ("from", after),
                ("id", text(id)),
                ("include", Canon::Bool(*include)),
                ("to", before),
                (
                    "values",
                    Canon::Set(values.iter().map(|value| self.selected(value)).collect()),
                ),
            ],
        ))
    }

    fn selected(&mut self, value: &SelectedValue) -> Canon {
        let SelectedValue { value, cascade } = value;
        let cascade = match cascade {
            Cascade::None => "NONE",
            Cascade::Descendants => "DESCENDANTS",
            Cascade::ExcludeRoot => "EXCLUDE_ROOT",
        };
        Canon::Object(object(
            "SelectedValue",
            [("cascade", text(cascade)), ("value", text(value))],
        ))
    }

    fn hierarchy(&mut self, artefact: &Hierarchy) -> Fields {
        let Hierarchy {
            header,
            has_formal_levels,
            levels,
            tree,
        } = artefact;
        self.mark_if(*has_formal_levels || !levels.is_empty(), "levels of a hierarchy");
        self.mark_if(header.legacy_is_final.is_some(), "finality of a hierarchy");
        let mut fields = self.header("Hierarchy", header);
        self.finality(header, &mut fields);
        fields.insert("has_formal_levels".to_owned(), Canon::Bool(*has_formal_levels));
        fields.insert("levels".to_owned(), self.items("Level", levels));
        let tree = tree.iter().map(|code| self.hierarchical_code(code)).collect();
        fields.insert("tree".to_owned(), Canon::List(tree));
        fields
    }

    /// The reference library's classes of SDMX 3.0 have no finality; a file that states one all the same isn't cut short.
    fn finality(&mut self, header: &Header, fields: &mut Fields) {
        if let Some(is_final) = header.legacy_is_final {
            fields.insert("legacy_is_final".to_owned(), Canon::Bool(is_final));
        }
    }

    fn hierarchical_code(&mut self, code: &HierarchicalCode) -> Canon {
        let HierarchicalCode {
            id,
            code,
            level,
            version,
            children,
            annotations,
            links,
            uri,
            valid_from,
            valid_to,
        } = code;
        self.mark_if(level.is_some(), "levels of a hierarchy");
        self.mark_if(version.is_some(), "version of a placed code");
        let children = children.iter().map(|child| self.hierarchical_code(child)).collect();
        Canon::Object(object(
            "HierarchicalCode",
            [
                ("annotations", self.annotations(annotations)),
                ("children", Canon::List(children)),
                ("code", reference(code)),
                ("id", text(id)),
                ("level", optional(level.as_deref())),
                ("links", self.links(links)),
                ("uri", optional(uri.as_deref())),
                ("valid_from", self.instant(valid_from.as_ref())),
                ("valid_to", self.instant(valid_to.as_ref())),
                ("version", optional(version.as_deref())),
            ],
        ))
    }

    fn hierarchy_association(&mut self, artefact: &HierarchyAssociation) -> Fields {
        let HierarchyAssociation {
            header,
            linked_hierarchy,
            linked_object,
            context_object,
        } = artefact;
        self.mark_if(header.legacy_is_final.is_some(), "finality of a hierarchy");
        self.mark_if(context_object.is_some(), "context of a hierarchy association");
        let mut fields = self.header("HierarchyAssociation", header);
        self.finality(header, &mut fields);
        fields.insert(
            "context_object".to_owned(),
            context_object.as_ref().map_or(Canon::Null, reference),
        );
        fields.insert("linked_hierarchy".to_owned(), reference(linked_hierarchy));
        fields.insert("linked_object".to_owned(), reference(linked_object));
        fields
    }
}
