//! Forced runs: the bytes that a constraint leaves no choice about, and their tokens.
//!
//! # Cost
//!
//! Finding a run means stepping along it, once for each position it is requested at, at a tenth of
//! a microsecond a byte. Tokenising it as the tokenizer would costs two microseconds a byte. Both
//! costs recur after each token of a long run that is verified piece by piece. The last boundary of
//! canonical tokens is tried with the continuations that could move it, each of which is encoded
//! once and then cached.
//!
//! # Alternatives considered
//!
//! Computing the whole run for each draft was rejected: a constant of n bytes would take n * n
//! steps. A draft requests only as much of the run as it has room for ([`Matcher::forced_prefix`]).

use std::borrow::Cow;
use std::sync::Arc;

use super::tables::ForcedRun;
use super::{Matcher, white_space};
use crate::machine::{ConfigId, DEAD_CONFIG, Machine, StackMachine, StepResult, TRIED, Thread};
use crate::vocab::{TokenId, TrieNode, Vocabulary};

/// Longest forced run returned at once, in bytes.
const MAX_FORCED: usize = 1 << 20;
/// Bytes of a run that are examined: for each token that there is room for, and in addition for all
/// of them. Most tokens are shorter, and what is cut off is drafted with the next forward.
const LOOKAHEAD_BYTES: (usize, usize) = (8, 64);

/// Number of continuations that are tried for each token that begins inside of the last one.
const MAX_EXTENSIONS: usize = 24;
/// Number of bytes of a text in which habits of white space are looked for.
const MAX_HABIT: usize = 2048;
/// Number of tokens in front of a run that are encoded with it.
const CONTEXT_TOKENS: usize = 4;

/// The tokens of the first part of a forced run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForcedPrefix {
    /// All tokens of the run if `whole`, otherwise about as many as requested.
    pub tokens: Vec<TokenId>,
    /// True if `tokens` is the whole run.
    pub whole: bool,
}

impl Matcher {
    fn forced_run(&self) -> ForcedRun {
        let start = self.history.current();
        if self.ended { (Arc::from([]), start) } else { self.forced_from(start, MAX_FORCED).0 }
    }

    /// Returns the bytes that would be forced after `bytes`, as many as `tokens` tokens may have.
    /// Returns `None` if `bytes` cannot come next, and for a machine over tokens.
    pub fn forced_bytes_after(&self, bytes: &[u8], tokens: usize) -> Option<Vec<u8>> {
        if let Some(moved) = self.moved() {
            return moved.forced_bytes_after(bytes, tokens);
        }
        if self.ended || self.token_level {
            return None;
        }
        let there = self.replica.lock().machine()?.step_bytes(self.history.current(), bytes);
        (there != DEAD_CONFIG).then(|| self.forced_part(there, tokens).0.to_vec())
    }

    /// Returns the run of forced bytes from `start`, and whether that is all of it. A run that is
    /// not cached is cut at `most` bytes.
    fn forced_from(&self, start: ConfigId, most: usize) -> (ForcedRun, bool) {
        let mut runtime = self.replica.lock();
        if let Some(known) = runtime.forced(start) {
            return (known.clone(), known.0.len() < MAX_FORCED);
        }
        let mut bytes = Vec::new();
        let mut config = start;
        let mut ends = true;
        if let Some(machine) = runtime.machine() {
            while let Some(byte) = machine.forced_byte(config) {
                ends = bytes.len() < most;
                if !ends {
                    break;
                }
                bytes.push(byte);
                config = machine.step_bytes(config, &[byte]);
            }
        }
        let run: ForcedRun = (bytes.into(), config);
        // A partial run must not be cached: it would be taken for the whole.
        if ends || most >= MAX_FORCED {
            runtime.remember_forced(start, run.clone());
        }
        (run, ends)
    }

    /// Returns true if the constraint leaves no choice about what comes next.
    pub fn is_forced(&self) -> bool {
        if let Some(moved) = self.moved() {
            return moved.is_forced();
        }
        match self.forced_chain() {
            Some(tokens) => !tokens.is_empty(),
            None => {
                let mut runtime = self.replica.lock();
                let config = self.history.current();
                !self.ended && runtime.machine().is_some_and(|machine| machine.forced_byte(config).is_some())
            }
        }
    }

    /// Returns the first part of the forced run from `start`, as many whole characters as `tokens`
    /// tokens may have, and whether that is all of it.
    fn forced_part(&self, start: ConfigId, tokens: usize) -> (Arc<[u8]>, bool) {
        let most = lookahead_bytes(tokens);
        let ((run, _), ends) = self.forced_from(start, most);
        // A cached run may be longer.
        if ends && run.len() <= most {
            return (run, true);
        }
        let run = &run[..run.len().min(most)];
        (Arc::from(&run[..whole_characters(run)]), false)
    }

