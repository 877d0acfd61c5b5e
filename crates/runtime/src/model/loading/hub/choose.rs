//! The choice of a repository's files: the weights that the runner reads, and what they need.
//!
//! # Alternatives considered
//!
//! Fetching whole repositories was rejected: many hold the same weights in several formats. Pickled
//! weights can run code and are never fetched.

use std::path::Path;

use super::name::ModelName;
use crate::error::Result;
use crate::model::config::bad;
use crate::model::loading::gguf::{split_files, split_name};

/// Files that are fetched together with the weights, if the repository has them.
const METADATA: [&str; 5] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "chat_template.jinja",
];
/// The folder of further chat templates.
const TEMPLATES: &str = "additional_chat_templates/";
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// Most names that an error lists.
const MAX_LISTED: usize = 12;

/// The files of a model in a repository.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChosenFiles {
    /// Weights and metadata.
    pub files: Vec<String>,
    /// The GGUF file to open: the first if the model is split. None for safetensors, which are
    /// opened by their folder.
    pub gguf: Option<String>,
}

/// Chooses among the names of a repository's files.
///
/// # Errors
/// Fails if the wanted file is absent or a part of it, or if there are no weights or several and
/// none is named.
pub(super) fn choose(model: &ModelName, names: &[String]) -> Result<ChosenFiles> {
    let has = |name: &str| names.iter().any(|n| n == name);
    let mut files: Vec<String> = names.iter().filter(|n| is_metadata(n)).cloned().collect();
    if model.file().is_none() && has("config.json") && (has(SINGLE) || has(INDEX)) {
        match has(SINGLE) {
            true => files.push(SINGLE.to_owned()),
            false => {
                files.push(INDEX.to_owned());
                files.extend(names.iter().filter(|n| is_shard(n)).cloned());
            }
        }
        return Ok(ChosenFiles { files, gguf: None });
    }
    let first = match model.file() {
        Some(file) if has(file) => file,
        wanted => only(model, names, wanted)?,
    };
    let parts = parts(first);
    if let Some(missing) = parts.iter().find(|part| !has(part)) {
        let message = format!("the model {} has no {missing}", model.repo());
        return Err(bad(message).hint("a part of a split model is missing"));
    }
    let gguf = parts[0].clone();
    files.extend(parts);
    Ok(ChosenFiles { files, gguf: Some(gguf) })
}

fn is_metadata(name: &str) -> bool {
    let template = name.strip_prefix(TEMPLATES);
    METADATA.contains(&name) || template.is_some_and(|t| t.ends_with(".jinja") && !t.contains('/'))
}

fn is_shard(name: &str) -> bool {
    name.starts_with("model-") && name.ends_with(".safetensors") && !name.contains('/')
}

/// Returns the one GGUF file whose name ends in the wanted text, or the only one if none is wanted.
fn only<'n>(model: &ModelName, names: &'n [String], wanted: Option<&str>) -> Result<&'n str> {
    let all: Vec<&str> = gguf_models(names).collect();
    let fits = |name: &str| wanted.is_none_or(|wanted| stem(name).ends_with(&wanted.to_ascii_lowercase()));
    let found: Vec<&str> = all.iter().copied().filter(|name| fits(name)).collect();
    if let [one] = found[..] {
        return Ok(one);
    }
    let listed = if found.is_empty() { &all } else { &found };
    let message = match (wanted, listed.is_empty()) {
        (None, true) => format!("the model {} has no weights that can be read", model.repo()),
        (None, false) => format!("the model {} has several files of weights", model.repo()),
        (Some(file), _) if found.is_empty() => format!("the model {} has no file {file}", model.repo()),
        (Some(file), _) => format!("the model {} has several files like {file}", model.repo()),
    };
    let error = bad(message);
    Err(match listed.is_empty() {
        true => error.hint("expected config.json with model.safetensors, or a .gguf file"),
        false => error.hint(format!("name one of {}", list(model, listed))),
    })
}

