//! The header of GGUF files up to the table of tensors: numbers, texts and lists by their keys.
//!
//! Every count and size is checked against the length of the file before memory is taken, and nothing
//! recurses.
//!
//! # Cost
//!
//! The header is read once, in time linear in its size. Lists are read where they lie when they are
//! asked for.
//!
//! # Alternatives considered
//!
//! Candle's own reader was rejected: it keeps every element of every list (those of the tokenizer) as a
//! tagged value.

use std::collections::HashMap;

use crate::error::{Error, ErrorKind, Result};

/// The first bytes of a file.
pub const MAGIC: &[u8; 4] = b"GGUF";
/// Maximum number of metadata entries and of tensors.
const MAX_ENTRIES: u64 = 1 << 16;
/// Maximum length of a key, a tensor name or a metadata string that is kept; longer strings are
/// skipped.
const MAX_KEPT_STRING: u64 = 1 << 10;
/// The same limit for the metadata that hold chat templates.
const MAX_TEMPLATE: u64 = 1 << 18;
/// Prefix of the keys of chat templates.
pub const TEMPLATE: &str = "tokenizer.chat_template";
/// A value of the metadata. Arrays and long texts are skipped; the position of an array is kept.
#[derive(Debug, Clone, PartialEq)]
enum Meta {
    Int(i128),
    Float(f64),
    Bool(bool),
    Text(String),
    Array(Array),
    Skipped,
}

/// The position of an array's elements in the file.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Array {
    kind: u32,
    count: u64,
    start: usize,
}

/// The metadata of a file.
pub struct Metadata {
    entries: HashMap<String, Meta>,
    wide: bool,
}

/// Reads little-endian numbers and tracks its position.
pub struct Cursor<'a> {
    data: &'a [u8],
    position: usize,
    /// True once more was wanted than there is.
    ended: bool,
    /// Width of counts and lengths: 4 bytes in version 1, 8 bytes in later ones.
    wide: bool,
}

impl<'a> Cursor<'a> {
    /// Begins to read a file.
    pub fn new(data: &'a [u8]) -> Self {
        Cursor { data, position: 0, ended: false, wide: true }
    }

    /// Returns true if more was wanted than there is.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// Returns the number of bytes that were read.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the next `n` bytes.
    fn take(&mut self, n: u64) -> Result<&'a [u8]> {
        let rest = &self.data[self.position..];
        match usize::try_from(n).ok().and_then(|n| rest.get(..n)) {
            Some(bytes) => {
                self.position += bytes.len();
                Ok(bytes)
            }
            None => {
                self.ended = true;
                Err(bad(format!("the GGUF file ends early: {n} bytes wanted at {}", self.position)))
            }
        }
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut buffer = [0; N];
        buffer.copy_from_slice(self.take(N as u64)?);
        Ok(buffer)
    }

    /// Reads a number of 32 bits.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    /// Reads a number of 64 bits.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    /// Reads a count or a length.
    pub fn count(&mut self) -> Result<u64> {
        if self.wide { self.u64() } else { self.u32().map(u64::from) }
    }

    /// Reads a string, and returns it if it is short enough to keep and UTF-8.
    fn text(&mut self, limit: u64) -> Result<Option<&'a str>> {
        let n = self.count()?;
        let bytes = self.take(n)?;
        Ok(if n > limit { None } else { std::str::from_utf8(bytes).ok() })
    }

    /// Reads a name.
    pub fn name(&mut self) -> Result<String> {
        let name = self.text(MAX_KEPT_STRING)?;
        name.map(str::to_owned).ok_or_else(|| bad("a name in the GGUF file is too long or not UTF-8"))
    }

    fn meta(&mut self, kind: u32, limit: u64) -> Result<Meta> {
        Ok(match kind {
            0 => Meta::Int(u8::from_le_bytes(self.bytes()?).into()),
            1 => Meta::Int(i8::from_le_bytes(self.bytes()?).into()),
            2 => Meta::Int(u16::from_le_bytes(self.bytes()?).into()),
            3 => Meta::Int(i16::from_le_bytes(self.bytes()?).into()),
            4 => Meta::Int(self.u32()?.into()),
            5 => Meta::Int(i32::from_le_bytes(self.bytes()?).into()),
            6 => Meta::Float(f32::from_le_bytes(self.bytes()?).into()),
            7 => Meta::Bool(self.bytes::<1>()? != [0]),
            8 => self.text(limit)?.map_or(Meta::Skipped, |text| Meta::Text(text.to_owned())),
            9 => Meta::Array(self.skip_array()?),
            10 => Meta::Int(self.u64()?.into()),
            11 => Meta::Int(i64::from_le_bytes(self.bytes()?).into()),
            12 => Meta::Float(f64::from_le_bytes(self.bytes()?)),
            _ => return Err(bad(format!("unknown GGUF value type {kind}"))),
        })
    }

    fn skip_array(&mut self) -> Result<Array> {
        let (kind, n) = (self.u32()?, self.count()?);
        let array = Array { kind, count: n, start: self.position };
        let size = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            10..=12 => 8,
            8 => {
                // A false count runs into the end of the file.
                for _ in 0..n {
                    let len = self.count()?;
                    self.take(len)?;
                }
                return Ok(array);
            }
            _ => return Err(bad(format!("a GGUF array of type {kind}"))),
        };
        self.take(n.checked_mul(size).ok_or_else(|| bad("a GGUF array is larger than the file"))?)?;
        Ok(array)
    }
}

