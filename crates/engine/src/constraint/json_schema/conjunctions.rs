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

use hashbrown::HashTable;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::context::{MAX_CONJUNCTIONS, MAX_NODES, SchemaContext, UnsatCause};
use super::exists_property::Planned;
use super::literal_nodes::{LiteralSet, WORDS};
use super::normalize::{Fork, Mode, Shapes};
use super::shape::{FALSE, Shape, Term, Terms, Test, Types};
use super::shared_refs::SharedAlternatives;
use super::undeclared::Keys;
use crate::constraint::ir::{ByteString, Extra, FreeNumber, Ir, Node, NodeId, Object, Parts, RuleId};
use crate::constraint::json::document::{Id, Symbol, Value};
use crate::constraint::number::{self, NumberSpec};
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of nodes for which memory is reserved at the start.
const MAX_RESERVED: usize = 1_000;

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
    pub context: SchemaContext<'p>,
    conjunctions: Vec<Conjunction>,
    /// Conjunctions of a single schema, by the id of the schema, or [`NO_CONJUNCTION`]; most are of
    /// this kind.
    single: Vec<ConjunctionId>,
    /// Conjunction of no terms.
    free: Option<ConjunctionId>,
    ids: FxHashMap<Terms, ConjunctionId>,
    pub any: NodeId,
    pub never: NodeId,
    pub strings: FxHashMap<StringKey, NodeId>,
    pub numbers: FxHashMap<NumberKey, NodeId>,
    pub literals: HashTable<NodeId>,
    /// Nodes of schemas that only name types; about half of all schemas do.
    plain: SmallVec<[(Types, NodeId); 8]>,
    /// A buffer.
    pub text: Vec<u8>,
    /// Reason why the conjunction being built allows nothing.
    pub culprit: Option<UnsatCause>,
}

/// Key of a string language: two equal keys mean the same language.
pub(super) type StringKey = (Vec<(Test, bool)>, u32, Option<u32>);
/// Key of a number language: integer, bounds, scale.
pub(super) type NumberKey = (bool, Option<(Symbol, bool)>, Option<(Symbol, bool)>, Option<u32>, Option<u32>);

impl<'p> SchemaLowering<'p> {
    pub fn new(mut front: SchemaContext<'p>) -> Self {
        // A schema mostly becomes about half as many nodes as it has values.
        front.ir.reserve((16 + front.doc.len() / 2).min(MAX_RESERVED));
        let any = front.ir.push(Node::JsonAny);
        let never = front.ir.push(Node::Never);
        SchemaLowering {
            context: front,
            conjunctions: Vec::new(),
            single: Vec::new(),
            free: None,
            ids: FxHashMap::default(),
            any,
            never,
            strings: FxHashMap::default(),
            numbers: FxHashMap::default(),
            literals: HashTable::new(),
            plain: SmallVec::new(),
            text: Vec::new(),
            culprit: None,
        }
    }

    /// Builds everything below the root schema.
    pub fn run(mut self) -> Result<Ir> {
        let root = self.context.doc.root();
        self.context.check_grounded(root)?;
        let goal = self.conjunction(&[Term::Pos(root)])?;
        let mut path = Path::default();
        self.enter(goal, &mut path)?;
        while let Some(frame) = path.frames.last() {
            if path.children.len() > frame.children
                && let Some(child) = path.children.pop()
            {
                if matches!(self.conjunctions[child as usize].state, ConjunctionState::New) {
                    self.enter(child, &mut path)?;
                }
            } else if let Some(frame) = path.frames.pop() {
                self.leave(&frame, &path.plans[frame.plans..], &path.shared[frame.shared..])?;
                path.plans.truncate(frame.plans);
                path.shared.truncate(frame.shared);
            }
        }
        let node = self.node(goal);
        if self.is_never(node) {
            let (at, why) = self.conjunctions[goal as usize]
                .culprit
                .take()
                .or(self.context.culprit.take())
                .unwrap_or_else(|| (root, "the keywords contradict each other".into()));
            return Err(self.context.error(
                ErrorKind::Unsatisfiable,
                at,
                format!("no value is valid: {why}"),
            ));
        }
        self.context.ir.set_root(node);
        Ok(self.context.ir)
    }

