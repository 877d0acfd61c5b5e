//! Lowering of a constraint to a program: rules, registers and one arena of states.
//!
//! Every JSON value becomes a rule of its own, called wherever it may occur. Equal values share
//! their states, and recursion needs no unrolling. Objects are linear in the number of their
//! properties: an optional property is a fork, not a doubling. Rules are lowered from a queue, so
//! nesting of the schema costs no stack.
//!
//! # Cost
//!
//! One pass over the representation and one over the states (liveness).

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::constraint::KeyOrder;
use crate::constraint::ir::{FreeNumber, Node, NodeId};
use crate::error::Result;

use super::builder::{Job, ProgramBuilder, Rules};
use super::intern::Nodes;
use super::liveness::StateRange;
use super::lower_regular::{Calls, MAX_NFA_STATES, RegularLowering, Value, too_complex};
use super::nfa::{ACCEPT, DEAD, NfaId, RegisterIx, RuleIx};
use super::program::{ANY, ANY_OBJECT, MEMBERS, Program, STRING};
use super::register::{Register, UniqueItems};
use super::scalars;

/// The result of lowering a constraint.
pub(super) struct Lowered {
    pub root: Value,
    /// The values of the nodes that needed one.
    pub of_node: Vec<Option<Value>>,
    /// The states of each rule.
    pub blocks: Vec<StateRange>,
}

/// Lowers the value of `root` and all that it needs; `known` are nodes whose values exist
/// already. With `any`, also builds the rules of any JSON value.
pub(super) fn lower(
    program: &mut Program,
    nodes: Nodes<'_>,
    root: NodeId,
    known: impl IntoIterator<Item = (NodeId, Value)>,
    any: bool,
) -> Result<Lowered> {
    let mut rules = Rules {
        ir: nodes,
        starts: std::mem::take(&mut program.starts),
        registers: std::mem::take(&mut program.registers),
        of_node: vec![None; nodes.len()],
        named: FxHashMap::default(),
        queue: Vec::new(),
        any_order: program.policy.key_order == KeyOrder::Any,
    };
    for (node, value) in known {
        rules.of_node[node.0 as usize] = Some(value);
    }
    if any {
        rules.queue.push(Job::Any);
    }
    let root = rules.value(root);
    let mut build = ProgramBuilder {
        rules,
        nfa: &mut program.nfa,
        dfa: &mut program.dfa,
        alphabet: &program.alphabet,
        policy: &program.policy,
        blocks: Vec::new(),
    };
    let result = root.and_then(|root| build.drain().map(|()| root));
    let ProgramBuilder { rules: Rules { starts, registers, of_node, .. }, blocks, .. } = build;
    (program.starts, program.registers) = (starts, registers);
    Ok(Lowered { root: result?, of_node, blocks })
}

impl ProgramBuilder<'_> {
    fn drain(&mut self) -> Result<()> {
        while let Some(job) = self.rules.queue.pop() {
            if self.nfa.len() > MAX_NFA_STATES {
                return Err(too_complex("automaton states", MAX_NFA_STATES));
            }
            let trimmed = matches!(job, Job::Text { .. });
            self.blocks.push(StateRange { first: self.nfa.len() as NfaId, trimmed });
            match job {
                Job::Any => self.any_value()?,
                Job::Body(rule, node, register) => {
                    let start = self.body(node, (rule, register))?;
                    self.rules.starts[rule.0 as usize] = start;
                }
                Job::Named(rule, node) => {
                    let ir = self.rules.ir;
                    let mut lowering = RegularLowering::new(ir, self.nfa, self.alphabet, false);
                    let start = lowering.node(&mut self.rules, node, ACCEPT, 0)?;
                    self.rules.starts[rule.0 as usize] = start;
                }
                Job::Distinct(rule, node, register) => self.distinct(rule, node, register)?,
                Job::CountedArray(rule) => {
                    let start = self.array(None);
                    self.rules.starts[rule.0 as usize] = start;
                }
                Job::Text { rule, lang, register, bounds, raw } => {
                    self.text((rule, register), lang, bounds, raw)?;
                }
            }
        }
        Ok(())
    }

    /// Builds the rule around that of an array, for its scope.
    fn distinct(&mut self, rule: RuleIx, node: NodeId, register: RegisterIx) -> Result<()> {
        let Node::JsonUnique { array, enough } = self.rules.ir.node(node) else { return Ok(()) };
        let array = self.rules.value(*array)?;
        let kind = |(node, count): &(NodeId, u32)| Ok((self.rules.value(*node)?, *count));
        let enough = enough.iter().map(kind).collect::<Result<Vec<_>>>()?;
        self.rules.starts[rule.0 as usize] = self.call(array, ACCEPT);
        let distinct = UniqueItems { rule, array, enough, few: Vec::new() };
        self.rules.registers[register as usize] = Register::Distinct(Arc::new(distinct));
        Ok(())
    }

    fn text(
        &mut self,
        (rule, register): (RuleIx, RegisterIx),
        lang: NodeId,
        bounds: (u32, u32),
        raw: bool,
    ) -> Result<()> {
        let from = self.nfa.len() as NfaId;
        let (alphabet, ir) = (self.alphabet, self.rules.ir);
        let start = match raw {
            true => scalars::text_of(self.nfa, alphabet, ir, lang, "")?,
            false => scalars::string_of(self.nfa, alphabet, ir, lang)?,
        };
        if start == DEAD {
            return Ok(());
        }
        if register != 0 {
            let found = scalars::lengths(self.nfa, self.dfa, (from, start), bounds, raw)?;
            let Some((min, max, lengths)) = found else { return Ok(()) };
            let lengths = Some(Arc::new(lengths));
            self.rules.registers[register as usize] = Register::Chars { min, max, lengths, raw };
        }
        self.rules.starts[rule.0 as usize] = start;
        Ok(())
    }

    /// Returns the start state of a rule for `node`.
    fn body(&mut self, node: NodeId, own: (RuleIx, RegisterIx)) -> Result<NfaId> {
        let ir = self.rules.ir;
        match ir.node(node) {
            Node::JsonArray { rest, .. } => {
                let rest = rest.map(|r| self.rules.value(r)).transpose()?.flatten();
                match rest {
                    Some(item) => Ok(self.array(Some(item))),
                    None => Ok(self.no_items(b'[', b']')),
                }
            }
            Node::JsonObject(object) => self.object(object, own),
            Node::JsonNumber(numbers) => scalars::free_number(self.nfa, self.alphabet, *numbers),
            Node::JsonSet { item, min, max } => self.set(*item, (*min, *max), own),
            _ => {
                let mut lowering = RegularLowering::new(ir, self.nfa, self.alphabet, false);
                lowering.node(&mut self.rules, node, ACCEPT, 0)
            }
        }
    }

    /// Builds any JSON value: the rules that every open schema shares.
    fn any_value(&mut self) -> Result<()> {
        let any = Some((ANY, 0));
        let array = self.array(any);
        let object = self.any_object(any);
        self.rules.starts[ANY_OBJECT.0 as usize] = object;
        let object = self.call(Some((ANY_OBJECT, MEMBERS)), ACCEPT);
        let string = self.call(Some((STRING, 0)), ACCEPT);
        let number =
            scalars::free_number(self.nfa, self.alphabet, FreeNumber::new(false, false, self.policy))?;
        let words = [&b"null"[..], b"true", b"false"].map(|w| self.lowering().bytes(w, ACCEPT));
        let mut parts = vec![array, object, string, number];
        parts.extend(words);
        let start = self.union(&parts);
        self.rules.starts[ANY.0 as usize] = start;
        Ok(())
    }
}
