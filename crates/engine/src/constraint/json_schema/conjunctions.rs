//! Main loop of the front end: builds one node for each conjunction of schemas.
//!
//! A conjunction is a tidied list of terms; the code calls its id a *goal*. It is expanded into
//! shapes once. Its children are built before it, with an explicit stack instead of recursion.
//! Everything that reaches the same terms shares the node.
//!
//! A conjunction that is met again while it is being built becomes a rule. So do targets of `$ref`
//! that hold objects or arrays: the machine then need not expand them at every use.
//!
//! # Alternatives considered
//!
//! Unrolling was rejected: it does not end for recursive schemas, and it copies shared ones.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::context::{MAX_CONJUNCTIONS, MAX_NODES, SchemaContext};
use super::diagnostics::UnsatCause;
use super::exists_property::Planned;
use super::fork::{Fork, Mode, Shapes};
use super::nodes::NodeBuilder;
use super::normalize::Normalizer;
use super::shape::{FALSE, Shape, Term, Terms, Test};
use super::shared_refs::SharedAlternatives;
use super::undeclared::Keys;
use crate::constraint::ir::{Ir, Node, NodeId, RuleId};
use crate::constraint::json::document::{Id, Symbol, Value};
use crate::error::{Error, ErrorKind, Result};

/// Declared properties of a shape in the order of the output; the flag says whether they are
/// required.
pub(super) type Declared = SmallVec<[(Symbol, ConjunctionId, bool); 6]>;
/// Undeclared properties of a shape, by disjoint sets of names; mostly one set, of all names.
pub(super) type Extras = SmallVec<[(Keys, ConjunctionId); 1]>;

/// Id of a conjunction.
pub(super) type ConjunctionId = u32;

/// No conjunction yet.
const NO_CONJUNCTION: ConjunctionId = ConjunctionId::MAX;

#[derive(Debug, Clone, Copy)]
enum ConjunctionState {
    New,
    /// Being built; the rule, and the node that refers to it, if a reference to it was needed.
    Active(Option<(RuleId, NodeId)>),
    Done(NodeId),
}

struct Conjunction {
    terms: Terms,
    state: ConjunctionState,
    /// True if a `$ref` leads to exactly this conjunction.
    referred: bool,
    /// Reason why nothing satisfies it.
    culprit: Option<UnsatCause>,
}

/// All conjunctions, by number and by their terms.
#[derive(Default)]
pub(super) struct Conjunctions {
    list: Vec<Conjunction>,
    /// Conjunctions of a single schema, by the id of the schema, or [`NO_CONJUNCTION`]; most are of
    /// this kind.
    single: Vec<ConjunctionId>,
    /// Conjunction of no terms.
    free: Option<ConjunctionId>,
    ids: FxHashMap<Terms, ConjunctionId>,
}

impl Conjunctions {
    /// Returns the conjunction of tidied terms, if there is one.
    fn known(&self, terms: &Terms) -> Option<ConjunctionId> {
        match terms[..] {
            [] => self.free,
            [Term::Pos(id)] => self.single.get(id.0 as usize).copied().filter(|&goal| goal != NO_CONJUNCTION),
            _ => self.ids.get(terms).copied(),
        }
    }

    fn note(&mut self, values: usize, terms: Terms, goal: ConjunctionId) {
        match terms[..] {
            [] => self.free = Some(goal),
            [Term::Pos(Id(id))] => {
                let at = id as usize;
                if at >= self.single.len() {
                    self.single.resize(values.max(at + 1), NO_CONJUNCTION);
                }
                self.single[at] = goal;
            }
            _ => {
                self.ids.insert(terms, goal);
            }
        }
    }

    /// Returns the terms of a conjunction.
    pub fn terms(&self, goal: ConjunctionId) -> &Terms {
        &self.list[goal as usize].terms
    }

    /// Returns the reason why a conjunction allows nothing.
    pub fn reason(&self, goal: ConjunctionId) -> Option<UnsatCause> {
        let goal = &self.list[goal as usize];
        goal.culprit.clone().or_else(|| match goal.terms[..] {
            [Term::Pos(id)] => Some((id, "this schema allows no value".into())),
            _ => None,
        })
    }
}

/// A shape with the conjunctions of its children.
pub(super) struct Plan {
    pub shape: Box<Shape>,
    pub properties: Declared,
    pub extra: Extras,
    pub prefix: Vec<ConjunctionId>,
    pub rest: ConjunctionId,
    /// For an array with conditions on its items: the alternatives for each position.
    pub contains: Vec<Vec<(u32, ConjunctionId)>>,
    pub demand: Option<Planned>,
}

impl Plan {
    /// Calls `child` for each conjunction that must be built first.
    fn children(&self, mut child: impl FnMut(ConjunctionId)) {
        self.properties.iter().for_each(|p| child(p.1));
        self.extra.iter().for_each(|e| child(e.1));
        self.prefix.iter().for_each(|&goal| child(goal));
        child(self.rest);
        self.demand.iter().flat_map(Planned::goals).for_each(&mut child);
        self.contains.iter().flatten().for_each(|way| child(way.1));
    }
}

