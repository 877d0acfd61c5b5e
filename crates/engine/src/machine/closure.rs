//! Steps across rules: the threads after a byte, with all calls and returns that follow it.
//!
//! The tables of this machine only grow. What a step needs in passing is its [`Scratch`]. It is
//! empty whenever a step begins, so a step that did not end, because of a panic, leaves no work for
//! the next.
//!
//! # Cost
//!
//! A table lookup for each thread, and a hash lookup for each rule that is entered or left.
//!
//! # Alternatives considered
//!
//! A scratch that the caller of each step hands in: every walk would carry one along.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::automaton::Automaton;
use super::local::LocalMachine;
use super::nfa::{Call, RegisterIx, RuleIx};
use super::program::Program;
use super::properties::seen_names::{NO_TEXT, SeenNames, TextId, WholeStrings};
use super::register::Register;
use super::stack::Stacks;
use super::thread::{Frame, LocalState, ROOT_STACK, StackId, Thread, UNKNOWN_STACK};

/// Number of calls and returns after one byte that are not checked for repetition. A hash lookup
/// for each would take most of the time, and only a repetition of something that may be empty
/// repeats at all.
const CLOSURE_UNCHECKED_STEPS: usize = 32;

/// The result of one byte.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepResult {
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
    pub(crate) fn is_dead(&self) -> bool {
        self.threads.is_empty() && !self.ended && self.exit.is_none()
    }
}

/// A call of a rule that a step has not entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PendingCall {
    /// The state at the start of the called rule.
    pub callee: LocalState,
    /// The state after the return; `None` if the calling rule ends right there.
    pub ret: Option<LocalState>,
}

/// What one step has still to do, and what it has met. It means nothing between steps.
#[derive(Debug, Clone, Default)]
struct Scratch {
    todo: Vec<(LocalState, StackId)>,
    calls: Vec<(LocalState, Frame)>,
    /// What the closure has met, once it has met many.
    met: FxHashSet<(LocalState, StackId)>,
    /// The stacks that the closure has returned from, once it has met many.
    popped: FxHashSet<StackId>,
    /// The calls from the root rule and the unknown stack that the step leaves to its caller, if it
    /// does.
    pending: Option<Vec<PendingCall>>,
}

impl Scratch {
    #[inline]
    fn clear(&mut self) {
        self.todo.clear();
        self.calls.clear();
        self.pending = None;
    }
}

/// The local machine with its stacks.
#[derive(Debug, Clone)]
pub(crate) struct StackMachine {
    /// Moves inside a rule.
    pub local: LocalMachine,
    /// The stacks met so far.
    pub stacks: Stacks,
    scratch: Scratch,
}

impl StackMachine {
    /// Creates a machine for `program`; `shown` are the quoted texts inside single tokens.
    pub(crate) fn new(program: Program, shown: Arc<WholeStrings>) -> Self {
        StackMachine::of(Automaton::new(program), SeenNames::new(shown))
    }

    /// Creates an empty machine for the same program.
    pub(crate) fn renewed(&self) -> Self {
        StackMachine::of(self.local.automaton.renewed(), self.local.names.renewed())
    }

    fn of(automaton: Automaton, names: SeenNames) -> Self {
        let stacks = Stacks::new(automaton.registers.clone(), automaton.has_scopes());
        StackMachine { local: LocalMachine { automaton, names }, stacks, scratch: Scratch::default() }
    }

    /// Returns the bytes of what was met so far, without what copies share.
    pub(crate) fn bytes(&self) -> usize {
        self.local.automaton.dfa.bytes() + self.local.names.table_bytes() + self.stacks.bytes()
    }

    /// Takes one step with byte `b` from all `threads`. `here` is the text of the output with this
    /// byte, or [`TRIED`](super::TRIED).
    pub(crate) fn step(&mut self, threads: &[Thread], b: u8, here: TextId, out: &mut StepResult) {
        self.begin(out);
        self.step_threads(threads, b, here, out);
    }

    /// Does the same as [`StackMachine::step`], but returns the calls from the root rule and the
    /// unknown stack instead of entering the called rules, where no register is involved.
    pub(crate) fn step_to_calls(
        &mut self,
        threads: &[Thread],
        b: u8,
        here: TextId,
        out: &mut StepResult,
    ) -> Vec<PendingCall> {
        self.begin(out);
        self.scratch.pending = Some(Vec::new());
        self.step_threads(threads, b, here, out);
        self.scratch.pending.take().unwrap_or_default()
    }

