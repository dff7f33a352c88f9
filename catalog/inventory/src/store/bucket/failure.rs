//! What a bucket's client failed with, in words of our own.

use std::{error::Error, fmt, io};

/// Why an operation on a bucket failed.
///
/// A client's own text is never shown: it holds the endpoint's address, and of a refused signature the whole request, with a
/// session's token among its headers. What is kept is the status and the server's word for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketFailure {
    fault: BucketFault,
    why: &'static str,
    status: Option<u16>,
    code: Option<String>,
}

/// Kinds of failures that something different helps against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketFault {
    /// The server has no bucket of that name.
    NoBucket,
    /// The credentials are unknown there, or may not do it.
    Denied,
    /// There are no credentials, and the machine has no role that gives some.
    NoCredentials,
    /// The bucket is in another region or at another endpoint.
    Elsewhere,
    /// Nobody answered.
    Unreachable,
    /// The server knows no conditional put.
    Unconditional,
    /// Something else.
    Other,
}

impl BucketFailure {
    /// Judges what a client said.
    pub(crate) fn of(error: &object_store::Error) -> Self {
        let (mut texts, mut kind) = (Vec::new(), None);
        let mut cause: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(found) = cause {
            kind = found.downcast_ref::<io::Error>().map(io::Error::kind).or(kind);
            texts.push(found.to_string());
            cause = found.source();
        }
        // The client's types for this can't be named from here, their texts are stable.
        let transport = texts.iter().any(|text| text.starts_with("HTTP error"));
        let whole = texts.join("\n");
        let (status, code) = (status_in(&whole), code_in(&whole));
        let fault = fault_of(error, &whole, status, code, transport);
        let why = match fault {
            BucketFault::NoBucket => "there is no such bucket",
            BucketFault::Denied => "access was denied",
            BucketFault::NoCredentials => "no credentials were found",
            BucketFault::Elsewhere => "the bucket is in another region or at another endpoint",
            BucketFault::Unreachable => unreached(kind, &whole),
            BucketFault::Unconditional => "the server knows no conditional put",
            BucketFault::Other if status.is_some() => "the server refused it",
            BucketFault::Other => "the client failed",
        };
        Self {
            fault,
            why,
            status,
            code: code.map(str::to_owned),
        }
    }

    /// Which kind it is.
    pub fn fault(&self) -> BucketFault {
        self.fault
    }
}

impl fmt::Display for BucketFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why)?;
        match (&self.code, self.status) {
            (Some(code), Some(status)) => write!(f, " ({code}, status {status})"),
            (Some(code), None) => write!(f, " ({code})"),
            (None, Some(status)) => write!(f, " (status {status})"),
            (None, None) => Ok(()),
        }
    }
}

impl Error for BucketFailure {}

fn fault_of(
    error: &object_store::Error,
    whole: &str,
    status: Option<u16>,
    code: Option<&str>,
    transport: bool,
) -> BucketFault {
    use object_store::Error as Client;
    if code == Some("NoSuchBucket") {
        return BucketFault::NoBucket;
    }
    // Where a cloud's machines ask for their role.
    if whole.contains("://169.254.") || whole.contains("AssumeRole") {
        return BucketFault::NoCredentials;
    }
    let moved = matches!(
        code,
        Some("PermanentRedirect" | "TemporaryRedirect" | "AuthorizationHeaderMalformed")
    );
    if moved || matches!(status, Some(301 | 307 | 308)) || whole.contains("redirect without LOCATION") {
        return BucketFault::Elsewhere;
    }
    let denied = matches!(error, Client::PermissionDenied { .. } | Client::Unauthenticated { .. });
    if denied || matches!(status, Some(401 | 403)) || code == Some("AccessDenied") {
        return BucketFault::Denied;
    }
    if matches!(error, Client::NotImplemented { .. }) || status == Some(501) || code == Some("NotImplemented") {
        return BucketFault::Unconditional;
    }
    match transport {
        true => BucketFault::Unreachable,
        false => BucketFault::Other,
    }
}

