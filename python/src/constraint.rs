//! `ffwd.Constraint`: what an output may be. Parsed here, compiled for a vocabulary by `Compiler`.
//!
//! A constraint remembers the call that made it, in plain values. This call is what `pickle` writes,
//! and how the module of the runtime, a library of its own, makes the same constraint.

use std::collections::HashMap;

use ffwd_engine::constraint::substring::{Bounds, SubstringOptions};
use ffwd_engine::{ConstraintBuilder, KeyOrder, Policy, Warning, Whitespace};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

use crate::error::ForPython;
use crate::vocabulary::text_bytes;

/// What a constraint means differently from what its author may expect.
///
/// Attributes:
///     kind: Stable name of the kind, such as `unknown_keyword`.
///     pointer: JSON pointer of the location in a JSON document, or None.
///     message: The message without the pointer.
#[pyclass(frozen, eq, hash, module = "ffwd")]
#[derive(PartialEq, Eq, Hash)]
pub struct ConstraintWarning {
    #[pyo3(get)]
    kind: &'static str,
    #[pyo3(get)]
    pointer: Option<String>,
    #[pyo3(get)]
    message: String,
}

impl ConstraintWarning {
    /// Returns the warnings of the engine as Python sees them.
    pub fn all(warnings: &[Warning]) -> Vec<ConstraintWarning> {
        let make = |warning: &Warning| ConstraintWarning {
            kind: warning.kind().code(),
            pointer: warning.pointer().map(str::to_owned),
            message: warning.message().to_owned(),
        };
        warnings.iter().map(make).collect()
    }
}

#[pymethods]
impl ConstraintWarning {
    fn __str__(&self) -> String {
        match &self.pointer {
            Some(pointer) => format!("#{pointer}: {}", self.message),
            None => self.message.clone(),
        }
    }

    fn __repr__(&self) -> String {
        format!("<ffwd.ConstraintWarning {}: {}>", self.kind, self.__str__())
    }
}

/// What an output may be: parsed, checked, and not yet bound to a vocabulary.
///
/// Immutable, and can be pickled. Every static method that makes one raises `ffwd.Error` with the location of the fault
/// and a hint. With `strict=True`, what would be a warning is an error.
///
/// Options of JSON texts:
///     whitespace: `"compact"` (none), `"single_space"` (one after each comma and colon), or the
///         largest number of whitespace bytes at each position, 1 to 64.
///     key_order: `"declared"` (the order of the schema) or `"any"`.
#[pyclass(frozen, module = "ffwd")]
pub struct Constraint {
    /// The engine's constraint.
    pub inner: ffwd_engine::Constraint,
    call: Call,
}

/// The call that made a constraint: a static method and its arguments by name, in values that can be
/// pickled.
struct Call {
    method: &'static str,
    arguments: Py<PyDict>,
}

impl Call {
    fn new(py: Python<'_>, method: &'static str) -> Self {
        Call { method, arguments: PyDict::new(py).unbind() }
    }

    fn with<'py>(self, py: Python<'py>, name: &str, value: impl IntoPyObject<'py>) -> PyResult<Self> {
        self.arguments.bind(py).set_item(name, value)?;
        Ok(self)
    }
}

/// Makes a constraint by a static method and its arguments by name.
#[pyfunction]
#[pyo3(name = "_make_constraint")]
pub fn make_constraint<'py>(
    method: &Bound<'py, PyString>,
    arguments: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    method.py().get_type::<Constraint>().getattr(method)?.call((), Some(arguments))
}

#[pymethods]
impl Constraint {
    /// Any JSON value that is valid against a JSON Schema.
    ///
    /// Args:
    ///     schema: JSON text, a dict or bool, or a class with `model_json_schema` as pydantic's.
    ///     whitespace, key_order: See the class.
    ///     exponent: Permit exponents in numbers.
    ///     equal_numbers: Permit every text that equals a number of `enum` or `const`.
    ///     closed_objects: Permit declared properties only, where some are declared.
    ///     documents: Further JSON documents for `$ref`: from URI to JSON text.
    ///     strict: Raise an error for what would be a warning.
    ///
    /// Raises:
    ///     ffwd.Error: Not JSON, not a schema, not supported, or satisfied by nothing; `pointer`
    ///         says where.
    ///     ValueError: An option has another value than those listed.
    #[staticmethod]
    #[pyo3(signature = (schema, *, whitespace=None, key_order="declared", exponent=false,
        equal_numbers=false, closed_objects=false, documents=None, strict=false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn json_schema(
        py: Python<'_>,
        schema: &Bound<'_, PyAny>,
        whitespace: Option<&Bound<'_, PyAny>>,
        key_order: &str,
        exponent: bool,
        equal_numbers: bool,
        closed_objects: bool,
        documents: Option<HashMap<String, String>>,
        strict: bool,
    ) -> PyResult<Self> {
        let text = json_text(schema)?;
        let policy =
            Policy { exponent, equal_numbers, closed_objects, ..json_policy(whitespace, Some(key_order))? };
        let documents = documents.unwrap_or_default();
        let call = Call::new(py, "json_schema")
            .with(py, "schema", &text)?
            .with(py, "whitespace", whitespace)?
            .with(py, "key_order", key_order)?
            .with(py, "exponent", exponent)?
            .with(py, "equal_numbers", equal_numbers)?
            .with(py, "closed_objects", closed_objects)?
            .with(py, "documents", &documents)?
            .with(py, "strict", strict)?;
        Self::parse(py, call, strict, |mut builder| {
            builder = builder.policy(policy);
            for (uri, document) in documents {
                builder = builder.document(&uri, document);
            }
            builder.json_schema(text)
        })
    }

