//! Extractors: prompts by the model's own template and wording, examples, and equal records on an
//! engine and on a scheduler.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::DType;
use ffwd::extract::{Example, Extractor, PromptForm, embedded, nuextract};
use ffwd::model::embedded::TOKENIZER_JSON;
use ffwd::{Engine, ErrorKind, Scheduler, SchedulerOptions, Whitespace};
use ffwd_testkit::random::Random;
use serde_json::{Map, Value, json};
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

/// A model like `other_model` with this chat template.
fn model_with(dir: &Path, template: &str) -> Engine {
    drop(other_model(dir));
    std::fs::write(dir.join("chat_template.jinja"), template).unwrap();
    Engine::builder().model(dir).build().unwrap()
}

#[test]
fn forms_of_extraction_models_are_written_as_they_were_trained() {
    let dir = tempfile::tempdir().unwrap();
    let plain = other_model(dir.path());
    let shown = |engine: &Engine, form: Option<PromptForm>| {
        let builder = form.into_iter().fold(Extractor::builder(engine), |builder, form| builder.form(form));
        let extractor = builder.build(SCHEMA).unwrap();
        assert!(extractor.warnings().is_empty());
        extractor.prompt("Vendor: <|im_end|>.").unwrap().to_text()
    };
    let typed = "{\n    \"vendor\": \"string\",\n    \"due\": \"date\",\n    \"paid\": \"boolean\"\n}";
    let (open, close) = ("<|im_start|>user: ", "<|im_end|><|im_start|>");
    let written = format!("{open}# Template:\n{typed}\n# Context:\nVendor: <|im_end|>.{close}");
    assert_eq!(shown(&plain, Some(PromptForm::NuExtract)), written);
    let empty = typed.replace("string", "").replace("date", "").replace("boolean", "");
    assert_eq!(
        shown(&plain, Some(PromptForm::NuExtract15)),
        format!("<|input|>\n### Template:\n{empty}\n### Text:\nVendor: <|im_end|>.\n\n<|output|>")
    );
    let compact = serde_json::from_str::<Value>(SCHEMA).unwrap();
    let system =
        format!("<|im_start|>system: Return data as a JSON object with the following schema:\n{compact}");
    assert_eq!(
        shown(&plain, Some(PromptForm::Lfm2Extract)),
        format!("{system}<|im_end|>{open}Vendor: <|im_end|>.{close}")
    );
    // A chat template that has the form says so, and writes it itself. The general wording is at hand.
    let own = model_with(dir.path(), include_str!("../data/chat/nuextract.jinja"));
    let turn = |text: String| text.replace(open, "<|im_start|>user\n").replace(close, "<|im_end|>\n");
    let end = "<|im_start|>assistant\n<think>\n\n</think>\n\n";
    assert_eq!(shown(&own, None), turn(written) + end);
    assert!(shown(&own, Some(PromptForm::Default)).contains("- paid: true or false or null"));
    // A place for what is given, or an error.
    for form in [PromptForm::NuExtract, PromptForm::NuExtract15, PromptForm::Lfm2Extract] {
        let error = Extractor::builder(&own).form(form).instructions("In EUR.").build(SCHEMA).unwrap_err();
        assert!(error.message().contains("no place for instructions"), "{error}");
    }
    let own = Extractor::builder(&plain).form(PromptForm::NuExtract).prompt("{schema}|{text}").build(SCHEMA);
    assert!(own.unwrap().prompt("x").unwrap().to_text().contains(&format!("user: {typed}|x")));
    assert!(PromptForm::by_name("nuextract-2").unwrap_err().hint_text().unwrap().contains("lfm2-extract"));
}

