//! The circumstances of a measurement: machine, model, precision, threads, version and date.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::super::args::ModelArgs;
use crate::decode::Engine;

/// The circumstances of a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct About {
    pub version: String,
    pub date: String,
    /// The name of the processor, and its vector extensions that the kernels use.
    pub processor: String,
    pub cores: usize,
    pub system: String,
    /// Processes that were running or waiting on average in the last minute, if known.
    pub load: Option<f64>,
    /// Threads of a forward.
    pub threads: usize,
    pub model: String,
    pub draft_model: String,
    pub precision: String,
    /// Bytes of the weights in memory.
    pub weight_bytes: usize,
}

impl About {
    pub(super) fn of(engine: &Engine, models: &ModelArgs) -> Self {
        let name = |name: &str| {
            let file = Path::new(name).file_name();
            file.map_or_else(|| name.to_owned(), |file| file.to_string_lossy().into_owned())
        };
        let draft = match (engine.draft(), models.draft_name()) {
            (None, _) => "none".to_owned(),
            (Some(_), Some(draft)) => name(draft),
            (Some(_), None) => "embedded".to_owned(),
        };
        let model = models.name().map_or_else(|| "embedded".to_owned(), name);
        About {
            model: match models.adapter() {
                Some(adapter) => format!("{model} with {}", name(adapter)),
                None => model,
            },
            draft_model: draft,
            precision: models.precision(),
            weight_bytes: engine.target().weight_bytes(),
            threads: engine.threads().number(),
            ..About::machine()
        }
    }

    /// Returns the circumstances without a model.
    pub(super) fn machine() -> Self {
        About {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
            processor: format!("{}{}", processor(), vectors()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            load: load(),
            threads: crate::default_threads(),
            ..About::default()
        }
    }

    /// Returns the lines that a reader sees, as name and value.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let load = self.load.map_or_else(String::new, |load| format!(", load {load:.2}"));
        let mut lines = vec![
            ("machine", format!("{}, {} cores, {}{load}", self.processor, self.cores, self.system)),
            ("ffwd", format!("{}, {} threads, {}", self.version, self.threads, self.date)),
        ];
        if !self.model.is_empty() {
            let mb = self.weight_bytes as f64 / 1e6;
            let (model, precision, draft) = (&self.model, &self.precision, &self.draft_model);
            lines.push(("model", format!("{model}, precision {precision}, {mb:.1} MB, draft model {draft}")));
        }
        lines
    }

    /// Returns the circumstances that differ and make times hard to compare.
    pub(super) fn differences(&self, old: &About) -> Vec<String> {
        let pairs = [
            ("processor", &self.processor, &old.processor),
            ("system", &self.system, &old.system),
            ("model", &self.model, &old.model),
            ("draft model", &self.draft_model, &old.draft_model),
            ("precision", &self.precision, &old.precision),
        ];
        let mut found: Vec<String> = pairs
            .iter()
            .filter(|(_, new, old)| new != old)
            .map(|(name, new, old)| format!("{name}: {new} instead of {old}"))
            .collect();
        if self.threads != old.threads {
            found.push(format!("threads: {} instead of {}", self.threads, old.threads));
        }
        found
    }
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim().to_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown processor".to_owned())
}

#[cfg(target_arch = "x86_64")]
fn vectors() -> &'static str {
    if std::arch::is_x86_feature_detected!("avx512vnni") {
        " with AVX-512 VNNI"
    } else if std::arch::is_x86_feature_detected!("avx512f") {
        " with AVX-512"
    } else if std::arch::is_x86_feature_detected!("avx2") {
        " with AVX2"
    } else {
        ""
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn vectors() -> &'static str {
    ""
}

fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}
