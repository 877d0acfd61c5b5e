//! Refusal of left recursion.
//!
//! A rule that can call itself before it consumes a byte would make the closure of a configuration
//! endless. In JSON Schema this is only a `$ref` cycle without content, which the standard leaves
//! undefined. It is found at compile time, in the graph of the calls that a rule can make first.

use smallvec::{SmallVec, smallvec};

use crate::error::{Error, ErrorKind, Result};
use crate::incoming::Incoming;

use super::nfa::{ACCEPT, Call, Nfa, NfaId, RuleIx, State};

/// Checks that no rule from `first_rule` on can reach itself without consuming a byte.
///
/// # Errors
///
/// Returns an error if one can.
pub(super) fn refuse_left_recursion(nfa: &Nfa, starts: &[NfaId], first_rule: usize) -> Result<()> {
    let mut nullable = vec![false; starts.len()];
    let mut first: Vec<SmallVec<[RuleIx; 2]>> = vec![SmallVec::new(); starts.len()];
    // A rule is nullable if accept is in the closure of its start through nullable calls. The sets
    // only grow, so the loop repeats until nothing changes. Rules of JSON values are never
    // nullable, so one round usually suffices. `met` holds, for each state, the last rule check in
    // which it was met.
    let (mut met, mut round) = (Vec::new(), 0);
    loop {
        let mut changed = false;
        for rule in first_rule..starts.len() {
            // Most rules begin with a byte.
            if matches!(nfa.state(starts[rule]), State::Byte { .. } | State::Sparse(_)) {
                continue;
            }
            if met.is_empty() {
                met = vec![0u32; nfa.len()];
            }
            round += 1;
            let is_new = |s: NfaId| std::mem::replace(&mut met[s as usize], round) != round;
            let (calls, accepts) = first_calls(nfa, starts[rule], &nullable, is_new);
            changed |= accepts != nullable[rule];
            nullable[rule] = accepts;
            first[rule] = calls;
        }
        if !changed {
            break;
        }
    }
    if first.iter().all(|calls| calls.is_empty()) {
        return Ok(());
    }
    let callers = Incoming::new(starts.len(), |edge| {
        for (caller, calls) in first.iter().enumerate() {
            calls.iter().for_each(|callee| edge(callee.0 as usize, caller));
        }
    });
    let open = first.iter().map(|calls| calls.len() as u32).collect();
    if callers.longest(open, |&caller| (caller, 1)).contains(&u32::MAX) {
        let message = "a rule refers to itself before anything else can be matched (left recursion)";
        return Err(Error::new(ErrorKind::Unsupported, message)
            .hint("let the recursion pass through an array item, a property or other text"));
    }
    Ok(())
}

/// Returns the rules that can be called from `start` without consuming a byte, and whether the end
/// can be reached likewise. `is_new` returns true for a state once.
fn first_calls(
    nfa: &Nfa,
    start: NfaId,
    nullable: &[bool],
    mut is_new: impl FnMut(NfaId) -> bool,
) -> (SmallVec<[RuleIx; 2]>, bool) {
    let (mut calls, mut accepts) = (SmallVec::new(), false);
    let mut todo: SmallVec<[NfaId; 8]> = smallvec![start];
    while let Some(s) = todo.pop() {
        if !is_new(s) {
            continue;
        }
        match nfa.state(s) {
            State::Union(parts) => todo.extend_from_slice(parts),
            State::Call(Call::Rule(rule, _, to)) => {
                calls.push(rule);
                if nullable[rule.0 as usize] {
                    todo.push(to);
                }
            }
            State::Call(Call::Guard(_, to)) => todo.push(to),
            _ => accepts |= s == ACCEPT,
        }
    }
    (calls, accepts)
}
