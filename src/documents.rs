//! Documents as texts of a run: what `ffwd extract` and other runs over files read them with.
//!
//! # Cost
//! That of `ffwd-documents`, and a copy of the places of words.

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use ffwd_documents::{PlacedWord, Text, read};

use crate::error::{Error, ErrorKind, Place, Result};
use crate::extract::corpus::{Document, DocumentTexts, Places, WordPlace};

/// Reads a document for [`TextOptions::document`](crate::extract::corpus::TextOptions::document): its text,
/// and those of what is attached, each with a source such as `mail.eml#invoice.pdf`. `None` if it is of
/// another kind.
///
/// A part whose pages are images only is a failure of its own, not an empty text.
///
/// # Errors
/// As [`read`].
pub fn texts(path: &Path, bytes: &[u8]) -> Result<Option<DocumentTexts>> {
    let Some(texts) = read(path, bytes)? else { return Ok(None) };
    let mut all = DocumentTexts::default();
    for text in texts {
        let mut source = path.as_os_str().to_owned();
        if !text.name.is_empty() {
            source.push(format!("#{}", text.name));
        }
        let source = PathBuf::from(source);
        all.warnings.extend(text.warnings.iter().map(|warning| format!("{}: {warning}", source.display())));
        all.pages_without_text += text.pages_without_text;
        let empty = text.text.trim().is_empty() && text.pages_without_text > 0;
        let place = |word: PlacedWord| WordPlace { bytes: word.bytes, page: word.page, area: word.area };
        let places = Places(text.words.into_iter().map(place).collect());
        let text = if empty { Err(no_text(&source, text.pages_without_text)) } else { Ok(text.text) };
        let places = (!places.0.is_empty()).then(|| Arc::new(places));
        all.documents.push(Document { source, id: None, text, places });
    }
    Ok(Some(all))
}

fn no_text(source: &Path, pages: usize) -> Error {
    let what = if pages == 1 { "its page is an image" } else { "its pages are images" };
    Error::new(ErrorKind::Unsupported, format!("there is no text in it: {what}"))
        .at(Place::File(source.into()))
        .hint("recognise the text first; the output of such programs in hOCR keeps its places")
}
