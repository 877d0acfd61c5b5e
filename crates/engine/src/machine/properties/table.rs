//! The property table of an object: what its register must know about its properties.
//!
//! # Cost
//!
//! A question about an object takes a pass over its declared properties.

use crate::constraint::ir::{Gap, Markup};
use crate::machine::nfa::{RegisterIx, RuleIx};
use crate::machine::properties::seen_names::SeenSet;

/// The properties of an object whose order is free, whose number is bounded, or that may have
/// undeclared ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PropertyTable {
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
pub(crate) struct SyntaxCost {
    /// For a declared property, whose name has no quotes yet, with the separator to the next one.
    pub declared: u32,
    /// For an undeclared property, whose name has its quotes if it takes any.
    pub undeclared: u32,
    /// For the separator of two properties.
    pub comma: u32,
}

impl SyntaxCost {
    /// Returns the cost in JSON, with `gap` bytes after commas and colons.
    pub(crate) fn json(gap: u32) -> SyntaxCost {
        SyntaxCost { declared: 4 + 2 * gap, undeclared: 2 + 2 * gap, comma: 1 + gap }
    }

    /// Returns the cost of items that are names without values.
    pub(crate) fn items(gap: u32) -> SyntaxCost {
        SyntaxCost { declared: 0, undeclared: 1 + gap, comma: 1 + gap }
    }

    /// Returns the cost in a markup; `flexible` if all white space may be left out.
    pub(crate) fn markup(markup: &Markup, flexible: bool) -> SyntaxCost {
        let comma = match markup.between {
            Gap::Comma => 1 + u32::from(!flexible),
            gap => u32::from(gap == Gap::Line && !flexible),
        };
        // The ends of names and values are a part of them.
        let each = markup.open.len() as u32 + comma;
        SyntaxCost { declared: each, undeclared: each, comma }
    }
}

/// A declared property of [`PropertyTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeclaredProperty {
    /// True if it is required.
    pub required: bool,
    /// Rule and register of its value; `None` if it cannot occur.
    pub value: Option<(RuleIx, RegisterIx)>,
    /// Bytes of its escaped name, quotes not counted.
    pub name: u32,
}

/// Undeclared properties that can come when some demands are met, and after which others are met.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct UndeclaredGroup {
    /// The demands met before.
    pub from: u32,
    /// The demands met after.
    pub to: u32,
    /// The properties.
    pub entries: Vec<Undeclared>,
}

/// A kind of undeclared properties of [`PropertyTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Undeclared {
    /// Rule and register of the names.
    pub key: (RuleIx, RegisterIx),
    /// Rule and register of the values.
    pub value: (RuleIx, RegisterIx),
    /// Number of different names, [`u32::MAX`] for more than matter.
    pub names: u32,
}

impl PropertyTable {
    /// Returns the bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        let entries = self.lists.iter().map(|l| size_of::<UndeclaredGroup>() + l.entries.len() * 16);
        let slots = self.properties.len() * size_of::<DeclaredProperty>() + self.covers.len() * 8;
        size_of::<PropertyTable>() + slots + entries.sum::<usize>()
    }

    /// Returns the number up to which properties are counted: as far as the bounds need.
    pub(crate) fn cap(&self) -> u32 {
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
    pub(crate) fn find_covers(&mut self) {
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
    pub(crate) fn satisfiable(&self) -> bool {
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
    pub(crate) fn may_take(&self, set: &SeenSet, i: u32, names: u32, met: u32) -> bool {
        let (possible, required) = self.left(set, Some(i));
        let required = required.saturating_add(self.covers[met as usize].0);
        !self.counted || self.fits(set.count, (possible, required), self.names_left(names, met))
    }

    /// Returns true if an undeclared property may come next in addition to `names` others, provided
    /// that there is a new name. The demands `met` are met after it.
    pub(crate) fn may_add(&self, set: &SeenSet, names: u32, met: u32) -> bool {
        let (possible, required) = self.left(set, None);
        let required = required.saturating_add(self.covers[met as usize].0);
        let left = self.names_left(names + 1, met);
        !self.counted || self.fits(set.count.saturating_add(1), (possible, required), left)
    }

    /// Returns true if the object may end.
    pub(crate) fn may_close(&self, set: &SeenSet) -> bool {
        (!self.counted || set.count >= self.min) && (self.ordered || self.left(set, None).1 == 0)
    }
}
