//! `ffwd explain`: what a schema costs, known before anything is generated.

mod bounds;

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;

use super::args::{JsonArgs, ModelArgs, read_text};
use super::schema_refs::ReferenceArgs;
use super::{help, output};
use crate::constraint::{Constraint, Policy};
use crate::decode::Engine;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::matcher::CompiledGrammar;
use bounds::Endless;
use ffwd_runtime::speedup::{ConstraintWalk, Estimate, ForwardCosts, Walker, estimate};

const EXAMPLES: [(&str, &str); 3] = [
    ("Explain a schema", "ffwd explain --schema invoice.schema.json"),
    ("Explain it for another model", "ffwd explain --schema invoice.schema.json --model qwen.gguf"),
    ("Expect long strings", "ffwd explain --schema report.schema.json --string-chars 200 --json"),
];

/// Number of forced runs in the report.
const RUNS: usize = 5;
/// Characters of a forced run in the table.
const RUN_CHARS: usize = 60;

/// Explain what a schema costs, before anything is generated
///
/// The report has the states, the share of forced tokens, the longest forced runs, the longest
/// output, and the values that can run without end. Walks through the constraint give the number of
/// tokens, and measured forwards of the model the speedup. The model generates nothing.
#[derive(clap::Args)]
#[command(after_help = help::examples(&EXAMPLES))]
pub(super) struct Args {
    /// Explain records that are valid against the JSON Schema in FILE
    #[arg(short, long, value_name = "FILE")]
    schema: PathBuf,
    /// Allow properties that the schema does not mention, as the JSON Schema standard does
    #[arg(long)]
    open_objects: bool,
    /// Expect strings of N characters where their bounds allow it
    #[arg(long, value_name = "N", default_value_t = Walker::STRING_CHARS)]
    string_chars: usize,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    format: JsonArgs,
    #[command(flatten)]
    references: ReferenceArgs,
    #[command(flatten)]
    models: ModelArgs,
}

/// The report on a schema.
#[derive(Serialize)]
struct SchemaReport {
    /// States of the automaton that the schema alone needs.
    states: usize,
    /// States, configurations and masks that the walks have met.
    deterministic_states: usize,
    configurations: usize,
    masks: usize,
    bytes: usize,
    compile_milliseconds: f64,
    /// Most bytes of an output, and so most tokens; none without a known bound.
    most_tokens: Option<u64>,
    /// Tokens of the shortest output.
    least_tokens: Option<usize>,
    endless: Vec<Endless>,
    longest_runs: Vec<RunText>,
    estimate: Estimate,
    /// Milliseconds of a forward of the model by its rows.
    forwards: ForwardCosts,
    warnings: Vec<String>,
}

/// A forced run.
#[derive(Serialize)]
struct RunText {
    text: String,
    tokens: usize,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let in_file = |e: Error| e.at(Place::File(args.schema.clone()));
    let (text, documents) = (read_text(&args.schema)?, args.references.read()?);
    let schema: Value = serde_json::from_str(&text)
        .map_err(|e| in_file(Error::new(ErrorKind::InvalidJson, format!("the schema: {e}"))))?;
    let engine = args.models.engine()?;
    let policy = Policy { closed_objects: !args.open_objects, ..args.format.policy(engine.whitespace()) };
    let builder = documents.add_to(Constraint::builder().policy(policy.clone()));
    let started = std::time::Instant::now();
    let constraint = builder.json_schema(&text).map_err(in_file)?;
    let constraint = args.format.check_warnings(constraint)?;
    let grammar = engine.compiler().compile(&constraint).map_err(in_file)?;
    let compile_milliseconds = started.elapsed().as_secs_f64() * 1e3;
    let report = report(args, &engine, &grammar, compile_milliseconds, bounds::longest(&schema, &policy))?;
    output::print_report(&report, args.json, table)?;
    Ok(ExitCode::SUCCESS)
}

