//! The trace of a generation is that of its output: its tokens joined are the output, and its counts
//! are those of the statistics, in every mode, alone and in a batch.

use std::sync::Arc;

use ffwd::decode::{BySource, Event, ForwardTrace, HandleEvent, Scheduler, TokenSource};
use ffwd::{Mode, Output, Request, SchedulerOptions, extract};

use crate::common::exact::engine;
use crate::common::schemas::TEXT;
use crate::origins::requests;

/// A string that does not fit, so that tokens are taken back.
const SHORT: &str = r#"{"type":"object","properties":{"summary":{"type":"string","maxLength":25}},
    "required":["summary"],"additionalProperties":false}"#;

/// Those of the origins, and some in which tokens are taken back.
fn traced() -> Vec<Request> {
    let mut all = requests();
    for seed in 0..40 {
        let request = extract::embedded::request(SHORT, TEXT).unwrap().end_at_words(true).max_tokens(60);
        all.push(request.temperature(1.5).seed(seed).without_gate());
    }
    all.into_iter().map(|request| request.trace(true)).collect()
}

/// Checks the steps of a generation against its output; returns the number of rejected tokens.
fn check(steps: &[ForwardTrace], output: &Output) -> usize {
    let stats = &output.stats;
    let mut tokens = Vec::new();
    let mut drafted = BySource::default();
    let (mut accepted, mut rejected) = (0, 0);
    let mut draft_forwards = 0;
    for step in steps {
        assert_eq!(step.begin, tokens.len());
        tokens.extend(step.tokens.iter().copied());
        let proposed = step.tokens.iter().filter(|_| step.positions > 0);
        for token in proposed {
            if let TokenSource::Proposed(source) = token.source {
                drafted[source] += 1;
                accepted += 1;
            }
        }
        let here: usize = step.rejected.iter().map(|draft| draft.tokens.len()).sum();
        for token in step.rejected.iter().flat_map(|draft| &draft.tokens) {
            let TokenSource::Proposed(source) = token.source else { panic!("{token:?}") };
            drafted[source] += 1;
        }
        for draft in &step.rejected {
            assert!(!draft.tokens.is_empty());
            assert!(draft.after >= step.begin, "{step:?}");
        }
        assert!(step.positions == 0 || step.positions > here, "{step:?}");
        rejected += here;
        draft_forwards += step.draft_forwards;
        tokens.truncate(tokens.len() - step.taken_back);
    }
    let (ids, sources): (Vec<_>, Vec<_>) = tokens.iter().map(|token| (token.token, token.source)).unzip();
    assert_eq!(ids, output.tokens);
    assert_eq!(sources, output.origins.iter().map(|origin| origin.source).collect::<Vec<_>>());
    let forwards: Vec<usize> =
        steps.iter().filter(|step| step.positions > 0).map(|step| step.forward).collect();
    assert_eq!(forwards, (1..=stats.forwards).collect::<Vec<_>>());
    assert_eq!((drafted, accepted), (stats.drafted_by_source, stats.accepted));
    assert_eq!(accepted + rejected, stats.drafted);
    assert_eq!(steps.iter().map(|step| step.taken_back).sum::<usize>(), stats.taken_back);
    assert_eq!(draft_forwards, stats.draft_forwards);
    if stats.mode == Mode::Off && stats.taken_back + stats.unverified == 0 {
        assert!(steps.iter().filter(|step| step.begin > 0).all(|step| step.positions == 1), "{steps:?}");
    }
    rejected
}

#[test]
fn the_trace_is_that_of_the_output() {
    let engine = Arc::new(engine());
    let scheduler = Scheduler::new(engine.clone(), SchedulerOptions::with_batch(8)).unwrap();
    let handles: Vec<_> =
        traced().into_iter().map(|request| scheduler.submit(request.events(true)).unwrap()).collect();
    let (mut rejected, mut taken_back) = (0, 0);
    for (request, mut handle) in traced().into_iter().zip(handles) {
        let plain = engine.generate(&request).unwrap();
        let mut steps = Vec::new();
        let mut note = |event: Event| {
            if let Event::Forward(step) = event {
                steps.push(step.clone());
            }
        };
        let output = engine.generate_events(&request, &mut note).unwrap();
        assert_eq!(output.tokens, plain.tokens);
        rejected += check(&steps, &output);
        taken_back += output.stats.taken_back;

        let mut steps = Vec::new();
        while let Some(event) = handle.next_event() {
            if let HandleEvent::Forward(step) = event {
                steps.push(*step);
            }
        }
        let batched = handle.wait().unwrap();
        rejected += check(&steps, &batched);
    }
    assert!(rejected > 50 && taken_back > 0, "{rejected} rejected, {taken_back} taken back");
}

#[test]
fn nothing_is_traced_unless_requested() {
    let request = extract::embedded::request(SHORT, TEXT).unwrap();
    let mut forwards = 0;
    let mut count = |event: Event| forwards += usize::from(matches!(event, Event::Forward(_)));
    let output = engine().generate_events(&request, &mut count).unwrap();
    assert_eq!((forwards, output.origins.len()), (0, 0));
}
