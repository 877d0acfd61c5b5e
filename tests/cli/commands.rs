//! The program as users meet it: output, exit codes, messages.

use std::process::Command;

use serde_json::{Value, json};

use crate::program::{ffwd, ffwd_reading, texts};

const TEXT: &str = "examples/data/invoice.txt";
const SCHEMA: &str = "examples/data/invoice.schema.json";

#[test]
fn extract_prints_a_valid_record_and_the_figures() {
    let dir = tempfile::tempdir().unwrap();
    let stats = dir.path().join("stats.json");
    let output = ffwd(&["extract", TEXT, "--schema", SCHEMA, "--stats", stats.to_str().unwrap()]);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{err}");
    let record: Value = serde_json::from_str(&out).unwrap();
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(SCHEMA).unwrap()).unwrap();
    assert!(jsonschema::is_valid(&schema, &record));
    let order = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(order(&record), order(&schema["properties"]));
    assert_eq!(record["invoice_number"], "INV-20417");
    assert!(err.contains("forwards"), "{err}");
    let (by_candle, err) = texts(&ffwd(&["extract", TEXT, "--schema", SCHEMA, "--device", "cpu"]));
    assert_eq!(by_candle, out, "{err}");
    let stats: Value = serde_json::from_str(&std::fs::read_to_string(stats).unwrap()).unwrap();
    for field in [
        "tokens",
        "forwards",
        "prompt_tokens",
        "forced",
        "drafted",
        "accepted",
        "accepted_by_source",
        "tokens_per_forward",
        "deterministic_fraction",
        "mode",
        "seconds",
        "finish",
    ] {
        assert!(!stats[field].is_null(), "{field}");
    }
}

#[test]
fn extract_reads_the_schema_once_for_all_texts() {
    let output = Command::new(env!("CARGO_BIN_EXE_ffwd"))
        .args(["extract", TEXT, TEXT, "--schema", SCHEMA])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("FFWD_LOG", "warn,ffwd_engine::constraint::json_schema=trace")
        .output()
        .unwrap();
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{err}");
    assert_eq!(out.lines().count(), 2);
    assert_eq!(err.matches("reading a JSON Schema").count(), 1, "{err}");
}

#[test]
fn the_gate_explains_itself() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stats.json");
    let stats = path.to_str().unwrap();
    let explained = |args: &[&str]| {
        let output = ffwd(&[args, &["--explain-gate", "--stats", stats]].concat());
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{err}");
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
            let output = ffwd(&["inspect", option, &write("file", bytes)]);
            assert!(output.status.success(), "{option}: {}", texts(&output).1);
        }
    }
    let bare = write("bare", "{}".encode_utf16().flat_map(u16::to_le_bytes).collect());
    let output = ffwd(&["inspect", "--json-schema", &bare]);
    assert!(!output.status.success() && texts(&output).1.contains("UTF-16 without a byte order mark"));
}

#[test]
fn values_may_begin_with_a_hyphen() {
    let printed = |args: &[&str]| {
        let output = ffwd(&[&["generate", "Answer:"], args].concat());
        assert!(output.status.success(), "{args:?}: {}", texts(&output).1);
        texts(&output).0
    };
    assert_eq!(printed(&["--choice", "-1"]), "-1\n");
    assert_eq!(printed(&["-c", "--yes", "--stop", "--no"]), "--yes\n");
    assert_eq!(printed(&["--regex", "-x{3}", "--system", "- Be brief."]), "-xxx\n");
    assert_eq!(printed(&["--pattern", "'-' 'a'", "--think-until", "---", "--think-budget", "2"]), "-a\n");
    let output = ffwd(&["inspect", "--choice", "-10", "--prefix", "-1", "--why", "-"]);
    assert!(output.status.success(), "{}", texts(&output).1);
    for prompt in ["- milk\n- eggs", "-5", "---\ntitle: x", "-a list of words", "-°"] {
        let output = ffwd(&["generate", prompt, "--choice", "-a"]);
        assert_eq!(texts(&output).0, "-a\n", "{prompt}: {}", texts(&output).1);
        let output = ffwd(&["generate", "--choice", "-a", "--", prompt]);
        assert_eq!(texts(&output).0, "-a\n", "{prompt}: {}", texts(&output).1);
    }
    let output = ffwd(&["generate", "x", "--choice", "a", "--max-tokens", "-1"]);
    assert!(output.status.code() == Some(2) && texts(&output).1.contains("'-1'"), "{:?}", texts(&output));
    // An option with its value is no prompt.
    let output = ffwd(&["generate", "-c not spam"]);
    assert!(output.status.code() == Some(2) && texts(&output).1.contains("PROMPT"), "{:?}", texts(&output));
    // An option that does not exist is no value.
    let output = ffwd(&["generate", "x", "--coice", "a"]);
    assert!(output.status.code() == Some(2) && texts(&output).1.contains("--choice"));
}

