//! A slow, obvious reference for masks: derivatives of the constraint itself.
//!
//! The constraint is read as an expression over bytes. `derive` says what is left of an expression
//! after one byte (Brzozowski), `accepts` whether nothing may follow, `alive` whether anything can.
//! A token is legal iff the derivative by its bytes is alive; an end token iff the state accepts.
//! No automaton, no counters, no knowledge of the engine: only the rules of spelling, once more.
//!
//! Cost: a mask is one derivative per token byte (memoised), each linear in the size of the
//! expression. Fit for vocabularies of some hundred tokens and constraints of some dozen nodes.

mod emptiness;
mod members;
pub mod unique;

use std::collections::HashMap;

use ffwd_engine::constraint::ir::{FreeNumber, Gap, Ir, Node, NodeId, RuleId};
use ffwd_engine::{Policy, Whitespace};

/// An expression, interned.
pub type Id = u32;

/// A set of bytes.
type ByteSet = [u64; 4];

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Expr {
    Never,
    Empty,
    Lit(Vec<u8>),
    Class(ByteSet),
    Cat(Id, Id),
    Or(Vec<Id>),
    Rep(Id, u32, Option<u32>),
    /// Decoded text: in both languages.
    Both(Id, Id),
    /// Decoded text: any bytes but these words.
    NoneOf(Vec<Vec<u8>>),
    /// Decoded text: well-formed UTF-8 of a number of further characters. Inside a character,
    /// `left`
    /// continuation bytes are missing, the next of them within `lo..=hi`.
    Utf8 {
        min: u32,
        max: Option<u32>,
        left: u8,
        lo: u8,
        hi: u8,
    },
    /// The rest of a JSON string up to its closing quote: the decoded text still to come, and the
    /// bytes of an escape that has begun.
    Quoted(Id, Vec<u8>),
    /// The rest of a text as it is, of which this is still to come.
    Raw(Id),
    /// The rest of an undeclared property of an object from within its name, of which this is still
    /// to come, and of the object.
    Fresh(Id, Box<Fresh>),
    /// The rest of an item of an array of different items, of which this is still to come, and of
    /// the array; `name` is the spelled item so far.
    Item(Id, Box<Fresh>),
    /// The rest of an array without equal items, and what was written of it.
    Unique(Id, Box<unique::Items>),
    /// Something unfolded only when needed.
    Name(Name),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Name {
    Rule(RuleId),
    /// An automaton in one of its states.
    State(NodeId, u32),
    /// The continuations of an array with a number of items.
    Items(NodeId, u32),
    /// What may follow in an object, by its index in [`Oracle::objects`].
    Members(u32),
    /// Of that, what is needed to end it.
    Needed(u32),
    Any,
    AnyItems,
}

/// An object that is being written.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Written {
    /// `None`: an object with any properties.
    node: Option<NodeId>,
    /// The first declared property that is not settled, if they have an order.
    next: usize,
    /// The names written, sorted.
    names: Vec<Vec<u8>>,
    /// The demands met.
    met: u32,
}

/// An undeclared property of an object, and its decoded name so far.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Fresh {
    object: u32,
    value: Id,
    meets: u32,
    name: Vec<u8>,
    /// The bytes of an escape that has begun.
    escape: Vec<u8>,
    /// Whether the name is written as it is, without a quote at its end.
    raw: bool,
}

const NEVER: Id = 0;
const EMPTY: Id = 1;

/// The reference for one constraint and one set of bytes that tokens can spell.
pub struct Oracle<'a> {
    ir: &'a Ir,
    policy: &'a Policy,
    alphabet: [bool; 256],
    exprs: Vec<Expr>,
    ids: HashMap<Expr, Id>,
    derived: HashMap<(Id, u8), Id>,
    unfolded: HashMap<Name, Id>,
    objects: Vec<Written>,
    object_ids: HashMap<Written, u32>,
    of_node: HashMap<NodeId, Id>,
    living: HashMap<Id, bool>,
    has_word: HashMap<(Id, bool), bool>,
}

