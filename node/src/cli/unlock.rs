//! Where passphrase or key file come from: the option, `SOVM_KEY_FILE`, the settings, the terminal; in this order.

use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::{
    config::{Config, Unlock},
    error::{ApiError, ErrorKind},
    output::Output,
};

/// Shorter passphrases are refused at the start, when nothing depends on them yet.
const MIN_PASSPHRASE_CHARS: usize = 8;

/// What opens a node that exists.
pub(super) fn existing(config: &Config, output: &Output) -> Result<Unlock, ApiError> {
    if let Some(path) = from_environment().or_else(|| config.key_file.clone()) {
        return existing_key_file(path);
    }
    require_terminal(output)?;
    let passphrase = prompt("passphrase: ")?;
    Ok(Unlock::Passphrase(passphrase))
}

/// What will open a node that is about to be made. The flag tells whether the settings shall remember a key file.
pub(super) fn fresh(key_file: Option<&Path>, output: &Output) -> Result<(Unlock, Option<PathBuf>), ApiError> {
    if let Some(path) = key_file {
        let path = std::path::absolute(path).map_err(|error| ApiError::io(path.display(), &error))?;
        return Ok((Unlock::KeyFile(path.clone()), Some(path)));
    }
    if let Some(path) = from_environment() {
        return Ok((Unlock::KeyFile(path), None));
    }
    require_terminal(output)?;
    output.note("Choose a passphrase for this node. It is asked for by every command, unless sovm run is running.");
    loop {
        let first = prompt("new passphrase: ")?;
        if first.chars().count() < MIN_PASSPHRASE_CHARS {
            output.note(format!("at least {MIN_PASSPHRASE_CHARS} characters, please"));
            continue;
        }
        if *prompt("once more: ")? == *first {
            return Ok((Unlock::Passphrase(first), None));
        }
        output.note("they differ; once again");
    }
}

fn from_environment() -> Option<PathBuf> {
    std::env::var_os("SOVM_KEY_FILE")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

fn existing_key_file(path: PathBuf) -> Result<Unlock, ApiError> {
    // A missing file is the commonest mistake, and must never end in a prompt or in a new key.
    match path.metadata() {
        Ok(_) => Ok(Unlock::KeyFile(path)),
        Err(error) => Err(ApiError::new(
            ErrorKind::WrongKey,
            format!("the key file {} cannot be read: {}", path.display(), error.kind()),
        )
        .safe("the node is untouched")
        .next("put the key file back, or set SOVM_KEY_FILE to where it is")),
    }
}

fn require_terminal(output: &Output) -> Result<(), ApiError> {
    if output.can_ask() {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorKind::WrongKey,
        "a passphrase is needed and there is no terminal to ask on",
    )
    .safe("nothing was changed")
    .next("set SOVM_KEY_FILE=PATH (with sovm init: --key-file PATH), or run the command on a terminal"))
}

fn prompt(text: &str) -> Result<Zeroizing<String>, ApiError> {
    rpassword::prompt_password(text)
        .map(Zeroizing::new)
        .map_err(|error| ApiError::io("reading the passphrase", &error))
}
