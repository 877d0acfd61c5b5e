//! Look-around and word boundaries, through automata.
//!
//! What stands *before* a position is known when it is reached: a lookbehind is the answer of a
//! deterministic automaton that runs along from the start of the text. What comes *after* it is an
//! obligation: a lookahead starts a deterministic automaton there that must accept the rest of the text.
//! So a state of the result is a state of the pattern with the states of the lookbehinds and the
//! obligations that are open; it is nondeterministic, and nothing is approximated. Negation is complement,
//! an obligation that holds for every rest is dropped, one that holds for none ends its branch. A lookahead's
//! automaton depends on the lookbehinds (and `^`) at its start and is made once for each of their states.
//!
//! Cost: the product of the automata, at most [`MAX_STATES`] states; what needs more is refused. Inside of a
//! lookbehind only `^` is possible. Backtracking is what other engines do; it says nothing about prefixes.

use regex_syntax::hir::{self, Class, Hir, HirKind};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

use crate::constraint::ir::{AutomatonState, Edges, Ir, Node, NodeId};
use crate::constraint::regular::char_dfa::{CharDfa, SCALARS};
use crate::constraint::regular::hir_to_ir::fault;
use crate::constraint::regular::utf8_class::{self, ANY_CHAR};
use crate::error::{Error, ErrorKind, Result};

/// Most states of the pattern, of a lookbehind or of a lookahead.
const MAX_STATES: usize = 20_000;
/// Most transitions of one of them.
const MAX_EDGES: usize = 400_000;

/// HIR has no look-around: these stand for the first, second, … one of a pattern. ECMA patterns have no
/// use for their own meaning. Their number is also the limit on how many a pattern may have.
pub(super) const PLACES: [hir::Look; 16] = [
    hir::Look::StartLF,
    hir::Look::EndLF,
    hir::Look::StartCRLF,
    hir::Look::EndCRLF,
    hir::Look::WordAscii,
    hir::Look::WordAsciiNegate,
    hir::Look::WordUnicode,
    hir::Look::WordUnicodeNegate,
    hir::Look::WordStartAscii,
    hir::Look::WordEndAscii,
    hir::Look::WordStartUnicode,
    hir::Look::WordEndUnicode,
    hir::Look::WordStartHalfAscii,
    hir::Look::WordEndHalfAscii,
    hir::Look::WordStartHalfUnicode,
    hir::Look::WordEndHalfUnicode,
];

/// One look-around.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Look {
    pub ahead: bool,
    pub negated: bool,
    pub body: Hir,
}

/// The texts that contain a match of `hir`, which refers to `looks` by [`PLACES`].
pub(super) fn search(pattern: &str, hir: &Hir, looks: &[Look], ir: &mut Ir) -> Result<NodeId> {
    let mut builder = Builder {
        pattern,
        looks,
        behind: Vec::new(),
        inside: true,
        aheads: vec![Ahead::end()?],
        known: FxHashMap::default(),
    };
    for look in looks {
        let dfa = match look.ahead {
            true => None,
            false => {
                let mut scratch = Ir::new();
                let node = builder.language(&look.body, (true, false), View::start(0), &mut scratch)?;
                let dfa = CharDfa::of(&scratch, node)?;
                Some(if look.negated { dfa.complement() } else { dfa })
            }
        };
        builder.behind.push(dfa);
    }
    builder.inside = false;
    builder.language(hir, (true, true), View::start(looks.len()), ir)
}

/// What is known at a position about what stands before it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct View {
    /// Nothing.
    start: bool,
    /// The states of the lookbehinds' automata; 0 for lookaheads.
    behind: SmallVec<[u32; 4]>,
}

impl View {
    fn start(looks: usize) -> View {
        View { start: true, behind: smallvec![0; looks] }
    }
}

/// The automaton of what a lookahead asks of the rest of the text.
struct Ahead {
    dfa: CharDfa,
    /// The state that accepts every rest, and the one that accepts none.
    always: Option<u32>,
    never: Option<u32>,
}

