//! Lowers the tree of formats to one flat automaton.
//!
//! Each format is built in front of what follows it (Thompson's construction from the right). So a
//! loop is an edge back, and no part that follows is ever copied. A free text must know the first
//! texts of what follows, because they end it. In a loop these are known only when everything else
//! is built, so free texts wait in a queue until then.
//!
//! # Cost
//! Linear in the formats, with repetitions written out.
//!
//! # Alternatives considered
//! Nested nodes of the representation were rejected: the texts that end a free text would be copied
//! into every alternative before it. That doubles with each level.

use std::rc::Rc;

use rustc_hash::FxHashSet;

use super::ast::{CharBounds, Format, FormatKind, Tag, TagCount, Triggered};
use super::free_text::FreeText;
use super::graph::{Follow, StateIx, TagGraph};
use super::trie::TriggerTrie;
use crate::constraint::ir::{Ir, Node, NodeId};
use crate::constraint::json::document::{Doc, Id};
use crate::error::Result;
use crate::warning::{Warning, WarningKind};

/// Index of a [`First`].
type FirstIx = u32;

/// The possible beginnings of a format.
#[derive(Debug, Clone)]
enum First {
    /// The end of the whole output.
    End,
    /// A text that is not empty, and the state after it.
    Text(Rc<str>, StateIx),
    Either(FirstIx, FirstIx),
    /// A format that does not begin with fixed texts.
    Open(Id),
}

/// The continuation of a format: its state, and its possible beginnings.
#[derive(Debug, Clone, Copy)]
struct Next {
    state: StateIx,
    first: FirstIx,
}

/// A free text that is still to be built.
struct PendingFreeText {
    text: FreeText,
    chars: CharBounds,
    next: Next,
}

/// The lowering of a tree of formats.
struct FormatLowering<'a> {
    graph: TagGraph<'a>,
    firsts: Vec<First>,
    waiting: Vec<PendingFreeText>,
}

/// Builds the automaton of a format and returns its node.
pub(super) fn build(doc: &Doc, ir: &mut Ir, format: &Format) -> Result<NodeId> {
    let mut formats =
        FormatLowering { graph: TagGraph::new(doc, ir), firsts: vec![First::End], waiting: Vec::new() };
    let start = formats.format(format, Next { state: 0, first: 0 })?.state;
    let waiting = std::mem::take(&mut formats.waiting);
    for PendingFreeText { text, chars, next } in waiting {
        let follow = formats.follow(next.first);
        match chars {
            CharBounds::FREE => text.build(&mut formats.graph, follow)?,
            chars => bounded_text(text, chars, &mut formats.graph, follow)?,
        }
    }
    Ok(formats.graph.finish(start))
}