    /// Returns the tokens that probably come next where the constraint leaves no choice but that of white
    /// space, or of the next key: the run that would be forced, with the white space that the model has
    /// chosen in such places of `written`, the text so far, and with required keys in the order of the
    /// schema. A guess for drafts, of about `tokens` tokens; empty elsewhere.
    pub fn likely_tokens(&self, last: Option<TokenId>, written: &[u8], tokens: usize) -> Vec<TokenId> {
        if let Some(moved) = self.moved() {
            return moved.likely_tokens(last, written, tokens);
        }
        if self.ended || self.token_level {
            return Vec::new();
        }
        let most = lookahead_bytes(tokens);
        let mut text = Cow::Borrowed(&written[written.len().saturating_sub(MAX_HABIT)..]);
        let begin = text.len();
        let mut runtime = self.replica.lock();
        let Some(machine) = runtime.machine() else { return Vec::new() };
        let mut config = self.history.current();
        let mut chosen = false;
        while text.len() - begin < most {
            let forced = machine.forced_byte(config).map(|byte| vec![byte]);
            let choice = forced.is_none();
            let likely = || likely_choice(machine, config, &text, self.grammar.likely_names());
            let Some(more) = forced.or_else(likely) else { break };
            chosen |= choice;
            let next = machine.step_bytes(config, &more);
            if next == DEAD_CONFIG {
                break;
            }
            text.to_mut().extend_from_slice(&more);
            config = next;
        }
        drop(runtime);
        let run = &text[begin..];
        let run = &run[..whole_characters(run)];
        if chosen && !run.is_empty() { self.encode_after(last, run) } else { Vec::new() }
    }

    /// Returns the bytes that the constraint leaves no choice about; empty if there is a choice.
    /// The run ends where the output may end. For a machine over tokens these are the bytes of the
    /// forced tokens.
    pub fn forced_bytes(&mut self) -> Vec<u8> {
        self.leave_contended_replica();
        match self.forced_chain() {
            Some(tokens) => self.vocab.decode(&tokens),
            None => self.forced_run().0.to_vec(),
        }
    }

    /// Returns the forced tokens of a machine over tokens, `None` for other grammars. The run lasts
    /// as long as the mask has a single bit and the output may not end. Masked decoding gives the
    /// same tokens, so every mode may emit them.
    fn forced_chain(&self) -> Option<Vec<TokenId>> {
        if !self.token_level {
            return None;
        }
        let at = self.history.current();
        let ended = self.ended;
        // In a text prefix any token may come.
        let mut runtime = self.replica.lock();
        Some(runtime.tokens(at).filter(|_| !ended).map_or_else(Vec::new, |tables| tables.forced(at)))
    }

    /// Returns the forced run in the tokenizer's own tokens:
    /// [`canonical_forced_tokens`](Self::canonical_forced_tokens) after the last accepted token. At
    /// the start of an output, where the prompt has a last token, call that with it.
    pub fn forced_tokens(&mut self) -> Vec<TokenId> {
        let last = self.history.last();
        self.canonical_forced_tokens(last)
    }

    /// Returns the forced run in tokens, each the longest that fits into the rest of the run. The
    /// tokenizer itself often writes other ones.
    pub fn longest_forced_tokens(&mut self) -> Vec<TokenId> {
        self.leave_contended_replica();
        if let Some(tokens) = self.forced_chain() {
            return tokens;
        }
        self.vocab.trie().longest_split(&self.forced_run().0).0
    }

    /// Returns the first tokens of [`longest_forced_tokens`](Self::longest_forced_tokens), about
    /// `tokens` of them.
    pub fn longest_forced_start(&self, tokens: usize) -> ForcedPrefix {
        if let Some(moved) = self.moved() {
            return moved.longest_forced_start(tokens);
        }
        match self.forced_chain() {
            Some(tokens) => ForcedPrefix { tokens, whole: true },
            None => self.cut(tokens, |run| self.vocab.trie().longest_split(run).0),
        }
    }

    /// Returns the first tokens of [`drafted_forced_tokens`](Self::drafted_forced_tokens), about
    /// `tokens` of them.
    pub fn forced_prefix(&self, last: Option<TokenId>, tokens: usize) -> ForcedPrefix {
        if let Some(moved) = self.moved() {
            return moved.forced_prefix(last, tokens);
        }
        match self.forced_chain() {
            Some(tokens) => ForcedPrefix { tokens, whole: true },
            None => self.cut(tokens, |run| self.encode_after(last, run)),
        }
    }

