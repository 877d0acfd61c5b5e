//! The report of a measurement: as text, Markdown, JSON, and a page with plots.
//!
//! A page is one HTML file that loads nothing. It holds its figures as JSON, and a script draws them.

use std::fmt::Write;

use ffwd_runtime::speedup::{PLOT_SCRIPT, Spread};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::environment::Environment;
use crate::table::{Grid, escaped};

const STYLE: &str = include_str!("page.css");
const PAGE_SCRIPT: &str = include_str!("page.js");

/// The report of a measurement.
#[derive(Debug, Default)]
pub struct BenchReport {
    title: &'static str,
    environment: Environment,
    /// All numbers, as an object.
    results: Value,
    pub(crate) tables: Vec<Grid>,
    /// What a reader must know besides the tables.
    pub(crate) notes: Vec<String>,
    /// What the text says after an interruption.
    pub(crate) interrupted: Option<&'static str>,
    pub(crate) figures: Vec<Figure>,
    /// HTML after the figures, before the tables.
    pub(crate) controls: String,
    /// HTML after the tables.
    pub(crate) details: String,
    /// A script that follows the one that draws.
    pub(crate) script: &'static str,
    /// True if the measurement found a fault.
    pub(crate) failed: bool,
}

/// A plot, with the text above it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Figure {
    #[serde(skip)]
    pub heading: String,
    #[serde(skip)]
    pub note: &'static str,
    pub label: String,
    pub x: Axis,
    pub y: Axis,
    /// Lines that y counts from the top, in place of numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
    /// An upright line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<f64>,
    pub series: Vec<Series>,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Axis {
    pub label: &'static str,
    pub low: f64,
    pub high: f64,
    pub log: bool,
    pub percent: bool,
}

/// Points of one color, joined by a line, marked, or both.
#[derive(Debug, Serialize)]
pub(crate) struct Series {
    pub name: String,
    pub color: &'static str,
    pub line: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dash: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<&'static str>,
    pub points: Vec<Point>,
}

/// A point with its quartiles.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Point {
    pub x: f64,
    pub y: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

impl Axis {
    pub(crate) fn linear(label: &'static str, low: f64, high: f64) -> Self {
        Axis { label, low, high, ..Axis::default() }
    }
}

impl Series {
    /// Returns circles without a line.
    pub(crate) fn marks(name: &str, color: &'static str, points: Vec<Point>) -> Self {
        Series { name: name.to_owned(), color, line: false, dash: None, shape: Some("circle"), points }
    }

    /// Returns a line without marks.
    pub(crate) fn line(
        name: &str,
        color: &'static str,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let points = points.into_iter().map(|(x, y)| Point { x, y, ..Point::default() }).collect();
        Series { line: true, shape: None, ..Series::marks(name, color, points) }
    }
}

impl Point {
    /// Returns a point whose y is a median.
    pub(crate) fn upright(x: f64, y: Spread) -> Self {
        Point { x, y: y.median, low: Some(y.low), high: Some(y.high) }
    }

    /// Returns a point whose x is a median.
    pub(crate) fn across(x: Spread, y: f64) -> Self {
        Point { x: x.median, y, low: Some(x.low), high: Some(x.high) }
    }
}

impl BenchReport {
    /// Returns a report of tables, whose cells are also its numbers.
    pub(crate) fn of_tables(title: &'static str, environment: Environment, tables: Vec<Grid>) -> Self {
        let results = serde_json::json!({ "tables": tables.iter().map(Grid::json).collect::<Vec<_>>() });
        BenchReport::new(title, environment, &results, tables)
    }

    /// Returns a report with its numbers, which are an object, and tables.
    pub(crate) fn new(
        title: &'static str,
        environment: Environment,
        results: &impl Serialize,
        tables: Vec<Grid>,
    ) -> Self {
        BenchReport {
            title,
            environment,
            // Plain numbers, texts and lists always have a JSON form.
            results: serde_json::to_value(results).unwrap_or_default(),
            tables,
            ..BenchReport::default()
        }
    }

    /// Returns true if Ctrl-C ended the measurement.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.is_some()
    }

    /// Returns true if the measurement found a fault, such as an engine that refuses a text.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Returns the tables, the circumstances and the notes as a text.
    pub fn text(&self) -> String {
        let lines = self.environment.lines();
        let lines: Vec<String> = lines.iter().map(|(name, line)| format!("{name}: {line}")).collect();
        let mut parts: Vec<String> = self.tables.iter().map(Grid::text).collect();
        parts.push(lines.join("\n"));
        parts.extend(self.notes.iter().cloned());
        parts.extend(self.interrupted.map(|text| format!("interrupted: {text}")));
        parts.join("\n\n")
    }

    /// Returns the circumstances and the tables in Markdown.
    pub fn markdown(&self) -> String {
        let lines = self.environment.lines().into_iter().map(|(name, line)| format!("- {name}: {line}\n"));
        let tables: Vec<String> = self.tables.iter().map(Grid::markdown).collect();
        format!("{}\n{}", lines.collect::<String>(), tables.join("\n"))
    }

    /// Returns all numbers.
    pub fn json(&self) -> Value {
        let mut all = Map::new();
        all.insert("about".to_owned(), serde_json::to_value(&self.environment).unwrap_or_default());
        all.insert("interrupted".to_owned(), self.is_interrupted().into());
        all.extend(
            self.results.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())),
        );
        Value::Object(all)
    }

    /// Returns the page.
    pub fn html(&self) -> String {
        let mut body = String::new();
        if let Some(text) = self.interrupted {
            let _ = writeln!(body, "<p><strong>Interrupted: {}.</strong></p>", escaped(text));
        }
        for (number, figure) in self.figures.iter().enumerate() {
            let (heading, note) = (escaped(&figure.heading), escaped(figure.note));
            let _ = writeln!(
                body,
                "<h2>{heading}</h2>\n<p>{note}</p>\n<div class=\"plot\" data-figure=\"{number}\"></div>"
            );
        }
        body += &self.controls;
        body += "<h2>All figures</h2>\n";
        self.tables.iter().for_each(|table| body += &table.html());
        body += &self.details;
        // Nothing in the JSON can end the element.
        let figures = serde_json::to_string(&self.figures).unwrap_or_default().replace('<', "\\u003c");
        let lines = self.environment.lines();
        let lines = lines.iter().map(|(name, line)| format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(line)));
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
             <dl class=\"about\">\n{}</dl>\n{body}</main>\n\
             <script type=\"application/json\" id=\"figures\">{figures}</script>\n\
             <script type=\"module\">\n{PLOT_SCRIPT}{PAGE_SCRIPT}{}</script>\n</body>\n</html>\n",
            lines.collect::<String>(),
            self.script,
            title = self.title,
        )
    }
}
