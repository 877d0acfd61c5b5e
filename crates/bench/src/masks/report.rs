//! The results of `ffwd bench masks`: judgements and percentiles of each engine, and the times of each
//! language.

use std::time::Duration;

use ffwd_runtime::speedup::Spread;
use serde::Serialize;
use serde_json::{Value, json};

use super::engine::TextWalk;
use super::percentiles::{Percentiles, distribution};
use super::{Outcome, Pass, TokenSample, judgement};
use crate::environment::Environment;
use crate::report::BenchReport;
use crate::table::{Grid, short, short_or_dash};

/// Largest number of languages that have a row each.
const MAX_ROWS: usize = 40;

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn ms(times: &[Duration]) -> f64 {
    us(times.iter().sum()) / 1e3
}

/// Returns all times of passes.
type Times = fn(&Pass) -> Vec<Duration>;

fn masks(walks: &[(usize, TextWalk)]) -> impl Iterator<Item = Duration> + '_ {
    walks.iter().flat_map(|(_, walk)| walk.masks.iter().copied())
}

fn accepts(walks: &[(usize, TextWalk)]) -> impl Iterator<Item = Duration> + '_ {
    walks.iter().flat_map(|(_, walk)| walk.accepts.iter().copied())
}

fn first_mask(pass: &Pass) -> Vec<Duration> {
    vec![pass.first_mask]
}

/// The first mask of a pass has a row of its own.
fn later_masks(pass: &Pass) -> Vec<Duration> {
    masks(&pass.walks).skip(1).collect()
}

/// The key of a row, its name, whether only languages count that no engine refuses, and its times.
type Row = (&'static str, &'static str, bool, Times);

/// The rows of the table of times.
const TIMES: [Row; 8] = [
    ("compile", "compile", false, |pass| pass.compile.into_iter().collect()),
    ("first_mask", "first mask, with compiling", false, first_mask),
    ("common_first_mask", "  where no engine refused", true, first_mask),
    ("mask", "mask", false, later_masks),
    ("common_mask", "  where no engine refused", true, later_masks),
    ("accept", "accept", false, |pass| accepts(&pass.walks).collect()),
    ("mask_again", "mask of a known text", false, |pass| masks(&pass.again).collect()),
    ("accept_again", "accept of a known text", false, |pass| accepts(&pass.again).collect()),
];

/// The results of one engine.
#[derive(Serialize)]
struct EngineResult {
    engine: String,
    schemas: usize,
    /// Schemas and grammars that compile and whose texts are all judged rightly.
    passing: usize,
    refused: usize,
    instances: usize,
    wrongly_refused: usize,
    wrongly_accepted: usize,
    /// Bytes that a grammar holds after all texts, if the engine reports them.
    bytes: Option<Spread>,
    /// Key, name and percentiles of each row of the table of times.
    #[serde(skip)]
    times: Vec<(&'static str, &'static str, Percentiles)>,
}

impl EngineResult {
    fn of(engine: &str, samples: &[TokenSample], outcomes: &[Outcome], common: &[bool]) -> Self {
        let served = || outcomes.iter().zip(common).filter(|(outcome, _)| outcome.refused.is_none());
        let passes = |common_only: bool| {
            let served = served().filter(move |(_, common)| **common || !common_only);
            served.flat_map(|(outcome, _)| &outcome.passes)
        };
        let times = TIMES.iter().map(|(key, name, common_only, of)| {
            (*key, *name, Percentiles::of(passes(*common_only).flat_map(of)))
        });
        let bytes: Vec<f64> = passes(false).filter_map(|pass| pass.bytes).map(|bytes| bytes as f64).collect();
        let mut result = EngineResult {
            engine: engine.to_owned(),
            schemas: outcomes.len(),
            passing: 0,
            refused: outcomes.iter().filter(|outcome| outcome.refused.is_some()).count(),
            instances: samples.iter().take(outcomes.len()).map(|sample| sample.texts.len()).sum(),
            wrongly_refused: 0,
            wrongly_accepted: 0,
            bytes: (!bytes.is_empty()).then(|| Spread::of(&bytes)),
            times: times.collect(),
        };
        for (sample, outcome) in samples.iter().zip(outcomes).filter(|(_, one)| one.refused.is_none()) {
            let Some(pass) = outcome.passes.first() else { continue };
            let mut wrong = [0, 0];
            for (text, walk) in &pass.walks {
                let text = &sample.texts[*text];
                wrong[usize::from(text.valid)] += usize::from(judgement(text, walk).is_some());
            }
            result.wrongly_accepted += wrong[0];
            result.wrongly_refused += wrong[1];
            result.passing += usize::from(wrong == [0, 0]);
        }
        result
    }