impl Metadata {
    /// Reads the beginning of a file. Returns the metadata and the number of tensors, whose table comes
    /// next.
    ///
    /// # Errors
    /// Returns an error if it is not GGUF, contradicts itself, or ends early.
    pub fn read(cursor: &mut Cursor<'_>) -> Result<(Self, u64)> {
        if cursor.bytes::<4>()? != *MAGIC {
            return Err(bad("not a GGUF file: it does not begin with `GGUF`"));
        }
        match cursor.u32()? {
            1 => cursor.wide = false,
            2 | 3 => {}
            v => return Err(bad(format!("GGUF version {v} is unknown"))),
        }
        let (tensor_count, meta_count) = (cursor.count()?, cursor.count()?);
        if tensor_count > MAX_ENTRIES || meta_count > MAX_ENTRIES {
            return Err(bad(format!(
                "{tensor_count} tensors and {meta_count} metadata entries; the limit is {MAX_ENTRIES}"
            )));
        }
        let mut entries = HashMap::new();
        for _ in 0..meta_count {
            let key = cursor.name()?;
            let kind = cursor.u32()?;
            let limit = if key.starts_with(TEMPLATE) { MAX_TEMPLATE } else { MAX_KEPT_STRING };
            let value = cursor.meta(kind, limit)?;
            entries.insert(key, value);
        }
        Ok((Metadata { entries, wide: cursor.wide }, tensor_count))
    }

