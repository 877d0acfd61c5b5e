//! What people write, and what it becomes.
//!
//! Each front end has its own file and yields the same small [`Ir`]; the [`Policy`] says how values
//! may be spelled. Parsing costs time linear in the text; nothing here knows tokens but
//! [`token_machine`], whose constraints are made of them. Errors carry a JSON pointer or a span of the
//! pattern, and a hint.
pub mod choice;
mod combinators;
pub mod ecma;
pub mod element_pattern;
pub mod format;
pub mod grammar;
pub mod ir;
pub(crate) mod json;
pub mod json_schema;
pub mod number;
pub mod policy;
pub mod regex;
pub(crate) mod regular;
pub mod structural_tag;
pub mod substring;
#[cfg(test)]
pub(crate) mod test_reference;
pub mod token_machine;
pub mod tools;

pub use ir::Ir;
pub(crate) use json_schema::format_automata::prepare as prepare_formats;
pub use policy::{KeyOrder, Policy, Whitespace};

use std::sync::Arc;

use self::substring::SubstringOptions;
use self::token_machine::{Labels, TokenFsm, TokenMachine, TokenMasks};
use crate::error::{Error, ErrorKind, Result};

/// A parsed constraint: the representation and the spelling policy, ready to be compiled for a
/// vocabulary.
#[derive(Debug, Clone)]
pub struct Constraint {
    ir: Ir,
    policy: Policy,
    /// Instead of the representation, or behind it: a machine over tokens.
    tokens: Option<TokenMachine>,
    /// What the text in front of a machine over tokens ends with; none if there is no text.
    marker: Option<String>,
}

impl Constraint {
    /// A constraint from a representation built by hand.
    pub fn from_ir(ir: Ir, policy: Policy) -> Self {
        Constraint { ir, policy, tokens: None, marker: None }
    }

    fn from_tokens(tokens: TokenMachine) -> Self {
        Constraint { ir: Ir::new(), policy: Policy::default(), tokens: Some(tokens), marker: None }
    }

    /// What a machine over tokens accepts, built by hand; see [`TokenFsm`].
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

    /// One of many labels, or several, each in the tokens in which it follows a prompt; see [`Labels`].
    /// Whether the list makes sense is checked when it is compiled, with the vocabulary.
    pub fn labels(labels: &Labels) -> Self {
        Self::from_tokens(TokenMachine::Labels(Arc::new(labels.clone())))
    }

    /// One of these texts, exactly.
    ///
    /// # Errors
    /// If `choices` is empty.
    pub fn choice<S: AsRef<str>>(choices: impl IntoIterator<Item = S>) -> Result<Self> {
        Ok(Self::from_ir(choice::parse(choices)?, Policy::default()))
    }

    /// The whole output matches `pattern`, in the syntax of the `regex-syntax` crate, anchored at
    /// both ends.
    ///
    /// # Errors
    /// With the span of the fault, if the pattern does not parse or is too large.
    pub fn regex(pattern: &str) -> Result<Self> {
        Ok(Self::from_ir(regex::parse(pattern)?, Policy::default()))
    }

    /// A sequence of character classes and literals with quantifiers, such as
    /// `UPPER+ ':' ' ' LOWER+ '\n'`.
    ///
    /// # Errors
    /// With the span of the fault.
    pub fn pattern(text: &str) -> Result<Self> {
        Ok(Self::from_ir(element_pattern::parse(text)?, Policy::default()))
    }

    /// A context-free grammar, in GBNF if `::=` stands in it outside of strings and comments, otherwise in
    /// a subset of Lark's notation. See [`grammar`] for both and for what they mean.
    ///
    /// # Errors
    /// As [`gbnf`](Self::gbnf) and [`lark`](Self::lark).
    pub fn ebnf(text: &str) -> Result<Self> {
        Ok(Self::from_ir(grammar::parse(text)?, Policy::default()))
    }

    /// Like [`ebnf`](Self::ebnf), with a policy for the JSON values of schemas in it (`%json`).
    ///
    /// # Errors
    /// As [`ebnf`](Self::ebnf).
    pub fn ebnf_with(text: &str, policy: Policy) -> Result<Self> {
        let ir = grammar::parse_from(text, &policy, None)?;
        Ok(Self::from_ir(ir, policy))
    }

    /// A grammar in the notation of llama.cpp: `root ::= "yes" | "no"`. See [`grammar::gbnf`].
    ///
    /// # Errors
    /// With the span of the fault: `InvalidPattern` for what does not parse or is not defined,
    /// `Unsatisfiable` if no text ends, `TooComplex` above a limit.
    pub fn gbnf(text: &str) -> Result<Self> {
        Ok(Self::from_ir(grammar::gbnf::parse(text)?, Policy::default()))
    }

    /// A grammar in a subset of the notation of Lark: `start: "yes" | "no"`. See [`grammar::lark`].
    ///
    /// # Errors
    /// As [`gbnf`](Self::gbnf), and `Unsupported` for features outside of the subset.
    pub fn lark(text: &str) -> Result<Self> {
        Ok(Self::from_ir(grammar::lark::parse(text)?, Policy::default()))
    }

    /// Like [`lark`](Self::lark), with a policy for the JSON values of its schemas and a text that strings with
    /// `"x-verbatim": true` in them quote from.
    ///
    /// # Errors
    /// As [`lark`](Self::lark), and those of [`substring::Source::new`].
    pub fn lark_quoting(
        text: &str,
        policy: Policy,
        source: &str,
        options: &SubstringOptions,
    ) -> Result<Self> {
        let ir = grammar::lark::parse_from(text, &policy, Some((source, options)))?;
        Ok(Self::from_ir(ir, policy))
    }

