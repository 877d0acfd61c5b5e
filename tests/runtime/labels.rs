//! Constraints over tokens with the embedded models: `exact` equals `off`, probabilities are those
//! of single forwards, batches, outputs that end within the limit.

use std::collections::BTreeMap;
use std::sync::Arc;

use ffwd::constraint::token_machine::{LabelTrie, Labels, Levels, TokenFsm, TokenMasks};
use ffwd::decode::{LabelOptions, LabelProbabilities, Scheduler, SchedulerOptions};
use ffwd::draft::DraftSource;
use ffwd::sample::SamplingParams;
use ffwd::{Constraint, Engine, ErrorKind, Finish, Mode, Output, Prompt, Request, TokenId};
use ffwd_testkit::random::Random;

use crate::common::exact::engine;

const TEXT: &str = "Invoice INV-20417 from Bright Glacier Consulting, issued 14 March 2024. \
    We ask for 1,840.00 EUR. Items: lamp, \"blue\" table, 3 chairs.\n\nTopics:";

const TOPICS: &[&str] = &[
    "invoice",
    "invoice reminder",
    "letter",
    "order",
    "order > furniture",
    "order > furniture > chairs",
    "order > lighting",
    "travel",
    "travel > flights",
    "größe",
];

const WORDS: [&str; 7] = ["red", "chair", "lamp", "window", "order", "blue", "door"];

fn constraints(engine: &Engine) -> Vec<Constraint> {
    let vocab = engine.vocabulary();
    let upper = vocab.tokens_matching("[A-Z]+").unwrap();
    let lower = vocab.tokens_matching("[a-z]+").unwrap();
    let colon = vocab.tokens_matching(":").unwrap();
    let space = vocab.tokens_matching(" ").unwrap();
    let mut fsm = TokenFsm::new();
    fsm.add_transition(0, &upper, 1).add_transition(1, &upper, 1).add_transition(1, &colon, 2);
    fsm.add_transition(2, &space, 3).add_transition(3, &lower, 4).add_transition(4, &lower, 4);
    fsm.add_transition(4, &lower, 5).accept(5);
    let masks = TokenMasks::new([&lower, &colon]).repeat(2, Some(5));
    let forced = TokenMasks::new([vocab.encode("quite predetermined").unwrap()[0]])
        .then(vocab.tokens_matching("[a-z]").unwrap())
        .then(vocab.encode("x").unwrap()[0])
        .then(vocab.encode("y").unwrap()[0]);
    vec![
        Constraint::labels(&Labels::new(TOPICS.iter().copied())),
        Constraint::labels(&Labels::new(TOPICS.iter().copied()).several(", ").at_most(4)),
        Constraint::labels(&Labels::new(TOPICS.iter().copied()).several(" | ").at_least(3)),
        Constraint::labels(&Labels::new(TOPICS.iter().copied()).several("; ").at_most(3).with_repeats()),
        Constraint::token_fsm(&fsm),
        Constraint::token_masks(&masks).unwrap(),
        Constraint::token_masks(&forced).unwrap(),
    ]
}

fn samplings() -> Vec<SamplingParams> {
    let base = SamplingParams::default();
    let mut all = vec![base.clone()];
    for seed in 0..6 {
        all.push(SamplingParams { temperature: 1.0, seed, ..base.clone() });
        all.push(SamplingParams {
            temperature: 0.8,
            top_p: 0.9,
            repetition_penalty: 1.2,
            seed,
            ..base.clone()
        });
    }
    all
}

