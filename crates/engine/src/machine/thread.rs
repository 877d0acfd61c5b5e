//! Threads: local states on stacks, and the frames that stacks are made of.

use super::lazy_dfa::DfaId;
use super::nfa::RegisterIx;
use super::program::COUNTING;

/// A state inside one rule: the deterministic state and the register that it runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LocalState {
    /// The deterministic state.
    pub state: DfaId,
    /// Index of the register, 0 for none.
    pub register: RegisterIx,
    /// The value of the register.
    pub n: u32,
}

impl LocalState {
    /// Returns the same state with a register that counts its characters from 0.
    pub(crate) fn with_char_count(self) -> LocalState {
        LocalState { register: COUNTING, n: 0, ..self }
    }

    /// Returns true if the register counts characters without bounding them.
    pub(crate) fn counts_chars(self) -> bool {
        self.register == COUNTING
    }

    /// Returns true if no register can stop a thread before its state does.
    pub(crate) fn is_unbounded(self) -> bool {
        self.register == 0 || self.register == COUNTING
    }
}

/// Index of a stack node.
pub(crate) type StackId = u32;
/// The stack under the root rule: a return from it ends the output.
pub(crate) const ROOT_STACK: StackId = 0;
/// The unknown stack of a local walk: a return from it is an exit.
pub(crate) const UNKNOWN_STACK: StackId = 1;

/// A return frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Frame {
    /// The local state of the calling rule after the return.
    pub ret: LocalState,
    /// The stack of the caller.
    pub parent: StackId,
}

/// A local state on a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Thread {
    /// The state inside the rule.
    pub local: LocalState,
    /// The stack that the rule returns to.
    pub stack: StackId,
}
