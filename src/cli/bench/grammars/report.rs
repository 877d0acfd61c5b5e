//! The results of `ffwd bench grammars`.

use std::time::Duration;

use serde::Serialize;

use super::super::about::About;
use super::super::engines::TextWalk;
use super::super::outputs::BenchReport;
use super::super::page;
use super::super::percentiles::{Percentiles, distribution};
use super::passes::Rotation;
use crate::cli::spread::Spread;
use crate::cli::table::{Grid, short};
use crate::error::Result;

/// All results of a run.
#[derive(Debug, Serialize)]
pub(super) struct GrammarsReport {
    pub about: About,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// True if Ctrl-C ended the run.
    pub interrupted: bool,
    pub results: Vec<GrammarResult>,
    /// The masks of all first passes of each engine, for the plot.
    #[serde(skip)]
    pub cold: Vec<(&'static str, Percentiles)>,
}

/// The results of one engine with one grammar. Times of texts are sums of all their masks, on
/// average over the texts of the grammar.
#[derive(Debug, Default, Serialize)]
pub(super) struct GrammarResult {
    pub grammar: String,
    pub engine: String,
    /// Why there are no times.
    pub fault: Option<String>,
    pub compile_us: Spread,
    /// From the text of the grammar to the first mask.
    pub first_mask_us: Spread,
    /// A text with a newly compiled grammar.
    pub cold_ms: Spread,
    /// Accepting all tokens of that text.
    pub accept_ms: Spread,
    /// A text that the grammar has not met, after another one.
    pub new_text_ms: Option<Spread>,
    /// The same text once more.
    pub again_ms: Spread,
    pub cold_mask_p99_us: Spread,
    /// The median of the masks of a text that the grammar has met.
    pub warm_mask_us: Spread,
    /// Bytes that the grammar holds after all texts, if the engine reports them.
    pub bytes: Option<usize>,
    pub texts: Vec<TextResult>,
}

impl GrammarResult {
    /// Returns the figures of the table, which are not finite where there are none.
    fn times(&self) -> [f64; 9] {
        if self.fault.is_some() {
            return [f64::NAN; 9];
        }
        [
            self.compile_us.median,
            self.first_mask_us.median,
            self.cold_ms.median,
            self.accept_ms.median,
            self.new_text_ms.map_or(f64::NAN, |new| new.median),
            self.again_ms.median,
            self.cold_mask_p99_us.median,
            self.warm_mask_us.median,
            self.bytes.map_or(f64::NAN, |bytes| bytes as f64 / 1e3),
        ]
    }
}

/// The results of one text.
#[derive(Debug, Default, Serialize)]
pub(super) struct TextResult {
    pub tokens: usize,
    pub cold_ms: Spread,
    pub new_ms: Option<Spread>,
    pub again_ms: Spread,
}

/// What an engine did with a grammar so far.
#[derive(Default)]
pub(super) struct GrammarRounds {
    rounds: Vec<Vec<Rotation>>,
    pub fault: Option<String>,
}

impl GrammarRounds {
    pub(super) fn add(&mut self, rotations: Vec<Rotation>) {
        self.rounds.push(rotations);
    }

    /// Returns the masks of all first passes.
    pub(super) fn cold_masks(&self) -> impl Iterator<Item = Duration> + '_ {
        self.rounds.iter().flatten().flat_map(|rotation| rotation.cold.masks.iter().copied())
    }

    pub(super) fn result(&self, grammar: &str, engine: &str) -> GrammarResult {
        let mut result = GrammarResult {
            grammar: grammar.to_owned(),
            engine: engine.to_owned(),
            fault: self.fault.clone(),
            ..GrammarResult::default()
        };
        let texts = self.rounds.first().map_or(0, Vec::len);
        if self.fault.is_some() || texts == 0 {
            return result;
        }
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        result.compile_us = self.mean(|rotation| us(rotation.compile));
        result.first_mask_us = self.mean(|rotation| us(rotation.first_mask));
        result.cold_ms = self.mean(|rotation| rotation.cold.masks_ms());
        result.accept_ms = self.mean(|rotation| us(rotation.cold.accepts.iter().sum()) / 1e3);
        result.again_ms = self.mean(|rotation| rotation.again.masks_ms());
        let new = |rotation: &Rotation| rotation.new.as_ref().map_or(0.0, TextWalk::masks_ms);
        result.new_text_ms = (texts > 1).then(|| self.mean(new));
        result.cold_mask_p99_us = self.masks(|rotation| &rotation.cold, |masks| masks.p99);
        result.warm_mask_us = self.masks(|rotation| &rotation.again, |masks| masks.p50);
        let held = self.rounds.iter().flatten().filter_map(|rotation| rotation.bytes);
        result.bytes = held.max();
        result.texts = (0..texts).map(|text| self.text(text, texts)).collect();
        result
    }

    /// Returns the spread over the rounds of a mean over the texts.
    fn mean(&self, of: impl Fn(&Rotation) -> f64) -> Spread {
        let mean = |round: &Vec<Rotation>| round.iter().map(&of).sum::<f64>() / round.len() as f64;
        Spread::of(&self.rounds.iter().map(mean).collect::<Vec<_>>())
    }

