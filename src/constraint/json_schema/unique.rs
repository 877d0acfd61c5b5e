//! `uniqueItems` where the items are few literals: an automaton over the sets of those already written.
//!
//! States: two to the number of literals, of which there may be [`MAX_LITERALS`]. For items from a larger
//! or endless language a run-time memory of what was written would be needed; there the keyword is
//! refused.

use super::goals::Goals;
use super::number::Number;
use crate::constraint::ir::{AutomatonState, Bytes, Node, NodeId};

/// Most literals of which the items can be.
const MAX_LITERALS: usize = 10;

impl Goals<'_> {
    /// Arrays of `min` to `max` different literals of a node; `None` if its texts are too many or have
    /// parts.
    pub fn unique_literals(&mut self, items: NodeId, min: u32, max: Option<u32>) -> Option<NodeId> {
        let words: Vec<Bytes> = match self.front.ir.node(items) {
            Node::Bytes(word) => vec![word.clone()],
            Node::Literals(words) if words.len() <= MAX_LITERALS => {
                words.iter().map(|w| Bytes::from_slice(w)).collect()
            }
            _ => return None,
        };
        // Values that are spelled differently may be equal.
        let number = |word: &Bytes| -> Option<Number> {
            let text = std::str::from_utf8(word).ok()?;
            text.starts_with(|c: char| c == '-' || c.is_ascii_digit()).then(|| Number::new(text))
        };
        for (i, a) in words.iter().enumerate() {
            let twin = |b: &Bytes| number(a).is_some_and(|x| number(b).is_some_and(|y| x == y));
            if matches!(a.first(), Some(b'[' | b'{')) || words[..i].iter().any(twin) {
                return None;
            }
        }
        let most = max.map_or(words.len(), |m| words.len().min(m as usize));
        if min as usize > most {
            return Some(self.never);
        }
        let mut first = Vec::new();
        let mut later = Vec::new();
        for word in words {
            let word = self.front.ir.push(Node::Bytes(word));
            first.push(self.item_node(word, false));
            later.push(self.item_node(word, true));
        }
        let state = |written: u32| {
            let count = written.count_ones() as usize;
            let nodes = if written == 0 { &first } else { &later };
            let free = (0..nodes.len()).filter(|i| written >> i & 1 == 0 && count < most);
            let edges = free.map(|i| (nodes[i], written | 1 << i)).collect();
            AutomatonState { accept: count >= min as usize, edges }
        };
        let states = (0..1u32 << first.len()).map(state).collect();
        Some(self.bracketed(states))
    }
}
