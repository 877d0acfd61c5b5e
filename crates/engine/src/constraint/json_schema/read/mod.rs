//! Reading: a document, its keywords and references, and the context of one run.
//!
//! - `keywords` is the table of keywords, over `drafts` and `types`. `schema_positions` answers
//!   from
//!   it. `misspelling` and `unknown_keywords` report names that are no keywords.
//! - `wrapper` finds the schema inside of a request. `draft_inference` and `dialect` recognise
//!   older
//!   drafts and other dialects.
//! - `refs`, `uri`, `documents` and `dynamic_scope` resolve references. `dedup` makes equal schemas
//!   one.
//! - `context` is the context of one run, with `text_automata` (patterns, formats, spans) and
//!   `synthetic` (schemas that a merge needs and no document has).
//! - `keyword_values` reads and checks values, with `number_formats` (machine types). `json_values`
//!   writes and compares literals.

mod context;
mod dedup;
mod dialect;
mod documents;
mod draft_inference;
mod drafts;
mod dynamic_scope;
mod json_values;
mod keyword_values;
mod keywords;
mod misspelling;
mod number_formats;
mod refs;
mod schema_positions;
mod synthetic;
mod text_automata;
mod types;
mod unknown_keywords;
mod uri;
mod wrapper;

pub(crate) use self::context::{MAX_STEPS, SchemaContext, UnsatCause};
pub(crate) use self::documents::Documents;
pub(crate) use self::drafts::SchemaDraft;
pub(crate) use self::keyword_values::{Bound, NameList, Schemas, only_word};
pub(crate) use self::keywords::{Evaluates, IN_PLACE, Keyword, Operand, REFERENCES, language, set};
pub(crate) use self::number_formats::NumberFormat;
pub(crate) use self::synthetic::of_length;
pub(crate) use self::text_automata::{Quoted, StringTest, Test, join, prepare_formats, restrict};
pub(crate) use self::types::Types;
pub(crate) use self::unknown_keywords::warn_unknown;

use self::unknown_keywords::report_unknown;
use crate::constraint::json::document::Doc;
pub(super) use crate::constraint::json::document::{Id, Symbol, Value};
use crate::constraint::policy::Policy;
use crate::error::Result;
use crate::warning::WarningKind;

/// Reads a document and those that it refers to.
pub(super) fn read<'p>(
    schema: &str,
    policy: &'p Policy,
    documents: &Documents<'_>,
) -> Result<SchemaContext<'p>> {
    let mut doc = Doc::of(language(), schema)?;
    let unwrapped = wrapper::unwrap(&mut doc);
    let mut context = SchemaContext::new(doc, policy, documents)?;
    let open = context.is_true(context.doc.root());
    let unwrapped = unwrapped.filter(|w| w.kind() != WarningKind::Unconstrained || open);
    context.warnings.extend(unwrapped);
    report_unknown(&mut context);
    Ok(context)
}
