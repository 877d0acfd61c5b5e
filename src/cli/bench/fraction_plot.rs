//! The curve of speedup against the deterministic fraction, as SVG.

use std::cell::Cell;

use plotters::prelude::*;

use super::arms::Arm;
use super::fraction_report::{FractionArm, FractionReport};
use super::plot::{GRID, INK, WIDE, svg, text};
use crate::error::Result;

/// Colors of the ceilings.
const FREE_ROWS: RGBColor = RGBColor(0x9a, 0xa3, 0xb2);
const MEASURED_ROWS: RGBColor = RGBColor(0x0a, 0x5c, 0x46);
/// Highest speedup on the axis.
const MOST: f64 = 20.0;
/// Colors on a dark background, for files that stand alone.
const DARK: &str = "<style>@media (prefers-color-scheme: dark) { [fill=\"#3B4252\"] { fill: #e6e9ef } \
     [stroke=\"#3B4252\"] { stroke: #a2abba } [stroke=\"#D5D9E0\"] { stroke: #3a4150 } \
     [stroke=\"#0A5C46\"] { stroke: #6fd3b4 } }</style>";

/// The lines of the plot and their colors.
pub(super) fn legend(report: &FractionReport) -> Vec<(&'static str, RGBColor)> {
    let arms = report.arms().into_iter().map(|arm| (name(arm), arm.color()));
    let ceilings = [
        ("ceiling of forced runs, measured forwards", MEASURED_ROWS),
        ("ceiling 1/(1-f), rows cost nothing", FREE_ROWS),
    ];
    arms.chain(ceilings).collect()
}

fn name(arm: Arm) -> &'static str {
    match arm {
        Arm::Exact => "exact (forced runs, copies, drafts)",
        Arm::Forced => "exact, forced runs alone",
        arm => arm.name(),
    }
}

/// Returns the plot as a file of its own, for light and dark backgrounds.
pub(super) fn standalone(report: &FractionReport) -> Result<String> {
    let svg = draw(report, 860, true)?;
    let end = svg.find('>').map_or(0, |at| at + 1);
    Ok(format!("{}{DARK}{}", &svg[..end], &svg[end..]))
}

/// Returns the plot with the numbers that a script needs to draw into it, as attributes: the pixels
/// of the axes and their ranges.
pub(super) fn draw(report: &FractionReport, width: u32, with_legend: bool) -> Result<String> {
    let height = if width < WIDE / 2 { 380 } else { 470 };
    let pixels = Cell::new((0..0, 0..0));
    let most = highest(report);
    let least = lowest(report);
    let svg = svg((width, height), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(18)
            .x_label_area_size(42)
            .y_label_area_size(52)
            .build_cartesian_2d(0.0..1.0, (least..most).log_scale().base(2.0))
            .map_err(text)?;
        let font = ("sans-serif", 13).into_font().color(&INK);
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style(font.clone())
            .x_desc("deterministic fraction f: forced tokens by output tokens")
            .y_desc("times the speed of off")
            .x_labels(11)
            .y_label_formatter(&|y| format!("{y}"))
            .draw()
            .map_err(text)?;
        let plotted = chart.plotting_area().get_pixel_range();
        pixels.set(plotted);
        let clipped = |y: f64| y.clamp(least, most);
        let ceiling = |of: fn(&super::fraction_report::Ceilings) -> f64| {
            let points = report.points.iter().map(move |p| (p.fraction, clipped(of(&p.ceilings))));
            points.collect::<Vec<_>>()
        };
        let smooth = (0..=96).map(|i| f64::from(i) / 100.0).map(|f| (f, clipped(1.0 / (1.0 - f))));
        for (points, color, dash) in
            [(smooth.collect::<Vec<_>>(), FREE_ROWS, 3), (ceiling(|c| c.measured_rows), MEASURED_ROWS, 9)]
        {
            let line = DashedLineSeries::new(points, dash, 4, color.stroke_width(2));
            chart.draw_series(line).map_err(text)?;
        }
        for arm in report.arms() {
            let style = arm.color();
            let of = |arms: &[FractionArm]| arms.iter().find(|a| a.arm == arm).map(|a| a.speedup);
            let points: Vec<_> =
                report.points.iter().filter_map(|p| Some((p.fraction, of(&p.arms)?))).collect();
            let line = points.iter().map(|(x, s)| (*x, clipped(s.median)));
            chart.draw_series(LineSeries::new(line, style.stroke_width(2))).map_err(text)?;
            let dots = points.iter().map(|(x, s)| Circle::new((*x, clipped(s.median)), 3, style.filled()));
            chart.draw_series(dots).map_err(text)?;
            let bars = points.iter().map(|(x, s)| {
                PathElement::new(vec![(*x, clipped(s.low)), (*x, clipped(s.high))], style.stroke_width(2))
            });
            chart.draw_series(bars).map_err(text)?;
            if let Some((x, y)) = report.own.as_ref().and_then(|own| Some((own.fraction, of(&own.arms)?))) {
                let mark = TriangleMarker::new((x, clipped(y.median)), 9, style.filled());
                chart.draw_series([mark]).map_err(text)?;
            }
        }
        if with_legend {
            draw_legend(area, report)?;
        }
        Ok(())
    })?;
    let (x, y) = pixels.take();
    let attributes = format!(
        "<svg role=\"img\" aria-label=\"Speedup by the deterministic fraction\" data-x0=\"{}\" data-x1=\"{}\" \
         data-y0=\"{}\" data-y1=\"{}\" data-low=\"{least}\" data-high=\"{most}\" ",
        x.start, x.end, y.end, y.start
    );
    Ok(svg.replacen("<svg ", &attributes, 1))
}

fn draw_legend(area: &super::plot::Area, report: &FractionReport) -> std::result::Result<(), String> {
    let font = ("sans-serif", 13).into_font().color(&INK);
    let mut lines = legend(report);
    if report.own.is_some() {
        lines.push(("triangles: the schema of --schema", INK));
    }
    for (i, (name, color)) in lines.into_iter().enumerate() {
        let y = 22 + 18 * i as i32;
        let line = PathElement::new(vec![(76, y), (98, y)], color.stroke_width(3));
        area.draw(&line).map_err(text)?;
        area.draw(&Text::new(name, (106, y - 7), font.clone())).map_err(text)?;
    }
    Ok(())
}

/// Returns the highest value on the axis: a little above all measured values and their ceiling.
fn highest(report: &FractionReport) -> f64 {
    let own = report.own.iter().flat_map(|own| &own.arms).map(|arm| arm.speedup.high);
    let arms = report.points.iter().flat_map(|p| p.arms.iter().map(|arm| arm.speedup.high));
    let ceilings = report.points.iter().map(|p| p.ceilings.measured_rows.max(p.ceilings.free_rows.min(MOST)));
    (arms.chain(ceilings).chain(own).fold(4.0, f64::max) * 1.3).min(64.0)
}

fn lowest(report: &FractionReport) -> f64 {
    let arms = report.points.iter().flat_map(|p| p.arms.iter().map(|arm| arm.speedup.low));
    arms.fold(0.8, f64::min).max(0.05)
}