fn report(
    args: &Args,
    engine: &Engine,
    grammar: &CompiledGrammar,
    compile_milliseconds: f64,
    (most_tokens, endless): (Option<u64>, Vec<Endless>),
) -> Result<SchemaReport> {
    let forwards = ForwardCosts::measure(engine.target(), ForwardCosts::USUAL_PROMPT)?;
    let mut walker = Walker::new(engine.vocabulary(), args.string_chars);
    let states = grammar.sizes().nfa_states;
    let (estimate, walks) = estimate(grammar, &mut walker, &forwards)?;
    let shortest = grammar.matcher().shortest_completion(usize::MAX);
    let least_tokens = match shortest.map(String::from_utf8) {
        Some(Ok(text)) => Some(engine.vocabulary().encode(&text)?.len()),
        _ => None,
    };
    let sizes = grammar.sizes();
    Ok(SchemaReport {
        states,
        deterministic_states: sizes.dfa_states,
        configurations: sizes.configurations,
        masks: sizes.masks,
        bytes: grammar.memory().total(),
        compile_milliseconds,
        most_tokens,
        least_tokens,
        endless,
        longest_runs: longest_runs(&walks),
        estimate,
        forwards,
        warnings: grammar.warnings().iter().map(ToString::to_string).collect(),
    })
}

/// Returns the forced runs with most tokens, each text once.
fn longest_runs(walks: &[ConstraintWalk]) -> Vec<RunText> {
    let mut runs: Vec<(usize, &str)> = walks
        .iter()
        .flat_map(|walk| walk.runs.iter().map(|(text, tokens)| (*tokens, text.as_str())))
        .collect();
    runs.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let mut seen = std::collections::BTreeSet::new();
    runs.retain(|run| seen.insert(run.1));
    runs.into_iter().take(RUNS).map(|(tokens, text)| RunText { text: text.to_owned(), tokens }).collect()
}

fn table(report: &SchemaReport) -> String {
    let estimate = &report.estimate;
    let percent = |x: f64| format!("{:.0} %", x * 100.0);
    let most =
        report.most_tokens.map_or_else(|| "without bound".to_owned(), |most| format!("at most {most}"));
    let least = report.least_tokens.map_or_else(String::new, |least| format!("at least {least}, "));
    let mut lines = vec![
        format!(
            "states         {} + {} deterministic, {} configurations, {} masks, {:.1} kB",
            report.states,
            report.deterministic_states,
            report.configurations,
            report.masks,
            report.bytes as f64 / 1000.0
        ),
        format!("compiled in    {:.2} ms", report.compile_milliseconds),
        format!("tokens         {least}{most}"),
        format!(
            "expected       {:.0} tokens ({:.0} to {:.0} in half of {} walks)",
            estimate.tokens.median, estimate.tokens.low, estimate.tokens.high, estimate.walks
        ),
        format!(
            "forced         {} of the tokens ({} to {})",
            percent(estimate.fraction.median),
            percent(estimate.fraction.low),
            percent(estimate.fraction.high)
        ),
    ];
    for run in &report.longest_runs {
        let mut text: String = run.text.chars().take(RUN_CHARS).collect();
        if text.len() < run.text.len() {
            text += "...";
        }
        lines.push(format!("forced run     {text:?} ({} tokens)", run.tokens));
    }
    for endless in &report.endless {
        lines.push(format!("without end    #{}: {}", endless.pointer, endless.remedy));
    }
    let rows =
        [("off", estimate.off), ("forced runs alone", estimate.forced), ("with copies", estimate.copies)];
    let row = |name: &str, cells: [&str; 3]| {
        format!("{name:<17}  {:>8}  {:>8}  {:>11}", cells[0], cells[1], cells[2])
    };
    lines.push("\nexpected on this machine, after the prompt".to_owned());
    lines.push(row("", ["forwards", "ms", "against off"]));
    for (name, expected) in rows {
        let (forwards, ms) = (format!("{:.1}", expected.forwards), format!("{:.2}", expected.milliseconds));
        lines.push(row(name, [&forwards, &ms, &format!("{:.2}", expected.speedup)]));
    }
    lines.extend(report.warnings.iter().map(|warning| format!("warning        {warning}")));
    lines.join("\n")
}
