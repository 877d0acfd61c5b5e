//! The state of one generation under a constraint.
//!
//! A [`Matcher`] is a position in a [`CompiledGrammar`] plus its history. Warm, a mask costs a hash
//! look-up and a copy, accepting a token a hash look-up; rollback and fork do not depend on the
//! length. Nothing can fail in the middle of a generation: every configuration reached has a
//! continuation, which was made sure of when the constraint was compiled. Constraints over tokens
//! ([`token_machine`](crate::constraint::token_machine)) have other tables behind the same interface.

mod bitmask;
mod compiler;
mod explain;
mod forced;
mod history;
mod json_pointer;
mod source_spans;
mod tables;
mod text_prefix;
mod token_machine;

pub use bitmask::Bitmask;
pub use compiler::{CompiledGrammar, Compiler};
pub use explain::{Explanation, Verdict};
pub use forced::ForcedPrefix;
pub use source_spans::SourceSpan;
pub use tables::Memory;

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::machine::{ConfigId, DEAD_CONFIG};
use crate::mask::Mask;
use crate::vocab::{TokenId, Vocabulary};
use history::History;
use tables::Replica;

/// One generation: which tokens may come next, and how to go on.
pub struct Matcher {
    grammar: CompiledGrammar,
    /// The tables that the history's numbers belong to.
    replica: Arc<Replica>,
    vocab: Vocabulary,
    /// Whether the grammar is made of tokens rather than bytes.
    token_level: bool,
    history: History,
    /// Whether an end token was accepted.
    ended: bool,
    /// The mask handed out last.
    mask: Option<Arc<Mask>>,
}

