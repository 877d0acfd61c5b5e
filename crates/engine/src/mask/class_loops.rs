//! Masks of states that go round in a class of bytes that is no slice.
//!
//! Behind the first byte of a token, a path of a URL, a host name or a file name stays alive under all strings over
//! some bytes, and few others lead on. So the first bytes are put together by where they lead; for each such
//! place a class of bytes is looked for whose strings keep it alive, of any length or up to one; the tokens of that
//! class are had at once from rows of bits ([`Classes`]); and a walk of the trie visits only the nodes above those
//! bytes that lead out of the class, and above tokens that are too long to be sure of. Cost: a step per state and
//! byte of the class, at most [`MAX_STATES`] states, half a microsecond per class of bytes that is left out, and a few
//! nanoseconds per node visited. Rejected: the widest of the slices that fits, and a walk of all other tokens, which
//! are tens of thousands where a class has a few marks besides letters.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::trie_walk::{ByteFilter, WalkResult, Walker};
use crate::byte_set::ByteSet;
use crate::machine::{LocalState, Machine, StackId, Thread};
use crate::vocab::{ByteGroups, ClassSet, Classes, TrieNode, Vocabulary, byte_set, each_class, has_plain};

/// Most states that strings over a class are followed through.
const MAX_STATES: usize = 64;
/// The same for all classes that are tried for a place.
const ALL_STATES: usize = 256;
/// Most places that first bytes are put together for; the other bytes are walked.
const MAX_GROUPS: usize = 12;

/// From how many nodes of the trie on it is worth while: below the first bytes with a way on in all, and
/// below those that lead to one place.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoopThresholds {
    pub all: u32,
    pub each: u32,
    /// So many, or an eighth of all, may be left to a walk.
    pub others: u32,
}

impl LoopThresholds {
    /// Fewer nodes are walked in less time than a few rows of bits take.
    pub const USUAL: LoopThresholds = LoopThresholds { all: 6_000, each: 1_500, others: 6_000 };
}

/// What keeps a state alive.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Loop {
    /// All strings of at most `safe` bytes over these classes do.
    classes: ClassSet,
    safe: u32,
    /// Whether no longer one does.
    exact: bool,
    /// After fewer, the other bytes on which something can go on.
    out: ByteSet,
}

/// A state behind the first byte, and which bytes lead there.
struct Group {
    to: u32,
    bytes: ByteSet,
    found: Option<Loop>,
}

/// The tokens that `thread` allows, as a row, and what a walk found besides; `None` if that is no better than a walk
/// alone. The thread has no register.
pub(super) fn looped(
    machine: &mut Machine,
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
    let live = machine.live_bytes(thread.local.state);
    let all = below(live);
    if all < worth.all.max(1) {
        return None;
    }
    let (mut groups, mut others) = groups(machine, thread, live);
    for group in &mut groups {
        if below(group.bytes) >= worth.each {
            group.found = Loop::find(machine, vocab.classes(), (group.to, thread.stack));
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
            walker.walk_from(machine, trie, trie.first(byte), &[thread], ByteFilter::NOTHING, &mut found);
        }
    }
    Some((row, found))
}

/// The bytes on which a thread goes on, by where they lead, and those behind which that is not all.
fn groups(machine: &mut Machine, thread: Thread, mut live: ByteSet) -> (SmallVec<[Group; 4]>, ByteSet) {
    let row = machine.transitions(thread.local.state);
    let mut groups: SmallVec<[Group; 4]> = SmallVec::new();
    let mut others = ByteSet::default();
    while let Some(byte) = live.pop() {
        let to = row[byte as usize];
        match groups.iter().position(|group| group.to == to) {
            Some(at) => groups[at].bytes.insert(byte, byte),
            None if groups.len() < MAX_GROUPS && machine.stays_in_rule(to, thread.stack) => {
                let mut bytes = ByteSet::default();
                bytes.insert(byte, byte);
                groups.push(Group { to, bytes, found: None });
            }
            None => others.insert(byte, byte),
        }
    }
    (groups, others)
}

