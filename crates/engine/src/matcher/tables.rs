//! Tables of a grammar that grow during use, in one replica for each thread that needs its own.
//!
//! States, configurations and masks are created when a generation first reaches them, under a lock.
//! One lock is enough for one thread, and for several that rarely meet. Matchers that keep waiting
//! for one another get a *replica*, a copy of the tables. A copy uses the same numbers for
//! everything, so a generation moves to it unchanged. There are at most as many replicas as the
//! machine has cores.
//!
//! Tables only grow. Once a replica exceeds its limit it is *retired*: a fresh one replaces it, and
//! each generation moves there by accepting its own tokens again. This bounds the memory of a
//! grammar for any number of generations. One generation that needs more than the limit by itself
//! gets it.
//!
//! A panic in a step may leave an entry half made, in tables that generations would use for good. So
//! a replica in which a thread panicked is retired, too. Nothing of it stays: the fresh one is
//! made from what no step changes, and the generations move there by their tokens.
//!
//! # Cost
//!
//! A replica costs a few hundred nanoseconds per kilobyte once (masks themselves are shared) and
//! nothing afterwards.
//!
//! # Alternatives considered
//!
//! Tables in concurrent maps were rejected: numbers are given in order of arrival, so threads would
//! have to agree on each new state, and the warm path would pay for it.
//!
//! Use of the tables after a panic, as they only grow, was rejected: every function that adds an
//! entry would have to be safe at each point where it could panic.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use rustc_hash::FxHashMap;

use super::history::History;
use super::token_machine::{TokenTables, TokensAfterText};
use crate::machine::{ConfigId, DEAD_CONFIG, Machine};
use crate::mask::{Mask, MaskCache};
use crate::vocab::{TokenId, Vocabulary};

/// Bytes that the tables of one replica may hold, unless [`Compiler::with_table_limit`] sets
/// another limit.
///
/// [`Compiler::with_table_limit`]: super::Compiler::with_table_limit
pub(super) const TABLE_LIMIT: usize = 256 << 20;
/// Largest number of cached token transitions per replica.
const MAX_ACCEPTED: usize = 1 << 20;
/// Largest number of cached forced runs per replica, and of bytes in them.
const MAX_FORCED: (usize, usize) = (100_000, 16 << 20);
/// Number of waits for a replica after which it is copied. It is small: one wait may be chance, but
/// the first masks of a grammar take longest, and the copy is cheapest then.
const WAITS_BEFORE_COPY: u32 = 3;

/// The tables of one replica.
pub(super) struct GrammarTables {
    pub(super) tables: Tables,
    /// Cached token transitions; cleared as a whole when there are too many.
    accepted: FxHashMap<(ConfigId, TokenId), ConfigId>,
    /// Forced runs: the bytes and the configuration after them.
    forced: FxHashMap<ConfigId, ForcedRun>,
    forced_bytes: usize,
    /// Number of token transitions asked for.
    steps: u64,
    /// Bytes beyond which the replica is retired.
    limit: usize,
    full: bool,
}

/// The compiled form of the constraint. There is one per replica, so its size does not matter; a
/// pointer to the usual kind would have to be followed for each token.
#[allow(clippy::large_enum_variant)]
pub(super) enum Tables {
    /// An automaton over bytes.
    Bytes { machine: Machine, masks: MaskCache },
    /// A machine over tokens, perhaps after a text.
    Tokens(TokensAfterText),
}

/// The bytes that must come next, and the configuration after them.
pub(super) type ForcedRun = (Arc<[u8]>, ConfigId);

/// Bytes held by the tables of a grammar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// The compiled automaton: states, rules, registers. All replicas share it.
    pub automaton: usize,
    /// Deterministic states, stacks and configurations created so far.
    pub states: usize,
    /// Masks created so far, without those of the shared base.
    pub masks: usize,
    /// Cached token transitions and forced runs.
    pub transitions: usize,
    /// Number of copies of the tables.
    pub replicas: usize,
}

impl Memory {
    /// Returns the sum of all bytes.
    pub fn total(&self) -> usize {
        self.automaton + self.states + self.masks + self.transitions
    }
}

impl GrammarTables {
    pub(super) fn new(tables: Tables, limit: usize) -> Self {
        GrammarTables {
            tables,
            accepted: FxHashMap::default(),
            forced: FxHashMap::default(),
            forced_bytes: 0,
            steps: 0,
            limit,
            full: false,
        }
    }

