#![no_main]

use sovm_fuzz::decoders::CSV;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&CSV), |bytes: &[u8]| sovm_fuzz::run(&CSV, bytes));
