//! Strings: patterns, formats, lengths, and `x-verbatim`.
//!
//! A string with one test is the node of that test. Several tests become one automaton over
//! characters (`char_lang::char_dfa`), as do excluded values.
//!
//! With `x-verbatim`, a string is a span of a given source text. The bounds on the length of the
//! span and of the string become bounds of the string node, and only the product of the spans with
//! the automaton of the other tests is built.
//!
//! # Cost
//!
//! For spans, linear in the pairs that the product reaches. These are few if the pattern starts
//! like few positions of the source.
//!
//! # Alternatives considered
//!
//! An automaton of the spans over characters, as for all other tests, was rejected: its limits are
//! those of patterns, a few kilobytes of source.

use super::super::read::{StringTest, Test};
use super::super::shape::{Shape, StringPart, lower_max};
use super::lowering::SchemaLowering;
use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::ecma::{self, Pattern};
use crate::constraint::ir::{Node, NodeId};
use crate::constraint::substring::{Source, SubstringGraph};
use crate::constraint::{format, regular};
use crate::error::Result;

/// A class of characters, with the minimum and maximum number of its repetitions.
type Repeated = (Vec<(char, char)>, u32, Option<u32>);

impl SchemaLowering<'_> {
    pub(super) fn string(&mut self, shape: &Shape) -> Result<NodeId> {
        let part = &shape.string;
        let key = (part.tests.iter().map(|t| (t.0, t.1)).collect(), part.min, part.max);
        if let Some(&node) = self.strings.get(&key) {
            return Ok(node);
        }
        let node = self.string_language(part)?;
        if self.nodes.is_never(node) {
            let at = part.tests.first().map_or(self.representative_schema(shape), |t| t.2);
            self.cause.get_or_insert_with(|| (at, "no text satisfies all of the string keywords".into()));
        }
        self.strings.insert(key, node);
        Ok(node)
    }

    fn string_language(&mut self, part: &StringPart) -> Result<NodeId> {
        if part.tests.iter().any(|t| t.0 == Test::Verbatim) {
            return self.quoted_string(part);
        }
        let mut only = None;
        if let Some((ranges, min_chars, max_chars)) = self.classes(part, &mut only) {
            if max_chars.is_some_and(|max| max < min_chars) {
                return Ok(self.nodes.never);
            }
            let lang = Some(ecma::class_star(&ranges, &mut self.nodes.ir));
            return Ok(self.nodes.ir.push(Node::JsonString { lang, min_chars, max_chars }));
        }
        let context = &mut self.normalizer.context;
        let lang = match part.tests[..] {
            [] => None,
            [(Test::Pattern(name), true, at)] => {
                let text = context.doc.name(name);
                let node = match only {
                    // The pattern was parsed for the class check.
                    Some(pattern) => pattern.node(text, &mut self.nodes.ir),
                    None => ecma::parse(text, &mut self.nodes.ir),
                };
                Some(node.map_err(context.locate(at))?)
            }
            [(Test::Format(name), true, _)] => format::language(context.doc.name(name), &mut self.nodes.ir),
            _ => match context.language(&part.tests)?.filter(|dfa| !dfa.is_everything()) {
                None => None,
                Some(dfa) if dfa.is_empty() => return Ok(self.nodes.never),
                Some(dfa) => {
                    let lowered = regular::to_ir::lower(&dfa, &mut self.nodes.ir);
                    Some(lowered.map_err(context.locate(part.tests[0].2))?)
                }
            },
        };
        if lang.is_some_and(|l| self.nodes.is_never(l)) {
            return Ok(self.nodes.never);
        }
        Ok(self.nodes.ir.push(Node::JsonString { lang, min_chars: part.min, max_chars: part.max }))
    }

    /// If all tests are patterns of one repeated class: returns the common class and length bounds.
    /// Otherwise leaves the first other pattern in `other`.
    fn classes(&self, part: &StringPart, other: &mut Option<Pattern>) -> Option<Repeated> {
        let (mut min, mut max) = (part.min, part.max);
        let mut common: Option<Vec<(char, char)>> = None;
        for &(test, holds, _) in &part.tests {
            let Test::Pattern(pattern) = test else { return None };
            let pattern = Pattern::parse(self.normalizer.context.doc.name(pattern)).ok().filter(|_| holds)?;
            let Some((ranges, least, most)) = pattern.single_class() else {
                *other = Some(pattern);
                return None;
            };
            min = min.max(least);
            if let Some(most) = most {
                lower_max(&mut max, most);
            }
            common = Some(match common {
                None => ranges,
                Some(old) => old
                    .iter()
                    .flat_map(|a| ranges.iter().map(move |b| (a.0.max(b.0), a.1.min(b.1))))
                    .filter(|r| r.0 <= r.1)
                    .collect(),
            });
        }
        // An empty class is left to the general case.
        common.filter(|c| !c.is_empty()).map(|c| (c, min, max))
    }

    /// Builds the strings of a part that must be verbatim.
    fn quoted_string(&mut self, part: &StringPart) -> Result<NodeId> {
        let context = &mut self.normalizer.context;
        let (verbatim, tests): (Vec<StringTest>, Vec<StringTest>) =
            part.tests.iter().partition(|t| t.0 == Test::Verbatim);
        let at = verbatim[0].2;
        let source = context.texts.source(&context.doc, at)?;
        let rest = context.language(&tests)?;
        if u64::from(part.min) > source.text().chars().count() as u64 {
            return Ok(self.nodes.never);
        }
        // A minimum of one character is expressed in states, not counted. With longer minima the
        // empty span may stay, so that the text may end in every state and the count alone decides.
        let empty = part.min != 1;
        let lang = self.spans(&source, rest.as_deref(), empty);
        let lang = lang.map_err(self.normalizer.context.locate(at))?;
        let nothing = match self.nodes.ir.node(lang) {
            Node::Automaton { states, .. } => part.min > 0 && states[0].edges.is_empty(),
            node => *node == Node::Never,
        };
        if nothing {
            return Ok(self.nodes.never);
        }
        let min_chars = if empty { part.min } else { 0 };
        Ok(self.nodes.ir.push(Node::JsonString { lang: Some(lang), min_chars, max_chars: part.max }))
    }

    /// Returns the node of the spans that pass `rest`, too. The empty span is among them only if
    /// `empty`. [`Node::Never`] if there is no span.
    fn spans(&mut self, source: &Source, rest: Option<&CharDfa>, empty: bool) -> Result<NodeId> {
        let all = || source.graph().at_least(u32::from(!empty));
        if let Some(dfa) = rest.filter(|dfa| !dfa.is_everything()) {
            return passing(&all()?, dfa)?.node(&mut self.nodes.ir);
        }
        let made = self.normalizer.context.texts.quoted.as_mut().map(|q| &mut q.nodes[usize::from(empty)]);
        if let Some(&mut Some(node)) = made {
            return Ok(node);
        }
        let node = all()?.node(&mut self.nodes.ir)?;
        made.into_iter().for_each(|made| *made = Some(node));
        Ok(node)
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
