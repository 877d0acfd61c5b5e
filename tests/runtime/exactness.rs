//! `exact` gives the tokens of `off`: greedy and sampled, with every mix of draft sources, bad
//! sources included.

use ffwd::decode::BySource;
use ffwd::draft::DraftSource;
use ffwd::sample::SamplingParams;
use ffwd::{Constraint, Engine, ErrorKind, Finish, Mode, Output, Prompt, Request, extract};
use ffwd_testkit::env;
use ffwd_testkit::random::Random;

use crate::common::exact::engine;
use crate::common::schemas::{SCHEMAS, TEXT};

pub(crate) fn requests() -> Vec<Box<dyn Fn() -> Request>> {
    let mut requests: Vec<Box<dyn Fn() -> Request>> = Vec::new();
    for schema in SCHEMAS {
        requests.push(Box::new(move || extract::embedded::request(schema, TEXT).unwrap().max_tokens(120)));
    }
    for regex in ["[A-Z][a-z]+( [A-Z][a-z]+){0,3}", "(yes|no|maybe not), because [a-z ]{5,30}\\."] {
        let constraint = Constraint::regex(regex).unwrap();
        requests.push(Box::new(move || {
            Request::new(Prompt::text(TEXT)).constraint(constraint.clone()).max_tokens(60)
        }));
    }
    let choice = Constraint::choice(["invoice", "invoice reminder", "letter"]).unwrap();
    requests.push(Box::new(move || Request::new(Prompt::text(TEXT)).constraint(choice.clone())));
    requests.push(Box::new(|| {
        Request::new(Prompt::text(TEXT)).constraint(Constraint::json_object()).max_tokens(60)
    }));
    requests
}

pub(crate) fn samplings() -> Vec<SamplingParams> {
    let base = SamplingParams::default();
    let mut all = vec![base.clone()];
    for seed in 0..3 {
        all.push(SamplingParams { temperature: 1.0, seed, ..base.clone() });
        all.push(SamplingParams { temperature: 0.7, top_p: 0.9, seed, ..base.clone() });
        all.push(SamplingParams { temperature: 1.3, top_k: Some(20), min_p: 0.02, seed, ..base.clone() });
        all.push(SamplingParams {
            temperature: 0.8,
            repetition_penalty: 1.2,
            frequency_penalty: 0.1,
            seed,
            ..base.clone()
        });
    }
    all
}

pub(crate) fn check(exact: &Output, off: &Output, what: &str) {
    assert_eq!(exact.tokens, off.tokens, "{what}: {:?} against {:?}", exact.text, off.text);
    assert_eq!(exact.finish, off.finish, "{what}");
    let stats = &exact.stats;
    assert_eq!(stats.accepted_by_source.total(), stats.accepted);
    assert_eq!(stats.drafted_by_source.total(), stats.drafted);
    assert_eq!(stats.tokens, exact.tokens.len());
    // Every forward gives one token of its own, but the last may give the end instead, or end by a
    // draft, and one in a string that is cut gives none.
    let own = stats.tokens + stats.taken_back - stats.accepted;
    let most = own + 1 + stats.shortened.len();
    assert!(own <= stats.forwards && stats.forwards <= most, "{stats:?}");
}

/// The request with a random mix of draft sources and a random window.
pub(crate) fn mixed(request: Request, random: &mut Random) -> Request {
    let request = request
        .forced_runs(random.below(8) > 0)
        .lookup(random.below(4) > 0)
        .draft_model(random.below(3) > 0)
        .max_draft(1 + random.below(40));
    if random.below(3) > 0 { request.without_gate() } else { request }
}

