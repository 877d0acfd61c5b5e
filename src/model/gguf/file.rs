//! Reader of GGUF files: metadata, the table of tensors, and the bytes of one tensor at a time.
//!
//! Every count and size is checked against the length of the file before memory is taken, and
//! nothing recurses.
//!
//! # Cost
//!
//! The header is read once, in time linear in its size. Tensor data is read only on request.
//!
//! # Alternatives considered
//!
//! Candle's own reader was rejected. It divides by an alignment that the file may set to zero, and
//! wraps on dimensions whose product overflows. It also keeps every element of every array (the
//! tokenizer's lists) as a tagged value.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};

use candle_core::quantized::GgmlDType;

use crate::error::{Error, ErrorKind, Result};
use crate::model::config::bad;

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
const MAX_ALIGNMENT: u64 = 1 << 20;

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
    start: u64,
}

/// The position of a tensor in the file, its type and its shape.
#[derive(Debug, Clone)]
pub(crate) struct TensorInfo {
    pub dtype: GgmlDType,
    /// Outermost dimension first, unlike in the file.
    pub shape: Vec<usize>,
    start: u64,
    bytes: u64,
}

/// An open GGUF file.
pub(crate) struct Gguf<R> {
    input: R,
    metadata: HashMap<String, Meta>,
    tensors: HashMap<String, TensorInfo>,
    length: u64,
    wide: bool,
}

/// Reads little-endian numbers and tracks its position.
struct Cursor<'a, R> {
    input: &'a mut R,
    position: u64,
    length: u64,
    /// Width of counts and lengths: 4 bytes in version 1, 8 bytes in later ones.
    wide: bool,
}

impl<R: Read> Cursor<'_, R> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut buffer = [0; N];
        self.need(N as u64)?;
        self.input.read_exact(&mut buffer).map_err(|e| read_error(&e))?;
        self.position += N as u64;
        Ok(buffer)
    }

    fn need(&self, n: u64) -> Result<()> {
        if n > self.length - self.position {
            return Err(bad(format!("the GGUF file ends early: {n} bytes wanted at {}", self.position)));
        }
        Ok(())
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

    fn skip(&mut self, n: u64) -> Result<()> {
        self.need(n)?;
        std::io::copy(&mut self.input.by_ref().take(n), &mut std::io::sink()).map_err(|e| read_error(&e))?;
        self.position += n;
        Ok(())
    }

    /// Reads a string and returns it if it is short enough to keep.
    fn text(&mut self, limit: u64) -> Result<Option<String>> {
        let n = self.count()?;
        if n > limit {
            self.skip(n)?;
            return Ok(None);
        }
        self.need(n)?;
        let mut buffer = vec![0; n as usize];
        self.input.read_exact(&mut buffer).map_err(|e| read_error(&e))?;
        self.position += n;
        Ok(String::from_utf8(buffer).ok())
    }

    fn name(&mut self) -> Result<String> {
        self.text(MAX_KEPT_STRING)?.ok_or_else(|| bad("a name in the GGUF file is too long or not UTF-8"))
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
            8 => self.text(limit)?.map_or(Meta::Skipped, Meta::Text),
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
                // Each string takes at least its length prefix, so a false count runs into the end.
                self.need(n.saturating_mul(4))?;
                for _ in 0..n {
                    let len = self.count()?;
                    self.skip(len)?;
                }
                return Ok(array);
            }
            _ => return Err(bad(format!("a GGUF array of type {kind}"))),
        };
        self.skip(n.checked_mul(size).ok_or_else(|| bad("a GGUF array is larger than the file"))?)?;
        Ok(array)
    }

    fn tensor(&mut self) -> Result<(String, TensorInfo)> {
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
        let dtype = dtype(self.u32()?).map_err(|e| e.hint(format!("in tensor `{name}`")))?;
        let elements = shape.iter().try_fold(1usize, |a, d| a.checked_mul(*d));
        // Rows consist of whole blocks, so that a row can be cut out.
        let whole = shape.last().is_some_and(|d| d.is_multiple_of(dtype.block_size()));
        let bytes =
            elements.filter(|_| whole).and_then(|n| (n / dtype.block_size()).checked_mul(dtype.type_size()));
        let bytes = bytes.ok_or_else(|| bad(format!("tensor `{name}` has an impossible shape {shape:?}")))?;
        let start = self.u64()?;
        Ok((name, TensorInfo { dtype, shape, start, bytes: bytes as u64 }))
    }
}

