//! The sampler against a slow, obvious one that works with probabilities.

use ffwd::ErrorKind;
use ffwd::sample::{Sampler, SamplingParams};
use ffwd_testkit::random::Random;

/// Probability of each token, step by step as documented, over a full sorted list.
fn reference(logits: &[f32], legal: &[bool], p: &SamplingParams, history: &[u32]) -> Vec<f64> {
    let mut l: Vec<f64> = logits.iter().map(|v| f64::from(*v)).collect();
    for (t, l) in l.iter_mut().enumerate() {
        let n = history.iter().filter(|h| **h as usize == t).count() as f64;
        if n > 0.0 {
            let r = f64::from(p.repetition_penalty);
            *l = if *l > 0.0 { *l / r } else { *l * r };
            *l -= f64::from(p.presence_penalty) + n * f64::from(p.frequency_penalty);
        }
        *l += p.logit_bias.iter().filter(|b| b.0 as usize == t).map(|b| f64::from(b.1)).sum::<f64>();
    }
    let mut order: Vec<usize> = (0..l.len()).filter(|t| legal[*t]).collect();
    order.sort_by(|a, b| l[*b].total_cmp(&l[*a]).then(a.cmp(b)));
    if p.temperature == 0.0 {
        order.truncate(1);
    }
    let t = if p.temperature == 0.0 { 1.0 } else { f64::from(p.temperature) };
    let top = l[order[0]];
    let weight = |i: usize| ((l[i] - top) / t).exp();
    order.retain(|i| weight(*i) >= f64::from(p.min_p));
    order.truncate(p.top_k.unwrap_or(usize::MAX));
    let sum: f64 = order.iter().map(|i| weight(*i)).sum();
    let mut kept = Vec::new();
    let mut reached = 0.0;
    for i in order {
        if reached < f64::from(p.top_p) * sum || p.top_p >= 1.0 {
            kept.push(i);
        }
        reached += weight(i);
    }
    let sum: f64 = kept.iter().map(|i| weight(*i)).sum();
    let mut out = vec![0.0; l.len()];
    for i in kept {
        out[i] = weight(i) / sum;
    }
    out
}

fn noise(n: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..n).map(|_| random.unit() * 6.0 - 3.0).collect()
}

fn mask_of(legal: &[bool]) -> Vec<u32> {
    let mut mask = vec![0; legal.len().div_ceil(32)];
    for (t, _) in legal.iter().enumerate().filter(|l| *l.1) {
        mask[t / 32] |= 1 << (t % 32);
    }
    mask
}

fn settings() -> Vec<SamplingParams> {
    let base = SamplingParams { temperature: 0.8, ..SamplingParams::default() };
    vec![
        base.clone(),
        SamplingParams { temperature: 2.5, ..base.clone() },
        SamplingParams { top_k: Some(5), ..base.clone() },
        SamplingParams { top_p: 0.6, ..base.clone() },
        SamplingParams { min_p: 0.2, ..base.clone() },
        SamplingParams { top_k: Some(9), top_p: 0.8, min_p: 0.05, ..base.clone() },
        SamplingParams {
            repetition_penalty: 1.7,
            presence_penalty: 0.4,
            frequency_penalty: 0.3,
            ..base.clone()
        },
        SamplingParams { logit_bias: vec![(3, 2.0), (7, f32::NEG_INFINITY), (3, 0.5)], ..base.clone() },
        SamplingParams { temperature: 0.0, repetition_penalty: 3.0, ..base },
    ]
}

/// Checks counts of draws against their probabilities, by chi-square over the cells with five draws or
/// more. The sum has mean cells - 1 and variance 2 (cells - 1): five standard deviations. Seeds are fixed,
/// so that this does not fail by chance.
fn check_chi_square(draws: u64, cells: impl Iterator<Item = (u64, f64)>, least: usize, what: &str) {
    let (mut chi, mut used) = (0.0, 0);
    for (count, p) in cells {
        let expected = p * draws as f64;
        assert!(p > 0.0 || count == 0, "{what}: what is cut is never drawn");
        if expected >= 5.0 {
            chi += (count as f64 - expected).powi(2) / expected;
            used += 1;
        }
    }
    let freedom = (used - 1) as f64;
    assert!(used >= least && chi <= freedom + 5.0 * (2.0 * freedom).sqrt() + 1e-9, "{what}: {chi} {freedom}");
}

