//! Counters in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::model::ServedModel;
use ffwd_runtime::decode::{BySource, Output};

/// Upper bounds of the histogram of durations, in seconds.
const BOUNDS: [f64; 10] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0];

/// The counters of a server.
#[derive(Default)]
pub(super) struct Metrics {
    /// Requests by endpoint and status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    durations: Mutex<Histogram>,
    admissions: Mutex<Histogram>,
    outputs: Mutex<OutputTotals>,
    /// Requests that have arrived and not been answered.
    pub in_flight: AtomicU64,
    /// Answers whose client hung up.
    pub abandoned: AtomicU64,
}

#[derive(Default)]
struct Histogram {
    counts: [u64; BOUNDS.len()],
    count: u64,
    sum: f64,
}

#[derive(Default)]
struct OutputTotals {
    outputs: u64,
    tokens: u64,
    prompt_tokens: u64,
    cached_tokens: u64,
    forwards: u64,
    forced: u64,
    drafted: BySource,
    accepted: BySource,
}

impl Histogram {
    fn add(&mut self, seconds: f64) {
        self.count += 1;
        self.sum += seconds;
        for (count, bound) in self.counts.iter_mut().zip(BOUNDS) {
            *count += u64::from(seconds <= bound);
        }
    }
}

fn locked<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Metrics {
    /// Counts an answered request.
    pub(crate) fn request(&self, endpoint: &'static str, status: u16, seconds: f64) {
        *locked(&self.requests).entry((endpoint, status)).or_default() += 1;
        locked(&self.durations).add(seconds);
    }

    /// Counts a request that is ready for the batch after this time.
    pub(crate) fn admission(&self, seconds: f64) {
        locked(&self.admissions).add(seconds);
    }

    /// Counts a finished output.
    pub(crate) fn output(&self, output: &Output) {
        let mut totals = locked(&self.outputs);
        let stats = &output.stats;
        totals.outputs += 1;
        totals.tokens += stats.tokens as u64;
        totals.prompt_tokens += stats.prompt_tokens as u64;
        totals.cached_tokens += stats.prompt_cached as u64;
        totals.forwards += stats.forwards as u64;
        totals.forced += stats.forced as u64;
        totals.drafted.add(&stats.drafted_by_source);
        totals.accepted.add(&stats.accepted_by_source);
    }

    /// Returns the page.
    pub(crate) fn page(&self, models: &[ServedModel]) -> String {
        let mut page = Page(String::new());
        page.head("ffwd_requests_total", "counter", "Answered requests by endpoint and status.");
        for ((endpoint, status), count) in &*locked(&self.requests) {
            page.line(&format!("ffwd_requests_total{{endpoint=\"{endpoint}\",status=\"{status}\"}}"), count);
        }
        let what = "Time to the end of the answer, or to its first event.";
        page.histogram("ffwd_request_seconds", what, &locked(&self.durations));
        let what = "Time until a request is read, compiled and ready for the batch.";
        page.histogram("ffwd_admission_seconds", what, &locked(&self.admissions));
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        page.single("ffwd_requests_in_flight", "gauge", "Requests without an answer yet.", in_flight);
        let abandoned = self.abandoned.load(Ordering::Relaxed);
        page.single("ffwd_abandoned_total", "counter", "Answers whose client hung up.", abandoned);
        self.totals(&mut page);
        batches(&mut page, models);
        page.0
    }

    fn totals(&self, page: &mut Page) {
        let totals = locked(&self.outputs);
        for (name, what, value) in [
            ("outputs", "Finished outputs.", totals.outputs),
            ("output_tokens", "Tokens of outputs.", totals.tokens),
            ("prompt_tokens", "Tokens of prompts.", totals.prompt_tokens),
            ("prompt_tokens_cached", "Prompt tokens that were not computed again.", totals.cached_tokens),
            ("output_forwards", "Forwards that an output took part in.", totals.forwards),
            ("forced_tokens", "Output tokens that the constraint forced.", totals.forced),
        ] {
            page.single(&format!("ffwd_{name}_total"), "counter", what, value);
        }
        for (name, what, counts) in [
            ("ffwd_drafted_tokens_total", "Proposed tokens by source.", &totals.drafted),
            ("ffwd_accepted_tokens_total", "Accepted proposals by source.", &totals.accepted),
        ] {
            page.head(name, "counter", what);
            for (source, count) in counts.iter() {
                page.line(&format!("{name}{{source=\"{}\"}}", source.statistic()), count);
            }
        }
    }
}

/// Writes the statistics of the schedulers.
fn batches(page: &mut Page, models: &[ServedModel]) {
    let loaded: Vec<_> = models.iter().filter_map(|model| model.loaded()).collect();
    page.head("ffwd_threads", "gauge", "Threads that a model runs on.");
    for model in &loaded {
        let name = escaped(&model.name);
        page.line(&format!("ffwd_threads{{model=\"{name}\"}}"), model.engine.threads().number());
    }
    let all: Vec<_> = loaded.iter().map(|model| (escaped(&model.name), model.scheduler.stats())).collect();
    let mut family =
        |name: &str, kind: &str, what: &str, value: fn(&ffwd_runtime::decode::SchedulerStats) -> usize| {
            page.head(name, kind, what);
            for (model, stats) in &all {
                page.line(&format!("{name}{{model=\"{model}\"}}"), value(stats));
            }
        };
    family("ffwd_batch_running", "gauge", "Requests in the batch.", |s| s.running);
    family("ffwd_batch_ended_total", "counter", "Requests that left the batch.", |s| s.ended);
    family("ffwd_forwards_total", "counter", "Forwards of the target model.", |s| s.forwards);
    family("ffwd_forward_rows_total", "counter", "Rows of these forwards.", |s| s.rows);
    family("ffwd_draft_forwards_total", "counter", "Forwards of the draft model.", |s| s.draft_forwards);
    family("ffwd_prefix_cache_bytes", "gauge", "Keys and values kept for later prompts.", |s| s.prefix_bytes);
}

/// Returns a text as the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, what: &str) {
        // Writing to a text cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {what}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn histogram(&mut self, name: &str, what: &str, histogram: &Histogram) {
        self.head(name, "histogram", what);
        for (bound, count) in BOUNDS.iter().zip(histogram.counts) {
            self.line(&format!("{name}_bucket{{le=\"{bound}\"}}"), count);
        }
        self.line(&format!("{name}_bucket{{le=\"+Inf\"}}"), histogram.count);
        self.line(&format!("{name}_sum"), histogram.sum);
        self.line(&format!("{name}_count"), histogram.count);
    }

    fn single(&mut self, name: &str, kind: &str, what: &str, value: u64) {
        self.head(name, kind, what);
        self.line(name, value);
    }
}
