//! The walk of the byte trie that finds the tokens that a state allows.
//!
//! It is one loop over depth-first arrays: test the byte of a node, descend on success, jump over
//! the subtree on failure. Of a node with many children, only those are visited whose byte a thread
//! accepts, because skipping the others would take most of the time.
//!
//! The walk starts from threads on an unknown stack
//! ([`UNKNOWN_STACK`](crate::machine::UNKNOWN_STACK)). Where the rule ends, the node is noted as an
//! *exit*. What follows an exit is computed elsewhere, once for all stacks. On the stack of the
//! root rule ([`ROOT_STACK`]) nothing follows.
//!
//! # Cost
//!
//! A few nanoseconds for each tested node while one thread is alive and no rule is entered or left.
//! A walk that enters and leaves rules at many nodes goes over to interned sets of threads (see
//! [`thread_sets`](super::thread_sets)), and then costs about the same again.

use super::thread_sets::{MIN_SET_SIZE, ThreadSetId, ThreadSets};
use crate::byte_set::ByteSet;
use crate::machine::{LocalState, PendingCall, ROOT_STACK, StackMachine, StepResult, TRIED, Thread};
use crate::vocab::{TokenId, Trie, TrieNode, byte_group};

/// The result of a walk. The numbers are register values: characters so far, where they are
/// counted.
#[derive(Debug, Default)]
pub(super) struct WalkResult {
    /// Tokens that end inside the rule.
    pub tokens: Vec<(TokenId, u32)>,
    /// Nodes at which the rule ends.
    pub exits: Vec<(TrieNode, u32)>,
    /// Nodes at and below which all tokens end inside the rule. They are not in `tokens`. Only walks
    /// that report legality find such nodes.
    pub subtrees: Vec<TrieNode>,
    /// Number of tokens below these nodes.
    below_subtrees: usize,
    /// Calls that were not entered, and the nodes at which they are made. Only walks that report
    /// legality find such calls.
    pub calls: Vec<(TrieNode, PendingCall)>,
}

impl WalkResult {
    /// Returns the number of tokens that end inside the rule.
    fn len(&self) -> usize {
        self.tokens.len() + self.below_subtrees
    }

    /// Sets the bits of the tokens that end inside the rule, which were found in `trie`.
    pub(super) fn set_bits(&self, trie: &Trie, row: &mut [u32]) {
        let below = self.subtrees.iter().flat_map(|&node| trie.tokens_below(node));
        for &t in self.tokens.iter().map(|t| &t.0).chain(below) {
            row[t as usize / 32] |= 1 << (t % 32);
        }
    }
}

/// What a walk visits and reports.
#[derive(Debug, Clone, Copy)]
pub(super) struct WalkOptions {
    /// Tokens that this filter excludes may be passed over.
    pub need: ByteFilter,
    /// So may tokens that start with this byte.
    pub skip: Option<u8>,
    /// True if exits above legal tokens only may be left out, and the numbers of characters do not
    /// matter.
    pub only_legality: bool,
    /// True if calls may be left to the caller of the walk.
    pub leave_calls: bool,
}

impl WalkOptions {
    /// Everything is visited and reported.
    pub(super) const ALL: WalkOptions =
        WalkOptions { need: ByteFilter::NOTHING, skip: None, only_legality: false, leave_calls: false };
    /// Everything that decides whether tokens are legal.
    pub(super) const LEGALITY: WalkOptions = WalkOptions { only_legality: true, ..WalkOptions::ALL };
}

/// A necessary condition of legal tokens: one of at most `reach` bytes has a byte of these groups.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByteFilter {
    pub groups: u16,
    pub reach: u32,
}

impl ByteFilter {
    /// The filter that all tokens pass.
    pub(super) const NOTHING: ByteFilter = ByteFilter { groups: u16::MAX, reach: u32::MAX };
}

