//! A source text with the options that decide which of its parts are spans.
//!
//! It is data only. The module [`substring`](crate::constraint::substring) builds languages from
//! it and finds spans in it.

/// Positions at which a span may begin and end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Bounds {
    /// Between any two characters.
    #[default]
    Characters,
    /// At words: a span begins with the first character of a word and ends with the last of one. A
    /// *word* is a longest run of word characters (letters, marks, digits, connectors such as `_`:
    /// `\w` of Unicode regular expressions). Every other character that is not white space is a
    /// word by itself. So a span never cuts `2024` or `café`, never begins or ends with white
    /// space, and may leave off a full stop.
    Words,
    /// At the beginning, the end, and these byte offsets of the source, in ascending order. They
    /// suit sentences, fields, or tokens (see
    /// [`Vocabulary::boundaries`](crate::Vocabulary::boundaries)).
    Offsets(Vec<usize>),
}

/// Options that decide which parts of a source are its spans.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SubstringOptions {
    /// Positions at which a span may begin and end.
    pub bounds: Bounds,
    /// Minimum number of characters of a span (default 1). With 0, the empty text is a span of
    /// every source.
    pub min_chars: u32,
}

impl Default for SubstringOptions {
    fn default() -> Self {
        SubstringOptions { bounds: Bounds::Characters, min_chars: 1 }
    }
}

impl SubstringOptions {
    /// Returns the options for spans of whole words.
    pub fn words() -> Self {
        SubstringOptions { bounds: Bounds::Words, ..Self::default() }
    }
}

/// A source text of verbatim spans, with its options.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpanSource {
    /// The text.
    pub text: Box<str>,
    /// The options.
    pub options: SubstringOptions,
}

impl SpanSource {
    pub(in crate::constraint) fn new(text: &str, options: &SubstringOptions) -> Self {
        SpanSource { text: text.into(), options: options.clone() }
    }
}

/// Text that strings copy from, with the options that define a span of it.
pub(in crate::constraint) type Quoting<'a> = Option<(&'a str, &'a SubstringOptions)>;
