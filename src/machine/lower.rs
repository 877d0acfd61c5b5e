//! From the representation to a program: rules, registers and one arena of states.
//!
//! Every JSON value becomes a rule of its own, called where it may stand, so that equal values share
//! their states wherever they occur and recursion needs no unrolling. Objects are linear in the
//! number of their properties: an optional property is a fork, not a doubling. Rules are lowered from
//! a queue; nesting of the schema costs no stack. Cost: one pass over the representation plus one
//! over the states (liveness).

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::constraint::Policy;
use crate::constraint::ir::{Demand, Extra, Ir, MAX_DEMANDS, Node, NodeId, Property, RuleId};
use crate::constraint::policy::Whitespace;
use crate::error::{Error, ErrorKind, Result};

use super::dfa::{Call, Dfa};
use super::intern::Interner;
use super::liveness::{Liveness, trim};
use super::nfa::{ACCEPT, DEAD, Nfa, NfaId, RegisterIx, RuleIx, State};
use super::recursion::refuse_left_recursion;
use super::register::{Items, NameTrie, Register};
use super::regular::{Calls, Lowering, MAX_NFA_STATES, Value, escape, push_escaped, too_complex};
use super::text;

/// A lowered constraint. The tables of a program that others extend (see `Program::base`) keep their
/// ids in the extension.
#[derive(Debug, Clone)]
pub struct Program {
    pub(super) nfa: Nfa,
    /// Deterministic states made so far.
    pub(super) dfa: Dfa,
    /// Start state of each rule.
    pub(super) starts: Vec<NfaId>,
    pub(super) registers: Vec<Register>,
    /// Which rules can match; the others are never called.
    rule_ok: Vec<bool>,
    /// What the whole output must match.
    pub(super) root: (RuleIx, RegisterIx),
    /// Whether the rules that the base does not have call nothing.
    pub(super) flat: bool,
    interner: Interner,
    rule_of_node: FxHashMap<NodeId, Value>,
    alphabet: [bool; 256],
    policy: Policy,
}

/// The rule of a plain JSON string.
pub(super) const STRING: RuleIx = RuleIx(0);
const ANY: RuleIx = RuleIx(1);
/// The rule of a string without white space, which nothing calls: see `Machine::class_body`.
pub(super) const UNSPACED: RuleIx = RuleIx(2);
/// A register that counts characters without a bound, for masks that depend on the count.
pub(super) const COUNTING: RegisterIx = 1;

/// Most rules of one grammar.
const MAX_RULES: usize = 500_000;

impl Program {
    /// The program of the values that need no schema: strings, any JSON value, and whatever else is
    /// given as `common`. Others extend it.
    pub fn base(policy: &Policy, alphabet: &[bool; 256], common: &Ir) -> Result<Program> {
        let mut program = Program {
            nfa: Nfa::default(),
            dfa: Dfa::default(),
            starts: vec![DEAD; 3],
            registers: vec![Register::None, Register::Chars { min: 0, max: u32::MAX - 1, lengths: None }],
            rule_ok: Vec::new(),
            root: (STRING, 0),
            flat: false,
            interner: Interner::default(),
            rule_of_node: FxHashMap::default(),
            alphabet: *alphabet,
            policy: policy.clone(),
        };
        program.starts[STRING.0 as usize] = text::plain_string(&mut program.nfa, alphabet);
        program.starts[UNSPACED.0 as usize] = text::unspaced_string(&mut program.nfa, alphabet);
        let root = program.interner.import(common)?;
        program.seed(Node::JsonString { lang: None, min_chars: 0, max_chars: None }, STRING)?;
        let any = program.seed(Node::JsonAny, ANY)?;
        let (_, blocks) = program.lower(&[root, any], Some(any))?;
        // In a vocabulary without quotes or braces some of these cannot match; that is no error yet.
        let blocks = [&[2], &blocks[..]].concat();
        program.finish(2, 0, &blocks);
        Ok(program)
    }