/// A subtree that is being walked.
struct WalkLevel {
    /// One past its last node.
    end: TrieNode,
    /// The next child, where there is no list of children.
    next: TrieNode,
    /// The list of children, or [`NO_CHILD_LIST`], and the bytes of those that are left.
    fan: u32,
    rest: ByteSet,
    /// Byte groups of which a token must still have one.
    need: u16,
    /// Start of its threads in the pool, or [`SINGLE_THREAD`], or [`THREAD_SET`].
    from: usize,
    /// The set of its threads, if `from` is [`THREAD_SET`].
    thread_set: ThreadSetId,
    /// The only thread. Most walks never have another and need no pool.
    one: Thread,
    /// Groups of bytes of which all tokens below are legal.
    loops: u16,
    /// Index of the exit at the node above, or [`NO_EXIT`], and the number of tokens found before
    /// that node.
    exit: u32,
    before: u32,
}

/// In place of a list: the children are skipped one by one.
const NO_CHILD_LIST: u32 = u32::MAX;
/// In place of an index: there is one thread, and it is in the level.
const SINGLE_THREAD: usize = usize::MAX;
/// In place of an index: the threads are an interned set.
const THREAD_SET: usize = usize::MAX - 1;
/// In place of an index: the rule does not end at the node.
const NO_EXIT: u32 = u32::MAX;
/// In place of an interned set: it is not known yet.
const NO_SET: ThreadSetId = ThreadSetId::MAX;
/// Number of tokens below a node from which on calls at it may be left to the caller of the walk.
pub(super) const WIDE_FROM: usize = if cfg!(test) { 10 } else { 500 };
/// Number of these tokens that the called rules may begin with, from which on they are.
pub(super) const CALLED_FROM: usize = if cfg!(test) { 40 } else { 8_000 };
/// Number of nodes with several threads, or where a rule is entered or left, from which on a walk
/// interns all sets of threads.
const INTERN_AFTER_NODES: u32 = if cfg!(test) { 8 } else { 96 };

/// Buffers of a walk, kept between walks.
#[derive(Default)]
pub(super) struct Walker {
    pool: Vec<Thread>,
    levels: Vec<WalkLevel>,
    reached: StepResult,
    thread_sets: ThreadSets,
    /// Nodes of this walk at which threads were stepped without an interned set.
    stepped: u32,
    only_legality: bool,
    leaves_calls: bool,
}

impl Walker {
    /// Creates a walker that remembers at most this number of bytes of thread sets.
    #[cfg(test)]
    pub(super) fn with_room(room: usize) -> Self {
        Walker { thread_sets: ThreadSets::new(room), ..Walker::default() }
    }

    /// Walks the node `top` and those below it; `threads` are at its parent.
    pub(super) fn walk_from(
        &mut self,
        machine: &mut StackMachine,
        trie: &Trie,
        top: TrieNode,
        threads: &[Thread],
        options: WalkOptions,
        found: &mut WalkResult,
    ) {
        self.begin(options);
        let level = self.level(machine, trie, 0, threads, options.need.groups);
        let level = WalkLevel { end: trie.end(top), next: top, fan: NO_CHILD_LIST, ..level };
        self.run(machine, trie, level, options.need.reach, found);
    }

    /// Walks the nodes strictly below `top`, where `threads` are.
    pub(super) fn walk_below(
        &mut self,
        machine: &mut StackMachine,
        trie: &Trie,
        top: TrieNode,
        threads: &[Thread],
        options: WalkOptions,
        found: &mut WalkResult,
    ) {
        self.begin(options);
        let mut level = self.level(machine, trie, top, threads, options.need.groups);
        match options.skip {
            Some(byte) if level.fan != NO_CHILD_LIST => level.rest.remove(byte),
            Some(byte) => {
                for child in trie.children(top).filter(|&child| trie.byte(child) != byte) {
                    self.walk_from(machine, trie, child, threads, options, found);
                }
                return;
            }
            None => {}
        }
        self.run(machine, trie, level, options.need.reach, found);
    }

    fn begin(&mut self, options: WalkOptions) {
        self.pool.clear();
        self.levels.clear();
        self.stepped = 0;
        self.only_legality = options.only_legality;
        self.leaves_calls = options.leave_calls;
    }

    /// Returns the bytes held between walks.
    pub(super) fn bytes(&self) -> usize {
        self.thread_sets.bytes()
    }

