//! Percentiles of the times of calls, and the plot of their distribution.

use std::time::Duration;

use plotters::prelude::*;
use serde::{Deserialize, Serialize};

use super::page;
use super::plot::{GRID, INK, WIDE, figure, svg, text};
use crate::cli::table::short;
use crate::error::Result;

/// Colors of the engines.
const COLORS: [RGBColor; 2] = [RGBColor(0x1f, 0x77, 0xd0), RGBColor(0xd5, 0x4e, 0x1c)];
/// Points of a curve.
const CURVE: usize = 200;

/// Percentiles of times in microseconds.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Percentiles {
    pub count: usize,
    pub average: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
    /// Times at equal steps of the share, for the plot.
    pub curve: Vec<f64>,
}

impl Percentiles {
    /// Returns the percentiles by nearest rank; zeros if there are no times.
    pub(super) fn of(times: &[Duration]) -> Self {
        let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
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
            max: at(1.0),
            curve: match times.is_empty() {
                true => Vec::new(),
                false => (1..=CURVE).map(|i| at(i as f64 / CURVE as f64)).collect(),
            },
        }
    }

    pub(super) fn cells(&self) -> Vec<String> {
        match self.count {
            0 => vec!["-".to_owned(); 6],
            count => {
                let times = [self.average, self.p50, self.p90, self.p99, self.max];
                std::iter::once(count.to_string()).chain(times.map(short)).collect()
            }
        }
    }
}

/// Returns a section of a page with the share of the calls of each engine by their time.
pub(super) fn distribution(axis: &str, engines: &[(&str, &Percentiles)]) -> Result<String> {
    let legend = engines.iter().zip(COLORS).map(|((name, _), color)| (*name, color));
    let curves = engines.iter().zip(COLORS).map(|((_, times), color)| (times.curve.as_slice(), color));
    let curves: Vec<_> = curves.filter(|(curve, _)| !curve.is_empty()).collect();
    let heading = format!(
        "<h2>{}</h2>\n<p>The share of the calls that take at most so long.</p>\n",
        crate::cli::table::escaped(axis)
    );
    Ok(heading + &page::legend(legend) + &figure(axis, |width| drawn(width, axis, &curves))?)
}

/// Draws the share of calls by their time, on a logarithmic axis.
fn drawn(width: u32, axis: &str, curves: &[(&[f64], RGBColor)]) -> Result<String> {
    let times = || curves.iter().flat_map(|(curve, _)| curve.iter().copied()).filter(|time| *time > 0.0);
    let least = times().fold(f64::INFINITY, f64::min).clamp(1e-3, 1e9) * 0.8;
    let most = times().fold(0.0, f64::max).max(least * 10.0) * 1.2;
    svg((width, if width < WIDE { 300 } else { 360 }), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(18)
            .x_label_area_size(42)
            .y_label_area_size(56)
            .build_cartesian_2d((least..most).log_scale(), 0.0..1.0)
            .map_err(text)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style(("sans-serif", 13).into_font().color(&INK))
            .x_desc(axis)
            .x_label_formatter(&|x| short(*x))
            .y_label_formatter(&|y| format!("{:.0} %", y * 100.0))
            .draw()
            .map_err(text)?;
        for (curve, color) in curves {
            let share = |i: usize| (i + 1) as f64 / curve.len() as f64;
            let points = curve.iter().enumerate().map(|(i, time)| (time.max(least), share(i)));
            chart.draw_series(LineSeries::new(points, color.stroke_width(2))).map_err(text)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let times: Vec<Duration> = (1..=200).rev().map(Duration::from_micros).collect();
        let all = Percentiles::of(&times);
        let found = [all.average, all.p50, all.p90, all.p99, all.max];
        for (found, wanted) in found.into_iter().zip([100.5, 100.0, 180.0, 198.0, 200.0]) {
            assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
        }
        assert_eq!((all.curve.len(), Percentiles::of(&[]).cells().len()), (CURVE, 6));
        assert!((Percentiles::of(&times[..1]).p50 - 200.0).abs() < 1e-6);
    }
}
