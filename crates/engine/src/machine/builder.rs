//! A program under construction: its rules, those that are still to be built, and the states that
//! all kinds of values are made of.
//!
//! # Cost
//!
//! Rules are noted in a queue, so nesting of the schema costs no stack.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::constraint::ir::{Gap, Node, NodeId, RuleId};
use crate::constraint::{Policy, Whitespace};
use crate::error::Result;

use super::alphabet::Alphabet;
use super::intern::Nodes;
use super::lazy_dfa::LazyDfa;
use super::liveness::StateRange;
use super::lower_regular::{Calls, RegularLowering, Value, too_complex};
use super::nfa::{ACCEPT, Call, DEAD, Nfa, NfaId, RegisterIx, RuleIx, State};
use super::program::{MEMBERS, STRING};
use super::properties::memory::{Memory, memory};
use super::register::{Items, Register};

/// Maximum number of rules of one grammar.
const MAX_RULES: usize = 500_000;

/// A rule that is still to be built.
pub(super) enum Job {
    /// Any JSON value and its containers.
    Any,
    /// The body of an IR node, with the register that it runs with.
    Body(RuleIx, NodeId, RegisterIx),
    /// A rule of the IR, which calls its body.
    Named(RuleIx, NodeId),
    /// An array whose items its register determines.
    CountedArray(RuleIx),
    /// The scope around an array with unique items.
    Distinct(RuleIx, NodeId, RegisterIx),
    /// A string whose text is in a language, or with `raw` that text alone, with bounds on its
    /// number of characters.
    Text { rule: RuleIx, lang: NodeId, register: RegisterIx, bounds: (u32, u32), raw: bool },
}

/// The rules, and those that are still to be built.
pub(super) struct Rules<'a> {
    pub ir: Nodes<'a>,
    pub starts: Vec<NfaId>,
    pub registers: Vec<Register>,
    /// By the node that represents all equal ones.
    pub of_node: Vec<Option<Value>>,
    pub named: FxHashMap<RuleId, RuleIx>,
    pub queue: Vec<Job>,
    pub any_order: bool,
}

impl Rules<'_> {
    pub(super) fn new_rule(&mut self) -> Result<RuleIx> {
        if self.starts.len() >= MAX_RULES {
            return Err(too_complex("rules", MAX_RULES));
        }
        self.starts.push(DEAD);
        Ok(RuleIx(self.starts.len() as u32 - 1))
    }

    pub(super) fn new_register(&mut self, register: Register) -> RegisterIx {
        self.registers.push(register);
        self.registers.len() as RegisterIx - 1
    }

    fn named_rule(&mut self, rule: RuleId) -> Result<RuleIx> {
        if let Some(&known) = self.named.get(&rule) {
            return Ok(known);
        }
        let ix = self.new_rule()?;
        self.named.insert(rule, ix);
        if let Some(body) = self.ir.rule(rule) {
            self.queue.push(Job::Named(ix, body));
        }
        Ok(ix)
    }

    /// Returns the value of a JSON string, or of a raw text, with a language and a length.
    fn text(&mut self, lang: Option<NodeId>, min: u32, max: Option<u32>, raw: bool) -> Result<Value> {
        let max = max.unwrap_or(u32::MAX);
        if max < min {
            return Ok(None);
        }
        let free = !raw && (min, max) == (0, u32::MAX);
        let chars = Register::Chars { min, max, lengths: None, raw };
        let register = if free { 0 } else { self.new_register(chars) };
        let Some(lang) = lang else { return Ok(Some((STRING, register))) };
        let rule = self.new_rule()?;
        self.queue.push(Job::Text { rule, lang, register, bounds: (min, max), raw });
        Ok(Some((rule, register)))
    }

    fn counted_array(
        &mut self,
        node: NodeId,
        prefix: &[NodeId],
        rest: Option<NodeId>,
        (min, max): (u32, Option<u32>),
    ) -> Result<Value> {
        let rule = self.new_rule()?;
        // The value is known before its items, which may contain the array itself.
        let register = self.new_register(Register::None);
        self.of_node[node.0 as usize] = Some(Some((rule, register)));
        let prefix = prefix.iter().map(|&p| self.value(p)).collect::<Result<Vec<_>>>()?;
        let rest = rest.map(|r| self.value(r)).transpose()?.flatten();
        let longest = if rest.is_some() { u32::MAX } else { prefix.len() as u32 };
        let max = max.unwrap_or(u32::MAX).min(longest);
        let items = Items { rule, min, max, prefix, rest };
        self.registers[register as usize] = Register::Items(Arc::new(items));
        self.queue.push(Job::CountedArray(rule));
        Ok(Some((rule, register)))
    }
}

