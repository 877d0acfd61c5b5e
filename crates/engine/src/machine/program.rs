//! A lowered constraint as data: rules, registers and one arena of states.
//!
//! The parts of this crate that build it are above this file: `lower` makes the rules of nodes, and
//! `compile` puts a program together and checks it. The parts that run it take its fields.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::constraint::Policy;
use crate::constraint::ir::{NodeId, ToolSchema};

use super::alphabet::Alphabet;
use super::intern::Interner;
use super::lazy_dfa::LazyDfa;
use super::liveness::{Liveness, StateRange, trim};
use super::lower_regular::Value;
use super::nfa::{Nfa, NfaId, RegisterIx, RuleIx};
use super::register::Register;

/// A lowered constraint. A program that others extend (see [`Program::base`]) keeps its ids in the
/// extension.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(super) nfa: Nfa,
    /// Deterministic states made so far.
    pub(super) dfa: LazyDfa,
    /// Start state of each rule.
    pub(super) starts: Vec<NfaId>,
    pub(super) registers: Vec<Register>,
    /// Rules that can match; the others are never called.
    pub(super) rule_ok: Vec<bool>,
    /// Rule and register of the whole output.
    pub(super) root: (RuleIx, RegisterIx),
    /// True if the rules outside of the base call nothing.
    pub(super) flat: bool,
    /// The nodes of a base, and the rules of those that are values.
    pub(super) interner: Arc<Interner>,
    pub(super) rule_of_node: Arc<FxHashMap<NodeId, Value>>,
    pub(super) alphabet: Arc<Alphabet>,
    pub(super) policy: Policy,
    /// Tools whose schemas turned out to allow nothing.
    pub(super) lost_tools: Vec<ToolSchema>,
}

/// The rule of a plain JSON string.
pub(super) const STRING: RuleIx = RuleIx(0);
/// The rule of any JSON value.
pub(super) const ANY: RuleIx = RuleIx(1);
/// The rule of a string without white space, which nothing calls: see
/// [`Automaton::unspaced_interior`](super::automaton::Automaton::unspaced_interior).
pub(super) const UNSPACED: RuleIx = RuleIx(2);
/// The rule of an object with any properties.
pub(super) const ANY_OBJECT: RuleIx = RuleIx(3);
/// A register that counts characters without a bound, for masks that depend on the count.
pub(super) const COUNTING: RegisterIx = 1;
/// A register for objects that remember only undeclared names.
pub(super) const MEMBERS: RegisterIx = 2;
/// A register for names of objects without declared ones.
pub(super) const FRESH: RegisterIx = 3;

impl Program {
    /// Returns the minimum number of bytes after a comma or a colon.
    pub(super) fn min_separator_bytes(&self) -> u32 {
        self.policy.whitespace.min_separator_bytes()
    }

    /// Makes every deterministic state of a base, so that extensions share them.
    pub(crate) fn determinise(&mut self) {
        for &start in &self.starts {
            self.dfa.start(&self.nfa, start);
        }
        let mut next = 0;
        while next < self.dfa.len() {
            self.dfa.ranges(&self.nfa, next as u32);
            for call in self.dfa.state(next as u32).calls.clone().iter() {
                self.dfa.start(&self.nfa, call.to());
            }
            next += 1;
        }
        self.dfa.freeze();
    }

    /// Returns the bytes of the automaton and its deterministic states.
    pub(crate) fn bytes(&self) -> usize {
        let registers = self.registers.iter().map(|r| size_of::<Register>() + r.bytes());
        self.nfa.bytes() + self.starts.len() * 4 + registers.sum::<usize>() + self.dfa.base_bytes()
    }

    /// Returns the tools whose schemas turned out to allow nothing.
    pub(crate) fn lost_tools(&self) -> &[ToolSchema] {
        &self.lost_tools
    }

    /// Returns the number of deterministic states.
    pub(crate) fn dfa_len(&self) -> usize {
        self.dfa.len()
    }

    /// Decides liveness again, after something was found that cannot match.
    pub(super) fn recompute_liveness(&mut self, first_state: NfaId, first_rule: usize) {
        self.rule_ok.truncate(first_rule);
        self.finish(first_state, first_rule, None);
    }

    /// Decides liveness of the new states, trims them, and notes the rules that can match. `blocks`
    /// are the states as they were made, or `None` if some were replaced.
    pub(super) fn finish(&mut self, first_state: NfaId, first_rule: usize, blocks: Option<&[StateRange]>) {
        let known = &self.rule_ok[..first_rule];
        let solver = Liveness::solve(&self.nfa, &self.starts, &self.registers, first_state, known, blocks);
        let ok =
            (first_rule..self.starts.len()).map(|r| solver.matches(RuleIx(r as u32))).collect::<Vec<_>>();
        let (live, changed) = solver.result();
        trim(&mut self.nfa, first_state, &live);
        for (register, new) in changed {
            self.registers[register as usize] = new;
        }
        self.rule_ok.extend(ok);
    }
}
