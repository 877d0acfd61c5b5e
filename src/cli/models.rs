//! `ffwd models`: a list of the models that run without a download.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use super::{help, output};
use crate::error::Result;
#[cfg(feature = "embedded")]
use crate::model::embedded::{EmbeddedModel, embedded_models};
#[cfg(feature = "hub")]
use crate::model::hub::{CachedModel, cached_models};
use crate::model::named::{NAMED_MODELS, NamedModel};
use crate::model::{Description, describe};

const EXAMPLES: [(&str, &str); 3] = [
    ("List the models", "ffwd models"),
    ("Print the names of the cached models", "ffwd models --json | jq -r '.cached[].name'"),
    (
        "Fetch a model by using it once, then use the copy in the cache",
        "ffwd generate Hello --model OWNER/NAME:Q4_K_M\n\
         ffwd generate Hello --model OWNER/NAME:Q4_K_M --offline",
    ),
];

/// List the embedded models, those with a name, and those in the cache of the model hub
///
/// Each model has its format, size, family and context. A model is used by its name. The models with a
/// name of ffwd are a base, from the model hub or the folder FFWD_MODELS_DIR, and an adapter.
#[derive(clap::Args)]
#[command(after_help = help::examples(&EXAMPLES))]
pub(super) struct Args {
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ModelList {
    #[cfg(feature = "embedded")]
    embedded: Vec<EmbeddedModel>,
    named: Vec<ListedModel>,
    #[cfg(feature = "hub")]
    cached: Vec<CachedModel>,
}

/// A model with a name.
#[derive(Serialize)]
struct ListedModel {
    #[serde(flatten)]
    model: &'static NamedModel,
    /// The file of the adapter, if it is there.
    adapter_file: Option<PathBuf>,
    /// The base, if it is there.
    description: Option<Description>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    #[cfg(feature = "hub")]
    let cached = cached_models(None);
    let listed = |model: &'static NamedModel| ListedModel {
        model,
        adapter_file: model.adapter_file(&[]).ok(),
        #[cfg(feature = "hub")]
        description: (model.local_base(&[]).map(describe))
            .or_else(|| Some(cached.iter().find(|c| c.name == model.base)?.description.clone())),
        #[cfg(not(feature = "hub"))]
        description: model.local_base(&[]).map(describe),
    };
    let report = ModelList {
        #[cfg(feature = "embedded")]
        embedded: embedded_models()?,
        named: NAMED_MODELS.iter().map(listed).collect(),
        #[cfg(feature = "hub")]
        cached,
    };
    output::print_report(&report, args.json, table)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the list as aligned columns; what cannot be described has its reason instead.
fn table(report: &ModelList) -> String {
    let mut rows = vec![["model", "format", "size", "family", "context"].map(str::to_owned)];
    #[cfg(feature = "embedded")]
    rows.extend(report.embedded.iter().map(|m| row(&format!("{} ({})", m.name, m.purpose), &m.description)));
    rows.extend(report.named.iter().map(|m| {
        let missing = Description { format: "fetched when it is used".to_owned(), ..Description::default() };
        let without = if m.adapter_file.is_none() { ", which is missing" } else { "" };
        let name = format!("{} (with its adapter{without})", m.model.name);
        row(&name, m.description.as_ref().unwrap_or(&missing))
    }));
    #[cfg(feature = "hub")]
    rows.extend(report.cached.iter().map(|m| row(&m.name, &m.description)));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..4).map(width).collect();
    let mut lines: Vec<String> = Vec::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(i, (cell, &width))| match i {
            // Sizes end in one column.
            2 => format!("{cell:>width$}"),
            _ => format!("{cell:width$}"),
        });
        let line = cells.chain([row[4].clone()]).collect::<Vec<_>>().join("  ");
        lines.push(line.trim_end().to_owned());
    }
    #[cfg(feature = "hub")]
    if report.cached.is_empty() {
        lines.push("The cache of the model hub is empty.".to_owned());
    }
    lines.join("\n")
}

fn row(name: &str, description: &Description) -> [String; 5] {
    let Description { format, bytes, family, context, problem } = description;
    match problem {
        Some(problem) => {
            [name.to_owned(), format!("unusable: {problem}"), size(*bytes), String::new(), String::new()]
        }
        None => [
            name.to_owned(),
            format.clone(),
            size(*bytes),
            family.clone(),
            context.map_or_else(|| "-".to_owned(), |n| n.to_string()),
        ],
    }
}

/// Returns a size in the unit that gives it at most four digits.
fn size(bytes: u64) -> String {
    match bytes {
        0 => "-".to_owned(),
        1..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        1_000_000..10_000_000_000 => format!("{} MB", bytes.div_ceil(1_000_000)),
        _ => format!("{} GB", bytes.div_ceil(1_000_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_few_digits() {
        let sizes = [0, 1, 999_999, 1_000_000, 98_362_432, 1_117_320_768, 40_000_000_000].map(size);
        assert_eq!(sizes, ["-", "1 kB", "1000 kB", "1 MB", "99 MB", "1118 MB", "40 GB"]);
    }
}
