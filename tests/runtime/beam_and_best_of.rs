//! Best of n and beam search: equal to single generations, to a search without caches, and to the
//! probabilities of all outputs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ffwd::decode::{BeamOptions, CancelToken, MOST_SEQUENCES, Ranked};
use ffwd::model::{LoadOptions, Model, Precision};
use ffwd::sample::SamplingParams;
use ffwd::{Constraint, Engine, ErrorKind, Finish, Matcher, Mode, Prompt, Request, TokenId, extract};

use crate::common::exact::engine;
use crate::common::schemas::{SCHEMAS, TEXT};

/// Log-probabilities are sums of single-precision numbers of up to a few dozen, each with an
/// exponential that is off by up to 3e-7.
const TOLERANCE: f64 = 2e-4;

type Make = Box<dyn Fn() -> Request>;

fn text() -> Request {
    Request::new(Prompt::text(TEXT))
}

fn regex(regex: &'static str) -> Make {
    let constraint = Constraint::regex(regex).unwrap();
    Box::new(move || text().constraint(constraint.clone()))
}

/// Requests with all that has a say in what the output is.
fn requests(engine: &Engine) -> Vec<Make> {
    let letter = engine.vocabulary().encode("a").unwrap()[0];
    let mut all: Vec<Make> = vec![
        Box::new(|| extract::embedded::request(SCHEMAS[0], TEXT).unwrap().max_tokens(40)),
        regex("[A-Z][a-z]+( [A-Z][a-z]+){0,3}"),
        regex("(yes|no|maybe not), because [a-z ]{5,20}\\."),
        Box::new(|| text().max_tokens(12)),
        Box::new(|| text().constraint(Constraint::json_object()).max_tokens(16)),
        Box::new(|| text().stop("e").stop(" t").max_tokens(12)),
    ];
    all.push(Box::new(move || {
        let params = SamplingParams {
            repetition_penalty: 1.4,
            presence_penalty: 0.2,
            frequency_penalty: 0.3,
            logit_bias: vec![(letter, 2.0), (5, f32::NEG_INFINITY)],
            ..SamplingParams::default()
        };
        let constraint = Constraint::regex("[a-z]{2,9}( [a-z]{2,9}){2}").unwrap();
        text().constraint(constraint).sampling(params).stop("am").stop_token(letter).max_tokens(10)
    }));
    all
}

fn mask_of(engine: &Engine, matcher: &mut Option<Matcher>) -> Vec<u32> {
    let mut row = vec![u32::MAX; engine.vocabulary().bitmask_words()];
    if let Some(matcher) = matcher {
        matcher.fill_bitmask(&mut row);
    }
    row
}

/// The log-probabilities of all legal tokens behind a history, from one forward over all of it.
fn choices(
    engine: &Engine,
    params: &SamplingParams,
    history: &[TokenId],
    mask: &[u32],
) -> Vec<(TokenId, f64)> {
    let mut cache = engine.target().new_cache().unwrap();
    let last = history.len() - 1..history.len();
    let mut logits = engine.target().forward(history, &mut cache, last).unwrap().remove(0);
    for (token, logit) in logits.iter_mut().enumerate() {
        let count = history.iter().filter(|t| **t as usize == token).count();
        if count > 0 {
            let penalty = params.repetition_penalty;
            *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            *logit -= params.presence_penalty + params.frequency_penalty * count as f32;
        }
    }
    params.logit_bias.iter().for_each(|(token, bias)| logits[*token as usize] += bias);
    let legal = |t: usize| mask[t / 32] >> (t % 32) & 1 == 1 && logits[t] > f32::NEG_INFINITY;
    let legal: Vec<usize> = (0..logits.len()).filter(|&t| legal(t)).collect();
    let best = legal.iter().map(|&t| f64::from(logits[t])).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = legal.iter().map(|&t| (f64::from(logits[t]) - best).exp()).sum();
    legal.into_iter().map(|t| (t as TokenId, f64::from(logits[t]) - best - total.ln())).collect()
}

