//! The usual case of liveness, in which everything can match: a proof from a few states.
//!
//! States are made after those that they lead to. So by induction a state is live if one that it
//! leads to was there and is live, and if the rules that are called on the way match. The arena
//! notes the exceptions ([`Nfa::unproven`](crate::machine::nfa::Nfa::unproven)): loops that are
//! closed later, and states that lead to nothing else. From each of them, and from the start of
//! each rule, a path to acceptance is searched. It tries the lowest state first, which was made
//! next to the end.
//!
//! # Cost
//!
//! A few operations for each state on these paths, which are short.
//!
//! # Alternatives considered
//!
//! - A pass over all states that notes a path for each: most states are bytes of names, which
//!   decide nothing about a rule.
//! - Testing each state for liveness by what is known of the rules so far, pass by pass.

use smallvec::{SmallVec, smallvec};

use crate::machine::liveness::{Liveness, StateRange};
use crate::machine::nfa::{ACCEPT, Call, NfaId, RuleIx, State};

/// Maximum number of passes over the rules before the full search takes over.
const MAX_SWEEPS: usize = 8;
/// Maximum number of moves to states made later, on a path that is followed without noting its
/// states.
const MAX_RISES: usize = 8;
/// Maximum number of steps for each state before the full search takes over.
const STEPS: usize = 8;

/// Returns true if every state to decide is live, except those that are `State::Dead` themselves,
/// and every rule matches. The first `known_rules` rules are known. Returns false if that is not
/// certain; then what it noted about rules is invalid.
pub(crate) fn all_live(solver: &mut Liveness, blocks: &[StateRange], known_rules: usize) -> bool {
    if solver.rule_ok[..known_rules].contains(&false) {
        return false;
    }
    let states = solver.nfa.len() - solver.from as usize;
    let mut ways = WitnessSearch { marks: Vec::new(), round: 0, left: STEPS * states + 1_000, solver };
    ways.unproven_live(blocks) && ways.rules(known_rules)
}

/// Marks a state that is known to be live if all rules match.
const LIVE: u32 = u32::MAX;

struct WitnessSearch<'a, 's> {
    /// By state: the last round that met it, or [`LIVE`]. Empty until it is needed.
    marks: Vec<u32>,
    round: u32,
    /// Number of steps left.
    left: usize,
    solver: &'a mut Liveness<'s>,
}

impl WitnessSearch<'_, '_> {
    /// Returns true if every unproven state has a path to acceptance, provided that all rules
    /// match.
    fn unproven_live(&mut self, blocks: &[StateRange]) -> bool {
        let (nfa, from) = (self.solver.nfa, self.solver.from);
        let doubts = nfa.unproven();
        let first = doubts.partition_point(|&s| s < from);
        let mut end = doubts.len();
        // In reverse order: most states that are closed later lead to later ones.
        for block in blocks.iter().rev() {
            while end > first && doubts[end - 1] >= block.first {
                end -= 1;
                let s = doubts[end];
                if block.trimmed {
                    continue;
                }
                if nfa.state(s) == State::Dead {
                    self.solver.dead = true;
                } else if !self.reaches(s, true) {
                    return false;
                }
            }
        }
        end == first
    }

    /// Returns true if all rules match, apart from the `known` ones. In reverse order, because most
    /// rules are made before those that they call.
    fn rules(&mut self, known: usize) -> bool {
        let mut open: Vec<RuleIx> = (known as u32..self.solver.starts.len() as u32).map(RuleIx).collect();
        open.reverse();
        for _ in 0..MAX_SWEEPS {
            let before = open.len();
            open.retain(|&rule| !self.settle(rule));
            if open.is_empty() || open.len() == before {
                break;
            }
        }
        open.is_empty()
    }

    /// Checks whether a rule matches by what is known of the others, and notes the result.
    fn settle(&mut self, rule: RuleIx) -> bool {
        let ok = self.reaches(self.solver.starts[rule.0 as usize], false) && self.solver.has_parts(rule);
        self.solver.rule_ok[rule.0 as usize] = ok;
        ok
    }

    /// Returns true if a path leads from a state to acceptance. With `any`, the path may go through
    /// any rule, not only through those that are known to match.
    fn reaches(&mut self, start: NfaId, any: bool) -> bool {
        self.straight(start, any) || self.search(start, any)
    }

