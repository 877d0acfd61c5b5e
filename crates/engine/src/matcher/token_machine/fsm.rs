//! States of a user's `TokenFsm`: checked and trimmed at compile time, determinised lazily, with
//! shortest completions.
//!
//! # Cost
//!
//! Compiling is linear in the transitions and in the tokens of different sets. A forward search
//! finds the reachable states. A backward search from the accept states finds the live ones, and
//! the distances that a completion within a token limit needs.

use std::collections::VecDeque;
use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::constraint::token_machine::{MAX_STATES, MAX_TRANSITIONS, State, TokenFsm, TokenSet};
use crate::error::{Error, ErrorKind, Result};
use crate::machine::ConfigId;
use crate::vocab::{TokenId, Vocabulary};
use crate::warning::{Warning, WarningKind};

/// Largest number of removed states that a warning names.
const MAX_NAMED: usize = 8;

/// The live part of a machine; states are numbered in their order.
struct Live {
    states: Vec<LiveState>,
    fixed: usize,
}

struct LiveState {
    /// The user's name for the state.
    name: String,
    accept: bool,
    edges: Vec<(TokenSet, u32)>,
    /// Number of tokens to the nearest accept state.
    distance: u32,
}

/// The sets of states reached so far.
#[derive(Clone)]
pub(super) struct FsmStates {
    live: Arc<Live>,
    start: u32,
    /// State set by configuration; that of 0, the dead one, is empty.
    sets: IndexSet<Arc<[u32]>, FxBuildHasher>,
    bytes: usize,
}

impl FsmStates {
    pub(super) fn compile(fsm: &TokenFsm, vocab: &Vocabulary) -> Result<(Self, Vec<Warning>)> {
        let known = fsm.states().count();
        for (what, number, most) in
            [("states", known, MAX_STATES), ("transitions", fsm.transition_count(), MAX_TRANSITIONS)]
        {
            if number > most {
                let message = format!("the machine has {number} {what}, at most {most} are possible");
                return Err(Error::new(ErrorKind::TooComplex, message));
            }
        }
        let reached = reachable(fsm)?;
        check_tokens(fsm, &reached, vocab)?;
        let distances = distances(fsm, &reached);
        if !distances.contains_key(&fsm.start()) {
            let message =
                format!("no accept state can be reached from {}, the start", fsm.describe(fsm.start()));
            return Err(Error::new(ErrorKind::Unsatisfiable, message)
                .hint("mark the states in which the output may end (`TokenFsm::accept`)"));
        }
        let lost: Vec<State> = reached.iter().copied().filter(|s| !distances.contains_key(s)).collect();
        let mut warnings = Vec::new();
        if !lost.is_empty() {
            let named: Vec<String> = lost.iter().take(MAX_NAMED).map(|&s| fsm.describe(s)).collect();
            let more = if lost.len() > MAX_NAMED { ", ..." } else { "" };
            let message = format!(
                "transitions into states that lead to no accept state are left out: {}{more}",
                named.join(", ")
            );
            warnings.push(Warning::new(WarningKind::DeadTransition, message));
        }
        let live = trimmed(fsm, &reached, &distances);
        let start = live.1;
        Ok((FsmStates::begin(Arc::new(live.0), start), warnings))
    }

    fn begin(live: Arc<Live>, start: u32) -> Self {
        let mut states = FsmStates { live, start, sets: IndexSet::from_iter([Arc::from([])]), bytes: 0 };
        states.intern(vec![start]);
        states
    }

    fn intern(&mut self, set: Vec<u32>) -> ConfigId {
        let bytes = 4 * set.len() + 16 + 40;
        let (config, is_new) = self.sets.insert_full(set.into());
        self.bytes += if is_new { bytes } else { 0 };
        config as ConfigId
    }

    fn members(&self, config: ConfigId) -> impl Iterator<Item = &LiveState> {
        self.sets[config as usize].iter().map(|&s| &self.live.states[s as usize])
    }

    pub(super) fn step(&mut self, config: ConfigId, token: TokenId) -> ConfigId {
        let edges = self.members(config).flat_map(|s| &s.edges);
        let mut next: Vec<u32> = edges.filter(|e| e.0.contains(token)).map(|e| e.1).collect();
        next.sort_unstable();
        next.dedup();
        self.intern(next)
    }

    pub(super) fn is_accepting(&self, config: ConfigId) -> bool {
        self.members(config).any(|s| s.accept)
    }

    pub(super) fn tokens(&self, config: ConfigId) -> Vec<TokenId> {
        let mut tokens: Vec<TokenId> =
            self.members(config).flat_map(|s| &s.edges).flat_map(|e| e.0.iter()).collect();
        tokens.sort_unstable();
        tokens.dedup();
        tokens
    }

    pub(super) fn completion(&self, config: ConfigId) -> Vec<TokenId> {
        let mut tokens = Vec::new();
        let Some(mut at) = self.members(config).min_by_key(|s| s.distance) else { return tokens };
        while at.distance > 0 {
            let states = &self.live.states;
            // A state with a positive distance has a transition to a nearer state.
            let Some(edge) = at.edges.iter().find(|e| states[e.1 as usize].distance < at.distance) else {
                break;
            };
            tokens.extend(edge.0.iter().next());
            at = &states[edge.1 as usize];
        }
        tokens
    }

