//! From a list of terms to shapes: everything that applies to one value, in disjunctive form.
//!
//! The [`Term`]s of a list are processed in order. Keywords that only restrict merge into the
//! current [`Shape`]. Keywords that offer a choice (`anyOf`, `oneOf`, `if`, `dependencies`,
//! negations) fork it. Forks that contradict themselves are dropped at once, so discriminated
//! unions stay small.
//!
//! This file also decides the order of properties: a schema's own `properties` first, then those of
//! its sub-schemas in the order in which their keywords are written.
//!
//! # Cost
//!
//! The keywords of all schemas involved, times the remaining forks ([`MAX_DISJUNCTS`]).

use std::borrow::Cow;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use super::context::SchemaContext;
use super::diagnostics::UnsatCause;
use super::evaluated::EvaluatedSets;
use super::fork::{Fork, Mode, PendingKeyword, Shapes};
use super::grounded::GroundedSchemas;
use super::keyword_merging::{
    Added, alternatives_of, contains_condition, dependency_choice, enumeration, format, literals,
    multiple_of, required, unique_items,
};
use super::keyword_set::set;
use super::keywords::Keyword;
use super::properties::{members, require, restrict};
use super::shape::{ExistsProperty, FALSE, Names, Term, Terms, Test, add_term, lower_max};
use super::types::Types;
use super::unknown_keywords::warn_unknown;
use super::validate::Validator;
use super::verbatim::verbatim;
use crate::constraint::json::document::{Id, Value};
use crate::error::{ErrorKind, Result};

/// Maximum number of alternatives of one value after distributing `anyOf`, `oneOf`, `if` and the
/// like.
const MAX_DISJUNCTS: usize = 4_096;
/// Maximum number of alternatives in [`Mode::Loose`].
const MAX_LOOSE_FORKS: usize = 128;

/// Merges terms into shapes, with the tables that remember what was merged.
pub(super) struct Normalizer<'p> {
    pub context: SchemaContext<'p>,
    pub grounded: GroundedSchemas,
    pub evaluated: EvaluatedSets,
    pub memos: MergeMemos,
    /// Forks that wait for their turn; those of the innermost query come last.
    forks: Vec<Fork>,
    /// Depth of nested emptiness queries.
    pub empty_depth: u32,
    /// A buffer for the keywords of a schema.
    keywords: Vec<(Keyword, Id)>,
    /// Reason why the last alternative was dropped.
    pub culprit: Option<UnsatCause>,
}

/// Results of merging that are needed more than once.
#[derive(Default)]
pub(super) struct MergeMemos {
    /// Conjunctions that allow nothing, or are not known to, with the depth of the query.
    pub empty: FxHashMap<Terms, (bool, u32)>,
    /// Alternatives that violate each schema that was negated.
    pub violations: FxHashMap<Id, Rc<Vec<Terms>>>,
    /// Choice that the `if` of each schema gives.
    conditionals: FxHashMap<Id, Rc<Vec<Terms>>>,
}

impl<'p> Normalizer<'p> {
    pub fn new(context: SchemaContext<'p>) -> Self {
        Normalizer {
            context,
            grounded: GroundedSchemas::default(),
            evaluated: EvaluatedSets::default(),
            memos: MergeMemos::default(),
            forks: Vec::new(),
            empty_depth: 0,
            keywords: Vec::new(),
            culprit: None,
        }
    }

    /// Returns the validator of literals.
    pub fn validator(&mut self) -> Validator<'_, 'p> {
        Validator { context: &mut self.context, evaluated: &mut self.evaluated }
    }
}

