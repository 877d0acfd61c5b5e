//! Threads, stacks and configurations of the machine, and its steps.
//!
//! A *thread* is a local state (deterministic state and register) on a stack of return frames. A
//! *configuration* is the set of threads that are alive after some bytes, usually one or two.
//! Stacks are hash-consed from the bottom, and a stack node holds a *set* of frames. Alternatives
//! that enter the same rule at the same position share the node (a graph-structured stack, Tomita
//! 1985). So the number of threads stays linear in the nesting.
//!
//! Configurations are interned as numbers. A schema without recursion has finitely many, and the
//! machine is a lazily flattened automaton. A rollback is the return to an older number.

mod new;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::byte_set::ByteSet;

use super::lazy_dfa::{Call, DEAD_STATE, DfaId, LazyDfa};
use super::lower::{COUNTING, STRING, UNSPACED};
use super::nfa::{Nfa, NfaId, RegisterIx, RuleIx, TEXT};
use super::register::Register;
use super::scalars::begins_char;
use crate::machine::properties::seen_names::{NO_TEXT, SeenNames, TextId, UNKNOWN};
use crate::machine::shortest::lower_bound::LowerBounds;
use crate::machine::unique_items::Distinct;

/// A state inside one rule: the deterministic state and the register that it runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalState {
    /// The deterministic state.
    pub state: DfaId,
    /// Index of the register, 0 for none.
    pub register: RegisterIx,
    /// The value of the register.
    pub n: u32,
}

/// Index of a stack node.
pub type StackId = u32;
/// The stack under the root rule: a return from it ends the output.
pub const ROOT_STACK: StackId = 0;
/// The unknown stack of a local walk: a return from it is an exit.
pub const UNKNOWN_STACK: StackId = 1;

/// A return frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The local state of the calling rule after the return.
    pub ret: LocalState,
    /// The stack of the caller.
    pub parent: StackId,
}

/// A local state on a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Thread {
    /// The state inside the rule.
    pub local: LocalState,
    /// The stack that the rule returns to.
    pub stack: StackId,
}

/// Index of an interned configuration.
pub type ConfigId = u32;
/// The configuration without threads in which the output has not ended: the bytes were rejected.
pub const DEAD_CONFIG: ConfigId = 0;

/// The result of one byte.
#[derive(Debug, Clone, Default)]
pub struct StepResult {
    /// The threads that can consume a further byte, sorted.
    pub threads: Vec<Thread>,
    /// True if the root rule has matched.
    pub ended: bool,
    /// The value of its register, if the rule above [`UNKNOWN_STACK`] has matched.
    pub exit: Option<u32>,
    /// The text that arrays with unique items must remember.
    pub(super) text: TextId,
}

impl StepResult {
    fn clear(&mut self) {
        self.threads.clear();
        self.ended = false;
        self.exit = None;
        self.text = NO_TEXT;
    }

    /// Returns true if there is no thread, no end and no exit.
    pub fn is_dead(&self) -> bool {
        self.threads.is_empty() && !self.ended && self.exit.is_none()
    }
}

#[derive(Debug, Clone)]
struct Config {
    threads: Arc<[Thread]>,
    ended: bool,
    /// The text since the start of the outermost open array with unique items.
    text: TextId,
}

/// The parts that make two configurations equal.
type ConfigKey = (Arc<[Thread]>, bool, TextId);

/// A program with the states, stacks and configurations met so far. It knows bytes, not tokens.
#[derive(Debug, Clone)]
pub struct Machine {
    // Copies share what does not change.
    pub(super) nfa: Arc<Nfa>,
    pub(super) starts: Arc<[NfaId]>,
    pub(super) registers: Arc<[Register]>,
    root: (RuleIx, RegisterIx),
    pub(super) dfa: LazyDfa,
    /// The names that objects have, and the texts of names.
    pub(super) seen_names: SeenNames,
    /// True if there are arrays of unique scalars, which a property table compares.
    sets: bool,
    /// True if names are remembered, because output is followed and not only tried.
    pub(super) tracking: bool,
    /// While output is followed: the text up to and including the current byte.
    pub(super) here: TextId,
    pub(super) distinct: Distinct,
    pub(super) stacks: Vec<Arc<[Frame]>>,
    stack_index: FxHashMap<Arc<[Frame]>, StackId>,
    configs: Vec<Config>,
    config_index: FxHashMap<ConfigKey, ConfigId>,
    initial: ConfigId,
    /// True if the root rule calls nothing, so that no rule of the constraint's own is ever called.
    calls_nothing: bool,
    /// Minimum number of bytes after a comma or a colon.
    pub(super) min_separator_bytes: u32,
    /// Bytes of the lists of threads and frames.
    heap: usize,
    pub(super) todo: Vec<(LocalState, StackId)>,
    calls: Vec<(LocalState, Frame)>,
    /// What [`Machine::epsilon_closure`] has met, once it has met many.
    met: FxHashSet<(LocalState, StackId)>,
    /// The stacks that [`Machine::epsilon_closure`] has returned from, once it has met many.
    popped: FxHashSet<StackId>,
    /// Lower bounds of the bytes to the end, once they were requested.
    pub(super) least: Option<Arc<LowerBounds>>,
}

