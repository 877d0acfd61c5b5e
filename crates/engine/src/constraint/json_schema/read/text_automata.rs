//! Automata of texts: patterns, formats and the source of `x-verbatim`.
//!
//! # Cost
//!
//! The automaton of a test is made once in a run. Those of formats are shared by all schemas:
//! determinising one takes longer than most schemas take as a whole, and it depends on nothing. So
//! each is made once, on the first use or by [`prepare_formats`], and kept.
//!
//! # Alternatives considered
//!
//! Tables of formats made when the crate is built were rejected: nearly all schemas need none of
//! them, and they would add to every program.

use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use crate::char_lang::byte_nfa::ByteNfa;
use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::ir::{Ir, NodeId, SpanSource};
use crate::constraint::json::document::{Doc, Id, Symbol};
use crate::constraint::substring::{Source, SubstringOptions};
use crate::constraint::{ecma, format};
use crate::error::{Error, ErrorKind, Result};

/// A condition on the text of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Test {
    Pattern(Symbol),
    Format(Symbol),
    Equals(Symbol),
    /// The text is a span of the source of `x-verbatim`.
    Verbatim,
}

/// A test with the schema value it comes from; `false`: the test must fail.
pub(crate) type StringTest = (Test, bool, Id);

/// Source of `x-verbatim`; its automaton is made when the keyword is met.
pub(crate) struct Quoted<'s> {
    text: &'s str,
    options: &'s SubstringOptions,
    source: Option<Rc<Source>>,
    /// Nodes of all spans, with and without the empty one.
    pub nodes: [Option<NodeId>; 2],
}

/// Tests of one run, with their automata.
#[derive(Default)]
pub(crate) struct TextAutomata<'p> {
    /// Nodes of languages that only automata of this front end read.
    scratch: Ir,
    /// Automata by test; `None` for unknown formats.
    automata: FxHashMap<Test, Option<Arc<CharDfa>>>,
    /// Source text of `x-verbatim`.
    pub quoted: Option<Quoted<'p>>,
}

impl<'s> Quoted<'s> {
    /// Returns the text with its options, if the schema refers to it.
    pub(crate) fn used(&self) -> Option<SpanSource> {
        self.source.as_ref().map(|_| SpanSource::new(self.text, self.options))
    }

    pub(crate) fn new(text: &'s str, options: &'s SubstringOptions) -> Self {
        Quoted { text, options, source: None, nodes: [None; 2] }
    }
}

impl TextAutomata<'_> {
    /// Returns the automaton of a test on text; `None` for an unknown format.
    pub(crate) fn automaton(&mut self, doc: &Doc, test: Test, at: Id) -> Result<Option<Arc<CharDfa>>> {
        if let Some(known) = self.automata.get(&test) {
            return Ok(known.clone());
        }
        let scratch = &mut self.scratch;
        let dfa = match test {
            Test::Equals(name) => CharDfa::words([doc.name(name)]).map(|dfa| Some(Arc::new(dfa))),
            Test::Pattern(name) => {
                ecma::parse(doc.name(name), scratch).and_then(|node| of_node(scratch, node))
            }
            Test::Verbatim => {
                let source = self.source(doc, at)?;
                let node = source.graph().node(&mut self.scratch);
                node.and_then(|node| of_node(&self.scratch, node))
            }
            Test::Format(name) => of_format(doc.name(name)),
        };
        let dfa = dfa.map_err(|e| e.at(doc.place(at)))?;
        self.automata.insert(test, dfa.clone());
        Ok(dfa)
    }

    /// Returns the automaton of all texts that may be of a format, also those that are not
    /// generated; `None` for an unknown format.
    pub(crate) fn widest_format(&mut self, doc: &Doc, name: Symbol, at: Id) -> Result<Option<Arc<CharDfa>>> {
        let Some(node) = format::superset(doc.name(name), &mut self.scratch) else {
            return self.automaton(doc, Test::Format(name), at);
        };
        of_node(&self.scratch, node).map_err(|e| e.at(doc.place(at)))
    }

    /// Returns true if a text is of a format, as far as that is known.
    ///
    /// # Errors
    /// `Unsupported` for texts that may be of the format and are not generated.
    pub(crate) fn is_of_format(&mut self, doc: &Doc, name: Symbol, text: Symbol, at: Id) -> Result<bool> {
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
    pub(crate) fn passes(&mut self, doc: &Doc, test: Test, text: Symbol, at: Id) -> Result<bool> {
        match test {
            Test::Equals(name) => return Ok(name == text),
            Test::Verbatim => return Ok(self.source(doc, at)?.find(doc.name(text)).is_some()),
            _ => {}
        }
        Ok(self.automaton(doc, test, at)?.is_none_or(|dfa| dfa.matches(doc.name(text))))
    }

    /// Returns the names that match one of the patterns.
    pub(crate) fn any_pattern(&mut self, doc: &Doc, patterns: &[(Symbol, Id)]) -> Result<Arc<CharDfa>> {
        let mut all: Option<Arc<CharDfa>> = None;
        for &(pattern, at) in patterns {
            if let Some(dfa) = self.automaton(doc, Test::Pattern(pattern), at)? {
                all = Some(join(all, dfa).map_err(|e| e.at(doc.place(at)))?);
            }
        }
        all.map_or_else(|| CharDfa::words([]).map(Arc::new), Ok)
    }

    /// Returns the texts that pass all tests; `None`: all texts.
    pub(crate) fn language(&mut self, doc: &Doc, tests: &[StringTest]) -> Result<Option<Arc<CharDfa>>> {
        let mut all: Option<Arc<CharDfa>> = None;
        let mut excluded: Vec<Symbol> = Vec::new();
        for &(test, holds, at) in tests {
            let own = match (test, holds) {
                (Test::Equals(name), false) => {
                    excluded.push(name);
                    continue;
                }
                (Test::Format(name), false) => self.widest_format(doc, name, at)?,
                _ => self.automaton(doc, test, at)?,
            };
            let Some(own) = own else { continue };
            let language = restrict(all.as_deref(), &own, holds);
            all = Some(language.map_err(|e| e.at(doc.place(at)))?);
        }
        if !excluded.is_empty() {
            let words = CharDfa::words(excluded.iter().map(|&n| doc.name(n)))?;
            all = Some(restrict(all.as_deref(), &Arc::new(words), false)?);
        }
        Ok(all)
    }

    /// Returns the source.
    pub(crate) fn source(&mut self, doc: &Doc, at: Id) -> Result<Rc<Source>> {
        let place = doc.place(at);
        let Some(quoted) = &mut self.quoted else {
            let message = "`x-verbatim` means a source text, and none was given";
            let hint = "give the text with `ConstraintBuilder::source`, or on the command line with --source";
            return Err(Error::new(ErrorKind::InvalidSchema, message).at(place).hint(hint));
        };
        if let Some(source) = &quoted.source {
            return Ok(source.clone());
        }
        let source = Rc::new(Source::new(quoted.text, quoted.options).map_err(|e| e.at(place))?);
        quoted.source = Some(source.clone());
        Ok(source)
    }
}

