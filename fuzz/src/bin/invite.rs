#![no_main]

use sovm_fuzz::decoders::INVITE;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&INVITE), |bytes: &[u8]| sovm_fuzz::run(&INVITE, bytes));