    /// Returns the conjunction of a list of terms.
    pub fn conjunction(&mut self, terms: &[Term]) -> Result<ConjunctionId> {
        if let ([], Some(free)) = (terms, self.free) {
            return Ok(free);
        }
        if let [Term::Pos(id)] = *terms
            && self.context.doc.value(id) == Value::Bool(false)
        {
            self.context.culprit = Some((id, "the schema is `false`".into()));
        }
        let tidy = self.context.tidy(terms)?;
        let referred = matches!(tidy[..], [Term::Pos(_)]) && !terms.contains(&tidy[0]);
        let id = match self.known(&tidy) {
            Some(id) => id,
            None => {
                let id = self.conjunctions.len() as ConjunctionId;
                if self.conjunctions.len() >= MAX_CONJUNCTIONS {
                    return Err(Error::new(
                        ErrorKind::TooComplex,
                        format!("the schema needs more than {MAX_CONJUNCTIONS} combinations of sub-schemas"),
                    ));
                }
                let state = match tidy.first() {
                    None => ConjunctionState::Done(self.any),
                    Some(&FALSE) => ConjunctionState::Done(self.never),
                    Some(_) => ConjunctionState::New,
                };
                self.conjunctions.push(Conjunction {
                    terms: tidy.clone(),
                    state,
                    referred: false,
                    culprit: None,
                });
                self.note(tidy, id);
                id
            }
        };
        self.conjunctions[id as usize].referred |= referred;
        Ok(id)
    }

    /// Returns the conjunction of tidied terms, if there is one.
    fn known(&self, terms: &Terms) -> Option<ConjunctionId> {
        match terms[..] {
            [] => self.free,
            [Term::Pos(id)] => self.single.get(id.0 as usize).copied().filter(|&goal| goal != NO_CONJUNCTION),
            _ => self.ids.get(terms).copied(),
        }
    }

    fn note(&mut self, terms: Terms, goal: ConjunctionId) {
        match terms[..] {
            [] => self.free = Some(goal),
            [Term::Pos(Id(id))] => {
                let at = id as usize;
                if at >= self.single.len() {
                    self.single.resize(self.context.doc.len().max(at + 1), NO_CONJUNCTION);
                }
                self.single[at] = goal;
            }
            _ => {
                self.ids.insert(terms, goal);
            }
        }
    }

    /// Returns the node of a conjunction; a reference to its rule while it is still being built.
    pub fn node(&mut self, goal: ConjunctionId) -> NodeId {
        match self.conjunctions[goal as usize].state {
            ConjunctionState::Done(node) | ConjunctionState::Active(Some((_, node))) => node,
            ConjunctionState::Active(None) | ConjunctionState::New => {
                let rule = self.context.ir.declare_rule();
                let node = self.context.ir.push(Node::Rule(rule));
                self.conjunctions[goal as usize].state = ConjunctionState::Active(Some((rule, node)));
                node
            }
        }
    }

    /// Returns the terms of a conjunction.
    pub fn terms(&self, goal: ConjunctionId) -> &Terms {
        &self.conjunctions[goal as usize].terms
    }

    pub fn is_never(&self, node: NodeId) -> bool {
        matches!(self.context.ir.node(node), Node::Never)
    }

    /// Returns true if a conjunction is known to allow nothing; false while it is still being
    /// built.
    pub fn is_known_empty(&mut self, goal: ConjunctionId) -> bool {
        match self.conjunctions[goal as usize].state {
            ConjunctionState::Done(node) => self.is_never(node),
            _ => false,
        }
    }

    /// Returns the reason why a conjunction allows nothing.
    pub fn reason(&self, goal: ConjunctionId) -> Option<UnsatCause> {
        let goal = &self.conjunctions[goal as usize];
        goal.culprit.clone().or_else(|| match goal.terms[..] {
            [Term::Pos(id)] => Some((id, "this schema allows no value".into())),
            _ => None,
        })
    }

    /// Returns the schema that represents a shape in messages.
    pub fn representative_schema(&self, shape: &Shape) -> Id {
        let first = shape.terms.iter().find_map(|t| match *t {
            Term::Pos(id) | Term::Neg(id) => Some(id),
            _ => None,
        });
        first.unwrap_or(self.context.doc.root())
    }

