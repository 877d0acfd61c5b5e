//! Spans of a source text: quotations that a model must copy byte for byte.
//!
//! The source is cut into pieces: characters, words with the text between them, or parts at given
//! offsets. The suffix automaton of the sequence of pieces (module `automaton`) becomes a graph
//! over characters (module `graph`) and then a node of the common representation.
//!
//! # What a span is
//!
//! A contiguous part of the source, byte for byte; nothing is normalised. It begins and ends
//! between two characters (Unicode scalar values), or only at words or at given offsets, depending
//! on [`Bounds`]. The empty text counts as a span only if [`SubstringOptions::min_chars`] is 0.
//!
//! # Cost
//!
//! Everything is linear in the source. Only the states that a generation visits are determinised.
//!
//! # Alternatives considered
//!
//! Listing all spans was rejected, because their number is quadratic. A regular expression of all
//! suffixes was rejected, because determinising it would be quadratic.

mod automaton;
mod graph;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rustc_hash::{FxHashMap, FxHashSet};

use self::automaton::{START, SuffixAutomaton};
pub use self::graph::MAX_SPAN_STATES;
use self::graph::Piece;
pub(crate) use self::graph::SubstringGraph;
pub use super::ir::{Bounds, SubstringOptions};
use super::ir::{Ir, Node, NodeId, SpanSource};
use super::json::document;
use crate::error::{Error, ErrorKind, Result};

/// Maximum size of a source, in bytes. Up to this size the automaton of nearly any text fits into
/// the machine's limit. The exceptions are texts full of control characters in JSON, which encodes
/// each with six characters.
pub const MAX_SOURCE_BYTES: usize = 200_000;

/// Occurrences of a text in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrences {
    /// Byte offsets of the first occurrence.
    pub first: Range<usize>,
    /// Number of occurrences, overlapping ones included.
    pub count: usize,
}

/// A source text with the automaton of its spans.
///
/// ```
/// # fn main() -> ffwd_engine::Result<()> {
/// use ffwd_engine::constraint::substring::{Source, SubstringOptions};
///
/// let source = Source::new("to be or not to be", &SubstringOptions::words())?;
/// let found = source.find("to be").expect("it is quoted");
/// assert_eq!((found.first, found.count), (0..5, 2));
/// assert_eq!(source.find("o be"), None); // begins inside a word
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Source {
    text: String,
    min_chars: u32,
    /// The pieces, by symbol.
    pieces: Vec<Piece>,
    /// Byte offset of each piece of the text, and the end of the last one.
    offsets: Vec<u32>,
    automaton: SuffixAutomaton,
}

/// A source text of a grammar. The automaton of its spans is built at the first search.
#[derive(Debug, Clone)]
pub struct SourceText {
    data: Arc<SpanSource>,
    source: OnceLock<Option<Source>>,
}

impl PartialEq for SourceText {
    fn eq(&self, other: &Self) -> bool {
        self.data == other.data
    }
}

impl SourceText {
    pub(crate) fn new(data: Arc<SpanSource>) -> Self {
        SourceText { data, source: OnceLock::new() }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.data.text
    }

    /// Finds the occurrences of a text as a span, like [`Source::find`].
    pub fn find(&self, span: &str) -> Option<Occurrences> {
        let SpanSource { text, options } = &*self.data;
        // Building the constraint already built this source, so it cannot fail here.
        let source = self.source.get_or_init(|| Source::new(text, options).ok());
        source.as_ref()?.find(span)
    }
}

