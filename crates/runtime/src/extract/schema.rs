//! The JSON Schema of an extraction, read once.
//!
//! The engine reads the schema for the constraint, and `serde_json` for the prompt, which shows it
//! with its titles and descriptions. Neither needs a model, so a faulty schema fails before one is
//! loaded.
//!
//! # Cost
//! Each of both reads the text once. A schema with strings that are spans of the text
//! (`x-verbatim`) has a constraint for each text, so the engine reads it once for each.
//!
//! # Alternatives considered
//! One document for both was rejected: the engine leaves out annotations and keeps numbers as
//! texts, and the prompt needs the former and `serde_json`'s form of the latter.

use ffwd_engine::text::without_mark;
use serde_json::Value;

use super::nuextract;
use super::prompt_form::PromptForm;
use super::quote_strings::quote_free_strings;
use crate::constraint::substring::SubstringOptions;
use crate::constraint::{Constraint, ConstraintBuilder, KeyOrder, Policy, Whitespace};
use crate::error::{Error, ErrorKind, Result};
use crate::matcher::{Compiler, Verdict};
use crate::{Warning, WarningKind};

/// What a schema is read with.
#[derive(Debug, Clone, Default)]
pub struct SchemaOptions {
    /// How keywords that the engine does not know are treated.
    pub policy: Policy,
    /// Documents that `$ref` may name, by their URIs.
    pub documents: Vec<(String, String)>,
    /// Where strings that are spans of the text begin and end.
    pub spans: SubstringOptions,
    /// True if all free strings are spans of the text.
    pub verbatim: bool,
    /// The form of the prompt; `None`: that of the model's chat template.
    pub form: Option<PromptForm>,
}

/// A schema that was read.
#[derive(Debug, Clone)]
pub struct ExtractionSchema {
    /// The schema as the engine reads it.
    pub text: String,
    /// The options with which it was read.
    pub options: SchemaOptions,
    /// The constraint, if it is the same for all texts.
    pub shared: Option<Constraint>,
}

impl ExtractionSchema {
    /// Reads a schema (JSON text), and returns it with its value for the prompt. With a form whose schema is
    /// a template, it may be a template.
    ///
    /// # Errors
    /// Fails if the schema is not JSON, not supported or cannot be satisfied.
    pub fn read(text: &str, options: SchemaOptions) -> Result<(Self, Value)> {
        let text = without_mark(text);
        let given: Value = serde_json::from_str(text).map_err(|e| not_json(text, &options, &e))?;
        let is_template =
            options.form.is_some_and(PromptForm::takes_templates) && !nuextract::is_schema(&given);
        let value = if is_template { nuextract::to_schema(&given)? } else { given.clone() };
        let mut quoting = value.clone();
        if options.verbatim {
            quote_free_strings(&mut quoting);
        }
        let text = if quoting == given { text.to_owned() } else { quoting.to_string() };
        let mut schema = ExtractionSchema { text, options, shared: None };
        if !is_quoting(&quoting) {
            schema.shared = Some(schema.constraint(None)?);
        } else if !is_quoting(&value) {
            // The option alone needs a text: other faults are found without one.
            let without = schema.with_documents().policy(schema.options.policy.clone());
            let faults = without.json_schema(value.to_string()).err();
            faults.filter(|e| e.kind() != ErrorKind::Unsatisfiable).map_or(Ok(()), Err)?;
        }
        // The part of a document that is the schema, if that is not all of it.
        let unwrapped = schema.warnings().iter().find(|w| w.kind() == WarningKind::Unwrapped);
        let inner = unwrapped.and_then(|warning| value.pointer(warning.pointer()?)).cloned();
        Ok((schema, inner.unwrap_or(value)))
    }

    /// Returns the warnings, if they are the same for all texts.
    pub fn warnings(&self) -> &[Warning] {
        self.shared.as_ref().map_or(&[], Constraint::warnings)
    }

    /// Returns the constraint for a text.
    ///
    /// # Errors
    /// As [`ConstraintBuilder::json_schema`].
    pub fn constraint(&self, text: Option<&str>) -> Result<Constraint> {
        self.read_with(&self.options.policy, text)
            .map_err(|e| self.hinted(e, || self.read_with(&self.open_policy(), text).is_ok()))
    }

