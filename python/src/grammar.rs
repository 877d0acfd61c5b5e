//! `ffwd.Compiler` and `ffwd.Grammar`.

use ffwd_engine::CompiledGrammar;
use pyo3::prelude::*;

use crate::constraint::{Constraint, ConstraintWarning};
use crate::error::ForPython;
use crate::matcher::Matcher;
use crate::vocabulary::Vocabulary;

/// Compiles constraints for one vocabulary.
///
/// Make one for a vocabulary and keep it: its grammars share tables. It can be used from several
/// threads at the same time.
///
/// Args:
///     vocabulary: The vocabulary.
#[pyclass(frozen, module = "ffwd")]
pub struct Compiler {
    inner: ffwd_engine::Compiler,
    vocabulary: Py<Vocabulary>,
}

#[pymethods]
impl Compiler {
    #[new]
    fn new(py: Python<'_>, vocabulary: Py<Vocabulary>) -> Self {
        let vocab = vocabulary.get().inner.clone();
        let inner = py.detach(|| ffwd_engine::Compiler::new(vocab));
        Compiler { inner, vocabulary }
    }

    /// The vocabulary.
    #[getter]
    fn vocabulary(&self, py: Python<'_>) -> Py<Vocabulary> {
        self.vocabulary.clone_ref(py)
    }

    /// Compiles a constraint. Other threads of Python run meanwhile.
    ///
    /// Raises:
    ///     ffwd.Error: No output of this vocabulary satisfies it, or a limit is exceeded.
    fn compile(&self, py: Python<'_>, constraint: &Bound<'_, Constraint>) -> PyResult<Grammar> {
        let constraint = &constraint.get().inner;
        let inner = py.detach(|| self.inner.compile(constraint)).for_python(py)?;
        Ok(Grammar { inner, vocabulary: self.vocabulary.clone_ref(py) })
    }

    /// Makes everything now that the first constraint to need it would otherwise make. Servers call
    /// this at startup.
    fn warm_up(&self, py: Python<'_>) {
        py.detach(|| self.inner.warm_up());
    }
}

/// A constraint compiled for a vocabulary.
///
/// It can be used from several threads at the same time. Masks that one generation computed are
/// there for the next ones.
#[pyclass(frozen, module = "ffwd")]
pub struct Grammar {
    inner: CompiledGrammar,
    vocabulary: Py<Vocabulary>,
}

#[pymethods]
impl Grammar {
    /// Returns a matcher at the start of an output.
    fn matcher(&self, py: Python<'_>) -> Matcher {
        Matcher { inner: self.inner.matcher(), vocabulary: self.vocabulary.clone_ref(py) }
    }

    /// The vocabulary.
    #[getter]
    fn vocabulary(&self, py: Python<'_>) -> Py<Vocabulary> {
        self.vocabulary.clone_ref(py)
    }

    /// Size in bytes of the tables of this grammar, without those that all grammars share.
    #[getter]
    fn memory_bytes(&self) -> usize {
        self.inner.memory().total()
    }

    /// What the author may not expect: the warnings of the constraint, and those that depend on the
    /// vocabulary.
    #[getter]
    fn warnings(&self) -> Vec<ConstraintWarning> {
        ConstraintWarning::all(self.inner.warnings())
    }
}
