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

use crate::constraint::Policy;
use crate::constraint::ir::{FreeNumber, Gap, Ir, Node, NodeId, RuleId, ToolSchema};
use crate::constraint::{KeyOrder, Whitespace};
use crate::error::{Error, ErrorKind, Result};

use super::alphabet::Alphabet;
use super::intern::{Interner, Nodes};
use super::lazy_dfa::LazyDfa;
use super::left_recursion::refuse_left_recursion;
use super::lower_regular::{Calls, MAX_NFA_STATES, RegularLowering, Value, too_complex};
use super::nfa::{ACCEPT, DEAD, Nfa, NfaId, RegisterIx, RuleIx, State};
use super::register::{Items, NameTrie, PropertyTable, Register, UniqueItems, UniqueName};
use super::scalars;
use super::tool_check::ToolCheck;
use crate::machine::liveness::{Liveness, StateRange, trim};
use crate::machine::properties::lower::Memory;

/// A lowered constraint. A program that others extend (see [`Program::base`]) keeps its ids in the
/// extension.
#[derive(Debug, Clone)]
pub struct Program {
    pub(super) nfa: Nfa,
    /// Deterministic states made so far.
    pub(super) dfa: LazyDfa,
    /// Start state of each rule.
    pub(super) starts: Vec<NfaId>,
    pub(super) registers: Vec<Register>,
    /// Rules that can match; the others are never called.
    rule_ok: Vec<bool>,
    /// Rule and register of the whole output.
    pub(super) root: (RuleIx, RegisterIx),
    /// True if the rules outside of the base call nothing.
    pub(super) flat: bool,
    /// The nodes of a base, and the rules of those that are values.
    interner: Arc<Interner>,
    rule_of_node: Arc<FxHashMap<NodeId, Value>>,
    alphabet: Arc<Alphabet>,
    policy: Policy,
    /// Tools whose schemas turned out to allow nothing.
    lost_tools: Vec<ToolSchema>,
}

/// The rule of a plain JSON string.
pub(super) const STRING: RuleIx = RuleIx(0);
const ANY: RuleIx = RuleIx(1);
/// The rule of a string without white space, which nothing calls: see
/// [`Machine::unspaced_body`](crate::machine::Machine::unspaced_body).
pub(super) const UNSPACED: RuleIx = RuleIx(2);
/// The rule of an object with any properties.
pub(super) const ANY_OBJECT: RuleIx = RuleIx(3);
/// A register that counts characters without a bound, for masks that depend on the count.
pub(super) const COUNTING: RegisterIx = 1;
/// A register for objects that remember only undeclared names.
pub(super) const MEMBERS: RegisterIx = 2;
/// A register for names of objects without declared ones.
pub(super) const FRESH: RegisterIx = 3;

/// Maximum number of rules of one grammar.
const MAX_RULES: usize = 500_000;

impl Program {
    /// Returns the minimum number of bytes after a comma or a colon.
    pub(super) fn min_separator_bytes(&self) -> u32 {
        self.policy.whitespace.min_separator_bytes()
    }