/// Number of calls and returns after one byte that are not checked for repetition. A hash lookup
/// for each would take most of the time, and only a repetition of something that may be empty
/// repeats at all.
const CLOSURE_UNCHECKED_STEPS: usize = 32;

impl Machine {
    /// Returns the configuration before the first byte.
    pub fn initial(&self) -> ConfigId {
        self.initial
    }

    /// Returns the threads of a configuration.
    pub fn threads(&self, config: ConfigId) -> Arc<[Thread]> {
        self.configs[config as usize].threads.clone()
    }

    /// Returns whether byte `b` continues a span of a source, and if so, whether the span is text
    /// of a JSON string.
    pub fn copies_source(&self, config: ConfigId, b: u8) -> Option<bool> {
        let threads = &self.configs[config as usize].threads;
        threads.iter().find_map(|thread| self.dfa.quotes(&self.nfa, thread.local.state, b))
    }

    /// Returns the text before a configuration that arrays with unique items remember.
    pub(super) fn text(&self, config: ConfigId) -> TextId {
        self.configs[config as usize].text
    }

    /// Returns true if the output may end here.
    pub fn is_accepting(&self, config: ConfigId) -> bool {
        self.configs[config as usize].ended
    }

    /// Returns true if the output must end here.
    pub fn is_final(&self, config: ConfigId) -> bool {
        let config = &self.configs[config as usize];
        config.ended && config.threads.is_empty()
    }

    /// Returns true if the next byte may be text of a JSON string.
    pub fn in_text(&self, config: ConfigId) -> bool {
        self.configs[config as usize].threads.iter().any(|t| self.dfa.state(t.local.state).in_text())
    }

    /// Returns the fewest and the most characters that can follow in the open JSON string, if it is
    /// counted and nothing else matters to it.
    pub fn text_bounds(&self, config: ConfigId) -> Option<(u32, u32)> {
        let threads = self.configs[config as usize].threads.iter();
        threads.filter(|t| self.dfa.state(t.local.state).in_text()).try_fold(None, |bounds, thread| {
            if matches!(self.registers[thread.local.register as usize], Register::Chars { raw: true, .. }) {
                return None;
            }
            let (least, most) = self.char_bounds(thread.local)?;
            let (all_least, all_most) = bounds.unwrap_or((least, most));
            Some(Some((least.min(all_least), most.max(all_most))))
        })?
    }

    /// Returns true if the next byte can only be text of a JSON string, or close it.
    pub fn only_in_text(&self, config: ConfigId) -> bool {
        self.configs[config as usize].threads.iter().all(|t| self.dfa.state(t.local.state).in_text())
    }

    /// Returns the frames of a stack node.
    pub fn frames(&self, stack: StackId) -> Arc<[Frame]> {
        self.stacks[stack as usize].clone()
    }

    /// Returns true if there are arrays of unique scalars, which a property table compares.
    pub fn has_scalar_sets(&self) -> bool {
        self.sets
    }

    /// Returns sizes for reports: automaton states, deterministic states, stack nodes,
    /// configurations.
    pub fn sizes(&self) -> [usize; 4] {
        [self.nfa.len(), self.dfa.len(), self.stacks.len(), self.configs.len()]
    }

    /// Returns the configuration after `bytes`, or [`DEAD_CONFIG`] if they are rejected.
    pub fn step_bytes(&mut self, config: ConfigId, bytes: &[u8]) -> ConfigId {
        if bytes.is_empty() {
            return config;
        }
        let mut reached = StepResult::default();
        match self.follow(config, bytes, &mut reached) {
            true => self.intern(&reached),
            false => DEAD_CONFIG,
        }
    }