/// The matcher of a request behind some tokens.
fn matcher_behind(engine: &Engine, constraint: Option<&Constraint>, tokens: &[TokenId]) -> Option<Matcher> {
    let mut matcher = engine.compiler().compile(constraint?).unwrap().matcher();
    tokens.iter().for_each(|&t| matcher.accept_token(t).unwrap());
    Some(matcher)
}

/// What the slow search finds.
#[derive(Debug, Clone, PartialEq)]
struct Found {
    tokens: Vec<TokenId>,
    log_probability: f64,
    choices: usize,
    cut: bool,
}

/// A search that keeps nothing but tokens: every step reads each beam from the start.
struct Slow<'a> {
    engine: &'a Engine,
    constraint: Option<Constraint>,
    params: SamplingParams,
    stops: Vec<&'static str>,
    stop_tokens: Vec<TokenId>,
    max_tokens: usize,
}

impl Slow<'_> {
    /// Beams until none is left: no bound, no caches, no forks.
    fn search(&self, width: usize, penalty: f64) -> Vec<Found> {
        let prompt = self.engine.vocabulary().encode(TEXT).unwrap();
        let vocab = self.engine.vocabulary();
        let (mut live, mut ended) = (vec![(Vec::new(), 0.0)], Vec::new());
        while !live.is_empty() {
            let mut next: Vec<(Vec<TokenId>, f64, bool)> = Vec::new();
            for (tokens, log) in &live {
                let mut matcher = matcher_behind(self.engine, self.constraint.as_ref(), tokens);
                let mask = mask_of(self.engine, &mut matcher);
                let history = [&prompt[..], tokens].concat();
                let mut all = choices(self.engine, &self.params, &history, &mask);
                let ends = |t| vocab.eos().contains(&t) || self.stop_tokens.contains(&t);
                let likeliest = all.iter().filter(|c| ends(c.0)).max_by(|a, b| a.1.total_cmp(&b.1)).copied();
                all.retain(|c| !ends(c.0));
                next.extend(likeliest.map(|(_, p)| (tokens.clone(), log + p, true)));
                next.extend(all.iter().map(|&(t, p)| ([&tokens[..], &[t]].concat(), log + p, false)));
            }
            next.sort_by(|a, b| b.1.total_cmp(&a.1));
            next.truncate(width);
            live.clear();
            for (tokens, log_probability, chose_end) in next {
                let text = vocab.decode(&tokens);
                let text = String::from_utf8_lossy(&text);
                let stopped = self.stops.iter().any(|s| text.contains(s));
                let matcher = matcher_behind(self.engine, self.constraint.as_ref(), &tokens);
                let over = chose_end || stopped || matcher.is_some_and(|m| m.is_terminated());
                let full = tokens.len() == self.max_tokens;
                let choices = tokens.len() + usize::from(chose_end);
                match over || full {
                    false => live.push((tokens, log_probability)),
                    true => ended.push(Found { tokens, log_probability, choices, cut: !over }),
                }
            }
        }
        let score = |f: &Found| f.log_probability / (f.choices as f64).powf(penalty);
        ended.sort_by(|a: &Found, b| score(b).total_cmp(&score(a)));
        ended
    }
}

fn compare(found: &Ranked, mut slow: Vec<Found>, width: usize, penalty: f64, what: &str) {
    // What is incomplete comes last, in either list.
    let complete = |f: &Found| found.outputs.iter().any(|o| o.output.tokens == f.tokens && o.output.complete);
    slow.sort_by_key(|f| !complete(f));
    slow.truncate(width);
    let tokens: Vec<_> = found.outputs.iter().map(|o| &o.output.tokens).collect();
    assert_eq!(tokens, slow.iter().map(|f| &f.tokens).collect::<Vec<_>>(), "{what}");
    for (o, f) in found.outputs.iter().zip(&slow) {
        assert!((o.log_probability - f.log_probability).abs() < TOLERANCE, "{what}: {o:?} {f:?}");
        let score = f.log_probability / (f.choices as f64).powf(penalty);
        assert!((o.score - score).abs() < TOLERANCE, "{what}: {} {score}", o.score);
        assert_eq!(o.choices, f.choices, "{what}");
        assert_eq!(matches!(o.output.finish, Finish::Length { .. }), f.cut, "{what}");
    }
}

