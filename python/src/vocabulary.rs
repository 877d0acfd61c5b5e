//! `ffwd.Vocabulary`: the tokens of a model's tokenizer.

use std::path::PathBuf;

use ffwd_engine::TokenId;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::error::ForPython;

/// The tokens of a model's tokenizer, prepared for constraints.
///
/// Immutable, and shared by everything that is made from it. `len()` is the number of ids that the
/// tokenizer knows; `logits_size` is the width of the model's logits, which may be larger.
#[pyclass(frozen, module = "ffwd")]
pub struct Vocabulary {
    pub inner: ffwd_engine::Vocabulary,
    /// False if only the bytes of the tokens are known.
    pub has_tokenizer: bool,
}

impl Vocabulary {
    fn finish(
        vocab: ffwd_engine::Vocabulary,
        has_tokenizer: bool,
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
        Ok(Vocabulary { inner: vocab, has_tokenizer })
    }
}

#[pymethods]
impl Vocabulary {
    /// Reads a `tokenizer.json`.
    ///
    /// End tokens come from `generation_config.json` or `tokenizer_config.json` in the same folder,
    /// otherwise from the usual names.
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
        Self::finish(vocab, true, logits_size, eos, py)
    }

    /// Reads the text of a `tokenizer.json`.
    ///
    /// Args:
    ///     text: The text, as `str` or UTF-8 `bytes`.
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
        Self::finish(vocab, true, logits_size, eos, py)
    }

    /// Takes over a fast tokenizer of `transformers`, or a `tokenizers.Tokenizer`.
    ///
    /// Args:
    ///     tokenizer: The tokenizer. Only its `backend_tokenizer` and `eos_token_id` are read.
    ///     logits_size: Width of the model's logits in tokens, usually `model.config.vocab_size`;
    ///         default `len(vocabulary)`.
    ///     eos: Id or ids that end a generation; default `tokenizer.eos_token_id`.
    ///
    /// Raises:
    ///     TypeError: The object has no backend tokenizer, as slow tokenizers have none.
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
        let backend = match tokenizer.getattr_opt("backend_tokenizer")? {
            Some(backend) => backend,
            None => tokenizer.clone(),
        };
        let Some(to_str) = backend.getattr_opt("to_str")? else {
            return Err(PyTypeError::new_err(format!(
                "{} has no backend tokenizer; pass a fast tokenizer of transformers, or use \
                 Vocabulary.from_file or Vocabulary.from_tokens",
                tokenizer.get_type().name()?
            )));
        };
        let bytes = text_bytes(&to_str.call0()?)?;
        let own = tokenizer.getattr_opt("eos_token_id")?.filter(|eos| !eos.is_none());
        let vocab = py.detach(|| ffwd_engine::Vocabulary::from_bytes(&bytes)).for_python(py)?;
        Self::finish(vocab, true, logits_size, eos.or(own.as_ref()), py)
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
        Self::finish(vocab, false, logits_size, None, py)
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
        if self.has_tokenizer {
            return py.detach(|| self.inner.encode(text)).for_python(py);
        }
        let (tokens, covered) = self.inner.trie().longest_split(text.as_bytes());
        if covered == text.len() {
            return Ok(tokens);
        }
        let message = format!("no token has the byte {} of the text", text.as_bytes()[covered]);
        Err(ffwd_engine::Error::new(ffwd_engine::ErrorKind::Tokenizer, message)).for_python(py)
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
pub fn text_bytes(text: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
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
pub fn token_id(value: &Bound<'_, PyAny>, width: usize) -> PyResult<TokenId> {
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
pub fn token_ids(values: &Bound<'_, PyAny>, width: usize) -> PyResult<Vec<TokenId>> {
    values.try_iter()?.map(|value| token_id(&value?, width)).collect()
}

fn id_or_ids(value: &Bound<'_, PyAny>, width: usize) -> PyResult<Vec<TokenId>> {
    if value.hasattr("__index__")? {
        return Ok(vec![token_id(value, width)?]);
    }
    token_ids(value, width)
}
