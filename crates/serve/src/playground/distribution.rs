//! Probabilities of the tokens at one position, before and after the mask.
//!
//! # Cost
//! A pass over the logits. Ranking sorts the vocabulary, once for a click.
//!
//! # Alternatives considered
//! Using [`Sampler`](ffwd_runtime::sample::Sampler) was rejected: it never computes probabilities of illegal
//! tokens, which are what the page shows.

use ffwd_runtime::vocab::TokenId;

/// The probabilities of one position.
pub(super) struct Distribution {
    /// Of all tokens, as the model gives them.
    pub raw: Vec<f64>,
    /// Of the legal tokens among themselves; 0 for the others, and for all if none is legal.
    pub masked: Vec<f64>,
    /// True for each legal token.
    pub legal: Vec<bool>,
}

impl Distribution {
    /// Computes both from logits, the packed mask row and a temperature above 0.
    pub(super) fn of(logits: &[f32], row: &[u32], temperature: f64) -> Self {
        let is_legal = |id: usize| row.get(id / 32).is_some_and(|word| word >> (id % 32) & 1 == 1);
        let legal: Vec<bool> = (0..logits.len()).map(is_legal).collect();
        Distribution {
            raw: softmax(logits, temperature, |_| true),
            masked: softmax(logits, temperature, |id| legal[id]),
            legal,
        }
    }

    /// Returns the share of the model's probability that the mask rejects.
    pub(super) fn rejected(&self) -> f64 {
        let pairs = self.raw.iter().zip(&self.legal);
        pairs.map(|(p, legal)| if *legal { 0.0 } else { *p }).sum()
    }

    /// Returns the number of legal tokens.
    pub(super) fn legal_count(&self) -> usize {
        self.legal.iter().filter(|legal| **legal).count()
    }
}

/// Returns the probabilities of those tokens that count.
fn softmax(logits: &[f32], temperature: f64, counts: impl Fn(usize) -> bool) -> Vec<f64> {
    let of = |id: usize| if counts(id) { f64::from(logits[id]) / temperature } else { f64::NEG_INFINITY };
    let most = (0..logits.len()).map(of).fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return vec![0.0; logits.len()];
    }
    let weights: Vec<f64> = (0..logits.len()).map(|id| (of(id) - most).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// Returns the tokens with a probability above 0, the most probable first.
pub(super) fn ranked(probabilities: &[f64]) -> Vec<TokenId> {
    let mut ids: Vec<TokenId> =
        (0..probabilities.len() as TokenId).filter(|id| probabilities[*id as usize] > 0.0).collect();
    let order = |a: &TokenId, b: &TokenId| {
        probabilities[*b as usize].total_cmp(&probabilities[*a as usize]).then(a.cmp(b))
    };
    ids.sort_unstable_by(order);
    ids
}

/// Returns the fewest of the ranked tokens whose probabilities add up to `share`.
pub(super) fn nucleus<'a>(ranked: &'a [TokenId], probabilities: &[f64], share: f64) -> &'a [TokenId] {
    let mut sum = 0.0;
    let kept = ranked.iter().take_while(|id| {
        let takes = sum < share;
        sum += probabilities[**id as usize];
        takes
    });
    &ranked[..kept.count()]
}
