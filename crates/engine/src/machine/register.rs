//! Registers: counters and other numbers that a rule carries in addition to its automaton state.
//!
//! `maxLength: 100000` must not cost 100,000 states. A rule is called *with* a register. The local
//! state carries one number `n` next to the automaton state, updated on each byte. The register
//! defines its meaning: characters of a string so far, items of an array so far, properties of an
//! object so far, or the progress of a property name (see
//! [`seen_names`](super::properties::seen_names)).

use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use crate::constraint::ir::{Gap, Markup};
use crate::json_escape::escape_to;

use super::nfa::{ACCEPT, NfaId, RegisterIx, RuleIx};
use crate::machine::properties::seen_names::SeenSet;

/// The kind of a register, with its bounds.
#[derive(Debug, Clone)]
pub enum Register {
    /// No register; `n` stays 0.
    None,
    /// Characters of a JSON string or of a raw text, `min..=max`.
    Chars {
        /// Minimum number of characters.
        min: u32,
        /// Maximum number of characters.
        max: u32,
        /// The distance of each state of the string's automaton from its end. `None` if every state
        /// may close at once and continue without end (no pattern).
        lengths: Option<Arc<Lengths>>,
        /// True if the text is raw: a quote is a character, and the text ends where what follows
        /// begins.
        raw: bool,
    },
    /// Items of an array, `min..=max`.
    Items(Arc<Items>),
    /// Properties of an object: `n` is the set of those seen.
    Members(Arc<PropertyTable>),
    /// A text that must be new: `n` is its progress, with the set of names seen.
    Fresh(Arc<UniqueName>),
    /// The scope around an array with unique items: `n` is the text before it (see
    /// [`unique_items`](super::unique_items)).
    Distinct(Arc<UniqueItems>),
}

/// An array with unique items of any kind.
#[derive(Debug, Clone)]
pub struct UniqueItems {
    /// The rule that runs with this register, and no other.
    pub rule: RuleIx,
    /// Rule and register of the array.
    pub array: Option<(RuleIx, RegisterIx)>,
    /// Values, each with the number of different ones that there must be.
    pub enough: Vec<(Option<(RuleIx, RegisterIx)>, u32)>,
    /// Positions of the array that must be filled but have few values, and a text of each value.
    pub few: Vec<(u32, Vec<Box<[u8]>>)>,
}

impl Register {
    /// Returns the bytes on the heap.
    pub fn bytes(&self) -> usize {
        match self {
            Register::None | Register::Chars { lengths: None, .. } => 0,
            Register::Chars { lengths: Some(lengths), .. } => lengths.bytes(),
            Register::Items(items) => size_of::<Items>() + items.prefix.len() * 12,
            Register::Members(members) => {
                let entries =
                    members.lists.iter().map(|l| size_of::<UndeclaredGroup>() + l.entries.len() * 16);
                let slots =
                    members.properties.len() * size_of::<DeclaredProperty>() + members.covers.len() * 8;
                size_of::<PropertyTable>() + slots + entries.sum::<usize>()
            }
            Register::Fresh(fresh) => fresh.names.bytes(),
            Register::Distinct(distinct) => {
                let texts = distinct.few.iter().flat_map(|f| &f.1).map(|text| 16 + text.len());
                size_of::<UniqueItems>() + distinct.enough.len() * 20 + texts.sum::<usize>()
            }
        }
    }
}

/// The names that a text must not be.
#[derive(Debug, Clone)]
pub struct UniqueName {
    /// Escaped names (between the quotes) that it must not be.
    pub names: NameTrie,
    /// True if the rule is that of any string, which never runs out of new texts.
    pub open: bool,
}

/// The properties of an object whose order is free, whose number is bounded, or that may have
/// undeclared ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PropertyTable {
    /// The object rule that runs with this register. `None` if its properties are never checked.
    pub rule: Option<RuleIx>,
    /// True if it is an array of unique scalars.
    pub set: bool,
    /// True if properties must come in their order.
    pub ordered: bool,
    /// The declared properties that may occur here, in their order.
    pub properties: Vec<DeclaredProperty>,
    /// Groups of undeclared properties.
    pub lists: Vec<UndeclaredGroup>,
    /// Minimum and maximum number of undeclared properties that meet the missing demands, by the
    /// demands that are met. The last entry is that of all demands.
    pub covers: Vec<(u32, u32)>,
    /// Minimum number of properties.
    pub min: u32,
    /// Maximum number of properties.
    pub max: u32,
    /// True if properties are counted.
    pub counted: bool,
    /// The bytes of syntax around properties.
    pub around: SyntaxCost,
}

