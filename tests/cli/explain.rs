//! The command `explain`: the report on a schema, as text and as JSON.

use serde_json::Value;

use crate::program::{Folder, succeeds};

fn explain(schema: &str, args: &[&str]) -> String {
    let folder = Folder::new();
    folder.write("s.json", schema);
    succeeds(&[&["explain", "--schema", &folder.path("s.json")], args].concat()).0
}

#[test]
fn a_report_has_runs_bounds_and_speedups() {
    let schema = r#"{"type": "object", "properties": {"customer_number": {"type": "integer"}, "note": {"type": "string"}},
        "required": ["customer_number", "note"]}"#;
    let report: Value = serde_json::from_str(&explain(schema, &["--json"])).unwrap();
    assert!(report["states"].as_u64() > Some(0) && report["least_tokens"].as_u64() > Some(0), "{report}");
    assert_eq!(report["most_tokens"], Value::Null);
    assert_eq!(report["endless"][0]["pointer"], "/properties/note");
    let run = report["longest_runs"][0]["text"].as_str().unwrap();
    assert!(run.contains("customer_number"), "{run}");
    let estimate = &report["estimate"];
    let fraction = estimate["fraction"]["median"].as_f64().unwrap();
    assert!(fraction > 0.0 && fraction < 1.0, "{estimate}");
    let forwards = |way: &str| estimate[way]["forwards"].as_f64().unwrap();
    assert!(forwards("forced") <= forwards("off") && forwards("copies") <= forwards("forced"), "{estimate}");
    let text = explain(schema, &[]);
    for part in ["without bound", "without end    #/properties/note: add maxLength", "forced runs alone"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn longer_strings_lower_the_forced_share_and_bounds_are_known() {
    let schema =
        r#"{"type": "object", "properties": {"a": {"type": "string", "maxLength": 400}}, "required": ["a"]}"#;
    let report = |chars: &str| -> Value {
        serde_json::from_str(&explain(schema, &["--json", "--string-chars", chars])).unwrap()
    };
    let (short, long) = (report("8"), report("300"));
    let share = |report: &Value| report["estimate"]["fraction"]["median"].as_f64().unwrap();
    assert!(share(&short) > share(&long));
    assert!(short["most_tokens"].as_u64().unwrap() >= 400, "{short}");
    assert_eq!(short["endless"].as_array().unwrap().len(), 0);
    let open: Value = serde_json::from_str(&explain(schema, &["--json", "--open-objects"])).unwrap();
    assert_eq!(open["most_tokens"], Value::Null);
}
