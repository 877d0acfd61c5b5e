//! Long texts that are cut into parts.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::program::{Folder, ffwd, lines, texts};

const LIST: &str = r#"{"type": "array", "maxItems": 3, "items": {"type": "object", "required": ["n", "ok"],
    "properties": {"n": {"enum": [1, 2]}, "ok": {"type": "boolean"}}}}"#;

fn long(sentences: usize) -> String {
    (0..sentences).map(|i| format!("Sentence {i} names the größe of lamp {i}.\r\n")).collect()
}

/// Returns the spans of all records of a line, in bytes, checked against the characters.
fn spans(line: &Value, text: &str) -> Vec<(usize, usize)> {
    let records = line["records"].as_array().unwrap().iter();
    let mut spans: Vec<(usize, usize)> = records
        .flat_map(|record| record["chunks"].as_array().unwrap())
        .map(|chunk| {
            let at = |kind: &str, i: usize| chunk[kind][i].as_u64().unwrap() as usize;
            let (start, end) = (at("bytes", 0), at("bytes", 1));
            assert_eq!(at("chars", 0), text[..start].chars().count());
            assert_eq!(at("chars", 1), text[..end].chars().count());
            (start, end)
        })
        .collect();
    spans.sort_unstable();
    spans.dedup();
    spans
}

#[test]
fn each_part_has_a_record_with_its_span() {
    let folder = Folder::new();
    folder.write("in/long.txt", &long(40));
    folder.write("in/short.txt", "A short text.");
    let cut = ["--chunk-tokens", "120", "--chunk-overlap", "30"];
    let (code, out, err) = folder.extract("in", &cut);
    assert_eq!(code, 0, "{err}");
    let got = lines(&out);
    assert!(got.iter().all(|line| line["record"].is_null() && line["finish"] == "stop"));
    let text = long(40);
    let spans = spans(&got[0], &text);
    assert!(spans.len() > 3 && spans[0].0 == 0 && spans[spans.len() - 1].1 == text.len(), "{spans:?}");
    for pair in spans.windows(2) {
        assert!(pair[0].0 < pair[1].0 && pair[1].0 < pair[0].1, "they overlap: {pair:?}");
        assert!(text[..pair[0].1].ends_with('\n'), "at the end of a sentence");
    }
    assert!(err.contains(&format!("1 text was cut into {} parts", spans.len())), "{err}");
    assert_eq!(got[1]["records"].as_array().unwrap().len(), 1);
    // The same one at a time.
    let (from, schema) = (folder.path("in"), folder.path("s.json"));
    let alone = ffwd(&[&["extract", &from, "-s", &schema, "--batch", "1"], &cut[..]].concat());
    assert_eq!(texts(&alone).0, out);
    // Prompts of the parts.
    let (_, prompts, _) = folder.extract("in/long.txt", &[&cut[..], &["--show-prompt"]].concat());
    assert_eq!(prompts.matches("Sentence 0 names").count(), 1);
}

#[test]
fn records_with_the_same_keys_are_merged_and_resumed() {
    let folder = Folder::new();
    folder.write("s.json", LIST);
    for i in 0..4 {
        folder.write(&format!("in/{i}.txt"), &long(10 + 8 * i));
    }
    let cut = ["--chunk-tokens", "64", "--merge-key", "n"];
    let out = folder.path("out.jsonl");
    let (code, _, err) = folder.extract("in", &[&cut[..], &["-o", &out]].concat());
    assert_eq!(code, 0, "{err}");
    let whole = folder.lines("out.jsonl");
    for line in &whole {
        let records = line["records"].as_array().unwrap();
        let keys: BTreeSet<_> = records.iter().map(|record| record["record"]["n"].as_i64()).collect();
        assert_eq!(keys.len(), records.len(), "{line}");
    }
    // A text is done when all of its parts are.
    let text = folder.read("out.jsonl");
    let ends: Vec<usize> = text.match_indices('\n').map(|(i, _)| i + 1).collect();
    std::fs::write(&out, &text[..ends[1] + 30]).unwrap();
    let (code, _, err) = folder.extract("in", &[&cut[..], &["-o", &out, "--resume"]].concat());
    assert!(code == 0 && err.contains("2 of 2 records (2 were done)"), "{err}");
    assert_eq!(folder.lines("out.jsonl"), whole);
    // Other parts are other records.
    let (code, _, err) = folder.extract("in", &["--chunk-tokens", "64", "-o", &out, "--resume"]);
    assert!(code == 2 && err.contains("--merge-key was n and is not given"), "{err}");
    // A row for each record.
    let table = folder.path("out.csv");
    let (code, _, err) = folder.extract("in", &[&cut[..], &["-o", &table]].concat());
    assert_eq!(code, 0, "{err}");
    let rows = folder.read("out.csv");
    let records: usize = whole.iter().map(|line| line["records"].as_array().unwrap().len()).sum();
    assert!(rows.starts_with("_source,n,ok,_chunks\n") && rows.lines().count() == records + 1, "{rows}");
}

#[test]
fn a_part_that_fails_keeps_the_records_of_the_others() {
    let folder = Folder::new();
    folder.write(
        "s.json",
        r#"{"type": "object", "required": ["copy"], "properties": {"copy": {"type": "string",
        "x-verbatim": true, "pattern": "^Sentence 1 names$"}}}"#,
    );
    folder.write("in/a.txt", &long(12));
    let out = folder.path("out.jsonl");
    let (code, _, err) = folder.extract("in", &["--chunk-tokens", "64", "-o", &out]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("part 2 of ") && err.contains("bytes"), "{err}");
    assert_eq!(folder.lines("out.jsonl").len(), 0);
    let failures = folder.lines("out.jsonl.failures");
    let record = &failures[0]["records"][0];
    assert_eq!(
        (&failures[0]["finish"], &record["record"]["copy"]),
        (&"error".into(), &"Sentence 1 names".into())
    );
}

