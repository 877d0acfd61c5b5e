//! `then`, `or`, `and` and `not` against lists of the texts that they mean.

use ffwd::{Compiler, Constraint, ErrorKind, Policy, Whitespace};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::{TestVocab, accepts};

fn texts() -> Vec<String> {
    let mut all = vec![String::new()];
    let mut from = 0;
    for _ in 0..5 {
        let to = all.len();
        for i in from..to {
            for c in ["a", "b", "é"] {
                all.push(all[i].clone() + c);
            }
        }
        from = to;
    }
    all.extend(["x", "\n", "ab\u{10ffff}", "ü", "aé\u{0}"].map(String::from));
    all
}

struct SmallTexts {
    compiler: Compiler,
    texts: Vec<String>,
}

impl SmallTexts {
    fn new() -> Self {
        SmallTexts { compiler: Compiler::new(TestVocab::new(11, 100, &[]).vocab), texts: texts() }
    }

    /// Which of the texts a constraint allows; `None` for a constraint that nothing satisfies.
    fn members(&self, constraint: &Constraint) -> Vec<bool> {
        let grammar = self.compiler.compile(constraint).expect("satisfiable");
        self.texts.iter().map(|text| accepts(&grammar, text)).collect()
    }
}

fn pattern(random: &mut Random, depth: usize) -> String {
    if depth > 2 || random.chance(30) {
        return (*random.pick(&["a", "b", "é", "[ab]", ".", "[^a]", "ab", "[^é]", ""])).to_owned();
    }
    let a = pattern(random, depth + 1);
    match random.below(6) {
        0 => format!("(?:{a})*"),
        1 => format!("(?:{a}){{1,2}}"),
        2 => format!("(?:{a})?"),
        3 => format!("(?:{a}|{})", pattern(random, depth + 1)),
        _ => format!("{a}{}", pattern(random, depth + 1)),
    }
}

#[test]
fn counted_characters_are_regular() {
    let setting = SmallTexts::new();
    let [counted, other] = ["[ab]{1,300}", "a*b"].map(|p| Constraint::regex(p).expect("valid"));
    let of = |set: &dyn Fn(&str) -> bool| setting.texts.iter().map(|t| set(t)).collect::<Vec<_>>();
    let is_counted = |t: &str| !t.is_empty() && t.bytes().all(|b| b"ab".contains(&b));
    let is_other = |t: &str| t.strip_suffix('b').is_some_and(|t| t.bytes().all(|b| b == b'a'));
    let both = counted.and(&other).expect("not empty");
    assert_eq!(setting.members(&both), of(&|t| is_counted(t) && is_other(t)));
    assert_eq!(setting.members(&counted.not().expect("not empty")), of(&|t| !is_counted(t)));
    let many = Constraint::regex("[ab]{1,1000000}").expect("valid");
    assert_eq!(many.not().unwrap_err().kind(), ErrorKind::TooComplex);
}

#[test]
fn regular_operations_are_those_of_sets() {
    let setting = SmallTexts::new();
    let mut random = Random::new(5);
    let (mut empty, mut done) = (0, 0);
    for _ in 0..150 {
        let patterns = [0, 1].map(|_| pattern(&mut random, 0));
        let [a, b] = patterns.each_ref().map(|p| Constraint::regex(p).expect("valid"));
        let [x, y] = patterns.each_ref().map(|p| {
            let regex = regex::Regex::new(&format!("^(?:{p})$")).expect("valid");
            setting.texts.iter().map(|t| regex.is_match(t)).collect::<Vec<_>>()
        });
        let zip = |f: fn(bool, bool) -> bool| x.iter().zip(&y).map(|(&x, &y)| f(x, y)).collect::<Vec<_>>();
        let cases = [
            (a.or(&b), zip(|x, y| x || y)),
            (a.and(&b), zip(|x, y| x && y)),
            (a.not(), zip(|x, _| !x)),
            (a.not().and_then(|a| a.and(&b)), zip(|x, y| !x && y)),
            (a.not().and_then(|a| a.or(&b)), zip(|x, y| !x || y)),
            (a.not().and_then(|a| a.not()), x.clone()),
        ];
        for (i, (constraint, expected)) in cases.into_iter().enumerate() {
            match constraint {
                Ok(constraint) => {
                    assert_eq!(setting.members(&constraint), expected, "case {i} of {patterns:?}");
                    done += 1;
                }
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Unsatisfiable, "{e}");
                    // `not` of everything is an error in the middle, too.
                    assert!(i > 2 || expected.iter().all(|e| !e), "case {i} of {patterns:?}: {e}");
                    empty += 1;
                }
            }
        }
        let both = a.then(&b).expect("one policy");
        let split = |text: &String| {
            (0..=text.len()).filter(|&at| text.is_char_boundary(at)).any(|at| {
                let is = |part: &str, p: &str| {
                    regex::Regex::new(&format!("^(?:{p})$")).expect("valid").is_match(part)
                };
                is(&text[..at], &patterns[0]) && is(&text[at..], &patterns[1])
            })
        };
        let some: Vec<usize> = (0..40).map(|_| random.below(setting.texts.len())).collect();
        let members = setting.members(&both);
        for i in some {
            assert_eq!(members[i], split(&setting.texts[i]), "{patterns:?} on {:?}", setting.texts[i]);
        }
    }
    assert!(empty > 5 && done > 500, "{done} done, {empty} empty");
}

