//! Reader of GGUF files: the table of tensors, and the bytes of each tensor. The engine, which has a
//! use for the tokenizer, reads the metadata.
//!
//! A model in several files (`-00001-of-00003.gguf`) is read as one. Every count and size is checked
//! against the length of the file before memory is taken, and nothing recurses.
//!
//! # Cost
//!
//! The header is read once, in time linear in its size. Tensor data are slices of the file; nothing is
//! copied.
//!
//! # Alternatives considered
//!
//! Candle's own reader was rejected. It divides by an alignment that the file may set to zero, and
//! wraps on dimensions whose product overflows.

use std::collections::HashMap;
use std::ops::Deref;

use ffwd_engine::vocab::gguf::{Cursor, Metadata};

use crate::error::Result;
use crate::model::config::bad;
use crate::model::loading::file_data::FileData;
use crate::model::loading::tensor_type::TensorType;
use crate::vocab::Vocabulary;

/// Maximum number of dimensions of a tensor.
const MAX_DIMENSIONS: u32 = 4;
/// Largest alignment of tensor data accepted.
const MAX_ALIGNMENT: usize = 1 << 20;
/// The key for the number of files of a model, and that for the index of a file.
const SPLIT_COUNT: &str = "split.count";
const SPLIT_INDEX: &str = "split.no";

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
    metadata: Metadata,
    tensors: HashMap<String, TensorInfo>,
}

/// The header of one file.
struct Header {
    metadata: Metadata,
    tensors: Vec<(String, TensorInfo)>,
}

/// Reads an entry of the table of tensors of the `file`-th file.
fn tensor(cursor: &mut Cursor<'_>, file: usize) -> Result<(String, TensorInfo)> {
    let name = cursor.name()?;
    let rank = cursor.u32()?;
    if rank == 0 || rank > MAX_DIMENSIONS {
        return Err(bad(format!("tensor `{name}` has {rank} dimensions")));
    }
    let mut shape = Vec::with_capacity(rank as usize);
    for _ in 0..rank {
        let d = cursor.count()?;
        shape.push(usize::try_from(d).map_err(|_| bad(format!("tensor `{name}` is too large")))?);
    }
    shape.reverse();
    let dtype = TensorType::from_gguf(cursor.u32()?, &name)?;
    let bytes = dtype.bytes(&shape);
    let bytes = bytes.ok_or_else(|| bad(format!("tensor `{name}` has an impossible shape {shape:?}")))?;
    let start = usize::try_from(cursor.u64()?);
    let start = start.map_err(|_| bad(format!("tensor `{name}` lies outside the file")))?;
    Ok((name, TensorInfo { dtype, shape, file, start, bytes }))
}

/// Reads the header of the `file`-th file.
fn header(data: &[u8], file: usize) -> Result<Header> {
    let mut cursor = Cursor::new(data);
    let (metadata, tensor_count) = Metadata::read(&mut cursor)?;
    let mut tensors = Vec::new();
    for _ in 0..tensor_count {
        tensors.push(tensor(&mut cursor, file)?);
    }
    let start = align(cursor.position(), alignment(&metadata)?);
    for (name, t) in &mut tensors {
        t.start = start
            .checked_add(t.start)
            .filter(|s| s.checked_add(t.bytes).is_some_and(|end| end <= data.len()))
            .ok_or_else(|| bad(format!("tensor `{name}` lies outside the file")))?;
    }
    Ok(Header { metadata, tensors })
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
            let index = header.metadata.optional(SPLIT_INDEX)?;
            let count = header.metadata.optional(SPLIT_COUNT)?.unwrap_or(1).max(1);
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
        let Header { metadata, .. } = all.ok_or_else(|| bad("no GGUF file"))?;
        Ok(Gguf { files, metadata, tensors })
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

    /// Reads a list of numbers of the metadata, at most `most` of them.
    ///
    /// # Errors
    /// Returns an error if the entry is not a list of whole numbers or of floats, or is too long.
    pub(crate) fn number_list(&self, key: &str, most: u64) -> Result<Option<Vec<f64>>> {
        self.metadata.number_list(&self.files[0], key, most)
    }

    /// Reads the tokenizer of the metadata.
    pub(crate) fn vocabulary(&self) -> Result<Vocabulary> {
        Vocabulary::from_gguf_metadata(&self.metadata, &self.files[0])
    }
}

/// The metadata of the first file.
impl Deref for Gguf<'_> {
    type Target = Metadata;

    fn deref(&self) -> &Metadata {
        &self.metadata
    }
}

fn alignment(metadata: &Metadata) -> Result<usize> {
    let alignment = metadata.optional("general.alignment")?.unwrap_or(32);
    if !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
        return Err(bad(format!(
            "the GGUF alignment {alignment} is not a power of two up to {MAX_ALIGNMENT}"
        )));
    }
    Ok(alignment)
}

/// Rounds `position` up. Cannot overflow: both numbers are bounded by the size of a file that is
/// read.
fn align(position: usize, alignment: usize) -> usize {
    position.div_ceil(alignment) * alignment
}
