//! Escapes text for the inside of a JSON string.
//!
//! Each character has exactly one form here: the short escape if there is one, `\u00XX` for the
//! other control characters, and the character itself otherwise. RFC 8259, section 7, allows more
//! forms.
//!
//! # Cost
//!
//! Writing copies the runs between escapes. Most texts are a single run.

/// Returns true if a byte of decoded text must be escaped.
pub(crate) fn needs_escape(b: u8) -> bool {
    b < 0x20 || b == b'"' || b == b'\\'
}

/// Returns the letter of the two-character escape of `b`, if there is one.
pub(crate) fn short_escape(b: u8) -> Option<u8> {
    match b {
        b'"' | b'\\' => Some(b),
        0x08 => Some(b'b'),
        0x09 => Some(b't'),
        0x0a => Some(b'n'),
        0x0c => Some(b'f'),
        0x0d => Some(b'r'),
        _ => None,
    }
}

/// Passes the escaped form of `text`, without quotation marks, to `write`, piece by piece.
pub(crate) fn escape_to(text: &str, mut write: impl FnMut(&[u8])) {
    let mut left = text.as_bytes();
    while let Some(at) = left.iter().position(|&b| needs_escape(b)) {
        let b = left[at];
        write(&left[..at]);
        match short_escape(b) {
            Some(letter) => write(&[b'\\', letter]),
            None => write(format!("\\u{b:04x}").as_bytes()),
        }
        left = &left[at + 1..];
    }
    write(left);
}

/// Returns the escaped form of `text`, without quotation marks.
pub fn escape(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    escape_to(text, |piece| out.extend_from_slice(piece));
    out
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn every_character_is_spelled_as_serde_json_does() {
        let all: String = (0..0x300).filter_map(char::from_u32).collect();
        for text in ["", "plain", "\"", "a\\", "\u{1}b\n\nc", &all] {
            let quoted = format!("\"{}\"", String::from_utf8(escape(text)).unwrap());
            assert_eq!(quoted, serde_json::to_string(text).unwrap());
        }
    }
}
