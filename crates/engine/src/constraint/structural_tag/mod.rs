//! Structural tags: tool calls and other structure in free text, described in JSON.
//!
//! The JSON form is the one of inference servers.
//!
//! The text is parsed into a tree of formats (`parse`, `strict_object`, `embedded`). The tree
//! becomes one flat automaton (`graph`) whose edges are characters, regular nodes and JSON values.
//! Free text is a part of it (`free_text`, `trie`).
//!
//! # Documents
//! A document is `{"type":"structural_tag","format":F}`, or has the older form:
//!
//! ```json
//! {"type":"structural_tag","structures":[{"begin":B,"schema":S,"end":E},…],"triggers":[…]}
//! ```
//!
//! The older form is a `triggered_tags` whose contents are JSON values.
//!
//! | format | members | matches |
//! |---|---|---|
//! | `const_string` | `value` | this text |
//! | `token` | `token` | the text of this token |
//! | `json_schema` | `json_schema`, `any_order`?, `style`?, `max_whitespace_cnt`? | a JSON value, properties in any order, or as the policy says; or the parameters of a call (`parameters`) |
//! | `qwen_xml_parameter` | `json_schema` | the same in the style `qwen_xml` |
//! | `regex` | `pattern` | a text that matches as a whole |
//! | `any_text`, `any_tokens` | `excludes`?, `exclude_tokens`?, `min_chars`?, `max_chars`? | any text without the excluded ones |
//! | `sequence`, `or` | `elements` | all in order; one |
//! | `optional`, `star`, `plus` | `content` | at most once; any number; at least once |
//! | `repeat` | `content`, `min`?, `max`? | `min` to `max` times (`max` absent or -1: no limit) |
//! | `tag` | `begin`, `content`, `end` | the three; `end` may be a list of which one comes; each may be a `token` |
//! | `triggered_tags` | `triggers`, `start_triggers`?, `tags`, `excludes`?, `exclude_tokens`?, `at_least_one`?, `stop_after_first`? | free text with tags |
//! | `tags_with_separator` | `tags`, `separator`, `at_least_one`?, `stop_after_first`? | tags and nothing else |
//! | `token_triggered_tags` | `trigger_tokens`, the others as for `triggered_tags` | the same |
//! | `dispatch`, `token_dispatch` | `rules`, `loop`?, `excludes`?, `exclude_tokens`? | free text with patterns, each followed by its format |
//!
//! A member that is `null` is absent. `min_tokens`, `max_tokens`, and `excludes` of a `json_schema`
//! are known and refused, because they cannot be enforced here.
//!
//! # Tokens
//! Tokens are named by their text and mean that text. Token numbers depend on a vocabulary, which
//! is not known here. `exclude_tokens` is a list of such texts and adds to `excludes`.
//!
//! # Counts
//! `min_chars` and `max_chars` count the characters of a free text, without the text that ends it.
//! `max_whitespace_cnt` bounds the white space that the policy allows. The smallest one of a document
//! holds for all of its schemas.
//!
//! # Free text
//! Free text (`any_text`, and the text around the tags of `triggered_tags`) is any Unicode text.
//!
//! - It ends where what follows first begins. It does not contain the end of the tag around it, nor
//!   any other text with which what follows can begin. What follows must begin with fixed texts, or
//!   be the end of the output.
//! - It contains no trigger. After a trigger, a tag that begins with it must follow (or an end that
//!   does).
//! - It contains no excluded text. An excluded text that overlaps with the trigger or end after it
//!   is not contained.
//! - `at_least_one`: it cannot end before a tag. `stop_after_first`: it ends with the first tag.
//!   Text may precede the first tag in any case.
//! - `dispatch`: a rule is `[pattern, format]`, a tag that begins with its trigger and has an empty
//!   end. `loop` (true if absent) is the opposite of `stop_after_first`.
//! - An empty `end` is no text: whatever follows the tag ends its content.
//!
//! # Styles
//! The styles of a `json_schema` are `json`, and `qwen_xml`, `minimax_xml`, `deepseek_xml`,
//! `deepseek_v4_1_xml`, `glm_xml` for the parameters of a call in tags. `docs/constraints.md` describes how they are
//! written, and which names and values they cannot express.
//!
//! # Cost
//! Linear in the document, plus the cost of its schemas.
//!
//! # Alternatives considered
//! Watching the output from outside and switching between constraints at a trigger was rejected. It
//! is not exact where one token contains the end of a trigger and the beginning of what follows.

