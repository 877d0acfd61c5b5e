//! The results of `ffwd bench masks`: percentiles, tables and the plot of their distribution.

use std::time::Duration;

use plotters::prelude::*;
use serde::{Deserialize, Serialize};

use super::super::about::About;
use super::super::page;
use super::super::plot::{GRID, INK, WIDE, figure, svg, text};
use super::super::table::{Grid, short};
use super::engines::SchemaOutcome;
use crate::error::Result;

/// Colors of the engines.
const COLORS: [(u8, u8, u8); 2] = [(0x1f, 0x77, 0xd0), (0xd5, 0x4e, 0x1c)];
/// Points of a curve.
const CURVE: usize = 200;

/// What an engine did with all schemas so far.
pub(super) struct EngineMasks {
    result: EngineResult,
    compiles: Vec<Duration>,
    first_masks: Vec<Duration>,
    masks: Vec<Duration>,
    accepts: Vec<Duration>,
}

/// All results of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct MasksReport {
    pub about: About,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// True if Ctrl-C ended the run.
    pub interrupted: bool,
    pub engines: Vec<EngineResult>,
}

/// The results of one engine.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct EngineResult {
    pub engine: String,
    pub schemas: usize,
    /// Schemas that compile and judge all of their instances rightly.
    pub passing: usize,
    pub refused: usize,
    pub instances: usize,
    pub wrongly_refused: usize,
    pub wrongly_accepted: usize,
    /// From the text of the schema to the compiled grammar.
    pub compile: Percentiles,
    /// From the text of the schema to the first mask.
    pub first_mask: Percentiles,
    pub mask: Percentiles,
    pub accept: Percentiles,
}

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
    fn of(times: &[Duration]) -> Self {
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

    fn cells(&self) -> Vec<String> {
        match self.count {
            0 => vec!["-".to_owned(); 6],
            count => {
                let times = [self.average, self.p50, self.p90, self.p99, self.max];
                std::iter::once(count.to_string()).chain(times.map(short)).collect()
            }
        }
    }
}

impl EngineMasks {
    pub(super) fn new(engine: &str) -> Self {
        let result = EngineResult { engine: engine.to_owned(), ..EngineResult::default() };
        let none = Vec::new;
        EngineMasks { result, compiles: none(), first_masks: none(), masks: none(), accepts: none() }
    }

    pub(super) fn add(&mut self, outcome: SchemaOutcome, instances: usize) {
        let result = &mut self.result;
        result.schemas += 1;
        result.passing += usize::from(outcome.passes());
        result.refused += usize::from(outcome.refused.is_some());
        result.instances += instances;
        result.wrongly_refused += outcome.wrongly_refused;
        result.wrongly_accepted += outcome.wrongly_accepted;
        if outcome.refused.is_none() {
            self.compiles.extend(outcome.compile);
            self.first_masks.push(outcome.first_mask);
            self.masks.extend(outcome.masks);
            self.accepts.extend(outcome.accepts);
        }
    }

    pub(super) fn result(&self) -> EngineResult {
        EngineResult {
            compile: Percentiles::of(&self.compiles),
            first_mask: Percentiles::of(&self.first_masks),
            mask: Percentiles::of(&self.masks),
            accept: Percentiles::of(&self.accepts),
            ..self.result.clone()
        }
    }
}

impl MasksReport {
    fn grids(&self) -> [Grid; 2] {
        let header =
            ["engine", "schemas", "passing", "refused", "instances", "wrongly refused", "wrongly accepted"];
        let mut schemas = Grid::new("schemas and instances", &header);
        let header = ["microseconds", "engine", "calls", "average", "p50", "p90", "p99", "max"];
        let title = format!("times, vocabulary of {} tokens", self.vocabulary);
        let mut times = Grid::new(title, &header);
        for engine in &self.engines {
            let share = 100.0 * engine.passing as f64 / engine.schemas.max(1) as f64;
            schemas.rows.push(vec![
                engine.engine.clone(),
                engine.schemas.to_string(),
                format!("{} ({share:.1} %)", engine.passing),
                engine.refused.to_string(),
                engine.instances.to_string(),
                engine.wrongly_refused.to_string(),
                engine.wrongly_accepted.to_string(),
            ]);
        }
        type Times = fn(&EngineResult) -> &Percentiles;
        let kinds: [(&str, Times); 4] = [
            ("compile", |engine| &engine.compile),
            ("first mask, with compiling", |engine| &engine.first_mask),
            ("mask", |engine| &engine.mask),
            ("accept", |engine| &engine.accept),
        ];
        for (name, of) in kinds {
            for engine in &self.engines {
                let cells = of(engine).cells();
                times.rows.push([vec![name.to_owned(), engine.engine.clone()], cells].concat());
            }
        }
        [schemas, times]
    }

    pub(super) fn text(&self) -> String {
        let lines = self.about.lines();
        let lines = lines.iter().map(|(name, line)| format!("{name}: {line}")).collect::<Vec<_>>();
        let [schemas, times] = self.grids();
        let interrupted = if self.interrupted { "\n\ninterrupted: some schemas are missing" } else { "" };
        format!("{}\n\n{}\n\n{}{interrupted}", schemas.text(), times.text(), lines.join("\n"))
    }

    pub(super) fn markdown(&self) -> String {
        let lines = self.about.lines().into_iter().map(|(name, line)| format!("- {name}: {line}\n"));
        let [schemas, times] = self.grids();
        format!("{}\n{}\n{}", lines.collect::<String>(), schemas.markdown(), times.markdown())
    }

    pub(super) fn html(&self) -> Result<String> {
        let engines: Vec<(&str, (u8, u8, u8))> =
            self.engines.iter().zip(COLORS).map(|(engine, color)| (engine.engine.as_str(), color)).collect();
        let mut body = String::new();
        type Times = fn(&EngineResult) -> &Percentiles;
        let plots: [(&str, Times); 2] = [
            ("mask, microseconds", |engine| &engine.mask),
            ("first mask from the text of the schema, microseconds", |engine| &engine.first_mask),
        ];
        for (axis, of) in plots {
            let curves: Vec<(&[f64], RGBColor)> = self
                .engines
                .iter()
                .zip(COLORS)
                .map(|(engine, (r, g, b))| (of(engine).curve.as_slice(), RGBColor(r, g, b)))
                .filter(|(curve, _)| !curve.is_empty())
                .collect();
            body += &format!(
                "<h2>{}</h2>\n<p>The share of the calls that take at most so long.</p>\n",
                page::escaped(axis)
            );
            body += &page::legend(&engines);
            body += &figure(axis, |width| distribution(width, axis, &curves))?;
        }
        body += "<h2>All figures</h2>\n";
        self.grids().iter().for_each(|grid| body += &grid.html());
        Ok(page::page("Masks", &self.about, &body))
    }
}

/// Draws the share of calls by their time, on a logarithmic axis.
fn distribution(width: u32, axis: &str, curves: &[(&[f64], RGBColor)]) -> Result<String> {
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
