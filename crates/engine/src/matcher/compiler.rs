//! Compiles constraints for a vocabulary, and holds what compiled grammars share.
//!
//! For each policy of whitespace and numbers there is one *base*: the rules of strings, numbers and
//! any JSON value with all of their masks. It is made once and shared by every grammar.
//!
//! # Cost
//! Making a base takes some tens of milliseconds for a vocabulary of 128k tokens. Compiling is one
//! pass over the constraint; states and masks of its own rules are made when a generation first
//! reaches them.

use std::sync::{Arc, Mutex};

use super::Matcher;
use super::tables::{GrammarTables, Memory, Replicas, TABLE_LIMIT, Tables};
use super::token_machine::{TextBefore, TokenTables, TokensAfterText};
use crate::constraint::ir::{FreeNumber, Ir, Node, ToolSchema};
use crate::constraint::substring::SourceText;
use crate::constraint::{Constraint, KeyOrder, Policy, prepare_formats};
use crate::error::Result;
use crate::json_escape::escape_to;
use crate::machine::{Machine, Program};
use crate::mask::BaseMasks;
use crate::mask::MaskCache;
use crate::vocab::Vocabulary;
use crate::warning::{Warning, WarningKind};

/// Compiles constraints for one vocabulary. Can be shared between threads.
///
/// ```no_run
/// # fn main() -> ffwd_engine::Result<()> {
/// use ffwd_engine::{Compiler, Constraint, Vocabulary};
///
/// let vocab = Vocabulary::from_file("tokenizer.json")?;
/// let compiler = Compiler::new(vocab.clone());
/// let grammar = compiler.compile(&Constraint::regex("[0-9]{4}")?)?;
/// let mut row = vec![0u32; vocab.bitmask_words()]; // bit t % 32 of word t / 32 is token t
/// grammar.matcher().fill_bitmask(&mut row);
/// # Ok(())
/// # }
/// ```
pub struct Compiler {
    vocab: Vocabulary,
    alphabet: [bool; 256],
    /// In the order of use; the most recent one is last.
    bases: Mutex<Vec<(Policy, Arc<Base>)>>,
    table_limit: usize,
    replicas: usize,
}

/// Maximum number of policies whose bases are kept.
const MAX_BASES: usize = 16;

struct Base {
    program: Program,
    masks: Arc<BaseMasks>,
}

/// Maximum number of names that are tried for drafts.
const MAX_LIKELY_NAMES: usize = 64;
/// Maximum number of texts of a constraint that are searched for special tokens.
const MAX_MARKS: usize = 1_000;

impl Compiler {
    /// Creates a compiler and makes the base of the default policy.
    pub fn new(vocab: Vocabulary) -> Self {
        let mut alphabet = [false; 256];
        for (b, has) in alphabet.iter_mut().enumerate() {
            *has = vocab.has_byte(b as u8);
        }
        let replicas = std::thread::available_parallelism().map_or(1, |n| n.get());
        let bases = Mutex::new(Vec::new());
        let compiler = Compiler { vocab, alphabet, bases, table_limit: TABLE_LIMIT, replicas };
        if let Err(error) = compiler.base(&Policy::default()) {
            // The base holds no user input, so this would show in any test; compiling reports it.
            tracing::error!(%error, "the base grammar does not compile");
        }
        compiler
    }

    /// Sets how many bytes the tables of one grammar may hold before they are made anew, for each
    /// thread that uses the grammar at the same time (default: 256 MiB).
    pub fn with_table_limit(self, bytes: usize) -> Self {
        Compiler { table_limit: bytes, ..self }
    }

    /// Sets on how many threads masks of one grammar are made at the same time without waiting for
    /// each other (default: the number of cores). Each thread costs a copy of the grammar's tables,
    /// once it is needed.
    pub fn with_replicas(self, most: usize) -> Self {
        Compiler { replicas: most, ..self }
    }

    /// Makes everything now that the first constraint to need it would otherwise make: the automata
    /// of the formats of JSON Schema, once in a process, and the vocabulary's tables for text under
    /// patterns. Servers call this at startup to keep requests short.
    pub fn warm_up(&self) {
        self.vocab.prepare();
        prepare_formats();
    }