    /// Walks what is left of a level, and everything below.
    fn run(
        &mut self,
        machine: &mut StackMachine,
        trie: &Trie,
        mut level: WalkLevel,
        reach: u32,
        found: &mut WalkResult,
    ) {
        loop {
            let Some(p) = level.next_child(trie) else {
                if level.from < THREAD_SET {
                    self.pool.truncate(level.from);
                }
                if level.exit != NO_EXIT && self.only_legality {
                    drop_useless_exit(trie, &level, found);
                }
                let Some(above) = self.levels.pop() else { break };
                level = above;
                continue;
            };
            let groups = trie.groups(p);
            if groups & level.need == 0 && trie.depth(p) + trie.height(p) <= reach as usize {
                continue;
            }
            if groups & !level.loops == 0 {
                found.subtrees.push(p);
                found.below_subtrees += trie.tokens_below(p).len();
                continue;
            }
            let byte = trie.byte(p);
            #[cfg(test)]
            crate::fault::pass(crate::fault::Point::Walk);
            // Once such a byte is on the path, every token below has it.
            let need = if byte_group(byte) & level.need != 0 { u16::MAX } else { level.need };
            if level.from == SINGLE_THREAD {
                let stack = level.one.stack;
                let Some(local) = machine.local.step(level.one.local, byte, TRIED) else { continue };
                if machine.local.automaton.stays_in_rule(local.state, stack) {
                    found.tokens.extend(trie.tokens_at(p).iter().map(|&t| (t, local.n)));
                    if trie.end(p) > p + 1 {
                        let below = self.level(machine, trie, p, &[Thread { local, stack }], need);
                        // A finished level need not be kept: most nodes have one child.
                        match level.is_finished() {
                            true => level = below,
                            false => self.levels.push(std::mem::replace(&mut level, below)),
                        }
                    }
                    continue;
                }
                if self.interns_all() && level.thread_set == NO_SET {
                    level.thread_set = self.thread_sets.of(machine, &[level.one]).unwrap_or(NO_SET);
                }
            }
            let below = match level.thread_set != NO_SET && !self.thread_sets.is_full() {
                true => self.step_set(machine, trie, (p, need), &level, found),
                false => self.step_threads(machine, trie, (p, need), &level, found),
            };
            if let Some(below) = below {
                self.levels.push(std::mem::replace(&mut level, below));
            }
        }
        self.thread_sets.trim();
        if self.only_legality {
            found.exits.retain(|exit| exit.0 != USELESS);
        }
    }

    /// Steps the interned set of a level to the node `p`. Returns the level below it, if there is
    /// more to walk.
    fn step_set(
        &mut self,
        machine: &mut StackMachine,
        trie: &Trie,
        (p, need): (TrieNode, u16),
        level: &WalkLevel,
        found: &mut WalkResult,
    ) -> Option<WalkLevel> {
        let byte = trie.byte(p);
        let step = self.thread_sets.step(machine, level.thread_set, byte);
        let threads = step.to.map_or(&[][..], |to| self.thread_sets.threads(to));
        let (exit, before) = self.note_step(trie, p, threads, (step.exit, step.ended), found)?;
        let mut to = step.to?;
        if self.leaves_calls && trie.tokens_below(p).len() >= WIDE_FROM {
            let mut threads = self.thread_sets.threads(to).to_vec();
            if self.leave_calls(machine, trie, p, level, &mut threads, found) {
                to = self.thread_sets.intern(machine, &threads);
            }
        }
        let below = self.level_of(machine, trie, p, to, need);
        // After a byte of a loop, the threads of the loop are still there. Two loops do not add up:
        // a string with bytes of both may leave each of them.
        let kept = if byte_group(byte) & level.loops != 0 { level.loops } else { 0 };
        Some(WalkLevel { exit, before, loops: wider(below.loops, kept), ..below })
    }

