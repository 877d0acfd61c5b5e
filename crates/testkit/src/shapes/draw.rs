//! Random shapes of every kind.

use ffwd_engine::constraint::ir::FreeNumber;

use super::super::random::Random;
use super::Shape::{self, *};

fn bytes(text: &str) -> Shape {
    Bytes(text.as_bytes().to_vec())
}

fn bounds(random: &mut Random, most: usize) -> (u32, Option<u32>) {
    let min = random.below(most) as u32 * random.below(2) as u32;
    let max = random.chance(60).then(|| min + random.below(most) as u32);
    (min, max)
}

/// Any character, well-formed UTF-8.
fn any_char() -> Shape {
    let tail = || Class(vec![(0x80, 0xbf)]);
    Union(vec![
        Class(vec![(0, 0x7f)]),
        Concat(vec![Class(vec![(0xc2, 0xdf)]), tail()]),
        Concat(vec![Bytes(vec![0xe0]), Class(vec![(0xa0, 0xbf)]), tail()]),
        Concat(vec![Class(vec![(0xe1, 0xec), (0xee, 0xef)]), tail(), tail()]),
        Concat(vec![Bytes(vec![0xed]), Class(vec![(0x80, 0x9f)]), tail()]),
        Concat(vec![Bytes(vec![0xf0]), Class(vec![(0x90, 0xbf)]), tail(), tail()]),
        Concat(vec![Class(vec![(0xf1, 0xf3)]), tail(), tail(), tail()]),
        Concat(vec![Bytes(vec![0xf4]), Class(vec![(0x80, 0x8f)]), tail(), tail()]),
    ])
}

/// Between one and four texts with this beginning.
fn few(beginning: &str, random: &mut Random) -> Shape {
    let texts = (0..1 + random.below(4)).map(|i| bytes(&format!("{beginning}{}", &"12"[..i % 3])));
    Union(texts.collect())
}

/// A regular language of texts.
pub fn text(random: &mut Random, depth: usize) -> Shape {
    const WORDS: &[&str] = &[
        "a", "b", "ab", "ba", "abc", "é", "漢", "😀", "\"", "\\", "\n", "\u{1}", "\u{1f}", "0", "12", "-",
        "/", "x", " ", "\u{7f}", "",
    ];
    match random.below(if depth == 0 { 4 } else { 11 }) {
        0 | 1 => bytes(random.pick::<&str>(WORDS)),
        2 => Class(
            random
                .pick(&[
                    vec![(b'a', b'c')],
                    vec![(b'0', b'9')],
                    vec![(b' ', b'~')],
                    vec![(0, 0x7f)],
                    vec![(b'a', b'a'), (b'x', b'z')],
                    vec![(0, b'!'), (b'#', 0x7f)],
                ])
                .clone(),
        ),
        3 if random.chance(50) => any_char(),
        3 => Concat(vec![Bytes(vec![0xc3]), Class(vec![(0xa0, 0xbf)])]),
        4..=5 => {
            let count = 1 + random.below(3);
            Concat((0..count).map(|_| text(random, depth - 1)).collect())
        }
        6 => {
            let count = 1 + random.below(3);
            Union((0..count).map(|_| text(random, depth - 1)).collect())
        }
        7..=8 => {
            let (min, max) = bounds(random, 4);
            Repeat(Box::new(text(random, depth - 1)), min, max)
        }
        9 => {
            let states = 1 + random.below(4);
            let edge = |random: &mut Random| {
                let on = match random.below(5) {
                    0 => any_char(),
                    1 => Bytes("é".into()),
                    2 => bytes("ab"),
                    _ => Class(
                        random
                            .pick(&[vec![(b'a', b'c')], vec![(b'0', b'9'), (b'x', b'z')], vec![(0, 0x1f)]])
                            .clone(),
                    ),
                };
                (on, random.below(states) as u32)
            };
            let state = |random: &mut Random| {
                let edges = (0..random.below(4)).map(|_| edge(random)).collect();
                (random.chance(40), edges)
            };
            Machine((0..states).map(|_| state(random)).collect())
        }
        _ => {
            let count = 1 + random.below(4);
            Literals((0..count).map(|_| random.pick(WORDS).as_bytes().to_vec()).collect())
        }
    }
}

