//! Objects and arrays of different items in the reference: what is written is part of the expression.

use std::collections::HashSet;

use ffwd::KeyOrder;
use ffwd::constraint::ir::{Node, NodeId, Object};

use super::{EMPTY, Expr, Fresh, Id, NEVER, Name, Oracle, Written, spelling};

impl Oracle<'_> {
    /// An object from its opening brace.
    pub(super) fn object(&mut self, node: Option<NodeId>) -> Id {
        let written = Written { node, next: 0, names: Vec::new(), met: 0 };
        let (open, space, members) = (self.lit(b"{"), self.space(), self.after_member(written));
        self.cats(&[open, space, members])
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

    /// The declared properties that may be written next, by index, and whether some must be written.
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
            let fresh = Fresh { object, value: NEVER, meets: 0, name: Vec::new(), escape: Vec::new() };
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
            parts.push(self.lit(b"}"));
        }
        if content.max.is_some_and(|max| count >= max) {
            return self.or(&parts);
        }
        let (space, gap, colon) = (self.space(), self.gap(), self.lit(b":"));
        let (separator, first) = if count > 0 { (self.lit(b","), gap) } else { (EMPTY, EMPTY) };
        let (open, missing) = self.open_properties(object);
        for i in open {
            let property = &content.properties[i];
            let text = self.lit(property.name.as_bytes());
            let (key, value) = (self.string(text), self.of_node(property.value));
            let again = self.after_member(with_name(&written, property.name.as_bytes(), i + 1, 0));
            parts.push(self.cats(&[separator, first, key, space, colon, gap, value, space, again]));
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
            let fresh = Fresh { object, value, meets, name: Vec::new(), escape: Vec::new() };
            let (quote, rest) = (self.lit(b"\""), self.intern(Expr::Fresh(text, Box::new(fresh))));
            parts.push(self.cats(&[separator, first, quote, rest]));
        }
        self.or(&parts)
    }

    /// What follows the closing quote of an undeclared name.
    pub(super) fn after_fresh(&mut self, fresh: &Fresh, name: &[u8]) -> Id {
        let written = self.objects[fresh.object as usize].clone();
        if written.names.iter().any(|n| n == name) {
            return NEVER;
        }
        let last = self.content(written.node).properties.len();
        let (space, gap, colon) = (self.space(), self.gap(), self.lit(b":"));
        let again = self.after_member(with_name(&written, name, last, fresh.meets));
        self.cats(&[space, colon, gap, fresh.value, space, again])
    }

    pub(super) fn derive_fresh(&mut self, text: Id, mut fresh: Fresh, byte: u8) -> Id {
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

    /// The shortest name that an undeclared property can still get and that its object does not have. Any
    /// will do: names of one kind lead to the same choices.
    pub(super) fn fresh_name(&mut self, text: Id, fresh: &Fresh) -> Option<Vec<u8>> {
        if !self.alphabet[b'"' as usize] {
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
                    || self.spellable(b) != self.spellable(b - 1);
                if starts && self.spellable(b) {
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