#[test]
fn draws_follow_the_reference_distribution() {
    const DRAWS: u64 = 4000;
    let history = [1, 4, 4, 9, 20, 4];
    for (case, params) in settings().into_iter().enumerate() {
        let logits = noise(40, case as u64 + 1);
        let legal: Vec<bool> = (0..40).map(|t| case % 2 == 0 || t % 3 != 1).collect();
        let mask = (case % 2 == 1).then(|| mask_of(&legal));
        let want = reference(&logits, &legal, &params, &history);
        let sampler = Sampler::new(params).unwrap();
        let mut counts = vec![0u64; 40];
        for position in 0..DRAWS {
            let s = sampler.sample(&mut logits.clone(), mask.as_deref(), position, &history).unwrap();
            counts[s.token as usize] += 1;
        }
        check_chi_square(DRAWS, counts.into_iter().zip(want), 1, &format!("case {case}"));
    }
}

#[test]
fn log_probabilities_are_those_after_the_mask_and_before_temperature() {
    let logits = noise(50, 3);
    let legal: Vec<bool> = (0..50).map(|t| t % 4 == 2).collect();
    let plain = SamplingParams { temperature: 1.0, ..SamplingParams::default() };
    let want = reference(&logits, &legal, &plain, &[]);
    let all = reference(&logits, &[true; 50], &plain, &[]);
    let mass: f64 = (0..50).filter(|t| legal[*t]).map(|t| all[t]).sum();
    for temperature in [0.0, 0.3, 4.0] {
        let params = SamplingParams { temperature, top_k: Some(7), ..SamplingParams::default() };
        let sampler = Sampler::new(params).unwrap();
        for position in 0..50 {
            let s = sampler.sample(&mut logits.clone(), Some(&mask_of(&legal)), position, &[]).unwrap();
            assert!((f64::from(s.logprob) - want[s.token as usize].ln()).abs() < 1e-5);
            assert_eq!(s.report, None, "not asked for");
            let full = sampler.clone().with_logprobs();
            let s = full.sample(&mut logits.clone(), Some(&mask_of(&legal)), position, &[]).unwrap();
            let report = s.report.unwrap();
            assert!((f64::from(report.raw) - all[s.token as usize].ln()).abs() < 1e-5);
            assert!((f64::from(report.legal_mass) - mass).abs() < 1e-5);
        }
    }
}

#[test]
fn raw_log_probabilities_know_of_no_penalty() {
    let logits = noise(30, 4);
    let plain = SamplingParams { temperature: 1.0, ..SamplingParams::default() };
    let want = reference(&logits, &[true; 30], &plain, &[]);
    let params = SamplingParams {
        repetition_penalty: 2.0,
        frequency_penalty: 0.5,
        logit_bias: vec![(3, 4.0), (5, f32::NEG_INFINITY)],
        ..plain
    };
    let sampler = Sampler::new(params).unwrap().with_logprobs();
    for position in 0..200 {
        let s = sampler.sample(&mut logits.clone(), None, position, &[1, 2, 3, 3]).unwrap();
        assert!((f64::from(s.report.unwrap().raw) - want[s.token as usize].ln()).abs() < 1e-5);
    }
}

/// A model of six tokens that looks at the last two of them, and a constraint that forbids some.
fn toy(history: &[u32]) -> (Vec<f32>, Vec<bool>) {
    let last = |n: usize| history.len().checked_sub(n).map_or(9, |i| history[i]);
    let logits = noise(6, u64::from(1 + last(1) * 10 + last(2)));
    // Two in a row at most, and what is legal depends on where one is.
    let thrice = |t: u32| last(1) == t && last(2) == t;
    let elsewhere = |t: u32| (t + history.len() as u32).is_multiple_of(5);
    let legal = (0..6).map(|t| !thrice(t) && !elsewhere(t));
    (logits, legal.collect())
}

