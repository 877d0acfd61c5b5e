//! Map by name for the few properties of one object, in insertion order.
//!
//! # Cost
//!
//! A few names are compared one by one; beyond that there is an index.
//!
//! # Alternatives considered
//!
//! A hash map from the start was rejected: one for each object, and the code that grows it, are a
//! noticeable part of compiling a small schema. Its iteration order also carries no meaning.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::constraint::json::document::Symbol;

/// Up to this number, names are compared one by one.
const MAX_SCANNED_NAMES: usize = 16;

/// Values by name, of which N need no allocation.
#[derive(Debug, Clone)]
pub(super) struct SmallMap<T, const N: usize> {
    list: SmallVec<[(Symbol, T); N]>,
    /// Position of each name in the list, once there are more than [`MAX_SCANNED_NAMES`].
    index: FxHashMap<Symbol, u32>,
}

impl<T, const N: usize> Default for SmallMap<T, N> {
    fn default() -> Self {
        SmallMap { list: SmallVec::new(), index: FxHashMap::default() }
    }
}

impl<T, const N: usize> SmallMap<T, N> {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn contains(&self, name: Symbol) -> bool {
        self.position(name).is_some()
    }

    pub(super) fn get(&self, name: Symbol) -> Option<&T> {
        self.position(name).map(|at| &self.list[at].1)
    }

    pub(super) fn get_mut(&mut self, name: Symbol) -> Option<&mut T> {
        self.position(name).map(|at| &mut self.list[at].1)
    }

    /// Adds a value for a name that has none; returns true if it had none.
    pub(super) fn insert(&mut self, name: Symbol, value: T) -> bool {
        let new = !self.contains(name);
        if new {
            self.push(name, value);
        }
        new
    }

    /// Reserves memory for `more` further entries.
    pub(super) fn reserve(&mut self, more: usize) {
        self.list.reserve(more);
    }

    /// Returns the names.
    pub(super) fn names(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.list.iter().map(|entry| entry.0)
    }

    fn push(&mut self, name: Symbol, value: T) {
        self.list.push((name, value));
        if self.list.len() == MAX_SCANNED_NAMES + 1 {
            self.index.extend(self.list.iter().map(|entry| entry.0).zip(0..));
        } else if self.list.len() > MAX_SCANNED_NAMES {
            self.index.insert(name, self.list.len() as u32 - 1);
        }
    }

    fn position(&self, name: Symbol) -> Option<usize> {
        if self.list.len() <= MAX_SCANNED_NAMES {
            return self.list.iter().position(|entry| entry.0 == name);
        }
        self.index.get(&name).map(|&at| at as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_names_are_found_and_stay_in_order() {
        let mut named = SmallMap::<u32, 4>::default();
        let mut order: Vec<Symbol> = Vec::new();
        for i in 0..200u32 {
            let name = Symbol(i * i % 83);
            assert_eq!(named.contains(name), order.contains(&name));
            assert_eq!(named.insert(name, i), !order.contains(&name));
            if !order.contains(&name) {
                order.push(name);
            }
            assert_eq!(named.names().collect::<Vec<_>>(), order);
            assert!(named.get(name).is_some_and(|&first| first * first % 83 == name.0));
            assert!(!named.contains(Symbol(83)));
        }
    }
}
