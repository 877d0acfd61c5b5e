//! Context of one run: the document with its references, the policy, and the small queries that all
//! parts of the front end use.
//!
//! Examples are the target of a reference, and whether a schema accepts everything. The context has
//! parts with types of their own: automata of texts (`text_automata`), warnings and
//! synthetic schemas. What is remembered of merging is in [`Normalizer`], and a function that needs
//! no merging takes the context alone.
//!
//! # Cost
//!
//! Every answer that may be needed twice is memoised under interned keys. So a run is linear in the
//! number of distinct conjunctions.
//!
//! # Alternatives considered
//!
//! One object with all tables was rejected: every part could use every other part, and no signature
//! said what a function needs.
//!
//! [`Normalizer`]: super::super::merge::Normalizer

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::documents::Documents;
use super::drafts::SchemaDraft;
use super::keywords::{self, ASSERTING, Keyword, REFERENCES, set};
use super::refs::{Refs, shorten};
use super::synthetic::SyntheticSchemas;
use super::text_automata::{StringTest, Test, TextAutomata};
use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::format;
use crate::constraint::json::document::{Doc, Id, Symbol, Value};
use crate::constraint::json::symbol_set::SymbolSet;
use crate::constraint::policy::Policy;
use crate::decimal::Decimal;
use crate::error::{Error, ErrorKind, Result};
use crate::warning::{Warning, WarningKind};

/// A schema, and the reason why nothing satisfies it. Most reasons are fixed texts, and most are
/// never shown.
pub(crate) type UnsatCause = (Id, Cow<'static, str>);

/// Maximum number of steps for checking literals against schemas and for merging shapes.
pub(crate) const MAX_STEPS: u64 = 20_000_000;

/// The document with its references, the policy, and what reading them costs and reports.
pub(crate) struct SchemaContext<'p> {
    pub doc: Doc,
    pub refs: Refs,
    pub draft: SchemaDraft,
    pub policy: &'p Policy,
    /// Keywords that may assert something.
    may_assert: SymbolSet,
    /// Keywords that the draft does not have, and all names that are not keywords.
    pub unknown_keywords: SymbolSet,
    pub texts: TextAutomata<'p>,
    pub warnings: Vec<Warning>,
    warned: FxHashSet<(WarningKind, Symbol)>,
    /// Unknown keywords that were checked for misspellings.
    pub checked: FxHashSet<Symbol>,
    pub synthetic: SyntheticSchemas,
    pub numbers: FxHashMap<Id, Rc<Decimal>>,
    pub steps: u64,
}

impl<'p> SchemaContext<'p> {
    pub(crate) fn new(mut doc: Doc, policy: &'p Policy, documents: &Documents<'_>) -> Result<Self> {
        let refs = Refs::new(&mut doc, documents)?;
        let draft = refs.draft;
        let mut context = SchemaContext {
            may_assert: keywords::asserting(draft, refs.unasserted),
            unknown_keywords: keywords::strange(draft),
            doc,
            refs,
            draft,
            policy,
            texts: TextAutomata::default(),
            warnings: Vec::new(),
            warned: FxHashSet::default(),
            checked: FxHashSet::default(),
            synthetic: SyntheticSchemas::default(),
            numbers: FxHashMap::default(),
            steps: 0,
        };
        if let Some((id, name)) = context.doc.duplicate {
            let (name, at) = (context.doc.name(name), context.doc.pointer(id));
            let message = format!("the name {name:?} occurs twice; the last one counts");
            context.warnings.push(Warning::new(WarningKind::DuplicateName, message).at(at));
        }
        Ok(context)
    }

    /// Makes an error with the location of a value.
    pub(crate) fn error(&self, kind: ErrorKind, id: Id, message: impl Into<String>) -> Error {
        Error::new(kind, message).at(self.doc.place(id))
    }

    /// Makes an error for a keyword with an invalid value.
    pub(crate) fn invalid(&self, id: Id, message: impl Into<String>) -> Error {
        self.error(ErrorKind::InvalidSchema, id, message)
    }

    /// Makes an error for something that is too large.
    pub(crate) fn too_complex(&self, id: Id, message: impl Into<String>) -> Error {
        self.error(ErrorKind::TooComplex, id, message)
    }

