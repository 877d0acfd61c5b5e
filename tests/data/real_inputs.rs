//! Inputs that people send, as they send them: schemas, grammars, lists of tools, chat templates.
//!
//! Each case is a constraint with texts that must come through and texts that must not, or with the
//! error that it must give. The mask, `allows` and `accept_token` must agree at every token, in the
//! tokenizer's own tokens and byte by byte. The small cases are in `tests/data/real-inputs`, with
//! the vocabulary of the embedded model. With the benchmark data (`FFWD_BENCH_DIR`, or
//! `../shared/bench` next to the repository) all of them run with a vocabulary of 128,256 tokens.
//!
//! `OPEN` lists the cases that are not right yet. They must fail, so a mended case has to leave the
//! list. Times and sizes in the cases are for benches.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use ffwd::constraint::substring::SubstringOptions;
use ffwd::constraint::tools::{Calls, ToolChoice, ToolStyle, Tools};
use ffwd::{CompiledGrammar, Compiler, Constraint, KeyOrder, Policy, TokenId, Vocabulary, Whitespace};
use ffwd_testkit::data;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Cases that are not right yet.
const OPEN: &[&str] = &[];

/// One line of a case file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "model"), allow(dead_code))]
struct RealInput<'a> {
    id: String,
    #[serde(rename = "source")]
    _report: String,
    kind: String,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    file: Option<String>,
    #[serde(default)]
    policy: InputPolicy,
    source_text: Option<String>,
    style: Option<String>,
    choice: Option<String>,
    #[serde(default, borrow)]
    accept: Vec<&'a RawValue>,
    #[serde(default, borrow)]
    refuse: Vec<&'a RawValue>,
    #[serde(default)]
    prefixes: Vec<String>,
    #[serde(default)]
    dead: Vec<String>,
    fails: Option<String>,
    #[serde(default)]
    honest: bool,
    /// Replies, each with its calls: names and arguments.
    #[serde(default, alias = "read")]
    calls: Vec<(String, Vec<(String, Value)>)>,
    #[serde(rename = "max_ms")]
    _max_ms: Option<f64>,
    #[serde(rename = "max_mask_ms")]
    _max_mask_ms: Option<f64>,
    #[serde(rename = "max_mb")]
    _max_mb: Option<f64>,
    // The members of a chat template's case.
    #[serde(default)]
    messages: Vec<Value>,
    #[serde(default)]
    tools: Vec<Value>,
    #[serde(default)]
    tokens: HashMap<String, String>,
    #[serde(default)]
    variables: serde_json::Map<String, Value>,
    #[serde(default)]
    prompt: bool,
    renders: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct InputPolicy {
    any_order: bool,
    whitespace: Value,
    equal_numbers: bool,
    exponent: bool,
}

impl InputPolicy {
    fn policy(&self) -> Policy {
        let whitespace = match &self.whitespace {
            Value::String(s) if s == "single" => Whitespace::SingleSpace,
            Value::Number(n) => match n.as_u64().and_then(|n| u8::try_from(n).ok()) {
                Some(0) => Whitespace::Compact,
                Some(max) => Whitespace::Flexible { max },
                None => panic!("the white space {n}"),
            },
            Value::Null => Whitespace::Compact,
            other => panic!("the white space {other}"),
        };
        let key_order = if self.any_order { KeyOrder::Any } else { KeyOrder::Declared };
        let (equal_numbers, exponent) = (self.equal_numbers, self.exponent);
        Policy { whitespace, key_order, equal_numbers, exponent, ..Policy::default() }
    }
}

/// A text of a case: a JSON string is the text, another value stands for its own text.
fn text(raw: &RawValue) -> String {
    serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
}

/// A text that must come out of a constraint or not; values that are no strings are compacted.
fn output(raw: &RawValue) -> String {
    match serde_json::from_str(raw.get()) {
        Ok(text) => text,
        Err(_) => data::canonical(raw.get()).expect("a JSON value of Unicode text"),
    }
}