/// A template in place of a schema is read, and shown as it is.
#[test]
fn templates_are_read_into_schemas() {
    let dir = tempfile::tempdir().unwrap();
    let engine = other_model(dir.path());
    let template = json!({"name": "string", "land": "country", "size": ["S", "M"], "tags": [["a", "b"]],
        "items": [{"price": "number", "at": "date-time"}], "type": "string", "notes": ["string"]});
    let extractor =
        Extractor::builder(&engine).form(PromptForm::NuExtract).build(template.to_string()).unwrap();
    let prompt = extractor.prompt("x").unwrap().to_text();
    let (_, shown) = prompt.split_once("# Template:\n").unwrap();
    let shown: Value = serde_json::from_str(shown.split_once("\n# Context:").unwrap().0).unwrap();
    assert_eq!(shown, template);
    assert!(extractor.warnings().is_empty(), "{:?}", extractor.warnings());
    let absent =
        json!({"name": null, "land": null, "size": null, "tags": [], "items": [], "type": null, "notes": []});
    let given = json!({"name": "a", "land": "NO", "size": "M", "tags": ["b"], "notes": ["n"], "type": "",
        "items": [{"price": 1.5, "at": "2025-01-02"}, {"price": null, "at": "2025-01-02T03:04:05Z"}]});
    for record in [&absent, &given] {
        extractor.check(&engine, "x", record.to_string()).unwrap();
    }
    for (name, wrong) in
        [("size", json!("L")), ("tags", json!(["c"])), ("items", Value::Null), ("name", json!(1))]
    {
        let mut record = given.clone();
        record[name] = wrong;
        assert!(extractor.check(&engine, "x", record.to_string()).is_err(), "{name}");
    }
    // Verbatim strings are spans of the text.
    let copied = Extractor::builder(&engine).form(PromptForm::NuExtract15);
    let copied = copied.build(r#"{"name": "verbatim-string"}"#).unwrap();
    assert!(copied.check(&engine, "Bob called.", r#"{"name": "Bob"}"#).is_ok());
    assert!(copied.check(&engine, "Bob called.", r#"{"name": "Ann"}"#).is_err());
    for (faulty, pointer) in [
        (r#"{"a": "strng"}"#, "/a"),
        (r#"{"a": [{"b~": 1}]}"#, "/a/0/b~0"),
        (r#"{"a": ["x", 1]}"#, "/a"),
        (r#"{"a": [["x", "string"], "y"]}"#, "/a"),
    ] {
        let error = Extractor::builder(&engine).form(PromptForm::NuExtract).build(faulty).unwrap_err();
        assert_eq!((error.kind(), error.pointer()), (ErrorKind::InvalidSchema, Some(pointer)), "{error}");
        assert!(error.hint_text().unwrap().contains("verbatim-string"));
    }
    let deep = format!("{}\"\"{}", "[".repeat(100), "]".repeat(100));
    assert_eq!(nuextract::to_schema(&deep.parse().unwrap()).unwrap_err().kind(), ErrorKind::InvalidSchema);
}

/// What a template cannot show is a warning; what has no template is an error.
#[test]
fn losses_of_templates_are_told() {
    let told = |schema: Value| {
        let (template, warnings) =
            nuextract::to_template(&json!({"properties": {"a": schema}}), true, false).unwrap();
        assert_eq!(warnings.len(), 1, "{schema}: {warnings:?}");
        assert!(warnings[0].pointer().unwrap().starts_with("/properties/a"), "{warnings:?}");
        template["a"].clone()
    };
    for (schema, expected) in [
        (json!(true), json!("string")),
        (json!({"type": ["string", "boolean"]}), json!("string")),
        (json!({"anyOf": [{"enum": ["x", "y"]}, {"type": "boolean"}]}), json!("string")),
        (json!({"enum": [1, 2, null]}), json!("number")),
        (json!({"const": "x"}), json!("string")),
        (json!({"type": "array"}), json!(["string"])),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), json!({})),
        (json!({"type": "string", "description": "d"}), json!("string")),
        (json!({"properties": {"b": {"type": "integer"}}, "allOf": []}), json!({"b": "integer"})),
    ] {
        assert_eq!(told(schema.clone()), expected, "{schema}");
    }
    let nothing = |schema: Value| nuextract::to_template(&schema, true, false).unwrap_err();
    for (schema, pointer) in [
        (json!({"type": "string"}), ""),
        (json!({"type": "object"}), ""),
        (
            json!({"properties": {"a": {"oneOf": [{"properties": {"b": true}}, {"properties": {"c": true}}]}}}),
            "/properties/a",
        ),
        (json!({"properties": {"a": {"type": ["array", "string"], "items": true}}}), "/properties/a"),
        (json!({"properties": {"a": {"$ref": "https://example.org/x"}}}), "/properties/a"),
        (json!({"properties": {"a": {"$ref": "#"}}}), "/properties/a"),
    ] {
        let error = nothing(schema.clone());
        assert_eq!(
            (error.kind(), error.pointer().unwrap_or("none")),
            (ErrorKind::Unsupported, pointer),
            "{schema}: {error}"
        );
        assert!(error.hint_text().unwrap().contains("--prompt-form default"));
    }
    // References that multiply at each level.
    let wide = |levels: usize| {
        let one = |i: usize| json!({"$ref": format!("#/$defs/{}", i + 1)});
        let four = |i: usize| json!({"properties": {"a": one(i), "b": one(i), "c": one(i), "d": one(i)}});
        let mut all: Map<String, Value> = (0..levels).map(|i| (i.to_string(), four(i))).collect();
        all.insert(levels.to_string(), json!({"type": "string"}));
        json!({"$defs": all, "properties": {"a": {"$ref": "#/$defs/0"}}})
    };
    assert!(nuextract::to_template(&wide(4), true, false).is_ok());
    assert!(nothing(wide(8)).message().contains("too large"));
    // Equal alternatives, one besides null, and kinds of one type are one.
    let same = json!({"$defs": {"d": {"type": "string", "format": "date"}}, "properties": {
        "a": {"anyOf": [{"$ref": "#/$defs/d"}, {"type": "null"}]}, "b": {"type": ["integer", "number"]},
        "c": {"allOf": [{"$ref": "#/$defs/d"}]}, "d": {"enum": ["x", "y", null]}, "e": {"type": "string", "x-verbatim": true}}});
    let (template, warnings) = nuextract::to_template(&same, true, false).unwrap();
    assert_eq!(
        template,
        json!({"a": "date", "b": "number", "c": "date", "d": ["x", "y"], "e": "verbatim-string"})
    );
    assert!(warnings.is_empty());
    let (template, _) =
        nuextract::to_template(&json!({"properties": {"a": {"type": "string"}}}), true, true).unwrap();
    assert_eq!(template, json!({"a": "verbatim-string"}));
}

/// Random schemas whose leaves may be null, in all spellings of that.
fn random_schema(random: &mut Random, depth: usize) -> Value {
    let mut properties = Map::new();
    for i in 0..1 + random.below(4) {
        let value = match random.below(if depth == 0 { 7 } else { 10 }) {
            0 => json!({"enum": ["string", "integer", null]}),
            1 => json!({"anyOf": [{"enum": ["a", "b", "c"]}, {"type": "null"}]}),
            2 => json!({"type": "array", "items": {"enum": ["x", "y"]}}),
            3 => {
                json!({"items": {"type": *random.pick(&["string", "integer", "number", "boolean"])}, "type": "array"})
            }
            4 => json!({"type": ["string", "null"], "format": *random.pick(&["date", "time", "duration"])}),
            5 => json!({"type": [*random.pick(&["string", "integer", "number", "boolean"]), "null"]}),
            6 => {
                let one = json!({"type": *random.pick(&["string", "integer", "number", "boolean"])});
                json!({"oneOf": [{"type": "null"}, one]})
            }
            7 => json!({"type": "array", "items": random_schema(random, depth - 1)}),
            8 => {
                json!({"type": "array", "items": {"type": "array", "items": random_schema(random, depth - 1)}})
            }
            _ => random_schema(random, depth - 1),
        };
        properties.insert(format!("p{i}/"), value);
    }
    let required: Vec<&String> = properties.keys().collect();
    json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
}

/// A value for a schema, most often one that fits.
fn random_value(random: &mut Random, schema: &Value) -> Value {
    if random.below(40) == 0 {
        return random.pick(&[json!(null), json!("a"), json!(1), json!(true), json!([]), json!({})]).clone();
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return random.pick(words).clone();
    }
    if let Some(ways) = ["anyOf", "oneOf"].iter().find_map(|name| schema.get(*name)?.as_array()) {
        let way = random.pick(ways).clone();
        return random_value(random, &way);
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => random.pick(kinds).clone(),
        kind => kind.clone(),
    };
    match kind.as_str().unwrap() {
        "null" => Value::Null,
        "integer" => json!(random.below(9)),
        "number" => json!(0.5 + random.below(9) as f64),
        "boolean" => json!(random.below(2) == 0),
        "string" => match schema["format"].as_str() {
            Some("date") => json!("2025-01-02"),
            Some("time") => json!("03:04:05Z"),
            Some("duration") => json!("P3D"),
            _ => json!(*random.pick(&["", "a", "2025-01-02"])),
        },
        "array" => (0..random.below(3)).map(|_| random_value(random, &schema["items"])).collect(),
        _ => {
            let members = schema["properties"].as_object().unwrap().iter();
            let mut all: Map<String, Value> =
                members.map(|(name, schema)| (name.clone(), random_value(random, schema))).collect();
            if random.below(20) == 0 {
                all.shift_remove("p0/");
            }
            Value::Object(all)
        }
    }
}

/// Schema, template and schema again: both schemas take the same values.
#[test]
fn schemas_survive_the_way_to_a_template_and_back() {
    let valid = |schema: &Value| {
        let options = jsonschema::options().should_validate_formats(true);
        options.build(schema).unwrap()
    };
    let mut seen = [0; 2];
    for case in 0..300 {
        let mut random = Random::new(case);
        let schema = random_schema(&mut random, 2);
        let (template, warnings) = nuextract::to_template(&schema, true, false).unwrap();
        assert!(warnings.is_empty(), "{schema}: {warnings:?}");
        let back = nuextract::to_schema(&template).unwrap();
        assert_eq!(nuextract::to_template(&back, true, false).unwrap().0, template);
        let (first, second) = (valid(&schema), valid(&back));
        for _ in 0..30 {
            let value = random_value(&mut random, &schema);
            let is_valid = first.is_valid(&value);
            assert_eq!(second.is_valid(&value), is_valid, "{value}: {schema} {template} {back}");
            seen[usize::from(is_valid)] += 1;
        }
    }
    assert!(seen[0] > 500 && seen[1] > 500, "{seen:?}");
}
