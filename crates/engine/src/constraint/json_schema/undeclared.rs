//! Undeclared properties: the partition of all names by the patterns that match them.
//!
//! Every `patternProperties`, `additionalProperties` and `propertyNames` that applies splits the
//! set of names. Each part of the partition has one list of terms for its values.
//!
//! # Cost
//!
//! Parts whose values cannot exist are dropped before any automaton is built. So the usual case,
//! one pattern and nothing else, costs nothing. [`MAX_PARTS`] bounds the number of parts.

use std::rc::Rc;
use std::sync::Arc;

use smallvec::smallvec;

use super::conjunctions::{ConjunctionId, Extras, SchemaLowering};
use super::context::SchemaContext;
use super::fork::{Fork, Mode};
use super::normalize::Normalizer;
use super::shape::{FALSE, Shape, StringPart, Term, Terms, add_term};
use super::types::Types;
use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::json::document::{Id, Symbol};
use crate::error::{ErrorKind, Result};

/// Maximum number of parts of the partition.
const MAX_PARTS: usize = 64;
/// Maximum number of names of a finite part that are compared with the declared ones.
const MAX_LISTED: usize = 256;
/// Maximum bound on the length of a name that is turned into an automaton.
const MAX_NAME_LENGTH: u32 = 1_000;

/// A set of names.
#[derive(Debug, Clone)]
pub(super) enum Keys {
    All,
    /// Names that match one of these patterns.
    Patterns(Vec<(Symbol, Id)>),
    Automaton(Arc<CharDfa>),
}

/// Patterns with the schemas they come from.
type Patterns = Vec<(Symbol, Id)>;

/// One part of the partition.
#[derive(Clone)]
struct Part {
    /// Sets of patterns; the flag says whether one of them matches, or none does.
    tests: Vec<(Rc<Patterns>, bool)>,
    /// Names that pass the first N tests, with N; computed when needed.
    language: Option<(usize, Arc<CharDfa>)>,
    terms: Terms,
}

