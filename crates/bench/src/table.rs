//! A table as text, Markdown and HTML.

use std::fmt::Write;

use serde_json::{Value, json};

/// A table with a title; the first column is text, the others are numbers.
#[derive(Debug)]
pub(crate) struct Grid {
    pub title: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    pub(crate) fn new(title: impl Into<String>, header: &[&str]) -> Self {
        let header = header.iter().map(|name| (*name).to_owned()).collect();
        Grid { title: title.into(), header, rows: Vec::new() }
    }

    /// Returns the table with aligned columns.
    pub(crate) fn text(&self) -> String {
        let count = |text: &String| text.chars().count();
        let width = |i: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(i)).chain(self.header.get(i));
            cells.map(count).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let line = |cells: &[String]| {
            let cells = cells.iter().zip(&widths).enumerate().map(|(i, (cell, &width))| match i {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let lines = self.rows.iter().map(|row| line(row));
        let title = (!self.title.is_empty()).then(|| self.title.clone());
        title.into_iter().chain([line(&self.header)]).chain(lines).collect::<Vec<_>>().join("\n")
    }

    /// Returns the title and the rows, each an object by the names of the columns.
    pub(crate) fn json(&self) -> Value {
        let cell = |text: &String| text.parse::<f64>().map_or_else(|_| text.as_str().into(), Value::from);
        let row = |cells: &Vec<String>| -> Value {
            self.header.iter().zip(cells).map(|(name, text)| (name.clone(), cell(text))).collect()
        };
        json!({ "title": self.title, "rows": self.rows.iter().map(row).collect::<Vec<_>>() })
    }

    pub(crate) fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = match self.title.is_empty() {
            true => String::new(),
            false => format!("{}\n\n", self.title),
        };
        text += &line(&self.header);
        text += &line(&vec!["---".to_owned(); self.header.len()]);
        self.rows.iter().for_each(|row| text += &line(row));
        text
    }

    pub(crate) fn html(&self) -> String {
        let line = |tag: &str, cells: &[String]| {
            let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let mut text = String::new();
        if !self.title.is_empty() {
            let _ = writeln!(text, "<h3>{}</h3>", escaped(&self.title));
        }
        let _ = write!(
            text,
            "<div class=\"scroll\"><table>\n<thead>{}</thead>\n<tbody>\n",
            line("th", &self.header)
        );
        self.rows.iter().for_each(|row| text += &line("td", row));
        text + "</tbody></table></div>\n"
    }
}

/// Returns a text with the characters escaped that HTML reads.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// Returns a number with three significant digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        x if x >= 99.95 => format!("{value:.0}"),
        x if x >= 9.995 => format!("{value:.1}"),
        x if x >= 0.9995 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.3}"),
    }
}

/// Returns a number with three significant digits, or a dash if it is none.
pub(crate) fn short_or_dash(value: f64) -> String {
    if value.is_finite() { short(value) } else { "-".to_owned() }
}

/// Returns seconds as milliseconds with three significant digits.
pub(crate) fn ms(seconds: f64) -> String {
    short(seconds * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_three_forms() {
        let mut grid = Grid::new("A|B", &["name", "ms"]);
        grid.rows.push(vec!["a|b <i>".into(), ms(0.0123)]);
        assert_eq!(grid.text(), "A|B\nname       ms\na|b <i>  12.3");
        assert_eq!(grid.markdown(), "A|B\n\n| name | ms |\n| --- | --- |\n| a\\|b <i> | 12.3 |\n");
        assert!(grid.html().contains("<td>a|b &lt;i&gt;</td><td>12.3</td>"));
    }

    #[test]
    fn numbers_have_three_digits() {
        let shown = [1234.5, 99.99, 12.345, 9.999, 1.2345, 0.99949, 0.0].map(short);
        assert_eq!(shown, ["1234", "100", "12.3", "10.0", "1.23", "0.999", "0"]);
    }
}
