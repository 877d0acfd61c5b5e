//! Quality and speed of the embedded models on evaluation texts, in every mode.
//!
//! ```text
//! cargo run --release --example evaluate -- FILE.jsonl... [--limit N] [--precision q8_0|f32|q4_k]
//! ```
//!
//! Each line holds `text`, `gold`, and either `schema` (extraction of a record) or `labels` (a
//! choice of one of them). Lines for several labels are skipped. A field counts as right if it
//! equals the gold field, numbers by value.

use std::path::{Path, PathBuf};

use clap::Parser;
use ffwd::model::{LoadOptions, Precision};
use ffwd::{Constraint, Engine, Error, ErrorKind, Finish, Mode, Output, Prompt, Request, Result, extract};
use ffwd_testkit::tables;
use serde_json::Value;

/// Evaluate the embedded models in every mode.
#[derive(Parser)]
struct Args {
    /// Read evaluation texts from FILE, JSON Lines
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Use the first N lines of each file
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    limit: usize,
    /// Run the models in a precision: q8_0, f32 or q4_k
    #[arg(long, default_value = "q8_0")]
    precision: Precision,
}

/// Sums over the documents of a file, in one mode.
#[derive(Default)]
struct Row {
    documents: usize,
    cut: usize,
    invalid: usize,
    same: usize,
    tokens: usize,
    forwards: usize,
    forced: usize,
    drafted: usize,
    accepted: usize,
    seconds: f64,
    fields: usize,
    right: usize,
    records: usize,
}

/// How the texts are generated.
struct Arm {
    mode: Mode,
    /// Drafts as long as they can be.
    ungated: bool,
    /// The same weights, and activations that are not rounded.
    wide: bool,
}

impl Arm {
    /// The modes, exact once more without its gate, and `off` in single precision.
    fn all() -> Vec<Arm> {
        let plain = |mode| Arm { mode, ungated: false, wide: false };
        let more = [Arm { ungated: true, ..plain(Mode::Exact) }, Arm { wide: true, ..plain(Mode::Off) }];
        Mode::ALL.map(plain).into_iter().chain(more).collect()
    }
}

fn main() -> Result<()> {
    let Args { files, limit, precision } = Args::parse();
    let load = |precision| {
        let builder = Engine::builder().options(LoadOptions::with_precision(precision));
        builder.prefix_bytes(0).build()
    };
    let engine = load(precision)?;
    // The embedded weights are of eight bits: wide they are the same numbers.
    let wide = if precision == Precision::Q8_0 { Some(load(Precision::F32)?) } else { None };
    println!("ms per forward by tokens: {:.3?}", engine.target().cost_table().points());
    for path in &files {
        let text = std::fs::read_to_string(path).map_err(|e| bad(&format!("{}: {e}", path.display())))?;
        file(&engine, wide.as_ref(), path, text.lines().take(limit))?;
    }
    Ok(())
}

fn file<'a>(
    engine: &Engine,
    wide: Option<&Engine>,
    path: &Path,
    lines: impl Iterator<Item = &'a str>,
) -> Result<()> {
    let arms: Vec<Arm> = Arm::all().into_iter().filter(|arm| wide.is_some() || !arm.wide).collect();
    let mut rows: Vec<Row> = arms.iter().map(|_| Row::default()).collect();
    let (mut refused, mut skipped) = (0, 0);
    for line in lines {
        let entry: Value =
            serde_json::from_str(line).map_err(|e| bad(&format!("{}: {e}", path.display())))?;
        if entry["multi"] == true {
            skipped += 1;
            continue;
        }
        if let Err(error) = request(&entry) {
            eprintln!("{}: {error}", entry["id"]);
            refused += 1;
            continue;
        }
        let mut off = None;
        for (row, arm) in rows.iter_mut().zip(&arms) {
            let request = request(&entry)?.mode(arm.mode);
            let engine = wide.filter(|_| arm.wide).unwrap_or(engine);
            let output = engine.generate(&if arm.ungated { request.without_gate() } else { request })?;
            let off = off.get_or_insert_with(|| output.text.clone());
            count(row, &entry, &output, off);
        }
    }
    println!(
        "\n{}: {} documents, {refused} schemas refused, {skipped} skipped",
        path.display(),
        rows[0].documents
    );
    println!(
        "{:<15} {:>6} {:>8} {:>10} {:>7} {:>8} {:>8} {:>7} {:>4} {:>7} {:>7} {:>7} {:>8}",
        "mode",
        "tokens",
        "forwards",
        "per forwd",
        "forced",
        "drafted",
        "accepted",
        "seconds",
        "cut",
        "invalid",
        "as off",
        "fields",
        "records"
    );
    for (row, arm) in rows.iter().zip(&arms) {
        let percent = |n: usize, of: usize| format!("{:.1}%", 100.0 * n as f64 / of.max(1) as f64);
        println!(
            "{:<15} {:>6} {:>8} {:>10.2} {:>7} {:>8} {:>8} {:>7.2} {:>4} {:>7} {:>7} {:>7} {:>8}",
            arm.mode.name().to_owned()
                + if arm.ungated { " ungated" } else { "" }
                + if arm.wide { " f32" } else { "" },
            row.tokens,
            row.forwards,
            row.tokens as f64 / row.forwards.max(1) as f64,
            percent(row.forced, row.tokens),
            row.drafted,
            row.accepted,
            row.seconds,
            row.cut,
            row.invalid,
            percent(row.same, row.documents),
            percent(row.right, row.fields),
            percent(row.records, row.documents),
        );
    }
    if wide.is_none() {
        // The tables of the documentation are of the stored weights.
        return Ok(());
    }
    let name = path.file_stem().map(|s| s.to_string_lossy().into_owned());
    let table = markdown(&rows, &arms);
    tables::put(&format!("evaluate {}", name.unwrap_or_default()), &table).map_err(|e| bad(&e))
}

