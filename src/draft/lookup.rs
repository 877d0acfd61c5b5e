//! Prompt look-up, aligned to the constraint: values that stand in the source text.
//!
//! Inside a JSON string the text of the value so far is searched in the source, and what follows there
//! is proposed, escaped as JSON writes it. Matching bytes rather than tokens (as prompt look-up
//! decoding does, Saxena 2023) finds values whatever their tokenisation: the first word of a value has
//! no leading blank in the answer, but has one in running text. One scan of the source per draft.

use crate::vocab::{TokenId, Vocabulary};

/// Most bytes proposed at once.
const MAX_BYTES: usize = 48;
/// Fewest bytes of a value that are looked up.
const MIN_MATCH: usize = 2;

/// A source text to copy from.
#[derive(Debug, Clone)]
pub struct Lookup {
    source: Vec<u8>,
}

impl Lookup {
    /// A source text.
    pub fn new(source: &str) -> Self {
        Lookup { source: source.as_bytes().to_vec() }
    }

    /// Tokens that continue `value`, the decoded text of a string so far, as the source does.
    pub fn propose(&self, vocab: &Vocabulary, value: &[u8]) -> Vec<TokenId> {
        let Some(rest) = self.continuation(value) else { return Vec::new() };
        let spelled = crate::machine::escape(&rest);
        let Ok(text) = std::str::from_utf8(&spelled) else { return Vec::new() };
        vocab.encode(text).unwrap_or_default()
    }

    /// What follows the last place where the source has `value` after a word boundary, to the end of
    /// the line.
    fn continuation(&self, value: &[u8]) -> Option<String> {
        if value.len() < MIN_MATCH {
            return None;
        }
        let mut starts = self.source.windows(value.len()).enumerate().filter(|w| w.1 == value).map(|w| w.0);
        let boundary = |&at: &usize| at == 0 || !self.source[at - 1].is_ascii_alphanumeric();
        let at = starts.rfind(boundary)? + value.len();
        let rest = &self.source[at..];
        let line = rest.iter().position(|b| matches!(b, b'\n' | b'\r')).unwrap_or(rest.len());
        let mut text = &rest[..line.min(MAX_BYTES)];
        while !text.is_empty() && std::str::from_utf8(text).is_err() {
            text = &text[..text.len() - 1];
        }
        let text = std::str::from_utf8(text).ok()?;
        (!text.is_empty()).then(|| text.to_string())
    }
}

/// The decoded text since the last opening quote of an unfinished JSON text, if its end is inside a
/// string and holds no unfinished escape.
pub(crate) fn open_string(json: &[u8]) -> Option<Vec<u8>> {
    let mut start = None;
    let mut at = 0;
    while at < json.len() {
        match (json[at], start) {
            (b'"', None) => start = Some(at + 1),
            (b'"', Some(_)) => start = None,
            (b'\\', Some(_)) => at += 1,
            _ => {}
        }
        at += 1;
    }
    let quoted = [b"\"", &json[start?..], b"\""].concat();
    serde_json::from_slice::<String>(&quoted).ok().map(String::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_end_of_the_line_after_a_boundary() {
        let lookup = Lookup::new("xAda\nby Ada Lovelace\nend");
        assert_eq!(lookup.continuation(b"Ada").as_deref(), Some(" Lovelace"));
        assert_eq!(lookup.continuation(b"Lovelace"), None);
        assert_eq!(lookup.continuation(b"A"), None);
    }

    #[test]
    fn open_strings() {
        assert_eq!(open_string(b"{\"a\":\"x\\\"y").as_deref(), Some(&b"x\"y"[..]));
        assert_eq!(open_string(b"{\"a\":\"x\""), None);
        assert_eq!(open_string(b"{\"a\":\""), Some(vec![]));
        assert_eq!(open_string(b"{\"a\":\"x\\"), None);
        assert_eq!(open_string(b""), None);
    }
}
