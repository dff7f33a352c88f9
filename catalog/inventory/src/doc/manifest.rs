//! `manifest.json` 3.0: what an edition is made of.

use std::collections::BTreeMap;

use super::{
    error::{DocError, DocKind, Problem, Refused, ascending, disagree},
    fields::{Fields, keep, list, nullable, object, string, text},
    file::{Digests, FileEntry, FileRoot, Tier, read_file, write_file},
    id::{CleanText, EditionId, ProductId, Sha256},
    instant::Instant,
    journal::{check_previous, named},
    json::{Json, JsonObject},
    layout,
    leaf::{ArtefactFingerprint, Entry, Routing},
    record::{ArtefactRecord, Binding, read_artefact, read_binding, write_artefact, write_binding},
    root::{Producer, read_producer, write_producer},
    stored::{JsonDocument, Stored},
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

    /// Refuses a leaf's entry that says other things of this manifest than the manifest does: its hash, its edition and
    /// base, its schema version, and the fields a writer fills from it.
    pub fn check_entry<V>(manifest: &Stored<Self, V>, entry: &Entry) -> Result<(), DocError> {
        let same = |rule, field: &'static str, found: String, expected: String| {
            if found == expected {
                return Ok(());
            }
            Err(Refused::by(rule, disagree(field, found, "the manifest's", expected)).inside(field))
        };
        let shown = |previous: Option<EditionId>| previous.map_or_else(|| "null".to_owned(), |id| id.to_string());
        let flows = |routing: &Routing| routing.dataflows.iter().map(Urn::as_str).collect::<Vec<_>>().join(", ");
        let check = || {
            same(
                172,
                "manifest_sha256",
                entry.manifest_sha256.to_string(),
                manifest.sha256().to_string(),
            )?;
            same(
                170,
                "edition_id",
                entry.edition_id.to_string(),
                manifest.edition_id.to_string(),
            )?;
            same(170, "previous", shown(entry.previous), shown(manifest.previous))?;
            same(
                170,
                "schema_version",
                entry.schema_version.to_string(),
                manifest.schema_version.to_string(),
            )?;
            if let Some(routing) = &entry.routing {
                let own = manifest.routing();
                same(188, "dataflows", flows(routing), flows(&own))?;
                same(
                    188,
                    "pull_bytes",
                    routing.pull_bytes.to_string(),
                    own.pull_bytes.to_string(),
                )?;
            }
            let Some(filled) = &entry.artefacts else { return Ok(()) };
            check_artefacts(filled, &manifest.artefact_fingerprints())
        };
        check().map_err(|refused: Refused| refused.of(DocKind::Leaf))
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

/// INV-174: filled artefacts are the manifest's records; the first difference is named.
fn check_artefacts(
    filled: &BTreeMap<Urn, ArtefactFingerprint>,
    own: &BTreeMap<Urn, ArtefactFingerprint>,
) -> Result<(), Refused> {
    let shown = |record: Option<&ArtefactFingerprint>| match record {
        None => "absent".to_owned(),
        Some(ArtefactFingerprint {
            fingerprint,
            partial_of: None,
        }) => fingerprint.to_string(),
        Some(ArtefactFingerprint {
            fingerprint,
            partial_of: Some(full),
        }) => format!("{fingerprint}, cut from {full}"),
    };
    for urn in filled.keys().chain(own.keys()) {
        let (filled, own) = (filled.get(urn), own.get(urn));
        if filled != own {
            let problem = disagree("the filled record", shown(filled), "the manifest's", shown(own));
            return Err(Refused::by(174, problem).inside(urn).inside("artefacts"));
        }
    }
    Ok(())
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
