//! JSON values of items, interned so that equal values have one number, and a cursor over texts
//! that may still become a given value.
//!
//! Two items of an array are equal whatever the order of their properties, and `1` equals `1.0`. So
//! a value is a small tree, and equal trees have one number. Comparing two values is comparing two
//! numbers. Strings are compared with their escapes, because a constraint writes every character in
//! one way.
//!
//! A [`ValueCursor`] follows a text that may still become a given value, byte by byte. It may
//! accept too much while a number is unfinished, because an exponent could still move the point. It
//! never gives up too early, and at the end of the text it is exact.
//!
//! # Cost
//!
//! Reading a value takes a hash lookup per part.
//!
//! # Alternatives considered
//!
//! Comparing finished values only: the output could be stuck inside an item that can only repeat.

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use crate::byte_set::ByteSet;
use crate::decimal::Decimal;

/// Index of a value.
pub(crate) type ValueId = u32;

/// A few bytes of text.
type Text = SmallVec<[u8; 24]>;

/// A value; its parts are indices of others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Value {
    /// A keyword, or a string with its escapes and quotes.
    Text(Box<[u8]>),
    Number(Decimal),
    Array(Box<[ValueId]>),
    /// Escaped names, sorted, and their values.
    Object(Box<[(Box<[u8]>, ValueId)]>),
}

/// All values met so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values {
    list: IndexSet<Value, FxBuildHasher>,
}

/// A container that is being read.
enum OpenContainer {
    Array(Vec<ValueId>),
    Object(Vec<(Box<[u8]>, ValueId)>, Option<Box<[u8]>>),
}

/// Returns true for a byte that only separates JSON tokens.
pub(crate) fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r')
}

impl Values {
    /// Returns the bytes held, without long texts of values.
    pub(crate) fn bytes(&self) -> usize {
        self.list.capacity() * (size_of::<Value>() + 17)
    }

    fn intern(&mut self, value: Value) -> ValueId {
        self.list.insert_full(value).0 as ValueId
    }

    /// Returns the value of a text. A text that is no JSON is a value of its own.
    pub(crate) fn read(&mut self, text: &[u8]) -> ValueId {
        match self.parse(text) {
            Some(value) => value,
            None => self.intern(Value::Text(text.into())),
        }
    }

    fn parse(&mut self, text: &[u8]) -> Option<ValueId> {
        let mut open: Vec<OpenContainer> = Vec::new();
        let mut at = 0;
        loop {
            let b = *text.get(at)?;
            let from = at;
            at += 1;
            let value = match b {
                b'[' => {
                    open.push(OpenContainer::Array(Vec::new()));
                    continue;
                }
                b'{' => {
                    open.push(OpenContainer::Object(Vec::new(), None));
                    continue;
                }
                b']' | b'}' => match open.pop()? {
                    OpenContainer::Array(items) => self.intern(Value::Array(items.into())),
                    OpenContainer::Object(mut members, _) => {
                        members.sort_unstable();
                        self.intern(Value::Object(members.into()))
                    }
                },
                b',' | b':' => continue,
                _ if is_space(b) => continue,
                b'"' => {
                    while *text.get(at)? != b'"' {
                        at += if text[at] == b'\\' { 2 } else { 1 };
                    }
                    at += 1;
                    let spelled = &text[from..at];
                    if let Some(OpenContainer::Object(_, name @ None)) = open.last_mut() {
                        *name = Some(spelled.into());
                        continue;
                    }
                    self.intern(Value::Text(spelled.into()))
                }
                _ => {
                    let ends = |b: &u8| is_space(*b) || b"[]{},:\"".contains(b);
                    at = text[from..].iter().position(ends).map_or(text.len(), |n| from + n);
                    let word = &text[from..at];
                    match b {
                        b'-' | b'0'..=b'9' => self.intern(Value::Number(Decimal::new(word))),
                        _ => self.intern(Value::Text(word.into())),
                    }
                }
            };
            match open.last_mut() {
                Some(OpenContainer::Array(items)) => items.push(value),
                Some(OpenContainer::Object(members, name)) => members.push((name.take()?, value)),
                None => return text[at..].iter().all(|&b| is_space(b)).then_some(value),
            }
        }
    }
}

/// A container that a cursor is in.
#[derive(Debug, Clone)]
struct ValueLevel {
    value: ValueId,
    /// The element or member that is next or being followed.
    part: u32,
    /// Members that were met.
    met: SmallVec<[u64; 1]>,
    count: u32,
}

/// The position of a cursor in its value.
#[derive(Debug, Clone)]
enum At {
    /// Before a value.
    Value(ValueId),
    /// After an opening bracket.
    First,
    /// Before a name.
    Name,
    /// Inside a name.
    Key(Text),
    /// After a name.
    Colon,
    /// After this number of bytes of a string or keyword.
    Text(ValueId, u32),
    Number(ValueId, Text),
    /// After a value.
    Done,
}

