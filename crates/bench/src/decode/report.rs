//! The results of `ffwd bench decode`, with their tables and plots.

use std::fmt::Write;

use ffwd_runtime::decode::BySource;
use ffwd_runtime::speedup::{Estimate, Spread};
use serde::{Deserialize, Serialize};

use crate::arm::Arm;
use crate::report::{Axis, BenchReport, Figure, Point, Series};
use crate::table::{Grid, escaped, ms, short};

/// All results of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct DecodeResults {
    pub scenarios: Vec<ScenarioResult>,
    /// The table of batches.
    #[serde(default)]
    pub batches: Option<serde_json::Value>,
}

/// The results of one scenario.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ScenarioResult {
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
pub(crate) struct ArmResult {
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

    fn tokens_per_forward(&self) -> f64 {
        self.tokens as f64 / self.forwards.max(1) as f64
    }
}

/// The name of a column, and its cell.
type Column = (&'static str, fn(&ArmResult) -> String);

/// The columns of the table of a scenario.
const COLUMNS: [Column; 10] = [
    ("arm", ArmResult::name),
    ("ms", |arm| ms(arm.seconds.median)),
    // Half the distance of the quartiles.
    ("+-", |ArmResult { seconds: Spread { median, low, high, .. }, .. }| {
        format!("{:.1} %", 50.0 * (high - low) / median.max(f64::MIN_POSITIVE))
    }),
    ("against off", |arm| short(arm.speedup.median)),
    ("decoding alone", |arm| short(arm.decoding_speedup.median)),
    ("records/s", |arm| short(1.0 / arm.seconds.median.max(f64::MIN_POSITIVE))),
    ("tokens/s", |arm| short(arm.tokens as f64 / arm.seconds.median.max(f64::MIN_POSITIVE))),
    ("tokens a forward", |arm| short(arm.tokens_per_forward())),
    ("first token, ms", |arm| ms(arm.first_token_seconds.median)),
    ("text of off", |arm| arm.same_text.map_or("-", |same| if same { "yes" } else { "no" }).to_owned()),
];

impl ScenarioResult {
    fn table(&self) -> Grid {
        let tokens = self.arms.first().map_or(0, |off| off.tokens);
        let title = format!(
            "{}: {} ({} prompt tokens, {tokens} output tokens of off)",
            self.name, self.constraint, self.prompt_tokens
        );
        let mut table = Grid::new(title, &COLUMNS.map(|column| column.0));
        table.rows = self.arms.iter().map(|arm| COLUMNS.map(|(_, cell)| cell(arm)).to_vec()).collect();
        table
    }
}

/// The heading of a plot, the text below it, and the value of a mark.
type Plot = (&'static str, &'static str, &'static str, fn(&ArmResult) -> Spread);

const PLOTS: [Plot; 3] = [
    (
        "Speed against one forward per token",
        "Median of all rounds with its quartiles. 1 is the mode off. Texts without a constraint are in the tables \
         only, because they differ in length. Times include the prompt, which is read each time.",
        "times the speed of off",
        |arm| arm.speedup,
    ),
    (
        "Without the prompt",
        "The same after the time of reading the prompt is subtracted.",
        "times the speed of off, decoding alone",
        |arm| arm.decoding_speedup,
    ),
    (
        "Tokens a forward",
        "Output tokens by forwards of the model, that for the prompt included.",
        "tokens a forward",
        |arm| Spread::of(&[arm.tokens_per_forward()]),
    ),
];

impl DecodeResults {
    /// Adds tables, plots, texts and notes to a report.
    pub(super) fn show(&self, report: &mut BenchReport) {
        report.tables.extend(self.scenarios.iter().map(ScenarioResult::table));
        if self.scenarios.iter().any(|scenario| scenario.estimate.is_some()) {
            report.tables.push(self.estimates());
        }
        report.figures = PLOTS.iter().map(|plot| self.figure(plot)).collect();
        for ScenarioResult { name, about, arms, .. } in &self.scenarios {
            let (summary, about) = (escaped(name), escaped(about));
            let _ = writeln!(report.details, "<details><summary>texts of {summary}</summary><p>{about}</p>");
            for arm in arms {
                let _ =
                    writeln!(report.details, "<div>{}</div><pre>{}</pre>", arm.name(), escaped(&arm.text));
            }
            report.details += "</details>\n";
            for arm in arms.iter().filter(|arm| arm.arm.is_exact() && arm.same_text == Some(false)) {
                report.notes.push(format!(
                    "note: in {name:?} the text of {} differs from that of off; the model rounds rows differently in company",
                    arm.name()
                ));
            }
            for arm in arms.iter().filter(|arm| arm.arm == Arm::Off && arm.finish == "length") {
                report.notes.push(format!("note: {name:?} reached the limit of {} tokens", arm.tokens));
            }
        }
    }

    /// Returns a plot with a line for each scenario and a lane for each arm.
    fn figure(&self, (heading, note, label, value): &Plot) -> Figure {
        let shown = |arm: &Arm| !matches!(arm, Arm::Off | Arm::Unconstrained);
        let has = |scenario: &ScenarioResult, arm| scenario.arms.iter().any(|result| result.arm == arm);
        let arms = Arm::all().filter(shown).filter(|arm| self.scenarios.iter().any(|s| has(s, *arm)));
        let arms: Vec<Arm> = arms.collect();
        let lane = |at: usize| (at as f64 + 0.9) / (arms.len() as f64 + 0.8);
        let series = arms.iter().enumerate().map(|(at, arm)| {
            let results =
                self.scenarios.iter().enumerate().flat_map(|(line, s)| s.arms.iter().map(move |r| (line, r)));
            let of = results.filter(|(_, result)| result.arm == *arm);
            let points = of.map(|(line, result)| Point::across(value(result), line as f64 + lane(at)));
            Series::marks(arm.name(), arm.color(), points.collect())
        });
        let series: Vec<Series> = series.collect();
        let highs = series.iter().flat_map(|series| &series.points).filter_map(|point| point.high);
        Figure {
            heading: (*heading).to_owned(),
            note,
            label: (*label).to_owned(),
            x: Axis::linear(label, 0.0, highs.fold(1.0, f64::max) * 1.06),
            y: Axis::linear("", self.scenarios.len() as f64, 0.0),
            names: Some(self.scenarios.iter().map(|scenario| scenario.name.clone()).collect()),
            rule: Some(1.0),
            series,
        }
    }

    /// Returns what `ffwd explain` expects, next to what was measured.
    fn estimates(&self) -> Grid {
        let header =
            ["scenario", "tokens", "forced", "forwards, forced runs", "against off", "exact against off"];
        let mut table = Grid::new("expected by `ffwd explain` / measured, decoding alone", &header);
        for scenario in &self.scenarios {
            let (Some(estimate), Some(off)) = (&scenario.estimate, scenario.arms.first()) else { continue };
            let of = |arm: Arm| scenario.arms.iter().find(|result| result.arm == arm);
            let speedup = |arm| of(arm).map_or_else(|| "-".to_owned(), |r| short(r.decoding_speedup.median));
            let forwards = of(Arm::Forced).map_or_else(|| "-".to_owned(), |r| r.forwards.to_string());
            table.rows.push(vec![
                scenario.name.clone(),
                format!("{:.0} / {}", estimate.tokens.median, off.tokens),
                format!("{:.0} / {:.0} %", estimate.fraction.median * 100.0, scenario.fraction * 100.0),
                format!("{:.0} / {forwards}", estimate.forced.forwards),
                format!("{} / {}", short(estimate.forced.speedup), speedup(Arm::Forced)),
                format!("{} / {}", short(estimate.copies.speedup), speedup(Arm::Exact)),
            ]);
        }
        table
    }
}
