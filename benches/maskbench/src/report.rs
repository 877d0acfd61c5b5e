//! Times and results of an engine, and the tables that show them.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::engines::{Prepared, TokenizedInstance};

/// Why a walk ended before the instance did, or how it ended.
pub enum End {
    Accepted,
    /// The token at this position is not in the mask (or the end token at the end).
    Refused(usize),
    /// The engine gave up in the middle of a generation.
    Failed(String),
}

/// One schema under one engine.
#[derive(Default)]
pub struct Outcome {
    pub compile_error: Option<String>,
    pub first_mask: Duration,
    /// Time of each mask and of each token accepted behind it.
    pub masks: Vec<Duration>,
    pub accepts: Vec<Duration>,
    /// Instance and position of each mask.
    places: Vec<(usize, usize)>,
    pub wrongly_refused: Vec<String>,
    pub wrongly_accepted: Vec<String>,
    pub failed: Vec<String>,
    pub refused_for_digits: usize,
    pub forced: usize,
    pub forced_of: usize,
    /// Times of a second pass, and of masks that were not copied; empty if not measured.
    pub warm_masks: Vec<Duration>,
    pub borrowed: Vec<Duration>,
    pub warm_accepts: Vec<Duration>,
    /// Bytes of the compiled grammar after the first pass.
    pub bytes: usize,
}

impl Outcome {
    /// Follows one instance and takes the times.
    pub fn follow<S>(
        &mut self,
        number: usize,
        walk: &TokenizedInstance,
        state: &mut S,
        mut mask: impl FnMut(&mut S, u32) -> bool,
        mut accept: impl FnMut(&mut S, u32) -> Result<(), String>,
        mut accepting: impl FnMut(&mut S) -> Result<bool, String>,
    ) -> End {
        for (at, &token) in walk.tokens.iter().enumerate() {
            let started = Instant::now();
            let allowed = mask(state, token);
            let masked = Instant::now();
            self.masks.push(masked - started);
            self.places.push((number, at));
            if !allowed {
                self.accepts.push(Duration::ZERO);
                return match accepting(state) {
                    Err(e) => End::Failed(e),
                    Ok(_) => End::Refused(at),
                };
            }
            let result = accept(state, token);
            self.accepts.push(masked.elapsed());
            if let Err(e) = result {
                return End::Failed(e);
            }
        }
        match accepting(state) {
            Ok(true) => End::Accepted,
            Ok(false) => End::Refused(walk.tokens.len()),
            Err(e) => End::Failed(e),
        }
    }

    pub fn end(&mut self, number: usize, walk: &TokenizedInstance, end: End) {
        match (end, walk.valid) {
            (End::Accepted, false) => self.wrongly_accepted.push(format!("instance {number}")),
            (End::Refused(at), true) => {
                self.refused_for_digits += usize::from(walk.long_number);
                self.wrongly_refused
                    .push(format!("instance {number} at token {at} of {}", walk.tokens.len()));
            }
            (End::Failed(e), _) => self.failed.push(format!("instance {number}: {e}")),
            _ => {}
        }
    }

    /// Takes the smaller of two times for each step of the same work.
    pub fn keep_fastest(&mut self, other: Outcome) {
        self.first_mask = self.first_mask.min(other.first_mask);
        for (mine, theirs) in [(&mut self.masks, other.masks), (&mut self.accepts, other.accepts)] {
            for (a, b) in mine.iter_mut().zip(theirs) {
                *a = b.min(*a);
            }
        }
    }

    fn passes(&self) -> bool {
        self.compile_error.is_none()
            && self.wrongly_refused.is_empty()
            && self.wrongly_accepted.is_empty()
            && self.failed.is_empty()
    }
}

/// All schemas under one engine.
pub struct EngineReport {
    pub name: &'static str,
    pub settings: String,
    schemas: usize,
    passing: usize,
    instances: usize,
    unspellable: usize,
    compile_errors: Vec<(String, String)>,
    wrongly_refused: Vec<(String, String)>,
    wrongly_accepted: Vec<(String, String)>,
    failed: Vec<(String, String)>,
    refused_for_digits: usize,
    first_masks: Vec<Duration>,
    /// Of the schemas that no engine of the run refused.
    common_first_masks: Vec<Duration>,
    common_masks: Vec<Duration>,
    masks: Vec<Duration>,
    accepts: Vec<Duration>,
    combined: Vec<Duration>,
    slow: Vec<(Duration, String)>,
    slow_first: Vec<(Duration, String)>,
    forced: usize,
    forced_of: usize,
    warm_masks: Vec<Duration>,
    borrowed: Vec<Duration>,
    warm_accepts: Vec<Duration>,
    bytes: Vec<usize>,
}

