//! Readers of documents: bytes in; text, the place of each word, and warnings out.
//!
//! | file | subject |
//! | --- | --- |
//! | `reader`, `document` | what a reader is, and what it returns |
//! | `pdf`, `layout` | glyphs of PDF pages, and lines and columns made of them |
//! | `mail` | e-mails and mailboxes with their attachments |
//! | `html`, `hocr` | web pages, and text with boxes that another program has recognised |
//! | `docx` | Word |
//!
//! A reader never fails in silence: a page without text, a part that cannot be read, and an attachment of an
//! unknown kind are warnings.
//!
//! # Cost
//! Linear in the file. A file and what it unpacks to are in memory, at most [`MAX_UNPACKED`] bytes of each
//! part.
//!
//! # Alternatives considered
//! `pdf_oxide` and `pdf-extract` were measured beside `hayro` (docs/benchmarks.md). Calling `pdftotext` was
//! rejected: extraction would depend on what is installed, and the place of a word would be lost.

mod document;
mod docx;
mod hocr;
mod html;
mod layout;
mod mail;
mod pdf;
mod reader;

pub use document::{MAX_UNPACKED, PlacedWord, Text};

use std::path::Path;

use ffwd_engine::Result;
use ffwd_engine::error::Place;
use reader::{DocumentKind, Nested};

const READERS: [&dyn DocumentKind; 6] =
    [&pdf::Pdf, &mail::Mail, &mail::Mailbox, &hocr::Hocr, &html::Html, &docx::Docx];

fn reader(name: &Path, bytes: &[u8]) -> Option<&'static dyn DocumentKind> {
    let ending = name.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let by_begin = READERS.into_iter().find(|reader| reader.is_begin(bytes));
    by_begin.or_else(|| READERS.into_iter().find(|reader| reader.endings().contains(&&*ending)))
}

/// Reads a document: its text, and those of what is attached, such as the files of an e-mail. Returns `None`
/// for a file of another kind, such as plain text. A file that begins like a PDF is one, whatever its name.
///
/// # Errors
/// `Unsupported` if it is encrypted, `TooComplex` if it unpacks to too much, `Io` if it is broken.
///
/// ```
/// use std::path::Path;
///
/// # fn main() -> ffwd_engine::Result<()> {
/// let page = b"<html><title>T</title><body><p>Total:<b> 12</b><script>x()</script></body></html>";
/// let texts = ffwd_documents::read(Path::new("page.html"), page)?.unwrap();
/// assert_eq!(texts[0].text, "Total: 12\n");
/// assert!(ffwd_documents::read(Path::new("notes.txt"), b"Total: 12")?.is_none());
/// # Ok(())
/// # }
/// ```
pub fn read(name: &Path, bytes: &[u8]) -> Result<Option<Vec<Text>>> {
    read_any(name, bytes, Nested { read: &read_any, depth: 0 })
}

fn read_any(name: &Path, bytes: &[u8], nested: Nested<'_>) -> Result<Option<Vec<Text>>> {
    let Some(reader) = reader(name, bytes) else { return Ok(None) };
    reader.read(bytes, nested).map(Some).map_err(|error| error.at(Place::File(name.into())))
}
