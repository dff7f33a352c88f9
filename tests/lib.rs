//! Tests from outside: the binary as a process, files that other engines wrote, vectors. Everything lives under `it/`.
