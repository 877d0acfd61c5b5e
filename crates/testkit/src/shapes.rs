//! Constraints as trees, which can be built into an [`Ir`] and shrunk when they fail; `draw` makes
//! random ones.

mod draw;

use std::sync::Arc;

use ffwd_engine::constraint::ir::{
    AutomatonState, Demand, Extra, FreeNumber, Gap, Ir, Markup, Node, NodeId, Object, Property, RuleId,
};

// Not every test that includes this draws.
#[allow(unused_imports)]
pub use draw::*;

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
    /// The rule N levels further out (0: the innermost); nothing if there is none.
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
