//! JSON objects, and objects whose properties are written in a markup.

use std::sync::Arc;

use compact_str::CompactString;

use super::ids::NodeId;

/// A JSON object. Declared properties appear in their order, and optional ones may be left out.
/// Undeclared properties come last, in any order. If the policy or the object says so, all
/// properties come in any order. Names are decoded text, and no name occurs twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Object {
    /// The declared properties, in the order in which they are written.
    pub properties: Vec<Property>,
    /// Undeclared properties; empty: none. The key languages of the entries must not overlap.
    /// Declared names are never written as undeclared ones.
    pub extra: Vec<Extra>,
    /// Required undeclared properties, among any number of those in `extra`. Their keys may overlap
    /// with those of `extra`. Each must have more possible keys than an object can have, unless the
    /// names alone meet the demand.
    pub demand: Vec<Demand>,
    /// Minimum number of properties of any kind.
    pub min: u32,
    /// Maximum number of properties of any kind.
    pub max: Option<u32>,
    /// True if properties come in any order, whatever the policy says.
    pub any_order: bool,
    /// The markup of the properties; `None`: JSON.
    pub markup: Option<Arc<Markup>>,
}

impl Object {
    /// Returns the values of all properties, declared or not.
    pub(in crate::constraint) fn values(&self) -> impl Iterator<Item = NodeId> + '_ {
        let entries = self.extra.iter().chain(self.demand.iter().map(|d| &d.entry));
        self.properties.iter().map(|p| p.value).chain(entries.map(|entry| entry.value))
    }
}

/// A markup for the properties of an object, without braces, quotes, colons and commas. A property
/// is `open`, the unescaped name, `named`, and the value with its closing text. Every undeclared
/// property has a language of names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Markup {
    /// The text before a name.
    pub open: Box<str>,
    /// The text between a name and its value.
    pub named: Box<str>,
    /// The gap before the first property.
    pub first: Gap,
    /// The gap between two properties.
    pub between: Gap,
    /// The gap after the last property.
    pub last: Gap,
}

/// White space in a [`Markup`]. A policy with flexible white space replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Gap {
    /// Nothing.
    #[default]
    None,
    /// A line break.
    Line,
    /// A line break or nothing.
    MayLine,
    /// A comma and a blank.
    Comma,
}

/// A declared property of an [`Object`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Property {
    /// The decoded name, stored in the property itself if it is short: most are.
    pub name: CompactString,
    /// The value. A `Never` value forbids the name (also as an undeclared one).
    pub value: NodeId,
    /// True if the property must be present.
    pub required: bool,
}

/// An undeclared property of an [`Object`] that meets conditions. The properties present must
/// together meet every condition of all demands, and each must meet a new one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Demand {
    /// The conditions it meets, one bit each, at most [`MAX_DEMANDS`].
    pub meets: u32,
    /// True if every undeclared property with such a name meets the conditions, because the entries
    /// of `extra` with that name require the same of the value. Then few names suffice.
    pub by_name: bool,
    /// Its name and value.
    pub entry: Extra,
}

/// Maximum number of conditions on the undeclared properties of one object.
pub const MAX_DEMANDS: u32 = 6;

/// Undeclared properties of an [`Object`] whose decoded names are in `keys`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Extra {
    /// Regular language of the decoded names; `None`: all names.
    pub keys: Option<NodeId>,
    /// The value.
    pub value: NodeId,
}
