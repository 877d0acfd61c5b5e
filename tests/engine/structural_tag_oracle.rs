//! Structural tags against a slow reference: random formats over tiny alphabets, all short texts.
//!
//! The reference is a backtracking matcher over the tree of formats, written from the documented
//! rules and without automata. It decides every short text. Masks are compared with the
//! continuations that a token's bytes can reach. `FFWD_ORACLE_CASES` sets the number of formats,
//! `FFWD_ORACLE_SEED` selects another series.

mod reference;

use std::collections::VecDeque;

use ffwd::{CompiledGrammar, Compiler, Constraint, ErrorKind, KeyOrder, Matcher, Policy};
use ffwd_testkit::env;
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::TestVocab;

use reference::{Format, START, Tag, Tags, accepts};

const WORDS: [&str; 10] = ["a", "b", "c", "ab", "ba", "bb", "aab", "abc", "cb", "é"];

fn word(random: &mut Random) -> String {
    (*random.pick(&WORDS)).to_owned()
}

fn words(random: &mut Random, most: usize) -> Vec<String> {
    (0..random.below(most + 1)).map(|_| word(random)).collect()
}

fn tag(random: &mut Random, depth: usize, begin: String) -> Tag {
    let mut ends: Vec<String> = vec![word(random)];
    ends.extend(words(random, 1));
    if random.chance(15) {
        ends = vec![String::new()];
    }
    Tag { begin, content: format(random, depth + 1), ends }
}

fn tags(random: &mut Random, depth: usize, triggers: &[String]) -> Tags {
    let count = 1 + random.below(2);
    let list = (0..count).map(|_| {
        let rest = if random.chance(40) { String::new() } else { word(random) };
        let begin = match triggers {
            [] => rest,
            _ => random.pick(triggers).clone() + &rest,
        };
        tag(random, depth, begin)
    });
    let list = list.collect();
    Tags { list, at_least_one: random.chance(30), stop_after_first: random.chance(30) }
}

fn format(random: &mut Random, depth: usize) -> Format {
    if depth > 3 || random.chance(25) {
        return match random.below(8) {
            0 => Format::Text(String::new()),
            1 => Format::Regex((*random.pick(&["a*", "b", "[ab]c?", "(ab|c){1,2}", "é?"])).to_owned()),
            2 => Format::One,
            3..=5 => {
                let (excludes, bounded) = (words(random, 2), random.chance(35));
                let min = if bounded { random.below(3) } else { 0 };
                let max = (bounded && random.chance(80)).then(|| min + random.below(4));
                Format::Any(excludes, min, max)
            }
            _ => Format::Text(word(random)),
        };
    }
    let deeper = |random: &mut Random| Box::new(format(random, depth + 1));
    let list = |random: &mut Random| (0..1 + random.below(3)).map(|_| format(random, depth + 1)).collect();
    match random.below(11) {
        0 | 1 => Format::Sequence(list(random)),
        2 => Format::Or(list(random)),
        3 => Format::Repeat(deeper(random), 0, Some(1)),
        4 => Format::Repeat(deeper(random), 0, None),
        5 => Format::Repeat(deeper(random), 1, None),
        6 => {
            let min = random.below(3) as u32;
            let max = random.chance(70).then(|| min + random.below(2) as u32);
            Format::Repeat(deeper(random), min, max)
        }
        7 | 8 => {
            let begin = if random.chance(15) { String::new() } else { word(random) };
            Format::Tag(Box::new(tag(random, depth, begin)))
        }
        9 => {
            let mut triggers = vec![word(random)];
            triggers.extend(words(random, 2));
            if random.chance(30) {
                return dispatch(random, depth, triggers);
            }
            if random.chance(40) {
                triggers.extend(words(random, 2).iter().map(|text| format!("{START}{text}")));
            }
            let mut tags = tags(random, depth, &triggers);
            // What begins with another trigger, too, is one of its tags.
            for tag in &mut tags.list {
                let text = tag.begin.strip_prefix(START).unwrap_or_default();
                if triggers.iter().any(|trigger| text.starts_with(trigger.as_str())) {
                    tag.begin.remove(0);
                }
            }
            Format::Triggered { triggers, tags, excludes: words(random, 2) }
        }
        _ => {
            let separator = if random.chance(15) { String::new() } else { word(random) };
            Format::Separated { tags: tags(random, depth, &[]), separator }
        }
    }
}

