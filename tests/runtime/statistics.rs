//! Sampling with drafts against probabilities that are known exactly.
//!
//! On a vocabulary of nine tokens all outputs of a constraint can be listed. One test has the loop
//! as documented, in fractions, for any draft. The other has the loop as implemented, against the
//! probabilities of a small model, by a chi-square test. `FFWD_DRAWS` sets the number of draws.

use std::collections::BTreeMap;

use candle_core::DType;
use ffwd::sample::SamplingParams;
use ffwd::{CompiledGrammar, Constraint, Engine, Mode, Prompt, Request, Vocabulary};
use ffwd_testkit::env;
use serde_json::json;

use crate::common::models;

/// The tokens; the last one ends the output.
const TOKENS: [&str; 8] = ["a", "b", "c", "ab", "bc", "abc", "ca", "aa"];
const END: u32 = 8;
/// Strings that can be split in several ways, and end at several places.
const LANGUAGE: &str = "ab(c|a)(b?c?)a?";

fn vocabulary() -> Vocabulary {
    let entries: serde_json::Map<String, serde_json::Value> =
        TOKENS.iter().enumerate().map(|(id, t)| ((*t).into(), json!(id))).collect();
    let level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "pre_tokenizer": level,
        "post_processor": null, "decoder": level,
        "added_tokens": [{"id": END, "content": "<end>", "special": true, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false}],
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": false, "vocab": entries, "merges": []},
    });
    Vocabulary::from_bytes(file.to_string().as_bytes()).unwrap().with_eos(vec![END])
}

/// A fraction in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fraction(u128, u128);

impl Fraction {
    const ONE: Fraction = Fraction(1, 1);

    fn new(a: u128, b: u128) -> Self {
        let (mut x, mut y) = (a, b);
        while y > 0 {
            (x, y) = (y, x % y);
        }
        Fraction(a / x, b / x)
    }

    fn times(self, o: Fraction) -> Fraction {
        let (a, b) = (Fraction::new(self.0, o.1), Fraction::new(o.0, self.1));
        Fraction::new(a.0 * b.0, a.1 * b.1)
    }

    fn plus(self, o: Fraction) -> Fraction {
        Fraction::new(self.0 * o.1 + o.0 * self.1, self.1 * o.1)
    }
}

type Distribution = BTreeMap<Vec<u32>, Fraction>;

/// A model whose weights are whole numbers, under the constraint.
struct Whole {
    grammar: CompiledGrammar,
}

impl Whole {
    /// Each legal token with its probability; empty where the output has ended.
    fn next(&self, prefix: &[u32]) -> Vec<(u32, Fraction)> {
        self.masked_as_behind(prefix, prefix)
    }

    /// The same with the mask that belongs behind `other`.
    fn masked_as_behind(&self, prefix: &[u32], other: &[u32]) -> Vec<(u32, Fraction)> {
        if prefix.contains(&END) {
            return Vec::new();
        }
        let mut matcher = self.grammar.matcher();
        other.iter().for_each(|t| matcher.accept_token(*t).unwrap());
        let legal: Vec<u32> = (0..=END).filter(|t| matcher.allows(*t)).collect();
        // Weights from 1 to 7 that depend on all that came before.
        let state = prefix.iter().fold(17u32, |s, t| s.wrapping_mul(31).wrapping_add(t + 1));
        let weight = |t: u32| u128::from((state ^ t.wrapping_mul(2_654_435_761)).rotate_left(9) % 7 + 1);
        let sum = legal.iter().map(|t| weight(*t)).sum();
        legal.into_iter().map(|t| (t, Fraction::new(weight(t), sum))).collect()
    }
}

fn add(all: &mut Distribution, output: Vec<u32>, p: Fraction) {
    let sum = all.get(&output).map_or(p, |q| q.plus(p));
    all.insert(output, sum);
}

/// Token by token.
fn plain(model: &Whole) -> Distribution {
    let mut all = Distribution::new();
    let mut open = vec![(Vec::new(), Fraction::ONE)];
    while let Some((prefix, mass)) = open.pop() {
        let next = model.next(&prefix);
        if next.is_empty() {
            add(&mut all, prefix, mass);
            continue;
        }
        open.extend(next.into_iter().map(|(t, p)| ([&prefix[..], &[t]].concat(), mass.times(p))));
    }
    all
}

/// What a loop does with a position that has a proposal.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// Draw; continue this round if the draw is the proposal.
    SampleAndMatch,
    /// Wrong: take the proposal with its probability, else draw once more from all.
    NoResidual,
    /// Wrong: one mask for all positions of a round.
    OneMask,
}

type Drafter = fn(&[u32]) -> Vec<u32>;

