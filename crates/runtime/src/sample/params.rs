//! Sampling parameters and the check of their ranges.
//!
//! Checking costs next to nothing.
//!
//! # Alternatives considered
//!
//! Clamping values into range was rejected: a mistaken temperature must be an error that the user
//! sees.

use crate::error::{Error, ErrorKind, Result};
use crate::vocab::TokenId;

/// The rules for choosing among the legal tokens. The default is greedy: the most probable token.
///
/// ```
/// use ffwd::sample::SamplingParams;
///
/// let params = SamplingParams { temperature: 0.7, top_p: 0.9, seed: 11, ..SamplingParams::default() };
/// ```
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingParams {
    /// Divides the logits; 0 takes the most probable token.
    pub temperature: f32,
    /// Keeps only the N most probable tokens.
    pub top_k: Option<usize>,
    /// Keeps the fewest most probable tokens whose probabilities together reach this value; 1 keeps
    /// all.
    pub top_p: f32,
    /// Keeps tokens with at least this fraction of the highest probability; 0 keeps all.
    pub min_p: f32,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Divides positive and multiplies negative logits of tokens already present in the prompt or
    /// the output; 1 does nothing.
    pub repetition_penalty: f32,
    /// Subtracted from the logit of every token already present.
    pub presence_penalty: f32,
    /// Subtracted from a token's logit once for each of its occurrences.
    pub frequency_penalty: f32,
    /// Added to the logits of these tokens; negative infinity forbids a token.
    pub logit_bias: Vec<(TokenId, f32)>,
}

impl Default for SamplingParams {
    fn default() -> Self {
        SamplingParams {
            temperature: 0.0,
            top_k: None,
            top_p: 1.0,
            min_p: 0.0,
            seed: 0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
        }
    }
}

impl SamplingParams {
    /// Returns true if the choice is always the most probable token, whatever the seed.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0 || self.top_k == Some(1)
    }

    /// Checks the ranges of all parameters.
    ///
    /// # Errors
    /// Returns an error if a value is outside its range.
    pub(super) fn check(&self) -> Result<()> {
        let check = |name: &str, value: f32, ok: bool, hint: &str| match ok {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::InvalidOption, format!("{name} is {value}")).hint(hint)),
        };
        let t = self.temperature;
        check("temperature", t, t.is_finite() && t >= 0.0, "use a number from 0 (greedy) up, such as 0.7")?;
        check(
            "top_p",
            self.top_p,
            self.top_p > 0.0 && self.top_p <= 1.0,
            "use a number above 0, up to 1 (keeps all)",
        )?;
        check(
            "min_p",
            self.min_p,
            (0.0..=1.0).contains(&self.min_p),
            "use a number from 0 (keeps all) to 1",
        )?;
        if self.top_k == Some(0) {
            return Err(Error::new(ErrorKind::InvalidOption, "top_k is 0")
                .hint("use a number from 1 (greedy) up, or leave it out to keep all"));
        }
        let r = self.repetition_penalty;
        check("repetition_penalty", r, r.is_finite() && r > 0.0, "use a number above 0; 1 does nothing")?;
        for (name, v) in
            [("presence_penalty", self.presence_penalty), ("frequency_penalty", self.frequency_penalty)]
        {
            check(name, v, v.is_finite(), "use a number; 0 does nothing")?;
        }
        match self.logit_bias.iter().find(|(_, b)| b.is_nan() || *b == f32::INFINITY) {
            Some((token, b)) => {
                Err(Error::new(ErrorKind::InvalidOption, format!("the bias of token {token} is {b}"))
                    .hint("use a number, or negative infinity to forbid the token"))
            }
            None => Ok(()),
        }
    }
}
