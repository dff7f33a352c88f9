//! `manifest.json` 3.0: what an edition is made of.

use std::{collections::BTreeMap, fmt, str::FromStr};

use super::{
    error::{DocError, DocKind, Problem, Refused, ascending, disagree},
    fields::{Fields, boolean, count, keep, list, nullable, object, string, text},
    id::{CleanText, EditionId, IdError, ProductId, Sha256, json_text},
    instant::Instant,
    journal::{check_previous, named},
    json::{Json, JsonObject},
    layout,
    leaf::{ArtefactFingerprint, Routing, word, words},
    root::{Producer, read_producer, write_producer},
    stored::JsonDocument,
    urn::Urn,
    version::FormatVersion,
};

/// `products/<product_id>/<edition_id>/manifest.json`, format 3.
///
/// Keys are written in the order `format_version`, `product_id`, `edition_id`, `previous`, `created_at`, `producer`,
/// `schema_version`, the engine versions, `data_path`, `files`, `bindings`, `artefacts`, `canonical_form`,
/// `content_fingerprint`, `producer_fields`, `extensions`, then the unknown ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// INV-35: `3.x`.
    pub format_version: FormatVersion,
    /// INV-36: the product this edition belongs to.
    pub product_id: ProductId,
    /// INV-37: this edition, which names its directory.
    pub edition_id: EditionId,
    /// INV-38: the edition it was built from.
    pub previous: Option<EditionId>,
    /// INV-39: when it was sealed.
    pub created_at: Instant,
    /// INV-39: by what.
    pub producer: Producer,
    /// INV-56: the store schema it was written at.
    pub schema_version: CleanText,
    /// INV-42: versions of the engine that wrote its DuckDB files.
    pub engine: EngineVersions,
    /// INV-56: its files, sorted by root, then path.
    pub files: Vec<FileEntry>,
    /// INV-51: its tables.
    pub bindings: Vec<Binding>,
    /// INV-45: every maintainable artefact it holds, sorted by URN.
    pub artefacts: Vec<ArtefactRecord>,
    /// INV-40: the version of the canonical text the fingerprints hash.
    pub canonical_form: CleanText,
    /// INV-41: the product fingerprint.
    pub content_fingerprint: Option<Sha256>,
    /// INV-46: what the producer records for itself.
    pub producer_fields: JsonObject,
    /// Sections keyed by package.
    pub extensions: JsonObject,
    /// Fields this build does not know.
    pub extra: JsonObject,
}

/// INV-42: versions of DuckDB and DuckLake. All are required where the edition holds a file of that kind and absent where
/// it holds none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineVersions {
    /// The DuckDB release that wrote the DuckDB files.
    pub duckdb_version: Option<CleanText>,
    /// The storage version of those files.
    pub duckdb_storage_version: Option<CleanText>,
    /// The DuckLake extension that wrote the table catalogue.
    pub ducklake_version: Option<CleanText>,
    /// The DuckLake spec version recorded in it.
    pub ducklake_spec_version: Option<CleanText>,
}

words! {
    /// INV-47: what a file's path is relative to. Files are sorted in this order.
    FileRoot {
        /// `data_path`: files every edition of the product shares.
        Data = "data",
        /// The edition's directory.
        Edition = "edition",
    }
}

words! {
    /// INV-48: when a reader needs a file.
    Tier {
        /// Before the edition is opened.
        Required = "required",
        /// On first use.
        Lazy = "lazy",
        /// By byte range from where it lies.
        Remote = "remote",
    }
}

words! {
    /// INV-53: what an artefact's version promises.
    Stability {
        /// What carries the version never changes.
        Semantic = "semantic",
        /// It may, so its fingerprint is compared at release.
        Legacy = "legacy",
    }
}

