//! The shipped binary's `main`, so that Cargo builds it for these tests and tells them where it is.

fn main() -> std::process::ExitCode {
    sovm::cli::main(&sovm::engine::Engine)
}
