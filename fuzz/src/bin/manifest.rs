#![no_main]

use sovm_fuzz::decoders::MANIFEST;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&MANIFEST), |bytes: &[u8]| sovm_fuzz::run(&MANIFEST, bytes));
