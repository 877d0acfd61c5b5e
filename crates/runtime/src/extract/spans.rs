//! Spans of the source text that the values of a record were copied from.
//!
//! A span is exact: the text at the span is the value, byte for byte. A string is compared as it is
//! after decoding, a number as it is written. Nothing is normalised.
//!
//! - A string with `x-verbatim` was copied, and the automaton reports where it may come from. All of
//!   these occurrences are listed.
//! - Another string, or a number, has a span if the text contains it exactly once as a whole word. A
//!   *word* is a run of word characters, as in the word bounds of `x-verbatim`. Numbers must also
//!   not continue: `12` is not in `12.5`, `-12` or `1,12`.
//! - All other values have none: literals, and the empty string.
//!
//! # Cost
//!
//! One search of the text for each value.
//!
//! # Alternatives considered
//!
//! Approximate matches were rejected: a span that is only similar to the value is a guess.

use std::ops::Range;

use ffwd_engine::text::without_mark;
use serde::Serialize;

use crate::decode::leaf_values;
use crate::matcher::SourceSpan;

/// Largest number of occurrences that are listed for a value.
pub const MAX_OCCURRENCES: usize = 100;

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TextSpan {
    /// Byte offsets.
    #[serde(serialize_with = "as_pair")]
    pub bytes: Range<usize>,
    /// Offsets in characters (Unicode scalar values).
    #[serde(serialize_with = "as_pair")]
    pub chars: Range<usize>,
}

/// The spans of a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ValueSpans {
    /// JSON pointer of the value; empty for the whole record.
    pub pointer: String,
    /// True if the constraint made the value a span (`x-verbatim`).
    pub verbatim: bool,
    /// The occurrences in the text, at least one and at most [`MAX_OCCURRENCES`], in order. Several
    /// only if `verbatim`: any of them may be the one that was copied.
    pub occurrences: Vec<TextSpan>,
}

impl ValueSpans {
    /// Returns the span, if the value occurs once.
    pub fn unique(&self) -> Option<&TextSpan> {
        self.occurrences.first().filter(|_| self.occurrences.len() == 1)
    }
}

pub(super) fn as_pair<S: serde::Serializer>(range: &Range<usize>, to: S) -> Result<S::Ok, S::Error> {
    [range.start, range.end].serialize(to)
}

/// Returns the spans of the values of a record. `record` is its JSON text, `quoted` are the spans of
/// the source in that text ([`Output::source_spans`](crate::Output::source_spans)), and `text` is
/// the text that the record was extracted from. Values without a span are left out.
///
/// ```
/// use ffwd::extract::spans_of;
///
/// let text = "Zoë Öz owes 12.50 EUR, Max owes 3 EUR.";
/// let spans = spans_of(r#"{"name":"Zoë Öz","total":12.50,"currency":"EUR"}"#, &[], text);
/// let pointers: Vec<&str> = spans.iter().map(|value| value.pointer.as_str()).collect();
/// assert_eq!(pointers, ["/name", "/total"]); // EUR occurs twice
/// let total = spans[1].unique().unwrap();
/// assert_eq!((&text[total.bytes.clone()], total.chars.clone()), ("12.50", 12..17));
/// ```
pub fn spans_of(record: &str, quoted: &[SourceSpan], text: &str) -> Vec<ValueSpans> {
    let mut found = Vec::new();
    for leaf in leaf_values(record.as_bytes()) {
        let written = &record[leaf.bytes.clone()];
        let value = match written.as_bytes()[0] {
            b'"' => match serde_json::from_str::<String>(written) {
                Ok(value) => value,
                Err(_) => continue,
            },
            b'-' | b'0'..=b'9' => written.to_owned(),
            _ => continue,
        };
        let inner = leaf.bytes.start + 1..leaf.bytes.end - 1;
        let quote = quoted.iter().find(|quote| written.starts_with('"') && quote.output == inner);
        let starts = match quote {
            Some(quote) => copies(text, &value, quote.found.count),
            None if written.starts_with('"') => only(words(text, &value)),
            None => only(words(text, &value).filter(|&at| is_whole_number(text, at..at + value.len()))),
        };
        if !starts.is_empty() {
            let at = |start: &usize| span(text, *start..start + value.len());
            let occurrences = starts.iter().take(MAX_OCCURRENCES).map(at).collect();
            found.push(ValueSpans { pointer: leaf.pointer, verbatim: quote.is_some(), occurrences });
        }
    }
    found
}

