//! Merging: from a list of terms to shapes.
//!
//! `normalize` is the main part, with a `partial_shape` for each alternative. The others add to it:
//! `keyword_merging` and `properties` merge the keywords of a schema, `negate` violates them,
//! `alternatives` decides `oneOf` and empty alternatives, and `unevaluated` merges the keywords of
//! that name. `contains_bounds` and `property_names` say what bounds on items and sets of names
//! come to. `shared_refs` handles an `anyOf` of references, and `closed_objects` applies the policy
//! of that name.

mod alternatives;
mod closed_objects;
mod contains_bounds;
mod keyword_merging;
mod negate;
mod normalize;
mod partial_shape;
mod properties;
mod property_names;
mod shared_refs;
mod unevaluated;

pub(crate) use self::normalize::Normalizer;
pub(crate) use self::partial_shape::{Mode, PartialShape, Shapes};
pub(crate) use self::properties::{declare, undeclared};
pub(crate) use self::shared_refs::SharedAlternatives;
