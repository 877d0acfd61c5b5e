//! Whether arrays of different items can still get something new.
//!
//! Asked behind each token, and of the tokens along which an item may become one that is there. As long as
//! the item has begun like no other, or has endlessly many values ahead (`rich`), nothing needs to be done.
//! Otherwise the ways along those it has begun like are searched until one leads away. That takes as many
//! steps as the others have bytes left in all, and few where much is possible. Counting the values that
//! are left was rejected: there are mostly too many to count, and one is enough.

use std::sync::Arc;

use crate::machine::configuration::{Machine, StepResult, Thread};
use crate::machine::lazy_dfa::DEAD_STATE;
use crate::machine::properties::seen_names::TextId;
use crate::machine::unique_items::value::{Cursor, is_space};
use crate::machine::unique_items::{Ended, Scope};

/// Steps of one search for something new. Only items that can be spelled in very many ways and are
/// nearly exhausted need so many; something new is then taken for granted.
const MAX_SEARCH: usize = 100_000;

/// Where output stands inside arrays whose item may be stuck.
#[derive(Clone)]
pub struct ExtensionProbe {
    threads: Vec<Thread>,
    text: TextId,
    /// Scopes whose item may still become one that is there, and these.
    constrained_scopes: Vec<Tight>,
}

/// A scope, and what its item may still become of what is there.
type Tight = (Scope, Arc<[Cursor]>);

/// Where a byte leads from a [`ExtensionProbe`].
pub enum ProbeStep {
    /// Nowhere, whatever was written.
    Nothing,
    /// Nowhere.
    Dead,
    /// To where every item is like no other.
    Free,
    /// Behind an item, which is new.
    Behind,
    /// To such a place again.
    Place(ExtensionProbe),
}

impl Machine {
    /// Whether some thread is in no scope whose item may be stuck.
    fn is_unconstrained(&mut self, threads: &[Thread], tight: &[Tight]) -> bool {
        let bad: Vec<Scope> = tight.iter().map(|t| t.0).collect();
        bad.is_empty() || threads.iter().any(|t| self.drop_scopes(t.stack, &bad).is_some())
    }

    /// Whether from some of the threads behind `text` every array can get items that are new to it.
    pub(crate) fn can_extend(&mut self, threads: &[Thread], text: TextId) -> bool {
        if self.has_unbounded_choice(threads, text) {
            return true;
        }
        let tight = self.constrained_scopes(threads, text);
        self.search(ExtensionProbe { threads: threads.to_vec(), text, constrained_scopes: tight })
    }

    /// The scopes whose item may still become one that is there.
    fn constrained_scopes(&mut self, threads: &[Thread], text: TextId) -> Vec<Tight> {
        let mut tight = Vec::new();
        for scope in self.scopes(threads) {
            let cursors = self.matching_items(scope, text);
            if !cursors.is_empty() {
                tight.push((scope, cursors));
            }
        }
        tight
    }

    /// The same one byte further on than where `before` was known.
    fn tight_after(&mut self, before: &[Tight], threads: &[Thread], text: TextId, b: u8) -> Vec<Tight> {
        let mut tight = Vec::new();
        for scope in self.scopes(threads) {
            let cursors = if self.scan(scope.1, text).item == text {
                self.matching_items(scope, text)
            } else if let Some((_, cursors)) = before.iter().find(|t| t.0 == scope) {
                self.followed(cursors, b)
            } else {
                continue;
            };
            if !cursors.is_empty() {
                tight.push((scope, cursors));
            }
        }
        tight
    }

    /// Searches for a way on that leads away from what is there.
    fn search(&mut self, place: ExtensionProbe) -> bool {
        if self.is_unconstrained(&place.threads, &place.constrained_scopes) {
            return true;
        }
        let mut todo = vec![place];
        let mut budget = MAX_SEARCH;
        while let Some(place) = todo.pop() {
            for b in self.telling_bytes(&place) {
                budget -= 1;
                if budget == 0 {
                    return true;
                }
                match self.search_byte(&place, b) {
                    Some(child) if self.is_unconstrained(&child.threads, &child.constrained_scopes) => {
                        return true;
                    }
                    Some(child) => todo.push(child),
                    None => {}
                }
            }
        }
        false
    }

    /// The bytes that some thread can take and that make a difference to values.
    fn telling_bytes(&mut self, node: &ExtensionProbe) -> Vec<u8> {
        let in_text = self.scan(node.constrained_scopes[0].0.1, node.text).quote > 0;
        // A blank that must be there leads on as others do.
        let spaces = in_text || self.gap > 0;
        let mut bytes: Vec<u8> = Vec::new();
        for thread in &node.threads {
            for (lo, hi, _) in self.dfa.ranges(&self.nfa, thread.local.state) {
                bytes.extend((lo..=hi).filter(|&b| spaces || !is_space(b)));
            }
        }
        bytes.sort_unstable();
        bytes.dedup();
        bytes
    }

