//! Measured tables inside the documentation, between two comments that name them:
//! `<!-- measured: NAME -->` and `<!-- end of NAME -->`.
//!
//! Benchmarks write their tables only when `FFWD_WRITE_TABLES` is set, as `benches/tables.sh` does.
//!
//! # Alternatives considered
//!
//! Generating whole pages was rejected: the text around a table explains it, and is written by
//! hand.

use std::path::Path;

/// The text with the table of a name replaced; `None` without its two markers.
pub fn replaced(text: &str, name: &str, table: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- measured: {name} -->\n"), format!("<!-- end of {name} -->"));
    let from = text.find(&begin)? + begin.len();
    let to = from + text[from..].find(&end)?;
    Some(format!("{}{}\n{}", &text[..from], table.trim_end(), &text[to..]))
}

/// The page with all measured tables.
const PAGE: &str = "docs/benchmarks.md";

/// Writes a table into `docs/benchmarks.md`, if `FFWD_WRITE_TABLES` is set.
pub fn put(name: &str, table: &str) -> Result<(), String> {
    if !crate::env::write_tables() {
        return Ok(());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{PAGE}: {e}"))?;
    let text = replaced(&text, name, table).ok_or(format!("{PAGE} has no markers for the table `{name}`"))?;
    std::fs::write(&path, text).map_err(|e| format!("{PAGE}: {e}"))
}