/// Minimum numbers of bytes that an object takes besides the names and values of its properties.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SyntaxCost {
    /// For a declared property, whose name has no quotes yet, with the separator to the next one.
    pub declared: u32,
    /// For an undeclared property, whose name has its quotes if it takes any.
    pub undeclared: u32,
    /// For the separator of two properties.
    pub comma: u32,
}

impl SyntaxCost {
    /// Returns the cost in JSON, with `gap` bytes after commas and colons.
    pub(super) fn json(gap: u32) -> SyntaxCost {
        SyntaxCost { declared: 4 + 2 * gap, undeclared: 2 + 2 * gap, comma: 1 + gap }
    }

    /// Returns the cost of items that are names without values.
    pub(super) fn items(gap: u32) -> SyntaxCost {
        SyntaxCost { declared: 0, undeclared: 1 + gap, comma: 1 + gap }
    }

    /// Returns the cost in a markup; `flexible` if all white space may be left out.
    pub(super) fn markup(markup: &Markup, flexible: bool) -> SyntaxCost {
        let comma = u32::from(markup.between == Gap::Line && !flexible);
        // The ends of names and values are a part of them.
        let each = markup.open.len() as u32 + comma;
        SyntaxCost { declared: each, undeclared: each, comma }
    }
}

/// A declared property of [`PropertyTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeclaredProperty {
    /// True if it is required.
    pub required: bool,
    /// Rule and register of its value; `None` if it cannot occur.
    pub value: Option<(RuleIx, RegisterIx)>,
    /// Bytes of its escaped name, quotes not counted.
    pub name: u32,
}

/// Undeclared properties that can come when some demands are met, and after which others are met.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UndeclaredGroup {
    /// The demands met before.
    pub from: u32,
    /// The demands met after.
    pub to: u32,
    /// The properties.
    pub entries: Vec<Undeclared>,
}

/// A kind of undeclared properties of [`PropertyTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undeclared {
    /// Rule and register of the names.
    pub key: (RuleIx, RegisterIx),
    /// Rule and register of the values.
    pub value: (RuleIx, RegisterIx),
    /// Number of different names, [`u32::MAX`] for more than matter.
    pub names: u32,
}

impl PropertyTable {
    /// Returns the number up to which properties are counted: as far as the bounds need.
    pub(super) fn cap(&self) -> u32 {
        match (self.counted, self.max) {
            (false, _) => 0,
            (true, u32::MAX) => self.min,
            // One too many must be visible.
            (true, max) => max + 1,
        }
    }

    /// Returns the number of possible and of required properties, among the declared ones from
    /// `first` on for which `open` holds.
    fn rest(&self, first: u32, open: impl Fn(u32) -> bool) -> (u32, u32) {
        let rest = (first..self.properties.len() as u32).filter(|&i| open(i));
        rest.fold((0, 0), |(possible, required), i| {
            let slot = &self.properties[i as usize];
            (possible + u32::from(slot.value.is_some()), required + u32::from(slot.required))
        })
    }

    /// Returns the number of undeclared properties that can still come, when `written` were seen
    /// and the demands `met` are met.
    fn names_left(&self, written: u32, met: u32) -> u32 {
        let others = self.lists.iter().filter(|l| (l.from, l.to) == (0, 0)).flat_map(|l| &l.entries);
        let names = others.fold(0u32, |all, e| all.saturating_add(e.names));
        // Apart from demands there are none or unboundedly many.
        names.saturating_sub(written).saturating_add(self.covers[met as usize].1)
    }

    /// Computes [`PropertyTable::covers`] from the groups.
    pub(super) fn find_covers(&mut self) {
        let all = self.covers.len() - 1;
        self.covers.fill((u32::MAX, 0));
        self.covers[all] = (0, 0);
        // Each step meets more demands, so later sets are known first.
        for met in (0..all).rev() {
            let mut cover = self.covers[met];
            for list in self.lists.iter().filter(|l| l.from as usize == met && l.to != l.from) {
                let after = self.covers[list.to as usize];
                if !list.entries.is_empty() && after.0 < u32::MAX {
                    cover = (cover.0.min(after.0 + 1), cover.1.max(after.1 + 1));
                }
            }
            self.covers[met] = cover;
        }
    }

    /// Returns true if the bounds can be met. `count` properties were seen, `possible` others are
    /// left of which some are required, and `names` undeclared names are left.
    fn fits(&self, count: u32, (possible, required): (u32, u32), names: u32) -> bool {
        count.saturating_add(required) <= self.max
            && count.saturating_add(possible).saturating_add(names) >= self.min
    }

