//! Beam search: finds the most probable outputs instead of choosing token by token.
//!
//! Each step runs all live beams in one forward, ranks their continuations by log-probability, and
//! keeps the best. Those that end leave the beam. The others continue with a copy of their beam's
//! KV cache and a fork of its matcher.
//!
//! # Cost
//!
//! A step costs a forward over as many rows as there are beams, and a selection among the legal
//! tokens of each. It also copies a cache for each continuation except the last of its beam.
//!
//! # Alternatives considered
//!
//! Refilling the beam in place of continuations that end was rejected: with width 1 the search
//! would continue where greedy decoding ends.

use std::time::Instant;

use super::{Ranked, Scored, check_count, rank, refused};
use crate::decode::engine::Engine;
use crate::decode::events::CancelToken;
use crate::decode::json_stream::JsonStream;
use crate::decode::output::Output;
use crate::decode::request::{Request, room};
use crate::decode::stats::{Finish, Mode, Stats};
use crate::decode::stop::{Stops, satisfies};
use crate::decode::watch::OutputWatch;
use crate::error::{Error, ErrorKind, Result};
use crate::matcher::{CompiledGrammar, Matcher};
use crate::model::{KvCache, Segment};
use crate::sample::{Sampled, Sampler, TokenLogprob};
use crate::vocab::TokenId;

/// Options for the ranking of beams and the end of the search.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct BeamOptions {
    /// Exponent of the length in the score. The score of an output is its log-probability divided
    /// by (number of choices) to this power: 0 ranks by probability, 1 by the mean per token, and
    /// larger values prefer long outputs. It ranks outputs only; beams all have the same length and
    /// are kept by probability.
    pub length_penalty: f64,
    /// If true, the search ends as soon as `width` outputs have ended. Otherwise it continues until
    /// no beam can become better than any of the best `width` outputs, so these cannot change.
    pub stop_early: bool,
}

impl BeamOptions {
    /// Returns the default options with this length penalty.
    pub fn with_length_penalty(length_penalty: f64) -> Self {
        BeamOptions { length_penalty, ..Self::default() }
    }

    /// Sets whether to end as soon as `width` outputs have ended.
    pub fn stop_early(mut self, on: bool) -> Self {
        self.stop_early = on;
        self
    }
}

impl Engine {
    /// Returns the most probable outputs that a beam of `width` sequences finds, at most `width` of
    /// them, best first. Constraint, token limit, stop texts and tokens, bias and penalties work as
    /// in [`generate`](Self::generate), and width 1 gives the output of greedy decoding.
    ///
    /// Among equally probable continuations those of the better beam come first, then lower token
    /// ids. Outputs differ in their tokens; their texts may be the same. Where several tokens can
    /// end an output, the most probable one counts.
    ///
    /// There is one forward for each token of the longest output. Nothing is drafted: `mode`
    /// `exact` equals `off` here, and the options for drafts and the seed have no effect.
    ///
    /// # Errors
    /// Fails like [`generate`](Self::generate). Also fails in these cases:
    ///
    /// - `width` is 0 or above [`MOST_SEQUENCES`](super::super::MOST_SEQUENCES)
    /// - the length penalty is negative or not a finite number
    /// - the sampling has a temperature, or the mode is an unverified one
    /// - the request uses thinking or completion before the limit
    pub fn beam_search(&self, request: &Request, width: usize, options: &BeamOptions) -> Result<Ranked> {
        check_count("the width of the beam", width)?;
        check(request, options)?;
        let start = Instant::now();
        let grammar = self.grammar(request)?;
        let compile_seconds = start.elapsed().as_secs_f64();
        let (search, root) = Search::new(self, request, grammar, width, *options)?;
        let mut ranked = search.run(root)?;
        for scored in &mut ranked.outputs {
            scored.output.stats.compile_seconds = compile_seconds;
        }
        Ok(ranked)
    }
}

