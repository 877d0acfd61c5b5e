//! Fields that describe a constraint: those of OpenAI, vLLM (with its legacy `guided_*`), llama.cpp
//! and SGLang. At most one of them may occur.

use serde_json::value::RawValue;

use super::api_error::{ApiError, ApiResult};
use super::fields::Fields;
use super::request::{FormatKind, FormatRequest};
use ffwd_runtime::constraint::Whitespace;

/// Longest whitespace between two tokens of JSON for clients that ask for free whitespace.
pub(super) const FREE_WHITESPACE: u8 = 32;

/// Members by which a schema is recognised where an object around one may stand.
const SCHEMA_WORDS: [&str; 7] = ["type", "properties", "$ref", "anyOf", "oneOf", "allOf", "enum"];

/// The value of a member that describes a constraint.
#[derive(Clone, Copy)]
enum Member {
    /// A schema, or its text.
    Schema,
    Regex,
    Choice,
    Grammar,
    /// True for any object.
    Object,
    /// A structural tag, or its text.
    Tag,
}

/// The fields of a body.
const FIELDS: &[(&str, Member)] = &[
    ("guided_json", Member::Schema),
    ("guided_regex", Member::Regex),
    ("guided_choice", Member::Choice),
    ("guided_grammar", Member::Grammar),
    ("guided_json_object", Member::Object),
    ("structural_tag", Member::Tag),
    ("regex", Member::Regex),
    ("json_schema", Member::Schema),
];
/// The members of the object `structured_outputs` of vLLM.
const STRUCTURED: &[(&str, Member)] = &[
    ("json", Member::Schema),
    ("regex", Member::Regex),
    ("choice", Member::Choice),
    ("grammar", Member::Grammar),
    ("json_object", Member::Object),
    ("structural_tag", Member::Tag),
];

/// Reads all fields of a body but `response_format`; the result is the only constraint of them.
pub(super) fn read_format(
    fields: &mut Fields,
    first: Option<FormatRequest>,
) -> ApiResult<Option<FormatRequest>> {
    let mut found: Vec<FormatRequest> = first.into_iter().collect();
    if let Some(outputs) = fields.object("structured_outputs")? {
        found.extend(structured_outputs(outputs)?);
    }
    found.extend(members(fields, FIELDS)?);
    for name in ["grammar", "ebnf"] {
        let grammar = fields.text(name)?.filter(|text| !text.is_empty());
        found.extend(grammar.map(|text| plain(FormatKind::Grammar(text), name)));
    }
    fields.refuse("guided_whitespace_pattern", &[], "use `structured_outputs.disable_any_whitespace`")?;
    // It says nothing beside another constraint.
    if found.len() > 1 && matches!(found[0].kind, FormatKind::JsonObject) {
        found.remove(0);
    }
    match (found.len(), found.get(1)) {
        (_, Some(second)) => {
            let message = format!("`{}` and `{}` both constrain the output", found[0].param, second.param);
            Err(ApiError::field(second.param.clone(), message).hint("leave one of them out"))
        }
        _ => Ok(found.pop()),
    }
}

