//! Finds chat templates: in a model folder, or in a GGUF file.
//!
//! A folder can have `chat_template.jinja`, further templates in `additional_chat_templates/`, and
//! `tokenizer_config.json` with one template or a list of named ones. As in the hub's libraries,
//! files take precedence over entries of the same name.
//!
//! # Cost
//! One or two small files are read.

use std::collections::BTreeMap;
use std::path::Path;

use ffwd_engine::text::decode;
use serde_json::Value;

use super::{ChatTemplate, MAX_TEMPLATE};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::files::read_at_most;
use crate::model::ChatSources;
use crate::vocab::{TokenId, Vocabulary};

/// Maximum size in bytes of a `tokenizer_config.json`.
const MAX_CONFIG: usize = 1 << 24;
/// Maximum number of templates of one model.
const MAX_TEMPLATES: usize = 64;
/// Entries of `tokenizer_config.json` that templates can name.
const TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

impl ChatSources {
    /// Returns the chat template, if there is one.
    pub(crate) fn template(&self, vocab: &Vocabulary) -> Option<Result<ChatTemplate>> {
        if self.templates.is_empty() {
            return None;
        }
        let named = self.templates.iter().map(|(name, source)| (name.as_str(), source.as_str()));
        Some(ChatTemplate::from_named(named).map(|template| {
            let known = self.tokens.iter().copied().filter(|&(_, id)| vocab.is_special(id));
            let first = |ids: &[TokenId]| ids.first().copied();
            let usual = [("bos_token", first(vocab.bos())), ("eos_token", first(vocab.eos()))];
            let all = usual.into_iter().filter_map(|(name, id)| Some((name, id?))).chain(known);
            let texts = all.filter_map(|(name, id)| Some((name, vocab.token_text(id)?)));
            let template = ChatTemplate { begins: true, ..template };
            texts.fold(template, |template, (name, text)| template.with_token(name, text))
        }))
    }
}

impl ChatTemplate {
    /// Reads the templates of a model folder; `None` if it has none.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or is invalid, or if a template does not parse.
    pub fn from_dir(dir: impl AsRef<Path>) -> Result<Option<Self>> {
        let dir = dir.as_ref();
        let mut templates = BTreeMap::new();
        let mut tokens = Vec::new();
        let path = dir.join("tokenizer_config.json");
        if path.is_file() {
            let text = read(&path, MAX_CONFIG)?;
            let config: Value = serde_json::from_str(&text).map_err(|e| {
                Error::new(ErrorKind::InvalidJson, e.to_string()).at(Place::File(path.clone()))
            })?;
            templates = of_config(&config).map_err(|e| e.at(Place::File(path.clone())))?;
            for name in TOKENS {
                let entry = config.get(name);
                let text = entry.and_then(|v| v.as_str().or_else(|| v.get("content")?.as_str()));
                tokens.extend(text.map(|t| (name, t.to_owned())));
            }
        }
        let more = dir.join("additional_chat_templates");
        if more.is_dir() {
            let entries = std::fs::read_dir(&more).map_err(|e| Error::io(&more, &e))?;
            for path in entries.filter_map(|e| e.ok().map(|e| e.path())) {
                if path.extension().is_some_and(|x| x == "jinja")
                    && let Some(name) = path.file_stem().and_then(|s| s.to_str())
                {
                    templates.insert(name.to_owned(), read(&path, MAX_TEMPLATE)?);
                }
            }
        }
        let path = dir.join("chat_template.jinja");
        if path.is_file() {
            templates.insert("default".into(), read(&path, MAX_TEMPLATE)?);
        }
        if templates.is_empty() {
            return Ok(None);
        }
        if templates.len() > MAX_TEMPLATES {
            let message = format!("{} chat templates, the limit is {MAX_TEMPLATES}", templates.len());
            return Err(Error::new(ErrorKind::TooComplex, message).at(Place::File(dir.into())));
        }
        let named = templates.iter().map(|(name, source)| (name.as_str(), source.as_str()));
        let template = ChatTemplate::from_named(named).map_err(|e| e.at(Place::File(dir.into())))?;
        Ok(Some(tokens.into_iter().fold(template, |t, (name, text)| t.with_token(name, text))))
    }
}

/// Reads the entry `chat_template`: a text, or a list of names and texts.
fn of_config(config: &Value) -> Result<BTreeMap<String, String>> {
    let wrong = || {
        Error::new(ErrorKind::Model, "neither a text nor a list of named templates")
            .at(Place::Pointer("/chat_template".into()))
    };
    let one = |entry: &Value| {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
        Some((text("name")?, text("template")?))
    };
    match config.get("chat_template") {
        None | Some(Value::Null) => Ok(BTreeMap::new()),
        Some(Value::String(text)) => Ok([("default".to_owned(), text.clone())].into()),
        Some(Value::Array(list)) => list.iter().map(|e| one(e).ok_or_else(wrong)).collect(),
        Some(_) => Err(wrong()),
    }
}

fn read(path: &Path, limit: usize) -> Result<String> {
    decode(read_at_most(path, limit)?).map_err(|e| e.at(Place::File(path.into())))
}
