//! The files of a bucket.

use async_trait::async_trait;

use super::{ProductFiles, StoredFile};
use crate::{
    doc::Instant,
    store::{BucketStore, StoreError},
};

#[async_trait]
impl ProductFiles for BucketStore {
    async fn list_files(&self, folder: &str) -> Result<Vec<StoredFile>, StoreError> {
        let objects = self.objects(Some(folder)).await?;
        let mut files = Vec::with_capacity(objects.len());
        for object in &objects {
            if let Some(name) = self.name_of(&object.location) {
                files.push(StoredFile {
                    path: name.to_owned(),
                    size: object.size,
                    modified: Instant::from_datetime(object.last_modified),
                });
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    async fn delete_file(&self, path: &str) -> Result<(), StoreError> {
        self.delete_object(path).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;
    use crate::store::{Creation, InventoryStore as _, StorePath};

    /// INV-415: what is listed below a folder of a prefix is named from the catalogue's root, and deleted by that name.
    #[tokio::test]
    async fn files_of_a_prefix_are_listed_and_deleted() {
        let prefix = StorePath::parse("deep/down").expect("a path");
        let store = BucketStore::new(Arc::new(InMemory::new()), Some(prefix));
        for name in ["products/p/data/b", "products/p/data/a", "inventory/1.json"] {
            let path = StorePath::parse(name).expect("a path");
            let created = store.create(&path, name.into()).await.expect("created");
            assert_eq!(created, Creation::Created);
        }
        let listed = store.list_files("products").await.expect("listed");
        let names: Vec<&str> = listed.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(names, ["products/p/data/a", "products/p/data/b"]);
        assert_eq!(listed[0].size, 17);
        for _ in 0..2 {
            store
                .delete_file("products/p/data/a")
                .await
                .expect("gone, however often");
        }
        assert_eq!(store.list_files("products").await.expect("listed").len(), 1);
        assert_eq!(store.list(None).await.expect("listed").len(), 2);
    }
}