    /// Returns true if an object can meet the bounds at all.
    pub(super) fn satisfiable(&self) -> bool {
        let stuck = self.properties.iter().any(|s| s.required && s.value.is_none());
        let (possible, required) = self.rest(0, |_| true);
        let required = required.saturating_add(self.covers[0].0);
        !stuck && self.fits(0, (possible, required), self.names_left(0, 0))
    }

    /// Returns the properties that are still possible after a set and, where order matters, after
    /// property `last`.
    fn left(&self, set: &SeenSet, last: Option<u32>) -> (u32, u32) {
        match (self.ordered, last) {
            (true, Some(last)) => self.rest(last + 1, |_| true),
            // Undeclared ones come last.
            (true, None) => (0, 0),
            (false, _) => self.rest(0, |i| !set.has(i)),
        }
    }

    /// Returns true if property `i` may come next. `set` is the set after it, with `names`
    /// undeclared ones, and the demands `met` are met.
    pub(super) fn may_take(&self, set: &SeenSet, i: u32, names: u32, met: u32) -> bool {
        let (possible, required) = self.left(set, Some(i));
        let required = required.saturating_add(self.covers[met as usize].0);
        !self.counted || self.fits(set.count, (possible, required), self.names_left(names, met))
    }

    /// Returns true if an undeclared property may come next in addition to `names` others, provided
    /// that there is a new name. The demands `met` are met after it.
    pub(super) fn may_add(&self, set: &SeenSet, names: u32, met: u32) -> bool {
        let (possible, required) = self.left(set, None);
        let required = required.saturating_add(self.covers[met as usize].0);
        let left = self.names_left(names + 1, met);
        !self.counted || self.fits(set.count.saturating_add(1), (possible, required), left)
    }

    /// Returns true if the object may end.
    pub(super) fn may_close(&self, set: &SeenSet) -> bool {
        (!self.counted || set.count >= self.min) && (self.ordered || self.left(set, None).1 == 0)
    }
}

/// The items of a counted array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Items {
    /// The array rule that runs with this register, and no other.
    pub rule: RuleIx,
    /// Minimum number of items.
    pub min: u32,
    /// Maximum number of items that are possible (an unsatisfiable item schema lowers it).
    pub max: u32,
    /// Rule and register of the first items.
    pub prefix: Vec<Option<(RuleIx, RegisterIx)>>,
    /// Rule and register of the others.
    pub rest: Option<(RuleIx, RegisterIx)>,
}

impl Items {
    /// Returns the rule of item `n`, if there may be one.
    pub fn item(&self, n: u32) -> Option<(RuleIx, RegisterIx)> {
        if n >= self.max {
            return None;
        }
        match self.prefix.get(n as usize) {
            Some(item) => *item,
            None => self.rest,
        }
    }

    /// Returns the smallest count from which on the array is the same at each count, as long as
    /// `max` is far away.
    pub fn settled(&self) -> u32 {
        self.min.max(self.prefix.len() as u32)
    }
}

/// The node of a text that has left the trie of names.
pub const OFF_TRIE: u32 = u32::MAX;

/// Names with their escapes, without quotes, one after the other.
#[derive(Debug, Clone, Default)]
pub struct Names {
    text: SmallVec<[u8; 48]>,
    /// The end of each name.
    ends: SmallVec<[u32; 6]>,
}

impl Names {
    /// Escapes some names.
    pub(super) fn escaped<'a>(names: impl ExactSizeIterator<Item = &'a str> + Clone) -> Self {
        let bytes = names.clone().map(str::len).sum();
        let (text, ends) = (SmallVec::with_capacity(bytes), SmallVec::with_capacity(names.len()));
        let mut spelled = Names { text, ends };
        for name in names {
            escape_to(name, |piece| spelled.text.extend_from_slice(piece));
            spelled.ends.push(spelled.text.len() as u32);
        }
        spelled
    }

    /// Takes some raw texts, each with `behind` after it.
    pub(super) fn plain<'a>(names: impl Iterator<Item = &'a str>, behind: &str) -> Self {
        let mut spelled = Names::default();
        for name in names {
            spelled.text.extend_from_slice(name.as_bytes());
            spelled.text.extend_from_slice(behind.as_bytes());
            spelled.ends.push(spelled.text.len() as u32);
        }
        spelled
    }

    /// Returns one of the names.
    pub(super) fn get(&self, i: usize) -> &[u8] {
        let first = i.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[first as usize..self.ends[i] as usize]
    }
}

