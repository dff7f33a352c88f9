//! Checking a sealed edition (§4.6).
//!
//! | check | publish | receive | open |
//! |---|---|---|---|
//! | manifest, format, versions | yes | yes | yes |
//! | files of the directory | size, digests, nothing unlisted | the same | size |
//! | data files | digests | size; kept digests when asked | no |
//! | no layer on another edition (INV-380) | yes | yes | yes |
//! | table list, counts, references | yes | yes | no |
//! | fingerprints computed anew | yes | when asked | no |
//! | fingerprints equal an earlier manifest's | when asked | when asked | when asked |
//! | extensions | yes | yes | their section |
//!
//! A check goes on after a finding wherever something else can still be said, and stops where nothing can: a manifest that
//! isn't the expected one, or files this build must not open (INV-64). Files of `data/` that no manifest lists are the garbage
//! collector's business (INV-115).

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{
    EditionError, ProductEditions, SCHEMA_VERSION, TableList, TableListError,
    carry::{digest_bytes, recorded},
    content::{Content, fingerprint_table, sha256_fingerprint, table_fingerprint},
    data::{blocking, digest_data},
    is_delete_file,
    seal::check_references,
};
use crate::{
    doc::{
        CleanText, EditionId, FileEntry, FileRoot, Json, Manifest, Sha256, Stored, TableFingerprint, Unverified, layout,
    },
    fingerprint::{CanonicalForm, CheckProfile, EditionFingerprints},
    structure::Structures,
};

mod engine;
mod finding;

pub use engine::{EngineReads, EngineVersion};
pub use finding::{EditionFinding, EditionFindings, EditionProblem};

/// A check of one extension's section, which the package that writes the section brings (INV-114).
pub trait Extension: fmt::Debug + Send + Sync {
    /// The section's key.
    fn name(&self) -> &str;

    /// Checks the section; at open there is no `content`, since no file of the edition has been read.
    fn check(&self, section: &Json, profile: CheckProfile, content: Option<ExtensionContent<'_>>) -> Vec<String>;
}

/// What an extension's check may look at.
#[derive(Debug, Clone, Copy)]
pub struct ExtensionContent<'a> {
    /// The manifest.
    pub manifest: &'a Manifest,
    /// The structures.
    pub structures: &'a Structures,
}

/// What a check is asked for besides its profile.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions<'a> {
    /// The hash the manifest must have; none when nobody knows it yet.
    pub manifest_sha256: Option<Sha256>,
    /// INV-106: an earlier manifest whose fingerprints this edition's must equal.
    pub expect: Option<&'a Manifest>,
    /// INV-107: at receive, compare the digests the store keeps of data files.
    pub kept_digests: bool,
    /// INV-110: at receive, compute the fingerprints anew.
    pub fingerprints: bool,
    /// What this build's engine reads.
    pub engine: EngineReads,
    /// INV-239: structure editions that a structure edition's references may resolve in.
    pub other_structures: &'a [(String, Structures)],
    /// Checks of extension sections.
    pub extensions: &'a [Arc<dyn Extension>],
}

/// What a check found.
#[derive(Debug)]
pub struct CheckReport {
    /// The profile.
    pub profile: CheckProfile,
    /// The manifest, when it could be read.
    pub manifest: Option<Stored<Manifest, Unverified>>,
    /// The checks that ran.
    pub checks: Vec<&'static str>,
    /// What is wrong; empty for a sound edition.
    pub findings: Vec<EditionFinding>,
}

/// An edition that the publish check found nothing wrong with: what may be recorded (INV-401).
#[derive(Debug, Clone)]
pub struct Publishable(Arc<Stored<Manifest>>);

impl Publishable {
    /// Its manifest.
    pub fn manifest(&self) -> &Arc<Stored<Manifest>> {
        &self.0
    }
}

impl CheckReport {
    /// The edition as one that may be recorded; anything but a clean publish check is refused with its findings.
    pub fn into_publishable(self) -> Result<Publishable, EditionFindings> {
        match self.manifest {
            // Every byte the manifest describes was held against it.
            Some(manifest) if self.findings.is_empty() && self.profile == CheckProfile::Publish => {
                Ok(Publishable(Arc::new(manifest.trusted())))
            }
            _ => Err(EditionFindings {
                profile: self.profile,
                findings: self.findings,
            }),
        }
    }
}

