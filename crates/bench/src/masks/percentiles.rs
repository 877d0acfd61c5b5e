//! Percentiles of the times of calls, and the plot of their distribution.

use std::time::Duration;

use serde::Serialize;

use crate::report::{Axis, Figure, Series};
use crate::table::short;

/// Colors of the engines.
const COLORS: [&str; 5] = ["#1f77d0", "#d54e1c", "#0f9d74", "#8c6d31", "#9986d6"];
/// Points of a curve.
const CURVE: usize = 200;

/// Percentiles of times in microseconds.
#[derive(Debug, Default, Clone, Serialize)]
pub(super) struct Percentiles {
    pub count: usize,
    pub average: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
    /// Times at equal steps of the share, for the plot.
    pub curve: Vec<f64>,
}

impl Percentiles {
    /// Returns the percentiles by nearest rank; zeros if there are no times.
    pub(super) fn of(times: impl IntoIterator<Item = Duration>) -> Self {
        let mut times: Vec<f64> = times.into_iter().map(|time| time.as_secs_f64() * 1e6).collect();
        times.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = (share * times.len() as f64).ceil() as usize;
            times.get(rank.max(1) - 1).copied().unwrap_or_default()
        };
        Percentiles {
            count: times.len(),
            average: times.iter().sum::<f64>() / times.len().max(1) as f64,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0),
            curve: match times.is_empty() {
                true => Vec::new(),
                false => (1..=CURVE).map(|i| at(i as f64 / CURVE as f64)).collect(),
            },
        }
    }

    pub(super) fn cells(&self) -> Vec<String> {
        match self.count {
            0 => vec!["-".to_owned(); 7],
            count => {
                let times = [self.average, self.p50, self.p90, self.p99, self.p999, self.max];
                std::iter::once(count.to_string()).chain(times.map(short)).collect()
            }
        }
    }
}

/// Returns a plot of the share of the calls of each engine by their time, on a logarithmic axis.
pub(super) fn distribution(heading: &str, engines: &[(&str, &Percentiles)]) -> Figure {
    let times =
        || engines.iter().flat_map(|(_, times)| times.curve.iter().copied()).filter(|time| *time > 0.0);
    let least = times().fold(f64::INFINITY, f64::min).clamp(1e-3, 1e9) * 0.8;
    let most = times().fold(0.0, f64::max).max(least * 10.0) * 1.2;
    let series = engines.iter().zip(COLORS.iter().cycle()).map(|((name, times), color)| {
        let share = |i: usize| (i + 1) as f64 / times.curve.len() as f64;
        Series::line(name, color, times.curve.iter().enumerate().map(|(i, time)| (time.max(least), share(i))))
    });
    Figure {
        heading: heading.to_owned(),
        note: "The share of the calls that take at most this time.",
        label: heading.to_owned(),
        x: Axis { log: true, ..Axis::linear("microseconds", least, most) },
        y: Axis { percent: true, ..Axis::linear("calls", 0.0, 1.0) },
        series: series.collect(),
        ..Figure::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let times: Vec<Duration> = (1..=200).rev().map(Duration::from_micros).collect();
        let all = Percentiles::of(times.clone());
        let found = [all.average, all.p50, all.p90, all.p99, all.max];
        for (found, wanted) in found.into_iter().zip([100.5, 100.0, 180.0, 198.0, 200.0]) {
            assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
        }
        assert_eq!((all.curve.len(), Percentiles::of([]).cells().len()), (CURVE, 7));
        assert!((Percentiles::of([times[0]]).p50 - 200.0).abs() < 1e-6);
    }
}
