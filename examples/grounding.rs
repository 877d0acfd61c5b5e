//! Grounded extraction on evaluation texts: speed and right fields with and without `verbatim`, the
//! values with spans, and the calibration of confidence.
//!
//! ```text
//! cargo run --release --features full --example grounding -- FILE.jsonl [--model GGUF] [--limit N] [--name NAME]
//! ```
//!
//! Each line of the file holds `text`, `schema` and `gold`. A field is right if it equals the gold
//! field, numbers by value. The two arms run in turn for each text. Confidence is measured in a third
//! run of the plain arm, value by value: strings, numbers and literals. A value that the constraint
//! determines counts too. With `FFWD_WRITE_TABLES`, the tables go into the documentation.

use std::path::PathBuf;

use clap::Parser;
use ffwd::error::Place;
use ffwd::extract::{self, Extractor};
use ffwd::model::LoadOptions;
use ffwd::{Engine, Error, ErrorKind, Result};
use ffwd_testkit::{env, tables};
use serde_json::{Value, json};

/// Measure spans, verbatim strings and confidence on evaluation texts.
#[derive(Parser)]
struct Args {
    /// Read evaluation texts from FILE, JSON Lines
    file: PathBuf,
    /// Load the model from a folder or a GGUF file [default: the embedded model]
    #[arg(long)]
    model: Option<PathBuf>,
    /// Use the first N lines
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    limit: usize,
    /// Name the tables of the documentation
    #[arg(long, default_value = "embedded")]
    name: String,
    /// Generate at most N tokens
    #[arg(long, default_value_t = 512)]
    max_tokens: usize,
}

/// The reliability diagram as numbers; `benches/tables.sh` makes the picture of the documentation from them.
const PICTURE: &str = "target/reliability.json";

/// Sums over the texts of one arm.
#[derive(Default)]
struct Sums {
    texts: usize,
    failed: usize,
    tokens: usize,
    forwards: usize,
    seconds: f64,
    fields: usize,
    right: usize,
    values: usize,
    spans: usize,
}

/// Values whose probability is in one tenth of the scale.
#[derive(Default, Clone)]
struct Bin {
    count: usize,
    right: usize,
    probability: f64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    // Each run reads its whole prompt.
    let builder = Engine::builder().options(LoadOptions::default()).prefix_bytes(0);
    let engine = args.model.iter().fold(builder, |builder, model| builder.model(model)).build()?;
    let text = std::fs::read_to_string(&args.file).map_err(|e| Error::io(&args.file, &e))?;
    let mut arms = [Sums::default(), Sums::default()];
    let mut bins = vec![Bin::default(); 10];
    for (i, line) in text.lines().take(args.limit).enumerate() {
        let entry: Value = serde_json::from_str(line)
            .map_err(|e| Error::new(ErrorKind::InvalidJson, format!("line {}: {e}", i + 1)))?;
        let (text, schema) = (entry["text"].as_str().unwrap_or_default(), entry["schema"].to_string());
        for (sums, verbatim) in arms.iter_mut().zip([false, true]) {
            let extractor = Extractor::builder(&engine).verbatim(verbatim).build(&schema)?;
            run(sums, &engine, &extractor, (&entry, text), args.max_tokens)?;
            if !verbatim {
                let request = extractor.request(text)?.max_tokens(args.max_tokens).confidence(true);
                calibrate(&mut bins, &entry["gold"], &engine.generate(&request)?);
            }
        }
    }
    let put = |name: &str, table: &str| {
        println!("{table}");
        tables::put(&format!("{name} {}", args.name), table)
            .map_err(|e| Error::new(ErrorKind::InvalidOption, e))
    };
    put("grounding", &grounding_table(&arms))?;
    put("calibration", &calibration_table(&bins))?;
    if env::write_tables() && args.name == "embedded" {
        std::fs::write(PICTURE, picture(&bins).to_string())
            .map_err(|e| Error::new(ErrorKind::Io, e.to_string()).at(Place::File(PICTURE.into())))?;
    }
    Ok(())
}

