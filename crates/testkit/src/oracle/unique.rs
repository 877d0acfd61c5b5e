//! Arrays no two items of which are equal in the reference: the items so far, as another parser
//! reads them, are part of the expression; whether it can be ended is found by writing it to its
//! end, the shortest way first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use ffwd_engine::Whitespace;
use serde_json::Value;

use super::{EMPTY, Expr, Id, NEVER, Oracle};

/// Most beginnings of one array that are looked at. It takes more only where an item that has
/// endlessly many values takes the last one of an item behind it.
const MAX_SEARCH: usize = 60_000;
/// What a panic says beyond that.
pub const TOO_MUCH: &str = "too much for the reference";

/// What was written of an array.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Items {
    /// The items before, each in one spelling, sorted.
    values: Vec<String>,
    /// The text of the current item, without white space.
    item: Vec<u8>,
    depth: u32,
    in_string: bool,
    escaped: bool,
}

/// A number in one spelling: sign, digits without zeros at the ends, and the exponent of the last
/// one.
fn number(text: &str) -> Option<String> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut exponent = exponent.parse::<i64>().ok()? - fraction.len() as i64;
    let mut digits = format!("{whole}{fraction}");
    while digits.ends_with('0') {
        digits.pop();
        exponent += 1;
    }
    Some(match digits.trim_start_matches('0') {
        "" => "0".to_string(),
        digits => format!("{sign}{digits}e{exponent}"),
    })
}

/// An item in one spelling; what is no JSON, as it may be while a failure is shrunk, is itself.
fn plain(item: &[u8]) -> String {
    let value = std::str::from_utf8(item).ok().and_then(json);
    value.map_or_else(|| format!("{item:?}"), |value| sorted(&value))
}

/// The value of a text: numbers become strings that no string is, then another parser does the
/// rest.
fn json(text: &str) -> Option<Value> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => {
                let mut escaped = false;
                let close = rest.bytes().skip(1).position(|b| {
                    let closes = b == b'"' && !escaped;
                    escaped = b == b'\\' && !escaped;
                    closes
                });
                close? + 2
            }
            '-' | '0'..='9' => rest.find(|c| !"+-.eE0123456789".contains(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (part, after) = rest.split_at(length);
        match first {
            '"' => out.push_str(&format!("\"s{}", &part[1..])),
            '-' | '0'..='9' => out.push_str(&format!("\"n{}\"", number(part)?)),
            _ => out.push_str(part),
        }
        rest = after;
    }
    serde_json::from_str(&out).ok()
}

fn sorted(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(",")),
        Value::Object(members) => {
            let mut members: Vec<String> =
                members.iter().map(|(k, v)| format!("{k:?}:{}", sorted(v))).collect();
            members.sort();
            format!("{{{}}}", members.join(","))
        }
        other => other.to_string(),
    }
}

impl Items {
    /// With one more byte; `None` if it ends an item that is there. Also whether it ends the array.
    fn with(&self, b: u8) -> Option<(Items, bool)> {
        let mut next = self.clone();
        if next.in_string {
            next.in_string = b != b'"' || next.escaped;
            next.escaped = b == b'\\' && !next.escaped;
            next.item.push(b);
            return Some((next, false));
        }
        let ends = next.depth == 1 && matches!(b, b',' | b']');
        if ends && !next.item.is_empty() {
            let value = plain(&next.item);
            let at = next.values.binary_search(&value).err()?;
            next.values.insert(at, value);
            next.item.clear();
        }
        let outer = next.depth == 0;
        match b {
            b'[' | b'{' => next.depth += 1,
            b']' | b'}' => next.depth = next.depth.saturating_sub(1),
            b'"' => next.in_string = true,
            _ => {}
        }
        if !ends && !outer && !b" \t\n\r".contains(&b) {
            next.item.push(b);
        }
        Some((next.clone(), ends && b == b']'))
    }

    /// No more than the bytes that the current character still takes.
    fn unfinished(&self) -> usize {
        if !self.in_string {
            return 0;
        }
        let slash = self.item.iter().rposition(|&b| b == b'\\').map_or(usize::MAX, |at| self.item.len() - at);
        if self.escaped || (2..6).contains(&slash) && self.item[self.item.len() - slash + 1] == b'u' {
            return if slash == 1 { 1 } else { 6 - slash };
        }
        let start = self.item.iter().rposition(|&b| b & 0xc0 != 0x80).unwrap_or(0);
        let width = match self.item[start] {
            0xf0.. => 4,
            0xe0.. => 3,
            0xc0.. => 2,
            _ => 1,
        };
        (width + start).saturating_sub(self.item.len())
    }
}

