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

    /// Returns the bytes of one vocabulary entry; `None` if the entry is not a text in this token
    /// spelling.
    pub(super) fn bytes(self, token: &str) -> Option<Vec<u8>> {
        match self {
            TokenSpelling::Plain => Some(token.as_bytes().to_vec()),
            TokenSpelling::ByteLevel => token.chars().map(byte_of_char).collect(),
            TokenSpelling::SentencePiece => {
                if let Some(hex) = token.strip_prefix("<0x").and_then(|t| t.strip_suffix('>'))
                    && hex.len() == 2
                    && let Ok(byte) = u8::from_str_radix(hex, 16)
                {
                    return Some(vec![byte]);
                }
                Some(token.replace('\u{2581}', " ").into_bytes())
            }
        }
    }
}

/// Returns true if a decoder or pre-tokenizer is of type `kind`, or a sequence that contains one.
fn mentions(part: &Value, kind: &str) -> bool {
    part["type"] == kind
        || ["decoders", "pretokenizers"]
            .iter()
            .any(|list| part[list].as_array().is_some_and(|parts| parts.iter().any(|p| p["type"] == kind)))
}

/// Inverts the table of byte-level BPE: printable Latin-1 characters are themselves, and the other
/// 68 bytes follow from U+0100 in order.
fn byte_of_char(c: char) -> Option<u8> {
    let itself = |b: u32| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let code = c as u32;
    if code < 0x100 {
        return itself(code).then_some(code as u8);
    }
    (0u32..256).filter(|&b| !itself(b)).nth((code - 0x100) as usize).map(|b| b as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_level_table_is_a_bijection() {
        let mut seen = [false; 256];
        for c in (0u32..0x144).filter_map(char::from_u32) {
            if let Some(b) = byte_of_char(c) {
                assert!(!std::mem::replace(&mut seen[b as usize], true));
            }
        }
        assert!(seen.iter().all(|&s| s));
        assert_eq!(byte_of_char('Ġ'), Some(b' '));
        assert_eq!(byte_of_char('Ċ'), Some(b'\n'));
        assert_eq!(byte_of_char('\u{2581}'), None);
    }

    #[test]
    fn sentencepiece_bytes() {
        let s = TokenSpelling::SentencePiece;
        assert_eq!(s.bytes("<0x0A>"), Some(vec![10]));
        assert_eq!(s.bytes("\u{2581}the"), Some(b" the".to_vec()));
        assert_eq!(s.bytes("<0xZZ>"), Some(b"<0xZZ>".to_vec()));
    }
}
