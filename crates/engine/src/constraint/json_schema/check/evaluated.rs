//! Evaluated sets: the properties and items that the keywords of a schema evaluate.
//!
//! That depends on which sibling schemas hold, so it is computed as *alternatives*: lists of terms
//! with the set that is evaluated if they hold. An alternative need not state which schemas do not
//! hold. A smaller evaluated set only requires more, so the union over the alternatives is exact.
//!
//! # Cost
//!
//! Alternatives that another one makes superfluous are dropped; at most [`MAX_ALTERNATIVES`] are
//! left.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::super::read::{Evaluates, Id, Keyword, SchemaContext, SchemaDraft, Schemas, Symbol, Types, Value};
use super::super::term::{Term, Terms, add_term};
use crate::error::Result;

/// Maximum number of alternatives of the evaluated set for one keyword.
const MAX_ALTERNATIVES: usize = 512;

/// Maximum nesting of schemas for the same value in which evaluation is followed.
const MAX_DEPTH: u32 = 64;

/// Kind of the keyword: about properties or about items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum UnevaluatedKind {
    Properties,
    Items,
}

/// An evaluated set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Evaluated {
    pub kind: UnevaluatedKind,
    /// Everything.
    pub all: bool,
    /// Properties with these names.
    pub names: Vec<Symbol>,
    /// Properties whose names match one of these patterns (with the location of one).
    pub patterns: Schemas,
    /// Number of first items.
    pub first: u32,
    /// Items that satisfy one of these schemas.
    pub matching: Vec<Id>,
}

/// Terms, and the evaluated set if they hold.
#[derive(Debug, Clone)]
pub(crate) struct Alternative {
    pub terms: Terms,
    pub seen: Evaluated,
}

/// Alternatives by the schema, the kind, and whether the query comes from a schema around it. In
/// that case its own `unevaluated…` keyword counts as well.
type AlternativesMemo = FxHashMap<(Id, UnevaluatedKind, bool), Rc<Alternatives>>;

/// Alternatives of which at least one holds for every instance that its schemas accept.
#[derive(Debug)]
pub(crate) struct Alternatives(pub Vec<Alternative>);

impl Evaluated {
    pub(crate) fn none(kind: UnevaluatedKind) -> Evaluated {
        let (names, patterns, matching) = (Vec::new(), Schemas::new(), Vec::new());
        Evaluated { kind, all: false, names, patterns, first: 0, matching }
    }

    fn is_nothing(&self) -> bool {
        *self == Evaluated::none(self.kind)
    }

    pub(crate) fn add(&mut self, other: &Evaluated) {
        self.all |= other.all;
        self.names.extend(&other.names);
        self.patterns.extend_from_slice(&other.patterns);
        self.matching.extend(&other.matching);
        self.first = self.first.max(other.first);
        self.names.sort_unstable();
        self.names.dedup();
        self.patterns.sort_unstable();
        self.patterns.dedup_by_key(|p| p.0);
        self.matching.sort_unstable();
        self.matching.dedup();
    }

    fn covers(&self, other: &Evaluated) -> bool {
        let pattern = |p: &(Symbol, Id)| self.patterns.iter().any(|q| q.0 == p.0);
        self.all
            || !other.all
                && self.first >= other.first
                && other.names.iter().all(|n| self.names.binary_search(n).is_ok())
                && other.patterns.iter().all(pattern)
                && other.matching.iter().all(|m| self.matching.binary_search(m).is_ok())
    }
}

impl Alternative {
    fn and(&self, other: &Alternative) -> Alternative {
        let mut both = self.clone();
        other.terms.iter().for_each(|t| add_term(&mut both.terms, *t));
        both.seen.add(&other.seen);
        both
    }

    /// Returns the same alternative with more terms, which come first.
    fn with_terms(&self, terms: &[Term]) -> Alternative {
        let mut all = Terms::from_slice(terms);
        self.terms.iter().for_each(|t| add_term(&mut all, *t));
        Alternative { terms: all, seen: self.seen.clone() }
    }
}

impl Alternatives {
    fn none(kind: UnevaluatedKind) -> Alternatives {
        Alternatives(vec![Alternative { terms: Terms::new(), seen: Evaluated::none(kind) }])
    }

    fn is_nothing(&self) -> bool {
        self.0.iter().all(|a| a.seen.is_nothing())
    }

    /// Returns the same alternatives with more terms, which come first.
    fn with_terms(&self, terms: &[Term]) -> Alternatives {
        Alternatives(self.0.iter().map(|a| a.with_terms(terms)).collect())
    }

    fn and(&self, other: &Alternatives) -> Alternatives {
        if other.is_nothing() {
            // The terms of `other` are merged elsewhere.
            return Alternatives(self.0.clone());
        }
        let all = self.0.iter().flat_map(|a| other.0.iter().map(move |b| a.and(b)));
        Alternatives(all.collect()).pruned()
    }

