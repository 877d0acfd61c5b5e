//! The builder of constraints that need more than their own text: a policy, other documents, a
//! source text to copy from.
//!
//! # Cost
//! The builder only collects; its last call, which names the kind of constraint, does the work.
//!
//! # Alternatives considered
//! A constructor for each combination of kind and options was rejected: there were twenty of them.

use std::borrow::Cow;
use std::fmt;

use super::ir::{Ir, Quoting};
use super::json_schema::Documents;
use super::substring::SubstringOptions;
use super::{
    Constraint, Policy, choice, element_pattern, grammar, json_schema, regex, structural_tag, substring,
};
use crate::error::{Error, ErrorKind, Result};
use crate::text::without_mark;

/// Collects the options of a constraint; the last call names its kind and parses it.
///
/// ```
/// # fn main() -> ffwd_engine::Result<()> {
/// use ffwd_engine::{Constraint, Policy, Whitespace};
///
/// let policy = Policy { whitespace: Whitespace::SingleSpace, ..Policy::default() };
/// let constraint = Constraint::builder()
///     .policy(policy)
///     .document("https://example.com/point", r#"{"type": "array", "items": {"type": "integer"}}"#)
///     .json_schema(r#"{"items": {"$ref": "https://example.com/point"}}"#)?;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
#[must_use]
pub struct ConstraintBuilder<'a> {
    policy: Policy,
    documents: Documents<'a>,
    source: Option<(Cow<'a, str>, SubstringOptions)>,
}

impl<'a> ConstraintBuilder<'a> {
    /// Sets how JSON values are written (default: [`Policy::default`]).
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Supplies a JSON document that `$ref` may name by this URI, or by its own `$id` once
    /// something else led to it. The metaschemas of drafts 4, 6, 7, 2019-09 and 2020-12 are built
    /// in.
    pub fn document(mut self, uri: &str, text: impl Into<Cow<'a, str>>) -> Self {
        self.documents.add(uri, text.into());
        self
    }

    /// Sets the function that finds documents which were not supplied. It gets the URI without
    /// fragment, resolved against the `$id` around the reference, and returns the JSON text or
    /// `None`. It is called once for each URI, also for references in parts of the schema that are
    /// not used.
    pub fn resolver(mut self, resolver: impl Fn(&str) -> Result<Option<String>> + 'a) -> Self {
        self.documents.ask(Box::new(resolver));
        self
    }

