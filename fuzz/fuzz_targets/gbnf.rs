//! Grammars in GBNF.
#![no_main]

use ffwd::Constraint;

libfuzzer_sys::fuzz_target!(|data: &[u8]| ffwd_fuzz::try_grammar(data, |text| Constraint::builder().gbnf(text)));
