//! Whether anything can follow in the reference: a least fixpoint over what an expression is made
//! of, and for texts a search over their derivatives.

use std::collections::HashSet;

use super::{ByteSet, EMPTY, Expr, Id, NEVER, Name, Oracle, spelling};

impl Oracle<'_> {
    /// Whether some continuation (possibly none) ends the output well.
    pub fn alive(&mut self, state: Id) -> bool {
        if let Some(&known) = self.living.get(&state) {
            return known;
        }
        // Least fixpoint over everything the state is made of.
        let mut all = vec![state];
        let mut seen = HashSet::from([state]);
        let mut at = 0;
        while at < all.len() {
            for part in self.parts(all[at]) {
                if !self.living.contains_key(&part) && seen.insert(part) {
                    all.push(part);
                }
            }
            at += 1;
        }
        let mut yes: HashSet<Id> = HashSet::new();
        loop {
            let before = yes.len();
            for &e in all.iter().rev() {
                if !yes.contains(&e) && self.alive_given(e, &yes) {
                    yes.insert(e);
                }
            }
            if yes.len() == before {
                break;
            }
        }
        for e in all {
            self.living.insert(e, yes.contains(&e));
        }
        self.living[&state]
    }

    pub(super) fn parts(&mut self, id: Id) -> Vec<Id> {
        match self.exprs[id as usize].clone() {
            Expr::Cat(a, b) => vec![a, b],
            Expr::Or(parts) => parts,
            Expr::Rep(e, ..) => vec![e],
            // What ends at once needs nothing else; see `alive_given`.
            Expr::Name(Name::Members(object)) if self.may_close(object) => vec![],
            Expr::Name(Name::Members(object)) => vec![self.name(Name::Needed(object))],
            Expr::Name(name) => vec![self.unfold(name)],
            Expr::Fresh(text, fresh) => match self.fresh_name(text, &fresh) {
                Some(name) => vec![self.after_fresh(&fresh, &name)],
                None => vec![],
            },
            Expr::Item(rest, fresh) => match self.fresh_item(rest, &fresh) {
                Some(item) => vec![self.after_item(&fresh, &item)],
                None => vec![],
            },
            _ => vec![],
        }
    }

    fn alive_given(&mut self, id: Id, yes: &HashSet<Id>) -> bool {
        let known = |this: &Self, e: Id| yes.contains(&e) || this.living.get(&e) == Some(&true);
        match self.exprs[id as usize].clone() {
            Expr::Never => false,
            Expr::Empty => true,
            Expr::Lit(bytes) => bytes.iter().all(|&b| self.alphabet[b as usize]),
            Expr::Class(set) => (0..256).any(|b| set[b / 64] >> (b % 64) & 1 == 1 && self.alphabet[b]),
            Expr::Cat(a, b) => known(self, a) && known(self, b),
            Expr::Or(parts) => parts.iter().any(|&p| known(self, p)),
            Expr::Rep(e, min, _) => min == 0 || known(self, e),
            Expr::Name(Name::Members(object)) if self.may_close(object) && self.markup(object).is_some() => {
                let end = self.end(object);
                end == EMPTY || self.nullable(end) || self.alphabet[b'\n' as usize]
            }
            Expr::Name(Name::Members(object)) if self.may_close(object) => {
                self.alphabet[if self.set(object).is_some() { b']' } else { b'}' } as usize]
            }
            Expr::Name(_) | Expr::Fresh(..) | Expr::Item(..) => {
                let parts = self.parts(id);
                parts.first().is_some_and(|&e| known(self, e))
            }
            Expr::Unique(rest, items) => self.unique_alive(rest, &items),
            Expr::Quoted(text, escape) => self.quoted_alive(text, &escape),
            Expr::Raw(text) => self.text_has_word(text, true),
            Expr::Both(..) | Expr::NoneOf(_) | Expr::Utf8 { .. } => {
                unreachable!("decoded text outside a string")
            }
        }
    }

    fn quoted_alive(&mut self, text: Id, escape: &[u8]) -> bool {
        if !self.alphabet[b'"' as usize] {
            return false;
        }
        if escape.is_empty() {
            return self.text_has_word(text, false);
        }
        for decoded in 0..=255 {
            let whole = spelling(decoded);
            if whole.starts_with(escape) && self.spellable(decoded) {
                let rest = self.derive(text, decoded);
                if self.text_has_word(rest, false) {
                    return true;
                }
            }
        }
        false
    }

    pub(super) fn spellable(&self, decoded: u8) -> bool {
        spelling(decoded).iter().all(|&b| self.alphabet[b as usize])
    }

    /// Whether a byte of text can be written, as it is or in a string.
    pub(super) fn writable(&self, decoded: u8, raw: bool) -> bool {
        if raw { self.alphabet[decoded as usize] } else { self.spellable(decoded) }
    }

    /// Whether a text expression contains a word that the alphabet can spell, as it is or in a
    /// string: search over its derivatives, one byte of each range that it treats alike.
    fn text_has_word(&mut self, text: Id, raw: bool) -> bool {
        let mut seen = HashSet::from([text]);
        let mut todo = vec![text];
        while let Some(t) = todo.pop() {
            match self.has_word.get(&(t, raw)) {
                Some(true) => {
                    self.has_word.insert((text, raw), true);
                    return true;
                }
                Some(false) => continue,
                None => {}
            }
            if self.nullable(t) {
                self.has_word.insert((text, raw), true);
                return true;
            }
            let edges = self.edges(t);
            for b in (0..=255u8).rev() {
                let starts = b == 0
                    || edges[b as usize / 64] >> (b % 64) & 1 == 1
                    || self.writable(b, raw) != self.writable(b - 1, raw);
                if starts && self.writable(b, raw) {
                    let next = self.derive(t, b);
                    if next != NEVER && seen.insert(next) {
                        todo.push(next);
                    }
                }
            }
        }
        for t in seen {
            self.has_word.insert((t, raw), false);
        }
        false
    }

    /// The bytes at which a text expression may begin to behave differently.
    pub(super) fn edges(&mut self, id: Id) -> ByteSet {
        let mut out = [0; 4];
        let mut mark = |b: u32| {
            if b < 256 {
                out[b as usize / 64] |= 1 << (b % 64);
            }
        };
        match self.exprs[id as usize].clone() {
            Expr::Lit(bytes) => [0, 1].iter().for_each(|d| mark(u32::from(bytes[0]) + d)),
            Expr::Class(set) => {
                let has = |b: u32| set[b as usize / 64] >> (b % 64) & 1;
                (1..256).filter(|&b| has(b) != has(b - 1)).for_each(mark);
            }
            Expr::NoneOf(words) => {
                for first in words.iter().filter_map(|w| w.first()) {
                    [0, 1].iter().for_each(|d| mark(u32::from(*first) + d));
                }
            }
            Expr::Utf8 { .. } => {
                for b in [0x80, 0x90, 0xa0, 0xc0, 0xc2, 0xe0, 0xe1, 0xed, 0xee, 0xf0, 0xf1, 0xf4, 0xf5] {
                    mark(b);
                }
            }
            Expr::Cat(a, b) | Expr::Both(a, b) => {
                let (a, b) = (self.edges(a), self.edges(b));
                out = std::array::from_fn(|i| a[i] | b[i]);
            }
            Expr::Or(parts) => {
                for part in parts {
                    let e = self.edges(part);
                    out = std::array::from_fn(|i| out[i] | e[i]);
                }
            }
            Expr::Rep(e, ..) | Expr::Raw(e) => out = self.edges(e),
            Expr::Never | Expr::Empty => {}
            Expr::Quoted(..) | Expr::Fresh(..) | Expr::Item(..) | Expr::Unique(..) | Expr::Name(_) => {
                out = [u64::MAX; 4];
            }
        }
        out
    }
}