/// What the document can call a `dispatch`.
fn dispatch(random: &mut Random, depth: usize, triggers: Vec<String>) -> Format {
    let tag = |begin: &String| Tag {
        begin: begin.clone(),
        content: format(random, depth + 1),
        ends: vec![String::new()],
    };
    let list = triggers.iter().map(tag).collect();
    let tags = Tags { list, at_least_one: false, stop_after_first: random.chance(30) };
    Format::Triggered { triggers, tags, excludes: words(random, 2) }
}

/// All texts over three letters, the shorter first.
fn texts(most: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut from = 0;
    for _ in 0..most {
        let to = all.len();
        for i in from..to {
            for c in ["a", "b", "c"] {
                all.push(all[i].clone() + c);
            }
        }
        from = to;
    }
    all
}

fn random_text(random: &mut Random) -> String {
    (0..random.below(10)).map(|_| *random.pick(&["a", "b", "c", "ab", "é", "1", "è", "x"])).collect()
}

/// A text that the engine accepts and that begins like this, if a short search finds one.
fn completion(matcher: &Matcher, words: &TestVocab, text: &[u8]) -> Option<Vec<u8>> {
    let mut todo = VecDeque::from([(matcher.fork(), text.to_vec())]);
    for _ in 0..3_000 {
        let (matcher, text) = todo.pop_front()?;
        if matcher.is_accepting() {
            return Some(text);
        }
        // Inside a character only its other bytes can follow, and any of them will do.
        for (bytes, most) in [(&b"abc1\xc3"[..], 5), (b"\xa9\x80\x90\xa0\xa2\xbf", 1)] {
            let found: Vec<_> = bytes
                .iter()
                .filter_map(|&b| {
                    let mut next = matcher.fork();
                    next.accept_token(words.byte(b)).ok().map(|()| (next, [&text[..], &[b]].concat()))
                })
                .take(most)
                .collect();
            if !found.is_empty() {
                todo.extend(found);
                break;
            }
        }
    }
    None
}

struct Case<'a> {
    format: &'a Format,
    grammar: CompiledGrammar,
    words: &'a TestVocab,
}

impl Case<'_> {
    fn compare_text(&self, text: &str) {
        let got = self.words.accepts(&self.grammar, text);
        assert_eq!(got, accepts(self.format, text), "{text:?} for {}", self.format.json());
    }

    /// Whether the token may come after `text`, by brute force; `None`: nothing short shows it.
    fn may_follow(&self, text: &str, token: &[u8], tails: &[String]) -> Option<bool> {
        let start = [text.as_bytes(), token].concat();
        // The rest of a character that the token begins.
        for rest in [&b""[..], b"\xa9", b"\x80", b"\xa2", b"\x98\x80"] {
            let start = [&start[..], rest].concat();
            let Ok(start) = std::str::from_utf8(&start) else { continue };
            for tail in tails {
                if accepts(self.format, &format!("{start}{tail}")) {
                    return Some(true);
                }
            }
        }
        None
    }

    fn compare_mask(&self, text: &str, tails: &[String], random: &mut Random) -> (usize, usize) {
        let Some(mut matcher) = self.words.after(&self.grammar, text.as_bytes()) else { return (0, 0) };
        let mut row = vec![0u32; self.words.vocab.bitmask_words()];
        matcher.fill_bitmask(&mut row);
        let (mut seen, mut unknown) = (0, 0);
        for _ in 0..12 {
            let token = random.below(self.words.tokens.len());
            let bytes = &self.words.tokens[token];
            if bytes.is_empty() {
                continue;
            }
            let legal = row[token / 32] >> (token % 32) & 1 == 1;
            let context = || format!("{bytes:?} after {text:?} for {}", self.format.json());
            seen += 1;
            assert_eq!(matcher.allows(token as u32), legal, "mask and allows: {}", context());
            match self.may_follow(text, bytes, tails) {
                Some(expected) => assert_eq!(legal, expected, "{}", context()),
                None if legal => {
                    let mut next = matcher.fork();
                    next.accept_token(token as u32).expect("legal");
                    let start = [text.as_bytes(), bytes].concat();
                    match completion(&next, self.words, &start) {
                        Some(whole) => {
                            let whole = String::from_utf8(whole).expect("only text is accepted");
                            assert!(accepts(self.format, &whole), "{whole:?} from {}", context());
                        }
                        None => unknown += 1,
                    }
                }
                None => {}
            }
        }
        (seen, unknown)
    }
}

