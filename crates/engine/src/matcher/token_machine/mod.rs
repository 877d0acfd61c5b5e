//! Tables of constraints over tokens: states numbered as generations reach them.
//!
//! A configuration of a hand-built machine is a set of its states. A configuration of labels is a
//! position in the label trie and the labels used so far. Both are interned, so a rollback returns
//! to an older number, as with byte-level grammars. Nothing can fail in the middle of a generation:
//! compiling removes dead states, and a label is legal only if it can be completed.
//!
//! # Cost
//!
//! A new configuration costs its mask row, a known one an array access.
//!
//! # Alternatives considered
//!
//! Creating all configurations at once was rejected: sets of states and of used labels are
//! exponentially many, and a generation reaches few of them.

mod after_text;
mod fsm;
mod labels;

use std::sync::Arc;

use crate::constraint::token_machine::TokenMachine;
use crate::error::Result;
use crate::machine::{ConfigId, DEAD_CONFIG};
use crate::mask::Mask;
use crate::vocab::{TokenId, Vocabulary};
use crate::warning::Warning;
pub(super) use after_text::{TextBefore, TokensAfterText};
use fsm::FsmStates;
use labels::LabelStates;

/// Longest forced run returned at once, in tokens.
const MAX_FORCED: usize = 1 << 16;

/// The configurations of a machine over tokens that were reached so far.
#[derive(Clone)]
pub(super) struct TokenTables {
    states: States,
    /// Mask row by configuration, created on first use.
    rows: Vec<Option<Arc<Row>>>,
    row_bytes: usize,
}

#[derive(Clone)]
enum States {
    Fsm(FsmStates),
    Labels(LabelStates),
}

/// The tokens that may come next in a configuration.
struct Row {
    mask: Arc<Mask>,
    /// The only token of the mask, if it has exactly one.
    only: Option<TokenId>,
    is_empty: bool,
}

/// Largest size of the kept mask rows, in bytes; beyond it they are recomputed.
const MAX_ROW_BYTES: usize = 64 << 20;

impl TokenTables {
    /// Checks a machine against a vocabulary. Returns its tables and the warnings for the user.
    pub(super) fn compile(machine: &TokenMachine, vocab: &Vocabulary) -> Result<(Self, Vec<Warning>)> {
        let (states, warnings) = match machine {
            TokenMachine::Fsm(fsm) => {
                let (states, warnings) = FsmStates::compile(fsm, vocab)?;
                (States::Fsm(states), warnings)
            }
            TokenMachine::Labels(labels) => {
                let trie = labels.trie(vocab)?;
                let warnings = trie.warnings().to_vec();
                (States::Labels(LabelStates::new(trie)), warnings)
            }
        };
        Ok((TokenTables { states, rows: Vec::new(), row_bytes: 0 }, warnings))
    }

    pub(super) fn initial(&self) -> ConfigId {
        // The dead configuration is 0.
        1
    }

    /// Returns the configuration after a token; the dead one if there is no transition.
    pub(super) fn step(&mut self, config: ConfigId, token: TokenId) -> ConfigId {
        if config == DEAD_CONFIG {
            return DEAD_CONFIG;
        }
        match &mut self.states {
            States::Fsm(states) => states.step(config, token),
            States::Labels(states) => states.step(config, token),
        }
    }

    /// Returns true if the output may end.
    pub(super) fn is_accepting(&self, config: ConfigId) -> bool {
        config != DEAD_CONFIG
            && match &self.states {
                States::Fsm(states) => states.is_accepting(config),
                States::Labels(states) => states.is_accepting(config),
            }
    }

    /// Returns true if the output must end.
    pub(super) fn is_final(&mut self, config: ConfigId) -> bool {
        self.is_accepting(config) && self.row(config).is_empty
    }

    /// Returns the tokens that may come next, without end tokens.
    pub(super) fn mask(&mut self, config: ConfigId) -> Arc<Mask> {
        self.row(config).mask.clone()
    }

