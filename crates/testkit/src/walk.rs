//! A slow reference of what may be written, and the one random walk that compares a matcher with it.
//!
//! At every step the mask must equal that of the reference in both directions: no legal token is
//! missing, no illegal token is set. Every other answer of the matcher must agree with it: where the
//! output may end, what is forced, how many tokens of a list are legal, and all of that after
//! rollbacks, in forks, and in a matcher that has cached nothing.
//!
//! # Cost
//! One mask of the reference for each state that a walk visits; states that return are remembered.
//!
//! # Alternatives considered
//! A walk for each reference was rejected: each of them forgot a check that another one had.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::rc::Rc;

use ffwd_engine::matcher::Verdict;
use ffwd_engine::{CompiledGrammar, Compiler, Constraint, Matcher, TokenId};

use crate::oracle::{Id, Oracle};
use crate::random::Random;
use crate::vocab::{TestVocab, is_set};

/// What may be written, token by token, found slowly and without the engine's machines.
pub trait TokenLanguage {
    /// What is known of the output so far.
    type State: Clone + Eq + Hash + Debug;
    /// Whether the language is one of bytes, whatever tokens they come in.
    const BYTES: bool;

    fn start(&mut self) -> Self::State;
    /// The state after a legal token.
    fn after(&mut self, state: &Self::State, token: TokenId) -> Self::State;
    /// Whether a token may follow that does not end the output.
    fn allows(&mut self, state: &Self::State, token: TokenId) -> bool;
    fn may_end(&mut self, state: &Self::State) -> bool;
    /// The bytes that leave no choice; of a language of tokens, those of the tokens.
    fn forced(&mut self, state: &Self::State) -> Forced;
    /// The fewest tokens to an end, if the matcher must find them.
    fn shortest(&mut self, _state: &Self::State) -> Option<usize> {
        None
    }
    /// Whether the matcher must find tokens to an end; of bytes, it finds bytes.
    fn must_complete(&mut self, _state: &Self::State) -> bool {
        !Self::BYTES
    }
}

/// What leaves no choice.
pub enum Forced {
    Bytes(Vec<u8>),
    Tokens(Vec<TokenId>),
}

/// What may be written, as a language of bytes.
pub trait ByteLanguage {
    type State: Clone + Eq + Hash + Debug;

    fn start(&mut self) -> Self::State;
    /// The state after bytes that something can follow, or that may end there.
    fn after(&mut self, state: &Self::State, bytes: &[u8]) -> Option<Self::State>;
    fn may_end(&mut self, state: &Self::State) -> bool;
}

/// A language of bytes, spelled with the tokens of a vocabulary.
pub struct Spelled<'a, T> {
    pub texts: T,
    pub words: &'a TestVocab,
}

impl<T: ByteLanguage> TokenLanguage for Spelled<'_, T> {
    type State = T::State;
    const BYTES: bool = true;

    fn start(&mut self) -> T::State {
        self.texts.start()
    }

    fn after(&mut self, state: &T::State, token: TokenId) -> T::State {
        self.texts.after(state, &self.words.tokens[token as usize]).expect("a legal token")
    }

    fn allows(&mut self, state: &T::State, token: TokenId) -> bool {
        let bytes = &self.words.tokens[token as usize];
        !bytes.is_empty() && self.texts.after(state, bytes).is_some()
    }

    fn may_end(&mut self, state: &T::State) -> bool {
        self.texts.may_end(state)
    }

    fn forced(&mut self, state: &T::State) -> Forced {
        let (mut run, mut state) = (Vec::new(), state.clone());
        while !self.texts.may_end(&state) && run.len() < 10_000 {
            let known = (0..=255u8).filter(|&b| self.words.alphabet[usize::from(b)]);
            let mut next = known.filter_map(|b| self.texts.after(&state, &[b]).map(|after| (b, after)));
            let (Some((byte, after)), None) = (next.next(), next.next()) else { break };
            run.push(byte);
            state = after;
        }
        Forced::Bytes(run)
    }
}