/// # Errors
/// Fails if an option is invalid, or not possible with beams.
fn check(request: &Request, options: &BeamOptions) -> Result<()> {
    let penalty = options.length_penalty;
    if !penalty.is_finite() || penalty < 0.0 {
        let message = format!("the length penalty is {penalty}");
        return Err(Error::new(ErrorKind::InvalidOption, message)
            .hint("use a number from 0 (rank by probability) up; 1 ranks by the mean of a token"));
    }
    if request.sampling.temperature != 0.0 {
        return Err(refused(
            "a beam search does not sample, but a temperature is set",
            "leave the temperature at 0, or ask for the best of several samples",
        ));
    }
    if matches!(request.mode, Mode::Canonical | Mode::Longest) {
        return Err(refused("a beam search verifies every token", "use the mode off or exact"));
    }
    if request.thinking.is_some() {
        return Err(refused(
            "a beam search cannot think first: the end of thinking is put there without asking the model",
            "leave out thinking, or ask for the best of several samples",
        ));
    }
    if request.close_before_limit {
        return Err(refused(
            "a beam search does not close outputs before the limit",
            "leave it out: outputs that are complete come first",
        ));
    }
    Ok(())
}

/// An unfinished output; its KV cache is stored separately.
#[derive(Default)]
struct Beam {
    /// Prompt and output.
    history: Vec<TokenId>,
    /// The output as bytes.
    text: Vec<u8>,
    log_probability: f64,
    choices: usize,
    logprobs: Vec<Option<TokenLogprob>>,
    matcher: Option<Matcher>,
    watch: Option<OutputWatch>,
    /// Pointers of values that the guard ended.
    guarded: Vec<String>,
}

impl Beam {
    fn fork(&self) -> Beam {
        Beam {
            history: self.history.clone(),
            text: self.text.clone(),
            log_probability: self.log_probability,
            choices: self.choices,
            logprobs: self.logprobs.clone(),
            matcher: self.matcher.as_ref().map(Matcher::fork),
            watch: self.watch.clone(),
            guarded: self.guarded.clone(),
        }
    }
}

/// A token that may follow a beam.
struct Continuation {
    /// Index of the beam.
    beam: usize,
    sampled: Sampled,
    log_probability: f64,
}

struct Search<'a> {
    engine: &'a Engine,
    sampler: Sampler,
    stops: Stops,
    stop_tokens: usize,
    cancel: Option<CancelToken>,
    /// Number of tokens of the prompt.
    prompt: usize,
    max_tokens: usize,
    width: usize,
    options: BeamOptions,
    logprobs: bool,
    /// The live beams, best first, and their caches.
    live: Vec<Beam>,
    caches: Vec<KvCache>,
    /// The best ended outputs, best first, at most `width`.
    ended: Vec<Scored>,
    /// The reason why a beam could not continue.
    stuck: Option<Error>,
    forwards: usize,
    begun: Instant,
}

impl<'a> Search<'a> {
    fn new(
        engine: &'a Engine,
        request: &Request,
        grammar: Option<CompiledGrammar>,
        width: usize,
        options: BeamOptions,
    ) -> Result<(Search<'a>, Beam)> {
        let (model, vocab) = (engine.target(), engine.vocabulary());
        let history = request.prompt.encode(vocab)?;
        let sampler = Sampler::new(request.sampling.clone())?;
        let search = Search {
            engine,
            sampler: if request.logprobs { sampler.with_top_logprobs(request.top_logprobs) } else { sampler },
            stops: Stops::new(request.stop.clone(), request.stop_tokens.clone())?,
            stop_tokens: request.stop_tokens.len(),
            cancel: request.cancel.clone(),
            prompt: history.len(),
            max_tokens: room(history.len(), model.config().context, request.max_tokens)?,
            width,
            options,
            logprobs: request.logprobs,
            live: Vec::new(),
            caches: Vec::new(),
            ended: Vec::new(),
            stuck: None,
            forwards: 0,
            begun: Instant::now(),
        };
        let (matcher, watch) = (grammar.map(|g| g.matcher()), engine.watch(request));
        Ok((search, Beam { history, matcher, watch, ..Beam::default() }))
    }

