//! Styles of the help texts, the sections that follow the options, and the tables of environment
//! variables and exit codes.
//!
//! A section is a title line that ends with a colon, and indented lines. The man pages are made
//! from the same texts, so `man` relies on this form.

use clap::builder::StyledStr;
use clap::builder::styling::{AnsiColor, Styles};

/// Colors of the help; clap leaves them out if the output is no terminal or `NO_COLOR` is set.
pub(super) const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Environment variables of the program.
pub(super) const ENVIRONMENT: &[(&str, &str)] = &[
    ("FFWD_LOG", "Log filter, such as `debug` or `ffwd=trace` [default: warn]"),
    #[cfg(feature = "serve")]
    ("FFWD_API_KEY", "Key that `ffwd serve` requires from clients"),
    ("CANDLE_NUM_THREADS", "Number of threads without --threads; else RAYON_NUM_THREADS"),
    #[cfg(feature = "hub")]
    ("HF_HUB_OFFLINE", "`1` uses only models in the cache, as --offline does"),
    #[cfg(feature = "hub")]
    ("HF_TOKEN", "Access token for private models"),
    #[cfg(feature = "hub")]
    ("HF_ENDPOINT", "Address of the model hub"),
    #[cfg(feature = "hub")]
    ("HF_HUB_CACHE", "Folder of cached models"),
    #[cfg(feature = "hub")]
    ("HF_HOME", "Folder that holds the cache if HF_HUB_CACHE is not set"),
    ("NO_COLOR", "Any value turns colors off"),
];

/// Exit codes of the program.
pub(super) const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "Success"),
    ("1", "Failure: a file, a model or a schema is unusable, or an output is incomplete"),
    ("2", "Usage error: an option is unknown, missing or has an invalid value"),
];

/// A section of shell commands, each with a comment line that describes it.
pub(super) fn examples(list: &[(&str, &str)]) -> StyledStr {
    let (comment, command) = (AnsiColor::BrightBlack.on_default(), STYLES.get_literal());
    let mut text = title("Examples");
    for (description, code) in list {
        text += &format!("\n  {comment}# {description}{comment:#}");
        for line in code.lines() {
            text += &format!("\n  {command}{line}{command:#}");
        }
    }
    text.into()
}

/// A section with one line for each name; nothing without names.
pub(super) fn table(name: &str, rows: &[(&str, &str)]) -> StyledStr {
    if rows.is_empty() {
        return StyledStr::new();
    }
    let literal = STYLES.get_literal();
    let width = rows.iter().map(|row| row.0.len()).max().unwrap_or_default();
    let mut text = title(name);
    for (name, meaning) in rows {
        text += &format!("\n  {literal}{name:width$}{literal:#}  {meaning}");
    }
    text.into()
}

/// A section of plain lines.
pub(super) fn note(name: &str, lines: &[&str]) -> StyledStr {
    lines.iter().fold(title(name), |text, line| text + "\n  " + line).into()
}

/// Sections with an empty line between them.
pub(super) fn sections(list: &[StyledStr]) -> StyledStr {
    let texts = list.iter().map(|section| section.ansi().to_string()).filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join("\n\n").into()
}

fn title(name: &str) -> String {
    let header = STYLES.get_header();
    format!("{header}{name}:{header:#}")
}