impl FormatLowering<'_> {
    fn first(&mut self, first: First) -> FirstIx {
        self.firsts.push(first);
        self.firsts.len() as FirstIx - 1
    }

    /// Builds `format` in front of `next`.
    fn format(&mut self, format: &Format, next: Next) -> Result<Next> {
        let at = format.at;
        match &format.kind {
            FormatKind::Text(text) => self.text(text, next, at),
            FormatKind::Node(node) => {
                let state = self.graph.state(at)?;
                self.graph.edge(state, *node, next.state);
                Ok(Next { state, first: self.first(First::Open(at)) })
            }
            FormatKind::AnyText { excludes, chars } => {
                let (begins, triggers) = (Rc::new([]), Rc::new([]));
                let text =
                    FreeText { at, entry: 0, begins, triggers, excludes: excludes.clone(), may_end: true };
                self.free_text(text, *chars, next)
            }
            FormatKind::Sequence(parts) => {
                parts.iter().rev().try_fold(next, |next, part| self.format(part, next))
            }
            FormatKind::Or(parts) => {
                let parts: Vec<Next> =
                    parts.iter().map(|part| self.format(part, next)).collect::<Result<_>>()?;
                self.union(&parts, at)
            }
            FormatKind::Repeat { content, min, max } => self.repeat(content, (*min, *max), next),
            FormatKind::Tag(tag) => {
                let inner = self.inside(tag, next)?;
                self.text(&tag.begin.text, inner, at)
            }
            FormatKind::Triggered(triggered) => self.triggered(triggered, at, next),
            FormatKind::Separated { tags, separator, many } => {
                self.separated(tags, separator, *many, at, next)
            }
        }
    }

    fn text(&mut self, text: &Rc<str>, next: Next, at: Id) -> Result<Next> {
        if text.is_empty() {
            return Ok(next);
        }
        let state = self.graph.state(at)?;
        let node = self.graph.ir.bytes(text.as_bytes());
        self.graph.edge(state, node, next.state);
        Ok(Next { state, first: self.first(First::Text(text.clone(), next.state)) })
    }

    /// Returns the choice between some continuations.
    fn union(&mut self, parts: &[Next], at: Id) -> Result<Next> {
        let [one, rest @ ..] = parts else { return Err(self.graph.too_large(at)) };
        if rest.is_empty() {
            return Ok(*one);
        }
        let state = self.graph.state(at)?;
        let mut first = one.first;
        self.graph.add_empty_edge(state, one.state);
        for part in rest {
            self.graph.add_empty_edge(state, part.state);
            first = self.first(First::Either(first, part.first));
        }
        Ok(Next { state, first })
    }

    fn repeat(&mut self, content: &Format, (min, max): (u32, Option<u32>), next: Next) -> Result<Next> {
        let at = content.at;
        let (mut here, mut min) = (next, min);
        match max {
            Some(max) => {
                for _ in min..max {
                    let body = self.format(content, here)?;
                    if body.state == here.state {
                        // A repetition of nothing is nothing.
                        return Ok(next);
                    }
                    here = self.union(&[body, next], at)?;
                }
            }
            None => {
                let again = Next { state: self.graph.state(at)?, first: self.first(First::End) };
                let body = self.format(content, again)?;
                if body.state != again.state {
                    self.graph.add_empty_edge(again.state, body.state);
                }
                self.graph.add_empty_edge(again.state, next.state);
                self.firsts[again.first as usize] = First::Either(body.first, next.first);
                here = again;
                if min > 0 {
                    here = body;
                    min -= 1;
                }
            }
        }
        for _ in 0..min {
            let body = self.format(content, here)?;
            if body.state == here.state {
                break;
            }
            here = body;
        }
        Ok(here)
    }

    /// Builds the part of a tag after its `begin`.
    fn inside(&mut self, tag: &Tag, next: Next) -> Result<Next> {
        let at = tag.begin.at;
        let ends: Vec<Next> = tag.ends.iter().map(|end| self.text(end, next, at)).collect::<Result<_>>()?;
        let end = self.union(&ends, at)?;
        self.format(&tag.content, end)
    }

    /// Returns the texts with which tags begin, and the states after them.
    fn begins(&mut self, tags: &[Tag], next: Next) -> Result<Vec<(Rc<str>, Next)>> {
        tags.iter().map(|tag| Ok((tag.begin.text.clone(), self.inside(tag, next)?))).collect()
    }

    /// Adds a free text, whose transitions are built last.
    fn free_text(&mut self, mut text: FreeText, chars: CharBounds, next: Next) -> Result<Next> {
        let at = text.at;
        text.entry = self.graph.state(at)?;
        let state = text.entry;
        self.waiting.push(PendingFreeText { text, chars, next });
        Ok(Next { state, first: self.first(First::Open(at)) })
    }

    fn triggered(&mut self, triggered: &Triggered, at: Id, next: Next) -> Result<Next> {
        let Triggered { triggers, tags, excludes, many } = triggered;
        self.warn_idle(triggered);
        // After a tag the free text continues, in a state that must exist before the tags do.
        let behind = match many.stop_after_first {
            true => next,
            false => Next { state: self.graph.state(at)?, first: self.first(First::Open(at)) },
        };
        let begins: Rc<[(Rc<str>, StateIx)]> =
            self.begins(tags, behind)?.into_iter().map(|(text, inner)| (text, inner.state)).collect();
        let text = |formats: &mut Self, may_end| {
            let (begins, triggers, excludes) = (begins.clone(), triggers.clone(), excludes.clone());
            let text = FreeText { at, entry: 0, begins, triggers, excludes, may_end };
            formats.free_text(text, CharBounds::FREE, next)
        };
        if many.stop_after_first {
            return text(self, !many.at_least_one);
        }
        let free = text(self, true)?;
        self.graph.add_empty_edge(behind.state, free.state);
        if many.at_least_one { text(self, false) } else { Ok(free) }
    }

    /// Warns about triggers with which no tag begins.
    fn warn_idle(&mut self, triggered: &Triggered) {
        let mut begins: Vec<&str> = triggered.tags.iter().map(|t| &*t.begin.text).collect();
        begins.sort_unstable();
        for trigger in triggered.triggers.iter() {
            let at = begins.partition_point(|b| *b < &*trigger.text);
            if !begins.get(at).is_some_and(|b| b.starts_with(&*trigger.text)) {
                let place = self.graph.doc.pointer(trigger.at);
                let message = "no tag begins with this trigger, so it is never written";
                self.graph.ir.warnings.push(Warning::new(WarningKind::UnusedTrigger, message).at(place));
            }
        }
    }

    fn separated(
        &mut self,
        tags: &[Tag],
        separator: &Rc<str>,
        many: TagCount,
        at: Id,
        next: Next,
    ) -> Result<Next> {
        let behind = match many.stop_after_first {
            true => next,
            false => Next { state: self.graph.state(at)?, first: self.first(First::End) },
        };
        let begins = self.begins(tags, behind)?;
        let mut trie = TriggerTrie::default();
        let mut first = None;
        for (text, inner) in begins {
            trie.insert(&text, Some(inner.state));
            let own = match text.is_empty() {
                true => inner.first,
                false => self.first(First::Text(text, inner.state)),
            };
            first = Some(first.map_or(own, |first| self.first(First::Either(first, own))));
        }
        let mut states = trie.states();
        let state = states.reach(&mut self.graph, 0, at)?;
        states.build(&mut self.graph, &trie, at)?;
        let tags = Next { state, first: first.unwrap_or(next.first) };
        if !many.stop_after_first {
            let again = self.text(separator, tags, at)?;
            self.graph.add_empty_edge(behind.state, again.state);
            self.graph.add_empty_edge(behind.state, next.state);
            self.firsts[behind.first as usize] = First::Either(again.first, next.first);
        }
        if many.at_least_one { Ok(tags) } else { self.union(&[tags, next], at) }
    }

    /// Returns all possible beginnings of `first`.
    fn follow(&self, first: FirstIx) -> Follow {
        let mut follow = Follow::default();
        let mut seen = FxHashSet::default();
        let mut todo = vec![first];
        while let Some(at) = todo.pop() {
            if !seen.insert(at) {
                continue;
            }
            match &self.firsts[at as usize] {
                First::End => follow.end = true,
                First::Text(text, state) => follow.texts.push((text.clone(), *state)),
                First::Either(a, b) => todo.extend([*b, *a]),
                First::Open(at) => follow.open = follow.open.or(Some(*at)),
            }
        }
        follow
    }
}

