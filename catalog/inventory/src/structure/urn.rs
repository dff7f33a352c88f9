//! SDMX URNs: names of artefacts and of the items in them, with pinned versions.

use std::{fmt, str::FromStr};

/// Longest URN taken. Real ones stay below 300 bytes; the bound keeps a hostile file from making us hold long names.
pub const URN_BYTES_MAX: usize = 1024;
/// Longest version taken.
pub const VERSION_BYTES_MAX: usize = 64;

const PREFIX: &str = "urn:sdmx:org.sdmx.infomodel.";

/// Why a text is no URN we take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrnError {
    /// The text doesn't follow the grammar.
    #[error("`{text}` is no SDMX URN: {why}")]
    Malformed {
        /// The text, shortened.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The class is known and belongs to another package.
    #[error("`{text}` puts class {class} in package `{found}`, but it belongs to `{expected}`")]
    WrongPackage {
        /// The URN.
        text: String,
        /// The class named.
        class: &'static str,
        /// The package the text names.
        found: String,
        /// The package of the class.
        expected: &'static str,
    },
    /// The version is a range, a wildcard or a word, so that it names no one artefact.
    #[error("INV-88: `{text}` has the version `{version}`, which pins nothing; an edition stores pinned versions only")]
    NotPinned {
        /// The URN or reference.
        text: String,
        /// The version part.
        version: String,
    },
    /// The version is missing where one artefact has to be named.
    #[error("INV-88: `{text}` names no version, so it can't name a stored artefact")]
    NoVersion {
        /// The URN.
        text: String,
    },
    /// The URN names something else than a maintainable artefact of the classes an edition stores.
    #[error("`{text}` names no artefact an edition stores")]
    NotAnArtefact {
        /// The URN.
        text: String,
    },
}

/// Whether SDMX guarantees that the artefact never changes under its URN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stability {
    /// A three-part version without extension and with a major version of at least 1.
    Semantic,
    /// Any other version: the artefact may be edited in place, and only its fingerprint tells.
    Legacy,
}

/// A pinned artefact version, as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(Box<str>);