#[test]
fn exact_equals_off_for_all_sources_and_samplings() {
    let engine = engine();
    let mut saved = (0, 0);
    for (i, request) in requests().iter().enumerate() {
        for (j, sampling) in samplings().into_iter().enumerate() {
            let request = || request().sampling(sampling.clone());
            let off = engine.generate(&request().mode(Mode::Off)).unwrap();
            // One forward for each token, for the end, and for each position of a cut.
            let (more, back) = (off.stats.forwards - off.stats.tokens, off.stats.taken_back);
            assert!(back <= more && more <= back + 1 + off.stats.shortened.len(), "{:?}", off.stats);
            let variants = [
                request(),
                request().without_gate(),
                request().without_gate().lookup(false),
                request().without_gate().draft_model(false),
                request().without_gate().draft_model(false).lookup(false).max_draft(3),
            ];
            for (k, variant) in variants.iter().enumerate() {
                let exact = engine.generate(variant).unwrap();
                check(&exact, &off, &format!("request {i}, sampling {j}, variant {k}"));
                if k == 1 {
                    saved = (saved.0 + off.stats.forwards, saved.1 + exact.stats.forwards);
                }
            }
        }
    }
    eprintln!("forwards: {} off, {} exact", saved.0, saved.1);
    assert!(saved.1 * 2 <= saved.0);
}

#[test]
fn bad_drafts_change_nothing() {
    let engine = engine();
    let schema = SCHEMAS[0];
    for sampling in samplings().into_iter().take(5) {
        let request =
            || extract::embedded::request(schema, TEXT).unwrap().max_tokens(120).sampling(sampling.clone());
        let off = engine.generate(&request().mode(Mode::Off)).unwrap();
        for kind in 0..4 {
            let source = adversary(&off, engine.vocabulary().len(), kind, 12345 + kind as u64);
            let request = request().without_gate().draft_override(source);
            let exact = engine.generate(&request).unwrap();
            assert_eq!(exact.tokens, off.tokens, "adversary {kind}");
        }
    }
}

#[test]
fn random_mixes_of_sources_and_windows_change_nothing() {
    let engine = engine();
    let samplings = samplings();
    let requests = requests();
    let mut random = Random::new(7);
    let (mut copied, mut forced, mut drafted) = (0, 0, 0);
    for round in 0..120 {
        let sampling = samplings[random.below(samplings.len())].clone();
        let i = random.below(requests.len());
        let request = || requests[i]().sampling(sampling.clone());
        let off = engine.generate(&request().mode(Mode::Off)).unwrap();
        // What may be copied: the text, the output itself, the output in part and something else,
        // nothing like it.
        let half: String = off.text.chars().take(off.text.chars().count() / 2).collect();
        let source = match random.below(4) {
            0 => TEXT.to_string(),
            1 => off.text.clone(),
            2 => format!("{half}\n{half} \"\\ number: x, name: \u{e9}\u{1f600}\n{TEXT}"),
            _ => "name: \"\", number: \\u0000\u{7}, total: }}]]".to_string(),
        };
        let exact = engine.generate(&mixed(request().source(source), &mut random)).unwrap();
        check(&exact, &off, &format!("round {round}"));
        let by_source = exact.stats.accepted_by_source;
        copied += by_source[DraftSource::Lookup];
        forced += by_source[DraftSource::Forced];
        drafted += by_source[DraftSource::Model];
    }
    assert!(copied > 100 && forced > 100 && drafted > 100, "{copied}, {forced}, {drafted}");
}

#[test]
fn one_draft_passes_through_several_values() {
    let engine = engine();
    let off =
        engine.generate(&extract::embedded::request(SCHEMAS[0], TEXT).unwrap().mode(Mode::Off)).unwrap();
    assert_eq!(off.finish, Finish::Stop);
    // The values under their keys, as a form would have them: every one can be copied where it
    // opens.
    let record: serde_json::Value = serde_json::from_str(&off.text).unwrap();
    let form: String =
        ["number", "vendor"].iter().map(|k| format!("{k}: {}\n", record[*k].as_str().unwrap())).collect();
    let request = || {
        extract::embedded::request(SCHEMAS[0], TEXT).unwrap().without_gate().draft_model(false).max_draft(64)
    };
    let without = engine.generate(&request().lookup(false)).unwrap();
    let with = engine.generate(&request().source(form)).unwrap();
    check(&with, &off, "copied");
    check(&without, &off, "forced only");
    // Key, value, quote, key, value, quote, key in as many forwards as tokenisations are missed.
    assert!(with.stats.forwards + 8 <= without.stats.forwards, "{:?} {:?}", with.stats, without.stats);
    assert!(with.stats.accepted_by_source[DraftSource::Lookup] > 5);
}