mod ast;
mod embedded;
mod free_text;
mod graph;
mod lower;
mod parameters;
mod parse;
mod strict_object;
#[cfg(test)]
mod tests;
mod trie;

pub(super) use parameters::Tags;

use super::ir::{Ir, NodeId, Quoting};
use super::json::document::{Doc, Value};
use super::policy::{Policy, Whitespace};
use crate::error::Result;
use crate::warning::{Warning, WarningKind};

/// The pointer and the node of each schema of a document.
type SchemaNodes = Vec<(String, NodeId)>;

/// Returns the tags of parameters in the style of this name; `None` for JSON.
pub(super) fn tags(style: &str) -> Option<parameters::Tags> {
    parameters::Style::NAMED.iter().find(|named| named.0 == style).map(|(_, style)| style.tags())
}

/// Parses a structural tag. Strings with `x-verbatim` in its schemas copy from `source`. Returns the
/// policy, too, which the document may narrow, and the pointer and the node of each of its schemas.
///
/// # Errors
/// Returns `InvalidJson` with line and column for text that is not JSON. The other errors have the
/// JSON pointer of the value:
///
/// - `InvalidSchema` for a malformed document or schema
/// - `Unsupported` for unknown members and types, for ambiguous openers, and for free text before a
///   format that does not begin with fixed text
/// - `InvalidPattern` for an invalid regular expression
/// - `TooComplex` beyond a limit
pub(super) fn parse(text: &str, policy: &Policy, source: Quoting<'_>) -> Result<(Ir, Policy, SchemaNodes)> {
    let doc = Doc::parse(text)?;
    let policy = narrowed(&doc, policy);
    let mut leaves = embedded::LeafParser::new(&policy, source);
    let format = parse::Reader { doc: &doc, leaves: &mut leaves }.document()?;
    let embedded::LeafParser { mut ir, places, .. } = leaves;
    if let Some((id, name)) = doc.duplicate {
        let (name, at) = (doc.name(name), doc.pointer(id));
        let message = format!("the name {name:?} occurs twice; the last one counts");
        ir.warnings.push(Warning::new(WarningKind::DuplicateName, message).at(at));
    }
    let root = lower::build(&doc, &mut ir, &format)?;
    ir.set_root(root);
    Ok((ir, policy, places))
}

/// Returns the policy with the smallest `max_whitespace_cnt` of the document.
fn narrowed(doc: &Doc, policy: &Policy) -> Policy {
    let (mut most, mut todo) = (None, vec![doc.root()]);
    while let Some(at) = todo.pop() {
        todo.extend_from_slice(doc.elements(at));
        for &(name, value) in doc.members(at) {
            match (doc.name(name), doc.value(value)) {
                ("json_schema" | "schema", _) => {}
                // Other values are refused where the format is read.
                ("max_whitespace_cnt", Value::Number(count)) => {
                    let count = doc.name(count).parse::<u32>().ok();
                    most = most.into_iter().chain(count).min();
                }
                _ => todo.push(value),
            }
        }
    }
    let whitespace = match (policy.whitespace, most) {
        (_, Some(0)) => Whitespace::Compact,
        (Whitespace::Flexible { max }, Some(most)) => {
            Whitespace::Flexible { max: max.min(u8::try_from(most).unwrap_or(u8::MAX)) }
        }
        (own, _) => own,
    };
    Policy { whitespace, ..policy.clone() }
}
