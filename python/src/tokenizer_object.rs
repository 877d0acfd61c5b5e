//! Reads the tokenizer objects of Python libraries: `transformers`, `tokenizers`,
//! `mistral_common`, `sentencepiece`, `tiktoken`.
//!
//! Objects are recognised by what they have, so none of these libraries is imported. Wrappers, such
//! as those of servers, are opened until a known object appears.

use ffwd_engine::{TokenId, Vocabulary};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::ForPython;
use crate::vocabulary::text_bytes;

/// Attributes under which wrappers keep the object inside, in the order in which they are tried.
const INSIDE: [&str; 6] =
    ["backend_tokenizer", "sp_model", "mistral", "tokenizer", "instruct_tokenizer", "_model"];
/// Number of wrappers that are opened.
const MAX_WRAPPERS: usize = 6;

/// Makes the vocabulary of a tokenizer object, with the end tokens that the object names.
///
/// # Errors
/// `TypeError` if no known object is inside; otherwise the errors of the tokenizer.
pub(crate) fn vocabulary(tokenizer: &Bound<'_, PyAny>) -> PyResult<Vocabulary> {
    let mut object = tokenizer.clone();
    for _ in 0..MAX_WRAPPERS {
        if let Some(vocab) = known(&object)? {
            return with_eos(vocab, tokenizer);
        }
        let mut inside = None;
        for name in INSIDE {
            inside = object.getattr_opt(name)?.filter(|inside| !inside.is_none());
            if inside.is_some() {
                break;
            }
        }
        match inside {
            Some(next) => object = next,
            None => break,
        }
    }
    Err(PyTypeError::new_err(format!(
        "{} has no backend tokenizer that is known; pass a tokenizer of transformers, tokenizers, \
         mistral_common, sentencepiece or tiktoken, or use Vocabulary.from_file or \
         Vocabulary.from_tokens",
        tokenizer.get_type().name()?
    )))
}

/// Reads an object that is not a wrapper; `None` if it is not known.
fn known(object: &Bound<'_, PyAny>) -> PyResult<Option<Vocabulary>> {
    let py = object.py();
    if let Some(to_str) = object.getattr_opt("to_str")? {
        let text = text_bytes(&to_str.call0()?)?;
        return py.detach(|| Vocabulary::from_bytes(&text)).for_python(py).map(Some);
    }
    if let Some(proto) = object.getattr_opt("serialized_model_proto")? {
        let model = text_bytes(&proto.call0()?)?;
        return py.detach(|| Vocabulary::from_sentencepiece(&model)).for_python(py).map(Some);
    }
    if object.hasattr("id_to_byte_piece")? && object.hasattr("num_special_tokens")? {
        return tekken(object).map(Some);
    }
    if object.hasattr("token_byte_values")? && object.hasattr("_pat_str")? {
        return tiktoken(object).map(Some);
    }
    Ok(None)
}

/// A tokenizer of Mistral's tekken files. The object may use fewer tokens than its file lists, so
/// the object is read and not the file.
fn tekken(object: &Bound<'_, PyAny>) -> PyResult<Vocabulary> {
    let size: usize = object.getattr("n_words")?.extract()?;
    let reserved: usize = object.getattr("num_special_tokens")?.extract()?;
    let (mut tokens, mut special) = (Vec::with_capacity(size), Vec::with_capacity(reserved));
    for id in 0..size {
        if id < reserved {
            special.push((id as TokenId, object.call_method1("id_to_piece", (id,))?.extract::<String>()?));
            tokens.push(Vec::new());
        } else {
            tokens.push(object.call_method1("id_to_byte_piece", (id,))?.extract::<Vec<u8>>()?);
        }
    }
    let pattern: String = object.getattr("_model")?.getattr("_pat_str")?.extract()?;
    let eos: TokenId = object.getattr("eos_id")?.extract()?;
    ranked(object.py(), &tokens, &special, &pattern, vec![eos])
}

/// An encoding of tiktoken.
fn tiktoken(object: &Bound<'_, PyAny>) -> PyResult<Vocabulary> {
    let ranks = object.getattr("_mergeable_ranks")?;
    let size = object.getattr("max_token_value")?.extract::<usize>()?.saturating_add(1);
    let mut tokens = vec![Vec::new(); size.min(1 << 24)];
    for item in ranks.call_method0("items")?.try_iter()? {
        let (bytes, id): (Vec<u8>, usize) = item?.extract()?;
        if let Some(token) = tokens.get_mut(id) {
            *token = bytes;
        }
    }
    let mut special = Vec::new();
    for item in object.getattr("_special_tokens")?.call_method0("items")?.try_iter()? {
        let (name, id): (String, TokenId) = item?.extract()?;
        special.push((id, name));
    }
    let pattern: String = object.getattr("_pat_str")?.extract()?;
    let eos = special.iter().find(|(_, name)| name == "<|endoftext|>").map(|(id, _)| *id);
    ranked(object.py(), &tokens, &special, &pattern, eos.into_iter().collect())
}

fn ranked(
    py: Python<'_>,
    tokens: &[Vec<u8>],
    special: &[(TokenId, String)],
    pattern: &str,
    eos: Vec<TokenId>,
) -> PyResult<Vocabulary> {
    py.detach(|| Vocabulary::from_ranked_tokens(tokens, special, pattern, eos)).for_python(py)
}

/// The end token that the outermost object names counts more than one found by its name.
fn with_eos(vocab: Vocabulary, tokenizer: &Bound<'_, PyAny>) -> PyResult<Vocabulary> {
    let named = tokenizer.getattr_opt("eos_token_id")?.and_then(|id| id.extract::<TokenId>().ok());
    Ok(match named {
        Some(eos) if (eos as usize) < vocab.len() => vocab.with_eos(vec![eos]),
        _ => vocab,
    })
}
