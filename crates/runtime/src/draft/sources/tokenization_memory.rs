//! Memory of tokenisations: how the target wrote forced text in tokens.
//!
//! A forced run fixes the bytes and leaves the target only the tokenisation, which need not be that
//! of the tokenizer: after `{"na` the target may write `m` and `e`. The target chooses among the
//! tokens that the run begins with, and its choice mostly depends on the tokens before it. So the
//! memory keeps each choice under these tokens and the longest token that the run begins with, and
//! drafts the next run the same way. With the same schema this works from the second output on.
//! Rows after a rejected proposal show how the target would have continued. They cost nothing more,
//! and where text and tokens meet again they are right. This is the iteration of Jacobi decoding
//! (Santilli et al. 2023), with the text known.
//!
//! # Cost
//!
//! A walk along the longest token and three lookups for each proposal. The memory keeps at most
//! twice [`GENERATION_CAPACITY`] entries, a megabyte, and drops the oldest.
//!
//! # Alternatives considered
//!
//! A draft model for this purpose was rejected. It costs calls, and models trained on other
//! tokenisations differ exactly here.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHashMap;

use super::{DraftSource, ForcedKind, ProposalKind};
use crate::draft::proposal::Proposal;
use crate::vocab::{TokenId, Trie, Vocabulary};

/// Number of entries of one generation of the memory.
const GENERATION_CAPACITY: usize = 1 << 14;

/// The tokens chosen, by the tokens before them and the longest token that was possible.
#[derive(Debug, Default)]
pub(crate) struct TokenizationMemory {
    young: FxHashMap<Key, TokenId>,
    /// The previous generation, replaced when the younger one has [`GENERATION_CAPACITY`] entries.
    old: FxHashMap<Key, TokenId>,
}

/// A hash of the longest token that the text continues with, and of the tokens before it. A
/// collision only makes a proposal wrong.
type Key = u64;

/// Numbers of preceding tokens in the keys of a choice. The longer the match, the more certain the
/// choice.
const CONTEXT_LENGTHS: [usize; 3] = [8, 2, 1];

