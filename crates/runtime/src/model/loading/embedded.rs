//! The small models embedded in the library, so that everything runs at once.
//!
//! `docs/model-card.md` describes the models, their quality and their licence.
//!
//! # Cost
//!
//! They add seven megabytes to a program that uses them. Loading one takes tens of milliseconds;
//! keep the [`Model`].
//!
//! # Alternatives considered
//!
//! Downloading them at first use was rejected: tests, examples and the first run need no network.

use serde::Serialize;

use super::describe::{Description, of_gguf};
use super::file_data::FileData;
use super::gguf::file::Gguf;
use crate::error::Result;
use crate::model::options::LoadOptions;
use crate::model::running::Model;
use crate::vocab::{TokenId, Vocabulary};

/// The tokenizer that [`Model::embedded_target`] and [`Model::embedded_draft`] share.
pub static TOKENIZER_JSON: &[u8] = include_bytes!("../../../assets/extract-5m/tokenizer.json");
/// Number of tokens of that tokenizer.
pub(crate) const VOCABULARY_SIZE: usize = 4_096;
/// Token at the beginning of a turn of a conversation.
pub const START_OF_TURN: TokenId = 1;
/// Token at the end of a turn: the extraction models' end of sequence.
pub const END_OF_TURN: TokenId = 2;
/// The weights of the extraction model, a GGUF file.
pub static TARGET_GGUF: &[u8] = include_bytes!("../../../assets/extract-5m/model-q8_0.gguf");
/// The weights of its draft model, a GGUF file.
pub static DRAFT_GGUF: &[u8] = include_bytes!("../../../assets/extract-draft-1m/model-q8_0.gguf");

/// Returns the vocabulary of the extraction models, with its end of sequence.
///
/// # Errors
/// None with the embedded file as shipped.
pub fn vocabulary() -> Result<Vocabulary> {
    Ok(Vocabulary::from_bytes(TOKENIZER_JSON)?.with_eos(vec![END_OF_TURN]))
}

/// A model inside the library.
#[derive(Debug, Clone, Serialize)]
pub struct EmbeddedModel {
    /// The name on its model card.
    pub name: &'static str,
    /// What the program uses it for.
    pub purpose: &'static str,
    /// Its format, size and family.
    #[serde(flatten)]
    pub description: Description,
}

/// Lists the embedded models.
///
/// # Errors
/// None with the embedded files as shipped.
pub fn embedded_models() -> Result<Vec<EmbeddedModel>> {
    let gguf =
        |bytes: &'static [u8]| of_gguf(&Gguf::open(vec![FileData::Borrowed(bytes)])?, bytes.len() as u64);
    Ok(vec![
        EmbeddedModel { name: "extract-5m", purpose: "default model", description: gguf(TARGET_GGUF)? },
        EmbeddedModel {
            name: "extract-draft-1m",
            purpose: "its draft model",
            description: gguf(DRAFT_GGUF)?,
        },
    ])
}

impl Model {
    /// Loads the extraction model `extract-5m`; stored as `Q8_0`.
    ///
    /// # Errors
    /// None with the embedded file as shipped.
    pub fn embedded_target(options: &LoadOptions) -> Result<Model> {
        Model::from_gguf_bytes(TARGET_GGUF, options)
    }

    /// Loads the draft model `extract-draft-1m`, with the same vocabulary; stored as `Q8_0`.
    ///
    /// # Errors
    /// None with the embedded file as shipped.
    pub fn embedded_draft(options: &LoadOptions) -> Result<Model> {
        Model::from_gguf_bytes(DRAFT_GGUF, options)
    }
}
