#![no_main]

use sovm_fuzz::decoders::PAGES;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&PAGES), |bytes: &[u8]| sovm_fuzz::run(&PAGES, bytes));
