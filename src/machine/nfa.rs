//! Byte-level nondeterministic automata with calls: what constraints are lowered to.
//!
//! All rules share one arena of states. A state consumes a byte, forks without consuming, calls
//! another rule and goes on when that rule has matched, or accepts (the rule has matched). States are
//! built from the back: the lowering of a node is given the state that follows, so nothing is ever
//! patched except loops (Thompson 1968, in continuation-passing form).

/// Index of an automaton state; [`DEAD`] never matches.
pub type NfaId = u32;

/// Index of a rule of the machine (not of the IR).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleIx(pub u32);

/// Index of a register description; 0 means no register.
pub type RegisterIx = u32;

/// The state that matches nothing.
pub const DEAD: NfaId = 0;
/// The state that ends a rule.
pub const ACCEPT: NfaId = 1;

/// One state.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Matches nothing.
    Dead,
    /// The rule has matched.
    Accept,
    /// Consumes one byte in `lo..=hi`.
    Byte {
        /// Lowest byte.
        lo: u8,
        /// Highest byte.
        hi: u8,
        /// Next state.
        to: NfaId,
    },
    /// Consumes one byte in one of several ranges.
    Sparse(Box<[(u8, u8, NfaId)]>),
    /// Forks.
    Union(Box<[NfaId]>),
    /// Matches a rule with a register, then goes on.
    Call {
        /// The rule.
        rule: RuleIx,
        /// The register it runs with.
        register: RegisterIx,
        /// Where to go on.
        to: NfaId,
    },
    /// Matches the item of an array that the caller's register says is next, then goes on.
    CallItem {
        /// Where to go on.
        to: NfaId,
    },
}

/// Set on a state inside an escape sequence: the character was counted at its backslash.
pub const MID_ESCAPE: u8 = 1;
/// Set on states inside the text of a JSON string.
pub const TEXT: u8 = 2;

/// The arena of states.
#[derive(Debug, Clone)]
pub struct Nfa {
    states: Vec<State>,
    flags: Vec<u8>,
}

impl Default for Nfa {
    fn default() -> Self {
        Nfa { states: vec![State::Dead, State::Accept], flags: vec![0, 0] }
    }
}

impl Nfa {
    /// Adds a state with flags.
    pub fn push(&mut self, state: State, flags: u8) -> NfaId {
        self.states.push(state);
        self.flags.push(flags);
        self.states.len() as NfaId - 1
    }

    /// Replaces a state; used to close loops and to trim.
    pub fn set(&mut self, id: NfaId, state: State) {
        self.states[id as usize] = state;
    }

    /// The state of an id.
    #[inline]
    pub fn state(&self, id: NfaId) -> &State {
        &self.states[id as usize]
    }

    /// The flags of a state.
    #[inline]
    pub fn flags(&self, id: NfaId) -> u8 {
        self.flags[id as usize]
    }

    /// Number of states.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Never true: there are always the dead and the accepting state.
    pub fn is_empty(&self) -> bool {
        false
    }
}
