//! The tree of formats, as it is written.
//!
//! One node per format of the document, with the place of each for errors. Leaves (schemas, regular
//! expressions, grammars) are already nodes of the representation. `optional`, `plus`, `star` and
//! `repeat` are one kind, and the older form of the document is the newer one's `triggered_tags`: a
//! kind for each name was rejected, since they would only differ in how they are read.

use std::rc::Rc;

use crate::constraint::ir::NodeId;
use crate::constraint::json::document::Id;

/// A format and its place.
#[derive(Debug)]
pub(super) struct Format {
    pub at: Id,
    pub kind: Kind,
}

/// What a format is.
#[derive(Debug)]
pub(super) enum Kind {
    /// Exactly this text.
    Text(Rc<str>),
    /// What a node of the representation says.
    Node(NodeId),
    /// Any text without these.
    AnyText { excludes: Rc<[Phrase]> },
    /// All of these, one after the other.
    Sequence(Vec<Format>),
    /// One of these.
    Or(Vec<Format>),
    /// `min` to `max` times (`None`: without end).
    Repeat { content: Box<Format>, min: u32, max: Option<u32> },
    /// One tag.
    Tag(Box<Tag>),
    /// Free text with tags.
    Triggered(Box<Triggered>),
    /// Tags with a text between them.
    Separated { tags: Vec<Tag>, separator: Rc<str>, many: Many },
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
    pub many: Many,
}

/// How many tags there must and may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Many {
    pub at_least_one: bool,
    pub stop_after_first: bool,
}

/// A text and its place.
#[derive(Debug, Clone)]
pub(super) struct Phrase {
    pub text: Rc<str>,
    pub at: Id,
}
