//! Writing results: whole or not at all, and quietly when nobody reads on.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::decode::Stats;
use crate::error::{Error, ErrorKind, Result};

/// Writes one line to standard output. Whether anybody still reads is the reader's business: a closed
/// pipe is no error.
pub(super) fn line(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::io("standard output", &e)),
        _ => Ok(()),
    }
}

/// Writes a piece of text to standard output, at once.
pub(super) fn print_text(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::io("standard output", &e)),
        _ => Ok(()),
    }
}

/// Writes figures as JSON to a file (replaced as a whole) or, for `-`, to standard output.
pub(super) fn write_stats(path: &Path, figures: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(figures)
        .map_err(|e| Error::new(ErrorKind::Io, format!("the figures cannot be written as JSON: {e}")))?;
    if path == Path::new("-") {
        return line(&text);
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    std::fs::write(partial, text + "\n").map_err(|e| Error::io(partial, &e))?;
    std::fs::rename(partial, path).map_err(|e| Error::io(path, &e))
}

/// The line of costs on standard error, and what the gate decided, if that was asked for.
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
