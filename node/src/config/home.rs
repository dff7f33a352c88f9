//! Where a node lives on disk, and the lock that gives it to one process at a time.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
};

use crate::error::{ApiError, ErrorKind};

/// The directory of one node.
#[derive(Clone, Debug, PartialEq)]
pub struct Home(PathBuf);

/// The platform's data directory for sovm (DESIGN §11), used without `--home` and `SOVM_HOME`.
pub fn default_home() -> Result<PathBuf, ApiError> {
    // XDG: a relative path in the variable is to be ignored.
    let xdg = std::env::var_os("XDG_DATA_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let base = match xdg {
        Some(path) => path,
        None => {
            let user = std::env::var_os("HOME")
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
                .ok_or_else(|| {
                    ApiError::new(
                        ErrorKind::Usage,
                        "no home directory is known: neither HOME nor XDG_DATA_HOME is set",
                    )
                    .next("give --home DIR")
                })?;
            if cfg!(target_os = "macos") {
                user.join("Library/Application Support")
            } else {
                user.join(".local/share")
            }
        }
    };
    Ok(base.join("sovm"))
}

impl Home {
    /// The home at this path. Made absolute, so that a later change of directory moves nothing.
    pub fn at(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        Self(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Settings.
    pub fn config_path(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    /// The identity that opens everything else; it is there exactly when the home holds a node.
    pub fn identity_path(&self) -> PathBuf {
        self.0.join("identity.age")
    }

    /// Directory of the daemon's socket, token and process id.
    pub fn run_dir(&self) -> PathBuf {
        self.0.join("run")
    }

    /// Whether there is a node here.
    pub fn is_initialised(&self) -> bool {
        self.identity_path().exists()
    }

    /// Refuses to go on when there is no node here.
    pub fn require(&self) -> Result<(), ApiError> {
        if self.is_initialised() {
            return Ok(());
        }
        Err(
            ApiError::new(ErrorKind::NoNode, format!("there is no node in {}", self.0.display()))
                .safe("nothing was changed")
                .next("sovm init, or name another home with --home DIR"),
        )
    }

    /// Makes the directory, for its owner only.
    pub fn create(&self) -> Result<(), ApiError> {
        create_private_dir(&self.0).map_err(|error| ApiError::io(format!("making {}", self.0.display()), &error))
    }

    /// Takes the home for this process. Fails at once when another process has it.
    pub fn lock(&self) -> Result<HomeLock, ApiError> {
        self.create()?;
        let path = self.0.join("lock");
        let describe = |error: &io::Error| ApiError::io(format!("locking {}", path.display()), error);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| describe(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(self.in_use(&mut file)),
            Err(TryLockError::Error(error)) => return Err(describe(&error)),
        }
        // Only a help for people: the lock is the kernel's, so a stale number blocks nobody.
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "{}", std::process::id()))
            .map_err(|error| describe(&error))?;
        Ok(HomeLock { _file: file })
    }

    fn in_use(&self, file: &mut File) -> ApiError {
        let mut pid = String::new();
        // The holder may be about to write its number.
        let _ = file.read_to_string(&mut pid);
        let holder = match pid.trim().parse::<u32>() {
            Ok(pid) => format!("process {pid}"),
            Err(_) => "another process".to_owned(),
        };
        ApiError::new(
            ErrorKind::HomeInUse,
            format!("{} is in use by {holder}", self.0.display()),
        )
        .safe("nothing was changed")
        .next("wait until that command has finished, or start sovm run once: commands then share it")
    }
}

/// Holds a home until dropped.
#[derive(Debug)]
pub struct HomeLock {
    _file: File,
}

/// Makes a directory and its parents; the last one is readable by its owner only.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}

/// Replaces a file in one step: write beside it, sync, rename, sync the directory.
pub(crate) fn write_replacing(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DESIGN §11: a second process on the same home gets exit code 11 and the holder's process id.
    #[test]
    fn second_lock_names_the_holder() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("node"));
        let held = home.lock().unwrap();
        let error = home.lock().unwrap_err();
        assert_eq!(error.exit_code, 11);
        assert!(error.message.contains(&std::process::id().to_string()), "{error}");
        drop(held);
        home.lock().unwrap();
    }

    /// DESIGN §11: exit code 10 without a node.
    #[test]
    fn empty_home_is_no_node() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Home::at(dir.path()).require().unwrap_err().exit_code, 10);
    }

    #[cfg(unix)]
    #[test]
    fn home_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("a/b"));
        home.create().unwrap();
        assert_eq!(home.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }
}
