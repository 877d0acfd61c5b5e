//! `ffwd.Vocabulary`: the tokens of a model's tokenizer.

use std::path::PathBuf;

use ffwd_engine::TokenId;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::error::ForPython;
use crate::tokenizer_object;

/// The tokens of a model's tokenizer, prepared for constraints.
///
/// Immutable, and shared by everything that is made from it. `len()` is the number of ids that the
/// tokenizer knows; `logits_size` is the width of the model's logits, which may be larger.
#[pyclass(frozen, module = "ffwd")]
pub struct Vocabulary {
    pub inner: ffwd_engine::Vocabulary,
}

impl Vocabulary {
    fn finish(
        vocab: ffwd_engine::Vocabulary,
        logits_size: Option<i64>,
        eos: Option<&Bound<'_, PyAny>>,
        py: Python<'_>,
    ) -> PyResult<Self> {
        let mut vocab = vocab;
        if let Some(size) = logits_size {
            vocab = vocab.with_logits_size(usize::try_from(size).unwrap_or(0)).for_python(py)?;
        }
        if let Some(eos) = eos {
            let ids = id_or_ids(eos, vocab.logits_size())?;
            vocab = vocab.with_eos(ids);
        }
        Ok(Vocabulary { inner: vocab })
    }
}

#[pymethods]
impl Vocabulary {
    /// Reads a tokenizer file: a `tokenizer.json`, a `tekken.json` of Mistral, a SentencePiece model
    /// (`tokenizer.model`), or the metadata of a GGUF file. Its content decides, not its name.
    ///
    /// End tokens come from `generation_config.json` or `tokenizer_config.json` in the same folder,
    /// otherwise from the file; those of a GGUF file from its metadata.
    ///
    /// Args:
    ///     path: The file.
    ///     logits_size: Width of the model's logits in tokens; default `len(vocabulary)`.
    ///     eos: Id or ids that end a generation, instead of those found.
    ///
    /// Raises:
    ///     ffwd.Error: The file cannot be read, is not a tokenizer, or does not fit `logits_size`.
    ///     ValueError: An id of `eos` is out of range.
    #[staticmethod]
    #[pyo3(signature = (path, *, logits_size=None, eos=None))]
    fn from_file(
        py: Python<'_>,
        path: PathBuf,
        logits_size: Option<i64>,
        eos: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let vocab = py.detach(|| ffwd_engine::Vocabulary::from_file(path)).for_python(py)?;
        Self::finish(vocab, logits_size, eos, py)
    }

    /// Reads the content of a tokenizer file, as `from_file` does.
    ///
    /// Args:
    ///     text: The content: `str`, or `bytes` (UTF-8, or a SentencePiece model).
    ///     logits_size: Width of the model's logits in tokens; default `len(vocabulary)`.
    ///     eos: Id or ids that end a generation; default: found by the usual names.
    ///
    /// Raises:
    ///     ffwd.Error: The text is not a tokenizer, or does not fit `logits_size`.
    ///     ValueError: An id of `eos` is out of range.
    #[staticmethod]
    #[pyo3(signature = (text, *, logits_size=None, eos=None))]
    fn from_json(
        py: Python<'_>,
        text: &Bound<'_, PyAny>,
        logits_size: Option<i64>,
        eos: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let bytes = text_bytes(text)?;
        let vocab = py.detach(|| ffwd_engine::Vocabulary::from_bytes(&bytes)).for_python(py)?;
        Self::finish(vocab, logits_size, eos, py)
    }

    /// Takes over a tokenizer object: of `transformers` (fast, or with a SentencePiece model), of
    /// `tokenizers`, `mistral_common`, `sentencepiece` or `tiktoken`, or a wrapper of one, such as
    /// those of vLLM.
    ///
    /// Args:
    ///     tokenizer: The tokenizer.
    ///     logits_size: Width of the model's logits in tokens, usually `model.config.vocab_size`;
    ///         default `len(vocabulary)`.
    ///     eos: Id or ids that end a generation; default `tokenizer.eos_token_id`.
    ///
    /// Raises:
    ///     TypeError: The object is none of these.
    ///     ffwd.Error: The tokenizer cannot be used, or does not fit `logits_size`.
    ///     ValueError: An id of `eos` is out of range.
    #[staticmethod]
    #[pyo3(signature = (tokenizer, *, logits_size=None, eos=None))]
    fn from_transformers(
        py: Python<'_>,
        tokenizer: &Bound<'_, PyAny>,
        logits_size: Option<i64>,
        eos: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Self::finish(tokenizer_object::vocabulary(tokenizer)?, logits_size, eos, py)
    }

