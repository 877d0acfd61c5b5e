//! Downloads of a repository's files into the cache, with one progress bar for all of them.
//!
//! # Cost
//!
//! One request describes the repository. Then there are two requests for each file that the cache
//! lacks. A file of the same content that another commit has is linked, not fetched. Each large file
//! is read once more for its digest.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use hf_hub::api::Progress;
use hf_hub::api::sync::{ApiBuilder, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::cache::{HubCache, RepoCache, home_folder, is_commit};
use super::name::is_plain_path;
use crate::error::{Error, ErrorKind, Result};
use crate::model::config::bad;

/// Number of times that an interrupted download is continued.
const RETRIES: usize = 3;
/// Bytes of a file that are read at once for its digest.
const PIECE: usize = 1 << 20;

/// Options for fetching a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchOptions {
    /// The branch, tag or commit of a model whose name has none.
    pub revision: Option<String>,
    /// Use only the cache. Also set by the environment variable `HF_HUB_OFFLINE`.
    pub offline: bool,
    /// The hub's address. Without it, the environment variable `HF_ENDPOINT` or the public hub.
    pub endpoint: Option<String>,
    /// The cache's folder. Without it, the folder of the hub's other tools (`HF_HUB_CACHE`,
    /// `HF_HOME`).
    pub cache_dir: Option<PathBuf>,
    /// Show no progress on standard error.
    pub quiet: bool,
}

/// A connection to one repository at one revision.
pub(super) struct Remote {
    cache: HubCache,
    repo: String,
    /// The hub's address, if it is not the public one.
    endpoint: Option<String>,
    token: Option<String>,
}

/// What the hub says about a repository.
#[derive(Debug, Deserialize)]
pub(super) struct Listing {
    /// The commit.
    sha: String,
    siblings: Vec<Listed>,
}

/// A file of a repository.
#[derive(Debug, Deserialize)]
struct Listed {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob_id: Option<String>,
    lfs: Option<Large>,
}

/// What is known about a large file.
#[derive(Debug, Deserialize)]
struct Large {
    sha256: String,
}

impl Listing {
    pub(super) fn commit(&self) -> &str {
        &self.sha
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.siblings.iter().map(|f| f.rfilename.clone()).collect()
    }
}

impl Listed {
    /// Returns the name of the file's content in the cache.
    fn etag(&self) -> Option<&str> {
        let etag = self.lfs.as_ref().map(|l| &*l.sha256).or(self.blob_id.as_deref())?;
        etag.bytes().all(|b| b.is_ascii_hexdigit()).then_some(etag)
    }
}

