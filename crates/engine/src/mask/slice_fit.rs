//! For how long the strings over a vocabulary slice keep a state alive.
//!
//! Asks the states reached by strings over the slice's characters ([`explored`](super::explored)). If none is dead,
//! every token of the slice is legal. If some are, it is known for each state how many characters are
//! always safe, and after how many none is left: `[0-9A-F]{12}` or "at most 50 words" are such states, and
//! so is a search for a word that must not come twice. Of the tokens in between, a walk of the trie visits
//! only those places from which a dead state is near enough, and below which the bytes are that lead there. Sound for
//! any automaton, and complete for the class loop, unlike a syntactic test on the regular expression. The same search
//! tells which bytes outside the slice can come first, so that the walk of the other tokens can skip subtrees without
//! any of them. One search answers for all states it meets. Rejected: a walk of the whole trie for every state that is
//! not contained for ever, which makes counted repetitions the slowest states there are.

use std::sync::Arc;

use super::rejected_tokens::{REJECT_SEARCH_STEPS, rejected_tokens};
use super::rejection_bytes::{RejectCondition, rejecting_bytes};
use super::slice_search::{ByteRuns, SliceSearch};
use super::trie_walk::ByteFilter;
use crate::machine::{LocalState, Machine, Thread};
use crate::vocab::{ByteGroups, ClassSet, TokenId, Vocabulary};

/// A state is told of with others if strings of so many characters lead to nothing unknown.
const MIN_CLEAR_CHARS: u32 = 3;
/// Of so many first bytes a state may die for a slice to be of use; where more kill, a walk ends soon anyway.
const MAX_REJECTING_GROUPS: u32 = 3;
/// Or of bytes that so few tokens have, of each 1,000.
const MAX_REJECTED_PER_MILLE: u64 = 80;
/// So many safe characters are worth more than a narrower slice that is contained for ever.
const GOOD_SAFE_CHARS: u32 = 6;

/// How long strings over a slice are that keep a state alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SafeLengths {
    /// All of so many characters and fewer do.
    pub safe: u32,
    /// None with more characters does.
    pub most: u32,
}

impl SafeLengths {
    /// All strings, however long.
    pub const UNBOUNDED: SafeLengths = SafeLengths { safe: u32::MAX, most: u32::MAX };

    /// Whether the length alone decides.
    pub fn is_exact(self) -> bool {
        self.safe == self.most
    }
}

/// A slice of which a state takes many strings.
#[derive(Debug, Clone)]
pub(super) struct SliceFit {
    /// Index of the slice.
    pub slice: usize,
    /// What a legal token outside the slice has.
    pub need: ByteFilter,
    /// How long the strings are.
    pub alive: SafeLengths,
    /// Those with a byte of these classes are not among them.
    pub excluded_classes: ClassSet,
    /// Whether the rule may end within some of its strings, so that those that do not stay inside are to be looked at.
    pub ends: bool,
    /// The same for the states that they lead to.
    near: Arc<StateFits>,
}

impl SliceFit {
    /// What kills the state, if that is known.
    pub fn deadly(&self, state: u32) -> Option<&[RejectCondition]> {
        self.near.deadly(state)
    }

    /// What is known of the states that strings lead to.
    pub fn near(&self) -> &StateFits {
        &self.near
    }
}

/// How long strings are that keep each of some states alive, and what those hold that do not, by state; the
/// least is known of every state.
#[derive(Debug)]
pub(super) struct StateFits {
    /// The states between characters, the one that was asked for first.
    pub between: Vec<CharBoundary>,
    /// The first state that something is known of; those of one search have numbers that are close together.
    pub first: u32,
    pub alive: Vec<SafeLengths>,
    /// What kills state n are `ways[starts[n]..starts[n + 1]]`; both are empty where nothing can die.
    pub ways: Vec<RejectCondition>,
    pub starts: Vec<u32>,
}

/// A state between characters.
#[derive(Debug, Clone, Copy)]
pub(super) struct CharBoundary {
    pub state: u32,
    /// So many characters lead to nothing unknown.
    pub clear: u32,
    /// So many characters of ASCII do.
    pub reach: u32,
}

impl StateFits {
    pub const UNKNOWN: SafeLengths = SafeLengths { safe: 0, most: u32::MAX };

    #[inline]
    pub fn of(&self, state: u32) -> SafeLengths {
        self.alive.get(state.wrapping_sub(self.first) as usize).copied().unwrap_or(Self::UNKNOWN)
    }

    /// What kills the state, if that is known.
    #[inline]
    pub fn deadly(&self, state: u32) -> Option<&[RejectCondition]> {
        let n = state.wrapping_sub(self.first) as usize;
        match self.starts.get(n..)? {
            &[from, to, ..] => Some(&self.ways[from as usize..to as usize]),
            _ => None,
        }
    }

    /// Whether something was not looked at.
    #[cfg(test)]
    pub fn is_partial(&self) -> bool {
        self.between.iter().any(|between| between.clear < u32::MAX)
    }

    /// Whether strings from a state need a look at few places only.
    fn is_useful(&self, vocab: &Vocabulary, state: u32) -> bool {
        let few = |ways: &[RejectCondition]| are_few(vocab, rejecting_bytes(ways));
        self.of(state).safe > 0 || self.deadly(state).is_some_and(few)
    }
}

