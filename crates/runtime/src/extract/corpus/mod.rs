//! Extraction from many texts: their sources, and the outputs that a later run can resume.
//!
//! A [`CorpusRun`] takes texts and gives what became of them, in their order. It runs them in batches, cuts
//! long ones into parts, and keeps what it was asked for: lines of JSON as soon as they are complete, a
//! table, a report, failures. The program, `Extractor::extract_many` and the Python package use it.
//!
//! | file | subject |
//! | --- | --- |
//! | `texts`, `separated`, `parquet_texts`, `encoding` | where texts come from |
//! | `run`, `parts` | the texts in work |
//! | `line`, `grounding` | what is written about a text |
//! | `journal`, `made_by` | the lines, and what made them |
//! | `table`, `parquet_table`, `report` | what is made of the lines |
//!
//! # Cost
//!
//! The texts and outcomes of two batches are in memory at a time, and some 100 bytes for each text of a
//! resumed run. Each output costs a write for each text.
//!
//! # Alternatives considered
//!
//! Outputs as consumers of an iterator of records were rejected: whether a text is done must be known
//! before its request is made.

mod encoding;
mod grounding;
mod journal;
mod line;
mod made_by;
#[cfg(feature = "parquet")]
mod parquet_table;
#[cfg(feature = "parquet")]
mod parquet_texts;
mod parts;
mod report;
mod run;
mod separated;
mod table;
mod texts;

use std::io::Read;
use std::path::Path;

use serde::Serialize;

use crate::error::{Error, ErrorKind, Place, Result};

pub use encoding::Encoding;
pub use grounding::{Grounding, GroundingOptions};
pub use line::Task;
pub use run::{CorpusOptions, CorpusRun, Done, Ended, Outcome, SetRequest, Start, is_output};
pub use table::TableFormat;
pub use texts::{Document, DocumentReader, MAX_INPUT, TextOptions};

/// Reads a text, of which a byte order mark is dropped; `-` is standard input.
///
/// # Errors
/// `Io` if the file cannot be read or is not in UTF-8 or UTF-16, `TooComplex` if it is larger than
/// [`MAX_INPUT`].
pub fn read_text(path: &Path) -> Result<String> {
    ffwd_engine::text::decode(read_bytes(path)?).map_err(|e| e.at(Place::File(path.into())))
}

/// Reads a file, or standard input for `-`.
fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    let fail = |e: &std::io::Error| Error::io(path, e);
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(MAX_INPUT + 1).read_to_end(&mut bytes).map_err(|e| fail(&e))?;
    } else {
        let file = std::fs::File::open(path).map_err(|e| fail(&e))?;
        file.take(MAX_INPUT + 1).read_to_end(&mut bytes).map_err(|e| fail(&e))?;
    }
    if bytes.len() as u64 > MAX_INPUT {
        let message = format!("the input is larger than {} MiB", MAX_INPUT >> 20);
        return Err(Error::new(ErrorKind::TooComplex, message).at(Place::File(path.into())));
    }
    Ok(bytes)
}

fn json(line: &impl Serialize) -> Result<String> {
    serde_json::to_string(line)
        .map_err(|e| Error::new(ErrorKind::Io, format!("a record cannot be written as JSON: {e}")))
}