/// Any language of bytes, with recursion that is not left recursion.
pub fn language(random: &mut Random, depth: usize, rules: usize) -> Shape {
    if depth == 0 {
        return match random.below(6) {
            0 if rules > 0 => Concat(vec![bytes("("), Back(random.below(rules)), bytes(")")]),
            1 => Class(vec![(0x80, 0xff)]),
            _ => text(random, 1),
        };
    }
    match random.below(9) {
        0 | 1 => {
            let count = 1 + random.below(4);
            Concat((0..count).map(|_| language(random, depth - 1, rules)).collect())
        }
        2 | 3 => {
            let count = 1 + random.below(4);
            Union((0..count).map(|_| language(random, depth - 1, rules)).collect())
        }
        4 => {
            let (min, max) = bounds(random, 5);
            Repeat(Box::new(language(random, depth - 1, rules)), min, max)
        }
        5 => Rule(Box::new(Union(vec![
            language(random, depth - 1, rules + 1),
            Concat(vec![bytes("("), language(random, depth - 1, rules + 1), bytes(")")]),
            Concat(vec![bytes("x"), Back(0), language(random, depth - 1, rules + 1)]),
        ]))),
        6 => value(random, depth - 1, 0),
        _ => text(random, depth),
    }
}

/// A language of JSON values.
pub fn value(random: &mut Random, depth: usize, rules: usize) -> Shape {
    let flat = depth == 0;
    match random.below(if flat { 7 } else { 15 }) {
        0 => Literals(
            ["\"red\"", "\"a\"", "null", "1", "\"abc\"", "12", "{}"][random.below(4)..]
                .iter()
                .map(|w| w.as_bytes().to_vec())
                .collect(),
        ),
        1 => {
            let digit = Class(vec![(b'0', b'9')]);
            Concat(vec![
                Repeat(Box::new(bytes("-")), 0, Some(1)),
                Union(vec![
                    bytes("0"),
                    Concat(vec![
                        Class(vec![(b'1', b'9')]),
                        Repeat(Box::new(digit), 0, Some(random.below(4) as u32)),
                    ]),
                ]),
            ])
        }
        2 | 3 => {
            let lang = random.chance(60).then(|| Box::new(text(random, 2)));
            let (min, max) = bounds(random, 6);
            Str { lang, min, max }
        }
        4 => Str { lang: None, min: 0, max: None },
        5 if random.chance(40) => {
            let integer = random.chance(50);
            let (zeros, exponent) = (integer && random.chance(30), !integer && random.chance(30));
            let digits = (1 + random.below(4) as u8, random.below(4) as u8);
            Number(FreeNumber { integer, zeros, exponent, digits })
        }
        5 => Any,
        6 if rules > 0 => Back(random.below(rules)),
        6 => bytes("true"),
        7 | 8 => array(random, depth, rules),
        9..=11 => object(random, depth, rules),
        12 | 13 => {
            let count = 1 + random.below(3);
            Union((0..count).map(|_| value(random, depth - 1, rules)).collect())
        }
        _ => {
            let body = if random.chance(50) {
                object(random, depth, rules + 1)
            } else {
                array(random, depth, rules + 1)
            };
            Rule(Box::new(Union(vec![body, value(random, 0, 0)])))
        }
    }
}

/// An object in a markup, and what may stand around it.
pub fn call(random: &mut Random) -> Shape {
    let Obj { props, extra, demand, min, max } = object(random, 2, 0) else { unreachable!("an object") };
    let raw = |value: Shape, random: &mut Random| match random.below(4) {
        0 => {
            let (min, max) = bounds(random, 6);
            Raw(Box::new(text(random, 2)), min, max)
        }
        1 => text(random, 2),
        2 => Union(vec![Concat(vec![bytes("t"), text(random, 1)]), value]),
        _ => value,
    };
    let close = random.pick(&["", ";", "</p>", "\">"]);
    let closed = |value: Shape, random: &mut Random| match raw(value, random) {
        Never => Never,
        value => Concat(vec![value, bytes(close)]),
    };
    // No declared name begins like the first.
    let begin = random.pick(&["_", "_", ""]);
    let undeclared = |keys: Option<Shape>, random: &mut Random| {
        let some = || Repeat(Box::new(Class(vec![(b'a', b'z'), (b'"', b'"')])), 0, None);
        let few = || Union(["", "a", "b"].map(bytes).to_vec());
        let rest = if keys.is_none() && random.chance(50) { few() } else { keys.unwrap_or_else(some) };
        Some(Concat(vec![bytes(begin), rest]))
    };
    let props =
        props.into_iter().map(|(name, value, required)| (name, closed(value, random), required)).collect();
    let extra: Vec<_> =
        extra.into_iter().map(|(keys, value)| (undeclared(keys, random), closed(value, random))).collect();
    // Demands that are met by names alone keep their names.
    let demand = demand.into_iter().filter(|_| extra.is_empty());
    let demand = demand.map(|(meets, keys, value)| (meets, undeclared(keys, random), value)).collect();
    let call = Call(random.below(4), Box::new(Obj { props, extra, demand, min, max }));
    match random.below(3) {
        0 => call,
        1 => Concat(vec![bytes("<f>\n"), call, bytes("\n</f>")]),
        _ => Union(vec![Concat(vec![bytes("a"), call, bytes("b")]), value(random, 1, 0)]),
    }
}