/// Whether a state may die of these bytes for a slice to be of use.
pub(super) fn are_few(vocab: &Vocabulary, bytes: ByteGroups) -> bool {
    let rare =
        || u64::from(vocab.classes().having(bytes)) * 1_000 <= vocab.len() as u64 * MAX_REJECTED_PER_MILLE;
    bytes.count_ones() <= MAX_REJECTING_GROUPS || rare()
}

/// What is said of a state, and other states for which the slice is as good, with what is said of them.
pub(super) type Answer = (SliceFit, Vec<(u32, SliceFit)>);

/// What the widest slice is worth for a state.
pub(super) enum WidestFit {
    /// Of nearly all of its tokens it is known whether they stay inside; with those that do not, if they were looked for.
    Good(Answer, Option<Vec<TokenId>>),
    /// A narrower one may be better; with the bytes that kill.
    Poor(Answer, Box<[bool; 128]>),
    /// Many of its strings die soon.
    Useless,
    /// So do those of all others.
    AllUseless,
}

impl WidestFit {
    /// Tries the widest slice with or without a leading blank within the rule of a state.
    pub fn of(
        machine: &mut Machine,
        vocab: &Vocabulary,
        spelled: &mut ByteRuns,
        thread: Thread,
        spaced: bool,
    ) -> WidestFit {
        // Every slice has these letters; most states of a grammar take none of them.
        let state = thread.local.state;
        if [b'a', b'e', b'z'].into_iter().any(|b| vocab.has_byte(b) && machine.step_state(state, b) == 0) {
            return WidestFit::AllUseless;
        }
        let first = vocab.slices().iter().position(|s| s.spaced == spaced);
        let Some((answer, killers)) =
            first.and_then(|first| try_slice(machine, vocab, spelled, thread, first))
        else {
            return WidestFit::Useless;
        };
        if answer.0.alive.safe >= GOOD_SAFE_CHARS {
            return WidestFit::Good(answer, None);
        }
        if let Some(dead) = rejected_within_budget(machine, vocab, (state, spaced), &answer.0) {
            return WidestFit::Good(answer, Some(dead));
        }
        WidestFit::Poor(answer, Box::new(killers))
    }

    /// The widest slice of whose strings the state takes many, after the widest of all was tried.
    pub fn or_narrower(
        self,
        machine: &mut Machine,
        vocab: &Vocabulary,
        spelled: &mut ByteRuns,
        thread: Thread,
        spaced: bool,
    ) -> Option<Answer> {
        let mut second = match self {
            WidestFit::Good(answer, _) => return Some(answer),
            WidestFit::AllUseless => return None,
            WidestFit::Useless => None,
            WidestFit::Poor(answer, killers) => Some((answer, *killers)),
        };
        let slices = vocab.slices().iter().enumerate().filter(|(_, s)| s.spaced == spaced);
        for (slice, data) in slices.skip(1) {
            let holds =
                |killers: &[bool; 128]| (0..0x80).any(|b| killers[b as usize] && data.kind.has_ascii(b));
            if second.as_ref().is_some_and(|(_, killers)| holds(killers)) {
                // What kills in a wider slice is in this one, too.
                continue;
            }
            let Some((answer, killers)) = try_slice(machine, vocab, spelled, thread, slice) else { continue };
            if answer.0.alive.safe >= GOOD_SAFE_CHARS {
                return Some(answer);
            }
            second = second.or(Some((answer, killers)));
        }
        second.map(|(answer, _)| answer)
    }
}

/// The tokens of a slice that kill a state, if they are found soon.
fn rejected_within_budget(
    machine: &mut Machine,
    vocab: &Vocabulary,
    (state, spaced): (u32, bool),
    contained: &SliceFit,
) -> Option<Vec<TokenId>> {
    let top = if spaced { vocab.trie().first(b' ') } else { 0 };
    let slice = &vocab.slices()[contained.slice];
    rejected_tokens(machine, vocab, slice, (top, state), contained, REJECT_SEARCH_STEPS)
}

/// What a slice tells of a state, and which bytes kill.
fn try_slice(
    machine: &mut Machine,
    vocab: &Vocabulary,
    spelled: &mut ByteRuns,
    Thread { local: LocalState { state, .. }, stack }: Thread,
    slice: usize,
) -> Option<(Answer, [bool; 128])> {
    let found = SliceSearch::from(machine, vocab, slice, spelled, (state, stack))?;
    // What dies is looked for token by token if it may leave the rule before.
    let (ends, without) = (found.ends, if found.ends { 0 } else { found.uniform(vocab) });
    let (groups, near) = (found.need, found.near(without));
    let contained = |state, reach| {
        let alive = near.of(state);
        let need = ByteFilter { groups, reach };
        SliceFit { slice, need, alive, excluded_classes: without, ends, near: near.clone() }
    };
    let first = near.between.first().map_or(0, |first| first.reach);
    // Nor are there strings that are too long without any of them being looked at.
    let whole = |state| !ends || near.of(state).most == u32::MAX;
    if !whole(state) {
        return None;
    }
    // Wider slices were tried for this state only; they keep no state alive for longer.
    let others = near
        .between
        .iter()
        .filter(|other| other.clear >= MIN_CLEAR_CHARS && near.is_useful(vocab, other.state));
    let others = others.filter(|&&CharBoundary { state, .. }| {
        slice == 0 || near.of(state).safe > 0 && near.of(state).most < u32::MAX
    });
    let others = others.filter(|other| whole(other.state));
    let others = others.map(|other| (other.state, contained(other.state, other.reach))).collect();
    Some(((contained(state, first), others), found.killers))
}
