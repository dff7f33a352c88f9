//! `sovm object show --raw`: signed records as files, for other tools.

use std::{fs::OpenOptions, io::Write as _, path::Path};

use super::super::{Context, session::expect};
use crate::{
    api::{ObjectRawReport, Request, Response},
    error::{ApiError, ErrorKind},
};

/// Writes the records into a directory and says how they are checked.
pub(super) async fn run(context: &Context<'_>, id: String, dir: &Path) -> Result<u8, ApiError> {
    let mut report = expect!(context.call(Request::ObjectRaw { id }).await?, ObjectRaw);
    write(&mut report, dir)?;
    let shown = report.clone();
    context.show(&Response::ObjectRaw(report), |output| {
        for file in &shown.files {
            output.line(file.display().to_string())?;
        }
        output.note(format!(
            "each file is a COSE_Sign1 of Ed25519; its record id is BLAKE3 of the whole file, the public key is the producer \
             (field 8) of a manifest and the issuer (field 12) of an access record. The external data under the signature is \
             built from mesh id {} as docs/formats.md says under \"Envelopes\"",
            shown.mesh_id
        ));
        Ok(())
    })
}

fn write(report: &mut ObjectRawReport, dir: &Path) -> Result<(), ApiError> {
    let failed = |path: &Path, error: &std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            ApiError::new(ErrorKind::Exists, format!("there is a file {} already", path.display()))
                .safe("it was not changed")
                .next("name another directory, or remove the file")
        }
        _ => ApiError::io(format!("writing {}", path.display()), error),
    };
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
    let paths: Vec<_> = report
        .records
        .iter()
        .map(|record| dir.join(format!("{}.{}.cose", report.storage_id, record.part)))
        .collect();
    // All names first: a second run in the same directory should not leave half a set.
    if let Some(taken) = paths.iter().find(|path| path.symlink_metadata().is_ok()) {
        return Err(failed(taken, &std::io::ErrorKind::AlreadyExists.into()));
    }
    for (record, path) in report.records.iter().zip(paths) {
        let bytes = hex::decode(&record.cose_hex).map_err(ApiError::bug)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|error| failed(&path, &error))?;
        file.write_all(&bytes).map_err(|error| failed(&path, &error))?;
        report.files.push(path);
    }
    Ok(())
}
