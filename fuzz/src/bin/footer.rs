#![no_main]

use sovm_fuzz::decoders::FOOTER;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&FOOTER), |bytes: &[u8]| sovm_fuzz::run(&FOOTER, bytes));