/// One file of an edition. Keys: `path`, `size`, `root`, `tier`, `digests`, `carried_from`, then the unknown ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Its path below its root.
    pub path: FilePath,
    /// Its size in bytes.
    pub size: u64,
    /// What the path is relative to.
    pub root: FileRoot,
    /// When it is needed.
    pub tier: Tier,
    /// Its digests.
    pub digests: Digests,
    /// INV-50: the edition whose manifest the digests were carried from.
    pub carried_from: Option<EditionId>,
    /// Fields this build does not know.
    pub extra: JsonObject,
}

/// A relative path that stays below its root: parts separated by `/`, none of them empty, `.` or `..`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath(String);

impl FilePath {
    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FilePath {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let part = |part: &str| {
            let plain = !part
                .chars()
                .any(|character| character.is_control() || character == '\\' || character == ':');
            !part.is_empty() && part != "." && part != ".." && plain
        };
        if text.split('/').all(part) {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError::new("a relative path below its root", text))
        }
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FilePath({})", self.0)
    }
}

json_text!(FilePath);

/// The name of a digest algorithm: lower-case letters, digits, `-` and `_`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DigestAlgorithm(String);

impl DigestAlgorithm {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DigestAlgorithm {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
        if (1..=32).contains(&text.len()) && text.bytes().all(known) {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError::new("a digest algorithm (a-z 0-9 - _)", text))
        }
    }
}

impl fmt::Display for DigestAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DigestAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// INV-49: a file's digests: `sha256` always, and any other a store keeps. Written sorted by name, as lower-case hex.
///
/// The lengths of the ones this project computes are checked: `sha256`, `md5`, `crc32c`, and `blake3`, which is the
/// `storage_id` of a data object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digests {
    sha256: Sha256,
    others: BTreeMap<DigestAlgorithm, String>,
}

impl Digests {
    /// Digests a writer records for every file; a data object has its `blake3` beside them.
    const WRITTEN: [&'static str; 2] = ["md5", "crc32c"];

    /// A file with this hash and no other digest yet.
    pub fn new(sha256: Sha256) -> Self {
        Self {
            sha256,
            others: BTreeMap::new(),
        }
    }

    /// The same digests and one more, given as bytes; a wrong length for a known algorithm is refused.
    pub fn with(mut self, algorithm: &str, digest: &[u8]) -> Result<Self, DocError> {
        let add = || -> Result<_, Refused> {
            let name: DigestAlgorithm = text(algorithm.into(), 49)?;
            if name.as_str() == "sha256" {
                return Err(Refused::by(49, Problem::Twice("sha256".to_owned())));
            }
            let hex = read_digest(&name, Json::String(hex::encode(digest)), 49)?;
            Ok((name, hex))
        };
        let (name, hex) = add().map_err(|refused| refused.of(DocKind::Manifest))?;
        self.others.insert(name, hex);
        Ok(self)
    }

    /// The SHA-256 of the file.
    pub fn sha256(&self) -> Sha256 {
        self.sha256
    }

    /// Another digest as lower-case hex.
    pub fn get(&self, algorithm: &str) -> Option<&str> {
        self.others
            .iter()
            .find(|(name, _)| name.as_str() == algorithm)
            .map(|(_, hex)| hex.as_str())
    }

    /// The BLAKE3 of the file: the `storage_id` of a data object.
    pub fn blake3(&self) -> Option<[u8; 32]> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(self.get("blake3")?, &mut bytes).ok()?;
        Some(bytes)
    }

    fn read(json: Json, rule: u16) -> Result<Self, Refused> {
        let mut fields = Fields::of(json, rule)?;
        let sha256 = fields.required("sha256", text)?;
        let mut others = BTreeMap::new();
        for (key, value) in fields.rest().into_members() {
            let read = text(key.as_str().into(), rule)
                .and_then(|name: DigestAlgorithm| Ok((read_digest(&name, value, rule)?, name)));
            let (hex, name) = read.map_err(|refused| refused.inside(&key))?;
            others.insert(name, hex);
        }
        Ok(Self { sha256, others })
    }