    /// Returns true if `bytes` are accepted from `config`. Every name on the path is remembered.
    pub fn allows(&mut self, config: ConfigId, bytes: &[u8]) -> bool {
        self.follow(config, bytes, &mut StepResult::default())
    }

    fn follow(&mut self, config: ConfigId, bytes: &[u8], reached: &mut StepResult) -> bool {
        let mut from = self.configs[config as usize].threads.to_vec();
        let mut text = self.text(config);
        self.tracking = true;
        for &b in bytes {
            text = self.advance(&from, text, b, reached);
            std::mem::swap(&mut from, &mut reached.threads);
            if from.is_empty() && !reached.ended {
                break;
            }
        }
        if self.distinct.on && !from.is_empty() && !self.can_extend(&from, text) {
            (from, text) = (Vec::new(), NO_TEXT);
        }
        self.tracking = false;
        std::mem::swap(&mut from, &mut reached.threads);
        reached.text = text;
        !reached.is_dead()
    }

    /// Takes one step with byte `b` from all `threads`.
    pub fn step(&mut self, threads: &[Thread], b: u8, out: &mut StepResult) {
        out.clear();
        for thread in threads {
            if let Some(local) = self.step_local(thread.local, b) {
                self.push_arrival(Thread { local, ..*thread }, out);
            }
        }
        self.finish_closure(out);
    }

    /// Completes a step of threads whose local step is done.
    pub fn closure_after_step(&mut self, arrived: &[Thread], out: &mut StepResult) {
        out.clear();
        arrived.iter().for_each(|&thread| self.push_arrival(thread, out));
        self.finish_closure(out);
    }

    #[inline]
    fn push_arrival(&mut self, thread: Thread, out: &mut StepResult) {
        if self.dfa.is_busy(thread.local.state) {
            self.todo.push((thread.local, thread.stack));
        } else {
            out.threads.push(thread);
        }
    }

    #[inline]
    fn finish_closure(&mut self, out: &mut StepResult) {
        if !self.todo.is_empty() {
            self.epsilon_closure(out);
        }
        if out.threads.len() > 1 {
            out.threads.sort_unstable();
            out.threads.dedup();
        }
    }

    /// Finds everything that can be reached from a local state without consuming a byte.
    pub fn closure_from(&mut self, local: LocalState, stack: StackId, out: &mut StepResult) {
        out.clear();
        self.todo.push((local, stack));
        self.epsilon_closure(out);
        out.threads.sort_unstable();
        out.threads.dedup();
    }

    /// Follows returns and calls from `todo` until only threads that consume a byte are left. It
    /// terminates: left recursion was refused when the program was made, so stacks cannot grow
    /// without end here, and nothing is followed twice.
    fn epsilon_closure(&mut self, out: &mut StepResult) {
        let mut count = 0;
        self.met.clear();
        self.popped.clear();
        loop {
            while let Some((local, stack)) = self.todo.pop() {
                count += 1;
                if count > CLOSURE_UNCHECKED_STEPS && !self.met.insert((local, stack)) {
                    continue;
                }
                let state = self.dfa.state(local.state);
                let (scans, accept) = (state.scans, state.accept);
                let calls = (!state.calls.is_empty()).then(|| state.calls.clone());
                if scans && !(accept && self.is_exhausted(local)) {
                    out.threads.push(Thread { local, stack });
                }
                if accept && self.may_end(local) {
                    match stack {
                        ROOT_STACK => out.ended = true,
                        UNKNOWN_STACK => out.exit = Some(local.n),
                        // Whatever ends above a stack returns to the same states.
                        _ if count > CLOSURE_UNCHECKED_STEPS && !self.popped.insert(stack) => {}
                        _ => self.return_from(local, stack),
                    }
                }
                for call in calls.iter().flat_map(|c| c.iter()) {
                    self.call(local, stack, *call);
                }
            }
            if self.calls.is_empty() {
                return;
            }
            self.push_calls();
        }
    }

