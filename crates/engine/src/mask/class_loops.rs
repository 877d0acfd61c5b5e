//! Masks of states that loop in a class of bytes that is no slice.
//!
//! After its first byte, a path of a URL, a host name or a file name accepts every string over some
//! bytes, and few other bytes continue it. So:
//!
//! 1. The first bytes are grouped by the state that they lead to.
//! 2. For each group, a class of bytes is searched whose strings the state accepts, of any length
//!    or up to one.
//! 3. The tokens of that class come from mask rows ([`Classes`]).
//! 4. A walk of the trie visits only nodes above bytes that leave the class, and tokens that are
//!    longer than is known to be safe.
//!
//! # Cost
//!
//! A step for each state and byte of the class, for at most [`MAX_STATES`] states. One operation on
//! mask rows for each class of bytes that is left out. A few nanoseconds for each visited node.
//!
//! # Alternatives considered
//!
//! The widest slice that fits, and a walk of all other tokens: these are very many where a class
//! has a few marks besides letters.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::trie_walk::{WalkOptions, WalkResult, Walker};
use crate::byte_set::ByteSet;
use crate::machine::{Automaton, LocalState, StackId, StackMachine, Thread};
use crate::vocab::{
    ByteGroups, ClassSet, Classes, Siblings, TrieNode, Vocabulary, byte_set, each_class, has_plain,
};

/// Maximum number of states that strings over a class are followed through.
const MAX_STATES: usize = 64;
/// Maximum number of states for all classes that are tried for one group.
const ALL_STATES: usize = 256;
/// Maximum number of groups of first bytes. The other first bytes are walked.
const MAX_GROUPS: usize = 12;

/// Numbers of trie nodes from which on the search is tried: `all` below all live first bytes,
/// `each` below the first bytes of one group.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoopThresholds {
    pub all: u32,
    pub each: u32,
    /// Maximum number of nodes left to a walk; an eighth of all is always accepted.
    pub others: u32,
}

impl LoopThresholds {
    /// Below these sizes a walk takes less time than a few operations on mask rows.
    pub(super) const USUAL: LoopThresholds = LoopThresholds { all: 6_000, each: 1_500, others: 6_000 };
}

/// A class of bytes whose strings a state accepts.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Loop {
    /// The state accepts all strings of at most `safe` bytes over these classes.
    classes: ClassSet,
    safe: u32,
    /// True if it accepts no longer string.
    exact: bool,
    /// The other bytes that some state within `safe` bytes accepts.
    out: ByteSet,
}

/// A state after the first byte, and the bytes that lead to it.
struct Group {
    to: u32,
    bytes: ByteSet,
    found: Option<Loop>,
}

/// Returns the tokens that `thread` allows: a mask row, and the result of a walk for the rest.
/// Returns `None` if that is no better than a walk alone. The thread has no register.
pub(super) fn loop_mask(
    machine: &mut StackMachine,
    vocab: &Vocabulary,
    walker: &mut Walker,
    thread: Thread,
    worth: LoopThresholds,
) -> Option<(Vec<u32>, WalkResult)> {
    let trie = vocab.trie();
    let nodes = |byte: u8| match trie.first(byte) {
        0 => 0,
        top => trie.end(top) - top,
    };
    let below = |mut bytes: ByteSet| std::iter::from_fn(move || bytes.pop()).map(nodes).sum::<u32>();
    let live = machine.local.automaton.live_bytes(thread.local.state);
    let all = below(live);
    if all < worth.all.max(1) {
        return None;
    }
    let (mut groups, mut others) = groups(&mut machine.local.automaton, thread, live);
    for group in &mut groups {
        if below(group.bytes) >= worth.each {
            group.found = Loop::find(&mut machine.local.automaton, vocab.classes(), (group.to, thread.stack));
        }
        if group.found.is_none() {
            others = others.or(&group.bytes);
        }
    }
    if below(others) > worth.others.max(all / 8) {
        return None;
    }
    let mut row = vec![0; vocab.len().div_ceil(32)];
    let mut found = WalkResult::default();
    let mut last: Option<(ClassSet, u32, Vec<u32>)> = None;
    for Group { to, bytes, found: kept } in groups {
        let Some(kept) = kept else { continue };
        let tails = match last.take() {
            Some(same) if (same.0, same.1) == (kept.classes, kept.safe) => same.2,
            _ => vocab.classes().tails_within(kept.classes, kept.safe),
        };
        add_started(vocab, bytes, &tails, &mut row);
        last = Some((kept.classes, kept.safe, tails));
        let mut skim = Skim { machine, vocab, walker, stack: thread.stack, found: &mut found };
        let mut rest = bytes;
        while let Some(byte) = rest.pop() {
            skim.below(trie.first(byte), to, &kept);
        }
    }
    while let Some(byte) = others.pop() {
        if trie.first(byte) != 0 {
            walker.walk_from(machine, trie, trie.first(byte), &[thread], WalkOptions::ALL, &mut found);
        }
    }
    Some((row, found))
}

