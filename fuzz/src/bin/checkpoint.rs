#![no_main]

use sovm_fuzz::decoders::CHECKPOINT;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&CHECKPOINT), |bytes: &[u8]| sovm_fuzz::run(&CHECKPOINT, bytes));