/// Round by round: a draft that is any function of what was written, then its positions.
fn drafted(model: &Whole, draft: Drafter, rule: Rule) -> Distribution {
    let mut all = Distribution::new();
    // What was written, what is left of the round's draft, and what was written when it began.
    let mut open = vec![(Vec::new(), draft(&[]), 0, Fraction::ONE)];
    while let Some((prefix, rest, began, mass)) = open.pop() {
        let next = match rule {
            Rule::OneMask if !prefix.contains(&END) => model.masked_as_behind(&prefix, &prefix[..began]),
            _ => model.next(&prefix),
        };
        if model.next(&prefix).is_empty() {
            add(&mut all, prefix, mass);
            continue;
        }
        let proposal = rest.first().copied();
        let known = next.iter().find(|(t, _)| Some(*t) == proposal).map(|n| n.1);
        for (token, p) in next {
            let written = [&prefix[..], &[token]].concat();
            // Under a wrong mask tokens may be impossible: that output is lost, which is wrong
            // enough.
            let possible = model.next(&prefix).iter().any(|n| n.0 == token);
            if !possible {
                continue;
            }
            let mut go = |rest: Vec<u32>, began, p| open.push((written.clone(), rest, began, mass.times(p)));
            let end = (draft(&written), written.len());
            match (rule, known) {
                (Rule::NoResidual, Some(q)) => {
                    let refused = Fraction::new(q.1 - q.0, q.1);
                    if Some(token) == proposal {
                        go(rest[1..].to_vec(), began, q);
                    }
                    if refused.0 > 0 {
                        go(end.0, end.1, refused.times(p));
                    }
                }
                _ if Some(token) == proposal => go(rest[1..].to_vec(), began, p),
                _ => go(end.0, end.1, p),
            }
        }
    }
    all
}

const DRAFTERS: [Drafter; 6] = [
    |_| vec![],
    |_| vec![0, 1, 2, END],
    |written| vec![(written.len() as u32 * 5 + written.iter().sum::<u32>()) % 9; 3],
    |_| vec![3, 2, 4, 0, END],
    |_| vec![99, 0],
    |written| (0..6).map(|i| (written.iter().fold(i, |s, t| s * 7 + t + 3)) % 9).collect(),
];

#[test]
fn any_draft_leaves_every_probability_as_it_is() {
    let vocab = vocabulary();
    let compiler = ffwd::Compiler::new(vocab);
    let grammar = compiler.compile(&Constraint::regex(LANGUAGE).unwrap()).unwrap();
    let model = Whole { grammar };
    let want = plain(&model);
    assert!(want.len() > 50, "{} outputs", want.len());
    let sum = |d: &Distribution| d.values().fold(Fraction(0, 1), |a, b| a.plus(*b));
    assert_eq!(sum(&want), Fraction::ONE);
    let mut wrong = [0, 0];
    for (i, draft) in DRAFTERS.into_iter().enumerate() {
        assert_eq!(drafted(&model, draft, Rule::SampleAndMatch), want, "drafter {i}");
        wrong[0] += usize::from(drafted(&model, draft, Rule::NoResidual) != want);
        wrong[1] += usize::from(drafted(&model, draft, Rule::OneMask) != want);
    }
    // That known mistakes are seen shows that the comparison can fail.
    assert!(wrong[0] >= 3 && wrong[1] >= 3, "{wrong:?}");
}

/// An engine with random models for the nine tokens.
fn engine() -> Engine {
    let model = |seed, layers| {
        let config = models::config("llama", [9, 16, 24, layers, 2, 1, 8], json!({}));
        models::load(&config, &models::weights(&config, DType::F32, seed))
    };
    Engine::from_parts(model(5, 2), Some(model(6, 1)), vocabulary()).unwrap()
}

/// The probabilities by which one token is drawn, step by step over a sorted list.
fn probabilities(logits: &[f32], legal: &[u32], p: &SamplingParams) -> Vec<(u32, f64)> {
    let t = f64::from(p.temperature);
    let mut list: Vec<(u32, f64)> = legal.iter().map(|i| (*i, f64::from(logits[*i as usize]) / t)).collect();
    list.sort_by(|a, b| b.1.total_cmp(&a.1));
    let top = list[0].1;
    list.iter_mut().for_each(|l| l.1 = (l.1 - top).exp());
    list.truncate(p.top_k.unwrap_or(usize::MAX));
    list.retain(|l| l.1 >= f64::from(p.min_p));
    let sum: f64 = list.iter().map(|l| l.1).sum();
    let mut reached = 0.0;
    list.retain(|l| {
        let keep = p.top_p >= 1.0 || reached < f64::from(p.top_p) * sum;
        reached += l.1;
        keep
    });
    let sum: f64 = list.iter().map(|l| l.1).sum();
    list.into_iter().map(|(t, w)| (t, w / sum)).collect()
}