/// An array of different items.
pub fn set(random: &mut Random) -> Shape {
    let mut parts = Vec::new();
    for _ in 0..1 + random.below(2) {
        parts.push(match random.below(6) {
            0 => Str { lang: None, min: 0, max: None },
            1 | 2 => Str { lang: Some(Box::new(text(random, 2))), min: 0, max: None },
            3 => Literals(["\"a\"", "\"b\"", "1", "12", "null"].map(|w| w.as_bytes().to_vec()).to_vec()),
            4 => bytes("true"),
            _ => Repeat(Box::new(Class(vec![(b'1', b'3')])), 1, Some(1 + random.below(3) as u32)),
        });
    }
    let item = if parts.len() == 1 { parts.remove(0) } else { Union(parts) };
    let (min, max) = bounds(random, 4);
    Set(Box::new(item), min, max)
}

/// Values of a few kinds with equal ones among them, spelled alike or not, and often few of them.
fn comparable(random: &mut Random, depth: usize) -> Shape {
    let words = |list: &[&str]| Literals(list.iter().map(|w| w.as_bytes().to_vec()).collect());
    match random.below(if depth == 0 { 8 } else { 14 }) {
        0 => words(&["true", "false"]),
        1 => words(&["1", "1.0", "2", "10e-1"]),
        2 => words(&["\"a\"", "\"b\"", "null", "0", "-0"][random.below(3)..]),
        3 => {
            // Numbers, some of which can be spelled in several ways.
            let digit = Class(vec![(b'0', b'0' + random.below(3) as u8)]);
            let fraction = Concat(vec![bytes("."), Repeat(Box::new(digit.clone()), 1, Some(2))]);
            Concat(vec![
                Repeat(Box::new(bytes("-")), 0, Some(random.below(2) as u32)),
                Union(vec![bytes("0"), Repeat(Box::new(Class(vec![(b'1', b'2')])), 1, Some(2))]),
                Repeat(Box::new(fraction), 0, Some(1)),
            ])
        }
        4 => Str { lang: Some(Box::new(Class(vec![(b'a', b'c')]))), min: 0, max: None },
        5 => Str { lang: None, min: 0, max: Some(random.below(3) as u32) },
        6 => Str { lang: None, min: 0, max: None },
        7 if random.chance(40) => Any,
        7 => words(&["[]", "[1]", "[1.0]", "{}"]),
        8 | 9 => {
            let rest = random.chance(70).then(|| Box::new(comparable(random, depth - 1)));
            let prefix = (0..random.below(3)).map(|_| comparable(random, depth - 1)).collect();
            let array = Arr { prefix, rest, min: 0, max: Some(random.below(3) as u32) };
            if random.chance(50) { Unique(Box::new(array)) } else { array }
        }
        10 | 11 => {
            let names = ["a", "b", "ab", "1"];
            let from = random.below(3);
            let prop = |name: &&str, random: &mut Random| {
                (name.to_string(), comparable(random, depth - 1), random.chance(60))
            };
            let props = names[from..from + 1 + random.below(2)].iter().map(|n| prop(n, random)).collect();
            let extra = if random.chance(25) {
                vec![(Some(Class(vec![(b'b', b'c')])), comparable(random, 0))]
            } else {
                Vec::new()
            };
            Obj { props, extra, demand: Vec::new(), min: 0, max: None }
        }
        _ => Union(vec![comparable(random, depth - 1), comparable(random, depth - 1)]),
    }
}

