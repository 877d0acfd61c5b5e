//! Milliseconds of a forward by its rows, and the least time in which tokens can be verified.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::spread::Spread;
use crate::error::Result;
use crate::model::{ForwardRounds, Model, forward_times};

/// Numbers of rows that are measured: up to the longest draft and the token before it.
const SIZES: [usize; 12] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25];
/// Runs of each size.
const RUNS: usize = 25;
/// After this time, three runs of each size are enough.
const BUDGET: Duration = Duration::from_secs(6);

/// Milliseconds of a forward by its rows, with the logits of the last row.
///
/// Forced tokens need no logits: nothing is chosen there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ForwardCosts {
    /// Rows and milliseconds.
    pub points: Vec<(usize, f64)>,
}

impl ForwardCosts {
    /// Cached tokens after a prompt of usual length.
    pub const USUAL_PROMPT: usize = 300;

    /// Measures forwards after `cached` tokens. The sizes take turns, and medians count.
    ///
    /// # Errors
    /// Those of the model.
    pub fn measure(model: &Model, cached: usize) -> Result<Self> {
        let rounds = ForwardRounds { cached, rounds: RUNS, least: 3, limit: BUDGET };
        let times = forward_times(model, &SIZES, &rounds)?;
        let medians = times.iter().map(|times| Spread::of(times).median);
        Ok(ForwardCosts { points: SIZES.into_iter().zip(medians).collect() })
    }

    /// Returns the milliseconds of a forward, with a straight line between measured sizes.
    pub fn ms(&self, rows: usize) -> f64 {
        let points = &self.points;
        let i = points.partition_point(|point| point.0 < rows);
        match (i.checked_sub(1).and_then(|i| points.get(i)), points.get(i)) {
            (Some(&(m0, t0)), Some(&(m1, t1))) => t0 + (t1 - t0) * (rows - m0) as f64 / (m1 - m0) as f64,
            (_, Some(&(_, t))) | (Some(&(_, t)), None) => t,
            (None, None) => 0.0,
        }
    }

    /// Returns the largest number of rows.
    fn most(&self) -> usize {
        self.points.last().map_or(1, |point| point.0)
    }

    /// Returns the least milliseconds in which `tokens` tokens are verified, all but the last of
    /// which are known: a forward of m rows yields m of them.
    pub fn least(&self, tokens: usize) -> f64 {
        self.best_cut(tokens).1
    }

    /// Returns the number of forwards that take the least time, and that time.
    pub fn best_cut(&self, tokens: usize) -> (usize, f64) {
        let mut best = vec![(0, 0.0)];
        for n in 1..=tokens {
            let cuts =
                (1..=n.min(self.most())).map(|rows| (best[n - rows].0 + 1, best[n - rows].1 + self.ms(rows)));
            best.extend(cuts.min_by(|a: &(usize, f64), b| a.1.total_cmp(&b.1)));
        }
        best[tokens]
    }

    /// Returns what each further row costs on average, in forwards of one row.
    pub fn row(&self) -> f64 {
        let (one, many) = (self.ms(1), self.most().min(8));
        match one > 0.0 && many > 1 {
            true => ((self.ms(many) / one - 1.0) / (many - 1) as f64).clamp(0.0, 1.0),
            false => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_time_is_that_of_the_best_cut() {
        let costs = ForwardCosts { points: vec![(1, 1.0), (2, 1.5), (4, 1.8)] };
        assert_eq!((costs.ms(1), costs.ms(3), costs.ms(9)), (1.0, 1.65, 1.8));
        // Every way to cut a number into parts.
        fn all(costs: &ForwardCosts, tokens: usize) -> f64 {
            let rest = |rows| costs.ms(rows) + all(costs, tokens - rows);
            if tokens == 0 { 0.0 } else { (1..=tokens.min(4)).map(rest).fold(f64::INFINITY, f64::min) }
        }
        for tokens in 0..12 {
            assert!((costs.least(tokens) - all(&costs, tokens)).abs() < 1e-9, "{tokens}");
        }
        assert!((costs.row() - 0.8 / 3.0).abs() < 1e-9);
        assert_eq!(ForwardCosts::default().least(3), 0.0);
    }
}
