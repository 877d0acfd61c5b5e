//! Patterns with look-around, word boundaries or anchors inside, compiled to the language of texts
//! that contain a match.
//!
//! The text *before* a position is known once the position is reached. So a lookbehind is answered
//! by a deterministic automaton that runs from the start of the text. The text *after* a position
//! is an obligation. So a lookahead starts a deterministic automaton there, which must accept the
//! rest.
//!
//! A state of the result combines a state of the pattern, the states of the lookbehinds, and the
//! open obligations. The result is nondeterministic, and nothing is approximated. Negation is
//! complement. An obligation that holds for every rest is dropped; one that holds for no rest ends
//! its branch. The automaton of a lookahead depends on the lookbehinds (and `^`) at its start. It
//! is made once for each of their states.
//!
//! Inside a lookbehind, only `^` is possible.
//!
//! # Cost
//!
//! The product of the automata, at most [`MAX_STATES`] states. Larger products are refused.
//!
//! # Alternatives considered
//!
//! Backtracking, which other engines use, was rejected: it gives no answer for prefixes.

use regex_syntax::hir::{self, Class, Hir, HirKind};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

use crate::char_lang::char_class::{self, ANY_CHAR};
use crate::char_lang::char_dfa::{CharDfa, SCALARS};
use crate::char_lang::pattern_text::fault;
use crate::constraint::ir::{AutomatonState, Edges, Ir, Node, NodeId};
use crate::constraint::regular::utf8_class;
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of states of the pattern, of a lookbehind or of a lookahead.
const MAX_STATES: usize = 20_000;
/// Maximum number of transitions of one of them.
const MAX_EDGES: usize = 400_000;

/// HIR assertions that represent the first, second, … look-around of a pattern, because HIR has no
/// look-around. ECMA patterns do not use their original meaning. The length of this list also
/// limits the number of look-arounds in a pattern.
pub(in crate::constraint) const LOOKAROUND_SLOTS: [hir::Look; 16] = [
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

/// One look-around of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::constraint) struct Look {
    pub ahead: bool,
    pub negated: bool,
    pub body: Hir,
}

/// The look-arounds of a pattern; equal ones share a slot.
#[derive(Default)]
pub(in crate::constraint) struct Looks(Vec<Look>);

impl Looks {
    /// Returns the HIR assertion that represents a look-around; `None` for one too many.
    pub(crate) fn slot(&mut self, look: Look) -> Option<Hir> {
        let index = self.0.iter().position(|known| *known == look).unwrap_or(self.0.len());
        let &slot = LOOKAROUND_SLOTS.get(index)?;
        if index == self.0.len() {
            self.0.push(look);
        }
        Some(Hir::look(slot))
    }

    /// Returns the condition `\b`: a character of the class `word` on exactly one side. With
    /// `inside`, that of `\B`: on both sides or on neither.
    pub(crate) fn word_boundary(&mut self, word: &Hir, inside: bool) -> Option<Hir> {
        let mut side = |ahead, negated| self.slot(Look { ahead, negated, body: word.clone() });
        let sides = [side(false, false)?, side(false, true)?, side(true, false)?, side(true, true)?];
        let pairs = if inside { [(0, 2), (1, 3)] } else { [(0, 3), (1, 2)] };
        let ways = pairs.map(|(a, b)| Hir::concat(vec![sides[a].clone(), sides[b].clone()]));
        Some(Hir::alternation(ways.into()))
    }
}

/// Returns the texts that contain a match of `hir`, which refers to `looks` by
/// [`LOOKAROUND_SLOTS`]. The flags of `around` are those of [`Builder::language`].
pub(in crate::constraint) fn language(
    pattern: &str,
    hir: &Hir,
    Looks(looks): &Looks,
    around: (bool, bool),
    ir: &mut Ir,
) -> Result<NodeId> {
    let mut builder = Builder {
        pattern,
        looks,
        behind: Vec::new(),
        inside: true,
        aheads: vec![Lookahead::end()?],
        known: FxHashMap::default(),
    };
    for look in looks {
        let dfa = match look.ahead {
            true => None,
            false => {
                let mut scratch = Ir::new();
                let node = builder.language(&look.body, (true, false), TextBefore::start(0), &mut scratch)?;
                let dfa = CharDfa::from_node(&scratch, node)?;
                Some(if look.negated { dfa.complement() } else { dfa })
            }
        };
        builder.behind.push(dfa);
    }
    builder.inside = false;
    builder.language(hir, around, TextBefore::start(looks.len()), ir)
}