/// Groups the live bytes of a thread by the state that they lead to. The second result holds the
/// bytes beyond the maximum number of groups, and those after which the thread may leave its rule.
fn groups(automaton: &mut Automaton, thread: Thread, mut live: ByteSet) -> (SmallVec<[Group; 4]>, ByteSet) {
    let row = automaton.transitions(thread.local.state);
    let mut groups: SmallVec<[Group; 4]> = SmallVec::new();
    let mut others = ByteSet::default();
    while let Some(byte) = live.pop() {
        let to = row[byte as usize];
        match groups.iter().position(|group| group.to == to) {
            Some(at) => groups[at].bytes.insert(byte, byte),
            None if groups.len() < MAX_GROUPS && automaton.stays_in_rule(to, thread.stack) => {
                let mut bytes = ByteSet::default();
                bytes.insert(byte, byte);
                groups.push(Group { to, bytes, found: None });
            }
            None => others.insert(byte, byte),
        }
    }
    (groups, others)
}

/// Adds to a mask row the tokens that start with one of the bytes and continue as `tails` says.
fn add_started(vocab: &Vocabulary, bytes: ByteSet, tails: &[u32], row: &mut [u32]) {
    let (classes, trie) = (vocab.classes(), vocab.trie());
    let mut single = bytes;
    let below = |&b: &u8| match trie.first(b) {
        0 => 0,
        top => trie.tokens_below(top).len(),
    };
    for class in each_class(classes.wholly(|b| bytes.has(b))) {
        // A few tokens are faster one by one.
        if classes.members(class).iter().map(below).sum::<usize>() * 8 > row.len() {
            classes.add_started(class, tails, row);
            classes.members(class).iter().for_each(|&b| single.remove(b));
        }
    }
    while let Some(byte) = single.pop() {
        let top = trie.first(byte);
        let tokens = if top == 0 { &[] } else { trie.tokens_below(top) };
        for &token in tokens {
            let (word, bit) = (token as usize / 32, 1 << (token % 32));
            row[word] |= tails[word] & bit;
        }
    }
}

impl Loop {
    /// Finds classes whose strings a state accepts. It begins with all classes whose bytes the
    /// state accepts. One by one it removes those that are rejected soon, or that lead to states
    /// where others are rejected.
    fn find(automaton: &mut Automaton, classes: &Classes, start: (u32, StackId)) -> Option<Loop> {
        let (row, stack) = (automaton.transitions(start.0), start.1);
        let mut kept =
            classes.wholly(|b| row[b as usize] != 0 && automaton.stays_in_rule(row[b as usize], stack));
        let mut steps = ALL_STATES;
        while has_plain(kept) {
            let mut follow = Follow { automaton, classes, stack, kept, layers: true, safe: u32::MAX };
            match follow.from(start.0, &mut steps) {
                Ok(out) if follow.safe >= Classes::SHORT => {
                    let exact = follow.layers && follow.safe < u32::MAX;
                    return Some(Loop { classes: kept, safe: follow.safe, exact, out });
                }
                Ok(_) => return None,
                Err(class) => kept &= !(1 << class),
            }
        }
        None
    }
}

/// The state of a search over the strings of some classes.
struct Follow<'a> {
    automaton: &'a mut Automaton,
    classes: &'a Classes,
    stack: StackId,
    kept: ClassSet,
    /// True if all paths to a state have the same length, and a class that is rejected at a length
    /// is rejected on all paths.
    layers: bool,
    /// All strings of at most this number of bytes are accepted.
    safe: u32,
}

