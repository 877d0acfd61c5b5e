//! Exceptions of the runtime: `ffwd.Error`, and `ffwd.Truncated` with what there is of an output.

use ffwd_runtime::extract::Truncated;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// A failed generation: the error, and the output as far as there is one.
pub struct Failure {
    pub error: ffwd_runtime::Error,
    /// Text and statistics (JSON) of the output.
    pub output: Option<(String, String)>,
}

impl From<ffwd_runtime::Error> for Failure {
    fn from(error: ffwd_runtime::Error) -> Self {
        Failure { error, output: None }
    }
}

impl Failure {
    /// Makes the exception.
    pub fn to_python(&self, py: Python<'_>) -> PyErr {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let Some(cut) = Truncated::of(&self.error) else {
            return _ffwd::error::to_python(py, &self.error);
        };
        let make = || -> PyResult<PyErr> {
            let class = CLASS.import(py, "ffwd.errors", "Truncated")?;
            let exception = _ffwd::error::with_class(class, &self.error);
            let value = exception.value(py);
            value.setattr("path", cut.path)?;
            value.setattr("partial", cut.partial)?;
            if let Some((text, stats)) = &self.output {
                value.setattr("text", text)?;
                value.setattr("_stats", stats)?;
            }
            Ok(exception)
        };
        make().unwrap_or_else(|other| other)
    }
}

/// The result of a function of the runner as Python sees it.
pub(crate) trait ForPython<T> {
    /// Turns an error into an exception.
    fn for_python(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Into<Failure>> ForPython<T> for Result<T, E> {
    fn for_python(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| error.into().to_python(py))
    }
}
