#![no_main]

use sovm_fuzz::decoders::MLS;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&MLS), |bytes: &[u8]| sovm_fuzz::run(&MLS, bytes));