    /// Returns the first part of the forced run in the tokenisation of `split`.
    fn cut(&self, tokens: usize, split: impl Fn(&[u8]) -> Vec<TokenId>) -> ForcedPrefix {
        if self.ended {
            return ForcedPrefix { tokens: Vec::new(), whole: true };
        }
        let (run, whole) = self.forced_part(self.history.current(), tokens);
        let mut tokens = if run.is_empty() { Vec::new() } else { split(&run) };
        // With more of the run in view, the last token might be longer.
        if !whole && tokens.len() > 1 {
            tokens.pop();
        }
        ForcedPrefix { tokens, whole }
    }

    /// Returns the whole forced run as the tokenizer itself would write it after token `last`. This
    /// is the best guess at the tokens of the model, for drafts that are verified.
    pub fn drafted_forced_tokens(&mut self, last: Option<TokenId>) -> Vec<TokenId> {
        self.leave_contended_replica();
        if let Some(tokens) = self.forced_chain() {
            return tokens;
        }
        let (run, _) = self.forced_run();
        if run.is_empty() { Vec::new() } else { self.encode_after(last, &run) }
    }

    /// Returns the forced run as the tokenizer itself would write it after token `last`, up to the
    /// last token boundary that no continuation can move. A trailing token is dropped while some
    /// longer token could start at its position, and where a token that starts inside of it changes
    /// what the tokenizer writes. In front of free text not every continuation can be tried: there a
    /// few of them still move the last boundary.
    pub fn canonical_forced_tokens(&mut self, last: Option<TokenId>) -> Vec<TokenId> {
        self.leave_contended_replica();
        if let Some(tokens) = self.forced_chain() {
            return tokens;
        }
        let (run, end) = self.forced_run();
        if run.is_empty() {
            return Vec::new();
        }
        let whole = whole_characters(&run);
        if whole < run.len() {
            // The rest of a character is forced, too, but the tokenizer writes characters.
            let mut tokens = self.encode_after(last, &run[..whole]);
            tokens.pop();
            return tokens;
        }
        let context = self.context(last);
        let (mut tokens, follows) = match self.encode_behind(&context, &run) {
            Some(tokens) => (tokens, true),
            None => (self.encode_after(last, &run), false),
        };
        let (safe, extensions) = self.hold_back(&tokens, end);
        match self.unmoved(&context, &tokens, follows, &extensions) {
            Some(count) => tokens.truncate(count),
            // Only bytes that were not tried show why the tokenizer wrote the tokens in front.
            None if self.is_canonical(&context) => tokens.clear(),
            // Other tokens than the tokenizer's are in front.
            None => {}
        }
        tokens.truncate(safe);
        tokens
    }

    /// Returns the tokens in front of the run, the last of which is `last`: whole characters.
    fn context(&self, last: Option<TokenId>) -> Vec<TokenId> {
        let mut context = match last == self.history.last() {
            true => self.history.last_tokens(CONTEXT_TOKENS),
            false => last.into_iter().collect(),
        };
        let begins =
            |&token: &TokenId| self.vocab.token_bytes(token).first().is_some_and(|b| b & 0xc0 != 0x80);
        let start = context.iter().position(begins).unwrap_or(context.len());
        context.split_off(start)
    }

    /// Returns true if the tokenizer writes the bytes of some tokens in these tokens.
    fn is_canonical(&self, tokens: &[TokenId]) -> bool {
        let bytes = self.vocab.decode(tokens);
        !bytes.is_empty() && self.encode_behind(&[], &bytes).is_some_and(|ids| ids == tokens)
    }

    /// Returns the tokens of `bytes` in a text that begins with the tokens of `context`, if the
    /// tokenizer writes these.
    fn encode_behind(&self, context: &[TokenId], bytes: &[u8]) -> Option<Vec<TokenId>> {
        let all = [&self.vocab.decode(context)[..], bytes].concat();
        let ids = self.vocab.encode_cached(std::str::from_utf8(&all).ok()?).ok()?;
        let rest = ids.strip_prefix(context)?;
        (self.vocab.decode(rest) == bytes).then(|| rest.to_vec())
    }

    fn encode_after(&self, last: Option<TokenId>, run: &[u8]) -> Vec<TokenId> {
        let encode =
            |bytes: &[u8]| std::str::from_utf8(bytes).ok().and_then(|t| self.vocab.encode_cached(t).ok());
        if let Some(last) = last {
            let joined = [self.vocab.token_bytes(last), run].concat();
            if let Some(ids) = encode(&joined)
                && ids.first() == Some(&last)
            {
                return ids[1..].to_vec();
            }
        }
        match encode(run) {
            Some(ids) if self.vocab.decode(&ids) == run => ids.to_vec(),
            _ => self.vocab.trie().longest_split(run).0,
        }
    }