    fn or(mut self, other: &Alternatives) -> Alternatives {
        self.0.extend_from_slice(&other.0);
        self.pruned()
    }

    /// Drops alternatives that require more and evaluate no more than another one.
    fn pruned(self) -> Alternatives {
        let mut kept: Vec<Alternative> = Vec::with_capacity(self.0.len());
        let beats = |a: &Alternative, b: &Alternative| {
            a.terms.len() <= b.terms.len()
                && a.seen.covers(&b.seen)
                && a.terms.iter().all(|t| b.terms.contains(t))
        };
        for own in self.0 {
            if !kept.iter().any(|other| beats(other, &own)) {
                kept.retain(|other| !beats(&own, other));
                kept.push(own);
            }
        }
        Alternatives(kept)
    }
}

/// Evaluated sets in use, and the alternatives that were computed.
#[derive(Default)]
pub(crate) struct EvaluatedSets {
    alternatives: AlternativesMemo,
    sets: Vec<Rc<Evaluated>>,
}

impl EvaluatedSets {
    /// Returns the set with this number.
    pub(crate) fn set(&self, number: u32) -> Rc<Evaluated> {
        self.sets[number as usize].clone()
    }

    /// Returns the set of the properties with these names.
    pub(crate) fn only_names(&mut self, mut names: Vec<Symbol>) -> u32 {
        names.sort_unstable();
        self.evaluated_set(&Evaluated { names, ..Evaluated::none(UnevaluatedKind::Properties) })
    }

    /// Returns the number of a set.
    pub(crate) fn evaluated_set(&mut self, seen: &Evaluated) -> u32 {
        let known = self.sets.iter().position(|s| **s == *seen);
        known.unwrap_or_else(|| {
            self.sets.push(Rc::new(seen.clone()));
            self.sets.len() - 1
        }) as u32
    }

    /// Returns the evaluated sets for a keyword of a schema object.
    pub(crate) fn evaluated_beside(
        &mut self,
        context: &mut SchemaContext<'_>,
        schema: Id,
        keyword: Keyword,
    ) -> Result<Rc<Alternatives>> {
        Query { sets: self, context, kind: kind_of(keyword), depth: 0 }.evaluated_by(schema, false)
    }
}

/// What some schemas evaluate of one kind.
struct Query<'a, 'p> {
    sets: &'a mut EvaluatedSets,
    context: &'a mut SchemaContext<'p>,
    kind: UnevaluatedKind,
    depth: u32,
}

impl Query<'_, '_> {
    /// Returns what a schema evaluates; with `around`, its own `unevaluated…` keyword counts.
    fn evaluated_by(&mut self, id: Id, around: bool) -> Result<Rc<Alternatives>> {
        let key = (id, self.kind, around);
        if let Some(known) = self.sets.alternatives.get(&key) {
            return Ok(known.clone());
        }
        if self.depth > MAX_DEPTH {
            let message = format!("what is evaluated is nested deeper than the limit of {MAX_DEPTH}");
            return Err(self.context.too_complex(id, message));
        }
        let seen = evaluated_directly(self.context, id, self.kind, around)?;
        let mut all = Alternatives(vec![Alternative { terms: Terms::new(), seen }]);
        if !all.0[0].seen.all {
            let keywords: Vec<(Keyword, Id)> = self.context.asserting(id).collect();
            for (keyword, at) in keywords {
                if let Some(own) = self.evaluated_through(id, keyword, at)? {
                    self.context.step((all.0.len() * own.0.len()) as u64, at)?;
                    all = all.and(&own);
                }
                if all.0.len() > MAX_ALTERNATIVES {
                    let message = format!(
                        "what is evaluated beside `unevaluated…` depends on more than {MAX_ALTERNATIVES} combinations"
                    );
                    return Err(self.context.too_complex(at, message));
                }
            }
        }
        let all = Rc::new(all);
        self.sets.alternatives.insert(key, all.clone());
        Ok(all)
    }

