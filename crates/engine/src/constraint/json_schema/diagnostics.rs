//! Diagnostics of one run: warnings, and why nothing satisfies a schema.
//!
//! # Cost
//!
//! Each warning is made once for a kind and a name.

use std::borrow::Cow;

use rustc_hash::FxHashSet;

use crate::constraint::json::document::{Doc, Id, Symbol};
use crate::warning::{Warning, WarningKind};

/// A schema, and the reason why nothing satisfies it. Most reasons are fixed texts, and most are
/// never shown.
pub(super) type UnsatCause = (Id, Cow<'static, str>);

/// Warnings of one run.
#[derive(Default)]
pub(super) struct Diagnostics {
    pub warnings: Vec<Warning>,
    warned: FxHashSet<(WarningKind, Symbol)>,
    /// Unknown keywords that were checked for misspellings.
    pub unknown: FxHashSet<Symbol>,
}

impl Diagnostics {
    /// Adds a warning, once per kind and name.
    pub fn warn(&mut self, doc: &Doc, kind: WarningKind, name: Symbol, at: Id, message: &str) {
        if self.warned.insert((kind, name)) {
            self.warnings.push(Warning::new(kind, message).at(doc.pointer(at)));
        }
    }
}