#[test]
fn exact_equals_off_and_so_do_the_unverified_modes() {
    let engine = engine();
    let (mut forced, mut saved) = (0, 0);
    for (i, constraint) in constraints(&engine).into_iter().enumerate() {
        let grammar = engine.compiler().compile(&constraint).unwrap();
        for (j, sampling) in samplings().into_iter().enumerate() {
            let request = || {
                let request = Request::new(Prompt::text(TEXT)).grammar(grammar.clone());
                request.sampling(sampling.clone()).max_tokens(40).logprobs(true)
            };
            let off = engine.generate(&request().mode(Mode::Off)).unwrap();
            let variants = [
                request(),
                request().without_gate(),
                request().without_gate().draft_model(false),
                request().without_gate().lookup(false).max_draft(3),
            ];
            for (k, variant) in variants.iter().enumerate() {
                let exact = engine.generate(variant).unwrap();
                assert_eq!(exact.tokens, off.tokens, "{i} {j} {k}: {:?} {:?}", exact.text, off.text);
                assert_eq!(exact.finish, off.finish);
                assert_eq!(exact.logprobs, off.logprobs);
                forced += exact.stats.accepted_by_source[DraftSource::Forced];
                saved += off.stats.forwards - exact.stats.forwards;
            }
            // A single bit in a mask is no guess: what is emitted unverified is what would be
            // chosen.
            for mode in [Mode::Canonical, Mode::Longest] {
                let blind = engine.generate(&request().mode(mode).logprobs(false)).unwrap();
                assert_eq!((&blind.tokens, &blind.finish), (&off.tokens, &off.finish), "{i} {j} {mode:?}");
                assert!(blind.stats.survival.is_none_or(|s| (s - 1.0).abs() < 1e-9));
            }
            let mut matcher = grammar.matcher();
            assert_eq!(matcher.validate_tokens(&off.tokens), off.tokens.len());
            off.tokens.iter().for_each(|&t| matcher.accept_token(t).unwrap());
            assert_eq!(off.complete, matcher.is_accepting());
            assert!(off.complete || matches!(off.finish, Finish::Length { .. }));
        }
    }
    assert!(forced > 100 && saved > 100, "{forced} {saved}");
}

#[test]
fn bad_drafts_and_events_change_nothing() {
    let engine = engine();
    for constraint in constraints(&engine) {
        let request = || Request::new(Prompt::text(TEXT)).constraint(constraint.clone()).max_tokens(30);
        let off = engine.generate(&request().mode(Mode::Off)).unwrap();
        let mut random = Random::new(7);
        let adversary =
            move |_: &[TokenId]| -> Vec<TokenId> { (0..6).map(|_| random.below(4200) as TokenId).collect() };
        let misled = engine.generate(&request().draft_override(Box::new(adversary))).unwrap();
        assert_eq!(misled.tokens, off.tokens);
        let mut streamed = String::new();
        let output = engine.generate_streaming(&request(), &mut |text| streamed.push_str(text)).unwrap();
        assert_eq!((output.tokens, streamed), (off.tokens, off.text));
    }
}

#[test]
fn outputs_are_closed_in_time() {
    let engine = engine();
    let mut closed = 0;
    for constraint in constraints(&engine) {
        let grammar = engine.compiler().compile(&constraint).unwrap();
        let least = grammar.matcher().token_completion().unwrap().len();
        for seed in 0..8 {
            for most in [least, least + 1, least + 4] {
                let sampling = SamplingParams { temperature: 1.2, seed, ..SamplingParams::default() };
                let request = Request::new(Prompt::text(TEXT)).grammar(grammar.clone()).sampling(sampling);
                let output = engine.generate(&request.max_tokens(most).close_before_limit(true)).unwrap();
                assert!(output.complete, "{:?} {:?}", output.text, output.finish);
                assert!(output.tokens.len() <= most);
                closed += usize::from(output.finish == Finish::Closed);
            }
        }
    }
    assert!(closed > 20, "{closed}");
}

fn essence(output: &Output) -> (String, Vec<TokenId>, bool, Finish) {
    (output.text.clone(), output.tokens.clone(), output.complete, output.finish.clone())
}

