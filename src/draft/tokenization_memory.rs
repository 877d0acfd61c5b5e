//! How the target splits forced text into tokens.
//!
//! A forced run of bytes leaves the target only the split, and it need not split as the tokenizer does: behind `{"na` it
//! may write `m` and `e`. Its choice is among the tokens that the run begins with, and mostly a matter of the tokens
//! before it; so what it chose is kept by these and the longest token that the run begins with, and the next run is
//! drafted that way: with the same schema from the second output on. Rows behind a rejected proposal tell how the target
//! would have gone on from there. They cost nothing more, and where text and tokens come together again they are right:
//! the iteration of Jacobi decoding (Santilli et al. 2023), with the text known.
//!
//! Cost: a walk along the longest token and three look-ups for each proposal. At most twice [`GENERATION_CAPACITY`] entries are kept, a
//! megabyte; the oldest go. A draft model in its place was rejected: it costs calls, and models that
//! were trained on other splits differ just where this matters.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHashMap;

use super::{Proposal, ProposalContext, Source};
use crate::vocab::{TokenId, Trie, Vocabulary};

/// Entries of one age.
const GENERATION_CAPACITY: usize = 1 << 14;

/// The grade of a proposal that the target chose before behind the same text.
pub const CHOSEN: u8 = 3;
/// Likewise, behind something like it.
pub(super) const CHOSEN_ELSEWHERE: u8 = 4;

/// What was chosen, by what stood before it and the longest token that could have been.
#[derive(Debug, Default)]
pub struct TokenizationMemory {
    young: FxHashMap<Key, TokenId>,
    /// What was young before there were [`GENERATION_CAPACITY`] younger ones.
    old: FxHashMap<Key, TokenId>,
}

/// A hash of the longest token that the text goes on with, and of so many tokens before it. Where two are alike a
/// proposal is wrong, no more.
type Key = u64;

/// Tokens before a choice that it is kept by: the more of them are alike, the more certain it is.
const REACHES: [usize; 3] = [8, 2, 1];

/// The keys of a choice behind the tokens of `before`, the most exact one first.
fn keys(before: &[TokenId], longest: TokenId) -> [Key; REACHES.len()] {
    REACHES.map(|reach| {
        let mut hasher = rustc_hash::FxHasher::default();
        (reach, longest, &before[before.len().saturating_sub(reach)..]).hash(&mut hasher);
        hasher.finish()
    })
}

impl TokenizationMemory {
    fn get(&self, key: &Key) -> Option<TokenId> {
        self.young.get(key).or_else(|| self.old.get(key)).copied()
    }

    fn put(&mut self, key: Key, token: TokenId) {
        self.young.insert(key, token);
        if self.young.len() >= GENERATION_CAPACITY {
            self.old = std::mem::take(&mut self.young);
        }
    }

    /// What was chosen where `before` stood before it and `longest` could have followed, with its grade.
    fn chosen(&self, before: &[TokenId], longest: TokenId) -> Option<(TokenId, u8)> {
        let grades = [CHOSEN, CHOSEN_ELSEWHERE, CHOSEN_ELSEWHERE];
        keys(before, longest).iter().zip(grades).find_map(|(key, grade)| Some((self.get(key)?, grade)))
    }

    /// Tokens before a run that its split may depend on.
    pub const REACH: usize = REACHES[0];

    /// The text of the proposals in the tokens that the target is likely to write it in: those it chose before, else
    /// the proposed ones, else what ends where one of these does. Each is legal where the text is forced.
    pub fn retokenize(&self, vocab: &Vocabulary, before: &[TokenId], run: &[Proposal]) -> Vec<Proposal> {
        if self.young.is_empty() && self.old.is_empty() {
            return run.to_vec();
        }
        let (trie, text) = (vocab.trie(), text(vocab, run));
        let (mut before, mut at) = (before.to_vec(), 0);
        // The first proposed token that begins at `at` or behind it, and where.
        let (mut next, mut begins) = (0, 0);
        let mut respelled = Vec::with_capacity(run.len());
        while let Some((longest, _)) = trie.longest_prefix(&text[at..]) {
            while begins < at {
                begins += vocab.token_bytes(run[next].token).len();
                next += 1;
            }
            let state = run[next.min(run.len() - 1)].state;
            let of = |token, grade| Proposal {
                token,
                source: Source::Forced,
                state: ProposalContext { confidence: grade, ..state },
            };
            let fits = |token: TokenId| text[at..].starts_with(vocab.token_bytes(token));
            let proposal = match self.chosen(&before, longest).filter(|chosen| fits(chosen.0)) {
                Some((token, grade)) => of(token, grade),
                None if begins == at => run[next],
                None => match trie.longest_prefix(&text[at..begins]) {
                    Some((token, _)) => of(token, state.confidence),
                    // Only where a vocabulary lacks a byte.
                    None => break,
                },
            };
            at += vocab.token_bytes(proposal.token).len();
            before.push(proposal.token);
            respelled.push(proposal);
        }
        respelled
    }

