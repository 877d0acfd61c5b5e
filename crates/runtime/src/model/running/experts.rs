//! Mixtures of experts: feed-forwards of which each row uses a few.
//!
//! # Cost
//!
//! The weights of each expert that any row uses are read once for all its rows.
//!
//! # Alternatives considered
//!
//! A product of all experts for all rows was rejected: a row uses a small part of them.

use super::feed_forward::FeedForward;
use super::fused_linear::FusedLinear;
use crate::exp::exp;
use crate::model::config::{Activation, Experts};

/// The rows of one expert, each with its weight.
type Chosen = Vec<Vec<(usize, f32)>>;

/// Computes the outputs of `rows` rows into `out`. Each is added up in the order of the experts.
pub(super) fn mix(
    (router, experts): (&FusedLinear, &[FeedForward<FusedLinear>]),
    (shape, activation): (&Experts, Activation),
    (x, rows): (&[f32], usize),
    out: &mut Vec<f32>,
) {
    let width = x.len() / rows.max(1);
    let mut scores = Vec::new();
    router.forward(x, rows, &mut scores);
    out.clear();
    out.resize(x.len(), 0.0);
    let (mut input, mut gate_up, mut active, mut update) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let chosen = choose(&scores, shape);
    for (expert, chosen) in experts.iter().zip(chosen).filter(|(_, chosen)| !chosen.is_empty()) {
        input.clear();
        chosen.iter().for_each(|(row, _)| input.extend_from_slice(&x[row * width..(row + 1) * width]));
        expert.run(activation, &input, chosen.len(), [&mut gate_up, &mut active, &mut update]);
        for ((row, weight), update) in chosen.iter().zip(update.chunks_exact(width)) {
            let out = &mut out[row * width..(row + 1) * width];
            out.iter_mut().zip(update).for_each(|(out, x)| *out += weight * x);
        }
    }
}

/// Returns the rows that use each expert: those of the largest scores, of equal ones the first.
fn choose(scores: &[f32], shape: &Experts) -> Chosen {
    let mut chosen = vec![Vec::new(); shape.count];
    for (row, scores) in scores.chunks_exact(shape.count).enumerate() {
        let mut order: Vec<usize> = (0..shape.count).collect();
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        let most = scores[order[0]];
        let mut weights: Vec<f32> = scores.iter().map(|score| exp(score - most)).collect();
        let used = &order[..shape.used];
        let total: f32 = match shape.normed {
            true => used.iter().map(|expert| weights[*expert]).sum(),
            false => weights.iter().sum(),
        };
        weights.iter_mut().for_each(|w| *w /= total);
        used.iter().for_each(|expert| chosen[*expert].push((row, weights[*expert])));
    }
    chosen
}