#[test]
fn a_gguf_file_alone_is_a_model() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    std::fs::copy("crates/runtime/assets/extract-5m/model-q8_0.gguf", &path).unwrap();
    let date = ["generate", "The date is ", "--regex", "[0-9]{4}-[0-9]{2}-[0-9]{2}"];
    let output = ffwd(&[&date[..], &["--model", path.to_str().unwrap()]].concat());
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{err}");
    assert_eq!(out, texts(&ffwd(&date)).0, "as with the same model inside the program");
}

#[test]
fn several_files_give_json_lines_and_failures_do_not_stop_the_rest() {
    let output = ffwd(&["extract", TEXT, "no/such/file.txt", TEXT, "--schema", SCHEMA]);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    let lines: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["finish"], "stop");
    assert_eq!(lines[1]["finish"], "error");
    assert_eq!(lines[0]["record"], lines[2]["record"]);
    assert!(err.contains("no/such/file.txt"));
}

#[test]
fn what_there_is_of_a_record_that_was_cut_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stats.json");
    let figures = || serde_json::from_str::<Value>(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let cut = ["--schema", SCHEMA, "--max-tokens", "12", "--explain-gate", "--stats", path.to_str().unwrap()];
    let (whole, _) = texts(&ffwd(&["extract", TEXT, "--schema", SCHEMA]));
    let output = ffwd(&[&["extract", TEXT], &cut[..]].concat());
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("not complete: the record ends after 12 tokens\n  at: record#"), "{err}");
    let so_far = out.strip_suffix('\n').unwrap();
    assert!(so_far.len() > 20 && whole.starts_with(so_far), "{out}");
    assert!(err.contains("12 tokens in") && err.contains("ms by tokens"), "{err}");
    assert_eq!((&figures()["finish"], &figures()["tokens"]), (&"length".into(), &12.into()));

    for batch in ["1", "2"] {
        let output = ffwd(&[&["extract", TEXT, TEXT, "--batch", batch], &cut[..]].concat());
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains("0 of 2 records, 24 tokens"), "{err}");
        for line in out.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!((&line["record"], &line["finish"]), (&Value::Null, &"length".into()));
            assert_eq!(line["partial"], so_far);
            assert!(line["error"].as_str().unwrap().contains("after 12 tokens"), "{line}");
        }
        assert_eq!((out.lines().count(), figures().as_array().unwrap().len()), (2, 2));
        assert!(figures()[1]["gate"].is_object());
    }
    let closed = ["--schema", SCHEMA, "--max-tokens", "40", "--close-before-limit"];
    let (out, _) = texts(&ffwd(&[&["extract", TEXT, TEXT], &closed[..]].concat()));
    let line: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert!(line["record"].is_object() && line["finish"] == "closed" && line["partial"].is_null(), "{line}");

    let args = ["generate", "x", "--regex", "[a-z]{40}", "--max-tokens", "3", "--stats", cut[6]];
    let output = ffwd(&args);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(figures()["finish"], "length");
}

