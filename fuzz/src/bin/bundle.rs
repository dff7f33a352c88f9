#![no_main]

use sovm_fuzz::decoders::BUNDLE;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&BUNDLE), |bytes: &[u8]| sovm_fuzz::run(&BUNDLE, bytes));
