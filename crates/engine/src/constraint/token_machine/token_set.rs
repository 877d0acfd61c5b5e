//! `TokenSet`: a sorted set of tokens, used as the label of transitions.
//!
//! The list is in an [`Arc`], so that a large class of tokens is stored once, however many
//! transitions use it.
//!
//! # Cost
//! A lookup is a binary search.
//!
//! # Alternatives considered
//! Packed mask rows were rejected: most transitions have few tokens, and the matcher packs the
//! masks of whole states anyway.

use std::sync::Arc;

use regex_automata::Input;
use regex_automata::nfa::thompson;
use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_syntax::hir::{Hir, Look};

use crate::constraint::regex::syntax_error;
use crate::error::{Error, ErrorKind, Result};
use crate::vocab::{TokenId, Vocabulary};

/// A set of tokens. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TokenSet(Arc<[TokenId]>);

/// Maximum size in bytes of the automaton of a [`Vocabulary::tokens_matching`] pattern.
const MAX_PATTERN_BYTES: usize = 1 << 20;

impl TokenSet {
    /// The tokens, sorted.
    pub fn as_slice(&self) -> &[TokenId] {
        &self.0
    }

    /// Returns an iterator over the tokens in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.0.iter().copied()
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a token is in the set. Costs a binary search.
    pub fn contains(&self, token: TokenId) -> bool {
        self.0.binary_search(&token).is_ok()
    }

    /// Returns the tokens of either set.
    pub fn union(&self, other: &TokenSet) -> TokenSet {
        self.iter().chain(other.iter()).collect()
    }

    /// Returns the tokens of this set that are not in the other one.
    pub fn without(&self, other: &TokenSet) -> TokenSet {
        self.iter().filter(|&t| !other.contains(t)).collect()
    }

    /// The address of the tokens in memory, which is equal for clones.
    pub(crate) fn address(&self) -> *const TokenId {
        self.0.as_ptr()
    }
}

impl FromIterator<TokenId> for TokenSet {
    fn from_iter<I: IntoIterator<Item = TokenId>>(tokens: I) -> Self {
        let mut tokens: Vec<TokenId> = tokens.into_iter().collect();
        tokens.sort_unstable();
        tokens.dedup();
        TokenSet(tokens.into())
    }
}

impl From<TokenId> for TokenSet {
    fn from(token: TokenId) -> Self {
        TokenSet(Arc::from([token]))
    }
}

impl From<Vec<TokenId>> for TokenSet {
    fn from(tokens: Vec<TokenId>) -> Self {
        tokens.into_iter().collect()
    }
}

impl From<&[TokenId]> for TokenSet {
    fn from(tokens: &[TokenId]) -> Self {
        tokens.iter().copied().collect()
    }
}

impl<const N: usize> From<[TokenId; N]> for TokenSet {
    fn from(tokens: [TokenId; N]) -> Self {
        tokens.into_iter().collect()
    }
}

impl From<&TokenSet> for TokenSet {
    fn from(set: &TokenSet) -> Self {
        set.clone()
    }
}

impl Vocabulary {
    /// Returns the text tokens whose bytes `wanted` accepts; it is called once for each token.
    /// Special and end tokens are left out.
    pub fn tokens_where(&self, mut wanted: impl FnMut(&[u8]) -> bool) -> TokenSet {
        let text = |&t: &TokenId| !self.token_bytes(t).is_empty() && !self.eos().contains(&t);
        (0..self.len() as TokenId).filter(text).filter(|&t| wanted(self.token_bytes(t))).collect()
    }

    /// Returns the text tokens that match a regular expression as a whole, in the syntax of
    /// [`Constraint::regex`](crate::Constraint::regex). For example, `[A-Z]+` gives the tokens of
    /// capital letters. Costs one run of the automaton for each token.
    ///
    /// # Errors
    /// Returns an error with the span of the fault if the pattern does not parse, and `TooComplex`
    /// if its automaton is larger than a megabyte.
    pub fn tokens_matching(&self, pattern: &str) -> Result<TokenSet> {
        let parsed = regex_syntax::ParserBuilder::new().utf8(false).build().parse(pattern);
        let hir = parsed.map_err(|e| syntax_error(&e, pattern, |at| at))?;
        let whole = Hir::concat(vec![Hir::look(Look::Start), hir, Hir::look(Look::End)]);
        let config = thompson::Config::new()
            .utf8(false)
            .nfa_size_limit(Some(MAX_PATTERN_BYTES))
            .which_captures(thompson::WhichCaptures::None);
        let too_large = |e: &dyn std::fmt::Display| {
            let message = format!("the automaton of the pattern cannot be built: {e}");
            Error::new(ErrorKind::TooComplex, message)
                .hint("write a shorter pattern, or choose the tokens with `tokens_where`")
        };
        let nfa = thompson::Compiler::new().configure(config).build_from_hir(&whole);
        let vm = nfa
            .map_err(|e| too_large(&e))
            .and_then(|nfa| PikeVM::builder().build_from_nfa(nfa).map_err(|e| too_large(&e)))?;
        let mut cache = vm.create_cache();
        Ok(self.tokens_where(|bytes| vm.is_match(&mut cache, Input::new(bytes))))
    }
}
