//! Tests on texts: patterns, formats and the source of `x-verbatim`, as automata.
//!
//! # Cost
//!
//! The automaton of a test is made once in a run. Those of formats are shared by all runs.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::format_automata;
use super::shape::{StringPart, Test};
use crate::char_lang::byte_nfa::ByteNfa;
use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::ir::{Ir, NodeId, SpanSource};
use crate::constraint::json::document::{Doc, Id, Symbol};
use crate::constraint::substring::{Source, SubstringOptions};
use crate::constraint::{ecma, format};
use crate::error::{Error, ErrorKind, Result};

/// Source of `x-verbatim`; its automaton is made when the keyword is met.
pub(super) struct Quoted<'s> {
    text: &'s str,
    options: &'s SubstringOptions,
    source: Option<Rc<Source>>,
    /// Nodes of all spans, with and without the empty one.
    pub nodes: [Option<NodeId>; 2],
}

/// Tests of one run, with their automata.
#[derive(Default)]
pub(super) struct TextTests<'p> {
    /// Nodes of languages that only automata of this front end read.
    scratch: Ir,
    /// Automata by test; `None` for unknown formats.
    automata: FxHashMap<Test, Option<Arc<CharDfa>>>,
    /// Nodes of formats by name; `None` for unknown ones.
    formats: FxHashMap<Symbol, Option<NodeId>>,
    /// Source text of `x-verbatim`.
    pub quoted: Option<Quoted<'p>>,
}

impl<'s> Quoted<'s> {
    /// Returns the text with its options, if the schema refers to it.
    pub fn used(&self) -> Option<SpanSource> {
        self.source.as_ref().map(|_| SpanSource::new(self.text, self.options))
    }

    pub fn new(text: &'s str, options: &'s SubstringOptions) -> Self {
        Quoted { text, options, source: None, nodes: [None; 2] }
    }
}

