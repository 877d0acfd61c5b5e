//! Gains and costs of drafting on the evaluation texts: `exact` with several mixes of sources
//! against `off`, also where there is nothing to gain.
//!
//! All arms run in turn, document by document, with another arm first each time. The fastest time
//! of each document in several rounds counts, because other work on the machine only adds.
//! Compiling is not timed.

use std::path::Path;
use std::time::Instant;

use ffwd::{CompiledGrammar, Constraint, Engine, Mode, Prompt, Request, Result, extract};
use ffwd_testkit::env;
use ffwd_testkit::random::Random;
use serde_json::Value;

/// A document with its compiled constraint.
struct Task {
    schema: String,
    text: String,
    grammar: CompiledGrammar,
}

/// A name, the request about a document, and the change of the request for the arm.
type Arm = (&'static str, fn(&Task) -> Result<Request>, fn(Request) -> Request);

/// Fastest milliseconds of each document, and counts of all.
#[derive(Default, Clone)]
struct Sum {
    ms: Vec<f64>,
    prompt: Vec<f64>,
    target: Vec<f64>,
    draft: Vec<f64>,
    /// Masks, choices and bookkeeping.
    rest: Vec<f64>,
    tokens: usize,
    forwards: usize,
    drafted: usize,
    accepted: usize,
    draft_forwards: usize,
}

fn record(task: &Task) -> Result<Request> {
    Ok(extract::embedded::request(&task.schema, &task.text)?.grammar(task.grammar.clone()))
}

/// Free text: nothing is forced, nothing masked.
fn free(task: &Task) -> Result<Request> {
    Ok(Request::new(extract::embedded::prompt(&task.schema, &task.text)).source(&task.text).max_tokens(48))
}

/// Letters only: a constraint that forces nothing.
fn letters(task: &Task) -> Result<Request> {
    Ok(Request::new(extract::embedded::prompt(&task.schema, &task.text))
        .constraint(Constraint::regex("[A-Za-z ]{1,200}")?)
        .source(&task.text)
        .max_tokens(48))
}

/// One of two words: hardly anything to save.
fn choice(task: &Task) -> Result<Request> {
    Ok(Request::new(Prompt::text(&task.text)).constraint(Constraint::choice(["invoice", "letter"])?))
}

/// A source of drafts that is nearly always wrong: legal or not, tokens at random.
fn hostile(request: Request) -> Request {
    let mut random = Random::new(1);
    request.draft_override(Box::new(move |_| (0..8).map(|_| random.below(4096) as u32).collect()))
}

/// Values that are nowhere in the text, after every label.
fn misleading(request: Request) -> Request {
    let labels = ["name", "date", "total", "amount", "city", "number", "id", "status", "title", "price"];
    let source: String = labels.iter().map(|l| format!("{l}: Quxly Vromb {l} 77\n")).collect();
    request.source(source)
}

pub(super) fn run() -> Result<()> {
    let (rounds, step) = (env::rounds(5), env::step(30));
    let engine = Engine::embedded()?.with_prefix_bytes(0);
    costs(&engine);
    let tasks = tasks(&engine, step)?;
    let plain: fn(Request) -> Request = |r| r;
    let off: fn(Request) -> Request = |r| r.mode(Mode::Off);
    let records: [Arm; 8] = [
        ("off", record, off),
        ("exact", record, plain),
        ("exact, ungated", record, |r| r.without_gate()),
        ("forced runs only", record, |r| r.lookup(false).draft_model(false)),
        ("forced runs, lookup", record, |r| r.draft_model(false)),
        ("forced runs, draft model", record, |r| r.lookup(false)),
        ("misleading source", record, |r| misleading(r).draft_model(false)),
        ("hostile drafts", record, hostile),
    ];
    compare("records", &tasks, &engine, rounds, &records)?;
    compare("free text", &tasks, &engine, rounds, &[("off", free, off), ("exact", free, plain)])?;
    let arms: [Arm; 3] =
        [("off", letters, off), ("exact", letters, plain), ("hostile drafts", letters, hostile)];
    compare("letters", &tasks, &engine, rounds, &arms)?;
    compare("one of two words", &tasks, &engine, rounds, &[("off", choice, off), ("exact", choice, plain)])
}

fn costs(engine: &Engine) {
    println!("target, ms by tokens: {:.3?}", engine.target().cost_table());
    println!("draft model: {:.3?}", engine.draft().map(ffwd::model::Model::cost_table));
}

/// Records only, with another engine.
pub(super) fn records(engine: &Engine, rounds: usize, step: usize) -> Result<()> {
    costs(engine);
    let arms: [Arm; 4] = [
        ("off", record, |r| r.mode(Mode::Off)),
        ("exact", record, |r| r),
        ("exact, ungated", record, Request::without_gate),
        ("forced runs only", record, |r| r.lookup(false).draft_model(false)),
    ];
    compare("records", &tasks(engine, step)?, engine, rounds, &arms)
}

fn tasks(engine: &Engine, step: usize) -> Result<Vec<Task>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/eval");
    let mut tasks = Vec::new();
    for name in ["synthetic_seen", "synthetic_heldout", "handwritten_dev"] {
        let lines = std::fs::read_to_string(root.join(name).with_extension("jsonl")).unwrap_or_default();
        for line in lines.lines().step_by(step) {
            let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
            let (schema, text) = (entry["schema"].to_string(), entry["text"].as_str().unwrap_or_default());
            let Ok(constraint) = Constraint::json_schema(&schema) else { continue };
            let grammar = engine.compiler().compile(&constraint)?;
            tasks.push(Task { schema, text: text.into(), grammar });
        }
    }
    Ok(tasks)
}