    fn run(mut self, root: Beam) -> Result<Ranked> {
        // The prompt and the length of its prefix to keep for later requests, until it has been
        // read.
        let mut shared = None;
        match self.is_over(&root) {
            Some(finish) => self.end(root, &finish, None),
            None => {
                let (known, worth) = self.engine.cached_prefix(&root.history);
                shared = worth.map(|n| (root.history.clone(), n));
                let new = || self.engine.target().new_cache();
                self.caches.push(known.map_or_else(new, |known| Ok(known.0))?);
                self.live.push(root);
            }
        }
        while !self.live.is_empty() && !self.is_decided() {
            if self.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
                for beam in std::mem::take(&mut self.live) {
                    let (path, partial) = unfinished(&beam);
                    self.end(beam, &Finish::Cancelled { path, partial }, None);
                }
                break;
            }
            let rows = self.forward()?;
            if let Some((prompt, shared)) = shared.take() {
                let cache = &self.caches[0];
                self.engine.keep(&prompt, Some(shared), cache.len(), |n| (cache.prefix(n), None));
            }
            let chosen = self.choose(rows)?;
            self.advance_beams(&chosen)?;
        }
        if self.ended.is_empty()
            && let Some(error) = self.stuck
        {
            return Err(error);
        }
        Ok(Ranked { outputs: self.ended, forwards: self.forwards, draft_forwards: 0 })
    }

    /// Returns the logits after each live beam: of the whole prompt in the first step, then of one
    /// token each.
    fn forward(&mut self) -> Result<Vec<Vec<f32>>> {
        self.forwards += 1;
        let mut segments: Vec<Segment> = self
            .live
            .iter()
            .zip(&mut self.caches)
            .map(|(beam, cache)| {
                let tokens = &beam.history[cache.len()..];
                Segment { tokens, cache, rows: tokens.len() - 1..tokens.len(), only: &[] }
            })
            .collect();
        let results = self.engine.target().forward_batch(&mut segments);
        results.into_iter().map(|rows| rows.map(|rows| rows.into_iter().flatten().collect())).collect()
    }

    /// Returns the `width` most probable continuations of all live beams.
    fn choose(&mut self, rows: Vec<Vec<f32>>) -> Result<Vec<Continuation>> {
        // Only one of the tokens that end an output counts, so all of them may precede the others.
        let vocab = self.engine.vocabulary();
        let most = self.width + vocab.eos().len() + self.stop_tokens;
        let mut mask = vec![0; vocab.bitmask_words()];
        let mut all = Vec::new();
        for (i, (beam, mut logits)) in self.live.iter_mut().zip(rows).enumerate() {
            let mask = beam.matcher.as_mut().map(|matcher| {
                matcher.fill_bitmask(&mut mask);
                let ended = beam.watch.as_mut().and_then(|watch| watch.end_runaway(matcher, &mut mask));
                beam.guarded.extend(ended.filter(|ended| beam.guarded.last() != Some(ended)));
                &mask[..]
            });
            let found = match self.sampler.most_probable(&mut logits, mask, &beam.history, most) {
                Ok(found) => found,
                // The bias forbids every legal token here; other beams may still continue.
                Err(error) if error.kind() == ErrorKind::IllegalToken => {
                    self.stuck = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let mut may_end = true;
            for sampled in found {
                let ends = self.engine.vocabulary().eos().contains(&sampled.token)
                    || self.stops.is_stop(sampled.token);
                if !ends || std::mem::replace(&mut may_end, false) {
                    let log_probability = beam.log_probability + f64::from(sampled.logprob);
                    all.push(Continuation { beam: i, sampled, log_probability });
                }
            }
        }
        // The sort is stable: equals stay in the order of beams, then of tokens.
        all.sort_by(|a, b| b.log_probability.total_cmp(&a.log_probability));
        all.truncate(self.width);
        Ok(all)
    }

    /// Replaces the live beams by the chosen continuations.
    fn advance_beams(&mut self, chosen: &[Continuation]) -> Result<()> {
        let parents = std::mem::take(&mut self.live);
        let mut from = Vec::with_capacity(chosen.len());
        for Continuation { beam, sampled, log_probability } in chosen {
            let mut next = parents[*beam].fork();
            next.log_probability = *log_probability;
            next.choices += 1;
            let token = sampled.token;
            if self.engine.vocabulary().eos().contains(&token) {
                self.end(next, &Finish::Stop, None);
            } else if self.stops.is_stop(token) {
                self.end(next, &Finish::StopToken { token }, None);
            } else {
                self.append(&mut next, sampled)?;
                let new = self.engine.vocabulary().token_bytes(token).len();
                if let Some((cut, index)) = self.stops.find(&next.text, new) {
                    let stop = self.stops.text(index).into();
                    self.end(next, &Finish::StopText { stop }, Some(cut));
                } else if let Some(finish) = self.is_over(&next) {
                    self.end(next, &finish, None);
                } else {
                    self.live.push(next);
                    from.push(*beam);
                }
            }
        }
        self.caches = inherit_caches(std::mem::take(&mut self.caches), &from);
        Ok(())
    }

    fn append(&self, beam: &mut Beam, sampled: &Sampled) -> Result<()> {
        if let Some(matcher) = &mut beam.matcher {
            matcher.accept_token(sampled.token)?;
        }
        beam.history.push(sampled.token);
        let bytes = self.engine.vocabulary().token_bytes(sampled.token);
        beam.text.extend_from_slice(bytes);
        if let Some(watch) = &mut beam.watch {
            watch.advance(bytes);
        }
        if self.logprobs {
            beam.logprobs.push(sampled.report.clone());
        }
        Ok(())
    }

    /// Returns the reason if a beam has ended without a further choice.
    fn is_over(&self, beam: &Beam) -> Option<Finish> {
        if beam.matcher.as_ref().is_some_and(Matcher::is_terminated) {
            return Some(Finish::Stop);
        }
        (beam.history.len() - self.prompt >= self.max_tokens).then(|| {
            let (path, partial) = unfinished(beam);
            Finish::Length { path, partial }
        })
    }

    /// Returns the score of an output with `choices` choices.
    fn score(&self, log_probability: f64, choices: usize) -> f64 {
        log_probability / (choices.max(1) as f64).powf(self.options.length_penalty)
    }

    /// Returns true if the live beams can no longer change the best outputs.
    fn is_decided(&self) -> bool {
        let Some(last) = self.ended.get(self.width - 1) else { return false };
        // Log-probabilities only fall, and weigh least in the longest output.
        let best = self.live.iter().map(|b| b.log_probability).fold(f64::NEG_INFINITY, f64::max);
        self.options.stop_early || last.output.complete && last.score >= self.score(best, self.max_tokens)
    }

    /// Makes an output of a beam, with the text up to `cut`, and keeps it if it is among the best.
    fn end(&mut self, beam: Beam, finish: &Finish, cut: Option<usize>) {
        let Beam { mut history, mut text, log_probability, choices, logprobs, matcher, guarded, .. } = beam;
        let tokens = history.split_off(self.prompt);
        text.truncate(cut.unwrap_or(text.len()));
        let complete = matcher.is_none_or(|m| satisfies(&m, &tokens, &text, self.engine.vocabulary()));
        let mut stats = Stats {
            tokens: tokens.len(),
            forwards: self.forwards,
            prompt_tokens: self.prompt,
            mode: Mode::Off,
            guarded,
            ..Stats::default()
        };
        stats.close(finish, self.begun.elapsed().as_secs_f64());
        let text = String::from_utf8_lossy(&text).into_owned();
        let finish = finish.clone();
        let output = Output {
            answer: Some(text.clone()),
            text,
            tokens,
            logprobs,
            origins: Vec::new(),
            confidence: Vec::new(),
            source_spans: Vec::new(),
            complete,
            finish,
            stats,
        };
        let score = self.score(log_probability, choices);
        self.ended.push(Scored { output, score, log_probability, choices, seed: None });
        rank(&mut self.ended);
        self.ended.truncate(self.width);
    }
}

/// Returns a cache for each new beam: a copy of its parent's, or for the last child the parent's
/// cache itself. `from` gives the index of the parent.
fn inherit_caches(caches: Vec<KvCache>, from: &[usize]) -> Vec<KvCache> {
    let mut caches: Vec<Option<KvCache>> = caches.into_iter().map(Some).collect();
    let mut next = Vec::with_capacity(from.len());
    for (i, &beam) in from.iter().enumerate() {
        let last = !from[i + 1..].contains(&beam);
        let cache = &mut caches[beam];
        let cache = if last { cache.take() } else { cache.as_ref().map(|c| c.prefix(c.len())) };
        // There is one until the last child has taken it.
        next.extend(cache);
    }
    next
}

/// Returns the JSON pointer of the unfinished value of a beam and its text so far.
fn unfinished(beam: &Beam) -> (String, String) {
    if beam.matcher.is_none() {
        return Default::default();
    }
    let mut fields = JsonStream::new();
    fields.feed(&beam.text);
    fields.unfinished()
}
