//! The exception `ffwd.Error` and its attributes.
//!
//! The class is that of the imported module `ffwd._ffwd`, also if another library raises it.
//!
//! # Alternatives considered
//!
//! A class for each kind was rejected: callers match on `kind`, as they do in Rust.

use ffwd_engine::error::Place;
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

create_exception!(
    ffwd,
    Error,
    PyValueError,
    "A constraint, a vocabulary or an option that cannot be used.\n\n\
     Attributes:\n    \
     kind: Stable name of the kind, such as `invalid_schema` or `unsupported`.\n    \
     message: One sentence without location and hint.\n    \
     pointer: JSON pointer of the location in a JSON document, or None.\n    \
     line: Line of the location in a text, from 1, or None.\n    \
     column: Column in characters, from 1, or None.\n    \
     hint: What to do about it, or None."
);

const ATTRIBUTES: [&str; 6] = ["kind", "message", "pointer", "line", "column", "hint"];

/// Adds the exception to the module. An exception that a caller makes has `None` in each attribute.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let class = module.py().get_type::<Error>();
    for name in ATTRIBUTES {
        class.setattr(name, module.py().None())?;
    }
    module.add("Error", class)
}

/// Makes the exception of an error of the engine.
pub fn to_python(py: Python<'_>, error: &ffwd_engine::Error) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    match CLASS.import(py, "ffwd._ffwd", "Error") {
        Ok(class) => with_class(class, error),
        Err(other) => other,
    }
}

/// Makes an exception of a class that derives from `ffwd.Error`.
pub fn with_class(class: &Bound<'_, PyType>, error: &ffwd_engine::Error) -> PyErr {
    let py = class.py();
    let exception = PyErr::from_type(class.clone(), error.to_string());
    let value = exception.value(py);
    let place = error.places().iter().find_map(Place::line_and_column);
    let set = || -> PyResult<()> {
        value.setattr("kind", error.kind().code())?;
        value.setattr("message", error.message())?;
        value.setattr("pointer", error.pointer())?;
        value.setattr("line", place.map(|p| p.0))?;
        value.setattr("column", place.map(|p| p.1))?;
        value.setattr("hint", error.hint_text())
    };
    match set() {
        Ok(()) => exception,
        Err(other) => other,
    }
}

/// The result of an engine's function as Python sees it.
pub trait ForPython<T> {
    /// Turns an error of the engine into `ffwd.Error`.
    fn for_python(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> ForPython<T> for ffwd_engine::Result<T> {
    fn for_python(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_python(py, &error))
    }
}
