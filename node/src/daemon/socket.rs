//! Where the socket lies, who may open it, and what is left of a daemon that was killed.

use std::{
    io,
    path::{Path, PathBuf},
};

use rand::RngCore as _;
use tokio::net::UnixListener;

use crate::{config::Home, error::ApiError};

/// Longest path of a Unix socket that every system takes (`sun_path` is 104 bytes on macOS, 108 on Linux, with a zero).
const MAX_SOCKET_PATH_BYTES: usize = 100;

/// Beginning of the name of a directory that stands in for a home whose path is too long.
const SHORT_DIR_PREFIX: &str = "sovm-";

/// Where a home's daemon can be reached.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) socket: PathBuf,
    pub(crate) token: PathBuf,
}

impl Endpoint {
    /// Where to look; whether a daemon answers is another question.
    pub(crate) fn of(home: &Home) -> Self {
        let run = home.run_dir();
        let socket = std::fs::read_to_string(elsewhere_path(&run))
            .map_or_else(|_| run.join("sovm.sock"), |path| PathBuf::from(path.trim()));
        Self {
            socket,
            token: run.join("token"),
        }
    }
}

/// A bound socket; its files go away with it.
#[derive(Debug)]
pub(super) struct BoundSocket {
    endpoint: Endpoint,
    token: String,
    short_dir: Option<PathBuf>,
}

impl BoundSocket {
    /// What callers must present.
    pub(super) fn token(&self) -> &str {
        &self.token
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        // After a kill these stay; the next start clears them.
        let _ = std::fs::remove_file(&self.endpoint.socket);
        let _ = std::fs::remove_file(&self.endpoint.token);
        if let Some(dir) = &self.short_dir {
            let _ = std::fs::remove_dir(dir);
        }
    }
}

pub(super) fn bind(home: &Home) -> Result<(UnixListener, BoundSocket), ApiError> {
    let run = home.run_dir();
    bind_in(&run).map_err(|error| ApiError::io(format!("opening the socket in {}", run.display()), &error))
}

fn bind_in(run: &Path) -> io::Result<(UnixListener, BoundSocket)> {
    clear_stale(run)?;
    crate::config::create_private_dir(run)?;
    // A restored backup may have brought other permissions.
    restrict(run, 0o700)?;

    let token = random_token();
    let token_path = run.join("token");
    crate::config::write_replacing(&token_path, token.as_bytes())?;
    restrict(&token_path, 0o600)?;

    let near = run.join("sovm.sock");
    let (socket, short_dir) = if near.as_os_str().len() <= MAX_SOCKET_PATH_BYTES {
        (near, None)
    } else {
        let dir = short_dir()?;
        let socket = dir.join("s");
        // Clients find the way from the home; the temporary directory alone proves nothing.
        crate::config::write_replacing(&elsewhere_path(run), socket.as_os_str().as_encoded_bytes())?;
        (socket, Some(dir))
    };
    let listener = UnixListener::bind(&socket)?;
    restrict(&socket, 0o600)?;
    Ok((
        listener,
        BoundSocket {
            endpoint: Endpoint {
                socket,
                token: token_path,
            },
            token,
            short_dir,
        },
    ))
}

/// Removes what a killed daemon left. The caller holds the home's lock, so nobody answers there.
fn clear_stale(run: &Path) -> io::Result<()> {
    let ignore_missing = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    let elsewhere = elsewhere_path(run);
    if let Ok(path) = std::fs::read_to_string(&elsewhere) {
        let socket = PathBuf::from(path.trim());
        // Only what we would have made ourselves: a file someone put here must not name what we delete.
        let dir = socket.parent().filter(|dir| {
            let ours = dir
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(SHORT_DIR_PREFIX));
            ours && socket.file_name().is_some_and(|name| name == "s")
        });
        if let Some(dir) = dir {
            let _ = std::fs::remove_file(&socket);
            let _ = std::fs::remove_dir(dir);
        }
        ignore_missing(std::fs::remove_file(&elsewhere))?;
    }
    ignore_missing(std::fs::remove_file(run.join("sovm.sock")))
}

/// The file that names the socket when it lies elsewhere.
fn elsewhere_path(run: &Path) -> PathBuf {
    run.join("socket-path")
}

/// A fresh private directory with a short path.
fn short_dir() -> io::Result<PathBuf> {
    let base = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_dir() && path.as_os_str().len() < 60)
        .unwrap_or_else(std::env::temp_dir);
    let dir = tempfile::Builder::new()
        .prefix(SHORT_DIR_PREFIX)
        .rand_bytes(12)
        .tempdir_in(base)?
        .keep();
    restrict(&dir, 0o700)?;
    Ok(dir)
}

fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

fn random_token() -> String {
    let mut bytes = [0; 32];
    rand::rng().fill_bytes(&mut bytes);
    hex::encode(bytes)
}