    fn call(&mut self, local: LocalState, stack: StackId, call: Call) {
        let (rule, register, to, n) = match call {
            Call::Rule(rule, register, to) => (rule, register, to, local.n),
            Call::Guard(test, to) => {
                if let Some(n) = self.check_guard(local, test) {
                    let state = self.dfa.start(&self.nfa, to);
                    self.todo.push((LocalState { state, n, ..local }, stack));
                }
                return;
            }
            Call::Fresh(rule, register, to) => {
                let Some(callee) = self.fresh_start((rule, register), local.n) else { return };
                let ret = LocalState { state: self.dfa.start(&self.nfa, to), ..local };
                self.calls.push((callee, Frame { ret, parent: stack }));
                return;
            }
            Call::Item(to) => {
                let Register::Items(items) = &self.registers[local.register as usize] else { return };
                let Some((rule, register)) = items.item(local.n) else { return };
                let n = if items.max == u32::MAX { (local.n + 1).min(items.settled()) } else { local.n + 1 };
                (rule, register, to, n)
            }
        };
        let state = self.dfa.start(&self.nfa, self.starts[rule.0 as usize]);
        let callee = LocalState { state, register, n: 0 };
        let mut ret = LocalState { state: self.dfa.start(&self.nfa, to), register: local.register, n };
        let scoped = self.distinct.on && self.is_distinct(local.register);
        if scoped {
            ret.n = if self.tracking { self.here } else { UNKNOWN };
        }
        if self.dfa.state(ret.state).only_accepts() && !scoped {
            // The caller ends right after the call, so the callee returns to the caller's caller.
            self.todo.push((callee, stack));
        } else {
            self.calls.push((callee, Frame { ret, parent: stack }));
        }
    }

    /// Turns collected calls into threads, with one stack node for each callee.
    fn push_calls(&mut self) {
        let mut calls = std::mem::take(&mut self.calls);
        calls.sort_unstable();
        calls.dedup();
        for group in calls.chunk_by(|a, b| a.0 == b.0) {
            let frames: Vec<Frame> = group.iter().map(|c| c.1).collect();
            let stack = self.intern_stack(&frames);
            self.todo.push((group[0].0, stack));
        }
        calls.clear();
        self.calls = calls;
    }

    pub(super) fn intern_stack(&mut self, frames: &[Frame]) -> StackId {
        if let Some(&id) = self.stack_index.get(frames) {
            return id;
        }
        let frames: Arc<[Frame]> = frames.into();
        let id = self.stacks.len() as StackId;
        self.heap += 16 + size_of_val(&*frames);
        self.note_scopes(&frames);
        self.stacks.push(frames.clone());
        self.stack_index.insert(frames, id);
        id
    }

    /// Returns the number of a configuration.
    pub fn intern(&mut self, reached: &StepResult) -> ConfigId {
        let threads: Arc<[Thread]> = reached.threads.as_slice().into();
        let key = (threads, reached.ended, reached.text);
        if let Some(&id) = self.config_index.get(&key) {
            return id;
        }
        let id = self.configs.len() as ConfigId;
        self.heap += 16 + size_of_val(&*key.0);
        self.configs.push(Config { threads: key.0.clone(), ended: key.1, text: key.2 });
        self.config_index.insert(key, id);
        id
    }

    /// Takes one step inside a rule. Returns `None` if the byte is rejected.
    #[inline]
    pub fn step_local(&mut self, local: LocalState, b: u8) -> Option<LocalState> {
        let state = self.dfa.step(&self.nfa, local.state, b);
        if state == DEAD_STATE {
            return None;
        }
        if local.register == 0 {
            return Some(LocalState { state, ..local });
        }
        self.step_register(local, state, b)
    }

    fn step_register(&mut self, local: LocalState, state: DfaId, b: u8) -> Option<LocalState> {
        let mid_escape = self.dfa.state(local.state).mid_escape();
        let accept = self.dfa.state(state).accept;
        let LocalState { register, n, .. } = local;
        let free = Some(LocalState { state, register: 0, n: 0 });
        match &self.registers[register as usize] {
            Register::None | Register::Distinct(_) => Some(LocalState { state, ..local }),
            Register::Chars { min, max, lengths, raw } => {
                let n = n.saturating_add(u32::from(begins_char(mid_escape, *raw, b)));
                if n > *max || accept && !raw && n < *min {
                    return None;
                }
                let (least, most) = (min.saturating_sub(n), max.saturating_sub(n));
                if let Some(lengths) = lengths
                    && !lengths.within(self.dfa.members(state), least, most)
                {
                    return None;
                }
                if *max == u32::MAX && n >= *min { free } else { Some(LocalState { state, register, n }) }
            }
            Register::Items(items) => {
                let allowed = match b {
                    b']' if accept => n >= items.min,
                    b',' => items.item(n).is_some(),
                    _ => true,
                };
                allowed.then_some(LocalState { state, register, n })
            }
            Register::Members(_) => Some(LocalState { state, register, n }),
            Register::Fresh(_) => self.step_fresh(local, state, b),
        }
    }

