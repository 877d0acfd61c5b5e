//! Text in front of a machine over tokens: thinking that ends with a marker, then labels.
//!
//! The text is an automaton over bytes that ends at the first occurrence of its marker. The machine
//! over tokens continues after the token that completes the marker, and no token spans both. The
//! highest bit of a configuration number distinguishes the two parts.
//!
//! # Cost
//!
//! The cost of the part that is active.
//!
//! # Alternatives considered
//!
//! Running both parts at once, for a text that may end or continue, was rejected. Every state of
//! the machine over tokens would become a set with the threads of the text, and only thinking needs
//! a text prefix.

use std::sync::Arc;

use super::token_machine::TokenTables;
use crate::machine::{ConfigId, DEAD_CONFIG, Machine};
use crate::mask::{Mask, MaskCache};
use crate::vocab::{TokenId, Vocabulary};

/// The bit of configurations in the text.
const TEXT: ConfigId = 1 << 31;

/// A text and the machine over tokens that follows it.
pub(super) struct PrefixedTokens {
    pub machine: Machine,
    pub masks: MaskCache,
    /// The marker that ends the text.
    pub marker: Arc<str>,
    pub tables: TokenTables,
}

impl PrefixedTokens {
    /// Returns true if a configuration belongs to the text.
    pub fn is_text(config: ConfigId) -> bool {
        config & TEXT != 0
    }

    pub fn initial(&self) -> ConfigId {
        self.machine.initial() | TEXT
    }

    /// Returns the configuration after a token with these bytes.
    pub fn step(&mut self, config: ConfigId, token: TokenId, bytes: &[u8]) -> ConfigId {
        if !PrefixedTokens::is_text(config) {
            return self.tables.step(config, token);
        }
        // A token without bytes is not text.
        if bytes.is_empty() {
            return DEAD_CONFIG;
        }
        match self.machine.step_bytes(config & !TEXT, bytes) {
            DEAD_CONFIG => DEAD_CONFIG,
            end if self.machine.is_accepting(end) => self.tables.initial(),
            within => within | TEXT,
        }
    }

    /// Returns the legal tokens.
    pub fn mask(&mut self, config: ConfigId) -> Arc<Mask> {
        match PrefixedTokens::is_text(config) {
            true => self.masks.mask(&mut self.machine, config & !TEXT),
            false => self.tables.mask(config),
        }
    }

    /// Returns true if the output may end: never in the text.
    pub fn is_accepting(&self, config: ConfigId) -> bool {
        !PrefixedTokens::is_text(config) && self.tables.is_accepting(config)
    }

    /// Returns true if the output must end.
    pub fn is_final(&mut self, config: ConfigId) -> bool {
        !PrefixedTokens::is_text(config) && self.tables.is_final(config)
    }

    /// Returns tokens that complete the output: in the text the missing part of the marker, then
    /// the completion of the rest.
    pub fn completion(&mut self, config: ConfigId, vocab: &Vocabulary) -> Option<Vec<TokenId>> {
        if !PrefixedTokens::is_text(config) {
            return self.tables.completion(config);
        }
        let marker = self.marker.clone();
        let cuts = (0..marker.len()).rev().filter(|&at| marker.is_char_boundary(at));
        let mut tokens = cuts.filter_map(|at| vocab.encode(&marker[at..]).ok()).find(|tokens| {
            let mut at = config;
            tokens.iter().all(|&token| {
                // No part of the marker may follow the token that completes it.
                let within = PrefixedTokens::is_text(at);
                at = if within { self.step(at, token, vocab.token_bytes(token)) } else { DEAD_CONFIG };
                at != DEAD_CONFIG
            }) && !PrefixedTokens::is_text(at)
        })?;
        tokens.extend(self.tables.completion(self.tables.initial())?);
        Some(tokens)
    }

    /// Returns the bytes of states and of masks.
    pub fn bytes(&self) -> [usize; 2] {
        let states = self.machine.bytes() + self.tables.state_bytes();
        [states, self.masks.bytes() + self.tables.mask_bytes()]
    }

    /// Returns the tables in their state before the first generation.
    pub fn renewed(&self) -> PrefixedTokens {
        PrefixedTokens {
            machine: self.machine.emptied(),
            masks: self.masks.renewed(),
            marker: self.marker.clone(),
            tables: self.tables.renewed(),
        }
    }

    /// Returns a copy with the same numbers.
    pub fn copy(&self) -> PrefixedTokens {
        PrefixedTokens {
            machine: self.machine.clone(),
            masks: self.masks.copy(),
            marker: self.marker.clone(),
            tables: self.tables.copy(),
        }
    }
}
