//! The files that a benchmark writes.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::super::output;
use crate::error::{Error, ErrorKind, Place, Result};

/// Options of the files that a benchmark writes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reports")]
pub(super) struct ReportArgs {
    /// Write all results as JSON to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the tables as Markdown to FILE
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write a page with plots to FILE, one file without external resources
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl ReportArgs {
    /// Checks the folders of the files, before anything runs for long.
    ///
    /// # Errors
    /// If a file cannot be there.
    pub(super) fn check(&self) -> Result<()> {
        let files = [&self.json, &self.markdown, &self.html];
        files.into_iter().flatten().try_for_each(|file| check_file(file))
    }

    /// Writes the files.
    pub(super) fn write(
        &self,
        results: &impl Serialize,
        markdown: impl FnOnce() -> String,
        html: impl FnOnce() -> Result<String>,
    ) -> Result<()> {
        if let Some(file) = &self.json {
            output::write_stats(file, results)?;
        }
        if let Some(file) = &self.markdown {
            write_text(file, &markdown())?;
        }
        if let Some(file) = &self.html {
            write_text(file, &html()?)?;
        }
        Ok(())
    }
}

/// # Errors
/// If the file is a folder, or its folder does not exist.
pub(super) fn check_file(file: &Path) -> Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let fault = match (file.is_dir(), folder.is_none_or(Path::is_dir)) {
        (true, _) => "the report cannot be a folder",
        (false, false) => "the folder of the report does not exist",
        (false, true) => return Ok(()),
    };
    Err(Error::new(ErrorKind::Io, fault)
        .at(Place::File(file.into()))
        .hint("name a file in a folder that exists"))
}

/// Writes a text as a whole.
pub(super) fn write_text(file: &Path, text: &str) -> Result<()> {
    let mut partial = file.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    std::fs::write(partial, text).map_err(|e| Error::io(partial, &e))?;
    std::fs::rename(partial, file).map_err(|e| Error::io(file, &e))
}