#[test]
fn bad_input_is_one_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let broken = file("broken.json", "{\"type\": ");
    let never = file("never.json", r#"{"type":"integer","minimum":3,"maximum":2}"#);
    let remote = file("remote.json", r#"{"properties":{"a":{"$ref":"https://example.com/x.json"}}}"#);
    let quoting = file("quoting.json", r#"{"type":"string","x-verbatim":true}"#);
    let unknown =
        file("unknown.json", r#"{"properties":{"a":{"type":"string","format":"zip-code-of-mars"}}}"#);
    let long = file("long.txt", &"word ".repeat(5000));
    let cases: Vec<(Vec<&str>, i32, &str)> = vec![
        (vec!["extract", "nope.txt", "--schema", SCHEMA], 1, "nope.txt"),
        (vec!["extract", TEXT, "--schema", "nope.json"], 1, "nope.json"),
        (vec!["extract", TEXT, "--schema", &broken], 1, "line 1"),
        (vec!["extract", TEXT, "--schema", &never], 1, "cannot be satisfied"),
        (vec!["extract", TEXT, "--schema", &remote], 1, "/properties/a/$ref"),
        (vec!["extract", &long, "--schema", SCHEMA], 1, "context"),
        (vec!["extract", TEXT, "--schema", SCHEMA, "--temperature", "-1"], 2, "temperature"),
        (vec!["extract", TEXT, "--schema", SCHEMA, "--mode", "fast"], 2, "canonical"),
        (vec!["extract", TEXT], 2, "--schema"),
        (vec!["extract", TEXT, "--schema", SCHEMA, "--model", "no/model"], 1, "no/model"),
        (vec!["generate", "x", "--regex", "(a"], 1, "unclosed group"),
        (vec!["generate", "x", "--regex", "a", "--json-object"], 2, "cannot be used with"),
        (vec!["inspect"], 2, "--json-schema"),
        (vec!["inspect", "--json-schema", &quoting], 1, "x-verbatim"),
        (vec!["inspect", "--json-schema", &quoting, "--source", "nope.txt"], 1, "nope.txt"),
        (vec!["inspect", "--regex", "a", "--source", TEXT], 2, "--json-schema"),
        (vec!["inspect", "--regex", "ab", "--prefix", "x"], 1, "forbids"),
        (vec!["inspect", "--json-object", "--whitespace", "0"], 2, "`single` or a number from 1 to 64"),
        (vec!["inspect", "--json-schema", &unknown, "--strict"], 1, "#/properties/a/format"),
        (vec!["extract", TEXT, "--schema", &unknown, "--strict"], 1, "#/properties/a/format"),
        (vec!["inspect", "--regex", "ab", "--tokenizer", SCHEMA], 1, "tokenizer"),
    ];
    for (args, code, part) in cases {
        let output = ffwd(&args);
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {err}");
        assert!(err.contains(part), "{args:?}: {err}");
        assert!(out.is_empty(), "{args:?} wrote {out:?}");
        assert!(!err.contains("panicked"), "{args:?}: {err}");
    }
}

#[test]
fn inspect_shows_the_shortest_end() {
    let inspect = |more: &[&str]| texts(&ffwd(&[&["inspect", "--prefix", "a"], more].concat())).0;
    let out = inspect(&["--regex", "a+(cc|b{3})"]);
    assert!(out.contains("shortest end   \"cc\" (2 bytes)"), "{out}");
    let report: serde_json::Value =
        serde_json::from_str(&inspect(&["--regex", "a+(cc|b{3})", "--json"])).unwrap();
    assert_eq!(report["completion"], "cc");
    let out = inspect(&["--regex", "a+"]);
    assert!(!out.contains("shortest end"), "{out}");
}

#[test]
fn inspect_reads_tokenizers_of_models() {
    use ffwd::model::embedded::{TARGET_GGUF, TOKENIZER_JSON};
    let dir = tempfile::tempdir().unwrap();
    let (alone, folder) = (dir.path().join("alone"), dir.path().join("folder"));
    for place in [&alone, &folder] {
        std::fs::create_dir(place).unwrap();
        std::fs::write(place.join("model.gguf"), TARGET_GGUF).unwrap();
    }
    std::fs::write(folder.join("tokenizer.json"), TOKENIZER_JSON).unwrap();
    let inspect = |path: &std::path::Path| {
        let path = path.to_str().unwrap();
        texts(&ffwd(&["inspect", "--json-schema", SCHEMA, "--prefix", "{", "--json", "--tokenizer", path])).0
    };
    let want = texts(&ffwd(&["inspect", "--json-schema", SCHEMA, "--prefix", "{", "--json"])).0;
    assert!(want.contains("\"legal_tokens\": 1"), "{want}");
    for path in [alone.join("model.gguf"), alone.clone(), folder.join("tokenizer.json"), folder.clone()] {
        assert_eq!(inspect(&path), want, "{path:?}");
    }
    // The same path for `--model`: the file next to it has precedence.
    std::fs::write(folder.join("tokenizer.json"), "{}").unwrap();
    std::fs::write(alone.join("model.gguf"), &TARGET_GGUF[..2000]).unwrap();
    for (path, part) in
        [(folder.join("model.gguf"), "tokenizer.json"), (alone.join("model.gguf"), "model.gguf")]
    {
        let output = ffwd(&["inspect", "--regex", "a", "--tokenizer", path.to_str().unwrap()]);
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains(part) && out.is_empty() && !err.contains("panicked"), "{err}");
    }
}

#[test]
fn values_are_spelled_as_asked() {
    let compact = texts(&ffwd(&["extract", TEXT, "--schema", SCHEMA])).0;
    let (spaced, err) = texts(&ffwd(&["extract", TEXT, "--schema", SCHEMA, "--whitespace", "single"]));
    // The embedded model knows compact records only, so its values are poor here.
    let [a, b]: [Value; 2] = [&compact, &spaced].map(|text| serde_json::from_str(text).unwrap());
    let names = |record: &Value| record.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&a), names(&b), "{err}");
    assert!(compact.starts_with(r#"{"invoice_number":"INV-20417","vendor":""#), "{compact}");
    assert!(
        spaced.starts_with(r#"{"invoice_number": ""#) && spaced.contains(r#"", "vendor": ""#),
        "{spaced}"
    );
    let dir = tempfile::tempdir().unwrap();
    let schema = dir.path().join("schema.json");
    std::fs::write(&schema, r#"{"properties": {"a": {"type": "integer"}, "b": {"enum": [1.5]}}}"#).unwrap();
    let ends = |more: &[&str]| {
        let prefix = r#"{"b": 1.50, "a": 2.0}"#;
        let args = ["inspect", "--json-schema", schema.to_str().unwrap(), "--prefix", prefix];
        ffwd(&[&args, more].concat()).status.success()
    };
    let all = ["--whitespace", "single", "--any-order", "--equal-numbers", "--strict"];
    assert!(ends(&all));
    assert!(!ends(&all[1..]) && !ends(&all[2..]) && !ends(&all[..3]) && !ends(&[]));
    let inspect = |schema_text: &str, prefix: &str, more: &[&str]| {
        std::fs::write(&schema, schema_text).unwrap();
        let args = ["inspect", "--json-schema", schema.to_str().unwrap(), "--prefix", prefix];
        let output = ffwd(&[&args, more].concat());
        (output.status.success(), texts(&output).1)
    };
    let number = r#"{"type": "number"}"#;
    assert!(inspect(number, "1.5e-9", &["--exponent"]).0 && !inspect(number, "1.5e-9", &[]).0);
    // Unknown names are warnings, and errors with `--strict`.
    let foreign = r#"{"type": "object", "example": {}}"#;
    assert!(inspect(foreign, "{", &[]).0);
    let (ok, err) = inspect(foreign, "{", &["--strict"]);
    assert!(!ok && err.contains("#/example"), "{err}");
}

#[test]
fn tags_are_written_with_the_tokens_of_their_marks() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tag.json");
    let tag = r#"{"type": "structural_tag", "format": {"type": "tag", "begin": "<tool_call>",
        "content": {"type": "regex", "pattern": "[ab]"}, "end": "</tool_call>"}}"#;
    std::fs::write(&file, tag).unwrap();
    let file = file.to_str().unwrap();
    let (out, err) = texts(&ffwd(&["inspect", "--structural-tag", file, "--json"]));
    let report: Value = serde_json::from_str(&out).unwrap();
    // A special token of the embedded tokenizer.
    assert_eq!(report["forced_tokens"][0]["text"], "<tool_call>", "{err}");
    assert_eq!(report["warnings"], serde_json::json!([]));
    let (out, err) = texts(&ffwd(&[
        "generate",
        "x",
        "--structural-tag",
        file,
        "--think-until",
        "</think>",
        "--think-budget",
        "2",
    ]));
    assert!(
        ["a", "b"].map(|content| format!("<tool_call>{content}</tool_call>\n")).contains(&out),
        "{out:?}"
    );
    assert!(!err.contains("warning"), "{err}");
    // What ends a generation cannot be a mark: a warning, or in strict mode an error.
    let grammar = dir.path().join("ends.gbnf");
    std::fs::write(&grammar, "root ::= \"<|im_end|>\"").unwrap();
    let args = ["inspect", "--grammar", grammar.to_str().unwrap()];
    let (out, err) = texts(&ffwd(&args));
    assert!(out.contains("warning        `<|im_end|>` is a special token"), "{out} {err}");
    let strict = ffwd(&[&args[..], &["--strict"]].concat());
    assert_eq!(strict.status.code(), Some(1));
    assert!(texts(&strict).1.contains("ends generations"), "{:?}", texts(&strict));
}

#[test]
fn tools_are_called() {
    let tools = ["--tools", "examples/data/tools.json"];
    let run = |more: &[&str]| ffwd(&[&["generate", "How warm is it in Oslo?"], &tools[..], more].concat());
    for style in ["hermes", "qwen-coder", "glm", "kimi", "harmony"] {
        // The thoughts of a style that has some need not end by themselves.
        let choice = ["--tool-choice", "add", "--calls", "--tool-style", style, "--max-tokens", "200"];
        let choice = [&choice[..], &["--close-before-limit"]].concat();
        let (out, err) = texts(&run(&choice));
        let reply: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out} {err}"));
        assert_eq!((&reply["text"], &reply["calls"][0]["name"]), (&"".into(), &"add".into()));
        let arguments = reply["calls"][0]["arguments"].as_object().unwrap();
        assert!(arguments.len() == 2 && arguments.values().all(Value::is_number), "{out}");
    }
    // What was thought before, without the marker.
    let thinking = ["--think-until", "</think>", "--think-budget", "3", "--calls"];
    let call = ["--tool-choice", "add", "--max-tokens", "200", "--close-before-limit"];
    let (out, err) = texts(&run(&[&thinking[..], &call].concat()));
    let reply: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out} {err}"));
    let thoughts = reply["thoughts"].as_str().unwrap();
    assert!(!thoughts.is_empty() && !thoughts.contains("</think>") && reply["text"] == "", "{out}");
    // Without `--calls` as the model writes it.
    let (out, _) = texts(&run(&["--tool-choice", "required", "--single-call", "--max-tokens", "200"]));
    assert!(out.starts_with("<tool_call>\n{\"name\": \"") && out.ends_with("}\n</tool_call>\n"), "{out}");
    let fails = |more: &[&str], hint: &str| {
        let output = run(more);
        assert!(!output.status.success() && texts(&output).1.contains(hint), "{:?}", texts(&output));
    };
    fails(&["--tool-style", "claude"], "known are: hermes, llama");
    fails(&["--tool-choice", "sub"], "there are: get_weather, add");
    // The embedded model was not trained on any, so its prompt has no place for them.
    fails(&["--chat"], "tools need a model with a chat template");
    let alone = ffwd(&["generate", "x", "--choice", "a", "--single-call"]);
    assert!(texts(&alone).1.contains("of use with --tools only"), "{:?}", texts(&alone));
    // From standard input, which is read once.
    let list = std::fs::read_to_string("examples/data/tools.json").unwrap();
    let args = ["generate", "x", "--tools", "-", "--tool-choice", "add", "--calls"];
    let (out, err) = texts(&ffwd_reading(&args, &list));
    assert!(out.contains(r#""name":"add""#), "{out} {err}");
    let (out, _) =
        texts(&ffwd(&[&["inspect"], &tools[..], &["--prefix", "Hm. <tool_call>", "--json"]].concat()));
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["forced_text"], "\n{\"name\": \"");
}