    /// Any JSON object, nested to any depth.
    #[staticmethod]
    #[pyo3(signature = (*, whitespace=None))]
    fn json_object(py: Python<'_>, whitespace: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let policy = json_policy(whitespace, None)?;
        let call = Call::new(py, "json_object").with(py, "whitespace", whitespace)?;
        Self::parse(py, call, false, |builder| builder.policy(policy).json_object())
    }

    /// A regular expression that the whole output matches. Anchors are implied.
    ///
    /// Raises:
    ///     ffwd.Error: The pattern does not parse or is too large; `line` and `column` say where.
    #[staticmethod]
    #[pyo3(signature = (pattern, *, strict=false))]
    fn regex(py: Python<'_>, pattern: &str, strict: bool) -> PyResult<Self> {
        let call = Call::new(py, "regex").with(py, "pattern", pattern)?.with(py, "strict", strict)?;
        Self::parse(py, call, strict, |builder| builder.regex(pattern))
    }

    /// One of these texts, exactly.
    ///
    /// Raises:
    ///     ffwd.Error: There are no choices, or too many.
    #[staticmethod]
    #[pyo3(signature = (choices, *, strict=false))]
    fn choice(py: Python<'_>, choices: Vec<String>, strict: bool) -> PyResult<Self> {
        let call = Call::new(py, "choice").with(py, "choices", &choices)?.with(py, "strict", strict)?;
        Self::parse(py, call, strict, |builder| builder.choice(choices))
    }

    /// A grammar in a subset of Lark's notation.
    ///
    /// Raises:
    ///     ffwd.Error: The grammar does not parse, is not supported, or has no text;
    ///         `line` and `column` say where.
    #[staticmethod]
    #[pyo3(signature = (grammar, *, strict=false))]
    fn lark(py: Python<'_>, grammar: &str, strict: bool) -> PyResult<Self> {
        let call = Call::new(py, "lark").with(py, "grammar", grammar)?.with(py, "strict", strict)?;
        Self::parse(py, call, strict, |builder| builder.lark(grammar))
    }

    /// A grammar in GBNF, the notation of llama.cpp and XGrammar.
    ///
    /// Raises:
    ///     ffwd.Error: As `lark`.
    #[staticmethod]
    #[pyo3(signature = (grammar, *, strict=false))]
    fn gbnf(py: Python<'_>, grammar: &str, strict: bool) -> PyResult<Self> {
        let call = Call::new(py, "gbnf").with(py, "grammar", grammar)?.with(py, "strict", strict)?;
        Self::parse(py, call, strict, |builder| builder.gbnf(grammar))
    }

    /// A grammar in GBNF if it contains `::=`, otherwise in Lark's notation.
    ///
    /// Raises:
    ///     ffwd.Error: As `lark`.
    #[staticmethod]
    #[pyo3(signature = (grammar, *, strict=false))]
    fn ebnf(py: Python<'_>, grammar: &str, strict: bool) -> PyResult<Self> {
        let call = Call::new(py, "ebnf").with(py, "grammar", grammar)?.with(py, "strict", strict)?;
        Self::parse(py, call, strict, |builder| builder.ebnf(grammar))
    }

