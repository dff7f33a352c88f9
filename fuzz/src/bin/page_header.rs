#![no_main]

use sovm_fuzz::decoders::PAGE_HEADER;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&PAGE_HEADER), |bytes: &[u8]| sovm_fuzz::run(&PAGE_HEADER, bytes));