#[test]
fn beams_are_those_of_a_search_without_caches() {
    let engine = engine();
    let letter = engine.vocabulary().encode("a").unwrap()[0];
    let plain = |constraint: Option<&str>, max_tokens| Slow {
        engine: &engine,
        constraint: constraint.map(|c| Constraint::regex(c).unwrap()),
        params: SamplingParams::default(),
        stops: Vec::new(),
        stop_tokens: Vec::new(),
        max_tokens,
    };
    let penalised = SamplingParams {
        repetition_penalty: 1.3,
        frequency_penalty: 0.3,
        logit_bias: vec![(letter, 1.0)],
        ..SamplingParams::default()
    };
    let searches = [
        plain(Some("[A-Z][a-z]+( [A-Z][a-z]+){0,2}"), 8),
        plain(Some("(yes|no|maybe not), because [a-z ]{5,9}\\."), 14),
        plain(None, 5),
        Slow { stops: vec!["e", "st"], ..plain(None, 6) },
        Slow { params: penalised, stop_tokens: vec![letter], ..plain(Some("[a-z]{1,9}( [a-z]{2,9})?"), 6) },
    ];
    let mut several = 0;
    for (i, slow) in searches.iter().enumerate() {
        for (width, penalty) in [(1, 0.0), (2, 0.0), (3, 1.0), (5, 0.5)] {
            let mut request = text().sampling(slow.params.clone()).max_tokens(slow.max_tokens);
            request = slow.stops.iter().fold(request, |r, s| r.stop(*s));
            request = slow.stop_tokens.iter().fold(request, |r, &t| r.stop_token(t));
            if let Some(constraint) = &slow.constraint {
                request = request.constraint(constraint.clone());
            }
            let options = BeamOptions::with_length_penalty(penalty);
            let found = engine.beam_search(&request, width, &options).unwrap();
            compare(&found, slow.search(width, penalty), width, penalty, &format!("{i} {width} {penalty}"));
            several += usize::from(found.outputs.len() > 1);
            let longest = found.outputs.iter().map(|o| o.output.stats.forwards).max();
            assert!(found.forwards <= slow.max_tokens && longest <= Some(found.forwards));
        }
    }
    assert!(several > 10, "{several}");
}

/// All outputs with their log-probabilities, and how many beginnings they have.
fn enumerate(engine: &Engine, constraint: &Constraint) -> (Vec<Found>, usize) {
    let vocab = engine.vocabulary();
    let prompt = vocab.encode(TEXT).unwrap();
    let (mut todo, mut all, mut beginnings) = (vec![(Vec::new(), 0.0)], Vec::new(), 0);
    while let Some((tokens, log)) = todo.pop() {
        let matcher = matcher_behind(engine, Some(constraint), &tokens);
        let output = |tokens: &[TokenId], log_probability, choices| Found {
            tokens: tokens.to_vec(),
            log_probability,
            choices,
            cut: false,
        };
        if matcher.as_ref().is_some_and(|m| m.is_terminated()) {
            all.push(output(&tokens, log, tokens.len()));
            continue;
        }
        beginnings += 1;
        let mask = mask_of(engine, &mut { matcher });
        let history = [&prompt[..], &tokens[..]].concat();
        for (token, p) in choices(engine, &SamplingParams::default(), &history, &mask) {
            match vocab.eos().contains(&token) {
                true => all.push(output(&tokens, log + p, tokens.len() + 1)),
                false => todo.push(([&tokens[..], &[token]].concat(), log + p)),
            }
        }
    }
    (all, beginnings)
}

