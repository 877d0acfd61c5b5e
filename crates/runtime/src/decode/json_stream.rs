//! Streaming scanner for the values of an unfinished JSON text.
//!
//! The scan ([`JsonScan`]) reads each byte once and keeps the stack of open containers.
//!
//! # Cost
//!
//! A value that ends is parsed, so a container costs its length once more at each level above it.
//!
//! # Alternatives considered
//!
//! Repairing the text so far into complete JSON and parsing it after each token was rejected: it
//! costs the whole length each time, and hides which values are complete.

use ffwd_engine::json_scan::{JsonScan, ScanStep};
use serde::Serialize;
use serde_json::Value;

/// The progress of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldState {
    /// Its key is written.
    Pending,
    /// It has begun: a string so far, or an open object or array. Numbers and literals are never
    /// partial, because a prefix of a number is another number.
    Partial,
    /// It is complete.
    Done,
}

/// A value in an unfinished JSON text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Field {
    /// JSON pointer; empty for the whole text.
    pub pointer: String,
    /// The progress of the value.
    pub state: FieldState,
    /// Its index, if it is an item of an array.
    #[serde(skip)]
    pub index: Option<usize>,
    /// The value if it is complete; the text so far of a partial string; otherwise null.
    pub value: Value,
}

/// Deepest nesting that is followed; values below are not reported.
const MAX_DEPTH: usize = 100;
/// Longest escape at the end of a string that may be incomplete, in bytes: two of `\uXXXX`.
const MAX_ESCAPE: usize = 12;

/// The scan of one text.
#[derive(Debug)]
pub struct JsonStream {
    text: Vec<u8>,
    scan: JsonScan,
    /// True while the object or array that the text began with is open; `None` before its first
    /// character.
    active: Option<bool>,
    changes: Vec<Field>,
}

impl Default for JsonStream {
    fn default() -> Self {
        Self::new()
    }
}

impl JsonStream {
    /// Creates the scan at the start of a text. Only texts that begin with an object or an array
    /// are followed.
    pub fn new() -> Self {
        JsonStream {
            text: Vec::new(),
            scan: JsonScan::of_first_value(MAX_DEPTH),
            active: None,
            changes: Vec::new(),
        }
    }

    /// Reads more bytes; returns the changed values, each once, in the order of their last changes.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Field> {
        for &b in bytes {
            let at = self.text.len();
            self.text.push(b);
            self.byte(at, b);
        }
        if !bytes.is_empty()
            && let Some(string) = self.scan.string().filter(|string| !string.name)
            && let Some(text) = partial_string(&self.text[string.start + 1..])
        {
            self.change(FieldState::Partial, Value::String(text));
        }
        std::mem::take(&mut self.changes)
    }

    /// Returns the JSON pointer of the unfinished value at the end of the text, and its text so
    /// far. Inside a key the value is the object; in a text that is neither object nor array it is
    /// the whole text.
    pub fn unfinished(&self) -> (String, String) {
        let from = |at: usize| String::from_utf8_lossy(&self.text[at..]).into_owned();
        let value = match self.scan.containers().last() {
            None => from(0),
            Some(open) if open.in_value => open.value.map_or(String::new(), from),
            Some(open) => from(open.start),
        };
        (self.scan.pointer(&self.text), value)
    }

    fn byte(&mut self, at: usize, b: u8) {
        match self.active {
            Some(false) => return,
            None if b.is_ascii_whitespace() => {}
            None if !matches!(b, b'{' | b'[') => {
                self.active = Some(false);
                return;
            }
            _ => self.active = Some(true),
        }
        if let Some(start) = self.scan.scalar_before(b)
            && matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r')
        {
            self.done(start, at);
        }
        match self.scan.feed(b) {
            ScanStep::Opens => {
                let around = self.scan.containers().len() - 1;
                self.change_within(around, FieldState::Partial, Value::Null);
            }
            ScanStep::Closes { start, .. } => {
                self.done(start, at + 1);
                if self.scan.containers().is_empty() {
                    self.active = Some(false);
                }
            }
            ScanStep::ClosesString { start, name: false } => self.done(start, at + 1),
            ScanStep::Names => self.change(FieldState::Pending, Value::Null),
            _ => {}
        }
    }

    fn done(&mut self, start: usize, end: usize) {
        if let Ok(value) = serde_json::from_slice(&self.text[start..end]) {
            self.change(FieldState::Done, value);
        }
    }

    /// Notes a change of the current value of the innermost container.
    fn change(&mut self, state: FieldState, value: Value) {
        self.change_within(self.scan.containers().len(), state, value);
    }

    /// Notes a change of the current value of the container at depth `levels - 1`.
    fn change_within(&mut self, levels: usize, state: FieldState, value: Value) {
        let pointer = self.scan.pointer_within(&self.text, levels);
        self.changes.retain(|f| f.pointer != pointer);
        let container = self.scan.containers()[..levels].last();
        let index = container.filter(|open| !open.object).map(|open| open.ended);
        self.changes.push(Field { pointer, state, index, value });
    }
}

