#![no_main]

use sovm_fuzz::decoders::NDJSON;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&NDJSON), |bytes: &[u8]| sovm_fuzz::run(&NDJSON, bytes));