impl EngineReport {
    pub fn new(name: &'static str) -> Self {
        EngineReport {
            name,
            settings: String::new(),
            schemas: 0,
            passing: 0,
            instances: 0,
            unspellable: 0,
            compile_errors: vec![],
            wrongly_refused: vec![],
            wrongly_accepted: vec![],
            failed: vec![],
            refused_for_digits: 0,
            first_masks: vec![],
            common_first_masks: vec![],
            common_masks: vec![],
            masks: vec![],
            accepts: vec![],
            combined: vec![],
            slow: vec![],
            slow_first: vec![],
            forced: 0,
            forced_of: 0,
            warm_masks: vec![],
            borrowed: vec![],
            warm_accepts: vec![],
            bytes: vec![],
        }
    }

    /// Adds a schema; `common` if no engine refused it.
    pub fn add(&mut self, prepared: &Prepared, outcome: Outcome, common: bool) {
        self.schemas += 1;
        self.passing += usize::from(outcome.passes());
        self.instances += prepared.instances.len();
        self.unspellable += prepared.unspellable;
        let id = || prepared.id.to_string();
        if let Some(error) = outcome.compile_error {
            self.compile_errors.push((id(), error));
            return;
        }
        self.wrongly_refused.extend(outcome.wrongly_refused.into_iter().map(|e| (id(), e)));
        self.wrongly_accepted.extend(outcome.wrongly_accepted.into_iter().map(|e| (id(), e)));
        self.failed.extend(outcome.failed.into_iter().map(|e| (id(), e)));
        self.refused_for_digits += outcome.refused_for_digits;
        self.first_masks.push(outcome.first_mask);
        self.slow_first.push((outcome.first_mask, id()));
        if common {
            self.common_first_masks.push(outcome.first_mask);
            self.common_masks.extend_from_slice(&outcome.masks);
        }
        self.forced += outcome.forced;
        self.forced_of += outcome.forced_of;
        for ((mask, accept), (number, at)) in outcome.masks.iter().zip(&outcome.accepts).zip(&outcome.places)
        {
            self.combined.push(*mask + *accept);
            self.slow.push((*mask + *accept, format!("{} instance {number} token {at}", prepared.id)));
        }
        self.slow.sort_by_key(|s| std::cmp::Reverse(s.0));
        self.slow.truncate(100);
        self.warm_masks.extend(outcome.warm_masks);
        self.borrowed.extend(outcome.borrowed);
        self.warm_accepts.extend(outcome.warm_accepts);
        self.bytes.extend((outcome.bytes > 0).then_some(outcome.bytes));
        self.masks.extend(outcome.masks);
        self.accepts.extend(outcome.accepts);
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let count = |n: usize| n.to_string();
        let share = |a: usize, b: usize| format!("{:.1}%", 100.0 * a as f64 / b.max(1) as f64);
        let times = [
            ("first mask", Times::of(&self.first_masks)),
            ("common first mask", Times::of(&self.common_first_masks)),
            ("mask", Times::of(&self.masks)),
            ("accept", Times::of(&self.accepts)),
            ("mask + accept", Times::of(&self.combined)),
        ];
        let mut rows = vec![
            ("schemas", count(self.schemas)),
            ("instances", count(self.instances)),
            ("schemas passing", format!("{} ({})", self.passing, share(self.passing, self.schemas))),
            ("compile errors", count(self.compile_errors.len())),
            ("wrongly refused", count(self.wrongly_refused.len())),
            ("  of them: more digits than the policy", count(self.refused_for_digits)),
            ("wrongly accepted", count(self.wrongly_accepted.len())),
            ("failed on the way", count(self.failed.len())),
            ("masks", count(self.masks.len())),
            ("forced tokens", share(self.forced, self.forced_of)),
        ];
        for (name, times) in times {
            let names: [&'static str; 6] = match name {
                "first mask" => ["first mask avg us", "  p50", "  p90", "  p99", "  p99.9", "  max"],
                "common first mask" => {
                    ["  where none refused, avg us", "    p50", "    p90", "    p99", "    p99.9", "    max"]
                }
                "mask" => ["mask avg us", "  p50", "  p90", "  p99", "  p99.9", "  max"],
                "accept" => ["accept avg us", "  p50", "  p90", "  p99", "  p99.9", "  max"],
                _ => ["mask + accept avg us", "  p50", "  p90", "  p99", "  p99.9", "  max"],
            };
            rows.extend(names.into_iter().zip(times.0.iter().map(|t| format!("{t:.2}"))));
        }
        for (name, p50, list) in [
            ("warm mask, copied avg us", "  p50", &self.warm_masks),
            ("warm mask, borrowed avg us", "  p50", &self.borrowed),
            ("warm accept avg us", "  p50", &self.warm_accepts),
        ] {
            let Times([avg, median, ..]) = Times::of(list);
            let shown = |t: f64| if list.is_empty() { "-".to_string() } else { format!("{t:.3}") };
            rows.extend([(name, shown(avg)), (p50, shown(median))]);
        }
        let kb = |b: Option<usize>| b.map_or("-".into(), |b| format!("{:.0}", b as f64 / 1000.0));
        let [p50, p90, max] = self.bytes_at();
        rows.extend([("kB per grammar, p50", kb(p50)), ("  p90", kb(p90)), ("  max", kb(max))]);
        rows
    }

