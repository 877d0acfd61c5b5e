//! Parser of structural tags: from the JSON text to the tree of formats.
//!
//! Everything that is not understood is refused with its name, its pointer and a hint: silently
//! ignoring a member would break a promise.
//!
//! # Cost
//! One pass, linear in the text.

use std::rc::Rc;

use super::ast::{CharBounds, Format, FormatKind, Phrase, Tag, TagCount, Triggered};
use super::embedded::{LeafParser, ValueEncoding};
use super::free_text::START;
use super::parameters::Style;
use super::strict_object::{Object, error, invalid, phrase, shown, suggestion, tag_text};
use crate::constraint::json::document::{Doc, Id, Value};
use crate::error::{Error, ErrorKind, Result};

/// Maximum nesting of formats.
const MAX_NESTING: usize = 128;

/// The types of formats.
const TYPES: [&str; 20] = [
    "const_string",
    "token",
    "json_schema",
    "qwen_xml_parameter",
    "regex",
    "grammar",
    "any_text",
    "any_tokens",
    "sequence",
    "or",
    "optional",
    "plus",
    "star",
    "repeat",
    "tag",
    "triggered_tags",
    "token_triggered_tags",
    "tags_with_separator",
    "dispatch",
    "token_dispatch",
];

/// Members of free text.
const ANY_TEXT: [&str; 6] =
    ["excludes", "exclude_tokens", "min_chars", "max_chars", "min_tokens", "max_tokens"];

/// The reason why tokens cannot be counted, and what to do about it.
const COUNTED_TOKENS: [&str; 2] =
    ["a constraint is over text, whose tokens it does not count", "bound the text with `max_chars`"];

/// Parses a document.
pub(super) struct Reader<'a, 'p> {
    pub doc: &'a Doc,
    pub leaves: &'a mut LeafParser<'p>,
}

impl Reader<'_, '_> {
    /// Parses the whole document, in the older or the newer form.
    pub(super) fn document(&mut self) -> Result<Format> {
        let known = ["type", "format", "structures", "triggers"];
        let object = Object::new(self.doc, self.doc.root(), "a structural tag", &known)?;
        let name = object.text("type")?;
        if &*name.text != "structural_tag" {
            return Err(invalid(self.doc, name.at, "the `type` must be `structural_tag`"));
        }
        match (object.optional("format"), object.optional("structures")) {
            (Some(format), None) => match object.optional("triggers") {
                Some(at) => Err(invalid(self.doc, at, "`triggers` belongs to `structures`, not to `format`")
                    .hint("inside `format`, use a `triggered_tags`")),
                None => self.format(format, 0),
            },
            (None, Some(_)) => self.older(&object),
            (Some(_), Some(at)) => Err(invalid(self.doc, at, "both `format` and `structures`")),
            (None, None) => Err(invalid(self.doc, object.at, "neither `format` nor `structures`")
                .hint("the newer form has `format`, the older one `structures` and `triggers`")),
        }
    }

    fn older(&mut self, object: &Object<'_>) -> Result<Format> {
        let mut tags = Vec::new();
        for &at in object.list("structures")? {
            let item = Object::new(self.doc, at, "a structure", &["begin", "schema", "end"])?;
            let (begin, end) = (item.text("begin")?, item.text("end")?);
            self.leaves.ir.marks.extend([begin.text.to_string(), end.text.to_string()]);
            let schema = item.required("schema")?;
            let content = Format {
                at: schema,
                kind: FormatKind::Node(self.leaves.schema(self.doc, schema, ValueEncoding::default())?),
            };
            tags.push(Tag { begin, content, ends: vec![end.text] });
        }
        object.list("triggers")?;
        let triggers = object.phrases("triggers")?;
        let many = TagCount { at_least_one: false, stop_after_first: false };
        self.triggered(object.at, Triggered { triggers, tags, excludes: Rc::new([]), many })
    }

