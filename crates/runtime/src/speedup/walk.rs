//! Walks through a constraint without a model: how many tokens of an output are forced.
//!
//! A walk follows every forced run. At a free position it takes one of the kinds of text that may
//! come next, each with the same probability: a digit, a point, a sign, a letter, a bracket, a
//! comma. Where a string may begin, the other kinds are rarer, because records seldom lack their
//! values. Inside a string it writes words up to a length, then it closes the string.
//!
//! # Cost
//!
//! A mask and a pass over the vocabulary for each free position outside of strings.
//!
//! # Alternatives considered
//!
//! Shortest completions were rejected: strings would be empty and optional properties absent, so
//! the forced share would be too high.

use crate::error::Result;
use crate::matcher::{CompiledGrammar, Matcher};
use crate::vocab::{TokenId, Vocabulary};

/// Maximum number of tokens of a walk.
const MAX_TOKENS: usize = 4096;
/// Words that are tried before a position in a string counts as one without words.
const WORD_TRIES: usize = 12;
/// Bytes of the run after a string that are tokenised together with its quotation mark.
const RUN_TOKENS: usize = 64;

/// Where a string may begin, one does in all but one of this number of cases.
const STRING_OF: usize = 8;

/// The outcome of a walk.
#[derive(Debug, Default, Clone)]
pub struct ConstraintWalk {
    /// The output.
    pub tokens: Vec<TokenId>,
    /// For each token, what decides it.
    pub kinds: Vec<TokenKind>,
    /// Forced runs as text, with their numbers of tokens.
    pub runs: Vec<(String, usize)>,
    /// True if the walk was cut at the maximum.
    pub cut: bool,
}

/// What decides a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// The constraint.
    Forced,
    /// The model, inside a string.
    String,
    /// The model, elsewhere.
    Choice,
}

/// Walks through a grammar.
pub struct Walker {
    vocab: Vocabulary,
    /// Words with and without a space before them.
    words: [Vec<TokenId>; 2],
    /// The tokens that are a quotation mark and nothing else.
    marks: Vec<TokenId>,
    /// Characters of a string, where its bounds allow that many.
    string_chars: usize,
    random: u64,
}

impl Walker {
    /// Characters of a string, unless a user names another number.
    pub const STRING_CHARS: usize = 16;

