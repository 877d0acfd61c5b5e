//! Texts as files hold them: byte order marks and encodings.
//!
//! A byte order mark says how a file is written and is no part of its text. UTF-16 with a mark is
//! read; other encodings are refused by their name where their bytes show it.
//!
//! # Cost
//! One pass over the bytes; UTF-8 is not copied, except to drop a mark.
//!
//! # Alternatives considered
//! Guessing encodings of one byte for each letter was rejected: their bytes do not show which it is.

use crate::error::{Error, ErrorKind, Result};

/// U+FEFF at the beginning of a text.
const MARK: char = '\u{feff}';
/// Number of bytes in which UTF-16 without a mark is recognised.
const SAMPLE: usize = 64;

/// Returns a text without the byte order mark at its beginning.
///
/// ```
/// assert_eq!(ffwd_engine::text::without_mark("\u{feff}{}"), "{}");
/// ```
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

/// Returns the bytes of a UTF-8 text without the byte order mark at their beginning.
pub fn bytes_without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// Decodes the bytes of a file: UTF-8, or UTF-16 with a byte order mark, which is dropped.
///
/// # Errors
/// `Io` for bytes in another encoding, named if it is UTF-32 or UTF-16 without a mark, with the
/// offset of the first wrong byte otherwise.
///
/// ```
/// use ffwd_engine::text::decode;
///
/// # fn main() -> ffwd_engine::Result<()> {
/// assert_eq!(decode(b"\xef\xbb\xbf{}".to_vec())?, "{}");
/// assert_eq!(decode(b"\xff\xfe{\0}\0".to_vec())?, "{}");
/// assert!(decode(b"{\0}\0".to_vec()).is_err());
/// # Ok(())
/// # }
/// ```
pub fn decode(bytes: Vec<u8>) -> Result<String> {
    match &bytes[..] {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Err(refused("the text is UTF-32")),
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        _ if looks_like_utf16(&bytes) => Err(refused("the text looks like UTF-16 without a byte order mark")),
        _ => {
            let text = String::from_utf8(bytes)
                .map_err(|e| refused(format!("not UTF-8 from byte {}", e.utf8_error().valid_up_to())))?;
            Ok(if text.starts_with(MARK) { without_mark(&text).to_owned() } else { text })
        }
    }
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Io, message).hint("convert the file to UTF-8")
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String> {
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    let mut text = String::with_capacity(bytes.len() / 2);
    let mut at = 2;
    for c in char::decode_utf16(units) {
        let c = c.map_err(|_| refused(format!("the text begins as UTF-16, but is not from byte {at}")))?;
        at += 2 * c.len_utf16();
        text.push(c);
    }
    match bytes.len() % 2 {
        0 => Ok(text),
        _ => Err(refused("the text begins as UTF-16, but has half a unit at its end")),
    }
}

/// Returns true if every second of the first bytes is zero, and the others are not: ASCII text in
/// UTF-16. No text has zeros in this way.
fn looks_like_utf16(bytes: &[u8]) -> bool {
    let sample = &bytes[..bytes.len().min(SAMPLE) & !1];
    let zeros = |odd: usize| sample.iter().skip(odd).step_by(2).all(|byte| *byte == 0);
    let none = |odd: usize| sample.iter().skip(odd).step_by(2).all(|byte| *byte != 0);
    bytes.len().is_multiple_of(2) && !sample.is_empty() && (zeros(1) && none(0) || zeros(0) && none(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_read_or_named() {
        let text = "{\"é\": \"😀\"}\n";
        let little = |mark: &str| -> Vec<u8> {
            format!("{mark}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect()
        };
        let big: Vec<u8> = format!("{MARK}{text}").encode_utf16().flat_map(u16::to_be_bytes).collect();
        for bytes in [text.into(), format!("{MARK}{text}").into_bytes(), little("\u{feff}"), big.clone()] {
            assert_eq!(decode(bytes).unwrap(), text);
        }
        let wide = |swap: bool| -> Vec<u8> {
            let bytes = |c: char| match swap {
                true => u32::from(c).to_be_bytes(),
                false => u32::from(c).to_le_bytes(),
            };
            [MARK, 'a'].into_iter().flat_map(bytes).collect()
        };
        for (bytes, part) in [
            (wide(false), "UTF-32"),
            (wide(true), "UTF-32"),
            ("{}".encode_utf16().flat_map(u16::to_le_bytes).collect(), "UTF-16 without"),
            ("{}".encode_utf16().flat_map(u16::to_be_bytes).collect(), "UTF-16 without"),
            (big[..big.len() - 1].to_vec(), "half a unit"),
            (b"\xff\xfea\0\0\xd8b\0".to_vec(), "not from byte 4"),
            (b"ab\xff".to_vec(), "from byte 2"),
        ] {
            let error = decode(bytes).unwrap_err();
            assert!(error.message().contains(part) && error.hint_text().is_some(), "{error}");
        }
        assert_eq!(bytes_without_mark(format!("{MARK}a{MARK}").as_bytes()), "a\u{feff}".as_bytes());
        assert_eq!(decode(Vec::new()).unwrap(), "");
        assert_eq!(decode(b"\xff\xfe".to_vec()).unwrap(), "");
        assert_eq!(decode("a\0b".into()).unwrap(), "a\0b");
        assert_eq!(decode("a\u{feff}".into()).unwrap(), "a\u{feff}", "a mark only at the beginning");
    }
}
