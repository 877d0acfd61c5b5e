//! Registers: counters and other numbers that a rule carries in addition to its automaton state.
//!
//! `maxLength: 100000` must not cost 100,000 states. A rule is called *with* a register. The local
//! state carries one number `n` next to the automaton state, updated on each byte. The register
//! defines its meaning: characters of a string so far, items of an array so far, properties of an
//! object so far, or the progress of a property name (see
//! [`seen_names`](super::properties::seen_names)).

use std::sync::Arc;

use super::nfa::{ACCEPT, NfaId, RegisterIx, RuleIx};
use super::properties::name_trie::NameTrie;
use super::properties::table::PropertyTable;

/// The kind of a register, with its bounds.
#[derive(Debug, Clone)]
pub(super) enum Register {
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
pub(super) struct UniqueItems {
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
    pub(super) fn bytes(&self) -> usize {
        match self {
            Register::None | Register::Chars { lengths: None, .. } => 0,
            Register::Chars { lengths: Some(lengths), .. } => lengths.bytes(),
            Register::Items(items) => size_of::<Items>() + items.prefix.len() * 12,
            Register::Members(members) => members.bytes(),
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
pub(super) struct UniqueName {
    /// Escaped names (between the quotes) that it must not be.
    pub names: NameTrie,
    /// True if the rule is that of any string, which never runs out of new texts.
    pub open: bool,
}

/// The items of a counted array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Items {
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
    pub(super) fn item(&self, n: u32) -> Option<(RuleIx, RegisterIx)> {
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
    pub(super) fn settled(&self) -> u32 {
        self.min.max(self.prefix.len() as u32)
    }
}

/// For each state of a string rule, the numbers of further characters that lead to its end. A
/// deterministic state can reach what any of its members can.
#[derive(Debug, Clone)]
pub(super) struct Lengths {
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
    pub(super) fn within(&self, members: &[NfaId], from: u32, to: u32) -> bool {
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