/// A compiler with the token of each byte.
struct Tokenized {
    name: String,
    compiler: Compiler,
    bytes: HashMap<u8, TokenId>,
}

impl Tokenized {
    fn new(tokenizer: &Path) -> Tokenized {
        let vocab =
            Vocabulary::from_file(tokenizer).unwrap_or_else(|e| panic!("{}: {e}", tokenizer.display()));
        let single = (0..vocab.len() as TokenId).filter_map(|id| match vocab.token_bytes(id) {
            [byte] => Some((*byte, id)),
            _ => None,
        });
        let bytes = single.collect();
        Tokenized { name: tokenizer.display().to_string(), compiler: Compiler::new(vocab), bytes }
    }

    fn by_bytes(&self, text: &str) -> Vec<TokenId> {
        text.bytes().map(|b| *self.bytes.get(&b).expect("each byte is a token")).collect()
    }

    /// The tokenizations of a text. The second is left out for a byte that is no token.
    fn tokens(&self, text: &str) -> Vec<Vec<TokenId>> {
        let vocab = self.compiler.vocabulary();
        let own = vocab.encode(text).expect("a text can be encoded");
        let own = (vocab.decode(&own) == text.as_bytes()).then_some(own);
        own.into_iter().chain([self.by_bytes(text)]).collect()
    }
}

/// How far a text came.
#[derive(Debug, PartialEq)]
enum Reach {
    Refused { after: usize },
    Prefix,
    Whole,
}

/// Follows tokens; an error if the answers of the matcher disagree.
fn walk(grammar: &CompiledGrammar, tokens: &[TokenId]) -> Result<Reach, String> {
    let mut matcher = grammar.matcher();
    let eos = grammar.vocabulary().eos().to_vec();
    for (after, &token) in tokens.iter().enumerate() {
        let (masked, allowed) = (matcher.bitmask().contains(token), matcher.allows(token));
        let accepted = matcher.accept_token(token).is_ok();
        if masked != allowed || allowed != accepted {
            return Err(format!("mask {masked}, allows {allowed}, accept {accepted} at token {after}"));
        }
        if !accepted {
            return Ok(Reach::Refused { after });
        }
    }
    let ends = matcher.is_accepting();
    match eos.iter().all(|&t| matcher.bitmask().contains(t) == ends && matcher.allows(t) == ends) {
        true => Ok(if ends { Reach::Whole } else { Reach::Prefix }),
        false => Err(format!("the end is {ends}, but not by the mask")),
    }
}

/// The constraint of a case.
fn constraint(case: &RealInput, input: &str) -> ffwd::Result<Constraint> {
    let policy = case.policy.policy();
    let mut builder = Constraint::builder().policy(policy.clone());
    let options = SubstringOptions::default();
    if let Some(source) = &case.source_text {
        builder = builder.source(source.as_str(), &options);
    }
    match case.kind.as_str() {
        "json_schema" => builder.json_schema(input),
        "regex" => builder.regex(input),
        "gbnf" => builder.gbnf(input),
        "lark" => builder.lark(input),
        "structural_tag" => builder.structural_tag(input),
        "substring" => builder.substring(input, &options),
        "pattern" => builder.pattern(input),
        "choice" => builder.choice(serde_json::from_str::<Vec<String>>(input).expect("a list of texts")),
        "tools" => {
            let (style, choice) = called(case);
            Tools::parse(input)?.constraint(style, &choice, policy)
        }
        other => panic!("a case of the kind {other}"),
    }
}

fn called(case: &RealInput) -> (ToolStyle, ToolChoice) {
    let style = ToolStyle::by_name(case.style.as_deref().expect("a style")).expect("a known style");
    let calls = match case.choice.as_deref() {
        None | Some("auto") => Calls::Auto,
        Some("required") => Calls::Required,
        Some(name) => Calls::Function(name.to_owned()),
    };
    (style, ToolChoice { calls, single: false })
}

