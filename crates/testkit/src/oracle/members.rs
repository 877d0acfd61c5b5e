//! Objects and arrays of different items in the reference: what is written is part of the
//! expression.

use std::collections::HashSet;

use ffwd_engine::KeyOrder;
use ffwd_engine::constraint::ir::{Markup, Node, NodeId, Object};

use super::{EMPTY, Expr, Fresh, Id, NEVER, Name, Oracle, Written, spelling};

impl Oracle<'_> {
    /// An object from its opening brace.
    pub(super) fn object(&mut self, node: Option<NodeId>) -> Id {
        let written = Written { node, next: 0, names: Vec::new(), met: 0 };
        let (open, space) = match self.content(node).markup {
            None => (self.lit(b"{"), self.space()),
            Some(markup) => (EMPTY, self.line(markup.first)),
        };
        let members = self.after_member(written);
        self.cats(&[open, space, members])
    }

    /// How the properties of an object are written, if not as in JSON.
    pub(super) fn markup(&self, object: u32) -> Option<Markup> {
        self.content(self.objects[object as usize].node).markup.as_deref().cloned()
    }

    /// The end of an object.
    pub(super) fn end(&mut self, object: u32) -> Id {
        match self.markup(object) {
            None => self.lit(b"}"),
            Some(_) if self.objects[object as usize].names.is_empty() => EMPTY,
            Some(markup) => self.line(markup.last),
        }
    }

    /// What may follow behind a value.
    fn behind(&mut self, object: u32, again: Id) -> Id {
        match self.markup(object) {
            None => {
                let space = self.space();
                self.cat(space, again)
            }
            Some(_) => again,
        }
    }

    pub(super) fn after_member(&mut self, written: Written) -> Id {
        let next = self.objects.len() as u32;
        let object = *self.object_ids.entry(written.clone()).or_insert(next);
        if object == next {
            self.objects.push(written);
        }
        self.name(Name::Members(object))
    }

    /// What the node of an object says; `None`: any properties.
    fn content(&self, node: Option<NodeId>) -> Object {
        match node.map(|id| self.ir.node(id)) {
            Some(Node::JsonObject(object)) => (**object).clone(),
            _ => Object::default(),
        }
    }

    /// The declared properties that may be written next, by index, and whether some must be
    /// written.
    fn open_properties(&self, object: u32) -> (Vec<usize>, bool) {
        let written = &self.objects[object as usize];
        let Object { properties, any_order, .. } = self.content(written.node);
        let mut open = Vec::new();
        let mut missing = false;
        for (i, property) in properties.iter().enumerate() {
            let ordered = self.policy.key_order == KeyOrder::Declared && !any_order;
            if written.names.contains(&property.name.as_bytes().to_vec()) || ordered && i < written.next {
                continue;
            }
            open.push(i);
            if property.required {
                missing = true;
                if ordered {
                    break;
                }
            }
        }
        (open, missing)
    }

    /// Whether the object may end here.
    pub(super) fn may_close(&self, object: u32) -> bool {
        let written = &self.objects[object as usize];
        let content = self.content(written.node);
        let count = written.names.len() as u32;
        let all = content.demand.iter().fold(0, |all, d| all | d.meets);
        if let Some((_, min, max)) = self.set(object) {
            return count >= min && max.is_none_or(|max| count <= max);
        }
        let counts = count >= content.min && content.max.is_none_or(|max| count <= max);
        counts && written.met == all && !self.open_properties(object).1
    }

    /// Item and bounds of an array of different items.
    pub(super) fn set(&self, object: u32) -> Option<(NodeId, u32, Option<u32>)> {
        match self.objects[object as usize].node.map(|id| self.ir.node(id)) {
            Some(Node::JsonSet { item, min, max }) => Some((*item, *min, *max)),
            _ => None,
        }
    }

    /// What may follow in an array of different items.
    fn different(&mut self, object: u32, all: bool) -> Id {
        let (item, min, max) = self.set(object).expect("an array of different items");
        let count = self.objects[object as usize].names.len() as u32;
        let mut parts = if self.may_close(object) { vec![self.lit(b"]")] } else { vec![] };
        if max.is_none_or(|max| count < max) && (all || count < min) {
            let (comma, gap) = (self.lit(b","), self.gap());
            let separator = if count > 0 { self.cat(comma, gap) } else { EMPTY };
            let fresh =
                Fresh { object, value: NEVER, meets: 0, name: Vec::new(), escape: Vec::new(), raw: false };
            let item = self.of_node(item);
            let item = self.intern(Expr::Item(item, Box::new(fresh)));
            parts.push(self.cat(separator, item));
        }
        self.or(&parts)
    }

    /// What follows an item; nothing if there is one like it.
    pub(super) fn after_item(&mut self, fresh: &Fresh, item: &[u8]) -> Id {
        let written = self.objects[fresh.object as usize].clone();
        if written.names.iter().any(|n| n == item) {
            return NEVER;
        }
        let (space, again) = (self.space(), self.after_member(with_name(&written, item, 0, 0)));
        self.cat(space, again)
    }

    /// What may follow in an object; without `all`, only what could be needed to end it.
    pub(super) fn members(&mut self, object: u32, all: bool) -> Id {
        if self.set(object).is_some() {
            return self.different(object, all);
        }
        let written = self.objects[object as usize].clone();
        let content = self.content(written.node);
        let count = written.names.len() as u32;
        let mut parts = Vec::new();
        if self.may_close(object) {
            parts.push(self.end(object));
        }
        if content.max.is_some_and(|max| count >= max) {
            return self.or(&parts);
        }
        let (space, gap, colon) = (self.space(), self.gap(), self.lit(b":"));
        let markup = self.markup(object);
        let (separator, first) = match &markup {
            _ if count == 0 => (EMPTY, EMPTY),
            None => (self.lit(b","), gap),
            Some(markup) => (EMPTY, self.line(markup.between)),
        };
        let (open, missing) = self.open_properties(object);
        for i in open {
            let property = &content.properties[i];
            let text = self.lit(property.name.as_bytes());
            let key = match &markup {
                None => {
                    let key = self.string(text);
                    self.cats(&[key, space, colon, gap])
                }
                Some(markup) => {
                    let (open, named) = (self.lit(markup.open.as_bytes()), self.lit(markup.named.as_bytes()));
                    self.cats(&[open, text, named])
                }
            };
            let value = self.of_node(property.value);
            let again = self.after_member(with_name(&written, property.name.as_bytes(), i + 1, 0));
            let again = self.behind(object, again);
            parts.push(self.cats(&[separator, first, key, value, again]));
        }
        if missing && self.policy.key_order == KeyOrder::Declared && !content.any_order {
            return self.or(&parts);
        }
        let extra = content.extra.iter().map(|e| (e.keys, Some(e.value), 0));
        let extra = extra.chain(written.node.is_none().then_some((None, None, 0)));
        let new = content.demand.iter().filter(|d| d.meets & !written.met != 0);
        let demand = new.map(|d| (d.entry.keys, Some(d.entry.value), d.meets));
        let needed = all || count < content.min;
        let mut declared: Vec<Vec<u8>> =
            content.properties.iter().map(|p| p.name.as_bytes().to_vec()).collect();
        declared.sort();
        for (keys, value, meets) in extra.filter(|_| needed).chain(demand) {
            let (other, any) = (self.intern(Expr::NoneOf(declared.clone())), self.utf8(0, None));
            let mut text = self.both(other, any);
            if let Some(keys) = keys {
                let keys = self.of_node(keys);
                text = self.both(keys, text);
            }
            let value = match value {
                Some(value) => self.of_node(value),
                None => self.name(Name::Any),
            };
            let raw = markup.is_some();
            let fresh = Fresh { object, value, meets, name: Vec::new(), escape: Vec::new(), raw };
            let open = self.lit(markup.as_ref().map_or(b"\"", |markup| markup.open.as_bytes()));
            let rest = self.intern(Expr::Fresh(text, Box::new(fresh)));
            parts.push(self.cats(&[separator, first, open, rest]));
        }
        self.or(&parts)
    }

    /// What follows an undeclared name and its closing quote.
    pub(super) fn after_fresh(&mut self, fresh: &Fresh, name: &[u8]) -> Id {
        let written = self.objects[fresh.object as usize].clone();
        if written.names.iter().any(|n| n == name) {
            return NEVER;
        }
        let last = self.content(written.node).properties.len();
        let (space, gap, colon) = (self.space(), self.gap(), self.lit(b":"));
        let again = self.after_member(with_name(&written, name, last, fresh.meets));
        let again = self.behind(fresh.object, again);
        match self.markup(fresh.object) {
            None => self.cats(&[space, colon, gap, fresh.value, again]),
            Some(markup) => {
                let named = self.lit(markup.named.as_bytes());
                self.cats(&[named, fresh.value, again])
            }
        }
    }

    pub(super) fn derive_fresh(&mut self, text: Id, mut fresh: Fresh, byte: u8) -> Id {
        if fresh.raw {
            let mut parts = Vec::new();
            if self.nullable(text) {
                let after = self.after_fresh(&fresh, &fresh.name.clone());
                parts.push(self.derive(after, byte));
            }
            let rest = self.derive(text, byte);
            if rest != NEVER {
                fresh.name.push(byte);
                parts.push(self.intern(Expr::Fresh(rest, Box::new(fresh))));
            }
            return self.or(&parts);
        }
        if fresh.escape.is_empty() && byte == b'"' {
            return if self.nullable(text) { self.after_fresh(&fresh, &fresh.name.clone()) } else { NEVER };
        }
        fresh.escape.push(byte);
        let mut rest = text;
        if let Some(decoded) = (0..=255).find(|&d| spelling(d) == fresh.escape) {
            rest = self.derive(text, decoded);
            fresh.name.push(decoded);
            fresh.escape.clear();
        } else if !(0..=255).any(|d| spelling(d).starts_with(&fresh.escape)) {
            return NEVER;
        }
        if rest == NEVER { NEVER } else { self.intern(Expr::Fresh(rest, Box::new(fresh))) }
    }

    /// The shortest name that an undeclared property can still get and that its object does not
    /// have. Any will do: names of one kind lead to the same choices.
    pub(super) fn fresh_name(&mut self, text: Id, fresh: &Fresh) -> Option<Vec<u8>> {
        if !fresh.raw && !self.alphabet[b'"' as usize] {
            return None;
        }
        let names = self.objects[fresh.object as usize].names.clone();
        let mut todo = std::collections::VecDeque::new();
        if fresh.escape.is_empty() {
            todo.push_back((text, fresh.name.clone()));
        } else {
            for d in (0..=255).filter(|&d| spelling(d).starts_with(&fresh.escape)).collect::<Vec<_>>() {
                if self.spellable(d) {
                    todo.push_back((self.derive(text, d), [&fresh.name[..], &[d]].concat()));
                }
            }
        }
        let mut seen = HashSet::new();
        while let Some((text, name)) = todo.pop_front() {
            let near = names.iter().any(|n| n.starts_with(&name));
            if text == NEVER || !seen.insert((text, near.then(|| name.clone()))) {
                continue;
            }
            if self.nullable(text) && !names.contains(&name) {
                return Some(name);
            }
            let edges = self.edges(text);
            for b in 0..=255u8 {
                let starts = b == 0
                    || near
                    || edges[b as usize / 64] >> (b % 64) & 1 == 1
                    || self.writable(b, fresh.raw) != self.writable(b - 1, fresh.raw);
                if starts && self.writable(b, fresh.raw) {
                    todo.push_back((self.derive(text, b), [&name[..], &[b]].concat()));
                }
            }
        }
        None
    }

    /// The shortest item that can still be written and that the array does not have.
    pub(super) fn fresh_item(&mut self, rest: Id, fresh: &Fresh) -> Option<Vec<u8>> {
        let names = self.objects[fresh.object as usize].names.clone();
        let mut todo = std::collections::VecDeque::from([(rest, fresh.name.clone())]);
        let mut seen = HashSet::new();
        while let Some((rest, name)) = todo.pop_front() {
            let near = names.iter().any(|n| n.starts_with(&name));
            if rest == NEVER || !self.alive(rest) || !seen.insert((rest, near.then(|| name.clone()))) {
                continue;
            }
            if self.nullable(rest) && !names.contains(&name) {
                return Some(name);
            }
            for b in (0..=255u8).filter(|&b| self.alphabet[b as usize]).collect::<Vec<_>>() {
                todo.push_back((self.derive(rest, b), [&name[..], &[b]].concat()));
            }
        }
        None
    }
}

/// The object with one more name.
fn with_name(written: &Written, name: &[u8], next: usize, meets: u32) -> Written {
    let mut written = Written { next, met: written.met | meets, ..written.clone() };
    written.names.push(name.to_vec());
    written.names.sort();
    written
}