impl Ahead {
    fn new(dfa: CharDfa) -> Result<Ahead> {
        let dfa = dfa.minimise()?;
        Ok(Ahead { always: dfa.loop_state(true), never: dfa.loop_state(false), dfa })
    }

    /// `$`: the rest is empty.
    fn end() -> Result<Ahead> {
        Ahead::new(CharDfa::lengths(0, Some(0)))
    }
}

/// Lookaheads that are open: the number of the automaton and its state.
type Open = SmallVec<[(u32, u32); 2]>;

/// A state of a language: of the body, the open lookaheads, and what stands before.
type State = (u32, Open, View);

struct Builder<'a> {
    pattern: &'a str,
    looks: &'a [Look],
    /// Per look-around; `None` for lookaheads.
    behind: Vec<Option<CharDfa>>,
    /// Whether a lookbehind is being made.
    inside: bool,
    /// The first one is that of `$`.
    aheads: Vec<Ahead>,
    /// Lookaheads by what stood before them.
    known: FxHashMap<(usize, View), u32>,
}

/// The number of `$` among the lookaheads.
const END: u32 = 0;

impl Builder<'_> {
    /// The language of a body at a place with this view. The flags: any text may stand before the match,
    /// any text may follow it.
    fn language(&mut self, body: &Hir, around: (bool, bool), view: View, ir: &mut Ir) -> Result<NodeId> {
        let body = Body::new(body, around).ok_or_else(|| self.too_large())?;
        let mut product = Product::default();
        let mut edges_made = 0;
        // The state of the start is one of its own: the others begin behind conditions.
        let start = self.closure(&body, 0, Open::new(), &view)?;
        let first: Vec<usize> = start.into_iter().map(|s| product.number(s)).collect();
        let mut at = 0;
        while at < product.states.len() {
            let (q, open, view) = product.states[at].clone();
            let mut edges: FxHashMap<usize, Vec<(char, char)>> = FxHashMap::default();
            for step in &body.steps[q as usize] {
                let Step::Class(ranges, to) = step else { continue };
                for &range in ranges {
                    for (lo, hi) in self.pieces(range, &open, &view) {
                        let Some(next) = self.advance(&open, lo) else { continue };
                        let view = self.after(&view, lo);
                        for state in self.closure(&body, *to, next, &view)? {
                            let (Some(lo), Some(hi)) = (char::from_u32(lo), char::from_u32(hi)) else {
                                continue;
                            };
                            edges.entry(product.number(state)).or_default().push((lo, hi));
                            edges_made += 1;
                        }
                    }
                }
            }
            if product.states.len() > MAX_STATES || edges_made > MAX_EDGES {
                return Err(self.too_large());
            }
            let mut edges: Vec<_> = edges.into_iter().collect();
            edges.sort_unstable_by_key(|e| e.0);
            product.edges.push(edges);
            product
                .accept
                .push(q == ACCEPT && open.iter().all(|o| self.aheads[o.0 as usize].dfa.accept[o.1 as usize]));
            at += 1;
        }
        Ok(product.into_node(&first, ir))
    }

    fn too_large(&self) -> Error {
        let shown: String = self.pattern.chars().take(200).collect();
        let message = format!("the look-around of the pattern needs more than {MAX_STATES} states");
        fault(ErrorKind::TooComplex, message, &shown, 0, shown.len())
            .hint("lower the counts of the repetitions, or say it with several patterns in `allOf` and `not`")
    }

    /// Cuts a range of code points into parts that all automata treat alike.
    fn pieces(&self, (low, high): (u32, u32), open: &Open, view: &View) -> Vec<(u32, u32)> {
        let mut cuts = vec![low];
        let mut cut = |dfa: &CharDfa, state: u32| {
            let row = dfa.row(state);
            let from = row.partition_point(|r| r.hi < low);
            cuts.extend(row[from..].iter().map(|r| r.lo).take_while(|&lo| lo <= high).filter(|&lo| lo > low));
        };
        for &(ahead, state) in open {
            cut(&self.aheads[ahead as usize].dfa, state);
        }
        for (dfa, &state) in self.behind.iter().zip(&view.behind) {
            if let Some(dfa) = dfa {
                cut(dfa, state);
            }
        }
        cuts.sort_unstable();
        cuts.dedup();
        let ends = cuts.iter().skip(1).map(|c| c - 1).chain([high]);
        cuts.iter().copied().zip(ends).collect()
    }

    /// The open lookaheads after a character; `None` if one of them fails.
    fn advance(&self, open: &Open, code: u32) -> Option<Open> {
        let mut next = Open::new();
        for &(ahead, state) in open {
            let own = &self.aheads[ahead as usize];
            let to = own.dfa.step(state, code);
            if own.never == Some(to) {
                return None;
            }
            if own.always != Some(to) {
                next.push((ahead, to));
            }
        }
        next.sort_unstable();
        next.dedup();
        Some(next)
    }

    fn after(&self, view: &View, code: u32) -> View {
        let next = self.behind.iter().zip(&view.behind);
        let behind = next.map(|(dfa, &state)| dfa.as_ref().map_or(0, |dfa| dfa.step(state, code)));
        View { start: false, behind: behind.collect() }
    }

    /// The states with a character to read, or the end, that are reached without reading.
    fn closure(&mut self, body: &Body, from: u32, open: Open, view: &View) -> Result<Vec<State>> {
        let mut seen: FxHashSet<(u32, Open)> = FxHashSet::default();
        let mut found: Vec<(u32, Open)> = Vec::new();
        let mut todo = vec![(from, open)];
        while let Some((q, open)) = todo.pop() {
            if !seen.insert((q, open.clone())) {
                continue;
            }
            if seen.len() > MAX_STATES {
                return Err(self.too_large());
            }
            let mut reads = q == ACCEPT;
            for step in &body.steps[q as usize] {
                match step {
                    Step::Class(..) => reads = true,
                    Step::Free(to) => todo.push((*to, open.clone())),
                    Step::If(look, to) => {
                        if let Some(open) = self.condition(*look, &open, view)? {
                            todo.push((*to, open));
                        }
                    }
                }
            }
            if reads {
                found.push((q, open));
            }
        }
        if body.absorbs && found.contains(&(ACCEPT, Open::new())) {
            // Whatever comes, it matches.
            let view = View { start: false, behind: smallvec![0; view.behind.len()] };
            return Ok(vec![(ACCEPT, Open::new(), view)]);
        }
        let weaker = |a: &(u32, Open), b: &(u32, Open)| {
            a.0 == b.0 && a.1.len() < b.1.len() && a.1.iter().all(|o| b.1.contains(o))
        };
        let kept = found.iter().filter(|own| !found.iter().any(|other| weaker(other, own)));
        let mut kept: Vec<State> = kept.map(|(q, open)| (*q, open.clone(), view.clone())).collect();
        kept.sort_unstable_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        Ok(kept)
    }

    /// The lookaheads that are open once a condition is met; `None` if it is not.
    fn condition(&mut self, look: hir::Look, open: &Open, view: &View) -> Result<Option<Open>> {
        let ahead = match look {
            hir::Look::Start => return Ok(view.start.then(|| open.clone())),
            _ if self.inside => {
                let shown: String = self.pattern.chars().take(200).collect();
                let message = "look-around or `$` inside of a lookbehind is not supported";
                return Err(fault(ErrorKind::Unsupported, message, &shown, 0, shown.len()));
            }
            hir::Look::End => END,
            _ => {
                let index = PLACES.iter().position(|&p| p == look).unwrap_or(0);
                if let Some(dfa) = &self.behind[index] {
                    let holds = dfa.accept[view.behind[index] as usize];
                    return Ok(holds.then(|| open.clone()));
                }
                self.ahead(index, view)?
            }
        };
        let own = &self.aheads[ahead as usize];
        if own.never == Some(0) {
            return Ok(None);
        }
        let mut next = open.clone();
        if own.always != Some(0) && !next.contains(&(ahead, 0)) {
            next.push((ahead, 0));
            next.sort_unstable();
        }
        Ok(Some(next))
    }

    /// The automaton of a lookahead after what stands before it. The recursion is as deep as lookaheads are
    /// nested, of which there are at most as many as [`PLACES`].
    fn ahead(&mut self, index: usize, view: &View) -> Result<u32> {
        let key = (index, view.clone());
        if let Some(&known) = self.known.get(&key) {
            return Ok(known);
        }
        let look = &self.looks[index];
        let mut scratch = Ir::new();
        let node = self.language(&look.body, (false, true), view.clone(), &mut scratch)?;
        let dfa = CharDfa::of(&scratch, node)?;
        let own = Ahead::new(if look.negated { dfa.complement() } else { dfa })?;
        // Mostly what stands before makes no difference.
        let number = match self.aheads.iter().position(|known| known.dfa.is_same(&own.dfa)) {
            Some(number) => number,
            None => {
                self.aheads.push(own);
                self.aheads.len() - 1
            }
        };
        self.known.insert(key, number as u32);
        Ok(number as u32)
    }
}

