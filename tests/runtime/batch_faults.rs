//! Faults in a batch: the one request fails with a reason, every other request continues as if
//! alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use ffwd::decode::{CancelToken, Handle, HandleEvent, Scheduler, SchedulerOptions};
use ffwd::model::Model;
use ffwd::sample::SamplingParams;
use ffwd::{Constraint, Engine, Error, ErrorKind, Finish, Mode, Output, Prompt, Request, extract};

use crate::common::exact;

const TEXT: &str =
    "Invoice INV-20417 from Bright Glacier Consulting, issued 14 March 2024. Total: 1840.00 EUR.";
const SCHEMA: &str = r#"{"type":"object","properties":{"number":{"type":"string"},"vendor":{"type":"string"},
    "total":{"type":"number"}},"required":["number","vendor","total"],"additionalProperties":false}"#;

/// Sound requests of several kinds.
fn sound(i: usize) -> Request {
    let request = match i % 3 {
        0 => extract::embedded::request(SCHEMA, TEXT).unwrap().max_tokens(80),
        1 => Request::new(Prompt::text(TEXT)).constraint(Constraint::regex("[a-z ]{20,60}\\.").unwrap()),
        _ => Request::new(extract::embedded::prompt("{}", TEXT)).max_tokens(40),
    };
    request.temperature(if i.is_multiple_of(2) { 0.0 } else { 0.9 }).seed(i as u64)
}

/// The engine, and a scheduler of it for `batch` requests at once, with further options.
fn scheduler(batch: usize, change: impl FnOnce(&mut SchedulerOptions)) -> (Arc<Engine>, Scheduler) {
    let engine = Arc::new(exact::engine());
    let mut options = SchedulerOptions::with_batch(batch);
    change(&mut options);
    let scheduler = Scheduler::new(engine.clone(), options).unwrap();
    (engine, scheduler)
}

/// The first sound requests.
fn submit_sound(scheduler: &Scheduler, count: usize) -> Vec<Handle> {
    (0..count).map(|i| scheduler.submit(sound(i)).unwrap()).collect()
}

/// Checks that the first sound requests give what they give alone.
fn assert_sound(engine: &Engine, handles: Vec<Handle>, what: &str) {
    for (i, handle) in handles.into_iter().enumerate() {
        assert_same(
            &handle.wait().unwrap(),
            &engine.generate(&sound(i)).unwrap(),
            &format!("request {i}{what}"),
        );
    }
}

/// A request that says one token over and over, so that forwards can tell it by.
const MARK: u32 = 3999;

fn marked(tokens: usize) -> Request {
    let bias = SamplingParams { logit_bias: vec![(MARK, 1e6)], ..SamplingParams::default() };
    Request::new(Prompt::text("a marked request")).sampling(bias).max_tokens(tokens).mode(Mode::Off)
}

fn parts() -> (Model, Option<Model>, ffwd::Vocabulary) {
    let engine = exact::engine();
    (engine.target().clone(), engine.draft().cloned(), engine.vocabulary().clone())
}

fn assert_same(output: &Output, alone: &Output, what: &str) {
    assert_eq!(output.tokens, alone.tokens, "{what}: {:?} against {:?}", output.text, alone.text);
    assert_eq!(output.finish, alone.finish, "{what}");
}

/// Runs the marked request among sound ones with a target that does `fault` to it after a few
/// forwards; the marked one's result.
fn with_fault(
    fault: impl Fn(usize, &mut [Vec<f32>]) -> Result<(), Error> + Send + Sync + 'static,
) -> Result<Output, Error> {
    let (target, draft, vocab) = parts();
    let healthy = Engine::from_parts(target.clone(), draft.clone(), vocab.clone()).unwrap();
    let alone = (0..7).map(|i| healthy.generate(&sound(i)).unwrap());
    assert!(alone.into_iter().all(|o| !o.tokens.contains(&MARK)), "choose another mark");
    let seen = AtomicUsize::new(0);
    let target = target.with_logits_hook(move |tokens, count, logits| {
        if tokens.contains(&MARK) && seen.fetch_add(1, Ordering::SeqCst) >= 3 {
            return fault(count, logits);
        }
        Ok(())
    });
    let engine = Arc::new(Engine::from_parts(target, draft, vocab).unwrap());
    let scheduler = Scheduler::new(engine, SchedulerOptions::with_batch(8)).unwrap();
    let bad = scheduler.submit(marked(400)).unwrap();
    let handles = submit_sound(&scheduler, 7);
    assert_sound(&healthy, handles, "");
    let bad = bad.wait();
    // The place is free again, and so is the memory.
    assert_sound(&healthy, submit_sound(&scheduler, 1), " afterwards");
    bad
}