/// An object of few undeclared names, some of which must be there.
pub fn demanding(random: &mut Random) -> Shape {
    let short =
        |random: &mut Random| Union(vec![bytes("1"), bytes(random.pick::<&str>(&["2", "true", "1"]))]);
    let mut extra = vec![(Some(few("a", random)), short(random))];
    if random.chance(60) {
        extra.push((Some(few("b", random)), short(random)));
    }
    if random.chance(30) {
        extra.push((Some(Repeat(Box::new(bytes("c")), 1, None)), short(random)));
    }
    let mut demand = Vec::new();
    for (keys, value) in extra.iter().take(1 + random.below(2)) {
        let value = if random.chance(80) { value.clone() } else { bytes("1") };
        demand.push((1 << random.below(2), keys.clone(), value));
    }
    let props = if random.chance(40) { vec![("d".into(), bytes("1"), random.chance(50))] } else { vec![] };
    let (min, max) = if random.chance(50) { bounds(random, 4) } else { (0, None) };
    Obj { props, extra, demand, min, max }
}

/// An array without equal items, of any kind.
pub fn unique(random: &mut Random) -> Shape {
    let prefix = match random.below(3) {
        0 => (0..random.below(4)).map(|_| comparable(random, 1)).collect(),
        _ => Vec::new(),
    };
    let rest = (prefix.is_empty() || random.chance(60)).then(|| Box::new(comparable(random, 2)));
    let (min, max) = bounds(random, 4);
    Unique(Box::new(Arr { prefix, rest, min, max }))
}

fn array(random: &mut Random, depth: usize, rules: usize) -> Shape {
    if random.chance(20) {
        return set(random);
    }
    let count = random.below(3);
    let prefix = (0..count).map(|_| value(random, depth - 1, rules)).collect();
    let rest = random.chance(70).then(|| Box::new(value(random, depth - 1, rules)));
    let (min, max) = bounds(random, 4);
    Arr { prefix, rest, min, max }
}

fn object(random: &mut Random, depth: usize, rules: usize) -> Shape {
    const NAMES: &[&str] = &["a", "b", "ab", "abc", "", "\"q", "é", "n\n", "type", "\\", "a\u{1}", "x y"];
    let mut props: Vec<(String, Shape, bool)> = Vec::new();
    for _ in 0..random.below(5) {
        let name = random.pick(NAMES).to_string();
        if props.iter().all(|p| p.0 != name) {
            let forbidden = random.chance(10);
            let value = if forbidden { Never } else { value(random, depth - 1, rules) };
            props.push((name, value, !forbidden && random.chance(40)));
        }
    }
    let starting = |with: &str, random: &mut Random| {
        Some(Concat(vec![bytes(with), Repeat(Box::new(text(random, 1)), 0, None)]))
    };
    let extra = match random.below(8) {
        0..=2 => vec![],
        3 | 4 => vec![(None, value(random, depth - 1, rules))],
        5 => vec![(Some(text(random, 2)), value(random, depth - 1, rules))],
        6 => vec![(Some(any_char()), Never), (starting("ab", random), value(random, depth - 1, rules))],
        7 if random.chance(50) => vec![
            (Some(few("a", random)), value(random, depth - 1, rules)),
            (Some(few("b", random)), value(random, depth - 1, rules)),
        ],
        _ => vec![
            (starting("a", random), value(random, depth - 1, rules)),
            (starting("b", random), value(random, depth - 1, rules)),
        ],
    };
    let demand = match random.below(6) {
        0 => vec![(1, None, value(random, depth - 1, rules))],
        1 => vec![
            (1, starting("a", random), value(random, depth - 1, rules)),
            (1 + random.below(3) as u32, starting("", random), value(random, depth - 1, rules)),
        ],
        3 if !extra.is_empty() => {
            // Names that there may be few of, and that meet demands whatever their values.
            let count = 1 + random.below(2);
            let said = extra.iter().take(count);
            said.map(|(keys, value)| (1 + random.below(3) as u32, keys.clone(), value.clone())).collect()
        }
        2 => (1..4).map(|meets| (meets, starting("b", random), value(random, depth - 1, rules))).collect(),
        _ => vec![],
    };
    let (min, max) = if random.chance(40) { bounds(random, 4) } else { (0, None) };
    Obj { props, extra, demand, min, max }
}
