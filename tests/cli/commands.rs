//! `ffwd extract`: what its outputs and figures say of each other. The texts that it prints are in
//! `transcripts`.

use serde_json::Value;

use crate::program::{ffwd, lines, succeeds, texts};

const TEXT: &str = "examples/data/invoice.txt";
const SCHEMA: &str = "examples/data/invoice.schema.json";

#[test]
fn extract_prints_a_valid_record_and_the_figures() {
    let dir = tempfile::tempdir().unwrap();
    let stats = dir.path().join("stats.json");
    let (out, err) = succeeds(&["extract", TEXT, "--schema", SCHEMA, "--stats", stats.to_str().unwrap()]);
    let record: Value = serde_json::from_str(&out).unwrap();
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(SCHEMA).unwrap()).unwrap();
    assert!(jsonschema::is_valid(&schema, &record));
    let order = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(order(&record), order(&schema["properties"]));
    assert_eq!(record["invoice_number"], "INV-20417");
    assert!(err.contains("forwards"), "{err}");
    let stats: Value = serde_json::from_str(&std::fs::read_to_string(stats).unwrap()).unwrap();
    let counts = ["tokens", "forwards", "prompt_tokens", "forced", "drafted", "accepted"];
    let others =
        ["accepted_by_source", "tokens_per_forward", "deterministic_fraction", "mode", "seconds", "finish"];
    for field in counts.iter().chain(&others) {
        assert!(!stats[field].is_null(), "{field}");
    }
}

#[test]
fn the_gate_explains_itself() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stats.json");
    let stats = path.to_str().unwrap();
    let explained = |args: &[&str]| {
        let (out, err) = succeeds(&[args, &["--explain-gate", "--stats", stats]].concat());
        (out, err, serde_json::from_str::<Value>(&std::fs::read_to_string(&path).unwrap()).unwrap())
    };
    let (out, err, stats) = explained(&["extract", TEXT, "--schema", SCHEMA]);
    assert_eq!(out, texts(&ffwd(&["extract", TEXT, "--schema", SCHEMA])).0, "it changes nothing");
    assert!(err.contains("ms by tokens") && err.contains("verdict") && err.contains("forced"), "{err}");
    let gate = &stats["gate"];
    let sum = |field: &str| {
        gate["lines"].as_array().unwrap().iter().map(|l| l[field].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(Some(sum("accepted")), stats["accepted"].as_u64());
    assert!(sum("verified") >= sum("accepted") && sum("taken") > 0);
    assert!(gate["target_ms"].as_array().is_some_and(|t| t.len() > 3), "{gate}");
    let (_, err, stats) =
        explained(&["generate", "Yes or no? ", "--regex", "(yes|no), because [a-z ]{5,20}"]);
    assert!(err.contains("verdict") && stats["gate"]["judging_ms"].as_f64().is_some(), "{err}");
    let (_, err, stats) = explained(&["extract", TEXT, TEXT, "--schema", SCHEMA]);
    assert!(err.matches("verdict").count() == 2 && stats[1]["gate"].is_object(), "{err}");
}

/// A byte order mark is no part of a text, and UTF-16 with one is read.
#[test]
fn byte_order_marks_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let utf8 = |text: &str| [b"\xef\xbb\xbf", text.as_bytes()].concat();
    let utf16 = |text: &str| -> Vec<u8> {
        format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect()
    };
    let (text, schema) = (std::fs::read_to_string(TEXT).unwrap(), std::fs::read_to_string(SCHEMA).unwrap());
    let write = |name: &str, bytes: Vec<u8>| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (record, _) = texts(&ffwd(&["extract", TEXT, "--schema", SCHEMA]));
    for (text, schema) in [(utf8(&text), utf8(&schema)), (utf16(&text), utf16(&schema))] {
        let (text, schema) = (write("text", text), write("schema", schema));
        let (out, err) = texts(&ffwd(&["extract", &text, "--schema", &schema]));
        assert_eq!(out, record, "{err}");
    }
    let tools = r#"[{"name": "now", "parameters": {"type": "object", "properties": {}}}]"#;
    let grammar = "root ::= \"a\"";
    for (option, content) in [("--tools", tools), ("--grammar", grammar), ("--labels", "a\nb")] {
        for bytes in [utf8(content), utf16(content)] {
            succeeds(&["inspect", option, &write("file", bytes)]);
        }
    }
    let bare = write("bare", "{}".encode_utf16().flat_map(u16::to_le_bytes).collect());
    let output = ffwd(&["inspect", "--json-schema", &bare]);
    assert!(!output.status.success() && texts(&output).1.contains("UTF-16 without a byte order mark"));
}

#[test]
fn a_batch_and_threads_print_the_same_lines() {
    let quoting = r#"{"type":"object","properties":{"vendor":{"type":"string","x-verbatim":true}},
        "required":["vendor"],"additionalProperties":false}"#;
    let dir = tempfile::tempdir().unwrap();
    let schema = dir.path().join("quoting.json");
    std::fs::write(&schema, quoting).unwrap();
    for schema in [SCHEMA, schema.to_str().unwrap()] {
        let run = |extra: &[&str]| {
            let files = [TEXT, "README.md", "no/such/file.txt", TEXT, "Cargo.toml", TEXT];
            let output = ffwd(&[&["extract"], &files[..], &["--schema", schema], extra].concat());
            let code = output.status.code();
            (texts(&output).0, code)
        };
        let (alone, code) = run(&[]);
        assert_eq!((alone.lines().count(), code), (6, Some(1)));
        assert_eq!(run(&["--threads", "1"]), (alone.clone(), code));
        assert_eq!(run(&["--batch", "4", "--threads", "3"]), (alone, code));
    }
}

#[test]
fn streamed_values_make_up_the_record() {
    let (out, err) = texts(&ffwd(&["extract", TEXT, "--schema", SCHEMA, "--stream"]));
    let mut lines = lines(&out);
    let record = lines.pop().unwrap();
    let done: Vec<&Value> = lines.iter().filter(|l| l["state"] == "done").collect();
    assert!(done.len() > 3, "{out}{err}");
    for line in done {
        assert_eq!(record.pointer(line["pointer"].as_str().unwrap()), Some(&line["value"]));
    }
}
