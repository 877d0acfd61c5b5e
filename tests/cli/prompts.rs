//! Prompts and closed objects on the command line: what the model is told, and what it may write.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::program::{ffwd, ffwd_reading, texts};

const TEXT: &str = "examples/data/invoice.txt";
const SCHEMA: &str = "examples/data/invoice.schema.json";

fn file(dir: &Path, name: &str, text: &str) -> String {
    let path: PathBuf = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

fn extract(schema: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let output = ffwd(&[&["extract", TEXT, "--schema", schema], more].concat());
    let (out, err) = texts(&output);
    (output.status.code(), out, err)
}

#[test]
fn objects_are_closed_unless_the_schema_or_an_option_says_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let open = r#"{"type": "object", "properties": {"vendor": {"type": "string"}}, "required": ["vendor"]}"#;
    let schema = file(dir.path(), "open.json", open);
    let (code, out, err) = extract(&schema, &[]);
    let record: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    assert_eq!((code, record.as_object().unwrap().len()), (Some(0), 1), "{out}");
    // After the vendor, only open objects can have another property.
    let prefix = r#"{"vendor":"x","#;
    let inspect = ffwd(&["inspect", "--json-schema", &schema, "--prefix", prefix]);
    assert!(inspect.status.success(), "the engine's default is the standard's");
    // The two readings differ for a list of different objects.
    let few = r#"{"type": "array", "minItems": 3, "maxItems": 3, "uniqueItems": true,
        "items": {"type": "object", "properties": {"a": {"const": 1}}, "maxProperties": 1}}"#;
    let few = file(dir.path(), "few.json", few);
    let (code, out, err) = extract(&few, &[]);
    assert!((code, &*out) == (Some(1), "") && err.contains("--open-objects"), "{err}");
    let (code, out, err) = extract(&few, &["--open-objects", "--max-tokens", "200", "--close-before-limit"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.matches('{').count() == 3, "{out}");
}

#[test]
fn the_prompt_is_shown() {
    let (code, out, err) = extract(SCHEMA, &["--show-prompt"]);
    assert_eq!((code, &*err), (Some(0), ""));
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(SCHEMA).unwrap()).unwrap();
    let text = std::fs::read_to_string(TEXT).unwrap();
    assert!(out.contains(&schema.to_string()) && out.contains(text.trim()), "{out}");
    assert!(out.starts_with("<|im_start|>system\n") && out.ends_with("<|im_start|>assistant\n"), "{out}");
    let output = ffwd(&["extract", TEXT, TEXT, "--schema", SCHEMA, "--show-prompt"]);
    assert_eq!(texts(&output).0, out.repeat(2), "one for each file");
}

#[test]
fn prompts_are_replaced_and_extended() {
    let dir = tempfile::tempdir().unwrap();
    let template = file(dir.path(), "prompt.txt", "Text: {text}\n\n{instructions}\n\n{{\"as\": {schema}}}\n");
    let named = ["--prompt", &template, "--show-prompt"];
    let (_, out, err) = extract(SCHEMA, &named);
    let (before, after) = out.split_once("Text: ").unwrap_or_else(|| panic!("{out}{err}"));
    assert_eq!(before, "<|im_start|>user\n", "no system message");
    assert!(after.contains("\n\n{\"as\": {\"") && !after.contains("instructions"), "{after}");
    let told = [&named[..], &["--instructions", "Totals have VAT.", "--system", "Be exact."]].concat();
    let (_, out, _) = extract(SCHEMA, &told);
    assert!(
        out.contains("\n\nTotals have VAT.\n\n{") && out.contains("system\nBe exact.<|im_end|>"),
        "{out}"
    );
    // Also in the prompt of the program.
    let (_, out, _) = extract(SCHEMA, &["--instructions", "Totals have VAT.", "--show-prompt"]);
    assert!(out.contains("Totals have VAT."), "{out}");
    let (code, out, err) = extract(SCHEMA, &["--instructions", "Totals have VAT."]);
    assert!(code == Some(0) && out.starts_with("{\"invoice_number\":"), "{out}{err}");
}

