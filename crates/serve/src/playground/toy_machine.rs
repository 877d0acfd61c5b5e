//! A machine over words for the Mask Explorer: small enough that every token can be read, compiled
//! by the engine like any other.
//!
//! Its outputs are calls of a search, such as `{"tool":"retrieve","source":"docs","k":2}`. A profile
//! stands for a model: it gives each word a logit, which may depend on the state.

use std::sync::OnceLock;

use ffwd_runtime::constraint::Constraint;
use ffwd_runtime::constraint::token_machine::{State, TokenFsm};
use ffwd_runtime::error::Result;
use ffwd_runtime::matcher::{CompiledGrammar, Compiler};
use ffwd_runtime::vocab::{TokenId, Vocabulary};

/// The words. Three of them are never legal, and one only leads into a trap.
const WORDS: [&str; 17] = [
    "{",
    "}",
    ":",
    ",",
    "\"tool\"",
    "\"source\"",
    "\"k\"",
    "\"retrieve\"",
    "\"lookup\"",
    "\"docs\"",
    "\"tickets\"",
    "1",
    "2",
    "\"DROP\"",
    "\"extra\"",
    "true",
    "<eos>",
];
/// The transitions of states 0 to 12, in their order: the names of the states, and the words that
/// lead to the next one.
const STEPS: [(&str, &[&str]); 13] = [
    ("start", &["{"]),
    ("first key", &["\"tool\""]),
    ("colon", &[":"]),
    ("tool", &["\"retrieve\"", "\"lookup\""]),
    ("comma", &[","]),
    ("second key", &["\"source\""]),
    ("colon", &[":"]),
    ("source", &["\"docs\"", "\"tickets\""]),
    ("comma", &[","]),
    ("third key", &["\"k\""]),
    ("colon", &[":"]),
    ("k", &["1", "2"]),
    ("closing brace", &["}"]),
];
/// The state from which no end can be reached, and the state that leads to it.
const TRAP: State = 20;
const BEFORE_TRAP: State = 11;
/// The task of the machine's user, which no constraint knows.
pub(super) const TASK: &str = "Look up in the documentation how refunds work.";
/// The value of `source` that the task asks for.
pub(super) const WANTED_SOURCE: &str = "docs";

/// Stands for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Profile {
    /// Prefers what the schema allows.
    Friendly,
    /// Prefers words that are never legal.
    Confused,
    /// Prefers a legal source that is not the one of the task.
    Mismatch,
}

/// The compiled machine.
pub(super) struct ToyMachine {
    pub grammar: CompiledGrammar,
    fsm: TokenFsm,
}

impl ToyMachine {
    /// Returns the machine, compiled at the first call.
    pub(super) fn get() -> Result<&'static ToyMachine> {
        static MACHINE: OnceLock<Result<ToyMachine>> = OnceLock::new();
        MACHINE.get_or_init(build).as_ref().map_err(Clone::clone)
    }

    /// Returns the logits of a profile after some words, which the machine accepts.
    pub(super) fn logits(&self, profile: Profile, words: &[TokenId]) -> Vec<f32> {
        let mut walk = self.fsm.walk();
        for &word in words {
            walk.advance(word);
        }
        let state = walk.states().first().copied().unwrap_or_default();
        let mut logits = vec![-2.0; WORDS.len()];
        for legal in walk.allowed_tokens().iter().filter(|&id| WORDS[id as usize] != "true") {
            logits[legal as usize] = 1.0;
        }
        if walk.is_complete() {
            logits[id_of("<eos>") as usize] = 1.0;
        }
        let mut prefer = |word: &str, logit: f32| logits[id_of(word) as usize] = logit;
        match state {
            3 => prefer("\"retrieve\"", 2.0),
            7 if profile == Profile::Mismatch => prefer("\"tickets\"", 5.0),
            7 => prefer("\"docs\"", 2.0),
            BEFORE_TRAP => prefer("2", 2.0),
            _ => {}
        }
        if profile == Profile::Confused {
            prefer("\"DROP\"", 5.0);
            prefer("\"extra\"", 4.0);
            if state == BEFORE_TRAP {
                prefer("true", 6.0);
            }
        }
        logits
    }

    /// Returns true if a word has a transition that compiling removed, because no end can be reached
    /// from its target.
    pub(super) fn leads_nowhere(&self, words: &[TokenId], word: TokenId) -> bool {
        let mut walk = self.fsm.walk();
        words.iter().all(|&word| walk.advance(word)) && walk.advance(word) && walk.states() == [TRAP]
    }
}

fn id_of(word: &str) -> TokenId {
    WORDS.iter().position(|known| *known == word).unwrap_or_default() as TokenId
}

fn build() -> Result<ToyMachine> {
    let eos = id_of("<eos>");
    // A vocabulary needs the bytes of its tokens one by one; no transition has those.
    let bytes = (b' '..=b'~').map(|byte| vec![byte]);
    let tokens: Vec<Vec<u8>> = WORDS.iter().map(|word| word.as_bytes().to_vec()).chain(bytes).collect();
    let vocab = Vocabulary::from_token_bytes(&tokens, &[], vec![eos])?;
    let mut fsm = TokenFsm::new();
    for (state, (name, words)) in (0..).zip(STEPS) {
        let ids: Vec<TokenId> = words.iter().map(|word| id_of(word)).collect();
        fsm.add_transition(state, ids, state + 1).name(state, name);
    }
    fsm.accept(STEPS.len() as State).name(STEPS.len() as State, "end");
    fsm.add_transition(BEFORE_TRAP, id_of("true"), TRAP).name(TRAP, "trap");
    fsm.add_transition(TRAP, id_of(","), TRAP);
    let grammar = Compiler::new(vocab).compile(&Constraint::token_fsm(&fsm))?;
    Ok(ToyMachine { grammar, fsm })
}

/// Returns the word of a token.
pub(super) fn word(id: TokenId) -> &'static str {
    WORDS.get(id as usize).copied().unwrap_or_default()
}
