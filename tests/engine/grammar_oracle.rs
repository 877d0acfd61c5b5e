//! Grammars against a slow reference: complete texts, beginnings of texts, and legal tokens.
//!
//! The reference has grammars as trees. It computes sets of positions by repetition until nothing
//! changes. Left recursion, empty rules and ambiguity need no special care there. Random grammars
//! are written in both notations and compared for every short text over a small alphabet.
//! `FFWD_ORACLE_CASES` sets the number of random grammars.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ffwd::{Constraint, ErrorKind, GrammarSizes, Matcher};
use ffwd_testkit::env;
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::{Setting, accepts};
use ffwd_testkit::walk::{ByteLanguage, Seen, Spelled, Walk};

/// An expression of the reference; characters are ASCII.
#[derive(Debug, Clone)]
enum Tree {
    Text(&'static str),
    Class(&'static str),
    Seq(Vec<Tree>),
    Alt(Vec<Tree>),
    Rep(Box<Tree>, usize, Option<usize>),
    Rule(usize),
}

/// Rules by number; the first is the start.
#[derive(Debug, Clone)]
struct Reference {
    rules: Vec<Tree>,
    productive: Vec<bool>,
}

/// Texts of the reference are shorter.
const LONGEST: usize = 60;

/// What is known of one text: by rule and position, the ends of matches (as bits) and whether the
/// rest of the text can be the beginning of a match.
struct Table<'a> {
    text: &'a [u8],
    ends: Vec<Vec<u64>>,
    begins: Vec<Vec<bool>>,
}

impl Reference {
    fn new(rules: Vec<Tree>) -> Self {
        let mut reference = Reference { productive: vec![false; rules.len()], rules };
        for _ in 0..=reference.rules.len() {
            for r in 0..reference.rules.len() {
                reference.productive[r] = reference.can_end(&reference.rules[r]);
            }
        }
        reference
    }

    fn can_end(&self, tree: &Tree) -> bool {
        match tree {
            Tree::Text(_) => true,
            Tree::Class(class) => !class.is_empty(),
            Tree::Seq(parts) => parts.iter().all(|p| self.can_end(p)),
            Tree::Alt(parts) => parts.iter().any(|p| self.can_end(p)),
            Tree::Rep(part, min, _) => *min == 0 || self.can_end(part),
            Tree::Rule(r) => self.productive[*r],
        }
    }

    /// Whether the text is in the language, and whether it can begin one of its texts.
    fn ask(&self, text: &[u8]) -> (bool, bool) {
        let n = text.len();
        assert!(n < LONGEST, "positions are bits");
        let mut table = Table {
            text,
            ends: vec![vec![0; n + 1]; self.rules.len()],
            begins: vec![vec![false; n + 1]; self.rules.len()],
        };
        loop {
            let mut changed = false;
            for r in 0..self.rules.len() {
                for i in 0..=n {
                    let ends = self.ends(&self.rules[r], 1 << i, &table);
                    let begins = self.begins(&self.rules[r], 1 << i, &table);
                    changed |= ends != table.ends[r][i] || begins != table.begins[r][i];
                    (table.ends[r][i], table.begins[r][i]) = (ends, begins);
                }
            }
            if !changed {
                return (table.ends[0][0] >> n & 1 == 1, table.begins[0][0]);
            }
        }
    }

    /// Where matches end that begin at one of the positions `from`.
    fn ends(&self, tree: &Tree, from: u64, table: &Table) -> u64 {
        let each = |f: &dyn Fn(usize) -> u64| positions(from).fold(0, |all, i| all | f(i));
        match tree {
            Tree::Text(text) => {
                each(&|i| u64::from(table.text[i..].starts_with(text.as_bytes())) << (i + text.len()))
            }
            Tree::Class(class) => each(&|i| {
                let hit = table.text.get(i).is_some_and(|b| class.as_bytes().contains(b));
                u64::from(hit) << (i + 1)
            }),
            Tree::Seq(parts) => parts.iter().fold(from, |at, part| self.ends(part, at, table)),
            Tree::Alt(parts) => parts.iter().fold(0, |all, part| all | self.ends(part, from, table)),
            Tree::Rep(part, min, max) => {
                let (mut at, mut all) = (from, 0);
                for count in 0..=min + table.text.len() + 1 {
                    if count >= *min {
                        all |= at;
                    }
                    if *max == Some(count) {
                        break;
                    }
                    at = self.ends(part, at, table);
                }
                all
            }
            Tree::Rule(r) => each(&|i| table.ends[*r][i]),
        }
    }

