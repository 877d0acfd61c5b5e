//! One function of a list, and what is reported about it.

use serde_json::Value;

use crate::constraint::ir::ToolSchema;
use crate::error::{Error, ErrorKind, Place};
use crate::warning::{Warning, WarningKind};

/// A function that a model may call.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    pub name: String,
    /// Schema of the arguments, as text: numbers in it keep their digits.
    pub schema: String,
    /// JSON pointer of the schema in the list; of the function itself, if it has no schema.
    pub pointer: String,
    /// The entry of the list, as text.
    pub entry: String,
}

impl Tool {
    /// Returns true if its arguments may be absent. May also return false then, for schemas that
    /// are not simple.
    pub(super) fn needs_nothing(&self) -> bool {
        const SIMPLE: [&str; 10] = [
            "type",
            "properties",
            "required",
            "additionalProperties",
            "title",
            "description",
            "$schema",
            "$defs",
            "definitions",
            "examples",
        ];
        let Ok(Value::Object(schema)) = serde_json::from_str(&self.schema) else { return false };
        let required = schema.get("required").and_then(Value::as_array);
        schema.get("type").is_some_and(|kind| kind == "object")
            && schema.keys().all(|name| SIMPLE.contains(&name.as_str()))
            && required.is_none_or(Vec::is_empty)
    }
}

impl ToolSchema {
    /// Returns the error for a schema that allows nothing.
    pub(crate) fn impossible(&self) -> Error {
        let message = format!("the tool `{}`: no arguments satisfy its schema", self.name);
        Error::new(ErrorKind::Unsatisfiable, message).at(Place::Pointer(self.pointer.clone())).hint(
            "look for contradictory bounds, required properties that cannot exist, recursion without an \
             end, or characters that the tokenizer does not have",
        )
    }

    /// Returns the warning that the tool is left out because its schema allows nothing.
    pub(crate) fn left_out(&self) -> Warning {
        left_out(&self.impossible(), &self.pointer)
    }
}

/// Returns the warning about a tool that is left out.
pub(super) fn left_out(error: &Error, pointer: &str) -> Warning {
    let message = format!("this tool is left out: {}: {}", error.kind(), error.message());
    Warning::new(WarningKind::MissingTool, message).at(error.pointer().unwrap_or(pointer))
}
