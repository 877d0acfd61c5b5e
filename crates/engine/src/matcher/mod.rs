//! State of one generation under a constraint.
//!
//! A [`Matcher`] is a position in a [`CompiledGrammar`] and its history. Nothing can fail in the
//! middle of a generation: compiling ensures that every reachable configuration has a continuation.
//! Constraints over tokens ([`token_machine`](crate::constraint::token_machine)) have other tables
//! with the same interface.
//!
//! # Cost
//!
//! With warm tables a mask costs a hash lookup and a copy, and accepting a token costs a hash
//! lookup. The cost of rollback and fork does not depend on the length of the output.

mod bitmask;
mod compiler;
mod explain;
#[cfg(test)]
mod fault_tests;
mod forced;
mod history;
mod json_pointer;
mod other_calls;
mod source_spans;
mod state_graph;
mod tables;
mod token_machine;
mod white_space;

pub use bitmask::Bitmask;
pub use compiler::{CompiledGrammar, Compiler, GrammarSizes};
pub use explain::{Explanation, Verdict};
pub use forced::ForcedPrefix;
pub use source_spans::SourceSpan;
pub use state_graph::{GraphEdge, GraphState, StateGraph};
pub use tables::Memory;

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::machine::{ConfigId, DEAD_CONFIG, shortest_text};
use crate::mask::Mask;
use crate::vocab::{TokenId, Vocabulary};
use history::History;
use tables::{GrammarTables, Replica};

/// One generation: the tokens that may come next, and the transitions on them.
///
/// ```
/// # fn main() -> ffwd_engine::Result<()> {
/// # let tokenizer = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/assets/extract-5m/tokenizer.json"));
/// use ffwd_engine::{Compiler, Constraint, Vocabulary};
///
/// let vocab = Vocabulary::from_bytes(tokenizer)?;
/// let compiler = Compiler::new(vocab.clone());
/// let mut matcher = compiler.compile(&Constraint::regex("id-[0-9]{3}")?)?.matcher();
/// assert_eq!(matcher.forced_bytes(), b"id-");
/// for token in vocab.encode("id-4")? {
///     matcher.accept_token(token)?;
/// }
/// let five = vocab.encode("5")?[0];
/// assert!(matcher.allows(five) && !matcher.is_accepting());
/// matcher.accept_token(five)?;
/// matcher.rollback(1); // back to "id-4"
/// assert!(matcher.allows(five));
/// # Ok(())
/// # }
/// ```
pub struct Matcher {
    grammar: CompiledGrammar,
    /// The tables that the configurations of the history belong to.
    replica: Arc<Replica>,
    vocab: Vocabulary,
    /// True if the grammar consists of tokens rather than bytes.
    token_level: bool,
    history: History,
    /// True once an end token was accepted.
    ended: bool,
    /// The mask lent last.
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

    /// Returns the grammar.
    pub fn grammar(&self) -> &CompiledGrammar {
        &self.grammar
    }

