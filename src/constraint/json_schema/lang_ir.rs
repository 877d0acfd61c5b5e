//! From an automaton over code points back to a regular node of the representation.
//!
//! States are eliminated one by one, cheapest first; expressions are hash-consed, and their expanded
//! size is kept under [`MAX_SIZE`], because the machine expands what is shared. Adding an automaton
//! node to the representation was rejected for now: it would be one more thing for the machine to lower.

use regex_syntax::utf8::Utf8Sequences;
use rustc_hash::FxHashMap;

use super::lang::Dfa;
use crate::constraint::ir::{Ir, Node, NodeId};
use crate::error::{Error, ErrorKind, Result};

/// Most parts of one expression, with everything shared counted as often as it is used.
pub(super) const MAX_SIZE: u64 = 30_000;
/// Deepest nesting of an expression: the machine recurses over it.
const MAX_NESTING: u32 = 400;
/// Most parts of all written sequences together.
const MAX_WRITTEN: usize = 400_000;
/// Most live states of an automaton that is turned into an expression.
const MAX_LIVE: usize = 1_200;

/// An expression; ids index [`Pool::parts`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Part {
    Empty,
    Class(Vec<(u32, u32)>),
    Concat(u32, u32),
    Union(Vec<u32>),
    Star(u32),
}

#[derive(Default)]
struct Pool {
    parts: Vec<Part>,
    sizes: Vec<u64>,
    /// Nesting, with concatenations flat.
    depths: Vec<u32>,
    ids: FxHashMap<Part, u32>,
}

const EMPTY: u32 = 0;

impl Pool {
    fn add(&mut self, part: Part) -> u32 {
        if let Some(&id) = self.ids.get(&part) {
            return id;
        }
        let size = match &part {
            Part::Empty | Part::Class(_) => 1,
            Part::Concat(a, b) => self.size(*a).saturating_add(self.size(*b)),
            Part::Union(parts) => parts.iter().fold(1, |n: u64, &p| n.saturating_add(self.size(p))),
            Part::Star(p) => self.size(*p).saturating_add(1),
        };
        let depth = |p: u32| self.depths[p as usize];
        let below = |p: u32| depth(p) + u32::from(!matches!(self.parts[p as usize], Part::Concat(..)));
        let depth = match &part {
            Part::Empty | Part::Class(_) => 1,
            Part::Concat(a, b) => below(*a).max(below(*b)),
            Part::Union(parts) => 1 + parts.iter().map(|&p| depth(p)).max().unwrap_or(0),
            Part::Star(p) => 1 + depth(*p),
        };
        let id = self.parts.len() as u32;
        self.depths.push(depth);
        self.parts.push(part.clone());
        self.sizes.push(size);
        self.ids.insert(part, id);
        id
    }

    fn size(&self, id: u32) -> u64 {
        self.sizes[id as usize]
    }

    fn concat(&mut self, a: u32, b: u32) -> u32 {
        match (a, b) {
            (EMPTY, x) | (x, EMPTY) => x,
            _ => self.add(Part::Concat(a, b)),
        }
    }

    fn star(&mut self, a: u32) -> u32 {
        match self.parts[a as usize] {
            Part::Empty | Part::Star(_) => a,
            _ => self.add(Part::Star(a)),
        }
    }

    fn union(&mut self, a: u32, b: u32) -> u32 {
        let mut flat = Vec::new();
        for id in [a, b] {
            match &self.parts[id as usize] {
                Part::Union(parts) => flat.extend(parts.iter().copied()),
                _ => flat.push(id),
            }
        }
        // Classes merge into one, so that no two branches start alike needlessly.
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        flat.retain(|&id| match &self.parts[id as usize] {
            Part::Class(more) => {
                ranges.extend(more);
                false
            }
            _ => true,
        });
        if !ranges.is_empty() {
            let class = self.add(Part::Class(normalise(ranges)));
            flat.push(class);
        }
        flat.sort_unstable();
        flat.dedup();
        if flat.len() == 1 { flat[0] } else { self.add(Part::Union(flat)) }
    }
}

fn normalise(mut ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::new();
    for (lo, hi) in ranges {
        match merged.last_mut() {
            Some(last) if lo <= last.1 + 1 => last.1 = last.1.max(hi),
            _ => merged.push((lo, hi)),
        }
    }
    merged
}