    fn write(&self) -> JsonObject {
        let mut all: Vec<(&str, String)> = self
            .others
            .iter()
            .map(|(name, hex)| (name.as_str(), hex.clone()))
            .collect();
        all.push(("sha256", self.sha256.to_string()));
        all.sort_unstable();
        let mut out = JsonObject::new();
        for (name, hex) in all {
            out.push(name, hex);
        }
        out
    }
}

fn read_digest(name: &DigestAlgorithm, json: Json, rule: u16) -> Result<String, Refused> {
    let found = string(json, rule)?;
    let (length, expected) = match name.as_str() {
        "blake3" => (Some(64), "64 lower-case hex digits"),
        "md5" => (Some(32), "32 lower-case hex digits"),
        "crc32c" => (Some(8), "8 lower-case hex digits"),
        _ => (None, "whole bytes in lower-case hex"),
    };
    let hex = found.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let fits = length.map_or(!found.is_empty() && found.len().is_multiple_of(2), |length| {
        found.len() == length
    });
    if hex && fits {
        Ok(found)
    } else {
        Err(Refused::by(rule, Problem::BadText { expected, found }))
    }
}

/// INV-73: a table fingerprint, `<sum>:<rows>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableFingerprint {
    /// The sum over the rows.
    pub sum: u128,
    /// How many rows.
    pub rows: u64,
}

impl FromStr for TableFingerprint {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parse = || {
            let (sum, rows) = text.split_once(':')?;
            let value = Self {
                sum: sum.parse().ok()?,
                rows: rows.parse().ok()?,
            };
            // The sum is a HUGEINT of terms below 2^62, so it is bounded by the rows; a text that comes out otherwise is a
            // second spelling.
            let bounded = u128::from(value.rows)
                .checked_mul((1 << 62) - 1)
                .is_some_and(|most| value.sum <= most);
            (bounded && value.to_string() == text).then_some(value)
        };
        parse().ok_or_else(|| IdError::new("a table fingerprint (<sum>:<rows>)", text))
    }
}

impl fmt::Display for TableFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.sum, self.rows)
    }
}

impl fmt::Debug for TableFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableFingerprint({self})")
    }
}

json_text!(TableFingerprint);

/// INV-51: one table. Keys: `dataflow`, `observations`, `structural_version`, `fingerprint`, `structure_fingerprint`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The dataflow it is published as.
    pub dataflow: Urn,
    /// How many observations it holds.
    pub observations: u64,
    /// The pinned data structure it was written against.
    pub structural_version: Urn,
    /// The table fingerprint.
    pub fingerprint: TableFingerprint,
    /// The structural fingerprint of the dataflow.
    pub structure_fingerprint: Sha256,
}

/// INV-52: one artefact. Keys: `urn`, `stability`, `partial`, `fingerprint`, `partial_of`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtefactRecord {
    /// Its pinned URN.
    pub urn: Urn,
    /// Its fingerprint.
    pub fingerprint: Sha256,
    /// INV-54: for a partial, the fingerprint of the full artefact it was cut from; none for a full artefact.
    pub partial_of: Option<Sha256>,
}

impl ArtefactRecord {
    /// Whether it is a subset of a full artefact.
    pub fn is_partial(&self) -> bool {
        self.partial_of.is_some()
    }

    /// INV-53: what its version promises.
    pub fn stability(&self) -> Stability {
        if self.urn.is_semantic() {
            Stability::Semantic
        } else {
            Stability::Legacy
        }
    }
}

impl Manifest {
    /// INV-43: where the shared data files lie, relative to the edition's directory.
    pub const DATA_PATH: &'static str = "../data/";

    /// INV-184: the routing fields an entry of this edition carries.
    pub fn routing(&self) -> Routing {
        let mut dataflows: Vec<Urn> = self.bindings.iter().map(|binding| binding.dataflow.clone()).collect();
        dataflows.sort_unstable();
        dataflows.dedup();
        let required = self.files.iter().filter(|file| file.tier == Tier::Required);
        Routing {
            dataflows,
            pull_bytes: required.fold(0, |sum, file| sum.saturating_add(file.size)),
        }
    }

