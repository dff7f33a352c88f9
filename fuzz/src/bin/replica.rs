#![no_main]

use sovm_fuzz::decoders::REPLICA;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&REPLICA), |bytes: &[u8]| sovm_fuzz::run(&REPLICA, bytes));