impl Calls for Rules<'_> {
    /// Returns the rule that matches `node` alone. It is noted, but not built yet.
    fn value(&mut self, node: NodeId) -> Result<Value> {
        let node = self.ir.same(node);
        if let Some(known) = self.of_node[node.0 as usize] {
            return Ok(known);
        }
        let ir = self.ir;
        let value = match ir.node(node) {
            Node::Never => None,
            Node::Rule(rule) => Some((self.named_rule(*rule)?, 0)),
            Node::JsonString { lang, min_chars, max_chars } => {
                self.text(*lang, *min_chars, *max_chars, false)?
            }
            Node::Text { lang, min_chars, max_chars } => {
                self.text(Some(*lang), *min_chars, *max_chars, true)?
            }
            Node::JsonUnique { .. } => {
                let rule = self.new_rule()?;
                // Filled in when it is built: it may contain itself.
                let register = self.new_register(Register::None);
                self.queue.push(Job::Distinct(rule, node, register));
                Some((rule, register))
            }
            Node::JsonArray { prefix, rest, min, max } if !prefix.is_empty() || *min > 0 || max.is_some() => {
                self.counted_array(node, prefix, *rest, (*min, *max))?
            }
            _ => {
                let rule = self.new_rule()?;
                let register = match memory(ir, node, self.any_order) {
                    Memory::None => 0,
                    Memory::Names => MEMBERS,
                    // Known before the object is built: it may contain itself.
                    Memory::Members => self.new_register(Register::None),
                };
                self.queue.push(Job::Body(rule, node, register));
                Some((rule, register))
            }
        };
        self.of_node[node.0 as usize] = Some(value);
        Ok(value)
    }
}

/// A program under construction.
pub(super) struct ProgramBuilder<'a> {
    pub rules: Rules<'a>,
    pub nfa: &'a mut Nfa,
    pub dfa: &'a mut LazyDfa,
    pub alphabet: &'a Alphabet,
    pub policy: &'a Policy,
    /// The states of each job.
    pub blocks: Vec<StateRange>,
}

impl ProgramBuilder<'_> {
    pub(super) fn lowering(&mut self) -> RegularLowering<'_> {
        RegularLowering::new(self.rules.ir, self.nfa, self.alphabet, false)
    }

    pub(super) fn byte(&mut self, b: u8, to: NfaId) -> NfaId {
        self.lowering().byte(b, to, 0)
    }

    pub(super) fn union(&mut self, parts: &[NfaId]) -> NfaId {
        self.lowering().union(parts)
    }

    pub(super) fn call(&mut self, value: Value, to: NfaId) -> NfaId {
        match value {
            Some((rule, register)) if to != DEAD => {
                self.nfa.push(State::Call(Call::Rule(rule, register, to)), 0)
            }
            _ => DEAD,
        }
    }

    /// Returns the entry of the white space after a comma or a colon, by the policy.
    pub(super) fn gap(&mut self, to: NfaId) -> NfaId {
        match self.policy.whitespace {
            Whitespace::SingleSpace => self.byte(b' ', to),
            _ => self.space(to),
        }
    }

    /// Returns the entry of optional white space, by the policy.
    pub(super) fn space(&mut self, to: NfaId) -> NfaId {
        let Whitespace::Flexible { max } = self.policy.whitespace else { return to };
        let mut at = to;
        for _ in 0..max.clamp(1, 64) {
            let byte = self.lowering().class(&[(9, 10), (13, 13), (32, 32)], at);
            at = self.union(&[byte, to]);
        }
        at
    }

    /// Returns the entry of a gap of a markup, by the policy.
    pub(super) fn line(&mut self, gap: Gap, to: NfaId) -> NfaId {
        match (self.policy.whitespace, gap) {
            (whitespace, Gap::Comma) => {
                let is_flexible = matches!(whitespace, Whitespace::Flexible { .. });
                let spaced = if is_flexible { self.space(to) } else { self.byte(b' ', to) };
                self.byte(b',', spaced)
            }
            (Whitespace::Flexible { .. }, _) => self.space(to),
            (_, Gap::None) => to,
            (_, Gap::Line) => self.byte(b'\n', to),
            (_, Gap::MayLine) => {
                let line = self.byte(b'\n', to);
                self.union(&[line, to])
            }
        }
    }

    pub(super) fn no_items(&mut self, open: u8, close: u8) -> NfaId {
        let close = self.byte(close, ACCEPT);
        let inside = self.space(close);
        self.byte(open, inside)
    }

    /// Returns the entry of an array of any number of `item`s, or with `None` of the items that the
    /// register determines.
    pub(super) fn array(&mut self, item: Option<(RuleIx, RegisterIx)>) -> NfaId {
        let after = self.nfa.push(State::Dead, 0);
        let next = match item {
            Some((rule, register)) => self.nfa.push(State::Call(Call::Rule(rule, register, after)), 0),
            None => self.nfa.push(State::Call(Call::Item(after)), 0),
        };
        let close = self.byte(b']', ACCEPT);
        let spaced_next = self.gap(next);
        let comma = self.byte(b',', spaced_next);
        self.entries(b'[', (next, comma, close), after)
    }

    /// Returns the entry of a list: an opening bracket, then the first entry or the end. The state
    /// `after` an entry leads to further ones, or to the end.
    pub(super) fn entries(
        &mut self,
        open: u8,
        (first, again, close): (NfaId, NfaId, NfaId),
        after: NfaId,
    ) -> NfaId {
        let more = self.union(&[again, close]);
        let more = self.space(more);
        self.nfa.set(after, State::Union(&[more]));
        let first = self.union(&[first, close]);
        let first = self.space(first);
        self.byte(open, first)
    }
}
