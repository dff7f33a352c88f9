#![no_main]

use sovm_fuzz::decoders::TICKET;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&TICKET), |bytes: &[u8]| sovm_fuzz::run(&TICKET, bytes));
