//! The entries of a cache that the rows of a sequence see: causal, in a window, and along branches.
//!
//! # Cost
//!
//! A mask has one number for each row and entry. One row needs no mask: what it sees is at most two
//! ranges of entries.

use std::ops::Range;

use crate::model::batch::{Segment, Span};

/// The rows of one sequence in a chunk.
pub(super) struct SequenceRows<'a> {
    pub segment: usize,
    pub spans: &'a [Span],
    /// Rows in the chunk.
    pub rows: Range<usize>,
    /// Entry of the first row in the cache; the others follow.
    pub entry: usize,
}

/// The entries that some rows see.
#[derive(Debug, PartialEq)]
pub(super) enum View {
    /// One row sees these ranges, of which the second may be empty, in their order.
    Ranges(Range<usize>, Range<usize>),
    /// Several rows see these entries, where the mask `[row][entry]` is 0. Elsewhere it is negative
    /// infinity.
    Masked(Range<usize>, Vec<f32>),
}

/// Groups the spans of a chunk by their sequences.
pub(super) fn parts<'a>(segments: &[Segment], mut spans: &'a [Span]) -> Vec<SequenceRows<'a>> {
    let mut parts = Vec::new();
    while let Some(first) = spans.first() {
        let (own, others) = spans.split_at(spans.iter().take_while(|s| s.segment == first.segment).count());
        let rows = own.iter().map(|s| s.tokens.len()).sum::<usize>();
        let entry = segments[first.segment].cache.len();
        parts.push(SequenceRows {
            segment: first.segment,
            spans: own,
            rows: first.first..first.first + rows,
            entry,
        });
        spans = others;
    }
    parts
}

/// Returns the entries that a row at a position of a span sees: a range before the branch, and one
/// from the branch on.
fn seen(span: &Span, position: usize, window: usize) -> [Range<usize>; 2] {
    let (from, end) = ((position + 1).saturating_sub(window), position + 1);
    let fork = span.fork.min(end);
    [from.min(fork)..fork, from.max(fork) + span.shift..end + span.shift]
}

impl SequenceRows<'_> {
    /// Returns what the rows see of the last `window` positions.
    pub fn view(&self, window: usize) -> View {
        if let ([span], 1) = (self.spans, self.rows.len()) {
            let [before, branch] = seen(span, span.start, window);
            return match (before.is_empty(), before.end == branch.start) {
                (true, _) => View::Ranges(branch, 0..0),
                (_, true) => View::Ranges(before.start..branch.end, 0..0),
                _ => View::Ranges(before, branch),
            };
        }
        let rows = || self.spans.iter().flat_map(|s| s.positions().map(move |p| seen(s, p, window)));
        let first = rows().flatten().filter(|r| !r.is_empty()).map(|r| r.start).min().unwrap_or(0);
        let entries = first..self.entry + self.rows.len();
        let mut mask = vec![f32::NEG_INFINITY; self.rows.len() * entries.len()];
        for (row, ranges) in mask.chunks_exact_mut(entries.len()).zip(rows()) {
            for range in ranges.into_iter().filter(|r| !r.is_empty()) {
                row[range.start - first..range.end - first].fill(0.0);
            }
        }
        View::Masked(entries, mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::batch::{Branch, chunks};
    use crate::model::{KvCache, KvPrecision, ModelConfig};

    /// For each entry after `cached` ones its position and its branch, 0 for the trunk.
    fn entries(cached: usize, trunk: usize, branches: &[Branch]) -> Vec<(usize, usize, usize)> {
        let whole = cached + trunk;
        let mut all: Vec<_> = (0..whole).map(|p| (p, 0, whole)).collect();
        for (i, b) in branches.iter().enumerate() {
            all.extend((0..b.len).map(|j| (cached + b.after + j, i + 1, cached + b.after)));
        }
        all
    }

    #[test]
    fn rows_see_their_trunk_their_branch_and_their_window() {
        let config = br#"{"model_type": "llama", "hidden_size": 4, "intermediate_size": 4,
            "num_attention_heads": 2, "num_hidden_layers": 1, "max_position_embeddings": 64, "vocab_size": 9}"#;
        let config = ModelConfig::from_json(config).unwrap();
        let mut masked = 0;
        for case in 0..400usize {
            let (cached, trunk) = (case % 5 * 3, 1 + case / 5 % 4);
            let count = case / 20 % 3;
            let branches: Vec<Branch> = (0..count)
                .map(|i| Branch { after: (case + i) % (trunk + 1), len: 1 + (case / 7 + i) % 3 })
                .collect();
            let window = [usize::MAX, 1, 2, 4][case / 60 % 4];
            let most = [256, 1, 2][case / 3 % 3];
            let tokens = vec![0; trunk + branches.iter().map(|b| b.len).sum::<usize>()];
            let mut cache = KvCache::new(&config, KvPrecision::F32);
            cache.set_len_for_timing(cached);
            let all = entries(cached, trunk, &branches);
            let segment =
                |cache| Segment { tokens: &tokens, branches: &branches, cache, rows: 0..0, only: &[] };
            let segments = [segment(&mut cache)];
            let mut row = cached;
            for spans in chunks(&segments, most) {
                for part in parts(&segments, &spans) {
                    let (seen, rows) = match part.view(window) {
                        View::Ranges(a, b) => (vec![a.chain(b).collect::<Vec<_>>()], 1),
                        View::Masked(range, mask) => {
                            masked += 1;
                            let rows = mask.chunks(range.len()).map(|m| {
                                range.clone().zip(m).filter(|(_, m)| **m == 0.0).map(|(e, _)| e).collect()
                            });
                            (rows.collect(), part.rows.len())
                        }
                    };
                    assert_eq!((seen.len(), rows), (part.rows.len(), part.rows.len()));
                    for seen in seen {
                        let (position, branch, fork) = all[row];
                        let want: Vec<usize> = (0..=row)
                            .filter(|&e| {
                                let (p, b, _) = all[e];
                                let on_path = b == branch || b == 0 && p < fork;
                                on_path && p <= position && position - p < window
                            })
                            .collect();
                        assert_eq!(seen, want, "case {case}, row {row}");
                        row += 1;
                    }
                }
                let len = row;
                segments[0].cache.set_len_for_timing(len);
            }
            assert_eq!(row, all.len());
        }
        assert!(masked > 50, "{masked}");
    }
}
