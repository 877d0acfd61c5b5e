//! What constraints over tokens become: states that are numbered as a generation meets them.
//!
//! A state of a hand-built machine is a set of its states, one of labels a place in the trie and the labels
//! that have been; both are interned, so that going back is going back to an older number, as with byte-level
//! grammars. A new state costs its row, a known one an array access. Making all states at once was rejected:
//! sets of states, and of labels used, are exponentially many, and a generation meets few.
//!
//! Nothing can fail in the middle: dead states are cut away when the machine is compiled, and a label is
//! offered only if it can be completed.

mod fsm;
mod labels;

use std::sync::Arc;

use crate::constraint::token_machine::TokenMachine;
use crate::error::Result;
use crate::machine::{ConfigId, DEAD_CONFIG};
use crate::mask::Mask;
use crate::vocab::{TokenId, Vocabulary};
use fsm::FsmStates;
use labels::LabelStates;

/// Longest forced run handed out at once, in tokens.
const MAX_FORCED: usize = 1 << 16;

/// The states of a machine over tokens that were met so far.
#[derive(Clone)]
pub(super) struct TokenTables {
    states: States,
    /// By configuration; made when first asked for.
    rows: Vec<Option<Arc<Row>>>,
    row_bytes: usize,
}

#[derive(Clone)]
enum States {
    Fsm(FsmStates),
    Labels(LabelStates),
}

/// What may come next in a configuration.
struct Row {
    mask: Arc<Mask>,
    /// The only token of the mask, if there is one only.
    only: Option<TokenId>,
    is_empty: bool,
}

/// Most rows kept, in bytes; beyond, they are made again.
const MAX_ROW_BYTES: usize = 64 << 20;

impl TokenTables {
    /// Checks a machine against a vocabulary and makes its tables, and what the user should be told.
    pub(super) fn compile(machine: &TokenMachine, vocab: &Vocabulary) -> Result<(Self, Vec<String>)> {
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

    /// Where a token leads; the dead configuration if nowhere.
    pub(super) fn step(&mut self, config: ConfigId, token: TokenId) -> ConfigId {
        if config == DEAD_CONFIG {
            return DEAD_CONFIG;
        }
        match &mut self.states {
            States::Fsm(states) => states.step(config, token),
            States::Labels(states) => states.step(config, token),
        }
    }

    /// Whether the output may end.
    pub(super) fn is_accepting(&self, config: ConfigId) -> bool {
        config != DEAD_CONFIG
            && match &self.states {
                States::Fsm(states) => states.is_accepting(config),
                States::Labels(states) => states.is_accepting(config),
            }
    }

    /// Whether the output must end.
    pub(super) fn is_final(&mut self, config: ConfigId) -> bool {
        self.is_accepting(config) && self.row(config).is_empty
    }

    /// The tokens that may come next, end tokens not among them.
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

    /// The tokens that leave no choice, and neither does the end: exactly what masked decoding would give.
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

    /// Tokens of a short way to where the output may end: of a hand-built machine the shortest, of labels
    /// the nearest one, and if more are demanded the shortest of those that are left, one by one.
    pub(super) fn completion(&self, config: ConfigId) -> Option<Vec<TokenId>> {
        match &self.states {
            _ if config == DEAD_CONFIG => None,
            States::Fsm(states) => Some(states.completion(config)),
            States::Labels(states) => states.completion(config),
        }
    }

    /// The tokens that may come next, sorted; end tokens not among them.
    pub(super) fn tokens(&self, config: ConfigId) -> Vec<TokenId> {
        match &self.states {
            _ if config == DEAD_CONFIG => Vec::new(),
            States::Fsm(states) => states.tokens(config),
            States::Labels(states) => states.tokens(config),
        }
    }

    /// The configuration in words.
    pub(super) fn describe(&self, config: ConfigId, vocab: &Vocabulary) -> String {
        match &self.states {
            _ if config == DEAD_CONFIG => "nowhere".into(),
            States::Fsm(states) => states.describe(config),
            States::Labels(states) => states.describe(config, vocab),
        }
    }

    /// Configurations met, and rows held.
    pub(super) fn sizes(&self) -> [usize; 2] {
        let configs = match &self.states {
            States::Fsm(states) => states.len(),
            States::Labels(states) => states.len(),
        };
        [configs, self.rows.iter().flatten().count()]
    }

    /// Bytes of the machine as it was compiled, which all copies share.
    pub(super) fn fixed_bytes(&self) -> usize {
        match &self.states {
            States::Fsm(states) => states.fixed_bytes(),
            States::Labels(states) => states.fixed_bytes(),
        }
    }

    /// Bytes of states.
    pub(super) fn state_bytes(&self) -> usize {
        match &self.states {
            States::Fsm(states) => states.bytes(),
            States::Labels(states) => states.bytes(),
        }
    }

    /// Bytes of rows.
    pub(super) fn mask_bytes(&self) -> usize {
        self.row_bytes + self.rows.capacity() * 8
    }

    /// Everything as it was before the first generation.
    pub(super) fn renewed(&self) -> Self {
        let states = match &self.states {
            States::Fsm(states) => States::Fsm(states.renewed()),
            States::Labels(states) => States::Labels(states.renewed()),
        };
        TokenTables { states, rows: Vec::new(), row_bytes: 0 }
    }

    /// A copy under the same numbers. Rows stay behind: two threads that count the same references would
    /// wait for each other.
    pub(super) fn copy(&self) -> Self {
        TokenTables { states: self.states.clone(), rows: Vec::new(), row_bytes: 0 }
    }
}
