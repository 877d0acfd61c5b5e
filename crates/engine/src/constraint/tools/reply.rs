//! A reply, taken apart: its text and its calls.

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