    /// Does the same as [`StackMachine::closure_from`] on the unknown stack, but returns the calls
    /// instead of entering the called rules.
    pub(crate) fn closure_to_calls(
        &mut self,
        local: LocalState,
        here: TextId,
        out: &mut StepResult,
    ) -> Vec<PendingCall> {
        self.begin(out);
        self.scratch.pending = Some(Vec::new());
        self.scratch.todo.push((local, UNKNOWN_STACK));
        self.finish_closure(here, out);
        self.scratch.pending.take().unwrap_or_default()
    }

    /// Completes a step of threads whose local step is done.
    pub(crate) fn closure_after_step(&mut self, arrived: &[Thread], here: TextId, out: &mut StepResult) {
        self.begin(out);
        arrived.iter().for_each(|&thread| self.push_arrival(thread, out));
        self.finish_closure(here, out);
    }

    /// Finds everything that can be reached from a local state without consuming a byte.
    pub(crate) fn closure_from(
        &mut self,
        local: LocalState,
        stack: StackId,
        here: TextId,
        out: &mut StepResult,
    ) {
        self.begin(out);
        self.scratch.todo.push((local, stack));
        self.finish_closure(here, out);
    }

    /// Returns the threads at the start of a rule on a stack below which no text exists.
    pub(super) fn at_start(&mut self, (rule, register): (RuleIx, RegisterIx), stack: StackId) -> StepResult {
        let state = self.local.automaton.start(rule);
        let mut reached = StepResult::default();
        self.closure_from(LocalState { state, register, n: 0 }, stack, NO_TEXT, &mut reached);
        reached
    }

    #[inline]
    fn step_threads(&mut self, threads: &[Thread], b: u8, here: TextId, out: &mut StepResult) {
        for thread in threads {
            if let Some(local) = self.local.step(thread.local, b, here) {
                self.push_arrival(Thread { local, ..*thread }, out);
            }
        }
        self.finish_closure(here, out);
    }

    #[inline]
    fn begin(&mut self, out: &mut StepResult) {
        self.scratch.clear();
        out.clear();
    }

    #[inline]
    fn push_arrival(&mut self, thread: Thread, out: &mut StepResult) {
        if self.local.automaton.is_busy(thread.local.state) {
            self.scratch.todo.push((thread.local, thread.stack));
        } else {
            out.threads.push(thread);
        }
    }

    #[inline]
    fn finish_closure(&mut self, here: TextId, out: &mut StepResult) {
        if !self.scratch.todo.is_empty() {
            self.epsilon_closure(here, out);
        }
        if out.threads.len() > 1 {
            out.threads.sort_unstable();
            out.threads.dedup();
        }
    }

    /// Follows returns and calls from `todo` until only threads that consume a byte are left. It
    /// terminates: left recursion was refused when the program was made, so stacks cannot grow
    /// without end here, and nothing is followed twice.
    fn epsilon_closure(&mut self, here: TextId, out: &mut StepResult) {
        let mut count = 0;
        self.scratch.met.clear();
        self.scratch.popped.clear();
        loop {
            while let Some((local, stack)) = self.scratch.todo.pop() {
                count += 1;
                if count > CLOSURE_UNCHECKED_STEPS && !self.scratch.met.insert((local, stack)) {
                    continue;
                }
                #[cfg(test)]
                crate::fault::pass(crate::fault::Point::Closure);
                let state = self.local.automaton.state(local.state);
                let (scans, accept) = (state.scans, state.accept);
                let calls = (!state.calls.is_empty()).then(|| state.calls.clone());
                if scans && !(accept && self.local.is_exhausted(local)) {
                    out.threads.push(Thread { local, stack });
                }
                if accept && self.local.may_end(local) {
                    match stack {
                        ROOT_STACK => out.ended = true,
                        UNKNOWN_STACK => out.exit = Some(local.n),
                        // Whatever ends above a stack returns to the same states.
                        _ if count > CLOSURE_UNCHECKED_STEPS && !self.scratch.popped.insert(stack) => {}
                        _ => self.return_from(local, stack),
                    }
                }
                for call in calls.iter().flat_map(|c| c.iter()) {
                    self.call(local, stack, *call, here);
                }
            }
            if self.scratch.calls.is_empty() {
                return;
            }
            self.push_calls();
        }
    }

    /// Returns to all callers of the rule that has matched.
    fn return_from(&mut self, local: LocalState, stack: StackId) {
        let frames = self.stacks.frames(stack).iter();
        if !self.local.automaton.is_unique_name(local) {
            self.scratch.todo.extend(frames.map(|f| (f.ret, f.parent)));
            return;
        }
        let text = self.local.names.place(local.n).text;
        for frame in frames {
            let ret = self.local.after_name(frame.ret, text);
            self.scratch.todo.push((ret, frame.parent));
        }
    }