#[test]
fn in_a_batch_they_give_what_they_give_alone() {
    let engine = Arc::new(engine());
    let constraints = constraints(&engine);
    let request = |i: usize| {
        let mode = [Mode::Exact, Mode::Off, Mode::Exact, Mode::Canonical][i % 4];
        Request::new(Prompt::text(&TEXT[i % 20..]))
            .constraint(constraints[i % constraints.len()].clone())
            .temperature(if i.is_multiple_of(3) { 0.0 } else { 1.0 })
            .seed(i as u64)
            .mode(mode)
            .close_before_limit(i.is_multiple_of(5))
            .max_tokens(12 + i)
    };
    let alone: Vec<_> = (0..24).map(|i| essence(&engine.generate(&request(i)).unwrap())).collect();
    let scheduler = Scheduler::new(engine.clone(), SchedulerOptions::default()).unwrap();
    let handles: Vec<_> = (0..24).map(|i| scheduler.submit(request(i)).unwrap()).collect();
    for (handle, alone) in handles.into_iter().zip(alone) {
        assert_eq!(essence(&handle.wait().unwrap()), alone);
    }
    // A fault is the fault of its own request.
    let bad = Request::new(Prompt::text("x")).constraint(Constraint::token_fsm(&TokenFsm::new()));
    let error = scheduler.submit(bad).unwrap().wait().err().unwrap();
    assert!(error.to_string().contains("state 0"), "{error}");
}

#[test]
fn labels_behind_thinking_are_the_same_in_a_batch() {
    let engine = Arc::new(engine());
    let labels = Constraint::labels(&Labels::new(["invoice", "order", "letter"]));
    let request = |seed: u64| {
        let request =
            Request::new(Prompt::text("A text: ")).constraint(labels.clone()).temperature(1.0).seed(seed);
        request.think_until("e", 6).max_tokens(40)
    };
    let scheduler = Scheduler::new(engine.clone(), SchedulerOptions::default()).unwrap();
    let handles: Vec<_> = (0..12).map(|seed| scheduler.submit(request(seed)).unwrap()).collect();
    for (handle, seed) in handles.into_iter().zip(0..) {
        let (batched, alone) = (handle.wait().unwrap(), engine.generate(&request(seed)).unwrap());
        assert_eq!((&batched.tokens, &batched.answer), (&alone.tokens, &alone.answer));
        assert!(alone.complete);
    }
}

/// The probability of a label as a product over its tokens and the end, each from a forward of its
/// own over everything before, among the tokens of a matcher's mask.
fn by_single_forwards(engine: &Engine, prompt: &str, labels: &Labels, trie: &LabelTrie) -> Vec<f64> {
    let grammar = engine.compiler().compile(&Constraint::labels(labels)).unwrap();
    let vocab = engine.vocabulary();
    let prompt = vocab.encode(prompt).unwrap();
    let mut row = vec![0u32; vocab.bitmask_words()];
    let probability = |label: usize| {
        let tokens = trie.tokens(label);
        let mut matcher = grammar.matcher();
        let mut product = 1.0;
        for at in 0..=tokens.len() {
            let input = [&prompt[..], &tokens[..at]].concat();
            let mut cache = engine.target().new_cache().unwrap();
            let last = input.len() - 1..input.len();
            let logits = &engine.target().forward(&input, &mut cache, last).unwrap()[0];
            matcher.fill_bitmask(&mut row);
            let legal = (0..logits.len()).filter(|&t| row[t / 32] >> (t % 32) & 1 == 1);
            let legal: Vec<(usize, f64)> = legal.map(|t| (t, f64::from(logits[t]).exp())).collect();
            let sum: f64 = legal.iter().map(|l| l.1).sum();
            let chosen = |t: usize| match tokens.get(at) {
                Some(&token) => t == token as usize,
                None => vocab.eos().contains(&(t as TokenId)),
            };
            product *= legal.iter().filter(|l| chosen(l.0)).map(|l| l.1).sum::<f64>() / sum;
            if at < tokens.len() {
                matcher.accept_token(tokens[at]).unwrap();
            }
        }
        product
    };
    (0..trie.len()).map(probability).collect()
}