/// The language of `dfa` as a node; [`Node::Never`] if it is empty.
pub(super) fn lower(dfa: &Dfa, ir: &mut Ir) -> Result<NodeId> {
    let live = dfa.live();
    if !live[0] {
        return Ok(ir.push(Node::Never));
    }
    let count = live.iter().filter(|&&l| l).count();
    if count > MAX_LIVE {
        return Err(too_large(format!("{count} automaton states; the limit is {MAX_LIVE}")));
    }
    let mut pool = Pool::default();
    pool.add(Part::Empty);
    let root = eliminate(dfa, &live, &mut pool)?;
    let depth = pool.depths[root as usize];
    if depth > MAX_NESTING {
        return Err(too_large(format!("nesting of {depth}; the limit is {MAX_NESTING}")));
    }
    emit(&pool, root, ir)
}

fn too_large(what: String) -> Error {
    Error::new(ErrorKind::TooComplex, format!("the combination of patterns needs {what}"))
}

type Edges = FxHashMap<u32, u32>;

fn eliminate(dfa: &Dfa, live: &[bool], pool: &mut Pool) -> Result<u32> {
    let n = dfa.rows.len() as u32;
    // Two more states: a start without edges into it and an end without edges out of it.
    let (start, end) = (n, n + 1);
    let mut out: Vec<Edges> = vec![Edges::default(); n as usize + 2];
    let mut into: Vec<Vec<u32>> = vec![Vec::new(); n as usize + 2];
    for (q, row) in dfa.rows.iter().enumerate().filter(|(q, _)| live[*q]) {
        let mut classes: FxHashMap<u32, Vec<(u32, u32)>> = FxHashMap::default();
        for r in row.iter().filter(|r| live[r.to as usize]) {
            classes.entry(r.to).or_default().push((r.lo, r.hi));
        }
        for (to, ranges) in classes {
            let class = pool.add(Part::Class(normalise(ranges)));
            out[q].insert(to, class);
            into[to as usize].push(q as u32);
        }
        if dfa.accept[q] {
            out[q].insert(end, EMPTY);
            into[end as usize].push(q as u32);
        }
    }
    out[start as usize].insert(0, EMPTY);
    into[0].push(start);
    let mut left: Vec<u32> = (0..n).filter(|&q| live[q as usize]).collect();
    while !left.is_empty() {
        let cost = |q: u32| (out[q as usize].len() * into[q as usize].len(), std::cmp::Reverse(q));
        let best = (0..left.len()).min_by_key(|&i| cost(left[i])).unwrap_or(0);
        let q = left.swap_remove(best);
        remove(q, &mut out, &mut into, pool)?;
    }
    // The start state is live, so an edge to the end is left.
    Ok(out[start as usize].get(&end).copied().unwrap_or(EMPTY))
}

/// Replaces every path through `q` by an edge.
fn remove(q: u32, out: &mut [Edges], into: &mut [Vec<u32>], pool: &mut Pool) -> Result<()> {
    let mut targets: Vec<(u32, u32)> = out[q as usize].drain().collect();
    targets.sort_unstable();
    let own = targets.iter().find(|t| t.0 == q).map(|t| t.1);
    let turn = match own {
        Some(part) => pool.star(part),
        None => EMPTY,
    };
    targets.retain(|t| t.0 != q);
    for &(to, _) in &targets {
        into[to as usize].retain(|&p| p != q);
    }
    let sources = std::mem::take(&mut into[q as usize]);
    for from in sources.into_iter().filter(|&p| p != q) {
        let Some(first) = out[from as usize].remove(&q) else { continue };
        let first = pool.concat(first, turn);
        for &(to, last) in &targets {
            let path = pool.concat(first, last);
            let edge = match out[from as usize].get(&to) {
                Some(&old) => pool.union(old, path),
                None => {
                    into[to as usize].push(from);
                    path
                }
            };
            if pool.size(edge) > MAX_SIZE {
                return Err(too_large(format!("more than {MAX_SIZE} parts")));
            }
            out[from as usize].insert(to, edge);
        }
    }
    Ok(())
}

