//! Loads a [`Model`] or a vocabulary from files or from memory.
//!
//! # Cost
//!
//! Files are mapped into memory. Loading reads each weight once, on all threads, and changes its
//! precision on request.
//!
//! # Alternatives considered
//!
//! Guessing the format from the content was rejected in favour of the file names that the hub uses:
//! a wrong guess gives worse errors.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use ffwd_engine::text::bytes_without_mark;

use super::file_data::FileData;
use super::gguf::{file::Gguf, open_gguf, split_files, vocabulary_from_gguf};
use super::safetensors::Safetensors;
use super::tensor_form::load_tensors;
use super::tensor_source::TensorSource;
use super::weights::{KernelForm, load_weights};
use crate::error::{Error, Place, Result};
use crate::files::read_at_most;
use crate::model::chat_sources::ChatSources;
use crate::model::config::{ModelConfig, bad};
use crate::model::options::LoadOptions;
use crate::model::running::{Model, Runner, Transformer, WeakModel};
use crate::threads;
use crate::vocab::Vocabulary;

/// Maximum size of a JSON file in bytes.
const MAX_JSON: usize = 1 << 24;
/// Maximum number of shards of one model.
const MAX_SHARDS: usize = 1 << 10;

/// A model that this process has loaded: its files as they were, and how it was loaded.
type LoadedModel = (Vec<FileState>, LoadOptions, WeakModel);
/// Path, length and time of the last change of a file.
type FileState = (PathBuf, u64, Option<SystemTime>);

/// The models that are in use.
static LOADED: Mutex<Vec<LoadedModel>> = Mutex::new(Vec::new());