#[test]
fn values_have_spans_in_the_whole_text() {
    let folder = Folder::new();
    folder.write(
        "s.json",
        r#"{"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "object", "required": ["copy"],
            "properties": {"copy": {"type": "string", "x-verbatim": true, "minLength": 4, "maxLength": 30}}}}"#,
    );
    folder.write("in/a.txt", &long(30));
    let text = long(30);
    let grounded = ["--chunk-tokens", "80", "--chunk-overlap", "20", "--spans", "--confidence"];
    let mut checked = 0;
    for more in [&[][..], &["--merge-key", "copy"]] {
        let (code, out, err) = folder.extract("in", &[&grounded[..], more].concat());
        assert_eq!(code, 0, "{err}");
        for record in lines(&out)[0]["records"].as_array().unwrap() {
            let value = record["record"]["copy"].as_str().unwrap();
            let span = &record["spans"]["/copy"];
            let all = span["occurrences"].as_array().cloned().unwrap_or_else(|| vec![span.clone()]);
            let chunk = &record["chunks"][0];
            for span in all {
                let at = |of: &Value, kind: &str, i: usize| of[kind][i].as_u64().unwrap() as usize;
                let (start, end) = (at(&span, "bytes", 0), at(&span, "bytes", 1));
                assert_eq!(&text[start..end], value);
                assert!(at(chunk, "bytes", 0) <= start && end <= at(chunk, "bytes", 1));
                assert_eq!(at(&span, "chars", 0), text[..start].chars().count());
                checked += 1;
            }
            assert!(record["confidence"]["/copy"]["probability"].as_f64() > Some(0.0), "{record}");
        }
    }
    assert!(checked > 5, "{checked}");
}

/// Merged lists that are longer than the schema allows, and other merged records.
#[test]
fn merged_records_are_checked_again() {
    let folder = Folder::new();
    let schema = |most: usize| {
        format!(
            r#"{{"type": "object", "required": ["kind", "names"], "properties": {{"kind": {{"const": "list"}},
            "names": {{"type": "array", "minItems": 1, "maxItems": {most}, "items": {{"type": "string",
            "x-verbatim": true, "pattern": "^lamp [0-9]+$"}}}}}}}}"#
        )
    };
    folder.write("in/a.txt", &long(30));
    let out = folder.path("out.jsonl");
    let cut = ["--chunk-tokens", "80", "--merge-key", "kind", "-o", &out];
    folder.write("s.json", &schema(1));
    let (code, _, err) = folder.extract("in", &cut);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("record 1, which was merged") && err.contains("/names"), "{err}");
    let failures = folder.lines("out.jsonl.failures");
    assert!(folder.lines("out.jsonl").is_empty() && failures[0]["records"][0]["record"]["names"].is_array());
    folder.write("s.json", &schema(99));
    let (code, _, err) = folder.extract("in", &[&cut[..], &["--restart"]].concat());
    assert!(code == 0 && folder.lines("out.jsonl").len() == 1, "{err}");
}

/// A list over many parts is one record with the rows of all, and the line says what became of the rows of the
/// text: each is found or missing.
#[test]
fn rows_of_long_tables_are_counted() {
    let folder = Folder::new();
    let row = |i: usize| format!("T{i:03}  2026-01-{:02}  Payee {i}  {i}.50\n", i % 28 + 1);
    folder.write(
        "a.txt",
        &(String::from("Number  Date  Payee  Amount\n") + &(0..60).map(row).collect::<String>()),
    );
    folder.write("l.json", r#"{"properties": {"rows": {"type": "array", "maxItems": 8, "items": {"properties": {"number":
        {"type": "string", "x-verbatim": true, "maxLength": 20}}, "required": ["number"]}}}, "required": ["rows"]}"#);
    let (file, schema) = (folder.path("a.txt"), folder.path("l.json"));
    let args = ["extract", &file, "-s", &schema, "--list", "rows", "--spans", "--batch", "4"];
    let output = ffwd(&args);
    let (out, err) = texts(&output);
    let line: Value = serde_json::from_str(&out).unwrap();
    let rows = &line["rows"];
    let count = |name: &str| rows[name].as_u64().unwrap() as usize;
    assert!(count("expected") == 60 && count("lost") == rows["missing"].as_array().unwrap().len(), "{out}");
    assert_eq!(count("found"), count("expected") - count("lost") + count("unplaced"), "{out}");
    assert!(err.contains(&format!("{} of 60 rows found", 60 - count("lost"))), "{err}");
    // More rows than the schema allows a record: the joined one is checked again.
    assert_eq!(output.status.success(), count("found") <= 8, "{err}");
    let both = ffwd(&[&args[..], &["--merge-key", "number", "--chunk-tokens", "100"]].concat());
    assert_eq!(both.status.code(), Some(2));
    // The mark in the schema does the same as the option.
    let marked = std::fs::read_to_string(&schema).unwrap().replacen(
        "\"type\": \"array\"",
        "\"type\": \"array\", \"x-rows\": true",
        1,
    );
    folder.write("m.json", &marked);
    let marked = ffwd(&["extract", &file, "-s", &folder.path("m.json"), "--spans", "--batch", "4"]);
    assert_eq!(texts(&marked).0, out);
    let other = ffwd(&["extract", &file, "-s", &schema, "--list", "row"]);
    assert!(other.status.code() == Some(2) && texts(&other).1.contains("no such property"), "{other:?}");
}
