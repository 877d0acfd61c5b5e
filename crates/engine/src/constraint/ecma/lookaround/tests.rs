use std::collections::BTreeSet;

use crate::constraint::ecma::parse;
use crate::constraint::ir::{Ir, Node};
use crate::constraint::test_reference::matches;
use crate::error::ErrorKind;
use ffwd_testkit::random::Random;

#[test]
fn limits() {
    let many: String = ('a'..='q').map(|c| format!("(?={c})")).collect();
    let nested = "(?=".repeat(300) + &")".repeat(300);
    for pattern in [many, nested] {
        assert_eq!(parse(&pattern, &mut Ir::new()).unwrap_err().kind(), ErrorKind::TooComplex);
    }
}

/// A pattern as ECMA-262 defines it: a relation between positions of one text.
enum Pattern {
    Char(char),
    Dot,
    Start,
    End,
    Boundary(bool),
    Look { ahead: bool, negated: bool, body: Box<Pattern> },
    Sequence(Vec<Pattern>),
    Choice(Vec<Pattern>),
    Star(Box<Pattern>),
}

impl Pattern {
    fn random(random: &mut Random, depth: u32, behind: bool) -> Pattern {
        let sub = |random: &mut Random| Pattern::random(random, depth - 1, behind);
        match if depth == 0 { random.below(4) } else { random.below(11) } {
            0 | 1 => Pattern::Char(['a', 'b'][random.below(2)]),
            2 => Pattern::Dot,
            3 if random.below(2) == 0 => Pattern::Start,
            3 if !behind => Pattern::End,
            3 => Pattern::Char('-'),
            4 if !behind => Pattern::Boundary(random.below(2) == 0),
            4..=6 if !behind => {
                let ahead = random.below(3) > 0;
                let body = Pattern::random(random, depth - 1, !ahead);
                Pattern::Look { ahead, negated: random.below(2) == 0, body: Box::new(body) }
            }
            4..=8 => Pattern::Sequence((0..2 + random.below(2)).map(|_| sub(random)).collect()),
            9 => Pattern::Choice((0..2).map(|_| sub(random)).collect()),
            _ => Pattern::Star(Box::new(sub(random))),
        }
    }

    fn text(&self) -> String {
        let all =
            |parts: &[Pattern], between| parts.iter().map(Pattern::text).collect::<Vec<_>>().join(between);
        match self {
            Pattern::Char(c) => c.to_string(),
            Pattern::Dot => ".".into(),
            Pattern::Start => "^".into(),
            Pattern::End => "$".into(),
            Pattern::Boundary(inside) => if *inside { r"\B" } else { r"\b" }.into(),
            Pattern::Look { ahead, negated, body } => {
                let sign = if *negated { "!" } else { "=" };
                format!("(?{}{sign}{})", if *ahead { "" } else { "<" }, body.text())
            }
            Pattern::Sequence(parts) => all(parts, ""),
            Pattern::Choice(parts) => format!("(?:{})", all(parts, "|")),
            Pattern::Star(body) => format!("(?:{})*", body.text()),
        }
    }

    /// Returns the ends of all matches that begin at `at`.
    fn ends(&self, text: &[char], at: usize) -> BTreeSet<usize> {
        let if_holds = |holds: bool| if holds { BTreeSet::from([at]) } else { BTreeSet::new() };
        let is_word = |i: usize| text.get(i).is_some_and(|c| c.is_ascii_alphanumeric());
        match self {
            Pattern::Char(c) if text.get(at) == Some(c) => BTreeSet::from([at + 1]),
            Pattern::Dot if at < text.len() => BTreeSet::from([at + 1]),
            Pattern::Char(_) | Pattern::Dot => BTreeSet::new(),
            Pattern::Start => if_holds(at == 0),
            Pattern::End => if_holds(at == text.len()),
            Pattern::Boundary(inside) => {
                let boundary = (at > 0 && is_word(at - 1)) != is_word(at);
                if_holds(boundary != *inside)
            }
            Pattern::Look { ahead: true, negated, body } => {
                if_holds(body.ends(text, at).is_empty() == *negated)
            }
            Pattern::Look { ahead: false, negated, body } => {
                if_holds((0..=at).any(|from| body.ends(text, from).contains(&at)) != *negated)
            }
            Pattern::Sequence(parts) => parts.iter().fold(BTreeSet::from([at]), |starts, part| {
                starts.into_iter().flat_map(|s| part.ends(text, s)).collect()
            }),
            Pattern::Choice(parts) => parts.iter().flat_map(|p| p.ends(text, at)).collect(),
            Pattern::Star(body) => {
                let (mut found, mut todo) = (BTreeSet::new(), vec![at]);
                while let Some(at) = todo.pop() {
                    if found.insert(at) {
                        todo.extend(body.ends(text, at));
                    }
                }
                found
            }
        }
    }
}

#[test]
fn random_patterns_match_what_the_definition_says() {
    let mut texts: Vec<Vec<char>> = vec![Vec::new()];
    for from in 0.. {
        if texts[from].len() == 4 {
            break;
        }
        for c in ['a', 'b', '-'] {
            let longer = texts[from].iter().copied().chain([c]).collect();
            texts.push(longer);
        }
    }
    let mut random = Random::new(7);
    let (mut looked, mut empty) = (0, 0);
    for _ in 0..1_500 {
        let pattern = Pattern::random(&mut random, 4, false);
        let text = pattern.text();
        let mut ir = Ir::new();
        let root = parse(&text, &mut ir).unwrap_or_else(|e| panic!("{text}: {e}"));
        looked += usize::from(text.contains("(?=") || text.contains("(?!") || text.contains("(?<"));
        empty += usize::from(*ir.node(root) == Node::Never);
        for chars in &texts {
            let expected = (0..=chars.len()).any(|at| !pattern.ends(chars, at).is_empty());
            let subject: String = chars.iter().collect();
            assert_eq!(matches(&ir, root, subject.as_bytes()), expected, "{text} on {subject:?}");
        }
    }
    // Enough patterns have look-around, and most of them match some text.
    assert!(looked > 500 && empty < 700, "{looked} with look-around, {empty} that match nothing");
}
