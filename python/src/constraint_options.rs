//! The options of the methods that make a constraint; `ffwd.Constraint` describes them.

use std::collections::HashMap;

use ffwd_engine::constraint::substring::Bounds;
use ffwd_engine::constraint::token_machine::{Lead, Levels};
use ffwd_engine::{KeyOrder, Policy, Whitespace};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

/// Largest number of whitespace bytes at a position.
const MAX_WHITESPACE: u8 = 64;

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
    /// `ValueError` for a number out of range.
    pub fn read(self) -> PyResult<Whitespace> {
        match self {
            WhitespaceOption::Named(NamedWhitespace::Compact) => Ok(Whitespace::Compact),
            WhitespaceOption::Named(NamedWhitespace::SingleSpace) => Ok(Whitespace::SingleSpace),
            WhitespaceOption::Max(max @ 1..=MAX_WHITESPACE) => Ok(Whitespace::Flexible { max }),
            WhitespaceOption::Max(max) => {
                Err(PyValueError::new_err(format!("whitespace is {max}; expected 1 to {MAX_WHITESPACE}")))
            }
        }
    }
}

/// The option `bounds`.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BoundsOption {
    #[default]
    Words,
    Characters,
}

impl From<BoundsOption> for Bounds {
    fn from(option: BoundsOption) -> Self {
        match option {
            BoundsOption::Words => Bounds::Words,
            BoundsOption::Characters => Bounds::Characters,
        }
    }
}

/// The number of an option whose default is 1.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct OneByDefault(pub u32);

impl Default for OneByDefault {
    fn default() -> Self {
        OneByDefault(1)
    }
}

/// The option `choice`, which is "auto" by default.
#[derive(Serialize, Deserialize)]
pub(crate) struct ToolCalls(pub String);

impl Default for ToolCalls {
    fn default() -> Self {
        ToolCalls("auto".into())
    }
}

/// The options of all methods, each of which has some of them.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ConstraintOptions {
    whitespace: Option<WhitespaceOption>,
    key_order: KeyOrder,
    exponent: bool,
    equal_numbers: bool,
    closed_objects: bool,
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
    pub choice: ToolCalls,
    pub single: bool,
    pub strict: bool,
}

impl ConstraintOptions {
    /// # Errors
    /// `ValueError` for a number out of range.
    pub(crate) fn policy(&self) -> PyResult<Policy> {
        let Self { key_order, exponent, equal_numbers, closed_objects, .. } = *self;
        let whitespace = self.whitespace.map_or(Ok(Whitespace::Compact), WhitespaceOption::read)?;
        Ok(Policy { whitespace, key_order, exponent, equal_numbers, closed_objects, ..Policy::default() })
    }
}
