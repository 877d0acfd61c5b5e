//! JSON Schemas built from bytes, so that nearly all of them are well-formed. The output of a walk
//! must be valid for an independent validator.
#![no_main]

use ffwd::{Constraint, KeyOrder, Policy, Whitespace};
use ffwd_fuzz::{Bytes, Walk, compile, schema};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes::new(data);
    let schema = schema::document(&mut bytes);
    let text = schema.to_string();
    let whitespace = match bytes.below(4) {
        0 | 1 => Whitespace::Compact,
        2 => Whitespace::SingleSpace,
        _ => Whitespace::Flexible { max: 1 },
    };
    let key_order = if bytes.below(4) == 3 { KeyOrder::Any } else { KeyOrder::Declared };
    let equal_numbers = bytes.below(4) == 3;
    // Numbers that the validator, which calculates in binary floating point, gets right.
    let (max_integer_digits, max_fraction_digits) = (9, 3);
    let policy = Policy {
        whitespace,
        key_order,
        max_integer_digits,
        max_fraction_digits,
        equal_numbers,
        ..Policy::default()
    };
    let Some(grammar) = compile(Constraint::builder().policy(policy).json_schema(&text)) else { return };
    let mut walk = Walk::new(&grammar);
    walk.follow(&mut bytes, 48);
    if !walk.finish(120) {
        return;
    }
    let instance: serde_json::Value = serde_json::from_slice(walk.text())
        .unwrap_or_else(|e| panic!("{text}: {:?} is no JSON: {e}", String::from_utf8_lossy(walk.text())));
    // A format is a condition for ffwd, and for this validator with this option.
    if let Ok(validator) = jsonschema::draft202012::options().should_validate_formats(true).build(&schema) {
        assert!(validator.is_valid(&instance), "{text} does not allow {instance}");
    }
});
