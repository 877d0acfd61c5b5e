//! Reader of GGUF files: metadata, the table of tensors, and the bytes of each tensor.
//!
//! A model in several files (`-00001-of-00003.gguf`) is read as one. Every count and size is checked
//! against the length of the file before memory is taken, and nothing recurses.
//!
//! # Cost
//!
//! The header is read once, in time linear in its size. Tensor data and lists are slices of the
//! file; nothing is copied.
//!
//! # Alternatives considered
//!
//! Candle's own reader was rejected. It divides by an alignment that the file may set to zero, and
//! wraps on dimensions whose product overflows. It also keeps every element of every array (the
//! tokenizer's lists) as a tagged value.

use std::collections::HashMap;

use crate::error::{Error, ErrorKind, Result};
use crate::model::config::bad;
use crate::model::loading::file_data::FileData;
use crate::model::loading::tensor_type::TensorType;

/// Maximum number of metadata entries and of tensors.
const MAX_ENTRIES: u64 = 1 << 16;
/// Maximum length of a key, a tensor name or a metadata string that is kept; longer strings are
/// skipped.
const MAX_KEPT_STRING: u64 = 1 << 10;
/// The same limit for the metadata that hold chat templates.
const MAX_TEMPLATE: u64 = 1 << 18;
/// Prefix of the keys of chat templates.
pub(crate) const TEMPLATE: &str = "tokenizer.chat_template";
/// Maximum number of dimensions of a tensor.
const MAX_DIMENSIONS: u32 = 4;
/// Largest alignment of tensor data accepted.
const MAX_ALIGNMENT: usize = 1 << 20;
/// The key for the number of files of a model, and that for the index of a file.
const SPLIT_COUNT: &str = "split.count";
const SPLIT_INDEX: &str = "split.no";

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

/// The position of a tensor, its type and its shape.
#[derive(Debug, Clone)]
pub(crate) struct TensorInfo {
    pub dtype: TensorType,
    /// Outermost dimension first, unlike in the file.
    pub shape: Vec<usize>,
    /// Index of the file.
    file: usize,
    start: usize,
    bytes: usize,
}

/// An open GGUF model: one file, or all files of a split one.
pub(crate) struct Gguf<'a> {
    files: Vec<FileData<'a>>,
    metadata: HashMap<String, Meta>,
    tensors: HashMap<String, TensorInfo>,
    wide: bool,
}

/// The header of one file.
struct Header {
    metadata: HashMap<String, Meta>,
    tensors: Vec<(String, TensorInfo)>,
    wide: bool,
}

/// Reads little-endian numbers and tracks its position.
struct Cursor<'a> {
    data: &'a [u8],
    position: usize,
    /// Width of counts and lengths: 4 bytes in version 1, 8 bytes in later ones.
    wide: bool,
}

impl<'a> Cursor<'a> {
    /// Returns the next `n` bytes.
    fn take(&mut self, n: u64) -> Result<&'a [u8]> {
        let rest = &self.data[self.position..];
        match usize::try_from(n).ok().and_then(|n| rest.get(..n)) {
            Some(bytes) => {
                self.position += bytes.len();
                Ok(bytes)
            }
            None => Err(bad(format!("the GGUF file ends early: {n} bytes wanted at {}", self.position))),
        }
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut buffer = [0; N];
        buffer.copy_from_slice(self.take(N as u64)?);
        Ok(buffer)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    fn count(&mut self) -> Result<u64> {
        if self.wide { self.u64() } else { self.u32().map(u64::from) }
    }

    /// Reads a string, and returns it if it is short enough to keep and UTF-8.
    fn text(&mut self, limit: u64) -> Result<Option<&'a str>> {
        let n = self.count()?;
        let bytes = self.take(n)?;
        Ok(if n > limit { None } else { std::str::from_utf8(bytes).ok() })
    }

    fn name(&mut self) -> Result<String> {
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

    fn tensor(&mut self, file: usize) -> Result<(String, TensorInfo)> {
        let name = self.name()?;
        let rank = self.u32()?;
        if rank == 0 || rank > MAX_DIMENSIONS {
            return Err(bad(format!("tensor `{name}` has {rank} dimensions")));
        }
        let mut shape = Vec::with_capacity(rank as usize);
        for _ in 0..rank {
            let d = self.count()?;
            shape.push(usize::try_from(d).map_err(|_| bad(format!("tensor `{name}` is too large")))?);
        }
        shape.reverse();
        let dtype = TensorType::from_gguf(self.u32()?, &name)?;
        let bytes = dtype.bytes(&shape);
        let bytes = bytes.ok_or_else(|| bad(format!("tensor `{name}` has an impossible shape {shape:?}")))?;
        let start = usize::try_from(self.u64()?);
        let start = start.map_err(|_| bad(format!("tensor `{name}` lies outside the file")))?;
        Ok((name, TensorInfo { dtype, shape, file, start, bytes }))
    }
}