/// The texts of a constraint, as its representation says.
impl ByteLanguage for Oracle<'_> {
    type State = Id;

    fn start(&mut self) -> Id {
        Oracle::start(self)
    }

    fn after(&mut self, state: &Id, bytes: &[u8]) -> Option<Id> {
        let after = Oracle::after(self, *state, bytes);
        self.alive(after).then_some(after)
    }

    fn may_end(&mut self, state: &Id) -> bool {
        self.accepts(*state)
    }
}

/// What walks found.
#[derive(Default, Debug)]
pub struct Seen {
    pub masks: usize,
    pub finished: usize,
}

/// What is wrong, if anything.
pub type Check = Result<(), String>;

fn check(ok: bool, what: impl FnOnce() -> String) -> Check {
    if ok { Ok(()) } else { Err(what()) }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Walks in progress: the engine and the reference side by side.
pub struct Walk<'a, L: TokenLanguage> {
    pub language: L,
    words: &'a TestVocab,
    constraint: &'a Constraint,
    compiler: &'a Compiler,
    matcher: Matcher,
    masks: HashMap<L::State, Rc<Vec<bool>>>,
    /// States of the reference after each token accepted.
    states: Vec<L::State>,
    tokens: Vec<TokenId>,
    /// Tokens with one of these bytes are drawn more often.
    preferred: &'a [u8],
}

impl<'a, L: TokenLanguage> Walk<'a, L> {
    pub fn new(
        mut language: L,
        words: &'a TestVocab,
        constraint: &'a Constraint,
        compiler: &'a Compiler,
        grammar: &CompiledGrammar,
    ) -> Self {
        let states = vec![language.start()];
        let (matcher, masks, tokens) = (grammar.matcher(), HashMap::new(), Vec::new());
        // Free text has many tokens, structure few.
        let preferred = b"\"{}[],:\\";
        Walk { language, words, constraint, compiler, matcher, masks, states, tokens, preferred }
    }

    /// Draws tokens with one of these bytes more often, instead of those of structure.
    pub fn prefer(&mut self, bytes: &'a [u8]) {
        self.preferred = bytes;
    }

    /// Compares along a random walk of up to `steps` tokens; an error names the place.
    pub fn random(&mut self, steps: usize, random: &mut Random, seen: &mut Seen) -> Check {
        self.matcher.rollback(self.matcher.num_accepted());
        self.states.truncate(1);
        self.tokens.clear();
        let result = self.steps(steps, random, seen);
        result.map_err(|e| format!("after {:?}: {e}", text(&self.words.vocab.decode(&self.tokens))))
    }

    /// Follows the bytes of a text and compares at its start, in its middle and where it ends or is
    /// refused; true if it is an output.
    pub fn follow(&mut self, bytes: &[u8]) -> Result<bool, String> {
        self.matcher.rollback(self.matcher.num_accepted());
        self.states.truncate(1);
        self.tokens.clear();
        for (at, &byte) in bytes.iter().enumerate() {
            let place = |e: String| format!("after {:?}: {e}", text(&bytes[..at]));
            let (state, token) = (self.state(), self.words.byte(byte));
            let legal = self.language.allows(&state, token);
            if at == 0 || at == bytes.len() / 2 || !legal {
                self.same_mask(&mut self.matcher.fork(), "mask").map_err(place)?;
            }
            if !legal {
                let taken = self.matcher.accept_token(token).is_ok();
                return check(!taken, || place(format!("{byte:?} is accepted"))).map(|()| false);
            }
            self.accept(token).map_err(place)?;
        }
        self.same_mask(&mut self.matcher.fork(), "mask at the end")?;
        let ends = self.language.may_end(&self.state());
        check(self.matcher.is_accepting() == ends, || format!("is_accepting: expected {ends}"))?;
        Ok(ends)
    }

