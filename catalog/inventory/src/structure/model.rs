//! The ten classes of artefacts and items an edition stores, as values.
//!
//! These types say what a message said and promise nothing: a code may name a parent that isn't there. [`super::Structures`]
//! is the checked form.

use chrono::{DateTime, Utc};

use super::{
    language::LocalisedText,
    urn::{ArtefactUrn, Class, Urn},
};

/// A remark on an artefact, an item or a component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Annotation {
    /// Its id.
    pub id: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// What kind of remark it is.
    pub kind: Option<String>,
    /// A value that is the same in all languages.
    pub value: Option<String>,
    /// The remark itself.
    pub text: LocalisedText,
    /// Where more is said.
    pub urls: Vec<String>,
}

/// A link to something outside the structures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// The relation.
    pub rel: Option<String>,
    /// Where it leads.
    pub href: Option<String>,
    /// The SDMX name of what it leads to.
    pub urn: Option<String>,
    /// A uniform identifier of what it leads to.
    pub uri: Option<String>,
    /// A title.
    pub title: Option<String>,
    /// A media type.
    pub media_type: Option<String>,
    /// The language of what it leads to.
    pub language: Option<String>,
}

/// What every maintainable artefact has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The pinned name.
    pub urn: ArtefactUrn,
    /// Names by language.
    pub name: LocalisedText,
    /// Descriptions by language.
    pub description: LocalisedText,
    /// Remarks.
    pub annotations: Vec<Annotation>,
    /// Links, the one to itself apart.
    pub links: Vec<Link>,
    /// A uniform identifier.
    pub uri: Option<String>,
    /// Where the artefact can be had as a file.
    pub structure_url: Option<String>,
    /// Where a service has it.
    pub service_url: Option<String>,
    /// Whether the content is elsewhere.
    pub is_external_reference: bool,
    /// Whether some languages were left out.
    pub is_partial_language: bool,
    /// SDMX 2.1's `isFinal`.
    pub legacy_is_final: Option<bool>,
    /// Valid from this instant.
    pub valid_from: Option<DateTime<Utc>>,
    /// Valid to this instant.
    pub valid_to: Option<DateTime<Utc>>,
}

impl Header {
    /// A header that says nothing but its name.
    pub fn new(urn: ArtefactUrn) -> Self {
        Self {
            urn,
            name: LocalisedText::default(),
            description: LocalisedText::default(),
            annotations: Vec::new(),
            links: Vec::new(),
            uri: None,
            structure_url: None,
            service_url: None,
            is_external_reference: false,
            is_partial_language: false,
            legacy_is_final: None,
            valid_from: None,
            valid_to: None,
        }
    }
}

/// What every item of a scheme has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Item {
    /// Its id, unique in its scheme.
    pub id: String,
    /// The item above it, by id.
    pub parent: Option<String>,
    /// Names by language.
    pub name: LocalisedText,
    /// Descriptions by language.
    pub description: LocalisedText,
    /// Remarks.
    pub annotations: Vec<Annotation>,
    /// Links, the one to itself apart.
    pub links: Vec<Link>,
    /// A uniform identifier.
    pub uri: Option<String>,
}

/// A list of the agencies below one agency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgencyScheme {
    /// Name and the like.
    pub header: Header,
    /// Whether agencies were left out.
    pub is_partial: bool,
    /// The agencies.
    pub agencies: Vec<Item>,
}

/// A codelist: codes, in order, each perhaps below another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Codelist {
    /// Name and the like.
    pub header: Header,
    /// Whether codes were left out.
    pub is_partial: bool,
    /// The codes.
    pub codes: Vec<Item>,
    /// Codelists whose codes this one takes over.
    pub extensions: Vec<CodelistExtension>,
}

/// Codes taken over from another codelist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodelistExtension {
    /// The codelist they come from.
    pub codelist: Urn,
    /// Put before each id.
    pub prefix: Option<String>,
    /// Which codes; all when absent.
    pub selection: Option<CodeSelection>,
}

/// Which codes of an extended codelist are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeSelection {
    /// Whether the codes named are taken over (and not left out).
    pub include: bool,
    /// Codes, or patterns ended by `%`.
    pub values: Vec<SelectedValue>,
}