    /// Returns the vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocab
    }

    /// Returns the legal tokens, borrowed: nothing is copied. Once terminated, only the end tokens
    /// are legal.
    pub fn bitmask(&mut self) -> Bitmask<'_> {
        let ended = self.ended;
        let (mask, may_end) = self.with_tables(|tables, config, _| {
            ((!ended).then(|| tables.mask(config)), tables.is_accepting(config))
        });
        self.mask = mask;
        let ends = if may_end { self.vocab.eos() } else { &[] };
        Bitmask { mask: self.mask.as_deref(), ends, words: self.vocab.bitmask_words() }
    }

    /// Writes the legal tokens into `row`: bit t % 32 of word t / 32. All words are overwritten;
    /// once terminated, only the end tokens are set.
    ///
    /// # Panics
    /// If `row` is shorter than [`Vocabulary::bitmask_words`].
    pub fn fill_bitmask(&mut self, row: &mut [u32]) {
        self.bitmask().write(row);
    }

    /// Runs `f` on tables that may grow, with the current configuration.
    #[inline]
    fn with_tables<R>(&mut self, f: impl FnOnce(&mut GrammarTables, ConfigId, &Vocabulary) -> R) -> R {
        self.leave_contended_replica();
        let mut tables = self.replica.lock();
        if self.replica.is_damaged() {
            // A thread panicked while this one waited.
            drop(tables);
            self.leave_contended_replica();
            tables = self.replica.lock();
        }
        let result = f(&mut tables, self.history.current(), &self.vocab);
        self.replica.retire_if_full(&tables);
        result
    }

    /// Returns a copy on other tables, if a panic has damaged these: for functions that let tables
    /// grow but cannot move themselves.
    fn moved(&self) -> Option<Matcher> {
        if !self.replica.is_damaged() {
            return None;
        }
        let mut copy = self.fork();
        copy.leave_contended_replica();
        (!copy.replica.is_damaged()).then_some(copy)
    }

    /// Moves to other tables if matchers keep waiting for these, these are full, or a panic has
    /// damaged them.
    #[inline]
    fn leave_contended_replica(&mut self) {
        if self.replica.is_contended() {
            let elsewhere = self.grammar.replicas().relocate(&self.replica, &self.vocab, &self.history);
            if let Some((replica, history)) = elsewhere {
                (self.replica, self.history) = (replica, history);
            }
        }
    }

    /// Returns the number of legal tokens, end tokens included.
    pub fn legal_count(&mut self) -> usize {
        self.bitmask().count()
    }

    /// Advances by one token.
    ///
    /// # Errors
    /// Fails if the token is not legal here; the state is then unchanged.
    pub fn accept_token(&mut self, id: TokenId) -> Result<()> {
        if self.vocab.eos().contains(&id) && self.is_accepting() && !self.ended {
            self.ended = true;
            return Ok(());
        }
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

    /// Returns the configuration after a text token, if the token is legal.
    fn next(&mut self, id: TokenId) -> Option<ConfigId> {
        if self.ended {
            return None;
        }
        let token_level = self.token_level;
        self.with_tables(|tables, config, vocab| step(tables, config, id, (vocab, token_level)))
    }

    /// Returns true if a token is legal here, without computing a mask.
    pub fn allows(&mut self, id: TokenId) -> bool {
        self.next(id).is_some() || self.vocab.eos().contains(&id) && self.is_accepting() && !self.ended
    }

    /// Returns the number of leading tokens of `ids` that would be accepted one after the other;
    /// the state does not change. End tokens are not counted, and stop the count.
    pub fn validate_tokens(&mut self, ids: &[TokenId]) -> usize {
        if self.ended {
            return 0;
        }
        let token_level = self.token_level;
        self.with_tables(|tables, mut config, vocab| {
            let accepted = ids.iter().take_while(|&&id| {
                let next = step(tables, config, id, (vocab, token_level));
                config = next.unwrap_or(DEAD_CONFIG);
                next.is_some()
            });
            accepted.count()
        })
    }

    /// Removes the last `n` tokens that were accepted. An end token counts as one, as in inference
    /// engines, which count what they sampled.
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// # let tokenizer = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/assets/extract-5m/tokenizer.json"));
    /// use ffwd_engine::{Compiler, Constraint, Vocabulary};
    ///
    /// let vocab = Vocabulary::from_bytes(tokenizer)?;
    /// let mut matcher = Compiler::new(vocab.clone()).compile(&Constraint::regex("[ab]")?)?.matcher();
    /// let (a, b) = (vocab.encode("a")?[0], vocab.encode("b")?[0]);
    /// matcher.accept_token(a)?;
    /// matcher.accept_token(vocab.eos()[0])?;
    /// matcher.rollback(1); // the end token alone
    /// assert!(!matcher.is_finished() && matcher.tokens() == [a]);
    /// matcher.accept_token(vocab.eos()[0])?;
    /// matcher.rollback(2); // both
    /// assert!(matcher.allows(b));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If fewer than `n` tokens were accepted, the end token included.
    pub fn rollback(&mut self, n: usize) {
        let accepted = self.history.len() + usize::from(self.ended);
        assert!(n <= accepted, "rollback of {n} tokens, but only {accepted} were accepted");
        if n > 0 {
            self.history.pop(n - usize::from(self.ended));
            self.ended = false;
        }
    }

    /// Returns the number of accepted tokens, the end token not counted: there is one more to roll
    /// back where the output [is finished](Self::is_finished).
    pub fn num_accepted(&self) -> usize {
        self.history.len()
    }

    /// Returns the accepted tokens without the end token. Linear in their number.
    pub fn tokens(&self) -> Vec<TokenId> {
        self.history.tokens()
    }

    /// Returns an independent copy.
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

    /// Returns true if the output may end here, that is, an end token is legal. For whether it has
    /// ended see [`is_finished`](Self::is_finished).
    pub fn is_accepting(&self) -> bool {
        self.ended || self.replica.lock().is_accepting(self.history.current())
    }

    /// Returns true if the output must end here, that is, nothing but an end token is legal.
    pub fn is_terminated(&self) -> bool {
        self.ended || self.replica.lock().is_final(self.history.current())
    }

    /// Returns true if an end token was accepted, so that the output is finished. It is false again
    /// once the end token is rolled back.
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// # let tokenizer = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/assets/extract-5m/tokenizer.json"));
    /// use ffwd_engine::{Compiler, Constraint, Vocabulary};
    ///
    /// let vocab = Vocabulary::from_bytes(tokenizer)?;
    /// let mut matcher = Compiler::new(vocab.clone()).compile(&Constraint::regex("a+")?)?.matcher();
    /// for token in vocab.encode("aa")? {
    ///     matcher.accept_token(token)?;
    /// }
    /// assert!(matcher.is_accepting() && !matcher.is_terminated() && !matcher.is_finished());
    /// matcher.accept_token(vocab.eos()[0])?;
    /// assert!(matcher.is_finished());
    /// matcher.rollback(1); // "aa" again
    /// assert!(matcher.is_accepting() && !matcher.is_finished());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_finished(&self) -> bool {
        self.ended
    }

    /// Returns true if the next byte may be text of a JSON string.
    pub fn in_string(&mut self) -> bool {
        !self.ended && self.replica.lock().in_text(self.history.current())
    }

    /// Returns the fewest and the most characters that can follow in the open JSON string, by its
    /// `minLength` and `maxLength`; the second is `None` without a limit. Returns `None` outside of
    /// strings, without either keyword, and where more than the number of characters matters: with
    /// a pattern, a format, or a list of values.
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// # let tokenizer = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/assets/extract-5m/tokenizer.json"));
    /// use ffwd_engine::{Compiler, Constraint, Vocabulary};
    ///
    /// let vocab = Vocabulary::from_bytes(tokenizer)?;
    /// let schema = Constraint::json_schema(r#"{"type": "string", "maxLength": 8}"#)?;
    /// let mut matcher = Compiler::new(vocab.clone()).compile(&schema)?.matcher();
    /// for token in vocab.encode("\"café")? {
    ///     matcher.accept_token(token)?;
    /// }
    /// assert_eq!(matcher.string_bounds(), Some((0, Some(4))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn string_bounds(&self) -> Option<(usize, Option<usize>)> {
        if self.ended {
            return None;
        }
        let (least, most) = self.replica.lock().text_bounds(self.history.current())?;
        // Without a limit the number is that of the largest limit, less the characters so far.
        let limited = most <= u32::MAX / 2;
        Some((least as usize, limited.then_some(most as usize)))
    }

    /// Returns the JSON pointer of the current position in the output; empty at the top level.
    pub fn path(&self) -> String {
        if self.token_level {
            return String::new();
        }
        json_pointer::json_path(&self.vocab.decode(&self.tokens()))
    }

    /// Returns a short list of tokens that completes the output from here; only for a machine over
    /// tokens. The list is empty where the output may end.
    pub fn token_completion(&self) -> Option<Vec<TokenId>> {
        if let Some(moved) = self.moved() {
            return moved.token_completion();
        }
        if self.ended {
            return self.token_level.then(Vec::new);
        }
        self.replica.lock().completion(self.history.current(), &self.vocab)
    }

    /// Returns bytes that complete the output from here; empty where the output may end. Returns
    /// `None` if every completion has more than `most` bytes, and for a machine over tokens (see
    /// [`token_completion`](Self::token_completion)).
    ///
    /// They are the fewest possible, with one exception: where properties are counted or must be
    /// unique, and there are too many paths to try them all.
    ///
    /// Costs a few steps for each byte, and once per grammar a few passes over its states.
    pub fn shortest_completion(&self, most: usize) -> Option<Vec<u8>> {
        if let Some(moved) = self.moved() {
            return moved.shortest_completion(most);
        }
        if self.token_level {
            return None;
        }
        if self.ended {
            return Some(Vec::new());
        }
        let mut runtime = self.replica.lock();
        let found = shortest_text(runtime.machine()?, self.history.current(), most);
        runtime.note_size();
        self.replica.retire_if_full(&runtime);
        found
    }

    /// Returns true if the grammar consists of tokens rather than bytes.
    pub fn is_token_level(&self) -> bool {
        self.token_level
    }

    /// Returns true if the next position is governed by tokens: not in a text prefix.
    fn is_at_tokens(&self) -> bool {
        self.token_level && self.replica.lock().tokens(self.history.current()).is_some()
    }
}

/// Returns the configuration after a text token, if the token is legal.
#[inline]
fn step(
    tables: &mut GrammarTables,
    config: ConfigId,
    id: TokenId,
    (vocab, token_level): (&Vocabulary, bool),
) -> Option<ConfigId> {
    let bytes = vocab.token_bytes(id);
    // A token without bytes is not text; a machine over tokens may still name special tokens.
    if bytes.is_empty() && !token_level {
        return None;
    }
    let to = tables.step_token(config, id, bytes);
    (to != DEAD_CONFIG).then_some(to)
}
