//! `ffwd.Constraint`: what an output may be. Parsed here, compiled for a vocabulary by `Compiler`.
//!
//! A constraint remembers the call that made it, in plain values. This call is what `pickle` writes,
//! and how the module of the runtime, a library of its own, makes the same constraint.

use ffwd_engine::constraint::options::{ConstraintOptions, Machine};
use ffwd_engine::{ConstraintBuilder, Warning};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use pythonize::pythonize;

use crate::constraint_source::{json_text, label_list, positions, transitions};
use crate::error::ForPython;
use crate::options::{Kwargs, read_known};

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
///         largest number of whitespace bytes at each position, 1 to 64 (`"compact"`).
///     key_order: `"declared"` (the order of the schema) or `"any"` (`"declared"`).
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
    /// Reads the options of a call of a method, and keeps them with their defaults.
    fn read(
        py: Python<'_>,
        method: &'static str,
        given: Option<&Kwargs<'_>>,
    ) -> PyResult<(ConstraintOptions, Self)> {
        // The style of tools is an argument of its own.
        let names = ConstraintOptions::names_of(method).into_iter().flatten().filter(|name| *name != "style");
        let names: Vec<&str> = names.collect();
        let restricted = |options: &ConstraintOptions| -> PyResult<_> {
            let (all, some) = (pythonize(py, options)?, PyDict::new(py));
            names.iter().try_for_each(|name| some.set_item(name, all.get_item(name)?))?;
            Ok(some)
        };
        let defaults = restricted(&ConstraintOptions::default())?;
        let options = given.map_or_else(|| Ok(Default::default()), |given| read_known(given, &defaults))?;
        let arguments = restricted(&options)?.unbind();
        Ok((options, Call { method, arguments }))
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
    ///     exponent: Permit exponents in numbers (False).
    ///     equal_numbers: Permit every text that equals a number of `enum` or `const` (False).
    ///     closed_objects: Permit declared properties only, where some are declared (False).
    ///     documents: Further JSON documents for `$ref`: from URI to JSON text.
    ///     source: The text that strings with `"x-verbatim": true` copy a span of.
    ///     bounds: Where such spans begin and end: `"words"` or `"characters"` (`"words"`).
    ///     strict: Raise an error for what would be a warning (False).
    ///
    /// Raises:
    ///     ffwd.Error: Not JSON, not a schema, not supported, or satisfied by nothing; `pointer`
    ///         says where.
    ///     ValueError: An option has another value than those listed.
    #[staticmethod]
    #[pyo3(signature = (schema, **options))]
    fn json_schema(
        py: Python<'_>,
        schema: &Bound<'_, PyAny>,
        options: Option<&Kwargs<'_>>,
    ) -> PyResult<Self> {
        let (options, call) = Call::read(py, "json_schema", options)?;
        let text = json_text(schema)?;
        let call = call.with(py, "schema", &text)?;
        Self::with_options(py, call, text, options)
    }

    /// Any JSON object, nested to any depth.
    ///
    /// Args:
    ///     whitespace: See the class.
    #[staticmethod]
    #[pyo3(signature = (**options))]
    fn json_object(py: Python<'_>, options: Option<&Kwargs<'_>>) -> PyResult<Self> {
        let (options, call) = Call::read(py, "json_object", options)?;
        Self::with_options(py, call, String::new(), options)
    }

    /// A regular expression that the whole output matches. Anchors are implied.
    ///
    /// Raises:
    ///     ffwd.Error: The pattern does not parse or is too large; `line` and `column` say where.
    #[staticmethod]
    #[pyo3(signature = (pattern, *, strict=false))]
    fn regex(py: Python<'_>, pattern: String, strict: bool) -> PyResult<Self> {
        Self::of_text(py, ("regex", "pattern"), pattern, strict, ConstraintBuilder::regex)
    }

    /// One of these texts, exactly.
    ///
    /// Raises:
    ///     ffwd.Error: There are no choices, or too many.
    #[staticmethod]
    #[pyo3(signature = (choices, *, strict=false))]
    fn choice(py: Python<'_>, choices: Vec<String>, strict: bool) -> PyResult<Self> {
        Self::of_text(py, ("choice", "choices"), choices, strict, ConstraintBuilder::choice)
    }

    /// A grammar in a subset of Lark's notation.
    ///
    /// Raises:
    ///     ffwd.Error: The grammar does not parse, is not supported, or has no text;
    ///         `line` and `column` say where.
    #[staticmethod]
    #[pyo3(signature = (grammar, *, strict=false))]
    fn lark(py: Python<'_>, grammar: String, strict: bool) -> PyResult<Self> {
        Self::of_text(py, ("lark", "grammar"), grammar, strict, ConstraintBuilder::lark)
    }

    /// A grammar in GBNF, the notation of llama.cpp and XGrammar.
    ///
    /// Raises:
    ///     ffwd.Error: As `lark`.
    #[staticmethod]
    #[pyo3(signature = (grammar, *, strict=false))]
    fn gbnf(py: Python<'_>, grammar: String, strict: bool) -> PyResult<Self> {
        Self::of_text(py, ("gbnf", "grammar"), grammar, strict, ConstraintBuilder::gbnf)
    }

    /// A grammar in GBNF if it contains `::=`, otherwise in Lark's notation.
    ///
    /// Raises:
    ///     ffwd.Error: As `lark`.
    #[staticmethod]
    #[pyo3(signature = (grammar, *, strict=false))]
    fn ebnf(py: Python<'_>, grammar: String, strict: bool) -> PyResult<Self> {
        Self::of_text(py, ("ebnf", "grammar"), grammar, strict, ConstraintBuilder::ebnf)
    }

    /// Tool calls and other structure in free text.
    ///
    /// Args:
    ///     tag: The structural tag as JSON text or dict.
    ///     whitespace, key_order: See the class; for the JSON texts inside.
    ///     closed_objects: As for `json_schema`; for the schemas inside (False).
    ///     strict: Raise an error for what would be a warning (False).
    ///
    /// Raises:
    ///     ffwd.Error: Not JSON, not a structural tag, or not supported; `pointer` says where.
    ///     ValueError: An option has another value than those listed.
    #[staticmethod]
    #[pyo3(signature = (tag, **options))]
    fn structural_tag(
        py: Python<'_>,
        tag: &Bound<'_, PyAny>,
        options: Option<&Kwargs<'_>>,
    ) -> PyResult<Self> {
        let (options, call) = Call::read(py, "structural_tag", options)?;
        let text = json_text(tag)?;
        let call = call.with(py, "tag", &text)?;
        Self::with_options(py, call, text, options)
    }

    /// A span of a text, byte for byte.
    ///
    /// Args:
    ///     source: The text.
    ///     bounds: `"words"`: spans begin and end at words (the default); `"characters"`: anywhere.
    ///     min_chars: Fewest characters of a span (1).
    ///
    /// Raises:
    ///     ffwd.Error: The text is too long or has no such span.
    ///     ValueError: `bounds` has another value.
    #[staticmethod]
    #[pyo3(signature = (source, **options))]
    fn substring(py: Python<'_>, source: String, options: Option<&Kwargs<'_>>) -> PyResult<Self> {
        let (options, call) = Call::read(py, "substring", options)?;
        let call = call.with(py, "source", &source)?;
        Self::with_options(py, call, source, options)
    }

    /// An element pattern: character classes and literals with quantifiers, such as
    /// `UPPER+ ':' ' ' LOWER+`.
    ///
    /// Raises:
    ///     ffwd.Error: The pattern does not parse; `line` and `column` say where.
    #[staticmethod]
    #[pyo3(signature = (text, *, strict=false))]
    fn pattern(py: Python<'_>, text: String, strict: bool) -> PyResult<Self> {
        Self::of_text(py, ("pattern", "text"), text, strict, ConstraintBuilder::pattern)
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
    ///     levels: The parts of a hierarchy that are labels: `"listed"`, `"leaves"` or `"all"`
    ///         (`"listed"`).
    ///     separator: Permits several labels, with this text between two of them.
    ///     at_least: Fewest labels, with `separator` (1).
    ///     at_most: Most labels, with `separator` (None, which is any number).
    ///     repeats: Permits a label more than once, with `separator` (False).
    ///
    /// Raises:
    ///     ffwd.Error: A tree has other values than dicts, lists, strings and None. The labels
    ///         themselves are checked by `Compiler.compile`.
    ///     ValueError: An option has another value than those listed.
    #[staticmethod]
    #[pyo3(signature = (labels, **options))]
    fn labels(py: Python<'_>, labels: &Bound<'_, PyAny>, options: Option<&Kwargs<'_>>) -> PyResult<Self> {
        let (options, call) = Call::read(py, "labels", options)?;
        let (list, plain) = label_list(labels, &options)?;
        let call = call.with(py, "labels", plain)?;
        Ok(Constraint { inner: ffwd_engine::Constraint::labels(&list), call })
    }

    /// A set of tokens for each position of the output.
    ///
    /// Args:
    ///     positions: For each position the ids, or one id.
    ///     at_least: Fewest repetitions of the list of positions (1).
    ///     at_most: Most repetitions; default `at_least`.
    ///     unbounded: Any number of repetitions from `at_least` on, instead of `at_most`
    ///         (False).
    ///
    /// Raises:
    ///     ffwd.Error: There are no positions, or one has no tokens.
    ///     ValueError: An id is negative or too large.
    #[staticmethod]
    #[pyo3(signature = (positions, **options))]
    fn token_masks(
        py: Python<'_>,
        positions: &Bound<'_, PyAny>,
        options: Option<&Kwargs<'_>>,
    ) -> PyResult<Self> {
        let (options, call) = Call::read(py, "token_masks", options)?;
        let positions = self::positions(positions)?;
        let call = call.with(py, "positions", &positions)?;
        Ok(Constraint { inner: options.token_masks(positions).for_python(py)?, call })
    }

    /// The sequences of tokens that a machine over tokens accepts. `Compiler.compile` checks it.
    ///
    /// Args:
    ///     transitions: Triples `(state, ids, next_state)`; `ids` is an id or several.
    ///     accept: The states in which the output may end.
    ///     start: The first state (0).
    ///     names: Names of states, for errors and explanations.
    ///
    /// Raises:
    ///     ValueError: A state or an id is negative or too large.
    #[staticmethod]
    #[pyo3(signature = (transitions, *, accept, **options))]
    fn token_fsm(
        py: Python<'_>,
        transitions: &Bound<'_, PyAny>,
        accept: Vec<u32>,
        options: Option<&Kwargs<'_>>,
    ) -> PyResult<Self> {
        let (options, call) = Call::read(py, "token_fsm", options)?;
        let transitions = self::transitions(transitions)?;
        let call = call.with(py, "transitions", &transitions)?.with(py, "accept", &accept)?;
        Ok(Constraint { inner: options.token_fsm(Machine { transitions, accept }), call })
    }

    /// A reply that calls functions, in the form in which a model writes calls.
    ///
    /// Args:
    ///     tools: The functions, as in a request of OpenAI's API: JSON text, or a list of dicts.
    ///     style: The form: `"hermes"`, `"llama"`, `"mistral"`, `"mistral-args"`, `"qwen-coder"`,
    ///         `"minimax"`, `"deepseek"`, `"deepseek-dsml"`, `"glm"`, `"kimi"`, `"harmony"`,
    ///         `"function-tag"` or `"lfm2"`.
    ///     choice: `"auto"` (free text in which calls may occur), `"required"` (at least one call and
    ///         nothing else), or the name of the one function to call.
    ///     single: Permit at most one call (False).
    ///     whitespace, key_order: See the class; for the arguments.
    ///     strict: Raise an error for what would be a warning (False).
    ///
    /// Raises:
    ///     ffwd.Error: Not a list of functions, a fault in one of their schemas, or an unknown style
    ///         or function; `pointer` says where in the list.
    #[staticmethod]
    #[pyo3(signature = (tools, style, **options))]
    fn tools(
        py: Python<'_>,
        tools: &Bound<'_, PyAny>,
        style: &str,
        options: Option<&Kwargs<'_>>,
    ) -> PyResult<Self> {
        let (mut options, call) = Call::read(py, "tools", options)?;
        let text = json_text(tools)?;
        let call = call.with(py, "tools", &text)?.with(py, "style", style)?;
        options.style = Some(style.to_owned());
        Self::with_options(py, call, text, options)
    }

    /// Returns the constraint of a text of this one, followed by a text of `other`. Also `a + b`.
    ///
    /// Raises:
    ///     ffwd.Error: Both have JSON values with different options, or one is over tokens.
    fn then(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<Self> {
        let made = slf.get().inner.then(&other.get().inner);
        Self::combined(slf, "then", Some(("other", other.as_any())), made)
    }

    /// Returns the constraint of a text of this one, or of `other`. Also `a | b`.
    ///
    /// Raises:
    ///     ffwd.Error: As `then`.
    fn or_else(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<Self> {
        let made = slf.get().inner.or(&other.get().inner);
        Self::combined(slf, "or_else", Some(("other", other.as_any())), made)
    }

    /// Returns the constraint of the texts that satisfy both. Also `a & b`.
    ///
    /// Raises:
    ///     ffwd.Error: One of them has JSON values or rules, or no text satisfies both.
    fn and_also(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<Self> {
        let (left, right) = (&slf.get().inner, &other.get().inner);
        let made = slf.py().detach(|| left.and(right));
        Self::combined(slf, "and_also", Some(("other", other.as_any())), made)
    }

    /// Returns the constraint of the texts that do not satisfy this one. Also `~a`.
    ///
    /// Raises:
    ///     ffwd.Error: It has JSON values or rules, or every text satisfies it.
    fn negated(slf: &Bound<'_, Self>) -> PyResult<Self> {
        let inner = &slf.get().inner;
        let made = slf.py().detach(|| inner.not());
        Self::combined(slf, "negated", None, made)
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
        Self::combined(slf, "after_marker", Some(("marker", text.as_any())), made)
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
    fn combined(
        this: &Bound<'_, Self>,
        method: &'static str,
        argument: Option<(&str, &Bound<'_, PyAny>)>,
        made: ffwd_engine::Result<ffwd_engine::Constraint>,
    ) -> PyResult<Self> {
        let py = this.py();
        let mut call = Call { method, arguments: PyDict::new(py).unbind() }.with(py, "self", this)?;
        if let Some((name, value)) = argument {
            call = call.with(py, name, value)?;
        }
        Ok(Constraint { inner: made.for_python(py)?, call })
    }

    /// A constraint that `parse` makes of one argument, which has `name` in the method.
    fn of_text<'py, A: Clone + IntoPyObject<'py> + Send>(
        py: Python<'py>,
        (method, name): (&'static str, &str),
        argument: A,
        strict: bool,
        parse: fn(ConstraintBuilder<'static>, A) -> ffwd_engine::Result<ffwd_engine::Constraint>,
    ) -> PyResult<Self> {
        let call = Call { method, arguments: PyDict::new(py).unbind() };
        let call = call.with(py, name, argument.clone())?.with(py, "strict", strict)?;
        Self::parse(py, call, strict, |builder| parse(builder, argument))
    }

    /// The constraint of the kind that has the name of the method.
    fn with_options(py: Python<'_>, call: Call, text: String, options: ConstraintOptions) -> PyResult<Self> {
        let made = py.detach(|| ffwd_engine::Constraint::with_options(call.method, &text, options));
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