    /// Returns a walker that expects strings of this number of characters where their bounds allow it.
    pub fn new(vocab: &Vocabulary, string_chars: usize) -> Self {
        let words = vocab.tokens_where(|bytes| {
            let word = bytes.strip_prefix(b" ").unwrap_or(bytes);
            word.len() > 1 && word.iter().all(u8::is_ascii_alphabetic)
        });
        let is_spaced = |word: &TokenId| vocab.token_bytes(*word).starts_with(b" ");
        let words = words.iter().partition(is_spaced);
        let words = <[Vec<TokenId>; 2]>::from(words);
        let marks = vocab.tokens_where(|bytes| bytes == b"\"").iter().collect();
        Walker { vocab: vocab.clone(), words, marks, string_chars, random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// Returns a number below `end` (SplitMix64).
    pub fn below(&mut self, end: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end.max(1) as u64) as usize
    }

    /// Walks once to the end of an output.
    ///
    /// # Errors
    /// Only if the grammar refuses tokens that it allowed.
    pub fn walk(&mut self, grammar: &CompiledGrammar) -> Result<ConstraintWalk> {
        let mut matcher = grammar.matcher();
        let mut walk = ConstraintWalk::default();
        // Characters of the open string so far.
        let mut chars = 0;
        while !matcher.is_terminated() {
            if walk.tokens.len() >= MAX_TOKENS {
                walk.cut = true;
                break;
            }
            if self.force(&mut matcher, &mut walk)? {
                chars = 0;
                continue;
            }
            let in_string = !matcher.is_token_level() && matcher.in_string();
            if in_string {
                if chars < self.string_chars
                    && let Some(word) = self.word(&mut matcher, chars == 0)
                {
                    chars += self.vocab.token_bytes(word).len();
                    self.take(&mut matcher, &mut walk, word, TokenKind::String)?;
                    continue;
                }
                if self.close_string(&mut matcher, &mut walk)? {
                    chars = 0;
                    continue;
                }
            }
            if matcher.is_accepting() && self.below(2) == 0 {
                break;
            }
            let Some(token) = self.choice(&mut matcher) else { break };
            let kind = if in_string { TokenKind::String } else { TokenKind::Choice };
            chars += 1;
            self.take(&mut matcher, &mut walk, token, kind)?;
        }
        Ok(walk)
    }

    fn take(
        &self,
        matcher: &mut Matcher,
        walk: &mut ConstraintWalk,
        token: TokenId,
        kind: TokenKind,
    ) -> Result<()> {
        matcher.accept_token(token)?;
        walk.tokens.push(token);
        walk.kinds.push(kind);
        Ok(())
    }

    /// Follows the forced run. Returns false if there is none.
    fn force(&self, matcher: &mut Matcher, walk: &mut ConstraintWalk) -> Result<bool> {
        let run = matcher.drafted_forced_tokens(walk.tokens.last().copied());
        for &token in &run {
            self.take(matcher, walk, token, TokenKind::Forced)?;
        }
        if !run.is_empty() {
            walk.runs.push((String::from_utf8_lossy(&self.vocab.decode(&run)).into_owned(), run.len()));
        }
        Ok(!run.is_empty())
    }

    /// Returns a legal word; without a space before it at the start of a string.
    fn word(&mut self, matcher: &mut Matcher, start: bool) -> Option<TokenId> {
        (0..WORD_TRIES).find_map(|_| {
            let list = usize::from(start);
            let at = self.below(self.words[list].len());
            let word = *self.words[list].get(at)?;
            matcher.allows(word).then_some(word)
        })
    }

    /// Closes the open string, with the run that is forced after it: the tokenizer may write both
    /// together. The first token is the model's decision. Returns false if the string cannot close.
    fn close_string(&self, matcher: &mut Matcher, walk: &mut ConstraintWalk) -> Result<bool> {
        let Some(forced) = matcher.forced_bytes_after(b"\"", RUN_TOKENS) else { return Ok(false) };
        let bytes = [b"\"", &forced[..]].concat();
        let Ok(text) = std::str::from_utf8(&bytes) else { return Ok(false) };
        let tokens = self.vocab.encode(text)?;
        if matcher.validate_tokens(&tokens) < tokens.len() {
            return Ok(false);
        }
        for (i, &token) in tokens.iter().enumerate() {
            let kind = if i == 0 { TokenKind::String } else { TokenKind::Forced };
            self.take(matcher, walk, token, kind)?;
        }
        if tokens.len() > 1 {
            let run = String::from_utf8_lossy(&self.vocab.decode(&tokens[1..])).into_owned();
            walk.runs.push((run, tokens.len() - 1));
        }
        Ok(true)
    }

    /// Returns a token of one of the kinds of text that may come next.
    fn choice(&mut self, matcher: &mut Matcher) -> Option<TokenId> {
        let examples = matcher.example_tokens(usize::MAX);
        let mut kinds: Vec<(u8, Vec<TokenId>)> = Vec::new();
        for token in examples {
            let Some(&first) = self.vocab.token_bytes(token).first() else { continue };
            let kind = match first {
                b'0'..=b'9' => b'0',
                b'a'..=b'z' | b'A'..=b'Z' => b'a',
                0x80.. => 0x80,
                other => other,
            };
            match kinds.iter_mut().find(|known| known.0 == kind) {
                Some(known) => known.1.push(token),
                None => kinds.push((kind, vec![token])),
            }
        }
        let quote = kinds.iter().position(|kind| kind.0 == b'"');
        let kind = match quote {
            Some(quote) if self.below(STRING_OF) > 0 => quote,
            _ => self.below(kinds.len()),
        };
        let (first, tokens) = kinds.get(kind)?;
        // The longest token with a quotation mark would often be a whole empty string.
        if *first == b'"'
            && let Some(&mark) = self.marks.iter().find(|mark| matcher.allows(**mark))
        {
            return Some(mark);
        }
        let at = self.below(tokens.len());
        tokens.get(at).copied()
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;
    use crate::constraint::Constraint;
    use crate::matcher::Compiler;

    #[test]
    fn walks_end_and_know_what_is_forced() {
        let vocab = crate::model::embedded::vocabulary().unwrap();
        let compiler = Compiler::new(vocab.clone());
        let schema = r#"{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
            "tags": {"type": "array", "items": {"enum": ["red", "blue"]}, "maxItems": 3}, "on": {"format": "date"}},
            "required": ["name", "age"], "additionalProperties": false}"#;
        let grammar = compiler.compile(&Constraint::json_schema(schema).unwrap()).unwrap();
        let mut walker = Walker::new(&vocab, 16);
        for _ in 0..50 {
            let walk = walker.walk(&grammar).unwrap();
            assert!(!walk.cut);
            let text = String::from_utf8(vocab.decode(&walk.tokens)).unwrap();
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert!(value["name"].as_str().unwrap().len() >= 16, "{text}");
            // A forced token is one after which the run before it leaves no choice.
            let mut matcher = grammar.matcher();
            for (&token, kind) in walk.tokens.iter().zip(&walk.kinds) {
                let run = matcher.forced_bytes();
                let forced = !run.is_empty() && run.starts_with(vocab.token_bytes(token));
                assert_eq!(forced, *kind == TokenKind::Forced, "{text}");
                matcher.accept_token(token).unwrap();
            }
        }
        let constant =
            compiler.compile(&Constraint::json_schema(r#"{"const": [1, 2, 3]}"#).unwrap()).unwrap();
        let walk = walker.walk(&constant).unwrap();
        assert!(walk.kinds.iter().all(|kind| *kind == TokenKind::Forced) && walk.runs.len() == 1);
    }
}
