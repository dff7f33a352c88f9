//! Listed files: sizes and digests.

use std::collections::BTreeMap;

use super::{Check, EditionFile, Fault, Measured};
use crate::{
    doc::{FileRoot, Manifest},
    transition::EditionKey,
};

/// Files of a product measured already; editions share data files, and each is read once.
pub(super) type Seen = BTreeMap<String, Option<Measured>>;

impl Check<'_> {
    /// INV-395: every file a manifest lists, by its size and every digest recorded that can be computed here.
    pub(super) async fn files(&mut self, edition: &EditionKey, manifest: &Manifest, seen: &mut Seen) {
        for entry in &manifest.files {
            let Some(files) = self.options.files else {
                self.report.counts.files_unmeasured += 1;
                continue;
            };
            let file = EditionFile {
                product_id: &edition.product_id,
                edition_id: &edition.edition_id,
                entry,
            };
            let path = file.path();
            let measured = match seen.get(&path) {
                Some(measured) => measured.clone(),
                None => match files.measure(&file).await {
                    Ok(measured) => {
                        self.report.counts.files += 1;
                        self.report.counts.bytes += measured.as_ref().map_or(0, |measured| measured.size);
                        if entry.root == FileRoot::Data {
                            seen.insert(path.clone(), measured.clone());
                        }
                        measured
                    }
                    Err(error) => {
                        self.fault(path, Fault::unreadable(&error));
                        continue;
                    }
                },
            };
            for fault in compare(edition, entry, measured.as_ref()) {
                self.fault(path.clone(), fault);
            }
        }
    }
}

fn compare(edition: &EditionKey, entry: &crate::doc::FileEntry, measured: Option<&Measured>) -> Vec<Fault> {
    let edition_id = edition.edition_id;
    let Some(measured) = measured else {
        return vec![Fault::FileMissing { edition_id }];
    };
    if measured.size != entry.size {
        // Every digest differs too, and that adds nothing.
        return vec![Fault::FileSize {
            edition_id,
            recorded: entry.size,
            found: measured.size,
        }];
    }
    let recorded = |algorithm: &str| match algorithm {
        "sha256" => Some(entry.digests.sha256().to_string()),
        other => entry.digests.get(other).map(str::to_owned),
    };
    measured
        .digests
        .iter()
        .filter_map(|(algorithm, found)| {
            let recorded = recorded(algorithm).filter(|recorded| recorded != found)?;
            Some(Fault::FileDigest {
                edition_id,
                algorithm: algorithm.clone(),
                recorded,
                found: found.clone(),
            })
        })
        .collect()
}
