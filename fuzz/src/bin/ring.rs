#![no_main]

use sovm_fuzz::decoders::RING;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&RING), |bytes: &[u8]| sovm_fuzz::run(&RING, bytes));