/// Checks an error against the text that it must have.
fn expect_error(wanted: &str, error: Option<String>) -> Result<(), String> {
    match error {
        None => Err(format!("no error, expected {wanted:?}")),
        Some(error) if !error.contains(wanted) => Err(format!("{error:?} lacks {wanted:?}")),
        Some(_) => Ok(()),
    }
}

/// What is not right about a case, if anything.
fn check(case: &RealInput, input: &str, setting: &Tokenized) -> Result<(), String> {
    if case.kind == "chat" {
        return chat(case, input);
    }
    let compiled = constraint(case, input).and_then(|c| Ok((setting.compiler.compile(&c)?, c)));
    if let Some(wanted) = &case.fails {
        return expect_error(wanted, compiled.err().map(|e| e.to_string()));
    }
    let grammar = match compiled {
        Err(_) if case.honest => return Ok(()),
        Err(e) => return Err(format!("does not compile: {e}")),
        // Warnings of the vocabulary, such as special tokens in tags, are of no interest here.
        Ok((_, constraint)) if case.honest && !constraint.warnings().is_empty() => return Ok(()),
        Ok((grammar, _)) => grammar,
    };
    texts(case, &grammar, setting)?;
    for (reply, calls) in &case.calls {
        let tools = Tools::parse(input).map_err(|e| e.to_string())?;
        let read = tools.read(called(case).0, reply).map_err(|e| format!("{reply:?} is not read: {e}"))?;
        let read = read.calls.iter().map(|c| {
            (c.name.clone(), serde_json::from_str(&c.arguments).unwrap_or(Value::from(c.arguments.as_str())))
        });
        let read: Vec<(String, Value)> = read.collect();
        if read != *calls {
            return Err(format!("{reply:?} is read as {read:?}"));
        }
    }
    Ok(())
}

/// Follows all texts of a case.
fn texts(case: &RealInput, grammar: &CompiledGrammar, setting: &Tokenized) -> Result<(), String> {
    let each = |text: &str, what: &str, right: fn(&Reach) -> bool| {
        for tokens in setting.tokens(text) {
            let end = walk(grammar, &tokens).map_err(|e| format!("{text:.300}: {e}"))?;
            if !right(&end) {
                let bytes = match end {
                    Reach::Refused { after } => setting.compiler.vocabulary().decode(&tokens[..after]).len(),
                    _ => text.len(),
                };
                let start = String::from_utf8_lossy(&text.as_bytes()[bytes.saturating_sub(80)..bytes]);
                return Err(format!("{text:.300?} must be {what}: {end:?} behind {start:?}"));
            }
        }
        Ok(())
    };
    for raw in &case.accept {
        each(&output(raw), "an output", |w| *w == Reach::Whole)?;
    }
    for raw in &case.refuse {
        each(&output(raw), "no output", |w| *w != Reach::Whole)?;
    }
    for text in &case.prefixes {
        each(text, "a beginning", |w| !matches!(w, Reach::Refused { .. }))?;
    }
    for text in &case.dead {
        each(text, "no beginning", |w| matches!(w, Reach::Refused { .. }))?;
    }
    Ok(())
}

#[cfg(feature = "model")]
fn chat(case: &RealInput, input: &str) -> Result<(), String> {
    use ffwd::{ChatOptions, ChatTemplate, Message};

    let render = || {
        let template = ChatTemplate::new(input)?;
        let with = |t: ChatTemplate, (name, text): (&String, &String)| t.with_token(name, text);
        let template = case.tokens.iter().fold(template, with);
        let messages: Vec<Message> =
            case.messages.iter().cloned().map(Message::from_json).collect::<ffwd::Result<_>>()?;
        let options = ChatOptions {
            add_generation_prompt: case.prompt,
            tools: case.tools.clone(),
            variables: case.variables.clone(),
            ..ChatOptions::default()
        };
        template.render(&messages, &options)
    };
    match (render(), &case.fails, &case.renders) {
        (result, Some(wanted), _) => expect_error(wanted, result.err().map(|e| e.to_string())),
        (Ok(text), None, Some(wanted)) if text == *wanted => Ok(()),
        (Ok(text), None, wanted) => Err(format!("renders {text:?}, expected {wanted:?}")),
        (Err(e), ..) => Err(e.to_string()),
    }
}

