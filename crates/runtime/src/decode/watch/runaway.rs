//! Runaway values: a string or a list of items that repeats itself, or nesting without end. What
//! counts as one depends on the text so far alone.
//!
//! The extents are far above what people write: a ruler of equal signs or an array of equal values
//! is shorter. A string may repeat itself if the source does so in the same way. Numbers have a
//! limited number of digits, and white space has a limited length, so they cannot run away.
//!
//! # Cost
//!
//! Two searches for a [`repetition`]. In an array of many items, another scan of the array.

use rustc_hash::FxHashMap;

use super::repetition::{Extent, repetition};
use crate::decode::utf8::ends_whole;
use ffwd_engine::json_scan::{JsonScan, ScanStep};

/// Deepest nesting that is watched, which bounds the cost of a copy of the scan.
pub(super) const MAX_DEPTH: usize = 1000;
/// The least repetition of a string.
const IN_STRING: Extent = Extent { bytes: 160, periods: 4 };
/// The least repetition of items or of openings.
const IN_CONTAINER: Extent = Extent { bytes: 256, periods: 8 };

/// Number of items, and of bytes in them, in which one item may dominate.
const LAST_ITEMS: usize = 32;
const LAST_ITEM_BYTES: usize = 256;
/// An item dominates with at least this share of the last ones: 3 of 4.
const DOMINANT: (usize, usize) = (3, 4);

/// A value that repeats itself, by the offset at which it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runaway {
    /// The open string repeats a text.
    String { start: usize },
    /// The array or object at this depth repeats items.
    Items { start: usize, depth: usize },
    /// Containers open each other again and again.
    Nesting { start: usize },
}

impl Runaway {
    /// Returns the offset at which the value begins.
    pub(super) fn start(self) -> usize {
        match self {
            Runaway::String { start } | Runaway::Items { start, .. } | Runaway::Nesting { start } => start,
        }
    }
}

/// Returns the runaway value at the end of `text`, whose position is `scan`. Nothing is a runaway
/// within a character or an escape, where no value can end.
pub(super) fn runaway(text: &[u8], scan: &JsonScan, source: &str) -> Option<Runaway> {
    if let Some(string) = scan.string() {
        if string.in_escape() || !ends_whole(text) {
            return None;
        }
        let start = string.start;
        if let Some(found) = repetition(&text[start + 1..], IN_STRING) {
            let repeated = &text[start + 1 + found.start..];
            return (!is_in(source, repeated)).then_some(Runaway::String { start });
        }
    }
    let open = scan.containers();
    let Some(found) = repetition(text, IN_CONTAINER) else {
        let crowded = |depth: &usize| {
            let array = &open[*depth];
            !array.object && array.ended >= LAST_ITEMS && is_dominated(&text[array.start..], source)
        };
        let depth = (0..open.len()).rev().find(crowded)?;
        return Some(Runaway::Items { start: open[depth].start, depth });
    };
    // Items are closed before the next one, openings of earlier periods are still there.
    let last = text.len() - found.period;
    if let Some(nested) = open.iter().find(|c| (found.start..last).contains(&c.start)) {
        return Some(Runaway::Nesting { start: nested.start });
    }
    let depth = open.iter().rposition(|c| c.start < found.start)?;
    Some(Runaway::Items { start: open[depth].start, depth })
}

/// Returns true if one string, array or object makes up most of the last items of an open array. A
/// string does not count if it occurs in the source as often as in the array.
fn is_dominated(array: &[u8], source: &str) -> bool {
    let mut scan = JsonScan::of_first_value(MAX_DEPTH);
    let (mut items, mut start) = (Vec::new(), 1);
    for (at, byte) in array.iter().enumerate() {
        if scan.feed(*byte) == ScanStep::Separates && scan.containers().len() == 1 {
            items.push(array[start..at].trim_ascii());
            start = at + 1;
        }
    }
    let mut bytes = 0;
    let enough = |(i, item): (usize, &&[u8])| {
        bytes += item.len();
        i + 1 >= LAST_ITEMS && bytes >= LAST_ITEM_BYTES
    };
    let Some(n) = items.iter().rev().enumerate().position(enough) else { return false };
    let last = &items[items.len() - n - 1..];
    let mut counts: FxHashMap<&[u8], usize> = FxHashMap::default();
    last.iter().for_each(|&item| *counts.entry(item).or_default() += 1);
    let most = counts.iter().find(|(_, count)| **count * DOMINANT.1 >= last.len() * DOMINANT.0);
    let Some((item, _)) = most else { return false };
    match item.first() {
        Some(b'"') => {
            let text = serde_json::from_slice::<String>(item).unwrap_or_default();
            let written = items.iter().filter(|other| *other == item).count();
            text.is_empty() || source.matches(&text).count() < written
        }
        first => matches!(first, Some(b'[' | b'{')),
    }
}