/// How one byte of decoded text is written inside a JSON string.
pub fn spelling(byte: u8) -> Vec<u8> {
    match byte {
        b'"' => b"\\\"".to_vec(),
        b'\\' => b"\\\\".to_vec(),
        0x08 => b"\\b".to_vec(),
        0x09 => b"\\t".to_vec(),
        0x0a => b"\\n".to_vec(),
        0x0c => b"\\f".to_vec(),
        0x0d => b"\\r".to_vec(),
        0..0x20 => format!("\\u{byte:04x}").into_bytes(),
        _ => vec![byte],
    }
}

impl<'a> Oracle<'a> {
    pub fn new(ir: &'a Ir, policy: &'a Policy, alphabet: [bool; 256]) -> Self {
        let mut oracle = Oracle {
            ir,
            policy,
            alphabet,
            exprs: Vec::new(),
            ids: HashMap::new(),
            derived: HashMap::new(),
            unfolded: HashMap::new(),
            objects: Vec::new(),
            object_ids: HashMap::new(),
            of_node: HashMap::new(),
            living: HashMap::new(),
            has_word: HashMap::new(),
        };
        assert_eq!(oracle.intern(Expr::Never), NEVER);
        assert_eq!(oracle.intern(Expr::Empty), EMPTY);
        oracle
    }

    // ---- what the tests ask ----

    /// The whole constraint.
    pub fn start(&mut self) -> Id {
        self.of_node(self.ir.root())
    }

    /// What is left after these bytes.
    pub fn after(&mut self, state: Id, bytes: &[u8]) -> Id {
        bytes.iter().fold(state, |state, &b| self.derive(state, b))
    }

    /// Whether the output may end here.
    pub fn accepts(&mut self, state: Id) -> bool {
        self.nullable(state)
    }

    /// The bytes that can follow.
    pub fn live_bytes(&mut self, state: Id) -> Vec<u8> {
        let known = (0..=255u8).filter(|&b| self.alphabet[usize::from(b)]).collect::<Vec<_>>();
        let lives = |&b: &u8| {
            let next = self.derive(state, b);
            self.alive(next)
        };
        known.into_iter().filter(lives).collect()
    }

    // ---- expressions ----

    fn intern(&mut self, e: Expr) -> Id {
        if let Some(&id) = self.ids.get(&e) {
            return id;
        }
        let id = self.exprs.len() as Id;
        self.exprs.push(e.clone());
        self.ids.insert(e, id);
        id
    }

    fn lit(&mut self, bytes: &[u8]) -> Id {
        if bytes.is_empty() { EMPTY } else { self.intern(Expr::Lit(bytes.to_vec())) }
    }

    fn class(&mut self, ranges: &[(u8, u8)]) -> Id {
        let mut set = [0; 4];
        for b in 0..=255u8 {
            if ranges.iter().any(|&(lo, hi)| (lo..=hi).contains(&b)) {
                set[b as usize / 64] |= 1 << (b % 64);
            }
        }
        if set == [0; 4] { NEVER } else { self.intern(Expr::Class(set)) }
    }

    fn cat(&mut self, a: Id, b: Id) -> Id {
        match (&self.exprs[a as usize], b) {
            (Expr::Never, _) | (_, NEVER) => NEVER,
            (Expr::Empty, _) => b,
            (_, EMPTY) => a,
            (&Expr::Cat(first, rest), _) => {
                let tail = self.cat(rest, b);
                self.cat(first, tail)
            }
            _ => self.intern(Expr::Cat(a, b)),
        }
    }

    fn cats(&mut self, parts: &[Id]) -> Id {
        parts.iter().rev().fold(EMPTY, |tail, &part| self.cat(part, tail))
    }

    fn or(&mut self, parts: &[Id]) -> Id {
        let mut flat = Vec::new();
        for &part in parts {
            match &self.exprs[part as usize] {
                Expr::Never => {}
                Expr::Or(inner) => flat.extend(inner),
                _ => flat.push(part),
            }
        }
        flat.sort_unstable();
        flat.dedup();
        match flat[..] {
            [] => NEVER,
            [one] => one,
            _ => self.intern(Expr::Or(flat)),
        }
    }

