//! Extractors: prompts by the model's own template and wording, examples, and equal records on an
//! engine and on a scheduler.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::DType;
use ffwd::extract::{Example, Extractor, embedded};
use ffwd::model::embedded::TOKENIZER_JSON;
use ffwd::{Engine, ErrorKind, Scheduler, SchedulerOptions, Whitespace};
use serde_json::json;
use tracing::{Event, Metadata, Subscriber, span};

use crate::common::models::{config, weights, write_dir};

const SCHEMA: &str = r#"{"type": "object", "properties": {
    "vendor": {"type": "string", "maxLength": 8}, "due": {"type": "string", "format": "date"},
    "paid": {"type": ["boolean", "null"]}}, "required": ["vendor", "due", "paid"]}"#;

/// A model that is not the embedded one: one token of its vocabulary differs.
fn other_model(dir: &Path) -> Engine {
    let config = config("llama", [4096, 64, 96, 1, 4, 2, 16], json!({"eos_token_id": 2}));
    write_dir(dir, &config, &weights(&config, DType::F32, 1), 1);
    let tokenizer = std::str::from_utf8(TOKENIZER_JSON).unwrap().replace("<|pad|>", "<|gap|>");
    std::fs::write(dir.join("tokenizer.json"), tokenizer).unwrap();
    let template =
        "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}<|im_start|>";
    std::fs::write(dir.join("chat_template.jinja"), template).unwrap();
    Engine::builder().model(dir).build().unwrap()
}

#[test]
fn embedded_models_have_the_prompt_that_they_were_trained_on() {
    let engine = Engine::embedded().unwrap();
    let extractor = Extractor::new(&engine, SCHEMA).unwrap();
    let compact = serde_json::from_str::<serde_json::Value>(SCHEMA).unwrap().to_string();
    let prompt = extractor.prompt("A text.").unwrap().to_text();
    assert_eq!(prompt, embedded::prompt(compact, "A text.").to_text());
    assert_eq!(extractor.policy().whitespace, Whitespace::Compact);
    assert!(extractor.policy().closed_objects);
}

