//! Context of one run: the document with its references, the policy, and the small queries that all
//! parts of the front end use.
//!
//! Examples are the target of a reference, and whether a schema accepts everything. The context has
//! parts with types of their own: tests on texts (`text_tests`), warnings (`diagnostics`) and
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
//! [`Normalizer`]: super::normalize::Normalizer

use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use super::diagnostics::Diagnostics;
use super::documents::Documents;
use super::drafts::SchemaDraft;
use super::keyword_set::{self, set};
use super::keywords::{Keyword, language};
use super::refs::{Refs, shorten};
use super::shape::{FALSE, Term, Terms, Test};
use super::synthetic::SyntheticSchemas;
use super::text_tests::TextTests;
use super::unknown_keywords::report_unknown;
use super::wrapper;
use crate::constraint::Policy;
use crate::constraint::json::document::{Doc, Id, Symbol, Value};
use crate::constraint::json::symbol_set::SymbolSet;
use crate::decimal::Decimal;
use crate::error::{Error, ErrorKind, Result};
use crate::warning::{Warning, WarningKind};

/// Maximum number of nodes of the representation.
pub(super) const MAX_NODES: usize = 2_000_000;
/// Maximum number of distinct conjunctions of schemas.
pub(super) const MAX_CONJUNCTIONS: usize = 200_000;
/// Maximum number of steps for checking literals against schemas and for merging shapes.
pub(super) const MAX_STEPS: u64 = 20_000_000;

/// The document with its references, the policy, and what reading them costs and reports.
pub(super) struct SchemaContext<'p> {
    pub doc: Doc,
    pub refs: Refs,
    pub draft: SchemaDraft,
    pub policy: &'p Policy,
    /// Keywords that may assert something.
    may_assert: SymbolSet,
    /// Keywords that the draft does not have, and all names that are not keywords.
    pub unknown_keywords: SymbolSet,
    pub texts: TextTests<'p>,
    pub diagnostics: Diagnostics,
    pub synthetic: SyntheticSchemas,
    pub numbers: FxHashMap<Id, Rc<Decimal>>,
    pub steps: u64,
}

impl<'p> SchemaContext<'p> {
    pub fn new(text: &str, policy: &'p Policy, documents: &Documents) -> Result<Self> {
        let mut doc = Doc::of(language(), text)?;
        let unwrapped = wrapper::unwrap(&mut doc);
        let refs = Refs::new(&mut doc, documents)?;
        let draft = refs.draft;
        let mut context = SchemaContext {
            may_assert: keyword_set::asserting(draft, refs.unasserted),
            unknown_keywords: keyword_set::strange(draft),
            doc,
            refs,
            draft,
            policy,
            texts: TextTests::default(),
            diagnostics: Diagnostics::default(),
            synthetic: SyntheticSchemas::default(),
            numbers: FxHashMap::default(),
            steps: 0,
        };
        if let Some((id, name)) = context.doc.duplicate {
            let (name, at) = (context.doc.name(name), context.doc.pointer(id));
            let message = format!("the name {name:?} occurs twice; the last one counts");
            context.diagnostics.warnings.push(Warning::new(WarningKind::DuplicateName, message).at(at));
        }
        let open = context.is_true(context.doc.root());
        let unwrapped = unwrapped.filter(|w| w.kind() != WarningKind::Unconstrained || open);
        context.diagnostics.warnings.extend(unwrapped);
        report_unknown(&mut context);
        Ok(context)
    }

    /// Makes an error with the location of a value.
    pub fn error(&self, kind: ErrorKind, id: Id, message: impl Into<String>) -> Error {
        Error::new(kind, message).at(self.doc.place(id))
    }

    /// Makes an error for a keyword with an invalid value.
    pub fn invalid(&self, id: Id, message: impl Into<String>) -> Error {
        self.error(ErrorKind::InvalidSchema, id, message)
    }

    /// Returns true if integers may have zeros after a point; in draft 4 a point makes another
    /// type.
    pub fn equal_integers(&self) -> bool {
        self.policy.equal_numbers && self.draft > SchemaDraft::D4
    }

    /// Counts work.
    ///
    /// # Errors
    /// `TooComplex` if there was too much.
    pub fn step(&mut self, steps: u64, at: Id) -> Result<()> {
        self.steps += steps;
        if self.steps > MAX_STEPS {
            return Err(self.error(
                ErrorKind::TooComplex,
                at,
                format!("merging schemas takes more than {MAX_STEPS} steps"),
            ));
        }
        Ok(())
    }

