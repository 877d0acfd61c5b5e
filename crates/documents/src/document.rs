//! What readers return: a text, and where its words stand.

use std::ops::Range;

/// Largest number of bytes that a part of a document may unpack to.
pub const MAX_UNPACKED: usize = 256 << 20;

/// The text of a document, or of a part of one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Text {
    /// The path inside of the document, such as `invoice.pdf` for an attachment; empty for the document itself.
    pub name: String,
    /// The text. Pages are separated by a form feed.
    pub text: String,
    /// The words with known places, in the order of the text.
    pub words: Vec<PlacedWord>,
    /// What was not read, or not as it should be.
    pub warnings: Vec<String>,
    /// Number of pages that show something, but have no text.
    pub pages_without_text: usize,
}

/// A part of a text with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedWord {
    /// Byte offsets in the text.
    pub bytes: Range<usize>,
    /// Number of the page; the first is 1.
    pub page: u32,
    /// Left, top, right and bottom edge, from the left upper corner of the page, in the units of the document:
    /// points of a PDF, pixels of hOCR.
    pub area: [f32; 4],
}

impl Text {
    /// Adds a word with its place.
    pub(crate) fn push(&mut self, word: &str, page: u32, area: [f32; 4]) {
        let start = self.text.len();
        self.text.push_str(word);
        self.words.push(PlacedWord { bytes: start..self.text.len(), page, area });
    }

    /// Ends a page.
    pub(crate) fn end_page(&mut self) {
        self.text.push('\u{c}');
    }
}