/// A way on from a state: to which one, by which characters.
type Way = (usize, Vec<(char, char)>);

/// The states met so far, and what is known of them.
#[derive(Default)]
struct Product {
    numbers: FxHashMap<State, usize>,
    states: Vec<State>,
    accept: Vec<bool>,
    edges: Vec<Vec<Way>>,
}

impl Product {
    fn number(&mut self, state: State) -> usize {
        if let Some(&known) = self.numbers.get(&state) {
            return known;
        }
        self.states.push(state.clone());
        self.numbers.insert(state, self.states.len() - 1);
        self.states.len() - 1
    }

    /// The node of the automaton that begins in any of these states, without those from which nothing
    /// is accepted.
    fn into_node(self, first: &[usize], ir: &mut Ir) -> NodeId {
        let mut back: Vec<Vec<usize>> = vec![Vec::new(); self.states.len()];
        for (from, edges) in self.edges.iter().enumerate() {
            edges.iter().for_each(|e| back[e.0].push(from));
        }
        let mut live = vec![false; self.states.len()];
        let mut todo: Vec<usize> = (0..self.states.len()).filter(|&q| self.accept[q]).collect();
        while let Some(q) = todo.pop() {
            if !std::mem::replace(&mut live[q], true) {
                todo.extend(&back[q]);
            }
        }
        if !first.iter().any(|&q| live[q]) {
            return ir.push(Node::Never);
        }
        let mut number = vec![0u32; live.len()];
        for (next, q) in (0..live.len()).filter(|&q| live[q]).enumerate() {
            number[q] = next as u32 + 1;
        }
        let mut edges_of = |q: usize| -> Edges {
            let living = self.edges[q].iter().filter(|e| live[e.0]);
            living.map(|(to, ranges)| (utf8_class::class(ranges, ir), number[*to])).collect()
        };
        let mut states = vec![AutomatonState {
            accept: first.iter().any(|&q| self.accept[q]),
            edges: first.iter().filter(|&&q| live[q]).flat_map(|&q| edges_of(q)).collect(),
        }];
        for q in (0..live.len()).filter(|&q| live[q]) {
            states.push(AutomatonState { accept: self.accept[q], edges: edges_of(q) });
        }
        ir.push(Node::automaton(states))
    }
}

