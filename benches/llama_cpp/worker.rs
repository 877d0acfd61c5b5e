//! Answers generation requests over standard input and output, for the comparisons in `run.py` and
//! `../real_models/measure.py`.
//!
//! One JSON object a line each way. `{"op": "prompt", schema, text}` gives the tokens of the
//! prompt, or the reason why the schema is refused. `{"op": "run", schema, text, mode, draft_model,
//! max_tokens}` generates. The constraint is compiled anew for every run and timed separately. One
//! process serves all records, so loading is never measured.
//!
//! # Alternatives considered
//!
//! Starting the `ffwd` program for each record was rejected: it would measure loading.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use ffwd::extract::{self, Extractor};
use ffwd::{Constraint, Engine, Error, ErrorKind, Mode, Result};
use serde_json::{Value, json};

/// Answer generation requests, one JSON object a line.
#[derive(Parser)]
struct Args {
    /// Load the target model from FILE [default: the embedded one]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Load the draft model from FILE
    #[arg(long, value_name = "FILE")]
    draft_model: Option<PathBuf>,
}

fn main() -> Result<()> {
    let options = Args::parse();
    // Every record is read anew, as in llama.cpp.
    let mut builder = Engine::builder().prefix_bytes(0);
    if let Some(path) = options.model {
        builder = builder.model(path);
    }
    if let Some(path) = options.draft_model {
        builder = builder.draft_model(path);
    }
    let engine = builder.build()?;
    // Measured when first used; that belongs to loading.
    engine.target().cost_table();
    engine.draft().map(|draft| draft.cost_table());
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| bad(&e.to_string()))?;
        let answer = answer(&engine, &line).unwrap_or_else(|e| json!({ "error": e.to_string() }));
        writeln!(out, "{answer}").and_then(|()| out.flush()).map_err(|e| bad(&e.to_string()))?;
    }
    Ok(())
}

fn answer(engine: &Engine, line: &str) -> Result<Value> {
    let asked: Value = serde_json::from_str(line).map_err(|e| bad(&e.to_string()))?;
    let field = |name: &str| asked[name].as_str().ok_or_else(|| bad(&format!("`{name}` is missing")));
    let (schema, text) = (field("schema")?, field("text")?);
    match field("op")? {
        "prompt" => {
            engine.compiler().compile(&Constraint::json_schema(schema)?)?;
            let prompt = Extractor::new(engine, schema)?.prompt(text)?;
            let tokens = prompt.encode(engine.vocabulary())?;
            Ok(json!({ "tokens": tokens, "prompt": prompt.to_text() }))
        }
        "run" => run(engine, &asked, schema, text, field("mode")?),
        other => Err(bad(&format!("`{other}` is not known"))),
    }
}

fn run(engine: &Engine, asked: &Value, schema: &str, text: &str, mode: &str) -> Result<Value> {
    let mode = Mode::ALL
        .into_iter()
        .find(|m| m.name() == mode)
        .ok_or_else(|| bad(&format!("`{mode}` is no mode")))?;
    let start = Instant::now();
    let constraint = Constraint::json_schema(schema)?;
    let grammar = engine.compiler().compile(&constraint)?;
    let compile = start.elapsed().as_secs_f64();
    let request = extract::embedded::request_for(constraint, schema, text)?
        .prompt(Extractor::new(engine, schema)?.prompt(text)?)
        .grammar(grammar)
        .mode(mode)
        .draft_model(asked["draft_model"] != false)
        .max_tokens(asked["max_tokens"].as_u64().unwrap_or(512) as usize);
    let start = Instant::now();
    let output = engine.generate(&request)?;
    let seconds = start.elapsed().as_secs_f64();
    let spent = output.stats.spent.unwrap_or_default();
    Ok(json!({
        "text": output.text,
        "complete": output.complete,
        "tokens": output.stats.tokens,
        "prompt_tokens": output.stats.prompt_tokens,
        "forwards": output.stats.forwards,
        "seconds": seconds,
        "compile_seconds": compile,
        "output": output.tokens,
        "prompt_seconds": spent.prompt,
        "target_seconds": spent.target,
        "draft_seconds": spent.draft_model,
    }))
}

fn bad(message: &str) -> Error {
    Error::new(ErrorKind::InvalidOption, message)
}