/// All sequences of a length with their probabilities, by enumeration.
fn enumerate(params: &SamplingParams, length: usize) -> Vec<(Vec<u32>, f64)> {
    let mut all = vec![(Vec::new(), 1.0)];
    for _ in 0..length {
        let mut longer = Vec::new();
        for (sequence, p) in all {
            let (logits, legal) = toy(&sequence);
            let next = reference(&logits, &legal, params, &sequence);
            for (t, q) in next.into_iter().enumerate().filter(|(_, q)| *q > 0.0) {
                let mut sequence: Vec<u32> = sequence.clone();
                sequence.push(t as u32);
                longer.push((sequence, p * q));
            }
        }
        all = longer;
    }
    all
}

#[test]
fn sequences_follow_the_enumerated_distribution() {
    const DRAWS: u64 = 100_000;
    const LENGTH: usize = 3;
    let base = SamplingParams { temperature: 1.0, ..SamplingParams::default() };
    let cases = [
        base.clone(),
        SamplingParams { temperature: 0.6, top_k: Some(3), ..base.clone() },
        SamplingParams { top_p: 0.8, min_p: 0.1, frequency_penalty: 0.7, ..base.clone() },
        SamplingParams { repetition_penalty: 1.5, presence_penalty: 0.2, ..base },
    ];
    for (case, params) in cases.into_iter().enumerate() {
        let want = enumerate(&params, LENGTH);
        assert!((want.iter().map(|w| w.1).sum::<f64>() - 1.0).abs() < 1e-9);
        let mut counts: std::collections::HashMap<Vec<u32>, u64> = Default::default();
        for seed in 0..DRAWS {
            let sampler = Sampler::new(SamplingParams { seed, ..params.clone() }).unwrap();
            let mut sequence = Vec::new();
            for position in 0..LENGTH {
                let (mut logits, legal) = toy(&sequence);
                let mask = mask_of(&legal);
                let s = sampler.sample(&mut logits, Some(&mask), position as u64, &sequence).unwrap();
                sequence.push(s.token);
            }
            *counts.entry(sequence).or_default() += 1;
        }
        let cells: Vec<_> = want.iter().map(|(s, p)| (counts.remove(s).unwrap_or(0), *p)).collect();
        assert!(counts.is_empty(), "case {case}: impossible sequences {counts:?}");
        assert_eq!(cells.iter().map(|cell| cell.0).sum::<u64>(), DRAWS);
        check_chi_square(DRAWS, cells.into_iter(), 11, &format!("case {case}"));
    }
}

#[test]
fn the_mask_comes_before_truncation() {
    // The legal tokens are far outside the top 3 and the first half of the probability.
    let mut logits = vec![5.0; 64];
    logits[40] = -3.0;
    logits[63] = -4.0;
    let mut mask = vec![0u32; 2];
    mask[1] = 1 << 8 | 1 << 31;
    for params in [
        SamplingParams { temperature: 1.0, top_k: Some(3), ..SamplingParams::default() },
        SamplingParams { temperature: 1.0, top_p: 0.5, ..SamplingParams::default() },
        SamplingParams { temperature: 1.0, min_p: 1.0, ..SamplingParams::default() },
        SamplingParams::default(),
    ] {
        let sampler = Sampler::new(params).unwrap();
        for position in 0..100 {
            let s = sampler.sample(&mut logits.clone(), Some(&mask), position, &[]).unwrap();
            assert!(s.token == 40 || s.token == 63);
        }
    }
}

