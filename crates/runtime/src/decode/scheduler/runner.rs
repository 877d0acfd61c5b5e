//! The thread that runs the rounds of the batch.
//!
//! A round admits what fits, steps every sequence to its next forward, drafts for all that draft,
//! runs one forward of the target over the rows of all, and verifies them. Decoding sequences come
//! first, in turn if the rows do not suffice. Prompts share the remaining rows, oldest first, and
//! always get a quarter. So neither can starve the other.
//!
//! # Cost
//!
//! Besides the forwards, a round is linear in the number of sequences.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use super::queue::{Queue, Ready, cancelled};
use super::sequence::Sequence;
use super::{SchedulerOptions, SchedulerStats};
use crate::decode::drafting::BatchContext;
use crate::decode::engine::Engine;
use crate::decode::prefix_cache::PrefixCache;
use crate::decode::session::{MaskJob, NextForward, Session};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Model, Segment};
use crate::threads::Threads;

/// Number of mask rows at which they are filled while the forward runs.
const ROWS_TO_FILL_ASIDE: usize = 8;

/// Number of rows of one sequence above which they count as a prompt, which may be cut.
const MAX_DECODE_ROWS: usize = 64;

/// The state of the batch thread.
pub(super) struct Runner {
    engine: Arc<Engine>,
    queue: Arc<Queue>,
    shown: Arc<Mutex<SchedulerStats>>,
    options: SchedulerOptions,
    threads: Threads,
    prefixes: PrefixCache,
    active: Vec<Sequence>,
    figures: SchedulerStats,
    /// Index in `active` at which the distribution of rows begins.
    turn: usize,
}

impl Runner {
    pub(super) fn new(
        engine: Arc<Engine>,
        queue: Arc<Queue>,
        shown: Arc<Mutex<SchedulerStats>>,
        options: &SchedulerOptions,
    ) -> Runner {
        Runner {
            threads: engine.threads().clone(),
            engine,
            queue,
            shown,
            options: options.clone(),
            prefixes: PrefixCache::new(options.prefix_bytes),
            active: Vec::new(),
            figures: SchedulerStats::default(),
            turn: 0,
        }
    }

    /// Runs until the queue is closed.
    pub(super) fn run(mut self) {
        while self.admit() {
            self.round();
            self.figures.running = self.active.len();
            self.figures.prefix_bytes = self.prefixes.bytes();
            *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = self.figures;
        }
        for active in self.active {
            let message = "the scheduler was dropped while the request ran";
            active.answer.end(Err(Error::new(ErrorKind::Cancelled, message)));
        }
    }

    /// Admits requests while there is room; returns false when the queue is closed.
    fn admit(&mut self) -> bool {
        loop {
            let full = self.active.len() >= self.options.batch;
            let used: usize = self.active.iter().map(|a| a.bytes).sum();
            let most = self.options.cache_bytes;
            // A request larger than the whole limit passes, so that `join` reports it.
            let fits = |s: &Session| {
                let bytes = s.cache_bytes();
                !full && (bytes > most || used.saturating_add(bytes) <= most)
            };
            let popped = self.queue.pop(self.active.is_empty(), fits);
            for ready in popped.cancelled {
                self.figures.ended += 1;
                ready.answer.end(Err(cancelled()));
            }
            match popped.first {
                _ if popped.closed => return false,
                Some(ready) => self.join(ready),
                None if self.active.is_empty() => {}
                None => return true,
            }
        }
    }

    /// Adds a request to the batch.
    fn join(&mut self, ready: Ready) {
        let bytes = ready.session.cache_bytes();
        if bytes > self.options.cache_bytes {
            let message = format!(
                "the caches of this request may take {bytes} bytes, the limit for all is {}",
                self.options.cache_bytes
            );
            let error = Error::new(ErrorKind::TooComplex, message)
                .hint("lower the request's token limit, or raise `cache_bytes` of the scheduler");
            self.figures.ended += 1;
            return ready.answer.end(Err(error));
        }
        let mut active = Sequence::new(ready, bytes);
        if let Some(session) = &active.session {
            let prompt = session.prompt();
            let leaders = self.active.iter().filter_map(|a| Some((a.leads(session)?, a.ticket)));
            let leader = leaders.max_by_key(|l| l.0).filter(|l| l.0 > self.prefixes.kept(prompt));
            if self.options.prefix_bytes > 0 {
                active.follows = leader.map(|(len, ticket)| (ticket, len));
            }
            active.keep = self.prefixes.meet(prompt).filter(|_| active.follows.is_none());
        }
        if active.follows.is_none() {
            self.figures.shared_tokens += active.adopt(&mut self.prefixes);
        }
        self.active.push(active);
        let used = self.active.iter().map(|a| a.bytes).sum();
        self.figures.most_cache_bytes = self.figures.most_cache_bytes.max(used);
    }

