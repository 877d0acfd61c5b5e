//! The exponential function in single precision, used by the model runner and by the sampler.
//!
//! Its operations work on whole vectors of numbers, so the compiler can vectorise it.

/// Returns e^x with a relative error below 3e-7, in operations that the compiler can run on whole
/// vectors (the library call cannot). Underflows to 0 below -87.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    use exp_parts::{BIAS, LN2_HIGH, LN2_LOW, LOG2_E, ROUND, TERMS};
    let clamped = x.clamp(-87.0, 88.0);
    // Adding and subtracting 1.5 * 2^23 rounds to the nearest integer without a library call.
    let shifted = clamped * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (clamped - n * LN2_HIGH) - n * LN2_LOW;
    let mut p = TERMS[0];
    for term in &TERMS[1..] {
        p = p * r + term;
    }
    let p = p * r * r + r + 1.0;
    // The low bits of the shifted number are n, so no conversion (with its checks) is needed.
    let power = f32::from_bits(shifted.to_bits().wrapping_add(BIAS.cast_unsigned()) << 23);
    if x < -87.0 { 0.0 } else { p * power }
}

/// The constants of [`exp`], for code that repeats it with vector instructions.
pub(crate) mod exp_parts {
    pub(crate) const LOG2_E: f32 = std::f32::consts::LOG2_E;
    /// ln 2 in two parts. The first has few bits, so its product with n is exact.
    pub(crate) const LN2_HIGH: f32 = 0.693_359_4;
    pub(crate) const LN2_LOW: f32 = -2.121_944_4e-4;
    /// 1.5 * 2^23.
    pub(crate) const ROUND: f32 = 12_582_912.0;
    /// Converts the bits of n + [`ROUND`] to the exponent bits of 2^n, before the shift.
    pub(crate) const BIAS: i32 = 127i32.wrapping_sub(ROUND.to_bits().cast_signed());
    /// Taylor terms from r^7 to r^2. Since |r| <= 0.35, the remainder is below half a unit in the
    /// last place.
    pub(crate) const TERMS: [f32; 6] = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_accurate() {
        for i in -9000..=1000 {
            let x = i as f32 * 0.01;
            let want = f64::from(x).exp();
            let got = f64::from(exp(x));
            if x >= -87.0 {
                assert!((got / want - 1.0).abs() < 3e-7, "exp({x}) = {got}, not {want}");
            } else {
                assert_eq!(got, 0.0);
            }
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
    }
}