    fn rep(&mut self, e: Id, min: u32, max: Option<u32>) -> Id {
        match (e, max) {
            (_, Some(0)) | (EMPTY, _) => EMPTY,
            (_, Some(max)) if max < min => NEVER,
            (NEVER, _) => {
                if min == 0 {
                    EMPTY
                } else {
                    NEVER
                }
            }
            _ => self.intern(Expr::Rep(e, min, max)),
        }
    }

    fn both(&mut self, a: Id, b: Id) -> Id {
        if a == NEVER || b == NEVER { NEVER } else { self.intern(Expr::Both(a, b)) }
    }

    fn utf8(&mut self, min: u32, max: Option<u32>) -> Id {
        self.intern(Expr::Utf8 { min, max, left: 0, lo: 0, hi: 0 })
    }

    fn name(&mut self, name: Name) -> Id {
        self.intern(Expr::Name(name))
    }

    /// A JSON string, from its opening quote, whose decoded text is `text`.
    fn string(&mut self, text: Id) -> Id {
        let open = self.lit(b"\"");
        let rest = self.intern(Expr::Quoted(text, vec![]));
        self.cat(open, rest)
    }

    /// The text after commas and colons.
    fn gap(&mut self) -> Id {
        match self.policy.whitespace {
            Whitespace::SingleSpace => self.lit(b" "),
            _ => self.space(),
        }
    }

    fn space(&mut self) -> Id {
        match self.policy.whitespace {
            Whitespace::Compact | Whitespace::SingleSpace => EMPTY,
            Whitespace::Flexible { max } => {
                let class = self.class(&[(b' ', b' '), (b'\t', b'\n'), (b'\r', b'\r')]);
                self.rep(class, 0, Some(u32::from(max)))
            }
        }
    }

    /// The text at a position of a markup.
    fn line(&mut self, gap: Gap) -> Id {
        let line = self.lit(b"\n");
        match (self.policy.whitespace, gap) {
            (whitespace, Gap::Comma) => {
                let spaced = match whitespace {
                    Whitespace::Flexible { .. } => self.space(),
                    _ => self.lit(b" "),
                };
                let comma = self.lit(b",");
                self.cats(&[comma, spaced])
            }
            (Whitespace::Flexible { .. }, _) => self.space(),
            (_, Gap::None) => EMPTY,
            (_, Gap::Line) => line,
            (_, Gap::MayLine) => self.or(&[EMPTY, line]),
        }
    }

    // ---- from the representation ----

    fn of_node(&mut self, id: NodeId) -> Id {
        if let Some(&known) = self.of_node.get(&id) {
            return known;
        }
        let expr = match self.ir.node(id) {
            Node::Never => NEVER,
            Node::Empty => EMPTY,
            Node::Bytes(bytes) => self.lit(bytes),
            Node::Class(ranges) => self.class(ranges),
            Node::Literals(words) => {
                let parts: Vec<Id> = words.iter().map(|w| self.lit(w)).collect();
                self.or(&parts)
            }
            Node::Concat(parts) => {
                let parts: Vec<Id> = parts.iter().map(|&p| self.of_node(p)).collect();
                self.cats(&parts)
            }
            Node::Union(parts) => {
                let parts: Vec<Id> = parts.iter().map(|&p| self.of_node(p)).collect();
                self.or(&parts)
            }
            Node::Repeat { node, min, max } => {
                let inner = self.of_node(*node);
                self.rep(inner, *min, *max)
            }
            Node::Automaton { .. } => self.name(Name::State(id, 0)),
            Node::Rule(rule) => self.name(Name::Rule(*rule)),
            Node::JsonString { lang, min_chars, max_chars } => {
                let mut text = self.utf8(*min_chars, *max_chars);
                if let Some(lang) = lang {
                    let lang = self.of_node(*lang);
                    text = self.both(lang, text);
                }
                self.string(text)
            }
            Node::Text { lang, min_chars, max_chars } => {
                let (text, lang) = (self.utf8(*min_chars, *max_chars), self.of_node(*lang));
                let text = self.both(lang, text);
                if text == NEVER { NEVER } else { self.intern(Expr::Raw(text)) }
            }
            Node::JsonArray { .. } => {
                let open = self.lit(b"[");
                let space = self.space();
                let items = self.name(Name::Items(id, 0));
                self.cats(&[open, space, items])
            }
            Node::JsonObject(_) => self.object(Some(id)),
            Node::JsonSet { .. } => {
                let written = Written { node: Some(id), next: 0, names: Vec::new(), met: 0 };
                let (open, space, items) = (self.lit(b"["), self.space(), self.after_member(written));
                self.cats(&[open, space, items])
            }
            Node::JsonUnique { array, .. } => {
                let array = self.of_node(*array);
                self.unique(array)
            }
            Node::JsonNumber(numbers) => self.number(*numbers),
            Node::JsonAny => self.name(Name::Any),
        };
        self.of_node.insert(id, expr);
        expr
    }