impl TextTests<'_> {
    /// Returns the language of a format, as a node that only automata read.
    fn format_node(&mut self, doc: &Doc, name: Symbol) -> Option<NodeId> {
        let scratch = &mut self.scratch;
        *self.formats.entry(name).or_insert_with(|| format::language(doc.name(name), scratch))
    }

    /// Returns true if a format is more than an annotation.
    pub fn knows_format(&mut self, doc: &Doc, name: Symbol) -> bool {
        self.format_node(doc, name).is_some()
    }

    /// Returns the automaton of a test on text; `None` for an unknown format.
    pub fn automaton(&mut self, doc: &Doc, test: Test, at: Id) -> Result<Option<Arc<CharDfa>>> {
        if let Some(known) = self.automata.get(&test) {
            return Ok(known.clone());
        }
        let dfa = match test {
            Test::Equals(name) => Some(CharDfa::words([doc.name(name)])),
            Test::Pattern(name) => {
                let node = ecma::parse(doc.name(name), &mut self.scratch).map_err(|e| e.at(doc.place(at)))?;
                Some(ByteNfa::new(&self.scratch, node).and_then(|nfa| CharDfa::from_nfa(&nfa)))
            }
            Test::Verbatim => {
                let node = self.source(doc, at)?.graph().node(&mut self.scratch);
                Some(node.and_then(|node| CharDfa::from_nfa(&ByteNfa::new(&self.scratch, node)?)))
            }
            Test::Format(name) => {
                let dfa = format_automata::automaton(doc.name(name)).map_err(|e| e.at(doc.place(at)))?;
                self.automata.insert(test, dfa.clone());
                return Ok(dfa);
            }
        };
        let dfa = dfa.transpose().map_err(|e| e.at(doc.place(at)))?.map(Arc::new);
        self.automata.insert(test, dfa.clone());
        Ok(dfa)
    }

    /// Returns the automaton of all texts that may be of a format, also those that are not
    /// generated; `None` for an unknown format.
    pub fn widest_format(&mut self, doc: &Doc, name: Symbol, at: Id) -> Result<Option<Arc<CharDfa>>> {
        let Some(node) = format::superset(doc.name(name), &mut self.scratch) else {
            return self.automaton(doc, Test::Format(name), at);
        };
        let dfa = ByteNfa::new(&self.scratch, node).and_then(|nfa| CharDfa::from_nfa(&nfa));
        dfa.map(|dfa| Some(Arc::new(dfa))).map_err(|e| e.at(doc.place(at)))
    }

    /// Returns true if a text is of a format, as far as that is known.
    ///
    /// # Errors
    /// `Unsupported` for texts that may be of the format and are not generated.
    pub fn is_of_format(&mut self, doc: &Doc, name: Symbol, text: Symbol, at: Id) -> Result<bool> {
        if self.passes(doc, Test::Format(name), text, at)? {
            return Ok(true);
        }
        match self.widest_format(doc, name, at)? {
            Some(widest) if widest.matches(doc.name(text)) => {
                let format = doc.name(name);
                let message = format!("whether {:?} is a `{format}` is not known", doc.name(text));
                let error = Error::new(ErrorKind::Unsupported, message).at(doc.place(at));
                Err(error.hint("the constraints page says what formats leave out"))
            }
            _ => Ok(false),
        }
    }

    /// Returns true if a text passes a test; unknown formats accept everything.
    pub fn passes(&mut self, doc: &Doc, test: Test, text: Symbol, at: Id) -> Result<bool> {
        match test {
            Test::Equals(name) => return Ok(name == text),
            Test::Verbatim => return self.quotes(doc, text, at),
            _ => {}
        }
        Ok(self.automaton(doc, test, at)?.is_none_or(|dfa| dfa.matches(doc.name(text))))
    }

    /// Returns the names that match one of the patterns.
    pub fn any_pattern(&mut self, doc: &Doc, patterns: &[(Symbol, Id)]) -> Result<Arc<CharDfa>> {
        let mut all: Option<Arc<CharDfa>> = None;
        for &(pattern, at) in patterns {
            let Some(dfa) = self.automaton(doc, Test::Pattern(pattern), at)? else { continue };
            all = Some(match all {
                Some(all) => Arc::new(all.union(&dfa).map_err(|e| e.at(doc.place(at)))?),
                None => dfa,
            });
        }
        match all {
            Some(all) => Ok(all),
            None => CharDfa::words([]).map(Arc::new),
        }
    }

    /// Returns the texts that pass all tests; `None`: all texts.
    pub fn language(&mut self, doc: &Doc, part: &StringPart) -> Result<Option<Arc<CharDfa>>> {
        let mut all: Option<Arc<CharDfa>> = None;
        let mut excluded: Vec<Symbol> = Vec::new();
        for &(test, holds, at) in &part.tests {
            let own = match (test, holds) {
                (Test::Equals(name), false) => {
                    excluded.push(name);
                    continue;
                }
                (Test::Format(name), false) => self.widest_format(doc, name, at)?,
                _ => self.automaton(doc, test, at)?,
            };
            let Some(own) = own else { continue };
            let language = match (all, holds) {
                (Some(all), true) => all.intersect(&own).map(Arc::new),
                (Some(all), false) => all.without(&own).map(Arc::new),
                (None, true) => Ok(own),
                (None, false) => Ok(Arc::new((*own).clone().complement())),
            };
            all = Some(language.map_err(|e| e.at(doc.place(at)))?);
        }
        if !excluded.is_empty() {
            let words = CharDfa::words(excluded.iter().map(|&n| doc.name(n)))?;
            all = Some(Arc::new(match all {
                Some(all) => all.without(&words)?,
                None => words.complement(),
            }));
        }
        Ok(all)
    }

    /// Returns the source.
    pub fn source(&mut self, doc: &Doc, at: Id) -> Result<Rc<Source>> {
        let place = doc.place(at);
        let Some(quoted) = &mut self.quoted else {
            let message = "`x-verbatim` means a source text, and none was given";
            return Err(Error::new(ErrorKind::InvalidSchema, message).at(place).hint(
                "give the text with `ConstraintBuilder::source`, or on the command line with --source",
            ));
        };
        if let Some(source) = &quoted.source {
            return Ok(source.clone());
        }
        let source = Rc::new(Source::new(quoted.text, quoted.options).map_err(|e| e.at(place))?);
        quoted.source = Some(source.clone());
        Ok(source)
    }

    /// Returns true if a text is a span.
    pub fn quotes(&mut self, doc: &Doc, text: Symbol, at: Id) -> Result<bool> {
        let source = self.source(doc, at)?;
        Ok(source.find(doc.name(text)).is_some())
    }
}