/// Lists of tools as servers send them, with faults that are named.
#[test]
fn tools_come_in_several_shapes_and_faults_are_named() {
    let inspect = |tools: &str, more: &[&str]| {
        let options = ["inspect", "--tools", "-", "--tool-choice", "fetch", "--json", "--prefix"];
        let prefix = ["<tool_call>\n{\"name\": \"fetch\", \"arguments\": {\""];
        ffwd_reading(&[&options[..], &prefix, more].concat(), tools)
    };
    let forced = |tools: &str, more: &[&str]| {
        let (out, err) = texts(&inspect(tools, more));
        let report: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {err}"));
        (report["forced_text"].as_str().unwrap().to_owned(), report["warnings"].clone())
    };
    let arguments = r#"{"type":"object","properties":{"url":{"type":"string"}},"required":["url"]}"#;
    for list in [
        format!(r#"[{{"name":"fetch","inputSchema":{arguments}}}]"#),
        format!(r#"{{"tools":[{{"name":"fetch","input_schema":{arguments}}}]}}"#),
        format!(r#"[{{"type":"function","function":{{"name":"fetch","parameters":{arguments}}}}}]"#),
    ] {
        let (forced, warnings) = forced(&list, &["--strict"]);
        assert!(forced.starts_with("url\":") && warnings == json!([]), "{list}: {forced:?} {warnings}");
    }
    // A misspelt member is a warning, and an error in strict mode.
    let misspelt = format!(r#"[{{"name":"fetch","input-schema":{arguments}}}]"#);
    let prefix = &["--prefix", ""];
    let output = inspect(&misspelt, &["--strict"]);
    assert!(!output.status.success() && texts(&output).1.contains("input-schema"), "{:?}", texts(&output));
    let list = ["inspect", "--tools", "-", "--json"];
    let (out, err) = texts(&ffwd_reading(&[&list[..], prefix].concat(), &misspelt));
    assert!(out.contains("input-schema") && err.contains("warning: "), "{out} {err}");
    // A tool that cannot be used is an error, or left out.
    let broken = format!(
        r#"[{{"name":"odd","parameters":{{"$ref":"https://example.com/x"}}}},{{"name":"fetch","inputSchema":{arguments}}}]"#
    );
    let output = ffwd_reading(&list, &broken);
    let err = texts(&output).1;
    assert!(!output.status.success() && err.contains("odd") && err.contains("--skip-broken-tools"), "{err}");
    let (text, warnings) = forced(&broken, &["--skip-broken-tools"]);
    assert!(text.starts_with("url\":") && warnings.to_string().contains("odd"), "{text} {warnings}");
    // Prompts have the tools that are left, in the shape of chat completions.
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let template = write(
        "t.jinja",
        "{% for t in tools %}{% if t.function.name != 'fetch' or not t.function.parameters.required %}{{ \
         raise_exception(t | tojson) }}{% endif %}{% endfor %}x",
    );
    let tools = write("tools.json", &broken);
    let chat =
        ["generate", "x", "--chat", "--chat-template", &template, "--tools", &tools, "--skip-broken-tools"];
    let output = ffwd(
        &[&chat[..], &["--tool-choice", "fetch", "--max-tokens", "40", "--close-before-limit"]].concat(),
    );
    let (out, err) = texts(&output);
    assert!(output.status.success() && out.contains("fetch") && err.contains("odd"), "{out} {err}");
    let alone = ffwd(&["inspect", "--choice", "a", "--skip-broken-tools"]);
    assert!(texts(&alone).1.contains("of use with --tools only"), "{:?}", texts(&alone));
}

#[test]
fn generate_and_inspect() {
    let (out, _) =
        texts(&ffwd(&["generate", "Sentiment of 'good': ", "--choice", "positive", "--choice", "negative"]));
    assert!(["positive\n", "negative\n"].contains(&out.as_str()), "{out:?}");
    let (out, _) = texts(&ffwd(&["inspect", "--json-schema", SCHEMA, "--json"]));
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["forced_text"], "{\"invoice_number\":\"");
    assert_eq!(report["accepting"], false);
    let (out, _) = texts(&ffwd(&["inspect", "--regex", "(ab|cd)+", "--prefix", "ab"]));
    assert!(out.contains("may end here   yes"), "{out}");
    let grammar = "examples/data/expression.gbnf";
    let (out, _) = texts(&ffwd(&["inspect", "--grammar", grammar, "--prefix", "(1+2", "--json"]));
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["accepting"], false);
    let tags = "examples/data/tools.structural_tag.json";
    let inspect = ["inspect", "--structural-tag", tags, "--prefix", "Let me see. <function=g", "--json"];
    let (out, _) = texts(&ffwd(&inspect));
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["forced_text"], "et_weather>{\"city\":\"");
    let why = |text: &str| {
        let before = "{\"invoice_number\":\"INV-1";
        let args = ["inspect", "--json-schema", SCHEMA, "--after", before, "--json", "--why", text];
        let report: Value = serde_json::from_str(&texts(&ffwd(&args)).0).unwrap();
        report["why"].clone()
    };
    let found = why("\",\"total");
    assert_eq!((&found["legal"], &found["bytes_that_fit"]), (&Value::Bool(false), &3.into()));
    assert_eq!((&found["expected_bytes"], &found["fits"]), (&serde_json::json!([b'v']), &"\",\"".into()));
    assert_eq!(found["path_there"], "");
    assert!(found["reason"].as_str().unwrap().contains("byte 3, 't'"), "{found}");
    assert_eq!(why("7")["legal"], true);
    assert_eq!(why("7")["path_there"], "/invoice_number");
    let (out, _) = texts(&ffwd(&["inspect", "--regex", "(ab|cd)+", "--prefix", "ab", "--why", "abd"]));
    assert!(out.contains("byte 2, 'd', cannot stand there"), "{out}");
    assert!(out.contains("fits           2 of 3 bytes: \"ab\""), "{out}");
}

#[test]
fn values_are_quoted_from_the_text() {
    let dir = tempfile::tempdir().unwrap();
    let schema = dir.path().join("quoting.json");
    let text = r#"{"type":"object","properties":{"vendor":{"type":"string","x-verbatim":true,"minLength":3,
        "maxLength":30}},"required":["vendor"],"additionalProperties":false}"#;
    std::fs::write(&schema, text).unwrap();
    let schema = schema.to_str().unwrap();
    let source = std::fs::read_to_string(TEXT).unwrap();
    for bounds in [&["--whole-words"][..], &[]] {
        let (out, err) = texts(&ffwd(&[&["extract", TEXT, "--schema", schema][..], bounds].concat()));
        let record: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
        let vendor = record["vendor"].as_str().unwrap();
        assert!(vendor.chars().count() >= 3 && source.contains(vendor), "{vendor:?}");
    }
    // Each file is quoted from itself.
    let other = dir.path().join("other.txt");
    std::fs::write(&other, "Vendor: Zork").unwrap();
    let (out, _) = texts(&ffwd(&["extract", TEXT, other.to_str().unwrap(), "--schema", schema]));
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert!("Vendor: Zork".contains(last["record"]["vendor"].as_str().unwrap()), "{out}");
    let inspect = |args: &[&str]| -> Value {
        let (out, err) = texts(&ffwd(&[&["inspect", "--whole-words", "--json"], args].concat()));
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"))
    };
    let report = inspect(&["--substring", TEXT, "--prefix", "Bright Gl"]);
    assert_eq!(report["forced_text"], "acier");
    let prefix = r#"{"vendor":"Bright Gl"#;
    let report = inspect(&["--json-schema", schema, "--source", TEXT, "--prefix", prefix]);
    assert_eq!(report["forced_text"], "acier");
}

