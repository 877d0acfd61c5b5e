//! Several threads that share the rows of a forward give the bits of one thread and one token at a
//! time: prompts in parts, neighbours, windows. Their workers allocate nothing.
//!
use ffwd::model::{KvCache, LoadOptions, Model, Precision, Segment};
use ffwd_testkit::child;
use ffwd_testkit::random::Random;

use crate::common::{allocations, models};

/// Logits of tokens that run alone, each behind the ones before it.
fn one_by_one(model: &Model, tokens: &[u32], cache: &mut KvCache) -> Vec<Vec<f32>> {
    tokens.iter().flat_map(|&token| model.forward(&[token], cache, 0..1).unwrap()).collect()
}

#[test]
fn rows_of_several_threads_are_those_of_one() {
    let embedded = |precision| Model::embedded_target(&LoadOptions::with_precision(precision)).unwrap();
    let models = [embedded(Precision::F32), embedded(Precision::Q8_0), models::windowed()];
    for (model, threads) in models.into_iter().flat_map(|model| [2, 3, 8].map(|n| (model.clone(), n))) {
        let single = model.clone().with_threads(1);
        let model = model.with_threads(threads);
        let vocab = model.config().vocab_size;
        let mut random = Random::new(3);
        for round in 0..8 {
            let mut tokens = |most: usize| -> Vec<u32> {
                (0..1 + random.below(most)).map(|_| random.below(vocab) as u32).collect()
            };
            let (before, all) = (tokens(40), tokens(if round % 5 == 0 { 400 } else { 40 }));
            let other = tokens(9);
            let mut cache = model.new_cache().unwrap();
            model.forward(&before, &mut cache, 0..0).unwrap();
            let mut others = model.new_cache().unwrap();
            // Some rows want no logits; of the others some fall to each thread.
            let rows = random.below(all.len())..all.len();
            let segment = |tokens, cache, rows| Segment { tokens, cache, rows, only: &[] };
            let mut segments =
                [segment(&other, &mut others, 0..other.len()), segment(&all, &mut cache, rows.clone())];
            let got: Vec<_> = model.forward_batch(&mut segments).into_iter().map(Result::unwrap).collect();
            let mut alone = single.new_cache().unwrap();
            assert_eq!(got[0], one_by_one(&single, &other, &mut alone), "neighbour of round {round}");
            let mut alone = single.new_cache().unwrap();
            one_by_one(&single, &before, &mut alone);
            let want = one_by_one(&single, &all, &mut alone);
            assert_eq!(got[1], want[rows.start..], "round {round}");
            let kept = before.len() + random.below(all.len() + 1);
            let next = |mut cache: KvCache| {
                cache.truncate(kept);
                model.forward(&[9, 8], &mut cache, 0..2).unwrap()
            };
            assert_eq!(next(cache), next(alone), "what is kept in round {round}");
        }
    }
}

/// In a process of its own, so that there are no other threads.
#[test]
fn workers_allocate_nothing() {
    if !child::is_child(module_path!(), "workers_allocate_nothing", &[]) {
        return;
    }
    let model = Model::embedded_target(&LoadOptions::default()).unwrap().with_threads(3);
    let mut cache = model.new_cache().unwrap();
    let mut forwards = |count: u32| {
        for token in 0..count {
            model.forward(&[token, 7], &mut cache, 0..2).unwrap();
        }
    };
    // Each thread has its buffers after some forwards.
    forwards(60);
    assert_eq!(allocations::of_other_threads(|| forwards(60)), 0);
    let within = allocations::of_other_threads(|| {
        std::thread::spawn(|| drop(vec![1; 100])).join().unwrap();
    });
    assert!(within > 0, "other threads are counted");
}
