//! Building, sealing and recording editions.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use sovm_inventory::{
    doc::{
        EditionId, EditionState, FilePath, FileRoot, Instant, JsonObject, Manifest, ProductId, ProductKind, Sha256,
        Tier, Urn,
    },
    edition::{
        Begin, EditionBuilder, LazyFiles, MessageFormat, ProductEditions, Publisher, PublisherSettings, Recorded,
        check::CheckOptions, seal::SealRequest,
    },
    structure::{
        Structures,
        message::{Limits, read_json, read_xml},
    },
    transition::{EditionKey, ProductProfile, Version},
    writer::{Repair, SystemClock},
};

use super::{
    Author, Catalogue, catalogue::producer, change::canonical_forms, editions::finding_info, errors,
    retention::retention, tables,
};
use crate::{
    api::{EditionBuildReport, EditionSealReport, EditionTable},
    error::{ApiError, ErrorKind},
};

/// What becomes of the rows a table has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// They stay, and the files' rows are added.
    Append,
    /// The files' rows take their place.
    Replace,
}

/// What an edition is to be given.
#[derive(Debug)]
pub(crate) struct Build {
    /// The product.
    pub(crate) product_id: ProductId,
    /// The new edition's id; none makes one of this moment.
    pub(crate) edition_id: Option<EditionId>,
    /// Go on with the unsealed edition.
    pub(crate) resume: bool,
    /// Files for tables, in order.
    pub(crate) tables: Vec<(Urn, PathBuf)>,
    /// What becomes of the rows there; must be said when there are some.
    pub(crate) rows: Option<Rows>,
    /// Words that mean "no value" in text files.
    pub(crate) nulls: Vec<String>,
    /// Structure messages.
    pub(crate) structures: Vec<PathBuf>,
    /// Take the messages of the previous edition out first.
    pub(crate) replace_structures: bool,
    /// Other files, by their names in the edition.
    pub(crate) files: Vec<(FilePath, PathBuf)>,
}

/// A structure message that was read.
struct Message {
    bytes: Bytes,
    format: MessageFormat,
    partial_of: Vec<(Urn, Sha256)>,
}

impl Catalogue {
    /// The place of a product's editions.
    pub(super) async fn editions_of(&self, product_id: &ProductId) -> Result<ProductEditions, ApiError> {
        let data = self.data.of(product_id)?;
        ProductEditions::open(self.store.clone(), data, product_id.clone())
            .await
            .map_err(|error| errors::edition(&error, product_id, &self.shown))
    }

    /// A publisher of a product that was created.
    pub(super) async fn publisher(
        &self,
        author: Author,
        product_id: &ProductId,
    ) -> Result<(Publisher, Version, ProductProfile), ApiError> {
        let (head, version) = self.newest().await?;
        let profile = self.profile(&head, &version, product_id)?;
        let settings = PublisherSettings {
            profile,
            canonical_forms: canonical_forms()?,
            retention: retention(&head.root().extensions, None)
                .map_err(|error| errors::windows(&error, &self.shown))?,
            producer: producer()?,
            clock: Arc::new(SystemClock),
        };
        let writer = self.writer(author, Arc::new(SystemClock))?;
        let publisher = Publisher::new(self.editions_of(product_id).await?, writer, settings);
        let publisher = match self.registers {
            true => publisher.registering(),
            false => publisher,
        };
        Ok((publisher, version, profile))
    }