#[test]
fn random_formats() {
    let words = TestVocab::new(7, 120, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let (short, tails) = (texts(5), texts(3));
    let (mut compiled, mut refused, mut seen, mut unknown, mut members) = (0, 0, 0, 0, 0);
    let seed = env::oracle_seed();
    for case in 0..env::oracle_cases(500) {
        let mut random = Random::new(seed + case);
        let format = format(&mut random, 0);
        let constraint = match Constraint::structural_tag(format.json()) {
            Ok(constraint) => constraint,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Unsupported, "{e} for {}", format.json());
                assert!(format.refusal().is_some(), "{e} for {}", format.json());
                refused += 1;
                continue;
            }
        };
        assert_eq!(format.refusal(), None, "not refused: {}", format.json());
        let grammar = match compiler.compile(&constraint) {
            Ok(grammar) => grammar,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Unsatisfiable, "{e}");
                let none = short.iter().all(|text| !accepts(&format, text));
                assert!(none, "{e}, but it can be: {}", format.json());
                continue;
            }
        };
        compiled += 1;
        let case = Case { format: &format, grammar, words: &words };
        for text in &short {
            case.compare_text(text);
            members += usize::from(accepts(&format, text));
        }
        for _ in 0..60 {
            case.compare_text(&random_text(&mut random));
        }
        for _ in 0..6 {
            let text = random.pick(&short[..40]).clone();
            let (s, u) = case.compare_mask(&text, &tails, &mut random);
            (seen, unknown) = (seen + s, unknown + u);
        }
    }
    println!("{compiled} compiled, {refused} refused, {members} texts, {seen} bits of masks, {unknown} open");
    assert!(compiled > refused / 8 && members > 20 * compiled);
    assert!(unknown * 20 <= seen + 50, "{unknown} of {seen} bits could not be decided");
}

