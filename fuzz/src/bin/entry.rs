#![no_main]

use sovm_fuzz::decoders::ENTRY;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&ENTRY), |bytes: &[u8]| sovm_fuzz::run(&ENTRY, bytes));