#[cfg(not(feature = "model"))]
fn chat(_: &RealInput, _: &str) -> Result<(), String> {
    Ok(())
}

/// Runs the cases of a file with all settings: the number of cases, and those that are not right.
fn run(file: &Path, settings: &[Tokenized]) -> (usize, Vec<(String, String)>) {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut wrong = Vec::new();
    let cases = text.split('\n').filter(|line| !line.trim().is_empty());
    let mut count = 0;
    for line in cases {
        let case: RealInput = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line:.200}"));
        let input = match (&case.input, &case.file) {
            (Some(input), None) => self::text(input),
            (None, Some(name)) => {
                std::fs::read_to_string(file.with_file_name(name)).expect("a readable file")
            }
            _ => panic!("{} has an input or a file", case.id),
        };
        count += 1;
        for setting in settings {
            let fault = catch_unwind(AssertUnwindSafe(|| check(&case, &input, setting)));
            match fault.unwrap_or_else(|_| Err("panics".into())) {
                Ok(()) => {}
                Err(fault) => {
                    wrong.push((case.id.clone(), format!("{fault} ({})", setting.name)));
                    break;
                }
            }
        }
    }
    (count, wrong)
}

/// Runs all case files of a folder, and compares what is not right with `OPEN`.
fn run_folder(folder: &Path, usual: Tokenized) {
    let mut tokenizers: Vec<PathBuf> = std::fs::read_dir(folder.join("tokenizers"))
        .expect("a folder")
        .map(|e| e.expect("a file").path())
        .collect();
    tokenizers.sort();
    let odd: Vec<Tokenized> = tokenizers.iter().map(|t| Tokenized::new(t)).collect();
    let usual = [usual];
    let (mut count, mut wrong, mut ids) = (0, Vec::new(), Vec::<&str>::new());
    for name in ["schemas", "tools", "grammars", "spans", "bytes", "chat"] {
        let file = folder.join(name).with_extension("jsonl");
        let settings = if name == "bytes" { &odd[..] } else { &usual[..] };
        let (cases, faults) = run(&file, settings);
        count += cases;
        wrong.extend(faults);
        let text = std::fs::read_to_string(&file).expect("a readable file");
        ids.extend(OPEN.iter().copied().filter(|id| text.contains(&format!("\"id\": \"{id}\""))));
    }
    let mut report = String::new();
    for (id, fault) in wrong.iter().filter(|(id, _)| !OPEN.contains(&id.as_str())) {
        report.push_str(&format!("\n{id}: {fault}"));
    }
    for id in ids.iter().filter(|id| !wrong.iter().any(|w| w.0 == **id)) {
        report.push_str(&format!("\n{id} is right: take it off the list of open cases"));
    }
    eprintln!("{count} cases, {} of them open", ids.len());
    assert!(report.is_empty() && count > 0, "{report}");
}

#[test]
fn small_cases_are_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tokenizer = root.join("crates/runtime/assets/extract-5m/tokenizer.json");
    run_folder(&root.join("tests/data/real-inputs"), Tokenized::new(&tokenizer));
}

#[test]
fn all_cases_are_right() {
    let Some(dir) = data::bench_dir() else {
        eprintln!("skipped: no benchmark data; set FFWD_BENCH_DIR to the folder that holds it");
        return;
    };
    if !dir.join("real-inputs").is_dir() {
        eprintln!("skipped: no {}", dir.join("real-inputs").display());
        return;
    }
    run_folder(&dir.join("real-inputs"), Tokenized::new(&dir.join("tokenizers/llama3/tokenizer.json")));
}