/// Returns the keys of a choice after the tokens of `before`, the most exact one first.
fn keys(before: &[TokenId], longest: TokenId) -> [Key; CONTEXT_LENGTHS.len()] {
    CONTEXT_LENGTHS.map(|reach| {
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

    /// Returns the token chosen after `before` where `longest` was possible, and whether it was in
    /// the same context.
    fn chosen(&self, before: &[TokenId], longest: TokenId) -> Option<(TokenId, ForcedKind)> {
        let kinds = [ForcedKind::Chosen, ForcedKind::ChosenElsewhere, ForcedKind::ChosenElsewhere];
        keys(before, longest).iter().zip(kinds).find_map(|(key, kind)| Some((self.get(key)?, kind)))
    }

    /// Number of tokens before a run that may influence its tokenisation.
    pub(crate) const REACH: usize = CONTEXT_LENGTHS[0];

    /// Returns the text of the proposals in the tokens that the target is likely to write. These
    /// are the tokens that it chose in the same context, or else the proposed ones, or else tokens
    /// up to the end of a proposed one. All are legal where the text is forced.
    pub(crate) fn retokenize(
        &self,
        vocab: &Vocabulary,
        before: &[TokenId],
        run: &[Proposal],
    ) -> Vec<Proposal> {
        if self.young.is_empty() && self.old.is_empty() {
            return run.to_vec();
        }
        let (trie, text) = (vocab.trie(), text(vocab, run));
        let (mut before, mut at) = (before.to_vec(), 0);
        // The first proposed token that begins at `at` or later, and where it begins.
        let (mut next, mut begins) = (0, 0);
        let mut respelled = Vec::with_capacity(run.len());
        while let Some((longest, _)) = trie.longest_prefix(&text[at..]) {
            while begins < at {
                begins += vocab.token_bytes(run[next].token).len();
                next += 1;
            }
            let proposed = run[next.min(run.len() - 1)];
            let fits = |token: TokenId| text[at..].starts_with(vocab.token_bytes(token));
            let proposal = match self.chosen(&before, longest).filter(|chosen| fits(chosen.0)) {
                Some((token, kind)) => Proposal { token, kind: ProposalKind::Forced(kind), ..proposed },
                None if begins == at => run[next],
                None => match trie.longest_prefix(&text[at..begins]) {
                    Some((token, _)) => Proposal { token, ..proposed },
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

    /// Learns the target's choice in place of each of the `drafted` proposals, and after them where
    /// `rest` is forced. `rows` are its logits, one row before each proposal. The target accepted
    /// the first `matched` proposals. `before` holds the last tokens before them.
    pub(crate) fn learn(
        &mut self,
        vocab: &Vocabulary,
        before: &[TokenId],
        drafted: (&[Proposal], &[u8]),
        rows: &[Vec<f32>],
        matched: usize,
    ) {
        let (proposals, rest) = drafted;
        let written: Vec<TokenId> = before.iter().copied().chain(proposals.iter().map(|p| p.token)).collect();
        // Notes the choice in place of proposal `i`, where `text` is forced.
        let mut note = |i: usize, text: &[u8]| {
            let Some(choice) = rows.get(i).and_then(|logits| choice(vocab.trie(), text, logits)) else {
                return;
            };
            for key in keys(&written[..before.len() + i], choice.longest) {
                // After a rejected token the row belongs to a text that was not written, so it is a
                // guess.
                if i <= matched || self.get(&key).is_none() {
                    self.put(key, choice.best);
                }
            }
        };
        let mut at = 0;
        for run in proposals.chunk_by(|a, b| a.source() == b.source()) {
            let first = at;
            at += run.len();
            if run[0].source() != DraftSource::Forced {
                continue;
            }
            let mut text = text(vocab, run);
            text.extend_from_slice(if at == proposals.len() { rest } else { &[] });
            let mut text = &text[..];
            for (i, proposal) in (first..).zip(run) {
                // Known choices that proved right stay unchanged.
                if i >= matched || proposal.kind != ProposalKind::Forced(ForcedKind::Chosen) {
                    note(i, text);
                }
                text = &text[vocab.token_bytes(proposal.token).len()..];
            }
        }
        note(proposals.len(), rest);
    }
}

/// The choice among the tokens that a text begins with.
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

/// Returns the bytes of the tokens.
fn text(vocab: &Vocabulary, run: &[Proposal]) -> Vec<u8> {
    run.iter().flat_map(|p| vocab.token_bytes(p.token)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::super::draft_vocab::tests::vocabulary;
    use super::*;
    use crate::draft::acceptance::ProposalContext;
    use ffwd_testkit::random::Random;
    use proptest::prelude::*;

    const LETTERS: usize = 4;

    /// Returns a vocabulary of all words of one to three of four letters.
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
        let kind = ProposalKind::Forced(ForcedKind::First);
        tokens.iter().map(|&token| Proposal { token, kind, context: ProposalContext::FREE }).collect()
    }

    /// Returns the tokenizer's tokenisation: by three letters.
    fn tokenizer(vocab: &Vocabulary, text: &[u8]) -> Vec<Proposal> {
        let token = |piece: &[u8]| vocab.trie().longest_prefix(piece).unwrap().0;
        proposals(&text.chunks(3).map(token).collect::<Vec<_>>())
    }

    /// Returns the logits of a model that depend on the last `reach` tokens.
    fn logits(vocab: &Vocabulary, written: &[TokenId], reach: usize, seed: u64) -> Vec<f32> {
        let behind = &written[written.len().saturating_sub(reach)..];
        let logit = |token: usize| {
            let mut hasher = rustc_hash::FxHasher::default();
            (seed, behind, token).hash(&mut hasher);
            (hasher.finish() >> 40) as f32
        };
        (0..vocab.len()).map(logit).collect()
    }

    /// Writes a forced text by drafting and verifying. Returns the tokens and the number of
    /// forwards.
    fn write(
        splits: &mut TokenizationMemory,
        vocab: &Vocabulary,
        text: &[u8],
        model: impl Fn(&[TokenId]) -> Vec<f32>,
        draft: usize,
    ) -> (Vec<TokenId>, usize) {
        write_learning(splits, vocab, text, model, (draft, true))
    }

    /// The same, with or without learning from rows after rejected tokens.
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
            // Each forward gives its draft and one token more.
            prop_assert_eq!(few, plain.len().div_ceil(draft + 1));
        }

        /// Whatever the memory holds, the text stays the same.
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
                    splits.put(keys(&[one], longest)[CONTEXT_LENGTHS.len() - 1], token);
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
            // Choices depend on the last token alone, so they are the same where tokenisations meet
            // again.
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