    /// Any JSON object, nested to any depth.
    pub fn json_object() -> Self {
        let mut ir = Ir::new();
        let value = ir.push(ir::Node::JsonAny);
        let extra = vec![ir::Extra { keys: None, value }];
        let root = ir.push(ir::Node::JsonObject(Box::new(ir::Object { extra, ..Default::default() })));
        ir.set_root(root);
        Self::from_ir(ir, Policy::default())
    }

    /// A JSON value that is valid against `schema` (JSON text of a JSON Schema), with the default
    /// policy.
    ///
    /// # Errors
    /// With JSON pointer and hint: not JSON, not a schema, an unsupported keyword, or a schema that
    /// nothing can satisfy.
    pub fn json_schema(schema: &str) -> Result<Self> {
        Self::json_schema_with(schema, Policy::default())
    }

    /// Like [`json_schema`](Self::json_schema), with a policy.
    ///
    /// # Errors
    /// As [`json_schema`](Self::json_schema).
    pub fn json_schema_with(schema: &str, policy: Policy) -> Result<Self> {
        let ir = json_schema::parse(schema, &policy)?;
        Ok(Self::from_ir(ir, policy))
    }

    /// Like [`json_schema_with`](Self::json_schema_with), with a text to quote from: `"x-verbatim": true`
    /// in the schema of a string means that the string is a span of `source`.
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// use ffwd_engine::constraint::substring::SubstringOptions;
    /// use ffwd_engine::{Constraint, Policy};
    ///
    /// let schema = r#"{"type": "object", "properties": {"vendor": {"type": "string", "x-verbatim": true}}}"#;
    /// let text = "Vendor: Bright Glacier Consulting";
    /// let options = SubstringOptions::words();
    /// let constraint = Constraint::json_schema_quoting(schema, Policy::default(), text, &options)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`json_schema`](Self::json_schema); if the keyword is used, also those of
    /// [`substring::Source::new`].
    pub fn json_schema_quoting(
        schema: &str,
        policy: Policy,
        source: &str,
        options: &SubstringOptions,
    ) -> Result<Self> {
        let ir = json_schema::parse_quoting(schema, &policy, source, options)?;
        Ok(Self::from_ir(ir, policy))
    }

    /// A span of `source`, byte for byte; where it may begin and end, and how short it may be, is said in
    /// [`SubstringOptions`]. See [`substring`]; [`substring::Source::find`] says where a span occurs.
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
    /// As [`substring::parse`].
    pub fn substring(source: &str, options: &SubstringOptions) -> Result<Self> {
        Ok(Self::from_ir(substring::parse(source, options)?, Policy::default()))
    }

    /// Tool calls and other structure in free text, from a structural tag (JSON text; see
    /// [`structural_tag`] for its forms and their exact meaning), with the default policy.
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
    /// With JSON pointer and hint: not JSON, not a structural tag, something unsupported or ambiguous, a
    /// schema or a regular expression with a fault.
    pub fn structural_tag(json: &str) -> Result<Self> {
        Self::structural_tag_with(json, Policy::default())
    }

    /// Like [`structural_tag`](Self::structural_tag), with a policy for the JSON values in it.
    ///
    /// # Errors
    /// As [`structural_tag`](Self::structural_tag).
    pub fn structural_tag_with(json: &str, policy: Policy) -> Result<Self> {
        let ir = structural_tag::parse(json, &policy)?;
        Ok(Self::from_ir(ir, policy))
    }

    /// Like [`structural_tag_with`](Self::structural_tag_with), with a text that strings with
    /// `"x-verbatim": true` in its schemas quote from: tool calls whose arguments are found in the document.
    ///
    /// # Errors
    /// As [`structural_tag`](Self::structural_tag), and those of [`substring::Source::new`].
    pub fn structural_tag_quoting(
        json: &str,
        policy: Policy,
        source: &str,
        options: &SubstringOptions,
    ) -> Result<Self> {
        let ir = structural_tag::parse_from(json, &policy, Some((source, options)))?;
        Ok(Self::from_ir(ir, policy))
    }

    /// The representation. That of a machine over tokens has no texts ([`ir::Node::Never`]).
    pub fn ir(&self) -> &Ir {
        &self.ir
    }

    /// The machine over tokens, if it is one.
    pub(crate) fn token_machine(&self) -> Option<&TokenMachine> {
        self.tokens.as_ref()
    }

    /// What the text in front of the machine over tokens ends with, if there is one.
    pub(crate) fn marker(&self) -> Option<&str> {
        self.marker.as_deref()
    }

    /// Whether it is made of tokens: see [`token_machine`].
    pub fn is_token_level(&self) -> bool {
        self.tokens.is_some()
    }

    /// The spelling policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Replaces the policy. How the numbers of a JSON Schema are written, the arrays and objects of its `enum` and `const`, and
    /// arrays with `contains`, is fixed when it is parsed (see [`json_schema_with`](Self::json_schema_with)); whitespace and order elsewhere take effect
    /// here.
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// What the user should know about how this constraint is honoured.
    pub fn warnings(&self) -> &[String] {
        &self.ir.warnings
    }

    /// The constraint, if there is nothing to [warn](Self::warnings) of: for those who would rather have an error than a format
    /// that is not known, a keyword with a misspelling, or a rule that nothing uses. What only a vocabulary can tell is said when
    /// it is compiled ([`CompiledGrammar::warnings`](crate::CompiledGrammar::warnings)).
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
