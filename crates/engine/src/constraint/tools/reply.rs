//! A reply: the calls that it must or may have, and its text and calls, taken apart.

/// A parsed reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// Thoughts of the model, in styles that separate them (`harmony`); a line break between two
    /// thoughts.
    pub thoughts: String,
    /// The text around the calls.
    pub text: String,
    /// The calls, in their order.
    pub calls: Vec<ToolCall>,
}

/// One call of a function.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ToolCall {
    /// Name of the function.
    pub name: String,
    /// Its arguments, a JSON object as text.
    pub arguments: String,
}

/// Choice of the calls in a reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolChoice {
    /// Content of the reply.
    pub calls: Calls,
    /// True to permit at most one call.
    pub single: bool,
}

/// Content of a reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Calls {
    /// Free text, in which calls may occur.
    #[default]
    Auto,
    /// Calls, at least one, and nothing else.
    Required,
    /// One call of the function with this name.
    Function(String),
}

/// A call in another spelling than that of the style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrayCall {
    /// The name of the function.
    pub name: String,
    /// The text up to the arguments, a JSON object.
    pub begin: String,
    /// The text after them.
    pub end: &'static str,
}
