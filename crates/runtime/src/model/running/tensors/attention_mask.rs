//! The entries of a cache that the rows of a sequence see: causal, and in a window.
//!
//! # Cost
//!
//! A mask has one number for each row and entry. One row needs no mask: it sees a range of entries.

use std::ops::Range;

use crate::model::running::batch::Span;

/// Returns the entries that the rows of a span see of the last `window` positions, and for several
/// rows the mask `[row][entry]`, which is 0 where a row sees an entry. Elsewhere it is negative
/// infinity.
pub(super) fn attention_mask(span: &Span, window: usize) -> (Range<usize>, Option<Vec<f32>>) {
    let seen = |position: usize| (position + 1).saturating_sub(window)..position + 1;
    let positions = span.positions();
    if positions.len() == 1 {
        return (seen(positions.start), None);
    }
    let entries = seen(positions.start).start..positions.end;
    let mut mask = vec![f32::NEG_INFINITY; positions.len() * entries.len()];
    for (row, position) in mask.chunks_exact_mut(entries.len()).zip(positions) {
        let seen = seen(position);
        row[seen.start - entries.start..seen.end - entries.start].fill(0.0);
    }
    (entries, Some(mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_see_the_positions_up_to_their_own_in_their_window() {
        for (start, rows, window) in
            (0..9).flat_map(|s| (1..5).flat_map(move |r| [1, 2, 4, usize::MAX].map(|w| (s, r, w))))
        {
            let span = Span { segment: 0, tokens: 7..7 + rows, first: 3, start, wanted: 0..0 };
            let (entries, mask) = attention_mask(&span, window);
            assert_eq!(mask.is_none(), rows == 1);
            let mask = mask.unwrap_or_else(|| vec![0.0; entries.len()]);
            for (row, position) in mask.chunks(entries.len()).zip(start..) {
                let seen = entries.clone().zip(row).filter(|(_, mask)| **mask == 0.0).map(|(entry, _)| entry);
                let want = (0..start + rows).filter(|&e| e <= position && position - e < window);
                assert_eq!(seen.collect::<Vec<_>>(), want.collect::<Vec<_>>(), "{start} {rows} {window}");
            }
        }
    }
}