#[test]
fn a_wide_beam_finds_all_outputs_with_their_probabilities() {
    let single = Engine::builder().options(LoadOptions::with_precision(Precision::F32)).build().unwrap();
    let eight = Engine::builder().options(LoadOptions::with_precision(Precision::Q8_0)).build().unwrap();
    let constraints = [
        Constraint::choice(["yes", "ye", "no", "none"]).unwrap(),
        Constraint::regex("1?[0-3]{1,2}").unwrap(),
        Constraint::choice(["no"]).unwrap(),
    ];
    let mut rows_vary = false;
    for engine in [&single, &eight] {
        rows_vary |= !engine.target().is_batch_invariant();
        for (i, constraint) in constraints.iter().enumerate() {
            let (all, beginnings) = enumerate(engine, constraint);
            let sum: f64 = all.iter().map(|f| f.log_probability.exp()).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{sum}");
            let width = beginnings + all.len();
            assert!(width <= MOST_SEQUENCES, "{i}: {width}");
            for penalty in [0.0, 1.0] {
                let mut sorted = all.clone();
                let score = |f: &Found| f.log_probability / (f.choices as f64).powf(penalty);
                sorted.sort_by(|a, b| score(b).total_cmp(&score(a)));
                let request = text().constraint(constraint.clone());
                let options = BeamOptions::with_length_penalty(penalty);
                let found = engine.beam_search(&request, width, &options).unwrap();
                assert!(found.outputs.iter().all(|o| o.output.complete && o.output.finish == Finish::Stop));
                if engine.target().is_batch_invariant() {
                    compare(&found, sorted, all.len(), penalty, &format!("{i} {penalty}"));
                }
            }
        }
    }
    assert!(cfg!(not(target_arch = "x86_64")) || !rows_vary);
}

#[test]
fn one_beam_is_greedy_decoding() {
    let engine = engine();
    let mut finishes = std::collections::BTreeSet::new();
    for (i, request) in requests(&engine).iter().enumerate() {
        let greedy = engine.generate(&request().mode(Mode::Off).logprobs(true)).unwrap();
        for penalty in [0.0, 2.0] {
            let options = BeamOptions::with_length_penalty(penalty);
            let found = engine.beam_search(&request().logprobs(true), 1, &options).unwrap();
            let [only] = &found.outputs[..] else { panic!("{i}: {found:?}") };
            let output = &only.output;
            assert_eq!((&output.tokens, &output.text), (&greedy.tokens, &greedy.text), "{i}");
            assert_eq!((&output.finish, output.complete), (&greedy.finish, greedy.complete), "{i}");
            assert_eq!((&output.logprobs, &output.answer), (&greedy.logprobs, &greedy.answer), "{i}");
            assert_eq!(found.forwards, greedy.stats.forwards, "{i}");
            assert_eq!(output.stats.forwards, greedy.stats.forwards, "{i}");
        }
        finishes.insert(greedy.finish.name());
    }
    assert!(finishes.len() > 2, "{finishes:?}");
}

/// An engine to which everything is equally probable.
fn flat() -> Engine {
    let engine = engine();
    let target = engine.target().clone().with_logits_hook(|_, _, rows| {
        rows.iter_mut().for_each(|row| row.fill(0.0));
        Ok(())
    });
    Engine::from_parts(target, None, engine.vocabulary().clone()).unwrap()
}

#[test]
fn equals_come_in_the_order_of_their_ids() {
    let engine = flat();
    let request = || text().constraint(Constraint::regex("[a-e]").unwrap());
    let mut ids: Vec<TokenId> =
        (b'a'..=b'e').map(|c| engine.vocabulary().encode(&char::from(c).to_string()).unwrap()[0]).collect();
    ids.sort_unstable();
    for width in 1..=6 {
        let found = engine.beam_search(&request(), width, &BeamOptions::default()).unwrap();
        let tokens: Vec<TokenId> = found.outputs.iter().map(|o| o.output.tokens[0]).collect();
        assert_eq!(tokens, ids[..width.min(5)]);
        assert!(found.outputs.iter().all(|o| (o.log_probability + 5f64.ln()).abs() < 1e-6));
    }
}