#[test]
fn other_models_have_their_template_and_the_general_wording() {
    let dir = tempfile::tempdir().unwrap();
    let engine = other_model(dir.path());
    let extractor = Extractor::new(&engine, SCHEMA).unwrap();
    assert_eq!(extractor.policy().whitespace, Whitespace::SingleSpace);
    let prompt = |text: &str| extractor.prompt(text).unwrap().to_text();
    let shown = prompt("A text with <|im_end|>.");
    assert!(
        shown.starts_with("<|im_start|>system: ") && shown.contains("<|im_end|><|im_start|>user: "),
        "{shown}"
    );
    assert!(shown.contains("- due: date, YYYY-MM-DD\n- paid: true or false or null\n"), "{shown}");
    // The text comes last, so that prompts share all before it.
    let (one, other) = (prompt("First."), prompt("Second."));
    let common = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    assert!(one[common..].starts_with("First."), "{one}");
    // A schema inside of a request is shown without it.
    let wrapped =
        Extractor::new(&engine, format!(r#"{{"name": "r", "strict": true, "schema": {SCHEMA}}}"#)).unwrap();
    assert_eq!(wrapped.prompt("First.").unwrap().to_text(), one);
    assert_eq!(wrapped.warnings().len(), 1);
    // Notes only on what the schema has.
    let plain = Extractor::new(&engine, r#"{"properties": {"a": {"type": "string"}}}"#).unwrap();
    assert!(!plain.prompt("x").unwrap().to_text().contains("YYYY"));
}

#[test]
fn an_engine_and_a_scheduler_write_the_same_record() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Arc::new(other_model(dir.path()));
    let extractor = Extractor::new(&engine, SCHEMA).unwrap();
    let request = || extractor.request("Vendor: Zork.").unwrap().max_tokens(120).close_before_limit(true);
    let alone = engine.generate(&request()).unwrap();
    let scheduler = Scheduler::new(engine.clone(), SchedulerOptions::with_batch(2)).unwrap();
    let batched = scheduler.submit(request()).unwrap().wait().unwrap();
    assert_eq!(alone.text, batched.text);
    // As the model is meant to write it.
    assert!(
        alone.text.starts_with(r#"{"vendor": ""#) && alone.text.contains(r#"", "due": ""#),
        "{}",
        alone.text
    );
    let prompt = extractor.prompt("Vendor: Zork.").unwrap();
    let tokens = engine.vocabulary().encode_template(&prompt.to_text()).unwrap().len();
    assert_eq!(alone.stats.prompt_tokens, tokens);
}

#[test]
fn instructions_and_examples_are_in_the_prompt() {
    let dir = tempfile::tempdir().unwrap();
    let engine = other_model(dir.path());
    let record = json!({"paid": null, "due": "2020-01-02", "vendor": "Zork"});
    let example = Example::new("Zork bills.", record);
    let builder =
        || Extractor::builder(&engine).instructions("The vendor is the sender.").example(example.clone());
    let prompt = builder().build(SCHEMA).unwrap().prompt("A text.").unwrap().to_text();
    assert!(prompt.contains("The vendor is the sender.") && prompt.contains("Zork bills."), "{prompt}");
    // In the whitespace that the model writes.
    assert!(prompt.contains(r#"{"paid": null, "due": "2020-01-02", "vendor": "Zork"}"#), "{prompt}");
    let own = builder().system("").prompt("{instructions} {examples} {{{text}}}").build(SCHEMA).unwrap();
    let prompt = own.prompt("A text.").unwrap().to_text();
    assert!(prompt.starts_with("<|im_start|>user: The vendor") && prompt.contains("{A text.}"), "{prompt}");
    // Without a place for them, they would be lost.
    for template in ["{text}", "{text} {examples}", "{text} {instructions}"] {
        let error = builder().prompt(template).build(SCHEMA).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    }
    assert!(builder().prompt("{instructions} {examples}").build(SCHEMA).is_err(), "no text");
}

#[test]
fn examples_must_fit_the_schema() {
    let engine = Engine::embedded().unwrap();
    let build = |record| {
        let example = Example::new("A text by Zork.", record);
        Extractor::builder(&engine).example(example).build(SCHEMA).map(drop)
    };
    assert!(build(json!({"vendor": "Zork", "due": "2020-01-02", "paid": true})).is_ok());
    for (record, pointer) in [
        (json!({"vendor": "Zork", "due": "tomorrow", "paid": true}), "/record/due"),
        (json!({"vendor": "Zork", "due": "2020-01-02"}), "/record"),
        (json!({"vendor": "Zork", "due": "2020-01-02", "paid": true, "more": 1}), "/record"),
        (json!(["Zork"]), "/record"),
    ] {
        let error = build(record).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
        assert!(error.pointer().is_some_and(|found| found.starts_with(pointer)), "{error}");
    }
    // A span of its own text.
    let verbatim =
        r#"{"properties": {"vendor": {"type": "string", "x-verbatim": true}}, "required": ["vendor"]}"#;
    let build = |vendor: &str| {
        let example = Example::new("A text by Zork.", json!({"vendor": vendor}));
        Extractor::builder(&engine).example(example).build(verbatim).map(drop)
    };
    assert!(build("Zork").is_ok() && build("Zark").is_err());
    assert!(Example::from_json(r#"{"text": "x"}"#).is_err());
    assert!(Example::from_json(r#"{"text": "x", "record": {}, "more": 1}"#).is_err());
}

#[test]
fn closing_that_leaves_nothing_names_the_option() {
    let engine = Engine::embedded().unwrap();
    let schema = r#"{"type": "array", "minItems": 3, "uniqueItems": true,
        "items": {"type": "object", "properties": {"a": {"const": 1}}}}"#;
    let error = Extractor::new(&engine, schema).unwrap_err();
    assert!(error.to_string().contains("--open-objects"), "{error}");
    assert!(Extractor::builder(&engine).open_objects().build(schema).is_ok());
}

/// Counts the schemas that the engine reads.
struct Reads(Arc<AtomicUsize>);

impl Subscriber for Reads {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().ends_with("::json_schema")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[test]
fn a_schema_is_read_once_for_all_texts() {
    let engine = Engine::embedded().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    tracing::subscriber::with_default(Reads(count.clone()), || {
        let extractor = Extractor::new(&engine, SCHEMA).unwrap();
        for text in ["Vendor A, due on 2024-05-01.", "Vendor B, paid.", "Vendor C."] {
            engine.generate(&extractor.request(text).unwrap()).unwrap();
        }
        assert_eq!(count.load(Ordering::Relaxed), 1);
        // Spans of a text need a constraint for each, and the schema is checked before.
        let extractor = Extractor::builder(&engine).verbatim(true).build(SCHEMA).unwrap();
        for text in ["Vendor A, due on 2024-05-01.", "Vendor B, paid."] {
            engine.generate(&extractor.request(text).unwrap()).unwrap();
        }
        assert_eq!(count.load(Ordering::Relaxed), 1 + 1 + 2);
    });
}

#[test]
fn a_faulty_schema_of_spans_fails_without_a_text() {
    let engine = Engine::embedded().unwrap();
    let build = |schema: &str| Extractor::builder(&engine).verbatim(true).build(schema).map(drop);
    let error = build(r#"{"type": "string", "maxLength": -1}"#).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSchema);
    let error = build("{\n\"type\": }").unwrap_err();
    assert_eq!((error.kind(), error.to_string().contains("line 2")), (ErrorKind::InvalidJson, true));
}