/// One way on from a state of a body.
enum Step {
    /// One of these code points.
    Class(SmallVec<[(u32, u32); 2]>, u32),
    Free(u32),
    If(hir::Look, u32),
}

/// The states of a pattern without what look-around adds: begins in 0 and ends in [`ACCEPT`].
struct Body {
    steps: Vec<SmallVec<[Step; 2]>>,
    /// Whether any text may follow the end.
    absorbs: bool,
}

const ACCEPT: u32 = 1;

impl Body {
    /// `None` if there are too many states. See [`Builder::language`] for `around`.
    fn new(hir: &Hir, (before, after): (bool, bool)) -> Option<Body> {
        let mut body = Body { steps: vec![SmallVec::new(), SmallVec::new()], absorbs: after };
        let any = || scalars(ANY_CHAR.0 as u32, ANY_CHAR.1 as u32);
        if before {
            body.add(0, Step::Class(any(), 0));
        }
        if after {
            body.add(ACCEPT, Step::Class(any(), ACCEPT));
        }
        // In front of and behind the pattern, so that its own loops stay inside.
        let (from, to) = (body.state(), body.state());
        body.add(0, Step::Free(from));
        body.add(to, Step::Free(ACCEPT));
        let mut todo = vec![(hir, from, to)];
        while let Some((hir, from, to)) = todo.pop() {
            body.part(hir, from, to, &mut todo);
            if body.steps.len() > MAX_STATES || todo.len() > MAX_STATES {
                return None;
            }
        }
        Some(body)
    }