#[test]
fn chats_use_the_template_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let template = dir.path().join("t.jinja");
    let run = |more: &[&str]| {
        let args = ["generate", "Say yes.", "--choice", "yes", "--choice", "no", "--stats", "-"];
        let output = ffwd(&[&args[..], more].concat());
        let (out, err) = texts(&output);
        (output.status.code(), out, err)
    };
    let prompt_tokens = |out: &str| {
        let (_, stats) = out.split_once('\n').unwrap();
        serde_json::from_str::<Value>(stats).unwrap()["prompt_tokens"].as_u64().unwrap()
    };
    let plain = prompt_tokens(&run(&[]).1);
    let chat = prompt_tokens(&run(&["--chat", "--precision", "f32"]).1);
    let system = prompt_tokens(&run(&["--system", "Be brief.", "--precision", "q4_k"]).1);
    assert!(plain < chat && chat < system, "{plain}, {chat}, {system}");
    let named = ["--chat", "--chat-template", template.to_str().unwrap()];
    std::fs::write(&template, "{{ messages[0].content }}").unwrap();
    assert_eq!(prompt_tokens(&run(&named).1), plain);
    std::fs::write(&template, "{{ raise_exception('only on Sundays') }}").unwrap();
    let (code, _, err) = run(&named);
    assert!(code == Some(2) && err.contains("only on Sundays"), "{err}");
    std::fs::write(&template, "\n{% for %}").unwrap();
    let (code, _, err) = run(&named);
    assert!(code == Some(1) && err.contains("t.jinja") && err.contains('2'), "{err}");
    assert_eq!(run(&["--precision", "q9"]).0, Some(2));
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
    for wrong in [["--batch", "0"], ["--threads", "0"], ["--threads", "1,2"]] {
        let output = ffwd(&[&["extract", TEXT, "--schema", SCHEMA], &wrong[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(texts(&output).1.contains(wrong[0]), "{output:?}");
    }
}

#[test]
fn a_blank_text_is_no_record() {
    let dir = tempfile::tempdir().unwrap();
    let (blank, whole) = (dir.path().join("blank.txt"), dir.path().join("whole.txt"));
    std::fs::write(&blank, " \n").unwrap();
    std::fs::copy(TEXT, &whole).unwrap();
    let (blank, whole) = (blank.to_str().unwrap(), whole.to_str().unwrap());
    let output = ffwd(&["extract", blank, "--schema", SCHEMA]);
    let (out, err) = texts(&output);
    assert!(!output.status.success() && out.is_empty());
    assert!(err.contains("the text is blank") && err.contains("blank.txt"), "{err}");
    let output = ffwd(&["extract", blank, whole, "--schema", SCHEMA]);
    let (out, _) = texts(&output);
    assert_eq!(output.status.code(), Some(1));
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines[0]["error"].as_str().unwrap().contains("blank") && lines[0]["record"].is_null());
    assert_eq!(lines[1]["record"]["invoice_number"], "INV-20417");
}

#[test]
fn values_that_were_ended_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let schema = dir.path().join("schema.json");
    let text = r#"{"type":"object","properties":{"a":{"type":"string","minLength":400},"b":{"type":"boolean"}},
        "required":["a","b"],"additionalProperties":false}"#;
    std::fs::write(&schema, text).unwrap();
    let schema = schema.to_str().unwrap();
    // A bias makes the model repeat a word.
    let vocab = ffwd::Vocabulary::from_bytes(
        &std::fs::read("crates/runtime/assets/extract-5m/tokenizer.json").unwrap(),
    );
    let bias = format!("{}=90", vocab.unwrap().encode(" the").unwrap()[0]);
    let run = |command: &[&str], more: &[&str]| {
        let options = ["--logit-bias", &bias, "-n", "700"];
        let output = ffwd(&[command, &options, more].concat());
        let (out, err) = texts(&output);
        (output.status.success(), out, err)
    };
    for command in [&["extract", TEXT, "--schema", schema], &["generate", "x", "--json-schema", schema]] {
        let (ok, out, err) = run(command, &[]);
        assert!(ok && err.contains("warning: #/a repeated itself"), "{err}");
        let record: Value = serde_json::from_str(&out).unwrap();
        assert!(record["a"].as_str().unwrap().len() >= 400 && record["b"].is_boolean());
        let (ok, _, err) = run(command, &["--no-guard"]);
        assert!(!ok && !err.contains("repeated itself"), "{err}");
    }
    let limited = text.replace("minLength\":400", "maxLength\":45");
    std::fs::write(schema, limited).unwrap();
    let (ok, out, err) = run(&["extract", TEXT, "--schema", schema], &[]);
    assert!(ok && err.contains("#/a did not fit into its maxLength"), "{err}");
    let record: Value = serde_json::from_str(&out).unwrap();
    assert!(record["a"].as_str().unwrap().len() < 45);
    let (ok, _, err) = run(&["extract", TEXT, "--schema", schema], &["--fill-strings"]);
    assert!(ok && !err.contains("did not fit"), "{err}");
}
