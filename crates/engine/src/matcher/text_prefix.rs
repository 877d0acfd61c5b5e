//! Text in front of a machine over tokens: thinking that ends with a marker, then labels.
//!
//! The text is an automaton over bytes that ends where its marker first does, so the one hands over to the other
//! behind a token that ends there: no token reaches over. Numbers of configurations tell the two
//! apart by their highest bit. Cost: what the part that is under way costs. Rejected: both at a time, for
//! text that may end or go on, which would make every state of the tokens a set with the
//! threads of the text; nothing but thinking has asked for it.

use std::sync::Arc;

use super::token_machine::TokenTables;
use crate::machine::{ConfigId, DEAD_CONFIG, Machine};
use crate::mask::{Mask, MaskCache};
use crate::vocab::{TokenId, Vocabulary};

/// The bit of configurations in the text.
const TEXT: ConfigId = 1 << 31;

/// A text and what follows it.
pub(super) struct PrefixedTokens {
    pub machine: Machine,
    pub masks: MaskCache,
    /// What the text ends with.
    pub marker: Arc<str>,
    pub tables: TokenTables,
}

impl PrefixedTokens {
    /// Whether a configuration is one of the text.
    pub fn is_text(config: ConfigId) -> bool {
        config & TEXT != 0
    }

    pub fn initial(&self) -> ConfigId {
        self.machine.initial() | TEXT
    }

    /// Where a token with these bytes leads.
    pub fn step(&mut self, config: ConfigId, token: TokenId, bytes: &[u8]) -> ConfigId {
        if !PrefixedTokens::is_text(config) {
            return self.tables.step(config, token);
        }
        // A token without bytes is no text.
        if bytes.is_empty() {
            return DEAD_CONFIG;
        }
        match self.machine.step_bytes(config & !TEXT, bytes) {
            DEAD_CONFIG => DEAD_CONFIG,
            end if self.machine.is_accepting(end) => self.tables.initial(),
            within => within | TEXT,
        }
    }

    /// The legal tokens.
    pub fn mask(&mut self, config: ConfigId) -> Arc<Mask> {
        match PrefixedTokens::is_text(config) {
            true => self.masks.mask(&mut self.machine, config & !TEXT),
            false => self.tables.mask(config),
        }
    }

    /// Whether the output may end: never in the text.
    pub fn is_accepting(&self, config: ConfigId) -> bool {
        !PrefixedTokens::is_text(config) && self.tables.is_accepting(config)
    }

    /// Whether the output must end.
    pub fn is_final(&mut self, config: ConfigId) -> bool {
        !PrefixedTokens::is_text(config) && self.tables.is_final(config)
    }

    /// Tokens by which the output could be completed: in the text what is missing of the marker, and then what
    /// completes the rest.
    pub fn completion(&mut self, config: ConfigId, vocab: &Vocabulary) -> Option<Vec<TokenId>> {
        if !PrefixedTokens::is_text(config) {
            return self.tables.completion(config);
        }
        let marker = self.marker.clone();
        let cuts = (0..marker.len()).rev().filter(|&at| marker.is_char_boundary(at));
        let mut tokens = cuts.filter_map(|at| vocab.encode(&marker[at..]).ok()).find(|tokens| {
            let mut at = config;
            tokens.iter().all(|&token| {
                // Nothing of the marker is left behind the token that ends it.
                let within = PrefixedTokens::is_text(at);
                at = if within { self.step(at, token, vocab.token_bytes(token)) } else { DEAD_CONFIG };
                at != DEAD_CONFIG
            }) && !PrefixedTokens::is_text(at)
        })?;
        tokens.extend(self.tables.completion(self.tables.initial())?);
        Some(tokens)
    }

    /// Bytes of states and of masks.
    pub fn bytes(&self) -> [usize; 2] {
        let states = self.machine.bytes() + self.tables.state_bytes();
        [states, self.masks.bytes() + self.tables.mask_bytes()]
    }

    /// Everything as it was before the first generation.
    pub fn renewed(&self) -> PrefixedTokens {
        PrefixedTokens {
            machine: self.machine.emptied(),
            masks: self.masks.renewed(),
            marker: self.marker.clone(),
            tables: self.tables.renewed(),
        }
    }

    /// A copy under the same numbers.
    pub fn copy(&self) -> PrefixedTokens {
        PrefixedTokens {
            machine: self.machine.clone(),
            masks: self.masks.copy(),
            marker: self.marker.clone(),
            tables: self.tables.copy(),
        }
    }
}
