//! Random constraints as trees, which can be built into an [`Ir`] and shrunk when they fail.

use std::sync::Arc;

use ffwd::constraint::ir::{
    AutomatonState, Demand, Extra, FreeNumber, Gap, Ir, Markup, Node, NodeId, Object, Property, RuleId,
};

use super::random::Random;

#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Never,
    Empty,
    Bytes(Vec<u8>),
    Class(Vec<(u8, u8)>),
    Literals(Vec<Vec<u8>>),
    Concat(Vec<Shape>),
    Union(Vec<Shape>),
    Repeat(Box<Shape>, u32, Option<u32>),
    /// Per state, whether it accepts, and its edges.
    Machine(Vec<(bool, Vec<(Shape, u32)>)>),
    Str {
        lang: Option<Box<Shape>>,
        min: u32,
        max: Option<u32>,
    },
    /// A text as it is.
    Raw(Box<Shape>, u32, Option<u32>),
    Arr {
        prefix: Vec<Shape>,
        rest: Option<Box<Shape>>,
        min: u32,
        max: Option<u32>,
    },
    Set(Box<Shape>, u32, Option<u32>),
    /// An array without equal items.
    Unique(Box<Shape>),
    Obj {
        props: Vec<(String, Shape, bool)>,
        extra: Vec<(Option<Shape>, Shape)>,
        demand: Vec<(u32, Option<Shape>, Shape)>,
        min: u32,
        max: Option<u32>,
    },
    /// An object in one of the markups, with names as in `Obj`.
    Call(usize, Box<Shape>),
    Number(FreeNumber),
    Any,
    /// A rule with this body.
    Rule(Box<Shape>),
    /// The rule so many levels further out (0: the innermost); none there: nothing.
    Back(usize),
}

use Shape::*;

impl Shape {
    pub fn ir(&self) -> Ir {
        let mut ir = Ir::new();
        let root = self.build(&mut ir, &mut Vec::new());
        ir.set_root(root);
        ir
    }

    fn build(&self, ir: &mut Ir, rules: &mut Vec<RuleId>) -> NodeId {
        let mut all = |list: &[Shape], ir: &mut Ir| -> Vec<NodeId> {
            list.iter().map(|s| s.build(ir, rules)).collect()
        };
        let node = match self {
            Never => Node::Never,
            Empty => Node::Empty,
            Bytes(b) => Node::Bytes(b.as_slice().into()),
            Class(r) => Node::Class(r.as_slice().into()),
            Literals(w) => return ir.literals(w),
            Concat(parts) => Node::Concat(all(parts, ir).into()),
            Union(parts) => Node::Union(all(parts, ir).into()),
            Repeat(inner, min, max) => Node::Repeat { node: inner.build(ir, rules), min: *min, max: *max },
            Machine(states) => {
                let mut built = Vec::new();
                for (accept, edges) in states {
                    let edges = edges.iter().map(|(on, to)| (on.build(ir, rules), *to)).collect();
                    built.push(AutomatonState { accept: *accept, edges });
                }
                Node::automaton(built)
            }
            Str { lang, min, max } => {
                let lang = lang.as_ref().map(|l| l.build(ir, rules));
                Node::JsonString { lang, min_chars: *min, max_chars: *max }
            }
            Raw(lang, min, max) => {
                Node::Text { lang: lang.build(ir, rules), min_chars: *min, max_chars: *max }
            }
            Call(markup, object) => {
                let object = object.build(ir, rules);
                let Node::JsonObject(object) = ir.node(object) else { unreachable!("an object") };
                let mut object = object.clone();
                object.markup = Some(Arc::new(markups()[*markup].clone()));
                Node::JsonObject(object)
            }
            Arr { prefix, rest, min, max } => {
                let prefix = all(prefix, ir);
                let rest = rest.as_ref().map(|r| r.build(ir, rules));
                Node::JsonArray { prefix, rest, min: *min, max: *max }
            }
            Set(item, min, max) => Node::JsonSet { item: item.build(ir, rules), min: *min, max: *max },
            Unique(array) => Node::JsonUnique { array: array.build(ir, rules), enough: Vec::new() },
            Obj { props, extra, demand, min, max } => {
                let mut properties = Vec::new();
                for (name, value, required) in props {
                    let value = value.build(ir, rules);
                    properties.push(Property { name: name.as_str().into(), value, required: *required });
                }
                let mut entries = |list: &[(Option<Shape>, Shape)]| -> Vec<Extra> {
                    let mut made = Vec::new();
                    for (keys, value) in list {
                        let keys = keys.as_ref().map(|k| k.build(ir, rules));
                        made.push(Extra { keys, value: value.build(ir, rules) });
                    }
                    made
                };
                // A demand that says what is said of such names anyway.
                let said =
                    |keys: &Option<Shape>, value: &Shape| extra.iter().any(|e| (&e.0, &e.1) == (keys, value));
                let flags: Vec<(u32, bool)> = demand.iter().map(|d| (d.0, said(&d.1, &d.2))).collect();
                let extra = entries(extra);
                let entries = entries(&demand.iter().map(|d| (d.1.clone(), d.2.clone())).collect::<Vec<_>>());
                let demand = flags.into_iter().zip(entries);
                let demand =
                    demand.map(|((meets, by_name), entry)| Demand { meets, by_name, entry }).collect();
                // Some objects have an order of their own; which ones costs no random number.
                let names: usize = props.iter().map(|p| p.0.len() + usize::from(p.2)).sum();
                let any_order = (names + extra.len() + *min as usize) % 4 == 3;
                let (min, max) = (*min, *max);
                Node::JsonObject(Box::new(Object {
                    properties,
                    extra,
                    demand,
                    min,
                    max,
                    any_order,
                    markup: None,
                }))
            }
            Number(numbers) => Node::JsonNumber(*numbers),
            Any => Node::JsonAny,
            Rule(body) => {
                let rule = ir.declare_rule();
                rules.push(rule);
                let body = body.build(ir, rules);
                rules.pop();
                ir.define_rule(rule, body);
                Node::Rule(rule)
            }
            Back(up) => match rules.len().checked_sub(up + 1) {
                Some(at) => Node::Rule(rules[at]),
                None => Node::Never,
            },
        };
        ir.push(node)
    }

