//! Several continuations in one forward. The logits of each token are those of a forward over its
//! own path. The part of the cache that is kept is as if no other path had run.

use ffwd::draft::DraftSource;
use ffwd::model::{Branch, KvPrecision, LoadOptions, Model, Precision, Segment};
use ffwd::sample::SamplingParams;
use ffwd::{Constraint, ErrorKind, Mode, Prompt, Request};
use ffwd_testkit::random::Random;

use crate::kit::{exact, models};

#[test]
fn branches_have_the_bits_of_separate_forwards() {
    let embedded = |precision| Model::embedded_target(&LoadOptions::with_precision(precision)).unwrap();
    let halves = LoadOptions { kv: KvPrecision::F16, ..LoadOptions::default() };
    let halves = Model::embedded_target(&halves).unwrap();
    for model in [embedded(Precision::F32), embedded(Precision::Q8_0), models::windowed(), halves] {
        if !model.is_batch_invariant() {
            continue;
        }
        let vocab = model.config().vocab_size;
        let mut random = Random::new(11);
        for round in 0..25 {
            let mut tokens = |most: usize| -> Vec<u32> {
                (0..1 + random.below(most)).map(|_| random.below(vocab) as u32).collect()
            };
            // Long trunks, so that branches are in other pieces than the tokens that they continue.
            let (before, trunk) = (tokens(60), tokens(if round % 5 == 0 { 400 } else { 12 }));
            let ways: Vec<Vec<u32>> = (0..4).map(|_| tokens(9)).collect();
            let branches: Vec<Branch> =
                ways.iter().map(|w| Branch { after: random.below(trunk.len() + 1), len: w.len() }).collect();
            let all: Vec<u32> = trunk.iter().chain(ways.iter().flatten()).copied().collect();
            let mut cache = model.new_cache().unwrap();
            model.forward(&before, &mut cache, 0..0).unwrap();
            let start = cache.clone();
            // A neighbour, so that pieces begin anywhere.
            let (other, mut others) = (vec![1; random.below(9)], model.new_cache().unwrap());
            let rows = 0..other.len();
            let mut segments = [
                Segment { tokens: &other, branches: &[], cache: &mut others, rows, only: &[] },
                Segment {
                    tokens: &all,
                    branches: &branches,
                    cache: &mut cache,
                    rows: 0..all.len(),
                    only: &[],
                },
            ];
            let got = model.forward_batch(&mut segments).pop().unwrap().unwrap();
            let mut at = trunk.len();
            for (branch, way) in branches.iter().zip(&ways) {
                let path: Vec<u32> = trunk[..branch.after].iter().chain(way).copied().collect();
                let mut alone = start.clone();
                let want = model.forward(&path, &mut alone, 0..path.len()).unwrap();
                assert_eq!(got[..branch.after], want[..branch.after]);
                assert_eq!(got[at..at + way.len()], want[branch.after..], "{branch:?} of round {round}");
                // As much of the branch as was right is kept, and the rest forgotten.
                let kept = random.below(way.len()) + 1;
                let mut taken = cache.clone();
                taken.take_branch(before.len() + branch.after, before.len() + at, kept);
                alone.truncate(before.len() + branch.after + kept);
                assert_eq!(taken.len(), alone.len());
                let next = |mut cache| model.forward(&[9, 8], &mut cache, 0..2).unwrap();
                assert_eq!(next(taken), next(alone), "{branch:?} of round {round}");
                at += way.len();
            }
        }
    }
}

#[test]
fn branches_that_go_on_from_nowhere_are_refused() {
    let model = Model::embedded_target(&LoadOptions::default()).unwrap();
    let mut cache = model.new_cache().unwrap();
    let of = |after, len| Branch { after, len };
    for branches in [vec![of(3, 2)], vec![of(0, 6)], vec![of(0, 0)], vec![of(1, 3), of(0, 3)]] {
        let mut segments = [Segment {
            tokens: &[5, 6, 7, 8],
            branches: &branches,
            cache: &mut cache,
            rows: 0..4,
            only: &[],
        }];
        let error = model.forward_batch(&mut segments).pop().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{branches:?}");
    }
    assert!(cache.is_empty());
}

#[test]
fn generations_with_branches_are_those_without() {
    // One each: an engine learns from what it wrote before.
    let (engine, other) = (exact::engine(), exact::engine());
    let text = "The lamp is green, and its price is 12. It was ordered on Friday.";
    let schema = r#"{"type":"object","properties":{"colour":{"enum":["red","green","blue"]},"paid":{"type":"boolean"},
        "day":{"enum":["Monday","Tuesday","Friday"]},"price":{"type":"integer"},"kind":{"enum":["lamp","chair"]}},
        "required":["colour","paid","day","price","kind"],"additionalProperties":false}"#;
    let (mut forwards, mut taken) = ([0, 0, 0], 0);
    for seed in 0..80 {
        let sampling =
            SamplingParams { temperature: (seed % 4) as f32 * 0.5, seed, ..SamplingParams::default() };
        let request = || {
            Request::new(Prompt::text(text))
                .constraint(Constraint::json_schema(schema).unwrap())
                .sampling(sampling.clone())
                .draft_model(seed % 2 == 0)
        };
        let off = engine.generate(&request().mode(Mode::Off)).unwrap();
        let without = other.generate(&request().without_gate().branches(false)).unwrap();
        let with = engine.generate(&request().without_gate().branches(true)).unwrap();
        assert_eq!(with.tokens, off.tokens, "{} against {}", with.text, off.text);
        assert_eq!((without.tokens, without.stats.drafted_by_source[DraftSource::Branch]), (off.tokens, 0));
        taken += with.stats.accepted_by_source[DraftSource::Branch];
        for (sum, stats) in forwards.iter_mut().zip([off.stats, without.stats, with.stats]) {
            *sum += stats.forwards;
        }
    }
    eprintln!("forwards: {forwards:?}; {taken} branches taken");
    assert!(taken > 40 && forwards[2] + 40 < forwards[1], "{forwards:?}, {taken}");
}
