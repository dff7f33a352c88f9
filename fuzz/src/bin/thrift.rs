#![no_main]

use sovm_fuzz::decoders::THRIFT;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&THRIFT), |bytes: &[u8]| sovm_fuzz::run(&THRIFT, bytes));
