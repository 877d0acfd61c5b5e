//! An extractor: one schema made ready for one model, for any number of texts.
//!
//! # Cost
//! Building one parses and compiles the schema. A request copies the prompt, and shares the
//! compiled schema unless it has strings that are spans of the text (`x-verbatim`).
//!
//! # Alternatives considered
//! A function from schema and text to a request was rejected. It knows no model, so it can only
//! use the wording of one of them, and it parses the schema for each text.

use std::sync::Arc;

use ffwd_engine::text::without_mark;
use serde_json::{Map, Value};

use super::check_text;
use super::chunks::{Chunk, ChunkOptions, chunks};
use super::example::Example;
use super::json_style::to_text;
use super::notes::notes;
use super::outline::outline;
use super::prompt_form::PromptForm;
use super::schema::{ExtractionSchema, SchemaOptions};
use super::support;
use super::wording::{Values, Wording};
use crate::Warning;
use crate::chat::ChatTemplate;
use crate::constraint::substring::SubstringOptions;
use crate::constraint::{Constraint, Policy, Whitespace};
use crate::decode::{Engine, Prompt, Request};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::matcher::CompiledGrammar;
use crate::vocab::Vocabulary;

/// A schema made ready for the extraction of records by one model. `Send` and `Sync`, and
/// independent of the lifetime of the engine.
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// use ffwd::Engine;
/// use ffwd::extract::{self, Extractor};
///
/// # fn main() -> ffwd::Result<()> {
/// let engine = Engine::embedded()?;
/// let schema = r#"{"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}"#;
/// let extractor = Extractor::new(&engine, schema)?;
/// for text in ["Total: 12.50 EUR", "To pay: 7 EUR"] {
///     let output = engine.generate(&extractor.request(text)?)?;
///     assert!(extract::finished(output)?.record["total"].is_number());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Extractor {
    vocab: Vocabulary,
    chat: Option<ChatTemplate>,
    wording: Wording,
    values: Values,
    schema: ExtractionSchema,
    /// The schema as the prompt shows it.
    shown: Arc<Value>,
    /// Warnings about the schema and the prompt.
    warnings: Vec<Warning>,
    /// The compiled constraint, if it is the same for all texts.
    grammar: Option<CompiledGrammar>,
}

/// Collects the options of an [`Extractor`]; [`build`](Self::build) reads the schema.
#[must_use]
pub struct ExtractorBuilder<'e> {
    engine: &'e Engine,
    options: SchemaOptions,
    system: Option<String>,
    prompt: Option<String>,
    instructions: String,
    examples: Vec<Example>,
}

impl<'e> ExtractorBuilder<'e> {
    /// Sets how JSON is written, and whether objects are closed (default:
    /// [`Engine::extraction_policy`]).
    pub fn policy(mut self, policy: Policy) -> Self {
        self.options.policy = policy;
        self
    }

    /// Reads objects as the standard does: properties that the schema does not mention are allowed
    /// unless it forbids them (default: they are not; see [`Policy::closed_objects`]).
    pub fn open_objects(mut self) -> Self {
        self.options.policy.closed_objects = false;
        self
    }

    /// Supplies a JSON document that `$ref` may name by this URI.
    pub fn document(mut self, uri: impl Into<String>, text: impl Into<String>) -> Self {
        self.options.documents.push((uri.into(), text.into()));
        self
    }

    /// Sets where strings with `"x-verbatim": true` begin and end (default: anywhere).
    pub fn spans(mut self, options: SubstringOptions) -> Self {
        self.options.spans = options;
        self
    }

    /// Makes all free strings of the schema spans of the text (default: no). These are the schemas
    /// whose `type` has `string` and that have neither values, a pattern or a format, nor a reference
    /// or alternatives of their own. Length limits hold too. The prompt shows the schema as it is
    /// written.
    pub fn verbatim(mut self, on: bool) -> Self {
        self.options.verbatim = on;
        self
    }

