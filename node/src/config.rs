//! Settings of a node: `config.toml` in its home. Unknown keys are refused, absent keys have a stated meaning.
//!
//! The file holds nothing secret and names nothing of the mesh: it is read before anything can be decrypted.

mod home;
mod units;
mod unlock;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub(crate) use self::home::{create_private_dir, write_replacing};
pub use self::{
    home::{Home, HomeLock, default_home},
    units::{format_bytes, format_duration_ms, parse_duration, parse_size},
    unlock::Unlock,
};
use crate::error::{ApiError, ErrorKind};

/// What the file holds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Key file that opens this home. When `None`: `SOVM_KEY_FILE`, else a passphrase is asked for.
    pub key_file: Option<PathBuf>,
    /// Bounds on what the node uses.
    pub limits: Limits,
    /// How the node reaches others.
    pub network: Network,
    /// What a node does for the catalogues it writes.
    pub editions: Editions,
}

/// Bounds on what the node uses.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes a second sent to others, as `"4MiB"`. When `None`: no bound.
    #[serde(with = "units::size")]
    pub upload: Option<u64>,
    /// Memory of one query, as `"512MiB"`. When `None`: 512 MiB.
    #[serde(with = "units::size")]
    pub query_memory: Option<u64>,
    /// Disk space that is never used, as `"1GiB"`. When `None`: 256 MiB.
    #[serde(with = "units::size")]
    pub disk_reserve: Option<u64>,
}

/// How the node reaches others.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// Addresses to listen on, as `"0.0.0.0:7777"`. When empty: every interface, a free port.
    pub bind: Vec<std::net::SocketAddr>,
    /// Relay servers by URL. When empty: no relay is used, only direct connections.
    pub relays: Vec<String>,
}

/// What a node does for the catalogues it writes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Editions {
    /// Milliseconds between two times at which embargoed data files are listed for the public domain to fetch ahead, as
    /// `"1h"`: then each full hour UTC. When `None`: only when asked.
    #[serde(with = "units::period")]
    pub prefetch_every: Option<u64>,
}

impl Limits {
    /// Memory a query may use when it does not say itself.
    pub const QUERY_MEMORY_BYTES: u64 = 512 * 1024 * 1024;
    /// Disk space that is left alone when the file says nothing.
    pub const DISK_RESERVE_BYTES: u64 = 256 * 1024 * 1024;
}

impl Config {
    /// Reads the settings of a home. A home without the file has the defaults.
    pub fn load(home: &Home) -> Result<Self, ApiError> {
        let path = home.config_path();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(ApiError::io(format!("reading {}", path.display()), &error)),
        };
        toml::from_str(&text).map_err(|error| {
            ApiError::new(
                ErrorKind::BadInput,
                format!("{} cannot be used: {}", path.display(), error.message()),
            )
            .safe("nothing was started or changed")
            .next(format!("correct {}", path.display()))
        })
    }

    /// Writes the settings, replacing the file in one step.
    pub fn store(&self, home: &Home) -> Result<(), ApiError> {
        let path = home.config_path();
        let text = toml::to_string_pretty(self).map_err(ApiError::bug)?;
        write_replacing(&path, text.as_bytes())
            .map_err(|error| ApiError::io(format!("writing {}", path.display()), &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_file_means_defaults_and_unknown_keys_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        assert_eq!(Config::load(&home).unwrap(), Config::default());
        std::fs::write(home.config_path(), "[limits]\nuplaod = \"1MiB\"\n").unwrap();
        let error = Config::load(&home).unwrap_err();
        assert!(error.message.contains("uplaod"), "{error}");
        std::fs::write(home.config_path(), "[limits]\nupload = \"4MiB\"\n").unwrap();
        assert_eq!(Config::load(&home).unwrap().limits.upload, Some(4 << 20));
    }

    #[test]
    fn a_period_is_a_minute_or_more() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let load = |every: &str| {
            std::fs::write(
                home.config_path(),
                format!("[editions]\nprefetch_every = \"{every}\"\n"),
            )
            .unwrap();
            Config::load(&home)
        };
        assert_eq!(load("90m").unwrap().editions.prefetch_every, Some(5_400_000));
        for bad in ["0s", "59s", "8d", "1"] {
            let error = load(bad).unwrap_err();
            assert!(error.message.contains(bad), "{error}");
        }
    }

    #[test]
    fn what_is_stored_is_what_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let config = Config {
            key_file: Some("/k".into()),
            limits: Limits {
                upload: Some(1_000),
                ..Limits::default()
            },
            network: Network {
                bind: vec!["127.0.0.1:0".parse().unwrap()],
                relays: vec![],
            },
            editions: Editions {
                prefetch_every: Some(3_600_000),
            },
        };
        config.store(&home).unwrap();
        assert_eq!(Config::load(&home).unwrap(), config);
    }
}