impl Normalizer<'_> {
    /// Returns all shapes of a conjunction. In loose mode it returns only the first one, or `None`
    /// if there are too many forks to decide.
    pub fn expand(&mut self, start: Fork, mode: Mode) -> Result<Option<Shapes>> {
        let mut done = Shapes::new();
        // Forks below this index belong to the queries around this one.
        let bottom = self.forks.len();
        let enough = self.advance_all(start, mode, bottom, &mut done);
        self.forks.truncate(bottom);
        Ok(enough?.then_some(done))
    }

    fn advance_all(&mut self, start: Fork, mode: Mode, bottom: usize, done: &mut Shapes) -> Result<bool> {
        let mut next = Some(start);
        while let Some(fork) = next.take().or_else(|| self.next_fork(bottom)) {
            if !self.advance(fork, mode, bottom, done)? {
                return Ok(false);
            }
            if mode == Mode::Loose && !done.is_empty() {
                break;
            }
        }
        Ok(true)
    }

    fn next_fork(&mut self, bottom: usize) -> Option<Fork> {
        if self.forks.len() > bottom { self.forks.pop() } else { None }
    }

    /// Processes one fork up to its end or to the next choice. Returns `false` in loose mode if
    /// there are too many forks.
    fn advance(&mut self, mut fork: Fork, mode: Mode, bottom: usize, done: &mut Shapes) -> Result<bool> {
        let (alternatives, at) = loop {
            self.context.step(1 + fork.shape.object.values.len() as u64 / 16, Id(0))?;
            match fork.left.pop() {
                None => {
                    if self.finish(&mut fork.shape, mode)? {
                        done.push(fork.shape);
                    }
                    return Ok(true);
                }
                Some(PendingKeyword::Term(term)) => {
                    self.apply(&mut fork, term)?;
                    if fork.shape.types.is_empty() {
                        return Ok(true);
                    }
                }
                // With or without the property, everything required is merged already.
                Some(PendingKeyword::Dependency(choice, _))
                    if self.implied(&fork.shape, &choice[0][2..])? => {}
                Some(
                    PendingKeyword::Choice(alternatives, at) | PendingKeyword::Dependency(alternatives, at),
                ) => {
                    let mut settled = false;
                    for terms in alternatives.iter() {
                        settled = settled || self.implied(&fork.shape, terms)?;
                    }
                    if settled {
                        continue;
                    }
                    match self.decided(&fork.shape, &alternatives)? {
                        Some(terms) => fork.next(terms),
                        None => break (alternatives, at),
                    }
                }
                Some(PendingKeyword::OneOf(at)) => break (Rc::new(self.one_of(&fork, at, mode)?), at),
            }
        };
        if alternatives.len() > 1 && self.drop_impossible_types(&mut fork.shape)? {
            return Ok(true);
        }
        if done.len() + self.forks.len() - bottom + alternatives.len() > limit(mode) {
            return if mode == Mode::Loose { Ok(false) } else { Err(self.too_many(at)) };
        }
        let Some((first, others)) = alternatives.split_first() else { return Ok(true) };
        for terms in others.iter().rev() {
            let mut other = fork.clone();
            other.next(terms);
            self.forks.push(other);
        }
        fork.next(first);
        self.forks.push(fork);
        Ok(true)
    }

    fn too_many(&self, at: Id) -> crate::error::Error {
        self.context
            .error(
                ErrorKind::TooComplex,
                at,
                format!("combining the alternatives gives more than {MAX_DISJUNCTS} disjuncts"),
            )
            .hint(
                "reduce the number of `anyOf`, `oneOf`, `if` and `dependencies` that apply to the same value",
            )
    }

    /// Merges one term into the fork.
    fn apply(&mut self, fork: &mut Fork, term: Term) -> Result<()> {
        if !fork.shape.terms.insert(term) {
            return Ok(());
        }
        if term.opposite().is_some_and(|opposite| fork.shape.terms.contains(&opposite)) {
            fork.shape.types = Types::NONE;
            return Ok(());
        }
        match term {
            Term::Pos(id) => {
                self.grounded.check(&mut self.context, id)?;
                self.positive(fork, id)?;
            }
            Term::Neg(id) => {
                self.grounded.check(&mut self.context, id)?;
                self.negative(fork, id)?;
            }
            Term::NegKeyword(schema, name) => self.negative_keyword(fork, schema, name)?,
            Term::Types(types) => fork.shape.types = fork.shape.types.and(types),
            Term::Require(name) => require(&mut fork.shape, name),
            Term::Forbid(name) => restrict(&mut self.context, &mut fork.shape, name, FALSE)?,
            Term::Property(name, schema, holds) => {
                let term = if holds { Term::Pos(schema) } else { Term::Neg(schema) };
                restrict(&mut self.context, &mut fork.shape, name, term)?;
            }
            Term::MatchFails(pattern, at) => {
                let demand =
                    ExistsProperty { names: Names::Matching(pattern), value: Some(Term::Neg(at)), at };
                fork.shape.object.demands.push(demand);
            }
            Term::ItemFails(index, schema) => {
                let array = &mut fork.shape.array;
                let prefix: Vec<Option<Term>> =
                    (0..index).map(|_| None).chain([Some(Term::Neg(schema))]).collect();
                array.each_item(&prefix, None);
                array.min = array.min.max(index.saturating_add(1));
            }
            Term::Unevaluated(set, at, holds) => self.outside(fork, set, at, holds)?,
            Term::Below(id) | Term::Above(id) => {
                if let Some((mut bound, _)) = self.context.bound(id, Keyword::Minimum, id)? {
                    bound.exclusive = true;
                    match term {
                        Term::Below(_) => fork.shape.number.at_most(bound),
                        _ => fork.shape.number.at_least(bound),
                    }
                }
            }
        }
        fork.shape.drop_contradictions();
        Ok(())
    }

    /// Returns the types that a single schema names, if it asserts nothing else.
    pub fn only_types(&mut self, terms: &[Term]) -> Result<Option<Types>> {
        let [Term::Pos(id)] = *terms else { return Ok(None) };
        if self.context.assertions(id) != set(&[Keyword::Type]) {
            return Ok(None);
        }
        let Some(at) = self.context.doc.get(id, Keyword::Type) else { return Ok(None) };
        let types = self.context.types(at)?;
        if types.is_empty() {
            return Ok(None);
        }
        warn_unknown(&mut self.context, id);
        Ok(Some(types))
    }

    /// Merges a schema.
    fn positive(&mut self, fork: &mut Fork, id: Id) -> Result<()> {
        match self.context.doc.value(id) {
            Value::Bool(true) => return Ok(()),
            Value::Bool(false) => {
                self.record_unsat_cause(id, "the schema is `false`");
                fork.shape.types = Types::NONE;
                return Ok(());
            }
            Value::Object { .. } => {}
            _ => return Err(self.context.invalid(id, "a schema must be an object or a boolean")),
        }
        warn_unknown(&mut self.context, id);
        let mut keywords = std::mem::take(&mut self.keywords);
        keywords.clear();
        keywords.extend(self.context.asserting(id));
        if keywords.iter().any(|k| k.0 == Keyword::Ref) {
            self.context.warn_siblings(id);
        }
        let before = fork.shape.types;
        let mut added = Added::default();
        for &(keyword, at) in &keywords {
            self.merge_keyword(fork, id, (keyword, at), &mut added)?;
        }
        self.keywords = keywords;
        if fork.shape.types.is_empty() && !before.is_empty() {
            self.record_unsat_cause(id, "its types or values contradict what else applies to the same value");
        }
        fork.queue(added.work);
        Ok(())
    }

    /// Remembers why a fork was dropped.
    pub fn record_unsat_cause(&mut self, id: Id, why: impl Into<Cow<'static, str>>) {
        if self.empty_depth == 0 {
            self.culprit.get_or_insert_with(|| (id, why.into()));
        }
    }

    /// Merges one keyword, or adds work for it.
    fn merge_keyword(
        &mut self,
        fork: &mut Fork,
        id: Id,
        (keyword, at): (Keyword, Id),
        added: &mut Added,
    ) -> Result<()> {
        let (context, shape) = (&mut self.context, &mut fork.shape);
        match keyword {
            Keyword::Type => shape.types = shape.types.and(context.types(at)?),
            Keyword::Const => literals(context, shape, vec![at]),
            Keyword::Enum => enumeration(context, shape, at)?,
            Keyword::Ref | Keyword::DynamicRef | Keyword::RecursiveRef => {
                added.term(Term::Pos(context.target(keyword, at)?));
            }
            Keyword::AllOf => context.schemas(at)?.into_iter().for_each(|s| added.term(Term::Pos(s))),
            Keyword::AnyOf | Keyword::OneOf => alternatives_of(context, shape, keyword, at, added)?,
            Keyword::Not => added.term(Term::Neg(at)),
            Keyword::If => added.work.extend(self.conditional(id, at)),
            Keyword::Then | Keyword::Else => {}
            Keyword::Minimum | Keyword::ExclusiveMinimum => {
                if let Some((bound, _)) = context.bound(id, keyword, at)? {
                    shape.number.at_least(bound);
                }
            }
            Keyword::Maximum | Keyword::ExclusiveMaximum => {
                if let Some((bound, _)) = context.bound(id, keyword, at)? {
                    shape.number.at_most(bound);
                }
            }
            Keyword::MultipleOf => multiple_of(context, shape, at)?,
            Keyword::MinLength => shape.string.min = shape.string.min.max(context.count(at)?),
            Keyword::MaxLength => lower_max(&mut shape.string.max, context.count(at)?),
            Keyword::Pattern => shape.string.add(Test::Pattern(context.text(at)?), true, at),
            Keyword::Format => format(context, shape, id, at)?,
            Keyword::XVerbatim => verbatim(context, shape, at)?,
            Keyword::Items | Keyword::PrefixItems | Keyword::AdditionalItems => {
                if !std::mem::replace(&mut added.has_items, true) {
                    let (prefix, rest) = context.item_schemas(id)?;
                    let prefix: Vec<Term> = prefix.into_iter().map(Term::Pos).collect();
                    shape.array.items(&prefix, rest.map(Term::Pos));
                }
            }
            Keyword::MinItems => shape.array.min = shape.array.min.max(context.count(at)?),
            Keyword::MaxItems => lower_max(&mut shape.array.max, context.count(at)?),
            Keyword::UniqueItems => unique_items(context, shape, at)?,
            Keyword::Contains => contains_condition(context, shape, id, at)?,
            Keyword::MinContains | Keyword::MaxContains => {}
            Keyword::UnevaluatedItems | Keyword::UnevaluatedProperties => {
                shape.object.open |= keyword == Keyword::UnevaluatedProperties;
                // First, so that the choices of its siblings are already decided.
                self.unevaluated(id, keyword, at)?.into_iter().for_each(|work| added.work.insert(0, work));
            }
            Keyword::Properties | Keyword::PatternProperties | Keyword::AdditionalProperties => {
                if !std::mem::replace(&mut added.has_members, true) {
                    members(context, fork, id)?;
                }
            }
            Keyword::Required => required(context, shape, at)?,
            Keyword::PropertyNames => add_term(&mut shape.object.names, Term::Pos(at)),
            Keyword::MinProperties => {
                shape.object.min = shape.object.min.max(context.count(at)?);
                shape.object.count_at = Some(at);
            }
            Keyword::MaxProperties => {
                lower_max(&mut shape.object.max, context.count(at)?);
                shape.object.count_at = Some(at);
            }
            Keyword::Dependencies | Keyword::DependentRequired | Keyword::DependentSchemas => {
                for (name, then) in context.object(at)? {
                    added.work.extend(dependency_choice(context, id, name, then)?);
                }
            }
        }
        Ok(())
    }

    /// Returns the choice that a schema's `if` gives. It is made once, because a series of them
    /// meets every fork.
    fn conditional(&mut self, id: Id, at: Id) -> Option<PendingKeyword> {
        if let Some(known) = self.memos.conditionals.get(&id) {
            return Some(PendingKeyword::Choice(known.clone(), at));
        }
        let branch = |name: Keyword| self.context.doc.get(id, name).filter(|&b| !self.context.is_true(b));
        let (then, or) = (branch(Keyword::Then), branch(Keyword::Else));
        if then.is_none() && or.is_none() {
            return None;
        }
        let mut yes: Terms = smallvec![Term::Pos(at)];
        yes.extend(then.map(Term::Pos));
        let mut no: Terms = smallvec![Term::Neg(at)];
        no.extend(or.map(Term::Pos));
        let choice = Rc::new(vec![yes, no]);
        self.memos.conditionals.insert(id, choice.clone());
        Some(PendingKeyword::Choice(choice, at))
    }
}

fn limit(mode: Mode) -> usize {
    if mode == Mode::Loose { MAX_LOOSE_FORKS } else { MAX_DISJUNCTS }
}
