//! Warnings: what a constraint means differently from what its author may expect.
//!
//! A warning has a [`WarningKind`] to match on, a message, and a JSON pointer if it concerns a
//! location in a JSON document, as errors have. Plain texts were rejected: a program cannot sort or
//! show them by location.

use std::fmt;

/// Kind of a [`Warning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WarningKind {
    /// A keyword that the draft of JSON Schema does not have, probably a misspelling.
    UnknownKeyword,
    /// A keyword that the draft ignores at this location, such as a sibling of `$ref`.
    IgnoredKeyword,
    /// A schema inside of another object, such as a request; the schema is used.
    Unwrapped,
    /// A schema that is not empty and still allows any JSON value.
    Unconstrained,
    /// A `format` that is not known, so it is an annotation only.
    UnknownFormat,
    /// A name that occurs twice in a JSON object; the last value counts.
    DuplicateName,
    /// A member of a tool that is not known, probably a misspelling.
    UnknownMember,
    /// A tool that is left out of a list.
    MissingTool,
    /// A rule of a grammar that nothing uses.
    UnusedRule,
    /// Priorities in a grammar, which are ignored.
    IgnoredPriority,
    /// Look-around or an anchor in a terminal of a grammar, which sees the text of the terminal only.
    TerminalLookAround,
    /// A trigger of a structural tag that no tag begins with.
    UnusedTrigger,
    /// A transition of a token machine into a state from which nothing is accepted; it is removed.
    DeadTransition,
    /// Labels whose tokens differ from what the tokenizer writes next to the separator.
    LabelTokens,
    /// Text that is also a special token of the tokenizer, and is written as plain text here.
    SpecialToken,
    /// A part of a schema that the form of a prompt cannot show; it holds all the same.
    NotShown,
}

impl WarningKind {
    /// Returns a stable name for programs, such as `unknown_keyword`.
    pub fn code(self) -> &'static str {
        match self {
            WarningKind::UnknownKeyword => "unknown_keyword",
            WarningKind::IgnoredKeyword => "ignored_keyword",
            WarningKind::Unwrapped => "unwrapped",
            WarningKind::Unconstrained => "unconstrained",
            WarningKind::UnknownFormat => "unknown_format",
            WarningKind::DuplicateName => "duplicate_name",
            WarningKind::UnknownMember => "unknown_member",
            WarningKind::MissingTool => "missing_tool",
            WarningKind::UnusedRule => "unused_rule",
            WarningKind::IgnoredPriority => "ignored_priority",
            WarningKind::TerminalLookAround => "terminal_look_around",
            WarningKind::UnusedTrigger => "unused_trigger",
            WarningKind::DeadTransition => "dead_transition",
            WarningKind::LabelTokens => "label_tokens",
            WarningKind::SpecialToken => "special_token",
            WarningKind::NotShown => "not_shown",
        }
    }
}

/// One warning about a constraint.
///
/// ```
/// # fn main() -> ffwd_engine::Result<()> {
/// use ffwd_engine::{Constraint, WarningKind};
///
/// let constraint = Constraint::json_schema(r#"{"type": "string", "maxLenght": 3}"#)?;
/// let warning = &constraint.warnings()[0];
/// assert_eq!(warning.kind(), WarningKind::UnknownKeyword);
/// assert_eq!(warning.pointer(), Some("/maxLenght"));
/// assert!(warning.message().contains("did you mean `maxLength`"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    kind: WarningKind,
    pointer: Option<String>,
    message: String,
}

impl Warning {
    /// Creates a warning that concerns the whole constraint.
    pub fn new(kind: WarningKind, message: impl Into<String>) -> Self {
        Warning { kind, pointer: None, message: message.into() }
    }

    /// Sets the JSON pointer (RFC 6901, without `#`) of the location.
    pub fn at(mut self, pointer: impl Into<String>) -> Self {
        self.pointer = Some(pointer.into());
        self
    }

    /// Puts a pointer before that of the warning: the document became a part of another one.
    pub(crate) fn below(mut self, place: &str) -> Self {
        self.pointer = Some(format!("{place}{}", self.pointer.unwrap_or_default()));
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> WarningKind {
        self.kind
    }

    /// Returns the JSON pointer of the location, if it is in a JSON document. The empty pointer is
    /// the whole document.
    pub fn pointer(&self) -> Option<&str> {
        self.pointer.as_deref()
    }

    /// Returns the message without the pointer.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// Writes `#POINTER: MESSAGE`, or the message alone.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pointer {
            Some(pointer) => write!(f, "#{pointer}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
