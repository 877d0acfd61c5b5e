//! Interned sets of threads with memoised steps: subset construction for walks in ambiguous
//! grammars.
//!
//! In such a grammar a node of the trie has dozens or hundreds of threads, and a byte enters and
//! leaves rules for each of them. But the sets repeat in other branches of the trie, and in the
//! walks of other states and returns. So a set is interned, and the step of each byte is
//! remembered. Bytes of one class do the same to each thread, so the closure after the step is
//! remembered, too.
//!
//! # Cost
//!
//! A hash lookup for each node of the trie, and a step of all threads for each set and class of
//! bytes. Sets of up to [`MIN_SET_SIZE`] threads are faster without.
//!
//! # Alternatives considered
//!
//! Interning the sets as configurations of the machine: those live as long as the tables, and a
//! walk tries many more than any output takes.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::byte_set::ByteSet;
use crate::machine::{StackMachine, StepResult, TRIED, Thread};

/// Up to this number, threads are stepped anew at each node.
pub(super) const MIN_SET_SIZE: usize = 6;
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

#[derive(Debug)]
struct ThreadSet {
    threads: Arc<[Thread]>,
    /// The bytes that some thread accepts.
    live: ByteSet,
}

/// All sets met so far.
#[derive(Debug)]
pub(super) struct ThreadSets {
    list: Vec<ThreadSet>,
    index: FxHashMap<Arc<[Thread]>, ThreadSetId>,
    steps: FxHashMap<(ThreadSetId, u8), Step>,
    /// Steps by the threads right after the byte, before they enter and leave rules.
    entered: FxHashMap<Box<[Thread]>, Step>,
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
            steps: FxHashMap::default(),
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

    /// Returns the id of a set, or `None` if it is small or there is no room.
    pub(super) fn of(&mut self, machine: &mut StackMachine, threads: &[Thread]) -> Option<ThreadSetId> {
        (threads.len() > MIN_SET_SIZE && !self.is_full()).then(|| self.intern(machine, threads))
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
        match self.steps.get(&(id, byte)) {
            Some(&step) => step,
            None => self.step_anew(machine, id, byte),
        }
    }

    fn step_anew(&mut self, machine: &mut StackMachine, id: ThreadSetId, byte: u8) -> Step {
        let threads = self.list[id as usize].threads.clone();
        self.raw.clear();
        for thread in threads.iter() {
            let to = machine.local.step(thread.local, byte, TRIED);
            self.raw.extend(to.map(|local| Thread { local, ..*thread }));
        }
        let step = match self.entered.get(&*self.raw) {
            Some(&step) => step,
            None => {
                let mut reached = std::mem::take(&mut self.reached);
                machine.closure_after_step(&self.raw, TRIED, &mut reached);
                let to = (!reached.threads.is_empty()).then(|| self.intern(machine, &reached.threads));
                let step = Step { to, ended: reached.ended, exit: reached.exit };
                self.reached = reached;
                self.bytes += size_of_val(&*self.raw) + size_of::<(Box<[Thread]>, Step)>();
                self.entered.insert(self.raw.as_slice().into(), step);
                step
            }
        };
        self.bytes += size_of::<((ThreadSetId, u8), Step)>();
        self.steps.insert((id, byte), step);
        step
    }

    fn intern(&mut self, machine: &mut StackMachine, threads: &[Thread]) -> ThreadSetId {
        if let Some(&id) = self.index.get(threads) {
            return id;
        }
        let mut live = ByteSet::default();
        threads.iter().for_each(|t| live = live.or(&machine.local.automaton.live_bytes(t.local.state)));
        let threads: Arc<[Thread]> = threads.into();
        let id = self.list.len() as ThreadSetId;
        self.bytes +=
            size_of_val(&*threads) + size_of::<ThreadSet>() + size_of::<(Arc<[Thread]>, ThreadSetId)>();
        self.list.push(ThreadSet { threads: threads.clone(), live });
        self.index.insert(threads, id);
        id
    }
}
