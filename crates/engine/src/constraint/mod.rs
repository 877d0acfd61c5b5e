//! Constraints: the front ends that parse them, and their common representation.
//!
//! Each front end has a file or folder of its own and yields the same small representation (`ir`).
//! The [`Policy`] says how JSON values are written. Nothing here knows tokens except
//! [`token_machine`], whose constraints are made of them. Errors carry a JSON pointer or a span of
//! the pattern, and a hint.
//!
//! # Cost
//! Parsing takes time linear in the text, except where schemas must be merged or automata combined;
//! those have limits of their own.

mod builder;
mod choice;
mod combinators;
pub(crate) mod ecma;
mod element_pattern;
pub mod format;
pub mod grammar;
#[doc(hidden)]
pub mod ir;
pub(crate) mod json;
pub mod json_schema;
pub(crate) mod number;
#[doc(hidden)]
pub mod options;
mod policy;
pub(crate) mod regex;
pub(crate) mod regular;
pub mod structural_tag;
pub mod substring;
#[cfg(test)]
#[path = "tests/reference_matcher.rs"]
pub(crate) mod test_reference;
pub mod token_machine;
pub mod tools;

pub use builder::ConstraintBuilder;
#[doc(hidden)]
pub use ir::Ir;
pub(crate) use json_schema::prepare_formats;
pub use policy::{KeyOrder, Policy, Whitespace};

use std::sync::Arc;

use self::substring::SubstringOptions;
use self::token_machine::{Labels, TokenFsm, TokenMachine, TokenMasks};
use crate::error::{Error, ErrorKind, Result};
use crate::warning::Warning;

/// A parsed constraint, ready to be compiled for a vocabulary.
///
/// Each kind has a constructor with the default policy; [`builder`](Self::builder) takes options.
///
/// ```
/// # fn main() -> ffwd_engine::Result<()> {
/// use ffwd_engine::Constraint;
///
/// let choice = Constraint::choice(["yes", "no"])?;
/// let date = Constraint::regex("[0-9]{4}-[0-9]{2}-[0-9]{2}")?;
/// let record = Constraint::json_schema(r#"{"type": "object", "properties": {"name": {"type": "string"}}}"#)?;
/// let grammar = Constraint::ebnf(r#"root ::= "(" root ")" | "x""#)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Constraint {
    ir: Ir,
    policy: Policy,
    /// A machine over tokens, instead of the representation or after it.
    tokens: Option<TokenMachine>,
    /// Marker at the end of the text before a machine over tokens; `None` without such a text.
    marker: Option<String>,
}

impl Constraint {
    /// A constraint from a representation built by hand: for tests.
    #[doc(hidden)]
    pub fn from_ir(ir: Ir, policy: Policy) -> Self {
        Constraint { ir, policy, tokens: None, marker: None }
    }

    fn from_tokens(tokens: TokenMachine) -> Self {
        Constraint { ir: Ir::new(), policy: Policy::default(), tokens: Some(tokens), marker: None }
    }

    /// The token sequences that a machine built by hand accepts; see [`TokenFsm`].
    pub fn token_fsm(fsm: &TokenFsm) -> Self {
        Self::from_tokens(TokenMachine::Fsm(Arc::new(fsm.clone())))
    }

    /// A set of tokens for each position; see [`TokenMasks`].
    ///
    /// # Errors
    /// As [`TokenMasks::fsm`]: an empty mask, no positions, too many.
    pub fn token_masks(masks: &TokenMasks) -> Result<Self> {
        Ok(Self::token_fsm(&masks.fsm()?))
    }

    /// One of many labels, or several, each in the tokens in which it follows a prompt; see
    /// [`Labels`]. The list is checked when it is compiled, with the vocabulary.
    pub fn labels(labels: &Labels) -> Self {
        Self::from_tokens(TokenMachine::Labels(Arc::new(labels.clone())))
    }

    /// Starts a constraint with options: a policy, other documents, a source text.
    pub fn builder<'a>() -> ConstraintBuilder<'a> {
        ConstraintBuilder::default()
    }

    /// One of these texts, exactly.
    ///
    /// # Errors
    /// If `choices` is empty.
    pub fn choice<S: AsRef<str>>(choices: impl IntoIterator<Item = S>) -> Result<Self> {
        Self::builder().choice(choices)
    }

    /// The whole output matches `pattern`; see [`ConstraintBuilder::regex`].
    ///
    /// # Errors
    /// With the span of the fault, if the pattern does not parse or is too large.
    pub fn regex(pattern: impl AsRef<str>) -> Result<Self> {
        Self::builder().regex(pattern)
    }