#[test]
fn examples_are_shown_to_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let schema = r#"{"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}"#;
    let schema = file(dir.path(), "schema.json", schema);
    let good = json!({"text": "Zork calls.", "record": {"who": "Zork"}}).to_string();
    let good = file(dir.path(), "good.json", &good);
    let (code, out, err) = extract(&schema, &["--example", &good, "--example", &good, "--show-prompt"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(out.matches("Zork calls.").count(), 2, "{out}");
    assert!(out.contains(r#"{"who":"Zork"}"#), "{out}");
    for (text, part) in [
        (r#"{"text": "Zork calls.", "record": {"who": 1}}"#, "#/record/who"),
        (r#"{"text": "Zork calls.", "record": {"who": "Zork", "when": 1}}"#, "#/record"),
        (r#"{"text": "Zork calls."}"#, "`record`"),
        ("{", "line 1"),
    ] {
        let bad = file(dir.path(), "bad.json", text);
        let (code, out, err) = extract(&schema, &["--example", &good, "--example", &bad]);
        assert!(matches!(code, Some(1 | 2)) && out.is_empty(), "{out}");
        assert!(err.contains(part) && err.contains("bad.json") && err.starts_with("error: "), "{err}");
    }
}

#[test]
fn faults_of_a_template_are_named() {
    let dir = tempfile::tempdir().unwrap();
    for (template, part) in [
        ("{text} {sheme}", "unknown placeholder {sheme}"),
        ("{text} {", "write {{ and }}"),
        ("no place", "{text}"),
    ] {
        let template = file(dir.path(), "prompt.txt", template);
        let (code, out, err) = extract(SCHEMA, &["--prompt", &template]);
        assert_eq!((code, &*out), (Some(2), ""), "{err}");
        assert!(err.contains(part) && err.contains("prompt.txt"), "{err}");
    }
    let template = file(dir.path(), "prompt.txt", "{text}");
    let (code, _, err) = extract(SCHEMA, &["--prompt", &template, "--instructions", "x"]);
    assert!(code == Some(2) && err.contains("{instructions}"), "{err}");
}

#[test]
fn whitespace_suits_the_model_unless_it_is_named() {
    let (_, out, _) = extract(SCHEMA, &["--whitespace", "auto"]);
    assert_eq!(out, extract(SCHEMA, &["--whitespace", "compact"]).1);
    let (_, out, _) = extract(SCHEMA, &["--whitespace", "single"]);
    assert!(out.starts_with("{\"invoice_number\": \""), "{out}");
}

#[test]
fn tools_that_the_model_does_not_see_are_a_warning() {
    let tools = ["--tools", "examples/data/tools.json", "--tool-choice", "add", "--max-tokens", "100"];
    let run = |more: &[&str]| texts(&ffwd(&[&["generate", "One and two?"], &tools[..], more].concat())).1;
    assert!(run(&[]).contains("warning: the model does not see the tools"), "{}", run(&[]));
    let dir = tempfile::tempdir().unwrap();
    let template = file(dir.path(), "t.jinja", "{{ tools | tojson }} {{ messages[0].content }}");
    let err = run(&["--chat", "--chat-template", &template]);
    assert!(!err.contains("does not see"), "{err}");
}

#[test]
fn classify_names_the_labels() {
    let dir = tempfile::tempdir().unwrap();
    let labels = file(dir.path(), "labels.txt", "invoice\nletter\nrecipe\n");
    let run = |more: &[&str]| {
        let output = ffwd_reading(&[&["classify", "-", "--labels", &labels], more].concat(), "Pay 200 EUR.");
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{err}");
        (serde_json::from_str::<Value>(&out).unwrap(), err)
    };
    // The same limit for every prompt.
    for prompt in [&[][..], &["--prompt", "{text}\\n\\nZ"]] {
        let (found, err) = run(prompt);
        let low = found["legal_mass"].as_f64().unwrap() < 0.5;
        assert_eq!(err.contains("warning: most of the model's probability"), low, "{found} {err}");
    }
    let (_, err) = run(&["--prompt", "Labels: {labels}\\n{text}\\n{{}}"]);
    assert!(err.contains("3 of 3 labels"), "{err}");
    let output = ffwd_reading(&["classify", "-", "-l", &labels, "--prompt", "{label} {text}"], "x");
    assert!(output.status.code() == Some(2) && texts(&output).1.contains("there are {labels}, {text}"));
    // More labels than a prompt can hold.
    let many: String = (0..5000).map(|i| format!("label {i}\n")).collect();
    let many = file(dir.path(), "many.txt", &many);
    let output = ffwd_reading(&["classify", "-", "-l", &many, "--top", "1"], "x");
    assert!(output.status.code() == Some(1) && texts(&output).1.contains("without {labels}"), "{output:?}");
}
