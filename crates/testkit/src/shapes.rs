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
            Obj { .. } => self.object(ir, rules),
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

    fn object(&self, ir: &mut Ir, rules: &mut Vec<RuleId>) -> Node {
        let Obj { props, extra, demand, min, max } = self else { unreachable!("an object") };
        let mut properties = Vec::new();
        for (name, value, required) in props {
            let value = value.build(ir, rules);
            properties.push(Property { name: name.as_str().into(), value, required: *required });
        }
        let mut entry = |keys: &Option<Shape>, value: &Shape| {
            let keys = keys.as_ref().map(|k| k.build(ir, rules));
            Extra { keys, value: value.build(ir, rules) }
        };
        let made: Vec<Extra> = extra.iter().map(|(keys, value)| entry(keys, value)).collect();
        let demand = demand.iter().map(|(meets, keys, value)| {
            // A demand that says what is said of such names anyway.
            let by_name = extra.iter().any(|e| (&e.0, &e.1) == (keys, value));
            Demand { meets: *meets, by_name, entry: entry(keys, value) }
        });
        let demand = demand.collect();
        // Some objects have an order of their own; which ones costs no random number.
        let names: usize = props.iter().map(|p| p.0.len() + usize::from(p.2)).sum();
        let any_order = (names + extra.len() + *min as usize) % 4 == 3;
        let (extra, min, max) = (made, *min, *max);
        Node::JsonObject(Box::new(Object { properties, extra, demand, min, max, any_order, markup: None }))
    }

    /// Whether this is a part of a character only.
    fn is_fragment(&self) -> bool {
        match self {
            Bytes(b) => std::str::from_utf8(b).is_err(),
            Class(ranges) => ranges[0].0 >= 0x80,
            _ => false,
        }
    }

    /// The shapes that this one is made of, those of demands apart.
    fn children(&mut self) -> Vec<&mut Shape> {
        match self {
            Concat(parts) | Union(parts) => parts.iter_mut().collect(),
            Machine(states) => {
                states.iter_mut().flat_map(|s| s.1.iter_mut().map(|edge| &mut edge.0)).collect()
            }
            Str { lang, .. } => lang.iter_mut().map(|lang| &mut **lang).collect(),
            Repeat(one, ..) | Raw(one, ..) | Set(one, ..) | Unique(one) | Call(_, one) | Rule(one) => {
                vec![one]
            }
            Arr { prefix, rest, .. } => {
                prefix.iter_mut().chain(rest.iter_mut().map(|rest| &mut **rest)).collect()
            }
            Obj { props, extra, .. } => {
                let entries = extra.iter_mut().flat_map(|(keys, value)| keys.iter_mut().chain([value]));
                props.iter_mut().map(|p| &mut p.1).chain(entries).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The smallest and the largest count.
    fn counts(&mut self) -> Option<(&mut u32, &mut Option<u32>)> {
        match self {
            Repeat(_, min, max) | Raw(_, min, max) | Set(_, min, max) => Some((min, max)),
            Str { min, max, .. } | Arr { min, max, .. } | Obj { min, max, .. } => Some((min, max)),
            _ => None,
        }
    }

    /// Simpler shapes to try instead of this one.
    pub fn simpler(&self) -> Vec<Shape> {
        let mut out = self.with_less();
        // A character in pieces stays whole: string languages must remain well-formed UTF-8.
        if matches!(self, Concat(parts) if parts.iter().any(Shape::is_fragment)) {
            return out;
        }
        let change = |change: &dyn Fn(&mut Shape)| {
            let mut other = self.clone();
            change(&mut other);
            (other != *self).then_some(other)
        };
        let less = |min: &mut u32, _: &mut Option<u32>| *min = min.saturating_sub(1);
        let free = |_: &mut u32, max: &mut Option<u32>| *max = None;
        let cut = |min: &mut u32, max: &mut Option<u32>| {
            *max = Some(max.map_or(*min + 1, |n| n.saturating_sub(1).max(*min)));
        };
        for count in [&less as &dyn Fn(&mut u32, &mut Option<u32>), &free, &cut] {
            out.extend(change(&|shape| {
                if let Some((min, max)) = shape.counts() {
                    count(min, max);
                }
            }));
        }
        // An object in a markup stays one, and different items stay those of an array.
        let fits = |other: &Shape| match self {
            Call(..) => matches!(other, Obj { .. }),
            Unique(_) => matches!(other, Arr { .. }),
            _ => true,
        };
        for i in 0..self.clone().children().len() {
            let child = self.clone().children().swap_remove(i).clone();
            let plain = (!matches!(child, Any | Never | Bytes(_))).then(|| Bytes(b"1".to_vec()));
            let simpler = child.simpler().into_iter().chain(plain).filter(fits);
            out.extend(
                simpler.filter_map(|simpler| {
                    change(&|shape| *shape.children().swap_remove(i) = simpler.clone())
                }),
            );
            out.extend(Some(child).filter(|_| !matches!(self, Call(..))));
        }
        out
    }

    /// The shape without one of its parts.
    fn with_less(&self) -> Vec<Shape> {
        fn each<T: Clone>(list: &[T], make: impl Fn(Vec<T>) -> Shape) -> Vec<Shape> {
            let without = |i| [&list[..i], &list[i + 1..]].concat();
            (0..list.len()).map(|i| make(without(i))).collect()
        }
        match self {
            Never | Empty => Vec::new(),
            Bytes(b) if b.len() > 1 => {
                let less = [&b[1..], &b[..b.len() - 1]].map(<[u8]>::to_vec);
                let whole = less.into_iter().filter(|part| std::str::from_utf8(part).is_ok());
                whole.map(Bytes).chain([Empty]).collect()
            }
            Bytes(_) => vec![Empty],
            Class(ranges) if ranges.len() > 1 => each(ranges, Class),
            Class(ranges) => vec![Bytes(vec![ranges[0].0])],
            Literals(words) if words.len() > 2 => each(words, Literals),
            Literals(words) => words.iter().map(|word| Bytes(word.clone())).collect(),
            Concat(parts) if parts.iter().any(Shape::is_fragment) => Vec::new(),
            Concat(parts) => each(parts, Concat),
            Union(parts) => each(parts, Union),
            Machine(states) => {
                let mut out = Vec::new();
                for (i, (accept, edges)) in states.iter().enumerate() {
                    let with = |accept, edges| {
                        let mut other = states.clone();
                        other[i] = (accept, edges);
                        Machine(other)
                    };
                    out.extend(each(edges, |edges| with(*accept, edges)));
                    out.extend(accept.then(|| with(false, edges.clone())));
                }
                out
            }
            Str { lang, min, max } => {
                let free = lang.as_ref().map(|_| Str { lang: None, min: *min, max: *max });
                free.into_iter().chain([Bytes(b"\"\"".to_vec())]).collect()
            }
            Call(markup, object) => (0..*markup).map(|m| Call(m, object.clone())).collect(),
            Arr { prefix, rest, min, max } => {
                let with = |prefix, rest| Arr { prefix, rest, min: *min, max: *max };
                let mut out = each(prefix, |prefix| with(prefix, rest.clone()));
                out.extend(rest.as_ref().map(|_| with(prefix.clone(), None)));
                out
            }
            Obj { props, extra, demand, min, max } => {
                let with = |props: &[_], extra: &[_], demand: &[_]| Obj {
                    props: props.to_vec(),
                    extra: extra.to_vec(),
                    demand: demand.to_vec(),
                    min: *min,
                    max: *max,
                };
                let mut out = each(props, |props| with(&props, extra, demand));
                out.extend(each(extra, |extra| with(props, &extra, demand)));
                out.extend((!demand.is_empty()).then(|| with(props, extra, &[])));
                out
            }
            Number(_) | Any | Back(_) => vec![Bytes(b"1".to_vec())],
            Repeat(..) | Raw(..) | Set(..) | Unique(_) | Rule(_) => Vec::new(),
        }
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
