#![no_main]

use sovm_fuzz::decoders::OBJECT;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&OBJECT), |bytes: &[u8]| sovm_fuzz::run(&OBJECT, bytes));