    /// Returns true if the path through the lowest states leads to acceptance.
    fn straight(&mut self, start: NfaId, any: bool) -> bool {
        let mut path = SmallVec::new();
        let found = self.descend(start, any, &mut path);
        if found && any {
            self.mark_live(path.iter().copied());
        }
        found
    }

    fn descend(&mut self, start: NfaId, any: bool, path: &mut SmallVec<[NfaId; 32]>) -> bool {
        let (mut at, mut rises) = (start, 0);
        while self.left > 0 {
            self.left -= 1;
            if let Some(known) = self.known(at, any) {
                return known;
            }
            // Most states are a byte of a name.
            let to = self.solver.nfa.behind_run(at).or_else(|| match self.solver.nfa.state(at) {
                State::Byte { to, .. } => Some(to),
                State::Sparse(edges) => edges.iter().map(|edge| edge.2).min(),
                State::Union(parts) => parts.iter().copied().min(),
                _ => self.next(at, any).min(),
            });
            let Some(to) = to else { return false };
            rises += usize::from(to >= at);
            if rises > MAX_RISES {
                return false;
            }
            path.push(at);
            at = to;
        }
        false
    }

    /// Returns true if any path leads to acceptance.
    fn search(&mut self, start: NfaId, any: bool) -> bool {
        self.round += 1;
        let round = self.round;
        // The states met, each with the index in this list of its predecessor.
        let mut met: SmallVec<[(NfaId, u32); 32]> = SmallVec::new();
        let mut todo: SmallVec<[(NfaId, u32); 32]> = smallvec![(start, 0)];
        while let Some((at, before)) = todo.pop() {
            match self.known(at, any) {
                Some(true) => {
                    // Nothing was met where the start is known.
                    if any && !met.is_empty() {
                        let way = std::iter::successors(Some(before), |&i| {
                            Some(met[i as usize].1).filter(|&b| b < i)
                        });
                        self.mark_live(way.map(|i| met[i as usize].0));
                    }
                    return true;
                }
                Some(false) => continue,
                None if self.left == 0 => return false,
                None => self.left -= 1,
            }
            let mark = self.mark(at);
            if std::mem::replace(mark, round) == round {
                continue;
            }
            let here = met.len() as u32;
            met.push((at, before));
            let before = todo.len();
            todo.extend(self.next(at, any).map(|to| (to, here)));
            self.left = self.left.saturating_sub((todo.len() - before).saturating_sub(1));
        }
        false
    }

    /// Returns the states that follow, unless a rule that is called first may not match.
    fn next(&self, at: NfaId, any: bool) -> impl Iterator<Item = NfaId> {
        let state = self.solver.nfa.state(at);
        let open = match state {
            State::Call(Call::Rule(rule, ..) | Call::Fresh(rule, ..)) => {
                any || self.solver.rule_ok[rule.0 as usize]
            }
            _ => true,
        };
        open.then(|| state.targets()).into_iter().flatten()
    }

    /// Returns what is known of a state without following its edges.
    fn known(&self, s: NfaId, any: bool) -> Option<bool> {
        match s.checked_sub(self.solver.from) {
            Some(at) => (any && self.marks.get(at as usize) == Some(&LIVE)).then_some(true),
            // Decided at an earlier stage, and dead ones were removed then.
            None => Some(s == ACCEPT || self.solver.nfa.state(s) != State::Dead),
        }
    }

    /// Returns the mark of a state to decide.
    fn mark(&mut self, s: NfaId) -> &mut u32 {
        if self.marks.is_empty() {
            self.marks = vec![0; self.solver.nfa.len() - self.solver.from as usize];
        }
        &mut self.marks[(s - self.solver.from) as usize]
    }