#[test]
fn a_target_that_fails_for_one_sequence_fails_that_one() {
    let error = with_fault(|_, _| Err(Error::new(ErrorKind::Model, "out of order"))).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Model, "out of order"));
    let nan = |_, logits: &mut [Vec<f32>]| {
        logits.iter_mut().for_each(|row| row.fill(f32::NAN));
        Ok(())
    };
    assert_eq!(with_fault(nan).unwrap_err().kind(), ErrorKind::Model);
    // One that fails only in company fails for nothing.
    let fault = |count, _: &mut [Vec<f32>]| match count {
        1 => Ok(()),
        _ => Err(Error::new(ErrorKind::Model, "too many")),
    };
    assert_eq!(with_fault(fault).unwrap().tokens, [MARK; 400]);
}

/// In a batch and alone.
#[test]
fn a_target_that_panics_is_an_error_of_the_generation() {
    let (target, draft, vocab) = parts();
    let target = target.with_logits_hook(|_, _, _| panic!("a fault on purpose"));
    let alone = Engine::from_parts(target, draft, vocab).unwrap().generate(&sound(0));
    for result in [alone, with_fault(|_, _| panic!("a fault on purpose"))] {
        let error = result.unwrap_err();
        assert!(error.kind() == ErrorKind::Model && error.hint_text().is_some(), "{error}");
    }
}

#[test]
fn a_draft_model_may_do_what_it_likes() {
    let (target, draft, vocab) = parts();
    let draft = draft.unwrap();
    let healthy = Engine::from_parts(target.clone(), Some(draft.clone()), vocab.clone()).unwrap();
    for kind in 0..5 {
        let calls = AtomicUsize::new(0);
        let bad = draft.clone().with_logits_hook(move |_, _, logits| {
            let call = calls.fetch_add(1, Ordering::SeqCst);
            for row in logits.iter_mut() {
                match kind {
                    0 => row.fill(f32::NAN),
                    1 => row.fill(f32::NEG_INFINITY),
                    2 => row.iter_mut().enumerate().for_each(|(i, l)| *l = ((i * 7919 + call) % 4096) as f32),
                    3 if call % 3 == 2 => return Err(Error::new(ErrorKind::Model, "out of order")),
                    4 if call % 5 == 4 => panic!("a fault on purpose"),
                    _ => {}
                }
            }
            Ok(())
        });
        let engine = Arc::new(Engine::from_parts(target.clone(), Some(bad), vocab.clone()).unwrap());
        if kind < 4 {
            let alone = engine.generate(&sound(0).without_gate()).unwrap();
            assert_same(&alone, &healthy.generate(&sound(0)).unwrap(), "not in a batch");
        }
        let scheduler = Scheduler::new(engine, SchedulerOptions::with_batch(6)).unwrap();
        let handles = (0..6).map(|i| scheduler.submit(sound(i).without_gate()).unwrap()).collect();
        assert_sound(&healthy, handles, &format!(", fault {kind}"));
        assert!(scheduler.stats().draft_forwards > 0);
    }
}

