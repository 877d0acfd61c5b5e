//! The leaf values of a JSON text with their JSON pointers and byte ranges: strings, numbers,
//! literals, and empty objects and arrays.
//!
//! # Cost
//!
//! One pass, and the pointer of each leaf.
//!
//! # Alternatives considered
//!
//! Parsing into a tree was rejected: parsers of trees drop the positions, and a truncated text has
//! none.

use std::ops::Range;

use ffwd_engine::json_scan::{JsonScan, ScanStep, decoded};

/// A leaf value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafValue {
    /// JSON pointer; empty for the whole text.
    pub pointer: String,
    /// Its bytes in the text, with quotation marks.
    pub bytes: Range<usize>,
}

/// Returns the leaf values of a JSON text, in order. A text that is not JSON, or is cut, gives the
/// values up to there.
pub fn leaf_values(text: &[u8]) -> Vec<LeafValue> {
    let mut scan = JsonScan::of_first_value(usize::MAX);
    let mut leaves = Vec::new();
    for (at, &byte) in text.iter().enumerate() {
        if expects_name(&scan)
            && !matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'}' | b']' | b',' | b':')
        {
            return leaves;
        }
        if let Some(start) = scan.scalar_before(byte) {
            leaves.push(LeafValue { pointer: scan.pointer(text), bytes: start..at });
            if scan.containers().is_empty() {
                return leaves;
            }
        }
        match scan.feed(byte) {
            ScanStep::Invalid => return leaves,
            ScanStep::ClosesString { start, .. } if decoded(&text[start..=at]).is_none() => return leaves,
            ScanStep::ClosesString { start, name: false } | ScanStep::Closes { start, is_empty: true } => {
                leaves.push(LeafValue { pointer: scan.pointer(text), bytes: start..at + 1 });
            }
            _ => {}
        }
        if scan.is_over() {
            return leaves;
        }
    }
    // A scalar inside of a container may continue after the end of a text that is cut.
    if let Some(start) = scan.scalar()
        && scan.containers().is_empty()
    {
        leaves.push(LeafValue { pointer: String::new(), bytes: start..text.len() });
    }
    leaves
}

/// Returns true where the name of a property may begin.
fn expects_name(scan: &JsonScan) -> bool {
    scan.containers().last().is_some_and(|open| !open.in_value) && scan.string().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffwd_testkit::random::Random;
    use serde_json::{Value, json};

    /// Lists the leaves of a tree in the order of its text.
    fn of_tree(value: &Value, pointer: String, leaves: &mut Vec<(String, Value)>) {
        match value {
            Value::Object(members) if !members.is_empty() => {
                for (key, value) in members {
                    of_tree(
                        value,
                        pointer.clone() + "/" + &key.replace('~', "~0").replace('/', "~1"),
                        leaves,
                    );
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for (i, value) in items.iter().enumerate() {
                    of_tree(value, format!("{pointer}/{i}"), leaves);
                }
            }
            leaf => leaves.push((pointer, leaf.clone())),
        }
    }

    fn random_value(random: &mut Random, depth: usize) -> Value {
        let texts = ["", "a", "x\"y\\z", "{\"a\":[1]}", "\u{1f600}é", "~/", "line\nbreak", "\u{0}"];
        match random.below(if depth == 0 { 5 } else { 8 }) {
            0 => json!(null),
            1 => json!(random.below(2) == 0),
            2 => json!(random.below(1000)),
            3 => json!(-0.5 * random.below(9) as f64),
            4 => json!(texts[random.below(texts.len())]),
            5 | 6 => (0..random.below(4))
                .map(|i| {
                    (format!("{}{i}", texts[random.below(texts.len())]), random_value(random, depth - 1))
                })
                .collect::<serde_json::Map<_, _>>()
                .into(),
            _ => (0..random.below(4)).map(|_| random_value(random, depth - 1)).collect(),
        }
    }

    #[test]
    fn leaves_are_those_of_the_tree() {
        let mut random = Random::new(3);
        let mut seen = 0;
        for _ in 0..2000 {
            let value = random_value(&mut random, 4);
            let texts = [value.to_string(), serde_json::to_string_pretty(&value).unwrap()];
            for text in texts {
                let found = leaf_values(text.as_bytes());
                let read = |leaf: &LeafValue| {
                    (leaf.pointer.clone(), serde_json::from_str(&text[leaf.bytes.clone()]).unwrap())
                };
                let mut expected = Vec::new();
                of_tree(&serde_json::from_str(&text).unwrap(), String::new(), &mut expected);
                assert_eq!(found.iter().map(read).collect::<Vec<_>>(), expected, "{text}");
                seen += found.len();
                // A cut text has the leaves that are complete in it.
                let cut = random.below(text.len() + 1);
                let of_cut = leaf_values(&text.as_bytes()[..cut]);
                if cut < text.len() && text.starts_with(['{', '[']) {
                    assert_eq!(of_cut[..], found[..of_cut.len()], "{text} at {cut}");
                    let complete = found.iter().filter(|leaf| leaf.bytes.end < cut).count();
                    assert!(of_cut.len() >= complete, "{text} at {cut}");
                }
            }
        }
        assert!(seen > 3000);
    }

    #[test]
    fn other_texts_do_no_harm() {
        for text in
            ["", "]", "}{", "{,}", "{\"a\"", "\"x", "[1,,2]", "{:1}", "{\"a\\", "tru", "[[[[", "\u{7f}"]
        {
            leaf_values(text.as_bytes());
        }
        let mut random = Random::new(9);
        for _ in 0..3000 {
            let text: Vec<u8> = (0..30).map(|_| b"{}[]\",:\\1t n"[random.below(12)]).collect();
            leaf_values(&text);
        }
    }
}
