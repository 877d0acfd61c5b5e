//! From a list of terms to shapes: everything that applies to one value, in disjunctive form.
//!
//! The [`Term`]s of a list are processed in order. Keywords that only restrict merge into the
//! current [`Shape`]. Keywords that offer a choice (`anyOf`, `oneOf`, `if`, `dependencies`,
//! negations) split it. Alternatives that contradict themselves are dropped at once, so
//! discriminated unions stay small.
//!
//! This file also decides the order of properties: a schema's own `properties` first, then those of
//! its sub-schemas in the order in which their keywords are written.
//!
//! # Cost
//!
//! The keywords of all schemas involved, times the remaining alternatives ([`MAX_DISJUNCTS`]).

use std::borrow::Cow;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::super::check::{EvaluatedSets, RecursionCheck, Validator};
use super::super::read::{Id, Keyword, SchemaContext, Test, Types, UnsatCause, Value, warn_unknown};
use super::super::shape::{ExistsProperty, Names, Shape};
use super::super::term::{FALSE, Term, Terms, add_term};
use super::keyword_merging::{
    Added, alternatives_of, contains_condition, dependency_choice, format, literals, multiple_of, required,
    verbatim,
};
use super::partial_shape::{Mode, PartialShape, Pending, Shapes};
use super::properties::{members, require, restrict_property};
use crate::error::{Error, Result};

/// Maximum number of alternatives of one value after distributing `anyOf`, `oneOf`, `if` and the
/// like.
const MAX_DISJUNCTS: usize = 4_096;
/// Maximum number of alternatives in [`Mode::Loose`].
const MAX_LOOSE_DISJUNCTS: usize = 128;

/// Merges terms into shapes, with the tables that remember what was merged.
pub(crate) struct Normalizer<'p> {
    pub context: SchemaContext<'p>,
    pub recursion: RecursionCheck,
    pub evaluated: EvaluatedSets,
    pub memos: MergeMemos,
    /// Alternatives that wait for their turn; those of the innermost query come last.
    partials: Vec<PartialShape>,
    /// Depth of nested emptiness queries.
    pub empty_depth: u32,
    /// A buffer for the keywords of a schema.
    keywords: Vec<(Keyword, Id)>,
    /// Reason why the last alternative was dropped.
    pub cause: Option<UnsatCause>,
}

/// An expansion under way: its first alternative, and the shapes that are finished.
struct Expansion {
    mode: Mode,
    bottom: usize,
    done: Shapes,
}

/// Results of merging that are needed more than once.
#[derive(Default)]
pub(crate) struct MergeMemos {
    /// Conjunctions that allow nothing, or are not known to, with the depth of the query.
    pub empty: FxHashMap<Terms, (bool, u32)>,
    /// Alternatives that violate each schema that was negated.
    pub violations: FxHashMap<Id, Rc<Vec<Terms>>>,
    /// Choice that the `if` of each schema gives.
    conditionals: FxHashMap<Id, Rc<Vec<Terms>>>,
}

impl<'p> Normalizer<'p> {
    pub(crate) fn new(context: SchemaContext<'p>) -> Self {
        Normalizer {
            context,
            recursion: RecursionCheck::default(),
            evaluated: EvaluatedSets::default(),
            memos: MergeMemos::default(),
            partials: Vec::new(),
            empty_depth: 0,
            keywords: Vec::new(),
            cause: None,
        }
    }

    /// Returns the validator of literals.
    pub(crate) fn validator(&mut self) -> Validator<'_, 'p> {
        Validator { context: &mut self.context, evaluated: &mut self.evaluated, depth: 0 }
    }
}

