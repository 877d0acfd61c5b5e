//! Ids of nodes and rules, and the small lists that nodes are made of.

use smallvec::SmallVec;

/// Index of a node in an [`Ir`](super::Ir).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

/// Index of a rule in an [`Ir`](super::Ir); rules may refer to each other and to themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub(crate) u32);

/// A byte string, stored in the node itself if it is short. Most nodes of a schema are small, so
/// separate allocations would cost much of the compile time.
pub type ByteString = SmallVec<[u8; 24]>;
/// Inclusive ranges of bytes.
pub type Ranges = SmallVec<[(u8, u8); 12]>;
/// The transitions of a state of an automaton: each is a node and the state after it. One or two
/// transitions need no allocation; nearly all states of large automata have no more.
pub type Edges = SmallVec<[(NodeId, u32); 2]>;
/// The parts of a node.
pub type Parts = SmallVec<[NodeId; 6]>;
