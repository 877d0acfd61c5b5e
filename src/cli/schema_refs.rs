//! Documents that a JSON Schema refers to: single files (`--ref`) and folders (`--schema-dir`).
//!
//! # Cost
//! All files are read before the schema is parsed, at most [`MAX_FILES`] of them.
//!
//! # Alternatives considered
//! Opening the paths that a schema names was rejected: a schema of unknown origin must not choose
//! files. Nothing is opened but the named files and the files of the folder.

use std::path::{Path, PathBuf};

use clap::Args;

use super::args::read_text;
use crate::ConstraintBuilder;
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of files of a folder.
const MAX_FILES: usize = 1_000;

/// Options that supply documents for `$ref`.
#[derive(Args)]
#[command(next_help_heading = "JSON")]
pub(super) struct ReferenceArgs {
    /// Resolve references to URI with the JSON Schema in FILE (repeatable)
    #[arg(long = "ref", value_name = "URI=FILE")]
    references: Vec<String>,
    /// Resolve references with the JSON Schemas in FOLDER (*.json, also in its folders)
    ///
    /// The schema refers to them by their `$id` or by their path in the folder.
    #[arg(long, value_name = "FOLDER")]
    schema_dir: Option<PathBuf>,
}

/// Pairs of URI and text.
pub(super) struct Documents(pub(super) Vec<(String, String)>);

impl ReferenceArgs {
    pub(super) fn is_empty(&self) -> bool {
        self.references.is_empty() && self.schema_dir.is_none()
    }

    /// Reads the files.
    pub(super) fn read(&self) -> Result<Documents> {
        let mut all = Vec::new();
        for reference in &self.references {
            let Some((uri, file)) = reference.rsplit_once('=').filter(|r| !r.0.is_empty()) else {
                let message = format!("--ref {reference:?} is not of the form URI=FILE");
                return Err(Error::new(ErrorKind::InvalidOption, message)
                    .hint("such as --ref https://example.com/address=address.schema.json"));
            };
            all.push((uri.to_string(), read_text(Path::new(file))?));
        }
        if let Some(folder) = &self.schema_dir {
            for path in json_files(folder)? {
                let text = read_text(&path)?;
                let inner = path.strip_prefix(folder).unwrap_or(&path);
                let parts: Vec<_> = inner.iter().map(|part| part.to_string_lossy()).collect();
                // A file that is not JSON is an error only if the schema refers to it.
                if let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) {
                    let ids = ["$id", "id"].iter().filter_map(|name| value.get(name)?.as_str());
                    all.extend(ids.map(|id| (id.to_string(), text.clone())));
                }
                all.push((parts.join("/"), text));
            }
        }
        Ok(Documents(all))
    }
}

impl Documents {
    /// Adds these documents to a builder.
    pub(super) fn add_to<'a>(&'a self, builder: ConstraintBuilder<'a>) -> ConstraintBuilder<'a> {
        self.0.iter().fold(builder, |builder, (uri, text)| builder.document(uri, text.as_str()))
    }
}

/// Returns the `*.json` files of a folder and of its subfolders, sorted. Links to folders are not
/// followed.
fn json_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut todo = vec![folder.to_path_buf()];
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|e| Error::io(&folder, &e))? {
            let entry = entry.map_err(|e| Error::io(&folder, &e))?;
            let kind = entry.file_type().map_err(|e| Error::io(entry.path(), &e))?;
            if kind.is_dir() {
                todo.push(entry.path());
            } else if entry.path().extension().is_some_and(|e| e == "json") {
                found.push(entry.path());
            }
            if found.len() + todo.len() > MAX_FILES {
                let message = format!("--schema-dir has more than {MAX_FILES} files");
                return Err(Error::new(ErrorKind::TooComplex, message).hint("name single files with --ref"));
            }
        }
    }
    found.sort();
    Ok(found)
}