#[test]
fn values_can_be_joined_but_not_intersected() {
    let setting = SmallTexts::new();
    let number =
        Constraint::json_schema(r#"{"anyOf":[{"const":1},{"type":"array","items":{"const":7}}]}"#).unwrap();
    let recursive = Constraint::json_schema(r##"{"type":"array","items":{"$ref":"#"}}"##).unwrap();
    let text = Constraint::regex("x|yy").unwrap();
    let joined = text.then(&number).unwrap().then(&recursive).unwrap().or(&number).unwrap();
    let grammar = setting.compiler.compile(&joined).unwrap();
    for (output, expected) in [
        ("x1[]", true),
        ("yy[7,7][[],[[]]]", true),
        ("1", true),
        ("x1", false),
        ("1[]", false),
        ("x1[1]", false),
    ] {
        assert_eq!(accepts(&grammar, output), expected, "{output}");
    }
    for error in [number.and(&text), text.and(&recursive), number.not(), joined.not()] {
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.hint_text().is_some());
    }
}

#[test]
fn policies_must_agree_where_they_matter() {
    let spaced = Policy { whitespace: Whitespace::Flexible { max: 2 }, ..Policy::default() };
    let compact = Constraint::json_object();
    let other = Constraint::json_object().with_policy(spaced.clone());
    let text = Constraint::regex("x").unwrap();
    assert_eq!(compact.then(&other).unwrap_err().kind(), ErrorKind::InvalidOption);
    assert_eq!(compact.or(&other).unwrap_err().kind(), ErrorKind::InvalidOption);
    assert_eq!(*text.then(&other).unwrap().policy(), spaced);
    assert_eq!(*other.or(&text).unwrap().policy(), spaced);
    assert_eq!(*other.then(&other).unwrap().policy(), spaced);
    let warned = Constraint::json_schema(r#"{"type":"string","format":"zip-code-of-mars"}"#).unwrap();
    assert_eq!(text.then(&warned).unwrap().warnings(), warned.warnings());
}

#[test]
fn limits_are_errors() {
    let large = Constraint::regex("[ab]*a[ab]{18}").unwrap();
    assert_eq!(large.not().unwrap_err().kind(), ErrorKind::TooComplex);
    let all = Constraint::regex("(?s).*").unwrap();
    assert_eq!(all.not().unwrap_err().kind(), ErrorKind::Unsatisfiable);
    let (a, b) = (Constraint::regex("a+").unwrap(), Constraint::regex("b+").unwrap());
    assert_eq!(a.and(&b).unwrap_err().kind(), ErrorKind::Unsatisfiable);
}

#[test]
fn what_stands_behind_a_marker_begins_behind_the_first_one() {
    let setting = SmallTexts::new();
    let answers = ["(?:a|ba|)", "[ab]+", "é?b"];
    for marker in ["a", "aa", "ab", "aba", "é", "éé", "bab"] {
        for pattern in answers {
            let constraint = Constraint::regex(pattern).unwrap().behind_marker(marker).unwrap();
            let answer = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
            let is = |text: &String| {
                let at = text.find(marker).map(|at| at + marker.len());
                at.is_some_and(|at| answer.is_match(&text[at..]))
            };
            let expected: Vec<bool> = setting.texts.iter().map(is).collect();
            assert_eq!(setting.members(&constraint), expected, "{pattern} behind {marker}");
            assert!(expected.contains(&true));
        }
    }
    assert_eq!(Constraint::json_object().behind_marker("").unwrap_err().kind(), ErrorKind::InvalidOption);
}