    /// Lowers the values that need no schema: strings, any JSON value, and the values of `common`.
    /// Others extend this program.
    pub fn base(policy: &Policy, alphabet: &[bool; 256], common: &Ir) -> Result<Program> {
        let mut program = Program {
            nfa: Nfa::default(),
            dfa: LazyDfa::default(),
            starts: vec![DEAD; 4],
            registers: vec![
                Register::None,
                Register::Chars { min: 0, max: u32::MAX - 1, lengths: None, raw: false },
                Register::Members(Arc::new(PropertyTable {
                    ordered: true,
                    covers: vec![(0, 0)],
                    ..PropertyTable::default()
                })),
                Register::Fresh(Arc::new(UniqueName { names: NameTrie::default(), open: true })),
            ],
            rule_ok: Vec::new(),
            root: (STRING, 0),
            flat: false,
            interner: Arc::default(),
            rule_of_node: Arc::default(),
            alphabet: Arc::new(Alphabet::new(alphabet)),
            policy: policy.clone(),
            lost_tools: Vec::new(),
        };
        program.starts[STRING.0 as usize] = scalars::plain_string(&mut program.nfa, &program.alphabet);
        program.starts[UNSPACED.0 as usize] = scalars::unspaced_string(&mut program.nfa, &program.alphabet);
        let mut interner = Interner::default();
        let root = interner.import(common)?;
        let string = interner.add(Node::JsonString { lang: None, min_chars: 0, max_chars: None });
        let any = interner.add(Node::JsonAny);
        let known = [(string, Some((STRING, 0))), (any, Some((ANY, 0)))];
        let lowered = program.lower(Nodes::of(&interner.ir), root, known, true)?;
        let Lowered { of_node, blocks, .. } = lowered;
        let rules = (0..).map(NodeId).zip(of_node).filter_map(|(node, value)| Some((node, value?)));
        program.rule_of_node = Arc::new(rules.collect());
        program.interner = Arc::new(interner);
        // In a vocabulary without quotes or braces some of these cannot match; that is no error
        // yet.
        let blocks = [&[StateRange { first: 2, trimmed: false }], &blocks[..]].concat();
        program.finish(2, 0, Some(&blocks));
        Ok(program)
    }

    /// Lowers a constraint on top of a base.
    ///
    /// # Errors
    ///
    /// Returns `Unsatisfiable` if nothing can match, `TooComplex` beyond the limits, and
    /// `Unsupported` for left recursion.
    pub fn extend(base: &Program, ir: &Ir) -> Result<Program> {
        let mut program = Program {
            nfa: base.nfa.with_room(ir.weight()),
            dfa: base.dfa.clone(),
            starts: base.starts.clone(),
            registers: base.registers.clone(),
            rule_ok: base.rule_ok.clone(),
            interner: base.interner.clone(),
            rule_of_node: base.rule_of_node.clone(),
            policy: base.policy.clone(),
            alphabet: base.alphabet.clone(),
            lost_tools: Vec::new(),
            ..*base
        };
        let (first_state, first_rule) = (program.nfa.len() as NfaId, program.starts.len());
        let merged = base.interner.merge(ir)?;
        let rule = |&(node, here)| Some((node, *base.rule_of_node.get(&here)?));
        let known = merged.based.iter().filter_map(rule);
        let Lowered { root, blocks, of_node } = program.lower(merged.nodes(ir), ir.root(), known, false)?;
        program.finish(first_state, first_rule, Some(&blocks));
        crate::machine::unique_items::feasible::check_feasible(&mut program, first_state, first_rule)?;
        let tools = ToolCheck { nodes: merged.nodes(ir), values: &of_node, rule_ok: &program.rule_ok };
        program.lost_tools = tools.lost(&ir.tools);
        if let Some(tool) = program.lost_tools.iter().find(|tool| !tool.skipped) {
            return Err(tool.impossible());
        }
        match root {
            Some(root) if program.rule_ok[root.0.0 as usize] => program.root = root,
            _ => {
                if let Some(tool) = program.lost_tools.first() {
                    return Err(tool.impossible());
                }
                return Err(Error::new(ErrorKind::Unsatisfiable, "no output can satisfy the constraint")
                    .hint(
                        "look for contradictory bounds, required properties that cannot exist, recursion \
                     without an end, or characters that the tokenizer does not have",
                    ));
            }
        }
        refuse_left_recursion(&program.nfa, &program.starts, first_rule)?;
        let calls = |s| {
            let state = program.nfa.state(s);
            matches!(state, State::Call { .. } | State::CallItem { .. } | State::CallFresh { .. })
        };
        // The root itself may be a rule of the base, which accepts only where nothing can follow in
        // it.
        program.flat = !(first_state..program.nfa.len() as NfaId).any(calls);
        Ok(program)
    }

    /// Makes every deterministic state of a base, so that extensions share them.
    pub fn determinise(&mut self) {
        for &start in &self.starts {
            self.dfa.start(&self.nfa, start);
        }
        let mut next = 0;
        while next < self.dfa.len() {
            self.dfa.ranges(&self.nfa, next as u32);
            for call in self.dfa.state(next as u32).calls.clone().iter() {
                self.dfa.start(&self.nfa, call.to());
            }
            next += 1;
        }
        self.dfa.freeze();
    }

