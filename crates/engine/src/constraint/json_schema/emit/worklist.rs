//! Main loop of the emission: conjunctions are expanded into shapes, and built after their
//! children.
//!
//! The stack is explicit. A conjunction is expanded once. Targets of `$ref` that hold objects or
//! arrays become rules: the machine then need not expand them at every use.
//!
//! # Alternatives considered
//!
//! Unrolling was rejected: it does not end for recursive schemas, and it copies shared ones.

use std::sync::Arc;

use super::super::merge::{Mode, PartialShape, Shapes, SharedAlternatives};
use super::super::read::SchemaContext;
use super::super::term::Term;
use super::lowering::{ConjunctionState, SchemaLowering};
use super::plan::{ConjunctionId, Plan};
use crate::constraint::ir::{Ir, Node};
use crate::error::{ErrorKind, Result};

/// Maximum number of nodes of the representation.
const MAX_NODES: usize = 2_000_000;

/// A conjunction that is being built.
struct Frame {
    id: ConjunctionId,
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
    frames: Vec<Frame>,
    plans: Vec<Plan>,
    shared: Vec<ConjunctionId>,
    children: Vec<ConjunctionId>,
}

impl SchemaLowering<'_> {
    /// Builds everything below the root schema.
    pub(super) fn run(mut self) -> Result<Ir> {
        let root = self.normalizer.context.doc.root();
        self.normalizer.recursion.check(&mut self.normalizer.context, root)?;
        let id = self.conjunction(&[Term::Pos(root)])?;
        let mut path = Path::default();
        self.enter(id, &mut path)?;
        while let Some(frame) = path.frames.last() {
            if path.children.len() > frame.children
                && let Some(child) = path.children.pop()
            {
                self.enter(child, &mut path)?;
            } else if let Some(frame) = path.frames.pop() {
                self.leave(frame.id, &path.plans[frame.plans..], &path.shared[frame.shared..])?;
                path.plans.truncate(frame.plans);
                path.shared.truncate(frame.shared);
            }
        }
        let node = self.node(id);
        if self.nodes.is_never(node) {
            let cause = self.get(id).cause.take().or(self.normalizer.cause.take());
            let (at, why) = cause.unwrap_or_else(|| (root, "the keywords contradict each other".into()));
            let message = format!("no value is valid: {why}");
            return Err(self.normalizer.context.error(ErrorKind::Unsatisfiable, at, message));
        }
        let mut ir = self.nodes.ir;
        ir.set_root(node);
        let SchemaContext { texts, warnings, .. } = self.normalizer.context;
        ir.warnings = warnings;
        if let Some(source) = texts.quoted.and_then(|quoted| quoted.used()) {
            ir.add_source(Arc::new(source));
        }
        Ok(ir)
    }

    /// Begins a new conjunction: plans its shapes, and adds its children to those to build.
    fn enter(&mut self, id: ConjunctionId, path: &mut Path) -> Result<()> {
        if !matches!(self.get(id).state, ConjunctionState::New) {
            return Ok(());
        }
        let terms = self.get(id).terms.clone();
        self.normalizer.cause = None;
        if let Some(types) = self.normalizer.only_types(&terms)?
            && let Some(node) = self.nodes.types_node(types)
        {
            self.get(id).state = ConjunctionState::Done(node);
            return Ok(());
        }
        self.get(id).state = ConjunctionState::Active(None);
        let (plans, shared, children) = (path.plans.len(), path.shared.len(), path.children.len());
        let start = match self.normalizer.shared_alternatives(&terms)? {
            None => Some(PartialShape::new(&terms)),
            Some(SharedAlternatives { shared, inline }) => {
                for term in shared {
                    path.shared.push(self.conjunction(&[term])?);
                }
                inline
            }
        };
        let mut shapes = match start {
            Some(start) => self.normalizer.expand(start, Mode::Exact)?.unwrap_or_default(),
            None => Shapes::new(),
        };
        if self.normalizer.context.policy.closed_objects {
            self.normalizer.close_objects(&mut shapes)?;
        }
        self.get(id).cause = self.normalizer.cause.take();
        // A shape that allows everything is enough.
        if let Some(free) = shapes.iter().position(|shape| shape.is_free()) {
            shapes.swap(0, free);
            shapes.truncate(1);
        }
        for shape in shapes {
            path.plans.push(self.plan(shape)?);
        }
        for plan in &path.plans[plans..] {
            plan.children(|child| path.children.push(child));
        }
        path.children.extend_from_slice(&path.shared[shared..]);
        // Build in this order, so that rules and nodes follow the text.
        path.children[children..].reverse();
        path.frames.push(Frame { id, plans, shared, children });
        Ok(())
    }

    /// Ends a conjunction: all its children have nodes.
    fn leave(&mut self, id: ConjunctionId, plans: &[Plan], shared: &[ConjunctionId]) -> Result<()> {
        self.cause = None;
        let mut body = self.build(plans, shared)?;
        if let Some(cause) = self.cause.take() {
            self.get(id).cause.get_or_insert(cause);
        }
        if self.nodes.ir.len() > MAX_NODES {
            let context = &self.normalizer.context;
            let at = plans.first().map_or(context.doc.root(), |p| self.representative_schema(&p.shape));
            return Err(context.too_complex(at, format!("the schema needs more than {MAX_NODES} nodes")));
        }
        let own = self.get(id);
        let (state, referred) = (own.state, own.referred);
        if let ConjunctionState::Active(Some((rule, node))) = state {
            self.nodes.ir.define_rule(rule, body);
            if !self.nodes.is_never(body) {
                body = node;
            }
        } else if referred && self.nodes.is_composite(body) {
            let rule = self.nodes.ir.declare_rule();
            self.nodes.ir.define_rule(rule, body);
            body = self.nodes.ir.push(Node::Rule(rule));
        }
        self.get(id).state = ConjunctionState::Done(body);
        Ok(())
    }
}
