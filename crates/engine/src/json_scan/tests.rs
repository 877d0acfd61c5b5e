use std::fmt;

use ffwd_testkit::random::Random;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;

/// The members of an object in their order, as another parser finds them.
struct RawMembers<'t>(Vec<(String, &'t RawValue)>);

impl<'t> Deserialize<'t> for RawMembers<'t> {
    fn deserialize<D: Deserializer<'t>>(from: D) -> Result<Self, D::Error> {
        struct AnyObject;
        impl<'t> Visitor<'t> for AnyObject {
            type Value = RawMembers<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<RawMembers<'t>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(RawMembers(members))
            }
        }
        from.deserialize_map(AnyObject)
    }
}

/// A part of a container: where its comma, its name and its colon are, and its value.
struct RawPart {
    comma: Option<usize>,
    name: Option<(usize, usize, String)>,
    colon: usize,
    value: RawTree,
}

/// A value with its offsets, from another parser.
struct RawTree {
    start: usize,
    end: usize,
    parts: Vec<RawPart>,
}

impl RawTree {
    fn new(text: &str, raw: &RawValue) -> RawTree {
        let written = raw.get();
        let start = written.as_ptr() as usize - text.as_ptr() as usize;
        let end = start + written.len();
        let found: Vec<(Option<String>, &RawValue)> = match written.as_bytes()[0] {
            b'[' => serde_json::from_str::<Vec<&RawValue>>(written)
                .unwrap()
                .into_iter()
                .map(|v| (None, v))
                .collect(),
            b'{' => {
                let members = serde_json::from_str::<RawMembers<'_>>(written).unwrap().0;
                members.into_iter().map(|(name, v)| (Some(name), v)).collect()
            }
            _ => Vec::new(),
        };
        let mut parts: Vec<RawPart> = Vec::new();
        let mut from = start + 1;
        for (name, raw) in found {
            let value = RawTree::new(text, raw);
            let gap = &text[from..value.start];
            let quote = gap.find('"').unwrap_or(gap.len());
            let comma = gap[..quote].find(',').map(|at| from + at);
            let last = gap.rfind('"').map_or(0, |at| at + 1);
            let colon = gap[last..].find(':').map_or(0, |at| from + last + at);
            let name = name.map(|name| (from + quote, from + last, name));
            from = value.end;
            parts.push(RawPart { comma, name, colon, value });
        }
        RawTree { start, end, parts }
    }

    fn all(&self) -> Vec<&RawTree> {
        std::iter::once(self).chain(self.parts.iter().flat_map(|part| part.value.all())).collect()
    }
}

/// The position after the first bytes of a text.
#[derive(Debug, Default, PartialEq)]
struct Position {
    containers: Vec<usize>,
    pointer: String,
    string: Option<(usize, bool)>,
    scalar: Option<usize>,
}

impl Position {
    fn of_scan(scan: &JsonScan, text: &[u8]) -> Position {
        Position {
            containers: scan.containers().iter().map(|open| open.start).collect(),
            pointer: scan.pointer(text),
            string: scan.string().map(|string| (string.start, string.name)),
            scalar: scan.scalar(),
        }
    }

    /// The slow reference: what is open after `n` bytes, from the offsets of the tree.
    fn add(&mut self, text: &str, tree: &RawTree, n: usize) {
        if tree.start >= n || n > tree.end {
            return;
        }
        match text.as_bytes()[tree.start] {
            b'[' | b'{' if n < tree.end => {}
            b'[' | b'{' => return,
            b'"' => {
                self.string = (n < tree.end).then_some((tree.start, false));
                return;
            }
            _ => {
                self.scalar = Some(tree.start);
                return;
            }
        }
        self.containers.push(tree.start);
        let index = tree.parts.iter().filter(|part| part.comma.is_some_and(|comma| comma < n)).count();
        let part = tree.parts.get(index);
        if text.as_bytes()[tree.start] == b'[' {
            self.pointer += &format!("/{index}");
        } else {
            let Some(RawPart { name: Some((start, end, name)), colon, .. }) = part else { return };
            if *colon >= n {
                self.string = (*start < n && n < *end).then_some((*start, true));
                return;
            }
            self.pointer += &format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        }
        if let Some(part) = part {
            self.add(text, &part.value, n);
        }
    }
}

