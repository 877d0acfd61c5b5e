//! `x-verbatim`: a string that is a span of a given source text.
//!
//! The bounds on the length of the span and of the string become bounds of the string node.
//! Patterns, formats and excluded values of sibling keywords become one automaton over characters
//! (`regular::char_dfa`). Only its product with the spans is built.
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

use std::rc::Rc;
use std::sync::Arc;

use super::conjunctions::SchemaLowering;
use super::context::SchemaContext;
use super::shape::{Shape, StringPart, Test};
use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::ir::{Node, NodeId, SpanSource};
use crate::constraint::json::document::{Id, Symbol, Value};
use crate::constraint::substring::{Source, SubstringGraph, SubstringOptions};
use crate::error::{ErrorKind, Result};

/// Source of `x-verbatim`; its automaton is made when the keyword is met.
pub(super) struct Quoted<'s> {
    text: &'s str,
    options: &'s SubstringOptions,
    source: Option<Rc<Source>>,
    /// Nodes of all spans, with and without the empty one.
    nodes: [Option<NodeId>; 2],
}

impl<'s> Quoted<'s> {
    pub fn new(text: &'s str, options: &'s SubstringOptions) -> Self {
        Quoted { text, options, source: None, nodes: [None; 2] }
    }
}

impl SchemaContext<'_> {
    /// Returns true if the keyword asserts anything.
    pub fn is_verbatim(&self, at: Id) -> Result<bool> {
        match self.doc.value(at) {
            Value::Bool(holds) => Ok(holds),
            _ => Err(self.invalid(at, "expected a boolean")),
        }
    }

    /// Merges the keyword.
    pub fn verbatim(&mut self, shape: &mut Shape, at: Id) -> Result<()> {
        if self.is_verbatim(at)? {
            // The option's bound is counted by the string node and not expressed in states.
            shape.string.min = shape.string.min.max(self.source(at)?.min_chars());
            shape.string.add(Test::Verbatim, true, at);
        }
        Ok(())
    }

    /// Returns the source, and registers it with the representation on the first use.
    pub fn source(&mut self, at: Id) -> Result<Rc<Source>> {
        let place = self.doc.place(at);
        let Some(quoted) = &mut self.quoted else {
            let message = "`x-verbatim` means a source text, and none was given";
            return Err(self.error(ErrorKind::InvalidSchema, at, message).hint(
                "give the text with `ConstraintBuilder::source`, or on the command line with --source",
            ));
        };
        if let Some(source) = &quoted.source {
            return Ok(source.clone());
        }
        let source = Rc::new(Source::new(quoted.text, quoted.options).map_err(|e| e.at(place))?);
        self.ir.add_source(Arc::new(SpanSource::new(quoted.text, quoted.options)));
        quoted.source = Some(source.clone());
        Ok(source)
    }

    /// Returns true if a text is a span.
    pub fn quotes(&mut self, text: Symbol, at: Id) -> Result<bool> {
        let source = self.source(at)?;
        Ok(source.find(self.doc.name(text)).is_some())
    }

    /// Returns the node of the spans that pass `rest`, too. The empty span is among them only if
    /// `empty`. [`Node::Never`] if there is no span.
    fn spans(&mut self, source: &Source, rest: Option<&CharDfa>, empty: bool) -> Result<NodeId> {
        let all = || source.graph().at_least(u32::from(!empty));
        if let Some(dfa) = rest.filter(|dfa| !dfa.is_everything()) {
            return passing(&all()?, dfa)?.node(&mut self.ir);
        }
        if let Some(node) = self.quoted.as_ref().and_then(|q| q.nodes[usize::from(empty)]) {
            return Ok(node);
        }
        let node = all()?.node(&mut self.ir)?;
        if let Some(quoted) = &mut self.quoted {
            quoted.nodes[usize::from(empty)] = Some(node);
        }
        Ok(node)
    }
}

impl SchemaLowering<'_> {
    /// Builds the strings of a part that must be verbatim.
    pub fn quoted_string(&mut self, part: &StringPart) -> Result<NodeId> {
        let verbatim = |t: &(Test, bool, Id)| t.0 == Test::Verbatim;
        let at = part.tests.iter().find(|t| verbatim(t)).map_or(self.context.doc.root(), |t| t.2);
        let source = self.context.source(at)?;
        let tests = part.tests.iter().filter(|t| !verbatim(t)).copied().collect();
        let rest = self.context.language(&StringPart { tests, ..StringPart::default() })?;
        let longest = source.text().chars().count() as u64;
        if u64::from(part.min) > longest {
            return Ok(self.never);
        }
        let place = self.context.doc.place(at);
        // A minimum of one character is expressed in states, not counted. With longer minima the
        // empty span may stay, so that the text may end in every state and the count alone decides.
        let empty = part.min != 1;
        let lang = self.context.spans(&source, rest.as_deref(), empty).map_err(|e| e.at(place))?;
        let nothing = match self.context.ir.node(lang) {
            Node::Automaton { states, .. } => part.min > 0 && states[0].edges.is_empty(),
            node => *node == Node::Never,
        };
        if nothing {
            return Ok(self.never);
        }
        let min_chars = if empty { part.min } else { 0 };
        let node = Node::JsonString { lang: Some(lang), min_chars, max_chars: part.max };
        Ok(self.context.ir.push(node))
    }
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
