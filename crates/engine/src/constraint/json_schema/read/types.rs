//! Set of JSON types.

use crate::constraint::json::document::Value;

/// Set of JSON types; the two booleans and the two kinds of numbers are separate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Types(pub u8);

impl Default for Types {
    fn default() -> Self {
        Types::ALL
    }
}

impl Types {
    pub(crate) const NONE: Types = Types(0);
    pub(crate) const NULL: Types = Types(1);
    pub(crate) const TRUE: Types = Types(2);
    pub(crate) const FALSE: Types = Types(4);
    pub(crate) const BOOL: Types = Types(6);
    pub(crate) const INT: Types = Types(8);
    pub(crate) const FRACTION: Types = Types(16);
    pub(crate) const NUMBER: Types = Types(24);
    pub(crate) const STRING: Types = Types(32);
    pub(crate) const ARRAY: Types = Types(64);
    pub(crate) const OBJECT: Types = Types(128);
    pub(crate) const ALL: Types = Types(255);

    /// Returns the types that a value of this form may have.
    pub(crate) fn of_form(value: Value) -> Types {
        match value {
            Value::Null => Types::NULL,
            Value::Bool(true) => Types::TRUE,
            Value::Bool(false) => Types::FALSE,
            Value::Number(_) => Types::NUMBER,
            Value::String(_) => Types::STRING,
            Value::Array { .. } => Types::ARRAY,
            Value::Object { .. } => Types::OBJECT,
        }
    }

    pub(crate) const fn and(self, other: Types) -> Types {
        Types(self.0 & other.0)
    }

    pub(crate) const fn or(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Types) -> Types {
        Types(self.0 & !other.0)
    }

    pub(crate) const fn meets(self, other: Types) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