    /// Returns a local state with the same future over the next `horizon` bytes. Counter values
    /// that cannot matter yet then share their masks.
    pub fn canonical(&self, local: LocalState, horizon: u32) -> LocalState {
        let free = LocalState { state: local.state, register: 0, n: 0 };
        match &self.registers[local.register as usize] {
            Register::None => local,
            // The text so far does not matter to states.
            Register::Distinct(_) => LocalState { n: 0, ..local },
            Register::Members(members) => {
                // A token cannot repeat a name that no token holds with both quotes.
                let plain = members.rule.is_none() && !self.seen_names.is_visible(local.n);
                if plain { LocalState { n: 0, ..local } } else { local }
            }
            Register::Fresh(_) if self.seen_names.shares_prefix(self.seen_names.place(local.n)) => local,
            Register::Fresh(_) => free,
            Register::Chars { min, max, lengths, .. } => {
                let slack = lengths.as_ref().map_or(0, |l| l.slack);
                let far = max.saturating_sub(local.n) >= horizon.saturating_add(slack);
                if local.n >= *min && far { free } else { local }
            }
            Register::Items(items) => {
                let settled = items.settled();
                let far = items.max.saturating_sub(local.n) > horizon;
                if local.n > settled && far { LocalState { n: settled, ..local } } else { local }
            }
        }
    }

    /// Returns true if a raw text that may end here is so long that no byte can follow.
    fn is_exhausted(&mut self, local: LocalState) -> bool {
        match &self.registers[local.register as usize] {
            Register::Chars { raw: true, .. } => {
                self.canonical(local, 1).register != 0 && self.ranges(local).is_empty()
            }
            _ => false,
        }
    }

    /// Returns the minimum and maximum number of further characters of a character register.
    /// Returns `None` unless every state may close at once and continue without end.
    pub fn char_bounds(&self, local: LocalState) -> Option<(u32, u32)> {
        match &self.registers[local.register as usize] {
            Register::Chars { min, max, lengths, .. } if lengths.as_ref().is_none_or(|l| l.uniform) => {
                Some((min.saturating_sub(local.n), max.saturating_sub(local.n)))
            }
            _ => None,
        }
    }

    /// For a character register whose minimum is met, returns two numbers of characters: how many
    /// may follow before the maximum can matter to any state, and how many may follow at all.
    pub fn slack_chars(&self, local: LocalState) -> Option<(u32, u32)> {
        match &self.registers[local.register as usize] {
            Register::Chars { min, max, lengths: Some(lengths), .. } if local.n >= *min => {
                let rest = max.saturating_sub(local.n);
                // Nearer to the maximum, even the rest of a character can decide.
                Some((rest.checked_sub(lengths.slack)?, rest))
            }
            _ => None,
        }
    }

    /// Returns true if no register can stop a thread before its state does.
    pub fn is_unbounded(&self, local: LocalState) -> bool {
        local.register == 0 || local.register == COUNTING
    }

    /// Returns the byte ranges that are allowed in a local state.
    pub fn ranges(&mut self, local: LocalState) -> Vec<(u8, u8)> {
        let ranges = self.dfa.ranges(&self.nfa, local.state);
        if local.register == 0 {
            return ranges.into_iter().map(|(lo, hi, _)| (lo, hi)).collect();
        }
        let bytes = ranges.into_iter().flat_map(|(lo, hi, _)| lo..=hi);
        let mut allowed = Vec::new();
        for b in bytes {
            if self.step_local(local, b).is_some() {
                allowed.push((b, b));
            }
        }
        allowed
    }

    /// Returns the byte that must come next, if there is exactly one and the output may not end.
    pub fn forced_byte(&mut self, config: ConfigId) -> Option<u8> {
        if self.is_accepting(config) {
            return None;
        }
        let threads = self.threads(config);
        if self.is_scoped(config) {
            return self.only_new_byte(config);
        }
        let mut only = None;
        for thread in threads.iter() {
            for (lo, hi) in self.ranges(thread.local) {
                if lo != hi || only.is_some_and(|b| b != lo) {
                    return None;
                }
                only = Some(lo);
            }
        }
        only
    }