    /// Takes note of what the target would have written in place of each of the `drafted` proposals, and behind them
    /// where `rest` is forced: `rows` are its logits, a row in front of each, of which it accepted the first `matched`.
    /// `before` are the last tokens before them.
    pub fn learn(
        &mut self,
        vocab: &Vocabulary,
        before: &[TokenId],
        drafted: (&[Proposal], &[u8]),
        rows: &[Vec<f32>],
        matched: usize,
    ) {
        let (proposals, rest) = drafted;
        let written: Vec<TokenId> = before.iter().copied().chain(proposals.iter().map(|p| p.token)).collect();
        // In front of the proposal `i`, where `text` is forced.
        let mut note = |i: usize, text: &[u8]| {
            let Some(choice) = rows.get(i).and_then(|logits| choice(vocab.trie(), text, logits)) else {
                return;
            };
            for key in keys(&written[..before.len() + i], choice.longest) {
                // Behind a rejected token the row is of a text that was not written: a guess.
                if i <= matched || self.get(&key).is_none() {
                    self.put(key, choice.best);
                }
            }
        };
        let mut at = 0;
        for run in proposals.chunk_by(|a, b| a.source == b.source) {
            let first = at;
            at += run.len();
            if run[0].source != Source::Forced {
                continue;
            }
            let mut text = text(vocab, run);
            text.extend_from_slice(if at == proposals.len() { rest } else { &[] });
            let mut text = &text[..];
            for (i, proposal) in (first..).zip(run) {
                // What is known and was right stays as it is.
                if i >= matched || proposal.state.confidence != CHOSEN {
                    note(i, text);
                }
                text = &text[vocab.token_bytes(proposal.token).len()..];
            }
        }
        note(proposals.len(), rest);
    }
}

/// Of the tokens that a text begins with.
struct Choice {
    longest: TokenId,
    /// The one with the highest logit.
    best: TokenId,
}

fn choice(trie: &Trie, text: &[u8], logits: &[f32]) -> Option<Choice> {
    let (mut found, mut most) = (None, f32::NEG_INFINITY);
    let mut node = 0;
    for &byte in text {
        let Some(next) = trie.child(node, byte) else { break };
        node = next;
        let Some(&token) = trie.tokens_at(node).first() else { continue };
        let logit = logits.get(token as usize).copied().unwrap_or(f32::NEG_INFINITY);
        let best = found.as_ref().filter(|_| logit <= most).map_or(token, |c: &Choice| c.best);
        most = most.max(logit);
        found = Some(Choice { longest: token, best });
    }
    found
}