fn read_error(e: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, e.to_string())
}

/// Returns the storage type for a type number, if candle can multiply with it.
fn dtype(id: u32) -> Result<GgmlDType> {
    Ok(match id {
        0 => GgmlDType::F32,
        1 => GgmlDType::F16,
        2 => GgmlDType::Q4_0,
        3 => GgmlDType::Q4_1,
        6 => GgmlDType::Q5_0,
        7 => GgmlDType::Q5_1,
        8 => GgmlDType::Q8_0,
        10 => GgmlDType::Q2K,
        11 => GgmlDType::Q3K,
        12 => GgmlDType::Q4K,
        13 => GgmlDType::Q5K,
        14 => GgmlDType::Q6K,
        30 => GgmlDType::BF16,
        _ => return Err(Error::new(ErrorKind::Unsupported, format!("the GGUF tensor type {id}"))),
    })
}

impl<R: Read + Seek> Gguf<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// Returns an error if the file is not GGUF or contradicts itself.
    pub fn open(mut input: R) -> Result<Self> {
        let length = input.seek(SeekFrom::End(0)).map_err(|e| read_error(&e))?;
        input.seek(SeekFrom::Start(0)).map_err(|e| read_error(&e))?;
        let mut cursor = Cursor { input: &mut input, position: 0, length, wide: true };
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
        let mut tensors = HashMap::new();
        for _ in 0..tensor_count {
            let (name, info) = cursor.tensor()?;
            if tensors.insert(name.clone(), info).is_some() {
                return Err(bad(format!("tensor `{name}` occurs twice")));
            }
        }
        let data = align(cursor.position, alignment(&metadata)?);
        let wide = cursor.wide;
        for (name, t) in &mut tensors {
            t.start = data
                .checked_add(t.start)
                .filter(|s| s.checked_add(t.bytes).is_some_and(|end| end <= length))
                .ok_or_else(|| bad(format!("tensor `{name}` lies outside the file")))?;
        }
        Ok(Gguf { input, metadata, tensors, length, wide })
    }

    /// Returns the tensor's entry, if it exists.
    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    /// Reads the tensor's bytes as stored.
    pub fn read(&mut self, name: &str) -> Result<Vec<u8>> {
        let t = self.tensors.get(name).ok_or_else(|| bad(format!("the tensor `{name}` is missing")))?;
        self.input.seek(SeekFrom::Start(t.start)).map_err(|e| read_error(&e))?;
        // The size was checked against the length of the file when it was opened.
        let mut buffer = vec![0; t.bytes as usize];
        self.input.read_exact(&mut buffer).map_err(|e| read_error(&e))?;
        Ok(buffer)
    }

    /// Returns the names of all tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Returns a text of the metadata.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.metadata.get(key) {
            Some(Meta::Text(t)) => Some(t),
            _ => None,
        }
    }

    /// Returns the metadata texts whose keys begin with `prefix`, with the rest of their keys.
    pub fn texts<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.metadata.iter().filter_map(move |(key, value)| match value {
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
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Meta::Int(n)) => usize::try_from(*n).map(Some).map_err(|_| bad(format!("`{key}` is {n}"))),
            Some(other) => Err(bad(format!("`{key}` is not a whole number but {}", other.kind()))),
        }
    }

    /// Reads a list of texts of the metadata: at most `most` texts with at most `bytes` bytes in
    /// all.
    ///
    /// # Errors
    /// Returns an error if the entry is not a list of texts, is larger than the limits, or is not
    /// UTF-8.
    pub fn string_list(&mut self, key: &str, most: u64, bytes: u64) -> Result<Option<Vec<String>>> {
        let Some(array) = self.array(key, most)? else { return Ok(None) };
        if array.kind != 8 {
            return Err(bad(format!("`{key}` is not a list of texts")));
        }
        let mut cursor = self.at(array)?;
        let (mut list, mut left) = (Vec::new(), bytes);
        for i in 0..array.count {
            let n = cursor.count()?;
            cursor.need(n)?;
            left = left.checked_sub(n).ok_or_else(|| {
                Error::new(ErrorKind::TooComplex, format!("`{key}` has more than the limit of {bytes} bytes"))
            })?;
            let mut buffer = vec![0; n as usize];
            cursor.input.read_exact(&mut buffer).map_err(|e| read_error(&e))?;
            cursor.position += n;
            list.push(
                String::from_utf8(buffer).map_err(|_| bad(format!("entry {i} of `{key}` is not UTF-8")))?,
            );
        }
        Ok(Some(list))
    }

    /// Reads a list of numbers of the metadata, at most `most` of them.
    ///
    /// # Errors
    /// Returns an error if the entry is not a list of whole numbers or of floats, or is too long.
    pub fn number_list(&mut self, key: &str, most: u64) -> Result<Option<Vec<f64>>> {
        let Some(array) = self.array(key, most)? else { return Ok(None) };
        let mut cursor = self.at(array)?;
        let number = |cursor: &mut Cursor<'_, R>| match cursor.meta(array.kind, 0)? {
            Meta::Int(n) => Ok(n as f64),
            Meta::Float(f) => Ok(f),
            other => Err(bad(format!("`{key}` is not a list of numbers but holds {}", other.kind()))),
        };
        (0..array.count).map(|_| number(&mut cursor)).collect::<Result<_>>().map(Some)
    }

    fn array(&self, key: &str, most: u64) -> Result<Option<Array>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Meta::Array(a)) if a.count <= most => Ok(Some(*a)),
            Some(Meta::Array(a)) => {
                let message = format!("`{key}` has {} entries, the limit is {most}", a.count);
                Err(Error::new(ErrorKind::TooComplex, message))
            }
            Some(other) => Err(bad(format!("`{key}` is not a list but {}", other.kind()))),
        }
    }

    /// Returns a reader at the elements of an array.
    fn at(&mut self, array: Array) -> Result<Cursor<'_, R>> {
        self.input.seek(SeekFrom::Start(array.start)).map_err(|e| read_error(&e))?;
        let (length, wide) = (self.length, self.wide);
        Ok(Cursor { input: &mut self.input, position: array.start, length, wide })
    }

    /// Returns a boolean of the metadata.
    pub fn flag(&self, key: &str) -> Result<Option<bool>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Meta::Bool(b)) => Ok(Some(*b)),
            Some(other) => Err(bad(format!("`{key}` is not true or false but {}", other.kind()))),
        }
    }

    /// Returns a float of the metadata.
    pub fn float(&self, key: &str) -> Result<Option<f32>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Meta::Float(f)) => Ok(Some(*f as f32)),
            Some(other) => Err(bad(format!("`{key}` is not a float but {}", other.kind()))),
        }
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

fn alignment(metadata: &HashMap<String, Meta>) -> Result<u64> {
    match metadata.get("general.alignment") {
        None => Ok(32),
        Some(Meta::Int(n)) => {
            u64::try_from(*n).ok().filter(|n| n.is_power_of_two() && *n <= MAX_ALIGNMENT).ok_or_else(|| {
                bad(format!("the GGUF alignment {n} is not a power of two up to {MAX_ALIGNMENT}"))
            })
        }
        Some(other) => Err(bad(format!("the GGUF alignment is {}", other.kind()))),
    }
}

/// Rounds `position` up. Cannot overflow: both numbers are bounded by the size of a file that is
/// read.
fn align(position: u64, alignment: u64) -> u64 {
    position.div_ceil(alignment) * alignment
}
