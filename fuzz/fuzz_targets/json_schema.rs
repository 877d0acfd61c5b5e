//! JSON Schema as text, with flexible white space and exponents if it begins with a blank.
#![no_main]

use ffwd::{Constraint, Policy, Whitespace};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ffwd_fuzz::try_text(data, |text| {
        let policy = if text.starts_with(' ') {
            Policy { whitespace: Whitespace::Flexible { max: 2 }, exponent: true, ..Policy::default() }
        } else {
            Policy::default()
        };
        Constraint::json_schema_with(text, policy)
    });
});
