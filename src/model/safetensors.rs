//! Reader of safetensors files: one or several shards, one tensor at a time.
//!
//! # Cost
//! Opening a file parses a JSON header. The data of a tensor is read when it is needed, and
//! converted to `f32`.
//!
//! # Alternatives considered
//! Memory mapping was rejected: it needs a guarantee that the file does not change, and each weight
//! is converted or copied once anyway.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};

use half::{bf16, f16};
use serde_json::Value;

use super::config::bad;
use crate::error::{Error, ErrorKind, Result};

/// Maximum length of a header in bytes.
const MAX_HEADER: u64 = 1 << 26;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Type {
    F32,
    F16,
    Bf16,
}

impl Type {
    fn size(self) -> usize {
        match self {
            Type::F32 => 4,
            Type::F16 | Type::Bf16 => 2,
        }
    }
}

struct TensorEntry {
    shard: usize,
    /// `None` for types that weights do not have: an error when the tensor is read.
    kind: Option<Type>,
    shape: Vec<usize>,
    start: u64,
    end: u64,
}

/// Tensors of one or more open files.
pub(crate) struct Safetensors<R> {
    shards: Vec<R>,
    entries: HashMap<String, TensorEntry>,
}

fn io(e: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, e.to_string())
}

impl<R: Read + Seek> Safetensors<R> {
    /// Reads the headers.
    ///
    /// # Errors
    /// Returns an error if a header is invalid, names a tensor twice, or names one outside its
    /// file.
    pub fn open(inputs: Vec<R>) -> Result<Self> {
        let mut all = Safetensors { shards: Vec::new(), entries: HashMap::new() };
        for input in inputs {
            all.add(input)?;
        }
        Ok(all)
    }

    fn add(&mut self, mut input: R) -> Result<()> {
        let length = input.seek(SeekFrom::End(0)).map_err(|e| io(&e))?;
        input.seek(SeekFrom::Start(0)).map_err(|e| io(&e))?;
        let mut size = [0; 8];
        if length < 8 {
            return Err(bad("not a safetensors file: shorter than its length field"));
        }
        input.read_exact(&mut size).map_err(|e| io(&e))?;
        let size = u64::from_le_bytes(size);
        if size > MAX_HEADER || size > length - 8 {
            return Err(bad(format!(
                "not a safetensors file: a header of {size} bytes in {length} bytes (limit {MAX_HEADER})"
            )));
        }
        let mut header = vec![0; size as usize];
        input.read_exact(&mut header).map_err(|e| io(&e))?;
        let header: HashMap<String, Value> = serde_json::from_slice(&header)
            .map_err(|e| Error::new(ErrorKind::InvalidJson, format!("the safetensors header: {e}")))?;
        let (shard, data) = (self.shards.len(), 8 + size);
        for (name, value) in header {
            if name == "__metadata__" {
                continue;
            }
            let entry = entry(&value, shard, data, length)
                .ok_or_else(|| bad(format!("the safetensors entry `{}` is not valid", short(&name))))?;
            if self.entries.insert(name.clone(), entry).is_some() {
                return Err(bad(format!("tensor `{}` occurs twice", short(&name))));
            }
        }
        self.shards.push(input);
        Ok(())
    }

    pub fn contains(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Returns the tensor's elements as `f32`, if it has this shape.
    pub fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let entry = self.entries.get(name).ok_or_else(|| bad(format!("the tensor `{name}` is missing")))?;
        if entry.shape != shape {
            return Err(bad(format!(
                "tensor `{name}` has shape {:?}, the configuration asks for {shape:?}",
                entry.shape
            )));
        }
        let Some(kind) = entry.kind else {
            return Err(Error::new(ErrorKind::Unsupported, format!("the number type of tensor `{name}`"))
                .hint("convert the weights to F32, F16 or BF16"));
        };
        let input = &mut self.shards[entry.shard];
        input.seek(SeekFrom::Start(entry.start)).map_err(|e| io(&e))?;
        // `entry` checked the range against the length of the file.
        let mut bytes = vec![0; (entry.end - entry.start) as usize];
        input.read_exact(&mut bytes).map_err(|e| io(&e))?;
        Ok(match kind {
            Type::F32 => {
                bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
            }
            Type::F16 => pairs(&bytes).map(|b| f16::from_bits(b).to_f32()).collect(),
            Type::Bf16 => pairs(&bytes).map(|b| bf16::from_bits(b).to_f32()).collect(),
        })
    }
}

fn pairs(bytes: &[u8]) -> impl Iterator<Item = u16> + '_ {
    bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]))
}

fn short(name: &str) -> String {
    name.chars().take(80).collect()
}

/// Parses a header entry; `None` if it contradicts itself or the file.
fn entry(value: &Value, shard: usize, data: u64, length: u64) -> Option<TensorEntry> {
    let kind = match value.get("dtype")?.as_str()? {
        "F32" => Some(Type::F32),
        "F16" => Some(Type::F16),
        "BF16" => Some(Type::Bf16),
        _ => None,
    };
    let shape = value.get("shape")?.as_array()?;
    let shape: Option<Vec<usize>> = shape.iter().map(|d| usize::try_from(d.as_u64()?).ok()).collect();
    let shape = shape?;
    let offsets = value.get("data_offsets")?.as_array()?;
    let [start, end] = offsets.as_slice() else { return None };
    let (start, end) = (data.checked_add(start.as_u64()?)?, data.checked_add(end.as_u64()?)?);
    if start > end || end > length {
        return None;
    }
    if let Some(kind) = kind {
        let elements = shape.iter().try_fold(kind.size(), |a, d| a.checked_mul(*d))?;
        if elements as u64 != end - start {
            return None;
        }
    }
    Some(TensorEntry { shard, kind, shape, start, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_headers_are_errors() {
        let file = |json: &str, data: usize| {
            let mut f = (json.len() as u64).to_le_bytes().to_vec();
            f.extend(json.as_bytes());
            f.resize(f.len() + data, 0);
            Safetensors::open(vec![std::io::Cursor::new(f)])
        };
        assert!(file(r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, 8).is_ok());
        for json in [
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,12]}}"#,
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#,
            r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#,
            r#"{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}"#,
            r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8]}}"#,
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[18446744073709551615,18446744073709551615]}}"#,
            r#"{"a":{}}"#,
            "[]",
            "",
            "{",
        ] {
            assert!(file(json, 8).is_err(), "{json}");
        }
        assert!(Safetensors::open(vec![std::io::Cursor::new(vec![255u8; 40])]).is_err());
        assert!(Safetensors::open(vec![std::io::Cursor::new(vec![0u8; 3])]).is_err());
    }
}
