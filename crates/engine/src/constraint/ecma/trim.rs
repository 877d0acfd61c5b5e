//! Removal of the parts of a pattern that the text around a match absorbs.

use regex_syntax::hir::{Hir, HirKind, Repetition};

/// Cuts repetitions at an open end, `left` or `right` of the part, to their minimum: `any* X{2,9} Y` becomes `any* X{2} Y`. This
/// also holds with anchors inside `X`, because a dropped iteration takes its condition with it. The
/// recursion follows the nesting, which the parser limits.
pub(super) fn trim(hir: Hir, left: bool, right: bool) -> Hir {
    // Most parts stay unchanged, and taking one apart and rebuilding it allocates.
    if let HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) = hir.kind() {
        return hir;
    }
    match hir.into_kind() {
        HirKind::Repetition(Repetition { min, sub, .. }) => {
            Hir::repetition(Repetition { min, max: Some(min), greedy: true, sub })
        }
        HirKind::Alternation(parts) => {
            Hir::alternation(parts.into_iter().map(|p| trim(p, left, right)).collect())
        }
        HirKind::Concat(parts) => trim_sequence(parts, left, right),
        HirKind::Capture(capture) => trim(*capture.sub, left, right),
        // Returned above.
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => Hir::empty(),
    }
}

fn trim_sequence(parts: Vec<Hir>, left: bool, right: bool) -> Hir {
    let mut head = Vec::with_capacity(parts.len());
    let mut parts = parts.into_iter();
    let mut tail = None;
    // A part that became empty exposes its neighbour.
    while left && let Some(first) = parts.next() {
        let first = trim(first, true, right && parts.len() == 0);
        if *first.kind() != HirKind::Empty {
            head.push(first);
            break;
        }
    }
    while right && let Some(last) = parts.next_back() {
        let last = trim(last, left && head.is_empty(), true);
        if *last.kind() != HirKind::Empty {
            tail = Some(last);
            break;
        }
    }
    head.extend(parts);
    head.extend(tail);
    Hir::concat(head)
}
