//! The progress of a run over many texts, on standard error: a bar on a terminal, the errors, the
//! totals, or all of it as JSON Lines.
//!
//! # Cost
//!
//! Sums only. The bar is drawn some times a second, and not at all if there is no terminal.

use std::time::Instant;

use serde::Serialize;
use serde_json::Value;

use crate::cli::output::json;
use crate::decode::Stats;
use crate::error::Error;
use crate::extract::corpus::{Outcome, Task};

/// Sums over all texts of a run.
#[derive(Default, Serialize)]
pub(super) struct Totals {
    /// Records of this run.
    pub records: usize,
    pub failures: u64,
    /// Records of an earlier run.
    pub resumed: usize,
    /// Texts that were cut, and their parts.
    cut: usize,
    parts: usize,
    /// Pages that show something, but have no text.
    pub pages_without_text: usize,
    tokens: usize,
    forwards: usize,
    forced: usize,
    drafted: usize,
    accepted: usize,
    /// Seconds of the records. Those of a batch overlap.
    #[serde(skip)]
    seconds: f64,
}

/// A line of `--log-json`.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum LogLine<'a> {
    Start {
        /// Number of texts, if it is known.
        texts: Option<usize>,
        batch: u16,
    },
    Record {
        source: String,
        id: Option<&'a Value>,
        stats: &'a Stats,
    },
    Failure {
        source: String,
        id: Option<&'a Value>,
        /// Stable name of the kind of error.
        kind: &'static str,
        error: String,
        stats: Option<&'a Stats>,
    },
    Message {
        message: &'a str,
    },
    End {
        #[serde(flatten)]
        totals: &'a Totals,
        seconds: f64,
        /// The reason why texts are left.
        stopped: Option<&'a str>,
    },
}

/// The progress of a run.
pub(super) struct Progress {
    bar: indicatif::ProgressBar,
    log_json: bool,
    batch: u16,
    start: Instant,
    pub totals: Totals,
}

impl Progress {
    /// Begins with a number of texts, if it is known.
    pub(super) fn start(texts: Option<usize>, batch: u16, log_json: bool) -> Progress {
        let bar = if log_json { indicatif::ProgressBar::hidden() } else { bar(texts) };
        let progress = Progress { bar, log_json, batch, start: Instant::now(), totals: Totals::default() };
        progress.log(&LogLine::Start { texts, batch });
        progress
    }

    /// A text whose record is done already.
    pub(super) fn resumed(&mut self) {
        self.totals.resumed += 1;
        self.bar.inc(1);
    }

    /// A text that is cut into some parts; one part is no cut.
    pub(super) fn cut(&mut self, parts: usize) {
        if parts > 1 {
            self.totals.cut += 1;
            self.totals.parts += parts;
        }
    }

    /// A text with its output, whole or not.
    pub(super) fn outcome(&mut self, task: &Task, outcome: &Outcome, notes: &[String]) {
        self.totals.add(&outcome.stats);
        for note in notes {
            self.message(&format!("{}: {note}", task.name()));
        }
        if let Some(gate) = outcome.stats.gate.as_ref().filter(|_| !self.log_json) {
            self.bar.suspend(|| eprint!("{}:\n{gate}", task.name()));
        }
        match &outcome.incomplete {
            Some(error) => self.failed(task, error, Some(&outcome.stats)),
            None => {
                self.totals.records += 1;
                let (source, id) = (task.name(), task.id.as_ref());
                self.log(&LogLine::Record { source, id, stats: &outcome.stats });
                self.advance();
            }
        }
    }

    /// A text that failed.
    pub(super) fn failed(&mut self, task: &Task, error: &Error, stats: Option<&Stats>) {
        self.totals.failures += 1;
        match self.log_json {
            true => self.log(&LogLine::Failure {
                source: task.name(),
                id: task.id.as_ref(),
                kind: error.kind().code(),
                error: error.to_string(),
                stats,
            }),
            false => self.bar.suspend(|| eprintln!("error: {error}")),
        }
        self.advance();
    }

