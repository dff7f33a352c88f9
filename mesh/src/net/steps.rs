//! Names of the steps between bytes and a published entry, so that a test can stop the process exactly there.
//!
//! A program that registers nothing pays one load of a flag a step. The shipped binary registers nothing, and no setting,
//! argument or variable makes it; the binary that the crash tests build does (SOP §13.2).

use std::sync::OnceLock;

static WATCH: OnceLock<fn(&'static str)> = OnceLock::new();

/// Calls `watch` at every step from now on. Only the first call of a process counts; says whether it was this one.
pub fn watch_steps(watch: fn(&'static str)) -> bool {
    WATCH.set(watch).is_ok()
}

/// The work has come to this step.
pub fn reached(step: &'static str) {
    if let Some(watch) = WATCH.get() {
        watch(step);
    }
}