impl Version {
    /// Reads a pinned version: digits in parts, and for three parts an optional `-extension`.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > VERSION_BYTES_MAX {
            return Err("the version is too long");
        }
        let (numbers, extension) = match text.split_once('-') {
            Some((numbers, extension)) => (numbers, Some(extension)),
            None => (text, None),
        };
        let parts: Vec<&str> = numbers.split('.').collect();
        if !parts
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
        {
            return Err("a version is numbers separated by dots");
        }
        if let Some(extension) = extension {
            if parts.len() != 3 {
                return Err("only a three-part version has an extension");
            }
            let fine = extension
                .split('.')
                .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
            if !fine {
                return Err("a version extension is letters, digits and hyphens separated by dots");
            }
        }
        Ok(Self(text.into()))
    }

    /// The version as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// INV-53: semantic only for three parts without extension and a major version of at least 1.
    ///
    /// A part with a leading zero is no semantic version number, so it counts as legacy: the safe side, since a legacy
    /// artefact is compared by fingerprint.
    pub fn stability(&self) -> Stability {
        let parts: Vec<&str> = self.0.split('.').collect();
        let number =
            |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit()) && (part.len() == 1 || !part.starts_with('0'));
        if parts.len() == 3 && parts.iter().all(number) && parts[0] != "0" {
            Stability::Semantic
        } else {
            Stability::Legacy
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! classes {
    ($($variant:ident $package:literal $name:literal $owner:expr, [$($alias:literal),*];)*) => {
        /// A class of the information model that an edition stores, as an artefact or as an item of one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Class { $(#[doc = concat!("`", $package, ".", $name, "`.")] $variant,)* }

        impl Class {
            /// All classes.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The class's name in a URN.
            pub const fn name(self) -> &'static str { match self { $(Self::$variant => $name,)* } }

            /// The package the class's URNs name.
            pub const fn package(self) -> &'static str { match self { $(Self::$variant => $package,)* } }

            /// The class of the artefact that holds items of this class; `None` for an artefact.
            pub const fn owner(self) -> Option<Self> { match self { $(Self::$variant => $owner,)* } }

            /// The class a name stands for, older spellings included (INV-121: they fold).
            fn of_name(name: &str) -> Option<Self> {
                match name { $($name $(| $alias)* => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

classes! {
    AgencyScheme "base" "AgencyScheme" None, [];
    Agency "base" "Agency" Some(Self::AgencyScheme), [];
    Codelist "codelist" "Codelist" None, [];
    Code "codelist" "Code" Some(Self::Codelist), [];
    ConceptScheme "conceptscheme" "ConceptScheme" None, [];
    Concept "conceptscheme" "Concept" Some(Self::ConceptScheme), [];
    DataStructure "datastructure" "DataStructure" None, ["DataStructureDefinition", "KeyFamily"];
    DimensionDescriptor "datastructure" "DimensionDescriptor" Some(Self::DataStructure), [];
    Dimension "datastructure" "Dimension" Some(Self::DataStructure), [];
    MeasureDimension "datastructure" "MeasureDimension" Some(Self::DataStructure), [];
    TimeDimension "datastructure" "TimeDimension" Some(Self::DataStructure), [];
    AttributeDescriptor "datastructure" "AttributeDescriptor" Some(Self::DataStructure), [];
    DataAttribute "datastructure" "DataAttribute" Some(Self::DataStructure), ["Attribute"];
    MeasureDescriptor "datastructure" "MeasureDescriptor" Some(Self::DataStructure), [];
    Measure "datastructure" "Measure" Some(Self::DataStructure), ["PrimaryMeasure"];
    GroupDimensionDescriptor "datastructure" "GroupDimensionDescriptor" Some(Self::DataStructure), [];
    Dataflow "datastructure" "Dataflow" None, ["DataflowDefinition"];
    DataConstraint "registry" "DataConstraint" None, ["ContentConstraint"];
    Hierarchy "codelist" "Hierarchy" None, [];
    Level "codelist" "Level" Some(Self::Hierarchy), [];
    HierarchicalCode "codelist" "HierarchicalCode" Some(Self::Hierarchy), [];
    HierarchyAssociation "codelist" "HierarchyAssociation" None, [];
}

/// Whether `text` is an SDMX identifier.
pub(crate) fn is_id(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'@' | b'$' | b'-'))
}

/// Whether `text` is an agency: identifiers that start with a letter, separated by dots.
pub(crate) fn is_agency(text: &str) -> bool {
    text.split('.').all(|part| {
        part.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    })
}

/// A reference: a URN of an artefact or of an item, with a pinned version or with none.
///
/// Two spellings of one target are different references (the canonical text holds the spelling), so compare targets
/// with [`Urn::target`].
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Urn {
    text: Box<str>,
    class: Option<Class>,
    class_name: Box<str>,
    agency: Box<str>,
    id: Box<str>,
    version: Option<Version>,
    path: Option<Box<str>>,
}

impl Urn {
    /// Reads a reference.
    pub fn parse(text: &str) -> Result<Self, UrnError> {
        let fail = |why| UrnError::Malformed {
            text: shorten(text),
            why,
        };
        if text.len() > URN_BYTES_MAX {
            return Err(fail("it is too long"));
        }
        let rest = text
            .strip_prefix(PREFIX)
            .ok_or_else(|| fail("it doesn't begin with `urn:sdmx:org.sdmx.infomodel.`"))?;
        let (class_path, name) = rest
            .split_once('=')
            .ok_or_else(|| fail("it has no `=` after the class"))?;
        let (package, class_name) = class_path
            .split_once('.')
            .ok_or_else(|| fail("the class has no package"))?;
        let word = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !word(package) || !word(class_name) {
            return Err(fail("package and class are letters and digits"));
        }
        let (agency, rest) = name
            .split_once(':')
            .ok_or_else(|| fail("it has no `:` after the agency"))?;
        if !is_agency(agency) {
            return Err(fail("the agency is no dotted name"));
        }
        let (id, version, path) = match rest.split_once('(') {
            Some((id, rest)) => {
                let (version, rest) = rest
                    .split_once(')')
                    .ok_or_else(|| fail("the version is not closed by `)`"))?;
                let path = match rest {
                    "" => None,
                    rest => Some(
                        rest.strip_prefix('.')
                            .ok_or_else(|| fail("after the version comes a dot or nothing"))?,
                    ),
                };
                (id, Some(version), path)
            }
            None => match rest.split_once('.') {
                Some((id, path)) => (id, None, Some(path)),
                None => (rest, None, None),
            },
        };
        if !is_id(id) {
            return Err(fail("the artefact's id is no identifier"));
        }
        if path.is_some_and(|path| !path.split('.').all(is_id)) {
            return Err(fail("the item's path is no dotted list of identifiers"));
        }
        let version = match version {
            None => None,
            Some(version) if is_range(version) => {
                return Err(UrnError::NotPinned {
                    text: text.to_owned(),
                    version: version.to_owned(),
                });
            }
            Some(version) => Some(Version::parse(version).map_err(fail)?),
        };
        let class = Class::of_name(class_name);
        if let Some(class) = class {
            if class.package() != package {
                return Err(UrnError::WrongPackage {
                    text: text.to_owned(),
                    class: class.name(),
                    found: package.to_owned(),
                    expected: class.package(),
                });
            }
            if class.owner().is_some() != path.is_some() {
                return Err(fail("an item has a path after its artefact, an artefact has none"));
            }
        }
        Ok(Self {
            text: text.into(),
            class,
            class_name: class_path.into(),
            agency: agency.into(),
            id: id.into(),
            version,
            path: path.map(Into::into),
        })
    }

    /// The URN of an item of `artefact`.
    pub(crate) fn item(artefact: &ArtefactUrn, class: Class, path: &str) -> Self {
        let version = artefact.version();
        let text = format!(
            "{PREFIX}{}.{}={}:{}({version}).{path}",
            class.package(),
            class.name(),
            artefact.agency(),
            artefact.id()
        );
        Self {
            text: text.into(),
            class: Some(class),
            class_name: format!("{}.{}", class.package(), class.name()).into(),
            agency: artefact.agency().into(),
            id: artefact.id().into(),
            version: Some(version.clone()),
            path: Some(path.into()),
        }
    }

    /// The text, as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The class, when it is one an edition stores.
    pub fn class(&self) -> Option<Class> {
        self.class
    }

    /// The version, when the reference names one.
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    /// The item inside the artefact, for an item.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// The artefact's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The artefact's agency.
    pub fn agency(&self) -> &str {
        &self.agency
    }

    /// What the reference points at, one spelling per target, its version apart.
    pub fn target(&self) -> Target {
        let class = self
            .class
            .map_or_else(|| self.class_name.clone(), |class| class.name().into());
        Target {
            class,
            agency: self.agency.clone(),
            id: self.id.clone(),
            path: self.path.clone(),
        }
    }

    /// What the artefact this reference points at, or into, is called.
    pub fn owner(&self) -> Target {
        match self.class.and_then(Class::owner) {
            Some(owner) => Target {
                class: owner.name().into(),
                path: None,
                ..self.target()
            },
            None => Target {
                path: None,
                ..self.target()
            },
        }
    }
}

/// A reference's target without its version, in the one spelling of its class.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    class: Box<str>,
    agency: Box<str>,
    id: Box<str>,
    path: Option<Box<str>>,
}

impl FromStr for Urn {
    type Err = UrnError;

    fn from_str(text: &str) -> Result<Self, UrnError> {
        Self::parse(text)
    }
}

impl fmt::Display for Urn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Urn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Urn({})", self.text)
    }
}

/// The pinned URN of one maintainable artefact, in the one spelling of its class.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArtefactUrn {
    urn: Urn,
    class: Class,
    version: Version,
}

impl ArtefactUrn {
    /// INV-88: reads the URN of a stored artefact; refuses items, unknown classes and versions that pin nothing.
    pub fn parse(text: &str) -> Result<Self, UrnError> {
        let urn = Urn::parse(text)?;
        let Some(version) = urn.version else {
            return Err(UrnError::NoVersion { text: text.to_owned() });
        };
        match urn.class {
            Some(class) if class.owner().is_none() => Ok(Self::build(class, &urn.agency, &urn.id, version)),
            _ => Err(UrnError::NotAnArtefact { text: text.to_owned() }),
        }
    }

    /// The URN of an artefact from the parts a message gives.
    pub fn new(class: Class, agency: &str, id: &str, version: &str) -> Result<Self, UrnError> {
        let text = format!("{PREFIX}{}.{}={agency}:{id}({version})", class.package(), class.name());
        let urn = Self::parse(&text)?;
        // A crafted id could hold the separators and so shift the parts; then the text names something else.
        if urn.agency() != agency || urn.id() != id {
            return Err(UrnError::Malformed {
                text: shorten(&text),
                why: "agency or id holds a separator",
            });
        }
        Ok(urn)
    }

    fn build(class: Class, agency: &str, id: &str, version: Version) -> Self {
        let text = format!("{PREFIX}{}.{}={agency}:{id}({version})", class.package(), class.name());
        let urn = Urn {
            text: text.into(),
            class: Some(class),
            class_name: format!("{}.{}", class.package(), class.name()).into(),
            agency: agency.into(),
            id: id.into(),
            version: Some(version.clone()),
            path: None,
        };
        Self { urn, class, version }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.urn.text
    }

    /// The reference that names this artefact.
    pub fn as_urn(&self) -> &Urn {
        &self.urn
    }

    /// The artefact's class.
    pub fn class(&self) -> Class {
        self.class
    }

    /// The agency that maintains the artefact.
    pub fn agency(&self) -> &str {
        &self.urn.agency
    }

    /// The artefact's id.
    pub fn id(&self) -> &str {
        &self.urn.id
    }

    /// The pinned version.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// INV-53: what SDMX guarantees for this version.
    pub fn stability(&self) -> Stability {
        self.version().stability()
    }
}

impl fmt::Display for ArtefactUrn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl serde::Serialize for ArtefactUrn {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for ArtefactUrn {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

fn is_range(version: &str) -> bool {
    version.contains(['+', '*', '~']) || matches!(version, "latest" | "all" | "LATEST" | "ALL")
}

/// The start of a text that is being refused, so that an error stays readable.
pub(crate) fn shorten(text: &str) -> String {
    const SHOWN: usize = 160;
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
