//! `x-verbatim`: a string that is a span of a given source text.
//!
//! The bounds on the length of the span and of the string become bounds of the string node.
//! Patterns, formats and excluded values of sibling keywords become one automaton over characters
//! (`char_lang::char_dfa`). Only its product with the spans is built.
//!
//! # Cost
//!
//! Linear in the pairs that the product reaches. These are few if the pattern starts like few
//! positions of the source.
//!
//! # Alternatives considered
//!
//! An automaton of the spans over characters, as for all other tests, was rejected: its limits are
//! those of patterns, a few kilobytes of source.

use super::conjunctions::SchemaLowering;
use super::context::SchemaContext;
use super::shape::{Shape, StringPart, Test};
use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::ir::{Node, NodeId};
use crate::constraint::json::document::Id;
use crate::constraint::substring::{Source, SubstringGraph};
use crate::error::Result;

/// Merges the keyword.
pub(super) fn verbatim(context: &mut SchemaContext<'_>, shape: &mut Shape, at: Id) -> Result<()> {
    if context.is_verbatim(at)? {
        // The option's bound is counted by the string node and not expressed in states.
        shape.string.min = shape.string.min.max(context.texts.source(&context.doc, at)?.min_chars());
        shape.string.add(Test::Verbatim, true, at);
    }
    Ok(())
}

/// Returns the spans that an automaton accepts.
fn passing(spans: &SubstringGraph, dfa: &CharDfa) -> Result<SubstringGraph> {
    let live = dfa.live();
    let step = |state: u32, c: char| {
        let to = dfa.step(state, c as u32);
        live[to as usize].then_some(to)
    };
    spans.product(0, step, |state| dfa.accept[state as usize])
}

impl SchemaLowering<'_> {
    /// Returns the node of the spans that pass `rest`, too. The empty span is among them only if
    /// `empty`. [`Node::Never`] if there is no span.
    fn spans(&mut self, source: &Source, rest: Option<&CharDfa>, empty: bool) -> Result<NodeId> {
        let all = || source.graph().at_least(u32::from(!empty));
        if let Some(dfa) = rest.filter(|dfa| !dfa.is_everything()) {
            return passing(&all()?, dfa)?.node(&mut self.nodes.ir);
        }
        if let Some(node) =
            self.normalizer.context.texts.quoted.as_ref().and_then(|q| q.nodes[usize::from(empty)])
        {
            return Ok(node);
        }
        let node = all()?.node(&mut self.nodes.ir)?;
        if let Some(quoted) = &mut self.normalizer.context.texts.quoted {
            quoted.nodes[usize::from(empty)] = Some(node);
        }
        Ok(node)
    }

    /// Builds the strings of a part that must be verbatim.
    pub fn quoted_string(&mut self, part: &StringPart) -> Result<NodeId> {
        let verbatim = |t: &(Test, bool, Id)| t.0 == Test::Verbatim;
        let at = part.tests.iter().find(|t| verbatim(t)).map_or(self.normalizer.context.doc.root(), |t| t.2);
        let source = self.normalizer.context.texts.source(&self.normalizer.context.doc, at)?;
        let tests = part.tests.iter().filter(|t| !verbatim(t)).copied().collect();
        let rest = self
            .normalizer
            .context
            .texts
            .language(&self.normalizer.context.doc, &StringPart { tests, ..StringPart::default() })?;
        let longest = source.text().chars().count() as u64;
        if u64::from(part.min) > longest {
            return Ok(self.nodes.never);
        }
        let place = self.normalizer.context.doc.place(at);
        // A minimum of one character is expressed in states, not counted. With longer minima the
        // empty span may stay, so that the text may end in every state and the count alone decides.
        let empty = part.min != 1;
        let lang = self.spans(&source, rest.as_deref(), empty).map_err(|e| e.at(place))?;
        let nothing = match self.nodes.ir.node(lang) {
            Node::Automaton { states, .. } => part.min > 0 && states[0].edges.is_empty(),
            node => *node == Node::Never,
        };
        if nothing {
            return Ok(self.nodes.never);
        }
        let min_chars = if empty { part.min } else { 0 };
        let node = Node::JsonString { lang: Some(lang), min_chars, max_chars: part.max };
        Ok(self.nodes.ir.push(node))
    }
}
