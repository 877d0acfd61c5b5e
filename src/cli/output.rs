//! Writing of results: texts to standard output, statistics to files, summaries to standard error.
//!
//! A closed pipe is no error: the reader has what it needs. A file is replaced as a whole, so that
//! it never holds a part of the statistics.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::Warning;
use crate::decode::Stats;
use crate::error::{Error, ErrorKind, Result};

/// Writes one line to standard output.
pub(super) fn print_line(text: &str) -> Result<()> {
    print_parts(&[text.as_bytes(), b"\n"])
}

/// Writes a part of a text to standard output and flushes it.
pub(super) fn print_text(text: &str) -> Result<()> {
    print_parts(&[text.as_bytes()])
}

/// Writes bytes to standard output.
#[cfg(feature = "shell")]
pub(super) fn print_bytes(bytes: &[u8]) -> Result<()> {
    print_parts(&[bytes])
}

fn print_parts(parts: &[&[u8]]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match parts.iter().try_for_each(|part| out.write_all(part)).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::io("standard output", &e)),
        _ => Ok(()),
    }
}

/// Writes a report to standard output: as JSON, or as the text that people read.
pub(super) fn print_report<T: Serialize>(report: &T, json: bool, text: impl Fn(&T) -> String) -> Result<()> {
    print_line(&if json { pretty(report, "the report")? } else { text(report) })
}

/// Writes a value to standard output as one line of JSON.
pub(super) fn print_json(value: &impl Serialize) -> Result<()> {
    print_line(&json(value)?)
}

/// Returns a value as one line of JSON.
pub(super) fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|e| Error::new(ErrorKind::Io, format!("a result cannot be written as JSON: {e}")))
}

fn pretty(value: &impl Serialize, what: &str) -> Result<String> {
    serde_json::to_string_pretty(value)
        .map_err(|e| Error::new(ErrorKind::Io, format!("{what} cannot be written as JSON: {e}")))
}

/// Writes warnings to standard error, one on each line.
pub(super) fn print_warnings(warnings: &[Warning]) {
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
}

/// Writes statistics as JSON to a file or, for `-`, to standard output.
pub(super) fn write_stats(path: &Path, stats: &impl Serialize) -> Result<()> {
    let text = pretty(stats, "the figures")?;
    if path == Path::new("-") {
        return print_line(&text);
    }
    write_file(path, &(text + "\n"))
}

/// Writes a text to a file, as a whole.
pub(super) fn write_file(path: &Path, text: &str) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    std::fs::write(partial, text).map_err(|e| Error::io(partial, &e))?;
    std::fs::rename(partial, path).map_err(|e| Error::io(path, &e))
}

/// Returns a message for each value that was ended.
pub(super) fn value_messages(stats: &Stats) -> Vec<String> {
    let guarded = stats.guarded.iter().map(|pointer| {
        format!("warning: #{pointer} repeated itself and was ended (--no-guard lets it continue)")
    });
    let shortened = stats.shortened.iter().map(|pointer| {
        format!("#{pointer} did not fit into its maxLength and ends early (--fill-strings fills it)")
    });
    guarded.chain(shortened).collect()
}

/// Writes one line of statistics to standard error, and the report of the draft gate if there is
/// one.
pub(super) fn print_summary(stats: &Stats) {
    eprintln!(
        "{} tokens in {} forwards ({:.1} a forward), {} forced, {} drafted, {} accepted, {:.2} s, {}",
        stats.tokens,
        stats.forwards,
        stats.tokens_per_forward,
        stats.forced,
        stats.drafted,
        stats.accepted,
        stats.seconds,
        stats.mode.name(),
    );
    if let Some(gate) = &stats.gate {
        eprint!("{gate}");
    }
}
