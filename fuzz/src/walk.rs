//! A walk through a compiled grammar, steered by bytes: tokens of the mask, forks, rollbacks.
//!
//! Checks at every step, for any constraint:
//!
//! - The mask agrees with `allows` and `validate_tokens`.
//! - End tokens are legal exactly where the output may end; special and padded ids never are.
//! - There is no dead end.
//! - The forced run agrees with the masks of single bytes.
//! - A rollback and a fork restore the mask that was seen at that position.
//! - A completion completes the output.

use ffwd::{CompiledGrammar, Matcher, TokenId};

use crate::{Bytes, vocabulary};

/// Observations at a position.
#[derive(Clone, PartialEq, Debug)]
struct Seen {
    row: Vec<u32>,
    accepting: bool,
    terminated: bool,
    in_string: bool,
    forced: Vec<u8>,
}

/// A matcher and its observations at each position until now.
pub struct Walk {
    matcher: Matcher,
    text: Vec<u8>,
    /// Lengths of `text` before each token.
    lengths: Vec<usize>,
    /// One more than tokens accepted.
    seen: Vec<Seen>,
    forks: Vec<(Matcher, Seen)>,
}

/// Most bytes of a completion that is checked.
const MAX_COMPLETION: usize = 1 << 11;
/// Most forks kept for the check at the end.
const MAX_FORKS: usize = 4;

fn has(row: &[u32], token: TokenId) -> bool {
    row[token as usize / 32] >> (token % 32) & 1 == 1
}

fn see(matcher: &mut Matcher) -> Seen {
    let mut row = vec![u32::MAX; vocabulary().vocab.bitmask_words()];
    matcher.fill_bitmask(&mut row);
    Seen {
        row,
        accepting: matcher.is_accepting(),
        terminated: matcher.is_terminated(),
        in_string: matcher.in_string(),
        forced: matcher.forced_bytes(),
    }
}

impl Walk {
    pub fn new(grammar: &CompiledGrammar) -> Self {
        let mut matcher = grammar.matcher();
        let first = see(&mut matcher);
        let mut walk =
            Walk { matcher, text: Vec::new(), lengths: Vec::new(), seen: vec![first], forks: Vec::new() };
        walk.check();
        walk
    }

    /// The bytes accepted.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether the output may end here.
    pub fn accepting(&self) -> bool {
        self.now().accepting
    }

    fn now(&self) -> &Seen {
        self.seen.last().expect("the start was seen")
    }

    /// Follows a script for at most `most` operations, then checks the forks.
    pub fn follow(&mut self, script: &mut Bytes, most: usize) {
        for _ in 0..most {
            if script.is_empty() {
                break;
            }
            match script.byte() {
                0..=159 => self.accept_one(script.below(1 << 12)),
                160..=184 => self.roll_back(script.below(self.lengths.len() + 1)),
                185..=204 => self.fork(),
                205..=229 => self.validate(script),
                _ => self.take_forced(),
            }
            self.check_some(script.byte());
        }
        self.check_completion();
        for (mut fork, seen) in std::mem::take(&mut self.forks) {
            assert_eq!(see(&mut fork), seen, "a fork changed with its origin");
        }
    }

    /// What is said to complete the output does.
    fn check_completion(&self) {
        let vocab = &vocabulary().vocab;
        let Some(bytes) = self.matcher.shortest_completion(MAX_COMPLETION) else { return };
        let mut fork = self.matcher.fork();
        for byte in &bytes {
            let mut ids = 0..vocab.len() as TokenId;
            let Some(token) = ids.find(|&t| vocab.token_bytes(t) == [*byte]) else { return };
            fork.accept_token(token).expect("a byte of a completion");
        }
        assert!(fork.is_accepting(), "{:?} completes nothing", String::from_utf8_lossy(&bytes));
    }

    /// Heads for an end with tokens that close what is open. Whether it got there within `most`
    /// tokens.
    pub fn finish(&mut self, most: usize) -> bool {
        const CLOSING: [&[u8]; 14] =
            [b"\"", b"}", b"]", b"\":", b"0", b"1", b"null", b"true", b"{}", b"[]", b"{", b"[", b",", b"a"];
        let vocab = &vocabulary().vocab;
        let ids = || 0..vocab.len() as TokenId;
        for _ in 0..most {
            if self.accepting() {
                return true;
            }
            let row = &self.now().row;
            let wanted = |bytes: &[u8]| ids().find(|&t| has(row, t) && vocab.token_bytes(t) == bytes);
            let token = CLOSING.iter().find_map(|c| wanted(c)).or_else(|| ids().find(|&t| has(row, t)));
            self.push(token.expect("not accepting, so some token is legal"));
        }
        self.accepting()
    }

    fn accept_one(&mut self, choice: usize) {
        let eos = &vocabulary().eos;
        let row = &self.now().row;
        let legal: Vec<TokenId> =
            (0..vocabulary().vocab.len() as TokenId).filter(|t| has(row, *t) && !eos.contains(t)).collect();
        if !legal.is_empty() {
            return self.push(legal[choice % legal.len()]);
        }
        // Nothing but an end token: take it, look, and take it back.
        assert!(self.now().terminated, "nothing is legal but the end, yet it is not terminated");
        let mut fork = self.matcher.fork();
        fork.accept_token(eos[0]).expect("an end token with its bit set");
        assert!(fork.is_terminated() && fork.accept_token(eos[0]).is_err());
        assert!(see(&mut fork).forced.is_empty());
        fork.rollback(1);
        assert_eq!(see(&mut fork), *self.now(), "the end token is rolled back");
    }