    fn format(&mut self, at: Id, depth: usize) -> Result<Format> {
        let doc = self.doc;
        if depth > MAX_NESTING {
            let message = format!("formats are nested deeper than the limit of {MAX_NESTING}");
            return Err(error(doc, ErrorKind::TooComplex, at, message));
        }
        if !matches!(doc.value(at), Value::Object { .. }) {
            return Err(invalid(doc, at, "a format must be an object"));
        }
        let name = doc.lookup("type").and_then(|n| doc.get(at, n));
        let Some(name) = name else {
            return Err(invalid(doc, at, "a format lacks its member `type`").hint(suggestion("", &TYPES)));
        };
        let name = phrase(doc, name, "type")?;
        let object = |known: &[&str]| Object::new(doc, at, &name.text, &[&["type"], known].concat());
        let kind = match &*name.text {
            "const_string" => FormatKind::Text(self.marked(object(&["value"])?.text("value")?)),
            "token" => FormatKind::Text(self.marked(object(&["token"])?.token()?)),
            "json_schema" => return self.schema(at),
            "qwen_xml_parameter" => {
                let schema = object(&["json_schema"])?.required("json_schema")?;
                let spelling = ValueEncoding { style: Some(Style::Qwen), any_order: false };
                FormatKind::Node(self.leaves.schema(doc, schema, spelling)?)
            }
            "regex" => FormatKind::Node(self.leaves.regex(doc, &object(&["pattern"])?.text("pattern")?)?),
            "grammar" => FormatKind::Node(self.leaves.grammar(doc, &object(&["grammar"])?.text("grammar")?)?),
            "any_text" | "any_tokens" => self.any_text(&object(&ANY_TEXT)?)?,
            "sequence" => {
                FormatKind::Sequence(self.formats(object(&["elements"])?.list("elements")?, depth)?)
            }
            "or" => FormatKind::Or(self.formats(object(&["elements"])?.list("elements")?, depth)?),
            "optional" => self.repeat(&object(&["content"])?, (0, Some(1)), depth)?,
            "star" => self.repeat(&object(&["content"])?, (0, None), depth)?,
            "plus" => self.repeat(&object(&["content"])?, (1, None), depth)?,
            "repeat" => {
                let object = object(&["content", "min", "max"])?;
                self.repeat(&object, object.bounds(["min", "max"])?, depth)?
            }
            "tag" => FormatKind::Tag(Box::new(self.tag(at, depth)?)),
            "triggered_tags" | "token_triggered_tags" => return self.triggered_tags(at, &name.text, depth),
            "tags_with_separator" => {
                let object = object(&["tags", "separator", "at_least_one", "stop_after_first"])?;
                let tags = self.tags(&object, depth)?;
                let separator = self.marked(object.text("separator")?);
                FormatKind::Separated { tags, separator, many: many(&object)? }
            }
            "dispatch" | "token_dispatch" => {
                return self.dispatch(&object(&["rules", "loop", "excludes", "exclude_tokens"])?, depth);
            }
            _ => return Err(self.unknown_type(&name)),
        };
        Ok(Format { at, kind })
    }

    /// Returns a text, and notes that it may be a special token.
    fn marked(&mut self, text: Phrase) -> Rc<str> {
        self.leaves.ir.marks.push(text.text.to_string());
        text.text
    }

    fn unknown_type(&self, name: &Phrase) -> Error {
        let (message, hint) = match &*name.text {
            "exclude_token" => (
                "formats of the type `exclude_token` are not supported".to_owned(),
                "constraints are over text; write the text of the tokens, or use `any_tokens`".to_owned(),
            ),
            other => (format!("no type of format is called `{}`", shown(other)), suggestion(other, &TYPES)),
        };
        error(self.doc, ErrorKind::Unsupported, name.at, message).hint(hint)
    }

    fn any_text(&self, object: &Object<'_>) -> Result<FormatKind> {
        let [why, hint] = COUNTED_TOKENS;
        ["min_tokens", "max_tokens"].iter().try_for_each(|name| object.refuse(name, why, hint))?;
        let (min, max) = object.bounds(["min_chars", "max_chars"])?;
        Ok(FormatKind::AnyText { excludes: object.excludes()?, chars: CharBounds { min, max } })
    }

    fn formats(&mut self, list: &[Id], depth: usize) -> Result<Vec<Format>> {
        list.iter().map(|&at| self.format(at, depth + 1)).collect()
    }

    fn schema(&mut self, at: Id) -> Result<Format> {
        let known = ["type", "json_schema", "style", "any_order", "max_whitespace_cnt", "excludes"];
        let object = Object::new(self.doc, at, "json_schema", &known)?;
        object.refuse(
            "excludes",
            "its strings are bound by the schema",
            "leave it out, and give the strings a `pattern` that has no such text",
        )?;
        object.optional("max_whitespace_cnt").map(|id| object.count(id, "max_whitespace_cnt")).transpose()?;
        let style = object.optional("style").map(|style| self.style(style)).transpose()?.flatten();
        let any_order = object.flag("any_order", false)?;
        let schema = object.required("json_schema")?;
        let node = self.leaves.schema(self.doc, schema, ValueEncoding { any_order, style })?;
        Ok(Format { at, kind: FormatKind::Node(node) })
    }

    /// Reads the style of a schema; `None` is JSON.
    fn style(&self, at: Id) -> Result<Option<Style>> {
        let name = phrase(self.doc, at, "style")?;
        if &*name.text == "json" {
            return Ok(None);
        }
        if let Some(&(_, style)) = Style::NAMED.iter().find(|named| named.0 == &*name.text) {
            return Ok(Some(style));
        }
        let known: Vec<&str> = ["json"].into_iter().chain(Style::NAMED.map(|named| named.0)).collect();
        let message = format!("no style is called `{}`", shown(&name.text));
        Err(error(self.doc, ErrorKind::Unsupported, at, message).hint(suggestion(&name.text, &known)))
    }

    fn repeat(
        &mut self,
        object: &Object<'_>,
        counts: (u32, Option<u32>),
        depth: usize,
    ) -> Result<FormatKind> {
        let (min, max) = counts;
        let content = Box::new(self.format(object.required("content")?, depth + 1)?);
        Ok(FormatKind::Repeat { content, min, max })
    }