impl Oracle<'_> {
    /// An array of `array` without equal items.
    pub(super) fn unique(&mut self, array: Id) -> Id {
        if array == NEVER { NEVER } else { self.intern(Expr::Unique(array, Box::default())) }
    }

    pub(super) fn derive_unique(&mut self, rest: Id, items: &Items, b: u8) -> Id {
        let rest = self.derive(rest, b);
        match items.with(b) {
            _ if rest == NEVER => NEVER,
            None => NEVER,
            Some((_, true)) => rest,
            Some((items, false)) => self.intern(Expr::Unique(rest, Box::new(items))),
        }
    }

    /// Whether an array that was begun can be ended.
    pub(super) fn unique_alive(&mut self, rest: Id, items: &Items) -> bool {
        let start = (rest, items.clone());
        let mut seen = HashSet::from([start.clone()]);
        let mut states = vec![(start, 0usize)];
        let mut todo = BinaryHeap::from([(Reverse(0usize), 0usize, 0usize)]);
        let mut memo = HashMap::new();
        while let Some((_, _, at)) = todo.pop() {
            let ((rest, items), length) = states[at].clone();
            if !self.alive(rest) {
                continue;
            }
            // Bytes that lead to the same make a difference only to what is equal.
            let mut alike: HashMap<Id, usize> = HashMap::new();
            let (most, inside) = (items.values.len() + 8, items.in_string);
            let spaced = self.policy.whitespace == Whitespace::SingleSpace;
            for b in 0..=255u8 {
                // White space that may be left out does not help.
                let idle = !inside && !spaced && b" \t\n\r".contains(&b);
                if !self.alphabet[b as usize] || idle {
                    continue;
                }
                let next = self.derive(rest, b);
                if next == NEVER {
                    continue;
                }
                let blurred = self.blurred(next);
                let count = alike.entry(blurred).or_default();
                *count += 1;
                if *count > most {
                    continue;
                }
                let Some((items, ended)) = items.with(b) else { continue };
                if ended {
                    return true;
                }
                let state = (next, items);
                if seen.insert(state.clone()) {
                    assert!(seen.len() < MAX_SEARCH, "{TOO_MUCH}: {state:?}");
                    let left = self.least(next, &mut memo) + state.1.unfinished();
                    todo.push((Reverse(length + 1 + left), length + 1, states.len()));
                    states.push((state, length + 1));
                }
            }
        }
        false
    }

    /// What an expression is but for the names and items that it has begun.
    fn blurred(&mut self, id: Id) -> Id {
        match self.exprs[id as usize].clone() {
            Expr::Cat(a, b) => {
                let a = self.blurred(a);
                self.cat(a, b)
            }
            Expr::Or(parts) => {
                let parts: Vec<Id> = parts.iter().map(|&p| self.blurred(p)).collect();
                self.or(&parts)
            }
            Expr::Fresh(text, mut fresh) => {
                fresh.name.clear();
                self.intern(Expr::Fresh(text, fresh))
            }
            Expr::Unique(rest, _) => {
                let rest = self.blurred(rest);
                self.intern(Expr::Unique(rest, Box::default()))
            }
            _ => id,
        }
    }

    /// No more than the fewest bytes that an expression can have.
    fn least(&mut self, id: Id, memo: &mut HashMap<Id, usize>) -> usize {
        if let Some(&known) = memo.get(&id) {
            return known;
        }
        memo.insert(id, 0);
        let least = match self.exprs[id as usize].clone() {
            Expr::Lit(bytes) => bytes.len(),
            Expr::Cat(a, b) => self.least(a, memo) + self.least(b, memo),
            Expr::Or(parts) => parts.iter().map(|&p| self.least(p, memo)).min().unwrap_or(0),
            Expr::Rep(e, min, _) => min as usize * self.least(e, memo),
            Expr::Unique(rest, _) => self.least(rest, memo),
            Expr::Name(name) => {
                let e = self.unfold(name);
                self.least(e, memo)
            }
            Expr::Fresh(_, fresh) => 3 + self.least(fresh.value, memo),
            Expr::Class(_) | Expr::Quoted(..) => 1,
            _ => 0,
        };
        debug_assert!(id != EMPTY || least == 0);
        memo.insert(id, least);
        least
    }
}