    fn steps(&mut self, steps: usize, random: &mut Random, seen: &mut Seen) -> Check {
        for _ in 0..steps {
            self.compare(random)?;
            seen.masks += 1;
            if random.chance(15) {
                self.compare_fresh()?;
            }
            if random.chance(20) {
                self.roll_back(random)?;
            }
            if self.language.may_end(&self.state()) {
                self.finish(random)?;
                seen.finished += 1;
            }
            let legal = self.legal();
            if legal.is_empty() {
                let ends = self.language.may_end(&self.state());
                return check(ends, || "a dead end".into());
            }
            let wanted = |t: &u32| self.words.tokens[*t as usize].iter().any(|b| self.preferred.contains(b));
            let preferred: Vec<u32> = legal.iter().copied().filter(wanted).collect();
            let choice = if preferred.is_empty() || random.chance(40) { &legal } else { &preferred };
            self.accept(*random.pick(choice))?;
        }
        Ok(())
    }

    fn state(&self) -> L::State {
        self.states.last().expect("the start is always there").clone()
    }

    /// The mask of the reference.
    fn expected(&mut self) -> Rc<Vec<bool>> {
        let state = self.state();
        if let Some(known) = self.masks.get(&state) {
            return known.clone();
        }
        let tokens = 0..self.words.tokens.len() as TokenId;
        let mut mask: Vec<bool> = tokens.map(|t| self.language.allows(&state, t)).collect();
        let ends = self.language.may_end(&state);
        self.words.eos.iter().for_each(|&t| mask[t as usize] = ends);
        let mask = Rc::new(mask);
        self.masks.insert(state, mask.clone());
        mask
    }

    /// The tokens that may follow, without those that end the output.
    fn legal(&mut self) -> Vec<TokenId> {
        let mask = self.expected();
        let ids = 0..mask.len() as TokenId;
        ids.filter(|t| mask[*t as usize] && !self.words.eos.contains(t)).collect()
    }

    fn show(&self, token: TokenId) -> String {
        format!("token {token} {:?}", text(&self.words.tokens[token as usize]))
    }

    fn same_mask(&mut self, matcher: &mut Matcher, what: &str) -> Check {
        let expected = self.expected();
        let mut row = vec![0xdead_beef; self.words.vocab.bitmask_words()];
        matcher.fill_bitmask(&mut row);
        for (id, &want) in (0..).zip(&*expected) {
            let got = is_set(&row, id);
            check(got == want, || format!("{what}: {}: expected {want}, got {got}", self.show(id)))?;
        }
        let beyond = (expected.len() as TokenId..row.len() as TokenId * 32).all(|t| !is_set(&row, t));
        check(beyond, || format!("{what}: bits set beyond the vocabulary"))?;
        let count = expected.iter().filter(|&&b| b).count();
        let legal = matcher.legal_count();
        check(legal == count, || format!("{what}: legal_count: expected {count}, got {legal}"))
    }

    /// Everything the matcher says at this point.
    fn compare(&mut self, random: &mut Random) -> Check {
        let mut matcher = self.matcher.fork();
        self.same_mask(&mut matcher, "mask")?;
        let expected = self.expected();
        let some: Vec<usize> = match L::BYTES {
            true => (0..30).map(|_| random.below(expected.len())).collect(),
            false => (0..expected.len()).collect(),
        };
        for id in some {
            let (token, want) = (id as TokenId, expected[id]);
            let got = matcher.allows(token);
            check(got == want, || format!("allows: {}: expected {want}, got {got}", self.show(token)))?;
            if !L::BYTES || random.chance(10) {
                let verdict = matcher.explain(token).verdict;
                let same = (verdict == Verdict::Legal) == want;
                check(same, || format!("explain: {}: expected {want}, got {verdict:?}", self.show(token)))?;
            }
        }
        let (state, last) = (self.state(), self.tokens.last().copied());
        let ends = self.language.may_end(&state);
        check(matcher.is_accepting() == ends, || format!("is_accepting: expected {ends}"))?;
        let live = !self.legal().is_empty();
        check(matcher.is_terminated() != live, || format!("is_terminated: expected {}", !live))?;
        check(!matcher.is_finished(), || "finished without an end token".into())?;
        self.compare_forced(&mut matcher, &state, last)?;
        if self.language.must_complete(&state) {
            let completion = matcher.token_completion().ok_or("no completion")?;
            let shortest = self.language.shortest(&state).unwrap_or(completion.len());
            check(completion.len() == shortest, || {
                format!("{completion:?} for {shortest} tokens to the end")
            })?;
            let mut end = matcher.fork();
            let legal = completion.iter().all(|&t| end.accept_token(t).is_ok()) && end.is_accepting();
            check(legal, || format!("{completion:?} is no completion"))?;
        }
        self.compare_validate(&mut matcher, random)?;
        self.compare_illegal(&mut matcher, &expected, random)
    }

