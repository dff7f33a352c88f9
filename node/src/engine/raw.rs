//! `object show --raw`: the signed records of an object, byte for byte, so that other tools can check them.

use sovm_catalog::Read as _;
use sovm_object::id::RecordId;

use super::core::Core;
use crate::{
    api::{ObjectRawReport, RawRecord},
    error::{ApiError, ErrorKind},
};

impl Core {
    /// Manifests and access records of one object as they were signed.
    pub(super) async fn raw_records(&self, text: &str) -> Result<ObjectRawReport, ApiError> {
        let id = self.resolve_object(text).await?;
        let snapshot = self.read()?;
        let mut records = Vec::new();
        let Some(view) = self.object_view(&snapshot, &id)? else {
            return Err(ApiError::new(
                ErrorKind::NotFound,
                format!("this node has no signed record of object {}", id.fmt_short()),
            )
            .safe("nothing was written")
            .next("sovm object list: what is only held has its records on the devices of its domain"));
        };
        for (number, (hash, _)) in view.manifests.iter().enumerate() {
            let part = match number {
                0 => "manifest".to_owned(),
                later => format!("manifest-{}", later + 1),
            };
            records.extend(self.raw_record(part, &RecordId::from(*hash))?);
        }
        let mut grants = 0;
        for (hash, _) in &view.manifests {
            for grant in snapshot.grants_of_manifest(hash)? {
                grants += 1;
                records.extend(self.raw_record(format!("access-{grants}"), &grant)?);
            }
        }
        Ok(ObjectRawReport {
            storage_id: id.to_string(),
            mesh_id: self.mesh().to_string(),
            records,
            files: Vec::new(),
        })
    }

    fn raw_record(&self, part: String, id: &RecordId) -> Result<Option<RawRecord>, ApiError> {
        Ok(self.read()?.entry(id)?.map(|entry| RawRecord {
            part,
            record_id: id.to_string(),
            state: entry.state.to_string(),
            cose_hex: hex::encode(entry.bytes),
        }))
    }
}