/// The escaped names (between the quotes) that an undeclared property must not have. Most objects
/// that may have others never meet one, so the trie is made when it is first needed.
#[derive(Debug, Clone, Default)]
pub struct NameTrie {
    names: Arc<Names>,
    nodes: OnceLock<Nodes>,
}

/// The trie itself.
#[derive(Debug, Clone)]
struct Nodes {
    /// By node: start and number of its edges, and whether a name ends here.
    nodes: Vec<(u32, u16, bool)>,
    /// Byte and child, sorted by byte within a node.
    edges: Vec<(u8, u32)>,
}

impl Nodes {
    /// Builds the trie, breadth first from the sorted names.
    fn new(names: &Names) -> Self {
        let mut names: Vec<&[u8]> = (0..names.ends.len()).map(|i| names.get(i)).collect();
        names.sort_unstable();
        names.dedup();
        let mut trie = Nodes { nodes: Vec::new(), edges: Vec::new() };
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
}

impl NameTrie {
    fn bytes(&self) -> usize {
        let names = self.names.text.capacity() + self.names.ends.capacity() * 4;
        let made =
            self.nodes.get().map_or(0, |made| size_of_val(&made.nodes[..]) + size_of_val(&made.edges[..]));
        names + made
    }

    /// Creates the trie of some names.
    pub fn new(names: Arc<Names>) -> Self {
        NameTrie { names, nodes: OnceLock::new() }
    }

    fn nodes(&self) -> &Nodes {
        self.nodes.get_or_init(|| Nodes::new(&self.names))
    }

    /// Returns the edges of `n`, sorted by byte; all other bytes leave the trie.
    #[inline]
    pub(super) fn edges(&self, n: u32) -> &[(u8, u32)] {
        if n == OFF_TRIE {
            return &[];
        }
        let Nodes { nodes, edges } = self.nodes();
        let (first, count, _) = nodes[n as usize];
        &edges[first as usize..first as usize + usize::from(count)]
    }

    /// Returns the target of byte `b` from `n`.
    #[inline]
    pub fn step(&self, n: u32, b: u8) -> u32 {
        let edges = self.edges(n);
        edges.binary_search_by_key(&b, |e| e.0).map_or(OFF_TRIE, |i| edges[i].1)
    }

    /// Returns true if the text so far is one of the names.
    #[inline]
    pub fn is_name(&self, n: u32) -> bool {
        n != OFF_TRIE && self.nodes().nodes[n as usize].2
    }

    /// Returns true if there is no name.
    pub fn is_empty(&self) -> bool {
        self.names.ends.is_empty()
    }
}

/// For each state of a string rule, the numbers of further characters that lead to its end. A
/// deterministic state can reach what any of its members can.
#[derive(Debug, Clone)]
pub struct Lengths {
    /// The first automaton state of the rule.
    from: NfaId,
    /// Minimum and maximum number of further characters ([`u32::MAX`]: no maximum) of the rule's
    /// states; the end is last.
    bounds: Vec<(u32, u32)>,
    /// Bit k: exactly k further characters are possible. `None` where the bounds decide.
    exact: Option<Vec<Box<[u64]>>>,
    /// True if every deterministic state may close without a further character and may continue
    /// without end, so that only the count matters.
    pub uniform: bool,
    /// The largest minimum number of characters that any state needs to reach its end.
    pub slack: u32,
}

impl Lengths {
    fn bytes(&self) -> usize {
        let exact = self.exact.iter().flatten().map(|row| 16 + size_of_val(&**row));
        size_of::<Lengths>() + self.bounds.len() * 8 + exact.sum::<usize>()
    }

    /// Makes the table of the states from `from` on.
    pub(super) fn new(from: NfaId, bounds: Vec<(u32, u32)>, exact: Option<Vec<Box<[u64]>>>) -> Self {
        // States from which nothing leads to the end were trimmed; only their entries are left.
        let slack = bounds.iter().map(|b| b.0).filter(|&n| n != u32::MAX).max().unwrap_or(0);
        Lengths { from, bounds, exact, uniform: false, slack }
    }

    fn place(&self, state: NfaId) -> usize {
        if state == ACCEPT { self.bounds.len() - 1 } else { (state - self.from) as usize }
    }

    /// Returns the minimum and maximum number of further characters of a set of states.
    pub(super) fn bounds(&self, members: &[NfaId]) -> (u32, u32) {
        let of = members.iter().map(|&s| self.bounds[self.place(s)]);
        of.fold((u32::MAX, 0), |(a, b), (c, d)| (a.min(c), b.max(d)))
    }

    /// Returns true if some number of further characters in `from..=to` is possible for a set of
    /// states.
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
