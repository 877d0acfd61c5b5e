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

use super::super::read::{Id, Symbol, join, restrict};
use super::super::shape::{Group, Shape};
use super::super::term::{Term, Terms, add_term, tidy};
use super::lowering::SchemaLowering;
use super::plan::{ConjunctionId, Extras, Keys};
use crate::char_lang::char_dfa::CharDfa;
use crate::error::Result;

/// Maximum number of parts of the partition.
const MAX_PARTS: usize = 64;
/// Maximum number of names of a finite part that are compared with the declared ones.
const MAX_LISTED: usize = 256;

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
    pub(super) fn undeclared_properties(&mut self, shape: &Shape) -> Result<Extras> {
        let object = &shape.object;
        if object.names.is_empty()
            && object.groups.len() <= 1
            && object.groups.iter().all(|group| group.patterns.is_empty())
        {
            // All of them have the same terms.
            let terms: Terms =
                object.groups.iter().filter_map(|group| group.additional).map(Term::Pos).collect();
            let id = self.conjunction(&terms)?;
            return Ok(if self.is_known_empty(id) { Extras::new() } else { smallvec![(Keys::All, id)] });
        }
        let mut parts = vec![Part { tests: Vec::new(), language: None, terms: Terms::new() }];
        for group in &object.groups {
            parts = self.split(parts, group)?;
        }
        let names = match object.names.is_empty() {
            true => None,
            false => Some(self.normalizer.name_language(&object.names)?),
        };
        let mut merged: Vec<(ConjunctionId, Vec<Part>)> = Vec::new();
        for part in parts {
            let id = self.conjunction(&part.terms)?;
            if self.is_known_empty(id) {
                continue;
            }
            match merged.iter_mut().find(|m| m.0 == id) {
                Some(same) => same.1.push(part),
                None => merged.push((id, vec![part])),
            }
        }
        let mut extras = Extras::new();
        for (id, parts) in merged {
            extras.extend(self.keys(parts, names.as_ref(), shape)?.map(|keys| (keys, id)));
        }
        Ok(extras)
    }

    /// Splits the parts by the patterns of one schema object.
    fn split(&mut self, parts: Vec<Part>, group: &Group) -> Result<Vec<Part>> {
        // Patterns with the same schema act as one.
        let mut classes: Vec<(Terms, Patterns)> = Vec::new();
        for &(pattern, schema) in &group.patterns {
            let terms = tidy(&mut self.normalizer.context, &[Term::Pos(schema)])?;
            match classes.iter_mut().find(|c| c.0 == terms) {
                Some(class) => class.1.push((pattern, schema)),
                None => classes.push((terms, vec![(pattern, schema)])),
            }
        }
        // The flag: a pattern matches.
        let mut open: Vec<(Part, bool)> = parts.into_iter().map(|p| (p, false)).collect();
        for (terms, patterns) in classes {
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
                part.tests.push((patterns.clone(), false));
                next.extend([(yes, true), (part, matched)]);
            }
            if next.len() > MAX_PARTS {
                let message = format!("the patterns of property names overlap in more than {MAX_PARTS} ways");
                return Err(self.normalizer.context.too_complex(patterns[0].1, message));
            }
            open = next;
        }
        let parts = open.into_iter().map(|(mut part, matched)| {
            if !matched && let Some(schema) = group.additional {
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
        let dfa = self.normalizer.context.any_pattern(patterns);
        dfa.and_then(|dfa| language.is_disjoint(&dfa)).unwrap_or(false)
    }

    /// Returns the names that pass the tests of a part; `None` if there are no tests.
    fn part_language(&mut self, part: &mut Part) -> Result<Option<Arc<CharDfa>>> {
        let from = part.language.as_ref().map_or(0, |l| l.0);
        for (i, (patterns, holds)) in part.tests.iter().enumerate().skip(from) {
            let context = &mut self.normalizer.context;
            let dfa = context.any_pattern(patterns)?;
            let language = restrict(part.language.as_ref().map(|l| &*l.1), &dfa, *holds);
            part.language = Some((i + 1, language.map_err(context.locate(patterns[0].1))?));
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
            let complementary = match &parts[..] {
                [Part { tests: a, .. }, Part { tests: b, .. }] => {
                    a.len() == 1 && b.len() == 1 && a[0].0 == b[0].0 && a[0].1 != b[0].1
                }
                _ => false,
            };
            if complementary || parts.iter().any(|p| p.tests.is_empty()) {
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
                (Some(own), Some(names)) => restrict(Some(&own), names, true)?,
                (Some(own), None) => own,
                (None, Some(names)) => names.clone(),
                (None, None) => return Ok(Some(Keys::All)),
            };
            all = Some(join(all, own)?);
        }
        let all = all.filter(|all| !all.is_empty() && !self.are_declared(all, shape));
        Ok(all.map(|all| if all.is_everything() { Keys::All } else { Keys::Automaton(all) }))
    }

    /// Returns true if the patterns match only finitely many names and all of these are declared.
    fn only_declared(&mut self, patterns: &[(Symbol, Id)], shape: &Shape) -> Result<bool> {
        if shape.object.values.is_empty() {
            return Ok(false);
        }
        let dfa = self.normalizer.context.any_pattern(patterns)?;
        Ok(dfa.is_empty() || self.are_declared(&dfa, shape))
    }

    /// Returns true if all words of an automaton are declared names.
    pub(super) fn are_declared(&self, dfa: &CharDfa, shape: &Shape) -> bool {
        let doc = &self.normalizer.context.doc;
        if shape.object.values.is_empty() {
            return dfa.is_empty();
        }
        dfa.finite(MAX_LISTED).is_some_and(|words| {
            words.iter().all(|w| doc.lookup(w).is_some_and(|n| shape.object.values.contains_key(&n)))
        })
    }
}