    fn round(&mut self) {
        self.follow();
        let company = self.batch_context();
        self.threads.each(&mut self.active, |active| {
            active.join(company);
            active.step();
        });
        self.draft();
        self.forward();
        for active in &mut self.active {
            active.share(&mut self.prefixes);
            active.held = false;
        }
        self.dismiss();
    }

    /// Returns the batch context of drafts in this round.
    fn batch_context(&self) -> BatchContext {
        let sessions =
            || self.active.iter().filter(|a| a.follows.is_none()).filter_map(|a| a.session.as_ref());
        let sequences = sessions().count();
        let plain = sessions().filter(|s| s.is_plain()).count();
        if plain == 0 || plain == sequences {
            return BatchContext { sequences, max_draft: None };
        }
        let costs = self.engine.target().cost_estimate();
        let most = costs.ms(sequences) * (1.0 + f64::from(self.options.slack) / 100.0);
        let drafting = sequences - plain;
        // Rows for each drafting sequence, as long as the forward stays within the slack.
        let rows = (1..=MAX_DECODE_ROWS).take_while(|n| costs.ms(sequences + n * drafting) <= most).count();
        BatchContext { sequences, max_draft: Some(rows) }
    }

    /// Starts the sequences that waited for another sequence to run their common prefix.
    fn follow(&mut self) {
        for i in 0..self.active.len() {
            let Some((ticket, len)) = self.active[i].follows else { continue };
            let leader = self.active.iter().find(|a| a.ticket == ticket).and_then(|a| a.session.as_ref());
            match leader {
                _ if self.active[i].session.as_ref().is_some_and(Session::is_cancelled) => {}
                Some(leader) if leader.cached() < len => continue,
                Some(leader) => self.prefixes.keep(&leader.prompt()[..len], leader.prefix(len)),
                None => {}
            }
            self.active[i].follows = None;
            self.figures.shared_tokens += self.active[i].adopt(&mut self.prefixes);
        }
    }

    /// Runs forwards of the draft model until no sequence needs one. Only one part of a long prompt
    /// runs in a round, so that others need not wait for it; its sequence skips the round.
    fn draft(&mut self) {
        let Some(model) = self.engine.draft().cloned() else { return };
        let short = self.short();
        while self.active.iter().any(|a| a.needs(&NextForward::DraftModel)) {
            let mut left = self.options.rows;
            let (mut segments, mut members) = (Vec::new(), Vec::new());
            for (i, active) in self.active.iter_mut().enumerate() {
                if !active.needs(&NextForward::DraftModel) || (left < short && !segments.is_empty()) {
                    continue;
                }
                let Some(session) = &mut active.session else { continue };
                let segment = session.segment(left);
                left = left.saturating_sub(segment.tokens.len());
                active.held = segment.rows.is_empty();
                segments.push(segment);
                members.push(i);
            }
            let rows = run(&self.threads, &model, &mut segments);
            drop(segments);
            self.figures.draft_forwards += 1;
            for (i, rows) in members.into_iter().zip(rows) {
                self.active[i].take(rows);
                self.active[i].step();
            }
        }
    }

    /// Runs one forward of the target over the rows of all ready sequences.
    fn forward(&mut self) {
        let shares = self.share_out();
        if shares.is_empty() {
            return;
        }
        let mut jobs = self.mask_jobs(&shares);
        let mut segments = Vec::new();
        let mut members = Vec::new();
        for (i, active) in self.active.iter_mut().enumerate() {
            let Some(&(_, most)) = shares.iter().find(|s| s.0 == i) else { continue };
            let Some(session) = &mut active.session else { continue };
            segments.push(session.segment(most));
            members.push(i);
        }
        let rows: usize = segments.iter().map(|s| s.tokens.len()).sum();
        let figures = &mut self.figures;
        figures.forwards += 1;
        figures.rows += rows;
        figures.most_rows = figures.most_rows.max(rows);
        figures.most_sequences = figures.most_sequences.max(segments.len());
        let target = self.engine.target();
        let threads = &self.threads;
        // The thread only waits for a device, so others fill the masks meanwhile.
        let results = std::thread::scope(|scope| {
            if !jobs.is_empty() {
                scope.spawn(|| threads.each(&mut jobs, Filling::run));
            }
            run(threads, target, &mut segments)
        });
        drop(segments);
        for job in jobs {
            if let Some(session) = &mut self.active[job.member].session {
                session.set_masks(job.rows);
            }
        }
        let mut results: Vec<Option<Result<Vec<Vec<f32>>>>> = results.into_iter().map(Some).collect();
        let mut judged: Vec<_> = self
            .active
            .iter_mut()
            .enumerate()
            .filter_map(|(i, a)| Some((a, results[members.iter().position(|m| *m == i)?].take()?)))
            .map(|(a, rows)| (a, Some(rows)))
            .collect();
        self.threads.each(&mut judged, |(active, rows)| {
            if let Some(rows) = rows.take() {
                active.take(rows);
            }
        });
    }

