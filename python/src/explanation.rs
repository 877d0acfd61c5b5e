//! `ffwd.Explanation`: why a token may or may not come next.

use ffwd_engine::matcher::{Explanation as Explained, Verdict};
use ffwd_engine::{TokenId, Vocabulary};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Number of expected bytes that the text of an explanation names.
const MAX_NAMED: usize = 16;

/// Why a token or a text may or may not come next.
///
/// Attributes:
///     legal: True if it may.
///     reason: One sentence.
///     fits: Number of its bytes that fit.
///     examples: Some ids that could follow the fitting part.
///     may_end: True if the output could end after the fitting part.
///     path: JSON pointer of the position after the fitting part; empty at the top level.
#[pyclass(frozen, module = "ffwd")]
pub struct Explanation {
    #[pyo3(get)]
    legal: bool,
    #[pyo3(get)]
    reason: String,
    #[pyo3(get)]
    fits: usize,
    #[pyo3(get)]
    examples: Vec<TokenId>,
    #[pyo3(get)]
    may_end: bool,
    #[pyo3(get)]
    path: String,
    expected: Vec<u8>,
}

impl Explanation {
    pub fn new(explained: Explained, vocab: &Vocabulary) -> Self {
        let reason = reason(&explained, vocab);
        Explanation {
            legal: explained.verdict == Verdict::Legal,
            reason,
            fits: explained.fits,
            examples: explained.examples,
            may_end: explained.may_end,
            path: explained.path,
            expected: explained.expected,
        }
    }
}

#[pymethods]
impl Explanation {
    /// The bytes that could follow the fitting part, in ascending order.
    #[getter]
    fn expected<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.expected)
    }

    fn __str__(&self) -> String {
        self.reason.clone()
    }

    fn __repr__(&self) -> String {
        format!("<ffwd.Explanation: {}>", self.reason)
    }
}

fn reason(explained: &Explained, vocab: &Vocabulary) -> String {
    let at = explained.fits;
    let what = match explained.verdict {
        Verdict::Legal => return "it may come next".into(),
        Verdict::Byte(byte) => format!("byte {at}, {}, is not legal there", quoted(byte)),
        Verdict::Unspellable(byte) => {
            format!("byte {at}, {}, is no token of its own in this vocabulary", quoted(byte))
        }
        Verdict::Unfinished => "the output may not end yet".into(),
        Verdict::Special => "special tokens are never text".into(),
        Verdict::NoTransition => "the machine over tokens has no transition on it".into(),
        Verdict::Ended => return "an end token was accepted; nothing follows".into(),
        Verdict::Unknown => "the id has no text".into(),
        _ => "it is not legal there".into(),
    };
    let named: Vec<String> = explained.expected.iter().take(MAX_NAMED).map(|byte| quoted(*byte)).collect();
    let rest = explained.expected.len().saturating_sub(MAX_NAMED);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    match named.is_empty() {
        false => format!("{what}; could be: {}{more}", named.join(" ")),
        true if explained.may_end && !vocab.eos().is_empty() => format!("{what}; only the end may follow"),
        true => what,
    }
}

fn quoted(byte: u8) -> String {
    format!("'{}'", byte.escape_ascii())
}