/// Returns the decoded text of an unfinished string, without an incomplete escape or character at
/// its end.
fn partial_string(raw: &[u8]) -> Option<String> {
    (0..=MAX_ESCAPE.min(raw.len())).find_map(|cut| {
        let quoted = [b"\"", &raw[..raw.len() - cut], b"\""].concat();
        serde_json::from_slice(&quoted).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TEXT: &str =
        r#"{"a":"x\"é\ud83d\ude00","n":-12.5e3,"o":{"l":[1,"two",{},[]],"t/~":true},"z":null}"#;

    /// Every division of the text into two or three pieces: the last state of each value is its
    /// true value.
    #[test]
    fn complete_values_are_those_of_the_parsed_text() {
        let whole: Value = serde_json::from_str(TEXT).unwrap();
        for first in 0..=TEXT.len() {
            for second in [first, (first + 7).min(TEXT.len())] {
                let mut fields = JsonStream::new();
                let bytes = TEXT.as_bytes();
                let mut last = std::collections::HashMap::new();
                for piece in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                    for field in fields.feed(piece) {
                        match (&field.state, &field.value, whole.pointer(&field.pointer).unwrap()) {
                            (FieldState::Done, value, truth) => assert_eq!(value, truth),
                            (FieldState::Partial, Value::String(s), Value::String(truth)) => {
                                assert!(truth.starts_with(s.as_str()));
                            }
                            (_, value, _) => assert!(value.is_null()),
                        }
                        assert_ne!(last.get(&field.pointer), Some(&FieldState::Done), "{}", field.pointer);
                        last.insert(field.pointer.clone(), field.state);
                    }
                }
                assert!(last.values().all(|s| *s == FieldState::Done));
                assert_eq!(last.len(), 11);
            }
        }
    }

    #[test]
    fn states_in_order() {
        let mut fields = JsonStream::new();
        let mut seen = Vec::new();
        for byte in br#"{"a":"xy","b":12}"# {
            for f in fields.feed(&[*byte]) {
                seen.push((f.pointer, f.state, f.value));
            }
        }
        let (p, r, d) = (FieldState::Pending, FieldState::Partial, FieldState::Done);
        let want = [
            ("", r, json!(null)),
            ("/a", p, json!(null)),
            ("/a", r, json!("")),
            ("/a", r, json!("x")),
            ("/a", r, json!("xy")),
            ("/a", d, json!("xy")),
            ("/b", p, json!(null)),
            ("/b", d, json!(12)),
            ("", d, json!({"a": "xy", "b": 12})),
        ];
        assert_eq!(seen, want.map(|(p, s, v)| (p.to_string(), s, v)));
    }

    #[test]
    fn unfinished_values() {
        for (text, pointer, value) in [
            ("", "", ""),
            ("{", "", "{"),
            ("{\"a", "", "{\"a"),
            ("{\"a\":", "/a", ""),
            ("{\"a\":\"x\\", "/a", "\"x\\"),
            ("{\"a\":[1,2", "/a/1", "2"),
            ("{\"a\":[1,", "/a/1", ""),
            ("{\"a\":\"x\"", "/a", "\"x\""),
            ("{\"a\":{\"b\":[", "/a/b/0", ""),
            ("{\"a\":1,\"b", "", "{\"a\":1,\"b"),
            ("plain", "", "plain"),
        ] {
            let mut fields = JsonStream::new();
            fields.feed(text.as_bytes());
            assert_eq!(fields.unfinished(), (pointer.to_string(), value.to_string()), "{text}");
        }
    }

    #[test]
    fn other_texts_and_deep_ones_do_no_harm() {
        for text in ["]]}}", "say \"x\": 1", "{]}[", "{\"a\"}:,", "[1}{,:", "{:1,:2", "\"x\""] {
            JsonStream::new().feed(text.as_bytes());
        }
        let mut fields = JsonStream::new();
        let deep = "[".repeat(5000) + "\"x\"" + &"]".repeat(5000);
        let changes = fields.feed(deep.as_bytes());
        assert_eq!(changes.len(), MAX_DEPTH);
        let mut x = 1u32;
        for _ in 0..2000 {
            let mut fields = JsonStream::new();
            for _ in 0..40 {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                fields.feed(&[b"{}[]\",:\\1t n"[(x >> 16) as usize % 12]]);
                fields.unfinished();
            }
        }
    }
}
