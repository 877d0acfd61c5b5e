//! Several outputs of `ffwd generate`: the best of n samples, or the beams of a search.
//!
//! The texts go to standard output, best first; scores and figures to the file of `--stats`, as those of one
//! output do. Printing only the best was rejected: who wants one can take the first.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::generate::is_not_cut;
use super::output;
use crate::decode::{BeamOptions, Engine, Finish, Output, Ranked, Request, Scored, Stats};
use crate::error::Result;

/// How many outputs, and how they are found.
#[derive(Args)]
#[command(next_help_heading = "Several outputs")]
pub(super) struct SeveralArgs {
    /// Sample this many outputs, with the seed and those behind it, and print them, the most probable first;
    /// needs a temperature
    #[arg(long, value_name = "N", conflicts_with_all = ["stream", "beams"])]
    best_of: Option<usize>,
    /// Search for the most probable outputs with this many beams, and print them, best first
    #[arg(long, value_name = "N", conflicts_with = "stream")]
    beams: Option<usize>,
    /// Rank outputs by log-probability / tokens^X: 0 by probability, 1 by the mean of a token
    #[arg(long, value_name = "X", default_value_t = 0.0, requires = "beams", allow_negative_numbers = true)]
    length_penalty: f64,
}

impl SeveralArgs {
    /// The outputs, if several were asked for.
    pub(super) fn outputs(&self, engine: &Engine, request: &Request) -> Result<Option<Ranked>> {
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

/// An output in the figures.
#[derive(Serialize)]
struct Row<'a> {
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

/// All of them.
#[derive(Serialize)]
struct Report<'a> {
    forwards: usize,
    draft_forwards: usize,
    outputs: Vec<Row<'a>>,
}

/// Prints texts, costs and figures.
pub(super) fn print(
    ranked: &Ranked,
    constrained: bool,
    stats: Option<&Path>,
    shown: &dyn Fn(&Output) -> String,
) -> Result<ExitCode> {
    // Complete ones come first; if there is none, that is an error as it is with one output, and only the figures are written.
    let whole = ranked.best().filter(|_| constrained).map_or(Ok(()), |best| is_not_cut(&best.output));
    for scored in ranked.outputs.iter().filter(|_| whole.is_ok()) {
        output::line(&shown(&scored.output))?;
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
    let whole = whole.map(|()| ExitCode::SUCCESS);
    let Some(path) = stats else { return whole };
    let outputs = ranked.outputs.iter().map(|scored| Row {
        text: shown(&scored.output),
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
    whole
}
