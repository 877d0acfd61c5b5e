//! The syntax tree of a structural tag: the kinds of format, whose leaves (schemas, patterns,
//! grammars) are compiled to IR nodes already.
//!
//! Each node has its position in the document, for errors. Leaves (schemas, regular expressions,
//! grammars) are already nodes of the intermediate representation. `optional`, `plus`, `star` and
//! `repeat` are one kind. The older form of the document becomes the newer one's `triggered_tags`.
//!
//! # Alternatives considered
//! A kind for each name was rejected: such kinds would differ only in how they are parsed.

use std::rc::Rc;

use crate::constraint::ir::NodeId;
use crate::constraint::json::document::Id;

/// A format and its position.
#[derive(Debug)]
pub(super) struct Format {
    pub at: Id,
    pub kind: FormatKind,
}

/// The kind of a format, with its parts.
#[derive(Debug)]
pub(super) enum FormatKind {
    /// Exactly this text.
    Text(Rc<str>),
    /// The language of a node of the intermediate representation.
    Node(NodeId),
    /// Any text without the excluded ones, with bounds on its number of characters.
    AnyText { excludes: Rc<[Phrase]>, chars: CharBounds },
    /// All of these in order.
    Sequence(Vec<Format>),
    /// One of these.
    Or(Vec<Format>),
    /// `min` to `max` times (`None`: unbounded).
    Repeat { content: Box<Format>, min: u32, max: Option<u32> },
    /// One tag.
    Tag(Box<Tag>),
    /// Free text with tags.
    Triggered(Box<Triggered>),
    /// Tags with a text between them.
    Separated { tags: Vec<Tag>, separator: Rc<str>, many: TagCount },
}

/// Content between two texts.
#[derive(Debug)]
pub(super) struct Tag {
    pub begin: Phrase,
    pub content: Format,
    /// Any one of these closes the tag; never an empty list.
    pub ends: Vec<Rc<str>>,
}

/// Free text in which tags begin with triggers.
#[derive(Debug)]
pub(super) struct Triggered {
    pub triggers: Rc<[Phrase]>,
    pub tags: Vec<Tag>,
    pub excludes: Rc<[Phrase]>,
    pub many: TagCount,
}

/// Bounds on the number of tags.
#[derive(Debug, Clone, Copy)]
pub(super) struct TagCount {
    pub at_least_one: bool,
    pub stop_after_first: bool,
}

/// A text and its position.
#[derive(Debug, Clone)]
pub(super) struct Phrase {
    pub text: Rc<str>,
    pub at: Id,
}

/// Bounds on the number of characters of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CharBounds {
    pub min: u32,
    /// `None`: no limit.
    pub max: Option<u32>,
}

impl CharBounds {
    pub(super) const FREE: CharBounds = CharBounds { min: 0, max: None };

    /// Returns the bounds of texts with `more` characters.
    pub(super) fn with(self, more: usize) -> (u32, Option<u32>) {
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        (self.min.saturating_add(more), self.max.map(|max| max.saturating_add(more)))
    }
}