/// The table of the documentation.
fn markdown(rows: &[Row], arms: &[Arm]) -> String {
    let mut table = String::from(
        "| mode | tokens | forwards | tokens a forward | seconds | text as in `off` | fields right |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (row, arm) in rows.iter().zip(arms) {
        let percent = |n: usize, of: usize| format!("{:.1} %", 100.0 * n as f64 / of.max(1) as f64);
        let how = match arm {
            Arm { ungated: true, .. } => ", drafts as long as they can be",
            Arm { wide: true, .. } => " in `F32`",
            _ => "",
        };
        table += &format!(
            "| `{}`{how} | {} | {} | {:.1} | {:.1} | {} | {} |\n",
            arm.mode.name(),
            row.tokens,
            row.forwards,
            row.tokens as f64 / row.forwards.max(1) as f64,
            row.seconds,
            percent(row.same, row.documents),
            percent(row.right, row.fields),
        );
    }
    table
}

/// The request about a line, in the form that the models were trained on.
fn request(entry: &Value) -> Result<Request> {
    let text = entry["text"].as_str().unwrap_or_default();
    let Some(labels) = entry["labels"].as_array() else {
        return extract::embedded::request(entry["schema"].to_string(), text);
    };
    let labels: Vec<&str> = labels.iter().filter_map(Value::as_str).collect();
    let prompt = Prompt::default()
        .with_template(
            "<|im_start|>system\nYou are a text classifier. Answer with the label only.<|im_end|>\n<|im_start|>user\n",
        )
        .with_text(format!("Classify the text into one of these labels: {}.\n\nText: {text}", labels.join(", ")))
        .with_template("<|im_end|>\n<|im_start|>assistant\n");
    Ok(Request::new(prompt).constraint(Constraint::choice(&labels)?).source(text))
}

fn count(row: &mut Row, entry: &Value, output: &Output, off: &str) {
    let stats = &output.stats;
    row.documents += 1;
    row.tokens += stats.tokens;
    row.forwards += stats.forwards;
    row.forced += stats.forced;
    row.drafted += stats.drafted;
    row.accepted += stats.accepted;
    row.seconds += stats.seconds;
    row.same += usize::from(output.text == off);
    row.cut += usize::from(output.finish != Finish::Stop);
    let gold = &entry["gold"];
    if entry["labels"].is_array() {
        row.fields += 1;
        row.right += usize::from(gold == output.text.as_str());
        row.records += usize::from(gold == output.text.as_str());
        return;
    }
    let got: Value = serde_json::from_str(&output.text).unwrap_or_default();
    row.invalid +=
        usize::from(output.finish == Finish::Stop && !jsonschema::is_valid(&entry["schema"], &got));
    row.records += usize::from(same(&got, gold));
    let (got, gold) = match gold {
        Value::Array(gold) => (got.as_array().cloned().unwrap_or_default(), gold.clone()),
        _ => (vec![got], vec![gold.clone()]),
    };
    for (i, gold) in gold.iter().enumerate() {
        for (name, value) in gold.as_object().into_iter().flatten() {
            row.fields += 1;
            row.right += usize::from(got.get(i).and_then(|g| g.get(name)).is_some_and(|g| same(g, value)));
        }
    }
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

fn bad(message: &str) -> Error {
    Error::new(ErrorKind::InvalidOption, message)
}
