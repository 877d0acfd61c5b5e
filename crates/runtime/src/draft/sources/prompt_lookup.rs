//! Prompt lookup, aligned to the constraint: proposes values that occur in the source text.
//!
//! Inside a JSON string it searches the source for the value so far and proposes the text that
//! follows, up to the likely end of the value. Where a string opens, only its key is known: it
//! proposes the text after the words of the key in the source. Elsewhere it continues the longest
//! suffix of the output that occurs in the source, or earlier in the output. Matching bytes rather
//! than tokens (as prompt lookup decoding does, Saxena 2023) finds values whatever their
//! tokenisation. The first word of a value has no leading space in the answer, but has one in
//! running text.
//!
//! # Cost
//!
//! One scan of the source per draft.

use std::borrow::Cow;

use ffwd_engine::json_scan::{JsonScan, decoded};

/// Maximum number of bytes proposed at once.
const MAX_BYTES: usize = 64;
/// Minimum number of bytes of a value that is searched as a whole.
const MIN_MATCH: usize = 2;
/// Minimum number of bytes of a matching suffix.
const MIN_SUFFIX: usize = 6;
/// Number of bytes of a suffix that are compared.
const MAX_SUFFIX: usize = 32;

/// A source text to copy from.
#[derive(Debug, Clone)]
pub struct PromptLookup {
    source: Vec<u8>,
}

/// A proposed continuation of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopySpan {
    /// Text as the source has it. May be empty if the value ends here.
    pub text: String,
    /// True if the value is likely to end after the text.
    pub ends: bool,
}

impl PromptLookup {
    /// Returns a lookup in a source text.
    pub fn new(source: &str) -> Self {
        PromptLookup { source: source.as_bytes().to_vec() }
    }

    /// Returns the continuation of `value`, the decoded text of a string so far, whose key is
    /// `key`.
    pub fn continue_value(&self, value: &[u8], key: Option<&str>) -> Option<CopySpan> {
        let at = match value.is_empty() {
            true => self.labelled(key?)?,
            false => self.behind_value(value)?,
        };
        let span = self.span(at);
        (span.ends || !span.text.is_empty()).then_some(span)
    }

    /// Returns the continuation of `text` where a suffix of it occurs in the source, or else
    /// earlier in `text` itself.
    pub fn continue_text(&self, text: &[u8]) -> Option<String> {
        let known = text.len().saturating_sub(1);
        let found = |corpus: &[u8], tail| longest_suffix(corpus, tail).map(|at| whole_text(corpus, at));
        found(&self.source, text)
            .or_else(|| found(&text[..known], text))
            .filter(|continuation| !continuation.is_empty())
    }

    /// Returns the position after the last occurrence of `value` at a word boundary in the source,
    /// or else after its longest suffix there.
    fn behind_value(&self, value: &[u8]) -> Option<usize> {
        let boundary = |at: usize| at == 0 || !self.source[at - 1].is_ascii_alphanumeric();
        let whole = || {
            let windows = self.source.windows(value.len()).enumerate();
            let mut starts = windows.filter(|w| w.1 == value).map(|w| w.0);
            starts.rfind(|&at| boundary(at)).map(|at| at + value.len())
        };
        (value.len() >= MIN_MATCH).then(whole).flatten().or_else(|| longest_suffix(&self.source, value))
    }

    /// Returns the position after the words of `key` and a sign that a value follows, such as
    /// `Invoice number: `.
    fn labelled(&self, key: &str) -> Option<usize> {
        let label = words(key);
        if label.len() < MIN_MATCH {
            return None;
        }
        let is_label = |w: &[u8]| {
            w.iter().zip(label.as_bytes()).all(|(a, b)| a.eq_ignore_ascii_case(b) || *b == b' ' && *a == b'-')
        };
        let windows = self.source.windows(label.len()).enumerate();
        let places = windows
            .filter(|&(at, w)| is_label(w) && (at == 0 || !self.source[at - 1].is_ascii_alphanumeric()));
        places.map(|(at, _)| at + label.len()).find_map(|at| self.behind_sign(at))
    }

    /// Returns the position after a colon, equals or number sign at `at` and the spaces and tabs
    /// around it.
    fn behind_sign(&self, at: usize) -> Option<usize> {
        let rest = &self.source[at..];
        let blanks = |text: &[u8]| text.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let sign = blanks(rest);
        if !matches!(rest.get(sign), Some(b':' | b'=' | b'#')) {
            return None;
        }
        let value = sign + 1 + blanks(&rest[sign + 1..]);
        rest.get(value).filter(|b| !b.is_ascii_control()).map(|_| at + value)
    }

    /// Returns the text from `at` up to the likely end of a value: before a line break, or before
    /// punctuation that no word follows.
    fn span(&self, at: usize) -> CopySpan {
        let rest = &self.source[at..];
        let gap = |i: usize| rest.get(i).is_none_or(|b| b.is_ascii_whitespace() || matches!(b, b'"' | b')'));
        let ends = |i: usize| match rest[i] {
            b'\n' | b'\r' | b'\t' | b'|' | b';' | b'"' | b')' | b']' | b'}' | b'<' => true,
            b',' | b'.' | b':' | b'!' | b'?' => gap(i + 1),
            b' ' => rest.get(i + 1).is_none_or(|b| matches!(b, b'(' | b'-' | b'|' | b'"' | b'[' | b' ')),
            _ => false,
        };
        let end = (0..rest.len()).find(|&i| ends(i)).unwrap_or(rest.len());
        let text = prefix(&rest[..end]);
        CopySpan { ends: text.len() == end, text }
    }
}

