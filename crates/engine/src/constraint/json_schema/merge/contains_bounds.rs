//! Bounds on the number of items that satisfy a schema: which of them assert nothing, and which
//! cannot be met.
//!
//! # Cost
//!
//! Two emptiness checks for each bound and each item of the prefix.

use super::super::shape::{ArrayPart, lower_max};
use super::super::term::{Terms, add_term};
use super::normalize::Normalizer;
use crate::error::Result;

impl ArrayPart {
    /// Returns the first index from which all items have the same terms.
    pub(crate) fn uniform_from(&self) -> usize {
        let from = self.contains.iter().map(|c| c.from as usize).max().unwrap_or(0);
        self.prefix.len().max(from)
    }

    /// Returns the terms of the item at an index.
    pub(crate) fn item(&self, at: usize) -> &Terms {
        self.prefix.get(at).unwrap_or(&self.rest)
    }
}

impl Normalizer<'_> {
    /// Returns true if no item can count for a condition that requires one; `false` if that cannot
    /// be decided.
    pub(crate) fn contains_nothing(&mut self, part: &ArrayPart) -> Result<bool> {
        for condition in part.contains.iter().filter(|c| c.min > 0) {
            let mut possible = false;
            for at in condition.from as usize..=part.uniform_from() {
                let mut terms = part.item(at).clone();
                add_term(&mut terms, condition.counts);
                possible |= part.max.is_none_or(|m| at < m as usize) && !self.value_empty(&terms)?;
            }
            if !possible {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Drops conditions for which every item counts, or none does: they bound the number of items,
    /// or assert nothing. Lists of different texts that must differ from each other are of this
    /// kind.
    pub(crate) fn drop_trivial_conditions(&mut self, part: &mut ArrayPart) -> Result<()> {
        let mut kept = Vec::new();
        for condition in std::mem::take(&mut part.contains) {
            let (mut all, mut none) = (true, condition.min == 0);
            for at in condition.from as usize..=part.uniform_from().max(condition.from as usize) {
                if part.max.is_some_and(|max| at >= max as usize) {
                    break;
                }
                for (holds, term) in [(&mut all, condition.fails), (&mut none, condition.counts)] {
                    let mut terms = part.item(at).clone();
                    add_term(&mut terms, term);
                    *holds = *holds && self.value_empty(&terms)?;
                }
            }
            if all {
                let least = if condition.min > 0 { condition.from.saturating_add(condition.min) } else { 0 };
                part.min = part.min.max(least);
                if let Some(max) = condition.max {
                    lower_max(&mut part.max, condition.from.saturating_add(max));
                }
            } else if !none {
                kept.push(condition);
            }
        }
        part.contains = kept;
        Ok(())
    }
}