    /// Returns true if the metadata have this key.
    pub fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Returns a text of the metadata.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.entries.get(key) {
            Some(Meta::Text(t)) => Some(t),
            _ => None,
        }
    }

    /// Returns the metadata texts whose keys begin with `prefix`, with the rest of their keys.
    pub fn texts<'s>(&'s self, prefix: &'s str) -> impl Iterator<Item = (&'s str, &'s str)> {
        self.entries.iter().filter_map(move |(key, value)| match value {
            Meta::Text(t) => Some((key.strip_prefix(prefix)?, t.as_str())),
            _ => None,
        })
    }

    /// Returns a required whole number of the metadata.
    pub fn number(&self, key: &str) -> Result<usize> {
        self.optional(key)?.ok_or_else(|| bad(format!("the GGUF metadata lack `{key}`")))
    }

    /// Returns a whole number of the metadata.
    pub fn optional(&self, key: &str) -> Result<Option<usize>> {
        let number =
            self.value(key, "a whole number", |m| if let Meta::Int(n) = m { Some(*n) } else { None })?;
        number.map(|n| usize::try_from(n).map_err(|_| bad(format!("`{key}` is {n}")))).transpose()
    }

    /// Returns the end tokens of sequence, of turn and of message.
    pub fn ends(&self) -> Result<Vec<u32>> {
        let mut ends = Vec::new();
        for name in ["eos", "eot", "eom"] {
            let key = format!("tokenizer.ggml.{name}_token_id");
            if let Some(id) = self.optional(&key)?.and_then(|n| u32::try_from(n).ok())
                && !ends.contains(&id)
            {
                ends.push(id);
            }
        }
        Ok(ends)
    }

    /// Reads a list of texts of the metadata: at most `most` texts with at most `bytes` bytes in
    /// all.
    ///
    /// # Errors
    /// Returns an error if the entry is not a list of texts, is larger than the limits, or is not
    /// UTF-8.
    pub fn string_list<'d>(
        &self,
        data: &'d [u8],
        key: &str,
        most: u64,
        bytes: u64,
    ) -> Result<Option<Vec<&'d str>>> {
        let Some(array) = self.array(key, most)? else { return Ok(None) };
        if array.kind != 8 {
            return Err(bad(format!("`{key}` is not a list of texts")));
        }
        let mut cursor = self.at(data, array);
        let (mut list, mut left) = (Vec::with_capacity(array.count as usize), bytes);
        for i in 0..array.count {
            let n = cursor.count()?;
            left = left.checked_sub(n).ok_or_else(|| {
                Error::new(ErrorKind::TooComplex, format!("`{key}` has more than the limit of {bytes} bytes"))
            })?;
            let text = std::str::from_utf8(cursor.take(n)?);
            list.push(text.map_err(|_| bad(format!("entry {i} of `{key}` is not UTF-8")))?);
        }
        Ok(Some(list))
    }

    /// Reads a list of numbers of the metadata, at most `most` of them.
    ///
    /// # Errors
    /// Returns an error if the entry is not a list of whole numbers or of floats, or is too long.
    pub fn number_list(&self, data: &[u8], key: &str, most: u64) -> Result<Option<Vec<f64>>> {
        let Some(array) = self.array(key, most)? else { return Ok(None) };
        let mut cursor = self.at(data, array);
        let number = |cursor: &mut Cursor<'_>| match cursor.meta(array.kind, 0)? {
            Meta::Int(n) => Ok(n as f64),
            Meta::Float(f) => Ok(f),
            Meta::Bool(b) => Ok(f64::from(u8::from(b))),
            other => Err(bad(format!("`{key}` is not a list of numbers but holds {}", other.kind()))),
        };
        (0..array.count).map(|_| number(&mut cursor)).collect::<Result<_>>().map(Some)
    }

    /// Returns true if an entry of the metadata is a list.
    pub fn is_array(&self, key: &str) -> bool {
        matches!(self.entries.get(key), Some(Meta::Array(_)))
    }

    fn array(&self, key: &str, most: u64) -> Result<Option<Array>> {
        let array = self.value(key, "a list", |m| if let Meta::Array(a) = m { Some(*a) } else { None })?;
        match array {
            Some(array) if array.count > most => {
                let message = format!("`{key}` has {} entries, the limit is {most}", array.count);
                Err(Error::new(ErrorKind::TooComplex, message))
            }
            array => Ok(array),
        }
    }

    /// Returns a reader at the elements of an array of the metadata.
    fn at<'d>(&self, data: &'d [u8], array: Array) -> Cursor<'d> {
        Cursor { data, position: array.start.min(data.len()), ended: false, wide: self.wide }
    }

    /// Returns a boolean of the metadata.
    pub fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.value(key, "true or false", |m| if let Meta::Bool(b) = m { Some(*b) } else { None })
    }

    /// Returns a float of the metadata.
    pub fn float(&self, key: &str) -> Result<Option<f32>> {
        self.value(key, "a float", |m| if let Meta::Float(f) = m { Some(*f as f32) } else { None })
    }

    /// Returns an entry of the kind that `read` takes.
    fn value<T>(&self, key: &str, what: &str, read: impl Fn(&Meta) -> Option<T>) -> Result<Option<T>> {
        let Some(meta) = self.entries.get(key) else { return Ok(None) };
        read(meta).map(Some).ok_or_else(|| bad(format!("`{key}` is not {what} but {}", meta.kind())))
    }
}

impl Meta {
    fn kind(&self) -> &'static str {
        match self {
            Meta::Int(_) => "a whole number",
            Meta::Float(_) => "a float",
            Meta::Bool(_) => "true or false",
            Meta::Text(_) => "a text",
            Meta::Array(_) => "a list",
            Meta::Skipped => "a text that is very long or not UTF-8",
        }
    }
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Model, message)
}