#[test]
fn seed_and_position_decide() {
    let logits = noise(300, 8);
    let draw = |seed, position| {
        let params = SamplingParams { temperature: 1.5, seed, ..SamplingParams::default() };
        Sampler::new(params).unwrap().sample(&mut logits.clone(), None, position, &[]).unwrap().token
    };
    let first: Vec<u32> = (0..100).map(|p| draw(1, p)).collect();
    let backwards: Vec<u32> = (0..100).rev().map(|p| draw(1, p)).collect();
    assert!(first.iter().eq(backwards.iter().rev()), "whatever was drawn before");
    assert_ne!(first, (0..100).map(|p| draw(2, p)).collect::<Vec<_>>());
    let distinct: std::collections::HashSet<_> = first.iter().collect();
    assert!(distinct.len() > 30, "positions differ");
}

#[test]
fn greedy_takes_the_lowest_of_equals() {
    let mut logits = vec![0.0, 2.0, 1.0, 2.0];
    let greedy = Sampler::new(SamplingParams::default()).unwrap();
    assert_eq!(greedy.sample(&mut logits.clone(), None, 0, &[]).unwrap().token, 1);
    assert_eq!(greedy.sample(&mut logits, Some(&[0b1101]), 0, &[]).unwrap().token, 3);
    let one = SamplingParams { temperature: 1.0, top_k: Some(1), ..SamplingParams::default() };
    assert!(one.is_greedy());
    assert_eq!(Sampler::new(one).unwrap().sample(&mut logits, None, 5, &[]).unwrap().token, 1);
}

#[test]
fn what_cannot_be_sampled_is_an_error() {
    let greedy = Sampler::new(SamplingParams::default()).unwrap();
    let kind = |logits: &[f32], mask: Option<&[u32]>| {
        greedy.sample(&mut logits.to_vec(), mask, 0, &[]).map(|s| s.token).map_err(|e| e.kind())
    };
    assert_eq!(kind(&[1.0, 2.0], Some(&[0])), Err(ErrorKind::IllegalToken));
    assert_eq!(kind(&[1.0, 2.0], Some(&[0b100])), Err(ErrorKind::IllegalToken), "bits beyond the logits");
    assert_eq!(kind(&[], None), Err(ErrorKind::IllegalToken));
    assert_eq!(kind(&[f32::NEG_INFINITY; 3], None), Err(ErrorKind::IllegalToken));
    assert_eq!(kind(&[f32::NAN, 1.0], None), Err(ErrorKind::Model));
    assert_eq!(kind(&[1.0, f32::NAN], None), Err(ErrorKind::Model));
    assert_eq!(kind(&[1.0, f32::INFINITY], None), Err(ErrorKind::Model));
    assert_eq!(kind(&[f32::NAN, 1.0], Some(&[0b10])), Ok(1), "illegal tokens do not matter");
    let biased = SamplingParams { logit_bias: vec![(9, 1.0)], ..SamplingParams::default() };
    let e = Sampler::new(biased).unwrap().sample(&mut [0.0; 3], None, 0, &[]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidOption);
    // History that does not fit the model is passed over.
    let p = SamplingParams { frequency_penalty: 1.0, ..SamplingParams::default() };
    assert!(Sampler::new(p).unwrap().sample(&mut [0.0; 3], None, 0, &[7]).is_ok());
}

#[test]
fn senseless_parameters_are_refused_with_a_hint() {
    let d = SamplingParams::default;
    for params in [
        SamplingParams { temperature: -0.1, ..d() },
        SamplingParams { temperature: f32::NAN, ..d() },
        SamplingParams { temperature: f32::INFINITY, ..d() },
        SamplingParams { top_p: 0.0, ..d() },
        SamplingParams { top_p: 1.01, ..d() },
        SamplingParams { top_p: f32::NAN, ..d() },
        SamplingParams { min_p: -0.1, ..d() },
        SamplingParams { min_p: 1.1, ..d() },
        SamplingParams { top_k: Some(0), ..d() },
        SamplingParams { repetition_penalty: 0.0, ..d() },
        SamplingParams { presence_penalty: f32::NAN, ..d() },
        SamplingParams { logit_bias: vec![(1, f32::INFINITY)], ..d() },
    ] {
        let e = Sampler::new(params.clone()).map(|_| ()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidOption);
        assert!(e.hint_text().is_some(), "{params:?}");
    }
}
