//! The intermediate representation (IR) of constraints, which every front end produces: byte
//! languages and JSON values, as nodes of one arena.
//!
//! A constraint is a graph of [`Node`]s in one arena. Regular nodes (`Bytes`, `Class`, `Concat`,
//! `Union`, `Repeat`) describe byte strings directly. The `Json*` nodes describe *values* and leave
//! their encoding (quotes, escapes, separators, white space) to the [`Policy`](super::Policy),
//! which applies when the machine lowers them. All recursion uses [`Node::Rule`].
//!
//! The representation names no front end. What a front end adds for later steps is plain data here:
//! [`SpanSource`] and `ToolSchema`.
//!
//! # Cost
//! Building a node costs one push; nothing is copied when a node is used twice.
//!
//! # Alternatives considered
//! A tree of boxes was rejected because schemas share sub-schemas through `$ref` and may be deep.
//! An arena needs no recursion to drop, and a node id is a key for memoisation when the node is
//! lowered.

mod arena;
mod ids;
mod node;
mod object;
mod span_source;

pub use arena::Ir;
pub(crate) use arena::ToolSchema;
pub(in crate::constraint) use arena::{MIN_COUNTED, is_counted, repeated};
pub use ids::{ByteString, Edges, NodeId, Parts, Ranges, RuleId};
pub use node::{AutomatonState, FreeNumber, Node};
pub use object::{Demand, Extra, Gap, MAX_DEMANDS, Markup, Object, Property};
pub(in crate::constraint) use span_source::Quoting;
pub use span_source::{Bounds, SpanSource, SubstringOptions};
