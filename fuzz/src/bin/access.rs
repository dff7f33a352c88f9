#![no_main]

use sovm_fuzz::decoders::ACCESS;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&ACCESS), |bytes: &[u8]| sovm_fuzz::run(&ACCESS, bytes));