    fn row(&mut self, config: ConfigId) -> Arc<Row> {
        if let Some(Some(row)) = self.rows.get(config as usize) {
            return row.clone();
        }
        let tokens = self.tokens(config);
        let only = if let [token] = tokens[..] { Some(token) } else { None };
        let is_empty = tokens.is_empty();
        let row = Arc::new(Row { mask: Arc::new(Mask::of_tokens(tokens)), only, is_empty });
        if self.row_bytes > MAX_ROW_BYTES {
            self.rows.clear();
            self.row_bytes = 0;
        }
        if self.rows.len() <= config as usize {
            self.rows.resize(config as usize + 1, None);
        }
        self.row_bytes += row.mask.bytes();
        self.rows[config as usize] = Some(row.clone());
        row
    }

    /// Returns the tokens without a choice, up to where the output may end: exactly those of masked
    /// decoding.
    pub(super) fn forced(&mut self, mut config: ConfigId) -> Vec<TokenId> {
        let mut tokens = Vec::new();
        while tokens.len() < MAX_FORCED
            && !self.is_accepting(config)
            && let Some(token) = self.row(config).only
        {
            tokens.push(token);
            config = self.step(config, token);
        }
        tokens
    }

    /// Returns the tokens of a short path to a position where the output may end. For a hand-built
    /// machine it is the shortest. For labels it is the nearest label, followed by the shortest
    /// remaining ones if more are required.
    pub(super) fn completion(&self, config: ConfigId) -> Option<Vec<TokenId>> {
        match &self.states {
            _ if config == DEAD_CONFIG => None,
            States::Fsm(states) => Some(states.completion(config)),
            States::Labels(states) => states.completion(config),
        }
    }

    /// Returns the tokens that may come next, sorted, without end tokens.
    pub(super) fn tokens(&self, config: ConfigId) -> Vec<TokenId> {
        match &self.states {
            _ if config == DEAD_CONFIG => Vec::new(),
            States::Fsm(states) => states.tokens(config),
            States::Labels(states) => states.tokens(config),
        }
    }

    /// Describes the configuration in words.
    pub(super) fn describe(&self, config: ConfigId, vocab: &Vocabulary) -> String {
        match &self.states {
            _ if config == DEAD_CONFIG => "nowhere".into(),
            States::Fsm(states) => states.describe(config),
            States::Labels(states) => states.describe(config, vocab),
        }
    }

    /// Returns the numbers of configurations reached and of mask rows kept.
    pub(super) fn sizes(&self) -> [usize; 2] {
        let configs = match &self.states {
            States::Fsm(states) => states.len(),
            States::Labels(states) => states.len(),
        };
        [configs, self.rows.iter().flatten().count()]
    }

    /// Returns the bytes of the compiled machine, which all copies share.
    pub(super) fn fixed_bytes(&self) -> usize {
        match &self.states {
            States::Fsm(states) => states.fixed_bytes(),
            States::Labels(states) => states.fixed_bytes(),
        }
    }

    /// Returns the bytes of states.
    pub(super) fn state_bytes(&self) -> usize {
        match &self.states {
            States::Fsm(states) => states.bytes(),
            States::Labels(states) => states.bytes(),
        }
    }

    /// Returns the bytes of mask rows.
    pub(super) fn mask_bytes(&self) -> usize {
        self.row_bytes + self.rows.capacity() * 8
    }

    /// Returns the tables in their state before the first generation.
    pub(super) fn renewed(&self) -> Self {
        let states = match &self.states {
            States::Fsm(states) => States::Fsm(states.renewed()),
            States::Labels(states) => States::Labels(states.renewed()),
        };
        TokenTables { states, rows: Vec::new(), row_bytes: 0 }
    }

    /// Returns a copy with the same numbers. Mask rows are left out: two threads that count the
    /// same references would wait for each other.
    pub(super) fn copy(&self) -> Self {
        TokenTables { states: self.states.clone(), rows: Vec::new(), row_bytes: 0 }
    }
}
