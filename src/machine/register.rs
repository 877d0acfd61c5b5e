//! Registers: counters and cursors that a rule runs with, instead of states.
//!
//! `maxLength: 100000` must not cost 100,000 states. A rule is called *with* a register; the local
//! state carries one number `n` beside the automaton state, updated on each byte. What the number
//! means is said here: characters of a string so far, items of an array so far, or the place in the
//! trie of names that an undeclared key must not spell.

use std::sync::Arc;

use super::dfa::DfaId;
use super::nfa::{RegisterIx, RuleIx};

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
    /// Children of each node, sorted by byte, and whether a name ends here.
    nodes: Vec<(Vec<(u8, u32)>, bool)>,
}

impl NameTrie {
    /// Builds the trie.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut nodes: Vec<(Vec<(u8, u32)>, bool)> = vec![(Vec::new(), false)];
        for name in names {
            let mut at = 0usize;
            for &b in name {
                at = match nodes[at].0.binary_search_by_key(&b, |e| e.0) {
                    Ok(i) => nodes[at].0[i].1 as usize,
                    Err(i) => {
                        let new = nodes.len();
                        nodes[at].0.insert(i, (b, new as u32));
                        nodes.push((Vec::new(), false));
                        new
                    }
                };
            }
            nodes[at].1 = true;
        }
        NameTrie { nodes }
    }

    /// Where byte `b` leads from `n`.
    #[inline]
    pub fn step(&self, n: u32, b: u8) -> u32 {
        if n == OFF_TRIE {
            return OFF_TRIE;
        }
        let children = &self.nodes[n as usize].0;
        children.binary_search_by_key(&b, |e| e.0).map_or(OFF_TRIE, |i| children[i].1)
    }

    /// Whether the text so far is one of the names.
    #[inline]
    pub fn is_name(&self, n: u32) -> bool {
        n != OFF_TRIE && self.nodes[n as usize].1
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 1 && !self.nodes[0].1
    }
}

/// For each state of a string automaton, which numbers of further characters lead to its end.
#[derive(Debug, Clone)]
pub struct Lengths {
    /// Sorted by state.
    states: Vec<(DfaId, Reach)>,
    /// Whether every state may close without a further character and may go on for ever, so that
    /// only the count matters.
    pub uniform: bool,
    /// The largest number of characters any state needs to reach its end.
    pub slack: u32,
}

/// Numbers of further characters until the closing quote.
#[derive(Debug, Clone)]
pub struct Reach {
    /// Whether this is the end itself.
    pub end: bool,
    /// The smallest number.
    pub shortest: u32,
    /// The largest number, [`u32::MAX`] if there is none.
    pub longest: u32,
    /// Bit k: exactly k further characters are possible. Only kept where the two bounds do not
    /// decide.
    pub exact: Option<Box<[u64]>>,
}

impl Reach {
    /// Whether some number of further characters in `from..=to` is possible.
    pub fn within(&self, from: u32, to: u32) -> bool {
        if self.shortest > to || self.longest < from {
            return false;
        }
        match &self.exact {
            None => true,
            Some(bits) => {
                let last = (bits.len() * 64 - 1).min(to as usize);
                (from as usize..=last).any(|k| bits[k / 64] >> (k % 64) & 1 == 1)
            }
        }
    }
}

impl Lengths {
    /// Collects the table.
    pub fn new(mut states: Vec<(DfaId, Reach)>) -> Self {
        states.sort_by_key(|s| s.0);
        let uniform = states.iter().all(|(_, r)| r.end || r.shortest == 0 && r.longest == u32::MAX);
        let slack = states.iter().map(|(_, r)| r.shortest).max().unwrap_or(0);
        Lengths { states, uniform, slack }
    }

    /// The entry of a state.
    pub fn of(&self, state: DfaId) -> Option<&Reach> {
        self.states.binary_search_by_key(&state, |s| s.0).ok().map(|i| &self.states[i].1)
    }
}