    /// INV-174: the artefact records an entry of this edition carries.
    pub fn artefact_fingerprints(&self) -> BTreeMap<Urn, ArtefactFingerprint> {
        let record = |artefact: &ArtefactRecord| ArtefactFingerprint {
            fingerprint: artefact.fingerprint,
            partial_of: artefact.partial_of,
        };
        self.artefacts
            .iter()
            .map(|artefact| (artefact.urn.clone(), record(artefact)))
            .collect()
    }

    /// INV-240: an edition without bindings belongs to a structure product.
    pub fn is_structure(&self) -> bool {
        self.bindings.is_empty()
    }

    /// INV-36, INV-37: refuses a manifest that lies under another name than its own.
    pub fn check_path(&self, product_id: &ProductId, edition_id: &EditionId) -> Result<(), DocError> {
        named(36, "product_id", &self.product_id, product_id)
            .and_then(|()| named(37, "edition_id", &self.edition_id, edition_id))
            .map_err(|refused| refused.of(DocKind::Manifest))
    }

    /// What a writer of this format must also keep to, where a reader is lenient: the current format, the digests the
    /// format names for every file, and the `blake3` of every data object.
    pub fn check_as_written(&self) -> Result<(), DocError> {
        self.check()
            .and_then(|()| self.written())
            .map_err(|refused| refused.of(DocKind::Manifest))
    }

    fn written(&self) -> Result<(), Refused> {
        if self.format_version != FormatVersion::MANIFEST {
            let problem = disagree(
                "format_version",
                self.format_version,
                "the version a writer writes",
                FormatVersion::MANIFEST,
            );
            return Err(Refused::by(35, problem).inside("format_version"));
        }
        for (index, file) in self.files.iter().enumerate() {
            let data = (file.root == FileRoot::Data).then_some("blake3");
            for algorithm in Digests::WRITTEN.into_iter().chain(data) {
                if file.digests.get(algorithm).is_none() {
                    let refused = Refused::by(49, Problem::Missing).inside(algorithm);
                    return Err(refused.inside("digests").inside(index).inside("files"));
                }
            }
        }
        Ok(())
    }

    fn check_engine(&self) -> Result<(), Refused> {
        let engine = &self.engine;
        let duckdb = [
            ("duckdb_version", &engine.duckdb_version),
            ("duckdb_storage_version", &engine.duckdb_storage_version),
        ];
        let ducklake = [
            ("ducklake_version", &engine.ducklake_version),
            ("ducklake_spec_version", &engine.ducklake_spec_version),
        ];
        for file in self.files.iter().filter(|file| file.root == FileRoot::Edition) {
            let needed: &[_] = match file.path.as_str().rsplit_once('.').map(|(_, extension)| extension) {
                // A DuckLake catalogue is a DuckDB file.
                Some("ducklake") => &[duckdb, ducklake],
                Some("duckdb") => &[duckdb],
                _ => &[],
            };
            if let Some((field, _)) = needed.iter().flatten().find(|(_, version)| version.is_none()) {
                let because = format!("the edition holds {}", file.path);
                return Err(Refused::by(42, Problem::AbsentBut { field, because }).inside(field));
            }
        }
        Ok(())
    }
}

fn read_file(json: Json, _: u16) -> Result<FileEntry, Refused> {
    let mut fields = Fields::of(json, 56)?;
    Ok(FileEntry {
        path: fields.required_by("path", 47, text)?,
        size: fields.required("size", count)?,
        root: fields.required_by("root", 47, word(FileRoot::from_word, "edition or data"))?,
        tier: fields.required_by("tier", 48, word(Tier::from_word, "required, lazy or remote"))?,
        digests: fields.required_by("digests", 49, Digests::read)?,
        carried_from: fields.optional("carried_from", 50, nullable(text))?.flatten(),
        extra: fields.rest(),
    })
}

