//! Incremental scan of a JSON text that may be unfinished: open containers, names and values, and
//! the JSON pointer at the end of what was read.
//!
//! All parts that follow JSON text byte by byte use it. It checks no syntax: a text that is not
//! JSON gives some positions and never fails. Offsets count the bytes that were read, and the text
//! itself is with the user, who passes it to have pointers and names decoded.
//!
//! # Cost
//!
//! A few comparisons for each byte. A copy costs the number of open containers. A pointer costs the
//! names in it.
//!
//! # Alternatives considered
//!
//! Keeping names as strings was rejected: most are never asked for. One scan for each use was
//! rejected: they differ in details where no reader expects it.

use std::borrow::Cow;

/// An open array or object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonContainer {
    /// Offset of its bracket.
    pub start: usize,
    /// True for an object.
    pub object: bool,
    /// Number of items or properties that have ended: the index of the current one.
    pub ended: usize,
    /// True if the value of the current property has its colon; always true in an array.
    pub in_value: bool,
    /// Offsets of the name of the current property, with quotation marks, once it is complete.
    name: Option<(usize, usize)>,
    /// Offset of the current value, once it has begun.
    pub value: Option<usize>,
}

impl JsonContainer {
    fn new(start: usize, object: bool) -> Self {
        JsonContainer { start, object, ended: 0, in_value: !object, name: None, value: None }
    }

    /// Returns the decoded name of the current property. A name that is no JSON string is returned
    /// as it is written.
    pub fn name<'t>(&self, text: &'t [u8]) -> Option<Cow<'t, str>> {
        let (start, end) = self.name?;
        let quoted = &text[start..end];
        let written = || String::from_utf8_lossy(&quoted[1..quoted.len() - 1]);
        Some(decoded(quoted).unwrap_or_else(written))
    }

    fn is_empty(&self) -> bool {
        self.ended == 0 && self.name.is_none() && self.value.is_none()
    }
}

/// An open string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StringScan {
    /// Offset of its quotation mark.
    pub start: usize,
    /// True for the name of a property, false for a value.
    pub name: bool,
    /// Number of its characters so far, with an escape as one.
    pub chars: usize,
    escape: EscapeScan,
}

/// The position in an escape of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EscapeScan {
    None,
    /// After the backslash.
    Begun,
    /// Number of hexadecimal digits that are missing.
    Digits(u8),
}

impl StringScan {
    /// Returns true if the text ends within an escape.
    pub fn in_escape(&self) -> bool {
        self.escape != EscapeScan::None
    }

    /// Takes a byte; returns true if it closes the string.
    fn feed(&mut self, byte: u8) -> bool {
        match self.escape {
            EscapeScan::Begun if byte == b'u' => self.escape = EscapeScan::Digits(4),
            // A quotation mark among the digits closes the string, which is no JSON then.
            _ if byte == b'"' && self.escape != EscapeScan::Begun => return true,
            EscapeScan::None if byte == b'\\' => self.escape = EscapeScan::Begun,
            EscapeScan::None => self.chars += usize::from(byte & 0xc0 != 0x80),
            EscapeScan::Begun | EscapeScan::Digits(1) => {
                self.escape = EscapeScan::None;
                self.chars += 1;
            }
            EscapeScan::Digits(left) => self.escape = EscapeScan::Digits(left - 1),
        }
        false
    }
}

/// What a byte did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanStep {
    /// A container was opened, the innermost one now.
    Opens,
    /// The innermost container was closed.
    Closes {
        /// Offset of its opening bracket.
        start: usize,
        /// True if nothing is in it.
        is_empty: bool,
    },
    /// An item or a property of the innermost container ended, and another one follows.
    Separates,
    /// The name of a property ended, and its value follows.
    Names,
    /// A string was closed.
    ClosesString {
        /// Offset of its quotation mark.
        start: usize,
        /// True for the name of a property.
        name: bool,
    },
    /// The byte belongs to no JSON text.
    Invalid,
    /// Nothing of these.
    Other,
}

/// What the scan is inside of.
#[derive(Debug, Clone, Copy, Default)]
enum Inside {
    #[default]
    Nothing,
    String(StringScan),
    /// A number or a literal, and its offset.
    Scalar(usize),
}

/// The scan of a text.
#[derive(Debug, Clone)]
pub struct JsonScan {
    len: usize,
    containers: Vec<JsonContainer>,
    inside: Inside,
    max_depth: usize,
    /// Number of open containers below the deepest level that is followed.
    below: usize,
    first_value: bool,
    over: bool,
}

impl JsonScan {
    /// Creates a scan that stops after the first container or the first string outside of one.
    /// Containers below `max_depth` are read without steps.
    pub fn of_first_value(max_depth: usize) -> Self {
        JsonScan { first_value: true, ..Self::of_all_values(max_depth) }
    }

    /// Creates a scan that follows all containers of a text.
    pub fn of_all_values(max_depth: usize) -> Self {
        JsonScan {
            len: 0,
            containers: Vec::new(),
            inside: Inside::Nothing,
            max_depth,
            below: 0,
            first_value: false,
            over: false,
        }
    }

    /// Returns the open containers, outermost first.
    pub fn containers(&self) -> &[JsonContainer] {
        &self.containers
    }

