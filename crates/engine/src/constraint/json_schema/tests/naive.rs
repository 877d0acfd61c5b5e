//! Slow, obvious matcher: does the representation describe this compact JSON text?
//!
//! It follows the documentation of [`Node`] literally, by sets of end positions, and is only for
//! short texts.

use std::collections::{BTreeSet, HashMap};

use crate::constraint::ir::{Ir, Node, NodeId};

type Ends = BTreeSet<usize>;

pub(crate) struct Naive<'a> {
    ir: &'a Ir,
    text: &'a [u8],
    memo: HashMap<(NodeId, usize), Ends>,
}

/// Returns true if the whole text is in the language of the root.
pub(crate) fn accepts(ir: &Ir, text: &str) -> bool {
    matches(ir, ir.root(), text.as_bytes())
}

fn matches(ir: &Ir, node: NodeId, text: &[u8]) -> bool {
    Naive { ir, text, memo: HashMap::new() }.ends(node, 0).contains(&text.len())
}

impl Naive<'_> {
    fn ends(&mut self, id: NodeId, at: usize) -> Ends {
        if let Some(known) = self.memo.get(&(id, at)) {
            return known.clone();
        }
        let rest = &self.text[at..];
        let ends = match self.ir.node(id).clone() {
            Node::Never => Ends::new(),
            Node::Empty => [at].into(),
            Node::Bytes(bytes) => self.literal(&bytes, at),
            Node::Class(ranges) => match rest.first() {
                Some(b) if ranges.iter().any(|r| r.0 <= *b && *b <= r.1) => [at + 1].into(),
                _ => Ends::new(),
            },
            Node::Literals(words) => words.iter().flat_map(|w| self.literal(w, at)).collect(),
            Node::Concat(parts) => parts.iter().fold([at].into(), |from, &p| self.all(p, &from)),
            Node::Union(parts) => parts.iter().flat_map(|&p| self.ends(p, at)).collect(),
            Node::Repeat { node, min, max } => self.repeat(node, min, max, at),
            Node::Automaton { states, .. } => {
                let (mut seen, mut todo) = (Vec::new(), vec![(0, at)]);
                while let Some((q, at)) = todo.pop() {
                    if !seen.contains(&(q, at)) {
                        seen.push((q, at));
                        for &(node, to) in &states[q as usize].edges {
                            todo.extend(self.ends(node, at).into_iter().map(|end| (to, end)));
                        }
                    }
                }
                seen.into_iter().filter(|(q, _)| states[*q as usize].accept).map(|(_, at)| at).collect()
            }
            Node::Rule(rule) => match self.ir.rule(rule) {
                Some(body) => self.ends(body, at),
                None => Ends::new(),
            },
            Node::JsonString { lang, min_chars, max_chars } => self
                .string(at)
                .filter(|(text, _)| {
                    let chars = text.chars().count() as u32;
                    chars >= min_chars
                        && max_chars.is_none_or(|m| chars <= m)
                        && lang.is_none_or(|l| matches(self.ir, l, text.as_bytes()))
                })
                .map(|(_, end)| end)
                .into_iter()
                .collect(),
            // The front end writes none.
            Node::Text { .. } => unreachable!(),
            Node::JsonNumber(numbers) => self.number(at, numbers.integer),
            Node::JsonArray { prefix, rest, min, max } => self.array(at, &prefix, rest, min, max),
            Node::JsonSet { item, min, max } => self.set(at, item, min, max),
            Node::JsonUnique { array, .. } => {
                let ends = self.ends(array, at);
                let items = |end: usize| -> Vec<serde_json::Value> {
                    serde_json::from_slice(&self.text[at..end]).unwrap_or_default()
                };
                let apart = |items: &[serde_json::Value]| {
                    items.iter().enumerate().all(|(i, a)| items[..i].iter().all(|b| !same(a, b)))
                };
                ends.into_iter().filter(|&end| apart(&items(end))).collect()
            }
            Node::JsonObject(_) => self.object(at, id),
            Node::JsonAny => self.value(at).into_iter().collect(),
        };
        self.memo.insert((id, at), ends.clone());
        ends
    }

    fn literal(&self, word: &[u8], at: usize) -> Ends {
        if self.text[at..].starts_with(word) { [at + word.len()].into() } else { Ends::new() }
    }

    fn all(&mut self, node: NodeId, from: &Ends) -> Ends {
        from.iter().flat_map(|&at| self.ends(node, at)).collect()
    }

    fn repeat(&mut self, node: NodeId, min: u32, max: Option<u32>, at: usize) -> Ends {
        let (mut now, mut found): (Ends, Ends) = ([at].into(), Ends::new());
        for n in 0..=max.unwrap_or(u32::MAX) {
            if n >= min {
                let before = found.len();
                found.extend(&now);
                if before == found.len() && n > min {
                    break;
                }
            }
            now = self.all(node, &now);
            if now.is_empty() {
                break;
            }
        }
        found
    }

    /// Returns the end of the JSON value that starts here.
    fn value(&self, at: usize) -> Option<usize> {
        let mut stream =
            serde_json::Deserializer::from_slice(&self.text[at..]).into_iter::<serde::de::IgnoredAny>();
        stream.next()?.ok()?;
        Some(at + stream.byte_offset())
    }

    /// Under the default policy: 20 digits on either side of the point and no exponent; a zero with
    /// a sign is not an integer.
    fn number(&self, at: usize, integer: bool) -> Ends {
        let fits = |end: &usize| {
            let text = std::str::from_utf8(&self.text[at..*end]).unwrap_or_default();
            let digits = text.strip_prefix('-').unwrap_or(text);
            let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
            let all = |part: &str| (1..=20).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
            all(whole)
                && (whole == "0" || !whole.starts_with('0'))
                && fraction.is_none_or(|f| !integer && all(f))
                && !(integer && text == "-0")
        };
        (at + 1..=self.text.len()).filter(fits).collect()
    }

    fn string(&self, at: usize) -> Option<(String, usize)> {
        if self.text.get(at) != Some(&b'"') {
            return None;
        }
        let end = self.value(at)?;
        Some((serde_json::from_slice(&self.text[at..end]).ok()?, end))
    }

    fn array(
        &mut self,
        at: usize,
        prefix: &[NodeId],
        rest: Option<NodeId>,
        min: u32,
        max: Option<u32>,
    ) -> Ends {
        let mut found = Ends::new();
        if self.text.get(at) != Some(&b'[') {
            return found;
        }
        let mut now: Ends = [at + 1].into();
        let mut count = 0u32;
        loop {
            for &end in &now {
                if count >= min && self.text.get(end) == Some(&b']') {
                    found.insert(end + 1);
                }
            }
            if max == Some(count) || now.is_empty() {
                return found;
            }
            let Some(item) = prefix.get(count as usize).copied().or(rest) else { return found };
            let starts: Ends = match count {
                0 => now,
                _ => now.into_iter().filter(|&p| self.text.get(p) == Some(&b',')).map(|p| p + 1).collect(),
            };
            now = self.all(item, &starts);
            count += 1;
        }
    }

    fn set(&mut self, at: usize, item: NodeId, min: u32, max: Option<u32>) -> Ends {
        let mut found = Ends::new();
        let mut todo = vec![(at, Vec::<Vec<u8>>::new())];
        while let Some((at, items)) = todo.pop() {
            let count = items.len() as u32;
            // After the opening bracket comes an end or an item; after an item comes an end or a
            // comma.
            let at = match items.is_empty() {
                true if self.text.get(at) != Some(&b'[') => continue,
                true => at + 1,
                false => at,
            };
            if self.text.get(at) == Some(&b']') && count >= min && max.is_none_or(|max| count <= max) {
                found.insert(at + 1);
            }
            let start = match items.is_empty() {
                false if self.text.get(at) != Some(&b',') => continue,
                false => at + 1,
                true => at,
            };
            for end in self.ends(item, start) {
                let text = self.text[start..end].to_vec();
                if !items.contains(&text) {
                    todo.push((end, [&items[..], &[text]].concat()));
                }
            }
        }
        found
    }

    fn object(&mut self, at: usize, id: NodeId) -> Ends {
        let Node::JsonObject(object) = self.ir.node(id).clone() else { unreachable!() };
        let crate::constraint::ir::Object { properties, extra, demand, min, max, .. } = *object;
        let mut found = Ends::new();
        if self.text.get(at) != Some(&b'{') {
            return found;
        }
        // Position, next declared property, names met, demands met.
        let wanted = demand.iter().fold(0, |all, d| all | d.meets);
        let mut todo = vec![(at + 1, 0usize, Vec::new(), 0u32)];
        while let Some((at, next, names, met)) = todo.pop() {
            let complete = properties[next..].iter().all(|p| !p.required);
            let count = names.len() as u32;
            let counts = count >= min && max.is_none_or(|max| count <= max);
            if complete && met == wanted && counts && self.text.get(at) == Some(&b'}') {
                found.insert(at + 1);
            }
            let start = match names.is_empty() {
                false if self.text.get(at) != Some(&b',') => continue,
                false => at + 1,
                true => at,
            };
            let Some((name, end)) = self.string(start) else { continue };
            if self.text.get(end) != Some(&b':') || names.contains(&name) {
                continue;
            }
            let mut names = names;
            names.push(name.clone());
            let (value, after) = match properties.iter().position(|p| *p.name == name) {
                Some(i) if i < next || properties[next..i].iter().any(|p| p.required) => continue,
                Some(i) => (properties[i].value, i + 1),
                None if !complete => continue,
                None => {
                    let fits = |k: Option<NodeId>| k.is_none_or(|k| matches(self.ir, k, name.as_bytes()));
                    for new in demand.iter().filter(|d| d.meets & !met != 0 && fits(d.entry.keys)) {
                        let ends = self.ends(new.entry.value, end + 1);
                        todo.extend(
                            ends.into_iter().map(|e| (e, properties.len(), names.clone(), met | new.meets)),
                        );
                    }
                    let mut fitting = extra.iter().filter(|e| fits(e.keys));
                    let Some(entry) = fitting.next() else { continue };
                    assert!(fitting.next().is_none(), "overlapping keys for {name}");
                    (entry.value, properties.len())
                }
            };
            let ends = self.ends(value, end + 1);
            todo.extend(ends.into_iter().map(|e| (e, after, names.clone(), met)));
        }
        found
    }
}

/// Returns true if two values are equal, numbers by value.
fn same(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (a, b) {
        (Number(a), Number(b)) => a.as_f64() == b.as_f64(),
        (Array(a), Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Object(a), Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}