    /// Sets the system message. An empty one is left out.
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.system = Some(text.into());
        self
    }

    /// Sets the form of the prompt (default: that of the model's chat template). With a form of NuExtract,
    /// [`build`](Self::build) also takes a template in place of a schema.
    pub fn form(mut self, form: PromptForm) -> Self {
        self.options.form = Some(form);
        self
    }

    /// Replaces the user message by a template. Its placeholders are `{text}`, which is needed,
    /// `{schema}`, `{fields}` (the properties as a list), `{notes}` (on dates, numbers and the
    /// like), `{instructions}` and `{examples}`; `{{` and `}}` are braces. A placeholder on a line
    /// of its own disappears with its line if it has no value.
    pub fn prompt(mut self, template: impl Into<String>) -> Self {
        self.prompt = Some(without_mark(&template.into()).to_owned());
        self
    }

    /// Adds instructions for this schema to the prompt.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = text.into();
        self
    }

    /// Adds an example to the prompt.
    pub fn example(mut self, example: Example) -> Self {
        self.examples.push(example);
        self
    }

    /// Reads a JSON Schema (JSON text) and prepares the prompt.
    ///
    /// # Errors
    /// Fails if the schema is not JSON, not supported or cannot be satisfied, if the template has
    /// unknown placeholders or no place for the options that were given, if an example does not fit
    /// the schema, or if the model's chat template does not parse.
    pub fn build(self, schema: impl AsRef<str>) -> Result<Extractor> {
        let (schema, value) = ExtractionSchema::read(schema.as_ref(), self.options.clone())?;
        self.build_from(schema, &value)
    }

    /// Prepares the prompt for a schema that was read, whose options count.
    ///
    /// # Errors
    /// As [`build`](Self::build), but for the schema itself.
    pub fn build_from(self, schema: ExtractionSchema, value: &Value) -> Result<Extractor> {
        let compiler = self.engine.compiler();
        let opens =
            || schema.with_open_objects().is_ok_and(|constraint| compiler.compile(&constraint).is_ok());
        let grammar = schema.shared.as_ref().map(|constraint| compiler.compile(constraint)).transpose();
        let grammar = grammar.map_err(|e| schema.hinted(e, opens))?;
        self.examples.iter().try_for_each(|example| example.check(compiler, &schema))?;
        let (vocab, chat) = (self.engine.vocabulary().clone(), self.engine.chat_template()?.cloned());
        let form = schema.options.form.unwrap_or_else(|| PromptForm::of(chat.as_ref()));
        let (written, lost) = form.schema(value, schema.options.verbatim)?;
        let wording = self.wording(form.wording(&written, chat.as_ref())?)?;
        let values = Values {
            fields: outline(value).unwrap_or_else(|| value.to_string()),
            schema: written,
            notes: notes(value),
            examples: shown(&self.examples, schema.options.policy.whitespace),
            instructions: self.instructions,
        };
        let shown = Arc::new(value.clone());
        let warnings = [schema.warnings(), &lost].concat();
        Ok(Extractor { vocab, chat, wording, values, schema, shown, warnings, grammar })
    }

    /// Returns the wording of the prompt.
    ///
    /// # Errors
    /// If a template lacks the placeholder of an option that was given.
    fn wording(&self, of_form: Option<Wording>) -> Result<Wording> {
        let plain = self.instructions.is_empty() && self.examples.is_empty();
        if let (None, false, Some(_)) = (&self.prompt, plain, &of_form) {
            let message = "this form of the prompt has no place for instructions and examples";
            return Err(Error::new(ErrorKind::InvalidOption, message)
                .hint("use --prompt with a template that has one, or --prompt-form default"));
        }
        let wording = match (&self.prompt, &self.system) {
            (Some(template), system) => {
                let wording = Wording::new(system.as_deref().unwrap_or_default(), template)?;
                for (name, given) in
                    [("instructions", !self.instructions.is_empty()), ("examples", !self.examples.is_empty())]
                {
                    if given && !wording.user.has(name) {
                        let message = format!("there are {name}, but the template has no {{{name}}}");
                        return Err(Error::new(ErrorKind::InvalidOption, message)
                            .hint(format!("write {{{name}}} where they go")));
                    }
                }
                return Ok(wording);
            }
            // The embedded models know no other wording, but nothing can be added to it.
            (None, _) if let Some(wording) = of_form => wording,
            (None, None) if self.engine.is_embedded() && plain => Wording::trained()?,
            (None, _) => Wording::general()?,
        };
        let system = self.system.clone().unwrap_or(wording.system);
        Ok(Wording { system, ..wording })
    }
}

impl Extractor {
    /// Reads a JSON Schema (JSON text) with default options.
    ///
    /// # Errors
    /// As [`ExtractorBuilder::build`].
    pub fn new(engine: &Engine, schema: impl AsRef<str>) -> Result<Self> {
        Self::builder(engine).build(schema)
    }