/// A concept scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConceptScheme {
    /// Name and the like.
    pub header: Header,
    /// Whether concepts were left out.
    pub is_partial: bool,
    /// The concepts.
    pub concepts: Vec<Concept>,
}

/// A concept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Concept {
    /// Id, parent, names.
    pub item: Item,
    /// How its values look where a component says nothing else.
    pub core: Coding,
    /// The ISO 11179 concept it stands for.
    pub iso_concept_reference: Option<IsoConceptReference>,
}

/// A concept of an ISO 11179 registry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IsoConceptReference {
    /// The agency.
    pub agency: Option<String>,
    /// The scheme.
    pub scheme: Option<String>,
    /// The concept.
    pub concept: Option<String>,
}

/// How values are represented, and how many there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coding {
    /// What the values are; absent when nothing is said.
    pub representation: Option<Representation>,
    /// The form of enumerated values.
    pub enumeration_format: Option<Facet>,
    /// The fewest values of one cell.
    pub min_occurs: u32,
    /// The most values of one cell.
    pub max_occurs: Occurs,
}

impl Default for Coding {
    fn default() -> Self {
        Self {
            representation: None,
            enumeration_format: None,
            min_occurs: 1,
            max_occurs: Occurs::AtMost(1),
        }
    }
}

/// How many values a cell may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occurs {
    /// At most so many.
    AtMost(u32),
    /// Any number.
    Unbounded,
}

/// What values are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "one a component; a box would stand in every match"
)]
pub enum Representation {
    /// Codes of a codelist.
    Enumeration(Urn),
    /// Text of a form.
    Facet(Facet),
}

/// The form of uncoded values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facet {
    /// The data type.
    pub data_type: Option<String>,
    /// Whether values form a sequence.
    pub is_sequence: Option<bool>,
    /// Whether values are texts by language.
    pub is_multilingual: bool,
    /// The step of a sequence.
    pub interval: Option<Decimal>,
    /// Its first value.
    pub start_value: Option<Decimal>,
    /// Its last value.
    pub end_value: Option<Decimal>,
    /// The step of a sequence of times.
    pub time_interval: Option<String>,
    /// Its first time.
    pub start_time: Option<String>,
    /// Its last time.
    pub end_time: Option<String>,
    /// The fewest characters.
    pub min_length: Option<u64>,
    /// The most characters.
    pub max_length: Option<u64>,
    /// The least value.
    pub min_value: Option<Decimal>,
    /// The greatest value.
    pub max_value: Option<Decimal>,
    /// How many decimals.
    pub decimals: Option<u64>,
    /// A pattern values match.
    pub pattern: Option<String>,
    /// Values with a meaning of their own.
    pub sentinel_values: Vec<SentinelValue>,
}

/// A value with a meaning of its own, such as one that stands for "missing".
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentinelValue {
    /// The value.
    pub value: String,
    /// What it is called.
    pub name: LocalisedText,
    /// What it means.
    pub description: LocalisedText,
}

/// A finite decimal number in one spelling, so that two formats give one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decimal(String);

impl Decimal {
    /// INV-80: reads a finite decimal; `INF` and `NaN` have no canonical text and are refused.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > 64 {
            return Err("the number is too long");
        }
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("", text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = rest.split_once('.').unwrap_or((rest, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
            return Err("INV-80: a number is finite and written in decimal digits");
        }
        let whole = whole.trim_start_matches('0');
        let fraction = fraction.trim_end_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        let sign = if whole == "0" && fraction.is_empty() { "" } else { sign };
        let point = if fraction.is_empty() { "" } else { "." };
        Ok(Self(format!("{sign}{whole}{point}{fraction}")))
    }

    /// The number's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What every component of a data structure has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Its id, which is its column's name.
    pub id: String,
    /// The concept it takes its meaning from.
    pub concept: Urn,
    /// Concepts that say what part it plays.
    pub concept_role: Vec<Urn>,
    /// Its representation, when it differs from the concept's.
    pub local: Coding,
    /// Remarks.
    pub annotations: Vec<Annotation>,
    /// Links, the one to itself apart.
    pub links: Vec<Link>,
    /// A uniform identifier.
    pub uri: Option<String>,
}

/// Whether a value has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// It has to be.
    Mandatory,
    /// It may be missing.
    Optional,
}

/// A measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    /// Id, concept, representation.
    pub component: Component,
    /// Whether a value has to be there.
    pub usage: Usage,
}

