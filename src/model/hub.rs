//! Models by repository name, from a model hub or its local cache.
//!
//! # Cost
//!
//! A download is stored once, in the cache that all tools of the hub share, and checked by the
//! hub's client. A cached model costs one request to check that it is current, or none when
//! offline.
//!
//! # Alternatives considered
//!
//! Fetching whole repositories was rejected: many hold the same weights in several formats. Pickled
//! weights can run code and are never fetched.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use hf_hub::HFClient;
use hf_hub::progress::{DownloadEvent, ProgressEvent, ProgressHandler};
use indicatif::{ProgressBar, ProgressStyle};

use super::config::bad;
use crate::error::{Error, ErrorKind, Result};

/// Files that are fetched together with the weights.
const METADATA: [&str; 6] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "chat_template.jinja",
    "additional_chat_templates/*.jinja",
];
/// Names of the weights that [`Model::from_dir`](super::Model::from_dir) reads.
const WEIGHTS: [&str; 3] = ["model.safetensors", "model-*.safetensors", "model.safetensors.index.json"];

/// Options for fetching a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchOptions {
    /// Use only the cache. Also set by the environment variable `HF_HUB_OFFLINE`.
    pub offline: bool,
    /// Fetch this GGUF file of the repository instead of safetensors weights.
    pub gguf: Option<String>,
    /// The hub's address. Without it, the environment variable `HF_ENDPOINT` or the public hub.
    pub endpoint: Option<String>,
    /// The cache's folder. Without it, the folder of the hub's other tools (`HF_HUB_CACHE`,
    /// `HF_HOME`).
    pub cache_dir: Option<PathBuf>,
    /// Show no progress on standard error.
    pub quiet: bool,
}

/// Makes sure that the model `repo` (`owner/name`) is in the cache, and returns its folder.
/// [`Model::from_dir`](super::Model::from_dir) and
/// [`Vocabulary::from_file`](crate::Vocabulary::from_file) read it. `revision` is a branch, tag or
/// commit.
///
/// # Errors
/// Returns an error if the name is not valid, or if the hub cannot be reached or refuses. Also if
/// the model is not in the cache while offline, or has no weights that can be read.
pub fn fetch(repo: &str, revision: Option<&str>, options: &FetchOptions) -> Result<PathBuf> {
    let (owner, name) = split(repo)?;
    if let Some(r) = revision {
        check_path("the revision", r)?;
    }
    if let Some(file) = &options.gguf {
        check_path("the GGUF file", file)?;
    }
    let offline = options.offline || offline_by_environment();
    let mut client = HFClient::builder();
    if let Some(endpoint) = &options.endpoint {
        client = client.endpoint(endpoint);
    }
    if let Some(dir) = &options.cache_dir {
        client = client.cache_dir(dir);
    }
    let client = client.build_sync().map_err(|e| failure(repo, offline, &e))?;
    let weights: Vec<&str> = match &options.gguf {
        Some(file) => vec![file],
        None => WEIGHTS.to_vec(),
    };
    let patterns = METADATA.iter().chain(&weights).map(|s| (*s).to_owned()).collect();
    let request = client.model(owner, name);
    let request = request
        .snapshot_download()
        .maybe_revision(revision.map(str::to_owned))
        .allow_patterns(patterns)
        .local_files_only(offline);
    let folder = match options.quiet || offline {
        true => request.send(),
        false => request.progress(Bar::new(repo)).send(),
    };
    let folder = folder.map_err(|e| failure(repo, offline, &e))?;
    check_complete(repo, &folder, options)?;
    Ok(folder)
}

fn split(repo: &str) -> Result<(&str, &str)> {
    let fits = |s: &str| {
        !s.is_empty()
            && !s.starts_with('.')
            && s.len() <= 96
            && s.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    repo.split_once('/').filter(|(o, n)| fits(o) && fits(n)).ok_or_else(|| {
        Error::new(ErrorKind::InvalidOption, format!("`{}` is not a repository name", repo.escape_debug()))
            .hint("names look like HuggingFaceTB/SmolLM2-135M-Instruct")
    })
}

/// Checks a text that becomes part of a path in the cache.
fn check_path(what: &str, text: &str) -> Result<()> {
    let plain = |part: &str| {
        !part.is_empty()
            && part != "."
            && part != ".."
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c))
    };
    match text.len() <= 200 && text.split('/').all(plain) {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::InvalidOption, format!("{what} is `{}`", text.escape_debug()))
            .hint("use letters, digits, `-`, `_`, `.` and single slashes")),
    }
}