    fn unfold(&mut self, name: Name) -> Id {
        if let Some(&known) = self.unfolded.get(&name) {
            return known;
        }
        let expr = match name {
            Name::Rule(rule) => self.ir.rule(rule).map_or(NEVER, |body| self.of_node(body)),
            Name::State(node, at) => self.state(node, at),
            Name::Items(node, count) => self.items(node, count),
            Name::Members(object) => self.members(object, true),
            Name::Needed(object) => self.members(object, false),
            Name::Any => self.any(),
            Name::AnyItems => {
                let any = self.name(Name::Any);
                self.then(&[], any, b"]", Name::AnyItems)
            }
        };
        self.unfolded.insert(name, expr);
        expr
    }

    /// Behind an element and its white space: the end, or a comma and one more.
    fn then(&mut self, before: &[Id], element: Id, close: &[u8], again: Name) -> Id {
        let (close, comma, space, gap) = (self.lit(close), self.lit(b","), self.space(), self.gap());
        let again = self.name(again);
        let more = self.cats(&[comma, gap, element, space, again]);
        let all = [before, &[close, more]].concat();
        self.or(&all)
    }

    fn state(&mut self, id: NodeId, at: u32) -> Id {
        let Node::Automaton { states, .. } = self.ir.node(id) else { unreachable!() };
        let state = &states[at as usize];
        let mut parts = if state.accept { vec![EMPTY] } else { vec![] };
        for &(node, to) in &state.edges {
            let (first, rest) = (self.of_node(node), self.name(Name::State(id, to)));
            parts.push(self.cat(first, rest));
        }
        self.or(&parts)
    }

    fn items(&mut self, id: NodeId, count: u32) -> Id {
        let Node::JsonArray { prefix, rest, min, max } = self.ir.node(id) else { unreachable!() };
        let mut parts = Vec::new();
        if count >= *min && max.is_none_or(|max| count <= max) {
            parts.push(self.lit(b"]"));
        }
        let next = prefix.get(count as usize).copied().or(*rest);
        if let Some(item) = next
            && max.is_none_or(|max| count < max)
        {
            let item = self.of_node(item);
            let space = self.space();
            let comma = if count == 0 { EMPTY } else { self.lit(b",") };
            let gap = if count == 0 { EMPTY } else { self.gap() };
            // The count stops where nothing depends on it.
            let settled = max.is_none() && count >= *min && count as usize >= prefix.len() && count > 0;
            let again = self.name(Name::Items(id, if settled { count } else { count + 1 }));
            parts.push(self.cats(&[comma, gap, item, space, again]));
        }
        self.or(&parts)
    }