    /// Returns the bytes of the automaton and its deterministic states.
    pub fn bytes(&self) -> usize {
        let registers = self.registers.iter().map(|r| size_of::<Register>() + r.bytes());
        self.nfa.bytes() + self.starts.len() * 4 + registers.sum::<usize>() + self.dfa.base_bytes()
    }

    /// Returns the tools whose schemas turned out to allow nothing.
    pub fn lost_tools(&self) -> &[ToolSchema] {
        &self.lost_tools
    }

    /// Returns the number of deterministic states.
    pub fn dfa_len(&self) -> usize {
        self.dfa.len()
    }

    /// Lowers the value of `root` and all that it needs; `known` are nodes whose values exist
    /// already. With `any`, also builds the rules of any JSON value.
    fn lower(
        &mut self,
        nodes: Nodes<'_>,
        root: NodeId,
        known: impl IntoIterator<Item = (NodeId, Value)>,
        any: bool,
    ) -> Result<Lowered> {
        let mut rules = Rules {
            ir: nodes,
            starts: std::mem::take(&mut self.starts),
            registers: std::mem::take(&mut self.registers),
            of_node: vec![None; nodes.len()],
            named: FxHashMap::default(),
            queue: Vec::new(),
            any_order: self.policy.key_order == KeyOrder::Any,
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
            nfa: &mut self.nfa,
            dfa: &mut self.dfa,
            alphabet: &self.alphabet,
            policy: &self.policy,
            blocks: Vec::new(),
        };
        let result = root.and_then(|root| build.drain().map(|()| root));
        let ProgramBuilder { rules: Rules { starts, registers, of_node, .. }, blocks, .. } = build;
        (self.starts, self.registers) = (starts, registers);
        Ok(Lowered { root: result?, of_node, blocks })
    }

    /// Decides liveness again, after something was found that cannot match.
    pub(super) fn recompute_liveness(&mut self, first_state: NfaId, first_rule: usize) {
        self.rule_ok.truncate(first_rule);
        self.finish(first_state, first_rule, None);
    }

    /// Decides liveness of the new states, trims them, and notes the rules that can match. `blocks`
    /// are the states as they were made, or `None` if some were replaced.
    fn finish(&mut self, first_state: NfaId, first_rule: usize, blocks: Option<&[StateRange]>) {
        let known = &self.rule_ok[..first_rule];
        let solver = Liveness::solve(&self.nfa, &self.starts, &self.registers, first_state, known, blocks);
        let ok =
            (first_rule..self.starts.len()).map(|r| solver.matches(RuleIx(r as u32))).collect::<Vec<_>>();
        let (live, changed) = solver.result();
        trim(&mut self.nfa, first_state, &live);
        for (register, new) in changed {
            self.registers[register as usize] = new;
        }
        self.rule_ok.extend(ok);
    }
}

/// The result of lowering a constraint.
struct Lowered {
    root: Value,
    /// The values of the nodes that needed one.
    of_node: Vec<Option<Value>>,
    /// The states of each rule.
    blocks: Vec<StateRange>,
}

/// A rule that is still to be built.
enum Job {
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
    of_node: Vec<Option<Value>>,
    named: FxHashMap<RuleId, RuleIx>,
    queue: Vec<Job>,
    pub any_order: bool,
}