/// Returns the words of a key: `invoiceNumber` and `invoice_number` both give `invoice number`.
fn words(key: &str) -> String {
    let mut out = String::new();
    let mut lower = false;
    for c in key.chars() {
        if c.is_ascii_uppercase() && lower || !c.is_alphanumeric() {
            out.push(' ');
        }
        lower = c.is_lowercase();
        if c.is_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        }
    }
    out.trim().to_string()
}

/// Returns the position in `corpus` after the longest suffix of `tail` that occurs there, the last
/// one among equals.
fn longest_suffix(corpus: &[u8], tail: &[u8]) -> Option<usize> {
    let tail = &tail[tail.len().saturating_sub(MAX_SUFFIX)..];
    let common =
        |end: usize| corpus[..end].iter().rev().zip(tail.iter().rev()).take_while(|(a, b)| a == b).count();
    let best = (1..=corpus.len()).map(|end| (common(end), end)).max()?;
    (best.0 >= MIN_SUFFIX && best.1 < corpus.len()).then_some(best.1)
}

/// Returns the text from `at` to the end of the line.
fn whole_text(corpus: &[u8], at: usize) -> String {
    let rest = &corpus[at..];
    let line = rest.iter().position(|b| matches!(b, b'\n' | b'\r')).unwrap_or(rest.len());
    prefix(&rest[..line])
}

/// Returns the longest prefix that is UTF-8 and within the limit.
fn prefix(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(MAX_BYTES)];
    let valid = match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        Err(e) => e.valid_up_to(),
    };
    String::from_utf8_lossy(&bytes[..valid]).into_owned()
}

/// An unfinished string at the end of a JSON text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OpenString {
    /// Its decoded text so far.
    pub value: Vec<u8>,
    /// The name of the property whose value it is, or that holds the array whose item it is.
    pub key: Option<String>,
}

/// Returns the string in which an unfinished JSON text ends. Returns nothing if the text ends
/// outside of a string or in an unfinished escape.
pub(crate) fn open_string(json: &[u8]) -> Option<OpenString> {
    let mut scan = JsonScan::of_all_values(usize::MAX);
    json.iter().for_each(|&byte| {
        scan.feed(byte);
    });
    let quoted = [&json[scan.string()?.start..], b"\""].concat();
    let value = decoded(&quoted)?.into_owned().into_bytes();
    let object = scan.containers().iter().rev().find(|open| open.object);
    let key = object.filter(|object| object.in_value).and_then(|object| object.name(json));
    Some(OpenString { value, key: key.map(Cow::into_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(text: &str, ends: bool) -> Option<CopySpan> {
        Some(CopySpan { text: text.into(), ends })
    }

    #[test]
    fn finds_the_end_of_a_value_after_a_boundary() {
        let lookup = PromptLookup::new("xAda\nby Ada Lovelace, London. No. 3.5 (new)\nend");
        assert_eq!(lookup.continue_value(b"Ada", None), span(" Lovelace", true));
        assert_eq!(lookup.continue_value(b"Ada Lovelace", None), span("", true));
        assert_eq!(lookup.continue_value(b"ovelace", None), span("", true), "as a suffix");
        assert_eq!(lookup.continue_value(b"velac", None), None);
        assert_eq!(lookup.continue_value(b"A", None), None);
        assert_eq!(lookup.continue_value(b"3.", None), span("5", true));
        assert_eq!(lookup.continue_value(b"end", None), span("", true));
    }

    #[test]
    fn an_opening_value_is_what_stands_behind_its_key() {
        let lookup = PromptLookup::new("The order. Order-Number: A-17, Email = a@b.org\nTotal: \n");
        assert_eq!(lookup.continue_value(b"", Some("order_number")), span("A-17", true));
        assert_eq!(lookup.continue_value(b"", Some("orderNumber")), span("A-17", true));
        assert_eq!(lookup.continue_value(b"", Some("email")), span("a@b.org", true));
        assert_eq!(lookup.continue_value(b"", Some("order")), None);
        assert_eq!(lookup.continue_value(b"", Some("total")), None);
        assert_eq!(lookup.continue_value(b"", None), None);
    }

    #[test]
    fn long_values_are_cut_in_front_of_a_character() {
        let lookup = PromptLookup::new(&format!("ab{}", "é".repeat(MAX_BYTES)));
        assert_eq!(lookup.continue_value(b"ab", None), span(&"é".repeat(MAX_BYTES / 2), false));
        let odd = PromptLookup::new(&format!("abc{}", "é".repeat(MAX_BYTES)));
        assert_eq!(odd.continue_value(b"ab", None).unwrap().text.len(), MAX_BYTES - 1);
    }

    #[test]
    fn text_goes_on_as_its_longest_suffix_does() {
        let lookup = PromptLookup::new("one two three four. two three five\nsix");
        assert_eq!(lookup.continue_text(b"xx two three").as_deref(), Some(" five"));
        assert_eq!(lookup.continue_text(b"one two three").as_deref(), Some(" four. two three five"));
        assert_eq!(lookup.continue_text(b"ee"), None);
        assert_eq!(lookup.continue_text(b"abcdefgh abcdef").as_deref(), Some("gh abcde"), "in itself");
    }

    #[test]
    fn open_strings() {
        let open = |json: &str| open_string(json.as_bytes());
        let string = |value: &str, key: Option<&str>| {
            Some(OpenString { value: value.as_bytes().to_vec(), key: key.map(String::from) })
        };
        assert_eq!(open("{\"a\":\"x\\\"y"), string("x\"y", Some("a")));
        assert_eq!(open("{\"a\":\"x\""), None);
        assert_eq!(open("{\"b\":1,\"a\":\""), string("", Some("a")));
        assert_eq!(open("{\"a\":[\"x\",\""), string("", Some("a")));
        assert_eq!(open("{\"a\":\"x\\"), None);
        assert_eq!(open("\""), string("", None));
        assert_eq!(open(""), None);
    }
}
