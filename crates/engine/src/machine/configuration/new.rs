//! Construction and reset of a machine, and its memory.
//!
//! The tables of a machine only grow, because generations hold their numbers. So they are never
//! trimmed but begun anew. The program is shared between a machine and its successor.
//!
//! # Cost
//!
//! A copy of the tables of the states of the base.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::lazy_dfa::LazyDfa;
use super::super::lower::Program;
use super::super::nfa::Nfa;
use super::super::register::Register;
use super::{Config, DEAD_CONFIG, Frame, Machine, NfaId, ROOT_STACK, RegisterIx, RuleIx, Thread};
use crate::machine::properties::seen_names::{NO_TEXT, SeenNames, WholeStrings};
use crate::machine::unique_items::Distinct;

/// The automaton of a program, which never changes.
type Fixed = (Arc<Nfa>, Arc<[NfaId]>, Arc<[Register]>);

impl Machine {
    /// Creates a machine at the start of `program`; `shown` are the quoted texts inside single
    /// tokens.
    pub fn new(program: Program, shown: Arc<WholeStrings>) -> Self {
        let gap = program.min_separator_bytes();
        let fixed = (Arc::new(program.nfa), program.starts.into(), program.registers.into());
        Machine::started(fixed, (program.root, program.flat, gap), program.dfa, SeenNames::new(shown))
    }

    /// Creates an empty machine for the same program.
    pub fn emptied(&self) -> Self {
        let fixed = (self.nfa.clone(), self.starts.clone(), self.registers.clone());
        Machine::started(
            fixed,
            (self.root, self.calls_nothing, self.min_separator_bytes),
            self.dfa.renewed(),
            self.seen_names.renewed(),
        )
    }

    fn started(
        (nfa, starts, registers): Fixed,
        (root, flat, gap): ((RuleIx, RegisterIx), bool, u32),
        dfa: LazyDfa,
        written: SeenNames,
    ) -> Self {
        let is_set = |r: &Register| matches!(r, Register::Members(members) if members.set);
        let empty: Arc<[Thread]> = Arc::from([]);
        let no_frames: Arc<[Frame]> = Arc::from([]);
        let mut machine = Machine {
            sets: registers.iter().any(is_set),
            nfa,
            starts,
            registers,
            root,
            dfa,
            seen_names: written,
            tracking: false,
            here: NO_TEXT,
            distinct: Distinct::default(),
            stacks: vec![no_frames.clone(), no_frames],
            stack_index: FxHashMap::default(),
            configs: vec![Config { threads: empty.clone(), ended: false, text: NO_TEXT }],
            config_index: FxHashMap::from_iter([((empty, false, NO_TEXT), DEAD_CONFIG)]),
            initial: DEAD_CONFIG,
            calls_nothing: flat,
            min_separator_bytes: gap,
            heap: 0,
            todo: Vec::new(),
            calls: Vec::new(),
            met: FxHashSet::default(),
            popped: FxHashSet::default(),
            least: None,
        };
        machine.prepare_distinct();
        let reached = machine.at_start(root, ROOT_STACK);
        machine.initial = machine.intern(&reached);
        machine
    }

    /// Returns the bytes that copies of the machine share.
    pub fn fixed_bytes(&self) -> usize {
        let registers = self.registers.iter().map(|r| size_of::<Register>() + r.bytes());
        self.nfa.bytes() + self.starts.len() * 4 + registers.sum::<usize>()
    }

    /// Returns the bytes of what was met so far: states, stacks, configurations, names.
    pub fn bytes(&self) -> usize {
        let stacks = self.stacks.capacity() * 16 + self.stack_index.capacity() * 24;
        let least = self.least.as_ref().map_or(0, |least| least.bytes());
        let configs = self.configs.capacity() * size_of::<Config>() + self.config_index.capacity() * 32;
        self.dfa.bytes()
            + self.seen_names.table_bytes()
            + self.distinct.bytes()
            + stacks
            + configs
            + least
            + self.heap
    }
}
