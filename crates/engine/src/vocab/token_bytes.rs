//! Bytes of each token, from the tokenizer's own description.
//!
//! Tokenizers write tokens in different alphabets. Byte-level BPE maps every byte to a printable
//! character, SentencePiece writes spaces as U+2581 and unknown bytes as `<0x0A>`, and plain
//! vocabularies use the characters themselves. The decoder in the file determines the alphabet; the
//! tokens themselves are never inspected for it.
//!
//! # Cost
//!
//! One pass over the vocabulary.
//!
//! # Alternatives considered
//!
//! Decoding ids one by one through the tokenizer was rejected: decoders strip spaces and replace
//! partial UTF-8.

use serde_json::Value;

/// The id of a token.
pub type TokenId = u32;

/// The way the strings of a vocabulary encode bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenSpelling {
    /// GPT-2's table: each byte is one printable character.
    ByteLevel,
    /// U+2581 is a space, `<0xHH>` a byte.
    SentencePiece,
    /// Characters are themselves.
    Plain,
}

impl TokenSpelling {
    /// Determines the token spelling from the `decoder` and `model` of a tokenizer file.
    pub(super) fn of(file: &Value) -> Result<Self, String> {
        if mentions(&file["decoder"], "ByteLevel") || mentions(&file["pre_tokenizer"], "ByteLevel") {
            return Ok(TokenSpelling::ByteLevel);
        }
        if mentions(&file["decoder"], "WordPiece") || file["model"]["type"] == "WordPiece" {
            return Err("WordPiece vocabularies lose the spaces between words".into());
        }
        let replaces = file["decoder"].to_string().contains('\u{2581}');
        if mentions(&file["decoder"], "ByteFallback")
            || mentions(&file["decoder"], "Metaspace")
            || mentions(&file["pre_tokenizer"], "Metaspace")
            || replaces
        {
            return Ok(TokenSpelling::SentencePiece);
        }
        Ok(TokenSpelling::Plain)
    }

    /// Appends the bytes of one vocabulary entry to `bytes`. Returns false if the entry is not a
    /// text in this token spelling; `bytes` may then have some of them.
    pub(super) fn append(self, token: &str, bytes: &mut Vec<u8>) -> bool {
        match self {
            TokenSpelling::Plain => bytes.extend_from_slice(token.as_bytes()),
            TokenSpelling::ByteLevel => return append_byte_level(token, bytes),
            TokenSpelling::SentencePiece => {
                if let Some(hex) = token.strip_prefix("<0x").and_then(|t| t.strip_suffix('>'))
                    && hex.len() == 2
                    && let Ok(byte) = u8::from_str_radix(hex, 16)
                {
                    bytes.push(byte);
                } else {
                    let mut rest = token;
                    while let Some((before, after)) = rest.split_once('\u{2581}') {
                        bytes.extend_from_slice(before.as_bytes());
                        bytes.push(b' ');
                        rest = after;
                    }
                    bytes.extend_from_slice(rest.as_bytes());
                }
            }
        }
        true
    }
}

/// Returns true if a decoder or pre-tokenizer is of type `kind`, or a sequence that contains one.
fn mentions(part: &Value, kind: &str) -> bool {
    part["type"] == kind
        || ["decoders", "pretokenizers"]
            .iter()
            .any(|list| part[list].as_array().is_some_and(|parts| parts.iter().any(|p| p["type"] == kind)))
}

/// Number of characters in the table of byte-level BPE, counted from U+0000.
const CHARS: usize = 0x144;

/// Returns `bytes` in the characters of byte-level BPE.
pub(super) fn byte_level_text(bytes: &[u8]) -> String {
    let mut char_of_byte = ['\0'; 256];
    for (c, entry) in (0..).zip(BYTE_OF_CHAR) {
        if let (Some(byte), Some(c)) = (entry.checked_sub(1), char::from_u32(c)) {
            char_of_byte[byte as usize] = c;
        }
    }
    bytes.iter().map(|&byte| char_of_byte[byte as usize]).collect()
}

/// The byte of each character of byte-level BPE plus one, or 0 for a character without one.
/// Printable Latin-1 characters are themselves, and the other 68 bytes follow from U+0100 in order.
const BYTE_OF_CHAR: [u16; CHARS] = {
    let mut table = [0; CHARS];
    let (mut byte, mut next) = (0, 0x100);
    while byte < 256 {
        if matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) {
            table[byte] = byte as u16 + 1;
        } else {
            table[next] = byte as u16 + 1;
            next += 1;
        }
        byte += 1;
    }
    assert!(next == CHARS);
    table
};

fn append_byte_level(token: &str, bytes: &mut Vec<u8>) -> bool {
    for c in token.chars() {
        match BYTE_OF_CHAR.get(c as usize) {
            None | Some(0) => return false,
            Some(byte) => bytes.push((byte - 1) as u8),
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(spelling: TokenSpelling, token: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        spelling.append(token, &mut bytes).then_some(bytes)
    }

    #[test]
    fn byte_level_table_is_a_bijection() {
        let byte_of = |c: char| bytes(TokenSpelling::ByteLevel, c.encode_utf8(&mut [0; 4]));
        let mut seen = [false; 256];
        for c in (0u32..0x144).filter_map(char::from_u32) {
            if let Some(bytes) = byte_of(c) {
                let [byte] = bytes[..] else { panic!("{c:?}") };
                assert!(!std::mem::replace(&mut seen[byte as usize], true));
            }
        }
        assert!(seen.iter().all(|&s| s));
        let all: Vec<u8> = (0..=u8::MAX).collect();
        assert_eq!(bytes(TokenSpelling::ByteLevel, &byte_level_text(&all)), Some(all));
        assert_eq!(byte_of('Ġ'), Some(vec![b' ']));
        assert_eq!(byte_of('Ċ'), Some(vec![b'\n']));
        assert_eq!(byte_of('\u{2581}'), None);
        assert_eq!(bytes(TokenSpelling::ByteLevel, "aĠ"), Some(b"a ".to_vec()));
        assert_eq!(bytes(TokenSpelling::ByteLevel, "a "), None);
    }

    #[test]
    fn sentencepiece_bytes() {
        let s = |token| bytes(TokenSpelling::SentencePiece, token);
        assert_eq!(s("<0x0A>"), Some(vec![10]));
        assert_eq!(s("\u{2581}\u{2581}the\u{2581}é"), Some("  the é".into()));
        assert_eq!(s("<0xZZ>"), Some(b"<0xZZ>".to_vec()));
    }
}