    /// Whether a match that begins at one of the positions `from` can reach the end of the text or
    /// continue after it.
    fn begins(&self, tree: &Tree, from: u64, table: &Table) -> bool {
        let n = table.text.len();
        let any = |f: &dyn Fn(usize) -> bool| positions(from).any(f);
        match tree {
            Tree::Text(text) => any(&|i| text.as_bytes().starts_with(&table.text[i..])),
            Tree::Class(class) => {
                !class.is_empty()
                    && any(&|i| i == n || i + 1 == n && class.as_bytes().contains(&table.text[i]))
            }
            Tree::Seq(parts) => {
                let mut at = from;
                for (k, part) in parts.iter().enumerate() {
                    if self.begins(part, at, table) && parts[k + 1..].iter().all(|p| self.can_end(p)) {
                        return true;
                    }
                    at = self.ends(part, at, table);
                }
                at >> n & 1 == 1
            }
            Tree::Alt(parts) => parts.iter().any(|part| self.begins(part, from, table)),
            Tree::Rep(part, min, max) => {
                let mut at = from;
                for count in 0..=min + n + 1 {
                    // What can begin can end, so further repetitions can follow.
                    if count >= *min && at >> n & 1 == 1 {
                        return true;
                    }
                    if *max == Some(count) {
                        break;
                    }
                    if self.begins(part, at, table) {
                        return true;
                    }
                    at = self.ends(part, at, table);
                }
                false
            }
            Tree::Rule(r) => any(&|i| table.begins[*r][i]),
        }
    }
}

fn positions(set: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |i| set >> i & 1 == 1)
}

/// A random expression that may refer to `rules` rules.
fn tree(random: &mut Random, depth: usize, rules: usize) -> Tree {
    let leaf = depth == 0 || random.chance(25);
    if leaf {
        return match random.below(10) {
            0..5 => Tree::Rule(random.below(rules)),
            5 => Tree::Text(""),
            6 => Tree::Class(if random.chance(10) { "" } else { "ab" }),
            _ => Tree::Text(["a", "b", "x", "ab", "xx", "ax"][random.below(6)]),
        };
    }
    let count = 1 + random.below(3);
    match random.below(6) {
        0..2 => Tree::Alt((0..count).map(|_| tree(random, depth - 1, rules)).collect()),
        2..5 => Tree::Seq((0..count).map(|_| tree(random, depth - 1, rules)).collect()),
        _ => {
            let (min, more) = (random.below(3), random.below(3));
            let max = random.chance(60).then_some(min + more);
            Tree::Rep(Box::new(tree(random, depth - 1, rules)), min, max)
        }
    }
}

/// A random grammar; every rule has an alternative that tends to end.
fn grammar(random: &mut Random) -> Vec<Tree> {
    let count = 1 + random.below(4);
    (0..count)
        .map(|_| {
            let mut parts = vec![tree(random, 3, count), tree(random, 2, count)];
            if random.chance(70) {
                parts.push(Tree::Text(["a", "b", "x", ""][random.below(4)]));
            }
            Tree::Alt(parts)
        })
        .collect()
}

fn gbnf(tree: &Tree) -> String {
    let list = |parts: &[Tree], by: &str| parts.iter().map(gbnf).collect::<Vec<_>>().join(by);
    match tree {
        Tree::Text(text) => format!("\"{text}\""),
        Tree::Class(class) => format!("[{class}]"),
        Tree::Seq(parts) => format!("({})", list(parts, " ")),
        Tree::Alt(parts) => format!("({})", list(parts, " | ")),
        Tree::Rep(part, min, max) => {
            let counts = match (min, max) {
                (0, None) => "*".to_owned(),
                (1, None) => "+".to_owned(),
                (0, Some(1)) => "?".to_owned(),
                (min, None) => format!("{{{min},}}"),
                (min, Some(max)) if min == max => format!("{{{min}}}"),
                (min, Some(max)) => format!("{{{min},{max}}}"),
            };
            format!("{}{counts}", gbnf(part))
        }
        Tree::Rule(0) => "root".to_owned(),
        Tree::Rule(r) => format!("rule-{r}"),
    }
}

