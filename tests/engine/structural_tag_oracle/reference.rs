//! The slow, obvious matcher for structural tags: backtracking over the tree of formats.
//!
//! What is still to be matched is a list; a free text asks the list with which texts it can begin,
//! and then tries every place at which it could end.

use std::rc::Rc;

use serde_json::{Value, json};

#[derive(Debug)]
pub(super) enum Format {
    Text(String),
    Regex(String),
    /// A JSON Schema for the value 1.
    One,
    /// Any text without these, with the fewest and the most characters.
    Any(Vec<String>, usize, Option<usize>),
    Sequence(Vec<Format>),
    Or(Vec<Format>),
    Repeat(Box<Format>, u32, Option<u32>),
    Tag(Box<Tag>),
    Triggered {
        /// Those that count only before any text begin with [`START`], as do their tags.
        triggers: Vec<String>,
        tags: Tags,
        excludes: Vec<String>,
    },
    Separated {
        tags: Tags,
        separator: String,
    },
}

/// Marks a trigger that counts only before any text. No text of the tests contains it.
pub(super) const START: char = '^';

#[derive(Debug)]
pub(super) struct Tag {
    pub begin: String,
    pub content: Format,
    pub ends: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Tags {
    pub list: Vec<Tag>,
    pub at_least_one: bool,
    pub stop_after_first: bool,
}

/// Whether a document says that a text is one of a token: some are, which means the same.
fn is_token(text: &str) -> bool {
    text.len() == 2
}

fn named(text: &str) -> Value {
    if is_token(text) { json!({"type": "token", "token": text}) } else { json!(text) }
}

fn excluding(mut format: Value, excludes: &[String]) -> Value {
    let (tokens, texts): (Vec<&String>, Vec<&String>) = excludes.iter().partition(|text| is_token(text));
    format["excludes"] = json!(texts);
    if !tokens.is_empty() {
        format["exclude_tokens"] = json!(tokens);
    }
    format
}

impl Format {
    /// The document.
    pub(super) fn json(&self) -> String {
        json!({"type": "structural_tag", "format": self.value()}).to_string()
    }

    fn value(&self) -> Value {
        let all = |list: &[Format]| list.iter().map(Format::value).collect::<Vec<_>>();
        match self {
            Format::Text(text) if is_token(text) => named(text),
            Format::Text(value) => json!({"type": "const_string", "value": value}),
            Format::Regex(pattern) => json!({"type": "regex", "pattern": pattern}),
            Format::One => json!({"type": "json_schema", "json_schema": {"const": 1}}),
            Format::Any(excludes, min, max) => {
                // Programs write members that are not given as `null`, or leave them out.
                let format = match (min, max) {
                    (0, None) if excludes.is_empty() => json!({"type": "any_text"}),
                    (0, _) => json!({"type": "any_text", "max_chars": max, "max_tokens": null}),
                    _ => json!({"type": "any_text", "max_chars": max, "min_chars": min}),
                };
                excluding(format, excludes)
            }
            Format::Sequence(list) => json!({"type": "sequence", "elements": all(list)}),
            Format::Or(list) => json!({"type": "or", "elements": all(list)}),
            Format::Repeat(content, 0, Some(1)) => json!({"type": "optional", "content": content.value()}),
            Format::Repeat(content, 0, None) => json!({"type": "star", "content": content.value()}),
            Format::Repeat(content, 1, None) => json!({"type": "plus", "content": content.value()}),
            Format::Repeat(content, min, max) => {
                json!({"type": "repeat", "content": content.value(), "min": min, "max": max})
            }
            Format::Tag(tag) => tag.value(),
            Format::Triggered { triggers, tags, excludes } if tags.are_rules(triggers) => {
                let rules = tags.list.iter().map(|tag| json!([tag.begin, tag.content.value()]));
                let format = json!({"type": "dispatch", "rules": rules.collect::<Vec<_>>()});
                let mut format = excluding(format, excludes);
                // Said or not, it is true.
                if tags.stop_after_first || triggers.len() > 1 {
                    format["loop"] = json!(!tags.stop_after_first);
                }
                format
            }
            Format::Triggered { triggers, tags, excludes } => {
                let starts: Vec<&str> = triggers.iter().filter_map(|text| text.strip_prefix(START)).collect();
                let anywhere: Vec<&String> =
                    triggers.iter().filter(|text| !text.starts_with(START)).collect();
                let mut format = json!({"type": "triggered_tags", "triggers": anywhere, "tags": tags.value(),
                    "at_least_one": tags.at_least_one, "stop_after_first": tags.stop_after_first});
                if !starts.is_empty() {
                    format["start_triggers"] = json!(starts);
                }
                excluding(format, excludes)
            }
            Format::Separated { tags, separator } => json!({
                "type": "tags_with_separator", "tags": tags.value(), "separator": separator,
                "at_least_one": tags.at_least_one, "stop_after_first": tags.stop_after_first}),
        }
    }
}

impl Tag {
    /// The text with which it begins.
    fn written(&self) -> &str {
        self.begin.strip_prefix(START).unwrap_or(&self.begin)
    }