#[test]
fn a_request_that_cannot_be_fails_alone() {
    let (engine, scheduler) = scheduler(4, |_| ());
    // Compiling hits its budget: more states than an automaton may have.
    let digits = Constraint::regex("(?:[0-9][0-9]){45000}").unwrap();
    let many = (0..11).fold(digits.clone(), |all, _| all.then(&digits).unwrap());
    let plain = || Request::new(Prompt::text(TEXT));
    let bad: Vec<(Request, ErrorKind)> = vec![
        (plain().constraint(many), ErrorKind::TooComplex),
        (Request::new(Prompt::text("word ".repeat(4000))), ErrorKind::PromptTooLong),
        (Request::new(Prompt::default()), ErrorKind::InvalidOption),
        (plain().temperature(-1.0), ErrorKind::InvalidOption),
        (plain().think_until("</t>", 3), ErrorKind::InvalidOption),
    ];
    let mut handles = Vec::new();
    for (i, (request, kind)) in bad.into_iter().enumerate() {
        handles.push((scheduler.submit(sound(i)).unwrap(), Ok(i)));
        handles.push((scheduler.submit(request).unwrap(), Err(kind)));
    }
    for (handle, expected) in handles {
        match expected {
            Ok(i) => {
                let alone = engine.generate(&sound(i)).unwrap();
                assert_same(&handle.wait().unwrap(), &alone, &format!("request {i}"));
            }
            Err(kind) => assert_eq!(handle.wait().unwrap_err().kind(), kind),
        }
    }
}

#[test]
fn contexts_that_overflow_end_by_length() {
    let (engine, scheduler) = scheduler(4, |_| ());
    let context = engine.target().config().context;
    let long = || {
        let bias = SamplingParams { logit_bias: vec![(MARK, 1e6)], ..SamplingParams::default() };
        // Two tokens each.
        let text = "word ".repeat(context / 2 - 20);
        Request::new(Prompt::text(text)).sampling(bias).max_tokens(10_000)
    };
    let alone = engine.generate(&long()).unwrap();
    assert!(matches!(alone.finish, Finish::Length { .. }));
    assert_eq!(alone.stats.prompt_tokens + alone.tokens.len(), context);
    let neighbours = submit_sound(&scheduler, 3);
    assert_same(&scheduler.submit(long()).unwrap().wait().unwrap(), &alone, "the long one");
    assert_sound(&engine, neighbours, ", a neighbour");
}

#[test]
fn memory_for_caches_is_a_limit() {
    let (target, draft, _) = parts();
    let bytes =
        |positions| target.cache_bytes(positions) + draft.as_ref().map_or(0, |d| d.cache_bytes(positions));
    // Two requests of up to 512 positions; one of more than a thousand never fits.
    let limit = 2 * bytes(512);
    let (engine, scheduler) =
        scheduler(16, |options| (options.cache_bytes, options.prefix_bytes) = (limit, bytes(100)));
    let large = scheduler.submit(marked(1100)).unwrap();
    let handles = submit_sound(&scheduler, 12);
    let error = large.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooComplex);
    assert!(error.hint_text().unwrap().contains("cache_bytes"));
    assert_sound(&engine, handles, "");
    let figures = scheduler.stats();
    assert!(figures.most_cache_bytes > 0 && figures.most_cache_bytes <= limit, "{figures:?}");
    assert!(figures.prefix_bytes <= bytes(100), "{figures:?}");
}

/// Waits until the batch is as wanted; the time limit only keeps a failure from hanging.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if done() {
            return;
        }
        thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("waited in vain for: {what}");
}

#[test]
fn dropped_and_cancelled_requests_leave_the_batch() {
    let (engine, scheduler) = scheduler(8, |_| ());
    let dropped = scheduler.submit(marked(1900)).unwrap();
    let mut cancelled = scheduler.submit(marked(1900).events(true)).unwrap();
    let own = CancelToken::new();
    let by_token = scheduler.submit(marked(1900).cancel(&own)).unwrap();
    // All are under way.
    assert!(cancelled.next_event().is_some());
    until("three in the batch", || scheduler.stats().running == 3);
    let neighbour = submit_sound(&scheduler, 1);
    drop(dropped);
    cancelled.cancel();
    own.cancel();
    for handle in [cancelled, by_token] {
        let output = handle.wait().unwrap();
        assert!(matches!(output.finish, Finish::Cancelled { .. }));
        assert!(!output.tokens.is_empty() && output.tokens.len() < 1900);
        assert!(output.tokens.iter().all(|t| *t == MARK));
    }
    assert_sound(&engine, neighbour, ", the neighbour");
    until("an empty batch", || scheduler.stats().running == 0);
    assert_eq!(scheduler.stats().ended, 4);
}

