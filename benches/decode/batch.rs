//! Batches against the same requests one after another, and the cost of constrained requests for
//! neighbours without a constraint.
//!
//! Both arms of a comparison run in turn in the same process, several times. The fastest run of
//! each counts, because other work on the machine only adds. Grammars are compiled before and not
//! timed.
//!
//! The last column compares tokens per second of processor time (Linux only): the gain of a batch
//! before it uses a second core. It holds on a busy machine, too.

use std::sync::Arc;
use std::time::Instant;

use ffwd::decode::{Handle, Scheduler, SchedulerOptions};
use ffwd::model::{LoadOptions, Precision};
use ffwd::sample::SamplingParams;
use ffwd::{CompiledGrammar, Constraint, Engine, Mode, Prompt, Request, Result, extract};

use super::TEXT;

/// Different constraints.
const KINDS: usize = 16;
const ROUNDS: usize = 5;
/// Texts with one schema.
const RECORDS: usize = 2000;
/// Output tokens of a neighbour.
const TOKENS: usize = 96;

pub(super) fn run() -> Result<()> {
    records()?;
    println!("{KINDS} different constraints, tokens a second, best of {ROUNDS}");
    println!(
        "{:<6} {:<28} {:>10} {:>10} {:>6} {:>8}",
        "", "requests", "in turn", "batch", "ratio", "per core"
    );
    for (name, precision) in [("Q8_0", Precision::Q8_0), ("F32", Precision::F32)] {
        let options = LoadOptions::with_precision(precision);
        let engine = Arc::new(Engine::builder().options(options).prefix_bytes(0).build()?);
        let kinds = (0..KINDS).map(|i| kind(&engine, i)).collect::<Result<Vec<_>>>()?;
        for (what, mode, long_prompt) in [
            ("off, short prompts", Mode::Off, false),
            ("exact, short prompts", Mode::Exact, false),
            ("off, extraction", Mode::Off, true),
            ("exact, extraction", Mode::Exact, true),
        ] {
            let request = |i: usize| {
                let (schema, grammar) = &kinds[i];
                let prompt = match long_prompt {
                    true => extract::embedded::prompt(schema, TEXT),
                    false => Prompt::text("Records:\n"),
                };
                Request::new(prompt).grammar(grammar.clone()).source(TEXT).mode(mode).max_tokens(TOKENS)
            };
            compare(name, what, &engine, &request)?;
        }
        neighbours(name, &engine, &kinds)?;
    }
    Ok(())
}

/// Records of one schema out of many texts, as `ffwd extract --batch 16` makes them.
fn records() -> Result<()> {
    let engine = Arc::new(Engine::embedded()?);
    let extractor = extract::Extractor::new(&engine, super::SCHEMA)?;
    let requests = || (0..RECORDS).map(|n| extractor.request(super::same_schema::text(n)));
    println!("{RECORDS} records of one schema, records a second");
    for round in 0..2 {
        let start = Instant::now();
        let scheduler = Scheduler::new(engine.clone(), SchedulerOptions::with_batch(KINDS))?;
        let mut handles = std::collections::VecDeque::new();
        let mut tokens = 0;
        for request in requests() {
            handles.push_back(scheduler.submit(request?)?);
            if handles.len() == 2 * KINDS
                && let Some(handle) = handles.pop_front()
            {
                tokens += handle.wait()?.tokens.len();
            }
        }
        for handle in handles {
            tokens += handle.wait()?.tokens.len();
        }
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "batch of {KINDS}, round {round}: {:.0} records, {:.0} tokens",
            RECORDS as f64 / seconds,
            tokens as f64 / seconds
        );
    }
    Ok(())
}

/// A batch that reads every prompt anew, as single requests do, so that only batching is compared.
fn options(batch: usize) -> SchedulerOptions {
    let mut options = SchedulerOptions::with_batch(batch);
    options.prefix_bytes = 0;
    options
}

/// A schema of its own kind, compiled: two to four members of different names and types.
fn kind(engine: &Engine, i: usize) -> Result<(String, CompiledGrammar)> {
    let names = ["vendor", "customer", "city", "total", "invoice_number", "item", "note", "currency"];
    let types = [
        r#"{"type":"string","maxLength":60}"#,
        r#"{"type":"array","items":{"type":"string","maxLength":20},"minItems":2,"maxItems":6}"#,
        r#"{"type":["number","null"]}"#,
        r#"{"type":"string","format":"date"}"#,
        r#"{"type":"array","items":{"type":"integer"},"minItems":3,"maxItems":9}"#,
    ];
    let members: Vec<String> = (0..2 + i % 3)
        .map(|k| format!("\"{}\":{}", names[(i + 3 * k) % names.len()], types[(i / 2 + k) % types.len()]))
        .collect();
    let required: Vec<String> =
        (0..2 + i % 3).map(|k| format!("\"{}\"", names[(i + 3 * k) % names.len()])).collect();
    let schema = format!(
        r#"{{"type":"object","properties":{{{}}},"required":[{}],"additionalProperties":false}}"#,
        members.join(","),
        required.join(",")
    );
    let grammar = engine.compiler().compile(&Constraint::json_schema(&schema)?)?;
    Ok((schema, grammar))
}