impl SchemaLowering<'_> {
    /// Returns the undeclared properties of a shape: disjoint sets of names with the conjunctions
    /// of their values.
    pub fn undeclared_properties(&mut self, shape: &Shape) -> Result<Extras> {
        if shape.object.groups.is_empty() && shape.object.names.is_empty() {
            // No schema mentions them.
            return Ok(smallvec![(Keys::All, self.conjunction(&[])?)]);
        }
        if let [group] = &shape.object.groups[..]
            && group.patterns.is_empty()
            && shape.object.names.is_empty()
        {
            // All of them have the same terms.
            let terms: Terms = group.additional.map(Term::Pos).into_iter().collect();
            let goal = self.conjunction(&terms)?;
            return Ok(if self.is_known_empty(goal) { Extras::new() } else { smallvec![(Keys::All, goal)] });
        }
        let mut parts = vec![Part { tests: Vec::new(), language: None, terms: Terms::new() }];
        for group in &shape.object.groups {
            parts = self.split(parts, &group.patterns, group.additional)?;
        }
        let names = match shape.object.names.is_empty() {
            true => None,
            false => Some(self.normalizer.name_language(&shape.object.names)?),
        };
        let mut merged: Vec<(ConjunctionId, Vec<Part>)> = Vec::new();
        for part in parts {
            let goal = self.conjunction(&part.terms)?;
            if self.is_known_empty(goal) {
                continue;
            }
            match merged.iter_mut().find(|m| m.0 == goal) {
                Some(same) => same.1.push(part),
                None => merged.push((goal, vec![part])),
            }
        }
        let mut extras = Extras::new();
        for (goal, parts) in merged {
            if let Some(keys) = self.keys(parts, names.as_ref(), shape)? {
                extras.push((keys, goal));
            }
        }
        Ok(extras)
    }

    fn split(
        &mut self,
        parts: Vec<Part>,
        patterns: &[(Symbol, Id)],
        additional: Option<Id>,
    ) -> Result<Vec<Part>> {
        // Patterns with the same schema act as one.
        let mut classes: Vec<(Terms, Vec<(Symbol, Id)>)> = Vec::new();
        for &(pattern, schema) in patterns {
            let terms = self.normalizer.context.tidy(&[Term::Pos(schema)])?;
            match classes.iter_mut().find(|c| c.0 == terms) {
                Some(class) => class.1.push((pattern, schema)),
                None => classes.push((terms, vec![(pattern, schema)])),
            }
        }
        let mut open: Vec<(Part, bool)> = parts.into_iter().map(|p| (p, false)).collect();
        for (terms, patterns) in classes {
            let at = patterns[0].1;
            let patterns = Rc::new(patterns);
            let mut next = Vec::new();
            for (mut part, matched) in open {
                if self.is_disjoint(&mut part, &patterns) {
                    // Without this check, each pattern would double the number of parts.
                    next.push((part, matched));
                    continue;
                }
                let mut yes = part.clone();
                yes.tests.push((patterns.clone(), true));
                terms.iter().for_each(|t| add_term(&mut yes.terms, *t));
                let mut no = part;
                no.tests.push((patterns.clone(), false));
                next.push((yes, true));
                next.push((no, matched));
            }
            if next.len() > MAX_PARTS {
                return Err(self.normalizer.context.error(
                    ErrorKind::TooComplex,
                    at,
                    format!("the patterns of property names overlap in more than {MAX_PARTS} ways"),
                ));
            }
            open = next;
        }
        let parts = open.into_iter().map(|(mut part, matched)| {
            if !matched && let Some(schema) = additional {
                add_term(&mut part.terms, Term::Pos(schema));
            }
            part
        });
        Ok(parts.collect())
    }

    /// Returns true if no name of a part matches any of the patterns, as far as that can be
    /// decided.
    fn is_disjoint(&mut self, part: &mut Part, patterns: &[(Symbol, Id)]) -> bool {
        if part.tests.is_empty() {
            return false;
        }
        // A language that is too large is left to `keys`, which may never need it.
        let Ok(Some(language)) = self.part_language(part) else { return false };
        let disjoint = self
            .normalizer
            .context
            .texts
            .any_pattern(&self.normalizer.context.doc, patterns)
            .and_then(|dfa| language.is_disjoint(&dfa));
        disjoint.unwrap_or(false)
    }

    /// Returns the names that pass the tests of a part; `None` if there are no tests.
    fn part_language(&mut self, part: &mut Part) -> Result<Option<Arc<CharDfa>>> {
        let from = part.language.as_ref().map_or(0, |l| l.0);
        for i in from..part.tests.len() {
            let (patterns, holds) = part.tests[i].clone();
            let dfa = self.normalizer.context.texts.any_pattern(&self.normalizer.context.doc, &patterns)?;
            let language = match (&part.language, holds) {
                (Some((_, own)), true) => own.intersect(&dfa).map(Arc::new),
                (Some((_, own)), false) => own.without(&dfa).map(Arc::new),
                (None, true) => Ok(dfa),
                (None, false) => Ok(Arc::new((*dfa).clone().complement())),
            };
            let language = language.map_err(|e| e.at(self.normalizer.context.doc.place(patterns[0].1)))?;
            part.language = Some((i + 1, language));
        }
        Ok(part.language.as_ref().map(|l| l.1.clone()))
    }

    /// Returns the names of several parts together; `None` if all of them are declared.
    fn keys(
        &mut self,
        mut parts: Vec<Part>,
        names: Option<&Arc<CharDfa>>,
        shape: &Shape,
    ) -> Result<Option<Keys>> {
        if names.is_none() {
            // The parts may cover both sides of a test, for example if additional properties have
            // the same schema.
            if parts.iter().any(|p| p.tests.is_empty()) || (parts.len() == 2 && complementary(&parts)) {
                return Ok(Some(Keys::All));
            }
            if let [Part { tests, .. }] = &parts[..]
                && let [(patterns, true)] = &tests[..]
                && !self.only_declared(patterns, shape)?
            {
                return Ok(Some(Keys::Patterns(patterns.to_vec())));
            }
        }
        let mut all: Option<Arc<CharDfa>> = None;
        for part in &mut parts {
            let own = match (self.part_language(part)?, names) {
                (Some(own), Some(names)) => Arc::new(own.intersect(names)?),
                (Some(own), None) => own,
                (None, Some(names)) => names.clone(),
                (None, None) => return Ok(Some(Keys::All)),
            };
            all = Some(match all {
                Some(all) => Arc::new(all.union(&own)?),
                None => own,
            });
        }
        let Some(all) = all else { return Ok(None) };
        if all.is_empty() || self.listed(&all, shape) {
            return Ok(None);
        }
        Ok(Some(if all.is_everything() { Keys::All } else { Keys::Automaton(all) }))
    }

    /// Returns true if the patterns match only finitely many names and all of these are declared.
    fn only_declared(&mut self, patterns: &[(Symbol, Id)], shape: &Shape) -> Result<bool> {
        if shape.object.values.is_empty() {
            return Ok(false);
        }
        let dfa = self.normalizer.context.texts.any_pattern(&self.normalizer.context.doc, patterns)?;
        Ok(dfa.is_empty() || self.listed(&dfa, shape))
    }

    /// Returns true if all words of an automaton are declared names.
    pub fn listed(&self, dfa: &CharDfa, shape: &Shape) -> bool {
        let doc = &self.normalizer.context.doc;
        if shape.object.values.is_empty() {
            return dfa.is_empty();
        }
        dfa.finite(MAX_LISTED).is_some_and(|words| {
            words.iter().all(|w| doc.lookup(w).is_some_and(|n| shape.object.values.contains_key(&n)))
        })
    }
}