#[test]
fn a_beam_that_cannot_go_on_is_left_out() {
    let engine = engine();
    let vocab = engine.vocabulary();
    let without = |bytes: &'static [u8]| SamplingParams {
        logit_bias: (0..vocab.len() as TokenId)
            .filter(|&t| vocab.token_bytes(t).iter().any(|b| bytes.contains(b)))
            .map(|t| (t, f32::NEG_INFINITY))
            .collect(),
        ..SamplingParams::default()
    };
    let request =
        |bytes| text().constraint(Constraint::choice(["q8", "x9"]).unwrap()).sampling(without(bytes));
    let found = engine.beam_search(&request(b"8"), 4, &BeamOptions::default()).unwrap();
    let texts: Vec<&str> = found.outputs.iter().map(|o| o.output.text.as_str()).collect();
    assert_eq!(texts, ["x9"]);
    let error = engine.beam_search(&request(b"89"), 4, &BeamOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IllegalToken);
}

#[test]
fn a_search_ends_when_nothing_can_become_better_or_early() {
    let engine = flat();
    let request = regex("[a-c]{1,12}");
    let search = |penalty, early| {
        let options = BeamOptions::with_length_penalty(penalty).stop_early(early);
        let found = engine.beam_search(&request(), 3, &options).unwrap();
        assert!(found.outputs.len() == 3 && found.outputs.iter().all(|o| o.output.complete));
        found
    };
    let tokens =
        |found: &Ranked| -> Vec<_> { found.outputs.iter().map(|o| o.output.tokens.clone()).collect() };
    // Without a penalty the three ended beams are better than all open ones.
    let (whole, early) = (search(0.0, false), search(0.0, true));
    assert!(whole.forwards < 12 && whole.forwards == early.forwards, "{}", whole.forwards);
    assert_eq!(tokens(&whole), tokens(&early));
    // By the cube of the length long ones are better, and three short ones end first.
    let (whole, early) = (search(3.0, false), search(3.0, true));
    assert!(whole.forwards == 12 && early.forwards < 12, "{} {}", early.forwards, whole.forwards);
    assert!(early.best().unwrap().score < whole.best().unwrap().score);
}

#[test]
fn cancelling_hands_out_what_is_there() {
    let engine = engine();
    let token = CancelToken::new();
    let (seen, canceller) = (Arc::new(AtomicUsize::new(0)), token.clone());
    // Cancelled with the fifth sequence that runs, in the third forward.
    let counted = Arc::clone(&seen);
    let target = engine.target().clone().with_logits_hook(move |_, _, _| {
        let before = counted.fetch_add(1, Ordering::Relaxed);
        if before >= 4 {
            canceller.cancel();
        }
        Ok(())
    });
    let engine = Engine::from_parts(target, None, engine.vocabulary().clone()).unwrap();
    let request = text().constraint(Constraint::json_object()).cancel(&token);
    let found = engine.beam_search(&request, 2, &BeamOptions::default()).unwrap();
    assert_eq!(found.outputs.len(), 2);
    assert_eq!(found.forwards, 3, "one beam, then two, two");
    for scored in &found.outputs {
        let Finish::Cancelled { .. } = scored.output.finish else { panic!("{scored:?}") };
        assert_eq!((scored.output.tokens.len(), scored.output.complete), (3, false));
    }
}

fn temperatures() -> Vec<SamplingParams> {
    let base = SamplingParams { temperature: 1.0, seed: 7, ..SamplingParams::default() };
    vec![
        base.clone(),
        SamplingParams { temperature: 0.7, top_p: 0.9, repetition_penalty: 1.2, seed: u64::MAX - 1, ..base },
    ]
}