impl Follow<'_> {
    /// Follows all strings, the shorter ones first. Returns the other bytes that some state
    /// accepts. If strings are rejected soon, returns the class to remove as the error.
    fn from(&mut self, start: u32, steps: &mut usize) -> Result<ByteSet, usize> {
        // Each state has its distance from the first, and the class of the byte that leads to it.
        let mut states: Vec<(u32, u32, Option<usize>)> = vec![(start, 0, None)];
        let mut met = FxHashMap::from_iter([(start, 0)]);
        let mut out = ByteSet::default();
        let mut next = 0;
        while let Some(&(state, depth, via)) = states.get(next) {
            if depth > self.safe {
                // Something longer than the shortest rejected string is accepted.
                self.layers = false;
                break;
            }
            if next == MAX_STATES || *steps == 0 {
                (self.layers, self.safe) = (false, self.safe.min(depth));
                if self.safe < Classes::SHORT && *steps > 0 {
                    return Err(self.rarest());
                }
                break;
            }
            (next, *steps) = (next + 1, *steps - 1);
            let row = self.automaton.transitions(state);
            out = out.or(&self.automaton.live_bytes(state));
            for class in each_class(self.kept) {
                let mut last = None;
                for &byte in self.classes.members(class) {
                    let to = row[byte as usize];
                    if last.replace(to) == Some(to) {
                        continue;
                    }
                    if to == 0 || !self.automaton.stays_in_rule(to, self.stack) {
                        if depth < Classes::SHORT {
                            // Of the two classes, remove the one that fewer tokens have.
                            let fewer = |via: &usize| self.classes.count(*via) < self.classes.count(class);
                            return Err(via.filter(fewer).unwrap_or(class));
                        }
                        self.layers &= to == 0;
                        self.safe = self.safe.min(depth);
                        continue;
                    }
                    let known = *met.entry(to).or_insert_with(|| {
                        states.push((to, depth + 1, Some(class)));
                        depth + 1
                    });
                    self.layers &= known == depth + 1;
                }
            }
        }
        for class in each_class(self.kept) {
            self.classes.members(class).iter().for_each(|&byte| out.remove(byte));
        }
        Ok(out)
    }

    /// Returns the class that the fewest tokens have.
    fn rarest(&self) -> usize {
        each_class(self.kept).min_by_key(|&class| self.classes.count(class)).unwrap_or_default()
    }
}

/// The walk of the tokens that the mask rows do not decide.
struct Skim<'a> {
    machine: &'a mut StackMachine,
    vocab: &'a Vocabulary,
    walker: &'a mut Walker,
    stack: StackId,
    found: &'a mut WalkResult,
}

impl Skim<'_> {
    /// Walks the tokens strictly below the node `top`, which leads to `state`. Only tokens with a
    /// byte outside of the classes, or longer than is safe, are visited.
    fn below(&mut self, top: TrieNode, state: u32, kept: &Loop) {
        let (trie, sets) = (self.vocab.trie(), self.vocab.node_sets());
        let mut out = kept.out;
        let need = std::iter::from_fn(|| out.pop()).fold(0, |set: ByteGroups, byte| set | byte_set(byte));
        let longest = match kept.exact || kept.safe == u32::MAX {
            true => usize::MAX,
            false => (kept.safe as usize).saturating_add(trie.depth(top)),
        };
        let mut levels = Vec::new();
        // The children to be visited, and the state that the path to their parent leads to.
        let mut level = (Siblings::below(trie, top), state);
        loop {
            let Some((p, set)) = level.0.next(trie, sets) else {
                let Some(above) = levels.pop() else { return };
                level = above;
                continue;
            };
            let is_short = || trie.depth(p) + trie.height(p) <= longest;
            if set & need == 0 && (longest == usize::MAX || is_short()) {
                continue;
            }
            let to = self.machine.local.automaton.step(level.1, trie.byte(p));
            if to == 0 {
                continue;
            }
            if kept.out.has(trie.byte(p)) || !self.machine.local.automaton.stays_in_rule(to, self.stack) {
                let local = LocalState { state: level.1, register: 0, n: 0 };
                let thread = Thread { local, stack: self.stack };
                self.walker.walk_from(self.machine, trie, p, &[thread], WalkOptions::ALL, self.found);
                continue;
            }
            if trie.depth(p) > longest {
                self.found.tokens.extend(trie.tokens_at(p).iter().map(|&token| (token, 0)));
            }
            if trie.height(p) > 0 {
                levels.push(std::mem::replace(&mut level, (Siblings::below(trie, p), to)));
            }
        }
    }
}
