//! Patterns: regular expressions, ECMA patterns in a schema, element patterns, and their negation.
//! The positions at which the text can end are compared with the `regex` crate.
#![no_main]

use ffwd::Constraint;
use ffwd_fuzz::{Bytes, Walk, compile, text_and_script};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&kind, data)) = data.split_first() else { return };
    let (Some(text), script) = text_and_script(data) else { return };
    let constraint = match kind % 4 {
        0 => Constraint::regex(text),
        1 => Constraint::regex(text).and_then(|c| c.not()),
        2 => Constraint::pattern(text),
        _ => {
            let schema = serde_json::json!({"type": "string", "pattern": text, "maxLength": 40});
            Constraint::json_schema(&schema.to_string())
        }
    };
    let Some(grammar) = compile(constraint) else { return };
    let mut walk = Walk::new(&grammar);
    walk.follow(&mut Bytes::new(script), 48);
    // The flag `x` could turn the closing bracket into a comment.
    if kind % 4 > 1 || text.contains("(?") {
        return;
    }
    let reference = regex::bytes::RegexBuilder::new(&format!(r"\A(?:{text})\z")).size_limit(1 << 20).build();
    if let Ok(reference) = reference {
        let matches = reference.is_match(walk.text());
        let complete = std::str::from_utf8(walk.text()).is_ok();
        let expected = if kind % 4 == 0 { matches } else { !matches && complete };
        assert_eq!(walk.accepting(), expected, "{text:?} on {:?}", String::from_utf8_lossy(walk.text()));
    }
});