    fn any(&mut self) -> Id {
        let mut parts: Vec<Id> = ["null", "true", "false"].iter().map(|w| self.lit(w.as_bytes())).collect();
        let &Policy { max_integer_digits, max_fraction_digits, exponent, .. } = self.policy;
        let digits = (max_integer_digits, max_fraction_digits);
        parts.push(self.number(FreeNumber { integer: false, zeros: false, exponent, digits }));
        let text = self.utf8(0, None);
        parts.push(self.string(text));
        let space = self.space();
        let any = self.name(Name::Any);
        let (open, close, again) = (self.lit(b"["), self.lit(b"]"), self.name(Name::AnyItems));
        let full = self.cats(&[any, space, again]);
        let inside = self.or(&[close, full]);
        parts.push(self.cats(&[open, space, inside]));
        parts.push(self.object(None));
        self.or(&parts)
    }

    fn number(&mut self, numbers: FreeNumber) -> Id {
        let (minus, zero, point) = (self.lit(b"-"), self.lit(b"0"), self.lit(b"."));
        let (lead, digit) = (self.class(&[(b'1', b'9')]), self.class(&[(b'0', b'9')]));
        let sign = self.rep(minus, 0, Some(1));
        let more = self.rep(digit, 0, Some(u32::from(numbers.digits.0).saturating_sub(1)));
        let other = self.cat(lead, more);
        let whole = if numbers.integer {
            // Of integers, zero has no sign.
            let signed = self.cat(sign, other);
            self.or(&[zero, signed])
        } else {
            let whole = self.or(&[zero, other]);
            self.cat(sign, whole)
        };
        let behind = match (numbers.integer, numbers.zeros) {
            (true, false) => NEVER,
            (true, true) => zero,
            (false, _) => digit,
        };
        let digits = match numbers.digits.1 {
            0 => NEVER,
            n => self.rep(behind, 1, Some(u32::from(n))),
        };
        let fraction = self.cat(point, digits);
        let fraction = self.or(&[EMPTY, fraction]);
        let mut exponent = EMPTY;
        if numbers.exponent {
            let e = self.class(&[(b'e', b'e'), (b'E', b'E')]);
            let sign = self.class(&[(b'+', b'+'), (b'-', b'-')]);
            let sign = self.rep(sign, 0, Some(1));
            let digits = self.rep(digit, 1, Some(3));
            let all = self.cats(&[e, sign, digits]);
            exponent = self.or(&[EMPTY, all]);
        }
        self.cats(&[whole, fraction, exponent])
    }

    // ---- derivatives ----

    fn nullable(&mut self, id: Id) -> bool {
        match self.exprs[id as usize].clone() {
            Expr::Never
            | Expr::Lit(_)
            | Expr::Class(_)
            | Expr::Quoted(..)
            | Expr::Fresh(..)
            | Expr::Item(..)
            | Expr::Unique(..) => false,
            Expr::Empty => true,
            Expr::Raw(text) => self.nullable(text),
            Expr::Cat(a, b) | Expr::Both(a, b) => self.nullable(a) && self.nullable(b),
            Expr::Or(parts) => parts.iter().any(|&p| self.nullable(p)),
            // An item that may be empty fills up any missing repetitions.
            Expr::Rep(e, min, _) => min == 0 || self.nullable(e),
            Expr::NoneOf(words) => !words.iter().any(Vec::is_empty),
            Expr::Utf8 { min, left, .. } => min == 0 && left == 0,
            Expr::Name(name) => {
                let e = self.unfold(name);
                self.nullable(e)
            }
        }
    }