    /// Begins or resumes the product's unsealed edition and gives it what is wished. What was given before a failure
    /// stays, so the edition is resumed with the rest.
    pub(crate) async fn build(&self, author: Author, build: Build) -> Result<EditionBuildReport, ApiError> {
        let product_id = build.product_id.clone();
        let failed = |error| errors::edition(&error, &product_id, &self.shown);
        let (publisher, version, _) = self.publisher(author, &product_id).await?;
        // Whatever can be refused without an edition is refused before there is one.
        let mut messages = Vec::with_capacity(build.structures.len());
        for path in &build.structures {
            messages.push(self.message(path, &version)?);
        }
        let others = build.files.iter().map(|(name, path)| Ok((name, read(path)?)));
        let others = others.collect::<Result<Vec<(&FilePath, Bytes)>, ApiError>>()?;
        for (_, path) in &build.tables {
            // A table's columns decide how its next file is read, so only whether it can be read is asked here.
            drop(std::fs::File::open(path).map_err(|error| unreadable(path, &error))?);
        }
        let mut builder = if build.resume {
            publisher.resume().await.map_err(failed)?
        } else {
            let begin = Begin {
                edition_id: build.edition_id,
                lazy: LazyFiles::All,
            };
            publisher.begin(begin).await.map_err(failed)?
        };
        let list = builder.list();
        let holds = |dataflow: &&Urn| list.table(dataflow).is_some_and(|table| !table.files.is_empty());
        let unsaid = match build.rows {
            Some(_) => None,
            None => build.tables.iter().map(|(dataflow, _)| dataflow).find(holds),
        };
        if let Some(dataflow) = unsaid {
            let refused = self.rows_unsaid(&builder, dataflow, &build);
            if !build.resume {
                let begun = builder.edition_id();
                drop(builder);
                publisher.discard(&begun).await.map_err(failed)?;
            }
            return Err(refused);
        }
        if build.replace_structures {
            let carried: Vec<FilePath> = builder.list().structures.iter().map(|file| file.path.clone()).collect();
            for path in carried {
                builder.remove_structures(&path).await.map_err(failed)?;
            }
        }
        for message in messages {
            let Message {
                bytes,
                format,
                partial_of,
            } = message;
            builder
                .add_structures(bytes, format, &partial_of)
                .await
                .map_err(failed)?;
        }
        let before: BTreeMap<Urn, u64> = row_counts(&builder).collect();
        self.fill_tables(&mut builder, &build).await?;
        for (name, bytes) in others {
            builder.put_file(name, bytes, Tier::Lazy).await.map_err(failed)?;
        }
        let list = builder.list();
        Ok(EditionBuildReport {
            store: self.shown.to_string(),
            product_id: product_id.to_string(),
            edition_id: builder.edition_id().to_string(),
            previous: builder.previous().map(|previous| previous.to_string()),
            resumed: build.resume,
            tables: list
                .tables
                .iter()
                .map(|table| EditionTable {
                    dataflow: table.dataflow.to_string(),
                    files: table.files.len() as u64,
                    rows: table.files.iter().map(|file| file.rows).sum(),
                    rows_before: before.get(&table.dataflow).copied(),
                    fingerprint: None,
                })
                .collect(),
            structures: list.structures.iter().map(|file| file.path.to_string()).collect(),
            files: list.files.iter().map(|file| file.path.to_string()).collect(),
        })
    }

    /// Writes the files of each table, then makes them the table's, so that a table has all of them or none.
    async fn fill_tables(&self, builder: &mut EditionBuilder, build: &Build) -> Result<(), ApiError> {
        let failed = |error| errors::edition(&error, &build.product_id, &self.shown);
        let mut by_dataflow: Vec<(&Urn, Vec<&Path>)> = Vec::new();
        for (dataflow, path) in &build.tables {
            match by_dataflow.iter_mut().find(|(other, _)| *other == dataflow) {
                Some((_, paths)) => paths.push(path),
                None => by_dataflow.push((dataflow, vec![path])),
            }
        }
        for (dataflow, paths) in by_dataflow {
            let held = builder.list().table(dataflow).and_then(|table| table.files.first());
            let held = held.map(|file| file.path.clone());
            // With rows and nothing said of them, the build was refused before.
            let rows = match (&held, build.rows) {
                (None, _) | (_, None) => Rows::Append,
                (Some(_), Some(rows)) => rows,
            };
            let mut like = match (&held, rows) {
                (Some(path), Rows::Append) => self.columns_of(&build.product_id, path).await?,
                _ => None,
            };
            let mut written = Vec::with_capacity(paths.len());
            for path in paths {
                let (path, nulls, progress) = (path.to_owned(), build.nulls.clone(), self.progress.clone());
                let columns = like.clone();
                let opened =
                    tokio::task::spawn_blocking(move || tables::open(&path, columns.as_ref(), &nulls, &progress));
                let opened = opened.await.map_err(ApiError::bug)??;
                let stored = builder.write_data(dataflow, opened.content).await;
                let stored = stored.map_err(|error| opened.failure.take().unwrap_or_else(|| failed(error)))?;
                if like.is_none() {
                    like = self.columns_of(&build.product_id, &stored).await?;
                }
                written.push(stored);
            }
            match rows {
                Rows::Append => builder.append(dataflow, &written, Tier::Required).await,
                Rows::Replace => builder.replace_table(dataflow, &written, Tier::Required).await,
            }
            .map_err(failed)?;
        }
        Ok(())
    }

    fn rows_unsaid(&self, builder: &EditionBuilder, dataflow: &Urn, build: &Build) -> ApiError {
        let rows = row_counts(builder).find(|(other, _)| other == dataflow);
        let rows = rows.map_or(0, |(_, rows)| rows);
        ApiError::new(
            ErrorKind::Refused,
            format!("{dataflow} has {rows} rows already, and nothing says whether they stay"),
        )
        .safe(match build.resume {
            true => "no version was written; the unsealed edition is as it was",
            false => "no version was written, and no edition was begun",
        })
        .next("the same command with --append, which keeps them, or --replace, which doesn't")
    }