    fn compare_forced(&mut self, matcher: &mut Matcher, state: &L::State, last: Option<TokenId>) -> Check {
        let run = matcher.forced_bytes();
        let (want, forced) = match self.language.forced(state) {
            Forced::Bytes(want) => (want.clone(), !want.is_empty()),
            Forced::Tokens(want) => {
                let got = matcher.forced_tokens();
                check(got == want, || format!("forced_tokens: expected {want:?}, got {got:?}"))?;
                (self.words.vocab.decode(&want), !want.is_empty())
            }
        };
        check(matcher.is_forced() == forced, || format!("is_forced: expected {forced}"))?;
        check(run == want, || format!("forced_bytes: expected {:?}, got {:?}", text(&want), text(&run)))?;
        for (name, tokens) in [
            ("forced_tokens", matcher.forced_tokens()),
            ("canonical_forced_tokens", matcher.canonical_forced_tokens(last)),
            ("longest_forced_tokens", matcher.longest_forced_tokens()),
        ] {
            let bytes = self.words.vocab.decode(&tokens);
            check(run.starts_with(&bytes), || format!("{name}: {:?} not in {:?}", text(&bytes), text(&run)))?;
            let valid = matcher.validate_tokens(&tokens);
            check(valid == tokens.len(), || format!("{name}: only {valid} of {tokens:?} are legal"))?;
        }
        Ok(())
    }

    /// `validate_tokens` on a sequence that is legal for a while.
    fn compare_validate(&mut self, matcher: &mut Matcher, random: &mut Random) -> Check {
        let (mut state, mut ids, mut want) = (Some(self.state()), Vec::new(), 0);
        let known = if L::BYTES { Vec::new() } else { [self.legal(), self.tokens.clone()].concat() };
        for _ in 0..6 {
            let mut draw = || match known[..] {
                [] => random.below(self.words.tokens.len()) as TokenId,
                _ => *random.pick(&known),
            };
            let Some(here) = &state else {
                ids.push(draw());
                continue;
            };
            let found = (0..20).map(|_| draw()).find(|&id| self.language.allows(here, id));
            let next = found.map(|id| self.language.after(here, id));
            want += usize::from(found.is_some());
            let illegal = |t: &TokenId| self.words.eos.contains(t);
            // What was not found may still be legal, as an end token is.
            match found.or_else(|| Some(draw()).filter(|t| !illegal(t) && !self.language.allows(here, *t))) {
                Some(id) => ids.push(id),
                None => break,
            }
            state = next;
        }
        let got = matcher.validate_tokens(&ids);
        let shown: Vec<String> = ids.iter().map(|&id| self.show(id)).collect();
        check(got == want, || format!("validate_tokens({}): expected {want}, got {got}", shown.join(", ")))
    }