    /// Lowers a constraint on top of a base.
    ///
    /// # Errors
    /// `Unsatisfiable` if nothing can match, `TooComplex` beyond the limits, `Unsupported` for left
    /// recursion.
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
            ..*base
        };
        let (first_state, first_rule) = (program.nfa.len() as NfaId, program.starts.len());
        let root = program.interner.import(ir)?;
        let (root, blocks) = program.lower(&[root], None)?;
        program.finish(first_state, first_rule, &blocks);
        match root {
            Some(root) if program.rule_ok[root.0.0 as usize] => program.root = root,
            _ => {
                return Err(Error::new(ErrorKind::Unsatisfiable, "no output can satisfy the constraint")
                    .hint(
                        "look for contradictory bounds, required properties that cannot exist, recursion \
                     without an end, or characters that the tokenizer does not have",
                    ));
            }
        }
        refuse_left_recursion(&program.nfa, &program.starts, first_rule)?;
        let calls = |s| matches!(program.nfa.state(s), State::Call { .. } | State::CallItem { .. });
        // The root itself may be a rule of the base, which accepts only where nothing can follow in it.
        program.flat = !(first_state..program.nfa.len() as NfaId).any(calls);
        Ok(program)
    }

    /// Works out every deterministic state of a base, so that extensions share them.
    pub fn determinise(&mut self) {
        for &start in &self.starts {
            self.dfa.start(&self.nfa, start);
        }
        let mut next = 0;
        while next < self.dfa.len() {
            self.dfa.ranges(&self.nfa, next as u32);
            for call in self.dfa.state(next as u32).calls.clone().iter() {
                let (Call::Rule(_, _, to) | Call::Item(to)) = *call;
                self.dfa.start(&self.nfa, to);
            }
            next += 1;
        }
        self.dfa.freeze();
    }

    /// Number of deterministic states.
    pub fn dfa_len(&self) -> usize {
        self.dfa.len()
    }

    /// Lowers the values of `nodes` and all they need; returns the rule of the first. `any` is the
    /// node of any JSON value while the base is built. Also the first state of each rule.
    fn lower(&mut self, nodes: &[NodeId], any: Option<NodeId>) -> Result<(Value, Vec<NfaId>)> {
        let interner = std::mem::take(&mut self.interner);
        let mut rules = Rules {
            ir: &interner.ir,
            starts: std::mem::take(&mut self.starts),
            registers: std::mem::take(&mut self.registers),
            of_node: std::mem::take(&mut self.rule_of_node),
            named: FxHashMap::default(),
            queue: Vec::new(),
        };
        let mut values = Vec::new();
        let mut result = Ok(());
        if any.is_some() {
            rules.queue.push(Job::Any);
        }
        for &node in nodes {
            match rules.value(node) {
                Ok(value) => values.push(value),
                Err(e) => result = Err(e),
            }
        }
        let mut build = Build {
            rules,
            nfa: &mut self.nfa,
            dfa: &mut self.dfa,
            alphabet: &self.alphabet,
            whitespace: self.policy.whitespace,
            policy: &self.policy,
            blocks: Vec::new(),
        };
        let result = result.and_then(|()| build.drain());
        let blocks = build.blocks;
        let rules = build.rules;
        self.starts = rules.starts;
        self.registers = rules.registers;
        self.rule_of_node = rules.of_node;
        self.interner = interner;
        result?;
        Ok((values.into_iter().next().flatten(), blocks))
    }

    fn seed(&mut self, node: Node, rule: RuleIx) -> Result<NodeId> {
        let mut ir = Ir::new();
        let root = ir.push(node);
        ir.set_root(root);
        let id = self.interner.import(&ir)?;
        self.rule_of_node.insert(id, Some((rule, 0)));
        Ok(id)
    }

    /// Decides liveness of what is new, trims it, and notes which rules can match.
    fn finish(&mut self, first_state: NfaId, first_rule: usize, blocks: &[NfaId]) {
        let known = &self.rule_ok[..first_rule];
        let solver = Liveness::solve(&self.nfa, &self.starts, &self.registers, first_state, known, blocks);
        let ok =
            (first_rule..self.starts.len()).map(|r| solver.matches(RuleIx(r as u32))).collect::<Vec<_>>();
        let (live, arrays) = solver.result();
        trim(&mut self.nfa, first_state, &live);
        for (register, items) in arrays {
            self.registers[register as usize] = Register::Items(items);
        }
        self.rule_ok.extend(ok);
    }
}

/// A rule that is still to be built.
enum Job {
    /// Any JSON value and its containers.
    Any,
    /// The body of an IR node.
    Body(RuleIx, NodeId),
    /// A rule of the IR: whatever its body is, called.
    Named(RuleIx, NodeId),
    /// An array whose items its register names.
    CountedArray(RuleIx),
    /// A string whose text lies in a language, between a number of characters.
    Text { rule: RuleIx, lang: NodeId, register: RegisterIx, min: u32, max: u32 },
}

/// Which rules there are, and which are still to be built.
struct Rules<'a> {
    ir: &'a Ir,
    starts: Vec<NfaId>,
    registers: Vec<Register>,
    of_node: FxHashMap<NodeId, Value>,
    named: FxHashMap<RuleId, RuleIx>,
    queue: Vec<Job>,
}