fn to_gbnf(rules: &[Tree]) -> String {
    let rule = |(r, tree): (usize, &Tree)| format!("{} ::= {}\n", gbnf(&Tree::Rule(r)), gbnf(tree));
    rules.iter().enumerate().map(rule).collect()
}

fn lark(tree: &Tree) -> String {
    let list = |parts: &[Tree], by: &str| parts.iter().map(lark).collect::<Vec<_>>().join(by);
    match tree {
        Tree::Text(text) => format!("\"{text}\""),
        Tree::Class("") => "/[a&&b]{0}c[^\\x00-\\u{10ffff}]/".to_owned(),
        Tree::Class(class) => format!("/[{class}]/"),
        Tree::Seq(parts) => format!("({})", list(parts, " ")),
        Tree::Alt(parts) => format!("({})", list(parts, " | ")),
        Tree::Rep(part, 0, Some(1)) => format!("[{}]", lark(part)),
        Tree::Rep(part, 0, None) => format!("{}*", lark(part)),
        Tree::Rep(part, min, Some(max)) => format!("{} ~ {min}..{max}", lark(part)),
        Tree::Rep(part, min, None) => format!("({} ~ {min} {}*)", lark(part), lark(part)),
        Tree::Rule(0) => "start".to_owned(),
        Tree::Rule(r) => format!("rule_{r}"),
    }
}

fn to_lark(rules: &[Tree], ignore: bool) -> String {
    let rule = |(r, tree): (usize, &Tree)| format!("{}: {}\n", lark(&Tree::Rule(r)), lark(tree));
    let ignored = if ignore { "%ignore \" \"\n" } else { "" };
    rules.iter().enumerate().map(rule).chain([ignored.to_owned()]).collect()
}

/// The rules with blanks wherever ignored text may stand.
fn with_blanks(rules: &[Tree]) -> Vec<Tree> {
    fn spaced(tree: &Tree) -> Tree {
        let all = |parts: &[Tree]| parts.iter().map(spaced).collect();
        match tree {
            Tree::Text(_) | Tree::Class(_) => Tree::Seq(vec![tree.clone(), blanks()]),
            Tree::Seq(parts) => Tree::Seq(all(parts)),
            Tree::Alt(parts) => Tree::Alt(all(parts)),
            Tree::Rep(part, min, max) => Tree::Rep(Box::new(spaced(part)), *min, *max),
            Tree::Rule(r) => Tree::Rule(r + 1),
        }
    }
    fn blanks() -> Tree {
        Tree::Rep(Box::new(Tree::Text(" ")), 0, None)
    }
    let start = Tree::Seq(vec![blanks(), Tree::Rule(1)]);
    std::iter::once(start).chain(rules.iter().map(spaced)).collect()
}

fn setting() -> &'static Setting {
    static SETTING: OnceLock<Setting> = OnceLock::new();
    SETTING.get_or_init(|| Setting::new(11, 300, &[]))
}

fn token_of(byte: u8) -> u32 {
    // The first tokens of the vocabulary are the bytes.
    u32::from(byte)
}

fn matcher(constraint: &Constraint) -> Matcher {
    setting().compiler.compile(constraint).unwrap_or_else(|e| panic!("{e}")).matcher()
}

#[track_caller]
fn check(text: &str, yes: &[&str], no: &[&str]) {
    let grammar = setting().compiler.compile(&Constraint::ebnf(text).unwrap()).unwrap();
    for (texts, expected) in [(yes, true), (no, false)] {
        texts.iter().for_each(|text| assert_eq!(accepts(&grammar, text), expected, "{text:?}"));
    }
}

/// The beginnings of texts over an alphabet.
struct Beginnings<'a> {
    reference: &'a Reference,
    alphabet: &'a [u8],
}

impl ByteLanguage for Beginnings<'_> {
    type State = Vec<u8>;

    fn start(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn after(&mut self, text: &Vec<u8>, bytes: &[u8]) -> Option<Vec<u8>> {
        let longer = [text, bytes].concat();
        let known = bytes.iter().all(|b| self.alphabet.contains(b));
        (known && longer.len() < LONGEST && self.reference.ask(&longer).1).then_some(longer)
    }

    fn may_end(&mut self, text: &Vec<u8>) -> bool {
        self.reference.ask(text).0
    }
}