    /// Returns the byte that must come next where items must differ.
    fn only_new_byte(&mut self, config: ConfigId) -> Option<u8> {
        let mut only = None;
        for thread in self.threads(config).iter() {
            for b in self.ranges(thread.local).into_iter().flat_map(|(lo, hi)| lo..=hi) {
                if only != Some(b) && self.allows(config, &[b]) && only.replace(b).is_some() {
                    return None;
                }
            }
        }
        only
    }

    /// Returns the same state with a register that counts its characters from 0.
    pub fn with_char_count(&self, local: LocalState) -> LocalState {
        LocalState { register: COUNTING, n: 0, ..local }
    }

    /// Returns the state inside the text of a plain string.
    pub fn string_interior(&mut self) -> DfaId {
        self.text_of(STRING)
    }

    /// Returns the state inside the text of a string without white space.
    pub fn unspaced_body(&mut self) -> DfaId {
        self.text_of(UNSPACED)
    }

    fn text_of(&mut self, rule: RuleIx) -> DfaId {
        let start = self.dfa.start(&self.nfa, self.starts[rule.0 as usize]);
        self.dfa.step(&self.nfa, start, b'"')
    }

    /// Returns the states that the calls made so far return to.
    pub fn return_states(&mut self) -> Vec<DfaId> {
        let calls: Vec<Call> =
            (0..self.dfa.len()).flat_map(|d| self.dfa.state(d as DfaId).calls.to_vec()).collect();
        let mut states: Vec<DfaId> = calls.iter().map(|c| self.dfa.start(&self.nfa, c.to())).collect();
        states.sort_unstable();
        states.dedup();
        states
    }

    /// Returns true if a state calls another rule.
    pub fn has_calls(&self, state: DfaId) -> bool {
        self.dfa.calls(state)
    }

    /// Returns true if a rule may end in a state.
    pub fn accepts(&self, state: DfaId) -> bool {
        self.dfa.state(state).accept
    }

    /// Returns true if entering a state on a stack adds no thread and no exit. The state calls
    /// nothing, and if it ends its rule, that is the root rule.
    #[inline]
    pub fn stays_in_rule(&self, state: DfaId, stack: StackId) -> bool {
        !self.dfa.is_busy(state) || stack == ROOT_STACK && !self.dfa.calls(state)
    }

    /// Returns the state after byte `b` within the rule, registers aside, or [`DEAD_STATE`].
    pub fn step_state(&mut self, state: DfaId, b: u8) -> DfaId {
        self.dfa.step(&self.nfa, state, b)
    }

    /// Returns the state that accepts what any of some states accepts. Their rules have no
    /// register.
    pub fn merged_state(&mut self, states: &[DfaId]) -> DfaId {
        self.dfa.joined(&self.nfa, states)
    }

    /// Returns the bytes that a state accepts within its rule.
    pub fn live_bytes(&mut self, state: DfaId) -> ByteSet {
        self.dfa.live(&self.nfa, state)
    }

    /// Returns the target of each byte within the rule, as [`Machine::step_state`] does.
    pub fn transitions(&mut self, state: DfaId) -> [DfaId; 256] {
        self.dfa.row(&self.nfa, state)
    }

    /// Returns true if the text can leave the automaton of this state's rule: the rule ends here,
    /// or calls another. Nothing follows the root rule.
    pub fn may_leave_rule(&self, state: DfaId, stack: StackId) -> bool {
        let state = self.dfa.state(state);
        !state.calls.is_empty() || state.accept && !self.calls_nothing && stack != ROOT_STACK
    }

    /// Returns true if the root rule calls nothing, so that its states occur on its own stack only.
    pub fn calls_nothing(&self) -> bool {
        self.calls_nothing
    }

    /// Returns true if the state is inside the text of a string, at the start of a character.
    pub fn is_text_state(&self, state: DfaId) -> bool {
        let state = self.dfa.state(state);
        state.in_text() && !state.mid_escape()
    }

    /// Returns true if all automaton states of a state are inside the text of a string. Only a
    /// quote leads out of it.
    pub fn is_purely_in_string(&self, state: DfaId) -> bool {
        self.dfa.members(state).iter().all(|&member| self.nfa.flags(member) & TEXT != 0)
    }
}