    fn tags(&mut self, object: &Object<'_>, depth: usize) -> Result<Vec<Tag>> {
        object.list("tags")?.iter().map(|&at| self.tag(at, depth + 1)).collect()
    }

    fn tag(&mut self, at: Id, depth: usize) -> Result<Tag> {
        let doc = self.doc;
        let object = Object::new(doc, at, "a tag", &["type", "begin", "content", "end"])?;
        if let Some(id) = object.optional("type")
            && &*phrase(doc, id, "type")?.text != "tag"
        {
            return Err(invalid(doc, id, "only formats of the type `tag` can stand here"));
        }
        let begin = tag_text(doc, object.required("begin")?, "begin")?;
        let end = object.required("end")?;
        let ends = match doc.value(end) {
            Value::Array { .. } => {
                let list = object.list("end")?;
                list.iter().map(|&id| Ok(tag_text(doc, id, "end")?.text)).collect::<Result<_>>()?
            }
            _ => vec![tag_text(doc, end, "end")?.text],
        };
        self.leaves.ir.marks.push(begin.text.to_string());
        self.leaves.ir.marks.extend(ends.iter().map(ToString::to_string));
        let content = self.format(object.required("content")?, depth + 1)?;
        Ok(Tag { begin, content, ends })
    }

    /// Reads a `dispatch`: free text with patterns, each followed by a format. A rule is a tag that
    /// begins with its trigger and has no end.
    fn dispatch(&mut self, object: &Object<'_>, depth: usize) -> Result<Format> {
        let doc = self.doc;
        let mut tags = Vec::new();
        for &at in object.list("rules")? {
            let rule = match doc.value(at) {
                Value::Array { .. } => doc.elements(at),
                _ => &[],
            };
            let &[pattern, content] = rule else {
                return Err(invalid(doc, at, "a rule must be an array of a pattern and a format"));
            };
            let begin = phrase(doc, pattern, "pattern")?;
            if begin.text.is_empty() {
                return Err(invalid(doc, pattern, "an empty pattern")
                    .hint("the empty text occurs everywhere; put the format in a `sequence`"));
            }
            self.leaves.ir.marks.push(begin.text.to_string());
            let content = self.format(content, depth + 1)?;
            tags.push(Tag { begin, content, ends: vec!["".into()] });
        }
        let triggers = tags.iter().map(|tag| tag.begin.clone()).collect();
        let excludes = object.excludes()?;
        let many = TagCount { at_least_one: false, stop_after_first: !object.flag("loop", true)? };
        self.triggered(object.at, Triggered { triggers, tags, excludes, many })
    }

    fn triggered_tags(&mut self, at: Id, kind: &str, depth: usize) -> Result<Format> {
        let named = if kind == "triggered_tags" { "triggers" } else { "trigger_tokens" };
        let known = [
            "type",
            named,
            "start_triggers",
            "tags",
            "excludes",
            "exclude_tokens",
            "at_least_one",
            "stop_after_first",
        ];
        let object = Object::new(self.doc, at, kind, &known)?;
        let mut tags = self.tags(&object, depth)?;
        object.list(named)?;
        let mut triggers = match kind {
            "triggered_tags" => object.phrases(named)?,
            _ => object.tokens(named)?,
        };
        let starts = object.phrases("start_triggers")?;
        if !starts.is_empty() {
            let begins =
                |text: &str, with: &[Phrase]| with.iter().any(|trigger| text.starts_with(&*trigger.text));
            let at_start =
                |phrase: &Phrase| Phrase { text: format!("{START}{}", phrase.text).into(), at: phrase.at };
            for tag in tags.iter_mut().filter(|tag| !begins(&tag.begin.text, &triggers)) {
                if begins(&tag.begin.text, &starts) {
                    tag.begin = at_start(&tag.begin);
                }
            }
            triggers = triggers.iter().cloned().chain(starts.iter().map(at_start)).collect();
        }
        let excludes = object.excludes()?;
        self.triggered(at, Triggered { triggers, tags, excludes, many: many(&object)? })
    }

    /// Checks that each tag begins with a trigger.
    fn triggered(&mut self, at: Id, triggered: Triggered) -> Result<Format> {
        let mut shortest: Vec<&str> = triggered.triggers.iter().map(|t| &*t.text).collect();
        shortest.sort_unstable();
        // After sorting, all triggers that begin with another one follow it directly.
        shortest.dedup_by(|longer, shorter| longer.starts_with(*shorter));
        for tag in &triggered.tags {
            let text = &*tag.begin.text;
            let after = shortest.partition_point(|&t| t <= text);
            if !shortest[..after].last().is_some_and(|t| text.starts_with(t)) {
                return Err(invalid(self.doc, tag.begin.at, "no trigger is a beginning of this `begin`")
                    .hint("a tag starts with one of the `triggers`"));
            }
        }
        Ok(Format { at, kind: FormatKind::Triggered(Box::new(triggered)) })
    }
}

fn many(object: &Object<'_>) -> Result<TagCount> {
    Ok(TagCount {
        at_least_one: object.flag("at_least_one", false)?,
        stop_after_first: object.flag("stop_after_first", false)?,
    })
}