    fn state(&mut self) -> u32 {
        self.steps.push(SmallVec::new());
        self.steps.len() as u32 - 1
    }

    fn add(&mut self, from: u32, step: Step) {
        self.steps[from as usize].push(step);
    }

    fn part<'h>(&mut self, hir: &'h Hir, from: u32, to: u32, todo: &mut Vec<(&'h Hir, u32, u32)>) {
        match hir.kind() {
            HirKind::Empty => self.add(from, Step::Free(to)),
            HirKind::Literal(literal) => {
                let mut at = from;
                // Literals of patterns are whole characters.
                for c in String::from_utf8_lossy(&literal.0).chars() {
                    let next = self.state();
                    self.add(at, Step::Class(smallvec![(c as u32, c as u32)], next));
                    at = next;
                }
                self.add(at, Step::Free(to));
            }
            HirKind::Class(Class::Unicode(class)) => {
                let ranges = utf8_class::ranges(class).flat_map(|(lo, hi)| scalars(lo as u32, hi as u32));
                self.add(from, Step::Class(ranges.collect(), to));
            }
            // ECMA patterns have classes of characters only.
            HirKind::Class(Class::Bytes(_)) => {}
            HirKind::Look(look) => self.add(from, Step::If(*look, to)),
            HirKind::Capture(capture) => todo.push((&capture.sub, from, to)),
            HirKind::Alternation(parts) => todo.extend(parts.iter().map(|part| (part, from, to))),
            HirKind::Concat(parts) => {
                let mut at = from;
                for part in parts {
                    let next = self.state();
                    todo.push((part, at, next));
                    at = next;
                }
                self.add(at, Step::Free(to));
            }
            HirKind::Repetition(repetition) => {
                let copies = repetition.max.unwrap_or(repetition.min).min(MAX_STATES as u32 + 1);
                let mut at = self.state();
                self.add(from, Step::Free(at));
                for i in 0..copies {
                    if i >= repetition.min {
                        self.add(at, Step::Free(to));
                    }
                    let next = self.state();
                    todo.push((&repetition.sub, at, next));
                    at = next;
                }
                if repetition.max.is_none() {
                    let end = self.state();
                    todo.push((&repetition.sub, at, end));
                    self.add(end, Step::Free(at));
                }
                self.add(at, Step::Free(to));
            }
        }
    }
}

/// The scalar values of a range of code points.
fn scalars(low: u32, high: u32) -> SmallVec<[(u32, u32); 2]> {
    let cut = SCALARS.iter().map(|&(lo, hi)| (lo.max(low), hi.min(high)));
    cut.filter(|r| r.0 <= r.1).collect()
}

#[cfg(test)]
mod tests;