/// The log-probability of an output by a forward over all of it; of the end token, too, if it was
/// chosen.
fn log_probability(
    engine: &Engine,
    request: &Request,
    constraint: &Constraint,
    tokens: &[TokenId],
    ended: bool,
) -> f64 {
    let params = request.params();
    let prompt = engine.vocabulary().encode(TEXT).unwrap();
    let mut sum = 0.0;
    for n in 0..tokens.len() + usize::from(ended) {
        let mut matcher = matcher_behind(engine, Some(constraint), &tokens[..n]);
        let mask = mask_of(engine, &mut matcher);
        let all = choices(engine, params, &[&prompt[..], &tokens[..n]].concat(), &mask);
        let chosen = |t: TokenId| tokens.get(n).map_or(engine.vocabulary().eos().contains(&t), |x| *x == t);
        sum += all.iter().find(|c| chosen(c.0)).unwrap().1;
    }
    sum
}

#[test]
fn the_best_of_n_are_n_generations() {
    let engine = engine();
    let mut fewer = 0;
    for (i, request) in requests(&engine).iter().enumerate() {
        for (j, sampling) in temperatures().into_iter().enumerate() {
            for mode in [Mode::Off, Mode::Exact] {
                let what = format!("{i} {j} {mode:?}");
                let make = |seed| {
                    let own = request();
                    let params = SamplingParams { seed, ..sampling.clone() };
                    own.sampling(params).mode(mode).logprobs(true).without_gate().max_tokens(20)
                };
                let found = engine.best_of(&make(sampling.seed), 4).unwrap();
                assert_eq!(found.outputs.len(), 4);
                let mut forwards = 0;
                for n in 0..4 {
                    let seed = sampling.seed.wrapping_add(n);
                    let alone = engine.generate(&make(seed)).unwrap();
                    let scored = found.outputs.iter().find(|o| o.seed == Some(seed)).unwrap();
                    let output = &scored.output;
                    assert_eq!((&output.tokens, &output.text), (&alone.tokens, &alone.text), "{what} {n}");
                    assert_eq!(
                        (&output.finish, &output.logprobs),
                        (&alone.finish, &alone.logprobs),
                        "{what}"
                    );
                    let sum: f64 = alone.logprobs.iter().flatten().map(|l| f64::from(l.masked)).sum();
                    let end = scored.choices - alone.tokens.len();
                    assert!(end <= 1 && (end == 1 || scored.log_probability == sum), "{what}");
                    assert!(scored.log_probability <= sum && scored.score == scored.log_probability);
                    forwards += alone.stats.forwards;
                }
                let key = |o: &ffwd::decode::Scored| (!o.output.complete, -o.score);
                assert!(found.outputs.windows(2).all(|w| key(&w[0]) <= key(&w[1])), "{what}");
                assert!(found.forwards <= forwards, "{what}");
                fewer += forwards - found.forwards;
            }
        }
    }
    assert!(fewer > 200, "{fewer}");
}

#[test]
fn scores_are_log_probabilities_with_the_end() {
    let engine = engine();
    let constraint = Constraint::regex("[A-Z][a-z]{1,6}( [A-Z][a-z]{1,6})?").unwrap();
    let request = || text().constraint(constraint.clone()).temperature(1.0);
    let found = engine.best_of(&request(), 6).unwrap();
    let mut ends = 0;
    for scored in &found.outputs {
        let tokens = &scored.output.tokens;
        let ended = scored.choices > tokens.len();
        ends += usize::from(ended);
        let want = log_probability(&engine, &request(), &constraint, tokens, ended);
        assert!((scored.log_probability - want).abs() < TOLERANCE, "{scored:?} {want}");
        assert_eq!(scored.mean(), scored.log_probability / scored.choices as f64);
        assert!(scored.output.logprobs.is_empty(), "they were not asked for");
    }
    assert!(ends > 0);
}

