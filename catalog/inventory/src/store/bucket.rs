//! Any `object_store` with conditional put: S3 and what speaks like it.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::{
    ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, UpdateVersion, path::Path as ObjectPath,
};

use super::{
    Creation, Found, InventoryStore, LockReach, Replacement, Revision, StoreError, StoreLock, StorePath, check_size,
};

/// An Inventory in a bucket, under a prefix of it or at its root.
///
/// A put of one object is complete before it is visible there (INV-245); `If-None-Match: *` makes it exclusive, and
/// `If-Match` makes a replacement conditional. A bucket has no lock, so this store's lock keeps out only the writers
/// that share it: what must exclude other machines asks [`InventoryStore::lock_reach`].
#[derive(Debug, Clone)]
pub struct BucketStore {
    bucket: Arc<dyn ObjectStore>,
    prefix: Option<StorePath>,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl BucketStore {
    /// The Inventory under `prefix` in `bucket`.
    pub fn new(bucket: Arc<dyn ObjectStore>, prefix: Option<StorePath>) -> Self {
        Self {
            bucket,
            prefix,
            lock: Arc::default(),
        }
    }

    fn object(&self, path: &StorePath) -> Result<ObjectPath, StoreError> {
        let name = match &self.prefix {
            Some(prefix) => format!("{prefix}/{path}"),
            None => path.to_string(),
        };
        // `parse` keeps the name as it is, where `from` would escape parts of it.
        ObjectPath::parse(&name).map_err(|error| StoreError::Other {
            action: "naming",
            path: name,
            source: Box::new(error),
        })
    }
}

fn failed(action: &'static str, path: &StorePath, source: object_store::Error) -> StoreError {
    StoreError::Bucket {
        action,
        path: path.to_string(),
        source: Box::new(source),
    }
}

#[async_trait]
impl InventoryStore for BucketStore {
    async fn get(&self, path: &StorePath) -> Result<Option<Found>, StoreError> {
        let result = match self.bucket.get(&self.object(path)?).await {
            Ok(result) => result,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failed("reading", path, error)),
        };
        check_size(path, result.meta.size)?;
        let revision = result
            .meta
            .e_tag
            .as_deref()
            .map(Revision::new)
            .ok_or_else(|| StoreError::NoRevision { path: path.clone() })?;
        let bytes = result.bytes().await.map_err(|error| failed("reading", path, error))?;
        Ok(Some(Found { bytes, revision }))
    }

    async fn create(&self, path: &StorePath, bytes: Bytes) -> Result<Creation, StoreError> {
        check_size(path, bytes.len() as u64)?;
        let options = PutOptions {
            mode: PutMode::Create,
            ..PutOptions::default()
        };
        match self
            .bucket
            .put_opts(&self.object(path)?, PutPayload::from_bytes(bytes), options)
            .await
        {
            Ok(_) => Ok(Creation::Created),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(Creation::Exists),
            Err(error) => Err(failed("creating", path, error)),
        }
    }

    async fn replace(&self, path: &StorePath, expected: &Revision, bytes: Bytes) -> Result<Replacement, StoreError> {
        check_size(path, bytes.len() as u64)?;
        let version = UpdateVersion {
            e_tag: Some(expected.as_str().to_owned()),
            version: None,
        };
        let options = PutOptions {
            mode: PutMode::Update(version),
            ..PutOptions::default()
        };
        match self
            .bucket
            .put_opts(&self.object(path)?, PutPayload::from_bytes(bytes), options)
            .await
        {
            Ok(_) => Ok(Replacement::Replaced),
            Err(object_store::Error::Precondition { .. } | object_store::Error::NotFound { .. }) => {
                Ok(Replacement::Changed)
            }
            Err(error) => Err(failed("replacing", path, error)),
        }
    }

    async fn delete(&self, path: &StorePath) -> Result<(), StoreError> {
        match self.bucket.delete(&self.object(path)?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed("deleting", path, error)),
        }
    }

    async fn list(&self, folder: Option<&StorePath>) -> Result<Vec<StorePath>, StoreError> {
        let below = match (folder, &self.prefix) {
            (Some(folder), _) => Some(self.object(folder)?),
            (None, Some(prefix)) => Some(ObjectPath::parse(prefix.as_str()).map_err(|error| StoreError::Other {
                action: "naming",
                path: prefix.to_string(),
                source: Box::new(error),
            })?),
            (None, None) => None,
        };
        let objects: Vec<_> =
            self.bucket
                .list(below.as_ref())
                .try_collect()
                .await
                .map_err(|error| StoreError::Bucket {
                    action: "listing",
                    path: below.as_ref().map(ToString::to_string).unwrap_or_default(),
                    source: Box::new(error),
                })?;
        let mut names = Vec::with_capacity(objects.len());
        for object in objects {
            let whole = object.location.as_ref();
            let name = match &self.prefix {
                Some(prefix) => whole
                    .strip_prefix(prefix.as_str())
                    .and_then(|rest| rest.strip_prefix('/')),
                None => Some(whole),
            };
            // Buckets hold other things too; a name no document can have is not ours to report.
            if let Some(path) = name.and_then(|name| StorePath::parse(name).ok()) {
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
}