fn random_value(random: &mut Random, depth: usize) -> Value {
    let texts = ["", "a", "x\"y\\z", "{\"a\":[1],}", "\u{1f600}é", "~/", "line\nbreak", "\u{0}:", "b,\"c"];
    match random.below(if depth == 0 { 5 } else { 9 }) {
        0 => json!(null),
        1 => json!(random.below(2) == 0),
        2 => json!(random.below(1000)),
        3 => json!(-0.5 * random.below(9) as f64),
        4 => json!(texts[random.below(texts.len())]),
        5 | 6 => (0..random.below(4))
            .map(|i| (format!("{}{i}", texts[random.below(texts.len())]), random_value(random, depth - 1)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        _ => (0..random.below(4)).map(|_| random_value(random, depth - 1)).collect(),
    }
}

/// Random documents, compact, spread over lines, and with escapes where none are needed.
fn documents() -> impl Iterator<Item = String> {
    let mut random = Random::new(7);
    (0..800).flat_map(move |_| {
        let value = random_value(&mut random, 4);
        let compact = value.to_string();
        let escaped: String = compact
            .chars()
            .map(|c| {
                if c > '\x7f' {
                    c.encode_utf16(&mut [0; 2]).iter().map(|u| format!("\\u{u:04x}")).collect()
                } else {
                    c.to_string()
                }
            })
            .collect();
        [serde_json::to_string_pretty(&value).unwrap(), format!(" {compact} "), escaped]
    })
}

#[test]
fn positions_are_those_of_another_parser() {
    let mut seen = [0; 4];
    for text in documents() {
        let tree = RawTree::new(&text, serde_json::from_str(&text).unwrap());
        let mut scan = JsonScan::of_all_values(usize::MAX);
        for (at, byte) in text.bytes().enumerate() {
            scan.feed(byte);
            let found = Position::of_scan(&scan, text.as_bytes());
            let mut expected = Position::default();
            expected.add(&text, &tree, at + 1);
            assert_eq!(found, expected, "{text} at {at}");
            seen[0] += usize::from(found.string.is_some_and(|string| string.1));
            seen[1] += usize::from(found.string.is_some_and(|string| !string.1));
            seen[2] += usize::from(found.scalar.is_some());
            seen[3] += usize::from(found.containers.len() > 2);
        }
    }
    assert!(seen.iter().all(|&n| n > 1_000), "{seen:?}");
}

#[test]
fn steps_name_every_value_once() {
    for text in documents() {
        let tree = RawTree::new(&text, serde_json::from_str(&text).unwrap());
        let mut scan = JsonScan::of_all_values(usize::MAX);
        let (mut values, mut names) = (Vec::new(), Vec::new());
        let mut empty = 0;
        // A byte after the text ends a number.
        for (at, byte) in text.bytes().chain([b' ']).enumerate() {
            values.extend(scan.scalar_before(byte).map(|start| (start, at)));
            match scan.feed(byte) {
                ScanStep::Closes { start, is_empty } => {
                    values.push((start, at + 1));
                    empty += usize::from(is_empty);
                }
                ScanStep::ClosesString { start, name: false } => values.push((start, at + 1)),
                ScanStep::ClosesString { start, name: true } => names.push((start, at + 1)),
                step => assert_ne!(step, ScanStep::Invalid, "{text}"),
            }
        }
        values.sort_unstable();
        let all = tree.all();
        let mut expected: Vec<(usize, usize)> = all.iter().map(|tree| (tree.start, tree.end)).collect();
        expected.sort_unstable();
        assert_eq!(values, expected, "{text}");
        let parts = all.iter().flat_map(|tree| &tree.parts).filter_map(|part| part.name.as_ref());
        let mut expected: Vec<(usize, usize)> = parts.clone().map(|name| (name.0, name.1)).collect();
        expected.sort_unstable();
        assert_eq!(names, expected, "{text}");
        for (start, end, name) in parts {
            assert_eq!(decoded(&text.as_bytes()[*start..*end]).as_deref(), Some(&name[..]), "{text}");
        }
        let is_empty = |tree: &&&RawTree| tree.parts.is_empty() && text[tree.start..].starts_with(['[', '{']);
        assert_eq!(empty, all.iter().filter(is_empty).count(), "{text}");
    }
}

/// The characters and the open escape of a text of a string, by a slow count.
fn counted(mut rest: &str) -> (usize, bool) {
    let mut chars = 0;
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '\\' if rest[1..].starts_with('u') => 6,
            '\\' => 2,
            c => c.len_utf8(),
        };
        let Some(after) = rest.get(len..) else { return (chars, true) };
        (rest, chars) = (after, chars + 1);
    }
    (chars, false)
}