/// Checks a sealed edition. An error means that the check could not be carried out; what is wrong with the edition is in the
/// report's findings.
pub async fn check(
    place: &ProductEditions,
    edition: &EditionId,
    profile: CheckProfile,
    options: &CheckOptions<'_>,
) -> Result<CheckReport, EditionError> {
    let mut check = Check {
        place,
        edition,
        profile,
        options,
        checks: Vec::new(),
        findings: Vec::new(),
    };
    let manifest = check.manifest().await?;
    if let Some(manifest) = &manifest {
        check.run(manifest).await?;
    }
    Ok(CheckReport {
        profile,
        manifest,
        checks: check.checks,
        findings: check.findings,
    })
}

struct Check<'a> {
    place: &'a ProductEditions,
    edition: &'a EditionId,
    profile: CheckProfile,
    options: &'a CheckOptions<'a>,
    checks: Vec<&'static str>,
    findings: Vec<EditionFinding>,
}

impl Check<'_> {
    fn find(&mut self, rule: u16, file: impl Into<String>, problem: EditionProblem) {
        let file = file.into();
        self.findings.push(EditionFinding { rule, file, problem });
    }

    /// What could not be read of the edition is a finding; what a store could not do is an error.
    fn find_or_fail(&mut self, rule: u16, file: &str, error: EditionError) -> Result<(), EditionError> {
        match error {
            EditionError::Store(_) => Err(error),
            other => {
                self.find(rule, file, EditionProblem::Content(other.to_string()));
                Ok(())
            }
        }
    }

    /// INV-103, INV-172: the manifest, hashed before anything in it is believed.
    async fn manifest(&mut self) -> Result<Option<Stored<Manifest, Unverified>>, EditionError> {
        self.checks.push("manifest");
        let Some(found) = self.place.store.get(&self.place.manifest_path(self.edition)?).await? else {
            self.find(58, layout::MANIFEST, EditionProblem::NotSealed);
            return Ok(None);
        };
        let (sha256, expected) = (Sha256::of(&found.bytes), self.options.manifest_sha256);
        if let Some(expected) = expected.filter(|expected| *expected != sha256) {
            let (found, recorded) = (sha256.to_string(), expected.to_string());
            let algorithm = "sha256".to_owned();
            let problem = EditionProblem::Digest {
                algorithm,
                found,
                recorded,
            };
            self.find(172, layout::MANIFEST, problem);
            return Ok(None);
        }
        let read = Stored::<Manifest, Unverified>::decode(found.bytes).and_then(|manifest| {
            manifest
                .check_path(&self.place.product_id, self.edition)
                .map(|()| manifest)
        });
        match read {
            Ok(manifest) => Ok(Some(manifest)),
            Err(error) => {
                let problem = EditionProblem::Content(error.to_string());
                self.find(error.rule.unwrap_or(103), layout::MANIFEST, problem);
                Ok(None)
            }
        }
    }

    async fn run(&mut self, manifest: &Stored<Manifest, Unverified>) -> Result<(), EditionError> {
        self.checks.push("versions");
        let engine = self.options.engine.check(manifest);
        let unreadable = !engine.is_empty();
        self.findings.extend(engine);
        if let Some(earlier) = self.options.expect {
            self.checks.push("expect");
            self.expect(manifest, earlier)?;
        }
        if unreadable {
            // INV-64: no file is opened that this build can't read.
            return Ok(());
        }
        if manifest.extra.get("requires").is_some() {
            let what = "requires other editions, and an edition is whole by itself".to_owned();
            self.find(380, layout::MANIFEST, EditionProblem::Content(what));
        }
        self.checks.push("files");
        self.edition_files(manifest).await?;
        if self.profile == CheckProfile::Open {
            self.extensions(manifest, None);
            return Ok(());
        }
        self.checks.push("data");
        self.data_files(manifest).await?;
        self.checks.push("tables");
        let Some(list) = self.tables(manifest).await? else {
            return Ok(());
        };
        self.checks.push("references");
        match Content::load(self.place, self.edition, &list).await {
            Ok(content) => {
                self.structures(manifest, &content, &list);
                if self.profile.recomputes_fingerprints(self.options.fingerprints) {
                    self.checks.push("fingerprints");
                    self.fingerprints(manifest, &content, &list).await?;
                }
                self.extensions(manifest, Some(&content.structures));
            }
            Err(error) => self.find_or_fail(109, TableList::NAME, error)?,
        }
        Ok(())
    }

    /// INV-104: what lies in the edition's directory.
    async fn edition_files(&mut self, manifest: &Manifest) -> Result<(), EditionError> {
        for entry in manifest.files.iter().filter(|entry| entry.root == FileRoot::Edition) {
            let path = entry.path.as_str();
            let Some(found) = self.place.store.get(&self.place.file(self.edition, &path)?).await? else {
                self.find(104, path, EditionProblem::Missing);
                continue;
            };
            if self.size(104, entry, found.bytes.len() as u64) && self.profile != CheckProfile::Open {
                self.digests(104, entry, &digest_bytes(&found.bytes).to_entry());
            }
        }
        if self.profile == CheckProfile::Open {
            return Ok(());
        }
        for file in self.place.files_in(self.edition).await? {
            let listed = manifest
                .files
                .iter()
                .any(|entry| entry.root == FileRoot::Edition && entry.path.as_str() == file.relative);
            if listed || file.is_manifest() {
                continue;
            }
            if file.is_wal() {
                self.find(93, file.relative, EditionProblem::NotCheckpointed);
            } else {
                self.find(104, file.relative, EditionProblem::Unlisted);
            }
        }
        Ok(())
    }

    /// INV-105, INV-107: the listed data files, and no others.
    async fn data_files(&mut self, manifest: &Manifest) -> Result<(), EditionError> {
        for entry in manifest.files.iter().filter(|entry| entry.root == FileRoot::Data) {
            let Some(file) = self.place.data.open(&entry.path).await? else {
                self.find(105, data_name(entry), EditionProblem::Missing);
                continue;
            };
            if !self.size(105, entry, file.size()) {
                continue;
            }
            let kept: BTreeMap<String, String> = file
                .kept_digests()
                .into_iter()
                .map(|(name, hex)| (name.to_string(), hex))
                .collect();
            if self.profile == CheckProfile::Publish {
                let measured = blocking("digesting", entry.path.to_string(), move || digest_data(&*file)).await?;
                self.digests(105, entry, &measured.to_entry());
            } else if self.options.kept_digests {
                if recorded(&entry.digests).keys().any(|name| kept.contains_key(name)) {
                    self.digests(107, entry, &kept);
                } else {
                    self.find(107, data_name(entry), EditionProblem::NoKeptDigest);
                }
            }
        }
        Ok(())
    }

    fn size(&mut self, rule: u16, entry: &FileEntry, found: u64) -> bool {
        if found == entry.size {
            return true;
        }
        let recorded = entry.size;
        self.find(rule, name(entry), EditionProblem::Size { found, recorded });
        false
    }

    fn digests(&mut self, rule: u16, entry: &FileEntry, found: &BTreeMap<String, String>) {
        for (algorithm, recorded) in recorded(&entry.digests) {
            if let Some(found) = found.get(&algorithm).filter(|found| **found != recorded) {
                let found = found.clone();
                let problem = EditionProblem::Digest {
                    algorithm,
                    found,
                    recorded,
                };
                self.find(rule, name(entry), problem);
            }
        }
    }

    /// INV-96, INV-108, INV-109: the table list against manifest and data files.
    async fn tables(&mut self, manifest: &Manifest) -> Result<Option<TableList>, EditionError> {
        let list = match super::build::read_list(self.place, self.edition).await {
            Ok((list, _)) => list,
            Err(error) => {
                let rule = match &error {
                    EditionError::TableList(error) if matches!(**error, TableListError::DeleteFile { .. }) => 96,
                    _ => 108,
                };
                self.find_or_fail(rule, TableList::NAME, error)?;
                return Ok(None);
            }
        };
        if list.previous != manifest.previous {
            let shown = |id: Option<EditionId>| id.map_or_else(|| "none".to_owned(), |id| id.to_string());
            let (found, recorded) = (shown(list.previous), shown(manifest.previous));
            let what = "previous".to_owned();
            self.find(38, TableList::NAME, EditionProblem::Differs { what, found, recorded });
        }
        for entry in manifest.files.iter().filter(|entry| entry.root == FileRoot::Data) {
            if is_delete_file(&entry.path) {
                self.find(96, data_name(entry), EditionProblem::DeleteFile);
            }
        }
        for (dataflow, file) in list.data() {
            let name = format!("data/{}", file.path);
            let mut entries = manifest.files.iter();
            let entry = entries.find(|entry| entry.root == FileRoot::Data && entry.path == file.path);
            match entry {
                None => self.find(
                    108,
                    name,
                    EditionProblem::NotListed {
                        dataflow: dataflow.clone(),
                    },
                ),
                Some(entry) if entry.size != file.size => {
                    let (found, recorded) = (entry.size, file.size);
                    self.find(108, name, EditionProblem::Size { found, recorded });
                }
                Some(_) => {}
            }
        }
        self.counts(manifest, &list).await?;
        Ok(Some(list))
    }

    async fn counts(&mut self, manifest: &Manifest, list: &TableList) -> Result<(), EditionError> {
        let shown = |count: u64| format!("{count} observations");
        for binding in &manifest.bindings {
            let Some(table) = list.table(&binding.dataflow) else {
                let problem = EditionProblem::NoTable {
                    dataflow: binding.dataflow.clone(),
                };
                self.find(109, TableList::NAME, problem);
                continue;
            };
            let mut rows = 0_u64;
            for listed in &table.files {
                // A missing file is a finding already.
                let Some(file) = self.place.data.open(&listed.path).await? else {
                    continue;
                };
                let path = format!("data/{}", listed.path);
                match blocking("counting the rows of", path.clone(), move || Ok(file.rows())).await? {
                    Ok(count) => rows = rows.saturating_add(count),
                    Err(error) => self.find(109, path, EditionProblem::Content(error.to_string())),
                }
            }
            if rows != binding.observations || binding.fingerprint.rows != binding.observations {
                let what = format!("the count of {}", binding.dataflow);
                let (found, recorded) = (shown(rows), shown(binding.observations));
                self.find(109, TableList::NAME, EditionProblem::Differs { what, found, recorded });
            }
        }
        for table in &list.tables {
            if !manifest
                .bindings
                .iter()
                .any(|binding| binding.dataflow == table.dataflow)
            {
                let problem = EditionProblem::NoBinding {
                    dataflow: table.dataflow.clone(),
                };
                self.find(109, TableList::NAME, problem);
            }
        }
        Ok(())
    }

    /// INV-45, INV-87: what the structure messages hold is what the manifest records, and resolves.
    fn structures(&mut self, manifest: &Manifest, content: &Content, list: &TableList) {
        let held: Vec<&str> = content
            .records
            .records
            .iter()
            .map(|record| record.urn.as_str())
            .collect();
        let recorded: Vec<&str> = manifest.artefacts.iter().map(|record| record.urn.as_str()).collect();
        for urn in recorded.iter().filter(|urn| !held.contains(urn)) {
            self.find(45, TableList::NAME, EditionProblem::ArtefactMissing((*urn).to_owned()));
        }
        for urn in held.iter().filter(|urn| !recorded.contains(urn)) {
            self.find(
                45,
                layout::MANIFEST,
                EditionProblem::ArtefactUnrecorded((*urn).to_owned()),
            );
        }
        for unresolved in check_references(content, list, self.options.other_structures) {
            let rule = if list.tables.is_empty() { 239 } else { 87 };
            self.find(rule, TableList::NAME, EditionProblem::Content(unresolved.to_string()));
        }
    }

    /// INV-110: the fingerprints computed from rows and texts are the recorded ones.
    async fn fingerprints(
        &mut self,
        manifest: &Manifest,
        content: &Content,
        list: &TableList,
    ) -> Result<(), EditionError> {
        let form = content.form();
        let mut computed = EditionFingerprints::new(form.clone());
        for record in &content.records.records {
            let fingerprint = Sha256::from_bytes(*record.fingerprint.as_bytes());
            computed.artefact(record.urn.as_str(), sha256_fingerprint(&form, fingerprint)?)?;
        }
        let closures = content.closures();
        for table in &list.tables {
            let rows = match fingerprint_table(self.place, &form, table).await {
                Ok(rows) => rows,
                Err(error) => {
                    self.find_or_fail(110, table.dataflow.as_str(), error)?;
                    table_fingerprint(&form, TableFingerprint { sum: 0, rows: 0 })?
                }
            };
            match closures.of(&table.dataflow) {
                Ok((structural_version, structure)) => {
                    computed.binding(table.dataflow.as_str(), rows, structure)?;
                    let mut bindings = manifest.bindings.iter();
                    let binding = bindings.find(|binding| binding.dataflow == table.dataflow);
                    if let Some(binding) = binding.filter(|binding| binding.structural_version != structural_version) {
                        let what = format!("the structural_version of {}", table.dataflow);
                        let (found, recorded) =
                            (structural_version.to_string(), binding.structural_version.to_string());
                        self.find(51, layout::MANIFEST, EditionProblem::Differs { what, found, recorded });
                    }
                }
                Err(error) => self.find_or_fail(110, TableList::NAME, error)?,
            }
        }
        match recorded_fingerprints(manifest) {
            Ok(recorded) => {
                if let Err(error) = computed.check_recorded(&recorded) {
                    self.find(110, layout::MANIFEST, EditionProblem::Content(error.to_string()));
                }
                Ok(())
            }
            Err(error) => self.find_or_fail(40, layout::MANIFEST, error),
        }
    }

    /// INV-106: the fingerprints are an earlier manifest's.
    fn expect(&mut self, manifest: &Manifest, earlier: &Manifest) -> Result<(), EditionError> {
        match recorded_fingerprints(manifest) {
            Ok(found) => {
                if let Err(error) = found.expect(&recorded_fingerprints(earlier)?) {
                    self.find(106, layout::MANIFEST, EditionProblem::Content(error.to_string()));
                }
                Ok(())
            }
            Err(error) => self.find_or_fail(40, layout::MANIFEST, error),
        }
    }

    /// INV-114: every extension checks its section; at open that alone.
    fn extensions(&mut self, manifest: &Manifest, structures: Option<&Structures>) {
        for extension in self.options.extensions {
            let Some(section) = manifest.extensions.get(extension.name()) else {
                continue;
            };
            self.checks.push("extensions");
            let content = structures.map(|structures| ExtensionContent { manifest, structures });
            for what in extension.check(section, self.profile, content) {
                let extension = extension.name().to_owned();
                self.find(114, layout::MANIFEST, EditionProblem::Extension { extension, what });
            }
        }
    }
}