    fn json(&self) -> Value {
        let mut json = json!(self);
        self.times.iter().for_each(|(key, _, times)| json[key] = json!(times));
        json
    }
}

/// The name of a column, and its cell.
type Judgement = (&'static str, fn(&EngineResult) -> String);

/// The columns of the table of engines.
const JUDGEMENTS: [Judgement; 9] = [
    ("engine", |one| one.engine.clone()),
    ("schemas", |one| one.schemas.to_string()),
    ("passing", |one| {
        format!("{} ({:.1} %)", one.passing, 100.0 * one.passing as f64 / one.schemas.max(1) as f64)
    }),
    ("refused", |one| one.refused.to_string()),
    ("instances", |one| one.instances.to_string()),
    ("wrongly refused", |one| one.wrongly_refused.to_string()),
    ("wrongly accepted", |one| one.wrongly_accepted.to_string()),
    ("kB held, median", |one| one.bytes.map_or_else(|| "-".to_owned(), |bytes| short(bytes.median / 1e3))),
    ("upper quartile", |one| one.bytes.map_or_else(|| "-".to_owned(), |bytes| short(bytes.high / 1e3))),
];

/// A value of each pass, over the passes.
fn over(passes: &[Pass], of: impl Fn(&Pass) -> Option<f64>) -> Spread {
    Spread::of(&passes.iter().filter_map(of).collect::<Vec<_>>())
}

/// Returns some walks of a pass.
type Walks = fn(&Pass) -> &[(usize, TextWalk)];

/// A sum of times of a text, on average over the texts.
fn texts(passes: &[Pass], of: Walks, time: fn(&TextWalk) -> f64) -> Spread {
    let all: Vec<(usize, f64)> = passes.iter().flat_map(of).map(|(text, walk)| (*text, time(walk))).collect();
    let most = all.iter().map(|one| one.0 + 1).max().unwrap_or_default();
    let of = |text| all.iter().filter(move |one| one.0 == text).map(|one| one.1).collect::<Vec<_>>();
    let times = (0..most).map(of).filter(|times| !times.is_empty());
    let spreads: Vec<Spread> = times.map(|times| Spread::of(&times)).collect();
    let mean = |part: fn(&Spread) -> f64| spreads.iter().map(part).sum::<f64>() / spreads.len() as f64;
    let rounds = spreads.iter().map(|spread| spread.rounds).min().unwrap_or_default();
    Spread { median: mean(|s| s.median), low: mean(|s| s.low), high: mean(|s| s.high), rounds }
}

/// Returns the walk at a place of the order of a pass, if there is one.
fn at(pass: &Pass, place: usize) -> &[(usize, TextWalk)] {
    pass.walks.get(place..=place).unwrap_or_default()
}

/// A percentile of the masks of some walks of each pass, over the passes.
fn percentile(passes: &[Pass], of: Walks, part: fn(&Percentiles) -> f64) -> Spread {
    over(passes, |pass| {
        Some(Percentiles::of(masks(of(pass)))).filter(|all| all.count > 0).map(|all| part(&all))
    })
}

/// The key of a column, its name, and its value over all passes.
type Column = (&'static str, &'static str, fn(&[Pass]) -> Spread);

/// The columns of the table of languages. Those of one text are
/// for a newly compiled grammar (cold), one that has met one other text (new text), and one that has met
/// all texts (again).
const COLUMNS: [Column; 9] = [
    ("compile_us", "compile", |passes| over(passes, |pass| pass.compile.map(us))),
    ("first_mask_us", "first mask", |passes| over(passes, |pass| Some(us(pass.first_mask)))),
    ("cold_ms", "cold, ms", |passes| texts(passes, |pass| at(pass, 0), |walk| ms(&walk.masks))),
    ("accept_ms", "accept, ms", |passes| texts(passes, |pass| at(pass, 0), |walk| ms(&walk.accepts))),
    ("new_text_ms", "new text, ms", |passes| texts(passes, |pass| at(pass, 1), |walk| ms(&walk.masks))),
    ("again_ms", "again, ms", |passes| texts(passes, |pass| &pass.again, |walk| ms(&walk.masks))),
    ("cold_mask_p99_us", "cold p99", |passes| percentile(passes, |pass| at(pass, 0), |masks| masks.p99)),
    ("warm_mask_us", "warm p50", |passes| percentile(passes, |pass| &pass.again, |masks| masks.p50)),
    ("kb", "kB held", |passes| over(passes, |pass| pass.bytes.map(|bytes| bytes as f64 / 1e3))),
];

/// The columns of the table of multiples.
const MULTIPLES: [&str; 4] = ["first_mask_us", "cold_ms", "new_text_ms", "again_ms"];

/// The results of one engine with one language.
struct LanguageResult<'a> {
    language: &'a str,
    engine: &'a str,
    /// Why there are no times.
    fault: Option<String>,
    times: Vec<Spread>,
}

