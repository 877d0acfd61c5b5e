//! Spans of a source against the list of all of them: accepted texts, masks, offsets, and JSON
//! strings with other string keywords next to `x-verbatim`.
//!
//! The languages are finite, so the reference is their list. A token is legal iff some member
//! begins with the text so far and the token.

use std::collections::BTreeSet;

use ffwd::constraint::substring::{Bounds, MAX_SOURCE_BYTES, Occurrences, Source, SubstringOptions};
use ffwd::{Compiler, Constraint, ErrorKind};
use ffwd_testkit::oracle::spelling;
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::{Setting, TestVocab};
use ffwd_testkit::walk::{ByteLanguage, Seen, Spelled, Walk};

fn settings() -> Vec<Setting> {
    let missing: Vec<u8> = b"b\\\xa9".to_vec();
    let make = |(seed, extra, without): (u64, usize, &[u8])| Setting::new(seed, extra, without);
    [(21, 300, &[][..]), (22, 120, &[]), (23, 200, &missing)].map(make).into()
}

const LETTERS: &[&str] =
    &["a", "b", "é", "漢", "😀", " ", "\n", "\"", "\\", "\u{1}", "\t", ".", "e\u{301}", "1"];

fn source(random: &mut Random) -> String {
    let kinds = 1 + random.below(LETTERS.len());
    let first = random.below(LETTERS.len());
    let letter = |random: &mut Random| LETTERS[(first + random.below(kinds)) % LETTERS.len()];
    (0..random.below(14)).map(|_| letter(random)).collect()
}

fn options(random: &mut Random, text: &str) -> SubstringOptions {
    let bounds = match random.below(3) {
        0 => Bounds::Characters,
        1 => Bounds::Words,
        _ => {
            let mut inside = |at: &usize| text.is_char_boundary(*at) && random.chance(40);
            Bounds::Offsets((0..=text.len()).filter(|at| inside(at)).collect())
        }
    };
    SubstringOptions { bounds, min_chars: *random.pick(&[1, 1, 1, 0, 2, 3, 5]) }
}

/// The places where spans may begin and those where they may end, character by character.
fn places(text: &str, bounds: &Bounds) -> (Vec<usize>, Vec<usize>) {
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '\u{301}');
    let blank = |c: Option<char>| c.is_none_or(char::is_whitespace);
    let allowed = |at: usize, first: bool| {
        let (before, after) = (text[..at].chars().next_back(), text[at..].chars().next());
        match bounds {
            Bounds::Characters => true,
            // The character that the span begins or ends with is no white space, and no word is
            // cut.
            Bounds::Words if blank(if first { after } else { before }) => false,
            Bounds::Words => !(word(before) && word(after)),
            Bounds::Offsets(offsets) => at == 0 || at == text.len() || offsets.contains(&at),
            _ => unreachable!(),
        }
    };
    let all =
        |first| (0..=text.len()).filter(|&at| text.is_char_boundary(at) && allowed(at, first)).collect();
    (all(true), all(false))
}

/// All places of spans that are not empty.
fn spans(text: &str, bounds: &Bounds) -> Vec<(usize, usize)> {
    let (starts, ends) = places(text, bounds);
    let mut all = Vec::new();
    for &start in &starts {
        all.extend(ends.iter().filter(|&&end| end > start).map(|&end| (start, end)));
    }
    all
}

/// All texts of spans that are long enough.
fn members(text: &str, options: &SubstringOptions) -> BTreeSet<String> {
    let mut all: BTreeSet<String> =
        spans(text, &options.bounds).into_iter().map(|(from, to)| text[from..to].to_owned()).collect();
    all.insert(String::new());
    all.retain(|span| span.chars().count() >= options.min_chars as usize);
    all
}

fn quoted(text: &str) -> Vec<u8> {
    [b"\"", &text.bytes().flat_map(spelling).collect::<Vec<u8>>()[..], b"\""].concat()
}