fn offline_by_environment() -> bool {
    std::env::var("HF_HUB_OFFLINE")
        .is_ok_and(|v| matches!(v.to_ascii_uppercase().as_str(), "1" | "TRUE" | "YES" | "ON"))
}

fn failure(repo: &str, offline: bool, error: &hf_hub::HFError) -> Error {
    let error = Error::new(ErrorKind::Io, format!("the model {repo}: {error}"));
    match offline {
        true => error.hint("offline, only models in the cache can be used; fetch it once while online"),
        false => error.hint("check the name and the connection; private models need the variable HF_TOKEN"),
    }
}

/// Checks that a snapshot in the cache is complete; it may hold only a part of the repository.
fn check_complete(repo: &str, folder: &Path, options: &FetchOptions) -> Result<()> {
    let has = |name: &str| folder.join(name).is_file();
    let complete = match &options.gguf {
        Some(file) => has(file),
        None => has("config.json") && (has("model.safetensors") || has("model.safetensors.index.json")),
    };
    if complete {
        return Ok(());
    }
    let what = options.gguf.as_deref().unwrap_or("config.json with model.safetensors");
    Err(bad(format!("the model {repo} has no {what} in {}", folder.display())).hint(
        "repositories of GGUF files need the name of one; a partial cache is completed by fetching online",
    ))
}

/// A progress bar of bytes on standard error.
struct Bar {
    bar: ProgressBar,
    /// Bytes done by file, as events report them.
    files: Mutex<std::collections::HashMap<String, u64>>,
    /// Bytes done of the files that are only reported together.
    together: AtomicU64,
}

impl Bar {
    fn new(repo: &str) -> Self {
        let bar = ProgressBar::no_length().with_message(repo.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}") {
            bar.set_style(style);
        }
        Bar { bar, files: Mutex::default(), together: AtomicU64::new(0) }
    }
}

impl ProgressHandler for Bar {
    fn on_progress(&self, event: &ProgressEvent) {
        let ProgressEvent::Download(event) = event else { return };
        match event {
            DownloadEvent::Start { total_bytes, .. } => self.bar.set_length(*total_bytes),
            DownloadEvent::Progress { files } => {
                // A poisoned lock only makes the bar wrong.
                let Ok(mut done) = self.files.lock() else { return };
                for f in files {
                    done.insert(f.filename.clone(), f.bytes_completed);
                }
                let sum: u64 = done.values().sum();
                self.bar.set_position(sum.max(self.together.load(Ordering::Relaxed)));
            }
            DownloadEvent::AggregateProgress { bytes_completed, .. } => {
                self.together.store(*bytes_completed, Ordering::Relaxed);
                self.bar.set_position(*bytes_completed);
            }
            DownloadEvent::Complete => self.bar.finish_and_clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hf_hub::progress::{FileProgress, FileStatus};

    #[test]
    fn the_bar_follows_the_bytes_of_all_files() {
        let bar = Bar::new("someone/tiny");
        let tell = |event| bar.on_progress(&ProgressEvent::Download(event));
        let file = |name: &str, bytes| FileProgress {
            filename: name.into(),
            bytes_completed: bytes,
            total_bytes: 100,
            status: FileStatus::InProgress,
        };
        tell(DownloadEvent::Start { total_files: 2, total_bytes: 200 });
        assert_eq!(bar.bar.length(), Some(200));
        tell(DownloadEvent::Progress { files: vec![file("a", 30)] });
        tell(DownloadEvent::Progress { files: vec![file("b", 50), file("a", 40)] });
        assert_eq!(bar.bar.position(), 90);
        tell(DownloadEvent::AggregateProgress {
            bytes_completed: 150,
            total_bytes: 200,
            bytes_per_sec: None,
        });
        assert_eq!(bar.bar.position(), 150);
        tell(DownloadEvent::Complete);
        assert!(bar.bar.is_finished());
    }
}
