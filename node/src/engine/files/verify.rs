//! Blobs in `object verify` and in drills: every tag, every byte that must be zero, and the figures the manifest states.

use sovm_mesh::net::store::ObjectStore;
use sovm_object::{
    blob::{self, Blob, OpenBlobError},
    id::StorageId,
    padme::padme,
    record::ObjectManifest,
    secret::Dek,
    verified::VerifiedRead,
};

use super::runs;

/// Reads a blob to its end. Gives what its manifest states otherwise, as findings: such a blob is whole and opens (SOP-75).
pub(in super::super) async fn verify_blob(
    store: &ObjectStore,
    id: StorageId,
    dek: &Dek,
    manifest: &ObjectManifest,
) -> Result<Vec<String>, OpenBlobError> {
    let size = VerifiedRead::size(store, id).await?;
    let blob = Blob::open(store, id, dek).await?;
    for chunks in runs(blob.chunks()) {
        blob.read_chunks(store, chunks).await?;
    }
    let mut findings = Vec::new();
    if blob.key_ref() != manifest.key_ref {
        findings.push("its key reference is not the one its manifest states".to_owned());
    }
    if blob::unpadded_len(blob.content_len()) != Some(manifest.exact_byte_size) {
        findings.push(format!(
            "its content has {} bytes and its manifest states {} without padding",
            blob.content_len(),
            manifest.exact_byte_size
        ));
    }
    if padme(manifest.exact_byte_size) != Some(size) {
        findings.push("its length is not the padded length of what its manifest states".to_owned());
    }
    Ok(findings)
}
