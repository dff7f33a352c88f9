#![no_main]

use sovm_fuzz::decoders::SYNC;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&SYNC), |bytes: &[u8]| sovm_fuzz::run(&SYNC, bytes));