fn write_file(file: &FileEntry) -> Json {
    let mut out = JsonObject::new();
    out.push("path", &file.path);
    out.push("size", file.size);
    out.push("root", file.root.as_str());
    out.push("tier", file.tier.as_str());
    out.push("digests", file.digests.write());
    if let Some(carried_from) = file.carried_from {
        out.push("carried_from", carried_from);
    }
    keep(&mut out, &file.extra);
    out.into()
}

fn read_binding(json: Json, rule: u16) -> Result<Binding, Refused> {
    let mut fields = Fields::of(json, rule)?;
    Ok(Binding {
        dataflow: fields.required("dataflow", text)?,
        observations: fields.required("observations", count)?,
        structural_version: fields.required("structural_version", text)?,
        fingerprint: fields.required_by("fingerprint", 73, text)?,
        structure_fingerprint: fields.required("structure_fingerprint", text)?,
    })
}

fn write_binding(binding: &Binding) -> Json {
    let mut out = JsonObject::new();
    out.push("dataflow", &binding.dataflow);
    out.push("observations", binding.observations);
    out.push("structural_version", &binding.structural_version);
    out.push("fingerprint", binding.fingerprint);
    out.push("structure_fingerprint", binding.structure_fingerprint);
    out.into()
}

fn read_artefact(json: Json, _: u16) -> Result<ArtefactRecord, Refused> {
    let mut fields = Fields::of(json, 52)?;
    let urn: Urn = fields.required("urn", text)?;
    let stability = fields.required_by("stability", 53, word(Stability::from_word, "semantic or legacy"))?;
    let partial = fields.required("partial", boolean)?;
    let fingerprint = fields.required("fingerprint", text)?;
    let partial_of = fields.optional("partial_of", 54, nullable(text))?.flatten();
    let problem = match (partial, partial_of) {
        (true, None) => Problem::AbsentBut {
            field: "partial_of",
            because: "partial is true".to_owned(),
        },
        (false, Some(_)) => Problem::PresentBut {
            field: "partial_of",
            because: "partial is false".to_owned(),
        },
        _ => {
            let record = ArtefactRecord {
                urn,
                fingerprint,
                partial_of,
            };
            if record.stability() == stability {
                return Ok(record);
            }
            let problem = disagree("stability", stability, "what the version says", record.stability());
            return Err(Refused::by(53, problem).inside("stability"));
        }
    };
    Err(Refused::by(52, problem).inside("partial_of"))
}

fn write_artefact(record: &ArtefactRecord) -> Json {
    let mut out = JsonObject::new();
    out.push("urn", &record.urn);
    out.push("stability", record.stability().as_str());
    out.push("partial", record.is_partial());
    out.push("fingerprint", record.fingerprint);
    if let Some(partial_of) = record.partial_of {
        out.push("partial_of", partial_of);
    }
    out.into()
}

fn read_data_path(json: Json, rule: u16) -> Result<(), Refused> {
    let found = string(json, rule)?;
    if found == Manifest::DATA_PATH {
        return Ok(());
    }
    Err(Refused::by(
        rule,
        Problem::BadText {
            expected: "../data/, relative to the edition's directory",
            found,
        },
    ))
}

impl JsonDocument for Manifest {
    const KIND: DocKind = DocKind::Manifest;

