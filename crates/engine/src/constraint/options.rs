//! Constraints by the name of their kind, with options by their names: for doors to other languages.
//!
//! One list says which options a kind has, and one structure what they are; Python and C share both.
//!
//! # Alternatives considered
//! Options as methods of a builder are what Rust has ([`ConstraintBuilder`]). Another language would
//! need a function for each of them.
//!
//! [`ConstraintBuilder`]: super::ConstraintBuilder

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::substring::{Bounds, SubstringOptions};
use super::token_machine::{Labels, Lead, Levels, State, TokenFsm, TokenMasks};
use super::tools::{Calls, ToolChoice, ToolStyle, Tools};
use super::{Constraint, ConstraintBuilder, KeyOrder, Policy, Whitespace};
use crate::edit_distance::closest;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::text::without_mark;
use crate::vocab::TokenId;

/// Largest number of whitespace bytes at a position.
const MAX_WHITESPACE: u8 = 64;
/// The separator of paths of a tree of labels.
const PATH_SEPARATOR: &str = " > ";

/// The kinds by name, and the names of their options.
const KINDS: [(&str, &str); 14] = [
    (
        "json_schema",
        "whitespace key_order exponent equal_numbers closed_objects documents source bounds strict",
    ),
    ("json_object", "whitespace"),
    ("regex", "strict"),
    ("choice", "strict"),
    ("lark", "strict"),
    ("gbnf", "strict"),
    ("ebnf", "strict"),
    ("structural_tag", "whitespace key_order closed_objects strict"),
    ("substring", "bounds min_chars"),
    ("pattern", "strict"),
    ("labels", "lead path_separator levels separator at_least at_most repeats"),
    ("token_masks", "at_least at_most unbounded"),
    ("token_fsm", "start names"),
    ("tools", "style choice single whitespace key_order strict"),
];

/// The option `whitespace`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected \"compact\", \"single_space\", or a number from 1 to 64")]
pub enum WhitespaceOption {
    /// A form with a name.
    Named(NamedWhitespace),
    /// The largest number of whitespace bytes at a position.
    Max(u8),
}

/// The forms with a name.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NamedWhitespace {
    /// None.
    Compact,
    /// One space after each comma and colon.
    SingleSpace,
}

impl WhitespaceOption {
    /// Returns the engine's value.
    ///
    /// # Errors
    /// `InvalidOption` for a number out of range.
    pub fn read(self) -> Result<Whitespace> {
        match self {
            WhitespaceOption::Named(NamedWhitespace::Compact) => Ok(Whitespace::Compact),
            WhitespaceOption::Named(NamedWhitespace::SingleSpace) => Ok(Whitespace::SingleSpace),
            WhitespaceOption::Max(max @ 1..=MAX_WHITESPACE) => Ok(Whitespace::Flexible { max }),
            WhitespaceOption::Max(max) => {
                Err(invalid(format!("whitespace is {max}; expected 1 to {MAX_WHITESPACE}")))
            }
        }
    }
}

/// The option `bounds`.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundsOption {
    /// Spans begin and end at words.
    #[default]
    Words,
    /// Anywhere.
    Characters,
}

/// The number of an option whose default is 1.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct OneByDefault(pub u32);

impl Default for OneByDefault {
    fn default() -> Self {
        OneByDefault(1)
    }
}

/// The option `choice`, which is "auto" by default.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolCalls(pub String);

impl Default for ToolCalls {
    fn default() -> Self {
        ToolCalls("auto".into())
    }
}

/// The options of all kinds, each of which has some of them; `ffwd.Constraint` of the Python package
/// describes them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs)]
pub struct ConstraintOptions {
    pub whitespace: Option<WhitespaceOption>,
    pub key_order: KeyOrder,
    pub exponent: bool,
    pub equal_numbers: bool,
    pub closed_objects: bool,
    pub documents: Option<HashMap<String, String>>,
    pub source: Option<String>,
    pub bounds: BoundsOption,
    pub min_chars: OneByDefault,
    pub lead: Lead,
    pub path_separator: Option<String>,
    pub levels: Levels,
    pub separator: Option<String>,
    pub at_least: OneByDefault,
    pub at_most: Option<u32>,
    pub repeats: bool,
    pub unbounded: bool,
    pub start: u32,
    pub names: Option<HashMap<u32, String>>,
    pub style: Option<String>,
    pub choice: ToolCalls,
    pub single: bool,
    pub strict: bool,
}

