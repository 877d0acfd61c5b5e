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

mod corpus;
mod engines;
#[cfg(feature = "llguidance")]
pub(super) mod llguidance;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use indicatif::ProgressBar;

use super::super::{help, output};
use super::about::About;
use super::outputs::ReportArgs;
use super::rounds::{INTERRUPTED, interrupts};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::vocab::Vocabulary;
use engines::{MaskRunner, Own, Walked};
use report::{EngineMasks, MasksReport};

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
    /// Read the tokenizer from a tokenizer.json, a GGUF file or the folder of a model [default:
    /// that of the embedded models]
    #[arg(long, value_name = "PATH")]
    tokenizer: Option<PathBuf>,
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
    let mut samples = Vec::new();
    for file in &args.files {
        corpus::read(file, &mut samples)?;
    }
    let samples: Vec<_> = samples.into_iter().step_by(args.every as usize).collect();
    if samples.is_empty() {
        let file = args.files.first().cloned().unwrap_or_default();
        return Err(Error::new(ErrorKind::InvalidJson, "there is no schema").at(Place::File(file)));
    }
    let vocab = super::super::inspect::vocabulary_or_embedded(args.tokenizer.as_deref())?;
    let mut engines: Vec<(Box<dyn MaskRunner>, EngineMasks)> = Vec::new();
    for engine in runners(args, &vocab)? {
        let masks = EngineMasks::new(engine.name());
        engines.push((engine, masks));
    }
    let stop = interrupts()?;
    let bar = ProgressBar::new(samples.len() as u64);
    let mut interrupted = false;
    for sample in &samples {
        if stop.is_cancelled() {
            interrupted = true;
            break;
        }
        let instances = sample
            .instances
            .iter()
            .map(|(text, valid)| vocab.encode(text).map(|tokens| Walked { tokens, valid: *valid }));
        let instances = instances.collect::<Result<Vec<_>>>()?;
        for (engine, masks) in &mut engines {
            let outcome = engine.run(sample, &instances);
            if args.failures && !outcome.passes() {
                let reason = outcome.refused.as_deref().unwrap_or("an instance was judged wrongly");
                bar.suspend(|| eprintln!("{}: {}: {reason}", engine.name(), sample.name));
            }
            masks.add(outcome, instances.len());
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let results = engines.iter().map(|(_, masks)| masks.result()).collect();
    let report =
        MasksReport { about: About::machine(), vocabulary: vocab.len(), interrupted, engines: results };
    output::print_line(&report.text())?;
    args.report.write(&report, || report.markdown(), || report.html())?;
    Ok(if interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

#[cfg(not(feature = "llguidance"))]
fn runners(_: &Args, vocab: &Vocabulary) -> Result<Vec<Box<dyn MaskRunner>>> {
    Ok(vec![Box::new(Own::new(vocab)?)])
}

#[cfg(feature = "llguidance")]
fn runners(args: &Args, vocab: &Vocabulary) -> Result<Vec<Box<dyn MaskRunner>>> {
    let mut runners: Vec<Box<dyn MaskRunner>> = vec![Box::new(Own::new(vocab)?)];
    match args.tokenizer.as_ref().filter(|file| file.extension().is_some_and(|e| e == "json")) {
        Some(file) => runners.push(Box::new(llguidance::LlGuidanceRunner::new(file, vocab)?)),
        None => eprintln!("note: llguidance needs --tokenizer with a tokenizer.json"),
    }
    Ok(runners)
}
