#![no_main]

use sovm_fuzz::decoders::KIT_PAGE;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&KIT_PAGE), |bytes: &[u8]| sovm_fuzz::run(&KIT_PAGE, bytes));