    /// Returns the vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocab
    }

    /// Returns the bytes of the tables that all grammars share: the automata and masks of plain
    /// values, for each policy. At most 16 policies are kept.
    pub fn shared_bytes(&self) -> usize {
        let bases = self.bases.lock().unwrap_or_else(|e| e.into_inner());
        bases.iter().map(|(_, base)| base.masks.bytes() + base.program.bytes()).sum()
    }

    /// Compiles a constraint.
    ///
    /// # Errors
    /// `Unsatisfiable` if no output of this vocabulary's bytes satisfies it, `TooComplex` beyond a
    /// limit, `Unsupported` for left recursion. For constraints over tokens see
    /// [`token_machine`](crate::constraint::token_machine).
    pub fn compile(&self, constraint: &Constraint) -> Result<CompiledGrammar> {
        let mut warnings = constraint.warnings().to_vec();
        warnings.extend(self.special_token_warnings(constraint));
        let tables = match constraint.token_machine() {
            Some(tokens) => {
                let (tables, more) = TokenTables::compile(tokens, &self.vocab)?;
                warnings.extend(more);
                let text = constraint.marker().map(|marker| -> Result<TextBefore> {
                    let (machine, masks) = self.automaton(constraint, &mut warnings)?;
                    Ok(TextBefore { machine, masks, marker: marker.into() })
                });
                Tables::Tokens(TokensAfterText { text: text.transpose()?, tables })
            }
            None => {
                let (machine, masks) = self.automaton(constraint, &mut warnings)?;
                Tables::Bytes { machine, masks }
            }
        };
        Ok(CompiledGrammar(Arc::new(Grammar {
            vocab: self.vocab.clone(),
            warnings,
            sources: constraint
                .ir()
                .sources
                .iter()
                .map(|source| Arc::new(SourceText::new(source.clone())))
                .collect(),
            likely_names: likely_names(constraint),
            token_level: constraint.is_token_level(),
            replicas: Replicas::new(GrammarTables::new(tables, self.table_limit), self.replicas),
        })))
    }

    /// Returns a warning for each special token that the constraint writes as plain text.
    fn special_token_warnings(&self, constraint: &Constraint) -> Vec<Warning> {
        let marks = constraint.ir().marks.iter().take(MAX_MARKS);
        let mut found: Vec<(&str, &str)> =
            marks.filter_map(|mark| Some((self.vocab.special_within(mark)?, mark.as_str()))).collect();
        found.sort_by_key(|f| f.0);
        found.dedup_by_key(|f| f.0);
        let say = |(special, mark): (&str, &str)| {
            let ends = self.vocab.token_id(special).is_some_and(|id| self.vocab.eos().contains(&id));
            let help = match ends {
                true => "it ends generations, so it cannot be text",
                false => {
                    "to have the token, name it as a marker (`Vocabulary::with_markers`, `EngineBuilder::markers`)"
                }
            };
            let mark = mark.escape_debug();
            let message = format!(
                "`{special}` is a special token of the tokenizer, but `{mark}` is written in tokens of text; {help}"
            );
            Warning::new(WarningKind::SpecialToken, message)
        };
        found.into_iter().map(say).collect()
    }

    /// Builds the byte automaton of a constraint, and its masks.
    fn automaton(
        &self,
        constraint: &Constraint,
        warnings: &mut Vec<Warning>,
    ) -> Result<(Machine, MaskCache)> {
        let base = self.base(constraint.policy())?;
        let program = Program::extend(&base.program, constraint.ir())?;
        for warning in program.lost_tools().iter().map(ToolSchema::left_out) {
            // A tool with several spellings is named once.
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        let machine = Machine::new(program, self.vocab.quoted_strings().clone());
        Ok((machine, MaskCache::new(&self.vocab, base.masks.clone())))
    }

    fn base(&self, policy: &Policy) -> Result<Arc<Base>> {
        // It concerns objects with declared properties only, which no base has.
        let policy = &Policy { closed_objects: false, ..policy.clone() };
        let mut bases = self.bases.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(at) = bases.iter().position(|(p, _)| p == policy) {
            let known = bases.remove(at);
            let base = known.1.clone();
            bases.push(known);
            return Ok(base);
        }
        let mut program = Program::base(policy, &self.alphabet, &common_values(policy))?;
        program.determinise();
        let states = program.dfa_len() as u32;
        let mut machine = Machine::new(program.clone(), self.vocab.quoted_strings().clone());
        let masks = MaskCache::base(&self.vocab, &mut machine.core, states);
        let base = Arc::new(Base { program, masks });
        if bases.len() == MAX_BASES {
            bases.remove(0);
        }
        bases.push((policy.clone(), base.clone()));
        Ok(base)
    }
}