/// Reads the members that describe constraints.
fn members(fields: &mut Fields, list: &[(&'static str, Member)]) -> ApiResult<Vec<FormatRequest>> {
    let mut found = Vec::new();
    for &(name, member) in list {
        let kind = match member {
            Member::Schema => fields.raw(name).map(|value| FormatKind::JsonSchema(text_or_json(value))),
            Member::Tag => fields.raw(name).map(|value| FormatKind::StructuralTag(text_or_json(value))),
            Member::Regex => fields.text(name)?.map(FormatKind::Regex),
            Member::Grammar => fields.text(name)?.map(FormatKind::Grammar),
            Member::Choice => {
                Some(fields.texts(name)?).filter(|list| !list.is_empty()).map(FormatKind::Choice)
            }
            Member::Object => (fields.flag(name)? == Some(true)).then_some(FormatKind::JsonObject),
        };
        found.extend(kind.map(|kind| plain(kind, fields.path_of(name))));
    }
    Ok(found)
}

/// Reads a `response_format`. `place` is the member with the schema in this protocol. Clients also put
/// it into the one of the other protocol, with or without the object around it, and beside the type
/// `json_object`.
pub(super) fn read_response_format(mut format: Fields, place: &str) -> ApiResult<Option<FormatRequest>> {
    let kind_path = format.path_of("type");
    let kind = format.needed_text("type")?;
    let request = match kind.as_str() {
        "text" => None,
        "json_object" | "json_schema" if format.has("json_schema") => {
            let path = format.path_of("json_schema");
            let value = format.needed("json_schema")?;
            let mut inner = Fields::item(value, path.clone())?;
            let bare = !inner.has("schema") && SCHEMA_WORDS.iter().any(|word| inner.has(word));
            if bare {
                Some(plain(FormatKind::JsonSchema(value.get().to_owned()), path))
            } else {
                let request = json_schema(&mut inner)?;
                inner.finish()?;
                Some(request)
            }
        }
        "json_object" | "json_schema" if format.has("schema") => Some(json_schema(&mut format)?),
        "json_object" => Some(plain(FormatKind::JsonObject, kind_path)),
        "json_schema" => return Err(ApiError::missing(&format.path_of(place))),
        "structural_tag" => return structural_tag(format).map(Some),
        "regex" | "grammar" => {
            let name = if kind == "regex" { "pattern" } else { "grammar" };
            let param = format.path_of(name);
            let text = format.needed_text(name)?;
            let kind = if kind == "regex" { FormatKind::Regex(text) } else { FormatKind::Grammar(text) };
            Some(plain(kind, param))
        }
        _ => {
            let known = "text, json_object, json_schema, structural_tag, regex and grammar";
            return Err(ApiError::unknown(&kind_path, &kind, known));
        }
    };
    format.finish()?;
    Ok(request)
}

fn json_schema(fields: &mut Fields) -> ApiResult<FormatRequest> {
    fields.text("name")?;
    fields.text("description")?;
    let closed = fields.flag("strict")?.unwrap_or(false);
    let param = fields.path_of("schema");
    let schema = fields.needed("schema")?;
    let kind = FormatKind::JsonSchema(text_or_json(schema));
    Ok(FormatRequest { closed, ..plain(kind, param) })
}

/// Reads a structural tag: the whole object is one.
fn structural_tag(mut format: Fields) -> ApiResult<FormatRequest> {
    let param = format.path_of("format");
    let mut members = vec!["\"type\":\"structural_tag\"".to_owned()];
    // The engine refuses the members that it does not know.
    for (name, value) in format.rest() {
        members.push(format!("{}:{}", serde_json::Value::from(name), value.get()));
    }
    Ok(plain(FormatKind::StructuralTag(format!("{{{}}}", members.join(","))), param))
}

/// Reads the object `structured_outputs` of vLLM.
fn structured_outputs(mut outputs: Fields) -> ApiResult<Vec<FormatRequest>> {
    let mut found = members(&mut outputs, STRUCTURED)?;
    let whitespace = match outputs.flag("disable_any_whitespace")? {
        None => None,
        Some(true) => Some(Whitespace::Compact),
        Some(false) => Some(Whitespace::Flexible { max: FREE_WHITESPACE }),
    };
    let closed = outputs.flag("disable_additional_properties")?.unwrap_or(false);
    outputs.refuse("whitespace_pattern", &[], "use `disable_any_whitespace`")?;
    outputs.refuse("disable_fallback", &["true", "false"], "there is one engine of constraints")?;
    outputs.finish()?;
    for format in &mut found {
        (format.whitespace, format.closed) = (whitespace, closed);
    }
    Ok(found)
}

fn plain(kind: FormatKind, param: impl Into<String>) -> FormatRequest {
    FormatRequest { kind, param: param.into(), whitespace: None, closed: false }
}

/// Returns the content of a string, which is JSON itself, or the text of another value.
fn text_or_json(value: &RawValue) -> String {
    serde_json::from_str::<String>(value.get()).unwrap_or_else(|_| value.get().to_owned())
}
