//! The results of `ffwd bench fraction`, with their tables and the curve.

use ffwd_runtime::speedup::{ForwardCosts, Spread};
use serde::Serialize;

use super::layout::Layout;
use crate::arm::Arm;
use crate::environment::Environment;
use crate::report::{Axis, BenchReport, Figure, Point, Series};
use crate::table::{Grid, escaped, short};

/// Colors of the ceilings.
const FREE_ROWS: &str = "#9aa3b2";
const MEASURED_ROWS: &str = "#0a8f63";
/// Highest speedup on the axis, but for measured points.
const MOST: f64 = 20.0;

/// All results of a run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct FractionResults {
    /// Tokens of each output.
    pub tokens: usize,
    /// Tokens of a forced run.
    pub run: usize,
    pub max_draft: usize,
    pub costs: ForwardCosts,
    pub points: Vec<FractionPoint>,
    /// The extraction with a schema of the user.
    pub schema: Option<SchemaPoint>,
}

/// The results of one fraction.
#[derive(Debug, Clone, Serialize)]
pub(super) struct FractionPoint {
    pub wanted: f64,
    /// Forced tokens by output tokens of `off`, as measured.
    pub fraction: f64,
    pub runs: usize,
    pub longest_run: usize,
    pub ceilings: Ceilings,
    pub arms: Vec<FractionArm>,
}

/// The highest speedups that drafts of forced runs can have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Ceilings {
    /// If a row of a forward costs nothing: tokens by free tokens.
    pub free_rows: f64,
    /// With the measured forwards, cut in the best way.
    pub measured_rows: f64,
}

impl Ceilings {
    /// Returns the ceilings after the first token, which comes with the prompt.
    pub(super) fn of(layout: &Layout, costs: &ForwardCosts) -> Self {
        let forced: usize = layout.runs.iter().sum();
        let (tokens, free) = (layout.tokens - 1, layout.tokens - 1 - forced);
        // Each run is verified together with the free token after it.
        let runs: f64 = layout.runs.iter().map(|run| costs.least(run + 1)).sum();
        let single = (free - layout.runs.len()) as f64 * costs.ms(1);
        let plain = tokens as f64 * costs.ms(1);
        Ceilings {
            free_rows: tokens as f64 / free as f64,
            measured_rows: plain / (runs + single).max(f64::MIN_POSITIVE),
        }
    }
}

/// The results of one arm.
#[derive(Debug, Clone, Serialize)]
pub(super) struct FractionArm {
    pub arm: Arm,
    /// Seconds after the prompt.
    pub seconds: Spread,
    /// Seconds of `off` by those of this arm, in the same round.
    pub speedup: Spread,
    pub tokens: usize,
    pub forwards: usize,
    pub same_text: bool,
}

/// The results of the extraction with a schema of the user.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SchemaPoint {
    pub fraction: f64,
    pub tokens: usize,
    pub text: String,
    pub arms: Vec<FractionArm>,
}

impl FractionResults {
    pub(super) fn report(&self, environment: Environment) -> BenchReport {
        let tables = vec![self.speedups(), self.costs_table()];
        let mut report = BenchReport::new("Speedup by the deterministic fraction", environment, self, tables);
        report.figures = vec![self.curve()];
        report.controls = self.controls();
        report.script = include_str!("page.js");
        if let Some(schema) = &self.schema {
            report.details = format!(
                "<p>Triangles mark your schema: {:.1} % of its {} tokens are forced.</p>\n<details><summary>its \
                 output</summary><pre>{}</pre></details>\n",
                schema.fraction * 100.0,
                schema.tokens,
                escaped(&schema.text)
            );
        }
        report
    }

    fn curve(&self) -> Figure {
        let mut series = Vec::new();
        for arm in self.arms() {
            let name = match arm {
                Arm::Exact => "exact (forced runs, copies, drafts)",
                Arm::Forced => "exact, forced runs alone",
                arm => arm.name(),
            };
            let of = |arms: &[FractionArm]| arms.iter().find(|a| a.arm == arm).map(|a| a.speedup);
            let points = self.points.iter().filter_map(|p| Some(Point::upright(p.fraction, of(&p.arms)?)));
            series.push(Series { line: true, ..Series::marks(name, arm.color(), points.collect()) });
            if let Some((schema, speedup)) = self.schema.as_ref().and_then(|s| Some((s, of(&s.arms)?))) {
                let name = format!("the schema of --schema, {}", arm.name());
                let points = vec![Point::upright(schema.fraction, speedup)];
                series.push(Series { shape: Some("triangle"), ..Series::marks(&name, arm.color(), points) });
            }
        }
        let measured = self.points.iter().map(|p| (p.fraction, p.ceilings.measured_rows));
        let free = (0..=96).map(|i| f64::from(i) / 100.0).map(|f| (f, 1.0 / (1.0 - f)));
        for (dash, line) in [
            ("9 4", Series::line("ceiling of forced runs, measured forwards", MEASURED_ROWS, measured)),
            ("3 4", Series::line("ceiling 1/(1-f), rows cost nothing", FREE_ROWS, free)),
        ] {
            series.push(Series { dash: Some(dash), ..line });
        }
        let marks = || series.iter().flat_map(|series| &series.points);
        let ceilings =
            self.points.iter().map(|p| p.ceilings.measured_rows.max(p.ceilings.free_rows.min(MOST)));
        let high = marks().filter_map(|mark| mark.high).chain(ceilings).fold(4.0, f64::max) * 1.3;
        let low = marks().filter_map(|mark| mark.low).fold(0.8, f64::min).max(0.05);
        let y = Axis { log: true, ..Axis::linear("times the speed of off", low, high.min(64.0)) };
        Figure {
            heading: "The curve".to_owned(),
            note: "A constraint forces some tokens: nothing else may come next. Their share of the output is the \
                   deterministic fraction. Drafts of forced runs save the forwards of these tokens. What remains is \
                   the cost of their rows in the forwards that verify them. Points are measured, with their quartiles.",
            label: "Speedup by the deterministic fraction".to_owned(),
            x: Axis::linear("deterministic fraction f: forced tokens by output tokens", 0.0, 1.0),
            y,
            series,
            ..Figure::default()
        }
    }

