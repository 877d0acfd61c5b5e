//! Documents that a JSON Schema refers to: single files, or all of a folder.
//!
//! Files are read before the schema is parsed, at most [`MAX_FILES`] of them; nothing outside the folder and
//! the files named is opened, whatever the schema says. Opening paths that the schema names was rejected: a
//! schema from elsewhere must not choose files.

use std::path::{Path, PathBuf};

use clap::Args;

use super::args::read;
use crate::constraint::json_schema::JsonSchema;
use crate::error::{Error, ErrorKind, Result};

/// Most files of a folder.
const MAX_FILES: usize = 1_000;

/// What `$ref` may lead to outside of the schema.
#[derive(Args)]
pub(super) struct ReferenceArgs {
    /// A JSON Schema to which the schema refers by this URI; repeat the option
    #[arg(long = "ref", value_name = "URI=FILE")]
    references: Vec<String>,
    /// A folder with JSON Schemas (*.json, also in its folders) to which the schema refers by their `$id`,
    /// or by their path in the folder
    #[arg(long, value_name = "FOLDER")]
    schema_dir: Option<PathBuf>,
}

/// Documents with the URIs under which they are known.
pub(super) struct Supplied(Vec<(String, String)>);

impl ReferenceArgs {
    pub(super) fn is_empty(&self) -> bool {
        self.references.is_empty() && self.schema_dir.is_none()
    }

    /// Reads the files.
    pub(super) fn read(&self) -> Result<Supplied> {
        let mut all = Vec::new();
        for reference in &self.references {
            let Some((uri, file)) = reference.rsplit_once('=').filter(|r| !r.0.is_empty()) else {
                let message = format!("--ref {reference:?} is not of the form URI=FILE");
                return Err(Error::new(ErrorKind::InvalidOption, message)
                    .hint("such as --ref https://example.com/address=address.schema.json"));
            };
            all.push((uri.to_string(), read(Path::new(file))?));
        }
        if let Some(folder) = &self.schema_dir {
            for path in files(folder)? {
                let text = read(&path)?;
                let inner = path.strip_prefix(folder).unwrap_or(&path);
                let parts: Vec<_> = inner.iter().map(|part| part.to_string_lossy()).collect();
                // What is no JSON is told apart where something refers to it.
                if let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) {
                    let ids = ["$id", "id"].iter().filter_map(|name| value.get(name)?.as_str());
                    all.extend(ids.map(|id| (id.to_string(), text.clone())));
                }
                all.push((parts.join("/"), text));
            }
        }
        Ok(Supplied(all))
    }
}

impl Supplied {
    /// The schema with these documents.
    pub(super) fn supply<'a>(&'a self, mut schema: JsonSchema<'a>) -> JsonSchema<'a> {
        for (uri, text) in &self.0 {
            schema = schema.document(uri, text.as_str());
        }
        schema
    }
}

/// The `*.json` files of a folder and of the folders in it, sorted; links to folders are not followed.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
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