/// The tokens as bytes.
fn text(vocab: &Vocabulary, run: &[Proposal]) -> Vec<u8> {
    run.iter().flat_map(|p| vocab.token_bytes(p.token)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::super::draft_vocab::tests::vocabulary;
    use super::*;
    use ffwd_testkit::random::Random;
    use proptest::prelude::*;

    const LETTERS: usize = 4;

    /// All words of one to three of four letters.
    fn words() -> Vocabulary {
        let mut words: Vec<String> = vec![String::new()];
        for i in 0.. {
            if words[i].len() == 3 {
                break;
            }
            for letter in 0..LETTERS {
                words.push(format!("{}{}", words[i], char::from(b'a' + letter as u8)));
            }
        }
        vocabulary(&words[1..].iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn proposals(tokens: &[TokenId]) -> Vec<Proposal> {
        tokens
            .iter()
            .map(|&token| Proposal { token, source: Source::Forced, state: ProposalContext::FREE })
            .collect()
    }

    /// The tokenizer's split: by three letters.
    fn tokenizer(vocab: &Vocabulary, text: &[u8]) -> Vec<Proposal> {
        let token = |piece: &[u8]| vocab.trie().longest_prefix(piece).unwrap().0;
        proposals(&text.chunks(3).map(token).collect::<Vec<_>>())
    }

    /// A model whose logits depend on as many of the last tokens.
    fn logits(vocab: &Vocabulary, written: &[TokenId], reach: usize, seed: u64) -> Vec<f32> {
        let behind = &written[written.len().saturating_sub(reach)..];
        let logit = |token: usize| {
            let mut hasher = rustc_hash::FxHasher::default();
            (seed, behind, token).hash(&mut hasher);
            (hasher.finish() >> 40) as f32
        };
        (0..vocab.len()).map(logit).collect()
    }

    /// Writes a forced text by drafting and verifying; the tokens, and in how many forwards.
    fn write(
        splits: &mut TokenizationMemory,
        vocab: &Vocabulary,
        text: &[u8],
        model: impl Fn(&[TokenId]) -> Vec<f32>,
        draft: usize,
    ) -> (Vec<TokenId>, usize) {
        write_learning(splits, vocab, text, model, (draft, true))
    }

    /// The same, learning from rows behind rejected tokens, too, or not.
    fn write_learning(
        splits: &mut TokenizationMemory,
        vocab: &Vocabulary,
        text: &[u8],
        model: impl Fn(&[TokenId]) -> Vec<f32>,
        (draft, behind): (usize, bool),
    ) -> (Vec<TokenId>, usize) {
        let (mut written, mut at, mut forwards) = (Vec::new(), 0, 0);
        while at < text.len() {
            let run = tokenizer(vocab, &text[at..]);
            let mut run = splits.retokenize(vocab, &written, &run);
            let rest = super::text(vocab, &run.split_off(run.len().min(draft)));
            let before: Vec<TokenId> =
                written[written.len().saturating_sub(TokenizationMemory::REACH)..].to_vec();
            let mut hypothesis = written.clone();
            let mut rows = vec![model(&hypothesis)];
            for proposal in &run {
                hypothesis.push(proposal.token);
                rows.push(model(&hypothesis));
            }
            let mut matched = 0;
            for row in &rows {
                let Some(choice) = choice(vocab.trie(), &text[at..], row) else { break };
                written.push(choice.best);
                at += vocab.token_bytes(choice.best).len();
                if run.get(matched).is_none_or(|p| p.token != choice.best) {
                    break;
                }
                matched += 1;
            }
            let told = if behind { rows.len() } else { rows.len().min(matched + 1) };
            splits.learn(vocab, &before, (&run, &rest), &rows[..told], matched);
            forwards += 1;
        }
        (written, forwards)
    }

    proptest! {
        #[test]
        fn a_text_written_before_is_written_at_once(
            text in proptest::collection::vec(b'a'..b'a' + LETTERS as u8, 1..200),
            reach in 1usize..=TokenizationMemory::REACH,
            draft in 1usize..40,
            seed: u64,
        ) {
            let vocab = words();
            let model = |written: &[TokenId]| logits(&vocab, written, reach, seed);
            let (plain, forwards) = write(&mut TokenizationMemory::default(), &vocab, &text, model, 0);
            prop_assert_eq!(plain.len(), forwards);
            let mut splits = TokenizationMemory::default();
            let (first, some) = write(&mut splits, &vocab, &text, model, draft);
            let (again, few) = write(&mut splits, &vocab, &text, model, draft);
            prop_assert!(first == plain && again == plain);
            prop_assert!(some <= forwards);
            // Each forward gives its draft and a token more.
            prop_assert_eq!(few, plain.len().div_ceil(draft + 1));
        }

        /// Whatever is remembered, the text stays what it was.
        #[test]
        fn respelling_keeps_the_text(
            text in proptest::collection::vec(b'a'..b'a' + LETTERS as u8, 1..60),
            before in proptest::collection::vec(0u32..84, 0..10),
            remembered: u64,
        ) {
            let vocab = words();
            let mut splits = TokenizationMemory::default();
            for one in 0..84u32 {
                for longest in 0..84u32 {
                    let mut hasher = rustc_hash::FxHasher::default();
                    (remembered, one, longest).hash(&mut hasher);
                    let token = (hasher.finish() >> 32) as u32 % 120;
                    splits.put(keys(&[one], longest)[REACHES.len() - 1], token);
                }
            }
            let run = tokenizer(&vocab, &text);
            let respelled = splits.retokenize(&vocab, &before, &run);
            prop_assert_eq!(super::text(&vocab, &respelled), text);
        }
    }

    #[test]
    fn rows_behind_a_rejected_token_are_of_use() {
        let vocab = words();
        let (mut with, mut without) = (0, 0);
        for seed in 0..20u64 {
            let mut random = Random::new(seed);
            let text: Vec<u8> = (0..150).map(|_| b'a' + random.below(LETTERS) as u8).collect();
            // Choices depend on the last token alone, so they are the same where splits meet again.
            let model = |written: &[TokenId]| logits(&vocab, written, 1, seed);
            let (plain, _) = write(&mut TokenizationMemory::default(), &vocab, &text, model, 0);
            let (one, forwards) = write(&mut TokenizationMemory::default(), &vocab, &text, model, 40);
            with += forwards;
            let (other, forwards) =
                write_learning(&mut TokenizationMemory::default(), &vocab, &text, model, (40, false));
            without += forwards;
            assert!(one == plain && other == plain);
        }
        assert!(with * 4 <= without * 3, "{with} forwards, {without} without");
    }

    #[test]
    fn only_so_much_is_remembered() {
        let mut splits = TokenizationMemory::default();
        for key in 0..5 * GENERATION_CAPACITY as u64 {
            splits.put(key, 1);
            assert!(splits.young.len() < GENERATION_CAPACITY && splits.old.len() <= GENERATION_CAPACITY);
            assert_eq!(splits.get(&key), Some(1));
        }
        assert_eq!(splits.get(&0), None);
    }
}
