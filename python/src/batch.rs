//! `ffwd.fill_batch` and `ffwd.advance_batch`: the bitmasks of many generations in one call.

use ffwd_engine::TokenId;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::matcher::Matcher;
use crate::pool;
use crate::tensor::Tensor;
use crate::vocabulary::token_ids;

/// One generation of a batch.
struct Job<'a> {
    matcher: &'a mut ffwd_engine::Matcher,
    /// A token that stays, before the draft.
    token: Option<TokenId>,
    /// True if it was accepted.
    accepted: bool,
    draft: Vec<TokenId>,
    /// The row of the state itself, then one for each drafted token.
    rows: Vec<&'a mut [u32]>,
    /// Number of drafted tokens that are legal one after the other.
    legal: usize,
}

impl Job<'_> {
    fn fill(&mut self) {
        if let Some(token) = self.token {
            self.accepted = !self.matcher.is_finished() && self.matcher.accept_token(token).is_ok();
        }
        let mut rows = self.rows.iter_mut();
        if let Some(row) = rows.next() {
            self.matcher.fill_bitmask(row);
        }
        for token in &self.draft {
            if self.matcher.accept_token(*token).is_err() {
                break;
            }
            self.legal += 1;
            if let Some(row) = rows.next() {
                self.matcher.fill_bitmask(row);
            }
        }
        // After a token that is not legal nothing is verified, so any token may come.
        rows.for_each(|row| row.fill(u32::MAX));
        self.matcher.rollback(self.legal);
    }
}

/// Writes the legal tokens of many generations into the rows of a bitmask, in one call.
///
/// Other threads of Python run meanwhile, and large batches use several cores. With drafts, row
/// `first + j` of a matcher is its mask after `j` drafted tokens. The matchers are left as they
/// were. Rows after a drafted token that is not legal have all bits set, as have the unused rows of
/// shorter drafts.
///
/// Args:
///     matchers: The generations, all of one width of logits; none of them twice.
///     bitmask: int32 of shape (rows, words) on the CPU, as in `Matcher.fill_next_token_bitmask`.
///     indices: First row of each matcher; default `i * (k + 1)` for the i-th matcher, where `k` is
///         the length of the longest draft.
///     drafts: Drafted tokens of each matcher, or None where there are none.
///
/// Returns:
///     For each matcher, how many of its drafted tokens are legal.
///
/// Raises:
///     ValueError: The lists differ in length, a matcher or a row is used twice, a row or an id is
///         out of range, or the bitmask does not fit.
///     RuntimeError: Another thread uses one of the matchers.
#[pyfunction]
#[pyo3(signature = (matchers, bitmask, indices=None, drafts=None))]
pub(crate) fn fill_batch(
    py: Python<'_>,
    matchers: Vec<Bound<'_, Matcher>>,
    bitmask: &Bound<'_, PyAny>,
    indices: Option<Vec<i64>>,
    drafts: Option<Vec<Option<Bound<'_, PyAny>>>>,
) -> PyResult<Vec<usize>> {
    let matched = [("indices", indices.as_ref().map(Vec::len)), ("drafts", drafts.as_ref().map(Vec::len))];
    let done = fill(py, &matchers, bitmask, matched, indices.as_deref(), drafts.as_deref(), None)?;
    Ok(done.into_iter().map(|(_, legal)| legal).collect())
}