    fn enter(&mut self, goal: ConjunctionId, path: &mut Path) -> Result<()> {
        if !matches!(self.conjunctions[goal as usize].state, ConjunctionState::New) {
            return Ok(());
        }
        let terms = self.conjunctions[goal as usize].terms.clone();
        self.context.culprit = None;
        if let Some(types) = self.context.only_types(&terms)?
            && let Some(node) = self.types_node(types)
        {
            self.conjunctions[goal as usize].state = ConjunctionState::Done(node);
            return Ok(());
        }
        self.conjunctions[goal as usize].state = ConjunctionState::Active(None);
        let frame = ConjunctionFrame {
            goal,
            plans: path.plans.len(),
            shared: path.shared.len(),
            children: path.children.len(),
        };
        let fork = match self.context.shared_alternatives(&terms)? {
            None => Some(Fork::new(&terms)),
            Some(SharedAlternatives { shared: elsewhere, inline: here }) => {
                for term in elsewhere {
                    path.shared.push(self.conjunction(&[term])?);
                }
                here
            }
        };
        let mut shapes = match fork {
            Some(fork) => self.context.expand(fork, Mode::Exact)?.unwrap_or_default(),
            None => Shapes::new(),
        };
        if self.context.policy.closed_objects {
            self.context.close_objects(&mut shapes)?;
        }
        self.conjunctions[goal as usize].culprit = self.context.culprit.take();
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

    /// Returns the node of a schema that only names types: the result of [`build`](Self::build),
    /// without the steps before it. `None` for fractions without integers, which are computed.
    fn types_node(&mut self, types: Types) -> Option<NodeId> {
        if let Some(&(_, node)) = self.plain.iter().find(|known| known.0 == types) {
            return Some(node);
        }
        if types.and(Types::NUMBER) == Types::FRACTION {
            return None;
        }
        let any = self.any;
        if types == Types::ALL {
            return Some(any);
        }
        let zeros = self.context.equal_integers();
        let numbers = FreeNumber::new(!types.meets(Types::FRACTION), zeros, self.context.policy);
        let mut parts = Parts::new();
        let words = WORDS.iter().filter(|w| types.meets(w.0)).map(|w| ByteString::from_slice(w.1.as_bytes()));
        let words: LiteralSet = words.collect();
        if !words.is_empty() {
            parts.push(self.words(words));
        }
        let others = [
            (Types::NUMBER, Node::JsonNumber(numbers)),
            (Types::STRING, Node::JsonString { lang: None, min_chars: 0, max_chars: None }),
            (Types::ARRAY, Node::JsonArray { prefix: Vec::new(), rest: Some(any), min: 0, max: None }),
        ];
        for (kind, node) in others {
            if types.meets(kind) {
                parts.push(self.context.ir.push(node));
            }
        }
        if types.meets(Types::OBJECT) {
            let extra = vec![Extra { keys: None, value: any }];
            let object = Object { extra, ..Object::default() };
            parts.push(self.context.ir.push(Node::JsonObject(Box::new(object))));
        }
        let node = self.context.ir.union(parts);
        self.plain.push((types, node));
        Some(node)
    }

    fn leave(&mut self, frame: &ConjunctionFrame, plans: &[Plan], elsewhere: &[ConjunctionId]) -> Result<()> {
        let goal = frame.goal as usize;
        self.culprit = None;
        let mut body = self.build(plans, elsewhere)?;
        if let Some(culprit) = self.culprit.take() {
            self.conjunctions[goal].culprit.get_or_insert(culprit);
        }
        if self.context.ir.len() > MAX_NODES {
            let at = plans.first().map_or(self.context.doc.root(), |p| self.representative_schema(&p.shape));
            return Err(self.context.error(
                ErrorKind::TooComplex,
                at,
                format!("the schema needs more than {MAX_NODES} nodes"),
            ));
        }
        if let ConjunctionState::Active(Some((rule, node))) = self.conjunctions[goal].state {
            self.context.ir.define_rule(rule, body);
            if !self.is_never(body) {
                body = node;
            }
        } else if self.conjunctions[goal].referred && self.is_composite(body) {
            let rule = self.context.ir.declare_rule();
            self.context.ir.define_rule(rule, body);
            body = self.context.ir.push(Node::Rule(rule));
        }
        self.conjunctions[goal].state = ConjunctionState::Done(body);
        Ok(())
    }

    /// Returns true if a node holds an array or an object, so that a rule of its own pays.
    fn is_composite(&self, node: NodeId) -> bool {
        let ir = &self.context.ir;
        let holds = |id: NodeId| {
            matches!(ir.node(id), Node::JsonArray { .. } | Node::JsonUnique { .. } | Node::JsonObject(_))
        };
        match ir.node(node) {
            Node::Union(parts) => parts.iter().any(|&p| holds(p)),
            _ => holds(node),
        }
    }

    /// Returns the number language of a specification; equal specifications share a node.
    pub fn number_node(&mut self, key: NumberKey, spec: &NumberSpec, at: Id) -> Result<NodeId> {
        if let Some(&node) = self.numbers.get(&key) {
            return Ok(node);
        }
        let (policy, ir) = (self.context.policy, &mut self.context.ir);
        let made = match spec.minimum.is_none()
            && spec.maximum.is_none()
            && spec.scale.is_none()
            && spec.max_exponent.is_none()
        {
            true => Ok(ir.push(Node::JsonNumber(FreeNumber::new(spec.integer, spec.zeros, policy)))),
            false => number::number(spec, policy, ir),
        };
        let node = match made {
            Ok(node) => node,
            Err(e) if e.kind() == ErrorKind::Unsatisfiable => self.never,
            Err(e) => return Err(e.at(self.context.doc.place(at))),
        };
        self.numbers.insert(key, node);
        Ok(node)
    }
}