    /// Returns the string at the end of the text.
    pub fn string(&self) -> Option<&StringScan> {
        match &self.inside {
            Inside::String(string) if self.below == 0 => Some(string),
            _ => None,
        }
    }

    /// Returns the offset of the number or literal at the end of the text, which may continue.
    pub fn scalar(&self) -> Option<usize> {
        match self.inside {
            Inside::Scalar(start) if self.below == 0 => Some(start),
            _ => None,
        }
    }

    /// Returns the offset of the number or literal that `byte` would end, if it came next.
    pub fn scalar_before(&self, byte: u8) -> Option<usize> {
        if is_scalar(byte) { None } else { self.scalar() }
    }

    /// Returns true once the first value has ended, if only that one is followed.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Returns the JSON pointer of the value at the end of the text, all of which was scanned.
    /// Inside a name, it is that of the object.
    pub fn pointer(&self, text: &[u8]) -> String {
        self.pointer_within(text, self.containers.len())
    }

    /// Returns the JSON pointer of the current value in the container at depth `levels - 1`; with
    /// 0, that of the whole text.
    pub fn pointer_within(&self, text: &[u8], levels: usize) -> String {
        let mut out = String::new();
        for container in &self.containers[..levels] {
            if !container.object {
                out.push('/');
                out.push_str(&container.ended.to_string());
            } else if container.in_value {
                out.push('/');
                let name = container.name(text).unwrap_or_default();
                match name.contains(['~', '/']) {
                    true => out.push_str(&name.replace('~', "~0").replace('/', "~1")),
                    false => out.push_str(&name),
                }
            }
        }
        out
    }

    /// Scans the next byte.
    pub fn feed(&mut self, byte: u8) -> ScanStep {
        let at = self.len;
        self.len += 1;
        if self.over {
            return ScanStep::Other;
        }
        match &mut self.inside {
            Inside::String(string) => {
                if !string.feed(byte) {
                    return ScanStep::Other;
                }
                let StringScan { start, name, .. } = *string;
                self.inside = Inside::Nothing;
                self.close_string(start, name)
            }
            Inside::Scalar(_) if is_scalar(byte) => ScanStep::Other,
            _ => {
                self.inside = Inside::Nothing;
                self.outside(at, byte)
            }
        }
    }

    fn close_string(&mut self, start: usize, name: bool) -> ScanStep {
        if self.below > 0 {
            return ScanStep::Other;
        }
        match self.containers.last_mut() {
            Some(open) if name => open.name = Some((start, self.len)),
            Some(_) => {}
            None => self.over = self.first_value,
        }
        ScanStep::ClosesString { start, name }
    }

    /// Scans a byte outside of strings and scalars.
    fn outside(&mut self, at: usize, byte: u8) -> ScanStep {
        match byte {
            b'{' | b'[' => self.open(at, byte == b'{'),
            b'}' | b']' => self.close(),
            b'"' => {
                let name = self.containers.last().is_some_and(|open| !open.in_value);
                self.begin(at);
                self.inside =
                    Inside::String(StringScan { start: at, name, chars: 0, escape: EscapeScan::None });
                ScanStep::Other
            }
            _ if self.below > 0 => ScanStep::Other,
            b':' => {
                if let Some(open) = self.containers.last_mut() {
                    open.in_value = true;
                }
                ScanStep::Names
            }
            b',' => {
                if let Some(open) = self.containers.last_mut() {
                    *open = JsonContainer {
                        ended: open.ended + 1,
                        ..JsonContainer::new(open.start, open.object)
                    };
                }
                ScanStep::Separates
            }
            b' ' | b'\t' | b'\n' | b'\r' => ScanStep::Other,
            _ => {
                self.begin(at);
                if !is_scalar(byte) {
                    return ScanStep::Invalid;
                }
                self.inside = Inside::Scalar(at);
                ScanStep::Other
            }
        }
    }

    /// Notes the start of the current value.
    fn begin(&mut self, at: usize) {
        if self.below == 0
            && let Some(open) = self.containers.last_mut()
            && open.in_value
        {
            open.value.get_or_insert(at);
        }
    }

    fn open(&mut self, at: usize, object: bool) -> ScanStep {
        self.begin(at);
        if self.below > 0 || self.containers.len() >= self.max_depth {
            self.below += 1;
            return ScanStep::Other;
        }
        self.containers.push(JsonContainer::new(at, object));
        ScanStep::Opens
    }

    fn close(&mut self) -> ScanStep {
        if self.below > 0 {
            self.below -= 1;
            return ScanStep::Other;
        }
        let closed = self.containers.pop();
        self.over = self.first_value && self.containers.is_empty();
        match closed {
            Some(closed) => ScanStep::Closes { start: closed.start, is_empty: closed.is_empty() },
            None => ScanStep::Invalid,
        }
    }
}

/// Returns true for the bytes of numbers and literals.
fn is_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// Returns the text of a JSON string with its quotation marks; `None` if it is none.
pub fn decoded(quoted: &[u8]) -> Option<Cow<'_, str>> {
    match quoted {
        [b'"', inner @ .., b'"'] if inner.iter().all(|&b| b >= 0x20 && b != b'\\' && b != b'"') => {
            std::str::from_utf8(inner).ok().map(Cow::Borrowed)
        }
        _ => serde_json::from_slice(quoted).ok().map(Cow::Owned),
    }
}

#[cfg(test)]
mod tests;
