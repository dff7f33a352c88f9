#![no_main]

use sovm_fuzz::decoders::BLOB;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&BLOB), |bytes: &[u8]| sovm_fuzz::run(&BLOB, bytes));