impl Rules<'_> {
    fn new_rule(&mut self) -> Result<RuleIx> {
        if self.starts.len() >= MAX_RULES {
            return Err(too_complex("rules", MAX_RULES));
        }
        self.starts.push(DEAD);
        Ok(RuleIx(self.starts.len() as u32 - 1))
    }

    fn new_register(&mut self, register: Register) -> RegisterIx {
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
        let register = if free { 0 } else { self.new_register(Register::Chars { min, max, lengths: None }) };
        let Some(lang) = lang else { return Ok(Some((STRING, register))) };
        let rule = self.new_rule()?;
        self.queue.push(Job::Text { rule, lang, register, min, max });
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
        // Known before its items are looked at: they may contain the array itself.
        let register = self.new_register(Register::None);
        self.of_node.insert(node, Some((rule, register)));
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
    /// The rule that matches `node` alone, made known but not yet built.
    fn value(&mut self, node: NodeId) -> Result<Value> {
        if let Some(&known) = self.of_node.get(&node) {
            return Ok(known);
        }
        let ir = self.ir;
        let value = match ir.node(node) {
            Node::Never => None,
            Node::Rule(rule) => Some((self.named_rule(*rule)?, 0)),
            Node::JsonString { lang, min_chars, max_chars } => self.string(*lang, *min_chars, *max_chars)?,
            Node::JsonArray { prefix, rest, min, max } if !prefix.is_empty() || *min > 0 || max.is_some() => {
                self.counted_array(node, prefix, *rest, (*min, *max))?
            }
            _ => {
                let rule = self.new_rule()?;
                self.queue.push(Job::Body(rule, node));
                Some((rule, 0))
            }
        };
        self.of_node.insert(node, value);
        Ok(value)
    }
}

/// Building under way.
struct Build<'a> {
    rules: Rules<'a>,
    nfa: &'a mut Nfa,
    dfa: &'a mut Dfa,
    alphabet: &'a [bool; 256],
    whitespace: Whitespace,
    policy: &'a Policy,
    /// The first state of each job.
    blocks: Vec<NfaId>,
}

