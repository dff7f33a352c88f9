#![no_main]

use sovm_fuzz::decoders::PARQUET;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&PARQUET), |bytes: &[u8]| sovm_fuzz::run(&PARQUET, bytes));
