//! What the rule of an object or of an array must remember of its entries.

use crate::constraint::ir::{Node, NodeId, Object};
use crate::machine::intern::Nodes;

/// The memory that the rule of a node needs.
pub(crate) enum Memory {
    /// None.
    None,
    /// Undeclared names, of which there are always more.
    Names,
    /// A register with a table of its properties.
    Members,
}

/// Returns the memory that the rule of a node needs.
pub(crate) fn memory(ir: Nodes<'_>, node: NodeId, any_order: bool) -> Memory {
    let object = match ir.node(node) {
        Node::JsonObject(object) => object,
        Node::JsonSet { .. } => return Memory::Members,
        _ => return Memory::None,
    };
    let extras = object.extra.iter().chain(object.demand.iter().map(|d| &d.entry));
    let declared = object.properties.len();
    let any_order = any_order || object.any_order;
    if is_counted(object) || any_order && declared + extras.clone().count() > 1 {
        return Memory::Members;
    }
    match (extras.clone().next(), extras.clone().any(|e| e.keys.is_some())) {
        (None, _) => Memory::None,
        (Some(_), false) => Memory::Names,
        (Some(_), true) => Memory::Members,
    }
}

/// Returns true if the bounds of an object restrict it more than its properties do.
pub(crate) fn is_counted(object: &Object) -> bool {
    let required = object.properties.iter().filter(|p| p.required).count();
    let open = !object.extra.is_empty() || !object.demand.is_empty();
    let high = object.max.is_some_and(|max| open || (max as usize) < object.properties.len());
    object.min as usize > required || high
}