    /// Adds a warning, once per kind and name.
    pub fn warn(&mut self, kind: WarningKind, name: Symbol, at: Id, message: &str) {
        self.diagnostics.warn(&self.doc, kind, name, at, message);
    }

    /// Returns true if no keyword of a schema can assert anything, so that it accepts everything.
    pub fn is_true(&self, id: Id) -> bool {
        match self.doc.value(id) {
            Value::Bool(holds) => holds,
            // A `$ref` without siblings asserts something, too.
            Value::Object { .. } => !self.doc.names(id).meet(self.may_assert),
            _ => false,
        }
    }

    /// Returns the keywords of a schema object that may assert something.
    pub fn asserting(&self, id: Id) -> impl Iterator<Item = (Keyword, Id)> + '_ {
        let asserting = self.assertions(id);
        let members = if asserting.is_empty() { &[] } else { self.doc.members(id) };
        let counts = members.iter().filter(move |member| asserting.may_have(member.0));
        counts.filter_map(|&(name, at)| Some((Keyword::of(name)?, at)))
    }

    /// Returns the set of keywords of a schema object that may assert something.
    pub fn assertions(&self, id: Id) -> SymbolSet {
        let keys = self.doc.names(id).and(self.may_assert);
        if self.only_ref(id) { keys.and(set(&[Keyword::Ref])) } else { keys }
    }

    /// Returns true if only the `$ref` of a schema object counts, whatever its siblings are.
    fn only_ref(&self, id: Id) -> bool {
        self.draft <= SchemaDraft::D7 && self.doc.names(id).may_have(Keyword::Ref)
    }

    /// Returns the target schema of a reference; `at` is the value of its keyword.
    pub fn target(&mut self, name: Keyword, at: Id) -> Result<Id> {
        self.refs.resolve(&mut self.doc, name, at)
    }

    /// Follows schemas that consist of a reference only.
    pub fn follow(&mut self, mut id: Id) -> Result<Id> {
        for _ in 0..1_000 {
            // Most schemas have none.
            if !self.doc.names(id).meet(keyword_set::REFERENCES) {
                return Ok(id);
            }
            let mut keywords = self.asserting(id);
            let (Some((name, reference)), None) = (keywords.next(), keywords.next()) else {
                return Ok(id);
            };
            drop(keywords);
            if !keyword_set::REFERENCES.may_have(name) {
                return Ok(id);
            }
            self.warn_siblings(id);
            id = self.target(name, reference)?;
        }
        Err(self.invalid(id, "a chain of references is longer than 1000 or leads back to itself"))
    }

    /// Warns about keywords next to `$ref`, which do not count in older drafts.
    pub fn warn_siblings(&mut self, id: Id) {
        if self.draft > SchemaDraft::D7 {
            return;
        }
        let ignored = self
            .doc
            .members(id)
            .iter()
            .find(|m| m.0 != Keyword::Ref && keyword_set::ASSERTING.may_have(m.0))
            .copied();
        if let Some((name, at)) = ignored {
            let word = self.doc.name(name).to_string();
            self.warn(
                WarningKind::IgnoredKeyword,
                name,
                at,
                &format!("`{word}` beside `$ref` is ignored in this draft of JSON Schema"),
            );
        }
    }

    /// Removes terms that assert nothing, follows references, and detects what nothing satisfies.
    pub fn tidy(&mut self, terms: &[Term]) -> Result<Terms> {
        let mut tidy = Terms::new();
        for term in terms {
            let term = match *term {
                Term::Pos(id) => Term::Pos(self.follow(id)?),
                Term::Neg(id) => Term::Neg(self.follow(id)?),
                other => other,
            };
            let nothing = match term {
                Term::Pos(id) if self.is_true(id) => continue,
                Term::Pos(id) => self.doc.value(id) == Value::Bool(false),
                Term::Neg(id) if self.doc.value(id) == Value::Bool(false) => continue,
                Term::Neg(id) => self.is_true(id),
                Term::Types(types) => types.is_empty(),
                _ => false,
            };
            if nothing {
                return Ok(smallvec![FALSE]);
            }
            if !tidy.contains(&term) {
                tidy.push(term);
            }
        }
        Ok(tidy)
    }

    /// Returns true if a text passes a test; unknown formats accept everything.
    pub fn passes(&mut self, test: Test, text: Symbol, at: Id) -> Result<bool> {
        self.texts.passes(&self.doc, test, text, at)
    }

    /// Writes a value for a message, shortened.
    pub fn show(&self, id: Id) -> String {
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