/// A text that may still become a value.
#[derive(Debug, Clone)]
pub(crate) struct ValueCursor {
    levels: SmallVec<[ValueLevel; 2]>,
    at: At,
}

impl ValueCursor {
    /// Creates a cursor before a value.
    pub(crate) fn new(value: ValueId) -> Self {
        ValueCursor { levels: SmallVec::new(), at: At::Value(value) }
    }

    /// Returns the bytes that may come next, perhaps some more.
    pub(crate) fn next_bytes(&self, values: &Values) -> ByteSet {
        let mut bytes = ByteSet::default();
        let mut all = |list: &[u8]| list.iter().for_each(|&b| bytes.add(b));
        match &self.at {
            At::Text(value, at) => {
                if let Value::Text(text) = &values.list[*value as usize] {
                    all(&text[*at as usize..][..1]);
                }
                return bytes;
            }
            At::Key(text) => {
                let level = self.levels.last().map(|level| &values.list[level.value as usize]);
                if let Some(Value::Object(members)) = level {
                    let longer = members.iter().filter(|m| m.0.starts_with(text));
                    longer.for_each(|m| all(m.0.get(text.len()..text.len() + 1).unwrap_or_default()));
                }
                return bytes;
            }
            At::Value(value) => match &values.list[*value as usize] {
                Value::Text(text) => all(&text[..text.len().min(1)]),
                Value::Number(number) if number.is_negative() => all(b"-"),
                Value::Number(_) => all(b"-0123456789"),
                Value::Array(_) => all(b"["),
                Value::Object(_) => all(b"{"),
            },
            At::First => all(b"[]{}\"-0123456789tfn"),
            At::Name => all(b"\""),
            At::Colon => all(b":"),
            At::Number(..) => all(b"0123456789.eE+-,]}"),
            At::Done => all(b",]}"),
        }
        all(b" \t\n\r");
        bytes
    }