/// A conjunction that is being built.
struct ConjunctionFrame {
    goal: ConjunctionId,
    /// Start of its plans, of its alternatives that are conjunctions of their own, and of its
    /// children, in the lists of [`Path`].
    plans: usize,
    shared: usize,
    children: usize,
}

/// The stack of conjunctions that are being built, each needed by the one before it. It also holds
/// their plans and the children still to build, the next one last. All conjunctions share these
/// lists, so none costs an allocation.
#[derive(Default)]
struct Path {
    frames: Vec<ConjunctionFrame>,
    plans: Vec<Plan>,
    shared: Vec<ConjunctionId>,
    children: Vec<ConjunctionId>,
}

/// State of the main loop.
pub(super) struct SchemaLowering<'p> {
    pub normalizer: Normalizer<'p>,
    pub nodes: NodeBuilder,
    pub conjunctions: Conjunctions,
    pub strings: FxHashMap<StringKey, NodeId>,
    /// Reason why the conjunction being built allows nothing.
    pub culprit: Option<UnsatCause>,
}

/// Key of a string language: two equal keys mean the same language.
pub(super) type StringKey = (Vec<(Test, bool)>, u32, Option<u32>);

impl<'p> SchemaLowering<'p> {
    pub fn new(context: SchemaContext<'p>) -> Self {
        let values = context.doc.len();
        SchemaLowering {
            normalizer: Normalizer::new(context),
            nodes: NodeBuilder::new(values),
            conjunctions: Conjunctions::default(),
            strings: FxHashMap::default(),
            culprit: None,
        }
    }

    /// Builds everything below the root schema.
    pub fn run(mut self) -> Result<Ir> {
        let root = self.normalizer.context.doc.root();
        self.normalizer.grounded.check(&mut self.normalizer.context, root)?;
        let goal = self.conjunction(&[Term::Pos(root)])?;
        let mut path = Path::default();
        self.enter(goal, &mut path)?;
        while let Some(frame) = path.frames.last() {
            if path.children.len() > frame.children
                && let Some(child) = path.children.pop()
            {
                if matches!(self.conjunctions.list[child as usize].state, ConjunctionState::New) {
                    self.enter(child, &mut path)?;
                }
            } else if let Some(frame) = path.frames.pop() {
                self.leave(&frame, &path.plans[frame.plans..], &path.shared[frame.shared..])?;
                path.plans.truncate(frame.plans);
                path.shared.truncate(frame.shared);
            }
        }
        let node = self.node(goal);
        if self.nodes.is_never(node) {
            let (at, why) = self.conjunctions.list[goal as usize]
                .culprit
                .take()
                .or(self.normalizer.culprit.take())
                .unwrap_or_else(|| (root, "the keywords contradict each other".into()));
            return Err(self.normalizer.context.error(
                ErrorKind::Unsatisfiable,
                at,
                format!("no value is valid: {why}"),
            ));
        }
        let mut ir = self.nodes.ir;
        ir.set_root(node);
        let SchemaContext { texts, diagnostics, .. } = self.normalizer.context;
        ir.warnings = diagnostics.warnings;
        if let Some(source) = texts.quoted.and_then(|quoted| quoted.used()) {
            ir.add_source(Arc::new(source));
        }
        Ok(ir)
    }

    /// Returns the conjunction of a list of terms.
    pub fn conjunction(&mut self, terms: &[Term]) -> Result<ConjunctionId> {
        if let ([], Some(free)) = (terms, self.conjunctions.free) {
            return Ok(free);
        }
        if let [Term::Pos(id)] = *terms
            && self.normalizer.context.doc.value(id) == Value::Bool(false)
        {
            self.normalizer.culprit = Some((id, "the schema is `false`".into()));
        }
        let tidy = self.normalizer.context.tidy(terms)?;
        let referred = matches!(tidy[..], [Term::Pos(_)]) && !terms.contains(&tidy[0]);
        let id = match self.conjunctions.known(&tidy) {
            Some(id) => id,
            None => {
                let id = self.conjunctions.list.len() as ConjunctionId;
                if self.conjunctions.list.len() >= MAX_CONJUNCTIONS {
                    return Err(Error::new(
                        ErrorKind::TooComplex,
                        format!("the schema needs more than {MAX_CONJUNCTIONS} combinations of sub-schemas"),
                    ));
                }
                let state = match tidy.first() {
                    None => ConjunctionState::Done(self.nodes.any),
                    Some(&FALSE) => ConjunctionState::Done(self.nodes.never),
                    Some(_) => ConjunctionState::New,
                };
                self.conjunctions.list.push(Conjunction {
                    terms: tidy.clone(),
                    state,
                    referred: false,
                    culprit: None,
                });
                self.conjunctions.note(self.normalizer.context.doc.len(), tidy, id);
                id
            }
        };
        self.conjunctions.list[id as usize].referred |= referred;
        Ok(id)
    }

