//! The constraint engine of `ffwd` as the Python module `ffwd._ffwd`.
//!
//! One file for each concept of the Python interface. Rules that all of them follow: a fault of the
//! caller's input is a Python exception with a clear text, nothing panics, and memory of others is
//! reached through `tensor` alone, the one file with `unsafe` code.
//!
//! # Cost
//!
//! Fills of one row keep Python's lock, because they take less time than its release. Compiling,
//! batches and large logits release it.
//!
//! # Alternatives considered
//!
//! A Rust dependency on NumPy or PyTorch was rejected: addresses and shapes are all that is needed,
//! and both are optional for the user.
//!
//! The runtime as a feature of this crate was rejected: it multiplies the size of the wheel. It is a
//! module of its own, `runtime`, which uses this crate as a library.

mod batch;
pub mod constraint;
mod constraint_source;
pub mod error;
mod explanation;
mod grammar;
mod logits;
mod matcher;
pub mod options;
mod pool;
mod tensor;
mod tokenizer_object;
mod vocabulary;

use pyo3::prelude::*;

/// Constraint engine of ffwd. Import `ffwd` instead of this module.
#[pymodule]
fn _ffwd(module: &Bound<'_, PyModule>) -> PyResult<()> {
    error::add_to(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<vocabulary::Vocabulary>()?;
    module.add_class::<constraint::Constraint>()?;
    module.add_class::<constraint::ConstraintWarning>()?;
    module.add_class::<grammar::Compiler>()?;
    module.add_class::<grammar::Grammar>()?;
    module.add_class::<matcher::Matcher>()?;
    module.add_class::<explanation::Explanation>()?;
    module.add_function(wrap_pyfunction!(constraint::make_constraint, module)?)?;
    module.add_function(wrap_pyfunction!(batch::advance_batch, module)?)?;
    module.add_function(wrap_pyfunction!(batch::fill_batch, module)?)?;
    module.add_function(wrap_pyfunction!(logits::apply_token_bitmask_inplace, module)?)?;
    Ok(())
}