    fn value(&self) -> Value {
        let end = match &self.ends[..] {
            [one] => named(one),
            all => all.iter().map(|end| named(end)).collect(),
        };
        json!({"type": "tag", "begin": named(self.written()), "content": self.content.value(), "end": end})
    }
}

impl Tags {
    /// Whether these are rules of a `dispatch`.
    fn are_rules(&self, triggers: &[String]) -> bool {
        let rule = |(tag, trigger): (&Tag, &String)| tag.begin == *trigger && tag.ends == [""];
        !self.at_least_one && self.list.len() == triggers.len() && self.list.iter().zip(triggers).all(rule)
    }

    fn value(&self) -> Vec<Value> {
        self.list.iter().map(Tag::value).collect()
    }
}

/// One thing that is still to be matched.
#[derive(Clone, Copy)]
enum Item<'a> {
    Format(&'a Format),
    Text(&'a str),
    Ends(&'a [String]),
    Repeat(&'a Format, u32, Option<u32>),
    /// Something must have been matched since this position.
    Beyond(usize),
    /// Free text; whether a tag has been written.
    Free(&'a Free<'a>, bool),
    SeparatedTag(&'a Tags, &'a str),
    /// More tags, if a separator or the tag that began at this position has matched something.
    SeparatedMore(&'a Tags, &'a str, usize),
}

struct Free<'a> {
    triggers: &'a [String],
    tags: Option<&'a Tags>,
    excludes: &'a [String],
    /// Fewest and most characters.
    chars: (usize, Option<usize>),
}

type List<'a> = Option<Rc<Cell<'a>>>;

struct Cell<'a> {
    item: Item<'a>,
    rest: List<'a>,
}

fn before<'a>(items: &[Item<'a>], rest: &List<'a>) -> List<'a> {
    items.iter().rev().fold(rest.clone(), |rest, &item| Some(Rc::new(Cell { item, rest })))
}

/// With what a list can begin.
#[derive(Default)]
struct Begin {
    texts: Vec<String>,
    end: bool,
    open: bool,
}

fn begin<'a>(list: &List<'a>, out: &mut Begin) {
    let Some(cell) = list else {
        out.end = true;
        return;
    };
    let rest = &cell.rest;
    let text = |text: &str, out: &mut Begin| match text {
        "" => begin(rest, out),
        _ => out.texts.push(text.to_owned()),
    };
    let tag = |tag: &'a Tag, out: &mut Begin| {
        begin(
            &before(&[Item::Text(tag.written()), Item::Format(&tag.content), Item::Ends(&tag.ends)], rest),
            out,
        )
    };
    match cell.item {
        Item::Text(t) => text(t, out),
        Item::Ends(ends) => ends.iter().for_each(|end| text(end, out)),
        Item::Beyond(_) => begin(rest, out),
        Item::Repeat(_, _, Some(0)) => begin(rest, out),
        Item::Repeat(content, min, max) => {
            if min > 1 {
                let again = Item::Repeat(content, min - 1, max.map(|m| m - 1));
                return begin(&before(&[Item::Format(content), again], rest), out);
            }
            if min == 0 {
                begin(rest, out);
            }
            begin(&before(&[Item::Format(content)], rest), out);
        }
        Item::Free(..) => out.open = true,
        Item::SeparatedTag(tags, _) => tags.list.iter().for_each(|t| tag(t, out)),
        Item::SeparatedMore(tags, separator, _) => {
            begin(rest, out);
            match separator {
                "" => tags.list.iter().for_each(|t| tag(t, out)),
                _ => out.texts.push(separator.to_owned()),
            }
        }
        Item::Format(format) => match format {
            Format::Text(t) => text(t, out),
            Format::Regex(_) | Format::One | Format::Any(..) | Format::Triggered { .. } => out.open = true,
            Format::Sequence(parts) => {
                let parts: Vec<Item> = parts.iter().map(Item::Format).collect();
                begin(&before(&parts, rest), out);
            }
            Format::Or(parts) => {
                parts.iter().for_each(|part| begin(&before(&[Item::Format(part)], rest), out))
            }
            Format::Repeat(content, min, max) => {
                begin(&before(&[Item::Repeat(content, *min, *max)], rest), out)
            }
            Format::Tag(t) => tag(t, out),
            Format::Separated { tags, separator } => {
                if !tags.at_least_one {
                    begin(rest, out);
                }
                begin(&before(&[Item::SeparatedTag(tags, separator)], rest), out);
            }
        },
    }
}

