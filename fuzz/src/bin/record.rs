#![no_main]

use sovm_fuzz::decoders::RECORD;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&RECORD), |bytes: &[u8]| sovm_fuzz::run(&RECORD, bytes));