#[test]
fn a_full_queue_pushes_back() {
    let (engine, scheduler) = scheduler(1, |options| options.queue = 2);
    let first = scheduler.submit(marked(1900)).unwrap();
    until("the first in its place", || scheduler.stats().running == 1);
    let waiting = submit_sound(&scheduler, 2);
    let rejected = scheduler.try_submit(sound(2)).unwrap_err();
    assert_eq!(rejected.error.kind(), ErrorKind::Busy);
    let blocked = AtomicBool::new(true);
    thread::scope(|scope| {
        let patient = scope.spawn(|| {
            let handle = scheduler.submit(rejected.request).unwrap();
            blocked.store(false, Ordering::SeqCst);
            handle.wait().unwrap()
        });
        // Nothing moves while the first has the only place.
        thread::sleep(std::time::Duration::from_millis(30));
        assert!(blocked.load(Ordering::SeqCst) || first.cancel_token().is_cancelled());
        first.cancel();
        assert_same(&patient.join().unwrap(), &engine.generate(&sound(2)).unwrap(), "the patient one");
    });
    assert_sound(&engine, waiting, "");
}

#[test]
fn requests_that_were_cancelled_while_they_waited_never_begin() {
    let (_, scheduler) = scheduler(1, |_| ());
    let first = scheduler.submit(marked(1900)).unwrap();
    until("the first in its place", || scheduler.stats().running == 1);
    let second = scheduler.submit(sound(0)).unwrap();
    second.cancel();
    assert_eq!(second.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    first.cancel();
    assert!(first.wait().is_ok());
}

#[test]
fn a_dropped_scheduler_ends_what_it_has() {
    let (_, scheduler) = scheduler(2, |_| ());
    let handles: Vec<Handle> = (0..6).map(|_| scheduler.submit(marked(1900)).unwrap()).collect();
    until("two in the batch", || scheduler.stats().running == 2);
    drop(scheduler);
    for handle in handles {
        assert_eq!(handle.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    }
}

#[test]
fn events_are_those_of_the_output() {
    let (_, scheduler) = scheduler(4, |_| ());
    let mut handles: Vec<Handle> = (0..4).map(|i| scheduler.submit(sound(i).events(true)).unwrap()).collect();
    let mut told = Vec::new();
    for handle in &mut handles {
        let (mut text, mut forwards, mut fields) = (String::new(), 0, 0);
        while let Some(occurrence) = handle.next_event() {
            match occurrence {
                HandleEvent::Text(piece) => text += &piece,
                HandleEvent::Stats(stats) => {
                    assert!(stats.forwards > forwards);
                    forwards = stats.forwards;
                }
                HandleEvent::Field(_) => fields += 1,
                _ => {}
            }
        }
        told.push((text, forwards, fields));
    }
    for (i, (handle, (text, forwards, fields))) in handles.into_iter().zip(told).enumerate() {
        let output = handle.wait().unwrap();
        assert_eq!((text, forwards), (output.text, output.stats.forwards), "request {i}");
        // Key and value of three members, and the object.
        assert!(i % 3 != 0 || fields >= 4, "{fields}");
    }
}

#[test]
fn with_one_place_requests_are_served_in_order() {
    let (_, scheduler) = scheduler(1, |_| ());
    let turns = Turns::default();
    let handles: Vec<Handle> = (0..8).map(|i| scheduler.submit(turns.watch(i, sound(i))).unwrap()).collect();
    handles.into_iter().for_each(|handle| assert!(handle.wait().is_ok()));
    let mut order = turns.0.lock().unwrap().clone();
    order.dedup();
    assert_eq!(order, (0..8).collect::<Vec<_>>());
}

/// Who had a turn, in order.
#[derive(Default, Clone)]
struct Turns(Arc<std::sync::Mutex<Vec<usize>>>);

impl Turns {
    /// The request, with a note taken before each of its forwards. Nothing is drafted.
    fn watch(&self, i: usize, request: Request) -> Request {
        let turns = self.0.clone();
        request.draft_override(Box::new(move |_| {
            turns.lock().unwrap().push(i);
            Vec::new()
        }))
    }
}

#[test]
fn sequences_take_turns_when_the_rows_do_not_suffice() {
    let (_, scheduler) = scheduler(5, |options| options.rows = 2);
    let turns = Turns::default();
    let request = || marked(200).mode(Mode::Exact);
    let handles: Vec<Handle> = (0..5).map(|i| scheduler.submit(turns.watch(i, request())).unwrap()).collect();
    handles.into_iter().for_each(|handle| assert_eq!(handle.wait().unwrap().tokens.len(), 200));
    let turns = turns.0.lock().unwrap().clone();
    // After the last prompt, and until the first one has ended, no request is ahead by more than
    // one round.
    let second = |i| turns.iter().enumerate().filter(|t| *t.1 == i).nth(1).unwrap().0;
    let all = (0..5).map(second).max().unwrap();
    let mut counts = [0usize; 5];
    for &turn in &turns[all + 1..] {
        counts[turn] += 1;
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - least <= 2, "{counts:?}");
        if *most >= 100 {
            return;
        }
    }
    panic!("too few turns: {counts:?}");
}

#[test]
fn long_prompts_and_long_outputs_do_not_starve_each_other() {
    let (engine, scheduler) = scheduler(6, |options| options.rows = 16);
    // Four long generations, then prompts of many pieces.
    let endless: Vec<Handle> = (0..4).map(|_| scheduler.submit(marked(1900)).unwrap()).collect();
    until("four in the batch", || scheduler.stats().running == 4);
    let prompt = || Request::new(Prompt::text("word ".repeat(300))).max_tokens(5);
    let alone = engine.generate(&prompt()).unwrap();
    for handle in [scheduler.submit(prompt()).unwrap(), scheduler.submit(prompt()).unwrap()] {
        assert_same(&handle.wait().unwrap(), &alone, "the prompt");
    }
    let before = scheduler.stats().forwards;
    until("the endless go on", || scheduler.stats().forwards > before);
    for handle in endless {
        handle.cancel();
        assert!(handle.wait().unwrap().tokens.len() > 1);
    }
}

#[test]
fn many_threads_hand_in_cancel_and_drop() {
    let engine = Arc::new(exact::engine().with_threads(3));
    let alone: Vec<Output> = (0..9).map(|i| engine.generate(&sound(i)).unwrap()).collect();
    let mut options = SchedulerOptions::with_batch(5);
    (options.queue, options.compilers, options.rows) = (4, 2, 70);
    let scheduler = Scheduler::new(engine, options).unwrap();
    let (ended, cut) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for t in 0..6usize {
            let (scheduler, alone, ended, cut) = (&scheduler, &alone, &ended, &cut);
            scope.spawn(move || {
                for round in 0..12usize {
                    let i = (t * 5 + round) % 9;
                    let handle = match round % 3 {
                        0 => scheduler.submit(sound(i)).unwrap(),
                        _ => match scheduler.try_submit(sound(i).events(round % 2 == 0)) {
                            Ok(handle) => handle,
                            Err(rejected) => scheduler.submit(rejected.request).unwrap(),
                        },
                    };
                    match (t + round) % 4 {
                        0 => drop(handle),
                        1 => {
                            let token = handle.cancel_token();
                            let canceller = scope.spawn(move || token.cancel());
                            match handle.wait() {
                                Ok(output) => {
                                    // What came before the end is what would have come.
                                    let n = output.tokens.len();
                                    assert_eq!(output.tokens, alone[i].tokens[..n], "request {i}");
                                }
                                Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
                            }
                            canceller.join().unwrap();
                            cut.fetch_add(1, Ordering::SeqCst);
                        }
                        _ => {
                            assert_same(&handle.wait().unwrap(), &alone[i], &format!("request {i}"));
                            ended.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                }
            });
        }
    });
    assert_eq!((ended.load(Ordering::SeqCst), cut.load(Ordering::SeqCst)), (36, 18));
    until("an empty batch", || scheduler.stats().running == 0);
}
