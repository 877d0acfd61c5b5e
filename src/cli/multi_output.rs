//! Several outputs of `ffwd generate`: the best of N samples, or the beams of a search.
//!
//! The texts go to standard output, best first. Scores and statistics go to the file of `--stats`.
//!
//! # Alternatives considered
//! Printing only the best output was rejected: the first line is the best one.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::generate::require_complete;
use super::output;
use crate::decode::{BeamOptions, Engine, Finish, Output, Ranked, Request, Scored, Stats};
use crate::error::Result;

/// Options that ask for several outputs.
#[derive(Args)]
#[command(next_help_heading = "Several outputs")]
pub(super) struct MultiOutputArgs {
    /// Sample N outputs and print them, most probable first; needs --temperature
    ///
    /// The first sample uses the seed, and each further one the next number.
    #[arg(long, value_name = "N", conflicts_with_all = ["stream", "beams"])]
    best_of: Option<usize>,
    /// Search for the most probable outputs with N beams and print them, best first
    #[arg(long, value_name = "N", conflicts_with = "stream")]
    beams: Option<usize>,
    /// Rank beams by log-probability / tokens^X: 0 by probability, 1 by the mean of a token
    #[arg(long, value_name = "X", default_value_t = 0.0, requires = "beams", allow_negative_numbers = true)]
    length_penalty: f64,
}

impl MultiOutputArgs {
    /// Generates the outputs, if the options ask for several.
    pub(super) fn generate(&self, engine: &Engine, request: &Request) -> Result<Option<Ranked>> {
        match (self.best_of, self.beams) {
            (Some(n), _) => engine.best_of(request, n).map(Some),
            (_, Some(width)) => {
                let options = BeamOptions::with_length_penalty(self.length_penalty);
                engine.beam_search(request, width, &options).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// Scores and statistics of one output.
#[derive(Serialize)]
struct OutputReport<'a> {
    text: String,
    score: f64,
    log_probability: f64,
    mean_log_probability: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    complete: bool,
    finish: &'a Finish,
    stats: &'a Stats,
}

/// Scores and statistics of all outputs.
#[derive(Serialize)]
struct Report<'a> {
    forwards: usize,
    draft_forwards: usize,
    outputs: Vec<OutputReport<'a>>,
}

/// Prints the outputs and writes their statistics. `text_of` returns the text to print.
pub(super) fn print(
    ranked: &Ranked,
    constrained: bool,
    stats: Option<&Path>,
    text_of: &dyn Fn(&Output) -> String,
) -> Result<ExitCode> {
    // Complete outputs come first. If there is none, that is an error as for a single output.
    let complete =
        ranked.best().filter(|_| constrained).map_or(Ok(()), |best| require_complete(&best.output));
    for scored in &ranked.outputs {
        output::print_line(&text_of(&scored.output))?;
    }
    let tokens: usize = ranked.outputs.iter().map(|s| s.output.stats.tokens).sum();
    eprintln!(
        "{} outputs with {tokens} tokens in {} forwards, {} of the draft model",
        ranked.outputs.len(),
        ranked.forwards,
        ranked.draft_forwards
    );
    for (i, scored) in ranked.outputs.iter().enumerate() {
        let Scored { output, score, .. } = scored;
        eprintln!("{}: score {score:.3}, ended by {}", i + 1, output.finish.name());
    }
    let complete = complete.map(|()| ExitCode::SUCCESS);
    let Some(path) = stats else { return complete };
    let outputs = ranked.outputs.iter().map(|scored| OutputReport {
        text: text_of(&scored.output),
        score: scored.score,
        log_probability: scored.log_probability,
        mean_log_probability: scored.mean(),
        seed: scored.seed,
        complete: scored.output.complete,
        finish: &scored.output.finish,
        stats: &scored.output.stats,
    });
    let outputs = outputs.collect();
    let (forwards, draft_forwards) = (ranked.forwards, ranked.draft_forwards);
    output::write_stats(path, &Report { forwards, draft_forwards, outputs })?;
    complete
}
