//! Reports of names that are no keywords: misspellings, keywords of other drafts and dialects, and
//! anything else that a schema has. Names that begin with `x-` are extensions and not reported.
//!
//! # Cost
//!
//! Only schemas with such names are looked at. Each name is reported once.

use super::context::SchemaContext;
use super::keywords::{Definition, Keyword};
use super::misspelling::did_you_mean;
use super::refs::shorten;
use crate::constraint::json::document::{Id, Symbol};
use crate::warning::WarningKind;

/// Maximum number of unknown names that are reported one by one.
const MAX_REPORTED: usize = 50;

/// Reports unknown names in all schemas of the documents, in the order of the text.
pub(super) fn report_unknown(context: &mut SchemaContext<'_>) {
    context.warnings.append(&mut context.refs.warnings);
    let mut members: Vec<(Id, Symbol)> = Vec::new();
    for schema in std::mem::take(&mut context.refs.with_strange) {
        members.extend(context.doc.members(schema).iter().map(|&(name, at)| (at, name)));
    }
    // Values have their numbers in the order of the text.
    members.sort_unstable();
    members.retain(|&(_, name)| !context.draft.knows(name));
    if !members.is_empty() {
        note_referred(context);
    }
    for (at, name) in members {
        check_name(context, name, at);
    }
}

/// Notes the names on the paths of references: what a reference leads through is not ignored.
fn note_referred(context: &mut SchemaContext<'_>) {
    for id in (0..context.doc.len() as u32).map(Id) {
        let target = context.doc.get(id, Keyword::Ref).and_then(|at| context.doc.string(at));
        let path = target.and_then(|name| context.doc.name(name).split_once("#/"));
        let steps = path.into_iter().flat_map(|(_, path)| path.split('/'));
        context.refs.understood.extend(steps.filter_map(|step| context.doc.lookup(step)));
    }
}

/// Reports the unknown names of a schema.
pub(crate) fn warn_unknown(context: &mut SchemaContext<'_>, id: Id) {
    if !context.doc.names(id).meet(context.unknown_keywords) {
        return;
    }
    for i in 0..context.doc.members(id).len() {
        let (name, at) = context.doc.members(id)[i];
        check_name(context, name, at);
    }
}

/// Reports a name if it is unknown and was not reported.
fn check_name(context: &mut SchemaContext<'_>, name: Symbol, at: Id) {
    let known = context.draft.knows(name);
    if known || context.refs.understood.contains(&name) || !context.checked.insert(name) {
        return;
    }
    match context.checked.len() {
        ..=MAX_REPORTED => report_name(context, name, at),
        number if number == MAX_REPORTED + 1 => {
            let message = "there are more unknown keywords; these are not listed";
            context.warn(WarningKind::UnknownKeyword, name, at, message);
        }
        _ => {}
    }
}

fn report_name(context: &mut SchemaContext<'_>, name: Symbol, at: Id) {
    let word = context.doc.name(name);
    if word.starts_with("x-") && word != "x-nullable" {
        context.checked.remove(&name);
        return;
    }
    let word: String = shorten(word);
    let message = match (hint(&word), did_you_mean(&word)) {
        (Some(hint), _) => format!("`{word}` is not a keyword of this draft of JSON Schema; {hint}"),
        (None, _) if Definition::of(name).is_some() => {
            format!("`{word}` is not a keyword of this draft of JSON Schema")
        }
        (None, Some(meant)) => format!("unknown keyword `{word}` is ignored; did you mean `{meant}`?"),
        (None, None) => format!("unknown keyword `{word}` is ignored"),
    };
    context.warn(WarningKind::UnknownKeyword, name, at, &message);
}

/// Returns the way to say in JSON Schema what a keyword of another dialect says.
fn hint(word: &str) -> Option<&'static str> {
    Some(match word {
        "nullable" | "x-nullable" => "add \"null\" to `type`",
        "optional" => "properties are optional unless `required` lists them",
        "mandatory" | "isRequired" => "list the property in the `required` of its object",
        "divisibleBy" => "write `multipleOf`",
        "extends" => "write `allOf`",
        "disallow" => "write `not`",
        "bsonType" => "write `type`",
        "discriminator" => "give the alternatives a property with different `const` values",
        "example" => "`examples` takes a list",
        "min" => "write `minimum`, `minLength` or `minItems`",
        "max" => "write `maximum`, `maxLength` or `maxItems`",
        "regex" | "regexp" => "write `pattern`",
        "values" => "write `enum`",
        "fields" => "write `properties`",
        "length" => "write `minLength` and `maxLength`",
        _ => return None,
    })
}
