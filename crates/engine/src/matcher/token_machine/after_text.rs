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

use super::TokenTables;
use crate::machine::{ConfigId, DEAD_CONFIG, Machine};
use crate::mask::{Mask, MaskCache};
use crate::vocab::{TokenId, Vocabulary};

/// The bit of configurations in the text.
const TEXT: ConfigId = 1 << 31;

/// A machine over tokens, and the text in front of it, if there is one.
pub(crate) struct TokensAfterText {
    pub text: Option<TextBefore>,
    pub tables: TokenTables,
}

/// A text that ends with a marker.
pub(crate) struct TextBefore {
    pub machine: Machine,
    pub masks: MaskCache,
    pub marker: Arc<str>,
}

impl TokensAfterText {
    /// Returns true if a configuration belongs to the text.
    fn is_text(config: ConfigId) -> bool {
        config & TEXT != 0
    }

    /// Returns the machine over tokens, if a configuration belongs to it.
    pub(crate) fn tokens(&mut self, config: ConfigId) -> Option<&mut TokenTables> {
        (!Self::is_text(config)).then_some(&mut self.tables)
    }

    pub(crate) fn initial(&self) -> ConfigId {
        self.text.as_ref().map_or(self.tables.initial(), |text| text.machine.initial() | TEXT)
    }

    /// Returns the configuration after a token with these bytes.
    pub(crate) fn step(&mut self, config: ConfigId, token: TokenId, bytes: &[u8]) -> ConfigId {
        let Some(text) = self.text.as_mut().filter(|_| Self::is_text(config)) else {
            return self.tables.step(config, token);
        };
        // A token without bytes is not text.
        if bytes.is_empty() {
            return DEAD_CONFIG;
        }
        match text.machine.step_bytes(config & !TEXT, bytes) {
            DEAD_CONFIG => DEAD_CONFIG,
            end if text.machine.is_accepting(end) => self.tables.initial(),
            within => within | TEXT,
        }
    }

    /// Returns the legal tokens.
    pub(crate) fn mask(&mut self, config: ConfigId) -> Arc<Mask> {
        match &mut self.text {
            Some(text) if Self::is_text(config) => text.masks.mask(&mut text.machine, config & !TEXT),
            _ => self.tables.mask(config),
        }
    }

    /// Returns true if the output may end: never in the text.
    pub(crate) fn is_accepting(&self, config: ConfigId) -> bool {
        !Self::is_text(config) && self.tables.is_accepting(config)
    }

    /// Returns true if the output must end.
    pub(crate) fn is_final(&mut self, config: ConfigId) -> bool {
        !Self::is_text(config) && self.tables.is_final(config)
    }

    /// Returns tokens that complete the output: in the text the missing part of the marker, then
    /// the completion of the rest.
    pub(crate) fn completion(&mut self, config: ConfigId, vocab: &Vocabulary) -> Option<Vec<TokenId>> {
        let Some(text) = self.text.as_ref().filter(|_| Self::is_text(config)) else {
            return self.tables.completion(config);
        };
        let marker = text.marker.clone();
        let cuts = (0..marker.len()).rev().filter(|&at| marker.is_char_boundary(at));
        let mut tokens = cuts.filter_map(|at| vocab.encode(&marker[at..]).ok()).find(|tokens| {
            let mut at = config;
            tokens.iter().all(|&token| {
                // No part of the marker may follow the token that completes it.
                let within = Self::is_text(at);
                at = if within { self.step(at, token, vocab.token_bytes(token)) } else { DEAD_CONFIG };
                at != DEAD_CONFIG
            }) && !Self::is_text(at)
        })?;
        tokens.extend(self.tables.completion(self.tables.initial())?);
        Some(tokens)
    }

    /// Returns the bytes of states and of masks.
    pub(crate) fn bytes(&self) -> [usize; 2] {
        let text = self.text.as_ref().map_or([0, 0], |text| [text.machine.bytes(), text.masks.bytes()]);
        [text[0] + self.tables.state_bytes(), text[1] + self.tables.mask_bytes()]
    }

    /// Returns the bytes that copies share.
    pub(crate) fn fixed_bytes(&self) -> usize {
        self.text.as_ref().map_or(0, |text| text.machine.fixed_bytes()) + self.tables.fixed_bytes()
    }

    /// Returns the tables in their state before the first generation.
    pub(crate) fn renewed(&self) -> Self {
        let renewed = |text: &TextBefore| TextBefore {
            machine: text.machine.emptied(),
            masks: text.masks.renewed(),
            marker: text.marker.clone(),
        };
        TokensAfterText { text: self.text.as_ref().map(renewed), tables: self.tables.renewed() }
    }

    /// Returns a copy with the same numbers.
    pub(crate) fn copy(&self) -> Self {
        let copy = |text: &TextBefore| TextBefore {
            machine: text.machine.clone(),
            masks: text.masks.copy(),
            marker: text.marker.clone(),
        };
        TokensAfterText { text: self.text.as_ref().map(copy), tables: self.tables.copy() }
    }
}
