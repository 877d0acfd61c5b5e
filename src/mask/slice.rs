//! Which vocabulary slice a state's language contains.
//!
//! Explores the deterministic states reached by strings over the slice's characters; if none is dead,
//! every token of the slice is legal. Sound for any automaton, and complete for the class loop, unlike
//! a syntactic test on the regular expression. The same search tells which bytes outside the slice can
//! come first, so that the walk of the other tokens can skip subtrees without any of them.

use rustc_hash::FxHashSet;

use crate::machine::{Local, Machine, StackId, Thread};
use crate::vocab::{Slice, SliceKind, Vocabulary, byte_group};

/// Most states looked at per slice.
const MAX_STATES: usize = 512;

/// A slice contained in a state's language.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contained {
    /// Index of the slice.
    pub slice: usize,
    /// Byte groups of which a legal token outside the slice has at least one.
    pub need: u16,
}

/// The widest slice all of whose strings keep `state` alive within its rule, among those with or
/// without a leading blank; and the states for which the same holds, this one among them.
pub(super) fn widest_slice(
    machine: &mut Machine,
    vocab: &Vocabulary,
    Thread { local: Local { state, .. }, stack }: Thread,
    spaced: bool,
) -> Option<(Contained, Vec<u32>)> {
    // Every slice has these letters; most states of a grammar take none of them.
    if [b'a', b'e', b'z'].into_iter().any(|b| vocab.has_byte(b) && machine.step_state(state, b) == 0) {
        return None;
    }
    let slices = vocab.slices().iter().enumerate().filter(|(_, s)| s.spaced == spaced);
    for (slice, data) in slices {
        if let Some((need, states)) = contains(machine, vocab, data, (state, stack)) {
            // Wider slices were tried for this state only.
            let states = if slice == 0 { states } else { vec![state] };
            return Some((Contained { slice, need }, states));
        }
    }
    None
}

/// Follows the strings over the slice's characters from `state`, in step with the plain string
/// automaton, which knows where a character of several bytes ends.
fn contains(
    machine: &mut Machine,
    vocab: &Vocabulary,
    slice: &Slice,
    (state, stack): (u32, StackId),
) -> Option<(u16, Vec<u32>)> {
    let ascii: Vec<u8> = (0..0x80).filter(|&b| slice.kind.has_ascii(b) && vocab.has_byte(b)).collect();
    let unspaced = slice.kind == SliceKind::JsonUnspaced;
    let body = if unspaced { machine.unspaced_body() } else { machine.string_body() };
    if body == 0 && slice.kind.has_unicode() {
        // A vocabulary that cannot spell strings has no such automaton.
        return None;
    }
    let mut seen: FxHashSet<(u32, u32)> = FxHashSet::from_iter([(state, body)]);
    let mut todo = std::collections::VecDeque::from([(state, body)]);
    // A token that ends inside a character is outside the slice, too.
    let mut need = if slice.kind.has_unicode() { byte_group(0x80) } else { 0 };
    while let Some((state, text)) = todo.pop_front() {
        if seen.len() > MAX_STATES {
            return None;
        }
        if machine.leads_out(state, stack) {
            // What follows there may hold any byte.
            need = u16::MAX;
        }
        for b in 0..=255u8 {
            let inside = match b {
                0x80.. => slice.kind.has_unicode() && machine.step_state(text, b) != 0,
                _ => text == body && slice.kind.has_ascii(b) && vocab.has_byte(b),
            };
            let next = machine.step_state(state, b);
            if !inside {
                need |= if next == 0 { 0 } else { byte_group(b) };
                continue;
            }
            if next == 0 {
                return None;
            }
            let text = if b < 0x80 { body } else { machine.step_state(text, b) };
            if seen.insert((next, text)) {
                todo.push_back((next, text));
            }
        }
    }
    let states = seen.iter().filter(|s| s.1 == body).map(|s| s.0).collect();
    (!ascii.is_empty()).then_some((need, states))
}
