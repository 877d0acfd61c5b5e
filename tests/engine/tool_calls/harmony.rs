//! The slow, obvious reader of messages in channels, and random ones.
//!
//! Regular expressions for the headers, and every place at which a value could end: nothing here
//! knows of structural tags or of the reader in the crate.

use ffwd::constraint::tools::Calls;
use jsonschema::Validator;
use regex::Regex;
use serde_json::{Value, json};

use ffwd_testkit::random::Random;

const SPECIAL: [&str; 7] =
    ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"];

/// A reply that is an answer.
pub(super) fn answer(text: &str) -> String {
    format!("<|channel|>final<|message|>{text}")
}

/// Where the first special token begins.
fn first_special(text: &str) -> Option<usize> {
    (0..text.len()).find(|&i| text.is_char_boundary(i) && SPECIAL.iter().any(|s| text[i..].starts_with(s)))
}

/// Thoughts, the text for the user, and the calls.
pub(super) type Parts<'a> = (String, String, Vec<(&'a str, Value)>);

pub(super) struct Slow {
    functions: Vec<(&'static str, Validator)>,
    header: Regex,
    before: Regex,
    call: Regex,
}

impl Slow {
    pub(super) fn new<'a>(functions: impl Iterator<Item = (&'static str, &'a Value)>) -> Self {
        let validator = |schema: &Value| {
            let none = json!({"type": "object", "additionalProperties": false});
            let mut schema = if schema.is_null() { none } else { schema.clone() };
            if schema.get("$ref").is_none() {
                schema["type"] = "object".into();
            }
            jsonschema::validator_for(&schema).expect("valid")
        };
        let regex = |text: &str| Regex::new(text).expect("valid");
        Slow {
            functions: functions.map(|(name, schema)| (name, validator(schema))).collect(),
            header: regex(concat!(
                r"^(?: to=functions\.([^\s<]+))?[ \n]*<\|channel\|>(analysis|commentary|final)",
                r"(?: to=functions\.([^\s<]+))?(?:[ \n]*<\|constrain\|>[a-z]*|[ \n]+[a-z]*)?<\|message\|>"
            )),
            before: regex(
                r"(?s)^<\|channel\|>(analysis|commentary)<\|message\|>(.*?)<\|end\|><\|start\|>assistant",
            ),
            call: regex(
                r"(?s)^<\|channel\|>commentary to=functions\.(\S+) <\|constrain\|>json<\|message\|>(\{.*)$",
            ),
        }
    }

    /// Whether the text is one that the constraint writes.
    pub(super) fn is_written(&self, text: &str, choice: &Calls) -> bool {
        let mut rest = text;
        while let Some(found) = self.before.captures(rest) {
            if first_special(&found[2]).is_some() || *choice != Calls::Auto && &found[1] != "analysis" {
                return false;
            }
            rest = &rest[found[0].len()..];
        }
        if let Some(answer) = rest.strip_prefix("<|channel|>final<|message|>") {
            return *choice == Calls::Auto && first_special(answer).is_none();
        }
        let Some(found) = self.call.captures(rest) else { return false };
        let chosen = |name: &str| *name == found[1] && !matches!(choice, Calls::Function(one) if one != name);
        let value: Option<Value> = serde_json::from_str(&found[2]).ok();
        // In one spelling: a name that occurs twice is lost here, and so is a blank.
        value.is_some_and(|value| {
            let text = value.to_string();
            text == found[2] && self.functions.iter().any(|f| chosen(f.0) && f.1.is_valid(&value))
        })
    }

    /// What the text holds, if it can be read.
    pub(super) fn read(&self, text: &str) -> Option<Parts<'_>> {
        let (mut thought, mut said, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        let mut rest = text.strip_prefix("<|start|>assistant").unwrap_or(text);
        loop {
            let header = self.header.captures(rest)?;
            rest = &rest[header[0].len()..];
            let may_end = match (header.get(1), header.get(3)) {
                (Some(_), Some(_)) => return None,
                (Some(name), None) | (None, Some(name)) => {
                    let (name, _) = self.functions.iter().find(|f| f.0 == name.as_str())?;
                    let (value, tail) = value(rest)?;
                    calls.push((*name, value));
                    rest = tail;
                    true
                }
                (None, None) => {
                    let end = first_special(rest).unwrap_or(rest.len());
                    let to = if &header[2] == "analysis" { &mut thought } else { &mut said };
                    to.push(&rest[..end]);
                    rest = &rest[end..];
                    let last = &header[2] == "final";
                    if last && (rest.is_empty() || rest == "<|return|>") {
                        rest = "";
                    } else {
                        rest = rest.strip_prefix("<|end|>")?;
                    }
                    last
                }
            };
            if may_end && rest.is_empty() {
                let [thought, said] = [thought, said].map(|texts| {
                    let texts: Vec<&str> = texts.into_iter().skip_while(|text| text.is_empty()).collect();
                    texts.join("\n")
                });
                return Some((thought, said, calls));
            }
            rest = rest.strip_prefix("<|start|>assistant")?;
        }
    }
}

