//! Free text with bounds on its number of characters.
//!
//! Such a text is counted together with the text that ends it, which has a fixed length. So each
//! possible end has a node of its own: the free texts that this end follows first, with the end.
//!
//! # Cost
//! One automaton of the free text for each text that can end it.
//!
//! # Alternatives considered
//! A node for the free text alone was rejected. It could end after each of its characters, and where
//! the text that ends it has begun, only what follows decides whether it was the end.

use std::rc::Rc;

use super::ast::CharBounds;
use super::free_text::FreeText;
use super::graph::{Follow, StateIx, TagGraph};
use crate::constraint::ir::{Node, NodeId};
use crate::error::Result;

/// Builds the transitions of a bounded free text without tags.
pub(super) fn build(
    text: FreeText,
    bounds: CharBounds,
    graph: &mut TagGraph<'_>,
    follow: Follow,
) -> Result<()> {
    text.check_follow(graph, &follow)?;
    if follow.end {
        let lang = language(&text, graph, &follow, None)?;
        let end = graph.end();
        add(&text, graph, lang, bounds.with(0), end);
    }
    let mut known: Vec<(Rc<str>, NodeId)> = Vec::new();
    for (opener, state) in &follow.texts {
        let lang = match known.iter().find(|known| known.0 == *opener) {
            Some(known) => known.1,
            None => {
                let lang = language(&text, graph, &follow, Some(opener))?;
                known.push((opener.clone(), lang));
                lang
            }
        };
        add(&text, graph, lang, bounds.with(opener.chars().count()), *state);
    }
    Ok(())
}

fn add(
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
fn language(
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