    /// Takes one more byte; returns true if the text may still become the value. The end of a
    /// number is known only by the byte after it.
    pub(crate) fn step(&mut self, b: u8, values: &Values) -> bool {
        match &mut self.at {
            At::Text(value, at) => {
                let Value::Text(text) = &values.list[*value as usize] else { return false };
                if text[*at as usize] != b {
                    return false;
                }
                *at += 1;
                if *at as usize == text.len() {
                    self.at = At::Done;
                }
                return true;
            }
            At::Key(text) => {
                text.push(b);
                return self.name(values);
            }
            At::Number(value, text) => {
                let Value::Number(number) = &values.list[*value as usize] else { return false };
                if matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') {
                    text.push(b);
                    return number.may_begin(text);
                }
                if Decimal::new(text) != *number {
                    return false;
                }
                self.at = At::Done;
            }
            _ => {}
        }
        if is_space(b) {
            return true;
        }
        match (&self.at, b) {
            (&At::Value(value), _) => self.begin(value, b, values),
            (At::First, b']' | b'}') => self.close(values),
            (At::First, _) => match &values.list[self.levels[self.levels.len() - 1].value as usize] {
                Value::Array(items) => items.first().is_some_and(|&first| self.begin(first, b, values)),
                _ => self.open_name(b, values),
            },
            (At::Name, _) => self.open_name(b, values),
            (At::Colon, b':') => {
                let Some(level) = self.levels.last() else { return false };
                let Value::Object(members) = &values.list[level.value as usize] else { return false };
                self.at = At::Value(members[level.part as usize].1);
                true
            }
            (At::Done, b']' | b'}') => self.close(values),
            (At::Done, b',') => self.next(values),
            _ => false,
        }
    }

    /// Takes the first byte of a value.
    fn begin(&mut self, value: ValueId, b: u8, values: &Values) -> bool {
        match &values.list[value as usize] {
            Value::Text(text) => {
                self.at = if text.len() == 1 { At::Done } else { At::Text(value, 1) };
                text.first() == Some(&b)
            }
            Value::Number(number) => {
                self.at = At::Number(value, Text::from_slice(&[b]));
                matches!(b, b'-' | b'0'..=b'9') && number.may_begin(&[b])
            }
            container => {
                self.levels.push(ValueLevel { value, part: 0, met: SmallVec::new(), count: 0 });
                self.at = At::First;
                b == if matches!(container, Value::Array(_)) { b'[' } else { b'{' }
            }
        }
    }

    /// Takes the opening quote of a name.
    fn open_name(&mut self, b: u8, values: &Values) -> bool {
        self.at = At::Key(Text::from_slice(&[b]));
        self.name(values)
    }

    /// Returns true if a member that was not met yet has a name that begins with the text read. A
    /// complete name is taken.
    fn name(&mut self, values: &Values) -> bool {
        let (At::Key(text), Some(level)) = (&self.at, self.levels.last_mut()) else { return false };
        let Value::Object(members) = &values.list[level.value as usize] else { return false };
        let unmet = |i: usize| level.met.get(i / 64).is_none_or(|word| word >> (i % 64) & 1 == 0);
        let from = members.partition_point(|m| *m.0 < text[..]);
        let found = (from..members.len()).take_while(|&i| members[i].0.starts_with(text)).find(|&i| unmet(i));
        let Some(found) = found else { return false };
        if members[found].0.len() == text.len() {
            if level.met.len() <= found / 64 {
                level.met.resize(found / 64 + 1, 0);
            }
            level.met[found / 64] |= 1 << (found % 64);
            level.part = found as u32;
            level.count += 1;
            self.at = At::Colon;
        }
        true
    }

    /// Takes a comma inside a container.
    fn next(&mut self, values: &Values) -> bool {
        let Some(level) = self.levels.last_mut() else { return false };
        match &values.list[level.value as usize] {
            Value::Array(items) => {
                level.part += 1;
                let Some(&item) = items.get(level.part as usize) else { return false };
                self.at = At::Value(item);
                true
            }
            Value::Object(members) => {
                self.at = At::Name;
                (level.count as usize) < members.len()
            }
            _ => false,
        }
    }

    /// Takes the end of a container.
    fn close(&mut self, values: &Values) -> bool {
        let first = matches!(self.at, At::First);
        let Some(level) = self.levels.pop() else { return false };
        self.at = At::Done;
        match &values.list[level.value as usize] {
            Value::Array(items) => items.len() == if first { 0 } else { level.part as usize + 1 },
            Value::Object(members) => members.len() == level.count as usize,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&str; 34] = [
        "1",
        "1.0",
        "10e-1",
        "1E0",
        "-1",
        "0",
        "-0",
        "0.00",
        "0e7",
        "10",
        "1e1",
        "100",
        "0.1",
        "0.10",
        "1e-1",
        "true",
        "false",
        "null",
        r#""1""#,
        r#""a\"b""#,
        "[]",
        "[ ]",
        "[1]",
        "[1,2]",
        "[1.0, 2e0]",
        "[2,1]",
        "{}",
        r#"{"a":1,"b":[2]}"#,
        r#"{"b": [2.0] ,"a":1}"#,
        r#"{"a":1}"#,
        r#"{"a":1,"b":2}"#,
        "[[],{}]",
        r#"{"ab":1,"a":{"ab":[]}}"#,
        r#"{"a":{"ab":[]},"ab":1}"#,
    ];

    /// The values of a text by another parser; numbers as fractions of 100.
    fn reference(text: &str) -> serde_json::Value {
        fn plain(value: serde_json::Value) -> serde_json::Value {
            match value {
                serde_json::Value::Number(n) => {
                    format!("n{}", (n.as_f64().unwrap() * 100.0).round() as i64).into()
                }
                serde_json::Value::Array(items) => items.into_iter().map(plain).collect(),
                serde_json::Value::Object(members) => {
                    members.into_iter().map(|(k, v)| (k, plain(v))).collect()
                }
                other => other,
            }
        }
        plain(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn equal_values_are_one() {
        let mut values = Values::default();
        for a in TEXTS {
            for b in TEXTS {
                let same = values.read(a.as_bytes()) == values.read(b.as_bytes());
                assert_eq!(same, reference(a) == reference(b), "{a} {b}");
            }
        }
    }

    /// A cursor accepts exactly the texts of its value, and each of their prefixes.
    #[test]
    fn cursors_follow_what_is_equal() {
        let mut values = Values::default();
        for a in TEXTS {
            let value = values.read(a.as_bytes());
            for b in TEXTS {
                let mut cursor = ValueCursor::new(value);
                let whole = b.bytes().chain([b' ']).all(|b| cursor.step(b, &values));
                let complete = whole && cursor.levels.is_empty() && matches!(cursor.at, At::Done);
                assert_eq!(complete, reference(a) == reference(b), "{b} along {a}");
            }
        }
    }

    #[test]
    fn what_is_no_json_is_a_value_of_its_own() {
        let mut values = Values::default();
        let list = ["", "]", "[", "[}", "{1}", "\"", "\"\\", "1 1", "{\"a\"", "[1]]"];
        let ids: Vec<ValueId> = list.iter().map(|t| values.read(t.as_bytes())).collect();
        let mut cursor = ValueCursor::new(ids[0]);
        assert!(!cursor.step(b'1', &values));
        assert_eq!(values.read(b"{1}"), ids[4]);
    }
}