/// The sequence that a concatenation stands for.
fn flat(pool: &Pool, id: u32) -> Vec<u32> {
    let (mut todo, mut sequence) = (vec![id], Vec::new());
    while let Some(id) = todo.pop() {
        match pool.parts[id as usize] {
            Part::Concat(a, b) => todo.extend([b, a]),
            _ => sequence.push(id),
        }
    }
    sequence
}

/// Writes the parts in the order of their ids: a part only refers to earlier ones.
fn emit(pool: &Pool, root: u32, ir: &mut Ir) -> Result<NodeId> {
    let mut children: Vec<Option<Vec<u32>>> = vec![None; pool.parts.len()];
    let (mut todo, mut written) = (vec![root], 0);
    while let Some(id) = todo.pop() {
        if children[id as usize].is_some() {
            continue;
        }
        let below = match &pool.parts[id as usize] {
            Part::Empty | Part::Class(_) => Vec::new(),
            Part::Concat(..) => flat(pool, id),
            Part::Union(parts) => parts.clone(),
            Part::Star(p) => vec![*p],
        };
        written += 1 + below.len();
        if written > MAX_WRITTEN {
            return Err(too_large(format!("more than {MAX_WRITTEN} nodes")));
        }
        todo.extend(&below);
        children[id as usize] = Some(below);
    }
    let mut nodes: Vec<NodeId> = vec![ir.root(); pool.parts.len()];
    for (id, below) in children.into_iter().enumerate() {
        let Some(below) = below else { continue };
        let below = below.into_iter().map(|p| nodes[p as usize]).collect::<Vec<_>>();
        nodes[id] = match &pool.parts[id] {
            Part::Empty => ir.push(Node::Empty),
            Part::Class(ranges) => class(ranges, ir),
            Part::Concat(..) => ir.concat(below),
            Part::Union(_) => ir.union(below),
            Part::Star(_) => ir.repeat(below[0], 0, None),
        };
    }
    Ok(nodes[root as usize])
}

/// One character of a class, as UTF-8.
fn class(ranges: &[(u32, u32)], ir: &mut Ir) -> NodeId {
    let mut single: Vec<(u8, u8)> = Vec::new();
    let mut parts = Vec::new();
    for &(lo, hi) in ranges {
        let (Some(lo), Some(hi)) = (char::from_u32(lo), char::from_u32(hi)) else { continue };
        for sequence in Utf8Sequences::new(lo, hi) {
            let bytes: Vec<(u8, u8)> = sequence.as_slice().iter().map(|r| (r.start, r.end)).collect();
            if let [one] = bytes[..] {
                single.push(one);
                continue;
            }
            let classes = bytes.into_iter().map(|r| ir.push(Node::Class(vec![r]))).collect();
            parts.push(ir.concat(classes));
        }
    }
    if !single.is_empty() {
        single.sort_unstable();
        parts.push(ir.push(Node::Class(single)));
    }
    ir.union(parts)
}

#[cfg(test)]
mod tests {
    use super::super::nfa::Nfa;
    use super::*;

    fn dfa(ir: &Ir, node: NodeId) -> Dfa {
        Dfa::from_nfa(&Nfa::new(ir, node).unwrap()).unwrap()
    }

    #[test]
    fn there_and_back_is_the_same_language() {
        let mut ir = Ir::new();
        let letter = ir.push(Node::Class(vec![(b'a', b'c'), (b'x', b'x')]));
        let e = ir.bytes("é😀");
        let either = ir.union(vec![letter, e]);
        let some = ir.repeat(either, 2, Some(4));
        let many = ir.repeat(letter, 0, None);
        let dash = ir.bytes("-");
        let whole = ir.concat(vec![some, dash, many]);
        for node in [letter, e, either, some, many, whole] {
            let d = dfa(&ir, node);
            for d in [d.clone(), d.complement()] {
                let mut out = Ir::new();
                let back = lower(&d, &mut out).unwrap();
                let again = dfa(&out, back);
                let both = d.intersect(&again.clone().complement()).unwrap();
                assert!(both.is_empty(), "lost a text");
                assert!(again.intersect(&d.complement()).unwrap().is_empty(), "gained a text");
            }
        }
    }
}
