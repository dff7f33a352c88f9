//! Coverage-guided fuzzing of every decoder. `README.md` says how to run it and how to add a target.

pub mod decoders;

// The ingest code names nothing else of its crate, so that it can be built here without the query engine.
#[path = "../../node/src"]
#[allow(
    dead_code,
    unused_imports,
    reason = "a part of another crate, of which one door is used"
)]
mod node {
    pub(crate) mod ingest;
}
use node::ingest;

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind, set_hook},
    process::abort,
    sync::Mutex,
};

use peak_alloc::PeakAlloc;

pub use decoders::Target;

/// Counts what the decoders take.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The last panic's text and place, and the places of those that were contained.
static PANICS: Mutex<(String, BTreeSet<String>)> = Mutex::new((String::new(), BTreeSet::new()));

/// Once in a process, before the first input.
///
/// The fuzzer's own hook ends the process at any panic. Some decoders contain panics of a library over a hostile object,
/// and report an error; only a panic that gets out of a decoder is a finding.
///
/// Asked by `SOVM_FUZZ_MAX_LEN`, it prints the longest input that should be tried instead, for `.ci/fuzz`.
pub fn begin(target: &Target) {
    if std::env::var_os("SOVM_FUZZ_MAX_LEN").is_some() {
        println!("{}", target.max_len);
        std::process::exit(0);
    }
    set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let mut panics = PANICS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        panics.0 = panic.to_string();
        if panics.1.insert(place.clone()) {
            eprintln!("panic at {place}");
        }
    }));
}

/// Decodes `bytes` and holds the decoder to its bounds.
pub fn run(target: &Target, bytes: &[u8]) {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.decode)(bytes)));
    let taken = MEMORY.peak_usage().saturating_sub(before);
    if outcome.is_err() {
        let text = PANICS.lock().map(|panics| panics.0.clone()).unwrap_or_default();
        eprintln!("{}: {text}", target.name);
        abort();
    }
    let bound = target.memory + target.memory_per_byte * bytes.len();
    if taken > bound {
        eprintln!(
            "{}: {} bytes of input took {taken} bytes of memory, above {bound} (SOP-90)",
            target.name,
            bytes.len()
        );
        abort();
    }
}