/// A JSON value that ends a message, and what is behind its end.
fn value(text: &str) -> Option<(Value, &str)> {
    let ends = (0..=text.len()).filter(|&end| text.is_char_boundary(end));
    ends.into_iter().find_map(|end| {
        let (value, tail) = (serde_json::from_str(&text[..end]).ok()?, &text[end..]);
        if tail.is_empty() { Some((value, tail)) } else { Some((value, tail.strip_prefix("<|call|>")?)) }
    })
}

const TEXTS: [&str; 8] = ["Hm. <", "é\n", "", "<|en", "|>", "<|call|", "{}", "to=functions.get"];
const NAMES: [&str; 5] = ["get", "get_weather", "now", "ge", "unknown"];

/// Messages, often with faults, some of which call a function.
pub(super) fn text(random: &mut Random, calls: &[(&str, String)]) -> String {
    let mut pieces: Vec<String> = Vec::new();
    if random.chance(5) {
        pieces.extend(["<|start|>".into(), "assistant".into()]);
    }
    let before = random.below(3);
    for _ in 0..before {
        message(random, calls, &mut pieces, false);
        pieces.extend(["<|start|>".into(), "assistant".into()]);
    }
    message(random, calls, &mut pieces, true);
    let faults = if random.chance(50) { 0 } else { 1 + random.below(2) };
    for _ in 0..faults {
        let at = random.below(pieces.len());
        let other = random.pick(&pieces).clone();
        let strange = [" ", "\n", "json", " to=functions.now", "<|call|>", "final", "\u{a0}"];
        match random.below(8) {
            0 => drop(pieces.remove(at)),
            1 => pieces.insert(at, other),
            2 => pieces[at] = other,
            3 => pieces.insert(at, (*random.pick(&SPECIAL)).to_owned()),
            4 => pieces.insert(at, (*random.pick(&strange)).to_owned()),
            5 => pieces[at] = (*random.pick(&SPECIAL)).to_owned(),
            6 => pieces.truncate(at),
            _ => {
                let mut chars: Vec<char> = pieces[at].chars().collect();
                let place = random.below(chars.len() + 1);
                match place < chars.len() && random.chance(50) {
                    true => drop(chars.remove(place)),
                    false => chars.insert(place, *random.pick(&['<', '|', '>', ' ', 'é', 'a', '"'])),
                }
                pieces[at] = chars.into_iter().collect();
            }
        }
        if pieces.is_empty() {
            break;
        }
    }
    pieces.concat()
}

/// One message in the pieces that faults are made of.
fn message(random: &mut Random, calls: &[(&str, String)], pieces: &mut Vec<String>, last: bool) {
    let mut add = |texts: &[&str]| pieces.extend(texts.iter().map(|&text| text.to_owned()));
    if !random.chance(if last { 60 } else { 15 }) {
        let earlier = ["analysis", "analysis", "analysis", "commentary", "commentary", "final"];
        let channel = if last { "final" } else { *random.pick(&earlier) };
        let end = match (channel, last) {
            ("final", true) => *random.pick(&["", "", "<|return|>", "<|end|>"]),
            ("final", false) => *random.pick(&["<|return|>", "<|end|>"]),
            _ => "<|end|>",
        };
        let [one, two] = [0; 2].map(|_| *random.pick(&TEXTS));
        return add(&["<|channel|>", channel, "<|message|>", one, two, end]);
    }
    let (name, arguments) = random.pick(calls);
    let to = format!(" to=functions.{}", if random.chance(20) { random.pick(&NAMES) } else { name });
    let (role, channel) = if random.chance(25) { (&*to, "") } else { ("", &*to) };
    add(&[role, "<|channel|>", "commentary", channel]);
    match random.below(8) {
        0 => add(&[" ", "json"]),
        1 => add(&["<|constrain|>", "json"]),
        2 => {}
        _ => add(&[" ", "<|constrain|>", "json"]),
    }
    let end = if last && random.chance(60) { "" } else { "<|call|>" };
    add(&["<|message|>", arguments, end]);
}