fn unreached(kind: Option<io::ErrorKind>, whole: &str) -> &'static str {
    let whole = whole.to_ascii_lowercase();
    if kind == Some(io::ErrorKind::ConnectionRefused) {
        "the server can't be reached: the connection was refused"
    } else if kind == Some(io::ErrorKind::TimedOut) || whole.contains("timed out") {
        "the server can't be reached: it did not answer in time"
    } else if whole.contains("dns error") || whole.contains("failed to lookup") {
        "the server can't be reached: its name is not known"
    } else if whole.contains("certificate") {
        "the server can't be reached: its certificate is not trusted"
    } else {
        "the server can't be reached: the connection failed"
    }
}

fn status_in(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

/// The server's own word, as its answers and the client's batch deletion carry it.
fn code_in(text: &str) -> Option<&str> {
    let between = |start: &str, end: &str| {
        let (_, rest) = text.split_once(start)?;
        rest.split_once(end).map(|(code, _)| code)
    };
    let code = between("<Code>", "</Code>").or_else(|| between("(code: ", ")"))?;
    let plain = !code.is_empty() && code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> object_store::Error {
        object_store::Error::Generic {
            store: "S3",
            source: text.into(),
        }
    }

    /// Nothing of a server's answer but its status and its word is shown, whatever stands in it.
    #[test]
    fn a_failure_shows_no_secret() {
        let answer = "Error performing GET http://user:hush@host/bucket/CURRENT in 3ms - Server returned non-2xx status \
                      code: 403 Forbidden: <Error><Code>SignatureDoesNotMatch</Code><CanonicalRequest>GET \
                      x-amz-security-token:hush</CanonicalRequest></Error>";
        let error = object_store::Error::PermissionDenied {
            path: "CURRENT".to_owned(),
            source: answer.into(),
        };
        let failure = BucketFailure::of(&error);
        assert_eq!(failure.fault(), BucketFault::Denied);
        assert_eq!(
            failure.to_string(),
            "access was denied (SignatureDoesNotMatch, status 403)"
        );
        assert!(!format!("{failure:?}").contains("hush"));
    }

    #[test]
    fn failures_that_need_different_help_are_told_apart() {
        let fault = |text: &str| BucketFailure::of(&generic(text)).fault();
        let status = |status: &str, code: &str| {
            fault(&format!(
                "non-2xx status code: {status}: <Error><Code>{code}</Code></Error>"
            ))
        };
        assert_eq!(status("404 Not Found", "NoSuchBucket"), BucketFault::NoBucket);
        assert_eq!(status("301 Moved", "PermanentRedirect"), BucketFault::Elsewhere);
        assert_eq!(
            status("501 Not Implemented", "NotImplemented"),
            BucketFault::Unconditional
        );
        assert_eq!(status("500 Oh", "InternalError"), BucketFault::Other);
        assert_eq!(
            fault("DeleteObjects request failed for key a: no (code: AccessDenied)"),
            BucketFault::Denied
        );
        assert_eq!(
            fault("Error performing PUT http://169.254.169.254/latest/api/token"),
            BucketFault::NoCredentials
        );
        assert_eq!(fault("HTTP error: error sending request"), BucketFault::Unreachable);
        assert_eq!(fault("an answer that is no XML"), BucketFault::Other);
    }

    #[test]
    fn a_refused_connection_is_named() {
        #[derive(Debug)]
        struct Transport(io::Error);
        impl fmt::Display for Transport {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("HTTP error: error sending request")
            }
        }
        impl Error for Transport {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        let error = object_store::Error::Generic {
            store: "S3",
            source: Box::new(Transport(io::ErrorKind::ConnectionRefused.into())),
        };
        let failure = BucketFailure::of(&error);
        assert_eq!(failure.fault(), BucketFault::Unreachable);
        assert!(failure.to_string().ends_with("the connection was refused"), "{failure}");
    }
}
