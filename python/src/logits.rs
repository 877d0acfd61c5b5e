//! `ffwd.apply_token_bitmask_inplace`: the kernels that apply a bitmask to logits on the CPU.
//!
//! # Cost
//!
//! One pass over the bitmask. Words of legal tokens only are skipped, words of illegal tokens only
//! are filled at once, so logits are written and never read.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::pool;
use crate::tensor::{Element, Tensor};

/// Bits of minus infinity as float32.
const F32: u32 = 0xff80_0000;
/// Bits of minus infinity as float16.
const F16: u16 = 0xfc00;
/// Bits of minus infinity as bfloat16.
const BF16: u16 = 0xff80;

/// Logits below this number keep Python's lock.
const SMALL: usize = 1 << 16;

/// Writes `minus_infinity` where the bit of a token is not set.
fn apply<T: Copy>(logits: &mut [T], row: &[u32], minus_infinity: T) {
    for (logits, &word) in logits.chunks_mut(32).zip(row) {
        match word {
            u32::MAX => {}
            0 => logits.fill(minus_infinity),
            _ => {
                // Only a few tokens of a mixed word are legal or illegal; either way all 32 are
                // looked at.
                for (bit, logit) in logits.iter_mut().enumerate() {
                    if word >> bit & 1 == 0 {
                        *logit = minus_infinity;
                    }
                }
            }
        }
    }
}

/// Applies the rows of `masks` to those of `logits`, pair by pair.
fn apply_all<T: Copy + Send + Sync>(
    py: Python<'_>,
    logits: Vec<&mut [T]>,
    masks: Vec<&mut [u32]>,
    minus_infinity: T,
) {
    let small = logits.iter().map(|row| row.len()).sum::<usize>() < SMALL;
    let mut pairs: Vec<_> = logits.into_iter().zip(masks).collect();
    if small {
        return pairs.iter_mut().for_each(|(logits, mask)| apply(logits, mask, minus_infinity));
    }
    let threads = pool::threads(py);
    py.detach(|| {
        pool::for_each(threads.as_deref(), pairs, |(logits, mask)| apply(logits, mask, minus_infinity));
    });
}

/// Sets the logits of all tokens that are not legal to minus infinity.
///
/// Args:
///     logits: float32, float16 or bfloat16 of shape (batch, width) or (width,) on the CPU: a NumPy
///         array, a torch tensor, anything with `__dlpack__`, or a memoryview of format `"f"`.
///         The elements of a row are contiguous; rows may be apart.
///     bitmask: int32 of shape (rows, ceil(width / 32)), or one row of it, on the CPU.
///     indices: The rows of both that are used; default all, and `logits` then has as many rows as
///         `bitmask`.
///
/// Raises:
///     ValueError: A type, shape or device is another one, or a row is out of range or used twice.
///     TypeError: An argument is none of these objects.
#[pyfunction]
#[pyo3(signature = (logits, bitmask, indices=None))]
pub(crate) fn apply_token_bitmask_inplace(
    py: Python<'_>,
    logits: &Bound<'_, PyAny>,
    bitmask: &Bound<'_, PyAny>,
    indices: Option<Vec<i64>>,
) -> PyResult<()> {
    let logits = Tensor::new(logits, "logits", true)?;
    let masks = Tensor::new(bitmask, "bitmask", false)?;
    let words = logits.columns().div_ceil(32);
    let mut rows = masks.bitmask_rows(words)?;
    if masks.columns() != words {
        let message = format!(
            "logits: a width of {} needs {words} words of bitmask, but it has {}; pass the width of \
             the logits as logits_size",
            logits.columns(),
            masks.columns()
        );
        return Err(PyValueError::new_err(message));
    }
    if indices.is_none() && logits.rows() != masks.rows() {
        let message = format!("logits: {} rows, but the bitmask has {}", logits.rows(), masks.rows());
        return Err(PyValueError::new_err(message));
    }
    let used: Vec<i64> = indices.unwrap_or_else(|| (0..logits.rows() as i64).collect());
    if words == 0 {
        return Ok(());
    }
    if logits.overlaps(&masks) {
        return Err(PyValueError::new_err("logits and bitmask share memory"));
    }
    let masks = used.iter().map(|&i| rows.take(i)).collect::<PyResult<_>>()?;
    if let Some(mut all) = logits.words().filter(|_| logits.element() == Element::Float32) {
        let logits = used.iter().map(|&i| all.take(i)).collect::<PyResult<_>>()?;
        apply_all(py, logits, masks, F32);
    } else if let Some(mut all) = logits.halves() {
        let minus_infinity = if logits.element() == Element::Float16 { F16 } else { BF16 };
        let logits = used.iter().map(|&i| all.take(i)).collect::<PyResult<_>>()?;
        apply_all(py, logits, masks, minus_infinity);
    } else {
        let message = "logits: elements of type int32; expected float32, float16 or bfloat16";
        return Err(PyValueError::new_err(message));
    }
    Ok(())
}
