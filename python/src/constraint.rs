//! `ffwd.Constraint`: what an output may be. Parsed here, compiled for a vocabulary by `Compiler`.
//!
//! A constraint remembers the call that made it, in plain values. This call is what `pickle` writes,
//! and how the module of the runtime, a library of its own, makes the same constraint.

use std::collections::HashMap;

use ffwd_engine::constraint::substring::{Bounds, SubstringOptions};
use ffwd_engine::constraint::token_machine::{TokenFsm, TokenMasks};
use ffwd_engine::constraint::tools::{Calls, ToolChoice, ToolStyle, Tools};
use ffwd_engine::{ConstraintBuilder, KeyOrder, Policy, Warning, Whitespace};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::constraint_source::{json_text, label_list, positions, transitions};
use crate::error::ForPython;

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
    kind: String,
    #[pyo3(get)]
    pointer: Option<String>,
    #[pyo3(get)]
    message: String,
}

impl ConstraintWarning {
    /// Returns the warnings of the engine as Python sees them.
    pub fn all(warnings: &[Warning]) -> Vec<ConstraintWarning> {
        let make = |warning: &Warning| ConstraintWarning {
            kind: warning.kind().code().into(),
            pointer: warning.pointer().map(str::to_owned),
            message: warning.message().to_owned(),
        };
        warnings.iter().map(make).collect()
    }
}

#[pymethods]
impl ConstraintWarning {
    #[new]
    #[pyo3(signature = (kind, message, pointer=None))]
    fn new(kind: String, message: String, pointer: Option<String>) -> Self {
        ConstraintWarning { kind, pointer, message }
    }

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
/// Immutable, and can be pickled. Every static method that makes one raises `ffwd.Error` with the
/// location of the fault and a hint. With `strict=True`, what would be a warning is an error.
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

/// Makes a constraint by a method and its arguments by name; `self` is there for a method of another
/// constraint.
#[pyfunction]
#[pyo3(name = "_make_constraint")]
pub fn make_constraint<'py>(
    method: &Bound<'py, PyString>,
    arguments: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let method = method.py().get_type::<Constraint>().getattr(method)?;
    match arguments.get_item("self")? {
        None => method.call((), Some(arguments)),
        Some(this) => {
            let others = arguments.copy()?;
            others.del_item("self")?;
            method.call((this,), Some(&others))
        }
    }
}