    /// Returns the node of a conjunction; a reference to its rule while it is still being built.
    pub fn node(&mut self, goal: ConjunctionId) -> NodeId {
        match self.conjunctions.list[goal as usize].state {
            ConjunctionState::Done(node) | ConjunctionState::Active(Some((_, node))) => node,
            ConjunctionState::Active(None) | ConjunctionState::New => {
                let rule = self.nodes.ir.declare_rule();
                let node = self.nodes.ir.push(Node::Rule(rule));
                self.conjunctions.list[goal as usize].state = ConjunctionState::Active(Some((rule, node)));
                node
            }
        }
    }

    /// Returns true if a conjunction is known to allow nothing; false while it is still being
    /// built.
    pub fn is_known_empty(&mut self, goal: ConjunctionId) -> bool {
        match self.conjunctions.list[goal as usize].state {
            ConjunctionState::Done(node) => self.nodes.is_never(node),
            _ => false,
        }
    }

    /// Returns the schema that represents a shape in messages.
    pub fn representative_schema(&self, shape: &Shape) -> Id {
        let first = shape.terms.iter().find_map(|t| match *t {
            Term::Pos(id) | Term::Neg(id) => Some(id),
            _ => None,
        });
        first.unwrap_or(self.normalizer.context.doc.root())
    }

    fn enter(&mut self, goal: ConjunctionId, path: &mut Path) -> Result<()> {
        if !matches!(self.conjunctions.list[goal as usize].state, ConjunctionState::New) {
            return Ok(());
        }
        let terms = self.conjunctions.list[goal as usize].terms.clone();
        self.normalizer.culprit = None;
        if let Some(types) = self.normalizer.only_types(&terms)?
            && let Some(node) = self.nodes.types_node(&self.normalizer.context, types)
        {
            self.conjunctions.list[goal as usize].state = ConjunctionState::Done(node);
            return Ok(());
        }
        self.conjunctions.list[goal as usize].state = ConjunctionState::Active(None);
        let frame = ConjunctionFrame {
            goal,
            plans: path.plans.len(),
            shared: path.shared.len(),
            children: path.children.len(),
        };
        let fork = match self.normalizer.shared_alternatives(&terms)? {
            None => Some(Fork::new(&terms)),
            Some(SharedAlternatives { shared: elsewhere, inline: here }) => {
                for term in elsewhere {
                    path.shared.push(self.conjunction(&[term])?);
                }
                here
            }
        };
        let mut shapes = match fork {
            Some(fork) => self.normalizer.expand(fork, Mode::Exact)?.unwrap_or_default(),
            None => Shapes::new(),
        };
        if self.normalizer.context.policy.closed_objects {
            self.normalizer.close_objects(&mut shapes)?;
        }
        self.conjunctions.list[goal as usize].culprit = self.normalizer.culprit.take();
        let free = shapes.iter().any(|shape| shape.is_free());
        for shape in shapes {
            if !free || shape.is_free() {
                path.plans.push(self.plan(shape)?);
                if free {
                    break;
                }
            }
        }
        for plan in &path.plans[frame.plans..] {
            plan.children(|child| path.children.push(child));
        }
        path.children.extend_from_slice(&path.shared[frame.shared..]);
        // Build in this order, so that rules and nodes follow the text.
        path.children[frame.children..].reverse();
        path.frames.push(frame);
        Ok(())
    }

    fn leave(&mut self, frame: &ConjunctionFrame, plans: &[Plan], elsewhere: &[ConjunctionId]) -> Result<()> {
        let goal = frame.goal as usize;
        self.culprit = None;
        let mut body = self.build(plans, elsewhere)?;
        if let Some(culprit) = self.culprit.take() {
            self.conjunctions.list[goal].culprit.get_or_insert(culprit);
        }
        if self.nodes.ir.len() > MAX_NODES {
            let at = plans
                .first()
                .map_or(self.normalizer.context.doc.root(), |p| self.representative_schema(&p.shape));
            return Err(self.normalizer.context.error(
                ErrorKind::TooComplex,
                at,
                format!("the schema needs more than {MAX_NODES} nodes"),
            ));
        }
        if let ConjunctionState::Active(Some((rule, node))) = self.conjunctions.list[goal].state {
            self.nodes.ir.define_rule(rule, body);
            if !self.nodes.is_never(body) {
                body = node;
            }
        } else if self.conjunctions.list[goal].referred && self.nodes.is_composite(body) {
            let rule = self.nodes.ir.declare_rule();
            self.nodes.ir.define_rule(rule, body);
            body = self.nodes.ir.push(Node::Rule(rule));
        }
        self.conjunctions.list[goal].state = ConjunctionState::Done(body);
        Ok(())
    }
}
