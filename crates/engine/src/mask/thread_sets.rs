//! Interned sets of threads with memoised steps: subset construction for walks in ambiguous
//! grammars.
//!
//! In such a grammar a node of the trie has dozens or hundreds of threads, and a byte enters and
//! leaves rules for each of them. But the sets repeat in other branches of the trie, and in the
//! walks of other states and returns. So a set is interned, and the step of each byte is
//! remembered. Bytes of one class do the same to each thread, so the closure after the step is
//! remembered, too.
//!
//! A set may loop: after every byte of some groups all of its threads are there again, with others
//! or without, as inside a name. All tokens of such bytes are legal there, and the walk accepts
//! whole subtrees of them.
//!
//! # Cost
//!
//! A table lookup for each node of the trie, and a step of all threads for each set and class of
//! bytes. Small sets are faster without, unless a walk visits many nodes.
//!
//! # Alternatives considered
//!
//! Interning the sets as configurations of the machine: those live as long as the tables, and a
//! walk tries many more than any output takes.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::byte_set::ByteSet;
use crate::machine::{StackMachine, StepResult, TRIED, Thread};
use crate::vocab::byte_group;

/// Up to this number, threads are stepped anew at each node of a small walk.
pub(super) const MIN_SET_SIZE: usize = 6;
/// Number of trie nodes below the visits of a set from which on its loops are computed.
const LOOPS_AFTER_NODES: u32 = if cfg!(test) { 30 } else { 1_000 };
/// Maximum number of threads of a set whose loops are computed.
const MAX_LOOPING: usize = 64;
/// Maximum number of bytes held during a walk. Beyond it, sets are stepped anew at each node.
const MAX_BYTES: usize = 64 << 20;
/// Maximum number of bytes held between walks.
const MAX_KEPT: usize = 16 << 20;

/// Index of a set of threads.
pub(super) type ThreadSetId = u32;

/// The result of a byte.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// The threads; `None` if there are none left.
    pub to: Option<ThreadSetId>,
    /// True if the root rule has matched.
    pub ended: bool,
    /// The register value of the rule above the unknown stack, if that rule has matched.
    pub exit: Option<u32>,
}

impl Step {
    /// Nothing is left.
    const DEAD: Step = Step { to: None, ended: false, exit: None };
}

#[derive(Debug)]
struct ThreadSet {
    threads: Arc<[Thread]>,
    /// The bytes that some thread accepts.
    live: ByteSet,
    /// Number of trie nodes below the visits so far.
    nodes: u32,
    /// The groups (see [`byte_group`]) after all of whose bytes these threads are there again.
    loops: Option<u16>,
}

/// In place of the index of a step.
const NOT_MADE: u32 = u32::MAX;

/// All sets met so far.
#[derive(Debug)]
pub(super) struct ThreadSets {
    list: Vec<ThreadSet>,
    index: FxHashMap<Arc<[Thread]>, ThreadSetId>,
    /// The steps met so far. The first one leads nowhere.
    steps: Vec<Step>,
    /// For each set and byte the index of its step, or [`NOT_MADE`].
    rows: Vec<u32>,
    /// Steps by the threads right after the byte, before they enter and leave rules.
    entered: FxHashMap<Box<[Thread]>, u32>,
    bytes: usize,
    /// Maximum number of bytes held during a walk.
    room: usize,
    raw: Vec<Thread>,
    reached: StepResult,
}

impl Default for ThreadSets {
    fn default() -> Self {
        ThreadSets::new(MAX_BYTES)
    }
}

impl ThreadSets {
    /// Creates an empty table with room for this number of bytes.
    pub(super) fn new(room: usize) -> Self {
        ThreadSets {
            list: Vec::new(),
            index: FxHashMap::default(),
            steps: vec![Step::DEAD],
            rows: Vec::new(),
            entered: FxHashMap::default(),
            bytes: 0,
            room,
            raw: Vec::new(),
            reached: StepResult::default(),
        }
    }

    /// Empties the table after a walk if it holds too much.
    pub(super) fn trim(&mut self) {
        if self.bytes > MAX_KEPT {
            *self = ThreadSets::new(self.room);
        }
    }

    /// Returns the id of a set, or `None` if there is no room.
    pub(super) fn of(&mut self, machine: &mut StackMachine, threads: &[Thread]) -> Option<ThreadSetId> {
        (!self.is_full()).then(|| self.intern(machine, threads))
    }

