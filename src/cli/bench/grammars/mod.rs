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

mod passes;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use super::super::help;
use super::about::About;
use super::corpus::{self, Sample};
use super::engines::EngineArgs;
use super::outputs::ReportArgs;
use super::percentiles::Percentiles;
use super::rounds::{RoundArgs, interleave, interrupts, keep_named, progress};
use crate::error::Result;
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
    #[command(flatten)]
    engines: EngineArgs,
    /// Measure the grammar NAME only (repeatable)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    #[command(flatten)]
    rounds: RoundArgs,
    #[command(flatten)]
    report: ReportArgs,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    args.report.check()?;
    let mut samples = corpus::read_all(&args.files, corpus::grammars, "grammar")?;
    keep_named(&mut samples, &args.only, |sample: &Sample| &sample.name, "grammar")?;
    let vocab = args.engines.vocabulary()?;
    let mut engines = args.engines.engines(&vocab)?;
    let stop = interrupts()?;
    let plan = args.rounds.plan(samples.len());
    let (mut results, mut faults, mut interrupted) = (Vec::new(), 0, false);
    let mut cold = vec![Vec::new(); engines.len()];
    for sample in &samples {
        let bar = progress(plan, engines.len());
        bar.set_message(sample.name.clone());
        let texts = sample.texts.iter().map(|(text, _)| Ok(TokenText::new(vocab.encode(text)?, &vocab)));
        let texts = texts.collect::<Result<Vec<_>>>()?;
        let mut rounds: Vec<GrammarRounds> = engines.iter().map(|_| GrammarRounds::default()).collect();
        let finished = interleave(engines.len(), plan, &stop, |turn| {
            bar.inc(1);
            let rounds = &mut rounds[turn.arm];
            if rounds.fault.is_some() {
                return Ok(());
            }
            match passes::measure(&mut *engines[turn.arm], &sample.language, &texts) {
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
    let cold = engines.iter().zip(&cold).map(|(engine, cold)| (engine.name(), Percentiles::of(cold)));
    let report = GrammarsReport {
        about: About::machine(),
        vocabulary: vocab.len(),
        interrupted,
        results,
        cold: cold.collect(),
    };
    let code = args.report.finish(&report)?;
    Ok(if interrupted || faults == 0 { code } else { ExitCode::FAILURE })
}