impl<'a> LanguageResult<'a> {
    fn of(engine: &'a str, sample: &'a TokenSample, outcome: &Outcome) -> Self {
        let fault = outcome.faults(sample).next();
        let passes = if fault.is_none() { &outcome.passes[..] } else { &[] };
        let times = COLUMNS.iter().map(|(.., of)| of(passes)).collect();
        LanguageResult { language: &sample.name, engine, fault, times }
    }

    /// Returns a time, which is not a number where there is none.
    fn median(&self, column: usize) -> f64 {
        let time = &self.times[column];
        if time.rounds > 0 { time.median } else { f64::NAN }
    }

    fn json(&self) -> Value {
        let mut json = json!({ "grammar": self.language, "engine": self.engine, "fault": self.fault });
        for ((key, ..), time) in COLUMNS.iter().zip(&self.times) {
            json[key] = if time.rounds > 0 { json!(time) } else { Value::Null };
        }
        json
    }
}

/// Returns the report; `outcomes` has a list for each engine, in the order of the samples.
pub(super) fn report(
    names: &[&str],
    samples: &[TokenSample],
    outcomes: &[Vec<Outcome>],
    vocabulary: usize,
    slowest: usize,
) -> BenchReport {
    let served = |at: usize| outcomes.iter().all(|all| all.get(at).is_some_and(|one| one.refused.is_none()));
    let common: Vec<bool> = (0..samples.len()).map(served).collect();
    let engines = names.iter().zip(outcomes);
    let engines: Vec<EngineResult> =
        engines.map(|(name, outcomes)| EngineResult::of(name, samples, outcomes, &common)).collect();
    let mut judged = Grid::new("schemas and grammars with their texts", &JUDGEMENTS.map(|column| column.0));
    judged.rows = engines.iter().map(|one| JUDGEMENTS.map(|(_, cell)| cell(one)).to_vec()).collect();
    let header = ["microseconds", "engine", "calls", "average", "p50", "p90", "p99", "p99.9", "max"];
    let mut times = Grid::new(format!("times, vocabulary of {vocabulary} tokens"), &header);
    for row in 0..TIMES.len() {
        for engine in &engines {
            let (_, name, percentiles) = &engine.times[row];
            times.rows.push([vec![(*name).to_owned(), engine.engine.clone()], percentiles.cells()].concat());
        }
    }
    // By language, then by engine.
    let rows = (0..samples.len()).filter(|_| samples.len() <= MAX_ROWS).map(|at| {
        let results = names.iter().zip(outcomes).filter_map(|(name, outcomes)| {
            outcomes.get(at).map(|outcome| LanguageResult::of(name, &samples[at], outcome))
        });
        results.collect::<Vec<_>>()
    });
    let rows: Vec<Vec<LanguageResult>> = rows.collect();
    let mut tables = vec![judged, times];
    if !rows.is_empty() {
        tables.push(languages(&rows));
        tables.extend((1..names.len()).map(|other| multiples(names, &rows, other)));
    }
    if slowest > 0 {
        tables.push(slowest_masks(names, samples, outcomes, slowest));
    }
    let results = json!({
        "vocabulary": vocabulary,
        "engines": engines.iter().map(EngineResult::json).collect::<Vec<_>>(),
        "results": rows.iter().flatten().map(LanguageResult::json).collect::<Vec<_>>(),
    });
    let mut report = BenchReport::new("Masks", Environment::of_machine(), &results, tables);
    report.figures.extend(["mask", "first_mask"].iter().filter_map(|wanted| {
        let at = TIMES.iter().position(|(key, ..)| key == wanted)?;
        let times = engines.iter().map(|engine| (engine.engine.as_str(), &engine.times[at].2));
        Some(distribution(&format!("{}, microseconds", TIMES[at].1), &times.collect::<Vec<_>>()))
    }));
    report
}

fn languages(rows: &[Vec<LanguageResult>]) -> Grid {
    let header: Vec<&str> =
        ["language", "engine"].into_iter().chain(COLUMNS.map(|column| column.1)).collect();
    let title = "one text, on average: sums of its masks in ms, other times in µs";
    let mut table = Grid::new(title, &header);
    for result in rows.iter().flatten() {
        let names = [result.language.to_owned(), result.engine.to_owned()];
        let times = (0..COLUMNS.len()).map(|column| short_or_dash(result.median(column)));
        table.rows.push(names.into_iter().chain(times).collect());
    }
    table
}