/// Returns a model's files as the user would name them.
fn list(model: &ModelName, names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(MAX_LISTED).map(|n| format!("{}:{n}", model.repo())).collect();
    let more = if names.len() > MAX_LISTED { ", ..." } else { "" };
    shown.join(", ") + more
}

/// Returns the GGUF files among the names; of a split model only the first, and no part of a model
/// that does not generate text by itself.
pub(super) fn gguf_models(names: &[String]) -> impl Iterator<Item = &str> {
    let first = |name: &str| split_name(name).is_none_or(|(_, number, _)| number == 1);
    let projector = |name: &str| name.rsplit('/').next().unwrap_or(name).starts_with("mmproj");
    let is_gguf = |name: &str| name.to_ascii_lowercase().ends_with(".gguf");
    names.iter().map(String::as_str).filter(move |n| is_gguf(n) && first(n) && !projector(n))
}

/// Returns the name without its extension and without the number of a part, in lower case.
fn stem(name: &str) -> String {
    let base = split_name(name).map_or_else(|| &name[..name.len() - ".gguf".len()], |(base, _, _)| base);
    base.to_ascii_lowercase()
}

/// Returns all parts of the model that a GGUF file belongs to, in order.
pub(super) fn parts(name: &str) -> Vec<String> {
    let parts = split_files(Path::new(name)).into_iter();
    parts.filter_map(|part| part.into_os_string().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(model: &str, names: &[&str]) -> std::result::Result<ChosenFiles, String> {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        choose(&model.parse().unwrap(), &names).map_err(|e| e.to_string())
    }

    #[test]
    fn weights_come_with_their_metadata() {
        let names = [
            "README.md",
            "config.json",
            "model.safetensors",
            "pytorch_model.bin",
            "tokenizer.json",
            "additional_chat_templates/tool.jinja",
            "onnx/model.onnx",
        ];
        let choice = chosen("a/b", &names).unwrap();
        assert_eq!(
            choice.files,
            ["config.json", "tokenizer.json", "additional_chat_templates/tool.jinja", "model.safetensors"]
        );
        assert_eq!(choice.gguf, None);
        let shards =
            ["config.json", "model-1.safetensors", "model-2.safetensors", "model.safetensors.index.json"];
        assert_eq!(chosen("a/b", &shards).unwrap().files.len(), 4);
    }

    #[test]
    fn a_gguf_file_is_named_or_the_only_one() {
        let names = ["x-Q4_K_M.gguf", "x-Q8_0.gguf", "mmproj-x.gguf"];
        for file in ["x-Q8_0.gguf", "Q8_0", "q8_0", "x-q8_0"] {
            let choice = chosen(&format!("a/b:{file}"), &names).unwrap();
            assert_eq!(choice.gguf.as_deref(), Some("x-Q8_0.gguf"), "{file}");
        }
        assert_eq!(chosen("a/b", &names[1..]).unwrap().gguf.as_deref(), Some("x-Q8_0.gguf"));
        let error = chosen("a/b", &names).unwrap_err();
        assert!(error.contains("several") && error.contains("a/b:x-Q8_0.gguf"), "{error}");
        assert!(!error.contains("mmproj"), "{error}");
        assert!(chosen("a/b:Q5_0", &names).unwrap_err().contains("no file Q5_0"));
        assert!(chosen("a/b:x-", &names).unwrap_err().contains("no file x-"));
        assert!(chosen("a/b", &["a.bin"]).unwrap_err().contains("no weights"));
    }

    #[test]
    fn the_parts_of_a_split_model_are_fetched_together() {
        let names = ["d/m-00001-of-00003.gguf", "d/m-00002-of-00003.gguf", "d/m-00003-of-00003.gguf"];
        for model in ["a/b", "a/b:d/m-00002-of-00003.gguf", "a/b:d/m-00001-of-00003.gguf", "a/b:m"] {
            let choice = chosen(model, &names).unwrap();
            assert_eq!(choice.files, names, "{model}");
            assert_eq!(choice.gguf.as_deref(), Some(names[0]), "{model}");
        }
        let error = chosen("a/b", &names[..2]).unwrap_err();
        assert!(error.contains("d/m-00003-of-00003.gguf"), "{error}");
    }
}