fn complementary(parts: &[Part]) -> bool {
    let (a, b) = (&parts[0].tests, &parts[1].tests);
    a.len() == 1 && b.len() == 1 && a[0].0 == b[0].0 && a[0].1 != b[0].1
}

impl Normalizer<'_> {
    /// Returns the names that satisfy `propertyNames`.
    pub fn name_language(&mut self, terms: &[Term]) -> Result<Arc<CharDfa>> {
        let mut fork = Fork::new(terms);
        fork.shape.types = Types::STRING;
        let shapes = self.expand(fork, Mode::Exact)?.unwrap_or_default();
        let at = terms.iter().find_map(|t| match *t {
            Term::Pos(id) => Some(id),
            _ => None,
        });
        let at = at.unwrap_or(self.context.doc.root());
        let mut all: Option<Arc<CharDfa>> = None;
        for shape in &shapes {
            let own = shape_names(&mut self.context, shape, at)?;
            all = Some(match all {
                Some(all) => Arc::new(all.union(&own)?),
                None => own,
            });
        }
        match all {
            Some(all) => Ok(all),
            None => CharDfa::words([]).map(Arc::new),
        }
    }
}

fn shape_names(context: &mut SchemaContext<'_>, shape: &Shape, at: Id) -> Result<Arc<CharDfa>> {
    if let Some(literals) = &shape.literals {
        let words: Vec<&str> =
            literals.iter().filter_map(|&l| context.doc.string(l)).map(|n| context.doc.name(n)).collect();
        return CharDfa::words(words).map(Arc::new);
    }
    if let Some(refusal) = shape.refusals.iter().find(|r| r.types.meets(Types::STRING)) {
        return Err(context
            .error(ErrorKind::Unsupported, refusal.at, refusal.message.clone())
            .hint(refusal.hint));
    }
    let language = context.texts.language(&context.doc, &shape.string)?;
    let StringPart { min, max, .. } = shape.string;
    if min == 0 && max.is_none() {
        return Ok(language.unwrap_or_else(|| Arc::new(everything())));
    }
    if min > MAX_NAME_LENGTH || max.is_some_and(|m| m > MAX_NAME_LENGTH) {
        return Err(context.error(
            ErrorKind::TooComplex,
            at,
            format!("a bound on the length of property names is above the limit of {MAX_NAME_LENGTH}"),
        ));
    }
    let lengths = CharDfa::lengths(min, max);
    match language {
        Some(language) => language.intersect(&lengths).map(Arc::new),
        None => Ok(Arc::new(lengths)),
    }
}

fn everything() -> CharDfa {
    CharDfa::lengths(0, None)
}

/// Returns the list of the one term that nothing satisfies.
pub(super) fn nothing() -> Terms {
    smallvec![FALSE]
}