/// Knowledge at a position about the text before it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct TextBefore {
    /// True if no text comes before the position.
    start: bool,
    /// States of the lookbehind automata; 0 for lookaheads.
    behind: SmallVec<[u32; 4]>,
}

impl TextBefore {
    fn start(looks: usize) -> TextBefore {
        TextBefore { start: true, behind: smallvec![0; looks] }
    }
}

/// Automaton that a lookahead requires to accept the rest of the text.
struct Lookahead {
    dfa: CharDfa,
    /// State that accepts every rest.
    always: Option<u32>,
    /// State that accepts no rest.
    never: Option<u32>,
}

impl Lookahead {
    fn new(dfa: CharDfa) -> Result<Lookahead> {
        let dfa = dfa.minimise()?;
        Ok(Lookahead { always: dfa.loop_state(true), never: dfa.loop_state(false), dfa })
    }

    /// Returns the automaton of `$`: the rest is empty.
    fn end() -> Result<Lookahead> {
        Lookahead::new(CharDfa::lengths(0, Some(0)))
    }
}

/// Open lookaheads: the number of the automaton and its state.
type OpenLookaheads = SmallVec<[(u32, u32); 2]>;

/// State of a language: state of the body, open lookaheads, and knowledge of the text before.
type State = (u32, OpenLookaheads, TextBefore);

struct Builder<'a> {
    pattern: &'a str,
    looks: &'a [Look],
    /// Automaton of each look-around; `None` for lookaheads.
    behind: Vec<Option<CharDfa>>,
    /// True while a lookbehind is being built.
    inside: bool,
    /// Automata of the lookaheads; the first is that of `$`.
    aheads: Vec<Lookahead>,
    /// Numbers of the lookahead automata, by look-around and by the knowledge at their start.
    known: FxHashMap<(usize, TextBefore), u32>,
}

/// Number of `$` among the lookaheads.
const END_LOOKAHEAD: u32 = 0;

