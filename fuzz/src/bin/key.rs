#![no_main]

use sovm_fuzz::decoders::KEY;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&KEY), |bytes: &[u8]| sovm_fuzz::run(&KEY, bytes));
