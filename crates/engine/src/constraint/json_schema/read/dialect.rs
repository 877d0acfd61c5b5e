//! Keywords of neighbouring dialects, rewritten as keywords of JSON Schema.
//!
//! | keyword | dialect | rewritten as |
//! | --- | --- | --- |
//! | `nullable`, `x-nullable` | OpenAPI 3.0, Swagger 2 | `anyOf` of the schema and `null` |
//! | `required: true` in a property | draft 3 | `required` around it |
//! | `divisibleBy` | draft 3 | `multipleOf` |
//! | `disallow`, `extends` | draft 3 | `not`, `allOf` |
//! | `type` with `any` or with schemas | draft 3 | nothing, or `anyOf` |
//! | `bsonType` | MongoDB | `type`, with a `format` for `int` and `long` |
//!
//! This applies to documents that name no draft, and to those that name another dialect. In a draft
//! from 4 on these are unknown keywords: they assert nothing and are reported.
//!
//! # Cost
//!
//! A few lookups in the table of names, and one pass over the keyword sets. Only a document that
//! has one of these keywords is copied, once.
//!
//! # Alternatives considered
//!
//! Reading these keywords where schemas are merged, negated and validated: each of these places
//! would have to know all of them.

use super::keywords::{ASSERTING, Keyword, PassiveKeyword};
use super::schema_positions::Role;
use crate::constraint::json::document::{Doc, Id, Symbol, Value};
use crate::warning::{Warning, WarningKind};

/// Keywords that are rewritten and are none of JSON Schema.
const FOREIGN: [&str; 6] = ["nullable", "x-nullable", "divisibleBy", "disallow", "extends", "bsonType"];

/// Outcome of rewriting a schema.
#[derive(Default)]
pub(super) struct Rewritten {
    /// Names that are understood, so they are not unknown keywords.
    pub understood: Vec<Symbol>,
    /// Nullable schemas: the choice between the schema and `null`, with the schema.
    pub nullable: Vec<(Id, Id)>,
    pub warnings: Vec<Warning>,
}

/// Rewrites a schema and everything below it. Returns the new root, or `None` if it has none of
/// these keywords. `draft3` is true for a document that names draft 3 or older.
pub(super) fn rewrite(doc: &mut Doc, root: Id, draft3: bool) -> Option<(Id, Rewritten)> {
    let any = doc.lookup("any");
    let understood: Vec<Symbol> = FOREIGN.iter().filter_map(|word| doc.lookup(word)).collect();
    let flags = has_flags(doc, root) || draft3;
    if understood.is_empty() && !flags && !has_old_types(doc, any) {
        return None;
    }
    let done = Rewritten { understood, ..Rewritten::default() };
    let mut rewriter = Rewriter { doc, any, flags, like: Vec::new(), done };
    let new = rewriter.schema(root);
    let Rewriter { doc, like, done, .. } = rewriter;
    doc.replace_root(root, new);
    for (made, original) in like {
        doc.locate_as(made, original);
    }
    Some((new, done))
}

/// Returns true if a property has `required: true` or `required: false`.
fn has_flags(doc: &Doc, root: Id) -> bool {
    let flagged =
        |id: Id| doc.get(id, Keyword::Required).is_some_and(|at| matches!(doc.value(at), Value::Bool(_)));
    if !(0..doc.len() as u32).map(Id).any(flagged) {
        return false;
    }
    let mut found = false;
    doc.each_schema(root, |id| {
        let properties = doc.get(id, Keyword::Properties);
        found |= properties.is_some_and(|at| doc.members(at).iter().any(|m| flagged(m.1)));
    });
    found
}

/// Returns true if some `type` is `any`, or a list with it or with schemas.
fn has_old_types(doc: &Doc, any: Option<Symbol>) -> bool {
    (0..doc.len() as u32).any(|id| doc.get(Id(id), Keyword::Type).is_some_and(|at| is_old_type(doc, at, any)))
}

/// Returns true if a `type` is `any` or a list with schemas or `any` in it.
fn is_old_type(doc: &Doc, at: Id, any: Option<Symbol>) -> bool {
    let old = |id: Id| match doc.value(id) {
        Value::String(name) => Some(name) == any,
        Value::Object { .. } => true,
        _ => false,
    };
    let only_any = matches!(doc.value(at), Value::String(name) if Some(name) == any);
    only_any || doc.elements(at).iter().any(|&e| old(e))
}

struct Rewriter<'d> {
    doc: &'d mut Doc,
    /// The type `any`, if the document has the word.
    any: Option<Symbol>,
    /// True if `required` may be a boolean.
    flags: bool,
    /// Values that have, in messages, the location of another one.
    like: Vec<(Id, Id)>,
    done: Rewritten,
}

/// Name of a member that is left out.
const REMOVED: Symbol = Symbol(u32::MAX);

/// What the keywords of one schema add to it.
#[derive(Default)]
struct Additions {
    members: Vec<(Symbol, Id)>,
    /// Schemas that apply as well.
    all_of: Vec<Id>,
    /// Properties that must exist.
    required: Vec<Symbol>,
    nullable: bool,
}

