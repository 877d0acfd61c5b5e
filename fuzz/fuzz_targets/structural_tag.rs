//! Structural tags.
#![no_main]

use ffwd::Constraint;

libfuzzer_sys::fuzz_target!(|data: &[u8]| ffwd_fuzz::try_text(data, |text| Constraint::structural_tag(text)));
