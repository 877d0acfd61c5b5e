//! The results of `ffwd bench masks`: percentiles, tables and the plot of their distribution.

use std::time::Duration;

use serde::Serialize;

use super::super::about::About;
use super::super::engines::TextWalk;
use super::super::outputs::BenchReport;
use super::super::page;
use super::super::percentiles::{Percentiles, distribution};
use crate::cli::table::Grid;
use crate::error::Result;

/// What an engine did with one schema.
#[derive(Debug, Default)]
pub(super) struct SchemaOutcome {
    /// Why the schema was refused.
    pub refused: Option<String>,
    /// From the text of the schema to the compiled grammar; none if the engine does not tell.
    pub compile: Option<Duration>,
    /// From the text of the schema to the first mask.
    pub first_mask: Duration,
    masks: Vec<Duration>,
    accepts: Vec<Duration>,
    /// Instances that are valid and were refused, and that are not and were accepted.
    wrongly_refused: usize,
    wrongly_accepted: usize,
}

impl SchemaOutcome {
    pub(super) fn passes(&self) -> bool {
        self.refused.is_none() && self.wrongly_refused == 0 && self.wrongly_accepted == 0
    }

    /// Adds an instance.
    pub(super) fn add(&mut self, walk: TextWalk, valid: bool) {
        let accepted = walk.fault.is_none();
        self.wrongly_refused += usize::from(valid && !accepted);
        self.wrongly_accepted += usize::from(!valid && accepted);
        self.masks.extend(walk.masks);
        self.accepts.extend(walk.accepts);
    }
}

/// What an engine did with all schemas so far.
pub(super) struct EngineMasks {
    result: EngineResult,
    compiles: Vec<Duration>,
    first_masks: Vec<Duration>,
    masks: Vec<Duration>,
    accepts: Vec<Duration>,
}

/// All results of a run.
#[derive(Debug, Serialize)]
pub(super) struct MasksReport {
    pub about: About,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// True if Ctrl-C ended the run.
    pub interrupted: bool,
    pub engines: Vec<EngineResult>,
}

/// The results of one engine.
#[derive(Debug, Default, Clone, Serialize)]
pub(super) struct EngineResult {
    pub engine: String,
    pub schemas: usize,
    /// Schemas that compile and judge all of their instances rightly.
    pub passing: usize,
    pub refused: usize,
    pub instances: usize,
    pub wrongly_refused: usize,
    pub wrongly_accepted: usize,
    /// From the text of the schema to the compiled grammar.
    pub compile: Percentiles,
    /// From the text of the schema to the first mask.
    pub first_mask: Percentiles,
    pub mask: Percentiles,
    pub accept: Percentiles,
}

impl EngineMasks {
    pub(super) fn new(engine: &str) -> Self {
        let result = EngineResult { engine: engine.to_owned(), ..EngineResult::default() };
        let none = Vec::new;
        EngineMasks { result, compiles: none(), first_masks: none(), masks: none(), accepts: none() }
    }

    pub(super) fn add(&mut self, outcome: SchemaOutcome, instances: usize) {
        let result = &mut self.result;
        result.schemas += 1;
        result.passing += usize::from(outcome.passes());
        result.refused += usize::from(outcome.refused.is_some());
        result.instances += instances;
        result.wrongly_refused += outcome.wrongly_refused;
        result.wrongly_accepted += outcome.wrongly_accepted;
        if outcome.refused.is_none() {
            self.compiles.extend(outcome.compile);
            self.first_masks.push(outcome.first_mask);
            self.masks.extend(outcome.masks);
            self.accepts.extend(outcome.accepts);
        }
    }

    pub(super) fn result(&self) -> EngineResult {
        EngineResult {
            compile: Percentiles::of(&self.compiles),
            first_mask: Percentiles::of(&self.first_masks),
            mask: Percentiles::of(&self.masks),
            accept: Percentiles::of(&self.accepts),
            ..self.result.clone()
        }
    }
}

impl BenchReport for MasksReport {
    const INTERRUPTED: &str = "interrupted: some schemas are missing";

    fn about(&self) -> &About {
        &self.about
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    fn grids(&self) -> Vec<Grid> {
        let header =
            ["engine", "schemas", "passing", "refused", "instances", "wrongly refused", "wrongly accepted"];
        let mut schemas = Grid::new("schemas and instances", &header);
        let header = ["microseconds", "engine", "calls", "average", "p50", "p90", "p99", "max"];
        let title = format!("times, vocabulary of {} tokens", self.vocabulary);
        let mut times = Grid::new(title, &header);
        for engine in &self.engines {
            let share = 100.0 * engine.passing as f64 / engine.schemas.max(1) as f64;
            schemas.rows.push(vec![
                engine.engine.clone(),
                engine.schemas.to_string(),
                format!("{} ({share:.1} %)", engine.passing),
                engine.refused.to_string(),
                engine.instances.to_string(),
                engine.wrongly_refused.to_string(),
                engine.wrongly_accepted.to_string(),
            ]);
        }
        type Times = fn(&EngineResult) -> &Percentiles;
        let kinds: [(&str, Times); 4] = [
            ("compile", |engine| &engine.compile),
            ("first mask, with compiling", |engine| &engine.first_mask),
            ("mask", |engine| &engine.mask),
            ("accept", |engine| &engine.accept),
        ];
        for (name, of) in kinds {
            for engine in &self.engines {
                let cells = of(engine).cells();
                times.rows.push([vec![name.to_owned(), engine.engine.clone()], cells].concat());
            }
        }
        vec![schemas, times]
    }

    fn html(&self) -> Result<String> {
        type Times = fn(&EngineResult) -> &Percentiles;
        let plots: [(&str, Times); 2] = [
            ("mask, microseconds", |engine| &engine.mask),
            ("first mask from the text of the schema, microseconds", |engine| &engine.first_mask),
        ];
        let mut body = String::new();
        for (axis, of) in plots {
            let times = self.engines.iter().map(|engine| (engine.engine.as_str(), of(engine)));
            body += &distribution(axis, &times.collect::<Vec<_>>())?;
        }
        Ok(page::page("Masks", &self.about, &(body + &self.figures())))
    }
}
