//! Requests in one batch give what they give alone, whatever the other requests are and whatever
//! happens to them.

use std::sync::Arc;

use ffwd::decode::{Handle, Scheduler, SchedulerOptions};
use ffwd::model::{LoadOptions, Model, Precision};
use ffwd::sample::SamplingParams;
use ffwd::{Constraint, Engine, Mode, Output, Prompt, Request, extract};
use ffwd_testkit::random::Random;

use crate::common::exact;
use crate::common::schemas::SCHEMAS;

const TEXTS: [&str; 3] = [
    "Invoice INV-20417 from Bright Glacier Consulting, issued 14 March 2024. We ask for 1,840.00 EUR.",
    "Order 77 by Mira Holm: 3 chairs, 1 lamp, \"blue\" table. Paid on 2 May 2023, thank you!",
    "Ticket: the printer on floor 4 does not print since Monday. Urgent. Reported by A. Novak.",
];

/// The `i`-th of many different requests: schemas, expressions, choices, free text; greedy and
/// sampled; all modes; stops, thinking, closing, log-probabilities.
fn request(i: usize) -> Request {
    let text = TEXTS[i % TEXTS.len()];
    let request = match i % 9 {
        0..4 => extract::embedded::request(SCHEMAS[i % 4], text).unwrap().max_tokens(100),
        4 => Request::new(Prompt::text(text))
            .constraint(Constraint::regex("(yes|no|maybe not), because [a-z ]{5,30}\\.").unwrap()),
        5 => Request::new(Prompt::text(text))
            .constraint(Constraint::choice(["invoice", "invoice reminder", "letter"]).unwrap()),
        6 => Request::new(extract::embedded::prompt(SCHEMAS[0], text)).max_tokens(30 + i % 7),
        7 => Request::new(Prompt::text(text)).constraint(Constraint::json_object()).max_tokens(40),
        _ => Request::new(Prompt::text(text.repeat(1 + i % 4)))
            .constraint(Constraint::choice(["yes", "no"]).unwrap())
            .think_until("</t>", 12),
    };
    let base = SamplingParams { seed: i as u64, ..SamplingParams::default() };
    let request = request.sampling(match i % 5 {
        0 | 1 => base,
        2 => SamplingParams { temperature: 1.0, ..base },
        3 => SamplingParams { temperature: 0.8, top_p: 0.9, repetition_penalty: 1.2, ..base },
        _ => SamplingParams { temperature: 1.3, top_k: Some(20), min_p: 0.02, ..base },
    });
    match i % 11 {
        0 => request.mode(Mode::Off),
        1 => request.mode(Mode::Canonical),
        2 => request.mode(Mode::Longest),
        3 => request.lookup(false).logprobs(true),
        4 => request.draft_model(false).stop(","),
        5 => request.close_before_limit(true).max_tokens(25),
        6 => request.without_gate().max_draft(40),
        _ => request,
    }
}

/// The parts of an output that are equal to the last bit: all but the statistics.
fn essence(output: &Output) -> impl PartialEq + std::fmt::Debug {
    let logprobs: Vec<_> =
        output.logprobs.iter().map(|l| l.as_ref().map(|l| (l.raw, l.masked, l.legal_mass))).collect();
    let Output { text, answer, tokens, complete, finish, .. } = output.clone();
    (text, answer, tokens, complete, finish, logprobs)
}

fn options() -> SchedulerOptions {
    SchedulerOptions::default()
}

fn scheduler(engine: &Arc<Engine>, options: SchedulerOptions) -> Scheduler {
    Scheduler::new(engine.clone(), options).unwrap()
}

fn same_as_alone(mut engine: Engine, count: usize, seed: u64) {
    let alone: Vec<Output> = (0..count).map(|i| engine.generate(&request(i)).unwrap()).collect();
    let mut random = Random::new(seed);
    for (batch, rows, threads, prefix_bytes) in [(16, 256, 2, 64 << 20), (5, 24, 1, 0), (32, 90, 3, 1 << 18)]
    {
        let shared = Arc::new(engine.with_threads(threads));
        let mut options = options();
        (options.batch, options.rows, options.prefix_bytes) = (batch, rows, prefix_bytes);
        let scheduler = scheduler(&shared, options);
        let mut order: Vec<usize> = (0..count).collect();
        (1..count).rev().for_each(|i| order.swap(i, random.below(i + 1)));
        let handles: Vec<(usize, Handle)> =
            order.into_iter().map(|i| (i, scheduler.submit(request(i)).unwrap())).collect();
        for (i, handle) in handles {
            let output = handle.wait().unwrap();
            assert_eq!(
                format!("{:?}", essence(&output)),
                format!("{:?}", essence(&alone[i])),
                "request {i}, batch of {batch}, {rows} rows"
            );
            // Its value depends on which forced tokens came in drafts, so on the gate; see below.
            assert_eq!(output.stats.survival.is_some(), alone[i].stats.survival.is_some(), "request {i}");
        }
        let figures = scheduler.stats();
        assert!(figures.most_sequences > 1 && figures.most_sequences <= batch, "{figures:?}");
        assert!(figures.most_rows <= rows.max(64 + rows), "{figures:?}");
        assert!(figures.prefix_bytes <= prefix_bytes, "{figures:?}");
        if prefix_bytes > 1 << 20 {
            assert!(figures.shared_tokens > 0, "{figures:?}");
        }
        drop(scheduler);
        engine = Arc::into_inner(shared).unwrap();
    }
}