    /// Returns the configuration after a token with these bytes.
    pub(super) fn step_token(&mut self, config: ConfigId, token: TokenId, bytes: &[u8]) -> ConfigId {
        self.steps += 1;
        if let Some(&known) = self.accepted.get(&(config, token)) {
            return known;
        }
        let to = match &mut self.tables {
            Tables::Bytes { machine, .. } => machine.step_bytes(config, bytes),
            Tables::Tokens(tables) => tables.step(config, token, bytes),
        };
        if self.accepted.len() >= MAX_ACCEPTED {
            self.accepted.clear();
        }
        self.accepted.insert((config, token), to);
        self.note_size();
        to
    }

    /// Returns the number of token transitions asked for.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Checks whether the tables exceed their limit.
    pub(super) fn note_size(&mut self) {
        self.full = self.bytes() > self.limit;
    }

    /// Returns the initial configuration.
    pub(super) fn initial(&self) -> ConfigId {
        match &self.tables {
            Tables::Bytes { machine, .. } => machine.initial(),
            Tables::Tokens(tables) => tables.initial(),
        }
    }

    /// Returns the legal tokens without end tokens.
    #[inline]
    pub(super) fn mask(&mut self, config: ConfigId) -> Arc<Mask> {
        match &mut self.tables {
            Tables::Bytes { machine, masks } => masks.mask(machine, config),
            Tables::Tokens(tables) => tables.mask(config),
        }
    }

    /// Returns true if the output may end.
    #[inline]
    pub(super) fn is_accepting(&self, config: ConfigId) -> bool {
        match &self.tables {
            Tables::Bytes { machine, .. } => machine.is_accepting(config),
            Tables::Tokens(tables) => tables.is_accepting(config),
        }
    }

    /// Returns true if the output must end.
    #[inline]
    pub(super) fn is_final(&mut self, config: ConfigId) -> bool {
        match &mut self.tables {
            Tables::Bytes { machine, .. } => machine.is_final(config),
            Tables::Tokens(tables) => tables.is_final(config),
        }
    }

    /// Returns true if the next byte may be text of a JSON string.
    pub(super) fn in_text(&mut self, config: ConfigId) -> bool {
        match &mut self.tables {
            Tables::Bytes { machine, .. } => machine.in_text(config),
            Tables::Tokens(_) => false,
        }
    }

    /// Returns the fewest and the most characters that can follow in the open JSON string, if it is
    /// counted and nothing else matters to it.
    pub(super) fn text_bounds(&self, config: ConfigId) -> Option<(u32, u32)> {
        match &self.tables {
            Tables::Bytes { machine, .. } => machine.text_bounds(config),
            Tables::Tokens(_) => None,
        }
    }

    /// Returns the machine over bytes, if there is one.
    pub(super) fn machine(&mut self) -> Option<&mut Machine> {
        match &mut self.tables {
            Tables::Bytes { machine, .. } => Some(machine),
            Tables::Tokens(_) => None,
        }
    }

    /// Returns the machine over tokens, if the configuration belongs to it.
    pub(super) fn tokens(&mut self, config: ConfigId) -> Option<&mut TokenTables> {
        match &mut self.tables {
            Tables::Bytes { .. } => None,
            Tables::Tokens(tables) => tables.tokens(config),
        }
    }

    /// Returns tokens that complete the output, for a machine over tokens.
    pub(super) fn completion(&mut self, config: ConfigId, vocab: &Vocabulary) -> Option<Vec<TokenId>> {
        match &mut self.tables {
            Tables::Bytes { .. } => None,
            Tables::Tokens(tables) => tables.completion(config, vocab),
        }
    }

    /// Returns the cached forced run of a configuration.
    pub(super) fn forced(&self, config: ConfigId) -> Option<&ForcedRun> {
        self.forced.get(&config)
    }

    /// Caches a forced run.
    pub(super) fn remember_forced(&mut self, config: ConfigId, run: ForcedRun) {
        if self.forced.len() >= MAX_FORCED.0 || self.forced_bytes >= MAX_FORCED.1 {
            self.forced.clear();
            self.forced_bytes = 0;
        }
        self.forced_bytes += run.0.len();
        self.forced.insert(config, run);
    }

    fn transitions(&self) -> usize {
        // A hash table keeps a control byte per slot, and an eighth of the slots free.
        self.accepted.capacity() * 14 + self.forced.capacity() * 32 + self.forced_bytes
    }

    fn bytes(&self) -> usize {
        let [states, masks] = self.tables.bytes();
        states + masks + self.transitions()
    }

    pub(super) fn memory(&self) -> Memory {
        let [states, masks] = self.tables.bytes();
        let automaton = match &self.tables {
            Tables::Bytes { machine, .. } => machine.fixed_bytes(),
            Tables::Tokens(tables) => tables.fixed_bytes(),
        };
        Memory { automaton, states, masks, transitions: self.transitions(), replicas: 1 }
    }

