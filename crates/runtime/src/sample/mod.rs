//! Sampler: chooses a token from a row of logits by penalties, mask, temperature and truncation.
//!
//! The order is fixed: penalties and bias, the mask, temperature, top-k, top-p and min-p. Then the
//! sampler renormalises and draws once. The uniform number of a position is a function of seed and
//! position only. So a generation that verifies drafts draws the same numbers as one that runs
//! token by token.
//!
//! # Cost
//!
//! Greedy choice costs one pass over the logits. Sampling adds a pass for the exponentials and a
//! partial selection for top-k. Only top-p sorts, and only the candidates that top-k and min-p
//! leave.
//!
//! # Alternatives considered
//!
//! Truncating before the mask was rejected: truncation could remove every legal token.

mod log_probabilities;
mod params;
mod top_tokens;

use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};
use rustc_hash::FxHashMap;

pub use params::SamplingParams;

use crate::error::{Error, ErrorKind, Result};
use crate::exp::exp;
use crate::model::{COMPARED_AT_ONCE, next_group_above};
use crate::vocab::TokenId;

/// Chooses tokens by fixed parameters. Holds no state of a generation.
#[derive(Debug, Clone)]
pub struct Sampler {
    params: SamplingParams,
    reports: bool,
    /// Number of the model's most probable tokens that are reported.
    top: usize,
}

/// A chosen token.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// The token.
    pub token: TokenId,
    /// Its log-probability after penalties, bias and mask, before temperature and truncation.
    pub logprob: f32,
    /// What else is known of it. Present only with [`Sampler::with_logprobs`].
    pub report: Option<TokenLogprob>,
}

/// Log-probabilities of a token.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct TokenLogprob {
    /// The model's own, before penalties, bias and mask.
    pub raw: f32,
    /// Among the legal tokens, after penalties, bias and mask, before temperature and truncation.
    pub masked: f32,
    /// Share of the probability on legal tokens, after penalties and bias: 1 if the constraint
    /// excluded nothing probable, near 0 if the model preferred other tokens.
    pub legal_mass: f32,
    /// The probability of the token less that of the most probable other legal token, on the scale
    /// of `masked`: 1 if no other token is legal, negative if another one is more probable.
    pub margin: f32,
    /// The model's most probable tokens, legal or not, on the scale of `raw`, best first; as many as
    /// [`Sampler::with_top_logprobs`] asks for.
    #[serde(skip)]
    pub top: Vec<(TokenId, f32)>,
}

/// A token that may still be chosen.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    token: TokenId,
    logit: f32,
}

/// Number of candidates that top-p sorts at first; it grows eightfold each time that is too few.
const FIRST_SORTED: usize = 256;

impl Sampler {
    /// Returns a sampler after checking the parameters.
    ///
    /// # Errors
    /// Returns [`InvalidOption`](ErrorKind::InvalidOption) if a parameter is out of its range.
    pub fn new(params: SamplingParams) -> Result<Self> {
        params.check()?;
        Ok(Sampler { params, reports: false, top: 0 })
    }

    /// Also reports the model's own log-probability, the margin, and the share of the probability that
    /// the mask leaves. Costs a copy of the logits, two exponentials per token, and a pass over the
    /// legal logits.
    pub fn with_logprobs(mut self) -> Self {
        self.reports = true;
        self
    }

    /// Also reports the `most` most probable tokens of the model. Costs what
    /// [`with_logprobs`](Self::with_logprobs) costs, and a partial selection.
    pub fn with_top_logprobs(mut self, most: usize) -> Self {
        self.top = most;
        self.with_logprobs()
    }

    /// Returns the parameters.
    pub fn params(&self) -> &SamplingParams {
        &self.params
    }

    /// Chooses the token for `position`, the number of tokens generated before it.
    ///
    /// `logits` has one number per token. `mask` has a bit for each legal token, bit t % 32 of word
    /// t / 32; without a mask every token is legal. `history` holds the tokens that penalties
    /// count. The logits are changed in place.
    ///
    /// # Errors
    /// Returns an error if a legal logit is NaN or positive infinity, if no token is legal, or if
    /// every legal logit is negative infinity.
    pub fn sample(
        &self,
        logits: &mut [f32],
        mask: Option<&[u32]>,
        position: u64,
        history: &[TokenId],
    ) -> Result<Sampled> {
        let raw = self.reports.then(|| logits.to_vec());
        let (best, chosen) = self.pick(logits, mask, position, history)?;
        Ok(self.describe(logits, mask, (best, chosen), raw))
    }