    /// Returns the largest number of rows of a decoding sequence: a draft and the unverified
    /// tokens. More rows are a prompt.
    fn short(&self) -> usize {
        self.options.rows.min(MAX_DECODE_ROWS)
    }

    /// Distributes the rows of the forward: (index in `active`, largest number of rows) of each
    /// sequence that runs.
    fn share_out(&mut self) -> Vec<(usize, usize)> {
        let count = self.active.len();
        let ready = |a: &Sequence| a.needs(&NextForward::TargetModel);
        let rows = |a: &Sequence| a.session.as_ref().map_or(0, Session::rows);
        let short = self.short();
        let prompts: Vec<usize> =
            (0..count).filter(|&i| ready(&self.active[i]) && rows(&self.active[i]) > short).collect();
        let mut left = self.options.rows;
        let reserve = if prompts.is_empty() { 0 } else { (left / 4).max(1) };
        let mut shares = Vec::new();
        let start = self.turn;
        for k in 0..count {
            let i = (start + k) % count;
            let wanted = rows(&self.active[i]);
            if !ready(&self.active[i]) || wanted > short {
                continue;
            }
            if wanted > left.saturating_sub(reserve) && !shares.is_empty() {
                // It comes first in the next round.
                self.turn = i;
                break;
            }
            left = left.saturating_sub(wanted).max(reserve);
            shares.push((i, usize::MAX));
        }
        // Each thread can run one of several prompts.
        let together = self.threads.number();
        for (k, &i) in prompts.iter().enumerate() {
            if left == 0 {
                break;
            }
            let others = (prompts.len() - k).min(together.saturating_sub(k).max(1));
            let share = rows(&self.active[i]).min(left.div_ceil(others));
            left -= share;
            shares.push((i, share));
        }
        shares
    }

    /// Returns jobs for the masks to be filled while a device runs the forward; none if they are too few
    /// to be worth it.
    fn mask_jobs(&self, shares: &[(usize, usize)]) -> Vec<Filling> {
        if !self.engine.target().is_on_device() {
            return Vec::new();
        }
        let jobs: Vec<Filling> = shares
            .iter()
            .filter_map(|&(member, most)| {
                let session = self.active[member].session.as_ref()?;
                // A part of a prompt is not verified.
                let job = if session.rows() <= most { session.mask_job()? } else { return None };
                Some(Filling { member, job: Some(job), rows: Vec::new() })
            })
            .collect();
        let rows: usize = jobs.iter().filter_map(|j| j.job.as_ref()).map(MaskJob::rows).sum();
        if rows < ROWS_TO_FILL_ASIDE { Vec::new() } else { jobs }
    }

    /// Removes sequences that have ended and sends their outputs.
    fn dismiss(&mut self) {
        for active in self.active.extract_if(.., |a| a.session.is_none()) {
            self.figures.ended += 1;
            if let Some(output) = active.output {
                active.answer.end(output);
            }
        }
    }
}

/// A job that fills masks, and its result.
struct Filling {
    member: usize,
    job: Option<MaskJob>,
    rows: Vec<u32>,
}

impl Filling {
    fn run(&mut self) {
        let Some(job) = self.job.take() else { return };
        // A panic recurs where the masks are needed, and ends that request there.
        let filled = catch_unwind(AssertUnwindSafe(|| job.run()));
        self.rows = filled.unwrap_or_default();
    }
}

/// Returns the number of segments for each thread, if the forward runs on several.
fn parts(threads: usize, model: &Model, segments: &[Segment]) -> Option<Vec<usize>> {
    let count = threads.min(segments.len());
    if count < 2 {
        return None;
    }
    let rows: usize = segments.iter().map(|s| s.tokens.len()).sum();
    let (mut sizes, mut largest) = (vec![0; count], 0);
    let (mut part, mut taken, mut before) = (0, 0, 0);
    for segment in segments {
        // Start the next part if the middle of the segment is beyond the end of this one.
        if part + 1 < count
            && sizes[part] > 0
            && (2 * taken + segment.tokens.len()) * count > 2 * rows * (part + 1)
        {
            part += 1;
            before = taken;
        }
        sizes[part] += 1;
        taken += segment.tokens.len();
        largest = largest.max(taken - before);
    }
    model.runs_in_parts(rows, count, largest).then_some(sizes)
}

/// Runs a forward: one for each part on a thread of its own, if that is faster, or one of all
/// segments, whose products the threads share.
fn run(threads: &Threads, model: &Model, segments: &mut [Segment]) -> Vec<Result<Vec<Vec<f32>>>> {
    let Some(sizes) = parts(threads.number(), model, segments) else { return model.forward_batch(segments) };
    let mut rest = segments;
    let mut parts = Vec::with_capacity(sizes.len());
    for size in sizes {
        let (part, others) = rest.split_at_mut(size);
        parts.push((part, Vec::new()));
        rest = others;
    }
    threads.each(&mut parts, |(part, results)| *results = model.forward_batch_here(part));
    parts.into_iter().flat_map(|(_, results)| results).collect()
}
