//! State of the emission: each distinct conjunction has one id and one node.
//!
//! A conjunction is a tidied list of terms. Everything that reaches the same terms shares the node.
//! A conjunction that is met again while it is being built becomes a rule.
//!
//! # Cost
//!
//! One lookup for each list of terms; for a single schema, in a table by its id.

use rustc_hash::FxHashMap;

use super::super::merge::Normalizer;
use super::super::read::{Id, SchemaContext, Test, UnsatCause, Value};
use super::super::shape::Shape;
use super::super::term::{FALSE, Term, Terms, tidy};
use super::nodes::NodeBuilder;
use super::plan::ConjunctionId;
use crate::constraint::ir::{Node, NodeId, RuleId};
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of distinct conjunctions of schemas.
const MAX_CONJUNCTIONS: usize = 200_000;

/// No conjunction yet.
const NO_CONJUNCTION: ConjunctionId = ConjunctionId::MAX;
/// The conjunction of no terms.
pub(super) const FREE: ConjunctionId = 0;

#[derive(Debug, Clone, Copy)]
pub(super) enum ConjunctionState {
    New,
    /// Being built; the rule, and the node that refers to it, if a reference to it was needed.
    Active(Option<(RuleId, NodeId)>),
    Done(NodeId),
}

pub(super) struct Conjunction {
    pub terms: Terms,
    pub state: ConjunctionState,
    /// True if a `$ref` leads to exactly this conjunction.
    pub referred: bool,
    /// Reason why nothing satisfies it.
    pub cause: Option<UnsatCause>,
}

/// Key of a string language: two equal keys mean the same language.
pub(super) type StringKey = (Vec<(Test, bool)>, u32, Option<u32>);

/// State of the emission.
pub(super) struct SchemaLowering<'p> {
    pub normalizer: Normalizer<'p>,
    pub nodes: NodeBuilder<'p>,
    conjunctions: Vec<Conjunction>,
    /// Conjunctions of a single schema, by the id of the schema, or [`NO_CONJUNCTION`]; most are of
    /// this kind.
    single: Vec<ConjunctionId>,
    ids: FxHashMap<Terms, ConjunctionId>,
    pub strings: FxHashMap<StringKey, NodeId>,
    /// Reason why the conjunction being built allows nothing.
    pub cause: Option<UnsatCause>,
}

impl<'p> SchemaLowering<'p> {
    pub(super) fn new(context: SchemaContext<'p>) -> Self {
        let nodes = NodeBuilder::new(&context);
        let state = ConjunctionState::Done(nodes.any);
        SchemaLowering {
            normalizer: Normalizer::new(context),
            conjunctions: vec![Conjunction { terms: Terms::new(), state, referred: false, cause: None }],
            nodes,
            single: Vec::new(),
            ids: FxHashMap::default(),
            strings: FxHashMap::default(),
            cause: None,
        }
    }

    /// Returns the conjunction of a list of terms.
    pub(super) fn conjunction(&mut self, terms: &[Term]) -> Result<ConjunctionId> {
        if let [Term::Pos(id)] = *terms
            && self.normalizer.context.doc.value(id) == Value::Bool(false)
        {
            self.normalizer.cause = Some((id, "the schema is `false`".into()));
        }
        let tidy = tidy(&mut self.normalizer.context, terms)?;
        let single = match tidy[..] {
            [] => return Ok(FREE),
            [Term::Pos(Id(id))] => Some(id as usize),
            _ => None,
        };
        let known = match single {
            Some(at) => self.single.get(at).copied().filter(|&id| id != NO_CONJUNCTION),
            None => self.ids.get(&tidy).copied(),
        };
        let referred = single.is_some() && !terms.contains(&tidy[0]);
        let id = match known {
            Some(id) => id,
            None => self.add(tidy, single)?,
        };
        self.get(id).referred |= referred;
        Ok(id)
    }

    /// Adds a conjunction of tidied terms; `single`: the number of its only schema.
    fn add(&mut self, terms: Terms, single: Option<usize>) -> Result<ConjunctionId> {
        if self.conjunctions.len() >= MAX_CONJUNCTIONS {
            let message =
                format!("the schema needs more than {MAX_CONJUNCTIONS} combinations of sub-schemas");
            return Err(Error::new(ErrorKind::TooComplex, message));
        }
        let id = self.conjunctions.len() as ConjunctionId;
        let state = match terms[0] {
            FALSE => ConjunctionState::Done(self.nodes.never),
            _ => ConjunctionState::New,
        };
        self.conjunctions.push(Conjunction { terms: terms.clone(), state, referred: false, cause: None });
        if let Some(at) = single {
            if at >= self.single.len() {
                self.single.resize(self.normalizer.context.doc.len().max(at + 1), NO_CONJUNCTION);
            }
            self.single[at] = id;
        } else {
            self.ids.insert(terms, id);
        }
        Ok(id)
    }

    pub(super) fn get(&mut self, id: ConjunctionId) -> &mut Conjunction {
        &mut self.conjunctions[id as usize]
    }

    /// Returns the node of a conjunction; a reference to its rule while it is still being built.
    pub(super) fn node(&mut self, id: ConjunctionId) -> NodeId {
        match self.get(id).state {
            ConjunctionState::Done(node) | ConjunctionState::Active(Some((_, node))) => node,
            ConjunctionState::Active(None) | ConjunctionState::New => {
                let rule = self.nodes.ir.declare_rule();
                let node = self.nodes.ir.push(Node::Rule(rule));
                self.get(id).state = ConjunctionState::Active(Some((rule, node)));
                node
            }
        }
    }

    /// Returns true if a conjunction is known to allow nothing; false while it is still being
    /// built.
    pub(super) fn is_known_empty(&self, id: ConjunctionId) -> bool {
        matches!(self.conjunctions[id as usize].state, ConjunctionState::Done(node) if self.nodes.is_never(node))
    }

    /// Returns the reason why a conjunction allows nothing.
    pub(super) fn reason(&self, id: ConjunctionId) -> Option<UnsatCause> {
        let own = &self.conjunctions[id as usize];
        own.cause.clone().or_else(|| match own.terms[..] {
            [Term::Pos(schema)] => Some((schema, "this schema allows no value".into())),
            _ => None,
        })
    }

    /// Returns the schema that represents a shape in messages.
    pub(super) fn representative_schema(&self, shape: &Shape) -> Id {
        let first = shape.terms.iter().find_map(|t| match *t {
            Term::Pos(id) | Term::Neg(id) => Some(id),
            _ => None,
        });
        first.unwrap_or(self.normalizer.context.doc.root())
    }
}