#[test]
fn the_prompt_runs_once() {
    let seen = Arc::new(AtomicUsize::new(0));
    let plain = engine();
    let counted = |model: &Model| {
        let seen = Arc::clone(&seen);
        model.clone().with_logits_hook(move |tokens, _, _| {
            seen.fetch_add(tokens.len(), Ordering::Relaxed);
            Ok(())
        })
    };
    let prompt = plain.vocabulary().encode(TEXT).unwrap().len();
    let vocab = plain.vocabulary().clone();
    let engine = Engine::from_parts(counted(plain.target()), None, vocab).unwrap().with_prefix_bytes(0);
    let request = || text().constraint(Constraint::regex("[a-z]{4,8}").unwrap()).mode(Mode::Off);
    let found = engine.best_of(&request().temperature(1.0), 8).unwrap();
    // The others run the last token of the prompt, whose logits they want; the last token of an
    // output that ends need not run.
    let rows: usize = found.outputs.iter().map(|o| o.output.stats.forwards).sum();
    assert_eq!(seen.swap(0, Ordering::Relaxed), prompt - 1 + rows);
    let found = engine.beam_search(&request(), 8, &BeamOptions::default()).unwrap();
    let rows = seen.load(Ordering::Relaxed) - prompt;
    assert!(rows <= 8 * (found.forwards - 1) && prompt > 40, "{rows} {prompt}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let engine = engine();
    let constraint = Constraint::choice(["yes", "no"]).unwrap();
    let request = || text().constraint(constraint.clone());
    let warm = || request().temperature(0.8);
    let sampled = [
        engine.best_of(&warm(), 0),
        engine.best_of(&warm(), MOST_SEQUENCES + 1),
        engine.best_of(&request(), 2),
        engine.best_of(&warm().mode(Mode::Canonical), 2),
        engine.best_of(&warm().mode(Mode::Longest), 2),
    ];
    let penalty = BeamOptions::with_length_penalty;
    let beams = [
        engine.beam_search(&request(), 0, &penalty(0.0)),
        engine.beam_search(&request(), MOST_SEQUENCES + 1, &penalty(0.0)),
        engine.beam_search(&request(), 2, &penalty(-0.5)),
        engine.beam_search(&request(), 2, &penalty(f64::NAN)),
        engine.beam_search(&request(), 2, &penalty(f64::INFINITY)),
        engine.beam_search(&warm(), 2, &penalty(0.0)),
        engine.beam_search(&request().mode(Mode::Longest), 2, &penalty(0.0)),
        engine.beam_search(&request().think_until("</t>", 9), 2, &penalty(0.0)),
        engine.beam_search(&request().close_before_limit(true), 2, &penalty(0.0)),
        engine.beam_search(&request().prompt(Prompt::text("")), 2, &penalty(0.0)),
        engine.beam_search(&request().stop(""), 2, &penalty(0.0)),
    ];
    for (i, result) in sampled.into_iter().chain(beams).enumerate() {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidOption, "{i}");
    }
    let long = request().prompt(Prompt::text("word ".repeat(engine.target().config().context)));
    let error = engine.beam_search(&long, 2, &penalty(0.0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PromptTooLong);
    // A single greedy output is fine, and so is one that thinks first.
    assert_eq!(engine.best_of(&request(), 1).unwrap().outputs.len(), 1);
    let thought = engine.best_of(&warm().think_until("</t>", 3), 2).unwrap();
    assert!(thought.outputs.iter().all(|o| o.output.answer.is_some()));
    // Nothing to be chosen.
    let none = engine.beam_search(&request().max_tokens(0), 2, &penalty(0.0)).unwrap();
    assert!(none.forwards == 0 && matches!(none.outputs[0].output.finish, Finish::Length { .. }));
    assert_eq!(none.outputs[0].mean(), 0.0);
}