fn span(text: &str, bytes: Range<usize>) -> TextSpan {
    let before = text[..bytes.start].chars().count();
    let chars = before..before + text[bytes.clone()].chars().count();
    TextSpan { bytes, chars }
}

/// Returns the offsets of the occurrences of a copied value, of which the automaton knows `count`:
/// all of them, or those at words. If neither has this number, there are none to list.
fn copies(text: &str, value: &str, count: usize) -> Vec<usize> {
    let anywhere: Vec<usize> = occurrences(text, value).collect();
    if anywhere.len() == count {
        return anywhere;
    }
    let words: Vec<usize> = words(text, value).collect();
    if words.len() == count { words } else { Vec::new() }
}

/// Returns the only item, or nothing.
fn only(mut starts: impl Iterator<Item = usize>) -> Vec<usize> {
    match (starts.next(), starts.next()) {
        (Some(start), None) => vec![start],
        _ => Vec::new(),
    }
}

/// Returns the offsets of a value in a text, overlapping ones included; none of an empty value. A byte
/// order mark at the beginning is counted and not searched: a record is never copied from it.
fn occurrences<'a>(text: &'a str, value: &'a str) -> impl Iterator<Item = usize> + 'a {
    let step = value.chars().next().map_or(text.len() + 1, char::len_utf8);
    let mut from = if value.is_empty() { text.len() + 1 } else { text.len() - without_mark(text).len() };
    std::iter::from_fn(move || {
        let start = from + text.get(from..)?.find(value)?;
        from = start + step;
        Some(start)
    })
}

/// Returns the offsets of a value that begin and end at words.
fn words<'a>(text: &'a str, value: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_bound = |at: usize| {
        let is_word = |c: Option<char>| c.is_some_and(regex_syntax::is_word_character);
        !(is_word(text[..at].chars().next_back()) && is_word(text[at..].chars().next()))
    };
    occurrences(text, value).filter(move |&at| is_bound(at) && is_bound(at + value.len()))
}

