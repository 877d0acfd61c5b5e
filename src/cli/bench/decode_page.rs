//! The page of `ffwd bench decode`.

use std::fmt::Write;

use super::about::About;
use super::arms::Arm;
use super::decode_report::{ArmResult, DecodeReport, ScenarioResult};
use super::outputs::BenchReport;
use super::page;
use super::plot::{self, Mark};
use crate::cli::spread::Spread;
use crate::cli::table::Grid;
use crate::cli::table::escaped;
use crate::error::Result;

impl BenchReport for DecodeReport {
    const INTERRUPTED: &str = "interrupted: the last scenario has fewer rounds";

    fn about(&self) -> &About {
        &self.about
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Returns a table for each scenario, and one of the estimates if there are any.
    fn grids(&self) -> Vec<Grid> {
        let estimates = self.scenarios.iter().any(|s| s.estimate.is_some()).then(|| self.estimates());
        self.scenarios.iter().map(ScenarioResult::grid).chain(estimates).collect()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for scenario in &self.scenarios {
            for arm in scenario.arms.iter().filter(|arm| arm.arm.is_exact() && arm.same_text == Some(false)) {
                notes.push(format!(
                    "note: in {:?} the text of {} differs from that of off; the model rounds rows differently in company",
                    scenario.name,
                    arm.name()
                ));
            }
            for arm in scenario.arms.iter().filter(|arm| arm.arm == Arm::Off && arm.finish == "length") {
                notes.push(format!("note: {:?} reached the limit of {} tokens", scenario.name, arm.tokens));
            }
        }
        notes.extend(self.comparison.clone());
        notes
    }

    fn html(&self) -> Result<String> {
        page_of(self)
    }
}

/// Returns the page with plots, tables and texts.
///
/// # Errors
/// If a plot cannot be drawn.
fn page_of(report: &DecodeReport) -> Result<String> {
    let arms = Arm::all().filter(|arm| {
        let has = |result: &ArmResult| result.arm == *arm;
        !matches!(arm, Arm::Off | Arm::Unconstrained)
            && report.scenarios.iter().any(|scenario| scenario.arms.iter().any(has))
    });
    let arms: Vec<Arm> = arms.collect();
    let mut body = String::new();
    if report.interrupted {
        body += "<p><strong>Interrupted: the last scenario has fewer rounds.</strong></p>\n";
    }
    body += "<h2>Speed against one forward per token</h2>\n<p>Median of all rounds with its quartiles. 1 is the \
             mode <code>off</code>. Texts without a constraint are in the tables only, because they differ in length. Times include the prompt, which is read anew each time.</p>\n";
    body += &page::legend(arms.iter().map(|arm| (arm.name(), arm.color())));
    body += &figure(report, &arms, "times the speed of off", |arm| arm.speedup)?;
    body +=
        "<h2>Without the prompt</h2>\n<p>The same after the time of reading the prompt is subtracted.</p>\n";
    body += &figure(report, &arms, "times the speed of off, decoding alone", |arm| arm.decoding_speedup)?;
    body += "<h2>Tokens a forward</h2>\n<p>Output tokens by forwards of the model, that for the prompt included.</p>\n";
    body += &figure(report, &arms, "tokens a forward", |arm| Spread::of(&[arm.tokens_per_forward()]))?;
    body += "<h2>All figures</h2>\n";
    for (scenario, grid) in report.scenarios.iter().zip(report.grids()) {
        body += &grid.html();
        let _ = writeln!(body, "<p>{}</p>", escaped(&scenario.about));
        let _ = writeln!(body, "<details><summary>texts</summary>");
        for arm in &scenario.arms {
            let _ = writeln!(body, "<div>{}</div><pre>{}</pre>", escaped(&arm.name()), escaped(&arm.text));
        }
        body += "</details>\n";
    }
    Ok(page::page("Decoding with drafts", &report.about, &body))
}

/// Returns a plot with a line for each scenario and a lane for each arm.
fn figure(
    report: &DecodeReport,
    arms: &[Arm],
    axis: &str,
    value: impl Fn(&ArmResult) -> Spread,
) -> Result<String> {
    let lines: Vec<String> = report.scenarios.iter().map(|scenario| scenario.name.clone()).collect();
    let mut marks = Vec::new();
    for (line, scenario) in report.scenarios.iter().enumerate() {
        for result in &scenario.arms {
            let Some(lane) = arms.iter().position(|arm| *arm == result.arm) else { continue };
            marks.push(Mark { line, lane, value: value(result), color: result.arm.color() });
        }
    }
    plot::figure(axis, |width| plot::marks(width, axis, &lines, arms.len(), &marks, 1.0))
}
