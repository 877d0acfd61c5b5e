//! States of a label constraint: a position in the label trie, and the labels used so far.
//!
//! The labels left below a node are the size of its range without the used labels in it, found by
//! binary search. So a token is legal, at any depth, exactly if an unused label can be completed
//! after it, and a separator exactly if there is an unused label.
//!
//! # Cost
//!
//! A new state costs a search for each child.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::constraint::token_machine::{LabelItems, LabelNode, LabelTrie};
use crate::machine::{ConfigId, DEAD_CONFIG};
use crate::vocab::{TokenId, Vocabulary};

/// The position of an output.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct LabelPosition {
    /// True in the trie of separators and labels, false in the trie of the first label.
    later: bool,
    node: LabelNode,
    /// Index of the set of labels that precede the current one.
    used: u32,
    /// Number of preceding labels, as far as it matters.
    count: u32,
}

/// The positions reached so far.
#[derive(Clone)]
pub(super) struct LabelStates {
    trie: LabelTrie,
    least: u32,
    most: u32,
    repeats: bool,
    /// Position by configuration; that of 0, the dead one, is never read.
    places: Vec<LabelPosition>,
    index: FxHashMap<LabelPosition, ConfigId>,
    /// Sets of labels, each sorted.
    sets: IndexSet<Arc<[u32]>, FxBuildHasher>,
    set_bytes: usize,
}

impl LabelStates {
    pub(super) fn new(trie: LabelTrie) -> Self {
        let (least, most, repeats) = trie.counts();
        let start = LabelPosition { later: false, node: 0, used: 0, count: 0 };
        LabelStates {
            trie,
            least,
            most: most.unwrap_or(u32::MAX),
            repeats,
            places: vec![start, start],
            index: FxHashMap::from_iter([(start, 1)]),
            sets: IndexSet::from_iter([Arc::from([])]),
            set_bytes: 0,
        }
    }

    pub(super) fn renewed(&self) -> Self {
        LabelStates::new(self.trie.clone())
    }

    fn items(&self, later: bool) -> Option<&LabelItems> {
        if later { self.trie.next() } else { Some(self.trie.first()) }
    }

    /// Returns the used labels as sorted ranks in a trie.
    fn ranks(items: &LabelItems, used: &[u32]) -> Vec<u32> {
        let mut ranks: Vec<u32> = used.iter().map(|&label| items.rank(label)).collect();
        ranks.sort_unstable();
        ranks
    }

    /// Returns true if an unused label can be completed at a node or below.
    fn is_open(items: &LabelItems, node: LabelNode, used: &[u32]) -> bool {
        let range = items.ranks(node);
        let below = |end: u32| used.partition_point(|&rank| rank < end);
        below(range.end) - below(range.start) < range.len()
    }

    /// Returns the label that ends at a position, if it may end there.
    fn label(&self, place: LabelPosition) -> Option<u32> {
        let label = self.items(place.later)?.label(place.node)?;
        let used = &self.sets[place.used as usize];
        used.binary_search(&label).is_err().then_some(label)
    }

    /// Returns the used labels and their number, including the label that ends at `place`. Returns
    /// `None` if there is no such label, or none may follow it.
    fn after_label(&self, place: LabelPosition) -> Option<(Vec<u32>, u32)> {
        let label = self.label(place)?;
        let count = place.count + 1;
        self.trie.next().filter(|_| count < self.most)?;
        if self.repeats {
            // Beyond the minimum the number does not matter, unless there is a maximum.
            let matters = if self.most == u32::MAX { self.least } else { self.most };
            return Some((Vec::new(), count.min(matters)));
        }
        let mut used = self.sets[place.used as usize].to_vec();
        used.insert(used.partition_point(|&l| l < label), label);
        Some((used, count))
    }

    fn intern_set(&mut self, set: Vec<u32>) -> u32 {
        let bytes = 4 * set.len() + 16 + 40;
        let (id, is_new) = self.sets.insert_full(set.into());
        self.set_bytes += if is_new { bytes } else { 0 };
        id as u32
    }

    fn intern(&mut self, place: LabelPosition) -> ConfigId {
        *self.index.entry(place).or_insert_with(|| {
            self.places.push(place);
            self.places.len() as ConfigId - 1
        })
    }

