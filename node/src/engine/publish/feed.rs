//! What a command has published so far. A feed is published in parts (SOP-274): each is all or nothing, and whatever ends the
//! feed leaves those before as they are.

use super::{Ready, Target};
use crate::{
    error::{ApiError, ErrorKind},
    ingest::Stopper,
};

/// Where rows may become visible: all of them were good, up to here.
pub(super) struct Cut {
    /// Line of the last row read of a text input.
    pub(super) line: Option<u64>,
    /// Bad rows left out so far.
    pub(super) bad_rows: u64,
    /// The input has ended.
    pub(super) last: bool,
}

/// A running command.
#[derive(Default)]
pub(super) struct Ingest {
    pub(super) target: Option<Box<Target>>,
    /// Durable, and not published yet.
    pub(super) ready: Vec<Ready>,
    pub(super) done: Done,
    /// What ends the input, if it is a feed.
    pub(super) feed: Option<Stopper>,
    /// The feed was ended because the node closes.
    pub(super) closing: bool,
}

/// What is visible.
#[derive(Default)]
pub(super) struct Done {
    pub(super) times: u64,
    pub(super) created: bool,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) objects: Vec<String>,
    pub(super) bad_rows: u64,
    line: Option<u64>,
}

impl Done {
    pub(super) fn add(&mut self, target: &Target, objects: &[Ready], cut: &Cut) {
        self.times += 1;
        self.created |= target.signed.is_some();
        self.rows += rows(objects);
        self.bytes += objects.iter().map(Ready::size).sum::<u64>();
        self.objects
            .extend(objects.iter().map(|object| object.id().to_string()));
        self.line = cut.line;
    }

    /// The publication that was just added, for the person who watches.
    pub(super) fn sentence(&self, objects: &[Ready]) -> String {
        format!(
            "published {} rows in {} objects{}",
            rows(objects),
            objects.len(),
            self.up_to()
        )
    }

    /// An error of a feed says what stands. With nothing published the error says so itself.
    pub(super) fn told_with(&self, error: ApiError) -> ApiError {
        if self.times == 0 {
            return error;
        }
        error.safe(format!(
            "{} rows were published before{}; nothing was published of what came after them",
            self.rows,
            self.up_to()
        ))
    }

    fn up_to(&self) -> String {
        self.line
            .map_or_else(String::new, |line| format!(", up to line {line}"))
    }
}

fn rows(objects: &[Ready]) -> u64 {
    objects.iter().map(|object| object.manifest().body().row_count).sum()
}

/// The feed would have gone on.
pub(super) fn closing() -> ApiError {
    ApiError::new(
        ErrorKind::Interrupted,
        "the node closes, and the feed was not at its end",
    )
    .safe("nothing was published")
    .next("start sovm run again, then the command, from the line after")
}

#[cfg(test)]
mod tests;
