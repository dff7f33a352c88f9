//! Each break by name, and what must not be taken for one.

use std::sync::Arc;

use super::testing::*;
use crate::{doc::*, reader::Way, store::MemoryStore};

mod sound;

async fn fixture() -> Fixture {
    Fixture::new(Arc::new(MemoryStore::default())).await
}
