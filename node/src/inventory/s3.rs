//! The client of a bucket, set up as other S3 tools are: by `AWS_*` variables.

use std::{ffi::OsString, sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ClientConfigKey, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut},
};
use sovm_inventory::store::BucketStore;

use super::address::BucketAddress;
use crate::error::{ApiError, ErrorKind};

#[cfg(test)]
#[path = "../../../tests/it/s3_server.rs"]
mod server;

/// How long a request may take that reads a document or a block of a file.
const READ_SECONDS: u64 = 20;
/// How long a put may take: a data file is one request.
const WRITE_SECONDS: u64 = 15 * 60;
/// How often a request is tried again.
const RETRIES: usize = 3;
/// When no further try is made. With the five seconds that a connection may take, somebody who waits for an endpoint that
/// isn't there knows it within half a minute.
const RETRY_SECONDS: u64 = 12;

/// Opens a bucket as the variables of the environment say. Nothing is asked of it yet.
pub(super) fn connect(
    address: &BucketAddress,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<BucketStore, ApiError> {
    let settings = Settings::read(variables)?;
    let reads = settings.client(address, READ_SECONDS)?;
    let writes = settings.client(address, WRITE_SECONDS)?;
    Ok(BucketStore::new(Arc::new(reads), address.prefix().cloned()).with_writes(Arc::new(writes)))
}

/// What the environment says.
struct Settings {
    builder: AmazonS3Builder,
    /// Whether it says how long a request may take.
    timeout: bool,
    /// Values that no message may hold.
    secrets: Vec<String>,
}

impl Settings {
    fn read(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, ApiError> {
        let mut settings = Self {
            builder: AmazonS3Builder::new(),
            timeout: false,
            secrets: Vec::new(),
        };
        let (mut endpoint, mut endpoint_s3, mut allow_http) = (None, None, false);
        for (name, value) in variables {
            let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else {
                continue;
            };
            // An empty variable is how scripts leave one out.
            if !name.starts_with("AWS_") || value.is_empty() {
                continue;
            }
            let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() else {
                continue;
            };
            match key {
                AmazonS3ConfigKey::Endpoint => endpoint = Some(checked_endpoint(name, value)?),
                AmazonS3ConfigKey::S3Endpoint => endpoint_s3 = Some(checked_endpoint(name, value)?),
                AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp) => allow_http = is_true(value),
                AmazonS3ConfigKey::Client(ClientConfigKey::Timeout) => settings.timeout = true,
                AmazonS3ConfigKey::AccessKeyId
                | AmazonS3ConfigKey::SecretAccessKey
                | AmazonS3ConfigKey::Token
                | AmazonS3ConfigKey::Encryption(_)
                | AmazonS3ConfigKey::Client(ClientConfigKey::ProxyUrl | ClientConfigKey::ProxyCaCertificate) => {
                    settings.secrets.push(value.to_owned());
                }
                _ => {}
            }
            settings.builder = settings.builder.with_config(key, value);
        }
        // The variable for S3 alone goes before the one for every service, as the client has it.
        if endpoint_s3.or(endpoint) == Some(Scheme::Http) && !allow_http {
            return Err(ApiError::new(
                ErrorKind::Refused,
                "the endpoint is an http:// address: whoever is on the way could read and change everything",
            )
            .safe("nothing was sent")
            .next(
                "name an https:// address in AWS_ENDPOINT_URL, or set AWS_ALLOW_HTTP=true on a network that is yours",
            ));
        }
        Ok(settings)
    }

    fn client(&self, address: &BucketAddress, seconds: u64) -> Result<AmazonS3, ApiError> {
        let mut builder = self
            .builder
            .clone()
            .with_bucket_name(address.bucket())
            // Whatever the environment says: without it two writers would overwrite each other.
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_retry(RetryConfig {
                backoff: BackoffConfig::default(),
                max_retries: RETRIES,
                retry_timeout: Duration::from_secs(RETRY_SECONDS),
            });
        if !self.timeout {
            let key = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
            builder = builder.with_config(key, format!("{seconds}s"));
        }
        builder.build().map_err(|error| self.unusable(&error))
    }

    fn unusable(&self, error: &object_store::Error) -> ApiError {
        let mut text = error.to_string();
        for secret in &self.secrets {
            text = text.replace(secret, "…");
        }
        ApiError::new(
            ErrorKind::Refused,
            format!("the AWS_ variables of the environment can't be used: {text}"),
        )
        .safe("nothing was sent")
        .next("set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL as the bucket's provider says")
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

/// An endpoint is shown in messages of other programs, and goes into requests as it is, so nothing secret may be in it.
fn checked_endpoint(name: &str, value: &str) -> Result<Scheme, ApiError> {
    let refused = |what: &str| {
        ApiError::new(ErrorKind::Refused, format!("{name} {what}"))
            .safe("nothing was sent")
            .next(format!("set {name} to an address like https://s3.example.org"))
    };
    let (scheme, rest) = value.split_once("://").unwrap_or(("", value));
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "https" => Scheme::Https,
        "http" => Scheme::Http,
        _ => return Err(refused("is no https:// address")),
    };
    if rest.contains(['@', '?', '#']) {
        return Err(refused("holds more than an address: a user, a password or a query"));
    }
    Ok(scheme)
}

/// As the client reads truth.
fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "on" | "yes" | "y")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use sovm_inventory::store::{InventoryStore, testing::conformance_of};

    use super::{super::Address, *};

    fn address(text: &str) -> BucketAddress {
        match Address::parse(Some(text)).unwrap() {
            Address::Bucket(bucket) => bucket,
            other => panic!("{other} is no bucket"),
        }
    }

    fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn refusal(pairs: &[(&str, &str)]) -> ApiError {
        connect(&address("s3://books/a"), variables(pairs)).unwrap_err()
    }

    /// INV-245, INV-441: a bucket of an S3 server keeps what every store keeps, through the client that commands use.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_bucket_of_a_server_conforms() {
        let Some(server) = server::S3Server::start(&[]) else {
            return;
        };
        let environment: Vec<(OsString, OsString)> = server
            .variables()
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let count = AtomicUsize::new(0);
        let (environment, count) = (&environment, &count);
        let fresh = move || async move {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let address = address(&format!("s3://{}/catalogue{number}", server::BUCKET));
            let store = connect(&address, environment.clone()).unwrap();
            Arc::new(store) as Arc<dyn InventoryStore>
        };
        conformance_of(fresh, &[2]).await;
        let probed = connect(&address(&format!("s3://{}", server::BUCKET)), environment.clone()).unwrap();
        assert!(probed.is_conditional().await.unwrap());
    }

    #[test]
    fn an_environment_that_does_not_fit_is_refused_without_its_secrets() {
        let half = refusal(&[("AWS_SECRET_ACCESS_KEY", "hush")]);
        assert!(half.message.contains("AccessKeyId"), "{}", half.message);
        let plain = refusal(&[("AWS_ENDPOINT_URL", "http://host:9000")]);
        assert!(plain.next.as_ref().unwrap().contains("AWS_ALLOW_HTTP"), "{plain:?}");
        let user = refusal(&[("AWS_ENDPOINT_URL_S3", "https://me:hush@host")]);
        assert!(user.message.contains("AWS_ENDPOINT_URL_S3"), "{}", user.message);
        let other = refusal(&[("AWS_ENDPOINT_URL", "host:9000")]);
        assert!(other.message.contains("https://"), "{}", other.message);
        for error in [half, plain, user, other] {
            assert!(error.safe.is_some() && error.next.is_some());
            assert!(!error.render().contains("hush"), "{}", error.render());
        }
    }

    #[test]
    fn an_environment_that_fits_opens_a_bucket() {
        let keys = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "hush")];
        for more in [
            [("AWS_REGION", "eu-central-1"), ("AWS_ENDPOINT_URL", "")],
            [
                ("AWS_ENDPOINT_URL", "https://host"),
                ("AWS_CONDITIONAL_PUT", "disabled"),
            ],
            [("AWS_ENDPOINT_URL", "http://host:9000"), ("AWS_ALLOW_HTTP", "true")],
            [("AWS_TIMEOUT", "40s"), ("AWS_UNKNOWN", "whatever")],
            // The one for S3 alone counts.
            [
                ("AWS_ENDPOINT_URL", "http://host"),
                ("AWS_ENDPOINT_URL_S3", "https://host"),
            ],
        ] {
            let pairs = [keys, more].concat();
            let store = connect(&address("s3://books/a"), variables(&pairs)).unwrap();
            assert!(!format!("{store:?}").contains("hush"), "{store:?}");
        }
    }
}