    /// Starts an extractor with options.
    pub fn builder(engine: &Engine) -> ExtractorBuilder<'_> {
        ExtractorBuilder {
            engine,
            options: SchemaOptions { policy: engine.extraction_policy(), ..SchemaOptions::default() },
            system: None,
            prompt: None,
            instructions: String::new(),
            examples: Vec::new(),
        }
    }

    /// Returns a request for the record in a text; set further options on it. It gives the same
    /// record on an [`Engine`] and on a [`Scheduler`](crate::Scheduler).
    ///
    /// # Errors
    /// Fails if the text is blank, the model's chat template refuses the messages, or a schema with
    /// `x-verbatim` finds no span in the text that fits.
    pub fn request(&self, text: impl AsRef<str>) -> Result<Request> {
        let text = without_mark(text.as_ref());
        check_text(text)?;
        let request = Request::new(self.prompt(text)?).source(text).guard(true).end_at_words(true);
        let request = request.source_spans(self.schema.shared.is_none());
        Ok(match (&self.schema.shared, &self.grammar) {
            (Some(constraint), Some(grammar)) => {
                request.constraint(constraint.clone()).grammar(grammar.clone())
            }
            _ => request.constraint(self.constraint(Some(text))?),
        })
    }

    /// Returns the prompt about a text.
    ///
    /// # Errors
    /// Fails if the model's chat template refuses the messages.
    pub fn prompt(&self, text: impl AsRef<str>) -> Result<Prompt> {
        self.wording.prompt(&self.values, without_mark(text.as_ref()), self.chat.as_ref(), &self.vocab)
    }

    /// Cuts a text into parts of bounded length in the model's tokens; see [`chunks`](fn@super::chunks).
    /// The schema and the rest of the prompt come on top.
    ///
    /// # Errors
    /// As [`chunks`](fn@super::chunks).
    pub fn chunks(&self, text: impl AsRef<str>, options: &ChunkOptions) -> Result<Vec<Chunk>> {
        chunks(text.as_ref(), options, &|text| Ok(self.vocab.encode(text)?.len()))
    }

    /// Returns the constraint, if it is the same for all texts: the schema has no strings that are
    /// spans of the text.
    pub fn shared_constraint(&self) -> Option<&Constraint> {
        self.schema.shared.as_ref()
    }

    /// Returns the schema as it was read.
    pub(super) fn schema(&self) -> &ExtractionSchema {
        &self.schema
    }

    /// Returns the warnings about the schema, and about what the form of the prompt does not show. A
    /// schema with strings that are spans of the text is read for each text, so its warnings are those of the
    /// constraint of a request.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.schema.options.policy
    }

    /// Checks a record (JSON text) about a text against the schema, whatever wrote it: it may have white
    /// space, properties any order, and numbers any form. The schema is compiled for it.
    ///
    /// # Errors
    /// `Incomplete` with the JSON pointer of the first violation.
    pub fn check(&self, engine: &Engine, text: impl AsRef<str>, record: impl AsRef<str>) -> Result<()> {
        match self.schema.fault(engine.compiler(), without_mark(text.as_ref()), record.as_ref())? {
            None => Ok(()),
            Some(fault) => Err(Error::new(ErrorKind::Incomplete, format!("the record {}", fault.what))
                .at(Place::Pointer(fault.pointer))),
        }
    }

    /// Returns the values of a record (JSON text) that come from enumerations, and whose words are not in the
    /// text, by their JSON pointers.
    pub fn unsupported(&self, text: &str, record: &str) -> Map<String, Value> {
        support::unsupported(&self.shown, text, record)
    }

    /// Returns the constraint of the schema for a text.
    ///
    /// # Errors
    /// As [`ConstraintBuilder::json_schema`](crate::ConstraintBuilder::json_schema).
    pub fn constraint(&self, text: Option<&str>) -> Result<Constraint> {
        self.schema.constraint(text)
    }
}

impl Engine {
    /// Returns the policy that extraction uses by default: objects are closed
    /// ([`Policy::closed_objects`]), and JSON has the whitespace that suits the model. The embedded
    /// models were trained on compact JSON. Others write better values with single spaces, as they
    /// saw JSON in training.
    pub fn extraction_policy(&self) -> Policy {
        Policy { whitespace: self.whitespace(), closed_objects: true, ..Policy::default() }
    }

    /// Returns the whitespace in JSON that suits the model.
    pub fn whitespace(&self) -> Whitespace {
        if self.is_embedded() { Whitespace::Compact } else { Whitespace::SingleSpace }
    }
}

/// Returns the examples as they are shown to the model.
fn shown(examples: &[Example], whitespace: Whitespace) -> String {
    let one = |example: &Example| {
        format!("Example text:\n{}\n\nExample JSON:\n{}", example.text, to_text(&example.record, whitespace))
    };
    examples.iter().map(one).collect::<Vec<_>>().join("\n\n")
}