    fn push(&mut self, token: TokenId) {
        let before = self.matcher.num_accepted();
        self.matcher.accept_token(token).unwrap_or_else(|e| {
            panic!("a token with its bit set is refused after {:?}: {e}", String::from_utf8_lossy(&self.text))
        });
        assert_eq!(self.matcher.num_accepted(), before + 1);
        self.lengths.push(self.text.len());
        self.text.extend_from_slice(vocabulary().vocab.token_bytes(token));
        let seen = see(&mut self.matcher);
        self.seen.push(seen);
        self.check();
    }

    fn roll_back(&mut self, n: usize) {
        self.matcher.rollback(n);
        let left = self.lengths.len() - n;
        if n > 0 {
            self.text.truncate(self.lengths[left]);
        }
        self.lengths.truncate(left);
        self.seen.truncate(left + 1);
        assert_eq!(see(&mut self.matcher), *self.now(), "rolled back by {n}");
        assert_eq!(self.matcher.num_accepted(), left);
    }

    fn fork(&mut self) {
        let mut fork = self.matcher.fork();
        assert_eq!(see(&mut fork), *self.now(), "a fork sees what its origin sees");
        if self.forks.len() < MAX_FORKS {
            self.forks.push((fork, self.now().clone()));
        }
    }

    /// `validate_tokens` counts what a fork accepts one by one.
    fn validate(&mut self, script: &mut Bytes) {
        let len = vocabulary().vocab.logits_size();
        let tokens: Vec<TokenId> = (0..1 + script.below(4)).map(|_| script.below(len) as TokenId).collect();
        let mut fork = self.matcher.fork();
        let ends = |t: &TokenId| vocabulary().eos.contains(t);
        let one_by_one = tokens.iter().take_while(|t| !ends(t) && fork.accept_token(**t).is_ok()).count();
        assert_eq!(self.matcher.validate_tokens(&tokens), one_by_one, "{tokens:?}");
        assert_eq!(see(&mut self.matcher), *self.now(), "validating changes nothing");
    }

    /// Takes the forced run in tokens; each tokenisation of it must be legal.
    fn take_forced(&mut self) {
        let run = self.now().forced.clone();
        let tokens = self.matcher.longest_forced_tokens();
        assert_eq!(vocabulary().vocab.decode(&tokens), run, "every byte is a token here");
        for other in [self.matcher.forced_tokens(), self.matcher.canonical_forced_tokens(None), self.matcher.drafted_forced_tokens(None)] {
            assert!(run.starts_with(&vocabulary().vocab.decode(&other)));
            assert_eq!(self.matcher.validate_tokens(&other), other.len(), "{other:?} of {run:?}");
        }
        for token in tokens.into_iter().take(16) {
            self.push(token);
        }
    }

    /// Checks the mask itself.
    fn check(&mut self) {
        let known = vocabulary();
        let seen = self.seen.last().expect("the start was seen");
        let at = || String::from_utf8_lossy(&self.text).into_owned();
        for (id, bytes) in known.tokens.iter().enumerate() {
            let (id, is_end) = (id as TokenId, known.eos.contains(&(id as TokenId)));
            if bytes.is_empty() {
                assert_eq!(has(&seen.row, id), is_end && seen.accepting, "id {id} after {:?}", at());
            }
        }
        let singles: Vec<u8> = (0..=255u8).filter(|b| has(&seen.row, TokenId::from(*b))).collect();
        // The first 256 ids are the bytes in order, and a token can come only if its first byte
        // can.
        assert!(seen.accepting || !singles.is_empty(), "a dead end after {:?}", at());
        assert_eq!(seen.terminated, singles.is_empty(), "terminated after {:?}", at());
        for (id, bytes) in known.tokens.iter().enumerate() {
            if let Some(first) = bytes.first() {
                let legal = has(&seen.row, id as TokenId);
                assert!(!legal || singles.contains(first), "token {bytes:?} after {:?}", at());
                let run = &seen.forced[..];
                assert!(
                    !legal || bytes.starts_with(run) || run.starts_with(bytes),
                    "{bytes:?} against {run:?}"
                );
                assert!(legal || !run.starts_with(bytes), "{bytes:?} lies in the forced {run:?}");
            }
        }
        let alone = singles.len() == 1 && !seen.accepting;
        assert_eq!(!seen.forced.is_empty(), alone, "forced {:?} after {:?}", seen.forced, at());
    }

    /// `allows` agrees with the bits of a few tokens, and with stepping byte by byte.
    fn check_some(&mut self, offset: u8) {
        let known = vocabulary();
        let row = self.now().row.clone();
        for i in 0..8 {
            let id = (usize::from(offset) * 5 + i * 61) % known.tokens.len();
            let legal = has(&row, id as TokenId);
            assert_eq!(self.matcher.allows(id as TokenId), legal, "token {id} after {:?}", self.text);
            if known.tokens[id].len() > 1 {
                let bytes: Vec<TokenId> = known.tokens[id].iter().map(|&b| TokenId::from(b)).collect();
                let fits = self.matcher.validate_tokens(&bytes) == bytes.len();
                assert_eq!(fits, legal, "token {id} byte by byte after {:?}", self.text);
            }
        }
    }
}