    pub(super) fn describe(&self, config: ConfigId) -> String {
        let names: Vec<&str> = self.members(config).map(|s| s.name.as_str()).take(MAX_NAMED).collect();
        names.join(" or ")
    }

    pub(super) fn len(&self) -> usize {
        self.sets.len() - 1
    }

    pub(super) fn fixed_bytes(&self) -> usize {
        self.live.fixed
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn renewed(&self) -> Self {
        FsmStates::begin(self.live.clone(), self.start)
    }
}

/// Returns the reachable states in order. Fails for a state with an empty mask, and for a
/// transition without tokens.
fn reachable(fsm: &TokenFsm) -> Result<Vec<State>> {
    let mut seen: FxHashSet<State> = FxHashSet::from_iter([fsm.start()]);
    let mut todo = vec![fsm.start()];
    while let Some(state) = todo.pop() {
        let edges = fsm.transitions(state);
        if edges.is_empty() && !fsm.is_accepting(state) {
            let message = format!("the mask of {} is empty", fsm.describe(state));
            return Err(Error::new(ErrorKind::Unsatisfiable, message).hint(
                "the state can be reached, but nothing leaves it: add a transition, or make it an accept state",
            ));
        }
        for (tokens, to) in edges {
            if tokens.is_empty() {
                let message = format!(
                    "the transition from {} to {} has no tokens",
                    fsm.describe(state),
                    fsm.describe(*to)
                );
                return Err(Error::new(ErrorKind::Unsatisfiable, message)
                    .hint("the class or pattern that it was made of matches no token of the vocabulary"));
            }
            if seen.insert(*to) {
                todo.push(*to);
            }
        }
    }
    let mut reached: Vec<State> = seen.into_iter().collect();
    reached.sort_unstable();
    Ok(reached)
}

/// Checks that every token can be emitted. Sets that several transitions share are checked once.
fn check_tokens(fsm: &TokenFsm, reached: &[State], vocab: &Vocabulary) -> Result<()> {
    let mut checked = FxHashSet::default();
    for &state in reached {
        for (tokens, _) in fsm.transitions(state) {
            if !checked.insert(tokens.address()) {
                continue;
            }
            for token in tokens.iter() {
                let (kind, what, hint) = if vocab.eos().contains(&token) {
                    let hint = "end tokens are legal in accept states by themselves; make the state one";
                    (ErrorKind::InvalidOption, "ends the output", hint)
                } else if token as usize >= vocab.len() {
                    let hint = "use ids of the tokenizer, not of padded logits";
                    (ErrorKind::IllegalToken, "is not in the vocabulary", hint)
                } else if vocab.token_bytes(token).is_empty() && !vocab.is_special(token) {
                    let hint = "its bytes cannot be written in this vocabulary one by one";
                    (ErrorKind::IllegalToken, "has no text", hint)
                } else {
                    continue;
                };
                let message = format!("token {token}, in a transition of {}, {what}", fsm.describe(state));
                return Err(Error::new(kind, message).hint(hint));
            }
        }
    }
    Ok(())
}

/// Returns the number of tokens from each state to the nearest accept state, for the states that
/// reach one.
fn distances(fsm: &TokenFsm, reached: &[State]) -> FxHashMap<State, u32> {
    let mut into: FxHashMap<State, Vec<State>> = FxHashMap::default();
    for &from in reached {
        for (_, to) in fsm.transitions(from) {
            into.entry(*to).or_default().push(from);
        }
    }
    let accept = || reached.iter().copied().filter(|&s| fsm.is_accepting(s));
    let mut distances: FxHashMap<State, u32> = accept().map(|s| (s, 0)).collect();
    let mut todo: VecDeque<State> = accept().collect();
    while let Some(state) = todo.pop_front() {
        let next = distances[&state] + 1;
        for &from in into.get(&state).map_or(&[][..], Vec::as_slice) {
            distances.entry(from).or_insert_with(|| {
                todo.push_back(from);
                next
            });
        }
    }
    distances
}

/// Returns the states with a distance, numbered in their order, and the number of the start.
fn trimmed(fsm: &TokenFsm, reached: &[State], distances: &FxHashMap<State, u32>) -> (Live, u32) {
    let alive: Vec<State> = reached.iter().copied().filter(|s| distances.contains_key(s)).collect();
    let number: FxHashMap<State, u32> = alive.iter().zip(0..).map(|(&s, n)| (s, n)).collect();
    let mut fixed = 0;
    let mut sets = FxHashSet::default();
    let state = |&state: &State| {
        let edges = fsm.transitions(state).iter();
        let edges: Vec<(TokenSet, u32)> =
            edges.filter_map(|(tokens, to)| Some((tokens.clone(), *number.get(to)?))).collect();
        fixed += size_of::<LiveState>() + edges.len() * size_of::<(TokenSet, u32)>();
        fixed += edges.iter().filter(|e| sets.insert(e.0.address())).map(|e| 4 * e.0.len()).sum::<usize>();
        LiveState {
            name: fsm.describe(state),
            accept: fsm.is_accepting(state),
            edges,
            distance: distances[&state],
        }
    };
    let states = alive.iter().map(state).collect();
    (Live { states, fixed }, number[&fsm.start()])
}
