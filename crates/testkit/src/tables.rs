//! Measured tables inside the documentation, between two comments that name them:
//! `<!-- measured: NAME -->` and `<!-- end of NAME -->`.
//!
//! Benchmarks write their tables only when `FFWD_WRITE_TABLES` is set, as `benches/tables.sh` does. Generating
//! whole pages was rejected: what surrounds a table explains it, and is written by hand.

use std::path::Path;

/// The text with the table of a name replaced; `None` if it has no place for it.
pub fn replaced(text: &str, name: &str, table: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- measured: {name} -->\n"), format!("<!-- end of {name} -->"));
    let from = text.find(&begin)? + begin.len();
    let to = from + text[from..].find(&end)?;
    Some(format!("{}{}\n{}", &text[..from], table.trim_end(), &text[to..]))
}

/// Writes a table into a file of the repository, if tables are to be written.
pub fn put(file: &str, name: &str, table: &str) -> Result<(), String> {
    if std::env::var_os("FFWD_WRITE_TABLES").is_none() {
        return Ok(());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{file}: {e}"))?;
    let text = replaced(&text, name, table).ok_or(format!("{file} has no place for the table `{name}`"))?;
    std::fs::write(&path, text).map_err(|e| format!("{file}: {e}"))
}