/// Accepts a token in each of many generations and writes the legal tokens behind it, in one call.
///
/// Other threads of Python run meanwhile, and large batches use several cores. A generation that
/// has ended, or whose token is not legal, stays as it is.
///
/// Args:
///     matchers: The generations, all of one width of logits; none of them twice.
///     tokens: The token of each matcher.
///     bitmask: int32 of shape (rows, words) on the CPU, as in `Matcher.fill_next_token_bitmask`:
///         row `i` is that of the i-th matcher.
///
/// Returns:
///     For each matcher, whether it accepted its token.
///
/// Raises:
///     ValueError: The lists differ in length, a matcher is used twice, an id is out of range, or
///         the bitmask does not fit. No token is accepted then.
///     RuntimeError: Another thread uses one of the matchers.
#[pyfunction]
pub(crate) fn advance_batch(
    py: Python<'_>,
    matchers: Vec<Bound<'_, Matcher>>,
    tokens: &Bound<'_, PyAny>,
    bitmask: &Bound<'_, PyAny>,
) -> PyResult<Vec<bool>> {
    let widths = matchers.iter().map(|m| m.try_borrow().map(|m| m.width())).collect::<Result<Vec<_>, _>>()?;
    let tokens = token_ids(tokens, widths.into_iter().min().unwrap_or(0))?;
    let matched = [("tokens", Some(tokens.len())), ("bitmask", None)];
    let done = fill(py, &matchers, bitmask, matched, None, None, Some(&tokens))?;
    Ok(done.into_iter().map(|(accepted, _)| accepted).collect())
}

/// Returns for each matcher whether it accepted its token, and how many of its drafted tokens are
/// legal. The lists that are `matched` must be as long as that of the matchers.
fn fill(
    py: Python<'_>,
    matchers: &[Bound<'_, Matcher>],
    bitmask: &Bound<'_, PyAny>,
    matched: [(&str, Option<usize>); 2],
    indices: Option<&[i64]>,
    drafts: Option<&[Option<Bound<'_, PyAny>>]>,
    tokens: Option<&[TokenId]>,
) -> PyResult<Vec<(bool, usize)>> {
    let count = matchers.len();
    for (name, len) in matched {
        if let Some(len) = len.filter(|len| *len != count) {
            return Err(PyValueError::new_err(format!("{len} {name} for {count} matchers")));
        }
    }
    let mut addresses: Vec<usize> = matchers.iter().map(|matcher| matcher.as_ptr() as usize).collect();
    addresses.sort_unstable();
    if addresses.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(PyValueError::new_err("a matcher occurs twice; use a fork of it"));
    }
    let mut borrowed = matchers.iter().map(|m| m.try_borrow_mut()).collect::<Result<Vec<_>, _>>()?;
    let words = borrowed.iter().map(|m| m.inner.vocabulary().bitmask_words()).max().unwrap_or(0);
    let mut chains = vec![Vec::new(); count];
    for ((chain, draft), matcher) in chains.iter_mut().zip(drafts.into_iter().flatten()).zip(&borrowed) {
        if let Some(draft) = draft {
            *chain = token_ids(draft, matcher.width())?;
        }
    }

    let tensor = Tensor::new(bitmask, "bitmask", true)?;
    let mut rows = tensor.bitmask_rows(words)?;
    let longest = chains.iter().map(Vec::len).max().unwrap_or(0);
    let mut jobs = Vec::with_capacity(count);
    for (i, (matcher, draft)) in borrowed.iter_mut().zip(chains).enumerate() {
        let (first, used) = match indices {
            Some(indices) => (indices[i], draft.len() + 1),
            None => ((i * (longest + 1)) as i64, longest + 1),
        };
        let rows = (0..used as i64).map(|j| rows.take(first.saturating_add(j))).collect::<PyResult<_>>()?;
        let token = tokens.map(|tokens| tokens[i]);
        jobs.push(Job { matcher: &mut matcher.inner, token, accepted: false, draft, rows, legal: 0 });
    }
    let threads = pool::threads(py);
    let done = std::sync::Mutex::new(vec![(false, 0); count]);
    let numbered: Vec<(usize, Job<'_>)> = jobs.into_iter().enumerate().collect();
    py.detach(|| {
        pool::for_each(threads.as_deref(), numbered, |(i, job)| {
            job.fill();
            done.lock().unwrap_or_else(|e| e.into_inner())[*i] = (job.accepted, job.legal);
        });
    });
    Ok(done.into_inner().unwrap_or_else(|e| e.into_inner()))
}