fn compare(what: &str, tasks: &[Task], engine: &Engine, rounds: usize, arms: &[Arm]) -> Result<()> {
    let mut sums = vec![Sum::default(); arms.len()];
    for round in 0..rounds {
        for (at, task) in tasks.iter().enumerate() {
            let mut text = None;
            // Another arm first each time: after a similar arm the caches have the right contents.
            for i in 0..arms.len() {
                let i = (i + round + at) % arms.len();
                let ((name, ask, change), sum) = (&arms[i], &mut sums[i]);
                let request = change(ask(task)?);
                let start = Instant::now();
                let output = engine.generate(&request)?;
                let ms = start.elapsed().as_secs_f64() * 1e3;
                let text = text.get_or_insert_with(|| output.text.clone());
                assert_eq!(text, &output.text, "{name}");
                let spent = output.stats.spent.unwrap_or_default();
                let rest = output.stats.seconds - spent.prompt - spent.target - spent.draft_model;
                let times = [ms, spent.prompt * 1e3, spent.target * 1e3, spent.draft_model * 1e3, rest * 1e3];
                let all = [&mut sum.ms, &mut sum.prompt, &mut sum.target, &mut sum.draft, &mut sum.rest];
                for (best, ms) in all.into_iter().zip(times) {
                    best.resize(tasks.len(), f64::INFINITY);
                    best[at] = best[at].min(ms);
                }
                if round + 1 == rounds {
                    sum.tokens += output.stats.tokens;
                    sum.forwards += output.stats.forwards;
                    sum.drafted += output.stats.drafted;
                    sum.accepted += output.stats.accepted;
                    sum.draft_forwards += output.stats.draft_forwards;
                }
            }
        }
    }
    println!("\n{what}: {} documents, ms a document, best of {rounds}", tasks.len());
    println!(
        "{:<26} {:>6} {:>8} {:>6} {:>9} {:>8} {:>7} {:>8} {:>8} {:>7} {:>7} {:>6} {:>7} {:>7}",
        "arm",
        "tokens",
        "forwards",
        "each",
        "drafted",
        "accepted",
        "calls",
        "total",
        "prompt",
        "target",
        "draft",
        "rest",
        "ratio",
        "decode"
    );
    let total = |v: &[f64]| v.iter().sum::<f64>() / tasks.len() as f64;
    let base = (total(&sums[0].ms), total(&sums[0].ms) - total(&sums[0].prompt));
    for ((name, ..), s) in arms.iter().zip(&sums) {
        let (all, prompt) = (total(&s.ms), total(&s.prompt));
        println!(
            "{name:<26} {:>6} {:>8} {:>6.2} {:>9} {:>8} {:>7} {all:>8.2} {prompt:>8.2} {:>7.2} {:>7.2} {:>6.2} {:>6.2}x {:>6.2}x",
            s.tokens,
            s.forwards,
            s.tokens as f64 / s.forwards.max(1) as f64,
            s.drafted,
            s.accepted,
            s.draft_forwards,
            total(&s.target),
            total(&s.draft),
            total(&s.rest),
            base.0 / all,
            base.1 / (all - prompt),
        );
    }
    Ok(())
}