    fn read(json: Json) -> Result<Self, Refused> {
        let mut fields = Fields::of(json, 35)?;
        let format_version: FormatVersion = fields.required("format_version", text)?;
        format_version.supported(10, 3, 3)?;
        let product_id = fields.required_by("product_id", 36, text)?;
        let edition_id = fields.required_by("edition_id", 37, text)?;
        let previous = fields.required_by("previous", 38, nullable(text))?;
        let created_at = fields.required_by("created_at", 39, text)?;
        let producer = fields.required_by("producer", 39, read_producer)?;
        let schema_version = fields.required_by("schema_version", 56, text)?;
        let mut version = |name| Ok(fields.optional(name, 42, nullable(text))?.flatten());
        let engine = EngineVersions {
            duckdb_version: version("duckdb_version")?,
            duckdb_storage_version: version("duckdb_storage_version")?,
            ducklake_version: version("ducklake_version")?,
            ducklake_spec_version: version("ducklake_spec_version")?,
        };
        fields.required_by("data_path", 43, read_data_path)?;
        Ok(Self {
            format_version,
            product_id,
            edition_id,
            previous,
            created_at,
            producer,
            schema_version,
            engine,
            files: fields.required_by("files", 56, list(read_file))?,
            bindings: fields.required_by("bindings", 51, list(read_binding))?,
            artefacts: fields.required_by("artefacts", 45, list(read_artefact))?,
            canonical_form: fields.required_by("canonical_form", 40, text)?,
            content_fingerprint: fields.optional("content_fingerprint", 41, nullable(text))?.flatten(),
            producer_fields: fields.optional("producer_fields", 46, object)?.unwrap_or_default(),
            extensions: fields.optional("extensions", 55, object)?.unwrap_or_default(),
            extra: fields.rest(),
        })
    }

    fn write(&self) -> JsonObject {
        let mut out = JsonObject::new();
        out.push("format_version", self.format_version);
        out.push("product_id", &self.product_id);
        out.push("edition_id", self.edition_id);
        out.push("previous", self.previous);
        out.push("created_at", self.created_at);
        out.push("producer", write_producer(&self.producer));
        out.push("schema_version", &self.schema_version);
        for (name, version) in [
            ("duckdb_version", &self.engine.duckdb_version),
            ("duckdb_storage_version", &self.engine.duckdb_storage_version),
            ("ducklake_version", &self.engine.ducklake_version),
            ("ducklake_spec_version", &self.engine.ducklake_spec_version),
        ] {
            if let Some(version) = version {
                out.push(name, version);
            }
        }
        out.push("data_path", Self::DATA_PATH);
        out.push("files", self.files.iter().map(write_file).collect::<Vec<Json>>());
        out.push(
            "bindings",
            self.bindings.iter().map(write_binding).collect::<Vec<Json>>(),
        );
        out.push(
            "artefacts",
            self.artefacts.iter().map(write_artefact).collect::<Vec<Json>>(),
        );
        out.push("canonical_form", &self.canonical_form);
        out.push("content_fingerprint", self.content_fingerprint);
        out.push("producer_fields", self.producer_fields.clone());
        out.push("extensions", self.extensions.clone());
        keep(&mut out, &self.extra);
        out
    }

    fn check(&self) -> Result<(), Refused> {
        self.format_version.supported(10, 3, 3)?;
        check_previous(38, self.edition_id, self.previous)?;
        let key = |file: &FileEntry| format!("{}/{}", file.root, file.path);
        for (index, pair) in self.files.windows(2).enumerate() {
            let (first, second) = ((pair[0].root, &pair[0].path), (pair[1].root, &pair[1].path));
            let problem = match first.cmp(&second) {
                std::cmp::Ordering::Less => continue,
                std::cmp::Ordering::Equal => Problem::Twice(key(&pair[0])),
                std::cmp::Ordering::Greater => Problem::NotSorted {
                    first: key(&pair[0]),
                    second: key(&pair[1]),
                },
            };
            return Err(Refused::by(56, problem).inside(index + 1).inside("files"));
        }
        for (index, file) in self.files.iter().enumerate() {
            let own = [layout::MANIFEST, layout::MANIFEST_SIGNATURE].contains(&file.path.as_str());
            if file.root == FileRoot::Edition && own {
                let because = format!("{} is written after the list", file.path);
                let refused = Refused::by(
                    20,
                    Problem::PresentBut {
                        field: "the file",
                        because,
                    },
                );
                return Err(refused.inside(index).inside("files"));
            }
        }
        ascending(&self.artefacts, 45, |artefact| artefact.urn.clone())
            .map_err(|refused| refused.inside("artefacts"))?;
        self.check_engine()
    }
}