/// Whether `format` matches the whole text.
pub(super) fn accepts(format: &Format, text: &str) -> bool {
    matches(&before(&[Item::Format(format)], &None), text, 0)
}

fn matches<'a>(list: &List<'a>, text: &str, at: usize) -> bool {
    let Some(cell) = list else { return at == text.len() };
    let rest = &cell.rest;
    let literal = |t: &str| text[at..].starts_with(t) && matches(rest, text, at + t.len());
    match cell.item {
        Item::Text(t) => literal(t),
        Item::Ends(ends) => ends.iter().any(|end| literal(end)),
        Item::Beyond(from) => at > from && matches(rest, text, at),
        Item::Repeat(content, min, max) => {
            if min == 0 && matches(rest, text, at) {
                return true;
            }
            if max == Some(0) {
                return false;
            }
            let again = Item::Repeat(content, min.saturating_sub(1), max.map(|m| m - 1));
            let list = match min {
                0 => before(&[Item::Format(content), Item::Beyond(at), again], rest),
                _ => before(&[Item::Format(content), again], rest),
            };
            matches(&list, text, at)
        }
        Item::Free(free, tagged) => free_text(free, tagged, rest, text, at),
        Item::SeparatedTag(tags, separator) => tags.list.iter().any(|tag| {
            let mut items = vec![Item::Text(&tag.begin), Item::Format(&tag.content), Item::Ends(&tag.ends)];
            if !tags.stop_after_first {
                items.push(Item::SeparatedMore(tags, separator, at));
            }
            matches(&before(&items, rest), text, at)
        }),
        Item::SeparatedMore(tags, separator, from) => {
            let more = [Item::Text(separator), Item::SeparatedTag(tags, separator)];
            let progress = at > from || !separator.is_empty();
            matches(rest, text, at) || progress && matches(&before(&more, rest), text, at)
        }
        Item::Format(format) => one(format, rest, text, at),
    }
}

