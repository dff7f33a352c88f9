#![no_main]

use sovm_fuzz::decoders::HINT;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&HINT), |bytes: &[u8]| sovm_fuzz::run(&HINT, bytes));