    fn mark_live(&mut self, states: impl Iterator<Item = NfaId>) {
        for s in states {
            *self.mark(s) = LIVE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::nfa::{DEAD, Nfa};
    use ffwd_testkit::random::Random;

    /// A program of some rules, each a block of states made after those that they lead to, except
    /// for loops.
    fn program(random: &mut Random, known: usize) -> (Nfa, Vec<NfaId>, Vec<StateRange>) {
        let mut nfa = Nfa::default();
        let count = 1 + random.below(5);
        let (mut starts, mut blocks) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let first = nfa.len() as NfaId;
            blocks.push(StateRange { first, trimmed: false });
            let mut made = vec![ACCEPT];
            let mut loops = Vec::new();
            for _ in 0..1 + random.below(12) {
                let to = made[made.len() - 1 - random.below(made.len().min(3))];
                let other = made[random.below(made.len())];
                let rule = RuleIx(random.below(known + count) as u32);
                let state = match random.below(8) {
                    0 | 1 => State::Byte { lo: b'a', hi: b'b', to },
                    2 => State::Sparse(&[(b'a', b'a', to), (b'c', b'c', other)]),
                    3 | 4 => State::Union(&[to, other]),
                    5 | 6 => State::Call(Call::Rule(rule, 0, to)),
                    _ => State::Dead,
                };
                let s = nfa.push(state, 0);
                if state == State::Dead {
                    loops.push(s);
                }
                made.push(s);
            }
            // Loops lead to later states, rarely nowhere.
            for s in loops {
                let (a, b) = (made[random.below(made.len())], made[random.below(made.len())]);
                if random.below(20) > 0 {
                    nfa.set(s, State::Union(&[a, b]));
                }
            }
            starts.push(made[made.len() - 1]);
        }
        (nfa, starts, blocks)
    }

    #[test]
    fn what_is_sure_is_what_the_search_finds() {
        let mut random = Random::new(11);
        let (mut sure, mut missed, mut other) = (0, 0, 0);
        for _ in 0..20_000 {
            // The first rules represent those decided at an earlier stage.
            let known = &[true, true, false][..random.below(4)];
            let ready = !known.contains(&false);
            let (nfa, mut starts, blocks) = program(&mut random, known.len());
            starts.splice(..0, known.iter().map(|&ok| if ok { ACCEPT } else { DEAD }));
            let mut quick = Liveness::new(&nfa, &starts, &[], 2, known);
            let all = all_live(&mut quick, &blocks, known.len());
            let mut slow = Liveness::new(&nfa, &starts, &[], 2, known);
            slow.search(known.len());
            let live = |s: NfaId| slow.live[s as usize - 2] || nfa.state(s) == State::Dead;
            let whole = slow.rule_ok[known.len()..].iter().all(|&ok| ok) && (2..nfa.len() as NfaId).all(live);
            assert!(!all || whole, "{nfa:?} {starts:?}");
            match (all, whole) {
                (true, _) => sure += 1,
                (false, true) if ready => missed += 1,
                _ => other += 1,
            }
        }
        // Few are left to the search for nothing.
        assert!(sure > 1_000 && other > 1_000 && missed * 50 < sure, "{sure} {missed} {other}");
    }

    #[test]
    fn a_budget_that_ends_is_no_fault() {
        let mut random = Random::new(29);
        for _ in 0..2_000 {
            let (nfa, starts, blocks) = program(&mut random, 0);
            for left in 0..40 {
                let mut solver = Liveness::new(&nfa, &starts, &[], 2, &[]);
                let mut ways = WitnessSearch { marks: Vec::new(), round: 0, left, solver: &mut solver };
                if ways.unproven_live(&blocks) && ways.rules(0) {
                    let mut slow = Liveness::new(&nfa, &starts, &[], 2, &[]);
                    slow.search(0);
                    assert!(slow.rule_ok.iter().all(|&ok| ok));
                }
            }
        }
    }

    /// A list: `a`, then a list or nothing. The first of the two alternatives is a cycle.
    #[test]
    fn recursion_with_an_end_is_sure() {
        let mut nfa = Nfa::default();
        let first = nfa.len() as NfaId;
        let call = nfa.push(State::Call(Call::Rule(RuleIx(0), 0, ACCEPT)), 0);
        let either = nfa.push(State::Union(&[call, ACCEPT]), 0);
        let start = nfa.push(State::Byte { lo: b'a', hi: b'a', to: either }, 0);
        let endless = nfa.push(State::Byte { lo: b'a', hi: b'a', to: call }, 0);
        let blocks = [StateRange { first, trimmed: false }];
        for (start, sure) in [(start, true), (endless, false)] {
            let starts = [start];
            let mut solver = Liveness::new(&nfa, &starts, &[], first, &[]);
            assert_eq!(all_live(&mut solver, &blocks, 0), sure);
        }
    }
}