impl ConstraintOptions {
    /// Returns the names of the options of a kind; `None` if there is no such kind.
    pub fn names_of(kind: &str) -> Option<impl Iterator<Item = &'static str> + Clone> {
        KINDS.iter().find(|(name, _)| *name == kind).map(|(_, names)| names.split(' '))
    }

    /// Reads the options of a kind from a JSON object.
    ///
    /// # Errors
    /// `InvalidJson`; `InvalidOption` for a kind or an option that does not exist, and for a value of
    /// another type.
    pub fn from_json(kind: &str, text: &str) -> Result<Self> {
        let Some(names) = Self::names_of(kind) else {
            let kinds = KINDS.map(|(name, _)| name);
            return Err(invalid(format!("there is no kind `{kind}`")).hint(hint("kinds", kind, &kinds)));
        };
        let names: Vec<&str> = names.collect();
        let given: Map<String, Value> = json("the options", text)?;
        if let Some(name) = given.keys().find(|name| !names.contains(&name.as_str())) {
            let message = format!("`{kind}` has no option `{name}`");
            return Err(invalid(message).hint(hint("options", name, &names)));
        }
        serde_json::from_value(Value::Object(given)).map_err(|e| invalid(format!("the options: {e}")))
    }

    /// Returns how JSON values are written.
    ///
    /// # Errors
    /// `InvalidOption` for a number out of range.
    pub fn policy(&self) -> Result<Policy> {
        let Self { key_order, exponent, equal_numbers, closed_objects, .. } = *self;
        let whitespace = self.whitespace.map_or(Ok(Whitespace::Compact), WhitespaceOption::read)?;
        Ok(Policy { whitespace, key_order, exponent, equal_numbers, closed_objects, ..Policy::default() })
    }

    /// Returns how spans of a text are taken.
    pub fn spans(&self) -> SubstringOptions {
        let bounds = match self.bounds {
            BoundsOption::Words => Bounds::Words,
            BoundsOption::Characters => Bounds::Characters,
        };
        SubstringOptions { bounds, min_chars: self.min_chars.0 }
    }

    /// Returns which calls a reply may have.
    pub fn tool_choice(&self) -> ToolChoice {
        let calls = match &*self.choice.0 {
            "auto" => Calls::Auto,
            "required" => Calls::Required,
            name => Calls::Function(name.to_owned()),
        };
        ToolChoice { calls, single: self.single }
    }

    /// Reads a tree of labels (JSON).
    ///
    /// # Errors
    /// As [`Labels::from_tree`].
    pub fn label_tree(&self, text: &str) -> Result<Labels> {
        let separator = self.path_separator.as_deref().unwrap_or(PATH_SEPARATOR);
        let tree = Labels::from_tree(text, separator)?;
        Ok(self.several(tree.paths(separator, self.levels)))
    }

    /// Returns a list of labels.
    pub fn label_list(&self, labels: Vec<String>) -> Labels {
        let list = Labels::new(labels);
        let list = match &self.path_separator {
            Some(separator) => list.paths(separator, self.levels),
            None => list,
        };
        self.several(list)
    }

    /// Sets the text before labels, and lets an output have several if there is a separator.
    fn several(&self, list: Labels) -> Labels {
        let mut list = list.lead(self.lead);
        if let Some(separator) = &self.separator {
            list = list.several(separator).at_least(self.at_least.0);
            list = self.at_most.into_iter().fold(list, Labels::at_most);
            if self.repeats {
                list = list.with_repeats();
            }
        }
        list
    }

    /// Returns the set of tokens of each position as a constraint.
    ///
    /// # Errors
    /// As [`Constraint::token_masks`].
    pub fn token_masks(&self, positions: Vec<Vec<TokenId>>) -> Result<Constraint> {
        let least = self.at_least.0;
        let most = (!self.unbounded).then_some(self.at_most.unwrap_or(least));
        Constraint::token_masks(&TokenMasks::new(positions).repeat(least, most))
    }

    /// Returns a machine over tokens as a constraint.
    pub fn token_fsm(&self, machine: Machine) -> Constraint {
        let mut fsm = TokenFsm::new();
        for (from, ids, to) in machine.transitions {
            fsm.add_transition(from, ids, to);
        }
        fsm.start_in(self.start);
        for state in machine.accept {
            fsm.accept(state);
        }
        for (state, name) in self.names.iter().flatten() {
            fsm.name(*state, name);
        }
        Constraint::token_fsm(&fsm)
    }
}

/// A machine over tokens as a value.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// State, ids, next state.
    pub transitions: Vec<(State, Vec<TokenId>, State)>,
    /// The states in which the output may end.
    pub accept: Vec<State>,
}