fn one<'a>(format: &'a Format, rest: &List<'a>, text: &str, at: usize) -> bool {
    match format {
        Format::Text(t) => matches(&before(&[Item::Text(t)], rest), text, at),
        Format::One => matches(&before(&[Item::Text("1")], rest), text, at),
        Format::Regex(pattern) => {
            let regex = regex::Regex::new(&format!("^(?:{pattern})$")).expect("a valid pattern");
            let ends = (at..=text.len()).filter(|&end| text.is_char_boundary(end));
            ends.into_iter().any(|end| regex.is_match(&text[at..end]) && matches(rest, text, end))
        }
        Format::Any(excludes, min, max) => {
            let free = Free { triggers: &[], tags: None, excludes, chars: (*min, *max) };
            free_text(&free, true, rest, text, at)
        }
        Format::Sequence(parts) => {
            let parts: Vec<Item> = parts.iter().map(Item::Format).collect();
            matches(&before(&parts, rest), text, at)
        }
        Format::Or(parts) => parts.iter().any(|part| matches(&before(&[Item::Format(part)], rest), text, at)),
        Format::Repeat(content, min, max) => {
            matches(&before(&[Item::Repeat(content, *min, *max)], rest), text, at)
        }
        Format::Tag(tag) => {
            let items = [Item::Text(tag.written()), Item::Format(&tag.content), Item::Ends(&tag.ends)];
            matches(&before(&items, rest), text, at)
        }
        Format::Triggered { triggers, tags, excludes } => {
            let free = Free { triggers, tags: Some(tags), excludes, chars: (0, None) };
            free_text(&free, !tags.at_least_one, rest, text, at)
        }
        Format::Separated { tags, separator } => {
            !tags.at_least_one && matches(rest, text, at)
                || matches(&before(&[Item::SeparatedTag(tags, separator)], rest), text, at)
        }
    }
}

/// What a free text looks for.
struct Looks {
    openers: Vec<String>,
    excludes: Vec<String>,
    open: bool,
}

fn looks(free: &Free<'_>, may_end: bool, rest: &List<'_>) -> Looks {
    let mut next = Begin::default();
    begin(rest, &mut next);
    let has_tag = |t: &String| free.tags.iter().any(|tags| tags.list.iter().any(|x| x.begin.starts_with(t)));
    let (mut openers, idle): (Vec<String>, Vec<String>) = free.triggers.iter().cloned().partition(has_tag);
    let mut excludes = [free.excludes, &idle].concat();
    if may_end {
        openers.extend(next.texts);
    } else {
        excludes.extend(next.texts);
    }
    Looks { openers, excludes, open: may_end && next.open }
}

fn free_text<'a>(free: &Free<'a>, may_end: bool, rest: &List<'a>, text: &str, at: usize) -> bool {
    let Looks { openers, excludes, .. } = looks(free, may_end, rest);
    for end in (at..=text.len()).filter(|&end| text.is_char_boundary(end)) {
        let own = format!("{START}{}", &text[at..end]);
        if openers.iter().chain(&excludes).any(|o| own.contains(o.as_str())) {
            return false;
        }
        // An opener here, and none that began in the text and is complete with it.
        let all = format!("{START}{}", &text[at..]);
        let opens = |opener: &str| {
            let end = if opener.starts_with(START) { end - at } else { end - at + START.len_utf8() };
            all.get(end..).is_some_and(|rest| rest.starts_with(opener))
                && (0..end).filter(|&from| all.is_char_boundary(from)).all(|from| {
                    openers
                        .iter()
                        .all(|o| !all[from..].starts_with(o.as_str()) || from + o.len() > end + opener.len())
                })
        };
        let count = text[at..end].chars().count();
        let fits = count >= free.chars.0 && free.chars.1.is_none_or(|most| count <= most);
        if may_end
            && fits
            && (end == text.len() || openers.iter().any(|o| opens(o)))
            && matches(rest, text, end)
        {
            return true;
        }
        let Some(tags) = free.tags else { continue };
        for tag in &tags.list {
            let triggered = free.triggers.iter().any(|t| tag.begin.starts_with(t.as_str()) && opens(t));
            if !triggered {
                continue;
            }
            let items = [Item::Text(tag.written()), Item::Format(&tag.content), Item::Ends(&tag.ends)];
            if tags.stop_after_first {
                if matches(&before(&items, rest), text, end) {
                    return true;
                }
                continue;
            }
            // The list must live as long as the tree: what it needs of `free` is copied.
            let free: &'a Free<'a> = leak(free);
            let behind = before(&[Item::Free(free, true)], rest);
            if matches(&before(&items, &behind), text, end) {
                return true;
            }
        }
    }
    false
}