/// An attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// Id, concept, representation.
    pub component: Component,
    /// Whether a value has to be there.
    pub usage: Usage,
    /// What its values describe.
    pub attachment: Attachment,
    /// Groups it is attached to besides.
    pub attachment_groups: Vec<String>,
    /// The measures it describes; all when absent.
    pub related_measures: Option<Vec<String>>,
}

/// What an attribute's values describe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attachment {
    /// A single observation.
    Observation,
    /// The whole dataflow.
    Dataflow,
    /// The combinations of some dimensions.
    Dimensions {
        /// The dimensions.
        related: Vec<String>,
        /// Those of them that may be left out.
        optional: Vec<String>,
    },
    /// A group of the data structure.
    Group(String),
}

/// A named part of the key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// Its id.
    pub id: String,
    /// Its dimensions.
    pub dimensions: Vec<String>,
    /// Remarks.
    pub annotations: Vec<Annotation>,
    /// Links, the one to itself apart.
    pub links: Vec<Link>,
    /// A uniform identifier.
    pub uri: Option<String>,
}

/// Remarks on one of the lists of a data structure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Remarks.
    pub annotations: Vec<Annotation>,
    /// Links, the one to itself apart.
    pub links: Vec<Link>,
    /// A uniform identifier.
    pub uri: Option<String>,
}

/// A data structure: what columns a dataflow's observations have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataStructure {
    /// Name and the like.
    pub header: Header,
    /// Whether the structure may grow within its version (SDMX 3.1).
    pub evolving_structure: bool,
    /// The dimensions, the one of time apart, in key order.
    pub dimensions: Vec<Component>,
    /// SDMX 2.1's dimension that selects a measure.
    pub measure_dimension: Option<Component>,
    /// The dimension of time.
    pub time_dimension: Option<Component>,
    /// The measures.
    pub measures: Vec<Measure>,
    /// The attributes.
    pub attributes: Vec<Attribute>,
    /// The groups.
    pub groups: Vec<Group>,
    /// On the list of dimensions.
    pub dimension_descriptor: Descriptor,
    /// On the list of measures.
    pub measure_descriptor: Descriptor,
    /// On the list of attributes.
    pub attribute_descriptor: Descriptor,
}

impl DataStructure {
    /// All components with their classes, in the order of the text.
    pub fn components(&self) -> impl Iterator<Item = (Class, &Component)> {
        let dimensions = self.dimensions.iter().map(|dimension| (Class::Dimension, dimension));
        let measure_dimension = self
            .measure_dimension
            .iter()
            .map(|dimension| (Class::MeasureDimension, dimension));
        let time = self
            .time_dimension
            .iter()
            .map(|dimension| (Class::TimeDimension, dimension));
        let measures = self.measures.iter().map(|measure| (Class::Measure, &measure.component));
        let attributes = self
            .attributes
            .iter()
            .map(|attribute| (Class::DataAttribute, &attribute.component));
        dimensions
            .chain(measure_dimension)
            .chain(time)
            .chain(measures)
            .chain(attributes)
    }
}

/// A dataflow: data published under one data structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataflow {
    /// Name and the like.
    pub header: Header,
    /// Its data structure.
    pub structure: Urn,
    /// Dimensions the flow leaves out (SDMX 3.1).
    pub dimension_constraint: Vec<String>,
}

/// Whether a constraint says what may be there or what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConstraintRole {
    /// What may be reported.
    Allowed,
    /// What is there.
    Actual,
}

/// A constraint on the content of dataflows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataConstraint {
    /// Name and the like.
    pub header: Header,
    /// What the constraint says.
    pub role: ConstraintRole,
    /// What it is attached to.
    pub attachment: Vec<Urn>,
    /// The part of the cube it describes.
    pub region: Option<CubeRegion>,
}

/// A part of the cube, by component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CubeRegion {
    /// Remarks.
    pub annotations: Vec<Annotation>,
    /// Dimensions and the values selected.
    pub keys: Vec<Selection>,
    /// Attributes and measures and the values selected.
    pub components: Vec<Selection>,
}

/// The values of one component that are selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The component's id.
    pub id: String,
    /// Whether the values are in the region, or everything but them.
    pub include: bool,
    /// The values.
    pub values: Vec<SelectedValue>,
    /// The times, for a dimension of time.
    pub time_range: Option<TimeRange>,
}