fn name(entry: &FileEntry) -> String {
    match entry.root {
        FileRoot::Data => data_name(entry),
        FileRoot::Edition => entry.path.to_string(),
    }
}

fn data_name(entry: &FileEntry) -> String {
    format!("data/{}", entry.path)
}

/// The fingerprints a manifest records.
pub fn recorded_fingerprints(manifest: &Manifest) -> Result<EditionFingerprints, EditionError> {
    let form: CanonicalForm = manifest
        .canonical_form
        .as_str()
        .parse()
        .map_err(|_| crate::doc::IdError {
            expected: "a canonical form (INV-40)",
            found: manifest.canonical_form.to_string(),
        })?;
    let mut fingerprints = EditionFingerprints::new(form.clone());
    for record in &manifest.artefacts {
        fingerprints.artefact(record.urn.as_str(), sha256_fingerprint(&form, record.fingerprint)?)?;
    }
    for binding in &manifest.bindings {
        let table = table_fingerprint(&form, binding.fingerprint)?;
        let structure = sha256_fingerprint(&form, binding.structure_fingerprint)?;
        fingerprints.binding(binding.dataflow.as_str(), table, structure)?;
    }
    if let Some(product) = manifest.content_fingerprint {
        fingerprints.recorded_product(sha256_fingerprint(&form, product)?)?;
    }
    Ok(fingerprints)
}

/// The schema version editions of this build have.
fn own_schema() -> Option<CleanText> {
    SCHEMA_VERSION.parse().ok()
}
