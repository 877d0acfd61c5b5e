//! The schemas of tools, which compiling checks one by one.

use super::ids::NodeId;

/// The schema of a tool in a constraint. Only compiling shows whether some schemas allow anything.
#[derive(Debug, Clone)]
pub(crate) struct ToolSchema {
    /// The node of the arguments.
    pub node: NodeId,
    pub name: String,
    /// JSON pointer of the schema in the list of tools.
    pub pointer: String,
    /// True if the tool may be left out.
    pub skipped: bool,
}