    /// Returns the values that [`sample`](Self::sample) reports for a legal token, if it is chosen
    /// in another way.
    ///
    /// # Errors
    /// Returns the errors of [`sample`](Self::sample).
    pub(crate) fn report(
        &self,
        logits: &mut [f32],
        mask: Option<&[u32]>,
        history: &[TokenId],
        token: TokenId,
    ) -> Result<Sampled> {
        let raw = self.reports.then(|| logits.to_vec());
        self.adjust(logits, history)?;
        let chosen = Candidate { token, logit: logits[token as usize] };
        Ok(self.describe(logits, mask, (best(logits, mask)?, chosen), raw))
    }

    fn describe(
        &self,
        logits: &[f32],
        mask: Option<&[u32]>,
        (best, chosen): (Candidate, Candidate),
        raw: Option<Vec<f32>>,
    ) -> Sampled {
        let total = log_sum(logits, mask, best.logit);
        let masked = chosen.logit - best.logit - total;
        let report = raw.map(|raw| TokenLogprob {
            raw: log_softmax(&raw, chosen.token as usize),
            top: top_tokens::most_probable(&raw, self.top),
            masked,
            legal_mass: legal_mass(logits, best.logit, total),
            margin: log_probabilities::margin(logits, mask, (best, chosen), total),
        });
        Sampled { token: chosen.token, logprob: masked, report }
    }

    /// Returns the token that [`sample`](Self::sample) chooses, without its log-probability. This
    /// saves an exponential for each legal token.
    ///
    /// # Errors
    /// Returns the errors of [`sample`](Self::sample).
    pub fn choose(
        &self,
        logits: &mut [f32],
        mask: Option<&[u32]>,
        position: u64,
        history: &[TokenId],
    ) -> Result<TokenId> {
        self.pick(logits, mask, position, history).map(|(_, chosen)| chosen.token)
    }

    /// Returns true if values beyond the chosen token's log-probability are reported.
    pub(crate) fn reports(&self) -> bool {
        self.reports
    }

    /// Returns the most probable legal token after penalties and bias, and the chosen token.
    fn pick(
        &self,
        logits: &mut [f32],
        mask: Option<&[u32]>,
        position: u64,
        history: &[TokenId],
    ) -> Result<(Candidate, Candidate)> {
        self.adjust(logits, history)?;
        let best = best(logits, mask)?;
        let chosen = match self.params.temperature {
            0.0 => best,
            _ if self.params.top_k == Some(1) => best,
            _ => self.draw(logits, mask, best, position),
        };
        Ok((best, chosen))
    }