#[test]
fn free_text_is_copied_without_a_constraint() {
    let engine = engine();
    let request = || Request::new(extract::embedded::prompt(SCHEMAS[0], TEXT)).max_tokens(48);
    let off = engine.generate(&request().mode(Mode::Off)).unwrap();
    let exact = engine.generate(&request().without_gate().source(&off.text)).unwrap();
    check(&exact, &off, "free text");
    assert!(exact.stats.accepted > 0 && exact.stats.forwards < off.stats.forwards);
}

#[test]
fn every_token_limit_cuts_both_alike() {
    let engine = engine();
    let schema = SCHEMAS[1];
    let whole = engine
        .generate(&extract::embedded::request(schema, TEXT).unwrap().mode(Mode::Off).max_tokens(200))
        .unwrap();
    for limit in 1..whole.tokens.len().min(40) {
        let request = || extract::embedded::request(schema, TEXT).unwrap().max_tokens(limit);
        let off = engine.generate(&request().mode(Mode::Off)).unwrap();
        let exact = engine.generate(&request().without_gate()).unwrap();
        check(&exact, &off, &format!("limit {limit}"));
        assert_eq!(off.tokens, whole.tokens[..limit]);
        assert!(matches!(off.finish, Finish::Length { .. }));
    }
}

#[test]
fn streamed_pieces_are_the_text() {
    let engine = engine();
    let mut pieces = String::new();
    let request = extract::embedded::request(SCHEMAS[0], TEXT).unwrap().max_tokens(120);
    let output = engine.generate_streaming(&request, &mut |piece| pieces.push_str(piece)).unwrap();
    assert_eq!(pieces, output.text);
    assert_eq!(output.text.as_bytes(), engine.vocabulary().decode(&output.tokens));
}

#[test]
fn unverified_modes_keep_to_the_constraint_and_report_their_survival() {
    let engine = engine();
    for mode in [Mode::Canonical, Mode::Longest] {
        let output = engine
            .generate(&extract::embedded::request(SCHEMAS[0], TEXT).unwrap().mode(mode).max_tokens(300))
            .unwrap();
        let survival = output.stats.survival.unwrap();
        assert!((0.0..=1.0 + 1e-6).contains(&survival), "{survival}");
        assert!(output.stats.forced > 0);
        if output.finish == Finish::Stop {
            serde_json::from_str::<serde_json::Value>(&output.text).unwrap();
        }
    }
}

#[test]
fn a_prompt_beyond_the_context_is_refused() {
    let error = engine()
        .generate(&extract::embedded::request(SCHEMAS[0], "word ".repeat(4000)).unwrap())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PromptTooLong);
    assert!(error.hint_text().is_some());
}

/// A draft source between perfect and hopeless: what was chosen without drafts, with errors; legal
/// tokens at random; or anything, also beyond the vocabulary of this size.
pub(crate) fn adversary(off: &Output, size: usize, kind: usize, seed: u64) -> ffwd::decode::DraftOverride {
    let (truth, prompt) = (off.tokens.clone(), off.stats.prompt_tokens);
    let mut random = Random::new(seed);
    Box::new(move |history: &[u32]| {
        let rest = &truth[(history.len() - prompt).min(truth.len())..];
        let mut tokens = rest.to_vec();
        match kind {
            0 => {}
            1 => {
                let at = random.below(tokens.len().max(1));
                tokens.iter_mut().skip(at).for_each(|t| *t = random.below(size) as u32);
            }
            2 => tokens.insert(random.below(tokens.len() + 1), random.below(size) as u32),
            _ => tokens = (0..random.below(12)).map(|_| random.below(size + size / 4) as u32).collect(),
        }
        tokens
    })
}

