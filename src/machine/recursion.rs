//! Refusal of left recursion.
//!
//! A rule that can call itself before it has consumed a byte would make the closure of a
//! configuration endless. In JSON Schema this is only a `$ref` cycle without content, which the
//! standard leaves undefined; it is found here, at compile time, by a search over the calls that a
//! rule can make first.

use crate::error::{Error, ErrorKind, Result};

use super::nfa::{ACCEPT, Nfa, NfaId, RuleIx, State};

/// Fails if a rule from `first_rule` on can reach itself without consuming a byte.
pub(super) fn refuse_left_recursion(nfa: &Nfa, starts: &[NfaId], first_rule: usize) -> Result<()> {
    let mut nullable = vec![false; starts.len()];
    let mut first: Vec<Vec<RuleIx>> = vec![Vec::new(); starts.len()];
    // A rule is nullable if accept is in the closure of its start through nullable calls; the sets
    // only grow, so repeat until nothing changes. Rules of JSON values are never nullable, so one
    // round is the rule.
    loop {
        let mut changed = false;
        for rule in first_rule..starts.len() {
            let (calls, accepts) = first_calls(nfa, starts[rule], &nullable);
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
    for root in first_rule..starts.len() {
        let mut stack = vec![(root, 0usize)];
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

/// The rules that can be called from `start` without consuming a byte, and whether the end can be
/// reached so.
fn first_calls(nfa: &Nfa, start: NfaId, nullable: &[bool]) -> (Vec<RuleIx>, bool) {
    let (mut calls, mut accepts) = (Vec::new(), false);
    let mut seen = std::collections::HashSet::new();
    let mut todo = vec![start];
    while let Some(s) = todo.pop() {
        if !seen.insert(s) {
            continue;
        }
        match nfa.state(s) {
            State::Union(parts) => todo.extend_from_slice(parts),
            State::Call { rule, to, .. } => {
                calls.push(rule);
                if nullable[rule.0 as usize] {
                    todo.push(to);
                }
            }
            State::Guard { to, .. } => todo.push(to),
            _ => accepts |= s == ACCEPT,
        }
    }
    (calls, accepts)
}