fn taxonomies() -> Vec<Labels> {
    vec![
        Labels::new(TOPICS.iter().copied()),
        Labels::new(TOPICS.iter().copied()).paths(" > ", Levels::Leaves),
        Labels::new(["only one"]),
        Labels::new(["invoice", "invoices", "invoice number", "invoice numbers", "in"]),
        Labels::new((0..60).map(|i| format!("{} {} {i}", WORDS[i % 5], WORDS[i % 7]))),
    ]
}

fn all(engine: &Engine, trie: &LabelTrie) -> LabelProbabilities {
    engine.label_probabilities(&Prompt::text(TEXT), trie, &LabelOptions::default()).unwrap()
}

#[test]
fn probabilities_are_products_of_single_forwards() {
    let engine = engine();
    for labels in taxonomies() {
        let trie = engine.label_trie(&labels).unwrap();
        let found = all(&engine, &trie);
        let expected = by_single_forwards(&engine, TEXT, &labels, &trie);
        assert_eq!(found.labels.len(), trie.len());
        // Products of at most 30 factors in double precision; the logits are the same, bit for bit.
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * a.max(b);
        for label in &found.labels {
            assert_eq!(label.label, trie.labels()[label.index]);
            let expected = expected[label.index];
            assert!(near(label.probability, expected), "{}: {} {expected}", label.label, label.probability);
            assert!((label.log_probability - expected.ln()).abs() < 1e-9);
        }
        let sum: f64 = found.labels.iter().map(|l| l.probability).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
        assert_eq!(found.rest, 0.0);
        assert!(found.labels.windows(2).all(|w| w[0].probability >= w[1].probability));
        assert!(found.legal_mass > 0.0 && found.legal_mass < 1.0);
        // A forward for each choice at most, fewer where one brings several along.
        assert!(found.forwards <= trie.node_count());
    }
}

#[test]
fn the_most_probable_are_found_without_the_others() {
    let engine = engine();
    let prompt = Prompt::text(TEXT);
    for labels in taxonomies() {
        let trie = engine.label_trie(&labels).unwrap();
        let every = all(&engine, &trie);
        for top in [1, 2, 3, 7] {
            let options = LabelOptions { top: Some(top), ..LabelOptions::default() };
            let found = engine.label_probabilities(&prompt, &trie, &options).unwrap();
            let same = |a: &LabelProbabilities, n: usize| {
                a.labels.iter().take(n).map(|l| (l.index, l.log_probability)).collect::<Vec<_>>()
            };
            assert_eq!(same(&found, top), same(&every, top));
            let left: f64 = every.labels.iter().skip(top).map(|l| l.probability).sum();
            assert!((found.rest - left).abs() < 1e-12, "{} {left}", found.rest);
            assert_eq!(found.legal_mass, every.legal_mass);
        }
        let options = LabelOptions { min_probability: 0.05, ..LabelOptions::default() };
        let found = engine.label_probabilities(&prompt, &trie, &options).unwrap();
        let probable = every.labels.iter().filter(|l| l.probability >= 0.05).count();
        assert_eq!(found.labels[..], every.labels[..probable]);
        let options = LabelOptions { max_forwards: Some(2), ..LabelOptions::default() };
        let found = engine.label_probabilities(&prompt, &trie, &options).unwrap();
        assert!(found.forwards <= 2 && found.labels[..] == every.labels[..found.labels.len()]);
        let sum: f64 = found.labels.iter().map(|l| l.probability).sum();
        assert!((sum + found.rest - 1.0).abs() < 1e-12);
    }
    let trie = engine.label_trie(&taxonomies()[4]).unwrap();
    let options = LabelOptions { top: Some(1), ..LabelOptions::default() };
    let one = engine.label_probabilities(&prompt, &trie, &options).unwrap();
    let every = all(&engine, &trie).forwards;
    assert!(2 * one.forwards < every, "what is not looked at costs nothing: {} of {every}", one.forwards);
}

