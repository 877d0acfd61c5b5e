//! Gated delta nets: each head has a matrix that maps keys to values. A position lets it fade, replaces
//! the value under its key by its own in part, and reads the value under its query.
//!
//! Positions are taken one by one, in single precision, each in the same order of operations. So the bits
//! of a position do not depend on the forward that it is in.
//!
//! # Cost
//!
//! A position reads and writes the matrices twice.
//!
//! # Alternatives considered
//!
//! The form by chunks, which turns the positions of a prompt into matrix products, was rejected: its
//! rounding depends on where a chunk begins.

use super::activation::gated;
use super::filter::Filter;
use super::residual::{rms_norm_heads, squares};
use super::simd16::{LANES16, Simd16, Simd16Work, run};
use crate::exp::exp;
use crate::model::config::{Activation, DeltaShape};

/// Added to the sum of squares of a query or a key.
const EPS: f32 = 1e-6;
/// Argument from which `ln(1 + exp(x))` is `x`.
const LINEAR: f32 = 20.0;

/// The weights of a gated delta net, except its products.
#[derive(Clone)]
pub(crate) struct DeltaNet {
    pub shape: DeltaShape,
    pub filter: Filter,
    /// Added to the strength of forgetting of each head.
    pub bias: Vec<f32>,
    /// Multiplies what is forgotten; negative.
    pub rate: Vec<f32>,
    /// Of the output of a head.
    pub norm: Vec<f32>,
    pub eps: f32,
    /// True if value heads take the key heads in turns; otherwise neighbours share a key head.
    pub in_turns: bool,
}

impl DeltaNet {
    /// Moves the state, `[head][key element][value element]`, over a position, and computes what it
    /// reads. `rows` are the inputs of the positions that the filter reads: queries, keys, values, and
    /// for each head the strengths of writing and of forgetting.
    pub(crate) fn step(&self, rows: &[f32], state: &mut [f32], scratch: &mut Vec<f32>, out: &mut [f32]) {
        let d = &self.shape;
        scratch.resize(2 * d.mixed(), 0.0);
        let (filtered, active) = scratch.split_at_mut(d.mixed());
        self.filter.apply(rows, filtered);
        active.iter_mut().zip(&*filtered).for_each(|(a, x)| *a = x / (1.0 + exp(-x)));
        let (queries, rest) = active.split_at_mut(d.key());
        let (keys, values) = rest.split_at_mut(d.key());
        let unit = |x: &mut [f32], factor: f32| {
            let scale = factor / (squares(x) + EPS).sqrt();
            x.iter_mut().for_each(|x| *x *= scale);
        };
        queries.chunks_exact_mut(d.key_dim).for_each(|q| unit(q, 1.0 / (d.key_dim as f32).sqrt()));
        keys.chunks_exact_mut(d.key_dim).for_each(|k| unit(k, 1.0));
        let strengths = &rows[rows.len() - 2 * d.value_heads..];
        let heads = state.chunks_exact_mut(d.key_dim * d.value_dim).zip(out.chunks_exact_mut(d.value_dim));
        for (head, (state, out)) in heads.enumerate() {
            let key_head = match self.in_turns {
                true => head % d.key_heads,
                false => head * d.key_heads / d.value_heads,
            };
            let of_key = key_head * d.key_dim..(key_head + 1) * d.key_dim;
            let forget = strengths[d.value_heads + head] + self.bias[head];
            let softplus = if forget > LINEAR { forget } else { exp(forget).ln_1p() };
            run(Head {
                query: &queries[of_key.clone()],
                key: &keys[of_key],
                value: &mut values[head * d.value_dim..(head + 1) * d.value_dim],
                keep: exp(self.rate[head] * softplus),
                write: 1.0 / (1.0 + exp(-strengths[head])),
                state,
                out,
            });
        }
    }

    /// Norms the output of each head of a row, and multiplies it by its gate.
    pub(crate) fn gate(&self, gate: &[f32], row: &mut [f32], scratch: &mut Vec<f32>) {
        rms_norm_heads(row, &self.norm, self.eps);
        scratch.clear();
        scratch.extend_from_slice(gate);
        scratch.extend_from_slice(row);
        gated(Activation::Silu, scratch, row.len(), row);
    }
}

struct Head<'a> {
    query: &'a [f32],
    key: &'a [f32],
    /// Becomes what is added under the key.
    value: &'a mut [f32],
    /// The part of the state that stays, and the part of the value that is written.
    keep: f32,
    write: f32,
    state: &'a mut [f32],
    out: &'a mut [f32],
}

impl Simd16Work for Head<'_> {
    #[inline(always)]
    unsafe fn with<V: Simd16>(self) {
        let width = self.out.len();
        assert!(self.value.len() == width && self.state.len() == width * self.key.len());
        assert_eq!(self.query.len(), self.key.len());
        for at in (0..width).step_by(LANES16) {
            let n = LANES16.min(width - at);
            // SAFETY: n elements of each row; and by the caller's promise.
            unsafe {
                let keep = V::splat(self.keep);
                let mut known = V::splat(0.0);
                for (i, key) in self.key.iter().enumerate() {
                    let row = V::load_part(self.state.as_ptr().add(i * width + at), n, 0.0);
                    known = known.add(row.mul(keep).mul(V::splat(*key)));
                }
                let value = V::load_part(self.value.as_ptr().add(at), n, 0.0);
                let change = value.add(known.mul(V::splat(-1.0))).mul(V::splat(self.write));
                let mut read = V::splat(0.0);
                for (i, (key, query)) in self.key.iter().zip(self.query).enumerate() {
                    let place = self.state.as_mut_ptr().add(i * width + at);
                    let row = V::load_part(place, n, 0.0).mul(keep).add(change.mul(V::splat(*key)));
                    row.store_part(place, n);
                    read = read.add(row.mul(V::splat(*query)));
                }
                read.store_part(self.out.as_mut_ptr().add(at), n);
            }
        }
    }
}

/// Multiplies the output of attention by the logistic function of its gate.
pub(crate) fn gate_attention(gate: &[f32], out: &mut [f32]) {
    out.iter_mut().zip(gate).for_each(|(x, g)| *x /= 1.0 + exp(-g));
}