    /// An element pattern; see [`ConstraintBuilder::pattern`].
    ///
    /// # Errors
    /// With the span of the fault.
    pub fn pattern(text: impl AsRef<str>) -> Result<Self> {
        Self::builder().pattern(text)
    }

    /// A context-free grammar, in GBNF or a subset of Lark; see [`ConstraintBuilder::ebnf`].
    ///
    /// # Errors
    /// As [`ConstraintBuilder::ebnf`].
    pub fn ebnf(text: impl AsRef<str>) -> Result<Self> {
        Self::builder().ebnf(text)
    }

    /// Any JSON object, nested to any depth.
    pub fn json_object() -> Self {
        Self::from_ir(Ir::json_object(), Policy::default())
    }

    /// A JSON value that is valid against a JSON Schema; see [`ConstraintBuilder::json_schema`].
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// let constraint = ffwd_engine::Constraint::json_schema(r#"{"type": "integer", "minimum": 3}"#)?;
    /// assert!(constraint.warnings().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// With JSON pointer and hint: not JSON, not a schema, an unsupported keyword, or a schema that
    /// nothing can satisfy.
    pub fn json_schema(schema: impl AsRef<str>) -> Result<Self> {
        Self::builder().json_schema(schema)
    }

    /// A span of `source`, byte for byte; see [`ConstraintBuilder::substring`].
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// use ffwd_engine::Constraint;
    /// use ffwd_engine::constraint::substring::SubstringOptions;
    ///
    /// let contract = "Either party may terminate with a notice of thirty days.";
    /// let quote = Constraint::substring(contract, &SubstringOptions::words())?;
    /// let answer = Constraint::regex("The contract says: ")?.then(&quote)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`ConstraintBuilder::substring`].
    pub fn substring(source: impl AsRef<str>, options: &SubstringOptions) -> Result<Self> {
        Self::builder().substring(source, options)
    }

    /// Tool calls and other structure in free text; see [`ConstraintBuilder::structural_tag`].
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// let tag = r#"{"type": "structural_tag", "format": {"type": "triggered_tags",
    ///     "triggers": ["<function="],
    ///     "tags": [{"begin": "<function=add>", "end": "</function>", "content": {
    ///         "type": "json_schema", "json_schema": {"type": "array", "items": {"type": "integer"}}}}]}}"#;
    /// let constraint = ffwd_engine::Constraint::structural_tag(tag)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`ConstraintBuilder::structural_tag`].
    pub fn structural_tag(tag: impl AsRef<str>) -> Result<Self> {
        Self::builder().structural_tag(tag)
    }

    /// Returns the representation. That of a machine over tokens is empty ([`ir::Node::Never`]).
    #[doc(hidden)]
    pub fn ir(&self) -> &Ir {
        &self.ir
    }

    /// Returns the machine over tokens, if it is one.
    pub(crate) fn token_machine(&self) -> Option<&TokenMachine> {
        self.tokens.as_ref()
    }

    /// Returns the marker at the end of the text before the machine over tokens, if there is one.
    pub(crate) fn marker(&self) -> Option<&str> {
        self.marker.as_deref()
    }

    /// Returns true if it is made of tokens: see [`token_machine`].
    pub fn is_token_level(&self) -> bool {
        self.tokens.is_some()
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Replaces the policy. For a JSON Schema, the policy for numbers, for closed objects, for arrays
    /// with `contains`, and for the arrays and objects of `enum` and `const` is fixed when it is
    /// parsed (see [`ConstraintBuilder::policy`]); whitespace and order elsewhere take effect here.
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Returns what the author of the constraint may not expect, such as unknown keywords.
    pub fn warnings(&self) -> &[Warning] {
        &self.ir.warnings
    }

    /// Turns warnings into an error: an unknown format, a misspelt keyword, a rule that nothing
    /// uses. Warnings that depend on the vocabulary come when the constraint is compiled
    /// ([`CompiledGrammar::warnings`](crate::CompiledGrammar::warnings)).
    ///
    /// # Errors
    /// `Unsupported` with the first warning.
    pub fn strict(self) -> Result<Self> {
        let Some((first, others)) = self.ir.warnings.split_first() else { return Ok(self) };
        let more = if others.is_empty() { String::new() } else { format!(" (and {} more)", others.len()) };
        let message = format!("not in strict mode: {first}{more}");
        Err(Error::new(ErrorKind::Unsupported, message)
            .hint("correct it or leave it out; without strict mode this is a warning"))
    }
}
