//! `ffwd text`: the text of documents, as `ffwd extract` reads it.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use super::{help, output};
use crate::documents;
use crate::error::Result;
use crate::extract::corpus::{Document, TextOptions};

const EXAMPLES: [(&str, &str); 3] = [
    ("Print the text of a PDF", "ffwd text invoice.pdf"),
    ("Print an e-mail and its attachments", "ffwd text mail.eml"),
    ("Print each word with its page and box, as JSON", "ffwd text scan.hocr --json"),
];

/// Print the text of PDF, e-mail, HTML, Word and hOCR files, as `ffwd extract` reads it
///
/// Pages are separated by a form feed. Lines are those of the page, from the top to the bottom; columns of
/// running text are read one after the other. What cannot be read is a warning.
#[derive(clap::Args)]
#[command(after_help = help::examples(&EXAMPLES))]
pub(super) struct Args {
    /// Read these files, folders, or quoted patterns such as 'mails/**/*.eml'
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print a line of JSON for each text: `source`, `text`, and `words` with byte offsets, page and box
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let options =
        TextOptions { files: args.files.clone(), document: Some(documents::texts), ..TextOptions::default() };
    let mut texts = options.read(options.files()?);
    let mut failed = false;
    while let Some(Document { source, text, places, .. }) = texts.next() {
        texts.warnings.drain(..).for_each(|warning| eprintln!("{warning}"));
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                eprintln!("error: {error}");
                failed = true;
                continue;
            }
        };
        if !args.json {
            output::print_text(&text)?;
            continue;
        }
        let words = places.iter().flat_map(|places| &places.0).map(|word| {
            let [left, top, right, bottom] = word.area;
            json!([word.bytes.start, word.bytes.end, word.page, left, top, right, bottom])
        });
        let words: Vec<_> = words.collect();
        output::print_json(&json!({"source": source.display().to_string(), "text": text, "words": words}))?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