/// Returns the times of another engine as multiples of those of the first one, and their median.
fn multiples(names: &[&str], rows: &[Vec<LanguageResult>], other: usize) -> Grid {
    let columns: Vec<usize> = (0..COLUMNS.len()).filter(|at| MULTIPLES.contains(&COLUMNS[*at].0)).collect();
    let header: Vec<&str> =
        std::iter::once("language").chain(columns.iter().map(|at| COLUMNS[*at].1)).collect();
    let mut table = Grid::new(format!("{} / {}", names[other], names[0]), &header);
    let mut add = |name: &str, values: &[f64]| {
        let cells = values.iter().map(|value| short_or_dash(*value));
        table.rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
    };
    let mut all = Vec::new();
    for row in rows.iter().filter(|row| row.len() > other) {
        let values = columns.iter().map(|at| row[other].median(*at) / row[0].median(*at));
        let values: Vec<f64> = values.collect();
        if values.iter().any(|value| value.is_finite()) {
            add(row[0].language, &values);
            all.push(values);
        }
    }
    let column = |at: usize| {
        let finite: Vec<f64> =
            all.iter().map(|values| values[at]).filter(|value| value.is_finite()).collect();
        if finite.is_empty() { f64::NAN } else { Spread::of(&finite).median }
    };
    add("median", &(0..columns.len()).map(column).collect::<Vec<_>>());
    table
}

/// Returns the slowest masks of each engine, with the acceptance of the token after them.
fn slowest_masks(engines: &[&str], samples: &[TokenSample], outcomes: &[Vec<Outcome>], count: usize) -> Grid {
    let mut table = Grid::new("slowest masks", &["engine", "language", "text", "token", "microseconds"]);
    for (engine, outcomes) in engines.iter().zip(outcomes) {
        let mut masks: Vec<(Duration, &str, usize, usize)> = Vec::new();
        for (sample, outcome) in samples.iter().zip(outcomes) {
            let walks = outcome.passes.iter().flat_map(|pass| &pass.walks);
            masks.extend(walks.flat_map(|(text, walk)| {
                walk.masks.iter().enumerate().map(|(at, time)| (*time, sample.name.as_str(), *text, at))
            }));
            masks.sort_by_key(|mask| std::cmp::Reverse(mask.0));
            masks.truncate(count);
        }
        for (time, name, text, at) in masks {
            let cells = [engine, name, &text.to_string(), &at.to_string(), &short(us(time))];
            table.rows.push(cells.map(str::to_owned).to_vec());
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::{Language, TokenText};
    use super::*;

    #[test]
    fn each_kind_of_pass_is_over_the_same_texts() {
        let walk = |ms: u64| TextWalk { masks: vec![Duration::from_millis(ms); 2], ..TextWalk::default() };
        let pass = |walks: [(usize, u64); 2], again: [(usize, u64); 2]| Pass {
            compile: Some(Duration::from_micros(5)),
            first_mask: Duration::from_micros(9),
            walks: walks.map(|(text, ms)| (text, walk(ms))).into(),
            again: again.map(|(text, ms)| (text, walk(ms))).into(),
            bytes: Some(7),
        };
        let text = || TokenText { tokens: Vec::new(), valid: true, pieces: Vec::new() };
        let language = Language::Lark(String::new());
        let sample = TokenSample { name: "g".into(), language, texts: vec![text(), text()] };
        // Text 0 takes 10 ms a mask with a new grammar, and text 1 takes 20; as the second text a fifth of
        // it, and once more a tenth.
        let passes =
            vec![pass([(0, 10), (1, 4)], [(0, 1), (1, 2)]), pass([(1, 20), (0, 2)], [(1, 2), (0, 1)])];
        let outcome = Outcome { refused: None, passes };
        let medians = ["cold_ms", "again_ms", "new_text_ms"].map(|wanted| {
            let (_, _, of) = COLUMNS.iter().find(|(key, ..)| *key == wanted).unwrap();
            of(&outcome.passes).median
        });
        for (found, wanted) in medians.into_iter().zip([30.0, 3.0, 6.0]) {
            assert!((found - wanted).abs() < 1e-9, "{medians:?}");
        }
        let engine = EngineResult::of("e", &[sample], &[outcome], &[true]);
        // The first mask of each round is not among the masks.
        let count = |wanted: &str| engine.times.iter().find(|(key, ..)| *key == wanted).unwrap().2.count;
        assert_eq!((count("mask"), count("mask_again"), engine.passing), (6, 8, 1));
    }
}