/// Every text of up to `longest` characters, and a random walk.
fn compare(reference: &Reference, text: &str, alphabet: &[u8], longest: usize, random: &mut Random) {
    let constraint = match Constraint::ebnf(text) {
        Ok(constraint) => constraint,
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::Unsatisfiable, "{text}\n{e}");
            assert!(!reference.productive[0], "{text}\n{e}");
            return;
        }
    };
    assert!(reference.productive[0], "{text}\ncompiles, but nothing ends it");
    let mut todo: Vec<(Vec<u8>, Matcher)> = vec![(Vec::new(), matcher(&constraint))];
    while let Some((prefix, matcher)) = todo.pop() {
        let shown = String::from_utf8_lossy(&prefix).into_owned();
        let accepts = reference.ask(&prefix).0;
        assert_eq!(matcher.is_accepting(), accepts, "{text}\nends after {shown:?}");
        for &b in alphabet {
            let longer = [&prefix[..], &[b]].concat();
            let alive = reference.ask(&longer).1;
            let mut next = matcher.fork();
            let taken = next.accept_token(token_of(b)).is_ok();
            assert_eq!(taken, alive, "{text}\n{:?} after {shown:?}", char::from(b));
            if taken && longer.len() <= longest {
                todo.push((longer, next));
            }
        }
    }
    let Setting { words, compiler } = setting();
    let grammar = compiler.compile(&constraint).expect("it compiled");
    let language = Spelled { texts: Beginnings { reference, alphabet }, words };
    let mut walk = Walk::new(language, words, &constraint, compiler, &grammar);
    for _ in 0..2 {
        walk.random(4, random, &mut Seen::default()).unwrap_or_else(|e| panic!("{text}\n{e}"));
    }
}

#[test]
fn random_grammars_in_gbnf() {
    for seed in 0..env::oracle_cases(150u64) {
        let mut random = Random::new(seed);
        let rules = grammar(&mut random);
        let text = to_gbnf(&rules);
        compare(&Reference::new(rules), &text, b"abx", 5, &mut random);
    }
}

#[test]
fn random_grammars_in_lark() {
    for seed in 0..env::oracle_cases(75u64) {
        let mut random = Random::new(1_000_000 + seed);
        let rules = grammar(&mut random);
        let ignore = random.chance(60);
        let text = to_lark(&rules, ignore);
        let reference = if ignore { with_blanks(&rules) } else { rules };
        compare(&Reference::new(reference), &text, b"ax b", 4, &mut random);
    }
}

// ---- grammars that people write ----

const JSON: &str = include_str!("../../examples/data/json.gbnf");

/// JSON by grammar against a parser: random values, spelled in random ways, and damaged ones.
#[test]
fn json() {
    let grammar = setting().compiler.compile(&Constraint::ebnf(JSON).unwrap()).unwrap();
    let mut random = Random::new(5);
    let (mut valid, mut invalid) = (0, 0);
    for _ in 0..1_500 {
        let mut text = String::new();
        write_json(&mut random, 4, &mut text);
        for _ in 0..random.below(3) {
            let chars: Vec<char> = text.chars().collect();
            let at = random.below(chars.len());
            let other = *random
                .pick(&['"', '{', '}', '[', ']', ',', ':', '0', '-', '.', 'e', ' ', '\\', 'u', 'é', 't']);
            text = match random.below(3) {
                0 => chars.iter().enumerate().filter(|c| c.0 != at).map(|c| c.1).collect(),
                1 => chars.iter().enumerate().map(|(i, &c)| if i == at { other } else { c }).collect(),
                _ => chars[..at].iter().chain([&other]).chain(&chars[at..]).collect(),
            };
            if text.is_empty() {
                break;
            }
        }
        // Unpaired surrogates are JSON by its grammar, but no text to the parser.
        if text.contains("\\ud") || text.contains("\\uD") {
            continue;
        }
        let want = serde_json::from_str::<Box<serde_json::value::RawValue>>(&text).is_ok();
        let got = accepts(&grammar, &text);
        assert_eq!(got, want, "{text:?}");
        if want { valid += 1 } else { invalid += 1 }
    }
    assert!(valid > 300 && invalid > 300, "{valid} valid, {invalid} invalid");
}