/// Reads the header of the `file`-th file.
fn header(data: &[u8], file: usize) -> Result<Header> {
    let mut cursor = Cursor { data, position: 0, wide: true };
    if cursor.bytes::<4>()? != *b"GGUF" {
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
    let mut metadata = HashMap::new();
    for _ in 0..meta_count {
        let key = cursor.name()?;
        let kind = cursor.u32()?;
        let limit = if key.starts_with(TEMPLATE) { MAX_TEMPLATE } else { MAX_KEPT_STRING };
        let value = cursor.meta(kind, limit)?;
        metadata.insert(key, value);
    }
    let mut tensors = Vec::new();
    for _ in 0..tensor_count {
        tensors.push(cursor.tensor(file)?);
    }
    let start = align(cursor.position, alignment(&metadata)?);
    for (name, t) in &mut tensors {
        t.start = start
            .checked_add(t.start)
            .filter(|s| s.checked_add(t.bytes).is_some_and(|end| end <= data.len()))
            .ok_or_else(|| bad(format!("tensor `{name}` lies outside the file")))?;
    }
    Ok(Header { metadata, tensors, wide: cursor.wide })
}

impl<'a> Gguf<'a> {
    /// Reads the headers of a model's files, in their order. The metadata are those of the first.
    ///
    /// # Errors
    /// Returns an error if a file is not GGUF or contradicts itself, or files are missing.
    pub(crate) fn open(files: Vec<FileData<'a>>) -> Result<Self> {
        let mut all: Option<Header> = None;
        let mut tensors = HashMap::new();
        for (i, file) in files.iter().enumerate() {
            let mut header = header(file, i)?;
            for (name, info) in std::mem::take(&mut header.tensors) {
                if tensors.insert(name.clone(), info).is_some() {
                    return Err(bad(format!("tensor `{name}` occurs twice")));
                }
            }
            let index = number(&header.metadata, SPLIT_INDEX)?;
            let count = number(&header.metadata, SPLIT_COUNT)?.unwrap_or(1).max(1);
            if count != files.len() || files.len() > 1 && index != Some(i) {
                let index = index.unwrap_or(0);
                return Err(bad(format!(
                    "part {index} (from 0) of {count} parts is at place {i} of {} files",
                    files.len()
                ))
                .hint("keep all parts in one folder, with names that end in -00001-of-00003.gguf"));
            }
            all.get_or_insert(header);
        }
        let Header { metadata, wide, .. } = all.ok_or_else(|| bad("no GGUF file"))?;
        Ok(Gguf { files, metadata, tensors, wide })
    }

    /// Returns the tensor's entry, if it exists.
    pub(crate) fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    /// Returns the tensor's bytes as stored.
    pub(crate) fn read(&self, name: &str) -> Result<&[u8]> {
        let t = self.tensors.get(name).ok_or_else(|| bad(format!("the tensor `{name}` is missing")))?;
        // The range was checked against the length of the file when it was opened.
        Ok(&self.files[t.file][t.start..t.start + t.bytes])
    }

    /// Gives the memory of the tensor's bytes back; reading them again is possible.
    pub(crate) fn release(&self, name: &str) {
        if let Some(t) = self.tensors.get(name) {
            self.files[t.file].release(t.start..t.start + t.bytes);
        }
    }

    /// Returns the names of all tensors.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Returns true if the metadata have this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.metadata.contains_key(key)
    }

    /// Returns a text of the metadata.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        match self.metadata.get(key) {
            Some(Meta::Text(t)) => Some(t),
            _ => None,
        }
    }

    /// Returns the metadata texts whose keys begin with `prefix`, with the rest of their keys.
    pub(crate) fn texts<'s>(&'s self, prefix: &'s str) -> impl Iterator<Item = (&'s str, &'s str)> {
        self.metadata.iter().filter_map(move |(key, value)| match value {
            Meta::Text(t) => Some((key.strip_prefix(prefix)?, t.as_str())),
            _ => None,
        })
    }

    /// Returns a required whole number of the metadata.
    pub(crate) fn number(&self, key: &str) -> Result<usize> {
        self.optional(key)?.ok_or_else(|| bad(format!("the GGUF metadata lack `{key}`")))
    }

    /// Returns a whole number of the metadata.
    pub(crate) fn optional(&self, key: &str) -> Result<Option<usize>> {
        number(&self.metadata, key)
    }

    /// Reads a list of texts of the metadata: at most `most` texts with at most `bytes` bytes in
    /// all.
    ///
    /// # Errors
    /// Returns an error if the entry is not a list of texts, is larger than the limits, or is not
    /// UTF-8.
    pub(crate) fn string_list(&self, key: &str, most: u64, bytes: u64) -> Result<Option<Vec<&str>>> {
        let Some(array) = self.array(key, most)? else { return Ok(None) };
        if array.kind != 8 {
            return Err(bad(format!("`{key}` is not a list of texts")));
        }
        let mut cursor = self.at(array);
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
    pub(crate) fn number_list(&self, key: &str, most: u64) -> Result<Option<Vec<f64>>> {
        let Some(array) = self.array(key, most)? else { return Ok(None) };
        let mut cursor = self.at(array);
        let number = |cursor: &mut Cursor<'_>| match cursor.meta(array.kind, 0)? {
            Meta::Int(n) => Ok(n as f64),
            Meta::Float(f) => Ok(f),
            Meta::Bool(b) => Ok(f64::from(u8::from(b))),
            other => Err(bad(format!("`{key}` is not a list of numbers but holds {}", other.kind()))),
        };
        (0..array.count).map(|_| number(&mut cursor)).collect::<Result<_>>().map(Some)
    }

    /// Returns true if an entry of the metadata is a list.
    pub(crate) fn is_array(&self, key: &str) -> bool {
        matches!(self.metadata.get(key), Some(Meta::Array(_)))
    }

    fn array(&self, key: &str, most: u64) -> Result<Option<Array>> {
        let array =
            value(&self.metadata, key, "a list", |m| if let Meta::Array(a) = m { Some(*a) } else { None })?;
        match array {
            Some(array) if array.count > most => {
                let message = format!("`{key}` has {} entries, the limit is {most}", array.count);
                Err(Error::new(ErrorKind::TooComplex, message))
            }
            array => Ok(array),
        }
    }

    /// Returns a reader at the elements of an array of the metadata, which are those of the first
    /// file.
    fn at(&self, array: Array) -> Cursor<'_> {
        Cursor { data: &self.files[0], position: array.start, wide: self.wide }
    }

    /// Returns a boolean of the metadata.
    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>> {
        value(&self.metadata, key, "true or false", |m| if let Meta::Bool(b) = m { Some(*b) } else { None })
    }

    /// Returns a float of the metadata.
    pub(crate) fn float(&self, key: &str) -> Result<Option<f32>> {
        value(&self.metadata, key, "a float", |m| if let Meta::Float(f) = m { Some(*f as f32) } else { None })
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

fn number(metadata: &HashMap<String, Meta>, key: &str) -> Result<Option<usize>> {
    let number =
        value(metadata, key, "a whole number", |m| if let Meta::Int(n) = m { Some(*n) } else { None })?;
    number.map(|n| usize::try_from(n).map_err(|_| bad(format!("`{key}` is {n}")))).transpose()
}

/// Returns an entry of the metadata of the kind that `read` takes.
fn value<T>(
    metadata: &HashMap<String, Meta>,
    key: &str,
    what: &str,
    read: impl Fn(&Meta) -> Option<T>,
) -> Result<Option<T>> {
    let Some(meta) = metadata.get(key) else { return Ok(None) };
    read(meta).map(Some).ok_or_else(|| bad(format!("`{key}` is not {what} but {}", meta.kind())))
}

fn alignment(metadata: &HashMap<String, Meta>) -> Result<usize> {
    match metadata.get("general.alignment") {
        None => Ok(32),
        Some(Meta::Int(n)) => {
            usize::try_from(*n).ok().filter(|n| n.is_power_of_two() && *n <= MAX_ALIGNMENT).ok_or_else(|| {
                bad(format!("the GGUF alignment {n} is not a power of two up to {MAX_ALIGNMENT}"))
            })
        }
        Some(other) => Err(bad(format!("the GGUF alignment is {}", other.kind()))),
    }
}

/// Rounds `position` up. Cannot overflow: both numbers are bounded by the size of a file that is
/// read.
fn align(position: usize, alignment: usize) -> usize {
    position.div_ceil(alignment) * alignment
}