impl Constraint {
    /// Parses a constraint of the kind with this name; `options` is a JSON object.
    ///
    /// # Errors
    /// Those of [`ConstraintOptions::from_json`] and of [`with_options`](Self::with_options).
    #[doc(hidden)]
    pub fn of_kind(kind: &str, text: &str, options: &str) -> Result<Self> {
        Self::with_options(kind, text, ConstraintOptions::from_json(kind, options)?)
    }

    /// Parses a constraint of the kind with this name.
    ///
    /// # Errors
    /// Those of the constructor of the kind; `InvalidOption` for a kind that does not exist.
    #[doc(hidden)]
    pub fn with_options(kind: &str, text: &str, options: ConstraintOptions) -> Result<Self> {
        let builder = || Self::builder();
        let constraint = match kind {
            "json_schema" => schema(builder(), text, &options)?,
            "json_object" => builder().policy(options.policy()?).json_object()?,
            "regex" => builder().regex(text)?,
            "choice" => builder().choice(json::<Vec<String>>("the choices", text)?)?,
            "lark" => builder().lark(text)?,
            "gbnf" => builder().gbnf(text)?,
            "ebnf" => builder().ebnf(text)?,
            "structural_tag" => builder().policy(options.policy()?).structural_tag(text)?,
            "substring" => builder().substring(text, &options.spans())?,
            "pattern" => builder().pattern(text)?,
            "labels" if text.trim_start().starts_with('{') => Constraint::labels(&options.label_tree(text)?),
            "labels" => Constraint::labels(&options.label_list(json("the labels", text)?)),
            "token_masks" => options.token_masks(json("the positions", text)?)?,
            "token_fsm" => options.token_fsm(json("the machine", text)?),
            "tools" => {
                let style = options.style.as_deref().ok_or_else(|| {
                    invalid("the option `style` is missing").hint("it is the form of calls, such as `hermes`")
                })?;
                let style = ToolStyle::by_name(style)?;
                Tools::parse(text)?.constraint(style, &options.tool_choice(), options.policy()?)?
            }
            _ => return Err(invalid(format!("there is no kind `{kind}`"))),
        };
        if options.strict { constraint.strict() } else { Ok(constraint) }
    }
}

fn schema<'a>(
    mut builder: ConstraintBuilder<'a>,
    text: &str,
    options: &'a ConstraintOptions,
) -> Result<Constraint> {
    builder = builder.policy(options.policy()?);
    for (uri, document) in options.documents.iter().flatten() {
        builder = builder.document(uri, document);
    }
    if let Some(source) = &options.source {
        builder = builder.source(source, &options.spans());
    }
    builder.json_schema(text)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOption, message)
}

fn hint(what: &str, name: &str, known: &[&str]) -> String {
    match closest(name, known.iter().copied()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("the {what} are {}", known.join(", ")),
    }
}

fn json<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> Result<T> {
    serde_json::from_str(without_mark(text)).map_err(|e| {
        Error::new(ErrorKind::InvalidJson, format!("{what}: {e}")).at(Place::LineColumn(e.line(), e.column()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_parser_and_faults_have_names() {
        for (kind, names) in KINDS {
            // A kind without a parser would say that there is none.
            let made = Constraint::of_kind(kind, "[", "{}");
            assert!(made.is_ok() || !made.unwrap_err().message().contains("there is no kind"), "{kind}");
            let default = serde_json::to_value(ConstraintOptions::default()).unwrap();
            for name in names.split(' ') {
                let given = format!("{{\"{name}\": {}}}", default[name]);
                assert!(ConstraintOptions::from_json(kind, &given).is_ok(), "{kind}: {given}");
            }
        }
        let fault = |kind, text, options| Constraint::of_kind(kind, text, options).unwrap_err();
        let unknown = fault("json_shema", "{}", "{}");
        assert_eq!(unknown.hint_text(), Some("did you mean `json_schema`?"));
        assert_eq!(fault("regex", "a", r#"{"stric": true}"#).hint_text(), Some("did you mean `strict`?"));
        assert_eq!(fault("regex", "a", r#"{"bounds": "words"}"#).kind(), ErrorKind::InvalidOption);
        assert_eq!(fault("regex", "a", r#"{"strict": 1}"#).kind(), ErrorKind::InvalidOption);
        assert_eq!(fault("json_object", "", r#"{"whitespace": 65}"#).kind(), ErrorKind::InvalidOption);
        assert_eq!(fault("regex", "a", "[").kind(), ErrorKind::InvalidJson);
        assert_eq!(fault("choice", "[\n1]", "{}").places(), [Place::LineColumn(2, 1)]);
        assert_eq!(fault("tools", "[]", "{}").kind(), ErrorKind::InvalidOption);
    }
}
