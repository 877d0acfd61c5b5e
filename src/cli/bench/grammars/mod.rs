//! `ffwd bench grammars`: masks along texts of grammars, with a new grammar and with a known one.
//!
//! One thread; each mask is timed by itself. Engines take turns, and rounds repeat.
//!
//! # Alternatives considered
//!
//! - A part of `ffwd bench masks` was rejected: there every schema is new, and a known grammar with
//!   a new text, which servers have most often, is not measured.
//! - Comparing the masks of the engines was rejected: engines with a lexer allow other tokens. Each
//!   token of a text must be in the masks of both.

mod corpus;
mod engines;
#[cfg(feature = "llguidance")]
mod llguidance;
mod passes;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use super::super::{help, output};
use super::about::About;
use super::outputs::ReportArgs;
use super::percentiles::Percentiles;
use super::rounds::{INTERRUPTED, RoundArgs, interleave, interrupts, progress};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::vocab::Vocabulary;
use corpus::GrammarSample;
use engines::{GrammarEngine, OwnGrammars};
use passes::TokenText;
use report::{GrammarRounds, GrammarsReport};

const EXAMPLES: [(&str, &str); 2] = [
    ("Measure one's own grammars", "ffwd bench grammars grammars.jsonl --quick"),
    (
        "Measure with the tokenizer of a model",
        "ffwd bench grammars benches/grammars/corpus.jsonl --tokenizer tokenizer.json --html grammars.html",
    ),
];

const FILES: [&str; 6] = [
    "A file has a grammar on each line: {\"id\": \"sql\", \"grammar\": \"sql.lark\", \"texts\": [\"SELECT",
    "1\"]}. `grammar` is a file in the same folder, in GBNF or Lark's notation, as its name ends. For a",
    "grammar in GBNF, `lark` may name one of the same language, for engines that read no GBNF.",
    "Every text must be of the language.",
    "llguidance is measured as well if the program is built with the feature `llguidance` and",
    "--tokenizer names a tokenizer.json.",
];

/// Measure compiling and masks on grammars with texts
///
/// Each text is followed with a grammar that has just been compiled, then once more, and after
/// another text of the same grammar. No model runs.
#[derive(clap::Args)]
#[command(
    after_help = help::examples(&EXAMPLES),
    after_long_help = help::sections(&[help::note("Files", &FILES), help::examples(&EXAMPLES)]),
)]
pub(super) struct Args {
    /// Read grammars and texts from FILE
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Read the tokenizer from a tokenizer.json, a GGUF file or the folder of a model [default:
    /// that of the embedded models]
    #[arg(long, value_name = "PATH")]
    tokenizer: Option<PathBuf>,
    /// Measure the grammar NAME only (repeatable)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    #[command(flatten)]
    rounds: RoundArgs,
    #[command(flatten)]
    report: ReportArgs,
}

impl Args {
    fn samples(&self) -> Result<Vec<GrammarSample>> {
        let mut samples = Vec::new();
        for file in &self.files {
            corpus::read(file, &mut samples)?;
        }
        if let Some(name) = self.only.iter().find(|name| samples.iter().all(|s| s.name != **name)) {
            let names: Vec<&str> = samples.iter().map(|s| s.name.as_str()).collect();
            return Err(Error::new(ErrorKind::InvalidOption, format!("no grammar has the name {name:?}"))
                .hint(format!("the names are {}", names.join(", "))));
        }
        samples.retain(|s| self.only.is_empty() || self.only.contains(&s.name));
        if samples.is_empty() {
            let file = self.files.first().cloned().unwrap_or_default();
            return Err(Error::new(ErrorKind::InvalidJson, "there is no grammar").at(Place::File(file)));
        }
        Ok(samples)
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    args.report.check()?;
    let samples = args.samples()?;
    let vocab = super::super::inspect::vocabulary_or_embedded(args.tokenizer.as_deref())?;
    let engines = engines(args, &vocab)?;
    let stop = interrupts()?;
    let plan = args.rounds.plan(samples.len());
    let (mut results, mut faults, mut interrupted) = (Vec::new(), 0, false);
    let mut cold = vec![Vec::new(); engines.len()];
    for sample in &samples {
        let bar = progress(plan, engines.len());
        bar.set_message(sample.name.clone());
        let texts = sample.texts.iter().map(|text| Ok(TokenText::new(vocab.encode(text)?, &vocab)));
        let texts = texts.collect::<Result<Vec<_>>>()?;
        let mut rounds: Vec<GrammarRounds> = engines.iter().map(|_| GrammarRounds::default()).collect();
        let finished = interleave(engines.len(), plan, &stop, |turn| {
            bar.inc(1);
            let rounds = &mut rounds[turn.arm];
            if rounds.fault.is_some() {
                return Ok(());
            }
            match passes::measure(&*engines[turn.arm], sample, &texts) {
                Err(fault) => rounds.fault = Some(fault),
                Ok(_) if turn.round.is_none() => {}
                Ok(rotations) => rounds.add(rotations),
            }
            Ok(())
        })?;
        bar.finish_and_clear();
        for ((engine, rounds), cold) in engines.iter().zip(&rounds).zip(&mut cold) {
            if let Some(fault) = &rounds.fault {
                eprintln!("error: {}: {}: {fault}", engine.name(), sample.name);
                faults += 1;
            }
            cold.extend(rounds.cold_masks());
            results.push(rounds.result(&sample.name, engine.name()));
        }
        interrupted = !finished;
        if interrupted {
            break;
        }
    }
    let report = GrammarsReport { about: About::machine(), vocabulary: vocab.len(), interrupted, results };
    output::print_line(&report.text())?;
    let cold: Vec<_> =
        engines.iter().zip(&cold).map(|(engine, cold)| (engine.name(), Percentiles::of(cold))).collect();
    args.report.write(&report, || report.markdown(), || report.html(&cold))?;
    Ok(match (interrupted, faults) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::FAILURE,
    })
}

#[cfg(not(feature = "llguidance"))]
fn engines(_: &Args, vocab: &Vocabulary) -> Result<Vec<Box<dyn GrammarEngine>>> {
    Ok(vec![Box::new(OwnGrammars::new(vocab))])
}

#[cfg(feature = "llguidance")]
fn engines(args: &Args, vocab: &Vocabulary) -> Result<Vec<Box<dyn GrammarEngine>>> {
    let mut engines: Vec<Box<dyn GrammarEngine>> = vec![Box::new(OwnGrammars::new(vocab))];
    match args.tokenizer.as_ref().filter(|file| file.extension().is_some_and(|e| e == "json")) {
        Some(file) => engines.push(Box::new(llguidance::LlGuidanceGrammars::new(file, vocab)?)),
        None => eprintln!("note: llguidance needs --tokenizer with a tokenizer.json"),
    }
    Ok(engines)
}
