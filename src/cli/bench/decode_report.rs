//! The results of `ffwd bench decode`, and their tables.

use serde::{Deserialize, Serialize};

use super::super::explain::Estimate;
use super::about::About;
use super::arms::Arm;
use crate::cli::spread::Spread;
use crate::cli::table::{Grid, ms, short};
use crate::decode::BySource;

/// All results of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct DecodeReport {
    pub about: About,
    /// True if Ctrl-C ended the run.
    pub interrupted: bool,
    pub scenarios: Vec<ScenarioResult>,
    /// The comparison with an earlier run.
    #[serde(skip)]
    pub comparison: Option<String>,
}

/// The results of one scenario.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ScenarioResult {
    pub name: String,
    pub about: String,
    /// The key that names the constraint; `none` without one.
    pub constraint: String,
    pub prompt_tokens: usize,
    /// Median seconds of reading the prompt.
    pub prompt_seconds: f64,
    pub max_tokens: usize,
    /// Forced tokens by all tokens of `off`.
    pub fraction: f64,
    /// The estimate of `ffwd explain`, for JSON Schemas.
    pub estimate: Option<Estimate>,
    /// The first one is `off`, on the first number of threads.
    pub arms: Vec<ArmResult>,
}

/// The results of one arm.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ArmResult {
    pub arm: Arm,
    /// The number of threads, if the run has several.
    pub threads: Option<usize>,
    /// True if the text is that of `off`; `None` without the constraint.
    pub same_text: Option<bool>,
    pub text: String,
    pub finish: String,
    pub tokens: usize,
    pub forwards: usize,
    pub draft_forwards: usize,
    pub drafted: BySource,
    pub accepted: BySource,
    /// Seconds of the engine's very first output.
    pub first_output_seconds: f64,
    /// Seconds of an output, the prompt included.
    pub seconds: Spread,
    pub first_token_seconds: Spread,
    /// Seconds of `off` by those of this arm, in the same round.
    pub speedup: Spread,
    /// The same without reading the prompt.
    pub decoding_speedup: Spread,
    /// Seconds of each round.
    pub samples: Vec<f64>,
}

impl ArmResult {
    /// Returns the name of the arm, with its number of threads.
    pub(super) fn name(&self) -> String {
        let arm = self.arm.name();
        self.threads.map_or_else(
            || arm.to_owned(),
            |threads| match threads {
                1 => format!("{arm}, 1 thread"),
                _ => format!("{arm}, {threads} threads"),
            },
        )
    }

    pub(super) fn tokens_per_forward(&self) -> f64 {
        self.tokens as f64 / self.forwards.max(1) as f64
    }

    /// Returns half the distance of the quartiles of the seconds, in per cent of their median.
    fn spread(&self) -> String {
        let Spread { median, low, high, .. } = self.seconds;
        format!("{:.1} %", 50.0 * (high - low) / median.max(f64::MIN_POSITIVE))
    }

    fn same(&self) -> &'static str {
        match self.same_text {
            None => "-",
            Some(true) => "yes",
            Some(false) => "no",
        }
    }
}

const HEADER: [&str; 10] = [
    "arm",
    "ms",
    "+-",
    "against off",
    "decoding alone",
    "records/s",
    "tokens/s",
    "tokens a forward",
    "first token, ms",
    "text of off",
];

impl ScenarioResult {
    pub(super) fn grid(&self) -> Grid {
        let tokens = self.arms.first().map_or(0, |off| off.tokens);
        let title = format!(
            "{}: {} ({} prompt tokens, {tokens} output tokens of off)",
            self.name, self.constraint, self.prompt_tokens
        );
        let mut grid = Grid::new(title, &HEADER);
        for arm in &self.arms {
            let seconds = arm.seconds.median.max(f64::MIN_POSITIVE);
            grid.rows.push(vec![
                arm.name(),
                ms(arm.seconds.median),
                arm.spread(),
                short(arm.speedup.median),
                short(arm.decoding_speedup.median),
                short(1.0 / seconds),
                short(arm.tokens as f64 / seconds),
                short(arm.tokens_per_forward()),
                ms(arm.first_token_seconds.median),
                arm.same().to_owned(),
            ]);
        }
        grid
    }
}

impl DecodeReport {
    /// Returns what `ffwd explain` expects, next to what was measured.
    pub(super) fn estimates(&self) -> Grid {
        let header =
            ["scenario", "tokens", "forced", "forwards, forced runs", "against off", "exact against off"];
        let mut grid = Grid::new("expected by `ffwd explain` / measured, decoding alone", &header);
        for scenario in &self.scenarios {
            let (Some(estimate), Some(off)) = (&scenario.estimate, scenario.arms.first()) else { continue };
            let of = |arm: Arm| scenario.arms.iter().find(|result| result.arm == arm);
            let speedup = |arm| of(arm).map_or_else(|| "-".to_owned(), |r| short(r.decoding_speedup.median));
            let forwards = of(Arm::Forced).map_or_else(|| "-".to_owned(), |r| r.forwards.to_string());
            grid.rows.push(vec![
                scenario.name.clone(),
                format!("{:.0} / {}", estimate.tokens.median, off.tokens),
                format!("{:.0} / {:.0} %", estimate.fraction.median * 100.0, scenario.fraction * 100.0),
                format!("{:.0} / {forwards}", estimate.forced.forwards),
                format!("{} / {}", short(estimate.forced.speedup), speedup(Arm::Forced)),
                format!("{} / {}", short(estimate.copies.speedup), speedup(Arm::Exact)),
            ]);
        }
        grid
    }
}
