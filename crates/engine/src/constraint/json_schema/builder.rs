//! The builder for schemas that need more than their own text: a policy, other documents, a source to
//! quote from.
//!
//! It only collects; [`JsonSchema::constraint`] does the work. Functions with one more argument for each
//! combination were the alternative, and there are three of them already.

use std::borrow::Cow;
use std::fmt;

use super::conjunctions::SchemaLowering;
use super::context::SchemaContext;
use super::documents::Documents;
use super::verbatim::Quoted;
use crate::constraint::substring::SubstringOptions;
use crate::constraint::{Constraint, Policy};
use crate::error::Result;

/// A JSON Schema and what it refers to.
///
/// ```
/// # fn main() -> ffwd_engine::Result<()> {
/// use ffwd_engine::constraint::json_schema::JsonSchema;
///
/// let constraint = JsonSchema::new(r#"{"items": {"$ref": "https://example.com/point"}}"#)
///     .document("https://example.com/point", r#"{"type": "array", "items": {"type": "integer"}}"#)
///     .constraint()?;
/// # Ok(())
/// # }
/// ```
pub struct JsonSchema<'a> {
    text: &'a str,
    policy: Policy,
    documents: Documents<'a>,
    source: Option<(&'a str, &'a SubstringOptions)>,
}

impl<'a> JsonSchema<'a> {
    /// A schema (JSON text) with the default policy.
    pub fn new(text: &'a str) -> Self {
        JsonSchema { text, policy: Policy::default(), documents: Documents::default(), source: None }
    }

    /// Sets how values may be spelled.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Supplies a document (JSON text) that `$ref` may name by this URI, or by its own `$id` once
    /// something else led to it. The metaschemas of drafts 4, 6, 7, 2019-09 and 2020-12 are known.
    pub fn document(mut self, uri: &str, text: impl Into<Cow<'a, str>>) -> Self {
        self.documents.add(uri, text.into());
        self
    }

    /// Sets the function that is asked for documents nobody supplied: it gets the URI without fragment,
    /// resolved against the `$id` around the reference, and answers the JSON text or `None`. It is asked for
    /// every reference that leads outside, also in parts of the schema that nothing uses, once for each URI.
    pub fn resolver(mut self, resolver: impl Fn(&str) -> Result<Option<String>> + 'a) -> Self {
        self.documents.ask(Box::new(resolver));
        self
    }

    /// Sets the text that `x-verbatim` means; see [`Constraint::json_schema_quoting`].
    pub fn quoting(mut self, source: &'a str, options: &'a SubstringOptions) -> Self {
        self.source = Some((source, options));
        self
    }

    /// Parses the schema.
    ///
    /// # Errors
    /// `InvalidJson` with line and column; `InvalidSchema`, `Unsupported`, `Unsatisfiable` and `TooComplex`
    /// with the JSON pointer of the place; what the resolver answers; if `x-verbatim` is used, also the
    /// errors of [`substring::Source::new`](crate::constraint::substring::Source::new).
    pub fn constraint(self) -> Result<Constraint> {
        let mut front = SchemaContext::new(self.text, &self.policy, &self.documents)?;
        front.quoted = self.source.map(|(source, options)| Quoted::new(source, options));
        let ir = SchemaLowering::new(front).run()?;
        Ok(Constraint::from_ir(ir, self.policy))
    }
}

impl fmt::Debug for JsonSchema<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonSchema")
            .field("text", &self.text)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
