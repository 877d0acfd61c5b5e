//! Encodings of tables and texts.
//!
//! # Cost
//!
//! A file is decoded as it is read; UTF-8 is passed on.
//!
//! # Alternatives considered
//!
//! The crate `encoding_rs` was rejected: it brings the tables of some forty encodings for the four
//! that are read here. A guess at other encodings of one byte for each letter was rejected: their
//! bytes do not show which it is.

use std::io::{BufRead, Read, Result as IoResult};
use std::path::Path;
use std::str::FromStr;

use ffwd_engine::text::decode;

use crate::error::{Error, ErrorKind, Place, Result};

/// The characters of windows-1252 from 0x80 to 0x9F; the rest is that of Unicode. Five are not
/// assigned, and stand for the control characters of their numbers, as browsers read them.
const FROM_80: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}',
    '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// An encoding of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8.
    Utf8,
    /// UTF-16 whose units begin with their lower byte.
    Utf16Le,
    /// UTF-16 whose units begin with their higher byte.
    Utf16Be,
    /// The code page of Western European Windows, which has the letters of Latin-1.
    Windows1252,
}

impl FromStr for Encoding {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Ok(match &*name.to_ascii_lowercase() {
            "utf-8" | "utf8" => Encoding::Utf8,
            "utf-16le" | "utf-16" => Encoding::Utf16Le,
            "utf-16be" => Encoding::Utf16Be,
            // Browsers read the others as windows-1252, too.
            "windows-1252" | "cp1252" | "latin1" | "iso-8859-1" => Encoding::Windows1252,
            _ => return Err("the encodings are utf-8, utf-16le, utf-16be and windows-1252".to_owned()),
        })
    }
}

impl Encoding {
    /// Returns the encoding that a byte order mark names, and the length of the mark.
    pub(super) fn of_mark(bytes: &[u8]) -> (Option<Encoding>, usize) {
        match bytes {
            [0xef, 0xbb, 0xbf, ..] => (Some(Encoding::Utf8), 3),
            [0xff, 0xfe, ..] => (Some(Encoding::Utf16Le), 2),
            [0xfe, 0xff, ..] => (Some(Encoding::Utf16Be), 2),
            _ => (None, 0),
        }
    }

    /// Returns true for bytes that are no UTF-8, but letters and punctuation of windows-1252.
    pub(super) fn looks_windows_1252(bytes: &[u8], may_be_cut: bool) -> bool {
        let is_cut = |e: std::str::Utf8Error| may_be_cut && e.error_len().is_none();
        let is_text = |b: &u8| !matches!(b, 0..=8 | 14..=31 | 127 | 0x81 | 0x8d | 0x8f | 0x90 | 0x9d);
        !std::str::from_utf8(bytes).map_or_else(is_cut, |_| true) && bytes.iter().all(is_text)
    }

    /// Decodes a file. A byte order mark decides, if there is one.
    ///
    /// # Errors
    /// `Io` for bytes in another encoding.
    pub(super) fn decode(self, path: &Path, bytes: Vec<u8>) -> Result<String> {
        let at = |e: Error| e.at(Place::File(path.into()));
        if self == Encoding::Utf8 || Encoding::of_mark(&bytes).1 > 0 {
            return decode(bytes).map_err(at);
        }
        let mut text = String::new();
        match Decoded::new(&bytes[..], self).read_to_string(&mut text) {
            Ok(_) => Ok(text),
            Err(e) => Err(at(Error::new(ErrorKind::Io, e.to_string()))),
        }
    }
}

/// Bytes of a file as UTF-8. Halves of UTF-16 without the other one become U+FFFD.
pub(super) struct Decoded<R> {
    from: R,
    encoding: Encoding,
    /// Decoded bytes that did not fit.
    rest: Vec<u8>,
    /// A unit that is the first half of a character.
    half: Option<u16>,
}

impl<R: BufRead> Decoded<R> {
    pub(super) fn new(from: R, encoding: Encoding) -> Self {
        Decoded { from, encoding, rest: Vec::new(), half: None }
    }

    /// Decodes the next bytes; false at the end.
    fn decode(&mut self) -> IoResult<bool> {
        let add = |rest: &mut Vec<u8>, c: char| rest.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        if self.encoding == Encoding::Windows1252 {
            let bytes = self.from.fill_buf()?;
            for b in bytes {
                let c = if let 0x80..=0x9f = b { FROM_80[usize::from(*b) - 0x80] } else { char::from(*b) };
                add(&mut self.rest, c);
            }
            let read = bytes.len();
            self.from.consume(read);
            return Ok(read > 0);
        }
        let mut units = Vec::with_capacity(2048);
        (&mut self.from).take(2048).read_to_end(&mut units)?;
        let is_end = units.len() < 2048;
        let unit = |pair: &[u8]| match (self.encoding, pair) {
            (Encoding::Utf16Le, [a, b]) => u16::from_le_bytes([*a, *b]),
            (_, [a, b]) => u16::from_be_bytes([*a, *b]),
            _ => 0xfffd,
        };
        let mut units: Vec<u16> = self.half.take().into_iter().chain(units.chunks(2).map(unit)).collect();
        if !is_end {
            self.half = units.pop_if(|unit| (0xd800..0xdc00).contains(unit));
        }
        for c in char::decode_utf16(units) {
            add(&mut self.rest, c.unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        Ok(!is_end)
    }
}

impl<R: BufRead> Read for Decoded<R> {
    fn read(&mut self, to: &mut [u8]) -> IoResult<usize> {
        if self.encoding == Encoding::Utf8 {
            return self.from.read(to);
        }
        while self.rest.len() < to.len() && self.decode()? {}
        let len = to.len().min(self.rest.len());
        to[..len].copy_from_slice(&self.rest[..len]);
        self.rest.drain(..len);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use ffwd_testkit::random::Random;

    use super::*;

    #[test]
    fn texts_are_the_same_in_all_encodings() {
        let mut random = Random::new(4);
        for _ in 0..200 {
            let len = random.next() % 3000;
            let wide: String =
                (0..len).map(|_| ['a', 'é', '日', '🎉', '\n'][random.next() as usize % 5]).collect();
            for (encoding, bytes) in [
                (Encoding::Utf16Le, u16::to_le_bytes as fn(u16) -> [u8; 2]),
                (Encoding::Utf16Be, u16::to_be_bytes),
            ] {
                let coded: Vec<u8> = wide.encode_utf16().flat_map(bytes).collect();
                assert_eq!(encoding.decode(Path::new("x"), coded).unwrap(), wide);
            }
            let bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
            let text = Encoding::Windows1252.decode(Path::new("x"), [b"x", &bytes[..]].concat()).unwrap();
            assert_eq!(text.chars().count(), bytes.len() + 1);
            let back =
                |c: char| FROM_80.iter().position(|known| *known == c).map_or(c as u8, |i| 0x80 + i as u8);
            assert_eq!(text.chars().skip(1).map(back).collect::<Vec<_>>(), bytes);
        }
        assert_eq!("UTF-16LE".parse(), Ok(Encoding::Utf16Le));
        assert!("koi8-r".parse::<Encoding>().is_err());
        for may_be_cut in [false, true] {
            assert!(Encoding::looks_windows_1252(b"caf\xe9 au lait", may_be_cut));
            assert_eq!(Encoding::looks_windows_1252(b"caf\xe9", may_be_cut), !may_be_cut);
            assert!(!Encoding::looks_windows_1252("café".as_bytes(), may_be_cut));
            assert!(!Encoding::looks_windows_1252(b"%PDF\0\xff", may_be_cut));
        }
    }
}
