//! `ffwd bench masks`: masks along the instances of many schemas, as MaskBench measures them.
//!
//! Every schema is compiled anew. At every token of every instance the mask is computed into a row,
//! the token is looked up in it, and accepted. At the end an end token must be legal. One thread;
//! each call is timed by itself. Engines take turns schema by schema.
//!
//! # Alternatives considered
//!
//! Measuring a mask only where the engine has a choice was rejected: it hides the cost of the
//! states that a server requests most.

mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use indicatif::ProgressBar;

use super::super::help;
use super::about::About;
use super::corpus::{self, Sample};
use super::engines::{EngineArgs, MaskEngine, walk};
use super::outputs::ReportArgs;
use super::rounds::interrupts;
use crate::error::Result;
use crate::vocab::TokenId;
use report::{EngineMasks, MasksReport, SchemaOutcome};

const EXAMPLES: [(&str, &str); 2] = [
    ("Measure one's own schemas", "ffwd bench masks schemas/*.json"),
    (
        "Measure a benchmark with the tokenizer of a model",
        "ffwd bench masks maskbench.jsonl --tokenizer tokenizer.json --html masks.html",
    ),
];

const FILES: [&str; 5] = [
    "A file is a JSON Schema, or JSON with a `schema` and `tests`, a list of `data` and `valid`, or",
    "an array of such objects, as in the JSON Schema Test Suite. A file that ends in .jsonl has one",
    "on each line. Schemas without tests are compiled, and have their first mask only. Keys of",
    "instances must be in the order of the schema. llguidance is measured as well if the program is",
    "built with the feature `llguidance` and --tokenizer names a tokenizer.json.",
];

/// Measure compiling and masks on files of JSON Schemas with instances
///
/// The table has percentiles of single calls. No model runs.
#[derive(clap::Args)]
#[command(
    after_help = help::examples(&EXAMPLES),
    after_long_help = help::sections(&[help::note("Files", &FILES), help::examples(&EXAMPLES)]),
)]
pub(super) struct Args {
    /// Read schemas and instances from FILE
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    engines: EngineArgs,
    /// Take every N-th schema
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// Name schemas that do not pass on standard error
    #[arg(long)]
    failures: bool,
    #[command(flatten)]
    report: ReportArgs,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    args.report.check()?;
    let samples = corpus::read_all(&args.files, corpus::schemas, "schema")?;
    let samples: Vec<Sample> = samples.into_iter().step_by(args.every as usize).collect();
    let vocab = args.engines.vocabulary()?;
    let engines = args.engines.engines(&vocab)?.into_iter();
    let mut engines: Vec<_> = engines.map(|engine| (EngineMasks::new(engine.name()), engine)).collect();
    let stop = interrupts()?;
    let bar = ProgressBar::new(samples.len() as u64);
    for sample in samples.iter().take_while(|_| !stop.is_cancelled()) {
        let instances = sample.texts.iter().map(|(text, valid)| Ok((vocab.encode(text)?, *valid)));
        let instances = instances.collect::<Result<Vec<_>>>()?;
        for (masks, engine) in &mut engines {
            let outcome = measure(&mut **engine, sample, &instances);
            if args.failures && !outcome.passes() {
                let reason = outcome.refused.as_deref().unwrap_or("an instance was judged wrongly");
                bar.suspend(|| eprintln!("{}: {}: {reason}", engine.name(), sample.name));
            }
            masks.add(outcome, instances.len());
        }
        bar.inc(1);
    }
    let interrupted = bar.position() < samples.len() as u64;
    bar.finish_and_clear();
    args.report.finish(&MasksReport {
        about: About::machine(),
        vocabulary: vocab.len(),
        interrupted,
        engines: engines.iter().map(|(masks, _)| masks.result()).collect(),
    })
}

/// Compiles the schema, then follows every instance.
fn measure(
    engine: &mut dyn MaskEngine,
    sample: &Sample,
    instances: &[(Vec<TokenId>, bool)],
) -> SchemaOutcome {
    let mut outcome = SchemaOutcome::default();
    let started = Instant::now();
    let grammar = engine.compile(&sample.language).and_then(|mut grammar| {
        outcome.compile = (!engine.is_lazy()).then(|| started.elapsed());
        grammar.first_mask().map(|()| grammar)
    });
    outcome.first_mask = started.elapsed();
    match grammar {
        Ok(grammar) => {
            instances.iter().for_each(|(tokens, valid)| outcome.add(walk(&*grammar, tokens), *valid));
        }
        Err(error) => outcome.refused = Some(error),
    }
    outcome
}
