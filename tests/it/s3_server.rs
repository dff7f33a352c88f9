//! An S3 server on a loopback port, for tests that need a real one. The node's own tests have this file too.
//!
//! It is moto, which runs through Python: the interpreter in `SOVM_TEST_PYTHON`, or `python3`. A machine without the `moto`
//! package skips these tests and says so; an interpreter that was named on purpose and has none fails them.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

/// The key that no output may hold.
pub(crate) const SECRET: &str = "a-hushed-key";
/// The bucket that every server has.
pub(crate) const BUCKET: &str = "books";

const NAMED: &str = "SOVM_TEST_PYTHON";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/s3_server.py");

/// A server that ends when it is dropped, and with this process however that ends.
pub(crate) struct S3Server {
    child: Child,
    port: u16,
}

impl S3Server {
    /// Starts a server with these settings in its environment, and makes its bucket. None where there is no moto and nobody
    /// said that there is.
    pub(crate) fn start(settings: &[(&str, &str)]) -> Option<Self> {
        let named = std::env::var_os(NAMED);
        let python = named.clone().unwrap_or_else(|| "python3".into());
        let shown = python.display().to_string();
        let spawned = Command::new(&python)
            .arg(SCRIPT)
            .envs(settings.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) if named.is_none() => return skip(&format!("{shown} does not start: {error}")),
            Err(error) => panic!("{shown} of {NAMED} does not start: {error}"),
        };
        let mut line = String::new();
        let output = child.stdout.take().expect("its output is a pipe");
        BufReader::new(output).read_line(&mut line).expect("its output is text");
        let Ok(port) = line.trim().parse::<u16>() else {
            let status = child.wait().expect("it ended");
            if status.code() == Some(3) && named.is_none() {
                return skip(&format!("{shown} has no moto"));
            }
            panic!("the S3 server of {shown} ended with {status}, having said {line:?}");
        };
        let server = Self { child, port };
        let (status, _) = server.send("PUT", "", b"");
        assert_eq!(status, 200, "the bucket was not made");
        Some(server)
    }

    /// What a program needs in its environment to find the server.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        [
            ("AWS_ACCESS_KEY_ID", "an-id".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Sends a request for an object, or with an empty key or a query for the bucket itself, as somebody else would: without
    /// any code of ours. Answers with status and body.
    pub(crate) fn send(&self, method: &str, key: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connected");
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).expect("a time-out");
        // moto looks only whether there is a signature.
        let head = format!(
            "{method} /{BUCKET}/{key} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=an-id/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, \
             Signature=00\r\nContent-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n",
            port = self.port,
            length = body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("answered");
        let end = answer
            .windows(4)
            .position(|bytes| bytes == b"\r\n\r\n")
            .expect("a head");
        let head = String::from_utf8_lossy(&answer[..end]);
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("a status"), answer[end + 4..].to_vec())
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // It may have ended already, and then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says why a test proves nothing here, past the test runner's capture.
fn skip<T>(why: &str) -> Option<T> {
    let advice = "pip install 'moto[server]==5.2.5', or name an interpreter that has it";
    let _ = writeln!(
        std::io::stderr(),
        "skipped: no S3 server to test on: {why} ({advice} in {NAMED})"
    );
    None
}