    /// The scopes whose text may not end as it does, and those that ended an item or themselves.
    fn ends(&mut self, threads: &[Thread], text: TextId) -> (Vec<Scope>, Vec<Scope>) {
        let (mut bad, mut ended) = (Vec::new(), Vec::new());
        for scope in self.scopes(threads) {
            if self.repeats(scope, text) {
                bad.push(scope);
            } else if self.scan(scope.1, text).ended != Ended::Nothing {
                ended.push(scope);
            }
        }
        (bad, ended)
    }

    /// One byte of a search; where nothing is in doubt any more, a place without tight scopes.
    fn search_byte(&mut self, place: &ExtensionProbe, b: u8) -> Option<ExtensionProbe> {
        let text = self.written.with_byte(place.text, b, true);
        self.here = text;
        let (bad, ended) = self.ends(&place.threads, text);
        let threads = self.all_without(&place.threads, &bad);
        if threads.is_empty() {
            return None;
        }
        let mut reached = StepResult::default();
        let tight: Vec<Scope> = place.constrained_scopes.iter().map(|t| t.0).collect();
        let waiting: Vec<Scope> = tight.iter().copied().filter(|s| !ended.contains(s)).collect();
        if waiting.len() < tight.len() {
            // What ended is new; where nothing around it is in doubt, that settles it.
            let settled = self.all_without(&threads, &waiting);
            self.step(&settled, b, &mut reached);
            if !reached.is_dead() {
                return Some(ExtensionProbe { threads: settled, text, constrained_scopes: Vec::new() });
            }
        }
        self.step(&threads, b, &mut reached);
        let threads = std::mem::take(&mut reached.threads);
        let tight = self.tight_after(&place.constrained_scopes, &threads, text, b);
        (!threads.is_empty()).then_some(ExtensionProbe { threads, text, constrained_scopes: tight })
    }

    /// The place of a configuration, if an item may be stuck there.
    pub fn place(&mut self, config: u32) -> Option<ExtensionProbe> {
        let (threads, text) = (self.threads(config), self.text(config));
        let tight = self.constrained_scopes(&threads, text);
        (!tight.is_empty()).then(|| ExtensionProbe {
            threads: threads.to_vec(),
            text,
            constrained_scopes: tight,
        })
    }

    /// The bytes along which an item may become one that is there, or ends.
    pub fn probe_bytes(&mut self, place: &ExtensionProbe) -> [bool; 256] {
        let mut expected = [false; 256];
        for (scope, cursors) in &place.constrained_scopes {
            let in_text = self.scan(scope.1, place.text).quote > 0;
            expected[b',' as usize] |= !in_text;
            expected[b']' as usize] |= !in_text;
            for cursor in cursors.iter() {
                cursor.mark(&mut expected, &self.distinct.values);
            }
        }
        expected
    }

    /// Where a byte that is tried leads.
    pub fn follow_byte(&mut self, place: &ExtensionProbe, b: u8) -> ProbeStep {
        let takes = |machine: &mut Machine, t: &Thread| machine.step_state(t.local.state, b) != DEAD_STATE;
        if !place.threads.iter().any(|t| takes(self, t)) {
            return ProbeStep::Nothing;
        }
        self.tracking = true;
        let text = self.written.with_byte(place.text, b, true);
        self.here = text;
        let (bad, ended) = self.ends(&place.threads, text);
        let threads = self.all_without(&place.threads, &bad);
        let mut reached = StepResult::default();
        self.step(&threads, b, &mut reached);
        let threads = std::mem::take(&mut reached.threads);
        let followed = if reached.is_dead() && threads.is_empty() {
            ProbeStep::Dead
        } else if !ended.is_empty() || threads.is_empty() {
            ProbeStep::Behind
        } else {
            let tight = self.tight_after(&place.constrained_scopes, &threads, text, b);
            match tight.is_empty() {
                true => ProbeStep::Free,
                false => ProbeStep::Place(ExtensionProbe { threads, text, constrained_scopes: tight }),
            }
        };
        self.tracking = false;
        followed
    }

    /// Whether something new can come of a place.
    pub fn is_open_place(&mut self, place: ExtensionProbe) -> bool {
        self.tracking = true;
        let open = self.has_unbounded_choice(&place.threads, place.text) || self.search(place);
        self.tracking = false;
        open
    }
}