    /// Returns what a schema object evaluates through the schemas of one keyword; `None`: nothing.
    fn evaluated_through(&mut self, id: Id, keyword: Keyword, at: Id) -> Result<Option<Alternatives>> {
        let none = Alternatives::none(self.kind);
        let mut all = Alternatives::none(self.kind);
        match keyword.definition().evaluates {
            Evaluates::Target => {
                let target = self.context.target(keyword, at)?;
                all = self.holding(target)?;
            }
            Evaluates::Every => {
                for schema in self.context.schemas(at)? {
                    all = all.and(&self.holding(schema)?);
                }
            }
            Evaluates::Valid => {
                let mut each = true;
                for schema in self.context.schemas(at)? {
                    let own = self.holding(schema)?;
                    each &= own.0.iter().all(|a| !a.seen.is_nothing());
                    self.context.step((all.0.len() * own.0.len()) as u64, at)?;
                    all = all.and(&own.or(&none));
                    if all.0.len() > MAX_ALTERNATIVES {
                        break;
                    }
                }
                if each {
                    // At least one of them holds, and evaluates something.
                    all.0.retain(|a| !a.terms.is_empty());
                }
            }
            Evaluates::One => {
                all.0.clear();
                for schema in self.context.schemas(at)? {
                    all = all.or(&self.holding(schema)?);
                }
            }
            Evaluates::Branches => all = self.evaluated_by_if(id, at)?,
            Evaluates::Present => {
                for (name, then) in self.context.object(at)? {
                    if matches!(self.context.doc.value(then), Value::Object { .. }) {
                        let own = self.holding(then)?;
                        if !own.is_nothing() {
                            let there = [Term::Types(Types::OBJECT), Term::Require(name)];
                            let absent = none.with_terms(&[Term::Forbid(name)]);
                            all = all.and(&own.with_terms(&there).or(&absent));
                        }
                    }
                }
            }
            // `evaluated_directly` reads the keywords of parts.
            Evaluates::Parts | Evaluates::Nothing => return Ok(None),
        }
        Ok(Some(all))
    }

    fn evaluated_by_if(&mut self, id: Id, at: Id) -> Result<Alternatives> {
        let none = Alternatives::none(self.kind);
        let (then, or) = self.context.branches(id);
        let mut yes = self.holding(at)?;
        if then.is_none() && or.is_none() {
            return Ok(yes.or(&none));
        }
        if let Some(then) = then {
            yes = yes.and(&self.holding(then)?);
        }
        let no = or.map_or(Ok(none), |or| self.holding(or))?;
        Ok(yes.with_terms(&[Term::Pos(at)]).or(&no.with_terms(&[Term::Neg(at)])))
    }

    /// Returns what a schema evaluates, with the term that the schema holds added to each
    /// alternative that evaluates something.
    fn holding(&mut self, schema: Id) -> Result<Alternatives> {
        self.depth += 1;
        let own = self.evaluated_by(schema, true);
        self.depth -= 1;
        let own = own?;
        let all = own.0.iter().map(|own| match own.seen.is_nothing() && own.terms.is_empty() {
            true => own.clone(),
            false => own.with_terms(&[Term::Pos(schema)]),
        });
        Ok(Alternatives(all.collect()).pruned())
    }
}

/// Returns true if a property of that name is evaluated.
pub(crate) fn is_evaluated(context: &mut SchemaContext<'_>, seen: &Evaluated, name: Symbol) -> Result<bool> {
    Ok(seen.all || seen.names.binary_search(&name).is_ok() || context.passes_any(&seen.patterns, name)?)
}

/// Returns what a schema object evaluates by keywords of its own.
fn evaluated_directly(
    context: &SchemaContext<'_>,
    id: Id,
    kind: UnevaluatedKind,
    around: bool,
) -> Result<Evaluated> {
    let mut seen = Evaluated::none(kind);
    let has = |name: Keyword| context.doc.get(id, name).is_some();
    match kind {
        UnevaluatedKind::Properties => {
            seen.names = context.entries(id, Keyword::Properties)?.into_iter().map(|p| p.0).collect();
            seen.names.sort_unstable();
            seen.patterns = context.entries(id, Keyword::PatternProperties)?;
            seen.patterns.sort_unstable();
            seen.all = has(Keyword::AdditionalProperties) || around && has(Keyword::UnevaluatedProperties);
        }
        UnevaluatedKind::Items => {
            let (prefix, rest) = context.item_schemas(id)?;
            seen.first = prefix.len() as u32;
            seen.all = rest.is_some() || around && has(Keyword::UnevaluatedItems);
            if context.draft >= SchemaDraft::D2020 {
                seen.matching.extend(context.doc.get(id, Keyword::Contains));
            }
        }
    }
    Ok(seen)
}

pub(super) fn kind_of(keyword: Keyword) -> UnevaluatedKind {
    if keyword == Keyword::UnevaluatedItems { UnevaluatedKind::Items } else { UnevaluatedKind::Properties }
}

/// Returns the schema of an item after the first ones: `contains` evaluates it, or it satisfies
/// the keyword's schema.
pub(crate) fn item_outside(context: &mut SchemaContext<'_>, seen: &Evaluated, at: Id) -> Id {
    let mut schemas = seen.matching.clone();
    if context.doc.value(at) != Value::Bool(false) {
        schemas.push(at);
    }
    match schemas[..] {
        [] => at,
        [only] => only,
        _ => context.synthetic.any_of(&mut context.doc, &schemas, at),
    }
}
