//! Temporary files: what a document is before it has its name.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use super::{crash_point, io_error};
use crate::store::StoreError;

/// The folder of temporary files. It begins with a dot, so no document is named like what is in it, and it is on the
/// same file system as the documents, so a rename out of it is atomic.
const FOLDER: &str = ".tmp";

/// A temporary file, removed on drop unless it was renamed.
///
/// It is locked from just after its creation until it closes, which is how a sweep tells a file in use from one whose
/// writer died.
pub(super) struct TemporaryFile {
    path: PathBuf,
    _locked: File,
}

impl TemporaryFile {
    /// Writes a file with all its bytes, durably.
    pub(super) fn write(root: &Path, bytes: &[u8]) -> Result<Self, StoreError> {
        let folder = root.join(FOLDER);
        match fs::create_dir(&folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io_error("making the folder", &folder, error)),
        }
        let path = folder.join(crate::doc::fresh_uuid().to_string());
        let failed = |error| io_error("writing", &path, error);
        let file = File::create_new(&path).map_err(failed)?;
        file.lock().map_err(failed)?;
        crash_point("created");
        let mut temporary = Self {
            path: path.clone(),
            _locked: file,
        };
        let (first, second) = bytes.split_at(bytes.len() / 2);
        temporary._locked.write_all(first).map_err(failed)?;
        crash_point("half-written");
        temporary._locked.write_all(second).map_err(failed)?;
        temporary._locked.sync_all().map_err(failed)?;
        Ok(temporary)
    }

    /// Gives the file a name that nothing has yet.
    pub(super) fn rename_new(&self, target: &Path) -> io::Result<()> {
        match rename_without_replacing(&self.path, target) {
            // Not every file system can do that; every one with hard links can do this, which never replaces either.
            Err(error) if matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput) => {
                fs::hard_link(&self.path, target)
            }
            result => result,
        }
    }

    /// Gives the file a name, in place of what has it.
    pub(super) fn rename_over(&self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)
    }

    /// Whether a rename failed because a sweep ran between this file's creation and its lock.
    pub(super) fn is_swept(&self, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::NotFound && !self.path.exists()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // After a rename there is nothing under this name, and if it can't be removed the next sweep does it.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn rename_without_replacing(_from: &Path, _to: &Path) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Removes the temporary files whose writers are gone. What can't be removed stays: it is in nobody's way.
pub(super) fn sweep(root: &Path) {
    let Ok(entries) = fs::read_dir(root.join(FOLDER)) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let abandoned = File::open(&path).is_ok_and(|file| file.try_lock().is_ok());
        if abandoned {
            match fs::remove_file(&path) {
                Ok(()) => tracing::debug!(path = %path.display(), "removed a temporary file whose writer is gone"),
                Err(error) => tracing::warn!(path = %path.display(), %error, "cannot remove a temporary file"),
            }
        }
    }
}
