//! The position in an unfinished JSON text: open containers, and the string at its end.
//!
//! # Cost
//!
//! A few comparisons for each byte. A copy costs the number of open containers.

/// Deepest nesting that is followed; deeper texts are not scanned any further.
const MAX_DEPTH: usize = 1000;

/// An open array or object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JsonContainer {
    /// Offset of its bracket.
    pub start: usize,
    /// True for an object.
    pub object: bool,
    /// Number of items or properties that have ended.
    pub ended: usize,
}

/// An open string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StringScan {
    /// Offset of its quotation mark.
    pub start: usize,
    /// True for a value, false for the name of a property.
    pub value: bool,
    /// Number of its characters so far, with an escape as one.
    pub chars: usize,
    escape: Escape,
}

/// The position in an escape of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    None,
    /// After the backslash.
    Begun,
    /// Number of hexadecimal digits that are missing.
    Digits(u8),
}

impl StringScan {
    /// Returns true if the text ends within an escape.
    pub(super) fn in_escape(&self) -> bool {
        self.escape != Escape::None
    }
}

/// What a byte did to the containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanStep {
    /// A container was opened.
    Opens,
    /// An item or a property of the innermost container ended, and another one follows.
    Separates,
    /// A string was closed.
    ClosesString,
    /// Nothing of these.
    Other,
}

/// The scan of a JSON text.
#[derive(Debug, Clone, Default)]
pub(super) struct JsonScan {
    len: usize,
    containers: Vec<JsonContainer>,
    string: Option<StringScan>,
    /// True if the next string is the name of a property.
    name_next: bool,
    /// True once the text is too deep, or its first value has ended.
    over: bool,
}

impl JsonScan {
    /// Returns the open containers, outermost first.
    pub(super) fn containers(&self) -> &[JsonContainer] {
        &self.containers
    }

    /// Returns the string at the end of the text.
    pub(super) fn string(&self) -> Option<&StringScan> {
        self.string.as_ref()
    }

    /// Scans the next byte.
    pub(super) fn feed(&mut self, byte: u8) -> ScanStep {
        let at = self.len;
        self.len += 1;
        if self.over {
            return ScanStep::Other;
        }
        if let Some(string) = &mut self.string {
            if string.escape == Escape::None && byte == b'"' {
                self.string = None;
                self.over = self.containers.is_empty();
                return ScanStep::ClosesString;
            }
            string.feed(byte);
            return ScanStep::Other;
        }
        match byte {
            b'"' => {
                let object = self.containers.last().is_some_and(|open| open.object);
                let value = !(object && self.name_next);
                self.string = Some(StringScan { start: at, value, chars: 0, escape: Escape::None });
            }
            b'{' | b'[' => {
                self.over = self.containers.len() >= MAX_DEPTH;
                self.containers.push(JsonContainer { start: at, object: byte == b'{', ended: 0 });
                self.name_next = true;
                return ScanStep::Opens;
            }
            b'}' | b']' => {
                self.containers.pop();
                self.over = self.containers.is_empty();
            }
            b',' => {
                self.name_next = true;
                if let Some(open) = self.containers.last_mut() {
                    open.ended += 1;
                }
                return ScanStep::Separates;
            }
            b':' => self.name_next = false,
            _ => {}
        }
        ScanStep::Other
    }
}

impl StringScan {
    fn feed(&mut self, byte: u8) {
        match self.escape {
            Escape::None if byte == b'\\' => self.escape = Escape::Begun,
            Escape::None => self.chars += usize::from(byte & 0xc0 != 0x80),
            Escape::Begun if byte == b'u' => self.escape = Escape::Digits(4),
            Escape::Begun | Escape::Digits(1) => {
                self.escape = Escape::None;
                self.chars += 1;
            }
            Escape::Digits(left) => self.escape = Escape::Digits(left - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &str) -> JsonScan {
        let mut scan = JsonScan::default();
        text.bytes().for_each(|byte| {
            scan.feed(byte);
        });
        scan
    }

    #[test]
    fn strings_and_containers_are_found() {
        for (text, containers, string) in [
            (r#"{"a"#, vec![0], Some((1, false, 1))),
            (r#"{"a":"b\"c"#, vec![0], Some((5, true, 3))),
            (r#"{"a":"\u00e9é"#, vec![0], Some((5, true, 2))),
            (r#"{"a":"b","c"#, vec![0], Some((9, false, 1))),
            (r#"{"a":["b","c"#, vec![0, 5], Some((10, true, 1))),
            (r#"{"a":[1,2.5e3"#, vec![0, 5], None),
            (r#"{"a":[1,true"#, vec![0, 5], None),
            (r#"{"a":{"b":[{}]}"#, vec![0], None),
            (r#"{"a":"}]{,"#, vec![0], Some((5, true, 4))),
            (r#""ab"#, vec![], Some((0, true, 2))),
            (r#""ab" "c"#, vec![], None),
        ] {
            let scan = scan(text);
            assert_eq!(scan.containers().iter().map(|c| c.start).collect::<Vec<_>>(), containers, "{text}");
            assert_eq!(scan.string().map(|s| (s.start, s.value, s.chars)), string, "{text}");
        }
        assert!(scan(r#"{"a":"b\"#).string().unwrap().in_escape());
        assert!(scan(r#"{"a":"b\u00e"#).string().unwrap().in_escape());
        assert!(!scan(r#"{"a":"b\u00e9"#).string().unwrap().in_escape());
    }

    #[test]
    fn a_deep_text_is_not_followed() {
        let scan = scan(&"[".repeat(100_000));
        assert!(scan.containers().len() <= MAX_DEPTH + 1);
    }
}