#[test]
fn samples_are_as_frequent_as_they_are_probable() {
    let engine = engine();
    let labels = Labels::new(["invoice", "invoices", "letter", "order", "order > lamp", "travel"]);
    let trie = engine.label_trie(&labels).unwrap();
    let found = all(&engine, &trie);
    let grammar = engine.compiler().compile(&Constraint::labels(&labels)).unwrap();
    let mut counts: BTreeMap<usize, f64> = BTreeMap::new();
    let draws = 1200;
    for seed in 0..draws {
        let sampling = SamplingParams { temperature: 1.0, seed, ..SamplingParams::default() };
        let request = Request::new(Prompt::text(TEXT)).grammar(grammar.clone()).sampling(sampling);
        let output = engine.generate(&request).unwrap();
        let label = trie.parse(&output.tokens).expect("a label")[0];
        assert_eq!(output.text, format!(" {}", trie.labels()[label]));
        *counts.entry(label).or_default() += 1.0;
    }
    // Labels that are expected fewer than five times count as one class, as is usual.
    let (mut statistic, mut classes, mut rare) = (0.0, 0, (0.0, 0.0));
    for label in &found.labels {
        let expected = label.probability * draws as f64;
        let seen = counts.get(&label.index).copied().unwrap_or(0.0);
        if expected < 5.0 {
            rare = (rare.0 + expected, rare.1 + seen);
        } else {
            statistic += (seen - expected).powi(2) / expected;
            classes += 1;
        }
    }
    if rare.0 >= 5.0 {
        statistic += (rare.1 - rare.0).powi(2) / rare.0;
        classes += 1;
    }
    assert!(classes >= 3, "the labels are too unequal to be compared");
    // The quantile 0.999 of chi-square with 5 degrees of freedom, the most there can be, is 20.5.
    // The seeds are fixed, so the test always ends alike.
    assert!(statistic < 20.5, "{statistic} in {classes} classes: {counts:?}");
}

#[test]
fn places_of_a_hierarchy_add_up() {
    let engine = engine();
    let labels = Labels::new(TOPICS.iter().copied()).paths(" > ", Levels::All);
    let found = all(&engine, &engine.label_trie(&labels).unwrap());
    let own = |label: &str| found.get(label).unwrap();
    let furniture = own("order > furniture") + own("order > furniture > chairs");
    assert!((found.below("order > furniture") - furniture).abs() < 1e-15);
    assert!((found.below("order") - furniture - own("order") - own("order > lighting")).abs() < 1e-15);
    assert!((found.below("invoice") - own("invoice")).abs() < 1e-15, "a reminder is no part of it");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let engine = engine();
    let trie = engine.label_trie(&Labels::new(["a", "b"])).unwrap();
    let prompt = Prompt::text("x");
    let fails = |prompt: &Prompt, trie: &LabelTrie, options: LabelOptions| {
        engine.label_probabilities(prompt, trie, &options).expect_err("refused").kind()
    };
    let base = LabelOptions::default();
    assert_eq!(fails(&prompt, &trie, LabelOptions { top: Some(0), ..base }), ErrorKind::InvalidOption);
    assert_eq!(
        fails(&prompt, &trie, LabelOptions { min_probability: f64::NAN, ..base }),
        ErrorKind::InvalidOption
    );
    assert_eq!(fails(&Prompt::default(), &trie, base), ErrorKind::InvalidOption);
    let long = Prompt::text("word ".repeat(10_000));
    assert_eq!(fails(&long, &trie, base), ErrorKind::PromptTooLong);
    let several = engine.label_trie(&Labels::new(["a", "b"]).several(", ")).unwrap();
    assert_eq!(fails(&prompt, &several, base), ErrorKind::InvalidOption);
    let other = ffwd::Vocabulary::from_file(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/examples/data/shakespeare-char-1m/tokenizer.json"
    ))
    .unwrap();
    let other = Labels::new(["a", "b"]).trie(&other).unwrap();
    assert_eq!(fails(&prompt, &other, base), ErrorKind::Tokenizer);
    // The same tokenizer loaded once more is no other one.
    let again = ffwd::model::embedded::vocabulary().unwrap();
    let again = Labels::new(["a", "b"]).trie(&again).unwrap();
    assert!(engine.label_probabilities(&prompt, &again, &base).is_ok());
}