    /// Applies penalties and bias.
    fn adjust(&self, logits: &mut [f32], history: &[TokenId]) -> Result<()> {
        let p = &self.params;
        if p.repetition_penalty != 1.0 || p.presence_penalty != 0.0 || p.frequency_penalty != 0.0 {
            let mut counts: FxHashMap<TokenId, u32> = FxHashMap::default();
            for t in history {
                *counts.entry(*t).or_default() += 1;
            }
            for (token, count) in counts {
                // Ignores tokens beyond the logits: they are a mistake of the caller, but no reason
                // for a panic.
                let Some(logit) = logits.get_mut(token as usize) else { continue };
                *logit =
                    if *logit > 0.0 { *logit / p.repetition_penalty } else { *logit * p.repetition_penalty };
                *logit -= p.presence_penalty + p.frequency_penalty * count as f32;
            }
        }
        for (token, bias) in &p.logit_bias {
            let size = logits.len();
            let logit = logits.get_mut(*token as usize).ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidOption,
                    format!("the bias names token {token}, the model has {size}"),
                )
            })?;
            *logit += bias;
        }
        Ok(())
    }

    /// Draws once after temperature and truncation. Candidates are in the order of their ids, or of
    /// their probabilities where top-p sorted them. Either order is the same for the same logits.
    fn draw(&self, logits: &[f32], mask: Option<&[u32]>, best: Candidate, position: u64) -> Candidate {
        let p = &self.params;
        // The probabilities after temperature are exp((logit - best) / t) / sum. Below this logit a
        // probability is too small to change the sum in single precision.
        let floor = best.logit - 90.0 * p.temperature;
        // A candidate keeps min_p of the best one's probability after temperature.
        let floor = match p.min_p {
            0.0 => floor,
            min_p => floor.max(best.logit + p.temperature * min_p.ln()),
        };
        let mut candidates: Vec<Candidate> = Vec::new();
        for_legal(logits, mask, |token, logit| {
            if logit >= floor {
                candidates.push(Candidate { token, logit });
            }
        });
        if let Some(k) = p.top_k
            && k < candidates.len()
        {
            candidates.select_nth_unstable_by(k - 1, order);
            candidates.truncate(k);
            candidates.sort_unstable_by_key(|c| c.token);
        }
        // At most 1; the best candidate has 1.
        let weight = |c: &Candidate| f64::from(exp((c.logit - best.logit) / p.temperature));
        let mut sum: f64 = candidates.iter().map(weight).sum();
        if p.top_p < 1.0 {
            sum = keep_share(&mut candidates, f64::from(p.top_p) * sum, weight);
        }
        let mut left = uniform(p.seed, position) * sum;
        for c in &candidates {
            left -= weight(c);
            if left < 0.0 {
                return *c;
            }
        }
        // Rounding may leave a remainder, which goes to the last candidate.
        candidates.last().copied().unwrap_or(best)
    }
}

/// Returns the most probable legal token, and the lead of its logit over the next one's. The lead is
/// infinite if nothing else is legal. One pass over the logits.
///
/// # Errors
/// Returns the errors of [`Sampler::sample`].
pub(crate) fn leading(logits: &[f32], mask: &[u32]) -> Result<(TokenId, f32)> {
    let mut second: Option<Candidate> = None;
    let mut first: Option<Candidate> = None;
    let found = search(logits, Some(mask), |candidate| {
        if first.is_none_or(|first| candidate.logit > first.logit) {
            second = first.replace(candidate);
        } else if second.is_none_or(|second| candidate.logit > second.logit) {
            second = Some(candidate);
        }
        second.map_or(f32::NEG_INFINITY, |second| second.logit)
    });
    found?;
    // A token with a logit of negative infinity is impossible, so it is no choice.
    let possible = |candidate: &Candidate| candidate.logit > f32::NEG_INFINITY;
    let first = first.filter(possible).ok_or_else(|| none_legal(Some(mask)))?;
    let second = second.filter(possible);
    let lead = first.logit - second.map_or(f32::NEG_INFINITY, |second| second.logit);
    Ok((first.token, lead))
}

/// Orders candidates by falling probability, then by rising id. The order is total, so every
/// selection is reproducible.
fn order(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token))
}

/// Keeps the fewest most probable candidates whose weights reach `wanted`, sorted, and returns the
/// sum of their weights. Sorts only as many as needed: usually a few candidates hold the share.
fn keep_share(candidates: &mut Vec<Candidate>, wanted: f64, weight: impl Fn(&Candidate) -> f64) -> f64 {
    let mut sum = 0.0;
    let (mut sorted, mut size) = (0, FIRST_SORTED);
    while sorted < candidates.len() {
        let rest = &mut candidates[sorted..];
        let n = size.min(rest.len());
        if n < rest.len() {
            rest.select_nth_unstable_by(n - 1, order);
        }
        rest[..n].sort_unstable_by(order);
        for (i, c) in rest[..n].iter().enumerate() {
            sum += weight(c);
            // The candidate that reaches the share is kept, so at least one is.
            if sum >= wanted {
                candidates.truncate(sorted + i + 1);
                return sum;
            }
        }
        sorted += n;
        size *= 8;
    }
    sum
}

/// Returns the number in [0, 1) of a position: 53 bits of the ChaCha stream that seed and position
/// select.
fn uniform(seed: u64, position: u64) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(position);
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Calls `f` with the first id, the logits and the legal bits of each group of up to 32 tokens that
/// has a legal token. Bits beyond the logits have no meaning and are cleared.
fn for_groups(logits: &[f32], mask: Option<&[u32]>, mut f: impl FnMut(usize, &[f32], u32)) {
    for (i, group) in logits.chunks(32).enumerate() {
        let word = mask.map_or(u32::MAX, |m| m.get(i).copied().unwrap_or(0));
        let word = word & (u32::MAX >> (32 - group.len()));
        if word != 0 {
            f(i * 32, group, word);
        }
    }
}

