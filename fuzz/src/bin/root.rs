#![no_main]

use sovm_fuzz::decoders::ROOT;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&ROOT), |bytes: &[u8]| sovm_fuzz::run(&ROOT, bytes));
