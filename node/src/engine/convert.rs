//! What the lower crates report, in the words and kinds people see.

use std::error::Error;

use sovm_catalog as catalog;
use sovm_mesh::{net, proto::mls::MlsError};
use sovm_object::id::MeshId;
use sovm_recovery::keystore;

use crate::{
    api::MeshInfo,
    error::{ApiError, ErrorKind},
};

/// The mesh as reports show it.
pub(super) fn mesh_info(rows: &impl catalog::Read, mesh: MeshId) -> Result<MeshInfo, ApiError> {
    Ok(MeshInfo {
        mesh_id: mesh.to_string(),
        name: rows.mesh_name()?,
    })
}

/// An error with its causes, as one sentence.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let next_text = next.to_string();
        if !text.contains(&next_text) {
            text.push_str(": ");
            text.push_str(&next_text);
        }
        cause = next.source();
    }
    text
}

pub(super) fn is_full(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<std::io::Error>()
            && matches!(
                io.kind(),
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
            )
        {
            return true;
        }
        cause = error.source();
    }
    false
}

fn storage(error: &(dyn Error + 'static)) -> ApiError {
    if is_full(error) {
        disk_full(chain(error))
    } else {
        ApiError::new(ErrorKind::Storage, chain(error)).safe(STILL_SAFE)
    }
}

const STILL_SAFE: &str = "nothing was half published; what is stored stays readable";

fn disk_full(message: String) -> ApiError {
    ApiError::new(ErrorKind::DiskFull, message)
        .safe(STILL_SAFE)
        .next("free some space, then run the same command again")
}

impl From<catalog::OpenError> for ApiError {
    fn from(error: catalog::OpenError) -> Self {
        storage(&error)
    }
}

impl From<catalog::StoreError> for ApiError {
    fn from(error: catalog::StoreError) -> Self {
        match error {
            catalog::StoreError::DiskFull => disk_full(error.to_string()),
            other => storage(&other),
        }
    }
}

impl From<keystore::OpenError> for ApiError {
    fn from(error: keystore::OpenError) -> Self {
        let kind = match &error {
            keystore::OpenError::NoKeyStore(_) => ErrorKind::NoNode,
            _ => ErrorKind::Storage,
        };
        Self::new(kind, chain(&error)).safe("nothing was changed")
    }
}

impl From<keystore::UnlockError> for ApiError {
    fn from(error: keystore::UnlockError) -> Self {
        use keystore::UnlockError as E;
        match &error {
            E::WrongPassphrase | E::WrongKeyFile(_) | E::NeedsPassphrase | E::NeedsKeyFile => {
                Self::new(ErrorKind::WrongKey, chain(&error)).safe("nothing was changed")
            }
            _ => storage(&error),
        }
    }
}

impl From<keystore::KeyFileError> for ApiError {
    fn from(error: keystore::KeyFileError) -> Self {
        let kind = match &error {
            keystore::KeyFileError::Exists(_) => ErrorKind::Exists,
            _ => ErrorKind::WrongKey,
        };
        Self::new(kind, chain(&error)).safe("nothing was changed")
    }
}

impl From<keystore::CreateError> for ApiError {
    fn from(error: keystore::CreateError) -> Self {
        let kind = match &error {
            keystore::CreateError::Exists(_) => ErrorKind::Exists,
            keystore::CreateError::EmptyPassphrase => ErrorKind::BadInput,
            other if is_full(other) => ErrorKind::DiskFull,
            _ => ErrorKind::Storage,
        };
        Self::new(kind, chain(&error))
    }
}

impl From<keystore::WriteError> for ApiError {
    fn from(error: keystore::WriteError) -> Self {
        storage(&error)
    }
}

impl From<net::store::OpenError> for ApiError {
    fn from(error: net::store::OpenError) -> Self {
        match &error {
            net::store::OpenError::InUse(_) => Self::new(ErrorKind::HomeInUse, chain(&error)),
            other => storage(other),
        }
    }
}

impl From<net::store::StoreError> for ApiError {
    fn from(error: net::store::StoreError) -> Self {
        storage(&error)
    }
}

impl From<net::store::NoRoom> for ApiError {
    fn from(error: net::store::NoRoom) -> Self {
        disk_full(error.to_string())
    }
}

impl From<net::store::PublishError> for ApiError {
    fn from(error: net::store::PublishError) -> Self {
        match error {
            net::store::PublishError::NoRoom(error) => error.into(),
            net::store::PublishError::Store(error) => error.into(),
            other => storage(&other),
        }
    }
}

impl From<MlsError> for ApiError {
    fn from(error: MlsError) -> Self {
        Self::new(ErrorKind::Failed, format!("the domain's key group: {}", chain(&error)))
            .safe("the group's state is as it was before this command")
    }
}