#[pymethods]
impl Constraint {
    /// Any JSON value that is valid against a JSON Schema.
    ///
    /// Args:
    ///     schema: JSON text, a dict or bool, a class of pydantic, or a `TypeAdapter`. With pydantic
    ///         installed also a dataclass, a TypedDict, or any other type, such as `list[int]`.
    ///     whitespace, key_order: See the class.
    ///     exponent: Permit exponents in numbers.
    ///     equal_numbers: Permit every text that equals a number of `enum` or `const`.
    ///     closed_objects: Permit declared properties only, where some are declared.
    ///     documents: Further JSON documents for `$ref`: from URI to JSON text.
    ///     source: The text that strings with `"x-verbatim": true` copy a span of.
    ///     bounds: Where such spans begin and end: `"words"` or `"characters"`.
    ///     strict: Raise an error for what would be a warning.
    ///
    /// Raises:
    ///     ffwd.Error: Not JSON, not a schema, not supported, or satisfied by nothing; `pointer`
    ///         says where.
    ///     ValueError: An option has another value than those listed.
    #[staticmethod]
    #[pyo3(signature = (schema, *, whitespace=None, key_order="declared", exponent=false,
        equal_numbers=false, closed_objects=false, documents=None, source=None, bounds="words",
        strict=false))]
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
        source: Option<String>,
        bounds: &str,
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
            .with(py, "source", &source)?
            .with(py, "bounds", bounds)?
            .with(py, "strict", strict)?;
        let options = SubstringOptions { bounds: self::bounds(bounds)?, min_chars: 1 };
        Self::parse(py, call, strict, |mut builder| {
            builder = builder.policy(policy);
            for (uri, document) in documents {
                builder = builder.document(&uri, document);
            }
            if let Some(source) = source {
                builder = builder.source(source, &options);
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
        let bounds = self::bounds(bounds)?;
        let Ok(min_chars) = u32::try_from(min_chars) else {
            return Err(PyValueError::new_err(format!("min_chars is {min_chars}; expected 0 or more")));
        };
        let options = SubstringOptions { bounds, min_chars };
        Self::parse(py, call, false, |builder| builder.substring(source, &options))
    }

    /// An element pattern: character classes and literals with quantifiers, such as
    /// `UPPER+ ':' ' ' LOWER+`.
    ///
    /// Raises:
    ///     ffwd.Error: The pattern does not parse; `line` and `column` say where.
    #[staticmethod]
    #[pyo3(signature = (text, *, strict=false))]
    fn pattern(py: Python<'_>, text: &str, strict: bool) -> PyResult<Self> {
        let call = Call::new(py, "pattern").with(py, "text", text)?.with(py, "strict", strict)?;
        Self::parse(py, call, strict, |builder| builder.pattern(text))
    }

    /// One label of a list or taxonomy, or several, each in the tokens in which it follows a prompt.
    /// So the probability of a label is the product along one sequence of tokens.
    ///
    /// Args:
    ///     labels: The labels, or a tree of dicts and lists, whose paths are the labels.
    ///     lead: The text before the first label: `"auto"` (a space if the tokenizer can write one),
    ///         `"space"` or `"nothing"`.
    ///     path_separator: The text between the parts of a path. Default: labels are not paths; in a
    ///         tree ` > `.
    ///     levels: The parts of a hierarchy that are labels: `"listed"`, `"leaves"` or `"all"`.
    ///     separator: Permits several labels, with this text between two of them.
    ///     at_least: Fewest labels, with `separator`.
    ///     at_most: Most labels, with `separator`.
    ///     repeats: Permits a label more than once, with `separator`.
    ///
    /// Raises:
    ///     ffwd.Error: A tree has other values than dicts, lists, strings and None. The labels
    ///         themselves are checked by `Compiler.compile`.
    ///     ValueError: An option has another value than those listed.
    #[staticmethod]
    #[pyo3(signature = (labels, *, lead="auto", path_separator=None, levels="listed", separator=None,
        at_least=1, at_most=None, repeats=false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn labels(
        py: Python<'_>,
        labels: &Bound<'_, PyAny>,
        lead: &str,
        path_separator: Option<&str>,
        levels: &str,
        separator: Option<&str>,
        at_least: u32,
        at_most: Option<u32>,
        repeats: bool,
    ) -> PyResult<Self> {
        let (mut list, plain) = label_list(labels, lead, path_separator, levels)?;
        let call = Call::new(py, "labels")
            .with(py, "labels", plain)?
            .with(py, "lead", lead)?
            .with(py, "path_separator", path_separator)?
            .with(py, "levels", levels)?
            .with(py, "separator", separator)?
            .with(py, "at_least", at_least)?
            .with(py, "at_most", at_most)?
            .with(py, "repeats", repeats)?;
        if let Some(separator) = separator {
            list = list.several(separator).at_least(at_least);
            if let Some(most) = at_most {
                list = list.at_most(most);
            }
            if repeats {
                list = list.with_repeats();
            }
        }
        Ok(Constraint { inner: ffwd_engine::Constraint::labels(&list), call })
    }

    /// A set of tokens for each position of the output.
    ///
    /// Args:
    ///     positions: For each position the ids, or one id.
    ///     at_least: Fewest repetitions of the list of positions.
    ///     at_most: Most repetitions; default `at_least`.
    ///     unbounded: Any number of repetitions from `at_least` on, instead of `at_most`.
    ///
    /// Raises:
    ///     ffwd.Error: There are no positions, or one has no tokens.
    ///     ValueError: An id is negative or too large.
    #[staticmethod]
    #[pyo3(signature = (positions, *, at_least=1, at_most=None, unbounded=false))]
    fn token_masks(
        py: Python<'_>,
        positions: &Bound<'_, PyAny>,
        at_least: u32,
        at_most: Option<u32>,
        unbounded: bool,
    ) -> PyResult<Self> {
        let positions = self::positions(positions)?;
        let call = Call::new(py, "token_masks")
            .with(py, "positions", &positions)?
            .with(py, "at_least", at_least)?
            .with(py, "at_most", at_most)?
            .with(py, "unbounded", unbounded)?;
        let most = (!unbounded).then_some(at_most.unwrap_or(at_least));
        let masks = TokenMasks::new(positions).repeat(at_least, most);
        Ok(Constraint { inner: ffwd_engine::Constraint::token_masks(&masks).for_python(py)?, call })
    }

    /// The sequences of tokens that a machine over tokens accepts. `Compiler.compile` checks it.
    ///
    /// Args:
    ///     transitions: Triples `(state, ids, next_state)`; `ids` is an id or several.
    ///     accept: The states in which the output may end.
    ///     start: The first state.
    ///     names: Names of states, for errors and explanations.
    ///
    /// Raises:
    ///     ValueError: A state or an id is negative or too large.
    #[staticmethod]
    #[pyo3(signature = (transitions, *, accept, start=0, names=None))]
    fn token_fsm(
        py: Python<'_>,
        transitions: &Bound<'_, PyAny>,
        accept: Vec<u32>,
        start: u32,
        names: Option<HashMap<u32, String>>,
    ) -> PyResult<Self> {
        let transitions = self::transitions(transitions)?;
        let call = Call::new(py, "token_fsm")
            .with(py, "transitions", &transitions)?
            .with(py, "accept", &accept)?
            .with(py, "start", start)?
            .with(py, "names", &names)?;
        let mut fsm = TokenFsm::new();
        for (from, ids, to) in transitions {
            fsm.add_transition(from, ids, to);
        }
        fsm.start_in(start);
        for state in accept {
            fsm.accept(state);
        }
        for (state, name) in names.into_iter().flatten() {
            fsm.name(state, name);
        }
        Ok(Constraint { inner: ffwd_engine::Constraint::token_fsm(&fsm), call })
    }

    /// A reply that calls functions, in the form in which a model writes calls.
    ///
    /// Args:
    ///     tools: The functions, as in a request of OpenAI's API: JSON text, or a list of dicts.
    ///     style: The form: `"hermes"`, `"llama"`, `"mistral"`, `"mistral-args"`, `"qwen-coder"`,
    ///         `"minimax"`, `"deepseek"`, `"deepseek-dsml"`, `"glm"`, `"kimi"`, `"harmony"` or
    ///         `"function-tag"`.
    ///     choice: `"auto"` (free text in which calls may occur), `"required"` (at least one call and
    ///         nothing else), or the name of the one function to call.
    ///     single: Permit at most one call.
    ///     whitespace, key_order: See the class; for the arguments.
    ///     strict: Raise an error for what would be a warning.
    ///
    /// Raises:
    ///     ffwd.Error: Not a list of functions, a fault in one of their schemas, or an unknown style
    ///         or function; `pointer` says where in the list.
    #[staticmethod]
    #[pyo3(signature = (tools, style, *, choice="auto", single=false, whitespace=None,
        key_order="declared", strict=false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn tools(
        py: Python<'_>,
        tools: &Bound<'_, PyAny>,
        style: &str,
        choice: &str,
        single: bool,
        whitespace: Option<&Bound<'_, PyAny>>,
        key_order: &str,
        strict: bool,
    ) -> PyResult<Self> {
        let text = json_text(tools)?;
        let policy = json_policy(whitespace, Some(key_order))?;
        let call = Call::new(py, "tools")
            .with(py, "tools", &text)?
            .with(py, "style", style)?
            .with(py, "choice", choice)?
            .with(py, "single", single)?
            .with(py, "whitespace", whitespace)?
            .with(py, "key_order", key_order)?
            .with(py, "strict", strict)?;
        let calls = match choice {
            "auto" => Calls::Auto,
            "required" => Calls::Required,
            name => Calls::Function(name.to_owned()),
        };
        let parsed = py.detach(|| {
            let style = ToolStyle::by_name(style)?;
            let constraint = Tools::parse(&text)?.constraint(style, &ToolChoice { calls, single }, policy)?;
            if strict { constraint.strict() } else { Ok(constraint) }
        });
        Ok(Constraint { inner: parsed.for_python(py)?, call })
    }

    /// Returns the constraint of a text of this one, followed by a text of `other`. Also `a + b`.
    ///
    /// Raises:
    ///     ffwd.Error: Both have JSON values with different options, or one is over tokens.
    fn then(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<Self> {
        let made = slf.get().inner.then(&other.get().inner);
        Self::combined(slf, "then", [("other", other.as_any())], made)
    }

    /// Returns the constraint of a text of this one, or of `other`. Also `a | b`.
    ///
    /// Raises:
    ///     ffwd.Error: As `then`.
    fn or_else(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<Self> {
        let made = slf.get().inner.or(&other.get().inner);
        Self::combined(slf, "or_else", [("other", other.as_any())], made)
    }

    /// Returns the constraint of the texts that satisfy both. Also `a & b`.
    ///
    /// Raises:
    ///     ffwd.Error: One of them has JSON values or rules, or no text satisfies both.
    fn and_also(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<Self> {
        let (left, right) = (&slf.get().inner, &other.get().inner);
        let made = slf.py().detach(|| left.and(right));
        Self::combined(slf, "and_also", [("other", other.as_any())], made)
    }

    /// Returns the constraint of the texts that do not satisfy this one. Also `~a`.
    ///
    /// Raises:
    ///     ffwd.Error: It has JSON values or rules, or every text satisfies it.
    fn negated(slf: &Bound<'_, Self>) -> PyResult<Self> {
        let inner = &slf.get().inner;
        let made = slf.py().detach(|| inner.not());
        Self::combined(slf, "negated", [], made)
    }

    /// Returns the constraint of any text up to the first `marker`, the marker, and then a text of
    /// this one: for answers after thinking.
    ///
    /// Raises:
    ///     ffwd.Error: The marker is empty, or this constraint has one already.
    fn after_marker(slf: &Bound<'_, Self>, marker: &str) -> PyResult<Self> {
        let inner = &slf.get().inner;
        let made = slf.py().detach(|| inner.behind_marker(marker));
        let text = PyString::new(slf.py(), marker);
        Self::combined(slf, "after_marker", [("marker", text.as_any())], made)
    }

    fn __add__(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<Self> {
        Self::then(slf, other)
    }

    fn __or__(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<Self> {
        Self::or_else(slf, other)
    }

    fn __and__(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<Self> {
        Self::and_also(slf, other)
    }

    fn __invert__(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::negated(slf)
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
    /// A constraint made from another one by a method of it.
    fn combined<const N: usize>(
        this: &Bound<'_, Self>,
        method: &'static str,
        arguments: [(&str, &Bound<'_, PyAny>); N],
        made: ffwd_engine::Result<ffwd_engine::Constraint>,
    ) -> PyResult<Self> {
        let py = this.py();
        let mut call = Call::new(py, method).with(py, "self", this)?;
        for (name, value) in arguments {
            call = call.with(py, name, value)?;
        }
        Ok(Constraint { inner: made.for_python(py)?, call })
    }

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

/// Makes the exception for an option with another value than those expected.
pub fn unknown(name: &str, value: &str, expected: &str) -> PyErr {
    PyValueError::new_err(format!("{name} is {value:?}; expected {expected}"))
}

fn bounds(name: &str) -> PyResult<Bounds> {
    match name {
        "words" => Ok(Bounds::Words),
        "characters" => Ok(Bounds::Characters),
        other => Err(unknown("bounds", other, "\"words\" or \"characters\"")),
    }
}

/// Returns the policy of JSON texts.
///
/// # Errors
/// `ValueError` for unknown values.
pub fn json_policy(whitespace: Option<&Bound<'_, PyAny>>, key_order: Option<&str>) -> PyResult<Policy> {
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