    /// Returns the function that adds the location of a value to an error.
    pub(crate) fn locate(&self, id: Id) -> impl Fn(Error) -> Error + '_ {
        move |error| error.at(self.doc.place(id))
    }

    /// Returns true if integers may have zeros after a point; in draft 4 a point makes another
    /// type.
    pub(crate) fn equal_integers(&self) -> bool {
        self.policy.equal_numbers && self.draft > SchemaDraft::D4
    }

    /// Counts work.
    ///
    /// # Errors
    /// `TooComplex` if there was too much.
    pub(crate) fn step(&mut self, steps: u64, at: Id) -> Result<()> {
        self.steps += steps;
        if self.steps > MAX_STEPS {
            let message = format!("merging schemas takes more than {MAX_STEPS} steps");
            return Err(self.too_complex(at, message));
        }
        Ok(())
    }

    /// Adds a warning, once per kind and name.
    pub(crate) fn warn(&mut self, kind: WarningKind, name: Symbol, at: Id, message: &str) {
        if self.warned.insert((kind, name)) {
            self.warnings.push(Warning::new(kind, message).at(self.doc.pointer(at)));
        }
    }

    /// Returns true if no keyword of a schema can assert anything, so that it accepts everything.
    pub(crate) fn is_true(&self, id: Id) -> bool {
        match self.doc.value(id) {
            Value::Bool(holds) => holds,
            // A `$ref` without siblings asserts something, too.
            Value::Object { .. } => !self.doc.names(id).meet(self.may_assert),
            _ => false,
        }
    }

    /// Returns the keywords of a schema object that may assert something.
    pub(crate) fn asserting(&self, id: Id) -> impl Iterator<Item = (Keyword, Id)> + '_ {
        let asserting = self.assertions(id);
        let members = if asserting.is_empty() { &[] } else { self.doc.members(id) };
        let counts = members.iter().filter(move |member| asserting.may_have(member.0));
        counts.filter_map(|&(name, at)| Some((Keyword::of(name)?, at)))
    }

    /// Returns the set of keywords of a schema object that may assert something.
    pub(crate) fn assertions(&self, id: Id) -> SymbolSet {
        let keys = self.doc.names(id).and(self.may_assert);
        if self.only_ref(id) { keys.and(set(&[Keyword::Ref])) } else { keys }
    }

    /// Returns true if only the `$ref` of a schema object counts, whatever its siblings are.
    fn only_ref(&self, id: Id) -> bool {
        self.draft <= SchemaDraft::D7 && self.doc.names(id).may_have(Keyword::Ref)
    }

    /// Returns the target schema of a reference; `at` is the value of its keyword.
    pub(crate) fn target(&mut self, name: Keyword, at: Id) -> Result<Id> {
        self.refs.resolve(&mut self.doc, name, at)
    }

    /// Follows schemas that consist of a reference only.
    pub(crate) fn follow(&mut self, mut id: Id) -> Result<Id> {
        for _ in 0..1_000 {
            // Most schemas have none.
            if !self.doc.names(id).meet(REFERENCES) {
                return Ok(id);
            }
            let mut keywords = self.asserting(id);
            let (Some((name, reference)), None) = (keywords.next(), keywords.next()) else {
                return Ok(id);
            };
            drop(keywords);
            if !REFERENCES.may_have(name) {
                return Ok(id);
            }
            self.warn_siblings(id);
            id = self.target(name, reference)?;
        }
        Err(self.invalid(id, "a chain of references is longer than 1000 or leads back to itself"))
    }

    /// Warns about keywords next to `$ref`, which do not count in older drafts.
    pub(crate) fn warn_siblings(&mut self, id: Id) {
        if self.draft > SchemaDraft::D7 {
            return;
        }
        let counts = |m: &&(Symbol, Id)| m.0 != Keyword::Ref && ASSERTING.may_have(m.0);
        if let Some(&(name, at)) = self.doc.members(id).iter().find(counts) {
            let word = self.doc.name(name);
            let message = format!("`{word}` beside `$ref` is ignored in this draft of JSON Schema");
            self.warn(WarningKind::IgnoredKeyword, name, at, &message);
        }
    }

    /// Returns true if a format is more than an annotation.
    pub(crate) fn knows_format(&self, name: Symbol) -> bool {
        format::NAMES.contains(&self.doc.name(name))
    }

    /// Returns true if a text passes a test; unknown formats accept everything.
    pub(crate) fn passes(&mut self, test: Test, text: Symbol, at: Id) -> Result<bool> {
        self.texts.passes(&self.doc, test, text, at)
    }

    /// Returns true if a name matches one of the patterns.
    pub(crate) fn passes_any(&mut self, patterns: &[(Symbol, Id)], name: Symbol) -> Result<bool> {
        for &(pattern, at) in patterns {
            if self.passes(Test::Pattern(pattern), name, at)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the names that match one of the patterns.
    pub(crate) fn any_pattern(&mut self, patterns: &[(Symbol, Id)]) -> Result<Arc<CharDfa>> {
        self.texts.any_pattern(&self.doc, patterns)
    }

    /// Returns the texts that pass all tests; `None`: all texts.
    pub(crate) fn language(&mut self, tests: &[StringTest]) -> Result<Option<Arc<CharDfa>>> {
        self.texts.language(&self.doc, tests)
    }

    /// Writes a value for a message, shortened.
    pub(crate) fn show(&self, id: Id) -> String {
        match self.doc.value(id) {
            Value::Array { .. } => "an array".into(),
            Value::Object { .. } => "an object".into(),
            _ => {
                let mut text = Vec::new();
                self.doc.write(id, &mut text);
                shorten(&String::from_utf8_lossy(&text))
            }
        }
    }
}
