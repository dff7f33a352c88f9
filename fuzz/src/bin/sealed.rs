#![no_main]

use sovm_fuzz::decoders::SEALED;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&SEALED), |bytes: &[u8]| sovm_fuzz::run(&SEALED, bytes));