const PROMPT: &str = "abcab";

/// All outputs with their probabilities under plain masked decoding.
fn enumerated(engine: &Engine, grammar: &CompiledGrammar, p: &SamplingParams) -> BTreeMap<Vec<u32>, f64> {
    let prompt = engine.vocabulary().encode(PROMPT).unwrap();
    let mut all = BTreeMap::new();
    let mut open = vec![(Vec::new(), 1.0)];
    while let Some((prefix, mass)) = open.pop() {
        let mut matcher = grammar.matcher();
        prefix.iter().for_each(|t| matcher.accept_token(*t).unwrap());
        let legal: Vec<u32> = (0..=END).filter(|t| matcher.allows(*t)).collect();
        let tokens = [&prompt[..], &prefix].concat();
        let mut cache = engine.target().new_cache().unwrap();
        let rows = tokens.len() - 1..tokens.len();
        let logits = engine.target().forward(&tokens, &mut cache, rows).unwrap();
        for (token, q) in probabilities(&logits[0], &legal, p) {
            if token == END {
                *all.entry(prefix.clone()).or_default() += mass * q;
            } else {
                open.push(([&prefix[..], &[token]].concat(), mass * q));
            }
        }
    }
    all
}

#[test]
fn draws_with_drafts_have_the_probabilities_of_plain_decoding() {
    let draws = env::draws();
    let engine = engine();
    let grammar = engine.compiler().compile(&Constraint::regex(LANGUAGE).unwrap()).unwrap();
    let base = SamplingParams { temperature: 1.0, ..SamplingParams::default() };
    let samplings = [
        base.clone(),
        SamplingParams { temperature: 0.6, top_p: 0.9, ..base.clone() },
        SamplingParams { temperature: 1.5, top_k: Some(3), min_p: 0.05, ..base },
    ];
    let variants: [fn(Request) -> Request; 4] = [
        |r| r.mode(Mode::Off),
        |r| r.without_gate().source("abcabaabcbc"),
        |r| r,
        |r| {
            r.without_gate()
                .draft_override(Box::new(|h: &[u32]| (0..4).map(|i| (h.len() as u32 * 3 + i) % 8).collect()))
        },
    ];
    for (s, sampling) in samplings.into_iter().enumerate() {
        let want = enumerated(&engine, &grammar, &sampling);
        assert!((want.values().sum::<f64>() - 1.0).abs() < 1e-9);
        for (v, change) in variants.iter().enumerate() {
            let mut counts: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
            let (mut accepted, mut drafted) = (0, 0);
            for i in 0..draws {
                // Other seeds for each variant, or they would all draw the same.
                let sampling = SamplingParams { seed: v as u64 * 1_000_000_007 + i, ..sampling.clone() };
                let request = Request::new(Prompt::text(PROMPT)).grammar(grammar.clone()).sampling(sampling);
                let output = engine.generate(&change(request)).unwrap();
                accepted += output.stats.accepted;
                drafted += output.stats.drafted;
                *counts.entry(output.tokens).or_default() += 1;
            }
            // Outputs that are too rare for the test's approximation count as one.
            let (mut chi, mut cells, mut rare) = (0.0, 0, (0.0, 0.0));
            let mut distance = 0.0;
            for (output, p) in &want {
                let (seen, expected) = (counts.remove(output).unwrap_or(0) as f64, p * draws as f64);
                distance += (seen - expected).abs() / draws as f64 / 2.0;
                if expected < 5.0 {
                    rare = (rare.0 + seen, rare.1 + expected);
                } else {
                    chi += (seen - expected).powi(2) / expected;
                    cells += 1;
                }
            }
            assert!(counts.is_empty(), "outputs of no probability: {counts:?}");
            if rare.1 >= 5.0 {
                chi += (rare.0 - rare.1).powi(2) / rare.1;
                cells += 1;
            }
            let freedom = f64::from(cells - 1);
            eprintln!(
                "sampling {s}, variant {v}: {draws} draws, {} outputs, chi-square {chi:.1} with {freedom} degrees, \
                 total variation {distance:.4}, {accepted} of {drafted} proposals accepted",
                want.len()
            );
            // Mean `freedom`, variance 2 `freedom`: five standard deviations. Seeds are fixed, so
            // this does not fail by chance.
            assert!(
                chi <= freedom + 5.0 * (2.0 * freedom).sqrt(),
                "sampling {s}, variant {v}: {chi}, {freedom}"
            );
            assert!(v == 0 || v == 2 || accepted > 0 && accepted < drafted, "variant {v} drafts");
        }
    }
}
