//! Compiling constraints for a vocabulary, and what compiled grammars share.
//!
//! For each whitespace and number policy there is one *base*: the rules of strings, numbers and any
//! JSON value with all of their masks, made once (some tens of milliseconds for 128k tokens) and
//! shared by every grammar. Compiling then costs a pass over the constraint; states and masks of the
//! constraint's own rules are made when a generation first meets them.

use std::sync::{Arc, Mutex, MutexGuard};

use rustc_hash::FxHashMap;

use super::Matcher;
use crate::constraint::ir::{Ir, Node};
use crate::constraint::number::{NumberSpec, number};
use crate::constraint::{Constraint, Policy};
use crate::error::Result;
use crate::machine::{ConfigId, Machine, Program};
use crate::mask::Masks;
use crate::mask::Shared;
use crate::vocab::{TokenId, Vocabulary};

/// Compiles constraints for one vocabulary. Shareable between threads.
pub struct Compiler {
    vocab: Vocabulary,
    alphabet: [bool; 256],
    bases: Mutex<Vec<(Policy, Arc<Base>)>>,
}

/// Most policies whose bases are kept.
const MAX_BASES: usize = 16;

struct Base {
    program: Program,
    masks: Arc<Shared>,
}

impl Compiler {
    /// A compiler; makes the base of the default policy now.
    pub fn new(vocab: Vocabulary) -> Self {
        let mut alphabet = [false; 256];
        for (b, has) in alphabet.iter_mut().enumerate() {
            *has = vocab.has_byte(b as u8);
        }
        let compiler = Compiler { vocab, alphabet, bases: Mutex::new(Vec::new()) };
        if let Err(error) = compiler.base(&Policy::default()) {
            // The base holds no user input, so this would show in any test; compiling reports it.
            tracing::error!(%error, "the base grammar does not compile");
        }
        compiler
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocab
    }

    /// Compiles a constraint.
    ///
    /// # Errors
    /// `Unsatisfiable` if no output of this vocabulary's bytes satisfies it, `TooComplex` beyond a
    /// limit, `Unsupported` for left recursion.
    pub fn compile(&self, constraint: &Constraint) -> Result<CompiledGrammar> {
        let base = self.base(constraint.policy())?;
        let program = Program::extend(&base.program, constraint.ir())?;
        let machine = Machine::new(program, self.vocab.quoted_strings().clone());
        let masks = Masks::new(&self.vocab, base.masks.clone());
        let runtime =
            Runtime { machine, masks, accepted: FxHashMap::default(), forced: FxHashMap::default() };
        Ok(CompiledGrammar(Arc::new(Grammar {
            vocab: self.vocab.clone(),
            warnings: constraint.warnings().to_vec(),
            runtime: Mutex::new(runtime),
        })))
    }

    fn base(&self, policy: &Policy) -> Result<Arc<Base>> {
        let mut bases = self.bases.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((_, base)) = bases.iter().find(|(p, _)| p == policy) {
            return Ok(base.clone());
        }
        let mut program = Program::base(policy, &self.alphabet, &common_values(policy)?)?;
        program.determinise();
        let states = program.dfa_len() as u32;
        let mut machine = Machine::new(program.clone(), self.vocab.quoted_strings().clone());
        let masks = Masks::base(&self.vocab, &mut machine, states);
        let base = Arc::new(Base { program, masks });
        if bases.len() == MAX_BASES {
            bases.remove(0);
        }
        bases.push((policy.clone(), base.clone()));
        Ok(base)
    }
}

/// The values so common in schemas that their states belong to the base: unbounded numbers.
fn common_values(policy: &Policy) -> Result<Ir> {
    let mut ir = Ir::new();
    let mut values = Vec::new();
    for integer in [true, false] {
        let spec = NumberSpec { integer, ..NumberSpec::default() };
        values.push(number(&spec, policy, &mut ir)?);
    }
    for word in ["null", "true", "false"] {
        values.push(ir.bytes(word));
    }
    // An array of them, so that each becomes a rule of its own.
    let root = ir.push(Node::JsonArray { prefix: values, rest: None, min: 0, max: None });
    ir.set_root(root);
    Ok(ir)
}

/// A constraint compiled for a vocabulary. Cheap to clone; shared between threads.
#[derive(Clone)]
pub struct CompiledGrammar(Arc<Grammar>);

struct Grammar {
    vocab: Vocabulary,
    warnings: Vec<String>,
    runtime: Mutex<Runtime>,
}

/// What grows while a grammar is used.
pub(super) struct Runtime {
    pub(super) machine: Machine,
    pub(super) masks: Masks,
    /// Where tokens led; dropped as a whole when it gets too large.
    accepted: FxHashMap<(ConfigId, TokenId), ConfigId>,
    /// Forced runs: the bytes and the configuration after them.
    pub(super) forced: FxHashMap<ConfigId, (Arc<[u8]>, ConfigId)>,
}

/// Most remembered token transitions per grammar (about 16 bytes each).
const MAX_ACCEPTED: usize = 1 << 20;

impl Runtime {
    /// Where a token with these bytes leads.
    pub(super) fn step_token(&mut self, config: ConfigId, token: TokenId, bytes: &[u8]) -> ConfigId {
        if let Some(&known) = self.accepted.get(&(config, token)) {
            return known;
        }
        let to = self.machine.step_bytes(config, bytes);
        if self.accepted.len() >= MAX_ACCEPTED {
            self.accepted.clear();
        }
        self.accepted.insert((config, token), to);
        to
    }
}

impl CompiledGrammar {
    /// A matcher at the start of the output.
    pub fn matcher(&self) -> Matcher {
        let start = self.runtime().machine.initial();
        Matcher::new(self.clone(), start)
    }

    /// What the user should know about how the constraint is honoured.
    pub fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    /// The vocabulary it was compiled for.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.0.vocab
    }

    /// Sizes now: automaton states, deterministic states, stack nodes, configurations, masks of
    /// configurations, of local states, of continuations.
    pub fn sizes(&self) -> [usize; 7] {
        let runtime = self.runtime();
        let [nfa, dfa, stacks, configs] = runtime.machine.sizes();
        let [full, local, next] = runtime.masks.sizes();
        [nfa, dfa, stacks, configs, full, local, next]
    }

    /// The tables, locked. A panic elsewhere while they were locked cannot have left them
    /// inconsistent: they only grow, entry by entry.
    pub(super) fn runtime(&self) -> MutexGuard<'_, Runtime> {
        self.0.runtime.lock().unwrap_or_else(|e| e.into_inner())
    }
}
