//! JSON Schema as text. If it begins with a blank: flexible white space and exponents. If it begins
//! with a tab: any order, single spaces and every way to write a number.
#![no_main]

use ffwd::{Constraint, KeyOrder, Policy, Whitespace};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ffwd_fuzz::try_text(data, |text| {
        let base = Policy::default();
        let policy = match text.chars().next() {
            Some(' ') => Policy { whitespace: Whitespace::Flexible { max: 2 }, exponent: true, ..base },
            Some('\t') => {
                let (whitespace, key_order) = (Whitespace::SingleSpace, KeyOrder::Any);
                Policy { whitespace, key_order, equal_numbers: true, ..base }
            }
            _ => base,
        };
        Constraint::builder().policy(policy).json_schema(text)
    });
});
