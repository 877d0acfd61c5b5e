//! Reader of safetensors files: one or several shards.
//!
//! # Cost
//!
//! Opening a file parses a JSON header. Tensors are slices of the file; nothing is copied.

use std::collections::HashMap;

use serde_json::Value;

use super::file_data::FileData;
use super::tensor_type::TensorType;
use crate::error::{Error, ErrorKind, Result};
use crate::model::config::bad;

/// Maximum length of a header in bytes.
const MAX_HEADER: u64 = 1 << 26;

struct TensorEntry {
    shard: usize,
    /// `None` for types that weights do not have: an error when the tensor is read.
    kind: Option<TensorType>,
    shape: Vec<usize>,
    start: usize,
    end: usize,
}

/// Tensors of one or more open files.
pub(crate) struct Safetensors<'a> {
    shards: Vec<FileData<'a>>,
    entries: HashMap<String, TensorEntry>,
}

impl<'a> Safetensors<'a> {
    /// Reads the headers.
    ///
    /// # Errors
    /// Returns an error if a header is invalid, names a tensor twice, or names one outside its
    /// file.
    pub(super) fn open(inputs: Vec<FileData<'a>>) -> Result<Self> {
        let mut all = Safetensors { shards: Vec::new(), entries: HashMap::new() };
        for input in inputs {
            all.add(input)?;
        }
        Ok(all)
    }

    fn add(&mut self, input: FileData<'a>) -> Result<()> {
        let length = input.len() as u64;
        let size = input.first_chunk().map(|size| u64::from_le_bytes(*size));
        let size = size.ok_or_else(|| bad("not a safetensors file: shorter than its length field"))?;
        if size > MAX_HEADER || size > length - 8 {
            return Err(bad(format!(
                "not a safetensors file: a header of {size} bytes in {length} bytes (limit {MAX_HEADER})"
            )));
        }
        let header = &input[8..8 + size as usize];
        let header: HashMap<String, Value> = serde_json::from_slice(header)
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

    pub(super) fn contains(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Returns the names of all tensors.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Returns the shape of a tensor, if it exists.
    pub(super) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.entries.get(name).map(|entry| &entry.shape[..])
    }

    /// Returns the number type and the bytes of a tensor, if it has this shape.
    ///
    /// # Errors
    /// Returns an error if the tensor is missing or has another shape or another type of numbers.
    pub(super) fn tensor(&self, name: &str, shape: &[usize]) -> Result<(TensorType, &[u8])> {
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
        // `entry` checked the range against the length of the file.
        Ok((kind, &self.shards[entry.shard][entry.start..entry.end]))
    }

    /// Gives the memory of the tensor's bytes back; reading them again is possible.
    pub(super) fn release(&self, name: &str) {
        if let Some(entry) = self.entries.get(name) {
            self.shards[entry.shard].release(entry.start..entry.end);
        }
    }
}

fn short(name: &str) -> String {
    name.chars().take(80).collect()
}

/// Parses a header entry; `None` if it contradicts itself or the file.
fn entry(value: &Value, shard: usize, data: u64, length: u64) -> Option<TensorEntry> {
    let kind = match value.get("dtype")?.as_str()? {
        "F32" => Some(TensorType::F32),
        "F16" => Some(TensorType::F16),
        "BF16" => Some(TensorType::Bf16),
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
    if let Some(kind) = kind
        && kind.bytes(&shape)? as u64 != end - start
    {
        return None;
    }
    Some(TensorEntry { shard, kind, shape, start: start as usize, end: end as usize })
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
            Safetensors::open(vec![FileData::Borrowed(f.leak())])
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
        assert!(Safetensors::open(vec![FileData::Borrowed(&[255; 40])]).is_err());
        assert!(Safetensors::open(vec![FileData::Borrowed(&[0; 3])]).is_err());
    }
}