    /// Tool calls and other structure in free text.
    ///
    /// Args:
    ///     tag: The structural tag as JSON text or dict.
    ///     whitespace, key_order: See the class; for the JSON texts inside.
    ///     closed_objects: As for `json_schema`; for the schemas inside.
    ///     strict: Raise an error for what would be a warning.
    ///
    /// Raises:
    ///     ffwd.Error: Not JSON, not a structural tag, or not supported; `pointer` says where.
    ///     ValueError: An option has another value than those listed.
    #[staticmethod]
    #[pyo3(signature = (tag, *, whitespace=None, key_order="declared", closed_objects=false,
        strict=false))]
    fn structural_tag(
        py: Python<'_>,
        tag: &Bound<'_, PyAny>,
        whitespace: Option<&Bound<'_, PyAny>>,
        key_order: &str,
        closed_objects: bool,
        strict: bool,
    ) -> PyResult<Self> {
        let text = json_text(tag)?;
        let policy = Policy { closed_objects, ..json_policy(whitespace, Some(key_order))? };
        let call = Call::new(py, "structural_tag")
            .with(py, "tag", &text)?
            .with(py, "whitespace", whitespace)?
            .with(py, "key_order", key_order)?
            .with(py, "closed_objects", closed_objects)?
            .with(py, "strict", strict)?;
        Self::parse(py, call, strict, |builder| builder.policy(policy).structural_tag(text))
    }

    /// A span of a text, byte for byte.
    ///
    /// Args:
    ///     source: The text.
    ///     bounds: `"words"`: spans begin and end at words; `"characters"`: anywhere.
    ///     min_chars: Fewest characters of a span.
    ///
    /// Raises:
    ///     ffwd.Error: The text is too long or has no such span.
    ///     ValueError: `bounds` has another value.
    #[staticmethod]
    #[pyo3(signature = (source, *, bounds="words", min_chars=1))]
    fn substring(py: Python<'_>, source: &str, bounds: &str, min_chars: i64) -> PyResult<Self> {
        let call = Call::new(py, "substring").with(py, "source", source)?.with(py, "bounds", bounds)?.with(
            py,
            "min_chars",
            min_chars,
        )?;
        let bounds = match bounds {
            "words" => Bounds::Words,
            "characters" => Bounds::Characters,
            other => return Err(unknown("bounds", other, "\"words\" or \"characters\"")),
        };
        let Ok(min_chars) = u32::try_from(min_chars) else {
            return Err(PyValueError::new_err(format!("min_chars is {min_chars}; expected 0 or more")));
        };
        let options = SubstringOptions { bounds, min_chars };
        Self::parse(py, call, false, |builder| builder.substring(source, &options))
    }

    /// What the author may not expect, such as unknown keywords.
    #[getter]
    fn warnings(&self) -> Vec<ConstraintWarning> {
        ConstraintWarning::all(self.inner.warnings())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let make = py.import("ffwd._ffwd")?.getattr("_make_constraint")?;
        (make, (self.call.method, &self.call.arguments)).into_pyobject(py)
    }
}

impl Constraint {
    fn parse(
        py: Python<'_>,
        call: Call,
        strict: bool,
        parse: impl FnOnce(ConstraintBuilder<'static>) -> ffwd_engine::Result<ffwd_engine::Constraint> + Send,
    ) -> PyResult<Self> {
        let parsed = py.detach(|| {
            let constraint = parse(ffwd_engine::Constraint::builder())?;
            if strict { constraint.strict() } else { Ok(constraint) }
        });
        Ok(Constraint { inner: parsed.for_python(py)?, call })
    }
}

fn unknown(name: &str, value: &str, expected: &str) -> PyErr {
    PyValueError::new_err(format!("{name} is {value:?}; expected {expected}"))
}

fn json_policy(whitespace: Option<&Bound<'_, PyAny>>, key_order: Option<&str>) -> PyResult<Policy> {
    let key_order = match key_order {
        None | Some("declared") => KeyOrder::Declared,
        Some("any") => KeyOrder::Any,
        Some(other) => return Err(unknown("key_order", other, "\"declared\" or \"any\"")),
    };
    let whitespace = match whitespace {
        None => Whitespace::Compact,
        Some(value) => self::whitespace(value)?,
    };
    Ok(Policy { whitespace, key_order, ..Policy::default() })
}

fn whitespace(value: &Bound<'_, PyAny>) -> PyResult<Whitespace> {
    const EXPECTED: &str = "\"compact\", \"single_space\", or a number from 1 to 64";
    if let Ok(name) = value.cast::<PyString>() {
        return match name.to_str()? {
            "compact" => Ok(Whitespace::Compact),
            "single_space" => Ok(Whitespace::SingleSpace),
            other => Err(unknown("whitespace", other, EXPECTED)),
        };
    }
    match value.extract::<u8>() {
        Ok(max @ 1..=64) => Ok(Whitespace::Flexible { max }),
        _ => Err(PyValueError::new_err(format!("whitespace is {value}; expected {EXPECTED}"))),
    }
}

/// Returns JSON text from a text, a class of pydantic, or a value of dicts and lists.
fn json_text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
        return String::from_utf8(text_bytes(value)?)
            .map_err(|_| PyValueError::new_err("the text is not UTF-8"));
    }
    let value = match value.getattr_opt("model_json_schema")? {
        Some(schema) => schema.call0()?,
        None => value.clone(),
    };
    if value.is_callable() {
        let name = value.repr()?;
        return Err(PyTypeError::new_err(format!("{name} is no schema: it has no model_json_schema")));
    }
    let options = PyDict::new(value.py());
    options.set_item("allow_nan", false)?;
    options.set_item("ensure_ascii", false)?;
    value.py().import("json")?.call_method("dumps", (value,), Some(&options))?.extract()
}
