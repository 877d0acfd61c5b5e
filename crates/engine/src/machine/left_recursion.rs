//! Refusal of left recursion.
//!
//! A rule that can call itself before it consumes a byte would make the closure of a configuration
//! endless. In JSON Schema this is only a `$ref` cycle without content, which the standard leaves
//! undefined. It is found at compile time, by a search over the calls that a rule can make first.

use smallvec::{SmallVec, smallvec};

use crate::error::{Error, ErrorKind, Result};

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
    // Depth-first search for a cycle, with an explicit stack: 0 unseen, 1 on the path, 2 done.
    let mut colour = vec![0u8; starts.len()];
    let mut stack: Vec<(usize, usize)> = Vec::new();
    for root in first_rule..starts.len() {
        if colour[root] == 0 {
            stack.push((root, 0));
        }
        while let Some(&mut (rule, ref mut next)) = stack.last_mut() {
            colour[rule] = 1;
            let Some(callee) = first[rule].get(*next).map(|r| r.0 as usize) else {
                colour[rule] = 2;
                stack.pop();
                continue;
            };
            *next += 1;
            match colour[callee] {
                0 => stack.push((callee, 0)),
                1 => {
                    let message =
                        "a rule refers to itself before anything else can be matched (left recursion)";
                    return Err(Error::new(ErrorKind::Unsupported, message)
                        .hint("let the recursion pass through an array item, a property or other text"));
                }
                _ => {}
            }
        }
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
