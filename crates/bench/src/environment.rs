//! The circumstances of a measurement: machine, model, precision, threads, version and date.

use ffwd_runtime::Engine;
use serde::{Deserialize, Serialize};

/// What a report calls the models and their formats.
#[derive(Debug, Clone)]
pub struct ModelNames {
    /// The target model.
    pub model: String,
    /// The draft model, where there is one.
    pub draft_model: String,
    /// The formats of weights, keys and values.
    pub precision: String,
}

/// The circumstances of a measurement.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Environment {
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

impl Environment {
    /// Returns the circumstances without a model.
    pub(crate) fn of_machine() -> Self {
        Environment {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
            processor: format!("{}{}", processor(), vectors()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            load: load(),
            threads: ffwd_runtime::default_threads(),
            ..Environment::default()
        }
    }

    /// Returns the circumstances with the models of an engine.
    pub(crate) fn of_engine(engine: &Engine, models: &ModelNames) -> Self {
        Environment {
            model: models.model.clone(),
            draft_model: match engine.draft() {
                None => "none".to_owned(),
                Some(_) => models.draft_model.clone(),
            },
            precision: models.precision.clone(),
            weight_bytes: engine.target().weight_bytes(),
            threads: engine.threads().number(),
            ..Environment::of_machine()
        }
    }

    /// Returns the lines that a reader sees, as name and value.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
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
    pub(crate) fn differences(&self, old: &Environment) -> Vec<String> {
        let both = [self, old].map(|one| serde_json::to_value(one).unwrap_or_default());
        let names = ["processor", "system", "model", "draft_model", "precision", "threads"];
        let differs = names.into_iter().filter(|name| both[0][name] != both[1][name]);
        differs.map(|name| format!("{name}: {} instead of {}", both[0][name], both[1][name])).collect()
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
