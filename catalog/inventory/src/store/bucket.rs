//! Any `object_store` with conditional put: S3 and what speaks like it.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::{
    Attribute, Attributes, Error as ClientError, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode,
    PutOptions, PutPayload, UpdateVersion, path::Path as ObjectPath,
};

use super::{
    Creation, Found, InventoryStore, LockReach, Replacement, Revision, StoreError, StoreLock, StorePath, check_size,
};

mod failure;

pub use failure::{BucketFailure, BucketFault};

/// The metadata that tells one put from every other.
const MARK: &str = "sovm-put";
/// How often a creation is tried that met another operation on the same name.
const CONFLICTS_MAX: u32 = 5;

/// A longer put goes through the client that waits longer.
const SHORT_PUT_BYTES: usize = 1 << 20;

/// An Inventory in a bucket, under a prefix of it or at its root.
///
/// A put of one object is complete before it is visible there (INV-245); `If-None-Match: *` makes it exclusive, and
/// `If-Match` makes a replacement conditional. A bucket has no lock, so this store's lock keeps out only the writers
/// that share it: what must exclude other machines asks [`InventoryStore::lock_reach`].
///
/// A client may repeat a put whose answer it didn't get, and then meets its own object. Each put therefore carries a mark
/// of its own as metadata, and what seems to be somebody else's object is asked for its mark.
#[derive(Clone)]
pub struct BucketStore {
    bucket: Arc<dyn ObjectStore>,
    /// The same bucket through a client that waits longer: a put may have a whole data file in it.
    writes: Arc<dyn ObjectStore>,
    prefix: Option<StorePath>,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl BucketStore {
    /// The Inventory under `prefix` in `bucket`.
    pub fn new(bucket: Arc<dyn ObjectStore>, prefix: Option<StorePath>) -> Self {
        Self {
            writes: bucket.clone(),
            bucket,
            prefix,
            lock: Arc::default(),
        }
    }

    /// Writes through another client of the same bucket.
    #[must_use]
    pub fn with_writes(mut self, writes: Arc<dyn ObjectStore>) -> Self {
        self.writes = writes;
        self
    }

    /// Whether the bucket keeps the conditions of a put. One that ignores them takes every put, and the second of two
    /// writers would overwrite the first one's version.
    ///
    /// It is asked with an object whose name no document can have, which is deleted again.
    pub async fn is_conditional(&self) -> Result<bool, StoreError> {
        let name = format!(".probe-{}", crate::doc::fresh_uuid());
        let object = self.object(&name)?;
        let first = self.probe(&object, PutMode::Create).await;
        first.map_err(|error| failed("creating", &name, &error))?;
        let other = UpdateVersion {
            e_tag: Some("\"00000000000000000000000000000000\"".to_owned()),
            version: None,
        };
        let answers = [
            self.probe(&object, PutMode::Create).await,
            self.probe(&object, PutMode::Update(other)).await,
        ];
        let deleted = self.bucket.delete(&object).await;
        deleted.map_err(|error| failed("deleting", &name, &error))?;
        for answer in answers {
            match answer {
                Ok(()) => return Ok(false),
                Err(ClientError::AlreadyExists { .. } | ClientError::Precondition { .. }) => {}
                Err(error) => return Err(failed("replacing", &name, &error)),
            }
        }
        Ok(true)
    }

    async fn probe(&self, object: &ObjectPath, mode: PutMode) -> Result<(), ClientError> {
        let options = PutOptions {
            mode,
            ..PutOptions::default()
        };
        let put = self.bucket.put_opts(object, PutPayload::from_static(b"probe"), options);
        put.await.map(drop)
    }

    /// The client for a put of so many bytes: a small one must not hang for as long as a large one may take.
    fn writer(&self, length: usize) -> &dyn ObjectStore {
        match length <= SHORT_PUT_BYTES {
            true => &*self.bucket,
            false => &*self.writes,
        }
    }

    /// The object that has a name below the catalogue's root.
    pub(crate) fn object(&self, name: &str) -> Result<ObjectPath, StoreError> {
        let name = match &self.prefix {
            Some(prefix) => format!("{prefix}/{name}"),
            None => name.to_owned(),
        };
        // `parse` keeps the name as it is, where `from` would escape parts of it.
        ObjectPath::parse(&name).map_err(|error| StoreError::Other {
            action: "naming",
            path: name,
            source: Box::new(error),
        })
    }

    /// An object's name below the catalogue's root; none for what lies elsewhere in the bucket.
    pub(crate) fn name_of<'a>(&self, object: &'a ObjectPath) -> Option<&'a str> {
        let whole: &str = object.as_ref();
        match &self.prefix {
            Some(prefix) => whole.strip_prefix(prefix.as_str())?.strip_prefix('/'),
            None => Some(whole),
        }
    }

    /// The bucket, to read from.
    pub(crate) fn bucket(&self) -> Arc<dyn ObjectStore> {
        self.bucket.clone()
    }

    /// What the bucket says of an object; none when there is none.
    pub(crate) async fn head(&self, name: &str, object: &ObjectPath) -> Result<Option<ObjectMeta>, StoreError> {
        match self.bucket.head(object).await {
            Ok(meta) => Ok(Some(meta)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(failed("reading", name, &error)),
        }
    }

    /// Every object below a folder, at any depth; none means everything below the prefix.
    pub(crate) async fn objects(&self, folder: Option<&str>) -> Result<Vec<ObjectMeta>, StoreError> {
        let below = match (folder, &self.prefix) {
            (Some(folder), _) => Some(self.object(folder)?),
            (None, Some(prefix)) => Some(ObjectPath::parse(prefix.as_str()).map_err(|error| StoreError::Other {
                action: "naming",
                path: prefix.to_string(),
                source: Box::new(error),
            })?),
            (None, None) => None,
        };
        let listed: Result<Vec<ObjectMeta>, ClientError> = self.bucket.list(below.as_ref()).try_collect().await;
        listed.map_err(|error| failed("listing", folder.unwrap_or("everything"), &error))
    }

    /// Creates an object that must not exist yet.
    pub(crate) async fn create_object(&self, name: &str, bytes: Bytes) -> Result<Creation, StoreError> {
        let object = self.object(name)?;
        let mut attempt = 0;
        loop {
            let (options, mark) = marked(PutMode::Create);
            let payload = PutPayload::from_bytes(bytes.clone());
            let conflict = match self.writer(bytes.len()).put_opts(&object, payload, options).await {
                Ok(_) => return Ok(Creation::Created),
                Err(error @ ClientError::AlreadyExists { .. }) => error,
                Err(error) => return Err(failed("creating", name, &error)),
            };
            match self.bears(&object, &mark).await {
                Ok(Some(true)) => return Ok(Creation::Created),
                Ok(Some(false)) => return Ok(Creation::Exists),
                // A deletion, or another put that failed, was under way: the name is free.
                Ok(None) if attempt + 1 < CONFLICTS_MAX => {}
                Ok(None) => return Err(failed("creating", name, &conflict)),
                Err(error) => return Err(failed("creating", name, &error)),
            }
            tokio::time::sleep(Duration::from_millis(50 << attempt)).await;
            attempt += 1;
        }
    }

    /// Deletes an object; that it is gone already is no error.
    pub(crate) async fn delete_object(&self, name: &str) -> Result<(), StoreError> {
        match self.bucket.delete(&self.object(name)?).await {
            Ok(()) => Ok(()),
            Err(error) if is_absent(&error) => Ok(()),
            Err(error) => Err(failed("deleting", name, &error)),
        }
    }

    /// Whether the object that is there was put with this mark; none when there is no object.
    async fn bears(&self, object: &ObjectPath, mark: &str) -> Result<Option<bool>, ClientError> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        match self.bucket.get_opts(object, options).await {
            Ok(found) => {
                let held = found.attributes.get(&Attribute::Metadata(Cow::Borrowed(MARK)));
                Ok(Some(held.is_some_and(|held| held.as_ref() == mark)))
            }
            Err(ClientError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for BucketStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A client's own Debug goes down to its credentials.
        let prefix = self.prefix.as_ref().map_or("", StorePath::as_str);
        write!(f, "BucketStore({}, {prefix:?})", self.bucket)
    }
}

/// A put that can be told from every other one.
fn marked(mode: PutMode) -> (PutOptions, String) {
    let mark = hex::encode(rand::random::<[u8; 16]>());
    let mut attributes = Attributes::new();
    attributes.insert(Attribute::Metadata(Cow::Borrowed(MARK)), mark.clone().into());
    let options = PutOptions {
        mode,
        attributes,
        ..PutOptions::default()
    };
    (options, mark)
}

/// Whether the object is not there in a bucket that is.
fn is_absent(error: &ClientError) -> bool {
    matches!(error, ClientError::NotFound { .. }) && BucketFailure::of(error).fault() != BucketFault::NoBucket
}

fn failed(action: &'static str, name: &str, error: &ClientError) -> StoreError {
    StoreError::Bucket {
        action,
        path: name.to_owned(),
        source: BucketFailure::of(error),
    }
}

#[async_trait]
impl InventoryStore for BucketStore {
    async fn get(&self, path: &StorePath) -> Result<Option<Found>, StoreError> {
        let failed = |error: &ClientError| failed("reading", path.as_str(), error);
        let result = match self.bucket.get(&self.object(path.as_str())?).await {
            Ok(result) => result,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(failed(&error)),
        };
        check_size(path, result.meta.size)?;
        let revision = result
            .meta
            .e_tag
            .as_deref()
            .map(Revision::new)
            .ok_or_else(|| StoreError::NoRevision { path: path.clone() })?;
        let bytes = result.bytes().await.map_err(|error| failed(&error))?;
        Ok(Some(Found { bytes, revision }))
    }

    async fn create(&self, path: &StorePath, bytes: Bytes) -> Result<Creation, StoreError> {
        check_size(path, bytes.len() as u64)?;
        self.create_object(path.as_str(), bytes).await
    }

    async fn replace(&self, path: &StorePath, expected: &Revision, bytes: Bytes) -> Result<Replacement, StoreError> {
        check_size(path, bytes.len() as u64)?;
        let object = self.object(path.as_str())?;
        let failed = |error: &ClientError| failed("replacing", path.as_str(), error);
        let (options, mark) = marked(PutMode::Update(UpdateVersion {
            e_tag: Some(expected.as_str().to_owned()),
            version: None,
        }));
        match self
            .writer(bytes.len())
            .put_opts(&object, PutPayload::from_bytes(bytes), options)
            .await
        {
            Ok(_) => return Ok(Replacement::Replaced),
            Err(error) if BucketFailure::of(&error).fault() == BucketFault::NoBucket => return Err(failed(&error)),
            // A server that met another writer again and again says so in one of two ways.
            Err(
                ClientError::AlreadyExists { .. } | ClientError::Precondition { .. } | ClientError::NotFound { .. },
            ) => {}
            Err(error) => return Err(failed(&error)),
        }
        match self.bears(&object, &mark).await {
            Ok(Some(true)) => Ok(Replacement::Replaced),
            Ok(_) => Ok(Replacement::Changed),
            Err(error) => Err(failed(&error)),
        }
    }

    async fn delete(&self, path: &StorePath) -> Result<(), StoreError> {
        self.delete_object(path.as_str()).await
    }

    async fn list(&self, folder: Option<&StorePath>) -> Result<Vec<StorePath>, StoreError> {
        let objects = self.objects(folder.map(StorePath::as_str)).await?;
        let mut names = Vec::with_capacity(objects.len());
        for object in &objects {
            // Buckets hold other things too; a name no document can have is not ours to report.
            if let Some(path) = self
                .name_of(&object.location)
                .and_then(|name| StorePath::parse(name).ok())
            {
                names.push(path);
            }
        }
        names.sort();
        Ok(names)
    }

    async fn lock(&self) -> Result<StoreLock, StoreError> {
        Ok(StoreLock::new(self.lock.clone().lock_owned().await))
    }

    fn lock_reach(&self) -> LockReach {
        LockReach::ThisProcess
    }
}

#[cfg(test)]
mod tests {
    use futures::stream::BoxStream;
    use object_store::memory::InMemory;

    use super::*;

    /// INV-245: a conditional put of a whole object is exclusive creation, complete before visible.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_bucket_conforms() {
        super::super::testing::conformance(|| async {
            Arc::new(BucketStore::new(Arc::new(InMemory::new()), None)) as Arc<dyn InventoryStore>
        })
        .await;
    }

    #[tokio::test]
    async fn a_prefix_of_a_bucket_conforms_and_stays_in_its_prefix() {
        let bucket = Arc::new(InMemory::new());
        bucket
            .put(
                &ObjectPath::from("elsewhere/CURRENT"),
                PutPayload::from_static(b"theirs"),
            )
            .await
            .expect("put");
        let prefix = StorePath::parse("statistics/catalogue").expect("a path");
        super::super::testing::conformance(|| {
            let bucket = bucket.clone();
            let prefix = prefix.clone();
            async move {
                let old: Vec<_> = bucket
                    .list(Some(&ObjectPath::from("statistics")))
                    .try_collect()
                    .await
                    .expect("listed");
                for object in old {
                    bucket.delete(&object.location).await.expect("deleted");
                }
                Arc::new(BucketStore::new(bucket, Some(prefix))) as Arc<dyn InventoryStore>
            }
        })
        .await;
        let all: Vec<_> = bucket.list(None).try_collect().await.expect("listed");
        assert!(all.iter().any(|object| object.location.as_ref() == "elsewhere/CURRENT"));
        assert!(all.iter().all(|object| {
            let name = object.location.as_ref();
            name == "elsewhere/CURRENT" || name.starts_with("statistics/catalogue/")
        }));
    }

    #[test]
    fn a_bucket_has_no_lock_against_other_machines() {
        assert_eq!(
            BucketStore::new(Arc::new(InMemory::new()), None).lock_reach(),
            LockReach::ThisProcess
        );
    }

    /// A bucket that loses the answer to a put it took, and takes the client's second try for somebody else's.
    #[derive(Debug)]
    struct Forgetful(InMemory);

    impl fmt::Display for Forgetful {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Forgetful")
        }
    }

    #[async_trait]
    impl ObjectStore for Forgetful {
        async fn put_opts(
            &self,
            location: &ObjectPath,
            payload: PutPayload,
            options: PutOptions,
        ) -> object_store::Result<object_store::PutResult> {
            self.0.put_opts(location, payload.clone(), options.clone()).await?;
            self.0.put_opts(location, payload, options).await
        }

        async fn put_multipart_opts(
            &self,
            location: &ObjectPath,
            options: object_store::PutMultipartOptions,
        ) -> object_store::Result<Box<dyn object_store::MultipartUpload>> {
            self.0.put_multipart_opts(location, options).await
        }

        async fn get_opts(
            &self,
            location: &ObjectPath,
            options: GetOptions,
        ) -> object_store::Result<object_store::GetResult> {
            self.0.get_opts(location, options).await
        }

        fn delete_stream(
            &self,
            locations: BoxStream<'static, object_store::Result<ObjectPath>>,
        ) -> BoxStream<'static, object_store::Result<ObjectPath>> {
            self.0.delete_stream(locations)
        }

        fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
            self.0.list(prefix)
        }

        async fn list_with_delimiter(
            &self,
            prefix: Option<&ObjectPath>,
        ) -> object_store::Result<object_store::ListResult> {
            self.0.list_with_delimiter(prefix).await
        }

        async fn copy_opts(
            &self,
            from: &ObjectPath,
            to: &ObjectPath,
            options: object_store::CopyOptions,
        ) -> object_store::Result<()> {
            self.0.copy_opts(from, to, options).await
        }
    }

    /// A writer whose first try was taken has won, though its second one met an object: nobody else did.
    #[tokio::test]
    async fn a_repeated_put_knows_its_own_object() {
        let store = BucketStore::new(Arc::new(Forgetful(InMemory::new())), None);
        let name = StorePath::parse("inventory/000000000001.json").expect("a path");
        let created = store.create(&name, Bytes::from_static(b"one")).await;
        assert_eq!(created.expect("answered"), Creation::Created);
        let again = store.create(&name, Bytes::from_static(b"one")).await;
        assert_eq!(
            again.expect("answered"),
            Creation::Exists,
            "the same bytes of another put"
        );
        let held = store.get(&name).await.expect("read").expect("there");
        let replaced = store.replace(&name, &held.revision, Bytes::from_static(b"two")).await;
        assert_eq!(replaced.expect("answered"), Replacement::Replaced);
        let stale = store.replace(&name, &held.revision, Bytes::from_static(b"two")).await;
        assert_eq!(stale.expect("answered"), Replacement::Changed);
    }

    /// The probe leaves nothing behind, and a bucket that keeps conditions passes it.
    #[tokio::test]
    async fn conditions_are_probed_without_a_trace() {
        let bucket = Arc::new(InMemory::new());
        let prefix = StorePath::parse("a/catalogue").expect("a path");
        let store = BucketStore::new(bucket.clone(), Some(prefix));
        assert!(store.is_conditional().await.expect("answered"));
        let all: Vec<ObjectMeta> = bucket.list(None).try_collect().await.expect("listed");
        assert_eq!(all, []);
    }
}