/// Adds to a row the tokens that begin with one of the bytes and whose others are told by `tails`.
fn add_started(vocab: &Vocabulary, bytes: ByteSet, tails: &[u32], row: &mut [u32]) {
    let (classes, trie) = (vocab.classes(), vocab.trie());
    let mut single = bytes;
    let below = |&b: &u8| match trie.first(b) {
        0 => 0,
        top => trie.tokens_below(top).len(),
    };
    for class in each_class(classes.wholly(|b| bytes.has(b))) {
        // Few are had sooner one by one.
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
    /// Finds classes that keep a state alive: from all on which it goes on, those are given up one by one that
    /// kill soon, or that lead to where others kill.
    fn find(machine: &mut Machine, classes: &Classes, start: (u32, StackId)) -> Option<Loop> {
        let (row, stack) = (machine.transitions(start.0), start.1);
        let mut kept =
            classes.wholly(|b| row[b as usize] != 0 && machine.stays_in_rule(row[b as usize], stack));
        let mut steps = ALL_STATES;
        while has_plain(kept) {
            let mut follow = Follow { machine, classes, stack, kept, layers: true, safe: u32::MAX };
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

/// What is found out about the strings over some classes.
struct Follow<'a> {
    machine: &'a mut Machine,
    classes: &'a Classes,
    stack: StackId,
    kept: ClassSet,
    /// Whether each state is as many bytes from the first by all ways, and those that some class kills by all.
    layers: bool,
    /// So many bytes keep alive.
    safe: u32,
}

impl Follow<'_> {
    /// Follows all strings, the shorter first. The other bytes on which something goes on, or the class to give up
    /// where strings die soon.
    fn from(&mut self, start: u32, steps: &mut usize) -> Result<ByteSet, usize> {
        // Each with its distance from the first, and the class of the byte before it.
        let mut states: Vec<(u32, u32, Option<usize>)> = vec![(start, 0, None)];
        let mut met = FxHashMap::from_iter([(start, 0)]);
        let mut out = ByteSet::default();
        let mut next = 0;
        while let Some(&(state, depth, via)) = states.get(next) {
            if depth > self.safe {
                // Something is alive behind what kills.
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
            let row = self.machine.transitions(state);
            out = out.or(&self.machine.live_bytes(state));
            for class in each_class(self.kept) {
                let mut last = None;
                for &byte in self.classes.members(class) {
                    let to = row[byte as usize];
                    if last.replace(to) == Some(to) {
                        continue;
                    }
                    if to == 0 || !self.machine.stays_in_rule(to, self.stack) {
                        if depth < Classes::SHORT {
                            // Of the two the one that fewer tokens have.
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

    /// The class that fewest tokens have.
    fn rarest(&self) -> usize {
        each_class(self.kept).min_by_key(|&class| self.classes.count(class)).unwrap_or_default()
    }
}

/// The walk of what the rows do not tell.
struct Skim<'a> {
    machine: &'a mut Machine,
    vocab: &'a Vocabulary,
    walker: &'a mut Walker,
    stack: StackId,
    found: &'a mut WalkResult,
}

/// The children of a node that are still to be looked at, in the list of children or as nodes.
#[derive(Clone, Copy)]
struct Level {
    next: u32,
    end: u32,
    listed: bool,
    /// Where the way to the node leads.
    state: u32,
}

impl Skim<'_> {
    /// The tokens strictly below the node `top`, where `state` is, that have a byte out of the classes or are longer
    /// than is safe.
    fn below(&mut self, top: TrieNode, state: u32, kept: &Loop) {
        let (trie, sets) = (self.vocab.trie(), self.vocab.byte_sets());
        let (listed, listed_sets) = (trie.listed(), self.vocab.listed_sets());
        let mut out = kept.out;
        let need = std::iter::from_fn(|| out.pop()).fold(0, |set: ByteGroups, byte| set | byte_set(byte));
        let longest = match kept.exact || kept.safe == u32::MAX {
            true => usize::MAX,
            false => (kept.safe as usize).saturating_add(trie.depth(top)),
        };
        let mut levels = Vec::new();
        let mut level = self.level(top, state);
        loop {
            if level.next == level.end {
                let Some(above) = levels.pop() else { return };
                level = above;
                continue;
            }
            let i = level.next;
            level.next += 1;
            let (p, set) = match level.listed {
                true => (listed[i as usize], listed_sets[i as usize]),
                false => {
                    level.next = trie.end(i);
                    (i, sets[i as usize] | byte_set(trie.byte(i)))
                }
            };
            let is_short = || trie.depth(p) + trie.height(p) <= longest;
            if set & need == 0 && (longest == usize::MAX || is_short()) {
                continue;
            }
            let to = self.machine.step_state(level.state, trie.byte(p));
            if to == 0 {
                continue;
            }
            if kept.out.has(trie.byte(p)) || !self.machine.stays_in_rule(to, self.stack) {
                let local = LocalState { state: level.state, register: 0, n: 0 };
                let thread = Thread { local, stack: self.stack };
                self.walker.walk_from(self.machine, trie, p, &[thread], ByteFilter::NOTHING, self.found);
                continue;
            }
            if trie.depth(p) > longest {
                self.found.tokens.extend(trie.tokens_at(p).iter().map(|&token| (token, 0)));
            }
            if trie.height(p) > 0 {
                let below = self.level(p, to);
                levels.push(std::mem::replace(&mut level, below));
            }
        }
    }

    fn level(&self, p: TrieNode, state: u32) -> Level {
        let trie = self.vocab.trie();
        match trie.fan(p).map(|fan| trie.listed_in(fan)) {
            Some(list) => Level { next: list.start as u32, end: list.end as u32, listed: true, state },
            None => Level { next: p + 1, end: trie.end(p), listed: false, state },
        }
    }
}
