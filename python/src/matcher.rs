//! `ffwd.Matcher`: the state of one generation.

use ffwd_engine::TokenId;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::explanation::Explanation;
use crate::tensor::Tensor;
use crate::vocabulary::{Vocabulary, text_bytes, token_id, token_ids};

/// The state of one generation under a grammar.
///
/// One thread at a time uses a matcher; a second one gets a RuntimeError. There are no error
/// states: a token that is not legal is refused, and the state stays the same.
#[pyclass(module = "ffwd")]
pub struct Matcher {
    pub inner: ffwd_engine::Matcher,
    pub vocabulary: Py<Vocabulary>,
}

impl Matcher {
    /// Number of ids that a token may have.
    pub fn width(&self) -> usize {
        self.inner.vocabulary().logits_size()
    }

    /// Number of accepted tokens, an end token included.
    fn accepted(&self) -> usize {
        self.inner.num_accepted() + usize::from(self.inner.is_finished())
    }

    /// Accepts the bytes one by one, each as a token of its own. Leaves the state alone if one is
    /// not legal.
    fn accept_bytes(&mut self, bytes: &[u8]) -> bool {
        let vocab = self.inner.vocabulary().clone();
        let trie = vocab.trie();
        let token = |byte: &u8| trie.find(&[*byte]).and_then(|node| trie.tokens_at(node).first().copied());
        for (accepted, byte) in bytes.iter().enumerate() {
            if token(byte).is_none_or(|token| self.inner.accept_token(token).is_err()) {
                self.inner.rollback(accepted);
                return false;
            }
        }
        true
    }
}

#[pymethods]
impl Matcher {
    /// The vocabulary.
    #[getter]
    fn vocabulary(&self, py: Python<'_>) -> Py<Vocabulary> {
        self.vocabulary.clone_ref(py)
    }

    /// Writes the legal tokens into a row of a bitmask. All words of the row are overwritten.
    ///
    /// Bit `t % 32` of word `t // 32` is set if token `t` keeps the output completable. Once an end
    /// token was accepted, only the end tokens are set.
    ///
    /// Args:
    ///     bitmask: int32 of shape (rows, words) or (words,) on the CPU, with `words` at least
    ///         `vocabulary.bitmask_words`: a NumPy array, a torch tensor, anything with
    ///         `__dlpack__`, or a memoryview of format `"i"`.
    ///     index: The row.
    ///
    /// Raises:
    ///     ValueError: The shape, type, device or order of `bitmask` is another one, or it has no
    ///         such row.
    ///     TypeError: `bitmask` is none of these objects.
    #[pyo3(signature = (bitmask, index=0))]
    fn fill_next_token_bitmask(&mut self, bitmask: &Bound<'_, PyAny>, index: i64) -> PyResult<()> {
        let mut tensor = Tensor::new(bitmask, "bitmask", true)?;
        let words = self.inner.vocabulary().bitmask_words();
        self.inner.fill_bitmask(tensor.bitmask_row(index, words)?);
        Ok(())
    }

    /// Advances by one token. Returns False, and changes nothing, if the token is not legal.
    ///
    /// Raises:
    ///     ValueError: The id is out of range.
    fn accept_token(&mut self, token: &Bound<'_, PyAny>) -> PyResult<bool> {
        let id = token_id(token, self.width())?;
        Ok(self.inner.accept_token(id).is_ok())
    }

    /// Advances by the leading tokens that are legal one after the other. Returns their number.
    ///
    /// Raises:
    ///     ValueError: An id is out of range; nothing is accepted then.
    fn accept_tokens(&mut self, tokens: &Bound<'_, PyAny>) -> PyResult<usize> {
        let ids = token_ids(tokens, self.width())?;
        Ok(ids.iter().take_while(|id| self.inner.accept_token(**id).is_ok()).count())
    }