    fn call(&mut self, local: LocalState, stack: StackId, call: Call, here: TextId) {
        let machine = &mut self.local;
        let Scratch { todo, calls, pending, .. } = &mut self.scratch;
        let (rule, register, to, n) = match call {
            Call::Rule(rule, register, to) => (rule, register, to, local.n),
            Call::Guard(test, to) => {
                if let Some(n) = machine.check_guard(local, test) {
                    let state = machine.automaton.enter(to);
                    todo.push((LocalState { state, n, ..local }, stack));
                }
                return;
            }
            Call::Fresh(rule, register, to) => {
                let Some(callee) = machine.start_name((rule, register), local.n) else { return };
                let ret = LocalState { state: machine.automaton.enter(to), ..local };
                calls.push((callee, Frame { ret, parent: stack }));
                return;
            }
            Call::Item(to) => {
                let Register::Items(items) = machine.automaton.register(local.register) else { return };
                let Some((rule, register)) = items.item(local.n) else { return };
                let n = if items.max == u32::MAX { (local.n + 1).min(items.settled()) } else { local.n + 1 };
                (rule, register, to, n)
            }
        };
        let automaton = &mut machine.automaton;
        let callee = LocalState { state: automaton.start(rule), register, n: 0 };
        let mut ret = LocalState { state: automaton.enter(to), register: local.register, n };
        let scoped = automaton.has_scopes() && automaton.is_scope(local.register);
        if scoped {
            ret.n = here;
        }
        let ends = automaton.state(ret.state).only_accepts();
        if let Some(pending) = pending
            && stack <= UNKNOWN_STACK
            && register == 0
            && local.register == 0
        {
            pending.push(PendingCall { callee, ret: (!ends).then_some(ret) });
        } else if ends && !scoped {
            // The caller ends right after the call, so the callee returns to the caller's caller.
            todo.push((callee, stack));
        } else {
            calls.push((callee, Frame { ret, parent: stack }));
        }
    }

    /// Turns collected calls into threads, with one stack node for each callee.
    fn push_calls(&mut self) {
        let Scratch { todo, calls, .. } = &mut self.scratch;
        calls.sort_unstable();
        calls.dedup();
        for group in calls.chunk_by(|a, b| a.0 == b.0) {
            let frames: Vec<Frame> = group.iter().map(|c| c.1).collect();
            #[cfg(test)]
            crate::fault::pass(crate::fault::Point::Calls);
            todo.push((group[0].0, self.stacks.intern(&frames)));
        }
        calls.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use crate::fault::{self, Point};
    use crate::machine::{DEAD_CONFIG, Machine, Program};
    use crate::{Constraint, Policy};

    /// Values that begin alike, so that a byte enters and leaves many rules.
    const SCHEMA: &str = r##"{"$defs": {"v": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/v"}},
        {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/v"}]}},
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/v"}}]}}, "$ref": "#/$defs/v"}"##;
    const TEXT: &str = r#"[[[],[1]],{"a":[[]],"b":{}},[{"a":[2,[]]}]]"#;

    #[test]
    fn a_step_that_did_not_end_leaves_no_work_for_the_next() {
        let of = |text: &str| Constraint::json_schema(text).expect("a schema");
        let base = Program::base(&Policy::default(), &[true; 256], of("true").ir()).expect("a base");
        let program = Program::extend(&base, of(SCHEMA).ir()).expect("a program");
        let mut panics = 0;
        for (point, count) in
            [Point::Closure, Point::Calls].into_iter().flat_map(|p| (0..8).map(move |n| (p, n)))
        {
            let mut machine = Machine::new(program.clone(), Default::default());
            let mut fresh = Machine::new(program.clone(), Default::default());
            let allowed = |machine: &mut Machine, at| {
                (0..=255).filter(|&b| machine.allows(at, &[b])).collect::<Vec<u8>>()
            };
            let initial = fresh.initial();
            let starts = allowed(&mut fresh, initial);
            let (mut at, mut same) = (machine.initial(), fresh.initial());
            for b in TEXT.bytes() {
                fault::arm(point, count);
                let step = catch_unwind(AssertUnwindSafe(|| machine.step_bytes(at, &[b])));
                fault::disarm();
                if step.is_err() {
                    panics += 1;
                    // Another step than the one that did not end: that one would do its work again.
                    let initial = machine.initial();
                    assert_eq!(allowed(&mut machine, initial), starts, "{point:?} {count} {b:?}");
                }
                (at, same) = (machine.step_bytes(at, &[b]), fresh.step_bytes(same, &[b]));
                assert_ne!(same, DEAD_CONFIG, "{b:?}");
                assert_eq!(allowed(&mut machine, at), allowed(&mut fresh, same), "{point:?} {count} {b:?}");
            }
            assert!(machine.is_final(at));
        }
        assert!(panics > 50, "{panics}");
    }
}
