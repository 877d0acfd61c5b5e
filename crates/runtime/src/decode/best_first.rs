//! Entries of a best-first search over tokens: the most probable one is first in a heap.

use std::cmp::Ordering;

/// An open entry of a search.
pub(super) struct SearchEntry<K, V> {
    /// The log-probability.
    pub log: f64,
    /// Among equals the first key wins: a total order makes the search deterministic.
    pub key: K,
    pub value: V,
}

impl<K: Ord, V> Ord for SearchEntry<K, V> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.log.total_cmp(&other.log).then_with(|| other.key.cmp(&self.key))
    }
}

impl<K: Ord, V> PartialOrd for SearchEntry<K, V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord, V> PartialEq for SearchEntry<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<K: Ord, V> Eq for SearchEntry<K, V> {}