impl Builder<'_> {
    /// Returns the language of a body at a position with this view. The flags of `around` say
    /// whether any text may precede and whether any text may follow the match.
    fn language(
        &mut self,
        body: &Hir,
        around: (bool, bool),
        view: TextBefore,
        ir: &mut Ir,
    ) -> Result<NodeId> {
        let body = PatternNfa::new(body, around).ok_or_else(|| self.too_large())?;
        let mut product = Product::default();
        let mut edges_made = 0;
        // The start has a state of its own, because the other states come after conditions.
        let start = self.closure(&body, 0, OpenLookaheads::new(), &view)?;
        let first: Vec<usize> = start.into_iter().map(|s| product.number(s)).collect();
        let mut at = 0;
        while at < product.states.len() {
            let (q, open, view) = product.states[at].clone();
            let mut edges: FxHashMap<usize, Vec<(char, char)>> = FxHashMap::default();
            for step in &body.steps[q as usize] {
                let LookStep::Class(ranges, to) = step else { continue };
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
        let message =
            format!("the anchors and the look-around of the pattern need more than {MAX_STATES} states");
        fault(ErrorKind::TooComplex, message, &shown, 0, shown.len())
            .hint("lower the counts of the repetitions, or say it with several patterns in `allOf` and `not`")
    }

    /// Cuts a range of code points into parts that all automata treat alike.
    fn pieces(&self, (low, high): (u32, u32), open: &OpenLookaheads, view: &TextBefore) -> Vec<(u32, u32)> {
        let mut cuts = vec![low];
        let mut cut = |dfa: &CharDfa, state: u32| {
            let row = dfa.transitions(state);
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

    /// Returns the open lookaheads after a character, or `None` if one of them fails.
    fn advance(&self, open: &OpenLookaheads, code: u32) -> Option<OpenLookaheads> {
        let mut next = OpenLookaheads::new();
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

    /// Returns the view after a character.
    fn after(&self, view: &TextBefore, code: u32) -> TextBefore {
        let next = self.behind.iter().zip(&view.behind);
        let behind = next.map(|(dfa, &state)| dfa.as_ref().map_or(0, |dfa| dfa.step(state, code)));
        TextBefore { start: false, behind: behind.collect() }
    }

    /// Returns the states that are reached without reading and that read a character or end.
    fn closure(
        &mut self,
        body: &PatternNfa,
        from: u32,
        open: OpenLookaheads,
        view: &TextBefore,
    ) -> Result<Vec<State>> {
        let mut seen: FxHashSet<(u32, OpenLookaheads)> = FxHashSet::default();
        let mut found: Vec<(u32, OpenLookaheads)> = Vec::new();
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
                    LookStep::Class(..) => reads = true,
                    LookStep::Free(to) => todo.push((*to, open.clone())),
                    LookStep::If(look, to) => {
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
        if body.absorbs && found.contains(&(ACCEPT, OpenLookaheads::new())) {
            // Any continuation matches.
            let view = TextBefore { start: false, behind: smallvec![0; view.behind.len()] };
            return Ok(vec![(ACCEPT, OpenLookaheads::new(), view)]);
        }
        let weaker = |a: &(u32, OpenLookaheads), b: &(u32, OpenLookaheads)| {
            a.0 == b.0 && a.1.len() < b.1.len() && a.1.iter().all(|o| b.1.contains(o))
        };
        let kept = found.iter().filter(|own| !found.iter().any(|other| weaker(other, own)));
        let mut kept: Vec<State> = kept.map(|(q, open)| (*q, open.clone(), view.clone())).collect();
        kept.sort_unstable_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        Ok(kept)
    }

    /// Returns the open lookaheads once a condition is met, or `None` if it is not met.
    fn condition(
        &mut self,
        look: hir::Look,
        open: &OpenLookaheads,
        view: &TextBefore,
    ) -> Result<Option<OpenLookaheads>> {
        let ahead = match look {
            hir::Look::Start => return Ok(view.start.then(|| open.clone())),
            _ if self.inside => {
                let shown: String = self.pattern.chars().take(200).collect();
                let message = "look-around or `$` inside of a lookbehind is not supported";
                return Err(fault(ErrorKind::Unsupported, message, &shown, 0, shown.len())
                    .hint("say it with a lookahead, or list the alternatives"));
            }
            hir::Look::End => END_LOOKAHEAD,
            _ => {
                let index = LOOKAROUND_SLOTS.iter().position(|&p| p == look).unwrap_or(0);
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

    /// Returns the number of a lookahead's automaton for this view of the text before. The
    /// recursion is as deep as lookaheads are nested; [`LOOKAROUND_SLOTS`] limits their number.
    fn ahead(&mut self, index: usize, view: &TextBefore) -> Result<u32> {
        let key = (index, view.clone());
        if let Some(&known) = self.known.get(&key) {
            return Ok(known);
        }
        let look = &self.looks[index];
        let mut scratch = Ir::new();
        let node = self.language(&look.body, (false, true), view.clone(), &mut scratch)?;
        let dfa = CharDfa::from_node(&scratch, node)?;
        let own = Lookahead::new(if look.negated { dfa.complement() } else { dfa })?;
        // In most cases the text before makes no difference.
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

/// Transition: target state and characters.
type Transition = (usize, Vec<(char, char)>);

/// States found so far, with their acceptance and transitions.
#[derive(Default)]
struct Product {
    numbers: FxHashMap<State, usize>,
    states: Vec<State>,
    accept: Vec<bool>,
    edges: Vec<Vec<Transition>>,
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

    /// Returns the node of the automaton that begins in any state of `first`. States that reach no
    /// acceptance are left out.
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

/// A step from a state of a body.
enum LookStep {
    /// Reads one of these code points.
    Class(SmallVec<[(u32, u32); 2]>, u32),
    Free(u32),
    If(hir::Look, u32),
}

/// States of a pattern without the parts that look-around adds. It begins in 0 and ends in
/// [`ACCEPT`].
struct PatternNfa {
    steps: Vec<SmallVec<[LookStep; 2]>>,
    /// True if any text may follow the end.
    absorbs: bool,
}

const ACCEPT: u32 = 1;

impl PatternNfa {
    /// Returns `None` if there are too many states. See [`Builder::language`] for `around`.
    fn new(hir: &Hir, (before, after): (bool, bool)) -> Option<PatternNfa> {
        let mut body = PatternNfa { steps: vec![SmallVec::new(), SmallVec::new()], absorbs: after };
        let any = || scalars(ANY_CHAR.0 as u32, ANY_CHAR.1 as u32);
        if before {
            body.add(0, LookStep::Class(any(), 0));
        }
        if after {
            body.add(ACCEPT, LookStep::Class(any(), ACCEPT));
        }
        // Separate states before and after the pattern keep its own loops inside.
        let (from, to) = (body.state(), body.state());
        body.add(0, LookStep::Free(from));
        body.add(to, LookStep::Free(ACCEPT));
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

    fn add(&mut self, from: u32, step: LookStep) {
        self.steps[from as usize].push(step);
    }

    fn part<'h>(&mut self, hir: &'h Hir, from: u32, to: u32, todo: &mut Vec<(&'h Hir, u32, u32)>) {
        match hir.kind() {
            HirKind::Empty => self.add(from, LookStep::Free(to)),
            HirKind::Literal(literal) => {
                let mut at = from;
                // Literals of patterns are whole characters.
                for c in String::from_utf8_lossy(&literal.0).chars() {
                    let next = self.state();
                    self.add(at, LookStep::Class(smallvec![(c as u32, c as u32)], next));
                    at = next;
                }
                self.add(at, LookStep::Free(to));
            }
            HirKind::Class(Class::Unicode(class)) => {
                let ranges = char_class::ranges(class).flat_map(|(lo, hi)| scalars(lo as u32, hi as u32));
                self.add(from, LookStep::Class(ranges.collect(), to));
            }
            // ECMA patterns only have classes of characters.
            HirKind::Class(Class::Bytes(_)) => {}
            HirKind::Look(look) => self.add(from, LookStep::If(*look, to)),
            HirKind::Capture(capture) => todo.push((&capture.sub, from, to)),
            HirKind::Alternation(parts) => todo.extend(parts.iter().map(|part| (part, from, to))),
            HirKind::Concat(parts) => {
                let mut at = from;
                for part in parts {
                    let next = self.state();
                    todo.push((part, at, next));
                    at = next;
                }
                self.add(at, LookStep::Free(to));
            }
            HirKind::Repetition(repetition) => {
                let copies = repetition.max.unwrap_or(repetition.min).min(MAX_STATES as u32 + 1);
                let mut at = self.state();
                self.add(from, LookStep::Free(at));
                for i in 0..copies {
                    if i >= repetition.min {
                        self.add(at, LookStep::Free(to));
                    }
                    let next = self.state();
                    todo.push((&repetition.sub, at, next));
                    at = next;
                }
                if repetition.max.is_none() {
                    let end = self.state();
                    todo.push((&repetition.sub, at, end));
                    self.add(end, LookStep::Free(at));
                }
                self.add(at, LookStep::Free(to));
            }
        }
    }
}

/// Returns the scalar values of a range of code points.
fn scalars(low: u32, high: u32) -> SmallVec<[(u32, u32); 2]> {
    let cut = SCALARS.iter().map(|&(lo, hi)| (lo.max(low), hi.min(high)));
    cut.filter(|r| r.0 <= r.1).collect()
}

#[cfg(test)]
mod tests;