fn write_json(random: &mut Random, depth: usize, out: &mut String) {
    let space = |random: &mut Random, out: &mut String| {
        if random.chance(15) {
            out.push(*random.pick(&[' ', '\n', '\t', '\r']));
        }
    };
    space(random, out);
    match if depth == 0 { random.below(4) } else { random.below(6) } {
        0 => out.push_str(random.pick::<&str>(&["true", "false", "null"])),
        1 => out.push_str(random.pick::<&str>(&["0", "-1", "12.50", "1e9", "-0.0E-2", "3e+05", "100"])),
        2 | 3 => out.push_str(random.pick::<&str>(&[
            "\"\"",
            "\"a b\"",
            "\"é\\n\\\\\"",
            "\"\\u00e9漢\"",
            "\"\\\"\"",
        ])),
        4 => {
            out.push('[');
            for i in 0..random.below(4) {
                if i > 0 {
                    out.push(',');
                }
                write_json(random, depth - 1, out);
            }
            space(random, out);
            out.push(']');
        }
        _ => {
            out.push('{');
            for i in 0..random.below(4) {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(random.pick::<&str>(&["\"a\"", " \"b c\" ", "\"\""]));
                out.push(':');
                write_json(random, depth - 1, out);
            }
            space(random, out);
            out.push('}');
        }
    }
    space(random, out);
}

// ---- ambiguity ----

/// The time and the largest number of stacks for a text, with a mask at its end, and whether it
/// ends.
fn cost(text: &str, input: &[u8]) -> (Duration, GrammarSizes, bool) {
    let grammar = setting().compiler.compile(&Constraint::ebnf(text).unwrap()).unwrap();
    let mut matcher = grammar.matcher();
    let mut row = vec![0; setting().words.vocab.bitmask_words()];
    let begin = Instant::now();
    for &b in input {
        matcher.fill_bitmask(&mut row);
        matcher.accept_token(token_of(b)).unwrap();
    }
    matcher.fill_bitmask(&mut row);
    (begin.elapsed(), grammar.sizes(), matcher.is_accepting())
}