/// A finite language; the state is what is written.
struct FiniteTexts(BTreeSet<Vec<u8>>);

impl ByteLanguage for FiniteTexts {
    type State = Vec<u8>;

    fn start(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn after(&mut self, written: &Vec<u8>, bytes: &[u8]) -> Option<Vec<u8>> {
        let longer = [written, bytes].concat();
        let begins = self.0.range(longer.clone()..).next().is_some_and(|member| member.starts_with(&longer));
        begins.then_some(longer)
    }

    fn may_end(&mut self, written: &Vec<u8>) -> bool {
        self.0.contains(written)
    }
}

/// Compares masks along random walks; the number of masks.
fn walk(
    setting: &Setting,
    constraint: &Constraint,
    texts: BTreeSet<Vec<u8>>,
    random: &mut Random,
    what: &str,
) -> usize {
    let Setting { words, compiler } = setting;
    let can = |text: &Vec<u8>| text.iter().all(|&b| words.alphabet[b as usize]);
    let texts = FiniteTexts(texts.into_iter().filter(can).collect());
    let grammar = match compiler.compile(constraint) {
        Ok(grammar) => grammar,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsatisfiable, "{what}: {error}");
            assert!(texts.0.is_empty(), "{what}: {error}");
            return 0;
        }
    };
    assert!(!texts.0.is_empty(), "{what}: compiles, but there is nothing to write");
    let (mut walk, mut seen) =
        (Walk::new(Spelled { texts, words }, words, constraint, compiler, &grammar), Seen::default());
    for _ in 0..3 {
        walk.random(40, random, &mut seen).unwrap_or_else(|e| panic!("{what}: {e}"));
    }
    seen.masks
}

#[test]
fn masks_are_those_of_all_spans() {
    let settings = settings();
    let mut random = Random::new(1);
    let (mut masks, mut empty) = (0, 0);
    for case in 0..600 {
        let text = source(&mut random);
        let options = options(&mut random, &text);
        let what = format!("case {case}, {text:?} {options:?}");
        let members = members(&text, &options);
        match Constraint::substring(&text, &options) {
            Ok(constraint) => {
                assert!(!members.is_empty(), "{what}: there is no span");
                let texts = members.into_iter().map(String::into_bytes).collect();
                masks += walk(random.pick(&settings), &constraint, texts, &mut random, &what);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsatisfiable, "{what}");
                assert!(members.is_empty(), "{what}: {error}");
                empty += 1;
            }
        }
    }
    assert!(masks > 3_000 && empty > 10, "{masks} masks, {empty} without spans");
}

type Predicate = Box<dyn Fn(&str) -> bool>;