impl Model {
    /// Loads a folder or a GGUF file, or returns the same model if it is in use already: then both
    /// share their weights.
    ///
    /// # Errors
    /// Returns the errors of [`from_dir`](Model::from_dir) and [`from_gguf`](Model::from_gguf).
    pub fn open(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Model> {
        let path = path.as_ref();
        let files = file_states(path);
        let lock = || LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(old, how, model): &LoadedModel| {
            (*old == files && how == options).then(|| model.upgrade()).flatten()
        };
        if let Some(model) = lock().iter().find_map(same) {
            return Ok(model);
        }
        let model = match path.is_dir() {
            true => Model::from_dir(path, options),
            false => Model::from_gguf(path, options),
        }?;
        let mut loaded = lock();
        loaded.retain(|(_, _, model)| model.upgrade().is_some());
        loaded.push((files, options.clone(), model.downgrade()));
        Ok(model)
    }

    /// Loads a folder as downloaded from a model hub: `config.json` with `model.safetensors` or
    /// `model.safetensors.index.json`, or else one `.gguf` file.
    ///
    /// # Errors
    /// Returns an error if the folder has no model, or the model is not valid or of another
    /// [`Architecture`](crate::model::Architecture).
    pub fn from_dir(dir: impl AsRef<Path>, options: &LoadOptions) -> Result<Model> {
        let dir = dir.as_ref();
        let single = dir.join("model.safetensors");
        let index = dir.join("model.safetensors.index.json");
        let shards = if single.is_file() {
            vec![single]
        } else if index.is_file() {
            shards(dir, &index)?
        } else {
            return Model::from_gguf(only_gguf(dir)?, options);
        };
        let path = dir.join("config.json");
        let config = ModelConfig::from_json(&read_json(&path)?).map_err(|e| e.at(Place::File(path)))?;
        let files: Result<Vec<_>> = shards.iter().map(|p| FileData::map(p)).collect();
        Safetensors::open(files?)
            .and_then(|s| load(config, TensorSource::Safetensors(s), options, ChatSources::default()))
            .map_err(|e| e.at(Place::File(dir.to_owned())))
    }

    /// Loads a GGUF file, or all parts of a split one by the path of any of them. The files must not
    /// change meanwhile. `docs/models.md` lists the architectures and the formats.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not valid, or holds another kind of model.
    pub fn from_gguf(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Model> {
        let path = path.as_ref();
        open_gguf(path).and_then(|file| gguf(file, options)).map_err(|e| e.at(Place::File(path.to_owned())))
    }

    /// Loads a GGUF file from memory.
    ///
    /// # Errors
    /// Returns the errors of [`from_gguf`](Model::from_gguf).
    pub fn from_gguf_bytes(bytes: &[u8], options: &LoadOptions) -> Result<Model> {
        gguf(Gguf::open(vec![FileData::Borrowed(bytes)])?, options)
    }

    /// Loads a `config.json` and a safetensors file from memory.
    ///
    /// # Errors
    /// Returns an error if one of them is not valid, they do not fit each other, or it is another
    /// kind of model.
    pub fn from_safetensors_bytes(config: &[u8], weights: &[u8], options: &LoadOptions) -> Result<Model> {
        let config = ModelConfig::from_json(config)?;
        let source = Safetensors::open(vec![FileData::Borrowed(weights)])?;
        load(config, TensorSource::Safetensors(source), options, ChatSources::default())
    }
}

/// Returns the files of a model as they are now.
fn file_states(path: &Path) -> Vec<FileState> {
    let paths = match std::fs::read_dir(path) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => split_files(path),
    };
    let state = |path: PathBuf| {
        let data = std::fs::metadata(&path).ok()?;
        Some((path.canonicalize().unwrap_or(path), data.len(), data.modified().ok()))
    };
    let mut states: Vec<FileState> = paths.into_iter().filter_map(state).collect();
    states.sort();
    states
}

/// Loads the vocabulary of the model in a folder or GGUF file: a `tokenizer.json` in the same
/// folder, or the tokenizer in the metadata of the GGUF file.
///
/// # Errors
/// Returns an error if there is neither, or it is not valid.
pub fn vocabulary_of(path: impl AsRef<Path>) -> Result<Vocabulary> {
    let path = path.as_ref();
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    let json = folder.join("tokenizer.json");
    if json.is_file() {
        return Vocabulary::from_file(json);
    }
    if path.is_file() {
        return vocabulary_from_gguf(path);
    }
    match has_safetensors(folder) {
        true => Vocabulary::from_file(json),
        false => vocabulary_from_gguf(only_gguf(folder)?),
    }
}

fn has_safetensors(dir: &Path) -> bool {
    ["model.safetensors", "model.safetensors.index.json"].iter().any(|name| dir.join(name).is_file())
}

fn gguf(file: Gguf<'_>, options: &LoadOptions) -> Result<Model> {
    let (config, chat) = (file.config()?, file.chat_sources()?);
    load(config, TensorSource::Gguf(file), options, chat)
}

fn load(
    config: ModelConfig,
    source: TensorSource<'_>,
    options: &LoadOptions,
    chat: ChatSources,
) -> Result<Model> {
    let runner = match options.device {
        None => {
            let load = || load_weights(&KernelForm, config, &source, options);
            Runner::Kernels(Transformer::new(threads::installed_or_shared(load)?, options.kv))
        }
        Some(device) => Runner::Tensors(load_tensors(config, &source, options, device.open()?)?),
    };
    Ok(Model::from_runner(runner, chat))
}

pub(super) fn read_json(path: &Path) -> Result<Vec<u8>> {
    Ok(bytes_without_mark(&read_at_most(path, MAX_JSON)?).to_vec())
}

/// Returns the files that an index names, all in the same folder.
fn shards(dir: &Path, index: &Path) -> Result<Vec<PathBuf>> {
    let fault = |message: String| bad(message).at(Place::File(index.to_owned()));
    let value: serde_json::Value = serde_json::from_slice(&read_json(index)?)
        .map_err(|e| fault(format!("the index is not JSON: {e}")))?;
    let map = value
        .get("weight_map")
        .and_then(serde_json::Value::as_object)
        .ok_or_else(|| fault("the index has no `weight_map`".into()))?;
    let names: std::collections::BTreeSet<&str> =
        map.values().filter_map(serde_json::Value::as_str).collect();
    if names.len() > MAX_SHARDS {
        return Err(fault(format!("{} shards, the limit is {MAX_SHARDS}", names.len())));
    }
    names
        .into_iter()
        .map(|name| {
            // A downloaded index must not reach into other folders.
            let plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', ':']);
            if plain {
                Ok(dir.join(name))
            } else {
                Err(fault(format!("the shard name {name:?} is not a file name")))
            }
        })
        .collect()
}

/// Returns the GGUF file of a folder, or the first part if all files are parts of one model.
pub(super) fn only_gguf(dir: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(dir).map_err(|e| Error::io(dir, &e))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.extension().is_some_and(|x| x.eq_ignore_ascii_case("gguf")) && p.is_file())
        .collect();
    found.sort();
    let first = found.first().map(|first| split_files(first));
    match (found.len(), first) {
        (0, _) | (_, None) => Err(bad("no model in this folder")
            .at(Place::File(dir.to_owned()))
            .hint("expected model.safetensors with config.json, or a .gguf file")),
        (n, Some(parts)) if n == 1 || parts == found => Ok(found.swap_remove(0)),
        (n, _) => Err(bad(format!("{n} GGUF files in this folder"))
            .at(Place::File(dir.to_owned()))
            .hint(format!("name one of them, such as {}", found[0].display()))),
    }
}

#[cfg(test)]
#[cfg(feature = "embedded")]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_file_in_use_is_loaded_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.gguf");
        std::fs::write(&path, crate::model::embedded::DRAFT_GGUF).unwrap();
        let options = LoadOptions::default();
        let first = Model::open(&path, &options).unwrap();
        let same = |model: &Model| Arc::ptr_eq(&model.inner, &first.inner);
        assert!(same(&Model::open(&path, &options).unwrap()));
        assert!(!same(
            &Model::open(&path, &LoadOptions::with_precision(crate::model::Precision::F32)).unwrap()
        ));
        // The same content at another time may be another file.
        std::fs::write(&path, crate::model::embedded::DRAFT_GGUF).unwrap();
        assert!(!same(&Model::open(&path, &options).unwrap()));
        let weak = first.downgrade();
        drop(first);
        assert!(weak.upgrade().is_none(), "it is not kept");
    }
}
