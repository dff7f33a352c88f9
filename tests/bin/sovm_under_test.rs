//! The shipped binary's `main`, so that Cargo builds it for these tests and tells them where it is. Beside that it can be
//! killed at a named step, which the shipped binary cannot.

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    sovm::engine::watch_steps(|step| {
        if std::env::var("SOVM_CRASH_AT").is_ok_and(|wanted| wanted == step) {
            // Signal 9 from outside, as a power button would: nothing of this process runs any more, whatever it holds.
            let kill = format!("kill -KILL {}", std::process::id());
            let _ = Command::new("sh").args(["-c", &kill]).status();
            loop {
                std::thread::park();
            }
        }
    });
    sovm::cli::main(&sovm::engine::Engine)
}
