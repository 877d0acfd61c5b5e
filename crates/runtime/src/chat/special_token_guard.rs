//! Marks the texts of special tokens in text from outside before a template is rendered, and cuts
//! the prompt so that only the template's are special.
//!
//! A chat template mixes its own text, in which `<|im_end|>` ends a turn, with text from outside,
//! in which the same letters mean nothing. Outside text may contain the spelling of a special
//! token, or begin or end with a piece of one. Before rendering, a private character is inserted
//! into each such spelling. After rendering, special tokens without that character are the
//! template's, and the character is removed.
//!
//! If nothing was marked, the output is one part. It has the tokens that the model was trained
//! with, also across the boundaries between template and text.
//!
//! # Cost
//! One pass over the texts and one over the output.
//!
//! # Alternatives considered
//! Placeholders for the texts were rejected: templates trim, split and compare the texts they
//! receive. Escaping was rejected, too: tokenizers have no escape.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde_json::{Map, Value};

use super::PromptPart;
use crate::error::{Error, ErrorKind, Result};

/// Maximum nesting of values given to a template.
pub(super) const MAX_DEPTH: usize = 64;
/// The range of the private character.
const PRIVATE: Range<u32> = 0xe000..0xf900;

/// The special tokens of a vocabulary, and the marking character.
pub(super) struct Guard<'a> {
    /// The special tokens by first character, the longest first.
    specials: HashMap<char, Vec<&'a str>>,
    /// The proper prefixes of special tokens; `tails` contains the proper suffixes.
    heads: HashSet<&'a str>,
    tails: HashSet<&'a str>,
    longest: usize,
    marker: char,
}

impl<'a> Guard<'a> {
    /// Creates a guard whose marker occurs in none of `texts`. These must include all texts of the
    /// messages and the template.
    pub(super) fn new<'t>(specials: &'a [String], texts: &[&'t str]) -> Result<Self> {
        let mut used = HashSet::new();
        for text in texts {
            used.extend(text.chars().filter(|c| PRIVATE.contains(&u32::from(*c))));
        }
        let marker = PRIVATE.filter_map(char::from_u32).find(|c| !used.contains(c)).ok_or_else(|| {
            Error::new(ErrorKind::TooComplex, "the messages use every private character of Unicode")
        })?;
        let mut guard = Guard {
            specials: HashMap::new(),
            heads: HashSet::new(),
            tails: HashSet::new(),
            longest: 0,
            marker,
        };
        for special in specials {
            let Some(first) = special.chars().next() else { continue };
            guard.specials.entry(first).or_default().push(special);
            guard.longest = guard.longest.max(special.len());
            for (at, _) in special.char_indices().skip(1) {
                guard.heads.insert(&special[..at]);
                guard.tails.insert(&special[at..]);
            }
        }
        for list in guard.specials.values_mut() {
            list.sort_by_key(|s| std::cmp::Reverse(s.len()));
        }
        Ok(guard)
    }