/// Calls `f` with each legal token and its logit, in the order of ids.
fn for_legal(logits: &[f32], mask: Option<&[u32]>, mut f: impl FnMut(TokenId, f32)) {
    for_groups(logits, mask, |first, group, mut word| {
        while word != 0 {
            let i = word.trailing_zeros() as usize;
            word &= word - 1;
            f((first + i) as TokenId, group[i]);
        }
    });
}

/// Returns the most probable legal token, the lowest id among equals.
fn best(logits: &[f32], mask: Option<&[u32]>) -> Result<Candidate> {
    let mut best: Option<Candidate> = None;
    search(logits, mask, |candidate| {
        let top = best.filter(|best| candidate.logit <= best.logit).unwrap_or(candidate);
        best = Some(top);
        top.logit
    })?;
    best.filter(|best| best.logit > f32::NEG_INFINITY).ok_or_else(|| none_legal(mask))
}

/// Calls `see` with the legal tokens of the groups that may hold the largest logit. A group
/// qualifies if one of its logits is above the last value that `see` returned, at first negative
/// infinity.
///
/// # Errors
/// Returns an error if a logit among these is NaN or positive infinity.
fn search(logits: &[f32], mask: Option<&[u32]>, mut see: impl FnMut(Candidate) -> f32) -> Result<()> {
    let (mut at, mut above) = (0, f32::NEG_INFINITY);
    while let Some(group) = next_group_above(logits, mask, at, above) {
        at = group + 1;
        let mut bad = None;
        let first = group * COMPARED_AT_ONCE;
        let end = logits.len().min(first + COMPARED_AT_ONCE);
        let mask = mask.map(|mask| &mask[group..=group]);
        for_legal(&logits[first..end], mask, |token, logit| {
            let candidate = Candidate { token: first as TokenId + token, logit };
            above = see(candidate);
            if logit.is_nan() || logit == f32::INFINITY {
                bad = Some(candidate);
            }
        });
        if let Some(c) = bad {
            let message = format!("the logit of token {} is {}", c.token, c.logit);
            return Err(Error::new(ErrorKind::Model, message)
                .hint("the model's weights are damaged, or a bias or penalty is too large"));
        }
    }
    Ok(())
}

/// Returns the error that explains why there is no most probable token.
fn none_legal(mask: Option<&[u32]>) -> Error {
    let empty = mask.is_some_and(|mask| mask.iter().all(|word| *word == 0));
    let why = if empty { "the mask is empty" } else { "all legal logits are negative infinity" };
    Error::new(ErrorKind::IllegalToken, format!("no legal token: {why}"))
}

/// Returns ln of the sum over legal tokens of e^(logit - best).
fn log_sum(logits: &[f32], mask: Option<&[u32]>, best: f32) -> f32 {
    let mut sum = 0f64;
    for_groups(logits, mask, |_, group, mut word| {
        if word == u32::MAX {
            // Summing 32 numbers in single precision loses nothing that a log-probability would
            // show.
            let mut lanes = [0f32; 8];
            for eight in group.chunks_exact(8) {
                for (lane, l) in lanes.iter_mut().zip(eight) {
                    *lane += exp(l - best);
                }
            }
            sum += f64::from(lanes.iter().sum::<f32>());
            return;
        }
        while word != 0 {
            sum += f64::from(exp(group[word.trailing_zeros() as usize] - best));
            word &= word - 1;
        }
    });
    sum.ln() as f32
}

/// Returns ln of the share of one token in the sum of e^logit over all tokens with a finite logit.
fn log_softmax(logits: &[f32], token: usize) -> f32 {
    let finite = || logits.iter().copied().filter(|l| l.is_finite());
    let max = finite().fold(f32::NEG_INFINITY, f32::max);
    let all: f64 = finite().map(|l| f64::from(exp(l - max))).sum();
    (f64::from(logits[token]) - f64::from(max) - all.ln()) as f32
}