/// Three requests of each kind: as a batch of 16, and one after another.
fn compare(name: &str, what: &str, engine: &Arc<Engine>, request: &dyn Fn(usize) -> Request) -> Result<()> {
    let count = 3 * KINDS;
    let mut best = [[0f64; 2]; 2];
    let mut texts: [Vec<String>; 2] = Default::default();
    for _ in 0..ROUNDS {
        for batched in [false, true] {
            let scheduler = Scheduler::new(engine.clone(), options(KINDS))?;
            let (start, processor) = (Instant::now(), processor_seconds());
            let requests = (0..count).map(|i| request(i % KINDS));
            let outputs = if batched {
                let handles = requests.map(|r| scheduler.submit(r)).collect::<Result<Vec<_>>>()?;
                handles.into_iter().map(Handle::wait).collect::<Result<Vec<_>>>()?
            } else {
                requests.map(|r| engine.generate(&r)).collect::<Result<Vec<_>>>()?
            };
            let tokens: usize = outputs.iter().map(|o| o.tokens.len()).sum();
            let seconds = [start.elapsed().as_secs_f64(), processor_seconds() - processor];
            for (best, seconds) in best[usize::from(batched)].iter_mut().zip(seconds) {
                *best = best.max(tokens as f64 / seconds);
            }
            texts[usize::from(batched)] = outputs.into_iter().map(|o| o.text).collect();
        }
    }
    assert_eq!(texts[0], texts[1], "a batch gives the same texts");
    let [in_turn, batch] = best;
    println!(
        "{name:<6} {what:<28} {:>10.0} {:>10.0} {:>6.2} {:>8.2}",
        in_turn[0],
        batch[0],
        batch[0] / in_turn[0],
        batch[1] / in_turn[1]
    );
    Ok(())
}

/// Processor time of this process until now; not a number if the system does not report it.
fn processor_seconds() -> f64 {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return f64::NAN };
    // User and system time in hundredths, the 12th and 13th number after the name in brackets.
    let numbers = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    numbers.filter_map(|n| n.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Tokens a second of eight requests without a constraint: by themselves, with eight more of the
/// same kind, and with eight that have constraints.
fn neighbours(name: &str, engine: &Arc<Engine>, kinds: &[(String, CompiledGrammar)]) -> Result<()> {
    let endless = || SamplingParams {
        logit_bias: engine.vocabulary().eos().iter().map(|&t| (t, f32::NEG_INFINITY)).collect(),
        ..SamplingParams::default()
    };
    let plain = |mode| Request::new(Prompt::text(TEXT)).sampling(endless()).mode(mode).lookup(false);
    // Lists of records, long enough to outlast the neighbours.
    let lists = kinds
        .iter()
        .map(|(schema, _)| {
            let list = format!(r#"{{"type":"array","minItems":60,"items":{schema}}}"#);
            engine.compiler().compile(&Constraint::json_schema(&list)?)
        })
        .collect::<Result<Vec<_>>>()?;
    let other = |kind, mode, i: usize| match kind {
        1 => plain(mode),
        _ => Request::new(Prompt::text(TEXT)).grammar(lists[i].clone()).mode(mode),
    };
    for (what, mode) in [("off", Mode::Off), ("exact", Mode::Exact)] {
        let mut best = [0f64; 3];
        for _ in 0..ROUNDS {
            for (kind, best) in best.iter_mut().enumerate() {
                let scheduler = Scheduler::new(engine.clone(), options(16))?;
                let others = (0..if kind == 0 { 0 } else { 8 })
                    .map(|i| scheduler.submit(other(kind, mode, i).max_tokens(8 * TOKENS)))
                    .collect::<Result<Vec<_>>>()?;
                let start = Instant::now();
                let handles = (0..8)
                    .map(|_| scheduler.submit(plain(mode).max_tokens(TOKENS)))
                    .collect::<Result<Vec<_>>>()?;
                let outputs = handles.into_iter().map(Handle::wait).collect::<Result<Vec<_>>>()?;
                let seconds = start.elapsed().as_secs_f64();
                drop(others);
                let tokens: usize = outputs.iter().map(|o| o.tokens.len()).sum();
                *best = best.max(tokens as f64 / seconds);
            }
        }
        println!(
            "{name:<6} 8 unconstrained, {what}: alone {:.0}, with 8 like them {:.0}, with 8 constrained {:.0}: {:+.1} %",
            best[0],
            best[1],
            best[2],
            (best[2] / best[1] - 1.0) * 100.0
        );
    }
    Ok(())
}
