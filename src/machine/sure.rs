//! The usual case of liveness: everything can match, which a pass over the states shows.
//!
//! For each state the pass notes a *way* to acceptance: none, a way without calls of rules that are not known to
//! match yet, or the first such call on it. States are made after those they lead to, so one look at each
//! is mostly enough; loops are looked at again. A rule matches if those on the way from its start do, which is a
//! few steps from call to call, however long the names between them are. Cost: a few operations a state. Rejected:
//! asking for each state whether it is live by what is known of the rules so far, pass by pass. In recursive schemas that took
//! three passes, and most states are bytes of names, which no rule says anything about.

use super::liveness::{Block, Liveness};
use super::nfa::{ACCEPT, DEAD, NfaId, RuleIx, State};

/// Most passes over what is left of the states, and over the rules, before the search takes over.
const MAX_SWEEPS: usize = 8;

/// No way is known.
const NONE: NfaId = DEAD;
/// Acceptance is behind no call.
const FREE: NfaId = ACCEPT;

/// Whether every state that is to be decided is live, besides those that are dead by their looks, and every rule
/// matches, of which so many are known. `false` if that is not certain; what it says of rules does not hold then.
pub(super) fn everything(solver: &mut Liveness, blocks: &[Block], known_rules: usize) -> bool {
    let states = solver.nfa.len() - solver.from as usize;
    let mut ways = Ways { ways: vec![NONE; states], solver, blocks, known_rules };
    ways.states() && ways.rules()
}

struct Ways<'a, 's> {
    /// By state: none, free, or the state of the first call.
    ways: Vec<NfaId>,
    solver: &'a mut Liveness<'s>,
    blocks: &'a [Block],
    /// Of so many rules it is decided whether they match.
    known_rules: usize,
}

impl Ways<'_, '_> {
    /// Finds a way from every state that is not dead by its looks, if the rules that are called match; whether there
    /// is one from each.
    fn states(&mut self) -> bool {
        let mut open: Vec<NfaId> = Vec::new();
        (0..self.blocks.len()).rev().all(|block| self.block(block, true, &mut open))
    }

    /// Finds the ways from the states of a block; `any`: through any rule, not only those that match for sure.
    fn block(&mut self, block: usize, any: bool, open: &mut Vec<NfaId>) -> bool {
        let (nfa, from) = (self.solver.nfa, self.solver.from);
        let Block { first, trimmed } = self.blocks[block];
        let end = self.blocks.get(block + 1).map_or(nfa.len() as NfaId, |next| next.first);
        if trimmed {
            for s in first..end {
                self.ways[(s - from) as usize] = if nfa.state(s) == State::Dead { NONE } else { FREE };
            }
            return true;
        }
        open.clear();
        for s in first..end {
            // Most states are a byte of a name, made right after the one it leads to.
            let way = match nfa.behind_byte(s) {
                Some(to) if to >= from => self.ways[(to - from) as usize],
                _ => self.way(s, nfa.state(s), any),
            };
            self.ways[(s - from) as usize] = way;
            if way == NONE {
                match nfa.state(s) {
                    State::Dead => self.solver.dead = true,
                    _ => open.push(s),
                }
            }
        }
        for _ in 0..MAX_SWEEPS {
            let before = open.len();
            open.retain(|&s| {
                let way = self.way(s, nfa.state(s), any);
                self.ways[(s - from) as usize] = way;
                way == NONE
            });
            if open.is_empty() || open.len() == before {
                break;
            }
        }
        open.is_empty()
    }

    /// The way from a state by what is known of those after it.
    #[inline]
    fn way(&self, s: NfaId, state: State, any: bool) -> NfaId {
        /// The first that is free; if there is none, the last.
        fn best(ways: impl Iterator<Item = NfaId>) -> NfaId {
            let mut best = NONE;
            for way in ways {
                match way {
                    FREE => return FREE,
                    NONE => {}
                    _ => best = way,
                }
            }
            best
        }
        match state {
            State::Dead => NONE,
            State::Accept => FREE,
            State::Byte { to, .. } | State::CallItem { to } | State::Guard { to, .. } => self.from(to),
            State::Sparse(edges) => best(edges.iter().map(|e| self.from(e.2))),
            State::Union(parts) => best(parts.iter().map(|&p| self.from(p))),
            State::Call { rule, to, .. } | State::CallFresh { rule, to, .. } => match self.from(to) {
                way if way == NONE || self.solver.rule_ok[rule.0 as usize] => way,
                _ if any && rule.0 as usize >= self.known_rules => s,
                _ => NONE,
            },
        }
    }

    fn from(&self, s: NfaId) -> NfaId {
        match s.checked_sub(self.solver.from) {
            Some(at) => self.ways[at as usize],
            // Decided earlier, and dead ones were removed then.
            None if s == ACCEPT || self.solver.nfa.state(s) != State::Dead => FREE,
            None => NONE,
        }
    }