#[test]
fn outputs_do_not_depend_on_the_company() {
    same_as_alone(exact::engine(), 66, 1);
}

#[test]
fn nor_in_single_precision() {
    let options = LoadOptions::with_precision(Precision::F32);
    same_as_alone(Engine::builder().options(options).build().unwrap(), 44, 2);
}

/// Without other drafts, every forced token is unverified, so the survival is the same in company. Sums
/// in other groups differ in the last digits only.
#[test]
fn the_survival_of_forced_tokens_does_not_depend_on_the_company() {
    let engine = Arc::new(exact::engine());
    let request = |i: usize| {
        let mode = if i.is_multiple_of(2) { Mode::Canonical } else { Mode::Longest };
        let request = extract::embedded::request(SCHEMAS[i % 4], TEXTS[i % 3]).unwrap();
        request.mode(mode).lookup(false).draft_model(false).max_tokens(100)
    };
    let mut options = options();
    (options.batch, options.rows) = (5, 24);
    let scheduler = scheduler(&engine, options);
    let handles: Vec<Handle> = (0..12).map(|i| scheduler.submit(request(i)).unwrap()).collect();
    let mut improbable = 0;
    for (i, handle) in handles.into_iter().enumerate() {
        let together = handle.wait().unwrap().stats.survival.unwrap();
        let alone = engine.generate(&request(i)).unwrap().stats.survival.unwrap();
        assert!((together - alone).abs() < 1e-6, "request {i}: {together} and {alone}");
        improbable += usize::from(alone < 0.999);
    }
    assert!(improbable > 0, "all survivals are 1");
}

#[test]
fn several_sequences_in_one_forward_have_the_bits_of_separate_forwards() {
    for precision in [Precision::F32, Precision::Q8_0] {
        let model = Model::embedded_target(&LoadOptions::with_precision(precision)).unwrap();
        if !model.is_batch_invariant() {
            continue;
        }
        let mut random = Random::new(3);
        for _ in 0..6 {
            let sequences: Vec<(Vec<u32>, Vec<u32>, usize)> = (0..1 + random.below(7))
                .map(|_| {
                    let mut tokens =
                        |most| (0..random.below(most)).map(|_| random.below(4096) as u32).collect();
                    let (before, mut new): (Vec<u32>, Vec<u32>) = (tokens(90), tokens(200));
                    new.push(7);
                    let from = random.below(new.len() + 1);
                    (before, new, from)
                })
                .collect();
            let cached = |before: &[u32]| {
                let mut cache = model.new_cache().unwrap();
                model.forward(before, &mut cache, 0..0).unwrap();
                cache
            };
            let mut caches: Vec<_> = sequences.iter().map(|s| cached(&s.0)).collect();
            let mut segments: Vec<_> = sequences
                .iter()
                .zip(&mut caches)
                .map(|(s, cache)| ffwd::model::Segment {
                    tokens: &s.1,
                    cache,
                    rows: s.2..s.1.len(),
                    only: &[],
                })
                .collect();
            let together = model.forward_batch(&mut segments);
            for ((before, new, from), (got, cache)) in sequences.iter().zip(together.into_iter().zip(&caches))
            {
                let mut alone = cached(before);
                let want = model.forward(new, &mut alone, *from..new.len()).unwrap();
                assert_eq!(got.unwrap(), want);
                assert_eq!(cache.len(), before.len() + new.len());
                // And what was left in the cache serves alike.
                let next = |mut cache: ffwd::model::KvCache| model.forward(&[9], &mut cache, 0..1).unwrap();
                assert_eq!(next(cache.clone()), next(alone));
            }
        }
    }
}