    /// Returns the longest special token with which `text` begins.
    fn special_at(&self, text: &str) -> Option<&'a str> {
        let list = self.specials.get(&text.chars().next()?)?;
        list.iter().find(|s| text.starts_with(**s)).copied()
    }

    /// Returns `text`, marked where it could be mistaken for text of the template.
    pub(super) fn protect(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let end = text.len().min(self.longest);
        if (1..=end).any(|n| text.is_char_boundary(n) && self.tails.contains(&text[..n])) {
            out.push(self.marker);
        }
        for (at, c) in text.char_indices() {
            match self.special_at(&text[at..]) {
                None => out.push(c),
                // A single letter has no inside. It is marked twice, because one mark may come
                // before a letter of the template.
                Some(special) if special.len() == c.len_utf8() => {
                    out.extend([self.marker, self.marker, c]);
                }
                Some(_) => out.extend([c, self.marker]),
            }
        }
        let start = text.len() - end;
        if (start..text.len()).any(|n| text.is_char_boundary(n) && self.heads.contains(&text[n..])) {
            out.push(self.marker);
        }
        out
    }

    /// Marks all texts in a value, including the names of members.
    pub(super) fn protect_value(&self, value: &Value, depth: usize) -> Result<Value> {
        if depth > MAX_DEPTH {
            let message = format!("messages or tools are nested more than {MAX_DEPTH} deep");
            return Err(Error::new(ErrorKind::TooComplex, message));
        }
        Ok(match value {
            Value::String(s) => Value::String(self.protect(s)),
            Value::Array(list) => {
                list.iter().map(|v| self.protect_value(v, depth + 1)).collect::<Result<Vec<_>>>()?.into()
            }
            Value::Object(members) => {
                let mut all = Map::new();
                for (name, v) in members {
                    all.insert(self.protect(name), self.protect_value(v, depth + 1)?);
                }
                Value::Object(all)
            }
            other => other.clone(),
        })
    }

    /// Returns the spans of special tokens: leftmost, longest, without a mark inside, and without
    /// two marks before a single letter.
    fn scan(&self, text: &str) -> Vec<Range<usize>> {
        let (mut found, mut at, mut marks) = (Vec::new(), 0, 0);
        while let Some(c) = text[at..].chars().next() {
            let fits = |s: &&str| marks < 2 || s.len() > c.len_utf8();
            match self.special_at(&text[at..]).filter(fits) {
                Some(special) => {
                    found.push(at..at + special.len());
                    at += special.len();
                }
                None => at += c.len_utf8(),
            }
            marks = if c == self.marker { marks + 1 } else { 0 };
        }
        found
    }

    /// Splits the output of a template into parts. Special tokens are recognised in trusted parts
    /// only. The parts together are the text without marks. `apart` splits at every special token
    /// in any case.
    pub(super) fn split(&self, rendered: &str, apart: bool) -> Vec<PromptPart> {
        let plain = |s: &str| s.replace(self.marker, "");
        let own = self.scan(rendered);
        let text = plain(rendered);
        // Returns true if no marked text would be taken for a special token, which is so in almost
        // all conversations.
        let harmless = || {
            let (mut at, mut removed) = (0, 0);
            let moved = own.iter().map(|r| {
                removed += rendered[at..r.start].matches(self.marker).count() * self.marker.len_utf8();
                at = r.start;
                r.start - removed..r.end - removed
            });
            text.len() == rendered.len() || moved.eq(self.scan(&text))
        };
        if !apart && harmless() {
            return vec![PromptPart::Template(text)];
        }
        let mut parts = Vec::new();
        let mut add = |trusted: bool, text: String| {
            if !text.is_empty() {
                let part = if trusted { PromptPart::Template(text) } else { PromptPart::Text(text) };
                PromptPart::push(&mut parts, part);
            }
        };
        let mut at = 0;
        for special in own.into_iter().chain(std::iter::once(rendered.len()..rendered.len())) {
            let gap = &rendered[at..special.start];
            add(!apart && !gap.contains(self.marker), plain(gap));
            add(true, rendered[special.clone()].to_owned());
            at = special.end;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specials() -> Vec<String> {
        ["<|im_start|>", "<|im_end|>", "<s>", "</s>", "[INST]", "§"].map(String::from).to_vec()
    }

    #[test]
    fn harmless_texts_stay_as_they_are() {
        let specials = specials();
        let guard = Guard::new(&specials, &[]).unwrap();
        for text in ["", "a < b > c", "  trim me\n", "<|", "user", "x <s y", "[INST", "im_start"] {
            let kept = guard.protect(text);
            assert_eq!(kept.replace(guard.marker, ""), text);
            let parts = guard.split(&format!("<|im_start|>user\n{kept}<|im_end|>"), false);
            let want = PromptPart::Template(format!("<|im_start|>user\n{text}<|im_end|>"));
            assert_eq!(parts, [want], "{text:?}");
        }
        assert_eq!(guard.protect("user"), "user");
        assert_eq!(guard.protect(" <b>bold</b> "), " <b>bold</b> ");
    }

    #[test]
    fn spellings_of_special_tokens_become_text() {
        let specials = specials();
        let guard = Guard::new(&specials, &[]).unwrap();
        let text = "a<|im_end|>b<s></s>§";
        let kept = guard.protect(text);
        let parts = guard.split(&format!("<|im_start|>{kept}<|im_end|>\nand§ so"), false);
        let want = [
            PromptPart::Template("<|im_start|>".to_owned()),
            PromptPart::Text(text.to_owned()),
            PromptPart::Template("<|im_end|>\nand§ so".to_owned()),
        ];
        assert_eq!(parts, want);
    }

    /// However outside texts and pieces of the template meet, the special tokens found are those of
    /// the template. This holds as long as the template does not cut a text inside a special
    /// token's spelling.
    #[test]
    fn no_way_of_joining_texts_makes_a_special_token() {
        let specials = specials();
        let pieces =
            ["<", "|", "im_end", "|>", "<|im_", "end|>", "s>", "<s", "§", "/s>", "<|im_end|>", "x", ""];
        for a in pieces {
            for b in pieces {
                for c in pieces {
                    let guard = Guard::new(&specials, &[a, b, c]).unwrap();
                    let (ka, kb, kc) = (guard.protect(a), guard.protect(b), guard.protect(c));
                    // Texts in sequence, and before and after the template's own tokens.
                    for (rendered, own) in [
                        (format!("{ka}{kb}{kc}"), 0),
                        (format!("<s>{ka}{kb}<|im_end|>{kc}§"), 3),
                        (format!("{ka}§{kb}</s>{kc}"), 2),
                    ] {
                        let parts = guard.split(&rendered, false);
                        let joined: String = parts.iter().map(PromptPart::as_str).collect();
                        assert_eq!(joined, rendered.replace(guard.marker, ""));
                        let found: usize = parts
                            .iter()
                            .filter(|p| p.is_template())
                            .map(|p| guard.scan(p.as_str()).len())
                            .sum();
                        // A piece wholly inside a spelling can form a token only with neighbours
                        // that are pieces of it, too, and those are marked.
                        assert_eq!(found, own, "{a:?} {b:?} {c:?}: {parts:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_marker_is_a_character_that_nobody_uses() {
        let specials = specials();
        assert_eq!(Guard::new(&specials, &["a\u{e000}", "\u{e001}b"]).unwrap().marker, '\u{e002}');
        let all: String = PRIVATE.filter_map(char::from_u32).collect();
        assert_eq!(Guard::new(&specials, &[&all]).err().unwrap().kind(), ErrorKind::TooComplex);
    }

    #[test]
    fn values_are_protected_to_a_depth() {
        let specials = specials();
        let guard = Guard::new(&specials, &[]).unwrap();
        let value = serde_json::json!({"a<s>": ["<s>", 1, null, {"b": "</s>"}]});
        let kept = guard.protect_value(&value, 0).unwrap().to_string();
        assert!(guard.scan(&kept).is_empty());
        assert_eq!(kept.replace(guard.marker, ""), value.to_string());
        let deep = (0..MAX_DEPTH + 1).fold(Value::Null, |v, _| Value::Array(vec![v]));
        assert_eq!(guard.protect_value(&deep, 0).unwrap_err().kind(), ErrorKind::TooComplex);
    }
}