    pub(super) fn step(&mut self, config: ConfigId, token: TokenId) -> ConfigId {
        let place = self.places[config as usize];
        let Some(items) = self.items(place.later) else { return DEAD_CONFIG };
        // After a label, a token either continues a longer label or begins the separator; no token
        // does both.
        if let Some(node) = items.child(place.node, token) {
            let used = Self::ranks(items, &self.sets[place.used as usize]);
            let open = Self::is_open(items, node, &used);
            return if open { self.intern(LabelPosition { node, ..place }) } else { DEAD_CONFIG };
        }
        let Some((used, count)) = self.after_label(place) else { return DEAD_CONFIG };
        let next = self.trie.next().and_then(|next| {
            let node = next.child(0, token)?;
            Self::is_open(next, node, &Self::ranks(next, &used)).then_some(node)
        });
        let Some(node) = next else { return DEAD_CONFIG };
        let used = self.intern_set(used);
        self.intern(LabelPosition { later: true, node, used, count })
    }

    pub(super) fn is_accepting(&self, config: ConfigId) -> bool {
        let place = self.places[config as usize];
        place.count + 1 >= self.least && self.label(place).is_some()
    }

    pub(super) fn tokens(&self, config: ConfigId) -> Vec<TokenId> {
        let place = self.places[config as usize];
        let mut tokens = Vec::new();
        let mut add = |items: &LabelItems, node, used: &[u32]| {
            let used = Self::ranks(items, used);
            let open = items.children(node).iter().filter(|e| Self::is_open(items, e.1, &used));
            tokens.extend(open.map(|e| e.0));
        };
        if let Some(items) = self.items(place.later) {
            add(items, place.node, &self.sets[place.used as usize]);
        }
        if let (Some((used, _)), Some(next)) = (self.after_label(place), self.trie.next()) {
            add(next, 0, &used);
        }
        tokens.sort_unstable();
        tokens
    }

    /// Returns the path to the nearest label end, followed by the shortest remaining labels until
    /// there are enough.
    pub(super) fn completion(&self, config: ConfigId) -> Option<Vec<TokenId>> {
        let mut place = self.places[config as usize];
        let mut used = self.sets[place.used as usize].to_vec();
        let mut tokens = Vec::new();
        loop {
            let items = self.items(place.later)?;
            let before = items.path(place.node).len();
            let end = nearest(items, place.node, &used)?;
            tokens.extend_from_slice(&items.path(end)[before..]);
            place.count += 1;
            if place.count >= self.least {
                return Some(tokens);
            }
            if !self.repeats {
                let label = items.label(end)?;
                used.insert(used.partition_point(|&l| l < label), label);
            }
            (place.later, place.node) = (true, 0);
        }
    }

    pub(super) fn describe(&self, config: ConfigId, vocab: &Vocabulary) -> String {
        let place = self.places[config as usize];
        let Some(items) = self.items(place.later) else { return String::new() };
        let path = vocab.decode(&items.path(place.node));
        let used = Self::ranks(items, &self.sets[place.used as usize]);
        let range = items.ranks(place.node);
        let left = range.len() - used.iter().filter(|r| range.contains(r)).count();
        let text = String::from_utf8_lossy(&path).into_owned();
        let where_it_is = match (place.node, self.label(place)) {
            (0, _) => "in front of a label".to_string(),
            (_, Some(_)) => format!("behind the label in {text:?}"),
            (_, None) => format!("inside a label, after {text:?}"),
        };
        format!("{where_it_is}; {left} labels can end here or below, {} have been", place.count)
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - 1
    }

    pub(super) fn fixed_bytes(&self) -> usize {
        self.trie.bytes()
    }

    pub(super) fn bytes(&self) -> usize {
        self.set_bytes + self.places.capacity() * 16 + self.index.capacity() * 21
    }
}

/// Returns the nearest node at or below `node` whose label is unused. The search is A* with the
/// distances that ignore used labels as lower bounds, so it visits few nodes off its path.
fn nearest(items: &LabelItems, node: LabelNode, used: &[u32]) -> Option<LabelNode> {
    let mut todo = BinaryHeap::from([Reverse((items.nearest(node), 0, node))]);
    let ranks = LabelStates::ranks(items, used);
    while let Some(Reverse((_, depth, node))) = todo.pop() {
        if items.label(node).is_some_and(|l| used.binary_search(&l).is_err()) {
            return Some(node);
        }
        for &(_, child) in items.children(node) {
            if LabelStates::is_open(items, child, &ranks) {
                todo.push(Reverse((depth + 1 + items.nearest(child), depth + 1, child)));
            }
        }
    }
    None
}