    /// Returns the threads of a set.
    pub(super) fn threads(&self, id: ThreadSetId) -> &[Thread] {
        &self.list[id as usize].threads
    }

    /// Returns the bytes that some thread of a set accepts.
    pub(super) fn live(&self, id: ThreadSetId) -> ByteSet {
        self.list[id as usize].live
    }

    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if nothing more may be added.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= self.room
    }

    /// Returns the step of a byte.
    #[inline]
    pub(super) fn step(&mut self, machine: &mut StackMachine, id: ThreadSetId, byte: u8) -> Step {
        match self.rows[id as usize * 256 + byte as usize] {
            NOT_MADE => self.step_anew(machine, id, byte),
            step => self.steps[step as usize],
        }
    }

    /// Returns the groups of bytes that lead back to a set, if they are worth their cost. The set
    /// is visited above this number of trie nodes.
    #[inline]
    pub(super) fn loops(&mut self, machine: &mut StackMachine, id: ThreadSetId, nodes: u32) -> u16 {
        let set = &mut self.list[id as usize];
        if let Some(loops) = set.loops {
            return loops;
        }
        set.nodes = set.nodes.saturating_add(nodes);
        if set.nodes < LOOPS_AFTER_NODES || set.threads.len() > MAX_LOOPING {
            0
        } else {
            self.find_loops(machine, id)
        }
    }

    fn find_loops(&mut self, machine: &mut StackMachine, id: ThreadSetId) -> u16 {
        let mut loops = u16::MAX;
        let mut known = None;
        for byte in 0..=255 {
            let group = byte_group(byte);
            if loops & group == 0 {
                continue;
            }
            let to = self.step(machine, id, byte).to;
            if known.is_some() && known == to {
                continue;
            }
            match to.is_some_and(|to| self.holds(to, id)) {
                true => known = to,
                false => loops &= !group,
            }
        }
        self.list[id as usize].loops = Some(loops);
        loops
    }

    /// Returns true if a set has all threads of another one.
    fn holds(&self, all: ThreadSetId, some: ThreadSetId) -> bool {
        let mut rest = self.threads(all).iter();
        self.threads(some).iter().all(|thread| rest.any(|other| other == thread))
    }

    fn step_anew(&mut self, machine: &mut StackMachine, id: ThreadSetId, byte: u8) -> Step {
        let threads = self.list[id as usize].threads.clone();
        self.raw.clear();
        for thread in threads.iter() {
            let to = machine.local.step(thread.local, byte, TRIED);
            self.raw.extend(to.map(|local| Thread { local, ..*thread }));
        }
        let step = match self.entered.get(&*self.raw) {
            _ if self.raw.is_empty() => 0,
            Some(&step) => step,
            None => {
                let mut reached = std::mem::take(&mut self.reached);
                machine.closure_after_step(&self.raw, TRIED, &mut reached);
                let to = (!reached.threads.is_empty()).then(|| self.intern(machine, &reached.threads));
                self.steps.push(Step { to, ended: reached.ended, exit: reached.exit });
                self.reached = reached;
                self.bytes += size_of_val(&*self.raw) + size_of::<(Box<[Thread]>, u32)>() + size_of::<Step>();
                let step = self.steps.len() as u32 - 1;
                self.entered.insert(self.raw.as_slice().into(), step);
                step
            }
        };
        self.rows[id as usize * 256 + byte as usize] = step;
        self.steps[step as usize]
    }

    pub(super) fn intern(&mut self, machine: &mut StackMachine, threads: &[Thread]) -> ThreadSetId {
        if let Some(&id) = self.index.get(threads) {
            return id;
        }
        let mut live = ByteSet::default();
        threads.iter().for_each(|t| live = live.or(&machine.local.automaton.live_bytes(t.local.state)));
        let threads: Arc<[Thread]> = threads.into();
        let id = self.list.len() as ThreadSetId;
        self.bytes += size_of_val(&*threads)
            + size_of::<ThreadSet>()
            + size_of::<(Arc<[Thread]>, ThreadSetId)>()
            + 256 * size_of::<u32>();
        self.rows.resize(self.rows.len() + 256, NOT_MADE);
        self.list.push(ThreadSet { threads: threads.clone(), live, nodes: 0, loops: None });
        self.index.insert(threads, id);
        id
    }
}
