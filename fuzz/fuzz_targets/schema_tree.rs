//! JSON Schemas built from bytes, so that nearly all of them are well-formed; what a walk writes must be
//! valid for an independent validator.
#![no_main]

use ffwd::Constraint;
use ffwd_fuzz::{Bytes, Walk, compile, schema};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes::new(data);
    let schema = schema::document(&mut bytes);
    let text = schema.to_string();
    let Some(grammar) = compile(Constraint::json_schema(&text)) else { return };
    let mut walk = Walk::new(&grammar);
    walk.follow(&mut bytes, 48);
    if !walk.finish(120) {
        return;
    }
    let instance: serde_json::Value = serde_json::from_slice(walk.text()).unwrap_or_else(|e| {
        panic!("{text}: {:?} is no JSON: {e}", String::from_utf8_lossy(walk.text()))
    });
    if let Ok(validator) = jsonschema::draft202012::new(&schema) {
        assert!(validator.is_valid(&instance), "{text} does not allow {instance}");
    }
});