    /// What is left of `id` after `byte`.
    pub fn derive(&mut self, id: Id, byte: u8) -> Id {
        if id == NEVER || id == EMPTY {
            return NEVER;
        }
        if let Some(&known) = self.derived.get(&(id, byte)) {
            return known;
        }
        let result = match self.exprs[id as usize].clone() {
            Expr::Never | Expr::Empty => NEVER,
            Expr::Lit(bytes) => {
                if bytes[0] == byte {
                    self.lit(&bytes[1..])
                } else {
                    NEVER
                }
            }
            Expr::Class(set) => {
                if set[byte as usize / 64] >> (byte % 64) & 1 == 1 {
                    EMPTY
                } else {
                    NEVER
                }
            }
            Expr::Cat(a, b) => {
                let head = self.derive(a, byte);
                let mut result = self.cat(head, b);
                if self.nullable(a) {
                    let skipped = self.derive(b, byte);
                    result = self.or(&[result, skipped]);
                }
                result
            }
            Expr::Or(parts) => {
                let parts: Vec<Id> = parts.iter().map(|&p| self.derive(p, byte)).collect();
                self.or(&parts)
            }
            Expr::Rep(e, min, max) => {
                let head = self.derive(e, byte);
                let rest = self.rep(e, min.saturating_sub(1), max.map(|m| m - 1));
                self.cat(head, rest)
            }
            Expr::Both(a, b) => {
                let (a, b) = (self.derive(a, byte), self.derive(b, byte));
                self.both(a, b)
            }
            Expr::NoneOf(words) => {
                let rest: Vec<Vec<u8>> =
                    words.iter().filter(|w| w.first() == Some(&byte)).map(|w| w[1..].to_vec()).collect();
                self.intern(Expr::NoneOf(rest))
            }
            Expr::Utf8 { .. } => self.derive_utf8(id, byte),
            Expr::Quoted(text, escape) => self.derive_quoted(text, escape, byte),
            Expr::Raw(text) => match self.derive(text, byte) {
                NEVER => NEVER,
                rest => self.intern(Expr::Raw(rest)),
            },
            Expr::Fresh(text, fresh) => self.derive_fresh(text, *fresh, byte),
            Expr::Unique(rest, items) => self.derive_unique(rest, &items, byte),
            Expr::Item(rest, mut fresh) => {
                let mut parts = Vec::new();
                if self.nullable(rest) {
                    let after = self.after_item(&fresh, &fresh.name.clone());
                    parts.push(self.derive(after, byte));
                }
                let rest = self.derive(rest, byte);
                if rest != NEVER {
                    fresh.name.push(byte);
                    parts.push(self.intern(Expr::Item(rest, fresh)));
                }
                self.or(&parts)
            }
            Expr::Name(name) => {
                let e = self.unfold(name);
                self.derive(e, byte)
            }
        };
        self.derived.insert((id, byte), result);
        result
    }

    fn derive_utf8(&mut self, id: Id, byte: u8) -> Id {
        let Expr::Utf8 { min, max, left, lo, hi } = self.exprs[id as usize] else { unreachable!() };
        if left > 0 {
            if !(lo..=hi).contains(&byte) {
                return NEVER;
            }
            let (lo, hi) = if left == 1 { (0, 0) } else { (0x80, 0xbf) };
            return self.intern(Expr::Utf8 { min, max, left: left - 1, lo, hi });
        }
        if max == Some(0) {
            return NEVER;
        }
        let (left, lo, hi) = match byte {
            0x00..=0x7f => (0, 0, 0),
            0xc2..=0xdf => (1, 0x80, 0xbf),
            0xe0 => (2, 0xa0, 0xbf),
            0xed => (2, 0x80, 0x9f),
            0xe1..=0xef => (2, 0x80, 0xbf),
            0xf0 => (3, 0x90, 0xbf),
            0xf1..=0xf3 => (3, 0x80, 0xbf),
            0xf4 => (3, 0x80, 0x8f),
            _ => return NEVER,
        };
        self.intern(Expr::Utf8 { min: min.saturating_sub(1), max: max.map(|m| m - 1), left, lo, hi })
    }

    fn derive_quoted(&mut self, text: Id, mut escape: Vec<u8>, byte: u8) -> Id {
        if escape.is_empty() && byte == b'"' {
            return if self.nullable(text) { EMPTY } else { NEVER };
        }
        escape.push(byte);
        // The spellings are prefix-free, so at most one is complete.
        if let Some(decoded) = (0..=255).find(|&d| spelling(d) == escape) {
            let rest = self.derive(text, decoded);
            return if rest == NEVER { NEVER } else { self.intern(Expr::Quoted(rest, vec![])) };
        }
        if (0..=255).any(|d| spelling(d).starts_with(&escape)) {
            return self.intern(Expr::Quoted(text, escape));
        }
        NEVER
    }
}