    fn controls(&self) -> String {
        let fraction = self.schema.as_ref().map_or(0.6, |schema| schema.fraction);
        let values = [
            ("{draft}", self.max_draft.to_string()),
            ("{fraction}", format!("{fraction:.2}")),
            ("{run}", self.run.to_string()),
            ("{row}", format!("{:.3}", self.costs.row())),
        ];
        let html = include_str!("controls.html").to_owned();
        values.into_iter().fold(html, |html, (place, value)| html.replace(place, &value))
    }

    /// Returns the arms other than `off`.
    fn arms(&self) -> Vec<Arm> {
        let arms = self.points.first().map_or(&[][..], |point| &point.arms);
        arms.iter().map(|arm| arm.arm).filter(|arm| *arm != Arm::Off).collect()
    }

    fn speedups(&self) -> Grid {
        let arms = self.arms();
        let mut header = vec!["fraction", "longest run"];
        header.extend(arms.iter().map(|arm| arm.name()));
        header.extend(["ceiling", "1/(1-f)", "same text"]);
        let title = format!("speedup after the prompt, {} tokens, runs of {}", self.tokens, self.run);
        let mut table = Grid::new(title, &header);
        let with_spread = |arm: &FractionArm| {
            let Spread { median, low, high, .. } = arm.speedup;
            format!("{} ({}-{})", short(median), short(low), short(high))
        };
        let mut add = |fraction: String, longest: String, arms: &[FractionArm], ceilings: [String; 2]| {
            let speedups = arms.iter().filter(|arm| arm.arm != Arm::Off).map(with_spread);
            let same = if arms.iter().all(|arm| arm.same_text) { "yes" } else { "no" };
            let row = [fraction, longest].into_iter().chain(speedups).chain(ceilings);
            table.rows.push(row.chain([same.to_owned()]).collect());
        };
        for point in &self.points {
            let ceilings = [short(point.ceilings.measured_rows), short(point.ceilings.free_rows)];
            let fraction = format!("{:.3}", point.fraction);
            add(fraction, point.longest_run.to_string(), &point.arms, ceilings);
        }
        if let Some(schema) = &self.schema {
            let ceilings = ["-".to_owned(), short(1.0 / (1.0 - schema.fraction).max(1e-9))];
            add(format!("{:.3} (own schema)", schema.fraction), "-".to_owned(), &schema.arms, ceilings);
        }
        table
    }

    /// Returns the table of the measured forwards.
    fn costs_table(&self) -> Grid {
        let header: Vec<String> = self.costs.points.iter().map(|point| point.0.to_string()).collect();
        let names = std::iter::once("rows").chain(header.iter().map(String::as_str)).collect::<Vec<_>>();
        let mut table = Grid::new("milliseconds of a forward", &names);
        let times = self.costs.points.iter().map(|point| short(point.1));
        table.rows.push(std::iter::once("ms".to_owned()).chain(times).collect());
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_bound_each_other() {
        let costs = ForwardCosts { points: vec![(1, 1.0), (8, 1.7), (25, 6.0)] };
        let free = ForwardCosts { points: vec![(1, 1.0), (25, 1.0)] };
        for fraction in [0.0, 0.3, 0.6, 0.9, 0.95] {
            let layout = Layout::new(100, fraction, 8);
            let ceilings = Ceilings::of(&layout, &costs);
            assert!(
                ceilings.measured_rows >= 1.0 - 1e-9 && ceilings.measured_rows <= ceilings.free_rows + 1e-9
            );
            let ideal = Ceilings::of(&layout, &free);
            assert!((ideal.measured_rows - ideal.free_rows).abs() < 1e-9, "{fraction}");
            // As the formula has it, but for the first token.
            assert!((ideal.free_rows * (1.0 - fraction) - 1.0).abs() < 0.25, "{fraction}: {ideal:?}");
        }
    }
}
