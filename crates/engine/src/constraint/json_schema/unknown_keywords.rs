//! Reports of names that are no keywords: misspellings, keywords of other drafts and dialects, and
//! anything else that a schema has. Names that begin with `x-` are extensions and not reported.
//!
//! # Cost
//!
//! Only schemas with such names are looked at. Each name is reported once.

use super::context::SchemaContext;
use super::keywords as kw;
use crate::constraint::json::document::{Id, Symbol};
use crate::warning::WarningKind;

/// Maximum number of unknown names that are reported one by one.
const MAX_REPORTED: usize = 50;

impl SchemaContext<'_> {
    /// Reports unknown names in all schemas of the documents, in the order of the text.
    pub fn report_unknown(&mut self) {
        self.ir.warnings.append(&mut self.refs.warnings);
        let mut members: Vec<(Id, Symbol)> = Vec::new();
        for schema in std::mem::take(&mut self.refs.with_strange) {
            members.extend(self.doc.members(schema).iter().map(|&(name, at)| (at, name)));
        }
        // Values have their numbers in the order of the text.
        members.sort_unstable();
        members.retain(|&(_, name)| name.0 >= kw::COUNT || !self.draft.knows(name));
        if !members.is_empty() {
            self.note_referred();
        }
        for (at, name) in members {
            self.check_name(name, at);
        }
    }

    /// Notes the names on the paths of references: what a reference leads through is not ignored.
    fn note_referred(&mut self) {
        for id in (0..self.doc.len() as u32).map(Id) {
            let target = self.doc.get(id, kw::REF).and_then(|at| self.doc.string(at));
            let path = target.and_then(|name| self.doc.name(name).split_once("#/"));
            let steps = path.into_iter().flat_map(|(_, path)| path.split('/'));
            self.refs.understood.extend(steps.filter_map(|step| self.doc.lookup(step)));
        }
    }

    /// Reports the unknown names of a schema.
    pub fn warn_unknown(&mut self, id: Id) {
        if !self.doc.keyword_set(id).meet(self.unknown_keywords) {
            return;
        }
        for i in 0..self.doc.members(id).len() {
            let (name, at) = self.doc.members(id)[i];
            self.check_name(name, at);
        }
    }

    /// Reports a name if it is unknown and was not reported.
    fn check_name(&mut self, name: Symbol, at: Id) {
        let known = name.0 < kw::COUNT && self.draft.knows(name);
        if known || self.refs.understood.contains(&name) || !self.unknown.insert(name) {
            return;
        }
        match self.unknown.len() {
            ..=MAX_REPORTED => self.report_name(name, at),
            number if number == MAX_REPORTED + 1 => {
                let message = "there are more unknown keywords; these are not listed";
                self.warn(WarningKind::UnknownKeyword, name, at, message);
            }
            _ => {}
        }
    }

    fn report_name(&mut self, name: Symbol, at: Id) {
        let word = self.doc.name(name);
        if word.starts_with("x-") && word != "x-nullable" {
            self.unknown.remove(&name);
            return;
        }
        let word: String = super::refs::shorten(word);
        let message = match (hint(&word), kw::did_you_mean(&word)) {
            (Some(hint), _) => format!("`{word}` is not a keyword of this draft of JSON Schema; {hint}"),
            (None, _) if name.0 < kw::COUNT => {
                format!("`{word}` is not a keyword of this draft of JSON Schema")
            }
            (None, Some(meant)) => format!("unknown keyword `{word}` is ignored; did you mean `{meant}`?"),
            (None, None) => format!("unknown keyword `{word}` is ignored"),
        };
        self.warn(WarningKind::UnknownKeyword, name, at, &message);
    }
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
