//! Choice of the calls that a reply must or may have.

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
