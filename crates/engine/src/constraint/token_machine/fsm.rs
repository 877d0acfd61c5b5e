//! `TokenFsm`: a finite automaton over tokens, built by hand.
//!
//! States are numbers, transitions are sets of tokens. Transitions of one state may overlap: then
//! the machine is in several states at once, as in any nondeterministic automaton. The state sets
//! are computed when a generation reaches them.
//!
//! # Cost
//! Adding a transition costs a push. A step of a walk by hand costs a search in each transition of
//! the current states.
//!
//! # Alternatives considered
//! Refusing overlaps was rejected: "letters, of which the last one ends the word" is a natural
//! constraint.

use std::collections::BTreeMap;

use super::TokenSet;
use crate::vocab::TokenId;

/// The number of a state; any number is valid.
pub type State = u32;

/// Maximum number of states of a machine.
pub const MAX_STATES: usize = 1_000_000;
/// Maximum number of transitions of a machine.
pub const MAX_TRANSITIONS: usize = 4_000_000;

/// A machine whose transitions are sets of tokens.
///
/// An output satisfies it if its tokens lead from the start to an accepting state. The end token is
/// legal in accepting states, and only there.
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
/// [`Compiler::compile`](crate::Compiler::compile) checks the machine:
///
/// - A reachable state that is not accepting and has no transition would have an empty mask. This
///   is an error that names the state. A transition without tokens is an error, too.
/// - Transitions into states from which no accepting state is reachable are removed, with a
///   warning. If no output remains, the machine is an error.
/// - An id that the vocabulary does not have, or has no text for, is an error that names state and
///   token.
/// - An end token is an error, too: it is legal in accepting states anyway.
/// - Special tokens are allowed: they are emitted, and add nothing to the text.
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
    /// Returns a machine without transitions that starts in state 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a transition from `from` to `to` for each of `tokens`.
    pub fn add_transition(&mut self, from: State, tokens: impl Into<TokenSet>, to: State) -> &mut Self {
        self.states.entry(to).or_default();
        self.states.entry(from).or_default().edges.push((tokens.into(), to));
        self.transitions += 1;
        self
    }

    /// Lets the output end in `state`.
    pub fn accept(&mut self, state: State) -> &mut Self {
        self.states.entry(state).or_default().accept = true;
        self
    }

    /// Sets the start state, which is 0 by default.
    pub fn start_in(&mut self, state: State) -> &mut Self {
        self.start = state;
        self
    }

    /// Names a state in errors and explanations; its number is shown as well.
    pub fn name(&mut self, state: State, name: impl Into<String>) -> &mut Self {
        self.states.entry(state).or_default().name = Some(name.into());
        self
    }

    /// Returns the start state.
    pub fn start(&self) -> State {
        self.start
    }

    /// Returns all states that were mentioned, in ascending order.
    pub fn states(&self) -> impl Iterator<Item = State> + '_ {
        self.states.keys().copied()
    }

    /// Number of transitions added.
    pub fn transition_count(&self) -> usize {
        self.transitions
    }

    /// Returns the transitions of a state, in the order in which they were added.
    pub fn transitions(&self, state: State) -> &[(TokenSet, State)] {
        self.states.get(&state).map_or(&[], |s| &s.edges)
    }

    /// Returns true if the output may end in `state`.
    pub fn is_accepting(&self, state: State) -> bool {
        self.states.get(&state).is_some_and(|s| s.accept)
    }

    /// Returns the tokens allowed in `state`: the union of its transitions, as they were added.
    pub fn allowed_tokens(&self, state: State) -> TokenSet {
        self.transitions(state).iter().flat_map(|e| e.0.iter()).collect()
    }

    /// Returns the states that `token` leads to from `state`, in order: none if it is not allowed,
    /// several if transitions overlap.
    pub fn next_states(&self, state: State, token: TokenId) -> Vec<State> {
        let edges = self.transitions(state).iter();
        let mut next: Vec<State> = edges.filter(|e| e.0.contains(token)).map(|e| e.1).collect();
        next.sort_unstable();
        next.dedup();
        next
    }

    /// Returns a walk by hand from the start, without a vocabulary. It uses the machine as it was
    /// written and does not know the dead ends that compiling finds.
    pub fn walk(&self) -> FsmWalk<'_> {
        FsmWalk { fsm: self, at: vec![self.start] }
    }

    /// Returns `state 3`, or `state 3 ("name")`.
    pub(crate) fn describe(&self, state: State) -> String {
        match self.states.get(&state).and_then(|s| s.name.as_ref()) {
            Some(name) => format!("state {state} ({name:?})"),
            None => format!("state {state}"),
        }
    }
}

/// The current position of a walk through a [`TokenFsm`].
#[derive(Debug, Clone)]
pub struct FsmWalk<'a> {
    fsm: &'a TokenFsm,
    at: Vec<State>,
}

impl FsmWalk<'_> {
    /// Returns the current states; more than one where transitions overlap.
    pub fn states(&self) -> &[State] {
        &self.at
    }

    /// Returns the tokens that may come next.
    pub fn allowed_tokens(&self) -> TokenSet {
        let edges = self.at.iter().flat_map(|&s| self.fsm.transitions(s));
        edges.flat_map(|e| e.0.iter()).collect()
    }

    /// Advances by a token. Returns false, and changes nothing, if it is not allowed.
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

    /// Returns true if the output may end here.
    pub fn is_complete(&self) -> bool {
        self.at.iter().any(|&s| self.fsm.is_accepting(s))
    }

    /// Returns to the start.
    pub fn reset(&mut self) {
        self.at = vec![self.fsm.start];
    }
}