    /// An illegal token is an error and changes nothing.
    fn compare_illegal(&mut self, matcher: &mut Matcher, expected: &[bool], random: &mut Random) -> Check {
        let id = random.below(expected.len());
        if expected[id] {
            return Ok(());
        }
        let id = id as TokenId;
        check(matcher.accept_token(id).is_err(), || format!("accept_token took {}", self.show(id)))?;
        self.same_mask(matcher, "after a refused token")
    }

    /// The same point reached by a matcher that has cached nothing, byte by byte where possible.
    fn compare_fresh(&mut self) -> Check {
        let grammar = self.compiler.compile(self.constraint).map_err(|e| format!("second compile: {e}"))?;
        let mut fresh = grammar.matcher();
        let tokens = match L::BYTES {
            true => self.words.vocab.decode(&self.tokens).into_iter().map(|b| self.words.byte(b)).collect(),
            false => self.tokens.clone(),
        };
        for token in tokens {
            fresh.accept_token(token).map_err(|e| format!("byte by byte: {e}"))?;
        }
        self.same_mask(&mut fresh, "uncached, byte by byte")
    }

    fn accept(&mut self, id: TokenId) -> Check {
        self.matcher.accept_token(id).map_err(|e| format!("{}: {e}", self.show(id)))?;
        let next = self.language.after(&self.state(), id);
        self.states.push(next);
        self.tokens.push(id);
        check(self.matcher.num_accepted() == self.tokens.len(), || "num_accepted".into())
    }

    fn roll_back(&mut self, random: &mut Random) -> Check {
        let count = random.below(self.tokens.len() + 1);
        let fork = self.matcher.fork();
        self.matcher.rollback(count);
        let gone = self.states.split_off(self.states.len() - count);
        let undone = self.tokens.split_off(self.tokens.len() - count);
        self.same_mask(&mut self.matcher.fork(), "after rollback")?;
        if random.chance(50) {
            return Ok(());
        }
        // Continue with the copy that was not rolled back.
        self.matcher = fork;
        self.states.extend(gone);
        self.tokens.extend(undone);
        self.same_mask(&mut self.matcher.fork(), "fork made before a rollback")
    }

    fn finish(&mut self, random: &mut Random) -> Check {
        let eos = self.words.eos.clone();
        let mut matcher = self.matcher.fork();
        matcher.accept_token(eos[0]).map_err(|e| format!("end token: {e}"))?;
        check(matcher.is_terminated(), || "not terminated after the end token".into())?;
        let set: Vec<TokenId> = crate::vocab::row(&mut matcher).into_iter().collect();
        check(set == eos, || format!("after the end token: expected {eos:?}, got {set:?}"))?;
        check(matcher.num_accepted() == self.tokens.len(), || "the end token is counted".into())?;
        check(matcher.is_finished() && matcher.fork().is_finished(), || "not finished".into())?;
        matcher.rollback(1);
        check(!matcher.is_finished(), || "finished after a rollback of the end token".into())?;
        check(matcher.tokens() == self.tokens, || "more than the end token rolled back".into())?;
        self.same_mask(&mut matcher, "after a rollback of the end token")?;
        // The end token with some of those before it.
        let count = random.below(self.tokens.len() + 1);
        matcher.accept_token(eos[0]).map_err(|e| format!("end token again: {e}"))?;
        matcher.rollback(1 + count);
        let gone = self.states.split_off(self.states.len() - count);
        let result = self.same_mask(&mut matcher, "after a rollback over the end token");
        self.states.extend(gone);
        result
    }
}

/// The run of tokens that leave no choice in a language of tokens.
pub fn forced_tokens<L: TokenLanguage>(language: &mut L, state: &L::State, alphabet: &[TokenId]) -> Forced {
    let (mut run, mut state) = (Vec::new(), state.clone());
    while !language.may_end(&state) {
        let mut legal = alphabet.iter().copied().filter(|&t| language.allows(&state, t));
        let (Some(token), None) = (legal.next(), legal.next()) else { break };
        drop(legal);
        run.push(token);
        state = language.after(&state, token);
    }
    Forced::Tokens(run)
}
