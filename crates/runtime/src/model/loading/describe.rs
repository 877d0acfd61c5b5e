//! What a model file or folder holds, known from its header: format, size, family and context.
//!
//! # Cost
//!
//! Only the header of a GGUF file or the `config.json` of a folder is read.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::gguf::file::Gguf;
use super::gguf::{open_gguf, split_files};
use super::open::{only_gguf, read_json};
use crate::error::{Error, Result};
use crate::model::config::bad;

/// Format, size and family of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The container and the types of the weights, those with most bytes first, such as
    /// `GGUF Q4_K Q6_K` or `safetensors bfloat16`.
    pub format: String,
    /// The size of all its files.
    pub bytes: u64,
    /// The family by the name in the file, such as `qwen2`.
    pub family: String,
    /// The most positions of one generation, if the file names them.
    pub context: Option<usize>,
    /// The reason why the files cannot be described.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Description {
    #[cfg(feature = "hub")]
    pub(crate) fn problem(message: String) -> Description {
        Description { problem: Some(message), ..Description::default() }
    }
}

/// Describes a GGUF file (of a split model, the first) or a folder with `config.json` and
/// safetensors files. The field `problem` says what
/// cannot be read.
pub fn describe(path: impl AsRef<Path>) -> Description {
    let path = path.as_ref();
    let described = if path.is_dir() { of_folder(path) } else { of_file(path) };
    described.unwrap_or_else(|e| Description {
        problem: Some(e.message().to_owned()),
        bytes: size(path),
        ..Description::default()
    })
}

fn of_folder(folder: &Path) -> Result<Description> {
    if !folder.join("config.json").is_file() {
        return of_file(&only_gguf(folder)?);
    }
    let config: Value = serde_json::from_slice(&read_json(&folder.join("config.json"))?)
        .map_err(|e| bad(format!("config.json is not JSON: {e}")))?;
    let text = |key: &str| config.get(key).and_then(Value::as_str).map(str::to_owned);
    let format = match text("dtype").or_else(|| text("torch_dtype")) {
        Some(dtype) => format!("safetensors {dtype}"),
        None => "safetensors".to_owned(),
    };
    let is_weights = |name: &str| name.starts_with("model") && name.ends_with(".safetensors");
    let entries = std::fs::read_dir(folder).map_err(|e| Error::io(folder, &e))?;
    let files = entries.flatten().filter(|e| e.file_name().to_str().is_some_and(is_weights));
    Ok(Description {
        format,
        bytes: files.map(|e| size(&e.path())).sum(),
        family: text("model_type").unwrap_or_default(),
        context: config.get("max_position_embeddings").and_then(Value::as_u64).map(|n| n as usize),
        problem: None,
    })
}

fn of_file(path: &Path) -> Result<Description> {
    of_gguf(&open_gguf(path)?, split_files(path).iter().map(|part| size(part)).sum())
}

/// Describes a GGUF model with files of this size.
pub(crate) fn of_gguf(file: &Gguf<'_>, bytes: u64) -> Result<Description> {
    let family = file.text("general.architecture").unwrap_or_default().to_owned();
    let context = file.optional(&format!("{family}.context_length"))?;
    let mut types: HashMap<&str, usize> = HashMap::new();
    for info in file.names().filter_map(|name| file.info(name)) {
        // Norms and biases are floats in every file.
        if info.shape.len() > 1 {
            *types.entry(info.dtype.name()).or_default() += info.dtype.bytes(&info.shape).unwrap_or_default();
        }
    }
    let mut types: Vec<(usize, &str)> = types.into_iter().map(|(name, bytes)| (bytes, name)).collect();
    types.sort_by(|a, b| b.cmp(a));
    let format = types.into_iter().fold("GGUF".to_owned(), |text, (_, name)| text + " " + name);
    Ok(Description { format, bytes, family, context, problem: None })
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map(|m| m.len()).unwrap_or_default()
}
