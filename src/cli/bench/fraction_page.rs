//! The interactive page of `ffwd bench fraction`: the measured curves, and over them the curve that
//! the reader's own figures give.
//!
//! # Alternatives considered
//!
//! A plotting script in the page was rejected: `plotters` draws axes and measurements, and a few
//! lines of script move one path over them.

use std::fmt::Write;

use plotters::style::RGBColor;

use super::about::About;
use super::fraction_plot;
use super::fraction_report::FractionReport;
use super::outputs::BenchReport;
use super::page;
use super::plot::{NARROW, WIDE};
use crate::cli::table::Grid;
use crate::cli::table::escaped;
use crate::error::Result;

const SCRIPT: &str = include_str!("fraction.js");

impl BenchReport for FractionReport {
    const INTERRUPTED: &str = "interrupted: some fractions are missing";

    fn about(&self) -> &About {
        &self.about
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    fn grids(&self) -> Vec<Grid> {
        vec![self.speedups(), self.costs_grid()]
    }

    fn html(&self) -> Result<String> {
        page_of(self)
    }
}

/// Returns the page.
///
/// # Errors
/// If the plot cannot be drawn.
fn page_of(report: &FractionReport) -> Result<String> {
    let mut body = String::from(
        "<p>A constraint forces some tokens: nothing else may come next. Their share of the output is the \
         deterministic fraction. Drafts of forced runs save the forwards of these tokens. What remains is the \
         cost of their rows in the forwards that verify them. Points are measured, with their quartiles.</p>\n",
    );
    let own = ("your figures", RGBColor(0xe0, 0x31, 0x6b));
    body += &page::legend(fraction_plot::legend(report).into_iter().chain([own]));
    for (class, width) in [("wide", WIDE), ("narrow", NARROW)] {
        let _ = writeln!(
            body,
            "<div class=\"plot {class}\">{}</div>",
            fraction_plot::draw(report, width, false)?
        );
    }
    body += &controls(report);
    if let Some(own) = &report.own {
        let _ = writeln!(
            body,
            "<p>Triangles mark your schema: {:.1} % of its {} tokens are forced.</p>\n<details><summary>its \
             output</summary><pre>{}</pre></details>",
            own.fraction * 100.0,
            own.tokens,
            escaped(&own.text)
        );
    }
    body += &report.figures();
    let _ = writeln!(body, "<script>\n{SCRIPT}</script>");
    Ok(page::page("Speedup by the deterministic fraction", &report.about, &body))
}

fn controls(report: &FractionReport) -> String {
    let fraction = report.own.as_ref().map_or(0.6, |own| own.fraction);
    let row = report.costs.row();
    format!(
        "<h2>Your figures</h2>\n<div class=\"controls\" data-draft=\"{}\">\n\
         <label>deterministic fraction <output></output>\
         <input id=\"fraction\" type=\"range\" min=\"0\" max=\"0.98\" step=\"0.01\" value=\"{fraction:.2}\"></label>\n\
         <label>tokens of a forced run <output></output>\
         <input id=\"run\" type=\"range\" min=\"1\" max=\"64\" step=\"1\" value=\"{}\"></label>\n\
         <label>cost of a row, in forwards <output></output>\
         <input id=\"row\" type=\"range\" min=\"0\" max=\"1\" step=\"0.005\" value=\"{row:.3}\"></label>\n\
         </div>\n<p class=\"answer\" id=\"answer\" aria-live=\"polite\"></p>\n\
         <p>The cost of a row begins as measured here: what each further row of a forward adds, in parts of a \
         forward of one row. It is small for a large model on few requests, and near 1 where the processor is \
         busy with arithmetic. The curve assumes that every forced token is drafted as the model writes it.</p>\n",
        report.max_draft, report.run
    )
}