    /// Steps the threads of a level to the node `p`, without interned sets.
    fn step_threads(
        &mut self,
        machine: &mut StackMachine,
        trie: &Trie,
        (p, need): (TrieNode, u16),
        level: &WalkLevel,
        found: &mut WalkResult,
    ) -> Option<WalkLevel> {
        self.stepped += 1;
        let mut reached = std::mem::take(&mut self.reached);
        machine.step(self.threads(level), trie.byte(p), TRIED, &mut reached);
        let mut threads = std::mem::take(&mut reached.threads);
        let noted = self.note_step(trie, p, &threads, (reached.exit, reached.ended), found);
        self.reached = reached;
        let below = noted.map(|(exit, before)| {
            if self.leaves_calls && trie.tokens_below(p).len() >= WIDE_FROM {
                self.leave_calls(machine, trie, p, level, &mut threads, found);
            }
            WalkLevel { exit, before, ..self.level(machine, trie, p, &threads, need) }
        });
        self.reached.threads = threads;
        below
    }

    /// Notes the tokens and the exit at the node `p`, where some threads are. Returns the index of
    /// the exit and the number of tokens found before, if there is more to walk below.
    #[inline]
    fn note_step(
        &self,
        trie: &Trie,
        p: TrieNode,
        threads: &[Thread],
        (exit, ended): (Option<u32>, bool),
        found: &mut WalkResult,
    ) -> Option<(u32, u32)> {
        let before = found.len() as u32;
        let index = if exit.is_some() { found.exits.len() as u32 } else { NO_EXIT };
        let is_leaf = trie.end(p) == p + 1;
        // All tokens at a leaf are legal if threads are left.
        if !(is_leaf && self.only_legality && !threads.is_empty()) {
            found.exits.extend(exit.map(|n| (p, n)));
        }
        if !threads.is_empty() || ended {
            let n = if let [one] = threads { one.local.n } else { 0 };
            found.tokens.extend(trie.tokens_at(p).iter().map(|&t| (t, n)));
        }
        (!threads.is_empty() && !is_leaf).then_some((index, before))
    }

    /// Returns the threads of a level.
    fn threads<'a>(&'a self, level: &'a WalkLevel) -> &'a [Thread] {
        match level.from {
            SINGLE_THREAD => std::slice::from_ref(&level.one),
            THREAD_SET => self.thread_sets.threads(level.thread_set),
            from => &self.pool[from..],
        }
    }

    /// Leaves the calls that are made at `p`, if the called rules have many tokens there. Then
    /// `threads` become those that have entered no rule at `p`.
    fn leave_calls(
        &mut self,
        machine: &mut StackMachine,
        trie: &Trie,
        p: TrieNode,
        above: &WalkLevel,
        threads: &mut Vec<Thread>,
        found: &mut WalkResult,
    ) -> bool {
        let all = tokens_after(machine, trie, p, threads);
        if all < CALLED_FROM {
            return false;
        }
        let mut reached = std::mem::take(&mut self.reached);
        let calls = machine.step_to_calls(self.threads(above), trie.byte(p), TRIED, &mut reached);
        self.reached = reached;
        if calls.is_empty() || all - tokens_after(machine, trie, p, &self.reached.threads) < CALLED_FROM {
            return false;
        }
        threads.clear();
        threads.extend_from_slice(&self.reached.threads);
        found.calls.extend(calls.iter().map(|&call| (p, call)));
        true
    }

    /// Returns true if this walk interns all sets of threads.
    fn interns_all(&self) -> bool {
        self.stepped >= INTERN_AFTER_NODES
    }

    /// Returns the level of the children of `p`. The threads are at `p`; several go to the pool. Of
    /// a list of children, only those are left whose byte a thread accepts.
    #[inline]
    fn level(
        &mut self,
        machine: &mut StackMachine,
        trie: &Trie,
        p: TrieNode,
        threads: &[Thread],
        need: u16,
    ) -> WalkLevel {
        let many = threads.len() > MIN_SET_SIZE || threads.len() > 1 && self.interns_all();
        if let Some(set) = many.then(|| self.thread_sets.of(machine, threads)).flatten() {
            return self.level_of(machine, trie, p, set, need);
        }
        let (fan, rest) = fan(trie, p, || {
            threads
                .iter()
                .fold(ByteSet::default(), |all, t| all.or(&machine.local.automaton.live_bytes(t.local.state)))
        });
        let (from, one) = match *threads {
            [one] => (SINGLE_THREAD, one),
            _ => (self.pool.len(), NOWHERE),
        };
        if from != SINGLE_THREAD {
            self.pool.extend_from_slice(threads);
        }
        let (end, next, thread_set) = (trie.end(p), p + 1, NO_SET);
        WalkLevel { end, next, fan, rest, need, from, thread_set, one, loops: 0, exit: NO_EXIT, before: 0 }
    }