impl Rules<'_> {
    pub fn new_rule(&mut self) -> Result<RuleIx> {
        if self.starts.len() >= MAX_RULES {
            return Err(too_complex("rules", MAX_RULES));
        }
        self.starts.push(DEAD);
        Ok(RuleIx(self.starts.len() as u32 - 1))
    }

    pub fn new_register(&mut self, register: Register) -> RegisterIx {
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

    fn string(&mut self, lang: Option<NodeId>, min: u32, max: Option<u32>) -> Result<Value> {
        let max = max.unwrap_or(u32::MAX);
        if max < min {
            return Ok(None);
        }
        let free = (min, max) == (0, u32::MAX);
        let chars = Register::Chars { min, max, lengths: None, raw: false };
        let register = if free { 0 } else { self.new_register(chars) };
        let Some(lang) = lang else { return Ok(Some((STRING, register))) };
        let rule = self.new_rule()?;
        self.queue.push(Job::Text { rule, lang, register, bounds: (min, max), raw: false });
        Ok(Some((rule, register)))
    }

    fn raw_text(&mut self, lang: NodeId, min: u32, max: Option<u32>) -> Result<Value> {
        let max = max.unwrap_or(u32::MAX);
        if max < min {
            return Ok(None);
        }
        let register = self.new_register(Register::Chars { min, max, lengths: None, raw: true });
        let rule = self.new_rule()?;
        self.queue.push(Job::Text { rule, lang, register, bounds: (min, max), raw: true });
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
            Node::JsonString { lang, min_chars, max_chars } => self.string(*lang, *min_chars, *max_chars)?,
            Node::Text { lang, min_chars, max_chars } => self.raw_text(*lang, *min_chars, *max_chars)?,
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
                let register = match crate::machine::properties::lower::memory(ir, node, self.any_order) {
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
    blocks: Vec<StateRange>,
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

    pub fn lowering(&mut self) -> RegularLowering<'_> {
        RegularLowering::new(self.rules.ir, self.nfa, self.alphabet, false)
    }

    pub fn byte(&mut self, b: u8, to: NfaId) -> NfaId {
        self.lowering().byte(b, to, 0)
    }

    pub fn union(&mut self, parts: &[NfaId]) -> NfaId {
        self.lowering().union(parts)
    }

    pub fn call(&mut self, value: Value, to: NfaId) -> NfaId {
        match value {
            Some((rule, register)) if to != DEAD => self.nfa.push(State::Call { rule, register, to }, 0),
            _ => DEAD,
        }
    }

    /// Returns the entry of the white space after a comma or a colon, by the policy.
    pub fn gap(&mut self, to: NfaId) -> NfaId {
        match self.policy.whitespace {
            Whitespace::SingleSpace => self.byte(b' ', to),
            _ => self.space(to),
        }
    }

    /// Returns the entry of optional white space, by the policy.
    pub fn space(&mut self, to: NfaId) -> NfaId {
        let Whitespace::Flexible { max } = self.policy.whitespace else { return to };
        let mut at = to;
        for _ in 0..max.clamp(1, 64) {
            let byte = self.lowering().class(&[(9, 10), (13, 13), (32, 32)], at);
            at = self.union(&[byte, to]);
        }
        at
    }

    /// Returns the entry of a gap of a markup, by the policy.
    pub fn line(&mut self, gap: Gap, to: NfaId) -> NfaId {
        match (self.policy.whitespace, gap) {
            (Whitespace::Flexible { .. }, _) => self.space(to),
            (_, Gap::None) => to,
            (_, Gap::Line) => self.byte(b'\n', to),
            (_, Gap::MayLine) => {
                let line = self.byte(b'\n', to);
                self.union(&[line, to])
            }
        }
    }

    fn no_items(&mut self, open: u8, close: u8) -> NfaId {
        let close = self.byte(close, ACCEPT);
        let inside = self.space(close);
        self.byte(open, inside)
    }

    /// Returns the entry of an array of any number of `item`s, or with `None` of the items that the
    /// register determines.
    fn array(&mut self, item: Option<(RuleIx, RegisterIx)>) -> NfaId {
        let after = self.nfa.push(State::Dead, 0);
        let next = match item {
            Some((rule, register)) => self.nfa.push(State::Call { rule, register, to: after }, 0),
            None => self.nfa.push(State::CallItem { to: after }, 0),
        };
        let close = self.byte(b']', ACCEPT);
        let spaced_next = self.gap(next);
        let comma = self.byte(b',', spaced_next);
        let more = self.union(&[comma, close]);
        let more = self.space(more);
        self.nfa.set(after, State::Union(&[more]));
        let first = self.union(&[next, close]);
        let first = self.space(first);
        self.byte(b'[', first)
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