impl Remote {
    pub(super) fn new(repo: &str, cache: &HubCache, options: &FetchOptions) -> Remote {
        let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.trim().is_empty());
        let endpoint = options.endpoint.clone().or_else(|| variable("HF_ENDPOINT"));
        let stored = || std::fs::read_to_string(home_folder().join("token")).ok();
        let token = variable("HF_TOKEN").or_else(stored).map(|t| t.trim().to_owned());
        Remote {
            cache: cache.clone(),
            repo: repo.to_owned(),
            endpoint: endpoint.map(|e| e.trim().trim_end_matches('/').to_owned()),
            token: token.filter(|t| !t.is_empty()),
        }
    }

    fn open(&self, revision: &str) -> Result<ApiRepo> {
        let mut api = ApiBuilder::from_cache(Cache::new(self.cache.root().to_path_buf()))
            .with_token(self.token.clone())
            .with_retries(RETRIES)
            .with_user_agent("ffwd", env!("CARGO_PKG_VERSION"));
        if let Some(endpoint) = &self.endpoint {
            api = api.with_endpoint(endpoint.clone());
        }
        let api = api.build().map_err(|e| self.failure(&e))?;
        Ok(api.repo(Repo::with_revision(self.repo.clone(), RepoType::Model, revision.to_owned())))
    }

    /// Asks the hub for the commit and the files of a revision.
    pub(super) fn list(&self, revision: &str) -> Result<Listing> {
        let request = self.open(revision)?.info_request().query("blobs", "true");
        let mut response = request.call().map_err(|e| self.failure(&e))?;
        let mut listing: Listing = response.body_mut().read_json().map_err(|e| self.failure(&e))?;
        if !is_commit(&listing.sha) {
            return Err(bad(format!("the model {}: the hub names no commit", self.repo)));
        }
        // Names become paths in the cache.
        listing.siblings.retain(|f| is_plain_path(&f.rfilename));
        Ok(listing)
    }

    /// Puts files of a listing into the cache, those that it lacks.
    pub(super) fn download(&self, listing: &Listing, files: &[String], quiet: bool) -> Result<()> {
        let cache = self.cache.repo(&self.repo);
        let folder = cache.snapshot(&listing.sha);
        let mut missing = Vec::new();
        for file in listing.siblings.iter().filter(|f| files.contains(&f.rfilename)) {
            if !folder.join(&file.rfilename).is_file() && !link(&cache, &folder, file)? {
                missing.push(file);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let api = self.open(&listing.sha)?;
        let bar = Bar::new(&self.repo, missing.iter().filter_map(|f| f.size).sum(), quiet);
        for file in missing {
            let path = api
                .download_with_progress(&file.rfilename, bar.file())
                .map_err(|e| self.failure(&format!("{}: {e}", file.rfilename)))?;
            bar.done(file.size.unwrap_or_default());
            self.verify(file, &path, &cache)?;
        }
        cache.forget_ref(&listing.sha);
        bar.bar.finish_and_clear();
        Ok(())
    }

    /// Compares a downloaded file with its length and digest; one that differs is removed.
    fn verify(&self, file: &Listed, path: &Path, cache: &RepoCache) -> Result<()> {
        let length = std::fs::metadata(path).map_err(|e| Error::io(path, &e))?.len();
        let digest = match &file.lfs {
            Some(large) => Some((digest(path)?, large.sha256.to_ascii_lowercase())),
            None => None,
        };
        if file.size.is_none_or(|size| size == length) && digest.is_none_or(|(is, wanted)| is == wanted) {
            return Ok(());
        }
        let content = path.canonicalize().ok().filter(|p| p.starts_with(cache.blob("").as_path()));
        for damaged in [Some(path.to_path_buf()), content].into_iter().flatten() {
            // The error says what matters.
            let _ = std::fs::remove_file(damaged);
        }
        Err(bad(format!("the model {}: {} arrived damaged", self.repo, file.rfilename))
            .hint("fetch it once more"))
    }

    fn failure(&self, error: &dyn std::fmt::Display) -> Error {
        Error::new(ErrorKind::Io, format!("the model {}: {error}", self.repo))
            .hint("check the name and the connection; private models need the variable HF_TOKEN")
    }
}

/// Makes a file of a snapshot from a content that the cache has already; returns false if it lacks
/// it.
fn link(cache: &RepoCache, folder: &Path, file: &Listed) -> Result<bool> {
    let Some(etag) = file.etag() else { return Ok(false) };
    let content = cache.blob(etag);
    let length = std::fs::metadata(&content).map(|m| m.len());
    if !length.is_ok_and(|n| file.size == Some(n)) {
        return Ok(false);
    }
    let path = folder.join(&file.rfilename);
    let parent = path.parent().unwrap_or(folder);
    std::fs::create_dir_all(parent).map_err(|e| Error::io(parent, &e))?;
    // A relative link, as the other tools make them, so that the cache can be moved.
    #[cfg(unix)]
    {
        let up = "../".repeat(2 + file.rfilename.matches('/').count());
        let target = format!("{up}blobs/{etag}");
        std::os::unix::fs::symlink(target, &path).map_err(|e| Error::io(&path, &e))?;
    }
    #[cfg(not(unix))]
    std::fs::hard_link(&content, &path).map_err(|e| Error::io(&path, &e))?;
    Ok(true)
}

fn digest(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(|e| Error::io(path, &e))?;
    let (mut sha, mut piece) = (Sha256::new(), vec![0; PIECE]);
    loop {
        match file.read(&mut piece).map_err(|e| Error::io(path, &e))? {
            0 => return Ok(sha.finalize().iter().map(|b| format!("{b:02x}")).collect()),
            n => sha.update(&piece[..n]),
        }
    }
}

/// A progress bar of bytes on standard error; it shows nothing where that is no terminal.
struct Bar {
    bar: ProgressBar,
    /// Bytes of the files that are complete.
    done: AtomicU64,
}

/// The part of the bar that belongs to the file that is downloaded.
struct FileBar<'a> {
    bar: &'a Bar,
    bytes: u64,
}

impl Bar {
    fn new(repo: &str, total: u64, quiet: bool) -> Bar {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(total) };
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}") {
            bar.set_style(style);
        }
        bar.set_message(repo.to_owned());
        Bar { bar, done: AtomicU64::new(0) }
    }

    fn file(&self) -> FileBar<'_> {
        FileBar { bar: self, bytes: 0 }
    }

    fn done(&self, bytes: u64) {
        self.bar.set_position(self.done.fetch_add(bytes, Ordering::Relaxed) + bytes);
    }
}

impl Progress for FileBar<'_> {
    // Also called when a download is continued; the bytes that are there follow as an update.
    fn init(&mut self, _: usize, _: &str) {
        self.bytes = 0;
    }

    fn update(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.bar.bar.set_position(self.bar.done.load(Ordering::Relaxed) + self.bytes);
    }

    fn finish(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_follows_the_bytes_of_all_files() {
        let bar = Bar::new("someone/tiny", 150, false);
        let mut first = bar.file();
        first.init(60, "a");
        first.update(10);
        assert_eq!(bar.bar.position(), 10);
        // Continued after an interruption.
        first.init(60, "a");
        first.update(10);
        first.update(50);
        assert_eq!(bar.bar.position(), 60);
        bar.done(60);
        let mut second = bar.file();
        second.init(90, "b");
        second.update(30);
        assert_eq!((bar.bar.position(), bar.bar.length()), (90, Some(150)));
    }

    #[test]
    fn digests_are_those_of_the_standard() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"abc").unwrap();
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest(file.path()).unwrap(), known);
    }
}
