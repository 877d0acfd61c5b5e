//! The model runner of `ffwd` as the Python module `ffwd_runtime._runtime`.
//!
//! The classes here take and give plain values and JSON texts. The public classes are in the module
//! `ffwd`, which makes records of types and statistics from them. Rules that all files follow: a fault
//! of the caller's input is an `ffwd.Error`, and a call that runs a model releases Python's lock,
//! reacts to signals, and can be left at any time.
//!
//! # Alternatives considered
//!
//! One module for engine and runtime was rejected: servers that bring their own models need a small
//! wheel. Constraints pass between the two modules as the call that made them.

mod engine;
mod error;
mod extractor;
mod files;
mod many;
mod options;
mod results;
mod run;
mod stream;

use pyo3::prelude::*;

/// Model runner of ffwd. Use `ffwd.Engine` instead of this module.
#[pymodule]
fn _runtime(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<engine::Engine>()?;
    module.add_class::<extractor::Extractor>()?;
    module.add_class::<files::FileText>()?;
    module.add_class::<many::Many>()?;
    module.add_class::<options::Options>()?;
    module.add_class::<stream::Stream>()?;
    module.add_function(wrap_pyfunction!(files::list_files, module)?)?;
    module.add_function(wrap_pyfunction!(files::read_file, module)?)?;
    module.add_function(wrap_pyfunction!(_ffwd::constraint::make_constraint, module)?)?;
    Ok(())
}