    /// The columns of a data file, where its place tells them without its rows.
    async fn columns_of(&self, product_id: &ProductId, path: &FilePath) -> Result<Option<SchemaRef>, ApiError> {
        let opened = self.data.of(product_id)?.open(path).await;
        let Some(file) = opened.map_err(|error| errors::storage(&error))? else {
            return Ok(None);
        };
        let schema = tokio::task::spawn_blocking(move || file.schema())
            .await
            .map_err(ApiError::bug)?;
        schema.map_err(|error| {
            ApiError::new(ErrorKind::Integrity, format!("data file {path}: {error}"))
                .safe("no version was written; what is live is as it was")
                .next("bring the file back from a backup, then run it again")
        })
    }

    /// Reads a structure message. INV-54: what its partial artefacts were cut from is looked up in the structure
    /// products.
    fn message(&self, path: &Path, version: &Version) -> Result<Message, ApiError> {
        let bytes = read(path)?;
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let xml = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'<');
        let (format, read) = if xml {
            (MessageFormat::Xml, read_xml(&bytes, Limits::default()))
        } else {
            (MessageFormat::Json, read_json(&bytes, Limits::default()))
        };
        let message = read.map_err(|error| {
            ApiError::new(ErrorKind::BadInput, format!("{}: {error}", path.display()))
                .safe("no version was written; what is live is as it was")
                .next("name an SDMX-JSON 2.0 or SDMX-ML 2.1 structure message")
        })?;
        let mut partial_of = Vec::new();
        for artefact in message.structures.iter().filter(|artefact| artefact.is_partial()) {
            let urn: Urn = artefact.urn().as_str().parse().map_err(ApiError::bug)?;
            if let Some(full) = full_artefact(version, &urn) {
                partial_of.push((urn, full));
            }
        }
        Ok(Message {
            bytes,
            format,
            partial_of,
        })
    }

    /// Seals the product's unsealed edition, checks it as one that is about to be published, and records it.
    ///
    /// INV-270: an edition whose seal was interrupted after its manifest is recorded first, and then there is nothing
    /// to seal.
    pub(crate) async fn seal(
        &self,
        author: Author,
        product_id: &ProductId,
        release_at: Option<Instant>,
    ) -> Result<EditionSealReport, ApiError> {
        if self.registers {
            return self.seal_to_register(author, product_id, release_at).await;
        }
        let failed = |error| errors::edition(&error, product_id, &self.shown);
        let reason = author.reason.clone();
        let (publisher, version, profile) = self.publisher(author, product_id).await?;
        // Whoever completes an interrupted seal doesn't know its release time, and would make it live.
        if release_at.is_some() && !version.embargo() {
            return Err(ApiError::new(
                ErrorKind::Refused,
                "the embargo is off, so a sealed edition is live at once and can't wait for a release time (INV-195)",
            )
            .safe("nothing was sealed; no version was written")
            .next(format!(
                "sovm inventory embargo on{}, then the same command",
                self.shown.option()
            )));
        }
        let repairs = publisher.repair().await.map_err(failed)?;
        if let Some(report) = self.repaired(&publisher, &repairs).await? {
            return Ok(report);
        }
        let other_structures = match profile.kind {
            ProductKind::Data => Vec::new(),
            ProductKind::Structure => self.other_structures(product_id, &version).await?,
        };
        let builder = publisher.resume().await.map_err(failed)?;
        let edition_id = builder.edition_id();
        if let Err(error) = publisher.check_base(edition_id, builder.previous()).await {
            let at = self.shown.option();
            return Err(failed(error)
                .safe("no version was written, and the edition is still unsealed")
                .next(format!(
                    "sovm edition discard {product_id} {edition_id}{at}, then sovm edition build {product_id}{at}, which begins from the live \
                     edition"
                )));
        }
        let request = SealRequest {
            producer_fields: JsonObject::new(),
            extensions: JsonObject::new(),
            other_structures: other_structures.clone(),
            release_at,
        };
        let sealed = builder.seal(request).await.map_err(failed)?;
        let options = CheckOptions {
            other_structures: &other_structures,
            ..CheckOptions::default()
        };
        let mut report = self.sealed(&sealed.manifest, sealed.manifest.sha256());
        let checked = publisher.check(&edition_id, &options).await.map_err(failed)?;
        let publishable = match checked.into_publishable() {
            Ok(publishable) => publishable,
            Err(found) => {
                report.findings = found.findings.iter().map(finding_info).collect();
                return Ok(report);
            }
        };
        let recorded = publisher
            .record_for(&publishable, &reason, release_at)
            .await
            .map_err(failed)?;
        match recorded {
            Recorded::Committed(committed) => {
                report.seq = Some(committed.head.root().seq.get());
                report.current_failed = committed
                    .current
                    .as_ref()
                    .err()
                    .map(|error| crate::engine::chain(error));
                let state = if committed.head.root().embargo || release_at.is_some() {
                    EditionState::Embargoed
                } else {
                    EditionState::Live
                };
                report.state = Some(state.to_string());
            }
            Recorded::Already(status) => report.state = Some(status.to_string()),
        }
        report.release_at = release_at.map(|at| at.to_string());
        Ok(report)
    }

    /// What a repair recorded of this product, as the seal it completes.
    async fn repaired(&self, publisher: &Publisher, repairs: &[Repair]) -> Result<Option<EditionSealReport>, ApiError> {
        let recorded = repairs.iter().find_map(|repair| match repair {
            Repair::Recorded { edition_id, seq } => Some((edition_id, seq)),
            _ => None,
        });
        let Some((edition_id, seq)) = recorded else {
            return Ok(None);
        };
        let place = publisher.place();
        let failed = |error| errors::edition(&error, place.product_id(), &self.shown);
        let manifest = place.read_manifest(edition_id).await.map_err(failed)?;
        let (_, version) = self.newest().await?;
        let key = EditionKey::new(place.product_id().clone(), *edition_id);
        Ok(Some(EditionSealReport {
            state: version.status(&key).map(|status| status.to_string()),
            seq: Some(seq.get()),
            repaired: true,
            ..self.sealed(&manifest, manifest.sha256())
        }))
    }

    /// What a manifest says of its edition.
    pub(super) fn sealed(&self, manifest: &Manifest, sha256: Sha256) -> EditionSealReport {
        let data = |dataflow: &Urn| {
            let folder = format!("{}/", dataflow.id());
            let data = manifest.files.iter().filter(|file| file.root == FileRoot::Data);
            data.filter(|file| file.path.as_str().starts_with(&folder)).count() as u64
        };
        EditionSealReport {
            store: self.shown.to_string(),
            product_id: manifest.product_id.to_string(),
            edition_id: manifest.edition_id.to_string(),
            previous: manifest.previous.map(|previous| previous.to_string()),
            manifest_sha256: sha256.to_string(),
            content_fingerprint: manifest.content_fingerprint.map(|fingerprint| fingerprint.to_string()),
            tables: manifest
                .bindings
                .iter()
                .map(|binding| EditionTable {
                    dataflow: binding.dataflow.to_string(),
                    files: data(&binding.dataflow),
                    rows: binding.observations,
                    rows_before: None,
                    fingerprint: Some(binding.fingerprint.to_string()),
                })
                .collect(),
            artefacts: manifest.artefacts.len() as u64,
            ..EditionSealReport::default()
        }
    }

    /// INV-239: the structures of the live and embargoed editions of other structure products.
    pub(super) async fn other_structures(
        &self,
        product_id: &ProductId,
        version: &Version,
    ) -> Result<Vec<(String, Structures)>, ApiError> {
        let mut others = Vec::new();
        let homes = version
            .leaves()
            .filter(|leaf| leaf.kind == ProductKind::Structure && leaf.product_id != *product_id);
        for leaf in homes {
            let place = self.editions_of(&leaf.product_id).await?;
            let current = leaf
                .editions
                .iter()
                .filter(|entry| matches!(entry.state, EditionState::Live | EditionState::Embargoed));
            for entry in current {
                let structures = place.structures(&entry.edition_id).await;
                let structures = structures.map_err(|error| errors::edition(&error, &leaf.product_id, &self.shown))?;
                let name = EditionKey::new(leaf.product_id.clone(), entry.edition_id).to_string();
                others.push((name, structures));
            }
        }
        Ok(others)
    }
}

fn row_counts(builder: &EditionBuilder) -> impl Iterator<Item = (Urn, u64)> {
    let tables = builder.list().tables.iter();
    tables.map(|table| (table.dataflow.clone(), table.files.iter().map(|file| file.rows).sum()))
}

/// The full artefact a partial of this URN was cut from: what a live structure edition holds, else an embargoed one.
fn full_artefact(version: &Version, urn: &Urn) -> Option<Sha256> {
    [EditionState::Live, EditionState::Embargoed]
        .into_iter()
        .find_map(|state| {
            let homes = version.leaves().filter(|leaf| leaf.kind == ProductKind::Structure);
            let entries = homes.flat_map(|leaf| leaf.editions.iter().filter(|entry| entry.state == state));
            entries.into_iter().find_map(|entry| {
                let record = entry.artefacts.as_ref()?.get(urn)?;
                record.partial_of.is_none().then_some(record.fingerprint)
            })
        })
}

fn read(path: &Path) -> Result<Bytes, ApiError> {
    std::fs::read(path)
        .map(Bytes::from)
        .map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> ApiError {
    ApiError::io(format!("reading {}", path.display()), error)
        .safe("no edition was begun; what is live is as it was")
        .next("name a file that is there and can be read")
}
