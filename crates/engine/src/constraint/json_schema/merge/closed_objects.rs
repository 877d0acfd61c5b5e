//! Closed objects: the policy that an object has only the properties that its schemas mention.
//!
//! A shape holds everything that applies to one value, so closing it acts at the outermost schema:
//! the parts of an `allOf` and the targets of references have added their properties already. The
//! names that may occur are those that a `properties` declares or a `required` lists, in a schema
//! that holds. A property that only a negation needs is not among them. Closing removes values and
//! adds none, so each output is still valid against the schema as it is written.
//!
//! Several branches of an `anyOf` may hold together. Each has a shape of its own, which closing
//! would make incompatible with the others, so shapes for the combinations are added. Branches that
//! are references alone have no common shape: there an object has the properties of one of them.
//!
//! # Cost
//!
//! The names of each shape, once, and one expansion for each combination of at most
//! [`MAX_COMBINED`] shapes; nothing without the policy.
//!
//! # Alternatives considered
//!
//! Adding `unevaluatedProperties` to the schema text was rejected. Two parts of an `allOf` may
//! declare the same property, and closing each of its schemas would leave out what the other one
//! declares. A change inside a `oneOf` or a `not` would also allow more than the schema does. And
//! older drafts do not have the keyword.

use std::rc::Rc;

use rustc_hash::FxHashSet;
use smallvec::smallvec;

use super::super::read::{SchemaContext, Schemas, Symbol, Types};
use super::super::shape::{Group, Shape};
use super::super::term::{FALSE, Term, Terms};
use super::normalize::Normalizer;
use super::partial_shape::{Mode, PartialShape, Shapes};
use crate::error::Result;

/// Maximum number of shapes whose combinations are added.
const MAX_COMBINED: usize = 4;

/// Effect of the policy on one shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    /// The object keeps its undeclared properties, or cannot occur.
    Open,
    Closed,
    /// A closed object would lack a property that it must have.
    Impossible,
}

impl Normalizer<'_> {
    /// Closes the objects of all shapes of one value. A shape that would then be impossible loses
    /// its objects if another one keeps some, and stays open otherwise.
    ///
    /// # Errors
    /// As [`expand`](Self::expand).
    pub(crate) fn close_objects(&mut self, shapes: &mut Shapes) -> Result<()> {
        self.combine(shapes)?;
        let effects: Vec<Closing> = shapes.iter().map(|shape| closing(shape)).collect();
        let others = shapes
            .iter()
            .zip(&effects)
            .any(|(shape, effect)| shape.types.meets(Types::OBJECT) && *effect != Closing::Impossible);
        for (shape, effect) in shapes.iter_mut().zip(effects) {
            match effect {
                Closing::Closed => close(&mut self.context, shape),
                Closing::Impossible if others => shape.types = shape.types.without(Types::OBJECT),
                Closing::Impossible | Closing::Open => {}
            }
        }
        shapes.retain(|shape| !shape.types.is_empty());
        Ok(())
    }

    /// Adds the shapes of objects that several of the shapes describe together, if these mention
    /// more properties than each of them.
    fn combine(&mut self, shapes: &mut Shapes) -> Result<()> {
        let closed: Vec<usize> =
            (0..shapes.len()).filter(|&i| closing(&shapes[i]) == Closing::Closed).collect();
        if !(2..=MAX_COMBINED).contains(&closed.len()) {
            return Ok(());
        }
        let names: Vec<FxHashSet<Symbol>> = closed.iter().map(|&i| mentioned(&shapes[i])).collect();
        for set in 0_usize..1 << closed.len() {
            let chosen: Vec<usize> = (0..closed.len()).filter(|i| set >> i & 1 == 1).collect();
            let covered =
                chosen.iter().any(|&i| chosen.iter().all(|&other| names[other].is_subset(&names[i])));
            if covered || chosen.is_empty() {
                continue;
            }
            let mut terms = vec![Term::Types(Types::OBJECT)];
            for &term in chosen.iter().flat_map(|&i| shapes[closed[i]].terms.iter()) {
                if !terms.contains(&term) {
                    terms.push(term);
                }
            }
            self.context.step(terms.len() as u64, self.context.doc.root())?;
            shapes.extend(self.expand(PartialShape::new(&terms), Mode::Exact)?.unwrap_or_default());
        }
        Ok(())
    }
}

/// Forbids all names but those that are mentioned.
fn close(context: &mut SchemaContext<'_>, shape: &mut Shape) {
    let mentioned = mentioned(shape);
    let object = &mut shape.object;
    let values = object.values.change();
    for &name in &object.late {
        values.insert(name, Terms::new());
        if let Some(terms) = values.get_mut(name).filter(|_| !mentioned.contains(&name)) {
            *terms = smallvec![FALSE];
        }
    }
    let additional = Some(context.synthetic.constant(&mut context.doc, false));
    object.groups.push(Rc::new(Group { patterns: Schemas::new(), additional }));
}

/// Returns the names that the keywords `properties` and `required` mention.
fn mentioned(shape: &Shape) -> FxHashSet<Symbol> {
    shape.object.order.iter().chain(&shape.object.asked).copied().collect()
}

/// Returns the effect of the policy on a shape.
fn closing(shape: &Shape) -> Closing {
    let object = &shape.object;
    let applies = shape.literals.is_none() && shape.types.meets(Types::OBJECT);
    if !applies || object.open || object.order.is_empty() || !object.demands.is_empty() {
        return Closing::Open;
    }
    let names = mentioned(shape);
    if !object.required.names().all(|name| names.contains(&name)) {
        Closing::Impossible
    } else if names.len() < object.min as usize {
        Closing::Open
    } else {
        Closing::Closed
    }
}
