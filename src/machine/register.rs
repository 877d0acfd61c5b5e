//! Registers: counters and cursors that a rule runs with, instead of states.
//!
//! `maxLength: 100000` must not cost 100,000 states. A rule is called *with* a register; the local
//! state carries one number `n` beside the automaton state, updated on each byte. What the number
//! means is said here: characters of a string so far, items of an array so far, or the place in the
//! trie of names that an undeclared key must not spell.

use std::sync::Arc;

use super::nfa::{ACCEPT, NfaId, RegisterIx, RuleIx};

/// What a register counts, and within which bounds.
#[derive(Debug, Clone)]
pub enum Register {
    /// No register; `n` stays 0.
    None,
    /// Characters of a JSON string, `min..=max`.
    Chars {
        /// Fewest characters.
        min: u32,
        /// Most characters.
        max: u32,
        /// How far each state of the string's automaton is from its end; `None` if every state may
        /// close at once and may go on for ever (no pattern).
        lengths: Option<Arc<Lengths>>,
    },
    /// Items of an array, `min..=max`.
    Items(Arc<Items>),
    /// `n` is a node of the trie of names, or [`OFF_TRIE`].
    Names(Arc<NameTrie>),
}

/// The items of a counted array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Items {
    /// The array rule that runs with this register, and no other.
    pub rule: RuleIx,
    /// Fewest items.
    pub min: u32,
    /// Most items that can be had (an unsatisfiable item schema lowers it).
    pub max: u32,
    /// Rule and register of the first items.
    pub prefix: Vec<Option<(RuleIx, RegisterIx)>>,
    /// Rule and register of the others.
    pub rest: Option<(RuleIx, RegisterIx)>,
}

impl Items {
    /// The rule of item `n`, if there may be one.
    pub fn item(&self, n: u32) -> Option<(RuleIx, RegisterIx)> {
        if n >= self.max {
            return None;
        }
        match self.prefix.get(n as usize) {
            Some(item) => *item,
            None => self.rest,
        }
    }

    /// The smallest count from which on the array behaves alike as long as `max` is far away.
    pub fn settled(&self) -> u32 {
        self.min.max(self.prefix.len() as u32)
    }
}

/// `n` of a name register once the text has left the trie.
pub const OFF_TRIE: u32 = u32::MAX;

/// The spelled names (between the quotes) that an undeclared property must not have.
#[derive(Debug, Clone, Default)]
pub struct NameTrie {
    /// Per node, where its edges begin, how many there are, and whether a name ends here.
    nodes: Vec<(u32, u16, bool)>,
    /// Byte and child, sorted by byte within a node.
    edges: Vec<(u8, u32)>,
}

impl NameTrie {
    /// Builds the trie, breadth first from the sorted names.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut names: Vec<&[u8]> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        let mut trie = NameTrie { nodes: Vec::new(), edges: Vec::new() };
        // The names below each node that is still to be made, and its depth.
        let mut todo = std::collections::VecDeque::from([(0..names.len(), 0usize)]);
        let mut next = 1;
        while let Some((mut range, depth)) = todo.pop_front() {
            // The shortest name comes first.
            let ends = names.get(range.start).is_some_and(|n| range.start < range.end && n.len() == depth);
            range.start += usize::from(ends);
            let first = trie.edges.len() as u32;
            for group in names[range.clone()].chunk_by(|a, b| a[depth] == b[depth]) {
                trie.edges.push((group[0][depth], next));
                next += 1;
                todo.push_back((range.start..range.start + group.len(), depth + 1));
                range.start += group.len();
            }
            let count = trie.edges.len() as u32 - first;
            trie.nodes.push((first, count as u16, ends));
        }
        trie
    }

    /// Where byte `b` leads from `n`.
    #[inline]
    pub fn step(&self, n: u32, b: u8) -> u32 {
        if n == OFF_TRIE {
            return OFF_TRIE;
        }
        let (first, count, _) = self.nodes[n as usize];
        let edges = &self.edges[first as usize..first as usize + usize::from(count)];
        edges.binary_search_by_key(&b, |e| e.0).map_or(OFF_TRIE, |i| edges[i].1)
    }

    /// Whether the text so far is one of the names.
    #[inline]
    pub fn is_name(&self, n: u32) -> bool {
        n != OFF_TRIE && self.nodes[n as usize].2
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 1 && !self.nodes[0].2
    }
}

/// For each state of a string rule, which numbers of further characters lead to its end. A
/// deterministic state can do what any of its members can.
#[derive(Debug, Clone)]
pub struct Lengths {
    /// The first automaton state of the rule.
    from: NfaId,
    /// Fewest and most further characters ([`u32::MAX`]: no most) of the rule's states; the end is
    /// last.
    bounds: Vec<(u32, u32)>,
    /// Bit k: exactly k further characters are possible. Only kept where the bounds do not decide.
    exact: Option<Vec<Box<[u64]>>>,
    /// Whether every deterministic state may close without a further character and may go on for ever,
    /// so that only the count matters.
    pub uniform: bool,
    /// The largest number of characters any state needs to reach its end.
    pub slack: u32,
}

impl Lengths {
    /// The table of the states from `from` on.
    pub(super) fn new(from: NfaId, bounds: Vec<(u32, u32)>, exact: Option<Vec<Box<[u64]>>>) -> Self {
        // States from which nothing leads to the end were trimmed; only their places are left.
        let slack = bounds.iter().map(|b| b.0).filter(|&n| n != u32::MAX).max().unwrap_or(0);
        Lengths { from, bounds, exact, uniform: false, slack }
    }

    fn place(&self, state: NfaId) -> usize {
        if state == ACCEPT { self.bounds.len() - 1 } else { (state - self.from) as usize }
    }

    /// Fewest and most further characters of a set of states.
    pub(super) fn bounds(&self, members: &[NfaId]) -> (u32, u32) {
        let of = members.iter().map(|&s| self.bounds[self.place(s)]);
        of.fold((u32::MAX, 0), |(a, b), (c, d)| (a.min(c), b.max(d)))
    }

    /// Whether some number of further characters in `from..=to` is possible for a set of states.
    #[inline]
    pub fn within(&self, members: &[NfaId], from: u32, to: u32) -> bool {
        members.iter().any(|&s| {
            let place = self.place(s);
            let (shortest, longest) = self.bounds[place];
            if shortest > to || longest < from {
                return false;
            }
            match &self.exact {
                None => true,
                Some(bits) => {
                    let bits = &bits[place];
                    let last = (bits.len() * 64 - 1).min(to as usize);
                    (from as usize..=last).any(|k| bits[k / 64] >> (k % 64) & 1 == 1)
                }
            }
        })
    }
}
