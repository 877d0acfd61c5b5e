//! Convolutions over the last positions, each channel on its own.
//!
//! # Cost
//!
//! A multiply-add for each channel and position that is read.

use super::simd16::{LANES16, Simd16, Simd16Work, run};

/// The weights of a convolution, `[position][channel]`, the earliest position first.
#[derive(Clone)]
pub(crate) struct Filter {
    weights: Vec<f32>,
    channels: usize,
}

impl Filter {
    /// Takes weights of the form `[channel][position]`.
    pub(crate) fn new(weights: &[f32], channels: usize) -> Self {
        let taps = weights.len() / channels.max(1);
        let turned = (0..taps).flat_map(|tap| (0..channels).map(move |c| weights[c * taps + tap]));
        Filter { weights: turned.collect(), channels }
    }

    /// Computes the output of the last of some positions. The rows of positions may be wider than the
    /// channels, which come first.
    pub(crate) fn apply(&self, rows: &[f32], out: &mut [f32]) {
        let taps = self.weights.len() / self.channels;
        run(Convolve { weights: &self.weights, rows, stride: rows.len() / taps, out });
    }
}

struct Convolve<'a> {
    weights: &'a [f32],
    rows: &'a [f32],
    stride: usize,
    out: &'a mut [f32],
}

impl Simd16Work for Convolve<'_> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        let channels = self.out.len();
        let taps = self.weights.len() / channels;
        assert!(channels <= self.stride && self.rows.len() >= taps * self.stride);
        for at in (0..channels).step_by(LANES16) {
            let n = LANES16.min(channels - at);
            // SAFETY: n elements of each row; and by the caller's promise.
            unsafe {
                let mut sum = V::splat(0.0);
                for tap in 0..taps {
                    let weight = V::load_part(self.weights.as_ptr().add(tap * channels + at), n, 0.0);
                    let x = V::load_part(self.rows.as_ptr().add(tap * self.stride + at), n, 0.0);
                    sum = sum.add(x.mul(weight));
                }
                sum.store_part(self.out.as_mut_ptr().add(at), n);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;

    #[test]
    fn a_filter_is_a_sum_over_positions() {
        for (channels, taps, more) in [(1, 1, 0), (16, 3, 0), (37, 4, 5)] {
            let (weights, stride) = (noise(channels * taps, 3), channels + more);
            let rows = noise(taps * stride, 5);
            let mut out = vec![0.0; channels];
            Filter::new(&weights, channels).apply(&rows, &mut out);
            for (c, got) in out.iter().enumerate() {
                let want: f32 = (0..taps).map(|t| weights[c * taps + t] * rows[t * stride + c]).sum();
                assert!((got - want).abs() < 1e-6, "{channels}, {c}: {got} {want}");
            }
        }
    }
}