impl Rewriter<'_> {
    /// Copies a schema or a list of schemas; children come before their parents, as the arena has
    /// them.
    fn schema(&mut self, id: Id) -> Id {
        match self.doc.value(id) {
            Value::Array { .. } => {
                let elements = self.doc.elements(id).to_vec();
                let copies: Vec<Id> = elements.into_iter().map(|e| self.schema(e)).collect();
                self.array(&copies)
            }
            Value::Object { .. } => self.object(id),
            _ => id,
        }
    }

    fn object(&mut self, id: Id) -> Id {
        let (mut members, mut more) = (self.doc.members(id).to_vec(), Additions::default());
        for (name, at) in &mut members {
            let before = *at;
            match Role::Schema.of_member(*name) {
                Role::Named => *at = self.named(*name, before, &mut more),
                Role::Schema => {
                    more.nullable |= *name == Keyword::AllOf && self.part_is_nullable(before);
                    *at = self.schema(before);
                }
                Role::Data => self.keyword(id, name, at, &mut more),
            }
        }
        members.retain(|m| m.0 != REMOVED);
        self.complete(&mut members, &mut more);
        let copy = self.doc.close_object(&members);
        if !more.nullable {
            return copy;
        }
        let null = self.text("null");
        let null = self.doc.close_object(&[(Keyword::Type.into(), null)]);
        let list = self.array(&[copy, null]);
        let either = self.doc.close_object(&[(Keyword::AnyOf.into(), list)]);
        self.like.push((copy, either));
        self.done.nullable.push((either, copy));
        either
    }

    /// Copies the values of a map of schemas; notes which properties are required by a flag.
    fn named(&mut self, keyword: Symbol, map: Id, more: &mut Additions) -> Id {
        if !matches!(self.doc.value(map), Value::Object { .. }) {
            return map;
        }
        let mut members = self.doc.members(map).to_vec();
        for (name, at) in &mut members {
            let flag = self.doc.get(*at, Keyword::Required).map(|flag| self.doc.value(flag));
            if keyword == Keyword::Properties && flag == Some(Value::Bool(true)) {
                more.required.push(*name);
            }
            // `dependencies` also has lists of names.
            if matches!(self.doc.value(*at), Value::Object { .. }) {
                *at = self.object(*at);
            }
        }
        self.doc.close_object(&members)
    }

    /// Rewrites a keyword whose value is no schema.
    fn keyword(&mut self, schema: Id, name: &mut Symbol, at: &mut Id, more: &mut Additions) {
        let word = FOREIGN.into_iter().find(|word| *word == self.doc.name(*name)).unwrap_or_default();
        match (word, self.doc.value(*at)) {
            ("nullable" | "x-nullable", Value::Bool(on)) => more.nullable |= on,
            ("nullable" | "x-nullable", _) => {
                self.warn(*at, "`nullable` is not a boolean and is ignored");
            }
            ("divisibleBy", value @ Value::Number(_)) => {
                let divisor = self.doc.push(value);
                self.like.push((divisor, *at));
                let member = (Keyword::MultipleOf.into(), divisor);
                match self.doc.get(schema, Keyword::MultipleOf) {
                    None => more.members.push(member),
                    Some(_) => more.all_of.push(self.doc.close_object(&[member])),
                }
            }
            ("bsonType", _) if self.doc.get(schema, Keyword::Type).is_none() => {
                self.bson_type(schema, *at, more);
            }
            ("extends", value) if !matches!(value, Value::String(_)) => {
                let base = self.schema(*at);
                match self.doc.value(base) {
                    Value::Array { .. } => more.all_of.extend_from_slice(self.doc.elements(base)),
                    _ => more.all_of.push(base),
                }
            }
            ("disallow", _) => {
                let kinds = self.union(*at);
                more.all_of.push(self.doc.close_object(&[(Keyword::Not.into(), kinds)]));
            }
            _ if *name == Keyword::Type && is_old_type(self.doc, *at, self.any) => {
                more.all_of.push(self.union(*at));
                *name = REMOVED;
            }
            (_, Value::Bool(_)) if *name == Keyword::Required && self.flags => *name = REMOVED,
            _ if self.doc.name(*name) == "components" => *at = self.components(*at),
            _ => {}
        }
    }

    /// Adds what the keywords of a schema ask for.
    fn complete(&mut self, members: &mut Vec<(Symbol, Id)>, more: &mut Additions) {
        members.append(&mut more.members);
        if !more.required.is_empty() {
            let names: Vec<Id> =
                more.required.iter().map(|&name| self.doc.push(Value::String(name))).collect();
            self.extend_list(members, Keyword::Required, &names);
        }
        if !more.all_of.is_empty() {
            self.extend_list(members, Keyword::AllOf, &more.all_of);
        }
    }

    /// Adds elements to the list that a keyword has, or the keyword with them.
    fn extend_list(&mut self, members: &mut Vec<(Symbol, Id)>, keyword: Keyword, more: &[Id]) {
        let old = members.iter().position(|m| m.0 == keyword);
        let known = old.map_or(&[][..], |at| self.doc.elements(members[at].1));
        let all = [known, more].concat();
        let list = self.array(&all);
        match old {
            Some(at) => members[at].1 = list,
            None => members.push((keyword.into(), list)),
        }
    }

    /// Returns true if a part of an `allOf` only says that the value may be null.
    fn part_is_nullable(&mut self, parts: Id) -> bool {
        let says_only = |&&part: &&Id| {
            let nullable = |m: &(Symbol, Id)| {
                matches!(self.doc.name(m.0), "nullable" | "x-nullable")
                    && self.doc.value(m.1) == Value::Bool(true)
            };
            self.doc.members(part).iter().any(nullable) && !self.doc.names(part).meet(ASSERTING)
        };
        let found = self.doc.elements(parts).iter().find(says_only).copied();
        if let Some(part) = found {
            self.warn(part, "a part of `allOf` that is only `nullable` makes all of it nullable");
        }
        found.is_some()
    }

    /// Returns a schema of all values of a type of draft 3, or of a list of types and schemas.
    fn union(&mut self, at: Id) -> Id {
        let kind = |rewriter: &mut Self, id: Id| match rewriter.doc.value(id) {
            Value::String(name) if Some(name) == rewriter.any => rewriter.doc.close_object(&[]),
            Value::Object { .. } => rewriter.object(id),
            value => {
                let named = rewriter.doc.push(value);
                rewriter.like.push((named, id));
                rewriter.doc.close_object(&[(Keyword::Type.into(), named)])
            }
        };
        if !matches!(self.doc.value(at), Value::Array { .. }) {
            return kind(self, at);
        }
        let elements = self.doc.elements(at).to_vec();
        let kinds: Vec<Id> = elements.into_iter().map(|e| kind(self, e)).collect();
        let list = self.array(&kinds);
        self.doc.close_object(&[(Keyword::AnyOf.into(), list)])
    }

    /// Adds the types of JSON that types of BSON stand for.
    fn bson_type(&mut self, schema: Id, at: Id, more: &mut Additions) {
        let own = [at];
        let list = match self.doc.value(at) {
            Value::Array { .. } => self.doc.elements(at),
            _ => &own[..],
        };
        let names: Vec<&str> =
            list.iter().filter_map(|&id| self.doc.string(id)).map(|name| self.doc.name(name)).collect();
        let types: Option<Vec<&str>> = names.iter().map(|name| json_type(name)).collect();
        let Some(types) = types.filter(|types| !types.is_empty() && types.len() == list.len()) else {
            let message = "`bsonType` names a type that JSON does not have, so it is ignored";
            return self.warn(at, message);
        };
        // A format bounds all numbers, so there must be no other ones.
        let numbers = types.iter().filter(|&&t| t == "integer" || t == "number").count();
        let bounded = match names.iter().find(|&&name| name == "int" || name == "long") {
            Some(&"int") if numbers == 1 => Some("int32"),
            Some(_) if types.contains(&"integer") && !types.contains(&"number") => Some("int64"),
            _ => None,
        };
        let mut texts = Vec::new();
        for name in types {
            let text = self.text(name);
            self.like.push((text, at));
            texts.push(text);
        }
        let list = self.array(&texts);
        self.like.push((list, at));
        more.members.push((Keyword::Type.into(), list));
        if let Some(format) = bounded.filter(|_| self.doc.get(schema, Keyword::Format).is_none()) {
            more.members.push((Keyword::Format.into(), self.text(format)));
        }
    }

    /// Copies the schemas that an OpenAPI document defines.
    fn components(&mut self, at: Id) -> Id {
        let Some(name) = self.doc.lookup("schemas") else { return at };
        let mut members = self.doc.members(at).to_vec();
        let Some(schemas) = members.iter_mut().find(|m| m.0 == name) else { return at };
        schemas.1 = self.named(PassiveKeyword::Defs.into(), schemas.1, &mut Additions::default());
        self.doc.close_object(&members)
    }

    fn array(&mut self, elements: &[Id]) -> Id {
        let elements: Vec<(Symbol, Id)> = elements.iter().map(|&e| (Symbol(0), e)).collect();
        self.doc.close_array(&elements)
    }

    fn text(&mut self, text: &str) -> Id {
        let text = self.doc.intern(text);
        self.doc.push(Value::String(text))
    }

    fn warn(&mut self, at: Id, message: &str) {
        self.done.warnings.push(Warning::new(WarningKind::IgnoredKeyword, message).at(self.doc.pointer(at)));
    }
}

/// Returns the type of JSON for a type of BSON.
fn json_type(bson: &str) -> Option<&'static str> {
    Some(match bson {
        "int" | "long" => "integer",
        "double" | "decimal" | "number" => "number",
        "string" => "string",
        "bool" => "boolean",
        "object" => "object",
        "array" => "array",
        "null" => "null",
        _ => return None,
    })
}