/// Builds the transitions of a free text without tags that has bounds on its number of characters. It
/// is counted together with the text that ends it, which has a fixed length. A node for the free text
/// alone could end after each of its characters.
fn bounded_text(text: FreeText, bounds: CharBounds, graph: &mut TagGraph<'_>, follow: Follow) -> Result<()> {
    text.check_follow(graph, &follow)?;
    if follow.end {
        let lang = bounded_language(&text, graph, &follow, None)?;
        let end = graph.end();
        add_bounded(&text, graph, lang, bounds.with(0), end);
    }
    let mut known: Vec<(Rc<str>, NodeId)> = Vec::new();
    for (opener, state) in &follow.texts {
        let lang = match known.iter().find(|known| known.0 == *opener) {
            Some(known) => known.1,
            None => {
                let lang = bounded_language(&text, graph, &follow, Some(opener))?;
                known.push((opener.clone(), lang));
                lang
            }
        };
        add_bounded(&text, graph, lang, bounds.with(opener.chars().count()), *state);
    }
    Ok(())
}

fn add_bounded(
    text: &FreeText,
    graph: &mut TagGraph<'_>,
    lang: NodeId,
    (min_chars, max_chars): (u32, Option<u32>),
    to: StateIx,
) {
    let node = graph.ir.push(Node::Text { lang, min_chars, max_chars });
    graph.edge(text.entry, node, to);
}

/// Returns the free texts that one of the possible texts ends, with this text; `None`: those that
/// the end of the output ends.
fn bounded_language(
    text: &FreeText,
    graph: &mut TagGraph<'_>,
    follow: &Follow,
    opener: Option<&Rc<str>>,
) -> Result<NodeId> {
    graph.nested(|graph| {
        let entry = graph.state(text.at)?;
        let elsewhere = graph.state(text.at)?;
        let to = |other: &Rc<str>| if Some(other) == opener { graph.end() } else { elsewhere };
        let texts = follow.texts.iter().map(|(other, _)| (other.clone(), to(other))).collect();
        let own = FreeText {
            at: text.at,
            entry,
            begins: Rc::new([]),
            triggers: Rc::new([]),
            excludes: text.excludes.clone(),
            may_end: true,
        };
        own.build(graph, Follow { texts, end: opener.is_none(), open: None })?;
        Ok(entry)
    })
}