#[test]
fn ambiguity_stays_polynomial() {
    let sums: Vec<u8> = b"n+".repeat(150).into_iter().chain(*b"n").collect();
    let nested: Vec<u8> = b"(n+n)+".repeat(50).into_iter().chain(*b"n").collect();
    let dangling: Vec<u8> = b"i".repeat(250).into_iter().chain(*b"x").chain(b"ex".repeat(20)).collect();
    let cases: [(&str, &str, Vec<u8>); 9] = [
        ("any split", r#"root ::= root root | "a" | """#, b"a".repeat(300)),
        ("three parts", r#"root ::= root root root | root root | "a""#, b"a".repeat(300)),
        ("sums", r#"root ::= root "+" root | "n""#, sums.clone()),
        (
            "two operators",
            r#"root ::= e
e ::= e "+" e | e "*" e | "(" e ")" | "n""#,
            nested,
        ),
        ("palindromes", r#"root ::= "a" root "a" | "b" root "b" | "a" | "b" | """#, b"a".repeat(250)),
        ("dangling else", r#"root ::= "i" root | "i" root "e" root | "x""#, dangling),
        (
            "split in two",
            r#"root ::= a b
a ::= "a" a "a" | "a" a | "a"
b ::= a a | a b a | "a""#,
            b"a".repeat(200),
        ),
        (
            "mutual",
            r#"root ::= a root | a
a ::= b a "x"? | "a"
b ::= a b | root? "a""#,
            b"a".repeat(200),
        ),
        (
            "empty parts",
            r#"root ::= e e e "a" e root e | e
e ::= "a" e "b"? | """#,
            b"a".repeat(200),
        ),
    ];
    for (name, text, input) in &cases {
        let (half, ..) = cost(text, &input[..input.len() / 2]);
        let (time, sizes, _) = cost(text, input);
        eprintln!("{name}: {} bytes {time:?} (half {half:?}), sizes {sizes:?}", input.len());
        // A few stack nodes and one configuration for each byte.
        let few = sizes.stack_nodes < 5 * input.len() && sizes.configurations < 2 * input.len();
        assert!(few, "{name}: {sizes:?}");
    }
}

/// Random grammars, most of them ambiguous, on long random texts.
#[test]
fn long_texts_of_random_grammars() {
    const LENGTH: usize = 100;
    let (mut longest, mut most, mut whole) = (Duration::ZERO, 0, 0);
    for seed in 0..env::oracle_cases(150u64) {
        let mut random = Random::new(2_000_000 + seed);
        let text = to_gbnf(&grammar(&mut random));
        let Ok(constraint) = Constraint::ebnf(&text) else { continue };
        let mut matcher = matcher(&constraint);
        let begin = Instant::now();
        for _ in 0..LENGTH {
            let legal: Vec<u32> =
                b"abx".iter().map(|&b| token_of(b)).filter(|&t| matcher.allows(t)).collect();
            if legal.is_empty() {
                break;
            }
            // Mostly the same byte, which has the most readings.
            let token = if random.chance(80) { legal[0] } else { *random.pick(&legal) };
            matcher.accept_token(token).unwrap();
        }
        matcher.legal_count();
        whole += usize::from(matcher.num_accepted() == LENGTH);
        let (time, stacks) = (begin.elapsed(), matcher.grammar().sizes().stack_nodes);
        longest = longest.max(time);
        most = most.max(stacks);
        // Not the time, which depends on the machine.
        assert!(stacks < 40 * LENGTH, "{text}\n{stacks} stacks, {time:?}");
    }
    eprintln!("random grammars: {whole} texts of {LENGTH} bytes, at most {longest:?} and {most} stacks");
}

// ---- hostile input ----

#[test]
fn nesting_of_any_depth() {
    let deep = 100_000;
    let text = format!("root ::= {}\"a\"{}", "(".repeat(deep), ")".repeat(deep));
    check(&text, &["a"], &["", "aa"]);
    let text = format!("root ::= {}\"a\"{}", "(".repeat(deep), ")?".repeat(deep));
    check(&text, &["a", ""], &["aa"]);
    let text = format!("start: {}\"a\"{}", "[".repeat(deep), "]".repeat(deep));
    check(&text, &["a", ""], &["aa"]);
    for text in [format!("root ::= {}", "(".repeat(deep)), format!("start: {}", "[".repeat(deep))] {
        assert_eq!(Constraint::ebnf(&text).unwrap_err().kind(), ErrorKind::InvalidPattern);
    }
    // A chain of rules, to the right, to the left and in the middle.
    for (before, after) in [("\"a\" ", ""), ("", " \"a\""), ("\"a\" ", " \"b\""), ("", "")] {
        let mut text = "root ::= r0\n".to_owned();
        for r in 0..5_000 {
            text += &format!("r{r} ::= {before}r{}{after} | \"x\"\n", r + 1);
        }
        text += "r5000 ::= \"x\"\n";
        check(&text, &["x"], &["", "y"]);
    }
}

#[test]
fn sizes_are_limited() {
    let kind = |text: &str| {
        let begin = Instant::now();
        let error =
            Constraint::ebnf(text).and_then(|c| setting().compiler.compile(&c).map(drop)).unwrap_err();
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?} {error}", begin.elapsed());
        error.kind()
    };
    for counts in
        ["{4294967295}", "{99999999999999999999}", "{0,4294967295}", "{1000}{1000}{1000}", "{3000000000,}"]
    {
        assert_eq!(kind(&format!("root ::= \"a\"{counts}")), ErrorKind::TooComplex, "{counts}");
    }
    assert_eq!(kind("start: \"a\"~4000000000"), ErrorKind::TooComplex);
    assert_eq!(kind("start: /(((a{1000}){1000}){1000})/"), ErrorKind::TooComplex);
    assert_eq!(kind(&"root ::= \"a\"\n# filler\n".repeat(500_000)), ErrorKind::TooComplex);
    // Three thousand rules that all begin with each other: the copies would be too many.
    let mut text = String::from("root ::= r0 \"!\"\n");
    for r in 0..3_000 {
        text += &format!("r{r} ::= r{} \"a\" r{} | \"x\"\n", (r + 1) % 3_000, (r + 7) % 3_000);
    }
    assert_eq!(kind(&text), ErrorKind::TooComplex);
}

#[test]
fn many_rules() {
    let mut text = String::from("root ::= r0\n");
    for r in 0..5_000 {
        text += &format!(
            "r{r} ::= \"k{r} \" r{} | r{} \"-\" | \"end\"\n",
            (r * 7 + 1) % 5_000,
            (r + 1).min(4_999)
        );
    }
    let begin = Instant::now();
    check(&text, &["end", "k0 end", "end---"], &["", "k1", "endk"]);
    eprintln!("5,000 rules: {:?}", begin.elapsed());
}