/// `FFWD_EXACTNESS` generations, each with a text, constraint, sampling, limit and mix of sources
/// of its own. `FFWD_EXACTNESS_PRECISION` runs them in another precision, `FFWD_EXACTNESS_MODEL` and
/// `FFWD_EXACTNESS_DRAFT` with other models, `FFWD_EXACTNESS_SEED` in another series.
/// `FFWD_EXACTNESS_DEVICE` runs them on a device, where the bits of a row depend on other rows:
/// differences are counted.
#[test]
fn many_generations_are_those_of_off() {
    let wanted = env::exactness();
    let (precision, device) = (env::exactness_precision(), env::exactness_device());
    let engine = match (&precision, &device, env::exactness_model()) {
        (None, None, None) => engine(),
        (_, _, model) => {
            let options = ffwd::model::LoadOptions {
                precision: precision.as_ref().map_or_else(Default::default, |p| p.parse().unwrap()),
                device: device.as_ref().map(|d| d.parse().unwrap()),
                ..Default::default()
            };
            let mut builder = Engine::builder().options(options);
            if let Some(model) = model {
                builder = builder.model(model);
            }
            if let Some(draft) = env::exactness_draft() {
                builder = builder.draft_model(draft);
            }
            builder.build().unwrap()
        }
    };
    let size = engine.vocabulary().len();
    let promised = engine.target().is_batch_invariant() || env::exactness_device().is_none();
    let mut different = 0;
    let constraints: Vec<Constraint> = SCHEMAS[..3]
        .iter()
        .map(|s| Constraint::json_schema(s).unwrap())
        .chain(
            ["[A-Z][a-z]+( [A-Z][a-z]+){0,3}", "[0-9]{1,3}(,[0-9]{3})*\\.[0-9]{2}"]
                .map(|r| Constraint::regex(r).unwrap()),
        )
        .chain([
            Constraint::choice(["invoice", "invoice reminder", "letter"]).unwrap(),
            Constraint::json_object(),
        ])
        .collect();
    let grammars: Vec<_> = constraints.iter().map(|c| engine.compiler().compile(c).unwrap()).collect();
    let samplings = samplings();
    let mut random = Random::new(20_417 + env::exactness_seed());
    let (mut compared, mut greedy, mut drafted, mut accepted, mut forwards) = (0, 0, 0, 0, [0, 0]);
    let mut by_source = BySource::default();
    while compared < wanted {
        let text: String = TEXT.chars().skip(random.below(80)).take(20 + random.below(80)).collect();
        let grammar = grammars.get(random.below(grammars.len() + 1));
        // Every third is greedy.
        let sampling =
            &samplings[if random.below(3) == 0 { 0 } else { 1 + random.below(samplings.len() - 1) }];
        let sampling = SamplingParams { seed: random.below(1 << 30) as u64, ..sampling.clone() };
        let limit = 4 + random.below(40);
        let request = || {
            let request = Request::new(Prompt::text(&text)).sampling(sampling.clone()).max_tokens(limit);
            match grammar {
                Some(grammar) => request.grammar(grammar.clone()),
                None => request,
            }
        };
        let off = engine.generate(&request().mode(Mode::Off)).unwrap();
        forwards[0] += 4 * off.stats.forwards;
        for variant in 0..4 {
            let source = if random.below(2) > 0 { text.clone() } else { off.text.clone() };
            let mut exact = mixed(request().source(source), &mut random);
            if variant == 3 {
                exact = exact.draft_override(adversary(&off, size, random.below(4), compared as u64));
            }
            let exact = engine.generate(&exact).unwrap();
            if promised || exact.tokens == off.tokens {
                check(&exact, &off, &format!("generation {compared}"));
            } else {
                different += 1;
            }
            compared += 1;
            greedy += usize::from(sampling.is_greedy());
            drafted += exact.stats.drafted;
            accepted += exact.stats.accepted;
            forwards[1] += exact.stats.forwards;
            by_source.add(&exact.stats.accepted_by_source);
        }
    }
    if different > 0 {
        eprintln!("{different} of these generations differ from off");
    }
    eprintln!(
        "{compared} generations ({greedy} greedy) are those of off: {} forwards for {}, {accepted} of {drafted} proposals \
         accepted: {by_source:?}",
        forwards[1], forwards[0]
    );
    assert!(accepted > 0 && accepted < drafted);
}