impl Build<'_> {
    fn drain(&mut self) -> Result<()> {
        while let Some(job) = self.rules.queue.pop() {
            if self.nfa.len() > MAX_NFA_STATES {
                return Err(too_complex("automaton states", MAX_NFA_STATES));
            }
            self.blocks.push(self.nfa.len() as NfaId);
            match job {
                Job::Any => self.any_value()?,
                Job::Body(rule, node) => {
                    let start = self.body(node)?;
                    self.rules.starts[rule.0 as usize] = start;
                }
                Job::Named(rule, node) => {
                    let ir = self.rules.ir;
                    let mut lowering =
                        Lowering { ir, nfa: self.nfa, alphabet: self.alphabet, escaped: false };
                    let start = lowering.node(&mut self.rules, node, ACCEPT, 0)?;
                    self.rules.starts[rule.0 as usize] = start;
                }
                Job::CountedArray(rule) => {
                    let start = self.array(None);
                    self.rules.starts[rule.0 as usize] = start;
                }
                Job::Text { rule, lang, register, min, max } => self.text(rule, lang, register, min, max)?,
            }
        }
        Ok(())
    }

    fn text(&mut self, rule: RuleIx, lang: NodeId, register: RegisterIx, min: u32, max: u32) -> Result<()> {
        let from = self.nfa.len() as NfaId;
        let start = text::string_of(self.nfa, self.alphabet, self.rules.ir, lang)?;
        if start == DEAD {
            return Ok(());
        }
        if register != 0 {
            let found = text::lengths(self.nfa, self.dfa, (from, start), (min, max))?;
            let Some((min, max, lengths)) = found else { return Ok(()) };
            let lengths = Some(Arc::new(lengths));
            self.rules.registers[register as usize] = Register::Chars { min, max, lengths };
        }
        self.rules.starts[rule.0 as usize] = start;
        Ok(())
    }

    /// The start state of a rule for `node`.
    fn body(&mut self, node: NodeId) -> Result<NfaId> {
        let ir = self.rules.ir;
        match ir.node(node) {
            Node::JsonArray { rest, .. } => {
                let rest = rest.map(|r| self.rules.value(r)).transpose()?.flatten();
                match rest {
                    Some(item) => Ok(self.array(Some(item))),
                    None => Ok(self.no_items(b'[', b']')),
                }
            }
            Node::JsonObject { properties, extra, demand } => self.object(properties, extra, demand),
            _ => {
                let mut lowering = Lowering { ir, nfa: self.nfa, alphabet: self.alphabet, escaped: false };
                lowering.node(&mut self.rules, node, ACCEPT, 0)
            }
        }
    }

    fn lowering(&mut self) -> Lowering<'_> {
        Lowering { ir: self.rules.ir, nfa: self.nfa, alphabet: self.alphabet, escaped: false }
    }

    fn byte(&mut self, b: u8, to: NfaId) -> NfaId {
        self.lowering().byte(b, to, 0)
    }

    fn union(&mut self, parts: &[NfaId]) -> NfaId {
        self.lowering().union(parts)
    }

    fn call(&mut self, value: Value, to: NfaId) -> NfaId {
        match value {
            Some((rule, register)) if to != DEAD => self.nfa.push(State::Call { rule, register, to }, 0),
            _ => DEAD,
        }
    }

    /// Optional whitespace, as the policy has it.
    fn space(&mut self, to: NfaId) -> NfaId {
        let Whitespace::Flexible { max } = self.whitespace else { return to };
        let mut at = to;
        for _ in 0..max.clamp(1, 64) {
            let byte = self.lowering().class(&[(9, 10), (13, 13), (32, 32)], at);
            at = self.union(&[byte, to]);
        }
        at
    }

    fn no_items(&mut self, open: u8, close: u8) -> NfaId {
        let close = self.byte(close, ACCEPT);
        let inside = self.space(close);
        self.byte(open, inside)
    }

    /// An array of any number of `item`s, or (`None`) of the items that the register says.
    fn array(&mut self, item: Option<(RuleIx, RegisterIx)>) -> NfaId {
        let after = self.nfa.push(State::Dead, 0);
        let next = match item {
            Some((rule, register)) => self.nfa.push(State::Call { rule, register, to: after }, 0),
            None => self.nfa.push(State::CallItem { to: after }, 0),
        };
        let close = self.byte(b']', ACCEPT);
        let spaced_next = self.space(next);
        let comma = self.byte(b',', spaced_next);
        let more = self.union(&[comma, close]);
        let more = self.space(more);
        self.nfa.set(after, State::Union(&[more]));
        let first = self.union(&[next, close]);
        let first = self.space(first);
        self.byte(b'[', first)
    }

    /// `"name":value` and then `to`.
    fn member(&mut self, key: &[u8], value: Value, to: NfaId) -> NfaId {
        let value = self.call(value, to);
        let value = self.space(value);
        let colon = self.byte(b':', value);
        let colon = self.space(colon);
        self.lowering().bytes(key, colon)
    }

    /// Undeclared properties, entered where the first one may start; `names` must not be spelled.
    fn extras(&mut self, names: &[&[u8]], extra: &[Extra], close: NfaId) -> Result<NfaId> {
        let after = self.nfa.push(State::Dead, 0);
        let first = self.undeclared(names, extra.iter().map(|e| (e, 0)), &[after])?;
        let spaced = self.space(first);
        let comma = self.byte(b',', spaced);
        let more = self.union(&[comma, close]);
        let more = self.space(more);
        self.nfa.set(after, State::Union(&[more]));
        Ok(first)
    }

    /// Undeclared properties that must meet conditions; `extras` is the entry of those behind the last
    /// that did. One loop for each set of conditions that are met.
    fn demanded(
        &mut self,
        names: &[&[u8]],
        extra: &[Extra],
        demand: &[Demand],
        extras: NfaId,
        close: NfaId,
    ) -> Result<NfaId> {
        let all = demand.iter().fold(0, |all, d| all | d.meets);
        if all >= 1 << MAX_DEMANDS {
            return Err(too_complex("conditions on undeclared properties", MAX_DEMANDS as usize));
        }
        // What follows a property, by the conditions that are met then.
        let mut after = vec![DEAD; all as usize + 1];
        let mut first = extras;
        for met in (0..=all).rev().filter(|met| met & !all == 0) {
            if met < all {
                after[met as usize] = self.nfa.push(State::Dead, 0);
                let same = extra.iter().map(|e| (e, met));
                let new = demand.iter().filter(|d| d.meets & !met != 0);
                let entries = same.chain(new.map(|d| (&d.entry, met | d.meets)));
                first = self.undeclared(names, entries, &after)?;
            }
            let spaced = self.space(first);
            let comma = self.byte(b',', spaced);
            let more = self.union(&[comma, if met == all { close } else { DEAD }]);
            let more = self.space(more);
            match met == all {
                true => after[met as usize] = more,
                false => self.nfa.set(after[met as usize], State::Union(&[more])),
            }
        }
        Ok(first)
    }

    /// One of these undeclared properties, each followed by the state of its number.
    fn undeclared<'e>(
        &mut self,
        names: &[&[u8]],
        entries: impl Iterator<Item = (&'e Extra, u32)>,
        after: &[NfaId],
    ) -> Result<NfaId> {
        let mut starts = Vec::new();
        for (entry, to) in entries {
            let value = self.rules.value(entry.value)?;
            let value = self.call(value, after[to as usize]);
            let value = self.space(value);
            let colon = self.byte(b':', value);
            let colon = self.space(colon);
            let key = self.extra_key(names, entry.keys)?;
            starts.push(self.call(key, colon));
        }
        Ok(self.union(&starts))
    }

    fn extra_key(&mut self, names: &[&[u8]], keys: Option<NodeId>) -> Result<Value> {
        match keys {
            None if names.is_empty() => Ok(Some((STRING, 0))),
            None => {
                let trie = NameTrie::new(names.iter().copied());
                Ok(Some((STRING, self.rules.new_register(Register::Names(Arc::new(trie))))))
            }
            Some(lang) => {
                let mut start = text::string_of(self.nfa, self.alphabet, self.rules.ir, lang)?;
                if !names.is_empty() && start != DEAD {
                    let trie = NameTrie::new(names.iter().copied());
                    start = text::without_names(self.nfa, self.dfa, start, &trie)?;
                }
                let rule = self.rules.new_rule()?;
                self.rules.starts[rule.0 as usize] = start;
                Ok(Some((rule, 0)))
            }
        }
    }

    /// A closed or open object: one fork per optional property.
    fn object(&mut self, properties: &[Property], extra: &[Extra], demand: &[Demand]) -> Result<NfaId> {
        let close = self.byte(b'}', ACCEPT);
        let extras = match (extra, demand) {
            ([], []) => DEAD,
            _ => {
                let spelled: Vec<Vec<u8>> = properties.iter().map(|p| escape(&p.name)).collect();
                let names: Vec<&[u8]> = spelled.iter().map(Vec::as_slice).collect();
                let extras = if extra.is_empty() { DEAD } else { self.extras(&names, extra, close)? };
                if demand.is_empty() { extras } else { self.demanded(&names, extra, demand, extras, close)? }
            }
        };
        // The object ends among the undeclared properties if one of them must be there.
        let close = if demand.is_empty() { close } else { DEAD };
        // `fresh`: nothing written so far; `more`: something is. Both from the last property back.
        let mut fresh = self.union(&[extras, close]);
        let spaced = self.space(extras);
        let comma = self.byte(b',', spaced);
        let mut more = self.union(&[comma, close]);
        let mut key = Vec::new();
        for property in properties.iter().rev() {
            let value = self.rules.value(property.value)?;
            let after = self.space(more);
            key.clear();
            key.push(b'"');
            push_escaped(&property.name, &mut key);
            key.push(b'"');
            let member = self.member(&key, value, after);
            let spaced = self.space(member);
            let comma = self.byte(b',', spaced);
            (fresh, more) = if property.required {
                (member, comma)
            } else {
                (self.union(&[member, fresh]), self.union(&[comma, more]))
            };
        }
        let inside = self.space(fresh);
        Ok(self.byte(b'{', inside))
    }

    /// Any JSON value: the rules that every open schema shares.
    fn any_value(&mut self) -> Result<()> {
        let any = Some((ANY, 0));
        let array = self.array(any);
        let close = self.byte(b'}', ACCEPT);
        let after = self.nfa.push(State::Dead, 0);
        let value = self.call(any, after);
        let value = self.space(value);
        let colon = self.byte(b':', value);
        let colon = self.space(colon);
        let key = self.call(Some((STRING, 0)), colon);
        let spaced = self.space(key);
        let comma = self.byte(b',', spaced);
        let more = self.union(&[comma, close]);
        let more = self.space(more);
        self.nfa.set(after, State::Union(&[more]));
        let first = self.union(&[key, close]);
        let first = self.space(first);
        let object = self.byte(b'{', first);
        let string = self.call(Some((STRING, 0)), ACCEPT);
        let number = text::any_number(self.nfa, self.alphabet, self.policy)?;
        let words = [&b"null"[..], b"true", b"false"].map(|w| self.lowering().bytes(w, ACCEPT));
        let mut parts = vec![array, object, string, number];
        parts.extend(words);
        let start = self.union(&parts);
        self.rules.starts[ANY.0 as usize] = start;
        Ok(())
    }
}
