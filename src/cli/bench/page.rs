//! Pages of reports: one HTML file without external resources.

use plotters::style::RGBColor;

use super::about::About;
use crate::cli::table::escaped;

const STYLE: &str = include_str!("page.css");

/// Returns a page with a title, the circumstances of the run, and a body.
pub(super) fn page(title: &str, about: &About, body: &str) -> String {
    let lines = about
        .lines()
        .into_iter()
        .map(|(name, line)| format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(&line)));
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
         <dl class=\"about\">\n{}</dl>\n{body}</main>\n</body>\n</html>\n",
        lines.collect::<String>()
    )
}

/// Returns a legend of colored marks.
pub(super) fn legend<'a>(items: impl IntoIterator<Item = (&'a str, RGBColor)>) -> String {
    let items = items.into_iter().map(|(name, RGBColor(r, g, b))| {
        format!("<li><span style=\"background:#{r:02x}{g:02x}{b:02x}\"></span>{}</li>", escaped(name))
    });
    format!("<ul class=\"legend\">{}</ul>\n", items.collect::<String>())
}