/// Returns true if the source contains a part of a JSON string, which may begin within a character
/// or an escape.
fn is_in(source: &str, part: &[u8]) -> bool {
    /// Bytes of the longest escape.
    const LONGEST: usize = 6;
    let decode = |part: &[u8]| serde_json::from_slice::<String>(&[b"\"", part, b"\""].concat()).ok();
    let decoded = (0..LONGEST.min(part.len())).find_map(|skipped| decode(&part[skipped..]));
    decoded.is_some_and(|text| source.contains(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, source: &str) -> Option<Runaway> {
        let mut scan = JsonScan::of_first_value(MAX_DEPTH);
        text.bytes().for_each(|byte| {
            scan.feed(byte);
        });
        runaway(text.as_bytes(), &scan, source)
    }

    #[test]
    fn every_kind_is_found() {
        let many = |unit: &str| unit.repeat(300 / unit.len() + 8);
        let string = format!("{{\"a\":\"Dear Ada, {}", many("really, "));
        assert_eq!(found(&string, ""), Some(Runaway::String { start: 5 }));
        let items = format!("{{\"a\":[\"x\",{}", many("{\"b\":[1],\"c\":\"d\"},"));
        assert_eq!(found(&items, ""), Some(Runaway::Items { start: 5, depth: 1 }));
        for end in ["{", "{\"b\":[", "{\"b\":[1],\"c\":\"", "{\"b\":[1],\"c\":\"d\"}"] {
            let items = format!("{items}{end}");
            assert_eq!(found(&items, ""), Some(Runaway::Items { start: 5, depth: 1 }), "{end}");
        }
        let nested = format!("{{\"a\":[{}", many("{\"b\":[1,"));
        assert!(matches!(found(&nested, ""), Some(Runaway::Nesting { .. })));
    }

    #[test]
    fn an_item_may_dominate_with_exceptions() {
        let array = |n: usize| {
            let item = |i: usize| if i % 7 == 3 { format!("\"x{i},\",") } else { "\"lamp, old\",".into() };
            format!("{{\"b\":[1],\"a\":[{}", (0..n).map(item).collect::<String>())
        };
        let expected = Some(Runaway::Items { start: 13, depth: 1 });
        assert_eq!((found(&array(32), ""), found(&array(31), "")), (expected, None));
        assert_eq!(found(&format!("{}\"la", array(40)), "lamp, old"), expected);
        assert_eq!(found(&array(40), &"A lamp, old. ".repeat(40)), None, "the source has as many");
        assert_eq!(found(&array(40).replace("\"lamp, old\"", "3"), ""), None, "numbers");
        let tosses: String =
            (0..80).map(|i| if i * i % 11 < 5 { "\"heads\"," } else { "\"tails\"," }).collect();
        assert_eq!(found(&format!("{{\"a\":[{tosses}"), ""), None);
    }

    #[test]
    fn what_people_write_is_not_one() {
        let rule = format!("{{\"a\":\"Title\\n{}", "=".repeat(159));
        let flags = format!("{{\"a\":[{}", "0,".repeat(120));
        let states = format!("{{\"a\":[{}", "\"ok\",".repeat(50));
        let lines = format!("{{\"a\":[{}", "{\"name\":\"lamp\",\"price\":\"12.00\"},".repeat(7));
        let members: String = (0..60).map(|i| format!("\"field_{i}\":null,")).collect();
        for text in [rule, flags, states, lines, format!("{{{members}")] {
            assert_eq!(found(&text, ""), None, "{text}");
        }
    }

    /// No record and no text of the evaluation sets is a runaway at any byte.
    #[test]
    fn real_records_and_texts_are_none() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/eval");
        let mut checked = 0;
        for set in ["handwritten_dev", "synthetic_heldout", "synthetic_seen", "toolcalls"] {
            let lines = std::fs::read_to_string(format!("{folder}/{set}.jsonl")).unwrap();
            for line in lines.lines() {
                // The whole line is a JSON text, too: source, schema and record.
                let (mut scan, line) = (JsonScan::of_first_value(MAX_DEPTH), line.as_bytes());
                for at in 0..line.len() {
                    scan.feed(line[at]);
                    let found = runaway(&line[..at + 1], &scan, "");
                    assert_eq!(found, None, "{}", String::from_utf8_lossy(&line[..at + 1]));
                }
                checked += line.len();
            }
        }
        assert!(checked > 100_000);
    }

    #[test]
    fn a_repetition_of_the_source_may_be_copied() {
        let rule = "=\u{e9}\n".repeat(100);
        let escaped = format!("{{\"a\":\"{}", rule.replace('\n', "\\n"));
        assert_eq!(found(&escaped, &format!("x{rule}y")), None);
        assert!(found(&escaped, "").is_some());
        assert!(found(&escaped, &rule[..rule.len() - 8]).is_some(), "more than the source has");
        let (mut scan, cut) = (JsonScan::of_first_value(MAX_DEPTH), &escaped.as_bytes()[..escaped.len() - 3]);
        cut.iter().for_each(|byte| {
            scan.feed(*byte);
        });
        assert_eq!(runaway(cut, &scan, ""), None, "within a character");
    }
}
