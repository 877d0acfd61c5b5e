//! The results of `ffwd bench fraction`, and their table.

use serde::Serialize;

use super::about::About;
use super::arms::Arm;
use super::layout::Layout;
use crate::cli::forward_costs::ForwardCosts;
use crate::cli::spread::Spread;
use crate::cli::table::{Grid, short};

/// All results of a run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct FractionReport {
    pub about: About,
    /// True if Ctrl-C ended the run.
    pub interrupted: bool,
    /// Tokens of each output.
    pub tokens: usize,
    /// Tokens of a forced run.
    pub run: usize,
    pub max_draft: usize,
    pub costs: ForwardCosts,
    pub points: Vec<FractionPoint>,
    /// The user's own schema.
    pub own: Option<OwnPoint>,
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

/// The results of the user's own schema.
#[derive(Debug, Clone, Serialize)]
pub(super) struct OwnPoint {
    pub fraction: f64,
    pub tokens: usize,
    pub text: String,
    pub arms: Vec<FractionArm>,
}

impl FractionReport {
    /// Returns the arms other than `off`.
    pub(super) fn arms(&self) -> Vec<Arm> {
        let arms = self.points.first().map_or(&[][..], |point| &point.arms);
        arms.iter().map(|arm| arm.arm).filter(|arm| *arm != Arm::Off).collect()
    }

    pub(super) fn speedups(&self) -> Grid {
        let arms = self.arms();
        let mut header = vec!["fraction", "longest run"];
        header.extend(arms.iter().map(|arm| arm.name()));
        header.extend(["ceiling", "1/(1-f)", "same text"]);
        let title = format!("speedup after the prompt, {} tokens, runs of {}", self.tokens, self.run);
        let mut grid = Grid::new(title, &header);
        let with_spread = |arm: &FractionArm| {
            let Spread { median, low, high, .. } = arm.speedup;
            format!("{} ({}-{})", short(median), short(low), short(high))
        };
        let mut add = |fraction: String, longest: String, arms: &[FractionArm], ceilings: [String; 2]| {
            let speedups = arms.iter().filter(|arm| arm.arm != Arm::Off).map(with_spread);
            let same = if arms.iter().all(|arm| arm.same_text) { "yes" } else { "no" };
            let row = [fraction, longest].into_iter().chain(speedups).chain(ceilings);
            grid.rows.push(row.chain([same.to_owned()]).collect());
        };
        for point in &self.points {
            let ceilings = [short(point.ceilings.measured_rows), short(point.ceilings.free_rows)];
            let fraction = format!("{:.3}", point.fraction);
            add(fraction, point.longest_run.to_string(), &point.arms, ceilings);
        }
        if let Some(own) = &self.own {
            let ceilings = ["-".to_owned(), short(1.0 / (1.0 - own.fraction).max(1e-9))];
            add(format!("{:.3} (own schema)", own.fraction), "-".to_owned(), &own.arms, ceilings);
        }
        grid
    }

    /// Returns the table of the measured forwards.
    pub(super) fn costs_grid(&self) -> Grid {
        let header: Vec<String> = self.costs.points.iter().map(|point| point.0.to_string()).collect();
        let names = std::iter::once("rows").chain(header.iter().map(String::as_str)).collect::<Vec<_>>();
        let mut grid = Grid::new("milliseconds of a forward", &names);
        let times = self.costs.points.iter().map(|point| short(point.1));
        grid.rows.push(std::iter::once("ms".to_owned()).chain(times).collect());
        grid
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