    /// Advances by a text, whatever its tokens. Returns False, and changes nothing, if the text is
    /// not legal. Each byte counts as one token for `rollback`.
    ///
    /// Args:
    ///     text: The text, as `str` or `bytes`.
    fn accept_string(&mut self, text: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.accept_bytes(&text_bytes(text)?))
    }

    /// Returns how many leading tokens `accept_tokens` would accept. The state does not change.
    ///
    /// Raises:
    ///     ValueError: An id is out of range.
    fn validate_tokens(&mut self, tokens: &Bound<'_, PyAny>) -> PyResult<usize> {
        let ids = token_ids(tokens, self.width())?;
        let legal = self.inner.validate_tokens(&ids);
        let ends = ids.get(legal).is_some_and(|id| self.inner.vocabulary().eos().contains(id));
        if !ends {
            return Ok(legal);
        }
        let mut fork = self.inner.fork();
        Ok(ids[..=legal].iter().take_while(|id| fork.accept_token(**id).is_ok()).count())
    }

    /// Removes the last tokens that were accepted; an end token counts as one. Any number of them
    /// can be removed, at the same cost.
    ///
    /// Raises:
    ///     ValueError: Fewer tokens were accepted, or the number is negative.
    #[pyo3(signature = (num_tokens=1))]
    fn rollback(&mut self, num_tokens: i64) -> PyResult<()> {
        let accepted = self.accepted();
        match usize::try_from(num_tokens) {
            Ok(n) if n <= accepted => {
                self.inner.rollback(n);
                Ok(())
            }
            _ => Err(PyValueError::new_err(format!(
                "cannot roll back {num_tokens} tokens: {accepted} were accepted"
            ))),
        }
    }

    /// Returns to the start of the output.
    fn reset(&mut self) {
        self.inner.rollback(self.accepted());
    }

    /// Returns an independent copy. It is cheap, whatever the length of the output.
    fn fork(&self, py: Python<'_>) -> Matcher {
        Matcher { inner: self.inner.fork(), vocabulary: self.vocabulary.clone_ref(py) }
    }

    /// Returns the text that the grammar leaves no choice about; empty if there is a choice. An
    /// incomplete character at its end is left out.
    fn find_jump_forward_string(&mut self) -> String {
        let bytes = self.inner.forced_bytes();
        match std::str::from_utf8(&bytes) {
            Ok(text) => text.to_owned(),
            Err(error) => String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned(),
        }
    }

    /// Returns the bytes that the grammar leaves no choice about; empty if there is a choice.
    fn forced_bytes<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.forced_bytes())
    }

    /// Returns the forced run in the tokens in which the tokenizer would write it, as a draft to be
    /// verified. For a vocabulary of bare tokens these are the longest ones that fit.
    fn forced_tokens(&mut self) -> Vec<TokenId> {
        if self.inner.vocabulary().has_tokenizer() {
            self.inner.forced_tokens()
        } else {
            self.inner.longest_forced_tokens()
        }
    }

    /// Returns at most the first `limit` tokens of the forced run, the best guess at those of the
    /// model, for a draft that is verified. The cost depends on `limit`, not on the run's length.
    ///
    /// Unlike `forced_tokens`, the last token may be one that the tokenizer would join with what
    /// follows the run.
    ///
    /// Args:
    ///     limit: Most tokens.
    ///     last: The token in front of the run, which the tokenizer may join with its start.
    ///
    /// Raises:
    ///     ValueError: `limit` is negative, or `last` is out of range.
    #[pyo3(signature = (limit, last=None))]
    fn forced_draft(&self, limit: i64, last: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<TokenId>> {
        let Ok(limit) = usize::try_from(limit) else {
            return Err(PyValueError::new_err(format!("limit is {limit}; expected 0 or more")));
        };
        let last = last.map(|last| token_id(last, self.width())).transpose()?;
        let mut tokens = if self.inner.vocabulary().has_tokenizer() {
            self.inner.forced_prefix(last, limit).tokens
        } else {
            self.inner.longest_forced_start(limit).tokens
        };
        tokens.truncate(limit);
        Ok(tokens)
    }

    /// Explains why a token, or a text whatever its tokens, may or may not come next. The state does
    /// not change. For people, not for decoding loops.
    ///
    /// Args:
    ///     token_or_text: An id, or a text as `str` or `bytes`.
    ///
    /// Raises:
    ///     ValueError: The id is out of range.
    fn explain(&self, token_or_text: &Bound<'_, PyAny>) -> PyResult<Explanation> {
        let explained = match text_bytes(token_or_text) {
            Ok(bytes) => self.inner.explain_bytes(&bytes),
            Err(_) => self.inner.explain(token_id(token_or_text, self.width())?),
        };
        Ok(Explanation::new(explained, self.inner.vocabulary()))
    }

    /// Returns the JSON pointer of the position in the output, empty at the top level.
    fn path(&self) -> String {
        self.inner.path()
    }

    /// Returns the bytes of a shortest way to end the output, or None if it is longer than
    /// `max_bytes` or the constraint is one over tokens.
    ///
    /// Args:
    ///     max_bytes: The most bytes.
    #[pyo3(signature = (max_bytes=65_536))]
    fn shortest_completion<'py>(&self, py: Python<'py>, max_bytes: usize) -> Option<Bound<'py, PyBytes>> {
        Some(PyBytes::new(py, &self.inner.shortest_completion(max_bytes)?))
    }

    /// True if the output may end here: an end token is legal.
    fn is_accepting(&self) -> bool {
        self.inner.is_accepting()
    }

    /// True if the output must end here: nothing but an end token is legal.
    fn must_end(&self) -> bool {
        self.inner.is_terminated()
    }

    /// True if an end token was accepted. False again once it is rolled back.
    fn is_terminated(&self) -> bool {
        self.inner.is_finished()
    }

    /// Number of accepted tokens, an end token included: the most that can be rolled back.
    #[getter]
    fn num_accepted(&self) -> usize {
        self.accepted()
    }

    /// Returns the number of legal tokens, end tokens included.
    fn count_legal_tokens(&mut self) -> usize {
        self.inner.legal_count()
    }

    fn __repr__(&self) -> String {
        format!("<ffwd.Matcher after {} tokens>", self.accepted())
    }
}
