//! Extraction from many texts: their sources, and the outputs that a later run can resume.
//!
//! A [`CorpusRun`] takes texts and gives what became of them, in their order. It runs them in batches, cuts
//! long ones into parts, and keeps what it was asked for: lines of JSON as soon as they are complete, a
//! table, a report, failures. The program, `Extractor::extract_many` and the Python package use it.
//!
//! | file | subject |
//! | --- | --- |
//! | `document`, `texts`, `separated`, `encoding` | where texts come from |
//! | `places` | pages and boxes of words |
//! | `run`, `parts`, `rows` | the texts in work, and the rows of long tables |
//! | `task`, `line`, `grounding` | a text, and what is written about it |
//! | `journal`, `made_by` | the lines, and what made them |
//! | `table`, `report` | what is made of the lines |
//!
//! # Cost
//!
//! The texts and outcomes of two batches are in memory at a time, and some 100 bytes for each text of a
//! resumed run. Each output costs a write for each text.
//!
//! # Alternatives considered
//!
//! Outputs as consumers of an iterator of records were rejected: whether a text is done must be known
//! before its request is made. Parquet was rejected as a feature of this crate: builds with and without
//! it could not share the model runner. The program hands down what reads and writes it.

mod document;
mod encoding;
mod grounding;
mod journal;
mod line;
mod parts;
mod places;
mod provenance;
mod report;
mod rows;
mod run;
mod separated;
mod table;
mod task;
mod texts;

pub use document::{Document, MAX_INPUT, place, read_bytes, read_text};
pub use encoding::Encoding;
pub use grounding::{Grounding, GroundingOptions};
pub use journal::replace;
pub use line::Outcome;
pub use places::{Places, WordPlace};
pub use rows::{LIST_TOKENS, MissingRow, RowCount, list_of};
pub use run::{CorpusOptions, CorpusRun, Done, Ended, SetRequest, Start, is_output};
pub use table::{Columns, Lines, TableFormat, WriteTable, text_of};
pub use task::Task;
pub use texts::{DocumentReader, DocumentTexts, OpenTable, ReadDocument, TextOptions, texts_of};