    /// Median, p90 and maximum of the bytes of a grammar.
    fn bytes_at(&self) -> [Option<usize>; 3] {
        let mut sorted = self.bytes.clone();
        sorted.sort_unstable();
        let at = |q: usize| sorted.get(sorted.len() * q / 10).copied();
        [at(5), at(9), sorted.last().copied()]
    }

    fn json(&self) -> Value {
        let list = |l: &[(String, String)]| l.iter().map(|(id, e)| json!([id, e])).collect::<Vec<_>>();
        json!({
            "engine": self.name,
            "settings": self.settings,
            "schemas": self.schemas,
            "passing": self.passing,
            "instances": self.instances,
            "unspellable_instances": self.unspellable,
            "compile_errors": list(&self.compile_errors),
            "wrongly_refused": list(&self.wrongly_refused),
            "wrongly_refused_for_digits": self.refused_for_digits,
            "wrongly_accepted": list(&self.wrongly_accepted),
            "failed": list(&self.failed),
            "masks": self.masks.len(),
            "forced_tokens": self.forced,
            "forced_of_tokens": self.forced_of,
            "first_mask_us": Times::of(&self.first_masks).json(),
            "common_first_mask_us": Times::of(&self.common_first_masks).json(),
            "common_mask_us": Times::of(&self.common_masks).json(),
            "mask_us": Times::of(&self.masks).json(),
            "accept_us": Times::of(&self.accepts).json(),
            "mask_and_accept_us": Times::of(&self.combined).json(),
            "warm_mask_us": Times::of(&self.warm_masks).json(),
            "warm_borrowed_mask_us": Times::of(&self.borrowed).json(),
            "warm_accept_us": Times::of(&self.warm_accepts).json(),
            "bytes_per_grammar": self.bytes_at(),
            "first_masks": self.slow_first.iter().map(|(t, s)| json!([t.as_secs_f64() * 1e6, s])).collect::<Vec<_>>(),
            "slowest": self.slow.iter().take(20).map(|(t, s)| json!([t.as_secs_f64() * 1e6, s])).collect::<Vec<_>>(),
        })
    }
}

/// Average, p50, p90, p99, p99.9 and the greatest, in microseconds.
struct Times([f64; 6]);

impl Times {
    /// Some of the times, with three digits.
    fn short<const N: usize>(&self, which: [usize; N]) -> String {
        let digits = |us: f64| match us {
            0.0 => "-".to_string(),
            ..1.0 => format!("{us:.2}"),
            ..10.0 => format!("{us:.1}"),
            ..10_000.0 => format!("{us:.0}"),
            _ => format!("{:.0},000", us / 1000.0),
        };
        let list: Vec<String> = which.iter().map(|&i| digits(self.0[i])).collect();
        if list.iter().all(|t| t == "-") { "-".into() } else { list.join(" / ") + " µs" }
    }

    fn of(list: &[Duration]) -> Self {
        let mut us: Vec<f64> = list.iter().map(|d| d.as_secs_f64() * 1e6).collect();
        us.sort_by(f64::total_cmp);
        if us.is_empty() {
            return Times([0.0; 6]);
        }
        let at = |q: f64| us[((us.len() as f64 * q) as usize).min(us.len() - 1)];
        let average = us.iter().sum::<f64>() / us.len() as f64;
        Times([average, at(0.5), at(0.9), at(0.99), at(0.999), us[us.len() - 1]])
    }

    fn json(&self) -> Value {
        let [avg, p50, p90, p99, p999, max] = self.0;
        json!({"avg": avg, "p50": p50, "p90": p90, "p99": p99, "p99.9": p999, "max": max})
    }
}