fn run(
    sums: &mut Sums,
    engine: &Engine,
    extractor: &Extractor,
    (entry, text): (&Value, &str),
    max_tokens: usize,
) -> Result<()> {
    let output = engine.generate(&extractor.request(text)?.max_tokens(max_tokens))?;
    sums.texts += 1;
    sums.tokens += output.stats.tokens;
    sums.forwards += output.stats.forwards;
    sums.seconds += output.stats.seconds + output.stats.compile_seconds;
    sums.fields += entry["gold"].as_object().map_or(0, |gold| gold.len());
    let Ok(extraction) = extract::finished(output) else {
        sums.failed += 1;
        return Ok(());
    };
    for (name, gold) in entry["gold"].as_object().into_iter().flatten() {
        sums.right += usize::from(same(extraction.record.get(name).unwrap_or(&Value::Null), gold));
    }
    let spans = extraction.spans(text);
    sums.values += spannable(&extraction.record);
    sums.spans += spans.len();
    for value in &spans {
        for span in &value.occurrences {
            // Spans are exact, or the program is wrong.
            let copied = Value::from(&text[span.bytes.clone()]);
            let found = extraction.record.pointer(&value.pointer);
            let is_exact = found.is_some_and(|found| *found == copied || found.is_number());
            assert!(is_exact, "{} of {}", value.pointer, entry["id"]);
        }
    }
    Ok(())
}

/// Number of strings and numbers.
fn spannable(value: &Value) -> usize {
    match value {
        Value::Object(members) => members.values().map(spannable).sum(),
        Value::Array(items) => items.iter().map(spannable).sum(),
        Value::String(_) | Value::Number(_) => 1,
        _ => 0,
    }
}

fn calibrate(bins: &mut [Bin], gold: &Value, output: &ffwd::Output) {
    let record: Value = serde_json::from_str(&output.text).unwrap_or_default();
    for value in &output.confidence {
        let bin = &mut bins[((value.probability * 10.0) as usize).min(9)];
        bin.count += 1;
        bin.probability += value.probability;
        let (found, wanted) = (record.pointer(&value.pointer), gold.pointer(&value.pointer));
        bin.right += usize::from(found.zip(wanted).is_some_and(|(a, b)| same(a, b)));
    }
}

fn grounding_table(arms: &[Sums]) -> String {
    let mut table = String::from(
        "| strings | tokens | forwards | seconds | fields right | cut | values with spans |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let percent = |n: usize, of: usize| format!("{:.1} %", 100.0 * n as f64 / of.max(1) as f64);
    for (name, sums) in ["as the schema has them", "`--verbatim`"].iter().zip(arms) {
        table += &format!(
            "| {name} | {} | {} | {:.2} | {} | {} of {} | {} |\n",
            sums.tokens,
            sums.forwards,
            sums.seconds,
            percent(sums.right, sums.fields),
            sums.failed,
            sums.texts,
            percent(sums.spans, sums.values),
        );
    }
    table
}

fn calibration_table(bins: &[Bin]) -> String {
    let mut table = String::from(
        "| probability | values | mean probability | right |\n\
         | --- | --- | --- | --- |\n",
    );
    let all: usize = bins.iter().map(|bin| bin.count).sum();
    let mut error = 0.0;
    for (i, bin) in bins.iter().enumerate().filter(|(_, bin)| bin.count > 0) {
        let count = bin.count as f64;
        let (mean, right) = (bin.probability / count, bin.right as f64 / count);
        error += (mean - right).abs() * count / all as f64;
        table += &format!(
            "| {:.1} to {:.1} | {} | {mean:.3} | {right:.3} |\n",
            i as f64 / 10.0,
            (i + 1) as f64 / 10.0,
            bin.count
        );
    }
    table + &format!("\nExpected calibration error: {error:.3}.\n")
}

/// Returns a plot of the share of right values by probability, for `benches/picture.mjs`; the size of a
/// point shows the number of values.
fn picture(bins: &[Bin]) -> Value {
    let points = bins.iter().filter(|bin| bin.count > 0).map(|bin| {
        let count = bin.count as f64;
        json!({"x": bin.probability / count, "y": bin.right as f64 / count, "size": 3.0 + count.sqrt()})
    });
    let axis = |label: &str| json!({"label": label, "low": 0, "high": 1});
    json!({
        "label": "Share of right values by probability",
        "x": axis("mean probability of the values"),
        "y": axis("share of right values"),
        "series": [
            {"name": "as probable as said", "color": "#9aa3b2", "line": true, "points": [{"x": 0, "y": 0}, {"x": 1, "y": 1}]},
            {"name": "measured", "color": "#1f77b4", "line": true, "shape": "circle", "points": points.collect::<Vec<_>>()},
        ],
    })
}

/// Equality with numbers compared by value.
fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() < 1e-9,
        _ => match (a, b) {
            (Value::Array(a), Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
            }
            (Value::Object(a), Value::Object(b)) => {
                a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same(v, w)))
            }
            _ => a == b,
        },
    }
}