#[test]
fn characters_of_strings_are_counted() {
    let mut checked = 0;
    for text in documents() {
        let mut scan = JsonScan::of_first_value(usize::MAX);
        for (at, byte) in text.bytes().enumerate() {
            scan.feed(byte);
            let Some(string) = scan.string() else { continue };
            let Ok(inner) = std::str::from_utf8(&text.as_bytes()[string.start + 1..=at]) else { continue };
            assert_eq!((string.chars, string.in_escape()), counted(inner), "{inner}");
            checked += 1;
        }
    }
    assert!(checked > 10_000);
}

#[test]
fn what_is_no_string_has_no_text() {
    for quoted in ["", "\"", "\"a", "a\"", "\"a\"b\"", "\"\\ud800\"", "\"\\x\"", "\"\n\""] {
        assert_eq!(decoded(quoted.as_bytes()), None, "{quoted}");
    }
    assert_eq!(decoded(b"\"\xff\""), None);
    assert_eq!(decoded("\"é\"".as_bytes()).as_deref(), Some("é"));
    assert_eq!(decoded(b"\"\\u00e9\\n\"").as_deref(), Some("é\n"));
}

#[test]
fn a_scan_of_the_first_value_stops_after_it() {
    let over = |text: &str| {
        let mut scan = JsonScan::of_first_value(10);
        text.bytes().position(|byte| {
            scan.feed(byte);
            scan.is_over()
        })
    };
    assert_eq!(over("say {\"a\":[1]} {"), Some(12));
    assert_eq!(over("\"ab\" \"c\""), Some(3));
    assert_eq!(over("12 [1]"), Some(5));
    assert_eq!(over("12 {"), None);
    let mut scan = JsonScan::of_first_value(10);
    "{}[{".bytes().for_each(|byte| {
        scan.feed(byte);
    });
    assert!(scan.containers().is_empty());
}

#[test]
fn deep_levels_are_read_without_steps() {
    let mut scan = JsonScan::of_all_values(2);
    let text = r#"[[[{"a":"]"}],7]"#;
    let steps: Vec<ScanStep> = text.bytes().map(|byte| scan.feed(byte)).collect();
    assert_eq!(steps[..2], [ScanStep::Opens, ScanStep::Opens]);
    assert!(steps[2..13].iter().all(|step| *step == ScanStep::Other), "{steps:?}");
    assert_eq!(
        steps[13..],
        [ScanStep::Separates, ScanStep::Other, ScanStep::Closes { start: 1, is_empty: false }]
    );
    let deep = "[".repeat(100_000);
    let mut scan = JsonScan::of_first_value(1000);
    deep.bytes().for_each(|byte| {
        scan.feed(byte);
    });
    assert_eq!(scan.containers().len(), 1000);
}

#[test]
fn other_texts_do_no_harm() {
    let mut random = Random::new(9);
    for round in 0..5000 {
        let text: Vec<u8> = (0..40).map(|_| b"{}[]\",:\\1t nu_\xc3"[random.below(14)]).collect();
        let mut scan = if round % 2 == 0 { JsonScan::of_all_values(3) } else { JsonScan::of_first_value(9) };
        for &byte in &text {
            scan.feed(byte);
            scan.pointer(&text);
            scan.scalar_before(b',');
        }
    }
}
