//! The engine: carries values between key store, catalogue, objects and mesh, which never name each other.
//!
//! Each step has the same shape: read a snapshot, decide with the pure code of the lower crates, write one transaction, and only
//! then send or tell. Formats, wrapping and verifying stay where they are defined; nothing here signs or decrypts by hand.

mod author;
mod columns;
mod convert;
mod core;
mod doctor;
mod files;
mod footers;
mod founding;
mod group;
mod inspect;
mod inventory;
mod layout;
mod mls_rows;
mod network;
mod objects;
mod orphans;
mod pipeline;
mod publish;
mod raw;
mod recovery;
mod reports;
mod scrub;
mod self_check;
mod service;
mod source;
mod tables;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use async_trait::async_trait;

pub use sovm_mesh::net::steps::watch_steps;

pub use self::core::Node;
pub(crate) use self::{convert::chain, founding::machine_name};
use crate::{
    api::{DemoReport, InitReport, ProgressSink, RecoverReport, Service},
    cli::{Backend, DemoOptions, InitOptions, OnStep, OpenOptions, RecoverOptions},
    config::{Home, Unlock},
    error::ApiError,
};

/// The engine as the command line sees it.
#[derive(Debug)]
pub struct Engine;

#[async_trait]
impl Backend for Engine {
    async fn init(&self, home: &Home, options: InitOptions) -> Result<InitReport, ApiError> {
        founding::init(home, options).await
    }

    async fn open(&self, home: &Home, unlock: Unlock, options: OpenOptions) -> Result<Arc<dyn Service>, ApiError> {
        Ok(Arc::new(Node::open(home, unlock, options).await?))
    }

    async fn recover(
        &self,
        home: &Home,
        options: RecoverOptions,
        progress: Arc<dyn ProgressSink>,
    ) -> Result<RecoverReport, ApiError> {
        recovery::recover(home, options, progress).await
    }

    async fn demo(&self, options: DemoOptions, on_step: OnStep<'_>) -> Result<DemoReport, ApiError> {
        tokio::task::block_in_place(|| crate::demo::run(&options, on_step))
    }
}
