//! Character classes as nodes over UTF-8 bytes.
//!
//! The ASCII part of a set of Unicode scalar values becomes a [`Node::Class`]. The part above ASCII
//! consists of the UTF-8 sequences of `regex_syntax::utf8`, folded into a minimal prefix tree.
//! Equal tails are one node, and leads with equal tails share one class.
//!
//! # Cost
//!
//! Linear in the number of sequences (about 750 for `\p{L}`, which yields some 300 byte states).
//!
//! # Alternatives considered
//!
//! Lowering each sequence separately was rejected: it is three times as large, and its
//! determinisation starts from hundreds of branches.

use regex_syntax::hir::ClassUnicode;
use regex_syntax::utf8::{Utf8Sequence, Utf8Sequences};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use crate::char_lang::char_class::unicode;
use crate::constraint::ir::{Ir, Node, NodeId, Parts, Ranges};

/// Returns one character out of `ranges`, as UTF-8; [`Node::Never`] if there is none. Each class is
/// built once per [`Ir`].
pub(crate) fn class(ranges: &[(char, char)], ir: &mut Ir) -> NodeId {
    if let Some(&node) = ir.classes.get(ranges) {
        return node;
    }
    let node = lowered(&unicode(ranges), ir);
    ir.classes.insert(ranges.into(), node);
    node
}

fn lowered(class: &ClassUnicode, ir: &mut Ir) -> NodeId {
    let ascii: Ranges = class
        .ranges()
        .iter()
        .filter(|r| r.start().is_ascii())
        .map(|r| (r.start() as u8, (r.end() as u32).min(0x7f) as u8))
        .collect();
    match class.ranges().last() {
        Some(last) if last.end().is_ascii() => return ir.push(Node::Class(ascii)),
        // Most negated classes, and the dot: they share all characters beyond ASCII.
        Some(last) if last.start() <= '\u{80}' && last.end() == char::MAX && !ascii.is_empty() => {
            let wide = self::class(&[('\u{80}', char::MAX)], ir);
            let ascii = ir.push(Node::Class(ascii));
            return ir.union([ascii, wide].as_slice());
        }
        _ => {}
    }
    let sequences: Vec<Utf8Sequence> =
        class.ranges().iter().flat_map(|r| Utf8Sequences::new(r.start(), r.end())).collect();
    if sequences.is_empty() {
        return ir.push(Node::Never);
    }
    let mut memo = FxHashMap::default();
    level(&sequences, 0, &mut memo, ir)
}

/// Byte ranges that lead to the same rest (`None`: the character ends).
type Branch = (Ranges, Option<NodeId>);

/// Returns the tree below the byte at `depth` of sequences that agree before it. The sequences come
/// in code point order, so ranges at one depth are disjoint or equal (and then adjacent in the
/// list). A range of several leading bytes arises only if every continuation is in the set.
fn level(
    sequences: &[Utf8Sequence],
    depth: usize,
    memo: &mut FxHashMap<SmallVec<[Branch; 2]>, NodeId>,
    ir: &mut Ir,
) -> NodeId {
    let range = |s: &Utf8Sequence| (s.as_slice()[depth].start, s.as_slice()[depth].end);
    let mut branches: SmallVec<[Branch; 2]> = SmallVec::new();
    for group in sequences.chunk_by(|a, b| range(a) == range(b)) {
        let rest = if group[0].len() > depth + 1 { Some(level(group, depth + 1, memo, ir)) } else { None };
        let (lo, hi) = range(&group[0]);
        match branches.iter_mut().find(|(_, r)| *r == rest) {
            Some((bytes, _)) => match bytes.last_mut() {
                Some(last) if last.1.checked_add(1) == Some(lo) => last.1 = hi,
                _ => bytes.push((lo, hi)),
            },
            None => branches.push((smallvec![(lo, hi)], rest)),
        }
    }
    if let Some(&node) = memo.get(&branches) {
        return node;
    }
    let mut parts = Parts::new();
    for (bytes, rest) in &branches {
        let lead = ir.push(Node::Class(bytes.clone()));
        parts.push(match rest {
            None => lead,
            Some(rest) => match ir.node(*rest) {
                Node::Concat(tail) => {
                    let all = std::iter::once(lead).chain(tail.iter().copied()).collect();
                    ir.push(Node::Concat(all))
                }
                _ => ir.push(Node::Concat(smallvec![lead, *rest])),
            },
        });
    }
    let node = ir.union(parts);
    memo.insert(branches, node);
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::char_lang::char_class::{ANY_CHAR, ranges};
    use crate::constraint::regular::hir_to_ir::states;
    use crate::constraint::test_reference::matches;

    fn check(ranges: &[(char, char)]) -> u64 {
        let mut ir = Ir::new();
        let node = class(ranges, &mut ir);
        let mut buffer = [0; 4];
        // Every code point below U+3000, then a stride that is coprime to the block sizes.
        for code in (0..0x3000).chain((0x3000..0x11_0000).step_by(97)) {
            let Some(c) = char::from_u32(code) else { continue };
            let expected = ranges.iter().any(|&(lo, hi)| lo <= c && c <= hi);
            let text = c.encode_utf8(&mut buffer).as_bytes();
            assert_eq!(matches(&ir, node, text), expected, "U+{code:04X} in {ranges:?}");
        }
        for bad in [&[0xC0, 0x80][..], &[0xED, 0xA0, 0x80], &[0xF4, 0x90, 0x80, 0x80], &[0x80], &[], b"aa"] {
            assert!(!matches(&ir, node, bad), "{bad:x?}");
        }
        states(&ir, 0, node)
    }

    #[test]
    fn classes_hold_exactly_their_characters() {
        assert_eq!(check(&[('a', 'z'), ('0', '9')]), 1);
        assert!(check(&[ANY_CHAR]) < 30);
        check(&[('\0', '!'), ('#', char::MAX)]);
        check(&[('\u{80}', char::MAX)]);
        check(&[('x', '\u{7f}')]);
        check(&[('\u{7f}', '\u{800}'), ('é', 'é')]);
        check(&[('\0', '\u{d7ff}'), ('\u{10000}', '\u{10ffff}')]);
        check(&[('\u{1000}', '\u{2fff}'), ('\u{3005}', '\u{fffd}'), ('\u{1f600}', '\u{1f64f}')]);
    }

    #[test]
    fn letters_stay_small() {
        let hir = regex_syntax::parse(r"\p{L}").unwrap();
        let regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(letters)) = hir.kind() else {
            panic!("not a class")
        };
        let size = check(&ranges(letters).collect::<Vec<_>>());
        assert!(size < 900, "{size} states");
    }

    #[test]
    fn an_empty_class_matches_nothing() {
        let mut ir = Ir::new();
        let node = class(&[], &mut ir);
        assert_eq!(*ir.node(node), Node::Never);
    }
}