    /// Makes a vocabulary from the bytes of each token, in the order of ids.
    ///
    /// The merges of the tokenizer are then not known: `encode` and `forced_tokens` use the longest
    /// tokens that fit.
    ///
    /// Args:
    ///     tokens: The bytes of each token. An empty one is never text.
    ///     eos: Id or ids that end a generation. They are never text.
    ///     special: Further ids that are never text.
    ///     logits_size: Width of the model's logits in tokens; default `len(tokens)`.
    ///
    /// Raises:
    ///     ffwd.Error: There are no tokens, too many, or they do not fit `logits_size`.
    ///     ValueError: An id of `eos` or `special` is out of range.
    #[staticmethod]
    #[pyo3(signature = (tokens, *, eos, special=None, logits_size=None))]
    fn from_tokens(
        py: Python<'_>,
        tokens: Vec<Vec<u8>>,
        eos: &Bound<'_, PyAny>,
        special: Option<&Bound<'_, PyAny>>,
        logits_size: Option<i64>,
    ) -> PyResult<Self> {
        let eos = id_or_ids(eos, tokens.len())?;
        let special = special.map_or(Ok(Vec::new()), |ids| token_ids(ids, tokens.len()))?;
        let vocab =
            py.detach(|| ffwd_engine::Vocabulary::from_token_bytes(&tokens, &special, eos)).for_python(py)?;
        Self::finish(vocab, logits_size, None, py)
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    fn __repr__(&self) -> String {
        format!("<ffwd.Vocabulary of {} tokens, logits_size={}>", self.inner.len(), self.inner.logits_size())
    }

    /// Width of the model's logits, in tokens.
    #[getter]
    fn logits_size(&self) -> usize {
        self.inner.logits_size()
    }

    /// Number of 32-bit words in a row of a bitmask: `ceil(logits_size / 32)`.
    #[getter]
    fn bitmask_words(&self) -> usize {
        self.inner.bitmask_words()
    }

    /// Ids that end a generation; may be empty.
    #[getter]
    fn eos(&self) -> Vec<TokenId> {
        self.inner.eos().to_vec()
    }

    /// True if texts are encoded as the tokenizer does. False if only the bytes of the tokens are
    /// known: `encode` and `forced_tokens` then use the longest tokens that fit.
    #[getter]
    fn has_tokenizer(&self) -> bool {
        self.inner.has_tokenizer()
    }

    /// Returns the vocabulary in which the special tokens that occur in `texts` are ordinary text,
    /// such as `[TOOL_CALLS]` or `</think>` for constraints that name them. End tokens stay special.
    ///
    /// Raises:
    ///     ffwd.Error: The tokenizer cannot be changed.
    fn with_markers(&self, py: Python<'_>, texts: Vec<String>) -> PyResult<Self> {
        let vocab = self.inner.clone();
        Ok(Vocabulary { inner: py.detach(|| vocab.with_markers(&texts)).for_python(py)? })
    }

    /// Returns the same vocabulary with other end tokens. Its tables are shared.
    ///
    /// Raises:
    ///     ValueError: An id is out of range.
    fn with_eos(&self, eos: &Bound<'_, PyAny>) -> PyResult<Self> {
        let ids = id_or_ids(eos, self.inner.logits_size())?;
        Ok(Vocabulary { inner: self.inner.clone().with_eos(ids) })
    }

    /// Returns the id of a token by its text in the tokenizer, special tokens included; None if
    /// there is none.
    fn token_id(&self, text: &str) -> Option<TokenId> {
        self.inner.token_id(text)
    }

    /// True if the token is special, that is, never text.
    ///
    /// Raises:
    ///     ValueError: The id is out of range.
    fn is_special(&self, token: &Bound<'_, PyAny>) -> PyResult<bool> {
        let id = token_id(token, self.inner.logits_size())?;
        Ok(self.inner.is_special(id))
    }

    /// Returns the bytes of a token; empty for special and unused ids.
    ///
    /// Raises:
    ///     ValueError: The id is out of range.
    fn token_bytes<'py>(&self, py: Python<'py>, token: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let id = token_id(token, self.inner.logits_size())?;
        Ok(PyBytes::new(py, self.inner.token_bytes(id)))
    }

    /// Returns the ids of a text, in which special tokens have no meaning.
    ///
    /// Raises:
    ///     ffwd.Error: The tokenizer cannot encode the text.
    fn encode(&self, py: Python<'_>, text: &str) -> PyResult<Vec<TokenId>> {
        py.detach(|| self.inner.encode(text)).for_python(py)
    }

    /// Returns the bytes of a sequence of ids; special tokens have none.
    ///
    /// Raises:
    ///     ValueError: An id is out of range.
    fn decode<'py>(&self, py: Python<'py>, tokens: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let ids = token_ids(tokens, self.inner.logits_size())?;
        Ok(PyBytes::new(py, &self.inner.decode(&ids)))
    }
}

/// Returns a copy of a text's bytes, from `str` or `bytes`.
pub(crate) fn text_bytes(text: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(text) = text.cast::<PyString>() {
        return Ok(text.to_str()?.as_bytes().to_vec());
    }
    match text.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.as_bytes().to_vec()),
        Err(_) => {
            Err(PyTypeError::new_err(format!("expected str or bytes, got {}", text.get_type().name()?)))
        }
    }
}

/// Reads a token id below `width`.
pub(crate) fn token_id(value: &Bound<'_, PyAny>, width: usize) -> PyResult<TokenId> {
    let out_of_range =
        || PyValueError::new_err(format!("token {value} is out of range: ids are 0 to {}", width.max(1) - 1));
    match value.extract::<i64>() {
        Ok(id) => match TokenId::try_from(id) {
            Ok(id) if (id as usize) < width => Ok(id),
            _ => Err(out_of_range()),
        },
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyOverflowError>(value.py()) => {
            Err(out_of_range())
        }
        Err(error) => Err(error),
    }
}

/// Reads the ids of any iterable of integers.
pub(crate) fn token_ids(values: &Bound<'_, PyAny>, width: usize) -> PyResult<Vec<TokenId>> {
    values.try_iter()?.map(|value| token_id(&value?, width)).collect()
}

/// Reads an id below `width`, or the ids of an iterable of them.
pub(crate) fn id_or_ids(value: &Bound<'_, PyAny>, width: usize) -> PyResult<Vec<TokenId>> {
    if value.hasattr("__index__")? {
        return Ok(vec![token_id(value, width)?]);
    }
    token_ids(value, width)
}
