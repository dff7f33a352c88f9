//! The `sovm` binary: parse, run, exit code.

fn main() -> std::process::ExitCode {
    sovm::cli::main(&sovm::engine::Engine)
}