/// A value that is selected, perhaps with what lies below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedValue {
    /// The value.
    pub value: String,
    /// Whether codes below it are selected too.
    pub cascade: Cascade,
}

/// Whether codes below a selected one are selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cascade {
    /// The code alone.
    None,
    /// The code and all below it.
    Descendants,
    /// All below the code and not the code.
    ExcludeRoot,
}

/// A range of times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimeRange {
    /// All before a period.
    Before(Bound),
    /// All after a period.
    After(Bound),
    /// From one period to another.
    Between(Bound, Bound),
}

/// One end of a range of times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The period.
    pub period: String,
    /// Whether the period belongs to the range.
    pub is_inclusive: bool,
}

/// A hierarchy: codes of one or more codelists, placed in a tree of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Name and the like.
    pub header: Header,
    /// Whether the tree's levels have a meaning.
    pub has_formal_levels: bool,
    /// The levels, from the top.
    pub levels: Vec<Item>,
    /// The tree.
    pub tree: Vec<HierarchicalCode>,
}

/// A code placed in a hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HierarchicalCode {
    /// Its id in the hierarchy.
    pub id: String,
    /// The code placed.
    pub code: Urn,
    /// The level it stands at.
    pub level: Option<String>,
    /// A version of the placement.
    pub version: Option<String>,
    /// The codes below it.
    pub children: Vec<Self>,
    /// Remarks.
    pub annotations: Vec<Annotation>,
    /// Links, the one to itself apart.
    pub links: Vec<Link>,
    /// A uniform identifier.
    pub uri: Option<String>,
    /// Valid from this instant.
    pub valid_from: Option<DateTime<Utc>>,
    /// Valid to this instant.
    pub valid_to: Option<DateTime<Utc>>,
}

/// Says for what a hierarchy is to be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HierarchyAssociation {
    /// Name and the like.
    pub header: Header,
    /// The hierarchy.
    pub linked_hierarchy: Urn,
    /// What it is used for.
    pub linked_object: Urn,
    /// Where it is used for that.
    pub context_object: Option<Urn>,
}

/// One artefact of the classes an edition stores.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
#[expect(
    clippy::large_enum_variant,
    reason = "a set has few data structures, and each artefact is held once"
)]
pub enum Artefact {
    AgencyScheme(AgencyScheme),
    Codelist(Codelist),
    ConceptScheme(ConceptScheme),
    DataConstraint(DataConstraint),
    DataStructure(DataStructure),
    Dataflow(Dataflow),
    Hierarchy(Hierarchy),
    HierarchyAssociation(HierarchyAssociation),
}

impl Artefact {
    /// Name and the like.
    pub fn header(&self) -> &Header {
        match self {
            Self::AgencyScheme(artefact) => &artefact.header,
            Self::Codelist(artefact) => &artefact.header,
            Self::ConceptScheme(artefact) => &artefact.header,
            Self::DataConstraint(artefact) => &artefact.header,
            Self::DataStructure(artefact) => &artefact.header,
            Self::Dataflow(artefact) => &artefact.header,
            Self::Hierarchy(artefact) => &artefact.header,
            Self::HierarchyAssociation(artefact) => &artefact.header,
        }
    }

    /// The pinned URN.
    pub fn urn(&self) -> &ArtefactUrn {
        &self.header().urn
    }

    /// The class, whatever the URN says.
    pub fn class(&self) -> Class {
        match self {
            Self::AgencyScheme(_) => Class::AgencyScheme,
            Self::Codelist(_) => Class::Codelist,
            Self::ConceptScheme(_) => Class::ConceptScheme,
            Self::DataConstraint(_) => Class::DataConstraint,
            Self::DataStructure(_) => Class::DataStructure,
            Self::Dataflow(_) => Class::Dataflow,
            Self::Hierarchy(_) => Class::Hierarchy,
            Self::HierarchyAssociation(_) => Class::HierarchyAssociation,
        }
    }

    /// Whether items were left out.
    pub fn is_partial(&self) -> bool {
        match self {
            Self::AgencyScheme(artefact) => artefact.is_partial,
            Self::Codelist(artefact) => artefact.is_partial,
            Self::ConceptScheme(artefact) => artefact.is_partial,
            _ => false,
        }
    }
}