pub fn print(reports: &[&EngineReport], failures: usize, slowest: usize) {
    let mut text = String::from("\n");
    let columns: Vec<Vec<(&str, String)>> = reports.iter().map(|r| r.rows()).collect();
    // Writing to a string cannot fail.
    let _ = write!(text, "{:<40}", "");
    for report in reports {
        let _ = write!(text, "{:>18}", report.name);
    }
    text.push('\n');
    for row in 0..columns.first().map_or(0, Vec::len) {
        let _ = write!(text, "{:<40}", columns[0][row].0);
        for column in &columns {
            let _ = write!(text, "{:>18}", column[row].1);
        }
        text.push('\n');
    }
    for report in reports {
        for (what, list) in [
            ("compile error", &report.compile_errors),
            ("wrongly refused", &report.wrongly_refused),
            ("wrongly accepted", &report.wrongly_accepted),
            ("failed", &report.failed),
        ] {
            for (id, error) in list.iter().take(failures) {
                let line: String = error.lines().collect::<Vec<_>>().join(" ").chars().take(240).collect();
                let _ = writeln!(text, "{} {what}: {id}: {line}", report.name);
            }
        }
        for (time, place) in report.slow.iter().take(slowest) {
            let _ = writeln!(text, "{} slow: {:.1} us at {place}", report.name, time.as_secs_f64() * 1e6);
        }
        let mut slow_first: Vec<_> = report.slow_first.iter().collect();
        slow_first.sort_by_key(|s| std::cmp::Reverse(s.0));
        for (time, id) in slow_first.into_iter().take(slowest) {
            let _ =
                writeln!(text, "{} slow first mask: {:.1} us: {id}", report.name, time.as_secs_f64() * 1e6);
        }
    }
    print!("{text}");
}

/// The table of the documentation, a column for each engine.
pub fn to_markdown(reports: &[&EngineReport]) -> String {
    type Cell = fn(&EngineReport) -> String;
    let rows: [(&str, Cell); 14] = [
        ("schemas", |r| r.schemas.to_string()),
        ("schemas passing", |r| {
            format!("{} ({:.1} %)", r.passing, 100.0 * r.passing as f64 / r.schemas.max(1) as f64)
        }),
        ("refused at compile time", |r| r.compile_errors.len().to_string()),
        ("instances wrongly refused / accepted", |r| {
            format!("{} / {}", r.wrongly_refused.len(), r.wrongly_accepted.len())
        }),
        ("mask, average / median / p99", |r| Times::of(&r.masks).short([0, 1, 3])),
        ("slowest mask of 1,000 / of all", |r| Times::of(&r.masks).short([4, 5])),
        ("first mask from schema text, average / median / p99", |r| {
            Times::of(&r.first_masks).short([0, 1, 3])
        }),
        ("the same two where none refused: mask, average / median / p99", |r| {
            Times::of(&r.common_masks).short([0, 1, 3])
        }),
        ("first mask, average / median / p99", |r| Times::of(&r.common_first_masks).short([0, 1, 3])),
        ("accept, average / p99", |r| Times::of(&r.accepts).short([0, 3])),
        ("warm mask, copied, average / median", |r| Times::of(&r.warm_masks).short([0, 1])),
        ("warm mask, borrowed, average / median", |r| Times::of(&r.borrowed).short([0, 1])),
        ("warm accept, average / median", |r| Times::of(&r.warm_accepts).short([0, 1])),
        ("kB held by a grammar, median / p90 / most", |r| {
            let kb = r.bytes_at().map(|b| b.map_or("-".into(), |b| format!("{:.0}", b as f64 / 1000.0)));
            kb.join(" / ")
        }),
    ];
    let line =
        |cells: &mut dyn Iterator<Item = String>| format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
    let names = reports.iter().map(|r| r.name.to_string());
    let mut text = line(&mut std::iter::once(String::new()).chain(names));
    text += &line(&mut std::iter::repeat_n("---".to_string(), reports.len() + 1));
    for (name, cell) in rows {
        text += &line(&mut std::iter::once(name.to_string()).chain(reports.iter().map(|r| cell(r))));
    }
    text
}

pub fn to_json(reports: &[&EngineReport], file: &Path) -> String {
    let name = file.file_name().map(|n| n.to_string_lossy().into_owned());
    let engines: Vec<Value> = reports.iter().map(|r| r.json()).collect();
    serde_json::to_string_pretty(&json!({"file": name, "engines": engines})).expect("plain values") + "\n"
}