impl Source {
    /// Builds the automaton, in time linear in the text.
    ///
    /// # Errors
    /// `TooComplex` for a text above [`MAX_SOURCE_BYTES`]. `InvalidOption` for offsets that do not
    /// ascend or do not lie between characters of the text.
    pub fn new(text: &str, options: &SubstringOptions) -> Result<Self> {
        if text.len() > MAX_SOURCE_BYTES {
            let message =
                format!("the source text has {} bytes; the limit is {MAX_SOURCE_BYTES}", text.len());
            return Err(Error::new(ErrorKind::TooComplex, message)
                .hint("cut the text to the part that matters, or use one constraint per section"));
        }
        let offsets = match &options.bounds {
            Bounds::Characters => text.char_indices().map(|(at, _)| at as u32).skip(1).collect(),
            Bounds::Words => word_offsets(text),
            Bounds::Offsets(offsets) => given_offsets(text, offsets)?,
        };
        let is_gap = |piece: &str| options.bounds == Bounds::Words && piece.trim().is_empty();
        let offsets: Vec<u32> = match text.len() {
            0 => vec![0],
            len => std::iter::once(0).chain(offsets).chain([len as u32]).collect(),
        };
        let mut known: FxHashMap<&str, u32> = FxHashMap::default();
        // Most pieces are single bytes, which need no hashing.
        let mut of_byte = [None; 128];
        let mut pieces: Vec<Piece> = Vec::new();
        let mut symbols = Vec::with_capacity(offsets.len());
        for pair in offsets.windows(2) {
            let (start, end) = (pair[0], pair[1]);
            let piece = &text[start as usize..end as usize];
            let mut new = || {
                pieces.push(Piece { start, end, gap: is_gap(piece) });
                pieces.len() as u32 - 1
            };
            symbols.push(match *piece.as_bytes() {
                [byte @ ..0x80] => *of_byte[usize::from(byte)].get_or_insert_with(new),
                _ => *known.entry(piece).or_insert_with(&mut new),
            });
        }
        let automaton = SuffixAutomaton::new(&symbols);
        Ok(Source { text: text.into(), min_chars: options.min_chars, pieces, offsets, automaton })
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the minimum number of characters of a span.
    pub fn min_chars(&self) -> u32 {
        self.min_chars
    }

    /// Finds the occurrences of a text as a span; returns `None` if it is not one. The empty text,
    /// if it is allowed, occurs once, at the beginning. The search looks at all transitions of each
    /// state on its path.
    pub fn find(&self, span: &str) -> Option<Occurrences> {
        if span.is_empty() {
            return (self.min_chars == 0).then_some(Occurrences { first: 0..0, count: 1 });
        }
        let mut chars = span.chars();
        if (0..self.min_chars).any(|_| chars.next().is_none()) {
            return None;
        }
        // States, and how many bytes of the span led there. With given offsets there may be several
        // ways to cut the span into pieces; each occurrence is cut in one way only.
        let mut todo = vec![(START, 0)];
        let mut seen = FxHashSet::default();
        let mut found: Option<Occurrences> = None;
        while let Some((state, done)) = todo.pop() {
            for (symbol, to) in self.automaton.edges(state) {
                let piece = &self.pieces[symbol as usize];
                let text = &self.text[piece.start as usize..piece.end as usize];
                let end = done + text.len();
                let bound = done == 0 || end == span.len();
                if !span[done..].starts_with(text) || bound && piece.gap || !seen.insert((to, end)) {
                    continue;
                }
                if end < span.len() {
                    todo.push((to, end));
                    continue;
                }
                let state = &self.automaton.states[to as usize];
                let last = self.offsets[state.first_end as usize] as usize;
                let (first, count) = (last - span.len()..last, state.count as usize);
                found = Some(match found {
                    None => Occurrences { first, count },
                    Some(other) => Occurrences {
                        first: if first.start < other.first.start { first } else { other.first },
                        count: other.count + count,
                    },
                });
            }
        }
        found
    }

    /// Finds the strings of a JSON text (values, not names) that are spans of the source. Returns
    /// their JSON pointers and occurrences, in the order of the text.
    ///
    /// # Errors
    /// `InvalidJson` if the text is not JSON, `TooComplex` if it exceeds a limit.
    pub fn locate(&self, json: &str) -> Result<Vec<(String, Occurrences)>> {
        let doc = document::Doc::parse(json)?;
        let mut todo = vec![doc.root()];
        let mut found = Vec::new();
        while let Some(id) = todo.pop() {
            match doc.value(id) {
                document::Value::String(text) => {
                    found.extend(self.find(doc.name(text)).map(|o| (doc.pointer(id), o)));
                }
                document::Value::Array { .. } => todo.extend(doc.elements(id).iter().rev()),
                document::Value::Object { .. } => todo.extend(doc.members(id).iter().rev().map(|m| m.1)),
                _ => {}
            }
        }
        Ok(found)
    }

    /// Returns all spans of any length, and the empty text.
    pub(crate) fn graph(&self) -> SubstringGraph {
        SubstringGraph::new(&self.automaton, &self.pieces, &self.text)
    }

    /// Returns the language of the spans.
    fn node(&self, ir: &mut Ir) -> Result<NodeId> {
        self.graph().at_least(self.min_chars)?.node(ir)
    }
}

/// Returns the language of the spans of a source.
///
/// # Errors
/// The same as [`Source::new`]. `Unsatisfiable` if there is no span. `TooComplex` if the spans of
/// the minimum length need more than [`MAX_SPAN_STATES`] states.
pub(crate) fn parse(text: &str, options: &SubstringOptions) -> Result<Ir> {
    let mut ir = Ir::new();
    let root = Source::new(text, options)?.node(&mut ir)?;
    ir.add_source(Arc::new(SpanSource::new(text, options)));
    if *ir.node(root) == Node::Never {
        let message = "the source text has no span of the required length and bounds";
        return Err(Error::new(ErrorKind::Unsatisfiable, message)
            .hint("give a longer text, or allow the empty span with `min_chars: 0`"));
    }
    ir.set_root(root);
    Ok(ir)
}

/// Returns the offsets at which words and the text between them begin, except the first.
fn word_offsets(text: &str) -> Vec<u32> {
    #[derive(PartialEq, Clone, Copy)]
    enum Kind {
        Word,
        Space,
        Other,
    }
    let kind = |c: char| match c {
        _ if regex_syntax::is_word_character(c) => Kind::Word,
        _ if c.is_whitespace() => Kind::Space,
        _ => Kind::Other,
    };
    let mut offsets = Vec::new();
    let mut before = None;
    for (at, c) in text.char_indices() {
        let here = kind(c);
        if before.is_some_and(|before| before != here || here == Kind::Other) {
            offsets.push(at as u32);
        }
        before = Some(here);
    }
    offsets
}

/// Checks the given offsets and returns those between the beginning and the end.
fn given_offsets(text: &str, offsets: &[usize]) -> Result<Vec<u32>> {
    let mut checked = Vec::with_capacity(offsets.len());
    for &at in offsets {
        if !text.is_char_boundary(at) {
            let message = format!("the offset {at} is not between two characters of the source text");
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        if checked.last().is_some_and(|&last| last as usize > at) {
            let message = format!("the offset {at} of the source text comes after a larger one");
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        if at > 0 && at < text.len() && checked.last() != Some(&(at as u32)) {
            checked.push(at as u32);
        }
    }
    Ok(checked)
}