    /// Returns the number of tokens that are safe to commit. Up to four trailing ones are examined:
    /// they are unsafe if some token begins with their bytes and continues as the constraint allows.
    /// Also returns the bytes with which tokens can continue that begin anywhere in the last ones.
    fn hold_back(&self, tokens: &[TokenId], end: ConfigId) -> (usize, Vec<Vec<u8>>) {
        let trie = self.vocab.trie();
        let (mut safe, mut found) = (tokens.len(), Vec::new());
        let mut runtime = self.replica.lock();
        // A machine over tokens has nothing to hold back.
        let Some(machine) = runtime.machine() else { return (safe, found) };
        let threads = machine.threads(end);
        for count in (1..=tokens.len().min(4)).rev() {
            let suffix = self.vocab.decode(&tokens[tokens.len() - count..]);
            if let Some(node) = trie.find(&suffix)
                && !extensions(&mut machine.core, &self.vocab, node, &threads, 1).is_empty()
            {
                safe = tokens.len() - count;
                break;
            }
        }
        let bytes = self.vocab.decode(&tokens[tokens.len().saturating_sub(3)..]);
        for start in 1..bytes.len() {
            if let Some(node) = trie.find(&bytes[start..]) {
                for more in extensions(&mut machine.core, &self.vocab, node, &threads, MAX_EXTENSIONS) {
                    if !found.contains(&more) {
                        found.push(more);
                    }
                }
            }
        }
        (safe, found)
    }

    /// Returns the number of leading tokens that the tokenizer writes in front of each of these
    /// bytes, too; `None` if it writes the context otherwise whatever comes next. `follows` is true if
    /// it writes the tokens after the context when nothing comes next.
    fn unmoved(
        &self,
        context: &[TokenId],
        tokens: &[TokenId],
        follows: bool,
        extensions: &[Vec<u8>],
    ) -> Option<usize> {
        let bytes = self.vocab.decode(tokens);
        let (mut kept, mut known) = (tokens.len(), follows);
        for more in extensions {
            // Where the context is written otherwise, these bytes do not come next.
            if let Some(ids) = self.encode_behind(context, &[&bytes[..], more].concat()) {
                kept = kept.min(ids.iter().zip(tokens).take_while(|(a, b)| a == b).count());
                known = true;
            }
        }
        known.then_some(kept)
    }
}

/// Returns the bytes that probably come next where only white space or the next key is open.
fn likely_choice(
    machine: &mut Machine,
    config: ConfigId,
    text: &[u8],
    names: &[Box<[u8]>],
) -> Option<Vec<u8>> {
    if let Some(byte) = machine.forced_behind_space(config) {
        return Some([white_space::before(text, byte), vec![byte]].concat());
    }
    let keyed = white_space::begins_key(text);
    let name = names.iter().find(|name| keyed && machine.step_bytes(config, name) != DEAD_CONFIG)?;
    Some(name.to_vec())
}

/// Returns the number of bytes to examine for `tokens` tokens.
fn lookahead_bytes(tokens: usize) -> usize {
    tokens.saturating_mul(LOOKAHEAD_BYTES.0).saturating_add(LOOKAHEAD_BYTES.1).min(MAX_FORCED)
}

/// Returns the number of bytes that are whole characters, if the last character is incomplete.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

/// Returns the bytes after `node` of the tokens below it that are legal from `threads`, at most
/// `most`.
fn extensions(
    machine: &mut StackMachine,
    vocab: &Vocabulary,
    node: TrieNode,
    threads: &[Thread],
    most: usize,
) -> Vec<Vec<u8>> {
    let trie = vocab.trie();
    let mut found = Vec::new();
    let mut todo: Vec<(TrieNode, Vec<u8>, Vec<Thread>)> = vec![(node, Vec::new(), threads.to_vec())];
    let mut reached = StepResult::default();
    while let Some((at, bytes, threads)) = todo.pop() {
        for child in trie.children(at) {
            machine.step(&threads, trie.byte(child), TRIED, &mut reached);
            if reached.is_dead() {
                continue;
            }
            let more = [&bytes[..], &[trie.byte(child)]].concat();
            if !trie.tokens_at(child).is_empty() {
                found.push(more.clone());
                if found.len() == most {
                    return found;
                }
            }
            if !reached.threads.is_empty() {
                todo.push((child, more, reached.threads.clone()));
            }
        }
    }
    found
}