    /// Whether all rules match. From the last to the first, since most are made before those they call.
    fn rules(&mut self) -> bool {
        let mut open: Vec<RuleIx> =
            (self.known_rules as u32..self.solver.starts.len() as u32).map(RuleIx).collect();
        open.reverse();
        let mut buffer = Vec::new();
        for _ in 0..MAX_SWEEPS {
            let before = open.len();
            open.retain(|&rule| !self.settle(rule));
            if open.len() == before {
                // The way that was noted may lead round in a circle where another does not.
                open.retain(|&rule| {
                    let start = self.solver.starts[rule.0 as usize];
                    let block = self.blocks.partition_point(|b| b.first <= start);
                    block == 0 || {
                        self.forget(block - 1);
                        self.block(block - 1, false, &mut buffer);
                        !self.settle(rule)
                    }
                });
            }
            if open.is_empty() || open.len() == before {
                break;
            }
        }
        open.is_empty()
    }

    /// Drops the ways of a block, of which later ones would be taken for found.
    fn forget(&mut self, block: usize) {
        let from = self.solver.from;
        let first = (self.blocks[block].first - from) as usize;
        let end = self.blocks.get(block + 1).map_or(self.ways.len(), |next| (next.first - from) as usize);
        self.ways[first..end].fill(NONE);
    }

    /// Whether a rule matches by what is known of the others; that is noted.
    fn settle(&mut self, rule: RuleIx) -> bool {
        let ok = self.reaches(self.solver.starts[rule.0 as usize]) && self.solver.has_parts(rule);
        self.solver.rule_ok[rule.0 as usize] = ok;
        ok
    }

    /// Whether all rules on the way from a state match for sure.
    fn reaches(&self, start: NfaId) -> bool {
        let mut way = self.from(start);
        // Ways that were found anew could lead round in a circle.
        for _ in 0..=self.ways.len() {
            let (State::Call { rule, to, .. } | State::CallFresh { rule, to, .. }) =
                self.solver.nfa.state(way)
            else {
                break;
            };
            if !self.solver.rule_ok[rule.0 as usize] {
                return false;
            }
            way = self.from(to);
        }
        way == FREE
    }
}

#[cfg(test)]
mod tests {
    use super::super::nfa::Nfa;
    use super::*;
    use crate::constraint::testing::Random;

    /// A program of some rules, each a block of states made after those they lead to, but for loops.
    fn program(random: &mut Random, known: usize) -> (Nfa, Vec<NfaId>, Vec<Block>) {
        let mut nfa = Nfa::default();
        let count = 1 + random.below(5);
        let (mut starts, mut blocks) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let first = nfa.len() as NfaId;
            blocks.push(Block { first, trimmed: false });
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
                    5 | 6 => State::Call { rule, register: 0, to },
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
            // The first rules stand for those decided earlier.
            let known = &[true, true, false][..random.below(4)];
            let (nfa, mut starts, blocks) = program(&mut random, known.len());
            starts.splice(..0, known.iter().map(|&ok| if ok { ACCEPT } else { DEAD }));
            let mut quick = Liveness::new(&nfa, &starts, &[], 2, known);
            let all = everything(&mut quick, &blocks, known.len());
            let mut slow = Liveness::new(&nfa, &starts, &[], 2, known);
            slow.search(known.len());
            let live = |s: NfaId| slow.live[s as usize - 2] || nfa.state(s) == State::Dead;
            let whole = slow.rule_ok[known.len()..].iter().all(|&ok| ok) && (2..nfa.len() as NfaId).all(live);
            assert!(!all || whole, "{nfa:?} {starts:?}");
            match (all, whole) {
                (true, _) => sure += 1,
                (false, true) => missed += 1,
                _ => other += 1,
            }
        }
        // Few are left to the search for nothing.
        assert!(sure > 1_000 && other > 1_000 && missed * 50 < sure, "{sure} {missed} {other}");
    }

    /// A list: `a`, then a list or nothing. The first of the two leads round in a circle.
    #[test]
    fn recursion_with_an_end_is_sure() {
        let mut nfa = Nfa::default();
        let first = nfa.len() as NfaId;
        let call = nfa.push(State::Call { rule: RuleIx(0), register: 0, to: ACCEPT }, 0);
        let either = nfa.push(State::Union(&[call, ACCEPT]), 0);
        let start = nfa.push(State::Byte { lo: b'a', hi: b'a', to: either }, 0);
        let endless = nfa.push(State::Byte { lo: b'a', hi: b'a', to: call }, 0);
        let blocks = [Block { first, trimmed: false }];
        for (start, sure) in [(start, true), (endless, false)] {
            let starts = [start];
            let mut solver = Liveness::new(&nfa, &starts, &[], first, &[]);
            assert_eq!(everything(&mut solver, &blocks, 0), sure);
        }
    }
}
