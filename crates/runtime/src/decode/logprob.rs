//! Log-probabilities of output tokens.

/// Log-probabilities of a token.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
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
}
