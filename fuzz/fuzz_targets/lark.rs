//! Grammars in Lark's notation; with a leading `#` the notation is detected.
#![no_main]

use ffwd::Constraint;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ffwd_fuzz::try_grammar(data, |text| match text.strip_prefix('#') {
        Some(text) => Constraint::ebnf(text),
        None => Constraint::builder().lark(text),
    });
});