/// Returns true if the number at a span does not continue on either side.
fn is_whole_number(text: &str, bytes: Range<usize>) -> bool {
    let is_mark = |c: char| matches!(c, '.' | ',' | '\'' | '\u{2019}' | '\u{a0}' | '\u{202f}');
    let mut before = text[..bytes.start].chars().rev();
    let mut after = text[bytes.end..].chars();
    let (last, first) = (before.next(), after.next());
    let is_signed = last.is_some_and(|c| matches!(c, '-' | '+' | '\u{2212}' | '\u{2013}'));
    let continues = |mark: Option<char>, next: Option<char>| {
        mark.is_some_and(is_mark) && next.is_some_and(|c| c.is_ascii_digit())
    };
    !is_signed && !continues(last, before.next()) && !continues(first, after.next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraint::substring::Occurrences;
    use ffwd_testkit::random::Random;
    use serde_json::json;

    /// Parts of texts that are easy to get wrong: CJK, emoji with joiners, combining marks, line
    /// ends, quotation marks, byte order marks, numbers, repeated words.
    const PARTS: [&str; 25] = [
        "a",
        "A",
        "東京",
        "都",
        "e\u{301}",
        "é",
        "\u{1f468}\u{200d}\u{1f469}",
        "\u{1f469}",
        "\r\n",
        "\n",
        " ",
        " ",
        "\"",
        "\\",
        "12",
        ".",
        "5",
        ",",
        "-",
        "_",
        "of",
        "\u{301}",
        "\t",
        "\u{a0}",
        "\u{feff}",
    ];

    fn random_text(random: &mut Random, most: usize) -> String {
        (0..random.below(most)).map(|_| *random.pick(&PARTS)).collect()
    }

    fn word(c: char) -> bool {
        regex_syntax::is_word_character(c)
    }

    /// The reference: looks at every position.
    fn naive(text: &str, value: &str, whole: bool) -> Vec<(Range<usize>, Range<usize>)> {
        let chars: Vec<char> = text.chars().collect();
        let wanted: Vec<char> = value.chars().collect();
        let bytes = |n: usize| chars[..n].iter().map(|c| c.len_utf8()).sum::<usize>();
        (0..chars.len())
            .filter(|&at| !wanted.is_empty() && chars[at..].starts_with(&wanted))
            .filter(|&at| at > 0 || chars[0] != '\u{feff}')
            .map(|at| at..at + wanted.len())
            .filter(|r| {
                let cut = |at: usize| at > 0 && at < chars.len() && word(chars[at - 1]) && word(chars[at]);
                !whole || !cut(r.start) && !cut(r.end)
            })
            .map(|r| (bytes(r.start)..bytes(r.end), r))
            .collect()
    }

    #[test]
    fn spans_are_exact_and_those_of_a_naive_search() {
        let mut random = Random::new(5);
        let (mut given, mut repeated, mut absent) = (0, 0, 0);
        for _ in 0..9000 {
            let text = random_text(&mut random, 24);
            let bounds: Vec<usize> = text.char_indices().map(|c| c.0).chain([text.len()]).collect();
            let (a, b) = (*random.pick(&bounds), *random.pick(&bounds));
            let value =
                if random.chance(80) { text[a.min(b)..a.max(b)].into() } else { random_text(&mut random, 3) };
            let record = json!({"list": [value.clone()], "b": true, "n": null}).to_string();
            let begin = record.find(":[\"").unwrap() + 3;
            let quote = |whole: bool| {
                let found = naive(&text, &value, whole);
                let first = found.first()?.0.clone();
                let output = begin..begin + serde_json::to_string(&value).unwrap().len() - 2;
                let found = Occurrences { first, count: found.len() };
                Some(SourceSpan { output, text: value.clone(), source: 0, found })
            };
            for (quoted, whole) in [(None, true), (quote(false), false), (quote(true), true)] {
                let verbatim = quoted.is_some();
                let quoted: Vec<SourceSpan> = quoted.into_iter().collect();
                let mut expected = naive(&text, &value, whole);
                if !verbatim && expected.len() != 1 {
                    expected.clear();
                }
                let found = spans_of(&record, &quoted, &text);
                assert_eq!(found.is_empty(), expected.is_empty(), "{value:?} in {text:?}");
                absent += usize::from(found.is_empty());
                let Some(found) = found.first() else { continue };
                assert_eq!((found.pointer.as_str(), found.verbatim), ("/list/0", verbatim));
                let spans: Vec<_> =
                    found.occurrences.iter().map(|s| (s.bytes.clone(), s.chars.clone())).collect();
                assert_eq!(spans, expected, "{value:?} in {text:?}");
                for span in &found.occurrences {
                    assert_eq!(text[span.bytes.clone()], value);
                    let chars: String = text.chars().skip(span.chars.start).take(span.chars.len()).collect();
                    assert_eq!(chars, value);
                }
                assert_eq!(found.unique().is_some(), spans.len() == 1);
                given += 1;
                repeated += usize::from(spans.len() > 1);
            }
        }
        assert!(given > 3000 && repeated > 500 && absent > 1000, "{given} {repeated} {absent}");
    }

    #[test]
    fn numbers_have_spans_only_as_they_are_written() {
        let of = |number: &str, text: &str| {
            let found = spans_of(&format!("{{\"n\":{number}}}"), &[], text);
            found.first().map(|value| value.unique().unwrap().bytes.start)
        };
        assert_eq!(of("12", "pay 12 now"), Some(4));
        assert_eq!(of("12", "pay 12."), Some(4));
        assert_eq!(of("12", "12, 13"), Some(0));
        assert_eq!(of("-12", "at -12 degrees"), Some(3));
        assert_eq!(of("12.50", "12.50 EUR"), Some(0));
        let none = [
            "12.5",
            "3.12",
            "1,120",
            "1,12",
            "12'000",
            "a12",
            "12a",
            "-12",
            "\u{2212}12",
            "12 and 12",
            "120",
            "",
            "12\u{a0}000",
        ];
        for text in none {
            assert_eq!(of("12", text), None, "{text}");
        }
        assert_eq!(of("1840.0", "1,840.00 EUR"), None);
    }

    #[test]
    fn occurrences_have_a_limit() {
        let text = "a ".repeat(1000);
        let quote = SourceSpan {
            output: 2..3,
            text: "a".into(),
            source: 0,
            found: Occurrences { first: 0..1, count: 1000 },
        };
        let found = spans_of("[\"a\"]", &[quote], &text);
        assert_eq!(found[0].occurrences.len(), MAX_OCCURRENCES);
        assert!(spans_of("\"\"", &[], "text").is_empty());
    }
}