/// Keywords next to `x-verbatim`, and the same conditions for a text.
fn siblings(random: &mut Random, members: &BTreeSet<String>) -> (String, Predicate) {
    let list: Vec<&String> = members.iter().collect();
    let some = |random: &mut Random| match list.is_empty() || random.chance(20) {
        true => "ab".to_owned(),
        false => (*random.pick(&list)).clone(),
    };
    let json = |text: &str| serde_json::to_string(text).expect("a string");
    match random.below(8) {
        0 => (String::new(), Box::new(|_| true)),
        1 => {
            let min = random.below(5);
            (format!(r#","minLength":{min}"#), Box::new(move |t| t.chars().count() >= min))
        }
        2 => {
            let max = random.below(6);
            (format!(r#","maxLength":{max}"#), Box::new(move |t| t.chars().count() <= max))
        }
        3 => {
            let (a, b) = (some(random), some(random));
            let schema = format!(r#","enum":[{},{},"zz"]"#, json(&a), json(&b));
            (schema, Box::new(move |t| t == a || t == b))
        }
        4 => {
            let (a, b) = (some(random), some(random));
            let schema = format!(r#","not":{{"enum":[{},{}]}}"#, json(&a), json(&b));
            (schema, Box::new(move |t| t != a && t != b))
        }
        _ => {
            let patterns = [
                "^a", "b$", "a.b", "^[ab]+$", "é|漢", "^[^a]*$", "[ \n]", "^..$", "(ab)*$", r#"\\|""#,
                "^\\S+$",
            ];
            let pattern = *random.pick(&patterns);
            let regex = regex::Regex::new(pattern).expect("valid");
            (format!(r#","pattern":{}"#, json(pattern)), Box::new(move |t| regex.is_match(t)))
        }
    }
}

#[test]
fn masks_of_json_leaves_with_siblings() {
    let settings = settings();
    let mut random = Random::new(2);
    let (mut masks, mut empty, mut cut) = (0, 0, 0);
    for case in 0..900 {
        let text = source(&mut random);
        let options = options(&mut random, &text);
        let all = members(&text, &options);
        let ((one, first), (two, second)) = (siblings(&mut random, &all), siblings(&mut random, &all));
        // `allOf`, so that a keyword may be there twice.
        let schema = format!(
            r#"{{"type":["string","null"],"x-verbatim":true{one},"allOf":[{{"type":"string"{two}}},{{"x-verbatim":false}}]}}"#
        );
        let what = format!("case {case}, {text:?} {options:?} {schema}");
        let mut members = all.clone();
        members.retain(|t| first(t) && second(t));
        cut += usize::from(members.len() < all.len() && !members.is_empty());
        match Constraint::builder().source(&text, &options).json_schema(&schema) {
            Ok(constraint) => {
                let texts = members.iter().map(|t| quoted(t)).collect();
                masks += walk(random.pick(&settings), &constraint, texts, &mut random, &what);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsatisfiable, "{what}: {error}");
                assert!(members.is_empty(), "{what}: {error}");
                empty += 1;
            }
        }
    }
    assert!(masks > 3_000 && empty > 50 && cut > 150, "{masks} masks, {empty} empty, {cut} cut");
}

#[test]
fn formats_pick_their_spans() {
    let text = "due 2024-02-29, not 2023-02-29; paid 2024-03-01";
    let schema = r#"{"type":"string","x-verbatim":true,"format":"date"}"#;
    let constraint = Constraint::builder().source(text, &SubstringOptions::default()).json_schema(schema);
    let texts = ["2024-02-29", "2024-03-01"].iter().map(|t| quoted(t)).collect();
    let mut random = Random::new(3);
    assert!(walk(&settings()[0], &constraint.expect("two"), texts, &mut random, "dates") > 10);
}

#[test]
fn offsets_are_those_of_a_search() {
    let mut random = Random::new(4);
    let (mut found, mut several, mut missing) = (0, 0, 0);
    for _ in 0..500 {
        let text = source(&mut random);
        let options = options(&mut random, &text);
        let source = Source::new(&text, &options).expect("small");
        let places = spans(&text, &options.bounds);
        // All parts of the source, spans or not, and a text that is not there.
        let mut parts = members(&text, &SubstringOptions::default());
        parts.insert("zab".into());
        for part in parts {
            let mut expected: Vec<_> = places.iter().filter(|p| text[p.0..p.1] == part).collect();
            if part.chars().count() < options.min_chars as usize {
                expected.clear();
            }
            let first = expected.first().map(|p| p.0..p.1);
            let occurrences = first.map(|first| Occurrences { first, count: expected.len() });
            found += usize::from(expected.len() == 1);
            several += usize::from(expected.len() > 1);
            missing += usize::from(expected.is_empty());
            assert_eq!(source.find(&part), occurrences, "{part:?} in {text:?} {options:?}");
        }
        let nothing = (options.min_chars == 0).then_some(Occurrences { first: 0..0, count: 1 });
        assert_eq!(source.find(""), nothing);
    }
    assert!(found > 500 && several > 300 && missing > 500, "{found} {several} {missing}");
}

#[test]
fn the_strings_of_a_record_are_located() {
    let text = "Vendor: \"Acme\\Co\"\nTotal: 12";
    let source = Source::new(text, &SubstringOptions::words()).expect("small");
    let json = r#"{"vendor":"\"Acme\\Co\"\n","a/b":["12","1",{"x":"Acme"}],"n":12,"Total":"Acme"}"#;
    let located = source.locate(json).expect("it is JSON");
    let expected = [("/a~1b/0", 25..27), ("/a~1b/2/x", 9..13), ("/Total", 9..13)];
    assert_eq!(located.len(), expected.len(), "{located:?}");
    for ((pointer, occurrences), (want, range)) in located.iter().zip(expected) {
        assert_eq!((pointer.as_str(), occurrences.first.clone(), occurrences.count), (want, range, 1));
    }
    assert_eq!(&text[9..13], "Acme");
    assert_eq!(source.locate("{").expect_err("no JSON").kind(), ErrorKind::InvalidJson);
}

#[test]
fn spans_of_whole_tokens() {
    let setting = &settings()[0];
    let text = "abab é漢\"1 ab";
    let boundaries = setting.words.vocab.boundaries(text).expect("it encodes");
    let mut at = 0;
    let mut expected = vec![0];
    for token in setting.words.vocab.encode(text).expect("it encodes") {
        at += setting.words.tokens[token as usize].len();
        expected.extend(text.is_char_boundary(at).then_some(at));
    }
    assert_eq!(boundaries, expected);
    let options = SubstringOptions { bounds: Bounds::Offsets(boundaries), ..Default::default() };
    let constraint = Constraint::substring(text, &options).expect("it has spans");
    let texts = members(text, &options).into_iter().map(String::into_bytes).collect();
    assert!(walk(setting, &constraint, texts, &mut Random::new(5), "tokens") > 10);
}

#[test]
fn what_is_refused() {
    let quoting = |schema: &str, text: &str| {
        Constraint::builder().source(text, &SubstringOptions::default()).json_schema(schema)
    };
    let verbatim = r#"{"properties":{"a":{"type":"string","x-verbatim":true}}}"#;
    let large = "x".repeat(MAX_SOURCE_BYTES + 1);
    assert!(quoting(r#"{"type":"integer"}"#, &large).is_ok());
    let error = quoting(verbatim, &large).expect_err("too large");
    assert_eq!((error.kind(), error.pointer()), (ErrorKind::TooComplex, Some("/properties/a/x-verbatim")));
    let substring = |text: &str, bounds: Bounds, min_chars| {
        let options = SubstringOptions { bounds, min_chars };
        Constraint::substring(text, &options).map(drop).map_err(|e| e.kind())
    };
    assert_eq!(substring("", Bounds::Characters, 1), Err(ErrorKind::Unsatisfiable));
    assert_eq!(substring("", Bounds::Characters, 0), Ok(()));
    assert_eq!(substring(" \n", Bounds::Words, 1), Err(ErrorKind::Unsatisfiable));
    assert_eq!(substring("é", Bounds::Offsets(vec![1]), 1), Err(ErrorKind::InvalidOption));
    assert_eq!(substring("ab", Bounds::Offsets(vec![3]), 1), Err(ErrorKind::InvalidOption));
    assert_eq!(substring("abc", Bounds::Offsets(vec![2, 1]), 1), Err(ErrorKind::InvalidOption));
    assert_eq!(substring(&large, Bounds::Characters, 1), Err(ErrorKind::TooComplex));
}

/// The largest sources that are allowed, of kinds that make many states or edges.
#[test]
fn the_largest_sources_compile() {
    let setting = &settings()[0];
    let mut random = Random::new(6);
    let n = MAX_SOURCE_BYTES;
    let mut kinds: Vec<String> = vec!["a".repeat(n)];
    kinds.push(format!("a{}c", "b".repeat(n - 2)));
    kinds.push(format!("é{}ü", "ö".repeat(n / 2 - 2)));
    kinds.push((0..n).map(|_| *random.pick(&['a', 'b'])).collect());
    kinds.push((0..n).map(|i| if i % 2 == 0 { 'a' } else { *random.pick(&['b', 'c', '1']) }).collect());
    kinds.push("ab".repeat(n / 2));
    kinds.push((0..n / 3).map(|_| *random.pick(&['漢', '字', '語'])).collect());
    kinds.push((0..n / 3).map(|i| format!("{} ", i % 997)).collect::<String>()[..n].to_owned());
    for (kind, text) in kinds.iter().enumerate() {
        for bounds in [Bounds::Characters, Bounds::Words] {
            let options = SubstringOptions { bounds, ..Default::default() };
            let schema = r#"{"type":"string","x-verbatim":true,"maxLength":20}"#;
            let list = [
                Constraint::substring(text, &options),
                Constraint::builder().source(text, &options).json_schema(schema),
            ];
            for constraint in list {
                let constraint = constraint.unwrap_or_else(|e| panic!("kind {kind} {options:?}: {e}"));
                // A single word is longer than 20 characters.
                match setting.compiler.compile(&constraint) {
                    Ok(grammar) => assert!(grammar.matcher().legal_count() > 0),
                    Err(e) => assert_eq!(e.kind(), ErrorKind::Unsatisfiable, "kind {kind} {options:?}: {e}"),
                }
            }
        }
    }
}

#[test]
fn long_minima_are_limited() {
    let mut random = Random::new(7);
    let text: String = (0..100_000).map(|_| *random.pick(&['a', 'b', 'c', ' '])).collect();
    let options = SubstringOptions { min_chars: 50, ..Default::default() };
    let error = Constraint::substring(&text, &options).expect_err("too many states");
    assert_eq!(error.kind(), ErrorKind::TooComplex);
    assert!(error.hint_text().is_some());
    // In JSON strings lengths are counted.
    let schema = r#"{"type":"string","x-verbatim":true}"#;
    assert!(Constraint::builder().source(&text, &options).json_schema(schema).is_ok());
}

/// The bytes as tokens, one of those that fit at each place.
fn split(words: &TestVocab, mut bytes: &[u8], random: &mut Random) -> Option<Vec<u32>> {
    let trie = words.vocab.trie();
    let mut tokens = Vec::new();
    while !bytes.is_empty() {
        let nodes = (1..=bytes.len()).map_while(|n| trie.find(&bytes[..n]).map(|node| (n, node)));
        let fits: Vec<(usize, u32)> =
            nodes.flat_map(|(n, node)| trie.tokens_at(node).iter().map(move |&t| (n, t))).collect();
        let &(n, token) = fits.get(random.below(fits.len().max(1)))?;
        tokens.push(token);
        bytes = &bytes[n..];
    }
    Some(tokens)
}

/// A matcher reports the spans that were written, with their positions in the source, for any text
/// between them and any tokenisation of the output.
#[test]
fn a_matcher_tells_what_was_quoted() {
    let mut random = Random::new(77);
    let all = settings();
    let (mut quotes, mut escaped) = (0, 0);
    for round in 0..400 {
        let text = source(&mut random);
        let options = options(&mut random, &text);
        let known = spans(&text, &options.bounds);
        let long = |&(a, b): &(usize, usize)| text[a..b].chars().count() >= options.min_chars as usize;
        let known: Vec<_> = known.into_iter().filter(|s| long(s)).collect();
        if known.is_empty() {
            continue;
        }
        let source = Source::new(&text, &options).unwrap();
        let Setting { words, compiler } = &all[round % all.len()];
        let mut span = || {
            let &(a, b) = random.pick(&known);
            &text[a..b]
        };
        let (first, second) = (span(), span());
        let json = |text: &str| serde_json::to_string(text).unwrap();
        // Each output in parts: those that are quotes, with their text, and those that are not.
        let raw = round % 2 == 0;
        let (constraint, parts) = if raw {
            let Ok(quote) = Constraint::substring(&text, &options) else { continue };
            let constraint =
                Constraint::regex("#+").unwrap().then(&quote).unwrap().then(&Constraint::regex("#").unwrap());
            (constraint.unwrap(), vec![("##".into(), None), (first.into(), Some(first)), ("#".into(), None)])
        } else {
            let schema = r#"{"type": "array", "prefixItems": [{"type": "string", "x-verbatim": true}, {"type": "string"},
                {"anyOf": [{"type": "boolean"}, {"type": "string", "x-verbatim": true, "maxLength": 40}]}]}"#;
            let made = Constraint::builder().source(&text, &options).json_schema(schema);
            let Ok(constraint) = made else { continue };
            let inner = |text: &str| json(text)[1..json(text).len() - 1].to_owned();
            let parts = vec![
                ("[\"".into(), None),
                (inner(first), Some(first)),
                (format!("\",{},\"", json(first)), None),
                (inner(second), Some(second)),
                ("\"]".into(), None),
            ];
            (constraint, parts)
        };
        let output: String = parts.iter().map(|p: &(String, _)| p.0.as_str()).collect();
        let Ok(grammar) = compiler.compile(&constraint) else { continue };
        let mut matcher = grammar.matcher();
        let tokens = split(words, output.as_bytes(), &mut random);
        if tokens.is_none_or(|tokens| tokens.iter().any(|&t| matcher.accept_token(t).is_err())) {
            continue; // a byte that the vocabulary does not have
        }
        let mut expected = Vec::new();
        let mut at = 0;
        for (written, quoted) in &parts {
            if let Some(quoted) = quoted.filter(|q| !q.is_empty()) {
                expected.push((at..at + written.len(), quoted.to_owned(), source.find(quoted).unwrap()));
                escaped += usize::from(written != quoted);
            }
            at += written.len();
        }
        let told: Vec<_> = matcher.source_spans().into_iter().map(|q| (q.output, q.text, q.found)).collect();
        assert_eq!(told, expected, "{output:?} from {text:?}");
        quotes += told.len();
    }
    assert!(quotes > 200 && escaped > 30, "{quotes} {escaped}");
}

/// Schemas in tool calls and grammars quote from a source, too.
#[test]
fn schemas_in_other_constraints_quote() {
    let schema = r#"{"type": "object", "properties": {"q": {"type": "string", "x-verbatim": true}},
        "required": ["q"], "additionalProperties": false}"#;
    let tag = format!(
        r#"{{"type": "structural_tag", "format": {{"type": "tag", "begin": "<call>", "end": "</call>",
            "content": {{"type": "json_schema", "json_schema": {schema}}}}}}}"#
    );
    let lark = format!("start: \"<call>\" call \"</call>\"\ncall: %json {schema}");
    let (source, options) = ("a notice of thirty days", SubstringOptions::words());
    let words = TestVocab::new(5, 200, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let mut random = Random::new(3);
    for constraint in [
        Constraint::builder().source(source, &options).structural_tag(&tag).unwrap(),
        Constraint::builder().source(source, &options).lark(&lark).unwrap(),
    ] {
        let grammar = compiler.compile(&constraint).unwrap();
        for (text, quoted) in [("thirty days", true), ("thirty day", false), ("ten days", false)] {
            let output = format!("<call>{{\"q\":\"{text}\"}}</call>");
            let tokens = split(&words, output.as_bytes(), &mut random).unwrap();
            let mut matcher = grammar.matcher();
            let accepted = tokens.iter().all(|&t| matcher.accept_token(t).is_ok());
            assert_eq!(accepted, quoted, "{output}");
            if quoted {
                let quotes = matcher.source_spans();
                assert_eq!((quotes.len(), quotes[0].output.clone()), (1, 12..23));
                assert_eq!(quotes[0].found.first, 12..23);
            }
        }
    }
    let error = |made: ffwd::Result<Constraint>| made.unwrap_err().kind();
    assert_eq!(error(Constraint::structural_tag(&tag)), ErrorKind::InvalidSchema);
    assert_eq!(error(Constraint::builder().lark(&lark)), ErrorKind::InvalidSchema);
}