    /// Returns the spread over the rounds of a percentile of single masks.
    fn masks(&self, pass: impl Fn(&Rotation) -> &TextWalk, of: impl Fn(&Percentiles) -> f64) -> Spread {
        let one = |round: &Vec<Rotation>| {
            let masks: Vec<Duration> = round.iter().flat_map(|r| pass(r).masks.iter().copied()).collect();
            of(&Percentiles::of(&masks))
        };
        Spread::of(&self.rounds.iter().map(one).collect::<Vec<_>>())
    }

    fn text(&self, text: usize, texts: usize) -> TextResult {
        let spread =
            |of: &dyn Fn(&Vec<Rotation>) -> f64| Spread::of(&self.rounds.iter().map(of).collect::<Vec<_>>());
        // A rotation ends with the text before its own.
        let new =
            |round: &Vec<Rotation>| round[(text + 1) % texts].new.as_ref().map_or(0.0, TextWalk::masks_ms);
        TextResult {
            tokens: self.rounds[0][text].cold.masks.len(),
            cold_ms: spread(&|round| round[text].cold.masks_ms()),
            new_ms: (texts > 1).then(|| spread(&new)),
            again_ms: spread(&|round| round[text].again.masks_ms()),
        }
    }
}

impl GrammarsReport {
    fn times(&self) -> Grid {
        let title = format!(
            "one text, on average: sums of its masks in ms, other times in µs; vocabulary of {} tokens",
            self.vocabulary
        );
        let header = [
            "grammar",
            "engine",
            "compile",
            "first mask",
            "cold, ms",
            "accept, ms",
            "new text, ms",
            "again, ms",
            "cold p99",
            "warm p50",
            "kB held",
        ];
        let mut grid = Grid::new(title, &header);
        for result in &self.results {
            let names = [result.grammar.clone(), result.engine.clone()];
            grid.rows.push(names.into_iter().chain(result.times().map(shown)).collect());
        }
        grid
    }

    /// Returns the times of the second engine as multiples of those of the first one, and the median
    /// of the grammars. `None` if there is one engine only.
    fn multiples(&self) -> Option<Grid> {
        let first = &self.results.first()?.engine;
        let second = &self.results.iter().find(|result| result.engine != *first)?.engine;
        let header = ["grammar", "first mask", "cold", "new text", "again"];
        let mut grid = Grid::new(format!("{second} / {first}"), &header);
        let mut columns = vec![Vec::new(); header.len() - 1];
        for own in self.results.iter().filter(|result| result.engine == *first) {
            let of = |result: &&GrammarResult| result.engine == *second && result.grammar == own.grammar;
            let Some(other) = self.results.iter().find(of) else { continue };
            if own.fault.is_some() || other.fault.is_some() {
                continue;
            }
            let (own_times, other_times) = (own.times(), other.times());
            // Those of the header.
            let multiples = [1, 2, 4, 5].map(|at| other_times[at] / own_times[at]);
            columns.iter_mut().zip(multiples).for_each(|(column, multiple)| column.push(multiple));
            grid.rows.push(row(&own.grammar, multiples));
        }
        grid.rows.push(row("median", columns.iter().map(|column| Spread::of(column).median)));
        Some(grid)
    }
}

impl BenchReport for GrammarsReport {
    const INTERRUPTED: &str = "interrupted: some grammars are missing";

    fn about(&self) -> &About {
        &self.about
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    fn grids(&self) -> Vec<Grid> {
        std::iter::once(self.times()).chain(self.multiples()).collect()
    }

    fn html(&self) -> Result<String> {
        let cold: Vec<(&str, &Percentiles)> = self.cold.iter().map(|(name, times)| (*name, times)).collect();
        let body = distribution("mask of a text with a new grammar, microseconds", &cold)?;
        Ok(page::page("Grammars", &self.about, &(body + &self.figures())))
    }
}

fn row(name: &str, multiples: impl IntoIterator<Item = f64>) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(multiples.into_iter().map(shown)).collect()
}

fn shown(number: f64) -> String {
    if number.is_finite() { short(number) } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(ms: u64) -> TextWalk {
        TextWalk { masks: vec![Duration::from_millis(ms); 2], ..TextWalk::default() }
    }

    #[test]
    fn each_kind_of_pass_is_over_the_same_texts() {
        let rotation = |cold: u64, again: u64, new: u64| Rotation {
            cold: pass(cold),
            again: pass(again),
            new: Some(pass(new)),
            bytes: Some(7),
            ..Rotation::default()
        };
        // Text 0 takes 10 ms a mask, text 1 takes 20; again and new are a tenth and a fifth of it.
        let mut rounds = GrammarRounds::default();
        rounds.add(vec![rotation(10, 1, 4), rotation(20, 2, 2)]);
        let result = rounds.result("g", "e");
        let medians = [result.cold_ms, result.again_ms, result.new_text_ms.unwrap()].map(|s| s.median);
        for (found, wanted) in medians.into_iter().zip([30.0, 3.0, 6.0]) {
            assert!((found - wanted).abs() < 1e-9, "{medians:?}");
        }
        let texts: Vec<f64> = result.texts.iter().map(|text| text.new_ms.unwrap().median).collect();
        assert!((texts[0] - 4.0).abs() < 1e-9 && (texts[1] - 8.0).abs() < 1e-9, "{texts:?}");
        assert_eq!((result.bytes, rounds.cold_masks().count()), (Some(7), 4));
    }
}
