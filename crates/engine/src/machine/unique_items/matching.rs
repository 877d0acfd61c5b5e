//! Whether different values can fill all positions of an array: a matching in a bipartite graph.
//!
//! # Cost
//!
//! A search over the positions for each of them (augmenting paths).

use rustc_hash::FxHashMap;

use crate::machine::unique_items::value::ValueId;

/// Returns true if each position can have a value of its list that no other has and that is not
/// taken. It is a matching by augmenting paths, each a search over the positions.
pub(super) fn all_differ(places: &[&Vec<ValueId>], taken: impl Fn(ValueId) -> bool) -> bool {
    let mut holder: FxHashMap<ValueId, usize> = FxHashMap::default();
    for place in 0..places.len() {
        // Breadth first: each value is reached from one position, so the path back is known.
        let mut from: FxHashMap<ValueId, usize> = FxHashMap::default();
        let mut todo = std::collections::VecDeque::from([place]);
        let mut free = None;
        'search: while let Some(at) = todo.pop_front() {
            for &value in places[at].iter().filter(|&&v| !taken(v)) {
                if from.contains_key(&value) {
                    continue;
                }
                from.insert(value, at);
                match holder.get(&value) {
                    Some(&other) => todo.push_back(other),
                    None => {
                        free = Some(value);
                        break 'search;
                    }
                }
            }
        }
        let Some(mut value) = free else { return false };
        loop {
            let at = from[&value];
            let held = holder.iter().find(|h| *h.1 == at).map(|h| *h.0);
            holder.insert(value, at);
            match held {
                Some(old) if at != place => {
                    holder.remove(&old);
                    value = old;
                }
                _ => break,
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills the positions one after the other, in every way.
    fn slow(places: &[&Vec<ValueId>], taken: &mut Vec<ValueId>) -> bool {
        let Some((first, rest)) = places.split_first() else { return true };
        first.iter().any(|&value| {
            let free = !taken.contains(&value);
            taken.push(value);
            let filled = free && slow(rest, taken);
            taken.pop();
            filled
        })
    }

    #[test]
    fn matchings_are_found_where_there_are_any() {
        let (mut found, mut state) = (0, 1u64);
        for _ in 0..2_000 {
            let mut random = |n: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % n
            };
            let lists: Vec<Vec<ValueId>> =
                (0..random(6)).map(|_| (0..random(4)).map(|_| random(6) as ValueId).collect()).collect();
            let (places, gone) = (lists.iter().collect::<Vec<_>>(), random(6) as ValueId);
            let fast = all_differ(&places, |v| v == gone);
            assert_eq!(fast, slow(&places, &mut vec![gone]), "{lists:?} without {gone}");
            found += usize::from(fast);
        }
        assert!((200..1_800).contains(&found), "{found} of 2000");
    }
}