/// A test may leak a few bytes.
fn leak<'a>(free: &Free<'a>) -> &'a Free<'a> {
    Box::leak(Box::new(Free { ..*free }))
}

impl Format {
    /// Why a format must be refused, if it must: found by walking through it as the matcher does.
    pub(super) fn refusal(&self) -> Option<String> {
        refusal(&before(&[Item::Format(self)], &None), self)
    }
}

fn check<'a>(free: &Free<'a>, may_end: bool, rest: &List<'a>) -> Option<String> {
    let looks = looks(free, may_end, rest);
    if looks.open {
        return Some("open".into());
    }
    let first = |o: &&String| !looks.openers.iter().any(|x| x != *o && o.starts_with(x.as_str()));
    let openers: Vec<&String> = looks.openers.iter().filter(first).collect();
    let inside = |a: &&String| openers.iter().any(|b| a != b && a.contains(b.as_str()));
    openers.iter().find(|a| inside(a)).map(|a| format!("ambiguous: {a}"))
}

/// Looks at every format with all that can follow it.
fn refusal<'a>(list: &List<'a>, format: &'a Format) -> Option<String> {
    let rest = &list.as_ref().expect("the format itself").rest;
    let inner = |format: &'a Format, items: &[Item<'a>], rest: &List<'a>| {
        refusal(&before(&[&[Item::Format(format)], items].concat(), rest), format)
    };
    match format {
        Format::Text(_) | Format::Regex(_) | Format::One => None,
        Format::Any(excludes, min, max) => {
            check(&Free { triggers: &[], tags: None, excludes, chars: (*min, *max) }, true, rest)
        }
        Format::Sequence(parts) => (0..parts.len()).find_map(|i| {
            let behind: Vec<Item> = parts[i + 1..].iter().map(Item::Format).collect();
            inner(&parts[i], &behind, rest)
        }),
        Format::Or(parts) => parts.iter().find_map(|part| inner(part, &[], rest)),
        Format::Repeat(content, min, max) => {
            // Each round with what is left of the count behind it.
            let rounds = max.map_or(min + 2, |max| max);
            (1..=rounds).find_map(|done| {
                let left = max.map(|max| max - done);
                inner(content, &[Item::Repeat(content, min.saturating_sub(done), left)], rest)
            })
        }
        Format::Tag(tag) => inner(&tag.content, &[Item::Ends(&tag.ends)], rest),
        Format::Triggered { triggers, tags, excludes } => {
            let free: &'a Free<'a> = leak(&Free { triggers, tags: Some(tags), excludes, chars: (0, None) });
            let behind = if tags.stop_after_first { vec![] } else { vec![Item::Free(free, true)] };
            let items = |tag: &'a Tag| [&[Item::Ends(&tag.ends)], &behind[..]].concat();
            let tagged = if tags.stop_after_first { None } else { check(free, true, rest) };
            check(free, !tags.at_least_one, rest)
                .or(tagged)
                .or_else(|| tags.list.iter().find_map(|tag| inner(&tag.content, &items(tag), rest)))
        }
        Format::Separated { tags, separator } => tags.list.iter().find_map(|tag| {
            let mut items = vec![Item::Ends(&tag.ends)];
            if !tags.stop_after_first {
                items.push(Item::SeparatedMore(tags, separator, 0));
            }
            inner(&tag.content, &items, rest)
        }),
    }
}
