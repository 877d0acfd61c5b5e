//! Best of n: independent samples, ranked by their probability.
//!
//! Each sample is a session of its own and runs as it would alone; only the forwards are shared.
//! The first sample runs the prompt through the models, the others begin with a copy of its keys
//! and values.
//!
//! # Cost
//!
//! The forwards of the longest sample, over the rows of all.
//!
//! # Alternatives considered
//!
//! Sampling repeatedly with one session was rejected: it would need as many forwards as all samples
//! have together.

use std::time::Instant;

use super::{Ranked, Scored, check_count, rank, refused};
use crate::decode::drafting::BatchContext;
use crate::decode::engine::Engine;
use crate::decode::request::Request;
use crate::decode::session::{NextForward, Session};
use crate::decode::stats::Mode;
use crate::error::Result;
use crate::model::{Model, Segment};
use crate::sample::SamplingParams;

impl Engine {
    /// Samples `n` outputs and ranks them by their log-probability under plain masked decoding.
    /// They are the outputs of [`generate`](Self::generate) with the request's seed and the `n` - 1
    /// following seeds (0 follows the largest), in fewer forwards. [`Scored::seed`] gives the seed
    /// of each. Outputs may be equal.
    ///
    /// # Errors
    /// Fails like [`generate`](Self::generate); if one output fails, all do. Also fails in these
    /// cases:
    ///
    /// - `n` is 0 or above [`MOST_SEQUENCES`](super::super::MOST_SEQUENCES)
    /// - the mode is an unverified one, in which the model does not verify every token
    /// - `n` is above 1 and the sampling greedy: all outputs would be the same
    pub fn best_of(&self, request: &Request, n: usize) -> Result<Ranked> {
        check_count("the number of outputs", n)?;
        if matches!(request.mode, Mode::Canonical | Mode::Longest) {
            return Err(refused(
                "the probability of an output is not known in the unverified modes",
                "use the mode off or exact",
            ));
        }
        if n > 1 && request.sampling.is_greedy() {
            return Err(refused(
                "all outputs would be the same: the sampling is greedy",
                "set a temperature, such as 0.8, or use a beam search",
            ));
        }
        let start = Instant::now();
        let grammar = self.grammar(request)?;
        let compile_seconds = start.elapsed().as_secs_f64();
        let sample = |i: u64| {
            let seed = request.sampling.seed.wrapping_add(i);
            let sampling = SamplingParams { seed, ..request.sampling.clone() };
            let session = self.session_sampling(request, sampling, true, grammar.clone(), None)?;
            Ok(Sample { session: Some(session), need: NextForward::TargetModel, seed, scored: None })
        };
        let samples = (0..n as u64).map(sample).collect::<Result<_>>()?;
        let mut ranked = Samples {
            engine: self,
            samples,
            drafts: request.mode != Mode::Off,
            forwards: 0,
            draft_forwards: 0,
        }
        .run()?;
        for scored in &mut ranked.outputs {
            scored.output.stats.compile_seconds = compile_seconds;
            if !request.logprobs {
                scored.output.logprobs.clear();
            }
        }
        Ok(ranked)
    }
}

/// One of the outputs.
struct Sample {
    /// `None` once the sample has ended.
    session: Option<Session>,
    /// The forward it needs; `TargetModel` if it has not begun.
    need: NextForward,
    seed: u64,
    scored: Option<Scored>,
}

impl Sample {
    fn needs(&self, need: &NextForward) -> bool {
        self.session.is_some() && self.need == *need
    }

    /// Steps to the next forward, or to the end.
    fn step(&mut self) -> Result<()> {
        let Some(session) = &mut self.session else { return Ok(()) };
        self.need = session.step(&mut None)?;
        if let NextForward::Finished(finish) = &self.need
            && let Some(session) = self.session.take()
        {
            let (log_probability, choices) = session.score();
            let output = session.into_output(finish, &mut None);
            let (score, seed) = (log_probability, Some(self.seed));
            self.scored = Some(Scored { output, score, log_probability, choices, seed });
        }
        Ok(())
    }
}

/// All outputs.
struct Samples<'a> {
    engine: &'a Engine,
    samples: Vec<Sample>,
    drafts: bool,
    forwards: usize,
    draft_forwards: usize,
}

impl Samples<'_> {
    fn run(mut self) -> Result<Ranked> {
        // The first runs the prompt for all, as far as no earlier request has read it.
        let first = self.samples.first_mut().and_then(|first| first.session.as_mut());
        let shared = first.and_then(|first| self.engine.adopt(first));
        self.round(1)?;
        if let Some((first, others)) = self.samples.split_first_mut()
            && let Some(first) = &first.session
        {
            self.engine.keep_of(first, shared);
            // Each sample needs the logits of the last token.
            let shared = first.prompt().len() - 1;
            for other in others.iter_mut().filter_map(|s| s.session.as_mut()) {
                other.restore_prefix(first.prefix(shared));
            }
        }
        while self.samples.iter().any(|s| s.session.is_some()) {
            self.round(self.samples.len())?;
        }
        let mut outputs: Vec<Scored> = self.samples.into_iter().filter_map(|s| s.scored).collect();
        rank(&mut outputs);
        Ok(Ranked { outputs, forwards: self.forwards, draft_forwards: self.draft_forwards })
    }

    /// Runs drafts and one forward of the target for the first `count` outputs.
    fn round(&mut self, count: usize) -> Result<()> {
        let samples = &mut self.samples[..count];
        let sequences = samples.iter().filter(|s| s.session.is_some()).count();
        for sample in samples.iter_mut() {
            // Costs are measured at their first use; without drafts they are not needed.
            if let Some(session) = sample.session.as_mut().filter(|_| self.drafts) {
                session.set_batch_context(BatchContext { sequences, max_draft: None });
            }
            sample.step()?;
        }
        if let Some(draft) = self.engine.draft() {
            while samples.iter().any(|s| s.needs(&NextForward::DraftModel)) {
                self.draft_forwards += 1;
                forward(samples, &NextForward::DraftModel, draft)?;
                samples
                    .iter_mut()
                    .filter(|s| s.needs(&NextForward::DraftModel))
                    .try_for_each(Sample::step)?;
            }
        }
        if samples.iter().any(|s| s.needs(&NextForward::TargetModel)) {
            self.forwards += 1;
            forward(samples, &NextForward::TargetModel, self.engine.target())?;
        }
        Ok(())
    }
}

/// Runs a forward of `model` for the samples that need it.
fn forward(samples: &mut [Sample], need: &NextForward, model: &Model) -> Result<()> {
    let mut sessions: Vec<&mut Session> =
        samples.iter_mut().filter(|s| s.needs(need)).filter_map(|s| s.session.as_mut()).collect();
    let mut segments: Vec<Segment> = sessions.iter_mut().map(|s| s.segment(usize::MAX)).collect();
    let results = model.forward_batch(&mut segments);
    drop(segments);
    sessions.iter_mut().zip(results).try_for_each(|(session, rows)| session.resume(rows))
}
