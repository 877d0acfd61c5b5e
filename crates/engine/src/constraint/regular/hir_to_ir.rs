//! Conversion of `regex_syntax`'s HIR to the common representation.
//!
//! Both regular expression dialects and the element patterns meet in HIR, which is already
//! simplified. This module turns it into nodes, bottom-up with an explicit stack.
//!
//! # Cost
//!
//! Linear in the HIR.
//!
//! # Alternatives considered
//!
//! Building a Thompson automaton here was rejected: the machine has its own, which also has
//! counters and values.

use regex_syntax::hir::{self, Class, Hir, HirKind, Look, Visitor};
use smallvec::SmallVec;

use crate::char_lang::char_class;
use crate::char_lang::pattern_text::fault;
use crate::constraint::ir::{Ir, Node, NodeId};
use crate::constraint::regular::anchors::AnchoredLanguages;
use crate::constraint::regular::utf8_class;
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of byte states of one pattern, with counted repetitions expanded.
pub(crate) const MAX_STATES: u64 = 200_000;

/// Refuses languages above [`MAX_STATES`]; `base` is the length of the arena before the pattern.
pub(crate) fn check_states(text: &str, ir: &Ir, base: usize, root: NodeId) -> Result<()> {
    let states = states(ir, base, root);
    if states <= MAX_STATES {
        return Ok(());
    }
    let reached = if states == u64::MAX { "too many to count".to_owned() } else { states.to_string() };
    let message = format!("the pattern needs {reached} states, more than the limit of {MAX_STATES}");
    let shown: String = text.chars().take(200).collect();
    Err(fault(ErrorKind::TooComplex, message, &shown, 0, shown.len())
        .hint("lower the counts of the repetitions"))
}

/// Returns the byte states of a regular node, with repetitions expanded. Shared nodes count once
/// per use, and nodes below `base` that the root refers to count one.
pub(crate) fn states(ir: &Ir, base: usize, root: NodeId) -> u64 {
    let mut sizes: Vec<u64> = Vec::with_capacity((root.0 as usize + 1).saturating_sub(base));
    // Children are always pushed before their parents.
    for id in base..=root.0 as usize {
        let of = |child: NodeId| (child.0 as usize).checked_sub(base).map_or(1, |at| sizes[at]);
        let sum = |parts: &[NodeId]| parts.iter().fold(0u64, |n, &p| n.saturating_add(of(p)));
        sizes.push(match ir.node(NodeId(id as u32)) {
            Node::Bytes(bytes) => bytes.len() as u64,
            Node::Literals(all) => all.iter().map(|text| text.len() as u64).sum(),
            Node::Concat(parts) | Node::Union(parts) => sum(parts),
            Node::Repeat { node, min, max } => {
                of(*node).max(1).saturating_mul(u64::from(max.unwrap_or((*min).max(1))))
            }
            _ => 1,
        });
    }
    (root.0 as usize).checked_sub(base).map_or(1, |at| sizes[at])
}

/// Returns the languages of `hir` by anchor condition.
pub(crate) fn anchored_languages(hir: &Hir, ir: &mut Ir) -> Result<AnchoredLanguages> {
    hir::visit(hir, HirLowering { ir, done: Vec::new() })
}

struct HirLowering<'a> {
    ir: &'a mut Ir,
    /// Languages of the sub-expressions that are finished but not yet used.
    done: Vec<AnchoredLanguages>,
}

impl HirLowering<'_> {
    fn class(&mut self, class: &Class) -> AnchoredLanguages {
        let node = match class {
            Class::Unicode(class) if class.ranges().is_empty() => return AnchoredLanguages::NEVER,
            Class::Bytes(class) if class.ranges().is_empty() => return AnchoredLanguages::NEVER,
            Class::Unicode(class) => {
                let ranges: SmallVec<[(char, char); 8]> = char_class::ranges(class).collect();
                utf8_class::class(&ranges, self.ir)
            }
            Class::Bytes(class) => {
                let ranges = class.ranges().iter().map(|r| (r.start(), r.end())).collect();
                self.ir.push(Node::Class(ranges))
            }
        };
        AnchoredLanguages::plain(node, false)
    }

    /// Removes and returns the last `count` finished languages, in order.
    fn take(&mut self, count: usize) -> Vec<AnchoredLanguages> {
        self.done.split_off(self.done.len().saturating_sub(count))
    }
}

impl Visitor for HirLowering<'_> {
    type Output = AnchoredLanguages;
    type Err = Error;

    fn finish(mut self) -> Result<AnchoredLanguages> {
        Ok(self.done.pop().unwrap_or(AnchoredLanguages::NEVER))
    }

    fn visit_post(&mut self, hir: &Hir) -> Result<()> {
        let split = match hir.kind() {
            HirKind::Empty => AnchoredLanguages::plain(self.ir.push(Node::Empty), true),
            HirKind::Literal(literal) => {
                AnchoredLanguages::plain(self.ir.bytes(&literal.0), literal.0.is_empty())
            }
            HirKind::Class(class) => self.class(class),
            HirKind::Look(Look::Start) => AnchoredLanguages::start(self.ir),
            HirKind::Look(Look::End) => AnchoredLanguages::end(self.ir),
            HirKind::Look(_) => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "word boundaries and line anchors are not supported",
                ));
            }
            HirKind::Capture(_) => return Ok(()),
            HirKind::Repetition(repetition) => {
                let sub = self.done.pop().unwrap_or(AnchoredLanguages::NEVER);
                sub.repeat(repetition.min, repetition.max, self.ir)
            }
            HirKind::Concat(parts) => {
                let parts = self.take(parts.len());
                AnchoredLanguages::concat(&parts, self.ir)
            }
            HirKind::Alternation(parts) => {
                let parts = self.take(parts.len());
                AnchoredLanguages::alternation(&parts, self.ir)
            }
        };
        self.done.push(split);
        Ok(())
    }
}
