//! The one place where failures get their exit code, HTTP status and words.
//!
//! Every error a person sees says three things: what happened, what is safe, and the next command (DESIGN §11). Nothing
//! else in the crate knows an exit code.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What went wrong, as a stable word for scripts (`--json`, field `error.kind`).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file, row, ticket or text given by the user cannot be used.
    BadInput,
    /// Whoever read our output went away.
    BrokenPipe,
    /// A rule of the program was broken: our fault.
    Bug,
    /// The disk is full or over its reserve.
    DiskFull,
    /// The thing to be made exists already.
    Exists,
    /// It did not work, and no other word fits.
    Failed,
    /// Another process has this home open.
    HomeInUse,
    /// An answer would lack rows that are not here yet.
    Incomplete,
    /// Bytes do not match their name, signature or tag.
    Integrity,
    /// The user stopped the command.
    Interrupted,
    /// Nobody could be reached.
    Network,
    /// There is no node in this home.
    NoNode,
    /// Nothing of that name is known here.
    NotFound,
    /// Done, but something is pending or quarantined (only with `--strict`).
    Pending,
    /// A rule forbids it.
    Refused,
    /// The local store failed.
    Storage,
    /// It took longer than its deadline.
    Timeout,
    /// The command line cannot be understood.
    Usage,
    /// The passphrase or key file does not open this home.
    WrongKey,
}

impl ErrorKind {
    /// Exit code of the process (DESIGN §11): stable and documented.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Usage => 2,
            Self::BrokenPipe => 3,
            Self::NoNode => 10,
            Self::HomeInUse => 11,
            Self::WrongKey => 12,
            Self::Pending => 20,
            Self::Bug => 255,
            Self::BadInput
            | Self::DiskFull
            | Self::Exists
            | Self::Failed
            | Self::Incomplete
            | Self::Integrity
            | Self::Interrupted
            | Self::Network
            | Self::NotFound
            | Self::Refused
            | Self::Storage
            | Self::Timeout => 1,
        }
    }

    /// Status of the same error over HTTP.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::BadInput | Self::Usage => 400,
            Self::WrongKey => 401,
            Self::NotFound | Self::NoNode => 404,
            Self::Timeout => 504,
            Self::Exists | Self::HomeInUse | Self::Incomplete | Self::Pending | Self::Refused => 409,
            Self::Network => 502,
            Self::DiskFull => 507,
            Self::BrokenPipe | Self::Bug | Self::Failed | Self::Integrity | Self::Interrupted | Self::Storage => 500,
        }
    }
}

/// A failure with everything a person or a script needs to go on.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ApiError {
    /// What went wrong, as a stable word.
    pub kind: ErrorKind,
    /// What happened, in one sentence, naming the thing.
    pub message: String,
    /// What is safe: what was not changed or not lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safe: Option<String>,
    /// The next command or step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Exit code of the command, always that of `kind`.
    pub exit_code: u8,
}

impl ApiError {
    /// Starts an error with what happened.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            safe: None,
            next: None,
            exit_code: kind.exit_code(),
        }
    }

    /// Adds what is safe.
    #[must_use]
    pub fn safe(mut self, safe: impl Into<String>) -> Self {
        self.safe = Some(safe.into());
        self
    }

    /// Adds the next command or step.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// An invariant of our own did not hold.
    pub fn bug(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Bug, format!("this is a bug in sovm: {message}"))
            .safe("what was stored before is still there; nothing is reported as done")
            .next("run the command again with SOVM_LOG=debug and report what it prints")
    }

    /// The reader of our output went away; nobody is left to read a message.
    pub fn broken_pipe() -> Self {
        Self::new(ErrorKind::BrokenPipe, "the reader of the output closed it")
    }

    /// An operating system error while doing `what`.
    pub fn io(what: impl fmt::Display, error: &std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        match error.kind() {
            Io::BrokenPipe => Self::broken_pipe(),
            Io::NotFound => Self::new(ErrorKind::NotFound, format!("{what}: no such file or directory")),
            Io::StorageFull | Io::QuotaExceeded => Self::new(ErrorKind::DiskFull, format!("{what}: the disk is full"))
                .safe("nothing was half published; what is stored stays readable")
                .next("free some space, then run the same command again"),
            Io::ReadOnlyFilesystem => Self::new(ErrorKind::Storage, format!("{what}: the file system is read-only"))
                .safe("nothing was changed"),
            Io::PermissionDenied => {
                Self::new(ErrorKind::Failed, format!("{what}: permission denied")).safe("nothing was changed")
            }
            _ => Self::new(ErrorKind::Failed, format!("{what}: {error}")),
        }
    }

    /// The text for a terminal: one line each for what happened, what is safe and what next.
    pub fn render(&self) -> String {
        let mut text = format!("error: {}\n", crate::output::visible(&self.message));
        if let Some(safe) = &self.safe {
            text.push_str(&format!(" safe: {}\n", crate::output::visible(safe)));
        }
        if let Some(next) = &self.next {
            text.push_str(&format!(" next: {}\n", crate::output::visible(next)));
        }
        text
    }

    /// The object printed with `--json`.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "format_version": crate::api::FORMAT_VERSION, "error": self })
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// DESIGN §11: the documented exit codes, one test so that none moves by accident.
    #[test]
    fn exit_codes_are_the_documented_ones() {
        let codes = [
            (ErrorKind::Failed, 1),
            (ErrorKind::Refused, 1),
            (ErrorKind::Usage, 2),
            (ErrorKind::BrokenPipe, 3),
            (ErrorKind::NoNode, 10),
            (ErrorKind::HomeInUse, 11),
            (ErrorKind::WrongKey, 12),
            (ErrorKind::Pending, 20),
            (ErrorKind::Bug, 255),
        ];
        for (kind, code) in codes {
            assert_eq!(ApiError::new(kind, "").exit_code, code, "{kind:?}");
        }
    }

    #[test]
    fn says_what_happened_what_is_safe_and_what_next() {
        let error = ApiError::new(ErrorKind::NoNode, "there is no node in /data/sovm")
            .safe("nothing was changed")
            .next("sovm init");
        insta::assert_snapshot!(error.render(), @r"
        error: there is no node in /data/sovm
         safe: nothing was changed
         next: sovm init
        ");
        insta::assert_snapshot!(error.to_json().to_string(), @r#"{"error":{"exit_code":10,"kind":"no_node","message":"there is no node in /data/sovm","next":"sovm init","safe":"nothing was changed"},"format_version":1}"#);
    }

    /// A name from a peer cannot drive the terminal.
    #[test]
    fn control_characters_are_shown_not_sent() {
        let error = ApiError::new(ErrorKind::NotFound, "no table \u{1b}[2Jx\n");
        assert_eq!(error.render(), "error: no table \\u{1b}[2Jx\\n\n");
    }

    #[test]
    fn full_disk_has_its_own_kind() {
        let error = ApiError::io(
            "writing the lock",
            &std::io::Error::from(std::io::ErrorKind::StorageFull),
        );
        assert_eq!(error.kind, ErrorKind::DiskFull);
        assert!(error.next.is_some());
    }
}