    /// Whether this is a part of a character only.
    fn is_fragment(&self) -> bool {
        match self {
            Bytes(b) => std::str::from_utf8(b).is_err(),
            Class(ranges) => ranges[0].0 >= 0x80,
            _ => false,
        }
    }

    /// Simpler shapes to try instead of this one.
    pub fn simpler(&self) -> Vec<Shape> {
        let mut out = Vec::new();
        let lists = |list: &[Shape], out: &mut Vec<Shape>, make: &dyn Fn(Vec<Shape>) -> Shape| {
            for i in 0..list.len() {
                let mut less = list.to_vec();
                less.remove(i);
                out.push(make(less));
                for simpler in list[i].simpler() {
                    let mut other = list.to_vec();
                    other[i] = simpler;
                    out.push(make(other));
                }
            }
        };
        match self {
            Never | Empty => {}
            Bytes(b) => {
                out.push(Empty);
                if b.len() > 1 {
                    let less = [&b[1..], &b[..b.len() - 1]];
                    let whole = |part: &&[u8]| std::str::from_utf8(part).is_ok();
                    out.extend(less.into_iter().filter(whole).map(|part| Bytes(part.to_vec())));
                }
            }
            Class(r) => {
                out.push(Bytes(vec![r[0].0]));
                if r.len() > 1 {
                    out.extend(r.iter().map(|&one| Class(vec![one])));
                }
            }
            Literals(w) => {
                for i in 0..w.len() {
                    let mut less = w.clone();
                    let one = less.remove(i);
                    out.push(Bytes(one));
                    if less.len() > 1 {
                        out.push(Literals(less));
                    }
                }
            }
            // A character in pieces stays whole: string languages must remain well-formed UTF-8.
            Concat(parts) if parts.iter().any(Shape::is_fragment) => {}
            Concat(parts) | Union(parts) => {
                out.extend(parts.iter().cloned());
                let is_concat = matches!(self, Concat(_));
                lists(parts, &mut out, &|p| if is_concat { Concat(p) } else { Union(p) });
            }
            Machine(states) => {
                for (i, (accept, edges)) in states.iter().enumerate() {
                    for e in 0..edges.len() {
                        let mut less = states.clone();
                        less[i].1.remove(e);
                        out.push(Machine(less));
                    }
                    let mut other = states.clone();
                    other[i].0 = !accept;
                    if *accept {
                        out.push(Machine(other));
                    }
                }
            }
            Repeat(inner, min, max) => {
                out.push((**inner).clone());
                for simpler in inner.simpler() {
                    out.push(Repeat(Box::new(simpler), *min, *max));
                }
                if *min > 0 {
                    out.push(Repeat(inner.clone(), min - 1, *max));
                }
                match max {
                    Some(max) if max > min => out.push(Repeat(inner.clone(), *min, Some(max - 1))),
                    None => out.push(Repeat(inner.clone(), *min, Some(min + 1))),
                    _ => {}
                }
            }
            Str { lang, min, max } => {
                out.push(Bytes(b"\"\"".to_vec()));
                if let Some(l) = lang {
                    out.push(Str { lang: None, min: *min, max: *max });
                    for simpler in l.simpler() {
                        out.push(Str { lang: Some(Box::new(simpler)), min: *min, max: *max });
                    }
                }
                if *min > 0 {
                    out.push(Str { lang: lang.clone(), min: min - 1, max: *max });
                }
                if let Some(n) = max {
                    out.push(Str { lang: lang.clone(), min: *min, max: None });
                    if n > min {
                        out.push(Str { lang: lang.clone(), min: *min, max: Some(n - 1) });
                    }
                }
            }
            Raw(lang, min, max) => {
                out.push((**lang).clone());
                out.extend(lang.simpler().into_iter().map(|l| Raw(Box::new(l), *min, *max)));
                if *min > 0 {
                    out.push(Raw(lang.clone(), min - 1, *max));
                }
                if max.is_some_and(|max| max > *min) {
                    out.push(Raw(lang.clone(), *min, max.map(|max| max - 1)));
                }
            }
            Call(markup, object) => {
                let objects = object.simpler().into_iter().filter(|s| matches!(s, Obj { .. }));
                out.extend(objects.map(|o| Call(*markup, Box::new(o))));
                out.extend((0..*markup).map(|m| Call(m, object.clone())));
            }
            Arr { prefix, rest, min, max } => {
                out.extend(prefix.iter().cloned());
                lists(prefix, &mut out, &|p| Arr { prefix: p, rest: rest.clone(), min: *min, max: *max });
                if let Some(r) = rest {
                    out.push((**r).clone());
                    out.push(Arr { prefix: prefix.clone(), rest: None, min: *min, max: *max });
                    for simpler in r.simpler() {
                        let rest = Some(Box::new(simpler));
                        out.push(Arr { prefix: prefix.clone(), rest, min: *min, max: *max });
                    }
                }
                if *min > 0 {
                    let (prefix, rest) = (prefix.clone(), rest.clone());
                    out.push(Arr { prefix, rest, min: min - 1, max: *max });
                }
                if max.is_some() {
                    out.push(Arr { prefix: prefix.clone(), rest: rest.clone(), min: *min, max: None });
                }
            }
            Set(item, min, max) => {
                out.push((**item).clone());
                if *min > 0 || max.is_some() {
                    out.push(Set(item.clone(), 0, None));
                }
                out.extend(item.simpler().into_iter().map(|i| Set(Box::new(i), *min, *max)));
            }
            Unique(array) => {
                out.push((**array).clone());
                if let Arr { .. } = **array {
                    let arrays = array.simpler().into_iter().filter(|s| matches!(s, Arr { .. }));
                    out.extend(arrays.map(|a| Unique(Box::new(a))));
                }
            }
            Obj { props, extra, demand, min, max } => {
                let like = |props: Vec<(String, Shape, bool)>, extra: Vec<(Option<Shape>, Shape)>| Obj {
                    props,
                    extra,
                    demand: demand.clone(),
                    min: *min,
                    max: *max,
                };
                if !demand.is_empty() {
                    let (props, extra) = (props.clone(), extra.clone());
                    out.push(Obj { props, extra, demand: Vec::new(), min: *min, max: *max });
                }
                if *min > 0 || max.is_some() {
                    let (props, extra) = (props.clone(), extra.clone());
                    out.push(Obj { props, extra, demand: demand.clone(), min: 0, max: None });
                }
                out.extend(props.iter().map(|p| p.1.clone()));
                for i in 0..props.len() {
                    let mut less = props.clone();
                    less.remove(i);
                    out.push(like(less, extra.clone()));
                    let plain = (!matches!(props[i].1, Any | Never | Bytes(_))).then(|| Bytes(b"1".to_vec()));
                    for simpler in props[i].1.simpler().into_iter().chain(plain) {
                        let mut other = props.clone();
                        other[i].1 = simpler;
                        out.push(like(other, extra.clone()));
                    }
                }
                for i in 0..extra.len() {
                    let mut less = extra.clone();
                    less.remove(i);
                    out.push(like(props.clone(), less));
                    for simpler in extra[i].1.simpler() {
                        let mut other = extra.clone();
                        other[i].1 = simpler;
                        out.push(like(props.clone(), other));
                    }
                    for simpler in extra[i].0.iter().flat_map(Shape::simpler) {
                        let mut other = extra.clone();
                        other[i].0 = Some(simpler);
                        out.push(like(props.clone(), other));
                    }
                }
            }
            Number(_) | Any => out.push(Bytes(b"1".to_vec())),
            Rule(body) => {
                out.push((**body).clone());
                out.extend(body.simpler().into_iter().map(|b| Rule(Box::new(b))));
            }
            Back(_) => out.push(Bytes(b"1".to_vec())),
        }
        out
    }
}

/// Ways of writing the properties of an object, friendly and not.
fn markups() -> [Markup; 4] {
    let of = |open: &str, named: &str, [first, between, last]: [Gap; 3]| Markup {
        open: open.into(),
        named: named.into(),
        first,
        between,
        last,
    };
    [
        of("", "=", [Gap::None; 3]),
        of("<p=", ">", [Gap::None, Gap::Line, Gap::None]),
        of("<\"", "\" \"", [Gap::None, Gap::Line, Gap::MayLine]),
        of("<k>", "</k>", [Gap::MayLine, Gap::MayLine, Gap::Line]),
    ]
}

// ---- random shapes ----

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