/// Returns e^(best + total) divided by the sum of e^logit over all tokens whose logit is not NaN.
fn legal_mass(logits: &[f32], best: f32, total: f32) -> f32 {
    let finite = logits.iter().filter(|l| !l.is_nan());
    let max = finite.clone().fold(best, |a, b| if *b > a { *b } else { a });
    if max == f32::INFINITY {
        return 0.0;
    }
    let all: f64 = finite.map(|l| f64::from(exp(l - max))).sum();
    // Rounding must not make the share exceed 1.
    (f64::from(best - max + total) - all.ln()).exp().min(1.0) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed gives the same text in every version: the numbers of the generator are pinned.
    #[test]
    fn numbers_of_a_seed_do_not_change() {
        let share = |bits: u64| (bits >> 11) as f64 / (1u64 << 53) as f64;
        assert_eq!(uniform(7, 0), share(0x2865_5334_23d7_43bb));
        assert_eq!(uniform(7, 3), share(0x2e79_8710_8688_b271));
        assert_eq!(uniform(0, u64::MAX), share(0x2145_1191_3f3d_b695));
    }

    /// Compares with a sort of the legal logits. Rows are longer than a group, and few different
    /// values make ties.
    #[test]
    fn the_lead_is_that_of_a_sort() {
        let mut state = 7u32;
        let mut random = |n: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % n
        };
        let (mut ties, mut single) = (0, 0);
        for _ in 0..300 {
            let n = 1 + random(200) as usize;
            let logits: Vec<f32> = (0..n).map(|_| random(40) as f32 - 20.0).collect();
            let chance = 1 + random(20);
            let mut mask = vec![0u32; n.div_ceil(32)];
            mask[0] = 1;
            (0..n).filter(|_| random(chance) == 0).for_each(|i| mask[i / 32] |= 1 << (i % 32));
            let mut legal: Vec<(f32, TokenId)> = (0..n)
                .filter(|i| mask[i / 32] >> (i % 32) & 1 == 1)
                .map(|i| (-logits[i], i as TokenId))
                .collect();
            legal.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let second = legal.get(1).map_or(f32::INFINITY, |s| s.0 - legal[0].0);
            assert_eq!(leading(&logits, &mask).unwrap(), (legal[0].1, second));
            let found = best(&logits, Some(&mask)).unwrap();
            assert_eq!((found.token, found.logit), (legal[0].1, -legal[0].0));
            ties += usize::from(second == 0.0);
            single += usize::from(legal.len() == 1);
        }
        assert!(ties > 5 && single > 5, "{ties} {single}");
    }

    #[test]
    fn what_is_impossible_or_no_number_is_not_chosen() {
        let (never, row) = (f32::NEG_INFINITY, |legal: &[usize]| {
            let mut mask = [0u32; 3];
            legal.iter().for_each(|i| mask[i / 32] |= 1 << (i % 32));
            mask
        });
        let mut logits = vec![1.0; 70];
        [5, 40, 69].iter().for_each(|i| logits[*i] = never);
        let of = |logits: &[f32], legal: &[usize]| match best(logits, Some(&row(legal))) {
            Ok(best) => Ok(best.token),
            Err(error) => Err(error.to_string()),
        };
        assert_eq!(of(&logits, &[5, 40, 41]), Ok(41));
        assert_eq!(leading(&logits, &row(&[5, 40, 41])).unwrap(), (41, f32::INFINITY));
        let error = |logits: &[f32], legal: &[usize]| of(logits, legal).unwrap_err();
        assert!(error(&logits, &[5, 40, 69]).contains("negative infinity"));
        assert!(leading(&logits, &row(&[5, 40, 69])).is_err());
        assert!(error(&logits, &[]).contains("empty"));
        for bad in [f32::NAN, f32::INFINITY] {
            for at in [0, 33, 69] {
                let mut logits = logits.clone();
                logits[at] = bad;
                assert!(error(&logits, &[1, 34, at]).contains(&format!("token {at}")));
                assert_eq!(of(&logits, &[1, 34]), Ok(1), "what is not legal does not matter");
                assert!(leading(&logits, &row(&[1, 34, at])).is_err());
            }
        }
    }
}