/// Returns the required names of objects in any order, in the order of the schema.
fn likely_names(constraint: &Constraint) -> Vec<Box<[u8]>> {
    let every = constraint.policy().key_order == KeyOrder::Any;
    let free = constraint.ir().objects().filter(|object| every || object.any_order);
    let required = free.flat_map(|object| &object.properties).filter(|property| property.required);
    let quoted = |name: &str| {
        let mut out = Vec::new();
        escape_to(name, |part| out.extend_from_slice(part));
        out.push(b'"');
        out.into_boxed_slice()
    };
    let mut names: Vec<Box<[u8]>> = Vec::new();
    for name in required.map(|property| quoted(&property.name)) {
        if names.len() < MAX_LIKELY_NAMES && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The values so common in schemas that their states belong to the base: unbounded numbers.
fn common_values(policy: &Policy) -> Ir {
    let mut ir = Ir::new();
    let mut values = Vec::new();
    for integer in [true, false] {
        let numbers = FreeNumber::new(integer, policy.equal_numbers, policy);
        values.push(ir.push(Node::JsonNumber(numbers)));
    }
    for word in ["null", "true", "false"] {
        values.push(ir.bytes(word));
    }
    // An array of them, so that each becomes a rule of its own.
    let root = ir.push(Node::JsonArray { prefix: values, rest: None, min: 0, max: None });
    ir.set_root(root);
    ir
}

/// Sizes of the tables of a [`CompiledGrammar`], as numbers of entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct GrammarSizes {
    /// States of the automaton.
    pub nfa_states: usize,
    /// Deterministic states made so far.
    pub dfa_states: usize,
    /// Nodes of the graph of stacks.
    pub stack_nodes: usize,
    /// Configurations met so far.
    pub configurations: usize,
    /// Masks of configurations.
    pub masks: usize,
    /// Masks of single states.
    pub local_masks: usize,
    /// Masks after returns from rules.
    pub masks_after_returns: usize,
}

impl GrammarSizes {
    fn of(machine: &Machine, masks: &MaskCache) -> Self {
        let [nfa_states, dfa_states, stack_nodes, configurations] = machine.sizes();
        let [masks, local_masks, masks_after_returns] = masks.sizes();
        GrammarSizes {
            nfa_states,
            dfa_states,
            stack_nodes,
            configurations,
            masks,
            local_masks,
            masks_after_returns,
        }
    }
}

/// A constraint compiled for a vocabulary. Cheap to clone; can be shared between threads.
///
/// ```
/// # fn main() -> ffwd_engine::Result<()> {
/// # let tokenizer = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/assets/extract-5m/tokenizer.json"));
/// use ffwd_engine::{Compiler, Constraint, Vocabulary};
///
/// let compiler = Compiler::new(Vocabulary::from_bytes(tokenizer)?);
/// let grammar = compiler.compile(&Constraint::json_schema(r#"{"type": "integer"}"#)?)?;
/// let (mut one, mut other) = (grammar.matcher(), grammar.matcher()); // two generations
/// assert_eq!(one.legal_count(), other.legal_count());
/// assert!(grammar.warnings().is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CompiledGrammar(Arc<Grammar>);

struct Grammar {
    vocab: Vocabulary,
    warnings: Vec<Warning>,
    sources: Vec<Arc<SourceText>>,
    /// Required names of objects in any order, as JSON without the first quotation mark.
    likely_names: Vec<Box<[u8]>>,
    /// True for a machine over tokens.
    token_level: bool,
    replicas: Replicas,
}

impl std::fmt::Debug for CompiledGrammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Grammar { vocab, warnings, .. } = &*self.0;
        f.debug_struct("CompiledGrammar")
            .field("vocabulary", vocab)
            .field("warnings", warnings)
            .finish_non_exhaustive()
    }
}

impl CompiledGrammar {
    /// Returns a matcher at the start of the output.
    pub fn matcher(&self) -> Matcher {
        let replica = self.0.replicas.least_used();
        let start = replica.lock().initial();
        Matcher::new(self.clone(), replica, start)
    }

    /// Returns what the author of the constraint may not expect, such as unknown keywords.
    pub fn warnings(&self) -> &[Warning] {
        &self.0.warnings
    }

    /// Returns the texts that its spans are copied from.
    pub fn sources(&self) -> &[Arc<SourceText>] {
        &self.0.sources
    }

    /// Returns true if it is made of tokens rather than bytes: see
    /// [`token_machine`](crate::constraint::token_machine).
    pub fn is_token_level(&self) -> bool {
        self.0.token_level
    }

    /// Returns the vocabulary it was compiled for.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.0.vocab
    }

    /// Returns the current sizes of the tables, those of one thread. Machines over tokens have
    /// configurations and their masks only.
    pub fn sizes(&self) -> GrammarSizes {
        let replica = self.0.replicas.least_used();
        match &replica.lock().tables {
            Tables::Bytes { machine, masks } => GrammarSizes::of(machine, masks),
            Tables::Tokens(tokens) => {
                let [configurations, masks] = tokens.tables.sizes();
                let of = |text: &TextBefore| GrammarSizes::of(&text.machine, &text.masks);
                let text = tokens.text.as_ref().map_or_else(GrammarSizes::default, of);
                GrammarSizes {
                    configurations: text.configurations + configurations,
                    masks: text.masks + masks,
                    ..text
                }
            }
        }
    }

    /// Returns the bytes held now. What replicas share is counted once, what all grammars share is
    /// not counted: see [`Compiler::shared_bytes`].
    pub fn memory(&self) -> Memory {
        let mut all = Memory::default();
        for replica in self.0.replicas.all() {
            let one = replica.lock().memory();
            all.automaton = one.automaton;
            all.states += one.states;
            all.masks += one.masks;
            all.transitions += one.transitions;
            all.replicas += 1;
        }
        all
    }

    /// Returns the number of tokens that matchers of this grammar have stepped over so far, accepted
    /// or not: a measure of work. Tables that were replaced no longer count.
    pub fn tokens_stepped(&self) -> u64 {
        self.0.replicas.all().iter().map(|replica| replica.lock().steps()).sum()
    }

    pub(super) fn likely_names(&self) -> &[Box<[u8]>] {
        &self.0.likely_names
    }

    pub(super) fn replicas(&self) -> &Replicas {
        &self.0.replicas
    }
}
