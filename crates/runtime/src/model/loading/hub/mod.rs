//! Models by repository name, from a model hub or its local cache.
//!
//! # Cost
//!
//! A download is stored once, in the cache that all tools of the hub share. Its length and, if the
//! hub names one, its digest are checked. A cached model costs one request to check that it is
//! current, or none when offline.
//!
//! # Alternatives considered
//!
//! The hub's client with a block transfer of its own (version 1) was rejected: it brings five times
//! the crates of the plain client. `docs/benchmarks.md` has the numbers.

mod cache;
mod choose;
mod download;
mod name;

use std::path::PathBuf;

pub use cache::{CachedModel, cached_models};
pub use name::ModelName;

use self::cache::{HubCache, MAIN};
use self::choose::choose;
use self::download::Remote;
use crate::error::{Error, ErrorKind, Result};
pub use download::FetchOptions;

/// Makes sure that a model is in the cache, and returns its path: that of the GGUF file (of a split
/// model, the first), or the folder of the safetensors files.
/// [`EngineBuilder::model`](crate::decode::EngineBuilder::model) and
/// [`vocabulary_of`](super::vocabulary_of) read both.
///
/// A name without a file means the safetensors files, or else the only GGUF file of the repository.
/// If the hub does not answer, a copy in the cache is used, with a warning in the log.
///
/// # Errors
/// Returns an error if the hub cannot be reached or refuses, and the model is not in the cache.
/// Also if the repository has no such file, or no weights that can be read, or two revisions are named.
///
/// # Examples
/// ```no_run
/// use ffwd::model::hub::{FetchOptions, fetch};
///
/// let path = fetch(&"owner/name-GGUF:Q4_K_M".parse()?, &FetchOptions::default())?;
/// let engine = ffwd::Engine::builder().model(path).build()?;
/// # Ok::<(), ffwd::Error>(())
/// ```
pub fn fetch(model: &ModelName, options: &FetchOptions) -> Result<PathBuf> {
    let model = &match (&options.revision, model.revision()) {
        (None, _) => model.clone(),
        (Some(revision), None) => model.clone().at(revision)?,
        (Some(revision), Some(_)) => {
            let message = format!("the revision {revision}, and the one in {model}");
            return Err(Error::new(ErrorKind::InvalidOption, message).hint("name one of them"));
        }
    };
    let cache = HubCache::new(options.cache_dir.as_deref());
    let repo = cache.repo(model.repo());
    let revision = model.revision().unwrap_or(MAIN);
    let cached = || repo.commit(revision).map(|commit| repo.find(model, &commit));
    if options.offline || offline_by_environment() {
        return cached().unwrap_or_else(|| Err(absent(model)));
    }
    let remote = Remote::new(model.repo(), &cache, options);
    let listing = match remote.list(revision) {
        Ok(listing) => listing,
        Err(error) => match cached() {
            Some(Ok(path)) => {
                tracing::warn!("{error}; using the copy in the cache");
                return Ok(path);
            }
            _ => return Err(error),
        },
    };
    let choice = choose(model, &listing.names())?;
    remote.download(&listing, &choice.files, options.quiet)?;
    repo.set_commit(revision, listing.commit())?;
    repo.find(model, listing.commit())
}

fn offline_by_environment() -> bool {
    std::env::var("HF_HUB_OFFLINE")
        .is_ok_and(|v| matches!(v.to_ascii_uppercase().as_str(), "1" | "TRUE" | "YES" | "ON"))
}

fn absent(model: &ModelName) -> Error {
    Error::new(ErrorKind::Io, format!("the model {model} is not in the cache"))
        .hint("offline, only models in the cache can be used; fetch it once while online")
}
