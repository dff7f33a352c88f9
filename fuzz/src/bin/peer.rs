#![no_main]

use sovm_fuzz::decoders::PEER;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&PEER), |bytes: &[u8]| sovm_fuzz::run(&PEER, bytes));