    /// Shows a message.
    pub(super) fn message(&self, message: &str) {
        match self.log_json {
            true => self.log(&LogLine::Message { message }),
            false => self.bar.suspend(|| eprintln!("{message}")),
        }
    }

    /// Writes to standard output without disturbing the bar.
    pub(super) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    /// Removes the bar.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Shows the totals.
    pub(super) fn end(&self, stopped: Option<&str>) {
        let seconds = self.start.elapsed().as_secs_f64();
        let totals = &self.totals;
        if self.log_json {
            return self.log(&LogLine::End { totals, seconds, stopped });
        }
        match totals.cut {
            0 => {}
            1 => eprintln!("1 text was cut into {} parts", totals.parts),
            cut => eprintln!("{cut} texts were cut into {} parts", totals.parts),
        }
        match totals.pages_without_text {
            0 => {}
            1 => eprintln!("1 page has no text that can be read"),
            pages => eprintln!("{pages} pages have no text that can be read"),
        }
        let resumed = match totals.resumed {
            0 => String::new(),
            n => format!(" ({n} were done)"),
        };
        eprintln!(
            "{} of {} records{resumed}, {} tokens in {} forwards, {} forced, {} drafted, {} accepted, {:.2} s",
            totals.records,
            totals.records as u64 + totals.failures,
            totals.tokens,
            totals.forwards,
            totals.forced,
            totals.drafted,
            totals.accepted,
            if self.batch == 1 { totals.seconds } else { seconds },
        );
    }

    fn log(&self, line: &LogLine) {
        if self.log_json
            && let Ok(line) = json(line)
        {
            eprintln!("{line}");
        }
    }

    fn advance(&self) {
        if !self.bar.is_hidden() {
            self.bar.set_message(self.totals.rates(self.start.elapsed().as_secs_f64()));
        }
        self.bar.inc(1);
    }
}

impl Totals {
    fn add(&mut self, stats: &Stats) {
        self.tokens += stats.tokens;
        self.forwards += stats.forwards;
        self.forced += stats.forced;
        self.drafted += stats.drafted;
        self.accepted += stats.accepted;
        self.seconds += stats.seconds;
    }

    /// Returns the rates of this run for the bar.
    fn rates(&self, seconds: f64) -> String {
        let per_second = |n: usize| n as f64 / seconds.max(1e-9);
        let percent = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
        let mut text = format!(
            "{:.1} records/s, {:.0} tokens/s, {:.0} % forced, {:.0} % of drafts accepted",
            per_second(self.records),
            per_second(self.tokens),
            percent(self.forced, self.tokens),
            percent(self.accepted, self.drafted),
        );
        if self.failures > 0 {
            text += &format!(", {} failed", self.failures);
        }
        text
    }
}

/// Returns a bar on standard error, which is hidden if that is no terminal.
fn bar(texts: Option<usize>) -> indicatif::ProgressBar {
    let (bar, template) = match texts {
        Some(texts) => {
            (indicatif::ProgressBar::new(texts as u64), "{bar:20} {pos}/{len} texts, {eta} left, {wide_msg}")
        }
        None => (indicatif::ProgressBar::new_spinner(), "{spinner} {pos} texts, {elapsed}, {wide_msg}"),
    };
    if let Ok(style) = indicatif::ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_leave_out_what_was_done() {
        let mut totals = Totals { records: 20, resumed: 10, ..Totals::default() };
        totals.add(&Stats { tokens: 400, forced: 100, drafted: 200, accepted: 150, ..Stats::default() });
        assert_eq!(totals.rates(10.0), "2.0 records/s, 40 tokens/s, 25 % forced, 75 % of drafts accepted");
        totals.failures = 3;
        assert!(totals.rates(10.0).ends_with(", 3 failed"));
        assert!(Totals::default().rates(0.0).starts_with("0.0 records/s"));
    }
}
