//! The report of `ffwd extract`: its data agree with the records, and no run destroys a file.

use serde_json::Value;

use crate::program::{Folder, lines};

const SCHEMA: &str = r#"{"type": "object", "properties": {
    "name": {"type": "string", "x-verbatim": true, "maxLength": 20},
    "count": {"type": "integer", "minimum": 0, "maximum": 99}
}, "required": ["name", "count"]}"#;

/// Returns the lines of the report, in the order of the texts.
fn entries(folder: &Folder, name: &str) -> Vec<Value> {
    let page = folder.read(name);
    let lines = page.lines().filter(|line| line.starts_with(r#"{"index":"#));
    let mut entries: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    entries.sort_by_key(|entry| (entry["index"].as_u64(), entry["part"].as_u64()));
    entries
}

/// Returns the lines of a report as they are in the file, without what differs between runs: which
/// tokens were drafted, and the time.
pub(crate) fn stable(page: &[u8]) -> Vec<Value> {
    let page = std::str::from_utf8(page).unwrap();
    let lines = page.lines().filter(|line| line.starts_with(r#"{"index":"#));
    let tidy = |line: &str| {
        let mut entry: Value = serde_json::from_str(line).unwrap();
        ["seconds", "forwards", "tokens"].iter().for_each(|name| drop(entry[*name].take()));
        entry
    };
    lines.map(tidy).collect()
}

fn joined(list: &Value) -> String {
    list.as_array().unwrap().iter().map(|item| item[0].as_str().unwrap()).collect()
}

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("s.json", SCHEMA);
    folder.write("in/a.txt", "Zoë sells 12 <b>lamps</b> & </script> 3 chairs. Zoë is here.");
    folder.write("in/b.txt", "日本語の本 🎉 costs 7.\r\nNo more.");
    folder.write("in/c.txt", " ");
    folder
}

#[test]
fn the_report_shows_texts_records_and_tokens() {
    let folder = folder();
    let (code, out, err) = folder.extract("in", &["--html", &folder.path("r.html"), "--confidence"]);
    assert_eq!(code, 1, "a blank text fails: {err}");
    let (lines, entries) = (lines(&out), entries(&folder, "r.html"));
    assert_eq!(entries.len(), 3);
    for (entry, (name, line)) in entries.iter().zip(["a.txt", "b.txt", "c.txt"].iter().zip(&lines)) {
        let text = folder.read(&format!("in/{name}"));
        assert_eq!(joined(&entry["pieces"]), text, "the pieces are the text");
        assert_eq!(entry["source"], line["source"]);
        let record = &line["record"];
        if record.is_null() {
            assert!(
                entry["error"].as_str().unwrap().contains("blank") && entry["fields"] == Value::Array(vec![])
            );
            continue;
        }
        let written: Value = serde_json::from_str(&joined(&entry["tokens"])).unwrap();
        assert_eq!(&written, record, "the tokens are the record");
        let sources = ["sampled", "forced", "copied", "drafted", "unverified"];
        let tokens = entry["tokens"].as_array().unwrap();
        assert!(tokens.iter().all(|token| sources.contains(&token[1].as_str().unwrap())));
        for (i, field) in entry["fields"].as_array().unwrap().iter().enumerate() {
            let pointer = field["pointer"].as_str().unwrap();
            let value = record.pointer(pointer).unwrap();
            assert_eq!(field["value"], value.as_str().map_or(value.to_string(), str::to_owned));
            assert_eq!(field["confidence"], line["confidence"][pointer]);
            if let Some(span) = field["span"].as_array() {
                let (from, to) = (span[0].as_u64().unwrap() as usize, span[1].as_u64().unwrap() as usize);
                let found: String = text.chars().skip(from).take(to - from).collect();
                assert_eq!(field["value"], found);
            }
            let marked =
                |piece: &&Value| piece[1].as_array().is_some_and(|fields| fields.contains(&i.into()));
            let pieces = entry["pieces"].as_array().unwrap();
            let marked: Vec<&str> = pieces.iter().filter(marked).map(|p| p[0].as_str().unwrap()).collect();
            assert!(field["span"].is_null() || marked.concat() == field["value"].as_str().unwrap());
        }
    }
    let name = entries[0]["fields"][0]["value"].as_str().unwrap();
    assert!(!name.is_empty() && joined(&entries[0]["pieces"]).contains(name));
    let page = folder.read("r.html");
    for resource in ["src=", "href=", "@import", "url(", "http:", "https:"] {
        assert!(!page.contains(resource), "{resource}: the page loads something");
    }
    assert_eq!(page.matches("</script>").count(), 1, "texts end no script");
}

#[test]
fn a_resumed_run_continues_the_report() {
    let folder = folder();
    folder.write("in/c.txt", "Max has 5 pens.");
    let (output, html) = (folder.path("o.jsonl"), folder.path("r.html"));
    let run = |more: &[&str]| folder.extract("in", &[&["--output", &output], more].concat());
    assert_eq!(run(&["--html", &html]).0, 0);
    let whole = stable(&std::fs::read(&html).unwrap());
    // As if the run had been killed within the last line of both files.
    for (name, lines) in [("o.jsonl", 2), ("r.html", whole.len() - 1)] {
        let text = folder.read(name);
        let last = text.trim_end().rfind('\n').unwrap();
        assert!(text.lines().count() > lines);
        std::fs::write(folder.path(name), &text[..last + 30]).unwrap();
    }
    let (code, _, err) = run(&["--html", &html, "--resume"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(stable(&std::fs::read(&html).unwrap()), whole);
    // Records from a run without a report are made again.
    let (code, _, err) = run(&["--html", &folder.path("new.html"), "--resume"]);
    assert!(code == 0 && err.contains("3 records were made again"), "{err}");
    assert_eq!(stable(&std::fs::read(folder.path("new.html")).unwrap()), whole);
    folder.write("mine.html", "<!doctype html>\nmine");
    let (code, _, err) = folder.extract("in", &["--html", &folder.path("mine.html")]);
    assert!(code == 2 && err.contains("is no report") && err.contains("--html"), "{err}");
    assert_eq!(folder.read("mine.html"), "<!doctype html>\nmine");
}
