//! Origins of tokens agree with the statistics in every mode, alone and in a batch, and with a
//! replay of drafts that the test itself makes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ffwd::decode::{BySource, Scheduler, TokenOrigin, TokenSource};
use ffwd::draft::DraftSource;
use ffwd::{Constraint, Mode, Output, Prompt, Request, SchedulerOptions, extract};
use ffwd_testkit::random::Random;

use crate::common::exact::engine;
use crate::common::schemas::{SCHEMAS, TEXT};

/// Schemas in all modes and with several mixes of sources, thinking, and a completion at the limit.
pub(crate) fn requests() -> Vec<Request> {
    let mut requests = Vec::new();
    for mode in Mode::ALL {
        for schema in SCHEMAS {
            let request = || extract::embedded::request(schema, TEXT).unwrap().max_tokens(120).mode(mode);
            requests.push(request());
            requests.push(request().without_gate());
            requests.push(request().without_gate().draft_model(false));
            requests.push(request().without_gate().lookup(false).temperature(1.0).seed(5));
            requests.push(request().close_before_limit(true).max_tokens(25));
        }
        let choice = Constraint::choice(["yes", "no"]).unwrap();
        requests.push(Request::new(Prompt::text(TEXT)).constraint(choice).think_until("</t>", 12).mode(mode));
    }
    requests
}

fn count(output: &Output, source: TokenSource) -> usize {
    output.origins.iter().filter(|origin| origin.source == source).count()
}

/// Checks the sums against the statistics.
fn check(output: &Output) {
    let stats = &output.stats;
    assert_eq!(output.origins.len(), output.tokens.len());
    assert_eq!(stats.taken_back, 0, "the sums hold only without cuts");
    let mut accepted = BySource::default();
    for source in DraftSource::ALL {
        accepted[source] = count(output, TokenSource::Proposed(source));
    }
    assert_eq!(accepted[DraftSource::Forced], stats.forced);
    // Forced runs of the unverified modes are not drafts.
    accepted[DraftSource::Forced] -= stats.forced - stats.accepted_by_source[DraftSource::Forced];
    assert_eq!(accepted, stats.accepted_by_source);
    assert_eq!(count(output, TokenSource::Unverified), stats.unverified);
    let rejected: usize = output.origins.iter().map(|origin| origin.rejected as usize).sum();
    assert!(rejected <= stats.drafted - stats.accepted, "{rejected} {stats:?}");
    if stats.mode == Mode::Off {
        assert_eq!(count(output, TokenSource::Sampled) + stats.unverified, stats.tokens);
    }
}

#[test]
fn sums_are_those_of_the_statistics() {
    let engine = Arc::new(engine());
    let scheduler = Scheduler::new(engine.clone(), SchedulerOptions::with_batch(8)).unwrap();
    let handles: Vec<_> =
        requests().into_iter().map(|request| scheduler.submit(request.origins(true)).unwrap()).collect();
    let mut seen: HashMap<TokenSource, usize> = HashMap::new();
    let mut rejected = 0;
    for (request, handle) in requests().into_iter().zip(handles) {
        let plain = engine.generate(&request).unwrap();
        assert!(plain.origins.is_empty());
        let output = engine.generate(&request.origins(true)).unwrap();
        assert_eq!(output.tokens, plain.tokens);
        check(&output);
        check(&handle.wait().unwrap());
        for origin in &output.origins {
            *seen.entry(origin.source).or_default() += 1;
            rejected += origin.rejected;
        }
    }
    let drafts = [DraftSource::Forced, DraftSource::Lookup, DraftSource::Model].map(TokenSource::Proposed);
    for source in drafts.into_iter().chain([TokenSource::Sampled]) {
        assert!(seen[&source] > 20, "{source:?}: {seen:?}");
    }
    assert!(seen[&TokenSource::Unverified] > 0, "{seen:?}");
    assert!(rejected > 20);
}

/// A draft source that knows the truth and errs at random; it notes each of its drafts.
#[test]
fn rejected_drafts_are_those_of_a_replay() {
    let engine = engine();
    let mut rejected = 0;
    for seed in 0..12 {
        let schema = SCHEMAS[seed as usize % SCHEMAS.len()];
        let request = || extract::embedded::request(schema, TEXT).unwrap().max_tokens(120).without_gate();
        let off = engine.generate(&request().mode(Mode::Off)).unwrap();
        let (truth, prompt) = (off.tokens.clone(), off.stats.prompt_tokens);
        let drafts = Arc::new(Mutex::new(Vec::new()));
        let (noted, known, mut random) = (drafts.clone(), truth.clone(), Random::new(seed));
        let source = move |history: &[u32]| -> Vec<u32> {
            let at = history.len() - prompt;
            let mut draft = known[at..(at + random.below(9)).min(known.len())].to_vec();
            if let Some(last) = draft.last_mut().filter(|_| random.below(2) == 0) {
                *last = known[random.below(known.len())];
            }
            noted.lock().unwrap().push((at, draft.clone()));
            draft
        };
        let request = request().draft_override(Box::new(source)).origins(true);
        let output = engine.generate(&request).unwrap();
        assert_eq!(output.tokens, truth);

        let copied = TokenSource::Proposed(DraftSource::Lookup);
        let sampled = TokenOrigin { source: TokenSource::Sampled, rejected: 0 };
        let mut expected = vec![sampled; truth.len()];
        let legal = |at: usize, draft: &[u32]| {
            let mut matcher = grammar(&engine, schema).matcher();
            truth[..at].iter().for_each(|&token| matcher.accept_token(token).unwrap());
            // One token of the limit is left for the model's own.
            matcher.validate_tokens(draft).min(120 - at - 1)
        };
        for (at, draft) in drafts.lock().unwrap().iter() {
            let draft = &draft[..legal(*at, draft)];
            let same = draft.iter().zip(&truth[*at..]).take_while(|(a, b)| a == b).count();
            expected[*at..*at + same].iter_mut().for_each(|origin| origin.source = copied);
            if let Some(origin) = expected.get_mut(at + same) {
                origin.rejected = (draft.len() - same) as u32;
                rejected += origin.rejected;
            }
        }
        assert_eq!(output.origins, expected, "seed {seed}");
    }
    assert!(rejected > 5);
}

fn grammar(engine: &ffwd::Engine, schema: &str) -> ffwd::CompiledGrammar {
    let builder = Constraint::builder().source(TEXT, &Default::default());
    engine.compiler().compile(&builder.json_schema(schema).unwrap()).unwrap()
}
