//! The results of a benchmark, printed and written to files.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::super::output;
use super::about::About;
use super::rounds::INTERRUPTED;
use crate::cli::table::Grid;
use crate::error::{Error, ErrorKind, Place, Result};

/// The results of a benchmark.
pub(super) trait BenchReport: Serialize {
    /// What the text says after an interruption.
    const INTERRUPTED: &str;

    fn about(&self) -> &About;
    fn is_interrupted(&self) -> bool;
    fn grids(&self) -> Vec<Grid>;

    /// Returns what a reader must know besides the tables.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the page.
    ///
    /// # Errors
    /// If a plot cannot be drawn.
    fn html(&self) -> Result<String>;

    /// Returns the end of a page: all tables.
    fn figures(&self) -> String {
        let grids = self.grids();
        std::iter::once("<h2>All figures</h2>\n".to_owned()).chain(grids.iter().map(Grid::html)).collect()
    }

    fn text(&self) -> String {
        let lines = self.about().lines();
        let lines: Vec<String> = lines.iter().map(|(name, line)| format!("{name}: {line}")).collect();
        let mut parts: Vec<String> = self.grids().iter().map(Grid::text).collect();
        parts.push(lines.join("\n"));
        parts.extend(self.notes());
        parts.extend(self.is_interrupted().then(|| Self::INTERRUPTED.to_owned()));
        parts.join("\n\n")
    }

    fn markdown(&self) -> String {
        let lines = self.about().lines().into_iter().map(|(name, line)| format!("- {name}: {line}\n"));
        let grids: Vec<String> = self.grids().iter().map(Grid::markdown).collect();
        format!("{}\n{}", lines.collect::<String>(), grids.join("\n"))
    }
}

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

    /// Prints the results, writes the files, and returns the exit code.
    pub(super) fn finish(&self, report: &impl BenchReport) -> Result<ExitCode> {
        output::print_line(&report.text())?;
        if let Some(file) = &self.json {
            output::write_stats(file, report)?;
        }
        if let Some(file) = &self.markdown {
            output::write_file(file, &report.markdown())?;
        }
        if let Some(file) = &self.html {
            output::write_file(file, &report.html()?)?;
        }
        Ok(if report.is_interrupted() { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
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
