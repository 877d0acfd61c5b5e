//! Fields right on evaluation texts, for one model, prompt and whitespace.
//!
//! ```text
//! cargo run --release --example measure_extraction -- FILE.jsonl [--model GGUF] [--lines odd|even|all]
//!     [--whitespace compact|single] [--prompt FILE] [--system TEXT] [--open-objects] [--json]
//! ```
//!
//! Each line of the file holds `text`, `schema` and `gold`. A field is right if it equals the gold
//! field, numbers by value. Records are greedy, in the mode `exact`. A wording is chosen on the odd
//! lines and reported on the even ones, which chose nothing.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use ffwd::extract::Extractor;
use ffwd::model::{KvPrecision, LoadOptions, Precision};
use ffwd::{Engine, Error, ErrorKind, Finish, Policy, Result, Whitespace};
use serde_json::{Value, json};

/// Measure the fields right on evaluation texts.
#[derive(Parser)]
struct Args {
    /// Read evaluation texts from FILE, JSON Lines
    file: PathBuf,
    /// Load the model from a folder or a GGUF file [default: the embedded model]
    #[arg(long)]
    model: Option<PathBuf>,
    /// Load this draft model
    #[arg(long)]
    draft_model: Option<PathBuf>,
    /// Hold weights in a precision
    #[arg(long, default_value = "stored")]
    precision: Precision,
    /// Hold keys and values in a precision
    #[arg(long, default_value = "f32")]
    kv: KvPrecision,
    /// Use these lines of the file
    #[arg(long, default_value = "all")]
    lines: Lines,
    /// Set the whitespace in JSON [default: what suits the model]
    #[arg(long)]
    whitespace: Option<Spaces>,
    /// Replace the user message by the template in FILE
    #[arg(long)]
    prompt: Option<PathBuf>,
    /// Set the system message
    #[arg(long)]
    system: Option<String>,
    /// Allow properties that the schema does not mention
    #[arg(long)]
    open_objects: bool,
    /// Generate at most N tokens
    #[arg(long, default_value_t = 512)]
    max_tokens: usize,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// Print each wrong field
    #[arg(long)]
    wrong: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Lines {
    Odd,
    Even,
    All,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Spaces {
    Compact,
    Single,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let engine = load(&args)?;
    let text = read(&args.file)?;
    let (mut texts, mut fields, mut right, mut records, mut cut) = (0, 0, 0, 0, 0);
    let (mut tokens, mut forwards) = (0, 0);
    let start = Instant::now();
    for (i, line) in text.lines().enumerate() {
        // Lines count from 1.
        let wanted = match args.lines {
            Lines::All => true,
            Lines::Odd => i % 2 == 0,
            Lines::Even => i % 2 == 1,
        };
        if !wanted {
            continue;
        }
        let entry: Value = serde_json::from_str(line)
            .map_err(|e| Error::new(ErrorKind::InvalidJson, format!("line {}: {e}", i + 1)))?;
        let extractor = extractor(&args, &engine, &entry["schema"].to_string())?;
        let request = extractor.request(entry["text"].as_str().unwrap_or_default())?;
        let output = engine.generate(&request.max_tokens(args.max_tokens))?;
        texts += 1;
        tokens += output.stats.tokens;
        forwards += output.stats.forwards;
        cut += usize::from(output.finish != Finish::Stop);
        let record: Value = serde_json::from_str(&output.text).unwrap_or_default();
        records += usize::from(same(&record, &entry["gold"]));
        for (name, gold) in entry["gold"].as_object().into_iter().flatten() {
            let found = record.get(name).unwrap_or(&Value::Null);
            fields += 1;
            right += usize::from(same(found, gold));
            if args.wrong && !same(found, gold) {
                eprintln!("{} {name}: {found} instead of {gold}", entry["id"]);
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    if args.json {
        println!(
            "{}",
            json!({"texts": texts, "fields": fields, "right": right, "records": records, "cut": cut,
                "tokens": tokens, "forwards": forwards, "seconds": seconds})
        );
    } else {
        println!(
            "{right} of {fields} fields right ({:.1} %), {records} of {texts} records, {cut} cut, \
             {tokens} tokens in {forwards} forwards, {seconds:.1} s",
            100.0 * right as f64 / fields.max(1) as f64
        );
    }
    Ok(())
}

fn load(args: &Args) -> Result<Engine> {
    let options = LoadOptions { kv: args.kv, ..LoadOptions::with_precision(args.precision) };
    let mut builder = Engine::builder().options(options);
    if let Some(model) = &args.model {
        builder = builder.model(model);
    }
    if let Some(draft) = &args.draft_model {
        builder = builder.draft_model(draft);
    }
    builder.build()
}

fn extractor(args: &Args, engine: &Engine, schema: &str) -> Result<Extractor> {
    let mut policy = Policy { closed_objects: !args.open_objects, ..engine.extraction_policy() };
    match args.whitespace {
        Some(Spaces::Compact) => policy.whitespace = Whitespace::Compact,
        Some(Spaces::Single) => policy.whitespace = Whitespace::SingleSpace,
        None => {}
    }
    let mut builder = Extractor::builder(engine).policy(policy);
    if let Some(file) = &args.prompt {
        builder = builder.prompt(read(file)?.trim_end());
    }
    if let Some(text) = &args.system {
        builder = builder.system(text);
    }
    builder.build(schema)
}

fn read(file: &PathBuf) -> Result<String> {
    std::fs::read_to_string(file).map_err(|e| Error::io(file, &e))
}

/// Equality with numbers compared by value.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() < 1e-9,
            _ => a == b,
        },
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same(v, w)))
        }
        _ => a == b,
    }
}