impl std::fmt::Debug for Matcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let accepted = self.history.len();
        f.debug_struct("Matcher")
            .field("accepted", &accepted)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl Matcher {
    fn new(grammar: CompiledGrammar, replica: Arc<Replica>, start: ConfigId) -> Self {
        let vocab = grammar.vocabulary().clone();
        let token_level = grammar.is_token_level();
        let history = History::new(start);
        Matcher { grammar, replica, vocab, token_level, history, ended: false, mask: None }
    }

    /// The grammar.
    pub fn grammar(&self) -> &CompiledGrammar {
        &self.grammar
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocab
    }

    /// The legal tokens, borrowed: nothing is copied. Once terminated only the end tokens are in it.
    pub fn bitmask(&mut self) -> Bitmask<'_> {
        self.leave_contended_replica();
        let mut runtime = self.replica.lock();
        let config = self.history.current();
        self.mask = (!self.ended).then(|| runtime.mask(config));
        let may_end = runtime.is_accepting(config);
        drop(runtime);
        let ends = if may_end { self.vocab.eos() } else { &[] };
        Bitmask { mask: self.mask.as_deref(), ends, words: self.vocab.bitmask_words() }
    }

    /// Writes the legal tokens into `row`: bit t % 32 of word t / 32. All words are overwritten; once
    /// terminated only the end tokens are set.
    ///
    /// # Panics
    /// If `row` is shorter than [`Vocabulary::bitmask_words`].
    pub fn fill_bitmask(&mut self, row: &mut [u32]) {
        self.bitmask().write(row);
    }

    /// Moves to other tables if others keep waiting for these, or these are full.
    #[inline]
    fn leave_contended_replica(&mut self) {
        if self.replica.is_contended() {
            let elsewhere = self.grammar.replicas().relocate(&self.replica, &self.vocab, &self.history);
            if let Some((replica, history)) = elsewhere {
                (self.replica, self.history) = (replica, history);
            }
        }
    }

    /// Number of legal tokens, end tokens included.
    pub fn legal_count(&mut self) -> usize {
        self.bitmask().count()
    }

    /// Advances by one token.
    ///
    /// # Errors
    /// If the token is not legal here; then nothing has changed.
    pub fn accept_token(&mut self, id: TokenId) -> Result<()> {
        if self.vocab.eos().contains(&id) && self.is_accepting() && !self.ended {
            self.ended = true;
            return Ok(());
        }
        self.leave_contended_replica();
        match self.next(id) {
            Some(config) => {
                self.history.push(id, config);
                Ok(())
            }
            None => {
                let bytes = String::from_utf8_lossy(self.vocab.token_bytes(id)).into_owned();
                let message =
                    format!("token {id} ({bytes:?}) is not allowed after {} tokens", self.num_accepted());
                Err(Error::new(ErrorKind::IllegalToken, message)
                    .hint("sample only from tokens whose bit is set in the bitmask of this position"))
            }
        }
    }

    /// Where a text token leads, if it is legal.
    fn next(&self, id: TokenId) -> Option<ConfigId> {
        self.next_from(self.history.current(), id)
    }

    fn next_from(&self, config: ConfigId, id: TokenId) -> Option<ConfigId> {
        let bytes = self.vocab.token_bytes(id);
        // What has no bytes is no text; a machine over tokens may name special tokens all the same.
        if self.ended || bytes.is_empty() && !self.token_level {
            return None;
        }
        let mut runtime = self.replica.lock();
        let to = runtime.step_token(config, id, bytes);
        self.replica.retire_if_full(&runtime);
        (to != DEAD_CONFIG).then_some(to)
    }

    /// Whether a token is legal here, without making a mask.
    pub fn allows(&mut self, id: TokenId) -> bool {
        self.next(id).is_some() || self.vocab.eos().contains(&id) && self.is_accepting() && !self.ended
    }

    /// How many of `ids` would be accepted one after the other; the state does not change. End tokens
    /// are not counted, and stop the count.
    pub fn validate_tokens(&mut self, ids: &[TokenId]) -> usize {
        let mut config = self.history.current();
        for (i, &id) in ids.iter().enumerate() {
            match self.next_from(config, id) {
                Some(next) => config = next,
                None => return i,
            }
        }
        ids.len()
    }

    /// Takes back the last `n` tokens; an end token counts as none and is taken back with any `n`
    /// above 0.
    ///
    /// # Panics
    /// If fewer than `n` tokens were accepted.
    pub fn rollback(&mut self, n: usize) {
        assert!(
            n <= self.history.len(),
            "rollback of {n} tokens, but only {} were accepted",
            self.history.len()
        );
        if n > 0 {
            self.ended = false;
        }
        self.history.pop(n);
    }

    /// Number of tokens accepted, the end token not counted.
    pub fn num_accepted(&self) -> usize {
        self.history.len()
    }

    /// The tokens accepted, the end token not among them. Linear in their number.
    pub fn tokens(&self) -> Vec<TokenId> {
        self.history.tokens()
    }

    /// An independent copy.
    pub fn fork(&self) -> Matcher {
        Matcher {
            grammar: self.grammar.clone(),
            replica: self.replica.clone(),
            vocab: self.vocab.clone(),
            token_level: self.token_level,
            history: self.history.clone(),
            ended: self.ended,
            mask: None,
        }
    }

    /// Whether the output may end here: an end token is legal.
    pub fn is_accepting(&self) -> bool {
        self.ended || self.replica.lock().is_accepting(self.history.current())
    }

    /// Whether the output must end here: nothing but an end token is legal.
    pub fn is_terminated(&self) -> bool {
        self.ended || self.replica.lock().is_final(self.history.current())
    }

    /// Whether the next byte may be text of a JSON string.
    pub fn in_string(&mut self) -> bool {
        !self.ended && self.replica.lock().in_text(self.history.current())
    }

    /// Where in a JSON structure the output stands, as a JSON pointer; empty at the top level.
    pub fn path(&self) -> String {
        if self.token_level {
            return String::new();
        }
        json_pointer::json_path(&self.vocab.decode(&self.tokens()))
    }

    /// Tokens by which the output could be completed from here, few of them; only of a machine over
    /// tokens. Nothing is left to be done where the output may end.
    pub fn token_completion(&self) -> Option<Vec<TokenId>> {
        if self.ended {
            return self.token_level.then(Vec::new);
        }
        self.replica.lock().completion(self.history.current(), &self.vocab)
    }

    /// Bytes by which the output could be completed from here: the fewest, but where properties are counted or must be
    /// new and there are too many ways to try them all. Empty where the output may end. `None` if all are more than `most`, or
    /// of a machine over tokens (see [`token_completion`](Self::token_completion)).
    ///
    /// Costs a few steps for each byte, and once for a grammar a few passes over its states.
    pub fn shortest_completion(&self, most: usize) -> Option<Vec<u8>> {
        if self.token_level {
            return None;
        }
        if self.ended {
            return Some(Vec::new());
        }
        let mut runtime = self.replica.lock();
        let found = runtime.machine()?.shortest(self.history.current(), most);
        runtime.note_size();
        self.replica.retire_if_full(&runtime);
        found
    }

    /// Whether the grammar is made of tokens rather than bytes.
    pub fn is_token_level(&self) -> bool {
        self.token_level
    }

    /// Whether what comes next is made of tokens: not in a text in front of them.
    fn is_at_tokens(&self) -> bool {
        self.token_level && self.replica.lock().tokens(self.history.current()).is_some()
    }
}
