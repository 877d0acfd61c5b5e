//! `--confidence`, `--spans` and `--verbatim`: further members of lines.

use serde_json::{Value, json};

use crate::program::{Folder, ffwd, succeeds, texts};

const SCHEMA: &str = r#"{"type": "object", "properties": {"name": {"type": "string", "maxLength": 20},
    "kind": {"enum": ["bill", "order"]}, "count": {"type": "integer"}}, "required": ["name", "kind", "count"]}"#;
const TEXT: &str = "Zoë\r\n東京 \u{1f469}\u{200d}\u{1f52c} sends 12 lamps. Zoë Öz paid.";

fn extract(more: &[&str]) -> String {
    let folder = Folder::new();
    folder.write("a.txt", TEXT);
    folder.write("s.json", SCHEMA);
    succeeds(&[&["extract", &folder.path("a.txt"), "-s", &folder.path("s.json")], more].concat()).0
}

#[test]
fn lines_have_the_members_that_were_asked_for() {
    for batch in ["1", "4"] {
        let out = extract(&["--confidence", "--alternatives", "--spans", "--verbatim", "--batch", batch]);
        let line: Value = serde_json::from_str(&out).unwrap();
        for pointer in ["/name", "/kind", "/count"] {
            let found = &line["confidence"][pointer];
            for member in ["probability", "margin", "legal_mass"] {
                let number = found[member].as_f64().unwrap();
                assert!((-1.0..=1.0).contains(&number), "{out}");
            }
        }
        let kinds = line["confidence"]["/kind"]["alternatives"].as_array().unwrap();
        let sum: f64 = kinds.iter().map(|kind| kind["probability"].as_f64().unwrap()).sum();
        assert!(kinds.len() == 2 && (sum - 1.0).abs() < 1e-4, "{out}");
        assert!(line["confidence"]["/name"]["alternatives"].is_null());
        // The name was copied, so that each of its spans is the name.
        let name = line["record"]["name"].as_str().unwrap();
        let spans = &line["spans"]["/name"];
        let all = spans["occurrences"].as_array().cloned().unwrap_or_else(|| vec![spans.clone()]);
        assert_eq!(all.len(), TEXT.matches(name).count(), "{out}");
        for span in all {
            let of = |member: &str, end: usize| span[member][end].as_u64().unwrap() as usize;
            assert_eq!(&TEXT[of("bytes", 0)..of("bytes", 1)], name);
            let chars: String =
                TEXT.chars().skip(of("chars", 0)).take(of("chars", 1) - of("chars", 0)).collect();
            assert_eq!(chars, name);
        }
    }
}

#[test]
fn lines_have_no_further_members_by_default() {
    let record: Value = serde_json::from_str(&extract(&[])).unwrap();
    assert!(record["name"].is_string() && record["confidence"].is_null());
    let line: Value = serde_json::from_str(&extract(&["--spans"])).unwrap();
    assert_eq!((&line["record"], &line["confidence"]), (&record, &json!(null)));
    assert!(line["spans"].is_object() && line["unsupported"].is_object());
}

/// With a bound that nothing reaches, all values become null that may be: those that the schema requires to be
/// something stay. The record is valid, and lists what it lacks.
#[test]
fn values_that_are_not_certain_become_null() {
    let folder = Folder::new();
    folder.write("a.txt", TEXT);
    let schema = r#"{"properties": {"name": {"type": ["string", "null"], "maxLength": 20}, "count": {"type": "integer"},
        "kinds": {"type": "array", "items": {"enum": ["bill", null]}, "minItems": 1, "maxItems": 1}},
        "required": ["name", "count", "kinds"]}"#;
    folder.write("n.json", schema);
    let (file, schema, out) = (folder.path("a.txt"), folder.path("n.json"), folder.path("r.jsonl"));
    let extract = |more: &[&str]| -> Value {
        serde_json::from_str(&succeeds(&[&["extract", &file, "-s", &schema], more].concat()).0).unwrap()
    };
    let plain = extract(&["--confidence"]);
    let sure = |pointer: &str| plain["confidence"][pointer]["probability"].as_f64().unwrap();
    let line = extract(&["--abstain", "1"]);
    assert_eq!(line["record"]["count"], plain["record"]["count"]);
    assert!(line["confidence"].is_null());
    // The text has no word of the enumeration; a null in its place is no value of it.
    let own = extract(&["--spans"]);
    assert_eq!(own["unsupported"], json!({"/kinds/0": "bill"}));
    assert_eq!(line["unsupported"], json!({}));
    for pointer in ["/name", "/kinds/0"] {
        let own = plain["record"].pointer(pointer).unwrap();
        let (value, null) = (&line["abstained"][pointer]["value"], line["record"].pointer(pointer).unwrap());
        assert!(null.is_null() && (own.is_null() || value == own || sure(pointer) == 1.0), "{line} {plain}");
    }
    assert_eq!(extract(&["--abstain", "0"])["record"], plain["record"]);
    // Each part has its own, and a run with another bound made other records.
    let parts = extract(&["--abstain", "1", "--chunk-tokens", "16"]);
    assert!(parts["records"][0]["abstained"].is_object(), "{parts}");
    succeeds(&["extract", &file, "-s", &schema, "--abstain", "0.5", "-o", &out]);
    let other = ffwd(&["extract", &file, "-s", &schema, "--abstain", "0.6", "-o", &out, "--resume"]);
    assert!(texts(&other).1.contains("--abstain"), "{other:?}");
}
