//! A finite automaton over tokens, built by hand.
//!
//! States are numbers, transitions sets of tokens. Transitions of one state may overlap: the machine is
//! then in several states at once, as in any nondeterministic automaton, and the sets are made while a
//! generation meets them. Refusing overlaps was rejected: "letters, of which the last one ends the word" is
//! a natural thing to say. Adding a transition costs a push; walking by hand costs a search in each
//! transition of the states it is in.

use std::collections::BTreeMap;

use super::TokenSet;
use crate::vocab::TokenId;

/// The number of a state; any number will do.
pub type State = u32;

/// Most states of a machine.
pub const MAX_STATES: usize = 1_000_000;
/// Most transitions of a machine.
pub const MAX_TRANSITIONS: usize = 4_000_000;

/// A machine whose transitions are sets of tokens. An output satisfies it if its tokens lead from the start
/// to an accept state; there, and only there, the end token is legal.
///
/// ```
/// use ffwd_engine::constraint::token_machine::TokenFsm;
///
/// let mut fsm = TokenFsm::new(); // starts in state 0
/// fsm.add_transition(0, [10, 11, 12], 1);
/// fsm.add_transition(1, [10, 11, 12], 1);
/// fsm.add_transition(1, 42, 2);
/// fsm.accept(2);
///
/// let mut walk = fsm.walk();
/// assert!(walk.advance(11) && !walk.is_complete());
/// assert_eq!(walk.allowed_tokens().as_slice(), [10, 11, 12, 42]);
/// assert!(!walk.advance(7)); // refused, and nothing has changed
/// assert!(walk.advance(42) && walk.is_complete());
/// ```
///
/// What [`Compiler::compile`](crate::Compiler::compile) makes of it:
///
/// - a state that can be reached, is no accept state and that nothing leaves has an empty mask: an error
///   that names the state; so is a transition without tokens;
/// - transitions into states from which no accept state can be reached are left out, with a warning; if that
///   leaves nothing, the machine is an error;
/// - an id that the vocabulary does not have, or has no text for, is an error that names state and token; so
///   is an end token, which is legal in accept states by itself. Special tokens may be named: they are
///   emitted, and add nothing to the text.
#[derive(Debug, Clone, Default)]
pub struct TokenFsm {
    states: BTreeMap<State, Inside>,
    start: State,
    transitions: usize,
}

#[derive(Debug, Clone, Default)]
struct Inside {
    name: Option<String>,
    accept: bool,
    edges: Vec<(TokenSet, State)>,
}

impl TokenFsm {
    /// A machine without transitions that starts in state 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// From `from`, each of `tokens` leads to `to`.
    pub fn add_transition(&mut self, from: State, tokens: impl Into<TokenSet>, to: State) -> &mut Self {
        self.states.entry(to).or_default();
        self.states.entry(from).or_default().edges.push((tokens.into(), to));
        self.transitions += 1;
        self
    }

    /// The output may end in `state`.
    pub fn accept(&mut self, state: State) -> &mut Self {
        self.states.entry(state).or_default().accept = true;
        self
    }

    /// Starts in `state` instead of 0.
    pub fn start_in(&mut self, state: State) -> &mut Self {
        self.start = state;
        self
    }

    /// What errors and explanations call a state, beside its number.
    pub fn name(&mut self, state: State, name: impl Into<String>) -> &mut Self {
        self.states.entry(state).or_default().name = Some(name.into());
        self
    }

    /// Where it starts.
    pub fn start(&self) -> State {
        self.start
    }

    /// All states that were mentioned, in order.
    pub fn states(&self) -> impl Iterator<Item = State> + '_ {
        self.states.keys().copied()
    }

    /// Number of transitions added.
    pub fn transition_count(&self) -> usize {
        self.transitions
    }

    /// The transitions of a state, in the order in which they were added.
    pub fn transitions(&self, state: State) -> &[(TokenSet, State)] {
        self.states.get(&state).map_or(&[], |s| &s.edges)
    }

    /// Whether the output may end in `state`.
    pub fn is_accepting(&self, state: State) -> bool {
        self.states.get(&state).is_some_and(|s| s.accept)
    }

    /// The tokens that leave `state`: the union of its transitions, as they were added.
    pub fn allowed_tokens(&self, state: State) -> TokenSet {
        self.transitions(state).iter().flat_map(|e| e.0.iter()).collect()
    }

    /// The states that `token` leads to from `state`, in order: none if it is not allowed, several if
    /// transitions overlap.
    pub fn next_states(&self, state: State, token: TokenId) -> Vec<State> {
        let edges = self.transitions(state).iter();
        let mut next: Vec<State> = edges.filter(|e| e.0.contains(token)).map(|e| e.1).collect();
        next.sort_unstable();
        next.dedup();
        next
    }

    /// A walk by hand from the start, without a vocabulary. It takes the machine as it was written: what
    /// compiling finds out about dead ends it does not know.
    pub fn walk(&self) -> FsmWalk<'_> {
        FsmWalk { fsm: self, at: vec![self.start] }
    }

    /// `state 3`, or `state 3 ("name")`.
    pub(crate) fn describe(&self, state: State) -> String {
        match self.states.get(&state).and_then(|s| s.name.as_ref()) {
            Some(name) => format!("state {state} ({name:?})"),
            None => format!("state {state}"),
        }
    }
}

/// Where a walk through a [`TokenFsm`] stands.
#[derive(Debug, Clone)]
pub struct FsmWalk<'a> {
    fsm: &'a TokenFsm,
    at: Vec<State>,
}

impl FsmWalk<'_> {
    /// The states it is in; more than one where transitions overlap.
    pub fn states(&self) -> &[State] {
        &self.at
    }

    /// The tokens that may come next.
    pub fn allowed_tokens(&self) -> TokenSet {
        let edges = self.at.iter().flat_map(|&s| self.fsm.transitions(s));
        edges.flat_map(|e| e.0.iter()).collect()
    }

    /// Goes on by a token; false, and nothing has changed, if it is not allowed.
    pub fn advance(&mut self, token: TokenId) -> bool {
        let mut next: Vec<State> = self.at.iter().flat_map(|&s| self.fsm.next_states(s, token)).collect();
        next.sort_unstable();
        next.dedup();
        if next.is_empty() {
            return false;
        }
        self.at = next;
        true
    }

    /// Whether the output may end here.
    pub fn is_complete(&self) -> bool {
        self.at.iter().any(|&s| self.fsm.is_accepting(s))
    }

    /// Back to the start.
    pub fn reset(&mut self) {
        self.at = vec![self.fsm.start];
    }
}