    /// Returns the tables in their state before the first generation. This reads nothing that a
    /// step changes.
    fn renewed(&self) -> GrammarTables {
        let tables = match &self.tables {
            Tables::Bytes { machine, masks } => {
                Tables::Bytes { machine: machine.emptied(), masks: masks.renewed() }
            }
            Tables::Tokens(tables) => Tables::Tokens(tables.renewed()),
        };
        GrammarTables::new(tables, self.limit)
    }

    /// Returns a copy with the same numbers. Cached values that are cheap to recompute are left
    /// out.
    fn copy(&self) -> GrammarTables {
        let tables = match &self.tables {
            Tables::Bytes { machine, masks } => {
                Tables::Bytes { machine: machine.clone(), masks: masks.copy() }
            }
            Tables::Tokens(tables) => Tables::Tokens(tables.copy()),
        };
        GrammarTables { accepted: self.accepted.clone(), ..GrammarTables::new(tables, self.limit) }
    }

    /// Moves a generation to these tables by accepting its tokens again.
    fn replay(&mut self, vocab: &Vocabulary, history: &History) -> Option<History> {
        let steps = self.steps;
        let mut config = self.initial();
        let mut here = History::new(config);
        for token in history.tokens() {
            config = self.step_token(config, token, vocab.token_bytes(token));
            if config == DEAD_CONFIG {
                return None;
            }
            here.push(token, config);
        }
        // Moving is no step of the generation.
        self.steps = steps;
        // Without a larger limit, a generation that fills the tables alone would be moved again and
        // again.
        self.limit = self.limit.max(2 * self.bytes());
        self.full = false;
        Some(here)
    }
}

impl Tables {
    /// Returns the bytes of states and of masks.
    fn bytes(&self) -> [usize; 2] {
        match self {
            Tables::Bytes { machine, masks } => [machine.bytes(), masks.bytes()],
            Tables::Tokens(tables) => tables.bytes(),
        }
    }
}

/// One copy of the tables with its lock.
pub(super) struct Replica {
    runtime: Mutex<GrammarTables>,
    /// Number of times that a thread had to wait for the lock.
    waits: AtomicU32,
    retired: AtomicBool,
}

impl Replica {
    fn new(runtime: GrammarTables) -> Arc<Replica> {
        Arc::new(Replica {
            runtime: Mutex::new(runtime),
            waits: AtomicU32::new(0),
            retired: AtomicBool::new(false),
        })
    }

    /// Locks the tables. Those that a panic [damaged](Self::is_damaged) may be read at the
    /// configurations that a generation holds, which are complete, but must not grow.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, GrammarTables> {
        match self.runtime.try_lock() {
            Ok(runtime) => runtime,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.waits.fetch_add(1, Relaxed);
                self.runtime.lock().unwrap_or_else(|e| e.into_inner())
            }
        }
    }

    /// Retires the replica if its tables are full.
    #[inline]
    pub(super) fn retire_if_full(&self, runtime: &GrammarTables) {
        if runtime.full {
            self.retired.store(true, Relaxed);
        }
    }

    /// Returns true if a thread panicked while it held the lock.
    #[inline]
    pub(super) fn is_damaged(&self) -> bool {
        self.runtime.is_poisoned()
    }

    /// Returns true if no generation should stay.
    fn is_retired(&self) -> bool {
        self.retired.load(Relaxed) || self.is_damaged()
    }

    /// Returns true if the users of the replica should move to another one.
    #[inline]
    pub(super) fn is_contended(&self) -> bool {
        self.waits.load(Relaxed) >= WAITS_BEFORE_COPY || self.is_retired()
    }
}

/// The replicas of one grammar.
pub(super) struct Replicas {
    list: Mutex<Vec<Arc<Replica>>>,
    most: usize,
}

impl Replicas {
    /// Creates the list with one replica; it may grow to `most`.
    pub(super) fn new(runtime: GrammarTables, most: usize) -> Self {
        Replicas { list: Mutex::new(vec![Replica::new(runtime)]), most: most.max(1) }
    }

    fn list(&self) -> MutexGuard<'_, Vec<Arc<Replica>>> {
        self.list.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns all replicas.
    pub(super) fn all(&self) -> Vec<Arc<Replica>> {
        self.list().clone()
    }

    /// Returns the replica with the fewest users; among equals the first, whose tables are the
    /// warmest.
    pub(super) fn least_used(&self) -> Arc<Replica> {
        let mut list = self.list();
        renew_retired(&mut list);
        least_used(&list)
    }