    /// Sets the text that strings with `"x-verbatim": true` copy a span of.
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// use ffwd_engine::Constraint;
    /// use ffwd_engine::constraint::substring::SubstringOptions;
    ///
    /// let schema = r#"{"type": "object", "properties": {"vendor": {"type": "string", "x-verbatim": true}}}"#;
    /// let text = "Vendor: Bright Glacier Consulting";
    /// let constraint = Constraint::builder().source(text, &SubstringOptions::words()).json_schema(schema)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn source(mut self, text: impl Into<Cow<'a, str>>, options: &SubstringOptions) -> Self {
        self.source = Some((text.into(), options.clone()));
        self
    }

    /// Parses a JSON Schema (JSON text). The output is a JSON value that is valid against it.
    ///
    /// # Errors
    /// `InvalidJson` with line and column; `InvalidSchema`, `Unsupported`, `Unsatisfiable` and
    /// `TooComplex` with the JSON pointer of the location; the errors of the resolver; if
    /// `x-verbatim` is used, also those of [`substring::Source::new`].
    pub fn json_schema(self, schema: impl AsRef<str>) -> Result<Constraint> {
        let ir = json_schema::parse_with(
            without_mark(schema.as_ref()),
            &self.policy,
            &self.documents,
            self.quoting(),
        )?;
        Ok(Constraint::from_ir(ir, self.policy))
    }

    /// Parses a structural tag (JSON text): tool calls and other structure in free text. See
    /// [`structural_tag`] for its forms and their exact meaning.
    ///
    /// # Errors
    /// With JSON pointer and hint: not JSON, not a structural tag, something unsupported or
    /// ambiguous, a schema or a regular expression with a fault. `InvalidOption` if documents were
    /// supplied.
    pub fn structural_tag(self, tag: impl AsRef<str>) -> Result<Constraint> {
        self.refuse_documents("a structural tag")?;
        let (ir, policy, _) =
            structural_tag::parse(without_mark(tag.as_ref()), &self.policy, self.quoting())?;
        Ok(Constraint::from_ir(ir, policy))
    }

    /// Parses a context-free grammar: GBNF if `::=` occurs outside of strings and comments,
    /// otherwise the subset of Lark's notation. See [`grammar`] for both.
    ///
    /// # Errors
    /// As [`gbnf`](Self::gbnf) and [`lark`](Self::lark).
    pub fn ebnf(self, text: impl AsRef<str>) -> Result<Constraint> {
        self.refuse_documents("a grammar")?;
        let ir = grammar::parse_from(without_mark(text.as_ref()), &self.policy, self.quoting())?;
        Ok(Constraint::from_ir(ir, self.policy))
    }

    /// Parses a grammar in the notation of llama.cpp: `root ::= "yes" | "no"`. See
    /// [`grammar::gbnf`].
    ///
    /// # Errors
    /// With the span of the fault: `InvalidPattern` for what does not parse or is not defined,
    /// `Unsatisfiable` if no text ends, `TooComplex` above a limit. `InvalidOption` for options
    /// that such a grammar has no use for.
    pub fn gbnf(self, text: impl AsRef<str>) -> Result<Constraint> {
        self.plain("a GBNF grammar", || grammar::gbnf::parse(without_mark(text.as_ref())))
    }

    /// Parses a grammar in a subset of Lark's notation: `start: "yes" | "no"`. See
    /// [`grammar::lark`].
    ///
    /// # Errors
    /// As [`gbnf`](Self::gbnf), and `Unsupported` for features outside of the subset.
    pub fn lark(self, text: impl AsRef<str>) -> Result<Constraint> {
        self.refuse_documents("a grammar")?;
        let ir = grammar::lark::parse_from(without_mark(text.as_ref()), &self.policy, self.quoting())?;
        Ok(Constraint::from_ir(ir, self.policy))
    }

    /// Parses a regular expression in the syntax of the crate `regex-syntax`, anchored at both
    /// ends.
    ///
    /// # Errors
    /// With the span of the fault, if the expression does not parse or is too large.
    /// `InvalidOption` for options that it has no use for.
    pub fn regex(self, pattern: impl AsRef<str>) -> Result<Constraint> {
        self.plain("a regular expression", || regex::parse(pattern.as_ref()))
    }

    /// Parses an element pattern: character classes and literals with quantifiers, such as
    /// `UPPER+ ':' ' ' LOWER+ '\n'`.
    ///
    /// # Errors
    /// With the span of the fault. `InvalidOption` for options that it has no use for.
    pub fn pattern(self, text: impl AsRef<str>) -> Result<Constraint> {
        self.plain("an element pattern", || element_pattern::parse(text.as_ref()))
    }

    /// One of these texts, exactly.
    ///
    /// # Errors
    /// If `choices` is empty. `InvalidOption` for options that a choice has no use for.
    pub fn choice<S: AsRef<str>>(self, choices: impl IntoIterator<Item = S>) -> Result<Constraint> {
        self.plain("a choice", || choice::parse(choices))
    }

    /// Any JSON object, nested to any depth.
    ///
    /// # Errors
    /// `InvalidOption` for options that it has no use for.
    pub fn json_object(self) -> Result<Constraint> {
        self.plain("any JSON object", || Ok(Ir::json_object()))
    }

    /// A span of `source`, byte for byte; [`SubstringOptions`] says where it may begin and end, and
    /// how short it may be. [`substring::Source::find`] finds where a span occurs.
    ///
    /// # Errors
    /// As [`substring::Source::new`]. `Unsatisfiable` if there is no span; `TooComplex` if the
    /// spans need more than [`substring::MAX_SPAN_STATES`] states. `InvalidOption` for options that
    /// it has no use for.
    pub fn substring(self, source: impl AsRef<str>, options: &SubstringOptions) -> Result<Constraint> {
        self.plain("a substring", || substring::parse(source.as_ref(), options))
    }

    fn quoting(&self) -> Quoting<'_> {
        self.source.as_ref().map(|(text, options)| (&**text, options))
    }

    /// A kind that uses neither documents nor a source text.
    fn plain(self, kind: &str, parse: impl FnOnce() -> Result<Ir>) -> Result<Constraint> {
        self.refuse_documents(kind)?;
        if self.source.is_some() {
            let message = format!("{kind} copies nothing from a source text");
            return Err(Error::new(ErrorKind::InvalidOption, message)
                .hint("leave out `source`, or use a JSON Schema with `x-verbatim`"));
        }
        let ir = parse()?;
        Ok(Constraint::from_ir(ir, self.policy))
    }

    fn refuse_documents(&self, kind: &str) -> Result<()> {
        if self.documents.is_empty() {
            return Ok(());
        }
        let message = format!("{kind} refers to no other documents");
        Err(Error::new(ErrorKind::InvalidOption, message)
            .hint("`document` and `resolver` are for JSON Schemas; copy the parts into `$defs`"))
    }
}

impl fmt::Debug for ConstraintBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConstraintBuilder").field("policy", &self.policy).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_without_use_are_refused() {
        let with_source = || Constraint::builder().source("text", &SubstringOptions::words());
        assert_eq!(with_source().regex("a").unwrap_err().kind(), ErrorKind::InvalidOption);
        assert_eq!(with_source().choice(["a"]).unwrap_err().kind(), ErrorKind::InvalidOption);
        let with_document = || Constraint::builder().document("u:x", "{}");
        assert_eq!(with_document().ebnf("start: \"a\"").unwrap_err().kind(), ErrorKind::InvalidOption);
        assert!(with_document().json_schema("{}").is_ok());
    }

    #[test]
    fn byte_order_marks_are_dropped() {
        let build = || Constraint::builder().document("u:x", "\u{feff}{\"const\": 1}");
        assert!(build().json_schema("\u{feff}{\"$ref\": \"u:x\"}").is_ok());
        let resolved = Constraint::builder().resolver(|_| Ok(Some("\u{feff}{}".to_owned())));
        assert!(resolved.json_schema("{\"$ref\": \"u:y\"}").is_ok());
        let builder = Constraint::builder;
        assert!(builder().ebnf("\u{feff}root ::= \"a\"").is_ok());
        assert!(builder().gbnf("\u{feff}root ::= \"a\"").is_ok());
        assert!(builder().lark("\u{feff}start: \"a\"").is_ok());
        let tag = "\u{feff}{\"type\": \"structural_tag\", \"format\": {\"type\": \"const_string\", \"value\": \"a\"}}";
        assert!(builder().structural_tag(tag).is_ok());
    }

    #[test]
    fn texts_may_be_owned() {
        assert!(Constraint::builder().regex(String::from("a+")).is_ok());
        assert!(Constraint::json_schema(String::from("{}")).is_ok());
    }
}
