//! Options of `ffwd extract` that say which texts are read, how they are cut, and what is said about
//! values.

use std::path::PathBuf;

use crate::extract::ChunkOptions;
use crate::extract::corpus::{Encoding, GroundingOptions, LIST_TOKENS, TextOptions};

/// Options that choose the texts.
#[derive(clap::Args)]
pub(super) struct DocumentArgs {
    /// Read these texts: files, folders, or quoted patterns such as 'mails/**/*.txt' (`-` = standard input)
    ///
    /// Folders are read with all folders in them, by name; hidden files are left out. PDF, .eml, .mbox,
    /// .html, .docx and .hocr files are read as `ffwd text` prints them; attachments are texts of their own.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Of folders, read only files whose name matches PATTERN, such as '*.txt' (repeatable)
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Read JSON Lines, CSV or Parquet: the text is in field NAME of each line or row
    ///
    /// Files that end in .csv or .tsv are tables with a header, those that end in .parquet are
    /// Parquet, all others are JSON Lines.
    #[arg(long, value_name = "NAME")]
    text_field: Option<String>,
    /// Copy field NAME of each line or row to the output, as `id`
    #[arg(long, value_name = "NAME", requires = "text_field")]
    id_field: Option<String>,
    /// Read files in this encoding: utf-8, utf-16le, utf-16be or windows-1252
    ///
    /// A byte order mark decides, if there is one. Without both, a table whose first rows are not UTF-8
    /// is read as windows-1252, with a warning.
    #[arg(long, value_name = "NAME")]
    encoding: Option<Encoding>,
    /// Of tables, take rows with faults as they are, and count them in a warning
    ///
    /// These are rows with more or fewer fields than the header, quotes that are not closed, and two
    /// columns of one name, of which the first is taken. Without this option they are failures.
    #[arg(long, requires = "text_field")]
    lenient: bool,
}

impl DocumentArgs {
    pub(super) fn options(&self) -> TextOptions {
        TextOptions {
            files: self.files.clone(),
            include: self.include.clone(),
            text_field: self.text_field.clone(),
            id_field: self.id_field.clone(),
            encoding: self.encoding,
            lenient: self.lenient,
            #[cfg(feature = "parquet")]
            parquet: Some(super::parquet_texts::open),
            #[cfg(not(feature = "parquet"))]
            parquet: None,
            #[cfg(feature = "documents")]
            document: Some(crate::documents::texts),
            #[cfg(not(feature = "documents"))]
            document: None,
        }
    }
}

/// Options that ground values.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Grounding")]
pub(super) struct GroundingArgs {
    /// Add `confidence` to each line: how probable each value is
    ///
    /// A map from JSON pointers to `probability` (the product over the tokens that the schema leaves
    /// free), `margin` (the smallest lead of a token over the next one) and `legal_mass` (the smallest
    /// share of the model's probability on legal tokens). Prints a line also for one file.
    #[arg(long, conflicts_with = "stream")]
    confidence: bool,
    /// Add to `confidence` the probabilities of all values of enums and the like; costs forwards
    ///
    /// `alternatives` lists up to 64 values, the most probable first, and `rest` is what no value has
    /// got.
    #[arg(long, requires = "confidence")]
    alternatives: bool,
    /// Add `spans` to each line: where in the text each value is
    ///
    /// A map from JSON pointers to `bytes` and `chars`, each a pair of offsets. Strings with
    /// `"x-verbatim": true` that occur several times have `occurrences` instead, a list of these. Other
    /// strings and numbers have a span only if the text contains them exactly once as a whole word. Values
    /// of enums whose words are not in the text are in `unsupported`. Prints a line also for one file.
    #[arg(long, conflicts_with = "stream")]
    spans: bool,
    /// Leave out values that are less probable than P: they become null where the schema allows it
    ///
    /// The line lists them in `abstained`, with their values and probabilities. Prints a line also for one
    /// file.
    #[arg(long, value_name = "P", conflicts_with = "stream", value_parser = probability)]
    abstain: Option<f64>,
    /// Copy all strings from the text that the schema leaves free
    ///
    /// As if each of them had `"x-verbatim": true` in the schema. Strings with values, a pattern or a
    /// format stay as they are.
    #[arg(long)]
    pub verbatim: bool,
}

fn probability(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "a probability is a number from 0 to 1".to_owned())
}

impl GroundingArgs {
    pub(super) fn options(&self) -> GroundingOptions {
        let GroundingArgs { confidence, alternatives, spans, abstain, .. } = *self;
        GroundingOptions { confidence, alternatives, spans, abstain }
    }
}

/// Options of long texts.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Long texts")]
pub(super) struct ChunkArgs {
    /// Cut texts into parts of at most N tokens, at the ends of sentences
    ///
    /// Each part is extracted by itself. The line of a text has `records`, a list of objects with
    /// `record` and `chunks`, the parts that it comes from. Items of lists are records of their own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(16..))]
    chunk_tokens: Option<u32>,
    /// Begin each part with the last sentences or words of the one before it, at most N tokens
    #[arg(long, value_name = "N", default_value_t = 0, requires = "chunk_tokens")]
    chunk_overlap: u32,
    /// Put the rows of a long table into the list NAME of one record, and count those that are missing
    ///
    /// NAME is a property of the schema, also as the pointer /NAME; `"x-rows": true` at the property in the
    /// schema does the same. The records of all parts of a text are one record, with the rows of
    /// all of them. Lines of the text that look like rows are counted: `rows` in the line, and a message, say
    /// how many were found, and which are missing. Parts have 100 tokens if --chunk-tokens names no number.
    #[arg(long, value_name = "NAME", conflicts_with = "merge_key")]
    pub list: Option<String>,
    /// Merge the records of a text that have the same value at NAME (repeatable)
    ///
    /// NAME is a property, or a JSON pointer such as /customer/name. Records are the same if they
    /// agree in all of the keys. The first one gets what it lacks from the others.
    #[arg(long, value_name = "NAME", requires = "chunk_tokens")]
    pub merge_key: Vec<String>,
}

impl ChunkArgs {
    /// Returns the lengths of parts, if texts are cut.
    pub(super) fn options(&self, is_list: bool) -> Option<ChunkOptions> {
        let tokens = self.chunk_tokens.map(|tokens| tokens as usize);
        let (tokens, overlap) = (tokens.or(is_list.then_some(LIST_TOKENS))?, self.chunk_overlap as usize);
        Some(ChunkOptions { tokens, overlap })
    }
}