    /// Returns the replica to which a user of a contended replica moves, and its history there;
    /// `None` to stay.
    pub(super) fn relocate(
        &self,
        from: &Arc<Replica>,
        vocab: &Vocabulary,
        history: &History,
    ) -> Option<(Arc<Replica>, History)> {
        let mut list = self.list();
        if from.is_retired() {
            renew_retired(&mut list);
        } else {
            from.waits.store(0, Relaxed);
            if list.len() < self.most {
                let tables = from.lock();
                // While this thread waited for it.
                if from.is_damaged() {
                    return None;
                }
                let copy = Replica::new(tables.copy());
                list.push(copy.clone());
                return Some((copy, history.clone()));
            }
            // The list counts as a user of each.
            let (here, there) = (Arc::strong_count(from), Arc::strong_count(&least_used(&list)));
            if there >= here {
                return None;
            }
        }
        let to = least_used(&list);
        drop(list);
        let history = to.lock().replay(vocab, history)?;
        Some((to, history))
    }
}

/// Replaces the replicas that are retired by fresh ones.
fn renew_retired(list: &mut [Arc<Replica>]) {
    for replica in list.iter_mut().filter(|replica| replica.is_retired()) {
        let renewed = replica.lock().renewed();
        *replica = Replica::new(renewed);
    }
}

/// Returns the replica with the fewest users. The list is never empty: it begins with one replica,
/// and none is removed.
fn least_used(list: &[Arc<Replica>]) -> Arc<Replica> {
    let least = list.iter().min_by_key(|r| Arc::strong_count(r));
    least.unwrap_or_else(|| unreachable!("a grammar has at least one replica")).clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Compiler, Constraint, Matcher};

    fn tokenizer() -> Vocabulary {
        let vocab: serde_json::Map<String, serde_json::Value> =
            ('!'..='~').enumerate().map(|(i, c)| (c.to_string(), i.into())).collect();
        let bytes = serde_json::json!(
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
        );
        let json = serde_json::json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": bytes, "post_processor": null, "decoder": bytes,
            "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": []}
        });
        Vocabulary::from_bytes(json.to_string().as_bytes()).expect("a tokenizer of single characters")
    }

    fn accept(matcher: &mut Matcher, text: &str) {
        for id in matcher.vocabulary().encode(text).expect("characters of the tokenizer") {
            matcher.accept_token(id).expect("a legal token");
        }
    }

    #[test]
    fn those_who_wait_move_to_a_copy_and_later_ones_to_the_emptiest() {
        let compiler = Compiler::new(tokenizer()).with_replicas(2);
        let grammar = compiler.compile(&Constraint::regex("(ab|ba)*c").unwrap()).unwrap();
        let (mut first, mut second, mut third) = (grammar.matcher(), grammar.matcher(), grammar.matcher());
        accept(&mut first, "ab");
        accept(&mut second, "ba");
        assert_eq!(grammar.memory().replicas, 1, "nobody has waited");

        second.replica.waits.store(WAITS_BEFORE_COPY, Relaxed);
        accept(&mut second, "b");
        assert_eq!(grammar.memory().replicas, 2);
        assert!(!Arc::ptr_eq(&first.replica, &second.replica));
        assert_eq!(first.replica.waits.load(Relaxed), 0, "the others stay");
        assert!(Arc::ptr_eq(&grammar.matcher().replica, &second.replica), "one user here, two there");

        // All replicas exist: the next matcher that waits moves to the least used one, by its
        // tokens.
        accept(&mut third, "abab");
        drop(second);
        third.replica.waits.store(WAITS_BEFORE_COPY, Relaxed);
        accept(&mut third, "b");
        assert!(!Arc::ptr_eq(&first.replica, &third.replica));
        accept(&mut third, "ac");
        assert!(third.is_terminated());
        third.rollback(6);
        accept(&mut third, "bbac");
        assert!(third.is_terminated());

        // No other replica has fewer users: the matcher stays.
        first.replica.waits.store(WAITS_BEFORE_COPY, Relaxed);
        let before = first.replica.clone();
        accept(&mut first, "c");
        assert!(Arc::ptr_eq(&before, &first.replica));
    }

    #[test]
    fn a_retired_replica_is_replaced_and_its_users_follow() {
        let grammar = Compiler::new(tokenizer()).compile(&Constraint::regex("(ab|ba)*c").unwrap()).unwrap();
        let (mut first, mut second) = (grammar.matcher(), grammar.matcher());
        accept(&mut first, "abba");
        accept(&mut second, "b");
        let old = first.replica.clone();
        old.retired.store(true, Relaxed);
        accept(&mut first, "b");
        assert!(!Arc::ptr_eq(&old, &first.replica));
        assert_eq!(first.num_accepted(), 5);
        accept(&mut second, "a");
        assert!(Arc::ptr_eq(&first.replica, &second.replica));
        accept(&mut first, "ac");
        accept(&mut second, "c");
        assert!(first.is_terminated() && second.is_terminated());
        assert_eq!(grammar.memory().replicas, 1);
    }
}