impl Normalizer<'_> {
    /// Returns all shapes of a conjunction. In loose mode it returns only the first one, or `None`
    /// if there are too many alternatives to decide.
    pub(crate) fn expand(&mut self, start: PartialShape, mode: Mode) -> Result<Option<Shapes>> {
        // Alternatives below this index belong to the queries around this one.
        let bottom = self.partials.len();
        self.partials.push(start);
        let mut expansion = Expansion { mode, bottom, done: Shapes::new() };
        let mut decidable = Ok(true);
        while self.partials.len() > bottom
            && matches!(decidable, Ok(true))
            && (mode == Mode::Exact || expansion.done.is_empty())
            && let Some(partial) = self.partials.pop()
        {
            decidable = self.advance(partial, &mut expansion);
        }
        self.partials.truncate(bottom);
        Ok(decidable?.then_some(expansion.done))
    }

    /// Processes one alternative up to its end or to the next choice. Returns `false` in loose mode
    /// if there are too many alternatives.
    fn advance(&mut self, mut partial: PartialShape, expansion: &mut Expansion) -> Result<bool> {
        let Expansion { mode, bottom, ref mut done } = *expansion;
        let (alternatives, at) = loop {
            self.context.step(1 + partial.shape.object.values.len() as u64 / 16, Id(0))?;
            match partial.left.pop() {
                None => {
                    if self.finish(&mut partial.shape, mode)? {
                        done.push(partial.shape);
                    }
                    return Ok(true);
                }
                Some(Pending::Term(term)) => {
                    self.apply(&mut partial, term)?;
                    if partial.shape.types.is_empty() {
                        return Ok(true);
                    }
                }
                // With or without the property, everything required is merged already.
                Some(Pending::Dependency(choice, _)) if self.implied(&partial.shape, &choice[0][2..])? => {}
                Some(Pending::Choice(alternatives, at) | Pending::Dependency(alternatives, at)) => {
                    if self.any_implied(&partial.shape, &alternatives)? {
                        continue;
                    }
                    match self.decided(&partial.shape, &alternatives)? {
                        Some(terms) => partial.next(terms),
                        None => break (alternatives, at),
                    }
                }
                Some(Pending::OneOf(at)) => break (Rc::new(self.one_of(&partial, at, mode)?), at),
            }
        };
        if alternatives.len() > 1 && self.drop_impossible_types(&mut partial.shape)? {
            return Ok(true);
        }
        let max = if mode == Mode::Loose { MAX_LOOSE_DISJUNCTS } else { MAX_DISJUNCTS };
        if done.len() + self.partials.len() - bottom + alternatives.len() > max {
            return if mode == Mode::Loose { Ok(false) } else { Err(self.too_many(at)) };
        }
        let Some((first, others)) = alternatives.split_first() else { return Ok(true) };
        for terms in others.iter().rev() {
            let mut other = partial.clone();
            other.next(terms);
            self.partials.push(other);
        }
        partial.next(first);
        self.partials.push(partial);
        Ok(true)
    }

    /// Returns true if one of the alternatives follows from what is merged.
    fn any_implied(&mut self, shape: &Shape, alternatives: &[Terms]) -> Result<bool> {
        for terms in alternatives {
            if self.implied(shape, terms)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn too_many(&self, at: Id) -> Error {
        let message = format!("combining the alternatives gives more than {MAX_DISJUNCTS} disjuncts");
        self.context.too_complex(at, message).hint(
            "reduce the number of `anyOf`, `oneOf`, `if` and `dependencies` that apply to the same value",
        )
    }

    /// Merges one term.
    fn apply(&mut self, partial: &mut PartialShape, term: Term) -> Result<()> {
        if !partial.shape.terms.insert(term) {
            return Ok(());
        }
        if term.opposite().is_some_and(|opposite| partial.shape.terms.contains(&opposite)) {
            partial.only(Types::NONE);
            return Ok(());
        }
        if let Term::Pos(id) | Term::Neg(id) = term {
            self.recursion.check(&mut self.context, id)?;
        }
        match term {
            Term::Pos(id) => self.positive(partial, id)?,
            Term::Neg(id) => self.negative(partial, id)?,
            Term::NegKeyword(schema, name) => self.negative_keyword(partial, schema, name)?,
            Term::Types(types) => partial.only(types),
            Term::Require(name) => require(&mut partial.shape, name),
            Term::Forbid(name) => restrict_property(&mut self.context, &mut partial.shape, name, FALSE)?,
            Term::Property(name, schema, holds) => {
                let term = if holds { Term::Pos(schema) } else { Term::Neg(schema) };
                restrict_property(&mut self.context, &mut partial.shape, name, term)?;
            }
            Term::MatchFails(pattern, at) => {
                let (names, value) = (Names::Matching(pattern), Some(Term::Neg(at)));
                partial.shape.object.demands.push(ExistsProperty { names, value, at });
            }
            Term::ItemFails(index, schema) => {
                let array = &mut partial.shape.array;
                let mut prefix = vec![None; index as usize];
                prefix.push(Some(Term::Neg(schema)));
                array.each_item(&prefix, None);
                array.min = array.min.max(index.saturating_add(1));
            }
            Term::Unevaluated(set, at, holds) => self.outside(partial, set, at, holds)?,
            Term::Below(id) | Term::Above(id) => {
                if let Some(mut bound) = self.context.bound(id, Keyword::Minimum, id)? {
                    bound.exclusive = true;
                    match term {
                        Term::Below(_) => partial.shape.number.at_most(bound),
                        _ => partial.shape.number.at_least(bound),
                    }
                }
            }
        }
        partial.shape.drop_contradictions();
        Ok(())
    }

    /// Returns the types that a single schema names, if it asserts nothing else.
    pub(crate) fn only_types(&mut self, terms: &[Term]) -> Result<Option<Types>> {
        let [Term::Pos(id)] = *terms else { return Ok(None) };
        let mut keywords = self.context.asserting(id);
        let (Some((Keyword::Type, at)), None) = (keywords.next(), keywords.next()) else { return Ok(None) };
        drop(keywords);
        let types = self.context.types(at)?;
        if types.is_empty() {
            return Ok(None);
        }
        warn_unknown(&mut self.context, id);
        Ok(Some(types))
    }

    /// Merges a schema.
    fn positive(&mut self, partial: &mut PartialShape, id: Id) -> Result<()> {
        match self.context.doc.value(id) {
            Value::Bool(true) => return Ok(()),
            Value::Bool(false) => {
                self.record_unsat_cause(id, "the schema is `false`");
                partial.only(Types::NONE);
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
        let before = partial.shape.types;
        let mut added = Added::default();
        for &(keyword, at) in &keywords {
            self.merge_keyword(partial, id, (keyword, at), &mut added)?;
        }
        self.keywords = keywords;
        if partial.shape.types.is_empty() && !before.is_empty() {
            self.record_unsat_cause(id, "its types or values contradict what else applies to the same value");
        }
        partial.queue(added.work);
        Ok(())
    }

    /// Remembers why an alternative was dropped.
    pub(crate) fn record_unsat_cause(&mut self, id: Id, why: impl Into<Cow<'static, str>>) {
        if self.empty_depth == 0 {
            self.cause.get_or_insert_with(|| (id, why.into()));
        }
    }

    /// Merges one keyword, or adds work for it.
    fn merge_keyword(
        &mut self,
        partial: &mut PartialShape,
        id: Id,
        (keyword, at): (Keyword, Id),
        added: &mut Added,
    ) -> Result<()> {
        let (context, shape) = (&mut self.context, &mut partial.shape);
        match keyword {
            Keyword::Type => shape.types = shape.types.and(context.types(at)?),
            Keyword::Const => literals(context, shape, vec![at]),
            Keyword::Enum => {
                let values = context.list(at, "expected an array of values")?.to_vec();
                literals(context, shape, values);
            }
            Keyword::Ref | Keyword::DynamicRef | Keyword::RecursiveRef => {
                added.term(Term::Pos(context.target(keyword, at)?));
            }
            Keyword::AllOf => context.schemas(at)?.into_iter().for_each(|s| added.term(Term::Pos(s))),
            Keyword::AnyOf | Keyword::OneOf => alternatives_of(context, shape, keyword, at, added)?,
            Keyword::Not => added.term(Term::Neg(at)),
            Keyword::If => added.work.extend(self.conditional(id, at)),
            Keyword::Then | Keyword::Else => {}
            Keyword::Minimum | Keyword::ExclusiveMinimum => {
                context.bound(id, keyword, at)?.into_iter().for_each(|bound| shape.number.at_least(bound));
            }
            Keyword::Maximum | Keyword::ExclusiveMaximum => {
                context.bound(id, keyword, at)?.into_iter().for_each(|bound| shape.number.at_most(bound));
            }
            Keyword::MultipleOf => multiple_of(context, shape, at)?,
            Keyword::MinLength | Keyword::MinItems | Keyword::MinProperties => {
                shape.bound_count(keyword, (context.count(at)?, None), at);
            }
            Keyword::MaxLength | Keyword::MaxItems | Keyword::MaxProperties => {
                shape.bound_count(keyword, (0, Some(context.count(at)?)), at);
            }
            Keyword::Pattern => shape.string.add(Test::Pattern(context.text(at)?), true, at),
            Keyword::Format => format(context, shape, id, at)?,
            Keyword::XVerbatim => verbatim(context, shape, at)?,
            Keyword::Items | Keyword::PrefixItems | Keyword::AdditionalItems => {
                if !std::mem::replace(&mut added.has_items, true) {
                    let (prefix, rest) = context.item_schemas(id)?;
                    let prefix: Vec<Option<Term>> = prefix.into_iter().map(|s| Some(Term::Pos(s))).collect();
                    shape.array.each_item(&prefix, rest.map(Term::Pos));
                }
            }
            Keyword::UniqueItems => {
                if context.flag(at)? {
                    shape.array.unique = Some(at);
                }
            }
            Keyword::Contains => contains_condition(context, shape, id, at)?,
            Keyword::MinContains | Keyword::MaxContains => {}
            Keyword::UnevaluatedItems | Keyword::UnevaluatedProperties => {
                shape.object.open |= keyword == Keyword::UnevaluatedProperties;
                // First, so that the choices of its siblings are already decided.
                self.unevaluated(id, keyword, at)?.into_iter().for_each(|work| added.work.insert(0, work));
            }
            Keyword::Properties | Keyword::PatternProperties | Keyword::AdditionalProperties => {
                if !std::mem::replace(&mut added.has_members, true) {
                    members(context, partial, id)?;
                }
            }
            Keyword::Required => required(context, shape, at)?,
            Keyword::PropertyNames => add_term(&mut shape.object.names, Term::Pos(at)),
            Keyword::Dependencies | Keyword::DependentRequired | Keyword::DependentSchemas => {
                for (name, then) in context.object(at)? {
                    added.work.extend(dependency_choice(context, id, name, then)?);
                }
            }
        }
        Ok(())
    }

    /// Returns the choice that a schema's `if` gives. It is made once, because a series of them
    /// meets every alternative.
    fn conditional(&mut self, id: Id, at: Id) -> Option<Pending> {
        if let Some(known) = self.memos.conditionals.get(&id) {
            return Some(Pending::Choice(known.clone(), at));
        }
        let (then, or) = self.context.branches(id);
        if then.is_none() && or.is_none() {
            return None;
        }
        let with = |holds, branch: Option<Id>| [holds].into_iter().chain(branch.map(Term::Pos)).collect();
        let choice = Rc::new(vec![with(Term::Pos(at), then), with(Term::Neg(at), or)]);
        self.memos.conditionals.insert(id, choice.clone());
        Some(Pending::Choice(choice, at))
    }
}