    /// Returns the constraint for all texts if objects are open.
    ///
    /// # Errors
    /// As [`constraint`](Self::constraint).
    pub fn with_open_objects(&self) -> Result<Constraint> {
        self.read_with(&self.open_policy(), None)
    }

    fn read_with(&self, policy: &Policy, text: Option<&str>) -> Result<Constraint> {
        let builder = self.with_documents().policy(policy.clone());
        match text {
            Some(text) => builder.source(without_mark(text), &self.options.spans).json_schema(&self.text),
            None => builder.json_schema(&self.text),
        }
    }

    /// Returns where a record breaks the schema, if it does. It may have white space, properties any
    /// order, and numbers any form; strings that are spans may be anywhere in `source`.
    pub(super) fn fault(&self, compiler: &Compiler, source: &str, record: &str) -> Result<Option<Fault>> {
        let policy = Policy {
            whitespace: Whitespace::Flexible { max: u8::MAX },
            key_order: KeyOrder::Any,
            exponent: true,
            equal_numbers: true,
            ..self.options.policy.clone()
        };
        let builder = self.with_documents().policy(policy).source(source, &SubstringOptions::default());
        let grammar = compiler.compile(&builder.json_schema(&self.text)?)?;
        let found = grammar.matcher().explain_bytes(record.as_bytes());
        if found.verdict == Verdict::Legal && found.may_end {
            return Ok(None);
        }
        let rest =
            String::from_utf8_lossy(&record.as_bytes()[found.fits..]).chars().take(40).collect::<String>();
        let what = match found.verdict {
            Verdict::Legal => "is not complete".to_owned(),
            _ => format!("does not fit the schema from `{rest}` on"),
        };
        Ok(Some(Fault { pointer: found.path, what }))
    }

    fn open_policy(&self) -> Policy {
        Policy { closed_objects: false, ..self.options.policy.clone() }
    }

    /// Adds a hint to the error of a schema that can only be satisfied with open objects.
    pub fn hinted(&self, error: Error, opens: impl Fn() -> bool) -> Error {
        match error.kind() == ErrorKind::Unsatisfiable && self.options.policy.closed_objects && opens() {
            true => error
                .hint("objects are closed here; with open ones the schema can be satisfied (--open-objects)"),
            false => error,
        }
    }

    /// Returns a builder of constraints with the supplied documents.
    pub fn with_documents(&self) -> ConstraintBuilder<'_> {
        self.options.builder()
    }
}

/// Where and how a record breaks a schema.
pub(super) struct Fault {
    pub pointer: String,
    pub what: String,
}

impl SchemaOptions {
    fn builder(&self) -> ConstraintBuilder<'_> {
        let documents = self.documents.iter();
        documents.fold(Constraint::builder(), |builder, (uri, text)| builder.document(uri, text.as_str()))
    }
}

/// Returns the error of a text that is not JSON: the engine's, which has a line and a hint.
fn not_json(text: &str, options: &SchemaOptions, error: &serde_json::Error) -> Error {
    match options.builder().json_schema(text) {
        Err(engine) if engine.kind() == ErrorKind::InvalidJson => {
            let named = Error::new(engine.kind(), format!("the schema is {}", engine.message()));
            let placed = engine.places().iter().fold(named, |error, place| error.at(place.clone()));
            engine.hint_text().into_iter().fold(placed, |error, hint| error.hint(hint))
        }
        Err(engine) => engine,
        Ok(_) => Error::new(ErrorKind::InvalidJson, format!("the schema: {error}")),
    }
}

/// Returns true if a schema has strings that are spans of the text, so that each text has its own
/// constraint.
fn is_quoting(schema: &Value) -> bool {
    let mut todo = vec![schema];
    while let Some(value) = todo.pop() {
        match value {
            Value::Array(list) => todo.extend(list),
            Value::Object(members) if members.get("x-verbatim") == Some(&Value::Bool(true)) => return true,
            Value::Object(members) => todo.extend(members.values()),
            _ => {}
        }
    }
    false
}