/// Returns the automaton of a node that only automata read.
fn of_node(ir: &Ir, node: NodeId) -> Result<Option<Arc<CharDfa>>> {
    Ok(Some(Arc::new(CharDfa::from_nfa(&ByteNfa::new(ir, node)?)?)))
}

/// Returns the texts of two automata; `None` has no text.
pub(crate) fn join(all: Option<Arc<CharDfa>>, own: Arc<CharDfa>) -> Result<Arc<CharDfa>> {
    all.map_or(Ok(own.clone()), |all| all.union(&own).map(Arc::new))
}

/// Returns the texts of `all` (`None`: all texts) that an automaton accepts; `holds` is false: that
/// it does not accept.
pub(crate) fn restrict(all: Option<&CharDfa>, own: &Arc<CharDfa>, holds: bool) -> Result<Arc<CharDfa>> {
    match (all, holds) {
        (Some(all), true) => all.intersect(own).map(Arc::new),
        (Some(all), false) => all.without(own).map(Arc::new),
        (None, true) => Ok(own.clone()),
        (None, false) => Ok(Arc::new(CharDfa::clone(own).complement())),
    }
}

/// Returns the automaton of the decoded texts of a format; `None` for an unknown format.
///
/// # Errors
/// `TooComplex` for one that is too large, as from `CharDfa::from_nfa`.
fn of_format(name: &str) -> Result<Option<Arc<CharDfa>>> {
    static MADE: [OnceLock<Arc<CharDfa>>; format::NAMES.len()] =
        [const { OnceLock::new() }; format::NAMES.len()];
    let Some(at) = format::NAMES.iter().position(|&n| n == name) else { return Ok(None) };
    if let Some(made) = MADE[at].get() {
        return Ok(Some(made.clone()));
    }
    let mut ir = Ir::new();
    let Some(node) = format::language(name, &mut ir) else { return Ok(None) };
    let dfa = of_node(&ir, node)?;
    // Another thread may have made it meanwhile.
    Ok(dfa.map(|dfa| MADE[at].get_or_init(|| dfa).clone()))
}

/// Makes the automata of all formats that are not too large.
pub(crate) fn prepare_formats() {
    for name in format::NAMES {
        if let Err(error) = of_format(name) {
            // A use of the format reports the error.
            tracing::debug!(%error, name, "no automaton of a format");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_an_automaton_that_is_made_once() {
        prepare_formats();
        for name in format::NAMES {
            let (one, again) = (of_format(name).unwrap().unwrap(), of_format(name).unwrap().unwrap());
            assert!(Arc::ptr_eq(&one, &again), "{name}");
            assert!(!one.matches("(\u{0}["), "{name}");
        }
        assert!(of_format("no-such-format").unwrap().is_none());
        let date = of_format("date").unwrap().unwrap();
        assert!(date.matches("2024-02-29") && !date.matches("2023-02-29"));
    }
}