/// The example file, byte by byte: what is forced, and where the text may end.
#[test]
fn tools_in_free_text() {
    let words = TestVocab::new(3, 60, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let text = include_str!("../../examples/data/tools.structural_tag.json");
    let grammar = compiler.compile(&Constraint::structural_tag(text).expect("valid")).expect("satisfiable");
    let at = |text: &str| words.after(&grammar, text.as_bytes());
    let forced = |text: &str| {
        let run = at(text).expect("a beginning").forced_bytes();
        String::from_utf8(run).expect("text")
    };
    for free in ["", "Hello <", "<functio", "<function </function> é <f<func"] {
        assert!(at(free).expect("free text").is_accepting(), "{free}");
        assert_eq!(forced(free), "");
    }
    assert_eq!(forced("Let me see. <function="), "");
    assert_eq!(forced("<<function=a"), "dd>{\"numbers\":[");
    assert_eq!(forced("<function=g"), "et_weather>{\"city\":\"");
    assert!(at("<function=x").is_none());
    let call = "<function=add>{\"numbers\":[1,2.5]}";
    assert_eq!(forced(call), "</function>");
    assert!(!at(call).expect("a beginning").is_accepting());
    let both = format!("a {call}</function> b{call}</function>");
    assert!(at(&both).expect("two calls").is_accepting());
    assert!(at(&format!("{call}</function><function=add>x")).is_none());
}

/// A schema in any order matches the same texts as it does alone under that policy, and the same
/// schema next to it keeps its order: all orders and choices of some properties, and of their
/// parts.
#[test]
fn properties_in_any_order() {
    let words = TestVocab::new(3, 60, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let any = Policy { key_order: KeyOrder::Any, ..Policy::default() };
    let inner = r#"{"type":"object","properties":{"x":{"const":1},"y":{"const":2}},"required":["x"],"additionalProperties":false}"#;
    let schemas = [
        format!(r#"{{"type":"object","properties":{{"a":{{"type":"integer"}},"b":{inner},"c":{{"enum":[{{"p":1,"q":2}}]}}}}}}"#),
        format!(r#"{{"type":"object","properties":{{"a":true,"b":{inner}}},"required":["b"],"minProperties":2,"maxProperties":3}}"#),
        r#"{"type":"object","properties":{"a":{"type":"integer"}},"patternProperties":{"^[bc]$":{"type":"object"}},"additionalProperties":false}"#.into(),
        r#"{"type":"object","required":["c","a"],"oneOf":[{"required":["b"]},{"properties":{"a":{"const":7}}}]}"#.into(),
        r#"{"type":"array","items":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"object"}}},"uniqueItems":true}"#.into(),
    ];
    let values = [
        ("a", &["7", "8"][..]),
        ("b", &[r#"{"x":1,"y":2}"#, r#"{"y":2,"x":1}"#, r#"{"y":2}"#]),
        ("c", &[r#"{"p":1,"q":2}"#, r#"{"q":2,"p":1}"#]),
    ];
    let mut texts = vec![vec![]];
    for _ in 0..3 {
        let shorter = texts.clone();
        for (name, of) in values {
            for (value, text) in of.iter().flat_map(|v| shorter.iter().map(move |t| (v, t))) {
                texts.push([&text[..], &[format!(r#""{name}":{value}"#)]].concat());
            }
        }
    }
    let mut texts: Vec<String> = texts.iter().map(|members| format!("{{{}}}", members.join(","))).collect();
    texts.sort_unstable();
    texts.dedup();
    let accepts = |grammar: &CompiledGrammar, text: &str| words.accepts(grammar, text);
    for schema in schemas {
        let leaf =
            |any_order| format!(r#"{{"type":"json_schema","json_schema":{schema},"any_order":{any_order}}}"#);
        let tag = |format: String| {
            let text = format!(r#"{{"type":"structural_tag","format":{format}}}"#);
            compiler.compile(&Constraint::structural_tag(&text).expect("valid")).expect("satisfiable")
        };
        let own = |policy| {
            let constraint = Constraint::builder().policy(policy).json_schema(&schema).expect("valid");
            compiler.compile(&constraint).expect("satisfiable")
        };
        let (free, fixed) = (own(any.clone()), own(Policy::default()));
        let both = format!(
            r#"{{"type":"sequence","elements":[{},{{"type":"const_string","value":"|"}},{}]}}"#,
            leaf(true),
            leaf(false)
        );
        let (alone, both) = (tag(leaf(true)), tag(both));
        let array = schema.contains("items");
        let (mut freely, mut declared) = (0, 0);
        for (i, text) in texts.iter().enumerate() {
            let other = &texts[(i * 7919) % texts.len()];
            let text = if array { format!("[{text},{other}]") } else { text.clone() };
            let (is_free, is_fixed) = (accepts(&free, &text), accepts(&fixed, &text));
            assert_eq!(accepts(&alone, &text), is_free, "{text} for {schema}");
            assert!(is_free || !is_fixed, "{text} for {schema}");
            assert_eq!(accepts(&both, &format!("{text}|{text}")), is_fixed, "{text} twice for {schema}");
            (freely, declared) = (freely + usize::from(is_free), declared + usize::from(is_fixed));
        }
        assert!(declared > 0 && freely > declared, "{declared} of {freely} for {schema}");
    }
}

/// Tool names that begin alike are one path: the longest common part is forced.
#[test]
fn what_names_share_is_forced() {
    let words = TestVocab::new(3, 60, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let tags: Vec<_> = (0..200)
        .map(|i| {
            serde_json::json!({"begin": format!("<tool>get_{i:03}("), "end": ")",
            "content": {"type": "json_schema", "json_schema": {"const": i}}})
        })
        .collect();
    let tag = serde_json::json!({"type": "structural_tag", "format": {
        "type": "triggered_tags", "triggers": ["<to"], "tags": tags}});
    let grammar = compiler.compile(&Constraint::structural_tag(tag.to_string()).expect("valid")).expect("ok");
    let forced = |text: &str| words.after(&grammar, text.as_bytes()).expect("a beginning").forced_bytes();
    assert_eq!(forced("<to"), b"ol>get_");
    assert_eq!(forced("x<tool>get_17"), b"");
    assert_eq!(forced("x<tool>get_175"), b"(175)");
}