    /// Returns the level of the children of `p`, where a set of threads is.
    fn level_of(
        &mut self,
        machine: &mut StackMachine,
        trie: &Trie,
        p: TrieNode,
        set: ThreadSetId,
        need: u16,
    ) -> WalkLevel {
        let (fan, rest) = fan(trie, p, || self.thread_sets.live(set));
        let (from, one) = match *self.thread_sets.threads(set) {
            [one] if machine.local.automaton.stays_in_rule(one.local.state, one.stack) => {
                (SINGLE_THREAD, one)
            }
            [one] => (THREAD_SET, one),
            _ => (THREAD_SET, NOWHERE),
        };
        let (end, next) = (trie.end(p), p + 1);
        let loops = if self.only_legality { self.thread_sets.loops(machine, set, end - p) } else { 0 };
        WalkLevel { end, next, fan, rest, need, from, thread_set: set, one, loops, exit: NO_EXIT, before: 0 }
    }
}

impl WalkLevel {
    /// Returns the next child, if there is one left.
    #[inline(always)]
    fn next_child(&mut self, trie: &Trie) -> Option<TrieNode> {
        if self.fan != NO_CHILD_LIST {
            return self.rest.pop().map(|byte| trie.child_in(self.fan, byte));
        }
        let child = self.next;
        (child < self.end).then(|| {
            self.next = trie.end(child);
            child
        })
    }

    /// Returns true if nothing is left to do for the level.
    fn is_finished(&self) -> bool {
        self.fan == NO_CHILD_LIST && self.next == self.end && self.exit == NO_EXIT
    }
}

/// Returns the larger of two sets of groups.
fn wider(a: u16, b: u16) -> u16 {
    if a.count_ones() < b.count_ones() { b } else { a }
}

/// In place of the node of an exit: all tokens below it are legal.
const USELESS: TrieNode = 0;

/// Returns the number of tokens below `p` whose next byte some thread accepts.
pub(super) fn tokens_after(
    machine: &mut StackMachine,
    trie: &Trie,
    p: TrieNode,
    threads: &[Thread],
) -> usize {
    let automaton = &mut machine.local.automaton;
    let live = threads.iter().fold(ByteSet::default(), |all, t| all.or(&automaton.live_bytes(t.local.state)));
    let below = |child: TrieNode| trie.tokens_below(child).len();
    match trie.fan(p) {
        Some(fan) => {
            let mut bytes = live.and(trie.fan_bytes(fan));
            std::iter::from_fn(|| bytes.pop()).map(|byte| below(trie.child_in(fan, byte))).sum()
        }
        None => trie.children(p).filter(|&child| live.has(trie.byte(child))).map(below).sum(),
    }
}

/// Drops the exit at the node above a finished level if all tokens at and below it are legal.
fn drop_useless_exit(trie: &Trie, level: &WalkLevel, found: &mut WalkResult) {
    let node = found.exits[level.exit as usize].0;
    if found.len() - level.before as usize == trie.tokens_below(node).len() {
        found.exits[level.exit as usize].0 = USELESS;
    }
}

/// Fills the field in place of a thread.
const NOWHERE: Thread = Thread { local: LocalState { state: 0, register: 0, n: 0 }, stack: ROOT_STACK };

/// Returns the list of children of a node, if it is to be used, and the bytes in it that threads
/// accept.
#[inline]
fn fan(trie: &Trie, p: TrieNode, live: impl FnOnce() -> ByteSet) -> (u32, ByteSet) {
    let Some(fan) = trie.fan(p) else { return (NO_CHILD_LIST, ByteSet::default()) };
    let all = trie.fan_bytes(fan);
    let rest = live().and(all);
    // If most are left, looking up each child takes longer than skipping the others.
    if rest.len() * 3 > all.len() { (NO_CHILD_LIST, rest) } else { (fan, rest) }
}
