#![no_main]

use sovm_fuzz::decoders::HASH_TREE;

libfuzzer_sys::fuzz_target!(init: sovm_fuzz::begin(&HASH_TREE), |bytes: &[u8]| sovm_fuzz::run(&HASH_TREE, bytes));
